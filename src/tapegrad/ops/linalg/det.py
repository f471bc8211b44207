"""Determinants and inverses."""

from __future__ import annotations

import math
from typing import Any

from ...core.named_results import return_type
from ..block import SINGLE, Autocast, Block, Case, api, apply, op
from ..block.checks import OUT_EXACT, OUT_SAFELY, is_complex
from ..block.samples import Draw, Index
from ..pointwise.minmax_where import where
from .matrices import (
    SINGULAR_INVERSE,
    LinAlgError,
    as_matrices,
    as_result,
    by_column,
    check_factorable,
    check_floating,
    check_square,
    report_of,
    solve_arrays,
    svd_arrays,
    trace,
    turned,
)

# Blocks: their first argument is not a `self`.
# ruff: noqa: N803, N805, N806

# Stacks of well-conditioned matrices, for samples.
SQUARE = Index([[2.0, -1.0, 0.5], [1.0, 3.0, -0.5], [0.3, 0.7, -2.5]])
SQUARES = Index([[[1.0, 0.5], [-0.5, 2.0]], [[-1.5, 0.2], [0.3, 1.0]]])
COMPLEX = Index([[1.0 + 2.0j, 0.5], [0.3j, 2.0 - 1.0j]])
MATRICES = [Case(SQUARE), Case(SQUARES), Case(Draw(1, 1, low=1.0)), Case(COMPLEX)]
EMPTIES = [Case(Draw(0, 0)), Case(Draw(0, 2, 2)), Case(Draw(2, 0, 0))]


# ---------------------------------------------------------------------- det


def without(xp: Any, values: Any, count: int) -> Any:
    """Products over the last dimension of all values but one (or two different ones)."""
    n = values.shape[-1]
    own = xp.eye(n, dtype=bool)
    left_out = own if count == 1 else own[:, None, :] | own[None, :, :]
    rest = values.reshape(*values.shape[:-1], *(1,) * count, n)
    return xp.prod(xp.where(left_out, 1, rest), axis=-1)


def rotated(xp: Any, a: Any) -> tuple[Any, Any, Any, Any]:
    """U, S, Vᴴ and det U · det Vᴴ."""
    u, s, vh = svd_arrays(xp, a)
    turn = xp.linalg.det(u) * xp.linalg.det(vh)
    return u, s, vh, turn[..., None, None]


@op
class LinalgCofactor(Block):
    """linalg_cofactor(input) -> Tensor: det A · A⁻ᵀ, the slope of det A, for singular A too."""

    aten = None
    public = False
    leading = (2,)

    def fwd(xp, input):
        det = xp.linalg.det(input)
        if xp.all(det != 0):
            scaled = det[..., None, None] * xp.eye(input.shape[-1], dtype=input.dtype)
            return solve_arrays(xp, input.swapaxes(-1, -2), scaled)[0]
        u, s, vh, turn = rotated(xp, input)
        others = without(xp, s, 1)[..., None]
        return (turn * xp.matmul(xp.conj(u), others * xp.conj(vh))).astype(input.dtype)

    def d_input(F, grad, input):
        return F.linalg_cofactor_slope(input, grad)

    def jvp(F, input, t_input):
        return F.linalg_cofactor_slope(input, t_input)


@op
class LinalgCofactorSlope(Block):
    """linalg_cofactor_slope(input, tangent) -> Tensor: how cofactors move with the matrix.

    It is linear in `tangent` and its own transpose, being a second derivative.
    """

    aten = None
    public = False
    tensors = ("input", "tangent")
    leading = (2, 2)

    def fwd(xp, input, tangent):
        u, s, vh, turn = rotated(xp, input)
        # In the basis where A is diagonal, each entry of the cofactors is a product.
        moved = xp.matmul(xp.conj(u.swapaxes(-1, -2)), tangent)
        moved = xp.matmul(moved, xp.conj(vh.swapaxes(-1, -2)))
        rest = without(xp, s, 2)
        n = s.shape[-1]
        own = xp.eye(n, dtype=bool)
        diagonal = xp.diagonal(moved, axis1=-2, axis2=-1)
        on = xp.matmul(xp.where(own, 0, rest), diagonal[..., None])
        out = xp.where(own, on, -rest * moved.swapaxes(-1, -2))
        out = turn * xp.matmul(xp.matmul(xp.conj(u), out), xp.conj(vh))
        return out.astype(input.dtype)

    def d_tangent(F, grad, input):
        return F.linalg_cofactor_slope(input, grad)

    def d_input(F, grad, input, tangent):
        return third_slope(F, input, tangent, grad)

    def jvp(F, input, t_input, tangent, t_tangent):
        parts = []
        if t_tangent is not None:
            parts.append(F.linalg_cofactor_slope(input, t_tangent))
        if t_input is not None:
            parts.append(third_slope(F, input, tangent, t_input))
        return parts[0] if len(parts) == 1 else parts[0] + parts[1]


def third_slope(F: Any, a: Any, s: Any, t: Any) -> Any:
    """The third derivative of det A in two directions, where A is not singular."""
    inverse = F.linalg_inv_ex(a)[0]
    left, right = F.matmul(inverse, s), F.matmul(inverse, t)
    both = F.matmul(left, right)
    u, v = as_matrices(F, trace(F, left)), as_matrices(F, trace(F, right))
    shared = u * v - as_matrices(F, trace(F, both))
    swapped = both + F.matmul(right, left)
    moved = shared * inverse + F.matmul(swapped - v * left - u * right, inverse)
    return as_matrices(F, F.linalg_det(a)) * turned(F, moved)


@op
class LinalgDet(Block):
    """linalg_det(input) -> Tensor: determinants."""

    aten = "_linalg_det"
    public = False
    leading = (2,)

    def fwd(xp, input):
        return xp.linalg.det(input) if input.size else xp.ones(input.shape[:-2], input.dtype)

    def d_input(F, grad, input):
        return as_matrices(F, grad) * F.linalg_cofactor(input)

    def jvp(F, input, t_input):
        ndim = len(input.shape)
        return F.sum(F.linalg_cofactor(input) * t_input, (ndim - 2, ndim - 1), False, None)


def determinant(A: Any) -> Any:
    array = A._array
    check_factorable("linalg.det", "lu_cpu", array)
    return apply(LinalgDet, (A,))


@api(name="linalg.det", samples=[*MATRICES, *EMPTIES], out_dtype=OUT_EXACT)
def linalg_det(A: Any) -> Any:
    """linalg.det(A) -> Tensor: the determinant of a square matrix, or of each of a stack.

    >>> torch.linalg.det(tensor([[1.0, 2.0], [3.0, 5.0]]))
    tensor(-1.)
    """
    return determinant(A)


@api(samples=MATRICES)
def det(input: Any) -> Any:
    """det(input) -> Tensor: the same as `linalg.det`.

    >>> tensor([[2.0, 0.0], [0.0, 4.0]]).det()
    tensor(8.)
    """
    return determinant(input)


# ---------------------------------------------------------------------- slogdet, logdet


@op
class LinalgSlogdet(Block):
    """linalg_slogdet(input) -> (Tensor, Tensor): sign and logarithm of determinants."""

    aten = "_linalg_slogdet"
    public = False
    wirtinger = True
    leading = (2,)
    outs = ("sign", "logabsdet")
    result = return_type("linalg_slogdet", ("sign", "logabsdet"))

    def fwd(xp, input):
        sign, logabsdet = xp.linalg.slogdet(input)
        # A NaN has no sign here.
        return xp.where(xp.isnan(logabsdet), 0, sign), logabsdet

    def d_input(F, grad, input, sign):
        g_sign, g_log = grad
        slope = g_log
        if g_sign is not None and is_complex(input):
            # The sign turns with the imaginary part of log det.
            turn = 1j * F.real_part(1j * F.conj(g_sign) * sign)
            slope = turn if slope is None else slope + turn
        if slope is None:
            return F.zeros_like(input)
        return as_matrices(F, slope) * turned(F, F.conj(F.linalg_inv_ex(input)[0]))

    def jvp(F, input, t_input, sign):
        change = trace(F, F.matmul(F.linalg_inv_ex(input)[0], t_input))
        if not is_complex(input):
            return F.zeros_like(sign), change
        along = F.real_part(change)
        return sign * (change - along), along


def sign_and_log(function: str, A: Any) -> Any:
    array = A._array
    check_square(function, array)
    check_floating(function, array, low_precision=False)
    return apply(LinalgSlogdet, (A,))


@api(name="linalg.slogdet", samples=[*MATRICES, *EMPTIES], out_dtype=OUT_EXACT)
def linalg_slogdet(A: Any) -> Any:
    """linalg.slogdet(A) -> (Tensor, Tensor): sign and log of the absolute value of determinants.

    >>> sign, logabsdet = torch.linalg.slogdet(tensor([[0.0, 1.0], [1.0, 0.0]]))
    >>> sign, logabsdet
    (tensor(-1.), tensor(0.))
    """
    return sign_and_log("linalg.slogdet", A)


@api(samples=MATRICES, out_dtype=OUT_EXACT)
def slogdet(input: Any) -> Any:
    """slogdet(input) -> (Tensor, Tensor): the same as `linalg.slogdet`.

    >>> slogdet(eye(2)).logabsdet
    tensor(0.)
    """
    return as_result("slogdet", ("sign", "logabsdet"), sign_and_log("linalg.slogdet", input))


@api(samples=[Case(Index([[2.0, 1.0], [-1.0, 2.0]])), Case(COMPLEX)])
def logdet(input: Any) -> Any:
    """logdet(input) -> Tensor: logarithms of determinants; NaN where they are negative.

    >>> logdet(eye(3))
    tensor(0.)
    """
    sign, logabsdet = sign_and_log("logdet", input)
    if is_complex(input):
        return sign.log() + logabsdet
    return where(sign == -1, math.nan, logabsdet)


# ---------------------------------------------------------------------- inv


@op
class LinalgInvEx(Block):
    """linalg_inv_ex(input) -> (Tensor, Tensor): inverses, and the first zero pivot of each."""

    aten = "linalg_inv_ex"
    public = False
    leading = (2,)
    outs = ("inverse", "info")
    plain_outs = (1,)
    result = return_type("linalg_inv_ex", ("inverse", "info"))
    autocast = Autocast(cpu=SINGLE)

    def fwd(xp, input):
        identity = xp.eye(input.shape[-1], dtype=input.dtype)
        inverse, info = solve_arrays(xp, input, identity)
        return by_column(xp, inverse), info

    def d_input(F, grad, inverse):
        back = turned(F, inverse)
        return -F.matmul(back, F.matmul(grad[0], back))

    def jvp(F, t_input, inverse):
        return -F.matmul(inverse, F.matmul(t_input, inverse)), None


def invert(A: Any, function: str) -> Any:
    """Inverses and infos; an error, unless `function` is empty, says that name."""
    array = A._array
    check_square("linalg.inv", array)
    check_floating("linalg.inv", array, low_precision=False)
    result = apply(LinalgInvEx, (A,))
    if function:
        report_of(result[1], LinAlgError, function, SINGULAR_INVERSE)
    return result


@api(
    name="linalg.inv",
    samples=[*MATRICES, *EMPTIES],
    autocast=Autocast(cpu=SINGLE),
    out_dtype=OUT_EXACT,
)
def linalg_inv(A: Any) -> Any:
    """linalg.inv(A) -> Tensor: the inverse of a square matrix, or of each of a stack.

    >>> torch.linalg.inv(tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    return invert(A, "linalg.inv")[0]


@api(samples=MATRICES, autocast=Autocast(cpu=SINGLE), out_dtype=OUT_EXACT)
def inverse(input: Any) -> Any:
    """inverse(input) -> Tensor: the same as `linalg.inv`.

    >>> tensor([[0.5]]).inverse()
    tensor([[2.]])
    """
    return invert(input, "linalg.inv")[0]


@api(name="linalg.inv_ex", samples=MATRICES, autocast=Autocast(cpu=SINGLE), out_dtype=OUT_EXACT)
def linalg_inv_ex(A: Any, *, check_errors: bool = False) -> Any:
    """linalg.inv_ex(A, *, check_errors=False) -> (Tensor, Tensor): inverses, and what went wrong.

    >>> torch.linalg.inv_ex(zeros(2, 2)).info
    tensor(1, dtype=torch.int32)
    """
    return invert(A, "linalg.inv_ex" if check_errors else "")


@api(
    name="linalg.tensorinv",
    samples=[Case(Draw(2, 3, 6)), Case(Draw(4, 2, 2), ind=1)],
    autocast=Autocast(cpu=SINGLE),
    out_dtype="tensorinv: " + OUT_SAFELY,
)
def linalg_tensorinv(input: Any, ind: int = 2) -> Any:
    """linalg.tensorinv(input, ind=2) -> Tensor: the inverse of tensordot with `input`.

    >>> torch.linalg.tensorinv(eye(6).reshape(2, 3, 6)).shape
    torch.Size([6, 2, 3])
    """
    shape = input._array.shape
    if ind <= 0:
        raise RuntimeError(f"Expected a strictly positive integer for 'ind', but got {ind}")
    if ind > len(shape):
        raise RuntimeError(f"ArrayRef: invalid slice, N = {ind}; size = {len(shape)}")
    rows, columns = math.prod(shape[:ind]), math.prod(shape[ind:])
    if rows != columns:
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[ind:]) == "
            f"prod(self.shape[:ind]), but got {columns} != {rows}"
        )
    flat = input.reshape(rows, columns)
    return invert(flat, "inv")[0].reshape(*shape[ind:], *shape[:ind])
