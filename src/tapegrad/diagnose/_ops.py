"""`trace_ops()`: every op as it runs, with shapes, time and the user's line. TAPEGRAD_TRACE=1 does
it for a whole program.

>>> import io
>>> import tapegrad as torch
>>> with torch.diagnose.trace_ops(io.StringIO()) as ops:
...     y = torch.ones(2, 3) @ torch.ones(3, 4)
>>> [(op.name, op.given, op.made) for op in ops.seen]
[('ones', '', '(2, 3)'), ('ones', '', '(3, 4)'), ('mm', '(2, 3) (3, 4)', '(2, 4)')]
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import Any, TextIO

from ..core.base import TensorBase
from ..errors import evidence
from ..utils import _pytree as pytree
from ..utils._python_dispatch import TorchDispatchMode

MOST = 10_000  # that are kept; all are printed


@dataclass
class Ran:
    """One op."""

    name: str
    given: str  # the shapes of its tensors
    made: str  # of its results
    seconds: float
    where: evidence.Place | None

    def __str__(self) -> str:
        at = ""
        if self.where is not None:
            at = evidence.short_spot(self.where["file"], self.where["line"])
        shapes = f"{self.given} -> {self.made}".strip()
        return f"{self.seconds * 1e6:9.1f} µs  {self.name:<28} {shapes:<40} {at}".rstrip()


class trace_ops(TorchDispatchMode):
    """Print each op of a block to a file, standard error by default: forward, backward, optimizer.

    The line is the one that is running: in a backward pass that of `backward()`.
    """

    def __init__(self, file: TextIO | None = None) -> None:
        super().__init__()
        self.file = file
        self.seen: list[Ran] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        start = time.perf_counter()
        out = func(*args, **kwargs)
        seconds = time.perf_counter() - start
        name = str(func).rpartition(".")[0].removeprefix("aten.").removeprefix("tapegrad.")
        ran = Ran(name, shapes((args, kwargs)), shapes(out), seconds, evidence.here())
        if len(self.seen) < MOST:
            self.seen.append(ran)
        print(ran, file=self.file or sys.stderr)
        return out


def shapes(value: Any) -> str:
    found = [t for t in pytree.tree_flatten(value)[0] if isinstance(t, TensorBase)]
    return " ".join([str(tuple(t.shape)) for t in found])
