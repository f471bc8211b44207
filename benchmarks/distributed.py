"""Two ranks on this machine against PyTorch's gloo: all_reduce of 16 B and 4 MB, a step of DDP.

    python benchmarks/distributed.py            needs torch, mpi4py and mpich in one environment

The two libraries take turns, several times, so that what else runs here hits both; the smallest
time of each counts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

TURNS = int(os.environ.get("TURNS", "5"))


def measure() -> None:
    """In a rank, of either library."""
    import time

    import torch
    import torch.distributed as dist
    from torch import nn

    dist.init_process_group("gloo")

    def best(call, repeats, rounds=7):
        times = []
        for _ in range(rounds):
            dist.barrier()
            start = time.perf_counter()
            for _ in range(repeats):
                call()
            times.append((time.perf_counter() - start) / repeats)
        return min(times)

    torch.manual_seed(0)
    small, large = torch.ones(4), torch.ones(1 << 20)
    model = nn.Sequential(
        *(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    )
    ddp = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.01)
    x, y = torch.randn(64, 784), torch.randint(0, 10, (64,))

    def step():
        optimizer.zero_grad()
        nn.functional.cross_entropy(ddp(x), y).backward()
        optimizer.step()

    found = {
        "all_reduce 16 B": best(lambda: dist.all_reduce(small), 200),
        "all_reduce 4 MB": best(lambda: dist.all_reduce(large), 10),
        "DDP step 784-512-512-10": best(step, 5),
    }
    if dist.get_rank() == 0:
        print("RESULT" + json.dumps(found), flush=True)
    dist.destroy_process_group()


def run(command: list[str]) -> dict[str, float]:
    environ = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, "--nproc-per-node=2", __file__, "--rank"],
        capture_output=True,
        text=True,
        timeout=300,
        env=environ,
    )
    if "RESULT" not in done.stdout:
        raise SystemExit(done.stdout + done.stderr)
    return json.loads(done.stdout.partition("RESULT")[2].splitlines()[0])


def main() -> None:
    ours = [sys.executable, "-m", "tapegrad", "torchrun"]
    theirs = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    rows: dict[str, list[float]] = {}
    for _ in range(TURNS):
        for place, command in enumerate((ours, theirs)):
            for name, seconds in run(command).items():
                row = rows.setdefault(name, [float("inf")] * 2)
                row[place] = min(row[place], seconds)
    print(f"{'two ranks':<26}{'tapegrad':>12}{'gloo':>12}{'ratio':>8}")
    for name, (mine, other) in rows.items():
        print(f"{name:<26}{mine * 1e6:>9.1f} µs{other * 1e6:>9.1f} µs{mine / other:>8.2f}")


if __name__ == "__main__":
    measure() if "--rank" in sys.argv else main()
