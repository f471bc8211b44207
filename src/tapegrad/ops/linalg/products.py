"""Powers, exponentials and products: cross, vecdot, multi_dot, Vandermonde matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import dtypes
from ...core.arguments import wrap_dim
from ...core.base import TensorBase
from ...core.devices import on_device_of
from ...core.rounding import half_as_single
from ...core.warned import warn_once
from ...dtypes import cpp_name
from ...errors import check_broadcast, no_tensor_in_list
from ..block import LOWER, WIDEST, Autocast, Block, Case, api, apply, op
from ..block.checks import not_implemented
from ..block.samples import Draw, Index
from ..products.composed import multi_dot
from ..products.matmul import Vdot, check_dot, matmul
from ..shape.joining import Cat
from .det import COMPLEX, SQUARE, SQUARES, invert
from .matrices import check_floating, check_same_dtype, check_square, is_half, scalar_type, turned

# Blocks: their first argument is not a `self`.
# ruff: noqa: N803, N805, N806


# ---------------------------------------------------------------------- matrix_exp

# The numerator of the Padé approximant of exp of order 13, and how large a matrix it is good for.
PADE = (
    64764752532480000.0,
    32382376266240000.0,
    7771770303897600.0,
    1187353796428800.0,
    129060195264000.0,
    10559470521600.0,
    670442572800.0,
    33522128640.0,
    1323241920.0,
    40840800.0,
    960960.0,
    16380.0,
    182.0,
    1.0,
)
PADE_LIMIT = 4.25


def exp_of(xp: Any, a: Any) -> Any:
    """exp of each element; half precision is rounded from single."""
    return xp.exp(half_as_single(a)).astype(a.dtype, copy=False)


def exponential(xp: Any, a: Any) -> Any:
    """exp of each matrix: scaled down, approximated by a quotient, and squared up again."""
    n = a.shape[-1]
    if a.size == 0:
        return a.copy()
    if n == 1:
        return exp_of(xp, a)
    wide = a.astype(xp.complex128 if a.dtype.kind == "c" else xp.float64)
    size = xp.max(xp.sum(xp.absolute(wide), axis=-2), axis=-1)
    ratio = xp.where(xp.isfinite(size) & (size > PADE_LIMIT), size / PADE_LIMIT, 1.0)
    halvings = xp.ceil(xp.log2(ratio))[..., None, None]
    x = wide * 0.5**halvings
    eye = xp.eye(n, dtype=x.dtype)
    x2 = xp.matmul(x, x)
    x4 = xp.matmul(x2, x2)
    x6 = xp.matmul(x4, x2)
    b = PADE
    odd = xp.matmul(x6, b[13] * x6 + b[11] * x4 + b[9] * x2)
    odd = xp.matmul(x, odd + b[7] * x6 + b[5] * x4 + b[3] * x2 + b[1] * eye)
    even = xp.matmul(x6, b[12] * x6 + b[10] * x4 + b[8] * x2)
    even = even + b[6] * x6 + b[4] * x4 + b[2] * x2 + b[0] * eye
    out = xp.linalg.solve(even - odd, even + odd)
    for step in range(int(halvings.max())):
        out = xp.where(halvings > step, xp.matmul(out, out), out)
    return out.astype(a.dtype)


def block_exponential(F: Any, a: Any, corner: Any) -> Any:
    """The slope of exp at A along `corner`: the upper right of exp of [[A, corner], [0, A]]."""
    ndim, n = len(a.shape), a.shape[-1]
    top = F.cat([a, corner], ndim - 1)
    bottom = F.cat([F.zeros_like(a), a], ndim - 1)
    whole = F.linalg_matrix_exp(F.cat([top, bottom], ndim - 2))
    return F.narrow(F.narrow(whole, ndim - 2, 0, n), ndim - 1, n, n)


@op
class LinalgMatrixExp(Block):
    """linalg_matrix_exp(input) -> Tensor: exponentials of matrices."""

    aten = "linalg_matrix_exp"
    public = False
    leading = (2,)

    def fwd(xp, input):
        return exponential(xp, input)

    def d_input(F, grad, input):
        return block_exponential(F, turned(F, input), grad)

    def jvp(F, input, t_input):
        return block_exponential(F, input, t_input)


# Real matrices in half precision are more than PyTorch can do.
EXPONENTS = [
    Case(COMPLEX),
    Case(Index([[[1.0 + 0.0j, 0.5], [-0.5, 2.0]], [[-1.5, 0.2], [0.3, 1.0]]])),
    Case(Index([[-6.0 + 0.0j, 9.0, 1.0], [5.0, -3.0, 0.5], [0.0, 1.0, 2.0j]])),
    Case(Draw(1, 1)),
    Case(Draw(2, 0, 0)),
]


def matrix_exponential(A: Any) -> Any:
    array = A._array
    check_square("linalg.matrix_exp", array)
    check_floating("linalg.matrix_exp", array)
    return apply(LinalgMatrixExp, (A,))


@api(name="linalg.matrix_exp", samples=EXPONENTS)
def linalg_matrix_exp(input: Any) -> Any:
    """linalg.matrix_exp(input) -> Tensor: exp of a square matrix, or of each of a stack.

    >>> torch.linalg.matrix_exp(tensor([[0.0, 1.0], [0.0, 0.0]]))
    tensor([[1., 1.],
            [0., 1.]])
    """
    return matrix_exponential(input)


@api(samples=EXPONENTS[:2])
def matrix_exp(input: Any) -> Any:
    """matrix_exp(input) -> Tensor: the same as `linalg.matrix_exp`.

    >>> matrix_exp(zeros(1, 1))
    tensor([[1.]])
    """
    return matrix_exponential(input)


# ---------------------------------------------------------------------- matrix_power


def power(function: str, A: Any, n: Any) -> Any:
    """Aⁿ by squaring; composed of matrix products, as PyTorch does it."""
    check_square("linalg.matrix_power", A._array)
    if not isinstance(n, int) or isinstance(n, bool):
        raise TypeError(
            f"{function}(): argument 'n' (position 2) must be int, not {type(n).__name__}"
        )
    if n == 0:
        array = A._array
        return A.clone().copy_(on_device_of(A, np.eye(array.shape[-1], dtype=array.dtype)))
    if n == 1:
        return A.clone()
    square = A if n > 0 else invert(A, "linalg.inv")[0]
    rest = abs(n)
    if rest == 3:
        return matmul(matmul(square, square), square)
    result = None
    while True:
        rest, odd = divmod(rest, 2)
        if odd:
            result = square if result is None else matmul(result, square)
        if rest == 0:
            return result
        square = matmul(square, square)


POWERS = [
    Case(SQUARE, 0),
    Case(SQUARE, 1),
    Case(SQUARES, 2),
    Case(SQUARE, 3),
    Case(SQUARE, 6),
    Case(SQUARES, -1),
    Case(SQUARE, -3),
]


@api(name="linalg.matrix_power", samples=POWERS)
def linalg_matrix_power(input: Any, n: int) -> Any:
    """linalg.matrix_power(input, n) -> Tensor: the n-th power of a square matrix, also for n < 0.

    >>> torch.linalg.matrix_power(tensor([[1.0, 1.0], [0.0, 1.0]]), 5)
    tensor([[1., 5.],
            [0., 1.]])
    """
    return power("linalg_matrix_power", input, n)


@api(samples=POWERS[:2])
def matrix_power(input: Any, n: int) -> Any:
    """matrix_power(input, n) -> Tensor: the same as `linalg.matrix_power`.

    >>> matrix_power(tensor([[2]]), 10)
    tensor([[1024]])
    """
    return power("matrix_power", input, n)


# ---------------------------------------------------------------------- products


@api(name="linalg.matmul", samples=[Case(Draw(2, 3), Draw(3, 2)), Case(Draw(2, 2, 3), Draw(3))])
def linalg_matmul(input: Any, other: Any) -> Any:
    """linalg.matmul(input, other) -> Tensor: the same as `matmul`.

    >>> torch.linalg.matmul(tensor([1.0, 2.0]), tensor([3.0, 4.0]))
    tensor(11.)
    """
    return matmul(input, other)


@api(
    name="linalg.multi_dot",
    samples=[
        Case([Draw(2, 3), Draw(3, 4), Draw(4, 2)]),
        Case([Draw(3), Draw(3, 2), Draw(2, 2), Draw(2)]),
        Case([Draw(2), Draw(2)]),
    ],
    autocast=Autocast(gpu=LOWER),
)
def linalg_multi_dot(tensors: Any) -> Any:
    """linalg.multi_dot(tensors) -> Tensor: the product of several matrices, cheapest first.

    >>> torch.linalg.multi_dot([ones(2, 3), ones(3, 4), ones(4, 1)])
    tensor([[12.],
            [12.]])
    """
    if not isinstance(tensors, (tuple, list)):
        raise TypeError(
            "linalg_multi_dot(): argument 'tensors' (position 1) must be tuple of Tensors, not "
            f"{type(tensors).__name__}"
        )
    for i, t in enumerate(tensors):
        if not isinstance(t, TensorBase):
            raise no_tensor_in_list(i, 0, t)
    for i, t in enumerate(tensors):
        if len(tensors) > 1 and t._array.dtype != tensors[0]._array.dtype:
            kinds = [cpp_name(x._array.dtype) for x in (tensors[0], t)]
            raise RuntimeError(
                "multi_dot(): all tensors must have be the same dtype but tensor 0 is "
                f"{kinds[0]} and tensor {i} {kinds[1]}"
            )
    return multi_dot(tensors)


@api(
    name="linalg.vecdot",
    samples=[
        Case(Draw(3), Draw(3)),
        Case(Draw(2, 3), Draw(3)),
        Case(Draw(3, 1), Draw(3, 2), dim=0),
        Case(Draw(2, 0), Draw(2, 0)),
        Case(COMPLEX, COMPLEX),
    ],
    autocast=Autocast(cpu=LOWER, gpu=LOWER),
)
def linalg_vecdot(x: Any, y: Any, *, dim: int = -1) -> Any:
    """linalg.vecdot(x, y, *, dim=-1) -> Tensor: inner products of vectors, the first conjugated.

    >>> torch.linalg.vecdot(tensor([[1.0, 2.0], [3.0, 4.0]]), tensor([1.0, 1.0]))
    tensor([3., 7.])
    """
    a, b = x._array, y._array
    check_floating("linalg.vecdot", a)
    check_same_dtype("linalg.vecdot", ("x", a), ("y", b))
    if a.ndim == 1 and b.ndim == 1:
        check_dot("vdot", a, b)
        return apply(Vdot, (x, y))
    return (x.conj() * y).sum(dim)


def minor(a: Any, b: Any, c: Any, d: Any) -> Any:
    """a b - c d; half precision is rounded at every step, as PyTorch's loop does."""
    first = (half_as_single(a) * half_as_single(b)).astype(a.dtype, copy=False)
    second = (half_as_single(c) * half_as_single(d)).astype(a.dtype, copy=False)
    return (half_as_single(first) - half_as_single(second)).astype(a.dtype, copy=False)


@op
class LinalgCross(Block):
    """linalg_cross(input, other, dim) -> Tensor: cross products."""

    aten = "linalg_cross"
    public = False
    tensors = ("input", "other")
    linear = True
    broadcasts = True
    dims = ("dim",)

    def fwd(xp, input, other, dim):
        a = [x.squeeze(dim) for x in xp.split(input, 3, dim)]
        b = [x.squeeze(dim) for x in xp.split(other, 3, dim)]
        parts = [minor(a[i - 2], b[i - 1], a[i - 1], b[i - 2]) for i in range(3)]
        return xp.ascontiguousarray(xp.stack(parts, dim))

    def d_input(F, grad, other, dim):
        return F.linalg_cross(other, grad, dim)

    def d_other(F, grad, input, dim):
        return F.linalg_cross(grad, input, dim)


def cross_product(input: Any, other: Any, dim: int) -> Any:
    a, b = input._array, other._array
    if a.ndim == 0:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    along = wrap_dim(dim, a.ndim)
    if a.shape[along] != 3 or b.shape[along] != 3:
        raise RuntimeError(
            f"linalg.cross: inputs dimension {dim} must have length 3. Got {a.shape[along]} and "
            f"{b.shape[along]}"
        )
    check_broadcast([a, b])
    if a.dtype != b.dtype:
        raise RuntimeError(f"expected scalar type {scalar_type(a)} but found {scalar_type(b)}")
    if a.dtype.kind == "b":
        raise not_implemented("cross", dtypes.of(a.dtype))
    return apply(LinalgCross, (input, other), (along,))


def check_same_rank(a: Any, b: Any) -> None:
    if a.ndim != b.ndim:
        raise RuntimeError("linalg.cross: inputs must have the same number of dimensions.")


@api(
    name="linalg.cross",
    samples=[
        Case(Draw(3), Draw(3)),
        Case(Draw(2, 3, layout="T"), Draw(2, 3)),
        Case(Draw(2, 3, 1), Draw(1, 3, 2), dim=1),
        Case(Draw(0, 3), Draw(0, 3)),
    ],
)
def linalg_cross(input: Any, other: Any, *, dim: int = -1) -> Any:
    """linalg.cross(input, other, *, dim=-1) -> Tensor: the cross product of vectors of three.

    >>> torch.linalg.cross(tensor([1.0, 0.0, 0.0]), tensor([0.0, 1.0, 0.0]))
    tensor([0., 0., 1.])
    """
    check_same_rank(input._array, other._array)
    return cross_product(input, other, dim)


@api(
    samples=[Case(Draw(3), Draw(3)), Case(Draw(3, 2), Draw(3, 2)), Case(Draw(2, 3), Draw(1, 3), 1)],
    autocast=Autocast(gpu=WIDEST),
)
def cross(input: Any, other: Any, dim: int | None = None) -> Any:
    """cross(input, other, dim=None) -> Tensor: along the first dimension of three, if not given.

    >>> cross(tensor([1, 0, 0]), tensor([0, 0, 1]), dim=0)
    tensor([ 0, -1,  0])
    """
    a = input._array
    if dim is None:
        if 3 not in a.shape:
            raise RuntimeError("no dimension of size 3 in input")
        warn_once(
            "Using torch.cross without specifying the dim arg is deprecated.\nPlease either pass "
            "the dim explicitly or simply use torch.linalg.cross.\nThe default value of dim will "
            "change to agree with that of linalg.cross in a future release.",
        )
        dim = a.shape.index(3)
    check_same_rank(a, other._array)
    return cross_product(input, other, dim)


# ---------------------------------------------------------------------- shapes


@api(
    name="linalg.diagonal",
    samples=[Case(Draw(2, 3)), Case(Draw(2, 3, 2), offset=1), Case(Draw(2, 3, 2), dim1=0, dim2=1)],
)
def linalg_diagonal(A: Any, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """linalg.diagonal(A, *, offset=0, dim1=-2, dim2=-1) -> Tensor: the diagonals of matrices.

    >>> torch.linalg.diagonal(tensor([[1, 2], [3, 4]]))
    tensor([1, 4])
    """
    return A.diagonal(offset, dim1, dim2)


@api(name="linalg.vander", samples=[Case(Draw(3)), Case(Draw(2, 3), N=4), Case(Draw(2), N=2)])
def linalg_vander(x: Any, *, N: int | None = None) -> Any:
    """linalg.vander(x, *, N=None) -> Tensor: powers 0, 1, …, N - 1 of each element, in a row.

    >>> torch.linalg.vander(tensor([2, 3]), N=4)
    tensor([[ 1,  2,  4,  8],
            [ 1,  3,  9, 27]])
    """
    array = x._array
    if array.dtype.kind == "b" or is_half(array):
        raise RuntimeError(
            "linalg.vander supports floating point, complex, and integer tensors, but got "
            f"{scalar_type(array)}"
        )
    if N is not None and (not isinstance(N, int) or isinstance(N, bool)):
        raise TypeError(f"linalg_vander(): argument 'N' must be int, not {type(N).__name__}")
    count = N if N is not None else array.shape[-1] if array.ndim else 1
    if count <= 1:
        raise RuntimeError("N must be greater than 1.")
    return powers(x, count)


def powers(x: Any, count: int) -> Any:
    """Powers 0, 1, …, count - 1 along a new last dimension."""
    shape = x._array.shape or (1,)
    rest = x.unsqueeze(-1).expand(*shape, count - 1).cumprod(-1)
    first = on_device_of(x, np.ones((*shape, 1), rest._array.dtype))
    return apply(Cat, (first, rest), (len(shape),))


@api(
    method=False,
    samples=[
        Case(Index([2, -1, 3])),
        Case(Index([2, -1, 3]), 2, increasing=True),
        Case(Draw(2), 1),
        Case(Draw(2), 0),
    ],
)
def vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    """vander(x, N=None, increasing=False) -> Tensor: powers of each element, the highest first.

    >>> vander(tensor([2, 3]))
    tensor([[2, 1],
            [3, 1]])
    """
    array = x._array
    if array.ndim != 1:
        raise RuntimeError("x must be a one-dimensional tensor.")
    count = array.size if N is None else N
    if count < 0:
        raise RuntimeError("N must be non-negative.")
    if count < 2:
        dtype = np.dtype(np.int64) if array.dtype.kind in "biu" else array.dtype
        return on_device_of(x, np.ones((array.size, count), dtype))
    # PyTorch's own writes over what its gradient needs, and so has none.
    result = powers(x, count)
    return result if increasing else result.flip(1)
