"""Rprop: only the sign of the gradient counts, and each element has a step size of its own."""

from __future__ import annotations

from typing import Any

import tapegrad as tg

from ._on_device import Fused
from ._per_tensor import PerTensorOptimizer, Rule, begun, check_options, new_scalar, python_number

__all__ = ["Rprop", "rprop"]


def start(p: Any, group: dict[str, Any]) -> dict[str, Any]:
    lr = python_number(group["lr"])
    return {
        "step": new_scalar(0.0),
        "prev": tg.zeros_like(p, memory_format=tg.preserve_format),
        "step_size": tg.full_like(p.grad, complex(lr, lr) if p.is_complex() else lr),
    }


def update(p: Any, grad: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
    """One step of one parameter."""
    p, grad, state = begun(p, grad, state, group)
    (slower, faster), (least, most) = group["etas"], group["step_sizes"]
    before, size = state["prev"], state["step_size"]
    same_way = grad.mul(before.clone() if group["differentiable"] else before).sign()
    turned = same_way < 0
    factor = same_way.masked_fill(same_way == 0, 1).masked_fill(same_way > 0, faster)
    size.mul_(factor.masked_fill(turned, slower)).clamp_(least, most)
    # Where the sign has turned, the last step went too far: no step now, and no memory of it.
    grad = grad.masked_fill(turned, 0)
    p.addcmul_(grad.sign(), size, value=-1)
    before.copy_(grad)


FUSED = Fused(
    "rprop",
    update,
    rows={"prev": "", "step_size": ""},
    options=("etas[2]", "step_sizes[2]", "maximize"),
)
RULE = Rule(
    start,
    update,
    on_xla=(True, True),
    on_device=FUSED,
    dense_only="Rprop does not support sparse gradients",
)


class Rprop(PerTensorOptimizer):
    """Resilient backpropagation (Riedmiller and Braun, 1993).

    >>> p = nn.Parameter(tensor([1.0, -2.0]))
    >>> p.square().sum().backward()
    >>> optim.Rprop([p], lr=0.5).step()  # only the signs of the gradients count
    >>> p.detach()
    tensor([ 0.5000, -1.5000])
    """

    _rule = RULE
    _options = "lr etas step_sizes foreach maximize differentiable capturable"

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_options(lr=lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        super().__init__(params, self._picked(locals()))


def rprop(
    params: list[Any],
    grads: list[Any],
    prevs: list[Any],
    step_sizes: list[Any],
    state_steps: list[Any],
    foreach: bool | None = None,
    capturable: bool = False,
    maximize: bool = False,
    differentiable: bool = False,
    has_complex: bool = False,
    *,
    step_size_min: float,
    step_size_max: float,
    etaminus: float,
    etaplus: float,
) -> None:
    """One step of Rprop on lists of tensors."""
    sizes, etas = (step_size_min, step_size_max), (etaminus, etaplus)
    group = Rprop._picked(locals(), step_sizes=sizes, etas=etas)
    lists = {"step": state_steps, "prev": prevs, "step_size": step_sizes}
    RULE.update_listed(params, grads, lists, group)
