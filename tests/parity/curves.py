"""For how many steps the examples lose the same on tapegrad and on PyTorch.

`python tests/parity/curves.py` runs every example in full, three times: on tapegrad, on PyTorch,
and on PyTorch with every parameter moved by at most one rounding before the first step. Two runs
part where one rounding decides (which of two equal pixels is the larger, which action is drawn);
the third run shows where that is for PyTorch itself. The table is the one in examples/README.md.
"""

from __future__ import annotations

import pathlib
import runpy
import sys
from typing import Any

import torch

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from example_runs import ON_TAPEGRAD, ON_TORCH, SCRIPTS, run

TOLERANCE = 1e-4
ON_NUDGED_TORCH = [__file__, "--nudged"]


def agreement(losses: list[float], others: list[float]) -> int:
    """The number of steps before the first difference above the tolerance (relative above 1)."""
    for step, (a, b) in enumerate(zip(losses, others, strict=True)):
        if abs(a - b) > TOLERANCE * max(1.0, abs(b)):
            return step
    return len(losses)


def main() -> None:
    print("| Example | Steps | tapegrad | PyTorch, nudged |")
    print("|---|---|---|---|")
    for name in SCRIPTS:
        theirs = run(name, on=ON_TORCH).curves["loss"]
        counts = []
        for library in (ON_TAPEGRAD, ON_NUDGED_TORCH):
            count = agreement(run(name, on=library).curves["loss"], theirs)
            counts.append("all" if count == len(theirs) else str(count))
        print(f"| {name}.py | {len(theirs)} | {' | '.join(counts)} |", flush=True)


def run_nudged(script: str) -> None:
    """Run a script whose optimizer finds its parameters moved by -1, 0 or 1 roundings."""
    begin = torch.optim.Optimizer.__init__

    def nudged(self: torch.optim.Optimizer, params: Any, defaults: dict[str, Any]) -> None:
        params = list(params)
        generator = torch.Generator().manual_seed(1)
        with torch.no_grad():
            for p in params:
                roundings = torch.randint(-1, 2, p.shape, generator=generator)
                p.mul_(1 + torch.finfo(p.dtype).eps * roundings)
        begin(self, params, defaults)

    torch.optim.Optimizer.__init__ = nudged
    sys.path.insert(0, str(pathlib.Path(script).parent))
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--nudged"]:
        sys.argv = sys.argv[2:]
        run_nudged(sys.argv[0])
    else:
        main()
