"""Which submodules become units of their own."""

from __future__ import annotations

import functools
from typing import Any

__all__ = [
    "ModuleWrapPolicy",
    "always_wrap_policy",
    "lambda_auto_wrap_policy",
    "size_based_auto_wrap_policy",
    "transformer_auto_wrap_policy",
]


def always_wrap_policy(*args: Any, **kwargs: Any) -> bool:
    """Every submodule is a unit."""
    return True


def transformer_auto_wrap_policy(
    module: Any, recurse: bool, nonwrapped_numel: int, transformer_layer_cls: set[Any]
) -> bool:
    """Every layer of these classes is a unit."""
    return recurse or isinstance(module, tuple(transformer_layer_cls))


def size_based_auto_wrap_policy(
    module: Any, recurse: bool, nonwrapped_numel: int, min_num_params: int = int(1e8), **_: Any
) -> bool:
    """Every submodule with this many parameters that no inner unit has is a unit."""
    return nonwrapped_numel >= min_num_params


def lambda_auto_wrap_policy(
    module: Any, recurse: bool, nonwrapped_numel: int, lambda_fn: Any
) -> bool:
    """Every module that the function picks is a unit."""
    return recurse or bool(lambda_fn(module))


def _or_policy(module: Any, recurse: bool, nonwrapped_numel: int, policies: Any) -> bool:
    """Every module that one of the policies picks is a unit."""
    return any([ask(policy, module, recurse, nonwrapped_numel) for policy in policies])


class ModuleWrapPolicy:
    """Every module of these classes is a unit."""

    def __init__(self, module_classes: Any) -> None:
        self._classes = tuple(module_classes)

    def __call__(self, module: Any, recurse: bool, *args: Any, **kwargs: Any) -> bool:
        return recurse or isinstance(module, self._classes)


def wrap_children(module: Any, policy: Any, make: Any) -> None:
    """Wrap submodules from the inside out, where the policy says so."""
    from .fully_sharded_data_parallel import FullyShardedDataParallel

    asked = functools.partial(ask, policy)
    for name, child in list(module.named_children()):
        if isinstance(child, FullyShardedDataParallel):
            continue
        own = sum(p.numel() for p in child.parameters())
        if asked(child, True, own):
            wrap_children(child, policy, make)
        left = sum(p.numel() for p in child.parameters() if not getattr(p, "_is_flat", False))
        if left and asked(child, False, left):
            setattr(module, name, make(child))


def ask(policy: Any, module: Any, recurse: bool, size: int) -> bool:
    return bool(policy(module=module, recurse=recurse, nonwrapped_numel=size))
