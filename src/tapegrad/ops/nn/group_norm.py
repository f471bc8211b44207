"""Group norm: every sample standardized over groups of its channels."""

from __future__ import annotations

import math
from typing import Any

from ...core.arguments import cast_value
from ...core.base import TensorBase
from ...core.rounding import half_as_single
from ...errors import must_be_tensor
from ..block import SINGLE, Autocast, Block, Case, api, apply, op
from ..block.batching import lift
from ..block.checks import as_float, as_int
from ..block.samples import Draw
from ..shape.copying import fresh
from .standardize import (
    GRADIENT_TEXT,
    Standardized,
    by_channels_last,
    check_floating,
    check_parameters,
    dense_single,
    fitted,
    gradient_tangents,
    gradients,
    placeholder,
    row_dots,
    row_sums,
    second_gradients,
    standard_rows,
    statistics_dtype,
    sum_of,
    tangent,
)

# ruff: noqa: N805

# A tensor (N, C, …) is looked at as (N, groups, C / groups, the rest as one).
OVER = (2, 3)
ACROSS = (0, 3)


def split(shape: tuple[int, ...], groups: int) -> tuple[int, ...]:
    return (shape[0], groups, shape[1] // groups, math.prod(shape[2:]))


class Groups:
    """The tensors of a rule in the shapes in which they are worked on."""

    def __init__(self, F: Any, input: Any, mean: Any, rstd: Any, weight: Any, groups: int, eps):
        self.F = F
        self.shape = split(input.shape, groups)
        stats = (*self.shape[:2], 1, 1)
        x = F.reshape(input, self.shape)
        mean, rstd = F.reshape(mean, stats), F.reshape(rstd, stats)
        self.hat = Standardized(F, x, mean, rstd, OVER, eps)
        self.weight = self.channels(weight)

    def elements(self, z: Any) -> Any:
        return None if z is None else self.F.reshape(z, self.shape)

    def channels(self, z: Any) -> Any:
        return None if z is None else self.F.reshape(z, (1, *self.shape[1:3], 1))


@op
class NativeGroupNorm(Block):
    """native_group_norm(input, weight, bias, groups, eps) -> (Tensor, Tensor, Tensor):
    `group_norm`, with means and reciprocal deviations."""

    aten = "native_group_norm"
    tensors = ("input", "weight", "bias")
    outs = ("out", "mean", "rstd")
    public = False
    partial = True
    gradient_text = GRADIENT_TEXT

    def fwd(xp, input, weight, bias, groups, eps):
        check_floating("GroupNormKernelImpl", input.dtype)
        n, _, k, length = split(input.shape, groups)
        rows = dense_single(xp, input).reshape(n * groups, k * length)
        out, mean, r = standard_rows(xp, rows, eps)
        out = out.reshape(n, groups, k, length)
        if weight is not None:
            out *= weight.reshape(groups, k, 1)
        if bias is not None:
            out += bias.reshape(groups, k, 1)
        out = cast_value(out, input.dtype).reshape(input.shape)
        if by_channels_last(input):
            ordered = fresh(xp, input, "channels_last")
            ordered[...] = out
            out = ordered
        kept = statistics_dtype(input, weight, bias)
        return (
            out,
            cast_value(mean, kept).reshape(n, groups),
            cast_value(r, kept).reshape(n, groups),
        )

    def backward(F, grad, needs, input, weight, mean, rstd, groups, eps):
        first, to_mean, to_rstd = grad
        if to_mean is None and to_rstd is None and F.is_final(first, input, mean, rstd, weight):
            return F.native_group_norm_backward(
                first, input, mean, rstd, weight, groups, eps, needs[2]
            )
        g = Groups(F, input, mean, rstd, weight, groups, eps)
        hat = g.hat
        to_input = to_weight = to_bias = None
        if first is not None:
            to_input, to_weight, to_bias = gradients(hat, g.elements(first), g.weight, ACROSS)
            channels = (input.shape[1],)
            to_weight, to_bias = F.reshape(to_weight, channels), F.reshape(to_bias, channels)
        stats = (*g.shape[:2], 1, 1)
        by_mean = by_rstd = None
        if to_mean is not None:
            by_mean = F.expand(F.reshape(to_mean, stats), g.shape) / hat.count
        if to_rstd is not None:
            by_rstd = F.reshape(to_rstd, stats) * -(hat.r * hat.r) * hat.x / hat.count
        return F.reshape(sum_of(to_input, by_mean, by_rstd), input.shape), to_weight, to_bias

    def jvp(F, input, t_input, weight, t_weight, t_bias, mean, rstd, groups, eps):
        g = Groups(F, input, mean, rstd, weight, groups, eps)
        t_x = g.elements(t_input)
        change = tangent(g.hat, g.weight, t_x, g.channels(t_weight), g.channels(t_bias))
        if change.shape != g.shape:
            change = F.expand(change, g.shape)
        out = F.reshape(change, input.shape)
        if t_x is None:
            return out, F.zeros_like(mean), F.zeros_like(rstd)
        spread = -(g.hat.r * g.hat.r) * g.hat.mean(g.hat.x * t_x)
        return out, F.reshape(g.hat.mean(t_x), mean.shape), F.reshape(spread, rstd.shape)

    def batch(F, size, batched, input, weight, bias, groups, eps):
        x = samples_as_channels(F, size, lift(F, input, size, batched[0]))
        w, b = joined(F, size, weight, batched[1]), joined(F, size, bias, batched[2])
        out, mean, rstd = F.native_group_norm(x, w, b, groups * size, eps)
        stats = [channels_as_samples(F, size, s) for s in (mean, rstd)]
        return (channels_as_samples(F, size, out), *stats)


def samples_as_channels(F: Any, size: int, x: Any) -> Any:
    """(B, N, C, …) as (N, B C, …): the entries of a batch as so many more channels."""
    moved = F.permute(x, (1, 0, *range(2, len(x.shape))))
    return F.reshape(moved, (x.shape[1], size * x.shape[2], *x.shape[3:]))


def channels_as_samples(F: Any, size: int, x: Any) -> Any:
    """(N, B C, …) as (B, N, C, …)."""
    apart = F.reshape(x, (x.shape[0], size, x.shape[1] // size, *x.shape[2:]))
    return F.permute(apart, (1, 0, *range(2, len(apart.shape))))


def joined(F: Any, size: int, parameter: Any, batched: bool) -> Any:
    """One parameter per channel of every entry of a batch, in a row."""
    if parameter is None:
        return None
    whole = lift(F, parameter, size, batched)
    return F.reshape(whole, (size * whole.shape[1],))


@op
class NativeGroupNormBackward(Block):
    """native_group_norm_backward(grad_output, input, mean, rstd, weight, groups, eps, biased) ->
    (Tensor, Tensor, Tensor): the gradients of input, weight and bias."""

    node = "NativeGroupNormBackwardBackward0"
    aten = "native_group_norm_backward"
    tensors = ("grad_output", "input", "mean", "rstd", "weight")
    outs = ("grad_input", "grad_weight", "grad_bias")
    public = False
    partial = True

    def fwd(xp, grad_output, input, mean, rstd, weight, groups, eps, biased):
        shape = split(input.shape, groups)
        n, _, k, length = shape
        grad = dense_single(xp, grad_output).reshape(shape)
        r = half_as_single(rstd).reshape(n, groups)
        centred = dense_single(xp, input).reshape(shape) - half_as_single(mean).reshape(
            n, groups, 1, 1
        )
        sums = row_sums(xp, grad)
        dots = row_dots(xp, grad, centred) * r[..., None]
        to_weight = to_bias = None
        # With the weights, what is taken off again: r (a + b x̂).
        if weight is None:
            a, b = xp.add.reduce(sums, 2), xp.add.reduce(dots, 2)
            out = grad * r[..., None, None]
        else:
            w = half_as_single(weight).reshape(groups, k)
            a, b = xp.add.reduce(sums * w, 2), xp.add.reduce(dots * w, 2)
            out = grad * (w * r[..., None])[..., None]
            to_weight = cast_value(xp.add.reduce(dots, 0), weight.dtype).reshape(-1)
        if biased:
            to_bias = xp.add.reduce(sums, 0).reshape(-1)
            to_bias = cast_value(to_bias, input.dtype if weight is None else weight.dtype)
        count = k * length
        centred *= (b * (r * r) / count)[..., None, None]
        centred += (a * r / count)[..., None, None]
        out -= centred
        return (
            cast_value(out, input.dtype).reshape(input.shape),
            placeholder(xp) if to_weight is None else to_weight,
            placeholder(xp) if to_bias is None else to_bias,
        )

    def backward(F, grad, needs, grad_output, input, mean, rstd, weight, groups, eps):
        g = Groups(F, input, mean, rstd, weight, groups, eps)
        u, v, w = grad
        pulls = (g.elements(u), None if weight is None else g.channels(v), g.channels(w))
        to_grad, to_input, to_weight = second_gradients(
            g.hat, pulls, g.elements(grad_output), g.weight, ACROSS
        )
        if to_grad is not None and to_grad.shape != g.shape:
            to_grad = F.expand(to_grad, g.shape)
        return (
            None if to_grad is None else F.reshape(to_grad, input.shape),
            None if to_input is None else F.reshape(to_input, input.shape),
            None,
            None,
            None if to_weight is None else F.reshape(to_weight, weight.shape),
        )

    def jvp(
        F,
        grad_output,
        t_grad_output,
        input,
        t_input,
        mean,
        rstd,
        weight,
        t_weight,
        grad_weight,
        grad_bias,
        groups,
        eps,
    ):
        g = Groups(F, input, mean, rstd, weight, groups, eps)
        first, second, third = gradient_tangents(
            g.hat,
            g.elements(grad_output),
            g.weight,
            g.elements(t_grad_output),
            g.elements(t_input),
            g.channels(t_weight),
            ACROSS,
        )
        return (
            F.reshape(first, input.shape),
            fitted(F, second, grad_weight.shape),
            fitted(F, third, grad_bias.shape),
        )

    def batch(F, size, batched, grad_output, input, mean, rstd, weight, groups, eps, biased):
        tensors = zip((grad_output, input, mean, rstd), batched, strict=False)
        whole = [samples_as_channels(F, size, lift(F, t, size, b)) for t, b in tensors]
        w = joined(F, size, weight, batched[4])
        first, second, third = F.native_group_norm_backward(*whole, w, groups * size, eps, biased)
        return (
            channels_as_samples(F, size, first),
            F.reshape(second, (size, second.shape[0] // size)),
            F.reshape(third, (size, third.shape[0] // size)),
        )


def check_channels(input: Any, parameter: Any, kind: str, shown: Any) -> None:
    """A weight or bias has one number per channel. PyTorch shows the shape of another tensor."""
    shape = input._array.shape
    if parameter is not None and parameter._array.shape != shape[1:2]:
        raise RuntimeError(
            f"Expected {kind} to be a vector of size equal to the number of channels in input, but "
            f"got {kind} of shape {list(shown._array.shape)} and input of shape {list(shape)}"
        )


def grouped(input: Any, groups: Any, weight: Any, bias: Any, eps: float) -> Any:
    shape = input._array.shape
    if groups <= 0:
        raise RuntimeError(f"Expected num groups to be greater than 0, got {groups}")
    if shape[1] % groups:
        raise RuntimeError(
            "Expected number of channels in input to be divisible by num_groups, but got input of "
            f"shape {list(shape)} and num_groups={groups}"
        )
    check_channels(input, weight, "weight", weight)
    check_channels(input, bias, "bias", bias if weight is None else weight)
    check_parameters(input, weight, bias)
    return apply(NativeGroupNorm, (input, weight, bias), (groups, float(eps)))


def group_norm_of(input: Any, num_groups: Any, weight: Any, bias: Any, eps: float) -> Any:
    if not isinstance(input, TensorBase):
        raise must_be_tensor("group_norm", "input", 1, input)
    groups = as_int("group_norm", "num_groups", 2, num_groups)
    eps = as_float("group_norm", "eps", 5, eps)
    x = input._array
    if x.ndim < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {x.ndim}")
    if not x.flags.c_contiguous and not by_channels_last(x):
        input = input.contiguous()
    return grouped(input, groups, weight, bias, eps)[0]


GROUP_CASES = [
    Case(Draw(2, 4, 3), 2, Draw(4), Draw(4)),
    Case(Draw(2, 4), 1, Draw(4)),
    Case(Draw(2, 6, 2, 2), 3, Draw(6), Draw(6)),
    Case(Draw(2, 3, 4, layout="T"), 3),
    Case(Draw(1, 4, 2), 2, eps=0.5),
]


@api(method=False, samples=GROUP_CASES, autocast=Autocast(gpu=SINGLE))
def group_norm(
    input: Any,
    num_groups: Any,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Any:
    """group_norm(input, num_groups, weight=None, bias=None, eps=1e-5) -> Tensor: mean 0 and
    variance 1 over groups of channels, then `weight` times that plus `bias`.

    >>> group_norm(tensor([[1.0, 3.0, 10.0, 30.0]]), 2)
    tensor([[-1.0000,  1.0000, -1.0000,  1.0000]])
    """
    return group_norm_of(input, num_groups, weight, bias, eps)


@api(
    name="nn.functional.group_norm",
    method=False,
    python=True,
    samples=GROUP_CASES,
    autocast=Autocast(gpu=SINGLE),
)
def functional_group_norm(
    input: Any, num_groups: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    """group_norm(input, num_groups, weight=None, bias=None, eps=1e-5) -> Tensor: mean 0 and
    variance 1 over groups of channels, then `weight` times that plus `bias`.

    >>> torch.nn.functional.group_norm(tensor([[1.0, 3.0, 10.0, 30.0]]), 2)
    tensor([[-1.0000,  1.0000, -1.0000,  1.0000]])
    """
    shape = input.size()
    if len(shape) < 2:
        raise RuntimeError(
            f"Expected at least 2 dimensions for input tensor but received {len(shape)}"
        )
    if shape[0] * shape[1] // num_groups * math.prod(shape[2:]) == 1:
        raise ValueError(
            "Expected more than 1 value per channel when training, got input size "
            f"{[shape[0] * shape[1] // num_groups, num_groups, *shape[2:]]}"
        )
    return group_norm_of(input, num_groups, weight, bias, eps)


@api(
    name="native_group_norm",
    method=False,
    samples=[
        Case(Draw(2, 4, 3), Draw(4), Draw(4), 2, 4, 3, 2, 1e-5),
        Case(Draw(1, 4, 3), None, None, 1, 4, 3, 2, 0.1),
    ],
)
def group_norm_with_statistics(
    input: Any, weight: Any, bias: Any, N: int, C: int, HxW: int, group: int, eps: float
) -> Any:
    """native_group_norm(input, weight, bias, …, eps) -> (Tensor, Tensor, Tensor): `group_norm`,
    the means, and the reciprocals of the deviations.

    >>> native_group_norm(tensor([[1.0, 3.0]]), None, None, 1, 2, 1, 1, 0.0)
    (tensor([[-1.,  1.]]), tensor([[2.]]), tensor([[1.]]))
    """
    if input.numel() != N * C * HxW:
        raise RuntimeError(
            "Expected X.numel() == N * C * HxW to be true, but got false.  (Could this error "
            "message be improved?  If so, please report an enhancement request to PyTorch.)"
        )
    return grouped(input, group, weight, bias, eps)
