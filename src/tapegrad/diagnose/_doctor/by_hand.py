"""Steps that no optimizer takes: `w.data -= lr * w.grad`, `with no_grad(): w -= ...` (D01).

And the one that goes wrong: `w = w - lr * w.grad` makes a new tensor, and the leaf is lost (D28).
"""

from __future__ import annotations

import weakref
from typing import Any

from ...errors import evidence
from ...errors.history import LOST_LEAF
from .. import alive
from .loop import SURE
from .state import Patient
from .values import fingerprint, grad_of, is_zero, named
from .watch import BackwardCall, Listener, place_of_spot


class Leaf:
    """A leaf and its gradient as they looked after the last backward pass that reached the leaf."""

    def __init__(self, p: Any) -> None:
        self.ref = weakref.ref(p)
        self.values = fingerprint(p)
        self.gradient = fingerprint(p._gradient)


class HandSteps(Listener):
    """A leaf with a gradient that was written between two backward passes has made a step.

    If its gradient is the one that was there before the write, the next backward adds to it.
    """

    def __init__(self, patient: Patient) -> None:
        self.patient = patient
        self.leaves: dict[int, Leaf] = {}
        self.faults: dict[Any, int] = {}  # by the line of backward
        self.places = alive.Places()

    def before_backward(self, call: BackwardCall) -> None:
        reached = call.graph.leaf_ids
        self.patient.report.by_hand += any(self.written(key) for key in self.leaves)
        self.check_lost(call)
        stale = [p for p in map(self.stale, list(self.leaves)) if p is not None]
        stale = [p for p in stale if id(p) in reached]
        if not stale:
            return
        self.faults[call.where] = self.faults.get(call.where, 0) + 1
        if self.faults[call.where] < SURE:
            return
        names = [evidence.name_of(p._array) or self.patient.name(p) for p in stale]
        first = names[0] if names[0].isidentifier() else "w"
        self.patient.report.add(
            "D01",
            f"{named(names, 3)} changed by hand since the last backward(), and .grad still holds "
            "the gradient of that step: the new one is added to it",
            place_of_spot(call.where),
            f"forget the gradient after the update: {first}.grad = None, or {first}.grad.zero_()",
            count=SURE,
        )

    def check_lost(self, call: BackwardCall) -> None:
        """A loss that is computed from a leaf through the line that was to update it."""
        for node in call.graph.nodes:
            if not any(edge is not None and edge._is_leaf for edge in node._edges):
                continue
            where = self.places.of(node)
            lost = None if where is None else LOST_LEAF.match(where["text"])
            if lost is not None:
                self.patient.report.add(
                    "D28",
                    f"`{lost[1]}` is a new tensor after this line, no leaf: backward() fills the "
                    "gradient of the tensor that it was, which nobody updates any more",
                    where,
                    f"write into it: with torch.no_grad(): {lost[1]} {lost[2]}= {lost[3]}",
                    ["make a leaf of the result: (...).detach().requires_grad_()"],
                )
                return

    def written(self, key: int) -> bool:
        """Whether a leaf that no optimizer has is another than after the last backward."""
        leaf = self.leaves[key]
        p = leaf.ref()
        return (
            p is not None and not self.patient.known(p).optimized and fingerprint(p) != leaf.values
        )

    def stale(self, key: int) -> Any:
        """The leaf, if it was written and its gradient was not; None otherwise."""
        leaf = self.leaves[key]
        p = leaf.ref()
        if p is None or self.patient.known(p).optimized:
            del self.leaves[key]
            return None
        grad = grad_of(p)
        if grad is None or is_zero(grad) or fingerprint(p._gradient) != leaf.gradient:
            return None
        return p if self.written(key) else None

    def after_backward(self, call: BackwardCall) -> None:
        for node in call.graph.leaves:
            p = node.tensor()
            if p is not None and grad_of(p) is not None and not self.patient.known(p).optimized:
                self.leaves[id(p)] = Leaf(p)
