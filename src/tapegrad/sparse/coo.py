"""Sparse tensors in coordinate form: a dense tensor of indices and a dense tensor of values.

Everything differentiable happens to the values, with ordinary ops. So gradients flow through sparse
tensors without the engine knowing of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..api.tensor import printing
from ..api.tensor.tensor import Tensor
from ..autograd.inplace import bump
from ..core.arguments import wrap_dim
from ..core.base import INTERPRETED, blank, wrap
from ..core.modes import MODES
from ..core.op import REGISTRY
from ..core.subclass import COMPOSED, op_name
from ..device import layout as layout_type
from ..device import sparse_coo, sparse_csc, sparse_csr
from ..ops.index.along_dim import IndexAdd
from ..ops.products.matmul import unsafe_view
from .history import NoElements, could_not_run, named, no_strides


class OverEntries(Tensor):
    """A tensor whose values are those of a dense one, which carries the history, at some places."""

    __slots__ = ("_entries", "_shape")

    _entries: Any  # (entries, *dense dims)
    _shape: tuple[int, ...]

    def _with(self, entries: Any) -> Any:
        """Other values at the same places."""
        raise NotImplementedError

    # ------------------------------------------------------------------ autograd

    @property
    def requires_grad(self) -> bool:
        return bool(self._entries.requires_grad)

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self._entries.requires_grad = value

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        self._entries.requires_grad_(requires_grad)
        return self

    @property
    def is_leaf(self) -> bool:
        return bool(self._entries.is_leaf)

    @property
    def grad_fn(self) -> Any:
        return self._entries.grad_fn

    def detach(self) -> Any:
        return self._with(self._entries.detach())

    def detach_(self) -> Any:
        self._entries.detach_()
        return self

    @property
    def data(self) -> Any:
        return self.detach()

    @data.setter
    def data(self, value: Any) -> None:
        if not isinstance(value, OverEntries) or value.layout is not self.layout:
            raise RuntimeError(
                "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have "
                "incompatible tensor type."
            )
        self._entries.data = value._entries
        for name in ("_array", "_shape", *type(value).__slots__):  # and where the values lie
            setattr(self, name, getattr(value, name))

    def _nnz(self) -> int:
        return int(self._entries._array.shape[0])

    @property
    def device(self) -> Any:
        return self._entries.device

    @property
    def is_meta(self) -> bool:
        return bool(self._entries.is_meta)

    def cpu(self, *args: Any, **kwargs: Any) -> Any:
        return self

    def register_hook(self, hook: Any) -> Any:
        """Call `hook(grad)` with the sparse gradient when it has been computed."""

        def with_places(g: Any) -> Any:
            found = hook(None if g is None else self._with(g))
            if found is None or found.layout is not self.layout:
                return found
            same = found._entries if found._nnz() == self._nnz() else None
            return found.to_dense().sparse_mask(self.detach())._entries if same is None else same

        return self._entries.register_hook(with_places)

    def tolist(self) -> Any:
        raise RuntimeError("Cannot access data pointer of Tensor that doesn't have storage")

    data_ptr = tolist

    def __copy__(self) -> Any:
        return self._with(self._entries)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if not self.is_leaf:
            raise RuntimeError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
                "protocol at the moment."
            )
        found = memo.get(id(self))
        if found is None:
            found = memo[id(self)] = self.detach().clone().requires_grad_(self.requires_grad)
        return found


COMPOSED.append(OverEntries)


class SparseTensor(OverEntries):
    """A tensor in coordinate form; made by `torch.sparse_coo_tensor` and `Tensor.to_sparse`."""

    __slots__ = ("_coalesced", "_places")

    _places: Any  # int64, (sparse dims, entries)
    _coalesced: bool  # the places are sorted and each occurs once

    is_sparse = True

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        from .functions import FUNCTIONS

        name = op_name(func)
        function = FUNCTIONS.get(name)
        if function is None:
            raise could_not_run(name + overload(name, args))
        return function(*args, **(kwargs or {}))

    @property
    def grad(self) -> Any:
        """The gradient at the places of a leaf, each named once."""
        found = self._entries.grad
        if found is None:
            return None
        order, first, _ = distinct(self)
        return sparse(wrap(order), found[wrap(first)], self._shape, True)

    @grad.setter
    def grad(self, value: Any) -> None:
        if value is not None:
            raise could_not_run("set_.source_Tensor")
        self._entries.grad = None

    @grad.deleter
    def grad(self) -> None:
        self._entries.grad = None

    # ------------------------------------------------------------------ its parts

    def _with(self, entries: Any) -> SparseTensor:
        """Other values at the same places."""
        return sparse(self._places, entries, self._shape, self._coalesced)

    def indices(self) -> Any:
        self._check_coalesced("indices")
        return self._places

    def values(self) -> Any:
        self._check_coalesced("values")
        return named(self._entries, "ValuesBackward0")

    def _check_coalesced(self, what: str) -> None:
        if not self._coalesced:
            raise RuntimeError(
                f"Cannot get {what} on an uncoalesced tensor, please call .coalesce() first"
            )

    def _indices(self) -> Any:
        return self._looked_at(self._places)

    def _values(self) -> Any:
        return self._looked_at(self._entries)

    def _looked_at(self, part: Any) -> Any:
        """A part as users see it: writes to it and to the whole are counted together."""
        shown = part.detach()
        shown._cell = self._version_cell()
        return shown

    def sparse_dim(self) -> int:
        return int(self._places._array.shape[0])

    def dense_dim(self) -> int:
        return len(self._shape) - self.sparse_dim()

    @property
    def real(self) -> Any:
        if not self.is_complex():
            return self
        return sparse(self._places, self._entries.real.clone(), self._shape, False)

    @property
    def nbytes(self) -> int:
        raise RuntimeError(
            "nbytes is not defined for sparse tensors.  If you want the size of the constituent "
            "tensors, add the nbytes of the indices and values.  If you want the size of the  "
            "equivalent dense tensor, multiply numel() by element_size()"
        )

    def _coalesced_(self, coalesced: bool) -> SparseTensor:
        """Say that the places are in order and each occurs once; nobody looks."""
        self._coalesced = coalesced
        return self

    def is_coalesced(self) -> bool:
        return self._coalesced

    def coalesce(self) -> SparseTensor:
        """The tensor with sorted places, entries for one place added up."""
        if self._coalesced:
            return self
        places, _, group = distinct(self)
        entries = add_up(self._entries, group, places.shape[1])
        # PyTorch sorts in place and shows the part of the indices that is left.
        memory = np.empty_like(self._places._array, order="C")
        memory[:, : places.shape[1]] = places
        kept = wrap(memory[:, : places.shape[1]])
        return sparse(kept, named(entries, "CoalesceBackward0"), self._shape, True)

    def to_dense(self, dtype: Any = None, *, masked_grad: Any = None) -> Any:
        if dtype is not None:
            raise RuntimeError("dtype argument is not supported by sparse_to_dense")
        count = math.prod(self._shape[: self.sparse_dim()])
        flat = add_up(self._entries, flat_places(self), count)
        return named(unsafe_view(flat, self._shape), "ToDenseBackward0")

    def _flat(self) -> Any:
        return flat_places(self)

    def to_sparse_csr(self, dense_dim: Any = None) -> Any:
        from .compressed import to_compressed

        return to_compressed(self, True)

    def to_sparse_csc(self, dense_dim: Any = None) -> Any:
        from .compressed import to_compressed

        return to_compressed(self, False)

    def to_sparse(self, sparse_dim: Any = None, *, layout: Any = None, **options: Any) -> Any:
        if layout is sparse_csr or layout is sparse_csc:
            return self.to_sparse_csr() if layout is sparse_csr else self.to_sparse_csc()
        if sparse_dim is not None and sparse_dim != self.sparse_dim():
            raise could_not_run("to_sparse.sparse_dim")
        return self

    to_sparse_coo = to_sparse

    @property
    def layout(self) -> layout_type:
        return sparse_coo

    def stride(self, dim: int | None = None) -> Any:
        return (0,) * len(self._shape) if dim is None else 0

    def storage_offset(self) -> int:
        return 0

    def is_contiguous(self, memory_format: Any = None) -> bool:
        return False

    # ------------------------------------------------------------------ the same, otherwise

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        name = self._entries.type(dtype)
        return name.replace("torch.", "torch.sparse.") if dtype is None else self._with(name)

    def zero_(self) -> SparseTensor:
        """No entries are left."""
        self._places = self._places.new_zeros(self.sparse_dim(), 0)
        self._entries = self._entries.detach().new_zeros(0, *self._entries.shape[1:])
        self._coalesced = True
        bump(self, "zero_")
        return self

    def to(self, *args: Any, **kwargs: Any) -> SparseTensor:
        entries = self._entries.to(*args, **kwargs)
        if entries is self._entries:
            return self
        if entries.is_meta:  # as in PyTorch, how many elements there were is not known there
            places = self._places[:, :0].to("meta")
            return sparse(places, entries[:0], self._shape, self._coalesced)
        return self._with(entries)

    def clone(self, *, memory_format: Any = None) -> SparseTensor:
        return sparse(self._places.clone(), self._entries.clone(), self._shape, self._coalesced)

    def t(self) -> SparseTensor:
        if self.sparse_dim() > 2 or self.dense_dim():
            raise RuntimeError(
                "t() expects a tensor with <= 2 sparse and 0 dense dimensions, but got "
                f"{self.sparse_dim()} sparse and {self.dense_dim()} dense dimensions"
            )
        return self._reordered(tuple(range(len(self._shape)))[::-1], "TBackward0")

    def transpose(self, dim0: int, dim1: int) -> SparseTensor:
        count = len(self._shape)
        a, b = wrap_dim(dim0, count), wrap_dim(dim1, count)
        if a != b and max(a, b) >= self.sparse_dim():
            raise RuntimeError(
                "sparse transpose: transposed dimensions must be sparse Got sparse_dim: "
                f"{self.sparse_dim()}, d0: {a}, d1: {b}"
            )
        order = list(range(count))
        order[a], order[b] = b, a
        return self._reordered(tuple(order), "TransposeBackward0")

    @property
    def T(self) -> SparseTensor:
        return self._reordered(tuple(range(len(self._shape)))[::-1], "PermuteBackward0")

    def permute(self, *dims: Any) -> SparseTensor:
        order = dims[0] if len(dims) == 1 and not isinstance(dims[0], int) else dims
        rank = len(self._shape)
        wrapped = tuple([wrap_dim(d, rank) for d in order])
        if sorted(wrapped) != list(range(rank)):
            raise could_not_run("permute")
        return self._reordered(wrapped, "PermuteBackward0")

    def _reordered(self, order: tuple[int, ...], label: str) -> SparseTensor:
        count = self.sparse_dim()
        if any((old < count) != (new < count) for new, old in enumerate(order)):
            raise could_not_run("permute")
        if order[count:] != tuple(range(count, len(order))):
            raise could_not_run("permute")
        places = wrap(self._places._array[list(order[:count])])
        entries = named(self._entries, label)
        same = order == tuple(range(len(order)))
        shape = tuple([self._shape[d] for d in order])
        return sparse(places, entries, shape, self._coalesced and same)

    def sparse_resize_(self, size: Any, sparse_dim: int, dense_dim: int) -> SparseTensor:
        """Another shape for the entries, which keep their places."""
        shape, before = tuple(size), [self.sparse_dim(), self.dense_dim()]
        if self._nnz():
            for kind, old, new in zip(
                ("sparse", "dense"), before, (sparse_dim, dense_dim), strict=True
            ):
                if old != new:
                    raise RuntimeError(
                        f"changing the number of {kind} dimensions (from {old} to {new}) on a "
                        "non-empty sparse tensor is not supported."
                    )
            have, want = list(self._shape[:sparse_dim]), list(shape[:sparse_dim])
            if any(n < m for n, m in zip(want, have, strict=True)):
                raise RuntimeError(
                    f"shrinking the size of sparse dimensions (from {have} to {want}) on a "
                    "non-empty sparse tensor is not supported."
                )
            if shape[sparse_dim:] != self._shape[sparse_dim:]:
                raise RuntimeError("the dense dimensions of a sparse tensor keep their size here")
        else:
            self._places = self._places.new_zeros(sparse_dim, 0)
            self._entries = self._entries.new_zeros(0, *shape[sparse_dim:])
        self._shape = shape
        self._array = NoElements(shape, self._entries._array.dtype)
        return self

    def sparse_resize_and_clear_(self, size: Any, sparse_dim: int, dense_dim: int) -> SparseTensor:
        """Another shape, and no entries."""
        self._places, self._entries = self._places[:, :0], self._entries[:0]
        return self.sparse_resize_(size, sparse_dim, dense_dim)

    def resize_as_sparse_(self, the_template: Any) -> SparseTensor:
        """The shape of another sparse tensor."""
        return self.sparse_resize_(
            the_template.shape, the_template.sparse_dim(), the_template.dense_dim()
        )

    def sparse_mask(self, mask: Any) -> SparseTensor:
        return self.to_dense().sparse_mask(mask)  # type: ignore[no-any-return]

    # ------------------------------------------------------------------ protocols

    def copy_(self, src: Any, non_blocking: bool = False) -> SparseTensor:
        from .writes import copy_

        return copy_(self, src)

    def numpy(self, *, force: bool = False) -> Any:
        raise TypeError("can't convert Sparse layout tensor to numpy. Use Tensor.to_dense() first.")

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.numpy()

    def __setitem__(self, index: Any, value: Any) -> None:
        raise TypeError("Cannot assign to a sparse tensor")

    def __reduce_ex__(self, protocol: Any) -> Any:
        entries = self._entries.detach()
        parts = (self._places, entries, self._shape, self._coalesced)
        return rebuild, (*parts, self.requires_grad)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        start = "tensor("
        margin = " " * len(start)
        text = (
            f"{start}{part('indices', self._places)},\n{margin}{part('values', self._entries)},\n"
            f"{margin}size={self._shape}"
        )
        return with_notes(text, self, [], 0)


def with_notes(text: str, t: OverEntries, notes: list[str], column: int) -> str:
    """The text of a sparse tensor with what is said at its end, in lines that are not too long."""
    margin = " " * len("tensor(")
    notes = [*notes, f"nnz={t._nnz()}"]
    if not printing._is_implied(t.dtype, bare=False):
        notes.append(f"dtype={t.dtype}")
    notes.extend([f"layout={t.layout}", *printing._grad_note(t)])
    column += len(text) - text.rfind("\n") - 1
    for note in notes:
        if column + len(note) + 2 > printing.PRINT_OPTS.linewidth:
            text += f",\n{margin}{note}"
            column = len(margin) + len(note)
        else:
            text += f", {note}"
            column += len(note) + 2
    return text + ")"


def part(name: str, t: Any) -> str:
    """One of the two tensors inside the text of a sparse one."""
    head = f"{name}=tensor("
    size = f", size={tuple(t.shape)}" if not t.numel() else ""
    return f"{head}{printing._contents(t, len('tensor(') + len(head))}{size})"


def sparse(places: Any, entries: Any, shape: tuple[int, ...], coalesced: bool) -> SparseTensor:
    """A sparse tensor of these parts, which are taken as they are."""
    t: Any = blank(SparseTensor)
    t._array = NoElements(shape, entries._array.dtype)
    t._special = INTERPRETED
    t._places = places
    t._entries = entries
    t._shape = shape
    # What has one entry or none cannot be out of order.
    t._coalesced = coalesced or entries._array.shape[0] < 2
    return t  # type: ignore[no-any-return]


def rebuild(
    places: Any, entries: Any, shape: tuple[int, ...], coalesced: bool, requires_grad: bool
) -> SparseTensor:
    """Make a tensor from its pickled parts."""
    return sparse(places, entries, shape, coalesced).requires_grad_(requires_grad)


# ---------------------------------------------------------------------- places as numbers


def check_places(places: Any, shape: tuple[int, ...]) -> None:
    """Every index must lie inside the shape."""
    if not places.shape[1]:
        return
    for dim, (least, most) in enumerate(
        zip(places.min(1).tolist(), places.max(1).tolist(), strict=True)
    ):
        if least < 0:
            raise RuntimeError(f"found negative index {least} for dim {dim}")
        if most >= shape[dim]:
            raise RuntimeError(
                f"size is inconsistent with indices: for dim {dim}, size is {shape[dim]} but "
                f"found index {most}"
            )


def flat_places(t: SparseTensor) -> Any:
    """The place of each entry as one number, in row-major order.

    PyTorch trusts the indices unless asked to check them; here a wrong one is found at this point.
    """
    places = t._places._array
    shape = t._shape[: t.sparse_dim()]
    check_places(places, shape)
    flat = np.zeros(places.shape[1], np.int64)
    for row, length in zip(places, shape, strict=True):
        flat = flat * length + row
    return flat


def unflat(flat: Any, shape: tuple[int, ...]) -> Any:
    """The inverse of `flat_places`."""
    if not shape:
        return np.zeros((0, len(flat)), np.int64)
    return np.stack(np.unravel_index(flat, shape)).astype(np.int64, copy=False)


def distinct(t: SparseTensor) -> tuple[Any, Any, Any]:
    """The sorted places without repetition, an entry at each, and which of them each entry has."""
    flat, first, group = np.unique(flat_places(t), return_index=True, return_inverse=True)
    return unflat(flat, t._shape[: t.sparse_dim()]), first, group.reshape(-1)


def add_up(entries: Any, group: Any, count: int) -> Any:
    """Sum the entries of each group."""
    shape = (count, *entries.shape[1:])
    if entries._array.dtype.kind == "b":
        seen = np.zeros(shape, bool)
        np.logical_or.at(seen, group, entries._array)
        return wrap(seen)
    zeros = entries.new_zeros(shape)
    recorded = entries._special or (entries.requires_grad and MODES.records)
    if type(entries._array) is np.ndarray and not recorded:
        IndexAdd.into(zeros._array, group, entries._array, 0, 1)  # nothing to record: no copy
        return zeros
    return zeros.index_add(0, wrap(group), entries)


def overload(name: str, args: Any) -> str:
    """The second half of the names of comparisons."""
    if name not in REGISTRY or REGISTRY[name].sign not in ("==", "!=", "<", "<=", ">", ">="):
        return ""
    return ".Tensor" if len(args) > 1 and isinstance(args[1], Tensor) else ".Scalar"


# ---------------------------------------------------------------------- methods of Tensor

CASTS = "bfloat16 bool byte cdouble cfloat char double float half int long short"
# What Tensor answers from shape and dtype alone, or from the values.
KEPT = frozenset(
    """
    backward dim element_size get_device is_complex is_conj is_distributed is_floating_point
    is_inference is_neg is_signed item ndimension nelement numel size version_cell
    """.split()
)


def cast_method(name: str) -> Callable[..., Any]:
    def method(self: OverEntries) -> Any:
        entries = getattr(self._entries, name)()
        return self if entries is self._entries else self._with(entries)

    method.__name__ = name
    return method


# What PyTorch says of methods that it has no kernel for, where it does not name them.
NO_STORAGE = "Cannot access storage of SparseTensorImpl"
SENTENCES = (
    *[
        (
            RuntimeError(f"{name} expected sparse {kind} compressed tensor layout but got Sparse"),
            name,
        )
        for kind, names in (
            ("row", "crow_indices col_indices"),
            ("column", "ccol_indices row_indices"),
        )
        for name in names.split()
    ],
    (RuntimeError("unsupported memory format option Contiguous"), "contiguous"),
    (RuntimeError("expand is unsupported for Sparse tensors"), "expand repeat"),
    (RuntimeError("reshape is not implemented for sparse tensors"), "flatten reshape"),
    (NotImplementedError(NO_STORAGE), "storage untyped_storage"),
    (could_not_run("fill_.Scalar"), "fill_"),
    (could_not_run("ne.Scalar"), "isfinite"),
    (no_strides(), "narrow squeeze"),
)
SAID = {name: error for error, names in SENTENCES for name in names.split()}


def sparse_refusal(name: str) -> Exception:
    said = SAID.get(name)
    return could_not_run(name) if said is None else type(said)(*said.args)


def refusing(name: str, refusal: Callable[[str], Exception]) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise refusal(name)

    method.__name__ = name
    return method


def close_class(
    cls: type, computed: set[str], refusal: Callable[[str], Exception] = sparse_refusal
) -> None:
    """Casts act on the values; every other method of Tensor that is not `computed` refuses."""
    own = {**vars(OverEntries), **vars(cls)}
    for name in CASTS.split():
        setattr(cls, name, cast_method(name))
    for name in dir(Tensor):
        found = getattr(Tensor, name)
        known = name in own or name in KEPT or name in computed or name in CASTS.split()
        if name.startswith("_") or known or not callable(found):
            continue
        setattr(cls, name, refusing(name, refusal))
