"""Energy natural gradient: steps that are steepest for the function, not for its parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tapegrad as tg

from ..optimizer import Optimizer
from ._matrices import check, is_count, is_number


class EnergyNaturalGradient(Optimizer):
    """Energy natural gradient descent (Müller and Zeinhofer, 2023), for physics-informed networks.

    `step(residuals)` takes a function that returns the residuals of an energy ½Σr²: a tensor, or
    several in a list, each multiplied by the root of its quadrature weight. The step is that of
    the pseudo-inverse of their Gram matrix JᵀJ. For another energy (deep Ritz), `energy` is a
    function that returns it, and the residuals are what its second derivative is the square of.
    With `lr=None` the step is the best one of 1, ½, ¼, … (`line_search_steps` many, fewer once two
    were worse than the best before). Singular values of J below `rcond` times the largest are left
    out, `damping` is added to their squares.

    >>> model = nn.Linear(1, 1).double()
    >>> x = linspace(0, 1, 5, dtype=torch.float64)[:, None]
    >>> optimizer = optim.extra.EnergyNaturalGradient(model.parameters())
    >>> before = optimizer.step(lambda: model(x) - (3 * x + 1))  # linear: one step solves it
    >>> model.weight.round(decimals=6).item(), model.bias.round(decimals=6).item()
    (3.0, 1.0)
    """

    def __init__(
        self,
        params: Any,
        lr: float | None = None,
        damping: float = 0.0,
        rcond: float | None = None,
        line_search_steps: int = 31,
    ) -> None:
        check(
            "EnergyNaturalGradient",
            lr=(lr, lr is None or is_number(lr), "a number >= 0, or None for a line search"),
            damping=(damping, is_number(damping), "a number >= 0"),
            rcond=(rcond, rcond is None or is_number(rcond, 0, 1), "a number in [0, 1), or None"),
            line_search_steps=(
                line_search_steps, is_count(line_search_steps), "an integer >= 1"
            ),
        )  # fmt: skip
        defaults = {
            "lr": lr, "damping": damping, "rcond": rcond, "line_search_steps": line_search_steps
        }  # fmt: skip
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise ValueError(
                "EnergyNaturalGradient: one Gram matrix is of all parameters: give one group"
            )

    @tg.no_grad()
    def step(  # type: ignore[override]
        self, residuals: Callable[[], Any], energy: Callable[[], Any] | None = None
    ) -> Any:
        """Update the parameters once; the energy before."""
        group = self.param_groups[0]
        params = [p for p in group["params"] if p.requires_grad]
        with tg.enable_grad():
            r = joined(residuals())
            value = r.square().sum() / 2 if energy is None else energy()
            slopes = None
            if energy is not None:
                slopes = flat(tg.autograd.grad(value, params, materialize_grads=True))
            unit = tg.eye(r.numel(), dtype=r.dtype)
            rows = tg.autograd.grad(r, params, unit, is_grads_batched=True, allow_unused=True)
        parts = [
            tg.zeros(r.numel(), p.numel(), dtype=r.dtype) if g is None else g.reshape(len(r), -1)
            for p, g in zip(params, rows, strict=True)
        ]
        jacobian = tg.cat(parts, 1)
        d = direction(jacobian, r.detach(), slopes, group)
        before = [p.clone() for p in params]

        def at(t: float) -> Any:
            move(params, before, d, t)
            with tg.enable_grad():
                found = joined(residuals()).square().sum() / 2 if energy is None else energy()
            return found.item()

        value = value.detach()
        if group["lr"] is not None:
            move(params, before, d, group["lr"])
            return value
        best, size, worse = value.item(), 0.0, 0
        for k in range(group["line_search_steps"]):
            found = at(0.5**k)
            if found < best:
                best, size, worse = found, 0.5**k, 0
            elif size:
                worse += 1
                if worse == 2:
                    break
        move(params, before, d, size)
        return value


def move(params: list[Any], before: list[Any], d: Any, t: float) -> None:
    """Set the parameters to what they were `before`, minus t times the direction."""
    start = 0
    for p, old in zip(params, before, strict=True):
        p.copy_(old - t * d[start : start + p.numel()].view_as(p))
        start += p.numel()


def flat(tensors: Any) -> Any:
    return tg.cat([t.reshape(-1) for t in tensors])


def joined(residuals: Any) -> Any:
    """The residuals, a tensor or several, as one vector."""
    given = list(residuals) if isinstance(residuals, (list, tuple)) else [residuals]
    if not given or not all(isinstance(r, tg.Tensor) for r in given):
        raise TypeError(
            "EnergyNaturalGradient.step(): the function should return a tensor of residuals, or a "
            f"list of tensors, got {type(residuals).__name__}"
        )
    return flat(given)


def direction(jacobian: Any, r: Any, slopes: Any, group: dict[str, Any]) -> Any:
    """The pseudo-inverse of JᵀJ, times Jᵀr or the slopes of an energy."""
    u, s, vt = tg.linalg.svd(jacobian, full_matrices=False)
    rcond = group["rcond"]
    if rcond is None:
        rcond = tg.finfo(s.dtype).eps * max(jacobian.shape)
    kept = s > rcond * s[0]
    squares = tg.where(kept, s * s + group["damping"], 1)
    along = s * (u.mT @ r) if slopes is None else vt @ slopes
    return vt.mT @ tg.where(kept, along / squares, 0)
