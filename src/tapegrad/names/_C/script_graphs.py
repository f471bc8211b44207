"""The ops that a module runs, as a graph in the manner of TorchScript's.

Libraries that count ops (fvcore) trace a module with `torch.jit._get_trace_graph` and read kinds,
shapes and scopes of the nodes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import tapegrad as tg
from tapegrad.overrides import TorchFunctionMode
from tapegrad.utils._python_dispatch import TorchDispatchMode
from tapegrad.utils._pytree import tree_leaves


class Type:
    """The type of a value: a tensor of some shape, or something else."""

    def __init__(self, value: Any) -> None:
        self.shape = list(value.shape) if isinstance(value, tg.Tensor) else None
        self.name = type(value).__name__

    def kind(self) -> str:
        return "TensorType" if self.shape is not None else f"{self.name.capitalize()}Type"

    def isSubtypeOf(self, other: Any) -> bool:
        return self.kind() == other.kind()

    def sizes(self) -> list[int] | None:
        return self.shape


class Value:
    """A value between nodes of a graph."""

    def __init__(self, number: int, value: Any, node: Any = None) -> None:
        self.number, self.held, self.maker = number, value, node
        self.is_constant = not isinstance(value, tg.Tensor)

    def type(self) -> Type:
        return Type(self.held)

    def isCompleteTensor(self) -> bool:
        return isinstance(self.held, tg.Tensor)

    def toIValue(self) -> Any:
        """The value itself, of a constant."""
        return self.held if self.is_constant else None

    def debugName(self) -> str:
        return str(self.number)

    def node(self) -> Any:
        return self.maker

    def __repr__(self) -> str:
        return f"%{self.number}"


class Node:
    """One op, with the module that ran it."""

    def __init__(self, kind: str, inputs: list[Value], scope: str) -> None:
        self.name, self.given, self.made, self.scope = kind, inputs, list[Value](), scope

    def kind(self) -> str:
        return self.name

    def inputs(self) -> Iterator[Value]:
        return iter(self.given)

    def outputs(self) -> Iterator[Value]:
        return iter(self.made)

    def scopeName(self) -> str:
        return self.scope

    def __repr__(self) -> str:
        left = ", ".join(map(repr, self.made))
        return f"{left} = {self.name}({', '.join(map(repr, self.given))})"


class Graph:
    """The nodes in the order in which they ran."""

    def __init__(self) -> None:
        self.list: list[Node] = []

    def nodes(self) -> Iterator[Node]:
        return iter(self.list)

    def __repr__(self) -> str:
        return "\n".join(["graph:", *[f"  {node!r}" for node in self.list]])


# Functions that PyTorch's traces have as one op, with its arguments in order; the others are seen
# as the ops that they are made of.
WHOLE = {
    "adaptive_avg_pool1d": "input output_size",
    "adaptive_avg_pool2d": "input output_size",
    "adaptive_avg_pool3d": "input output_size",
    "batch_norm": "input weight bias running_mean running_var training momentum eps",
    "dropout": "input p training",
    "einsum": "args",
    "flatten": "input start_dim end_dim",
    "group_norm": "input num_groups weight bias eps",
    "gru": "args",
    "instance_norm": "input weight bias running_mean running_var use_input_stats momentum eps",
    "layer_norm": "input normalized_shape weight bias eps",
    "linear": "input weight bias",
    "log_softmax": "input dim dtype",
    "lstm": "args",
    "matmul": "input other",
    "rnn_relu": "args",
    "rnn_tanh": "args",
    "scaled_dot_product_attention": "query key value attn_mask dropout_p is_causal",
    "softmax": "input dim dtype",
}
# What they call an op that they see, and its further arguments there.
CALLED: dict[str, tuple[str, tuple[Any, ...]]] = {
    "convolution": ("_convolution", (False, False, True, True))  # switches of cuDNN's
}

# The traces that are running, innermost last.
RUNNING: list[Recorder] = []


class Functions(TorchFunctionMode):
    """Hands the calls of WHOLE functions to the recorder, in one piece."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self.recorder = recorder

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__name__", "") in WHOLE:
            return self.recorder.whole(func, args, kwargs)
        return func(*args, **kwargs)


class Recorder(TorchDispatchMode):
    """Writes every op down."""

    def __init__(self) -> None:
        super().__init__()
        self.graph = Graph()
        self.values: dict[int, Value] = {}
        self.scopes: list[str] = []
        self.kept: list[Any] = []  # ids stay unique while the tensors live

    def push_scope(self, name: str) -> None:
        """Name the part of the program that the next nodes belong to; libraries call it."""
        self.scopes.append(f"{self.scopes[-1]}/{name}" if self.scopes else name)

    def pop_scope(self) -> None:
        self.scopes.pop()

    def value(self, held: Any, node: Any = None) -> Value:
        if isinstance(held, tg.Tensor) and id(held) in self.values:
            return self.values[id(held)]
        if isinstance(held, (list, tuple)) and any([isinstance(h, tg.Tensor) for h in held]):
            node = Node("prim::ListConstruct", [self.value(each) for each in held], "")
        made = Value(len(self.kept), held, node)
        self.kept.append(held)
        if isinstance(held, tg.Tensor):
            self.values[id(held)] = made
        return made

    def add(self, kind: str, given: list[Any], out: Any) -> None:
        inputs = [self.value(each) for each in given]
        node = Node(f"aten::{kind}", inputs, self.scopes[-1] if self.scopes else "")
        node.made = [self.value(each, node) for each in tree_leaves(out)]
        self.graph.list.append(node)

    def whole(self, func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """One node for a function, whatever ops it runs."""
        before = len(self.graph.list)
        out = func(*args, **kwargs)
        del self.graph.list[before:]
        given = inspect.signature(func).bind(*args, **kwargs)
        given.apply_defaults()
        names = WHOLE[func.__name__].split()
        found = [given.arguments.get(name) for name in names]
        if names == ["args"]:
            found = list(args)
        if func.__name__ == "einsum":
            operands = found[1:]
            several = len(operands) != 1 or isinstance(operands[0], tg.Tensor)
            found = [found[0], operands if several else list(operands[0])]
        self.add(func.__name__, found, out)
        return out

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        name = func._overloadpacket.__name__
        name, more = CALLED.get(name, (name, ()))
        self.add(name, [*args, *(kwargs or {}).values(), *more], out)
        return out


def trace(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Graph, Any]:
    """The graph of what a module does with an example, and its result."""
    recorder = Recorder()
    RUNNING.append(recorder)
    try:
        with recorder, Functions(recorder):
            out = module(*args, **kwargs)
    finally:
        RUNNING.pop()
    return recorder.graph, out
