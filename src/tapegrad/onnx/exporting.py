"""`torch.onnx.export`: a model, recorded and written as an ONNX file."""

from __future__ import annotations

import itertools
import os
import threading
from typing import Any

from ..core.base import TensorBase
from ..core.python_dispatch import leaves_of
from .errors import OnnxExporterError
from .recording import Joined, Step, record
from .sizes import Sizes

DEFAULT_OPSET, OLDEST_OPSET = 18, 18
IR_VERSIONS = {18: 8, 19: 9, 20: 9}  # the oldest that has the opset; runtimes read those for long
NEWEST_IR = 10
LARGEST_FILE = 2**31 - 2**20  # what protobuf writes in one file
_exporting = threading.local()


def is_in_onnx_export() -> bool:
    """Whether a model is being exported in this thread."""
    return getattr(_exporting, "on", False)


class ONNXProgram:
    """An exported model: `model_proto` is the graph, `save` writes it."""

    def __init__(self, model_proto: Any) -> None:
        self.model_proto = model_proto

    def save(self, destination: Any, *, external_data: bool | None = None) -> None:
        """Write the graph; with `external_data`, the weights go into a file beside it."""
        onnx = package()
        if external_data is None:
            external_data = self.model_proto.ByteSize() > LARGEST_FILE
        if not hasattr(destination, "write"):
            name = os.path.basename(os.fspath(destination)) + ".data"
            options = {"save_as_external_data": True, "location": name} if external_data else {}
            onnx.save_model(self.model_proto, os.fspath(destination), **options)
        else:
            destination.write(self.model_proto.SerializeToString())

    def __repr__(self) -> str:
        graph = self.model_proto.graph
        given, made = ([v.name for v in side] for side in (graph.input, graph.output))
        return f"ONNXProgram({len(graph.node)} nodes, {given} -> {made})"


def package() -> Any:
    try:
        import onnx
        import onnx.helper
        import onnx.numpy_helper
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "torch.onnx.export needs the onnx package: pip install 'tapegrad[onnx]'", name="onnx"
        ) from None
    return onnx


def export(
    model: Any,
    args: Any = (),
    f: Any = None,
    *,
    kwargs: dict[str, Any] | None = None,
    verbose: bool | None = None,
    input_names: Any = None,
    output_names: Any = None,
    opset_version: int | None = None,
    dynamo: bool = True,
    external_data: bool | None = None,
    dynamic_shapes: Any = None,
    dynamic_axes: Any = None,
    export_params: bool = True,
    do_constant_folding: bool = True,
    **others: Any,
) -> ONNXProgram:
    """Write a model as an ONNX graph.

    The model runs on `args` in evaluation mode, and what it does is the graph. Sizes that may be
    others later are named by `dynamic_shapes` (per argument, `{0: "batch"}`) or `dynamic_axes` (by
    name of an input); the model then runs several times, on inputs of other sizes.
    """
    onnx = package()
    opset = DEFAULT_OPSET if opset_version is None else opset_version
    if not OLDEST_OPSET <= opset <= onnx.defs.onnx_opset_version():
        raise ValueError(
            f"Unsupported ONNX opset version: {opset} (tapegrad writes {OLDEST_OPSET} to "
            f"{onnx.defs.onnx_opset_version()})"
        )
    args = args if isinstance(args, tuple) else (args,)
    if args and isinstance(args[-1], dict) and kwargs is None:
        args, kwargs = args[:-1], args[-1]
    kwargs = kwargs or {}
    given = [t for t in leaves_of((args, kwargs)) if isinstance(t, TensorBase)]
    names = named_inputs(input_names, given, args, kwargs)
    symbols = symbols_of(given, names, args, kwargs, dynamic_shapes, dynamic_axes)
    was_training = getattr(model, "training", False)
    if hasattr(model, "eval"):
        model.eval()
    _exporting.on = True
    try:
        joined, outputs = recorded(model, args, kwargs, given, symbols)
        made = written(onnx, model, joined, outputs, given, names, symbols, output_names, opset)
    finally:
        _exporting.on = False
        if was_training:
            model.train()
    program = ONNXProgram(made)
    if f is not None:
        program.save(f, external_data=external_data)
    return program


# ---------------------------------------------------------------------- inputs and their sizes


def named_inputs(wanted: Any, given: list[Any], args: Any, kwargs: dict[str, Any]) -> list[str]:
    names = list(wanted or [])
    if len(names) > len(given):
        raise ValueError(f"{len(names)} input names for {len(given)} tensors")
    by_id = {id(t): name for name, t in kwargs.items()}
    rest = given[len(names) :]
    return names + [by_id.get(id(t), f"input_{i + len(names)}") for i, t in enumerate(rest)]


Symbols = dict[str, list[tuple[int, int]]]  # name -> (input, axis) that have this size


def symbols_of(
    given: list[Any],
    names: list[str],
    args: Any,
    kwargs: dict[str, Any],
    dynamic_shapes: Any,
    dynamic_axes: Any,
) -> Symbols:
    """The sizes that may change, by name."""
    wanted: dict[int, Any] = {}
    for name, axes in (dynamic_axes or {}).items():
        if name in names:
            wanted[names.index(name)] = axes
    if dynamic_shapes is not None:
        if isinstance(dynamic_shapes, dict):
            order = {id(t): n for t, n in zip(given, names, strict=True)}
            order |= {id(t): n for n, t in kwargs.items()}
            found = [dynamic_shapes.get(order[id(t)]) for t in given]
            if not any([f is not None for f in found]):  # by the names of forward's parameters
                found = [*dynamic_shapes.values()]
        else:
            found = list(dynamic_shapes)
        wanted |= {i: axes for i, axes in enumerate(found) if axes is not None}
    symbols: Symbols = {}
    for i, axes in wanted.items():
        if isinstance(axes, (list, tuple)):
            pairs = (
                [(a, f"{names[i]}_{a}") for a in axes]
                if all([isinstance(a, int) for a in axes])
                else list(enumerate(axes))
            )
        else:
            pairs = list(axes.items())
        for axis, label in pairs:
            if label is None or isinstance(label, int):
                continue
            text = label if isinstance(label, str) else getattr(label, "__name__", "")
            symbols.setdefault(text or f"{names[i]}_{axis}", []).append((i, axis))
    for name, places in symbols.items():
        if len({int(given[i].shape[axis]) for i, axis in places}) > 1:
            raise ValueError(f"the inputs have different sizes where they are all {name!r}")
    return symbols


def resized(t: Any, axis: int, size: int) -> Any:
    """A tensor with its rows repeated, or fewer of them: its values stay such as they may be."""
    from .. import arange

    return t.index_select(axis, arange(size) % max(int(t.shape[axis]), 1))


def candidates(size: int) -> list[int]:
    """Other sizes to try: odd ones first, multiples for models that halve, smaller ones at last."""
    tried = [size + 3, size + 1, 2 * size, 3 * size, 4 * size, size - 1, size - 2, size // 2]
    return [n for n in tried if n > 1 and n != size]


def recorded(
    model: Any, args: Any, kwargs: Any, given: list[Any], symbols: Symbols
) -> tuple[Joined, list[Any]]:
    """The model's work with inputs of several sizes, side by side."""
    base = {name: int(given[places[0][0]].shape[places[0][1]]) for name, places in symbols.items()}
    runs: list[tuple[dict[str, int], Any]] = []

    def run(sizes: dict[str, int]) -> bool:
        inputs = list(given)
        for name, places in symbols.items():
            for i, axis in places:
                if sizes[name] != base[name]:
                    inputs[i] = resized(inputs[i], axis, sizes[name])
        # Every run has tensors of its own, and after the first one other values: what comes out the
        # same all the same is a constant.
        inputs = [t.flatten().roll(1).view(t.shape) if runs else t.clone() for t in inputs]
        replaced = dict(zip([id(t) for t in given], inputs, strict=True))
        new_args, new_kwargs = exchanged((args, kwargs), replaced)
        try:
            recording, out = record(model, new_args, new_kwargs)
        except OnnxExporterError:
            raise
        except Exception:
            if sizes == base:
                raise
            return False
        runs.append((sizes, (recording, inputs, out)))
        return True

    run(base)
    if not symbols:
        run(base)
    others: dict[str, list[int]] = {}
    for name in symbols:
        others[name] = []
        for size in candidates(base[name]):
            if len(others[name]) < 2 and run({**base, name: size}):
                others[name].append(size)
        if not others[name]:
            raise OnnxExporterError(
                f"the model does not take inputs of another size {name!r} than {base[name]}"
            )
    for count in range(2, len(symbols) + 1):
        for chosen in itertools.combinations(symbols, count):
            run({**base, **{name: others[name][0] for name in chosen}})
    values = {name: [sizes[name] for sizes, _ in runs] for name in symbols}
    shapes = [[tuple(t.shape) for t in inputs] for _, (_, inputs, _) in runs]
    outs = [[t for t in leaves_of(out) if isinstance(t, TensorBase)] for _, (_, _, out) in runs]
    joined = Joined(
        [recording for _, (recording, _, _) in runs],
        [inputs for _, (_, inputs, _) in runs],
        Sizes(values, shapes),
    )
    if len({len(each) for each in outs}) > 1:
        raise OnnxExporterError("the number of outputs depends on the sizes of the inputs")
    last = Step("the result", [], {}, [], None)
    return joined, [joined.same(list(twins), last) for twins in zip(*outs, strict=True)]


def exchanged(tree: Any, replaced: dict[int, Any]) -> Any:
    if isinstance(tree, TensorBase):
        return replaced[id(tree)]
    if isinstance(tree, dict):
        return {k: exchanged(v, replaced) for k, v in tree.items()}
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*[exchanged(v, replaced) for v in tree])
    if isinstance(tree, (list, tuple)):
        return type(tree)([exchanged(v, replaced) for v in tree])
    return tree


# ---------------------------------------------------------------------- the graph


def written(
    onnx: Any,
    model: Any,
    joined: Joined,
    outputs: list[Any],
    given: list[Any],
    names: list[str],
    symbols: Symbols,
    output_names: Any,
    opset: int,
) -> Any:
    from . import layers, translations  # noqa: F401 - they enter the translations
    from .graph import Graph, Value
    from .sizes import Size

    state: dict[int, str] = {}
    if hasattr(model, "named_parameters"):
        for name, t in (*model.named_parameters(), *model.named_buffers()):
            state.setdefault(id(t), name)
    graph = Graph(onnx, joined, state, opset)
    kind = onnx.helper.np_dtype_to_tensor_dtype
    labels = {(i, axis): name for name, places in symbols.items() for i, axis in places}
    inputs = []
    for i, (t, name) in enumerate(zip(joined.inputs, names, strict=True)):
        shape = [labels.get((i, a), int(n)) for a, n in enumerate(t.shape)]
        inputs.append(onnx.helper.make_tensor_value_info(name, kind(t._array.dtype), shape))
        sizes = [
            joined.sizes.find([s[i][a] for s in joined.sizes.input_shapes], graph.step)
            for a in range(t.ndim)
        ]
        graph.values[id(t)] = Value(graph.fresh(name), t._array.dtype, sizes)
    for name, places in symbols.items():
        i, axis = places[0]
        graph.symbols[name] = (names[i], axis)
    for step in joined.recordings[0].steps:
        graph.add(step)
    wanted = list(output_names or []) + [
        f"output_{i}" for i in range(len(output_names or []), len(outputs))
    ]
    results = []
    for t, name in zip(outputs, wanted, strict=True):
        value = graph.value(t)
        renamed = graph.fresh(name)
        source = graph.name_of(value)
        graph.nodes.append(onnx.helper.make_node("Identity", [source], [renamed]))
        shape = [str(n) if isinstance(n, Size) else int(n) for n in value.shape]
        results.append(onnx.helper.make_tensor_value_info(renamed, kind(value.dtype), shape))
    nodes = needed(graph.nodes, [r.name for r in results])
    used = {name for node in nodes for name in node.input}
    weights = [
        onnx.numpy_helper.from_array(array, name)
        for name, array in graph.constants.items()
        if name in used
    ]
    title = type(model).__name__ if hasattr(model, "eval") else "main_graph"
    made = onnx.helper.make_model(
        onnx.helper.make_graph(nodes, title, inputs, results, weights),
        producer_name="tapegrad",
        opset_imports=[onnx.helper.make_opsetid("", opset)],
    )
    made.ir_version = IR_VERSIONS.get(opset, NEWEST_IR)
    if made.ByteSize() < LARGEST_FILE:
        onnx.checker.check_model(made)
    return made


def needed(nodes: list[Any], wanted: list[str]) -> list[Any]:
    """The nodes that the results depend on, in their order."""
    names = set(wanted)
    kept: list[Any] = []
    for node in reversed(nodes):
        if names.intersection(node.output):
            names.update(node.input)
            kept.append(node)
    return kept[::-1]
