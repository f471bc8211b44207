"""Variable: the wrapper of PyTorch before 0.4. Today it is the tensor itself."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from ..core.base import Node, TensorBase, shown
from ..core.late_bound import TENSOR
from ..core.modes import MODES
from ..core.warned import warn


class Engine:
    """The methods of `Variable._execution_engine` that programs call."""

    def queue_callback(self, callback: Callable[[], Any]) -> None:
        """Call a function when the backward pass that is going on has come to its end."""
        if MODES.run is None:
            raise RuntimeError("Final callbacks can only be installed during backward pass.")
        MODES.run.callbacks.append(callback)

    def is_checkpoint_valid(self) -> bool:
        """Whether the pass fills leaves, which a reentrant checkpoint needs."""
        return MODES.run is None or MODES.run.captures is None


passes = itertools.count()


def current_pass() -> int:
    """The number of the backward pass that is going on in this thread; -1: none."""
    run = MODES.run
    if run is None:
        return -1
    if run.number < 0:
        run.number = next(passes)
    return int(run.number)


def _keeps_graph() -> bool:
    """Whether the backward pass that is going on keeps what it used."""
    return MODES.run is not None and bool(MODES.run.keep)


def _will_engine_execute_node(node: Any) -> bool:
    """Whether the backward pass that is going on visits a node, now or before."""
    if not isinstance(node, Node):
        raise RuntimeError(
            f"_will_engine_execute_node expects an grad_fn, but got {type(node).__name__}"
        )
    run = MODES.run
    if run is None:
        raise RuntimeError(
            "_get_should_execute_nodes should only be called during the backward pass"
        )
    if run.captures is not None and node._is_leaf and node in run.captures:
        raise RuntimeError(
            "A leaf node was passed to _will_engine_execute_node but we are currently running "
            "autograd.grad(). This is currently not supported."
        )
    pending = run.pending.get(node)
    if pending is None or not pending.useful:
        return False
    return run.captures is None or pending.leads_on


def _execution_order() -> list[Any]:
    """The nodes that the pass which is going on will still visit, in the order of their visits."""
    run = MODES.run
    if run is None:
        raise RuntimeError(
            "_current_graph_task_execution_order should only be called during the backward pass"
        )
    if MODES.threads:
        raise RuntimeError(
            "get_current_graph_task_execution_order expects the current backward to be executed "
            "with multithreading disabled, e.g. by running:\n\n"
            "with torch.autograd.set_multithreading_enabled(False):\n    ..."
        )
    queued = [pending.node for pending in (*run.leaves, *[p for _, p in run.complete])]
    if run.following is not None:
        queued.append(run.following.node)
    waiting = {node: pending.waiting for node, pending in run.pending.items()}
    ready = [(0, 0, run.at), *[place_of(node) for node in queued]]
    found = []
    while ready:
        first = min(ready, key=lambda item: item[:2])
        ready.remove(first)
        node = first[2]
        if not run.pending[node].useful:
            continue
        found.append(shown(node) or node)
        for edge in node._edges:
            if edge is not None:
                waiting[edge] -= 1
                if waiting[edge] == 0:
                    ready.append(place_of(edge))
    return found


def place_of(node: Node) -> tuple[int, int, Node]:
    """When a node that is complete is visited: leaves first, then what was recorded last."""
    return (0, 0, node) if node._is_leaf else (1, -node._seq, node)


def current_node() -> Node | None:
    """The node that the backward pass in this thread is at."""
    return None if MODES.run is None else shown(MODES.run.at)


class VariableMeta(type):
    def __instancecheck__(cls, other: Any) -> bool:
        return isinstance(other, TensorBase)


class Variable(metaclass=VariableMeta):
    """Variable(data, requires_grad=False): a tensor that looks at `data`'s memory.

    >>> autograd.Variable(tensor([1.0]), requires_grad=True)
    tensor([1.], requires_grad=True)
    """

    _execution_engine = Engine()

    def __new__(
        cls, data: Any = None, requires_grad: bool = False, volatile: Any = None, **kwargs: Any
    ) -> Any:
        if volatile is not None:
            warn(
                "volatile was removed and now has no effect. Use `with torch.no_grad():` instead.",
                UserWarning,
            )
        if data is None:
            data = TENSOR.cls()
        if not isinstance(data, TensorBase):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        made: Any = data.data  # type: ignore[attr-defined]
        made._cut = None
        if requires_grad:
            made.requires_grad_(True)
        return made
