"""Adadelta: steps whose size follows from the sizes of the last steps and gradients."""

from __future__ import annotations

from typing import Any

import tapegrad as tg

from ._on_device import Fused
from ._per_tensor import (
    PerTensorOptimizer,
    Rule,
    as_real,
    check_options,
    new_scalar,
    number,
    picked,
    update_listed,
)

__all__ = ["Adadelta", "adadelta"]


def start(p: Any, group: dict[str, Any]) -> dict[str, Any]:
    return {
        "step": new_scalar(0.0),
        "square_avg": tg.zeros_like(p, memory_format=tg.preserve_format),
        "acc_delta": tg.zeros_like(p, memory_format=tg.preserve_format),
    }


def update(p: Any, grad: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
    """One step of one parameter."""
    p, grad, state = as_real(p, grad, state)
    rho, eps = group["rho"], group["eps"]
    square, steps = state["square_avg"], state["acc_delta"]
    if group["maximize"]:
        grad = -grad
    state["step"] += 1
    if group["weight_decay"] != 0:
        grad = grad.add(p, alpha=group["weight_decay"])
    square.mul_(rho).addcmul_(grad, grad, value=1 - rho)
    root = square.add(eps).sqrt_()
    step = steps.add(eps).sqrt_()
    if group["differentiable"]:
        step = step.clone()
    step.div_(root).mul_(grad)
    steps.mul_(rho).addcmul_(step, step, value=1 - rho)
    p.add_(step, alpha=-number(group["lr"]))


FUSED = Fused(
    "adadelta",
    rows={"square_avg": "", "acc_delta": ""},
    options=("rho", "eps", "weight_decay", "maximize"),
)
RULE = Rule(start, update, on_xla=(False, False), on_device=FUSED)


class Adadelta(PerTensorOptimizer):
    """Adadelta (Zeiler, 2012).

    >>> p = nn.Parameter(tensor([1.0]))
    >>> optimizer = optim.Adadelta([p], lr=100.0)
    >>> (p * p).sum().backward()
    >>> optimizer.step()
    >>> p
    Parameter containing:
    tensor([0.6838], requires_grad=True)
    """

    _rule = RULE
    _options = "lr rho eps weight_decay maximize capturable foreach differentiable"

    def __init__(
        self,
        params: Any,
        lr: Any = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_options(lr=lr)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        check_options(eps=eps, weight_decay=weight_decay)
        super().__init__(params, picked(locals(), self._options))


def adadelta(
    params: list[Any],
    grads: list[Any],
    square_avgs: list[Any],
    acc_deltas: list[Any],
    state_steps: list[Any],
    capturable: bool = False,
    foreach: bool | None = None,
    differentiable: bool = False,
    has_complex: bool = False,
    *,
    lr: Any,
    rho: float,
    eps: float,
    weight_decay: float,
    maximize: bool,
) -> None:
    """One step of Adadelta on lists of tensors."""
    group = picked(locals(), Adadelta._options)
    lists = {"step": state_steps, "square_avg": square_avgs, "acc_delta": acc_deltas}
    update_listed(params, grads, lists, group, RULE)
