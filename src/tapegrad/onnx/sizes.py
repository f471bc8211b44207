"""Numbers that follow from the sizes of the inputs, as polynomials of them.

The sizes that may change are symbols; each recording has values for them. A number that was v1, v2,
… in the recordings is a sum of products of symbols with whole coefficients, found by solving for
them, and believed only if it fits every recording.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from .errors import OnnxExporterError

Product = tuple[str, ...]


class Size:
    """A number of the graph: whole multiples of products of symbols; () is the constant."""

    def __init__(self, terms: dict[Product, int], value: int) -> None:
        self.terms = terms
        self.value = value  # in the first recording

    def __repr__(self) -> str:
        parts = []
        for product, factor in self.terms.items():
            text = "*".join(product)
            parts.append(str(factor) if not product else f"{factor}*{text}" * (factor != 1) or text)
        return " + ".join(parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Size) and other.terms == self.terms

    def __hash__(self) -> int:
        return hash(tuple(sorted(self.terms.items())))


class Sizes:
    """The symbols, and what they were in the recordings."""

    def __init__(self, values: dict[str, list[int]], input_shapes: list[list[Any]]) -> None:
        self.values = values
        self.input_shapes = input_shapes
        self.count = len(input_shapes)
        names = sorted(values)
        products = [p for n in range(4) for p in itertools.combinations(names, n)]
        self.columns = {p: self.column(p) for p in products}
        self.found: dict[tuple[int, ...], Any] = {}
        self.derived: dict[str, tuple[Any, int]] = {}  # symbols that are sizes of other tensors

    def column(self, product: Product) -> np.ndarray[Any, Any]:
        made = np.ones(self.count, np.int64)
        for name in product:
            made = made * np.array(self.values[name], np.int64)
        return made

    def derive(self, values: list[int], tensor: Any, axis: int) -> None:
        """Sizes of results that are no polynomial, as after strides, are symbols of their own."""
        key = tuple(values)
        if key not in self.found:
            self.found[key] = self.solve(np.array(values, np.int64))
        if self.found[key] is not None:
            return
        name = f"size_{len(self.derived)}"
        self.derived[name] = (tensor, axis)
        own = np.array(values, np.int64)
        others = [(p, c) for p, c in self.columns.items() if len(p) < 3]
        self.columns.update({(*p, name): c * own for p, c in others})
        self.found[key] = Size({(name,): 1}, values[0])
        self.found = {k: v for k, v in self.found.items() if v is not None}

    def find(self, values: list[int], step: Any) -> int | Size:
        """The number that was so much in each recording."""
        key = tuple(values)
        if key not in self.found:
            self.found[key] = self.solve(np.array(values, np.int64))
        found = self.found[key]
        if found is None:
            raise OnnxExporterError(
                f"{step.name} depends on the size of the input in a way that a graph cannot "
                f"express: it was {', '.join(map(str, sorted(set(values))))} where "
                f"{', '.join(self.values)} changed{step.where()}"
            )
        return found  # type: ignore[no-any-return]

    def solve(self, values: np.ndarray[Any, Any]) -> int | Size | None:
        first = int(values[0])
        if bool((values == first).all()):
            return first
        # The plainest answer first: one product, then a straight line, then everything at once.
        for product, column in self.columns.items():
            if product and bool((values * column[0] == first * column).all()):
                factor, rest = divmod(first, int(column[0]))
                if not rest:
                    return Size({product: factor}, first)
        products = [p for p in self.columns if not set(p) & set(self.derived)]
        lines = [[(), (name,)] for name in (*self.values, *self.derived)]
        for chosen in [*lines, products]:
            matrix = np.stack([self.columns[p] for p in chosen], 1)
            if np.linalg.matrix_rank(matrix) < len(chosen):
                continue
            factors = np.rint(np.linalg.lstsq(matrix.astype(float), values.astype(float))[0])
            factors = factors.astype(np.int64)
            if bool((matrix @ factors == values).all()):
                terms = zip(chosen, factors.tolist(), strict=True)
                return Size({p: f for p, f in terms if f}, first)
        return None
