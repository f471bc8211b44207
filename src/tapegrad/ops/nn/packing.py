"""Sequences of several lengths without their padding: the op behind `pack_padded_sequence`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..block import Linear, op

# ruff: noqa: N805


def runs(lengths: tuple[int, ...]) -> Iterator[tuple[int, int, int]]:
    """(first step, end, number of sequences) of the steps between two endings; longest first."""
    start = 0
    for count in range(len(lengths), 0, -1):
        if lengths[count - 1] > start:
            yield start, lengths[count - 1], count
            start = lengths[count - 1]


@op
class PackPaddedSequence(Linear):
    """pack_padded_sequence(input, lengths) -> Tensor: the steps of all sequences, one after the
    other, where `input` has one row of steps per time and one column per sequence."""

    aten = "_pack_padded_sequence"
    public = False

    def fwd(xp, input, lengths):
        tail = input.shape[2:]
        return xp.concatenate(
            [input[a:b, :count].reshape(-1, *tail) for a, b, count in runs(lengths)]
        )

    def d_input(F, grad, input_shape, lengths):
        return F.unpack_rows(grad, lengths, input_shape[0])

    def batch(F, size, batched, input, lengths):
        packed = F.pack_padded_sequence(to_back(F, input, 2), lengths)
        return F.transpose(packed, 0, 1)


@op
class UnpackRows(Linear):
    """unpack_rows(input, lengths, steps) -> Tensor: what was packed, with zeros as padding."""

    aten = None
    public = False

    def fwd(xp, input, lengths, steps):
        tail = input.shape[1:]
        out = xp.zeros((steps, len(lengths), *tail), input.dtype)
        start = 0
        for a, b, count in runs(lengths):
            place = out[a:b, :count]
            end = start + len(place) * count
            place[...] = input[start:end].reshape(-1, count, *tail)
            start = end
        return out

    def d_input(F, grad, lengths):
        return F.pack_padded_sequence(grad, lengths)

    def batch(F, size, batched, input, lengths, steps):
        padded = F.unpack_rows(to_back(F, input, 1), lengths, steps)
        rank = len(padded.shape)
        return F.permute(padded, (2, 0, 1, *range(3, rank)))


def to_back(F: Any, x: Any, behind: int) -> Any:
    """The batch in front put behind the next dimensions."""
    rank = len(x.shape)
    return F.permute(x, (*range(1, behind + 1), 0, *range(behind + 1, rank)))
