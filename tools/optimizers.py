"""The optimizers' kernels in C, printed from the updates of src/tapegrad/optim.

Every update is read as formulas of rows (src/tapegrad/expressions/updates.py). A kernel is the
factors that all elements share, found in double precision, and a loop for each way that the update
may go by its options. The result is included by c/kernels/optim_template.h, once for each type.
"""

from __future__ import annotations

from typing import Any

from tapegrad import optim
from tapegrad.expressions.expressions import Expression, in_order
from tapegrad.expressions.update_texts import Factors, branches, indented, spelled, statements
from tapegrad.expressions.updates import PARAMETER, Leaf, Names, Reading, leaves, pruned, read

RULES = "sgd adam rmsprop adagrad adadelta adamax nadam radam asgd rprop".split()
HEAD = """/* Made by tools/generate.py from src/tapegrad/optim: do not edit.

   Kernels of optimizers for one type T. x: lr, the state's numbers, the options, in that order. */
"""
# Options that no kernel is for.
OTHERS = dict.fromkeys(["capturable", "differentiable", "foreach", "fused", "maximize"], False)
SLOW = ("div", "sqrt")  # primitives that take several times as long as a product


def names_of(rule: Any) -> Names:
    texts = iter([f"x[{i}]" for i in range(32)])
    lr = next(texts)
    numbers = {name: next(texts) for name in rule.numbers}
    options: dict[str, Any] = {}
    for option in rule.options:
        name, _, count = option.partition("[")
        options[name] = [next(texts) for _ in range(int(count[:-1]))] if count else next(texts)
    return Names(
        rows={name: f"{name}[i]" for name in rule.rows},
        scalars={} if rule.fresh else numbers,
        options=options,
        others=OTHERS,
        lr=lr,
        narrow="n[1]",
        fresh=rule.fresh,
        is_fresh=numbers.get("fresh", ""),
    )


def in_c(e: Expression, args: list[str]) -> str:
    """How a primitive is spelled where the type of elements is T."""
    if e.name == "maximum":
        return f"NAMED(larger)({args[0]}, {args[1]})"
    return spelled(e, args).replace("sqrt(", "SQRT(").replace("fabs(", "ABS(")


def kernel(name: str) -> str:
    rule = getattr(optim, name).FUSED
    names = names_of(rule)
    maximize = names.options.pop("maximize")  # a product with 1 or -1: exact, and no loop more
    reading = Reading()

    def signed(grad: Any) -> Any:
        test = reading.factor(maximize) != 0
        return grad.mul(test.made("select", test, -1.0, 1.0))

    tree = pruned(read(reading, rule.update, names, signed), "rows")
    rows = {"p[i]": reading.input(PARAMETER), "grad[i]": reading.input("grad")}
    rows |= {text: reading.input(text) for text in names.rows.values()}
    row_texts = {id(e): text for text, e in rows.items()}
    factors = Factors(tree, set(row_texts))
    number_texts = {id(e): text for text, e in reading.inputs.items() if text not in rows}
    ways = leaves(tree)
    loops = [line for i, leaf in enumerate(ways) for line in loop(i, leaf, factors, row_texts)]
    places = {leaf_id(leaf): i for i, leaf in enumerate(ways)}

    def set_up(leaf: Leaf) -> list[str]:
        needed = {factors.names[id(e)]: e for e in factors.needed(leaf)}
        lines = statements(needed, number_texts, "double", "y")
        first = len(lines) - len(needed)
        kept = [
            f"f.{n} = (T)({text_of(line)});" for n, line in zip(needed, lines[first:], strict=True)
        ]
        return [*lines[:first], *kept, f"f.way = {places[leaf_id(leaf)]};"]

    listed = [*["p", "grad"], *rule.rows]
    pointers = ", ".join([f"*restrict {row} = ROW({i})" for i, row in enumerate(listed)])
    time = f"{cost(len(listed), ways, factors):.2f}"
    members = " ".join([factors.declared("T").replace("A ", "T "), "int way;"])
    lines = [
        f"typedef struct {{ {members} }} NAMED({name});",
        "TG_VERSIONS TG_SHORT",
        f"static void NAMED({name}_part)(void *context, int64_t begin, int64_t end) {{",
        "    EACH_TENSOR {",
        f"        const NAMED({name}) f = *(const NAMED({name}) *)j->factors;",
        f"        T {pointers};",
        "        const int64_t count = stop - begin;",
        "        switch (f.way) {",
        *indented(indented(loops)),
        "        }",
        "    }",
        "}",
        f"/* x: lr, {', '.join([*rule.numbers, *rule.options])} */",
        f"void NAMED(tg_{name})(void **p, const int64_t *n, const double *x) {{",
        f"    NAMED({name}) f = {{0}};",
        *indented(branches(tree, number_texts, set_up, "double")),
        f"    run(p, n, {len(listed)}, {time}, NAMED({name}_part), &f);",
        "}",
    ]
    return "\n".join(lines) + "\n"


def text_of(line: str) -> str:
    """What a constant is declared to be."""
    return line.partition(" = ")[2].rstrip(";")


def leaf_id(leaf: Leaf) -> tuple[tuple[str, int], ...]:
    return tuple([(name, id(e)) for name, e in leaf.rows.items()])


def loop(i: int, leaf: Leaf, factors: Factors, row_texts: dict[int, str]) -> list[str]:
    texts = row_texts | {k: f"f.{name}" for k, name in factors.names.items()}
    made = {f"new_{row}": e for row, e in leaf.rows.items()}
    lines = statements(made, texts, "T", "v", in_c)
    stores = [f"{row}[i] = new_{row};" for row in leaf.rows]
    head = "    for (int64_t i = 0; i < count; i++) {"
    body = indented(indented([*lines, *stores]))
    return [f"case {i}:", head, *body, "    }", "    break;"]


def cost(rows: int, ways: list[Leaf], factors: Factors) -> float:
    """About how many nanoseconds an element takes: decides how many threads share the elements.

    The factors cost nothing here, as they are computed once for all elements.
    """
    slow = [
        len(
            [
                e
                for e in in_order([*way.rows.values()])
                if e.name in SLOW and not factors.is_uniform(e)
            ]
        )
        for way in ways
    ]
    return 0.1 + 0.1 * rows + 0.15 * max(slow)


def page() -> str:
    return HEAD + "".join(["\n" + kernel(name) for name in RULES])
