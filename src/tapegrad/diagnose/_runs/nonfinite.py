"""The birth of a NaN or an infinity: the op that made it, what it was given, what led there.

An op is the birthplace of NaN if its result has NaN and its inputs have none; of infinity, if its
inputs are all finite. A constant that is infinite itself (a mask of -inf) is no birth.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..._library.calls import present
from ...core.array_kind import host
from ...core.base import STATE, TensorBase
from ...core.lazy_conj import plain
from ...core.python_dispatch import leaves_of
from ...kernels.cpu import KERNELS
from .kept import Kept
from .reader import Line, read_run

MOST_HISTORY = 8  # earlier steps of the op that are told
FLOATING = "fcV"
PLACES = {"forward": "forward pass", "backward": "backward pass", "optimizer": "optimizer"}


@dataclass
class Birth:
    """Where the first value that is not finite was made."""

    what: str  # "NaN" or "infinity"
    op: str
    phase: str
    step: int
    module: str
    line: Line | None
    count: int
    size: int
    inputs: list[str]
    history: list[tuple[int, float]] = field(default_factory=list)  # step, largest input
    path: str | None = None
    was_given: bool = False  # an input of the op's forward pass is not finite already

    def __str__(self) -> str:
        at = "" if self.line is None else f" at {self.line.file}:{self.line.number}"
        inside = f" in {self.module}" if self.module else ""
        lines = [
            f"the first {self.what} is made at step {self.step}, in the {PLACES[self.phase]}, by "
            f"{self.op}{inside}{at}"
        ]
        if self.line is not None and self.line.text:
            lines.append(f"    {self.line.text}")
        lines.append(f"  {self.count} of {self.size} values of its result are not finite")
        lines += [f"  input {i}: {told}" for i, told in enumerate(self.inputs)]
        if self.was_given:
            lines.append("  an input is not finite already: it came with the data or a constant")
        if self.history:
            told = ", ".join(f"{step}: {value:.3g}" for step, value in self.history)
            lines.append(f"  the largest input of this op by step: {told}")
        if self.path is not None:
            lines.append(f"  tapegrad replay-op {self.path} runs the op again alone")
        return "\n".join(lines)


class NonfiniteError(FloatingPointError):
    """Raised at the op that made the first value that is not finite; `birth` says which."""

    def __init__(self, birth: Birth) -> None:
        super().__init__(str(birth))
        self.birth = birth


def bad_in(array: Any) -> tuple[int, int]:
    """How many NaNs and infinities an array has."""
    if not hasattr(array, "dtype") or type(array) is STATE.meta_type:
        return 0, 0
    if type(array) is np.ndarray and KERNELS is not None and KERNELS.all_finite(array):
        return 0, 0
    array = np.asarray(host(plain(array)))
    if array.dtype.kind not in FLOATING:
        return 0, 0
    wide = array if array.dtype.kind == "c" else array.astype(np.float64)
    nans = int(np.isnan(wide).sum())
    return nans, int(array.size - np.isfinite(wide).sum()) - nans


def array_of(t: Any) -> Any:
    return t._array if isinstance(t, TensorBase) else t


def reach(array: Any) -> str:
    """`float32[8x4] from -1.2 to 3.4, smallest size 1e-9`."""
    array = np.asarray(host(plain(array)))
    name = f"{array.dtype}[{'x'.join(map(str, array.shape))}]"
    if not array.size or array.dtype.kind == "c":
        return name
    values = array.astype(np.float64)
    good = values[np.isfinite(values)]
    if not good.size:
        return f"{name}, nothing finite"
    zeros = int((good == 0).sum())
    text = f"{name} from {good.min():.6g} to {good.max():.6g}"
    text += f", {zeros} zeros" if zeros else f", smallest size {np.abs(good).min():.3g}"
    return text + (f", {values.size - good.size} not finite" if good.size < values.size else "")


def is_constant(values: Any) -> bool:
    """Whether a number that is not finite was given by the program itself."""
    numbers = [v for v in leaves_of(values) if isinstance(v, (float, np.generic, np.ndarray))]
    return any([np.size(v) == 1 and sum(bad_in(np.asarray(v))) > 0 for v in numbers])


class NonfiniteWatch:
    """Looks at every result while a recording is on, and stops it at the first birth."""

    def __init__(self, recorder: Any) -> None:
        self.recorder = recorder
        self.calls: dict[int, Any] = {}  # of nodes that wait for their backward pass
        self.before: list[Any] = []

    def born(self, given: list[Any], made: list[Any], values: Any = ()) -> tuple[str, Any] | None:
        """Whether the op made a NaN or an infinity, and in which of its results."""
        for t in made:
            nans, infinities = bad_in(array_of(t))
            if not nans and not infinities:
                continue
            counts = [bad_in(array_of(g)) for g in given]
            if nans and not any([n for n, _ in counts]):
                return "NaN", array_of(t)
            if infinities and not any([n or i for n, i in counts]) and not is_constant(values):
                return "infinity", array_of(t)
        return None

    # ------------------------------------------------------------------ what the recorder calls

    def after_op(self, op: Any, tensors: Any, attrs: Any, watch: Any, out: Any, where: Any) -> None:
        results = [t for t in leaves_of(out) if isinstance(t, TensorBase)]
        given = [t for t in (*tensors, *watch) if isinstance(t, TensorBase)]
        found = self.born(given, results, (tensors, attrs))
        if found is not None:
            self.stop("forward", op.aten_name(), found, given, where, (op, tensors, attrs, watch))
        for t in results:
            if t._node is not None and not t._node._is_leaf:
                self.calls[t._node._seq] = op, tensors, attrs, watch

    def before_call(self, call: Any) -> Any:
        given = [t for t in leaves_of((call.args, call.kwargs)) if isinstance(t, TensorBase)]
        kept = Kept()
        return (
            given,
            [np.array(host(plain(t._array))) for t in given],
            kept,
            {
                "op": str(call.overload),
                "args": kept.data(list(call.args)),
                "kwargs": kept.data(call.kwargs),
            },
        )

    def after_call(self, call: Any, before: Any, results: list[Any], where: Any) -> None:
        _, arrays, kept, told = before
        found = self.born(arrays, results, (call.args, call.kwargs))
        if found is not None:
            self.stop("forward", told["op"].split(".")[1], found, arrays, where, (told, kept))

    def after_node(self, node: Any, parts: Any, grads: Any, where: Any) -> None:
        given = [g for g in parts if g is not None]
        found = self.born(given, [g for g in grads or () if g is not None])
        if found is None:
            return
        call = self.calls.get(node._seq)
        saved = [] if call is None else [t for t in call[1] if isinstance(t, TensorBase)]
        self.stop("backward", node.name(), found, [*given, *saved], where, call, parts)

    def after_backward(self) -> None:
        self.calls.clear()

    def before_step(self, optimizer: Any) -> None:
        self.before = []
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p._gradient is not None:
                    kept = Kept()
                    told = {
                        "op": type(optimizer).__name__,
                        "param": kept.data(p.detach()),
                        "grad": kept.data(p._gradient),
                        "state": kept.data(dict(optimizer.state.get(p, {}))),
                        "options": {
                            k: kept.data(v)
                            for k, v in group.items()
                            if k in optimizer.defaults and k not in ("foreach", "fused")
                        },
                    }
                    self.before.append((p, kept, told))

    def after_step(self, optimizer: Any, line: int) -> None:
        for p, kept, told in self.before:
            found = self.born(list(kept.arrays.values()), [p])
            if found is not None:
                name = f"{told['op']}.step"
                where = line, self.recorder.empty, self.recorder.empty
                given = list(kept.arrays.values())
                self.stop("optimizer", name, found, given, where, (told, kept))
        self.before = []

    # ------------------------------------------------------------------ the end

    def stop(
        self, phase: str, name: str, found: Any, given: Any, where: Any, call: Any, grads: Any = ()
    ) -> None:
        """Write the op down whole, and raise."""
        what, array = found
        stream = self.recorder.stream
        texts = list(stream.texts)
        line = None
        if where[0] < len(texts):
            file, number, function, text = texts[where[0]].split("\x1f", 3)
            line = Line(file, int(number), function, text)
        nans, infinities = bad_in(array)
        birth = Birth(
            *(what, name, phase, self.recorder.step_number, texts[where[1]], line),
            *(nans + infinities, array.size, [reach(array_of(t)) for t in given]),
        )
        if phase == "backward":
            birth.was_given = any([sum(bad_in(array_of(t))) for t in given])
        if call is not None:
            kept = Kept()
            told = call[0] if len(call) == 2 else self.spelled(call, kept)
            kept = call[1] if len(call) == 2 else kept
            told = {**told, "phase": phase, "line": "" if line is None else f"{line}: {line.text}"}
            if phase == "backward":
                told["grads"] = [
                    None if g is None else kept.data(g if isinstance(g, TensorBase) else wrapped(g))
                    for g in grads
                ]
            stream.keep(told, kept.arrays)
            birth.path = stream.path
        birth.history = self.history(birth)
        raise NonfiniteError(birth)

    @staticmethod
    def spelled(call: Any, kept: Kept) -> dict[str, Any]:
        op, tensors, attrs, watch = call
        plain_ones = tuple([t.detach() if isinstance(t, TensorBase) else t for t in tensors])
        overload, args, kwargs = present(op, plain_ones, attrs, watch)
        return {
            "op": str(overload),
            "args": kept.data(list(args)),
            "kwargs": kept.data(kwargs),
        }

    def history(self, birth: Birth) -> list[tuple[int, float]]:
        """The largest input of the op in each of the last steps, from what was recorded."""
        stream = self.recorder.stream
        stream.flush()
        source: Any = stream.path
        if source is None:
            if not isinstance(stream.file, io.BytesIO):
                return []
            source = io.BytesIO(stream.file.getvalue())
        run = read_run(source, partial=True)
        found: dict[int, float] = {}
        for ops in run.steps:
            for op in ops:
                same = op.name == birth.op and op.module == birth.module
                if same and (op.line is None or birth.line is None or op.line == birth.line):
                    sizes = [max(abs(v.low), abs(v.high)) for v in op.read if v is not None]
                    found[op.step] = max([found.get(op.step, 0.0), *sizes])
        return sorted(found.items())[-MOST_HISTORY:]


def wrapped(array: Any) -> Any:
    from ...core.base import wrap

    return wrap(np.asarray(array))


def first_nonfinite(
    f: Callable[..., Any], *args: Any, keep: Any = None, **kwargs: Any
) -> Birth | None:
    """Run `f(*args, **kwargs)` until an op makes a NaN or an infinity; say which, or None.

    With `keep`, a path, the run is recorded there, with the op and its inputs: `tapegrad replay-op`
    runs it again alone.

    >>> x = tensor([1.0, 0.0])
    >>> birth = diagnose.first_nonfinite(lambda: (x * 2).log().sum())
    >>> birth.what, birth.op, birth.inputs[0]
    ('infinity', 'log', 'float32[2] from 0 to 2, 1 zeros')
    """
    if not callable(f):
        raise TypeError(
            f"first_nonfinite(): argument 'f' must be a function, not {type(f).__name__}"
        )
    from .recorder import record

    try:
        with record(io.BytesIO() if keep is None else keep, until_nonfinite=True):
            f(*args, **kwargs)
    except NonfiniteError as error:
        return error.birth
    return None
