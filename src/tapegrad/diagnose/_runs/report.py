"""A comparison in words, for a terminal of 80 columns, and as data."""

from __future__ import annotations

import math
import textwrap
from typing import Any

from .compare import NORMALISING, Cause, Comparison
from .differ import growth, spelled, spelled_value
from .reader import Note, Op, Run

WIDTH = 80
MOST_ALONE = 6  # ops of one side that are listed
COLOURS = {"bold": "1", "red": "31", "green": "32", "yellow": "33", "cyan": "36", "dim": "2"}


class Paint:
    """Escape sequences for a terminal, or none."""

    def __init__(self, on: bool) -> None:
        self.on = on

    def __call__(self, text: str, *styles: str) -> str:
        if not self.on or not text:
            return text
        return f"\x1b[{';'.join(COLOURS[s] for s in styles)}m{text}\x1b[0m"


def headline(found: Comparison) -> str:
    """One sentence about what was found."""
    cause = found.cause or found.drift
    if cause is None:
        return "The runs are the same" + (
            ", bit for bit." if found.tolerance.bits else ", within the tolerances."
        )
    op = cause.a or cause.b
    assert op is not None
    name = shown(op)
    at = f"At step {cause.step}, in the {op.phase}{' pass' if op.phase != 'optimizer' else ''}"
    side = "a" if cause.b is None else "b"
    other = shown(cause.b) if cause.b is not None else ""
    grew = f"the difference grows past the tolerance at {name}"
    if op.phase == "optimizer" and op.name.partition(".")[0] in NORMALISING:
        grew += ", where roundings of gradients that are all but zero become steps"
    agreeing = "has the same inputs and another result"
    told = {
        "op": f"{name} {agreeing}",
        "arguments": f"{name} is called with other arguments",
        "random": f"{name} draws other random numbers: the random streams had parted before",
        "gradient": f"{name} computes a gradient on one side only",
        "dtype": f"{name} gives {cause.found.reason if cause.found else 'another dtype'}",
        "alone": f"{name} exists in {side} only",
        "replaced": f"a has {name} where b has {other}",
        "rewired": f"{name} reads another tensor",
        "written": f"{name} writes in place on one side, into memory that is read later",
        "values": f"{name} reads values that differ",
        "sum": f"{name} is given another gradient, by a sum or a hook",
        "parameters": f"{name} reads a parameter that differed before the recording began",
        "data": f"{name} reads data that differs",
        "drift": f"{grew}; no single op stands out",
        "length": f"{side} goes on with {name}, the other run has ended",
    }[cause.kind]
    return f"{at}: {told}."


def shown(op: Op) -> str:
    return f"{op.name} in {op.module}" if op.module else op.name


class Text:
    """The report, line by line."""

    def __init__(self, found: Comparison, colour: bool = False) -> None:
        self.found = found
        self.paint = Paint(colour)
        self.lines: list[str] = []
        self.runs()
        self.add("")
        same = found.same
        for line in textwrap.wrap(headline(found), WIDTH):
            self.add(self.paint(line, "bold", "green" if same else "red"))
        cause = found.cause or found.drift
        if cause is not None:
            self.cause(cause)
        self.rest()

    def add(self, line: str) -> None:
        self.lines.append(line)

    def wrapped(self, text: str, indent: int = 2) -> None:
        pad = " " * indent
        self.lines += textwrap.wrap(
            text, WIDTH, initial_indent=pad, subsequent_indent=pad + "  ", break_on_hyphens=False
        )

    def runs(self) -> None:
        for side, run in (("a", self.found.a), ("b", self.found.b)):
            self.add(cut(f"{self.paint(side, 'cyan')}  {about(run)}", WIDTH + 9 * self.paint.on))
        how = "bit for bit" if self.found.tolerance.bits else "within tolerances"
        self.add(self.paint(f"   compared {how}", "dim"))

    def cause(self, cause: Cause) -> None:
        self.add("")
        for pair in cause.notes:
            for side, note in zip("ab", pair, strict=True):
                self.note(side, note)
        self.op("a", cause.a)
        self.op("b", cause.b)
        if cause.found is not None and cause.found.relative:
            self.add("")
            where = cause.where
            reader = cause.makers[0] or cause.makers[1]
            if cause.kind in ("alone", "replaced") and reader is not None:
                where += f" of {shown(reader)}"
            self.wrapped(f"{where} differs by {spelled(cause.found)}")
        elif cause.found is not None and cause.kind in ("alone", "replaced"):
            self.wrapped("all values that were recorded agree nevertheless")
        for side, v in zip("ab", cause.value, strict=True):
            if cause.value != (None, None):
                self.add(cut(f"     {self.paint(side, 'cyan')} {spelled_value(v)}", WIDTH + 9))
        if cause.makers != (None, None):
            self.add("")
            where = {"rewired": "made by", "values": "made by"}.get(cause.kind, "it shows at")
            self.wrapped(where)
            self.op("a", cause.makers[0], brief=True)
            self.op("b", cause.makers[1], brief=True)

    def note(self, side: str, note: Note | None) -> None:
        if note is not None:
            where = "" if note.line is None else f"{note.line}  "
            self.add(cut(f"  {self.paint(side, 'cyan')} {where}{note.text}", WIDTH + 9))
            if note.line is not None and note.line.text:
                self.add(cut(f"      {self.paint(note.line.text, 'yellow')}", WIDTH + 9))

    def op(self, side: str, op: Op | None, brief: bool = False) -> None:
        if op is None:
            return
        where = "" if op.line is None else f"{op.line}  "
        told = f"({op.arguments})" if op.arguments and not brief else ""
        self.add(cut(f"  {self.paint(side, 'cyan')} {where}{shown(op)}{told}", WIDTH + 9))
        if op.line is not None and op.line.text:
            self.add(cut(f"      {self.paint(op.line.text, 'yellow')}", WIDTH + 9))

    def rest(self) -> None:
        found = self.found
        rows: list[tuple[str, str]] = []
        grown = [(step, value) for step, value, _ in found.growth if value]
        if grown:
            rows.append(("growth", f"largest relative difference by step: {growth(grown)}"))
        rows.append(("random", random_words(found)))
        if found.parameter_count:
            rows.append(("parameters", parameter_words(found)))
        if found.batches:
            rows.append(("data", found.batches))
        counted = [(side, op) for side, op in found.alone if found.counts(side, op)]
        if counted:
            rows.append(("one side", alone_words(counted)))
        steps = (len(found.a.steps), len(found.b.steps))
        if steps[0] != steps[1]:
            rows.append(
                ("steps", f"{steps[0]} in a, {steps[1]} in b; the first {min(steps)} count")
            )
        self.add("")
        for name, text in rows:
            lines = textwrap.wrap(text, WIDTH - 13)
            for i, line in enumerate(lines):
                label = self.paint(f"{name if not i else '':<11}", "dim")
                self.add(f"{label}  {line}")

    def __str__(self) -> str:
        return "\n".join(self.lines)


def cut(line: str, width: int) -> str:
    return line if len(line) <= width else line[: width - 1] + "…"


def about(run: Run) -> str:
    head = run.head
    native = {True: ", kernels in C", False: ", on NumPy"}.get(head.get("native"), "")
    return (
        f"{run.name}: {head.get('library')} {head.get('version')}{native}, "
        f"{len(run.steps)} steps, {run.count} ops"
    )


def random_words(found: Comparison) -> str:
    if found.random_parts is None:
        return "the random streams are the same"
    return f"the random streams differ from step {found.random_parts} on"


def parameter_words(found: Comparison) -> str:
    count, all_of_them = len(found.parameters), found.parameter_count
    if not count:
        return f"all {all_of_them} are the same at their first use"
    names = ", ".join(found.parameters[:4]) + (" …" if count > 4 else "")
    return f"{count} of {all_of_them} differ at their first use: {names}"


def alone_words(counted: list[tuple[str, Op]]) -> str:
    told: dict[str, list[int]] = {}
    for side, op in counted:
        at = "" if op.line is None else f" ({op.line})"
        told.setdefault(f"{side}: {op.name}{at}", []).append(op.step)
    parts = [f"{name}{f' ×{len(steps)}' if len(steps) > 1 else ''}" for name, steps in told.items()]
    more = f" and {len(parts) - MOST_ALONE} more" if len(parts) > MOST_ALONE else ""
    return f"{len(counted)} ops on one side only: {'; '.join(parts[:MOST_ALONE])}{more}"


def as_data(found: Comparison) -> dict[str, Any]:
    """The comparison as plain values, for JSON."""
    cause = found.cause or found.drift
    return {
        "version": 1,
        "same": found.same,
        "headline": headline(found),
        "bits": found.tolerance.bits,
        "runs": [
            {"path": run.path, "steps": len(run.steps), "ops": run.count, **run.head}
            for run in (found.a, found.b)
        ],
        "cause": None if cause is None else cause_data(cause),
        "growth": [
            {"step": step, "largest": finite(value), "loss": None if loss is None else finite(loss)}
            for step, value, loss in found.growth
        ],
        "random": {"differ_from_step": found.random_parts, "text": random_words(found)},
        "parameters": {"count": found.parameter_count, "differ": found.parameters},
        "batches": found.batches,
        "one_side_only": [
            {"side": side, "changes_values": found.counts(side, op), **brief(op)}
            for side, op in found.alone[:1000]
        ],
    }


def finite(value: float) -> float:
    return value if math.isfinite(value) else 1.0


def brief(op: Op) -> dict[str, Any]:
    told = op.facts()
    del told["inputs"], told["outputs"]
    return told


def cause_data(cause: Cause) -> dict[str, Any]:
    found = cause.found
    return {
        "kind": cause.kind,
        "step": cause.step,
        "phase": cause.phase,
        "a": None if cause.a is None else cause.a.facts(),
        "b": None if cause.b is None else cause.b.facts(),
        "where": cause.where,
        "relative": None if found is None else finite(found.relative),
        "ulps": None if found is None else found.ulps,
        "reason": "" if found is None else found.reason,
        "values": [None if v is None else v.facts() for v in cause.value],
        "makers": [None if op is None else brief(op) for op in cause.makers],
        "notes": [
            [None if n is None else {"text": n.text, "line": str(n.line or "")} for n in pair]
            for pair in cause.notes
        ],
        "lines": [
            {"side": side, "file": line.file, "line": line.number, "text": line.text}
            for side, line in cause.lines()
        ],
    }
