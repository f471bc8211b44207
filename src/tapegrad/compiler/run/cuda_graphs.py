"""Calls on a GPU, where a compiled function was asked for CUDA graphs: `mode="reduce-overhead"`.

`cuda.make_graphed_step` records the step. Here is what it takes for granted: the guards of any
recording, the memory of the tensors, and what gradients there are when a call begins.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core import devices
from ...core.base import TensorBase, wrap
from ...cuda.graphs import make_graphed_step
from ...utils import _pytree as pytree
from ..backward.of_results import is_alive
from ..capture.guards import Guards, LeafHooks


class GraphedCalls:
    """A function whose calls on a GPU are CUDA graphs."""

    steps: tuple[
        Any, ...
    ] = ()  # as `is_alive` looks for them: no gradient was set by a step of ours

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.reason = ""  # why there is no graph
        self.forget()

    def forget(self) -> None:
        self.graphed: Any = None
        self.guards: Any = None
        self.memory: list[tuple[Any, Any, bool]] = []
        self.before: list[tuple[Any, Any]] = []  # leaves, and their gradients when it was recorded
        self.count = 0

    def __call__(self, values: list[Any], args: Any, kwargs: Any) -> Any:
        on_device = [devices.is_device(v) for v in values if isinstance(v, TensorBase)]
        if self.reason or not all(on_device):
            return self.function(*args, **kwargs)
        if self.graphed is None or not self.still_holds():
            self.begin()
        known = len(self.graphed.recordings)
        before = [(t, t._gradient) for t, _, wants_grad in self.memory if wants_grad]
        out = self.graphed(*args, **kwargs)
        if len(self.graphed.recordings) > known:
            self.before = [(t, g) for t, g in before if g is None or t._gradient is g]
        return out if not self.graphed.recordings else pytree.tree_map(copied, out)

    def begin(self) -> None:
        self.forget()
        self.graphed = make_graphed_step(self.watched)
        self.guards = Guards(self.function)
        known = {id(t): t for t in self.guards.tensors}
        for owner in self.guards.kept_apart:
            for group in getattr(owner, "param_groups", ()):
                known.update({id(p): p for p in group["params"]})
        self.memory = [(t, t._array, t._wants_grad) for t in known.values()]
        self.guards.take_over(LeafHooks([t for t in known.values() if t._wants_grad]))

    def still_holds(self) -> bool:
        if self.guards.changed():
            return False
        for t, array, wants_grad in self.memory:
            if t._array is not array or t._wants_grad is not wants_grad:
                return False
        return all([t._gradient is g for t, g in self.before])

    def watched(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function; make no graph if its results are differentiated later."""
        out = self.function(*args, **kwargs)
        if any([is_alive(r, self) for r in pytree.tree_flatten(out)[0]]):
            self.reason = "what it returns is differentiated outside of it"
        return out


def copied(value: Any) -> Any:
    """Copies of a graph's results, which are in its memory, with the same history."""
    if not isinstance(value, TensorBase):
        return value
    made: Any = wrap(value._array.copy())
    made._wants_grad, made._node, made._slot = value._wants_grad, value._node, value._slot
    return made
