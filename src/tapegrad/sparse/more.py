"""Sparse tensors: softmax, diagonals, products by their old names, and types."""

from __future__ import annotations

from typing import Any

import tapegrad as tg

from .. import dtypes
from .coo import SparseTensor, sparse
from .functions import mm, sspaddmm


def checked(name: str, input: Any) -> Any:
    if not isinstance(input, SparseTensor):
        raise NotImplementedError(
            f"Could not run 'aten::{name}' with arguments from the 'CPU' backend."
        )
    return input.coalesce()


def softmax(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """softmax(input, dim, *, dtype=None) -> Tensor: over the elements that are there.

    The others count as -inf, and stay away.

    >>> x = tensor([[1.0, 0.0], [2.0, 2.0]]).to_sparse()
    >>> torch.sparse.softmax(x, 1).to_dense()
    tensor([[1.0000, 0.0000],
            [0.5000, 0.5000]])
    """
    return exponentials(checked("_sparse_softmax", input), dim, dtype, False)


def log_softmax(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """log_softmax(input, dim, *, dtype=None) -> Tensor: the logarithm of `softmax`.

    >>> x = sparse_coo_tensor([[0, 0], [0, 2]], [1.0, 1.0], (1, 3))
    >>> torch.sparse.log_softmax(x, dim=1).values()
    tensor([-0.6931, -0.6931])
    """
    return exponentials(checked("_sparse_log_softmax", input), dim, dtype, True)


def exponentials(input: Any, dim: int, dtype: Any, log: bool) -> Any:
    values = input.values() if dtype is None else input.values().to(dtype)
    dim = dim + input.dim() if dim < 0 else dim
    if dim >= input.sparse_dim():
        function = tg.log_softmax if log else tg.softmax
        return input._with(function(values, dim - input.sparse_dim() + 1))
    others = tg.cat([input._indices()[:dim], input._indices()[dim + 1 :]])
    _, group = tg.unique(others, dim=1, return_inverse=True)
    count = int(group.max()) + 1 if group.numel() else 0
    index = group.reshape(-1, *[1] * (values.dim() - 1)).expand_as(values)
    lowest = values.new_full((count, *values.shape[1:]), -float("inf"))
    top = lowest.scatter_reduce(0, index, values.detach(), "amax")
    shifted = values - top[group]
    powers = shifted.exp()
    sums = tg.zeros_like(lowest).index_add(0, group, powers)[group]
    return input._with(shifted - sums.log() if log else powers / sums)


def spdiags(diagonals: Any, offsets: Any, shape: Any, layout: Any = None) -> Any:
    """spdiags(diagonals, offsets, shape, layout=None) -> Tensor: rows put on diagonals.

    >>> torch.sparse.spdiags(tensor([[1, 2]]), tensor([0]), (2, 2)).to_dense()
    tensor([[1, 0],
            [0, 2]])
    """
    rows = diagonals if diagonals.dim() == 2 else diagonals.unsqueeze(0)
    starts = offsets.reshape(-1).tolist()
    if len(shape) != 2:
        raise RuntimeError("Output shape must be 2d")
    if len(set(starts)) < len(starts):
        raise RuntimeError("Offset tensor contains duplicate values")
    if len(starts) != rows.shape[0]:
        raise RuntimeError(
            f"Number of diagonals ({rows.shape[0]}) does not match the number of offsets "
            f"({len(starts)})"
        )
    places, entries = [], []
    for start, row in zip(starts, rows, strict=True):
        first = max(start, 0)
        last = min(shape[1], shape[0] + start, row.shape[0])
        columns = tg.arange(first, max(last, first))
        places.append(tg.stack([columns - start, columns]))
        entries.append(row[first : max(last, first)])
    made = tg.sparse_coo_tensor(tg.cat(places, 1), tg.cat(entries), tuple(shape)).coalesce()
    return made.to_sparse(layout=layout)


# ---------------------------------------------------------------------- products


def hspmm(mat1: Any, mat2: Any) -> Any:
    """hspmm(mat1, mat2) -> Tensor: the product as a tensor of dense rows.

    >>> torch.hspmm(eye(2).to_sparse(), ones(2, 1)).to_dense()
    tensor([[1.],
            [1.]])
    """
    found = mm(mat1, mat2)
    rows = mat1.coalesce()._indices()[0].unique()
    return sparse(rows.unsqueeze(0), found[rows], tuple(found.shape), True)


def spmm(input: Any, mat2: Any) -> Any:
    """Old: `mm`.

    >>> torch.spmm(eye(2).to_sparse(), ones(2, 1))
    tensor([[1.],
            [1.]])
    """
    return tg.mm(input, mat2)


dsmm, hsmm, saddmm = spmm, hspmm, sspaddmm


def resize_as_sparse_(input: Any, the_template: Any) -> Any:
    """resize_as_sparse_(input, the_template) -> Tensor: `input` with the shape of another.

    >>> x = sparse_coo_tensor([[0]], [1.0], (2,))
    >>> torch.resize_as_sparse_(x, sparse_coo_tensor(size=(5,))).shape
    torch.Size([5])
    """
    return input.resize_as_sparse_(the_template)


# ---------------------------------------------------------------------- types


class ByDtype(type):
    """Classes whose instances are the sparse tensors of one dtype."""

    dtype: dtypes.dtype

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, SparseTensor) and value.dtype is cls.dtype

    def __call__(cls, *given: Any) -> Any:
        """An empty tensor of some sizes, or one of indices, values and a shape."""
        if not given or isinstance(given[0], int):
            return tg.sparse_coo_tensor(size=given or (0,), dtype=cls.dtype)
        return tg.sparse_coo_tensor(*given, dtype=cls.dtype)


def tensor_class(dtype: dtypes.dtype) -> Any:
    name = f"{dtype.scalar_type}Tensor"
    said = f"Sparse tensors of {dtype}, for isinstance; called, it makes one."
    return ByDtype(name, (), {"dtype": dtype, "__module__": "torch.sparse", "__doc__": said})


BFloat16Tensor = tensor_class(dtypes.bfloat16)
ByteTensor = tensor_class(dtypes.uint8)
CharTensor = tensor_class(dtypes.int8)
DoubleTensor = tensor_class(dtypes.float64)
FloatTensor = tensor_class(dtypes.float32)
HalfTensor = tensor_class(dtypes.float16)
IntTensor = tensor_class(dtypes.int32)
LongTensor = tensor_class(dtypes.int64)
ShortTensor = tensor_class(dtypes.int16)
