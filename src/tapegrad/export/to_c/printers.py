"""How each kernel of a recorded call is spelled in C: one function per kernel."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from .elementwise import NoPrinter
from .places import Memory, number

Printer = Callable[["Call", Memory], str]
PRINTERS: dict[str, Printer] = {}
TYPE = {"f32": "float", "f64": "double"}


class Call:
    """A call of a kernel: see tape.described."""

    def __init__(self, name: str, addresses: Any, sizes: Any, numbers: Any) -> None:
        self.name = name
        self.p, self.n, self.x = addresses, sizes, numbers
        found = re.search(r"_(f32|f64)$", name)
        self.kind = found[1] if found else ""
        self.base = name[: found.start()] if found else name

    @property
    def T(self) -> str:
        return TYPE[self.kind]

    @property
    def item(self) -> int:
        return 4 if self.kind == "f32" else 8


def prints(*names: str) -> Callable[[Printer], Printer]:
    def take(printer: Printer) -> Printer:
        for name in names:
            PRINTERS[name] = printer
        return printer

    return take


def function(name: str, *args: Any) -> str:
    return f"{name}({', '.join([str(a) for a in args])});"


def printed(call: Call, memory: Memory) -> str:
    """The statement for a call; NoPrinter if there is none."""
    printer = PRINTERS.get(call.base)
    if printer is None:
        raise NoPrinter(f"the kernel `{call.name}`")
    return printer(call, memory)


def checked(text: str) -> str:
    """A call that may refuse a number: then the step gives up."""
    return f"if (!{text.rstrip(';')}) {{\n    REFUSE;\n}}"


# ---------------------------------------------------------------------- products, copies, sums


WIDE, DEEP = 32, 512  # columns that are packed together, and rows of a part: products.c


def panel_size(n: int, k: int, b_right: int) -> int:
    """Elements of the room in which a product packs columns of b; 0: it reads all in place."""
    return 0 if b_right == 1 and n % WIDE == 0 else min(k, DEEP) * WIDE


def panel_for(c: Call, memory: Memory, n: int, k: int, b_right: int) -> str:
    size = panel_size(n, k, b_right)
    return room_for(c, memory, size) if size else "NULL"


def room_for(c: Call, memory: Memory, elements: int) -> str:
    """Room for a kernel while it runs."""
    macro = "F32" if c.kind == "f32" else "F64"
    return f"{macro}({memory.scratch(elements * c.item)})"


@prints("product")
def product(c: Call, memory: Memory) -> str:
    m, n, k, a_down, a_right, b_down, b_right, ldc, stack, *batch = c.n[:12]
    a, b, row, out = c.p

    def one(i: int) -> str:
        return function(
            f"product_{c.kind}",
            *[m, n, k],
            memory.pointer(a + i * batch[0], c.T),
            *[a_down, a_right],
            memory.pointer(b + i * batch[1], c.T),
            *[b_down, b_right],
            memory.pointer(row, c.T),
            memory.pointer(out + i * batch[2], c.T, True),
            ldc,
            panel_for(c, memory, n, k, b_right),
        )

    if stack > 64:
        raise NoPrinter("a stack of more than 64 products")
    return "\n".join([one(i) for i in range(stack)])


@prints("matvec", "matvec_columns")
def product_with_vector(c: Call, memory: Memory) -> str:
    rows, width, step, length = c.n[:4]
    if c.base == "matvec" and width > length:
        raise NoPrinter("a product with a vector of more than 65,536 elements")
    a, x = [memory.pointer(p, c.T) for p in c.p[:2]]
    return function(c.name, rows, width, step, a, x, memory.pointer(c.p[2], c.T, True))


@prints("copy")
def copy(c: Call, memory: Memory) -> str:
    size, *dims = c.n
    to, source = c.p
    loops = [tuple(dims[i : i + 3]) for i in range(0, len(dims), 3)]
    if len(loops) == 1 and loops[0][1] == size and (not source or loops[0][2] == size):
        count = loops[0][0] * size
        if not source:
            return f"memset({memory.pointer(to, 'unsigned char', True)}, 0, {count});"
        return function(
            "memcpy",
            memory.plain(to, True),
            memory.plain(source),
            count,
        )
    at = " + ".join([f"i{d} * {step}" for d, (_, step, _) in enumerate(loops)])
    back = " + ".join([f"i{d} * {step}" for d, (_, _, step) in enumerate(loops)])
    head = [
        "    " * d + f"for (int64_t i{d} = 0; i{d} < {n}; i{d}++)"
        for d, (n, _, _) in enumerate(loops)
    ]
    inner = (
        f"memcpy((char *){memory.plain(to, True)} + {at}, "
        f"(const char *){memory.plain(source)} + {back}, {size});"
        if source
        else f"memset((char *){memory.plain(to, True)} + {at}, 0, {size});"
    )
    return "\n".join([*head, "    " * len(loops) + inner])


@prints("sum")
def sums(c: Call, memory: Memory) -> str:
    rows, width, length = c.n[:3]
    return function(
        c.name,
        memory.pointer(c.p[0], c.T),
        memory.pointer(c.p[1], c.T, True),
        *[rows, width, length],
        number(c.x[0]),
    )


@prints("sum_columns")
def sum_columns(c: Call, memory: Memory) -> str:
    outer, tall, inner, height = c.n[:4]
    return function(
        c.name,
        memory.pointer(c.p[0], c.T),
        memory.pointer(c.p[1], c.T, True),
        *[outer, tall, inner, height],
        number(c.x[0]),
    )


@prints("sum_few")
def sum_few(c: Call, memory: Memory) -> str:
    x, out = memory.pointer(c.p[0], c.T), memory.pointer(c.p[1], c.T, True)
    return f"*{out} = {c.name}({x}, {c.n[0]});"


@prints("check")
def check(c: Call, memory: Memory) -> str:
    return ""  # the call before it is printed so that it says itself what it refuses


# ---------------------------------------------------------------------- along rows


@prints("softmax")
def softmax(c: Call, memory: Memory) -> str:
    x, out = memory.pointer(c.p[0], c.T), memory.pointer(c.p[1], c.T, True)
    return function(c.name, x, out, *c.n[:3])


@prints("log_softmax", "logsumexp")
def log_softmax(c: Call, memory: Memory) -> str:
    x, out = memory.pointer(c.p[0], c.T), memory.pointer(c.p[1], c.T, True)
    return function(c.name, x, out, *c.n[:2])


@prints("softmax_back", "log_softmax_back")
def softmax_back(c: Call, memory: Memory) -> str:
    g, y = memory.pointer(c.p[0], c.T), memory.pointer(c.p[1], c.T)
    return function(c.name, g, y, memory.pointer(c.p[2], c.T, True), *c.n[:2])


@prints("nll", "nll_back")
def nll(c: Call, memory: Memory) -> str:
    return checked(
        function(
            c.name,
            memory.pointer(c.p[0], c.T),
            memory.pointer(c.p[1], "int64_t"),
            memory.pointer(c.p[2], c.T),
            memory.pointer(c.p[3], c.T, True),
            *c.n[:5],
        )
    )
