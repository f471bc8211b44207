"""Files made to do harm (hostile.py): an error each, nothing run, nothing hung, memory bounded.

And processes killed while they save: the file is the old one or the new one, never a broken one.
"""

from __future__ import annotations

import json
import os
import pathlib
import random
import subprocess
import sys
import time
from typing import Any

import pytest

import tapegrad as torch

SOURCE = str(pathlib.Path(torch.__file__).parent.parent)
HOSTILE = str(pathlib.Path(__file__).with_name("hostile.py"))
KINDS = ["zip", "legacy", "npz", "safetensors"]
ENV = {**os.environ, "PYTHONPATH": SOURCE}

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits memory by Linux's means")


def ends(kind: str, count: int, seed: int, folder: pathlib.Path) -> dict[str, Any]:
    if kind == "safetensors":
        pytest.importorskip("safetensors")
    done = subprocess.run(
        [sys.executable, HOSTILE, kind, str(count), str(seed)],
        cwd=folder,
        env=ENV,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["failures"] == [] and not found["harm"]
    refused = sum(found["ends"].values()) - found["ends"].get("loaded", 0)
    assert refused > count / 2
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_hostile_files(kind: str, tmp_path: pathlib.Path) -> None:
    ends(kind, 150, 1, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_ten_thousand_hostile_files(kind: str, tmp_path: pathlib.Path) -> None:
    ends(kind, 2500, 2, tmp_path)


SAVER = """
import sys, tapegrad as torch
print("ready", flush=True)
n = 0
while True:
    n += 1
    torch.save({"n": n, "x": torch.full((250_000,), float(n))}, sys.argv[1])
"""


def kill_while_saving(file: pathlib.Path, times: int) -> None:
    draw = random.Random(0)
    for _ in range(times):
        saver = subprocess.Popen(
            [sys.executable, "-c", SAVER, str(file)], env=ENV, stdout=subprocess.PIPE
        )
        assert saver.stdout is not None
        saver.stdout.readline()
        while not file.exists():
            time.sleep(0.001)
        time.sleep(draw.uniform(0.0, 0.05))
        saver.kill()
        saver.wait()
        saver.stdout.close()
        found = torch.load(file)
        assert bool((found["x"] == found["n"]).all())


def test_a_kill_leaves_no_broken_file(tmp_path: pathlib.Path) -> None:
    kill_while_saving(tmp_path / "checkpoint.pt", 2)


@pytest.mark.slow
def test_sixty_kills_leave_no_broken_file(tmp_path: pathlib.Path) -> None:
    kill_while_saving(tmp_path / "checkpoint.pt", 60)
