"""Recurrent layers: one op per layer and direction, over all steps of all sequences.

Rows lie one step after the other, as in a packed sequence: `sizes` says how many sequences are
still running at each step, and the rows of a step are those of the longest ones. A padded batch is
the case where all sizes are the same. What the input adds to the gates is computed before, for all
steps at once; what is left is the loop over time.

Everything that a gradient rule reads beside the arguments is an output of the op (`cells`,
`gates`), so the rules, which are ordinary formulas, can be differentiated again.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ...core.arguments import cast_value
from ...core.python_dispatch import is_recorded
from ...core.rounding import half_as_single
from ...core.rule_functions import RAW
from ...kernels.recurrent_loops import (
    GruSlopes,
    LstmLoop,
    LstmSlopes,
    Pushed,
    before,
    cat_last,
    columns,
    gru_loop,
    plus,
    rnn_loop,
    rows,
    rows_in_order,
    slope_of,
    spans,
    turn,
)
from ..block import Block, Linear, op

# ruff: noqa: N805


# ---------------------------------------------------------------------- for the kernels


def at(x: Any, span: tuple[int, int]) -> Any:
    start, count = span
    return x[..., start : start + count, :]


def running(xp: Any, state: Any, initial: Any, count: int) -> Any:
    """The state before a step: some sequences have ended, or (backwards in time) some begin."""
    have = state.shape[-2]
    if count <= have:
        return state[..., :count, :]
    return xp.concatenate([state, initial[..., have:count, :]], axis=-2)


def turned_matrix(xp: Any, weight: Any) -> Any:
    return xp.swapaxes(half_as_single(weight), -1, -2)


def sigmoid_(xp: Any, x: Any) -> None:
    xp.negative(x, x)
    xp.exp(x, x)
    xp.add(x, 1, x)
    xp.reciprocal(x, x)


# ---------------------------------------------------------------------- the result


class StepsBlock(Linear):
    """Rows as a batch with the steps in front: a copy, because the rows are saved and users may
    write into the result."""

    leading = (2,)
    public = False

    def fwd(xp, input, steps):
        *lead, count, width = input.shape
        return xp.array(input, order="C").reshape(*lead, steps, count // steps, width)

    def d_input(F, grad, input_shape):
        return F.reshape(grad, input_shape)


@op
class StackSteps(StepsBlock):
    """stack_steps(input, steps) -> Tensor: the result of a loop over time."""

    node = "StackBackward0"  # what PyTorch's loops end in
    aten = None


@op
class MkldnnRnnLayer(StepsBlock):
    """mkldnn_rnn_layer(input, steps) -> Tensor: what PyTorch calls an LSTM in single precision."""

    aten = "mkldnn_rnn_layer"


# ---------------------------------------------------------------------- tanh and relu


class LoopBack(Block):
    """The loop of a layer's gradient as one op: in C, where nothing is differentiated again."""

    aten = None
    public = False
    undifferentiable = "the rule of the layer goes step by step where that is wanted"


def is_one_op(F: Any, *values: Any) -> bool:
    """Whether the loop of a gradient may be one op: on the CPU, if that is the end of it, and not
    where modes of PyTorch's look on: they are shown PyTorch's ops."""
    if F.recorded and not is_recorded():
        return False
    arrays = [x._array if F.recorded else x for x in values]
    return all([isinstance(x, np.ndarray) for x in arrays]) and bool(F.is_final(*values))


@op
class RnnLayer(Block):
    """rnn_layer(input, hx, weight, relu, sizes, turned) -> Tensor: h = f(input + W h)."""

    aten = None
    tensors = ("input", "hx", "weight")
    leading = (2, 2, 2)
    public = False
    onnx = "RNN"

    def fwd(xp, input, hx, weight, relu, sizes, turned):
        out = xp.array(half_as_single(input), order="C")
        matrix = turned_matrix(xp, weight)
        initial = state = half_as_single(hx)
        for span in spans(sizes, turned):
            h = at(out, span)
            h += xp.matmul(running(xp, state, initial, span[1]), matrix)
            if relu:
                xp.maximum(h, 0, out=h)
            else:
                xp.tanh(h, out=h)
            state = h
        return cast_value(out, input.dtype)

    def backward(F, grad, needs, hx, weight, out, relu, sizes, turned):
        pull = F.rnn_back if is_one_op(F, grad, hx, weight, out) else partial(rnn_loop, F)
        to_input, to_hx = pull(grad, hx, weight, out, relu, sizes, turned)
        to_weight = None
        if needs[2]:
            states = before(F, hx, out, spans(sizes, turned))
            to_weight = F.matmul(turn(F, to_input), states)
        return to_input, to_hx, to_weight

    def jvp(F, t_input, hx, t_hx, weight, t_weight, out, relu, sizes, turned):
        walk = spans(sizes, turned)
        slope = slope_of(out, relu)
        change = t_input
        if t_weight is not None:
            change = plus(change, F.matmul(before(F, hx, out, walk), turn(F, t_weight)))
        pushed = Pushed(F, hx, t_hx)
        matrix = turn(F, weight)
        found = []
        for span in walk:
            t = F.matmul(pushed.at(span[1]), matrix)
            if change is not None:
                t = t + rows(F, change, span)
            pushed.value = t * rows(F, slope, span)
            found.append(pushed.value)
        return rows_in_order(F, found, walk)


@op
class RnnBack(LoopBack):
    """rnn_back(grad, hx, weight, out, relu, sizes, turned) -> (Tensor, Tensor): `rnn_loop`."""

    tensors = ("grad", "hx", "weight", "out")
    outs = ("to_input", "to_hx")
    leading = (2, 2, 2, 2)

    def fwd(xp, grad, hx, weight, out, relu, sizes, turned):
        return rnn_loop(RAW, grad, hx, weight, out, relu, sizes, turned)


# ---------------------------------------------------------------------- LSTM


@op
class LstmBack(LoopBack):
    """lstm_back(to_out, to_cells, hx, cx, weight, cells, gates, sizes, turned) ->
    (Tensor, Tensor, Tensor): `LstmLoop` without a projection."""

    tensors = ("to_out", "to_cells", "hx", "cx", "weight", "cells", "gates")
    outs = ("to_gates", "to_hx", "to_cx")
    leading = (2, 2, 2, 2, 2, 2, 2)

    def fwd(xp, to_out, to_cells, hx, cx, weight, cells, gates, sizes, turned):
        grad, walk = (to_out, to_cells, None), spans(sizes, turned)
        loop = LstmLoop(RAW, grad, hx, cx, weight, None, cells, gates, walk)
        return loop.to_input, loop.to_hx, loop.to_cx


@op
class LstmLayer(Block):
    """lstm_layer(input, hx, cx, weight, proj, sizes, turned) -> (Tensor, Tensor, Tensor):
    all h, all c, all gates (i, f, g, o)."""

    aten = None
    tensors = ("input", "hx", "cx", "weight", "proj")
    outs = ("out", "cells", "gates")
    leading = (2, 2, 2, 2, 2)
    partial = True
    public = False
    onnx = "LSTM"

    def fwd(xp, input, hx, cx, weight, proj, sizes, turned):
        gates = xp.array(half_as_single(input), order="C")
        matrix = turned_matrix(xp, weight)
        project = None if proj is None else turned_matrix(xp, proj)
        first_h = h = half_as_single(hx)
        first_c = c = half_as_single(cx)
        width = cx.shape[-1]
        cells = xp.empty((*gates.shape[:-1], width), gates.dtype)
        out = xp.empty((*gates.shape[:-1], hx.shape[-1]), gates.dtype)
        for span in spans(sizes, turned):
            gate = at(gates, span)
            gate += xp.matmul(running(xp, h, first_h, span[1]), matrix)
            new = gate[..., 2 * width : 3 * width]
            squashed = xp.tanh(new)
            sigmoid_(xp, gate)  # all four at once; the third is put right
            new[...] = squashed
            last, c, h = running(xp, c, first_c, span[1]), at(cells, span), at(out, span)
            xp.multiply(gate[..., width : 2 * width], last, out=c)
            squashed *= gate[..., :width]
            c += squashed
            xp.tanh(c, out=squashed)
            if project is None:
                xp.multiply(squashed, gate[..., 3 * width :], out=h)
            else:
                squashed *= gate[..., 3 * width :]
                xp.matmul(squashed, project, out=h)
        dtype = input.dtype
        return cast_value(out, dtype), cast_value(cells, dtype), cast_value(gates, dtype)

    def backward(F, grad, needs, hx, cx, weight, proj, out, cells, gates, sizes, turned):
        walk = spans(sizes, turned)
        d_out, d_cells, d_gates = grad[0], grad[1], grad[2]
        if proj is None and d_gates is None and is_one_op(F, hx, cx, weight, cells, gates):
            to_input, to_hx, to_cx = F.lstm_back(
                d_out, d_cells, hx, cx, weight, cells, gates, sizes, turned
            )
            to_weight = None
            if needs[3]:
                to_weight = F.matmul(turn(F, to_input), before(F, hx, out, walk))
            return to_input, to_hx, to_cx, to_weight, None
        loop = LstmLoop(F, grad, hx, cx, weight, proj, cells, gates, walk)
        to_weight = to_proj = None
        if needs[3]:
            to_weight = F.matmul(turn(F, loop.to_input), before(F, hx, out, walk))
        if needs[4]:
            through = rows_in_order(F, loop.through[::-1], walk)
            to_proj = F.matmul(turn(F, through), loop.slopes.raw)
        return loop.to_input, loop.to_hx, loop.to_cx, to_weight, to_proj

    def jvp(
        F,
        t_input,
        hx,
        t_hx,
        cx,
        t_cx,
        weight,
        t_weight,
        proj,
        t_proj,
        out,
        cells,
        gates,
        sizes,
        turned,
    ):
        walk = spans(sizes, turned)
        slopes = LstmSlopes(F, cells, gates, before(F, cx, cells, walk))
        change = t_input
        if t_weight is not None:
            change = plus(change, F.matmul(before(F, hx, out, walk), turn(F, t_weight)))
        more = None if t_proj is None else F.matmul(slopes.raw, turn(F, t_proj))
        pushed_h, pushed_c = Pushed(F, hx, t_hx), Pushed(F, cx, t_cx)
        matrix = turn(F, weight)
        sums, t_cells, t_out = [], [], []
        for span in walk:
            t = F.matmul(pushed_h.at(span[1]), matrix)
            if change is not None:
                t = t + rows(F, change, span)
            sums.append(t)
            i, f, g, o = columns(F, t * rows(F, slopes.inner, span), 4)
            c = i + f + g + pushed_c.at(span[1]) * rows(F, slopes.forget, span)
            h = o + c * rows(F, slopes.to_cell, span)
            if proj is not None:
                h = F.matmul(h, turn(F, proj))
            if more is not None:
                h = h + rows(F, more, span)
            pushed_h.value, pushed_c.value = h, c
            t_cells.append(c)
            t_out.append(h)
        return (
            rows_in_order(F, t_out, walk),
            rows_in_order(F, t_cells, walk),
            rows_in_order(F, sums, walk) * cat_last(F, *slopes.gates),
        )


# ---------------------------------------------------------------------- GRU


@op
class GruBack(LoopBack):
    """gru_back(grad, hx, weight, out, gates, sizes, turned) -> (Tensor, Tensor, Tensor):
    `gru_loop`."""

    tensors = ("grad", "hx", "weight", "out", "gates")
    outs = ("to_input", "to_inner", "to_hx")
    leading = (2, 2, 2, 2, 2)

    def fwd(xp, grad, hx, weight, out, gates, sizes, turned):
        return gru_loop(RAW, grad, None, hx, weight, out, gates, spans(sizes, turned))


@op
class GruLayer(Block):
    """gru_layer(input, hx, weight, bias, sizes, turned) -> (Tensor, Tensor): all h, and r,
    z, n and what r was multiplied by."""

    aten = None
    tensors = ("input", "hx", "weight", "bias")
    outs = ("out", "gates")
    leading = (2, 2, 2, 1)
    partial = True
    public = False
    onnx = "GRU"

    def fwd(xp, input, hx, weight, bias, sizes, turned):
        x = half_as_single(input)
        matrix = turned_matrix(xp, weight)
        initial = state = half_as_single(hx)
        shift = None if bias is None else half_as_single(bias)[..., None, :]
        width = hx.shape[-1]
        both = 2 * width
        gates = xp.empty((*x.shape[:-1], 4 * width), x.dtype)
        out = xp.empty((*x.shape[:-1], width), x.dtype)
        for span in spans(sizes, turned):
            last = running(xp, state, initial, span[1])
            hidden = xp.matmul(last, matrix)
            if shift is not None:
                hidden += shift
            now, gate, h = at(x, span), at(gates, span), at(out, span)
            two = gate[..., :both]
            xp.add(now[..., :both], hidden[..., :both], out=two)
            sigmoid_(xp, two)
            gate[..., 3 * width :] = inner = hidden[..., both:]
            new = gate[..., both : 3 * width]
            xp.multiply(inner, gate[..., :width], out=new)
            new += now[..., both:]
            xp.tanh(new, out=new)
            xp.subtract(last, new, out=h)
            h *= gate[..., width:both]
            h += new
            state = h
        return cast_value(out, input.dtype), cast_value(gates, input.dtype)

    def backward(F, grad, needs, hx, weight, bias, out, gates, sizes, turned):
        walk = spans(sizes, turned)
        if grad[1] is None and is_one_op(F, grad[0], hx, weight, out, gates):
            to_input, inner, to_hx = F.gru_back(grad[0], hx, weight, out, gates, sizes, turned)
        else:
            to_input, inner, to_hx = gru_loop(F, *grad, hx, weight, out, gates, walk)
        to_weight = to_bias = None
        if needs[2]:
            to_weight = F.matmul(turn(F, inner), before(F, hx, out, walk))
        if needs[3]:
            to_bias = F.sum(inner, (len(inner.shape) - 2,), False, None)
        return to_input, to_hx, to_weight, to_bias

    def jvp(
        F,
        t_input,
        hx,
        t_hx,
        weight,
        t_weight,
        t_bias,
        out,
        gates,
        sizes,
        turned,
    ):
        walk = spans(sizes, turned)
        previous = before(F, hx, out, walk)
        slopes = GruSlopes(F, gates, previous)
        change = None if t_weight is None else F.matmul(previous, turn(F, t_weight))
        if t_bias is not None:
            whole = F.unsqueeze(t_bias, len(t_bias.shape) - 1)
            change = plus(change, F.expand(whole, (*previous.shape[:-1], whole.shape[-1])))
        matrix = turn(F, weight)
        pushed = Pushed(F, hx, t_hx)
        t_out, t_gates = [], []
        for span in walk:
            last = pushed.at(span[1])
            inside = F.matmul(last, matrix)
            if change is not None:
                inside = inside + rows(F, change, span)
            of_r, of_z, s = columns(F, inside, 3)
            of_n = s * rows(F, slopes.reset, span)
            if t_input is not None:
                for_r, for_z, for_n = columns(F, rows(F, t_input, span), 3)
                of_r, of_z, of_n = of_r + for_r, of_z + for_z, of_n + for_n
            r = of_r * rows(F, slopes.of_reset, span)
            n = (of_n + r * rows(F, slopes.hidden, span)) * rows(F, slopes.of_new, span)
            z = of_z * rows(F, slopes.of_update, span)
            update = rows(F, slopes.update, span)
            pushed.value = n + update * (last - n) + of_z * rows(F, slopes.to_update, span)
            t_out.append(pushed.value)
            t_gates.append(cat_last(F, r, z, n, s))
        return (
            rows_in_order(F, t_out, walk),
            rows_in_order(F, t_gates, walk),
        )
