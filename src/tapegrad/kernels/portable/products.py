"""Products of matrices whose sums have one order, in C and on NumPy.

k is cut into equal parts of at most DEEP. In each part products are added one after the other,
without fused instructions, then the parts. c/kernels/gemm_apart.c does that in tiles.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ...core.base import ndarray
from ..cpu import KERNELS
from .functions import F32, F64, FUNCTIONS, NotPortable, into

DEEP = 512  # of gemm.c
SMALL = 4096  # elements of a result that is summed up by one call of NumPy
MOST = 1 << 18  # products that are kept for that call


def by_numpy(a: Any, b: Any) -> Any:
    """(…, m, k) times (…, k, n), for k of 1 or more."""
    k, ndim = a.shape[-1], max(a.ndim, b.ndim)
    a, b = [x.reshape((1,) * (ndim - x.ndim) + x.shape) for x in (a, b)]
    parts = -(-k // DEEP)
    deep = -(-k // parts)
    total = None
    with np.errstate(all="ignore"):
        for start in range(0, k, deep):
            part = part_by_numpy(a[..., start : start + deep], b[..., start : start + deep, :])
            total = part if total is None else total + part
    return total


def part_by_numpy(a: Any, b: Any) -> Any:
    k = a.shape[-1]
    shape = (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])
    size = math.prod(shape)
    total = np.zeros(shape, a.dtype)
    if size >= SMALL:
        product = np.empty(shape, a.dtype)
        for i in range(k):
            np.multiply(a[..., i : i + 1], b[..., i : i + 1, :], out=product)
            total += product
        return total
    some = max(MOST // max(size, 1), 1)
    columns, rows = np.moveaxis(a, -1, 0)[..., None], np.moveaxis(b, -2, 0)[..., None, :]
    for start in range(0, k, some):
        products = np.empty((min(some, k - start) + 1, *shape), a.dtype)
        products[0] = total
        np.multiply(columns[start : start + some], rows[start : start + some], out=products[1:])
        total = np.add.accumulate(products, axis=0, out=products)[-1]
    return total


def strides_of(x: Any) -> tuple[int, ...] | None:
    """Steps in elements of a matrix that the kernel reads in place; None: it is copied."""
    steps = [step // x.itemsize for step in x.strides]
    if any([step % x.itemsize for step in x.strides]) or not x.flags.aligned:
        return None
    down, right = steps[-2:]
    if (right == 1 and down >= x.shape[-1]) or (down == 1 and right >= x.shape[-2]):
        return tuple(steps)
    return None


def in_place(x: Any) -> tuple[Any, tuple[int, ...]]:
    steps = strides_of(x)
    if steps is None:
        x = np.ascontiguousarray(x)
        steps = tuple([step // x.itemsize for step in x.strides])
        steps = (*steps[:-2], x.shape[-1], 1)
    return x, steps


def by_kernel(a: Any, b: Any) -> Any:
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    (m, k), n = a.shape[-2:], b.shape[-1]
    (a, a_steps), (b, b_steps) = in_place(a), in_place(b)
    out = np.empty((*lead, m, n), a.dtype)
    count = math.prod(lead)
    if count == 1:
        offsets = np.zeros((2, 1), np.int64)
    else:
        offsets = np.stack([starts(x, steps, lead) for x, steps in ((a, a_steps), (b, b_steps))])
    kernel = KERNELS.KERNELS["portable_products_f32" if a.dtype == F32 else "portable_products_f64"]
    kernel((a, b, out, offsets), (count, m, n, k, *a_steps[-2:], *b_steps[-2:]))
    return out


def starts(x: Any, steps: tuple[int, ...], lead: tuple[int, ...]) -> Any:
    """Where each matrix of a stack begins, in elements."""
    places = np.zeros(x.shape[:-2], np.int64)
    for d, step in enumerate(steps[:-2]):
        shape = [1] * places.ndim
        shape[d] = -1
        places = places + (np.arange(x.shape[d], dtype=np.int64) * step).reshape(shape)
    return np.ascontiguousarray(np.broadcast_to(places, lead)).reshape(-1)


def fits(out: Any, shape: tuple[int, ...], dtype: Any) -> bool:
    return bool(out.dtype is dtype and out.shape == shape and out.flags.carray)


NO_OFFSETS = np.zeros((2, 1), np.int64)


def of_matrices(a: Any, b: Any, out: Any) -> Any:
    """The product of two dense matrices in one call of the kernel, or None: 4 us instead of 14."""
    if type(a) is not ndarray or type(b) is not ndarray or a.ndim != 2 or b.ndim != 2:
        return None
    (m, k), (deep, n), dtype = a.shape, b.shape, a.dtype
    if k != deep or b.dtype is not dtype or (dtype is not F32 and dtype is not F64):
        return None
    a_flags, b_flags = a.flags, b.flags
    if not (m and n and k and a_flags.forc and b_flags.forc):
        return None
    if not (a_flags.aligned and b_flags.aligned):
        return None
    if out is None:
        out = KERNELS.empty((m, n), a)
    elif not fits(out, (m, n), dtype) or np.may_share_memory(out, a) or np.may_share_memory(out, b):
        return None
    a_steps = (k, 1) if a_flags.c_contiguous else (1, m)
    b_steps = (n, 1) if b_flags.c_contiguous else (1, k)
    name = "portable_products_f32" if dtype is F32 else "portable_products_f64"
    KERNELS.KERNELS[name]((a, b, out, NO_OFFSETS), (1, m, n, k, *a_steps, *b_steps))
    return out


def of_stacks(a: Any, b: Any) -> Any:
    """The product of two stacks of as many contiguous matrices, or None."""
    if type(a) is not ndarray or type(b) is not ndarray or a.ndim < 3 or b.ndim != a.ndim:
        return None
    lead, dtype, (m, k), (deep, n) = a.shape[:-2], a.dtype, a.shape[-2:], b.shape[-2:]
    if k != deep or b.dtype is not dtype or (dtype is not F32 and dtype is not F64):
        return None
    if b.shape[:-2] != lead or not (a.size and b.size and a.flags.carray and b.flags.carray):
        return None
    count = math.prod(lead)
    out = KERNELS.empty((*lead, m, n), a)
    name = "portable_products_f32" if dtype is F32 else "portable_products_f64"
    arrays = (a, b, out, offsets_of(count, m * k, k * n))
    KERNELS.KERNELS[name](arrays, (count, m, n, k, k, 1, n, 1))
    return out


@functools.lru_cache(256)
def offsets_of(count: int, a_size: int, b_size: int) -> Any:
    return np.outer([a_size, b_size], np.arange(count, dtype=np.int64))


def matmul(a: Any, b: Any, out: Any = None) -> Any:
    if KERNELS is not None:
        made = of_matrices(a, b, out)
        if made is None and out is None:
            made = of_stacks(a, b)
        if made is not None:
            return made
    a, b = np.asarray(a), np.asarray(b)
    dtype = np.result_type(a, b)
    if dtype.kind in "biu":
        return into(out, np.matmul(a, b))
    if dtype.kind == "c":
        raise NotPortable("products of complex matrices")
    work = F64 if dtype.kind == "f" and dtype.itemsize >= 8 else F32
    left = a[None, :] if a.ndim == 1 else a
    right = b[:, None] if b.ndim == 1 else b
    if left.shape[-1] != right.shape[-2]:
        np.matmul(a, b)  # raises
    left, right = left.astype(work, copy=False), right.astype(work, copy=False)
    lead = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    shape = (*lead, left.shape[-2], right.shape[-1])
    if 0 in shape or not left.shape[-1]:
        made = np.zeros(shape, work)
    elif KERNELS is not None:
        made = by_kernel(left, right)
    else:
        made = by_numpy(left, right)
    made = made.astype(dtype, copy=False)
    if a.ndim == 1:
        made = made[..., 0, :]
    if b.ndim == 1:
        made = made[..., 0]
    return into(out, made)


def dot(a: Any, b: Any, out: Any = None) -> Any:
    """NumPy's dot of what has two dimensions at the most."""
    a, b = np.asarray(a), np.asarray(b)
    if a.ndim == 0 or b.ndim == 0:
        return into(out, np.multiply(a, b))
    if a.ndim > 2 or b.ndim > 2:
        raise NotPortable("dot of more than two dimensions")
    return matmul(a, b, out)


def einsum(text: str, a: Any, b: Any) -> Any:
    """The two that blocks use."""
    if text == "bi,bj->bij":
        return a[:, :, None] * b[:, None, :]
    if text == "bpc,bpc->bp":
        return (a * b).sum(-1)
    raise NotPortable(f"einsum of {text}")


def vector_norm(x: Any, ord: float = 2, axis: int = -1) -> Any:
    """linalg.norm of real vectors along one dimension."""
    sizes = np.abs(x)
    if ord == 2:
        return np.sqrt(np.add.reduce(sizes * sizes, axis=axis))
    if math.isinf(ord):
        return sizes.max(axis=axis) if ord > 0 else sizes.min(axis=axis)
    if ord == 0:
        return np.add.reduce((sizes != 0).astype(sizes.dtype), axis=axis)
    power = FUNCTIONS["power"]
    return power(np.add.reduce(power(sizes, ord), axis=axis), 1 / ord)


PRODUCTS = {"matmul": matmul, "dot": dot, "einsum": einsum}
