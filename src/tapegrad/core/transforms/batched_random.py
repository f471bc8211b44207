"""Random numbers under vmap: an error, the same for every entry of the batch, or others for each.

What `randomness` asked for is looked up level by level, the innermost first. Where the entries draw
numbers of their own, all of them are drawn at once, as one tensor with the batch in front: so they
are PyTorch's numbers. Callers look at `BATCHES` before they come here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..base import wrap
from ..devices import xp_of
from ..rule_functions import RECORDED
from .batched import (
    above,
    batch_of,
    entered,
    is_batched,
    lift,
    mirrored,
    physical_array,
    physical_at,
    repeated,
)
from .levels import STACK, Level

NOT_ALLOWED = (
    "vmap: called random operation while in randomness error mode. Please either use the 'same' or "
    "'different' randomness flags on vmap or perform the randomness operation out of vmap"
)
SAME_OF_BATCH = (
    "Vmap does not currently support same randomness with a batched tensor input. Please file an "
    "issue with functorch"
)
INPLACE_UNBATCHED = (
    "vmap: Cannot ask for different inplace randomness on an unbatched tensor. This will appear "
    "like same randomness. If this is necessary for your usage, please file an issue with "
    "functorch."
)


def unfilled(shape: Sequence[int], t: Any) -> Any:
    """A plain tensor of a shape, of the dtype and on the device of another."""
    return wrap(xp_of(physical_array(t)).empty(tuple(shape), t._array.dtype))


def asked(level: Level) -> bool:
    """Whether each entry of a level draws different random numbers."""
    if level.randomness == "error":
        raise RuntimeError(NOT_ALLOWED)
    return level.randomness == "different"


def drawing() -> list[Level]:
    """The open levels whose entries draw different random numbers, outermost first."""
    return [level for level in reversed(STACK.batches()) if asked(level)][::-1]


def sizes(levels: Sequence[Level]) -> tuple[int, ...]:
    return tuple([level.size for level in levels])


def pattern(t: Any) -> tuple[Any, list[Level]]:
    """A plain tensor of the shape in which numbers like `t` are drawn, and the levels in front."""
    levels: list[Level] = []
    for level in reversed(STACK.batches()):
        if asked(level):
            t = lift(t, level)
            levels.insert(0, level)
        elif is_batched(t):
            physical, in_front = physical_at(t, level)
            if in_front:
                t = unfilled(physical._array.shape[1:], t)
    return t, levels


def of_tensors(draw: Callable[..., Any], *tensors: Any) -> Any:
    """`draw(*tensors)`, numbers whose distribution depends on tensors, for all entries at once."""
    levels: list[Level] = []
    for level in reversed(STACK.batches()):
        if asked(level):
            rank = max([t._array.ndim for t in tensors])
            tensors = tuple([aligned(lift(t, level), rank + 1) for t in tensors])
            levels.insert(0, level)
        elif any([physical_at(t, level)[1] for t in tensors]):
            raise RuntimeError(SAME_OF_BATCH)
    return above(draw(*tensors), levels)


def aligned(t: Any, rank: int) -> Any:
    """A tensor with the batch in front, its other dimensions lined up at the end."""
    shape = t._array.shape
    if len(shape) == rank:
        return t
    return RECORDED.reshape(t, (shape[0], *(1,) * (rank - len(shape)), *shape[1:]))


def into(target: Any, draw: Callable[[Any], Any], levels: list[Level] | None = None) -> Any:
    """Let `draw(t)`, which overwrites a plain tensor, overwrite one that may be batched."""
    if levels is None:
        levels = STACK.batches()
    if not levels:
        draw(target)
        return target
    *outer, level = levels
    physical, in_front = physical_at(target, level)
    if asked(level):
        if not in_front:
            raise RuntimeError(INPLACE_UNBATCHED)
        into(physical, draw, outer)
    elif in_front:
        one = unfilled(target._array.shape, target)
        into(one, draw, outer)
        target.copy_(one)
    else:
        into(target, draw, outer)
    return target


def room(t: Any) -> Any:
    """An empty tensor to draw into: batched at the levels whose entries draw different numbers."""
    for level in drawing():
        if not physical_at(t, level)[1]:
            t = entered(repeated(t, level.size), level)
    return memory_in_order(t)


def memory_in_order(t: Any) -> Any:
    """A contiguous copy of a tensor, its batches included, unless it is contiguous."""
    if not is_batched(t):
        return t.contiguous()
    batch = batch_of(t)
    return mirrored(memory_in_order(batch.physical), batch)
