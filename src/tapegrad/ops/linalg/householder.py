"""Householder reflections: geqrf makes them, householder_product and ormqr multiply them.

Column i of a matrix below its diagonal, with a one above, is the vector v of the reflection
I - tau v vᴴ. Products of reflections are recurrences: the loops here go over the reflections, one
after another, for all matrices of a stack.
"""

from __future__ import annotations

from typing import Any

from ...core.array_kind import refuse_meta
from ...core.host_arrays import host
from ...core.named_results import return_type
from ...kernels.cpu import lapack
from ..block import SINGLE, Autocast, Block, Case, api, apply, op
from ..block.checks import OUT_SAFELY
from ..block.samples import Draw
from .matrices import adjoint, by_column, check_kernel, scalar_type

# Blocks: their first argument is not a `self`.
# ruff: noqa: N805


# ---------------------------------------------------------------------- reflections


def vectors(F: Any, input: Any, count: int) -> Any:
    """The first `count` columns below the diagonal, with ones on it."""
    ndim = len(input.shape)
    columns = F.tril(F.narrow(input, ndim - 1, 0, count), -1)
    ones = F.triu(F.tril(F.ones_like(columns), 0), 0)
    return columns + ones


def column(F: Any, v: Any, i: int) -> Any:
    return F.narrow(v, len(v.shape) - 1, i, 1)


def factor(F: Any, tau: Any, i: int, turn: bool) -> Any:
    """tau i (conjugated for the adjoint), ready to be multiplied with matrices."""
    one = F.unsqueeze(F.narrow(tau, len(tau.shape) - 1, i, 1), len(tau.shape))
    return F.conj(one) if turn else one


def order(count: int, turn: bool) -> list[int]:
    """Q = H₀ H₁ … applies the last first; Qᴴ the other way round."""
    return list(range(count)) if turn else list(range(count))[::-1]


def reflected(xp: Any, input: Any, tau: Any, x: Any, turn: bool) -> Any:
    """Q X, or Qᴴ X."""
    found = lapack.reflected(input, tau, x, turn) if xp is host else None
    if found is not None:
        return found
    count = tau.shape[-1]
    v = xp.tril(input[..., :count], -1) + xp.eye(input.shape[-2], count, dtype=input.dtype)
    scales = xp.conj(tau) if turn else tau
    for i in order(count, turn):
        one = v[..., i : i + 1]
        row = xp.matmul(xp.conj(one.swapaxes(-1, -2)), x)
        x = x - scales[..., i, None, None] * one * row
    return x


def reflections_slope(F: Any, grad: Any, input: Any, tau: Any, x: Any, turn: bool) -> Any:
    """The gradients of the columns, of tau and of X."""
    count = tau.shape[-1]
    v = vectors(F, input, count)
    steps = []
    for i in order(count, turn):
        one, scale = column(F, v, i), factor(F, tau, i, turn)
        row = F.matmul(adjoint(F, one), x)
        steps.append((i, one, scale, x, row))
        x = x - F.matmul(scale * one, row)
    g_columns: list[Any] = [None] * count
    g_taus: list[Any] = [None] * count
    for i, one, scale, before, row in reversed(steps):
        back = F.matmul(adjoint(F, one), grad)
        right = F.matmul(grad, adjoint(F, row))
        left = F.matmul(before, adjoint(F, back))
        g_columns[i] = -(F.conj(scale) * right + scale * left)
        g_tau = -F.matmul(back, adjoint(F, row))
        g_taus[i] = F.conj(g_tau) if turn else g_tau
        grad = F.sub(grad, F.matmul(F.conj(scale) * one, back))
    ndim = len(input.shape)
    if not count:
        return F.zeros_like(input), F.zeros_like(tau), grad
    # Only what lies below the diagonal was read.
    found = F.tril(F.cat(g_columns, ndim - 1), -1)
    rest = input.shape[-1] - count
    if rest:
        found = F.cat([found, F.zeros_like(F.narrow(input, ndim - 1, count, rest))], ndim - 1)
    g_tau = F.squeeze(F.cat(g_taus, ndim - 1), (ndim - 2,))
    return found, g_tau, grad


def reflections_tangent(
    F: Any, input: Any, t_input: Any, tau: Any, t_tau: Any, x: Any, t_x: Any, turn: bool
) -> Any:
    """How Q X moves with the columns, tau and X."""
    count = tau.shape[-1]
    v = vectors(F, input, count)
    t_v = None
    if t_input is not None:
        t_v = F.tril(F.narrow(t_input, len(t_input.shape) - 1, 0, count), -1)
    moved = F.zeros_like(x) if t_x is None else t_x
    for i in order(count, turn):
        one, scale = column(F, v, i), factor(F, tau, i, turn)
        row = F.matmul(adjoint(F, one), x)
        change = scale * F.matmul(one, F.matmul(adjoint(F, one), moved))
        if t_v is not None:
            t_one = column(F, t_v, i)
            inner = F.matmul(t_one, row) + F.matmul(one, F.matmul(adjoint(F, t_one), x))
            change = change + scale * inner
        if t_tau is not None:
            change = change + factor(F, t_tau, i, turn) * F.matmul(one, row)
        moved = moved - change
        x = x - scale * F.matmul(one, row)
    return moved


def identity(F: Any, input: Any) -> Any:
    """The first columns of an identity matrix, in the shape of `input`."""
    return F.triu(F.tril(F.ones_like(input), 0), 0)


# ---------------------------------------------------------------------- householder_product


@op
class LinalgHouseholderProduct(Block):
    """linalg_householder_product(input, tau) -> Tensor: the first columns of Q."""

    aten = "linalg_householder_product"
    public = False
    tensors = ("input", "tau")
    wirtinger = True
    leading = (2, 1)
    autocast = Autocast(cpu=SINGLE)

    def fwd(xp, input, tau):
        found = lapack.reflections(input, tau) if xp is host else None
        if found is not None:
            return found
        start = xp.eye(input.shape[-2], input.shape[-1], dtype=input.dtype)
        start = xp.array(xp.broadcast_to(start, input.shape))  # the result of no reflections
        return by_column(xp, reflected(xp, input, tau, start, False))

    def backward(F, grad, needs, input, tau):
        return reflections_slope(F, grad, input, tau, identity(F, input), False)[:2]

    def jvp(F, input, t_input, tau, t_tau):
        start = identity(F, input)
        return reflections_tangent(F, input, t_input, tau, t_tau, start, None, False)


def check_tau(function: str, input: Any, tau: Any) -> None:
    if tau.ndim != input.ndim - 1:
        raise RuntimeError(
            f"{function}: Expected tau to have one dimension less than input, but got tau.ndim "
            f"equal to {tau.ndim} and input.ndim is equal to {input.ndim}"
        )
    if tau.shape[:-1] != input.shape[:-2]:
        raise RuntimeError(
            f"{function}: Expected batch dimensions of tau to be equal to input.shape[:-2], but "
            f"got {list(tau.shape[:-1])}"
        )


def last_size(x: Any) -> int:
    if x.ndim == 0:
        raise IndexError("Dimension specified as -1 but tensor has no dimensions")
    size: int = x.shape[-1]
    return size


def multiplied(input: Any, tau: Any) -> Any:
    a, scales = input._array, tau._array
    function = "torch.linalg.householder_product"
    if a.ndim < 2:
        raise RuntimeError(f"{function}: input must have at least 2 dimensions.")
    if a.shape[-2] < a.shape[-1]:
        raise RuntimeError(
            f"{function}: input.shape[-2] must be greater than or equal to input.shape[-1]"
        )
    if a.shape[-1] < last_size(scales):
        raise RuntimeError(
            f"{function}: input.shape[-1] must be greater than or equal to tau.shape[-1]"
        )
    check_tau(function, a, scales)
    if scales.dtype != a.dtype:
        raise RuntimeError(
            f"{function}: tau dtype {scalar_type(scales)} does not match input dtype "
            f"{scalar_type(a)}"
        )
    check_kernel("orgqr_cpu", a)
    return apply(LinalgHouseholderProduct, (input, tau))


def columns(*shape: int) -> Draw:
    return Draw(*shape, low=-1.0, high=1.0)


def scales(*shape: int) -> Draw:
    """Small: PyTorch's gradient divides by 1 - tau |v|²."""
    return Draw(*shape, low=0.1, high=0.2)


REFLECTIONS = [
    Case(columns(3, 2), scales(2)),
    Case(columns(3, 3), scales(2)),
    Case(columns(2, 3, 2), scales(2, 2)),
    Case(columns(3, 2), scales(0)),
    Case(columns(0, 0), scales(0)),
]


OUT_PRODUCT = "torch.linalg.householder_product: " + OUT_SAFELY


@api(
    name="linalg.householder_product",
    samples=REFLECTIONS,
    autocast=Autocast(cpu=SINGLE),
    out_dtype=OUT_PRODUCT,
)
def linalg_householder_product(input: Any, tau: Any) -> Any:
    """linalg.householder_product(input, tau) -> Tensor: the first columns of H₁ H₂ … .

    >>> torch.linalg.householder_product(tensor([[0.0], [1.0]]), tensor([1.0]))
    tensor([[ 0.],
            [-1.]])
    """
    return multiplied(input, tau)


@api(
    samples=REFLECTIONS[:2],
    autocast=Autocast(cpu=SINGLE),
    out_dtype=OUT_PRODUCT,
)
def orgqr(input: Any, input2: Any) -> Any:
    """orgqr(input, input2) -> Tensor: the same as `linalg.householder_product`.

    >>> orgqr(tensor([[1.0, 0.0], [0.5, 1.0]]), tensor([1.6, 0.0]))
    tensor([[-0.6000, -0.8000],
            [-0.8000,  0.6000]])
    """
    return multiplied(input, input2)


# ---------------------------------------------------------------------- ormqr


@op
class Ormqr(Block):
    """ormqr(input, tau, other, left, transpose) -> Tensor: a matrix times the Q of a factorisation
    by `geqrf`."""

    aten = "ormqr"
    public = False
    tensors = ("input", "tau", "other")
    wirtinger = True
    leading = (2, 1, 2)
    autocast = Autocast(cpu=SINGLE)
    nearest = "torch.linalg.qr(..., mode='complete') and a product"

    def fwd(xp, input, tau, other, left, transpose):
        if left:
            return by_column(xp, reflected(xp, input, tau, other, transpose))
        # X Q is (Qᴴ Xᴴ)ᴴ.
        turned = xp.conj(other.swapaxes(-1, -2))
        out = reflected(xp, input, tau, turned, not transpose)
        return by_column(xp, xp.conj(out.swapaxes(-1, -2)))

    def backward(F, grad, needs, input, tau, other, left, transpose):
        if left:
            return reflections_slope(F, grad, input, tau, other, transpose)
        grad, other = adjoint(F, grad), adjoint(F, other)
        found = reflections_slope(F, grad, input, tau, other, not transpose)
        return found[0], found[1], adjoint(F, found[2])

    def jvp(F, input, t_input, tau, t_tau, other, t_other, left, transpose):
        if left:
            return reflections_tangent(F, input, t_input, tau, t_tau, other, t_other, transpose)
        t_turned = None if t_other is None else adjoint(F, t_other)
        turned = adjoint(F, other)
        return adjoint(
            F,
            reflections_tangent(F, input, t_input, tau, t_tau, turned, t_turned, not transpose),
        )


@api(
    samples=[
        Case(columns(3, 2), scales(2), Draw(3, 2)),
        Case(columns(3, 2), scales(2), Draw(2, 3), False),
        Case(columns(2, 3, 2), scales(2, 2), Draw(2, 3, 1), transpose=True),
        Case(columns(3, 2), scales(2), Draw(1, 3), False, True),
    ],
    autocast=Autocast(cpu=SINGLE),
)
def ormqr(input: Any, input2: Any, input3: Any, left: bool = True, transpose: bool = False) -> Any:
    """ormqr(input, input2, input3, left=True, transpose=False) -> Tensor: Q times a matrix.

    Q is the product of the reflections of `input` and `input2` (tau), as geqrf gives them.

    >>> ormqr(eye(2), zeros(2), ones(2, 1))
    tensor([[1.],
            [1.]])
    """
    a, tau, other = input._array, input2._array, input3._array
    if a.ndim < 2:
        raise RuntimeError("torch.ormqr: input must have at least 2 dimensions.")
    if other.ndim < 2:
        raise RuntimeError("torch.ormqr: other must have at least 2 dimensions.")
    side = -2 if left else -1
    if other.shape[side] != a.shape[-2]:
        raise RuntimeError(f"torch.ormqr: other.shape[{side}] must be equal to input.shape[-2]")
    if last_size(tau) != min(other.shape[side], a.shape[-1]):
        raise RuntimeError(
            f"torch.ormqr: tau.shape[-1] must be equal to min(other.shape[{side}], input.shape[-1])"
        )
    check_tau("torch.ormqr", a, tau)
    if other.ndim != a.ndim:
        raise RuntimeError(
            "torch.ormqr: Expected other to have the same number of dimensions as input, but got "
            f"other.ndim equal to {other.ndim} and input.ndim is equal to {a.ndim}"
        )
    if other.shape[:-2] != a.shape[:-2]:
        raise RuntimeError(
            "torch.ormqr: Expected batch dimensions of other to be equal to input.shape[:-2], but "
            f"got {list(other.shape[:-2])}"
        )
    for name, x in (("tau", tau), ("other", other)):
        if x.dtype != a.dtype:
            raise RuntimeError(
                f"torch.ormqr: Expected input and {name} to have the same dtype, but input has "
                f"dtype{scalar_type(a)} and {name} has dtype {scalar_type(x)}"
            )
    check_kernel("ormqr_cpu", a)
    return apply(Ormqr, (input, input2, input3), (left, transpose))


# ---------------------------------------------------------------------- geqrf


@op
class Geqrf(Block):
    """geqrf(input) -> (Tensor, Tensor): reflections below the diagonal, R above, and tau."""

    aten = "geqrf"
    public = False
    leading = (2,)
    outs = ("a", "tau")
    result = return_type("geqrf", ("a", "tau"))
    autocast = Autocast(cpu=SINGLE)
    nearest = "torch.linalg.qr"

    def fwd(xp, input):
        rows, columns = input.shape[-2:]
        if input.size == 0:
            return input.copy(), xp.zeros((*input.shape[:-2], min(rows, columns)), input.dtype)
        packed, tau = xp.linalg.qr(input, mode="raw")
        return by_column(xp, packed.swapaxes(-1, -2)), tau.astype(input.dtype, copy=False)

    def d_input(F, grad):
        raise NotImplementedError("the derivative for 'geqrf' is not implemented.")

    def jvp(F, t_input):
        raise NotImplementedError(
            "Trying to use forward AD with geqrf that does not support it because it has not been "
            "implemented yet."
        )


@api(
    samples=[Case(Draw(3, 2)), Case(Draw(2, 2, 3)), Case(Draw(0, 2))], autocast=Autocast(cpu=SINGLE)
)
def geqrf(input: Any) -> Any:
    """geqrf(input) -> (Tensor, Tensor): the QR decomposition as LAPACK packs it.

    >>> geqrf(tensor([[3.0], [4.0]])).tau
    tensor([1.6000])
    """
    array = input._array
    if array.ndim < 2:
        raise RuntimeError("torch.geqrf: input must have at least 2 dimensions.")
    refuse_meta("geqrf", input)
    check_kernel("geqrf_cpu", array)
    return apply(Geqrf, (input,))
