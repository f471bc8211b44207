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
    if C is None or type(x) is not np.ndarray or not x.size or not is_dense(x):
        return ""
    if dim != tuple(range(x.ndim - len(dim), x.ndim)) or not dim:
        return ""
    return KINDS.get(x.dtype.char, "") if x.dtype.isnative and 1 not in x.shape else ""


def c2c(x: Any, dim: Ints, normalization: int, forward: bool, kind: str) -> Any:
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
        return c2c(input, dim, normalization, forward, kind)

    return kernel


def real_to_complex(reference: Any) -> Any:
    def kernel(input: Any, dim: Ints, normalization: int, onesided: bool) -> Any:
        kind = known(input, dim)
        if not kind:
            return reference(input, dim, normalization, onesided)
        if not onesided and len(dim) > 1:
            return c2c(input, dim, normalization, True, kind)
        last = dim[-1]
        count = input.shape[last]
        run = C.rfft_n_odd if count % 2 else C.rfft_n_even
        by = factor(normalization, count, kind)
        known_half = count // 2 + 1
        if not onesided:  # the other half mirrors it
            out = np.empty((*input.shape[:-1], count), kind)
            half = run(input, by, out=out[..., :known_half])
            np.conjugate(half[..., count - known_half : 0 : -1], out=out[..., known_half:])
            return out
        half = along(run, input, last, by, known_half, kind)
        return c2c(half, dim[:-1], normalization, True, kind)

    return kernel


def complex_to_real(reference: Any) -> Any:
    def kernel(input: Any, dim: Ints, normalization: int, last_dim_size: int) -> Any:
        kind = known(input, dim)
        if len(dim) != 1 or not kind or kind != input.dtype.char:
            return reference(input, dim, normalization, last_dim_size)
        by = factor(normalization, last_dim_size, kind)
        return along(C.irfft, input, dim[0], by, last_dim_size, kind.lower())

    return kernel


OVERRIDES = {
    "_fft_c2c": complex_to_complex,
    "_fft_r2c": real_to_complex,
    "_fft_c2r": complex_to_real,
}
