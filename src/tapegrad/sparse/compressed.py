"""Matrices in compressed form: CSR (where each row begins, and the columns) and CSC (by columns).

As in coordinate form, everything differentiable happens to the values, with ordinary ops. What is
not done on the parts themselves is done in coordinate form, and comes back compressed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tapegrad as tg

from ..api.tensor.tensor import Tensor
from ..core.base import INTERPRETED, blank, wrap
from ..core.op import REGISTRY, Op
from ..core.subclass import op_name
from ..device import layout as layout_type
from ..device import sparse_csc, sparse_csr
from ..ops.block.definition import APIS
from ..ops.linalg.solve import TriangularSolve
from ..ops.pointwise.arithmetic import Add, AddAlpha, Mul, Neg
from ..ops.pointwise.comparisons import Isnan
from ..ops.products.addmm import Addmm, Addmv
from ..ops.products.matmul import Mm, Mv
from ..ops.reduce.sums import Sum, SumAll
from ..ops.shape.copying import Clone
from ..ops.shape.dim_order import T, Transpose
from ..ops.shape.part_views import Select
from . import functions, selecting
from .coo import OverEntries, SparseTensor, close_class, part, sparse, with_notes
from .functions import POINTWISE
from .history import NoElements, could_not_run, named, no_strides, without_history
from .invariants import Switch
from .triangles import triangular_solve


class CompressedTensor(OverEntries):
    """A matrix in CSR or CSC; made by `torch.sparse_csr_tensor` and `Tensor.to_sparse_csr`."""

    __slots__ = ("_by_row", "_inner", "_known", "_start")

    _start: Any  # where each row (or column) begins, and the end of the last one
    _inner: Any  # the column (or row) of each entry
    _by_row: bool
    _known: list[Any]  # places in coordinate form, once they were needed: see `_coordinates`

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = op_name(func)
        function = FUNCTIONS.get(name)
        if function is None:
            raise refusal(name)
        return function(*args, **(kwargs or {}))

    @property
    def grad(self) -> Any:
        """The gradient of a leaf, at its places."""
        found = self._entries.grad
        return None if found is None else self._with(found)

    @grad.setter
    def grad(self, value: Any) -> None:
        if value is not None:
            raise could_not_run("set_.source_Tensor", BACKEND)
        self._entries.grad = None

    # ------------------------------------------------------------------ its parts

    def _with(self, entries: Any) -> CompressedTensor:
        made = compressed(self._start, self._inner, entries, self._shape, self._by_row)
        made._known = self._known  # of all matrices with these indices
        return made

    def _coordinates(self) -> SparseTensor:
        """The matrix in coordinate form, its entries in the order that they have here."""
        versions = self._start._version, self._inner._version
        if not self._known or self._known[0] != versions:
            self._known[:] = versions, *self._new_places()
        return sparse(self._known[1], self._entries, self._shape, self._known[2])

    def _new_places(self) -> tuple[Any, bool]:
        """The places in coordinate form, and whether they are sorted."""
        start, inner = self._start._array, self._inner._array
        check(start, inner, self._shape, self._by_row, ordered=False)
        lines = np.repeat(np.arange(len(start) - 1), np.diff(start))
        places = np.stack([lines, inner] if self._by_row else [inner, lines]).astype(np.int64)
        flat = places[0] * self._shape[1] + places[1]
        return wrap(places), bool((np.diff(flat) > 0).all())

    def _flat(self) -> Any:
        return functions.flat_places(self._coordinates())

    @property
    def layout(self) -> layout_type:
        return sparse_csr if self._by_row else sparse_csc

    @property
    def is_sparse_csr(self) -> bool:
        return self._by_row

    @property
    def nbytes(self) -> int:
        return int(self.numel() * self.element_size())

    def _part(self, name: str, by_row: bool, t: Any) -> Any:
        if by_row is not self._by_row:
            kind = "row" if by_row else "column"
            raise RuntimeError(
                f"{name} expected sparse {kind} compressed tensor layout but got {spoken(self)}"
            )
        return t

    def crow_indices(self) -> Any:
        return self._part("crow_indices", True, self._start)

    def col_indices(self) -> Any:
        return self._part("col_indices", True, self._inner)

    def ccol_indices(self) -> Any:
        return self._part("ccol_indices", False, self._start)

    def row_indices(self) -> Any:
        return self._part("row_indices", False, self._inner)

    def values(self) -> Any:
        return named(self._entries, "ValuesBackward0")

    def sparse_dim(self) -> int:
        return 2

    def dense_dim(self) -> int:
        return 0

    # ------------------------------------------------------------------ other forms

    def to_dense(self, dtype: Any = None, *, masked_grad: Any = None) -> Any:
        return self._coordinates().to_dense(dtype)

    def to_sparse(
        self, sparse_dim: Any = None, *, layout: Any = None, **options: Any
    ) -> OverEntries:
        if layout is sparse_csr or layout is sparse_csc:
            return to_compressed(self, layout is sparse_csr)
        whole = self._coordinates()
        return whole._with(named(whole._entries, "ToSparseBackward1"))

    to_sparse_coo = to_sparse

    def to_sparse_csr(self, dense_dim: Any = None) -> CompressedTensor:
        return to_compressed(self, True)

    def to_sparse_csc(self, dense_dim: Any = None) -> CompressedTensor:
        return to_compressed(self, False)

    def sparse_mask(self, mask: Any) -> Any:
        return self.to_dense().sparse_mask(mask)

    def conj(self) -> CompressedTensor:
        return self._with(self._entries.conj_physical()) if self.is_complex() else self

    def to(self, *args: Any, **kwargs: Any) -> CompressedTensor:
        entries = self._entries.to(*args, **kwargs)
        return self if entries is self._entries else self._with(entries)

    def clone(self, *, memory_format: Any = None) -> CompressedTensor:
        start, inner = self._start.clone(), self._inner.clone()
        return compressed(start, inner, self._entries.clone(), self._shape, self._by_row)

    def t(self) -> CompressedTensor:
        return self.transpose(0, 1)

    def transpose(self, dim0: int, dim1: int) -> CompressedTensor:
        """The transpose: these parts, with rows read as columns."""
        if dim0 % 2 == dim1 % 2:
            return self
        entries = named(self._entries, "TransposeBackward0")
        return compressed(self._start, self._inner, entries, self._shape[::-1], not self._by_row)

    @property
    def mT(self) -> CompressedTensor:
        return self.transpose(0, 1)

    @property
    def T(self) -> Any:
        raise no_strides(BACKEND)

    H = T

    def numpy(self, *, force: bool = False) -> Any:
        raise TypeError(
            f"can't convert {spoken(self)} layout tensor to numpy. Use Tensor.to_dense() first."
        )

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.numpy()

    def __getitem__(self, index: Any) -> Any:
        """A row, a column or an element, by whole numbers: a row is in coordinate form."""
        parts = index if isinstance(index, tuple) else (index,)
        rest = [p for p in parts if not (isinstance(p, slice) and p == slice(None))]
        if not all([isinstance(p, (int, np.integer)) and not isinstance(p, bool) for p in rest]):
            raise without_strides()
        return selecting.getitem(self._coordinates(), index)

    def __iter__(self) -> Any:
        return iter(selecting.unbind(self._coordinates()))

    def __setitem__(self, index: Any, value: Any) -> None:
        raise without_strides()

    def __reduce_ex__(self, protocol: Any) -> Any:
        parts = (self._start, self._inner, self._entries.detach(), self._shape, self._by_row)
        return rebuild, (*parts, self.requires_grad)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        names = ("crow", "col") if self._by_row else ("ccol", "row")
        lines = [
            part(f"{names[0]}_indices", self._start),
            part(f"{names[1]}_indices", self._inner),
            part("values", self._entries),
        ]
        text = "tensor(" + ",\n       ".join(lines)
        return with_notes(text, self, [f"size={self._shape}"], 2)


BACKEND = "SparseCsrCPU"


def compressed(
    start: Any, inner: Any, entries: Any, shape: tuple[int, ...], by_row: bool
) -> CompressedTensor:
    """A compressed matrix of these parts, which are taken as they are."""
    t: Any = blank(CompressedTensor)
    t._array = NoElements(shape, entries._array.dtype)
    t._special = INTERPRETED
    t._start, t._inner, t._entries = start, inner, entries
    t._shape, t._by_row, t._known = shape, by_row, []
    return t  # type: ignore[no-any-return]


def rebuild(
    start: Any, inner: Any, entries: Any, shape: tuple[int, ...], by_row: bool, requires_grad: bool
) -> CompressedTensor:
    """Make a tensor from its pickled parts."""
    return compressed(start, inner, entries, shape, by_row).requires_grad_(requires_grad)  # type: ignore[no-any-return]


def spoken(t: CompressedTensor) -> str:
    return "SparseCsr" if t._by_row else "SparseCsc"


def without_strides() -> Exception:
    return RuntimeError("Sparse CSR tensors do not have strides")


# ---------------------------------------------------------------------- making


def check(start: Any, inner: Any, shape: Any, by_row: bool, ordered: bool = True) -> None:
    """Raise unless the parts describe a matrix of this shape, in PyTorch's words."""
    names, lines = (
        (("crow", "col"), ("nrows", "ncols"))
        if by_row
        else (
            ("ccol", "row"),
            ("ncols", "nrows"),
        )
    )
    first, second = f"{names[0]}_indices", f"{names[1]}_indices"
    count, width = shape if by_row else shape[::-1]
    if len(start) != count + 1:
        whole = "rows" if by_row else "columns"
        raise RuntimeError(
            f"{first}.shape[-1] must be equal to the number of {whole} + 1 (={count + 1}), but got "
            f"{len(start)}"
        )
    said = ""
    if start[0] != 0:
        said = f"{first}[..., 0] == 0"
    elif start[-1] != len(inner):
        said = f"{first}[..., -1] == nnz"
    elif (np.diff(start) < 0).any() or (np.diff(start) > width).any():
        said = f"0 <= {first}[..., 1:] - {first}[..., :-1] <= {lines[1]}"
    elif len(inner) and (inner.min() < 0 or inner.max() >= width):
        said = f"0 <= {second} < {lines[1]}"
    elif ordered:
        line = np.repeat(np.arange(count), np.diff(start))
        if ((np.diff(line) == 0) & (np.diff(inner) <= 0)).any():
            said = (
                f"{second}[..., {first}[..., i - 1]:{first}[..., i]] for all i = 1, ..., "
                f"{lines[0]} are sorted and distinct along the last dimension values"
            )
    if said:
        raise RuntimeError(f"`{said}` is not satisfied.")


def sparse_compressed_tensor(
    compressed_indices: Any,
    plain_indices: Any,
    values: Any,
    size: Any = None,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> CompressedTensor:
    """A matrix in a compressed layout: `torch.sparse_csr` or `torch.sparse_csc`.

    >>> parts = [0, 1, 2], [1, 0], [5.0, 6.0]
    >>> sparse_compressed_tensor(*parts, (2, 2), layout=torch.sparse_csr).to_dense()
    tensor([[0., 5.],
            [6., 0.]])
    """
    if layout is not sparse_csr and layout is not sparse_csc:
        raise NotImplementedError(
            f"tapegrad's compressed layouts are torch.sparse_csr and torch.sparse_csc, not {layout}"
        )
    by_row = layout is sparse_csr
    start = tg.as_tensor(compressed_indices, device=device).detach()
    inner = tg.as_tensor(plain_indices, device=device).detach()
    entries = tg.as_tensor(values, dtype=dtype, device=device)
    if start.dim() != inner.dim():
        names = ("crow", "col") if by_row else ("ccol", "row")
        raise RuntimeError(
            f"{names[0]}_indices and {names[1]}_indices dimensionalities must be equal but got "
            f"{start.dim()} and {inner.dim()}, respectively"
        )
    if start.dim() != 1 or inner.dim() != 1 or entries.dim() != 1:
        raise NotImplementedError(
            "tapegrad has compressed layouts of matrices only: indices and values of one dimension"
        )
    for t in (start, inner):
        if t.dtype not in (tg.int32, tg.int64):
            raise RuntimeError(
                "compressed_indices and plain_indices dtype must be Int or Long, but got "
                f"{t.dtype.scalar_type}"
            )
    if size is None:
        width = int(inner.max()) + 1 if inner.numel() else 0
        size = (len(start) - 1, width) if by_row else (width, len(start) - 1)
    shape = tuple(int(n) for n in size)
    if len(shape) != 2:
        raise NotImplementedError("tapegrad has compressed layouts of matrices only")
    if len(inner) != len(entries):
        name = "col_indices" if by_row else "row_indices"
        raise RuntimeError(
            f"{name}.shape[-1] must be equal to nnz (={len(entries)}) as defined by "
            f"values.shape[0], but got {len(inner)}"
        )
    if Switch.on if check_invariants is None else check_invariants:
        check(start._array, inner._array, shape, by_row)
    if requires_grad:
        if not (entries.is_floating_point() or entries.is_complex()):
            raise RuntimeError(
                "Only Tensors of floating point and complex dtype can require gradients"
            )
        entries = entries.detach().requires_grad_()
    elif entries.requires_grad:
        entries = named(entries, "SparseCompressedTensorBackward0")
    else:
        entries = without_history(entries)
    return compressed(start, inner, entries, shape, by_row)


def sparse_csr_tensor(
    crow_indices: Any, col_indices: Any, values: Any, size: Any = None, **options: Any
) -> CompressedTensor:
    """A matrix in CSR: where each row begins, the column of each entry, and the entries.

    >>> sparse_csr_tensor([0, 2, 3], [0, 2, 1], [1.0, 2.0, 3.0]).to_dense()
    tensor([[1., 0., 2.],
            [0., 3., 0.]])
    """
    options.setdefault("layout", sparse_csr)
    return sparse_compressed_tensor(crow_indices, col_indices, values, size, **options)


def sparse_csc_tensor(
    ccol_indices: Any, row_indices: Any, values: Any, size: Any = None, **options: Any
) -> CompressedTensor:
    """A matrix in CSC: where each column begins, the row of each entry, and the entries.

    >>> sparse_csc_tensor([0, 1, 2], [1, 0], [5.0, 6.0]).to_dense()
    tensor([[0., 6.],
            [5., 0.]])
    """
    options.setdefault("layout", sparse_csc)
    return sparse_compressed_tensor(ccol_indices, row_indices, values, size, **options)


def to_compressed(t: Any, by_row: bool) -> CompressedTensor:
    """A matrix of any layout in CSR or CSC."""
    if isinstance(t, CompressedTensor):
        if t._by_row is by_row:
            return t
        t = t._coordinates()
    elif not isinstance(t, SparseTensor):
        if t.dim() == 1:
            raise IndexError(
                f"select(): index 1 out of range for tensor of size {[len(t), 1]} at dimension 1"
                if by_row
                else "Dimension out of range (expected to be in range of [-1, 0], but got 1)"
            )
        if t.dim() != 2:
            raise NotImplementedError("tapegrad has compressed layouts of matrices only")
        t = t.to_sparse()
    if len(t._shape) != 2 or t.dense_dim():
        raise NotImplementedError("tapegrad has compressed layouts of matrices only")
    label = f"ToSparse{'Csr' if by_row else 'Csc'}Backward0"
    return from_coordinates(t.coalesce(), by_row, label)


def from_coordinates(t: SparseTensor, by_row: bool, label: str) -> CompressedTensor:
    """A coalesced matrix, compressed."""
    rows, columns = t._places._array
    entries = t._entries
    if not by_row:
        order = np.lexsort((rows, columns))
        rows, columns, entries = columns[order], rows[order], entries[wrap(order)]
    start = np.searchsorted(rows, np.arange(t._shape[0 if by_row else 1] + 1))
    inner = wrap(np.ascontiguousarray(columns))
    return compressed(wrap(start), inner, named(entries, label), t._shape, by_row)


def to_scipy(t: Any) -> Any:
    """The sparse array of SciPy with the values of a sparse matrix: `coo_array`, `csr_array` or
    `csc_array`, as its layout is. The values are shared where that is possible.
    """
    from scipy import sparse as scipy

    values = t._entries.detach().numpy()
    if isinstance(t, SparseTensor):
        return scipy.coo_array((values, tuple(t._places.numpy())), shape=t._shape)
    kind = scipy.csr_array if t._by_row else scipy.csc_array
    return kind((values, t._inner.numpy(), t._start.numpy()), shape=t._shape)


def from_scipy(matrix: Any, requires_grad: bool = False) -> Any:
    """A sparse matrix of SciPy as a tensor: CSR and CSC keep their layout, others become COO."""
    if matrix.format in ("csr", "csc"):
        make = sparse_csr_tensor if matrix.format == "csr" else sparse_csc_tensor
        start, inner = tg.as_tensor(matrix.indptr), tg.as_tensor(matrix.indices)
        values = tg.as_tensor(matrix.data)
        return make(start.long(), inner.long(), values, matrix.shape, requires_grad=requires_grad)
    whole = matrix.tocoo()
    places = wrap(np.stack([whole.row, whole.col]).astype(np.int64))
    return sparse(places, tg.as_tensor(whole.data), matrix.shape, False).requires_grad_(
        requires_grad
    )


# ---------------------------------------------------------------------- functions


def add(a: Any, b: Any, *, alpha: Any = 1) -> Any:
    if isinstance(a, CompressedTensor) and isinstance(b, CompressedTensor):
        if a._shape != b._shape:
            raise RuntimeError(
                "torch.add: Expected input tensors to have the same shape, but got tensor `self` "
                f"with shape {list(a._shape)} and tensor `other` with shape {list(b._shape)}"
            )
        if alpha != 1:
            b = b._with(b._entries * alpha)
        b = to_compressed(b, a._by_row)
        if all([same(x, y) for x, y in ((a._start, b._start), (a._inner, b._inner))]):
            return a._with(a._entries + b._entries)
        return back(functions.merged(a._coordinates(), b._coordinates(), "AddBackward0"), a, "Add")
    shape = [list(x.shape) if isinstance(x, Tensor) else [] for x in (a, b)]
    if shape[0] != shape[1] or isinstance(a, SparseTensor) or isinstance(b, SparseTensor):
        own, other = shape if isinstance(b, CompressedTensor) else shape[::-1]
        raise RuntimeError(
            f"add: expected 'self' and 'other' to have same size, but self has size {own} while "
            f"other has size {other} (FYI: op2-sparse addition does not currently support "
            "broadcasting)"
        )
    a, b = [x.to_dense() if isinstance(x, CompressedTensor) else x for x in (a, b)]
    return tg.add(a, b, alpha=alpha)


def same(a: Any, b: Any) -> bool:
    return a is b or bool(np.array_equal(a._array, b._array))


def back(t: SparseTensor, like: CompressedTensor, label: str) -> CompressedTensor:
    """A result in coordinate form, in the layout of an operand."""
    return from_coordinates(t.coalesce(), like._by_row, f"{label}Backward0")


def mul(a: Any, b: Any) -> Any:
    if isinstance(a, CompressedTensor) and isinstance(b, CompressedTensor):
        return back(selecting.product(a._coordinates(), b._coordinates()), a, "Mul")
    if not isinstance(a, CompressedTensor):
        a, b = b, a
    if isinstance(b, Tensor) and b.dim():
        b = functions.sparse_mask(b, a)._entries
    return a._with(a._entries * b)


def mm(a: Any, b: Any, label: str = "MmBackward0") -> Any:
    for x in (a, b):
        if isinstance(x, SparseTensor):
            kinds = [spoken(t) if isinstance(t, CompressedTensor) else "Sparse" for t in (a, b)]
            raise RuntimeError(
                "addmm: computation on CPU is not implemented for "
                f"{kinds[0]} + {kinds[0]} @ {kinds[1]}"
            )
    if a.dim() != 2 or b.dim() != 2 or a.shape[1] != b.shape[0]:
        found = "x".join(map(str, a.shape)), "x".join(map(str, b.shape))
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({found[0]} and {found[1]})")
    if isinstance(a, CompressedTensor) and isinstance(b, CompressedTensor):
        return back(functions.sparse_product(a._coordinates(), b._coordinates()), a, "Mm")
    if isinstance(b, CompressedTensor):
        return named(mm(b.t(), a.t()).t().contiguous(), label)
    return functions.mm(a._coordinates(), b, label=label)


def mv(a: Any, b: Any) -> Any:
    if not isinstance(a, CompressedTensor):
        raise could_not_run(Mv.name, BACKEND)
    if a._shape[1] != b.shape[0]:
        raise RuntimeError(
            f"size mismatch, got input ({a._shape[0]}), mat ({a._shape[0]}x{a._shape[1]}), vec "
            f"({b.shape[0]})"
        )
    return named(mm(a, b.unsqueeze(1)).squeeze(1), "MvBackward0")


def matmul(a: Any, b: Any) -> Any:
    if a.dim() == 1:
        return mm(a.unsqueeze(0), b).squeeze(0)
    return mv(a, b) if b.dim() == 1 else mm(a, b)


def addmm(input: Any, mat1: Any, mat2: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    product = mm(mat1, mat2)
    return named(beta * input.expand(product.shape) + alpha * product, "AddmmBackward0")


def addmv(input: Any, mat: Any, vec: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    product = mv(mat, vec)
    return named(beta * input.expand(product.shape) + alpha * product, "AddmvBackward0")


def sampled_addmm(
    input: Any, mat1: Any, mat2: Any, *, beta: Any = 1.0, alpha: Any = 1.0, out: Any = None
) -> Any:
    """sampled_addmm(input, mat1, mat2, *, beta=1, alpha=1) -> Tensor: beta * input + alpha * (mat1
    @ mat2), computed at the places of the CSR matrix `input` only.

    >>> torch.sparse.sampled_addmm(eye(2).to_sparse_csr(), ones(2, 3), ones(3, 2)).values()
    tensor([4., 4.])
    """
    if not isinstance(input, CompressedTensor) or not input._by_row:
        raise RuntimeError("sampled_addmm: Expected self to have sparse csr layout, but got it not")
    if mat1.shape[1] != mat2.shape[0]:
        raise RuntimeError(
            f"sampled_addmm: mat1 and mat2 shapes cannot be multiplied ({mat1.shape[0]}x"
            f"{mat1.shape[1]} and {mat2.shape[0]}x{mat2.shape[1]})"
        )
    rows, columns = input._coordinates()._places
    products = (mat1[rows] * mat2.t()[columns]).sum(1)
    entries = beta * input._entries + alpha * products
    return input._with(named(entries, "SparseSampledAddmmBackward0"))


def total(a: CompressedTensor, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    if dim is None or dim == ():
        return a._entries.sum(dtype=dtype)
    if not keepdim:
        raise RuntimeError("reduction operations on CSR tensors with keepdim=False is unsupported")
    whole = a._coordinates()
    places = whole._places._array.copy()
    shape = list(a._shape)
    for d in (dim,) if isinstance(dim, int) else dim:
        places[d % 2], shape[d % 2] = 0, 1
    entries = a._entries if dtype is None else a._entries.to(dtype)
    return back(sparse(wrap(places), entries, tuple(shape), False), a, "Sum")


def pointwise(name: str) -> Callable[..., Any]:
    def function(a: CompressedTensor, *args: Any, **kwargs: Any) -> CompressedTensor:
        return a._with(getattr(a._entries, name)(*args, **kwargs))

    return function


# With the arguments of the op's kernel.
OF_OPS: dict[Op, Callable[..., Any]] = {
    Add: add,
    AddAlpha: lambda a, b, alpha: add(a, b, alpha=alpha),
    Addmm: addmm,
    Addmv: addmv,
    Clone: CompressedTensor.clone,
    Isnan: lambda a: a._with(a._entries.isnan()),
    Mm: mm,
    Mul: mul,
    Mv: mv,
    Neg: lambda a: a._with(-a._entries),
    Select: lambda a, dim, index: selecting.select(a._coordinates(), dim, index),
    Sum: lambda a, dim, keepdim, dtype: total(a, dim, keepdim, functions.public_dtype(dtype)),
    SumAll: lambda a, dtype=None: total(a, dtype=functions.public_dtype(dtype)),
    T: CompressedTensor.t,
    Transpose: CompressedTensor.transpose,
    TriangularSolve: triangular_solve,
}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{op.name: function for op, function in OF_OPS.items()},
    **{name: pointwise(name) for name in POINTWISE.split()},
    "matmul": matmul,
}

SENTENCES = {
    "contiguous flatten is_contiguous reshape": "Sparse CSR tensors do not have is_contiguous",
    "expand narrow squeeze storage_offset stride unsqueeze": str(without_strides()),
}
SAID = {name: said for names, said in SENTENCES.items() for name in names.split()}


def refusal(name: str) -> Exception:
    """The error for what cannot be done with a compressed matrix."""
    if name in SAID:
        return RuntimeError(SAID[name])
    if name in ("storage", "untyped_storage"):
        return NotImplementedError("Cannot access storage of SparseCsrTensorImpl")
    if name in ("coalesce", "indices", "is_coalesced"):
        return RuntimeError(f"{name} expected sparse coordinate tensor layout but got SparseCsr")
    op = REGISTRY.get(name.removesuffix("_"))
    if op is not None and op.elementwise:
        return RuntimeError("unsupported tensor layout: SparseCsr")
    return could_not_run(name, BACKEND)


def computed() -> set[str]:
    """The methods that end in a function of the table, under all their names."""
    calls = {APIS[name].call for name in FUNCTIONS if name in APIS}
    return {*FUNCTIONS, *[n for n, api in APIS.items() if api.call in calls]}


CompressedTensor.mm = mm
CompressedTensor.mv = mv
CompressedTensor.matmul = matmul
CompressedTensor.sum = total
CompressedTensor.__matmul__ = matmul
CompressedTensor.select = OF_OPS[Select]
close_class(CompressedTensor, computed(), refusal)
