"""The meanings of F. A gradient rule is written once against `F` and plain operators.

`RAW` runs the kernels on bare arrays: first-order backward makes no tensors. `RECORDED` runs the
ops on tensors, so that the backward pass can be differentiated again. Both are filled from the
registry; the arguments of `F.<op>` are those of the op's kernel: tensors first, then the
attributes, by position.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .modes import MODES


class Space:
    """A namespace with one callable per op."""

    # Rules ask here what only tensors or only arrays can answer.
    recorded: bool = False

    def is_final(self, *values: Any) -> bool:
        """Whether nothing is differentiated that a rule makes of these values."""
        return True

    def __getattr__(self, name: str) -> Callable[..., Any]:
        raise AttributeError(f"no op is called {name!r}")


class RecordedSpace(Space):
    recorded = True

    def is_final(self, *values: Any) -> bool:
        return not MODES.grad and not any([x is not None and x._special for x in values])


class DeviceSpace(Space):
    """F on the arrays of a GPU, filled as rules ask for ops."""

    def __init__(self, find: Callable[[str], Any]) -> None:
        self.find = find

    def __getattr__(self, name: str) -> Callable[..., Any]:
        found = self.find(name)
        setattr(self, name, found)
        return found  # type: ignore[no-any-return]


RAW = Space()
RECORDED = RecordedSpace()
