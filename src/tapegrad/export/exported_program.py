"""A module as a graph of ops, with its parameters beside it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import tapegrad as tg

from ..errors import evidence
from ..fx import Graph, GraphModule, Interpreter
from ..nn.modules.module import Module
from ..utils._pytree import TreeSpec, keystr, tree_flatten, tree_flatten_with_path, tree_unflatten
from .graph_signature import ExportGraphSignature, InputKind, InputSpec

__all__ = ["ExportedProgram"]

SHORT = {
    "float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "int64": "i64",
    "int32": "i32", "int16": "i16", "int8": "i8", "uint8": "u8", "bool": "b8", "complex64": "c64",
    "complex128": "c128",
}  # fmt: skip


class ExportedProgram:
    """The result of `torch.export.export`: `graph_module`, `graph_signature`, `state_dict`.

    `module()` is a module that can be called; printing shows the graph as Python.

    >>> program = torch.export.export(nn.Linear(2, 1), (ones(3, 2),))
    >>> isinstance(program, torch.export.ExportedProgram), program.module()(ones(3, 2)).shape
    (True, torch.Size([3, 1]))
    """

    def __init__(
        self,
        graph_module: GraphModule,
        graph_signature: ExportGraphSignature,
        state_dict: dict[str, Any],
        constants: dict[str, Any],
        in_spec: TreeSpec,
        out_spec: TreeSpec,
        example_inputs: Any = None,
    ) -> None:
        self.graph_module = graph_module
        self.graph_signature = graph_signature
        self.state_dict = state_dict
        self.constants = constants
        self.in_spec = in_spec
        self.out_spec = out_spec
        self.example_inputs = example_inputs
        self.range_constraints: dict[Any, Any] = {}  # sizes are those of the example

    @property
    def graph(self) -> Graph:
        """The ops."""
        return self.graph_module.graph

    @property
    def tensor_constants(self) -> dict[str, Any]:
        return self.constants

    def parameters(self) -> Iterator[Any]:
        for _, value in self.named_parameters():
            yield value

    def named_parameters(self) -> Iterator[tuple[str, Any]]:
        for name in self.graph_signature.parameters:
            yield name, self.state_dict[name]

    def buffers(self) -> Iterator[Any]:
        for _, value in self.named_buffers():
            yield value

    def named_buffers(self) -> Iterator[tuple[str, Any]]:
        for name in self.graph_signature.buffers:
            yield name, self.state_dict.get(name, self.constants.get(name))

    def run_decompositions(self, decomp_table: Any = None, **options: Any) -> ExportedProgram:
        """The program itself: its ops are those below autograd already."""
        return self

    def module(self, check_guards: bool = True) -> Module:
        """A module that runs the graph; it has the parameters and buffers under their names."""
        return RunnableProgram(self, check_guards)

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(
            "Unable to call ExportedProgram directly. "
            "You should use `exported_program.module()` instead."
        )

    def __str__(self) -> str:
        code = "\n".join(f"    {line}".rstrip() for line in readable(self.graph_module))
        signature = "\n".join(
            f"    {line}".rstrip() for line in str(self.graph_signature).split("\n")
        )
        return (
            f"ExportedProgram:\n{code}\n\nGraph signature:{signature}\n"
            f"Range constraints: {self.range_constraints}\n"
        )


def readable(module: GraphModule) -> list[str]:
    """The graph as a class, with shapes and the lines that the ops come from."""
    found = {node.name: node for node in module.graph.nodes}
    body = module.code.strip("\n").rstrip().splitlines()
    start = next(i for i, line in enumerate(body) if line.startswith("def "))
    names = [n for n in module.graph.nodes if n.op == "placeholder"]
    inputs = ", ".join(["self", *[f"{n.name}{shape_of(n)}" for n in names]])
    lines = ["class GraphModule(torch.nn.Module):", f"    def forward({inputs}):"]
    last = None
    for line in body[start + 1 :]:
        made = re.match(r"\s+(\w+) = ", line)
        node = found.get(made[1]) if made else None
        if node is None:
            lines.append(f"    {line}")
            continue
        place = node.meta.get("place")
        where = None if place is None else f"# {evidence.spell(place)}"
        if where != last and where is not None:
            lines += ["", f"        {where}"] if last else [f"        {where}"]
            last = where
        lines.append(f"    {line.replace(node.name, node.name + shape_of(node), 1)}")
    return lines


def shape_of(node: Any) -> str:
    value = node.meta.get("val")
    if not isinstance(value, tg.Tensor):
        return ""
    kind = str(value.dtype).removeprefix("torch.")
    return f': "{SHORT.get(kind, kind)}{list(value.shape)}"'


class RunnableProgram(Module):
    """A graph with its parameters, called as the module was that it was made of."""

    def __init__(self, program: ExportedProgram, check_guards: bool) -> None:
        super().__init__()
        self._program = [program]  # in a list, since its tensors are registered below
        self._check_guards = check_guards
        self._owned: dict[str, tuple[Module, str]] = {}  # where a tensor of the graph is kept
        for spec in program.graph_signature.input_specs:
            if spec.kind is not InputKind.USER_INPUT:
                self._keep(spec, held(program, spec))

    @property
    def graph(self) -> Graph:
        """The ops."""
        return self._program[0].graph

    @property
    def code(self) -> str:
        """The graph as Python; the module's tensors are its first arguments."""
        return self._program[0].graph_module.code

    def _keep(self, spec: InputSpec, value: Any) -> None:
        owner: Any = self
        *path, name = str(spec.target).split(".")
        for part in path:
            if part not in owner._modules:
                owner.add_module(part, Module())
            owner = owner._modules[part]
        if spec.kind is InputKind.PARAMETER:
            owner.register_parameter(name, value)
        else:
            owner.register_buffer(name, value, persistent=bool(spec.persistent))
        self._owned[spec.arg.name] = owner, name

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        program = self._program[0]
        flat = self._flat(program, args, kwargs)
        if self._check_guards:
            check_inputs(program, flat)
        left = iter(flat)
        given = [
            getattr(*self._owned[spec.arg.name])
            if spec.kind is not InputKind.USER_INPUT
            else next(left)
            for spec in program.graph_signature.input_specs
        ]
        out = Interpreter(program.graph_module).run(*given)
        return tree_unflatten(list(out), program.out_spec)

    def _flat(self, program: ExportedProgram, args: Any, kwargs: Any) -> list[Any]:
        wanted = list(program.example_inputs[1]) if program.example_inputs else list(kwargs)
        if sorted(kwargs) != sorted(wanted):
            raise ValueError(
                f"Ran into a kwarg keyword mismatch: Got the following keywords {list(kwargs)} but "
                f"expected {wanted}"
            )
        flat, spec = tree_flatten((tuple(args), {name: kwargs[name] for name in wanted}))
        if spec != program.in_spec:
            raise ValueError(
                f"Trying to flatten user inputs with exported input tree spec: {program.in_spec} "
                f"but actually got inputs with tree spec of: {spec}"
            )
        return flat

    def train(self, mode: bool = True) -> NoReturn:
        raise NotImplementedError("Calling train() is not supported yet.")

    def eval(self) -> NoReturn:
        raise NotImplementedError("Calling eval() is not supported yet.")


def held(program: ExportedProgram, spec: InputSpec) -> Any:
    target = str(spec.target)
    found = program.state_dict.get(target)
    return program.constants[target] if found is None else found


def check_inputs(program: ExportedProgram, flat: list[Any]) -> None:
    """The graph is right for inputs like the example's, and for no others."""
    nodes = {n.name: n for n in program.graph.nodes if n.op == "placeholder"}
    specs = [s for s in program.graph_signature.input_specs if s.kind is InputKind.USER_INPUT]
    for spec, value in zip(specs, flat, strict=True):
        name, wanted = spec.arg.name, nodes[spec.arg.name].meta["val"]
        if not isinstance(wanted, tg.Tensor):
            if type(value) is not type(wanted) or value != wanted:
                raise AssertionError(f"Guard failed: {name} == {wanted!r}")
        elif not isinstance(value, tg.Tensor):
            raise AssertionError(f"Guard failed: isinstance({name}, torch.Tensor)")
        elif value.dim() != wanted.dim():
            raise AssertionError(f"Guard failed: {name}.dim() == {wanted.dim()}")
        elif value.dtype != wanted.dtype:
            raise AssertionError(f"Guard failed: {name}.dtype == {wanted.dtype}")
        else:
            for i, (size, expected) in enumerate(zip(value.shape, wanted.shape, strict=True)):
                if size != expected:
                    raise AssertionError(f"Guard failed: {name}.size()[{i}] == {expected}")


def input_names(forward: Callable[..., Any], args: Any, kwargs: Any) -> list[str]:
    """Names of the inputs one by one, after the parameters and the keys within: `x`, `pair_0`."""
    given = list(inspect.signature(forward).parameters.values())
    plain = [p.name for p in given if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    rest = next((p.name for p in given if p.kind is p.VAR_POSITIONAL), "args")
    names = [*plain, *[f"{rest}_{i}" for i in range(len(args) - len(plain))]]
    found = []
    for path, _ in tree_flatten_with_path((args, kwargs))[0]:
        first, inside = path[1], path[2:]
        name = names[first.idx] if path[0].idx == 0 else str(first.key)
        found.append(re.sub(r"\W+", "_", name + keystr(inside)).strip("_"))
    return found
