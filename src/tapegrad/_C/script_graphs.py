"""The ops that a module runs, as a graph in the manner of TorchScript's.

Libraries that count ops (fvcore) trace a module with `torch.jit._get_trace_graph` and read kinds,
shapes and scopes of the nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tapegrad as tg

from ..utils._python_dispatch import TorchDispatchMode
from ..utils._pytree import tree_leaves


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
    """What flows from node to node."""

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


# The traces that are running, innermost last.
RUNNING: list[Recorder] = []


class Recorder(TorchDispatchMode):
    """Writes every op down."""

    def __init__(self) -> None:
        super().__init__()
        self.graph = Graph()
        self.values: dict[int, Value] = {}
        self.scopes: list[str] = []
        self.kept: list[Any] = []  # ids stay unique while the tensors live

    def push_scope(self, name: str) -> None:
        """What follows is done by a part of the program: hooks of libraries say which."""
        self.scopes.append(f"{self.scopes[-1]}/{name}" if self.scopes else name)

    def pop_scope(self) -> None:
        self.scopes.pop()

    def value(self, held: Any, node: Any = None) -> Value:
        if isinstance(held, tg.Tensor) and id(held) in self.values:
            return self.values[id(held)]
        made = Value(len(self.kept), held, node)
        self.kept.append(held)
        if isinstance(held, tg.Tensor):
            self.values[id(held)] = made
        return made

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        kind = f"aten::{func._overloadpacket.__name__}"
        given = [self.value(each) for each in (*args, *(kwargs or {}).values())]
        node = Node(kind, given, self.scopes[-1] if self.scopes else "")
        node.made = [self.value(each, node) for each in tree_leaves(out)]
        self.graph.list.append(node)
        return out


def trace(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Graph, Any]:
    """The graph of what a module does with an example, and its result."""
    recorder = Recorder()
    RUNNING.append(recorder)
    try:
        with recorder:
            out = module(*args, **kwargs)
    finally:
        RUNNING.pop()
    return recorder.graph, out
