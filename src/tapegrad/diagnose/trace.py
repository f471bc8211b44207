"""`trace_backward(loss)`: the backward pass, one step at a time.

>>> import tapegrad as torch
>>> x = torch.tensor([1.0, 2.0], requires_grad=True)
>>> loss = (x * x).sum()
>>> for step in torch.diagnose.trace_backward(loss):
...     print(step.op, step.incoming.tolist())
SumBackward0 1.0
MulBackward0 [1.0, 1.0]
AccumulateGrad [2.0, 4.0]
>>> x.grad
tensor([2., 4.])

It is a true backward pass in the engine's order: hooks run, saved values are freed, and after the
last step every leaf has the `.grad` that `loss.backward()` would have given it.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np

from ..autograd import api
from ..autograd.starts import pass_from, prepare_starts
from ..autograd.view_history import CopySlices
from ..core.array_kind import host
from ..core.base import IGNORED, NUMPY_ERRORS, Node, TensorBase, as_array, wrap
from ..core.modes import MODES
from ..errors import evidence
from ..errors.functions import forward_arguments
from . import formulas, words
from ._graph import data as graph_data
from ._graph import values as graph_values
from ._graph.page import for_json

SHOWN = 64  # gradients with more numbers than this are told by shape and norm alone
PICTURED = 5_000  # larger graphs are drawn when asked for, with what is left of them then


@dataclasses.dataclass
class Outgoing:
    """The gradient that a step gives to one input of its op."""

    node: Node  # where it goes
    slot: int  # which output of that
    name: str  # what that is called
    input: str  # the input of the op, by name
    rule: str  # the gradient rule as text
    grad: Any  # a copy, as a tensor


@dataclasses.dataclass
class Sum:
    """Gradients that met at one node: `count` of them so far, and their sum."""

    node: Node
    name: str
    count: int
    grad: Any
    before: bool = False  # a leaf's .grad that was there before this pass


@dataclasses.dataclass
class Step:
    """One node of the backward pass: what arrived, the rules, what left."""

    index: int
    total: int  # how many steps there can be at the most
    node: Node
    op: str
    name: str | None
    line: evidence.Place | None
    incoming: Any  # a tensor; for a node with several outputs a tuple, None where nothing came
    outgoing: list[Outgoing]
    accumulated: list[Sum]

    @property
    def rules(self) -> list[str]:
        """The rules as text, one for each gradient that left."""
        return [out.rule for out in self.outgoing]

    def __str__(self) -> str:
        title = f"step {self.index + 1} of {self.total}: {self.op}"
        if self.name:
            title += f" `{self.name}`"
        if self.line is not None:
            title += f"   {words.shown(self.line, 60)}"
        lines = [title]
        arrived = self.incoming if isinstance(self.incoming, tuple) else (self.incoming,)
        for slot, grad in enumerate(arrived):
            label = "incoming" if len(arrived) == 1 else f"incoming for output {slot}"
            lines.append(f"  {label}  {'nothing' if grad is None else spell(grad)}")
        for out in self.outgoing:
            lines.append(words.clipped(f"  {out.rule or 'd/d ' + out.input}", words.WIDTH))
            lines.append(f"    -> {out.name}  {spell(out.grad)}")
        for total in self.accumulated:
            if total.node is self.node:
                how = "added to what was there" if total.before else "was None"
                lines.append(f"  .grad ({how}) is now  {spell(total.grad)}")
            else:
                lines.append(
                    f"  adds up at {total.name}: {total.count} so far, {spell(total.grad)}"
                )
        return "\n".join(lines)


class Trace:
    """An iterator over the steps of a backward pass that runs as it is iterated."""

    def __init__(self, loss: Any, gradient: Any, retain_graph: bool) -> None:
        starts = prepare_starts((loss,), api.as_grads(gradient, 1), False)
        self._loss = loss
        self._root = starts[0][0]
        self._run = pass_from(starts, retain_graph, False, None, self._note)
        self._starts: Any = starts  # None once the pass has begun
        self._names = names_of_nodes()
        self._counts: dict[tuple[Node, int], int] = {}
        self._records: list[dict[str, Any]] = []
        self._gradients: dict[Node, dict[str, Any]] = {}  # numbers about what arrived
        self._picture: Any = None
        self.failed: Node | None = None  # the node that raised
        self.error: str | None = None  # and what it said
        self.done = False

    def __iter__(self) -> Trace:
        return self

    def __next__(self) -> Step:
        if not self.done and not self._records and self._picture is None:
            self._draw_early()
        while not self.done:
            step = self._advance()
            if step is not None:
                self._records.append(record(step))
                if not isinstance(step.incoming, tuple):
                    array = host(step.incoming._array)
                    numbers = graph_values.statistics(array)
                    self._gradients[step.node] = {
                        "norm": graph_values.finite_norm(array),
                        **numbers,
                    }
                return step
        raise StopIteration

    def play(self) -> Trace:
        """Run the steps that are left, and return self."""
        for _ in self:
            pass
        return self

    def data(self) -> list[dict[str, Any]]:
        """All steps as plain values that `json` can write; runs the steps that are left."""
        self.play()
        ids = self._ids()
        return [with_ids(each, ids) for each in self._records]

    def graph(self) -> Any:
        """The graph's picture with the steps in it, as `diagnose.graph` gives it."""
        picture = self._graph()
        picture.data["trace"] = self.data()
        ids = self._ids()
        for node, numbers in self._gradients.items():
            if node in ids:
                picture.data["nodes"][ids[node]]["grad"] = numbers
        if self.failed is not None:
            picture.data["failed"] = ids.get(self.failed)
            picture.data["error"] = self.error
        return picture

    def html(self) -> str:
        """One page that plays the pass on the graph."""
        return self.graph().html()  # type: ignore[no-any-return]

    def save(self, path: Any) -> Any:
        """Write the page, or another of the graph's formats by the ending of `path`."""
        return self.graph().save(path)

    def to_json(self) -> str:
        """`data()` as text."""
        return json.dumps(self.data())

    def _repr_html_(self) -> str:
        return self.graph()._repr_html_()  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        state = "done" if self.done else "running" if self._records else "not started"
        if self.failed is not None:
            state = f"failed in {title(self.failed)}"
        count = words.counted(len(self._records), "step")
        return f"<backward pass from {title(self._root)}: {count}, {state}>"

    # ------------------------------------------------------------------ one step

    def _advance(self) -> Step | None:
        """One step of the engine, as itself; None where no gradient arrived, or at the end."""
        outer = MODES.run
        MODES.run = self._run
        token = NUMPY_ERRORS.set(IGNORED)
        self._noted: Step | None = None
        try:
            if self._starts is not None:
                self._begin()
            node = self._run.step()
        except BaseException as error:
            self.failed = self._run.at
            self.error = str(error)
            self.done = True
            raise
        finally:
            NUMPY_ERRORS.reset(token)
            MODES.run = outer
        if node is None:
            self.done = True
            return None
        step = self._noted
        if step is not None and not node._is_leaf:
            step.accumulated = self._sums(step.outgoing)
        return step

    def _begin(self) -> None:
        self._run.start(self._starts)
        self._starts = None
        leaves: list[Any] = [node for node in self._run.pending if node._is_leaf]
        self._filled = {leaf for leaf in leaves if leaf.tensor()._gradient is not None}

    def _note(self, node: Any, total: Any, grads: Any) -> None:
        """The engine's observer: a node has run, and what it made is about to be handed on.

        The engine goes on to write into these arrays, so everything is copied."""
        if node._is_leaf:
            leaf = node.tensor()
            sums = []
            if leaf._gradient is not None:
                count = self._counts.get((node, 0), 1)
                grad = copied(leaf._gradient._array)
                sums = [Sum(node, self._name(node), count, grad, node in self._filled)]
            self._noted = self._made(node, copied(total), [], sums)
        else:
            self._noted = self._made(node, copied(total), self._outgoing(node, grads), [])

    def _made(self, node: Node, incoming: Any, outgoing: list[Outgoing], sums: list[Sum]) -> Step:
        return Step(
            index=len(self._records),
            total=len(self._run.pending),
            node=node,
            op=title(node),
            name=self._names.get(node),
            line=evidence.of_node(node),
            incoming=incoming,
            outgoing=outgoing,
            accumulated=sums,
        )

    def _outgoing(self, node: Node, grads: Any) -> list[Outgoing]:
        found = []
        for i, edge in enumerate(node._edges):
            if edge is not None and grads[i] is not None:
                name, rule = input_and_rule(node, i)
                slot = 0 if node._edge_slots is None else node._edge_slots[i]
                grad = copied(grads[i])
                found.append(Outgoing(edge, slot, self._name(edge), name, rule, grad))
        return found

    def _sums(self, outgoing: list[Outgoing]) -> list[Sum]:
        """The places where what was handed on met something that was there already."""
        for out in outgoing:
            self._counts[out.node, out.slot] = self._counts.get((out.node, out.slot), 0) + 1
        sums = []
        for edge, slot in dict.fromkeys((out.node, out.slot) for out in outgoing):
            count = self._counts[edge, slot]
            if count > 1:
                total = self._run.pending[edge].total
                part = total[slot] if edge._outputs is not None else total
                sums.append(Sum(edge, self._name(edge), count, copied(part)))
        return sums

    # ------------------------------------------------------------------ names and pictures

    def _name(self, node: Node) -> str:
        name = self._names.get(node)
        return title(node) if name is None else f"`{name}` ({title(node)})"

    def _ids(self) -> dict[Node, int]:
        """The numbers that nodes have in the picture."""
        order, _ = graph_data.nodes_in_order([self._root], graph_data.LIMIT)
        return {node: i for i, node in enumerate(order)}

    def _draw_early(self) -> None:
        """The picture shows what is saved, which the pass frees: it is taken before."""
        if len(evidence.reached_from([self._root])) <= PICTURED:
            self._graph()

    def _graph(self) -> Any:
        if self._picture is None:
            from .. import diagnose

            self._picture = diagnose.graph(self._loss)
        return self._picture


def trace_backward(loss: Any, gradient: Any = None, retain_graph: bool = False) -> Trace:
    """The backward pass of `loss` as an iterator: each step runs when it is asked for.

    `str(step)` tells a step; `.data()`, `.html()` and `.save("pass.html")` tell all of them.
    """
    root = words.tensors_of([loss], "trace_backward", "loss")[0]
    if gradient is not None:
        words.tensors_of([gradient], "trace_backward", "gradient")
    return Trace(root, gradient, bool(retain_graph))


# ---------------------------------------------------------------------- texts


def title(node: Node | None) -> str:
    """A node's name without its namespace."""
    return "nothing" if node is None else evidence.node_name(node).rpartition("::")[2]


def names_of_nodes() -> dict[Node, str]:
    """The names of nodes' results in the user's running functions."""
    names: dict[Node, str] = {}
    for name, t in words.tensors_held():
        if t._node is not None and t._slot == 0:
            names.setdefault(t._node, name)
    return names


def input_and_rule_of(op: Any, index: int) -> tuple[str, str]:
    if op is None:
        return f"input {index}", "a rule of yours"
    return formulas.input_name(op, index), formulas.rule_text(op, index)


def input_and_rule(node: Any, index: int) -> tuple[str, str]:
    """The name of input `index` of a node's op, and its gradient rule as text."""
    if node._op is not None:
        return input_and_rule_of(node._op, index)
    if isinstance(node, CopySlices):
        if index == 0:
            return "base", "d/d base = grad, but what the write makes of it in the written part"
        if node.inner is None:  # released by the pass that is shown
            name, rule = input_and_rule_of(node.released, index)
        else:
            name, rule = input_and_rule(node.inner, index)
        return name, rule.replace("grad", "grad[the written part]")
    forward = getattr(node, "_forward_cls", None)
    if forward is not None:
        tensors = [i for i, meta in enumerate(node._input_metas) if meta is not None]
        arguments = forward_arguments(forward)
        name = f"input {index}"
        if index < len(tensors) and tensors[index] < len(arguments):
            name = arguments[tensors[index]]
        return name, f"d/d {name} = {forward.__name__}.backward(ctx, grad)[{tensors[index]}]"
    return f"input {index}", ""


def spell(grad: Any) -> str:
    array = host(grad._array)
    text = f"shape {tuple(array.shape)}, norm {words.digits(array_norm(array))}"
    if array.size <= 8:
        inner = np.array2string(array, precision=4, separator=", ", suppress_small=False)
        text += f"  {' '.join(inner.split())}"
    return text


# ---------------------------------------------------------------------- values


def copied(total: Any) -> Any:
    """A gradient as a tensor of its own; a tuple for a node with several outputs."""
    if type(total) is list:
        return tuple(None if part is None else copied(part) for part in total)
    array = total._array if isinstance(total, TensorBase) else as_array(total)
    return wrap(array.copy("K"))


def array_norm(array: Any) -> float:
    wide = array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
    with np.errstate(all="ignore"):
        return float(np.linalg.norm(wide.reshape(-1)))


def record(step: Step) -> dict[str, Any]:
    """A step as data, nodes still as objects."""
    return {
        "index": step.index,
        "node": step.node,
        "op": step.op,
        "rule": "; ".join(rule for rule in step.rules if rule),
        "incoming": gradient_data(step.incoming),
        "outgoing": [
            {"to": out.node, "input": out.input, "rule": out.rule, **gradient_data(out.grad)}
            for out in step.outgoing
        ],
        "accumulated": [
            {"node": total.node, "count": total.count, **gradient_data(total.grad)}
            for total in step.accumulated
        ],
        "line": step.line,
    }


def gradient_data(grad: Any) -> Any:
    """Shape, norm and a few numbers; a list of them for a node with several outputs."""
    if isinstance(grad, tuple):
        found = [gradient_data(part) for part in grad if part is not None]
        return found[0] if len(found) == 1 else found
    array = host(grad._array)
    values = array.tolist() if array.size <= SHOWN else None
    return for_json({"shape": list(array.shape), "norm": array_norm(array), "values": values})


def with_ids(entry: dict[str, Any], ids: dict[Node, int]) -> dict[str, Any]:
    """A record with the picture's numbers in the place of nodes."""
    return {
        **entry,
        "node": ids.get(entry["node"]),
        "outgoing": [{**out, "to": ids.get(out["to"])} for out in entry["outgoing"]],
        "accumulated": [{**s, "node": ids.get(s["node"])} for s in entry["accumulated"]],
    }
