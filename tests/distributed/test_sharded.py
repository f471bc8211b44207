"""What is spread over ranks: ZeRO, FSDP, checkpoints; read again by another number of ranks."""

from __future__ import annotations

from cases_sharded import CASES
from ranks import passed


def test_sharded_on_two_ranks_then_on_four(tmp_path):
    everything = {case.__name__ for case in CASES}
    assert passed("cases_sharded.py", 2, str(tmp_path)) == everything
    again = {"load_shards", "load_optimizer"}
    assert passed("cases_sharded.py", 4, str(tmp_path), *again) == again
    assert passed("cases_sharded.py", 4, str(tmp_path)) == everything
