"""Programs of the vector machine as loops in C: the same steps in the same precision."""

from __future__ import annotations

import math
import re
from typing import Any

from ...expressions.program import BOOL_KIND, DOUBLE_KIND, FLOAT_KIND
from ...kernels.cpu import KERNELS
from .places import number

KINDS = {FLOAT_KIND: "float", DOUBLE_KIND: "double", BOOL_KIND: "unsigned char"}
SIZES = {FLOAT_KIND: 4, DOUBLE_KIND: 8, BOOL_KIND: 1}
BLOCK = 256  # elements that are made before they are added up: sums.c


class NoPrinter(Exception):
    """An expression cannot be printed; the text names it."""


# By primitive: {T} is the type, {f} the suffix of the C library's functions, {r} that of ours.
OURS = "exp exp2 expm1 log log2 log10 log1p tanh sigmoid erf erfinv gelu_value gelu_slope".split()
OURS_DOUBLE = "exp expm1 log log1p tanh sigmoid".split()
LIBRARY = "sqrt floor ceil rint trunc erfc".split()
LIBRARY_DOUBLE = """
exp2 log2 log10 erf asin acos atan sinh cosh asinh acosh atanh tan atan2 hypot fmod
""".split()
TEXTS = {
    "copy": "{0}",
    "neg": "-{0}",
    "abs": "fabs{f}({0})",
    "square": "{0} * {0}",
    "reciprocal": "1 / {0}",
    "sign": "{0} != {0} ? {0} : ({T})(({0} > 0) - ({0} < 0))",
    "isnan": "{0} != {0} ? 1 : 0",
    "isinf": "fabs{f}({0}) == ({T})INFINITY ? 1 : 0",
    "isfinite": "fabs{f}({0}) < ({T})INFINITY ? 1 : 0",
    "not_": "{0} == 0 ? 1 : 0",
    "signbit": "signbit({0}) ? 1 : 0",
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "div": "{0} / {1}",
    "maximum": "(({0} > {1}) | ({0} != {0})) ? {0} : {1}",
    "minimum": "(({0} < {1}) | ({0} != {0})) ? {0} : {1}",
    "fmax": "(({0} > {1}) | ({1} != {1})) ? {0} : {1}",
    "fmin": "(({0} < {1}) | ({1} != {1})) ? {0} : {1}",
    "pow": "pow{f}({0}, {1})",
    "copysign": "copysign{f}({0}, {1})",
    "lt": "{0} < {1} ? 1 : 0",
    "le": "{0} <= {1} ? 1 : 0",
    "gt": "{0} > {1} ? 1 : 0",
    "ge": "{0} >= {1} ? 1 : 0",
    "eq": "{0} == {1} ? 1 : 0",
    "ne": "{0} != {1} ? 1 : 0",
    "and_": "(({0} != 0) & ({1} != 0)) ? 1 : 0",
    "or_": "(({0} != 0) | ({1} != 0)) ? 1 : 0",
    "xor_": "(({0} != 0) != ({1} != 0)) ? 1 : 0",
    "select": "{0} != 0 ? {1} : {2}",
    # Those of large numbers are the C library's.
    "sin": "fabs{f}({0}) <= {limit} ? sin_{r}({0}) : sin{f}({0})",
    "cos": "fabs{f}({0}) <= {limit} ? cos_{r}({0}) : cos{f}({0})",
}
LIMITS = {FLOAT_KIND: "1e9f", DOUBLE_KIND: "0x1p20"}  # TRIG_LIMIT of vecmath.h


def text_of(name: str, kind: int, args: list[str]) -> str:
    single = kind == FLOAT_KIND
    form = TEXTS.get(name)
    if form is None and name in (OURS if single else OURS_DOUBLE):
        form = f"{name}_{{r}}({{0}})"
    if form is None and name in LIBRARY + ([] if single else LIBRARY_DOUBLE):
        given = ", ".join([f"{{{i}}}" for i in range(len(args))])
        form = f"{name}{{f}}({given})"
    if form is None:
        raise NoPrinter(f"`{name}` of {'float32' if single else 'float64'}")
    return form.format(
        *args,
        T=KINDS[kind],
        f="f" if single else "",
        r="f32" if single else "f64",
        limit=LIMITS[kind],
    )


def body(said: Any, reads: list[str]) -> tuple[list[str], list[str]]:
    """Statements for one element, and the names of its results; `reads`: its inputs."""
    kind, _, constants, kinds, given, _, steps, _ = said
    if kind not in (FLOAT_KIND, DOUBLE_KIND):
        raise NoPrinter("half precision")
    T, suffix = KINDS[kind], "f" if kind == FLOAT_KIND else ""
    names = {code: name for name, (code, _) in KERNELS.STEPS.items()}
    registers: dict[int, Any] = dict(enumerate(reads))
    for i, constant in enumerate(constants):
        is_list = isinstance(constant, tuple)
        texts = [number(float(c), suffix) for c in (constant if is_list else [constant])]
        texts = [f"({text})" if text[0] == "-" else text for text in texts]
        registers[len(reads) + i] = texts if is_list else texts[0]
    lines: list[str] = []
    for code, out, *args in steps:
        name = names[code]
        if name in ("skip", "skipped"):
            continue
        operands = [registers[a] for a in args]
        if name == "polynomial":
            x, (first, *rest) = operands
            text = first
            for coefficient in rest:
                text = f"({text} * {x} + {coefficient})"
        else:
            text = text_of(name, kind, operands)
        lines.append(f"const {T} v{len(lines)} = {text};")
        registers[out] = f"v{len(lines) - 1}"
    first = len(reads) + len(constants)
    return lines, [registers[first + i] for i in range(len(kinds))]


def with_names(said: Any, reads: list[str], T: str) -> tuple[list[str], list[str], list[str]]:
    """The elements that are read, by name, then what `body` gives."""
    lines, results = body(said, [f"a{i}" if "[" in x else x for i, x in enumerate(reads)])
    used = set(re.findall(r"\ba\d+\b", " ".join([*lines, *results])))
    named = [
        f"const {T} a{i} = {text};" if f"a{i}" in used else f"(void)x{i};"
        for i, text in enumerate(reads)
        if "[" in text
    ]
    return named, lines, results


def joined(sizes: Any, strides: list[Any]) -> tuple[list[int], list[list[int]]]:
    """Sizes and strides without dimensions of one element, neighbours that go on joined."""
    made: list[int] = []
    steps: list[list[int]] = [[] for _ in strides]
    for d, n in enumerate(sizes):
        if n == 1:
            continue
        if made and all([s[-1] == x[d] * n for s, x in zip(steps, strides, strict=True)]):
            made[-1] *= n
            for s, x in zip(steps, strides, strict=True):
                s[-1] = x[d]
        else:
            made.append(n)
            for s, x in zip(steps, strides, strict=True):
                s.append(x[d])
    return made, steps


def place(name: str, steps: list[int], size: int) -> str:
    """An element of an operand in nested loops."""
    terms = []
    for d, step in enumerate(steps):
        if step % size:
            raise NoPrinter("elements that lie between others")
        if step:
            at = step // size
            terms.append(f"i{d}" if at == 1 else f"i{d} * {at}")
    return f"{name}[{' + '.join(terms) or '0'}]"


def read(kind: int, computed: int, text: str) -> str:
    return text if kind == computed else f"({KINDS[computed]}){text}"


def stored(kind: int, computed: int, text: str) -> str:
    if kind == BOOL_KIND:
        return f"{text} != 0"
    return text if kind == computed else f"({KINDS[kind]}){text}"


def check_kinds(operands: Any) -> None:
    for kind, at, *_ in operands:
        if at and kind not in KINDS:
            raise NoPrinter("half precision")


def loops(name: str, said: Any, sizes: Any, operands: Any) -> str:
    """A function that does an elementwise program; its arguments are the operands in memory."""
    kind = said[0]
    check_kinds(operands)
    outs = len(said[3])
    count = len(operands) - outs
    if math.prod(sizes) == 1:
        sizes = ()
    made, steps = joined(sizes, [x[3] for x in operands])
    reads, head, stores = [], [], []
    suffix = "f" if kind == FLOAT_KIND else ""
    for k, (of, at, value, _) in enumerate(operands):
        is_out = k >= count
        if not at:
            text = number(float(value), suffix)
            reads.append(f"({text})" if text[0] == "-" else text)
            continue
        label = f"out{k - count}" if is_out else f"x{k}"
        head.append(f"{'' if is_out else 'const '}{KINDS[of]} *{label}")
        text = place(label, steps[k], SIZES[of])
        if is_out:
            stores.append((of, text))
        else:
            reads.append(read(of, kind, text))
    T = KINDS[kind]
    named, lines, results = with_names(said, reads, T)
    inner = [*named, *lines]
    inner += [f"{to} = {stored(of, kind, r)};" for (of, to), r in zip(stores, results, strict=True)]
    text: list[str] = []
    for d, n in enumerate(made):
        if d == len(made) - 1:
            text.append("    " * (d + 1) + "INDEPENDENT")
        text.append("    " * (d + 1) + f"for (int64_t i{d} = 0; i{d} < {n}; i{d}++)")
    if not made:
        return f"static void {name}({', '.join(head)}) {{\n" + indented(inner, 1) + "}\n"
    text[-1] += " {"
    deep = len(made) + 1
    return (
        f"static void {name}({', '.join(head)}) {{\n"
        + "\n".join(text)
        + "\n"
        + indented(inner, deep)
        + "    " * (deep - 1)
        + "}\n}\n"
    )


def indented(lines: list[str], deep: int) -> str:
    return "".join(["    " * deep + line + "\n" for line in lines])


def summed(name: str, said: Any, sizes: Any, numbers: Any, addresses: Any) -> str:
    """A function that adds up what a program makes, into the array that is its first argument."""
    out, is_kept, rows, width, length = sizes[:5]
    operands = [
        (sizes[5 + 2 * k], at, numbers[1 + k], sizes[6 + 2 * k])
        for k, at in enumerate(addresses[2:])
    ]
    kind = said[0]
    check_kinds(operands)
    T, r = KINDS[kind], "f32" if kind == FLOAT_KIND else "f64"
    count = len(operands) - len(said[3])
    head, reads, stores = [f"{T} *sums_out"], [], []
    for k, (of, at, value, step) in enumerate(operands):
        index = "at" if step else "0"
        if k >= count:
            if at:
                head.append(f"{KINDS[of]} *out{k - count}")
            to = f"out{k - count}[{index}]" if at else ""
            stores.append((of, to, k == out))
        elif at:
            head.append(f"const {KINDS[of]} *x{k}")
            reads.append(read(of, kind, f"x{k}[{index}]"))
        else:
            text = number(float(value), "f" if kind == FLOAT_KIND else "")
            reads.append(f"({text})" if text[0] == "-" else text)
    named, lines, results = with_names(said, reads, T)
    inner = [*named, *lines]
    for (of, to, is_sum), result in zip(stores, results, strict=True):
        if to:
            inner.append(f"{to} = {stored(of, kind, result)};")
        if is_sum:
            inner.append(f"some[i] = {result};")
    lanes = 8 if kind == FLOAT_KIND else 4
    pieces = -(-width // length)
    many = pieces > 1
    return f"""static void {name}({", ".join(head)}) {{
    for (int64_t row = 0; row < {rows}; row++) {{
        double sum = 0;
        for (int64_t first = 0; first < {width}; first += {length}) {{
            const int64_t count = least({length}, {width} - first);
            double sums[{lanes}] = {{0}}, total = 0;
            for (int64_t from = 0; from < count; from += {BLOCK}) {{
                const int64_t n = least({BLOCK}, count - from);
                const int64_t begin = row * {width} + first + from;
                {T} some[{BLOCK}];
                INDEPENDENT
                for (int64_t i = 0; i < n; i++) {{
                    const int64_t at = begin + i;
                    (void)at;
{indented(inner, 5)}                }}
                sum_on_{r}(some, n, sums, &total);
            }}
            sum {"+" if many else ""}= sum_end_{r}(sums, total);
        }}
        sums_out[row] = ({T})(sum / {number(numbers[0])});
    }}
}}
"""
