"""Softmax and what belongs to it: exponentials, summed without overflow."""

from __future__ import annotations

from typing import Any

from ... import dtypes
from ...core.arguments import cast_value
from ...core.base import F32, F64
from ...core.modes import MODES
from ...core.rounding import half_as_single
from ...core.rule_functions import RECORDED
from ...core.strides import contiguous
from ..block import SINGLE, Autocast, Block, Case, apply, op
from ..block.checks import OUT_EXACT, all_dims, one_dim, only_bool, plain_dtype
from ..block.samples import Draw
from ..block.shapes import same_shape
from .sums import computed_wide, unreduce

# ruff: noqa: N805, E704

SOFTMAX_CASES = [
    Case(Draw(3, 4), 0),
    Case(Draw(2, 3, 4), -2),
    Case(Draw(2, 3, 4), 2),
    Case(Draw(), -1),
    Case(Draw(2, 0), 1),
    Case(Draw(4, 3, layout="T"), 1),
    Case(Draw(2, 3, layout="step"), dim=1),
]


def level(xp: Any, x: Any, dim: Any) -> Any:
    """The number to subtract before exponentials are taken: the largest (real part), if finite."""
    largest = xp.maximum.reduce(x.real, axis=dim, keepdims=True, initial=-xp.inf)
    return xp.where(xp.isinf(largest), x.real.dtype.type(0), largest)


@op
class Logsumexp(Block):
    """logsumexp(input, dim, keepdim=False) -> Tensor: the logarithm of the summed exponentials.

    >>> logsumexp(tensor([1000.0, 1000.0]), 0)
    tensor(1000.6932)
    """

    autocast = Autocast(gpu=SINGLE)
    aliases = ("special.logsumexp",)
    onnx = "ReduceLogSumExp"
    samples = (
        Case(Draw(3, 4), 0),
        Case(Draw(2, 3, 4), (0, -1), True),
        Case(Draw(), -1),
        Case(Draw(2, 0), 1),
        Case(Draw(4, 3, layout="T"), [1]),
        Case(Draw(2, 3, layout="step"), dim=1, keepdim=True),
    )
    dims = ("dim",)

    def fwd(xp, input, dim, keepdim):
        if input.dtype.kind in "biu":
            input = input.astype(dtypes.default_np())
        x = computed_wide(xp, input)
        shift = level(xp, x, dim)

        def rounded(value):  # PyTorch's steps are ops of their own
            return half_as_single(cast_value(value, input.dtype))

        total = rounded(xp.add.reduce(rounded(xp.exp(rounded(x - shift))), axis=dim, keepdims=True))
        out = rounded(xp.log(total)) + shift
        out = out if keepdim else out.squeeze(dim)
        return contiguous(xp, out.astype(input.dtype, copy=False))

    def d_input(F, grad, input, out, dim, keepdim):
        return unreduce(F, grad, dim, keepdim) * F.exp(input - unreduce(F, out, dim, keepdim))

    def jvp(F, input, t_input, out, dim, keepdim):
        return F.sum(t_input * F.exp(input - unreduce(F, out, dim, keepdim)), dim, keepdim, None)

    def call(input, dim, keepdim=False):
        dims = all_dims("logsumexp", input, dim)
        only_bool("logsumexp", "keepdim", 3, keepdim)
        return apply(Logsumexp, (input,), (dims, keepdim))


def along(x: Any, dim: int) -> tuple[int, ...] | None:
    """`dim` as the dimensions of a reduction; a 0-d tensor has none."""
    return (dim,) if x.shape else None


def wide_and_dense(xp: Any, x: Any) -> Any:
    """`x`, contiguous and not in half precision."""
    if (x.dtype is F32 or x.dtype is F64) and x.flags.c_contiguous:
        return x
    return xp.ascontiguousarray(computed_wide(xp, x)).reshape(x.shape)


class FromOutput(Block):
    """The gradient of one of these, worked out from its output; linear in `input`."""

    tensors = ("input", "output")
    public = False
    dims = ("dim",)


class AlongDim(Block):
    """Every line along a dimension, normalised."""

    autocast = Autocast(gpu=SINGLE)
    out_dtype = OUT_EXACT
    shape = same_shape
    samples = SOFTMAX_CASES
    dims = ("dim",)


@op
class SoftmaxBackwardData(FromOutput):
    """softmax_backward_data(input, output, dim) -> Tensor: softmax's gradient, from its output."""

    aten = "_softmax_backward_data"
    formula = "output * (input - sum(input * output, dim))"
    nonfinite = "soft_maximum"

    def fwd(xp, input, output, dim):
        grad, out = half_as_single(input), half_as_single(output)
        weighted = grad * out
        sums = xp.add.reduce(weighted, dim, None, None, True)
        return cast_value(weighted - out * sums, input.dtype)

    def d_input(F, grad, output, dim):
        return F.softmax_backward_data(grad, output, dim)

    def d_output(F, grad, input, output, dim):
        dims = along(output, dim)
        weighted = F.sum(grad * output, dims, True, None)
        return grad * (input - F.sum(input * output, dims, True, None)) - input * weighted

    def jvp(F, input, t_input, output, t_output, dim):
        dims = along(output, dim)
        none = t_input is None
        total = F.zeros_like(output) if none else F.softmax_backward_data(t_input, output, dim)
        if t_output is None:
            return total
        part = t_output * (input - F.sum(input * output, dims, True, None))
        return total + part - output * F.sum(input * t_output, dims, True, None)


@op
class Softmax(AlongDim):
    """softmax(input, dim, dtype=None) -> Tensor: exponentials divided by their sum along `dim`.

    >>> softmax(tensor([[0.0, 0.0], [0.0, 2.0]]), 1)
    tensor([[0.5000, 0.5000],
            [0.1192, 0.8808]])
    """

    aten = "_softmax"
    aliases = ("special.softmax",)
    onnx = "Softmax"
    nonfinite = "soft_maximum"

    def fwd(xp, input, dim):
        if not input.size:
            return xp.empty(input.shape, input.dtype)
        x = wide_and_dense(xp, input)
        out = xp.exp(x - xp.maximum.reduce(x, dim, None, None, True))
        out /= xp.add.reduce(out, dim, None, None, True)
        return out.astype(input.dtype, copy=False)

    def d_input(F, grad, out, dim):
        return F.softmax_backward_data(grad, out, dim)

    def jvp(F, t_input, out, dim):
        # The Jacobian is symmetric.
        return F.softmax_backward_data(t_input, out, dim)

    def call(input, dim, dtype=None):
        return exponentials(Softmax, input, dim, dtype)

    def aten_call(input, dim, half_to_float):
        return input.softmax(dim)


@op
class LogSoftmaxBackwardData(FromOutput):
    """log_softmax_backward_data(input, output, dim) -> Tensor: log_softmax's gradient."""

    aten = "_log_softmax_backward_data"
    formula = "input - exp(output) * sum(input, dim)"
    nonfinite = "soft_maximum"

    def fwd(xp, input, output, dim):
        grad, out = half_as_single(input), half_as_single(output)
        sums = xp.add.reduce(grad, dim, None, None, True)
        return cast_value(grad - xp.exp(out) * sums, input.dtype)

    def d_input(F, grad, output, dim):
        return grad - F.sum(grad * F.exp(output), along(output, dim), True, None)

    def d_output(F, grad, input, output, dim):
        return -grad * F.exp(output) * F.sum(input, along(output, dim), True, None)

    def jvp(F, input, t_input, output, t_output, dim):
        none = t_input is None
        total = F.zeros_like(output) if none else F.log_softmax_backward_data(t_input, output, dim)
        if t_output is None:
            return total
        return total - t_output * F.exp(output) * F.sum(input, along(output, dim), True, None)


@op
class LogSoftmax(AlongDim):
    """log_softmax(input, dim, dtype=None) -> Tensor: the logarithm of softmax, without overflow.

    >>> log_softmax(tensor([0.0, 0.0]), 0)
    tensor([-0.6931, -0.6931])
    """

    aten = "_log_softmax"
    aliases = ("special.log_softmax",)
    onnx = "LogSoftmax"
    nonfinite = "soft_maximum"

    def fwd(xp, input, dim):
        if not input.size:
            return xp.empty(input.shape, input.dtype)
        x = wide_and_dense(xp, input)
        out = x - xp.maximum.reduce(x, dim, None, None, True)
        total = xp.add.reduce(xp.exp(out), dim, None, None, True)
        if x.dtype != input.dtype and dim == input.ndim - 1:
            # Along the last dimension PyTorch rounds the sum, and its logarithm, to half.
            total = total.astype(input.dtype).astype(x.dtype)
            out -= xp.log(total).astype(input.dtype)
        else:
            out -= xp.log(total)
        return out.astype(input.dtype, copy=False)

    def d_input(F, grad, out, dim):
        return F.log_softmax_backward_data(grad, out, dim)

    def jvp(F, t_input, out, dim):
        return t_input - F.sum(t_input * F.exp(out), along(out, dim), True, None)

    def call(input, dim, dtype=None):
        return exponentials(LogSoftmax, input, dim, dtype)

    def aten_call(input, dim, half_to_float):
        return input.log_softmax(dim)


def exponentials(record: Any, input: Any, dim: Any, dtype: Any) -> Any:
    """The part that softmax and log_softmax share before the kernel."""
    name = record.name
    wanted = None if dtype is None else plain_dtype(name, dtype)
    place = one_dim(name, input, dim)
    if wanted is not None:
        if wanted != input._array.dtype:
            input = RECORDED.cast(input, wanted)
    array = input._array
    if array.dtype.kind in "biuc" and array.size:
        last = "_lastdim" if place == array.ndim - 1 or not array.ndim else ""
        raise NotImplementedError(
            f'"{name}{last}_kernel_impl" not implemented for '
            f"'{dtypes.of(array.dtype).scalar_type}'"
        )
    if array.dtype.kind == "c" and input.requires_grad and MODES.records:  # empty
        raise RuntimeError(
            f"_{name} does not support automatic differentiation for outputs with complex dtype."
        )
    return apply(record, (input,), (place,))
