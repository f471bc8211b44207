"""The short ways of recording make the nodes of the general one: `lay_out` in core/record.py."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest


@pytest.mark.slow  # 14,000 nodes, in a process of its own
def test_every_op_is_recorded_as_the_general_way_does() -> None:
    script = pathlib.Path(__file__).with_name("node_layouts.py")
    answer = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, "TAPEGRAD_PURE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(answer.stdout)
    assert found["different"] == []
    assert found["wrong lines"] == {}
    assert len(found["short"]) > 200  # ops; all others are laid out by the general way itself
