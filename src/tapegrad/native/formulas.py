"""Kernels that are programs of the vector machine, made from the formula of an op's block."""

from __future__ import annotations

from typing import Any

from ..core.base import quiet
from . import KERNELS


def formula(op: Any, reference: Any) -> Any:
    """The kernel of an elementwise op; what it cannot do is left to the reference."""
    return KERNELS.Formula(Traces(op).forward, Otherwise(op, reference), op.width)


class Otherwise:
    """What a formula falls back to: the one without the tensors that are not there, or NumPy."""

    __slots__ = ("op", "reference", "without")

    def __init__(self, op: Any, reference: Any) -> None:
        self.op = op
        self.reference = reference
        self.without: dict[tuple[int, ...], Any] = {}

    def __call__(self, *args: Any) -> Any:
        missing = tuple([i for i, value in enumerate(args[: self.op.width]) if value is None])
        if not missing:
            return quiet(self.reference, *args)
        found = self.without.get(missing)
        if found is None:
            found = self.without[missing] = formula(
                Without(self.op, missing), Without(self.reference, missing)
            )
        return found(*[value for i, value in enumerate(args) if i not in missing])


class Without:
    """An op, or its reference, that is not given some of its tensors: None is in their places."""

    __slots__ = ("missing", "whole", "width")

    def __init__(self, whole: Any, missing: tuple[int, ...]) -> None:
        self.whole = whole
        self.missing = missing
        self.width = getattr(whole, "width", 0) - len(missing)

    def all_of(self, given: tuple[Any, ...]) -> list[Any]:
        args = list(given)
        for i in self.missing:
            args.insert(i, None)
        return args

    def __call__(self, *given: Any) -> Any:
        return self.whole(*self.all_of(given))

    def forward(self, xp: Any, *given: Any) -> Any:
        return self.whole.forward(xp, *self.all_of(given))


class Traces:
    """What C asks about an op, answered by expressions/, which is imported with the first call."""

    __slots__ = ("op",)

    def __init__(self, op: Any) -> None:
        self.op = op

    def forward(self, *question: Any) -> Any:
        from ..expressions.trace import Tracer

        return Tracer(self.op, KERNELS.STEPS).forward(*question)

    def gradients(self, *question: Any) -> Any:
        from ..expressions.trace import Tracer

        return Tracer(self.op, KERNELS.STEPS).gradients(*question)
