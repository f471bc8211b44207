"""Variances and standard deviations, alone and with the mean."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...core.base import F32, F64
from ...core.host_arrays import host
from ...core.op import Op
from ...core.strides import contiguous
from ...core.warned import warn
from ..block import Block, Case, api, apply, op, reads_as
from ..block.checks import all_dims, array_of, invalid_call, only_bool
from ..block.samples import Draw
from .sums import computed_wide, count, unreduce

# ruff: noqa: N805

VAR_FORMS = (
    "tuple of ints dim, bool unbiased = True, bool keepdim = False",
    "tuple of ints dim = None, *, Number correction = None, bool keepdim = False",
    "bool unbiased = True",
)

EPSILON = {F32: 2.0**-23, F64: 2.0**-52}


def moments(
    xp: Any, x: Any, dim: Any, correction: Any, keepdim: bool, root: bool = False
) -> tuple[Any, Any]:
    """Variance (or its root) and mean, each in the dtype that it has in the end."""
    own = x.dtype
    x = computed_wide(xp, x)
    n = count(x.shape, dim)
    freedom = n - correction if n > correction and n else 0
    var, mean = two_passes(xp, x, dim, n, freedom)
    kept = var.dtype if own.kind == "c" else own
    if own.kind != "c" and n:
        noise = mean * (n * EPSILON[mean.dtype])
        if xp is not host or not ((noise * noise < var) & (var < math.inf)).all():
            var, mean = second_look(xp, x, dim, n, freedom, var, mean)
    if root:
        var = xp.sqrt(var)
    if not keepdim:
        var, mean = (v.reshape(()) if dim is None else v.squeeze(dim) for v in (var, mean))
    return contiguous(xp, var.astype(kept, copy=False)), contiguous(
        xp, mean.astype(own, copy=False)
    )


def two_passes(xp: Any, x: Any, dim: Any, n: int, freedom: Any) -> tuple[Any, Any]:
    """Variance and mean, with the dimensions kept."""
    mean = xp.true_divide(xp.add.reduce(x, axis=dim, keepdims=True), n)
    gap = x - mean
    squares = gap.real**2 + gap.imag**2 if x.dtype.kind == "c" else gap * gap
    return xp.true_divide(xp.add.reduce(squares, axis=dim, keepdims=True), freedom), mean


def second_look(
    xp: Any, x: Any, dim: Any, n: int, freedom: Any, var: Any, mean: Any
) -> tuple[Any, Any]:
    """Squares may be too large for single precision; equal numbers do not vary at all."""
    if xp is host and freedom and x.dtype == xp.float32 and xp.isinf(var).any():
        var, mean = two_passes(xp, x.astype(xp.float64), dim, n, freedom)
    ends = [slice(0, 1) if dim is None or d in dim else slice(None) for d in range(x.ndim)]
    first = x[tuple(ends)]
    same = xp.equal(x, first).all(axis=dim, keepdims=True) & (var == var)
    mean = xp.where(same, first, mean)
    return xp.where(same, 0, var), running_mean(x, dim, mean) if xp is host else mean


def running_mean(x: Any, dim: Any, mean: Any) -> Any:
    """The mean of elements with infinities, as a running mean gives it.

    PyTorch updates a mean by `(x - mean) / n`: after an infinity that is not the last element, the
    next difference is NaN.
    """
    infinite = np.isinf(x)
    if not infinite.any():
        return mean
    ends = [slice(-1, None) if dim is None or d in dim else slice(None) for d in range(x.ndim)]
    earlier = np.add.reduce(infinite, axis=dim, keepdims=True) > infinite[tuple(ends)]
    return np.where(earlier, math.nan, mean)


def var_gradient(F: Any, grad: Any, input: Any, dim: Any, correction: Any) -> Any:
    """The gradient of the input, from that of the variances with its dimensions restored."""
    gap = input - F.mean(input, dim, True, None)
    freedom = count(input.shape, dim) - correction
    if freedom <= 0 and dim is None:
        # The slope is infinite, and undefined where a value is its own mean.
        return grad * F.where(gap == 0, math.nan, F.full_like(gap, math.inf))
    return grad * gap * (2.0 / freedom if freedom else math.inf)


def var_tangent(F: Any, input: Any, t: Any, dim: Any, correction: Any, keepdim: bool) -> Any:
    gap = input - F.mean(input, dim, True, None)
    freedom = count(input.shape, dim) - correction
    by = 2.0 / freedom if freedom > 0 else math.inf
    return F.sum(F.real_part(F.conj(gap) * t), dim, keepdim, None) * by


@reads_as("x / (2 * std)")
def half_over(F: Any, x: Any, std: Any) -> Any:
    """`x / (2 std)`, zero where there is no deviation."""
    return F.where(std == 0, 0, x / (std * 2))


class Spread(Block):
    public = False
    wirtinger = True
    dims = ("dim",)


@op
class Var(Spread):
    """var(input, dim, correction, keepdim) -> Tensor: variances."""

    aten = "var.correction"
    gradient_text = {"input": "grad * 2 * (input - mean) / (n - correction)"}
    nonfinite = "deviation"

    def fwd(xp, input, dim, correction, keepdim):
        return moments(xp, input, dim, correction, keepdim)[0]

    def d_input(F, grad, input, dim, correction, keepdim):
        return var_gradient(F, unreduce(F, grad, dim, keepdim), input, dim, correction)

    def jvp(F, input, t_input, dim, correction, keepdim):
        return var_tangent(F, input, t_input, dim, correction, keepdim)


@op
class Std(Spread):
    """std(input, dim, correction, keepdim) -> Tensor: standard deviations."""

    aten = "std.correction"
    gradient_text = {"input": "grad * (input - mean) / ((n - correction) * out)"}
    nonfinite = "deviation"

    def fwd(xp, input, dim, correction, keepdim):
        return moments(xp, input, dim, correction, keepdim, root=True)[0]

    def d_input(F, grad, input, out, dim, correction, keepdim):
        grad = unreduce(F, half_over(F, grad, out), dim, keepdim)
        return var_gradient(F, grad, input, dim, correction)

    def jvp(F, input, t_input, out, dim, correction, keepdim):
        return half_over(F, var_tangent(F, input, t_input, dim, correction, keepdim), out)


@op
class VarMean(Spread):
    """var_mean(input, dim, correction, keepdim) -> (Tensor, Tensor): the variance and the mean."""

    aten = "var_mean.correction"
    outs = ("var", "mean")
    nonfinite = "deviation"

    def fwd(xp, input, dim, correction, keepdim):
        return moments(xp, input, dim, correction, keepdim)

    def d_input(F, grad, input, dim, correction, keepdim):
        slope = var_gradient(F, unreduce(F, grad[0], dim, keepdim), input, dim, correction)
        return slope + unreduce(F, grad[1], dim, keepdim) / count(input.shape, dim)

    def jvp(F, input, t_input, dim, correction, keepdim):
        return (
            var_tangent(F, input, t_input, dim, correction, keepdim),
            F.mean(t_input, dim, keepdim, None),
        )


@op
class StdMean(Spread):
    """std_mean(input, dim, correction, keepdim) -> (Tensor, Tensor): the standard deviation and the
    mean."""

    aten = "std_mean.correction"
    outs = ("std", "mean")
    nonfinite = "deviation"

    def fwd(xp, input, dim, correction, keepdim):
        return moments(xp, input, dim, correction, keepdim, root=True)

    def d_input(F, grad, input, std, dim, correction, keepdim):
        first = unreduce(F, half_over(F, grad[0], std), dim, keepdim)
        slope = var_gradient(F, first, input, dim, correction)
        return slope + unreduce(F, grad[1], dim, keepdim) / count(input.shape, dim)

    def jvp(F, input, t_input, std, dim, correction, keepdim):
        tangent = var_tangent(F, input, t_input, dim, correction, keepdim)
        return half_over(F, tangent, std), F.mean(t_input, dim, keepdim, None)


SPREAD_CASES = [
    Case(Draw(3, 4)),
    Case(Draw(3, 4), 0),
    Case(Draw(3, 4), 1, False),
    Case(Draw(2, 3, 4), (0, 2), correction=2, keepdim=True),
    Case(Draw(4, 3, layout="T"), -1, keepdim=True),
    Case(Draw(2, 3, layout="step"), unbiased=False),
]


def variance_call(
    record: Any, input: Any, dim: Any, unbiased: Any, keepdim: bool, correction: Any
) -> Any:
    """The four functions of variance: `unbiased` is the older spelling of `correction`."""
    name = record.name
    array = array_of(name, input)
    if isinstance(dim, bool) and unbiased is None:
        dim, unbiased = None, dim
    if unbiased is not None and correction is not None:
        shown = "".join([f" * ({form})\n" for form in VAR_FORMS])
        raise TypeError(
            f"{name}() received an invalid combination of arguments - got "
            f"(correction={type(correction).__name__}, unbiased=bool, ), but expected "
            f"one of:\n{shown}"
        )
    if not isinstance(unbiased, (bool, type(None))):
        raise invalid_call(name, dim, unbiased)
    if correction is None:
        correction = 1 if unbiased is None or unbiased else 0
    if array.dtype.kind in "biu":
        # PyTorch says "std and var" for all four, or the pair's own names for the pairs.
        pair = "std_mean and var_mean" if name.endswith("mean") else "std and var"
        raise RuntimeError(f"{pair} only support floating point and complex dtypes")
    dims = all_dims(name, input, dim, VAR_FORMS)
    only_bool(name, "keepdim", 4, keepdim)
    if not array.size or count(array.shape, dims) <= correction:
        warn(
            f"{name}(): degrees of freedom is <= 0. Correction should be strictly less than the "
            "reduction factor (input numel divided by output numel).",
            UserWarning,
        )
    return apply(record, (input,), (dims, correction, keepdim))


def variance_function(**fields: Any) -> Any:
    """Publish the function of an op, which `source` names and describes."""

    def publish(source: Any) -> Any:
        record = source()

        def made(
            input: Any,
            dim: Any = None,
            unbiased: Any = None,
            keepdim: bool = False,
            *,
            correction: Any = None,
        ) -> Any:
            return variance_call(record, input, dim, unbiased, keepdim, correction)

        made.__name__, made.__doc__ = source.__name__, source.__doc__
        return api(samples=SPREAD_CASES, **fields)(made)

    return publish


@variance_function()
def var() -> Op:
    """var(input, dim=None, *, correction=1, keepdim=False) -> Tensor: the variance.

    The sum of squares is divided by the number of elements less `correction`.

    >>> var(tensor([1.0, 2.0, 3.0])), var(tensor([1.0, 2.0, 3.0]), correction=0)
    (tensor(1.), tensor(0.6667))
    """
    return Var


@variance_function()
def std() -> Op:
    """std(input, dim=None, *, correction=1, keepdim=False) -> Tensor: the standard deviation.

    >>> std(tensor([[1.0, 3.0], [1.0, 5.0]]), 1)
    tensor([1.4142, 2.8284])
    """
    return Std


@variance_function(method=False)
def var_mean() -> Op:
    """var_mean(input, dim=None, *, correction=1, keepdim=False) -> (Tensor, Tensor): both at once.

    >>> var_mean(tensor([1.0, 2.0, 3.0]))
    (tensor(1.), tensor(2.))
    """
    return VarMean


@variance_function(method=False)
def std_mean() -> Op:
    """std_mean(input, dim=None, *, correction=1, keepdim=False) -> (Tensor, Tensor): both at once.

    >>> std_mean(tensor([1.0, 2.0, 3.0]))
    (tensor(1.), tensor(2.))
    """
    return StdMean
