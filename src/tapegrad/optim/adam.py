"""Adam: steps in proportion to the mean of the gradients over the root of their mean square."""

from __future__ import annotations

from typing import Any

import tapegrad as tg

from ..kernels.portable.functions import NUMBERS
from ._on_device import Fused
from ._per_tensor import (
    PerTensorOptimizer,
    Rule,
    begun,
    check_fused,
    check_options,
    from_zeros,
    python_number,
    scalar,
)

__all__ = ["Adam", "adam"]


def update(p: Any, grad: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
    """One step of one parameter."""
    p, grad, state = begun(p, grad, state, group)
    lr, (beta1, beta2), weight_decay = scalar(group["lr"]), group["betas"], group["weight_decay"]
    mean, square = state["exp_avg"], state["exp_avg_sq"]
    if weight_decay != 0:
        if group["decoupled_weight_decay"]:
            p.mul_(1 - lr * weight_decay)
        else:
            grad = add_decay(grad, p, weight_decay, group)
    mean.lerp_(grad, 1 - (beta1.to(p.dtype) if isinstance(beta1, tg.Tensor) else beta1))
    if group["differentiable"] and isinstance(beta2, tg.Tensor) and beta2.requires_grad:
        square.lerp_(tg.square(grad), 1 - beta2)
    else:
        square.mul_(beta2).addcmul_(grad, grad, value=python_number(1 - beta2))
    if group["amsgrad"]:
        highest = state["max_exp_avg_sq"]
        before = highest.clone() if group["differentiable"] else highest
        square = highest.copy_(tg.maximum(before, square))
    if group["capturable"] or group["differentiable"]:
        step_with_tensors(p, mean, square, state["step"], group)
        return
    # Both averages start at zero; these take that bias out again.
    count = state["step"].item()
    step_size = lr / (1 - NUMBERS.power(beta1, count))
    root = (square.sqrt() / NUMBERS.power(1 - NUMBERS.power(beta2, count), 0.5)).add_(group["eps"])
    p.addcdiv_(mean, root, value=-python_number(step_size))


def add_decay(grad: Any, p: Any, weight_decay: Any, group: dict[str, Any]) -> Any:
    """The gradient with the decay of the weights as a part of it."""
    if group["differentiable"] and isinstance(weight_decay, tg.Tensor):
        return grad.addcmul(p.clone(), weight_decay)  # the step writes over `p`
    return grad.add(p, alpha=python_number(weight_decay))


def step_with_tensors(p: Any, mean: Any, square: Any, step: Any, group: dict[str, Any]) -> None:
    """The last part of the update with the step count as a tensor, as captured graphs need it."""
    beta1, beta2 = group["betas"]
    if group["differentiable"]:
        step = step.clone()  # the next step counts on, and the gradient of a beta needs this one
    step_size = -(group["lr"] / (1 - beta1**step))
    root = square.sqrt() / ((1 - beta2**step).sqrt() * step_size)
    # The next step writes over the mean, which the gradient of this one needs.
    mean = mean.clone() if group["differentiable"] else mean
    p.addcdiv_(mean, root.add_(group["eps"] / step_size))


FUSED = Fused(
    "adam",
    update,
    rows={"exp_avg": "", "exp_avg_sq": "", "max_exp_avg_sq": "amsgrad"},
    options=("betas[2]", "eps", "weight_decay", "decoupled_weight_decay", "amsgrad", "maximize"),
)
RULE = Rule(
    from_zeros(FUSED.rows),
    update,
    on_device=FUSED,
    dense_only="Adam does not support sparse gradients, please consider SparseAdam instead",
)


def check_tensor_betas(betas: tuple[Any, Any], foreach: Any, capturable: bool) -> None:
    given = [isinstance(beta, tg.Tensor) for beta in betas]
    if given[0] != given[1]:
        raise ValueError("betas must be either both floats or both Tensors")
    for i, beta in enumerate(betas):
        if isinstance(beta, tg.Tensor):
            if foreach and not capturable:
                raise ValueError(
                    f"betas[{i}] as a Tensor is not supported for capturable=False and foreach=True"
                )
            if beta.numel() != 1:
                raise ValueError(f"Tensor betas[{i}] must be 1-element")


class Adam(PerTensorOptimizer):
    """Adam (Kingma and Ba, 2014).

    >>> p = nn.Parameter(tensor([1.0]))
    >>> optimizer = optim.Adam([p], lr=0.5)
    >>> (p * p).sum().backward()
    >>> optimizer.step()
    >>> p
    Parameter containing:
    tensor([0.5000], requires_grad=True)
    """

    _rule = RULE
    _options = (
        "lr betas eps weight_decay amsgrad maximize foreach capturable differentiable "
        "fused decoupled_weight_decay"
    )
    _added = {
        **PerTensorOptimizer._added,
        "amsgrad": False,
        "decoupled_weight_decay": False,
        "fused": None,
    }

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: tuple[Any, Any] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        if isinstance(lr, tg.Tensor) and foreach and not capturable:
            raise ValueError(
                "lr as a Tensor is not supported for capturable=False and foreach=True"
            )
        check_options(lr=lr, eps=eps, betas=betas, weight_decay=weight_decay)
        check_tensor_betas(betas, foreach, capturable)
        super().__init__(params, self._picked(locals()))
        check_fused(fused, foreach, differentiable)


def adam(
    params: list[Any],
    grads: list[Any],
    exp_avgs: list[Any],
    exp_avg_sqs: list[Any],
    max_exp_avg_sqs: list[Any],
    state_steps: list[Any],
    foreach: bool | None = None,
    capturable: bool = False,
    differentiable: bool = False,
    fused: bool | None = None,
    grad_scale: Any = None,
    found_inf: Any = None,
    has_complex: bool = False,
    decoupled_weight_decay: bool = False,
    *,
    amsgrad: bool,
    beta1: Any,
    beta2: Any,
    lr: Any,
    weight_decay: float,
    eps: float,
    maximize: bool,
) -> None:
    """One step of Adam on lists of tensors."""
    group = Adam._picked(locals(), betas=(beta1, beta2), fused=None)
    lists = {"step": state_steps, "exp_avg": exp_avgs, "exp_avg_sq": exp_avg_sqs}
    if amsgrad:
        lists["max_exp_avg_sq"] = max_exp_avg_sqs
    RULE.update_listed(params, grads, lists, group, grad_scale, found_inf)
