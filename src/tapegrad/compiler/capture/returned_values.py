"""Values that a function reads only to return them: `return loss.item()`.

Whoever reads a value may do anything with it, and a recording does what was done with the one it
saw. If all that is left to be done from the reading on is to put values together and to return
them, the bytecode says so: later values go the same way.
"""

from __future__ import annotations

import dis
import functools
import types
from typing import Any

from .instrumented import original_of

# What puts values together: (opcode, how many it takes for its argument n).
JOINS: dict[str, Any] = {
    "BINARY_OP": lambda n: 2,
    "BUILD_CONST_KEY_MAP": lambda n: n + 1,
    "BUILD_LIST": lambda n: n,
    "BUILD_MAP": lambda n: 2 * n,
    "BUILD_TUPLE": lambda n: n,
    "UNARY_NEGATIVE": lambda n: 1,
}
ARITHMETIC = frozenset(("BINARY_OP", "UNARY_NEGATIVE"))
NOTHING = frozenset(("CACHE", "EXTENDED_ARG", "NOP", "KW_NAMES", "PRECALL", "RESUME", "NOT_TAKEN"))
# What looks at values, likewise. Calls take a function, and what it is a method of or nothing.
LOADS = frozenset(("LOAD_ATTR", "LOAD_METHOD"))
USES: dict[str, Any] = {
    "BINARY_SUBSCR": lambda n: 2,
    "CALL": lambda n: n + 2,
    "CALL_KW": lambda n: n + 3,
    "COMPARE_OP": lambda n: 2,
    "LOAD_ATTR": lambda n: 1,
    "LOAD_METHOD": lambda n: 1,
}


def is_returned(frame: Any, function: Any, computed: bool) -> bool:
    """Whether a value that a frame of a function asks for right now is only returned.

    `computed`: arithmetic may be done with it before.
    """
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    if frame is None or frame.f_code is not code:
        return False
    original = original_of(code)
    if original is code:
        return goes_straight(code, frame.f_lasti, computed)
    place = same_call(original, list(code.co_positions())[frame.f_lasti // 2])
    return place is not None and goes_straight(original, place, computed)


def same_call(code: types.CodeType, position: Any) -> int | None:
    """Where the call is in a function's own code that stands at a position of the source."""
    found = [
        step.offset
        for step in dis.get_instructions(code)
        if step.opname == "CALL" and step.positions == position
    ]
    return found[0] if len(found) == 1 else None


@functools.lru_cache(4096)  # every cell of a notebook has new code objects
def goes_straight(code: types.CodeType, place: int, computed: bool) -> bool:
    """Whether the result of a call at a bytecode offset is used for the return value only."""
    if code.co_flags & (0x20 | 0x80 | 0x200):  # generators and coroutines
        return False
    steps = [step for step in dis.get_instructions(code) if step.opname not in NOTHING]
    behind = [i for i, step in enumerate(steps) if step.offset > place]
    here = behind[0] - 1 if behind else 0
    load, call = steps[here - 1], steps[here]
    if here < 1 or (call.opname, call.arg) != ("CALL", 0):
        return False
    if load.opname not in LOADS or load.argval != "item":
        return False  # `if loss > 1` asks for values, too
    stack = [True]  # whether each thing on it depends on the value; below is what does not
    held: set[str] = set()  # variables that do
    for step in steps[here + 1 :]:
        name, n = step.opname, step.arg or 0
        effect = dis.stack_effect(step.opcode, step.arg)
        if name == "RETURN_VALUE":
            return True
        if name.startswith("LOAD_FAST"):  # one variable or two
            names = step.argval if isinstance(step.argval, tuple) else (step.argval,)
            stack += [each in held for each in names]
        elif name in ("LOAD_CONST", "LOAD_SMALL_INT", "LOAD_GLOBAL", "LOAD_DEREF", "PUSH_NULL"):
            stack += [False] * effect
        elif name == "POP_TOP":
            take(stack, 1)
        elif name.startswith("STORE_FAST"):  # one variable, two, or one and another is loaded
            names = step.argval if isinstance(step.argval, tuple) else (step.argval,)
            for each in names[: name.count("STORE")]:
                held = held | {each} if take(stack, 1) else held - {each}
            stack += [each in held for each in names[name.count("STORE") :]]
        elif name in JOINS:
            stack.append(take(stack, JOINS[name](n)))
            if name in ARITHMETIC and stack[-1] and not computed:
                return False
        elif name in USES:
            if take(stack, USES[name](n)):
                return False  # somebody gets it
            # Should the answer be a value, it is asked about then. Methods come with their objects.
            stack += [False] * (2 if name in LOADS and effect == 1 else 1)
        else:
            return False
    return False


def take(stack: list[bool], n: int) -> bool:
    """Pop n entries of the stack; whether any of them depends on the value."""
    taken = stack[max(len(stack) - n, 0) :] if n else []
    del stack[max(len(stack) - n, 0) :]
    return any(taken)
