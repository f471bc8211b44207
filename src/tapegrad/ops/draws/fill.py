"""Tensors overwritten with random numbers: `normal_`, `uniform_`, `random_` and the rest."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ...autograd.inplace import check_overlap, overwrite
from ...core.base import STATE, TensorBase, wrap
from ...core.devices import xp_of
from ...core.late_bound import PROFILER
from ...core.python_dispatch import called_as_a_whole
from ...core.settings import Settings
from ...core.transforms import batched_random
from ...core.transforms.batched import is_batched, narrow
from ...core.transforms.levels import BATCHES
from ...kernels.cpu import KERNELS
from ..block.checks import not_implemented
from ..block.definition import Block, api, op
from ..creation.like import stride_order
from .generators import place_of, stream_of
from .twister import Into

# Blocks: their first argument is not a `self`.
# ruff: noqa: N805


class Filling(Block):
    """Base of ops that fill a tensor with random numbers: the old values have no influence, so
    their gradient is zero.
    """

    aten = None
    public = False
    linear = True
    unbatchable = "random numbers: how a batch draws them is decided outside the op"

    def fwd(xp, input):
        return xp.zeros_like(input)

    def d_input(F, grad):
        return F.zeros_like(grad)


def filling(name: str, node: str) -> Any:
    """A block for one in-place function."""
    body = {
        "name": name,
        "node": node,
        "__doc__": f"{name}(input) -> Tensor: values are overwritten.",
    }
    return op(type(Filling)(name, (Filling,), body))


NORMAL_ = filling("normal_fill", "NormalBackward0")
UNIFORM_ = filling("uniform_fill", "UniformBackward0")
RANDOM_ = filling("random_fill", "RandomBackward2")
RANDOM_TO = filling("random_to_fill", "RandomBackward1")
RANDOM_FROM = filling("random_from_fill", "RandomBackward0")
BERNOULLI_ = filling("bernoulli_fill", "BernoulliBackward2")
BERNOULLI_TENSOR = filling("bernoulli_tensor_fill", "BernoulliBackward1")
EXPONENTIAL_ = filling("exponential_fill", "ExponentialBackward0")
CAUCHY_ = filling("cauchy_fill", "CauchyBackward0")
LOG_NORMAL_ = filling("log_normal_fill", "LogNormalBackward0")
GEOMETRIC_ = filling("geometric_fill", "GeometricBackward0")


def redraw(
    block: Any,
    target: Any,
    name: str,
    draw: Any,
    generator: Any,
    ordered: bool = False,
    **shown: Any,
) -> Any:
    """Overwrite `target` with what `draw(stream, shape, dtype)` gives, in PyTorch's element order.

    An `ordered` draw wants to know whether the memory is in order. `shown` are the arguments.
    """
    if STATE.timing:
        PROFILER.start(name, (target,))
        try:
            return redraw_in_batches(block, target, name, draw, generator, ordered, shown)
        finally:
            PROFILER.stop(name)
    return redraw_in_batches(block, target, name, draw, generator, ordered, shown)


def redraw_in_batches(
    block: Any,
    target: Any,
    name: str,
    draw: Any,
    generator: Any,
    ordered: bool,
    shown: dict[str, Any],
) -> Any:
    """`redraw` below `vmap`: each entry of the batch draws for itself."""
    if BATCHES:
        return batched_random.into(
            target, lambda t: redraw_plain(block, t, name, draw, generator, ordered, shown)
        )
    return redraw_plain(block, target, name, draw, generator, ordered, shown)


@called_as_a_whole
def redraw_plain(
    block: Any,
    target: Any,
    name: str,
    draw: Any,
    generator: Any,
    ordered: bool,
    shown: dict[str, Any],
) -> Any:
    array = target._array
    check_overlap(array, ())
    stream = stream_of(generator, name, place_of(target))
    if ordered:
        draw = functools.partial(draw, contiguous=bool(array.flags.c_contiguous))

    order = in_order = None
    if not array.flags.c_contiguous:
        order = stride_order(array.shape, list(array.strides))[::-1]
        in_order = array.transpose(order)
    # A kernel would write to read-only memory, and crash where that is a file; NumPy refuses.
    in_c = KERNELS is not None and not Settings.portable
    into = in_c and type(array) is np.ndarray and array.flags.writeable
    if into and in_order is not None:
        into = in_order.flags.c_contiguous

    def values(room: Any = None) -> Any:
        """Drawn into a room; None: they are there."""
        there = None
        if into and room is not None:
            there = Into(stream, room if order is None else room.transpose(order))
        shape = array.shape if in_order is None else in_order.shape
        made = draw(there or stream, shape, array.dtype)
        if there is not None and there.has_drawn:
            return None
        return made if order is None else made.transpose(np.argsort(order).tolist())

    return overwrite(block, target, values, name, shown)


# For who records it: which of its arguments it overwrites as a whole, and which one is its name.
redraw_plain.__wrapped__.overwrites = (1, 2)  # type: ignore[attr-defined]


@api(function=False)
def normal_(self: Any, mean: float = 0, std: float = 1, *, generator: Any = None) -> Any:
    """normal_(mean=0, std=1, *, generator=None) -> Tensor: fill this tensor with normally
    distributed random numbers.

    >>> zeros(2).normal_(5.0, 0.0)
    tensor([5., 5.])
    """

    def draw(stream: Any, shape: Any, dtype: Any, contiguous: bool) -> Any:
        return stream.home.normal(stream, shape, dtype, float(mean), float(std), contiguous)

    return redraw(NORMAL_, self, "normal_", draw, generator, ordered=True, mean=mean, std=std)


@api(function=False)
def uniform_(self: Any, *bounds: Any, generator: Any = None, **kwargs: Any) -> Any:
    """uniform_(from=0, to=1, *, generator=None) -> Tensor: fill this tensor with random numbers
    uniform in [from, to).

    >>> zeros(2).uniform_(5.0, 5.0)
    tensor([5., 5.])
    """
    low, high = interval("uniform_", bounds, kwargs, (0.0, 1.0))

    def draw(stream: Any, shape: Any, dtype: Any) -> Any:
        return stream.home.uniform(stream, shape, dtype, float(low), float(high))

    return redraw(UNIFORM_, self, "uniform_", draw, generator, **{"from": low, "to": high})


def interval(
    function: str, bounds: tuple[Any, ...], kwargs: dict[str, Any], default: tuple[Any, Any]
) -> tuple[Any, Any]:
    """The arguments `from` and `to`; the first is a keyword of Python's."""
    for name in kwargs:
        if name not in ("from", "to"):
            raise TypeError(f"{function}() got an unexpected keyword argument '{name}'")
    low = bounds[0] if bounds else kwargs.get("from", default[0])
    return low, bounds[1] if len(bounds) > 1 else kwargs.get("to", default[1])


@api(function=False)
def random_(self: Any, *bounds: Any, generator: Any = None, **kwargs: Any) -> Any:
    """random_(from=0, to=None, *, generator=None) -> Tensor: fill this tensor with random integers
    in [from, to).

    >>> zeros(2).random_(5, 6)
    tensor([5., 5.])
    """
    if len(bounds) == 1 and not kwargs:
        bounds = (0, bounds[0])
        block = RANDOM_TO
    else:
        block = RANDOM_FROM if bounds or kwargs else RANDOM_
    low, high = interval("random_", bounds, kwargs, (None if block is RANDOM_ else 0, None))

    def draw(stream: Any, shape: Any, dtype: Any) -> Any:
        return stream.home.integers(stream, shape, dtype, low, high)

    return redraw(block, self, "random_", draw, generator)


@api(function=False)
def bernoulli_(self: Any, p: Any = 0.5, *, generator: Any = None) -> Any:
    """bernoulli_(p=0.5, *, generator=None) -> Tensor: filled with ones and zeros.

    >>> zeros(2).bernoulli_(1)
    tensor([1., 1.])
    """
    check_overlap(self._array, ())
    if not isinstance(p, TensorBase):
        if self._array.dtype.kind == "c":
            raise not_implemented("bernoulli_scalar_cpu_", self.dtype)
        chance = float(p)

        def draw(stream: Any, shape: Any, dtype: Any) -> Any:
            return stream.home.bernoulli(stream, chance, shape, dtype)

        return redraw(BERNOULLI_, self, "bernoulli_", draw, generator, p=chance)
    stream = stream_of(generator, "bernoulli_", place_of(self))
    if BATCHES:
        return coins_in_batch(self, p, stream)
    return coins(self, p, stream)


def coins(target: Any, p: Any, stream: Any) -> Any:
    """Overwrite a tensor with ones and zeros, with a chance for each element."""
    array = target._array
    try:
        chances = xp_of(p._array).broadcast_to(p._array, array.shape)
    except ValueError:
        raise expand_refused(p._array.shape, array.shape) from None
    value = stream.home.bernoulli(stream, chances, array.shape, array.dtype)
    return overwrite(BERNOULLI_TENSOR, target, value, "bernoulli_")


def coins_in_batch(target: Any, p: Any, stream: Any) -> Any:
    """Draw coins for a tensor under vmap; the chances, too, may be batched."""
    if not is_batched(p):
        return batched_random.into(target, lambda t: coins(t, p, stream))
    if batched_random.drawing() and not is_batched(target):
        raise narrow("inplace bernoulli")

    def draw(chances: Any) -> Any:
        array = chances._array
        return wrap(stream.home.bernoulli(stream, array, array.shape, target._array.dtype))

    target.copy_(batched_random.of_tensors(draw, p.expand(target._array.shape)))
    return target


def expand_refused(have: tuple[int, ...], want: tuple[int, ...]) -> Exception:
    """PyTorch's sentence for a shape that does not expand to another."""
    for dim in range(len(want) - 1, -1, -1):
        i = dim - len(want) + len(have)
        if i >= 0 and have[i] not in (1, want[dim]):
            return RuntimeError(
                f"The expanded size of the tensor ({want[dim]}) must match the existing size "
                f"({have[i]}) at non-singleton dimension {dim}.  Target sizes: {list(want)}.  "
                f"Tensor sizes: {list(have)}"
            )
    return RuntimeError(
        f"The expanded size of the tensor must have at least as many dimensions as the tensor: "
        f"{list(want)} and {list(have)}"
    )


@api(function=False)
def exponential_(self: Any, lambd: float = 1, *, generator: Any = None) -> Any:
    """exponential_(lambd=1, *, generator=None) -> Tensor: fill this tensor with exponentially
    distributed random numbers.

    >>> (zeros(3).exponential_() >= 0).all()
    tensor(True)
    """

    def draw(stream: Any, shape: Any, dtype: Any) -> Any:
        return stream.home.exponential(stream, shape, dtype, float(lambd))

    return redraw(EXPONENTIAL_, self, "exponential_", draw, generator)


@api(function=False)
def cauchy_(self: Any, median: float = 0, sigma: float = 1, *, generator: Any = None) -> Any:
    """cauchy_(median=0, sigma=1, *, generator=None) -> Tensor: fill this tensor with random
    numbers of Cauchy's distribution.

    >>> zeros(2).cauchy_().shape
    torch.Size([2])
    """

    def draw(stream: Any, shape: Any, dtype: Any) -> Any:
        return stream.home.cauchy(stream, shape, dtype, float(median), float(sigma))

    return redraw(CAUCHY_, self, "cauchy_", draw, generator)


@api(function=False)
def log_normal_(self: Any, mean: float = 1, std: float = 2, *, generator: Any = None) -> Any:
    """log_normal_(mean=1, std=2, *, generator=None) -> Tensor: filled with exponentials of normals.

    >>> (zeros(3).log_normal_() > 0).all()
    tensor(True)
    """

    def draw(stream: Any, shape: Any, dtype: Any) -> Any:
        return stream.home.log_normal(stream, shape, dtype, float(mean), float(std))

    return redraw(LOG_NORMAL_, self, "log_normal_", draw, generator)


@api(function=False)
def geometric_(self: Any, p: float, *, generator: Any = None) -> Any:
    """geometric_(p, *, generator=None) -> Tensor: filled with throws up to the first success.

    >>> (zeros(3).geometric_(0.5) >= 1).all()
    tensor(True)
    """

    def draw(stream: Any, shape: Any, dtype: Any) -> Any:
        return stream.home.geometric(stream, shape, dtype, float(p))

    return redraw(GEOMETRIC_, self, "geometric_", draw, generator)
