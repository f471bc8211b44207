"""Whether two values agree, and by how much they differ if they do not."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from .reader import Value

# Relative error of one rounding, by dtype.
EPSILON = {
    "float64": 2.0**-52,
    "complex128": 2.0**-52,
    "float32": 2.0**-23,
    "complex64": 2.0**-23,
    "float16": 2.0**-10,
    "bfloat16": 2.0**-7,
}
# rtol and atol where roundings may differ, as torch.testing.assert_close has them.
TOLERANCES = {
    "float64": (1e-7, 1e-7),
    "complex128": (1e-7, 1e-7),
    "float32": (1.3e-6, 1e-5),
    "complex64": (1.3e-6, 1e-5),
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
}
FLOOR = 1e-14  # of the relative difference: sketches are sums, which are rounded themselves


@dataclass(frozen=True)
class Tolerance:
    """How equal values must be: bit for bit, or within rtol and atol."""

    bits: bool
    rtol: float | None = None
    atol: float | None = None

    def of(self, dtype: str) -> tuple[float, float]:
        rtol, atol = TOLERANCES.get(dtype, (0.0, 0.0))
        # Of a norm, which averages: a hundred roundings stay below the default.
        return (
            8 * rtol if self.rtol is None else self.rtol,
            atol if self.atol is None else self.atol,
        )


@dataclass(frozen=True)
class Difference:
    """How two values differ. `relative` is estimated from eight sums, to a factor of two."""

    absolute: float  # the norm of the difference
    relative: float  # divided by the larger norm
    ulps: float | None  # in units of the last place, on average
    reason: str = ""  # other shapes, other dtypes, other NaNs

    @property
    def is_exact(self) -> bool:
        return bool(self.reason)


SAME = Difference(0.0, 0.0, 0.0)


def difference(a: Value, b: Value) -> Difference:
    """By how much two values differ."""
    if a.shape != b.shape:
        return Difference(math.inf, math.inf, None, f"shape {a.shape} against {b.shape}")
    if (a.nans, a.infinities) != (b.nans, b.infinities):
        return Difference(math.inf, math.inf, None, nonfinite_reason(a, b))
    if a.hash == b.hash and a.dtype == b.dtype:
        return SAME
    gap = math.dist(a.sketch, b.sketch)
    scale = max(a.norm, b.norm)
    relative = gap / scale if scale else 0.0
    if not math.isfinite(relative):
        relative = 1.0
    if relative < FLOOR:
        gap = relative = 0.0
    reason = f"{a.dtype} against {b.dtype}" if a.dtype != b.dtype else ""
    coarse = max(EPSILON.get(a.dtype, 0.0), EPSILON.get(b.dtype, 0.0))
    ulps = relative / coarse if coarse else None
    return Difference(gap, relative, ulps, reason)


def nonfinite_reason(a: Value, b: Value) -> str:
    def told(v: Value) -> str:
        return f"{v.nans} NaN and {v.infinities} infinite" if v.nans or v.infinities else "none"

    return f"not finite: {told(a)} against {told(b)}"


def agree(a: Value | None, b: Value | None, tolerance: Tolerance) -> bool:
    """Whether two values count as the same."""
    if a is None or b is None:
        return a is b
    found = difference(a, b)
    if found is SAME:
        return True
    if tolerance.bits:
        # Signs of zeros are bits that no later op of a training loop can see.
        return not found.reason and found.relative == 0.0 and a.dtype in EPSILON
    if a.shape != b.shape or not math.isfinite(found.relative):
        return False
    if a.dtype != b.dtype and tolerance.rtol is None:
        return False
    rtol, atol = tolerance.of(wider(a, b).dtype)
    return found.relative <= rtol or found.absolute <= atol * math.sqrt(max(a.count, 1))


def wider(a: Value, b: Value) -> Value:
    """Of two values the one with the coarser dtype, whose roundings count."""
    return a if EPSILON.get(a.dtype, 0.0) >= EPSILON.get(b.dtype, 0.0) else b


def spelled(found: Difference) -> str:
    """`3.2e-07 of the norm, about 5 ulp`."""
    if found.reason and not math.isfinite(found.relative):
        return found.reason
    parts = [found.reason] if found.reason else []
    if found.relative:
        parts.append(f"{found.relative:.2g} of the norm")
        if found.ulps is not None and found.ulps < 1e6:
            parts.append(f"about {found.ulps:.2g} ulp")
    else:
        parts.append("the same up to signs of zero")
    return ", ".join(parts)


def spelled_value(v: Value | None) -> str:
    """`float32 (8, 4)  -1.2 … 3.4, mean 0.1, norm 5`."""
    if v is None:
        return "no gradient"
    bad = f", {v.nans} NaN" if v.nans else ""
    bad += f", {v.infinities} infinite" if v.infinities else ""
    name = f" {v.name}" if v.name else ""
    if v.count == 1:
        return f"{v.dtype}{name} {v.mean:.7g}{bad}"
    shape = "x".join(map(str, v.shape))
    return f"{v.dtype}[{shape}]{name} {v.low:.4g} to {v.high:.4g}, norm {v.norm:.7g}{bad}"


def growth(values: list[tuple[int, Any]]) -> str:
    """`step 3: 1e-7, step 10: 2e-5 …`: some of many."""
    chosen = values if len(values) <= 6 else [values[i * (len(values) - 1) // 5] for i in range(6)]
    return ", ".join(f"{step}: {value:.1e}" for step, value in chosen)
