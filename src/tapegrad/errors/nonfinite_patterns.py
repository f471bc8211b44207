"""The ways in which finite numbers become NaN or infinite, each with its name and its cure.

A pattern is a function of a `Case`, the values that an op worked on. The block of an op names its
pattern (`nonfinite = "division"`). It gives (name of the pattern, what happened, fixes), or None
where the values do not show it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .. import dtypes
from .evidence import public_name

Pattern = tuple[str, str, list[str]]
PATTERNS: dict[str, Callable[[Case], Pattern | None]] = {}


@dataclass
class Case:
    """An op that made a non-finite value: its name, values, where they come from."""

    op: str  # what users call it
    pattern: str  # the function below that its block names, or ""
    kind: str  # "nan" or "inf"
    backward: bool
    # NumPy arrays and numbers, by the op's names; "out" is the result.
    values: dict[str, Any]
    makers: dict[str, Any] = field(default_factory=dict)  # the nodes behind the inputs
    names: dict[str, str] = field(default_factory=dict)  # what the user calls the inputs

    def has(self, argument: str, test: Callable[[Any], Any]) -> bool:
        """Whether some element of a known argument passes a test."""
        value = self.values.get(argument)
        return value is not None and bool(np.any(test(np.asarray(value))))

    def name(self, argument: str = "input") -> str:
        return self.names.get(argument, "value" if argument == "input" else "divisor")

    def made_by(self, argument: str = "input") -> str:
        """The op that made an input, "" where none was recorded."""
        maker = self.makers.get(argument)
        return maker._op.name if maker is not None and maker._op is not None else ""


def pattern(function: Callable[[Case], Pattern | None]) -> Callable[[Case], Pattern | None]:
    """Let blocks name a pattern."""
    PATTERNS[function.__name__] = function
    return function


def is_zero(x: Any) -> Any:
    return x == 0


def is_negative(x: Any) -> Any:
    return x < 0


def is_nan(x: Any) -> Any:
    return x != x


@pattern
def square_root(case: Case) -> Pattern | None:
    x, op = case.name(), case.op
    if case.has("input", is_negative) or (not case.backward and case.has("out", is_nan)):
        return (
            f"{op} of a negative number",
            f"{op} of a negative number is NaN",
            [f"torch.{op}({x}.clamp(min=1e-12))"],
        )
    at_zero = case.has("input", is_zero)
    if "input" not in case.values:
        at_zero = case.has("out", is_zero if op == "sqrt" else np.isinf)
    if not at_zero:
        return None
    if op == "rsqrt":
        return "rsqrt(0)", "rsqrt(0): 1 / sqrt(x) is infinite at 0", [f"torch.rsqrt({x} + 1e-12)"]
    if squares_below(case):
        return (
            "norm at 0",
            "the norm at 0: sqrt of a sum of squares has an infinite slope where all are 0",
            [
                "torch.linalg.vector_norm(...) instead: its gradient at 0 is 0",
                f"torch.sqrt({x} + 1e-12)",
            ],
        )
    return (
        "sqrt(0)",
        "sqrt(0): the slope of sqrt, 1 / (2 * sqrt(x)), is infinite at 0",
        [f"torch.sqrt({x} + 1e-12), or {x}.clamp(min=1e-12) first"],
    )


def squares_below(case: Case) -> bool:
    """Whether the input is a sum (or mean) of squares."""
    maker = case.makers.get("input")
    if maker is None or maker._op is None or public_name(maker._op.name) not in ("sum", "mean"):
        return False
    below = maker._edges[0]
    return below is not None and below._op is not None and public_name(below._op.name) in SQUARES


SQUARES = ("pow", "mul", "square", "abs")


@pattern
def logarithm(case: Case) -> Pattern | None:
    x, op = case.name(), case.op
    shift = -1.0 if op == "log1p" else 0.0
    below = {"softmax": "log_softmax", "sigmoid": "logsigmoid"}.get(case.made_by())
    fixes = [f"torch.{op}({x}.clamp(min={'-1 + ' if shift else ''}1e-8))"]
    if below is not None and op == "log":
        fixes.insert(0, f"torch.nn.functional.{below}(...) instead of log({case.made_by()}(...))")
    if case.has("input", lambda v: v < shift) or (not case.backward and case.has("out", is_nan)):
        edge = "-1" if shift else "0"
        return f"{op} below {edge}", f"{op} of a number below {edge} is NaN", fixes
    if case.has("input", lambda v: v == shift):
        at = "log1p(-1)" if shift else f"{op}(0)"
        return at, f"{at}: the value is -inf and the slope infinite", fixes
    return None


@pattern
def division(case: Case) -> Pattern | None:
    divisor = "other" if case.op == "div" else "tensor2" if case.op == "addcdiv" else "input"
    if not case.has(divisor, is_zero):
        return None
    y = case.name(divisor)
    fixes = [
        f"add a little to the divisor: {y} + 1e-8, or {y}.clamp(min=1e-8) if it is never negative",
        f"where the quotient is not used: divide by torch.where({y} == 0, 1, {y})",
    ]
    top = case.values.get("tensor1" if case.op == "addcdiv" else "input")
    if case.op == "div" and top is not None and np.shape(top) == np.shape(case.values["other"]):
        if bool(np.any((np.asarray(top) == 0) & (np.asarray(case.values["other"]) == 0))):
            return "0/0", "0/0: both the number and its divisor are 0", fixes
    elif case.kind == "nan" and not case.backward:
        return "0/0", "0/0: both the number and its divisor are 0", fixes
    return "division by zero", "division by zero: the quotient and its slope are infinite", fixes


@pattern
def power(case: Case) -> Pattern | None:
    base = case.values.get("input", case.values.get("base"))
    exponent = case.values.get("exponent")
    x = case.name()
    if base is None or exponent is None:
        return None
    base, exponent = np.asarray(base), np.asarray(exponent)
    if "c" in (base.dtype.kind, exponent.dtype.kind):
        return None
    if bool(np.any((base < 0) & (exponent != np.floor(exponent)))):
        return (
            "pow of a negative base",
            "pow: a negative number has no power with a fraction in the exponent",
            [f"{x}.clamp(min=1e-12) ** p, or {x}.abs() ** p if the sign does not matter"],
        )
    if bool(np.any((base == 0) & (exponent < 1))):
        return (
            "pow with base 0",
            "pow with base 0: the slope p * x ** (p - 1) is infinite at 0 for p < 1",
            [f"({x} + 1e-12) ** p, or {x}.clamp(min=1e-12) ** p"],
        )
    if bool(np.any(base == 0)):
        return (
            "pow with base 0",
            "pow with base 0: a derivative of p * x ** (p - 1) is infinite at 0",
            [f"({x} + 1e-12) ** p, or {x}.clamp(min=1e-12) ** p"],
        )
    return overflow(case)


@pattern
def inverse_sine(case: Case) -> Pattern | None:
    x, op = case.name(), case.op
    fix = [f"torch.{op}({x}.clamp(-1 + 1e-6, 1 - 1e-6))"]
    if case.has("input", lambda v: np.abs(v) > 1):
        return f"{op} beyond 1 or -1", f"{op} of a number beyond 1 or -1 is NaN", fix
    if case.has("input", lambda v: np.abs(v) == 1):
        return f"{op} at 1 or -1", f"{op} at 1 or -1: its slope is infinite there", fix
    return None


@pattern
def inverse_cosine_h(case: Case) -> Pattern | None:
    x = case.name()
    fix = [f"torch.acosh({x}.clamp(min=1 + 1e-6))"]
    if case.has("input", lambda v: v < 1):
        return "acosh below 1", "acosh of a number below 1 is NaN", fix
    if case.has("input", lambda v: v == 1):
        return "acosh at 1", "acosh at 1: its slope is infinite there", fix
    return None


@pattern
def exponential(case: Case) -> Pattern | None:
    out = case.values.get("out")
    if out is None or not case.has("out", np.isinf):
        return None
    limit = float(np.log(largest(out.dtype)))
    return (
        f"{case.op} overflow",
        f"{case.op} overflow: exp(x) is infinite above x = {limit:.4g} in {dtypes.of(out.dtype)}",
        [
            "stay in the log domain: log_softmax, logsumexp, softplus, the _with_logits losses",
            f"bound it first: {case.name()}.clamp(max=50)",
        ],
    )


def largest(dtype: Any) -> float:
    """The largest finite number of a floating or complex dtype."""
    return dtypes.finfo(dtypes.of(dtype)).max


@pattern
def soft_maximum(case: Case) -> Pattern | None:
    x = case.values.get("input")
    dim = case.values.get("dim")
    out = case.values.get("out")
    empty = x is not None and bool(np.any(np.all(np.isneginf(x), axis=dim)))
    if not empty and x is None and out is not None:
        empty = bool(np.any(np.all(np.isnan(out), axis=dim)))
    if not empty:
        return None
    return (
        f"{case.op} of all -inf",
        f"{case.op} of all -inf: a row in which everything is masked is 0/0",
        [
            "leave at least one position of every row unmasked",
            "mask with a large negative number, torch.finfo(dtype).min, instead of -inf",
        ],
    )


@pattern
def deviation(case: Case) -> Pattern | None:
    x = case.values.get("input")
    correction = case.values.get("correction", 1)
    if x is None:
        return None
    dim = case.values.get("dim")
    dims = range(x.ndim) if dim is None or dim == () else np.atleast_1d(dim)
    counted = int(np.prod([x.shape[int(d)] for d in dims]))
    if counted > correction:
        return None
    return (
        f"{case.op} of one element",
        f"{case.op} of {counted} element: the sum of squares is divided by "
        f"{counted} - {correction:g} = {counted - correction:g}",
        [
            f"{case.op}(..., correction=0) for the biased value, which is 0 for one element",
            "take it over a dimension with at least two elements",
        ],
    )


@pattern
def vector_norm(case: Case) -> Pattern | None:
    if not case.has("out", is_zero):
        return None
    return (
        "norm at 0",
        "the norm at 0: its slope x / |x| is 0/0 there",
        [f"torch.sqrt(({case.name()} ** 2).sum() + 1e-12)"],
    )


@pattern
def product(case: Case) -> Pattern | None:
    if case.kind == "nan" and any(case.has(n, np.isinf) for n in ("input", "other")):
        return "0 * inf", "0 * inf is NaN", ["keep the infinite factor out: see how it was made"]
    return overflow(case)


@pattern
def difference(case: Case) -> Pattern | None:
    if case.kind == "nan" and case.has("input", np.isinf):
        return "inf - inf", "inf - inf is NaN", ["keep the infinite term out: see how it was made"]
    return overflow(case)


def overflow(case: Case) -> Pattern | None:
    out = case.values.get("out")
    if case.kind != "inf" or out is None or out.dtype.kind not in "fV":
        return None
    most = f"{largest(out.dtype):.4g}"
    name = str(dtypes.of(out.dtype)).removeprefix("torch.")
    fixes = ["scale the values down: a smaller learning rate, normalised inputs, clip_grad_norm_"]
    if out.dtype == np.float16:
        fixes.insert(0, "compute this in float32, or in bfloat16")
    return f"overflow of {name}", f"{case.op}: the result is beyond {most}, {name}'s most", fixes


@pattern
def no_labels(case: Case) -> Pattern | None:
    """A mean over labels of which all are to be ignored."""
    target, ignored = case.values.get("target"), case.values.get("ignore_index")
    if target is None or ignored is None or not np.all(np.asarray(target) == ignored):
        return None
    return (
        "a mean over no labels",
        f"a mean over no labels: all of them are ignore_index, {ignored}, and 0/0 is NaN",
        [
            "leave out batches without labels",
            "reduction='sum', divided by max(1, the number of labels)",
        ],
    )


def recognise(case: Case) -> Pattern:
    """The pattern of a case; a plain statement where none fits."""
    known = PATTERNS.get(case.pattern, overflow)
    found = known(case)
    if found is None and known is not overflow:
        found = overflow(case)
    if found is not None:
        return found
    what = "made" if not case.backward else "has a gradient that is"
    return (
        "",
        f"{case.op} {what} {case.kind} at these values",
        [f"keep {case.name()} away from the values at which {case.op} is not finite"],
    )
