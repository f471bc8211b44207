"""The step of an optimizer in C, from its `update` in Python (expressions/updates.py)."""

from __future__ import annotations

from typing import Any

from ...core.strides import address
from ...expressions.expressions import Expression
from ...expressions.update_texts import Factors, branches, spelled, statements
from ...expressions.updates import PARAMETER, Leaf, Names, Reading, pruned, read
from ...optim._on_device import count_step
from .elementwise import NoPrinter
from .places import Memory, number

FLAGS = ("capturable", "differentiable", "foreach", "fused")
LIBRARY = ("sqrt(", "fabs(")


class Update:
    """The update of some parameters: a function in C, its calls, and the numbers it counts."""

    def __init__(self, done: Any, prefix: str) -> None:
        self.done, self.prefix = done, prefix
        rule = done.rule
        if rule.update is None or (rule.advance is not count_step and not rule.fresh):
            raise NoPrinter(f"the optimizer `{rule.kernel}`")
        if rule.scalars not in ((), ("step",)) and not rule.fresh:
            raise NoPrinter(f"the optimizer `{rule.kernel}`")
        self.kind = "f64" if done.rows[0][0].dtype.itemsize == 8 else "f32"
        self.T = "double" if self.kind == "f64" else "float"
        self.counts = bool(rule.scalars) and not rule.fresh
        self.lr = f"{prefix}_lr"
        self.counter = f"{prefix}_{'fresh' if rule.fresh else 'steps'}"

    def start(self, made: bool) -> float:
        """The counter's value before the next step; `made`: there was no state at the export."""
        if self.done.rule.fresh:
            return float(made)
        if made or not self.counts:
            return 0.0
        return float(self.done.rule.values(self.done.owns[0])[0])

    def in_c(self, e: Expression, args: list[str]) -> str:
        if e.name == "maximum":
            return f"larger_{self.kind}({args[0]}, {args[1]})"
        text = spelled(e, args)
        if self.kind == "f32":
            text = text.replace("sqrt(", "sqrtf(").replace("fabs(", "fabsf(")
        if any([name in text for name in ("toward(", "product(")]):
            raise NoPrinter(f"the optimizer `{self.done.rule.kernel}`")
        return text

    def function(self) -> str:
        """The function in C: pointers to a parameter, its gradient and state, and how many."""
        rule, group = self.done.rule, self.done.group
        rows = {name: f"{name}[i]" for name in rule.rows}
        options: dict[str, Any] = {}
        reading = Reading()
        for option in rule.options:
            name, _, count = option.partition("[")
            value = group[name]
            if count:
                options[name] = [f"{name}{i}" for i in range(int(count[:-1]))]
                reading.values.update(zip(options[name], map(float, value), strict=True))
            else:
                options[name] = name
                reading.values[name] = float(value)
        numbers = {name: self.counter for name in rule.numbers}
        names = Names(
            rows=rows,
            scalars={} if rule.fresh else numbers,
            options=options,
            others=dict.fromkeys([*FLAGS, "maximize"], False),
            lr=self.lr,
            narrow="narrow",
            fresh=rule.fresh,
            is_fresh=self.counter if rule.fresh else "",
        )
        reading.values["narrow"] = float(self.done.narrow)
        names.options.pop("maximize", None)
        maximize = bool(group.get("maximize"))

        def signed(grad: Any) -> Any:
            return grad.mul(-1.0) if maximize else grad

        tree = pruned(read(reading, rule.update, names, signed), "rows")
        known = {"p[i]": reading.input(PARAMETER), "grad[i]": reading.input("grad")}
        known |= {text: reading.input(text) for text in rows.values()}
        row_texts = {id(e): text for text, e in known.items()}
        factors = Factors(tree, set(row_texts))
        texts = {id(e): t for t, e in reading.inputs.items() if t not in known}
        for text, e in reading.inputs.items():
            if text in reading.values and text not in known:
                texts[id(e)] = number(reading.values[text])

        def loop(leaf: Leaf) -> list[str]:
            needed = {factors.names[id(e)]: e for e in factors.needed(leaf)}
            lines = statements(needed, texts, "double", "y")
            given = row_texts | {
                id(e): f"(({self.T}){factors.names[id(e)]})"
                if not e.is_truth
                else factors.names[id(e)]
                for e in factors.needed(leaf)
            }
            made = {f"new_{row}": e for row, e in leaf.rows.items()}
            inner = statements(made, given, self.T, "v", self.in_c)
            inner += [f"{row}[i] = new_{row};" for row in leaf.rows]
            return [
                *lines,
                "INDEPENDENT",
                "for (int64_t i = 0; i < count; i++) {",
                *["    " + line for line in inner],
                "}",
            ]

        pointers = ", ".join(
            [f"{'const ' if row == 'grad' else ''}{self.T} *{row}" for row in self.rows()]
        )
        body = "\n".join(["    " + line for line in branches(tree, texts, loop, "double")])
        text = f"static void {self.prefix}({pointers}, int64_t count) {{\n{body}\n}}\n"
        return text.replace("const bool ", "const int ")

    def rows(self) -> list[str]:
        present = [*["p", "grad"], *self.done.rule.rows]
        return [name for name, row in zip(present, self.done.rows, strict=True) if row is not None]

    def calls(self, memory: Memory) -> list[str]:
        rows = [row for row in self.done.rows if row is not None]
        found = []
        for arrays in zip(*rows, strict=True):
            if any([not x.flags.c_contiguous for x in arrays]):
                raise NoPrinter("a parameter that is not contiguous")
            given = [memory.pointer(address(x), self.T, i != 1) for i, x in enumerate(arrays)]
            found.append(f"{self.prefix}({', '.join(given)}, {arrays[0].size});")
        if self.done.rule.fresh:
            found.append(f"{self.counter} = 0;")
        elif self.counts:
            found.append(f"{self.counter} += 1;")
        return found
