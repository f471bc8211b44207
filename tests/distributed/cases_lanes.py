"""The picture of lanes: a rank that is slow is named. Run by test_lanes.py."""

from __future__ import annotations

import time

from cases_ddp import DDP, loss_of, model
from ranks import run_cases

import tapegrad as torch
import tapegrad.distributed as dist


def the_slow_rank_is_named():
    ddp = DDP(model())
    for step in range(2):
        loss_of(ddp, step).backward()
    dist.barrier()
    with torch.diagnose.distributed() as lanes:
        for step in range(3):
            if dist.get_rank() == 1:
                time.sleep(0.25)
            ddp.zero_grad()
            loss_of(ddp, step).backward()
    assert lanes.slowest == 1
    first, second = lanes.data
    assert first["waiting"] > 0.4 and first["waiting"] > second["waiting"]
    assert "bucket 0" in first["buckets"]
    for lane in lanes.data:
        assert len(lane["steps"]) == 3
        assert all("bucket 0" in step["buckets"] for step in lane["steps"])
        for what in ("computing", "waiting", "hidden", "communicating"):
            assert sum(step[what] for step in lane["steps"]) <= lane[what] + 1e-9
    assert sum(step["waiting"] for step in first["steps"]) > 0.4
    assert "  step 2  computing" in repr(lanes)
    assert "buckets, from start to end in ms: 0 " in repr(lanes)
    assert "the others wait for rank 1" in repr(lanes) and "·" in first["picture"]


def communication_is_hidden_behind_computing():
    """Messages that were started and are waited for later run while the rank computes."""
    big = torch.ones(1 << 16)
    with torch.diagnose.distributed() as lanes:
        work = dist.all_reduce(big, async_op=True)
        limit = time.perf_counter() + 20
        while not work.is_completed() and time.perf_counter() < limit:
            pass
        work.wait()
    for lane in lanes.data:
        assert lane["hidden"] > 0 and lane["waiting"] < 0.1


if __name__ == "__main__":
    dist.init_process_group("mpi")
    run_cases([the_slow_rank_is_named, communication_is_hidden_behind_computing])
    dist.destroy_process_group()
