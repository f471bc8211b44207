"""The table of docs/benchmarks.md as a picture; {benchmarks} of run_directive.py shows it."""

from __future__ import annotations

import html
import pathlib

PAGE = pathlib.Path(__file__).resolve().parent.parent / "benchmarks.md"
LEFT, RIGHT, STEP, TOP = 270, 690, 17, 30
MOST = 1.5  # of PyTorch's time; longer bars end here, with their number


def rows(text: str) -> list[tuple[str, float, float | None]]:
    """(what, share of PyTorch's time, the same compiled) of every row."""
    found = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and len(cells) == 4 and cells[1][:1].isdigit():
            compiled = float(cells[3].removeprefix("< ")) if cells[3] else None
            found.append((cells[0].strip("`"), float(cells[1]), compiled))
    return found


def place(share: float) -> float:
    return LEFT + (RIGHT - LEFT) * min(share, MOST) / MOST


def picture(found: list[tuple[str, float, float | None]]) -> str:
    height = TOP + STEP * len(found) + 10
    one = place(1.0)
    parts = [
        f'<text x="{one}" y="12" text-anchor="middle">PyTorch = 1</text>',
        f'<path d="M{one} 18V{height - 4}" stroke="currentColor" opacity=".5"/>',
    ]
    for i, (name, eager, compiled) in enumerate(found):
        y = TOP + i * STEP
        colour = "#3b82f6" if eager <= 1 else "#d97706"
        width = place(eager) - LEFT
        parts.append(
            f'<text x="{LEFT - 6}" y="{y + 9}" text-anchor="end">{html.escape(name)}</text>'
            f'<rect x="{LEFT}" y="{y}" width="{width:.1f}" height="10" rx="2" fill="{colour}"/>'
            f'<text x="{place(eager) + 4:.1f}" y="{y + 9}">{eager:g}</text>'
        )
        if compiled is not None and compiled <= MOST:
            at = f'cx="{place(compiled):.1f}" cy="{y + 5}"'
            parts.append(f'<circle {at} r="3.5" fill="#16a34a" stroke="white"/>')
    said = f"{len(found)} workloads as a share of the time of PyTorch"
    return (
        f'<svg viewBox="0 0 {RIGHT + 40} {height}" style="max-width:100%;height:auto" '
        'font-family="system-ui, sans-serif" font-size="10.5" fill="currentColor" role="img" '
        f'aria-label="{said}">{"".join(parts)}</svg>'
    )
