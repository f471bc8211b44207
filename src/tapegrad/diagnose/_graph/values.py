"""Numbers about values, and the shapes of results that nobody holds any more."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import dtypes
from ...autograd.inplace import CopySlices
from ...core.arrays import is_array
from ...core.base import quiet

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


def norm(array: Any) -> float | None:
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
    op = node.op
    if op is None:
        metas = [m for m in getattr(node, "_input_metas", ()) if m is not None]
        meta = metas[position] if position < len(metas) else None
        return (None, None, None) if meta is None else (*meta, None)
    shape: Shape | None = None
    dtype = None
    array = None
    if node.fixes is not None and node.fixes[position] is not None:
        shape, dtype = node.fixes[position]
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
    op = node.op
    if isinstance(node, CopySlices):  # a write through a view: the base comes in and goes out
        return position == 0, position == 0
    if op is None or op.joint is not None or node.outputs is not None:
        return False, False
    fix = None if node.fixes is None else node.fixes[position]
    alike = op.broadcasts or op.elementwise
    return alike and fix is None, fix is None


def result_shape(node: Any, kept: Any, inputs: list[Shape | None]) -> Shape | None:
    """The shape of a result from those of its inputs, for the commonest ops."""
    op = node.op
    if op is None or not inputs:
        return None
    name = op.name
    if op.variadic:
        return joined_shape(name, attributes(op, kept).get("dim"), inputs)
    if name.endswith("_all"):
        return ()
    if op.elementwise:
        known = [s for s in inputs if s is not None]
        complete = len(known) == len(inputs) or node.fixes is None and bool(known)
        return tuple(np.broadcast_shapes(*known)) if complete else None
    attrs = attributes(op, kept)
    first = inputs[0]
    if name in ("view", "reshape", "expand", "reshape_alias", "unsafe_view"):
        size = attrs.get("shape", attrs.get("size"))
        return size if isinstance(size, tuple) and -1 not in size else None
    if name in ("mm", "bmm", "addmm", "baddbmm"):
        a, b = inputs[-2:]
        return None if a is None or b is None else (*a[:-1], b[-1])
    if first is None:
        return None
    if name in ("t", "transpose"):
        return swapped(first, attrs)
    if name == "permute" and "dims" in attrs:
        return tuple([first[d] for d in attrs["dims"]])
    if name == "unsqueeze" and "dim" in attrs:
        return (*first[: attrs["dim"]], 1, *first[attrs["dim"] :])
    if name == "squeeze_one" and "dim" in attrs:
        dim = attrs["dim"]
        return first if first[dim] != 1 else (*first[:dim], *first[dim + 1 :])
    if name in ("sum", "mean") and "dim" in attrs and attrs["dim"] is not None:
        dims, keep = attrs["dim"], attrs["keepdim"]
        sizes = [1 if i in dims else s for i, s in enumerate(first)]
        return tuple([s for i, s in enumerate(sizes) if keep or i not in dims])
    if name in ("softmax", "log_softmax", "native_dropout", "cumsum", "cumprod"):
        return first
    return None


def operand_shape(
    node: Any, kept: Any, position: int, out: Shape, inputs: list[Shape | None]
) -> Shape | None:
    """The shape of an input from that of the result, where the op leaves no choice."""
    name = "" if node.op is None else node.op.name
    if name in ("t", "transpose"):
        return swapped(out, attributes(node.op, kept))
    if name in ("mm", "bmm", "addmm", "baddbmm") and len(out) > 1:
        at = position - (len(inputs) - 2)  # a summand may stand in front
        other = inputs[-1 - at] if at in (0, 1) else None
        if other is not None:
            return (*out[:-1], other[-2]) if at == 0 else (*out[:-2], other[-1], out[-1])
    return None


def swapped(shape: Shape, attrs: dict[str, Any]) -> Shape | None:
    """The shape after `transpose` or `t`."""
    if len(shape) < 2:
        return shape
    sizes = list(shape)
    i, j = attrs.get("dim0", 0), attrs.get("dim1", 1)
    sizes[i], sizes[j] = sizes[j], sizes[i]
    return tuple(sizes)


def joined_shape(name: str, dim: Any, inputs: list[Shape | None]) -> Shape | None:
    """The shape after `cat` or `stack`."""
    known = [s for s in inputs if s is not None]
    if not known or len(known) != len(inputs) or not isinstance(dim, int):
        return None
    first = known[0]
    if name == "stack":
        return (*first[:dim], len(known), *first[dim:])
    if name != "cat" or any(len(s) <= dim for s in known):
        return None
    return (*first[:dim], sum([s[dim] for s in known]), *first[dim + 1 :])


def attributes(op: Any, kept: Any) -> dict[str, Any]:
    """The attributes of an op application by name; none once they are freed."""
    if kept is None or op is None:
        return {}
    start = op.width + len(op.outs)
    return dict(zip(op.attrs, kept[start : start + len(op.attrs)], strict=False))
