"""masked_fill, which runs as `where` with a number, and triangles of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....core.op import REGISTRY
from .. import KERNELS
from .rows import F32, F64, contiguous, is_dense

FAR = 1 << 48  # beyond every diagonal that a matrix has


def masked_fill(reference: Any) -> Any:
    def kernel(input: Any, mask: Any, value: Any) -> Any:
        dtype = input.dtype
        plain = type(input) is type(mask) is np.ndarray and input.size > 0
        if plain and (dtype is F32 or dtype is F64) and mask.dtype == bool:
            out = REGISTRY["where"].kernel(mask, float(dtype.type(value)), input)
            if type(out) is np.ndarray and is_dense(out) and out.dtype is dtype:
                return out
        return reference(input, mask, value)

    return kernel


def triangle(is_lower: bool) -> Any:
    """Override of tril or triu."""
    run = KERNELS.KERNELS["triangle"]

    def make(reference: Any) -> Any:
        def kernel(input: Any, diagonal: int) -> Any:
            if type(input) is not np.ndarray or not input.size or not -FAR < diagonal < FAR:
                return reference(input, diagonal)
            x = contiguous(input)
            out = np.empty(x.shape, x.dtype)
            rows, columns = x.shape[-2:]
            sizes = (x.size // (rows * columns), rows, columns, x.itemsize, diagonal, is_lower)
            run((x, out), sizes)
            return out

        return kernel

    return make


OVERRIDES = {"masked_fill": masked_fill, "tril": triangle(True), "triu": triangle(False)}
