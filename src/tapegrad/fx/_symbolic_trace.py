"""Run a module on stand-ins, and write down what it does."""

from __future__ import annotations

import builtins
import collections
import contextlib
import inspect
import math
from collections.abc import Callable, Iterator
from types import FunctionType, ModuleType
from typing import Any

import tapegrad as tg

from ..nn import Module, Parameter, Sequential
from ..overrides import TorchFunctionMode
from ..utils._pytree import tree_leaves
from .graph import Graph
from .graph_module import GraphModule
from .node import Node
from .proxy import ParameterProxy, Proxy, Scope, ScopeContextManager, TracerBase

__all__ = ["ProxyableClassMeta", "Tracer", "is_fx_tracing", "symbolic_trace", "wrap"]

# Functions that are recorded as a whole: (globals of their module, name).
_wrapped_fns_to_patch: dict[tuple[int, str], dict[str, Any]] = {}
_wrapped_methods_to_patch: list[tuple[type, str]] = []
_is_fx_tracing_flag = False


def is_fx_tracing() -> bool:
    """Whether a module is being traced."""
    return _is_fx_tracing_flag


def wrap(fn_or_name: Any) -> Any:
    """A function of the calling module that becomes one node: not looked into.

    Called as `torch.fx.wrap("len")` or as a decorator, at the top of a module.

    >>> torch.fx.wrap("len")
    'len'
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError(
            "Unsupported type for global function! Must be either a callable or string name"
        )
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    frame = inspect.currentframe()
    assert frame is not None and frame.f_back is not None
    caller = frame.f_back
    if caller.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    _wrapped_fns_to_patch[(id(caller.f_globals), name)] = caller.f_globals
    return fn_or_name


class ProxyableClassMeta(type):
    """Objects of the class that are made of proxies are calls in the graph.

    >>> class Pair(metaclass=torch.fx.ProxyableClassMeta):
    ...     def __init__(self, a, b):
    ...         self.a, self.b = a, b
    >>> traced = torch.fx.symbolic_trace(lambda x: Pair(x, x).a + 1)
    >>> traced(tensor([1.0]))
    tensor([2.])
    """

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        found = [each for each in tree_leaves((args, kwargs)) if isinstance(each, Proxy)]
        if found:
            return found[0].tracer.create_proxy("call_function", cls, args, kwargs)
        return super().__call__(*args, **kwargs)


class _Recording(TorchFunctionMode):
    """Functions called on proxies become nodes."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if not any(isinstance(each, Proxy) for each in tree_leaves((args, kwargs))):
            return func(*args, **kwargs)
        return Proxy.__torch_function__(func, types, args, kwargs)


def _recorded_if_proxy(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which is a node of its own when it is given a proxy."""

    def call(*args: Any, **kwargs: Any) -> Any:
        found = [each for each in tree_leaves((args, kwargs)) if isinstance(each, Proxy)]
        if not found:
            return function(*args, **kwargs)
        made = found[0].tracer.create_proxy("call_function", function, args, kwargs)
        made.node.meta["is_wrapped"] = True
        return made

    return call


@contextlib.contextmanager
def _set(patches: list[tuple[Any, str, Any]]) -> Iterator[None]:
    """Other attributes or globals for a block."""
    before: list[tuple[Any, str, Any]] = []
    try:
        for owner, name, value in patches:
            if isinstance(owner, dict):
                before.append((owner, name, owner.get(name, _set)))
                owner[name] = value
            else:
                before.append((owner, name, vars(owner)[name]))
                setattr(owner, name, value)
        yield
    finally:
        for owner, name, value in reversed(before):
            if not isinstance(owner, dict):
                setattr(owner, name, value)
            elif value is _set:  # it was not there
                del owner[name]
            else:
                owner[name] = value


class Tracer(TracerBase):
    """Makes a graph of what a module does.

    Override `is_leaf_module` to say which modules are one node, and which are looked into.

    >>> class WholeLayers(torch.fx.Tracer):
    ...     def is_leaf_module(self, module, name):
    ...         return True
    >>> graph = WholeLayers().trace(nn.Sequential(nn.Sequential(nn.ReLU())))
    >>> [node.target for node in graph.nodes if node.op == "call_module"]
    ['0']
    """

    def __init__(
        self,
        autowrap_modules: tuple[ModuleType, ...] = (math,),
        autowrap_functions: tuple[Callable[..., Any], ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:
        self._autowrap_functions = {
            id(function): function
            for module in autowrap_modules
            for name, function in vars(module).items()
            if not name.startswith("_") and callable(function)
        }
        self._autowrap_functions.update({id(f): f for f in autowrap_functions})
        self.param_shapes_constant = param_shapes_constant
        self.submodule_paths: dict[Module, str] | None = None
        self.root_module_name = ""
        self.scope = Scope("", None)
        self.module_stack = collections.OrderedDict()
        self.num_calls: dict[str, int] = {}
        self.tensor_attrs: dict[Any, str] = {}
        self.root: Any = None

    def create_arg(self, a: Any) -> Any:
        """Parameters, buffers, modules and other tensors become nodes that fetch them."""
        if isinstance(a, Parameter):
            for name, parameter in self.root.named_parameters():
                if a is parameter:
                    return self.create_node("get_attr", name, (), {})
            raise NameError("parameter is not a member of this module")
        if isinstance(a, tg.Tensor):
            for name, buffer in self.root.named_buffers():
                if a is buffer:
                    return self.create_node("get_attr", name, (), {})
            name = self.tensor_attrs.get(a)
            if name is None:
                name = self.get_fresh_qualname("_tensor_constant")
                self.tensor_attrs[a] = name
                setattr(self.root, name, a)
            return self.create_node("get_attr", name, (), {})
        if isinstance(a, Module):
            return self.create_node("get_attr", self.path_of_module(a), (), {})
        if isinstance(a, tuple) and hasattr(a, "_fields"):
            args = tuple([self.create_arg(each) for each in a])
            return self.create_node("call_function", type(a), args, {})
        if type(type(a)) is ProxyableClassMeta:
            name = self.get_fresh_qualname(f"_{type(a).__name__}_constant_")
            setattr(self.root, name, a)
            return self.create_node("get_attr", name, (), {})
        return super().create_arg(a)

    def get_fresh_qualname(self, prefix: str) -> str:
        """A name that the root does not use yet."""
        number = 0
        while hasattr(self.root, f"{prefix}{number}"):
            number += 1
        return f"{prefix}{number}"

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Whether a module is one node: those of torch.nn are, except Sequential."""
        package = type(m).__module__
        ours = package.startswith(("torch.nn", "torch.ao.nn", "tapegrad.nn"))
        return ours and not isinstance(m, Sequential)

    def path_of_module(self, mod: Module) -> str:
        """Where in the root a module is."""
        if self.submodule_paths is not None and mod in self.submodule_paths:
            return self.submodule_paths[mod]
        for name, module in self.root.named_modules():
            if module is mod:
                return str(name)
        raise NameError("module is not installed as a submodule")

    def call_module(
        self,
        m: Module,
        forward: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Trace the call of a module: as one node, or its inside."""
        path = self.path_of_module(m)
        with ScopeContextManager(self.scope, Scope(path, type(m))):  # type: ignore[arg-type]
            calls = self.num_calls.get(path, 0)
            self.num_calls[path] = calls + 1
            key = f"{path}@{calls}" if calls else path
            assert self.module_stack is not None
            self.module_stack[key] = (path, type(m))
            try:
                if not self.is_leaf_module(m, path):
                    return forward(*args, **kwargs)
                return self.create_proxy("call_module", path, args, kwargs)
            finally:
                self.module_stack.pop(key)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """The result of reading a field of a module while tracing."""
        if isinstance(attr_val, Parameter):
            for name, parameter in self.root.named_parameters():
                if attr_val is parameter:
                    return self._proxy_of_attribute(name, attr_val, parameter_proxy_cache)
        elif self.proxy_buffer_attributes and isinstance(attr_val, tg.Tensor):
            for name, buffer in self.root.named_buffers():
                if attr_val is buffer:
                    return self._proxy_of_attribute(name, attr_val, parameter_proxy_cache)
        return attr_val

    def _proxy_of_attribute(self, name: str, value: Any, cache: dict[str, Any]) -> Any:
        if name not in cache:

            def known_shape(node: Node) -> Proxy:
                return ParameterProxy(self, node, name, value)

            make = known_shape if self.param_shapes_constant else None
            cache[name] = self.create_proxy("get_attr", name, (), {}, proxy_factory_fn=make)
        return cache[name]

    def create_args_for_root(
        self, root_fn: Callable[..., Any], is_module: bool, concrete_args: Any = None
    ) -> tuple[Callable[..., Any], list[Any]]:
        """A placeholder for each parameter of the function."""
        function = inspect.unwrap(root_fn)
        parameters = list(inspect.signature(function).parameters.values())
        args: list[Any] = []
        if is_module:
            args.append(self.root)
            parameters = parameters[1:]
        by_name: dict[str, Any] = {}
        for p in parameters:
            made = self._placeholder(p, concrete_args or {})
            if p.kind is p.KEYWORD_ONLY:
                by_name[p.name] = made
            elif p.kind is p.VAR_POSITIONAL:
                return self._given_whole(root_fn, args, made, parameters, by_name, concrete_args)
            elif p.kind is p.VAR_KEYWORD:
                return _called_with(root_fn, args, None, by_name, made), []
            else:
                args.append(made)
        return _called_with(root_fn, args, None, by_name, None), []

    def _given_whole(
        self,
        function: Any,
        args: list[Any],
        rest: Any,
        parameters: Any,
        by_name: Any,
        concrete: Any,
    ) -> tuple[Callable[..., Any], list[Any]]:
        """A function that takes `*args`: its other parameters follow."""
        extra = None
        at = next(i for i, p in enumerate(parameters) if p.kind is p.VAR_POSITIONAL)
        for p in parameters[at + 1 :]:
            made = self._placeholder(p, concrete or {})
            if p.kind is p.VAR_KEYWORD:
                extra = made
            else:
                by_name[p.name] = made
        return _called_with(function, args, rest, by_name, extra), []

    def _placeholder(self, p: inspect.Parameter, concrete: dict[str, Any]) -> Any:
        stars = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        if p.name in concrete:
            return self._fixed(p.name, concrete[p.name])
        default = () if p.default is p.empty else (p.default,)
        kind = None if p.annotation is p.empty else p.annotation
        if isinstance(kind, str):
            kind = None  # a postponed annotation; its names may not be known here
        return self.create_proxy("placeholder", f"{stars}{p.name}", default, {}, type_expr=kind)

    def _fixed(self, name: str, value: Any) -> Any:
        """An input whose value the graph is made for."""
        if isinstance(value, PHBase):
            return self.create_proxy("placeholder", name, (), {})
        made = self.create_proxy("placeholder", f"{name}_1", (), {})
        if isinstance(value, (bool, int, float, str)) and not isinstance(value, tg.Tensor):
            message = f"{name} has been specialized to have value {value} but got another value"
            tg._assert(made == value, message)
        return value

    def trace(self, root: Any, concrete_args: dict[str, Any] | None = None) -> Graph:
        """The graph of a module or of a function."""
        global _is_fx_tracing_flag
        if isinstance(root, Module):
            function = type(root).forward
            self.root, self.root_module_name = root, type(root).__name__
            self.submodule_paths = {module: name for name, module in root.named_modules()}
        else:
            self.root, function = Module(), root
            self.submodule_paths = None
        self.graph = Graph(tracer_cls=type(self))
        self.tensor_attrs = _tensors_below(self.root)
        call, args = self.create_args_for_root(function, isinstance(root, Module), concrete_args)
        before, _is_fx_tracing_flag = _is_fx_tracing_flag, True
        try:
            with _set(self._patches()), _Recording():
                result = call(*args)
        finally:
            _is_fx_tracing_flag = before
        annotation = getattr(function, "__annotations__", {}).get("return")
        kind = None if isinstance(annotation, str) else annotation
        self.create_node("output", "output", (self.create_arg(result),), {}, type_expr=kind)
        self.submodule_paths = None
        return self.graph

    def _patches(self) -> list[tuple[Any, str, Any]]:
        """Functions replaced while a module is traced."""
        parameters: dict[str, Any] = {}
        plain_call, plain_getattr = Module.__call__, Module.__getattr__

        def module_call(module: Module, *args: Any, **kwargs: Any) -> Any:
            def forward(*args: Any, **kwargs: Any) -> Any:
                return plain_call(module, *args, **kwargs)

            return self.call_module(module, forward, args, kwargs)

        def module_getattr(module: Module, attr: str) -> Any:
            return self.getattr(attr, plain_getattr(module, attr), parameters)

        patches: list[tuple[Any, str, Any]] = [
            (Module, "__call__", module_call),
            (Module, "__getattr__", module_getattr),
        ]
        for (_, name), space in _wrapped_fns_to_patch.items():
            known = space.get(name, getattr(builtins, name, None))
            if known is not None:
                patches.append((space, name, _recorded_if_proxy(known)))
        for cls, name in _wrapped_methods_to_patch:
            patches.append((cls, name, _recorded_method(cls, name)))
        space = getattr(type(self.root).forward, "__globals__", {})
        for name, value in list(space.items()):
            if not name.startswith("_") and id(value) in self._autowrap_functions:
                patches.append((space, name, _recorded_if_proxy(value)))
        return patches


def _called_with(
    function: Any, args: list[Any], rest: Any, by_name: dict[str, Any], extra: Any
) -> Callable[[], Any]:
    """Call a function on stand-ins; what `*args` and `**kwargs` hold is one stand-in each."""
    if rest is None and extra is None:
        return lambda: function(*args, **by_name)
    plain = inspect.unwrap(function)
    code = plain.__code__
    flags = code.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    # The same code, whose starred parameters are ordinary ones after the others.
    count = code.co_argcount + code.co_kwonlyargcount
    names = code.co_varnames[:count]
    given = dict(zip(names, args, strict=False)) | by_name
    more = [*([rest] if rest is not None else []), *([extra] if extra is not None else [])]
    every = code.replace(co_argcount=count + len(more), co_kwonlyargcount=0, co_flags=flags)
    made = FunctionType(every, plain.__globals__, plain.__name__, None, plain.__closure__)
    return lambda: made(*[given[name] for name in names], *more)


def _recorded_method(cls: type, name: str) -> Callable[..., Any]:
    plain = vars(cls)[name]

    def call(*args: Any, **kwargs: Any) -> Any:
        found = [each for each in tree_leaves((args, kwargs)) if isinstance(each, Proxy)]
        if not found:
            return plain(*args, **kwargs)
        return found[0].tracer.create_proxy("call_method", name, args, kwargs)

    return call


def _tensors_below(module: Module, way: str = "") -> dict[Any, str]:
    """Tensors that are plain fields of modules, by name."""
    found: dict[Any, str] = {}
    for name, value in module.__dict__.items():
        if isinstance(value, tg.Tensor):
            found[value] = f"{way}{name}"
    for name, child in module.named_children():
        found.update(_tensors_below(child, f"{way}{name}."))
    return found


class PHBase:
    """A placeholder, in `concrete_args`."""

    def __repr__(self) -> str:
        return "PH"


PH = PHBase()


class PHWithMeta(PHBase):
    """A placeholder that knows something."""

    def __init__(self, ph_key: str | None = None) -> None:
        self.ph_key = ph_key


def symbolic_trace(root: Any, concrete_args: dict[str, Any] | None = None) -> GraphModule:
    """The graph of a module or a function, as a module that runs it.

    >>> traced = torch.fx.symbolic_trace(lambda x: torch.relu(x) + 1)
    >>> print(traced.code.strip())
    def forward(self, x):
        relu = torch.relu(x);  x = None
        add = relu + 1;  relu = None
        return add
    >>> traced(tensor([-1.0, 2.0]))
    tensor([1., 3.])
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, Module) else root.__name__
    return GraphModule(tracer.root, graph, name)
