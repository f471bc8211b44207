"""The loops in C of src/tapegrad/kernels/portable/formulas.py, printed by running it on symbols.

Every operation becomes a variable of its own, in the order in which NumPy would do it. The result
is included by c/kernels/portable_functions.h.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tapegrad.kernels.portable import formulas

HEAD = """/* Made by tools/generate.py from kernels/portable/formulas.py: do not edit. */
"""
TYPES = {"d": "double", "u": "uint64_t", "b": "int"}


class Printer:
    """Collects the statements of one function; the primitives that formulas ask for by name."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.known: dict[str, Symbol] = {}

    def made(self, kind: str, text: str) -> Symbol:
        found = self.known.get(text)
        if found is None:
            name = f"{kind}{len(self.lines)}"
            self.lines.append(f"const {TYPES[kind]} {name} = {text};")
            found = self.known[text] = Symbol(self, kind, name)
        return found

    def where(self, condition: Symbol, a: Any, b: Any) -> Symbol:
        return self.made("d", f"{condition.text} ? {spelled(a)} : {spelled(b)}")

    def sqrt(self, x: Symbol) -> Symbol:
        return self.made("d", f"__builtin_sqrt({x.text})")

    def rint(self, x: Symbol) -> Symbol:
        return self.made("d", f"__builtin_rint({x.text})")

    def bits(self, x: Symbol) -> Symbol:
        return self.made("u", f"bits_of({x.text})")

    def floats(self, x: Symbol) -> Symbol:
        return self.made("d", f"double_of({x.text})")


def spelled(value: Any) -> str:
    if isinstance(value, Symbol):
        return value.text
    if isinstance(value, int):
        return f"UINT64_C({value:#x})"
    if not math.isfinite(value):
        return "NAN" if math.isnan(value) else "INFINITY" if value > 0 else "-INFINITY"
    return value.hex() if value >= 0 else f"({value.hex()})"


def infix(sign: str, kind: str = "", turned: bool = False) -> Callable[[Any, Any], Any]:
    def run(self: Symbol, other: Any) -> Symbol:
        first, second = (other, self) if turned else (self, other)
        text = f"{spelled(first)} {sign} {spelled(second)}"
        return self.printer.made(kind or self.kind, text)

    return run


class Symbol:
    """A variable of the printed function: a double, its bits, or a truth."""

    def __init__(self, printer: Printer, kind: str, text: str) -> None:
        self.printer = printer
        self.kind = kind
        self.text = text

    __hash__ = None  # type: ignore[assignment]
    __add__, __radd__ = infix("+"), infix("+", turned=True)
    __sub__, __rsub__ = infix("-"), infix("-", turned=True)
    __mul__, __rmul__ = infix("*"), infix("*", turned=True)
    __truediv__, __rtruediv__ = infix("/"), infix("/", turned=True)
    __and__, __or__ = infix("&"), infix("|")
    __lshift__, __rshift__ = infix("<<"), infix(">>")
    __lt__, __gt__ = infix("<", "b"), infix(">", "b")
    __le__, __ge__ = infix("<=", "b"), infix(">=", "b")
    __eq__, __ne__ = infix("==", "b"), infix("!=", "b")  # type: ignore[assignment]

    def __neg__(self) -> Symbol:
        return self.printer.made(self.kind, f"-{self.text}")


def function(name: str, formula: Any, letters: str) -> list[str]:
    printer = Printer()
    out = formula(printer, *[Symbol(printer, "d", letter) for letter in letters])
    arguments = ", ".join([f"double {letter}" for letter in letters])
    return [
        f"TG_INLINE double portable_{name}({arguments}) {{",
        *[f"    {line}" for line in printer.lines],
        f"    return {out.text};",
        "}",
    ]


def page() -> str:
    """Per function `NAME_f64`, and `NAME_f32` for results that are rounded to single floats."""
    lines = [HEAD]
    for table, letters in ((formulas.UNARY, "a"), (formulas.BINARY, "ab")):
        for name, formula in table.items():
            lines += [*function(f"{name}_f64", formula, letters), ""]
            single = formulas.SINGLE.get(name)
            if single is None:
                lines.append(f"#define portable_{name}_f32 portable_{name}_f64\n")
            else:
                lines += [*function(f"{name}_f32", single, letters), ""]
    return "\n".join(lines)
