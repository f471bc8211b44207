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
from ..capture.python_state import PythonState
from ..capture.reachable import Reachable
from ..program.guard_table import GuardTable


class Listener:
    """The place where hooks of instrumented code report why a step cannot be a graph."""

    body: Any = None
    looks_at_numbers = False

    def __init__(self, leaves: list[Any]) -> None:
        self.trouble = ""
        self.leaves = {id(t): t for t in leaves}

    def give_up(self, reason: str) -> None:
        self.trouble = self.trouble or reason

    def give_up_at(self, reason: str, where: Any, places: Any) -> None:
        self.give_up(reason)

    def is_made(self, array: Any) -> bool:
        return False

    def stands_for_array(self, value: Any) -> bool:
        return False

    def meet(self, t: Any) -> None:
        """The memory of tensors is compared by `GraphedCalls` itself."""


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
        self.guards: list[GuardTable] = []  # of each recording
        self.reads: Any = None  # by the latest call that was no replay
        self.memory: list[tuple[Any, Any, bool]] = []
        self.before: list[tuple[Any, Any]] = []  # leaves, and their gradients when it was recorded
        self.owners: list[Any] = []  # optimizers and schedulers

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
            self.guards.append(GuardTable(self.reads))
            self.before = [(t, g) for t, g in before if g is None or t._gradient is g]
        return out if not self.graphed.recordings else pytree.tree_map(copied, out)

    def begin(self) -> None:
        self.forget()
        self.graphed = make_graphed_step(self.watched)
        found = Reachable(self.function)
        known = {id(t): t for t in found.tensors}
        for owner in found.owners:
            for group in getattr(owner, "param_groups", ()):
                known.update({id(p): p for p in group["params"]})
        self.owners = found.owners
        self.memory = [(t, t._array, t._wants_grad) for t in known.values()]

    def still_holds(self) -> bool:
        if any([each.changed() for each in self.guards]):
            return False
        for t, array, wants_grad in self.memory:
            if t._array is not array or t._wants_grad is not wants_grad:
                return False
        return all([t._gradient is g for t, g in self.before])

    def watched(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function; make no graph if its results are differentiated later, or if it does
        something that a graph would not repeat."""
        leaves = [t for t, _, wants_grad in self.memory if wants_grad]
        listener = Listener(leaves)
        with PythonState(listener, self.function, args) as state:
            state.guard_hooks(leaves, self.owners)
            out = state.run(self.function, args, kwargs)
            state.guard_nodes()
        self.reads = state.reads
        self.reason = self.reason or listener.trouble
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
