"""`memory(loss)`: what a graph keeps alive until backward() has run, by line and by module.

>>> import tapegrad as torch
>>> from tapegrad import nn
>>> model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 1))
>>> loss = model(torch.randn(32, 64)).sum()
>>> report = torch.diagnose.memory(loss)
>>> report.activations == 32 * 64 * 4 + 32 * 256 * 4  # the input and the output of ReLU
True

Memory is counted once, however many nodes look at it, and as a whole, even if only a view of it is
saved. Parameters, and tensors that somebody else holds too, would live without the graph: they are
told apart.
"""

from __future__ import annotations

import functools
import gc
import sys
import types
import weakref
from typing import Any

import numpy as np

from ..autograd.function import BackwardFunction, Kept
from ..core.array_kind import owner_of
from ..core.base import COMPILED, Cut, Node, Stamped, TensorBase, Version
from ..core.is_array import is_array
from ..core.node import Packed
from ..core.op import Op
from ..errors import evidence
from ..utils._memory_budget import Saved
from . import alive, words

# What a node holds of its own; its edges lead to other nodes.
FIELDS = tuple("_kept _cells _fixes _outputs _leaves _edge_slots _edges _duals _notes".split())
# What lives on whether or not the graph does, and is not looked into.
SHARED = (
    Node, Op, Cut, type, types.CodeType, types.FunctionType, types.ModuleType, weakref.ref,
    np.dtype, str, bool, type(None), type(...), types.BuiltinFunctionType, types.MethodType,
)  # fmt: skip
MUCH = 100 << 20  # saved bytes from which on a report says how to keep less
SMALL = range(-5, 257)  # integers that Python keeps anyway
# Before Python 3.13 `getsizeof` leaves out the attributes of instances of interpreted classes.
APART = not COMPILED and sys.version_info < (3, 13)


class Memory:
    """The result of `memory`; prints as a table."""

    activations: int = 0  # bytes that only the graph keeps
    parameters: int = 0  # bytes of leaves that the graph looks at
    inputs: int = 0  # bytes of other tensors that somebody else holds, too
    overhead: int = 0  # bytes of the nodes and what belongs to them
    nodes: int = 0
    freed: bool = False  # backward() has been here

    def __init__(self) -> None:
        self.tensors: list[dict[str, Any]] = []  # one entry per memory
        self.lines: list[dict[str, Any]] = []
        self.modules: list[dict[str, Any]] = []

    @property
    def total(self) -> int:
        """Bytes that go away with the graph."""
        return self.activations + self.overhead

    def data(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {
            "total": self.total,
            "activations": self.activations,
            "overhead": self.overhead,
            "parameters": self.parameters,
            "inputs": self.inputs,
            "nodes": self.nodes,
            "freed": self.freed,
            "lines": self.lines,
            "modules": self.modules,
            "tensors": self.tensors,
        }

    def __repr__(self) -> str:
        kept = [t for t in self.tensors if t["kind"] == "activation"]
        size = words.as_bytes
        lines = [f"This graph keeps {size(self.total)} alive:"]
        rows = [
            [size(self.activations), f"in {words.counted(len(kept), 'saved tensor')}"],
            [size(self.overhead), f"in {words.counted(self.nodes, 'node')} of the graph itself"],
        ]
        lines += words.table(rows, right=[0])
        if self.activations >= MUCH:
            lines.append(
                f'with utils.checkpoint.budget("{size(self.activations // 2)}"): around forward '
                "and backward keeps half of that, and computes the rest again."
            )
        if self.freed:
            lines.append("backward() has freed the saved values; the nodes live on with the loss.")
        others = [
            (self.parameters, "parameters and other leaves"),
            (self.inputs, "tensors that are held elsewhere, too"),
        ]
        rows = [[size(count), what] for count, what in others if count]
        if rows:
            lines.append("It also looks at what lives anyway:")
            lines += words.table(rows, right=[0])
        for name, key, entries in (
            ("line", "line", self.lines),
            ("module", "module", self.modules),
        ):
            if entries and (key == "line" or len(entries) > 1):
                lines += ["", f"By {name}:"] + self._table(entries, key)
        return "\n".join(lines)

    def _table(self, entries: list[dict[str, Any]], key: str) -> list[str]:
        rows = [["bytes", "share", "tensors", key]]
        for entry in entries[:20]:
            share = entry["bytes"] / self.activations if self.activations else 0.0
            what = words.shown(entry["place"], 68) if key == "line" else entry["module"]
            row = [words.as_bytes(entry["bytes"]), f"{share:.0%}", str(entry["tensors"]), what]
            rows.append(row)
        lines = words.table(rows, right=[0, 1, 2])
        if len(entries) > 20:
            rest = sum(entry["bytes"] for entry in entries[20:])
            lines.append(f"  and {len(entries) - 20} more with {words.as_bytes(rest)}")
        return lines


def memory(loss: Any) -> Memory:
    """The memory that the graph of `loss` (or of tensors in a list) keeps alive, in bytes."""
    attributes_size.cache_clear()  # CPython lays instances out anew as a program goes on
    roots = [words.behind(t) for t in words.tensors_of(loss, "memory", "loss")]
    for t in roots:
        t.grad_fn  # noqa: B018  # a view whose base was written re-makes its history here
    graph = alive.nodes_from([t._node for t in roots])
    found = Memory()
    found.nodes = len(graph)
    leaves, elsewhere = owners_elsewhere(graph)
    names = evidence.module_names()
    places = alive.Places()
    by_line: dict[tuple[str, int] | None, dict[str, Any]] = {}
    by_module: dict[str, dict[str, Any]] = {}
    seen: set[int] = set()
    for node in sorted(graph, key=order_of):
        if node._frees and node._kept is None and node._freed_by is not None:
            found.freed = True
        arrays, size = contents(node, seen)
        found.overhead += size
        for owner, whole, saved in arrays:
            kind = "activation"
            if id(owner) in leaves:
                kind = "parameter"
                found.parameters += whole
            elif id(owner) in elsewhere:
                kind = "input"
                found.inputs += whole
            where = places.of(node)
            path = module_path(node, names)
            found.tensors.append(
                {
                    "kind": kind,
                    "bytes": whole,
                    "shape": list(saved.shape),
                    "dtype": str(saved.dtype),
                    "op": evidence.node_name(node),
                    "place": where,
                    "module": path,
                }
            )
            if kind == "activation":
                found.activations += whole
                key = None if where is None else (where["file"], where["line"])
                line = by_line.setdefault(key, {"place": where, "bytes": 0, "tensors": 0})
                part = by_module.setdefault(path, {"module": path, "bytes": 0, "tensors": 0})
                for entry in (line, part):
                    entry["bytes"] += whole
                    entry["tensors"] += 1
    found.lines = sorted(by_line.values(), key=bytes_of, reverse=True)
    found.modules = sorted(by_module.values(), key=bytes_of, reverse=True)
    return found


def order_of(node: Node) -> int:
    return node._seq


def bytes_of(entry: dict[str, Any]) -> int:
    return entry["bytes"]  # type: ignore[no-any-return]


def module_path(node: Node, names: dict[int, str]) -> str:
    module = evidence.module_of(node)
    if module is None:
        return "(no module)"
    return names.get(id(module)) or type(module).__name__


def owners_elsewhere(graph: Any) -> tuple[set[int], set[int]]:
    """Ids of the memory of the graph's leaves, and of what other tensors or variables hold."""
    leaves = set()
    for node in graph:
        if node._is_leaf:
            array = alive.leaf_array(node)
            if array is not None:
                leaves.add(id(evidence.memory(array)))
    on_ctx = {id(value) for node in graph if is_function(node) for value in vars(node).values()}
    held = {
        id(evidence.memory(t._array))
        for t in alive.tensors()
        if alive.without_history(t) and id(t) not in on_ctx
    }
    for _, value in evidence.held(evidence.user_frames()):
        if is_array(value):
            held.add(id(evidence.memory(value)))
    return leaves, held


def is_function(node: Any) -> bool:
    return isinstance(node, BackwardFunction)


def own_size(value: Any) -> int:
    """The bytes of an instance of one of our classes, with its attributes."""
    size = sys.getsizeof(value)
    if not APART:
        return size
    for part in gc.get_referents(value):
        if type(part) is dict and "_seq" in part:  # its __dict__, where there is one
            return size + sys.getsizeof(part)
    return size + attributes_size(type(value))


@functools.cache
def attributes_size(cls: type) -> int:
    """The bytes in which CPython keeps the attributes of an instance that has no dict."""
    values = sys.getsizeof(vars(cls())) - sys.getsizeof({})
    return values + (values // 8 + 9 & ~7)  # the order in which they were set, a byte each


def header(array: Any) -> int:
    """The bytes of an array object without its data; those on a GPU are not in it anyway."""
    inside = isinstance(array, np.ndarray) and array.flags.owndata
    return sys.getsizeof(array) - (array.nbytes if inside else 0)


def contents(node: Any, seen: set[int]) -> tuple[list[tuple[Any, int, Any]], int]:
    """The memory that a node keeps and nobody in `seen` did, and the size of all around it.

    Memory is (what owns it, its bytes, the array that was saved).
    """
    size = own_size(node)
    stack = [getattr(node, name, None) for name in FIELDS]
    if not COMPILED:  # there it is a number inside the node
        stack.append(node._seq)
    if is_function(node):
        stack += vars(node).values()  # what forward put on its ctx
    arrays: list[tuple[Any, int, Any]] = []
    while stack:
        value = stack.pop()
        if isinstance(value, SHARED) or id(value) in seen:
            continue
        if isinstance(value, int) and value in SMALL:
            continue
        seen.add(id(value))
        if is_array(value):
            owner, whole = owner_of(value)
            size += header(value)
            if owner is not value and id(owner) not in seen:
                seen.add(id(owner))
                size += header(owner)
                arrays.append((owner, whole, value))
            elif owner is value:
                arrays.append((owner, whole, value))
            continue
        if isinstance(value, TensorBase):
            if not node._is_leaf and value._node is not None and value._node._is_leaf:
                continue  # a leaf lives on its own
            stack.append(value._array)
        elif isinstance(value, (tuple, list)):
            stack += value
        elif isinstance(value, dict):
            stack += value.values()
        elif isinstance(value, Version):
            size += own_size(value) - sys.getsizeof(value)
            stack.append(value.writers)
        elif isinstance(value, Packed):
            packed = value.value
            stack.append(packed.kept if isinstance(packed, Saved) else packed)
        elif isinstance(value, Kept):
            stack.append(value.array)
        elif not isinstance(value, (int, float, complex, Stamped)):
            continue  # nothing of ours
        size += sys.getsizeof(value)
    return arrays, size
