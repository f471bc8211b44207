"""Random tensors: PyTorch's functions and generators on the streams of core/streams.py."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from . import dtypes
from .autograd.inplace import overwrite
from .core import streams
from .core.base import TensorBase, wrap
from .core.dispatch import apply
from .creation import check_options, checked_out, checked_tensor, like, made, resize_out, stride_order
from .defaults import INSTALL, np_dtype, sizes, whole
from .device import CPU
from .device import device as device_type
from .ops.block import Block, api, op

# Blocks: their first argument is not a `self`.
# ruff: noqa: N805


class Generator:
    """A source of random numbers with a state of its own.

    >>> rand(1, generator=Generator().manual_seed(0))
    tensor([0.4963])
    """

    def __init__(self, device: Any = "cpu") -> None:
        found = device_type(device)
        if found.type != "cpu":
            raise RuntimeError(
                f"Cannot get {found.type.upper()} generator without ATen_{found.type} library.\n  {INSTALL}"
            )
        self.stream = streams.Stream()

    device = CPU

    def manual_seed(self, seed: int) -> Generator:
        """Start again from `seed`; returns self."""
        if isinstance(seed, np.integer):
            raise TypeError("an integer is required")
        self.stream.manual_seed(seed)
        return self

    def seed(self) -> int:
        """Start again from a seed that nobody can know beforehand, and return it."""
        return self.stream.seed()

    def initial_seed(self) -> int:
        """The seed that the numbers started from."""
        return self.stream.initial_seed()

    def get_state(self) -> Any:
        """The state, as a byte tensor."""
        return wrap(self.stream.get_state())

    def set_state(self, new_state: Any) -> Generator:
        """Go on from a state; returns self."""
        if not isinstance(new_state, TensorBase):
            raise TypeError(f"expected a torch.ByteTensor, but got {type(new_state).__name__}")
        self.stream.set_state(new_state.array)
        return self

    def clone_state(self) -> Generator:
        """A generator of its own that will draw the same numbers."""
        new = Generator()
        new.stream = self.stream.copy()
        return new

    graphsafe_get_state = clone_state

    def __repr__(self) -> str:
        return f"<torch._C.Generator object at {id(self):#x}>"

    def __reduce__(self) -> Any:
        return restored, (self.stream.get_state(),)


def restored(state: Any) -> Generator:
    new = Generator()
    new.stream.set_state(state)
    return new


default_generator = Generator()


def stream_of(generator: Any, function: str = "rand") -> streams.Stream:
    if generator is None:
        return default_generator.stream
    if not isinstance(generator, Generator):
        raise TypeError(
            f"{function}(): argument 'generator' must be torch.Generator, not {type(generator).__name__}"
        )
    return generator.stream


@api(method=False)
def manual_seed(seed: Any) -> Generator:
    """manual_seed(seed) -> Generator: start the random numbers again from `seed`.

    >>> _ = manual_seed(0)
    >>> rand(1)
    tensor([0.4963])
    """
    return default_generator.manual_seed(int(seed))


@api(method=False)
def seed() -> int:
    """seed() -> int: start the random numbers again from anywhere; returns the seed."""
    return default_generator.seed()


@api(method=False)
def initial_seed() -> int:
    """initial_seed() -> int: the seed that the random numbers started from."""
    return default_generator.initial_seed()


@api(method=False)
def get_rng_state() -> Any:
    """get_rng_state() -> Tensor: the state of the random numbers, as bytes.

    >>> get_rng_state().shape
    torch.Size([5056])
    """
    return default_generator.get_state()


@api(method=False)
def set_rng_state(new_state: Any) -> None:
    """set_rng_state(new_state) -> None: go on from a state of `get_rng_state`."""
    default_generator.set_state(new_state)


@contextlib.contextmanager
def fork_rng(devices: Any = None, enabled: bool = True, _caller: str = "fork_rng",
             _devices_kw: str = "devices", device_type: str = "cuda") -> Iterator[None]:
    """Leave the random numbers, at the end of the block, where they were at its start."""
    state = default_generator.stream.copy() if enabled else None
    try:
        yield
    finally:
        if state is not None:
            default_generator.stream = state


# ---------------------------------------------------------------------- from sizes


def drawn(function: str, size: tuple[Any, ...], kwargs: dict[str, Any], draw: Any, generator: Any,
          dtype: Any, layout: Any, device: Any, pin_memory: bool, requires_grad: bool, out: Any,
          default: Any = None) -> Any:
    """A new tensor (or `out`) of a size with what `draw(stream, shape, dtype)` gives."""
    if not size and "size" not in kwargs:
        raise TypeError(
            f"{function}() received an invalid combination of arguments - got (), but expected one of:\n"
            " * (tuple of ints size, *, torch.Generator generator, Tensor out = None, torch.dtype dtype = "
            "None, torch.layout layout = None, torch.device device = None, bool pin_memory = False, "
            "bool requires_grad = False)\n"
        )
    shape = sizes(function, size, kwargs)
    wanted = np_dtype(dtype, function)
    check_options(function, device, layout, pin_memory)
    stream = stream_of(generator, function)
    if out is not None:
        checked_out(function, out, wanted)
        resize_out(out, shape)
        out.array[...] = draw(stream, shape, out.array.dtype)
        out.version_cell().bump(function)
        return out
    return made(draw(stream, shape, wanted or default or dtypes.default_np()), requires_grad)


@api(method=False)
def rand(*size: Any, generator: Any = None, out: Any = None, dtype: Any = None, layout: Any = None,
         device: Any = None, requires_grad: bool = False, pin_memory: bool = False, **kwargs: Any) -> Any:
    """rand(*size, generator=None, dtype=None, requires_grad=False) -> Tensor: uniform in [0, 1).

    >>> _ = manual_seed(0)
    >>> rand(2)
    tensor([0.4963, 0.7682])
    """
    return drawn("rand", size, kwargs, streams.uniform, generator, dtype, layout, device, pin_memory,
                 requires_grad, out)


@api(method=False)
def randn(*size: Any, generator: Any = None, out: Any = None, dtype: Any = None, layout: Any = None,
          device: Any = None, requires_grad: bool = False, pin_memory: bool = False, **kwargs: Any) -> Any:
    """randn(*size, generator=None, dtype=None, requires_grad=False) -> Tensor: standard normal.

    >>> _ = manual_seed(0)
    >>> randn(2)
    tensor([ 1.5410, -0.2934])
    """
    return drawn("randn", size, kwargs, streams.normal, generator, dtype, layout, device, pin_memory,
                 requires_grad, out)


RANDINT_USAGE = (
    "randint() received an invalid combination of arguments - got ({}), but expected one of:\n"
    " * (int high, tuple of ints size, *, torch.Generator generator = None, Tensor out = None, "
    "torch.dtype dtype = None, torch.layout layout = None, torch.device device = None, "
    "bool pin_memory = False, bool requires_grad = False)\n"
    " * (int low, int high, tuple of ints size, *, torch.Generator generator = None, Tensor out = None, "
    "torch.dtype dtype = None, torch.layout layout = None, torch.device device = None, "
    "bool pin_memory = False, bool requires_grad = False)\n"
)


@api(method=False)
def randint(*args: Any, low: Any = None, high: Any = None, size: Any = None, generator: Any = None,
            out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
            requires_grad: bool = False, pin_memory: bool = False) -> Any:
    """randint(low=0, high, size, *, generator=None, dtype=int64) -> Tensor: integers in [low, high).

    >>> _ = manual_seed(0)
    >>> randint(10, (3,))
    tensor([4, 9, 3])
    """
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
                f"randint(): argument '{name}' (position {i + 1}) must be int, not {type(value).__name__}"
            )
    bounds = [whole(v) for v in values[:-1]]
    first, last = (0, bounds[0]) if len(bounds) == 1 else bounds

    def draw(stream: Any, shape: Any, dtype: Any) -> Any:
        return streams.integers(stream, shape, dtype, first, last)

    return drawn("randint", (values[-1],), {}, draw, generator, dtype, layout, device, pin_memory,
                 requires_grad, out, default=dtypes.int64.np)


@api(method=False)
def randperm(n: Any, *, generator: Any = None, out: Any = None, dtype: Any = None, layout: Any = None,
             device: Any = None, requires_grad: bool = False, pin_memory: bool = False) -> Any:
    """randperm(n, *, generator=None, dtype=int64) -> Tensor: the numbers below `n` in random order.

    >>> _ = manual_seed(0)
    >>> randperm(4)
    tensor([2, 0, 1, 3])
    """
    if not hasattr(n, "__index__"):
        raise TypeError(f"randperm(): argument 'n' (position 1) must be int, not {type(n).__name__}")
    count = whole(n)

    def draw(stream: Any, shape: Any, dtype: Any) -> Any:
        check_holds(count, dtype)
        return streams.permutation(stream, count, dtype)

    return drawn("randperm", ((count,),), {}, draw, generator, dtype, layout, device, pin_memory,
                 requires_grad, out, default=dtypes.int64.np)


def check_holds(count: int, dtype: Any) -> None:
    from .from_data import fill_value

    if count:
        fill_value(count, dtype)


# ---------------------------------------------------------------------- like others


def drawn_like(function: str, input: Any, draw: Any, dtype: Any, layout: Any, device: Any,
               pin_memory: bool, requires_grad: bool, memory_format: Any, generator: Any = None) -> Any:
    checked_tensor(input, function)
    wanted = np_dtype(dtype, function)
    check_options(function, device, layout, pin_memory)
    array = like(input, wanted, memory_format)
    fill(array, draw, stream_of(generator, function))
    return made(array, requires_grad)


def fill(array: Any, draw: Any, stream: Any) -> None:
    """Write what is drawn in the order in which the elements of `array` lie in memory."""
    inner = array.transpose(stride_order(array.shape, list(array.strides))[::-1])
    inner[...] = draw(stream, inner.shape, array.dtype)


@api(method=False)
def rand_like(input: Any, *, generator: Any = None, dtype: Any = None, layout: Any = None,
              device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
              memory_format: Any = None) -> Any:
    """rand_like(input, *, dtype=None) -> Tensor: uniform in [0, 1), of its shape.

    >>> rand_like(zeros(2, 3)).shape
    torch.Size([2, 3])
    """
    return drawn_like("rand_like", input, streams.uniform, dtype, layout, device, pin_memory,
                      requires_grad, memory_format, generator)


@api(method=False)
def randn_like(input: Any, *, generator: Any = None, dtype: Any = None, layout: Any = None,
               device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
               memory_format: Any = None) -> Any:
    """randn_like(input, *, dtype=None) -> Tensor: standard normal, of its shape.

    >>> randn_like(zeros(2, 3)).shape
    torch.Size([2, 3])
    """
    return drawn_like("randn_like", input, streams.normal, dtype, layout, device, pin_memory,
                      requires_grad, memory_format, generator)


@api(method=False)
def randint_like(input: Any, low: Any = None, high: Any = None, *, generator: Any = None,
                 dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: bool = False,
                 requires_grad: bool = False, memory_format: Any = None) -> Any:
    """randint_like(input, low=0, high, *, dtype=None) -> Tensor: integers in [low, high), of its shape.

    >>> randint_like(zeros(2), 0, 1)
    tensor([0., 0.])
    """
    if high is None:
        low, high = 0, low
    first, last = whole(0 if low is None else low), whole(high)

    def draw(stream: Any, shape: Any, dtype: Any) -> Any:
        return streams.integers(stream, shape, dtype, first, last)

    return drawn_like("randint_like", input, draw, dtype, layout, device, pin_memory, requires_grad,
                      memory_format, generator)


# ---------------------------------------------------------------------- from parameters


class Draws(Block):
    """A random result depends on its inputs in no way that a gradient could follow: zeros go back."""

    public = False

    def fwd(xp, input, value):
        return value

    def d_input(F, grad):
        return F.zeros_like(grad)

    def jvp(F, t_input):
        return F.zeros_like(t_input)


@op
class NormalMean(Draws):
    """normal_mean(mean, value) -> Tensor: `normal` with a tensor of means."""

    node = "NormalBackward1"


@op
class NormalStd(Draws):
    """normal_std(std, value) -> Tensor: `normal` with a tensor of deviations."""

    node = "NormalBackward2"


@op
class NormalMeanStd(Draws):
    """normal_mean_std(mean, std, value) -> Tensor: `normal` with tensors of both."""

    node = "NormalBackward3"
    tensors = ("input", "std")
    broadcasts = True

    def fwd(xp, input, std, value):
        return value

    def d_std(F, grad):
        return F.zeros_like(grad)

    def jvp(F, t_input, t_std, out):
        return F.zeros_like(out)


@op
class BernoulliDraw(Draws):
    """bernoulli_draw(input, value) -> Tensor: `bernoulli` of a tensor of chances."""

    node = "BernoulliBackward0"


@op
class PoissonDraw(Draws):
    """poisson_draw(input, value) -> Tensor: `poisson` of a tensor of rates."""

    node = "PoissonBackward0"


NORMAL_USAGE = (
    "normal() received an invalid combination of arguments - got ({}), but expected one of:\n"
    " * (Tensor mean, Tensor std, *, torch.Generator generator = None, Tensor out = None)\n"
    " * (Tensor mean, float std = 1, *, torch.Generator generator = None, Tensor out = None)\n"
    " * (float mean, Tensor std, *, torch.Generator generator = None, Tensor out = None)\n"
    " * (float mean, float std, tuple of ints size, *, torch.Generator generator = None, Tensor out = None, "
    "torch.dtype dtype = None, torch.layout layout = None, torch.device device = None, "
    "bool pin_memory = False, bool requires_grad = False)\n"
)


@api(method=False)
def normal(mean: Any = 0.0, std: Any = 1.0, size: Any = None, *, generator: Any = None, dtype: Any = None,
           layout: Any = None, device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
           out: Any = None) -> Any:
    """normal(mean, std=1.0, size=None, *, generator=None) -> Tensor: normal with these parameters.

    >>> _ = manual_seed(0)
    >>> normal(tensor([0.0, 100.0]), tensor([1.0, 0.0]))
    tensor([  1.5410, 100.0000])
    """
    tensors = [isinstance(v, TensorBase) for v in (mean, std)]
    if not any(tensors):
        if size is None:
            raise TypeError(NORMAL_USAGE.format(f"{type(mean).__name__}, {type(std).__name__}"))

        def draw(stream: Any, shape: Any, dtype: Any) -> Any:
            return streams.normal(stream, shape, dtype, float(mean), float(std))

        return drawn("normal", (size,), {}, draw, generator, dtype, layout, device, pin_memory,
                     requires_grad, out)
    values = normal_values(mean, std, stream_of(generator, "normal"))
    if all(tensors):
        result = apply(NormalMeanStd, (mean, std), (values,))
    elif tensors[0]:
        result = apply(NormalMean, (mean,), (values,))
    else:
        result = apply(NormalStd, (std,), (values,))
    if out is None:
        return result
    checked_out("normal", out, None)
    resize_out(out, values.shape)
    out.array[...] = values
    return out


def normal_values(mean: Any, std: Any, stream: Any) -> Any:
    """Standard normals, scaled and shifted afterwards, each step rounded."""
    m = mean.array if isinstance(mean, TensorBase) else mean
    s = std.array if isinstance(std, TensorBase) else std
    own = mean if isinstance(mean, TensorBase) else std
    if isinstance(s, np.ndarray):
        if s.dtype.kind == "c":
            raise RuntimeError("normal expects standard deviation to be non-complex")
        if s.size and not (s >= 0).all():
            raise RuntimeError("normal expects all elements of std >= 0.0")
    elif not s >= 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {s:g}")
    if all([isinstance(v, np.ndarray) for v in (m, s)]) and m.shape != s.shape:
        from .errors import check_broadcast

        check_broadcast([m, s])
    shape = np.broadcast_shapes(np.shape(m), np.shape(s))
    dtype = own.array.dtype
    unit = streams.normal(stream, shape, dtype)
    scale = np.asarray(s).astype(dtype)
    return (unit * scale + np.asarray(m).astype(dtype)).astype(dtype)


@api()
def bernoulli(input: Any, p: Any = None, *, generator: Any = None, out: Any = None) -> Any:
    """bernoulli(input, *, generator=None) -> Tensor: ones with the chances given, zeros else.

    >>> bernoulli(tensor([0.0, 1.0]))
    tensor([0., 1.])
    """
    checked_tensor(input, "bernoulli")
    stream = stream_of(generator, "bernoulli")
    array = input.array
    chance = float(p) if p is not None else np.ascontiguousarray(array)
    value = streams.bernoulli(stream, chance, array.shape, array.dtype)
    if out is not None:
        checked_out("bernoulli", out, None)
        resize_out(out, value.shape)
        out.array[...] = value
        return out
    return apply(BernoulliDraw, (input,), (value,))


@api(method=False)
def poisson(input: Any, generator: Any = None) -> Any:
    """poisson(input, generator=None) -> Tensor: counts with these rates.

    >>> poisson(tensor([0.0]))
    tensor([0.])
    """
    checked_tensor(input, "poisson")
    return apply(PoissonDraw, (input,), (streams.poisson(stream_of(generator, "poisson"), input.array),))


@api(method=False)
def binomial(count: Any, prob: Any, generator: Any = None) -> Any:
    """binomial(count, prob, generator=None) -> Tensor: successes among `count` throws.

    >>> binomial(tensor([3.0]), tensor([1.0]))
    tensor([3.])
    """
    counts, chances = np.broadcast_arrays(checked_tensor(count, "binomial", "count").array,
                                          checked_tensor(prob, "binomial", "prob", 2).array)
    return made(streams.binomial(stream_of(generator, "binomial"), counts, chances))


@api()
def multinomial(input: Any, num_samples: Any, replacement: bool = False, *, generator: Any = None,
                out: Any = None) -> Any:
    """multinomial(input, num_samples, replacement=False, *, generator=None) -> Tensor: weighted indices.

    >>> multinomial(tensor([0.0, 3.0, 0.0]), 1)
    tensor([1])
    """
    checked_tensor(input, "multinomial")
    stream = stream_of(generator, "multinomial")
    value = streams.multinomial(stream, input.array, whole(num_samples), bool(replacement))
    if out is None:
        return made(value)
    resize_out(out, value.shape)
    out.array[...] = value
    return out


# ---------------------------------------------------------------------- in place


class Filling(Block):
    """What stood there before has no influence: zeros go back."""

    public = False
    linear = True

    def fwd(xp, input):
        return xp.zeros_like(input)

    def d_input(F, grad):
        return F.zeros_like(grad)


def filling(name: str, node: str) -> Any:
    """A block for one in-place function."""
    body = {"name": name, "node": node, "__doc__": f"{name}(input) -> Tensor: values are overwritten."}
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


def redraw(block: Any, target: Any, name: str, draw: Any, generator: Any) -> Any:
    """Overwrite `target` with what `draw(stream, shape, dtype)` gives, in PyTorch's element order."""
    array = target.array
    stream = stream_of(generator, name)
    if array.flags.c_contiguous:
        value = draw(stream, array.shape, array.dtype)
    else:
        order = stride_order(array.shape, list(array.strides))[::-1]
        made_in_order = draw(stream, tuple([array.shape[i] for i in order]), array.dtype)
        value = made_in_order.transpose(np.argsort(order))
    return overwrite(block, target, value, name)


@api(function=False)
def normal_(self: Any, mean: float = 0, std: float = 1, *, generator: Any = None) -> Any:
    """normal_(mean=0, std=1, *, generator=None) -> Tensor: filled with normal numbers.

    >>> zeros(2).normal_(5.0, 0.0)
    tensor([5., 5.])
    """
    contiguous = bool(self.array.flags.c_contiguous)

    def draw(stream: Any, shape: Any, dtype: Any) -> Any:
        return streams.normal(stream, shape, dtype, float(mean), float(std), contiguous)

    return redraw(NORMAL_, self, "normal_", draw, generator)


@api(function=False)
def uniform_(self: Any, *bounds: Any, generator: Any = None, **kwargs: Any) -> Any:
    """uniform_(from=0, to=1, *, generator=None) -> Tensor: filled with uniform numbers.

    >>> zeros(2).uniform_(5.0, 5.0)
    tensor([5., 5.])
    """
    low, high = interval("uniform_", bounds, kwargs, (0.0, 1.0))

    def draw(stream: Any, shape: Any, dtype: Any) -> Any:
        return streams.uniform(stream, shape, dtype, float(low), float(high))

    return redraw(UNIFORM_, self, "uniform_", draw, generator)


def interval(function: str, bounds: tuple[Any, ...], kwargs: dict[str, Any],
             default: tuple[Any, Any]) -> tuple[Any, Any]:
    """The arguments `from` and `to`; the first is a keyword of Python's."""
    for name in kwargs:
        if name not in ("from", "to"):
            raise TypeError(f"{function}() got an unexpected keyword argument '{name}'")
    low = bounds[0] if bounds else kwargs.get("from", default[0])
    return low, bounds[1] if len(bounds) > 1 else kwargs.get("to", default[1])


@api(function=False)
def random_(self: Any, *bounds: Any, generator: Any = None, **kwargs: Any) -> Any:
    """random_(from=0, to=None, *, generator=None) -> Tensor: filled with integers.

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
        return streams.integers(stream, shape, dtype, low, high)

    return redraw(block, self, "random_", draw, generator)


@api(function=False)
def bernoulli_(self: Any, p: Any = 0.5, *, generator: Any = None) -> Any:
    """bernoulli_(p=0.5, *, generator=None) -> Tensor: filled with ones and zeros.

    >>> zeros(2).bernoulli_(1)
    tensor([1., 1.])
    """
    if not isinstance(p, TensorBase):
        chance = float(p)

        def draw(stream: Any, shape: Any, dtype: Any) -> Any:
            return streams.bernoulli(stream, chance, shape, dtype)

        return redraw(BERNOULLI_, self, "bernoulli_", draw, generator)
    array = self.array
    try:
        chances = np.broadcast_to(p.array, array.shape)
    except ValueError:
        raise expand_refused(p.array.shape, array.shape) from None
    value = streams.bernoulli(stream_of(generator, "bernoulli_"), chances, array.shape, array.dtype)
    return overwrite(BERNOULLI_TENSOR, self, value, "bernoulli_")


def expand_refused(have: tuple[int, ...], want: tuple[int, ...]) -> Exception:
    """PyTorch's sentence for a shape that does not expand to another."""
    for dim in range(len(want) - 1, -1, -1):
        i = dim - len(want) + len(have)
        if i >= 0 and have[i] not in (1, want[dim]):
            return RuntimeError(
                f"The expanded size of the tensor ({want[dim]}) must match the existing size ({have[i]}) "
                f"at non-singleton dimension {dim}.  Target sizes: {list(want)}.  Tensor sizes: {list(have)}"
            )
    return RuntimeError(
        f"The expanded size of the tensor must have at least as many dimensions as the tensor: "
        f"{list(want)} and {list(have)}"
    )


@api(function=False)
def exponential_(self: Any, lambd: float = 1, *, generator: Any = None) -> Any:
    """exponential_(lambd=1, *, generator=None) -> Tensor: filled with exponential numbers.

    >>> bool((zeros(3).exponential_() >= 0).all())
    True
    """

    def draw(stream: Any, shape: Any, dtype: Any) -> Any:
        return streams.exponential(stream, shape, dtype, float(lambd))

    return redraw(EXPONENTIAL_, self, "exponential_", draw, generator)


@api(function=False)
def cauchy_(self: Any, median: float = 0, sigma: float = 1, *, generator: Any = None) -> Any:
    """cauchy_(median=0, sigma=1, *, generator=None) -> Tensor: filled with Cauchy numbers.

    >>> zeros(2).cauchy_().shape
    torch.Size([2])
    """

    def draw(stream: Any, shape: Any, dtype: Any) -> Any:
        return streams.cauchy(stream, shape, dtype, float(median), float(sigma))

    return redraw(CAUCHY_, self, "cauchy_", draw, generator)


@api(function=False)
def log_normal_(self: Any, mean: float = 1, std: float = 2, *, generator: Any = None) -> Any:
    """log_normal_(mean=1, std=2, *, generator=None) -> Tensor: filled with exponentials of normals.

    >>> bool((zeros(3).log_normal_() > 0).all())
    True
    """

    def draw(stream: Any, shape: Any, dtype: Any) -> Any:
        return streams.log_normal(stream, shape, dtype, float(mean), float(std))

    return redraw(LOG_NORMAL_, self, "log_normal_", draw, generator)


@api(function=False)
def geometric_(self: Any, p: float, *, generator: Any = None) -> Any:
    """geometric_(p, *, generator=None) -> Tensor: filled with throws up to the first success.

    >>> bool((zeros(3).geometric_(0.5) >= 1).all())
    True
    """

    def draw(stream: Any, shape: Any, dtype: Any) -> Any:
        return streams.geometric(stream, shape, dtype, float(p))

    return redraw(GEOMETRIC_, self, "geometric_", draw, generator)
