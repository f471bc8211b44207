"""Layer norm, rms norm: every sample by its last dimensions; and local response norm."""

from __future__ import annotations

import math
from typing import Any

from ... import dtypes
from ...core.arguments import cast_value
from ...core.base import STATE, TensorBase
from ...core.rounding import half_as_single
from ...core.settings import Settings
from ...core.transforms.batched import physical_array
from ...errors import must_be_tensor
from ..block import APIS, SINGLE, Autocast, Block, Case, api, apply, op
from ..block.batching import lift, padded
from ..block.checks import as_ints, not_implemented
from ..block.samples import Draw
from ..pointwise.with_number import add_number
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
    gradients,
    placeholder,
    row_dots,
    row_sums,
    second_gradients,
    standard_rows,
    statistics_dtype,
    sum_of,
    tangent,
    times_weight,
    total,
)

# ruff: noqa: N805


# ---------------------------------------------------------------------- layer norm


def trailing(x: Any, nd: int) -> tuple[int, ...]:
    rank = len(x.shape)
    return tuple(range(rank - nd, rank))


def leading(x: Any, nd: int) -> tuple[int, ...]:
    return tuple(range(len(x.shape) - nd))


def two(F: Any, stats: Any) -> tuple[Any, Any]:
    """Means and reciprocal deviations, kept in one array."""
    return F.select(stats, 0, 0), F.select(stats, 0, 1)


@op
class NativeLayerNorm(Block):
    """native_layer_norm(input, weight, bias, nd, eps) -> (Tensor, Tensor): `layer_norm` over the
    last `nd` dimensions, and the statistics."""

    aten = "native_layer_norm"
    tensors = ("input", "weight", "bias")
    outs = ("out", "stats")
    plain_outs = (1,)
    public = False
    autocast = Autocast(gpu=SINGLE)
    gradient_text = GRADIENT_TEXT

    def fwd(xp, input, weight, bias, nd, eps):
        check_floating("LayerNormKernelImpl", input.dtype)
        shape = input.shape
        lead = shape[: len(shape) - nd]
        rows = (math.prod(lead), math.prod(shape[len(lead) :]))
        out, mean, r = standard_rows(xp, dense_single(xp, input).reshape(rows), eps)
        if weight is not None:
            out *= weight.reshape(-1)
        if bias is not None:
            out += bias.reshape(-1)
        stats = xp.empty((2, *lead, *(1,) * nd), statistics_dtype(input, weight, bias))
        flat = stats.reshape(2, -1)
        flat[0] = mean
        flat[1] = r
        return cast_value(out, input.dtype).reshape(shape), stats

    def backward(F, grad, needs, input, weight, stats, nd, eps):
        return F.native_layer_norm_backward(grad[0], input, stats, weight, nd, eps, needs[2])

    def jvp(F, input, t_input, weight, t_weight, t_bias, stats, nd, eps):
        s = Standardized(F, input, *two(F, stats), trailing(input, nd), eps)
        change = tangent(s, weight, t_input, t_weight, t_bias)
        if change.shape != input.shape:
            change = F.expand(change, input.shape)
        return change, F.zeros_like(stats)

    def batch(F, size, batched, input, weight, bias, nd, eps):
        x = lift(F, input, size, batched[0])
        apart = batched[1] or batched[2]
        inside = (None, None) if apart else (weight, bias)
        out, stats = F.native_layer_norm(x, *inside, nd, eps)
        if apart:
            rank = len(x.shape)
            if weight is not None:
                out = out * (padded(F, weight, 1, rank) if batched[1] else weight)
            if bias is not None:
                out = out + (padded(F, bias, 1, rank) if batched[2] else bias)
        return out, F.transpose(stats, 0, 1)


@op
class NativeLayerNormBackward(Block):
    """native_layer_norm_backward(grad_output, input, stats, weight, nd, eps, biased) -> (Tensor,
    Tensor, Tensor): the gradients of input, weight and bias."""

    node = "NativeLayerNormBackwardBackward0"
    aten = "native_layer_norm_backward"
    tensors = ("grad_output", "input", "stats", "weight")
    outs = ("grad_input", "grad_weight", "grad_bias")
    public = False
    partial = True

    def fwd(xp, grad_output, input, stats, weight, nd, eps, biased):
        shape = input.shape
        length = math.prod(shape[len(shape) - nd :])
        mean, r = half_as_single(stats).reshape(2, -1, 1)
        rows = (len(r), length)
        grad = dense_single(xp, grad_output).reshape(rows)
        hat = dense_single(xp, input).reshape(rows) - mean
        hat *= r
        along = grad * hat
        to_weight = to_bias = None
        if weight is None:
            a, b = row_sums(xp, grad), row_sums(xp, along)
            out = grad.copy()
        else:
            w = half_as_single(weight).reshape(-1)
            out = grad * w
            if Settings.portable:
                a, b = row_sums(xp, out), row_sums(xp, along * w)
            else:
                a, b = xp.matmul(grad, w), xp.matmul(along, w)
            to_weight = cast_value(column_sums(xp, along), weight.dtype).reshape(weight.shape)
        if biased:
            to_bias = cast_value(
                column_sums(xp, grad), input.dtype if weight is None else weight.dtype
            )
            to_bias = to_bias.reshape(shape[len(shape) - nd :])
        out -= (a / length)[:, None]
        hat *= (b / length)[:, None]
        out -= hat
        out *= r
        return (
            cast_value(out, input.dtype).reshape(shape),
            placeholder(xp) if to_weight is None else to_weight,
            placeholder(xp) if to_bias is None else to_bias,
        )

    def backward(F, grad, needs, grad_output, input, stats, weight, nd, eps):
        s = Standardized(F, input, *two(F, stats), trailing(input, nd), eps)
        u, v, w = grad
        pulls = (u, None if weight is None else v, w)
        to_grad, to_input, to_weight = second_gradients(
            s, pulls, grad_output, weight, leading(input, nd)
        )
        if to_weight is not None:
            to_weight = F.reshape(to_weight, weight.shape)
        if to_grad is not None and to_grad.shape != input.shape:
            to_grad = F.expand(to_grad, input.shape)
        return to_grad, to_input, None, to_weight

    def jvp(
        F,
        grad_output,
        t_grad_output,
        input,
        t_input,
        stats,
        weight,
        t_weight,
        grad_weight,
        grad_bias,
        nd,
        eps,
    ):
        s = Standardized(F, input, *two(F, stats), trailing(input, nd), eps)
        first, second, third = gradient_tangents(
            s, grad_output, weight, t_grad_output, t_input, t_weight, leading(input, nd)
        )
        return first, fitted(F, second, grad_weight.shape), fitted(F, third, grad_bias.shape)

    def batch(F, size, batched, grad_output, input, stats, weight, nd, eps, biased):
        grad, x, stats = [
            lift(F, t, size, b) for t, b in zip((grad_output, input, stats), batched, strict=False)
        ]
        w = weight
        if weight is not None and batched[3]:
            w = padded(F, weight, 1, len(x.shape))
        s = Standardized(F, x, *two(F, F.transpose(stats, 0, 1)), trailing(x, nd), eps)
        first, second, third = gradients(s, grad, w, leading(x, nd)[1:])
        shape = (size, *x.shape[len(x.shape) - nd :])
        return (
            first,
            fitted(F, second, (size, 0) if weight is None else shape),
            fitted(F, third, shape if biased else (size, 0)),
        )


def check_shape(name: str, input: Any, normalized_shape: Any, gap: str) -> int:
    """How many dimensions are normalized; their sizes must be those of the input's last ones."""
    if not isinstance(input, TensorBase):
        raise must_be_tensor(name, "input", 1, input)
    shape = as_ints(name, "normalized_shape", 2, normalized_shape)
    if not shape:
        raise RuntimeError(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one "
            "element, but got normalized_shape = []"
        )
    sizes = input._array.shape
    if len(sizes) < len(shape) or sizes[len(sizes) - len(shape) :] != shape:
        wanted = gap + ", ".join([str(n) for n in shape])
        raise RuntimeError(
            f"Given normalized_shape={list(shape)}, expected input with shape [*{wanted}], but got "
            f"input of size{list(sizes)}"
        )
    return len(shape)


def check_affine(name: str, position: int, shape: Any, parameter: Any, kind: str) -> None:
    """A weight or bias of `layer_norm` has the shape that is normalized."""
    if parameter is None:
        return
    if not isinstance(parameter, TensorBase):
        raise must_be_tensor(name, kind, position, parameter)
    if parameter._array.shape != tuple(shape):
        raise RuntimeError(
            f"Expected {kind} to be of same shape as normalized_shape, but got {kind} of shape "
            f"{list(parameter._array.shape)} and normalized_shape = {list(shape)}"
        )


def is_well_formed(input: Any, shape: Any, weight: Any, bias: Any) -> bool:
    """Whether everything fits, so that there is nothing to refuse."""
    if type(shape) is not tuple or not shape or not isinstance(input, TensorBase):
        return False
    x = input._array
    if x.shape[-len(shape) :] != shape:
        return False
    for p in (weight, bias):
        if p is not None:
            if not isinstance(p, TensorBase):
                return False
            if p._array.shape != shape or p._array.dtype is not x.dtype:
                return False
    return True


def normalized(
    name: str, input: Any, normalized_shape: Any, weight: Any, bias: Any, eps: float
) -> Any:
    if is_well_formed(input, normalized_shape, weight, bias):
        nd = len(normalized_shape)
    else:
        if isinstance(normalized_shape, (tuple, list)) and normalized_shape:
            check_affine(name, 3, normalized_shape, weight, "weight")
            check_affine(name, 4, normalized_shape, bias, "bias")
            if isinstance(input, TensorBase):
                check_parameters(input, weight, bias)
        nd = check_shape(name, input, normalized_shape, ", ")
    return apply(NativeLayerNorm, (input, weight, bias), (nd, float(eps)))


LAYER_CASES = [
    Case(Draw(3, 4), (4,), Draw(4), Draw(4)),
    Case(Draw(2, 3, 4), (3, 4), Draw(3, 4)),
    Case(Draw(2, 3, layout="T"), (3,), Draw(3), Draw(3)),
    Case(Draw(5), (5,)),
    Case(Draw(2, 3), [3], eps=0.5),
    Case(Draw(0, 3), (3,), Draw(3), Draw(3)),
]


@api(method=False, samples=LAYER_CASES, autocast=Autocast(gpu=SINGLE))
def layer_norm(
    input: Any,
    normalized_shape: Any,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Any:
    """layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5) -> Tensor: mean 0 and
    variance 1 over the last dimensions, then `weight` times that plus `bias`.

    >>> layer_norm(tensor([[1.0, 2.0, 3.0]]), (3,))
    tensor([[-1.2247,  0.0000,  1.2247]])
    """
    return normalized("layer_norm", input, normalized_shape, weight, bias, eps)[0]


@api(
    name="nn.functional.layer_norm",
    method=False,
    samples=LAYER_CASES,
    autocast=Autocast(gpu=SINGLE),
)
def functional_layer_norm(
    input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    """layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5) -> Tensor: mean 0 and
    variance 1 over the last dimensions, then `weight` times that plus `bias`.

    >>> torch.nn.functional.layer_norm(tensor([[1.0, 2.0, 3.0]]), (3,))
    tensor([[-1.2247,  0.0000,  1.2247]])
    """
    return normalized("layer_norm", input, normalized_shape, weight, bias, eps)[0]


@api(
    name="native_layer_norm",
    method=False,
    samples=[Case(Draw(3, 4), (4,), Draw(4), None, 1e-5)],
    autocast=Autocast(gpu=SINGLE),
)
def layer_norm_with_statistics(
    input: Any, normalized_shape: Any, weight: Any, bias: Any, eps: float
) -> Any:
    """native_layer_norm(input, normalized_shape, …) -> (Tensor, Tensor, Tensor): `layer_norm`, the
    means, and the reciprocals of the deviations.

    >>> native_layer_norm(tensor([[1.0, 3.0]]), (2,), None, None, 0.0)
    (tensor([[-1.,  1.]]), tensor([[2.]]), tensor([[1.]]))
    """
    out, stats = normalized("native_layer_norm", input, normalized_shape, weight, bias, eps)
    return out, stats[0], stats[1]


# ---------------------------------------------------------------------- rms norm


class Scaled(Standardized):
    """x̂ = x r with r = 1 / sqrt(mean(x²) + eps): nothing is subtracted."""

    def __init__(self, F: Any, x: Any, r: Any, over: tuple[int, ...], eps: float):
        self.F = F
        self.over = over
        self.count = math.prod([x.shape[d] for d in over])
        if F.recorded:
            # To be differentiated once more, r has to know what it came from.
            r = F.rsqrt(self.mean(x * x) + eps)
        self.r = r
        self.x = x * r

    def project(self, z: Any) -> Any:
        return z - self.x * self.mean(z * self.x)


@op
class FusedRmsNorm(Block):
    """fused_rms_norm(input, weight, nd, eps) -> (Tensor, Tensor): `rms_norm` over the last `nd`
    dimensions, and the reciprocals of the roots. PyTorch has it on a GPU only, and so have we."""

    aten = "_fused_rms_norm"
    tensors = ("input", "weight")
    outs = ("out", "rstd")
    plain_outs = (1,)
    public = False

    def fwd(xp, input, weight, nd, eps):
        check_floating("rms_norm", input.dtype)
        shape = input.shape
        lead = shape[: len(shape) - nd]
        length = math.prod(shape[len(lead) :])
        rows = dense_single(xp, input).reshape(math.prod(lead), length)
        r = 1 / xp.sqrt(row_dots(xp, rows, rows) / length + eps)
        out = rows * r[:, None]
        if weight is not None:
            out *= weight.reshape(-1)
        return cast_value(out, input.dtype).reshape(shape), r.reshape(*lead, *(1,) * nd)

    def backward(F, grad, needs, input, weight, rstd, nd, eps):
        return F.fused_rms_norm_backward(grad[0], input, rstd, weight, nd, eps)

    def jvp(F, input, t_input, weight, t_weight, rstd, nd, eps):
        s = Scaled(F, input, rstd, trailing(input, nd), eps)
        change = tangent(s, weight, t_input, t_weight, None)
        if change.shape != input.shape:
            change = F.expand(change, input.shape)
        return change, F.zeros_like(rstd)

    def batch(F, size, batched, input, weight, nd, eps):
        x = lift(F, input, size, batched[0])
        out, rstd = F.fused_rms_norm(x, None if batched[1] else weight, nd, eps)
        if batched[1]:
            out = out * padded(F, weight, 1, len(x.shape))
        return out, rstd

    def aten_call(input, normalized_shape, weight, eps):
        eps = smallest_share(input.dtype) if eps is None else float(eps)
        return apply(FusedRmsNorm, (input, weight), (len(normalized_shape), eps))


@op
class FusedRmsNormBackward(Block):
    """fused_rms_norm_backward(grad_output, input, rstd, weight, nd, eps) -> (Tensor, Tensor): the
    gradients of input and weight."""

    node = "FusedRmsNormBackwardBackward0"
    aten = "_fused_rms_norm_backward"
    tensors = ("grad_output", "input", "rstd", "weight")
    outs = ("grad_input", "grad_weight")
    public = False
    partial = True

    def fwd(xp, grad_output, input, rstd, weight, nd, eps):
        shape = input.shape
        inside = shape[len(shape) - nd :]
        r = half_as_single(rstd).reshape(-1, 1)
        rows = (len(r), math.prod(inside))
        grad = dense_single(xp, grad_output).reshape(rows)
        hat = dense_single(xp, input).reshape(rows) * r
        out, to_weight = grad, None
        if weight is not None:
            to_weight = cast_value(column_sums(xp, grad * hat), weight.dtype).reshape(inside)
            out = grad * half_as_single(weight).reshape(-1)
        hat *= (row_dots(xp, out, hat) / rows[1])[:, None]
        out = (out - hat) * r
        found = placeholder(xp) if to_weight is None else to_weight
        return cast_value(out, input.dtype).reshape(shape), found

    def backward(F, grad, needs, grad_output, input, rstd, weight, nd, eps):
        s = Scaled(F, input, rstd, trailing(input, nd), eps)
        u, v = grad
        v = None if weight is None else v
        seen = None if u is None else s.r * s.project(u)
        to_grad = sum_of(times_weight(seen, weight), None if v is None else v * s.x)
        to_weight = None
        to_input = None if v is None else s.r * s.project(v * grad_output)
        if u is not None:
            g = times_weight(grad_output, weight)
            a, c = s.mean(g * s.x), s.mean(u * s.x)
            k = s.mean(u * g) - a * c
            to_input = sum_of(to_input, -(s.r * s.r) * (k * s.x + s.project(a * u + c * g)))
            if weight is not None:
                summed = total(F, grad_output * seen, leading(input, nd))
                to_weight = F.reshape(summed, weight.shape)
        return to_grad, to_input, None, to_weight

    def jvp(
        F,
        grad_output,
        t_grad_output,
        input,
        t_input,
        rstd,
        weight,
        t_weight,
        grad_weight,
        nd,
        eps,
    ):
        s = Scaled(F, input, rstd, trailing(input, nd), eps)
        first, second, _ = gradient_tangents(
            s, grad_output, weight, t_grad_output, t_input, t_weight, leading(input, nd)
        )
        return first, fitted(F, second, grad_weight.shape)

    def batch(F, size, batched, grad_output, input, rstd, weight, nd, eps):
        grad, x, rstd = [
            lift(F, t, size, b) for t, b in zip((grad_output, input, rstd), batched, strict=False)
        ]
        w = weight
        if weight is not None and batched[3]:
            w = padded(F, weight, 1, len(x.shape))
        s = Scaled(F, x, rstd, trailing(x, nd), eps)
        first, second, _ = gradients(s, grad, w, leading(x, nd)[1:])
        shape = (size, 0) if weight is None else (size, *x.shape[len(x.shape) - nd :])
        return first, fitted(F, second, shape)


def smallest_share(dtype: Any) -> float:
    """The `eps` of rms_norm where none is given: half precision is computed in single."""
    single = dtypes.float32 if dtype.itemsize == 2 else dtype
    return float(dtypes.finfo(single.to_real()).eps)


def is_fused(input: Any, weight: Any) -> bool:
    """Whether PyTorch has one kernel for this."""
    if STATE.device_type is None or input.is_complex():
        return False
    array = physical_array(input)
    if type(array) is not STATE.device_type or by_channels_last(array):
        return False
    return weight is None or weight.dtype == input.dtype


RMS_CASES = [
    Case(Draw(3, 4), (4,), Draw(4)),
    Case(Draw(2, 3, 2), (3, 2)),
    Case(Draw(2, 3, layout="T"), [3], eps=0.5),
]


@api(
    aliases=("nn.functional.rms_norm",),
    method=False,
    samples=RMS_CASES,
    autocast=Autocast(gpu=SINGLE),
)
def rms_norm(
    input: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None
) -> Any:
    """rms_norm(input, normalized_shape, weight=None, eps=None) -> Tensor: divided by the root of
    the mean square over the last dimensions, then times `weight`.

    >>> rms_norm(tensor([[3.0, 4.0]]), (2,))
    tensor([[0.8485, 1.1314]])
    """
    if isinstance(normalized_shape, (tuple, list)) and normalized_shape:
        check_affine("rms_norm", 3, normalized_shape, weight, "weight")
    least = len(as_ints("rms_norm", "normalized_shape", 2, normalized_shape))
    if isinstance(input, TensorBase) and input._array.ndim < least:
        raise ValueError(
            f"Input tensor must have at least {least} dimensions, but got {input._array.ndim}"
        )
    nd = check_shape("rms_norm", input, normalized_shape, "")
    dtype = input.dtype
    if not dtype.is_floating_point and not dtype.is_complex:
        raise not_implemented("rms_norm", dtype)
    if eps is None:
        eps = smallest_share(dtype)
    if is_fused(input, weight):
        return apply(FusedRmsNorm, (input, weight), (nd, float(eps)))[0]
    x = input.float() if dtype.itemsize == 2 else input
    dims = tuple(range(x.dim() - nd, x.dim()))
    out = x * add_number(x.pow(2).mean(dims, keepdim=True), eps).rsqrt()
    if weight is not None:
        out = out * weight
    out = out if out.dtype == dtype else out.to(dtype)
    return out.contiguous()


# ---------------------------------------------------------------------- local response norm


@api(
    name="nn.functional.local_response_norm",
    method=False,
    samples=[Case(Draw(2, 4, 3), 3, 0.5), Case(Draw(1, 3, 2, 2), 2, 0.3, 0.5, 2.0)],
)
def local_response_norm(
    input: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Any:
    """local_response_norm(input, size, alpha=1e-4, beta=0.75, k=1.0) -> Tensor: divided by a power
    of the mean square over `size` neighbouring channels.

    >>> torch.nn.functional.local_response_norm(ones(1, 1, 1), 1, alpha=1.0, beta=1.0)
    tensor([[[0.5000]]])
    """
    if input.dim() < 3:
        raise ValueError(
            "Expected 3D or higher dimensionality                          input "
            f"(got {input.dim()} dimensions)"
        )
    if not input.numel():
        return input
    square = input * input
    wide = around(square, size // 2, (size - 1) // 2)
    sums = wide.unfold(1, size, 1).sum(-1)
    whole = input.dtype == dtypes.int64
    flat = input.dim() == 3
    if not whole and (not input.is_floating_point() or input.dtype == dtypes.float16 and not flat):
        raise not_implemented("avg_pool2d" if flat else "avg_pool3d_out_frame", input.dtype)
    mean = sums.div(size, rounding_mode="trunc") if whole else sums / size
    return input / mean.mul(alpha).add(k).pow(beta)


def around(x: Any, before: int, after: int) -> Any:
    """`x` with so many empty channels in front and behind."""
    shape = x.shape
    ends = [x.new_zeros((shape[0], n, *shape[2:])) for n in (before, after)]
    return APIS["cat"].call([ends[0], x, ends[1]], 1)
