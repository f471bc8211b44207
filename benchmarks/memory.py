"""The memory of compiled steps: each case of `make bench` as it is and compiled, in megabytes.

`python benchmarks/memory.py [part of a label]`, on Linux. Every case runs twice, in processes of
its own: as ordinary calls, and under tapegrad.compile. The peak of each call is the system's figure
(VmHWM), so the interpreter and the libraries are in it, and the compiler's code in both. A case
whose worst compiled call needs more than the worst ordinary one, by more than 3 % and 2 MB, is
marked.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import subprocess
import sys

from cases import CASES

CALLS = 8
STEADY = 4  # calls after which nothing is recorded any more
FACTOR, MEGABYTES = 1.03, 2


def resident(key: str) -> float:
    """VmRSS or VmHWM of this process, in megabytes."""
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(key))


def measure(label: str, is_compiled: bool) -> None:
    """Print the peaks of the calls of one case."""
    import tapegrad
    import tapegrad.compiler.run.function  # so that both have it

    tapegrad.set_num_threads(1)
    work = next(make for name, _, make in CASES if name == label)(tapegrad)
    if is_compiled:
        work = tapegrad.compile(work)
    peaks = []
    for _ in range(CALLS):
        pathlib.Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        work()
        peaks.append(resident("VmHWM"))
    print(json.dumps(peaks))


def peaks_of(label: str, kind: str) -> list[float]:
    command = [sys.executable, __file__, "--measure", kind, label]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: list[float] = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "label", nargs="?", default="", help="only the cases with this in their name"
    )
    parser.add_argument("--measure", choices=("as it is", "compiled"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        measure(given.label, given.measure == "compiled")
        return
    print(f"{'case':44} {'as it is':>9} {'recorded':>9} {'replayed':>9}")
    over = 0
    for label in [name for name, _, _ in CASES if given.label in name]:
        before = max(peaks_of(label, "as it is"))
        peaks = peaks_of(label, "compiled")
        is_over = max(peaks) > before * FACTOR + MEGABYTES
        over += is_over
        recorded, replayed = max(peaks[:STEADY]), max(peaks[STEADY:])
        mark = " *" if is_over else ""
        print(f"{label:44} {before:9.1f} {recorded:9.1f} {replayed:9.1f}{mark}", flush=True)
    print(f"{over} cases need more memory compiled")


if __name__ == "__main__":
    main()
