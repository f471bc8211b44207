"""What every example needs around its training loop: the command line and a progress bar."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator

WIDTH = 24  # of the bar, in characters
LINES = 10  # losses printed in a whole run


def arguments(doc: str, steps: int) -> argparse.Namespace:
    """Read --steps, --seed and --losses; `doc` is the script's own docstring."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--steps", type=int, default=steps, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    parser.add_argument("--losses", metavar="FILE", help="write the loss of every step as JSON")
    return parser.parse_args()


class Progress:
    """Counts the steps, shows how far they are, and remembers what was logged.

    progress = Progress(args)
    for _ in progress:
        ...
        progress.log(loss.item())
    """

    def __init__(self, args: argparse.Namespace) -> None:
        self.steps: int = args.steps
        self.file: str | None = args.losses
        self.curves: dict[str, list[float]] = {}
        self.terminal = sys.stderr.isatty()

    def __iter__(self) -> Iterator[int]:
        self.started = time.perf_counter()
        for step in range(1, self.steps + 1):
            self.step = step
            yield step
        self._draw("")
        if self.file:
            with open(self.file, "w", encoding="utf-8") as file:
                json.dump(self.curves, file)

    def log(self, loss: float, **others: float) -> None:
        """Remember the loss of this step, and any other number worth a curve."""
        named = {"loss": loss, **others}
        for name, value in named.items():
            self.curves.setdefault(name, []).append(value)
        text = "  ".join(f"{name} {value:.4g}" for name, value in named.items())
        if self.step == 1 or self.step % max(1, self.steps // LINES) == 0:
            self._draw("")
            print(f"step {self.step:5d}  {text}", flush=True)
        self._draw(self._bar(text))

    def _bar(self, text: str) -> str:
        seconds = time.perf_counter() - self.started
        rate = self.step / seconds
        left = (self.steps - self.step) / rate
        full = WIDTH * self.step // self.steps
        bar = "█" * full + "·" * (WIDTH - full)
        return f"{bar} {self.step}/{self.steps}  {text}  {rate:.0f} steps/s  {left:.0f} s left"

    def _draw(self, line: str) -> None:
        if self.terminal:
            # To the start of the line, and clear what was there.
            print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)
