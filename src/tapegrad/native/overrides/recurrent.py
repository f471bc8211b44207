"""All steps of an LSTM layer in one call (c/recurrent.c), and its gradients."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ...ops.nn.recurrent import spans
from .rows import dense, empty, for_dtypes, is_dense, pick

PANEL = 16  # columns at the most
Sizes = tuple[int, ...]


@functools.lru_cache(64)
def walk_of(sizes: Sizes, turned: bool) -> Any:
    return np.array(spans(sizes, turned), np.int64).reshape(-1, 2)


def room_for(weight: Any) -> Any:
    """Where the kernels pack it: the last of the panels (c/packed.h) is filled up."""
    return empty((weight.size + PANEL * max(weight.shape),), weight)


def takes(rows: Any, hx: Any, cx: Any, weight: Any, proj: Any, sizes: Sizes, *others: Any) -> bool:
    """Plain matrices of one dtype that fit each other, and no projection."""
    dtype = rows.dtype
    for x in (rows, hx, cx, weight, *others):
        if type(x) is not np.ndarray or x.ndim != 2 or x.dtype is not dtype or not is_dense(x):
            return False
    batch, width = hx.shape
    return (
        proj is None
        and bool(width and batch)
        and max(sizes, default=0) == batch
        and sum(sizes) == rows.shape[0]
        and rows.shape[1] == 4 * width
        and cx.shape == hx.shape
        and weight.shape == (4 * width, width)
    )


def lstm(reference: Any) -> Any:
    kernels = for_dtypes("lstm")

    def kernel(
        input: Any, hx: Any, cx: Any, weight: Any, proj: Any, sizes: Sizes, turned: bool
    ) -> Any:
        run = pick(kernels, input)
        if run is None or not takes(input, hx, cx, weight, proj, sizes):
            return reference(input, hx, cx, weight, proj, sizes, turned)
        gates = empty(input.shape, input)
        np.copyto(gates, input)
        shape = (input.shape[0], hx.shape[1])
        cells, out = empty(shape, input), empty(shape, input)
        n = (hx.shape[0], len(sizes), hx.shape[1])
        run((gates, hx, cx, weight, cells, out, walk_of(sizes, turned), room_for(weight)), n)
        return out, cells, gates

    return kernel


def lstm_back(reference: Any) -> Any:
    """The loop of the gradient: to the sums inside the gates, and to the states at the start."""
    kernels = for_dtypes("lstm_back")

    def kernel(
        grad: Any,
        hx: Any,
        cx: Any,
        weight: Any,
        proj: Any,
        cells: Any,
        gates: Any,
        sizes: Sizes,
        turned: bool,
    ) -> Any:
        run = pick(kernels, gates)
        if (
            run is None
            or grad[2] is not None
            or not takes(gates, hx, cx, weight, proj, sizes, cells)
        ):
            return reference(grad, hx, cx, weight, proj, cells, gates, sizes, turned)
        for g in grad[:2]:
            if g is not None and (g.dtype is not gates.dtype or g.shape != cells.shape):
                return reference(grad, hx, cx, weight, proj, cells, gates, sizes, turned)
        to_out, to_cells = [None if g is None else dense(g) for g in grad[:2]]
        to_gates, to_h, to_c = empty(gates.shape, gates), np.zeros_like(hx), np.zeros_like(cx)
        n = (hx.shape[0], len(sizes), hx.shape[1])
        arrays = (to_out, to_cells, cx, weight, cells, gates, to_gates, to_h, to_c)
        run((*arrays, walk_of(sizes, turned), room_for(weight)), n)
        return to_gates, to_h, to_c

    return kernel


OVERRIDES = {"lstm_layer": lstm, "lstm_back": lstm_back}
