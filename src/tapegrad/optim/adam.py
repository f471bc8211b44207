"""Adam: steps in proportion to the mean of the gradients over the root of their mean square."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tapegrad as tg

from .optimizer import Optimizer, _use_grad_for_differentiable

__all__ = ["Adam"]


class Adam(Optimizer):
    """Adam (Kingma and Ba, 2014).

    >>> p = nn.Parameter(tensor([1.0]))
    >>> optimizer = optim.Adam([p], lr=0.5)
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
        check_options(lr, betas, eps, weight_decay, foreach, capturable)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
            "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
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
            group.setdefault("amsgrad", False)
            group.setdefault("maximize", False)
            group.setdefault("foreach", None)
            group.setdefault("capturable", False)
            group.setdefault("differentiable", False)
            group.setdefault("decoupled_weight_decay", False)
            group.setdefault("fused", None)
            for p in group["params"]:
                own = self.state.get(p, {})
                if "step" in own and not isinstance(own["step"], tg.Tensor):
                    own["step"] = tg.tensor(float(own["step"]), dtype=tg.float32)

    @_use_grad_for_differentiable
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters once; the loss that `closure` returned, if one is given."""
        loss = None
        if closure is not None:
            with tg.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    update(p, -p.grad if group["maximize"] else p.grad, self.state[p], group)
        return loss


def update(p: Any, g: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
    """One step of one parameter against the gradient `g`."""
    if not state:
        state["step"] = tg.tensor(0.0, dtype=tg.float32)
        state["exp_avg"] = tg.zeros_like(p)
        state["exp_avg_sq"] = tg.zeros_like(p)
        if group["amsgrad"]:
            state["max_exp_avg_sq"] = tg.zeros_like(p)
    lr, (beta1, beta2), weight_decay = group["lr"], group["betas"], group["weight_decay"]
    mean, square = state["exp_avg"], state["exp_avg_sq"]
    state["step"] += 1
    count = state["step"].item()
    if weight_decay != 0:
        if group["decoupled_weight_decay"]:
            p.mul_(1 - lr * weight_decay)
        else:
            g = g.add(p, alpha=weight_decay)
    mean.lerp_(g, 1 - beta1)
    square.mul_(beta2).addcmul_(g, g, value=1 - beta2)
    if group["amsgrad"]:
        square = state["max_exp_avg_sq"].copy_(tg.maximum(state["max_exp_avg_sq"], square))
    # Both averages start at zero; these take that bias out again.
    step_size = lr / (1 - beta1**count)
    root = (square.sqrt() / (1 - beta2**count) ** 0.5).add_(group["eps"])
    if isinstance(step_size, tg.Tensor):
        if group["differentiable"]:
            p.sub_(step_size * mean / root)
            return
        step_size = step_size.item()
    p.addcdiv_(mean, root, value=-step_size)


def check_options(
    lr: Any, betas: tuple[Any, Any], eps: float, weight_decay: float, foreach: Any, capturable: bool
) -> None:
    """PyTorch's checks, in its order."""
    if isinstance(lr, tg.Tensor):
        if foreach and not capturable:
            raise ValueError(
                "lr as a Tensor is not supported for capturable=False and foreach=True"
            )
        if lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
    if not lr >= 0.0:
        raise ValueError(f"Invalid learning rate: {lr}")
    if not eps >= 0.0:
        raise ValueError(f"Invalid epsilon value: {eps}")
    for i, beta in enumerate(betas):
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter at index {i}: {beta}")
    if not weight_decay >= 0.0:
        raise ValueError(f"Invalid weight_decay value: {weight_decay}")
    if isinstance(betas[0], tg.Tensor) != isinstance(betas[1], tg.Tensor):
        raise ValueError("betas must be either both floats or both Tensors")
