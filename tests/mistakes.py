"""More than a hundred typical mistakes of beginners and practitioners, each with the help it gets.

`make golden` records in tests/golden/mistakes.json what PyTorch answers (class and first line; for
a warning too). test_mistakes.py runs each here: class and first line must be PyTorch's, and one of
the fixes must hold the words of `help`, in the program's own names. Without `help`, PyTorch's line
alone says what to do (or Python does, which adds "Did you mean"). `@` marks the line to be named.
"""

from __future__ import annotations

import json
import linecache
import pathlib
import re
import warnings
from typing import Any, NamedTuple

RECORDED = pathlib.Path(__file__).parent / "golden" / "mistakes.json"
HEAD = """\
import numpy as np
import {} as torch
nn, optim, F = torch.nn, torch.optim, torch.nn.functional
"""


class Mistake(NamedTuple):
    title: str
    source: str
    help: str = ""


LIST = pathlib.Path(__file__).with_suffix(".txt")


def read() -> list[Mistake]:
    """The blocks of mistakes.txt: `== title`, the program, and `-> help` if there is one."""
    found = []
    for block in re.split(r"^== ", LIST.read_text(), flags=re.MULTILINE)[1:]:
        title, _, rest = block.partition("\n")
        program, _, words = re.sub(r"^####.*", "", rest, flags=re.MULTILINE).partition("\n-> ")
        found.append(Mistake(title, program.strip(), words.strip()))
    return found


MISTAKES = read()


def run(mistake: Mistake, path: pathlib.Path, library: str = "torch") -> Any:
    """What the program ends with: its exception or, if it has none, its first warning."""
    path.write_text(HEAD.format(library) + mistake.source + "\n")
    linecache.checkcache(str(path))
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            exec(compile(path.read_text(), str(path), "exec"), {"__name__": "program"})
        except Exception as error:
            return error
    return warned[0].message if warned else None


def answer(found: Any) -> list[str]:
    """What is compared: the class and the first line, in which modules are called torch's."""
    first = str(found).partition("\n")[0].partition(" (Triggered internally")[0]
    return [type(found).__name__, first.replace("'tapegrad.", "'torch.")]


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        said = {m.title: answer(run(m, pathlib.Path(folder, "program.py"))) for m in MISTAKES}
    RECORDED.write_text(json.dumps(said, indent=1) + "\n")
    print(f"recorded {len(said)}")
