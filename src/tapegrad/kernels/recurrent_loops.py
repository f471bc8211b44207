"""How gradients and tangents go through the steps of recurrent layers.

Rows are stored one step after the other (recurrent.py). The loops are written against `F`, so that
they run on arrays and on tensors that are differentiated again.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any

Spans = tuple[tuple[int, int], ...]
Sizes = tuple[int, ...]


@functools.lru_cache(64)
def spans(sizes: tuple[int, ...], turned: bool) -> Spans:
    """(first row, number of rows) of every step, in the order in which they are computed."""
    found = [(end - n, n) for end, n in zip(itertools.accumulate(sizes), sizes, strict=True)]
    return tuple(found[::-1] if turned else found)


# ---------------------------------------------------------------------- rows


def rows(F: Any, x: Any, span: tuple[int, int]) -> Any:
    return F.narrow(x, len(x.shape) - 2, *span)


def columns(F: Any, x: Any, count: int) -> list[Any]:
    """The last dimension in `count` equal parts."""
    last = len(x.shape) - 1
    width = x.shape[last] // count
    return [F.narrow(x, last, i * width, width) for i in range(count)]


def cat_last(F: Any, *parts: Any) -> Any:
    return F.cat(list(parts), len(parts[0].shape) - 1)


def below(F: Any, parts: list[Any]) -> Any:
    return parts[0] if len(parts) == 1 else F.cat(parts, len(parts[0].shape) - 2)


def turn(F: Any, x: Any) -> Any:
    rank = len(x.shape)
    return F.transpose(x, rank - 2, rank - 1)


def before(F: Any, initial: Any, states: Any, walk: Spans) -> Any:
    """For every row, the state that its step began with."""
    parts = parts_before(walk)
    if not parts:
        return rows(F, initial, (0, 0))  # a batch of nothing
    return below(F, [rows(F, states if goes_on else initial, span) for goes_on, span in parts])


@functools.lru_cache(64)
def parts_before(walk: Spans) -> tuple[tuple[bool, tuple[int, int]], ...]:
    """Where the rows of `before` are: (True, span) in the states, (False, span) in the first."""
    parts: list[list[Any]] = []  # [first row of the result, whether it goes on, first row, number]
    last_start, last_count = 0, 0
    for start, count in walk:
        known = min(count, last_count)
        if known:
            parts.append([start, True, last_start, known])
        if count > known:
            parts.append([start + known, False, known, count - known])
        last_start, last_count = start, count
    joined: list[list[Any]] = []
    for part in sorted(parts, key=lambda p: p[0]):
        if joined and joined[-1][1] is part[1] and sum(joined[-1][2:]) == part[2]:
            joined[-1][3] += part[3]
        else:
            joined.append(part)
    return tuple([(goes_on, (start, count)) for _, goes_on, start, count in joined])


def rows_in_order(F: Any, parts: list[Any], walk: Spans) -> Any:
    """Results of steps, put together in the order of the rows."""
    return below(F, parts if walk[0][0] == 0 else parts[::-1])


class Carry:
    """The gradient that goes from a step to the one before it in the loop."""

    def __init__(self, F: Any, initial: Any) -> None:
        self.F = F
        self.initial = initial
        self.value: Any = None
        self.begun: list[Any] = []  # of sequences that have already started

    def at(self, count: int) -> Any:
        """The gradients that the `count` sequences of a step get from later steps, or None."""
        value = self.value
        if value is None:
            return None
        have = value.shape[-2]
        if have < count:
            fresh = self.F.zeros_like(rows(self.F, self.initial, (have, count - have)))
            return below(self.F, [value, fresh])
        if have > count:
            self.begun.append(rows(self.F, value, (count, have - count)))
            return rows(self.F, value, (0, count))
        return value

    def to_initial(self) -> Any:
        return below(self.F, [self.value, *self.begun[::-1]])


def plus(a: Any, b: Any) -> Any:
    """A sum in which None is zero."""
    if a is None:
        return b
    return a if b is None else a + b


class Pushed:
    """The tangent that goes from a step to the next one."""

    def __init__(self, F: Any, initial: Any, tangent: Any) -> None:
        self.F = F
        self.initial = F.zeros_like(initial) if tangent is None else tangent
        self.value = self.initial

    def at(self, count: int) -> Any:
        have = self.value.shape[-2]
        if have < count:
            more = rows(self.F, self.initial, (have, count - have))
            return below(self.F, [self.value, more])
        return self.value if have == count else rows(self.F, self.value, (0, count))


# ---------------------------------------------------------------------- tanh and relu


def slope_of(out: Any, relu: bool) -> Any:
    return out > 0 if relu else 1 - out * out


def rnn_loop(
    F: Any, grad: Any, hx: Any, weight: Any, out: Any, relu: bool, sizes: Sizes, turned: bool
) -> tuple[Any, Any]:
    """The gradients of the input's share of each step's sum, and of the states at the start."""
    walk = spans(sizes, turned)
    slope = slope_of(out, relu)
    carry = Carry(F, hx)
    found = []
    for span in reversed(walk):
        d = plus(rows(F, grad, span), carry.at(span[1])) * rows(F, slope, span)
        found.append(d)
        carry.value = F.matmul(d, weight)
    return rows_in_order(F, found[::-1], walk), carry.to_initial()


# ---------------------------------------------------------------------- LSTM


class LstmSlopes:
    """The factors of the loop over time of an LSTM's gradient, for all rows at once.

    A step is c = f c' + i g, m = o tanh(c), and h = m, or P m with a projection. `inner` has the
    derivatives of c by the sums inside i, f, g and that of m by the one inside o.
    """

    def __init__(self, F: Any, cells: Any, gates: Any, previous: Any) -> None:
        i, f, g, o = columns(F, gates, 4)
        squashed = F.tanh(cells)
        self.forget = f
        self.to_cell = o * (1 - squashed * squashed)  # of m by c
        self.raw = o * squashed
        rest = [i * (1 - i), f * (1 - f), 1 - g * g, o * (1 - o)]
        self.gates = rest
        self.inner = cat_last(F, rest[0] * g, rest[1] * previous, rest[2] * i, rest[3] * squashed)


class LstmLoop:
    """The gradient's way back through time: to the sums inside the gates, and to the states."""

    def __init__(
        self,
        F: Any,
        grad: Any,
        hx: Any,
        cx: Any,
        weight: Any,
        proj: Any,
        cells: Any,
        gates: Any,
        walk: Spans,
    ) -> None:
        d_out, d_cells, d_gates = grad
        self.slopes = slopes = LstmSlopes(F, cells, gates, before(F, cx, cells, walk))
        extra = None if d_gates is None else d_gates * cat_last(F, *slopes.gates)
        carry_h, carry_c = Carry(F, hx), Carry(F, cx)
        found = []
        self.through: list[Any] = []  # the gradients of h, last step first
        for span in reversed(walk):
            count = span[1]
            dh = None if d_out is None else rows(F, d_out, span)
            dh = plus(dh, carry_h.at(count))
            if dh is None:
                dh = F.zeros_like(rows(F, hx, (0, count)))
            self.through.append(dh)
            dm = dh if proj is None else F.matmul(dh, proj)
            dc = plus(dm * rows(F, slopes.to_cell, span), carry_c.at(count))
            if d_cells is not None:
                dc = dc + rows(F, d_cells, span)
            d = cat_last(F, dc, dc, dc, dm) * rows(F, slopes.inner, span)
            if extra is not None:
                d = d + rows(F, extra, span)
            found.append(d)
            carry_h.value = F.matmul(d, weight)
            carry_c.value = dc * rows(F, slopes.forget, span)
        self.to_input = rows_in_order(F, found[::-1], walk)
        self.to_hx, self.to_cx = carry_h.to_initial(), carry_c.to_initial()


# ---------------------------------------------------------------------- GRU


class GruSlopes:
    """The factors of the loop over time of a GRU's gradient, for all rows at once.

    A step is n = tanh(x + r s) with s = W h' + b, and h = n + z (h' - n). `inner` has the
    derivatives of h by the sums inside r and z and by s, `outer` the one by the sum inside n.
    """

    def __init__(self, F: Any, gates: Any, previous: Any) -> None:
        r, z, n, s = columns(F, gates, 4)
        self.reset, self.update, self.hidden = r, z, s
        self.of_reset, self.of_update, self.of_new = r * (1 - r), z * (1 - z), 1 - n * n
        self.outer = (1 - z) * self.of_new
        self.to_update = (previous - n) * self.of_update
        self.inner = cat_last(F, self.outer * s * self.of_reset, self.to_update, self.outer * r)


def gru_loop(
    F: Any, d_out: Any, d_gates: Any, hx: Any, weight: Any, out: Any, gates: Any, walk: Spans
) -> tuple[Any, Any, Any]:
    """The gradients of the input's and the states' share of the gates, and of the first states."""
    slopes = GruSlopes(F, gates, before(F, hx, out, walk))
    extra = new = None
    if d_gates is not None:
        d_reset, d_update, d_new, d_hidden = columns(F, d_gates, 4)
        new = d_new * slopes.of_new
        reset = (new * slopes.hidden + d_reset) * slopes.of_reset
        update = d_update * slopes.of_update
        extra = cat_last(F, reset, update, new * slopes.reset + d_hidden)
    carry = Carry(F, hx)
    found, through = [], []
    for span in reversed(walk):
        dh = None if d_out is None else rows(F, d_out, span)
        dh = plus(dh, carry.at(span[1]))
        if dh is None:
            dh = F.zeros_like(rows(F, out, span))
        through.append(dh)
        d = cat_last(F, dh, dh, dh) * rows(F, slopes.inner, span)
        if extra is not None:
            d = d + rows(F, extra, span)
        found.append(d)
        carry.value = F.matmul(d, weight) + dh * rows(F, slopes.update, span)
    inner = rows_in_order(F, found[::-1], walk)
    outer = plus(rows_in_order(F, through[::-1], walk) * slopes.outer, new)
    to_reset, to_update, _ = columns(F, inner, 3)
    return cat_last(F, to_reset, to_update, outer), inner, carry.to_initial()
