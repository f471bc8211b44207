"""The C file: what was printed, in the order of the language."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from ...core.strides import address
from ...ops.draws.twister import Stream
from .blocks import needed
from .places import MACROS, TYPES, Place, number, numbers_text
from .program import Printed

REFUSED = re.compile(r"REFUSE\((\"[^\"]*\")\);")


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
        head(printed, name, origin, kept, parameters, prototypes),
        includes(weights),
        f"enum {{\n    {upper}_ARENA_BYTES = {max(memory.total, 1)},\n"
        f"    {upper}_PARAMETER_BYTES = {sum([p.array.nbytes for p in parameters])}\n}};\n",
        arena(printed, upper, body),
        *[declared(p, p.initial, "static const ") for p in (*fixed, *constants)],
        *[table(name, values) for values, name in memory.tables.items()],
        *[state(p, weights) for p in kept],
        counters(printed),
        *[each.text(printed.updates) for each in printed.schedules.values()],
        random_words(printed) if "random_state" in blocks else "",
        FUSED if "fmaf(" in blocks + functions else "",
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
) -> str:
    memory = printed.memory
    state = sum([p.array.nbytes for p in kept])
    lines = [
        f"{name}.c: {origin}, printed by tapegrad.export.c.",
        "",
        "Standard C11 and the C library: nothing is allocated, and nothing else is linked but -lm.",
        "    cc -std=c11 -O3 -march=native -ffp-contract=off -fno-math-errno -c " + name + ".c",
        "Processors without a fused multiply-add get the same numbers, a few times slower.",
        "",
        f"Memory: an arena of {memory.total} bytes: {memory.planned} that values share as in the",
        f"plan of the compiled step, {memory.total - memory.planned} for results, gradients and",
        f"the kernels. And {state} bytes of parameters and state, of which the first",
        f"{sum([p.array.nbytes for p in parameters])} are parameters:",
        *[f"    {p.said}: {TYPES[str(p.array.dtype)]}[{p.array.size}]" for p in kept],
        "",
        "To call it from other files:",
        *[f"    {p};" for p in prototypes],
    ]
    return "/* " + "\n   ".join(lines).replace("   \n", "\n") + " */\n"


def includes(weights: str) -> str:
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
#define SIDE_BY_SIDE _Pragma("clang loop unroll(disable) vectorize(enable)")
#elif defined(__GNUC__)
#define INDEPENDENT _Pragma("GCC ivdep")
#define SIDE_BY_SIDE _Pragma("GCC unroll 1") /* else it is unrolled, and no vectors are seen */
#if !defined(__STRICT_ANSI__)
#pragma GCC optimize("fp-contract=off")
#endif
#else
#define INDEPENDENT
#define SIDE_BY_SIDE
#endif
"""
    )


# A product of two floats is exact in double. Its sum with the third, rounded to odd, still has all
# that the second rounding needs.
FUSED = """\
/* A fused multiply-add without one: the sum in double, rounded to odd, then to float. */
#if !defined(__FP_FAST_FMAF) && !defined(__FMA__) && !defined(__ARM_FEATURE_FMA)
static inline float fused(float a, float b, float c) {
    const double product = (double)a * (double)b;
    double sum = product + (double)c;
    const double part = sum - product, lost = (product - (sum - part)) + ((double)c - part);
    uint64_t bits;
    memcpy(&bits, &sum, sizeof bits);
    if (lost != 0 && lost - lost == 0 && !(bits & 1))
        bits += (lost > 0) == (sum > 0) ? 1 : UINT64_MAX;
    memcpy(&sum, &bits, sizeof bits);
    return (float)sum;
}
#define fmaf fused
#endif
"""


def arena(printed: Printed, upper: str, body: str) -> str:
    lines = [
        "/* All values; two of them share a place if they are not needed at the same time. */",
        f"static _Alignas(64) unsigned char arena[{upper}_ARENA_BYTES];",
    ]
    for type_name, macro in MACROS.items():
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
    if refuses(printed):
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
    results = printed.results
    scalar = len(results) == 1 and results[0].size == 1 and results[0].dtype.kind == "f"
    T = TYPES[str(results[0].dtype)] if scalar else "void"
    arguments = [
        f"const {TYPES[str(t._array.dtype)]} *{label}"
        for label, t in zip(printed.arguments, printed.recording.inputs, strict=True)
        if t is not None
    ]
    outs = [] if scalar else [f"out{i + 1}" for i in range(len(results))]
    if len(outs) == 1:
        outs = ["out"]
    arguments += [f"{TYPES[str(x.dtype)]} *{out}" for out, x in zip(outs, results, strict=False)]
    head = f"{T} {name}_{'step' if trains else 'predict'}({', '.join(arguments) or 'void'})"
    found: list[tuple[str, list[str], str]] = []  # head, lines, comment
    found.append((f"void {name}_init(void)", init(printed, kept, weights), ""))
    found.append((head, body_of_step(printed, T, outs), ""))
    if refuses(printed):
        said = "Why the last call gave up, or NULL."
        found.append((f"const char *{name}_refused(void)", ["return refused_because;"], said))
    if printed.updates:
        sets = [f"{u.lr} = lr;" for u in printed.updates]
        found.append((f"void {name}_set_lr(double lr)", sets, ""))
    if draws(printed):
        said = "Random numbers as after torch.manual_seed(seed)."
        found.append((f"void {name}_seed(uint32_t seed)", ["random_seed(seed);"], said))
    if parameters:
        gets, sets, at = ["unsigned char *to = parameters;"], [], 0
        sets = ["const unsigned char *from = parameters;"]
        for p in parameters:
            gets.append(f"memcpy(to + {at}, {p.name}, sizeof {p.name});")
            sets.append(f"memcpy({p.name}, from + {at}, sizeof {p.name});")
            at += p.array.nbytes
        found.append((f"void {name}_get_parameters(void *parameters)", gets, ""))
        found.append((f"void {name}_set_parameters(const void *parameters)", sets, ""))
    if weights and kept:
        lines = ['FILE *f = fopen(path, "rb");', "int ok = f != NULL;"]
        lines += [f"ok = ok && fread({p.name}, sizeof {p.name}, 1, f) == 1;" for p in kept]
        lines += ["if (f)", "    fclose(f);", "return ok;"]
        said = "Read parameters and state from the file of weights. False: that cannot be done."
        found.append((f"int {name}_load(const char *path)", lines, said))
    texts = [refuse_function(T)] if refuses(printed) else []
    for signature, lines, said in found:
        body = "".join([f"    {line}\n" if line else "\n" for line in lines])
        texts.append((f"/* {said} */\n" if said else "") + f"{signature} {{\n{body}}}\n")
    return "\n".join(texts), [signature for signature, _, _ in found]


def refuses(printed: Printed) -> bool:
    """Whether a kernel looks at numbers before it uses them as places."""
    return any(["REFUSE" in text for _, text in printed.statements])


def refuse_function(T: str) -> str:
    last = "" if T == "void" else f"    return ({T})NAN;\n"
    head = f"static {T} refuse(const char *why)"
    return f"{head} {{\n    refused_because = why;\n{last}}}\n"


def body_of_step(printed: Printed, T: str, outs: list[str]) -> list[str]:
    """All statements, with the user's line above those that it led to."""
    lines = ["refused_because = NULL;"] if refuses(printed) else []
    gives_up = "refuse(%s);\n    return;" if T == "void" else "return refuse(%s);"
    before = ""
    for line, text in printed.statements:
        if line and line != before:
            lines += [""] if lines else []
            lines += ("/* " + line.replace("*/", "* /").replace("\n", "\n   ") + " */").split("\n")
            before = line
        lines += REFUSED.sub(lambda found: gives_up % found[1], text).split("\n")
    lines.append("")
    if T != "void":
        return [*lines, f"return *{printed.memory.pointer(address(printed.results[0]), T)};"]
    for out, x in zip(outs, printed.results, strict=True):
        lines.append(f"memcpy({out}, {printed.memory.plain(address(x))}, {x.nbytes});")
    return lines


def init(printed: Printed, kept: list[Place], weights: str) -> list[str]:
    lines = []
    for p in kept:
        if begins_with_zeros(p) or weights:
            lines.append(f"memset({p.name}, 0, sizeof {p.name});")
        else:
            lines.append(f"memcpy({p.name}, first_{p.name}, sizeof {p.name});")
    for u in printed.updates:
        lines.append(f"{u.lr} = {number(printed.before.rate(u))};")
        if u.done.rule.fresh or u.counts:
            lines.append(f"{u.counter} = {number(printed.before.count(u))};")
    for schedule in printed.schedules.values():
        lines.append(f"{schedule.name}_count = {schedule.name}_next = 0;")
    if draws(printed):
        lines += first_random(printed)
    return lines


# ---------------------------------------------------------------------- random numbers


def draws(printed: Printed) -> bool:
    return any(["random_state" in text for text in needed(body_text(printed))])


def body_text(printed: Printed) -> str:
    return "\n".join([text for _, text in printed.statements])


def stream(printed: Printed) -> Stream:
    """The random numbers as they were at the export."""
    found = Stream()
    found.set_state(printed.before.random._array)
    return found


def is_seeded(random: Stream) -> bool:
    """Whether nothing was drawn since the seed was set."""
    return random.mark() is None or not random.mark()[2]


def random_words(printed: Printed) -> str:
    random = stream(printed)
    if is_seeded(random):
        return ""
    values = random.mark()[0][:624]
    lines = "\n".join(numbers_text(values.astype(np.int64)))
    return f"static const uint32_t first_words[624] = {{\n{lines}\n}};\n"


def first_random(printed: Printed) -> list[str]:
    random = stream(printed)
    if is_seeded(random):
        return [f"random_seed({random.initial_seed() & 0xFFFFFFFF}u);"]
    state, kept, _ = random.mark()
    return [
        "memcpy(random_state.word, first_words, sizeof first_words);",
        "random_temper();",
        f"random_state.next = {int(state[624])};",
        *[f"random_state.kept[{i}] = {number(float(x))};" for i, x in enumerate(kept)],
    ]
