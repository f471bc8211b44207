"""`live()`: the loss and the gradients of a loop as a picture that is drawn again as it runs.

>>> import io
>>> import tapegrad as torch
>>> w = torch.tensor([3.0], requires_grad=True)
>>> with torch.diagnose.live(file=io.StringIO()) as picture:
...     for step in range(3):
...         loss = (w * w).sum()
...         loss.backward()
...         w.data -= 0.1 * w.grad
...         w.grad = None
>>> [round(value, 4) for value in picture.losses], [round(g, 4) for g in picture.gradients]
([9.0, 5.76, 3.6864], [6.0, 4.8, 3.84])

Every `backward()` inside the block is a point: the value of the loss, and the norm of the gradients
that it left. Loops with and without an optimizer are seen alike. In a terminal the picture is drawn
in place, below what the program prints; in a notebook it is one output that changes; in a file or a
pipe it is printed once, at the end. It holds numbers only and never raises into the training.
"""

from __future__ import annotations

import html
import math
import sys
import time
from typing import Any

from ..core.array_kind import host
from ..core.base import TensorBase
from ..core.is_array import is_array
from ..errors import evidence
from ..utils import progress as terminal
from . import chart, words
from ._doctor.watch import WATCH, BackwardCall, Listener

EVERY, EVERY_IN_NOTEBOOK = 0.1, 0.5  # seconds between two pictures
HEIGHT = 5  # rows of a curve
WIDEST = 78
LAYERS = 8  # parameters that are listed, those with the largest gradients
MOST = 100_000  # points; every second one goes when there are more


class Live(Listener):
    """The data that `live` plots: `losses` and `gradients`, one number for each backward pass."""

    def __init__(self, file: Any = None) -> None:
        self.losses: list[float] = []
        self.gradients: list[float] = []
        self.layers: dict[str, float] = {}  # by parameter, of the last pass
        self.values: dict[str, float] = {}  # what `log` was given
        self.passes = 0
        self.problems: list[str] = []
        self._file = sys.stderr if file is None else file
        self._kind = terminal.display_kind(self._file)
        self._screen: Screen | None = None
        self._handle: Any = None  # of a notebook's output
        self._names: dict[int, str] = {}
        self._started = self._next = time.perf_counter()
        self._seconds = 0.0

    # ------------------------------------------------------------------ in and out

    def __enter__(self) -> Live:
        self._started = time.perf_counter()
        WATCH.add([self], self.problems)
        if self._kind == "terminal":
            self._screen = Screen(self._file)
        return self

    def __exit__(self, *error: object) -> None:
        WATCH.drop([self])
        self._seconds = time.perf_counter() - self._started
        self._draw(last=True)
        if self._screen is not None:
            self._screen.close()
            self._screen = None

    def log(self, **values: Any) -> None:
        """Show more numbers: `picture.log(accuracy=0.9)`."""
        for name, value in values.items():
            self.values[name] = terminal.as_float(value)

    # ------------------------------------------------------------------ what it hears

    def before_backward(self, call: BackwardCall) -> None:
        values = [t._array for t in call.roots if is_array(t._array) and t._array.size == 1]
        self.losses.append(sum(float(host(a).reshape(-1)[0]) for a in values))
        call.graph  # noqa: B018  # walked now, for the pass frees it

    def after_backward(self, call: BackwardCall) -> None:
        self.passes += 1
        squares: dict[str, float] = {}
        for node in call.graph.leaves:
            leaf = node.tensor()
            grad = None if leaf is None else leaf._gradient
            if grad is None or not isinstance(grad, TensorBase) or not is_array(grad._array):
                continue
            flat = host(grad._array).reshape(-1).astype("float64")
            squares[self._name(leaf)] = float(flat @ flat)
        self.layers = {name: math.sqrt(s) for name, s in squares.items()}
        self.gradients.append(math.sqrt(sum(squares.values())))
        if len(self.losses) > MOST:
            self.losses, self.gradients = self.losses[::2], self.gradients[::2]
        self._seconds = time.perf_counter() - self._started
        if self._kind != "none" and time.perf_counter() >= self._next:
            self._draw()

    def _name(self, leaf: Any) -> str:
        if id(leaf) not in self._names:
            for name, t in evidence.tensors_held():
                self._names.setdefault(id(t), name)
        return self._names.setdefault(id(leaf), f"a tensor of shape {tuple(leaf.shape)}")

    # ------------------------------------------------------------------ the picture

    def _draw(self, last: bool = False) -> None:
        start = time.perf_counter()
        if self._kind == "notebook":
            self._show_in_cell()
        elif self._screen is not None:
            width = min(terminal.width_of_terminal(self._file) - 1, WIDEST)
            plain = not terminal.can_write(self._file, "⣿│█")
            self._screen.put(self.lines(width, plain))
        elif last:
            text = "\n".join(self.lines(WIDEST, not terminal.can_write(self._file, "⣿│█")))
            terminal.quietly(lambda: print(text, file=self._file), None)
        # Drawing takes no more than a tenth of the time.
        every = EVERY_IN_NOTEBOOK if self._kind == "notebook" else EVERY
        now = time.perf_counter()
        self._next = now + max(every, 9 * (now - start))

    def _show_in_cell(self) -> None:
        from IPython.display import display  # a notebook has it

        if self._handle is None:
            self._handle = display(self, display_id=True)
        else:
            self._handle.update(self)

    def lines(self, width: int = WIDEST, ascii_only: bool = False) -> list[str]:
        """The picture as text."""
        if not self.losses:
            return ["no backward() yet"]
        told = ["1 pass" if self.passes == 1 else f"{self.passes} passes"]
        told.append(terminal.duration(self._seconds))
        told += [f"{name} {words.digits(value)}" for name, value in self.values.items()]
        lines = [words.clipped("  ".join(told), width)]
        for name, curve in (("loss", self.losses), ("gradient norm", self.gradients)):
            lines.append(headline(name, curve))
            lines += chart.rows(curve, width, HEIGHT, ascii_only)
        return lines + self._bars(width, ascii_only)

    def _bars(self, width: int, ascii_only: bool) -> list[str]:
        """The parameters with the largest gradients, in the order in which they are held."""
        most = sorted(self.layers, key=lambda name: -self.layers[name])[:LAYERS]
        shown = [name for name in self._names.values() if name in most]
        high = max([self.layers[name] for name in shown], default=0.0)
        label = min(max([len(name) for name in shown], default=0), 28)
        room = width - label - 12
        full = "#" if ascii_only else "█"
        lines = []
        for name in shown:
            share = self.layers[name] / high if high and math.isfinite(high) else 0.0
            bar = full * round(room * share) if math.isfinite(share) else ""
            size = words.digits(self.layers[name])
            lines.append(f"{words.clipped(name, label):<{label}} {size:>9} {bar}".rstrip())
        left_out = len(self.layers) - len(shown)
        return lines + [f"and {left_out} smaller"] * bool(left_out)

    def _repr_html_(self) -> str:
        told = html.escape("   ".join(self.lines()[:1]))
        curves = [(headline("loss", self.losses), self.losses)] * bool(self.losses)
        curves += [(headline("gradient norm", self.gradients), self.gradients)] * bool(self.losses)
        drawn = "".join(chart.svg(values, html.escape(title)) for title, values in curves)
        style = "font:12px system-ui, sans-serif; margin:2px 0"
        bars = "".join(
            f"<div style='{style}; white-space:pre'>{html.escape(line)}</div>"
            for line in self._bars(60, False)
        ).replace("system-ui, sans-serif", "ui-monospace, monospace")
        return f"<div><div style='{style}'>{told}</div>{drawn}{bars}</div>"

    def data(self) -> dict[str, Any]:
        """Everything as plain values."""
        return {
            "passes": self.passes,
            "losses": list(self.losses),
            "gradients": list(self.gradients),
            "layers": dict(self.layers),
            "values": dict(self.values),
        }

    def __repr__(self) -> str:
        return "\n".join(self.lines())


def headline(name: str, curve: list[float]) -> str:
    finite = [v for v in curve if math.isfinite(v)]
    if not finite:
        return f"{name} {words.digits(curve[-1]) if curve else '-'}"
    first, least, last = (words.digits(v) for v in (finite[0], min(finite), curve[-1]))
    scale = ", logarithmic" if chart.Scale(curve).is_log else ""
    return f"{name} {last}  (first {first}, least {least}{scale})"


class Screen:
    """The last lines of a terminal, drawn again in place; what a program prints goes above."""

    def __init__(self, file: Any) -> None:
        self.file = file
        self.drawn = 0  # lines
        self.broken = False  # the program's last line has no end yet
        self.others = [(name, getattr(sys, name)) for name in ("stdout", "stderr")]
        for name, real in self.others:
            if terminal.display_kind(real) == "terminal":
                setattr(sys, name, Above(self, real))

    def put(self, lines: list[str]) -> None:
        self.erase()
        start = "\n" if self.broken else ""
        self.broken = False
        self.say(start + "\n".join(lines) + "\n")
        self.drawn = len(lines)

    def erase(self) -> None:
        if self.drawn:
            self.say(f"\x1b[{self.drawn}A\x1b[J")  # up, and clear to the end
            self.drawn = 0

    def say(self, text: str) -> None:
        def write() -> None:
            self.file.write(text)
            self.file.flush()

        terminal.quietly(write, None)

    def close(self) -> None:
        for name, real in self.others:
            if isinstance(getattr(sys, name), Above):
                setattr(sys, name, real)


class Above:
    """A stream whose text stands above the picture."""

    def __init__(self, screen: Screen, real: Any) -> None:
        self._screen, self._real = screen, real

    def write(self, text: str) -> Any:
        if text:
            self._screen.erase()
            self._screen.broken = not text.endswith("\n")
        return self._real.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def live(file: Any = None) -> Live:
    """Show the loss and the gradients of the loop in the block while it runs.

    `file` is where the picture goes, standard error by default.
    """
    return Live(file)
