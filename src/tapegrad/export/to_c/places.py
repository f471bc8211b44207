"""Where the values of a recorded call are, and where they are in the C file."""

from __future__ import annotations

import bisect
import re
from typing import Any

import numpy as np

from ...core.strides import address

TYPES = {
    "float32": "float",
    "float64": "double",
    "int64": "int64_t",
    "int32": "int32_t",
    "bool": "unsigned char",
    "uint8": "unsigned char",
}
LINE = 64  # bytes: values in the arena begin with a line of the cache
MACROS = {"float": "F32", "double": "F64", "int64_t": "I64", "unsigned char": "U8"}


class Place:
    """A piece of memory: an argument, a tensor that keeps its values, a constant, or a value."""

    def __init__(self, kind: str, array: Any, name: str = "", said: str = "") -> None:
        self.kind = kind  # "argument", "tensor", "constant", "value" or "arena"
        self.begin, self.end = address(array), address(array) + array.nbytes
        self.array = array  # kept alive: the addresses stay its own
        self.name, self.said = name, said
        self.offset = 0  # of a value in the arena
        self.is_read = self.is_written = self.is_parameter = False
        self.initial = array

    @property
    def type_name(self) -> str:
        return TYPES.get(str(self.array.dtype), "unsigned char")


class Memory:
    """The places of a program, found by address."""

    def __init__(self) -> None:
        self.places: list[Place] = []  # in the order of addresses
        self.begins: list[int] = []
        self.names: set[str] = set()
        self.planned = 0  # bytes of the compiled step's plan
        self.total = 0  # of the arena
        self.most_scratch = self.scratch_at = 0  # that kernels need while they run
        self.tables: dict[tuple[int, ...], str] = {}

    def add(self, place: Place) -> Place:
        known = self.find(place.begin)
        if known is not None and place.end > place.begin:
            return known
        at = bisect.bisect(self.begins, place.begin)
        self.begins.insert(at, place.begin)
        self.places.insert(at, place)
        return place

    def unique(self, name: str) -> str:
        """A C identifier of its own, like a name of the user's."""
        plain = re.sub(r"\W+", "_", name.replace("`", "")).strip("_") or "value"
        if plain[0].isdigit() or plain in RESERVED:
            plain = f"v_{plain}"
        found, n = plain, 2
        while found in self.names:
            found, n = f"{plain}_{n}", n + 1
        self.names.add(found)
        return found

    def find(self, at: int) -> Place | None:
        i = bisect.bisect(self.begins, at) - 1
        if i >= 0 and self.begins[i] <= at < self.places[i].end:
            return self.places[i]
        return None

    def room(self, nbytes: int) -> int:
        """More of the arena."""
        at = self.total
        self.total += -(-nbytes // LINE) * LINE
        return at

    def pointer(self, at: int, type_name: str, writes: bool = False) -> str:
        """The text of a pointer to what is at an address now."""
        if not at:
            return "NULL"
        place = self.find(at)
        if place is None:
            raise LookupError(f"nothing known is at {at:#x}")
        if writes:
            place.is_written = True
        else:
            place.is_read = True
        offset = at - place.begin
        if place.kind in ("arena", "value"):
            return f"{MACROS[type_name]}({place.offset + offset})"
        if place.kind == "argument" and writes:
            raise LookupError("an argument is written into")
        if not place.name:
            place.name = self.unique("constant")
        if place.type_name != type_name:
            cast = f"(({'' if writes else 'const '}{type_name} *)(void *){place.name})"
            raise LookupError(f"{cast} would look at one type as another")
        size = place.array.dtype.itemsize
        if offset % size:
            raise LookupError("an address between two elements")
        return place.name if not offset else f"{place.name} + {offset // size}"

    def scratch(self, nbytes: int) -> int:
        """Where in the arena a kernel has room for itself while it runs."""
        self.most_scratch = max(self.most_scratch, nbytes)
        return self.scratch_at

    def table(self, values: list[int], name: str) -> str:
        """The name of a constant array of whole numbers."""
        key = tuple(values)
        if key not in self.tables:
            self.tables[key] = self.unique(name)
        return self.tables[key]

    def values(self, at: int, count: int) -> list[int]:
        """The whole numbers in an array that is always the same."""
        place = self.find(at)
        if place is None or place.kind != "constant":
            raise LookupError("a table that is not always the same")
        flat = np.ascontiguousarray(place.array).reshape(-1).view(np.uint8)
        return flat[at - place.begin :][: 8 * count].view(np.int64).tolist()

    def plain(self, at: int, writes: bool = False) -> str:
        """`pointer` for those who copy bytes."""
        place = self.find(at)
        if place is None:
            raise LookupError(f"nothing known is at {at:#x}")
        if place.kind in ("arena", "value"):
            return self.pointer(at, "unsigned char", writes)
        return self.pointer(at, place.type_name, writes)


RESERVED = set(
    """
    auto break case char const continue default do double else enum extern float for goto if inline
    int long register restrict return short signed sizeof static struct switch typedef union
    unsigned void volatile while arena main i j k n sum exp log sin cos tan pow sqrt y0 y1 yn j0 j1
    jn gamma index time clock signal div remove rename exit abort out parameters lr
    """.split()
)


def numbers_text(array: Any) -> list[str]:
    """The elements of an array as lines of C, exact to the bit."""
    flat = np.ascontiguousarray(array).reshape(-1)
    if flat.dtype.kind == "f":
        suffix = "f" if flat.dtype.itemsize == 4 else ""
        texts = [number(float(x), suffix) for x in flat]
    else:
        texts = [str(int(x)) for x in flat]
    lines, line = [], ""
    for text in texts:
        if len(line) + len(text) > 96:
            lines.append(line)
            line = ""
        line += ("    " if not line else " ") + text + ","
    return [*lines, line] if line else lines


def number(value: float, suffix: str = "") -> str:
    """A number in C, exact to the bit."""
    if value != value:
        return "NAN" if suffix else "(double)NAN"
    if value in (float("inf"), float("-inf")):
        sign = "-" if value < 0 else ""
        return f"{sign}INFINITY" if suffix else f"({sign}(double)INFINITY)"
    text = np.format_float_positional(
        np.float32(value) if suffix else np.float64(value), unique=True, trim="0"
    )
    if len(text) > 16:
        text = repr(float(str(np.float32(value)))) if suffix else repr(value)
    return text + suffix
