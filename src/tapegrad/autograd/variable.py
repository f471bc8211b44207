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
