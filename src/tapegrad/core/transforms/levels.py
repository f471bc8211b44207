"""The stack of transforms that are running: which levels are open in this thread.

`vmap` opens a level whose tensors carry a batch dimension that nobody sees (batched.py),
forward mode one whose tensors carry a tangent (dual.py). `grad` and `vjp` open one too: they
use the ordinary tape, but what may not be called inside a transform has to know.
"""

from __future__ import annotations

from typing import Any

from ..per_thread import PerThread


class Level:
    """One transform that is running; what it marked is ordinary again, or dead, once it ends."""

    def __init__(self, number: int, kind: str, size: int = 0, randomness: str = "error") -> None:
        self.number = number
        self.kind = kind  # "vmap", "jvp", "grad", or "dual" for autograd.forward_ad
        self.size = size  # of the batch
        self.randomness = randomness
        self.directions = False  # a batch of tangents only: no value ever has it
        self.lifted = False  # `grad` gave the batch to an input that had none
        self.inside = False  # opened by autograd for itself, which forbids users nothing
        self.expansion: Any = None  # the Expansion (series.py) that it is a level of
        self.open = True


class Stack(PerThread):
    """The open levels of a thread, innermost last."""

    def __init__(self) -> None:
        self.levels: list[Level] = []
        self.forward = True  # forward mode as a whole is on: tangents are seen

    def transforms(self) -> bool:
        """Whether a function is being transformed (`dual_level` alone is no transform)."""
        return any([level.kind != "dual" and not level.inside for level in self.levels])

    def batches(self) -> list[Level]:
        """The open vmap levels, outermost first."""
        return [level for level in self.levels if level.kind == "vmap"]


STACK = Stack()

BACKWARD_INSIDE = (
    "backward() called inside a functorch transform. This is not supported, please use "
    "functorch.grad or functorch.vjp instead or call backward() outside of functorch transforms."
)
FLAGGED_INSIDE = (
    "You are attempting to call Tensor.{0}() {1}inside of a function being transformed by a "
    "functorch transform. This is unsupported, please attempt to use the functorch transforms "
    "(e.g. grad, vjp, jacrev, jacfwd, hessian) or call {0}() outside of a function being "
    "transformed instead."
)


def refuse_inside(sentence: str, *words: str) -> None:
    """Raise if a function is being transformed."""
    if STACK.levels and STACK.transforms():
        raise RuntimeError(sentence.format(*words))


# The open levels with tangents and with batches, of all threads: a quick way to know that there
# are none.
TANGENTS: list[Level] = []
BATCHES: list[Level] = []
