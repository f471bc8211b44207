"""The doctor's findings as data, and the report that prints them."""

from __future__ import annotations

import json
import os
import textwrap
from dataclasses import dataclass, field
from typing import Any

from ...errors import evidence
from ...errors.evidence import Place
from ..words import WIDTH, counted

PAGE = "docs/doctor.md"

# id -> (severity, title). An error makes the training wrong, a warning makes it worse.
CATALOGUE: dict[str, tuple[str, str]] = {
    "D01": ("error", "step() without zero_grad(): gradients add up from step to step"),
    "D02": ("error", "zero_grad() between backward() and step(): the gradients are thrown away"),
    "D03": ("error", "step() without a new backward()"),
    "D04": ("error", "backward() on a loss that is cut off from the model"),
    "D05": ("warning", "scheduler.step() before optimizer.step()"),
    "D06": ("warning", "parameters that never received a gradient"),
    "D07": ("error", "parameters of the model that no optimizer has"),
    "D08": ("error", "the optimizer updates parameters that the model no longer has"),
    "D09": ("error", "a Module hidden in a plain list or dict"),
    "D10": ("error", "shapes (N, 1) and (N,) in a loss: every prediction against every target"),
    "D11": ("error", "softmax before cross_entropy"),
    "D12": ("warning", "log_softmax twice"),
    "D13": ("error", "nll_loss on probabilities"),
    "D14": ("error", "sigmoid before binary_cross_entropy_with_logits"),
    "D15": ("warning", "evaluation in train mode"),
    "D16": ("warning", "training in eval mode"),
    "D17": ("warning", "F.dropout() stays on in eval mode"),
    "D18": ("error", "the loss is NaN or infinite"),
    "D19": ("error", "gradients are NaN or infinite"),
    "D20": ("warning", "gradients vanish towards the first layers"),
    "D21": ("warning", "gradients explode towards the first layers"),
    "D22": ("warning", "the updates are too large for the weights"),
    "D23": ("warning", "the updates are too small to change anything"),
    "D24": ("error", "the loss does not change"),
    "D25": ("warning", "a ReLU layer is dead: it gives zero for every input"),
    "D26": ("warning", "graphs pile up: tensors with history are stored across iterations"),
    "D27": ("warning", "the graph grows with every iteration"),
    "D28": ("error", "an update that loses its leaf: w = w - lr * w.grad"),
    "D29": ("warning", "saved values take most of the memory that is free"),
}
# What follows from another fault is not told beside it.
FOLLOWS: dict[str, set[str]] = {
    "D06": {"D03", "D04"},
    "D22": {"D01"},
    "D24": {"D02", "D03", "D04", "D07", "D08", "D09", "D18", "D19", "D23", "D25"},
}
ORDER = {"error": 0, "warning": 1}


@dataclass
class Finding:
    """One fault: what it is, which line of the user's has it, and the cure."""

    id: str
    what: str
    where: Place | None
    fix: str
    also: list[str] = field(default_factory=list)  # other cures, likeliest first
    count: int = 1
    sampled: bool = False  # whether only some backward passes were looked at

    @property
    def severity(self) -> str:
        return CATALOGUE[self.id][0]

    @property
    def title(self) -> str:
        return CATALOGUE[self.id][1]

    @property
    def line(self) -> str | None:
        """`train.py:12`, or None if no line is to blame."""
        return None if self.where is None else evidence.spot(self.where["file"], self.where["line"])

    def data(self) -> dict[str, Any]:
        """This finding as plain data."""
        return {
            "id": self.id,
            "severity": self.severity,
            "title": self.title,
            "what": self.what,
            "where": self.where,
            "fix": self.fix,
            "also": list(self.also),
            "count": self.count,
            "sampled": self.sampled,
            "page": f"{PAGE}#{self.id.lower()}",
        }

    def __str__(self) -> str:
        times = "once" if self.count == 1 else f"{self.count} times"
        if self.sampled:
            times += " in a sample of the passes"
        lines = [f"[{self.id}] {self.severity}: {self.title}", *entry("what", self.what)]
        if self.where is not None:
            text = f":  {self.where['text']}" if self.where["text"] else ""
            at = short_path(evidence.spot(self.where["file"], self.where["line"]))
            lines.append(f"  where:  {at}{text}")
        lines += entry("fix", self.fix)
        for cure in self.also:
            lines += entry("or", cure)
        return "\n".join([*lines, f"  seen:   {times}; python -m tapegrad explain {self.id}"])


class Report:
    """All findings of one watch, each fault once per line.

    >>> report = Report()
    >>> report.add("D03", "nothing was computed since the last step", None, "call backward()")
    >>> report.add("D03", "nothing was computed since the last step", None, "call backward()")
    >>> [(f.id, f.count) for f in report.findings]
    [('D03', 2)]
    """

    def __init__(self) -> None:
        self.steps = 0  # of optimizers
        self.by_hand = 0  # steps without one
        self.backwards = 0
        self.problems: list[str] = []  # of the doctor's own; none, unless there is a defect in it
        self._found: dict[tuple[str, str, int], Finding] = {}

    @property
    def findings(self) -> list[Finding]:
        """Errors first, then by id."""
        return sorted(self._found.values(), key=lambda f: (ORDER[f.severity], f.id))

    def add(
        self,
        id: str,
        what: str,
        where: Place | None,
        fix: str,
        also: list[str] | None = None,
        count: int = 1,
        sampled: bool = False,
    ) -> None:
        """Note a finding, or that it was seen once more; `count` is how often it was by then."""
        key = (id, where["file"], where["line"]) if where is not None else (id, "", 0)
        known = self._found.get(key)
        if known is None:
            self._found[key] = Finding(id, what, where, fix, also or [], count, sampled)
        else:
            known.count += 1

    def settle(self) -> None:
        """Leave out what follows from something else that was found."""
        ids = {key[0] for key in self._found}
        self._found = {
            key: f for key, f in self._found.items() if not FOLLOWS.get(key[0], set()) & ids
        }

    def has(self, id: str) -> bool:
        return any(key[0] == id for key in self._found)

    def data(self) -> dict[str, Any]:
        """Everything as plain data."""
        return {
            "version": 1,
            "steps": self.steps,
            "steps_by_hand": self.by_hand,
            "backwards": self.backwards,
            "findings": [f.data() for f in self.findings],
        }

    def json(self, indent: int | None = 2) -> str:
        """The report for editors, CI and scripts."""
        return json.dumps(self.data(), indent=indent)

    def __len__(self) -> int:
        return len(self._found)

    def __str__(self) -> str:
        steps = counted(self.steps, "step")
        if self.by_hand:
            hand = f"{counted(self.by_hand, 'step')} by hand"
            steps = f"{steps}, {hand}" if self.steps else hand
        watched = f"{steps}, {self.backwards} backward"
        if not self._found:
            return f"tapegrad doctor: no findings ({watched})"
        head = f"tapegrad doctor: {counted(len(self), 'finding')} ({watched})"
        return "\n\n".join([head, *map(str, self.findings)])

    def __repr__(self) -> str:
        ids = ", ".join(f.id for f in self.findings)
        return f"<Report: {ids or 'no findings'}>"


def entry(label: str, text: str) -> list[str]:
    """A labelled paragraph within the width."""
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=f"  {label}:".ljust(10),
        subsequent_indent=" " * 10,
        break_long_words=False,
        break_on_hyphens=False,
    )


def short_path(file: str) -> str:
    """A file below the working directory without the directory."""
    try:
        relative = os.path.relpath(file)
    except (ValueError, OSError):  # another drive, a directory that is gone
        return file
    return file if relative.startswith("..") else relative
