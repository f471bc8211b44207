"""A slice of the random programs of fuzz.py, which has the command for many of them.

It runs in a process of its own: warnings that come once per process were given by other tests here.
`TAPEGRAD_PARITY_RANDOM=1` draws new programs instead of the fixed ones.
"""

from __future__ import annotations

import os
import pathlib
import random
import subprocess
import sys

import pytest

COUNT, PARTS = 1000, 2
FIRST = random.randrange(10**9) if os.environ.get("TAPEGRAD_PARITY_RANDOM") == "1" else 0
FUZZ = pathlib.Path(__file__).with_name("fuzz.py")


@pytest.mark.parametrize("part", range(PARTS))
def test_random_programs(part: int) -> None:
    """Every program does in tapegrad what it does in PyTorch, in all that can be seen."""
    size = COUNT // PARTS
    command = [
        sys.executable,
        str(FUZZ),
        "--programs",
        str(size),
        "--seed",
        str(FIRST + part * size),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
