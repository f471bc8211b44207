"""Products of vectors, matrices and batches of matrices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import dtypes
from ...core.base import F32, F64, STATE, TensorBase
from ...core.casting import cast_call, cast_operands
from ...core.devices import xp_of
from ...core.modes import MODES
from ...core.op import REGISTRY
from ...core.rule_functions import RAW, RECORDED
from ...core.transforms.batched import batch_of, entered, is_batched, physical_at
from ...core.transforms.levels import BATCHES
from ...dtypes import cpp_name
from ...errors import check_broadcast, must_be_tensor
from ...kernels.cpu.backend import HOST
from ...kernels.cpu.blas import dot
from ..block import LOWER, WIDEST, Autocast, Block, Case, api, apply, helper, op
from ..block.batching import join, lift, part
from ..block.checks import OUT_EXACT
from ..block.samples import Draw

# Blocks: their first argument is not a `self`.
# ruff: noqa: N805

OUT_LIKE_INPUT = "result dtype {got} does not match input dtype {want}"


def product_of_halves(xp: Any, a: Any, b: Any, rounded: bool) -> Any:
    wide = xp.matmul(a.astype(xp.float32), b.astype(xp.float32))
    return wide.astype(a.dtype) if rounded else wide


def product_of_integers(xp: Any, a: Any, b: Any) -> Any:
    return xp.matmul(spread_out(a), spread_out(b))


half_product = HOST.helper("half_product", product_of_halves)
whole_product = HOST.helper("whole_product", product_of_integers)


def product(xp: Any, a: Any, b: Any, rounded: bool = True) -> Any:
    """a @ b; half precision is accumulated in single, and (unless more follows) rounded once."""
    dtype = a.dtype
    if dtype.itemsize == 2 and dtype.kind in "fV":
        return half_product(xp, a, b, rounded)
    if a.ndim == 3 and b.ndim == 3 and (dtype is F32 or dtype is F64):
        return stack_product(xp, a, b)
    if dtype.kind == "i":
        return whole_product(xp, a, b)
    return xp.matmul(spread_out(a), spread_out(b))


def spread_out(x: Any) -> Any:
    """An array that does not repeat itself, as the gradient of a sum does: BLAS takes no others,
    and NumPy's own loops are slow. Stacks may repeat whole matrices."""
    return x.copy() if 0 in x.strides[-2:] and x.size else x


def stack_product(xp: Any, a: Any, b: Any) -> Any:
    """A stack of matrix products. Gradients per example (vmap) have two that one call can do."""
    size, rows, inner = a.shape
    columns = b.shape[2]
    if size > 1 and inner:
        if inner == 1:
            return xp.einsum("bi,bj->bij", a[:, :, 0], b[:, 0])
        # One matrix, repeated: all the others are rows of one product.
        if b.strides[0] == 0:
            return xp.matmul(a.reshape(size * rows, inner), b[0]).reshape(size, rows, columns)
        if a.strides[0] == 0 and columns == 1:
            return xp.matmul(b[:, :, 0], a[0].T).reshape(size, rows, 1)
    return xp.matmul(spread_out(a), spread_out(b))


def is_tensor(function: str, argument: str, position: int, value: Any) -> Any:
    if not isinstance(value, TensorBase):
        raise must_be_tensor(function, argument, position, value)
    return value._array


def check_supported(kernel: str, dtype: Any) -> None:
    # bool, uint16, uint32, uint64
    if dtype.kind in "bu" and (dtype.kind == "b" or dtype.itemsize > 1):
        raise NotImplementedError(
            f"\"{kernel}\" not implemented for '{dtypes.of(dtype).scalar_type}'"
        )


def scalar_type(array: Any) -> str:
    return dtypes.of(array.dtype).scalar_type


def check_expands(have: tuple[int, ...], want: tuple[int, ...]) -> None:
    """Raise unless a shape can be expanded to another."""
    for back in range(1, len(have) + 1):
        if back > len(want):
            raise RuntimeError(
                f"expand(torch.FloatTensor{{{list(have)}}}, size={list(want)}): the number of "
                f"sizes provided ({len(want)}) must be greater or equal to the number of "
                f"dimensions in the tensor ({len(have)})"
            )
        if have[-back] not in (1, want[-back]):
            raise RuntimeError(
                f"The expanded size of the tensor ({want[-back]}) must match the existing size "
                f"({have[-back]}) at non-singleton dimension {len(want) - back}.  "
                f"Target sizes: {list(want)}.  Tensor sizes: {list(have)}"
            )


# ---------------------------------------------------------------------- the five products


def fits(a: Any, b: Any) -> bool:
    """Whether these are float matrices of one dtype that can be multiplied: nothing to refuse."""
    if a.ndim != 2 or b.ndim != 2:
        return False
    dtype = a.dtype
    if (dtype is not F32 and dtype is not F64) or b.dtype is not dtype:
        return False
    same: bool = a.shape[1] == b.shape[0]
    return same


def check_mm(a: Any, b: Any) -> None:
    if fits(a, b):
        return
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
            f"{cpp_name(a.dtype)} != {cpp_name(b.dtype)}"
        )
    if a.size and b.size:
        check_supported("addmm_impl_cpu_", a.dtype)


def by_columns(rows: int, strides: tuple[int, ...]) -> bool:
    """Whether a matrix lies in memory column by column, as the transpose of a weight does."""
    return strides[0] != 0 and strides[1] == strides[0] * rows


def left_grad(grad: Any, right: Any, strides: tuple[int, ...]) -> Any:
    """The gradient of the left factor, with that factor's memory layout."""
    if by_columns(grad.shape[0], strides):
        return RECORDED.mm(right, grad.t()).t()
    return RECORDED.mm(grad, right.t())


def left_grad_array(grad: Any, right: Any, strides: tuple[int, ...]) -> Any:
    turned = by_columns(grad.shape[0], strides)
    if grad.dtype is not F32 and grad.dtype is not F64:
        xp = xp_of(grad)
        return product(xp, right, grad.T).T if turned else product(xp, grad, right.T)
    return dot(right, grad.T).T if turned else dot(grad, right.T)


def right_grad(grad: Any, left: Any, strides: tuple[int, ...]) -> Any:
    """The gradient of the right factor, with that factor's memory layout."""
    if by_columns(left.shape[1], strides):
        return RECORDED.mm(grad.t(), left).t()
    return RECORDED.mm(left.t(), grad)


def right_grad_array(grad: Any, left: Any, strides: tuple[int, ...]) -> Any:
    turned = by_columns(left.shape[1], strides)
    if grad.dtype is not F32 and grad.dtype is not F64:
        xp = xp_of(grad)
        return product(xp, grad.T, left).T if turned else product(xp, left.T, grad)
    return dot(grad.T, left).T if turned else dot(left.T, grad)


helper("left_grad", left_grad_array, left_grad, "grad @ right.T")
helper("right_grad", right_grad_array, right_grad, "left.T @ grad")


class MatrixProduct(Block):
    """Of two matrices, or of two stacks of them."""

    tensors = ("input", "mat2")
    linear = True
    formula = "input @ mat2"

    def shape(input, mat2):
        return (*input[:-1], mat2[-1])

    def shape_input(out, mat2):
        return (*out[:-1], mat2[-2])

    def shape_mat2(out, input):
        return (*out[:-2], input[-1], out[-1])


@op
class Mm(MatrixProduct):
    """mm(input, mat2) -> Tensor: the product of two matrices.

    >>> mm(tensor([[1.0, 2.0]]), tensor([[3.0], [4.0]]))
    tensor([[11.]])
    """

    autocast = Autocast(cpu=LOWER, gpu=LOWER)
    out_dtype = OUT_EXACT
    row_by_row = "input"
    sign = "@"
    onnx = "MatMul"
    samples = (
        Case(Draw(2, 3), Draw(3, 4)),
        Case(Draw(2, 3, layout="T"), Draw(3, 1, layout="T")),
        Case(Draw(2, 0), Draw(0, 3)),
        Case(Draw(0, 2), Draw(2, 3)),
    )

    def fwd(xp, input, mat2):
        if input.dtype is F32 or input.dtype is F64:
            return dot(input, mat2)
        return product(xp, input, mat2)

    def d_input(F, grad, mat2, input_strides):
        return F.left_grad(grad, mat2, input_strides)

    def d_mat2(F, grad, input, mat2_strides):
        return F.right_grad(grad, input, mat2_strides)

    def call(input, mat2):
        check_mm(is_tensor("mm", "input", 1, input), is_tensor("mm", "mat2", 2, mat2))
        return apply(Mm, (input, mat2))

    def batch(F, size, batched, input, mat2):
        if not batched[1]:
            return part(F, size, F.mm(join(F, input), mat2))
        return F.bmm(lift(F, input, size, batched[0]), mat2)


def check_bmm(a: Any, b: Any, function: str = "bmm") -> None:
    if a.ndim != 3:
        raise RuntimeError("batch1 must be a 3D tensor")
    if b.ndim != 3:
        raise RuntimeError("batch2 must be a 3D tensor")
    if (a.shape[0], a.shape[2]) != b.shape[:2]:
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{a.shape[0]}, "
            f"{a.shape[2]}] but got: [{b.shape[0]}, {b.shape[1]}]."
        )
    if a.dtype != b.dtype:
        raise RuntimeError(f"expected scalar type {scalar_type(a)} but found {scalar_type(b)}")
    if a.size and b.size:
        check_supported(function, a.dtype)


@op
class Bmm(MatrixProduct):
    """bmm(input, mat2) -> Tensor: the products of two stacks of matrices.

    >>> bmm(ones(2, 1, 3), ones(2, 3, 1)).shape
    torch.Size([2, 1, 1])
    """

    autocast = Autocast(cpu=LOWER, gpu=LOWER)
    out_dtype = OUT_EXACT
    sign = "@"
    onnx = "MatMul"
    samples = (
        Case(Draw(2, 2, 3), Draw(2, 3, 4)),
        Case(Draw(0, 2, 3), Draw(0, 3, 1)),
        Case(Draw(2, 2, 0), Draw(2, 0, 3)),
        Case(Draw(2, 3, 2, layout="T"), Draw(2, 2, 2)),
    )
    fold = True

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
        raise RuntimeError(f"vector + matrix @ vector expected, got {ndim}, {mat.ndim}, {vec.ndim}")
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
    if mat.size:
        check_supported("addmv_impl_cpu", mat.dtype)


@op
class Mv(Block):
    """mv(input, vec) -> Tensor: the product of a matrix and a vector.

    >>> mv(tensor([[1.0, 2.0], [3.0, 4.0]]), tensor([1.0, 1.0]))
    tensor([3., 7.])
    """

    tensors = ("input", "vec")
    linear = True
    autocast = Autocast(gpu=LOWER)
    formula = "input @ vec"
    sign = "@"
    onnx = "MatMul"
    samples = (
        Case(Draw(2, 3), Draw(3)),
        Case(Draw(2, 3, layout="T"), Draw(3, layout="step")),
        Case(Draw(2, 0), Draw(0)),
        Case(Draw(0, 2), Draw(2)),
    )

    def fwd(xp, input, vec):
        return product(xp, input, vec)

    def d_input(F, grad, vec):
        return F.unsqueeze(grad, 1) * vec

    def d_vec(F, grad, input):
        return F.mv(F.t(input), grad)

    def call(input, vec):
        check_mv(None, is_tensor("mv", "input", 1, input), is_tensor("mv", "vec", 2, vec))
        return apply(Mv, (input, vec))

    def batch(F, size, batched, input, vec):
        if not batched[0]:
            return F.mm(vec, F.transpose(input, 0, 1))
        if not batched[1]:
            return part(F, size, F.mv(join(F, input), vec))
        rows = lift(F, input, size, batched[0])
        column = F.unsqueeze(lift(F, vec, size, batched[1]), 2)
        return F.squeeze(F.bmm(rows, column), (2,))


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
            f"inconsistent tensor size, expected tensor [{a.size}] and src [{b.size}] to have the "
            f"same number of elements, but got {a.size} and {b.size} elements respectively"
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
    autocast = Autocast(gpu=WIDEST)
    out_dtype = OUT_LIKE_INPUT
    sign = "@"
    onnx = "MatMul"
    samples = (
        Case(Draw(3), Draw(3)),
        Case(Draw(0), Draw(0)),
        Case(Draw(3, layout="step"), Draw(3)),
    )

    def fwd(xp, input, tensor):
        return product(xp, input, tensor)

    def d_input(F, grad, tensor):
        return grad * tensor

    def d_tensor(F, grad, input):
        return grad * input

    def call(input, tensor):
        check_dot("dot", is_tensor("dot", "input", 1, input), is_tensor("dot", "tensor", 2, tensor))
        return apply(Dot, (input, tensor))

    def batch(F, size, batched, input, tensor):
        return F.sum(input * tensor, (1,), False, None)


@op
class Vdot(Block):
    """vdot(input, other) -> Tensor: `dot` with the first vector conjugated.

    >>> vdot(tensor([1j]), tensor([1j]))
    tensor(1.+0.j)
    """

    tensors = ("input", "other")
    wirtinger = True
    autocast = Autocast(gpu=WIDEST)
    out_dtype = OUT_LIKE_INPUT
    samples = (Case(Draw(3), Draw(3)), Case(Draw(0), Draw(0)))

    def fwd(xp, input, other):
        return product(xp, xp.conj(input) if input.dtype.kind == "c" else input, other)

    def d_input(F, grad, other):
        return F.conj(grad) * other

    def d_other(F, grad, input):
        return grad * input

    def jvp(F, input, t_input, other, t_other):
        parts = [
            F.vdot(a, b)
            for a, b in ((t_input, other), (input, t_other))
            if a is not None and b is not None
        ]
        return parts[0] if len(parts) == 1 else parts[0] + parts[1]

    def call(input, other):
        check_dot(
            "vdot", is_tensor("vdot", "input", 1, input), is_tensor("vdot", "other", 2, other)
        )
        return apply(Vdot, (input, other))

    def batch(F, size, batched, input, other):
        return F.sum(F.conj(input) * other, (1,), False, None)


@op
class SqueezeProduct(Block):
    """squeeze_product(input) -> Tensor: a fresh product without its first dimension."""

    node = "SqueezeBackward4"
    aten = "squeeze_.dim"
    public = False
    linear = True

    def fwd(xp, input):
        return input.reshape(input.shape[1:])

    def d_input(F, grad):
        return F.unsqueeze(grad, 0)

    def batch(F, size, batched, input):
        return F.squeeze(input, (1,))


@op
class SqueezeColumn(Block):
    """squeeze_column(input) -> Tensor: a fresh product without its last dimension."""

    node = "SqueezeBackward4"
    aten = None
    public = False
    linear = True

    def fwd(xp, input):
        return input.reshape(input.shape[:-1])

    def d_input(F, grad):
        return F.unsqueeze(grad, grad.ndim)

    def batch(F, size, batched, input):
        return F.squeeze(input, (len(input.shape) - 1,))


# ---------------------------------------------------------------------- matmul


@api(
    samples=[
        Case(Draw(3), Draw(3)),
        Case(Draw(2, 3), Draw(3)),
        Case(Draw(3), Draw(3, 2)),
        Case(Draw(2, 3), Draw(3, 2)),
        Case(Draw(2, 2, 3), Draw(3, 2)),
        Case(Draw(2, 2, 3), Draw(3)),
        Case(Draw(4, 3), Draw(2, 3, 2)),
        Case(Draw(3), Draw(2, 3, 2)),
        Case(Draw(2, 1, 2, 3), Draw(4, 3, 2)),
        Case(Draw(1, 2, 3), Draw(4, 3, 2)),
        Case(Draw(2, 0), Draw(0, 3)),
        Case(Draw(2, 3, layout="T"), Draw(3, 2, layout="step")),
    ],
    autocast=Autocast(cpu=LOWER, gpu=LOWER),
    out_dtype=OUT_LIKE_INPUT,
)
def matmul(input: Any, other: Any) -> Any:
    """matmul(input, other) -> Tensor: the product of vectors, matrices or stacks of matrices.

    >>> tensor([[1.0, 2.0], [3.0, 4.0]]) @ tensor([1.0, 1.0])
    tensor([3., 7.])
    """
    if STATE.casting and MODES.autocast is not None:
        return cast_call(matmul, (input, other), {})
    a, b = is_tensor("matmul", "input", 1, input), is_tensor("matmul", "other", 2, other)
    if a.ndim == 2 and b.ndim == 2:
        if not fits(a, b):
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
        if BATCHES and is_batched(input) and a.shape[0] == b.shape[0] and a.dtype == b.dtype:
            batch = batch_of(input)
            if not physical_at(other, batch.level)[1]:
                return entered(mm(batch.physical, other), batch.level)  # the vectors are rows
        out = apply(SqueezeProduct, (mm(input.unsqueeze(0), other),))
        out._version_cell().n = 1  # PyTorch squeezes the product in place
        return out
    if folds(input, other):
        return folded(input, other)
    return batched(input, other)


def mm(a: Any, b: Any) -> Any:
    if STATE.casting:
        a, b = cast_operands(Mm, (a, b))
    check_mm(a._array, b._array)
    return apply(Mm, (a, b))


def bmm(a: Any, b: Any) -> Any:
    if STATE.casting:
        a, b = cast_operands(Bmm, (a, b))
    check_bmm(a._array, b._array)
    return apply(Bmm, (a, b))


def mv(a: Any, b: Any) -> Any:
    check_mv(None, a._array, b._array)
    return apply(Mv, (a, b))


def view(t: Any, shape: tuple[int, ...]) -> Any:
    return apply(REGISTRY["view"], (t,), (shape,))


def unsafe_view(t: Any, shape: tuple[int, ...]) -> Any:
    return apply(REGISTRY["unsafe_view"], (t,), (shape,))


def folds(a: Any, b: Any) -> bool:
    """Whether a stack times one matrix is done as one tall matrix times a matrix.

    It is when that takes no copy, or when the matrix wants a gradient, which would else be a stack.
    """
    larger, smaller = (a, b) if a._array.ndim >= b._array.ndim else (b, a)
    if smaller._array.ndim > 2:
        return False
    if smaller.requires_grad:
        return True
    if a._array.ndim == 2:
        return False
    x = larger._array if larger is a else larger._array.swapaxes(-1, -2)
    if x.size == 0:
        return True
    return all([x.strides[i] == x.strides[i + 1] * x.shape[i + 1] for i in range(x.ndim - 2)])


def folded(a: Any, b: Any) -> Any:
    turned = b._array.ndim > a._array.ndim
    stack = b.transpose(-1, -2) if turned else a
    matrix = b if not turned else a.t() if a._array.ndim == 2 else a
    shape = stack._array.shape
    tall = stack.reshape(math.prod(shape[:-1]), shape[-1])
    if matrix._array.ndim == 1:
        return unsafe_view(mv(tall, matrix), shape[:-1])
    out = unsafe_view(mm(tall, matrix), (*shape[:-1], matrix._array.shape[1]))
    return out.transpose(-1, -2).contiguous() if turned else out


def batched(a: Any, b: Any) -> Any:
    x, y = a._array, b._array
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
    """Of arrays. Matrices by the kernel of `mm`: threads of a BLAS are in the way of our own."""
    if type(a) is np.ndarray and a.ndim == 2 and b.ndim == 2 and a.dtype is b.dtype:
        return RAW.mm(a, b)
    return product(xp_of(a), a, b)


helper("matmul", raw_matmul, matmul, "input @ other")
