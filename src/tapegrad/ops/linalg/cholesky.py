"""Cholesky factors: making them, and solving and inverting with them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.named_results import return_type
from ...core.warned import warn_once
from ..block import SINGLE, Autocast, Block, Case, api, apply, op
from ..block.checks import OUT_EXACT, OUT_SAFELY, only_bool
from ..block.samples import Draw, Index
from .matrices import (
    NOT_POSITIVE,
    SINGULAR_INVERSE,
    LinAlgError,
    adjoint,
    by_column,
    check_factorable,
    check_kernel,
    check_matrix,
    check_square,
    common_batch,
    flat,
    report,
    report_of,
    substitute,
)
from .solve import check_pair

# Blocks: their first argument is not a `self`.
# ruff: noqa: N803, N805, N806


# ---------------------------------------------------------------------- kernels


def cholesky_arrays(xp: Any, a: Any, upper: bool) -> tuple[Any, Any]:
    """The factor of each matrix, and the order of its first minor that is not positive."""
    if a.size == 0:
        return a.copy(), xp.zeros(a.shape[:-2], np.int32)
    if upper:
        a = xp.conj(a.swapaxes(-1, -2))
    info = xp.zeros(a.shape[:-2], np.int32)
    try:
        factor = xp.linalg.cholesky(a)
        last = factor[..., -1, -1]
        failed = (last != last).any()
    except np.linalg.LinAlgError:
        failed = True
    if failed:
        factor, info = as_far_as_possible(xp, a)
    if upper:
        return by_column(xp, xp.conj(factor.swapaxes(-1, -2))), info
    return by_column(xp, factor), info


def as_far_as_possible(xp: Any, a: Any) -> tuple[Any, Any]:
    """Cholesky's factorization until each matrix turns out not to be positive-definite.

    A loop over the columns of one matrix, all matrices at once; it only runs if one of them fails.
    """
    x = xp.tril(flat(a))
    count, n, _ = x.shape
    info = xp.zeros(count, np.int32)
    for j in range(n):
        row = x[:, j, :j]
        pivot = x[:, j, j].real - xp.sum((row * xp.conj(row)).real, axis=1)
        going = info == 0
        positive = pivot > 0
        root = xp.sqrt(xp.where(positive, pivot, 1))
        column = x[:, j + 1 :, j] - xp.matmul(x[:, j + 1 :, :j], xp.conj(row)[:, :, None])[..., 0]
        go = going & positive
        x[:, j, j] = xp.where(go, root, xp.where(going, pivot, x[:, j, j]))
        x[:, j + 1 :, j] = xp.where(go[:, None], column / root[:, None], x[:, j + 1 :, j])
        info[going & ~positive] = j + 1
    return x.reshape(a.shape), info.reshape(a.shape[:-2])


def solve_with_factor(xp: Any, factor: Any, b: Any, upper: bool) -> Any:
    """X of L Lᴴ X = B, or of Uᴴ U X = B."""
    turned_factor = xp.conj(factor.swapaxes(-1, -2))
    lower, raised = (turned_factor, factor) if upper else (factor, turned_factor)
    return substitute(xp, raised, substitute(xp, lower, b, False, False), True, False)


# ---------------------------------------------------------------------- rules


def factor_slope(F: Any, grad: Any, factor: Any, upper: bool) -> Any:
    """The gradient of A, shared between both triangles."""
    if upper:
        return factor_slope(F, adjoint(F, grad), adjoint(F, factor), False)
    inner = F.tril(F.matmul(adjoint(F, factor), grad), 0)
    inner = (inner + adjoint(F, F.tril(inner, -1))) * 0.5
    left = F.linalg_solve_triangular(adjoint(F, factor), inner, True, True, False)
    return F.linalg_solve_triangular(factor, left, False, False, False)


def factor_tangent(F: Any, t: Any, factor: Any, upper: bool) -> Any:
    """How the factor moves with A, whose tangent is taken to be Hermitian."""
    if upper:
        return adjoint(F, factor_tangent(F, t, adjoint(F, factor), False))
    inner = F.linalg_solve_triangular(factor, t, False, True, False)
    inner = F.linalg_solve_triangular(adjoint(F, factor), inner, True, False, False)
    inner = (F.tril(inner, 0) + F.tril(inner, -1)) * 0.5
    return F.matmul(factor, inner)


# ---------------------------------------------------------------------- cholesky


@op
class LinalgCholeskyEx(Block):
    """linalg_cholesky_ex(input, upper) -> (Tensor, Tensor): the factors, and where they end."""

    aten = "linalg_cholesky_ex"
    public = False
    wirtinger = True
    leading = (2,)
    outs = ("L", "info")
    plain_outs = (1,)
    result = return_type("linalg_cholesky_ex", ("L", "info"))
    autocast = Autocast(cpu=SINGLE)

    def fwd(xp, input, upper):
        return cholesky_arrays(xp, input, upper)

    def d_input(F, grad, L, upper):
        return factor_slope(F, grad[0], L, upper)

    def jvp(F, t_input, L, upper):
        return factor_tangent(F, t_input, L, upper), None


@op
class Cholesky(Block):
    """cholesky(input, upper) -> Tensor: the factors, by the older name."""

    aten = "cholesky"
    public = False
    wirtinger = True
    leading = (2,)
    autocast = Autocast(cpu=SINGLE)

    def fwd(xp, input, upper):
        factor, info = cholesky_arrays(xp, input, upper)
        report(info, LinAlgError, "cholesky", NOT_POSITIVE)
        return factor

    def d_input(F, grad, out, upper):
        return factor_slope(F, grad, out, upper)

    def jvp(F, t_input, out, upper):
        return factor_tangent(F, t_input, out, upper)


def factorize(A: Any, upper: bool, function: str) -> Any:
    """Factors and infos; an error, unless `function` is empty, says that name."""
    array = A._array
    check_factorable("linalg.cholesky", "cholesky_cpu", array)
    result = apply(LinalgCholeskyEx, (A,), (upper,))
    if function:
        report_of(result[1], LinAlgError, function, NOT_POSITIVE)
    return result


# Of one element: the slope is shared by both triangles, though only one is read.
POSITIVE = Draw(2, 1, 1, low=0.5)


@api(
    name="linalg.cholesky",
    samples=[Case(POSITIVE), Case(POSITIVE, upper=True), Case(Draw(0, 0))],
    autocast=Autocast(cpu=SINGLE),
    out_dtype=OUT_EXACT,
)
def linalg_cholesky(input: Any, *, upper: bool = False) -> Any:
    """linalg.cholesky(input, *, upper=False) -> Tensor: L of A = L Lᴴ, for positive-definite A.

    >>> torch.linalg.cholesky(tensor([[4.0, 2.0], [2.0, 5.0]]))
    tensor([[2., 0.],
            [1., 2.]])
    """
    return factorize(input, upper, "linalg.cholesky")[0]


@api(
    name="linalg.cholesky_ex",
    samples=[Case(POSITIVE), Case(POSITIVE, upper=True)],
    autocast=Autocast(cpu=SINGLE),
    out_dtype=OUT_EXACT,
)
def linalg_cholesky_ex(input: Any, *, upper: bool = False, check_errors: bool = False) -> Any:
    """linalg.cholesky_ex(input, *, upper=False, check_errors=False) -> (Tensor, Tensor): with info.

    >>> torch.linalg.cholesky_ex(-eye(2)).info
    tensor(1, dtype=torch.int32)
    """
    return factorize(input, upper, "linalg.cholesky_ex" if check_errors else "")


@api(samples=[Case(POSITIVE), Case(POSITIVE, True)], autocast=Autocast(cpu=SINGLE))
def cholesky(input: Any, upper: bool = False) -> Any:
    """cholesky(input, upper=False) -> Tensor: the same as `linalg.cholesky` (deprecated).

    >>> cholesky(4 * eye(1))
    tensor([[2.]])
    """
    warn_once(
        "torch.cholesky is deprecated in favor of torch.linalg.cholesky and will be removed in a "
        "future PyTorch release.\nL = torch.cholesky(A)\nshould be replaced with\nL = "
        "torch.linalg.cholesky(A)\nand\nU = torch.cholesky(A, upper=True)\nshould be replaced "
        "with\nU = torch.linalg.cholesky(A).mH\nThis transform will produce equivalent results "
        "for all valid (symmetric positive definite) inputs.",
    )
    only_bool("cholesky", "upper", 2, upper)
    array = input._array
    check_matrix("cholesky", array)
    if array.size:
        check_square("cholesky", array)
        check_kernel("cholesky_cpu", array)
    return apply(Cholesky, (input,), (upper,))


# ---------------------------------------------------------------------- with a factor


def symmetric_slope(F: Any, common: Any, factor: Any, upper: bool) -> Any:
    """The gradient of a factor, from `common`, that of its product with its adjoint."""
    both = common + adjoint(F, common)
    return -F.matmul(factor, both) if upper else -F.matmul(both, factor)


def product_tangent(F: Any, t: Any, factor: Any, upper: bool) -> Any:
    """How the product of a factor and its adjoint moves."""
    half = F.matmul(adjoint(F, t), factor) if upper else F.matmul(t, adjoint(F, factor))
    return half + adjoint(F, half)


@op
class CholeskyInverse(Block):
    """cholesky_inverse(input, upper) -> Tensor: the inverse of L Lᴴ."""

    aten = "cholesky_inverse"
    public = False
    wirtinger = True
    leading = (2,)
    autocast = Autocast(cpu=SINGLE)

    def fwd(xp, input, upper):
        zero = xp.diagonal(input, axis1=-2, axis2=-1) == 0
        if zero.any():
            info = xp.where(zero.any(axis=-1), zero.argmax(axis=-1) + 1, 0)
            report(info, LinAlgError, "cholesky_inverse", SINGULAR_INVERSE)
        identity = xp.eye(input.shape[-1], dtype=input.dtype)
        return by_column(xp, solve_with_factor(xp, input, identity, upper))

    def d_input(F, grad, input, out, upper):
        common = F.matmul(out, F.matmul(grad, out))
        return symmetric_slope(F, common, input, upper)

    def jvp(F, input, t_input, out, upper):
        lower, t_lower = (adjoint(F, x) if upper else x for x in (input, t_input))
        half = F.matmul(F.matmul(out, t_lower), F.matmul(adjoint(F, lower), out))
        return -half - adjoint(F, half)


# A factor has a real diagonal.
FACTOR = Index([[[2.0 + 0.0j]], [[0.5 + 0.0j]]])


@api(
    samples=[Case(FACTOR), Case(FACTOR, True), Case(Draw(0, 0))],
    autocast=Autocast(cpu=SINGLE),
    out_dtype="{name}: " + OUT_SAFELY,
)
def cholesky_inverse(input: Any, upper: bool = False) -> Any:
    """cholesky_inverse(input, upper=False) -> Tensor: the inverse of A = L Lᴴ, from L.

    >>> cholesky_inverse(tensor([[2.0]]))
    tensor([[0.2500]])
    """
    array = input._array
    check_square("cholesky_inverse", array)
    check_kernel("cholesky_inverse_out_cpu", array)
    return apply(CholeskyInverse, (input,), (upper,))


@op
class CholeskySolve(Block):
    """cholesky_solve(input, input2, upper) -> Tensor: X of L Lᴴ X = B."""

    aten = "cholesky_solve"
    public = False
    tensors = ("input", "input2")
    wirtinger = True
    broadcasts = True
    leading = (2, 2)
    autocast = Autocast(cpu=SINGLE)

    def fwd(xp, input, input2, upper):
        return by_column(xp, solve_with_factor(xp, input2, input, upper))

    def backward(F, grad, needs, input2, out, upper):
        back = F.cholesky_solve(grad, input2, upper)
        if not needs[1]:
            return back, None
        return back, symmetric_slope(F, F.matmul(back, adjoint(F, out)), input2, upper)

    def jvp(F, t_input, input2, t_input2, out, upper):
        change = t_input
        if t_input2 is not None:
            moved = F.matmul(product_tangent(F, t_input2, input2, upper), out)
            change = -moved if t_input is None else t_input - moved
        return F.cholesky_solve(change, input2, upper)


@api(
    samples=[Case(Draw(2, 1, 3), POSITIVE), Case(Draw(1, 2), POSITIVE, True)],
    autocast=Autocast(cpu=SINGLE),
    out_dtype="{name}: " + OUT_SAFELY,
)
def cholesky_solve(input: Any, input2: Any, upper: bool = False) -> Any:
    """cholesky_solve(input, input2, upper=False) -> Tensor: X of A X = B, for A = L Lᴴ from L.

    >>> cholesky_solve(ones(1, 1), tensor([[2.0]]))
    tensor([[0.2500]])
    """
    b, factor = input._array, input2._array
    for name, x in (("b", b), ("u", factor)):
        if x.ndim < 2:
            raise RuntimeError(
                f"{name} should have at least 2 dimensions, but has {x.ndim} dimensions instead"
            )
    common_batch(factor, b)
    check_pair("cholesky_solve", b, factor)
    check_kernel("cholesky_solve_cpu", factor)
    return apply(CholeskySolve, (input, input2), (upper,))
