"""ASGD: gradient descent that also keeps the mean of the parameters on the way."""

from __future__ import annotations

from typing import Any

import tapegrad as tg

from ..kernels.portable.functions import NUMBERS
from ._on_device import Fused
from ._per_tensor import (
    PerTensorOptimizer,
    Rule,
    begun,
    check_options,
    decayed,
    new_scalar,
    python_number,
    scalar,
)

__all__ = ["ASGD", "asgd"]


def start(p: Any, group: dict[str, Any]) -> dict[str, Any]:
    return {
        "step": new_scalar(0.0),
        "eta": new_scalar(python_number(group["lr"])),
        "mu": new_scalar(1.0),
        "ax": tg.zeros_like(p, memory_format=tg.preserve_format),
    }


def update(p: Any, grad: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
    """One step of one parameter."""
    p, grad, state = begun(p, grad, state, group)
    lr, lambd = scalar(group["lr"]), group["lambd"]
    mean, eta, mu = state["ax"], state["eta"], state["mu"]
    count = state["step"].item()
    grad = decayed(p, grad, group)
    step_size = eta.item()
    p.mul_(1 - lambd * step_size)
    p.add_(grad, alpha=-step_size)
    if mu.item() == 1:
        mean.copy_(p)
    else:
        mean.add_(p.sub(mean).mul_(mu.item()))
    next_eta, next_mu = after(count, lr, group)
    eta.fill_(next_eta)
    mu.fill_(next_mu)


def after(count: float, lr: Any, group: dict[str, Any]) -> tuple[Any, float]:
    """The size of the next step, and the weight of its result in the mean."""
    eta = lr / NUMBERS.power(1 + group["lambd"] * lr * count, group["alpha"])
    return eta, 1 / max(1, count - group["t0"])


def advance(own: dict[str, Any], group: dict[str, Any]) -> None:
    """Count a step that a kernel does."""
    own["step"]._array += 1
    eta, mu = after(own["step"]._array.item(), group["lr"], group)
    own["eta"]._array.fill(eta)
    own["mu"]._array.fill(mu)


FUSED = Fused(
    "asgd",
    update,
    rows={"ax": ""},
    options=("lambd", "alpha", "t0", "weight_decay", "maximize"),
    scalars=("step", "eta", "mu"),
    advance=advance,
)
RULE = Rule(
    start,
    update,
    scalars=("step", "eta", "mu"),
    on_device=FUSED,
    captured="params, mus, etas, and state_steps",
    captured_foreach="params, mus, etas, and state_steps",
    dense_only="ASGD does not support sparse gradients",
)


class ASGD(PerTensorOptimizer):
    """Averaged stochastic gradient descent (Polyak and Juditsky, 1992).

    >>> p = nn.Parameter(tensor([1.0]))
    >>> optimizer = optim.ASGD([p], lr=0.25)
    >>> (p * p).sum().backward()
    >>> optimizer.step()
    >>> optimizer.state[p]["ax"]
    tensor([0.5000])
    """

    _rule = RULE
    _options = "lr lambd alpha t0 weight_decay foreach maximize differentiable capturable"

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_options(lr=lr, weight_decay=weight_decay)
        super().__init__(params, self._picked(locals()))


def asgd(
    params: list[Any],
    grads: list[Any],
    axs: list[Any],
    mus: list[Any],
    etas: list[Any],
    state_steps: list[Any],
    foreach: bool | None = None,
    maximize: bool = False,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    *,
    lambd: float,
    lr: Any,
    t0: float,
    alpha: float,
    weight_decay: float,
) -> None:
    """One step of ASGD on lists of tensors."""
    group = ASGD._picked(locals())
    lists = {"step": state_steps, "eta": etas, "mu": mus, "ax": axs}
    RULE.update_listed(params, grads, lists, group)
