"""Functions of sparse tensors; dispatch finds them in `FUNCTIONS`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import tapegrad as tg

from .. import dtypes
from ..api.tensor.tensor import Tensor
from ..core.arguments import wrap_dim
from ..core.array_kind import refuse_meta
from ..core.base import wrap
from ..core.op import Op
from ..ops.block.checks import only_tensors
from ..ops.block.definition import APIS
from ..ops.copying.part_copies import NarrowCopy
from ..ops.index.along_dim import IndexSelect
from ..ops.pointwise.arithmetic import Add, AddAlpha, Div, FloorDivide, Mul, Neg, Sub, SubAlpha
from ..ops.pointwise.power import Pow, PowScalar
from ..ops.pointwise.rounding_sign import Conj
from ..ops.products.addmm import Addmm
from ..ops.products.matmul import Mm, Mv
from ..ops.reduce.extrema import Any_
from ..ops.reduce.sums import Sum, SumAll
from ..ops.reduce.vector_norm import LinalgVectorNorm
from ..ops.shape.copying import Clone
from ..ops.shape.dim_order import Permute, T, Transpose
from ..ops.shape.dim_views import Unsqueeze
from ..ops.shape.joining import Cat, Stack
from ..ops.shape.part_views import Select, Unbind
from . import selecting
from .coo import (
    OverEntries,
    SparseTensor,
    add_up,
    check_places,
    close_class,
    flat_places,
    sparse,
    unflat,
)
from .history import could_not_run, named, without_history
from .invariants import Switch

INVARIANTS = (
    "Sparse invariant checks are implicitly disabled. Memory errors (e.g. SEGFAULT) will occur "
    "when operating on a sparse tensor which violates the invariants, but checks incur "
    "performance overhead. To silence this warning, explicitly opt in or out. See "
    "`torch.sparse.check_sparse_tensor_invariants.__doc__` for guidance. "
)


# ---------------------------------------------------------------------- making


def sparse_coo_tensor(
    indices: Any = None,
    values: Any = None,
    size: Any = None,
    *,
    dtype: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> SparseTensor:
    """A sparse tensor with `values` at `indices` (one column each), zero elsewhere.

    >>> tensor = sparse_coo_tensor([[0, 1], [1, 0]], [2.0, 3.0], (2, 2), check_invariants=False)
    >>> tensor.to_dense()
    tensor([[0., 2.],
            [3., 0.]])
    """
    if values is None:
        size, indices = (indices if size is None else size), None
        if size is None:
            raise TypeError(
                "sparse_coo_tensor() received an invalid combination of arguments - got (), but "
                "expected one of:"
            )
        shape = tuple(int(n) for n in size)
        indices = tg.zeros(len(shape), 0, dtype=tg.int64)
        values = tg.zeros(0, dtype=dtype, device=device)
    elif check_invariants is None and Switch.on is not None:
        check_invariants = Switch.on
    elif check_invariants is None:
        from ..core.warned import warn_once

        warn_once(INVARIANTS)
    entries = tg.as_tensor(values, dtype=dtype, device=device)
    places = tg.as_tensor(indices, device=device).detach().to(tg.int64)
    if entries.dim() == 0:
        entries = entries.reshape(1)
    if places.dim() != 2:
        raise RuntimeError(f"indices must be sparse_dim x nnz, but got: {list(places.shape)}")
    if size is None:
        shape = inferred_shape(places._array, tuple(entries.shape[1:]))
    else:
        shape = tuple(int(n) for n in size)
    if any(n < 0 for n in shape):
        raise RuntimeError("numel: integer multiplication overflow")
    check_parts(places, entries, shape)
    if check_invariants:
        check_places(places._array, shape)
    if requires_grad:
        if not (entries.is_floating_point() or entries.is_complex()):
            raise RuntimeError(
                "Only Tensors of floating point and complex dtype can require gradients"
            )
        entries = entries.detach().requires_grad_()
    elif entries.requires_grad:
        entries = named(entries, "SparseCooTensorWithDimsAndTensorsBackward0")
    else:
        entries = without_history(entries)
    made = sparse(places, entries, shape, bool(is_coalesced))
    if is_coalesced and check_invariants and (np.diff(flat_places(made)) <= 0).any():
        raise RuntimeError(
            "cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor"
        )
    return made


def inferred_shape(places: Any, dense: tuple[int, ...]) -> tuple[int, ...]:
    """The smallest shape that holds all indices."""
    if not places.shape[1]:
        return (*[0] * len(places), *dense)
    for dim, least in enumerate(places.min(1).tolist()):
        if least < 0:
            raise RuntimeError(f"found negative index {least} for dim {dim}")
    longest: list[int] = places.max(1).tolist()
    return (*[n + 1 for n in longest], *dense)


def check_parts(places: Any, entries: Any, shape: tuple[int, ...]) -> None:
    sparse_dim, nnz = places.shape
    dense = tuple(entries.shape[1:])
    if len(shape) != sparse_dim + len(dense):
        raise RuntimeError(
            "'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = "
            f"{len(shape)}, sparse_dim = {sparse_dim}, dense_dim = {len(dense)}"
        )
    if nnz != entries.shape[0]:
        raise RuntimeError(
            f"indices and values must have same nnz, but got nnz from indices: {nnz}, nnz from "
            f"values: {entries.shape[0]}"
        )
    if dense != shape[sparse_dim:]:
        raise RuntimeError(
            f"values has incorrect size, expected {[nnz, *shape[sparse_dim:]]}, got "
            f"{list(entries.shape)}"
        )


def to_sparse(dense: Any, sparse_dim: int | None = None) -> SparseTensor:
    """The elements of a dense tensor that are not zero."""
    refuse_meta("_to_sparse", dense)
    shape = tuple(dense.shape)
    count = len(shape) if sparse_dim is None else sparse_dim
    if not 0 <= count <= len(shape):
        raise RuntimeError(
            f"dense_to_sparse: sparse_dim argument must be in [0,{len(shape)}] range, but {count} "
            "is given"
        )
    size = math.prod(shape[:count])
    rows = dense.detach().reshape(size, *shape[count:]) != 0
    some = rows._array.any(tuple(range(1, rows.dim())))  # of the elements of an entry
    flat = np.flatnonzero(some)
    entries = dense.reshape(size, *shape[count:])[wrap(flat)]
    label = "ToSparseBackward1" if sparse_dim is None else "ToSparseBackward0"
    return sparse(wrap(unflat(flat, shape[:count])), named(entries, label), shape, True)


def sparse_mask(dense: Any, mask: Any) -> OverEntries:
    """The elements of a dense tensor at the places of a sparse one."""
    if not isinstance(mask, OverEntries):
        raise could_not_run("sparse_mask", "CPU")
    if tuple(dense.shape) != mask._shape:
        raise RuntimeError(
            "sparse_mask(): operands have incompatible sizes; self has size "
            f"{list(dense.shape)} but mask has size {list(mask._shape)}"
        )
    found: OverEntries = mask._with(named(elements_at(dense, mask), "SparseMaskBackward0"))
    return found


def elements_at(dense: Any, mask: Any) -> Any:
    flat = wrap(mask._flat())
    return dense.reshape(-1, *mask._shape[mask.sparse_dim() :])[flat]


# ---------------------------------------------------------------------- arithmetic


def add(a: Any, b: Any, *, alpha: Any = 1) -> Any:
    return plus(a, b, alpha, "AddBackward0")


def sub(a: Any, b: Any, *, alpha: Any = 1) -> Any:
    return plus(a, b, -alpha, "SubBackward0")


def plus(a: Any, b: Any, factor: Any, label: str) -> Any:
    if isinstance(a, SparseTensor) and isinstance(b, SparseTensor):
        return merged(a, b if factor == 1 else b._with(b._entries * factor), label)
    if isinstance(a, SparseTensor):
        raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
    check_dense_shape(a, b)
    if label == "SubBackward0":
        return tg.sub(a, b.to_dense(), alpha=-factor)
    return tg.add(a, b.to_dense(), alpha=factor)


def check_dense_shape(a: Any, b: SparseTensor) -> None:
    """Refuse the sum of a dense and a sparse tensor of two shapes."""
    shape = list(a.shape) if isinstance(a, Tensor) else []
    if shape != list(b._shape):
        raise RuntimeError(
            f"add: expected 'self' and 'other' to have same size, but self has size {shape} while "
            f"other has size {list(b._shape)} (FYI: dense-sparse addition does not currently "
            "support broadcasting)"
        )


def merged(a: SparseTensor, b: SparseTensor, label: str) -> SparseTensor:
    if a._shape != b._shape:
        raise RuntimeError(
            f"add: expected sizes of 'self' and 'other' to match, but {list(a._shape)} != "
            f"{list(b._shape)}"
        )
    if a.sparse_dim() != b.sparse_dim():
        raise RuntimeError(
            "add: expected 'self' and 'other' to have same density, but 'self' has "
            f"{a.sparse_dim()} sparse dimensions while 'other' has {b.sparse_dim()} sparse "
            "dimensions"
        )
    if not b._nnz() or not a._nnz():
        found = a if not b._nnz() else b
        # Both: the one without values may require grad too, or have a wider dtype.
        return found._with(named(tg.cat([a._entries, b._entries]), label))
    if not (a._entries.is_contiguous() and b._entries.is_contiguous()):
        return joined(a, b, label)
    x, y = flat_places(a), flat_places(b)
    coalesced = a._coalesced and b._coalesced
    if coalesced:
        flat, group = np.unique(np.concatenate([x, y]), return_inverse=True)
    else:
        flat, group = zipped(x.tolist(), y.tolist())
    entries = add_up(tg.cat([a._entries, b._entries]), group.reshape(-1), len(flat))
    # PyTorch has room for all of both.
    memory = np.empty((a.sparse_dim(), len(x) + len(y)), np.int64)
    memory[:, : len(flat)] = unflat(flat, a._shape[: a.sparse_dim()])
    places = wrap(memory[:, : len(flat)])
    return sparse(places, named(entries, label), a._shape, coalesced)


def joined(a: SparseTensor, b: SparseTensor, label: str) -> SparseTensor:
    """All entries of both, as PyTorch has it where values are no plain memory."""
    places = tg.cat([a._places, b._places], 1)
    entries = tg.cat([a._entries, b._entries])
    whole = sparse(places, entries, a._shape, False)
    if whole._nnz() > whole.numel():  # or it would grow with every sum
        whole = whole.coalesce()
    return sparse(whole._places, named(whole._entries, label), a._shape, False)


def zipped(x: list[int], y: list[int]) -> tuple[Any, Any]:
    """PyTorch's merge of two lists that need not be sorted, and where each element went."""
    flat: list[int] = []
    first, second = [], []
    i = j = 0
    while i < len(x) or j < len(y):
        take_x = j == len(y) or (i < len(x) and x[i] <= y[j])
        take_y = i == len(x) or (j < len(y) and y[j] <= x[i])
        flat.append(x[i] if take_x else y[j])
        if take_x:
            first.append(len(flat) - 1)
            i += 1
        if take_y:
            second.append(len(flat) - 1)
            j += 1
    return np.array(flat, np.int64), np.array(first + second, np.int64)


def mul(a: Any, b: Any) -> Any:
    if isinstance(a, SparseTensor) and isinstance(b, SparseTensor):
        return selecting.product(a, b)
    if not isinstance(a, SparseTensor):
        a, b = b, a
    if isinstance(b, Tensor) and b.dim():
        b = elements_at(b.expand(a._shape), a)
    return a._with(a._entries * b)


def div(a: Any, b: Any, *, rounding_mode: Any = None) -> Any:
    if isinstance(b, SparseTensor) or (isinstance(b, Tensor) and b.dim()):
        if not isinstance(a, SparseTensor):
            raise could_not_run("reciprocal")
        raise RuntimeError(
            "Sparse division requires a scalar or zero-dim dense tensor divisor (got shape "
            f"{list(b.shape)} for divisor)"
        )
    if rounding_mode is not None:
        raise could_not_run("div.Tensor_mode")
    return a._with(a._entries / b)


def neg(a: SparseTensor) -> SparseTensor:
    return a._with(-a._entries)


def pointwise(name: str) -> Callable[..., Any]:
    """A function that keeps zeros, of the coalesced values: f(x + y) is not f(x) + f(y)."""

    def function(a: SparseTensor, *args: Any, **kwargs: Any) -> SparseTensor:
        whole = a.coalesce()
        return whole._with(getattr(whole._entries, name)(*args, **kwargs))

    return function


def power(a: Any, exponent: Any) -> SparseTensor:
    if not isinstance(exponent, (int, float)):
        raise could_not_run("pow.Tensor_Tensor")
    if exponent == 0:
        raise RuntimeError(
            "pow: cannot raise to zeroth power on sparse tensor; it would make the result tensor "
            "dense"
        )
    whole = a.coalesce()
    made = whole._entries**exponent
    if made.dtype != a.dtype:
        raise RuntimeError(
            f"result type {made.dtype.scalar_type} can't be cast to the desired output type "
            f"{a.dtype.scalar_type}"
        )
    return whole._with(made)


def square(a: Any) -> SparseTensor:
    return power(a, 2)


def floor_divide(a: Any, b: Any) -> SparseTensor:
    whole = a.coalesce()
    return whole._with(whole._entries.detach() // b)


def conj(a: SparseTensor) -> SparseTensor:
    return a if not a.is_complex() else a._with(a._entries.conj_physical())


def norm(a: SparseTensor, p: Any = 2, dim: Any = None, keepdim: bool = False) -> Any:
    if dim is not None and dim != () and dim != []:
        raise RuntimeError(
            "norm_sparse currently only supports full reductions, so 'dim' must either be empty or "
            "contain all dimensions of the input"
        )
    return a.coalesce()._entries.norm(p)


def made_like(function: str, a: Any, value: Any, dtype: Any, requires_grad: bool) -> OverEntries:
    """A tensor of the same shape without entries; `ones_like` of CSR: with the same places."""
    if not isinstance(a, SparseTensor):
        if function in ("ones_like", "full_like"):
            wanted = a.dtype if dtype is None else dtypes.of(dtype)
            entries = tg.full_like(a._entries.detach(), value, dtype=wanted)
            return a._with(entries.requires_grad_(requires_grad))  # type: ignore[no-any-return]
        places = tg.zeros(tuple(a.shape), dtype=a.dtype).to_sparse()
        made = made_like(function, places, value, dtype, requires_grad)
        return made.to_sparse(layout=a.layout)  # type: ignore[no-any-return]
    if function not in ("zeros_like", "empty_like"):
        raise could_not_run("fill_.Scalar")
    made = dtypes.of(a._entries._array.dtype if dtype is None else dtype)
    entries = a._entries.new_zeros((0, *a._entries.shape[1:]), dtype=made)
    entries.requires_grad_(requires_grad)
    places = wrap(np.zeros((a.sparse_dim(), 0), np.int64))
    return sparse(places, entries, a._shape, True)


def total(a: SparseTensor, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    """`Tensor.sum` and `torch.sparse.sum`."""
    if dim is None or dim == ():
        return a._entries.sum(dtype=dtype)
    if keepdim:
        raise could_not_run("sum.dim_IntList")
    count, rank = a.sparse_dim(), len(a._shape)
    gone = [wrap_dim(d, rank) for d in ((dim,) if isinstance(dim, int) else dim)]
    for d in gone:
        if gone.count(d) > 1:
            raise RuntimeError(f"dim {d} appears multiple times in the list of dims")
    entries = a._entries if dtype is None else a._entries.to(dtype)
    dense = [d - count + 1 for d in gone if d >= count]
    if dense:
        entries = entries.sum(dense)
    kept = [d for d in range(count) if d not in gone]
    shape = tuple([a._shape[d] for d in range(rank) if d not in gone])
    if not kept:
        return named(entries.sum(0), "SparseSumBackward0")
    check_places(a._places._array, a._shape[:count])
    places = wrap(a._places._array[kept])
    whole = sparse(places, entries, shape, False).coalesce()
    return whole._with(named(whole._entries, "SparseSumBackward0"))


# ---------------------------------------------------------------------- products


def mm(a: Any, b: Any, *, label: str = "MmBackward0") -> Any:
    only_tensors("mm", input=a, mat2=b)
    if isinstance(a, SparseTensor) and isinstance(b, SparseTensor):
        return sparse_product(a, b)
    if isinstance(b, SparseTensor):
        product = mm(b.t(), a.t())
        return named(product.t(), label)
    check_product(a, b)
    row, column = wrap(a._places._array[0]), wrap(a._places._array[1])
    terms = b[column] * a._entries.unsqueeze(1)
    return named(add_up(terms, row._array, a._shape[0]), label)


def check_product(a: SparseTensor, b: Any) -> None:
    if a.dense_dim():
        raise RuntimeError(f"addmm: scalar values expected, got {a.dense_dim()}D values")
    if a.sparse_dim() != 2:
        raise RuntimeError(f"addmm: matrices expected, got {a.sparse_dim()}D tensor")
    if b.dim() != 2:
        raise RuntimeError(f"addmm: matrices expected, got {b.dim()}D tensor")
    if b.shape[0] != a._shape[1]:
        raise RuntimeError(
            f"addmm: Argument #3 (dense): Expected dim 0 size {a._shape[1]}, got {b.shape[0]}"
        )
    check_dtypes(a, b)
    check_places(a._places._array, a._shape)


def check_dtypes(a: SparseTensor, b: Any) -> None:
    if a.dtype is not b.dtype:
        raise RuntimeError(
            f"expected scalar type {a.dtype.scalar_type} but found {b.dtype.scalar_type}"
        )


def mv(a: Any, b: Any) -> Any:
    if isinstance(b, SparseTensor) or a.dim() != 2 or b.dim() != 1:
        raise could_not_run("mv")
    if b.shape[0] != a._shape[1]:
        raise RuntimeError("mv: expected self.size(-1) == vec.size(-1)")
    return named(mm(a, b.unsqueeze(1)).squeeze(1), "MvBackward0")


def matmul(a: Any, b: Any) -> Any:
    if a.dim() == 2 and b.dim() == 2:
        return mm(a, b)
    if a.dim() == 2 and b.dim() == 1:
        return mv(a, b)
    if a.dim() == 1 and b.dim() == 2:
        return mm(a.unsqueeze(0), b).squeeze(0)
    raise RuntimeError("expand is unsupported for Sparse tensors")


def sparse_product(a: SparseTensor, b: SparseTensor) -> SparseTensor:
    """Both factors sparse: one term for each pair of entries that meet."""
    if a.dim() != 2 or b.dim() != 2 or a.dense_dim() or b.dense_dim():
        raise could_not_run("_sparse_sparse_matmul")
    if a._shape[1] != b._shape[0]:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({a._shape[0]}x{a._shape[1]} and "
            f"{b._shape[0]}x{b._shape[1]})"
        )
    check_dtypes(a, b)
    check_places(a._places._array, a._shape)
    whole = b.coalesce()
    # Where each row of `b` begins; the entries are sorted by row.
    starts = np.searchsorted(whole._places._array[0], np.arange(b._shape[0] + 1))
    inner = a._places._array[1]
    lengths = starts[inner + 1] - starts[inner]
    left = np.repeat(np.arange(len(inner)), lengths)
    offsets = np.arange(len(left)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    right = np.repeat(starts[inner], lengths) + offsets
    terms = a._entries[wrap(left)] * whole._entries[wrap(right)]
    places = np.stack([a._places._array[0][left], whole._places._array[1][right]])
    product = sparse(wrap(places), terms, (a._shape[0], b._shape[1]), False).coalesce()
    return product._with(named(product._entries, "SparseSparseMatmulBackward0"))


def weighted(input: Any, mat1: Any, mat2: Any, beta: Any, alpha: Any, label: str) -> Any:
    """beta * input + alpha * (mat1 @ mat2) with a sparse `mat1`."""
    if not isinstance(mat1, SparseTensor) or isinstance(mat2, SparseTensor):
        raise could_not_run("addmm")
    check_product(mat1, mat2)
    shape = (mat1._shape[0], mat2.shape[1])
    return named(beta * input.expand(shape) + alpha * mm(mat1, mat2), label)


def smm(input: Any, mat: Any) -> Any:
    """smm(input, mat) -> Tensor: a sparse matrix times a dense one, as a sparse one.

    >>> torch.smm(eye(2).to_sparse(), ones(2, 1)).to_dense()
    tensor([[1.],
            [1.]])
    """
    return mm(input, mat).to_sparse()


def sspaddmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """sspaddmm(input, mat1, mat2) -> Tensor: a sparse matrix plus a product, as a sparse one.

    >>> torch.sspaddmm(eye(2).to_sparse(), eye(2).to_sparse(), ones(2, 2)).to_dense()
    tensor([[2., 1.],
            [1., 2.]])
    """
    return input * beta + smm(mat1, mat2) * alpha


def public_dtype(dtype: Any) -> Any:
    """The kernels' attribute as what functions take."""
    return None if dtype is None else dtypes.of(dtype)


# Zero at zero: they act on the values alone.
POINTWISE = """
    abs asin asinh atan atanh ceil deg2rad erf erfinv expm1 floor frac log1p rad2deg relu round sgn
    sign signbit sin sinh sqrt tan tanh trunc isinf isnan isneginf isposinf nan_to_num
"""
# With the arguments of the op's kernel.
OF_OPS: dict[Op, Callable[..., Any]] = {
    Add: add,
    AddAlpha: lambda a, b, alpha: add(a, b, alpha=alpha),
    Any_: lambda a: a._entries.any(),
    Cat: selecting.cat,
    Conj: conj,
    FloorDivide: floor_divide,
    IndexSelect: lambda a, index, dim: selecting.index_select(a, dim, index),
    LinalgVectorNorm: lambda a, p, dim, *rest: norm(a, p, dim),
    NarrowCopy: selecting.narrow_copy,
    Pow: power,
    PowScalar: power,
    Select: selecting.select,
    Stack: selecting.stack,
    Unbind: selecting.unbind,
    Unsqueeze: selecting.unsqueeze,
    Addmm: lambda m, a, b, beta, alpha: weighted(m, a, b, beta, alpha, "AddmmBackward0"),
    Clone: SparseTensor.clone,
    Div: div,
    Mm: mm,
    Mul: mul,
    Mv: mv,
    Neg: neg,
    Sub: sub,
    SubAlpha: lambda a, b, alpha: sub(a, b, alpha=alpha),
    Permute: lambda a, dims: a.permute(dims),
    Sum: lambda a, dim, keepdim, dtype: total(a, dim, keepdim, public_dtype(dtype)),
    SumAll: lambda a, dtype=None: total(a, dtype=public_dtype(dtype)),
    T: SparseTensor.t,
    Transpose: SparseTensor.transpose,
}
# By the name of the op, or of a function that is no op.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{op.name: function for op, function in OF_OPS.items()},
    **{name: pointwise(name) for name in POINTWISE.split()},
    "matmul": matmul,
    "smm": smm,
    "square": square,
    "sspaddmm": sspaddmm,
}

# As sparse/writes.py has them.
WRITTEN = (
    *("add_", "sub_", "mul_", "div_", "neg_"),
    *[f"{n}_" for n in POINTWISE.split() if f"{n}_" in vars(Tensor)],
)

# The dense functions check shapes in their own words first; the methods need not pass there.
SparseTensor.mm = mm
SparseTensor.mv = mv
SparseTensor.smm = smm
SparseTensor.sspaddmm = sspaddmm
SparseTensor.matmul = matmul
SparseTensor.sum = total
SparseTensor.__matmul__ = matmul
SparseTensor.__getitem__ = selecting.getitem
SparseTensor.__iter__ = lambda self: iter(selecting.unbind(self))
SparseTensor.any = lambda self: self._entries.any()
SparseTensor.conj = conj
SparseTensor.index_select = selecting.index_select
SparseTensor.is_same_size = lambda self, other: self.shape == other.shape
SparseTensor.narrow_copy = selecting.narrow_copy
SparseTensor.norm = norm
SparseTensor.select = selecting.select
SparseTensor.unbind = selecting.unbind
SparseTensor.unsqueeze = selecting.unsqueeze


def computed() -> set[str]:
    """The methods that end in a function of the table, under all their names."""
    calls = {APIS[name].call for name in FUNCTIONS if name in APIS}
    return {
        "true_divide",
        *FUNCTIONS,
        *WRITTEN,
        *[n for n, api in APIS.items() if api.call in calls],
    }


close_class(SparseTensor, computed())
