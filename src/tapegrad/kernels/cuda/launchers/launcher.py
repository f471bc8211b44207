"""Launcher: runs kernels on the GPU in place of an op's forward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Launcher:
    """Runs the kernels of one op; calls that they do not take are left to the op's own forward.

    `fits` looks at dtypes and layouts. `plan` says how a call that fits is launched, worked out
    once for its shapes; None if there is no kernel for them after all. `run` allocates the results
    and launches. All three are given the arguments of the op, `run` the plan first.
    """

    op = ""

    def __init__(self, reference: Callable[[str], Any]) -> None:
        self.reference = reference(self.op)

    def fits(self, *args: Any) -> bool:
        raise NotImplementedError

    def plan(self, *args: Any) -> Any:
        raise NotImplementedError

    def run(self, plan: Any, *args: Any) -> Any:
        raise NotImplementedError

    def tried(self, *args: Any) -> Any:
        """The result of the kernels; None, and nothing is done, if they do not take a call."""
        if not self.fits(*args):
            return None
        plan = self.plan(*args)
        return None if plan is None else self.run(plan, *args)

    def __call__(self, *args: Any) -> Any:
        found = self.tried(*args)
        return self.reference(*args) if found is None else found

    def register(self, backend: Any) -> None:
        backend.overrides[self.op] = self
