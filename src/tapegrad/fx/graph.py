"""A graph of nodes, and the Python that it means."""

from __future__ import annotations

import builtins
import copy
import keyword
import math
import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import tapegrad as tg

from .node import (
    Node,
    Target,
    _get_qualified_name,
    _type_repr,
    map_arg,
)

__all__ = ["CodeGen", "Graph", "PythonCode"]

OPERATORS = {
    operator.add: "+", operator.sub: "-", operator.mul: "*", operator.matmul: "@",
    operator.truediv: "/", operator.floordiv: "//", operator.mod: "%", operator.pow: "**",
    operator.lt: "<", operator.le: "<=", operator.gt: ">", operator.ge: ">=", operator.eq: "==",
    operator.ne: "!=", operator.and_: "&", operator.or_: "|", operator.xor: "^",
    operator.lshift: "<<", operator.rshift: ">>", operator.getitem: "[]",
}  # fmt: skip
UNARY = {operator.neg: "-", operator.pos: "+", operator.invert: "~"}
INPLACE = {
    getattr(operator, name): sign
    for name, sign in {
        "iadd": "+=", "iand": "&=", "ifloordiv": "//=", "ilshift": "<<=", "imod": "%=",
        "imul": "*=", "imatmul": "@=", "ior": "|=", "ipow": "**=", "irshift": ">>=", "isub": "-=",
        "itruediv": "/=", "ixor": "^=",
    }.items()
}  # fmt: skip


class _Namespace:
    """Names that are used once: `add`, `add_1`, `add_2`."""

    def __init__(self) -> None:
        self._owner: dict[str, Any] = {}
        self._next: dict[str, int] = {}

    def create_name(self, candidate: str, obj: Any) -> str:
        candidate = re.sub(r"[^0-9a-zA-Z_]+", "_", candidate) or "_unnamed"
        if candidate[0].isdigit():
            candidate = f"_{candidate}"
        match = re.match(r"(.*)_(\d+)$", candidate)
        base, number = (match[1], int(match[2])) if match else (candidate, None)
        name = candidate
        if number is None:
            number = self._next.get(candidate, 0)
        while name in self._owner or self._is_taken(name, obj):
            number += 1
            name = f"{base}_{number}"
        self._owner[name] = obj
        self._next[base] = number
        return name

    def _is_taken(self, name: str, obj: Any) -> bool:
        if keyword.iskeyword(name):
            return True
        if getattr(builtins, name, None) is not None:
            return getattr(builtins, name) is not obj
        return name in ("inf", "nan", "NoneType", "torch", "device") and obj is not GLOBALS[name]

    def rename(self, node: Node, name: str) -> None:
        self._owner.pop(node.name, None)
        node.name = self.create_name(name, node)


GLOBALS: dict[str, Any] = {
    "inf": math.inf, "nan": math.nan, "NoneType": type(None), "torch": tg, "device": tg.device
}  # fmt: skip


@dataclass
class PythonCode:
    """Source text, and the globals that it needs."""

    src: str
    globals: dict[str, Any]
    _lineno_map: dict[int, int | None] | None = None
    _prologue_start: int = 0


def _snake_case(text: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", text).lower()


def _is_from_torch(obj: Any) -> bool:
    """Whether generated code reaches an object through `torch`."""
    name = _get_qualified_name(obj)
    if not name.startswith("torch."):
        return False
    found: Any = tg
    for part in name.split(".")[1:]:
        found = getattr(found, part, None)
    return found is obj


class CodeGen:
    """Turns a graph into the source of a function; a subclass may change what is around it.

    >>> traced = torch.fx.symbolic_trace(lambda x: x + 1)
    >>> isinstance(traced.graph._codegen, torch.fx.CodeGen)
    True
    """

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str) -> str:
        """The line of the `def`."""
        names = free_vars if free_vars and free_vars[0] == "self" else ["self", *free_vars]
        return f"def forward({', '.join(names)}){maybe_return_annotation}:"

    def generate_output(self, output_args: Any, *, descs: Any = None) -> str:
        """The line of the `return`."""
        return f"return {output_args!r}"

    def process_inputs(self, *args: Any) -> Any:
        """The values that an interpreter gives to the placeholders."""
        return args

    def process_outputs(self, outputs: Any) -> Any:
        """The result that an interpreter makes of the value of the output."""
        return outputs

    def additional_globals(self) -> list[tuple[str, Any]]:
        return []

    def _gen_python_code(self, nodes: Any, root_module: str) -> PythonCode:
        writer = _Writer(root_module)
        free: list[str] = []
        lines: list[str] = []
        for name, value in self.additional_globals():
            writer.globals[name] = value
        last_use = _last_uses(nodes)
        returned = ""
        for node in nodes:
            if node.op == "placeholder":
                text, first = writer.placeholder(node)
                free.append(text)
                lines += first
                continue
            if node.op == "output":
                returned = "" if node.type is None else f" -> {writer.type_name(node.type)}"
                output = map_arg(node.args[0], lambda n: n)
                lines.append(self.generate_output(writer.argument(output)))
                continue
            lines.append(writer.statement(node) + writer.deleted(node, last_use.get(node, [])))
        wraps = "\n".join(f'torch.fx._symbolic_trace.wrap("{name}")' for name in writer.wrapped)
        body = "\n".join(f"    {line}" for line in lines or ["pass"])
        src = f"\n{wraps}\n\n{self.gen_fn_def(free, returned)}\n{body}\n    "
        return PythonCode(src, writer.globals)


def _last_uses(nodes: Any) -> dict[Node, list[Node]]:
    """After which node a value is not needed any more."""
    last: dict[Node, list[Node]] = {}
    seen: set[Node] = set()
    for node in reversed(list(nodes)):
        for used in node.all_input_nodes:
            if used not in seen:
                seen.add(used)
                last.setdefault(node, []).append(used)
    return last


class _Text(str):
    """Text that stands for itself in a printed argument."""

    def __repr__(self) -> str:
        return str(self)


@dataclass
class _Writer:
    """Writes nodes as statements and collects the globals that they need."""

    root: str
    globals: dict[str, Any] = field(default_factory=dict)
    wrapped: dict[str, None] = field(default_factory=dict)

    def add_global(self, hint: str, value: Any) -> str:
        if _is_from_torch(value) and value is not tg.device:
            self.globals["torch"] = tg
            return _get_qualified_name(value)
        name = hint.replace(".", "_")
        known = self.globals.get(name, value)
        while known is not value:
            name += "_"
            known = self.globals.get(name, value)
        self.globals[name] = value
        return name

    def type_name(self, kind: Any) -> str:
        if getattr(builtins, getattr(kind, "__name__", ""), None) is kind or kind is None:
            return _type_repr(kind)
        return self.add_global(_type_repr(kind), kind)

    def argument(self, value: Any) -> Any:
        """A value whose repr is the expression for it."""
        if isinstance(value, Node):
            return _Text(value.name)
        if isinstance(value, tuple):
            made = [self.argument(each) for each in value]
            if hasattr(value, "_fields"):
                name = self.add_global(type(value).__name__, type(value))
                return _Text(f"{name}({', '.join(map(repr, made))})")
            return tuple(made)
        if isinstance(value, list):
            return [self.argument(each) for each in value]
        if isinstance(value, dict):
            return {key: self.argument(each) for key, each in value.items()}
        if isinstance(value, slice):
            return slice(*[self.argument(each) for each in (value.start, value.stop, value.step)])
        if isinstance(value, tg.dtype):
            self.globals["torch"] = tg
        elif isinstance(value, tg.device):
            self.globals["device"] = tg.device
        elif isinstance(value, float) and not math.isfinite(value):
            self.globals.update({"inf": math.inf, "nan": math.nan})
        elif isinstance(value, type) or callable(value):
            return _Text(self.add_global(_get_qualified_name(value), value))
        return value

    def arguments(self, args: Any, kwargs: Any) -> str:
        given = [repr(self.argument(each)) for each in args]
        given += [f"{key} = {self.argument(each)!r}" for key, each in kwargs.items()]
        return ", ".join(given)

    def placeholder(self, node: Node) -> tuple[str, list[str]]:
        """The parameter of an input, and a first line where it goes by another name."""
        kind = "" if node.type is None else f" : {self.type_name(node.type)}"
        default = f" = {self.argument(node.args[0])!r}" if node.args else ""
        target = str(node.target)
        plain = target.lstrip("*")
        return f"{target}{kind}{default}", [f"{node.name} = {plain}"] if plain != node.name else []

    def path(self, target: str) -> str:
        """`self.a.b`, or getattr where a name is no identifier."""
        text = self.root
        for part in target.split("."):
            plain = part.isidentifier() and not keyword.iskeyword(part)
            text = f"{text}.{part}" if plain else f'getattr({text}, "{part}")'
        return text

    def statement(self, node: Node) -> str:
        kind = "" if node.type is None else f" : {self.type_name(node.type)}"
        made = f"{node.name}{kind} = "
        if node.op == "get_attr":
            return made + self.path(str(node.target))
        if node.op == "call_module":
            return f"{made}{self.path(str(node.target))}({self.arguments(node.args, node.kwargs)})"
        if node.op == "call_method":
            owner = repr(self.argument(node.args[0]))
            return f"{made}{owner}.{node.target}({self.arguments(node.args[1:], node.kwargs)})"
        return self.call(node, made)

    def call(self, node: Node, made: str) -> str:
        target: Any = node.target
        given = [repr(self.argument(each)) for each in node.args]
        if not node.kwargs:
            if target is operator.getitem:
                return f"{made}{given[0]}[{given[1]}]"
            if target in OPERATORS and len(given) == 2:
                return f"{made}{given[0]} {OPERATORS[target]} {given[1]}"
            if target in UNARY and len(given) == 1:
                return f"{made}{UNARY[target]}{given[0]}"
            if target in INPLACE and len(given) == 2:
                return f"{given[0]} {INPLACE[target]} {given[1]};  {made}{given[0]}"
            name = node.args[1] if target is getattr and len(given) == 2 else None
            if isinstance(name, str) and name.isidentifier():
                return f"{made}{given[0]}.{name}"
        qualified = _get_qualified_name(target)
        # As PyTorch's text has it: the module that `operator` is made of.
        hint = f"_{qualified}" if qualified.startswith("operator.") else qualified
        known = self.add_global(hint, target)
        if node.meta.get("is_wrapped"):
            self.wrapped[known] = None
        return f"{made}{known}({self.arguments(node.args, node.kwargs)})"

    def deleted(self, node: Node, done: list[Node]) -> str:
        """`x = None` for values that nobody needs after this line."""
        names = [each.name for each in done]
        if not node.users:
            names.append(node.name)
        return f";  {' = '.join([*names, 'None'])}" if names else ""


class _node_list:
    """The nodes of a graph, in order."""

    def __init__(self, graph: Graph, direction: str = "_next") -> None:
        self.graph, self.direction = graph, direction

    def __len__(self) -> int:
        return self.graph._len

    def __iter__(self) -> Iterator[Node]:
        root = self.graph._root
        current = getattr(root, self.direction)
        while current is not root:
            # What follows is read first: the node may be erased or moved meanwhile.
            if not current._erased:
                yield current
            current = getattr(current, self.direction)

    def __reversed__(self) -> _node_list:
        return _node_list(self.graph, "_prev" if self.direction == "_next" else "_next")


class _InsertPoint:
    def __init__(self, graph: Graph, insert: Callable[[Node], None]) -> None:
        self.graph = graph
        self.before, graph._insert = graph._insert, insert

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        self.graph._insert = self.before


class Graph:
    """Nodes in the order in which they run.

    >>> graph = torch.fx.Graph()
    >>> x = graph.placeholder("x")
    >>> _ = graph.output(graph.call_function(torch.relu, (x,)))
    >>> print(graph)
    graph():
        %x : [num_users=1] = placeholder[target=x]
        %relu : [num_users=1] = call_function[target=torch.relu](args = (%x,), kwargs = {})
        return relu
    """

    def __init__(
        self, owning_module: Any = None, tracer_cls: Any = None, tracer_extras: Any = None
    ) -> None:
        self._root = Node(self, "", "root", "", (), {})
        self._insert: Callable[[Node], None] = self._root.prepend
        self._len = 0
        self._graph_namespace = _Namespace()
        self._owners = 0
        self.owning_module = owning_module
        self._tracer_cls, self._tracer_extras = tracer_cls, tracer_extras
        self._codegen: CodeGen = CodeGen()
        self._co_fields: dict[str, Any] = {}

    @property
    def nodes(self) -> _node_list:
        return _node_list(self)

    def output_node(self) -> Node:
        """The node that says what is returned."""
        found = next(iter(reversed(self.nodes)))
        if found.op != "output":
            raise AssertionError(f"Expected output node, got {found.op}")
        return found

    def find_nodes(self, *, op: str, target: Any = None, sort: bool = True) -> list[Node]:
        """The nodes of one kind and, if it is given, one target."""
        return [n for n in self.nodes if n.op == op and target in (None, n.target)]

    def create_node(
        self,
        op: str,
        target: Target,
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Add a node at the insert point."""
        candidate = name if name is not None else self._target_to_str(target)
        node_name = self._graph_namespace.create_name(candidate, None)
        node = Node(self, node_name, op, target, args or (), kwargs or {}, type_expr)
        self._insert(node)
        self._len += 1
        return node

    def _target_to_str(self, target: Target) -> str:
        if isinstance(target, str):
            text = target
            if text.startswith("__") and text.endswith("__"):
                text = text[2:-2]
        else:
            text = target.__name__
        return _snake_case(text)

    def erase_node(self, to_erase: Node) -> None:
        """Remove a node that nobody uses."""
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in "
                f"the graph: {to_erase.users}!"
            )
        if to_erase.graph is not self:
            raise RuntimeError(f"Attempting to remove {to_erase} from wrong graph!")
        if to_erase._erased:
            return
        to_erase._remove_from_list()
        to_erase._erased = True
        self._len -= 1
        to_erase._set_arguments((), {})

    def inserting_before(self, n: Node | None = None) -> _InsertPoint:
        """New nodes go before this one, inside a `with` block or from now on."""
        return _InsertPoint(self, (self._root._next if n is None else n).prepend)

    def inserting_after(self, n: Node | None = None) -> _InsertPoint:
        """New nodes go after this one."""
        return _InsertPoint(self, (self._root._prev if n is None else n).append)

    def placeholder(self, name: str, type_expr: Any = None, default_value: Any = ...) -> Node:
        """An input."""
        args = () if default_value is ... else (default_value,)
        return self.create_node("placeholder", name, args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any = None) -> Node:
        """A parameter, a buffer or a module of the module that owns the graph."""
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(
        self, module_name: str, args: Any = None, kwargs: Any = None, type_expr: Any = None
    ) -> Node:
        """A call of a submodule."""
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(
        self, method_name: str, args: Any = None, kwargs: Any = None, type_expr: Any = None
    ) -> Node:
        """A call of a method of the first argument."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(
        self,
        the_function: Callable[..., Any],
        args: Any = None,
        kwargs: Any = None,
        type_expr: Any = None,
        name: str | None = None,
    ) -> Node:
        """A call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name, type_expr)

    def output(self, result: Any, type_expr: Any = None) -> Node:
        """Add the node that returns the graph's result."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def node_copy(self, node: Node, arg_transform: Callable[[Node], Any] = lambda x: x) -> Node:
        """Copy a node of another graph into this one."""
        args, kwargs = map_arg(node.args, arg_transform), map_arg(node.kwargs, arg_transform)
        made = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        made.meta = copy.copy(node.meta)
        return made

    def graph_copy(
        self, g: Graph, val_map: dict[Node, Node], return_output_node: bool = False
    ) -> Any:
        """Copy all nodes of another graph; returns what its output is here."""
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                value = map_arg(node.args[0], lambda n: val_map[n])
                return (value, node) if return_output_node else value
            val_map[node] = self.node_copy(node, lambda n: val_map[n])
        return None

    def __deepcopy__(self, memo: Any = None) -> Graph:
        memo = memo if memo is not None else {}
        made = Graph(tracer_cls=self._tracer_cls)
        made._codegen = copy.deepcopy(self._codegen, memo)
        copied: dict[Node, Node] = {}
        result = made.graph_copy(self, copied, return_output_node=True)
        if result is not None:
            value, old = result
            output = made.output(value, type_expr=old.type)
            output.meta = copy.copy(old.meta)
        return made

    def set_codegen(self, codegen: CodeGen) -> None:
        """Another way of writing the function."""
        self._codegen = codegen

    def on_generate_code(self, make_transformer: Any) -> Any:
        """Change the lines of the generated code; not done here."""
        from ..errors.missing import not_here

        raise not_here("torch.fx.Graph.on_generate_code", "edit the nodes of the graph instead")

    def process_inputs(self, *args: Any) -> Any:
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out: Any) -> Any:
        return self._codegen.process_outputs(out)

    def python_code(self, root_module: str, **options: Any) -> PythonCode:
        """The graph as the source of a function."""
        # Lines are written anew, so names come from the nodes as they are.
        return self._codegen._gen_python_code(self.nodes, root_module)

    def __str__(self) -> str:
        lines = [node.format_node() for node in self.nodes]
        return "\n    ".join(["graph():", *[line for line in lines if line]])

    def print_tabular(self) -> None:
        """Print the nodes as a table."""
        rows = [["opcode", "name", "target", "args", "kwargs"]]
        rows += [[n.op, n.name, str(n.target), str(n.args), str(n.kwargs)] for n in self.nodes]
        widths = [max(len(row[i]) for row in rows) for i in range(5)]
        rows.insert(1, ["-" * width for width in widths])
        for row in rows:
            print("  ".join(text.ljust(w) for text, w in zip(row, widths, strict=True)).rstrip())

    def lint(self) -> None:
        """Raise if nodes come before what they use, or name what the module does not have."""
        seen: set[Node] = set()
        names: set[str] = set()
        for node in self.nodes:
            if node.graph is not self:
                raise RuntimeError(f"Node '{node}' does not belong to this Graph!")
            for used in node.all_input_nodes:
                if used.graph is not self:
                    raise RuntimeError(
                        f"Argument '{used}' of Node '{node}' does not belong to this Graph, but "
                        "was used as an argument! If you are copying nodes from another graph, "
                        "make sure to use ``arg_transform`` on node_copy() to remap values\n{self}"
                    )
                if used not in seen:
                    raise RuntimeError(
                        f"Argument '{used}' of Node '{node}' was used before it has been defined! "
                        f"Please check that Nodes in the graph are topologically ordered\n{self}"
                    )
            if node.name in names:
                raise RuntimeError(f"Node redefined name {node.name}!")
            seen.add(node)
            names.add(node.name)
            if node.op in ("get_attr", "call_module") and self.owning_module is not None:
                found = self.owning_module
                for part in str(node.target).split("."):
                    if not hasattr(found, part):
                        raise RuntimeError(
                            f"Node {node} target {node.target} references nonexistent attribute "
                            f"{part} of {node.target}"
                        )
                    found = getattr(found, part)

    def eliminate_dead_code(self, is_impure_node: Any = None) -> bool:
        """Remove nodes that nobody uses; True if there were any."""
        self.lint()
        changed = False
        for node in reversed(self.nodes):
            impure = node.is_impure() if is_impure_node is None else is_impure_node(node)
            if not impure and not node.users:
                self.erase_node(node)
                changed = True
        return changed
