"""A module that runs a graph."""

from __future__ import annotations

import copy
import linecache
from typing import Any

import tapegrad as tg

from ..nn import Module
from .graph import Graph, PythonCode

__all__ = ["GraphModule", "reduce_graph_module"]

_made = 0


def _compiled(code: PythonCode) -> Any:
    """The function that generated source defines; tracebacks show its lines."""
    global _made
    name = f"<eval_with_key>.{_made}"
    _made += 1
    space = dict(code.globals)
    space.setdefault("torch", tg)
    linecache.cache[name] = (len(code.src), None, code.src.splitlines(keepends=True), name)
    exec(compile(code.src, name, "exec"), space)
    return space["forward"]


def _copy_attribute(source: Any, target: Module, path: str) -> None:
    """Give a module what another one has at `a.b.c`, with plain modules on the way."""
    *way, last = path.split(".")
    for part in way:
        source = getattr(source, part)
        inner = getattr(target, part, None)
        if inner is source:
            return  # a submodule was taken as a whole
        if inner is None:
            inner = Module()
            setattr(target, part, inner)
        target = inner
    value = getattr(source, last)
    if isinstance(value, tg.Tensor) and not isinstance(value, tg.nn.Parameter):
        target.register_buffer(last, value)
    else:
        setattr(target, last, value)


def _assign(target: Module, path: str, value: Any) -> None:
    *way, last = path.split(".")
    for part in way:
        if not hasattr(target, part):
            setattr(target, part, Module())
        target = getattr(target, part)
    if isinstance(value, tg.Tensor) and not isinstance(value, tg.nn.Parameter):
        target.register_buffer(last, value)
    else:
        setattr(target, last, value)


class GraphModule(Module):
    """A module whose `forward` is generated from a graph.

    `code` is the text; after changing the graph, `recompile()` makes it anew.

    >>> traced = torch.fx.symbolic_trace(nn.ReLU())
    >>> isinstance(traced, torch.fx.GraphModule), traced(tensor([-1.0, 2.0]))
    (True, tensor([0., 2.]))
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        # `forward` belongs to a class: each graph has one of its own.
        for base in cls.__mro__:
            if base.__qualname__ == "GraphModuleImpl":
                return super().__new__(cls)

        class GraphModuleImpl(cls):  # type: ignore[valid-type, misc]
            pass

        return super().__new__(GraphModuleImpl)

    def __init__(self, root: Any, graph: Graph, class_name: str = "GraphModule") -> None:
        super().__init__()
        self.__class__.__name__ = class_name
        paths = [str(n.target) for n in graph.nodes if n.op in ("get_attr", "call_module")]
        if isinstance(root, Module):
            if hasattr(root, "training"):
                self.training = root.training
            for path in paths:
                _copy_attribute(root, self, path)
        elif isinstance(root, dict):
            missing = [path for path in paths if path not in root]
            if missing:
                node = next(n for n in graph.nodes if n.target == missing[0])
                raise RuntimeError(
                    f"Node {node} referenced target {node.target} but that target was not "
                    "provided in ``root``!"
                )
            for path in sorted(dict.fromkeys(paths), key=lambda p: p.count(".")):
                _assign(self, path, root[path])
        else:
            raise RuntimeError(f"Unsupported type {root} passed for root!")
        self.meta: dict[str, Any] = {}
        self.graph = graph
        self._tracer_cls = graph._tracer_cls

    @property
    def graph(self) -> Graph:
        """The graph that the module runs."""
        return self._graph

    @graph.setter
    def graph(self, g: Graph) -> None:
        if not isinstance(g, Graph):
            raise AssertionError(f"Expected a Graph instance, but got {type(g)}")
        self._graph = g
        g.owning_module = self
        self.recompile()

    @property
    def code(self) -> str:
        """The source of `forward`."""
        return self._code

    def recompile(self) -> PythonCode:
        """Generate `forward` from the graph again."""
        made = self._graph.python_code(root_module="self")
        self._code = made.src
        type(self).forward = _compiled(made)  # type: ignore[method-assign]
        return made

    def print_readable(
        self,
        print_output: bool = True,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
        **options: Any,
    ) -> str:
        """The module as a class, printed and returned."""
        lines = [f"class {type(self).__name__}(torch.nn.Module):"]
        body = self._code.strip("\n").rstrip().splitlines()
        start = next(i for i, line in enumerate(body) if line.startswith("def "))
        lines.append(f"    {body[start]}")
        inside = body[start + 1 :]
        if any(n.op in ("call_function", "call_method", "call_module") for n in self.graph.nodes):
            first = next(
                (i for i, line in enumerate(inside) if not line.strip().startswith("return")), 0
            )
            inside.insert(first, "    # No stacktrace found for following nodes")
        lines += [f"    {line}" for line in inside]
        for child in self.children():
            if isinstance(child, GraphModule):
                inner = child.print_readable(print_output=False)
                lines += ["", *[f"    {line}" for line in inner.rstrip().splitlines()]]
        text = "\n".join(lines) + "\n"
        if print_output:
            print(text)
        return text

    def add_submodule(self, target: str, m: Module) -> bool:
        """Put a module at `a.b.c`; False where something else is in the way."""
        *way, last = target.split(".")
        found: Module = self
        for part in way:
            inner = getattr(found, part, None)
            if inner is None:
                inner = Module()
                setattr(found, part, inner)
            if not isinstance(inner, Module):
                return False
            found = inner
        found.add_module(last, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Remove the module at `a.b.c`; False if there is none."""
        *way, last = target.split(".")
        found: Any = self
        for part in way:
            found = getattr(found, part, None)
        if not isinstance(getattr(found, last, None), Module):
            return False
        delattr(found, last)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Remove the modules that no node calls or reads."""
        used: set[str] = set()
        for node in self.graph.nodes:
            if node.op in ("call_module", "get_attr"):
                parts = str(node.target).split(".")
                used.update(".".join(parts[:i]) for i in range(1, len(parts) + 1))
                if node.op == "call_module":
                    inner = self.get_submodule(str(node.target))
                    used.update(
                        f"{node.target}.{name}" for name, _ in inner.named_modules() if name
                    )
        for name in [name for name, _ in self.named_modules() if name not in used and name]:
            self.delete_submodule(name)

    def to_folder(self, folder: Any, module_name: str = "FxModule") -> None:
        """Write the module as a Python package; not done here."""
        from ..errors.missing import not_here

        raise not_here("torch.fx.GraphModule.to_folder", "write `module.code` and the state_dict()")

    def __deepcopy__(self, memo: Any) -> Any:
        made: Any = GraphModule.__new__(type(self).__mro__[1])
        memo[id(self)] = made
        Module.__init__(made)
        for name, value in self.__dict__.items():
            if name not in ("_graph", "_code"):
                made.__dict__[name] = copy.deepcopy(value, memo)
        type(made).__name__ = "GraphModule"  # a copy is called that, as PyTorch's
        made.graph = copy.deepcopy(self.graph, memo)
        return made

    def __copy__(self) -> Any:
        made = GraphModule(self, self.graph, type(self).__name__)
        made.meta = self.meta
        return made

    def __reduce__(self) -> Any:
        state = {k: v for k, v in self.__dict__.items() if k not in ("_graph", "_tracer_cls")}
        return reduce_graph_module, (
            state,
            self._graph.python_code("self").globals,
            type(self).__name__,
        )

    def __str__(self) -> str:
        return "\n".join(
            [
                super().__str__(),
                self._code,
                "# To see more debug info, please use `graph_module.print_readable()`",
            ]
        )


class _Holder(Module):
    """The fields of a module that was saved, until it is traced again."""


def reduce_graph_module(state: dict[str, Any], needed: dict[str, Any], name: str) -> GraphModule:
    """The module of a pickle: its code is run on stand-ins again."""
    from ._symbolic_trace import Tracer

    holder = _Holder()
    holder.__dict__.update({k: v for k, v in state.items() if k != "_code"})
    _Holder.forward = _compiled(PythonCode(state["_code"], needed))  # type: ignore[method-assign]

    class KeepModules(Tracer):
        def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
            return True

    made = GraphModule(holder, KeepModules().trace(holder), name)
    made.__dict__.update({k: v for k, v in state.items() if k not in ("_code", "_modules")})
    return made
