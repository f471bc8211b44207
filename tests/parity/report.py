"""What a run over `op_db` found, as a table in the terminal and as docs/parity.md."""

from __future__ import annotations

import pathlib
import sys
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from known import EVERYDAY, OUTSIDE

from deviations import missed, section

CHECKS = (
    "present",
    "forward",
    "gradient",
    "second gradient",
    "jvp",
    "dtypes",
    "in-place",
    "errors",
    "meta",
)

# What was found: operator -> check -> number of comparisons, None, or what differs.
Found = dict[str, dict[str, Any]]


def summary(found: Found) -> str:
    lines = [f"{'check':16} {'everyday':>12} {'the rest':>12} {'all':>12}"]
    for check in CHECKS:
        counts = [count(found, check, group) for group in ("everyday", "rest", "all")]
        cells = [f"{good}/{of}" for good, of in counts]
        lines.append(f"{check:16} {cells[0]:>12} {cells[1]:>12} {cells[2]:>12}")
    return "\n".join(lines)


def count(found: Found, check: str, group: str = "all") -> tuple[int, int]:
    """How many operators of a group agree in a check, and of how many."""
    results = [
        r[check]
        for name, r in found.items()
        if r.get(check) is not None and (group == "all" or (group == "everyday") == common(name))
    ]
    return sum([not isinstance(r, str) for r in results]), len(results)


def record(found: Found) -> None:
    """Add the numbers of all operators to the evidence."""
    sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tools"))
    import evidence

    for check in CHECKS:
        agree, operators = count(found, check)
        evidence.add("op_db", check, {"agree": agree, "operators": operators})


def common(name: str) -> bool:
    return name in EVERYDAY or name.rpartition(".")[0] in EVERYDAY


def unexplained(found: Found) -> list[str]:
    """Misses that no file of a deviation has."""
    known = missed()
    return [
        f"{name}, {check}: {result}"
        for name, results in found.items()
        for check, result in results.items()
        if isinstance(result, str) and check not in known.get(name, {})
    ]


def not_missed(found: Found) -> list[str]:
    """Deviations without a miss: mended, or PyTorch rounds otherwise on this processor."""
    known = missed()
    return [
        f"{name}, {check}: tests/deviations has it, but nothing is missed here"
        for name, results in found.items()
        for check, result in results.items()
        if check in known.get(name, {}) and not isinstance(result, str)
    ]


def page(found: Found) -> str:
    """docs/parity.md."""
    lines = [
        "# Parity with PyTorch",
        "",
        "Made by `make parity-page` from a run over `op_db`, the table of operators and sample",
        "inputs of PyTorch 2.13 (`torch.testing._internal.common_methods_invocations`). Each",
        "column says how many operators agree on every sample, of those for which the check makes",
        "sense:",
        "",
        "```text",
        summary(found),
        "```",
        "",
        "- **present**: the function, its methods, its in-place method and its aliases exist",
        "- **forward**: values, dtypes and shapes, on all samples in float64",
        "- **gradient**, **second gradient**: in float64 and complex128, on all samples",
        "- **jvp**: forward mode, likewise",
        "- **dtypes**: values and result dtypes in every other dtype that PyTorch takes, and an",
        "  error in every dtype that it refuses",
        "- **in-place**: the in-place method, on all samples",
        "- **errors**: an exception of the same class, with matching text, for every error input",
        "- **meta**: shapes, dtypes and strides (of sizes above 1) of all samples on the device",
        "  `meta`, or the class of the error",
        "",
        "The tolerances are those of `torch.testing.assert_close`, or, where PyTorch's own tests",
        "of an operator allow more, those. *Everyday* operators are those that at least two of a",
        "sample of 35 public programs and libraries call.",
        "",
        section() + "## Misses",
        "",
    ]
    misses = {
        name: {c: r for c, r in results.items() if isinstance(r, str)}
        for name, results in sorted(found.items())
    }
    misses = {name: results for name, results in misses.items() if results}
    known = missed()
    if misses:
        lines += ["| operator | check | what differs | deviation |", "|---|---|---|---|"]
    for name, results in misses.items():
        for check, result in results.items():
            why = known.get(name, {}).get(check, "")
            lines.append(f"| `{name}` | {check} | {cell(result)} | {cell(why)} |")
    lines += ["", "## Outside the comparison", "", "| operator | why |", "|---|---|"]
    lines += [f"| `{name}` | {why} |" for name, why in sorted(OUTSIDE.items())]
    return "\n".join(lines) + "\n"


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
