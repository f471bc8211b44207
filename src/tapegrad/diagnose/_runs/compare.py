"""Where two recorded runs part: the first op whose inputs agree and whose output does not.

The ops of each step are aligned (align.py). Pairs are then looked at in order. Where a pair reads
values that differ, although everything before agreed, the cause is found by asking who made them:
an op that exists on one side only, another tensor, or nobody, as with parameters and data.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Any

from ...recorder_for_torch import RANDOM_OP, WRITES
from .align import Pair, align
from .differ import EPSILON, SAME, Difference, Tolerance, agree, difference
from .reader import Line, Note, Op, Run, Value

CUTS = ("detach", "detach_", "alias")
# Optimizers that divide a gradient by its own size: of one that is all but zero, the rounding
# decides about a whole step.
NORMALISING = ("Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "NAdam", "RAdam")
NORMALISING += ("RMSprop", "Rprop", "SparseAdam")
JUMP = 16  # a cause makes a difference this much larger than those of its inputs


def op_name(op: Op) -> str:
    """The name by which ops are matched: an in-place op is the same as the op."""
    name = op.name
    return name[:-1] if name.endswith("_") and not name.endswith("__") else name


def place_name(op: Op) -> str:
    """Where an op belongs: its module, or the parameter that an optimizer updates."""
    if op.phase == "optimizer" and op.read and op.read[0] is not None:
        return op.read[0].name
    return op.module


KEYS = (
    lambda op: (op.phase, op_name(op), place_name(op), "" if op.line is None else op.line.text),
    lambda op: (op.phase, op_name(op), place_name(op)),
    lambda op: (
        (op.phase, op_name(op)) if op.phase != "optimizer" else (op_name(op), place_name(op))
    ),
)


def is_step(op: Op) -> bool:
    return op.phase == "optimizer"


def KEY_OF_SHAPE(op: Op) -> Any:  # noqa: N802 - one more of KEYS
    shape = op.read[0].shape if is_step(op) and op.read and op.read[0] is not None else ()
    return op.phase, op_name(op), shape


NOTE_KEYS = (
    lambda note: (note.text, "" if note.line is None else note.line.text),
    lambda note: (kind_of(note), "" if note.line is None else note.line.text),
    lambda note: kind_of(note),
)


@dataclass
class Cause:
    """The first difference."""

    kind: str
    step: int
    a: Op | None
    b: Op | None
    found: Difference | None = None
    value: tuple[Value | None, Value | None] = (None, None)
    where: str = ""  # which input or output differs
    makers: tuple[Op | None, Op | None] = (None, None)
    notes: list[tuple[Note | None, Note | None]] = field(default_factory=list)

    @property
    def phase(self) -> str:
        op = self.a or self.b
        return "" if op is None else op.phase

    def lines(self) -> list[tuple[str, Line]]:
        """Every line that is named, with its side, the likeliest first."""
        named: list[tuple[str, Line]] = []
        for pair in self.notes:
            for side, note in zip("ab", pair, strict=True):
                if note is not None and note.line is not None:
                    named.append((side, note.line))
        for ops in ((self.a, self.b), self.makers):
            for side, op in zip("ab", ops, strict=True):
                if op is not None and op.line is not None:
                    named.append((side, op.line))
        return named


class Made:
    """The ops that made the values of one run, by hash."""

    def __init__(self) -> None:
        self.known: dict[int, tuple[Op, Any]] = {}

    def add(self, op: Op, pair: Any) -> None:
        for v in op.made:
            if v is not None:
                self.known[v.hash] = (op, pair)

    def find(self, v: Value | None) -> tuple[Op | None, Any]:
        return (None, None) if v is None else self.known.get(v.hash, (None, None))


class Comparison:
    """The result of `compare`."""

    def __init__(self, a: Run, b: Run, tolerance: Tolerance) -> None:
        self.a, self.b = a, b
        self.tolerance = tolerance
        self.crosses = a.head.get("library") != b.head.get("library")
        self.cause: Cause | None = None
        self.drift: Cause | None = None
        self.alone: list[tuple[str, Op]] = []  # ops that exist on one side only
        self.growth: list[tuple[int, float, float | None]] = []  # step, largest, of the loss
        self.pairs: list[list[Pair]] = []
        self.random_parts: int | None = None  # the first step in which the streams differ
        self.parameters: list[str] = []  # that differ at their first use
        self.parameter_count = 0
        self.batches = ""
        self.drifted: tuple[set[int], set[int]] = (set(), set())
        self.made = Made(), Made()
        self.writes: list[tuple[Op, Op]] = []  # pairs of which one writes in place
        self.plans: dict[Any, list[Pair]] = {}
        self.walk()

    @property
    def same(self) -> bool:
        return self.cause is None and self.drift is None

    # ------------------------------------------------------------------ the walk

    def walk(self) -> None:
        for step, (ours, theirs) in enumerate(zip(self.a.steps, self.b.steps, strict=False)):
            pairs = self.aligned(ours, theirs)
            self.pairs.append(pairs)
            largest, loss = 0.0, None
            for pair in pairs:
                a = None if pair[0] is None else ours[pair[0]]
                b = None if pair[1] is None else theirs[pair[1]]
                if a is None or b is None:
                    side, op = ("b", b) if a is None else ("a", a)
                    assert op is not None
                    self.alone.append((side, op))
                    self.made["ab".index(side)].add(op, None)
                    continue
                relative = self.look(step, a, b)
                largest = max(largest, relative)
                if a.phase == "forward" and a.made[-1:] != [None] and a.made:
                    if a.made[-1].count == 1:  # type: ignore[union-attr]
                        loss = relative
                self.made[0].add(a, pair)
                self.made[1].add(b, pair)
                if (a.flags ^ b.flags) & WRITES:
                    self.writes.append((a, b))
            self.growth.append((step, largest, loss))
            self.look_at_streams(step)
        self.look_at_parameters()
        self.look_at_batches()
        if self.cause is None and self.drift is None:
            self.look_at_what_is_left()
        if self.cause is not None:
            self.refine(self.cause)

    def aligned(self, ours: list[Op], theirs: list[Op]) -> list[Pair]:
        """The pairs of a step; most steps are like the one before."""
        key = tuple([tuple([KEYS[0](op) for op in ops]) for ops in (ours, theirs)])
        known = self.plans.get(key)
        if known is None:
            names = [{place_name(op) for op in ops if is_step(op)} for ops in (ours, theirs)]
            # Parameters of other names, as when a model has another class: by shape, in order.
            keys = KEYS if names[0] & names[1] else (*KEYS, KEY_OF_SHAPE)
            known = self.plans[key] = align(ours, theirs, keys)
        return known

    def look(self, step: int, a: Op, b: Op) -> float:
        """Compare a pair; the largest relative difference of its outputs."""
        outputs = self.zipped(a.made, b.made)
        largest = max([self.counted(va, vb) for va, vb in outputs], default=0.0)
        if self.random_parts is None and a.random != b.random and a.flags & b.flags & RANDOM_OP:
            self.random_parts = step
        if self.cause is not None:
            return largest
        inputs = self.zipped(a.read, b.read)
        if self.crosses and not inputs and any(a.read) and any(b.read):
            return 0.0  # nothing that they read has one shape: they are not the same op
        bad = [i for i, (va, vb) in enumerate(inputs) if not agree(va, vb, self.tolerance)]
        wrong = [i for i, (va, vb) in enumerate(outputs) if not agree(va, vb, self.tolerance)]
        if not self.crosses and len(a.made) != len(b.made):
            wrong.append(min(len(a.made), len(b.made)))
        if bad:
            bad = [i for i in bad if not self.has_drifted(inputs[i])]
            if bad:
                self.cause = self.of_inputs(step, a, b, bad[0], inputs)
            else:
                self.remember_drift(outputs)
        elif wrong:
            self.of_outputs(step, a, b, wrong[0], inputs, outputs)
        return largest

    def counted(self, a: Value | None, b: Value | None) -> float:
        """The relative difference of two values; 0 for numbers that are all but zero."""
        if a is None or b is None:
            return 0.0
        found = difference(a, b)
        if not math.isfinite(found.relative):
            return 1.0
        tiny = self.tolerance.of(a.dtype)[1] * math.sqrt(max(a.count, 1))
        return 0.0 if not self.tolerance.bits and found.absolute <= tiny else found.relative

    def zipped(self, ours: list[Any], theirs: list[Any]) -> list[tuple[Any, Any]]:
        """Values that correspond; between libraries only those of one shape."""
        pairs = list(zip(ours, theirs, strict=False))
        if self.crosses:
            both = [(x, y) for x, y in pairs if x is not None and y is not None]
            return [(x, y) for x, y in both if x.shape == y.shape]
        return pairs

    def has_drifted(self, pair: tuple[Value | None, Value | None]) -> bool:
        """Whether values differ because roundings have grown, which no single op did."""
        return any(
            [v is not None and v.hash in known for v, known in zip(pair, self.drifted, strict=True)]
        )

    def remember_drift(self, outputs: list[tuple[Value | None, Value | None]]) -> None:
        for pair in outputs:
            for v, known in zip(pair, self.drifted, strict=True):
                if v is not None:
                    known.add(v.hash)

    # ------------------------------------------------------------------ causes

    def of_outputs(self, step: int, a: Op, b: Op, index: int, inputs: Any, outputs: Any) -> None:
        """The inputs of a pair agree, its outputs do not."""
        va, vb = outputs[index] if index < len(outputs) else (None, None)
        found = None if va is None or vb is None else difference(va, vb)
        cause = Cause("op", step, a, b, found, (va, vb), f"output {index}")
        if a.arguments != b.arguments and (not self.crosses or a.phase == "optimizer"):
            cause.kind = "arguments"
        elif a.flags & b.flags & RANDOM_OP and a.random != b.random:
            cause.kind = "random"
        elif (va is None) != (vb is None):
            cause.kind = "gradient"
        elif va is not None and vb is not None and va.dtype != vb.dtype:
            cause.kind = "dtype"
        elif not self.tolerance.bits and found is not None and self.is_drift(a, found, va, inputs):
            cause.kind = "drift"
            self.remember_drift(outputs)
            self.drift = self.drift or cause
            return
        self.cause = cause

    def is_drift(self, op: Op, found: Difference, v: Any, inputs: Any) -> bool:
        """Whether roundings made a difference, which no single op did."""
        if self.drift is not None and op.phase != "forward":
            return True  # a node may have kept values that drifted, which are not its inputs
        return self.grew(found, v, inputs) or self.is_rounding_of_step(op, found, v, inputs)

    def grew(self, found: Difference, v: Any, inputs: list[tuple[Any, Any]]) -> bool:
        """Whether a difference is that of the inputs, a little larger."""
        gaps = [difference(x, y).relative for x, y in inputs if x is not None and y is not None]
        least = 8 * EPSILON.get(v.dtype, 0.0)
        return found.relative <= JUMP * max([*gaps, least])

    @staticmethod
    def is_rounding_of_step(op: Op, found: Difference, v: Any, inputs: Any) -> bool:
        """Whether a step of Adam and the like may have made a difference out of roundings."""
        if op.phase != "optimizer" or op.name.partition(".")[0] not in NORMALISING:
            return False
        grads = inputs[1] if len(inputs) > 1 else (None, None)
        if None in grads or grads[0].hash == grads[1].hash:
            return False
        rate = re.match(r"lr=([^,]+)", op.arguments)
        try:
            largest = 20 * float(rate[1]) * math.sqrt(v.count) if rate else math.inf
        except ValueError:  # a tensor
            largest = math.inf
        return found.absolute <= largest

    def of_inputs(
        self, step: int, a: Op, b: Op, index: int, inputs: list[tuple[Any, Any]]
    ) -> Cause:
        """A pair reads values that differ, and everything before agreed: who made them?"""
        va, vb = inputs[index]
        found = None if va is None or vb is None else difference(va, vb)
        (maker_a, pair_a), (maker_b, pair_b) = self.made[0].find(va), self.made[1].find(vb)
        cause = Cause("values", step, a, b, found, (va, vb), f"input {index}")
        alone_a = maker_a is not None and pair_a is None
        alone_b = maker_b is not None and pair_b is None
        if alone_a or alone_b:
            first_a = self.first_alone(0, maker_a) if alone_a else None
            first_b = self.first_alone(1, maker_b) if alone_b else None
            cause.kind = "replaced" if alone_a and alone_b else "alone"
            cause.a, cause.b = first_a, first_b
            cause.step = min([op.step for op in (first_a, first_b) if op is not None])
            cause.makers = (a, b)
        elif maker_a is not None or maker_b is not None:
            if maker_a is None or maker_b is None or pair_a is not pair_b:
                cause.kind = "rewired"
            cause.makers = (maker_a, maker_b)
            if self.writes and (maker_a is None) != (maker_b is None):
                cause.kind = "written"
                cause.makers = (a, b)
                cause.a, cause.b = self.writes[-1]
        elif a.phase != "forward":
            cause.kind = "sum"
            self.blame_lonely(cause, step)
        elif va is not None and va.name:
            cause.kind = "parameters"
        else:
            cause.kind = "data"
        return cause

    def first_alone(self, side: int, op: Op | None) -> Op | None:
        """The first of a chain of ops that exist on one side only."""
        assert op is not None
        seen = {id(op)}
        while True:
            before = [self.made[side].find(v) for v in op.read]
            lonely = [m for m, pair in before if m is not None and pair is None]
            lonely = [m for m in lonely if id(m) not in seen]
            if not lonely:
                return op
            op = lonely[0]
            seen.add(id(op))

    def blame_lonely(self, cause: Cause, step: int) -> None:
        """An op of the same step that exists on one side only, if there is one."""
        lonely = [
            (side, op) for side, op in self.alone if op.step == step and self.counts(side, op)
        ]
        if lonely:
            sides = {side: op for side, op in reversed(lonely)}
            cause.makers = (cause.a, cause.b)
            cause.kind = "replaced" if len(sides) == 2 else "alone"
            cause.a, cause.b = sides.get("a"), sides.get("b")

    def counts(self, side: str, op: Op) -> bool:
        """Whether an op on one side can change anything: not if it gives what it was given."""
        if op_name(op) in CUTS:  # torch detaches what it saves, which tapegrad need not
            return not self.crosses or (self.a, self.b)["ab".index(side)].is_ours
        given = {v.hash for v in op.read if v is not None}
        made = [v.hash for v in op.made if v is not None]
        return bool(made) and not all([h in given for h in made])

    def refine(self, cause: Cause) -> None:
        """From where a difference shows to what did it, where that is known."""
        late = cause.phase != "forward" and cause.kind in ("alone", "gradient", "sum", "values")
        if late or cause.kind == "replaced" and cause.phase != "forward":
            early = [
                (side, op)
                for side, op in self.alone
                if op.step == cause.step and op.phase == "forward" and self.counts(side, op)
            ]
            if early:
                sides = {side: op for side, op in reversed(early)}
                cause.makers = (cause.a, cause.b)
                cause.kind = "replaced" if len(sides) == 2 else "alone"
                cause.a, cause.b = sides.get("a"), sides.get("b")
                if cause.kind == "replaced" and cause.a and cause.b:
                    if op_name(cause.a) in CUTS or op_name(cause.b) in CUTS:
                        self.keep_cut(cause)
        if cause.kind == "random":
            drew = [(side, op) for side, op in self.alone if op.flags & RANDOM_OP]
            drew = [(side, op) for side, op in drew if op.step <= cause.step]
            if drew:
                side, op = drew[0]
                cause.kind = "alone"
                cause.makers = (cause.a, cause.b)
                cause.a, cause.b = (op, None) if side == "a" else (None, op)
        cause.notes = self.notes_before(cause)

    @staticmethod
    def keep_cut(cause: Cause) -> None:
        """A detach on one side explains what the other side has more of."""
        assert cause.a is not None and cause.b is not None
        cause.kind = "alone"
        if op_name(cause.a) in CUTS:
            cause.b = None
        else:
            cause.a = None

    def place_of(self, cause: Cause) -> tuple[int, int]:
        """How many ops of the step come before a cause, on each side."""
        done = [0, 0]
        if cause.step >= len(self.pairs):
            return 0, 0
        steps = self.a.steps[cause.step], self.b.steps[cause.step]
        for pair in self.pairs[cause.step]:
            for side, (index, op) in enumerate(zip(pair, (cause.a, cause.b), strict=True)):
                if index is not None:
                    if steps[side][index] is op:
                        return done[0], done[1]
                    done[side] = index + 1
        return done[0], done[1]

    def notes_before(self, cause: Cause) -> list[tuple[Note | None, Note | None]]:
        """Notes before the first difference (seeds, modes, options) that one run lacks."""
        until = self.place_of(cause)
        places = []
        for run, at in zip((self.a, self.b), until, strict=True):
            places.append([n for n in run.notes if (n.step, n.at) <= (cause.step, at)])
        ours, theirs = places
        pairs = align(ours, theirs, NOTE_KEYS)
        found: list[tuple[Note | None, Note | None]] = []
        for i, j in pairs:
            a = None if i is None else ours[i]
            b = None if j is None else theirs[j]
            if a is None or b is None or a.text != b.text:
                # Gradients that stay add up: that explains values, not what an op does with them.
                text = (a or b).text  # type: ignore[union-attr]
                if not text.endswith("zero_grad()") or cause.kind in ("rewired", "sum", "values"):
                    found.append((a, b))
        # Data may differ by its loader; by other notes only if steps were left out before it.
        outside = cause.kind in ("parameters", "data") and all(self.a.steps[: cause.step])
        if outside:
            found = [pair for pair in found if "DataLoader" in {kind_of(n) for n in pair if n}]
        return last_of_each(merged(found))[-3:]

    # ------------------------------------------------------------------ what else differs

    def look_at_streams(self, step: int) -> None:
        """Whether the random streams are at the same place when the step is over."""
        ours, theirs = self.a.randoms, self.b.randoms
        if self.random_parts is None and step < min(len(ours), len(theirs)):
            if ours[step] != theirs[step]:
                self.random_parts = step

    def look_at_parameters(self) -> None:
        """Parameters at their first use, where nothing that was recorded made them."""
        firsts = []
        for run in (self.a, self.b):
            seen: dict[str, Value] = {}
            for op in run.steps[0] if run.steps else []:
                for v in op.read:
                    if v is not None and v.name:
                        seen.setdefault(v.name, v)
            firsts.append(seen)
        ours, theirs = firsts
        both = [name for name in ours if name in theirs]
        self.parameter_count = len(both)
        self.parameters = [n for n in both if not agree(ours[n], theirs[n], self.tolerance)]

    def look_at_batches(self) -> None:
        """Whether the models were given the same tensors, and in the same order."""
        ours, theirs = model_inputs(self.a), model_inputs(self.b)
        count = min(len(ours), len(theirs))
        ours, theirs = ours[:count], theirs[:count]
        if ours == theirs or not any(ours) or self.crosses:
            return
        if sorted(ours) == sorted(theirs):
            self.batches = "the same batches came in another order"
        elif count > 2 and ours[1:] == theirs[:-1]:
            self.batches = "the batches of the second run are one step ahead"
        elif count > 2 and ours[:-1] == theirs[1:]:
            self.batches = "the batches of the second run are one step behind"
        else:
            first = next(i for i in range(count) if ours[i] != theirs[i])
            self.batches = f"the models were given other tensors from step {first} on"

    def look_at_what_is_left(self) -> None:
        """No value differs: another number of steps, or ops on one side that changed nothing."""
        lonely = [(side, op) for side, op in self.alone if self.counts(side, op)]
        if lonely and not self.crosses:
            sides = {side: op for side, op in reversed(lonely)}
            step = min(op.step for op in sides.values())
            kind = "replaced" if len(sides) == 2 else "alone"
            self.cause = Cause(kind, step, sides.get("a"), sides.get("b"), SAME)
            if kind == "replaced":
                made = list(zip(sides["a"].made, sides["b"].made, strict=False))
                for i, (va, vb) in enumerate(made):
                    if va is not None and vb is not None and not agree(va, vb, self.tolerance):
                        self.cause.found = difference(va, vb)
                        self.cause.value, self.cause.where = (va, vb), f"output {i}"
                        break
        elif len(self.a.steps) != len(self.b.steps):
            step = min(len(self.a.steps), len(self.b.steps))
            longer = self.a if len(self.a.steps) > step else self.b
            op = next(iter(longer.steps[step]), None)
            if op is not None:
                sides = (op, None) if longer is self.a else (None, op)
                self.cause = Cause("length", step, *sides)


def merged(pairs: list[tuple[Note | None, Note | None]]) -> list[tuple[Note | None, Note | None]]:
    """Notes of the two sides that say different things about the same, side by side."""
    found: list[tuple[Note | None, Note | None]] = []
    for a, b in pairs:
        if found and a is None and b is not None and found[-1][1] is None:
            before = found[-1][0]
            if before is not None and kind_of(before) == kind_of(b):
                found[-1] = (before, b)
                continue
        found.append((a, b))
    return found


def last_of_each(
    pairs: list[tuple[Note | None, Note | None]],
) -> list[tuple[Note | None, Note | None]]:
    """Of notes that one line made again and again, the last."""
    kept: dict[Any, tuple[Note | None, Note | None]] = {}
    for pair in pairs:
        key = tuple([None if n is None else (kind_of(n), str(n.line)) for n in pair])
        kept.pop(key, None)
        kept[key] = pair
    return list(kept.values())


def kind_of(note: Note) -> str:
    return note.text.partition("(")[0].partition(" ")[0]


def model_inputs(run: Run) -> list[tuple[int, ...]]:
    """For each step the hashes of what modules read that does not come from a module."""
    found = []
    for ops in run.steps:
        made: set[int] = set()
        given: list[int] = []
        for op in ops:
            if op.phase != "forward":
                continue
            read = [v for v in op.read if v is not None]
            if op.module:
                given += [v.hash for v in read if not v.name and v.hash not in made]
            if op.module or any([v.hash in made for v in read]):
                made |= {v.hash for v in op.made if v is not None}
        found.append(tuple(given))
    return found


def compare(
    a: Run, b: Run, rtol: float | None = None, atol: float | None = None, bits: bool | None = None
) -> Comparison:
    """Compare two runs: bit for bit if one library made both, within tolerances otherwise."""
    if bits is None:
        builds = [[run.head.get(k) for k in ("library", "native", "machine")] for run in (a, b)]
        bits = rtol is None and atol is None and builds[0] == builds[1]
    return Comparison(a, b, Tolerance(bits, rtol, atol))
