"""Which submodules become units of their own."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ...nn import ModuleDict, ModuleList, MultiheadAttention

__all__ = [
    "CustomPolicy",
    "ModuleWrapPolicy",
    "always_wrap_policy",
    "enable_wrap",
    "lambda_auto_wrap_policy",
    "size_based_auto_wrap_policy",
    "transformer_auto_wrap_policy",
    "wrap",
]


def always_wrap_policy(*args: Any, **kwargs: Any) -> bool:
    """Every submodule is a unit."""
    return True


def transformer_auto_wrap_policy(
    module: Any, recurse: bool, nonwrapped_numel: int, transformer_layer_cls: set[Any]
) -> bool:
    """Every layer of these classes is a unit."""
    return recurse or isinstance(module, tuple(transformer_layer_cls))


def lambda_auto_wrap_policy(
    module: Any, recurse: bool, nonwrapped_numel: int, lambda_fn: Callable[[Any], bool]
) -> bool:
    """Every submodule of which a function says so is a unit."""
    return recurse or bool(lambda_fn(module))


def size_based_auto_wrap_policy(
    module: Any,
    recurse: bool,
    nonwrapped_numel: int,
    min_num_params: int = int(1e8),
    force_leaf_modules: Any = None,
    exclude_wrap_modules: Any = None,
) -> bool:
    """Every submodule with this many parameters that no inner unit has is a unit."""
    leaves = tuple(force_leaf_modules or (MultiheadAttention,))
    excluded = tuple(exclude_wrap_modules or (ModuleList, ModuleDict))
    if recurse:
        return nonwrapped_numel >= min_num_params and not isinstance(module, leaves)
    return nonwrapped_numel >= min_num_params and not isinstance(module, excluded)


def _or_policy(module: Any, recurse: bool, nonwrapped_numel: int, policies: Any) -> bool:
    """Every submodule that one of the policies picks is a unit."""
    return any([policy(module, recurse, nonwrapped_numel) for policy in policies])


class CustomPolicy:
    """A function says for every submodule whether it is a unit; arguments it gives are not used."""

    def __init__(self, lambda_fn: Callable[[Any], Any]) -> None:
        self._lambda_fn = lambda_fn

    def __call__(self, module: Any, recurse: bool, *args: Any, **kwargs: Any) -> bool:
        found = self._lambda_fn(module)
        return recurse or isinstance(found, dict) or bool(found)


class Wrapping:
    """The class and the arguments of units, as `enable_wrap` sets them."""

    cls: Any = None
    options: dict[str, Any] = {}


@contextmanager
def enable_wrap(*, wrapper_cls: Any, **wrapper_kwargs: Any) -> Iterator[None]:
    """Inside, `wrap(module)` makes a unit."""
    before = Wrapping.cls, Wrapping.options
    Wrapping.cls, Wrapping.options = wrapper_cls, wrapper_kwargs
    try:
        yield
    finally:
        Wrapping.cls, Wrapping.options = before


def wrap(module: Any, **wrap_overrides: Any) -> Any:
    """A unit, inside of `enable_wrap`; else the module itself."""
    if Wrapping.cls is None:
        return module
    return Wrapping.cls(module, **{**Wrapping.options, **wrap_overrides})


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
