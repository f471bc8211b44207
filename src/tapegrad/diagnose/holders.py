"""Finds who holds a tensor: the way to it from the user's variables, and the line that stored it.

>>> import tapegrad as torch
>>> class Trainer:
...     def __init__(self):
...         self.history = {"loss": []}
>>> trainer = Trainer()
>>> trainer.history["loss"].append(torch.tensor(1.0))
>>> [way.path for way in ways_to([trainer.history["loss"][0]], [{"trainer": trainer}])]
["trainer.history['loss'][0]"]
"""

from __future__ import annotations

import dataclasses
import gc
import linecache
import os
import re
import sys
import sysconfig
import types
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from ..core.base import PACKAGE, Node, Stamped, TensorBase
from ..core.is_array import is_array
from ..errors import evidence

MAX_DEPTH = 6
MAX_VALUES = 100_000
PLAIN = (
    str, bytes, int, float, complex, type(None), np.generic, type, types.ModuleType,
    types.BuiltinFunctionType, types.CodeType, Node, Stamped,
)  # fmt: skip
LISTS = (list, tuple, deque, set, frozenset)


@dataclasses.dataclass
class Way:
    """How a tensor is reached: `path` in the user's spelling, `holder` without the last item."""

    path: str
    holder: str
    kind: str  # the type that holds it; "variable" for a plain name


def ways_to(
    wanted: Iterable[Any], spaces: Iterable[dict[str, Any]] | None = None
) -> list[Way | None]:
    """A way to each tensor; None where the search did not come by it.

    What is in a container goes before what has a name of its own, then the shortest way wins.
    The search starts from `spaces` (names and values): by default the variables of the user's
    running functions, and then those of their modules and of the other modules of the user's,
    which may hold very much.
    """
    tensors = list(wanted)
    found: dict[int, Way] = {}
    missing = {id(t) for t in tensors}
    seen: set[int] = set()
    for group in user_spaces() if spaces is None else [spaces]:
        search(group, missing, found, seen)
    return [found.get(id(t)) for t in tensors]


def search(
    spaces: Iterable[dict[str, Any]], missing: set[int], found: dict[int, Way], seen: set[int]
) -> None:
    """Look for the tensors with the ids `missing`, breadth first, and note the ways to them."""
    queue: deque[tuple[Way, Any, int]] = deque()
    for space in spaces:
        for name, value in list(space.items()):
            if not name.startswith("__"):
                queue.append((Way(name, name, "variable"), value, 0))
    limit = len(seen) + MAX_VALUES
    while queue and missing and len(seen) < limit:
        way, value, depth = queue.popleft()
        if id(value) in missing:
            if way.kind != "variable":
                missing.discard(id(value))
                found[id(value)] = way
            else:
                found.setdefault(id(value), way)
        if id(value) in seen or holds_nothing(value):
            continue
        seen.add(id(value))
        if depth < MAX_DEPTH:
            try:
                queue += [
                    (inner, item, depth + 1)
                    for inner, item in inside(way.path, value)
                    if not holds_nothing(item)
                ]
            except Exception:  # an object with ideas of its own about attributes
                continue


def holds_nothing(value: Any) -> bool:
    """Whether nothing of the user's can be inside a value."""
    return isinstance(value, PLAIN) or is_array(value)


def inside(path: str, value: Any) -> Iterator[tuple[Way, Any]]:
    """The values that a container or object holds, one level down."""
    kind = type(value).__name__
    if isinstance(value, TensorBase):
        if value._gradient is not None:
            yield Way(f"{path}.grad", f"{path}.grad", "gradient"), value._gradient
    elif isinstance(value, LISTS):
        for i, item in enumerate(list(value)):
            yield Way(f"{path}[{i}]", path, kind), item
    elif isinstance(value, dict):
        for key, item in list(value.items()):
            spelled = repr(key) if isinstance(key, (str, int)) else f"<{type(key).__name__}>"
            yield Way(f"{path}[{spelled}]", path, kind), item
    elif isinstance(value, types.FunctionType):
        cells = zip(value.__code__.co_freevars, value.__closure__ or (), strict=False)
        for name, cell in cells:
            try:
                content = cell.cell_contents
            except ValueError:  # not bound yet
                continue
            yield Way(name, f"{name} (of {value.__name__})", "closure"), content
    elif isinstance(value, types.MethodType):
        yield Way(f"{path}.__self__", f"{path}.__self__", "variable"), value.__self__
    else:
        yield from attributes(path, value)


def attributes(path: str, value: Any) -> Iterator[tuple[Way, Any]]:
    own = getattr(value, "__dict__", None)
    if not isinstance(own, dict):
        return
    for name, item in list(own.items()):
        if name in ("_modules", "_parameters", "_buffers") and isinstance(item, dict):
            for inner, part in list(item.items()):  # a module's own: `model.0`, `model.weight`
                yield Way(f"{path}.{inner}", f"{path}.{inner}", "attribute"), part
        else:
            yield Way(f"{path}.{name}", f"{path}.{name}", "attribute"), item


def user_spaces() -> Iterator[list[dict[str, Any]]]:
    """The variables of running functions, innermost first, and those of modules.

    A test runner or a server may hold so much that a search gives up: each of the user's functions
    is searched on its own, and those of libraries come last, with the modules.
    """
    frames = list(evidence.user_frames())
    libraries = [frame for frame in frames if frame.f_code.co_filename.startswith(LIBRARIES)]
    running = [frame.f_locals for frame in frames if frame not in libraries]
    for space in running:
        yield [space]
    modules = [vars(m) for m in list(sys.modules.values()) if is_users(m)]
    others = [frame.f_locals for frame in libraries] + [frame.f_globals for frame in frames]
    spaces = {id(space): space for space in others + modules}
    for space in running:
        spaces.pop(id(space), None)  # those of a module's own frame
    yield list(spaces.values())


LIBRARIES = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "purelib", "platlib")})


def is_users(module: Any) -> bool:
    if not isinstance(module, types.ModuleType):
        return False
    file = getattr(module, "__file__", None)
    return isinstance(file, str) and not file.startswith((PACKAGE, *LIBRARIES))


def unnamed(t: Any, but: Iterable[Any] = ()) -> str:
    """Describes, from the garbage collector, who holds a tensor that no variable leads to.

    `but` are the lists of the search itself.
    """
    ours = {id(each) for each in but}
    for holder in gc.get_referrers(t):
        if id(holder) in ours:
            continue
        if isinstance(holder, LISTS) and not isinstance(holder, tuple) and len(holder) > 0:
            return f"a {type(holder).__name__} of {len(holder)}"
        if isinstance(holder, types.CellType):
            return "a closure"
        if isinstance(holder, types.GeneratorType):
            return f"the generator {holder.__name__}"
        if type(holder).__module__ not in ("builtins", "types") and not holds_nothing(holder):
            return f"a {type(holder).__name__}"
    return "something without a name"


# ---------------------------------------------------------------------- the line that stores


def storing_line(holder: str, files: Iterable[str], value: str | None) -> evidence.Place | None:
    """The line that puts something into `holder`: an append, an item, a sum; None if not found.

    Among several the one that mentions `value`, the name of what is stored, goes first.
    """
    bare = re.sub(r"\[.*$", "", holder.partition(" ")[0])
    name = re.escape(bare.rpartition(".")[2])
    patterns = (
        rf"\b{name}\b[^=#]*\.(append|extend|insert|add|appendleft|update|setdefault)\(",
        rf"\b{name}\b(\[[^=]*\])?\s*\+=",
        rf"\b{name}\s*\[[^=]*\]\s*=[^=]",
        rf"\b{name}\s*=\s*{name}\s*\+",
        rf"\b{name}\s*=\s*\[.+",
    )
    if not name:
        return None
    best: evidence.Place | None = None
    for file in dict.fromkeys(files):
        for pattern in patterns:
            for line, text in enumerate(linecache.getlines(file), 1):
                if not re.search(pattern, text.partition("#")[0]):
                    continue
                place = {"file": file, "line": line, "text": text.strip(), "function": ""}
                if value is None or re.search(rf"\b{re.escape(value)}\b", text):
                    return place
                best = best or place
    return best
