"""Adafactor: the mean square of a matrix of gradients kept as a row and a column."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tapegrad as tg

from ..kernels.portable.functions import NUMBERS
from ._matrices_on_device import adafactor as on_device
from ._per_tensor import (
    check_one_element,
    evaluate,
    new_scalar,
    python_number,
    update_real,
    use_tensor,
)
from .optimizer import Optimizer

__all__ = ["Adafactor", "adafactor"]


class Adafactor(Optimizer):
    """Adafactor (Shazeer and Stern, 2018).

    >>> p = nn.Parameter(ones(3, 4))
    >>> optimizer = optim.Adafactor([p])
    >>> p.sum().backward()
    >>> optimizer.step()
    >>> optimizer.state[p]["row_var"].shape, optimizer.state[p]["col_var"].shape
    (torch.Size([3, 1]), torch.Size([1, 4]))
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        check_one_element(lr)
        if not lr >= 0.0:
            raise ValueError(f"Learning rate should be >= 0 but is: {lr}")
        if not beta2_decay <= 0.0:
            raise ValueError(f"beta2_decay should be <= 0 but is: {beta2_decay}")
        if eps[0] is not None and not eps[0] >= 0.0:
            raise ValueError(f"epsilon1 should be >= 0 but is: {eps[0]}")
        if not eps[1] >= 0.0:
            raise ValueError(f"epsilon2 should be >= 0 but is: {eps[1]}")
        if not d >= 1.0:
            raise ValueError(f"Clipping threshold d should be >= 1 but is: {d}")
        if not weight_decay >= 0.0:
            raise ValueError(f"weight_decay should be >= 0 but is: {weight_decay}")
        defaults = {
            "lr": lr,
            "beta2_decay": beta2_decay,
            "eps": eps,
            "d": d,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("foreach", None)
            use_tensor(group, self.state, "step")

    @tg.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters once; the loss that `closure` returned, if one is given."""
        loss = evaluate(closure)
        for group in self.param_groups:
            update_real("Adafactor", self.state, group, begin, update, on_device)
        return loss


def begin(p: Any, state: dict[str, Any]) -> None:
    if state:
        return
    state["step"] = new_scalar(0.0)
    grad = p.grad
    if grad.dim() > 1:
        state["row_var"] = grad.new_zeros([*grad.shape[:-1], 1])
        state["col_var"] = grad.new_zeros([*grad.shape[:-2], 1, grad.shape[-1]])
    else:
        state["variance"] = tg.zeros_like(grad, memory_format=tg.preserve_format)


def update(p: Any, grad: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
    """One step of one parameter."""
    lr = group["lr"]
    eps1, eps2 = group["eps"]
    if eps1 is None:
        eps1 = tg.finfo(p.dtype).eps
    if group["maximize"]:
        grad = -grad
    state["step"] += 1
    count = state["step"].item()
    fresh = NUMBERS.power(count, group["beta2_decay"])
    # Steps are in proportion to the parameter's own size.
    size = at_least(eps2, p.norm(2), NUMBERS.power(p.numel(), 0.5))
    step_size = size * min(lr, 1 / NUMBERS.power(count, 0.5))
    if group["weight_decay"] != 0:
        p.mul_(1 - lr * group["weight_decay"])
    step = mean_square(grad, state, fresh, eps1).clamp_(min=eps1 * eps1).rsqrt_().mul_(grad)
    clip = at_least(1.0, step.norm(2), NUMBERS.power(step.numel(), 0.5) * group["d"])
    if p.is_cuda:
        p.sub_(step.mul_(step_size / clip))
    else:
        p.add_(step, alpha=python_number(-step_size / clip))


def at_least(least: float, length: Any, divisor: float) -> Any:
    """`length / divisor` or more; on a GPU a tensor, so that nobody waits for it."""
    if length.is_cuda:
        return (length / divisor).clamp(min=least)
    return max(least, length.item() / divisor)


def mean_square(grad: Any, state: dict[str, Any], fresh: float, least: float) -> Any:
    """The running mean square; for a matrix as the product of a row and a column."""
    if grad.dim() <= 1:
        return state["variance"].lerp_(grad * grad, fresh).clone()
    rows, columns = state["row_var"], state["col_var"]
    of_rows = grad.norm(dim=-1, keepdim=True).square_().div_(grad.size(-1))
    rows.lerp_(of_rows, fresh)
    of_columns = grad.norm(dim=-2, keepdim=True).square_().div_(grad.size(-2))
    columns.lerp_(of_columns, fresh)
    return (rows @ columns).div_(rows.mean(dim=-2, keepdim=True).clamp_(min=least))


def adafactor(
    params: list[Any],
    grads: list[Any],
    row_vars: list[Any],
    col_vars: list[Any],
    variances: list[Any],
    state_steps: list[Any],
    foreach: bool | None = None,
    grad_scale: Any = None,
    found_inf: Any = None,
    has_complex: bool = False,
    *,
    d: float,
    lr: Any,
    beta2_decay: float,
    weight_decay: float,
    eps1: float | None,
    eps2: float,
    maximize: bool,
) -> None:
    """One step of Adafactor on lists of tensors."""
    if not all(isinstance(step, tg.Tensor) for step in state_steps):
        raise RuntimeError("`state_steps` argument must contain a list of singleton tensors")
    if grad_scale is not None or found_inf is not None:
        raise AssertionError("Grad scaling should occur outside of optimizer.step()")
    group = {
        "d": d,
        "lr": lr,
        "beta2_decay": beta2_decay,
        "weight_decay": weight_decay,
        "eps": (eps1, eps2),
        "maximize": maximize,
    }
    lists = (grads, state_steps, row_vars, col_vars, variances)
    for p, grad, step, row, column, variance in zip(params, *lists, strict=True):
        state = {"step": step, "row_var": row, "col_var": column, "variance": variance}
        update(p, grad, state, group)
