"""LDL factors of symmetric and Hermitian matrices, with the pivots of Bunch and Kaufman."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...core.host_arrays import host
from ...core.named_results import return_type
from ...kernels.cpu import lapack
from ..block import Block, Case, api, apply, op
from ..block.samples import Draw, Index
from .det import SQUARE, SQUARES
from .matrices import (
    as_result,
    by_column,
    check_factorable,
    check_floating,
    check_kernel,
    check_square,
    common_batch,
    flat,
    magnitude,
    report_of,
    scalar_type,
)
from .solve import check_pair

# Blocks: their first argument is not a `self`.
# ruff: noqa: N803, N805, N806

# Only the lower triangle is read.
SYMMETRIC = [
    Case(SQUARE),
    Case(SQUARES, hermitian=True),
    Case(Index([[0.1, 1.0, 0.0], [2.0, 0.2, 0.0], [0.5, 3.0, 0.1]])),
    Case(Draw(2, 0, 0)),
]

ALPHA = (1 + math.sqrt(17)) / 8  # how small a diagonal element may be as a pivot


def exchange(x: Any, which: Any, i: Any, j: Any, start: int) -> None:
    """Swap rows and columns i and j of the matrices `which`, from `start` on."""
    rows = x[which, i, start:]
    x[which, i, start:] = x[which, j, start:]
    x[which, j, start:] = rows
    columns = x[which, start:, i]
    x[which, start:, i] = x[which, start:, j]
    x[which, start:, j] = columns


def mirrored(xp: Any, x: Any, hermitian: bool) -> Any:
    """The whole of matrices whose lower triangles are given."""
    below = xp.tril(x, -1).swapaxes(-1, -2)
    diagonal = xp.tril(xp.triu(x))
    if hermitian:
        below, diagonal = xp.conj(below), diagonal.real
    return xp.tril(x, -1) + below + diagonal


def ldl_arrays(xp: Any, a: Any, hermitian: bool) -> tuple[Any, Any, Any]:
    """L and D in one matrix, the pivots (negative for blocks of two) and the first zero pivot.

    A loop over columns; the matrices of a stack go through it together, each with its own pivots.
    """
    found = lapack.ldl(a, hermitian) if xp is host else None
    if found is not None:
        return found
    hermitian = hermitian and a.dtype.kind == "c"
    x = mirrored(xp, flat(a), hermitian)
    count, n, _ = x.shape
    every = xp.arange(count)
    pivots = xp.zeros((count, n), np.int32)
    info = xp.zeros(count, np.int32)
    second = xp.zeros(count, bool)  # this column was done together with the one before
    for k in range(n if count else 0):
        active = ~second
        chosen, second, zero = choose_pivot(xp, x, k, every)
        second &= active
        to = k + second.astype(np.int64)
        info[active & zero & (info == 0)] = k + 1
        moving = xp.flatnonzero(active & (chosen != to))
        if moving.size:
            exchange(x, moving, to[moving], chosen[moving], k)
        eliminate(xp, x, xp.flatnonzero(active & ~second & ~zero), k, 1, hermitian)
        eliminate(xp, x, xp.flatnonzero(second), k, 2, hermitian)
        pivots[:, k] = xp.where(active & ~second, chosen + 1, pivots[:, k])
        pairs = xp.flatnonzero(second)
        if pairs.size:
            pivots[pairs, k : k + 2] = -(chosen[pairs, None] + 1)
    batch = a.shape[:-2]
    return xp.tril(x).reshape(a.shape), pivots.reshape(*batch, n), info.reshape(batch)


def choose_pivot(xp: Any, x: Any, k: int, every: Any) -> tuple[Any, Any, Any]:
    """Per matrix: the row to bring up, whether it takes a block of two, whether all is zero."""
    diagonal = magnitude(xp, x[:, k, k])
    if k == x.shape[1] - 1:
        last = xp.full(diagonal.shape, k)
        return last, xp.zeros(diagonal.shape, bool), diagonal == 0
    below = magnitude(xp, x[:, k + 1 :, k])
    largest = k + 1 + xp.argmax(below, axis=1)
    size = below.max(axis=1)
    row = magnitude(xp, x[every, largest, k:])
    own = row[every, largest - k]
    row[every, largest - k] = 0
    row_size = row.max(axis=1)
    stays = (diagonal >= ALPHA * size) | (diagonal * row_size >= ALPHA * size * size)
    pair = ~stays & (own < ALPHA * row_size)
    return xp.where(stays, k, largest), pair, xp.maximum(diagonal, size) == 0


def eliminate(xp: Any, x: Any, which: Any, k: int, width: int, hermitian: bool) -> None:
    """Take the pivot of one or two columns out of the rest of the matrices `which`."""
    if not which.size:
        return
    rest = slice(k + width, None)
    columns = x[which, rest, k : k + width]
    block = x[which, k : k + width, k : k + width]
    factor = columns / block if width == 1 else xp.matmul(columns, inverse_of_two(xp, block))
    back = columns.swapaxes(-1, -2)
    x[which, rest, rest] -= xp.matmul(factor, xp.conj(back) if hermitian else back)
    x[which, rest, k : k + width] = factor


def inverse_of_two(xp: Any, block: Any) -> Any:
    """Inverses of matrices of two rows whose largest element is off the diagonal."""
    scale = xp.absolute(block[:, 1:, :1])
    a = block / scale
    det = a[:, :1, :1] * a[:, 1:, 1:] - a[:, :1, 1:] * a[:, 1:, :1]
    top = xp.concatenate([a[:, 1:, 1:], -a[:, :1, 1:]], axis=2)
    bottom = xp.concatenate([-a[:, 1:, :1], a[:, :1, :1]], axis=2)
    return xp.concatenate([top, bottom], axis=1) / (det * scale)


def solve_ldl(xp: Any, ld: Any, pivots: Any, b: Any, hermitian: bool) -> Any:
    """X of L D Lᵀ X = B (Lᴴ for Hermitian matrices): down, across the diagonal blocks, up."""
    hermitian = hermitian and ld.dtype.kind == "c"
    batch = np.broadcast_shapes(ld.shape[:-2], b.shape[:-2])
    n = ld.shape[-1]
    x = flat(xp.broadcast_to(b, (*batch, *b.shape[-2:])))
    ld = flat(xp.broadcast_to(ld, (*batch, n, n)))
    pivots = flat(xp.broadcast_to(pivots, (*batch, n)), 1)
    if x.size == 0:
        return x.reshape(*batch, *b.shape[-2:])
    found = lapack.solve_ldl(ld, pivots, x, hermitian) if xp is host else None
    if found is not None:
        return found.reshape(*batch, *b.shape[-2:])
    first = pivots < 0  # of two columns that belong together
    for k in range(1, n):
        first[:, k] &= ~first[:, k - 1]
    lower = xp.tril(ld, -1)
    where, at = xp.nonzero(first)
    lower[where, at + 1, at] = 0
    single = pivots > 0
    for k in range(n):
        swap_rows(xp, x, k, pivots[:, k], single[:, k], first[:, k])
        x[:, k + 1 :] -= lower[:, k + 1 :, k, None] * x[:, k, None]
    across = x / xp.diagonal(ld, axis1=1, axis2=2)[..., None]
    if where.size:
        both = xp.stack([at, at + 1], axis=1)
        one = where[:, None]
        block = mirrored(xp, ld[one[..., None], both[:, :, None], both[:, None, :]], hermitian)
        across[one, both] = xp.matmul(inverse_of_two(xp, block), x[one, both])
    x = across
    if hermitian:
        lower = xp.conj(lower)
    for k in reversed(range(n)):
        x[:, k] -= xp.matmul(lower[:, k + 1 :, k, None].swapaxes(1, 2), x[:, k + 1 :])[:, 0]
        swap_rows(xp, x, k, pivots[:, k], single[:, k], first[:, k])
    return x.reshape(*batch, *b.shape[-2:])


def swap_rows(xp: Any, x: Any, k: int, pivots: Any, single: Any, first: Any) -> None:
    """The exchange of rows that belongs to column k; the second of two columns has none."""
    which = xp.flatnonzero(single | first)
    to = k + first[which].astype(np.int64)
    chosen = xp.absolute(pivots[which]) - 1
    rows = x[which, to]
    x[which, to] = x[which, chosen]
    x[which, chosen] = rows


# ---------------------------------------------------------------------- the functions


def no_derivative(name: str) -> RuntimeError:
    return RuntimeError(f"derivative for aten::{name} is not implemented")


def no_forward_mode(name: str) -> NotImplementedError:
    return NotImplementedError(
        f"Trying to use forward AD with aten::{name} that does not support it."
    )


@op
class LinalgLdlFactorEx(Block):
    """linalg_ldl_factor_ex(input, hermitian) -> (Tensor, Tensor, Tensor): LD, pivots, info."""

    public = False
    node = "torch::autograd::NotImplemented"
    aten = "linalg_ldl_factor_ex"
    leading = (2,)
    outs = ("LD", "pivots", "info")
    plain_outs = (1, 2)
    result = return_type("linalg_ldl_factor_ex", ("LD", "pivots", "info"))
    nearest = "torch.linalg.cholesky, for positive definite matrices"

    def fwd(xp, input, hermitian):
        factors, pivots, info = ldl_arrays(xp, input, hermitian)
        return by_column(xp, factors), pivots, info

    def d_input(F, grad):
        raise no_derivative("linalg_ldl_factor_ex")

    def jvp(F, t_input):
        raise no_forward_mode("linalg_ldl_factor_ex")


def ldl_factors(A: Any, hermitian: bool, function: str) -> Any:
    """Factors, pivots and infos; an error, unless `function` is empty, says that name."""
    array = A._array
    check_factorable("torch.linalg.ldl_factor_ex", "ldl_factor_kernel_cpu", array)
    result = apply(LinalgLdlFactorEx, (A,), (hermitian,))
    if function:
        report_of(result[2], RuntimeError, function, "Unknown error code: {}.")
    return result


@api(name="linalg.ldl_factor", samples=SYMMETRIC)
def linalg_ldl_factor(input: Any, *, hermitian: bool = False) -> Any:
    """linalg.ldl_factor(input, *, hermitian=False) -> (Tensor, Tensor): L and D, and the pivots.

    >>> torch.linalg.ldl_factor(tensor([[4.0, 2.0], [2.0, 5.0]])).LD
    tensor([[4.0000, 0.0000],
            [0.5000, 4.0000]])
    """
    parts = ldl_factors(input, hermitian, "torch.linalg.ldl_factor")
    return as_result("linalg_ldl_factor", ("LD", "pivots"), parts[:2])


@api(name="linalg.ldl_factor_ex", samples=SYMMETRIC)
def linalg_ldl_factor_ex(input: Any, *, hermitian: bool = False, check_errors: bool = False) -> Any:
    """linalg.ldl_factor_ex(input, *, hermitian=False, check_errors=False) -> (Tensor, …): and info.

    >>> torch.linalg.ldl_factor_ex(zeros(2, 2)).info
    tensor(1, dtype=torch.int32)
    """
    return ldl_factors(input, hermitian, "torch.linalg.ldl_factor_ex" if check_errors else "")


@op
class LinalgLdlSolve(Block):
    """linalg_ldl_solve(LD, pivots, B, hermitian) -> Tensor: X of L D Lᵀ X = B."""

    public = False
    node = "torch::autograd::NotImplemented"
    aten = "linalg_ldl_solve"
    tensors = ("LD", "pivots", "B")
    plain_tensors = ("pivots",)
    leading = (2, 1, 2)
    nearest = "torch.linalg.solve"

    def fwd(xp, LD, pivots, B, hermitian):
        turned = solve_ldl(xp, LD, pivots, B, hermitian).swapaxes(-1, -2)
        # A copy has LAPACK's strides for a single column too, as PyTorch's result has.
        return xp.array(turned, order="C", copy=True).swapaxes(-1, -2)

    def d_LD(F, grad):
        raise no_derivative("linalg_ldl_solve")

    def d_B(F, grad):
        raise no_derivative("linalg_ldl_solve")

    def jvp(F, t_LD, t_B):
        raise no_forward_mode("linalg_ldl_solve")


@api(
    name="linalg.ldl_solve",
    samples=[
        Case(SQUARE, Index(np.array([1, -3, -3], np.int32)), Draw(3, 2)),
        Case(SQUARES, Index(np.array([[2, 2], [-2, -2]], np.int32)), Draw(2, 2, 1)),
    ],
)
def linalg_ldl_solve(LD: Any, pivots: Any, B: Any, *, hermitian: bool = False) -> Any:
    """linalg.ldl_solve(LD, pivots, B, *, hermitian=False) -> Tensor: X of A X = B.

    >>> LD, pivots = torch.linalg.ldl_factor(tensor([[4.0, 2.0], [2.0, 5.0]]))
    >>> torch.linalg.ldl_solve(LD, pivots, tensor([[8.0], [4.0]]))
    tensor([[2.],
            [0.]])
    """
    factors, order, b = LD._array, pivots._array, B._array
    function = "torch.linalg.ldl_solve"
    check_floating(function, factors)
    check_square(function, factors)
    if b.ndim < 2:
        low, high = (-b.ndim, b.ndim - 1) if b.ndim else (-1, 0)
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{low}, {high}], but got -2)"
        )
    check_pair(function, b, factors)
    if order.dtype.kind not in "iu":
        raise RuntimeError(f"{function}: Expected pivots to be integers. Got {scalar_type(order)}")
    if order.shape != factors.shape[:-1]:
        raise RuntimeError(
            f"{function}: Expected LD.shape[:-1] and pivots.shape to be the same, but got pivots "
            f"with shape {list(order.shape)} instead"
        )
    common_batch(factors, b)
    check_kernel("ldl_solve_kernel_cpu", factors)
    return apply(LinalgLdlSolve, (LD, pivots, B), (hermitian,))
