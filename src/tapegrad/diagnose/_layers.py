"""`summary(model, *inputs)`: the layers of a model as one forward pass meets them.

>>> import tapegrad as torch
>>> net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
>>> found = torch.diagnose.summary(net, torch.ones(3, 4))
>>> [(row.name, row.kind, row.output, row.total) for row in found.layers]
[('', 'Sequential', '(3, 2)', 58), ('0', 'Linear', '(3, 8)', 40), ('1', 'ReLU', '(3, 8)', 0), ('2', 'Linear', '(3, 2)', 18)]
>>> found.parameters, found.trainable
(58, 58)
"""  # noqa: E501

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any

from ..core.base import TensorBase
from ..core.modes import grad_set_to
from ..ops.draws.generators import default_generator
from ..overrides import TorchFunctionMode
from ..utils import _pytree as pytree
from . import words


@dataclass
class Layer:
    """One call of a module."""

    name: str  # its path in the model
    kind: str
    depth: int
    inside: str  # the path of the row that it belongs to
    parameters: int  # of its own, without those of the modules in it, when it is first called
    total: int  # with those of the modules in it
    output: str = "-"
    bytes: int = 0  # of the output
    seconds: float | None = None  # with the modules in it; None: it was not called
    used: bool = False  # not called, but somebody else computes with its parameters


class Layers:
    """The result of `summary` for a model: attributes for a program, a table for a reader."""

    def __init__(self, model: Any) -> None:
        self.model = type(model).__name__
        self.layers: list[Layer] = []
        own = list(model.parameters())  # each once, however often it is used
        self.parameters: int = sum([count(p) for p in own])
        self.trainable: int = sum([count(p) for p in own if p.requires_grad])
        self.parameter_bytes: int = sum([size(p) for p in own])
        self.buffer_bytes: int = sum([size(b) for b in model.buffers()])
        self.input_bytes = 0
        self.output_bytes = 0  # of the layers that have no others in them

    def data(self) -> dict[str, Any]:
        """Everything as a dict of plain values."""
        return dict(vars(self), layers=[asdict(layer) for layer in self.layers])

    def __repr__(self) -> str:
        rows = [["layer", "output", "parameters", "memory", "time"]]
        for layer in self.layers:
            seconds = layer.seconds
            path = layer.name.removeprefix(f"{layer.inside}.")
            label = f"{path}: {layer.kind}" if path else layer.kind
            rows.append(
                [
                    "  " * layer.depth + label,
                    layer.output,
                    f"{layer.total:,}" if layer.total else "-",
                    words.as_bytes(layer.bytes) if layer.bytes else "-",
                    spent(layer) if seconds is None else f"{seconds * 1e3:.2f} ms",
                ]
            )
        if all([layer.seconds is None for layer in self.layers]):  # there were no inputs
            lines = words.table([[row[0], row[2]] for row in rows], right=[1], indent=0)
        else:
            lines = words.table(rows, right=[2, 3, 4], indent=0)
        fixed = self.parameters - self.trainable
        lines += [
            "",
            f"parameters: {self.parameters:,} ({words.as_bytes(self.parameter_bytes)})"
            + (f", of which {fixed:,} are frozen" if fixed else ""),
            f"input {words.as_bytes(self.input_bytes)}, outputs of the layers "
            f"{words.as_bytes(self.output_bytes)}, buffers {words.as_bytes(self.buffer_bytes)}",
        ]
        return "\n".join(lines)


def spent(layer: Layer) -> str:
    """The text in the column of times for a module that was not called."""
    return "used" if layer.used else "not called"


def count(t: Any) -> int:
    return 0 if words.is_lazy(t) else int(t.numel())


def size(t: Any) -> int:
    return 0 if words.is_lazy(t) else int(t.numel() * t.element_size())


def tensors_in(value: Any) -> list[Any]:
    return [t for t in pytree.tree_flatten(value)[0] if isinstance(t, TensorBase)]


def shapes(value: Any) -> str:
    return ", ".join([str(tuple(t.shape)) for t in tensors_in(value)]) or "-"


class Arguments(TorchFunctionMode):
    """The parameters that functions are called with, by id."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[int] = set()

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.seen.update([id(t) for t in tensors_in((args, kwargs))])
        return func(*args, **(kwargs or {}))


class Listener:
    """Hooks on all modules of a model that note their calls."""

    def __init__(self, model: Any, found: Layers) -> None:
        self.found = found
        self.names = {id(module): name for name, module in model.named_modules()}
        self.known: set[int] = set()  # parameters that have been counted
        self.totals: set[str] = set()  # modules whose total has been
        self.running: list[tuple[Layer, float]] = []
        self.handles: list[Any] = []
        for module in model.modules():
            self.handles.append(module.register_forward_pre_hook(self.before))
            self.handles.append(module.register_forward_hook(self.after))

    def row(self, module: Any, depth: int, inside: str, at: int | None = None) -> Layer:
        """A new row, at the end or at an index; parameters are counted in their first row."""
        new = [p for p in module.parameters(recurse=False) if id(p) not in self.known]
        self.known.update([id(p) for p in new])
        parameters = sum([count(p) for p in new])
        name = self.names[id(module)]
        total = 0 if name in self.totals else sum([count(p) for p in module.parameters()])
        self.totals.add(name)
        layer = Layer(name, type(module).__name__, depth, inside, parameters, total)
        rows = self.found.layers
        rows.insert(len(rows) if at is None else at, layer)
        return layer

    def before(self, module: Any, args: Any) -> None:
        inside = self.running[-1][0].name if self.running else ""
        self.running.append((self.row(module, len(self.running), inside), time.perf_counter()))

    def after(self, module: Any, args: Any, output: Any) -> None:
        layer, start = self.running.pop()
        given = tensors_in(output)
        if any([t.is_cuda for t in given]):
            from ..cuda import synchronize

            synchronize()
        layer.seconds = time.perf_counter() - start
        layer.output, layer.bytes = shapes(output), sum([size(t) for t in given])
        if self.found.layers[-1] is layer:  # nothing was called in it
            self.found.output_bytes += layer.bytes

    def add_uncalled(self, name: str, module: Any, used: set[int]) -> None:
        """A row for a module that was not called, below the rows of the module that holds it.

        Containers whose modules were called (a ModuleList) need none: the paths name them.
        """
        rows = self.found.layers
        below = [row for row in rows if row.seconds is not None and row.name.startswith(f"{name}.")]
        if below and not module._parameters:
            return
        holder, _, _ = name.rpartition(".")
        while holder and all([row.name != holder for row in rows]):
            holder = holder.rpartition(".")[0]
        own = [i for i, row in enumerate(rows) if row.name == holder]
        depth, at = 0, len(rows)
        if own:
            depth, at = rows[own[0]].depth + 1, own[0] + 1
            while at < len(rows) and rows[at].depth >= depth:
                at += 1
        layer = self.row(module, depth, holder, at)
        layer.used = any([id(p) in used for p in module.parameters()])

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()


def layers(model: Any, inputs: tuple[Any, ...], named: dict[str, Any]) -> Layers:
    """The calls of a forward pass as in evaluation; the model is left as it was.

    There is one pass before it: what is loaded or made at a first call is not the layers' time.
    """
    flags = [(module, module.training) for module in model.modules()]
    random = default_generator.get_state()
    listener = None
    try:
        model.eval()
        with grad_set_to(False):
            watch = Arguments()
            if inputs or named:
                with watch:
                    model(*inputs, **named)
            found = Layers(model)
            found.input_bytes = sum([size(t) for t in tensors_in((inputs, named))])
            listener = Listener(model, found)
            if inputs or named:
                model(*inputs, **named)
        called = {layer.name for layer in found.layers}
        for name, module in model.named_modules():
            if name not in called:
                listener.add_uncalled(name, module, watch.seen)
    finally:
        if listener is not None:
            listener.remove()
        default_generator.set_state(random)
        for module, training in flags:
            module.training = training
    return found
