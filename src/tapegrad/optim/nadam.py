"""NAdam: Adam that looks one step ahead, as Nesterov's momentum does."""

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
    scalar,
)

__all__ = ["NAdam", "nadam"]


def update(p: Any, grad: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
    """One step of one parameter."""
    p, grad, state = begun(p, grad, state, group)
    lr, (beta1, beta2) = scalar(group["lr"]), group["betas"]
    mean, square = state["exp_avg"], state["exp_avg_sq"]
    count = state["step"].item()
    grad = decayed(p, grad, group, lr)
    momentum, ahead = momentum_at(count, group), momentum_at(count + 1, group)
    state["mu_product"] *= momentum
    mean.lerp_(grad, 1 - beta1)
    square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
    root = square.div(1 - NUMBERS.power(beta2, count)).sqrt()
    if group["differentiable"] or group["capturable"]:
        so_far = state["mu_product"]
        root = root.add(group["eps"])
        p.addcdiv_(grad * (-lr * (1.0 - momentum) / (1.0 - so_far)), root)
        p.addcdiv_(mean * (-lr * ahead / (1.0 - so_far * ahead)), root)
        return
    so_far = state["mu_product"].item()
    root.add_(group["eps"])
    p.addcdiv_(grad, root, value=python_number(-lr * (1.0 - momentum) / (1.0 - so_far)))
    p.addcdiv_(mean, root, value=python_number(-lr * ahead / (1.0 - so_far * ahead)))


def momentum_at(count: float, group: dict[str, Any]) -> Any:
    """The momentum after `count` steps: it grows from half of beta1 towards beta1."""
    return group["betas"][0] * (1.0 - 0.5 * NUMBERS.power(0.96, count * group["momentum_decay"]))


def advance(own: dict[str, Any], group: dict[str, Any]) -> None:
    """Count a step that a kernel does."""
    own["step"]._array += 1
    own["mu_product"]._array *= momentum_at(own["step"]._array.item(), group)


FUSED = Fused(
    "nadam",
    update,
    rows={"exp_avg": "", "exp_avg_sq": ""},
    options=(
        *("betas[2]", "eps", "weight_decay", "momentum_decay"),
        *("decoupled_weight_decay", "maximize"),
    ),
    scalars=("step", "mu_product"),
    advance=advance,
)
RULE = Rule(
    from_zeros(FUSED.rows, mu_product=1.0),
    update,
    scalars=("step", "mu_product"),
    on_device=FUSED,
    captured="params, mu_products and state_steps",
    captured_foreach="params, mu_products, and state_steps",
    dense_only="NAdam does not support sparse gradients",
)


class NAdam(PerTensorOptimizer):
    """NAdam (Dozat, 2016): Adam with Nesterov momentum.

    >>> p = nn.Parameter(tensor([1.0]))
    >>> optimizer = optim.NAdam([p], lr=0.5)
    >>> (p * p).sum().backward()
    >>> optimizer.step()
    >>> sorted(optimizer.state[p])
    ['exp_avg', 'exp_avg_sq', 'mu_product', 'step']
    """

    _rule = RULE
    _options = (
        "lr betas eps weight_decay momentum_decay decoupled_weight_decay maximize "
        "foreach capturable differentiable"
    )
    _added = PerTensorOptimizer._added | {"decoupled_weight_decay": False}

    def __init__(
        self,
        params: Any,
        lr: Any = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_options(
            lr=lr, eps=eps, betas=betas, weight_decay=weight_decay, momentum_decay=momentum_decay
        )
        super().__init__(params, self._picked(locals()))


def nadam(
    params: list[Any],
    grads: list[Any],
    exp_avgs: list[Any],
    exp_avg_sqs: list[Any],
    mu_products: list[Any],
    state_steps: list[Any],
    decoupled_weight_decay: bool = False,
    foreach: bool | None = None,
    capturable: bool = False,
    differentiable: bool = False,
    has_complex: bool = False,
    maximize: bool = False,
    *,
    beta1: float,
    beta2: float,
    lr: Any,
    weight_decay: float,
    momentum_decay: float,
    eps: float,
) -> None:
    """One step of NAdam on lists of tensors."""
    group = NAdam._picked(locals(), betas=(beta1, beta2))
    lists = {
        "step": state_steps,
        "mu_product": mu_products,
        "exp_avg": exp_avgs,
        "exp_avg_sq": exp_avg_sqs,
    }
    RULE.update_listed(params, grads, lists, group)
