"""How long it takes until something happens: tapegrad and PyTorch in turns, each in new processes.

    python benchmarks/start.py [--rounds 5] [--only import]

Needs PyTorch beside tapegrad (the environment of `make parity`), and Linux. Of each, the smallest
of the rounds is told: seconds of CPU time of the process and its children, seconds on the clock,
and the memory that one process held at most, in megabytes.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LIBRARIES = ("tapegrad", "torch")

PROGRAMS = {
    "import": "import {library} as torch",
    "first step": """
import {library} as torch
x = torch.randn(64, 32)
model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
optimizer = torch.optim.Adam(model.parameters())
model(x).square().mean().backward()
optimizer.step()
""",
    "first batch of four spawned workers": """
import {library} as torch
from {library}.utils.data import DataLoader, TensorDataset
if __name__ == "__main__":
    data = TensorDataset(torch.randn(1024, 32), torch.randn(1024))
    loader = DataLoader(data, batch_size=32, num_workers=4, multiprocessing_context="spawn")
    next(iter(loader))
    import os
    os._exit(0)
""",
    "first compiled step": """
import {library} as torch
x = torch.randn(64, 32)
model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
compiled = torch.compile(model)
for _ in range({calls}):
    compiled(x).square().mean().backward()
""",
}
# Unmodified, where it is installed; under tapegrad by `python -m tapegrad run`.
PPO = """
from stable_baselines3 import PPO
PPO("MlpPolicy", "CartPole-v1", seed=0, device="cpu").learn(8192)
"""
# Calls until the first one that runs compiled: tapegrad's replays begin with the fourth.
CALLS = {"tapegrad": 4, "torch": 1}


def run(file: Path, cache: str, *options: str) -> tuple[float, float, float]:
    """Seconds of CPU time, seconds, and megabytes."""
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": cache, "OMP_NUM_THREADS": "1"}
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, "-W", "ignore", *options, str(file)]
    child = subprocess.Popen(command, env=environment)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - start
    if child.returncode:
        raise SystemExit(f"{file.read_text()}\nended with {child.returncode}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    work = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return work, seconds, usage.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="a part of a name")
    parser.add_argument("--record", action="store_true", help="add the numbers to docs/evidence")
    chosen = parser.parse_args()
    print("| | tapegrad | PyTorch |\n|---|---|---|")
    programs = dict(PROGRAMS)
    if importlib.util.find_spec("stable_baselines3"):
        programs["8,192 steps of PPO, Stable-Baselines3"] = PPO
    for name, program in programs.items():
        if chosen.only not in name:
            continue
        found: dict[str, list[tuple[float, float, float]]] = {library: [] for library in LIBRARIES}
        with tempfile.TemporaryDirectory() as folder:
            for i in range(chosen.rounds):
                for library in LIBRARIES:
                    file = Path(folder, f"program_{library}.py")
                    calls = CALLS[library]
                    file.write_text(program.format(library=library, calls=calls), encoding="utf-8")
                    as_torch = program == PPO and library == "tapegrad"
                    options = ["-m", "tapegrad", "run"] if as_torch else []
                    found[library].append(run(file, str(Path(folder, f"cache{i}")), *options))
        cells = [tuple(min(column) for column in zip(*found[x], strict=True)) for x in LIBRARIES]
        print(
            f"| {name} |",
            " | ".join([f"{w:.2f} s CPU, {s:.2f} s, {m:.0f} MB" for w, s, m in cells]),
            "|",
            flush=True,
        )
        if chosen.record:
            record(name, *cells)


def record(name: str, ours: tuple[float, ...], theirs: tuple[float, ...]) -> None:
    """Add a row to the evidence."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
    import evidence

    numbers: dict[str, float] = {}
    for prefix, (work, clock, memory) in (("", ours), ("PyTorch ", theirs)):
        numbers |= {f"{prefix}s": round(work, 2), f"{prefix}MB": round(memory)}
        numbers |= {f"{prefix}clock": round(clock, 2)}
    evidence.add("start", name, numbers)


if __name__ == "__main__":
    main()
