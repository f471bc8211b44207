"""Scans: each output element takes in everything up to its own place along a dimension."""

from __future__ import annotations

import math
from typing import Any

from ... import dtypes
from ...core.arguments import cast_value
from ...core.named_results import return_type
from ...core.rounding import half_as_single
from ...dtypes import cpp_name
from ..block import SINGLE, Autocast, Block, Case, Linear, apply, op
from ..block.checks import array_of, one_dim, plain_dtype
from ..block.samples import Draw
from ..block.shapes import same_shape
from .extrema import check_no_complex
from .sums import is_half

# ruff: noqa: N805, E704

OUT_SCALAR_TYPE = "expected scalar_type {want} but found {got}"

SCAN_CASES = [
    Case(Draw(3, 4), 0),
    Case(Draw(2, 3, 4), -2),
    Case(Draw(), -1),
    Case(Draw(2, 0), 1),
    Case(Draw(1, 3), 0),
    Case(Draw(4, 3, layout="T"), 1),
    Case(Draw(2, 3, layout="step"), dim=1),
]

ACCUMULATE_IN = {"f": "float64", "c": "complex128"}


def accumulated(xp: Any, ufunc: Any, x: Any, dim: int, dtype: Any) -> Any:
    """`ufunc` (add, multiply) along `dim`; floats in twice the precision, as PyTorch does."""
    if dtype is None:
        dtype = xp.dtype(xp.int64) if x.dtype.kind in "biu" else x.dtype
    shape = x.shape
    x = x.astype(dtype, copy=False).reshape(shape or (1,))
    wide = "float32" if is_half(dtype) else ACCUMULATE_IN.get(dtype.kind, dtype)
    if x.dtype != wide:
        x = half_as_single(x) if wide == "float32" else x.astype(wide)
    out = ufunc.accumulate(xp.ascontiguousarray(x), axis=dim)
    if ufunc is xp.add and out.dtype.kind == "f":
        out += 0.0  # PyTorch begins with zero, NumPy with the first element, which may be -0.0
    return cast_value(out, dtype).reshape(shape)


def from_the_end(F: Any, scan: Any, x: Any, dim: int) -> Any:
    """`scan` along `dim` from the last element to the first."""
    return F.flip(scan(F.flip(x, (dim,)), dim), (dim,))


def is_single(x: Any, dim: int) -> bool:
    """Nothing to scan: at most one element along `dim`."""
    return math.prod(x.shape) <= 1 or x.shape[dim] == 1


@op
class Cumsum(Linear):
    """cumsum(input, dim, *, dtype=None) -> Tensor: the sums up to each place along `dim`.

    >>> tensor([1.0, 2.0, 3.0]).cumsum(0)
    tensor([1., 3., 6.])
    """

    inplace = True
    autocast = Autocast(gpu=SINGLE)
    shape = same_shape
    samples = SCAN_CASES
    dims = ("dim",)
    out_decides = True

    def fwd(xp, input, dim, dtype=None):
        return accumulated(xp, xp.add, input, dim, dtype)

    def d_input(F, grad, dim):
        return grad if is_single(grad, dim) else from_the_end(F, F.cumsum, grad, dim)

    def call(input, dim, *, dtype=None, run=apply):
        return scan_sum(Cumsum, input, dim, dtype, run)


@op
class LinearScan(Block):
    """linear_scan(input, factor, dim) -> Tensor: a linear recurrence along `dim`.

    `y[k] = input[k] + factor[k] * y[k-1]`. The derivative of `cumprod`, and its own.
    """

    aten = None
    tensors = ("input", "factor")
    public = False
    dims = ("dim",)

    def fwd(xp, input, factor, dim):
        out = input.copy()
        rows = xp.moveaxis(out, dim, 0)
        by = xp.moveaxis(factor, dim, 0)
        for k in range(1, rows.shape[0]):
            rows[k] += by[k] * rows[k - 1]
        return out

    def d_input(F, grad, factor, dim):
        return scan_back(F, grad, factor, dim)

    def d_factor(F, grad, factor, out, dim):
        size = factor.shape[dim]
        before = F.narrow(out, dim, 0, size - 1)
        nothing = F.zeros_like(F.narrow(out, dim, 0, 1))
        return scan_back(F, grad, factor, dim) * F.cat([nothing, before], dim)

    def jvp(F, input, t_input, factor, t_factor, out, dim):
        add = F.zeros_like(input) if t_input is None else t_input
        if t_factor is not None:
            size = factor.shape[dim]
            nothing = F.zeros_like(F.narrow(out, dim, 0, 1))
            before = F.cat([nothing, F.narrow(out, dim, 0, size - 1)], dim)
            add = add + t_factor * before
        return F.linear_scan(add, factor, dim)


def scan_back(F: Any, grad: Any, factor: Any, dim: int) -> Any:
    """`y[k] = grad[k] + factor[k+1] * y[k+1]`: a linear scan from the end."""
    size = factor.shape[dim]
    following = F.cat([F.narrow(factor, dim, 1, size - 1), F.narrow(factor, dim, 0, 1)], dim)
    return F.flip(F.linear_scan(F.flip(grad, (dim,)), F.flip(following, (dim,)), dim), (dim,))


def up_to(F: Any, x: Any, dim: int) -> Any:
    """The product of the elements before each one."""
    first = F.ones_like(F.narrow(x, dim, 0, 1))
    return F.cumprod(F.cat([first, F.narrow(x, dim, 0, x.shape[dim] - 1)], dim), dim)


@op
class Cumprod(Block):
    """cumprod(input, dim, *, dtype=None) -> Tensor: the products up to each place along `dim`.

    >>> tensor([1.0, 2.0, 3.0]).cumprod(0)
    tensor([1., 2., 6.])
    """

    inplace = True
    autocast = Autocast(gpu=SINGLE)
    shape = same_shape
    samples = SCAN_CASES
    dims = ("dim",)
    out_decides = True

    def fwd(xp, input, dim, dtype=None):
        return accumulated(xp, xp.multiply, input, dim, dtype)

    def d_input(F, grad, input, out, dim):
        # No division, so that zeros are no special case. PyTorch's formula reads `out` too: it is
        # kept so that a write to it before the backward pass is refused, as there.
        if is_single(grad, dim):
            return grad
        return up_to(F, input, dim) * scan_back(F, grad, input, dim)

    def jvp(F, input, t_input, dim):
        if is_single(t_input, dim):
            return t_input
        return F.linear_scan(t_input * up_to(F, input, dim), input, dim)

    def call(input, dim, *, dtype=None, run=apply):
        return scan_sum(Cumprod, input, dim, dtype, run)


def scan_sum(record: Any, input: Any, dim: Any, dtype: Any, run: Any) -> Any:
    name = record.name
    place = one_dim(name, input, dim)
    wanted = plain_dtype(name, dtype)
    own = input._array.dtype
    in_place = run is not apply
    if in_place and wanted is not None and wanted != own:
        raise RuntimeError(
            f"Bad in-place call: input tensor dtype {cpp_name(own)} and output tensor "
            f"dtype {cpp_name(wanted)} should match"
        )
    target = own if in_place else wanted
    if target is not None and target.kind == "b" and input._array.ndim and input._array.size:
        raise NotImplementedError(f"\"{name}_out_cpu\" not implemented for 'Bool'")
    return run(record, (input,), (place, wanted))


class CumExtremum(Block):
    """Running extrema and where they were last reached; that place gets the gradient."""

    outs = ("values", "indices")
    plain_outs = positions = (1,)
    samples = SCAN_CASES
    dims = ("dim",)

    def d_input(F, grad, input, indices, dim):
        # PyTorch keeps `input`, so that a write to it before the backward pass is refused.
        grad = grad[0]
        if is_single(grad, dim):
            return grad
        return F.scatter_add(F.zeros_like(grad), indices, grad, dim)

    def jvp(F, t_input, indices, dim):
        return (t_input if not t_input.shape else F.gather(t_input, indices, dim)), None


def running(xp: Any, ufunc: Any, x: Any, dim: int) -> tuple[Any, Any]:
    shape = x.shape
    x = xp.ascontiguousarray(x).reshape(shape or (1,))
    values = ufunc.accumulate(x, axis=dim)
    reached = (x == values) | (x != x)
    places = xp.arange(x.shape[dim]).reshape([-1 if d == dim else 1 for d in range(x.ndim)])
    indices = xp.maximum.accumulate(xp.where(reached, places, 0), axis=dim)
    return values.reshape(shape), indices.reshape(shape)


def running_call(record: Any, input: Any, dim: Any) -> Any:
    is_empty = input._array.ndim and not input._array.size
    place = 0 if is_empty and type(dim) is int else one_dim(record.name, input, dim)
    if input._array.ndim and input._array.size:
        check_no_complex(f"{record.name}_cpu", input._array)
    return apply(record, (input,), (place,))


@op
class Cummax(CumExtremum):
    """cummax(input, dim) -> (values, indices): the largest element up to each place along `dim`.

    >>> cummax(tensor([1.0, 3.0, 2.0]), 0)
    torch.return_types.cummax(
    values=tensor([1., 3., 3.]),
    indices=tensor([0, 1, 1]))
    """

    result = return_type("cummax", ("values", "indices"))
    out_dtype = OUT_SCALAR_TYPE

    def fwd(xp, input, dim):
        return running(xp, xp.maximum, input, dim)

    def call(input, dim):
        return running_call(Cummax, input, dim)


@op
class Cummin(CumExtremum):
    """cummin(input, dim) -> (values, indices): the smallest element up to each place along `dim`.

    >>> cummin(tensor([2.0, 3.0, 1.0]), 0)
    torch.return_types.cummin(
    values=tensor([2., 2., 1.]),
    indices=tensor([0, 0, 2]))
    """

    result = return_type("cummin", ("values", "indices"))
    out_dtype = OUT_SCALAR_TYPE

    def fwd(xp, input, dim):
        return running(xp, xp.minimum, input, dim)

    def call(input, dim):
        return running_call(Cummin, input, dim)


def log_sums(xp: Any, x: Any, dim: int) -> Any:
    """`logcumsumexp` of complex numbers, step by step: imaginary parts go on where they were."""
    out = x.astype(xp.complex128)
    rows = xp.moveaxis(out, dim, 0)
    for k in range(1, rows.shape[0]):
        before, now = rows[k - 1], rows[k]
        ahead = before.real >= now.real
        large, small = xp.where(ahead, before, now), xp.where(ahead, now, before)
        found = xp.log1p(xp.exp(small - large)) + large
        level = (large.real == small.real) & ~xp.isfinite(large.real)
        both = xp.where(large.real < 0, now, xp.log(xp.exp(small) + xp.exp(large)))
        rows[k] = xp.where(level, both, found)
    return out


@op
class Logcumsumexp(Block):
    """logcumsumexp(input, dim) -> Tensor: `logsumexp` of the elements up to each place.

    >>> logcumsumexp(tensor([0.0, 0.0, 0.0]), 0)
    tensor([0.0000, 0.6931, 1.0986])
    """

    out_dtype = OUT_SCALAR_TYPE
    samples = SCAN_CASES
    dims = ("dim",)

    def fwd(xp, input, dim):
        shape = input.shape
        x = xp.ascontiguousarray(input).reshape(shape or (1,))
        if is_half(x.dtype):
            x = x.astype(xp.float32)
        if x.dtype.kind == "c":
            return log_sums(xp, x, dim).astype(input.dtype, copy=False).reshape(shape)
        return xp.logaddexp.accumulate(x, axis=dim).astype(input.dtype, copy=False).reshape(shape)

    def d_input(F, grad, input, out, dim, input_dtype):
        if is_single(grad, dim):
            return grad
        if input_dtype.kind == "c":
            level = F.amax(F.real_part(input), (dim,), True)
            parts = from_the_end(F, F.cumsum, grad * F.exp(level - out), dim)
            return parts * F.exp(input - level)
        # Positive and negative parts apart, each as a sum of exponentials again.
        size = F.log(F.abs(grad))
        up = F.where(grad > 0, size - out, -math.inf)
        down = F.where(grad < 0, size - out, -math.inf)
        return F.exp(from_the_end(F, F.logcumsumexp, up, dim) + input) - F.exp(
            from_the_end(F, F.logcumsumexp, down, dim) + input
        )

    def jvp(F, input, t_input, out, dim):
        if is_single(t_input, dim):
            return t_input
        level = F.amax(F.real_part(input), (dim,), True)
        level = F.where(level == -math.inf, 0, level)
        empty = F.real_part(out) == -math.inf  # the sum of nothing, as in d_input
        sums = F.cumsum(t_input * F.exp(input - level), dim)
        return F.where(empty, 0, sums / F.where(empty, 1, F.exp(out - level)))

    def call(input, dim):
        place = one_dim("logcumsumexp", input, dim)
        dtype = array_of("logcumsumexp", input).dtype
        if dtype.kind in "biu":
            raise NotImplementedError(
                f"\"logcumsumexp_out_cpu\" not implemented for '{dtypes.of(dtype).scalar_type}'"
            )
        return apply(Logcumsumexp, (input,), (place,))
