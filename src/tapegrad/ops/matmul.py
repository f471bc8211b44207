"""Products of vectors, matrices and batches of matrices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import dtypes
from ..core.base import TensorBase
from ..core.dispatch import apply
from ..core.op import REGISTRY
from ..errors import check_broadcast, must_be_tensor
from ..from_data import warn_once
from ..legacy import CPP_NAMES
from .block import Block, Case, api, helper, op
from .samples import Draw

# Blocks: their first argument is not a `self`.
# ruff: noqa: N805

UNSUPPORTED = ("bool", "uint16", "uint32", "uint64")


def product(xp: Any, a: Any, b: Any) -> Any:
    """a @ b; half precision is accumulated in single, and rounded once."""
    dtype = a.dtype
    if dtype.itemsize == 2 and dtype.kind in "fV":
        return xp.matmul(a.astype(xp.float32), b.astype(xp.float32)).astype(dtype)
    return xp.matmul(a, b)


def is_tensor(function: str, argument: str, position: int, value: Any) -> Any:
    if not isinstance(value, TensorBase):
        raise must_be_tensor(function, argument, position, value)
    return value.array


def check_supported(kernel: str, dtype: Any) -> None:
    if dtype.name in UNSUPPORTED:
        raise NotImplementedError(f'"{kernel}" not implemented for \'{dtypes.of(dtype).scalar_type}\'')


def scalar_type(array: Any) -> str:
    return dtypes.of(array.dtype).scalar_type


def check_expands(have: tuple[int, ...], want: tuple[int, ...]) -> None:
    """Raise unless a shape can be expanded to another."""
    for back in range(1, len(have) + 1):
        if back > len(want):
            raise RuntimeError(
                f"expand(torch.FloatTensor{{{list(have)}}}, size={list(want)}): the number of sizes "
                f"provided ({len(want)}) must be greater or equal to the number of dimensions in the "
                f"tensor ({len(have)})"
            )
        if have[-back] not in (1, want[-back]):
            raise RuntimeError(
                f"The expanded size of the tensor ({want[-back]}) must match the existing size "
                f"({have[-back]}) at non-singleton dimension {len(want) - back}.  "
                f"Target sizes: {list(want)}.  Tensor sizes: {list(have)}"
            )


# ---------------------------------------------------------------------- the five products


def check_mm(a: Any, b: Any) -> None:
    if a.ndim != 2:
        raise RuntimeError("self must be a matrix")
    if b.ndim != 2:
        raise RuntimeError("mat2 must be a matrix")
    if a.shape[1] != b.shape[0]:
        raise RuntimeError(
            "mat1 and mat2 shapes cannot be multiplied "
            f"({a.shape[0]}x{a.shape[1]} and {b.shape[0]}x{b.shape[1]})"
        )
    if a.dtype != b.dtype:
        raise RuntimeError(
            "expected m1 and m2 to have the same dtype, but got: "
            f"{CPP_NAMES[a.dtype.name]} != {CPP_NAMES[b.dtype.name]}"
        )
    check_supported("addmm_impl_cpu_", a.dtype)


@op
class Mm(Block):
    """mm(input, mat2) -> Tensor: the product of two matrices.

    >>> mm(tensor([[1.0, 2.0]]), tensor([[3.0], [4.0]]))
    tensor([[11.]])
    """

    tensors = ("input", "mat2")
    linear = True
    samples = (Case(Draw(2, 3), Draw(3, 4)), Case(Draw(2, 3, layout="T"), Draw(3, 1, layout="T")),
               Case(Draw(2, 0), Draw(0, 3)), Case(Draw(0, 2), Draw(2, 3)))

    def fwd(xp, input, mat2):
        return product(xp, input, mat2)

    def d_input(F, grad, mat2):
        return F.mm(grad, F.t(mat2))

    def d_mat2(F, grad, input):
        return F.mm(F.t(input), grad)

    def call(input, mat2):
        check_mm(is_tensor("mm", "input", 1, input), is_tensor("mm", "mat2", 2, mat2))
        return apply(Mm, (input, mat2))


def check_bmm(a: Any, b: Any) -> None:
    if a.ndim != 3:
        raise RuntimeError("batch1 must be a 3D tensor")
    if b.ndim != 3:
        raise RuntimeError("batch2 must be a 3D tensor")
    if (a.shape[0], a.shape[2]) != b.shape[:2]:
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{a.shape[0]}, {a.shape[2]}] "
            f"but got: [{b.shape[0]}, {b.shape[1]}]."
        )
    if a.dtype != b.dtype:
        raise RuntimeError(f"expected scalar type {scalar_type(a)} but found {scalar_type(b)}")
    check_supported("bmm", a.dtype)


@op
class Bmm(Block):
    """bmm(input, mat2) -> Tensor: the products of two stacks of matrices.

    >>> bmm(ones(2, 1, 3), ones(2, 3, 1)).shape
    torch.Size([2, 1, 1])
    """

    tensors = ("input", "mat2")
    linear = True
    samples = (Case(Draw(2, 2, 3), Draw(2, 3, 4)), Case(Draw(0, 2, 3), Draw(0, 3, 1)),
               Case(Draw(2, 2, 0), Draw(2, 0, 3)), Case(Draw(2, 3, 2, layout="T"), Draw(2, 2, 2)))

    def fwd(xp, input, mat2):
        return product(xp, input, mat2)

    def d_input(F, grad, mat2):
        return F.bmm(grad, F.transpose(mat2, 1, 2))

    def d_mat2(F, grad, input):
        return F.bmm(F.transpose(input, 1, 2), grad)

    def call(input, mat2):
        check_bmm(is_tensor("bmm", "input", 1, input), is_tensor("bmm", "mat2", 2, mat2))
        return apply(Bmm, (input, mat2))


def check_mv(add: Any, mat: Any, vec: Any) -> None:
    """`add` is None for mv, where PyTorch speaks of the vector in its place."""
    first = vec if add is None else add
    if mat.ndim != 2 or vec.ndim != 1 or (add is not None and add.ndim > 1):
        ndim = 1 if add is None else add.ndim
        raise RuntimeError(
            f"vector + matrix @ vector expected, got {ndim}, {mat.ndim}, {vec.ndim}"
        )
    rows = mat.shape[0] if add is None or not add.ndim else add.shape[0]
    if mat.shape[1] != vec.shape[0] or rows not in (1, mat.shape[0]):
        size = mat.shape[0] if add is None else add.size
        raise RuntimeError(
            f"size mismatch, got input ({size}), mat ({mat.shape[0]}x{mat.shape[1]}), "
            f"vec ({vec.shape[0]})"
        )
    if not first.dtype == mat.dtype == vec.dtype:
        raise RuntimeError(
            f"addmv input tensors must have the same dtype, but got {scalar_type(first)}, "
            f"{scalar_type(mat)}, and {scalar_type(vec)}"
        )
    check_supported("addmv_impl_cpu", mat.dtype)


@op
class Mv(Block):
    """mv(input, vec) -> Tensor: the product of a matrix and a vector.

    >>> mv(tensor([[1.0, 2.0], [3.0, 4.0]]), tensor([1.0, 1.0]))
    tensor([3., 7.])
    """

    tensors = ("input", "vec")
    linear = True
    samples = (Case(Draw(2, 3), Draw(3)), Case(Draw(2, 3, layout="T"), Draw(3, layout="step")),
               Case(Draw(2, 0), Draw(0)), Case(Draw(0, 2), Draw(2)))

    def fwd(xp, input, vec):
        return product(xp, input, vec)

    def d_input(F, grad, vec):
        return F.unsqueeze(grad, 1) * vec

    def d_vec(F, grad, input):
        return F.mv(F.t(input), grad)

    def call(input, vec):
        check_mv(None, is_tensor("mv", "input", 1, input), is_tensor("mv", "vec", 2, vec))
        return apply(Mv, (input, vec))


def check_dot(function: str, a: Any, b: Any) -> None:
    if a.ndim != 1 or b.ndim != 1:
        raise RuntimeError(f"1D tensors expected, but got {a.ndim}D and {b.ndim}D tensors")
    if a.dtype != b.dtype:
        raise RuntimeError(
            f"dot : expected both vectors to have same dtype, but found {scalar_type(a)} and "
            f"{scalar_type(b)}"
        )
    if a.size != b.size:
        raise RuntimeError(
            f"inconsistent tensor size, expected tensor [{a.size}] and src [{b.size}] to have the same "
            f"number of elements, but got {a.size} and {b.size} elements respectively"
        )
    check_supported(function, a.dtype)


@op
class Dot(Block):
    """dot(input, tensor) -> Tensor: the sum of the products of two vectors.

    >>> dot(tensor([1, 2]), tensor([3, 4]))
    tensor(11)
    """

    tensors = ("input", "tensor")
    linear = True
    samples = (Case(Draw(3), Draw(3)), Case(Draw(0), Draw(0)), Case(Draw(3, layout="step"), Draw(3)))

    def fwd(xp, input, tensor):
        return product(xp, input, tensor)

    def d_input(F, grad, tensor):
        return grad * tensor

    def d_tensor(F, grad, input):
        return grad * input

    def call(input, tensor):
        check_dot("dot", is_tensor("dot", "input", 1, input), is_tensor("dot", "tensor", 2, tensor))
        return apply(Dot, (input, tensor))


@op
class Vdot(Block):
    """vdot(input, other) -> Tensor: `dot` with the first vector conjugated.

    >>> vdot(tensor([1j]), tensor([1j]))
    tensor(1.+0.j)
    """

    tensors = ("input", "other")
    wirtinger = True
    samples = (Case(Draw(3), Draw(3)), Case(Draw(0), Draw(0)))

    def fwd(xp, input, other):
        return product(xp, xp.conj(input), other)

    def d_input(F, grad, other):
        return F.conj(grad) * other

    def d_other(F, grad, input):
        return grad * input

    def jvp(F, input, t_input, other, t_other):
        parts = [F.vdot(a, b) for a, b in ((t_input, other), (input, t_other))
                 if a is not None and b is not None]
        return parts[0] if len(parts) == 1 else parts[0] + parts[1]

    def call(input, other):
        check_dot("vdot", is_tensor("vdot", "input", 1, input), is_tensor("vdot", "other", 2, other))
        return apply(Vdot, (input, other))


@op
class SqueezeProduct(Block):
    """squeeze_product(input) -> Tensor: a fresh product without its first dimension."""

    node = "SqueezeBackward4"
    public = False
    linear = True

    def fwd(xp, input):
        return input.reshape(input.shape[1:])

    def d_input(F, grad):
        return F.unsqueeze(grad, 0)


@op
class SqueezeColumn(Block):
    """squeeze_column(input) -> Tensor: a fresh product without its last dimension."""

    node = "SqueezeBackward4"
    public = False
    linear = True

    def fwd(xp, input):
        return input.reshape(input.shape[:-1])

    def d_input(F, grad):
        return F.unsqueeze(grad, grad.ndim)


# ---------------------------------------------------------------------- matmul


@api(samples=[Case(Draw(3), Draw(3)), Case(Draw(2, 3), Draw(3)), Case(Draw(3), Draw(3, 2)),
              Case(Draw(2, 3), Draw(3, 2)), Case(Draw(2, 2, 3), Draw(3, 2)), Case(Draw(2, 2, 3), Draw(3)),
              Case(Draw(4, 3), Draw(2, 3, 2)), Case(Draw(3), Draw(2, 3, 2)),
              Case(Draw(2, 1, 2, 3), Draw(4, 3, 2)), Case(Draw(1, 2, 3), Draw(4, 3, 2)),
              Case(Draw(2, 0), Draw(0, 3)), Case(Draw(2, 3, layout="T"), Draw(3, 2, layout="step"))])
def matmul(input: Any, other: Any) -> Any:
    """matmul(input, other) -> Tensor: the product of vectors, matrices or stacks of matrices.

    >>> tensor([[1.0, 2.0], [3.0, 4.0]]) @ tensor([1.0, 1.0])
    tensor([3., 7.])
    """
    a, b = is_tensor("matmul", "input", 1, input), is_tensor("matmul", "other", 2, other)
    if a.ndim == 2 and b.ndim == 2:
        check_mm(a, b)
        return apply(Mm, (input, other))
    if a.ndim == 0 or b.ndim == 0:
        raise RuntimeError(
            f"both arguments to matmul need to be at least 1D, but they are {a.ndim}D and {b.ndim}D"
        )
    if a.ndim == 1 and b.ndim == 1:
        check_dot("dot", a, b)
        return apply(Dot, (input, other))
    if a.ndim == 2 and b.ndim == 1:
        check_mv(None, a, b)
        return apply(Mv, (input, other))
    if a.ndim == 1 and b.ndim == 2:
        out = apply(SqueezeProduct, (mm(input.unsqueeze(0), other),))
        out.version_cell().n = 1  # PyTorch squeezes the product in place
        return out
    if folds(input, other):
        return folded(input, other)
    return batched(input, other)


def mm(a: Any, b: Any) -> Any:
    check_mm(a.array, b.array)
    return apply(Mm, (a, b))


def bmm(a: Any, b: Any) -> Any:
    check_bmm(a.array, b.array)
    return apply(Bmm, (a, b))


def mv(a: Any, b: Any) -> Any:
    check_mv(None, a.array, b.array)
    return apply(Mv, (a, b))


def view(t: Any, shape: tuple[int, ...]) -> Any:
    return apply(REGISTRY["view"], (t,), (shape,))


def unsafe_view(t: Any, shape: tuple[int, ...]) -> Any:
    return apply(REGISTRY["unsafe_view"], (t,), (shape,))


def folds(a: Any, b: Any) -> bool:
    """Whether a stack times one matrix is done as one tall matrix times a matrix.

    It is when that takes no copy, or when the matrix wants a gradient, which would else be a stack.
    """
    larger, smaller = (a, b) if a.array.ndim >= b.array.ndim else (b, a)
    if smaller.array.ndim > 2:
        return False
    if smaller.requires_grad:
        return True
    if a.array.ndim == 2:
        return False
    x = larger.array if larger is a else larger.array.swapaxes(-1, -2)
    if x.size == 0:
        return True
    return all([x.strides[i] == x.strides[i + 1] * x.shape[i + 1] for i in range(x.ndim - 2)])


def folded(a: Any, b: Any) -> Any:
    turned = b.array.ndim > a.array.ndim
    stack = b.transpose(-1, -2) if turned else a
    matrix = b if not turned else a.t() if a.array.ndim == 2 else a
    shape = stack.array.shape
    tall = stack.reshape(math.prod(shape[:-1]), shape[-1])
    if matrix.array.ndim == 1:
        return unsafe_view(mv(tall, matrix), shape[:-1])
    out = unsafe_view(mm(tall, matrix), (*shape[:-1], matrix.array.shape[1]))
    return out.transpose(-1, -2).contiguous() if turned else out


def batched(a: Any, b: Any) -> Any:
    x, y = a.array, b.array
    if x.ndim == 3 and y.ndim == 3 and x.shape[0] != y.shape[0]:
        # Broadcasting one matrix: without its dimension of one it can be folded.
        if x.shape[0] == 1 and a.requires_grad:
            return matmul(a.squeeze(0), b)
        if y.shape[0] == 1 and b.requires_grad:
            return matmul(a, b.squeeze(0))
    rows, inner = (x.shape[-2] if x.ndim > 1 else 1), x.shape[-1]
    depth, columns = (y.shape[-2], y.shape[-1]) if y.ndim > 1 else (y.shape[-1], 1)
    stack = broadcast_batch(x.shape[:-2], y.shape[:-2])
    count = math.prod(stack)
    left = a.expand(*stack, rows, inner).reshape(count, rows, inner)
    if y.ndim == 1:
        right = b.expand(*stack, depth).reshape(count, depth).unsqueeze(2)
    else:
        right = b.expand(*stack, depth, columns).reshape(count, depth, columns)
    shape = stack if x.ndim == 1 else (*stack, rows)
    out = bmm(left, right)
    if y.ndim == 1:
        return unsafe_view(apply(SqueezeColumn, (out,)), shape)
    return unsafe_view(out, (*shape, columns))


def broadcast_batch(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(a, b)
    except ValueError:
        check_broadcast([np.broadcast_to(0, a), np.broadcast_to(0, b)])
        raise


def raw_matmul(a: Any, b: Any) -> Any:
    return product(np, a, b)


helper("matmul", raw_matmul, matmul)


# ---------------------------------------------------------------------- with a summand


def scaled(x: Any, factor: Any) -> Any:
    """x * factor, where a factor of 1 costs nothing."""
    return x if type(factor) in (int, float) and factor == 1 else x * factor


def combine(xp: Any, input: Any, prod: Any, beta: Any, alpha: Any) -> Any:
    """beta * input + alpha * prod in the dtype of the product; a beta of 0 ignores even NaN."""
    dtype = prod.dtype
    if dtype.kind in "iu":
        beta, alpha = int(beta), int(alpha)
    prod = scaled(prod, alpha)
    if beta == 0:
        return prod if prod.dtype == dtype else prod.astype(dtype)
    return xp.add(scaled(input, beta), prod).astype(dtype, copy=False)


class WithSummand(Block):
    """beta * input + alpha * (a product of two tensors)."""

    broadcasts = True
    inplace = True

    def d_input(F, grad, beta):
        return scaled(grad, beta)


def summand_jvp(F: Any, times: Any, pairs: Any, t_input: Any, beta: Any, alpha: Any, out: Any) -> Any:
    """The tangent: one term for each argument that has one, of the shape of `out`."""
    total = None if t_input is None else scaled(t_input, beta)
    for a, b in pairs:
        if a is not None and b is not None:
            part = scaled(times(a, b), alpha)
            total = part if total is None else total + part
    return F.expand(total, out.shape) if tuple(total.shape) != tuple(out.shape) else total


def check_addmm(input: Any, mat1: Any, mat2: Any) -> None:
    for name, x in (("mat1", mat1), ("mat2", mat2)):
        if x.ndim != 2:
            raise RuntimeError(f"{name} must be a matrix, got {x.ndim}-D tensor")
    if mat1.shape[1] != mat2.shape[0]:
        raise RuntimeError(
            "mat1 and mat2 shapes cannot be multiplied "
            f"({mat1.shape[0]}x{mat1.shape[1]} and {mat2.shape[0]}x{mat2.shape[1]})"
        )
    if input.dtype != mat2.dtype:
        raise RuntimeError(
            "self and mat2 must have the same dtype, but got "
            f"{scalar_type(input)} and {scalar_type(mat2)}"
        )
    if mat1.dtype != mat2.dtype:
        raise RuntimeError(
            f"mat1 and mat2 must have the same dtype, but got {scalar_type(mat1)} and {scalar_type(mat2)}"
        )
    check_supported("addmm_impl_cpu_", mat1.dtype)
    check_expands(input.shape, (mat1.shape[0], mat2.shape[1]))


@op
class Addmm(WithSummand):
    """addmm(input, mat1, mat2, *, beta=1, alpha=1) -> Tensor: `beta * input + alpha * mat1 @ mat2`.

    >>> addmm(tensor([10.0]), tensor([[1.0, 2.0]]), tensor([[3.0], [4.0]]))
    tensor([[21.]])
    """

    tensors = ("input", "mat1", "mat2")
    samples = (Case(Draw(2), Draw(3, 4), Draw(4, 2)), Case(Draw(3, 2), Draw(3, 4), Draw(4, 2)),
               Case(Draw(), Draw(3, 0), Draw(0, 2)),
               Case(Draw(3, 1), Draw(3, 4, layout="T"), Draw(4, 2), beta=0.5, alpha=-2.0))

    def fwd(xp, input, mat1, mat2, beta, alpha):
        return combine(xp, input, product(xp, mat1, mat2), beta, alpha)

    def d_mat1(F, grad, mat2, alpha):
        return scaled(F.mm(grad, F.t(mat2)), alpha)

    def d_mat2(F, grad, mat1, alpha):
        return scaled(F.mm(F.t(mat1), grad), alpha)

    def jvp(F, t_input, mat1, t_mat1, mat2, t_mat2, beta, alpha, out):
        return summand_jvp(F, F.mm, ((t_mat1, mat2), (mat1, t_mat2)), t_input, beta, alpha, out)

    def call(input, mat1, mat2, *, beta=1, alpha=1, run=apply):
        check_addmm(is_tensor("addmm", "input", 1, input), is_tensor("addmm", "mat1", 2, mat1),
                    is_tensor("addmm", "mat2", 3, mat2))
        return run(Addmm, (input, mat1, mat2), (beta, alpha))


@op
class Addmv(WithSummand):
    """addmv(input, mat, vec, *, beta=1, alpha=1) -> Tensor: `beta * input + alpha * mat @ vec`.

    >>> addmv(tensor([10.0]), tensor([[1.0, 2.0]]), tensor([3.0, 4.0]))
    tensor([21.])
    """

    tensors = ("input", "mat", "vec")
    samples = (Case(Draw(2), Draw(2, 3), Draw(3)), Case(Draw(1), Draw(2, 3), Draw(3), beta=2.0, alpha=0.5))

    def fwd(xp, input, mat, vec, beta, alpha):
        return combine(xp, input, product(xp, mat, vec), beta, alpha)

    def d_mat(F, grad, vec, alpha):
        return scaled(F.unsqueeze(grad, 1) * vec, alpha)

    def d_vec(F, grad, mat, alpha):
        return scaled(F.mv(F.t(mat), grad), alpha)

    def jvp(F, t_input, mat, t_mat, vec, t_vec, beta, alpha, out):
        return summand_jvp(F, F.mv, ((t_mat, vec), (mat, t_vec)), t_input, beta, alpha, out)

    def call(input, mat, vec, *, beta=1, alpha=1, run=apply):
        check_mv(is_tensor("addmv", "input", 1, input), is_tensor("addmv", "mat", 2, mat),
                 is_tensor("addmv", "vec", 3, vec))
        return run(Addmv, (input, mat, vec), (beta, alpha))


@op
class Addr(WithSummand):
    """addr(input, vec1, vec2, *, beta=1, alpha=1) -> Tensor: `beta * input + alpha * outer(vec1, vec2)`.

    >>> addr(zeros(2, 2), tensor([1.0, 2.0]), tensor([3.0, 4.0]))
    tensor([[3., 4.],
            [6., 8.]])
    """

    tensors = ("input", "vec1", "vec2")
    dtype = 1
    samples = (Case(Draw(2, 3), Draw(2), Draw(3)), Case(Draw(3), Draw(2), Draw(3), beta=0.5, alpha=2.0))

    def fwd(xp, input, vec1, vec2, beta, alpha):
        return combine(xp, input, xp.outer(vec1, vec2), beta, alpha)

    def d_vec1(F, grad, vec2, alpha):
        return scaled(F.mv(grad, vec2), alpha)

    def d_vec2(F, grad, vec1, alpha):
        return scaled(F.mv(F.t(grad), vec1), alpha)

    def jvp(F, t_input, vec1, t_vec1, vec2, t_vec2, beta, alpha, out):
        pairs = ((t_vec1, vec2), (vec1, t_vec2))
        return summand_jvp(F, lambda a, b: F.unsqueeze(a, 1) * b, pairs, t_input, beta, alpha, out)

    def call(input, vec1, vec2, *, beta=1, alpha=1, run=apply):
        summand = is_tensor("addr", "input", 1, input)
        a, b = is_tensor("addr", "vec1", 2, vec1), is_tensor("addr", "vec2", 3, vec2)
        for name, x in (("vec1", a), ("vec2", b)):
            if x.ndim != 1:
                raise RuntimeError(f"addr: Expected 1-D argument {name}, but got {x.ndim}-D")
        for name, factor in (("beta", beta), ("alpha", alpha)):
            if isinstance(factor, float) and not {summand.dtype.kind, a.dtype.kind, b.dtype.kind} & set("fcV"):
                raise RuntimeError(
                    f"For integral input tensors, argument {name} must not be a floating point number."
                )
        check_expands(summand.shape, (a.size, b.size))
        return run(Addr, (input, vec1, vec2), (beta, alpha))


def check_baddbmm(input: Any, a: Any, b: Any, summed: bool) -> None:
    if a.ndim != 3:
        raise RuntimeError("batch1 must be a 3D tensor")
    if b.ndim < 3 and not summed:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-b.ndim}, {b.ndim - 1}], "
                         "but got 2)")
    if b.ndim != 3:
        raise RuntimeError("batch2 must be a 3D tensor")
    if not input.dtype == a.dtype == b.dtype:
        names = [CPP_NAMES[x.dtype.name] for x in (input, a, b)]
        raise RuntimeError(
            f"Input dtypes must be the same, got: input {names[0]}, batch1: {names[1]}, batch2: {names[2]}"
        )
    if summed and a.shape[0] != b.shape[0]:
        raise RuntimeError(
            f"batch1 and batch2 must have same number of batches, got {a.shape[0]} and {b.shape[0]}"
        )
    if summed and a.shape[2] != b.shape[1]:
        raise RuntimeError(
            "Incompatible matrix sizes for bmm "
            f"({a.shape[1]}x{a.shape[2]} and {b.shape[1]}x{b.shape[2]})"
        )
    target = (a.shape[1], b.shape[2]) if summed else (a.shape[0], a.shape[1], b.shape[2])
    if not summed:
        check_expands(input.shape, target)
        check_bmm(a, b)
    else:
        check_expands(input.shape, target)


@op
class Baddbmm(WithSummand):
    """baddbmm(input, batch1, batch2, *, beta=1, alpha=1) -> Tensor: `addmm` of stacks of matrices.

    >>> baddbmm(ones(1), ones(2, 1, 3), ones(2, 3, 1)).flatten()
    tensor([4., 4.])
    """

    tensors = ("input", "batch1", "batch2")
    samples = (Case(Draw(2, 2, 4), Draw(2, 2, 3), Draw(2, 3, 4)),
               Case(Draw(4), Draw(2, 2, 3), Draw(2, 3, 4), beta=0.5, alpha=2.0))

    def fwd(xp, input, batch1, batch2, beta, alpha):
        return combine(xp, input, product(xp, batch1, batch2), beta, alpha)

    def d_batch1(F, grad, batch2, alpha):
        return scaled(F.bmm(grad, F.transpose(batch2, 1, 2)), alpha)

    def d_batch2(F, grad, batch1, alpha):
        return scaled(F.bmm(F.transpose(batch1, 1, 2), grad), alpha)

    def jvp(F, t_input, batch1, t_batch1, batch2, t_batch2, beta, alpha, out):
        pairs = ((t_batch1, batch2), (batch1, t_batch2))
        return summand_jvp(F, F.bmm, pairs, t_input, beta, alpha, out)

    def call(input, batch1, batch2, *, beta=1, alpha=1, run=apply):
        check_baddbmm(is_tensor("baddbmm", "input", 1, input), is_tensor("baddbmm", "batch1", 2, batch1),
                      is_tensor("baddbmm", "batch2", 3, batch2), summed=False)
        return run(Baddbmm, (input, batch1, batch2), (beta, alpha))


@op
class Addbmm(WithSummand):
    """addbmm(input, batch1, batch2, *, beta=1, alpha=1) -> Tensor: the sum of a stack of products.

    >>> addbmm(ones(1), ones(2, 1, 3), ones(2, 3, 1))
    tensor([[7.]])
    """

    tensors = ("input", "batch1", "batch2")
    samples = (Case(Draw(2, 4), Draw(2, 2, 3), Draw(2, 3, 4)),
               Case(Draw(4), Draw(2, 2, 3), Draw(2, 3, 4), beta=0.5, alpha=2.0))

    def fwd(xp, input, batch1, batch2, beta, alpha):
        total = xp.add.reduce(product(xp, batch1, batch2), axis=0, dtype=batch1.dtype)
        return combine(xp, input, total, beta, alpha)

    def d_batch1(F, grad, batch2, alpha):
        return scaled(F.matmul(grad, F.transpose(batch2, 1, 2)), alpha)

    def d_batch2(F, grad, batch1, alpha):
        return scaled(F.matmul(F.transpose(batch1, 1, 2), grad), alpha)

    def jvp(F, t_input, batch1, t_batch1, batch2, t_batch2, beta, alpha, out):
        pairs = ((t_batch1, batch2), (batch1, t_batch2))
        return summand_jvp(F, lambda a, b: F.sum(F.bmm(a, b), (0,), False, None), pairs, t_input, beta,
                           alpha, out)

    def call(input, batch1, batch2, *, beta=1, alpha=1, run=apply):
        check_baddbmm(is_tensor("addbmm", "input", 1, input), is_tensor("addbmm", "batch1", 2, batch1),
                      is_tensor("addbmm", "batch2", 3, batch2), summed=True)
        return run(Addbmm, (input, batch1, batch2), (beta, alpha))


# ---------------------------------------------------------------------- composites


@api(aliases=("ger",), samples=[Case(Draw(2), Draw(3)), Case(Draw(0), Draw(2))])
def outer(input: Any, vec2: Any) -> Any:
    """outer(input, vec2) -> Tensor: every product of an element of one vector with one of the other.

    >>> outer(tensor([1, 2]), tensor([3, 4]))
    tensor([[3, 4],
            [6, 8]])
    """
    a, b = is_tensor("outer", "input", 1, input), is_tensor("outer", "vec2", 2, vec2)
    for name, x in (("self", a), ("vec2", b)):
        if x.ndim != 1:
            raise RuntimeError(f"outer: Expected 1-D argument {name}, but got {x.ndim}-D")
    return input.reshape(a.size, 1) * vec2


@api(name="linear", method=False, function=False,
     samples=[Case(Draw(2, 3), Draw(4, 3)), Case(Draw(2, 3), Draw(4, 3), Draw(4)),
              Case(Draw(3), Draw(4, 3), Draw(4)), Case(Draw(2, 2, 3), Draw(4, 3), Draw(4))])
def linear(input: Any, weight: Any, bias: Any = None) -> Any:
    """linear(input, weight, bias=None) -> Tensor: `input @ weight.T + bias`.

    >>> nn.functional.linear(tensor([1.0, 2.0]), tensor([[3.0, 4.0]]))
    tensor([11.])
    """
    x = is_tensor("linear", "input", 1, input)
    w = is_tensor("linear", "weight", 2, weight)
    if bias is not None and (x.ndim == 2 or x.ndim != 0 and x.flags.c_contiguous and w.ndim == 2):
        turned = weight.t()
        if x.ndim == 2:
            check_addmm(is_tensor("linear", "bias", 3, bias), x, turned.array)
            return apply(Addmm, (bias, input, turned), (1, 1))
        flat = view(input, (math.prod(x.shape[:-1]), x.shape[-1]))
        check_addmm(is_tensor("linear", "bias", 3, bias), flat.array, turned.array)
        return view(apply(Addmm, (bias, flat, turned), (1, 1)), (*x.shape[:-1], w.shape[0]))
    out = matmul(input, weight.t())
    return out if bias is None else out + bias


@api(samples=[Case(Draw(2, 3), Draw(4, 3)), Case(Draw(3), Draw(3)), Case(Draw(2, 3), Draw())])
def inner(input: Any, other: Any) -> Any:
    """inner(input, other) -> Tensor: the products summed over the last dimension of both.

    >>> inner(tensor([[1, 2], [3, 4]]), tensor([1, 1]))
    tensor([3, 7])
    """
    a, b = is_tensor("inner", "input", 1, input), is_tensor("inner", "other", 2, other)
    if a.ndim == 0 or b.ndim == 0:
        return input * other
    if a.shape[-1] != b.shape[-1]:
        raise RuntimeError(
            "inner() the last dimension must match on both input tensors but got shapes "
            f"{list(a.shape)} and {list(b.shape)}"
        )
    return tensordot(input, other, dims=([a.ndim - 1], [b.ndim - 1]))


def dimension_lists(a: Any, b: Any, dims: Any) -> tuple[list[int], list[int]]:
    """The dimensions of both tensors that tensordot sums over."""
    if isinstance(dims, TensorBase):
        dims = dims.array.tolist()
    if isinstance(dims, (tuple, list)):
        if len(dims) == 2 and all([isinstance(d, (tuple, list)) for d in dims]):
            return list(dims[0]), list(dims[1])
        first, second = dims if len(dims) == 2 else (dims, dims)
        return [int(first)], [int(second)]
    count = int(dims)
    if count < 0:
        raise RuntimeError(f"tensordot expects dims >= 0, but got dims={count}")
    if count > min(a.ndim, b.ndim):
        raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={count}")
    return list(range(-count, 0)), list(range(count))


@api(method=False, samples=[Case(Draw(2, 3), Draw(3, 4), 1), Case(Draw(2, 3, 4), Draw(3, 4, 5)),
                            Case(Draw(2), Draw(3), 0)])
def tensordot(a: Any, b: Any, dims: Any = 2, out: Any = None) -> Any:
    """tensordot(a, b, dims=2) -> Tensor: the product summed over several dimensions at once.

    >>> tensordot(ones(2, 3), ones(3, 4), dims=1).shape
    torch.Size([2, 4])
    """
    x, y = is_tensor("tensordot", "a", 1, a), is_tensor("tensordot", "b", 2, b)
    left, right = dimension_lists(x, y, dims)
    if len(left) != len(right):
        raise RuntimeError("both dimension lists should have same length")
    if x.dtype != y.dtype:
        raise RuntimeError("both inputs should have same dtype")
    for i, j in zip(left, right, strict=True):
        if x.shape[i] != y.shape[j] and 1 in (x.shape[i], y.shape[j]):
            a, b = (a.sum(i, keepdim=True), b) if y.shape[j] == 1 else (a, b.sum(j, keepdim=True))
            x, y = a.array, b.array
        elif x.shape[i] != y.shape[j]:
            raise RuntimeError(
                f"contracted dimensions need to match, but first has size {x.shape[i]} in dim {i} and "
                f"second has size {y.shape[j]} in dim {j}"
            )
    left, right = [i % x.ndim for i in left], [j % y.ndim for j in right]
    keep_left = [i for i in range(x.ndim) if i not in left]
    keep_right = [j for j in range(y.ndim) if j not in right]
    rows, columns = [x.shape[i] for i in keep_left], [y.shape[j] for j in keep_right]
    inner_size = math.prod([x.shape[i] for i in left])
    first, second = a.permute(*keep_left, *left), b.permute(*right, *keep_right)
    if not rows and not columns:
        result = view(dot(first.flatten(), second.flatten()), ())
    else:
        left_matrix = first.reshape(math.prod(rows), inner_size)
        right_matrix = second.reshape(inner_size, math.prod(columns))
        result = view(mm(left_matrix, right_matrix), (*rows, *columns))
    return result if out is None else out.copy_(result)


def dot(a: Any, b: Any) -> Any:
    check_dot("dot", a.array, b.array)
    return apply(Dot, (a, b))


@api(samples=[Case(Draw(2, 2), Draw(2, 3)), Case(Draw(2), Draw(2, 3))])
def kron(input: Any, other: Any) -> Any:
    """kron(input, other) -> Tensor: the Kronecker product.

    >>> kron(tensor([1, 10]), tensor([1, 2]))
    tensor([ 1,  2, 10, 20])
    """
    a, b = is_tensor("kron", "input", 1, input).shape, is_tensor("kron", "other", 2, other).shape
    ndim = max(len(a), len(b))
    a, b = (1,) * (ndim - len(a)) + a, (1,) * (ndim - len(b)) + b
    left = [n for size in a for n in (size, 1)]
    right = [n for size in b for n in (1, size)]
    prod = unsafe_view(input.contiguous(), tuple(left)) * unsafe_view(other.contiguous(), tuple(right))
    return unsafe_view(prod, tuple([m * n for m, n in zip(a, b, strict=True)]))


@api(method=False, samples=[Case(Draw(2, 3), Draw(3, 4), Draw(4, 2))])
def chain_matmul(*matrices: Any, out: Any = None) -> Any:
    """chain_matmul(*matrices) -> Tensor: the product of several matrices (deprecated).

    >>> chain_matmul(ones(2, 3)).shape
    torch.Size([2, 3])
    """
    warn_once(
        "torch.chain_matmul is deprecated and will be removed in a future PyTorch release. Use "
        "torch.linalg.multi_dot instead, which accepts a list of two or more tensors rather than multiple "
        "parameters.",
        3,
    )
    for m in matrices:
        if m.array.ndim != 2:
            raise RuntimeError("Tensor must be a matrix")
    return matrices[0].clone() if len(matrices) == 1 else multi_dot(list(matrices))


def multi_dot(tensors: Any) -> Any:
    """linalg.multi_dot: the product in the order that needs the fewest multiplications."""
    count = len(tensors)
    if count < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {count}")
    first, last = tensors[0], tensors[-1]
    shape: list[int] = []
    parts = list(tensors)
    if first.array.ndim == 1:
        parts[0] = first.unsqueeze(0)
    elif first.array.ndim == 2:
        shape.append(first.array.shape[0])
    else:
        raise RuntimeError("multi_dot(): the first tensor must be 1D or 2D but got "
                           f"{first.array.ndim}D")
    if last.array.ndim == 1:
        parts[-1] = last.unsqueeze(-1)
    elif last.array.ndim == 2:
        shape.append(last.array.shape[1])
    else:
        raise RuntimeError(f"multi_dot(): the last tensor must be 1D or 2D but got {last.array.ndim}D")
    for i, p in enumerate(parts[1:-1]):
        if p.array.ndim != 2:
            raise RuntimeError(f"multi_dot(): tensor {i + 1} must be 2D but got {p.array.ndim}D")
    for i in range(count - 1):
        if parts[i].array.shape[1] != parts[i + 1].array.shape[0]:
            raise RuntimeError(
                f"multi_dot(): tensors {i} and {i + 1} with shapes {list(tensors[i].array.shape)} and "
                f"{list(tensors[i + 1].array.shape)} cannot be multiplied"
            )
    return view(chain(parts), tuple(shape))


def chain(parts: list[Any]) -> Any:
    """The product of matrices by the cheapest bracketing (dynamic programming)."""
    count = len(parts)
    dims = [parts[0].array.shape[0], *[p.array.shape[1] for p in parts]]
    cost = [[0] * count for _ in range(count)]
    split = [[0] * count for _ in range(count)]
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            choices = [cost[i][k] + cost[k + 1][j] + dims[i] * dims[k + 1] * dims[j + 1]
                       for k in range(i, j)]
            cost[i][j] = min(choices)
            split[i][j] = i + choices.index(cost[i][j])

    def build(i: int, j: int) -> Any:
        return parts[i] if i == j else mm(build(i, split[i][j]), build(split[i][j] + 1, j))

    return build(0, count - 1)
