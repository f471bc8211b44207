"""`tapegrad.compile(module)`: a module whose calls are answered by recordings."""

from __future__ import annotations

from typing import Any

from ...nn.modules.module import Module

OWN = frozenset(("_orig_mod", "forward", "_compiled_call_impl", *vars(Module())))


class OptimizedModule(Module):
    """A module that wraps another: attributes are read from the wrapped module and set on it."""

    def __init__(self, module: Module, compiled: Any) -> None:
        super().__init__()
        self._orig_mod = module
        self.forward = compiled

    @property
    def training(self) -> bool:  # type: ignore[override]
        inner = self.__dict__.get("_modules", {}).get("_orig_mod")
        return True if inner is None else inner.training

    @training.setter
    def training(self, value: bool) -> None:
        inner = self.__dict__.get("_modules", {}).get("_orig_mod")
        if inner is not None:
            inner.training = value

    def __getattr__(self, name: str) -> Any:
        inner = self.__dict__.get("_modules", {}).get("_orig_mod")
        if name == "_orig_mod" and inner is not None:
            return inner
        return super().__getattr__(name) if inner is None else getattr(inner, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in OWN:
            super().__setattr__(name, value)
        else:
            setattr(self._orig_mod, name, value)

    def __delattr__(self, name: str) -> None:
        if name in OWN:
            super().__delattr__(name)
        else:
            delattr(self._orig_mod, name)

    def __len__(self) -> int:
        return len(self._orig_mod)

    def __bool__(self) -> bool:
        return bool(self._orig_mod)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self._orig_mod)})


def parts_of(module: Any) -> list[Any]:
    """The modules inside that are called: lists and dicts of modules are not."""
    found: list[Any] = []
    for child in module._modules.values():
        if child is not None:
            is_called = type(child).forward is not Module.forward
            found += [child] if is_called else parts_of(child)
    return found
