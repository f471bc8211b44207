"""`explain(err)`: an error at length: the facts, the lines around them, the page, the cure.

>>> import tapegrad as torch
>>> x = torch.tensor([1.0, 2.0], requires_grad=True)
>>> try:
...     (x * 2).backward()
... except RuntimeError as err:
...     print(torch.diagnose.explain(err).title)
[E04] Backward needs one number to start from

For an error that is not in the catalogue it shows your line, the lines around it, and the tensors
that the function held there.
"""

from __future__ import annotations

import linecache
import re
import sys
import textwrap
import traceback
from typing import Any

from ..core.base import PACKAGE, TensorBase
from ..errors import evidence, tracebacks
from . import words
from .error_pages import page

AROUND = 3  # lines shown before and after each line that matters


class Explanation:
    """The result of `explain`: prints as text; `facts` is the error's diagnosis or the guess."""

    def __init__(self, title: str, sections: list[tuple[str, list[str]]], facts: Any) -> None:
        self.title = title
        self.sections = [(name, lines) for name, lines in sections if lines]
        self.facts: dict[str, Any] = facts

    def data(self) -> dict[str, Any]:
        return {"title": self.title, "sections": dict(self.sections), "facts": self.facts}

    def __repr__(self) -> str:
        parts = [self.title]
        for name, lines in self.sections:
            parts.append("\n".join([*([f"{name}:"] if name else []), *lines]))
        return "\n\n".join(parts)


def explain(err: BaseException | None = None) -> Explanation:
    """All there is to say about an exception; without one, about the last that happened."""
    if err is None:
        err = (
            sys.exc_info()[1] or getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
        )
        if err is None:
            return Explanation("There was no error in this session yet.", [], {})
    if not isinstance(err, BaseException):
        raise TypeError(
            f"explain(): argument 'err' must be an exception or None, not {type(err).__name__}"
        )
    tracebacks.explained(err)  # of what Python itself says about a gradient that is None
    diagnosed = with_diagnosis(err)
    if diagnosed is not None:
        return from_diagnosis(diagnosed)
    return best_effort(err)


def with_diagnosis(err: BaseException) -> Any:
    """The exception, or the one behind it, that knows its cause."""
    seen: set[int] = set()
    current: BaseException | None = err
    while current is not None and id(current) not in seen:
        if isinstance(getattr(current, "diagnosis", None), dict):
            return current
        seen.add(id(current))
        current = current.__cause__ or current.__context__
    return None


# ---------------------------------------------------------------------- with a diagnosis


def from_diagnosis(err: Any) -> Explanation:
    facts = err.diagnosis
    found = page(facts["id"])
    title = f"[{facts['id']}]" + ("" if found is None else f" {found.title}")
    labelled = [(c["label"], c["did"], c) for c in facts["causes"]]
    what = [filled(facts["what"])] if facts["what"] else []
    fixes = [filled(f"{i}. {fix}") for i, fix in enumerate(facts["fixes"], 1)]
    sections = [
        ("", [words.paragraph(f"{type(err).__name__}: {facts['message']}")]),
        ("What happened", what + details(err, facts)),
        ("Where", picture(labelled)),
        ("The tensor", [filled(evidence.spell_tensor(facts["tensor"]))] if facts["tensor"] else []),
        ("What to do", fixes),
    ]
    if found is not None:
        sections += [
            ("Why", [filled(found.paragraph)]),
            ("The cures in general", [textwrap.indent(found.cure, "  ")]),
        ]
    sections.append(("", [f"The page: {facts['page']}"]))
    return Explanation(title, sections, facts)


def details(err: Any, facts: dict[str, Any]) -> list[str]:
    """The lines of the message that are neither the sentence nor one of the usual facts."""
    usual = {"what", "tensor", "fix", "or"} | {c["label"] for c in facts["causes"]}
    lines, taking = [], False
    for line in str(err).removeprefix(facts["message"]).splitlines():
        label = re.match(r"  ([a-z ]+):", line)
        if label is not None:
            taking = label.group(1) not in usual
        elif line.startswith("  ["):
            taking = False
        if taking:
            lines.append(line)
    return lines


# ---------------------------------------------------------------------- without


def best_effort(err: BaseException) -> Explanation:
    """The user's line of the traceback, and the tensors that were at hand there."""
    frame, line = users_frame(err)
    facts: dict[str, Any] = {"type": type(err).__name__, "message": str(err), "line": None}
    message = words.paragraph("".join(traceback.format_exception_only(err)).strip())
    sections: list[tuple[str, list[str]]] = [("", [message])]
    if frame is not None:
        file = frame.f_code.co_filename
        text = linecache.getline(file, line).strip()
        function = frame.f_code.co_name
        where = {"file": file, "line": line, "text": text, "function": function}
        facts["line"] = where
        facts["tensors"] = tensors_at(frame, text)
        rows = [
            [t["name"], str(tuple(t["shape"])), t["dtype"], t["grad"]] for t in facts["tensors"]
        ]
        sections += [
            ("Where", picture([("raised", "from here", where)])),
            ("Tensors on this line and around", words.table(rows)),
        ]
    sections.append(
        (
            "",
            [
                words.paragraph(
                    "This error is not in the catalogue, so no cause is known beyond it."
                )
            ],
        )
    )
    return Explanation(f"{type(err).__name__}, at a glance", sections, facts)


def users_frame(err: BaseException) -> tuple[Any, int]:
    """The innermost frame of the traceback that is the user's own code."""
    found: tuple[Any, int] = (None, 0)
    for frame, line in traceback.walk_tb(err.__traceback__):
        file = frame.f_code.co_filename
        library = file.startswith((evidence.STDLIB, "<frozen")) or "-packages" in file
        if not file.startswith(PACKAGE) and (not library or found[0] is None):
            found = frame, line
    return found


def tensors_at(frame: Any, text: str) -> list[dict[str, Any]]:
    """The tensors that a function held, those that its line names first."""
    found = []
    for name, value in evidence.held([frame]):
        if isinstance(value, TensorBase) and hasattr(value._array, "dtype"):
            grad = "requires grad" if value._wants_grad else ""
            found.append({**evidence.describe(value._array, name), "grad": grad})
    named = [t for t in found if re.search(rf"(?<!\w){re.escape(t['name'])}(?!\w)", text)]
    rest = [t for t in found if t not in named]
    return (named + rest)[:12]


# ---------------------------------------------------------------------- the picture of the lines


def picture(causes: list[tuple[str, str, Any]]) -> list[str]:
    """The source around the lines that matter, each marked with what happened there."""
    by_file: dict[str, dict[int, list[str]]] = {}
    for label, did, where in causes:
        told = re.sub(r"\s+at$", "", did) if did != "at" else ""
        by_file.setdefault(where["file"], {}).setdefault(where["line"], []).append(
            f"{label}: {told}" if told else label
        )
    lines: list[str] = []
    for file, marks in by_file.items():
        lines += [
            *([""] if lines else []),
            f"  {evidence.cell_or_file(file)}",
            *excerpt(file, marks),
        ]
    return lines


def excerpt(file: str, marks: dict[int, list[str]]) -> list[str]:
    source = linecache.getlines(file)
    if not source:  # typed in, or gone: what is known is the line alone
        return [f"  > {line} | {'; '.join(told)}" for line, told in sorted(marks.items())]
    shown = sorted(
        {
            n
            for line in marks
            for n in range(max(line - AROUND, 1), min(line + AROUND, len(source)) + 1)
        }
    )
    wide = len(str(shown[-1]))
    lines = []
    before = None
    for n in shown:
        if before is not None and n > before + 1:
            lines.append(f"    {'':>{wide}} :")
        before = n
        sign = ">" if n in marks else " "
        lines.append(f"  {sign} {n:>{wide}} | {source[n - 1].rstrip()}".rstrip())
        code = source[n - 1]
        margin = " " * (len(code) - len(code.lstrip()))
        lines += [f"    {'':>{wide}} | {margin}^ {told}" for told in marks.get(n, ())]
    return lines


def filled(text: str) -> str:
    return words.paragraph(" ".join(text.split()), "  ")
