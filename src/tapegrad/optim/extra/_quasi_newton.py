"""Self-scaled BFGS: quasi-Newton steps with a whole matrix, for smooth losses of few parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tapegrad as tg

from .._per_tensor import python_number
from ..lbfgs import LBFGS, first_step_size, loss_value
from ._matrices import check, is_count, is_number


class SelfScaledBFGS(LBFGS):
    """BFGS whose inverse Hessian is scaled before each update (Oren and Luenberger, 1974).

    The matrix is divided by min(1, y·s / s·Bs), for steps s and changes y of the gradient
    (Al-Baali, 1998): it forgets curvature that is too large, which is what limits BFGS on the
    losses of physics-informed networks (Urbán, Stefanou and Pons, 2025). `scaled=False` is BFGS.
    It keeps a square matrix of all parameters, and takes a closure and one group of parameters, as
    `LBFGS`.

    >>> p = nn.Parameter(tensor([-1.2, 1.0], dtype=torch.float64))
    >>> optimizer = optim.extra.SelfScaledBFGS([p], max_iter=100)
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = (1 - p[0]) ** 2 + 100 * (p[1] - p[0] ** 2) ** 2
    ...     loss.backward()
    ...     return loss
    >>> loss = optimizer.step(closure)
    >>> p
    Parameter containing:
    tensor([1.0000, 1.0000], dtype=torch.float64, requires_grad=True)
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1.0,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        line_search_fn: str | None = "strong_wolfe",
        scaled: bool = True,
    ) -> None:
        check(
            "SelfScaledBFGS",
            lr=(lr, is_number(lr) and lr > 0, "a number > 0"),
            max_iter=(max_iter, is_count(max_iter), "an integer >= 1"),
            max_eval=(max_eval, max_eval is None or is_count(max_eval), "an integer >= 1"),
            tolerance_grad=(tolerance_grad, is_number(tolerance_grad), "a number >= 0"),
            tolerance_change=(tolerance_change, is_number(tolerance_change), "a number >= 0"),
            line_search_fn=(
                line_search_fn, line_search_fn in (None, "strong_wolfe"), '"strong_wolfe" or None'
            ),
        )  # fmt: skip
        super().__init__(
            params, lr, max_iter, max_eval, tolerance_grad, tolerance_change,
            line_search_fn=line_search_fn,
        )  # fmt: skip
        if any(p.is_complex() for p in self._params):
            raise ValueError("SelfScaledBFGS does not support complex parameters")
        self.param_groups[0]["scaled"] = bool(scaled)

    @tg.no_grad()
    def step(self, closure: Callable[[], Any]) -> Any:  # type: ignore[override]
        """Up to `max_iter` iterations; the loss that `closure` returned at the start."""
        evaluate = tg.enable_grad()(closure)
        group = self.param_groups[0]
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first_loss = evaluate()
        loss, grad = loss_value(first_loss), self._gather_flat_grad()
        evaluations = 1
        for _ in range(group["max_iter"]):
            if grad.abs().max() <= group["tolerance_grad"]:
                break
            state["n_iter"] += 1
            inverse = state.get("inverse_hessian")
            d = -grad if inverse is None else -(inverse @ grad)
            slope = grad.dot(d)
            if not slope < 0:  # rounding has spoiled the matrix: begin anew
                state["inverse_hessian"] = inverse = None
                d = -grad
                slope = grad.dot(d)
            t = first_step_size(grad, 1) if inverse is None else 1.0
            t = t * python_number(group["lr"])
            before, previous = loss, grad.clone()
            if group["line_search_fn"] is None:
                self._move(t, d)
                loss, grad, taken = loss_value(evaluate()), self._gather_flat_grad(), 1
            else:
                left = max(1, min(25, group["max_eval"] - evaluations))
                loss, grad, t, taken = self._search(evaluate, d, t, loss, grad, left)
            evaluations += taken
            s = d.mul(t)
            self._learn(state, s, grad - previous, -t * slope * t, group["scaled"])
            if (
                evaluations >= group["max_eval"]
                or s.abs().max() <= group["tolerance_change"]
                or abs(loss - before) < group["tolerance_change"]
            ):
                break
        state["func_evals"] += evaluations
        return first_loss

    def _learn(self, state: dict[str, Any], s: Any, y: Any, curvature: Any, scaled: bool) -> None:
        """Update the inverse Hessian; `curvature` is s·Bs, as the matrix had it before."""
        product = y.dot(s)
        if not product > 1e-300 or not curvature > 0:
            return
        inverse = state.get("inverse_hessian")
        if inverse is None:  # the size of the first matrix, as Shanno and Phua choose it
            inverse = tg.eye(len(s), dtype=s.dtype) * (product / y.dot(y))
        elif scaled:
            inverse = inverse / min(1.0, (product / curvature).item())
        hy = inverse @ y
        outer = tg.outer(s, hy)
        factor = (1 + y.dot(hy) / product) / product
        state["inverse_hessian"] = inverse - (outer + outer.mT) / product + factor * tg.outer(s, s)
