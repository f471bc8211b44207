"""Sample inputs, drawn by the tests: placeholders that a block writes where tensors go."""

from __future__ import annotations

from typing import Any

import numpy as np


class Draw:
    """A placeholder for a random float array of a shape, with values in [low, high)."""

    def __init__(
        self, *shape: int, low: float = -2.0, high: float = 2.0, layout: str = "C"
    ) -> None:
        self.shape = shape
        self.low = low
        self.high = high
        self.layout = layout  # "C", "T" (transposed memory) or "step" (every other element)

    def array(self, rng: np.random.Generator) -> np.ndarray[Any, Any]:
        if self.layout == "T":
            return rng.uniform(self.low, self.high, self.shape[::-1]).T
        if self.layout == "step":
            wide = (*self.shape[:-1], self.shape[-1] * 2)
            return rng.uniform(self.low, self.high, wide)[..., ::2]
        return rng.uniform(self.low, self.high, self.shape)


class Index:
    """A placeholder for an int64 array with the given values; `Index(bool_values)` for masks."""

    def __init__(self, values: Any) -> None:
        self.values = np.asarray(values)
        if not isinstance(values, np.ndarray) and self.values.dtype == np.intp:
            self.values = self.values.astype(np.int64)

    def array(self, rng: np.random.Generator) -> np.ndarray[Any, Any]:
        return self.values.copy()


class Case:
    """One call: positional and keyword arguments, placeholders among them (also inside lists)."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.args = args
        self.kwargs = kwargs

    def draw(self, rng: np.random.Generator, make: Any) -> tuple[list[Any], dict[str, Any]]:
        """The arguments with `make(array)` in the place of each placeholder."""

        def fill(value: Any) -> Any:
            if isinstance(value, (Draw, Index)):
                return make(value.array(rng))
            if isinstance(value, (list, tuple)):
                return type(value)(fill(v) for v in value)
            return value

        return [fill(a) for a in self.args], {k: fill(v) for k, v in self.kwargs.items()}


def unary_cases(low: float = -2.0, high: float = 2.0) -> list[Case]:
    """Shapes and layouts for a one-tensor elementwise op over a domain."""
    return [
        Case(Draw(3, 4, low=low, high=high)),
        Case(Draw(low=low, high=high)),
        Case(Draw(0, 2, low=low, high=high)),
        Case(Draw(3, 2, low=low, high=high, layout="T")),
        Case(Draw(2, 3, low=low, high=high, layout="step")),
    ]


def binary_cases(low: float = -2.0, high: float = 2.0) -> list[Case]:
    """Broadcasting pairs for a two-tensor elementwise op, and a number on the right."""

    def d(*shape: int, layout: str = "C") -> Draw:
        return Draw(*shape, low=low, high=high, layout=layout)

    return [
        Case(d(3, 4), d(3, 4)),
        Case(d(3, 1), d(4)),
        Case(d(), d(2, 3)),
        Case(d(2, 3), d()),
        Case(d(), d()),
        Case(d(2, 0), d(1)),
        Case(d(3, 2, layout="T"), d(2, layout="step")),
        Case(d(2, 3), 1.5),
    ]
