"""The table of the zoo: short training programs, written once for PyTorch and tapegrad.

A program is a function `make(torch)` that returns `step, batch, state`: `step(*batch(i))` is step
number `i`, and `state()` names all that the program changes (modules, optimizers, tensors, lists).
Only names of the library that is passed in are used, so that the same program runs in PyTorch, in
tapegrad, and with its step compiled. Numbers have the default dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Make = Callable[[Any], tuple[Callable[..., Any], Callable[[int], tuple[Any, ...]], Callable]]
PROGRAMS: dict[str, Make] = {}


def program(make: Make) -> Make:
    """Add a program to the table, by its name."""
    assert make.__name__ not in PROGRAMS, make.__name__
    PROGRAMS[make.__name__] = make
    return make


class Draw:
    """Random numbers of batch `i`, from a generator of their own."""

    def __init__(self, torch: Any, i: int) -> None:
        self.torch = torch
        self.generator = torch.Generator().manual_seed(1000 + i)

    def normal(self, *shape: int) -> Any:
        return self.torch.randn(*shape, generator=self.generator)

    def uniform(self, *shape: int) -> Any:
        return self.torch.rand(*shape, generator=self.generator)

    def whole(self, highest: int, *shape: int) -> Any:
        return self.torch.randint(highest, shape, generator=self.generator)


def rows(torch: Any, *shape: int, classes: int = 0) -> Callable[[int], tuple[Any, ...]]:
    """Batches of one tensor of numbers, and of classes where there are some."""

    def batch(i: int) -> tuple[Any, ...]:
        drawn = Draw(torch, i)
        x = drawn.normal(*shape)
        return (x, drawn.whole(classes, shape[0])) if classes else (x,)

    return batch
