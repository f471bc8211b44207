"""`reduction=` as PyTorch's numbers, for libraries that ask for them."""

from __future__ import annotations

from ..core.arguments import REDUCTIONS
from ..ops.nn.reduction import from_flags, known_reduction


def get_enum(reduction: str) -> int:
    """The number of a reduction."""
    return REDUCTIONS.index(known_reduction(reduction))


def legacy_get_string(
    size_average: bool | None, reduce: bool | None, emit_warning: bool = True
) -> str:
    """The reduction that the old flags ask for."""
    return from_flags(size_average, reduce, emit_warning)


def legacy_get_enum(
    size_average: bool | None, reduce: bool | None, emit_warning: bool = True
) -> int:
    """The number of the reduction that the older arguments name."""
    return REDUCTIONS.index(from_flags(size_average, reduce, emit_warning))
