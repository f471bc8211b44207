"""Where a tensor lives and how it is laid out: `device`, `layout`, `memory_format`."""

from __future__ import annotations

import importlib
import re
from typing import Any, NoReturn

import numpy as np

from .core.per_thread import PerThread

TYPES = (
    *("cpu", "cuda", "ipu", "xpu", "mkldnn", "opengl", "opencl", "ideep", "hip", "ve", "fpga"),
    *("maia", "xla", "lazy", "vulkan", "mps", "meta", "hpu", "mtia", "privateuseone"),
)
_PATTERN = re.compile(r"([a-zA-Z_]+)(?::(0|[1-9][0-9]*))?")


class _Stack(PerThread):
    """The devices of the `with` blocks that this thread is in, innermost last."""

    def __init__(self) -> None:
        self.entered: list[device] = []


_stack = _Stack()


class device:
    """A kind of device and, maybe, which one of that kind.

    >>> device("cuda:1"), device("cuda", 1) == device("cuda:1"), str(device("cpu"))
    (device(type='cuda', index=1), True, 'cpu')
    """

    __slots__ = ("index", "type")
    type: str
    index: int | None

    def __new__(cls, *args: Any, **kwargs: Any) -> device:
        kind, index = _parse_arguments(args, kwargs)
        return _make(kind, index)

    def __init_subclass__(cls) -> NoReturn:
        raise TypeError("type 'torch.device' is not an acceptable base type")

    def __setattr__(self, name: str, value: object) -> NoReturn:
        if name in device.__slots__:
            raise AttributeError(f"attribute '{name}' of 'torch.device' objects is not writable")
        raise AttributeError(f"'torch.device' object has no attribute '{name}'")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, device):
            return NotImplemented
        return self.type == other.type and self.index == other.index

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __lt__(self, other: object) -> bool:
        raise TypeError("comparison not implemented")

    __le__ = __gt__ = __ge__ = __lt__

    def __repr__(self) -> str:
        if self.index is None:
            return f"device(type='{self.type}')"
        return f"device(type='{self.type}', index={self.index})"

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __reduce__(self) -> tuple[Any, ...]:
        return device, ((self.type,) if self.index is None else (self.type, self.index))

    def __enter__(self) -> device:
        if self.type == "cuda":
            importlib.import_module("tapegrad.cuda.runtime").start_if_any()
        if self.type == "meta":
            importlib.import_module("tapegrad.core.meta")
        _stack.entered.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        _stack.entered.pop()


def _make(kind: str, index: int | None) -> device:
    new = object.__new__(device)
    object.__setattr__(new, "type", kind)
    object.__setattr__(new, "index", index)
    return new


def entered() -> device | None:
    """The device of the innermost `with device(...)` block of this thread."""
    return _stack.entered[-1] if _stack.entered else None


def _parse_arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, int | None]:
    values = [*args, *kwargs.values()]
    names = [*("type", "index")[: len(args)], *kwargs]
    if len(values) == 1 and names[0] in ("type", "device"):
        return _parse_one(values[0], args, kwargs)
    if len(values) == 2 and len(args) < 3 and set(names) == {"type", "index"}:
        given = dict(zip(names, values, strict=True))
        if isinstance(given["type"], (str, bytes)):
            position = " (position 2)" if len(args) == 2 else ""
            return _parse_two(_text(given["type"]), given["index"], position)
    raise TypeError(_no_match(args, kwargs))


def _parse_one(value: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, int | None]:
    if isinstance(value, (str, bytes)):
        return parse(_text(value))
    if isinstance(value, device):
        return value.type, value.index
    if _is_index(value):
        index = _checked(value)
        return _accelerator(), index
    raise TypeError(_no_match(args, kwargs))


def _parse_two(text: str, index: Any, position: str) -> tuple[str, int | None]:
    if index is not None and not _is_index(index):
        raise TypeError(
            f"device(): argument 'index'{position} must be int, not {type(index).__name__}"
        )
    number = None if index is None else _checked(index)
    kind, inside = parse(text)
    if inside is not None:
        raise RuntimeError(
            "type (string) must not include an index because index was passed explicitly: " + text
        )
    return kind, number


def parse(text: str) -> tuple[str, int | None]:
    """The type and index of a device string.

    >>> parse("cuda:1")
    ('cuda', 1)
    """
    if not text:
        raise RuntimeError("Device string must not be empty")
    match = _PATTERN.fullmatch(text)
    if match is None:
        raise RuntimeError(f"Invalid device string: '{text}'")
    kind, digits = match.groups()
    if kind not in TYPES:
        raise RuntimeError(
            f"Expected one of {', '.join(TYPES)} device type at start of device string: {kind}"
        )
    if digits is None:
        return kind, None
    if int(digits) > 2**31 - 1:
        raise RuntimeError(f"Could not parse device index '{digits}' in device string '{text}'")
    return kind, int(digits)


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _is_index(value: object) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _checked(value: Any) -> int:
    index = int(value)
    if not -(2**63) <= index < 2**63:
        raise ValueError("Overflow when unpacking long long")
    if index < 0:
        raise RuntimeError("Device index must not be negative")
    return index


def _accelerator() -> str:
    """The device type that a bare index means."""
    # By name, when asked: the CUDA module is not part of a plain CPU run.
    if not importlib.import_module("tapegrad.cuda").is_available():
        raise RuntimeError("Cannot access accelerator device when none is available.")
    return "cuda"


def _no_match(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    got = [type(v).__name__ for v in args] + [f"{k}={type(v).__name__}" for k, v in kwargs.items()]
    end = ", " if kwargs and not args else ""
    return (
        f"device() received an invalid combination of arguments - got ({', '.join(got)}{end}), "
        "but expected one of:\n * (torch.device device)\n * (str type, int index = -1)\n"
    )


class _Named:
    """A singleton known by its public name; the base of `layout` and `memory_format`."""

    __slots__ = ("name",)
    name: str

    def __new__(cls, *args: object, **kwargs: object) -> _Named:
        raise TypeError(f"cannot create 'torch.{cls.__name__}' instances")

    def __repr__(self) -> str:
        return "torch." + self.name

    def __reduce__(self) -> str:
        # A bare name: pickle and copy look it up in the module that defines the class.
        return self.name


class layout(_Named):
    """How a tensor's memory is organised; every tensor here is `strided`.

    >>> zeros(2).layout, isinstance(torch.sparse_coo, torch.layout)
    (torch.strided, True)
    """

    __slots__ = ()


class memory_format(_Named):
    """The order of a tensor's dimensions in memory.

    >>> x = zeros(1, 2, 3, 3).to(memory_format=torch.channels_last)
    >>> x.stride(), isinstance(torch.channels_last, torch.memory_format)
    ((18, 1, 6, 2), True)
    """

    __slots__ = ()


def _layout(name: str) -> layout:
    new = object.__new__(layout)
    new.name = name
    return new


def _memory_format(name: str) -> memory_format:
    new = object.__new__(memory_format)
    new.name = name
    return new


strided = _layout("strided")
sparse_coo = _layout("sparse_coo")
sparse_csr = _layout("sparse_csr")
sparse_csc = _layout("sparse_csc")
sparse_bsr = _layout("sparse_bsr")
sparse_bsc = _layout("sparse_bsc")
jagged = _layout("jagged")
_mkldnn = _layout("_mkldnn")

contiguous_format = _memory_format("contiguous_format")
preserve_format = _memory_format("preserve_format")
channels_last = _memory_format("channels_last")
channels_last_3d = _memory_format("channels_last_3d")

CPU = device("cpu")
META = device("meta")
