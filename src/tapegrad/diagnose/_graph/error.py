"""The graph as it was when something was raised, with the place where it happened marked.

A backward pass that failed leaves its tensors and the state of the engine in the frames of the
traceback; a forward that failed leaves the tensors that it had made so far in the variables of the
user's functions. Nothing has to be recorded for that.
"""

from __future__ import annotations

import ast
import linecache
import os
from types import FrameType, TracebackType
from typing import Any

from ...autograd.starts import edge_of
from ...core.base import PACKAGE, Node, TensorBase
from ...errors import evidence
from .data import Collector, Root
from .names import Names
from .values import inner_of

COMPILED = (os.path.join("tapegrad", "core"), os.path.join("tapegrad", "autograd"))
ENDS = 8  # how many unfinished results are drawn beside what failed
WORDS = 60  # letters of the expression that failed


def graph_of_error(
    error: BaseException, title: str | None, model: Any, options: dict[str, Any]
) -> dict[str, Any]:
    """The data of the partial graph behind an exception; `options` are the Collector's."""
    trace = traceback_of(error)
    theirs = [tb.tb_frame for tb in trace if not is_ours(tb.tb_frame)]
    around = [*theirs[::-1], *[f for f in evidence.user_frames() if f not in theirs]]
    names = Names(model, around)
    pass_frame = next((tb.tb_frame for tb in trace if is_pass(tb.tb_frame)), None)
    roots = [] if pass_frame is None else roots_of_pass(pass_frame, trace)
    if roots:
        collector = Collector(roots, names, **options)
        data = collector.data(title or f"backward of {title_of(roots, names)}")
        failed = failed_node(trace, roots)
        data["failed"] = collector.ids.get(failed) if failed is not None else data["root"][0]
        if data["failed"] is None:
            data["failed"] = around_inner(collector, failed)
    else:
        data = forward_data(trace, names, title or "forward, unfinished", options)
    message = str(error).partition("\n")[0]
    data["error"] = f"{type(error).__name__}: {message}" if message else type(error).__name__
    return data


def traceback_of(error: BaseException) -> list[TracebackType]:
    found: list[TracebackType] = []
    trace = error.__traceback__
    while trace is not None:
        found.append(trace)
        trace = trace.tb_next
    return found


def is_ours(frame: FrameType) -> bool:
    """Whether a frame is the library's; compiled ones name their file as it was when built."""
    file = frame.f_code.co_filename
    return file.startswith(PACKAGE) or not frame.f_locals and any(part in file for part in COMPILED)


def title_of(roots: list[Root], names: Names) -> str:
    found = [names.of_tensor(t) for _, _, t in roots if t is not None]
    return ", ".join([name for name in found if name]) or "a tensor"


# ---------------------------------------------------------------------- backward


def is_pass(frame: FrameType) -> bool:
    """Whether a frame is the outermost of a backward pass."""
    code = frame.f_code
    homes = ("autograd", "api.py"), ("api", "tensor", "tensor.py")
    is_home = code.co_filename in [os.path.join(PACKAGE, *parts) for parts in homes]
    return is_home and code.co_name in ("backward", "grad")


def roots_of_pass(frame: FrameType, trace: list[TracebackType]) -> list[Root]:
    held = frame.f_locals
    tensors: Any = held.get("roots", held.get("self", ()))
    given = tensors if isinstance(tensors, tuple) else (tensors,)
    roots: list[Root] = []
    for value in given:
        if isinstance(value, TensorBase):
            edge = edge_of(value)
            roots.append((None, 0, value) if edge is None else (edge[0], edge[1], value))
    if roots:
        return roots
    for tb in trace:
        if tb.tb_frame.f_code.co_name == "launch":
            return [(node, slot, None) for node, slot, _, _ in tb.tb_frame.f_locals["starts"]]
    return []


def failed_node(trace: list[TracebackType], roots: list[Root]) -> Node | None:
    """The node that was running when a backward pass stopped."""
    run = None
    found = None
    for tb in trace:
        held = tb.tb_frame.f_locals
        if not is_ours(tb.tb_frame):
            continue
        if tb.tb_frame.f_code.co_name in ("launch", "backward"):
            run = held.get("run", run)
        for name in ("node", "self"):
            if run is not None and isinstance(held.get(name), Node):
                found = held[name]
    if found is not None or run is None:
        return found
    at: Node | None = run.at  # compiled frames hold no variables
    return at


def around_inner(collector: Collector, inner: Any) -> int | None:
    """The node of a write through a view holds another, which is not in the graph itself."""
    for node, i in collector.ids.items():
        if inner_of(node) is inner:
            return i
    return None


# ---------------------------------------------------------------------- forward


def forward_data(
    trace: list[TracebackType], names: Names, title: str, options: dict[str, Any]
) -> dict[str, Any]:
    """Graph data of a forward pass that failed: the nodes so far, and one for the failing call."""
    last = next((tb for tb in reversed(trace) if not is_ours(tb.tb_frame)), None)
    words, tree = ("", None) if last is None else expression(last)
    operands = operands_of(trace, last, tree)
    roots = [root_of(t) for _, t in operands]
    roots += open_ends(names, [node for node, _, _ in roots])
    collector = Collector(roots, names, **options)
    data = collector.data(title)
    by_tensor: list[tuple[str, int]] = []
    for (name, t), root in zip(operands, roots, strict=False):
        i = collector.ids[root[0]] if root[0] is not None else collector.bare(t, name)
        by_tensor.append((name, i))
        if data["nodes"][i]["name"] is None:
            data["nodes"][i]["name"] = name
    failed = {
        **collector.blank(words or "failed", "op", None, None),
        "id": 0,
        "formula": None,
        "attrs": {name: str(tuple(t._array.shape)) for name, t in operands},
        "module": module_of(trace, names),
    }
    del data["nodes"][-1]
    if last is not None:
        where = evidence.place(last.tb_frame.f_code, last.tb_lasti) or {}
        failed |= {key: where.get(key) for key in ("file", "line", "text")}
    failed["module_type"] = names.types.get(failed["module"] or "")
    used = [n["module"] for n in [failed, *data["nodes"]] if n["module"] is not None]
    # The failed call comes first, as the output: all others move up by one.
    for node in data["nodes"]:
        node["id"] += 1
    data["edges"] = [[a + 1, b + 1, slot, k] for a, b, slot, k in data["edges"]]
    data["edges"] += [[0, i + 1, 0, k] for k, (_, i) in enumerate(by_tensor)]
    data["nodes"].insert(0, failed)
    own = {i + 1 for _, i in by_tensor}
    data["root"] = [0, *[i + 1 for i in data["root"] if i + 1 not in own]]
    data["failed"] = 0
    data["groups"] = names.groups(used)
    return data


def root_of(t: Any) -> Root:
    edge = edge_of(t)
    return (None, 0, t) if edge is None else (edge[0], edge[1], t)


def expression(tb: TracebackType) -> tuple[str, ast.expr | None]:
    """The part of the user's line that was being computed."""
    code = tb.tb_frame.f_code
    for i, (line, end_line, start, end) in enumerate(code.co_positions()):
        if i == tb.tb_lasti // 2 and line is not None and line == end_line:
            # Columns count bytes.
            text = linecache.getline(code.co_filename, line).encode()[start:end].decode()
            try:
                tree = ast.parse(text.strip(), mode="eval").body
            except SyntaxError:
                break
            return text if len(text) <= WORDS else text[: WORDS - 1] + "…", tree
    return "", None


def operands_of(
    trace: list[TracebackType], last: TracebackType | None, tree: ast.expr | None
) -> list[tuple[str, Any]]:
    """(name, tensor) of what went into the call that failed."""
    if last is None:
        return []
    found: dict[int, tuple[str, Any]] = {}
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, (ast.Name, ast.Attribute)):
            value = looked_up(node, last.tb_frame)
            if isinstance(value, TensorBase):
                found.setdefault(id(value), (ast.unparse(node), value))
    if not found and last.tb_next is not None:
        for name, value in last.tb_next.tb_frame.f_locals.items():
            if isinstance(value, TensorBase):
                found.setdefault(id(value), (name, value))
    return list(found.values())


def looked_up(node: ast.expr, frame: FrameType) -> Any:
    """The value of a name, or of attributes that can be read without running anything."""
    path: list[str] = []
    while isinstance(node, ast.Attribute):
        path.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    value: Any = frame.f_locals.get(node.id, frame.f_globals.get(node.id))
    for name in reversed(path):
        own = getattr(value, "__dict__", {})
        if evidence.is_module(value):
            own = {**own, **value._parameters, **value._buffers, **value._modules}
        value = own.get(name)
    return value


def open_ends(names: Names, known: list[Node | None]) -> list[Root]:
    """Results that the functions still hold and that nothing else was computed from."""
    held = [t for _, t in names.held if t._node is not None and not t._node._is_leaf]
    reached = evidence.reached_from(known)
    ends: list[Root] = []
    for t in sorted(held, key=lambda t: -t._node._seq):
        if t._node not in reached and len(ends) < ENDS:
            ends.append(root_of(t))
            reached |= evidence.reached_from([t._node])
    return ends


def module_of(trace: list[TracebackType], names: Names) -> str | None:
    """The path of the innermost module that was running."""
    path: str | None = None
    for tb in trace:
        owner = tb.tb_frame.f_locals.get("self")
        if evidence.is_module(owner):
            path = names.modules.get(id(owner), path)
    return path
