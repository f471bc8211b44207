"""maximum, minimum, fmax, fmin and clip with one answer for zeros of both signs.

NumPy gives the second of two zeros on x86-64, the positive one on arm64, and for a few elements
yet another. Here the second one is taken, as c/machine/machine_steps.h does; what is reduced to
one value gives a positive zero.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .functions import into


def is_real(*given: Any) -> bool:
    return all([getattr(x, "dtype", np.dtype(float)).kind == "f" for x in given])


def positive_zeros(made: Any) -> Any:
    """Turn zeros with a sign into zeros without one."""
    if getattr(made, "dtype", np.dtype(int)).kind == "f":
        made += 0.0
    return made


class Extreme:
    """A ufunc of NumPy that compares, and its methods."""

    def __init__(self, ufunc: Any, first_wins: Callable[[Any, Any], Any]) -> None:
        self.ufunc = ufunc
        self.first_wins = first_wins
        self.__name__ = ufunc.__name__

    def __call__(self, a: Any, b: Any, out: Any = None, order: str = "K") -> Any:
        if not is_real(a, b):
            return self.ufunc(a, b, out=out, order=order)
        made = np.where(self.first_wins(a, b), a, b)
        return into(out, np.ascontiguousarray(made) if order == "C" else made)

    def reduce(self, *args: Any, **options: Any) -> Any:
        return positive_zeros(self.ufunc.reduce(*args, **options))

    def accumulate(self, *args: Any, **options: Any) -> Any:
        return positive_zeros(self.ufunc.accumulate(*args, **options))

    def reduceat(self, *args: Any, **options: Any) -> Any:
        return positive_zeros(self.ufunc.reduceat(*args, **options))

    def at(self, x: Any, *args: Any) -> None:
        self.ufunc.at(x, *args)
        positive_zeros(x)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.ufunc, name)


maximum = Extreme(np.maximum, lambda a, b: (a > b) | (a != a))
minimum = Extreme(np.minimum, lambda a, b: (a < b) | (a != a))
fmax = Extreme(np.fmax, lambda a, b: (a > b) | (b != b))
fmin = Extreme(np.fmin, lambda a, b: (a < b) | (b != b))


def clip(a: Any, a_min: Any = None, a_max: Any = None, out: Any = None) -> Any:
    made = np.asarray(a) if a_min is None else maximum(a, a_min)
    made = made if a_max is None else minimum(made, a_max)
    return into(out, made) if out is not None else made.copy() if made is a else made


EXTREMES = {"maximum": maximum, "minimum": minimum, "fmax": fmax, "fmin": fmin, "clip": clip}
EXTREMES |= {"max": maximum.reduce, "min": minimum.reduce}
