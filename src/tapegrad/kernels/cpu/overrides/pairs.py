"""Functions of two numbers that C computes one by one."""

from __future__ import annotations

from typing import Any

from .. import KERNELS
from .rows import for_dtypes

# In the order of PAIR_FUNCTIONS in c/kernels/pairs.c
FUNCTIONS = (
    *[f"special_chebyshev_polynomial_{kind}" for kind in "tuvw"],
    *[f"special_shifted_chebyshev_polynomial_{kind}" for kind in "tuvw"],
    *("special_hermite_polynomial_h", "special_hermite_polynomial_he"),
    *("special_laguerre_polynomial_l", "special_legendre_polynomial_p"),
    "nextafter",
)


def of_pairs(code: int) -> Any:
    kernels = for_dtypes("pairs")[:2]

    def make(reference: Any) -> Any:
        def kernel(x: Any, y: Any) -> Any:
            out = KERNELS.map_elements(kernels, code, (x, y))
            return reference(x, y) if out is None else out

        return kernel

    return make


OVERRIDES = {name: of_pairs(code) for code, name in enumerate(FUNCTIONS)}
