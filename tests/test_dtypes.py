"""dtypes, promotion, devices and sizes on their own, below the tensors."""

from __future__ import annotations

import copy
import io
import pickle
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import tapegrad as torch
from tapegrad import dtypes as D
from tapegrad.core import promote as P
from tapegrad.core.size import Size
from tapegrad.device import CPU, channels_last, device, entered, strided

WIDE_UNSIGNED = (D.uint16, D.uint32, D.uint64)


@pytest.mark.parametrize("d", D.ALL, ids=str)
def test_singleton_survives_copies(d):
    for again in (copy.copy(d), copy.deepcopy([d])[0], pickle.loads(pickle.dumps(d))):
        assert again is d
    assert D.NAMES[d.name] is d
    assert D.ALL[d.index] is d


@pytest.mark.parametrize("d", [d for d in D.ALL if d is not D.bfloat16], ids=str)
def test_numpy_round_trip(d):
    assert D.of(d.np) is d
    assert d.np.itemsize == d.itemsize


def test_both_64_bit_c_integers_are_int64():
    assert D.of(np.dtype("q")) is D.of(np.dtype("int64")) is D.int64


def test_bfloat16_array():
    import ml_dtypes

    assert D.of(np.dtype(ml_dtypes.bfloat16)) is D.bfloat16
    assert D.bfloat16.np.itemsize == 2


def in_process(code, *blocked):
    """What a program prints in a process of its own, in which some packages are missing."""
    head = "".join(f"sys.modules[{name!r}] = None\n" for name in blocked)
    code = f"import sys\n{head}{textwrap.dedent(code)}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_bfloat16_is_loaded_when_it_is_used():
    out = in_process(
        """
        import tapegrad as torch
        x = torch.ones(2) @ torch.ones(2, 2)
        torch.finfo(torch.bfloat16), torch.promote_types(torch.bfloat16, torch.float16)
        assert x.dtype != torch.bfloat16 and torch.float32 in (torch.bfloat16, torch.float32)
        torch.nn.Linear(2, 2)(x).sum().backward()
        print("ml_dtypes" in sys.modules)
        x.bfloat16()
        print("ml_dtypes" in sys.modules)
        """
    )
    assert out.split() == ["False", "True"]


# Every way to an array of bfloat16 that a program has.
WAYS = """
    arange(3, dtype=b)
    as_tensor([1.0], dtype=b)
    BFloat16Tensor(2)
    empty(2, dtype=b)
    eye(2, dtype=b)
    frombuffer(bytearray(4), dtype=b)
    full((2,), 1.0, dtype=b)
    linspace(0, 1, 3, dtype=b)
    load(io.BytesIO(zipped))
    load(io.BytesIO(legacy))
    nn.Linear(2, 2).bfloat16()
    nn.Linear(2, 2).to(b)
    nn.Linear(2, 2, dtype=b)
    ones(2).bfloat16()
    ones(2).cumsum(0, dtype=b)
    ones(2).mean(dtype=b)
    ones(2).new_zeros(2, dtype=b)
    ones(2).softmax(0, dtype=b)
    ones(2).sum(dtype=b)
    ones(2).to(b)
    ones(2).type("torch.BFloat16Tensor")
    ones(2, dtype=torch.int16).view(b)
    rand(2, dtype=b)
    randn(2, dtype=b)
    scalar_tensor(1.0, dtype=b)
    tensor([1.0], dtype=b)
    testing.make_tensor((2,), dtype=b, device="cpu")
    zeros(2, dtype=b)
    zeros_like(torch.ones(2), dtype=b)
"""


def test_bfloat16_without_its_package():
    """Each way says what is missing and how to get it; what needs no array works."""
    files = []
    for new in (True, False):
        file = io.BytesIO()
        t = torch.ones(2, dtype=torch.bfloat16)
        torch.save(t, file, _use_new_zipfile_serialization=new)
        files.append(file.getvalue())
    ways = [line.strip() for line in WAYS.strip().splitlines()]
    out = in_process(
        f"""
        import io, tapegrad as torch
        b, (zipped, legacy) = torch.bfloat16, {files!r}

        def cast():
            with torch.autocast("cpu"):
                return torch.ones(2, 2) @ torch.ones(2, 2)

        def by_default():
            torch.set_default_dtype(b)
            try:
                return torch.ones(2)
            finally:
                torch.set_default_dtype(torch.float32)

        def attempt(way, run):
            try:
                print(way, "gave", run())
            except RuntimeError as error:
                print(str(error).partition(chr(10))[0])

        for way in {ways!r}:
            attempt(way, lambda: eval("torch." + way))
        attempt("autocast", cast)
        attempt("default", by_default)
        assert torch.finfo(b).bits == 16 and b.itemsize == 2 and repr(b) == "torch.bfloat16"
        assert torch.promote_types(b, torch.float16) is torch.float32
        assert torch.can_cast(b, torch.float32) and torch.get_autocast_dtype("cpu") is b
        assert (torch.ones(2, 2) @ torch.ones(2)).dtype is torch.float32  # autocast is off again
        """,
        "ml_dtypes",
    )
    sentence = "torch.bfloat16 needs the package ml_dtypes, which is missing: pip install ml_dtypes"
    assert out.splitlines() == [sentence] * (len(ways) + 2)


@pytest.mark.parametrize("bad", [object, "U3", "M8[D]", np.longdouble])
def test_unsupported_numpy_dtype(bad):
    with pytest.raises(TypeError, match=r"can't convert np.ndarray of type numpy\."):
        D.of(np.dtype(bad))


def test_as_dtype():
    assert D.as_dtype(D.int8) is D.int8
    with pytest.raises(
        TypeError, match=r"zeros\(\): argument 'dtype' must be torch.dtype, not str"
    ):
        D.as_dtype("int8", "zeros")


def test_dtype_is_sealed():
    with pytest.raises(AttributeError, match="not writable"):
        D.float32.itemsize = 8
    with pytest.raises(TypeError, match="not an acceptable base type"):
        type("Mine", (D.dtype,), {})


def test_finfo_is_numpys():
    for d in (D.float16, D.float32, D.float64):
        ours, theirs = D.finfo(d), np.finfo(d.np)
        for field in ("bits", "eps", "max", "min", "tiny", "smallest_normal"):
            assert getattr(ours, field) == getattr(theirs, field)
        assert ours.resolution == pytest.approx(float(theirs.resolution), rel=1e-3)
    with pytest.raises(TypeError, match="unhashable"):
        hash(D.finfo())


def test_promotion_is_symmetric_and_never_lowers():
    for a in D.ALL:
        for b in D.ALL:
            if a is not b and {a, b} & set(WIDE_UNSIGNED):
                continue
            both = P.promote_types(a, b)
            assert both is P.promote_types(b, a)
            assert both.category == max(a.category, b.category)
            assert P.can_cast(a, both) and P.can_cast(b, both)


def test_wide_unsigned_promote_only_with_floats():
    for a in WIDE_UNSIGNED:
        assert P.promote_types(a, D.float16) is D.float16
        for b in (D.bool_, D.int64, D.complex64):
            with pytest.raises(RuntimeError, match="Promotion for uint16, uint32, uint64"):
                P.promote_types(a, b)


def test_array_results_agree_with_the_general_rule():
    plain = [d for d in D.ALL if d not in (*WIDE_UNSIGNED, D.bfloat16)]
    for a in plain:
        for b in plain:
            for m in ((), (2,)):
                for n in ((), (2,)):
                    x, y = np.ones(m, a.np), np.ones(n, b.np)
                    assert P.binary_result(x, y) == P.result_dtype([x, y]).np
        for value in (True, 3, 2.5, 1j, np.float32(1), np.int8(1)):
            x = np.ones(2, a.np)
            assert P.scalar_result(x, value) == P.result_dtype([value, x]).np


def test_three_priorities():
    both = P.promote_arrays([D.int32], [D.float64], [1j])
    assert both is D.complex128
    assert P.promote_arrays([D.float32], [D.float64], [2]) is D.float32
    assert P.promote_arrays([], [D.int8], [2.0]) is D.float32


def test_default_dtype_moves_scalars():
    D.set_default_dtype(D.float64)
    try:
        assert P.scalar_result(np.ones(1, np.int32), 1.0) == np.float64
        assert P.scalar_result(np.ones(1, np.int32), 1j) == np.complex128
        assert D.default_np() == np.float64
    finally:
        D.set_default_dtype(D.float32)


@pytest.mark.parametrize(
    "value, error",
    [(2**64, OverflowError), (-(2**63) - 1, OverflowError), ("a", TypeError), (None, TypeError)],
)
def test_no_operand(value, error):
    with pytest.raises(error):
        P.scalar_result(np.ones(1, np.float32), value)


def test_entered_device_nests():
    assert entered() is None
    with device("meta"), device("cpu") as inner:
        assert entered() is inner
    assert entered() is None
    assert device("cpu") == CPU


@pytest.mark.parametrize("value", [strided, channels_last], ids=str)
def test_layout_singletons(value):
    assert copy.deepcopy(value) is value
    assert pickle.loads(pickle.dumps(value)) is value


def test_size_with_arrays():
    assert (Size([2, 3]) + np.array([1, 1])).tolist() == [3, 4]
    assert type(copy.deepcopy(Size([2]))) is Size
    assert type(pickle.loads(pickle.dumps(Size([2])))) is Size


# As PyTorch 2.13 says it when a complex number is to fill such a tensor.
SPELLED = {
    "uint8": "uint8_t",
    "int32": "int",
    "int64": "int64_t",
    "uint16": "uint16_t",
    "float16": "c10::Half",
    "bfloat16": "c10::BFloat16",
    "float32": "float",
    "float64": "double",
}


@pytest.mark.parametrize("name", SPELLED)
def test_sentence_about_numbers_that_do_not_fit(name):
    import tapegrad as tg

    sentence = f"value cannot be converted to type {SPELLED[name]} without overflow"
    with pytest.raises(RuntimeError, match=f"^{sentence}"):
        tg.zeros(2, dtype=D.named(name)).fill_(1j)


# 1 + 2**-11 + 2**-40 is nearest to 1 + 2**-10 in float16, to 1 by way of float32; 65520 - 1e-9 is
# infinite by way of float32.
TWICE_ROUNDED = [1 + 2**-11 + 2**-40, 65520 - 1e-9, 2**-25 + 2**-60, 1e-8, 1e300]


@pytest.mark.parametrize(
    "ways",
    [
        lambda v: v.half(),
        lambda v: v.repeat(200).to(torch.float16)[: len(v)],
        lambda v: torch.compile(lambda x: x.to(torch.float16) * 1)(v),
        lambda v: torch.tensor(v.tolist(), dtype=torch.float16),
        lambda v: torch.tensor(v.numpy(), dtype=torch.float16),
        lambda v: torch.zeros(len(v), dtype=torch.float16).copy_(v),
        lambda v: torch.add(v, 0, out=torch.zeros(len(v), dtype=torch.float16)),
        lambda v: torch.zeros(len(v), dtype=torch.float16).index_put_((torch.arange(5),), v.half()),
        lambda v: torch.stack([torch.zeros((), dtype=torch.float16).fill_(x) for x in v]),
    ],
)
def test_double_becomes_half_by_way_of_single(ways):
    """As in PyTorch, whose float16 is made of a float32."""
    made = ways(torch.tensor(TWICE_ROUNDED, dtype=torch.float64))
    assert made.tolist() == [1.0, float("inf"), 0.0, 0.0, float("inf")]


def test_numbers_become_half_by_way_of_single():
    x = torch.zeros(2, dtype=torch.float16)
    x[0] = TWICE_ROUNDED[0]
    assert x.tolist() == [1.0, 0.0]
    full = torch.full((2,), TWICE_ROUNDED[0], dtype=torch.float16)
    assert full.tolist() == [1.0, 1.0]
    assert (
        torch.ones(1, dtype=torch.float16) * torch.tensor(TWICE_ROUNDED[0]).double()
    ).item() == 1
