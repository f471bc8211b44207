"""LU factors: making them, taking them apart, solving with them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...core.host_arrays import host
from ...core.named_results import return_type
from ...core.transforms.batched import known_values
from ...core.warned import warn_once
from ..block import SINGLE, Autocast, Block, Case, api, apply, looks_at_values, op
from ..block.checks import OUT_EXACT, only_bool, only_tensors
from ..block.samples import Draw, Index
from ..shape.triangles import Tril, Triu
from . import solve as linalg_solve  # noqa: F401  # rules use its triangular solve
from .det import COMPLEX, SQUARE, SQUARES
from .matrices import (
    adjoint,
    as_result,
    by_column,
    check_equation,
    check_floating,
    check_kernel,
    check_same_dtype,
    check_square,
    common_batch,
    lu_arrays,
    permutation_matrix,
    report_of,
    solve_lu,
    stacked,
    turned,
)

# Blocks: their first argument is not a `self`.
# ruff: noqa: N803, N805, N806

WIDE = Index([[2.0, -1.0, 0.5], [1.0, 3.0, -0.5]])
TALL = Index([[[0.5, 1.0], [3.0, -2.0], [1.0, 2.0]], [[4.0, 1.0], [0.5, -2.0], [1.0, 0.3]]])
FACTORABLE = [Case(SQUARE), Case(SQUARES), Case(WIDE), Case(TALL), Case(COMPLEX)]
PIVOTS = Index(np.array([2, 2, 3], np.int32))


# ---------------------------------------------------------------------- rules


def split_at(F: Any, x: Any, dim: int, at: int) -> tuple[Any, Any]:
    """The first `at` rows (dim -2) or columns (dim -1), and the others, if any."""
    dim += len(x.shape)
    size = x.shape[dim]
    if at == size:
        return x, None
    return F.narrow(x, dim, 0, at), F.narrow(x, dim, at, size - at)


def joined(F: Any, first: Any, second: Any, dim: int) -> Any:
    return first if second is None else F.cat([first, second], dim + len(first.shape))


def undo_lower(F: Any, lower: Any, x: Any) -> Any:
    """L⁻ᵀ x for unit triangular L."""
    return F.linalg_solve_triangular(turned(F, lower), x, True, True, True)


def undo_upper(F: Any, upper: Any, x: Any) -> Any:
    """x U⁻ᵀ."""
    return F.linalg_solve_triangular(turned(F, upper), x, False, False, False)


def factors_slope(F: Any, g_lower: Any, g_upper: Any, P: Any, L: Any, U: Any) -> Any:
    """The gradient of A = P L U; rows below, or columns beside, the square have their own."""
    k = L.shape[-1]
    top, below = split_at(F, L, -2, k)
    left, beside = split_at(F, U, -1, k)
    if g_lower is None:
        g_lower = F.zeros_like(L)
    if g_upper is None:
        g_upper = F.zeros_like(U)
    g_top, g_below = split_at(F, g_lower, -2, k)
    g_left, g_beside = split_at(F, g_upper, -1, k)
    lowered = F.matmul(turned(F, top), g_top)
    raised = F.matmul(g_left, turned(F, left))
    if beside is not None:
        lowered = lowered - F.matmul(g_beside, turned(F, beside))
    if below is not None:
        raised = raised - F.matmul(turned(F, below), g_below)
    inner = F.tril(lowered, -1) + F.triu(raised, 0)
    found = undo_upper(F, left, undo_lower(F, top, inner))
    if beside is not None:
        found = joined(F, found, undo_lower(F, top, g_beside), -1)
    if below is not None:
        found = joined(F, found, undo_upper(F, left, g_below), -2)
    return F.matmul(P, found)


def factors_tangent(F: Any, t: Any, P: Any, L: Any, U: Any) -> tuple[Any, Any]:
    """How L and U move with A, while the pivots stay."""
    k = L.shape[-1]
    top, below = split_at(F, L, -2, k)
    left, beside = split_at(F, U, -1, k)
    t = F.matmul(turned(F, P), t)
    t_square, t_beside = split_at(F, t, -1, k)
    t_square, t_below = split_at(F, t_square, -2, k)
    inner = F.linalg_solve_triangular(top, t_square, False, True, True)
    inner = F.linalg_solve_triangular(left, inner, True, False, False)
    lowered, raised = F.tril(inner, -1), F.triu(inner, 0)
    t_lower, t_upper = F.matmul(top, lowered), F.matmul(raised, left)
    if beside is not None:
        own = F.linalg_solve_triangular(top, t_beside, False, True, True)
        t_upper = joined(F, t_upper, own - F.matmul(lowered, beside), -1)
    if below is not None:
        own = F.linalg_solve_triangular(left, t_below, True, False, False)
        t_lower = joined(F, t_lower, own - F.matmul(below, raised), -2)
    return t_lower, t_upper


def packed(F: Any, lower: Any, upper: Any) -> Any:
    """L (without its diagonal of ones) and U in one matrix."""
    rows, k, columns = lower.shape[-2], lower.shape[-1], upper.shape[-1]
    lower, upper = F.tril(lower, -1), F.triu(upper, 0)
    if columns > k:
        empty = F.zeros_like(F.narrow(upper, len(upper.shape) - 1, k, columns - k))
        lower = joined(F, lower, empty, -1)
    if rows > k:
        empty = F.zeros_like(F.narrow(lower, len(lower.shape) - 2, k, rows - k))
        upper = joined(F, upper, empty, -2)
    return lower + upper


def unpacked_slope(F: Any, grad: Any, LU: Any) -> tuple[Any, Any]:
    """The gradient of packed factors, as those of L and U."""
    k = min(LU.shape[-2:])
    return split_at(F, F.tril(grad, -1), -1, k)[0], split_at(F, F.triu(grad, 0), -2, k)[0]


# ---------------------------------------------------------------------- lu_factor, lu


@op
class LinalgLuFactorEx(Block):
    """linalg_lu_factor_ex(A) -> (Tensor, Tensor, Tensor): packed factors, pivots, zero pivots."""

    aten = "linalg_lu_factor_ex"
    public = False
    tensors = ("A",)
    leading = (2,)
    outs = ("LU", "pivots", "info")
    plain_outs = (1, 2)
    result = return_type("linalg_lu_factor_ex", ("LU", "pivots", "info"))

    def fwd(xp, A):
        lu, pivots, info = lu_arrays(xp, A)
        return by_column(xp, lu), pivots, info

    def d_A(F, grad, LU, pivots):
        g_lower, g_upper = unpacked_slope(F, grad[0], LU)
        return factors_slope(F, g_lower, g_upper, *F.lu_unpack(LU, pivots, True, True))

    def jvp(F, t_A, LU, pivots):
        found = factors_tangent(F, t_A, *F.lu_unpack(LU, pivots, True, True))
        return packed(F, *found), None, None


def check_factorable(function: str, x: Any, pivot: bool) -> None:
    if x.ndim < 2:
        raise RuntimeError(
            f"{function}: Expected tensor with 2 or more dimensions. Got size: {list(x.shape)} "
            "instead"
        )
    if x.size:
        check_kernel("lu_cpu", x)
    if not pivot:
        raise RuntimeError("linalg.lu_factor: LU without pivoting is not implemented on the CPU")


ZERO_PIVOT = (
    "U[{0},{0}] is zero and using it on lu_solve would result in a division by zero. If you still "
    "want to perform the factorization, consider calling linalg.lu(A, pivot) or "
    "linalg.lu_factor_ex(A, pivot)"
)


def lu_factors(A: Any, pivot: bool, function: str) -> Any:
    """Factors, pivots and infos; an error, unless `function` is empty, says that name."""
    check_factorable("torch.lu_factor", A._array, pivot)
    result = apply(LinalgLuFactorEx, (A,))
    if function:
        report_of(result[2], RuntimeError, function, ZERO_PIVOT)
    return result


@api(name="linalg.lu_factor", samples=FACTORABLE, out_dtype=OUT_EXACT)
def linalg_lu_factor(A: Any, *, pivot: bool = True) -> Any:
    """linalg.lu_factor(A, *, pivot=True) -> (Tensor, Tensor): L and U in one matrix, and pivots.

    >>> torch.linalg.lu_factor(tensor([[1.0, 2.0], [2.0, 2.0]])).LU
    tensor([[2.0000, 2.0000],
            [0.5000, 1.0000]])
    """
    parts = lu_factors(A, pivot, "torch.linalg.lu_factor")
    return as_result("linalg_lu_factor", ("LU", "pivots"), parts[:2])


@api(name="linalg.lu_factor_ex", samples=FACTORABLE[:3], out_dtype=OUT_EXACT)
def linalg_lu_factor_ex(A: Any, *, pivot: bool = True, check_errors: bool = False) -> Any:
    """linalg.lu_factor_ex(A, *, pivot=True, check_errors=False) -> (Tensor, …): with an info.

    >>> torch.linalg.lu_factor_ex(zeros(2, 2)).info
    tensor(1, dtype=torch.int32)
    """
    return lu_factors(A, pivot, "torch.linalg.lu_factor_ex" if check_errors else "")


@api(method=False, samples=FACTORABLE[:2], python=True)
def lu(input: Any, pivot: bool = True, get_infos: bool = False) -> Any:
    """lu(input, pivot=True, get_infos=False) -> (Tensor, Tensor): `linalg.lu_factor`, deprecated.

    >>> lu(eye(2))[1]
    tensor([1, 2], dtype=torch.int32)
    """
    warn_once(
        "torch.lu is deprecated in favor of torch.linalg.lu_factor / torch.linalg.lu_factor_ex and "
        "will be removed in a future PyTorch release.\nLU, pivots = torch.lu(A, compute_pivots)\n"
        "should be replaced with\nLU, pivots = torch.linalg.lu_factor(A, compute_pivots)\nand\nLU, "
        "pivots, info = torch.lu(A, compute_pivots, get_infos=True)\nshould be replaced with\nLU, "
        "pivots, info = torch.linalg.lu_factor_ex(A, compute_pivots)",
    )
    bool(get_infos)
    only_tensors("_lu_with_info", input=input)
    only_bool("_lu_with_info", "pivot", 2, pivot)
    parts = lu_factors(input, pivot, "")
    if get_infos:
        return as_result("_lu_with_info", ("LU", "pivots", "info"), parts)
    return tuple(parts[:2])


def lu_method(self: Any, pivot: bool = True, get_infos: bool = False) -> Any:
    """Tensor.lu(pivot=True, get_infos=False) -> tuple: the same as `torch.lu`, without names."""
    return tuple(lu(self, pivot, get_infos))


METHODS = {"lu": lu_method}


def taken_apart(xp: Any, lu: Any) -> tuple[Any, Any]:
    """L and U of packed factors."""
    rows, columns = lu.shape[-2:]
    k = min(rows, columns)
    if xp is host:
        lower = Tril.kernel(lu[..., :, :k], -1)
        np.einsum("...ii->...i", lower[..., :k, :])[...] = 1
        return lower, Triu.kernel(lu[..., :k, :], 0)
    lower = xp.tril(lu[..., :, :k], -1) + xp.eye(rows, k, dtype=lu.dtype)
    return xp.ascontiguousarray(lower), xp.ascontiguousarray(xp.triu(lu[..., :k, :]))


@op
class LinalgLu(Block):
    """linalg_lu(A) -> (Tensor, Tensor, Tensor): P, L and U."""

    aten = "linalg_lu"
    public = False
    tensors = ("A",)
    leading = (2,)
    outs = ("P", "L", "U")
    plain_outs = (0,)
    result = return_type("linalg_lu", ("P", "L", "U"))

    def fwd(xp, A):
        packed_factors, pivots, _ = lu_arrays(xp, A)
        order = permutation_matrix(xp, pivots, A.shape[-2], A.dtype)
        return (order, *taken_apart(xp, packed_factors))

    def d_A(F, grad, P, L, U):
        return factors_slope(F, grad[1], grad[2], P, L, U)

    def jvp(F, t_A, P, L, U):
        return (None, *factors_tangent(F, t_A, P, L, U))


@api(name="linalg.lu", samples=FACTORABLE, out_dtype=OUT_EXACT)
def linalg_lu(A: Any, *, pivot: bool = True) -> Any:
    """linalg.lu(A, *, pivot=True) -> (Tensor, Tensor, Tensor): P, L and U of A = P L U.

    >>> torch.linalg.lu(tensor([[1.0, 2.0], [2.0, 2.0]])).U
    tensor([[2., 2.],
            [0., 1.]])
    """
    check_factorable("linalg.lu", A._array, pivot)
    return apply(LinalgLu, (A,))


# ---------------------------------------------------------------------- lu_unpack


@op
class LuUnpack(Block):
    """lu_unpack(LU_data, LU_pivots, …) -> (Tensor, Tensor, Tensor): the matrices P, L and U of a
    factorisation by `lu_factor`."""

    aten = "lu_unpack"
    public = False
    tensors = ("LU_data", "LU_pivots")
    plain_tensors = ("LU_pivots",)
    outs = ("P", "L", "U")
    plain_outs = (0,)
    result = return_type("lu_unpack", ("P", "L", "U"))

    def fwd(xp, LU_data, LU_pivots, unpack_data, unpack_pivots):
        nothing = xp.zeros(0, LU_data.dtype)
        order = nothing
        if unpack_pivots:
            order = permutation_matrix(xp, LU_pivots, LU_data.shape[-2], LU_data.dtype)
        if not unpack_data:
            return order, nothing, nothing.copy()
        return (order, *taken_apart(xp, LU_data))

    def d_LU_data(F, grad, LU_data, unpack_data):
        g_lower, g_upper = grad[1], grad[2]
        if not unpack_data or (g_lower is None and g_upper is None):
            return F.zeros_like(LU_data)
        k = min(LU_data.shape[-2:])
        if g_lower is None:
            g_lower = F.zeros_like(split_at(F, LU_data, -1, k)[0])
        if g_upper is None:
            g_upper = F.zeros_like(split_at(F, LU_data, -2, k)[0])
        return packed(F, g_lower, g_upper)

    def jvp(F, t_LU_data, L, U, unpack_data):
        if not unpack_data:
            return None, F.zeros_like(L), F.zeros_like(U)
        return (None, *unpacked_slope(F, t_LU_data, t_LU_data))

    def batch(F, size, batched, LU_data, LU_pivots, unpack_data, unpack_pivots):
        data, pivots = stacked(F, size, batched, (LU_data, LU_pivots), (2, 1))
        P, L, U = F.lu_unpack(data, pivots, unpack_data, unpack_pivots)
        nothing = F.narrow(F.reshape(data, (size, math.prod(data.shape[1:]))), 1, 0, 0)
        return (
            P if unpack_pivots else nothing,
            L if unpack_data else nothing,
            U if unpack_data else nothing,
        )


@api(
    method=False,
    samples=[
        Case(SQUARE, PIVOTS),
        Case(Draw(3, 2), Index(np.array([3, 2], np.int32))),
        Case(Draw(2, 2, 3), Index(np.array([[1, 2], [2, 2]], np.int32))),
        Case(SQUARE, PIVOTS, unpack_pivots=False),
    ],
    out_dtype=OUT_EXACT,
)
def lu_unpack(
    LU_data: Any, LU_pivots: Any, unpack_data: bool = True, unpack_pivots: bool = True
) -> Any:
    """lu_unpack(LU_data, LU_pivots, unpack_data=True, unpack_pivots=True) -> (Tensor, …): P, L, U.

    >>> lu_unpack(*torch.linalg.lu_factor(tensor([[1.0, 2.0], [2.0, 2.0]]))).L
    tensor([[1.0000, 0.0000],
            [0.5000, 1.0000]])
    """
    data, pivots = LU_data._array, LU_pivots._array
    if data.ndim < 2:
        raise RuntimeError(
            "torch.lu_unpack: Expected tensor with 2 or more dimensions. Got size: "
            f"{list(data.shape)} instead"
        )
    if unpack_pivots and pivots.dtype != np.int32:
        raise RuntimeError(
            "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 "
            "dtype.\nNote: this function is intended to be used with the output produced by "
            "torch.linalg.lu_factor"
        )
    if unpack_pivots and not (pivots.ndim and within(LU_pivots, data.shape[-2])):
        raise RuntimeError(
            "pivots passed to lu_unpack must be between 1 and LU.size(-2) inclusive.Did you "
            "properly pass the result of lu_factor?"
        )
    return apply(LuUnpack, (LU_data, LU_pivots), (unpack_data, unpack_pivots))


@looks_at_values
def within(pivots: Any, rows: int) -> bool:
    at = known_values(pivots)
    return bool(((at >= 1) & (at <= rows)).all())


# ---------------------------------------------------------------------- lu_solve


@looks_at_values
def check_pivots(pivots: Any, rows: int) -> None:
    at = known_values(pivots)
    for bad, limit in ((at < 1, "greater or equal to 1"), (at > rows, "")):
        if bad.any():
            raise RuntimeError(
                f"Pivots given to lu_solve must all be "
                f"{limit or 'smaller or equal to LU.size(-2)'}. Did you properly pass the result "
                "of lu_factor?"
            )


@op
class LinalgLuSolve(Block):
    """linalg_lu_solve(LU, pivots, B, left, adjoint) -> Tensor: X of P L U X = B."""

    aten = "linalg_lu_solve"
    public = False
    tensors = ("LU", "pivots", "B")
    wirtinger = True
    broadcasts = True
    leading = (2, 1, 2)

    def fwd(xp, LU, pivots, B, left, adjoint):
        if left:
            return by_column(xp, solve_lu(xp, LU, pivots, B, adjoint))
        # X A = B is Aᴴ Xᴴ = Bᴴ.
        x = solve_lu(xp, LU, pivots, xp.conj(B.swapaxes(-1, -2)), not adjoint)
        return xp.conj(xp.ascontiguousarray(x.swapaxes(-1, -2)))

    def backward(F, grad, needs, LU, pivots, out, left, adjoint):
        back = F.linalg_lu_solve(LU, pivots, grad, left, not adjoint)
        if not needs[0]:
            return None, None, back
        return lu_solve_slope(F, back, LU, pivots, out, left, adjoint), None, back

    def jvp(F, LU, t_LU, pivots, t_B, out, left, adjoint):
        change = t_B
        if t_LU is not None:
            moved = product_tangent(F, t_LU, LU, pivots, adjoint)
            moved = F.matmul(moved, out) if left else F.matmul(out, moved)
            change = -moved if t_B is None else t_B - moved
        return F.linalg_lu_solve(LU, pivots, change, left, adjoint)


def lu_solve_slope(F: Any, back: Any, LU: Any, pivots: Any, x: Any, left: bool, turn: bool) -> Any:
    """The gradient of packed factors, by way of that of P L U."""
    if left == turn:
        # One of `left` and the adjoint exchanges the two.
        back, x = x, back
    whole = F.matmul(back, adjoint(F, x)) if left else F.matmul(adjoint(F, back), x)
    P, L, U = F.lu_unpack(LU, pivots, True, True)
    whole = F.matmul(turned(F, P), whole)
    lower = F.tril(F.matmul(whole, adjoint(F, U)), -1)
    return -lower - F.triu(F.matmul(adjoint(F, L), whole), 0)


def product_tangent(F: Any, t: Any, LU: Any, pivots: Any, turn: bool) -> Any:
    """How P L U, or its adjoint, moves with the packed factors."""
    P, L, U = F.lu_unpack(LU, pivots, True, True)
    moved = F.matmul(F.tril(t, -1), U) + F.matmul(L, F.triu(t, 0))
    moved = F.matmul(P, moved)
    return adjoint(F, moved) if turn else moved


def solve_factored(LU: Any, pivots: Any, B: Any, left: bool, adjoint: bool) -> Any:
    lu, order, b = LU._array, pivots._array, B._array
    function = "linalg.lu_solve"
    check_floating(f"torch.{function}", lu)
    check_square(f"torch.{function}", lu)
    if order.dtype != np.int32:
        raise RuntimeError(f"{function}: pivots should be a Tensor of scalar type torch.int32")
    check_same_dtype(function, ("LU", lu), ("B", b))
    check_equation(function, lu, b, left)
    if order.shape[-1:] != lu.shape[-1:]:
        raise RuntimeError(
            f"{function}: Number of pivots per batch should be same as the dimension of the matrix"
        )
    if order.shape != lu.shape[:-1]:
        raise RuntimeError(
            f"{function}: Expected LU.shape[:-1] and pivots.shape to be the same, but got pivots "
            f"with shape {list(order.shape)} instead"
        )
    common_batch(lu, b)
    check_kernel(f"{function}_cpu", lu)
    check_pivots(pivots, lu.shape[-1])
    return apply(LinalgLuSolve, (LU, pivots, B), (left, adjoint))


@api(
    name="linalg.lu_solve",
    samples=[
        Case(SQUARE, PIVOTS, Draw(3, 2)),
        Case(SQUARE, PIVOTS, Draw(3, 2), adjoint=True),
        Case(SQUARE, PIVOTS, Draw(2, 3), left=False),
        Case(SQUARE, PIVOTS, Draw(2, 2, 3), left=False, adjoint=True),
        Case(SQUARES, Index(np.array([[2, 2], [1, 2]], np.int32)), Draw(3, 1, 2, 1)),
    ],
    out_dtype=OUT_EXACT,
)
def linalg_lu_solve(
    LU: Any, pivots: Any, B: Any, *, left: bool = True, adjoint: bool = False
) -> Any:
    """linalg.lu_solve(LU, pivots, B, *, left=True, adjoint=False) -> Tensor: X of A X = B.

    >>> LU, pivots = torch.linalg.lu_factor(tensor([[2.0, 0.0], [0.0, 4.0]]))
    >>> torch.linalg.lu_solve(LU, pivots, ones(2, 1))
    tensor([[0.5000],
            [0.2500]])
    """
    return solve_factored(LU, pivots, B, left, adjoint)


@api(samples=[Case(Draw(3, 2), SQUARE, PIVOTS)], autocast=Autocast(cpu=SINGLE), out_dtype=OUT_EXACT)
def lu_solve(input: Any, LU_data: Any, LU_pivots: Any) -> Any:
    """lu_solve(input, LU_data, LU_pivots) -> Tensor: the same as `linalg.lu_solve` (deprecated).

    >>> lu_solve(ones(1, 1), tensor([[2.0]]), tensor([1], dtype=int32))
    tensor([[0.5000]])
    """
    warn_once(
        "torch.lu_solve is deprecated in favor of torch.linalg.lu_solveand will be removed in a "
        "future PyTorch release.\nNote that torch.linalg.lu_solve has its arguments reversed.\nX = "
        "torch.lu_solve(B, LU, pivots)\nshould be replaced with\nX = torch.linalg.lu_solve(LU, "
        "pivots, B)",
    )
    return solve_factored(LU_data, LU_pivots, input, True, False)
