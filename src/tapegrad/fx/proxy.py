"""Stand-ins for values: whatever is done with them becomes a node."""

from __future__ import annotations

import dis
import operator
import sys
from collections.abc import Iterator
from typing import Any

import tapegrad as tg

from ..core.function_modes import ASKED_CLASSES, ask_classes
from ..utils._pytree import tree_leaves
from .node import Node, base_types

__all__ = [
    "Attribute",
    "GraphAppendingTracer",
    "ParameterProxy",
    "Proxy",
    "Scope",
    "ScopeContextManager",
    "TraceError",
    "TracerBase",
]


class TraceError(ValueError):
    """The program asks for a value that is not known while it is traced."""


class Scope:
    """Which module is being traced."""

    def __init__(self, module_path: str, module_type: Any) -> None:
        self.module_path, self.module_type = module_path, module_type


class ScopeContextManager:
    """Another module for a block."""

    def __init__(self, scope: Scope, current_scope: Scope) -> None:
        self.scope, self.before = scope, (scope.module_path, scope.module_type)
        scope.module_path, scope.module_type = current_scope.module_path, current_scope.module_type

    def __enter__(self) -> Scope:
        return self.scope

    def __exit__(self, *error: object) -> None:
        self.scope.module_path, self.scope.module_type = self.before


class TracerBase:
    """The part of a tracer that proxies use."""

    graph: Any
    record_stack_traces = False
    check_mutable_operations = False
    trace_asserts = False
    proxy_buffer_attributes = False
    traced_func_name = "forward"
    scope: Scope | None = None
    module_stack: dict[str, Any] | None = None

    def create_node(
        self,
        kind: str,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Add a node to the graph."""
        node: Node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        if kind == "call_module" and self.module_stack:
            node.meta["nn_module_stack"] = dict(self.module_stack)
        return node

    def proxy(self, node: Node) -> Proxy:
        return Proxy(node, self)

    def create_proxy(
        self,
        kind: str,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any = None,
        proxy_factory_fn: Any = None,
    ) -> Any:
        """Add a node and give a stand-in for its value."""
        made = self.create_node(
            kind, target, self.create_arg(args), self.create_arg(kwargs), name, type_expr
        )
        return self.proxy(made) if proxy_factory_fn is None else proxy_factory_fn(made)

    def create_arg(self, a: Any) -> Any:
        """An argument as a node keeps it: proxies become their nodes."""
        if isinstance(a, Proxy):
            return a.node
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, tuple) and hasattr(a, "_fields"):
            return type(a)(*[self.create_arg(each) for each in a])
        if isinstance(a, (tuple, list)):
            return type(a)([self.create_arg(each) for each in a])
        if isinstance(a, dict):
            for key in a:
                if any(isinstance(leaf, Proxy) for leaf in tree_leaves(key)):
                    raise RuntimeError(
                        "Keys for dictionaries used as an argument cannot contain a "
                        f"Node. Got key: {key}"
                    )
            return {key: self.create_arg(each) for key, each in a.items()}
        if isinstance(a, slice):
            return slice(*[self.create_arg(each) for each in (a.start, a.stop, a.step)])
        if isinstance(a, range):
            return range(*[self.create_arg(each) for each in (a.start, a.stop, a.step)])
        if isinstance(a, base_types) or a is None or a is ... or callable(a):
            return a
        raise NotImplementedError(f"argument of type: {type(a)}")

    def to_bool(self, obj: Proxy) -> bool:
        """Called by `if proxy`: a path cannot be chosen."""
        raise TraceError("symbolically traced variables cannot be used as inputs to control flow")

    def iter(self, obj: Proxy) -> Iterator[Any]:
        """Called by a loop over a proxy; `a, b = proxy` says how many it wants."""
        caller = sys._getframe(2)
        steps = {step.offset: step for step in dis.get_instructions(caller.f_code)}
        step = steps[caller.f_lasti]
        if step.opname == "UNPACK_SEQUENCE":
            return iter([obj[i] for i in range(step.argval)])
        raise TraceError(
            "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a "
            "loop or as a *args or **kwargs function argument. See the torch.fx docs on "
            "pytorch.org for a more detailed explanation of what types of control flow can be "
            "traced, and check out the Proxy docstring for help troubleshooting Proxy iteration "
            "errors"
        )

    def keys(self, obj: Proxy) -> Any:
        """Called by `**proxy`."""
        return Attribute(obj, "keys")()


class GraphAppendingTracer(TracerBase):
    """Proxies that add to a graph which is already there."""

    def __init__(self, graph: Any) -> None:
        self.graph = graph
        self.scope = Scope("", None)
        self.module_stack = {}


class Proxy:
    """A value that is not known: operators, methods and torch functions on it become nodes.

    >>> class Shown(nn.Module):
    ...     def forward(self, x):
    ...         print(isinstance(x, torch.fx.Proxy))
    ...         return x + 1
    >>> traced = torch.fx.symbolic_trace(Shown())
    True
    """

    def __init__(self, node: Node, tracer: Any = None) -> None:
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self.node = node
        watch()

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, k: str) -> Any:
        return Attribute(self, k)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ = state

    def __deepcopy__(self, memo: dict[int, Any]) -> Proxy:
        return type(self)(self.node, self.tracer)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Any]:
        return self.tracer.iter(self)  # type: ignore[no-any-return]

    def __abs__(self) -> Any:
        return self.tracer.create_proxy("call_function", operator.abs, (self,), {})

    def __bool__(self) -> bool:
        return self.tracer.to_bool(self)  # type: ignore[no-any-return]

    def keys(self) -> Any:
        return self.tracer.keys(self)

    def __len__(self) -> int:
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be "
            "recorded, please call torch.fx.wrap('len') at module scope"
        )

    @classmethod
    def __torch_function__(
        cls, orig_method: Any, types: Any, args: Any = None, kwargs: Any = None
    ) -> Any:
        args, kwargs = args or (), kwargs or {}
        found = [each for each in tree_leaves((args, kwargs)) if isinstance(each, Proxy)]
        tracer = found[0].tracer
        if orig_method is tg.einsum and isinstance(args[1], (list, tuple)):
            args = (args[0], *args[1])  # the old spelling; PyTorch records the new one
        if is_method_of_tensor(orig_method):
            return tracer.create_proxy("call_method", orig_method.__name__, args, kwargs)
        return tracer.create_proxy("call_function", orig_method, args, kwargs)


def watch() -> None:
    """Let functions look for stand-ins among their arguments, once there is one."""
    if Proxy not in ASKED_CLASSES:
        ask_classes(Proxy, Attribute, ParameterProxy)


def is_method_of_tensor(function: Any) -> bool:
    return getattr(function, "__qualname__", "").startswith("Tensor.")


class Attribute(Proxy):
    """A field of a proxy: a node of its own unless it is called at once."""

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root, self.attr, self.tracer = root, attr, root.tracer
        watch()
        self._node: Node | None = None

    @property
    def node(self) -> Node:  # type: ignore[override]
        # The node is made when it is needed: most attributes are methods, which are called.
        if self._node is None:
            made = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {})
            self._node = made.node
        return self._node  # type: ignore[return-value]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class ParameterProxy(Proxy):
    """A stand-in for a parameter, whose shape is known."""

    def __init__(self, tracer: Any, node: Node, name: str, param: Any) -> None:
        super().__init__(node, tracer)
        self.param, self.name = param, name

    def __repr__(self) -> str:
        return f"ParameterProxy({self.name})"

    @property
    def shape(self) -> Any:
        return self.param.shape

    def size(self, *args: Any) -> Any:
        return self.param.size(*args)

    def dim(self) -> int:
        return int(self.param.dim())

    @property
    def ndim(self) -> int:
        return int(self.param.ndim)

    def numel(self) -> int:
        return int(self.param.numel())

    def nelement(self) -> int:
        return int(self.param.nelement())


BINARY = "add sub mul floordiv truediv mod lt gt pow matmul eq ne le ge lshift rshift getitem"
BITWISE = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}
REFLECTED = "add sub mul floordiv truediv mod pow matmul lshift rshift"


def _add_operator(name: str, function: Any, reflected: bool = False) -> None:
    def call(self: Proxy, *others: Any) -> Any:
        args = (*others, self) if reflected else (self, *others)
        return self.tracer.create_proxy("call_function", function, args, {})

    call.__name__ = name
    setattr(Proxy, name, call)


for _name in BINARY.split():
    _add_operator(f"__{_name}__", getattr(operator, _name))
for _name in REFLECTED.split():
    _add_operator(f"__r{_name}__", getattr(operator, _name), reflected=True)
for _name, _function in BITWISE.items():
    _add_operator(f"__{_name}__", _function)
    _add_operator(f"__r{_name}__", _function, reflected=True)
for _name in ("neg", "pos", "invert"):
    _add_operator(f"__{_name}__", getattr(operator, _name))
# Comparing makes a node, but a proxy is a key by itself.
Proxy.__hash__ = object.__hash__  # type: ignore[method-assign]
