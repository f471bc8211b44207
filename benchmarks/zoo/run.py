"""Times of the programs of the zoo, eager and compiled: `python benchmarks/zoo/run.py [name ...]`.

For each program: milliseconds of a step as it is and compiled (the best of several interleaved
rounds), their ratio, how many pieces were compiled, and why not where it runs as ordinary Python.
"""

from __future__ import annotations

import pathlib
import re
import statistics
import sys
import time
import warnings
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import tapegrad as torch
from zoo import PROGRAMS

WARM_UP = 45  # steps, after which a program is compiled where it can be
ROUNDS, STEPS = 7, 5


def prepared(name: str, compile: Any) -> tuple[Any, Any, Any]:
    torch.manual_seed(0)
    step, batch, _ = PROGRAMS[name](torch)
    step = compile(step)
    batches = [batch(i) for i in range(WARM_UP + ROUNDS * STEPS)]
    for i in range(WARM_UP):
        step(*batches[i])
    return step, batches[WARM_UP:], step


def measured(name: str) -> tuple[float, float, str]:
    """Seconds of a step, eager and compiled, and what became of the compiled one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runs = [prepared(name, lambda step: step), prepared(name, torch.compile)]
        best = [float("inf"), float("inf")]
        for k in range(ROUNDS):
            for which, (step, batches, _) in enumerate(runs):
                start = time.perf_counter()
                for given in batches[k * STEPS : (k + 1) * STEPS]:
                    step(*given)
                best[which] = min(best[which], (time.perf_counter() - start) / STEPS)
        return best[0], best[1], outcome(torch.compile.explain(runs[1][2]))


def outcome(text: str) -> str:
    """The pieces that were replayed, and the first reason of those that were not."""
    replayed = sum(int(n) > 0 for n in re.findall(r"replayed (\d+) times", text))
    reasons = re.findall(r"runs as ordinary Python: (.*)", text)
    words = f"{replayed} replayed"
    return f"{words}; {reasons[0].strip()[:100]}" if reasons else words


def main(names: list[str]) -> None:
    ratios, replayed = [], 0
    for name in names or PROGRAMS:
        try:
            eager, compiled, words = measured(name)
        except Exception as error:
            print(f"{name:45} {type(error).__name__}: {str(error)[:90]}", flush=True)
            continue
        ratios.append(compiled / eager)
        replayed += not words.startswith("0 ")
        times = f"{eager * 1e3:8.3f} {compiled * 1e3:8.3f} {compiled / eager:6.2f}"
        print(f"{name:45} {times}  {words}", flush=True)
    if ratios:
        count = len(names or PROGRAMS)
        print(f"{replayed} of {count} replayed; median ratio {statistics.median(ratios):.2f}")
        print(f"slower than 1.05: {sum(r > 1.05 for r in ratios)}")


if __name__ == "__main__":
    main(sys.argv[1:])
