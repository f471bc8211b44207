"""The C file: what was printed, in the order of the language."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.strides import address
from .blocks import needed
from .places import MACROS, TYPES, Place, number, numbers_text
from .program import Printed

DEFINITIONS = {
    "F32": "float",
    "F64": "double",
    "I64": "int64_t",
    "U8": "unsigned char",
}


def page(printed: Printed, name: str, origin: str, weights: str) -> tuple[str, list[Place]]:
    """The text of the file, and the tensors whose first values are in the file of weights."""
    memory = printed.memory
    tensors = [p for p in memory.places if p.kind == "tensor" and (p.is_read or p.is_written)]
    tensors.sort(key=lambda p: (not p.is_parameter, p.name))
    fixed = [p for p in tensors if not p.is_written and not p.is_parameter]
    kept = [p for p in tensors if p not in fixed]
    parameters = [p for p in kept if p.is_parameter]
    constants = [p for p in memory.places if p.kind == "constant" and p.is_read]
    trains = bool(printed.updates) or any([p.is_written for p in tensors])
    functions = "\n".join([text for _, text in printed.functions.values()])
    entry, prototypes = entry_points(printed, name, kept, parameters, trains, weights)
    body = "\n".join([functions, entry])
    blocks = "\n".join(needed(body))
    upper = name.upper()
    texts = [
        head(printed, name, origin, kept, parameters, prototypes, weights),
        includes(body + blocks, weights),
        f"enum {{\n    {upper}_ARENA_BYTES = {max(memory.total, 1)},\n"
        f"    {upper}_PARAMETER_BYTES = {sum([p.array.nbytes for p in parameters])}\n}};\n",
        arena(printed, upper, body),
        *[declared(p, p.initial, "static const ") for p in (*fixed, *constants)],
        *[table(name, values) for values, name in memory.tables.items()],
        *[state(p, weights) for p in kept],
        counters(printed),
        blocks,
        functions,
        entry,
    ]
    return "\n".join([text for text in texts if text]), kept


def head(
    printed: Printed,
    name: str,
    origin: str,
    kept: list[Place],
    parameters: list[Place],
    prototypes: list[str],
    weights: str,
) -> str:
    memory = printed.memory
    state = sum([p.array.nbytes for p in kept])
    lines = [
        f"{name}.c: {origin}, printed by tapegrad.export.c.",
        "",
        "Standard C11 and the C library: nothing is allocated, and nothing else is linked but -lm.",
        "    cc -std=c11 -O3 -march=native -ffp-contract=off -fno-math-errno -c " + name + ".c",
        "Processors without a fused multiply-add get the same numbers, slowly.",
        "",
        f"Memory: an arena of {memory.total} bytes ({memory.planned} that values share as in the plan of",
        f"the compiled step, {memory.total - memory.planned} for results and gradients), and {state} bytes of parameters and",
        f"state, of which {sum([p.array.nbytes for p in parameters])} are parameters:",
        *[f"    {p.said}: {TYPES[str(p.array.dtype)]}[{p.array.size}]" for p in kept],
        "",
        "To call it from other files:",
        *[f"    {p};" for p in prototypes],
    ]
    return "/* " + "\n   ".join(lines).replace("   \n", "\n") + " */\n"


def includes(text: str, weights: str) -> str:
    names = ["math.h", "stddef.h", "stdint.h", "string.h"]
    if weights:
        names.insert(3, "stdio.h")
    return (
        "\n".join([f"#include <{n}>" for n in sorted(names)])
        + """

/* A product and a sum are rounded together only where fma says so. */
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#define INDEPENDENT
#elif defined(__GNUC__)
#define INDEPENDENT _Pragma("GCC ivdep")
#if !defined(__STRICT_ANSI__)
#pragma GCC optimize("fp-contract=off")
#endif
#else
#define INDEPENDENT
#endif
"""
    )


def arena(printed: Printed, upper: str, body: str) -> str:
    lines = [
        "/* All values between the steps; two of them share a place if they are not needed at once. */",
        f"static _Alignas(64) unsigned char arena[{upper}_ARENA_BYTES];",
    ]
    for macro, type_name in DEFINITIONS.items():
        if f"{macro}(" in body:
            lines.append(f"#define {macro}(at) (({type_name} *)(void *)(arena + (at)))")
    return "\n".join(lines) + "\n" if "arena" in body or len(lines) > 2 else ""


def declared(place: Place, values: Any, how: str, name: str = "") -> str:
    flat = np.ascontiguousarray(values.reshape(-1) if values.flags.c_contiguous else values.T)
    lines = numbers_text(flat)
    size = max(values.size, 1)
    said = f" /* {place.said} */" if place.said else ""
    body = "\n".join(lines)
    return f"{how}{place.type_name} {name or place.name}[{size}] = {{{said}\n{body}\n}};\n"


def table(name: str, values: tuple[int, ...]) -> str:
    lines = "\n".join(numbers_text(np.array(values, np.int64)))
    return f"static const int64_t {name}[{len(values)}] = {{\n{lines}\n}};\n"


def begins_with_zeros(place: Place) -> bool:
    x = np.ascontiguousarray(place.initial)
    return not x.view(np.uint8).any() if x.ndim else not x.tobytes().strip(b"\0")


def state(place: Place, weights: str) -> str:
    size = place.array.size
    text = f"static {place.type_name} {place.name}[{size}]; /* {place.said} */\n"
    if weights or begins_with_zeros(place):
        return text
    return declared(place, place.initial, "static const ", f"first_{place.name}") + text


def counters(printed: Printed) -> str:
    lines = []
    for u in printed.updates:
        lines.append(f"static double {u.lr};")
        if u.done.rule.fresh or u.counts:
            lines.append(f"static double {u.counter};")
    if any(["REFUSE" in text for _, text in printed.statements]):
        lines.append("static const char *refused_because; /* NULL: nothing was refused */")
    return "\n".join(lines) + "\n" if lines else ""


def entry_points(
    printed: Printed,
    name: str,
    kept: list[Place],
    parameters: list[Place],
    trains: bool,
    weights: str,
) -> tuple[str, list[str]]:
    """The functions for others, and their prototypes."""
    recording, memory = printed.recording, printed.memory
    refuses = any(["REFUSE" in text for _, text in printed.statements])
    arguments = []
    for label, t in zip(printed.arguments, recording.inputs, strict=True):
        if t is not None:
            arguments.append(f"const {TYPES[str(t._array.dtype)]} *{label}")
    results = printed.results
    scalar = len(results) == 1 and results[0].size == 1 and results[0].dtype.kind == "f"
    T = TYPES[str(results[0].dtype)] if scalar else "void"
    outs = (
        []
        if scalar
        else [
            f"{TYPES[str(x.dtype)]} *out{i + 1 if len(results) > 1 else ''}"
            for i, x in enumerate(results)
        ]
    )
    verb = "step" if trains else "predict"
    main = f"{T} {name}_{verb}({', '.join([*arguments, *outs]) or 'void'})"
    prototypes = [f"void {name}_init(void)", main]
    found = [function(init(printed, name, kept, weights))]
    lines = []
    if refuses:
        lines.append("refused_because = NULL;")
    before = ""
    for line, text in printed.statements:
        if line and line != before:
            lines += ["", "/* " + line.replace("*/", "* /").replace("\n", "\n   ") + " */"]
            before = line
        fail = "return (%s)NAN" % T if scalar else "return"
        text = text.replace('REFUSE("', 'REFUSE "')
        while "REFUSE " in text:
            head, _, rest = text.partition("REFUSE ")
            why, _, rest = rest.partition(")")
            text = f"{head.rstrip()[:-1].rstrip() if False else head}return refuse({why}){rest}"
        lines += text.split("\n")
    lines.append("")
    if scalar:
        lines.append(f"return *{memory.pointer(address(results[0]), T)};")
    else:
        for i, x in enumerate(results):
            out = f"out{i + 1 if len(results) > 1 else ''}"
            lines.append(f"memcpy({out}, {memory.plain(address(x))}, {x.nbytes});")
    if refuses:
        value = f"({T})NAN" if scalar else ""
        found.append(
            f"static {T} refuse(const char *why) {{\n    refused_because = why;\n"
            + (f"    return {value};\n" if scalar else "")
            + "}\n"
        )
        if not scalar:
            lines = [
                x.replace("return refuse(", "{ refuse(").replace(");", "); return; }")
                if "return refuse(" in x
                else x
                for x in lines
            ]
    while lines and not lines[0]:
        lines.pop(0)
    found.append(main + " {\n" + "".join([f"    {x}\n" if x else "\n" for x in lines]) + "}\n")
    if refuses:
        prototypes.append(f"const char *{name}_refused(void)")
        found.append(
            "/* Why the last call gave up, or NULL. */\n"
            f"const char *{name}_refused(void) {{\n    return refused_because;\n}}\n"
        )
    if printed.updates:
        prototypes.append(f"void {name}_set_lr(double lr)")
        sets = "".join([f"    {u.lr} = lr;\n" for u in printed.updates])
        found.append(f"void {name}_set_lr(double lr) {{\n{sets}}}\n")
    if parameters:
        for verb, pattern in (
            ("get", "memcpy(to + {at}, {name}, sizeof {name});"),
            ("set", "memcpy({name}, from + {at}, sizeof {name});"),
        ):
            given = "void *parameters" if verb == "get" else "const void *parameters"
            local = "unsigned char *to" if verb == "get" else "const unsigned char *from"
            prototypes.append(f"void {name}_{verb}_parameters({given})")
            body, at = [f"{local} = parameters;"], 0
            for p in parameters:
                body.append(pattern.format(at=at, name=p.name))
                at += p.array.nbytes
            text = "".join([f"    {x}\n" for x in body])
            found.append(f"void {name}_{verb}_parameters({given}) {{\n{text}}}\n")
    if weights and kept:
        prototypes.append(f"int {name}_load(const char *path)")
        body = [f"ok = ok && fread({p.name}, sizeof {p.name}, 1, f) == 1;" for p in kept]
        text = "".join([f"    {x}\n" for x in body])
        found.append(
            "/* Read parameters and state from the file written beside this one. False: it cannot. */\n"
            f'int {name}_load(const char *path) {{\n    FILE *f = fopen(path, "rb");\n'
            f"    int ok = f != NULL;\n{text}    if (f)\n        fclose(f);\n    return ok;\n}}\n"
        )
    return "\n".join(found), prototypes


def function(parts: tuple[str, list[str]]) -> str:
    head, lines = parts
    return head + " {\n" + "".join([f"    {line}\n" for line in lines]) + "}\n"


def init(printed: Printed, name: str, kept: list[Place], weights: str) -> tuple[str, list[str]]:
    lines = []
    for p in kept:
        if begins_with_zeros(p) or weights:
            lines.append(f"memset({p.name}, 0, sizeof {p.name});")
        else:
            lines.append(f"memcpy({p.name}, first_{p.name}, sizeof {p.name});")
    for u in printed.updates:
        lines.append(f"{u.lr} = {number(float(u.done.group['lr']))};")
        if u.done.rule.fresh or u.counts:
            lines.append(f"{u.counter} = {number(printed.before.count(u))};")
    return f"void {name}_init(void)", lines
