"""Gradients that are sparse: of tables whose rows were looked up, and of `gather`."""

from __future__ import annotations

from typing import Any

import tapegrad as tg

from ..autograd.starts import check_seed
from .coo import SparseTensor, sparse
from .history import named


def at_places(places: Any, entries: Any, shape: tuple[int, ...]) -> SparseTensor:
    """A gradient with `entries` at `places`, which may repeat; it is recorded with the pass."""
    history = named(entries, "SparseCooTensorWithDimsAndTensorsBackward0")
    # A copy: the gradient stays what it is when somebody writes into the indices.
    return sparse(places.to(tg.int64, copy=True), history, shape, False)


def on_entries(root: Any, g: Any, index: int) -> tuple[Any, Any]:
    """The values of a sparse tensor that a pass starts from, and their first gradient.

    The history of a sparse tensor is that of its values, so the gradient is read at its places.
    """
    if g is None:
        if root._array.size != 1:
            raise RuntimeError("grad can be implicitly created only for scalar outputs")
        return root._entries, tg.ones_like(root._entries)
    if not isinstance(g, tg.Tensor):
        return root._entries, g
    check_seed(root, g, index)
    if g.layout not in (root.layout, tg.strided, tg.sparse_coo):
        raise RuntimeError(
            f"invalid gradient at index {index} - expected layout {layout_name(root)} but got "
            f"{layout_name(g)}"
        )
    if g.layout is root.layout and same_places(root, g):
        return root._entries, g._entries
    whole = g if g.layout is tg.strided else g.to_dense()
    if root.layout is tg.sparse_coo and not root.is_coalesced():
        return root._entries, whole[tuple(root._indices())]
    return root._entries, whole.sparse_mask(root.detach())._entries


def layout_name(t: Any) -> str:
    """The name of a layout in PyTorch's errors: Strided, Sparse, SparseCsr."""
    words = str(t.layout).removeprefix("torch.").removesuffix("_coo").split("_")
    return "".join([word.capitalize() for word in words])


def same_places(a: Any, b: Any) -> bool:
    """Whether two tensors of one layout have their entries at the same places, in one order."""
    if a._nnz() != b._nnz():
        return False
    names = ("_places",) if a.layout is tg.sparse_coo else ("_start", "_inner")
    return all([tg.equal(getattr(a, name), getattr(b, name)) for name in names])


def accumulate(leaf: Any, g: Any) -> None:
    """Make `g` the gradient of a leaf, or add it to the one that is there; one of them is sparse.

    A dense gradient that meets a sparse one takes its place, a sparse one is written into it.
    """
    before = leaf._gradient
    if before is None:
        leaf._gradient = g._with(g._entries.detach().contiguous())
    elif isinstance(before, SparseTensor) and not isinstance(g, SparseTensor):
        leaf._gradient = g.detach() + before
    else:
        before.add_(g)
