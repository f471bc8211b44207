"""First and second gradients of a function as one entry of a transcript."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def plain(t: Any) -> list[Any] | None:
    """What a gradient is, without what both libraries may choose freely (strides, grad_fn)."""
    return None if t is None else [t.dtype, t.shape, t.detach().clone().tolist()]


def weights(torch: Any, like: Any) -> Any:
    """1, 2, 3 ... in the shape of `like`: no two elements of a gradient come out equal."""
    return torch.arange(1, like.numel() + 1, dtype=like.dtype).reshape(like.shape)


def orders(torch: Any, log: Any, f: Callable[..., Any], *values: Any) -> None:
    """Log f's value at float64 `values`, its gradients, and the gradients of those."""
    inputs = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in values]
    out = f(*inputs)
    log("value", plain(out), None if out.grad_fn is None else out.grad_fn.name())
    seed = weights(torch, out).requires_grad_()
    first = torch.autograd.grad(
        out, inputs, seed, create_graph=True, allow_unused=True, materialize_grads=True
    )
    log("first", [plain(g) for g in first])
    total = sum((g * weights(torch, g) * 0.5).sum() for g in first)
    if total.requires_grad:
        second = torch.autograd.grad(
            total, [*inputs, seed], allow_unused=True, materialize_grads=True
        )
        log("second", [plain(g) for g in second])
