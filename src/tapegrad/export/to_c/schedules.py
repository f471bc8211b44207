"""Learning rates that change from step to step, as a table in the C file."""

from __future__ import annotations

import contextlib
import warnings
from typing import Any

import numpy as np

from .elementwise import NoPrinter
from .places import numbers_text

CALLS = 10_000  # of a scheduler that are tried
PLAIN = (int, float, bool, tuple, type(None))


class Schedule:
    """The learning rates that a scheduler sets in its next calls."""

    def __init__(self, name: str, step: Any) -> None:
        """Try the calls; the caller restores what they change."""
        self.name = name
        self.groups = step.__self__.optimizer.param_groups
        before = [without_rate(g) for g in self.groups]
        self.calls: list[int] = []  # those that change something
        self.rates: list[list[float]] = []  # of all groups, after each of them
        with warnings.catch_warnings(), contextlib.suppress(ValueError):  # it has an end
            warnings.simplefilter("ignore")
            for i in range(CALLS):
                step()
                rates = [float(g["lr"]) for g in self.groups]
                if not self.rates or rates != self.rates[-1]:
                    self.calls.append(i + 1)
                    self.rates.append(rates)
        if [without_rate(g) for g in self.groups] != before:
            raise NoPrinter("a schedule that changes more than learning rates")

    def text(self, updates: list[Any]) -> str:
        """The table, and the function that looks the next learning rates up."""
        name, count = self.name, len(self.calls)
        own = []
        for u in updates:
            found = [i for i, g in enumerate(self.groups) if g is u.done.group]
            own += [(u.lr, found[0])] if found else []
        lines = [
            f"/* The calls that change learning rates, of the next {CALLS:,}; and the rates. */",
            *table("int64_t", f"{name}_calls", self.calls),
        ]
        for lr, i in own:
            texts = [rates[i] for rates in self.rates]
            lines += table("double", f"{name}_{lr}", texts)
        lines += [
            f"static int64_t {name}_count, {name}_next;",
            f"static void {name}(void) {{",
            f"    {name}_count++;",
            f"    if ({name}_next < {count} && {name}_calls[{name}_next] == {name}_count) {{",
            *[f"        {lr} = {name}_{lr}[{name}_next];" for lr, _ in own],
            f"        {name}_next++;",
            "    }",
            "}",
        ]
        return "\n".join(lines) + "\n"


def table(type_name: str, name: str, values: Any) -> list[str]:
    texts = numbers_text(np.array(values))
    return [f"static const {type_name} {name}[{len(values)}] = {{", *texts, "};"]


def without_rate(group: Any) -> Any:
    return {k: v for k, v in group.items() if k != "lr" and isinstance(v, PLAIN)}
