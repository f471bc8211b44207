"""RAdam: Adam that waits with the mean square until there is enough of it to trust."""

from __future__ import annotations

from typing import Any

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

__all__ = ["RAdam", "radam"]


def update(p: Any, grad: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
    """One step of one parameter."""
    p, grad, state = begun(p, grad, state, group)
    lr, (beta1, beta2) = python_number(group["lr"]), group["betas"]
    mean, square = state["exp_avg"], state["exp_avg_sq"]
    count = state["step"].item()
    grad = decayed(p, grad, group, lr)
    mean.lerp_(grad, 1 - beta1)
    square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
    step = mean / (1 - NUMBERS.power(beta1, count)) * lr
    # How many gradients the mean square stands for, now and in the long run.
    unbias = 1 - NUMBERS.power(beta2, count)
    longest = 2 / (1 - beta2) - 1
    length = longest - 2 * count * NUMBERS.power(beta2, count) / unbias
    if length > 5.0:
        rectify = NUMBERS.power(
            (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length), 0.5
        )
        root = square.sqrt()
        root = root.add(group["eps"]) if group["differentiable"] else root.add_(group["eps"])
        step = step * (NUMBERS.power(unbias, 0.5) / root) * rectify
    p.add_(step, alpha=-1.0)


FUSED = Fused(
    "radam",
    update,
    rows={"exp_avg": "", "exp_avg_sq": ""},
    options=("betas[2]", "eps", "weight_decay", "decoupled_weight_decay", "maximize"),
)
RULE = Rule(
    from_zeros(FUSED.rows),
    update,
    on_device=FUSED,
    dense_only="RAdam does not support sparse gradients",
)


class RAdam(PerTensorOptimizer):
    """Rectified Adam (Liu et al., 2019).

    >>> p = nn.Parameter(tensor([1.0]))
    >>> (p * p).sum().backward()
    >>> optim.RAdam([p], lr=0.25).step()  # the first steps go along the mean gradient
    >>> p.detach()
    tensor([0.5000])
    """

    _rule = RULE
    _options = (
        "lr betas eps weight_decay maximize foreach capturable decoupled_weight_decay "
        "differentiable"
    )
    _added = PerTensorOptimizer._added | {"decoupled_weight_decay": False}

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_options(lr=lr, eps=eps, betas=betas, weight_decay=weight_decay)
        super().__init__(params, self._picked(locals()))


def radam(
    params: list[Any],
    grads: list[Any],
    exp_avgs: list[Any],
    exp_avg_sqs: list[Any],
    state_steps: list[Any],
    decoupled_weight_decay: bool = False,
    foreach: bool | None = None,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    maximize: bool = False,
    *,
    beta1: float,
    beta2: float,
    lr: Any,
    weight_decay: float,
    eps: float,
) -> None:
    """One step of RAdam on lists of tensors."""
    group = RAdam._picked(locals(), betas=(beta1, beta2))
    lists = {"step": state_steps, "exp_avg": exp_avgs, "exp_avg_sq": exp_avg_sqs}
    RULE.update_listed(params, grads, lists, group)
