"""Compares the nodes that dispatch's short ways record with those of the general way.

Run by test_node_layouts.py, in a process with the core as Python: functions of the compiled core
call each other directly, and cannot be listened to. Prints what differs, and which ops were seen.
"""

from __future__ import annotations

import collections
import itertools
import json
import sys
import warnings
from typing import Any

import ml_dtypes
import numpy as np

import table
import tapegrad
from tapegrad.core import dispatch, record
from tapegrad.core.base import TensorBase
from tapegrad.ops.nn import lstm_step

WRONG_LINES: collections.Counter[str] = collections.Counter()
SHORT: collections.Counter[str] = collections.Counter()
DIFFERENT: list[str] = []
WAITING: list[tuple[Any, ...]] = []  # (op, tensors, attrs, result, node, versions)


def layout_of(node: Any) -> dict[str, Any]:
    """What a node holds, to be compared with another's."""
    leaves = node._leaves
    cells = node._cells
    return {
        "kept": [(type(x).__name__, id(x) if hasattr(x, "dtype") else x) for x in node._kept],
        "cells": [cells[k : k + 2] for k in range(0, len(cells), 3)],
        "edges": node._edges,
        "slots": node._edge_slots,
        "fixes": node._fixes,
        "outputs": node._outputs,
        "leaves": {id(t) for t in ([leaves] if isinstance(leaves, TensorBase) else leaves or ())},
        "frees": node._frees,
        "cut": node._cut,
        "mixed": node.mixed,
        "conjugates": node.conjugates,
    }


def compare() -> None:
    """Lay out anew what the last short way recorded: by now it is complete."""
    for op, tensors, attrs, t, node in WAITING:
        mask = 0
        for i, given in enumerate(tensors):
            if isinstance(given, TensorBase) and given._wants_grad:
                mask |= 1 << i
        general = record.lay_out(op, tensors, attrs, (), mask, (t._array,), None, [t])
        found, wanted = layout_of(node), layout_of(general)
        for key in found:
            if found[key] != wanted[key]:
                DIFFERENT.append(f"{op.name}: {key} {found[key]!r} != {wanted[key]!r}")
        SHORT[op.name] += 1
    WAITING.clear()


def listening(function: Any, arguments: Any) -> Any:
    def record_short(*args: Any) -> Any:
        compare()
        made = function(*args)
        op, tensors, attrs, t = arguments(*args)
        WAITING.append((op, tensors, attrs, t, t._node))
        return made

    return record_short


def of_one(op: Any, a: Any, attrs: Any, t: Any) -> Any:
    return op, (a,), attrs, t


def of_two(op: Any, a: Any, b: Any, y: Any, t: Any, attrs: Any, same: bool = False) -> Any:
    return op, (a, y if b is None else b), attrs, t


def listen() -> None:
    """From now on `compare` sees what the short ways record."""
    for module in (dispatch, lstm_step):
        if hasattr(module, "record_one"):
            module.record_one = listening(record.record_one, of_one)
        if hasattr(module, "record_two"):
            module.record_two = listening(record.record_two, of_two)


def slotted(array: Any) -> Any:
    """A tensor that is the second output of a node."""
    if array.dtype.kind not in "fc":
        return table.plain(array)
    t = tapegrad.stack([table.plain(array)] * 2).requires_grad_()
    return t.unbind()[1].clone() if array.ndim == 0 else t.unbind()[1]


def some_plain() -> Any:
    """Every other tensor requires grad: an op of several keeps less then."""
    count = itertools.count()
    return lambda array: (table.plain if next(count) % 2 else table.leaf)(array)


def narrower(dtype: Any) -> Any:
    def make(array: Any) -> Any:
        return table.leaf(array.astype(dtype) if array.dtype.kind == "f" else array)

    return make


NARROW = (np.float32, np.float16, ml_dtypes.bfloat16)
KINDS = (table.leaf, slotted, some_plain(), *map(narrower, NARROW))


def look_at_lines(result: Any, given: list[Any]) -> None:
    """Every node that a call has made belongs to the line of that call."""
    known = {t._node for t in given}
    stack = [t._node for t in table.tensors_in(result)]
    while stack:
        node = stack.pop()
        if node is None or node in known or node._is_leaf:
            continue
        known.add(node)
        if node._code is not table.call.__code__:
            where = "nowhere" if node._code is None else node._code.co_qualname
            WRONG_LINES[f"{node.name()}: {where}"] += 1
        stack.extend(node._edges)


def look_at_operators() -> None:
    """The same for Python's operators, which are called with the fewest functions in between."""
    x = table.leaf(np.ones((2, 2)))
    made = [x + x, x * 2, 2 - x, x / x, x @ x, -x, abs(x), x**2, 2**x, x % 2, x[0], x.T, x.exp()]
    code = sys._getframe().f_code
    for t in made:
        for node in (t._node, *t._node._edges):
            if node is not None and not node._is_leaf and node._code is not code:
                WRONG_LINES[f"{node.name()} of an operator"] += 1


def run_all(kinds: tuple[Any, ...], look: Any) -> None:
    """Call every function of the table on its samples, of several kinds of tensors."""
    for name in table.PURE:
        for i in range(len(table.APIS[name].samples)):
            for make in kinds:
                try:
                    args, kwargs, given = table.draw(name, i, make)
                    result = table.call(name, args, kwargs)
                except (RuntimeError, TypeError, ValueError, NotImplementedError, IndexError):
                    continue  # not every function takes every kind
                look(result, given)


def main() -> None:
    warnings.simplefilter("ignore")
    look_at_operators()
    run_all((table.leaf,), look_at_lines)  # before there are functions of this file in between
    listen()
    run_all(KINDS, lambda *_: compare())
    found = {"different": sorted(set(DIFFERENT)), "short": SHORT, "wrong lines": WRONG_LINES}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
