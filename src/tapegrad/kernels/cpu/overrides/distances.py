"""Distances of all pairs of rows: cdist and pdist."""

from __future__ import annotations

import math
from typing import Any

from .rows import dense, empty, for_dtypes, ndarray, pick

KERNELS = for_dtypes("distances")


def all_pairs(reference: Any) -> Any:
    def kernel(x1: Any, x2: Any, p: float) -> Any:
        run = pick(KERNELS, x1)
        batch = x1.shape[:-2]
        if (
            run is None
            or type(x2) is not ndarray
            or x2.dtype is not x1.dtype
            or x2.shape[:-2] not in (batch, ())
            or not x1.size
            or not x2.size
        ):
            return reference(x1, x2, p)
        (rows, width), others = x1.shape[-2:], x2.shape[-2]
        out = empty((*batch, rows, others), x1)
        step = others * width if x2.ndim > 2 else 0
        sizes = (math.prod(batch), rows, others, width, rows * width, step, 0)
        run((dense(x1), dense(x2), out), sizes, (p,))
        return out

    return kernel


def of_one_matrix(reference: Any) -> Any:
    def kernel(input: Any, p: float) -> Any:
        run = pick(KERNELS, input)
        if run is None or not input.size or input.shape[-2] < 2:
            return reference(input, p)
        batch, (rows, width) = input.shape[:-2], input.shape[-2:]
        out = empty((*batch, rows * (rows - 1) // 2), input)
        x = dense(input)
        each = rows * width
        run((x, x, out), (math.prod(batch), rows, rows, width, each, each, 1), (p,))
        return out

    return kernel


OVERRIDES = {"cdist_forward": all_pairs, "pdist_forward": of_one_matrix}
