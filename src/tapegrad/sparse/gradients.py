"""Gradients that are sparse: of tables whose rows were looked up, and of `gather`."""

from __future__ import annotations

from typing import Any

import tapegrad as tg

from .coo import SparseTensor, sparse
from .history import named


def at_places(places: Any, entries: Any, shape: tuple[int, ...]) -> SparseTensor:
    """A gradient with `entries` at `places`, which may repeat; it is recorded with the pass."""
    history = named(entries, "SparseCooTensorWithDimsAndTensorsBackward0")
    # A copy: the gradient stays what it is when somebody writes into the indices.
    return sparse(places.to(tg.int64, copy=True), history, shape, False)


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
