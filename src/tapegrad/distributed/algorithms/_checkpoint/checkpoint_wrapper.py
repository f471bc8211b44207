"""Modules whose inner values are computed again in the backward pass."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from ...._absent import absent_function
from ....nn.modules.module import Module
from ....utils.checkpoint import checkpoint

__all__ = [
    "CheckpointImpl",
    "CheckpointWrapper",
    "apply_activation_checkpointing",
    "checkpoint_wrapper",
    "offload_wrapper",
]

PREFIX = "_checkpoint_wrapped_module."


class CheckpointImpl(enum.Enum):
    """How `utils.checkpoint` goes about it."""

    REENTRANT = enum.auto()
    NO_REENTRANT = enum.auto()


class CheckpointWrapper(Module):
    """A module under `utils.checkpoint`; names of parameters stay those of the module."""

    def __init__(
        self,
        mod: Module,
        checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
        checkpoint_fn: Any = None,
        **checkpoint_fn_kwargs: Any,
    ) -> None:
        super().__init__()
        self._checkpoint_wrapped_module = mod
        self.checkpoint_impl = checkpoint_impl
        reentrant = checkpoint_impl is CheckpointImpl.REENTRANT
        self.checkpoint_fn = (
            partial(checkpoint, use_reentrant=reentrant, **checkpoint_fn_kwargs)
            if checkpoint_fn is None
            else partial(checkpoint_fn, **checkpoint_fn_kwargs)
        )
        self._register_state_dict_hook(without_prefix)
        self.register_load_state_dict_pre_hook(with_prefix)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.checkpoint_fn(self._checkpoint_wrapped_module, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self._checkpoint_wrapped_module, name)

    def __getitem__(self, key: int) -> Any:
        return self._checkpoint_wrapped_module[key]  # type: ignore[index]

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        for name, parameter in super().named_parameters(*args, **kwargs):
            yield name.replace(PREFIX, ""), parameter


def without_prefix(module: Module, state: Any, prefix: str, *rest: Any) -> Any:
    for name in [name for name in state if name.startswith(prefix + PREFIX)]:
        state[prefix + name[len(prefix + PREFIX) :]] = state.pop(name)
    return state


def with_prefix(module: Module, state: Any, prefix: str, *rest: Any) -> None:
    for name in [name for name in state if name.startswith(prefix)]:
        if not name.startswith(prefix + PREFIX):
            state[prefix + PREFIX + name[len(prefix) :]] = state.pop(name)


def checkpoint_wrapper(
    module: Module,
    checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
    checkpoint_fn: Any = None,
    **checkpoint_fn_kwargs: Any,
) -> Module:
    """The module, computed again in the backward pass."""
    return CheckpointWrapper(module, checkpoint_impl, checkpoint_fn, **checkpoint_fn_kwargs)


def apply_activation_checkpointing(
    model: Module,
    checkpoint_wrapper_fn: Callable[[Module], Module] = checkpoint_wrapper,
    check_fn: Callable[[Module], bool] = lambda module: True,
    auto_wrap_policy: Any = None,
) -> None:
    """Wrap the submodules that `check_fn` picks, from the inside out."""
    for name, child in list(model.named_children()):
        apply_activation_checkpointing(child, checkpoint_wrapper_fn, check_fn, auto_wrap_policy)
        chosen = (
            check_fn(child)
            if auto_wrap_policy is None
            else auto_wrap_policy(module=child, recurse=False, nonwrapped_numel=0)
        )
        if chosen:
            setattr(model, name, checkpoint_wrapper_fn(child))


offload_wrapper = absent_function(
    "torch.distributed.algorithms._checkpoint.checkpoint_wrapper.offload_wrapper",
    "values that are kept for the backward pass are on the CPU already; checkpoint_wrapper",
)
