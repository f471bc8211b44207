"""Functions in C, and methods of Python's own types, that instrumented code may call.

Each name stands in the group that says what has to be guarded when it is called. What is in no
group is a call whose reads and effects are not known: the function is cut there.
"""

from __future__ import annotations

import builtins
import cmath
import collections
import datetime
import functools
import io
import itertools
import math
import operator
import socket
import time
from typing import Any

# Functions that look at no more than how many things there are, and which.
SHALLOW = frozenset(map(id, (len, iter, reversed, zip, enumerate, map, filter, next, list, tuple)))
# Functions of their arguments, and of what is in these.
PURE = frozenset(
    id(vars(builtins)[name])
    for name in """
    abs all any ascii bin bool bytes callable chr complex dict divmod enumerate filter float format
    frozenset hash hex int isinstance issubclass iter len list map max memoryview min next object
    oct ord pow property range repr reversed round set slice sorted staticmethod classmethod str sum
    super tuple type zip bytearray
    """.split()
) | frozenset(
    id(each)
    for module in (math, cmath, operator, itertools)
    for name, each in vars(module).items()
    if not name.startswith("_") and callable(each)
)
PURE |= frozenset(map(id, (functools.partial, functools.reduce, functools.cmp_to_key)))
PURE |= frozenset(map(id, (collections.deque, collections.defaultdict, collections.OrderedDict)))
# Those of them that look at the elements of an iterator: which of their arguments that is.
FIRST, SECOND = slice(0, 1), slice(1, 2)
CONSUMED = {
    **{id(each): FIRST for each in (any, all, sum, min, max, sorted, set, frozenset)},
    **{id(each): FIRST for each in (itertools.accumulate, itertools.groupby)},
    **{id(each): SECOND for each in (filter, functools.reduce, itertools.starmap)},
    **{id(getattr(itertools, n)): SECOND for n in ("takewhile", "dropwhile", "filterfalse")},
    **{id(map): slice(1, None), id(itertools.compress): slice(0, 2)},
}
# And those that look at what a function answers: where it is, if it is not given as a keyword.
JUDGES = {
    **{id(each): slice(0, 0) for each in (min, max, sorted)},
    **{id(each): FIRST for each in (filter, functools.reduce)},
    **{id(getattr(itertools, n)): FIRST for n in ("takewhile", "dropwhile", "filterfalse")},
    **{id(each): SECOND for each in (itertools.accumulate, itertools.groupby)},
}
# Methods that look at what is in a container, however new it is.
LOOKS = frozenset(
    each.__name__ for each in (list.sort, list.index, list.count, list.remove, list.__contains__)
) | {"__eq__", "__ne__"}
# Functions of `operator` that change their first argument, if that is possible.
IN_PLACE = frozenset(
    id(getattr(operator, name))
    for name in """
    setitem delitem iadd iand iconcat ifloordiv ilshift imatmul imod imul ior ipow irshift isub
    itruediv ixor
    """.split()
)
# Functions of this package that make a tensor of an array.
OF_ARRAYS = frozenset(("from_numpy", "as_tensor", "asarray", "tensor"))
# Types that nobody can change: all their methods are pure.
CONSTANT = (
    *(int, float, complex, bool, str, bytes, tuple, range, slice, frozenset, type(None)),
    *(type(Ellipsis), type(NotImplemented), datetime.date, datetime.timedelta),
)
CONTAINERS = (list, dict, set, collections.deque, bytearray)
CHANGES = frozenset(
    """
    append appendleft extend extendleft insert add update setdefault pop popleft popitem remove
    discard clear sort reverse rotate difference_update intersection_update move_to_end
    symmetric_difference_update __setitem__ __delitem__ __iadd__ __imul__ __ior__ __iand__ __isub__
    __ixor__ __init__ __setattr__ __delattr__ __setstate__ subtract
    """.split()
)
ARRAY_CHANGES = frozenset(
    """
    fill sort put partition resize itemset setfield setflags byteswap __setitem__ __iadd__ __isub__
    __imul__ __itruediv__ tofile dump
    """.split()
)
# Functions of NumPy that write into an argument, or do something else than to compute.
NUMPY_ACTS = frozenset(
    """
    copyto put place putmask fill_diagonal put_along_axis load save savez savez_compressed loadtxt
    savetxt fromfile genfromtxt memmap seterr seterrcall set_printoptions shuffle
    """.split()
)
WRITES = frozenset(("write", "writelines", "truncate", "send", "sendall", "sendto"))
CLOCKS = frozenset(
    id(f)
    for f in (
        *(time.time, time.time_ns, time.perf_counter, time.perf_counter_ns, time.monotonic),
        *(time.monotonic_ns, time.process_time, time.process_time_ns, time.sleep),
    )
)
# Methods of this package's modules that look at the module and change nothing but tensors.
MODULE_READS = frozenset(
    """
    parameters named_parameters buffers named_buffers children named_children modules named_modules
    get_parameter get_buffer get_submodule state_dict forward __call__ _call_impl zero_grad items
    keys values extra_repr __len__ __getitem__ __iter__ __contains__ __getattr__ flatten_parameters
    apply float double half bfloat16 to cpu requires_grad_
    """.split()
)
# Functions and methods of this package that change more than tensors, by their beginnings.
LIBRARY_ACTS = ("set_", "register_", "add_module", "add_param", "load_state", "_register")
LIBRARY_FILES = frozenset(("save", "load", "manual_seed", "seed"))
# Functions of this package that tell of a setting, by their beginnings; and those whose answer is
# about the recording itself.
ASKS = ("get_", "is_", "are_", "initial_")
OF_THE_COMPILER = frozenset(("is_compiling", "is_dynamo_compiling", "is_exporting"))
# Those of them that the recorder sees, or that are undone.
LIBRARY_SEEN = frozenset(("set_grad_enabled", "set_", "set_detect_anomaly", "register_hook"))


def writes_or_asks(function: Any, owner: Any, name: str) -> str:
    """Whether a function in C writes to a file or asks for the time, in words; "" if neither."""
    if name in WRITES and isinstance(owner, (io.IOBase, socket.socket)):
        return "it writes to a file"
    is_of_a_date = name in ("now", "today", "utcnow") and isinstance(owner, type)
    if id(function) in CLOCKS or (is_of_a_date and issubclass(owner, datetime.date)):
        return "it asks for the time"
    return ""


def why_not_call(function: Any, owner: Any, name: str) -> str:
    """The side effect of a function in C that a replay would not repeat, in words."""
    known = writes_or_asks(function, owner, name)
    if known:
        return known
    if function is print:
        return "it prints"
    if "random" in type(owner).__module__ and type(owner).__module__.startswith("numpy"):
        return "it draws NumPy's random numbers"
    module = getattr(function, "__module__", None) or ""
    if hasattr(owner, "__next__"):
        return "it takes values from an iterator"
    if module in ("builtins", "io", "_io", "posix", "nt"):
        return f"it calls {name}()"
    kind = type(owner).__name__ if owner is not None and not hasattr(owner, "__name__") else module
    return (
        f"it calls {kind}.{name}(), whose effects are not known" if kind else f"it calls {name}()"
    )
