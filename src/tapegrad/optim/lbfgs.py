"""L-BFGS: Newton's method with the curvature guessed from the last few steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tapegrad as tg

from ._per_tensor import check_options, python_number
from .optimizer import Optimizer

__all__ = ["LBFGS"]

# One evaluation along a line: obj_func(x, t, d) -> loss and flat gradient at x + t * d.
Objective = Callable[[Any, Any, Any], tuple[float, Any]]


class LBFGS(Optimizer):
    """L-BFGS (Liu and Nocedal, 1989); `step` needs a closure, which it calls several times.

    >>> p = nn.Parameter(tensor([3.0]))
    >>> optimizer = optim.LBFGS([p], line_search_fn="strong_wolfe")
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = (p - 1).square().sum()
    ...     loss.backward()
    ...     return loss
    >>> optimizer.step(closure)
    tensor(4., grad_fn=<SumBackward0>)
    >>> p
    Parameter containing:
    tensor([1.], requires_grad=True)
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        check_options(lr=lr)
        defaults = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
        }
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params = self.param_groups[0]["params"]

    @tg.no_grad()
    def step(self, closure: Callable[[], Any]) -> Any:  # type: ignore[override]
        """Up to `max_iter` iterations; the loss that `closure` returned at the start."""
        evaluate = tg.enable_grad()(closure)
        group = self.param_groups[0]
        # The state belongs to all parameters; it is kept with the first.
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first_loss = evaluate()
        loss = loss_value(first_loss)
        evaluations = 1
        state["func_evals"] += 1
        flat_grad = self._gather_flat_grad()
        if flat_grad.abs().max() <= group["tolerance_grad"]:
            return first_loss
        history = History(state)
        for iteration in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            history.set_direction(flat_grad, state, group)
            history.prev_loss = loss
            t = first_step_size(flat_grad, state["n_iter"]) * python_number(group["lr"])
            history.t = t
            slope = flat_grad.dot(history.d)
            if slope > -group["tolerance_change"]:
                break
            taken = 0
            if group["line_search_fn"] is not None:
                if group["line_search_fn"] != "strong_wolfe":
                    raise RuntimeError("only 'strong_wolfe' is supported")
                left = group["max_eval"] - evaluations
                loss, flat_grad, t, taken = self._search(
                    evaluate, history.d, t, loss, flat_grad, min(25, left)
                )
                history.t = t
            else:
                self._move(t, history.d)
                if iteration != group["max_iter"]:
                    loss = loss_value(evaluate())
                    flat_grad = self._gather_flat_grad()
                    taken = 1
            evaluations += taken
            state["func_evals"] += taken
            if (
                iteration == group["max_iter"]
                or evaluations >= group["max_eval"]
                or flat_grad.abs().max() <= group["tolerance_grad"]
                or history.d.mul(t).abs().max() <= group["tolerance_change"]
                or abs(loss - history.prev_loss) < group["tolerance_change"]
            ):
                break
        history.store(state)
        return first_loss

    def _gather_flat_grad(self) -> Any:
        """All gradients end to end, complex ones as pairs."""
        pieces = []
        for p in self._params:
            grad = tg.zeros_like(p) if p.grad is None else p.grad
            pieces.append(real_view(grad).reshape(-1))
        return tg.cat(pieces, 0)

    def _move(self, t: Any, d: Any) -> None:
        """All parameters by `t` times their part of the direction `d`."""
        start = 0
        for p in self._params:
            part = real_view(p)
            part.add_(d[start : start + part.numel()].view_as(part), alpha=python_number(t))
            start += part.numel()

    def _search(
        self, evaluate: Callable[[], Any], d: Any, t: Any, loss: float, flat_grad: Any, most: int
    ) -> tuple[float, Any, Any, int]:
        """Line search from where the parameters are; they end at the step that it found."""

        def at(x: list[Any], t: Any, d: Any) -> tuple[float, Any]:
            self._move(t, d)
            found = loss_value(evaluate()), self._gather_flat_grad()
            for p, before in zip(self._params, x, strict=True):
                p.copy_(before)
            return found

        x = [p.clone(memory_format=tg.contiguous_format) for p in self._params]
        slope = flat_grad.dot(d)
        loss, flat_grad, t, taken = _strong_wolfe(at, x, t, d, loss, flat_grad, slope, max_ls=most)
        self._move(t, d)
        return loss, flat_grad, t, taken


def real_view(t: Any) -> Any:
    return tg.view_as_real(t) if t.is_complex() else t


def loss_value(loss: Any) -> float:
    return loss.item() if isinstance(loss, tg.Tensor) else float(loss)


def first_step_size(flat_grad: Any, n_iter: int) -> Any:
    """The very first step is short where the gradient is large: its scale is not known yet."""
    return min(1.0, 1.0 / flat_grad.abs().sum()) if n_iter == 1 else 1


class History:
    """Steps and changes of the gradient so far, with the names that they have in the state."""

    FIELDS = ("d", "t", "old_dirs", "old_stps", "ro", "H_diag", "prev_flat_grad", "prev_loss")

    def __init__(self, state: dict[str, Any]) -> None:
        for name in self.FIELDS:
            setattr(self, name, state.get(name))

    def store(self, state: dict[str, Any]) -> None:
        for name in self.FIELDS:
            state[name] = getattr(self, name)

    d: Any
    t: Any
    old_dirs: list[Any]  # changes of the gradient
    old_stps: list[Any]  # steps
    ro: list[Any]  # 1 / (change · step)
    H_diag: Any
    prev_flat_grad: Any
    prev_loss: Any

    def set_direction(self, flat_grad: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        """The direction of the next step: downhill, bent by the curvature seen so far."""
        if state["n_iter"] == 1:
            self.d = flat_grad.neg()
            self.old_dirs, self.old_stps, self.ro = [], [], []
            self.H_diag = 1
        else:
            self.remember(flat_grad, group["history_size"])
            self.d = self.bend(flat_grad, state.setdefault("al", [None] * group["history_size"]))
        if self.prev_flat_grad is None:
            self.prev_flat_grad = flat_grad.clone(memory_format=tg.contiguous_format)
        else:
            self.prev_flat_grad.copy_(flat_grad)

    def remember(self, flat_grad: Any, most: int) -> None:
        """Keep the last step, if the slope went up along it."""
        change = flat_grad.sub(self.prev_flat_grad)
        step = self.d.mul(self.t)
        product = change.dot(step)
        if not product > 1e-10:  # written so that NaN goes the way it goes in PyTorch; so below
            return
        if len(self.old_dirs) == most:
            for kept in (self.old_dirs, self.old_stps, self.ro):
                kept.pop(0)
        self.old_dirs.append(change)
        self.old_stps.append(step)
        self.ro.append(1.0 / product)
        self.H_diag = product / change.dot(change)

    def bend(self, flat_grad: Any, al: list[Any]) -> Any:
        """The inverse Hessian, known by the history alone, times the downhill direction."""
        q = flat_grad.neg()
        count = len(self.old_dirs)
        for i in reversed(range(count)):
            al[i] = self.old_stps[i].dot(q) * self.ro[i]
            q.add_(self.old_dirs[i], alpha=-al[i].item())
        d = q * self.H_diag
        for i in range(count):
            be = self.old_dirs[i].dot(d) * self.ro[i]
            d.add_(self.old_stps[i], alpha=(al[i] - be).item())
        return d


# ------------------------------------------------------------------ line search


@dataclass
class Point:
    """A place on the line: how far out, loss, gradient, and slope along the line."""

    t: Any
    f: float
    g: Any
    slope: Any


def _cubic_interpolate(
    x1: Any, f1: Any, g1: Any, x2: Any, f2: Any, g2: Any, bounds: tuple[Any, Any] | None = None
) -> Any:
    """Where the cubic through two points with their slopes is least, within the bounds.

    >>> from tapegrad.optim.lbfgs import _cubic_interpolate
    >>> _cubic_interpolate(0.0, 1.0, tensor(-2.0), 3.0, 4.0, tensor(4.0))
    tensor(1.)
    """
    if bounds is None:
        bounds = (x1, x2) if x1 <= x2 else (x2, x1)
    least, most = bounds
    d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2)
    inside = d1**2 - g1 * g2
    if not inside >= 0:
        return (least + most) / 2.0
    d2 = inside.sqrt() if isinstance(inside, tg.Tensor) else inside**0.5
    if x1 <= x2:
        best = x2 - (x2 - x1) * ((g2 + d2 - d1) / (g2 - g1 + 2 * d2))
    else:
        best = x1 - (x1 - x2) * ((g1 + d2 - d1) / (g1 - g2 + 2 * d2))
    return min(max(best, least), most)


def between(a: Point, b: Point, bounds: tuple[Any, Any] | None = None) -> Any:
    return _cubic_interpolate(a.t, a.f, a.slope, b.t, b.f, b.slope, bounds)


def _strong_wolfe(
    obj_func: Objective,
    x: Any,
    t: Any,
    d: Any,
    f: float,
    g: Any,
    gtd: Any,
    c1: float = 1e-4,
    c2: float = 0.9,
    tolerance_change: float = 1e-9,
    max_ls: int = 25,
) -> tuple[float, Any, Any, int]:
    """A step along `d` that lowers the loss enough and flattens its slope enough.

    First a bracket is widened until it holds such a step, then it is narrowed around it. Returns
    loss, gradient and size of the step, and how often the loss was computed.
    """
    calls = 0

    def at(t: Any) -> Point:
        nonlocal calls
        calls += 1
        loss, grad = obj_func(x, t, d)
        return Point(t, loss, grad, grad.dot(d))

    def too_high(p: Point) -> bool:
        return bool(p.f > f + c1 * p.t * gtd)

    def flat_enough(p: Point) -> bool:
        return bool(abs(p.slope) <= -c2 * gtd)

    start = before = Point(0, f, g.clone(memory_format=tg.contiguous_format), gtd)
    here = at(t)
    rounds = 0
    bracket = None
    while rounds < max_ls:
        if flat_enough(here) and not too_high(here) and not (rounds > 1 and here.f >= before.f):
            return here.f, here.g, here.t, calls
        if too_high(here) or (rounds > 1 and here.f >= before.f) or here.slope >= 0:
            bracket = [before, here]
            break
        bounds = (here.t + 0.01 * (here.t - before.t), here.t * 10)
        before, here = here, at(between(before, here, bounds))
        rounds += 1
    if bracket is None:
        bracket = [start, here]

    longest = d.abs().max()
    stuck = False
    low = 0 if bracket[0].f <= bracket[1].f else 1
    while rounds < max_ls:
        if abs(bracket[1].t - bracket[0].t) * longest < tolerance_change:
            break
        t = between(bracket[0], bracket[1])
        t, stuck = away_from_ends(t, bracket, stuck)
        here = at(t)
        rounds += 1
        if too_high(here) or here.f >= bracket[low].f:
            bracket[1 - low] = here
            low = 0 if bracket[0].f <= bracket[1].f else 1
            continue
        done = flat_enough(here)
        if not done and here.slope * (bracket[1 - low].t - bracket[low].t) >= 0:
            bracket[1 - low] = bracket[low]
        bracket[low] = here
        if done:
            break
    best = bracket[low]
    return best.f, best.g, best.t, calls


def away_from_ends(t: Any, bracket: list[Point], stuck: bool) -> tuple[Any, bool]:
    """A step too near an end of the bracket, moved inwards the second time that it happens."""
    left, right = sorted([bracket[0].t, bracket[1].t])
    margin = 0.1 * (right - left)
    if not min(right - t, t - left) < margin:
        return t, False
    if not (stuck or t >= right or t <= left):
        return t, True
    return (right - margin if abs(t - right) < abs(t - left) else left + margin), False
