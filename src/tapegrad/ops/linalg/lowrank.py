"""The largest singular values and their vectors, approximately: by looking at a random subspace."""

from __future__ import annotations

from typing import Any

from ...dtypes import FLOATING, float32
from ..block import APIS, Case, api
from ..block.samples import Draw
from . import spectral as linalg_spectral

# ruff: noqa: N803, N806


def product_without(A: Any, mean: Any, X: Any) -> Any:
    """(A - mean) X"""
    found = A.matmul(X)
    return found if mean is None else found - mean.matmul(X)


def basis_of_range(A: Any, q: int, niter: int, M: Any) -> Any:
    """Orthonormal columns that span nearly all of what A (without M) makes of vectors."""
    dtype = float32 if A.dtype.category < FLOATING else A.dtype
    start = APIS["randn"].call(A._array.shape[-1], q, dtype=dtype, device=A.device)
    Q = linalg_spectral.qr_of(product_without(A, M, start), "reduced")[0]
    for _ in range(niter):
        back = product_without(A.mH, None if M is None else M.mH, Q)
        Q = linalg_spectral.qr_of(back, "reduced")[0]
        Q = linalg_spectral.qr_of(product_without(A, M, Q), "reduced")[0]
    return Q


@api(method=False, samples=[Case(Draw(4, 3), 2), Case(Draw(2, 3, 4), 2, 1)], python=True)
def svd_lowrank(A: Any, q: int | None = 6, niter: int | None = 2, M: Any = None) -> Any:
    """svd_lowrank(A, q=6, niter=2, M=None) -> (Tensor, Tensor, Tensor): about U, S and V of A - M.

    >>> U, S, V = svd_lowrank(tensor([[3.0, 0.0], [0.0, 0.0], [4.0, 0.0]]), 1)
    >>> S
    tensor([5.])
    """
    q = 6 if q is None else q
    niter = 2 if niter is None else niter
    rows, columns = A.shape[-2:]
    if M is not None:
        M = M.expand(*A.shape)
    turned = rows < columns
    if turned:
        A = A.mH
        M = None if M is None else M.mH
    Q = basis_of_range(A, q, niter, M)
    small = Q.mH.matmul(A)
    if M is not None:
        small = small - Q.mH.matmul(M)
    U, S, Vh = linalg_spectral.svd_of(small, False, True)
    V = Vh.mH
    U = Q.matmul(U)
    return (V, S, U) if turned else (U, S, V)


@api(method=False, samples=[Case(Draw(4, 3), 2), Case(Draw(2, 3, 4), 2, False)], python=True)
def pca_lowrank(A: Any, q: int | None = None, center: bool = True, niter: int = 2) -> Any:
    """pca_lowrank(A, q=None, center=True, niter=2) -> (Tensor, Tensor, Tensor): the main components
    of a matrix, approximately.

    The columns of the last one are the directions in which the rows of A vary most.

    >>> U, S, V = pca_lowrank(tensor([[1.0, 2.0], [3.0, 2.0]]), 1)
    >>> V.abs()
    tensor([[1.],
            [0.]])
    """
    rows, columns = A.shape[-2:]
    if q is None:
        q = min(6, rows, columns)
    elif not (q >= 0 and q <= min(rows, columns)):
        raise ValueError(
            f"q(={q}) must be non-negative integer and not greater than min(m, n)="
            f"{min(rows, columns)}"
        )
    if not niter >= 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    if center:
        A = A - A.mean(dim=(-2,), keepdim=True)
    return svd_lowrank(A, q, niter)
