"""Which modules are running, in forward and in backward."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from ..autograd.graph import register_multi_grad_hook
from ..core.base import TensorBase
from ..nn.modules.module import (
    Module,
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from ._pytree import tree_leaves

__all__ = ["ModuleTracker"]


class ModuleTracker:
    """Inside, `parents` names the modules that are running: the whole program is "Global".

    >>> class Shown(nn.Module):
    ...     def forward(self, x):
    ...         print(sorted(tracker.parents))
    ...         return x
    >>> with torch.utils.module_tracker.ModuleTracker() as tracker:
    ...     y = nn.Sequential(Shown())(zeros(1))
    ['Global', 'Sequential', 'Sequential.0']
    """

    parents: set[str]

    def __init__(self) -> None:
        self.parents = {"Global"}
        self._names: weakref.WeakKeyDictionary[Module, str] = weakref.WeakKeyDictionary()
        self._handles: list[Any] = []

    @property
    def is_bw(self) -> bool:
        """Whether a backward pass is running."""
        from ..autograd.variable import current_pass

        return bool(current_pass() != -1)

    def _name_of(self, module: Module) -> str:
        if module not in self._names:
            self._name_all(module, type(module).__name__)
        return self._names[module]

    def _name_all(self, module: Module, name: str) -> None:
        self._names[module] = name
        for child_name, child in module.named_children():
            self._name_all(child, f"{name}.{child_name}")

    def _enter(self, name: str) -> Callable[..., None]:
        def enter(*_: Any) -> None:
            self.parents.add(name)

        return enter

    def _leave(self, name: str) -> Callable[..., None]:
        def leave(*_: Any) -> None:
            self.parents.discard(name)

        return leave

    def _before(self, module: Module, args: Any) -> None:
        name = self._name_of(module)
        self._enter(name)()
        inputs = differentiable(args)
        if inputs:
            self._handles.append(register_multi_grad_hook(inputs, self._leave(name)))

    def _after(self, module: Module, args: Any, output: Any) -> None:
        name = self._name_of(module)
        self._leave(name)()
        outputs = differentiable(output)
        if outputs:
            self._handles.append(register_multi_grad_hook(outputs, self._enter(name), mode="any"))

    def __enter__(self) -> ModuleTracker:
        self._handles = [
            register_module_forward_pre_hook(self._before),
            register_module_forward_hook(self._after, always_call=True),
        ]
        return self

    def __exit__(self, *error: object) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []


def differentiable(values: Any) -> list[Any]:
    """The tensors among `values` that a gradient will reach."""
    return [t for t in tree_leaves(values) if isinstance(t, TensorBase) and t.requires_grad]
