"""Running a file of cases as several ranks, in one go: starting them is what takes the time."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
# The package that is tested may be a source tree or an installed one.
ENVIRONMENT = {**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONFAULTHANDLER": "1"}


def torchrun(file: str, ranks: int, *arguments: str, options: tuple[str, ...] = ()):
    """The finished launcher; its lines have `[rank] ` in front."""
    command = [sys.executable, "-m", "tapegrad", "torchrun", f"--nproc-per-node={ranks}"]
    return subprocess.run(
        [*command, *options, str(HERE / file), *arguments],
        capture_output=True,
        text=True,
        timeout=240,
        env=ENVIRONMENT,
    )


def passed(
    file: str, ranks: int, *arguments: str, options: tuple[str, ...] = (), machines: int = 1
) -> set[str]:
    """The cases that said `ok NAME` on all ranks; the whole output if one did not."""
    done = torchrun(file, ranks, *arguments, options=options)
    ranks *= machines
    said = re.findall(r"^\[(\d+)\] ok (\S+)$", done.stdout, re.M)
    names = [{name for rank, name in said if int(rank) == r} for r in range(ranks)]
    output = done.stdout[-4000:] + done.stderr[-6000:]
    assert done.returncode == 0, output
    assert all(found == names[0] for found in names), output
    return names[0]


def run_cases(cases: list, *arguments) -> None:
    """Inside a rank: run functions in order and say which passed."""
    for case in cases:
        case(*arguments)
        print(f"ok {case.__name__}", flush=True)
