"""Sparse methods of dense tensors: their answers about layouts, and conversions to sparse ones.

The sparse tensors themselves live in sparse/, which is imported with the first of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...device import sparse_coo, sparse_csc, sparse_csr


def to_sparse(
    self: Any,
    sparse_dim: int | None = None,
    *,
    layout: Any = None,
    blocksize: Any = None,
    dense_dim: int | None = None,
) -> Any:
    """to_sparse(sparse_dim=None) -> Tensor: a sparse copy in coordinate form.

    >>> tensor([0.0, 5.0, 0.0]).to_sparse()
    tensor(indices=tensor([[1]]),
           values=tensor([5.]),
           size=(3,), nnz=1, layout=torch.sparse_coo)
    """
    if layout is sparse_csr or layout is sparse_csc:
        return to_sparse_csr(self) if layout is sparse_csr else to_sparse_csc(self)
    if (layout is not None and layout is not sparse_coo) or blocksize is not None:
        raise NotImplementedError(
            "tapegrad has the sparse layouts torch.sparse_coo, torch.sparse_csr and "
            "torch.sparse_csc"
        )
    if dense_dim is not None:
        sparse_dim = self.dim() - dense_dim
    from ...sparse import functions

    return functions.to_sparse(self, sparse_dim)


def to_sparse_coo(self: Any) -> Any:
    """to_sparse_coo() -> Tensor: a sparse copy in coordinate form.

    >>> tensor([0.0, 5.0, 0.0]).to_sparse_coo().indices()
    tensor([[1]])
    """
    return to_sparse(self)


def to_sparse_csr(self: Any, dense_dim: int | None = None) -> Any:
    """to_sparse_csr() -> Tensor: a sparse copy of a matrix, compressed by rows.

    >>> tensor([[0.0, 5.0], [6.0, 0.0]]).to_sparse_csr().col_indices()
    tensor([1, 0])
    """
    from ...sparse.compressed import to_compressed

    return to_compressed(self, True)


def to_sparse_csc(self: Any, dense_dim: int | None = None) -> Any:
    """to_sparse_csc() -> Tensor: a sparse copy of a matrix, compressed by columns.

    >>> tensor([[0.0, 5.0], [6.0, 0.0]]).to_sparse_csc().values()
    tensor([6., 5.])
    """
    from ...sparse.compressed import to_compressed

    return to_compressed(self, False)


def sparse_mask(self: Any, mask: Any) -> Any:
    """sparse_mask(mask) -> Tensor: the elements at the places of a sparse tensor.

    >>> full((2, 2), 3.0).sparse_mask(eye(2).to_sparse()).to_dense()
    tensor([[3., 0.],
            [0., 3.]])
    """
    from ...sparse import functions

    return functions.sparse_mask(self, mask)


def sparse_dim(self: Any) -> int:
    """sparse_dim() -> int: 0 for a dense tensor.

    >>> eye(2).to_sparse().sparse_dim()
    2
    """
    return 0


def dense_dim(self: Any) -> int:
    """dense_dim() -> int: all dimensions of a dense tensor.

    >>> sparse_coo_tensor([[0, 1]], ones(2, 4), (3, 4)).dense_dim()
    1
    """
    return int(self.dim())


def only_sparse(name: str, said: str, kind: str = "sparse coordinate tensor") -> Callable[..., Any]:
    def method(self: Any) -> Any:
        raise RuntimeError(f"{name} expected {kind} layout but got Strided")

    method.__name__, method.__doc__ = name, said
    return method


def no_kernel(name: str, said: str = "") -> Callable[..., Any]:
    def method(self: Any, *args: Any) -> Any:
        from ...sparse.history import could_not_run

        raise could_not_run(name, "CPU")

    method.__name__, method.__doc__ = name, said
    return method


def smm(self: Any, mat: Any) -> Any:
    """smm(mat) -> Tensor: the product of a sparse and a dense matrix, as a sparse one.

    >>> eye(2).to_sparse().smm(ones(2, 1)).to_dense()
    tensor([[1.],
            [1.]])
    """
    from ...sparse.functions import smm as product

    return product(self, mat)


def sspaddmm(self: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """sspaddmm(mat1, mat2) -> Tensor: a sparse matrix plus a product, as a sparse one.

    >>> eye(2).to_sparse().sspaddmm(eye(2).to_sparse(), ones(2, 2)).to_dense()
    tensor([[2., 1.],
            [1., 2.]])
    """
    from ...sparse.functions import sspaddmm as weighted

    return weighted(self, mat1, mat2, beta=beta, alpha=alpha)


ROWS, COLUMNS = [f"sparse {kind} compressed tensor" for kind in ("row", "column")]
METHODS = {
    "smm": smm,
    "sspaddmm": sspaddmm,
    "to_sparse": to_sparse,
    "to_sparse_coo": to_sparse_coo,
    "to_sparse_csc": to_sparse_csc,
    "to_sparse_csr": to_sparse_csr,
    "sparse_mask": sparse_mask,
    "sparse_dim": sparse_dim,
    "dense_dim": dense_dim,
    "coalesce": only_sparse("coalesce", "A sparse tensor with each place once, in order."),
    "is_coalesced": only_sparse("is_coalesced", "Whether each place occurs once, in order."),
    "indices": only_sparse("indices", "The places of a sparse tensor, one in each column."),
    "values": only_sparse("values", "The values at the places.", "sparse tensor"),
    "crow_indices": only_sparse("crow_indices", "Where the rows of CSR begin.", ROWS),
    "col_indices": only_sparse("col_indices", "The columns of the values of CSR.", ROWS),
    "ccol_indices": only_sparse("ccol_indices", "Where the columns of CSC begin.", COLUMNS),
    "row_indices": only_sparse("row_indices", "The rows of the values of CSC.", COLUMNS),
    "resize_as_sparse_": no_kernel("resize_as_sparse_", "Give it the shape of another."),
    "sparse_resize_": no_kernel("sparse_resize_", "Give a sparse tensor another shape."),
    "sparse_resize_and_clear_": no_kernel(
        "sparse_resize_and_clear_", "Give a sparse tensor another shape, and no elements."
    ),
    "_indices": no_kernel("_indices"),
    "_values": no_kernel("_values"),
    "_nnz": no_kernel("_nnz"),
}
