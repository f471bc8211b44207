"""Adamax: Adam with the largest gradient of late in the place of the mean square."""

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

__all__ = ["Adamax", "adamax"]


def start(p: Any, group: dict[str, Any]) -> dict[str, Any]:
    return {
        "step": new_scalar(0.0),
        "exp_avg": tg.zeros_like(p, memory_format=tg.preserve_format),
        "exp_inf": tg.zeros_like(p, memory_format=tg.preserve_format),
    }


def update(p: Any, grad: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
    """One step of one parameter."""
    p, grad, state = as_real(p, grad, state)
    beta1, beta2 = group["betas"]
    mean, largest = state["exp_avg"], state["exp_inf"]
    if group["maximize"]:
        grad = -grad
    state["step"] += 1
    if group["weight_decay"] != 0:
        grad = grad.add(p, alpha=group["weight_decay"])
    mean.lerp_(grad, 1 - beta1)
    largest.mul_(beta2)
    largest.copy_(tg.maximum(largest, grad.abs().add_(group["eps"])))
    # The mean starts at zero; the division takes that bias out again.
    step_size = group["lr"] / (1 - beta1 ** state["step"].item())
    p.addcdiv_(mean, largest, value=-number(step_size))


FUSED = Fused(
    "adamax",
    rows={"exp_avg": "", "exp_inf": ""},
    options=("betas[2]", "eps", "weight_decay", "maximize"),
)
RULE = Rule(start, update, on_device=FUSED)


class Adamax(PerTensorOptimizer):
    """Adamax (Kingma and Ba, 2014): Adam in the infinity norm.

    >>> p = nn.Parameter(tensor([1.0]))
    >>> optimizer = optim.Adamax([p], lr=0.5)
    >>> (p * p).sum().backward()
    >>> optimizer.step()
    >>> p
    Parameter containing:
    tensor([0.5000], requires_grad=True)
    """

    _rule = RULE
    _options = "lr betas eps weight_decay foreach maximize differentiable capturable"

    def __init__(
        self,
        params: Any,
        lr: Any = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_options(lr=lr, eps=eps, betas=betas, weight_decay=weight_decay)
        super().__init__(params, picked(locals(), self._options))


def adamax(
    params: list[Any],
    grads: list[Any],
    exp_avgs: list[Any],
    exp_infs: list[Any],
    state_steps: list[Any],
    foreach: bool | None = None,
    maximize: bool = False,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    *,
    eps: float,
    beta1: float,
    beta2: float,
    lr: Any,
    weight_decay: float,
) -> None:
    """One step of Adamax on lists of tensors."""
    group = picked(locals(), Adamax._options, betas=(beta1, beta2))
    lists = {"step": state_steps, "exp_avg": exp_avgs, "exp_inf": exp_infs}
    update_listed(params, grads, lists, group, RULE)
