"""Where tapegrad differs from PyTorch 2.13: a file for each deviation, with both outputs.

A file, FOLDER/NAME.toml, has `why`, a `program`, what it prints under PyTorch (`pytorch`) and
here (`ours`), and the checks of `tests/parity/opdb.py` that show it (`op_db`). With
`rounding = true` only the last digits differ; they depend on the processor, so that numbers may be
1e-5 from these. The folder says whether it stays: `intended`; `not_yet`; `pytorch`, where PyTorch's
own result is wrong. tests/test_deviations.py runs the programs here, and its namesake in
tests/parity under both libraries: a changed output fails. After adding a file, or when a change is
meant:

    PYTHONPATH=src python tests/deviations/record.py NAME...      # writes both outputs
    make parity-page                                              # lists them in docs/parity.md
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import io
import pathlib
import tomllib
import warnings
from typing import Any

FOLDER = pathlib.Path(__file__).parent
TITLES = {
    "intended": "On purpose",
    "not_yet": "Not yet",
    "pytorch": "PyTorch's own errors",
}


@dataclasses.dataclass(frozen=True)
class Deviation:
    folder: str
    name: str
    why: str
    program: str
    pytorch: str = ""
    ours: str = ""
    op_db: dict[str, list[str]] = dataclasses.field(default_factory=dict)  # operator -> checks
    rounding: bool = False

    def prints(self, library: Any, told: str) -> bool:
        """Whether a library prints what is told."""
        found = self.printed(library)
        if self.rounding:
            numbers = [[float(word) for word in text.split()] for text in (found, told)]
            return all(abs(a - b) <= 1e-5 * abs(b) for a, b in zip(*numbers, strict=True))
        return found == told

    def printed(self, library: Any) -> str:
        """What the program prints with a library as `torch`; an exception is its last line."""
        library.manual_seed(0)
        scope = {"torch": library}
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()) as out:
            warnings.simplefilter("ignore")
            try:
                exec(compile(self.program, self.name, "exec"), scope)
            except Exception as error:
                first = str(error).partition("\n")[0][:120].strip()
                print(f"{type(error).__name__}: {first}")
        return out.getvalue()

    def listed(self) -> str:
        """Its lines in docs/parity.md."""
        checks = [f"`{operator}`: {', '.join(found)}" for operator, found in self.op_db.items()]
        shown = f"In the operator table: {'; '.join(checks)}.\n\n" if checks else ""
        comments = [
            line
            for title, output in (("PyTorch:", self.pytorch), ("here:", self.ours))
            for line in (f"# {title}", *[f"#   {line}" for line in output.splitlines()])
        ]
        block = "\n".join(["```python", self.program.rstrip("\n"), *comments, "```"])
        return f"#### {self.name.replace('-', ' ')}\n\n{self.why}\n{shown}{block}\n"


@functools.cache
def deviations() -> tuple[Deviation, ...]:
    found = []
    for folder in TITLES:
        for file in sorted((FOLDER / folder).glob("*.toml")):
            found.append(Deviation(folder, file.stem, **tomllib.loads(file.read_text("utf-8"))))
    return tuple(found)


def missed() -> dict[str, dict[str, str]]:
    """operator of `op_db` -> check -> why it is missed."""
    found: dict[str, dict[str, str]] = {}
    for each in deviations():
        for operator, checks in each.op_db.items():
            for check in checks:
                found.setdefault(operator, {})[check] = f"[{each.name}](#{each.name})"
    return found


def section() -> str:
    """The part of docs/parity.md."""
    parts = [
        "## What differs\n",
        "Each is a file in `tests/deviations`, with a program and what it prints in PyTorch 2.13\n"
        "and here; tests run them, and fail if either output changes.\n",
    ]
    for folder, title in TITLES.items():
        parts.append(f"### {title}\n")
        parts += [each.listed() for each in deviations() if each.folder == folder]
    return "\n".join(parts)
