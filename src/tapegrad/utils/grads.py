"""Helpers of modules and optimizers for the gradients of their parameters."""

from __future__ import annotations

from typing import Any


def set_to_zero(grad: Any) -> None:
    """Zero a gradient in place, without its history."""
    if grad.grad_fn is not None:
        grad.detach_()
    else:
        grad.requires_grad_(False)
    grad.zero_()
