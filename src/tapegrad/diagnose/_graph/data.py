"""From recorded nodes to plain data: what tree, page, SVG, DOT and JSON are made from.

Nodes are numbered in the order of a backward pass: outputs first, what was computed last before
what was computed earlier. Everything here is a loop over that list; nothing recurses, and the
result is plain values: it keeps nothing of the graph alive.
"""

from __future__ import annotations

import heapq
from typing import Any

from ...core.array_kind import host, owner_of
from ...core.base import Node, TensorBase
from ...core.is_array import is_array
from ...errors import evidence
from .. import formulas
from .names import Names
from .values import (
    Shape,
    attributes,
    dtype_name,
    finite_norm,
    inner_of,
    input_facts,
    operand_shape,
    result_shape,
    same_as_output,
    statistics,
)

VERSION = 1
LIMIT = 20_000  # nodes that are described; a longer graph is cut off there
VALUES = 1 << 26  # elements that statistics are computed over, in all
PREFIX = "torch::autograd::"

# What a node had saved, taken before a backward pass freed it: kept, cells.
Saved = dict[Node, tuple[Any, Any]]
Root = tuple[Node | None, int, Any]  # node, output, tensor (None if it is gone)


class Collector:
    """One graph on its way to data."""

    def __init__(
        self,
        roots: list[Root],
        names: Names,
        *,
        values: bool = True,
        grads: bool = True,
        inputs: dict[str, Any] | None = None,
        saved: Saved | None = None,
        gradients: dict[Node, Any] | None = None,
        limit: int = LIMIT,
    ) -> None:
        self.names = names
        self.values = values
        self.grads = grads
        self.saved = saved or {}
        self.gradients = gradients or {}
        self.budget = VALUES
        self.places: dict[tuple[Any, int], Any] = {}
        self.texts: dict[tuple[Any, ...], str | None] = {}
        self.roots = roots
        self.order, self.total = nodes_in_order([node for node, _, _ in roots], limit)
        self.ids: dict[Node, int] = {node: i for i, node in enumerate(self.order)}
        self.shapes: list[Shape | None] = [None] * len(self.order)
        self.dtypes: list[Any] = [None] * len(self.order)
        self.arrays: list[Any] = [None] * len(self.order)
        self.nodes: list[dict[str, Any]] = []
        self.edges: list[list[int]] = []
        self.sizes: dict[Node, int] = {}  # of what a node keeps alive
        self.kept_by: dict[int, Node | None] = {}  # memory -> the first that keeps it; None: a leaf
        self.extra: dict[tuple[str, int], int] = {}  # inputs and cuts by identity
        self.held: dict[Node, list[tuple[str, Any]]] = {}
        self.by_array: dict[int, tuple[str, Any]] = {}
        for name, t in [*(inputs or {}).items(), *names.held]:
            if t._node is not None:
                self.held.setdefault(t._node, []).append((name, t))
            if not t._wants_grad or inputs and name in inputs:
                self.by_array.setdefault(id(t._array), (name, t))

    def data(self, title: str) -> dict[str, Any]:
        self.look_around()
        self.infer_shapes()
        self.names.adopt([m for m in map(evidence.module_of, self.order) if m is not None])
        self.count_saved()
        for i, node in enumerate(self.order):
            self.nodes.append(self.describe(i, node))
        self.name_by_line()
        for i, node in enumerate(self.order):
            self.connect(i, node)
        root = [self.ids[n] for n, _, _ in self.roots if n is not None]
        root += [self.bare(t) for n, _, t in self.roots if n is None]
        used = [n["module"] for n in self.nodes if n["module"] is not None]
        return {
            "version": VERSION,
            "title": title,
            "root": list(dict.fromkeys(root)),
            "failed": None,
            "error": None,
            "nodes": self.nodes,
            "edges": self.edges,
            "groups": self.names.groups(used),
            "trace": None,
            "more": self.total - len(self.order),
            "bytes": sum(self.sizes.values()),
        }

    # ------------------------------------------------------------------ shapes and values

    def kept(self, node: Any) -> Any:
        before = self.saved.get(node)
        return node._kept if before is None else before[0]

    def overwritten(self, node: Any, position: int) -> bool:
        """Whether a saved value was written to since."""
        before = self.saved.get(node)
        cells = node._cells if before is None else before[1]
        for k in range(0, len(cells), 3):
            if cells[k] is position or type(cells[k]) is int and cells[k] == position:
                return bool(cells[k + 1].n != cells[k + 2])
        return False

    def learn(self, i: int, shape: Any, dtype: Any, array: Any = None) -> None:
        """Note what is known about the result of node `i`; what came first stays."""
        if shape is not None and self.shapes[i] is None:
            self.shapes[i] = tuple(shape)
        if dtype is not None and self.dtypes[i] is None:
            self.dtypes[i] = dtype
        if array is not None and self.arrays[i] is None:
            self.arrays[i] = array

    def look_around(self) -> None:
        """Shapes, dtypes and values from everything that still holds them."""
        for node, slot, t in self.roots:
            if node is not None and t is not None and slot == 0:
                self.learn(self.ids[node], t._array.shape, t._array.dtype, t._array)
        for i, node in enumerate(self.order):
            if node._is_leaf:
                array = node.tensor()._array  # type: ignore[attr-defined]
                if array is not None:
                    self.learn(i, array.shape, array.dtype, array)
                continue
            for _, t in self.held.get(node, ()):
                if t._slot == 0:
                    self.learn(i, t._array.shape, t._array.dtype, t._array)
            if node._outputs:
                self.learn(i, *node._outputs[0])
            inner = inner_of(node)
            kept = self.kept(inner)
            op = inner._op
            if kept is not None and op is not None and op.outs and inner is node:
                own = kept[op.width]
                if is_array(own) and not self.overwritten(node, op.width):
                    self.learn(i, own.shape, own.dtype, own)
            for position, edge in enumerate(node._edges):
                j = -1 if edge is None else self.ids.get(edge, -1)
                if inner is not node and position == 0:
                    continue  # the base, of which `inner` saw a part
                if j >= 0 and first_output(node, position):
                    shape, dtype, array = input_facts(inner, kept, position)
                    if array is not None and self.overwritten(inner, position):
                        array = None
                    self.learn(j, shape, dtype, array)

    def infer_shapes(self) -> None:
        """Find shapes that rules do not save from those of neighbours: down, up, and down again."""
        unknown = self.shapes.count(None) + self.dtypes.count(None)
        for _ in range(4):
            if not unknown:
                return
            for i in range(len(self.order)):
                self.infer_inputs(i)
            for i in range(len(self.order) - 1, -1, -1):
                node = self.order[i]
                if self.shapes[i] is None and node._op is not None:
                    kept = self.kept(node)
                    self.learn(i, result_shape(node, kept, self.input_shapes(node, kept)), None)
            before, unknown = unknown, self.shapes.count(None) + self.dtypes.count(None)
            if unknown == before:
                return

    def infer_inputs(self, i: int) -> None:
        node = self.order[i]
        out = self.shapes[i]
        for position, edge in enumerate(node._edges):
            j = -1 if edge is None else self.ids.get(edge, -1)
            if j < 0 or not first_output(node, position):
                continue
            if self.shapes[j] is not None and self.dtypes[j] is not None:
                continue
            alike, typed = same_as_output(node, position)
            shape = out if alike else None
            if shape is None and out is not None and self.shapes[j] is None:
                kept = self.kept(node)
                inputs = self.input_shapes(node, kept)
                shape = operand_shape(node, kept, position, out, inputs)
            self.learn(j, shape, self.dtypes[i] if typed else None)

    def input_shapes(self, node: Any, kept: Any) -> list[Shape | None]:
        """The shapes of all operands, as far as they are known."""
        shapes: list[Shape | None] = []
        for position, edge in enumerate(node._edges):
            j = -1 if edge is None else self.ids.get(edge, -1)
            if j >= 0 and first_output(node, position):
                shapes.append(self.shapes[j])
            elif edge is None and is_number(node, kept, position):
                shapes.append(())
            else:
                shapes.append(input_facts(node, kept, position)[0])
        return shapes

    # ------------------------------------------------------------------ one node

    def describe(self, i: int, node: Any) -> dict[str, Any]:
        shape, dtype = self.shapes[i], self.dtypes[i]
        name, param, module = self.who(node)
        where = self.place_of(node)
        saved = self.saved_values(node)
        inner = inner_of(node)
        return {
            "id": i,
            "op": node.name().removeprefix(PREFIX),
            "kind": kind_of_node(node),
            "name": name,
            "shape": None if shape is None else list(shape),
            "dtype": None if dtype is None else dtype_name(dtype),
            "bytes": self.sizes.get(node, 0),
            "saved": [self.row_of(node, label, array) for label, array in saved],
            "summary": self.summary_of(self.arrays[i]),
            "grad": self.gradient_of(node),
            "formula": self.formula_of(node),
            "file": where and where["file"],
            "line": where and where["line"],
            "text": where and where["text"],
            "module": module,
            "module_type": None if module is None else self.names.types.get(module),
            "param": param,
            "attrs": {}
            if inner._op is None
            else attribute_texts(attributes(inner._op, self.kept(inner))),
            "freed": inner._frees and inner._op is not None and self.kept(inner) is None,
        }

    def who(self, node: Any) -> tuple[str | None, bool, str | None]:
        """Name, whether it is a parameter, and the path of the module it belongs to."""
        if node._is_leaf:
            t = node.tensor()
            name = self.names.of_tensor(t)
            if name is None:
                name = next((label for label, _ in self.held.get(node, ())), None)
            param = type(t).__name__ == "Parameter" or id(t) in self.names.parameters
            return name, param, self.names.parameters.get(id(t))
        running = evidence.module_of(node)
        module = None if running is None else self.names.modules.get(id(running))
        found = sorted(self.held.get(node, ()), key=lambda pair: pair[1]._slot)
        slots = {t._slot: name for name, t in reversed(found)}
        return ", ".join([slots[s] for s in sorted(slots)]) or None, False, module

    def place_of(self, node: Any) -> Any:
        key = (node._code, node._lasti)
        if key not in self.places:
            self.places[key] = evidence.of_node(node)
        return self.places[key]

    def saved_values(self, node: Any) -> list[tuple[str, Any]]:
        """(name, array) of everything that a node keeps for its rules."""
        node = inner_of(node)
        if node._is_leaf:
            return []
        op = node._op
        if op is None:
            own = getattr(node, "_saved", ())
            return [(f"saved_tensors[{k}]", s.array) for k, s in enumerate(own) if s is not None]
        found: list[tuple[str, Any]] = []
        labels = (*(op.tensors[: op.width]), *op.outs, *op.attrs)
        for label, value in zip(labels, self.kept(node) or (), strict=False):
            values = value if type(value) is tuple else (value,)
            found += [(label, v) for v in values if is_array(v)]
        return found

    def summary_of(self, array: Any) -> dict[str, Any] | None:
        if not self.values or not is_array(array) or array.size > self.budget:
            return None
        self.budget -= array.size
        return statistics(host(array))

    def gradient_of(self, node: Any) -> dict[str, Any] | None:
        """Numbers about `.grad` of a leaf, or of a result that retains it."""
        if not self.grads:
            return None
        grad = self.gradients.get(node)
        if grad is None and node._is_leaf:
            grad = node.tensor()._gradient
        elif grad is None and node._hooks is not None and node._hooks.retained:
            t = next(iter(node._hooks.retained.values()))()
            grad = None if t is None else t._gradient
        if grad is None or not is_array(grad._array) or grad._array.size > self.budget:
            return None
        self.budget -= grad._array.size
        array = host(grad._array)
        return {"norm": finite_norm(array), **statistics(array)}

    def formula_of(self, node: Any) -> str | None:
        """The op's line of documentation, then a gradient rule per input that gets one."""
        inner = inner_of(node)
        op = inner._op
        if op is None:
            return "adds what arrives to .grad" if node._is_leaf else custom_formula(node)
        asked = tuple([i for i, edge in enumerate(node._edges) if edge is not None])
        key = (op, asked)
        if key not in self.texts:
            rules = [formulas.rule_text(op, i) for i in asked[:8]]
            lines = [formulas.formula(op), *[r for r in rules if r]]
            self.texts[key] = "\n".join([line for line in lines if line]) or None
        return self.texts[key]

    def name_by_line(self) -> None:
        """`h` for the last node of a line `h = ...`, where nobody holds the result any more."""
        later: Any = None
        # An output that has no name was handed over without one: `graph(model(x).sum())`.
        given = {self.ids[node] for node, _, t in self.roots if node is not None and t is not None}
        for node, facts in zip(self.order, self.nodes, strict=True):
            if node._is_leaf or node._code is None:
                continue
            same = later is not None and later._code is node._code
            if same and self.place_of(later)["line"] == facts["line"]:
                same = later._lasti >= node._lasti
            else:
                same = False
            told = facts["name"] is not None or facts["id"] in given or ";" in facts["text"]
            if not same and not told:
                facts["name"] = evidence.assigned_name(self.place_of(node))
            later = node

    # ------------------------------------------------------------------ edges

    def connect(self, i: int, node: Any) -> None:
        slots = node._edge_slots
        cut = node._cut
        inner = inner_of(node)
        kept = self.kept(inner)
        for position, edge in enumerate(node._edges):
            if edge is not None:
                j = self.ids.get(edge)
                if j is not None:
                    slot = 0 if slots is None else slots[position]
                    self.edges.append([i, j, slot, position])
                continue
            array = None
            if inner._op is not None and kept is not None and position < inner._op.width:
                array = kept[position] if is_array(kept[position]) else None
            j = self.source(array, cut)
            if j is not None:
                self.edges.append([i, j, 0, position])
                cut = None if self.nodes[j]["kind"] == "cut" else cut
        if cut is not None and evidence.of_cut(cut) is not None:
            j = self.cut_node(cut, None)
            self.edges.append([i, j, 0, len(node._edges)])

    def source(self, array: Any, cut: Any) -> int | None:
        """The node for an operand without history: data that somebody holds, or a cut."""
        found = None if array is None else self.by_array.get(id(array))
        if found is None:
            return None
        name, t = found
        if t._cut is not None and t._cut is cut:
            return self.cut_node(cut, (name, t))
        return self.bare(t, name)

    def bare(self, t: TensorBase, name: str | None = None) -> int:
        """The node of a tensor without history."""
        if t._cut is not None:
            return self.cut_node(t._cut, (name or self.names.of_tensor(t), t))
        key = ("input", id(t._array))
        if key not in self.extra:
            facts = self.blank("Input", "input", name or self.names.of_tensor(t), t._array)
            facts["module"] = self.names.parameters.get(id(t))
            self.extra[key] = facts["id"]
        return self.extra[key]

    def cut_node(self, cut: Any, found: tuple[str | None, Any] | None) -> int:
        key = ("cut", id(cut))
        if key not in self.extra:
            name, t = found or (None, None)
            facts = self.blank(cut.what, "cut", name, None if t is None else t._array)
            where = evidence.of_cut(cut) or {}
            facts |= {key: where.get(key) for key in ("file", "line", "text")}
            facts["formula"] = f"no gradient goes past this point: {cut.what}"
            self.nodes[facts["id"]] = facts
            self.extra[key] = facts["id"]
        return self.extra[key]

    def blank(self, op: str, kind: str, name: str | None, array: Any) -> dict[str, Any]:
        """A node that is not in the recorded graph."""
        facts = {
            "id": len(self.nodes),
            "op": op,
            "kind": kind,
            "name": name,
            "shape": None if array is None else list(array.shape),
            "dtype": None if array is None else dtype_name(array.dtype),
            "bytes": 0,
            "saved": [],
            "summary": self.summary_of(array),
            "grad": None,
            "formula": None,
            "file": None,
            "line": None,
            "text": None,
            "module": None,
            "module_type": None,
            "param": False,
            "attrs": {},
            "freed": False,
        }
        self.nodes.append(facts)
        return facts

    def count_saved(self) -> None:
        """How much each node keeps alive: memory that several keep counts at the first of them.

        That of leaves lives anyway and counts nowhere. So the nodes add up to the whole.
        """
        leaves = {id(evidence.memory(n.tensor()._array)) for n in self.order if n._is_leaf}  # type: ignore[attr-defined]
        counted: dict[int, int] = {}
        for node in sorted(self.order, key=lambda n: n._seq):
            for _, array in self.saved_values(node):
                owner, whole = owner_of(array)
                size = min(int(array.nbytes), whole)
                before = counted.get(id(owner), 0)
                if id(owner) not in leaves and size > before:
                    counted[id(owner)] = size
                    self.sizes[node] = self.sizes.get(node, 0) + size - before
                self.kept_by.setdefault(id(owner), None if id(owner) in leaves else node)

    def row_of(self, node: Any, label: str, array: Any) -> dict[str, Any]:
        """A saved value; `shared` where its memory counts elsewhere, or nowhere."""
        row = {
            "name": label,
            "shape": list(array.shape),
            "dtype": dtype_name(array.dtype),
            "bytes": int(array.nbytes),
        }
        first = self.kept_by.get(id(owner_of(array)[0]), node)
        if first is not node:
            row["shared"] = "a leaf" if first is None else self.ids[first]
        return row


def nodes_in_order(roots: list[Node | None], limit: int) -> tuple[list[Node], int]:
    """The first `limit` nodes in the order of a backward pass, and how many there are in all."""
    starts = list(dict.fromkeys([n for n in roots if n is not None]))
    waiting: dict[Node, int] = dict.fromkeys(starts, 0)
    stack = list(starts)
    while stack:
        for edge in stack.pop()._edges:
            if edge is not None:
                if edge in waiting:
                    waiting[edge] += 1
                else:
                    waiting[edge] = 1
                    stack.append(edge)
    ready = [(-n._seq, k, n) for k, n in enumerate(starts) if not waiting[n]]
    heapq.heapify(ready)
    order: list[Node] = []
    count = len(starts)
    while ready and len(order) < limit:
        node = heapq.heappop(ready)[2]
        order.append(node)
        for edge in node._edges:
            if edge is not None:
                waiting[edge] -= 1
                if not waiting[edge] and edge._is_leaf and not edge._edges:
                    order.append(edge)
                elif not waiting[edge]:
                    count += 1
                    heapq.heappush(ready, (-edge._seq, count, edge))
    return order[:limit], len(waiting)


def first_output(node: Any, position: int) -> bool:
    return node._edge_slots is None or node._edge_slots[position] == 0


def is_number(node: Any, kept: Any, position: int) -> bool:
    op = node._op
    return (
        kept is not None
        and not op.variadic
        and position < op.width
        and isinstance(kept[position], (bool, int, float, complex))
    )


def kind_of_node(node: Any) -> str:
    if node._is_leaf:
        return "leaf"
    if inner_of(node) is not node:
        return "slices"
    return "function" if node._op is None else "op"


def custom_formula(node: Any) -> str | None:
    """The first line of documentation of a user's Function."""
    cls = getattr(node, "_forward_cls", None)
    words = "" if cls is None else (cls.__dict__.get("__doc__") or "").strip()
    return words.partition("\n")[0] or None


def attribute_texts(values: dict[str, Any]) -> dict[str, str]:
    """Attributes as short text."""
    made: dict[str, str] = {}
    for name, value in values.items():
        if is_array(value):
            text = f"array of shape {value.shape}"
        else:
            text = repr(value)
        made[name] = text if len(text) <= 60 else text[:57] + "..."
    return made
