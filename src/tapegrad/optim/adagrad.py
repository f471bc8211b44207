"""Adagrad: gradients divided by the root of the sum of all their squares."""

from __future__ import annotations

from typing import Any

import tapegrad as tg

from ._on_device import Fused
from ._per_tensor import (
    PerTensorOptimizer,
    Rule,
    begun,
    check_fused,
    check_options,
    decayed,
    new_scalar,
    python_number,
)

__all__ = ["Adagrad", "adagrad"]


def start(p: Any, group: dict[str, Any]) -> dict[str, Any]:
    value = group["initial_accumulator_value"]
    first = complex(value, value) if p.is_complex() else value
    return {
        "step": new_scalar(0.0, group["fused"]),
        "sum": tg.full_like(p, first, memory_format=tg.preserve_format),
    }


def update(p: Any, grad: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
    """One step of one parameter."""
    if grad.is_sparse and group["weight_decay"] != 0:
        raise RuntimeError("weight_decay option is not compatible with sparse gradients")
    p, grad, state = begun(p, grad, state, group)
    count = state["step"].item()
    grad = decayed(p, grad, group)
    step_size = python_number(group["lr"] / (1 + (count - 1) * group["lr_decay"]))
    total = state["sum"]
    if grad.is_sparse:
        grad = grad.coalesce()  # squares of sums
        total.add_(grad._with(grad._values().square()))
        root = total.sparse_mask(grad)._values().sqrt_().add_(group["eps"])
        p.add_(grad._with(grad._values() / root), alpha=-step_size)
        return
    total.addcmul_(grad, grad, value=1)
    root = total.sqrt()
    root = root.add(group["eps"]) if group["differentiable"] else root.add_(group["eps"])
    p.addcdiv_(grad, root, value=-step_size)


FUSED = Fused(
    "adagrad", update, rows={"sum": ""}, options=("lr_decay", "eps", "weight_decay", "maximize")
)
RULE = Rule(
    start,
    update,
    on_device=FUSED,
    fused_dense_only="`fused` does not support sparse grad or complex param",
)


class Adagrad(PerTensorOptimizer):
    """Adagrad (Duchi, Hazan and Singer, 2011).

    >>> p = nn.Parameter(tensor([1.0]))
    >>> optimizer = optim.Adagrad([p], lr=0.5)
    >>> (p * p).sum().backward()
    >>> optimizer.step()
    >>> optimizer.state[p]["sum"]
    tensor([4.])
    """

    _rule = RULE
    _options = (
        "lr lr_decay eps weight_decay initial_accumulator_value foreach maximize "
        "differentiable fused"
    )
    _added = {"foreach": None, "maximize": False, "differentiable": False, "fused": None}

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_options(
            lr=lr,
            lr_decay=lr_decay,
            weight_decay=weight_decay,
            initial_accumulator_value=initial_accumulator_value,
            eps=eps,
        )
        super().__init__(params, self._picked(locals()))
        check_fused(fused, foreach, differentiable)
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p].update(start(p, group))

    def share_memory(self) -> None:
        """Move the sums into shared memory, for training from several processes."""
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["sum"].share_memory_()


def adagrad(
    params: list[Any],
    grads: list[Any],
    state_sums: list[Any],
    state_steps: list[Any],
    fused: bool | None = None,
    grad_scale: Any = None,
    found_inf: Any = None,
    has_sparse_grad: bool = False,
    foreach: bool | None = None,
    differentiable: bool = False,
    has_complex: bool = False,
    *,
    lr: Any,
    weight_decay: float,
    lr_decay: float,
    eps: float,
    maximize: bool,
) -> None:
    """One step of Adagrad on lists of tensors."""
    group = Adagrad._picked(locals(), fused=None)
    lists = {"step": state_steps, "sum": state_sums}
    RULE.update_listed(params, grads, lists, group, grad_scale, found_inf)
