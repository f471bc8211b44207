"""Curves: dots of braille in a terminal, lines in SVG.

>>> print("\\n".join(rows([4.0, 2.0, 1.0, 0.5], 10, 2, ascii_only=True)))
  4 |**
0.5 |  ***

A curve whose values span more than two orders of magnitude is drawn on a logarithmic scale.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

LOGARITHMIC = 100.0  # largest to smallest, from which on the scale is
DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))  # of a braille cell, by column


def number(value: float) -> str:
    return f"{value:.3g}"


class Scale:
    """From values to 0 … 1, by their range."""

    def __init__(self, values: Sequence[float]) -> None:
        known = [v for v in values if math.isfinite(v)] or [0.0]
        self.low, self.high = min(known), max(known)
        self.is_log = self.low > 0 and self.high / self.low > LOGARITHMIC

    def of(self, value: float) -> float:
        if self.high == self.low:
            return 0.5
        if self.is_log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)


def thinned(values: Sequence[float], count: int) -> list[tuple[float, float]]:
    """At most `count` stretches of the values, the least and the greatest of each."""
    finite = [v for v in values if math.isfinite(v)]
    count = min(count, len(finite))
    edges = [i * len(finite) // max(count, 1) for i in range(count + 1)]
    parts = [finite[a:b] for a, b in zip(edges, edges[1:], strict=False)]
    return [(min(part), max(part)) for part in parts]


def rows(values: Sequence[float], width: int, height: int, ascii_only: bool = False) -> list[str]:
    """A curve in `width` columns and `height` rows, with its range at the left."""
    scale = Scale(values)
    label = max(len(number(scale.low)), len(number(scale.high)))
    room = max(width - label - 2, 2)
    across, down = (1, 1) if ascii_only else (2, 4)
    cells = [[0] * room for _ in range(height)]
    parts = thinned(values, room * across)
    last = height * down - 1
    before: int | None = None
    for x in range(room * across if parts else 0):
        low, high = parts[x * len(parts) // (room * across)]
        ends = [round((1 - scale.of(v)) * last) for v in (high, low)]
        if before is not None:  # no gaps in a steep curve
            ends = [min(ends[0], before + 1), max(ends[1], before - 1)]
        before = ends[1]
        for y in range(max(ends[0], 0), min(ends[1], last) + 1):
            cells[y // down][x // across] |= 1 if ascii_only else DOTS[x % 2][y % 4]
    lines = []
    for i, row in enumerate(cells):
        name = number(scale.high) if i == 0 else number(scale.low) if i == height - 1 else ""
        text = "".join(("*" if c else " ") if ascii_only else chr(0x2800 + c) for c in row)
        bar = "|" if ascii_only else "│"
        lines.append(f"{name:>{label}} {bar}{text.replace(chr(0x2800), ' ')}".rstrip())
    return lines


def svg(values: Sequence[float], title: str, width: int = 420, height: int = 150) -> str:
    """A curve as an SVG element: the colours are those of the page that it is on."""
    scale = Scale(values)
    left, top, right, bottom = 56, 26, width - 10, height - 12
    points = []
    parts = thinned(values, right - left)
    for i, (low, high) in enumerate(parts):
        x = left + (right - left) * (i / max(len(parts) - 1, 1))
        ends = (high, low) if high != low else (high,)
        points += [f"{x:.1f},{bottom - (bottom - top) * scale.of(v):.1f}" for v in ends]
    marks = ((top + 4, scale.high), (bottom, scale.low))
    labels = "".join(
        f'<text x="{left - 6}" y="{y}" text-anchor="end" fill="currentColor">{number(v)}</text>'
        for y, v in marks
    )
    return (
        f'<svg viewBox="0 0 {width} {height}" width="{width}" style="max-width:100%" '
        'font-family="system-ui, sans-serif" font-size="11" role="img">'
        f'<text x="{left}" y="14" fill="currentColor" font-weight="600">{title}</text>'
        f'<path d="M{left} {top}V{bottom}H{right}" fill="none" stroke="currentColor" '
        f'opacity=".35"/>{labels}'
        f'<polyline points="{" ".join(points)}" fill="none" stroke="#3b82f6" stroke-width="1.6"/>'
        "</svg>"
    )
