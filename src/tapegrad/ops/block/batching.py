"""Batching rules: an op over a whole batch at once, which is what vmap asks for.

    rule(F, size, tensors, batched, attrs) -> output, or a tuple of them

Where `batched[i]` is true, `tensors[i]` has a dimension of `size` in front of the ones that the op
knows about; every output has it too. The rule is written against `F` like a gradient rule, so it
runs on arrays and on tensors, and can itself be differentiated and batched again.

Most blocks need not write one:

    elementwise, aligns      shapes are aligned behind the batch, the op broadcasts
    dims = ("dim",)          the op works along dimensions: they move up by one. `shapes` names
                             attributes that are shapes, which get the batch in front
    leading = (2, 2)         the op already maps over leading dimensions; the numbers say how many
                             trailing dimensions of each tensor belong to one entry
    fold = True              dimension 0 of every tensor (and output) is a batch: the two become one

The others say it themselves: `def batch(F, size, batched, <tensors>, <attributes>)`; `batched` has
one bool per tensor (of the list, if the op is variadic). What depends on the data too much for a
batch, such as the number of nonzero elements, says why in `unbatchable`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from ...core.base import TensorBase
from ...core.op import Op

BatchRule = Callable[..., Any]


def batching_rule(record: Op, block: Any) -> BatchRule | None:
    """The rule that a block gives, or that follows from what it says about itself."""
    given = block.batch
    if given is not None:
        return functools.partial(spelled_out, record, given)
    if record.unbatchable:
        return None
    if block.dims or block.shapes:
        return functools.partial(along_dims, record, block.dims, block.shapes)
    if block.leading:
        return functools.partial(over_leading, record, block.leading)
    if block.fold:
        return functools.partial(folded, record)
    if record.elementwise or block.aligns:
        return functools.partial(aligned, record)
    return None


def run(record: Op, F: Any, tensors: Sequence[Any], attrs: Sequence[Any]) -> Any:
    own = getattr(F, record.name)
    return own(list(tensors), *attrs) if record.variadic else own(*tensors, *attrs)


def spelled_out(
    record: Op, rule: Any, F: Any, size: int, tensors: Any, batched: Any, attrs: Any
) -> Any:
    if record.variadic:
        return rule(F, size, batched, list(tensors), *attrs)
    return rule(F, size, batched, *tensors, *attrs)


def lift(F: Any, x: Any, size: int, batched: bool = False) -> Any:
    """`x` with the batch in front, repeated (without a copy) if it had none."""
    if batched or x is None:
        return x
    return F.expand(F.unsqueeze(x, 0), (size, *x.shape))


def padded(F: Any, x: Any, at: int, rank: int) -> Any:
    """`x` with ones put in at dimension `at` until it has `rank` dimensions."""
    missing = rank - len(x.shape)
    if missing <= 0:
        return x
    return F.reshape(x, (*x.shape[:at], *(1,) * missing, *x.shape[at:]))


def aligned(record: Op, F: Any, size: int, tensors: Any, batched: Any, attrs: Any) -> Any:
    """Batching rule of elementwise ops: after the batch dimension, shapes broadcast as usual."""
    most = 0
    for x, b in zip(tensors, batched, strict=True):
        rank = rank_of(x)
        if rank >= 0:
            most = max(most, rank if b else rank + 1)
    placed: list[Any] = []
    for x, b in zip(tensors, batched, strict=True):
        placed.append(padded(F, x, 1, most) if b and rank_of(x) < most else x)
    return run(record, F, placed, attrs)


def rank_of(x: Any) -> int:
    """How many dimensions a tensor or an array has; -1 for a number."""
    if isinstance(x, TensorBase):
        rank: int = x._array.ndim
        return rank
    return len(x.shape) if hasattr(x, "shape") else -1


def up(dim: Any, ndim: int) -> Any:
    """Dimensions of one entry as dimensions of the batch; None means all of an entry's."""
    if dim is None:
        return tuple(range(1, ndim))
    if isinstance(dim, (tuple, list)):
        return tuple(d + 1 if d >= 0 else d for d in dim)
    return dim + 1 if dim >= 0 else dim


def entry_dims(x: Any) -> tuple[int, ...]:
    """All dimensions but the batch."""
    return tuple(range(1, len(x.shape)))


def along_dims(
    record: Op,
    dims: tuple[str, ...],
    shapes: tuple[str, ...],
    F: Any,
    size: int,
    tensors: Any,
    batched: Any,
    attrs: Any,
) -> Any:
    whole = [lift(F, x, size, b) for x, b in zip(tensors, batched, strict=True)]
    ndim = len(whole[0].shape)
    given = dict(zip(record.attrs, attrs, strict=True))
    if ndim == 1 and not shapes and any(type(given[name]) is int for name in dims):
        # A tensor without dimensions is taken to have one of size 1.
        whole = [F.reshape(x, (size, 1)) if len(x.shape) == 1 else x for x in whole]
        outs = along_dims(record, dims, shapes, F, size, whole, (True,) * len(whole), attrs)
        return flat(F, outs) if record.single else tuple(flat(F, out) for out in outs)
    moved = []
    for name, value in given.items():
        if name in dims:
            value = up(value, ndim)
        elif name in shapes:
            value = (size, *value)
        moved.append(value)
    return run(record, F, whole, moved)


def flattened(F: Any, x: Any) -> Any:
    """Every entry as one row."""
    return F.reshape(x, (x.shape[0], math.prod(x.shape[1:])))


def broadcast_entries(F: Any, x: Any, size: int, batched: bool, shape: tuple[int, ...]) -> Any:
    """`x` with the batch in front and its entries broadcast to `shape`."""
    return F.expand(padded(F, lift(F, x, size, batched), 1, len(shape) + 1), (size, *shape))


def flat(F: Any, x: Any) -> Any:
    """Remove the dimension that `flattened` gave to entries without dimensions."""
    return F.reshape(x, x.shape[:1]) if len(x.shape) == 2 and x.shape[1] == 1 else x


def over_leading(
    record: Op,
    cores: tuple[int, ...],
    F: Any,
    size: int,
    tensors: Any,
    batched: Any,
    attrs: Any,
) -> Any:
    """Batching rule of ops that take any leading dimensions: the batch is one more."""
    whole = [lift(F, x, size, b) for x, b in zip(tensors, batched, strict=True)]
    extra = max(len(x.shape) - c for x, c in zip(whole, cores, strict=True) if x is not None)
    placed = [
        None if x is None else padded(F, x, 1, extra + c) for x, c in zip(whole, cores, strict=True)
    ]
    return run(record, F, placed, attrs)


def folded(record: Op, F: Any, size: int, tensors: Any, batched: Any, attrs: Any) -> Any:
    """Batching rule that merges the batch with dimension 0, and splits the results again."""
    joined = []
    for x, b in zip(tensors, batched, strict=True):
        whole: Any = lift(F, x, size, b)
        joined.append(whole if whole is None else join(F, whole))
    outs = run(record, F, joined, attrs)
    return part(F, size, outs) if record.single else tuple(part(F, size, out) for out in outs)


def join(F: Any, x: Any) -> Any:
    """The first two dimensions as one."""
    return F.reshape(x, (x.shape[0] * x.shape[1], *x.shape[2:]))


def part(F: Any, size: int, x: Any) -> Any:
    """The first dimension as two, the batch in front."""
    return F.reshape(x, (size, x.shape[0] // size, *x.shape[1:]))
