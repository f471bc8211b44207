"""Batch norm and instance norm: every channel standardized over the batch, or within a sample."""

from __future__ import annotations

import math
from typing import Any

from ... import dtypes
from ...core.arguments import cast_value
from ...core.base import TensorBase, quiet
from ...core.devices import DEVICE, is_device
from ...core.python_dispatch import called_as_a_whole
from ...core.rounding import half_as_single
from ...core.transforms.batched import is_batched
from ...errors import must_be_tensor
from ..block import Block, Case, api, apply, op
from ..block.batching import lift
from ..block.checks import as_float
from ..block.samples import Draw
from ..shape.copying import fresh
from .group_norm import channels_as_samples, grouped, joined, samples_as_channels
from .standardize import (
    GRADIENT_TEXT,
    Standardized,
    by_channels_last,
    check_floating,
    check_parameters,
    column_sums,
    dense_single,
    fitted,
    gradient_tangents,
    placeholder,
    row_dots,
    row_sums,
    second_gradients,
    statistics_dtype,
    tangent,
)

# ruff: noqa: N805

SHARED_STATISTICS = (
    "Batch norm got a batched tensor as input while the running_mean or running_var, which will be "
    "updated in place, were not batched.\nIf you are using a module and do not need eval mode, "
    "please set `track_running_stats` to be False.If you are using a prebuilt module and do not "
    "need eval mode, please see the functorch website for resources on how to patch your module to "
    "work with vmap"
)

# ---------------------------------------------------------------------- kernels


def by_channel(xp: Any, x: Any, last: bool) -> Any:
    """A dense (N, C, L) array with the elements of `x`; with channels `last`, (N L, C, 1)."""
    channels = x.shape[1]
    if last:
        rows = dense_single(xp, x.transpose(0, *range(2, x.ndim), 1))
        return rows.reshape(rows.size // max(channels, 1), channels, 1)
    return dense_single(xp, x).reshape(x.shape[0], channels, math.prod(x.shape[2:]))


def as_before(xp: Any, out: Any, x: Any, last: bool) -> Any:
    """A result of `by_channel` in the shape, layout and dtype of `x`."""
    out = cast_value(out, x.dtype)
    if not last:
        return out.reshape(x.shape)
    ordered = fresh(xp, x, "channels_last")
    ordered.transpose(0, *range(2, x.ndim), 1)[...] = out.reshape(
        x.shape[0], *x.shape[2:], x.shape[1]
    )
    return ordered


def channel_sums(xp: Any, x: Any) -> Any:
    if x.shape[2] == 1:
        return column_sums(xp, x[:, :, 0])
    return xp.add.reduce(row_sums(xp, x), 0)


def channel_dots(xp: Any, a: Any, b: Any) -> Any:
    if a.shape[2] == 1:
        return column_sums(xp, (a * b)[:, :, 0])
    return xp.add.reduce(row_dots(xp, a, b), 0)


def affine(xp: Any, x: Any, factor: Any, shift: Any) -> Any:
    """`x * factor + shift` per channel, written into `x`."""
    x *= factor[:, None]
    if shift is not None:
        x += shift[:, None]
    return x


def times(weight: Any, r: Any) -> Any:
    return r if weight is None else half_as_single(weight).reshape(-1) * r


# ---------------------------------------------------------------------- rules


def over(x: Any) -> tuple[int, ...]:
    return (0, *range(2, len(x.shape)))


def per_channel(F: Any, z: Any, x: Any) -> Any:
    return None if z is None else F.reshape(z, (1, x.shape[1], *(1,) * (len(x.shape) - 2)))


def standardized(F: Any, x: Any, stats: Any, training: bool, eps: float) -> Standardized:
    """By the statistics that a kernel kept: means, reciprocal deviations, (variances)."""
    dims = over(x) if training else ()
    mean, r = F.select(stats, 0, 0), F.select(stats, 0, 1)
    return Standardized(F, x, per_channel(F, mean, x), per_channel(F, r, x), dims, eps)


@op
class NativeBatchNorm(Block):
    """native_batch_norm(input, weight, bias, eps, kept) -> (Tensor, Tensor): `batch_norm` by the
    statistics of the input, and these in the dtype `kept`."""

    aten = "native_batch_norm"
    tensors = ("input", "weight", "bias")
    outs = ("out", "stats")
    plain_outs = (1,)
    public = False
    gradient_text = GRADIENT_TEXT

    def fwd(xp, input, weight, bias, eps, kept):
        check_floating("batch_norm", input.dtype)
        last = by_channels_last(input)
        x = by_channel(xp, input, last)
        count = x.shape[0] * x.shape[2]
        mean = cast_value(channel_sums(xp, x) / count, kept)
        out = x - half_as_single(mean)[:, None]
        sums = channel_dots(xp, out, out)
        var = sums / count
        spread = var
        if kept.kind == "V":  # PyTorch rounds the steps in between to bfloat16
            spread = half_as_single(
                cast_value(half_as_single(cast_value(sums, kept)) / count, kept)
            )
        r = cast_value(1 / xp.sqrt(spread + eps), kept)
        shift = None if bias is None else half_as_single(bias).reshape(-1)
        out = as_before(xp, affine(xp, out, times(weight, half_as_single(r)), shift), input, last)
        stats = xp.empty((3, len(mean)), kept)
        stats[0] = mean
        stats[1] = r
        stats[2] = var
        return out, stats

    def backward(F, grad, needs, input, weight, stats, eps):
        return F.native_batch_norm_backward(grad[0], input, weight, stats, True, eps, needs[2])

    def jvp(F, input, t_input, weight, t_weight, t_bias, stats, eps):
        s = standardized(F, input, stats, True, eps)
        w, t_w, t_b = [per_channel(F, z, input) for z in (weight, t_weight, t_bias)]
        change = tangent(s, w, t_input, t_w, t_b)
        if change.shape != input.shape:
            change = F.expand(change, input.shape)
        return change, F.zeros_like(stats)

    def batch(F, size, batched, input, weight, bias, eps, kept):
        x = samples_as_channels(F, size, lift(F, input, size, batched[0]))
        w, b = joined(F, size, weight, batched[1]), joined(F, size, bias, batched[2])
        out, stats = F.native_batch_norm(x, w, b, eps, kept)
        return channels_as_samples(F, size, out), channels_as_samples(F, size, stats)


def apart(F: Any, size: int, z: Any) -> Any:
    return F.reshape(z, (size, z.shape[0] // size))


@op
class NativeBatchNormFixed(Block):
    """native_batch_norm_fixed(input, weight, bias, mean, var, eps) -> Tensor: `batch_norm` by given
    statistics."""

    node = "NativeBatchNormBackward0"
    aten = None
    tensors = ("input", "weight", "bias", "mean", "var")
    public = False

    def fwd(xp, input, weight, bias, mean, var, eps):
        check_floating("batch_norm", input.dtype)
        r = 1 / xp.sqrt(half_as_single(var) + eps)
        last = by_channels_last(input)
        out = by_channel(xp, input, last) - half_as_single(mean).reshape(-1, 1)
        shift = None if bias is None else half_as_single(bias).reshape(-1)
        return as_before(xp, affine(xp, out, times(weight, r), shift), input, last)

    def backward(F, grad, needs, input, weight, mean, var, eps):
        stats = F.stack([mean, F.rsqrt(var + eps)], 0)
        found = F.native_batch_norm_backward(grad, input, weight, stats, False, eps, needs[2])
        return (*found, None, None)

    def jvp(F, input, t_input, weight, t_weight, t_bias, mean, var, eps):
        s = standardized(F, input, F.stack([mean, F.rsqrt(var + eps)], 0), False, eps)
        w, t_w, t_b = [per_channel(F, z, input) for z in (weight, t_weight, t_bias)]
        change = tangent(s, w, t_input, t_w, t_b)
        if change is None:  # the tangents of the statistics do not count
            return None
        return change if change.shape == input.shape else F.expand(change, input.shape)

    def batch(F, size, batched, input, weight, bias, mean, var, eps):
        x = samples_as_channels(F, size, lift(F, input, size, batched[0]))
        rest = zip((weight, bias, mean, var), batched[1:], strict=True)
        parameters = [joined(F, size, p, b) for p, b in rest]
        return channels_as_samples(F, size, F.native_batch_norm_fixed(x, *parameters, eps))


@op
class NativeBatchNormBackward(Block):
    """native_batch_norm_backward(grad_output, input, weight, stats, training, eps, biased) ->
    (Tensor, Tensor, Tensor): the gradients of input, weight and bias."""

    node = "NativeBatchNormBackwardBackward0"
    aten = "native_batch_norm_backward"
    tensors = ("grad_output", "input", "weight", "stats")
    outs = ("grad_input", "grad_weight", "grad_bias")
    public = False
    partial = True

    def fwd(xp, grad_output, input, weight, stats, training, eps, biased):
        last = by_channels_last(input)
        x, grad = by_channel(xp, input, last), by_channel(xp, grad_output, last)
        mean, r = half_as_single(stats)[:2]
        factor = times(weight, r)
        count = x.shape[0] * x.shape[2]
        out = grad * factor[:, None]
        sums = dots = None
        if training or weight is not None:
            centred = x - mean[:, None]
            dots = channel_dots(xp, grad, centred) * r
        if training or biased:
            sums = channel_sums(xp, grad)
        if training:
            out -= affine(xp, centred, factor * r * dots / count, factor * sums / count)
        kept = input.dtype if weight is None else weight.dtype
        return (
            as_before(xp, out, input, last),
            placeholder(xp) if weight is None else cast_value(dots, kept),
            cast_value(sums, kept) if biased else placeholder(xp),
        )

    def backward(F, grad, needs, grad_output, input, weight, stats, training, eps):
        s = standardized(F, input, stats, training, eps)
        u, v, w = grad
        pulls = (u, None if weight is None else per_channel(F, v, input), per_channel(F, w, input))
        to_grad, to_input, to_weight = second_gradients(
            s, pulls, grad_output, per_channel(F, weight, input), over(input)
        )
        if to_grad is not None and to_grad.shape != input.shape:
            to_grad = F.expand(to_grad, input.shape)
        if to_weight is not None:
            to_weight = F.reshape(to_weight, weight.shape)
        return to_grad, to_input, to_weight, None

    def jvp(
        F,
        grad_output,
        t_grad_output,
        input,
        t_input,
        weight,
        t_weight,
        stats,
        grad_weight,
        grad_bias,
        training,
        eps,
    ):
        s = standardized(F, input, stats, training, eps)
        first, second, third = gradient_tangents(
            s,
            grad_output,
            per_channel(F, weight, input),
            t_grad_output,
            t_input,
            per_channel(F, t_weight, input),
            over(input),
        )
        return first, fitted(F, second, grad_weight.shape), fitted(F, third, grad_bias.shape)

    def batch(F, size, batched, grad_output, input, weight, stats, training, eps, biased):
        grad, x, stats = [
            samples_as_channels(F, size, lift(F, t, size, b))
            for t, b in zip((grad_output, input, stats), (*batched[:2], batched[3]), strict=True)
        ]
        w = joined(F, size, weight, batched[2])
        first, second, third = F.native_batch_norm_backward(
            grad, x, w, stats, training, eps, biased
        )
        return channels_as_samples(F, size, first), apart(F, size, second), apart(F, size, third)


# ---------------------------------------------------------------------- running statistics


def follow(running: Any, found: Any, momentum: float) -> None:
    """Move a running statistic towards a new one. PyTorch does not count it as a write."""
    if isinstance(found, TensorBase):
        running.copy_(running * (1 - momentum) + found * momentum)
        return
    array = running._array
    array[...] = half_as_single(array) * (1 - momentum) + half_as_single(found) * momentum


@called_as_a_whole
def update(running_mean: Any, running_var: Any, stats: Any, count: int, momentum: float) -> None:
    # The unbiased variance; of one element there is none.
    unbiased = count / (count - 1) if count > 1 else math.nan
    plain = not running_mean._special and not stats._special
    if is_device(stats) and is_device(running_mean) and is_device(running_var):
        plain = True
        kernel = DEVICE.backend.overrides.get("follow_statistics")
        arrays = (running_mean._array, running_var._array, stats._array)
        if kernel is not None and kernel(*arrays, momentum, unbiased):
            return
    values = stats._array if plain else stats
    quiet(follow, running_mean, values[0], momentum)
    quiet(follow, running_var, values[2] * unbiased, momentum)


def check_running(name: str, running: Any, features: int, training: bool) -> None:
    if running is None:
        if not training:
            raise RuntimeError(f"{name} must be defined in evaluation mode")
        return
    check_size(name, running, features)
    if running._wants_grad:
        raise RuntimeError(
            f"The function 'native_batch_norm' is not differentiable with respect to argument "
            f"'{name}'. This input cannot have requires_grad True."
        )


def check_size(name: str, parameter: Any, features: int) -> None:
    if parameter is not None and parameter._array.size != features:
        raise RuntimeError(f"{name} should contain {features} elements not {parameter._array.size}")


def check_number(name: str, argument: str, position: int, value: Any) -> float:
    if type(value) is float or type(value) is int:
        return float(value)
    return as_float(name, argument, position, value)


def normalized(
    name: str,
    input: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    training: bool,
    momentum: Any,
    eps: Any,
) -> Any:
    """The result and the statistics; None for these if they were given."""
    arguments = (
        ("input", input),
        ("weight", weight),
        ("bias", bias),
        ("running_mean", running_mean),
        ("running_var", running_var),
    )
    for position, (argument, value) in enumerate(arguments, 1):
        if not isinstance(value, TensorBase) and (value is not None or position == 1):
            raise must_be_tensor(name, argument, position, value)
    momentum = check_number(name, "momentum", 7, momentum)
    eps = check_number(name, "eps", 8, eps)
    x = input._array
    features = x.shape[1] if x.ndim > 1 else 0
    check_running("running_mean", running_mean, features, training)
    check_running("running_var", running_var, features, training)
    check_size("weight", weight, features)
    check_size("bias", bias, features)
    if x.ndim < 2:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-max(x.ndim, 1)}, "
            f"{max(x.ndim, 1) - 1}], but got 1)"
        )
    if x.dtype.kind in "biu" and not x.flags.c_contiguous and training:
        raise RuntimeError(
            "mean(): could not infer output dtype. Input dtype must be either a floating point or "
            f"complex dtype. Got: {input.dtype.scalar_type}"
        )
    if (running_mean is None) != (running_var is None):
        raise ValueError("running_mean and running_var must either both be None or neither be None")
    check_parameters(input, weight, bias, running_mean, running_var)
    weight, bias = [p if p is None or p.dim() == 1 else p.reshape(-1) for p in (weight, bias)]
    if not training:
        tensors = (input, weight, bias, running_mean, running_var)
        return apply(NativeBatchNormFixed, tensors, (eps,)), None
    kept = statistics_dtype(input, weight, bias, running_mean)
    if is_batched(input) and running_mean is not None and not is_batched(running_mean):
        raise RuntimeError(SHARED_STATISTICS)
    out, stats = apply(NativeBatchNorm, (input, weight, bias), (eps, kept))
    if running_mean is not None:
        update(running_mean, running_var, stats, x.size // max(x.shape[1], 1), momentum)
    return out, stats


def of_nothing(input: Any, weight: Any, bias: Any) -> Any:
    """Without elements there is nothing to normalize; the parameters stay connected."""
    out = input.clone()
    for position, (argument, value) in enumerate((("weight", weight), ("bias", bias)), 2):
        if value is not None and not isinstance(value, TensorBase):
            raise must_be_tensor("batch_norm", argument, position, value)
    if weight is not None:
        out = out * weight[0]
    return out if bias is None else out + bias[0]


# Samples are differentiated in every float tensor, and running statistics refuse that.
BATCH_CASES = [
    Case(Draw(3, 3), Draw(3), Draw(3), None, None, True, 0.1, 1e-5, False),
    Case(Draw(2, 3, 4), Draw(3), None, None, None, True, 0.1, 1e-5, False),
    Case(Draw(2, 3, 2, 2), Draw(3), Draw(3), None, None, True, 0.1, 1e-5, False),
    Case(Draw(2, 3, 4, layout="T"), None, None, None, None, True, 0.1, 0.5, False),
]


@api(method=False, samples=BATCH_CASES)
def batch_norm(
    input: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Any:
    """batch_norm(input, weight, bias, …, training, momentum, eps, cudnn_enabled) -> Tensor: mean 0
    and variance 1 per channel, then `weight` times that plus `bias`.

    In training the statistics are those of the input, and the running ones follow them.

    >>> batch_norm(tensor([[1.0], [3.0]]), None, None, None, None, True, 0.1, 0.0, False)
    tensor([[-1.],
            [ 1.]])
    """
    if isinstance(input, TensorBase) and not input._array.size:
        return of_nothing(input, weight, bias)
    rest = (running_mean, running_var, bool(training), momentum, eps)
    return normalized("batch_norm", input, weight, bias, *rest)[0]


@api(
    name="nn.functional.batch_norm",
    method=False,
    samples=[
        Case(Draw(3, 3), None, None, Draw(3), Draw(3), True),
        Case(Draw(2, 3, 4), None, None, Draw(3), training=True),
    ],
)
def functional_batch_norm(
    input: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """batch_norm(input, running_mean, running_var, …) -> Tensor: mean 0, variance 1 per channel.

    In training the statistics are those of the input, and the running ones follow them.

    >>> torch.nn.functional.batch_norm(tensor([[1.0], [3.0]]), None, None, training=True, eps=1e-9)
    tensor([[-1.],
            [ 1.]])
    """
    if training:
        if eps <= 0.0:
            raise ValueError(f"batch_norm eps must be positive during training, but got {eps}")
        shape = input.size()
        if shape[0] * math.prod(shape[2:]) == 1:
            raise ValueError(
                f"Expected more than 1 value per channel when training, got input size {shape}"
            )
    return batch_norm(
        input, weight, bias, running_mean, running_var, training, momentum, eps, False
    )


@api(name="native_batch_norm", method=False, samples=[Case(*c.args[:-1]) for c in BATCH_CASES])
def batch_norm_with_statistics(
    input: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    training: bool,
    momentum: float,
    eps: float,
) -> Any:
    """native_batch_norm(input, weight, bias, …, eps) -> (Tensor, Tensor, Tensor): `batch_norm`,
    the means, and the reciprocals of the deviations.

    >>> native_batch_norm(tensor([[1.0], [3.0]]), None, None, None, None, True, 0.1, 0.0)[1:]
    (tensor([2.]), tensor([1.]))
    """
    rest = (running_mean, running_var, bool(training), momentum, eps)
    out, stats = normalized("native_batch_norm", input, weight, bias, *rest)
    if stats is None:
        kept = statistics_dtype(input, weight, bias, running_mean)
        stats = input.new_empty((2, 0), dtype=dtypes.of(kept))
    return out, stats[0], stats[1]


# ---------------------------------------------------------------------- instance norm


def fits_groups(input: Any, weight: Any, bias: Any) -> bool:
    """Whether group norm, with a channel to a group, takes these without complaint."""
    if not input.is_floating_point() or not input._array.size or input.dim() < 2:
        return False
    given = [p for p in (weight, bias) if p is not None]
    return all([isinstance(p, TensorBase) and p._array.shape == input.shape[1:2] for p in given])


def per_sample(
    input: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    use_input_stats: bool,
    momentum: float,
    eps: float,
) -> Any:
    """Batch norm with every channel of every sample as a channel of its own."""
    if not use_input_stats and (running_mean is None or running_var is None):
        raise RuntimeError(
            "Expected running_mean and running_var to be defined when use_input_stats is false"
        )
    shape = input.size()
    samples, channels = shape[0], shape[1]
    alone = running_mean is None and running_var is None
    if alone and is_device(input) and fits_groups(input, weight, bias):
        # The same with less memory to fill, as the parameters need not be repeated.
        return grouped(input.contiguous(), channels, weight, bias, eps)[0].view(shape)

    def repeated(parameter: Any) -> Any:
        return None if parameter is None else parameter.repeat(samples)

    spread_mean, spread_var = repeated(running_mean), repeated(running_var)
    out = batch_norm(
        input.contiguous().view(1, samples * channels, *shape[2:]),
        repeated(weight),
        repeated(bias),
        spread_mean,
        spread_var,
        use_input_stats,
        momentum,
        eps,
        False,
    )
    for running, spread in ((running_mean, spread_mean), (running_var, spread_var)):
        if running is not None:
            running.copy_(spread.view(samples, channels).mean(0))
    return out.view(shape)


INSTANCE_CASES = [
    Case(Draw(2, 3, 4), Draw(3), Draw(3), None, None, True, 0.1, 1e-5, False),
    Case(Draw(2, 3, 2, 2), None, None, None, None, True, 0.1, 0.5, False),
]


@api(method=False, samples=INSTANCE_CASES)
def instance_norm(
    input: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Any:
    """instance_norm(input, weight, bias, running_mean, running_var, …) -> Tensor: mean 0 and
    variance 1 per channel of every sample.

    >>> instance_norm(tensor([[[1.0, 3.0]]]), None, None, None, None, True, 0.1, 0.0, False)
    tensor([[[-1.,  1.]]])
    """
    return per_sample(
        input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps
    )


@api(
    name="nn.functional.instance_norm",
    python=True,
    method=False,
    samples=[Case(Draw(2, 3, 4), weight=Draw(3), bias=Draw(3)), Case(Draw(2, 3, 4, layout="T"))],
)
def functional_instance_norm(
    input: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """instance_norm(input, running_mean=None, running_var=None, …) -> Tensor: mean 0 and variance
    1 per channel of every sample.

    >>> torch.nn.functional.instance_norm(tensor([[[1.0, 3.0]]]), eps=1e-9)
    tensor([[[-1.,  1.]]])
    """
    if use_input_stats:
        shape = input.size()
        if math.prod(shape[2:]) == 1:
            raise ValueError(
                f"Expected more than 1 spatial element when training, got input size {shape}"
            )
    return per_sample(
        input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps
    )
