"""Collectives and messages on 2 and 4 ranks."""

from __future__ import annotations

import pytest
from ranks import passed


@pytest.mark.parametrize("ranks", [2, 4])
def test_collectives_against_numpy(ranks):
    names = passed("cases_collectives.py", ranks)
    assert len(names) == (14 if ranks == 2 else 15)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["nccl", "mpi"])
def test_collectives_of_a_gpu(backend):
    """On the stand-in: by the calls of NCCL, and through host memory."""
    assert len(passed("cases_collectives.py", 2, backend)) == 14
