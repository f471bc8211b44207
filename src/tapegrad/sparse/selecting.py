"""Parts of sparse tensors, sparse tensors side by side, and products of two element by element."""

from __future__ import annotations

from typing import Any

import numpy as np

import tapegrad as tg

from ..core.arguments import wrap_dim
from ..core.base import wrap
from ..ops.shape.joining import Cat
from .coo import SparseTensor, flat_places, sparse
from .history import could_not_run, named, no_strides


def index_select(a: SparseTensor, dim: int, index: Any) -> SparseTensor:
    dim = wrap_dim(dim, len(a._shape))
    size = a._shape[dim]
    wanted = index._array.reshape(-1)
    wrong = wanted[(wanted < -size) | (wanted >= size)]
    if wrong.size:
        raise IndexError(
            f"index_select(): index contains {int(wrong[0])} that is out of range for tensor of "
            f"size {list(a._shape)} at dimension {dim}"
        )
    wanted = np.where(wanted < 0, wanted + size, wanted)
    shape = (*a._shape[:dim], len(wanted), *a._shape[dim + 1 :])
    inner = dim - a.sparse_dim()
    if inner >= 0:
        entries = a._entries.index_select(inner + 1, wrap(wanted))
        return sparse(a._places, named(entries, "IndexSelectBackward0"), shape, False)
    have = a._places._array
    # In PyTorch's order: by what there is more of.
    if have.shape[1] < len(wanted):
        entry, place = np.nonzero(have[dim][:, None] == wanted)
    else:
        place, entry = np.nonzero(wanted[:, None] == have[dim])
    places = have[:, entry]
    places[dim] = place
    entries = named(a._entries[wrap(entry)], "IndexSelectBackward0")
    return sparse(wrap(places), entries, shape, False)


def select(a: SparseTensor, dim: int, index: int, *, label: str = "SelectBackward0") -> Any:
    """One slice, dense if nothing sparse is left."""
    dim = wrap_dim(dim, len(a._shape))
    size = a._shape[dim]
    if not -size <= index < size:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(a._shape)} at "
            f"dimension {dim}"
        )
    index %= size
    shape = a._shape[:dim] + a._shape[dim + 1 :]
    inner = dim - a.sparse_dim()
    if inner >= 0:
        entries = a._entries.select(inner + 1, index)
        return sparse(a._places, named(entries, label), shape, False)
    have = a._places._array
    entry = np.nonzero(have[dim] == index)[0]
    entries = a._entries[wrap(entry)]
    if a.sparse_dim() == 1:
        return named(entries.sum(0, dtype=a.dtype), label)
    places = np.delete(have, dim, 0)[:, entry]
    return sparse(wrap(places), named(entries, label), shape, False)


def unbind(a: SparseTensor, dim: int = 0) -> tuple[Any, ...]:
    dim = wrap_dim(dim, len(a._shape))
    return tuple([select(a, dim, i, label="UnbindBackward0") for i in range(a._shape[dim])])


def unsqueeze(a: SparseTensor, dim: int) -> SparseTensor:
    dim = wrap_dim(dim, len(a._shape) + 1)
    shape = (*a._shape[:dim], 1, *a._shape[dim:])
    inner = dim - a.sparse_dim()
    if inner > 0:
        entries = named(a._entries.unsqueeze(inner + 1), "UnsqueezeBackward0")
        return sparse(a._places, entries, shape, False)
    places = wrap(np.insert(a._places._array, dim, 0, 0))
    entries = named(a._entries.unsqueeze(0).squeeze(0), "UnsqueezeBackward0")
    return sparse(places, entries, shape, False)


def narrow_copy(a: SparseTensor, dim: int, start: int, length: int) -> SparseTensor:
    if not 0 <= dim < len(a._shape):
        raise RuntimeError(f"Dimension {dim} out of range. Expecting 0 <= dim < {len(a._shape)}.")
    size = a._shape[dim]
    if start < 0 or length < 0 or start + length > size:
        raise RuntimeError(
            "Invalid range to narrow. range(start, start+length) must be a subset of range(0, "
            f"{size})."
        )
    shape = (*a._shape[:dim], length, *a._shape[dim + 1 :])
    inner = dim - a.sparse_dim()
    if inner >= 0:
        entries = a._entries.narrow(inner + 1, start, length).clone()
        return sparse(a._places, entries, shape, a._coalesced)
    have = a._places._array
    entry = np.nonzero((have[dim] >= start) & (have[dim] < start + length))[0]
    places = have[:, entry]
    places[dim] -= start
    return sparse(wrap(places), a._entries[wrap(entry)], shape, a._coalesced)


def cat(tensors: Any, dim: int = 0, *, label: str = "CatBackward0") -> SparseTensor:
    first = next(t for t in tensors if isinstance(t, SparseTensor))
    if not all(isinstance(t, SparseTensor) for t in tensors):
        raise could_not_run(Cat.name)
    dim = wrap_dim(dim, len(first._shape))
    count = first.sparse_dim()
    fixed = first._shape[:dim] + first._shape[dim + 1 :]
    for i, t in enumerate(tensors):
        if t._shape[:dim] + t._shape[dim + 1 :] != fixed:
            raise RuntimeError(
                f"All tensors must have the same shape: {list(first._shape)} (except in the "
                f"concatenating dimension), but found shape: {list(t._shape)} at position {i}."
            )
        if t.sparse_dim() != count:
            raise RuntimeError(
                f"All tensors must have the same sparse_dim and dense_dim: {count}, "
                f"{first.dense_dim()}, but tensor at position {i} has {t.sparse_dim()}, "
                f"{t.dense_dim()}."
            )
    shape = (*first._shape[:dim], sum([t._shape[dim] for t in tensors]), *first._shape[dim + 1 :])
    before = 0
    places, entries = [], []
    for t in tensors:
        moved, values = t._places._array.copy(), t._entries
        if dim < count:
            moved[dim] += before
        else:  # the entries of one have zeros where those of the others are
            inner = dim - count + 1
            sizes = list(values.shape)
            left, right = sizes[:], sizes[:]
            left[inner], right[inner] = before, shape[dim] - before - t._shape[dim]
            values = tg.cat([values.new_zeros(left), values, values.new_zeros(right)], inner)
        places.append(moved)
        entries.append(values)
        before += t._shape[dim]
    whole = named(tg.cat(entries), label)
    return sparse(wrap(np.concatenate(places, 1)), whole, shape, False)


def stack(tensors: Any, dim: int = 0) -> SparseTensor:
    for i, t in enumerate(tensors):
        if t.shape != tensors[0].shape:
            raise RuntimeError(
                "stack expects each tensor to be equal size, but got "
                f"{list(tensors[0].shape)} at entry 0 and {list(t.shape)} at entry {i}"
            )
    dim = wrap_dim(dim, len(tensors[0].shape) + 1)
    return cat([unsqueeze(t, dim) for t in tensors], dim, label="StackBackward0")


def product(a: SparseTensor, b: SparseTensor) -> SparseTensor:
    """The elements of two multiplied: at the places of both, or of the one that repeats some."""
    count = a.sparse_dim()
    if (
        len(a._shape) != len(b._shape)
        or count != b.sparse_dim()
        or a._shape[:count] != b._shape[:count]
    ):
        raise RuntimeError(
            "sparse_binary_op_intersection_cpu(): expects sparse inputs with equal dimensionality, "
            "number of sparse dimensions, and shape of sparse dimensions"
        )
    shape = tuple(np.broadcast_shapes(a._shape, b._shape))
    if not a._nnz() or not b._nnz():
        none = wrap(np.zeros(0, np.int64))
        entries = named(a._entries[none] * b._entries[none], "MulBackward0")
        return sparse(wrap(np.zeros((count, 0), np.int64)), entries, shape, True)
    if a._coalesced and b._coalesced:
        _, x, y = np.intersect1d(flat_places(a), flat_places(b), True, True)
        entries = a._entries[wrap(x)] * b._entries[wrap(y)]
        places = wrap(a._places._array[:, x])
        return sparse(places, named(entries, "MulBackward0"), shape, True)
    kept, other = a, b
    if a._coalesced or (not b._coalesced and b._nnz() < a._nnz()):
        kept, other = b, a
    other = other.coalesce()
    have, known = flat_places(kept), flat_places(other)
    at = np.minimum(np.searchsorted(known, have), len(known) - 1)
    there = wrap((known[at] == have).reshape(-1, *[1] * kept.dense_dim()))
    partners = other._entries[wrap(at)]
    entries = kept._entries * tg.where(there, partners, tg.zeros_like(partners))
    return sparse(kept._places, named(entries, "MulBackward0"), shape, False)


def getitem(a: SparseTensor, index: Any) -> Any:
    """`a[index]` for whole numbers, None and what takes all of a dimension."""
    parts = index if isinstance(index, tuple) else (index,)
    given = sum([p is not None and p is not Ellipsis for p in parts])
    rank = len(a._shape)
    if given > rank:
        raise IndexError(f"too many indices for tensor of dimension {rank}")
    found: Any = a
    dim = 0
    for part in parts:
        if part is Ellipsis:
            dim += rank - given
        elif part is None:
            found = found.unsqueeze(dim)
            dim += 1
        elif isinstance(part, slice):
            if part != slice(None):
                raise no_strides()
            dim += 1
        elif isinstance(part, (int, np.integer)) and not isinstance(part, bool):
            size = found.shape[dim]
            if not -size <= part < size:
                raise IndexError(
                    f"index {part} is out of bounds for dimension {dim} with size {size}"
                )
            found = found.select(dim, int(part))
        else:
            raise could_not_run("index.Tensor")
    return found
