"""Kills at random moments: the dead rank is named, and the run goes on from its checkpoint."""

from __future__ import annotations

import pytest
from ranks import torchrun

import tapegrad as torch

SEEDS = range(4)


@pytest.mark.slow
def test_a_killed_run_ends_like_one_that_was_not(tmp_path):
    results = []
    for seed in SEEDS:
        folder = tmp_path / str(seed)
        folder.mkdir()
        done = torchrun("prog_resume.py", 2, str(folder), str(seed), options=("--max-restarts=1",))
        assert done.returncode == 0, done.stdout + done.stderr
        if "starting all ranks again" in done.stderr:
            assert "was killed by SIGKILL (signal 9)" in done.stderr
        results.append(torch.load(folder / "final.pt"))
    for result in results[1:]:
        for name, value in results[0].items():
            assert torch.equal(result[name], value)
