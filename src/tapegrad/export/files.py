"""Exported programs in files: the graph as plain data, the tensors as `torch.save` has them.

The format is our own. Nothing in a file is run when it is loaded.
"""

from __future__ import annotations

import keyword
import operator
from typing import Any

import tapegrad as tg

from .._ops import OpOverload
from ..fx import Graph, GraphModule, Node
from ..nn.modules.module import Module
from ..utils import _pytree
from .exported_program import ExportedProgram
from .graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)

__all__ = ["load", "save"]

MARK = "tapegrad exported program, 1"
# What arguments of ops may be beside numbers, words and nodes: by the names in torch.
NAMED = (tg.dtype, tg.memory_format, tg.layout)
PLAIN = (bool, int, float, complex, str)


def save(ep: ExportedProgram, f: Any, **options: Any) -> None:
    """Write a program to a file, by convention `name.pt2`.

    >>> import io
    >>> file = io.BytesIO()
    >>> torch.export.save(torch.export.export(nn.ReLU(), (ones(2),)), file)
    >>> _ = file.seek(0)
    >>> torch.export.load(file).module()(tensor([-3.0, 4.0]))
    tensor([0., 4.])
    """
    if not isinstance(ep, ExportedProgram):
        raise TypeError(
            f"The 'ep' parameter must be an instance of 'ExportedProgram', got "
            f"'{type(ep).__name__}' instead."
        )
    signature = ep.graph_signature
    kwargs = list(ep.example_inputs[1]) if ep.example_inputs else []
    data = {
        "mark": MARK,
        "nodes": [
            {
                "op": node.op,
                "name": node.name,
                "target": spelled(node.target),
                "args": encode(node.args),
                "kwargs": encode(node.kwargs),
                "like": like(node.meta.get("val")),
            }
            for node in ep.graph.nodes
        ],
        "inputs": [
            (s.kind.name, written(s.arg), s.target, s.persistent) for s in signature.input_specs
        ],
        "outputs": [(s.kind.name, written(s.arg)) for s in signature.output_specs],
        "in_spec": _pytree.treespec_dumps(ep.in_spec),
        "out_spec": _pytree.treespec_dumps(ep.out_spec),
        "kwargs": kwargs,
        "state_dict": dict(ep.state_dict),
        "constants": dict(ep.constants),
        "graph_constants": dict(ep.graph_module.named_buffers()),
    }
    tg.save(data, f)


def load(f: Any, **options: Any) -> ExportedProgram:
    """The program in a file that `save` wrote.

    >>> import io
    >>> file = io.BytesIO()
    >>> torch.export.save(torch.export.export(nn.ReLU(), (ones(2),)), file)
    >>> _ = file.seek(0)
    >>> torch.export.load(file).module()(tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    data = tg.load(f, weights_only=True)
    if not isinstance(data, dict) or data.get("mark") != MARK:
        raise ValueError(
            "this is no file of tapegrad's torch.export.save; PyTorch's .pt2 files are not read"
        )
    try:
        return rebuilt(data)
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError) as error:
        raise ValueError(f"the exported program is damaged: {brief(error)}") from error


def brief(error: Exception) -> str:
    return f"{type(error).__name__}: {error!s:.200}"


def rebuilt(data: dict[str, Any]) -> ExportedProgram:
    """The program that a file describes.

    GraphModule prints a graph as Python and runs the text: only names and plain values get there.
    """
    graph, nodes = Graph(), dict[str, Node]()
    for row in data["nodes"]:
        target = row["target"]
        if row["op"] == "call_function":
            target = looked_up(target)
        elif row["op"] in ("placeholder", "output"):
            checked_name(target)
        elif row["op"] == "get_attr":
            for part in target.split("."):
                checked_name(part)
        else:
            raise ValueError(f"an exported program has no nodes of the kind {row['op']!r:.80}")
        args, kwargs = decode(row["args"], nodes), decode(row["kwargs"], nodes)
        if not isinstance(args, tuple) or not isinstance(kwargs, dict):
            raise ValueError("the exported program is damaged: a node's arguments are no tuple")
        name = checked_name(row["name"])
        node = graph.create_node(row["op"], target, args, kwargs, name=name)
        node.meta["val"] = meant(row["like"])
        nodes[name] = node
    root = Module()
    for name, value in data["graph_constants"].items():
        root.register_buffer(name, value)
    inputs = [
        InputSpec(InputKind[kind], read(arg), target, persistent)
        for kind, arg, target, persistent in data["inputs"]
    ]
    outputs = [OutputSpec(OutputKind[kind], read(arg)) for kind, arg in data["outputs"]]
    return ExportedProgram(
        GraphModule(root, graph),
        ExportGraphSignature(inputs, outputs),
        data["state_dict"],
        data["constants"],
        _pytree.treespec_loads(data["in_spec"]),
        _pytree.treespec_loads(data["out_spec"]),
        ((), dict.fromkeys(data["kwargs"])),
    )


def checked_name(name: Any) -> str:
    """A name from a file that becomes part of a program's text."""
    if type(name) is not str or not name.isidentifier() or keyword.iskeyword(name):
        raise ValueError(f"the exported program is damaged: {name!r:.80} is no name")
    return name


def spelled(target: Any) -> str:
    if isinstance(target, str):
        return target
    return "operator.getitem" if target is operator.getitem else f"torch.ops.{target}"


def looked_up(target: str) -> Any:
    """An op by its name; nothing else can be called by a file."""
    if target == "operator.getitem":
        return operator.getitem
    head, *path = target.split(".")
    if head != "torch" or path[:1] != ["ops"] or len(path) != 4:
        raise ValueError(f"{target!r} is no op")
    found: Any = tg
    for part in path:
        found = getattr(found, part)
    if not isinstance(found, OpOverload):
        raise ValueError(f"{target!r} is no op")
    return found


def written(arg: Any) -> Any:
    return [arg.name] if isinstance(arg, TensorArgument) else [arg.name, arg.value]


def read(arg: Any) -> Any:
    return TensorArgument(*arg) if len(arg) == 1 else ConstantArgument(*arg)


def like(value: Any) -> Any:
    if not isinstance(value, tg.Tensor):
        return ["value", value if isinstance(value, (int, float, str, bool)) else None]
    return ["tensor", list(value.shape), list(value.stride()), value.dtype]


def meant(row: Any) -> Any:
    if row[0] == "value":
        return row[1]
    return tg.empty_strided(row[1], row[2], dtype=row[3], device="meta")


def encode(value: Any) -> Any:
    if isinstance(value, Node):
        return {"node": value.name}
    if isinstance(value, (list, tuple)):
        return {type(value).__name__.removeprefix("immutable_"): [encode(each) for each in value]}
    if isinstance(value, dict):
        return {"dict": {name: encode(each) for name, each in value.items()}}
    if isinstance(value, slice):
        return {"slice": [encode(each) for each in (value.start, value.stop, value.step)]}
    if isinstance(value, tg.device):
        return {"device": str(value)}
    if isinstance(value, NAMED):
        return {"torch": str(value).removeprefix("torch.")}
    if value is None or isinstance(value, PLAIN):
        return {"value": value}
    raise TypeError(f"{value!r} cannot be saved with a graph")


def decode(row: Any, nodes: dict[str, Node]) -> Any:
    ((kind, value),) = row.items()
    if kind == "node":
        return nodes[value]
    if kind in ("list", "tuple", "slice"):
        made = [decode(each, nodes) for each in value]
        return made if kind == "list" else tuple(made) if kind == "tuple" else slice(*made)
    if kind == "dict":
        return {checked_name(name): decode(each, nodes) for name, each in value.items()}
    if kind == "device":
        return tg.device(value)
    if kind == "torch":
        found = getattr(tg, value)
        if not isinstance(found, NAMED):
            raise ValueError(f"{value!r} is no dtype, layout or memory format")
        return found
    if kind != "value" or not (value is None or type(value) in PLAIN):
        raise ValueError(f"the exported program is damaged: {kind!r:.80} of a node")
    return value
