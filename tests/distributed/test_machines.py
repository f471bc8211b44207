"""Several machines: two names of this one, which MPI then takes for two that share no memory."""

from __future__ import annotations

import re

import pytest
from ranks import passed, torchrun
from test_ends import noticed

from tapegrad.distributed import _hosts

TWO = ("--hosts=127.0.0.1,localhost",)


@pytest.mark.parametrize("each", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_collectives(each):
    names = passed("cases_collectives.py", each, options=TWO, machines=2)
    assert len(names) == 13 + each


@pytest.mark.parametrize("what", ["kind", "dtype"])
def test_ranks_that_disagree_name_both_lines(what):
    done = torchrun("cases_ends.py", 1, what, options=TWO)
    for rank in range(2):
        seconds, text = noticed(done.stdout, rank)
        assert seconds < 2 and "Detected mismatch between collectives on ranks. Rank 0 is" in text
        assert len(re.findall(r"rank \d: +\S*cases_ends.py:\d+ \w+", text)) == 2


@pytest.mark.parametrize(
    "what, says, launcher",
    [
        ("killed", "rank 1 died: was killed by SIGKILL (signal 9)", "was killed by SIGKILL"),
        ("failed", "rank 1 failed: KeyError: 'of rank 1'", "ended with status 1"),
        ("ended", "rank 1 has ended without taking part", None),
    ],
)
def test_a_rank_that_does_not_come_is_named(what, says, launcher):
    done = torchrun("cases_ends.py", 1, what, options=TWO)
    seconds, text = noticed(done.stdout, 0)
    assert says in text and seconds < 2 and done.returncode != 0
    if launcher:
        first = done.stderr[done.stderr.index("torchrun: rank") :].split("\n")[0]
        assert first.startswith("torchrun: rank 1 (pid") and launcher in first


@pytest.mark.parametrize(
    "options, expected",
    [
        (("", "", "1", None), [("", 1)]),
        (("", "", "1:4", 1), "--nnodes=1:4 needs their names"),
        (("", "", "1", 3), [("", 3)]),
        (("a,b", "", "1", 2), [("a", 2), ("b", 2)]),
        (("a:3,b", "", "1", None), [("a", 3), ("b", 1)]),
        (("a,b,c", "", "2", None), [("a", 1), ("b", 1)]),
        (("a", "", "2", None), "--nnodes=2, but 1 hosts are named"),
        (("", "", "2", 2), "--nnodes=2 needs their names"),
        (("", "", "x", 2), "--nnodes: a number or MIN:MAX is expected, got 'x'"),
        (("a b", "", "1", 2), "--hosts: cannot read 'a b'"),
        (("", "FILE", "1", None), [("one", 2), ("two", 4), ("10.0.0.3", 1)]),
        (("", "none", "1", None), "--hostfile: [Errno 2]"),
    ],
)
def test_hosts(options, expected, tmp_path):
    hosts, file, nodes, each = options
    if file:
        path = tmp_path / file
        if file == "FILE":
            path.write_text("# machines\none slots=2 max-slots=4\n\ntwo:4   # big\n10.0.0.3\n")
        file = str(path)
    if isinstance(expected, str):
        with pytest.raises(_hosts.BadHosts, match=re.escape(expected)):
            _hosts.placed(hosts, file, nodes, each)
    else:
        assert _hosts.placed(hosts, file, nodes, each) == expected
