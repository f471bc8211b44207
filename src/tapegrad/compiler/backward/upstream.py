"""Backward passes in a piece that continue into the history of its arguments.

    loss = F.mse_loss(model(x), y)      # a piece
    print(loss.item())
    loss.backward()                     # another piece, which did not make the history of `loss`
    optimizer.step()

The history of the arguments is one step of the piece: with the gradients that arrive at the
arguments it runs the backward pass of this call's history, most often the recorded pass of the
piece before, and leaves the gradients of the leaves where later steps read them. The kinds of nodes
in that history, and its leaves, are part of a recording's cache key.
"""

from __future__ import annotations

import heapq
from typing import Any

from ...autograd.api import grad
from ...autograd.starts import edge_of
from ...core.base import Node, TensorBase, next_seq, wrap
from ...core.modes import MODES
from ...core.node import AccumulateGrad
from ...core.python_dispatch import ACTIVE, modes_set_to
from ..capture.undo import same_bits
from ..program.steps import Step
from .of_results import CompiledFunctionBackward, Doorway, closed, ends_at

MOST_NODES = 64


class Otherwise(Exception):
    """Raised by a replay: a step gets gradients of another kind than in the recorded call."""


def history(t: Any) -> Any:
    """The history of a tensor as part of a cache key; None: too long, or with unusual nodes."""
    node, slot = edge_of(t)  # type: ignore[misc]
    if type(node) is CompiledFunctionBackward and not node.outside.doors and node._hooks is None:
        return node.outside.serial, slot
    found = nodes_behind([t])
    if found is None:
        return None
    order = {each: i for i, each in enumerate(found)}
    return (slot, *[described(each, order) for each in found])


def described(node: Any, order: dict[Any, int]) -> Any:
    if node._is_leaf:
        return id(node.tensor())
    kind = node.name() if node._op is None else node._op.name
    if type(node) is CompiledFunctionBackward:
        kind = node.outside.serial
    return kind, node._edge_slots, tuple([None if e is None else order[e] for e in node._edges])


def nodes_behind(tensors: list[Any]) -> list[Any] | None:
    """The nodes in the history of tensors; None if they are many, or of unusual kinds."""
    stack = [edge_of(t)[0] for t in tensors]  # type: ignore[index]
    found: dict[Any, None] = {}
    while stack:
        node = stack.pop()
        if node in found:
            continue
        found[node] = None
        is_known = node._op is not None or type(node) in (CompiledFunctionBackward, Doorway)
        if node._is_leaf:
            is_known = type(node) is AccumulateGrad and not node.follows
        elif node._hooks is not None or node._packed or node._on_tensors:
            return None
        if not is_known or len(found) > MOST_NODES:
            return None
        stack += [edge for edge in node._edges if edge is not None]
    return list(found)


def join(inputs: list[Any], values: Any) -> Behind | None:
    """Replace the histories of all arguments by one node, with a Doorway for each argument."""
    places = [i for i, t in enumerate(inputs) if t is not None and type(t._node) is Doorway]
    places = [i for i in places if not is_leaf_of(values[i])]
    found = nodes_behind([values[i] for i in places]) if places else None
    if found is None:
        return None
    behind = Behind([values[i] for i in places], places, [n for n in found if n._is_leaf])
    behind.doors = [inputs[i]._node for i in places]  # which a write into one may replace
    for slot, door in enumerate(behind.doors):
        door._edges, door._edge_slots, door.leads_behind = (behind,), (slot,), True
    return behind


def separate(behind: Behind) -> None:
    """After a call: connect what is left of its graph to the real history of the arguments."""
    for door, value in zip(behind.doors, behind.values, strict=True):
        node, slot = edge_of(value)  # type: ignore[misc]
        door._edges, door._edge_slots, door.leads_behind = (node,), (slot,), False


def is_leaf_of(value: Any) -> bool:
    return bool(edge_of(value)[0]._is_leaf)  # type: ignore[index]


class Behind(Node):
    """The whole history of the arguments of one call as one node; its edges lead to the leaves."""

    def __init__(self, values: list[Any], places: list[int], ends: list[Any]) -> None:
        super().__init__()
        self.values = values
        self.places = places
        self.leaves = [node.tensor() for node in ends]
        self.doors: list[Any] = []
        self.step: BehindStep | None = None  # the last one that was recorded
        self._outputs = tuple([(t._array.shape, t._array.dtype) for t in values])
        self._edges = tuple(ends)
        self._leaves = (*values, *self.leaves)
        self._frees = self._gives_away = True
        self._kept = ()  # None once it is freed
        self._seq = next_seq()

    def name(self) -> str:
        return "AliasBackward0"

    def _pull(self, grads: Any, record: bool) -> Any:
        recorder = next((mode for mode in ACTIVE.modes if mode.records_steps), None)
        on_record = record and MODES.grad
        if recorder is not None and on_record:
            recorder.give_up(
                "a backward pass with create_graph=True continues into the history of its arguments"
            )
        if on_record or recorder is None or recorder.trouble:
            tensors = [None if g is None else g if record else wrap(g) for g in grads]
            found = passed_on(self.values, self.leaves, tensors, True, on_record)
            return [g if g is None or record else g._array for g in found]
        given = [None if g is None else g._array for g in grads]
        for leaf in self.leaves:
            recorder.meet(leaf)
        self.step = step = BehindStep(self, given)
        recorder.take_over(step.made)
        recorder.steps.append(step)
        recorder.behind.append(step)
        made = iter(step.made)
        return [wrap(next(made)) if has_one else None for has_one in step.pattern]

    def _release(self) -> None:
        self._kept = None
        free_graph(self.values)
        if self.step is not None:
            self.step.releases = True


class BehindStep(Step):
    """The step that runs the backward pass through the history of the arguments."""

    name = "the backward pass of what came before"
    has_effects = True  # a graph is done with

    def __init__(self, behind: Behind, given: list[Any]) -> None:
        self.given = given  # gradients of the arguments, where steps leave them
        self.places = behind.places
        self.leaves = behind.leaves
        self.releases = False
        self.keeps_graph = False  # until a replay is over, as a later step may refuse a value
        self.values: list[Any] = behind.values
        with modes_set_to(()):
            found = self.found(True)
        self.pattern = [g is not None for g in found]
        self.made = [g.copy() for g in found if g is not None]
        # What came of it in this call, with which a replay is compared.
        self.was = [x.copy() for x in self.reads()], [x.copy() for x in self.made]
        self.rehearsed: Any = None
        self.values = []

    def reads(self) -> list[Any]:
        return [g for g in self.given if g is not None]

    def bind(self, values: Any) -> bool:
        """Set the arguments of a call; False: their graph was freed."""
        self.values = [values[i] for i in self.places]
        return not any([getattr(t._node, "_released", False) for t in self.values])

    def found(self, keep: bool) -> list[Any]:
        """The gradients of the leaves, as arrays; some may be in memory that is used again."""
        found = through_compiled(self.values, self.given, keep)
        if found is not None:
            return [found.get(id(t)) for t in self.leaves]
        tensors = [None if g is None else wrap(g) for g in self.given]
        gradients = passed_on(self.values, self.leaves, tensors, keep, False)
        return [None if g is None else g._array for g in gradients]

    def run(self) -> None:
        if self.rehearsed is not None:
            given, found = self.rehearsed
            if not all(map(same_bits, self.reads(), given)):
                raise Otherwise("a gradient of an argument")
        else:
            arrays = self.found(self.keeps_graph or not self.releases)
            if not self.keeps_graph:
                self.values = []
            if [g is not None for g in arrays] != self.pattern:
                raise RuntimeError("a compiled step cannot continue: other leaves get gradients")
            found = [g for g in arrays if g is not None]
        for static, new in zip(self.made, found, strict=True):
            static[...] = new

    def free_graph(self) -> None:
        """After a replay: free the graph, which was kept until no step could refuse a value."""
        if self.keeps_graph:
            free_graph(self.values)
        self.values = []


def free_graph(tensors: list[Any]) -> None:
    for node in nodes_behind(tensors) or ():
        if node._frees:
            node._release()


def through_compiled(values: list[Any], given: list[Any], keep: bool) -> dict[int, Any] | None:
    """The gradients of leaves, by id, by a pass through compiled calls alone, without the engine.

    None if the history of the values has other nodes.
    """
    waiting: dict[Any, list[Any]] = {}  # by node: what has arrived for its outputs
    order: list[tuple[int, Any]] = []  # the next node is the one that was made last
    leaves: dict[int, Any] = {}

    def arrive(node: Any, slot: int, g: Any) -> bool:
        if type(node) is not CompiledFunctionBackward or node._hooks is not None:
            return False
        if node not in waiting:
            waiting[node] = [None] * len(node._outputs or ())
            heapq.heappush(order, (-node._seq, node))
        before = waiting[node][slot]
        waiting[node][slot] = g if before is None else before + g
        return True

    if any([t._view_of is not None for t in values]) or not all(map(is_all_compiled, values)):
        return None
    for t, g in zip(values, given, strict=True):
        if g is not None:
            arrive(t._node, t._slot, g)
    while order:
        _, node = heapq.heappop(order)
        node.check()
        outside, grads = node.outside, waiting.pop(node)
        with outside.busy:
            arrays = outside.arrays(node, grads)
            edges = node._edges[: len(outside.doors)]
            slots = node._edge_slots or ()
            for edge, slot, g in zip(edges, slots, arrays, strict=False):
                if g is not None and edge is not None:
                    arrive(edge, slot, g.copy())
            for t, g in zip(outside.leaves, arrays[len(edges) :], strict=True):
                if g is not None:
                    # Another call of the same function would overwrite it.
                    before = leaves.get(id(t))
                    g = g if not order else g.copy()
                    leaves[id(t)] = g if before is None else before + g
        if not keep:
            node._release()
    return leaves


def is_all_compiled(t: Any) -> bool:
    """Whether a history consists of calls of compiled functions and their parameters alone."""
    stack, seen = [t._node], set()
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if type(node) is not CompiledFunctionBackward or node._hooks is not None:
            return False
        stack += [e for e in node._edges[: len(node.outside.doors)] if e is not None]
    return True


def passed_on(
    values: list[Any], leaves: list[Any], grads: list[Any], keep: bool, on_record: bool
) -> list[Any]:
    """The gradients of leaves, without calling hooks: the real pass delivers them again."""
    pairs = [(t, g) for t, g in zip(values, grads, strict=True) if g is not None]
    if not leaves:
        return []
    with closed(ends_at([], leaves)):
        found = grad(
            [t for t, _ in pairs],
            leaves,
            [g for _, g in pairs],
            retain_graph=keep,
            create_graph=on_record,
            allow_unused=True,
        )
    return list(found)


def is_history(value: Any) -> bool:
    """Whether a tensor has a history."""
    return isinstance(value, TensorBase) and value._wants_grad and not is_leaf_of(value)
