"""diagnose.distributed()"""

from __future__ import annotations

from ranks import passed


def test_lanes():
    assert len(passed("cases_lanes.py", 2)) == 2
