"""Pseudo-inverses, and equations that are solved as well as they can be."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.array_kind import refuse_meta
from ...core.base import TensorBase
from ...core.named_results import return_type
from ...core.node import unbroadcast
from ..block import SINGLE, Autocast, Block, Case, api, apply, op
from ..block.batching import lift, padded
from ..block.checks import OUT_SAFELY, invalid_call
from ..block.samples import Draw
from .matrices import adjoint, check_square, common_batch, is_half, scalar_type
from .norms import default_tolerance, real_tolerance, tolerances
from .spectral import LinalgEigh, LinalgSvd, as_row, product

# ruff: noqa: N803, N805, N806

LstsqResult = return_type("linalg_lstsq", ("solution", "residuals", "rank", "singular_values"))


# ---------------------------------------------------------------------- pseudo-inverses


@op
class LinalgPinv(Block):
    """linalg_pinv(input, atol, rtol, hermitian) -> Tensor: the Moore-Penrose pseudo-inverse of
    each matrix."""

    aten = "linalg_pinv.atol_rtol_tensor"
    public = False
    tensors = ("input", "atol", "rtol")
    plain_tensors = ("atol", "rtol")
    numbers = True
    wirtinger = True

    def fwd(xp, input, atol, rtol, hermitian):
        if input.size == 0:
            return xp.zeros((*input.shape[:-2], *input.shape[:-3:-1]), input.dtype)
        if hermitian:
            values, V = LinalgEigh.forward(xp, input, "L", True)
            U, sizes = V, xp.absolute(values)
        else:
            U, values, Vh = LinalgSvd.forward(xp, input, False, True)
            V, sizes = xp.conj(Vh.swapaxes(-1, -2)), values
        limit = xp.asarray(rtol)[..., None] * sizes.max(-1, keepdims=True)
        kept = sizes > xp.maximum(xp.asarray(atol)[..., None], limit)
        inverted = xp.where(kept, 1 / xp.where(kept, values, 1), 0).astype(values.dtype)
        return xp.matmul(V * inverted[..., None, :], xp.conj(U.swapaxes(-1, -2)))

    def d_input(F, grad, input, out):
        found = pinv_gradient(F, grad, out, input)
        return unbroadcast(F, found, tuple(input.shape))

    def jvp(F, input, t_input, out):
        return pinv_tangent(F, t_input, out, input)

    def batch(F, size, batched, input, atol, rtol, hermitian):
        whole = [
            lift(F, x, size, own) if hasattr(x, "shape") else x
            for x, own in zip((input, atol, rtol), batched, strict=True)
        ]
        cores = (2, 0, 0)
        extra = max(
            len(x.shape) - c for x, c in zip(whole, cores, strict=True) if hasattr(x, "shape")
        )
        placed = [
            padded(F, x, 1, extra + c) if hasattr(x, "shape") else x
            for x, c in zip(whole, cores, strict=True)
        ]
        return F.linalg_pinv(*placed, hermitian)


def pinv_gradient(F: Any, grad: Any, inverse: Any, A: Any) -> Any:
    """Back through a pseudo-inverse of constant rank; the small side is multiplied first."""
    gh, ih = adjoint(F, grad), adjoint(F, inverse)
    if A.shape[-2] <= A.shape[-1]:
        inner = product(F, gh, inverse)
        right = product(F, inner, ih)
        return (
            right
            - product(F, product(F, A, inverse), right)
            + product(F, product(F, ih, inverse), gh - product(F, inner, A))
            - adjoint(F, product(F, inverse, inner))
        )
    inner = product(F, inverse, gh)
    left = product(F, ih, inner)
    return (
        left
        - product(F, product(F, left, inverse), A)
        + product(F, gh - product(F, A, inner), product(F, inverse, ih))
        - adjoint(F, product(F, inner, inverse))
    )


def pinv_tangent(F: Any, t: Any, inverse: Any, A: Any) -> Any:
    th, ih = adjoint(F, t), adjoint(F, inverse)
    rows = product(F, th, product(F, ih, inverse))
    columns = product(F, product(F, inverse, ih), th)
    return (
        rows
        - product(F, inverse, product(F, A, rows))
        + columns
        - product(F, product(F, columns, A), inverse)
        - product(F, inverse, product(F, t, inverse))
    )


PINV_CASES = [
    Case(Draw(3, 3)),
    Case(Draw(2, 4, 2)),
    Case(Draw(2, 4, layout="T"), rtol=1e-3),
    Case(Draw(2, 1, 3), atol=0.001),
    Case(Draw(0, 2)),
]


@api(name="linalg.pinv", samples=PINV_CASES, out_dtype="{torch_name}: " + OUT_SAFELY)
def pinv(
    input: Any,
    rcond: Any = None,
    hermitian: bool = False,
    *,
    atol: Any = None,
    rtol: Any = None,
) -> Any:
    """linalg.pinv(input, *, atol=None, rtol=None, hermitian=False) -> Tensor: the Moore-Penrose
    pseudo-inverse of each matrix.

    Singular values below `atol`, or below `rtol` times the largest, count as zero.

    >>> torch.linalg.pinv(tensor([[2.0, 0.0], [0.0, 0.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.0000]])
    """
    if not isinstance(input, TensorBase):
        raise invalid_call("linalg_pinv", input)
    array = input._array
    if array.dtype.kind not in "fc" or is_half(array) or array.ndim < 2:
        raise RuntimeError(
            f"linalg.pinv({scalar_type(array)}{{{list(array.shape)}}}): expected a tensor with "
            "2 or more dimensions of float, double, cfloat or cdouble types"
        )
    if rcond is not None:
        if atol is not None or rtol is not None:
            raise invalid_call("linalg_pinv", input, rcond, atol, rtol)
        atol, rtol = 0.0, real_tolerance("linalg.pinv", "rcond", rcond)
    else:
        atol, rtol = tolerances("linalg.pinv", input, atol, rtol)
    if hermitian:
        check_square("linalg.eigh", array)
    for name, value in (("atol", atol), ("rtol", rtol)):
        if isinstance(value, TensorBase) and value.requires_grad:
            raise RuntimeError(
                f"The function 'linalg_pinv' is not differentiable with respect to argument "
                f"'{name}'. This input cannot have requires_grad True."
            )
    return apply(LinalgPinv, (input, atol, rtol), (bool(hermitian),))


@api(samples=[Case(Draw(3, 2)), Case(Draw(2, 2, 3), 1e-3)], autocast=Autocast(cpu=SINGLE))
def pinverse(input: Any, rcond: Any = 1e-15) -> Any:
    """pinverse(input, rcond=1e-15) -> Tensor: the old spelling of `linalg.pinv`.

    >>> pinverse(tensor([[2.0], [0.0]]))
    tensor([[0.5000, 0.0000]])
    """
    return pinv(input, rcond)


# ---------------------------------------------------------------------- least squares


DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


@op
class LinalgLstsq(Block):
    """linalg.lstsq(input, b, rcond=None, *, driver=None) -> four tensors: the X that minimizes the
    length of input @ X - b.

    The X that makes A X - B smallest, what is left of it (squared, per column), the ranks of A and,
    with the drivers "gelsd" and "gelss", its singular values.

    >>> torch.linalg.lstsq(tensor([[2.0], [0.0]]), tensor([[4.0], [1.0]])).solution
    tensor([[2.]])
    """

    name = "linalg.lstsq"
    tensors = ("input", "b")
    outs = ("solution", "residuals", "rank", "singular_values")
    plain_outs = (2, 3)
    positions = (2,)
    result = LstsqResult
    wirtinger = True
    partial = True
    autocast = Autocast(cpu=SINGLE)
    samples = (
        Case(Draw(3, 3), Draw(3, 2)),
        Case(Draw(2, 4, 1), Draw(2, 4, 1), driver="gelsd"),
        Case(Draw(1, 2, 3), Draw(2, 2, 2)),
        Case(Draw(4, 2), Draw(4), driver="gels"),
    )

    def fwd(xp, input, b, rcond, driver):
        rows, count = input.shape[-2:]
        target = b if b.ndim == input.ndim else b[..., None]
        U, S, Vh = LinalgSvd.forward(xp, input, False, True)
        limit = (0.0 if driver == "gels" else rcond) * xp.maximum.reduce(
            S, -1, keepdims=True, initial=0
        )
        kept = limit < S
        ranks = kept.sum(-1)
        scale = (xp.where(kept, 1 / xp.where(kept, S, 1), 0)).astype(S.dtype)
        inner = scale[..., None] * xp.matmul(xp.conj(U.swapaxes(-1, -2)), target)
        X = xp.matmul(xp.conj(Vh.swapaxes(-1, -2)), inner)
        none = xp.empty((0,), S.dtype)
        residuals = none
        full = driver == "gels" or (ranks == count).all()
        if rows > count and driver != "gelsy" and full:
            left = xp.absolute(xp.matmul(input, X) - target)
            residuals = (left * left).sum(-2)
        # LAPACK leaves the solution in the memory of B, where that is larger.
        memory = xp.empty((*X.shape[:-2], X.shape[-1], max(rows, count)), X.dtype)
        memory[..., :count] = X.swapaxes(-1, -2)
        X = memory[..., :count].swapaxes(-1, -2)
        if target is not b:
            X = X[..., 0]
        ranks = xp.empty((0,), np.int64) if driver == "gels" else xp.asarray(ranks)
        return X, residuals, ranks, S if driver in ("gelsd", "gelss") else none.copy()

    def batch(F, size, batched, input, b, rcond, driver):
        whole = [lift(F, x, size, own) for x, own in zip((input, b), batched, strict=True)]
        parts = F.linalg_lstsq(*whole, rcond, driver)
        return tuple(
            [x if x.shape and x.shape[0] == size else F.expand(x, (size, 0)) for x in parts]
        )

    def d_input(F, grad, input, b, solution):
        found = None
        g_X, g_left = grad[0], grad[1]
        B, X, g_X = with_columns(F, input, b, solution, g_X)
        if g_X is not None:
            inverse = F.linalg_pinv(input, 0.0, tolerance_in_rules(input), False)
            found = pinv_gradient(F, product(F, g_X, adjoint(F, B)), inverse, input)
        if matters(g_left):
            left = (product(F, input, X) - B) * as_row(F, g_left) * 2
            part = product(F, left, adjoint(F, X))
            found = part if found is None else found + part
        if found is None:
            return F.zeros_like(input)
        return unbroadcast(F, found, tuple(input.shape))

    def d_b(F, grad, input, b, solution):
        found = None
        g_X, g_left = grad[0], grad[1]
        B, X, g_X = with_columns(F, input, b, solution, g_X)
        if g_X is not None:
            inverse = F.linalg_pinv(input, 0.0, tolerance_in_rules(input), False)
            found = product(F, adjoint(F, inverse), g_X)
        if matters(g_left):
            part = (B - product(F, input, X)) * as_row(F, g_left) * 2
            found = part if found is None else found + part
        if found is None:
            return F.zeros_like(b)
        found = unbroadcast(F, found, tuple(B.shape))
        return found if B is b else F.squeeze(found, (len(b.shape),))

    def jvp(F, input, t_input, b, t_b, solution, residuals, rank, singular_values):
        B, X, t_B = with_columns(F, input, b, solution, t_b)
        inverse = F.linalg_pinv(input, 0.0, tolerance_in_rules(input), False)
        t_X = None if t_B is None else product(F, inverse, t_B)
        change = None if t_B is None else -t_B
        if t_input is not None:
            part = product(F, pinv_tangent(F, t_input, inverse, input), B)
            t_X = part if t_X is None else t_X + part
            part = product(F, t_input, X)
            change = part if change is None else change + part
        if residuals.shape == (0,):
            t_left = F.zeros_like(residuals)
        else:
            left = F.conj(product(F, input, X) - B)
            row = len(left.shape) - 2
            t_left = F.sum(F.real_part(left * change), (row,), False, None) * 2
        if B is not b:
            t_X = F.squeeze(t_X, (len(b.shape),))
        return t_X, t_left, None, None

    def call(input, b, rcond=None, *, driver=None):
        function = "torch.linalg.lstsq"
        x, y = input._array, b._array
        if x.ndim < 2:
            raise RuntimeError(f"{function}: input must have at least 2 dimensions.")
        if y.ndim < 1:
            raise RuntimeError(f"{function}: other must have at least 1 dimension.")
        if x.dtype != y.dtype:
            raise RuntimeError(
                f"{function}: Expected input and other to have the same dtype, but got input's "
                f"dtype {scalar_type(x)} and other's dtype {scalar_type(y)}"
            )
        if x.ndim - y.ndim not in (0, 1):
            raise RuntimeError(
                f"{function}: input.dim() must be greater or equal to other.dim() and "
                "(input.dim() - other.dim()) <= 1"
            )
        for name, value, kind in (("rcond", rcond, (int, float)), ("driver", driver, str)):
            if value is not None and not isinstance(value, kind):
                wanted = "float" if name == "rcond" else "str"
                raise TypeError(
                    f"linalg_lstsq(): argument '{name}' must be {wanted}, not "
                    f"{type(value).__name__}"
                )
        vector = y.shape == x.shape[:-1]
        if x.shape[-2] != y.shape[-1 if vector or y.ndim < x.ndim else -2]:
            rows = -1 if vector or y.ndim == 1 else -2
            raise RuntimeError(f"{function}: input.size(-2) should match other.size({rows})")
        common_batch(y if y.ndim == x.ndim else y[..., None], x)
        if driver is None:
            driver = "gelsy"
        if driver not in DRIVERS:
            raise RuntimeError(
                f"{function}: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)"
            )
        refuse_meta("linalg_lstsq.out", input)
        own = default_tolerance(x)
        limit = own if rcond is None or rcond < 0 else float(rcond)
        if driver == "gelsd" and not 0 < limit < 1:  # LAPACK takes its own precision then
            limit = float(np.finfo(x.dtype).eps)
        return apply(LinalgLstsq, (input, b), (limit, driver))


def with_columns(F: Any, A: Any, B: Any, X: Any, g: Any) -> tuple[Any, Any, Any]:
    """B, X and a gradient or tangent as matrices, also where they were vectors."""
    if len(B.shape) == len(A.shape):
        return B, X, g
    place = len(B.shape)
    return (
        F.unsqueeze(B, place),
        F.unsqueeze(X, len(X.shape)),
        None if g is None else F.unsqueeze(g, len(g.shape)),
    )


def tolerance_in_rules(A: Any) -> float:
    return default_tolerance(getattr(A, "_array", A))


def matters(grad: Any) -> bool:
    """Whether there are residuals, and a gradient of them."""
    return grad is not None and tuple(grad.shape) != (0,)
