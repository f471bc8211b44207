"""E09: shapes that do not fit, side by side, with the axis that clashes and the nearest fix."""

from __future__ import annotations

import math
import re
from typing import Any

from .calls import Advice, Call, Rule

Shape = tuple[int, ...]
Match = re.Match[str]


def advice(
    call: Call,
    what: str,
    fixes: list[str],
    rows: list[tuple[str, int | None]],
    tensor: str | None = None,
    **facts: Any,
) -> Advice:
    """`rows` are (argument, the axis that clashes, counted from 0)."""
    rows = [(name, axis) for name, axis in rows if call.get(name) is not None]
    known = [(call.label(name), call.shape(name), axis) for name, axis in rows]
    shapes = {name: list(call.shape(name)) for name, _ in rows}
    facts = {"shapes": shapes, "axes": dict(rows), **facts}
    details = [("shapes", align(known))] if known else []
    return Advice(what, fixes[:3], details, facts, tensor)


def align(rows: list[tuple[str, Shape, int | None]]) -> str:
    """Shapes below each other, the axes that clash in one column with a mark below it.

    >>> print(align([("mat1", (8, 784), 1), ("mat2", (768, 320), 0)]))
    mat1  (8, 784)
    mat2     (768, 320)
              ^^^
    """
    marked = [axis for _, _, axis in rows if axis is not None]
    widest = max(len(label) for label, _, _ in rows)
    lines = []
    # Columns count from the axis that clashes; without one, from the end.
    offsets = [len(shape) if axis is None else axis for _, shape, axis in rows]
    first = min(-k for k in offsets)
    last = max(len(shape) - k for (_, shape, _), k in zip(rows, offsets, strict=True))
    widths = [
        max(
            [len(str(shape[c + k])) for (_, shape, _), k in placed(rows, offsets, c)],
            default=0,
        )
        for c in range(first, last)
    ]
    for (label, shape, _), k in zip(rows, offsets, strict=True):
        skipped = sum(w + 2 for w in widths[: -k - first])
        numbers = [str(n).rjust(widths[i - k - first]) for i, n in enumerate(shape)]
        comma = "," if len(shape) == 1 else ""
        lines.append(f"{label:<{widest}}  {' ' * skipped}({', '.join(numbers)}{comma})")
    if marked:
        before = sum(w + 2 for w in widths[:-first])
        width = widths[-first] if -first < len(widths) else 1
        lines.append(" " * (widest + 3 + before) + "^" * max(width, 1))
    return "\n".join(lines)


def placed(rows: Any, offsets: list[int], column: int) -> list[Any]:
    pairs = zip(rows, offsets, strict=True)
    return [(row, k) for row, k in pairs if 0 <= column + k < len(row[1])]


def fits(a: Shape, b: Shape) -> bool:
    """Whether two shapes broadcast."""
    pairs = zip(reversed(a), reversed(b), strict=False)
    return all(m == n or 1 in (m, n) for m, n in pairs)


def shape_text(shape: Any) -> str:
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


# ---------------------------------------------------------------------- products


def multiply(call: Call, match: Match) -> Advice | None:
    """mat1 and mat2 shapes cannot be multiplied (2x4 and 5x3)"""
    if call.name == "linear":
        return linear(call)
    first, second = ("mat1", "mat2") if call.get("mat1") is not None else two_names(call)
    a, b = call.shape(first), call.shape(second)
    if not a or not b:
        return None
    x, y = call.spell(first), call.spell(second)
    axis = max(len(b) - 2, 0)
    fixes = []
    if len(b) > 1 and a[-1] == b[-1]:
        fixes.append(f"transpose the second: {x} @ {y}.mT" if len(b) > 2 else f"{x} @ {y}.T")
    if len(a) > 1 and len(b) > 1 and a[-2] == b[-2]:
        fixes.append(f"transpose the first: {x}.mT @ {y}" if len(a) > 2 else f"{x}.T @ {y}")
    if a == b:
        fixes.append(f"{x} * {y}, if the product is meant element by element")
    elif len(a) > 1 and len(b) > 1 and b[-1] == a[-2]:
        fixes.append(f"the other way round: {y} @ {x}")
    fixes = fixes or [f"make the last size of {x} and the first of {y} equal"]
    what = f"the last size of `{x}`, {a[-1]}, must be the {axis_word(axis)} of `{y}`, {b[axis]}"
    return advice(call, what, fixes, [(first, len(a) - 1), (second, axis)], first)


def axis_word(axis: int) -> str:
    return "first size" if axis == 0 else "second-last size"


def two_names(call: Call) -> tuple[str, str]:
    names = [name for name, _ in call.tensors()]
    return (names[0], names[1]) if len(names) > 1 else ("", "")


def linear(call: Call) -> Advice | None:
    x, weight = call.shape("input"), call.shape("weight")
    if len(weight) != 2 or not x:
        return None
    out, wanted = weight
    got, name = x[-1], call.spell("input")
    flat = math.prod(x[1:])
    layer = f"nn.Linear({{}}, {out})"
    fixes = []
    if len(x) > 2 and flat == wanted:
        fixes.append(f"flatten first: {name}.flatten(1) has shape {shape_text((x[0], flat))}")
    elif len(x) == 4:
        fixes.append(
            f"flatten first and write {layer.format(flat)}: {name}.flatten(1) has {flat} features"
        )
    elif len(x) == 2 and x[0] == wanted:
        fixes.append(f"transpose the input: {name}.T")
    elif len(x) == 1 and wanted == 1:
        fixes.append(f"one feature per row: {name}.unsqueeze(1)")
    if len(x) == 4:
        fixes.append("in a Sequential: nn.Flatten() before the Linear")
    else:
        fixes.append(f"in_features is {wanted}, write {got}: {layer.format(got)}")
    return advice(
        call,
        f"the layer takes {wanted} features in the last dimension, the input has {got}",
        fixes,
        [("input", len(x) - 1), ("weight", 1)],
        "input",
        expected=wanted,
        got=got,
    )


def batched_product(call: Call, match: Match) -> Advice | None:
    """Expected size for first two dimensions of batch2 tensor to be: [4, 3] but got: [4, 2]."""
    if call.name == "scaled_dot_product_attention":
        return attention(call, match)
    first, second = two_names(call)
    a, b = call.shape(first), call.shape(second)
    if len(a) < 2 or len(b) < 2:
        return None
    if len(a) == 3 and len(b) == 3 and a[0] != b[0]:
        x, y = call.spell(first), call.spell(second)
        fixes = [f"give both the same batch size: {a[0]} and {b[0]}"]
        what = f"the batch sizes of `{x}`, {a[0]}, and `{y}`, {b[0]}, differ"
        return advice(call, what, fixes, [(first, 0), (second, 0)], second)
    return multiply(call, match)


def attention(call: Call, match: Match) -> Advice | None:
    """Explain shapes that do not fit inside scaled_dot_product_attention."""
    q, k, v = (call.shape(name) for name in ("query", "key", "value"))
    if not q or not k or not v:
        return None
    if q[-1] != k[-1]:
        what = f"query and key must have the same last size; here {q[-1]} and {k[-1]}"
        fixes = ["project both to the same number of features"]
        return advice(call, what, fixes, [("query", len(q) - 1), ("key", len(k) - 1)], "key")
    what = f"there must be one value for each key; here {k[-2]} keys and {v[-2]} values"
    fixes = ["take keys and values from the same sequence"]
    return advice(call, what, fixes, [("key", len(k) - 2), ("value", len(v) - 2)], "value")


def vector_sizes(call: Call, match: Match) -> Advice | None:
    """size mismatch, got input (2), mat (2x3), vec (4); inconsistent tensor size …"""
    first, second = two_names(call)
    a, b = call.shape(first), call.shape(second)
    if not a or not b:
        return None
    x, y = call.spell(first), call.spell(second)
    fixes = [f"make the last size of {x} and the size of {y} equal"]
    if len(a) == 2 and a[0] == b[0]:
        fixes.insert(0, f"transpose the matrix: {x}.T @ {y}")
    what = f"the last size of `{x}`, {a[-1]}, must be the size of `{y}`, {b[0]}"
    return advice(call, what, fixes, [(first, len(a) - 1), (second, 0)], second)


# ---------------------------------------------------------------------- element by element


def broadcast(call: Call, match: Match) -> Advice | None:
    """The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1"""
    # A product of matrices broadcasts what is before the last two dimensions.
    end = 2 if call.name in ("matmul", "bmm") else 0
    shapes = [(name, batch_part(tuple(t._array.shape), end)) for name, t in call.tensors()]
    pair = next(
        ((p, q) for i, p in enumerate(shapes) for q in shapes[i + 1 :] if not fits(p[1], q[1])),
        None,
    )
    if pair is None:
        return None
    (first, a), (second, b) = pair
    back = next(k for k in range(1, 99) if a[-k] != b[-k] and 1 not in (a[-k], b[-k]))
    if {a[-back], b[-back]} != {int(n) for n in match.groups()}:
        return None
    x, y = call.spell(first), call.spell(second)
    fixes = [f for f in (stretch(y, b, a), stretch(x, a, b)) if f]
    if len(b) == len(a) == 2 and fits(a, b[::-1]):
        fixes.insert(0, f"transpose one of them: {y}.T")
    if not fixes:
        fixes = [f"cut or pad one of them, so that both have {a[-back]} or {b[-back]} there"]
    what = (
        f"counted from the right, sizes must be equal or 1; here {a[-back]} meets {b[-back]} in "
        f"dimension {-back - end}"
    )
    rows: list[tuple[str, int | None]] = [(first, len(a) - back), (second, len(b) - back)]
    found = advice(call, what, fixes, rows, second)
    found.inner = True
    return found


def batch_part(shape: Shape, end: int) -> Shape:
    return shape[:-end] if end else shape


def stretch(name: str, small: Shape, big: Shape) -> str:
    """A way to make `small` broadcast with `big` by dimensions of size 1."""
    if len(small) >= len(big):
        return ""
    for trailing in range(1, len(big) - len(small) + 1):
        shape = small + (1,) * trailing
        if fits(shape, big):
            if trailing == 1:
                return f"{name}.unsqueeze(-1) has shape {shape_text(shape)}, which fits"
            return f"{name}.view{shape_text(shape)} fits"
    for place in range(1, len(small)):
        shape = small[:place] + (1,) + small[place:]
        if fits(shape, big):
            return f"{name}.unsqueeze({place}) has shape {shape_text(shape)}, which fits"
    return ""


def grown(call: Call, match: Match) -> Advice | None:
    """output with shape [3] doesn't match the broadcast shape [2, 3]"""
    first, second = two_names(call)
    if not first or call.get(second) is None:
        return None
    x, y = call.spell(first), call.spell(second)
    a, b = call.shape(first), call.shape(second)
    plain = call.name.rstrip("_")
    return advice(
        call,
        f"an in-place op cannot change the shape {shape_text(a)} of `{x}`",
        [f"out of place: {x} = {x}.{plain}({y}), of shape {match.group(1)}"],
        [(first, None), (second, None)] if a != b else [(first, None)],
        first,
    )


def expanded(call: Call, match: Match) -> Advice | None:
    """The expanded size of the tensor (4) must match the existing size (3) at … dimension 0."""
    want, have, at = (int(g) for g in match.groups())
    if call.name == "setitem":
        what = f"the place has {want} elements in dimension {at}, the value {have}"
        fixes = [f"assign {want} of them, or write to {have} places"]
        return advice(call, what, fixes, [("input", None), ("value", None)], "value")
    what = f"only dimensions of size 1 can be expanded: dimension {at} has {have}, not {want}"
    fixes = [f"{call.spell('input')}.repeat(...) copies the values instead"]
    found = advice(call, what, fixes, [("input", None)], "input")
    found.inner = True
    return found


def masked(call: Call, match: Match) -> Advice | None:
    """The shape of the mask [2] at index 0 does not match the shape of the indexed tensor [3] …"""
    masks = [n for n, t in call.tensors() if n.startswith("index") and t._array.dtype.kind == "b"]
    if not masks:
        return None
    mask, x = call.spell(masks[0]), call.spell("input")
    return advice(
        call,
        f"a mask says yes or no to each element, so it has the shape of `{x}` or its beginning",
        [f"make the mask from {x} itself: {x}[{x} > 0]", f"cut {mask} or {x} to the same length"],
        [("input", int(match.group(1))), (masks[0], int(match.group(1)))],
        masks[0],
    )


# ---------------------------------------------------------------------- another shape


def reshape(call: Call, match: Match) -> Advice | None:
    """shape '[4, 2]' is invalid for input of size 6"""
    asked = [int(n) for n in match.group(1).split(",") if n.strip()]
    size = int(match.group(2))
    x = call.shape("input")
    name = call.spell("input")
    known = math.prod(n for n in asked if n != -1)
    fixes = []
    if len(x) > 1 and len(asked) > 1 and asked[0] in (-1, x[0]):
        if len(asked) == 2:
            fixes.append(f"{name}.flatten(1): {size // x[0]} per row, where {asked[1]} is written")
        else:
            fixes.append(f"the {x[0]} rows have {size // x[0]} elements each: size the rest for it")
    for i in reversed(range(len(asked))):
        rest = known // asked[i] if asked[i] > 0 and -1 not in asked else 0
        if rest and size % rest == 0 and not fixes:
            better = [*asked[:i], size // rest, *asked[i + 1 :]]
            fixes.append(f"{name}.{call.name}{shape_text(better)} has {size} elements")
    fixes = fixes or [f"choose sizes whose product is {size}, or let one of them be -1"]
    what = f"{' x '.join(str(n) for n in asked)} = {known} elements are asked for, there are {size}"
    if -1 in asked:
        what = f"{size} elements cannot be shared out by {known}: -1 would be {size / known:.4g}"
    return advice(call, what, fixes, [("input", None)], "input", asked=asked, size=size)


def not_viewable(call: Call, match: Match) -> Advice | None:
    """view size is not compatible with input tensor's size and stride …"""
    name = call.spell("input")
    return advice(
        call,
        "view() never copies, and the memory of the tensor is in another order (a transpose?)",
        [f"{name}.reshape(...), which copies if it has to", f"{name}.contiguous().view(...)"],
        [("input", None)],
        "input",
    )


# ---------------------------------------------------------------------- lists of tensors


def joined(call: Call, match: Match) -> Advice | None:
    """Sizes of tensors must match except in dimension 0. Expected size 3 but got size 4 for …"""
    dim, want, got, number = (int(g) for g in match.groups())
    group = [name for name, _ in call.tensors()]
    if number >= len(group):
        return None
    a, b = call.shape(group[0]), call.shape(group[number])
    axis = next((i for i, (m, n) in enumerate(zip(a, b, strict=False)) if m != n and i != dim), 0)
    fixes = []
    shapes = [call.shape(name) for name in group]
    for other in range(len(a)):
        rests = {s[:other] + s[other + 1 :] for s in shapes}
        if other != dim and len(rests) == 1:
            fixes.append(f"join along the dimension that differs: torch.cat(..., dim={other})")
    if len(a) == len(b) == 2 and b[1 - axis] == want:
        fixes.append(f"transpose it: {call.spell(group[number])}.T")
    fixes = fixes or [f"give tensor {number} the size {want} in dimension {axis}: cut or pad it"]
    what = f"only dimension {dim} may differ; in dimension {axis} there are {want} and {got}"
    return advice(call, what, fixes, [(group[0], axis), (group[number], axis)], group[number])


def joined_dims(call: Call, match: Match) -> Advice | None:
    """Tensors must have same number of dimensions: got 2 and 1"""
    group = [name for name, _ in call.tensors()]
    other = next((n for n in group if len(call.shape(n)) != len(call.shape(group[0]))), "")
    if not other:
        return None
    a, b = call.shape(group[0]), call.shape(other)
    small = other if len(b) < len(a) else group[0]
    fixes = [f"{call.spell(small)}.unsqueeze(0) adds a dimension in front"]
    what = f"cat joins tensors with the same number of dimensions, here {len(a)} and {len(b)}"
    return advice(call, what, fixes, [(group[0], None), (other, None)], small)


def stacked(call: Call, match: Match) -> Advice | None:
    """stack expects each tensor to be equal size, but got [3] at entry 0 and [4] at entry 1"""
    group = [name for name, _ in call.tensors()]
    number = int(match.group(1))
    if number >= len(group):
        return None
    a, b = call.shape(group[0]), call.shape(group[number])
    fixes = []
    if len(a) == len(b) and a[1:] == b[1:]:
        fixes.append("to put them one after the other: torch.cat(...)")
        fixes.append("to pad them: torch.nn.utils.rnn.pad_sequence(..., batch_first=True)")
    fixes = fixes or ["give all of them the same shape first"]
    axis = None
    if len(a) == len(b):
        axis = next((i for i, (m, n) in enumerate(zip(a, b, strict=True)) if m != n), None)
    what = "stack puts equal shapes into a new dimension"
    return advice(call, what, fixes, [(group[0], axis), (group[number], axis)], group[number])


RULES: dict[str, Rule] = {
    r"^mat1 and mat2 shapes cannot be multiplied": multiply,
    r"^Expected size for first two dimensions of batch2": batched_product,
    r"^size mismatch, got input|^inconsistent tensor size": vector_sizes,
    r"^The size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\)": broadcast,
    r"^output with shape \[.*\] doesn't match the broadcast shape (\[.*\])": grown,
    r"^The expanded size of the tensor \((\d+)\) must match the existing size \((\d+)\) at "
    r"non-singleton dimension (\d+)": expanded,
    r"^The shape of the mask \[.*\] at index (\d+) does not match": masked,
    r"^shape '\[(.*)\]' is invalid for input of size (\d+)": reshape,
    r"^view size is not compatible": not_viewable,
    r"^Sizes of tensors must match except in dimension (\d+)\. Expected size (\d+) but got size "
    r"(\d+) for tensor number (\d+)": joined,
    r"^Tensors must have same number of dimensions": joined_dims,
    r"^stack expects each tensor to be equal size, .* at entry (\d+)$": stacked,
}
