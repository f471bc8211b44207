"""A slice of the random programs of fuzz.py, which has the command for many of them.

`TAPEGRAD_PARITY_SELF=1` runs torch against torch, which tests the fuzzer;
`TAPEGRAD_PARITY_RANDOM=1` draws new programs instead of the fixed ones.
"""

from __future__ import annotations

import os
import pathlib
import random
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from fuzz import search, told

COUNT, PARTS = 1600, 8
FIRST = random.randrange(10**9) if os.environ.get("TAPEGRAD_PARITY_RANDOM") == "1" else 0


@pytest.mark.parametrize("part", range(PARTS))
def test_random_programs(part: int) -> None:
    """Every program does in tapegrad what it does in PyTorch, in all that can be seen."""
    size = COUNT // PARTS
    start = FIRST + part * size
    found, crashed = search(range(start, start + size), workers=1)
    assert not found, "\n\n".join(told(*result) for result in found)
    assert len(crashed) <= size // 50, "PyTorch itself crashed"
