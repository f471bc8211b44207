"""Reading what was recorded: lines of the user's code, names of tensors, ways through the graph.

Nodes, writes and cuts keep a code object and an instruction offset. Here they become file, line and text,
and a tensor gets the name under which the user's running functions know it. All of it happens when an error
or a warning is put into words, never while something is recorded.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterable, Iterator
from typing import Any

from . import dtypes
from .core.base import PACKAGE, Cut, Node, TensorBase, user_frame

Place = dict[str, Any]

MAX_NODES = 200_000  # a search for a name or a way gives up here
MAX_ITEMS = 1_000

# ---------------------------------------------------------------------- lines


def place(code: Any, lasti: int) -> Place | None:
    """File, line and source text of an instruction; None if nothing was recorded."""
    if code is None:
        return None
    line = code.co_firstlineno
    if lasti >= 0:
        for i, (start, _, _, _) in enumerate(code.co_positions()):
            if i == lasti // 2:  # one entry per two-byte code unit
                line = start or line
                break
    text = linecache.getline(code.co_filename, line).strip()
    return {"file": code.co_filename, "line": line, "text": text, "function": code.co_name}


def here() -> Place | None:
    """The user's line that is running now."""
    frame = user_frame(1)
    return None if frame is None else place(frame.f_code, frame.f_lasti)


def of_node(node: Node | None) -> Place | None:
    return None if node is None else place(node.code, node.lasti)


def of_cut(cut: Cut | None) -> Place | None:
    return None if cut is None else place(cut.code, cut.lasti)


def spell(where: Place) -> str:
    text = f":  {where['text']}" if where["text"] else ""
    return f"{where['file']}:{where['line']}{text}"


def assigned_name(where: Place | None) -> str | None:
    """`h` for a line `h = ...`: what a value was called when it was made."""
    if where is None:
        return None
    found = re.match(r"([A-Za-z_][\w.]*)\s*[-+*/@]?=(?!=)", where["text"])
    return None if found is None else found.group(1)


def return_lines(code: Any) -> list[Place]:
    """The lines of a function that return something."""
    lines: dict[int, Place] = {}
    for i, (start, _, _, _) in enumerate(code.co_positions()):
        if start is not None and start not in lines:
            where = place(code, 2 * i)
            if where is not None and where["text"].startswith("return"):
                lines[start] = where
    return list(lines.values())


# ---------------------------------------------------------------------- tensors and their names


def describe(array: Any, name: str | None = None) -> dict[str, Any]:
    """Name, shape and dtype, as data."""
    return {"name": name, "shape": list(array.shape), "dtype": str(dtypes.of(array.dtype))}


def spell_tensor(facts: Any) -> str:
    if isinstance(facts, str):
        return facts
    name = facts.get("name")
    words = [facts["as"]] if "as" in facts else []
    if name:
        words.append(name if name.startswith("a view of") else f"`{name}`")
    if "shape" in facts:
        words += [f"shape {tuple(facts['shape'])}", facts["dtype"]]
    return ", ".join(words)


def user_frames() -> Iterator[Any]:
    """The running frames outside this package, innermost first."""
    frame = user_frame(1)
    while frame is not None:
        if not frame.f_code.co_filename.startswith(PACKAGE):
            yield frame
        frame = frame.f_back


def held(frames: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """(name, value) of what the functions hold: variables, then attributes, items and parameters."""
    inner: list[tuple[str, Any]] = []
    for frame in frames:
        for name, value in list(frame.f_locals.items()):
            if not name.startswith("__"):
                yield name, value
                inner.append((name, value))
    for name, value in inner:
        yield from parts(name, value)


def parts(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """What a variable holds, one level down; all parameters of a module."""
    if isinstance(value, TensorBase):
        return
    if isinstance(value, (list, tuple)):
        for i, item in enumerate(value[:MAX_ITEMS]):
            yield f"{name}[{i}]", item
    elif isinstance(value, dict):
        for key, item in list(value.items())[:MAX_ITEMS]:
            yield f"{name}[{key!r}]", item
    elif is_module(value):
        for path, p in value.named_parameters():
            yield f"{name}.{path}", p
        for path, p in value.named_buffers():
            yield f"{name}.{path}", p
        yield from attributes(name, value)
    elif not isinstance(value, type):
        yield from attributes(name, value)


def attributes(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    own = getattr(value, "__dict__", None)
    if isinstance(own, dict):
        for key, item in list(own.items())[:MAX_ITEMS]:
            if isinstance(item, TensorBase):
                yield f"{name}.{key}", item


def is_module(value: Any) -> bool:
    return not isinstance(value, type) and hasattr(type(value), "named_parameters")


def tensors_held() -> Iterator[tuple[str, Any]]:
    seen: set[int] = set()
    for name, value in held(user_frames()):
        if isinstance(value, TensorBase) and id(value) not in seen:
            seen.add(id(value))
            yield name, value


def name_of(array: Any) -> str | None:
    """The name under which the user's running functions know the tensor that holds `array`.

    For a view that nobody holds any more: "a view of" whoever looks at the same memory.
    """
    around = None
    owner = memory(array)
    for name, t in tensors_held():
        if t.array is array:
            return name
        if around is None and memory(t.array) is owner:
            around = f"a view of `{name}`"
    return around


def name_of_node(node: Node) -> tuple[str | None, Any]:
    """Name and tensor of what a node made: by who holds it, or by the line that assigned it."""
    for name, t in tensors_held():
        if t.node is node:
            return name, t
    return assigned_name(of_node(node)), None


def memory(array: Any) -> Any:
    """The array that owns the memory."""
    while hasattr(array.base, "dtype"):
        array = array.base
    return array


# ---------------------------------------------------------------------- the graph


def reached_from(nodes: Iterable[Node | None]) -> dict[Node, None]:
    """Every node that can be reached, in the order in which it was found."""
    stack = [n for n in nodes if n is not None]
    seen: dict[Node, None] = dict.fromkeys(stack)
    while stack and len(seen) < MAX_NODES:
        for edge in stack.pop().edges:
            if edge is not None and edge not in seen:
                seen[edge] = None
                stack.append(edge)
    return seen


def node_name(node: Any) -> str:
    return node.name()  # type: ignore[no-any-return]


def shorten(name: str) -> str:
    """A node's name as PyTorch's sentences have it: Exp for ExpBackward0."""
    return re.sub(r"Backward\d*$", "", name)


def short_name(node: Any) -> str:
    return shorten(node_name(node))
