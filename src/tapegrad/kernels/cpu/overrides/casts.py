"""Copies between float and half precision: what mixed precision does most."""

from __future__ import annotations

from typing import Any

import numpy as np

from .rows import F32, is_dense, is_half, narrowed, widened

SMALL = 512  # elements: NumPy has converted so many before we have looked at them


def cast(reference: Any) -> Any:
    def kernel(input: Any, dtype: Any) -> Any:
        if type(input) is np.ndarray and input.size >= SMALL and 1 not in input.shape:
            if is_half(input) and is_dense(input) and (dtype is F32 or dtype.kind in "fiu"):
                if dtype.itemsize > 2:
                    return reference(widened(input), dtype)
            if dtype.itemsize == 2 and dtype.kind in "fV" and is_dense(input):
                like = np.empty(0, dtype)
                if is_half(like) and input.dtype is F32:
                    return narrowed(input, like)
                if is_half(like) and is_half(input) and input.dtype != dtype:
                    return narrowed(widened(input), like)
        return reference(input, dtype)

    return kernel


OVERRIDES = {"cast": cast}
