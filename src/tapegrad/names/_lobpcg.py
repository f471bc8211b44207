"""torch.lobpcg: some eigenpairs of a symmetric matrix, largest or smallest first.

PyTorch looks for them step by step, for matrices too large to be written down. Here they come from
`linalg.eigh`, exactly; so what steers the steps (`niter`, `tol`, `method` …) makes no difference.
"""

from __future__ import annotations

from typing import Any

import tapegrad as tg

# ruff: noqa: N803, N806


def lobpcg(
    A: Any,
    k: int | None = None,
    B: Any = None,
    X: Any = None,
    n: int | None = None,
    iK: Any = None,
    niter: int | None = None,
    tol: float | None = None,
    largest: bool | None = None,
    method: str | None = None,
    tracker: Any = None,
    ortho_iparams: dict[str, int] | None = None,
    ortho_fparams: dict[str, float] | None = None,
    ortho_bparams: dict[str, bool] | None = None,
) -> tuple[Any, Any]:
    """The `k` largest (or smallest) eigenvalues of A, or of A x = λ B x, and their vectors.

    >>> torch.lobpcg(torch.diag(torch.tensor([1.0, 2.0, 3.0])))[0]
    tensor([3.])
    """
    _ = A.requires_grad  # the error for what is no tensor is that of the missing attribute
    if isinstance(k, tg.Tensor):
        k = int(k)
    if A.ndim < 2:
        raise IndexError(f"lobpcg(): A must be a matrix, got shape {A.shape}")
    if A.shape[-2] != A.shape[-1]:
        raise AssertionError(f"A must be square, got shape {A.shape}")
    for name, each in (("B", B), ("X", X), ("iK", iK)):
        if each is not None and each.requires_grad in (True, False):
            if each.shape[-2:-1] != A.shape[-1:]:
                raise RuntimeError(f"lobpcg(): {name} has shape {each.shape}, A has {A.shape}")
    k = (1 if X is None else X.shape[-1]) if k is None else k
    size = A.shape[-1]
    if size < 3 * k:
        raise ValueError(
            f"LOBPCG algorithm is not applicable when the number of A rows (={size}) is smaller "
            f"than 3 x the number of requested eigenpairs (={k})"
        )
    A, B = as_matrix(A), as_matrix(B)
    A = (A + A.mH) / 2  # eigh reads one triangle; the gradient of what is found is symmetric
    if B is None:
        values, vectors = tg.linalg.eigh(A)
    else:
        L = tg.linalg.cholesky(B)
        half = tg.linalg.solve_triangular(L, A, upper=False)
        values, vectors = tg.linalg.eigh(tg.linalg.solve_triangular(L, half.mT, upper=False))
        vectors = tg.linalg.solve_triangular(L.mT, vectors, upper=True)
    if largest is None or largest:
        values, vectors = values.flip(-1), vectors.flip(-1)
    return values[..., :k], vectors[..., :k].contiguous()


def as_matrix(matrix: Any) -> Any:
    return matrix.to_dense() if matrix is not None and matrix.is_sparse else matrix
