"""Base of the optimizers that keep a matrix per dimension of a parameter."""

from __future__ import annotations

from typing import Any

import tapegrad as tg


def check(where: str, **given: tuple[Any, bool, str]) -> None:
    """Refuse arguments by name: each comes with whether it is right, and what it should be."""
    for name, (value, right, wanted) in given.items():
        if not right:
            raise ValueError(f"{where}: {name} should be {wanted}, got {value!r}")


def is_number(value: Any, low: float = 0.0, high: float = float("inf")) -> bool:
    """Whether a value is a number with low <= value < high."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and low <= value < high


def is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def check_real(where: str, p: Any) -> None:
    """Refuse gradients for which products of their matrices are not defined."""
    if p.grad.is_sparse:
        raise RuntimeError(f"{where} does not support sparse gradients")
    if p.is_complex():
        raise RuntimeError(f"{where} does not support complex parameters")


def dimensions(p: Any, largest: int) -> list[int]:
    """The dimensions of a parameter that get a matrix: those of 2 to `largest` entries."""
    return [d for d, n in enumerate(p.shape) if 1 < n <= largest]


def gram(grad: Any, dim: int) -> Any:
    """The products of the slices of a gradient along a dimension with each other, as a matrix."""
    rows = grad.movedim(dim, 0).reshape(grad.shape[dim], -1)
    return rows @ rows.mT


def multiplied(t: Any, matrix: Any, dim: int) -> Any:
    """A tensor with a matrix applied to one of its dimensions."""
    return tg.tensordot(matrix, t, ([1], [dim])).movedim(0, dim)
