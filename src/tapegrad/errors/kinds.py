"""E10: tensors of the wrong dtype, or on different devices: which argument, and the conversion."""

from __future__ import annotations

import re
from typing import Any

from .calls import Advice, Call, Rule
from .evidence import is_module

Match = re.Match[str]

# How a dtype is written as a method.
METHODS = {
    "torch.float32": "float()",
    "torch.float64": "double()",
    "torch.float16": "half()",
    "torch.bfloat16": "bfloat16()",
    "torch.int64": "long()",
    "torch.int32": "int()",
    "torch.bool": "bool()",
}
FLOATS = ("torch.float16", "torch.bfloat16", "torch.float32", "torch.float64")


def advice(
    call: Call,
    what: str,
    fixes: list[str],
    names: list[str],
    tensor: str | None = None,
    **facts: Any,
) -> Advice:
    """`names` are the arguments whose dtypes (and devices) are shown."""
    shown = [name for name in names if call.get(name) is not None]
    listed = ", ".join(f"{call.label(name)} is {tensor_kind(call.get(name))}" for name in shown)
    facts = {"dtypes": {name: str(call.get(name).dtype) for name in shown}, **facts}
    return Advice(what, fixes[:3], [("dtypes", listed)] if listed else [], facts, tensor)


def tensor_kind(t: Any) -> str:
    device = str(t.device)
    return f"{t.dtype}" if device == "cpu" else f"{t.dtype} on {device}"


def convert(name: str, dtype: str) -> str:
    return f"{name}.{METHODS.get(dtype, f'to({dtype})')}"


def odd_one(call: Call, names: list[str]) -> tuple[str, str]:
    """The argument to convert, and the dtype: data follows parameters, then the majority."""
    kinds = {name: str(call.get(name).dtype) for name in names}
    fixed = [name for name in names if is_parameter(call.get(name))]
    wanted = kinds[fixed[0]] if fixed else ""
    if not wanted:
        counts = list(kinds.values())
        common = max(counts, key=lambda kind: (counts.count(kind), kind in FLOATS))
        wanted = "torch.float32" if "torch.float32" in counts else common
    odd = next((n for n in names if kinds[n] != wanted and n not in fixed), names[0])
    return odd, wanted


def is_parameter(t: Any) -> bool:
    return type(t).__name__ == "Parameter"


def same_dtype(call: Call, match: Match) -> Advice | None:
    """expected m1 and m2 to have the same dtype, but got: float != double; and relatives"""
    names = [n for n, t in call.tensors() if n in OPERANDS or n.startswith("tensors[")]
    if len({str(call.get(n).dtype) for n in names}) < 2:
        names = [n for n, _ in call.tensors()]
    if len({str(call.get(n).dtype) for n in names}) < 2:
        return module_dtype(call)
    odd, wanted = odd_one(call, names)
    name, other = call.spell(odd), next(n for n in names if str(call.get(n).dtype) == wanted)
    fixes = [f"convert it: {convert(name, wanted)}"]
    kind = str(call.get(odd).dtype)
    if kind == "torch.float64":
        fixes.append("NumPy's numbers are float64: torch.tensor(array, dtype=torch.float32)")
    elif kind in FLOATS and call.module is not None and is_parameter(call.get(other)):
        fixes.append(f"convert the model: model.{METHODS[kind]}")
    what = f"`{name}` is {kind}, but {call.label(other)} is {wanted}: this op does not convert"
    return advice(call, what, fixes, names, odd)


OPERANDS = (
    *(
        "left",
        "right",
        "input",
        "other",
        "mat1",
        "mat2",
        "self",
        "weight",
        "bias",
        "tensor",
        "vec",
        "mat",
    ),
    *("batch1", "batch2", "query", "key", "value", "source", "src", "values", "target"),
)


def module_dtype(call: Call) -> Advice | None:
    """A layer whose input has another dtype than its parameters."""
    module = call.module
    if module is None or not is_module(module):
        return None
    weight = next(iter(module.parameters()), None)
    data = next((n for n, t in call.tensors() if not is_parameter(t)), None)
    if weight is None or data is None or weight.dtype == call.get(data).dtype:
        return None
    call.values["weight"] = weight
    return same_dtype(call, re.match("", ""))  # type: ignore[arg-type]


def labels(call: Call, match: Match) -> Advice | None:
    """expected target dtype to be Long or Byte, but got Float"""
    target, label = call.get("target"), call.spell("target")
    if target is None:
        return None
    kind = str(target.dtype)
    fixes = [f"{label}.long()", "make them so: torch.tensor(labels, dtype=torch.long)"]
    if kind in FLOATS:
        fixes.append("for a regression: nn.MSELoss")
    what = f"the labels are {kind}; class indices must be torch.int64"
    return advice(call, what, fixes, ["input", "target"], "target")


def probabilities(call: Call, match: Match) -> Advice | None:
    """Expected floating point type for target with class probabilities, got Long"""
    label = call.spell("target")
    return advice(
        call,
        "labels of the same shape as the scores are read as probabilities, which are floats",
        [f"one-hot labels: {label}.float()", f"class indices: {label}.argmax(1)"],
        ["input", "target"],
        "target",
    )


def float_target(call: Call, match: Match) -> Advice | None:
    """Found dtype Long but expected Float"""
    label, x = call.spell("target"), call.get("input")
    if call.get("target") is None or x is None:
        return same_dtype(call, match)
    wanted = str(x.dtype)
    return advice(
        call,
        f"this loss computes with its target, which must be {wanted} as the output is",
        [convert(label, wanted)],
        ["input", "target"],
        "target",
    )


def scalar_types(call: Call, match: Match) -> Advice | None:
    """expected scalar type Long but found Float"""
    target = call.get("target")
    if match.group(1) == "Long" and target is not None:
        return labels(call, match)
    return same_dtype(call, match)


def indices(call: Call, match: Match) -> Advice | None:
    """Indices that are not integers: embedding, one_hot, gather, x[...] …"""
    names = [n for n, t in call.tensors() if t._array.dtype.kind not in "iub" and n != "weight"]
    preferred = [n for n in names if n.startswith(("index", "indices", "target"))]
    found = preferred or ([n for n in names if n == "input"] if len(names) == 1 else names[-1:])
    if not found:
        return None
    name = call.spell(found[0])
    fixes = [f"{name}.long()"]
    if call.name == "getitem":
        fixes.append("a mask is made by a comparison: x[x > 0]")
    else:
        fixes.append("make it so: torch.tensor(..., dtype=torch.long)")
    what = f"indices count places, so they must be integers; `{name}` is {call.get(found[0]).dtype}"
    return advice(call, what, fixes, [n for n, _ in call.tensors()], found[0])


def cannot_hold(call: Call, match: Match) -> Advice | None:
    """result type Float can't be cast to the desired output type Long"""
    names = [n for n, _ in call.tensors()]
    if not names:
        return None
    target = "target" if call.get("target") is not None else names[0]
    name, kind = call.spell(target), call.get(target).dtype
    wanted = match.group(1)
    if not call.name.endswith("_"):
        return advice(
            call,
            f"{call.name} computes in {wanted.lower()}, but `{name}` is {kind}",
            [f"{name}.float()"],
            names,
            target,
        )
    plain = call.name.rstrip("_")
    found = advice(
        call,
        f"`{name}` is {kind} and cannot hold the result, which is {wanted.lower()}",
        [
            f"make it floating first: {name} = {name}.float()",
            f"out of place: {name} = {name}.{plain}(...)",
        ],
        names,
        target,
    )
    found.inner = True
    return found


def wants_floats(call: Call, match: Match) -> Advice | None:
    """mean(): could not infer output dtype … ; std and var only support floating point …"""
    names = [n for n, _ in call.tensors()]
    if not names:
        return None
    name = call.spell(names[0])
    return advice(
        call,
        f"`{name}` is {call.get(names[0]).dtype}; this is computed with floating point numbers",
        [f"{name}.float()"],
        names[:1],
        names[0],
    )


def wants_grad(call: Call, match: Match) -> Advice | None:
    """only Tensors of floating point dtype can require gradients"""
    names = [n for n, _ in call.tensors()]
    fixes = ["write the numbers with a point, 1.0 for 1, or pass dtype=torch.float32"]
    if names:
        fixes = [f"{call.spell(names[0])}.float().requires_grad_()", *fixes]
    what = "a gradient is a small change, and there is none for integers and booleans"
    return advice(call, what, fixes, names[:1], names[0] if names else None)


def wants_bool(call: Call, match: Match) -> Advice | None:
    """where expected condition to be a boolean tensor; masked_fill_ only supports boolean masks"""
    name = "condition" if call.get("condition") is not None else "mask"
    mask = call.spell(name)
    return advice(
        call,
        f"`{mask}` must say yes or no for each element",
        [f"{mask}.bool(), or a comparison such as {mask} > 0"],
        [name],
        name,
    )


def same_device(call: Call, match: Match) -> Advice | None:
    """Expected all tensors to be on the same device, but found at least two devices, …"""
    places = {name: str(t.device) for name, t in call.tensors()}
    if len(set(places.values())) < 2:
        return None
    fixed = [name for name in places if is_parameter(call.get(name))]
    wanted = places[fixed[0]] if fixed else next(p for p in places.values() if p != "cpu")
    if "meta" in places.values():
        name = call.spell(next(n for n in places if places[n] == "meta"))
        what = f"`{name}` is on the meta device, where tensors have a shape and no values"
        fixes = [f'make it with values: torch.zeros(..., device="{other_than_meta(places)}")']
        return advice(call, what, fixes, list(places), None, devices=places)
    odd = next(name for name in places if places[name] != wanted)
    name = call.spell(odd)
    fixes = [f'move it: {name} = {name}.to("{wanted}")']
    if fixed:
        fixes.append(
            f'move the model once, before the optimizer is made: model.to("{places[odd]}")'
        )
    fixes.append(f'make it there: torch.zeros(..., device="{wanted}")')
    what = f"`{name}` is on {places[odd]}, the others on {wanted}"
    return advice(call, what, fixes, list(places), odd, devices=places)


def other_than_meta(places: dict[str, str]) -> str:
    return next((p for p in places.values() if p != "meta"), "cpu")


def no_tensor(call: Call, match: Match) -> Advice | None:
    """linear(): argument 'input' (position 1) must be Tensor, not list"""
    kind = match["kind"]
    convert = {
        "list": "torch.tensor(values)",
        "tuple": "torch.tensor(values)",
        "numpy.ndarray": "torch.from_numpy(array), which shares its memory",
    }.get(kind)
    if convert is None:
        return None
    fixes = [f"make it one first: {convert}"]
    if kind == "numpy.ndarray":
        fixes.append("NumPy's numbers are float64: torch.tensor(array, dtype=torch.float32)")
    return advice(call, f"`{match['argument']}` is a {kind}, no tensor", fixes, [])


def no_such_device(call: Call, match: Match) -> Advice | None:
    """Expected one of cpu, cuda, … device type at start of device string: gpu"""
    what = f"there is no kind of device called {match[1]!r}"
    fixes = ['NVIDIA GPUs are "cuda": .to("cuda"), or .to("cuda:1") for the second one']
    return advice(call, what, [*fixes, 'this machine\'s processor is "cpu"'], [], None)


RULES: dict[str, Rule] = {
    r"'(?P<argument>\w+)' \(position \d+\) must be Tensor, not (?P<kind>[\w.]+)$": no_tensor,
    r"device type at start of device string: (\w+)": no_such_device,
    r"^Expected all tensors to be on the same device": same_device,
    r"^Tensor on device \S+ is not on the expected device": same_device,
    r"expected (?:m1 and m2|both vectors) to have (?:the )?same dtype": same_dtype,
    r"must have the same dtype, but got": same_dtype,
    r"^(?:Input|Bias) type \(.*\) and (?:weight|bias) type \(.*\) should be the same": same_dtype,
    r"^mixed dtype \(CPU\)|^RNN input dtype": same_dtype,
    r"^Index put requires the source and destination dtypes match": same_dtype,
    r"Expected self.dtype to be equal to src.dtype": same_dtype,
    r"^expected target dtype to be Long or Byte": labels,
    r"^Expected floating point type for target with class probabilities": probabilities,
    r"^Found dtype (\w+) but expected (\w+)": float_target,
    r"^expected scalar type (\w+) but found (\w+)": scalar_types,
    r"argument #\d 'indices' to have one of the following scalar types": indices,
    r"^one_hot is only applicable to index tensor": indices,
    r"^tensors used as indices must be": indices,
    r"Expected dtype int32(?:/| or )int64 for index|Expected a long tensor for index": indices,
    r"^result type (\w+) can't be cast to the desired output type": cannot_hold,
    r"could not infer output dtype|^std and var only support floating": wants_floats,
    r"^[oO]nly Tensors of floating point (?:and complex )?dtype can require gradients": wants_grad,
    r"only supports boolean masks|expected condition to be a boolean": wants_bool,
}
