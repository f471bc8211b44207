"""Modules as graphs of ops, as data and as readable Python: torch.export.

The module runs once on an example, and the ops that run, below autograd, are the graph. Sizes are
those of the example: where they change, export once for each, or use `torch.onnx.export`.

Ours alone is `export.c`: a training step, or a model, as one file in C11.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import tapegrad as tg

from ..errors.absent import absent_class, absent_function
from ..errors.missing import not_here
from ..fx.experimental.proxy_tensor import OpTracer
from ..nn.modules.module import Module
from ..utils import _pytree
from .exported_program import ExportedProgram, input_names
from .files import load, save
from .graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from .to_c import c

__all__ = [
    "Dim",
    "ExportGraphSignature",
    "ExportedProgram",
    "c",
    "dims",
    "export",
    "load",
    "register_dataclass",
    "save",
]

SIZES = "export once for every size, or torch.onnx.export, which knows sizes that change"


class Dim:
    """The name of a size that changes; `export` refuses it.

    >>> torch.export.Dim("batch", min=1, max=64).__name__
    'batch'
    """

    AUTO, DYNAMIC, STATIC = "AUTO", "DYNAMIC", "STATIC"

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        if not name.isidentifier():
            raise ValueError(f"Dim name must be a valid Python identifier, got {name}")
        self.__name__ = name
        self.min, self.max = min or 0, max


def dims(*names: str, min: int | None = None, max: int | None = None) -> tuple[Dim, ...]:
    """Several Dims.

    >>> rows, columns = torch.export.dims("rows", "columns")
    >>> rows.__name__, columns.__name__
    ('rows', 'columns')
    """
    return tuple([Dim(name, min=min, max=max) for name in names])


unflatten = absent_function("torch.export.unflatten", "ExportedProgram.module()")
draft_export = absent_function("torch.export.draft_export", "torch.export.export")
UnflattenedModule = absent_class("torch.export.UnflattenedModule", "ExportedProgram.module()")


def export(
    mod: Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    strict: bool = False,
    preserve_module_call_signature: tuple[str, ...] = (),
    prefer_deferred_runtime_asserts_over_guards: bool = False,
) -> ExportedProgram:
    """The graph of what a module does with an example.

    >>> program = torch.export.export(nn.ReLU(), (ones(2),))
    >>> print(program.graph_module.code.strip())
    def forward(self, input):
        input_1 = input
        relu = torch.ops.aten.relu.default(input_1);  input_1 = None
        return (relu,)
    """
    if not isinstance(mod, Module):
        raise ValueError(f"Expected `mod` to be an instance of `torch.nn.Module`, got {type(mod)}.")
    if not isinstance(args, tuple):
        from .._dynamo.exc import UserError

        raise UserError(
            f"Expecting `args` to be a tuple of example positional inputs, got {type(args)}"
        )
    if dynamic_shapes is not None and any_dynamic(dynamic_shapes):
        raise not_here("torch.export.export(dynamic_shapes=...)", SIZES)
    kwargs = kwargs or {}
    tracer = OpTracer()
    inputs, constants = lift(mod, tracer)
    flat, in_spec = _pytree.tree_flatten((args, kwargs))
    for name, value in zip(input_names(mod.forward, args, kwargs), flat, strict=True):
        node = tracer.placeholder(name, value)
        inputs.append(InputSpec(InputKind.USER_INPUT, argument(node.name, value)))
    with tg.no_grad(), tracer:
        out = mod(*args, **kwargs)
    results, out_spec = _pytree.tree_flatten(out)
    graph_module = tracer.finish(tuple(results))
    made = graph_module.graph.output_node().args[0]
    outputs = [
        OutputSpec(OutputKind.USER_OUTPUT, argument(getattr(node, "name", ""), value))
        for node, value in zip(made, results, strict=True)
    ]
    signature = ExportGraphSignature(inputs, outputs)
    kept = dict(mod.state_dict(keep_vars=True))
    return ExportedProgram(
        graph_module, signature, kept, constants, in_spec, out_spec, (args, kwargs)
    )


def argument(name: str, value: Any) -> Any:
    is_tensor = isinstance(value, tg.Tensor)
    return TensorArgument(name) if is_tensor else ConstantArgument(name, value)


def lift(mod: Module, tracer: OpTracer) -> tuple[list[InputSpec], dict[str, Any]]:
    """Parameters, buffers and other tensors of a module as inputs of its graph, each once."""
    specs: list[InputSpec] = []
    kept = mod.state_dict(keep_vars=True)

    def add(letter: str, target: str, value: Any, kind: InputKind, persistent: Any = None) -> None:
        node = tracer.placeholder(f"{letter}_{target.replace('.', '_')}", value)
        specs.append(InputSpec(kind, TensorArgument(node.name), target, persistent))

    for target, value in mod.named_parameters():
        add("p", target, value, InputKind.PARAMETER)
    constants = {}
    for target, value in mod.named_buffers():
        add("b", target, value, InputKind.BUFFER, target in kept)
        if target not in kept:
            constants[target] = value
    for path, module in mod.named_modules():
        for name, value in vars(module).items():
            if isinstance(value, tg.Tensor):
                target = f"{path}.{name}" if path else name
                add("c", target, value, InputKind.CONSTANT_TENSOR)
                constants[target] = value
    return specs, constants


def any_dynamic(shapes: Any) -> bool:
    """Whether a size is said to change."""
    if isinstance(shapes, dict):
        return any([any_dynamic(each) for each in shapes.values()])
    if isinstance(shapes, (list, tuple)):
        return any([any_dynamic(each) for each in shapes])
    return shapes is not None and shapes is not Dim.STATIC and not isinstance(shapes, int)


def register_dataclass(cls: type, *, serialized_type_name: str | None = None) -> None:
    """Let objects of a dataclass be inputs and outputs: their fields are.

    >>> import dataclasses
    >>> @dataclasses.dataclass
    ... class Pair:
    ...     a: Tensor
    ...     b: Tensor
    >>> torch.export.register_dataclass(Pair)
    >>> torch.utils._pytree.tree_leaves(Pair(1, 2))
    [1, 2]
    """
    names = [f.name for f in dataclasses.fields(cls)]
    _pytree.register_pytree_node(
        cls,
        lambda made: ([getattr(made, name) for name in names], None),
        lambda values, context: cls(**dict(zip(names, values, strict=True))),
        serialized_type_name=serialized_type_name or f"{cls.__module__}.{cls.__qualname__}",
    )
