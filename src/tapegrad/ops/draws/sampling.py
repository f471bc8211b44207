"""Random tensors from tensors of parameters: `normal`, `bernoulli`, `multinomial` and the rest."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import dtypes
from ...core.base import STATE, TensorBase
from ...core.devices import stand_in, xp_of
from ...core.late_bound import PROFILER
from ...core.python_dispatch import called_as_a_whole
from ...core.transforms import batched_random
from ...core.transforms.levels import BATCHES
from ..block import apply
from ..block.checks import not_implemented
from ..block.definition import Block, Case, api, op
from ..block.out_argument import check_memory, store
from ..block.samples import Draw
from ..creation.arguments import whole
from ..creation.sized import checked_out, checked_tensor, made, resize_out
from . import rejection, streams
from .generators import place_of, stream_of
from .tensors import drawn

# Blocks: their first argument is not a `self`.
# ruff: noqa: N805


class Draws(Block):
    """A random result depends on its inputs in no way that a gradient could follow: zeros go "
    "back."""

    public = False
    unbatchable = "random numbers: how a batch draws them is decided outside the op"

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
    aten = "normal.Tensor_float"


@op
class NormalStd(Draws):
    """normal_std(std, value) -> Tensor: `normal` with a tensor of deviations."""

    node = "NormalBackward2"
    aten = "normal.float_Tensor"


@op
class NormalMeanStd(Draws):
    """normal_mean_std(mean, std, value) -> Tensor: `normal` with tensors of both."""

    node = "NormalBackward3"
    aten = "normal.Tensor_Tensor"
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
    aten = "bernoulli"


@op
class PoissonDraw(Draws):
    """poisson_draw(input, value) -> Tensor: `poisson` of a tensor of rates."""

    node = "PoissonBackward0"
    aten = "poisson"


def draws_as_a_whole(function: Any) -> Any:
    """Called again as it is, or by the kernels that it called (compiler/capture/recorder.py)."""
    function.draws = True
    return called_as_a_whole(function)


NORMAL_USAGE = (
    "normal() received an invalid combination of arguments - got ({}), but expected one of:\n"
    " * (Tensor mean, Tensor std, *, torch.Generator generator = None, Tensor out = None)\n"
    " * (Tensor mean, float std = 1, *, torch.Generator generator = None, Tensor out = None)\n"
    " * (float mean, Tensor std, *, torch.Generator generator = None, Tensor out = None)\n"
    " * (float mean, float std, tuple of ints size, *, torch.Generator generator = None, Tensor "
    "out = None, torch.dtype dtype = None, torch.layout layout = None, torch.device device = None, "
    "bool pin_memory = False, bool requires_grad = False)\n"
)


@api(method=False, direct=True, follows=True)
def normal(
    mean: Any = 0.0,
    std: Any = 1.0,
    size: Any = None,
    *,
    generator: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    out: Any = None,
) -> Any:
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
            return stream.home.normal(stream, shape, dtype, float(mean), float(std))

        options = (dtype, layout, device, pin_memory, requires_grad)
        return drawn("normal", (size,), {}, draw, generator, out, options)
    stream = stream_of(generator, "normal", place_of(mean if tensors[0] else std))
    if all(tensors):
        result = sampled(lambda m, s: normals(NormalMeanStd, (m, s), m, s, stream), mean, std)
    elif tensors[0]:
        result = sampled(lambda m: normals(NormalMean, (m,), m, std, stream), mean)
    else:
        result = sampled(lambda s: normals(NormalStd, (s,), mean, s, stream), std)
    if out is None:
        return result
    checked_out("normal", out, None)
    store("normal", out, result._array)
    return out


def sampled(draw: Any, *tensors: Any) -> Any:
    """`draw(*tensors)`, where vmap may want it for a batch."""
    return batched_random.of_tensors(draw, *tensors) if BATCHES else draw(*tensors)


def normals(block: Any, tensors: Any, mean: Any, std: Any, stream: Any) -> Any:
    return apply(block, tensors, (normal_values(mean, std, stream),))


def normal_values(mean: Any, std: Any, stream: Any) -> Any:
    """Standard normals, scaled and shifted afterwards, each step rounded."""
    m = mean._array if isinstance(mean, TensorBase) else mean
    s = std._array if isinstance(std, TensorBase) else std
    own = mean if isinstance(mean, TensorBase) else std
    if isinstance(std, TensorBase):
        if s.dtype.kind == "c":
            raise RuntimeError("normal expects standard deviation to be non-complex")
        if s.size and type(s) is not STATE.meta_type and not (s >= 0).all():
            raise RuntimeError("normal expects all elements of std >= 0.0")
    elif not s >= 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {s:g}")
    if all([isinstance(v, TensorBase) for v in (mean, std)]) and m.shape != s.shape:
        from ...errors import check_broadcast

        check_broadcast([stand_in(m), stand_in(s)])
    shape = np.broadcast_shapes(getattr(m, "shape", ()), getattr(s, "shape", ()))
    dtype = own._array.dtype
    unit = stream.home.normal(stream, shape, dtype)
    return (unit * of_dtype(s, dtype) + of_dtype(m, dtype)).astype(dtype)


def of_dtype(value: Any, dtype: Any) -> Any:
    """An array, or a number, in a dtype."""
    return value.astype(dtype) if hasattr(value, "astype") else np.asarray(value).astype(dtype)[()]


@api(samples=[Case(Draw(3, low=0.0, high=1.0)), Case(Draw(4, 5, low=0.0, high=1.0, layout="T"))])
@draws_as_a_whole
def bernoulli(input: Any, p: Any = None, *, generator: Any = None, out: Any = None) -> Any:
    """bernoulli(input, *, generator=None) -> Tensor: ones with the chances given, zeros else.

    >>> bernoulli(tensor([0.0, 1.0]))
    tensor([0., 1.])
    """
    checked_tensor(input, "bernoulli")
    stream = stream_of(generator, "bernoulli", place_of(input))

    def draw(chances: Any) -> Any:
        array = chances._array
        chance = float(p) if p is not None else xp_of(array).ascontiguousarray(array)
        value = stream.home.bernoulli(stream, chance, array.shape, array.dtype)
        return apply(BernoulliDraw, (chances,), (value,))

    if out is None:
        return sampled(draw, input)
    value = draw(input)._array
    checked_out("bernoulli", out, None)
    check_memory(out._array, [])
    resize_out(out, value.shape)
    out._array[...] = value
    return out


@api(method=False, samples=[Case(Draw(3, low=0.0, high=9.0)), Case(Draw(2, 2, low=9.0, high=30.0))])
@called_as_a_whole
def poisson(input: Any, generator: Any = None) -> Any:
    """poisson(input, generator=None) -> Tensor: counts with these rates.

    >>> poisson(tensor([0.0]))
    tensor([0.])
    """
    kind = dtypes.of(checked_tensor(input, "poisson")._array.dtype)
    place = place_of(input)
    if not kind.is_floating_point:
        raise not_implemented("poisson_cpu" if place is None else "poisson_cuda", kind)
    stream = stream_of(generator, "poisson", place)
    counts = rejection if stream.home is streams else stream.home
    return sampled(
        lambda rates: apply(PoissonDraw, (rates,), (counts.poisson(stream, rates._array),)), input
    )


@api(method=False)
@called_as_a_whole
def binomial(count: Any, prob: Any, generator: Any = None) -> Any:
    """binomial(count, prob, generator=None) -> Tensor: successes among `count` throws.

    >>> binomial(tensor([3.0]), tensor([1.0]))
    tensor([3.])
    """
    checked_tensor(count, "binomial", "count")
    checked_tensor(prob, "binomial", "prob", 2)
    place = place_of(count)
    check_binomial(count, prob, place is None)
    stream = stream_of(generator, "binomial", place)
    counts = rejection if stream.home is streams else stream.home

    def draw(n: Any, p: Any) -> Any:
        pair = xp_of(n._array).broadcast_arrays(n._array, p._array)
        return made(counts.binomial(stream, *pair))

    return sampled(draw, count, prob)


def check_binomial(count: Any, prob: Any, on_cpu: bool) -> None:
    kinds = [dtypes.of(t._array.dtype) for t in (count, prob)]
    for name, kind in zip(("count", "prob"), kinds, strict=True):
        if not kind.is_floating_point:
            raise ValueError(
                f"binomial only supports floating-point dtypes for {name}, got: {kind.scalar_type}"
            )
    first, second = kinds
    if first is not second:
        raise RuntimeError(f"Found dtype {second.scalar_type} but expected {first.scalar_type}")
    if on_cpu and first.itemsize == 2:
        raise not_implemented("binomial_cpu", first)


@api(
    samples=[Case(Draw(5, low=0.1), 3), Case(Draw(2, 4, low=0.1), 6, True)],
    out_dtype="{name} expects Long tensor out, got: {got}",
)
@draws_as_a_whole
def multinomial(
    input: Any,
    num_samples: Any,
    replacement: bool = False,
    *,
    generator: Any = None,
    out: Any = None,
) -> Any:
    """multinomial(input, num_samples, replacement=False, *) -> Tensor: indices drawn at random,
    `input` being their weights.

    >>> multinomial(tensor([0.0, 3.0, 0.0]), 1)
    tensor([1])
    """
    checked_tensor(input, "multinomial")
    stream = stream_of(generator, "multinomial", place_of(input))
    if input._array.ndim and input._array.shape[-1] > 1 << 24:
        raise RuntimeError("number of categories cannot exceed 2^24")
    count = whole(num_samples)
    if BATCHES:
        return batched_random.of_tensors(
            lambda t: made(picked(stream, t._array, count, bool(replacement))), input
        )
    if STATE.timing:
        PROFILER.start("multinomial", (input,))
    value = stream.home.multinomial(stream, input._array, count, bool(replacement))
    if STATE.timing:
        PROFILER.stop("multinomial")
    if out is None:
        return made(value)
    if out._array.dtype != value.dtype:
        raise RuntimeError(f"multinomial expects Long tensor out, got: {out.dtype.scalar_type}")
    resize_out(out, value.shape)
    out._array[...] = value
    return out


def picked(stream: Any, weights: Any, count: int, replacement: bool) -> Any:
    """`multinomial` of a batch of matrices or rows: all the rows in one matrix."""
    *lead, width = weights.shape
    rows = weights.reshape(-1, width) if len(lead) > 1 else weights
    found = stream.home.multinomial(stream, rows, count, replacement)
    return found.reshape(*lead, count)
