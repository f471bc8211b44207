"""Sums of the columns of a matrix, in one order with and without C."""

from __future__ import annotations

from typing import Any

TALL = 1024  # more rows than this are summed in two steps, for the sake of precision
BLOCK = 256


def column_sums(xp: Any, m: Any) -> Any:
    """Sums along the first dimension of a matrix."""
    rows, columns = m.shape
    if rows <= TALL:
        return xp.add.reduce(m, 0)
    whole = rows // BLOCK * BLOCK
    blocks = xp.add.reduce(m[:whole].reshape(-1, BLOCK, columns), 1)
    return xp.add.reduce(blocks, 0) + xp.add.reduce(m[whole:], 0)
