"""`tapegrad.compile.explain(f)`: the recordings of a compiled function, described in words."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from ...core.base import TensorBase
from ...errors import evidence
from ...nn.modules.module import Module
from ..capture.arguments import ANOTHER, ANY_FLOAT, OVERLAP, SAME_AS
from ..capture.undo import PLAIN
from ..plan.native_calls import Segment
from ..program.listing import Program
from ..program.recording import Recording
from ..program.steps import GradientStep, OpStep, WholeStep
from ..run.function import Compiled

MOST_KERNELS = 12  # lines about those of one call into C
UNITS = ((1e-3, 1e3, "ms"), (0.0, 1e6, "µs"))


class Explanation(str):
    """The description of a compiled function's recordings; `graph()` draws one."""

    compiled: Compiled

    def graph(self, index: int = 0) -> Any:
        """A recording as `diagnose.graph` draws graphs: text, SVG, DOT, a page."""
        from .drawing import picture

        return picture(self.recorded(index), self.compiled.name())

    def program(self, index: int = 0) -> Program:
        """The recorded steps as a `Program`; `str()` of it is a listing."""
        return self.recorded(index).listing.program()

    def recorded(self, index: int) -> Any:
        """A recording of the function, or of the pieces that it was cut into."""
        found = [r for r in recordings_of(self.compiled) if r.run_steps]
        if not found:
            raise RuntimeError(f"there is no recording of {self.compiled.name()}")
        return found[index]


def recordings_of(compiled: Compiled) -> list[Recording]:
    """The recordings of a compiled function, then those of its pieces, in order."""
    found = list(compiled.recordings.values())
    for part in callees_of(compiled):
        found += recordings_of(part)
    return found


def callees_of(compiled: Compiled, pieces: Any = None) -> list[Compiled]:
    """The compiled functions that the pieces of a function call."""
    if pieces is None:
        pieces = [] if compiled.split is None else compiled.split.pieces
    called = [each for p in pieces for each in (p.function, *[f for _, f in p.callees()])]
    return [each for each in called if isinstance(each, Compiled)]


def explain(function: Any) -> Explanation:
    """The recordings of a compiled function: what led to each, what it does, or why there is none.

    >>> import tapegrad as tg
    >>> @tg.compile
    ... def normal(x):
    ...     return (x - x.mean()) / (x.std() + 1e-5)
    >>> for i in range(4):
    ...     y = normal(tg.tensor([1.0, 2.0]))
    >>> print(tg.compile.explain(normal).partition(";")[0])
    normal: compiled as a whole, 1 recording
    """
    compiled = getattr(function, "__func__", function)
    if isinstance(compiled, Module):
        compiled = compiled._compiled_call_impl or compiled.forward
    if not isinstance(compiled, Compiled):
        raise TypeError(f"explain expects a compiled function, but got {type(function).__name__}")
    resting = [recording for some in compiled.resting.values() for recording in some]
    recordings = [*compiled.recordings.values(), *resting]
    lines = [f"{compiled.name()}: {summary(compiled, recordings)}"]
    for recording in recordings:
        at = "" if recording.called is None else f", at {evidence.spell(recording.called)}"
        lines.append(f"  {spell_key(recording)}, because of {recording.trigger}{at}")
        lines += ["    " + line for line in spell(recording)]
    if compiled.split is not None:
        for i, piece in enumerate(compiled.split.pieces, 1):
            lines.append(f"  piece {i}, {piece.spelled()}")
            for each in callees_of(compiled, [piece]):
                lines += ["    " + line for line in explain(each).splitlines()]
    made = Explanation("\n".join(lines))
    made.compiled = compiled
    return made


def summary(compiled: Compiled, recordings: list[Recording]) -> str:
    """How much of a function is compiled, why not more, and when that pays off, in one line."""
    refused = next((r for r in recordings if r.reason), None)
    count = sum([bool(r.run_steps) for r in recordings])
    if compiled.split is not None:
        pieces = compiled.split.pieces
        because = compiled.cut_because if refused is None else spell_refusal(refused)
        because = f" because of {because}" if because else ""
        if any([is_recorded(piece.function) for piece in pieces]):
            return f"compiled in {len(pieces)} pieces{because}"
        return f"not compiled: cut into {len(pieces)} pieces{because}, and none of them is recorded"
    if count:
        said = f"compiled as a whole, {count} recording{'' if count == 1 else 's'}"
        now = next((r for r in compiled.recordings.values() if r.reason), None)
        if now is not None:
            said = f"in part c{said[1:]}; other calls are not, because of {spell_refusal(now)}"
        calls = max([r.costs.calls_until_paid() for r in recordings if r.run_steps])
        if calls == math.inf:
            return f"{said}; replays are no faster than calls"
        return f"{said}; it pays off after about {calls:.0f} calls" if calls else said
    if refused is None:
        return "not compiled yet"
    is_apart = any([is_recorded(part) for r in recordings for _, part in r.parts])
    how = "ordinary Python around compiled modules" if is_apart else "not compiled"
    return f"{how} because of {spell_refusal(refused)}"


def is_recorded(function: Any) -> bool:
    """Whether a call of a piece replays something, in the piece or in what it calls."""
    if not isinstance(function, Compiled):
        return False
    if any([bool(r.run_steps) for r in function.recordings.values()]):
        return True
    pieces = [] if function.split is None else function.split.pieces
    called = [each for piece in pieces for _, each in piece.callees()]
    return any([is_recorded(each) for each in [*[p.function for p in pieces], *called]])


def spell_refusal(recording: Recording) -> str:
    """The user's line that prevents compiling, and why; only the reason if no line is known."""
    if recording.where is None:
        return f"this: {recording.reason}"
    where = recording.where
    text = f": `{where['text']}`" if where["text"] else ""
    return f"line {where['line']}{text} ({recording.reason})"


def spell_key(recording: Recording) -> str:
    """The arguments that a recording is for."""
    words = []
    for part in recording.key[2:]:
        if type(part) is tuple and part[0] == OVERLAP:
            continue
        if part is ANOTHER:
            words.append(ANOTHER)
        elif type(part) is tuple and part[0] == SAME_AS:
            words.append(f"argument {part[1] + 1} again")
        elif type(part) is tuple and len(part) >= 5:
            words.append(f"{part[0].__name__}{list(part[1])}")
        elif type(part) is tuple:
            value = float.fromhex(part[1]) if part[0] is float else part[-1]
            if part[0] is complex:
                value = complex(*map(float.fromhex, part[1:]))
            is_short = isinstance(value, (*PLAIN, bytes))
            words.append(repr(value) if is_short else f"a {part[0].__name__}")
        else:
            words.append("a float" if part is ANY_FLOAT else spell_same(part.value))
    return f"({', '.join(words)})"


def spell_same(value: Any) -> str:
    """Describe an argument that is compared by identity."""
    if not isinstance(value, TensorBase):
        return f"a {type(value).__name__}"
    return "a tensor that requires grad" if value._wants_grad else "this very tensor"


def spell(recording: Recording) -> list[str]:
    if recording.reason:
        line = "" if recording.where is None else f" at {evidence.spell(recording.where)}"
        lines = [f"runs as ordinary Python: {recording.reason}{line}"]
        parts = [explain(part) for _, part in recording.parts]
        return lines + ["  " + line for each in parts for line in each.splitlines()]
    if not recording.run_steps:
        return ["was called once; the next call is recorded"]
    state = f"replayed {recording.replays} times" if recording.confirmed else "not confirmed yet"
    recorded = f"recorded in {spell_time(recording.costs.recording)}"
    lines = [f"{state}; {recorded}, {spell_memory(recording)}"]
    lines += spell_steps(recording.run_steps, recording.times)
    for pattern, each in {} if recording.outside is None else recording.outside.passes.items():
        of = "" if all(pattern) else f" of results {[i for i, used in enumerate(pattern) if used]}"
        lines.append(f"the backward pass{of}:")
        lines += spell_steps(each.run_steps, each.times)
    return lines


def spell_steps(run_steps: list[Any], times: list[float]) -> list[str]:
    lines = []
    unknown = [math.inf] * (len(run_steps) - len(times))  # of a pass that never ran to its end
    for run, seconds in zip(run_steps, [*times, *unknown], strict=True):
        taken = "not timed" if seconds == math.inf else spell_time(seconds)
        lines.append(f"{taken:>9}  {spell_step(run.__self__)}")
        if isinstance(run.__self__, Segment):
            lines += spell_kernels(run.__self__, seconds)
    return lines


def spell_kernels(segment: Segment, whole: float) -> list[str]:
    """Kernels of one name together: what they took, and what they fill; the slow ones first.

    `whole` is what the segment took: the last line says what of it is not in a kernel.
    """
    found: dict[str, list[Any]] = {}
    for each in segment.outlines:
        found.setdefault(each.name, []).append(each)
    if len(found) < 2:
        return []
    rows = []
    for name, some in found.items():
        seconds, size = sum([x.seconds for x in some]), sum([x.bytes for x in some])
        rows.append((seconds, f"{name if len(some) == 1 else f'{name} x{len(some)}'}, {size:,} B"))
    rows.sort(key=lambda row: -row[0])
    lines = [f"{spell_time(seconds):>13}  {text}" for seconds, text in rows[:MOST_KERNELS]]
    rest = rows[MOST_KERNELS:]
    if rest:
        left = sum([seconds for seconds, _ in rest])
        lines.append(f"{spell_time(left):>13}  {len(rest)} others")
    around = whole - sum([seconds for seconds, _ in rows])
    if 0.05 * whole < around < math.inf:
        lines.append(f"{spell_time(around):>13}  around the kernels: checks, inputs, results")
    return lines


def spell_memory(recording: Recording) -> str:
    """The memory of a call's values, and how much sharing it saves."""
    plan: Any = recording.plan
    block = 0 if plan.block is None else plan.block.nbytes
    size = block + sum([array.nbytes for array in recording.memory.values()])
    shared = f" (values of {spell_size(plan.before)} share {spell_size(block)})"
    return f"it keeps {spell_size(size)}{shared if plan.before > block else ''}"


def spell_size(size: int) -> str:
    return f"{size / 1e6:.2f} MB" if size >= 100_000 else f"{size / 1e3:.1f} KB"


def spell_step(step: Any) -> str:
    if isinstance(step, Segment):
        names = Counter(step.names).items()
        shown = ", ".join([name if k == 1 else f"{name} x{k}" for name, k in names])
        return f"{step.count} ops in C: {shown}"
    if isinstance(step, GradientStep):
        return f"{len(step.gradients)} gradients are set"
    if isinstance(step, WholeStep):
        owner = step.args[0] if step.args else None
        name = step.name.rpartition(".")[2]
        return f"{type(owner).__name__}.{name}()" if hasattr(owner, "param_groups") else f"{name}()"
    kind = "an op" if isinstance(step, OpStep) else "a function"
    return f"{step.name}, {kind} in Python"


def spell_time(seconds: float) -> str:
    factor, unit = next((f, u) for least, f, u in UNITS if seconds >= least)
    return f"{seconds * factor:.1f} {unit}"
