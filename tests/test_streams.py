"""The random streams against values recorded from PyTorch 2.13 on an x86 machine with AVX2."""

from __future__ import annotations

import subprocess
import sys
import zlib

import numpy as np
import pytest

from tapegrad.ops.draws import rejection, streams
from tapegrad.ops.draws.twister import Stream

# Function, dtype, size, seed, further arguments, CRC-32 of the bytes that PyTorch gives.
EXACT = [
    ("uniform", "float32", 1, 0, (), 2119059538),
    ("uniform", "float32", 15, 0, (), 2246288668),
    ("uniform", "float32", 16, 1, (), 3154877039),
    ("uniform", "float32", 17, 42, (), 23849618),
    ("uniform", "float32", 1000, 7, (), 424614700),
    ("uniform", "float32", 1000, 3, (-3.3, 100.7), 2901842867),
    ("uniform", "float64", 1, 0, (), 710567268),
    ("uniform", "float64", 15, 0, (), 105646451),
    ("uniform", "float64", 16, 1, (), 3482524443),
    ("uniform", "float64", 17, 42, (), 1675190480),
    ("uniform", "float64", 1000, 7, (), 161633299),
    ("uniform", "float64", 1000, 3, (-3.3, 100.7), 2421537741),
    ("uniform", "float16", 1, 0, (), 4106446604),
    ("uniform", "float16", 15, 0, (), 2623675389),
    ("uniform", "float16", 16, 1, (), 3421629281),
    ("uniform", "float16", 17, 42, (), 4281241054),
    ("uniform", "float16", 1000, 7, (), 1246593436),
    ("uniform", "float16", 1000, 3, (-3.3, 100.7), 1383710753),
    ("normal", "float32", 1, 0, (), 2403582877),
    ("normal", "float32", 1, 42, (), 74465322),
    ("normal", "float32", 2, 0, (), 3060460618),
    ("normal", "float32", 2, 42, (), 3188357994),
    ("normal", "float32", 15, 0, (), 3874830326),
    ("normal", "float32", 15, 42, (), 2308132694),
    ("normal", "float32", 16, 0, (), 2298586490),
    ("normal", "float32", 16, 42, (), 2280516957),
    ("normal", "float32", 17, 0, (), 2694473487),
    ("normal", "float32", 17, 42, (), 3363100665),
    ("normal", "float32", 24, 0, (), 2441453793),
    ("normal", "float32", 24, 42, (), 3841077501),
    ("normal", "float32", 31, 0, (), 3890088246),
    ("normal", "float32", 31, 42, (), 482864096),
    ("normal", "float32", 32, 0, (), 1470688276),
    ("normal", "float32", 32, 42, (), 3818159970),
    ("normal", "float32", 33, 0, (), 2751696967),
    ("normal", "float32", 33, 42, (), 1802167712),
    ("normal", "float32", 1000, 0, (), 3372653670),
    ("normal", "float32", 1000, 42, (), 2288653614),
    ("normal", "float32", 1000, 3, (1.7, 2.3), 3678184129),
    ("normal", "float32", 100000, -1, (), 3018591994),
    ("integers", "int64", 1000, 5, (0, 10), 1200074897),
    ("integers", "int64", 1000, 5, (-5, 268435450), 3314642606),
    ("integers", "int64", 1000, 5, (-5, 268435451), 3236421024),
    ("integers", "int64", 1000, 5, (-1099511627776, 35184372088832), 1879037135),
    ("integers", "int32", 1000, 5, (0, 2147483648), 218582817),
    ("integers", "uint8", 1000, 5, (0, 256), 2168957744),
    ("integers", "bool", 1000, 5, (0, 2), 3236247569),
    ("integers", "float32", 1000, 5, (3, 50), 2384085659),
    ("integers", "float16", 1000, 5, (-2000, 40), 1894325740),
    ("integers", "int64", 1000, 6, (), 3995401643),
    ("integers", "int32", 1000, 6, (), 4278217540),
    ("integers", "int16", 1000, 6, (), 2455460402),
    ("integers", "uint8", 1000, 6, (), 3780839991),
    ("integers", "bool", 1000, 6, (), 3841493363),
    ("integers", "float32", 1000, 6, (), 4213566839),
    ("integers", "float64", 1000, 6, (), 4106107134),
    ("integers", "float16", 1000, 6, (), 2475226954),
    ("integers", "int64", 1000, 6, (-9223372036854775808,), 121390172),
    ("bernoulli", "float32", 1000, 8, (0.3,), 1746077635),
    ("bernoulli", "int64", 1000, 8, (0.3,), 2501847342),
    ("bernoulli", "bool", 1000, 8, (0.3,), 2893899988),
    ("geometric", "float32", 1000, 8, (0.1,), 2363715129),
    ("geometric", "int64", 1000, 8, (0.1,), 411587194),
]

# Size, seed, CRC-32 of torch.randperm.
PERMUTATIONS = [
    (0, 0, 0),
    (1, 0, 1696784233),
    (2, 0, 538004427),
    (3, 1, 2772732516),
    (16, 0, 2260307687),
    (17, 42, 2183936203),
    (1000, 7, 1622599416),
    (60000, 0, 2957600877),
]

# These pass through the C library: the last bit may be another one elsewhere.
NEAR = [
    (
        "normal",
        "float32",
        3,
        12,
        (),
        [-0.21381382644176483, -1.377962589263916, -0.054617881774902344],
    ),
    (
        "normal",
        "float32",
        17,
        12,
        (),
        [
            -0.13201288878917694,
            -0.26253199577331543,
            -0.1610179990530014,
            -0.837180495262146,
            -1.2944939136505127,
            -0.26232075691223145,
            -0.5352509617805481,
            1.3466148376464844,
            -0.6957550048828125,
            1.9105716943740845,
            0.49242040514945984,
            -0.6920591592788696,
            -0.694435715675354,
            -0.21245062351226807,
            0.23617830872535706,
            -1.2438328266143799,
            1.4399884939193726,
        ],
    ),
    (
        "normal",
        "float32",
        3,
        12,
        (1.7, 2.3),
        [1.2082282304763794, -1.4693139791488647, 1.5743788480758667],
    ),
    (
        "normal",
        "float32",
        17,
        12,
        (1.7, 2.3),
        [
            1.3963704109191895,
            1.0961765050888062,
            1.3296586275100708,
            -0.22551505267620087,
            -1.2773358821868896,
            1.0966622829437256,
            0.46892285346984863,
            4.797214031219482,
            0.09976357221603394,
            6.094315052032471,
            2.832566976547241,
            0.1082640141248703,
            0.10279793292284012,
            1.211363673210144,
            2.2432100772857666,
            -1.1608153581619263,
            5.0119733810424805,
        ],
    ),
    (
        "exponential",
        "float32",
        3,
        12,
        (2.5,),
        [0.5171213746070862, 0.38889944553375244, 0.1254231482744217],
    ),
    (
        "exponential",
        "float32",
        17,
        12,
        (2.5,),
        [
            0.5171213746070862,
            0.38889944553375244,
            0.1254231482744217,
            0.041375335305929184,
            0.7575799226760864,
            0.36044517159461975,
            0.43628907203674316,
            0.23702311515808105,
            0.7140666842460632,
            0.001882469281554222,
            0.1316555142402649,
            0.11955159157514572,
            0.5932590961456299,
            0.20592451095581055,
            0.39438682794570923,
            0.2546333968639374,
            0.3404576778411865,
        ],
    ),
    (
        "cauchy",
        "float32",
        3,
        12,
        (0.3, 0.7),
        [0.8997600674629211, 0.581658124923706, -0.3204318583011627],
    ),
    (
        "cauchy",
        "float32",
        17,
        12,
        (0.3, 0.7),
        [
            0.8997600674629211,
            0.581658124923706,
            -0.3204318583011627,
            -1.894936203956604,
            1.6687602996826172,
            0.5126610994338989,
            0.6964402198791504,
            0.18255843222141266,
            1.502795934677124,
            -47.153724670410156,
            -0.27740007638931274,
            -0.36420202255249023,
            1.1096423864364624,
            0.07834476977586746,
            0.5949131846427917,
            0.23583351075649261,
            0.46358153223991394,
        ],
    ),
    (
        "log_normal",
        "float32",
        3,
        12,
        (0.5, 0.25),
        [1.5629054307937622, 1.1682528257369995, 1.6263618469238281],
    ),
    (
        "log_normal",
        "float32",
        17,
        12,
        (0.5, 0.25),
        [
            1.5629054307937622,
            1.1682528257369995,
            1.6263618469238281,
            1.845751404762268,
            2.006631851196289,
            1.2559479475021362,
            1.4333726167678833,
            1.3055108785629272,
            1.6685940027236938,
            1.614316463470459,
            1.5892095565795898,
            1.993234395980835,
            1.7102757692337036,
            1.2827244997024536,
            1.3538569211959839,
            1.347351312637329,
            1.5312390327453613,
        ],
    ),
    (
        "normal",
        "float64",
        3,
        12,
        (),
        [-0.21381382569760676, -1.3779625786645415, -0.05461788327728538],
    ),
    (
        "normal",
        "float64",
        17,
        12,
        (),
        [
            0.7943261045292891,
            0.21809936152088535,
            0.48125576387473695,
            -0.5640078887789707,
            1.6561346084439739,
            -1.2970471836021737,
            2.159307309308318,
            0.33814381206581035,
            -0.9360364593227044,
            0.24745686617802792,
            0.25906583942175176,
            -0.045017927087227134,
            0.827425491467414,
            0.4947582280212586,
            -0.40371743538028143,
            -0.39704326216805924,
            1.1587200313560686,
        ],
    ),
    (
        "normal",
        "float64",
        3,
        12,
        (1.7, 2.3),
        [1.2082282008955045, -1.4693139309284453, 1.5743788684622435],
    ),
    (
        "normal",
        "float64",
        17,
        12,
        (1.7, 2.3),
        [
            3.526950040417365,
            2.201628531498036,
            2.8068882569118947,
            0.4027818558083675,
            5.50910959942114,
            -1.2832085222849994,
            6.666406811409131,
            2.4777307677513636,
            -0.45288385644222,
            2.269150792209464,
            2.295851430670029,
            1.5964587676993776,
            3.6030786303750517,
            2.8379439244488944,
            0.7714498986253527,
            0.7868004970134638,
            4.365056072118958,
        ],
    ),
    (
        "exponential",
        "float64",
        3,
        12,
        (2.5,),
        [0.5171213780684222, 0.38889944405185584, 0.1254231543863929],
    ),
    (
        "exponential",
        "float64",
        17,
        12,
        (2.5,),
        [
            0.5171213780684222,
            0.38889944405185584,
            0.1254231543863929,
            0.04137533551813666,
            0.7575799033011068,
            0.3604451767202407,
            0.4362890789034431,
            0.2370231170516866,
            0.7140666934839701,
            0.0018824692488139995,
            0.13165552141070963,
            0.11955159185939834,
            0.5932590752859257,
            0.20592450477840188,
            0.3943868322024199,
            0.25463339232598803,
            0.34045766428407676,
        ],
    ),
    (
        "cauchy",
        "float64",
        3,
        12,
        (0.3, 0.7),
        [0.8997600701442079, 0.5816581428523443, -0.32043185447138556],
    ),
    (
        "cauchy",
        "float64",
        17,
        12,
        (0.3, 0.7),
        [
            0.8997600701442079,
            0.5816581428523443,
            -0.32043185447138556,
            -1.8949362123492524,
            1.6687603485881222,
            0.5126610990350037,
            0.6964402474743239,
            0.18255842963820818,
            1.502795965727893,
            -47.15372424978368,
            -0.27740007376164916,
            -0.3642020258873104,
            1.1096424406761383,
            0.07834477323597504,
            0.5949131937195427,
            0.2358335098289322,
            0.4635815368206495,
        ],
    ),
    (
        "log_normal",
        "float64",
        3,
        12,
        (0.5, 0.25),
        [1.5629054290701438, 1.1682528654117224, 1.6263618546156269],
    ),
    (
        "log_normal",
        "float64",
        17,
        12,
        (0.5, 0.25),
        [
            1.5629054290701438,
            1.1682528654117224,
            1.6263618546156269,
            1.8457513632037656,
            2.006631791128568,
            1.2559479005363567,
            1.4333725880699686,
            1.3055108717002704,
            1.6685940268549757,
            1.6143165095373764,
            1.5892095557963173,
            1.9932343620354744,
            1.710275771159767,
            1.2827245402101133,
            1.3538569354165009,
            1.3473512983702747,
            1.5312390896576844,
        ],
    ),
]

# torch.multinomial of the weights 1 ... 8 with seed 4.
MULTINOMIAL = [
    ("float32", 1, False, [2]),
    ("float32", 8, False, [2, 6, 5, 7, 4, 0, 1, 3]),
    ("float32", 1, True, [2]),
    ("float32", 20, True, [5, 6, 1, 7, 7, 5, 4, 6, 2, 5, 3, 7, 4, 0, 5, 4, 4, 6, 5, 3]),
    ("float64", 1, False, [2]),
    ("float64", 8, False, [2, 6, 5, 7, 4, 0, 1, 3]),
    ("float64", 1, True, [2]),
    ("float64", 20, True, [5, 6, 1, 7, 7, 5, 4, 6, 2, 5, 3, 7, 4, 0, 5, 4, 4, 6, 5, 3]),
]

# torch.bernoulli of 0, 1/40, ..., 1 with seed 4.
BERNOULLI = [
    (
        "float32",
        [
            0,
            0,
            0,
            0,
            1,
            1,
            0,
            0,
            0,
            0,
            0,
            1,
            0,
            0,
            0,
            0,
            0,
            1,
            1,
            1,
            0,
            1,
            0,
            1,
            0,
            1,
            0,
            1,
            0,
            1,
            0,
            0,
            1,
            1,
            0,
            1,
            1,
            1,
            1,
            1,
            1,
        ],
    ),
    (
        "float64",
        [
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            1,
            0,
            1,
            0,
            0,
            1,
            0,
            1,
            0,
            0,
            1,
            1,
            1,
            1,
            1,
            1,
            0,
            1,
            1,
            1,
            0,
            1,
            1,
            1,
            1,
            1,
            1,
            1,
            0,
            1,
            1,
            1,
            1,
        ],
    ),
]

POISSON = [0, 0, 1, 10, 10, 48, 995, 0, 0, 2, 7, 9, 45, 1038, 0, 1, 1, 9, 14, 44, 1025]
BINOMIAL = [0, 0, 1, 16, 210, 0, 1, 4, 39, 447, 0, 3, 15, 65, 717, 0, 4, 14, 89, 957]

# Normals drawn one after the other from seed 11, and the CRC-32 of the state after each.
STATES = [
    (0, 1726837546),
    (1, 3756798605),
    (3, 2022697899),
    (20, 951043565),
    (623, 3892744275),
    (700, 3966134694),
]
AFTER_STATES = [
    2.5018019676208496,
    -1.178961157798767,
    0.2996223568916321,
    -2.5124971866607666,
    -0.44933822751045227,
]


def crc(array: np.ndarray) -> int:
    return zlib.crc32(array.tobytes())


def seeded(seed: int) -> Stream:
    return Stream().manual_seed(seed)


@pytest.mark.parametrize("name, dtype, n, seed, args, expected", EXACT)
def test_same_bytes(name, dtype, n, seed, args, expected):
    stream, kind = seeded(seed), np.dtype(dtype)
    if name == "bernoulli":
        out = streams.bernoulli(stream, *args, (n,), kind)
    else:
        out = getattr(streams, name)(stream, (n,), kind, *args)
    assert out.dtype == kind and out.shape == (n,) and out.flags.c_contiguous
    assert crc(out) == expected


@pytest.mark.parametrize("n, seed, expected", PERMUTATIONS)
def test_permutation(n, seed, expected):
    out = streams.permutation(seeded(seed), n)
    assert out.dtype == np.int64 and crc(out) == expected
    assert sorted(out.tolist()) == list(range(n))


@pytest.mark.parametrize("name, dtype, n, seed, args, expected", NEAR)
def test_last_bit(name, dtype, n, seed, args, expected):
    out = getattr(streams, name)(seeded(seed), (n,), np.dtype(dtype), *args)
    np.testing.assert_array_max_ulp(out, np.array(expected, dtype), maxulp=1)


@pytest.mark.parametrize("dtype, n, replacement, expected", MULTINOMIAL)
def test_multinomial(dtype, n, replacement, expected):
    weights = np.arange(1, 9, dtype=dtype)
    out = streams.multinomial(seeded(4), weights, n, replacement)
    assert out.dtype == np.int64 and out.tolist() == expected
    rows = streams.multinomial(seeded(4), weights[None], n, replacement)
    assert rows.tolist() == [expected]


@pytest.mark.parametrize("dtype, expected", BERNOULLI)
def test_bernoulli_of_an_array(dtype, expected):
    p = (np.arange(41, dtype=np.float32) / np.float32(40)).astype(dtype)
    assert streams.bernoulli(seeded(4), p, (41,), np.dtype(dtype)).tolist() == expected


def test_counts():
    rates = np.array([0.0, 0.5, 3.0, 9.9, 10.0, 50.0, 1000.0] * 3, np.float32)
    assert rejection.poisson(seeded(4), rates).tolist() == POISSON
    trials = np.array([0.0, 5.0, 20.0, 100.0, 1000.0] * 4, np.float32)
    chances = np.array([i / 20 for i in range(20)], np.float32)
    assert rejection.binomial(seeded(4), trials, chances).tolist() == BINOMIAL


def test_state_is_pytorchs():
    stream = seeded(11)
    for n, expected in STATES:
        streams.normal(stream, (n,), np.dtype("float32"))
        state = stream.get_state()
        assert state.shape == (5056,) and state.dtype == np.uint8
        assert crc(state) == expected
        other = Stream()
        other.set_state(state)
        assert crc(other.get_state()) == expected and other.initial_seed() == 11
        stream = other
    twin = stream.copy()
    for each in (stream, twin):
        assert streams.normal(each, (5,), np.dtype("float32")).tolist() == AFTER_STATES


@pytest.mark.parametrize("seed", [0, 1, 67280421310721, 2**64 - 1])
def test_the_state_before_the_first_draw(seed):
    """It is known without the twister, which waits; and one that is told its own waits on."""
    waiting, begun = Stream(seed), Stream(seed)
    begun._start()
    assert (waiting.get_state() == begun.get_state()).all() and waiting._bits is None
    waiting.set_state(begun.get_state())
    assert waiting._bits is None
    begun.words(700)
    waiting.set_state(begun.get_state())
    assert (waiting.words(9) == begun.words(9)).all()


def test_a_copy_draws_on_its_own():
    stream = seeded(1)
    fresh, streams_first = stream.copy(), streams.uniform(stream, (3,), np.dtype("float64"))
    assert (streams.uniform(fresh, (3,), np.dtype("float64")) == streams_first).all()
    assert (stream.get_state() == fresh.get_state()).all()
    fresh.words(1)
    assert (stream.get_state() != fresh.get_state()).any()


@pytest.mark.parametrize("n", [1, 63, 64, 65, 700])
def test_words_do_not_depend_on_how_they_are_asked_for(n):
    together = seeded(2).words(2 * n).astype(np.uint64)
    stream = seeded(2)
    assert np.concatenate([stream.words(1) for _ in range(2 * n)]).tolist() == together.tolist()
    assert seeded(2).words64(n).tolist() == ((together[0::2] << 32) | together[1::2]).tolist()


def test_strided_targets_draw_pair_by_pair():
    whole = streams.normal(seeded(7), (20,), np.dtype("float32"), contiguous=False)
    stream = seeded(7)
    parts = [streams.normal(stream, (5,), np.dtype("float32")) for _ in range(4)]
    assert whole.tolist() == np.concatenate(parts).tolist()


def test_complex_numbers_are_pairs():
    parts = streams.uniform(seeded(7), (6,), np.dtype("float32"))
    assert (streams.uniform(seeded(7), (3,), np.dtype("complex64")).view("f4") == parts).all()
    parts = streams.normal(seeded(7), (40,), np.dtype("float64"), 0.0, 0.5**0.5)
    found = streams.normal(seeded(7), (20,), np.dtype("complex128")).view("f8")
    np.testing.assert_allclose(found, parts, rtol=1e-15)


def test_seeds():
    assert Stream().initial_seed() == 67280421310721
    assert seeded(-1).initial_seed() == 2**64 - 1
    assert (seeded(2**32 + 5).words(4) == seeded(5).words(4)).all()
    stream = Stream()
    assert stream.seed() == stream.initial_seed()
    for bad in (2**64, -(2**63) - 1):
        with pytest.raises(ValueError, match="^Overflow when unpacking long long$"):
            stream.manual_seed(bad)
    for bad, kind in ((1.5, "float"), ("a", "str"), (True, "bool")):
        with pytest.raises(RuntimeError, match=f"^manual_seed expected a long, but got {kind}$"):
            stream.manual_seed(bad)


def test_seeding_forgets_the_cached_normal():
    stream = seeded(7)
    first = streams.normal(stream, (1,), np.dtype("float32"))
    assert stream.next_normal is not None
    assert streams.normal(stream.manual_seed(7), (1,), np.dtype("float32")) == first


@pytest.mark.parametrize(
    "state, error, message",
    [
        (np.zeros(10, np.uint8), RuntimeError, "state size to be 10"),
        (np.zeros(5056, np.uint8), RuntimeError, "Invalid mt19937 state"),
        (np.zeros(5056, np.float32), TypeError, "RNG state must be a torch.ByteTensor"),
        (np.zeros(10112, np.uint8)[::2], RuntimeError, "RNG state must be contiguous"),
    ],
)
def test_bad_states(state, error, message):
    with pytest.raises(error, match=message):
        Stream().set_state(state)


@pytest.mark.parametrize(
    "call, message",
    [
        (("uniform", "float32", 2.0, 1.0), "but found from=2 > to=1"),
        (("uniform", "float16", 0.0, 1e5), "to is out of bounds for c10::Half"),
        (("uniform", "int64"), "\"check_uniform_bounds\" not implemented for 'Long'"),
        (("normal", "float32", 0.0, -1.0), "normal expects std >= 0.0, but found std -1"),
        (("normal", "int64"), "\"normal_kernel_cpu\" not implemented for 'Long'"),
        (("integers", "int64", 5, 5), "but got from=5 >= to=5"),
        (("integers", "uint8", 0, 257), "to - 1 is out of bounds for unsigned char"),
        (("integers", "uint8", -1, 5), "from is out of bounds for unsigned char"),
        (("exponential", "float32", 0.0), "lambda > 0.0, but found lambda=0"),
        (("cauchy", "float32", 0.0, -1.0), "sigma > 0.0, but found sigma=-1"),
        (("log_normal", "float32", 0.0, -1.0), "std > 0.0, but found std=-1"),
        (("geometric", "float32", 1.0), r"p to be in \(0, 1\), but got p=1"),
    ],
)
def test_refusals(call, message):
    name, dtype, *args = call
    with pytest.raises(RuntimeError, match=message):
        getattr(streams, name)(Stream(), (2,), np.dtype(dtype), *args)


def test_nothing_is_loaded_before_the_first_draw():
    code = (
        "import sys, tapegrad.ops.draws.streams as s; s.Stream().manual_seed(3); "
        "print('numpy.random' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("n", (1, 2, 5, 30))
def test_the_largest_of_a_row(n):
    """As a stable sort has them, with zeros and equal numbers too."""
    rng = np.random.default_rng(n)
    for x in (rng.random((20, 100)), rng.integers(0, 4, (20, 100)) * 0.5):
        for width in (100, 3, 30):
            part = x.copy()
            part[:, width:] = 0
            if len(np.unique(x)) > 50 or n == 1:  # of equal ones any will do
                want = np.argsort(-part, axis=-1, kind="stable")[:, :n]
                np.testing.assert_array_equal(streams.largest(part, n), want)
            found = np.take_along_axis(part, streams.largest(part, n), -1)
            np.testing.assert_array_equal(found, -np.sort(-part, axis=-1)[:, :n])
