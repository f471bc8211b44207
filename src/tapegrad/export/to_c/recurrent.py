"""Printers of the kernels of recurrent layers."""

from __future__ import annotations

from .places import Memory
from .printers import Call, function, prints, room_for


def walk(c: Call, memory: Memory, at: int) -> str:
    """The table with the first row and the number of rows of every step."""
    return memory.table(memory.values(at, 2 * c.n[1]), "walk")


@prints("lstm")
def lstm(c: Call, memory: Memory) -> str:
    gates, hx, cx, weight, cells, out = c.p[:6]
    return function(
        c.name,
        memory.pointer(gates, c.T, True),
        *[memory.pointer(at, c.T) for at in (hx, cx, weight)],
        memory.pointer(cells, c.T, True),
        memory.pointer(out, c.T, True),
        walk(c, memory, c.p[6]),
        *c.n[1:3],
        room_for(c, memory, 4 * c.n[2] ** 2),
    )


@prints("lstm_back")
def lstm_back(c: Call, memory: Memory) -> str:
    return function(
        c.name,
        *[memory.pointer(at, c.T) for at in c.p[:6]],
        *[memory.pointer(at, c.T, True) for at in c.p[6:9]],
        walk(c, memory, c.p[9]),
        *c.n[1:3],
    )


@prints("gru")
def gru(c: Call, memory: Memory) -> str:
    return function(
        c.name,
        *[memory.pointer(at, c.T) for at in c.p[:4]],
        *[memory.pointer(at, c.T, True) for at in c.p[4:6]],
        walk(c, memory, c.p[6]),
        *c.n[1:3],
        room_for(c, memory, 3 * c.n[2] ** 2),
    )


@prints("gru_back")
def gru_back(c: Call, memory: Memory) -> str:
    return function(
        c.name,
        *[memory.pointer(at, c.T) for at in c.p[:5]],
        *[memory.pointer(at, c.T, True) for at in c.p[5:8]],
        walk(c, memory, c.p[8]),
        *c.n[1:3],
    )


@prints("rnn")
def rnn(c: Call, memory: Memory) -> str:
    return function(
        c.name,
        memory.pointer(c.p[0], c.T, True),
        *[memory.pointer(at, c.T) for at in c.p[1:3]],
        walk(c, memory, c.p[3]),
        *c.n[1:4],
        room_for(c, memory, c.n[2] ** 2),
    )


@prints("rnn_back")
def rnn_back(c: Call, memory: Memory) -> str:
    return function(
        c.name,
        *[memory.pointer(at, c.T) for at in c.p[:3]],
        *[memory.pointer(at, c.T, True) for at in c.p[3:5]],
        walk(c, memory, c.p[5]),
        *c.n[1:4],
    )
