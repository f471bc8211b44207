"""Keeping gradients small."""

from __future__ import annotations

import types
from collections.abc import Iterable
from typing import Any

import tapegrad as tg

from ...autograd.inplace import bump
from ...core import devices
from ...core.base import writing_for_caller
from ...core.python_dispatch import called_as_a_whole
from ...core.settings import Settings
from ...core.warned import warn
from ...kernels.cpu.gradients import GRADIENTS
from ...utils.deprecation import old_name

__all__ = [
    "clip_grad_norm",
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "get_total_norm",
]


@called_as_a_whole
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
    return norm_of(given, all_at_once(given, foreach), float(norm_type), error_if_nonfinite)


def norm_of(given: list[Any], found: Any, norm_type: float, error_if_nonfinite: bool) -> Any:
    """The norm of tensors, by what `all_at_once` found for them."""
    if not given:
        return tg.tensor(0.0)
    total = None
    if found is not None:
        total = found[0].total_norm(found[1], norm_type)
    if total is None:
        with tg.no_grad():
            total = tg.stack([t.norm(norm_type) for t in given]).norm(norm_type)
    if error_if_nonfinite and not bool(tg.isfinite(total)):
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, "
            "so it cannot be clipped. To disable this error and scale the gradients by the "
            "non-finite norm anyway, set `error_if_nonfinite=False`"
        )
    return total


@called_as_a_whole
def clip_grads_with_norm_(
    parameters: Any, max_norm: float, total_norm: Any, foreach: bool | None = None
) -> None:
    """Scale all gradients by `max_norm / total_norm`, if that is less than one.

    >>> w = nn.Parameter(tensor([1.0, 1.0]))
    >>> w.grad = tensor([3.0, 4.0])
    >>> nn.utils.clip_grads_with_norm_([w], max_norm=1.0, total_norm=tensor(5.0))
    >>> w.grad
    tensor([0.6000, 0.8000])
    """
    grads = grads_of(parameters)
    shorten(grads, all_at_once(grads, foreach), total_norm, float(max_norm))


def shorten(grads: list[Any], found: Any, total_norm: Any, max_norm: float) -> None:
    """Scale gradients, by what `all_at_once` found for them."""
    if found is not None and found[0].shorten(found[1], total_norm, max_norm):
        writing_for_caller(note_writes, grads, "mul_")
        return
    with tg.no_grad():
        scale = max_norm / (total_norm + 1e-6)
        # Multiplying by one costs less than asking, which would wait for a GPU.
        scale = tg.clamp(scale, max=1.0)
        for grad in grads:
            grad.mul_(scale)


@called_as_a_whole
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
            warn("`parameters` is an empty generator, no gradient clipping will occur.")
    grads = grads_of(parameters)
    found = all_at_once(grads, foreach)
    total = norm_of(grads, found, float(norm_type), error_if_nonfinite)
    shorten(grads, found, total, float(max_norm))
    return total


clip_grad_norm = old_name(
    "clip_grad_norm",
    clip_grad_norm_,
    "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of "
    "`torch.nn.utils.clip_grad_norm_`.",
)


@called_as_a_whole
def clip_grad_value_(parameters: Any, clip_value: float, foreach: bool | None = None) -> None:
    """Limit every element of all gradients to [-clip_value, clip_value].

    >>> p = nn.Parameter(ones(2))
    >>> (p * 5).sum().backward()
    >>> nn.utils.clip_grad_value_([p], 1.0)
    >>> p.grad
    tensor([1., 1.])
    """
    clip_value = float(clip_value)
    grads = grads_of(parameters)
    found = all_at_once(grads, foreach)
    if found is not None:
        found[0].limit_elements(found[1], clip_value)
        writing_for_caller(note_writes, grads, "clamp_")
        return
    with tg.no_grad():
        for grad in grads:
            grad.clamp_(min=-clip_value, max=clip_value)


# For a call that is recorded: what they are given is only read, except for its gradients.
get_total_norm.__wrapped__.only_reads = True  # type: ignore[attr-defined]
for each in (clip_grads_with_norm_, clip_grad_norm_, clip_grad_value_):
    each.__wrapped__.only_gradients = True  # type: ignore[attr-defined]


def grads_of(parameters: Iterable[Any] | Any) -> list[Any]:
    given = [parameters] if isinstance(parameters, tg.Tensor) else parameters
    return [grad for p in given if (grad := p.grad) is not None]


def all_at_once(tensors: list[Any], foreach: bool | None) -> tuple[Any, Any] | None:
    """Kernels that take all tensors at once, and the tensors' arrays; None where there are none."""
    if foreach is False or not tensors:
        return None
    own = None if Settings.portable else GRADIENTS
    for kernels in (getattr(devices.DEVICE.backend, "gradients", None), own):
        arrays = None if kernels is None else kernels.arrays_of(tensors)
        if arrays is not None:
            return kernels, arrays
    return None


def note_writes(tensors: list[Any], name: str) -> None:
    for t in tensors:
        bump(t, name)
