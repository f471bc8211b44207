"""Ranks that disagree, fail, die, end early or come late: what the others say. One kind per run."""

from __future__ import annotations

import datetime
import os
import signal
import sys
import time

import tapegrad as torch
import tapegrad.distributed as dist

MISMATCHES = {
    "kind": (lambda: dist.all_reduce(torch.ones(4, 4)), lambda: dist.broadcast(torch.ones(16), 0)),
    "shape": (lambda: dist.all_reduce(torch.ones(4)), lambda: dist.all_reduce(torch.ones(2, 2))),
    "dtype": (
        lambda: dist.all_reduce(torch.ones(4)),
        lambda: dist.all_reduce(torch.ones(4, dtype=torch.int32)),
    ),
    "op": (
        lambda: dist.all_reduce(torch.ones(4)),
        lambda: dist.all_reduce(torch.ones(4), dist.ReduceOp.MAX),
    ),
    "root": (lambda: dist.broadcast(torch.ones(4), 0), lambda: dist.broadcast(torch.ones(4), 1)),
    "large": (
        lambda: dist.all_reduce(torch.ones(1 << 20)),
        lambda: dist.all_gather([torch.ones(5)] * 2, torch.ones(5)),
    ),
    "asynchronous": (
        lambda: dist.all_reduce(torch.ones(4), async_op=True).wait(),
        lambda: dist.barrier(async_op=True).wait(),
    ),
}


def main(what):
    dist.init_process_group("mpi", timeout=datetime.timedelta(seconds=2))
    rank = dist.get_rank()
    dist.barrier()
    start = time.monotonic()
    try:
        if what in MISMATCHES:
            MISMATCHES[what][min(rank, 1)]()
            dist.barrier()  # the root of a broadcast does not wait: it hears of it at the next one
        elif what == "killed":
            if rank == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            dist.all_reduce(torch.ones(4))
        elif what == "failed":
            if rank == 1:
                raise KeyError("of rank 1")
            dist.all_reduce(torch.ones(4))
        elif what == "ended":
            if rank == 1:
                sys.exit(0)
            dist.all_reduce(torch.ones(4))
        elif what == "late":
            if rank == 1:
                time.sleep(3)
            else:
                dist.all_reduce(torch.ones(4))
        elif what == "monitored":
            if rank == 1:
                time.sleep(3)
            else:
                dist.monitored_barrier(timeout=datetime.timedelta(seconds=1))
        elif what == "restart":
            if rank == 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
                os.kill(os.getpid(), signal.SIGTERM)
            dist.all_reduce(torch.ones(4))
            print("came to the end", flush=True)
    except RuntimeError as error:
        facts = error.diagnosis
        print(f"after {time.monotonic() - start:.2f} s:", type(error).__name__, error, flush=True)
        assert facts["id"] == "E14" and facts["noticed"]["file"] == __file__
        raise


if __name__ == "__main__":
    main(sys.argv[1])
