"""Iterations that solve equations, many at a time.

Each takes an `Equation` (implicit.py), a first guess and the tensors, and returns x. An equation of
a batch that is solved waits unchanged for the others. Nothing here is recorded: derivatives of the
solution come from the equation, not from the iteration.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tapegrad as tg

from .jacobians import jacrev
from .krylov import (
    beside,
    conjugate_gradients,
    gmres,
    inner,
    lanczos,
    norm,
    quotient,
    times,
    widened,
)

if TYPE_CHECKING:
    from .implicit import Equation

HALVINGS = 30
REMEMBERED = 5  # iterates from which Anderson's method makes the next one


class NotConverged(RuntimeError):
    """A solver gave up. `residual`: how large the error was then; `steps`: how many it took."""

    def __init__(self, name: str, why: str, residual: float, steps: int) -> None:
        super().__init__(f"{name}: {why} (residual {residual:.3g} after {steps} steps)")
        self.residual = residual
        self.steps = steps


def gave_up(equation: Equation, size: Any, done: Any, steps: int) -> NotConverged:
    """The exception for equations that are not `done`, whose errors are `size`."""
    left = size[~done]
    worst = left.max()
    if not bool(left.isfinite().all()):
        why = "the iteration left the finite numbers; start nearer to the solution"
    elif steps >= equation.most:
        why = (
            "not solved; start nearer to the solution, allow more steps (max_steps=), or more tol="
        )
    else:
        why = "no step makes the error smaller; start nearer to the solution"
    if equation.batches:
        why += f"; {left.numel()} of {done.numel()} equations of the batch are not solved"
    return NotConverged(equation.name, why, float(worst), steps)


def newton(equation: Equation, x: Any, tensors: tuple[Any, ...]) -> Any:
    """Newton's method; a step that makes the residual no smaller is halved."""
    rank = equation.rank
    tol, eps = equation.tolerance(x, 0.5), tg.finfo(x.dtype).eps
    r = equation.at(x, tensors)
    size = first = norm(r, rank)
    done = size == 0
    step = 0
    while not bool(done.all()):
        if step == equation.most:
            raise gave_up(equation, size, done, step)
        step += 1
        d = equation.inverse(x, -r, tensors)
        near = norm(d, rank) <= tol * norm(x, rank)
        length = tg.ones_like(size)
        for _ in range(HALVINGS):
            trial = tg.where(beside(done, x, rank), x, x + times(length, d, rank))
            r = equation.at(trial, tensors)
            found = norm(r, rank)
            better = (found <= (1 - 1e-4 * length) * size) | done | (near & (found <= size))
            if bool((better | near).all()):
                break
            length = tg.where(better, length, length / 2)
        if not bool((better | near).all()):
            raise gave_up(equation, size, done | better | near, step)
        x = tg.where(beside(better, x, rank), trial, x)
        size = tg.where(better, found, size)
        done = done | near | (size <= eps * first)
    return x


def anderson(equation: Equation, x: Any, tensors: tuple[Any, ...]) -> Any:
    """x = f(x), whose residual is f(x) - x, by Anderson's method.

    The next x is that combination of the last few values of f whose residual would be least if f
    were linear. Where residuals grow, the memory is dropped and f is applied plainly.
    """
    rank = equation.rank
    tol, eps = equation.tolerance(x, 0.75), tg.finfo(x.dtype).eps
    r = equation.at(x, tensors)
    size = first = norm(r, rank)
    best = size
    values, residuals = [x + r], [r]
    for step in range(equation.most + 1):
        done = (size <= tol * norm(x + r, rank)) | (size <= eps * first)
        done = done & size.isfinite()
        if bool(done.all()):
            return x + r
        if step == equation.most or not bool(size.isfinite().all()):
            raise gave_up(equation, size, done, step)
        proposed = combined(values, residuals, rank)
        x = tg.where(beside(done, x, rank), x, proposed)
        r = equation.at(x, tensors)
        size = norm(r, rank)
        if not bool((size <= 2 * best).all()):
            values, residuals = [], []
        best = tg.minimum(best, size)
        values = [*values, x + r][-REMEMBERED:]
        residuals = [*residuals, r][-REMEMBERED:]
    raise AssertionError


def combined(values: list[Any], residuals: list[Any], rank: int) -> Any:
    """The combination of values, with weights that add up to one, whose residual is least."""
    if len(values) == 1:
        return values[0]
    flat = [r.reshape(*r.shape[:rank], -1, 1) for r in residuals]
    matrix = tg.cat([r - flat[-1] for r in flat[:-1]], -1)
    weights = -(tg.linalg.pinv(widened(matrix)).to(matrix.dtype) @ flat[-1])[..., 0]
    out = values[-1]
    for i, value in enumerate(values[:-1]):
        out = out + times(weights[..., i], value - values[-1], rank)
    return out


def minimise(equation: Equation, x: Any, tensors: tuple[Any, ...]) -> Any:
    """Newton's method for a minimum; saddle points on the way are left downhill."""
    x, step = descended(equation, x, tensors, 0)
    while True:
        lowest, direction = most_bent(equation, x, tensors)
        if not bool((lowest < 0).any()):
            return x
        x = off_saddle(equation, x, tensors, lowest, direction, step)
        x, step = descended(equation, x, tensors, step + 1)


def descended(equation: Equation, x: Any, tensors: tuple[Any, ...], step: int) -> tuple[Any, int]:
    """Where the gradient vanishes, downhill from x, and the steps so far.

    Directions come from conjugate gradients, cut short. Each is followed as far as the cost falls
    (Armijo's rule, or a smaller gradient where differences of the cost are lost in rounding).
    """
    rank = equation.rank
    tol, eps = equation.tolerance(x, 0.5), tg.finfo(x.dtype).eps
    cost = equation.mapped(equation.cost)  # type: ignore[arg-type]
    value, g = cost(x, *tensors), equation.at(x, tensors)
    size = first = norm(g, rank)
    done = size == 0
    while not bool(done.all()):
        if step >= equation.most:
            raise gave_up(equation, size, done, step)
        step += 1
        d = downhill(equation, x, g, tensors, size / first)
        slope = inner(g, d, rank)
        near = norm(d, rank) <= tol * norm(x, rank)
        length = tg.ones_like(size)
        for _ in range(HALVINGS):
            trial = tg.where(beside(done, x, rank), x, x + times(length, d, rank))
            found, turned = cost(trial, *tensors), equation.at(trial, tensors)
            falls = found <= value + 1e-4 * length * slope
            level = (found - value).abs() <= 10 * eps * value.abs()
            better = falls | done | (level & (norm(turned, rank) <= size))
            if bool((better | near).all()):
                break
            length = tg.where(better, length, length / 2)
        if not bool((better | near).all()):
            raise gave_up(equation, size, done | better | near, step)
        x = tg.where(beside(better, x, rank), trial, x)
        g = tg.where(beside(better, x, rank), turned, g)
        value = tg.where(better, found, value)
        size = norm(g, rank)
        done = done | near | (size <= eps * first)
    return x, step


def downhill(equation: Equation, x: Any, g: Any, tensors: tuple[Any, ...], ratio: Any) -> Any:
    """About -H^-1 g, by conjugate gradients; they end where the cost bends downwards."""
    rank = equation.rank
    product = equation.mapped(equation.pulled, 2)
    limit = tg.minimum(ratio.sqrt(), tg.full_like(ratio, 0.25)) * norm(g, rank)
    d = tg.zeros_like(x)
    r = p = -g
    square = inner(r, r, rank)
    open_ = square > 0
    for i in range(2 * x.shape[rank:].numel()):
        bent = product(x, p, *tensors)
        curvature = inner(p, bent, rank)
        if i == 0:  # the gradient's own direction, where it bends downwards
            d = tg.where(beside(open_ & (curvature <= 0), d, rank), p, d)
        open_ = open_ & (curvature > 0)
        if not bool(open_.any()):
            break
        length = tg.where(open_, quotient(square, curvature), 0)
        d = d + times(length, p, rank)
        r = r - times(length, bent, rank)
        before, square = square, inner(r, r, rank)
        open_ = open_ & (square.sqrt() > limit)
        p = r + times(quotient(square, before), p, rank)
    return d


def most_bent(equation: Equation, x: Any, tensors: tuple[Any, ...]) -> tuple[Any, Any]:
    """The least eigenvalue of the Hessian (zero unless clearly negative), and its direction.

    Of a Hessian that is known by products alone, it is an estimate from above.
    """
    batch, count = x.shape[: equation.rank], x.shape[equation.rank :].numel()
    if count == 0:
        return tg.zeros(batch, dtype=x.dtype, device=x.device), x
    if equation.has_matrix(x):
        matrix = equation.mapped(jacrev(equation.residual))(x, *tensors)
        matrix = matrix.reshape(*batch, count, count)
        vectors = tg.eye(count, dtype=x.dtype, device=x.device)
    else:
        product = equation.mapped(equation.pulled, 2)
        matrix, vectors = lanczos(lambda v: product(x, v, *tensors), x, equation.rank)
    known = matrix.isfinite().all(-1).all(-1)[..., None, None]
    matrix = tg.where(known, (matrix + matrix.mT) / 2, 0)
    values, turned = [t.to(x.dtype) for t in tg.linalg.eigh(widened(matrix))]
    limit = tg.finfo(x.dtype).eps ** 0.5 * values.abs().amax(-1)
    lowest = values[..., 0]
    return tg.where(lowest < -limit, lowest, 0), (vectors @ turned[..., :1]).reshape(x.shape)


def off_saddle(
    equation: Equation, x: Any, tensors: tuple[Any, ...], lowest: Any, direction: Any, step: int
) -> Any:
    """A point of lower cost for each equation whose Hessian has a negative eigenvalue at x."""
    rank = equation.rank
    cost = equation.mapped(equation.cost)  # type: ignore[arg-type]
    value, g = cost(x, *tensors), equation.at(x, tensors)
    is_saddle = lowest < 0
    length = 1 + norm(x, rank)
    length = tg.where(inner(g, direction, rank) > 0, -length, length)
    for _ in range(HALVINGS):
        trial = tg.where(beside(is_saddle, x, rank), x + times(length, direction, rank), x)
        falls = (cost(trial, *tensors) <= value + lowest * length * length / 4) | ~is_saddle
        if bool(falls.all()):
            return trial
        length = tg.where(falls, length, length / 2)
    raise NotConverged(
        equation.name,
        "the iteration came to a saddle point or a maximum (the Hessian has the eigenvalue "
        f"{float(lowest.min()):.3g}), from where no step makes the cost smaller; start elsewhere",
        float(norm(g, rank).max()),
        step,
    )


def krylov(equation: Equation, x: Any, tensors: tuple[Any, ...]) -> Any:
    """A linear equation, whose residual is A x - b, by products with A."""
    tol = equation.tolerance(x, 0.75)
    b = -equation.at(tg.zeros_like(x), tensors)

    def product(v: Any) -> Any:
        return equation.at(v, tensors) + b

    solver = conjugate_gradients if equation.linear == "cg" else gmres
    x, size, done, steps = solver(product, b, x, equation.rank, tol, equation.most)
    if not bool(done.all()):
        raise gave_up(equation, size, done, steps)
    return x


def directly(equation: Equation, x: Any, tensors: tuple[Any, ...]) -> Any:
    """A linear equation, by elimination where there is a matrix."""
    if not equation.has_matrix(x):
        return krylov(equation, x, tensors)
    zero = tg.zeros_like(x)
    left = equation.at(zero, tensors)
    found = equation.inverse(zero, -left, tensors)
    once, twice = equation.at(found, tensors), equation.at(2 * found, tensors)
    curved = norm(twice - 2 * once + left, equation.rank)  # of a linear function, rounding
    size = norm(twice, equation.rank) + norm(left, equation.rank)
    if bool((curved > tg.finfo(x.dtype).eps ** 0.5 * size).any()):
        raise ValueError(f"{equation.name}: the function is not linear in its first argument")
    return found
