"""Random tensors of a size, or like others; what draws is at home where the stream is.

That is streams.py for the CPU, and cuda/draws.py for a GPU.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ... import dtypes
from ...core.base import STATE, wrap
from ...core.devices import xp_of
from ...core.late_bound import PROFILER
from ...core.transforms import batched_random
from ...core.transforms.batched import above
from ...core.transforms.levels import BATCHES
from ..block import api
from ..creation.arguments import np_dtype, sizes, whole
from ..creation.like import like, stride_order
from ..creation.sized import check_options, checked_out, checked_tensor, made, resize_out
from .generators import (
    place_of,
    stream_of,
    wanted_place,
)


def uniform(stream: Any, shape: Any, dtype: Any) -> Any:
    return stream.home.uniform(stream, shape, dtype)


def standard_normal(stream: Any, shape: Any, dtype: Any, contiguous: bool = True) -> Any:
    return stream.home.normal(stream, shape, dtype, contiguous=contiguous)


# ---------------------------------------------------------------------- from sizes


Options = tuple[Any, Any, Any, bool, bool]  # dtype, layout, device, pin_memory, requires_grad


def drawn(
    function: str,
    size: tuple[Any, ...],
    kwargs: dict[str, Any],
    draw: Any,
    generator: Any,
    out: Any,
    options: Options,
    default: Any = None,
) -> Any:
    """A new tensor (or `out`) of a size with what `draw(stream, shape, dtype)` gives."""
    if STATE.timing:
        PROFILER.start(function, ())
        try:
            return drawn_plain(function, size, kwargs, draw, generator, out, options, default)
        finally:
            PROFILER.stop(function)
    return drawn_plain(function, size, kwargs, draw, generator, out, options, default)


def drawn_plain(
    function: str,
    size: tuple[Any, ...],
    kwargs: dict[str, Any],
    draw: Any,
    generator: Any,
    out: Any,
    options: Options,
    default: Any,
) -> Any:
    """`drawn`, without a profiler."""
    dtype, layout, device, pin_memory, requires_grad = options
    if not size and "size" not in kwargs:
        raise TypeError(
            f"{function}() received an invalid combination of arguments - got (), but expected one "
            "of:\n * (tuple of ints size, *, torch.Generator generator, Tensor out = None, "
            "torch.dtype dtype = None, torch.layout layout = None, torch.device device = None, "
            "bool pin_memory = False, bool requires_grad = False)\n"
        )
    shape = sizes(function, size, kwargs)
    wanted = np_dtype(dtype, function)
    check_options(function, device, layout, pin_memory)
    stream = stream_of(generator, function, wanted_place(device, out))
    if out is not None:
        checked_out(function, out, wanted)
        resize_out(out, shape)
        out._array[...] = draw(stream, shape, out._array.dtype)
        out._version_cell().bump(function)
        return out
    kind = wanted or default or dtypes.default_np()
    if BATCHES:
        levels = batched_random.drawing()
        whole = made(draw(stream, (*batched_random.sizes(levels), *shape), kind), requires_grad)
        return above(whole, levels)
    return made(draw(stream, shape, kind), requires_grad)


def drawing(source: Any) -> Any:
    """Publish a function; `source` says what it draws, and is called and described as it."""
    name, draw = source.__name__, source()

    def made_of_draws(
        *size: Any,
        generator: Any = None,
        out: Any = None,
        dtype: Any = None,
        layout: Any = None,
        device: Any = None,
        pin_memory: bool = False,
        requires_grad: bool = False,
        **kwargs: Any,
    ) -> Any:
        options = (dtype, layout, device, pin_memory, requires_grad)
        return drawn(name, size, kwargs, draw, generator, out, options)

    made_of_draws.__name__, made_of_draws.__doc__ = name, source.__doc__
    return api(method=False, direct=True)(made_of_draws)


@drawing
def rand() -> Any:
    """rand(*size, generator=None, dtype=None, requires_grad=False) -> Tensor: uniform in [0, 1).

    >>> _ = manual_seed(0)
    >>> rand(2)
    tensor([0.4963, 0.7682])
    """
    return uniform


@drawing
def randn() -> Any:
    """randn(*size, generator=None, dtype=None, requires_grad=False) -> Tensor: standard normal.

    >>> _ = manual_seed(0)
    >>> randn(2)
    tensor([ 1.5410, -0.2934])
    """
    return standard_normal


RANDINT_USAGE = (
    "randint() received an invalid combination of arguments - got ({}), but expected one of:\n"
    " * (int high, tuple of ints size, *, torch.Generator generator = None, Tensor out = None, "
    "torch.dtype dtype = None, torch.layout layout = None, torch.device device = None, "
    "bool pin_memory = False, bool requires_grad = False)\n"
    " * (int low, int high, tuple of ints size, *, torch.Generator generator = None, Tensor out = "
    "None, torch.dtype dtype = None, torch.layout layout = None, torch.device device = None, "
    "bool pin_memory = False, bool requires_grad = False)\n"
)


@api(method=False, direct=True)
def randint(
    *args: Any,
    low: Any = None,
    high: Any = None,
    size: Any = None,
    generator: Any = None,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Any:
    """randint(low=0, high, size, *, dtype=int64) -> Tensor: random integers, each of [low, high)
    equally likely.

    >>> _ = manual_seed(0)
    >>> randint(10, (3,))
    tensor([4, 9, 3])
    """
    bounds, shape = integer_bounds(args, low, high, size)

    def draw(stream: Any, shape: Any, dtype: Any) -> Any:
        return stream.home.integers(stream, shape, dtype, *bounds)

    options = (dtype, layout, device, pin_memory, requires_grad)
    return drawn("randint", (shape,), {}, draw, generator, out, options, dtypes.int64.np)


def integer_bounds(
    args: tuple[Any, ...], low: Any, high: Any, size: Any
) -> tuple[tuple[int, int], Any]:
    """The range and the size from any of the ways to call `randint`."""
    if low is high is size is None and len(args) == 3 and type(args[2]) in (tuple, list):
        if type(args[0]) is int and type(args[1]) is int:
            return args[:2], args[2]
    values = [*args]
    if size is not None:
        values.append(size)
    elif len(values) == 2 and not isinstance(values[1], (tuple, list)) and high is None:
        raise TypeError(
            "randint(): argument 'size' (position 2) must be tuple of ints, "
            f"not {type(values[1]).__name__}"
        )
    if high is not None:
        values.insert(len(values) - 1, high)
    if low is not None:
        values.insert(0, low)
    if len(values) not in (2, 3) or not isinstance(values[-1], (tuple, list)):
        raise TypeError(RANDINT_USAGE.format(", ".join([type(a).__name__ for a in args])))
    names = ("high",) if len(values) == 2 else ("low", "high")
    for i, (name, value) in enumerate(zip(names, values, strict=False)):
        if not hasattr(value, "__index__"):
            raise TypeError(
                f"randint(): argument '{name}' (position {i + 1}) must be int, not "
                f"{type(value).__name__}"
            )
    found = [whole(v) for v in values[:-1]]
    return (found[0] if len(found) == 2 else 0, found[-1]), values[-1]


@api(method=False, direct=True)
def randperm(
    n: Any,
    *,
    generator: Any = None,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Any:
    """randperm(n, *, generator=None, dtype=int64) -> Tensor: the numbers below `n` in random order.

    >>> _ = manual_seed(0)
    >>> randperm(4)
    tensor([0, 1, 3, 2])
    """
    if not hasattr(n, "__index__"):
        raise TypeError(
            f"randperm(): argument 'n' (position 1) must be int, not {type(n).__name__}"
        )
    count = whole(n)

    def draw(stream: Any, shape: Any, dtype: Any) -> Any:
        check_holds(count, dtype)
        if len(shape) == 1:
            return stream.home.permutation(stream, count, dtype)
        *lead, _ = shape
        rows = [stream.home.permutation(stream, count, dtype) for _ in range(math.prod(lead))]
        if not rows:
            return np.empty(shape, dtype)
        # The entries of an inner vmap come one after the other, each for all of the outer ones.
        order = (*range(len(lead) - 1, -1, -1), len(lead))
        return xp_of(rows[0]).stack(rows).reshape(*lead[::-1], count).transpose(order)

    options = (dtype, layout, device, pin_memory, requires_grad)
    return drawn("randperm", ((count,),), {}, draw, generator, out, options, dtypes.int64.np)


def check_holds(count: int, dtype: Any) -> None:
    if count and dtype is not dtypes.int64.np:
        from ..creation.arrays import fill_value

        fill_value(count, dtype)


# ---------------------------------------------------------------------- like others


def drawn_like(
    function: str,
    input: Any,
    draw: Any,
    options: Options,
    memory_format: Any,
    generator: Any,
    ordered: bool = False,
) -> Any:
    """A tensor like another. An `ordered` draw wants to know whether its memory is in order."""
    dtype, layout, device, pin_memory, requires_grad = options
    checked_tensor(input, function)
    wanted = np_dtype(dtype, function)
    check_options(function, device, layout, pin_memory)
    levels: list[Any] = []
    if BATCHES:
        input, levels = batched_random.pattern(input)
    array = like(input, wanted, memory_format, device)
    if ordered:
        draw = functools.partial(draw, contiguous=bool(array.flags.c_contiguous))
    stream = stream_of(generator, function, place_of(wrap(array)))
    if array.flags.c_contiguous:
        array = draw(stream, array.shape, array.dtype)
    else:
        fill(array, draw, stream)
    t = made(array, requires_grad)
    return above(t, levels) if levels else t


def fill(array: Any, draw: Any, stream: Any) -> None:
    """Write what is drawn in the order in which the elements of `array` lie in memory."""
    inner = array.transpose(stride_order(array.shape, list(array.strides))[::-1])
    inner[...] = draw(stream, inner.shape, array.dtype)


def drawing_like(ordered: bool) -> Any:
    """Publish a random function whose result has the shape and dtype of a tensor."""

    def publish(source: Any) -> Any:
        name, draw = source.__name__, source()

        def made_like(
            input: Any,
            *,
            generator: Any = None,
            dtype: Any = None,
            layout: Any = None,
            device: Any = None,
            pin_memory: bool = False,
            requires_grad: bool = False,
            memory_format: Any = None,
        ) -> Any:
            options = (dtype, layout, device, pin_memory, requires_grad)
            return drawn_like(name, input, draw, options, memory_format, generator, ordered)

        made_like.__name__, made_like.__doc__ = name, source.__doc__
        return api(method=False, direct=True)(made_like)

    return publish


@drawing_like(ordered=False)
def rand_like() -> Any:
    """rand_like(input, *, dtype=None) -> Tensor: uniform in [0, 1), of its shape.

    >>> rand_like(zeros(2, 3)).shape
    torch.Size([2, 3])
    """
    return uniform


@drawing_like(ordered=True)
def randn_like() -> Any:
    """randn_like(input, *, dtype=None) -> Tensor: standard normal, of its shape.

    >>> randn_like(zeros(2, 3)).shape
    torch.Size([2, 3])
    """
    return standard_normal


@api(method=False, direct=True)
def randint_like(
    input: Any,
    low: Any = None,
    high: Any = None,
    *,
    generator: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Any:
    """randint_like(input, low=0, high, *) -> Tensor: integers in [low, high), of its shape.

    >>> randint_like(zeros(2), 0, 1)
    tensor([0., 0.])
    """
    if high is None:
        low, high = 0, low
    first, last = whole(0 if low is None else low), whole(high)

    def draw(stream: Any, shape: Any, dtype: Any) -> Any:
        return stream.home.integers(stream, shape, dtype, first, last)

    options = (dtype, layout, device, pin_memory, requires_grad)
    return drawn_like("randint_like", input, draw, options, memory_format, generator)
