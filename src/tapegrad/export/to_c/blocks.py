"""The functions in C that a file may need: our own vecmath.h, and the texts in `sources`.

A text in `sources` is cut at lines `/*@ name */`. In it `real` stands for the type and for the end
of names, LANES for how many of them fit into 32 bytes, FMA for the fused multiply-add, SQRT for
the root. After the name there may be sizes of tiles, HIGHxWIDE, of which each makes a function.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

HERE = Path(__file__).parent / "sources"
VECMATH = Path(__file__).parents[2] / "kernels/cpu/c/machine/vecmath.h"
KINDS = {"f32": ("float", "8", "fmaf"), "f64": ("double", "4", "fma")}
SQRT = {"f32": "sqrtf", "f64": "sqrt"}
BELOW = {"f32": "exp_below_f32", "f64": "exp_f64"}  # of numbers that are not positive


@functools.cache
def blocks() -> dict[str, str]:
    """All functions by name, those of vecmath.h first."""
    found = dict(from_vecmath())
    for path in sorted(HERE.glob("*.c")):
        pieces = re.split(r"^/\*@ (\w+)(.*) \*/\n", path.read_text(), flags=re.MULTILINE)
        for name, tiles, text in zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True):
            if not re.search(r"real", name):
                found[name] = text.strip() + "\n"
                continue
            for kind in KINDS:
                made = of_kind(text, kind).strip() + "\n"
                own = name.replace("real", kind)
                for tile in tiles.split():
                    found[f"{own}_{tile}"] = of_tile(made, own, tile)
                if not tiles:
                    found[own] = made
    return found


def of_kind(text: str, kind: str) -> str:
    T, lanes, fma = KINDS[kind]
    text = re.sub(r"_real\b", f"_{kind}", text)
    text = re.sub(r"\breal\b", T, text)
    text = re.sub(r"\bLANES\b", lanes, text)
    text = re.sub(r"\bBELOW\b", BELOW[kind], text)
    text = re.sub(r"\bSQRT\b", SQRT[kind], text)
    return re.sub(r"\bFMA\b", fma, text)


def of_tile(text: str, name: str, tile: str) -> str:
    """A function for tiles of some size."""
    high, wide = tile.split("x")
    text = re.sub(rf"\b{name}\b", f"{name}_{tile}", text)
    return re.sub(r"\bHIGH\b", high, re.sub(r"\bWIDE\b", wide, text))


def from_vecmath() -> dict[str, str]:
    """The functions of vecmath.h, each with its comment."""
    text = VECMATH.read_text()
    macro = re.search(r"#define TRIGONOMETRY\(T, kind\)(.*?)\nTRIGONOMETRY", text, re.DOTALL)
    if macro is not None:  # sine and cosine, once per type
        plain = re.sub(r"[ \t]*\\\n {4}", "\n", macro[1].replace("##kind", "##"))
        for kind, (T, _, _) in KINDS.items():
            text += re.sub(r"\bT\b", T, plain.replace("_##", f"_{kind}")) + "\n"
    found: dict[str, str] = {}
    lines = text.splitlines()
    for i, line in enumerate(lines):
        name = re.match(r"TG_INLINE [^(]*?(\w+)\(", line)
        if name is None:
            continue
        end = i
        while "\n".join(lines[i : end + 1]).count("}") == 0 or not balanced(lines[i : end + 1]):
            end += 1
        begin = i
        if lines[i - 1].endswith("*/"):
            while not lines[begin].startswith("/*"):
                begin -= 1
        function = "\n".join(lines[begin : end + 1]).replace("TG_INLINE", "static inline")
        found[name[1]] = function.replace("FMA32", "fmaf").replace("FMA64", "fma") + "\n"
    return found


def balanced(lines: list[str]) -> bool:
    text = "\n".join(lines)
    return text.count("{") == text.count("}")


WORD = re.compile(r"\b[A-Za-z_]\w*\b")


def needed(text: str) -> list[str]:
    """The functions that a text calls and those that these call, each after those that it needs."""
    known = blocks()
    found: dict[str, str] = {}

    def visit(name: str) -> None:
        if name in found:
            return
        for other in dict.fromkeys(WORD.findall(known[name])):
            if other in known and other != name:
                visit(other)
        found[name] = known[name]

    for name in dict.fromkeys(WORD.findall(text)):
        if name in known:
            visit(name)
    return list(found.values())
