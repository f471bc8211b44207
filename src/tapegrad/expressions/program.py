"""From expressions to a program of the vector machine (kernels/cpu/c/machine/machine.h)."""

from __future__ import annotations

from typing import Any

from .expressions import SINGLE, Expression, Maker, in_order

# About how many nanoseconds one element takes: what decides whether threads are worth it.
COST: dict[str, float] = {
    **dict.fromkeys(
        """
        exp exp2 expm1 log log2 log10 log1p sigmoid tanh erf erfinv gelu_value gelu_slope sin cos
        """.split(),
        1.5,
    ),
    **dict.fromkeys(
        """
        tan asin acos atan sinh cosh asinh acosh atanh erfc pow fmod atan2 hypot
        """.split(),
        10.0,
    ),
    **dict.fromkeys("div sqrt reciprocal".split(), 0.4),
}
SLOW_IN_DOUBLE = frozenset(["sin", "cos"])  # the C library's
SLOW = 10.0
CHEAP = 0.15
# Where elements take branches, NumPy computes only what they need: up to here that is slower.
MOST_FOR_BRANCHES = 20.0
# TG_F32, TG_F64, TG_BOOL, TG_BF16, TG_F16
FLOAT_KIND, DOUBLE_KIND, BOOL_KIND, BFLOAT16_KIND, FLOAT16_KIND = range(5)
ROUNDINGS = {"round_bf16": BFLOAT16_KIND, "round_f16": FLOAT16_KIND}
COMPUTED, NOTHING = -1, -2
MOST_REGISTERS = 64
MOST_STEPS = 128
MOST_OPERANDS = 24
MOST_CONSTANTS = 48
MOST_LISTED = 256


class TooLarge(ValueError):
    """An expression with more steps or registers than the machine has."""


def program(
    kind: int,
    results: list[Expression | None],
    sources: list[int],
    codes: dict[str, Any],
    maker: Maker,
) -> tuple[Any, ...]:
    """(kind, sources, constants, kinds of outputs, given, registers, steps, cost), as C reads it.

    A result that is an input is handed on, one that is None stays so; the others are computed.
    Registers are the inputs, the constants, the outputs, and the values in between, whose registers
    are used again when their last reader is done. A wide one computes in double and rounds.
    """
    half = kind in (BFLOAT16_KIND, FLOAT16_KIND)
    inner = DOUBLE_KIND if maker.wide else FLOAT_KIND if half else kind
    inputs = len(sources)
    given = tuple([given_by(e) for e in results])
    outputs = [e for e in results if e is not None and given_by(e) == COMPUTED]
    kinds = tuple([kind_of(e, kind) for e in outputs])
    # Writing rounds.
    outputs = [e.args[0] if e.name in ROUNDINGS and e.args[0].args else e for e in outputs]
    order = list(in_order(outputs))
    numbers = [e for e in order if e.name == "number"]
    lists = list(dict.fromkeys([e.value for e in order if e.name == "polynomial"]))
    list_place = {value: inputs + len(numbers) + i for i, value in enumerate(lists)}
    first_out = inputs + len(numbers) + len(lists)
    free_from = first_out + len(outputs)
    place: dict[int, int] = {id(e): inputs + i for i, e in enumerate(numbers)}
    for e in order:
        if e.name == "input":
            place[id(e)] = e.value[0]
    last_use: dict[int, int] = {}
    for i, e in enumerate(order):
        for a in e.args:
            last_use[id(a)] = i
    home: dict[int, int] = {}  # expressions that are an output are computed in its register
    for o, e in enumerate(outputs):
        if e.args:
            home.setdefault(id(e), first_out + o)
    steps: list[tuple[int, ...]] = []
    free: list[int] = []
    highest = free_from
    cost = CHEAP
    for i, e in enumerate(order):
        if not e.args:
            continue
        operands = [place[id(a)] for a in e.args]
        for a in e.args:
            register = place[id(a)]
            if last_use[id(a)] == i and register >= free_from and register not in free:
                free.append(register)
        register = home.get(id(e), -1)
        if register < 0:
            if free:
                register = free.pop()
            else:
                register = highest
                highest += 1
        place[id(e)] = register
        if e.name == "polynomial":
            operands.append(list_place[e.value])
            cost += 0.1 * len(e.value)
        steps.append((codes[e.name][0], register, *operands))
        slow = e.name in SLOW_IN_DOUBLE and inner == DOUBLE_KIND
        cost += SLOW if slow else COST.get(e.name, CHEAP)
    for o, e in enumerate(outputs):
        if place[id(e)] != first_out + o:
            steps.append((codes["copy"][0], first_out + o, place[id(e)]))
    if highest > MOST_REGISTERS or len(steps) > MOST_STEPS:
        raise TooLarge("more steps or registers than the machine has")
    if len(numbers) + len(lists) > MOST_CONSTANTS or inputs + len(outputs) > MOST_OPERANDS:
        raise TooLarge("more operands than the machine has")
    if sum([1 + len(value) for value in lists]) > MOST_LISTED:
        raise TooLarge("more coefficients than the machine has room for")
    if maker.branches and cost > MOST_FOR_BRANCHES:
        raise TooLarge("more work for nothing than it is worth")
    if inner == DOUBLE_KIND and any([e.name in SINGLE for e in order]):
        raise TooLarge("a primitive of single precision in a program of doubles")
    constants = (*[float(e.value) for e in numbers], *lists)
    return inner, tuple(sources), constants, kinds, given, highest, tuple(steps), cost


def kind_of(output: Expression, kind: int) -> int:
    """The kind of an output: bool or the program's; half only if its last step rounds to it."""
    if output.is_truth:
        return BOOL_KIND
    if kind in (BFLOAT16_KIND, FLOAT16_KIND):
        return ROUNDINGS.get(output.name, FLOAT_KIND)
    return kind


def given_by(result: Expression | None) -> int:
    if result is None:
        return NOTHING
    return result.value[0] if result.name == "input" else COMPUTED
