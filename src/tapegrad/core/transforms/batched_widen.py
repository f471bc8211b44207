"""Tensors that become batched in place.

`grad` inside of a vmap gives every input all open batches, also one that has none of its own. A
function that writes such values into a buffer which it just made would be told that the buffer has
no room for a batch, although nobody batched anything. So the buffer gets the batch: it, and all its
views when they next look.
"""

from __future__ import annotations

from typing import Any

from ..base import INTERPRETED
from ..late_bound import VIEWS
from .batched import Batch, batch_of, batched, entry_of, is_batched
from .levels import Level


def widen(target: Any, level: Level) -> bool:
    """Add the batch of a level to a tensor in place; False if that is up to the user."""
    base = target if target._view_of is None else target._view_of.base
    if not level.lifted or is_batched(base) or (base._wants_grad and base.is_leaf):
        return False
    from .dual import laid_out_as

    before = base._array
    whole = laid_out_as(before, (level.size,)).copy_(base)
    become(base, whole, level, before)
    base._version_cell().bump("widen")
    if target is not base:
        follow(target)
    return True


def follow(view: Any) -> None:
    """A view of a tensor that has become batched: make it again as a view of the batch."""
    found = batch_of(view._view_of.base)
    shown = batched(found.physical, found.level)
    seen = VIEWS.seen_from(view, shown, found.before)
    become(view, batch_of(seen).physical, found.level, view._array)
    view._view_of = None


def become(t: Any, physical: Any, level: Level, before: Any) -> None:
    t._array = entry_of(physical)
    t._special = INTERPRETED
    t.__dict__.pop("_dual", None)
    t.__dict__["_batch"] = batch = Batch(level, physical)
    batch.before = before
    t._wants_grad = False
    t._node = t._cut = None
    t._slot = 0
