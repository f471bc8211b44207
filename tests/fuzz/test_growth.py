"""A varied program leaves nothing behind: a few rounds here, 1,000 in `make thorough`."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from typing import Any

import pytest

TOOL = pathlib.Path(__file__).with_name("growth.py")


def check(rounds: int) -> None:
    done = subprocess.run([sys.executable, str(TOOL), str(rounds)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["containers"] > 500
    assert (found["grown"], found["alive"]) == ({}, {})


def test_nothing_grows() -> None:
    check(16)


@pytest.mark.thorough
def test_nothing_grows_over_many_rounds() -> None:
    check(1000)
