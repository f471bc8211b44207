"""All steps of a recurrent layer in one call (c/kernels/recurrent.c), and its gradients."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ...recurrent_loops import spans
from .rows import copied, dense, empty, for_dtypes, is_dense, pick, zeros

PANEL = 16  # columns at the most
Sizes = tuple[int, ...]


@functools.lru_cache(64)
def walk_of(sizes: Sizes, turned: bool) -> Any:
    return np.array(spans(sizes, turned), np.int64).reshape(-1, 2)


def room_for(weight: Any) -> Any:
    """Where the kernels pack it: the last of the panels (c/kernels/packed.h) is filled up."""
    return empty((weight.size + PANEL * max(weight.shape),), weight)


def takes(states: Any, weight: Any, gates: int, sizes: Sizes, *rows: tuple[Any, int]) -> bool:
    """Plain matrices of one dtype that fit each other.

    `rows` are those with a row for each step of each sequence, and how often they are as wide as a
    state; the weight is so `gates` times.
    """
    hx, arrays = states[0], [x for x, _ in rows]
    for x in (*states, weight, *arrays):
        if type(x) is not np.ndarray or x.ndim != 2 or x.dtype is not hx.dtype or not is_dense(x):
            return False
    batch, width = hx.shape
    count = sum(sizes)
    return (
        bool(width and batch)
        and max(sizes, default=0) == batch
        and weight.shape == (gates * width, width)
        and all([state.shape == hx.shape for state in states])
        and all([x.shape == (count, parts * width) for x, parts in rows])
    )


def fits(grad: Any, out: Any) -> bool:
    """A gradient of `out` that can be taken as it is, or after a copy."""
    return type(grad) is np.ndarray and grad.dtype is out.dtype and grad.shape == out.shape


def counts(hx: Any, sizes: Sizes) -> Sizes:
    """The first sizes that every kernel takes: sequences, steps, width."""
    return hx.shape[0], len(sizes), hx.shape[1]


# ---------------------------------------------------------------------- LSTM


def lstm(reference: Any) -> Any:
    kernels = for_dtypes("lstm")

    def kernel(
        input: Any, hx: Any, cx: Any, weight: Any, proj: Any, sizes: Sizes, turned: bool
    ) -> Any:
        run = pick(kernels, input)
        if run is None or proj is not None or not takes((hx, cx), weight, 4, sizes, (input, 4)):
            return reference(input, hx, cx, weight, proj, sizes, turned)
        gates = copied(input)
        shape = (input.shape[0], hx.shape[1])
        cells, out = empty(shape, input), empty(shape, input)
        arrays = (gates, hx, cx, weight, cells, out, walk_of(sizes, turned), room_for(weight))
        run(arrays, counts(hx, sizes))
        return out, cells, gates

    return kernel


def lstm_back(reference: Any) -> Any:
    """LSTM backward: the gradients of the sums inside the gates and of the first states."""
    kernels = for_dtypes("lstm_back")

    def kernel(
        to_out: Any,
        to_cells: Any,
        hx: Any,
        cx: Any,
        weight: Any,
        cells: Any,
        gates: Any,
        sizes: Sizes,
        turned: bool,
    ) -> Any:
        run = pick(kernels, gates)
        if (
            run is None
            or not takes((hx, cx), weight, 4, sizes, (gates, 4), (cells, 1))
            or not all([g is None or fits(g, cells) for g in (to_out, to_cells)])
        ):
            return reference(to_out, to_cells, hx, cx, weight, cells, gates, sizes, turned)
        to_out, to_cells = [None if g is None else dense(g) for g in (to_out, to_cells)]
        to_gates, to_h, to_c = empty(gates.shape, gates), zeros(hx.shape, hx), zeros(cx.shape, cx)
        arrays = (to_out, to_cells, cx, weight, cells, gates, to_gates, to_h, to_c)
        run((*arrays, walk_of(sizes, turned), room_for(weight)), counts(hx, sizes))
        return to_gates, to_h, to_c

    return kernel


# ---------------------------------------------------------------------- GRU


def gru(reference: Any) -> Any:
    kernels = for_dtypes("gru")

    def kernel(input: Any, hx: Any, weight: Any, bias: Any, sizes: Sizes, turned: bool) -> Any:
        run = pick(kernels, input)
        if (
            run is None
            or not takes((hx,), weight, 3, sizes, (input, 3))
            or not (bias is None or is_bias(bias, input))
        ):
            return reference(input, hx, weight, bias, sizes, turned)
        rows, width = input.shape[0], hx.shape[1]
        gates, out = empty((rows, 4 * width), input), empty((rows, width), input)
        arrays = (input, hx, weight, bias, gates, out, walk_of(sizes, turned), room_for(weight))
        run(arrays, counts(hx, sizes))
        return out, gates

    return kernel


def is_bias(bias: Any, input: Any) -> bool:
    return bias.dtype is input.dtype and bias.shape == input.shape[1:] and is_dense(bias)


def gru_back(reference: Any) -> Any:
    """GRU backward: the gradients of the input's and the states' share of the gates, and of the
    first states."""
    kernels = for_dtypes("gru_back")

    def kernel(
        grad: Any, hx: Any, weight: Any, out: Any, gates: Any, sizes: Sizes, turned: bool
    ) -> Any:
        run = pick(kernels, gates)
        if (
            run is None
            or not takes((hx,), weight, 3, sizes, (gates, 4), (out, 1))
            or not fits(grad, out)
        ):
            return reference(grad, hx, weight, out, gates, sizes, turned)
        shape = (gates.shape[0], weight.shape[0])
        to_input, to_inner, to_h = empty(shape, gates), empty(shape, gates), zeros(hx.shape, hx)
        arrays = (dense(grad), hx, weight, out, gates, to_input, to_inner, to_h)
        run((*arrays, walk_of(sizes, turned), room_for(weight)), counts(hx, sizes))
        return to_input, to_inner, to_h

    return kernel


# ---------------------------------------------------------------------- tanh and relu


def rnn(reference: Any) -> Any:
    kernels = for_dtypes("rnn")

    def kernel(input: Any, hx: Any, weight: Any, relu: bool, sizes: Sizes, turned: bool) -> Any:
        run = pick(kernels, input)
        if run is None or not takes((hx,), weight, 1, sizes, (input, 1)):
            return reference(input, hx, weight, relu, sizes, turned)
        out = copied(input)
        arrays = (out, hx, weight, walk_of(sizes, turned), room_for(weight))
        run(arrays, (*counts(hx, sizes), int(relu)))
        return out

    return kernel


def rnn_back(reference: Any) -> Any:
    """RNN backward: the gradients of the input's share of the sums and of the first states."""
    kernels = for_dtypes("rnn_back")

    def kernel(
        grad: Any, hx: Any, weight: Any, out: Any, relu: bool, sizes: Sizes, turned: bool
    ) -> Any:
        run = pick(kernels, out)
        if run is None or not takes((hx,), weight, 1, sizes, (out, 1)) or not fits(grad, out):
            return reference(grad, hx, weight, out, relu, sizes, turned)
        to_input, to_h = empty(out.shape, out), zeros(hx.shape, hx)
        arrays = (dense(grad), weight, out, to_input, to_h)
        last = walk_of(sizes, turned), room_for(weight)
        run((*arrays, *last), (*counts(hx, sizes), int(relu)))
        return to_input, to_h

    return kernel


OVERRIDES = {
    "lstm_layer": lstm,
    "lstm_back": lstm_back,
    "gru_layer": gru,
    "gru_back": gru_back,
    "rnn_layer": rnn,
    "rnn_back": rnn_back,
}
