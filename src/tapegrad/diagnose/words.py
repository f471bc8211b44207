"""How the tools of diagnose print: sizes, numbers, places, tables, each in one way."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from ..core.base import TensorBase
from ..core.transforms.batched import batch_of, is_batched
from ..errors import evidence
from ..errors.evidence import Place

WIDTH = 100


def as_bytes(count: float) -> str:
    """A size as people read it.

    >>> as_bytes(512), as_bytes(1536), as_bytes(3 * 1024**2)
    ('512 B', '1.5 KiB', '3.0 MiB')
    """
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024 or unit == "GiB":
            break
        size /= 1024
    return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"


def digits(value: Any) -> str:
    """Four significant digits; '-' for what is not known.

    >>> digits(0.123456), digits(12), digits(None), digits(1e-12)
    ('0.1235', '12', '-', '1e-12')
    """
    if value is None:
        return "-"
    if isinstance(value, complex):
        return f"{value:.4g}"
    return str(value) if isinstance(value, int) else f"{value:.4g}"


def counted(count: int, word: str) -> str:
    """`1 node`, `2 nodes`."""
    return f"{count} {word}" + ("" if count == 1 else "s")


def shown(where: Place | None, room: int = 72) -> str:
    """`train.py:12  loss = ...`, the file without its folder; '(unknown line)' if there is none."""
    if where is None:
        return "(unknown line)"
    head = evidence.short_spot(where["file"], where["line"])
    return clipped(f"{head}  {where['text']}".rstrip(), room)


def clipped(text: str, room: int) -> str:
    return text if len(text) <= room else text[: max(room - 3, 0)] + "..."


def table(rows: Sequence[Sequence[str]], right: Sequence[int] = (), indent: int = 2) -> list[str]:
    """Rows as aligned lines; the columns in `right` are aligned to the right.

    >>> print("\\n".join(table([["a", "1"], ["long", "22"]], right=[1])))
      a      1
      long  22
    """
    if not rows:
        return []
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(widths[i]) if i in right else cell.ljust(widths[i])
            for i, cell in enumerate(row)
        ]
        lines.append(" " * indent + "  ".join(cells).rstrip())
    return lines


def paragraph(text: str, indent: str = "") -> str:
    """Text filled to the width; paths and code are never broken."""
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def name_of(t: Any) -> str | None:
    """The name of a tensor in the user's running functions; None if they do not hold it."""
    return next((name for name, held in tensors_held() if held is t), None)


def tensors_held() -> Iterator[tuple[str, Any]]:
    """`evidence.tensors_held` without the names that no user gave (pytest's, for one)."""
    for name, t in evidence.tensors_held():
        if name[0].isalpha() or name[0] == "_":
            yield name, t


def is_lazy(t: Any) -> bool:
    """Whether a parameter, or a buffer, still waits for its layer's first input."""
    nn = sys.modules.get("tapegrad.nn.parameter")
    return nn is not None and nn.is_lazy(t)  # type: ignore[no-any-return]


def behind(t: Any) -> Any:
    """The tensor that has values and a history: inside of vmap, that of all entries together."""
    while is_batched(t):
        t = batch_of(t).physical
    return t


def tensors_of(value: Any, function: str, argument: str) -> list[Any]:
    """One tensor or several as a list; a TypeError that names the argument for anything else."""
    found = list(value) if isinstance(value, (list, tuple)) else [value]
    if not found or not all(isinstance(t, TensorBase) for t in found):
        wrong = next((t for t in found if not isinstance(t, TensorBase)), value)
        kind = "an empty list" if not found else type(wrong).__name__
        raise TypeError(f"{function}(): argument '{argument}' must be a Tensor, not {kind}")
    return found
