"""Kills at random moments: the dead rank is named, and the run goes on from its checkpoint."""

from __future__ import annotations

import os
import re

import pytest
from ranks import torchrun

import tapegrad as torch

SEEDS = range(int(os.environ.get("KILLS", "4")))


@pytest.mark.slow
def test_a_killed_run_ends_like_one_that_was_not(tmp_path):
    results, delays = [], []
    for seed in SEEDS:
        folder = tmp_path / str(seed)
        folder.mkdir()
        done = torchrun("prog_resume.py", 2, str(folder), str(seed), options=("--max-restarts=1",))
        output = done.stdout + done.stderr
        assert done.returncode == 0, output
        results.append(torch.load(folder / "final.pt"))
        if "starting all ranks again" not in done.stderr:
            continue
        killed = re.search(r"rank (\d) \(pid \d+\) was killed by SIGKILL \(signal 9\)", done.stderr)
        assert killed, output
        other = 1 - int(killed[1])
        named = re.search(rf"^\[{other}\] named after ([\d.]+) s: (.*)", done.stdout, re.M)
        # The other may have come to its end before.
        assert named or f"[{other}] finished" in done.stdout, output
        if named:
            assert f"rank {killed[1]} died" in named[2], output
            delays.append(float(named[1]))
    print(f"{len(results)} runs, {len(delays)} killed and named", [f"{d:.3f}" for d in delays])
    assert max(delays) < 2
    for result in results[1:]:
        for name, value in results[0].items():
            assert torch.equal(result[name], value)
