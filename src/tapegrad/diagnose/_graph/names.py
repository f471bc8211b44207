"""Names for graphs: of tensors by the variables that hold them, of parameters by their path."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...core.base import TensorBase
from ...errors import evidence


class Names:
    """The names that the user's functions, or a given model, have for tensors and modules.

    Reading them walks over the variables of all running functions, once.
    """

    def __init__(self, model: Any = None, frames: Iterable[Any] | None = None) -> None:
        around = list(evidence.user_frames() if frames is None else frames)
        self.modules: dict[int, str] = {}  # id(module) -> path
        self.types: dict[str, str] = {}  # path -> what the module is, in one line
        self.kinds: dict[str, str] = {}  # path -> its class
        self.tensors: dict[int, tuple[str, Any]] = {}  # id(tensor) -> name and tensor
        self.parameters: dict[int, str] = {}  # id(parameter) -> the path of its module
        self.held: list[tuple[str, Any]] = list(evidence.tensors_held(around))
        by_id = evidence.module_names(around)
        if model is not None:
            name = by_id.get(id(model), "model")
            paths = {id(m): f"{name}.{path}" if path else name for path, m in model.named_modules()}
            by_id = {**by_id, **paths}
            self.add(model.named_modules(), by_id)
        self.add([("", m) for m in found_modules(around)], by_id)
        for name, t in self.held:
            self.tensors.setdefault(id(t), (name, t))

    def add(self, modules: Iterable[tuple[str, Any]], paths: dict[int, str]) -> None:
        """Modules under their paths, with their parameters and buffers."""
        for _, module in modules:
            path = paths.get(id(module))
            if path is None or id(module) in self.modules or "_modules" not in vars(module):
                continue
            self.modules[id(module)] = path
            self.kinds[path] = type(module).__name__
            self.types[path] = spell_module(module)
            for key, p in [*module._parameters.items(), *module._buffers.items()]:
                if p is not None and id(p) not in self.parameters:
                    self.parameters[id(p)] = path
                    self.tensors[id(p)] = (f"{path}.{key}", p)

    def adopt(self, seen: Iterable[Any]) -> None:
        """Names after their class for modules that ran, but that nobody holds under a name."""
        unknown = {id(m): m for m in seen if id(m) not in self.modules}
        inner: set[int] = set()
        for m in unknown.values():
            inner |= {id(part) for part in m.modules() if part is not m}
        taken = set(self.modules.values())
        for key, m in unknown.items():
            if key in inner:
                continue
            name = base = type(m).__name__
            count = 1
            while name in taken:
                count += 1
                name = f"{base}_{count}"
            taken.add(name)
            named = list(m.named_modules())
            self.add(named, {id(part): f"{name}.{path}" if path else name for path, part in named})

    def groups(self, used: Iterable[str]) -> dict[str, dict[str, Any]]:
        """The tree of the modules in `used` and of all that are around them."""
        known = set(self.kinds)
        found: dict[str, dict[str, Any]] = {}
        for path in sorted(set(used)):
            inner: str | None = path
            while inner is not None and inner not in found:
                parent = parent_of(inner, known)
                found[inner] = {"type": self.kinds.get(inner, ""), "parent": parent}
                inner = parent
        return found

    def of_tensor(self, t: TensorBase) -> str | None:
        found = self.tensors.get(id(t))
        return None if found is None else found[0]


def parent_of(path: str, known: set[str]) -> str | None:
    """The nearest module around a path."""
    while "." in path:
        path = path.rpartition(".")[0]
        if path in known:
            return path
    return None


def found_modules(frames: list[Any]) -> list[Any]:
    modules: dict[int, Any] = {}
    for _, held in evidence.modules_held(frames):
        if "_modules" in vars(held):
            for module in held.modules():
                modules[id(module)] = module
    return list(modules.values())


def spell_module(module: Any) -> str:
    """`Linear(in_features=4, out_features=8, bias=True)`; only the class if it holds others."""
    name = type(module).__name__
    if module._modules:
        return name
    try:
        return f"{name}({module.extra_repr()})"
    except Exception:  # a user's extra_repr may count on what is not there
        return name
