"""Functions as graphs of the ops that they run, recorded below autograd.

`torch.fx.symbolic_trace` calls a function on stand-ins and writes its calls down. `make_fx` runs it
on tensors and writes the ops down: what Python decides on the way is decided, gradients that it
takes are ops like others, and sizes are the example's.
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable
from typing import Any

import tapegrad as tg

from ... import _ops
from ..._library import calls
from ...api.tensor.tensor import Tensor
from ...core.base import ORDINARY
from ...core.op import Op
from ...errors import evidence
from ...errors.absent import absent_class
from ...utils._python_dispatch import TorchDispatchMode
from ...utils._pytree import tree_flatten, tree_map, tree_unflatten
from ..graph import Graph
from ..graph_module import GraphModule
from ..node import Node
from .symbolic_shapes import GuardOnDataDependentSymNode

__all__ = ["OpTracer", "ProxyTorchDispatchMode", "get_proxy_mode", "is_fake", "make_fx"]

ProxyTorchDispatchMode = absent_class(
    "torch.fx.experimental.proxy_tensor.ProxyTorchDispatchMode", "use make_fx"
)

# Ops that hand a value to Python.
READS = ("aten::_local_scalar_dense", "aten::equal")


def is_fake(x: Tensor) -> bool:
    """Whether a tensor is a fake one: never."""
    return False


class OpTracer(TorchDispatchMode):
    """Writes the ops of a block into a graph."""

    def __init__(self) -> None:
        super().__init__()
        self.graph = Graph()
        self.root = tg.nn.Module()  # keeps the constants
        self.nodes: dict[int, Node] = {}  # by the ids of a tensor and of its array
        self.arrays: dict[int, Any] = {}  # by the id of a tensor: what it was when it was made
        self.kept: list[Any] = []
        # Our name and arguments of an op that PyTorch's does not tell all of.
        self.own: tuple[str, list[Any]] | None = None

    def note(self, tensor: Any, node: Node) -> None:
        self.nodes[id(tensor)] = node
        self.arrays[id(tensor)] = tensor._array
        if tensor._special == ORDINARY:
            self.nodes[id(tensor._array)] = node
        self.kept += [tensor, tensor._array]  # so that an id means one of them
        node.meta["val"] = without_values(tensor)

    def placeholder(self, name: str, value: Any) -> Node:
        node = self.graph.placeholder(name)
        if isinstance(value, Tensor):
            self.note(value, node)
        else:
            node.meta["val"] = value
        return node

    def find(self, tensor: Any) -> Node | None:
        """The node of a tensor. Autograd makes other tensors of one array, as for saved values."""
        node = self.nodes.get(id(tensor))
        if node is None and tensor._special == ORDINARY:
            node = self.nodes.get(id(tensor._array))
        return node

    def node_of(self, value: Any) -> Any:
        """The graph's node for a value; a tensor that nothing made is a constant."""
        if not isinstance(value, Tensor):
            return value
        node = self.find(value)
        if node is None:
            name = f"_tensor_constant{len(self.root._buffers)}"
            self.root.register_buffer(name, value.detach())
            node = self.graph.get_attr(name)
            node.meta["constant"] = True
            self.note(value, node)
        elif self.arrays.get(id(value), value._array) is not value._array:
            # `squeeze_` and its like give a tensor another shape, and are no ops here.
            where = (list(value.shape), list(value.stride()), value.storage_offset())
            node = self.graph.call_function(tg.ops.aten.as_strided.default, (node, *where))
            self.note(value, node)
        return node

    def run(
        self, op: Op, tensors: tuple[Any, ...], attrs: tuple[Any, ...], watch: tuple[Any, ...]
    ) -> Any:
        values = calls.values_of(op, tensors, attrs, watch)
        overload = _ops.overload_of(op, tensors, attrs)
        fits = op.aten is None or calls.tells_all(op, overload, tensors, values)
        self.own = None if fits else (op.name, list(values.values()))
        return super().run(op, tensors, attrs, watch)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func.name().partition(".")[0] in READS:
            self.refuse_reading(func, args)
            return func(*args, **kwargs)
        own, self.own = self.own, None
        target = func if own is None else getattr(tg.ops.tapegrad, own[0]).default
        told = (tuple(args), kwargs) if own is None else (tuple(own[1]), {})
        given = tree_map(self.node_of, told)
        out = func(*args, **kwargs)
        name = target._overloadpacket.__name__
        node = self.graph.create_node("call_function", target, *given, name=name)
        node.meta["place"] = evidence.here()
        if isinstance(out, Tensor):
            self.note(out, node)
        elif isinstance(out, (list, tuple)):
            node.meta["val"] = [without_values(each) for each in out]
            for i, each in enumerate(out):
                if isinstance(each, Tensor):
                    self.note(each, self.graph.call_function(operator.getitem, (node, i)))
        return out

    def refuse_reading(self, func: Any, args: Any) -> None:
        known = [self.find(each) for each in args if isinstance(each, Tensor)]
        if all([node is None or node.meta.get("constant") for node in known]):
            return  # a constant, which it stays
        place = evidence.here()
        where = "" if place is None else f"\n  at {evidence.spell(place)}"
        raise GuardOnDataDependentSymNode(
            "Could not guard on data-dependent expression: the values of a tensor are handed to "
            f"Python, which a graph cannot follow{where}"
        )

    def finish(self, out: Any) -> GraphModule:
        """The module of a graph that returns this."""
        self.graph.output(tree_map(self.node_of, out))
        return GraphModule(self.root, self.graph)


def without_values(tensor: Any) -> Any:
    """A tensor on the meta device with the shape, strides and dtype of `tensor`."""
    if not isinstance(tensor, Tensor):
        return tensor
    with tg.no_grad():
        return tg.empty_strided(
            tuple(tensor.shape), tensor.stride(), dtype=tensor.dtype, device="meta"
        )


def make_fx(
    f: Callable[..., Any],
    decomposition_table: Any = None,
    tracing_mode: str = "real",
    **options: Any,
) -> Callable[..., GraphModule]:
    """A function that takes an example and gives the graph of what `f` does with it.

    >>> from tapegrad.fx.experimental.proxy_tensor import make_fx
    >>> print(make_fx(lambda x: x.sin() + 1)(ones(2)).code.strip())
    def forward(self, x_1):
        sin = torch.ops.aten.sin.default(x_1);  x_1 = None
        add = torch.ops.aten.add.Tensor(sin, 1);  sin = None
        return add
    """
    if tracing_mode not in ("real", "fake", "symbolic"):
        raise ValueError(f"Unexpected tracing type: {tracing_mode}")

    @functools.wraps(f)
    def wrapped(*args: Any) -> GraphModule:
        flat, spec = tree_flatten(args)
        tracer = OpTracer()
        # Every input is a tensor of its own, so that one that is given twice is two inputs.
        flat = [
            each.detach().requires_grad_(each.requires_grad) if isinstance(each, Tensor) else each
            for each in flat
        ]
        for name, each in zip(argument_names(f, args, len(flat)), flat, strict=True):
            tracer.placeholder(name, each)
        with tracer:
            out = f(*tree_unflatten(flat, spec))
        return tracer.finish(out)

    return wrapped


def argument_names(f: Any, args: tuple[Any, ...], count: int) -> list[str]:
    """`x_1`, after the parameters; by number where an argument is not one tensor."""
    try:
        names = list(inspect.signature(f).parameters)[: len(args)]
    except (TypeError, ValueError):
        names = []
    if len(names) == count:
        return [f"{name}_1" for name in names]
    return [f"arg{i}_1" for i in range(count)]


def get_proxy_mode() -> Any:
    """The mode that traces ops at the moment: none that can be asked."""
    return None
