"""Random tensors from tensors of parameters: `normal`, `bernoulli`, `multinomial` and the rest."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import dtypes
from .core import rejection, streams
from .core.base import TensorBase
from .core.dispatch import apply
from .core.outputs import check_memory
from .creation import checked_out, checked_tensor, made, resize_out
from .defaults import whole
from .ops.block import Block, Case, api, op
from .ops.refuse import not_implemented
from .ops.samples import Draw
from .random import drawn, stream_of

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
    " * (float mean, float std, tuple of ints size, *, torch.Generator generator = None, Tensor "
    "out = None, torch.dtype dtype = None, torch.layout layout = None, torch.device device = None, "
    "bool pin_memory = False, bool requires_grad = False)\n"
)


@api(method=False)
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
            return streams.normal(stream, shape, dtype, float(mean), float(std))

        return drawn(
            "normal",
            (size,),
            {},
            draw,
            generator,
            dtype,
            layout,
            device,
            pin_memory,
            requires_grad,
            out,
        )
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


@api(samples=[Case(Draw(3, low=0.0, high=1.0)), Case(Draw(4, 5, low=0.0, high=1.0, layout="T"))])
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
        check_memory("bernoulli", out.array, [])
        resize_out(out, value.shape)
        out.array[...] = value
        return out
    return apply(BernoulliDraw, (input,), (value,))


@api(method=False, samples=[Case(Draw(3, low=0.0, high=9.0)), Case(Draw(2, 2, low=9.0, high=30.0))])
def poisson(input: Any, generator: Any = None) -> Any:
    """poisson(input, generator=None) -> Tensor: counts with these rates.

    >>> poisson(tensor([0.0]))
    tensor([0.])
    """
    kind = dtypes.of(checked_tensor(input, "poisson").array.dtype)
    if not kind.is_floating_point:
        raise not_implemented("poisson_cpu", kind)
    return apply(
        PoissonDraw, (input,), (rejection.poisson(stream_of(generator, "poisson"), input.array),)
    )


@api(method=False)
def binomial(count: Any, prob: Any, generator: Any = None) -> Any:
    """binomial(count, prob, generator=None) -> Tensor: successes among `count` throws.

    >>> binomial(tensor([3.0]), tensor([1.0]))
    tensor([3.])
    """
    counts, chances = np.broadcast_arrays(
        checked_tensor(count, "binomial", "count").array,
        checked_tensor(prob, "binomial", "prob", 2).array,
    )
    return made(rejection.binomial(stream_of(generator, "binomial"), counts, chances))


@api(samples=[Case(Draw(5, low=0.1), 3), Case(Draw(2, 4, low=0.1), 6, True)])
def multinomial(
    input: Any,
    num_samples: Any,
    replacement: bool = False,
    *,
    generator: Any = None,
    out: Any = None,
) -> Any:
    """multinomial(input, num_samples, replacement=False, *) -> Tensor: weighted indices.

    >>> multinomial(tensor([0.0, 3.0, 0.0]), 1)
    tensor([1])
    """
    checked_tensor(input, "multinomial")
    stream = stream_of(generator, "multinomial")
    if input.array.ndim and input.array.shape[-1] > 1 << 24:
        raise RuntimeError("number of categories cannot exceed 2^24")
    value = streams.multinomial(stream, input.array, whole(num_samples), bool(replacement))
    if out is None:
        return made(value)
    if out.array.dtype != value.dtype:
        raise RuntimeError(f"multinomial expects Long tensor out, got: {out.dtype.scalar_type}")
    resize_out(out, value.shape)
    out.array[...] = value
    return out
