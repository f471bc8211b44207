"""Numbers about values, and the shapes of results that nobody holds any more."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import dtypes
from ...autograd.view_history import CopySlices
from ...core.base import quiet
from ...core.is_array import is_array
from ...ops.block.definition import parameter_names

Shape = tuple[int, ...]
Known = tuple[Shape | None, Any]  # shape and dtype of a result, as far as they are known


def statistics(array: Any) -> dict[str, Any]:
    """Range, mean and spread of the finite values, and counts of the others.

    >>> statistics(np.array([0.0, 2.0, np.inf]))["max"]
    2.0
    """
    return quiet(statistics_of, array)  # type: ignore[no-any-return]


def statistics_of(array: Any) -> dict[str, Any]:
    kind = array.dtype.kind
    if kind == "c":
        array = np.abs(array)
    elif kind == "V" or array.dtype.itemsize == 2 and kind == "f":
        array = array.astype(np.float32)
    elif kind == "b":
        array = array.astype(np.uint8)
    size = array.size
    facts: dict[str, Any] = {"min": None, "max": None, "mean": None, "std": None}
    facts |= {"nan": 0, "inf": 0, "zero": size - int(np.count_nonzero(array)), "size": size}
    if not size:
        return facts
    low, high = float(array.min()), float(array.max())
    if not (math.isfinite(low) and math.isfinite(high)):
        facts["nan"] = int(np.isnan(array).sum())
        facts["inf"] = int(np.isinf(array).sum())
        array = array[np.isfinite(array)]
        if not array.size:
            return facts
        low, high = float(array.min()), float(array.max())
    mean = float(array.mean(dtype=np.float64))
    apart = array.ravel() - mean
    std = math.sqrt(max(float(np.dot(apart, apart)) / apart.size, 0.0))
    return facts | {"min": low, "max": high, "mean": mean, "std": std if std < math.inf else None}


def finite_norm(array: Any) -> float | None:
    """The 2-norm; None if it is not finite, since JSON has no word for that."""
    if array.dtype.kind == "V":
        array = array.astype(np.float32)
    found = float(quiet(np.linalg.norm, array.ravel()))
    return found if math.isfinite(found) else None


def dtype_name(dtype: Any) -> str:
    return str(dtypes.of(dtype)).removeprefix("torch.")


def inner_of(node: Any) -> Any:
    """The node that saved something: for a write through a view, that of the write."""
    return node.inner if isinstance(node, CopySlices) else node


# ---------------------------------------------------------------------- shapes


def input_facts(node: Any, kept: Any, position: int) -> tuple[Shape | None, Any, Any]:
    """Shape, dtype and saved array of the result that came in at an edge of `node`."""
    op = node._op
    if op is None:
        metas = [m for m in getattr(node, "_input_metas", ()) if m is not None]
        meta = metas[position] if position < len(metas) else None
        return (None, None, None) if meta is None else (*meta, None)
    shape: Shape | None = None
    dtype = None
    array = None
    if node._fixes is not None and node._fixes[position] is not None:
        shape, dtype = node._fixes[position]
    if kept is not None and op.variadic:
        for k, (_, what) in enumerate(op.metas):
            found = kept[len(op.outs) + len(op.attrs) + k][position]
            shape, dtype = (found, dtype) if what == "shape" else (shape, dtype)
    elif kept is not None:
        saved = kept[position] if position < op.width else None
        if is_array(saved):
            return saved.shape, saved.dtype, saved
        if shape is None and op.metas:
            start = op.width + len(op.outs) + len(op.attrs)
            for k, (index, what) in enumerate(op.metas):
                if index == position and what == "shape":
                    shape = kept[start + k]
                elif index == position and what == "dtype":
                    dtype = kept[start + k]
    return shape, dtype, array


def same_as_output(node: Any, position: int) -> tuple[bool, bool]:
    """Whether shape and dtype of an input are those of the output: nothing had to be fixed."""
    op = node._op
    if isinstance(node, CopySlices):  # a write through a view: the base comes in and goes out
        return position == 0, position == 0
    if op is None or op.joint is not None or node._outputs is not None:
        return False, False
    fix = None if node._fixes is None else node._fixes[position]
    alike = op.broadcasts or op.elementwise
    return alike and fix is None, fix is None


def result_shape(node: Any, kept: Any, inputs: list[Shape | None]) -> Shape | None:
    """The shape of a result from those of its inputs, where the op's block has a rule."""
    op = node._op
    if op is None or not inputs:
        return None
    if op.elementwise:
        known = [s for s in inputs if s is not None]
        complete = len(known) == len(inputs) or node._fixes is None and bool(known)
        return tuple(np.broadcast_shapes(*known)) if complete else None
    return by_rule(op, "out", kept, inputs)


def operand_shape(
    node: Any, kept: Any, position: int, out: Shape, inputs: list[Shape | None]
) -> Shape | None:
    """The shape of an input from that of the result, where the op leaves no choice."""
    op = node._op
    if op is None or op.variadic or position >= len(op.tensors):
        return None
    return by_rule(op, op.tensors[position], kept, inputs, out)


def by_rule(
    op: Any, name: str, kept: Any, inputs: list[Shape | None], out: Shape | None = None
) -> Shape | None:
    """The shape of a result or tensor, if there is a rule and all is known that it reads."""
    rule = (op.shape_rules or {}).get(name)
    if rule is None:
        return None
    shapes = {"out": out} | dict(zip(op.tensors, inputs, strict=False))
    if op.variadic:
        shapes = {op.tensors[0]: None if None in inputs else inputs}
    known = attributes(op, kept) | {n: shape for n, shape in shapes.items() if shape is not None}
    names = parameter_names(rule)
    if not all(each in known for each in names):
        return None
    found: Shape | None = rule(*[known[each] for each in names])
    return found


def attributes(op: Any, kept: Any) -> dict[str, Any]:
    """The attributes of an op application by name; none once they are freed."""
    if kept is None or op is None:
        return {}
    start = op.width + len(op.outs)
    return dict(zip(op.attrs, kept[start : start + len(op.attrs)], strict=False))
