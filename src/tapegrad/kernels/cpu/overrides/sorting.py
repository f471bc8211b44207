"""sort and topk: stable, with the index of each value."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....core.strides import empty_like, kept_strides
from .. import KERNELS
from .gather import succeeds
from .rows import is_dense, is_half, narrowed, widened

SORT = {4: KERNELS.KERNELS["sort_32"], 8: KERNELS.KERNELS["sort_64"]}


def for_us(x: Any) -> bool:
    return (
        type(x) is np.ndarray
        and x.ndim > 0
        and x.size > 0
        and x.dtype.kind in "fi"
        and x.itemsize in SORT
        and x.dtype.isnative
        and x.size < 1 << 31
    )


def first(x: Any, dim: int, k: int, descending: bool, like: Any = None) -> Any:
    """The first `k` values along a dimension and their indices; None if memory is short.

    Laid out as a copy of `like` is, if it is given; else contiguous.
    """
    rows = KERNELS.dense(x.swapaxes(dim, -1))
    width = rows.shape[-1]
    shape = (*rows.shape[:-1], k)
    values, places = np.empty(shape, x.dtype), np.empty(shape, np.int64)
    sizes = (rows.size // width, width, k, x.dtype.kind == "f", descending)
    if not succeeds(SORT[x.itemsize], (rows, values, places), sizes):
        return None
    if dim == x.ndim - 1 and (like is None or values.strides == kept_strides(like)):
        return values, places
    return laid_out(values, dim, like), laid_out(places, dim, like)


def laid_out(rows: Any, dim: int, like: Any) -> Any:
    """A copy of rows with the last dimension moved back to its place, `dim`."""
    back = rows.swapaxes(-1, dim)
    out = np.empty(back.shape, rows.dtype) if like is None else empty_like(np, like, rows.dtype)
    KERNELS.copy_into(out, back)
    return out


def sort(reference: Any) -> Any:
    def kernel(input: Any, dim: int, descending: bool) -> Any:
        if is_half(input) and input.ndim and is_dense(input):
            values, places = kernel(widened(input), dim, descending)
            return narrowed(values, input), places
        if not for_us(input):
            return reference(input, dim, descending)
        found = first(input, dim, input.shape[dim], descending, input)
        return reference(input, dim, descending) if found is None else found

    return kernel


def topk(reference: Any) -> Any:
    def kernel(input: Any, k: int, dim: int, largest: bool) -> Any:
        if is_half(input) and input.ndim:
            values, places = kernel(widened(input), k, dim, largest)
            return narrowed(values, input), places
        if k < 1 or not for_us(input) or k > input.shape[dim]:
            return reference(input, k, dim, largest)
        found = first(input, dim, k, largest)
        return reference(input, k, dim, largest) if found is None else found

    return kernel


OVERRIDES = {"sort": sort, "sort_stable": sort, "topk": topk}
