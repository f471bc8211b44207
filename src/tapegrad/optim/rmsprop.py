"""RMSprop: gradients divided by the root of their mean square."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tapegrad as tg

from ._on_device import Fused
from ._per_tensor import (
    Rule,
    as_real,
    check_at_least_zero,
    check_lr,
    evaluate,
    new_scalar,
    number,
    update_group,
    update_listed,
    use_tensor,
)
from .optimizer import Optimizer, _use_grad_for_differentiable

__all__ = ["RMSprop", "rmsprop"]


class RMSprop(Optimizer):
    """RMSprop (Hinton, 2012).

    >>> p = nn.Parameter(tensor([1.0]))
    >>> optimizer = optim.RMSprop([p], lr=0.05)
    >>> (p * p).sum().backward()
    >>> optimizer.step()
    >>> p
    Parameter containing:
    tensor([0.5000], requires_grad=True)
    """

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
        check_lr(lr)
        if not eps >= 0.0:
            raise ValueError(f"Invalid epsilon value: {eps}")
        check_at_least_zero(momentum=momentum, weight_decay=weight_decay, alpha=alpha)
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "alpha": alpha,
            "eps": eps,
            "centered": centered,
            "weight_decay": weight_decay,
            "capturable": capturable,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("momentum", 0)
            group.setdefault("centered", False)
            group.setdefault("foreach", None)
            group.setdefault("maximize", False)
            group.setdefault("differentiable", False)
            group.setdefault("capturable", False)
            use_tensor(group, self.state, "step")

    @_use_grad_for_differentiable
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters once; the loss that `closure` returned, if one is given."""
        loss = evaluate(closure)
        for group in self.param_groups:
            update_group(self.state, group, RULE)
        return loss


def start(p: Any, group: dict[str, Any]) -> dict[str, Any]:
    state = {
        "step": new_scalar(0.0),
        "square_avg": tg.zeros_like(p, memory_format=tg.preserve_format),
    }
    if group["momentum"] > 0:
        state["momentum_buffer"] = tg.zeros_like(p, memory_format=tg.preserve_format)
    if group["centered"]:
        state["grad_avg"] = tg.zeros_like(p, memory_format=tg.preserve_format)
    return state


def update(p: Any, grad: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
    """One step of one parameter."""
    p, grad, state = as_real(p, grad, state)
    lr, alpha = number(group["lr"]), group["alpha"]
    square = state["square_avg"]
    if group["maximize"]:
        grad = -grad
    state["step"] += 1
    if group["weight_decay"] != 0:
        grad = grad.add(p, alpha=group["weight_decay"])
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
    rows={"square_avg": "", "momentum_buffer": "momentum", "grad_avg": "centered"},
    options=("alpha", "eps", "weight_decay", "momentum", "centered", "maximize"),
)
RULE = Rule(start, update, on_xla=(True, True), on_device=FUSED)


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
    group = {
        "foreach": foreach,
        "maximize": maximize,
        "differentiable": differentiable,
        "capturable": capturable,
        "lr": lr,
        "alpha": alpha,
        "eps": eps,
        "weight_decay": weight_decay,
        "momentum": momentum,
        "centered": centered,
    }
    lists = {"step": state_steps, "square_avg": square_avgs}
    if momentum > 0:
        lists["momentum_buffer"] = momentum_buffer_list
    if centered:
        lists["grad_avg"] = grad_avgs
    update_listed(params, grads, lists, group, RULE)
