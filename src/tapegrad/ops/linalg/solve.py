"""Solving linear equations: with any matrix, with triangular ones, with tensors."""

from __future__ import annotations

import math
from typing import Any

from ...core.named_results import return_type
from ...core.warned import warn_once
from ..block import SINGLE, Autocast, Block, Case, api, apply, op
from ..block.checks import OUT_EXACT, OUT_SAFELY, only_tensors
from ..block.samples import Draw, Index
from .det import SQUARE, SQUARES
from .matrices import (
    SINGULAR_SOLVE,
    LinAlgError,
    by_column,
    check_equation,
    check_floating,
    check_kernel,
    check_same_dtype,
    check_square,
    common_batch,
    report_of,
    scalar_type,
    solve_arrays,
    stacked,
    substitute,
    turned,
)

# Blocks: their first argument is not a `self`.
# ruff: noqa: N803, N805, N806


# ---------------------------------------------------------------------- solve


def outer_product(F: Any, a: Any, b: Any, vector: bool) -> Any:
    """a bᵀ for columns of matrices, or for vectors."""
    if vector:
        return F.unsqueeze(a, len(a.shape)) * F.unsqueeze(b, len(b.shape) - 1)
    return F.matmul(a, turned(F, b))


def applied(F: Any, a: Any, x: Any, vector: bool) -> Any:
    """A x for columns of a matrix, or for a vector."""
    if not vector:
        return F.matmul(a, x)
    ndim = len(x.shape)
    return F.squeeze(F.matmul(a, F.unsqueeze(x, ndim)), (ndim,))


@op
class LinalgSolveEx(Block):
    """linalg_solve_ex(A, B, left, vector) -> (Tensor, Tensor): X of A X = B, and zero pivots."""

    aten = "_linalg_solve_ex"
    public = False
    tensors = ("A", "B")
    broadcasts = True
    outs = ("result", "info")
    plain_outs = (1,)
    result = return_type("linalg_solve_ex", ("result", "info"))

    def fwd(xp, A, B, left, vector):
        if vector:
            x, info = solve_arrays(xp, A, B[..., None])
            x = x[..., 0]
            return (by_column(xp, x) if x.ndim > 1 else x.copy()), info
        if left:
            x, info = solve_arrays(xp, A, B)
            return by_column(xp, x), info
        x, info = solve_arrays(xp, A.swapaxes(-1, -2), B.swapaxes(-1, -2))
        return xp.ascontiguousarray(x.swapaxes(-1, -2)), info

    def backward(F, grad, needs, A, result, left, vector):
        back = F.linalg_solve_ex(turned(F, A), grad[0], left, vector)[0]
        if not needs[0]:
            return None, back
        if left:
            return -outer_product(F, back, result, vector), back
        return -F.matmul(turned(F, result), back), back

    def jvp(F, A, t_A, t_B, result, left, vector):
        change = t_B
        if t_A is not None:
            moved = applied(F, t_A, result, vector) if left else F.matmul(result, t_A)
            change = -moved if t_B is None else t_B - moved
        return F.linalg_solve_ex(A, change, left, vector)[0], None

    def batch(F, size, batched, A, B, left, vector):
        infos = A.shape[int(batched[0]) : -2]
        A, B = stacked(F, size, batched, (A, B), (2, 1 if vector else 2))
        result, info = F.linalg_solve_ex(A, B, left, vector)
        return result, F.reshape(info, (size, *infos))


def solve_equation(A: Any, B: Any, left: Any, function: str) -> Any:
    """Solutions and infos; an error, unless `function` is empty, says that name."""
    a, b = A._array, B._array
    check_floating("linalg.solve", a)
    check_same_dtype("linalg.solve", ("A", a), ("B", b))
    # Vectors are recognised by their shape.
    vector = b.ndim == 1 or (a.ndim - 1 == b.ndim and a.shape[:-1] == b.shape)
    check_equation("linalg.solve", a, b[..., None] if vector else b, left)
    if vector and not left:
        raise RuntimeError(
            "linalg.solve: Vector broadcasting of the left hand side is not supported for "
            "left=False. In this case linalg.solve is equivalent to B / A.squeeze(-1)"
        )
    common_batch(a, b[..., None] if vector else b)
    if a.size:
        check_kernel("lu_cpu", a)
    result = apply(LinalgSolveEx, (A, B), (left, vector))
    if function:
        report_of(result[1], LinAlgError, function, SINGULAR_SOLVE)
    return result


def flag(function: str, name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{function}(): argument '{name}' must be bool, not {type(value).__name__}")
    return value


SOLVES = [
    Case(SQUARE, Draw(3, 2)),
    Case(SQUARE, Draw(3)),
    Case(SQUARES, Draw(2, 2)),
    Case(SQUARES, Draw(3, 1, 2, 1)),
    Case(SQUARES, Draw(2)),
    Case(SQUARE, Draw(2, 3), left=False),
    Case(Draw(0, 0), Draw(0, 2)),
]


@api(name="linalg.solve", samples=SOLVES, autocast=Autocast(cpu=SINGLE), out_dtype=OUT_EXACT)
def linalg_solve(A: Any, B: Any, *, left: bool = True) -> Any:
    """linalg.solve(A, B, *, left=True) -> Tensor: X of A X = B, or of X A = B.

    >>> torch.linalg.solve(tensor([[2.0, 0.0], [0.0, 4.0]]), tensor([1.0, 1.0]))
    tensor([0.5000, 0.2500])
    """
    left = flag("linalg_solve", "left", left)
    return solve_equation(A, B, left, "torch.linalg.solve")[0]


@api(name="linalg.solve_ex", samples=SOLVES[:3], out_dtype=OUT_EXACT)
def linalg_solve_ex(A: Any, B: Any, *, left: bool = True, check_errors: bool = False) -> Any:
    """linalg.solve_ex(A, B, *, left=True, check_errors=False) -> (Tensor, Tensor): with an info.

    >>> torch.linalg.solve_ex(zeros(2, 2), ones(2)).info
    tensor(1, dtype=torch.int32)
    """
    only_tensors("linalg_solve_ex", A=A, B=B)
    left = flag("linalg_solve_ex", "left", left)
    return solve_equation(A, B, left, "torch.linalg.solve_ex" if check_errors else "")


@api(
    name="linalg.tensorsolve",
    samples=[Case(Draw(2, 3, 6), Draw(2, 3)), Case(Draw(2, 4, 2), Draw(2, 2), dims=(1,))],
    autocast=Autocast(cpu=SINGLE),
    out_dtype="tensorsolve: " + OUT_SAFELY,
)
def linalg_tensorsolve(input: Any, other: Any, dims: Any = None) -> Any:
    """linalg.tensorsolve(input, other, dims=None) -> Tensor: X of tensordot(input, X) = other.

    >>> torch.linalg.tensorsolve(eye(6).reshape(2, 3, 6), ones(2, 3)).shape
    torch.Size([6])
    """
    if dims is not None:
        ndim = input._array.ndim
        input = input.movedim(tuple(dims), tuple(range(ndim - len(dims), ndim)))
    shape = input._array.shape
    known = other._array.ndim
    rest = shape[known:]
    unknowns, equations = math.prod(rest), other._array.size
    if unknowns != equations:
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == "
            f"prod(self.shape[:other.ndim]), but got {unknowns} != {equations}"
        )
    matrix = input.reshape(equations, unknowns)
    solution = solve_equation(matrix, other.reshape(-1), True, "torch.linalg.solve")[0]
    return solution.reshape(rest)


# ---------------------------------------------------------------------- triangular matrices


def triangle(F: Any, x: Any, upper: bool, unitriangular: bool) -> Any:
    """The part of a matrix that is read as triangular."""
    offset = int(unitriangular)
    return F.triu(x, offset) if upper else F.tril(x, -offset)


@op
class LinalgSolveTriangular(Block):
    """linalg_solve_triangular(A, B, upper, left, unitriangular) -> Tensor: X of A X = B."""

    aten = "linalg_solve_triangular"
    public = False
    tensors = ("A", "B")
    broadcasts = True
    leading = (2, 2)

    def fwd(xp, A, B, upper, left, unitriangular):
        if left:
            return by_column(xp, substitute(xp, A, B, upper, unitriangular))
        A, B = A.swapaxes(-1, -2), B.swapaxes(-1, -2)
        return by_column(xp, substitute(xp, A, B, not upper, unitriangular).swapaxes(-1, -2))

    def backward(F, grad, needs, A, out, upper, left, unitriangular):
        back = F.linalg_solve_triangular(turned(F, A), grad, not upper, left, unitriangular)
        if not needs[0]:
            return None, back
        slope = F.matmul(back, turned(F, out)) if left else F.matmul(turned(F, out), back)
        return -triangle(F, slope, upper, unitriangular), back

    def jvp(F, A, t_A, t_B, out, upper, left, unitriangular):
        change = t_B
        if t_A is not None:
            moved = triangle(F, t_A, upper, unitriangular)
            moved = F.matmul(moved, out) if left else F.matmul(out, moved)
            change = -moved if t_B is None else t_B - moved
        return F.linalg_solve_triangular(A, change, upper, left, unitriangular)


TRIANGLE = Index([[2.0, -1.0, 0.5], [0.6, 3.0, -0.5], [0.3, 0.7, -2.5]])


@api(
    name="linalg.solve_triangular",
    samples=[
        Case(TRIANGLE, Draw(3, 2), upper=True),
        Case(TRIANGLE, Draw(3, 2), upper=False),
        Case(TRIANGLE, Draw(2, 3), upper=True, left=False),
        Case(SQUARES, Draw(3, 1, 2, 2), upper=False, left=False, unitriangular=True),
        Case(SQUARES, Draw(2, 1), upper=True, unitriangular=True),
        Case(Draw(0, 0), Draw(0, 2), upper=True),
    ],
    out_dtype="expected scalar type {want} but found {got}",
)
def linalg_solve_triangular(
    input: Any, B: Any, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Any:
    """linalg.solve_triangular(input, B, *, upper, left=True, unitriangular=False) -> Tensor: X.

    X of A X = B, or of X A = B without `left`, where only one triangle of A is read.

    >>> torch.linalg.solve_triangular(tensor([[2.0, 1.0], [9.0, 4.0]]), ones(2, 1), upper=True)
    tensor([[0.3750],
            [0.2500]])
    """
    for name, value in (("upper", upper), ("left", left), ("unitriangular", unitriangular)):
        flag("linalg_solve_triangular", name, value)
    a, b = input._array, B._array
    check_equation("linalg.solve_triangular", a, b, left)
    common_batch(a, b)
    check_kernel("triangular_solve_cpu", a)
    if b.dtype != a.dtype:
        B = B.to(input.dtype)
    return apply(LinalgSolveTriangular, (input, B), (upper, left, unitriangular))


@op
class TriangularSolve(Block):
    """triangular_solve(input, A, …) -> (Tensor, Tensor): the solution, and a copy of A."""

    aten = "triangular_solve"
    public = False
    tensors = ("input", "A")
    broadcasts = True
    leading = (2, 2)
    outs = ("solution", "cloned_coefficient")
    result = return_type("triangular_solve", ("solution", "cloned_coefficient"))
    autocast = Autocast(cpu=SINGLE)

    def fwd(xp, input, A, upper, transpose, unitriangular):
        matrix = A.swapaxes(-1, -2) if transpose else A
        x = substitute(xp, matrix, input, upper != transpose, unitriangular)
        copied = xp.broadcast_to(A, (*x.shape[:-2], *A.shape[-2:])).swapaxes(-1, -2)
        return by_column(xp, x), xp.array(copied, order="C").swapaxes(-1, -2)

    def backward(F, grad, needs, A, solution, upper, transpose, unitriangular):
        g_solution, g_copy = grad
        if g_solution is None:
            return None, g_copy
        matrix = A if transpose else turned(F, A)
        back = F.linalg_solve_triangular(
            matrix, g_solution, upper == transpose, True, unitriangular
        )
        if not needs[1]:
            return back, None
        slope = (solution, back) if transpose else (back, solution)
        found = -triangle(F, F.matmul(slope[0], turned(F, slope[1])), upper, unitriangular)
        return back, found if g_copy is None else found + g_copy

    def jvp(F, input, t_input, A, t_A, solution, upper, transpose, unitriangular):
        change = t_input
        if t_A is not None:
            moved = triangle(F, t_A, upper, unitriangular)
            moved = F.matmul(turned(F, moved) if transpose else moved, solution)
            change = -moved if t_input is None else t_input - moved
        matrix = turned(F, A) if transpose else A
        found = F.linalg_solve_triangular(matrix, change, upper != transpose, True, unitriangular)
        batch = solution.shape[:-2]
        copied = F.zeros_like(A) if t_A is None else t_A
        return found, F.expand(copied, (*batch, *A.shape[-2:]))


def check_pair(function: str, b: Any, a: Any) -> None:
    """The older solvers: matrices, A square, as many rows in b as in A, one dtype."""
    if a.dtype != b.dtype:
        raise RuntimeError(
            "Expected b and A to have the same dtype, but found b of type "
            f"{scalar_type(b)} and A of type {scalar_type(a)} instead."
        )
    check_square("", a)
    if a.shape[-1] != b.shape[-2]:
        raise RuntimeError(
            f"Incompatible matrix sizes for {function}: each A matrix is {a.shape[-1]} by "
            f"{a.shape[-1]} but each b matrix is {b.shape[-2]} by {b.shape[-1]}"
        )


@api(
    samples=[
        Case(Draw(3, 2), TRIANGLE),
        Case(Draw(2, 2, 1), SQUARES, False),
        Case(Draw(3, 1, 2, 1), SQUARES, transpose=True, unitriangular=True),
    ],
    autocast=Autocast(cpu=SINGLE),
    out_dtype=OUT_EXACT,
)
def triangular_solve(
    input: Any,
    A: Any,
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
) -> Any:
    """triangular_solve(input, A, upper=True, …) -> (Tensor, Tensor): X of A X = b (deprecated).

    >>> triangular_solve(ones(2, 1), 2 * eye(2)).solution
    tensor([[0.5000],
            [0.5000]])
    """
    b, a = input._array, A._array
    for name, x in (("b", b), ("A", a)):
        if x.ndim < 2:
            raise RuntimeError(
                f"torch.triangular_solve: Expected {name} to have at least 2 dimensions, but it "
                f"has {x.ndim} dimensions instead"
            )
    check_pair("triangular_solve", b, a)
    common_batch(a, b)
    warn_once(
        "torch.triangular_solve is deprecated in favor of torch.linalg.solve_triangularand will "
        "be removed in a future PyTorch release.\ntorch.linalg.solve_triangular has its arguments "
        "reversed and does not return a copy of one of the inputs.\nX = torch.triangular_solve(B, "
        "A).solution\nshould be replaced with\nX = torch.linalg.solve_triangular(A, B).",
    )
    check_kernel("triangular_solve_cpu", a)
    return apply(TriangularSolve, (input, A), (upper, transpose, unitriangular))
