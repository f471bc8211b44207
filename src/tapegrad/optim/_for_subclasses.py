"""Helpers of `torch.optim.optimizer` that optimizers of other packages import."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import tapegrad as tg

Tensor: TypeAlias = Any
ParamsT: TypeAlias = Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]
StateDict: TypeAlias = dict[str, Any]

# Parts of docstrings.
_params_doc = "params (iterable): parameters, or dicts that define groups of them"
_foreach_doc = "foreach (bool, optional): update many tensors at once"
_fused_doc = "fused (bool, optional): update with one kernel"
_maximize_doc = "maximize (bool, optional): go up instead of down"
_capturable_doc = "capturable (bool, optional): count steps in tensors, for CUDA graphs"
_differentiable_doc = "differentiable (bool, optional): record the steps"


def _get_value(x: Any) -> Any:
    return x.item() if isinstance(x, tg.Tensor) else x


def _to_scalar(x: Any) -> Any:
    return x.squeeze() if isinstance(x, tg.Tensor) and x.dim() else x


def _stack_if_compiling(x: Any) -> Any:
    return x


def _get_scalar_dtype(is_fused: bool | None = None) -> Any:
    """The dtype of step counts."""
    wide = not is_fused and tg.get_default_dtype() is tg.float64
    return tg.float64 if wide else tg.float32


def _view_as_real(params: list[Any], *state_and_grads: list[Any]) -> None:
    """Replace complex parameters, with their states, by pairs of real numbers."""
    for i, param in enumerate(params):
        if tg.is_complex(param):
            for each in (params, *state_and_grads):
                each[i] = tg.view_as_real(each[i])


def _default_to_fused_or_foreach(
    params: list[Any], differentiable: bool, use_fused: bool = False
) -> tuple[bool, bool]:
    """Whether to use a fused step, and one for many tensors at once, which pays on GPUs."""
    given = [p for p in params if p is not None]
    if differentiable:
        return False, False
    if use_fused and all([p.is_floating_point() for p in given]):
        return True, False
    return False, all([p.is_cuda for p in given])


def _disable_dynamo_if_unsupported(single_tensor_fn: Any = None) -> Callable[[Any], Any]:
    """A decorator that marks functions for PyTorch's compiler: here they stay as they are."""
    return lambda fn: fn
