"""Small questions about tensors and the user's frames that several checks ask."""

from __future__ import annotations

import functools
import inspect
import linecache
import re
import sys
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...core.array_kind import host
from ...core.base import TensorBase
from ...core.is_array import is_array
from ...errors import evidence
from ...errors.calls import is_ours
from ...errors.evidence import Place

MOST = 100_000  # objects that a search for a name looks into
SAMPLE = 1 << 16  # values that a fingerprint looks at, at most


def array_of(t: Any) -> Any:
    """The array behind a tensor, wherever it is; None for what is not dense."""
    array = getattr(t, "_array", None)
    return array if is_array(array) else None


def wide(array: Any) -> Any:
    """An array in a dtype that all of NumPy and CuPy compute with: bfloat16 is not one."""
    return array.astype(np.float32) if array.dtype.kind == "V" else array


def copied(array: Any) -> Any:
    """The numbers as they are now, in memory of the host: a GPU may have none to spare."""
    return wide(host(array)).copy()


def grad_of(p: Any) -> Any:
    """The gradient's array, without asking through the public attribute, which may warn."""
    return None if p._gradient is None else array_of(p._gradient)


def fingerprint(t: Any) -> tuple[int, int]:
    """Tells whether a tensor was replaced or written; the values of large ones are sampled."""
    flat = t._array.reshape(-1)
    return id(t), zlib.crc32(host(flat[:: max(1, flat.size // SAMPLE)]).tobytes())


def is_zero(array: Any) -> bool:
    return not bool(wide(array).any())


def finite(array: Any) -> bool:
    return array.dtype.kind not in "fcV" or bool(np.isfinite(wide(array)).all())


def double_norm(array: Any) -> float:
    """The Euclidean norm in double precision."""
    flat = wide(array).reshape(-1)
    if flat.dtype.kind == "c":
        flat = np.abs(flat)
    flat = flat.astype(np.float64)
    return float(np.sqrt(np.dot(flat, flat)))


def scalar(t: Any) -> float | None:
    """The value of a loss as a float; None if it is no single real number."""
    array = array_of(t)
    if array is None or array.size != 1 or array.dtype.kind not in "fiuV":
        return None
    return float(host(array).reshape(-1)[0])


def tensors_in(value: Any) -> list[Any]:
    """The tensors of an argument or a result: one, or those of a flat container."""
    if isinstance(value, TensorBase):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [t for t in value if isinstance(t, TensorBase)]
    return []


def named(names: list[str], most: int = 4) -> str:
    """`a`, `b` and 3 more."""
    shown = ", ".join(f"`{n}`" for n in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


# ---------------------------------------------------------------------- what the user's code holds


def scopes() -> Iterator[dict[str, Any]]:
    """The variables of the user's running functions, outermost first; the main module's too."""
    frames = list(evidence.user_frames())[::-1]
    main = vars(sys.modules["__main__"])
    if all(frame.f_locals is not main for frame in frames):
        yield main
    for frame in frames:
        yield frame.f_locals
        if frame.f_globals is not frame.f_locals and frame.f_globals is not main:
            yield frame.f_globals


def reachable() -> Iterator[tuple[str, Any]]:
    """(name, object) of variables, and of what they hold: attributes, items; two levels down."""
    seen: set[int] = set()
    level: list[tuple[str, Any]] = []
    for variables in scopes():
        for name, value in list(variables.items()):
            if not name.startswith("__") and id(value) not in seen:
                seen.add(id(value))
                level.append((name, value))
    yield from level
    for _ in range(2):
        below: list[tuple[str, Any]] = []
        for name, value in level if len(seen) < MOST else ():
            for path, item in inside(name, value):
                if id(item) not in seen:
                    seen.add(id(item))
                    below.append((path, item))
        yield from below
        level = below


def inside(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The values that a variable holds, one level down; not those of a module."""
    if isinstance(value, (TensorBase, type, str, bytes)) or inspect.ismodule(value):
        return
    if is_array(value):
        return
    if isinstance(value, dict):
        for key, item in list(value.items())[: evidence.MAX_ITEMS]:
            yield f"{name}[{key!r}]", item
    elif isinstance(value, (list, tuple)):
        for i, item in enumerate(value[: evidence.MAX_ITEMS]):
            yield f"{name}[{i}]", item
    elif not callable(value) or evidence.is_module(value):
        own = getattr(value, "__dict__", None)
        for key, item in list(own.items()) if type(own) is dict else ():
            if not key.startswith("_"):
                yield f"{name}.{key}", item


def modules_held() -> dict[int, tuple[str, Any]]:
    """The modules that the user's code holds, by id, with the name it uses."""
    found: dict[int, tuple[str, Any]] = {}
    for name, value in reachable():
        if evidence.is_module(value) and "_modules" in vars(value):
            # `self` last: another name says more.
            if id(value) not in found or found[id(value)][0].split(".")[0] == "self":
                found[id(value)] = (name, value)
    return found


def name_of_array(array: Any) -> str | None:
    """The user's name for the tensor with these values; functions are searched before globals."""
    found = evidence.name_of(array)
    if found is None:
        held = (n for n, t in reachable() if isinstance(t, TensorBase) and t._array is array)
        found = next(held, None)
    return found


# ---------------------------------------------------------------------- lines by reading


def line_in(lines: list[str], first: int, file: str, pattern: str) -> Place | None:
    """The first of some source lines that matches."""
    for i, text in enumerate(lines):
        if re.search(pattern, text):
            return {"file": file, "line": first + i, "text": text.strip(), "function": ""}
    return None


@functools.lru_cache(maxsize=256)
def source_of(thing: Any) -> tuple[list[str], int, str] | None:
    """The source lines of a class or a code object, the first one's number, and the file."""
    if getattr(thing, "co_name", "") == "<module>":
        return linecache.getlines(thing.co_filename), 1, thing.co_filename
    try:
        lines, first = inspect.getsourcelines(thing)
        return lines, max(first, 1), inspect.getsourcefile(thing) or "?"
    except (OSError, TypeError, IndexError):
        return None


def line_of_attribute(owner: Any, attribute: str) -> Place | None:
    """Where the class of `owner` assigns `self.attribute`; None for classes of the package."""
    for cls in type(owner).__mro__:
        if is_ours(cls.__module__):
            return None
        source = source_of(cls)
        if source is not None:
            found = line_in(*source, rf"\b\w+\.{re.escape(attribute)}\b[^=]*=(?!=)")
            if found is not None:
                return found
    return None
