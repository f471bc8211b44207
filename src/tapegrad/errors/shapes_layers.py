"""E09 in layers and losses: the number that is written against the number that is needed."""

from __future__ import annotations

import math

from .calls import Advice, Call, Rule
from .shapes import Match, advice, shape_text, two_names

# ---------------------------------------------------------------------- layers


def channels(call: Call, match: Match) -> Advice | None:
    """… expected input[1, 1, 32, 32] to have 3 channels, but got 1 channels instead"""
    want, got = (int(g) for g in match.groups())
    x, weight = call.shape("input"), call.shape("weight")
    if not x or not weight:
        return None
    name, spatial = call.spell("input"), len(weight) - 2
    kind = type(call.module).__name__ if call.module is not None else f"Conv{spatial}d"
    fixes = []
    if len(x) == spatial + 2 and x[-1] == want:
        order = (0, spatial + 1, *range(1, spatial + 1))
        fixes.append(f"the channels are last: {name}.permute{shape_text(order)}")
    if len(x) == spatial + 1 and x[-1] == want:
        order = (spatial, *range(spatial))
        fixes.append(f"the channels are last: {name}.permute{shape_text(order)}")
    if len(x) == spatial + 1 and want == 1:
        fixes.append(f"add the channel: {name}.unsqueeze(1)")
    out = weight[0] if "transposed" not in match.string else weight[1]
    if not fixes or x[-1] != want:
        fixes.append(f"in_channels is {want}, write {got}: nn.{kind}({got}, {out}, ...)")
    axis = len(x) - spatial - 1
    weight_axis = 1 if "transposed" not in match.string else 0
    return advice(
        call,
        f"the layer takes {want} channels, the input has {got} in dimension {axis}",
        fixes,
        [("input", axis), ("weight", weight_axis)],
        "input",
        expected=want,
        got=got,
    )


def dimensions(call: Call, match: Match) -> Advice | None:
    """Expected 3D (unbatched) or 4D (batched) input to conv2d, but got input of size: [3, 5]"""
    wanted = int(match.group(1))
    x = call.shape("input")
    name = call.spell("input")
    if not x:
        return None
    axes = ("batch", "channels", "depth", "height", "width")
    layout = [*axes[:2], *axes[-(wanted - 2) :]] if wanted > 2 else ["batch", "features"]
    fixes = []
    if len(x) == wanted - 1:
        fixes.append(
            f"add the missing dimension: {name}.unsqueeze(0) for the batch, (1) for channels"
        )
    elif len(x) == 2 and wanted == 4:
        side = math.isqrt(x[1])
        if side * side == x[1]:
            fixes.append(f"rows as images: {name}.view(-1, 1, {side}, {side})")
    elif len(x) > wanted:
        fixes.append(f"join dimensions: {name}.flatten({wanted - 1})")
    fixes.append(f"give it the layout ({', '.join(layout)})")
    what = f"the layer takes {wanted} dimensions ({', '.join(layout)}), the input has {len(x)}"
    return advice(call, what, fixes, [("input", None)], "input")


def too_small(call: Call, match: Match) -> Advice | None:
    """Calculated padded input size per channel: (4 x 4). Kernel size: (5 x 5). …"""
    return advice(
        call,
        "the image has become smaller than the kernel",
        [
            "a smaller kernel_size, or padding=",
            "fewer layers that halve the size before it (stride, pooling), or larger images",
        ],
        [("input", None), ("weight", None)],
        "input",
    )


def features(call: Call, match: Match) -> Advice | None:
    """running_mean should contain 4 elements not 3"""
    got, want = (int(g) for g in match.groups())
    name = "input" if call.get("input") is not None else two_names(call)[0]
    kind = "BatchNorm" if call.module is None else type(call.module).__name__
    return advice(
        call,
        f"the layer was made for {want} channels, the input has {got} in dimension 1",
        [f"num_features is {want}, write {got}: nn.{kind}({got})"],
        [(name, 1)],
        name,
        expected=want,
        got=got,
    )


def normalized(call: Call, match: Match) -> Advice | None:
    """Given normalized_shape=[10], expected input with shape [*, 10], but got input of size…"""
    want = [int(n) for n in match.group(1).split(",")]
    x = call.shape("input")
    got = x[-len(want) :]
    written = got[0] if len(got) == 1 else list(got)
    return advice(
        call,
        f"the layer normalises over {shape_text(want)}, the input ends in {shape_text(got)}",
        [f"write nn.LayerNorm({written}), or normalise another tensor"],
        [("input", len(x) - 1)],
        "input",
    )


def one_value(call: Call, match: Match) -> Advice | None:
    """Expected more than 1 value per channel when training, got input size torch.Size([1, 3])"""
    name = "input" if call.get("input") is not None else two_names(call)[0]
    return advice(
        call,
        "batch normalisation in training mode needs more than one value to take the variance of",
        [
            "a batch with at least 2 rows: DataLoader(..., drop_last=True)",
            "model.eval() when you predict",
        ],
        [(name, 0)],
        name,
    )


def recurrent_input(call: Call, match: Match) -> Advice | None:
    """input.size(-1) must be equal to input_size. Expected 10, got 5"""
    want, got = (int(g) for g in match.groups())
    x = call.shape("input")
    fixes = [f"input_size is {want}, write {got}"]
    if want in x:
        fixes.insert(0, f"put the features last: {want} is in dimension {x.index(want)}")
    rows: list[tuple[str, int | None]] = [("input", len(x) - 1 if x else None)]
    return advice(
        call, f"each step has {got} features, the layer takes {want}", fixes, rows, "input"
    )


# ---------------------------------------------------------------------- losses


def batch_sizes(call: Call, match: Match) -> Advice | None:
    """Expected input batch_size (4) to match target batch_size (3)."""
    x, target = call.shape("input"), call.shape("target")
    if not x or not target:
        return None
    name, label = call.spell("input"), call.spell("target")
    fixes = []
    if math.prod(target) == x[0]:
        fixes.append(f"flatten the labels: {label}.flatten()")
    if len(x) == 2 and x[1] == target[0]:
        fixes.append(f"transpose the scores: {name}.T has shape {shape_text(x[::-1])}")
    if x[0] % target[0] == 0 and len(x) == 2 and not fixes:
        per = x[0] // target[0]
        fixes.append(f"{per} rows of scores per label: {name}.view({target[0]}, -1)?")
    fixes.append("one label for each row of scores: take both from the same batch")
    what = f"{x[0]} rows of scores, {target[0]} labels"
    return advice(call, what, fixes, [("input", 0), ("target", 0)], "target")


def many_labels(call: Call, match: Match) -> Advice | None:
    """0D or 1D target tensor expected, multi-target not supported"""
    target, label = call.shape("target"), call.spell("target")
    fixes = [f"{label}.argmax(1), if it is one-hot"]
    if target[-1:] == (1,):
        fixes = [f"{label}.squeeze(1)"]
    what = (
        f"cross entropy takes one class index per row; the labels have shape {shape_text(target)}"
    )
    return advice(call, what, fixes, [("input", None), ("target", None)], "target")


def label_grid(call: Call, match: Match) -> Advice | None:
    """Expected target size [2, 3], got [2, 5]"""
    x, name = call.shape("input"), call.spell("input")
    target = call.shape("target")
    fixes = []
    if len(x) == 3 and x[:2] == target:
        fixes.append(f"the classes come second: {name}.transpose(1, 2)")
        label = call.spell("target")
        fixes.append(f"flatten both: {name}.flatten(0, 1), {label}.flatten()")
    fixes = fixes or ["scores (batch, classes, ...) and labels (batch, ...)"]
    what = f"scores {shape_text(x)} are read as (batch, classes, ...), labels as (batch, ...)"
    return advice(call, what, fixes, [("input", None), ("target", None)], "target")


def same_size(call: Call, match: Match) -> Advice | None:
    """Target size (torch.Size([4])) must be the same as input size (torch.Size([4, 1]))"""
    x, target = call.shape("input"), call.shape("target")
    name, label = call.spell("input"), call.spell("target")
    fixes = []
    if x == (*target, 1):
        fixes = [f"{name}.squeeze(-1)", f"{label}.unsqueeze(-1)"]
    elif target == (*x, 1):
        fixes = [f"{label}.squeeze(-1)"]
    elif math.prod(x) == math.prod(target):
        fixes = [f"{label}.view_as({name}), if the order is the same"]
    fixes = fixes or ["one target for each output: look at which of them is wrong"]
    what = "this loss compares element by element, so both must have one shape"
    return advice(call, what, fixes, [("input", None), ("target", None)], "target")


# ---------------------------------------------------------------------- one number, one dimension


def one_number(call: Call, match: Match) -> Advice | None:
    """a Tensor with 2 elements cannot be converted to Scalar"""
    names = [name for name, _ in call.tensors()]
    if not names:
        return None
    name = call.spell(names[0])
    fixes = [f"reduce it first: {name}.mean().item() or {name}.sum().item()"]
    fixes.append(f"all of them as Python numbers: {name}.tolist()")
    what = (
        f"only a tensor with one element is one number; `{name}` has {call.get(names[0]).numel()}"
    )
    return advice(call, what, fixes, [(names[0], None)], names[0])


def one_truth(call: Call, match: Match) -> Advice | None:
    """Boolean value of Tensor with more than one value is ambiguous"""
    names = [name for name, _ in call.tensors()]
    if not names:
        return None
    name = call.spell(names[0], "(...)")
    spoken = "the tensor" if name == "(...)" else f"`{name}`"
    fixes = [
        f"say which: {name}.any() or {name}.all()",
        "element by element: & | ~ instead of and, or, not; torch.where instead of if",
    ]
    count = call.get(names[0]).numel()
    what = f"if, and, or, not ask one question; {spoken} has {count} answers"
    return advice(call, what, fixes, [(names[0], None)], names[0])


def no_such_dimension(call: Call, match: Match) -> Advice | None:
    """Dimension out of range (expected to be in range of [-1, 0], but got 1)"""
    names = [name for name, _ in call.tensors()]
    if not names:
        return None
    count, name = len(call.shape(names[0])), call.spell(names[0])
    asked = int(match.group(1))
    fixes = [f"dim={count - 1} or dim=-1 is its last dimension"] if count else []
    if asked == count:
        fixes.append(f"is the batch dimension missing? {name}.unsqueeze(0)")
    plural = "" if count == 1 else "s"
    what = f"`{name}` has {count} dimension{plural}, counted from 0; {asked} was asked for"
    return advice(call, what, fixes or ["it is a scalar"], [(names[0], None)], names[0])


RULES: dict[str, Rule] = {
    r"expected input\[.*\] to have (\d+) channels, but got (\d+) channels": channels,
    r"^Expected \dD \(unbatched\) or (\d)D \(batched\) input": dimensions,
    r"^expected (?:2D or )?(\d)D(?: or \dD)? input \(got \dD input\)": dimensions,
    r"^Calculated padded input size per channel|Output size is too small": too_small,
    r"^running_mean should contain (\d+) elements not (\d+)": features,
    r"^Given normalized_shape=\[(.*?)\]": normalized,
    r"^Expected more than 1 value per channel": one_value,
    r"^input.size\(-1\) must be equal to input_size. Expected (\d+), got (\d+)": recurrent_input,
    r"^Expected input batch_size \(\d+\) to match target batch_size": batch_sizes,
    r"^0D or 1D target tensor expected": many_labels,
    r"^Expected target size \[": label_grid,
    r"^Target size \(.*\) must be the same as input size|^Using a target size": same_size,
    r"^a Tensor with \d+ elements cannot be converted to Scalar|^only one element tensors can be "
    r"converted to Python scalars": one_number,
    r"^Boolean value of Tensor with more than one value is ambiguous": one_truth,
    r"^Dimension out of range \(expected .* but got (-?\d+)\)": no_such_dimension,
}
