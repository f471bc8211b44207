"""The Python state that a recorded call reads and changes, observed read by read.

While a call is recorded, the user's functions run instrumented code (`instrumented.py`), and its
hooks end up here. What is read of objects that were there before the call becomes a guard
(`reads.py`). What is stored in them is an effect that a replay would not repeat: the recorder gives
up with the line, and the function is cut there. A call is made if it is known what it reads and
does: functions with source run instrumented, functions of this package and the builtins of
`vetted.py` are told apart by what they look at, and anything else is a cut.

Objects are taken to have been there before unless they are known to be new: a guard on an object of
this call always holds, while a missing guard would be wrong.
"""

from __future__ import annotations

import enum
import sys
import types
from typing import Any

from .instrumented import original_of
from .object_kinds import (
    PLAIN,
    is_ours,
    is_ours_by_name,
)
from .reads import ABSENT
from .swapped_code import CURRENT, SWAPS
from .vetted_calls import VettedCalls


class PythonState(VettedCalls):
    """A `with` block in which reads and stores of instrumented code go to one recorder."""

    def __enter__(self) -> PythonState:
        self.outer, CURRENT.state = CURRENT.state, self
        owner = getattr(self.function, "__self__", self.function)
        self.name(owner, type(owner).__name__)
        try:
            for each in (*self.known_before, self.function, *self.arguments):
                self.prepare(each)
            for i, each in enumerate(self.arguments):
                self.name(each, f"argument {i + 1}")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        CURRENT.state = self.outer
        for function in self.swapped.values():
            SWAPS.take_back(function)
        for reference in self.made_functions:
            function = reference()
            if function is not None:
                function.__code__ = original_of(function.__code__)
        self.swapped.clear()
        self.reads.settle()

    def run(self, function: Any, args: Any, kwargs: Any) -> Any:
        """Call the function that is recorded."""
        if isinstance(function, (types.FunctionType, types.MethodType)):
            out = self.call(function, args, kwargs)
        else:
            self.prepare(function)
            out = function(*args, **kwargs)
        self.check_modes()
        return out

    def context(self, value: Any) -> Any:
        kind = type(value)
        self.look_at_ours(value)
        if not is_ours(kind):
            self.prepare(value)
            known = isinstance(getattr(kind, "__enter__", None), types.FunctionType)
            if not known and kind.__module__ not in ("_thread", "threading", "contextlib"):
                self.give_up(f"it uses `with` on a {kind.__name__}")
        return value

    def matched(self, value: Any) -> Any:
        if not isinstance(value, (*PLAIN, enum.Enum)):
            self.give_up("it matches an object")
        return value

    def imported(self, names: Any, module: Any, level: Any) -> None:
        around = sys._getframe(2).f_globals
        if level is None:
            for name in names:
                found = sys.modules.get(name, ABSENT)
                self.reads.entry(sys.modules, name, found, f"`{name}`")
                self.name(found, f"`{name}`")
            return
        full = module or ""
        if level:
            package = around.get("__package__") or ""
            parts = package.split(".")
            parts = parts[: len(parts) - level + 1]
            full = ".".join([*parts, *([module] if module else [])])
        found = sys.modules.get(full)
        if found is None:
            self.give_up(f"it imports {full}")
            return
        self.reads.entry(sys.modules, full, found, f"`{full}`")
        for name in names:
            if name == "*" or name not in vars(found):
                if not is_ours_by_name(full):
                    self.give_up(f"it imports {name} from {full}")
                continue
            self.module_attr(found, name)
