"""How narrow numbers are scaled, as `scaled_mm` is told."""

from __future__ import annotations

import enum


class ScalingType(enum.IntEnum):
    """How scales belong to a matrix of narrow numbers, in `scaled_mm`."""

    TensorWise = 0
    RowWise = 1
    BlockWise1x16 = 2
    BlockWise1x32 = 3
    BlockWise1x128 = 4
    BlockWise128x128 = 5


class SwizzleType(enum.IntEnum):
    """How scales are laid out, in `scaled_mm`."""

    NO_SWIZZLE = 0
    SWIZZLE_32_4_4 = 1
