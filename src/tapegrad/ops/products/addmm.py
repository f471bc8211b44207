"""Products with a summand: `beta * input + alpha * (a product of two tensors)`."""

from __future__ import annotations

from typing import Any

from ...autograd.inplace import bump, refuse, write
from ...autograd.view_history import rebase
from ...core.base import F32, F64
from ...dtypes import cpp_name
from ..block import LOWER, PROMOTE, Autocast, Block, Case, apply, op, reads_as
from ..block.batching import broadcast_entries, join, lift, padded, part
from ..block.checks import OUT_EXACT, as_number, refuse_overflow
from ..block.samples import Draw
from ..reduce.sorting import like_input
from .matmul import (
    check_bmm,
    check_expands,
    check_mv,
    check_supported,
    fits,
    is_tensor,
    product,
    scalar_type,
)

# Blocks: their first argument is not a `self`.
# ruff: noqa: N805


@reads_as("x * factor")
def scaled_by(x: Any, factor: Any) -> Any:
    """x * factor, where a factor of 1 costs nothing."""
    return x if type(factor) in (int, float) and factor == 1 else x * factor


def combine(xp: Any, input: Any, prod: Any, beta: Any, alpha: Any, dtype: Any) -> Any:
    """beta * input + alpha * prod, rounded to `dtype` once; a beta of 0 ignores even NaN."""
    if beta == 1 and alpha == 1 and input.dtype is dtype and (dtype is F32 or dtype is F64):
        return xp.add(prod, input, prod)  # in place: nobody else holds the product
    if dtype.kind in "iu":
        beta, alpha = int(beta), int(alpha)
    prod = scaled_by(prod, alpha)
    if beta == 0:
        return prod if prod.dtype == dtype else prod.astype(dtype)
    return xp.add(scaled_by(input, beta), prod).astype(dtype, copy=False)


class WithSummand(Block):
    """beta * input + alpha * (a product of two tensors)."""

    broadcasts = True
    inplace = True

    def d_input(F, grad, beta):
        return scaled_by(grad, beta)


def summand_jvp(
    F: Any, times: Any, pairs: Any, t_input: Any, beta: Any, alpha: Any, out: Any
) -> Any:
    """The tangent: one term for each argument that has one, of the shape of `out`."""
    total = None if t_input is None else scaled_by(t_input, beta)
    for a, b in pairs:
        if a is not None and b is not None:
            part = scaled_by(times(a, b), alpha)
            total = part if total is None else total + part
    return F.expand(total, out.shape) if tuple(total.shape) != tuple(out.shape) else total


def factors(function: str, input: Any, beta: Any, alpha: Any, run: Any) -> tuple[Any, Any]:
    """`beta` and `alpha` as numbers that fit."""
    beta = as_number(function, "beta", beta, run)
    alpha = as_number(function, "alpha", alpha, run)
    refuse_overflow((beta, alpha), input)
    return beta, alpha


def check_sum(kernel: str, a: Any, b: Any) -> None:
    """Refuse the dtypes that cannot be multiplied; where nothing is, only scaling is left."""
    if a.size and b.size:
        check_supported(kernel, a.dtype)
    elif a.dtype.kind == "b" and a.shape[-2] and b.shape[-1]:
        raise RuntimeError("result type Long can't be cast to the desired output type Bool")


def check_addmm(input: Any, mat1: Any, mat2: Any) -> None:
    if fits(mat1, mat2) and input.dtype is mat1.dtype and input.shape == mat2.shape[1:]:
        return
    for name, x in (("mat1", mat1), ("mat2", mat2)):
        if x.ndim != 2:
            raise RuntimeError(f"{name} must be a matrix, got {x.ndim}-D tensor")
    if input.dtype != mat2.dtype:
        raise RuntimeError(
            "self and mat2 must have the same dtype, but got "
            f"{scalar_type(input)} and {scalar_type(mat2)}"
        )
    if mat1.dtype != mat2.dtype:
        raise RuntimeError(
            f"mat1 and mat2 must have the same dtype, but got {scalar_type(mat1)} and "
            f"{scalar_type(mat2)}"
        )
    if mat1.shape[1] != mat2.shape[0]:
        raise RuntimeError(
            "mat1 and mat2 shapes cannot be multiplied "
            f"({mat1.shape[0]}x{mat1.shape[1]} and {mat2.shape[0]}x{mat2.shape[1]})"
        )
    check_sum("addmm_impl_cpu_", mat1, mat2)
    check_expands(input.shape, (mat1.shape[0], mat2.shape[1]))


@op
class Addmm(WithSummand):
    """addmm(input, mat1, mat2, *, beta=1, alpha=1) -> Tensor: `beta * input + alpha * mat1 @ mat2`.

    >>> addmm(tensor([10.0]), tensor([[1.0, 2.0]]), tensor([[3.0], [4.0]]))
    tensor([[21.]])
    """

    tensors = ("input", "mat1", "mat2")
    row_by_row = "mat1"
    autocast = Autocast(cpu=LOWER, gpu=LOWER)
    out_dtype = OUT_EXACT
    samples = (
        Case(Draw(2), Draw(3, 4), Draw(4, 2)),
        Case(Draw(3, 2), Draw(3, 4), Draw(4, 2)),
        Case(Draw(), Draw(3, 0), Draw(0, 2)),
        Case(Draw(3, 1), Draw(3, 4, layout="T"), Draw(4, 2), beta=0.5, alpha=-2.0),
    )

    def fwd(xp, input, mat1, mat2, beta, alpha):
        return combine(xp, input, product(xp, mat1, mat2, False), beta, alpha, mat1.dtype)

    def d_mat1(F, grad, mat2, mat1_strides, alpha):
        return scaled_by(F.left_grad(grad, mat2, mat1_strides), alpha)

    def d_mat2(F, grad, mat1, mat2_strides, alpha):
        return scaled_by(F.right_grad(grad, mat1, mat2_strides), alpha)

    def shape(mat1, mat2):
        return (*mat1[:-1], mat2[-1])

    def shape_mat1(out, mat2):
        return (*out[:-1], mat2[-2])

    def shape_mat2(out, mat1):
        return (*out[:-2], mat1[-1], out[-1])

    def jvp(F, t_input, mat1, t_mat1, mat2, t_mat2, beta, alpha, out):
        return summand_jvp(F, F.mm, ((t_mat1, mat2), (mat1, t_mat2)), t_input, beta, alpha, out)

    def call(input, mat1, mat2, *, beta=1, alpha=1, run=apply):
        check_addmm(
            is_tensor("addmm", "input", 1, input),
            is_tensor("addmm", "mat1", 2, mat1),
            is_tensor("addmm", "mat2", 3, mat2),
        )
        return run(Addmm, (input, mat1, mat2), factors("addmm", input, beta, alpha, run))

    def batch(F, size, batched, input, mat1, mat2, beta, alpha):
        if not batched[2]:  # one product of a tall matrix, not a stack of products
            summand = input
            if batched[0] or (input.ndim == 2 and input.shape[0] > 1):
                shape = (mat1.shape[-2], mat2.shape[1])
                summand = join(F, broadcast_entries(F, input, size, batched[0], shape))
            tall = join(F, lift(F, mat1, size, batched[1]))
            return part(F, size, F.addmm(summand, tall, mat2, beta, alpha))
        left = lift(F, mat1, size, batched[1])
        summand = padded(F, lift(F, input, size, batched[0]), 1, 3)
        return F.baddbmm(summand, left, lift(F, mat2, size, batched[2]), beta, alpha)


@op
class Addmv(WithSummand):
    """addmv(input, mat, vec, *, beta=1, alpha=1) -> Tensor: `beta * input + alpha * mat @ vec`.

    >>> addmv(tensor([10.0]), tensor([[1.0, 2.0]]), tensor([3.0, 4.0]))
    tensor([21.])
    """

    tensors = ("input", "mat", "vec")
    autocast = Autocast(gpu=LOWER)
    inplace_functions = ("addmv_",)
    out_dtype = OUT_EXACT
    samples = (
        Case(Draw(2), Draw(2, 3), Draw(3)),
        Case(Draw(1), Draw(2, 3), Draw(3), beta=2.0, alpha=0.5),
    )

    def fwd(xp, input, mat, vec, beta, alpha):
        return combine(xp, input, product(xp, mat, vec, False), beta, alpha, mat.dtype)

    def d_mat(F, grad, vec, alpha):
        return scaled_by(F.unsqueeze(grad, 1) * vec, alpha)

    def d_vec(F, grad, mat, alpha):
        return scaled_by(F.mv(F.t(mat), grad), alpha)

    def jvp(F, t_input, mat, t_mat, vec, t_vec, beta, alpha, out):
        return summand_jvp(F, F.mv, ((t_mat, vec), (mat, t_vec)), t_input, beta, alpha, out)

    def call(input, mat, vec, *, beta=1, alpha=1, run=apply):
        check_mv(
            is_tensor("addmv", "input", 1, input),
            is_tensor("addmv", "mat", 2, mat),
            is_tensor("addmv", "vec", 3, vec),
        )
        return run(Addmv, (input, mat, vec), factors("addmv", input, beta, alpha, run))

    def batch(F, size, batched, input, mat, vec, beta, alpha):
        column = F.unsqueeze(lift(F, vec, size, batched[2]), 2)
        summand = F.unsqueeze(padded(F, lift(F, input, size, batched[0]), 1, 2), 2)
        rows = lift(F, mat, size, batched[1])
        return F.squeeze(F.baddbmm(summand, rows, column, beta, alpha), (2,))


def plus_outer(xp: Any, input: Any, vec1: Any, vec2: Any, beta: Any, alpha: Any) -> Any:
    if vec1.dtype.kind in "biu":
        return combine(xp, input, xp.outer(vec1, vec2), beta, alpha, vec1.dtype)
    if vec1.dtype.itemsize == 2 and input.dtype == vec2.dtype == vec1.dtype:
        # Half precision all the way, as PyTorch has it: every step is rounded.
        number = vec1.dtype.type
        prod = (number(alpha) * vec1)[:, None] * vec2
        return number(beta) * input + prod if beta else prod
    return combine(xp, input, xp.outer(scaled_by(vec1, alpha), vec2), beta, 1, vec1.dtype)


@op
class Addr(WithSummand):
    """addr(input, vec1, vec2, *, beta=1, alpha=1) -> Tensor: plus an outer product.

    >>> addr(zeros(2, 2), tensor([1.0, 2.0]), tensor([3.0, 4.0]))
    tensor([[3., 4.],
            [6., 8.]])
    """

    tensors = ("input", "vec1", "vec2")
    dtype = PROMOTE
    autocast = Autocast(gpu=LOWER)
    samples = (
        Case(Draw(2, 3), Draw(2), Draw(3)),
        Case(Draw(3), Draw(2), Draw(3), beta=0.5, alpha=2.0),
    )

    def fwd(xp, input, vec1, vec2, beta, alpha):
        out = plus_outer(xp, input, vec1, vec2, beta, alpha)
        return like_input(xp, out, input) if input.shape == out.shape else out

    def d_vec1(F, grad, vec2, alpha):
        return scaled_by(F.mv(grad, vec2), alpha)

    def d_vec2(F, grad, vec1, alpha):
        return scaled_by(F.mv(F.t(grad), vec1), alpha)

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
            kinds = {summand.dtype.kind, a.dtype.kind, b.dtype.kind}
            if isinstance(factor, bool) and kinds != {"b"}:
                raise RuntimeError(f"Boolean {name} only supported for Boolean results.")
            if isinstance(factor, (float, complex)) and not kinds & set("fcV"):
                raise RuntimeError(
                    f"For integral input tensors, argument {name} must not be a floating point "
                    "number."
                )
        check_expands(summand.shape, (a.size, b.size))
        return run(Addr, (input, vec1, vec2), factors("addr", input, beta, alpha, run))

    def batch(F, size, batched, input, vec1, vec2, beta, alpha):
        column = F.unsqueeze(lift(F, vec1, size, batched[1]), 2)
        row = F.unsqueeze(lift(F, vec2, size, batched[2]), 1)
        summand = padded(F, lift(F, input, size, batched[0]), 1, 3)
        return F.baddbmm(summand, column, row, beta, alpha)


def check_baddbmm(input: Any, a: Any, b: Any, summed: bool) -> None:
    if a.ndim != 3:
        raise RuntimeError("batch1 must be a 3D tensor")
    if b.ndim < 3 and not summed:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-b.ndim}, {b.ndim - 1}], "
            "but got 2)"
        )
    if b.ndim != 3:
        raise RuntimeError("batch2 must be a 3D tensor")
    if not input.dtype == a.dtype == b.dtype:
        names = [cpp_name(x.dtype) for x in (input, a, b)]
        raise RuntimeError(
            f"Input dtypes must be the same, got: input {names[0]}, batch1: {names[1]}, batch2: "
            f"{names[2]}"
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
    check_expands(input.shape, target)
    if summed:
        check_sum("addmm_impl_cpu_", a, b)
    else:
        check_bmm(a, b, "baddbmm")
        if a.shape[0]:
            check_sum("baddbmm", a, b)


@op
class Baddbmm(WithSummand):
    """baddbmm(input, batch1, batch2, *, beta=1, alpha=1) -> Tensor: `addmm` of stacks of matrices.

    >>> baddbmm(ones(1), ones(2, 1, 3), ones(2, 3, 1)).flatten()
    tensor([4., 4.])
    """

    tensors = ("input", "batch1", "batch2")
    autocast = Autocast(cpu=LOWER, gpu=LOWER)
    out_dtype = OUT_EXACT
    samples = (
        Case(Draw(2, 2, 4), Draw(2, 2, 3), Draw(2, 3, 4)),
        Case(Draw(4), Draw(2, 2, 3), Draw(2, 3, 4), beta=0.5, alpha=2.0),
    )

    def fwd(xp, input, batch1, batch2, beta, alpha):
        return combine(xp, input, product(xp, batch1, batch2, False), beta, alpha, batch1.dtype)

    def d_batch1(F, grad, batch2, alpha):
        return scaled_by(F.bmm(grad, F.transpose(batch2, 1, 2)), alpha)

    def d_batch2(F, grad, batch1, alpha):
        return scaled_by(F.bmm(F.transpose(batch1, 1, 2), grad), alpha)

    def shape(batch1, batch2):
        return (*batch1[:-1], batch2[-1])

    def shape_batch1(out, batch2):
        return (*out[:-1], batch2[-2])

    def shape_batch2(out, batch1):
        return (*out[:-2], batch1[-1], out[-1])

    def jvp(F, t_input, batch1, t_batch1, batch2, t_batch2, beta, alpha, out):
        pairs = ((t_batch1, batch2), (batch1, t_batch2))
        return summand_jvp(F, F.bmm, pairs, t_input, beta, alpha, out)

    def call(input, batch1, batch2, *, beta=1, alpha=1, run=apply):
        check_baddbmm(
            is_tensor("baddbmm", "input", 1, input),
            is_tensor("baddbmm", "batch1", 2, batch1),
            is_tensor("baddbmm", "batch2", 3, batch2),
            summed=False,
        )
        return run(Baddbmm, (input, batch1, batch2), factors("baddbmm", input, beta, alpha, run))

    def batch(F, size, batched, input, batch1, batch2, beta, alpha):
        left = lift(F, batch1, size, batched[1])
        right = lift(F, batch2, size, batched[2])
        shape = (*left.shape[:3], right.shape[3])
        summand = F.expand(padded(F, lift(F, input, size, batched[0]), 1, 4), shape)
        out = F.baddbmm(join(F, summand), join(F, left), join(F, right), beta, alpha)
        return part(F, size, out)


@op
class Addbmm(WithSummand):
    """addbmm(input, batch1, batch2, *, beta=1, alpha=1) -> Tensor: the sum of a stack of products.

    >>> addbmm(ones(1), ones(2, 1, 3), ones(2, 3, 1))
    tensor([[7.]])
    """

    tensors = ("input", "batch1", "batch2")
    autocast = Autocast(cpu=LOWER, gpu=LOWER)
    samples = (
        Case(Draw(2, 4), Draw(2, 2, 3), Draw(2, 3, 4)),
        Case(Draw(4), Draw(2, 2, 3), Draw(2, 3, 4), beta=0.5, alpha=2.0),
    )

    def fwd(xp, input, batch1, batch2, beta, alpha):
        products = product(xp, batch1, batch2, False)
        total = xp.add.reduce(products, axis=0, dtype=products.dtype)
        return combine(xp, input, total, beta, alpha, batch1.dtype)

    def d_batch1(F, grad, batch2, alpha):
        return scaled_by(F.matmul(grad, F.transpose(batch2, 1, 2)), alpha)

    def d_batch2(F, grad, batch1, alpha):
        return scaled_by(F.matmul(F.transpose(batch1, 1, 2), grad), alpha)

    def jvp(F, t_input, batch1, t_batch1, batch2, t_batch2, beta, alpha, out):
        pairs = ((t_batch1, batch2), (batch1, t_batch2))
        return summand_jvp(
            F, lambda a, b: F.sum(F.bmm(a, b), (0,), False, None), pairs, t_input, beta, alpha, out
        )

    def call(input, batch1, batch2, *, beta=1, alpha=1, run=apply):
        check_baddbmm(
            is_tensor("addbmm", "input", 1, input),
            is_tensor("addbmm", "batch1", 2, batch1),
            is_tensor("addbmm", "batch2", 3, batch2),
            summed=True,
        )
        sizes = (batch1._array.shape[1], batch2._array.shape[2])
        if run is write and input._array.shape != sizes and input._view_of is None:
            return grown(input, batch1, batch2, *factors("addbmm", input, beta, alpha, run))
        return run(Addbmm, (input, batch1, batch2), factors("addbmm", input, beta, alpha, run))

    def batch(F, size, batched, input, batch1, batch2, beta, alpha):
        # The products are added up: one product of the batches laid side by side.
        left = F.permute(lift(F, batch1, size, batched[1]), (0, 2, 1, 3))
        left = F.reshape(left, (size, left.shape[1], left.shape[2] * left.shape[3]))
        right = lift(F, batch2, size, batched[2])
        right = F.reshape(right, (size, right.shape[1] * right.shape[2], right.shape[3]))
        summand = padded(F, lift(F, input, size, batched[0]), 1, 3)
        return F.baddbmm(summand, left, right, beta, alpha)


def grown(input: Any, batch1: Any, batch2: Any, beta: Any, alpha: Any) -> Any:
    """`addbmm_` is the one in-place form that lets its target grow to the result's shape."""
    refuse(input, False)
    made = apply(Addbmm, (input, batch1, batch2), (beta, alpha))
    input._array = made._array
    bump(input, "addbmm_", made._node is not None)
    if made._node is not None:
        rebase(input, made._node)
    return input
