"""Factorizations by LAPACK, which the OpenBLAS of NumPy's wheels contains and NumPy does not offer.

Each function takes arrays of one floating dtype and returns None where LAPACK cannot be called; the
loops in ops/linalg compute the same for it, and for GPUs. LAPACK believes what it is told of sizes,
so each function compares them itself.
"""

from __future__ import annotations

import ctypes
import functools
import math
from typing import Any

import numpy as np

from ...core.settings import Settings
from . import KERNELS
from .blas import LETTERS, blas_library

call = None if KERNELS is None else KERNELS.lapack
SMALL = 64  # work space: this many numbers a column, the largest block that LAPACK uses


def routine(name: str, dtype: Any) -> int:
    """The address of a routine for a dtype; 0 where there is none, or it shall not be used."""
    return 0 if Settings.portable else address_of(name, dtype)


@functools.cache
def address_of(name: str, dtype: Any) -> int:
    letter = LETTERS.get(dtype.name)
    if KERNELS is None or letter is None or not dtype.isnative:
        return 0
    found = getattr(blas_library(), f"scipy_{letter}{name}_64_", None)
    return 0 if found is None else ctypes.cast(found, ctypes.c_void_p).value or 0


def by_columns(x: Any) -> tuple[Any, Any]:
    """A new stack that holds the columns of each matrix as rows, and the same in one dimension."""
    turned = np.array(x.swapaxes(-1, -2), order="C", copy=True)
    return turned, turned.reshape(-1, *turned.shape[-2:])


def lu(a: Any) -> tuple[Any, Any, Any] | None:
    """The LU factors in one matrix, the pivots (from 1) and, per matrix, the first zero pivot."""
    run = routine("getrf", a.dtype)
    if not run or not a.size:
        return None
    turned, stack = by_columns(a)
    count, columns, rows = stack.shape
    depth = min(rows, columns)
    pivots = np.empty((count, depth), np.int64)
    info = np.empty(count, np.int32)
    for i in range(count):
        info[i] = call(run, rows, columns, stack[i], rows, pivots[i], 0)
    batch = a.shape[:-2]
    found = pivots.astype(np.int32).reshape(*batch, depth)
    return turned.swapaxes(-1, -2), found, info.reshape(batch)


def solve_lu(factors: Any, pivots: Any, b: Any, conjugate: bool) -> Any:
    """X of P L U X = B, or with `conjugate` of (P L U)ᴴ X = B, for stacks of one length."""
    run = routine("getrs", factors.dtype)
    n = factors.shape[-1]
    if not run or factors.dtype != b.dtype or not b.size:
        return None
    places = np.ascontiguousarray(pivots, np.int64)
    stack, (turned, right) = by_columns(factors)[1], by_columns(b)
    count, columns = right.shape[:2]
    if stack.shape != (count, n, n) or right.shape[2] != n or places.size != count * n:
        return None
    places = places.reshape(count, n)
    if not 1 <= places.min() <= places.max() <= n:
        return None  # LAPACK would follow them out of the matrix
    for i in range(len(stack)):
        sizes = (n, columns, stack[i], n, places[i], right[i], n)
        call(run, "C" if conjugate else "N", *sizes, 0)
    return turned.swapaxes(-1, -2)


def ldl(a: Any, hermitian: bool) -> tuple[Any, Any, Any] | None:
    """L and D in one matrix, the pivots (negative for blocks of two) and the first zero pivot."""
    run = routine("hetrf" if hermitian and a.dtype.kind == "c" else "sytrf", a.dtype)
    if not run or not a.size:
        return None
    stack = by_columns(a)[1]
    count, n, rows = stack.shape
    if rows != n:
        return None
    pivots = np.empty((count, n), np.int64)
    info = np.empty(count, np.int32)
    room = np.empty(n * SMALL, a.dtype)
    for i in range(count):
        each = (stack[i], n, pivots[i], room, room.size, 0)
        info[i] = call(run, "L", n, *each)
    batch = a.shape[:-2]
    found = pivots.astype(np.int32).reshape(*batch, n)
    return np.tril(stack.swapaxes(-1, -2)).reshape(a.shape), found, info.reshape(batch)


def are_pivots(pivots: list[int]) -> bool:
    """Whether an LDL factorization may have these: rows, and equal negative ones for a pair."""
    n, i = len(pivots), 0
    while i < n:
        pair = pivots[i] < 0
        if not 1 <= abs(pivots[i]) <= n or (pair and pivots[i : i + 2] != [pivots[i]] * 2):
            return False
        i += 2 if pair else 1
    return True


def solve_ldl(ld: Any, pivots: Any, b: Any, hermitian: bool) -> Any:
    """X of L D Lᵀ X = B, or of L D Lᴴ X = B, for stacks of one length."""
    run = routine("hetrs" if hermitian and ld.dtype.kind == "c" else "sytrs", ld.dtype)
    if not run or ld.dtype != b.dtype:
        return None
    factors, (turned, stack) = by_columns(ld)[1], by_columns(b)
    count, columns, n = stack.shape
    places = np.ascontiguousarray(pivots, np.int64)
    if not b.size or factors.shape != (count, n, n) or places.size != count * n:
        return None
    places = places.reshape(count, n)
    if not all([are_pivots(each) for each in places.tolist()]):
        return None  # LAPACK would follow them out of the matrix
    for i in range(count):
        call(run, "L", n, columns, factors[i], n, places[i], stack[i], n, 0)
    return turned.swapaxes(-1, -2)


def reflections(a: Any, tau: Any) -> Any:
    """The first columns of the product of Householder's reflections."""
    run = routine("ungqr" if a.dtype.kind == "c" else "orgqr", a.dtype)
    rows, columns = a.shape[-2:]
    count = tau.shape[-1]
    fits = 0 < count <= columns <= rows and tau.shape[:-1] == a.shape[:-2]
    if not run or not a.size or not fits or tau.dtype != a.dtype:
        return None
    turned, stack = by_columns(a)
    scales = np.ascontiguousarray(tau).reshape(-1, count)
    room = np.empty(columns * SMALL, a.dtype)
    for i in range(len(stack)):
        sizes = (rows, columns, count)
        call(run, *sizes, stack[i], rows, scales[i], room, room.size, 0)
    return turned.swapaxes(-1, -2)


def reflected(a: Any, tau: Any, x: Any, turn: bool) -> Any:
    """Q X, or Qᴴ X, for the product Q of Householder's reflections."""
    is_complex = a.dtype.kind == "c"
    run = routine("unmqr" if is_complex else "ormqr", a.dtype)
    count, batch = tau.shape[-1], x.shape[:-2]
    fits = a.shape[:-2] == tau.shape[:-1] == batch and a.shape[-2] == x.shape[-2] >= count
    fits = fits and a.shape[-1] >= count
    if not run or not x.size or not count or not fits or not a.dtype == tau.dtype == x.dtype:
        return None
    vectors = by_columns(a[..., :count])[1]
    turned, stack = by_columns(x)
    scales = np.ascontiguousarray(tau).reshape(-1, count)
    how = "N" if not turn else "C" if is_complex else "T"
    columns, rows = stack.shape[-2:]
    room = np.empty(columns * SMALL + SMALL * (SMALL + 1), a.dtype)
    for i in range(math.prod(batch)):
        sizes = (rows, columns, count, vectors[i], rows, scales[i])
        call(run, "L", how, *sizes, stack[i], rows, room, room.size, 0)
    return turned.swapaxes(-1, -2)
