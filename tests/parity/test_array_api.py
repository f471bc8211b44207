"""array-api-compat takes tapegrad for PyTorch, and gives what PyTorch gives."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest

import tapegrad

pytest.importorskip("array_api_compat")
CALLS = str(pathlib.Path(__file__).with_name("array_api_calls.py"))
SOURCE = str(pathlib.Path(tapegrad.__file__).parent.parent)
# What tapegrad takes and PyTorch refuses.
MORE = {"tile"}


def answers(*how: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, *how, CALLS],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([SOURCE, *sys.path])},
        capture_output=True,
        text=True,
        check=True,
    )
    return dict([json.loads(line) for line in done.stdout.splitlines()])


def agree(ours: Any, theirs: Any) -> bool:
    if isinstance(theirs, list):
        same = isinstance(ours, list) and len(ours) == len(theirs)
        return same and all([agree(a, b) for a, b in zip(ours, theirs, strict=True)])
    if isinstance(theirs, float) and isinstance(ours, float):
        near = abs(ours - theirs) <= 2e-6 + 1e-5 * abs(theirs)
        return near or ours == theirs or (ours != ours and theirs != theirs)
    return bool(ours == theirs)


@pytest.mark.slow
def test_functions_of_the_standard() -> None:
    ours, theirs = answers("-m", "tapegrad", "run"), answers()
    assert list(ours) == list(theirs)
    answered = [label for label, answer in theirs.items() if answer != "error"]
    assert [label for label in answered if not agree(ours[label], theirs[label])] == []
    refused = [label for label in theirs if theirs[label] == "error" != ours[label]]
    assert [label for label in refused if label.split("(")[0] not in MORE] == []
    assert len(answered) > 3000 and ours["namespace"] == "True"
