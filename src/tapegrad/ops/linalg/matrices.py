"""Helpers of the linear algebra ops: checks in PyTorch's words, and kernels on arrays.

The kernels work on stacks of matrices. NumPy has no LU and no triangular solve. LAPACK does both
where kernels/cpu/lapack.py finds it. Elsewhere these are Python loops over the columns of a matrix,
all matrices of the stack at once, with the bulk of the work in blocks that are multiplied.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import dtypes
from ...core.base import TensorBase
from ...core.devices import to_host
from ...core.host_arrays import host
from ...core.named_results import return_type
from ...core.transforms.batched import physical_array
from ...core.wrappers import Nowhere
from ...errors import must_be_tensor
from ...kernels.cpu import KERNELS, lapack
from ...kernels.cpu.blas import solve_triangles
from ..block import looks_at_values
from ..block.batching import lift, padded
from ..block.checks import not_implemented
from ..products.matmul import broadcast_batch

FEW_STACKED = 64  # matrices whose pivots are followed in Python, each on its own
BLOCK = 32  # columns that are done one by one before the rest follows in one product


class LinAlgError(RuntimeError):
    """A matrix is singular, not positive-definite …: `torch.linalg.LinAlgError`."""


LinAlgError.__name__ = LinAlgError.__qualname__ = "_LinAlgError"
LinAlgError.__module__ = "torch._C"


# ---------------------------------------------------------------------- checks


def tensor_array(function: str, argument: str, position: int, value: Any) -> Any:
    if not isinstance(value, TensorBase):
        raise must_be_tensor(function, argument, position, value)
    return value._array


def scalar_type(x: Any) -> str:
    return dtypes.of(x.dtype).scalar_type


def is_half(x: Any) -> bool:
    return bool(x.dtype.itemsize == 2 and x.dtype.kind in "fV")


def check_matrix(function: str, x: Any, name: str = "A") -> None:
    if x.ndim < 2:
        raise RuntimeError(f"{function}: The input tensor {name} must have at least 2 dimensions.")


def check_square(function: str, x: Any, name: str = "A") -> None:
    """A stack of square matrices; an empty `function` leaves out who says it."""
    head = f"{function}: " if function else ""
    if function:
        check_matrix(function, x, name)
    if x.shape[-1] != x.shape[-2]:
        raise RuntimeError(
            f"{head}{name} must be batches of square matrices, but they are {x.shape[-2]} by "
            f"{x.shape[-1]} matrices"
        )


def check_floating(function: str, x: Any, low_precision: bool = True) -> None:
    """Floating point or complex; without `low_precision` neither half nor bfloat16."""
    if x.dtype.kind not in "fcV":
        raise RuntimeError(
            f"{function}: Expected a floating point or complex tensor as input. "
            f"Got {scalar_type(x)}"
        )
    if not low_precision and is_half(x):
        raise RuntimeError(f"{function}: Low precision dtypes not supported. Got {scalar_type(x)}")


def check_kernel(kernel: str, x: Any) -> None:
    """LAPACK has single and double precision, real and complex."""
    if x.dtype.kind not in "fc" or is_half(x):
        raise not_implemented(kernel, dtypes.of(x.dtype))


def check_factorable(function: str, kernel: str, x: Any) -> None:
    """Square matrices of floats that the kernel takes; it is not asked where there are none."""
    check_square(function, x)
    check_floating(function, x)
    if x.size:
        check_kernel(kernel, x)


def check_same_dtype(function: str, first: tuple[str, Any], second: tuple[str, Any]) -> None:
    if first[1].dtype != second[1].dtype:
        raise RuntimeError(
            f"{function}: Expected {first[0]} and {second[0]} to have the same dtype, but found "
            f"{first[0]} of type {scalar_type(first[1])} and {second[0]} of type "
            f"{scalar_type(second[1])} instead"
        )


def check_equation(function: str, a: Any, b: Any, left: bool) -> None:
    """A X = B, or X A = B."""
    check_square(function, a)
    check_matrix(function, b, "B")
    if a.shape[-2] != b.shape[-2 if left else -1]:
        raise RuntimeError(
            f"{function}: Incompatible shapes of A and B for the equation "
            f"{'AX = B' if left else 'XA = B'} ({a.shape[-2]}x{a.shape[-1]} and "
            f"{b.shape[-2]}x{b.shape[-1]})"
        )


def common_batch(a: Any, b: Any) -> tuple[int, ...]:
    """The leading dimensions of A and B together; PyTorch names those of B first."""
    return broadcast_batch(b.shape[:-2], a.shape[:-2])


def report(info: Any, cls: type[Exception], function: str, sentence: str) -> None:
    """Raise for the first matrix with a nonzero `info`, which fills the {} of `sentence`."""
    if isinstance(info, Nowhere):
        return  # of a wrapper, which nobody can read
    if type(info) is np.ndarray and info.size == 1 and not info.item():
        return
    info = to_host(info)  # PyTorch waits for the GPU here too
    bad = np.flatnonzero(info)
    if bad.size:
        first = int(bad[0])
        where = f"(Batch element {first}): " if info.ndim else ""
        raise cls(f"{function}: {where}{sentence.format(int(info.reshape(-1)[first]))}")


@looks_at_values
def report_of(info: Any, cls: type[Exception], function: str, sentence: str) -> None:
    """`report` for a tensor."""
    report(physical_array(info), cls, function, sentence)


SINGULAR_INVERSE = (
    "The diagonal element {} is zero, the inversion could not be completed because the input "
    "matrix is singular."
)
SINGULAR_SOLVE = "The solver failed because the input matrix is singular."
NOT_POSITIVE = (
    "The factorization could not be completed because the input is not positive-definite (the "
    "leading minor of order {} is not positive-definite)."
)


def as_result(name: str, fields: tuple[str, ...], parts: Sequence[Any]) -> Any:
    """Several tensors as the named tuple `torch.return_types.<name>`."""
    return return_type(name, fields)(parts)


# ---------------------------------------------------------------------- batching


def stacked(
    F: Any, size: int, batched: Sequence[bool], tensors: Sequence[Any], cores: Sequence[int]
) -> list[Any]:
    """Every tensor with the batch in front and as many leading dimensions as the others.

    `cores` says how many trailing dimensions of each belong to one entry.
    """
    whole = [lift(F, x, size, b) for x, b in zip(tensors, batched, strict=True)]
    extra = max(len(x.shape) - c for x, c in zip(whole, cores, strict=True))
    return [padded(F, x, 1, extra + c) for x, c in zip(whole, cores, strict=True)]


# ---------------------------------------------------------------------- rules


def turned(F: Any, x: Any) -> Any:
    """The transposes of a stack of matrices."""
    ndim = len(x.shape)
    return F.transpose(x, ndim - 2, ndim - 1)


def adjoint(F: Any, x: Any) -> Any:
    """The conjugate transposes."""
    return F.conj(turned(F, x))


def trace(F: Any, x: Any) -> Any:
    """The sums of the diagonals."""
    return F.sum(diagonal_of(F, x), (len(x.shape) - 2,), False, None)


def diagonal_of(F: Any, x: Any) -> Any:
    ndim = len(x.shape)
    return F.diagonal(x, 0, ndim - 2, ndim - 1)


def as_matrices(F: Any, x: Any) -> Any:
    """One number per matrix, ready to be multiplied with the matrices."""
    return F.reshape(x, (*x.shape, 1, 1))


# ---------------------------------------------------------------------- kernels


def by_column(xp: Any, x: Any) -> Any:
    """In the memory order of LAPACK, matrices column by column; copied if it is in another."""
    if xp is host and KERNELS is not None:
        return KERNELS.by_column(x)
    return xp.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)


def magnitude(xp: Any, x: Any) -> Any:
    """The number that LAPACK compares when it looks for a pivot."""
    return xp.absolute(x.real) + xp.absolute(x.imag) if x.dtype.kind == "c" else xp.absolute(x)


def flat(x: Any, core: int = 2) -> Any:
    """A stack with one leading dimension, copied."""
    shape = x.shape[x.ndim - core :]
    count = 1
    for n in x.shape[: x.ndim - core]:
        count *= n
    return x.reshape(count, *shape).copy(order="C")


def lu_arrays(xp: Any, a: Any) -> tuple[Any, Any, Any]:
    """The LU factors in one matrix, the pivots (from 1) and, per matrix, the first zero pivot."""
    found = lapack.lu(a) if xp is host else None
    if found is not None:
        return found
    lu = flat(a)
    count, rows, columns = lu.shape
    depth = min(rows, columns)
    every = xp.arange(count)
    pivots = xp.empty((count, depth), np.int32)
    info = xp.zeros(count, np.int32)
    for start in range(0, depth if count else 0, BLOCK):
        stop = min(start + BLOCK, depth)
        for j in range(start, stop):
            chosen = xp.argmax(magnitude(xp, lu[:, j:, j]), axis=1) + j
            pivots[:, j] = chosen + 1
            row = lu[every, chosen]
            lu[every, chosen] = lu[:, j]
            lu[:, j] = row
            pivot = row[:, j]
            zero = pivot == 0
            info[zero & (info == 0)] = j + 1
            below = lu[:, j + 1 :, j] / xp.where(zero, 1, pivot)[:, None]
            lu[:, j + 1 :, j] = below
            lu[:, j + 1 :, j + 1 : stop] -= below[:, :, None] * row[:, None, j + 1 : stop]
        if stop < columns:
            corner = lu[:, start:stop, start:stop]
            right = substitute(xp, corner, lu[:, start:stop, stop:], False, True)
            lu[:, start:stop, stop:] = right
            lu[:, stop:, stop:] -= xp.matmul(lu[:, stop:, start:stop], right)
    batch = a.shape[:-2]
    return lu.reshape(a.shape), pivots.reshape(*batch, depth), info.reshape(batch)


def substitute(xp: Any, a: Any, b: Any, upper: bool, unit: bool) -> Any:
    """X of A X = B for triangular A; only that triangle is read. Batches broadcast.

    One after the other by BLAS. Elsewhere all of them at once: a loop over the rows of A (they
    depend on each other), blocked, so that the product with everything that is known takes most
    of the work.
    """
    n = a.shape[-1]
    batch = b.shape[:-2]
    if a.ndim > 2 and a.shape[:-2] != batch:
        batch = np.broadcast_shapes(a.shape[:-2], batch)
        b = xp.broadcast_to(b, (*batch, *b.shape[-2:]))
    x = xp.array(b, order="C")
    if x.size == 0 or (xp is host and solve_triangles(a, x, upper, unit)):
        return x
    starts = range(0, n, BLOCK)
    for start in reversed(starts) if upper else starts:
        stop = min(start + BLOCK, n)
        known = slice(stop, n) if upper else slice(0, start)
        if known.start < known.stop:
            x[..., start:stop, :] -= xp.matmul(a[..., start:stop, known], x[..., known, :])
        rows = range(start, stop)
        for i in reversed(rows) if upper else rows:
            done = slice(i + 1, stop) if upper else slice(start, i)
            if done.start < done.stop:
                part = xp.matmul(a[..., i : i + 1, done], x[..., done, :])
                x[..., i, :] -= part[..., 0, :]
            if not unit:
                x[..., i, :] /= a[..., i, i, None]
    return x


def permutation(xp: Any, pivots: Any, rows: int) -> Any:
    """Which row stands where after the exchanges that `pivots` (from 1) say, one after another."""
    flat_pivots = flat(pivots, 1)
    count, depth = flat_pivots.shape
    if xp is host and count <= FEW_STACKED:
        orders = [exchanged(each, rows) for each in flat_pivots.tolist()]
        return np.array(orders, np.int64).reshape(*pivots.shape[:-1], rows)
    every = xp.arange(count)
    order = xp.tile(xp.arange(rows), (count, 1))
    for j in range(depth):
        chosen = flat_pivots[:, j] - 1
        held = order[every, chosen]
        order[every, chosen] = order[:, j]
        order[:, j] = held
    return order.reshape(*pivots.shape[:-1], rows)


def exchanged(pivots: list[int], rows: int) -> list[int]:
    """`permutation` of one matrix."""
    order = list(range(rows))
    for j, chosen in enumerate(pivots):
        order[j], order[chosen - 1] = order[chosen - 1], order[j]
    return order


def permutation_matrix(xp: Any, pivots: Any, rows: int, dtype: Any) -> Any:
    """P of A = P L U."""
    order = permutation(xp, pivots, rows)
    if xp is host:
        found = np.zeros((*order.shape, rows), dtype)
        np.put_along_axis(found, order[..., None, :], 1, -2)
        return found
    return (xp.arange(rows)[:, None] == order[..., None, :]).astype(dtype)


def solve_lu(xp: Any, lu: Any, pivots: Any, b: Any, conjugate: bool = False) -> Any:
    """X of P L U X = B, or with `conjugate` of (P L U)ᴴ X = B; batches broadcast."""
    batch = np.broadcast_shapes(lu.shape[:-2], b.shape[:-2])
    if xp is host and batch == lu.shape[:-2] == b.shape[:-2] == pivots.shape[:-1]:
        found = lapack.solve_lu(lu, pivots, b, conjugate)
        if found is not None:
            return found
    order = permutation(xp, pivots, lu.shape[-1])
    order = xp.broadcast_to(order, (*batch, order.shape[-1]))[..., None]
    b = xp.broadcast_to(b, (*batch, *b.shape[-2:]))
    if not conjugate:
        b = xp.take_along_axis(b, order, axis=-2)
        return substitute(xp, lu, substitute(xp, lu, b, False, True), True, False)
    turned_lu = xp.conj(lu.swapaxes(-1, -2))
    x = substitute(xp, turned_lu, substitute(xp, turned_lu, b, False, False), True, True)
    return xp.take_along_axis(x, xp.argsort(order, axis=-2), axis=-2)


def solve_arrays(xp: Any, a: Any, b: Any) -> tuple[Any, Any]:
    """X of A X = B and, per matrix A, the first zero pivot; singular ones give infinities."""
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    whole = xp.broadcast_to(b, (*batch, *b.shape[-2:]))
    try:
        # CuPy's does not broadcast.
        matrices = a if xp is host else xp.broadcast_to(a, (*batch, *a.shape[-2:]))
        x = xp.linalg.solve(matrices, whole) if whole.size else whole.copy()
        return x, xp.zeros(a.shape[:-2], np.int32)
    except np.linalg.LinAlgError:
        lu, pivots, info = lu_arrays(xp, a)
        return solve_lu(xp, lu, pivots, b), info


def svd_arrays(xp: Any, a: Any, full: bool = True, vectors: bool = True) -> Any:
    """NumPy's SVD, but NaN for matrices with infinities: from those, LAPACK may never return."""
    if xp is host and KERNELS is not None and KERNELS.all_finite(a):
        return xp.linalg.svd(a, full, vectors)
    good = xp.isfinite(a).all((-2, -1))
    if good.all():
        return xp.linalg.svd(a, full, vectors)
    parts = xp.linalg.svd(xp.where(good[..., None, None], a, 0), full, vectors)
    if not vectors:
        return xp.where(good[..., None], parts, xp.nan).astype(parts.dtype)
    u, s, vh = parts
    u, vh = [xp.where(good[..., None, None], x, xp.nan).astype(x.dtype) for x in (u, vh)]
    return u, xp.where(good[..., None], s, xp.nan).astype(s.dtype), vh
