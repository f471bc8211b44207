"""Norms: how long vectors are, and how far apart."""

from __future__ import annotations

import math
from typing import Any

from ... import dtypes
from ...core import promote
from ...core.base import TensorBase
from ...core.node import unbroadcast
from ...core.strides import contiguous
from ...errors import check_broadcast
from ..block import SINGLE, Autocast, Block, Case, api, apply, op
from ..block.batching import lift, padded
from ..block.checks import OUT_EXACT, all_dims, array_of, plain_dtype
from ..block.samples import Draw
from ..pointwise.arithmetic import refuse_bools
from .sums import computed_wide, count, unreduce

# ruff: noqa: N805, E704


def lengths(xp: Any, x: Any, ord: float, dim: Any, keepdim: bool) -> Any:
    """The `ord`-norm over dimensions."""
    size = xp.absolute(computed_wide(xp, x))
    if ord != 0 and count(x.shape, dim) == 1:
        ord = 1  # the size itself, whose powers may be too large or too small
    if ord == 0:
        out = xp.add.reduce(size != 0, axis=dim, keepdims=keepdim, dtype=size.dtype)
    elif ord == math.inf:
        out = xp.maximum.reduce(size, axis=dim, keepdims=keepdim)
    elif ord == -math.inf:
        out = xp.minimum.reduce(size, axis=dim, keepdims=keepdim)
    elif ord == 1:
        out = xp.add.reduce(size, axis=dim, keepdims=keepdim)
    elif ord == 2:
        out = xp.sqrt(xp.add.reduce(size * size, axis=dim, keepdims=keepdim))
    else:
        out = xp.power(xp.add.reduce(xp.power(size, ord), axis=dim, keepdims=keepdim), 1 / ord)
    return contiguous(xp, out if x.dtype.kind == "c" else out.astype(x.dtype, copy=False))


def norm_gradient(F: Any, grad: Any, x: Any, norm: Any, ord: float, dim: Any) -> Any:
    """The slope of a norm, with PyTorch's choice of zero where it has none; no length, no slope."""
    if ord == 0:
        return F.zeros_like(x)
    if ord == 1:
        return F.sgn(x) * grad
    if math.isinf(ord):
        mask = F.abs(x) == norm
        ties = F.sum(F.where(mask, F.ones_like(F.real_part(x)), 0), dim, True, None)
        return F.sgn(x) * F.where(mask, grad / ties, 0)
    if ord == 2:
        return grad * F.where(norm == 0, 0, x / norm)
    if ord < 1:
        power = F.where(x == 0, 0, F.pow_scalar(F.abs(x), ord - 1))
        return F.sgn(x) * power * grad * F.pow_scalar(norm, 1 - ord)
    scale = F.where(norm == 0, 0, grad / F.pow_scalar(norm, ord - 1))
    if ord < 2:
        return F.sgn(x) * F.pow_scalar(F.abs(x), ord - 1) * scale
    return x * F.pow_scalar(F.abs(x), ord - 2) * scale


def norm_tangent(F: Any, t: Any, x: Any, out: Any, ord: float, dim: Any, keepdim: bool) -> Any:
    """Forward mode: the slope of each length along its own vector's tangent."""
    kept = unreduce(F, out, dim, keepdim)
    slope = norm_gradient(F, F.ones_like(kept), x, kept, ord, dim)
    return F.sum(F.real_part(F.conj(slope) * t), dim, keepdim, None)


class Lengths(Block):
    """Base of the two ops of vector norms: `linalg.vector_norm`, and the older `norm`."""

    public = False
    wirtinger = True
    dims = ("dim",)

    def d_input(F, grad, input, out, ord, dim, keepdim):
        grad = unreduce(F, grad, dim, keepdim)
        return norm_gradient(F, grad, input, unreduce(F, out, dim, keepdim), ord, dim)


@op
class LinalgVectorNorm(Lengths):
    """linalg_vector_norm(x, ord, dim, keepdim, dtype) -> Tensor: lengths of vectors."""

    aten = "linalg_vector_norm"
    autocast = Autocast(gpu=SINGLE)
    gradient_text = {"input": "grad * input / out, for the 2-norm"}
    nonfinite = "vector_norm"

    def fwd(xp, input, ord, dim, keepdim, dtype):
        return lengths(xp, input if dtype is None else input.astype(dtype), ord, dim, keepdim)

    def jvp(F, input, t_input, out, ord, dim, keepdim, dtype):
        return norm_tangent(F, t_input, input, out, ord, dim, keepdim)


@op
class NormAlong(Lengths):
    """norm_along(x, ord, dim, keepdim) -> Tensor: the same by the name that distances record."""

    node = "NormBackward1"
    aten = "norm.ScalarOpt_dim"
    nonfinite = "vector_norm"

    def fwd(xp, input, ord, dim, keepdim):
        return lengths(xp, input, ord, dim, keepdim)

    def jvp(F, input, t_input, out, ord, dim, keepdim):
        return norm_tangent(F, t_input, input, out, ord, dim, keepdim)


NORM_CASES = [
    Case(Draw(3, 4)),
    Case(Draw()),
    Case(Draw(3, 4), 1, 0),
    Case(Draw(2, 3, 4), 3, (0, -1), True),
    Case(Draw(4, 3, layout="T"), math.inf, 1),
    Case(Draw(4, 3), -math.inf, 1),
    Case(Draw(2, 3, layout="step"), 1.5, dim=1, keepdim=True),
    Case(Draw(2, 3, low=0.5), 0.5),
    Case(Draw(2, 3), 0),
    Case(Draw(0, 2), 2, 0),
]


@api(
    name="linalg.vector_norm",
    samples=NORM_CASES,
    autocast=Autocast(gpu=SINGLE),
    out_dtype=OUT_EXACT,
)
def vector_norm(
    x: Any, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    """linalg.vector_norm(x, ord=2, dim=None, keepdim=False, *, dtype=None) -> Tensor: the p-norm
    of vectors, with p = `ord`.

    Over all elements, or over the dimensions `dim`.

    >>> torch.linalg.vector_norm(tensor([3.0, -4.0]))
    tensor(5.)
    """
    array = array_of("linalg_vector_norm", x)
    if isinstance(ord, TensorBase) and not ord._array.ndim and not ord._wants_grad:
        ord = ord.item()  # type: ignore[attr-defined]
    if isinstance(ord, complex):
        raise RuntimeError(
            "linalg.vector_norm: Expected a non-complex scalar as the order of norm."
        )
    if not isinstance(ord, (int, float)):
        raise TypeError(
            f"linalg_vector_norm(): argument 'ord' must be Number, not {type(ord).__name__}"
        )
    own = dtypes.of(array.dtype)
    if own.category < dtypes.FLOATING:
        raise RuntimeError(
            "linalg.vector_norm: Expected a floating point or complex tensor as "
            f"input. Got {own.scalar_type}"
        )
    wanted = plain_dtype("linalg_vector_norm", dtype)
    if wanted is not None:
        check_dtype("linalg.vector_norm", own, dtype)
    dims = all_dims("linalg_vector_norm", x, dim)
    check_identity(array.shape, ord, dims)
    return apply(LinalgVectorNorm, (x,), (float(ord), dims, keepdim, wanted))


def check_dtype(function: str, own: dtypes.dtype, wanted: dtypes.dtype) -> None:
    if wanted.category < dtypes.FLOATING:
        raise RuntimeError(
            f"{function}: dtype should be floating point or complex, but got {wanted.scalar_type}"
        )
    if own.is_complex != wanted.is_complex:
        kind = "complex" if own.is_complex else "real"
        raise RuntimeError(
            f"{function}: dtype should be {kind} for {kind} inputs, but got {wanted.scalar_type}"
        )
    if promote.promote(own, wanted) is not wanted:
        raise RuntimeError(
            f"{function}: the dtype of the input ({own.scalar_type}) should be convertible "
            f"without narrowing to the specified dtype ({wanted.scalar_type})"
        )


def check_identity(shape: tuple[int, ...], ord: float, dims: tuple[int, ...] | None) -> None:
    """Nothing has no largest element, and no smallest."""
    if 0 not in shape or 0 <= ord < math.inf:
        return
    spelled = f"{ord:g}"
    if dims is None:
        raise RuntimeError(
            f"linalg.vector_norm cannot compute the {spelled} norm on an empty "
            "tensor because the operation does not have an identity"
        )
    for d in dims:
        if shape[d] == 0:
            # The missing space is PyTorch's.
            raise RuntimeError(
                f"linalg.vector_norm cannot compute the {spelled} norm on the "
                f"dimension {d}because this dimension is empty and the operation "
                "does not have an identity"
            )


@api(
    samples=[*NORM_CASES, Case(Draw(2, 3), "nuc"), Case(Draw(2, 3), "fro", (0, 1), True)],
    autocast=Autocast(gpu=SINGLE),
    out_dtype=OUT_EXACT,
    python=True,
)
def norm(
    input: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None
) -> Any:
    """norm(input, p="fro", dim=None, keepdim=False, dtype=None) -> Tensor: the p-norm of vectors,
    or a norm of matrices by name.

    "fro" is 2; `inf` and `-inf` give the largest and the smallest absolute value. "nuc" is the sum
    of the singular values of matrices.

    >>> tensor([3.0, -4.0]).norm(), tensor([3.0, -4.0]).norm(float("inf"))
    (tensor(5.), tensor(4.))
    """
    array = array_of("norm", input)
    if isinstance(p, str) and (p != "fro" or (isinstance(dim, (tuple, list)) and len(dim) > 2)):
        from ..linalg.norms import matrix_norm  # loaded with the other matrix functions

        if dim is None:
            dim = tuple(range(array.ndim))
        places = tuple(dim) if isinstance(dim, (tuple, list)) else (dim,)
        return matrix_norm(input, p, places, keepdim, dtype=dtype)
    if p is None or p == "fro":
        p = 2.0
    return vector_norm(input, p, dim, keepdim, dtype=dtype)


@op
class Dist(Block):
    """dist(input, other, p=2) -> Tensor: the p-norm of the difference.

    >>> dist(tensor([1.0, 2.0]), tensor([4.0, 6.0]))
    tensor(5.)
    """

    tensors = ("input", "other")
    broadcasts = True
    wirtinger = True
    autocast = Autocast(gpu=SINGLE)
    samples = (
        Case(Draw(3, 4), Draw(3, 4)),
        Case(Draw(3, 1), Draw(4), 1),
        Case(Draw(), Draw(2, 3), 3),
        Case(Draw(2, 3, layout="T"), Draw(3), math.inf),
        Case(Draw(0), Draw(1)),
    )

    def fwd(xp, input, other, p, dtype):
        return lengths(xp, input.astype(dtype) - other.astype(dtype), p, None, False)

    # The engine undoes broadcasting up to the shape of the output, and here that is always ().
    def d_input(F, grad, input, other, out, p, dtype, input_shape):
        apart = F.cast(input, dtype) - F.cast(other, dtype)
        return unbroadcast(F, norm_gradient(F, grad, apart, out, p, None), input_shape)

    def d_other(F, grad, input, other, out, p, dtype, other_shape):
        apart = F.cast(input, dtype) - F.cast(other, dtype)
        return unbroadcast(F, -norm_gradient(F, grad, apart, out, p, None), other_shape)

    def jvp(F, input, t_input, other, t_other, out, p, dtype):
        if t_other is None:
            t = t_input
        else:
            t = -t_other if t_input is None else t_input - t_other
        apart = F.cast(input, dtype) - F.cast(other, dtype)
        return norm_tangent(F, t, apart, out, p, None, False)

    def batch(F, size, batched, input, other, p, dtype):
        rank = max(len(input.shape) - batched[0], len(other.shape) - batched[1])
        a, b = (
            padded(F, lift(F, x, size, own), 1, rank + 1)
            for x, own in zip((input, other), batched, strict=True)
        )
        along = tuple(range(1, rank + 1))
        apart = F.cast(a, dtype) - F.cast(b, dtype)
        return F.linalg_vector_norm(apart, p, along, False, None)

    def call(input, other, p=2):
        array = array_of("dist", input)
        second = array_of("dist", other, "other", 2)
        refuse_bools(array, second)
        kind = promote.binary_result(array, second)
        if kind.kind in "biu":
            raise RuntimeError(
                "norm(): input dtype should be either floating point or complex. "
                f"Got {dtypes.of(kind).scalar_type} instead."
            )
        if not isinstance(p, (int, float)):
            raise TypeError(
                f"dist(): argument 'p' (position 3) must be Number, not {type(p).__name__}"
            )
        check_broadcast([array, other._array])
        check_identity((0,) if 0 in array.shape or 0 in other._array.shape else (), p, None)
        return apply(Dist, (input, other), (float(p), kind))
