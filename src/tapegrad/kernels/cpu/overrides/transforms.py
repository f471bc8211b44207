"""Fourier transforms by the C functions that numpy.fft calls, without numpy.fft's checks.

They are not public: where NumPy has no such module, numpy.fft itself runs.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from .rows import is_dense

try:
    from numpy.fft import _pocketfft_umath as C  # type: ignore[attr-defined]
except ImportError:
    C = None

KINDS = {"f": "F", "d": "D", "F": "F", "D": "D"}  # the complex dtype of a dtype, as characters
Ints = tuple[int, ...]


@functools.lru_cache(1024)
def factor(normalization: int, count: int, kind: str) -> Any:
    """The scale of a Fourier transform of `count` points, in the precision of its numbers."""
    if normalization == 0:
        return 1
    real = np.dtype(kind.lower())
    return np.reciprocal(np.sqrt(count, dtype=real) if normalization == 1 else real.type(count))


def along(run: Any, x: Any, axis: int, by: Any, size: int, kind: str) -> Any:
    """A transform of one dimension, `size` numbers long afterwards, into a new array."""
    shape = x.shape
    if axis == x.ndim - 1:
        return run(x, by, out=np.empty((*shape[:-1], size), kind))
    out = np.empty((*shape[:axis], size, *shape[axis + 1 :]), kind)
    return run(x, by, axes=[(axis,), (), (axis,)], out=out)


def known(x: Any, dim: Ints) -> str:
    """The complex dtype of a result, as a character; empty: not for us."""
    if C is None or type(x) is not np.ndarray or not x.size or not dim or not is_dense(x):
        return ""
    return KINDS.get(x.dtype.char, "") if x.dtype.isnative and 1 not in x.shape else ""


def at_end(x: Any, dims: Ints) -> tuple[Any, Any]:
    """The array with these dimensions last in memory, and how they get back; None: they are last.

    Results stay in that order of memory, as those of the blocks do.
    """
    if dims == tuple(range(x.ndim - len(dims), x.ndim)):
        return x, None
    order = (*[d for d in range(x.ndim) if d not in dims], *dims)
    back = [0] * x.ndim
    for place, d in enumerate(order):
        back[d] = place
    return np.ascontiguousarray(x.transpose(order)), back


def c2c(x: Any, dim: Any, normalization: int, forward: bool, kind: str) -> Any:
    run = C.fft if forward else C.ifft
    for axis in reversed(dim):
        count = x.shape[axis]
        x = along(run, x, axis, factor(normalization, count, kind), count, kind)
    return x


def complex_to_complex(reference: Any) -> Any:
    def kernel(input: Any, dim: Ints, normalization: int, forward: bool) -> Any:
        kind = known(input, dim)
        if not kind or kind != input.dtype.char:
            return reference(input, dim, normalization, forward)
        x, back = at_end(input, tuple(sorted(dim)))
        dims = range(x.ndim - len(dim), x.ndim)
        out = c2c(x, dims, normalization, forward, kind)
        return out if back is None else out.transpose(back)

    return kernel


def real_to_complex(reference: Any) -> Any:
    def kernel(input: Any, dim: Ints, normalization: int, onesided: bool) -> Any:
        kind = known(input, dim)
        if not kind:
            return reference(input, dim, normalization, onesided)
        x, back = at_end(input, (*sorted(dim[:-1]), dim[-1]))
        dims = range(x.ndim - len(dim), x.ndim)
        out = of_reals(x, dims, normalization, onesided, kind)
        return out if back is None else out.transpose(back)

    return kernel


def of_reals(x: Any, dims: Any, normalization: int, onesided: bool, kind: str) -> Any:
    """The spectrum of real numbers along the last dimensions."""
    if not onesided and len(dims) > 1:
        return c2c(x, dims, normalization, True, kind)
    last = dims[-1]
    count = x.shape[last]
    run = C.rfft_n_odd if count % 2 else C.rfft_n_even
    by = factor(normalization, count, kind)
    known_half = count // 2 + 1
    if onesided:
        half = along(run, x, last, by, known_half, kind)
        return c2c(half, dims[:-1], normalization, True, kind)
    out = np.empty((*x.shape[:-1], count), kind)  # the other half mirrors it
    half = run(x, by, out=out[..., :known_half])
    np.conjugate(half[..., count - known_half : 0 : -1], out=out[..., known_half:])
    return out


def complex_to_real(reference: Any) -> Any:
    def kernel(input: Any, dim: Ints, normalization: int, last_dim_size: int) -> Any:
        kind = known(input, dim)
        rest, last = dim[:-1], dim[-1:]
        if not kind or kind != input.dtype.char:
            return reference(input, dim, normalization, last_dim_size)
        x, back = input, None
        if not rest:
            x, back = at_end(input, last)
        elif (*sorted(rest), *last) == tuple(range(x.ndim - len(dim), x.ndim)):
            x = c2c(x, sorted(rest), normalization, False, kind)
        else:
            return reference(input, dim, normalization, last_dim_size)
        by = factor(normalization, last_dim_size, kind)
        out = along(C.irfft, x, x.ndim - 1, by, last_dim_size, kind.lower())
        return out if back is None else out.transpose(back)

    return kernel


OVERRIDES = {
    "_fft_c2c": complex_to_complex,
    "_fft_r2c": real_to_complex,
    "_fft_c2r": complex_to_real,
}
