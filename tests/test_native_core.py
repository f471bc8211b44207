"""What the core asks the kernels in C at every op, against NumPy and Python."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import tapegrad as torch
from tapegrad.core import base, strides
from tapegrad.kernels.cpu import KERNELS

pytestmark = pytest.mark.skipif(KERNELS is None, reason="the kernels in C are not built")
DTYPES = ("float32", "float64", "float16", "int64", "complex64", ">f4", "bool")


def some_arrays() -> list[Any]:
    random = np.random.default_rng(0)
    whole = random.standard_normal((4, 6)).astype(np.float32)
    made = [whole, whole.T, whole[::2], whole[:, ::-1], whole[1:3, 2:5], whole[:0], whole[0, 0:1]]
    made += [np.ones((), np.float32), np.ones((1, 1, 1)), np.broadcast_to(whole[:1], (4, 6))]
    made += [np.zeros((4, 6), dtype) for dtype in DTYPES]
    readonly = whole.copy()
    readonly.flags.writeable = False
    crooked = np.zeros(4 * 24 + 1, np.uint8)[1:].view(np.float32).reshape(4, 6)
    return [*made, readonly, crooked]


@pytest.mark.parametrize("x", some_arrays(), ids=lambda x: f"{x.dtype}{x.shape}{x.strides}")
def test_pairs_of_arrays(x: Any) -> None:
    for y in some_arrays():
        floats = x.dtype is y.dtype and x.dtype in (base.F32, base.F64) and x.dtype.isnative
        same = x.shape == y.shape
        assert KERNELS.alike(x, y) == ((1 if same else 2) if floats else 0)
        fresh = x.base is None and x.dtype is y.dtype and x.flags.behaved and x.dtype.isnative
        assert KERNELS.is_fresh(x, y) is bool(fresh)
        lies = same and x.strides == y.strides and x.flags.behaved and x.dtype.isnative
        lies = lies and x.flags.c_contiguous and y.flags.c_contiguous
        assert KERNELS.lies_as(x, y) is bool(lies)


@pytest.mark.parametrize("call", ["alike", "is_fresh", "lies_as"])
def test_what_is_no_array_is_refused(call: str) -> None:
    class Other(np.ndarray):
        pass

    x = np.ones(2, np.float32)
    for y in (None, 1.0, np.float32(1), x.view(Other), [x]):
        assert not getattr(KERNELS, call)(x, y) and not getattr(KERNELS, call)(y, x)
    assert not getattr(KERNELS, call)(x)


def test_views_by_strides_stay_within_their_memory() -> None:
    random = np.random.default_rng(1)
    memory = np.arange(60, dtype=np.float32)
    made = 0
    for _ in range(4000):
        low = int(random.integers(0, 50))
        x = memory[low : low + int(random.integers(1, 60 - low + 1))]
        dims = int(random.integers(0, 4))
        shape = tuple(random.integers(0, 5, dims).tolist())
        steps = tuple(random.integers(-12, 13, dims).tolist())
        offset = int(random.integers(-20, 20))
        view = KERNELS.strided(x, shape, tuple([4 * s for s in steps]), 4 * offset)
        at = (
            low
            + offset
            + sum(np.ix_(*[np.arange(n) * s for n, s in zip(shape, steps, strict=True)]))
        )
        inside = 0 not in shape and np.min(at) >= 0 and np.max(at) < 60
        assert (view is not None) == inside
        if view is not None:
            made += 1
            assert view.shape == shape and np.array_equal(view, at) and view.base is memory
    assert made > 500


def test_views_are_as_writable_as_their_array() -> None:
    x = np.zeros(4, np.float32)
    KERNELS.strided(x, (2,), (8,), 4)[:] = 1
    assert x.tolist() == [0, 1, 0, 1]
    x.flags.writeable = False
    assert not KERNELS.strided(x, (2,), (8,), 0).flags.writeable
    huge = 2**62
    assert KERNELS.strided(x, (huge,), (huge,), 0) is None
    assert KERNELS.strided(x, (2,), (4,), huge) is None
    assert KERNELS.strided(x, (2, 2), (4,), 0) is None
    with pytest.raises(TypeError):
        KERNELS.strided(x, ("two",), (4,), 0)
    with pytest.raises(OverflowError):
        KERNELS.strided(x, (2**70,), (4,), 0)


def test_views_of_meta_tensors_know_all_their_memory() -> None:
    x = torch.empty(20, device="meta").as_strided((10,), (1,), 5)
    assert x.as_strided((2, 2), (1, 2), 10).storage_offset() == 10
    with pytest.raises(RuntimeError, match="out of bounds for storage of size 80"):
        x.as_strided((2, 2), (1, 2), 18)


def test_the_same_views_without_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.arange(24, dtype=np.float32).reshape(4, 6)[1:]
    asked = [
        ((2, 3), (24, 8), 0),
        ((3,), (-4,), 8),
        ((2, 2), (0, 4), 4),
        ((), (), 12),
        ((0,), (4,), 0),
    ]
    with_kernels = [strides.strided(np, x, *each) for each in asked]
    monkeypatch.setattr(strides.HOST_KERNELS, "strided", None)
    for each, found in zip(asked, with_kernels, strict=True):
        wanted = strides.strided(np, x, *each)
        assert found.shape == wanted.shape and found.strides == wanted.strides
        assert np.array_equal(found, wanted)


def test_indices_in_range() -> None:
    for values, limit in (
        ([0, 3, 2], 4),
        ([0, 4], 4),
        ([-1], 4),
        ([], 0),
        ([0], 0),
        ([2**62], 2**62),
    ):
        x = np.array(values, np.int64)
        assert KERNELS.all_below(x, limit) is all(0 <= v < limit for v in values)
    x = np.arange(6)
    assert KERNELS.all_below(x[::2], 6) is None and KERNELS.all_below(x.astype(np.int32), 6) is None
    assert KERNELS.all_below([1], 6) is None and KERNELS.all_below(x, -1) is None


def test_instances_without_their_constructor() -> None:
    made = KERNELS.maker(base.TensorBase, torch.Tensor)()
    assert type(made) is torch.Tensor
    with pytest.raises(TypeError):
        KERNELS.maker(torch.Tensor, int)
    with pytest.raises(TypeError):
        KERNELS.maker(torch.Tensor)


def here() -> Any:
    return KERNELS.user_line(sys._getframe().f_back.f_code, {__file__: True})  # type: ignore[union-attr]


def test_where_the_user_is() -> None:
    frame = sys._getframe()
    code = frame.f_code
    line = {start: number for start, _, number in code.co_lines()}
    found, number = here(), frame.f_lineno
    assert line[max([s for s in line if s <= found])] == number
    assert KERNELS.user_line(code, {}) is not None
    assert KERNELS.user_line(here.__code__, {}) is None  # somebody else's file comes first
    assert KERNELS.user_line(here.__code__, {__file__: False}) is None
    with pytest.raises(TypeError):
        KERNELS.user_line(code, None)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_all_finite(dtype):
    rng = np.random.default_rng(0)
    most, least = np.finfo(dtype).max, np.finfo(dtype).smallest_subnormal
    for n in (0, 1, 7, 64, 1000):
        x = rng.standard_normal(n).astype(dtype)
        x[: n // 3] = np.resize([most, -most, least, 0.0, -0.0], n // 3)
        assert KERNELS.all_finite(x) is True
        for value in (np.nan, -np.nan, np.inf, -np.inf):
            for place in {0, n // 2, n - 1} if n else ():
                y = x.copy()
                y[place] = value
                assert KERNELS.all_finite(y) is False
    assert KERNELS.all_finite(np.ones((3, 4), dtype).T) is True
    for other in (np.ones(4, dtype)[::2], np.ones(3, int), np.ones(3, ">f4"), 1.0):
        assert KERNELS.all_finite(other) is None
