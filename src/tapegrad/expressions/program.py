"""From expressions to a program of the vector machine (kernels/cpu/c/machine/machine.h)."""

from __future__ import annotations

from typing import Any

from .expressions import PORTABLE, SINGLE, Expression, Maker, in_order

# About how many nanoseconds one element takes: what decides whether threads are worth it.
COST: dict[str, float] = {
    **dict.fromkeys(
        """
        exp exp2 expm1 log log2 log10 log1p sigmoid tanh erf erfinv gelu_value gelu_slope sin cos
        tan
        """.split(),
        1.5,
    ),
    **dict.fromkeys(
        """
        asin acos atan sinh cosh asinh acosh atanh erfc pow fmod atan2 hypot
        """.split(),
        10.0,
    ),
    **dict.fromkeys("div sqrt reciprocal".split(), 0.4),
    **dict.fromkeys(PORTABLE.values(), 3.0),
}
CHEAP = 0.15
# What only some elements need is passed over in blocks where none does, if it costs as much.
WORTH_SKIPPING = 2.0
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
    regions = skippable(order, outputs) if maker.branches else {}
    order = regrouped(order, regions)
    first = {id(members[0]): select.args[0] for select, members in regions.values()}
    last = {id(members[-1]) for _, members in regions.values()}
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
        if id(e) in first:
            steps.append((codes["skip"][0], first_out, place[id(first[id(e)])]))
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
        steps.append((codes[e.name][0], register, *operands))
        cost += cost_of(e)
        if id(e) in last:
            steps.append((codes["skipped"][0], first_out, register))
    for o, e in enumerate(outputs):
        if place[id(e)] != first_out + o:
            steps.append((codes["copy"][0], first_out + o, place[id(e)]))
    if highest > MOST_REGISTERS or len(steps) > MOST_STEPS:
        raise TooLarge("more steps or registers than the machine has")
    if len(numbers) + len(lists) > MOST_CONSTANTS or inputs + len(outputs) > MOST_OPERANDS:
        raise TooLarge("more operands than the machine has")
    if sum([1 + len(value) for value in lists]) > MOST_LISTED:
        raise TooLarge("more coefficients than the machine has room for")
    if inner == DOUBLE_KIND and any([e.name in SINGLE for e in order]):
        raise TooLarge("a primitive of single precision in a program of doubles")
    constants = (*[float(e.value) for e in numbers], *lists)
    return inner, tuple(sources), constants, kinds, given, highest, tuple(steps), cost


def cost_of(e: Expression) -> float:
    return COST.get(e.name, CHEAP) + (0.1 * len(e.value) if e.name == "polynomial" else 0.0)


Regions = dict[int, tuple[Expression, list[Expression]]]


def skippable(order: list[Expression], outputs: list[Expression]) -> Regions:
    """By select: it and what is computed for its second argument alone, where that is much."""
    users: dict[int, list[Expression]] = {}
    for e in order:
        for a in e.args:
            users.setdefault(id(a), []).append(e)
    kept = {id(e) for e in outputs}
    taken: set[int] = set()
    regions: Regions = {}
    for select in reversed(order):
        if select.name != "select" or id(select) in taken:
            continue
        own: set[int] = set()
        for e in reversed(order):  # users come before what they use
            if e.args and id(e) not in kept and id(e) not in taken:
                is_branch = e is select.args[1] and users[id(e)] == [select]
                if is_branch or all([id(user) in own for user in users[id(e)]]):
                    own.add(id(e))
        members = [e for e in order if id(e) in own]
        if sum([cost_of(e) for e in members]) >= WORTH_SKIPPING:
            taken |= own
            regions[id(select)] = select, members
    return regions


def regrouped(order: list[Expression], regions: Regions) -> list[Expression]:
    """The members of each region one after the other, right before its select."""
    inside = {id(e) for _, members in regions.values() for e in members}
    made: list[Expression] = []
    for e in order:
        if id(e) not in inside:
            if id(e) in regions:
                made += regions[id(e)][1]
            made.append(e)
    return made


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
