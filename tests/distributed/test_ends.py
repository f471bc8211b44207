"""What ranks say when others disagree with them, die, fail, end or come late; the launcher too."""

from __future__ import annotations

import re

import pytest
from cases_ends import MISMATCHES
from ranks import torchrun


def noticed(output, rank):
    """(seconds, text) of what a rank reported."""
    lines = [line[4:] for line in output.splitlines() if line.startswith(f"[{rank}] ")]
    found = re.search(r"after ([\d.]+) s: (.*)", "\n".join(lines), re.S)
    assert found is not None, output
    return float(found[1]), found[2]


@pytest.mark.parametrize("what", MISMATCHES)
def test_ranks_that_disagree_name_both_lines(what):
    done = torchrun("cases_ends.py", 2, what)
    assert done.returncode == 1
    for rank in range(2):
        seconds, text = noticed(done.stdout, rank)
        assert seconds < 2
        assert text.startswith(
            "RuntimeError Detected mismatch between collectives on ranks. Rank 0 is"
        )
        places = re.findall(r"rank (\d): +\S*cases_ends.py:(\d+) (\w+)", text)
        assert [place[0] for place in places] == ["0", "1"]
        assert "[E14] python -m tapegrad explain E14" in text


@pytest.mark.parametrize(
    "what, says",
    [
        ("killed", "rank 1 died"),
        ("failed", "rank 1 failed: KeyError: 'of rank 1'"),
        ("ended", "rank 1 has ended without taking part"),
        ("late", "Timed out waiting 2000ms for all_reduce operation to complete"),
        ("monitored", "[Rank 0]: Rank 1 failed to pass monitoredBarrier in 1000 ms"),
    ],
)
def test_a_rank_that_does_not_come_is_named(what, says):
    done = torchrun("cases_ends.py", 2, what)
    seconds, text = noticed(done.stdout, 0)
    assert says in text and seconds < (2 if what in ("killed", "failed", "ended") else 3)
    if what != "monitored":
        assert "cases_ends.py" in text.split("noticed:")[0]  # its last line
    assert done.returncode != 0
    if what == "killed":
        assert re.search(
            r"torchrun: rank 1 \(pid \d+\) was killed by SIGKILL \(signal 9\)", done.stderr
        )
        assert done.returncode == 137


def test_all_ranks_start_again():
    done = torchrun("cases_ends.py", 2, "restart", options=("--max-restarts=2",))
    assert done.returncode == 0, done.stderr
    assert "rank 1 (pid" in done.stderr and "was killed by SIGTERM (signal 15)" in done.stderr
    assert "starting all ranks again (2 restarts left)" in done.stderr
    assert done.stdout.count("came to the end") == 2
