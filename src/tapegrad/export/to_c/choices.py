"""Printers of the kernels that choose, of whole numbers, and of random numbers."""

from __future__ import annotations

from ...core.strides import address
from ...ops.draws.generators import default_generator
from .elementwise import NoPrinter
from .places import Memory, number
from .printers import Call, checked, function, prints


@prints("take")
def take(c: Call, memory: Memory) -> str:
    source, index, out = memory.plain(c.p[0]), memory.pointer(c.p[1], "int64_t"), c.p[2]
    return checked(function("take", source, index, memory.plain(out, True), *c.n[:5]))


@prints("add_rows")
def add_rows(c: Call, memory: Memory) -> str:
    return checked(
        function(
            c.name,
            memory.pointer(c.p[0], c.T, True),
            memory.pointer(c.p[1], "int64_t"),
            memory.pointer(c.p[2], c.T),
            *c.n[:7],
        )
    )


@prints("put_part")
def put_part(c: Call, memory: Memory) -> str:
    part, out = memory.plain(c.p[0]), memory.plain(c.p[1], True)
    return function("put_part", part, out, *c.n[:10])


@prints("extremes")
def extremes(c: Call, memory: Memory) -> str:
    return function(
        c.name,
        memory.pointer(c.p[0], c.T),
        memory.pointer(c.p[1], c.T, True),
        memory.pointer(c.p[2], "int64_t", True),
        *c.n[:4],
    )


@prints("truths")
def truths(c: Call, memory: Memory) -> str:
    x, out = (memory.pointer(at, "unsigned char", k == 1) for k, at in enumerate(c.p[:2]))
    return function("truths", x, out, *c.n[:4])


@prints("places")
def places(c: Call, memory: Memory) -> str:
    count, many = c.n[:2]
    out = memory.pointer(c.p[0], "int64_t", True)
    return "\n".join(
        [
            checked(
                function(
                    "place_on",
                    out,
                    memory.pointer(c.p[1 + k], "int64_t"),
                    *[count, c.n[2 + k], int(k == 0)],
                )
            )
            for k in range(many)
        ]
    )


@prints("moved")
def moved(c: Call, memory: Memory) -> str:
    table = memory.pointer(c.p[1], "int64_t")
    return function("moved", memory.plain(c.p[0]), table, memory.plain(c.p[2], True), *c.n[:2])


@prints("gather")
def gather(c: Call, memory: Memory) -> str:
    source, index = memory.plain(c.p[0]), memory.pointer(c.p[1], "int64_t")
    return checked(function("gather", source, index, memory.plain(c.p[2], True), *c.n[:5]))


@prints("scatter")
def scatter(c: Call, memory: Memory) -> str:
    return checked(
        function(
            c.name,
            memory.pointer(c.p[0], c.T, True),
            memory.pointer(c.p[1], "int64_t"),
            memory.pointer(c.p[2], c.T),
            *c.n[:6],
            number(c.x[0]),
        )
    )


@prints("running")
def running(c: Call, memory: Memory) -> str:
    x, out = memory.pointer(c.p[0], c.T), memory.pointer(c.p[1], c.T, True)
    return function(c.name, x, out, *c.n[:4])


@prints("spread")
def spread(c: Call, memory: Memory) -> str:
    return function(
        c.name,
        memory.pointer(c.p[0], c.T),
        *[memory.pointer(at, c.T, True) for at in c.p[1:3]],
        *[*c.n[:3], number(c.x[0]), f"F64({memory.scratch(8 * c.n[1])})"],
    )


# ---------------------------------------------------------------------- whole numbers

# In the order of their codes in integers.c; sums wrap around.
WHOLE = (
    """
{x} == {y}|{x} != {y}|{x} < {y}|{x} <= {y}|{x} > {y}|{x} >= {y}
|(int64_t)((uint64_t){x} + (uint64_t){y})|(int64_t)((uint64_t){x} - (uint64_t){y})
|(int64_t)((uint64_t){x} * (uint64_t){y})|{y} == -1 ? 0 : ({x} % {y} + {y}) % {y}
|{x} & {y}|{x} | {y}|{x} ^ {y}
""".replace(" | ", " # ")
    .replace("\n", "")
    .split("|")
)


def loops(sizes: list[int], inner: str) -> str:
    """A statement in nested loops."""
    lines = [f"for (int64_t i{d} = 0; i{d} < {n}; i{d}++)" for d, n in enumerate(sizes)]
    return "\n".join(["    " * d + line for d, line in enumerate([*lines, inner])])


def index(steps: list[int]) -> str:
    terms = [f"i{d}" if s == 1 else f"i{d} * {s}" for d, s in enumerate(steps) if s]
    return " + ".join(terms) or "0"


@prints("whole")
def whole(c: Call, memory: Memory) -> str:
    code, given, made, dims = c.n[:4]
    sizes, first, second = [list(c.n[4 + k * dims : 4 + (k + 1) * dims]) for k in range(3)]
    T, to = ["unsigned char" if n == 1 else "int64_t" for n in (given, made)]
    x = f"({memory.pointer(c.p[0], T)})[{index(first)}]"
    y = f"({memory.pointer(c.p[1], T)})[{index(second)}]"
    steps = [1] * dims
    for d in range(dims - 2, -1, -1):
        steps[d] = steps[d + 1] * sizes[d + 1]
    text = WHOLE[code].replace("#", "|").format(x=x, y=y)
    cast = "(unsigned char)" if to == "unsigned char" else ""
    out = f"({memory.pointer(c.p[2], to, True)})[{index(steps)}]"
    return loops(sizes, f"{out} = {cast}({text});")


CONVERSIONS = (
    ("int64_t", "float", "({T})"),
    ("int64_t", "double", "({T})"),
    ("unsigned char", "int64_t", ""),
    ("int64_t", "unsigned char", "0 != "),
)


@prints("convert")
def convert(c: Call, memory: Memory) -> str:
    source, T, how = CONVERSIONS[c.n[1]]
    x, out = memory.pointer(c.p[0], source), memory.pointer(c.p[1], T, True)
    return loops([c.n[0]], f"({out})[i0] = {how.format(T=T)}({x})[i0];")


# ---------------------------------------------------------------------- random numbers


def drawn(c: Call) -> None:
    if c.p[0] != address(default_generator.stream.memory()[0]):
        raise NoPrinter("random numbers of a generator of its own")


@prints("coins", "coins_bool")
def coins(c: Call, memory: Memory) -> str:
    drawn(c)
    T = c.T if c.kind else "unsigned char"
    return function(c.name, memory.pointer(c.p[1], T, True), c.n[0], number(c.x[0]))


@prints("coins_of")
def coins_of(c: Call, memory: Memory) -> str:
    drawn(c)
    chances, out = memory.pointer(c.p[1], c.T), memory.pointer(c.p[2], c.T, True)
    return checked(function(c.name, chances, out, c.n[0]))


@prints("uniform", "normal", "single")
def uniform(c: Call, memory: Memory) -> str:
    drawn(c)
    out = memory.pointer(c.p[1], c.T, True)
    return function(c.name, out, c.n[0], number(c.x[0]), number(c.x[1]))


@prints("integers")
def integers(c: Call, memory: Memory) -> str:
    drawn(c)
    return function("integers", memory.pointer(c.p[1], "int64_t", True), *c.n[:4])


@prints("permutation")
def permutation(c: Call, memory: Memory) -> str:
    drawn(c)
    return function("permutation", memory.pointer(c.p[1], "int64_t", True), c.n[0])


@prints("picks")
def picks(c: Call, memory: Memory) -> str:
    drawn(c)
    weights, out = memory.pointer(c.p[1], c.T), memory.pointer(c.p[2], "int64_t", True)
    return checked(function(c.name, weights, out, *c.n[:2]))
