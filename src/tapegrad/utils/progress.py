"""A progress display for training loops: bar, loss, rate, time left, gradient norm.

    from tapegrad.utils.progress import progress

    bar = progress(loader, desc="epoch 1")
    for x, y in bar:
        ...
        bar.update(loss=loss, model=model)

It holds numbers only, never a tensor, so that no graph lives on because of it. Where there is no
terminal it is silent but for one line at the end. It never raises into the training.
"""

from __future__ import annotations

import math
import os
import sys
import time
import unicodedata
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

__all__ = ["Progress", "progress"]

T = TypeVar("T")
S = TypeVar("S")

WIDEST, NARROWEST = 24, 5  # of the bar itself
EVERY = 0.1  # seconds between two drawings
EVERY_IN_NOTEBOOK = 0.5
DEFAULT_WIDTH = 80
SMOOTHING = 0.1  # how much the last step counts for the rate

# Bars inside bars, outermost first; weakly, so that a forgotten one is not in the way for ever.
_stack: list[weakref.ref[Progress]] = []


def progress(
    iterable: Iterable[Any] | None = None,
    total: int | None = None,
    desc: str | None = None,
    file: Any = None,
    **shown: Any,
) -> Progress:
    """Show how far a loop has come.

    `shown` are values to show from the start: numbers, or functions that give them, which are asked
    whenever the display is drawn (`lr=lambda: optimizer.param_groups[0]["lr"]`). Without an
    iterable, every `update` counts as one step.

    >>> import io
    >>> out = io.StringIO()
    >>> for i in (bar := progress(range(3), desc="train", file=out)):
    ...     bar.update(loss=1 / (i + 1))
    >>> out.getvalue().split(" in ")[0], out.getvalue().split("  ")[-1]
    ('train: 3 steps', 'loss 0.3333\\n')
    """
    return Progress(iterable, total, desc, file, shown)


class Progress:
    """The result of `progress`: iterate over it, or use it in a `with` and call `update`.

    >>> import io
    >>> list(Progress([1, 2, 3], file=io.StringIO()))
    [1, 2, 3]
    """

    def __init__(
        self,
        iterable: Iterable[Any] | None = None,
        total: int | None = None,
        desc: str | None = None,
        file: Any = None,
        shown: dict[str, Any] | None = None,
    ) -> None:
        self.iterable = iterable
        self.total = length(iterable) if total is None else total
        self.desc = desc
        self.file = sys.stderr if file is None else file
        self.values: dict[str, float | str] = {}
        self.count = 0
        self._functions: dict[str, Callable[[], Any]] = {}
        self._kind = display_kind(self.file)
        self._drawn = ""  # what stands in the terminal's line now
        self._open = False
        self._norm_at: float
        self._begin()
        self._note(shown or {})

    # ------------------------------------------------------------------ counting

    def __iter__(self) -> Iterator[Any]:
        if self.iterable is None:
            raise TypeError("this progress has nothing to iterate over: call update()")
        self._begin()
        self._enter()
        done = False
        try:
            for item in self.iterable:
                yield item
                self._advance(1)
            done = True
        finally:
            # Also after `break` and when the loop's body raised: the line is left complete.
            self.close(done)

    def __len__(self) -> int:
        if self.total is None:
            raise TypeError("the length of this progress is not known")
        return self.total

    def __bool__(self) -> bool:
        return True  # whatever its length

    def __enter__(self) -> Progress:
        self._enter()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.close(kind is None)

    def set(self, **values: Any) -> None:
        """Show these values from now on. Of a tensor with one element its number is kept."""
        self._note(values)
        if self._due():
            self._draw()

    def update(self, n: int = 1, *, model: Any = None, **values: Any) -> None:
        """Show values, and the norm of the gradients of `model` (or of an optimizer, or a list).

        Without an iterable this also counts `n` steps.
        """
        self._note(values)
        due = self._due()
        if model is not None and (time.perf_counter() >= self._norm_at or self._is_last(n)):
            self._norm_at = time.perf_counter() + EVERY
            self._note({"grad": quietly(lambda: gradient_norm(model), math.nan)})
        if self.iterable is None:
            if self.total is None or self.count < self.total:
                self._enter()
            self._advance(n)
            if self.total is not None and self.count >= self.total:
                self.close()
        elif due:
            self._draw()

    def print(self, *words: Any) -> None:
        """Print a line above the bar."""
        self._wipe()
        print(*words, flush=True)
        self._draw()

    def close(self, done: bool = True) -> None:
        """End the display: the outermost bar leaves one line behind, those inside leave none."""
        if not self._open:
            return
        self._open = False
        outer = around(self)
        _stack[:] = [weakref.ref(bar) for bar in outer]
        if outer:
            self._wipe()
            return
        self._finish(done)

    # ------------------------------------------------------------------ inside

    def _begin(self) -> None:
        self.count = 0
        self._started = self._last = time.perf_counter()
        self._next = 0.0  # when to draw again
        self._norm_at = 0.0  # when to compute a norm again
        self._pace: float | None = None  # seconds for one step, of late

    def _enter(self) -> None:
        if not self._open:
            self._open = True
            _stack.append(weakref.ref(self))
            self._draw()

    def _advance(self, n: int) -> None:
        now = time.perf_counter()
        if n > 0:
            pace = (now - self._last) / n
            old = self._pace
            self._pace = pace if old is None else old + SMOOTHING * (pace - old)
        self._last = now
        self.count += n
        if self._due(now):
            self._draw()

    def _is_last(self, n: int) -> bool:
        return self.total is not None and self.count + n >= self.total

    def _note(self, values: dict[str, Any]) -> None:
        for name, value in values.items():
            if callable(value) and not hasattr(value, "item"):
                self._functions[name] = value
            else:
                self.values[name] = number_or_text(value)

    def _due(self, now: float | None = None) -> bool:
        if self._kind == "none" or not self._open:
            return False
        return (time.perf_counter() if now is None else now) >= self._next

    # ------------------------------------------------------------------ drawing

    def _draw(self) -> None:
        if self._kind == "none" or not self._open:
            return
        every = EVERY_IN_NOTEBOOK if self._kind == "notebook" else EVERY
        self._next = time.perf_counter() + every
        self._put(quietly(lambda: self.line(width_of_terminal(self.file) - 1), ""))

    def line(self, room: int) -> str:
        """The display in at most `room` columns."""
        for name, function in self._functions.items():
            self.values[name] = number_or_text(quietly(function, math.nan))
        outer = "".join(bar.head() + " > " for bar in around(self))
        numbers = [f"{name} {value_text(value)}" for name, value in self.values.items()]
        rate, left = self.rate(), self.left()
        ends = [f"{rate}"] * bool(rate) + [f"{left} left"] * bool(left)
        head = outer + self.head()
        # What matters least goes first: the time left, the last numbers, the rate, the outer bars.
        while True:
            text = "  ".join([head, *numbers, *ends])
            spare = room - columns(text) - 1
            if spare >= NARROWEST or not (ends or len(numbers) > 1 or outer):
                break
            if ends:
                ends.pop()
            elif len(numbers) > 1:
                numbers.pop()
            else:
                head, outer = self.head(), ""
        if self.total and spare >= NARROWEST:
            text = f"{self.bar(min(spare, WIDEST))} {text}"
        return clipped(text, room)

    def head(self) -> str:
        """`epoch 1 3/10`."""
        steps = str(self.count) if self.total is None else f"{self.count}/{self.total}"
        return f"{self.desc} {steps}" if self.desc else steps

    def bar(self, width: int) -> str:
        full = min(width, width * self.count // max(1, self.total or 1))
        done, rest = ("█", "·") if can_write(self.file, "█·") else ("#", ".")
        return done * full + rest * (width - full)

    def rate(self) -> str:
        if not self._pace:
            return ""
        per_second = 1 / self._pace
        return f"{per_second:.3g}/s" if per_second >= 1 else f"{self._pace:.3g} s/step"

    def left(self) -> str:
        if self.total is None or not self._pace or self.count >= self.total:
            return ""
        return duration((self.total - self.count) * self._pace)

    def _put(self, text: str) -> None:
        """Write over the line that stands there."""
        # Spaces, not an escape sequence: this works in every terminal and notebook.
        rest = " " * max(0, columns(self._shown()) - columns(text))
        if self._say(f"\r{text}{rest}" + ("\r" if not text else "")):
            for bar in active():
                bar._drawn = ""
            self._drawn = text

    def _shown(self) -> str:
        """The text that this bar, or one around or inside it, has left in the line."""
        return max([self._drawn, *[bar._drawn for bar in active()]], key=columns)

    def _wipe(self) -> None:
        if self._kind != "none" and self._shown():
            self._put("")

    def _say(self, text: str) -> bool:
        try:
            self.file.write(text)
            self.file.flush()
            return True
        except Exception:  # a closed file, a broken pipe: go on without a display
            self._kind = "none"
            return False

    def _finish(self, done: bool) -> None:
        seconds = duration(time.perf_counter() - self._started)
        if self._kind == "none":
            self._say(quietly(lambda: self._summary(seconds, done), "") + "\n")
            return
        room = width_of_terminal(self.file) - 1
        self._put(quietly(lambda: self.line(room), ""))
        self._say("\n")
        self._drawn = ""

    def _summary(self, seconds: str, done: bool) -> str:
        name = f"{self.desc}: " if self.desc else ""
        what = "step" if self.count == 1 else "steps"
        stopped = "" if done or self.total is None else f" of {self.total}, stopped"
        for key, function in self._functions.items():
            self.values[key] = number_or_text(quietly(function, math.nan))
        numbers = [f"{key} {value_text(value)}" for key, value in self.values.items()]
        return "  ".join([f"{name}{self.count} {what}{stopped} in {seconds}", *numbers])


def active() -> list[Progress]:
    """The bars that are open, outermost first."""
    return [bar for bar in (ref() for ref in _stack) if bar is not None]


def around(bar: Progress) -> list[Progress]:
    """The bars that were open before this one."""
    found = active()
    return found[: found.index(bar)] if bar in found else []


# ---------------------------------------------------------------------- values


def number_or_text(value: Any) -> float | str:
    """A number or a short text, without holding on to anything."""
    if isinstance(value, str):
        return value
    number = quietly(lambda: as_float(value), None)
    return clipped(quietly(lambda: str(value), "?"), 16) if number is None else number


def as_float(value: Any) -> float:
    array = getattr(value, "_array", None)  # a tensor's values, past its history
    if array is not None:
        return float(array.astype("float64").mean())
    if hasattr(value, "detach"):
        value = value.detach()
    return float(value.mean() if getattr(value, "ndim", 0) else value)


def gradient_norm(source: Any) -> float:
    """The norm of all gradients of a module, an optimizer or a list of tensors."""
    if hasattr(source, "param_groups"):
        tensors = [p for group in source.param_groups for p in group["params"]]
    elif hasattr(source, "parameters"):
        tensors = list(source.parameters())
    else:
        tensors = list(source)
    total = 0.0
    for p in tensors:
        if p.grad is not None:
            flat = p.grad._array.reshape(-1).astype("float64")
            total += float(flat @ flat)
    return math.sqrt(total)


def value_text(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.4g}"


def duration(seconds: float) -> str:
    """`4.2 s`, `1:05`, `2:03:04`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def quietly(function: Callable[[], T], otherwise: S) -> T | S:
    """The result of a function, or a default if it fails: a display is never worth an error."""
    try:
        return function()
    except Exception:
        return otherwise


# ---------------------------------------------------------------------- terminals


def length(iterable: Any) -> int | None:
    return quietly(lambda: len(iterable), None)


def display_kind(file: Any) -> str:
    """Where the display goes: "terminal", "notebook", or "none" for files and pipes."""
    if type(file).__module__.split(".")[0] in ("ipykernel", "pyodide_kernel"):
        return "notebook"
    return "terminal" if quietly(lambda: bool(file.isatty()), False) else "none"


def width_of_terminal(file: Any) -> int:
    told = os.environ.get("COLUMNS", "")
    if told.isdigit() and int(told) > 0:
        return int(told)
    width = quietly(lambda: os.get_terminal_size(file.fileno()).columns, 0)
    return width or DEFAULT_WIDTH


def can_write(file: Any, text: str) -> bool:
    encoding = getattr(file, "encoding", None) or "ascii"
    return quietly(lambda: bool(text.encode(encoding)), False)


def columns(text: str) -> int:
    """How many columns a text takes: East Asian characters take two."""
    if text.isascii():
        return len(text)
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def clipped(text: str, room: int) -> str:
    """The beginning of a text that fits."""
    while columns(text) > max(room, 0):
        text = text[:-1]
    return text
