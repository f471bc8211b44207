"""How many references there are to an object, on every Python.

`sys.getrefcount` counts some of those that asking takes: its argument, and the variables of the
functions in between. How many these are depends on the version (from 3.14 on arguments may be
borrowed), so it is measured once, with an object whose references are known.
"""

from __future__ import annotations

import sys
from typing import Any


class Asking:
    """How many references asking takes."""

    count = 0


def references(x: Any) -> int:
    """The references to an object; give it a local variable, which is one of them."""
    return sys.getrefcount(x) - Asking.count


def calibrate() -> None:
    """Measure what asking takes, with an object in a list and in a local variable."""
    Asking.count = 0
    held = [object()]
    probe = held[0]
    Asking.count = references(probe) - 2


calibrate()
