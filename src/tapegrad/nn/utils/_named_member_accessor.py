"""Parameters, buffers and modules of a module by their dotted names, read and replaced."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tapegrad as tg

from ..modules.module import Module

__all__ = ["NamedMemberAccessor", "swap_tensor"]

MISSING = object()


def check_tensor(name: str, tensor: Any) -> None:
    if tensor is not None and not isinstance(tensor, tg.Tensor):
        raise TypeError(f"{tensor} is not an instance of torch.Tensor")


def swap_tensor(module: Module, name: str, tensor: Any, allow_missing: bool = False) -> Any:
    """Put another tensor where a parameter or buffer is; returns the old one."""
    if not isinstance(module, Module):
        raise TypeError(f"{module} is not an instance of torch.nn.Module")
    if tensor is not MISSING:
        check_tensor(name, tensor)
    if "." in name:
        raise KeyError('tensor name can\'t contain "."')
    if name == "":
        raise KeyError('tensor name can\'t be empty string ""')
    places = (module._parameters, module._buffers, module.__dict__)
    place: Any = next((p for p in places if name in p), module.__dict__)
    old = place.get(name, MISSING)
    if old is MISSING and not allow_missing:
        raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
    if not (old is MISSING or old is None or isinstance(old, tg.Tensor)):
        raise TypeError(f"attribute `{name}`: {old} is not an instance of torch.Tensor")
    if tensor is MISSING:
        place.pop(name, None)
    else:
        place[name] = tensor
    return old


class NamedMemberAccessor:
    """Gets and sets parameters, buffers and children of a module by dotted names."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.memo: dict[str, Module] = {}

    def get_submodule(self, name: str) -> Module:
        if name not in self.memo:
            self.memo[name] = self.module.get_submodule(name)
        return self.memo[name]

    def _place(self, name: str) -> tuple[Module, str]:
        prefix, _, attr = name.rpartition(".")
        return self.get_submodule(prefix), attr

    def swap_submodule(self, path: str, value: Module) -> Module:
        """Put another module there; returns the old one."""
        parent, name = self._place(path)
        old = parent._modules[name]
        parent._modules[name] = value
        self.memo.clear()
        return old  # type: ignore[return-value]

    def get_tensor(self, name: str) -> Any:
        module, attr = self._place(name)
        found = getattr(module, attr)
        check_tensor(name, found)
        return found

    def set_tensor(self, name: str, value: Any) -> None:
        self.swap_tensor(name, value, allow_missing=True)

    def del_tensor(self, name: str) -> None:
        module, attr = self._place(name)
        swap_tensor(module, attr, MISSING)

    def swap_tensor(self, name: str, value: Any, allow_missing: bool = False) -> Any:
        module, attr = self._place(name)
        return swap_tensor(module, attr, value, allow_missing)

    def get_tensors(self, names: Iterable[str]) -> list[Any]:
        return [self.get_tensor(name) for name in names]

    def set_tensors(self, names: Iterable[str], values: Iterable[Any]) -> None:
        for name, value in zip(names, values, strict=True):
            self.set_tensor(name, value)

    def set_tensors_dict(self, named_tensors: dict[str, Any]) -> None:
        for name, value in named_tensors.items():
            self.set_tensor(name, value)

    def del_tensors(self, names: Iterable[str]) -> None:
        for name in names:
            self.del_tensor(name)

    def swap_tensors(
        self, names: Iterable[str], values: Iterable[Any], allow_missing: bool = False
    ) -> list[Any]:
        return [
            self.swap_tensor(name, value, allow_missing)
            for name, value in zip(names, values, strict=True)
        ]

    def swap_tensors_dict(
        self, named_tensors: dict[str, Any], allow_missing: bool = False
    ) -> tuple[dict[str, Any], list[str]]:
        """Replace several; returns the old ones, and the names that were not there."""
        old, missing = {}, []
        for name, value in named_tensors.items():
            try:
                old[name] = self.swap_tensor(name, value, allow_missing=True)
                if old[name] is MISSING:
                    missing.append(name)
            except AttributeError:
                missing.append(name)
        if missing and not allow_missing:
            raise RuntimeError(f"Missing key(s): {', '.join(missing)}.")
        return old, missing

    def check_keys(self, keys: Iterable[str]) -> tuple[list[str], list[str]]:
        """The names that are missing among `keys`, and those that are too many."""
        given = set(keys)
        valid = {name for name, _ in self.named_tensors(remove_duplicate=False)}
        return sorted(valid - given), sorted(given - valid)

    def named_parameters(self, remove_duplicate: bool = True) -> Iterable[tuple[str, Any]]:
        yield from self.module.named_parameters(remove_duplicate=remove_duplicate)

    def named_buffers(self, remove_duplicate: bool = True) -> Iterable[tuple[str, Any]]:
        yield from self.module.named_buffers(remove_duplicate=remove_duplicate)

    def named_tensors(self, remove_duplicate: bool = True) -> Iterable[tuple[str, Any]]:
        yield from self.named_parameters(remove_duplicate)
        yield from self.named_buffers(remove_duplicate)

    def named_modules(self, remove_duplicate: bool = True) -> Iterable[tuple[str, Module]]:
        yield from self.module.named_modules(remove_duplicate=remove_duplicate)
