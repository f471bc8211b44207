"""A node of a graph: one call, its arguments, and who uses its result."""

from __future__ import annotations

import builtins
import operator
import types
from collections.abc import Callable
from typing import Any

import tapegrad as tg

from .immutable_collections import immutable_dict, immutable_list

__all__ = ["Argument", "Node", "Target", "has_side_effect", "map_aggregate", "map_arg"]

Target = Callable[..., Any] | str
Argument = Any

base_types = (str, int, float, bool, complex, tg.dtype, tg.Tensor, tg.device)

# Calls that are kept although nobody uses what they return.
_side_effectful_functions: set[Any] = set()
OPS = ("placeholder", "call_method", "call_module", "call_function", "get_attr", "output", "root")


def has_side_effect(fn: Any) -> Any:
    """A decorator: calls of this function are not dead, even if nobody uses their result.

    >>> def log(x):
    ...     print(x)
    >>> torch.fx.has_side_effect(log) is log
    True
    """
    _side_effectful_functions.add(fn)
    return fn


def map_aggregate(a: Any, fn: Callable[[Any], Any]) -> Any:
    """Apply `fn` to everything inside tuples, lists, dicts and slices."""
    if isinstance(a, tuple):
        made = [map_aggregate(each, fn) for each in a]
        return type(a)(*made) if hasattr(a, "_fields") else tuple(made)
    if isinstance(a, list):
        return immutable_list([map_aggregate(each, fn) for each in a])
    if isinstance(a, dict):
        return immutable_dict({key: map_aggregate(each, fn) for key, each in a.items()})
    if isinstance(a, slice):
        return slice(*[map_aggregate(each, fn) for each in (a.start, a.stop, a.step)])
    return fn(a)


def map_arg(a: Any, fn: Callable[[Any], Any]) -> Any:
    """Apply `fn` to every node inside an argument.

    >>> traced = torch.fx.symbolic_trace(lambda x: x + 1)
    >>> node = list(traced.graph.nodes)[1]
    >>> torch.fx.map_arg(node.args, lambda n: n.name)
    ('x', 1)
    """
    return map_aggregate(a, lambda each: fn(each) if isinstance(each, Node) else each)


def _get_qualified_name(func: Any) -> str:
    """The name under which generated code finds a function: torch.relu, operator.add."""
    if getattr(builtins, getattr(func, "__name__", ""), None) is func:
        return str(func.__name__)
    from ..overrides import resolve_name

    public = resolve_name(func) if isinstance(func, types.FunctionType) else None
    if public is not None and not public.startswith("torch.Tensor."):
        return public
    name, module = func.__name__, getattr(func, "__module__", "") or ""
    if module == "_operator":
        module = "operator"
    head, dot, rest = module.partition(".")
    if head == "tapegrad":
        module = f"torch{dot}{rest}"
    # Ops say where they are kept, and are reached by `torch.ops`.
    return f"{module.replace('torch._ops', 'torch.ops', 1)}.{name}"


def _format_arg(arg: Any) -> str:
    """An argument as a printed graph shows it: nodes by name."""
    if isinstance(arg, list):
        return "[" + ", ".join(map(_format_arg, arg)) + "]"
    if isinstance(arg, tuple):
        inside = ", ".join(map(_format_arg, arg))
        return f"({inside},)" if len(arg) == 1 else f"({inside})"
    if isinstance(arg, dict):
        return "{" + ", ".join(f"{k}: {_format_arg(v)}" for k, v in arg.items()) + "}"
    return f"%{arg}" if isinstance(arg, Node) else str(arg)


def _type_repr(obj: Any) -> str:
    if isinstance(obj, type) and not isinstance(obj, types.GenericAlias):
        if obj.__module__ == "builtins":
            return obj.__qualname__
        return f"{obj.__module__}.{obj.__qualname__}".replace("tapegrad.", "torch.", 1)
    return "..." if obj is ... else repr(obj)


class Node:
    """One step of a graph.

    `op` says what kind: `placeholder` (an input), `get_attr`, `call_function`, `call_method`,
    `call_module`, `output`. Nodes of a graph are a ring of `next` and `prev`.

    >>> traced = torch.fx.symbolic_trace(lambda x: x + 1)
    >>> [isinstance(node, torch.fx.Node) for node in traced.graph.nodes]
    [True, True, True]
    >>> [(node.op, node.name) for node in traced.graph.nodes]
    [('placeholder', 'x'), ('call_function', 'add'), ('output', 'output')]
    """

    def __init__(
        self,
        graph: Any,
        name: str,
        op: str,
        target: Target,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        return_type: Any = None,
    ) -> None:
        if op not in OPS:
            raise AssertionError(f"op {op!r} is not one of {OPS}")
        if op == "call_function" and not callable(target):
            raise ValueError(
                f"Node [graph = {graph}, name = '{name}'] target {target} has type "
                f"{type(target)} but a Callable is expected"
            )
        self.graph, self.name, self.op, self.target, self.type = (
            graph,
            name,
            op,
            target,
            return_type,
        )
        self._input_nodes: dict[Node, None] = {}
        self.users: dict[Node, None] = {}
        self._prev: Node = self
        self._next: Node = self
        self._erased = False
        self.meta: dict[str, Any] = {}
        self._repr_fn: Callable[[Node], str] | None = None
        self._set_arguments(args, kwargs)

    def __repr__(self) -> str:
        return self.name if self._repr_fn is None else self._repr_fn(self)

    @property
    def next(self) -> Node:
        return self._next

    @property
    def prev(self) -> Node:
        return self._prev

    @property
    def args(self) -> tuple[Any, ...]:
        return self._args

    @args.setter
    def args(self, args: tuple[Any, ...]) -> None:
        self._set_arguments(args, self._kwargs)

    @property
    def kwargs(self) -> dict[str, Any]:
        return self._kwargs

    @kwargs.setter
    def kwargs(self, kwargs: dict[str, Any]) -> None:
        self._set_arguments(self._args, kwargs)

    @property
    def all_input_nodes(self) -> list[Node]:
        return list(self._input_nodes)

    @property
    def stack_trace(self) -> str | None:
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    def _set_arguments(self, args: Any, kwargs: Any) -> None:
        for used in self._input_nodes:
            used.users.pop(self, None)
        self._input_nodes = {}

        def note(used: Node) -> Node:
            self._input_nodes[used] = None
            used.users[self] = None
            return used

        self._args: tuple[Any, ...] = map_arg(tuple(args), note)
        self._kwargs: dict[str, Any] = map_arg(dict(kwargs), note)

    def update_arg(self, idx: int, arg: Any) -> None:
        """Replace one positional argument."""
        args = list(self.args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Any) -> None:
        """Put one positional argument before another."""
        if not 0 <= idx <= len(self.args):
            raise AssertionError("insert_args index must be between 0 and len(self.args)")
        self.args = (*self.args[:idx], arg, *self.args[idx:])

    def update_kwarg(self, key: str, arg: Any) -> None:
        """Replace one argument by name."""
        self.kwargs = {**self.kwargs, key: arg}

    def _remove_from_list(self) -> None:
        self._prev._next, self._next._prev = self._next, self._prev

    def prepend(self, x: Node) -> None:
        """Move a node to the place before this one."""
        if self.graph is not x.graph:
            raise AssertionError("Attempting to move a Node into a different Graph")
        if self is x:
            return
        x._remove_from_list()
        before = self._prev
        before._next, x._prev = x, before
        x._next, self._prev = self, x

    def append(self, x: Node) -> None:
        """Move a node to the place after this one."""
        self._next.prepend(x)

    def replace_all_uses_with(
        self,
        replace_with: Node,
        delete_user_cb: Callable[[Node], bool] = lambda user: True,
        *,
        propagate_meta: bool = False,
    ) -> list[Node]:
        """Let everyone who uses this node use another; returns who was changed."""
        if propagate_meta:
            replace_with.meta.update(self.meta)
        changed = [user for user in self.users if delete_user_cb(user)]
        for user in changed:
            user.replace_input_with(self, replace_with)
        return changed

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Use another node where this one is used."""

        def swap(used: Node) -> Node:
            return new_input if used is old_input else used

        self._set_arguments(map_arg(self.args, swap), map_arg(self.kwargs, swap))

    def is_impure(self, impure_random: bool = True) -> bool:
        """Whether the node has to stay even if nobody uses it."""
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_function":
            return self.target in _side_effectful_functions or self.target is tg._assert
        if self.op == "call_module":
            module = self.graph.owning_module.get_submodule(self.target)
            return bool(getattr(module, "_is_impure", False))
        return False

    def normalized_arguments(
        self,
        root: Any,
        arg_types: Any = None,
        kwarg_types: Any = None,
        normalize_to_only_use_kwargs: bool = False,
    ) -> Any:
        """The arguments by the names that the function gives them; None where it gives none."""
        import inspect
        from typing import NamedTuple

        class ArgsKwargsPair(NamedTuple):
            args: tuple[Any, ...]
            kwargs: dict[str, Any]

        if self.op == "call_function":
            called = self.target
        elif self.op == "call_module":
            called = root.get_submodule(self.target).forward
        else:
            return None
        try:
            bound = inspect.signature(called).bind(*self.args, **self.kwargs)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            return None
        if normalize_to_only_use_kwargs:
            return ArgsKwargsPair((), dict(bound.arguments))
        return ArgsKwargsPair(bound.args, bound.kwargs)

    def _pretty_print_target(self, target: Any) -> str:
        if isinstance(target, str):
            return target
        name = _get_qualified_name(target)
        return name if "." in name else f"builtins.{name}"

    def format_node(
        self, placeholder_names: Any = None, maybe_return_typename: Any = None, **options: Any
    ) -> str | None:
        """One line of a printed graph."""
        users = f"[num_users={len(self.users)}]"
        kind = "" if self.type is None else f"{_type_repr(self.type)} "
        if self.op == "placeholder":
            default = f"(default={self.args[0]})" if self.args else ""
            return f"%{self.name} : {kind}{users} = {self.op}[target={self.target}]{default}"
        if self.op == "get_attr":
            return f"%{self.name} : {kind}{users} = {self.op}[target={self.target}]"
        if self.op == "output":
            return f"return {self.args[0]}"
        target = self._pretty_print_target(self.target)
        return (
            f"%{self.name} : {kind}{users} = {self.op}[target={target}]"
            f"(args = {_format_arg(self.args)}, kwargs = {_format_arg(self.kwargs)})"
        )


# A few operators are statements: setitem writes.
_side_effectful_functions.add(operator.setitem)
