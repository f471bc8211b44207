"""Some of the hostile calls of tests/fuzz/hostile.py, which has the command for many of them."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

import pytest

FUZZ = pathlib.Path(__file__).parents[1] / "fuzz" / "hostile.py"
# How many of 10,000 calls may differ, by kind. Never more than these; they should become fewer.
MOST = {
    "hang": 0,
    "crash": 0,
    "unclean": 15,
    "result": 5,
    "refused": 40,
    "accepted": 90,
    "class": 180,
}

pytestmark = pytest.mark.thorough  # some minutes


def test_hostile_calls() -> None:
    """Nothing hangs or crashes, and few classes differ from PyTorch's."""
    command = [sys.executable, str(FUZZ), "--each", "2", "--seed", "1"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    last = done.stdout.splitlines()[-1]
    counts = {word: int(n) for word, n in re.findall(r"(\w+) (\d+)", last.partition(":")[2])}
    total = sum(counts.values())
    assert total > 2500
    for word, most in MOST.items():
        assert counts.get(word, 0) * 10_000 <= most * total, f"{last}\n{done.stdout[-6000:]}"
