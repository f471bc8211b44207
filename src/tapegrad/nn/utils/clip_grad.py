"""Keeping gradients small."""

from __future__ import annotations

import types
import warnings
from collections.abc import Iterable
from typing import Any

import tapegrad as tg

__all__ = [
    "clip_grad_norm",
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "get_total_norm",
]


def get_total_norm(
    tensors: Any,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Any:
    """The norm of all elements of all tensors together.

    >>> nn.utils.get_total_norm([tensor([3.0]), tensor([4.0])])
    tensor(5.)
    """
    given = [tensors] if isinstance(tensors, tg.Tensor) else list(tensors)
    norm_type = float(norm_type)
    if not given:
        return tg.tensor(0.0)
    with tg.no_grad():
        total = tg.stack([t.norm(norm_type) for t in given]).norm(norm_type)
    if error_if_nonfinite and not bool(tg.isfinite(total)):
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, "
            "so it cannot be clipped. To disable this error and scale the gradients by the "
            "non-finite norm anyway, set `error_if_nonfinite=False`"
        )
    return total


def clip_grads_with_norm_(
    parameters: Any, max_norm: float, total_norm: Any, foreach: bool | None = None
) -> None:
    """Scale all gradients by `max_norm / total_norm`, if that is less than one."""
    with tg.no_grad():
        scale = float(max_norm) / (total_norm + 1e-6)
        # Multiplying by one costs less than asking, which would wait for a GPU.
        scale = tg.clamp(scale, max=1.0)
        for grad in grads_of(parameters):
            grad.mul_(scale)


def clip_grad_norm_(
    parameters: Any,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Any:
    """Scale all gradients together so that their norm is at most `max_norm`; the norm they had.

    >>> p = nn.Parameter(tensor([1.0, 1.0]))
    >>> p.grad = tensor([3.0, 4.0])
    >>> nn.utils.clip_grad_norm_([p], 1.0)
    tensor(5.)
    >>> p.grad
    tensor([0.6000, 0.8000])
    """
    if isinstance(parameters, tg.Tensor):
        parameters = [parameters]
    else:
        is_generator = isinstance(parameters, types.GeneratorType)
        parameters = list(parameters)
        if is_generator and not parameters:
            warnings.warn(
                "`parameters` is an empty generator, no gradient clipping will occur.", stacklevel=2
            )
    total = get_total_norm(grads_of(parameters), norm_type, error_if_nonfinite, foreach)
    clip_grads_with_norm_(parameters, max_norm, total, foreach)
    return total


def clip_grad_norm(
    parameters: Any,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Any:
    """The old name of `clip_grad_norm_`."""
    warnings.warn(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of "
        "`torch.nn.utils.clip_grad_norm_`.",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(parameters: Any, clip_value: float, foreach: bool | None = None) -> None:
    """Limit every element of all gradients to [-clip_value, clip_value]."""
    clip_value = float(clip_value)
    with tg.no_grad():
        for grad in grads_of(parameters):
            grad.clamp_(min=-clip_value, max=clip_value)


def grads_of(parameters: Iterable[Any] | Any) -> list[Any]:
    given = [parameters] if isinstance(parameters, tg.Tensor) else parameters
    return [p.grad for p in given if p.grad is not None]
