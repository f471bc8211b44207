"""Run all that tries to break the library, and print what was tried, how often and what was found.

    python tests/fuzz/run.py --seconds 120               everything, in so much time
    python tests/fuzz/run.py --only files --count 10000  10,000 files of each kind
    python tests/fuzz/run.py --list                      the names of the parts
    python tests/fuzz/run.py --record ...                and add the counts to docs/evidence

Each part is a program beside this file that prints JSON with "failures" (or "found"): a list of
what broke, each with the seed that shows it again. The exit status is 1 if there is any.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import importlib.util
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
BATCH, LARGE_BATCH = 250, 2500  # of one process; and where a count is given
# Programs that take SECONDS and SEED; those that take COUNT and SEED, or KIND, COUNT and SEED. What
# the latter try does not depend on the speed of a machine.
TIMED = ("threads",)
COUNTED = {
    "layouts": ("",),
    "programs": ("",),
    "files": ("zip", "legacy", "pickles", "exported", "npz", "safetensors"),
    "signals": ("timer", "points"),
}
FEWER = {"exported": 5}  # slow to make: a fifth of the count


def parts() -> list[tuple[str, str]]:
    """(program, kind) of all parts that are there."""
    found = [(name, "") for name in TIMED]
    found += [(name, kind) for name, kinds in COUNTED.items() for kind in kinds]
    return [(name, kind) for name, kind in found if (HERE / f"{name}.py").exists()]


def call(name: str, *arguments: str) -> dict[str, Any]:
    command = [sys.executable, str(HERE / f"{name}.py"), *arguments]
    with tempfile.TemporaryDirectory() as folder:  # some write files
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        said = f"status {done.returncode}: {done.stderr[-3000:]}"
        return {"failures": [f"{name} {' '.join(arguments)}: {said}"]}
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def counted(name: str, kind: str, seconds: float, count: int, seed: int) -> dict[str, Any]:
    """Batches of a program that counts, until there were so many, or so much time has passed."""
    ends: dict[str, int] = {}
    failures: list[str] = []
    count //= FEWER.get(kind, 1)
    end = time.monotonic() + seconds
    tried = 0
    while tried < count if count else time.monotonic() < end:
        size = min(LARGE_BATCH, count - tried) if count else BATCH
        found = call(name, *[kind] * bool(kind), str(size), str(seed))
        failures += found.get("failures", []) + found.get("found", [])
        for how, times in found.get("ends", {}).items():
            ends[how] = ends.get(how, 0) + times
        if "ends" not in found:
            break
        tried += size
        seed += 1
    return {"tried": tried, "ends": ends, "failures": failures}


def record(name: str, kind: str, found: dict[str, Any], failed: int, seed: int) -> None:
    """Add a record to the section of the evidence that has this part."""
    sys.path.insert(0, str(HERE.parents[1] / "tools"))
    import evidence

    section = {"signals": "interrupts"}.get(name, name)
    counts = {k: v for k, v in found.items() if isinstance(v, int)} | {"failures": failed}
    loaded = found.get("ends", {}).get("loaded")
    counts |= {} if loaded is None else {"loaded": loaded}
    evidence.add(section, f"{name} {kind}".strip(), counts, note=f"seed {seed}")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60, help="for all parts together")
    parser.add_argument("--count", type=int, default=0, help="instead: of each part that counts")
    parser.add_argument("--only", default="", help="parts whose names contain this text")
    parser.add_argument("--seed", type=int, default=-1, help="by default another one every time")
    parser.add_argument("--jobs", type=int, default=1, help="parts that run at the same time")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--record", action="store_true", help="add the counts to docs/evidence")
    given = parser.parse_args()
    chosen = [part for part in parts() if given.only in " ".join(part)]
    if given.list:
        print(*[" ".join(part).strip() for part in chosen], sep="\n")
        return 0
    paths = [os.path.abspath(p) for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
    if not paths and importlib.util.find_spec("tapegrad") is None:
        paths = [str(HERE.parent.parent / "src")]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)  # the parts run in other folders
    seed = given.seed if given.seed >= 0 else random.randrange(1 << 20)
    print(f"seed {seed}", flush=True)
    failed = 0

    def run(part: tuple[str, str]) -> dict[str, Any]:
        name, kind = part
        share = given.seconds / len(chosen) * given.jobs
        if name in COUNTED:
            return counted(name, kind, share, given.count, seed)
        return call(name, str(share), str(seed))

    with concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
        for (name, kind), found in zip(chosen, pool.map(run, chosen), strict=True):
            failures = found.pop("failures", [])
            failed += len(failures)
            facts = ", ".join([f"{k}: {v}" for k, v in found.items()])
            print(f"{name} {kind}".ljust(18), f"{len(failures)} failures;", facts, flush=True)
            if given.record:
                record(name, kind, found, len(failures), seed)
            for failure in failures[:20]:
                print("   ", failure)
    print("all is well" if not failed else f"{failed} failures, with seed {seed}")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
