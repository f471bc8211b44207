"""Interrupts at random moments leave the library as it was: 2,000 and more in `make thorough`."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from typing import Any

import pytest

from tapegrad.__config__ import is_compiled

TOOL = pathlib.Path(__file__).with_name("signals.py")


def run(*arguments: Any) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, str(TOOL), *map(str, arguments)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def check(found: dict[str, Any], count: int) -> None:
    """In the pure build, one moment per block remains in which Python itself loses `__exit__`."""
    ends = found["ends"]
    if not is_compiled():
        count -= ends.pop("in a block's own code", 0)
    assert ends == {"well": count}, found["found"]


@pytest.mark.parametrize("way, count", [("timer", 70), ("points", 21)])
def test_interrupts(way: str, count: int) -> None:
    check(run(way, count, 1), count)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "way, count, seed", [("timer", 1000, 2), ("timer", 1000, 3), ("points", 210, 4)]
)
def test_many_interrupts(way: str, count: int, seed: int) -> None:
    check(run(way, count, seed), count)
