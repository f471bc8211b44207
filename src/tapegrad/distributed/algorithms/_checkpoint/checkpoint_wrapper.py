"""Modules whose activations are not kept: checkpoints by wrapping."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from typing import Any

from ....errors.absent import absent_function
from ....nn.modules.module import Module
from ....utils.checkpoint import checkpoint

__all__ = [
    "ActivationWrapper",
    "CheckpointImpl",
    "CheckpointWrapper",
    "apply_activation_checkpointing",
    "checkpoint_wrapper",
    "offload_wrapper",
]

PREFIX = "_checkpoint_wrapped_module."


class CheckpointImpl(enum.Enum):
    """Which of the two ways of `utils.checkpoint`."""

    REENTRANT = enum.auto()
    NO_REENTRANT = enum.auto()


class ActivationWrapper(Module):
    """A module around another one; names of parameters and states are those without it."""

    def __init__(self, mod: Module) -> None:
        super().__init__()
        self._checkpoint_wrapped_module = mod
        self.register_state_dict_post_hook(without_prefix)
        self.register_load_state_dict_pre_hook(with_prefix)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("_checkpoint_wrapped_module"), name)

    def __getitem__(self, key: int) -> Any:
        inner: Any = self._checkpoint_wrapped_module
        return inner[key]

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        for name, p in super().named_parameters(*args, **kwargs):
            yield name.replace(PREFIX, ""), p


def without_prefix(module: Any, state: dict[str, Any], prefix: str, *args: Any) -> None:
    for key in [k for k in state if k.startswith(prefix + PREFIX)]:
        state[prefix + key[len(prefix + PREFIX) :]] = state.pop(key)


def with_prefix(module: Any, state: dict[str, Any], prefix: str, *args: Any) -> None:
    for key in [k for k in state if k.startswith(prefix) and PREFIX not in k[len(prefix) :]]:
        state[prefix + PREFIX + key[len(prefix) :]] = state.pop(key)


class CheckpointWrapper(ActivationWrapper):
    """A module that is run again in the backward pass."""

    def __init__(
        self,
        mod: Module,
        checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
        checkpoint_fn: Callable[..., Any] | None = None,
        **checkpoint_fn_kwargs: Any,
    ) -> None:
        super().__init__(mod)
        self.checkpoint_impl = checkpoint_impl
        self.__dict__["checkpoint_fn"] = checkpoint_fn
        self.__dict__["checkpoint_options"] = checkpoint_fn_kwargs

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        inner = self._checkpoint_wrapped_module
        if self.checkpoint_fn is not None:
            return self.checkpoint_fn(inner, *args, **self.checkpoint_options, **kwargs)
        again = self.checkpoint_impl is CheckpointImpl.REENTRANT
        if again and kwargs:
            return checkpoint(lambda *a: inner(*a, **kwargs), *args, use_reentrant=True)
        options = {"use_reentrant": again, **self.checkpoint_options}
        return checkpoint(inner, *args, **options, **kwargs)


def checkpoint_wrapper(
    module: Module,
    checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
    checkpoint_fn: Callable[..., Any] | None = None,
    **checkpoint_fn_kwargs: Any,
) -> Module:
    """A module that keeps no activations."""
    return CheckpointWrapper(module, checkpoint_impl, checkpoint_fn, **checkpoint_fn_kwargs)


def apply_activation_checkpointing(
    model: Module,
    checkpoint_wrapper_fn: Callable[[Any], Any] = checkpoint_wrapper,
    check_fn: Callable[[Any], bool] = lambda _: True,
    auto_wrap_policy: Any = None,
) -> None:
    """Wrap the submodules that `check_fn` names, from the inside out."""

    def wanted(module: Any) -> bool:
        if auto_wrap_policy is None:
            return check_fn(module)
        return bool(auto_wrap_policy(module=module, recurse=False, nonwrapped_numel=0))

    for name, child in list(model.named_children()):
        apply_activation_checkpointing(child, checkpoint_wrapper_fn, check_fn, auto_wrap_policy)
        if wanted(child):
            setattr(model, name, checkpoint_wrapper_fn(child))


offload_wrapper = absent_function(
    "torch.distributed.algorithms._checkpoint.checkpoint_wrapper.offload_wrapper",
    "checkpoint_wrapper, which keeps nothing",
)
