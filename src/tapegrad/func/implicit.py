"""Solutions of equations as functions of what the equation depends on.

A solver's iterations need no derivative. At a solution x of R(x, t) = 0 the implicit function
theorem gives it: dx/dt = -(dR/dx)^-1 dR/dt. One `autograd.Function` holds this rule for roots,
fixed points, minima and linear equations. The rule solves a linear equation, which is such a
solution again: so derivatives of any order exist. Under `vmap` all equations are solved together.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import tapegrad as tg

from ..autograd.function import Function
from ..autograd.function_transforms import at_levels
from ..core.base import TensorBase
from ..core.transforms.batched import has_batched
from ..core.transforms.levels import STACK
from .derivatives import grad, vjp
from .free_tensors import Lifted
from .jacobians import jacrev
from .krylov import widened
from .solvers import NotConverged, anderson, directly, krylov, minimise, newton
from .vmapping import vmap

LARGEST_MATRIX = 512  # unknowns; "auto" solves larger equations without a matrix
LINEAR = ("auto", "direct", "cg", "gmres")


@dataclasses.dataclass(frozen=True)
class Equation:
    """R(x, *tensors) = 0 for x: how one is written, and the batches in which many are solved."""

    name: str  # of the public function, for its errors
    residual: Callable[..., Any]
    solve: Callable[[Equation, Any, tuple[Any, ...]], Any]
    linear: str  # one of LINEAR: how linear equations with dR/dx are solved
    tol: float | None
    most: int  # steps
    cost: Callable[..., Any] | None = None  # what a minimum minimises
    batches: tuple[tuple[int | None, ...], ...] = ()  # where tensors are batched, innermost first

    @property
    def rank(self) -> int:
        """How many dimensions of x count equations."""
        return len(self.batches)

    def has_matrix(self, x: Any) -> bool:
        """Whether linear equations are solved by elimination."""
        count = x.shape[self.rank :].numel()
        return self.linear == "direct" or (self.linear == "auto" and count <= LARGEST_MATRIX)

    def mapped(self, function: Callable[..., Any], count: int = 1) -> Callable[..., Any]:
        """A function of one equation (its first `count` arguments, and tensors), for all."""
        for dims in self.batches:
            function = vmap(function, in_dims=(0,) * count + dims)
        return function

    def tolerance(self, x: Any, power: float) -> float:
        """The user's tolerance, or a power of the dtype's precision."""
        return self.tol if self.tol is not None else tg.finfo(x.dtype).eps ** power

    def at(self, x: Any, tensors: tuple[Any, ...]) -> Any:
        """The residual."""
        return self.mapped(self.residual)(x, *tensors)

    def pushed(self, x: Any, v: Any, *tensors: Any) -> Any:
        """dR/dx v of one equation."""
        return pushed(lambda x: self.residual(x, *tensors), (x,), (v,))

    def pulled(self, x: Any, u: Any, *tensors: Any) -> Any:
        """(dR/dx)^T u of one equation."""
        return vjp(lambda x: self.residual(x, *tensors), x)[1](u)[0]

    def inverse(self, x: Any, v: Any, tensors: tuple[Any, ...], transposed: bool = False) -> Any:
        """(dR/dx)^-1 v, or that of the transpose; itself differentiable."""
        if self.has_matrix(x):
            batch, count = x.shape[: self.rank], x.shape[self.rank :].numel()
            matrix = self.mapped(jacrev(self.residual))(x, *tensors).reshape(*batch, count, count)
            matrix = matrix.mT if transposed else matrix
            right = v.reshape(*batch, count, 1)
            try:
                found = tg.linalg.solve(widened(matrix), widened(right)).to(v.dtype)
            except tg.linalg.LinAlgError as error:
                left = float(v.norm())
                raise NotConverged(
                    self.name, f"the Jacobian is singular: {error}", left, 0
                ) from error
            return found.reshape(x.shape)
        product = self.pulled if transposed else self.pushed

        def apart(found: Any, v: Any, x: Any, *tensors: Any) -> Any:
            return product(x, found, *tensors) - v

        batches = tuple([(0, 0, *dims) for dims in self.batches])
        linear = dataclasses.replace(
            self, residual=apart, solve=krylov, tol=None, cost=None, batches=batches
        )
        return solution(linear, tg.zeros_like(v), v, x, *tensors)


class Solution(Function):
    """The x with R(x, *tensors) = 0, as a function of the tensors."""

    @staticmethod
    def forward(equation: Equation, start: Any, *tensors: Any) -> Any:  # type: ignore[override]
        with tg.no_grad():
            return equation.solve(equation, start, tensors)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.equation = inputs[0]
        ctx.save_for_backward(output, *inputs[2:])
        ctx.save_for_forward(output, *inputs[2:])

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        equation, (x, *tensors) = ctx.equation, ctx.saved_tensors
        wanted = [i for i in range(len(tensors)) if ctx.needs_input_grad[i + 2]]
        u = equation.inverse(x, -g, tuple(tensors), transposed=True)
        found = vjp(along(equation, x, tensors, wanted), *[tensors[i] for i in wanted])[1](u)
        grads: list[Any] = [None] * len(tensors)
        for i, each in zip(wanted, found, strict=True):
            grads[i] = each
        return (None, None, *grads)

    @staticmethod
    def jvp(ctx: Any, _: Any, __: Any, *tangents: Any) -> Any:
        equation, (x, *tensors) = ctx.equation, ctx.saved_tensors
        moving = [
            i for i, t in enumerate(tangents) if t is not None and tensors[i].is_floating_point()
        ]
        primals = tuple([tensors[i] for i in moving])
        directions = tuple([tangents[i] for i in moving])
        v = pushed(along(equation, x, tensors, moving), primals, directions)
        return equation.inverse(x, -v, tuple(tensors))

    @staticmethod
    def vmap(info: Any, in_dims: Any, equation: Equation, start: Any, *tensors: Any) -> Any:  # type: ignore[override]
        if in_dims[1] is None:
            start = start.expand(info.batch_size, *start.shape)
        else:
            start = start.movedim(in_dims[1], 0)
        batches = (*equation.batches, tuple(in_dims[2:]))
        return Solution.apply(dataclasses.replace(equation, batches=batches), start, *tensors), 0


def solution(equation: Equation, start: Any, *tensors: Any) -> Any:
    """`Solution.apply`; by its rule for batches in a backward pass with `is_grads_batched` too."""
    if has_batched(tensors) and not STACK.transforms():
        return at_levels(Solution, (equation, start, *tensors), STACK.levels)
    return Solution.apply(equation, start, *tensors)


def pushed(
    function: Callable[..., Any], primals: tuple[Any, ...], tangents: tuple[Any, ...]
) -> Any:
    """The derivative of a function along tangents: of u -> J^T u, which is linear, the transpose.

    Every op has the rules for it, and it may be asked for where forward mode runs already.
    """
    out, pull = vjp(function, *primals)
    found = vjp(lambda u: pull(u), tg.zeros_like(out))[1](tangents)[0]
    return pull.released(found)


def along(equation: Equation, x: Any, tensors: list[Any], some: list[int]) -> Callable[..., Any]:
    """The residual as a function of some of the tensors."""

    def moved(*values: Any) -> Any:
        every = list(tensors)
        for i, value in zip(some, values, strict=True):
            every[i] = value
        return equation.at(x, tuple(every))

    return moved


# ---------------------------------------------------------------------- what users call


def root(
    func: Callable[..., Any],
    x0: Any,
    *args: Any,
    tol: float | None = None,
    max_steps: int = 50,
    linear: str = "auto",
) -> Any:
    """The x near `x0` with func(x, *args) = 0, by Newton's method; its derivatives are exact.

    The result can be differentiated, in every mode and to any order, with respect to the tensors in
    `args` and to those that `func` reads from outside, such as a module's parameters; nothing is
    kept of the iterations. `func` returns a tensor of x's shape.

    `tol`: a step that changes x by less than this, relative to x, is the last one; by default the
    square root of the dtype's precision (the error is then of the order of `tol` squared).
    `linear`: how linear equations with the Jacobian are solved: "direct" (elimination), "gmres",
    "cg" (for symmetric positive definite ones), or "auto": "direct" for up to 512 unknowns, then
    "gmres". `func.NotConverged` is raised when there is no solution after `max_steps`.

    >>> torch.func.root(lambda x, a: x * x - a, tensor(1.0), tensor(2.0))
    tensor(1.4142)
    """
    equation, tensors = stated(root, func, x0, args, newton, tol, max_steps, linear)
    return solution(equation, x0.detach(), *tensors)


def fixed_point(
    func: Callable[..., Any],
    x0: Any,
    *args: Any,
    tol: float | None = None,
    max_steps: int = 500,
    linear: str = "auto",
) -> Any:
    """The x near `x0` with func(x, *args) = x, by Anderson's accelerated iteration.

    Differentiable as the result of `func.root`. `tol`: the largest change of x, relative to x, that
    another application of `func` may make. The other arguments are those of `func.root`.

    >>> torch.func.fixed_point(torch.cos, tensor(1.0))
    tensor(0.7391)
    """
    equation, tensors = stated(fixed_point, func, x0, args, anderson, tol, max_steps, linear)
    apart = functools.partial(difference, equation.residual)
    return solution(dataclasses.replace(equation, residual=apart), x0.detach(), *tensors)


def difference(function: Callable[..., Any], x: Any, *tensors: Any) -> Any:
    return function(x, *tensors) - x


def argmin(
    func: Callable[..., Any],
    x0: Any,
    *args: Any,
    tol: float | None = None,
    max_steps: int = 200,
    linear: str = "auto",
) -> Any:
    """The x near `x0` at which the scalar func(x, *args) is least.

    Found by Newton's method, whose directions come from products with the Hessian. A saddle point
    or a maximum, where the Hessian has a negative eigenvalue, is left downhill. Differentiable as
    the result of `func.root`, where the Hessian at the minimum is regular.

    >>> torch.func.argmin(lambda x, a: (x - a).square().sum(), tensor([0.0]), tensor([3.0]))
    tensor([3.])
    """
    equation, tensors = stated(argmin, func, x0, args, minimise, tol, max_steps, linear)
    cost = equation.residual
    equation = dataclasses.replace(equation, residual=grad(cost), cost=cost)
    return solution(equation, x0.detach(), *tensors)


def linear_solve(
    matvec: Any,
    b: Any,
    *args: Any,
    x0: Any = None,
    tol: float | None = None,
    max_steps: int = 1000,
    linear: str = "auto",
) -> Any:
    """The x with matvec(x, *args) = b, for a linear function that is known by its values alone.

    `matvec` may also be a square matrix. Differentiable as the result of `func.root`, also with
    respect to `b`. `linear`: "direct", "gmres", "cg" or "auto", as there; `tol`: the norm of the
    residual relative to that of b at which an iteration ends.

    >>> torch.func.linear_solve(lambda x: 2 * x, tensor([2.0, 4.0]))
    tensor([1., 2.])
    """
    check_vector("linear_solve", "b", b)
    if isinstance(matvec, TensorBase):
        if b.ndim != 1 or tuple(matvec.shape) != (b.numel(), b.numel()):  # type: ignore[attr-defined]
            raise ValueError(
                f"linear_solve: a matrix must be n x n and b have n numbers, got the shapes "
                f"{tuple(matvec.shape)} and {tuple(b.shape)}"  # type: ignore[attr-defined]
            )
        args = (matvec, *args)
        matvec = by_matrix
    start = tg.zeros_like(b) if x0 is None else x0
    if isinstance(start, TensorBase) and start.shape != b.shape:  # type: ignore[attr-defined]
        raise ValueError(
            f"linear_solve: x0 must have the shape of b, {tuple(b.shape)}, got {tuple(start.shape)}"  # type: ignore[attr-defined]
        )
    equation, tensors = stated(linear_solve, matvec, start, args, directly, tol, max_steps, linear)
    apart = functools.partial(from_right, equation.residual)
    equation = dataclasses.replace(equation, residual=apart)
    return solution(equation, start.detach(), b, *tensors)


def by_matrix(x: Any, matrix: Any) -> Any:
    return matrix @ x


def from_right(function: Callable[..., Any], x: Any, b: Any, *tensors: Any) -> Any:
    return function(x, *tensors) - b


def stated(
    asked: Callable[..., Any],
    func: Any,
    x0: Any,
    args: tuple[Any, ...],
    solver: Callable[..., Any],
    tol: float | None,
    max_steps: int,
    linear: str,
) -> tuple[Equation, list[Any]]:
    """The equation of a call of a public function, checked, and the tensors that it depends on."""
    name = asked.__name__
    if not callable(func):
        raise TypeError(f"{name}: the first argument must be a function, got {type(func).__name__}")
    check_vector(name, "x0", x0)
    if linear not in LINEAR:
        raise ValueError(f"{name}: linear must be one of {', '.join(LINEAR)}, got {linear!r}")
    if isinstance(max_steps, bool) or not isinstance(max_steps, int) or max_steps < 1:
        raise ValueError(f"{name}: max_steps must be a positive int, got {max_steps!r}")
    if tol is not None and not tol > 0:
        raise ValueError(f"{name}: tol must be a positive number, got {tol!r}")
    shape = () if solver is minimise else x0.shape
    lifted = Lifted(name, functools.partial(shaped, name, func, tuple(shape)), x0.detach(), args)
    return Equation(name, lifted, solver, linear, tol, max_steps), lifted.tensors


def check_vector(name: str, argument: str, x: Any) -> None:
    if not isinstance(x, TensorBase):
        raise TypeError(f"{name}: {argument} must be a Tensor, got {type(x).__name__}")
    if not x.is_floating_point():  # type: ignore[attr-defined]
        raise TypeError(f"{name}: {argument} must have a real floating-point dtype, got {x.dtype}")  # type: ignore[attr-defined]


def shaped(name: str, func: Callable[..., Any], shape: tuple[int, ...], *args: Any) -> Any:
    """A value of the user's function, which must be a tensor of that shape."""
    out = func(*args)
    if not isinstance(out, TensorBase) or tuple(out.shape) != shape:  # type: ignore[attr-defined]
        found = tuple(out.shape) if isinstance(out, TensorBase) else type(out).__name__  # type: ignore[attr-defined]
        raise ValueError(
            f"{name}: the function must return a tensor of the shape {shape}, got {found}"
        )
    return out
