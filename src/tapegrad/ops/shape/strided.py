"""Views by explicit strides, and what a write to a part of a memory needs."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...autograd.view_history import looked
from ...core.base import STATE
from ...core.python_dispatch import asked_about
from ...core.strides import address, empty, strided
from ...core.transforms.batched import batch_of, batched, is_batched
from ..block import Block, Case, Linear, ViewOp, api, apply, op
from ..block.batching import lift
from ..block.checks import as_ints
from ..block.samples import Draw

# ruff: noqa: N805


# ------------------------------------------------------------------ as_strided

# A geometry is (size, stride, offset) in elements, the offset from the first element of the input.
Geometry = tuple[tuple[int, ...], tuple[int, ...], int]


class ByStrides(ViewOp):
    """Memory seen by strides and an offset."""

    public = False

    def fwd(xp, input, size, stride, offset):
        item = input.itemsize
        return strided(xp, input, size, tuple([s * item for s in stride]), offset * item)

    def d_input(F, grad, input_shape, input_dtype, input_strides, size, stride, offset):
        steps = tuple([s // input_dtype.itemsize for s in input_strides])
        own = (input_shape, steps, 0)
        return F.restride(grad, (size, stride, offset), own, own)


@op
class AsStrided(ByStrides):
    """as_strided(input, size, stride, offset) -> Tensor: a view with this size and these strides in
    memory."""

    aten = "as_strided"

    def jvp(F, input, t_input, size, stride, offset):
        x, t = [getattr(each, "_array", each) for each in (input, t_input)]
        own = (x.shape, tuple([s // x.itemsize for s in x.strides]), 0)
        wanted = (size, stride, offset)
        if x.strides == t.strides and bounds(own, wanted) == bounds(own):
            return F.as_strided(t_input, *wanted)
        # Memory that is not the input's own does not change, and tangents may lie otherwise.
        return F.restride(t_input, own, wanted, own)

    def batch(F, size, batched, input, entry_size, stride, offset):
        x = getattr(input, "_array", input)
        step = x.strides[0] // x.itemsize
        return F.as_strided(input, (size, *entry_size), (step, *stride), offset)


@op
class Restride(Linear):
    """restride(input, source, target, counted) -> Tensor: from one geometry to another.

    The elements of `input` are added up at their places in `source`; places that `counted` names
    several times share what they hold; the result is what lies at the places of `target`.
    """

    aten = None
    public = False

    def fwd(xp, input, source, target, counted):
        low, high = bounds(source, target, counted)
        memory = xp.zeros(max(high - low + 1, 0), input.dtype)
        put(xp, memory, source, low, input)
        if overlaps(counted):
            uses = xp.zeros(memory.shape, input.dtype)
            put(xp, uses, counted, low, xp.ones(counted[0], input.dtype))
            memory /= xp.maximum(uses.real, 1)
        if overlaps(target):
            return place(xp, memory, target, low).copy()
        return place(xp, memory, target, low)

    def d_input(F, grad, source, target, counted):
        return F.restride(grad, target, source, counted)

    def batch(F, size, batched, input, source, target, counted):
        low, high = bounds(source, target, counted)
        span = max(high - low + 1, 1)
        wide = [((size, *g[0]), (span, *g[1]), g[2]) for g in (source, target, counted)]
        return F.restride(input, *wide)


def bounds(*geometries: Geometry) -> tuple[int, int]:
    """The lowest and the highest place that any of them names."""
    low, high = 0, -1
    for size, stride, offset in geometries:
        if 0 in size:
            continue
        last = offset + sum([(n - 1) * s for n, s in zip(size, stride, strict=True)])
        low, high = (offset, last) if high < low else (min(low, offset), max(high, last))
    return low, high


def overlaps(geometry: Geometry) -> bool:
    """Whether two elements may be one place."""
    reach = 0
    for s, n in sorted([(s, n) for n, s in zip(*geometry[:2], strict=True) if n != 1]):
        if s <= reach:
            return True
        reach += (n - 1) * s
    return False


def place(xp: Any, memory: Any, geometry: Geometry, low: int) -> Any:
    size, stride, offset = geometry
    item = memory.itemsize
    if 0 in size:
        offset = low
    return strided(xp, memory, size, tuple([s * item for s in stride]), (offset - low) * item)


def put(xp: Any, memory: Any, geometry: Geometry, low: int, values: Any) -> None:
    """Add `values` to the memory; values that meet add up."""
    if not overlaps(geometry):
        place(xp, memory, geometry, low)[...] = values
        return
    index = place(xp, xp.arange(memory.size), geometry, low)
    xp.add.at(memory, index.reshape(-1), xp.asarray(values).reshape(-1))


@api(
    samples=[
        Case(Draw(3, 4), (2, 2), (4, 1), 5),
        Case(Draw(6), (4, 3), (1, 1)),
        Case(Draw(6), (2,), (0,)),
    ]
)
def as_strided(input: Any, size: Any, stride: Any, storage_offset: Any = None) -> Any:
    """as_strided(input, size, stride, storage_offset=None) -> Tensor: a view of the memory with
    this size, stride and offset.

    >>> as_strided(arange(5), (3, 2), (1, 1))
    tensor([[0, 1],
            [1, 2],
            [2, 3]])
    """
    sizes, steps = (
        as_ints("as_strided", "size", 1, size),
        as_ints("as_strided", "stride", 2, stride),
    )
    if len(sizes) != len(steps):
        raise RuntimeError("mismatch in length of strides and shape")
    if any([s < 0 for s in steps]):
        raise RuntimeError(
            "as_strided: Negative strides are not supported at the moment, got strides: "
            f"{list(steps)}"
        )
    if STATE.modes_on:
        input = asked_about(input, "place")
    x = input._array
    is_whole = type(x) is np.ndarray and x.base is None and input._view_of is None
    own = 0 if is_whole else input.storage_offset()
    first = own if storage_offset is None else storage_offset
    if is_batched(input):
        return strided_entries(input, sizes, steps, first)
    if first < 0:
        raise RuntimeError(f"Tensor: invalid storage offset {first}")
    if any([n < 0 for n in sizes]):
        raise RuntimeError(
            f"Storage size calculation overflowed with sizes={list(sizes)} and "
            f"strides={list(steps)}"
        )
    if 0 not in sizes:
        item = x.itemsize
        last = first + sum([(n - 1) * s for n, s in zip(sizes, steps, strict=True)])
        have = x.nbytes if is_whole else storage_bytes(input)
        if (last + 1) * item > have:
            raise RuntimeError(
                f"setStorage: sizes {list(sizes)}, strides {list(steps)}, storage offset {first}, "
                f"and itemsize {item} requiring a storage size of {(last + 1) * item} are out of "
                f"bounds for storage of size {have}"
            )
    return apply(AsStrided, (input,), (sizes, steps, first - own))


def strided_entries(input: Any, size: tuple[int, ...], stride: tuple[int, ...], offset: int) -> Any:
    """`as_strided` of the entries of a batch; none may look beyond its own memory."""
    entry = input._array
    steps = [s // entry.itemsize for s in entry.strides]
    own = input.storage_offset()
    reach = [
        start + 1 + sum([(n - 1) * s for n, s in zip(*geometry, strict=True)])
        for start, geometry in ((offset, (size, stride)), (own, (entry.shape, steps)))
    ]
    if 0 not in size and (offset < own or reach[0] > reach[1]):
        raise RuntimeError(
            f"result = tensor.as_strided({list(size)}, {list(stride)}, {offset}) can access memory "
            f"outside of `tensor`. `result` can access some memory in range [{offset}, {reach[0]}],"
            f" but `tensor` can only access some memory in range [{own}, {reach[1]}]. This is not "
            "supported inside of vmap, please try to rewrite the `as_strided` call as a sequence "
            "of PyTorch view operations"
        )
    batch = batch_of(input)
    whole = (batch.level.size, *size), (batch.physical.stride(0), *stride)
    return batched(batch.physical.as_strided(*whole, offset), batch.level)


def storage_bytes(input: Any) -> int:
    """The size of the memory that a tensor looks at."""
    x = input._array
    root = x.base if isinstance(x.base, np.ndarray) else x
    start = address(x) - input.storage_offset() * x.itemsize
    return root.nbytes - (start - address(root))  # type: ignore[no-any-return]


# ------------------------------------------------------------------ writes through views

# A way is (shape and strides of the base, steps to the region): see view_history.way_to.


def laid_out(xp: Any, x: Any, way: tuple[Any, ...]) -> Any:
    """A copy of `x` with the strides of the base."""
    out = empty(xp, way[0], way[1], x.dtype)
    out[...] = x
    return out


def batched_way(way: tuple[Any, ...], size: int, item: int) -> tuple[Any, ...]:
    """The way in a batch of bases, one after the other in memory."""
    shape, strides, steps = way
    span = item
    if 0 not in shape:
        span += sum([(n - 1) * s for n, s in zip(shape, strides, strict=True)])
    wide = []
    for step, attrs in steps:
        if step.name == "as_strided":
            entry, stride, offset = attrs
            attrs = ((size, *entry), (span // item, *stride), offset)
        elif step.name == "view_as_real":
            item //= 2
        elif step.name == "view_as_complex":
            item *= 2
        wide.append((step, attrs))
    return (size, *shape), (span, *strides), tuple(wide)


def item_of(x: Any) -> int:
    return int(getattr(x, "_array", x).itemsize)


def follow(x: Any, way: tuple[Any, ...]) -> Any:
    """The region of `x` that the steps lead to."""
    for step, attrs in way[2]:
        x = looked(step, x, attrs)
    return x


class Region(Block):
    wirtinger = True
    public = False


@op
class CopySlices(Region):
    """copy_slices(base, region, way) -> Tensor: `base` with one region replaced."""

    node = "torch::autograd::CopySlices"
    aten = None
    tensors = ("base", "region")

    def fwd(xp, base, region, way):
        out = laid_out(xp, base, way)
        follow(out, way)[...] = region
        return out

    def d_base(F, grad, way):
        return F.region_zeroed(grad, way)

    def d_region(F, grad, way):
        return F.region_of(grad, way)

    def jvp(F, base, region, t_base, t_region, way):
        t_base = F.zeros_like(base) if t_base is None else t_base
        return F.copy_slices(t_base, F.zeros_like(region) if t_region is None else t_region, way)

    def batch(F, size, batched, base, region, way):
        whole, part = lift(F, base, size, batched[0]), lift(F, region, size, batched[1])
        return F.copy_slices(whole, part, batched_way(way, size, item_of(base)))


class LinearRegion(Region):
    linear = True


@op
class RegionZeroed(LinearRegion):
    """region_zeroed(input, way) -> Tensor: `input` with zeros in a region."""

    aten = None

    def fwd(xp, input, way):
        out = laid_out(xp, input, way)
        follow(out, way)[...] = 0
        return out

    def d_input(F, grad, way):
        return F.region_zeroed(grad, way)

    def batch(F, size, batched, input, way):
        return F.region_zeroed(input, batched_way(way, size, item_of(input)))


@op
class RegionOf(LinearRegion):
    """region_of(input, way) -> Tensor: a copy of a region."""

    aten = None

    def fwd(xp, input, way):
        if input.strides != way[1]:
            input = laid_out(xp, input, way)
        return follow(input, way).copy()

    def d_input(F, grad, input_dtype, way):
        return F.region_put(grad, input_dtype, way)

    def batch(F, size, batched, input, way):
        return F.region_of(input, batched_way(way, size, item_of(input)))


@op
class RegionPut(LinearRegion):
    """region_put(input, dtype, way) -> Tensor: zeros with `input` in a region."""

    aten = None

    def fwd(xp, input, dtype, way):
        out = empty(xp, way[0], way[1], dtype)
        out[...] = 0
        follow(out, way)[...] = input
        return out

    def d_input(F, grad, way):
        return F.region_of(grad, way)

    def batch(F, size, batched, input, dtype, way):
        return F.region_put(input, dtype, batched_way(way, size, dtype.itemsize))
