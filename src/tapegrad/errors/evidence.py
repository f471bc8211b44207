"""Reading what was recorded: lines of the user's code, names of tensors, ways through the graph.

Nodes, writes and cuts keep a code object and an instruction offset. Here they become file, line and
text, and a tensor gets the name under which the user's running functions know it. All of it happens
when an error or a warning is put into words, never while something is recorded. What is noted, and
when, is in docs/notes/evidence.md.
"""

from __future__ import annotations

import linecache
import os
import re
import sys
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any

from .. import dtypes
from ..core import strides
from ..core.base import PACKAGE, Cut, Node, TensorBase, node_of, user_frame
from ..core.is_array import is_array
from ..core.late_bound import TENSOR
from ..core.modes import MODES

Place = dict[str, Any]

MAX_NODES = 200_000  # a search for a name or a way gives up here
MAX_ITEMS = 1_000
OURS = str(__package__).partition(".")[0]
STDLIB = os.path.dirname(os.__file__) + os.sep

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
    return None if node is None else place(node._code, node._lasti)


def of_cut(cut: Cut | None) -> Place | None:
    return None if cut is None else place(cut._code, cut._lasti)


def spell(where: Place) -> str:
    text = f":  {where['text']}" if where["text"] else ""
    return f"{spot(where['file'], where['line'])}{text}"


def spot(file: str, line: int) -> str:
    """`train.py:12`; in a notebook `In [4], line 2`, since the files of its cells mean nothing."""
    shown = cell_or_file(file)
    return f"{shown}:{line}" if shown == file else f"{shown}, line {line}"


def cell_or_file(file: str) -> str:
    """`In [4]` for the file of a notebook's cell; any other file as it is."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    cells = getattr(getattr(shell, "compile", None), "_filename_map", {})
    return f"In [{cells[file]}]" if file in cells else file


def short_spot(file: str, line: int) -> str:
    """A place as `file.py:line`, without the folders."""
    return os.path.basename(spot(file, line))


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


def only_line(pattern: str) -> Place | None:
    """The line of the user's running functions that matches.

    Of several the last above the line that is running now; None if there is no such line.
    """
    import inspect  # takes a moment, and only errors need it

    matches = re.compile(pattern).search
    for frame in user_frames():
        code = frame.f_code
        try:
            lines, start = inspect.getsourcelines(frame)  # of a module all, not a block
        except (OSError, TypeError):
            continue
        found: list[Place] = []
        for number, text in enumerate(lines, max(start, 1)):
            if matches(text.partition("#")[0]):
                where = {"file": code.co_filename, "line": number, "text": text.strip()}
                found.append({**where, "function": code.co_name})
        if len(found) == 1:
            return found[0]
        above_now = [where for where in found if where["line"] <= (frame.f_lineno or 0)]
        if above_now:
            return above_now[-1]
    return None


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


FAILED: list[Any] = []  # the frames of an exception that nobody caught, while it is explained


def user_frames() -> Iterator[Any]:
    """The running frames outside this package, innermost first."""
    yield from FAILED
    frame = user_frame(1)
    while frame is not None:
        if not frame.f_code.co_filename.startswith(PACKAGE):
            yield frame
        frame = frame.f_back


def is_installed(frame: Any) -> bool:
    """Whether a frame belongs to an installed package or to Python itself, not to the user."""
    file = frame.f_code.co_filename
    return "-packages" in file or file.startswith((STDLIB, "<frozen"))


NO_NAME = re.compile(r"__.*|_\d*")  # Python's own, and IPython's for what a cell showed


def held(frames: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """(name, value) of what functions hold: variables, then attributes, items and parameters."""
    inner: list[tuple[str, Any]] = []
    for frame in frames:
        for name, value in list(frame.f_locals.items()):
            if not NO_NAME.fullmatch(name):
                yield name, value
                inner.append((name, value))
    for name, value in inner:
        try:
            found = list(parts(name, value))
        except Exception:  # a half-made module, an object with ideas of its own: it stays unnamed
            continue
        yield from found


def parts(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The values that a variable holds, one level down; all parameters of a module."""
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
    nn = sys.modules.get(f"{OURS}.nn.modules.module")
    return nn is not None and isinstance(value, nn.Module)


def tensors_held(frames: Iterable[Any] | None = None) -> Iterator[tuple[str, Any]]:
    """(name, tensor) of what the user's running functions hold, or of what `frames` hold."""
    seen: set[int] = set()
    for name, value in held(sorted(user_frames(), key=is_installed) if frames is None else frames):
        if isinstance(value, TensorBase) and hasattr(value, "_array") and id(value) not in seen:
            seen.add(id(value))
            yield name, value


def name_of(array: Any) -> str | None:
    """The name under which the user's running functions know the tensor that holds `array`.

    For a view that nobody holds any more: "a view of" whoever looks at the same memory.
    """
    around = None
    owner = memory(array)
    for name, t in tensors_held():
        if t._array is array:
            return name
        if around is None and memory(t._array) is owner:
            around = f"a view of `{name}`"
    return around


def name_of_node(node: Node) -> tuple[str | None, Any]:
    """Name and tensor of what a node made: by who holds it, or by the line that assigned it."""
    for name, t in tensors_held():
        if t._node is node:
            return name, t
    return assigned_name(of_node(node)), None


def memory(array: Any) -> Any:
    """The object that owns the memory of an array, one for all its views; the array itself if it
    has no values.
    """
    return strides.memory(array) if is_array(array) else array


# ---------------------------------------------------------------------- modules


def frozen_modules() -> list[str]:
    """Names of the user's modules that have parameters, none of which requires grad."""
    names: dict[str, None] = {}
    for name, value in held(user_frames()):
        if is_module(value) and "_parameters" in vars(value):
            flags = [p.requires_grad for p in value.parameters()]
            if flags and not any(flags):
                names[name] = None
    return list(names)


def module_of(what: Any) -> Any:
    """The module that was running when a node or a view was made; None if it is gone."""
    return None if what is None or what._module is None else what._module()


def module_names(frames: Iterable[Any] | None = None) -> dict[int, str]:
    """The paths of all modules that the user's functions hold, by id: "model.blocks.2.fc1"."""
    names: dict[int, str] = {}
    # The outermost knows the whole model; `self` last: another name says more.
    around = list(user_frames() if frames is None else frames)[::-1]
    known = list(modules_held(around))
    for name, value in sorted(known, key=lambda pair: pair[0].split(".")[0] == "self"):
        if "_modules" in vars(value):
            for path, module in value.named_modules():
                names.setdefault(id(module), f"{name}.{path}" if path else name)
    return names


def modules_held(frames: list[Any]) -> Iterator[tuple[str, Any]]:
    """(name, module) of variables, of items, then of attributes (`self.model` of a trainer)."""
    for name, value in held(frames):
        if is_module(value):
            yield name, value
    for frame in frames:
        for name, value in list(frame.f_locals.items()):
            if name.startswith("__") or isinstance(value, (type, ModuleType)) or is_module(value):
                continue
            try:
                own = value.__dict__
            except Exception:  # none, or an object with ideas of its own
                continue
            if not isinstance(own, dict):
                continue
            for key, item in list(own.items())[:MAX_ITEMS]:
                if is_module(item):
                    yield f"{name}.{key}", item


# What says most about a layer, by attribute: "Linear 768 -> 320".
LAYER_SIZES = (
    ("in_features", "out_features"),
    ("in_channels", "out_channels"),
    ("num_embeddings", "embedding_dim"),
    ("input_size", "hidden_size"),
)


def spell_module(module: Any) -> str:
    """Path and kind of a module: "model.blocks.2.fc1 (Linear 768 -> 320)"."""
    kind = type(module).__name__
    for first, second in LAYER_SIZES:
        sizes = getattr(module, first, None), getattr(module, second, None)
        if None not in sizes:
            kind += f" {sizes[0]} -> {sizes[1]}"
            break
    else:
        size = getattr(module, "num_features", getattr(module, "normalized_shape", None))
        if size is not None:
            kind += f" {size}"
    path = module_names().get(id(module))
    return kind if path is None else f"{path} ({kind})"


def unreduced_loss(node: Node | None) -> tuple[Place | None, str]:
    """The line that called a loss with reduction='none', and what to call it."""
    losses = [
        name
        for name, value in held(user_frames())
        if is_module(value) and getattr(value, "reduction", "") == "none"
    ]
    for i, user in enumerate(reached_from([node])):
        where = of_node(user)
        if i > 50:
            break
        if where is None:
            continue
        if re.search(r"reduction\s*=\s*['\"]none['\"]", where["text"]):
            return where, "reduction='none'"
        for name in losses:
            if f"{name}(" in where["text"]:
                return where, f"`{name}` has reduction='none', which"
    return None, ""


# ---------------------------------------------------------------------- writes


class Write:
    """One entry of a version cell's writers, made readable."""

    def __init__(self, entry: tuple[Any, ...]) -> None:
        self.version, name, code, lasti, how = entry
        self.name: str = public_name(name)
        self.where = place(code, lasti)
        self.recorded, self.shape, view_code, view_lasti, cut = how or (False, None, None, -1, None)
        self.view = place(view_code, view_lasti)
        self.through = None if cut is None or cut.what not in ("detach", "data") else cut.what

    def spell(self) -> str:
        way = f" through {self.through}()" if self.through else ""
        if self.shape is not None:
            way += f" on a view of shape {tuple(self.shape)}"
        return f"by {self.name}{way} (version {self.version - 1} -> {self.version})"

    def facts(self) -> dict[str, Any]:
        return {
            "op": self.name,
            "version": self.version,
            "at": self.where,
            "through": self.through,
            "view": None if self.shape is None else {"shape": list(self.shape), "made": self.view},
        }


# ---------------------------------------------------------------------- the graph


def reached_from(nodes: Iterable[Node | None]) -> dict[Node, None]:
    """Every node that can be reached, in the order in which it was found."""
    stack = [n for n in nodes if n is not None]
    seen: dict[Node, None] = dict.fromkeys(stack)
    while stack and len(seen) < MAX_NODES:
        for edge in stack.pop()._edges:
            if edge is not None and edge not in seen:
                seen[edge] = None
                stack.append(edge)
    return seen


def node_name(node: Any) -> str:
    return node.name()  # type: ignore[no-any-return]


def public_name(op: str) -> str:
    """The public name of an op: some functions are several ops inside (`add_alpha_` is `add_`)."""
    end = "_" if op.endswith("_") else ""
    words = op.rstrip("_").split("_")
    functions = vars(sys.modules[OURS])
    for size in range(len(words), 0, -1):
        name = "_".join(words[:size]) + end
        if name in functions or hasattr(TENSOR.cls, name):
            return name
    return op


def shorten(name: str) -> str:
    """A node's name as PyTorch's sentences have it: Exp for ExpBackward0, Pow1 for PowBackward1."""
    return re.sub(r"Backward0?(\d*)$", r"\1", name)


def short_name(node: Any) -> str:
    return shorten(node_name(node))


def way_in(freed: Any, root: int) -> tuple[Any, Any]:
    """Where the running pass came into the freed part: the last node of it, and who used that.

    `root` numbers the node from which the first pass started; (None, None) if this one does too.
    """
    users: dict[Any, list[Any]] = {}
    for node in MODES.run.pending:
        for edge in node._edges:
            if edge is not None:
                users.setdefault(edge, []).append(node)
        if type(node).__name__ == "CopySlices" and node.inner is freed:
            freed = node
    if any(n._seq == root and n not in users for n in MODES.run.pending):
        return None, None
    stack, seen = [freed], {freed}
    while stack:
        node = stack.pop()
        for user in users.get(node, ()):
            # Recorded after what the first pass started from, or never visited by it.
            if user._seq > root or user._frees and user._freed_by is None:
                return node, user
            if user not in seen:
                seen.add(user)
                stack.append(user)
    return None, None


def cut_towards(node: Node | None, graph: Any, roots: tuple[Any, ...]) -> tuple[Cut | None, bool]:
    """A cut among what the outputs were computed from, with the input on its other side; certain?

    Where what was cut off is gone, whether the input was part of it cannot be told.
    """
    cuts = [n._cut for n in graph] + [r._cut for r in roots if isinstance(r, TensorBase)]
    dead: set[Node] = set()
    unknown: Cut | None = None
    for cut in dict.fromkeys(cuts):
        if cut is None:
            continue
        source = None if cut.source is None else cut.source()
        if source is None:
            unknown = unknown or cut
        elif leads_to(source._node, node, dead):
            return cut, True
    return unknown, False


def other_output(node: Node | None, roots: tuple[Any, ...]) -> str | None:
    """The name of a tensor of the user's that was computed from the input, but is no output."""
    skipped = {node, *[node_of(r) for r in roots]}
    dead: set[Node] = set()
    for name, t in tensors_held():
        if t._node not in skipped and leads_to(t._node, node, dead):
            return name
    return None


def leads_to(start: Node | None, goal: Node | None, dead: set[Node]) -> bool:
    """Whether there is a way from `start` to `goal`; `dead` collects nodes that lead elsewhere."""
    if start is None or goal is None or start in dead:
        return False
    stack = [start]
    seen = {start}
    while stack and len(seen) < MAX_NODES:
        node = stack.pop()
        if node is goal:
            return True
        for edge in node._edges:
            if edge is not None and edge not in seen and edge not in dead:
                seen.add(edge)
                stack.append(edge)
    dead |= seen
    return False


def shared_leaf(node: Node | None, graph: Any) -> str | None:
    """The name of a leaf from which both the input and the outputs were computed."""
    for leaf in reached_from([] if node is None or node._is_leaf else [node]):
        if leaf._is_leaf and leaf in graph:
            return name_of(leaf.variable._array)  # type: ignore[attr-defined]
    return None


# ---------------------------------------------------------------------- who asks

# Those who look at every attribute do not ask for a gradient.
PROBES = ("IPython", "debugpy", "ipykernel", "jedi", "pydevd", "_pydevd_bundle", "_pytest")


def is_probe(frame: Any) -> bool:
    """Whether a frame reads an attribute without meaning it: copy, a debugger, hasattr() …"""
    code = frame.f_code
    file = code.co_filename
    if file.startswith(PACKAGE):
        return True
    if file.startswith((STDLIB, "<frozen")) and "-packages" not in file:
        return True
    if str(frame.f_globals.get("__name__")).partition(".")[0] in PROBES:
        return True
    if "hasattr" not in code.co_names:
        return False
    import dis

    called = ""
    for step in dis.get_instructions(code):
        if step.offset > frame.f_lasti:
            break
        if step.offset == frame.f_lasti and step.opname.startswith("LOAD_"):
            return False  # a plain `.grad`
        if step.argval in ("hasattr", "getattr"):
            called = step.argval
    return called == "hasattr"
