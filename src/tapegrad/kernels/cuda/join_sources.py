"""`joined.cu`: macros by which a norm's kernel runs elementwise ops too (norm_joins.cu)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ...expressions.cuda import FUNCTIONS
from .formulas import NUMBERS

EVERY = '_Pragma("unroll") for (int c = 0; c < WIDE; c++)'
PRODUCTS = re.compile(r"[*/]|\b(?!formula|maximum|minimum|sign)\w+\(")


def function(name: str, formula: Any) -> str:
    """The C text of a formula under a name of its own, as a program has several."""
    text: str = formula.text.replace("formula(", f"{name}(")
    return text


def numbers_of(place: int, formula: Any) -> list[str]:
    return [f"{s}{place}" for s in NUMBERS[: len(formula.numbers)]]


def settled(value: str, formula: Any) -> str:
    """A value that a formula has made, unless it has no product, nor a function that may have."""
    return f"settle({value}, one);" if PRODUCTS.search(formula.text) else ""


def tail(steps: Sequence[tuple[Any, Sequence[bool]]]) -> str:
    """A chain of ops after a norm: formulas, and which of their arguments are the value so far.

    The others are arrays. Each result may be stored, and once more where there is no formula;
    `line`, if it is given, gets the factors and what is added.
    """
    params, names = [", A* __restrict__ line, A one"], ["line", "one"]
    functions, reads, does = [FUNCTIONS], [], []
    for i, (formula, is_value) in enumerate(steps):
        store = f"if (to{i}) *(Wide<T>*)(to{i} + (at)) = f;"
        if formula is None:
            params.append(f", T* __restrict__ to{i}")
            names.append(f"to{i}")
            does.append(store)
            continue
        functions.append(function(f"step{i}", formula))
        numbers = numbers_of(i, formula)
        if not all(is_value):
            params.append(f", const T* __restrict__ with{i}")
            names.append(f"with{i}")
            reads.append(f"Wide<T> other{i} = wide_at(with{i} + (at));")
        params += [*[f", A {s}" for s in numbers], f", T* __restrict__ to{i}"]
        names += [*numbers, f"to{i}"]
        values = [f"LOAD({'f' if own else f'other{i}'}.v + c)" for own in is_value]
        made = f"step{i}({', '.join([*values, *numbers])})"
        does.append(f"{EVERY} {{ STORE(f.v + c, {made}); {settled('f.v[c]', formula)} }}")
        does.append(store)
    lines = [
        "#define TAIL_PARAMS " + "".join(params),
        "#define TAIL_TOO , " + ", ".join(names),
        "#define LINE(set, first, scale, shift) if (line && first) "
        "{ line[set] = scale; line[SETS + set] = shift; }",
        "#define TAIL_READ(at) " + " ".join(reads),
        "#define TAIL(at, f) " + " ".join(does),
    ]
    return "".join(functions) + "\n".join(lines) + "\n"


def pull(steps: Sequence[Any], formula: Any) -> str:
    """The gradient of an op after a norm: `formula` of the incoming gradient and of a value.

    The value is recomputed: `line` standardizes, then the ops of `steps` run. The gradient may be
    stored.
    """
    params = [", const A* __restrict__ line, T* __restrict__ kept, A one"]
    names = ["line", "kept", "one"]
    functions, does = [FUNCTIONS], ["T t;"]
    does.append("STORE(&t, affine(LOAD(h.v + c), OF(mean, c), by, more));")
    for i, step in enumerate([*steps, formula]):
        functions.append(function(f"step{i}", step))
        numbers = numbers_of(i, step)
        params += [f", A {s}" for s in numbers]
        names += numbers
        given = ", ".join(["", *numbers])
        if i < len(steps):
            does.append(f"STORE(&t, step{i}(LOAD(&t){given})); {settled('t', step)}")
        else:
            does.append(f"STORE(f.v + c, step{i}(LOAD(f.v + c), LOAD(&t){given}));")
            does.append(settled("f.v[c]", step))
    lines = [
        "#define PULL_PARAMS " + "".join(params),
        "#define PULL_TOO , " + ", ".join(names),
        f"#define PULLED(at, f, h, set) {EVERY} {{ A by = line[OF_LINE(set, c)], "
        f"more = line[SETS + OF_LINE(set, c)]; {' '.join(does)} }}",
        "#define KEEP(at, f) if (kept) *(Wide<T>*)(kept + (at)) = f;",
    ]
    return "".join(functions) + "\n".join(lines) + "\n"
