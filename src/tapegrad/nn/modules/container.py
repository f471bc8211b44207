"""Modules that hold others: Sequential, ModuleList, ModuleDict, ParameterList, ParameterDict."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections import abc as container_abcs
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any

import tapegrad as tg

from ...core.warned import warn
from ...utils.naming import public_module, typename
from ..parameter import Parameter
from .module import Module, indented

__all__ = ["ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]


def class_text(cls: type) -> str:
    """`<class '…'>` with the module name that PyTorch's messages have."""
    name = cls.__qualname__
    if cls.__module__ != "builtins":
        name = f"{public_module(cls.__module__)}.{name}"
    return f"<class '{name}'>"


def wrap_index(index: Any, size: int) -> int:
    """A position from the front, for one that may count from the back."""
    index = operator.index(index)
    if not -size <= index < size:
        raise IndexError(f"index {index} is out of range")
    return index % size


class _Numbered(Module):
    """Modules by their places, which are the names they are registered under."""

    def _name_at(self, index: Any) -> str:
        raise NotImplementedError

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, self._name_at(index), module)

    def __delitem__(self, index: Any) -> None:
        if isinstance(index, slice):
            for name in list(self._modules)[index]:
                delattr(self, name)
        else:
            delattr(self, self._name_at(index))
        self._modules = dict(zip(map(str, range(len(self))), self._modules.values(), strict=True))

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __dir__(self) -> list[str]:
        return [n for n in super().__dir__() if not n.isdigit()]


class Sequential(_Numbered):
    """Modules called one after the other, each with what the one before returned.

    >>> nn.Sequential(nn.ReLU(), nn.Flatten(0))(tensor([[1.0, -1.0]]))
    tensor([1., 0.])
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for i, module in enumerate(args):
                self.add_module(str(i), module)

    def forward(self, input: Any) -> Any:
        for module in self:
            input = module(input)
        return input

    def _name_at(self, index: Any) -> str:
        position = wrap_index(index, len(self))
        return next(islice(self._modules, position, None))

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(OrderedDict(list(self._modules.items())[index]))
        return self._modules[self._name_at(index)]

    def __add__(self, other: Any) -> Sequential:
        self._check_sequential(other)
        made = Sequential()
        for module in chain(self, other):
            made.append(module)
        return made

    def __iadd__(self, other: Any) -> Any:
        self._check_sequential(other)
        for module in list(other):
            self.append(module)
        return self

    def _check_sequential(self, other: Any) -> None:
        if not isinstance(other, Sequential):
            raise ValueError(
                "add operator supports only objects of Sequential class, but "
                f"{class_text(type(other))} is given."
            )

    def __mul__(self, other: int) -> Sequential:
        self._check_factor(other)
        made = Sequential()
        for _ in range(other):
            made.extend(self)
        return made

    __rmul__ = __mul__

    def __imul__(self, other: int) -> Any:
        self._check_factor(other)
        modules = list(self)
        for _ in range(other - 1):
            self.extend(modules)
        return self

    def _check_factor(self, other: Any) -> None:
        own = class_text(type(self))
        if not isinstance(other, int):
            raise TypeError(
                f"unsupported operand type(s) for *: {own} and {class_text(type(other))}"
            )
        if other <= 0:
            raise ValueError(f"Non-positive multiplication factor {other} for {own}")

    def append(self, module: Module) -> Any:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, sequential: Iterable[Module]) -> Any:
        """Add modules at the end."""
        for module in list(sequential):
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> Any:
        """Add a module before position `index`."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {class_text(Module)}")
        size = len(self)
        if not -size <= index <= size:
            raise IndexError(f"Index out of range: {index}")
        modules = list(self._modules.values())
        modules.insert(index, module)
        self._modules = dict(zip(map(str, range(size + 1)), modules, strict=True))
        return self

    def pop(self, key: Any) -> Any:
        """Take a module out."""
        module = self[key]
        del self[key]
        return module


class ModuleList(_Numbered):
    """A list of modules, all of them registered.

    >>> len(nn.ModuleList([nn.ReLU(), nn.ReLU()]))
    2
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def _name_at(self, index: Any) -> str:
        return str(wrap_index(index, len(self)))

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self._modules.values())[index])
        return self._modules[self._name_at(index)]

    def __iadd__(self, modules: Iterable[Module]) -> Any:
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList(chain(self, other))

    def append(self, module: Module) -> Any:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Any:
        """Add modules at the end."""
        if not isinstance(modules, container_abcs.Iterable):
            raise TypeError(
                "ModuleList.extend should be called with an iterable, but got "
                + type(modules).__name__
            )
        for module in list(modules):
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> None:
        """Add a module before position `index`."""
        modules = list(self._modules.values())
        modules.insert(index, module)
        self._modules = dict(zip(map(str, range(len(modules))), modules, strict=True))

    def pop(self, key: Any) -> Any:
        """Take a module out."""
        module = self[key]
        del self[key]
        return module

    def __repr__(self) -> str:
        """Runs of equal modules are written once: `(0-2): 3 x Linear(…)`."""
        if not len(self):
            return self._get_name() + "()"
        runs: list[tuple[int, int, str]] = []
        for i, text in enumerate(repr(m) for m in self):
            if runs and runs[-1][2] == text:
                runs[-1] = (runs[-1][0], i, text)
            else:
                runs.append((i, i, text))
        lines = []
        for first, last, text in runs:
            head = f"({first})" if first == last else f"({first}-{last})"
            count = "" if first == last else f"{last - first + 1} x "
            lines.append(indented(f"{head}: {count}{text}"))
        return self._get_name() + "(\n  " + "\n  ".join(lines) + "\n)"


class ModuleDict(Module):
    """A dict of modules, all of them registered.

    >>> list(nn.ModuleDict({"a": nn.ReLU()}))
    ['a']
    """

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Remove all modules."""
        self._modules.clear()

    def pop(self, key: str) -> Any:
        """Take a module out."""
        module = self[key]
        del self[key]
        return module

    def keys(self) -> container_abcs.KeysView[str]:
        """The names."""
        return self._modules.keys()

    def items(self) -> container_abcs.ItemsView[str, Any]:
        """Names and modules."""
        return self._modules.items()

    def values(self) -> container_abcs.ValuesView[Any]:
        """The modules."""
        return self._modules.values()

    def update(self, modules: Any) -> None:
        """Add or replace from a mapping or from pairs."""
        for key, module in pairs_of(modules, "ModuleDict", "ModuleDict"):
            self[key] = module


def pairs_of(source: Any, updated: str, element: str) -> list[tuple[Any, Any]]:
    """(key, value) pairs of a mapping or of an iterable of pairs."""
    if not isinstance(source, container_abcs.Iterable):
        raise TypeError(
            f"{updated}.update should be called with an iterable of key/value pairs, but got "
            + type(source).__name__
        )
    if isinstance(source, (OrderedDict, ModuleDict, ParameterDict, container_abcs.Mapping)):
        return list(source.items())
    pairs = []
    for i, pair in enumerate(source):
        if not isinstance(pair, container_abcs.Iterable):
            raise TypeError(
                f"{element} update sequence element #{i} should be Iterable; is"
                + type(pair).__name__
            )
        values = list(pair)
        if len(values) != 2:
            raise ValueError(
                f"{element} update sequence element #{i} has length {len(values)}; 2 is required"
            )
        pairs.append((values[0], values[1]))
    return pairs


def as_parameter(value: Any) -> Any:
    """Plain tensors become parameters; everything else is kept as it is."""
    if isinstance(value, tg.Tensor) and not isinstance(value, Parameter):
        return Parameter(value)
    return value


def describe(value: Any, kind: str) -> str:
    """One line about a member of a ParameterList or ParameterDict."""
    if not isinstance(value, tg.Tensor):
        return f"Object of type: {type(value).__name__}"
    size = "x".join(str(n) for n in value.size())
    what = "Parameter" if isinstance(value, Parameter) else "Tensor"
    return f"{what} containing: [{kind} of size {size}]"


class ParameterList(Module):
    """A list of parameters, all of them registered; other objects may stand among them.

    >>> len(list(nn.ParameterList([tensor([1.0]), tensor([2.0])]).parameters()))
    2
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self += values

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            made = type(self)()
            for i in range(*index.indices(len(self))):
                made.append(self[i])
            return made
        return getattr(self, str(wrap_index(index, len(self))))

    def __setitem__(self, index: int, value: Any) -> None:
        setattr(self, str(wrap_index(index, len(self))), as_parameter(value))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter(self[i] for i in range(len(self)))

    def __iadd__(self, values: Iterable[Any]) -> Any:
        return self.extend(values)

    def __dir__(self) -> list[str]:
        return [n for n in super().__dir__() if not n.isdigit()]

    def append(self, value: Any) -> Any:
        """Add a value at the end."""
        self._size += 1
        self[len(self) - 1] = value
        return self

    def extend(self, values: Iterable[Any]) -> Any:
        """Add values at the end."""
        if not isinstance(values, container_abcs.Iterable) or isinstance(values, tg.Tensor):
            raise TypeError(
                "ParameterList.extend should be called with an iterable, but got "
                + type(values).__name__
            )
        for value in values:
            self.append(value)
        return self

    def extra_repr(self) -> str:
        lines = []
        for i, value in enumerate(self):
            kind = str(value.dtype) if isinstance(value, tg.Tensor) else ""
            lines.append(f"  ({i}): {describe(value, kind)}")
        return "\n".join(lines)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(Module):
    """A dict of parameters, all of them registered; other objects may stand among them.

    >>> list(nn.ParameterDict({"a": tensor([1.0])}).keys())
    ['a']
    """

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def _attribute(self, key: Any) -> str:
        if not isinstance(key, str):
            raise TypeError(
                "Index given to ParameterDict cannot be used as a key as it is not a string "
                f"(type is '{type(key).__name__}'). Open an issue on github if you need non-string "
                "keys."
            )
        return key

    def __getitem__(self, key: str) -> Any:
        return getattr(self, self._attribute(key))

    def __setitem__(self, key: str, value: Any) -> None:
        attribute = self._attribute(key)
        self._keys[key] = None
        setattr(self, attribute, as_parameter(value))

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, self._attribute(key))

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(list(self._keys))

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def __or__(self, other: ParameterDict) -> ParameterDict:
        made = self.copy()
        made.update(other)
        return made

    def __ror__(self, other: ParameterDict) -> ParameterDict:
        made = other.copy()
        made.update(self)
        return made

    def __ior__(self, other: ParameterDict) -> Any:
        self.update(other)
        return self

    def copy(self) -> ParameterDict:
        """A new dict with the same parameters."""
        return ParameterDict(OrderedDict((k, self[k]) for k in self._keys))

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value of a key, which is set first if it is not there."""
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        """Remove all."""
        for key in list(self._keys):
            del self[key]

    def pop(self, key: str) -> Any:
        """Take one out."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Take the last one out."""
        key, _ = self._keys.popitem()
        self._keys[key] = None
        return key, self.pop(key)

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key, or `default`."""
        return getattr(self, key) if key in self._keys else default

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """A new dict with one value for all keys."""
        return ParameterDict((k, default) for k in keys)

    def keys(self) -> Any:
        """The names."""
        return self._keys.keys()

    def items(self) -> Iterator[tuple[str, Any]]:
        """Names and values."""
        return ((k, self[k]) for k in self._keys)

    def values(self) -> Iterator[Any]:
        """The values."""
        return (self[k] for k in self._keys)

    def update(self, parameters: Any) -> None:
        """Add or replace from a mapping or from pairs."""
        # The two spellings of the class name are PyTorch's.
        pairs = pairs_of(parameters, "ParametersDict", "ParameterDict")
        if isinstance(parameters, Mapping) and not isinstance(parameters, OrderedDict):
            pairs.sort(key=lambda pair: pair[0])
        for key, value in pairs:
            self[key] = value

    def extra_repr(self) -> str:
        lines = []
        for key, value in self.items():
            kind = typename(value) if isinstance(value, tg.Tensor) else ""
            lines.append(f"  ({key}): {describe(value, kind)}")
        return "\n".join(lines)

    def __call__(self, input: Any) -> Any:
        raise RuntimeError("ParameterDict should not be called.")


class Container(Module):
    """Old: modules by name. PyTorch keeps it with a warning; any Module does the same.

    >>> holder = nn.Container(first=nn.Linear(2, 3))
    >>> holder.first
    Linear(in_features=2, out_features=3, bias=True)
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        warn(
            "nn.Container is deprecated. All of it's functionality is now implemented in "
            "nn.Module. Subclass that instead.",
            FutureWarning,
        )
        for name, module in kwargs.items():
            self.add_module(name, module)
