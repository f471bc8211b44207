"""Runs the scripts in examples/, each in a process of its own."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import tempfile
from typing import NamedTuple

EXAMPLES = pathlib.Path(__file__).parent.parent / "examples"
HELPERS = {"data", "progress"}
SCRIPTS = sorted(p.stem for p in EXAMPLES.glob("*.py") if p.stem not in HELPERS)

ON_TAPEGRAD = ["-m", "tapegrad", "run"]
ON_TORCH: list[str] = []


class Run(NamedTuple):
    """What a script printed, and the curves it logged, by name."""

    lines: list[str]
    curves: dict[str, list[float]]


def run(name: str, steps: int | None = None, on: list[str] = ON_TAPEGRAD, seed: int = 0) -> Run:
    """Run an example; `steps` None means as many as the script takes by itself."""
    # One thread: the order of the additions in a matrix product must not depend on the machine.
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"}
    with tempfile.TemporaryDirectory() as folder:
        losses = pathlib.Path(folder, "losses.json")
        command = [sys.executable, *on, str(EXAMPLES / f"{name}.py"), "--losses", str(losses)]
        command += ["--seed", str(seed)]
        if steps is not None:
            command += ["--steps", str(steps)]
        done = subprocess.run(
            command, env=environment, capture_output=True, encoding="utf-8", check=False
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""  # no bar where there is no terminal, and no warning
        return Run(done.stdout.splitlines(), json.loads(losses.read_text(encoding="utf-8")))
