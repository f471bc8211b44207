"""The mathematics of batch, layer and group norm: subtracting means and dividing by deviations,
with first and second derivatives, and fast sums for their kernels.

Write x̂ = (x - mean) r with r = 1 / sqrt(var + eps), the mean and variance over some dimensions. A
small change of x changes x̂ by r P, where P takes out what normalising takes out again: the mean,
and the part along x̂. P is its own transpose, so gradients come back through r P as well.
"""

from __future__ import annotations

import math
from typing import Any

from ... import dtypes
from ...core.base import TensorBase
from ...core.rounding import half_as_single
from ...core.settings import Settings
from ...kernels.column_sums import column_sums as column_sums
from ..block.checks import not_implemented

# What is shown for the rules of the norms.
GRADIENT_TEXT = {
    "input": "rstd * (g - mean(g) - x_hat * mean(g * x_hat)), g = grad * weight",
    "weight": "sum(grad * x_hat)",
    "bias": "sum(grad)",
}


class Standardized:
    """x̂, in the language of rules; without dimensions in `over` the statistics are constants."""

    def __init__(self, F: Any, x: Any, mean: Any, r: Any, over: tuple[int, ...], eps: float):
        self.F = F
        self.over = over
        self.count = math.prod([x.shape[d] for d in over])
        if F.recorded and over:
            # To be differentiated once more, the statistics have to know what they came from.
            centred = x - self.mean(x)
            r = F.rsqrt(self.mean(centred * centred) + eps)
        else:
            centred = x - mean
        self.r = r
        self.x = centred * r

    def mean(self, z: Any) -> Any:
        return self.F.sum(z, self.over, True, None) / self.count

    def project(self, z: Any) -> Any:
        """P z: how the standardized tensor follows a change of the original, but for the scale."""
        if not self.over:
            return z
        return z - self.mean(z) - self.x * self.mean(z * self.x)


def total(F: Any, z: Any, across: tuple[int, ...]) -> Any:
    return F.sum(z, across, True, None) if across else z


def sum_of(*parts: Any) -> Any:
    """The sum of what is not None."""
    found = None
    for part in parts:
        if part is not None:
            found = part if found is None else found + part
    return found


def times_weight(z: Any, weight: Any) -> Any:
    return z if weight is None or z is None else z * weight


def tangent(s: Standardized, weight: Any, t_x: Any, t_weight: Any, t_bias: Any) -> Any:
    """The change of x̂ * weight + bias."""
    moved = None if t_x is None else times_weight(s.r * s.project(t_x), weight)
    turned = None if t_weight is None else s.x * t_weight
    return sum_of(moved, turned, t_bias)


def gradients(s: Standardized, grad: Any, weight: Any, across: tuple[int, ...]) -> Any:
    """Gradients of input, weight and bias; the last two are summed over the dimensions `across`."""
    to_input = s.r * s.project(times_weight(grad, weight))
    return to_input, total(s.F, grad * s.x, across), total(s.F, grad, across)


def second_gradients(
    s: Standardized, pulls: Any, grad: Any, weight: Any, across: tuple[int, ...]
) -> Any:
    """Gradients of `gradients` by grad, input and weight.

    `pulls` are the gradients of its three results, None for those that received nothing.
    """
    u, v, w = pulls
    seen = None if u is None else s.r * s.project(u)
    to_grad = sum_of(times_weight(seen, weight), None if v is None else v * s.x, w)
    to_weight = None if u is None or weight is None else total(s.F, grad * seen, across)
    to_input = None if v is None else s.r * s.project(v * grad)
    if u is not None and s.over:
        g = times_weight(grad, weight)
        a, c = s.mean(g * s.x), s.mean(u * s.x)
        k = s.mean(u * g) - s.mean(u) * s.mean(g) - a * c
        to_input = sum_of(to_input, -(s.r * s.r) * (k * s.x + s.project(a * u + c * g)))
    return to_grad, to_input, to_weight


def gradient_tangents(
    s: Standardized,
    grad: Any,
    weight: Any,
    t_grad: Any,
    t_x: Any,
    t_weight: Any,
    across: tuple[int, ...],
) -> Any:
    """How the three results of `gradients` change."""
    F = s.F
    t_g = sum_of(times_weight(t_grad, weight), None if t_weight is None else grad * t_weight)
    to_input = None if t_g is None else s.r * s.project(t_g)
    t_hat = None if t_x is None else s.r * s.project(t_x)
    if t_x is not None and s.over:
        g = times_weight(grad, weight)
        steeper = -(s.r * s.r) * s.mean(s.x * t_x) * s.project(g)
        bent = t_hat * s.mean(g * s.x) + s.x * s.mean(g * t_hat)
        to_input = sum_of(to_input, steeper - s.r * bent)
    along = sum_of(
        None if t_grad is None else t_grad * s.x, None if t_hat is None else grad * t_hat
    )
    zero = total(F, F.zeros_like(grad), across)
    return (
        F.zeros_like(grad) if to_input is None else to_input,
        zero if along is None else total(F, along, across),
        zero if t_grad is None else total(F, t_grad, across),
    )


def fitted(F: Any, z: Any, shape: tuple[int, ...]) -> Any:
    """`z` in the shape of a parameter, or nothing where there is none."""
    if not math.prod(shape) and math.prod(z.shape):
        return F.blank(z, shape)
    return F.reshape(z, shape)


# ---------------------------------------------------------------------- kernels

SHORT = 16  # rows below this length are not worth a call of BLAS each
LONG = 512  # below this NumPy's own sums are as fast as BLAS


def row_sums(xp: Any, x: Any) -> Any:
    """Sums along the last dimension of a contiguous array; NumPy's own where bits are portable."""
    length = x.shape[-1]
    if Settings.portable or length < LONG and x.size < 32 * LONG or length < SHORT:
        return xp.add.reduce(x, -1)
    return xp.matmul(x.reshape(-1, length), xp.ones(length, x.dtype)).reshape(x.shape[:-1])


def row_dots(xp: Any, a: Any, b: Any) -> Any:
    """Sums of products along the last dimension."""
    if Settings.portable or a.shape[-1] < SHORT:
        return xp.add.reduce(a * b, -1)
    return xp.matmul(a[..., None, :], b[..., None])[..., 0, 0]


def standard_rows(xp: Any, rows: Any, eps: float) -> tuple[Any, Any, Any]:
    """Rows with mean 0 and variance 1, and the means and reciprocal deviations that they had."""
    length = rows.shape[1]
    mean = row_sums(xp, rows) / length
    out = rows - mean[:, None]
    r = 1 / xp.sqrt(row_dots(xp, out, out) / length + eps)
    out *= r[:, None]
    return out, mean, r


def dense_single(xp: Any, x: Any) -> Any:
    """Contiguous, and not in half precision."""
    return xp.ascontiguousarray(half_as_single(x))


def by_channels_last(x: Any) -> bool:
    """Whether the channels (dimension 1) of an image lie next to each other in memory."""
    if x.ndim not in (4, 5) or x.flags.c_contiguous:
        return False
    return bool(x.transpose(0, *range(2, x.ndim), 1).flags.c_contiguous)


def placeholder(xp: Any) -> Any:
    """In the place of a gradient that nobody asks for."""
    return xp.zeros(0, xp.float32)


# ---------------------------------------------------------------------- dtypes


def check_floating(kernel: str, dtype: Any) -> None:
    if dtype.kind not in "fV":
        raise not_implemented(kernel, dtypes.of(dtype))


def check_parameters(input: Any, *parameters: Any) -> None:
    """Weights have the input's dtype; beside half precision they may all be single."""
    own = input._array.dtype
    given = [p._array.dtype for p in parameters if p is not None]
    if not given or all([d is own for d in given]):
        return
    if given[0] == own:
        for d in given:
            if d != own:
                raise RuntimeError(
                    f"expected scalar type {dtypes.of(own).scalar_type} but found "
                    f"{dtypes.of(d).scalar_type}"
                )
        return
    if any([d.name != "float32" for d in given]):
        raise RuntimeError("mixed dtype (CPU): expect parameter to have scalar type of Float")
    if own.itemsize != 2:
        raise RuntimeError("mixed dtype (CPU): all inputs must share same datatype.")


def statistics_dtype(input: Any, *parameters: Any) -> Any:
    """Single precision if the parameters are, else the input's own; of tensors or arrays."""
    for p in (*parameters, input):
        if p is not None:
            return p._array.dtype if isinstance(p, TensorBase) else p.dtype
    return None
