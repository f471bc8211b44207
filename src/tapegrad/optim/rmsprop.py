"""RMSprop: gradients divided by the root of their mean square."""

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

__all__ = ["RMSprop", "rmsprop"]


def update(p: Any, grad: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
    """One step of one parameter."""
    p, grad, state = begun(p, grad, state, group)
    lr, alpha = python_number(group["lr"]), group["alpha"]
    square = state["square_avg"]
    grad = decayed(p, grad, group)
    square.mul_(alpha).addcmul_(grad, grad, value=1 - alpha)
    if group["centered"]:
        # The variance of the gradient instead of its mean square.
        mean = state["grad_avg"]
        mean.lerp_(grad, 1 - alpha)
        root = square.addcmul(mean, mean, value=-1).sqrt_()
    else:
        root = square.sqrt()
    root = root.add(group["eps"]) if group["differentiable"] else root.add_(group["eps"])
    if group["momentum"] > 0:
        buffer = state["momentum_buffer"]
        buffer.mul_(group["momentum"]).addcdiv_(grad, root)
        p.add_(buffer, alpha=-lr)
    else:
        p.addcdiv_(grad, root, value=-lr)


FUSED = Fused(
    "rmsprop",
    update,
    rows={"square_avg": "", "momentum_buffer": "momentum", "grad_avg": "centered"},
    options=("alpha", "eps", "weight_decay", "momentum", "centered", "maximize"),
)
RULE = Rule(
    from_zeros(FUSED.rows),
    update,
    on_xla=(True, True),
    on_device=FUSED,
    dense_only="RMSprop does not support sparse gradients",
)


class RMSprop(PerTensorOptimizer):
    """RMSprop (Hinton, 2012).

    >>> p = nn.Parameter(tensor([1.0]))
    >>> (p * p).sum().backward()
    >>> optim.RMSprop([p], alpha=0.75, lr=0.25).step()
    >>> p.detach()
    tensor([0.5000])
    """

    _rule = RULE
    _options = (
        "lr momentum alpha eps centered weight_decay capturable foreach maximize differentiable"
    )
    _added = PerTensorOptimizer._added | {"momentum": 0, "centered": False}

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_options(lr=lr, eps=eps, momentum=momentum, weight_decay=weight_decay, alpha=alpha)
        super().__init__(params, self._picked(locals()))


def rmsprop(
    params: list[Any],
    grads: list[Any],
    square_avgs: list[Any],
    grad_avgs: list[Any],
    momentum_buffer_list: list[Any],
    state_steps: list[Any],
    foreach: bool | None = None,
    maximize: bool = False,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    *,
    lr: Any,
    alpha: float,
    eps: float,
    weight_decay: float,
    momentum: float,
    centered: bool,
) -> None:
    """One step of RMSprop on lists of tensors."""
    group = RMSprop._picked(locals())
    lists = {"step": state_steps, "square_avg": square_avgs}
    if momentum > 0:
        lists["momentum_buffer"] = momentum_buffer_list
    if centered:
        lists["grad_avg"] = grad_avgs
    RULE.update_listed(params, grads, lists, group)
