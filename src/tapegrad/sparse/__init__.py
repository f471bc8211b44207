"""Functions of sparse tensors: products and sums that keep gradients sparse."""

from __future__ import annotations

from typing import Any

import tapegrad as tg

from . import functions
from .compressed import CompressedTensor, from_scipy, sampled_addmm, to_scipy
from .compressed import mm as compressed_mm
from .coo import SparseTensor
from .invariants import check_sparse_tensor_invariants
from .more import (
    BFloat16Tensor,
    ByteTensor,
    CharTensor,
    DoubleTensor,
    FloatTensor,
    HalfTensor,
    IntTensor,
    LongTensor,
    ShortTensor,
    log_softmax,
    softmax,
    spdiags,
)

__all__ = [
    "BFloat16Tensor",
    "ByteTensor",
    "CharTensor",
    "DoubleTensor",
    "FloatTensor",
    "HalfTensor",
    "IntTensor",
    "LongTensor",
    "ShortTensor",
    "addmm",
    "check_sparse_tensor_invariants",
    "from_scipy",
    "log_softmax",
    "mm",
    "sampled_addmm",
    "softmax",
    "spdiags",
    "sum",
    "to_scipy",
]


def mm(mat1: Any, mat2: Any) -> Any:
    """mm(mat1, mat2) -> Tensor: the matrix product, where either factor may be sparse.

    >>> torch.sparse.mm(eye(2).to_sparse(), ones(2, 1))
    tensor([[1.],
            [1.]])
    """
    if isinstance(mat1, CompressedTensor) or isinstance(mat2, CompressedTensor):
        return compressed_mm(mat1, mat2)
    if isinstance(mat1, SparseTensor) or isinstance(mat2, SparseTensor):
        return functions.mm(mat1, mat2, label="SparseAddmmBackward0")
    return tg.mm(mat1, mat2)


def sum(input: Any, dim: Any = None, dtype: Any = None) -> Any:
    """sum(input, dim=None, dtype=None) -> Tensor: the sum of all elements, or along `dim`.

    >>> x = sparse_coo_tensor([[0, 1, 1], [0, 0, 2]], [1.0, 2.0, 3.0], (2, 3))
    >>> torch.sparse.sum(x), torch.sparse.sum(x, dim=1).to_dense()
    (tensor(6.), tensor([1., 5.]))
    """
    if not isinstance(input, SparseTensor):
        input.coalesce()  # which refuses
    return functions.total(input, dim, dtype=dtype)


def addmm(mat: Any, mat1: Any, mat2: Any, *, beta: Any = 1.0, alpha: Any = 1.0) -> Any:
    """addmm(mat, mat1, mat2, *, beta=1, alpha=1) -> Tensor: beta * mat + alpha * (mat1 @ mat2).

    >>> torch.sparse.addmm(ones(2, 1), eye(2).to_sparse(), ones(2, 1))
    tensor([[2.],
            [2.]])
    """
    if isinstance(mat1, CompressedTensor):
        return tg.addmm(mat, mat1, mat2, beta=beta, alpha=alpha)
    return functions.weighted(mat, mat1, mat2, beta, alpha, "SparseAddmmBackward0")
