"""E09, values beyond the end: an index, a label or a probability outside of what there is."""

from __future__ import annotations

from typing import Any

from .calls import Advice, Call, Rule
from .shapes import Match, advice


def label_range(call: Call, match: Match) -> Advice | None:
    """Target 3 is out of bounds."""
    x, target = call.shape("input"), call.get("target")
    if len(x) < 1 or target is None:
        return None
    classes = x[1] if len(x) > 1 else x[0]
    low, high = int(target._array.min()), int(target._array.max())
    fixes = [f"give the last layer {high + 1} outputs"]
    if low >= 1 and high == classes:
        fixes.insert(0, f"labels begin at 0: {call.spell('target')} - 1")
    what = f"there are {classes} classes, 0 to {classes - 1}; the labels go from {low} to {high}"
    return advice(call, what, fixes, [("input", len(x) - 1)], "target", classes=classes)


def embedding_range(call: Call, match: Match) -> Advice | None:
    """index out of range in self"""
    if call.get("index") is not None:
        return picked_range(call)
    index, rows = call.get("input"), call.shape("weight")
    if index is None or not rows or not index._array.size:
        return None
    low, high = int(index._array.min()), int(index._array.max())
    what = f"the table has {rows[0]} rows, 0 to {rows[0] - 1}; the indices go from {low} to {high}"
    return advice(
        call,
        what,
        [f"num_embeddings is {rows[0]}, write at least {high + 1}"],
        [("weight", 0)],
        "input",
    )


def picked_range(call: Call) -> Advice | None:
    """The sentence about an index out of range of index_select and its kind, which have a
    dimension.
    """
    shape, index, dim = call.shape("input"), call.get("index"), call.values.get("dim")
    if not shape or not isinstance(dim, int) or not index._array.size:
        return None
    size, low, high = shape[dim], int(index._array.min()), int(index._array.max())
    what = f"dimension {dim} has {size} places, 0 to {size - 1}; the indices are {low} to {high}"
    fixes = [f"counting begins at 0, so {size - 1} is the last one; where were they made?"]
    return advice(call, what, fixes, [("input", dim % len(shape))], "index")


def named(call: Call, argument: str) -> str:
    """The name of a tensor in a sentence; "the tensor" if it has none."""
    name = call.spell(argument)
    return "the tensor" if name == argument else f"`{name}`"


def index_range(call: Call, match: Match) -> Advice | None:
    """index 5 is out of bounds for dimension 0 with size 3"""
    names = [name for name, _ in call.tensors()]
    if not names:
        return None
    asked, dim = int(match["index"]), int(match["dim"])
    shape, name = call.shape(names[0]), call.spell(names[0], "x")
    if not shape:
        return no_dimensions(call, names[0])
    size = int(match.groupdict().get("size", shape[dim] if dim < len(shape) else 0))
    same = [i for i, n in enumerate(shape) if n == size]
    # With several indices PyTorch's sentence counts the tensors among them, not the dimensions.
    if dim not in same:
        dim = same[0] if same else dim
    from_end = call.name in ("getitem", "setitem", "select")  # others take no negative ones
    fixes = []
    if size and asked == size:
        fixes.append(f"counting begins at 0: the last one is {size - 1}")
    else:
        fixes += [
            f"dimension {i} has {n}: are the indices in the wrong order?"
            for i, n in enumerate(shape)
            if i != dim and -n <= asked < n
        ][:1]
    index = "index" if call.get("index") is not None else ""
    if index:
        low, high = int(call.get(index)._array.min()), int(call.get(index)._array.max())
        fixes.append(f"the indices go from {low} to {high}: where were they made?")
    else:
        fixes.append(f"in a loop: range({name}.size({dim})), which is {size} here")
    last = f"0 to {size - 1}" + f", or -{size} to -1 from the end" * from_end
    last = last if size else "it is empty"
    places = "1 place" if size == 1 else f"{size} places"
    what = f"dimension {dim} of {named(call, names[0])} has {places}, {last}; {asked} was asked for"
    axis = dim if dim < len(shape) else None
    return advice(call, what, fixes, [(names[0], axis)], names[0], index=asked, size=size)


def no_dimensions(call: Call, tensor: str) -> Advice:
    name = call.spell(tensor, "x")
    what = f"{named(call, tensor)} is one number, it has no dimensions to index"
    return advice(call, what, [f"{name}.item() is the number"], [(tensor, None)], tensor)


def scalar_index(call: Call, match: Match) -> Advice | None:
    """invalid index of a 0-dim tensor. Use `tensor.item()` …"""
    names = [name for name, _ in call.tensors()]
    return no_dimensions(call, names[0]) if names else None


def too_many(call: Call, match: Match) -> Advice | None:
    """too many indices for tensor of dimension 1"""
    names = [name for name, _ in call.tensors()]
    if not names:
        return None
    count, name = len(call.shape(names[0])), call.spell(names[0], "x")
    dims = "1 dimension" if count == 1 else f"{count} dimensions"
    fixes = [f"at most {count} between the brackets"]
    if count:
        fixes.append(f"is a dimension missing? {name}.unsqueeze(0) adds one in front")
    what = f"{named(call, names[0])} has {dims}, each takes one index"
    return advice(call, what, fixes, [(names[0], None)], names[0])


def unit_range(call: Call, match: Match) -> Advice | None:
    """all elements of target should be between 0 and 1"""
    which = match.group(1)
    t = call.get(which)
    if t is None or not t._array.size:
        return None
    name, values = call.spell(which), t.detach().float()
    facts: dict[str, Any] = {"low": values.min().item(), "high": values.max().item()}
    spread = f"here they go from {facts['low']:.4g} to {facts['high']:.4g}"
    if which == "input":
        what = f"binary cross entropy takes probabilities; {spread}"
        fixes = [
            f"raw scores: F.binary_cross_entropy_with_logits({name}, ...), or nn.BCEWithLogitsLoss",
            f"torch.sigmoid({name}) makes probabilities of scores",
        ]
    else:
        what = f"the targets of binary cross entropy are 0, 1 or probabilities between; {spread}"
        whole = bool((values == values.round()).all())
        fixes = [f"scale them: {name} / {facts['high']:.4g}"]
        if whole and facts["low"] == -1 and facts["high"] == 1:
            fixes = [f"-1 and 1 become 0 and 1: ({name} + 1) / 2"]
        elif whole and facts["low"] == 1 and facts["high"] == 2:
            fixes = [f"1 and 2 become 0 and 1: {name} - 1"]
        elif whole:
            fixes = ["class numbers: nn.CrossEntropyLoss, with one output per class", *fixes]
    if facts["low"] != facts["low"] or facts["high"] != facts["high"]:
        what = f"{named(call, which)} has NaN in it, which is in no range"
        fixes = ["torch.autograd.set_detect_anomaly(True) finds where the first NaN comes from"]
    return advice(call, what, fixes, [], which, **facts)


RULES: dict[str, Rule] = {
    r"^Target -?\d+ is out of bounds": label_range,
    r"^index out of range in self": embedding_range,
    r"index (?P<index>-?\d+) is out of bounds for dimension (?P<dim>\d+) with size (?P<size>\d+)": (
        index_range
    ),
    r"^select\(\): index (?P<index>-?\d+) out of range for tensor of size \[.*\] at dimension "
    r"(?P<dim>\d+)": index_range,
    r"^INDICES element is out of DATA bounds": embedding_range,
    r"^invalid index of a 0-dim tensor": scalar_index,
    r"^too many indices for tensor of dimension": too_many,
    r"^all elements of (input|target) should be between 0 and 1": unit_range,
}
