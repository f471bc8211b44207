"""The operations, one block each, by family."""

from __future__ import annotations

import importlib
from typing import Any

FAMILIES = (
    "pointwise",
    "power",
    "transcendental",
    "parts",
    "select",
    "compare",
    "bitwise",
    "view",
    "split",
    "dims",
    "memory",
    "reduce",
    "extrema",
    "vector_norm",
    "scan",
    "softmax",
    "index",
    "gather",
    "index_along",
    "masked",
    "view_scatter",
    "shape",
    "sort",
    "matmul",
    "addmm",
    "products",
    "einsum",
    "complexes",
)


def load() -> list[Any]:
    """Import every family; their blocks register themselves."""
    return [importlib.import_module(f".{family}", __name__) for family in FAMILIES]
