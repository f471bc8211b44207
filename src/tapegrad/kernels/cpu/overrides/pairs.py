"""Functions of two numbers that C computes one by one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .rows import empty, for_dtypes, is_dense, pick

# In the order of PAIR_FUNCTIONS in c/kernels/pairs.c
FUNCTIONS = (
    *[f"special_chebyshev_polynomial_{kind}" for kind in "tuvw"],
    *[f"special_shifted_chebyshev_polynomial_{kind}" for kind in "tuvw"],
    *("special_hermite_polynomial_h", "special_hermite_polynomial_he"),
    *("special_laguerre_polynomial_l", "special_legendre_polynomial_p"),
    "nextafter",
)


def of_pairs(code: int) -> Any:
    kernels = for_dtypes("pairs")

    def make(reference: Any) -> Any:
        def kernel(x: Any, y: Any) -> Any:
            like = x if type(x) is np.ndarray else y
            run = pick(kernels, like)
            if run is None:
                return reference(x, y)
            pair = [v if type(v) is np.ndarray else np.asarray(v, like.dtype) for v in (x, y)]
            first, second = pair
            for v in pair:
                if v.dtype is not like.dtype or not is_dense(v):
                    return reference(x, y)
            shape = first.shape
            if shape != second.shape:
                shape = np.broadcast(first, second).shape
            count = math.prod(shape)
            for i, v in enumerate(pair):
                if v.size != count and v.size != 1:
                    pair[i] = spread = empty(shape, like)
                    spread[...] = v
            out = empty(shape, like)
            if count:
                run((*pair, out), (count, code, *[int(v.size > 1) for v in pair]))
            return out

        return kernel

    return make


OVERRIDES = {name: of_pairs(code) for code, name in enumerate(FUNCTIONS)}
