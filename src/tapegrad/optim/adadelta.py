"""Adadelta: steps whose size follows from the sizes of the last steps and gradients."""

from __future__ import annotations

from typing import Any

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

__all__ = ["Adadelta", "adadelta"]


def update(p: Any, grad: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
    """One step of one parameter."""
    p, grad, state = begun(p, grad, state, group)
    rho, eps = group["rho"], group["eps"]
    square, steps = state["square_avg"], state["acc_delta"]
    grad = decayed(p, grad, group)
    square.mul_(rho).addcmul_(grad, grad, value=1 - rho)
    root = square.add(eps).sqrt_()
    step = steps.add(eps).sqrt_()
    if group["differentiable"]:
        step = step.clone()
    step.div_(root).mul_(grad)
    steps.mul_(rho).addcmul_(step, step, value=1 - rho)
    p.add_(step, alpha=-python_number(group["lr"]))


FUSED = Fused(
    "adadelta",
    update,
    rows={"square_avg": "", "acc_delta": ""},
    options=("rho", "eps", "weight_decay", "maximize"),
)
RULE = Rule(
    from_zeros(FUSED.rows),
    update,
    on_xla=(False, False),
    on_device=FUSED,
    dense_only="Adadelta does not support sparse gradients",
)


class Adadelta(PerTensorOptimizer):
    """Adadelta (Zeiler, 2012).

    >>> p = nn.Parameter(tensor([1.0]))
    >>> p.square().sum().backward()
    >>> optim.Adadelta([p], lr=100.0).step()
    >>> p.detach()
    tensor([0.6838])
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
        super().__init__(params, self._picked(locals()))


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
    group = Adadelta._picked(locals())
    lists = {"step": state_steps, "square_avg": square_avgs, "acc_delta": acc_deltas}
    RULE.update_listed(params, grads, lists, group)
