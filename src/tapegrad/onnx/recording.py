"""Recording a forward pass for ONNX: the ops that ran, several times, with inputs of several sizes.

A graph for inputs of any size needs to know which numbers in it follow from the sizes. So the model
runs on inputs of different sizes, and the recordings are laid side by side: numbers that stay are
constants, numbers that change must be a polynomial of the sizes (`sizes.py`), and everything else
has to be the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _ops  # noqa: F401 - calls are told by their names in torch.ops
from ..autograd import no_grad
from ..core.base import TensorBase
from ..core.dispatch import apply
from ..core.op import Op
from ..core.python_dispatch import Call, OpMode, below_autograd, leaves_of
from ..errors import evidence
from ..ops.index.advanced import IndexAt, IndexPut
from ..ops.nn.recurrent import GruLayer, LstmLayer, RnnLayer
from .errors import OnnxExporterError
from .sizes import Size, Sizes

# Ops that hand a value to Python, by their names in PyTorch.
READS = ("aten::_local_scalar_dense", "aten::equal")


class Step:
    """One op of a recording."""

    def __init__(
        self, op: Any, tensors: list[Any], attrs: dict[str, Any], results: list[Any], place: Any
    ) -> None:
        self.op = op  # of the registry, or a name in PyTorch, as in "aten::arange"
        self.name: str = op if isinstance(op, str) else op.name
        self.tensors = tensors  # tensors, numbers and None
        self.attrs = attrs
        self.results = results
        self.shapes = [tuple(r.shape) if isinstance(r, TensorBase) else () for r in results]
        self.place = place  # the user's line
        self.sizes: list[tuple[int | Size, ...]] = []  # of the results
        self.writes = False  # the result is what the first tensor is from now on
        self.view = False

    def where(self) -> str:
        return "" if self.place is None else f"\n  at {evidence.spell(self.place)}"


class Recording(OpMode):
    """A block whose ops are noted. All tensors are kept, so that an id means one of them."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.known: dict[int, Any] = {}
        self.versions: dict[int, int] = {}
        self.made: set[int] = set()  # ids of what depends on the inputs, for all that is known yet

    def note(self, *tensors: Any) -> None:
        for t in tensors:
            if isinstance(t, TensorBase):
                self.known[id(t)] = t
                self.versions[id(t)] = version(t)

    def check_writes(self, tensors: list[Any]) -> None:
        """Everything that is written has to go through a step."""
        for t in tensors:
            if isinstance(t, TensorBase) and self.versions.get(id(t), version(t)) != version(t):
                raise OnnxExporterError(
                    f"something was written into a tensor in a way that cannot be exported{here()}"
                )

    def run(
        self, op: Op, tensors: tuple[Any, ...], attrs: tuple[Any, ...], watch: tuple[Any, ...]
    ) -> Any:
        self.check_writes([*tensors, *watch])
        with below_autograd():
            answer = apply(op, tensors, attrs, watch)
        results = [answer] if op.single else list(answer)
        self.add(op, list(tensors), attrs, watch, results)
        return answer

    def add(self, op: Op, tensors: list[Any], attrs: Any, watch: Any, results: list[Any]) -> Step:
        named = dict(zip(op.attrs, attrs, strict=True))
        if op in (LstmLayer, GruLayer, RnnLayer):
            named |= equal_lengths(named.pop("sizes"))
        if op in (IndexAt, IndexPut):
            of_array = {id(t._array): t for t in watch}
            named["index"] = [of_array.get(id(part), part) for part in named["index"]]
        step = Step(op, tensors, named, results, evidence.here())
        step.view = op.view
        self.steps.append(step)
        self.note(*leaves_of((tensors, list(named.values()), results)))
        self.made.update([id(r) for r in results])
        return step

    def ask(self, call: Call) -> Any:
        self.check_writes(leaves_of((call.args, call.kwargs)))
        with below_autograd():
            out = call.run(call.args, call.kwargs)
        if call.written is not None:
            op, tensors, attrs = call.written
            step = self.add(op, list(tensors), attrs, (), [out])
            step.writes = True
            self.seen_writing(out)
            return out
        name = call.overload.name().split(".")[0]
        if name in READS:
            for t in call.args:
                self.read(t)
            return out
        attrs = {"args": list(call.args), **call.kwargs}
        self.steps.append(Step(name, [], attrs, [out], evidence.here()))
        self.note(*leaves_of((attrs, out)))
        self.made.update([id(r) for r in leaves_of(out)])
        return out

    def seen_writing(self, target: Any) -> None:
        """Views share their memory, and its version."""
        cell = target._version_cell()
        for t in self.known.values():
            if t._version_cell() is cell:
                self.versions[id(t)] = version(t)

    def read(self, t: TensorBase) -> None:
        if id(t) not in self.made:
            return  # a constant, which it stays
        raise OnnxExporterError(
            f"the values of a tensor are handed to Python, which a graph cannot follow{here()}"
        )

    def whole(self, function: Any, args: Any, kwargs: Any) -> Any:
        raise OnnxExporterError(
            f"{function.__name__} draws random numbers or changes more than tensors, which cannot "
            f"be exported{here()}"
        )


def version(t: Any) -> int:
    return t._version_cell().n  # type: ignore[no-any-return]


def here() -> str:
    """The user's line, for a message."""
    place = evidence.here()
    return "" if place is None else f"\n  at {evidence.spell(place)}"


def equal_lengths(sizes: tuple[int, ...]) -> dict[str, int]:
    if len(set(sizes)) > 1:
        raise OnnxExporterError("packed sequences of different lengths cannot be exported")
    return {"steps": len(sizes), "batch": sizes[0]}


def record(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Recording, Any]:
    """Record the ops that a model runs on its arguments, and its results."""
    with no_grad(), Recording() as recording:
        recording.note(*leaves_of((args, kwargs)))
        recording.made.update(recording.known)
        out = model(*args, **kwargs)
    return recording, out


# ---------------------------------------------------------------------- side by side


class Joined:
    """Several recordings of one model as one, with sizes in the place of numbers that change."""

    def __init__(self, recordings: list[Recording], inputs: list[list[Any]], sizes: Sizes) -> None:
        self.recordings = recordings
        self.inputs = inputs[0]
        self.sizes = sizes
        # Per recording: what an id stands for.
        self.origin: list[dict[int, Any]] = [
            {id(t): ("input", i) for i, t in enumerate(given)} for given in inputs
        ]
        self.of: list[dict[int, Any]] = [dict(r.known) for r in recordings]
        self.check_lengths()
        for i, step in enumerate(recordings[0].steps):
            self.join(i, step, [r.steps[i] for r in recordings])

    def check_lengths(self) -> None:
        for steps in zip(*[r.steps for r in self.recordings], strict=False):
            if len({s.name for s in steps}) > 1:
                names = " or ".join(sorted({s.name for s in steps}))
                raise OnnxExporterError(
                    f"with inputs of other sizes the model does something else here: {names}"
                    f"{steps[0].where()}"
                )
        lengths = {len(r.steps) for r in self.recordings}
        if len(lengths) > 1:
            raise OnnxExporterError(
                f"with inputs of other sizes the model runs {max(lengths)} ops instead of "
                f"{min(lengths)}: a loop over a dynamic size cannot be exported"
            )

    def join(self, place: int, step: Step, twins: list[Step]) -> None:
        for i in range(len(step.tensors)):
            step.tensors[i] = self.same([t.tensors[i] for t in twins], step)
        if any([len(t.results) != len(step.results) for t in twins]):
            raise OnnxExporterError(
                f"{step.name} has as many results as a dynamic size says{step.where()}"
            )
        for origin, twin in zip(self.origin, twins, strict=True):
            for i, result in enumerate(twin.results):
                if isinstance(result, TensorBase) and not twin.writes:
                    origin.setdefault(id(result), (place, i))
        for i, result in enumerate(step.results):
            if isinstance(result, TensorBase):
                sizes = list(zip(*[t.shapes[i] for t in twins], strict=True))
                for axis, values in enumerate(sizes):
                    self.sizes.derive(list(values), result, axis)
                step.sizes.append(tuple([self.sizes.find(list(v), step) for v in sizes]))
            else:
                step.sizes.append(())
        step.attrs = {
            name: self.same([t.attrs.get(name) for t in twins], step) for name in step.attrs
        }

    def same(self, values: list[Any], step: Step) -> Any:
        """One value for all recordings."""
        first = values[0]
        if isinstance(first, TensorBase):
            origins = {self.origin[k].get(id(t)) for k, t in enumerate(values)}
            if origins == {None}:
                alike = all([equal(first._array, t._array) for t in values])
                origins = {None} if alike else {None, "values"}
            if len(origins) > 1:
                raise OnnxExporterError(
                    f"{step.name} reads a tensor that was made outside of ops, of values or sizes "
                    f"that the graph does not see{step.where()}"
                )
            return first
        if isinstance(first, (list, tuple)) and all([type(v) is type(first) for v in values]):
            if len({len(v) for v in values}) == 1:
                joined = [self.same(list(v), step) for v in zip(*values, strict=True)]
                return joined if isinstance(first, list) else tuple(joined)
        if type(first) is int and all([type(v) is int for v in values]):
            return self.sizes.find(values, step)
        if any([not equal(first, v) for v in values]):
            raise OnnxExporterError(
                f"{step.name} depends on the size of the input in a way that a graph cannot "
                f"express: {first!r:.60} and {values[-1]!r:.60}{step.where()}"
            )
        return first


def equal(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return bool(np.array_equal(a, b))
    return a is b or bool(a == b) or (a != a and b != b)
