"""From expressions to CUDA C: a function of the elements of arrays and of numbers.

`A` is what kernels compute with (kernels/cuda/sources/prelude.cu): single precision,
for half precision too, or double. How a primitive is spelled stands here and nowhere else.
"""

from __future__ import annotations

import math
import re
from collections import Counter

from .expressions import Expression, in_order
from .symbols import TracedNumPy
from .trace import TracedSpace

# The functions that take the place of others of the same name in C; the rest are operators.
CALLS = """
sqrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh
erf erfc floor ceil rint trunc fmax fmin pow fmod atan2 hypot copysign sign maximum minimum
""".split()
PAIRS = "fmax fmin pow fmod atan2 hypot copysign maximum minimum".split()
SPELLED = {
    **{name: f"{name}({{0}}, {{1}})" if name in PAIRS else f"{name}({{0}})" for name in CALLS},
    "neg": "-{0}",
    "abs": "fabs({0})",
    "square": "{0} * {0}",
    "reciprocal": "(A)1 / {0}",
    "sigmoid": "(A)1 / (1 + exp(-{0}))",
    "isnan": "{0} != {0}",
    "isinf": "fabs({0}) == (A)INFINITY",
    "isfinite": "fabs({0}) < (A)INFINITY",
    "signbit": "copysign((A)1, {0}) < 0",
    "not_": "!{0}",
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "div": "{0} / {1}",
    "lt": "{0} < {1}",
    "le": "{0} <= {1}",
    "gt": "{0} > {1}",
    "ge": "{0} >= {1}",
    "eq": "{0} == {1}",
    "ne": "{0} != {1}",
    "and_": "{0} && {1}",
    "or_": "{0} || {1}",
    "xor_": "{0} != {1}",
    "select": "{0} ? {1} : {2}",
}
# What C has no function for. A NaN wins, as it does in NumPy.
FUNCTIONS = r"""
template <typename X> __device__ __forceinline__ X maximum(X a, X b) {
    return a > b || a != a ? a : b;
}
template <typename X> __device__ __forceinline__ X minimum(X a, X b) {
    return a < b || a != a ? a : b;
}
template <typename X> __device__ __forceinline__ X sign(X a) {
    return a > 0 ? (X)1 : a < 0 ? (X)-1 : a == 0 ? (X)0 : a;
}
"""
MOST_STEPS = 250  # what is longer takes longer to compile than it is worth
# Functions of the C library that blocks have formulas for; CUDA's are as exact.
XP = TracedNumPy(frozenset(["erf", "erfc", "round32"]))
TRACED = TracedSpace(XP)


class TooLong(ValueError):
    """An expression with more steps than a kernel should have."""


def function_text(
    name: str, result: Expression, inputs: list[tuple[str, Expression]], wide: bool
) -> str:
    """A function of `inputs`, which have names; a wide one computes in double.

    What is used more than once has a name; what is a truth has the type bool.
    """
    texts = {id(e): parameter for parameter, e in inputs}
    order = [e for e in in_order([result], texts) if id(e) not in texts]
    if len(order) > MOST_STEPS:
        raise TooLong(f"{len(order)} steps")
    uses: Counter[int] = Counter()
    for e in order:
        for i, argument in enumerate(e.args):
            uses[id(argument)] += times_written(e, i)
    lines: list[str] = []
    for e in order:
        text = spelled(e, [texts[id(argument)] for argument in e.args])
        if e.args and uses[id(e)] > 1:
            lines.append(f"{'bool' if e.is_truth else 'A'} x{len(lines)} = {bare(text)};")
            text = f"x{len(lines) - 1}"
        texts[id(e)] = text
    lines.append(f"return {bare(texts[id(result)])};")
    parameters = ", ".join([f"A {parameter}" for parameter, _ in inputs])
    body = "".join([f"    {line}\n" for line in lines])
    made = f"__device__ __forceinline__ A {name}({parameters}) {{\n{body}}}\n"
    return re.sub(r"\bA\b", "double", made) if wide else made


def times_written(e: Expression, place: int) -> int:
    """How often the text of an expression has that of an argument in it."""
    if e.name == "polynomial":
        return len(e.value) - 1
    return SPELLED[e.name].count(f"{{{place}}}")


def spelled(e: Expression, args: list[str]) -> str:
    if e.name == "number":
        return literal(e.value)
    if e.name == "polynomial":  # highest power first
        text = literal(e.value[0])
        for coefficient in e.value[1:]:
            text = f"({text} * {args[0]} + {literal(coefficient)})"
        return text
    if SPELLED[e.name].endswith(")"):  # a call
        return SPELLED[e.name].format(*[bare(text) for text in args])
    return f"({SPELLED[e.name].format(*args)})"


def literal(value: float) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if value != value:
        return '(A)nan("")'
    if math.isinf(value):
        return "(A)INFINITY" if value > 0 else "(A)-INFINITY"
    whole = value == int(value) and abs(value) < 1e9 and (value or math.copysign(1, value) > 0)
    return f"(A){int(value) if whole else float(value)!r}"


def bare(text: str) -> str:
    """Without the parentheses around all of it."""
    if not text.startswith("("):
        return text
    depth = 0
    for i, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return text[1:-1] if i == len(text) - 1 else text
    return text
