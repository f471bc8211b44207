"""Random programs with the kernels in C and without (programs.py), and in several threads at once
(threads.py)."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest

import tapegrad as torch

HERE = pathlib.Path(__file__).parent
ENV = {**os.environ, "PYTHONPATH": str(pathlib.Path(torch.__file__).parent.parent)}


def run(name: str, much: int, seed: int) -> dict[str, Any]:
    command = [sys.executable, str(HERE / name), str(much), str(seed)]
    done = subprocess.run(command, env=ENV, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["failures"] == []
    return found


@pytest.mark.parametrize("count", [60, pytest.param(1500, marks=pytest.mark.thorough)])
def test_random_programs(count: int) -> None:
    assert run("programs.py", count, count)["ends"]["programs"] == count


@pytest.mark.parametrize("seconds", [1, pytest.param(20, marks=pytest.mark.thorough)])
def test_threads(seconds: int) -> None:
    assert run("threads.py", seconds, 1)["programs"] > 0


@pytest.mark.thorough
def test_the_command() -> None:
    command = [sys.executable, str(HERE / "run.py"), "--seconds", "1", "--only", "threads"]
    done = subprocess.run(command, env=ENV, capture_output=True, text=True)
    assert done.returncode == 0 and "all is well" in done.stdout
