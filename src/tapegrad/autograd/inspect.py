"""Nodes as users inspect them: `_saved_*` attributes, `metadata`, hooks."""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from .. import dtypes, errors
from ..core.arguments import reduction_number
from ..core.base import STATE, Node, TensorBase, wrap
from ..core.late_bound import INSPECTION
from ..core.lazy_conj import plain
from ..core.modes import MODES
from ..core.node import AccumulateGrad, OpNode, Packed, fill_in, unpack_checked
from ..device import CPU
from .edges import output_facts
from .hooks import add_hook, differentiable_places, hooks_of
from .saved import SavedTensor

# How PyTorch's formulas spell our names.
SPELLED = {"input": "self", "out": "result", "low": "min", "high": "max"}
INDEXING: set[str] = set()  # ops whose first attribute is a tuple of indices; they add theirs
FACTS = {"shape": "sym_sizes", "strides": "sym_strides", "dtype": "scalar_type"}


@functools.cache
def first_name(aten: str | None) -> str:
    """PyTorch's name for the first tensor of an op: `self`, or `input` of convolutions."""
    from .._library.schema import aten_schemas

    declared = aten_schemas(aten.partition(".")[0]) if aten else []
    names = {argument.name for schema in declared for argument in schema.arguments}
    return "input" if "input" in names and "self" not in names else "self"


def saved_places(node: Any) -> dict[str, int]:
    """PyTorch's name for every value that this node's rules read, with its place in `_kept`."""
    op = node._op
    places: dict[str, int] = {}
    rules = [op.joint] if op.joint is not None else [r for r in op.rules if r is not None]
    spelled = SPELLED | {"input": first_name(op.aten)}
    fact_start = op.width + len(op.outs) + len(op.attrs)
    for rule in rules:
        for place in rule.places:
            if place < op.width:
                name = spelled.get(op.tensors[place], op.tensors[place])
            elif place < op.width + len(op.outs):
                name = op.outs[place - op.width]
                name = spelled.get(name, name)
            elif place < fact_start:
                name = op.attrs[place - op.width - len(op.outs)]
                name = spelled.get(name, name)
            else:
                index, what = op.metas[place - fact_start]
                owner = op.tensors[max(index, 0)]
                name = f"{spelled.get(owner, owner)}_{FACTS[what]}"
            places[name] = place
    return places


def unpacking_order(node: Any) -> list[int]:
    """The places of saved tensors: inputs in the order of PyTorch's names, then outputs."""
    width = node._op.width
    names = {place: name for name, place in saved_places(node).items()}
    inputs = sorted(range(width), key=lambda place: names.get(place, ""))
    return [*inputs, *range(width, width + len(node._op.outs))]


def node_attribute(node: Any, name: str) -> Any:
    """`grad_fn._saved_self` and friends; raises AttributeError for anything else."""
    if isinstance(node, OpNode):
        raw = name.startswith("_raw_saved_")
        if raw or name.startswith("_saved_"):
            wanted = name[11:] if raw else name[7:]
            places = saved_places(node)
            place = places.get(wanted)
            if wanted == "indices" and node._op.name in INDEXING:
                return index_tensors(node, places[node._op.attrs[0]], raw)
            if place is not None:
                value: Any = raw_saved(node, place) if raw else saved_value(node, place)
                if wanted.endswith("_sym_strides") and isinstance(value, tuple):
                    return in_elements(node, value)
                return reduction_number(value) if wanted == "reduction" else value
            sizes = places.get(wanted.replace("_sym_numel", "_sym_sizes"))
            if wanted.endswith("_sym_numel") and sizes is not None:
                return math.prod(saved_value(node, sizes))
            if wanted.endswith("_sym_sizes_opt"):  # PyTorch has (0,) for what was not given
                return node_attribute(node, f"_saved_{wanted.removesuffix('_opt')}") or (0,)
            owner, _, which = wanted.partition("_sym_argsize_")
            if which:
                place = int(which.replace("minus_", "-"))
                return node_attribute(node, f"_saved_{owner}_sym_sizes")[place]
            if wanted.endswith("_sym_sizes") and wanted[:-10] in places:
                saved = saved_value(node, places[wanted[:-10]])
                return () if saved is None else tuple(saved.shape)
    kind = node.name().rpartition("::")[2]
    raise AttributeError(f"'{kind}' object has no attribute '{name}'")


def index_tensors(node: Any, place: int, raw: bool) -> tuple[Any, ...]:
    """The indices of `x[...]`, one per dimension; None for slices, which select nothing."""
    node.check_versions()
    items = saved_value(node, place)
    found = [None if isinstance(item, slice) else wrap(item) for item in items]
    if not raw:
        return tuple(found)
    freed = functools.partial(is_freed, node)
    return tuple([SavedTensor(functools.partial(same, t), no_hooks, freed) for t in found])


def is_freed(node: Any) -> bool:
    return node._kept is None


def same(t: Any) -> Any:
    return t


def no_hooks(pack: Any, unpack: Any) -> None:
    """Indices are read as they are: the hooks of a user get none of them."""


def in_elements(node: Any, strides: tuple[int, ...]) -> tuple[int, ...]:
    """Strides in bytes, of an op whose tensors have one dtype, as PyTorch counts them."""
    for value in node._kept:
        size = getattr(value, "itemsize", 0)
        if size:
            return tuple([n // size for n in strides])
    return strides


def node_attributes(node: Any) -> list[str]:
    names = list(object.__dir__(node))
    if isinstance(node, OpNode):
        for name in saved_places(node):
            if node._op.name in INDEXING and name == node._op.attrs[0]:
                name = "indices"
            names += [f"_saved_{name}", f"_raw_saved_{name}"]
    return sorted(set(names))


def saved_value(node: OpNode, place: int) -> Any:
    """The saved value as users see it: a tensor with its history, a number, a shape."""
    kept = node._kept
    if kept is None:
        if place < node._op.width and not is_read(node, place):
            return None  # it was never saved
        raise errors.freed_graph(node)
    cells = node._cells
    places = range(0, len(cells), 3)
    own = [k for k in places if type(cells[k]) is int and cells[k] == place]
    changed = [cells[k + 1].n != cells[k + 2] for k in own]
    if any(changed) or (changed and STATE.detached):
        node.check_versions()  # of other values nothing is asked
    value = node.with_newest(kept)[place]
    op = node._op
    if place >= op.width + len(op.outs):
        return value
    if isinstance(value, Packed):
        t = unpack_checked(value)
        return node.saved_tensor(place, t._array, t._version_cell())
    if own:
        return node.saved_tensor(place, value, cells[own[0] + 1])
    if isinstance(value, (int, float, complex)):
        kind = np.int64 if isinstance(value, int) else np.float64
        return wrap(np.array(value, None if isinstance(value, complex) else kind))
    return value


def is_read(node: OpNode, place: int) -> bool:
    """Whether a rule reads the input at `place` for an input that requires grad."""
    op = node._op
    if op.joint is not None:
        return True
    pairs = zip(op.rules, node._edges, strict=False)
    return any(
        [rule is not None and edge is not None and place in rule.places for rule, edge in pairs]
    )


def raw_saved(node: OpNode, place: int) -> SavedTensor:
    """The saved value at `place` before unpacking."""

    def look() -> Any:
        if node._kept is None:
            raise errors.freed_graph(node)
        value = node._kept[place]
        if isinstance(value, Packed):
            return value
        # An output is kept without its history, which is this node.
        return saved_value(node, place) if place < node._op.width else wrap(value)

    return SavedTensor(
        look,
        lambda pack, unpack: pack_place(node, place, pack, unpack),
        functools.partial(is_freed, node),
    )


def pack_place(node: OpNode, place: int, pack: Any, unpack: Any) -> None:
    """Put the saved tensor at `place` through a pair of hooks."""
    from .grad_mode import no_grad

    kept = list(node._kept or ())
    t = wrap(kept[place])
    for k in range(0, len(node._cells), 3):
        if node._cells[k] == place:
            t = node.saved_tensor(place, kept[place], node._cells[k + 1])
    before = t._version_cell().n
    with no_grad():
        packed = pack(t)
    if t._version_cell().n != before:
        raise RuntimeError(
            "A saved tensor pack hook is modifying its input in place. Tensors provided as input "
            "to pack hook cannot be modified by in-place operations as this can lead to "
            "unexpected side-effects. Please open an issue if you need to perform in-place "
            "operations on the input to a pack hook."
        )
    kept[place] = Packed(packed, unpack)
    node._kept = tuple(kept)
    node._packed = True
    cells: list[Any] = []
    for k in range(0, len(node._cells), 3):
        if node._cells[k] != place:
            cells.extend(node._cells[k : k + 3])
    node._cells = tuple(cells)


def register_hook(node: Node, fn: Any, before: bool) -> Any:
    hooks = hooks_of(node)
    return add_hook(hooks.before_node if before else hooks.after_node, fn)


class InputMetadata(NamedTuple):
    """The shape and dtype of the gradient for one output; PyTorch calls these a node's inputs."""

    shape: list[int]
    dtype: Any
    device: Any
    is_nested_tensor: bool = False
    is_cpp_nested_tensor: bool = False
    is_tensor_subclass: bool = False


def input_metadata(node: Node) -> tuple[InputMetadata, ...]:
    """One entry for each output of a node that was got from its tensor."""
    facts = output_facts(node)
    if facts is None:
        raise RuntimeError("the shape of this node's output is known to its tensor's grad_fn only")
    plain = node._op.plain_outs if node._op is not None else ()
    made = [fact for i, fact in enumerate(facts) if fact is not None and i not in plain]
    return tuple([InputMetadata(list(shape), dtypes.of(dtype), CPU) for shape, dtype in made])


# ---------------------------------------------------------------------- as PyTorch's objects

_classes: dict[str, type] = {}


def shown(node: Node) -> Node | None:
    """A node as users get it. Recording makes plain nodes; those that are looked at get a class
    that is named as PyTorch's and can be called, and differs in nothing else."""
    kind = type(node)
    if isinstance(node, AccumulateGrad) and node.follows:
        return None
    if kind is OpNode or kind is AccumulateGrad:
        node.__class__ = class_named(node.name().rpartition("::")[2], kind)
    return node


def class_named(name: str, kind: type) -> type:
    """The class of the nodes of that name."""
    cls = _classes.get(name)
    if cls is None:
        body = {"__slots__": (), "__module__": "builtins", "__call__": call}
        if kind is OpNode:
            body["__getattr__"] = node_attribute
        cls = _classes[name] = type(name, (kind,), body)
    return cls


def call(node: Node, *grads: Any) -> Any:
    """`grad_fn(grad)`: one gradient per output; as a tuple if there are several inputs."""
    width = 1 if node._outputs is None else len(node._outputs)
    if node._op is not None and len(grads) < width:
        last = [i for i in range(width) if i not in node._op.plain_outs][-1]
        if len(grads) == last + 1:  # PyTorch does not count outputs without gradient at the end
            grads += (None,) * (width - len(grads))
    if len(grads) != width:
        raise TypeError(f"expected {width} arguments, got {len(grads)} instead")
    for i, g in enumerate(grads):
        if g is not None and not isinstance(g, TensorBase):
            raise TypeError(f"argument {i} is not a Variable")
    record = MODES.grad
    parts: list[Any] = [g if g is None or record else plain(g._array) for g in grads]
    total = parts[0] if node._outputs is None else parts
    if isinstance(node, AccumulateGrad):
        node._accumulate(total, record, 0, None)
        return ()
    if type(total) is list:
        fill_in(node, total, record)
    # The engine brings gradients to the shapes and dtypes of the inputs, not the node.
    fixes, node._fixes = node._fixes, None
    try:
        made = node._pull(total, record)
    finally:
        node._fixes = fixes
    places = differentiable_places(node)
    found = [
        as_result(made[i]) if made[i] is not None and has_edge(node, i) else None for i in places
    ]
    return found[0] if len(found) == 1 else tuple(found)


def has_edge(node: Node, i: int) -> bool:
    edge = node._edges[i]
    return edge is not None and shown(edge) is not None


def as_result(g: Any) -> Any:
    return g if isinstance(g, TensorBase) else wrap(g)


INSPECTION.attributes = node_attributes
INSPECTION.unpacking_order = unpacking_order
INSPECTION.shown_edges = differentiable_places
INSPECTION.register_hook = register_hook
INSPECTION.shown = shown
INSPECTION.call = call
INSPECTION.input_metadata = input_metadata
