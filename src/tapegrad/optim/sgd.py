"""Stochastic gradient descent, with momentum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tapegrad as tg

from ..ops.pointwise import add_quietly
from .optimizer import Optimizer, _use_grad_for_differentiable

__all__ = ["SGD"]


class SGD(Optimizer):
    """Stochastic gradient descent.

    >>> p = nn.Parameter(tensor([1.0]))
    >>> optimizer = optim.SGD([p], lr=0.25)
    >>> (p * p).sum().backward()
    >>> optimizer.step()
    >>> p
    Parameter containing:
    tensor([0.5000], requires_grad=True)
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        if isinstance(lr, tg.Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if lr < 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if momentum < 0.0:
            raise ValueError(f"Invalid momentum value: {momentum}")
        if weight_decay < 0.0:
            raise ValueError(f"Invalid weight_decay value: {weight_decay}")
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
            "foreach": foreach,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)
        if fused:
            if differentiable:
                raise RuntimeError("`fused` does not support `differentiable`")
            if foreach:
                raise RuntimeError("`fused` and `foreach` cannot be `True` together.")

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("nesterov", False)
            group.setdefault("maximize", False)
            group.setdefault("foreach", None)
            group.setdefault("differentiable", False)
            group.setdefault("fused", False)

    @_use_grad_for_differentiable
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters once; the loss that `closure` returned, if one is given."""
        loss = None
        if closure is not None:
            with tg.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                g = p.grad
                if g is not None:
                    update(p, -g if group["maximize"] else g, self.state, group)
        return loss


def update(p: Any, g: Any, states: Any, group: dict[str, Any]) -> None:
    """One step of one parameter against the gradient `g`."""
    lr, momentum, weight_decay = group["lr"], group["momentum"], group["weight_decay"]
    if weight_decay != 0:
        g = g.add(p, alpha=weight_decay)
    if momentum != 0:
        state = states[p]
        buffer = state.get("momentum_buffer")
        if buffer is None:
            buffer = g.clone().detach()
        else:
            buffer.mul_(momentum).add_(g, alpha=1 - group["dampening"])
        state["momentum_buffer"] = buffer
        g = g.add(buffer, alpha=momentum) if group["nesterov"] else buffer
    if isinstance(lr, tg.Tensor):
        if lr.requires_grad and group["differentiable"]:
            p.addcmul_(g, lr, value=-1)
            return
        lr = lr.item()
    if type(lr) is not float or not add_quietly(p, g, -lr):
        p.add_(g, alpha=-lr)
