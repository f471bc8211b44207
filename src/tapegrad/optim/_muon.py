"""Muon: momentum whose matrices are made nearly orthogonal before they are applied."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import tapegrad as tg

from ..core.base import wrap
from ..core.devices import xp_of
from ._matrices_on_device import muon
from ._per_tensor import check_one_element, evaluate, python_number, update_real
from .optimizer import Optimizer

__all__ = ["Muon"]

# Of the quintic polynomial that drives singular values towards 1.
A, B, C = 3.4445, -4.7750, 2.0315


class Muon(Optimizer):
    """Muon (Jordan et al., 2024), for the weight matrices of hidden layers.

    >>> p = nn.Parameter(eye(2))
    >>> optimizer = optim.Muon([p], lr=0.1, weight_decay=0.0)
    >>> (p * p).sum().backward()
    >>> optimizer.step()
    >>> p
    Parameter containing:
    tensor([[0.8875, 0.0000],
            [0.0000, 0.8875]], requires_grad=True)
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (A, B, C),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        check_one_element(lr)
        if not lr >= 0.0:
            raise ValueError(f"Learning rate should be >= 0 but is: {lr}")
        if not momentum >= 0.0:
            raise ValueError(f"momentum should be >= 0 but is: {momentum}")
        if not weight_decay >= 0.0:
            raise ValueError(f"weight decay should be >= 0 but is: {weight_decay}")
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        defaults = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "nesterov": nesterov,
            "ns_coefficients": ns_coefficients,
            "eps": eps,
            "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        }
        super().__init__(params, defaults)
        for group in self.param_groups:
            for p in group["params"]:
                if p.ndim != 2:
                    raise ValueError(
                        "Muon only supports 2D parameters whereas we found a parameter with "
                        f"size: {p.size()}"
                    )

    @tg.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters once; the loss that `closure` returned, if one is given."""
        loss = evaluate(closure)
        for group in self.param_groups:
            update_real("Muon", self.state, group, begin, update, on_device)
        return loss


def begin(p: Any, state: dict[str, Any]) -> None:
    if "momentum_buffer" not in state:
        state["momentum_buffer"] = tg.zeros_like(p.grad, memory_format=tg.preserve_format)


def update(p: Any, grad: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
    """One step of one parameter."""
    lr, momentum, buffer = python_number(group["lr"]), group["momentum"], state["momentum_buffer"]
    buffer.lerp_(grad, 1 - momentum)
    step = grad.lerp(buffer, momentum) if group["nesterov"] else buffer
    step = _zeropower_via_newtonschulz(
        step, group["ns_coefficients"], group["ns_steps"], group["eps"]
    )
    p.mul_(1 - lr * group["weight_decay"])
    p.add_(step, alpha=-_adjust_lr(lr, group["adjust_lr_fn"], p.shape))


def on_device(params: list[Any], states: Any, group: dict[str, Any]) -> list[Any]:
    """Update the parameters that kernels of a GPU take; the others are returned."""
    kind = group["adjust_lr_fn"]
    return muon(params, states, group, lambda shape: _adjust_lr(1.0, kind, shape))


def _adjust_lr(lr: float, adjust_lr_fn: str | None, param_shape: Any) -> float:
    """The learning rate for a matrix of this shape."""
    rows, columns = param_shape[:2]
    if adjust_lr_fn == "match_rms_adamw":
        return lr * 0.2 * math.sqrt(max(rows, columns))
    return lr * math.sqrt(max(1, rows / columns))


def _zeropower_via_newtonschulz(
    grad: Any, ns_coefficients: tuple[float, float, float], ns_steps: int, eps: float
) -> Any:
    """About the nearest orthogonal matrix: singular values of 0.7 to 1.2.

    PyTorch computes this in bfloat16. So do we, number for number, in float32 arrays that are
    rounded after every operation: NumPy has no bfloat16, and the result is a float32 tensor.
    """
    if ns_steps >= 100:
        raise ValueError("Number of steps must be less than 100 for computational efficiency")
    if len(grad.shape) != 2:
        raise ValueError("Input tensor gradient must be a 2D matrix")
    if len(ns_coefficients) != 3:
        raise ValueError("Coefficients must be a tuple of exactly 3 values")
    a, b, c = [np.float32(value) for value in ns_coefficients]
    values = grad.detach().float()._array
    xp = xp_of(values)
    x = to_bfloat16(xp, values)
    tall = x.shape[0] > x.shape[1]
    if tall:
        x = x.T
    length = to_bfloat16(xp, xp.sqrt(xp.square(x).sum()))
    least = np.float32(to_bfloat16(np, np.float32(eps)))
    x = to_bfloat16(xp, x / xp.maximum(length, least))
    for _ in range(ns_steps):
        gram = to_bfloat16(xp, x @ x.T)
        factor = to_bfloat16(xp, b * gram + c * (gram @ gram))
        x = to_bfloat16(xp, a * x + factor @ x)
    return wrap(xp.ascontiguousarray(x.T if tall else x))


def to_bfloat16(xp: Any, value: Any) -> Any:
    """float32 numbers rounded to the nearest that bfloat16 has, ties to even."""
    exact = xp.array(value, dtype=np.float32, order="C")
    bits = exact.view(np.uint32)
    up = ((bits >> 16) & 1) + np.uint32(0x7FFF)
    rounded = ((bits + up) & np.uint32(0xFFFF0000)).view(np.float32)
    return xp.where(xp.isnan(exact), exact, rounded)
