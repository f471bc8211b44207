"""The random streams in C against those on NumPy, which test_streams.py holds to PyTorch's."""

from __future__ import annotations

import threading

import ml_dtypes
import numpy as np
import pytest
from numpy._core._multiarray_umath import __cpu_features__

from tapegrad.kernels import cpu
from tapegrad.ops.creation import ranges
from tapegrad.ops.draws import rejection, streams, twister
from tapegrad.ops.draws.twister import Stream
from tapegrad.ops.random import gamma_kernels

if cpu.KERNELS is None:
    pytest.skip(f"no kernels in C: {cpu.REASON}", allow_module_level=True)

SIZES = [0, 1, 2, 3, 7, 15, 16, 17, 31, 33, 100, 623, 624, 625, 1000, 5000, 131071, 131088, 300001]
FLOATS = [np.dtype(name) for name in ("float32", "float64", "float16")] + [
    np.dtype(ml_dtypes.bfloat16)
]


def weights(rows):
    return np.linspace(0, 1, 4 * rows + 8).reshape(-1, 4)


DRAWS = {
    "uniform": lambda s, n, t: streams.uniform(s, (n,), t),
    "uniform in a range": lambda s, n, t: streams.uniform(s, (n,), t, -1.3, 2.7),
    "normal": lambda s, n, t: streams.normal(s, (n,), t),
    "normal, scaled": lambda s, n, t: streams.normal(s, (n,), t, 0.3, 1.7),
    "normal, strided": lambda s, n, t: streams.normal(s, (n,), t, 0.3, 1.7, contiguous=False),
    "complex": lambda s, n, t: streams.normal(s, (n,), np.dtype(np.complex64)),
    "integers": lambda s, n, t: streams.integers(s, (n,), streams.I64, 0, 10),
    "integers of a sign": lambda s, n, t: streams.integers(s, (n,), streams.I64, -7, -2),
    "small integers": lambda s, n, t: streams.integers(s, (n,), np.dtype(np.int16), -7, 300),
    "all integers": lambda s, n, t: streams.integers(s, (n,), streams.I64),
    "long integers": lambda s, n, t: streams.integers(s, (n,), streams.I64, -5, 1 << 40),
    "permutation": lambda s, n, t: streams.permutation(s, n),
    "coins": lambda s, n, t: streams.bernoulli(s, 0.3, (n,), t),
    "coins of chances": lambda s, n, t: streams.bernoulli(s, np.full(n, 0.3, t), (n,), t),
    "one of a row": lambda s, n, t: streams.multinomial(
        s, np.linspace(0, 1, 4 * n + 8).astype(t).reshape(-1, 4), 1
    ),
    "exponential": lambda s, n, t: streams.exponential(s, (n,), t, 1.5),
    "cauchy": lambda s, n, t: streams.cauchy(s, (n,), t, 1.5, 2.0),
    "log_normal": lambda s, n, t: streams.log_normal(s, (n,), t),
}


@pytest.fixture(params=[1, 2])
def threads(request):
    before = cpu.KERNELS.threads()
    cpu.KERNELS.set_threads(request.param)
    yield request.param
    cpu.KERNELS.set_threads(before)


# With AVX-512 NumPy has exp, log and sines of its own in double precision: an ulp from libm's at
# times, which an exponential makes more of.
OWN_FUNCTIONS = __cpu_features__.get("AVX512_SKX", False)


def same_draws(made, expected):
    if made.tobytes() == expected.tobytes():
        return True
    if not OWN_FUNCTIONS or made.dtype != np.float64:
        return False
    return bool((np.abs(made - expected) <= 8 * np.spacing(np.abs(expected))).all())


WAITING = 5024  # where a state has the second normal number of a pair, which waits


def same_states(ours, theirs):
    a, b = ours.get_state().tobytes(), theirs.get_state().tobytes()
    made, expected = (np.frombuffer(x[WAITING : WAITING + 8]) for x in (a, b))
    rest = a[:WAITING] + a[WAITING + 8 :] == b[:WAITING] + b[WAITING + 8 :]
    return rest and same_draws(made, expected)


def on_numpy(monkeypatch, draw, *arguments):
    with monkeypatch.context() as patch:
        patch.setattr(streams, "KERNELS", None)
        patch.setattr(twister, "KERNELS", None)
        return draw(*arguments)


@pytest.mark.parametrize("name", DRAWS)
def test_same_bytes_as_on_numpy(name, threads, monkeypatch):
    for dtype in FLOATS:
        ours, theirs = Stream(7), Stream(7)
        for n in SIZES:
            made = DRAWS[name](ours, n, dtype)
            expected = on_numpy(monkeypatch, DRAWS[name], theirs, n, dtype)
            assert made.dtype == expected.dtype and made.shape == expected.shape
            assert same_draws(made, expected), (dtype, n)
            assert same_states(ours, theirs)


@pytest.mark.parametrize("seed", range(20))
def test_draws_of_all_kinds_take_turns(seed, monkeypatch):
    chosen = np.random.default_rng(seed)
    ours, theirs = Stream(seed), Stream(seed)
    for stream in (ours, theirs):
        stream.words(0)  # both begin where the kernels are
    for _ in range(40):
        draw = DRAWS[chosen.choice(list(DRAWS))]
        n, dtype = int(chosen.choice(SIZES[:-3])), FLOATS[chosen.integers(len(FLOATS))]
        here, there = (ours, theirs) if chosen.integers(2) else (theirs, ours)
        made = draw(here, n, dtype)
        assert same_draws(made, on_numpy(monkeypatch, draw, there, n, dtype))
    assert same_states(ours, theirs)


def test_the_state_is_where_numpy_keeps_it():
    stream = Stream(3)
    stream.words(700)
    state = stream._bits.state["state"]
    assert state["pos"] == stream._state[624] == 76
    assert np.array_equal(state["key"], stream._state[:624])


def test_threads_share_a_stream():
    stream, drawn = Stream(5), []

    def work():
        for _ in range(50):
            drawn.append(stream.words(1000))

    together = [threading.Thread(target=work) for _ in range(4)]
    for thread in together:
        thread.start()
    for thread in together:
        thread.join()
    assert np.array_equal(np.sort(np.concatenate(drawn)), np.sort(Stream(5).words(200_000)))


REJECTED = {
    "poisson": lambda stream, x: rejection.poisson(stream, x * 9),
    "binomial": lambda stream, x: rejection.binomial(stream, np.floor(x * 20), x / 6),
    "gamma": lambda stream, x: gamma_kernels.gamma_numbers(stream, x),
}


@pytest.mark.parametrize("ahead", [1, 100, 1 << 16])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", REJECTED)
def test_numbers_by_rejection(name, dtype, ahead, monkeypatch):
    """Those of Python, wherever the uniform numbers run out; and what comes after them."""
    x = np.random.default_rng(1).uniform(0, 5, (40, 9)).astype(dtype)
    x[0, :4] = 0, 1, 2, 5
    monkeypatch.setattr(rejection, "MOST_AHEAD", ahead)
    found, stream = [], Stream(8)
    for kernels in (cpu.KERNELS, None):
        monkeypatch.setattr(rejection, "KERNELS", kernels)
        stream.manual_seed(8)
        streams.normal(stream, (3,), np.dtype(np.float64))  # leaves an odd one
        found.append((REJECTED[name](stream, x), stream.next_normal, stream.words(5)))
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ranges(dtype, monkeypatch):
    cases = [(0.0, 1.0, 1000), (-5.0, 0.37, 33), (1e8, 1.0, 70), (10.0, -0.3, 16), (0.1, 0.1, 15)]
    found = [ranges.steps_from(*case, np.dtype(dtype)) for case in cases]
    monkeypatch.setattr(ranges, "KERNELS", None)
    for case, ours in zip(cases, found, strict=True):
        np.testing.assert_array_equal(ours, ranges.steps_from(*case, np.dtype(dtype)))
