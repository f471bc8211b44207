"""Attention in blocks that never hold all scores (c/kernels/attention.c), and its gradients."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....core.strides import empty_like
from .rows import dense, empty, for_dtypes, pick


def lies_in_rows(x: Any) -> bool:
    """Whether BLAS can read the matrices of a 4-d array: rows of adjacent elements."""
    down, right = x.strides[2:]
    width = x.shape[3] * x.itemsize
    return right == x.itemsize and (down >= width or x.shape[2] == 1) and x.flags.aligned


def steps(x: Any, *dims: int) -> list[int]:
    """The strides along some dimensions, in elements; 0 for dimensions of size 1."""
    return [x.strides[d] // x.itemsize if x.shape[d] > 1 else 0 for d in dims]


def row_steps(x: Any) -> list[int]:
    return [*steps(x, 0, 1), max(steps(x, 2)[0], x.shape[3])]


def mask_steps(mask: Any) -> list[int]:
    if mask is None:
        return [0, 0, 0, 0]
    return [0] * (4 - mask.ndim) + steps(mask, *range(mask.ndim))


def takes(query: Any, key: Any, value: Any, mask: Any, scale: float) -> bool:
    dtype = query.dtype
    for x in (query, key, value):
        if type(x) is not np.ndarray or x.ndim != 4 or x.dtype is not dtype or not x.size:
            return False
        if not lies_in_rows(x):
            return False
    if scale == 0 or not math.isfinite(scale):
        return False
    if query.shape[:2] != key.shape[:2] or query.shape[3] != key.shape[3]:
        return False
    if value.shape != key.shape:
        return False
    if mask is None:
        return True
    full = (*query.shape[:3], key.shape[2])[max(4 - mask.ndim, 0) :]
    return (
        mask.ndim <= 4
        and mask.dtype is dtype
        and bool(mask.flags.aligned)
        and all([m in (1, n) for m, n in zip(mask.shape, full, strict=True)])
    )


def sizes(query: Any, key: Any, value: Any, out: Any, mask: Any, causal: bool) -> tuple[int, ...]:
    shape = (*query.shape[:3], *key.shape[2:])
    rows = [row_steps(x) for x in (query, key, value, out)]
    return (*shape, *[step for each in rows for step in each], *mask_steps(mask), causal)


def attention(reference: Any) -> Any:
    kernels = for_dtypes("attention")

    def kernel(query: Any, key: Any, value: Any, mask: Any, scale: float, causal: bool) -> Any:
        run = pick(kernels, query)
        if run is not None and takes(query, key, value, mask, scale):
            out = empty_like(np, query)
            failed = np.zeros(1, np.int64)
            if lies_in_rows(out):
                n = sizes(query, key, value, out, mask, causal)
                run((query, key, value, mask, out, failed), n, (scale,))
                if not failed[0]:
                    return out
        return reference(query, key, value, mask, scale, causal)

    return kernel


def attention_backward(reference: Any) -> Any:
    kernels = for_dtypes("attention_back")

    def kernel(
        grad_output: Any, query: Any, key: Any, value: Any, mask: Any, scale: float, causal: bool
    ) -> Any:
        run = pick(kernels, query)
        if (
            run is not None
            and takes(query, key, value, mask, scale)
            and grad_output.dtype is query.dtype
            and grad_output.shape == query.shape
        ):
            grad = grad_output
            if not lies_in_rows(grad):
                grad = dense(grad)
            made = [empty(x.shape, x) for x in (query, key, value)]
            failed = np.zeros(1, np.int64)
            n = sizes(query, key, value, grad, mask, causal)
            run((query, key, value, mask, grad, *made, failed), n, (scale,))
            if not failed[0]:
                return tuple(made)
        return reference(grad_output, query, key, value, mask, scale, causal)

    return kernel


OVERRIDES = {
    "scaled_dot_product_flash_attention_for_cpu": attention,
    "scaled_dot_product_flash_attention_for_cpu_backward": attention_backward,
}
