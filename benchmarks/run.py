"""tapegrad against PyTorch: `make bench` (compiled build), `make bench-pure`.

Each library runs in a process of its own, so that neither's threads are in the other's way; the two
take turns, and the best of many rounds counts, since noise only ever adds time. Every case runs
with each library's default number of threads and with one, and under tapegrad.compile against
PyTorch as it is. A case that one library cannot run is reported, not hidden.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from typing import Any

from cases import CASES, Work, training_step

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "benchmarks.md"
NAMES = ("tapegrad", "torch", "compiled")  # the last one is tapegrad.compile of the same work
TURN = 0.01  # seconds: long enough that each library finds its own code in the caches


# ---------------------------------------------------------------------- the process of a library


def serve(name: str, threads: int) -> None:
    """Answer lines of {"case", "seconds"} with the best time of a turn, in nanoseconds."""
    library = importlib.import_module("tapegrad" if name == "compiled" else name)
    if threads:
        library.set_num_threads(threads)
    work: Work | None = None
    current, loops, problem = -1, 1, ""
    for line in sys.stdin:
        asked = json.loads(line)
        if asked["case"] != current:
            current = asked["case"]
            work, problem = prepare(CASES[current][2], library)
            if work is not None and name == "compiled":
                work, problem = compiled(work)
            gc.collect()
            gc.disable()
            if work is not None:
                loops = max(1, int(TURN * 1e9 / time_once(work, 3)))
        taken = None if work is None else time_once(work, loops)
        print(json.dumps({"time": taken, "problem": problem}), flush=True)


def prepare(make: Any, library: Any) -> tuple[Work | None, str]:
    """The work, tried out once, or the reason why this library cannot do it."""
    gc.enable()
    try:
        work = make(library)
        work()
    except Exception as error:
        return None, f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    return work, ""


def compiled(work: Work) -> tuple[Work | None, str]:
    """The work from a recording, or why there is none."""
    from tapegrad.compiler.run.function import Compiled

    made = Compiled(work, False, False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(12):  # the fourth call is a replay, unless a comparison wanted another call
            made()
            recording = next(iter(made.recordings.values()))
            if recording.replays:
                break
    return (made, "") if recording.replays else (None, recording.reason)


def time_once(work: Work, loops: int) -> float:
    start = time.perf_counter_ns()
    for _ in range(loops):
        work()
    return (time.perf_counter_ns() - start) / loops


# ---------------------------------------------------------------------- the two in turns


class Runner:
    """A library in a process of its own."""

    def __init__(self, library: str, threads: int) -> None:
        environment = dict(os.environ)
        if threads:
            for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
                environment[name] = str(threads)
        command = [sys.executable, __file__, "--serve", library, str(threads)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def turn(self, case: int) -> tuple[float | None, str]:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps({"case": case}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            return None, f"its process ended with {self.process.wait()}"
        answer = json.loads(line)
        return answer["time"], answer["problem"]

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


def best_times(case: int, threads: int, seconds: float) -> tuple[list[float | None], list[str]]:
    """The best time of tapegrad, of PyTorch and of a compiled one, and why one has none."""
    runners = [Runner(name, threads) for name in NAMES]
    best: list[float | None] = [None] * len(NAMES)
    problems = [""] * len(NAMES)
    order = range(len(NAMES))
    rounds = 0
    end = time.perf_counter() + seconds
    try:
        while rounds < 3 or time.perf_counter() < end:
            # Back and forth: a library's threads may wait by running for some milliseconds, at the
            # cost of whoever is next.
            for i in order[:: -1 if rounds % 2 else 1]:
                if not problems[i]:
                    taken, problems[i] = runners[i].turn(case)
                    # The first turn finds everything cold.
                    if taken is not None and rounds:
                        best[i] = min(taken, best[i] or taken)
            if all(problems):
                break
            rounds += 1
            if rounds == 1:
                end = time.perf_counter() + seconds
    finally:
        for runner in runners:
            runner.stop()
    return best, problems


def compare(seconds: float, only: str, threads: list[int]) -> list[dict[str, Any]]:
    """The table, printed as it grows: each case with default threads (0) and with one."""
    columns = "".join([f"{'default' if not n else f'{n} thread':>36}" for n in threads])
    print(f"{'':<44}{'aim':>5}{columns}")
    found = []
    for index, (label, aim, _) in enumerate(CASES):
        if only not in label:
            continue
        row: dict[str, Any] = {"label": label, "aim": aim}
        print(f"{label:<44}{aim:>5.2f}", end="", flush=True)
        notes = []
        for n in threads:
            (ours, theirs, fixed), problems = best_times(index, n, seconds)
            ratio = ours / theirs if ours and theirs else None
            again = fixed / theirs if fixed and theirs else None
            row[str(n)] = {"tapegrad": ours, "torch": theirs, "ratio": ratio, "compiled": again}
            shown = "     -" if again is None else f"{again:>6.2f}"
            print(f"{in_us(ours)}{in_us(theirs)}{ratio or 0:>6.2f}{shown}", end="", flush=True)
            notes += [f"    {name}: {p}" for name, p in zip(NAMES, problems, strict=True) if p]
        print()
        for note in dict.fromkeys(notes):
            print(note)
        found.append(row)
    return found


def in_us(value: float | None) -> str:
    return f"{'-':>12}" if value is None else f"{value / 1e3:>10,.1f}us"


# ---------------------------------------------------------------------- beside the table


def cost_of_evidence(library: Any, seconds: float) -> None:
    """A training step with the user's lines being recorded, against the same without."""
    from tapegrad.core.base import STATE

    work = training_step(library)

    def silent() -> None:
        STATE.recording = False
        try:
            work()
        finally:
            STATE.recording = True

    with_lines = without = float("inf")
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        with_lines = min(with_lines, time_once(work, 50))
        without = min(without, time_once(silent, 50))
    share = 100 * (with_lines / without - 1)
    print(f"{'recording lines, of a training step':<40}{share:>11.1f} %")


def import_times(rounds: int) -> None:
    """What an import takes in a fresh interpreter, with the bytecode of an earlier one at hand."""
    best: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as cache:
        for _ in range(rounds):
            for name, before in (("numpy", "sys"), ("tapegrad", "numpy"), ("torch", "numpy")):
                taken = import_time(name, before, cache)
                if taken is not None:
                    best[name] = min(taken, best.get(name, taken))
    for name, taken in best.items():
        label = f"import {name}" if name == "numpy" else f"import {name}, numpy being there"
        print(f"{label:<40}{taken:>12.0f} ms")


def import_time(module: str, before: str, cache: str) -> float | None:
    """Milliseconds of one import after another, or None when it fails."""
    code = (
        f"import time, {before}; t = time.perf_counter(); import {module}; "
        "print(time.perf_counter() - t)"
    )
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": cache}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    return 1e3 * float(done.stdout) if done.returncode == 0 else None


def wheel_size() -> None:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
        environment = {**os.environ, "TAPEGRAD_PURE": "1"}
        done = subprocess.run(
            [*command, "-w", folder, str(ROOT)], env=environment, capture_output=True, text=True
        )
        wheels = list(pathlib.Path(folder).glob("*.whl"))
        if done.returncode or not wheels:
            print("pure wheel: could not be built")
            return
        print(f"{'pure wheel':<40}{wheels[0].stat().st_size / 1e3:>12.0f} kB")


def write_page(rows: list[dict[str, Any]], build: str) -> None:
    """docs/benchmarks.md: the table, and what was measured on."""
    lines = [
        *INTRODUCTION,
        "| workload | default threads | one thread | compiled |",
        "|---|---|---|---|",
    ]
    for row in rows:
        label = f"`{row['label']}`" if "*" in row["label"] else row["label"]
        cells = [row.get(n, {}).get("ratio") for n in ("0", "1")]
        shown = [*map(share, cells), share(row.get("0", {}).get("compiled"), "")]
        lines.append(f"| {label} | {' | '.join(shown)} |")
    told = [line for line in build.strip().splitlines() if not line.startswith("    - ")]
    lines += ["", "## Measured with", "", "```", *told]
    lines += [f"  processor: {processor()}, {os.cpu_count()} cores", "```", ""]
    PAGE.write_text("\n".join(lines))


INTRODUCTION = (
    """\
# Benchmarks against PyTorch

Each number is the time that tapegrad takes, as a share of PyTorch's: 0.50 is twice as fast, 2.00
takes twice as long. The last column is the same work under [tapegrad.compile](compile.md), against
PyTorch as it is; where it is empty, the work is not recorded, mostly because its result is
differentiated outside.

Each library runs in a process of its own, in turns; the best of many rounds counts. `make bench`
prints the table on your machine, `make bench-page` writes this page. [The survey](survey.md) times
every function alone, and lists those that are behind.
""".splitlines()
    + [""]
)


def share(ratio: float | None, absent: str = "-") -> str:
    if ratio is None:
        return absent
    return f"{ratio:.2f}" if ratio >= 0.005 else "< 0.01"


def processor() -> str:
    path = pathlib.Path("/proc/cpuinfo")
    if path.exists():
        for line in path.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=2.0, help="time for each case")
    options.add_argument(
        "--quick", action="store_true", help="three minutes: one second, one table"
    )
    options.add_argument("--only", default="", help="cases whose label contains this")
    options.add_argument("--threads", type=int, help="with so many alone")
    options.add_argument("--write", action="store_true", help="write docs/benchmarks.md")
    options.add_argument("--record", action="store_true", help="add a summary to docs/evidence")
    options.add_argument("--serve", nargs=2, help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.serve:
        serve(chosen.serve[0], int(chosen.serve[1]))
        return
    import tapegrad
    from tapegrad import __config__

    build = __config__.show() + f"  torch: {version('torch')}\n"
    print(build)
    threads = [0, 1] if chosen.threads is None and not chosen.quick else [chosen.threads or 0]
    rows = compare(0.5 if chosen.quick else chosen.seconds, chosen.only, threads)
    if chosen.record:
        record(rows, chosen.only)
    if chosen.write:
        write_page(rows, build)
    if not chosen.only:
        cost_of_evidence(tapegrad, chosen.seconds)
    if not chosen.quick and not chosen.only:
        print()
        import_times(rounds=5)
        wheel_size()


def record(rows: list[dict[str, Any]], only: str) -> None:
    """Add the geometric mean, and the rows that are slower than PyTorch, to the evidence."""
    sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tools"))
    import evidence

    for key, part, what in (
        ("0", "ratio", "default threads"),
        ("1", "ratio", "one thread"),
        ("0", "compiled", "compiled, default threads"),
    ):
        shares = {row["label"]: row.get(key, {}).get(part) for row in rows}
        known = {label: share for label, share in shares.items() if share}
        if known:
            slower = {label: share for label, share in known.items() if share > 1}
            numbers = {
                "workloads": len(known),
                "geometric mean": round(statistics.geometric_mean(known.values()), 2),
                "slower than PyTorch": len(slower),
            }
            note = ", ".join([f"`{label}` {share:.2f}" for label, share in slower.items()])
            named = what + f", labels with {only}" * bool(only)
            evidence.add("benchmarks", named, numbers, note=note)


def version(package: str) -> str:
    import importlib.metadata

    return importlib.metadata.version(package)


if __name__ == "__main__":
    main()
