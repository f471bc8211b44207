"""Stochastic gradient descent, with momentum."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import tapegrad as tg

from ..ops.pointwise.arithmetic import add_quietly
from ._on_device import Fused
from ._per_tensor import (
    PerTensorOptimizer,
    Rule,
    check_fused,
    check_one_element,
    evaluate,
    python_number,
    update_group,
)
from .optimizer import _use_grad_for_differentiable

__all__ = ["SGD", "sgd"]


def update(p: Any, grad: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
    """One step of one parameter."""
    lr, momentum, weight_decay = group["lr"], group["momentum"], group["weight_decay"]
    if group["maximize"]:
        grad = -grad
    if type(weight_decay) is tg.Tensor or weight_decay != 0:
        grad = add_decay(grad, p, weight_decay, group)
    if momentum != 0:
        buffer = state.get("momentum_buffer")
        if buffer is None:
            buffer = state["momentum_buffer"] = grad.detach().clone()
        else:
            buffer.mul_(momentum).add_(grad, alpha=1 - group["dampening"])
        grad = grad.add(buffer, alpha=momentum) if group["nesterov"] else buffer
    if isinstance(lr, tg.Tensor):
        if lr.requires_grad and group["differentiable"]:
            p.addcmul_(grad, lr, value=-1)
            return
        lr = lr.item()
    if type(lr) is not float or not add_quietly(p, grad, -lr):
        p.add_(grad, alpha=-lr)


def add_decay(grad: Any, p: Any, weight_decay: Any, group: dict[str, Any]) -> Any:
    """The gradient with the decay of the weights as a part of it."""
    if isinstance(weight_decay, tg.Tensor) and weight_decay.requires_grad:
        if group["differentiable"]:
            return grad.addcmul(p.clone(), weight_decay)
    return grad.add(p, alpha=python_number(weight_decay))


FUSED = Fused(
    "sgd",
    update,
    rows={"momentum_buffer": "momentum"},
    options=("momentum", "dampening", "weight_decay", "nesterov", "maximize"),
    scalars=(),
    fresh="momentum_buffer",
)
NO_SPARSE = "`_fused_sgd` does not support sparse gradients"
RULE = Rule(None, update, scalars=(), on_device=FUSED, fused_dense_only=NO_SPARSE)
# One operation for each tensor: to gather them would take longer.
WITHOUT_STATE = replace(RULE, gathers=False)


class SGD(PerTensorOptimizer):
    """Stochastic gradient descent.

    >>> p = nn.Parameter(tensor([1.0]))
    >>> optimizer = optim.SGD([p], lr=0.25)
    >>> (p * p).sum().backward()
    >>> optimizer.step()
    >>> p
    Parameter containing:
    tensor([0.5000], requires_grad=True)
    """

    _rule = RULE
    _options = "lr momentum dampening weight_decay nesterov maximize foreach differentiable fused"
    _added = {
        "nesterov": False,
        "maximize": False,
        "foreach": None,
        "differentiable": False,
        "fused": False,
    }

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: Any = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_one_element(lr)
        if lr < 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if momentum < 0.0:
            raise ValueError(f"Invalid momentum value: {momentum}")
        if weight_decay < 0.0:
            raise ValueError(f"Invalid weight_decay value: {weight_decay}")
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        super().__init__(params, self._picked(locals()))
        check_fused(fused, foreach, differentiable)

    @_use_grad_for_differentiable
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters once; the loss that `closure` returned, if one is given."""
        loss = evaluate(closure)
        for group in self.param_groups:
            if group["momentum"] != 0:
                update_group(self.state, group, RULE, self._ready)
            else:
                # There is no state to keep, and none is made.
                update_group(defaultdict(dict), group, WITHOUT_STATE, self._ready)
        return loss


def sgd(
    params: list[Any],
    d_p_list: list[Any],
    momentum_buffer_list: list[Any],
    has_sparse_grad: bool = False,
    foreach: bool | None = None,
    fused: bool | None = None,
    grad_scale: Any = None,
    found_inf: Any = None,
    *,
    weight_decay: float,
    momentum: float,
    lr: Any,
    dampening: float,
    nesterov: bool,
    maximize: bool,
) -> None:
    """One step of SGD on lists of tensors; missing momentum buffers are filled in."""
    group = SGD._picked(locals(), differentiable=False, fused=None)
    lists = {"momentum_buffer": momentum_buffer_list}
    RULE.update_listed(params, d_p_list, lists, group, grad_scale, found_inf)
