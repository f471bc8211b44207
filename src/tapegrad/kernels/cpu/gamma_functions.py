"""Relatives of the gamma function by C, one element after the other, in double.

The formulas are those of the functions that `by_c` marks, which compute the same with NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.settings import Settings
from . import KERNELS
from .overrides.rows import for_dtypes

# In the order of `functions` in c/kernels/gamma_functions.c
FUNCTIONS = (
    *("lower_fraction", "upper_fraction", "zeta", "log_gamma", "log_gamma_of_many"),
    *("gamma_derivative", "dirichlet_derivative"),
)
# What the functions read: in the order of the parts in c/kernels/gamma_functions.c. The modules of
# the formulas hold the numbers.
PARTS: dict[str, Any] = dict.fromkeys(
    """
    log_low log_low_below log_high log_high_below log_middle log_middle_below stirling digamma_near
    digamma_near_below digamma_far digamma_far_below erfcx_near erfcx_near_below erfcx_middle
    erfcx_middle_below erfcx_far erfcx_far_below zeta temme nodes weights root direct orders
    """.split()
)
CODES = {name: code for code, name in enumerate(FUNCTIONS)}
BY_C: dict[Any, str] = {}  # the functions of NumPy arrays of which C has a form
TABLE: list[tuple[Any, Any]] = []  # one: all numbers of PARTS, and where the parts begin
OPERANDS = 3
RUN = for_dtypes("gamma_function")


def by_c(name: str) -> Callable[[Any], Any]:
    """Mark a function of flat double arrays: C computes the same, by this name."""

    def mark(function: Any) -> Any:
        BY_C[function] = name
        return function

    return mark


def provide(**parts: Any) -> None:
    """Give numbers to PARTS, as arrays or as functions that return arrays."""
    PARTS.update(parts)
    TABLE.clear()


def provide_ratios(**ratios: Any) -> None:
    """Give numerators and denominators to PARTS."""
    for name, (above, below) in ratios.items():
        provide(**{name: above, f"{name}_below": below})


def table() -> tuple[Any, Any]:
    """The numbers that the functions read. A function is marked by the module that has its numbers,
    so that those of others may be missing."""
    if not TABLE:
        found = [
            part() if callable(part) else () if part is None else part for part in PARTS.values()
        ]
        parts = [np.asarray(part, np.float64).reshape(-1) for part in found]
        starts = np.cumsum([0, *[part.size for part in parts]])
        TABLE.append((np.concatenate(parts), np.asarray(starts, np.int64)))
    return TABLE[0]


def computed(name: str | None, *operands: Any) -> Any:
    """The function of arrays of one dtype that lie in C order, and of numbers; None: not by C."""
    if name is None or KERNELS is None or Settings.portable:
        return None
    for x in operands:
        if type(x) is float and float(np.float32(x)) != x:
            return None  # the kernel for float would round it
    missing = (operands[0],) * (OPERANDS - len(operands))
    return KERNELS.map_elements(RUN, CODES[name], (*operands, *missing), table())
