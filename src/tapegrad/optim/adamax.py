"""Adamax: Adam with the largest gradient of late in the place of the mean square."""

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
    from_zeros,
    python_number,
)

__all__ = ["Adamax", "adamax"]


def update(p: Any, grad: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
    """One step of one parameter."""
    p, grad, state = begun(p, grad, state, group)
    beta1, beta2 = group["betas"]
    mean, largest = state["exp_avg"], state["exp_inf"]
    grad = decayed(p, grad, group)
    mean.lerp_(grad, 1 - beta1)
    largest.mul_(beta2)
    before = largest.clone() if group["differentiable"] else largest  # which a graph saves
    largest.copy_(tg.maximum(before, grad.abs().add_(group["eps"])))
    # The mean starts at zero; the division takes that bias out again.
    step_size = group["lr"] / (1 - NUMBERS.power(beta1, state["step"].item()))
    p.addcdiv_(mean, largest, value=-python_number(step_size))


FUSED = Fused(
    "adamax",
    update,
    rows={"exp_avg": "", "exp_inf": ""},
    options=("betas[2]", "eps", "weight_decay", "maximize"),
)
RULE = Rule(
    from_zeros(FUSED.rows),
    update,
    on_device=FUSED,
    dense_only="Adamax does not support sparse gradients",
)


class Adamax(PerTensorOptimizer):
    """Adamax (Kingma and Ba, 2014): Adam in the infinity norm.

    >>> p = nn.Parameter(tensor([1.0]))
    >>> optimizer = optim.Adamax([p])
    >>> p.square().sum().backward()
    >>> optimizer.step()
    >>> optimizer.state[p]["exp_inf"]
    tensor([2.])
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
        super().__init__(params, self._picked(locals()))


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
    group = Adamax._picked(locals(), betas=(beta1, beta2))
    lists = {"step": state_steps, "exp_avg": exp_avgs, "exp_inf": exp_infs}
    RULE.update_listed(params, grads, lists, group)
