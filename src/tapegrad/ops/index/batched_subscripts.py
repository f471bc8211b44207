"""Indexing with index tensors that are batched: every entry of the batch looks at its own places.

The indexed dimensions go behind the batch, `arange(size)` becomes one more index in front, and the
dimensions of the result go where they belong.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.base import wrap
from ...core.devices import on_device_of
from ...core.op import REGISTRY
from ...core.transforms.batched import (
    batch_of,
    batched,
    innermost,
    is_batched,
    lift,
    narrow_target,
    physical_at,
    refusal,
)
from ...core.transforms.batched_widen import widen
from ...core.transforms.levels import Level

MASK = (
    "vmap: We do not support batching operators that can support dynamic shape. Attempting to "
    "batch over indexing with a boolean mask."
)


class Places:
    """Index tensors of one entry as index tensors of the batch."""

    def __init__(self, t: Any, noted: dict[int, Any], watched: Any, level: Level) -> None:
        owners = {id(w._array): w for w in watched}
        self.level = level
        self.dims: list[int] = []
        found: list[tuple[Any, bool]] = []
        for dim, array in noted.items():
            owner = owners.get(id(array))
            if owner is None:
                owner = wrap(array)
            if owner._array.dtype.kind == "b" or owner._array.dtype == np.uint8:
                if is_batched(owner):
                    raise refusal(MASK)
                for j, places in enumerate(owner._array.nonzero()):
                    self.dims.append(dim + j)
                    found.append((wrap(places), False))
            else:
                self.dims.append(dim)
                found.append(physical_at(owner, level))
        shapes = [p._array.shape[b:] for p, b in found]
        self.shape = np.broadcast_shapes(*shapes)
        rank = len(self.shape)
        numbers = np.arange(level.size).reshape(level.size, *(1,) * rank)
        self.indices = [on_device_of(t, numbers), *[aligned(p, b, rank) for p, b in found]]
        rest = [d for d in range(t._array.ndim) if d not in self.dims]
        self.order = [0, *[d + 1 for d in self.dims], *[d + 1 for d in rest]]
        first = self.dims[0]
        adjacent = self.dims == list(range(first, first + len(self.dims)))
        lead = len([d for d in rest if d < first]) if adjacent else 0
        # From (batch, indexed, others) to where the indexed dimensions stand in the result.
        behind = list(range(1 + rank, 1 + rank + len(rest)))
        self.back = [0, *behind[:lead], *range(1, 1 + rank), *behind[lead:]]
        sizes = [t._array.shape[d] for d in rest]
        self.result = (*sizes[:lead], *self.shape, *sizes[lead:])

    def noted(self) -> dict[int, Any]:
        return {i: index._array for i, index in enumerate(self.indices)}


def aligned(index: Any, in_front: bool, rank: int) -> Any:
    """An index tensor of a batch with its own dimensions lined up at the end."""
    if not in_front:
        return index
    shape = index._array.shape
    return index.reshape(shape[0], *(1,) * (rank + 1 - len(shape)), *shape[1:])


def get(t: Any, noted: dict[int, Any], watched: Any) -> Any:
    from .subscripts import index_with

    level = innermost((t, *watched))
    places = Places(t, noted, watched, level)
    turned = lift(t, level).permute(places.order)
    found = index_with(turned, places.noted(), tuple(places.indices))
    return batched(found.permute(places.back), level)


def put(
    t: Any, noted: dict[int, Any], values: Any, accumulate: bool, watched: Any, run: Any
) -> Any:
    from ...autograd.inplace import write
    from .subscripts import put_with

    level = innermost((t, values, *watched))
    physical, in_front = physical_at(t, level)
    if run is write and not in_front:
        if not widen(t, level):
            raise narrow_target(REGISTRY["index_put"], t, level)
        physical = batch_of(t).physical
    places = Places(t, noted, watched, level)
    if run is not write:
        physical = lift(t, level).clone()
    spread = values.expand(places.result) if values._array.shape != places.result else values
    source = lift(spread, level).permute([places.back.index(i) for i in range(len(places.back))])
    put_with(
        physical.permute(places.order), places.noted(), source, accumulate, tuple(places.indices)
    )
    return t if run is write else batched(physical, level)
