"""`rearrange`: dimensions by name, reordered, split and merged."""

from __future__ import annotations

import math
import re
from typing import Any

import tapegrad as tg

Axis = list[str]  # the names that one dimension is made of; "..." for all that are not named
DOTS: Axis = ["..."]  # several dimensions, not one that is made of them
TOKEN = re.compile(r"\.\.\.|[A-Za-z_]\w*|\d+|[()]")


def parsed(side: str, pattern: str) -> list[Axis]:
    """One side of a pattern, a list of names for each dimension; ones have none."""
    if TOKEN.sub("", side).strip():
        raise ValueError(f"Invalid character in rearrange expression: {pattern}")
    found: list[Axis] = []
    inside: Axis | None = None
    for token in TOKEN.findall(side):
        if token == "(":
            if inside is not None:
                raise ValueError("brackets are nested in the expression")
            inside = []
        elif token == ")":
            if inside is None:
                raise ValueError("brackets are not balanced in the expression")
            found.append(inside)
            inside = None
        elif token.isdigit():
            if token != "1":
                raise ValueError(f"Unexpected number in rearrange expression: {token}")
            if inside is None:
                found.append([])
        elif inside is None:
            found.append(DOTS if token == "..." else [token])
        else:
            inside.append(token)
    if inside is not None:
        raise ValueError(f"Imbalanced parentheses in expression: {pattern}")
    names = [name for axis in found for name in axis]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"Indexing expression contains duplicate dimension '{name}'")
    return found


def sides(pattern: str) -> tuple[list[Axis], list[Axis]]:
    if pattern.count("->") != 1:
        raise ValueError("Pattern must contain a single '->' separator")
    left, right = [parsed(side, pattern) for side in pattern.split("->")]
    if any("..." in axis and axis is not DOTS for axis in left):
        raise ValueError(f"Ellipsis is parenthesis in the left side is not allowed: {pattern}")
    once = {name for axis in left for name in axis} ^ {name for axis in right for name in axis}
    if once:
        raise ValueError(
            f"Identifiers only on one side of rearrange expression (should be on both): {once}"
        )
    return left, right


def sizes_of(left: list[Axis], shape: tuple[int, ...], known: dict[str, int]) -> dict[str, int]:
    """The size of every name on the left, where at most one in a dimension is not given."""
    sizes: dict[str, int] = {}
    for axis, size in zip(left, shape, strict=True):
        given = math.prod([known[name] for name in axis if name in known])
        unknown = [name for name in axis if name not in known]
        if len(unknown) > 1:
            raise ValueError(f"cannot infer the sizes of two dimensions at once {unknown}")
        if size % given or (not unknown and size != given):
            raise ValueError(
                f"inferred dimension does not evenly fit into larger dimension: {size} vs {axis}"
            )
        for name in axis:
            sizes[name] = known.get(name, size // given)
    return sizes


def spread(side: list[Axis], rest: list[str]) -> list[Axis]:
    """One side with names for the dimensions that "..." stands for."""
    found: list[Axis] = []
    for axis in side:
        if axis is DOTS:
            found += [[name] for name in rest]
        else:
            found.append([n for name in axis for n in (rest if name == "..." else [name])])
    return found


def rearrange(tensor: Any, pattern: str, **axes_lengths: int) -> Any:
    """rearrange(tensor, pattern, **axes_lengths) -> Tensor: dimensions reordered, split, merged.

    >>> func.rearrange(zeros(2, 3, 4), "a b (c d) -> (a c) b d", d=2).shape
    torch.Size([4, 3, 2])
    """
    if not isinstance(tensor, tg.Tensor):
        tensor = tg.stack(list(tensor))
    left, right = sides(pattern)
    unknown = axes_lengths.keys() - {name for axis in left for name in axis}
    if unknown:
        raise ValueError(f"Identifiers not found in rearrange expression: {unknown}")
    shape = tuple(tensor.shape)
    dots = [name for axis in left for name in axis if name == "..."]
    rest = [f"...{i}" for i in range(len(shape) - len(left) + 1)] if dots else []
    if (len(shape) < len(left) - 1) if dots else (len(shape) != len(left)):
        raise ValueError(
            f"Number of dimensions in pattern ({len(left)}) must be equal to the number of "
            f"dimensions in the tensor ({len(shape)})"
        )
    left, right = spread(left, rest), spread(right, rest)
    sizes = sizes_of(left, shape, axes_lengths)
    before = [name for axis in left for name in axis]
    after = [name for axis in right for name in axis]
    parts = tensor.reshape([sizes[name] for name in before])
    moved = parts.permute([before.index(name) for name in after])
    return moved.reshape([math.prod([sizes[name] for name in axis]) for axis in right])
