"""E09 and E10: sizes, dtypes, lists and data that functions cannot take, and what to write."""

from __future__ import annotations

from .calls import Advice, Call, Rule
from .shapes import Match, advice


def whole_sizes(call: Call, match: Match) -> Advice | None:
    """zeros(): argument 'size' (position 1) must be tuple of ints, not float; and relatives"""
    # Sizes one by one have no parameters of their own.
    named = [v for k, v in call.values.items() if k not in call.keywords or k == "size"]
    given = [*named, *call.rest]
    flat = [n for v in given for n in (v if isinstance(v, (list, tuple)) else [v])]
    odd = next((v for v in flat if isinstance(v, (float, str))), None)
    if odd is None:
        return None
    if isinstance(odd, str):
        what, fixes = f"a size is a whole number, and {odd!r} is text", [f"int({odd!r})"]
    else:
        what = f"a size is a whole number, and {odd!r} is a float"
        fixes = ["a quotient: n // 2 in the place of n / 2 stays a whole number", f"int({odd!r})"]
    return advice(call, what, fixes, [])


def named_dtype(call: Call, match: Match) -> Advice | None:
    """zeros(): argument 'dtype' must be torch.dtype, not str"""
    given = call.values.get("dtype")
    name = given.removeprefix("torch.") if isinstance(given, str) else ""
    text = f"torch.{name}" if name.isidentifier() else "torch.float32"
    what = "dtypes are objects of the module, not text"
    if not isinstance(given, str):
        what = "dtypes are torch's; NumPy's have the same names there"
    return advice(call, what, [f"dtype={text}"], [])


def list_wanted(call: Call, match: Match) -> Advice | None:
    """cat(): argument 'tensors' (position 1) must be tuple of Tensors, not Tensor"""
    names = [call.spell(name) for name, _ in call.tensors()]
    if not names:
        return None
    if len(names) == 1:
        names.append("...")
    fixes = [f"put them into a list: torch.{call.name}([{', '.join(names)}])"]
    what = f"{call.name} joins the tensors of a list"
    return advice(call, what, fixes, [(name, None) for name, _ in call.tensors()])


def no_array(call: Call, match: Match) -> Advice | None:
    """expected np.ndarray (got list)"""
    what = f"from_numpy shares the memory of an array, and this is a {match['kind']}"
    fixes = ["make a tensor of the values: torch.tensor(values)"]
    if match["kind"] == "Tensor":
        fixes = ["it is a tensor already"]
    return advice(call, what, fixes, [])


def no_numbers(call: Call, match: Match) -> Advice | None:
    """can't convert np.ndarray of type numpy.object_. The only supported types are: …"""
    if match["kind"] == "object_":
        what = "the array holds Python objects, mostly because its rows have different lengths"
        fixes = [
            "pad the rows to one length, or keep a list of tensors",
            "if each entry is a number: array.astype(np.float32)",
        ]
    else:
        what = f"a tensor holds numbers, and the array's dtype is {match['kind'].rstrip('_')}"
        fixes = [
            "numbers written as text: array.astype(np.float32)",
            "words or classes: number them, np.unique(array, return_inverse=True)[1]",
        ]
    return advice(call, what, fixes, [])


def no_value(call: Call, match: Match) -> Advice | None:
    """Could not infer dtype of NoneType"""
    kind = match["kind"]
    if kind == "NoneType":
        what, fix = "there is a None among the data", 'a missing value is float("nan")'
    else:
        what = f"there is a {kind} among the data, which is no number"
        fix = "take the numbers out of it first, or make lists of them"
    return advice(call, what, [fix], [])


def no_matrix(call: Call, match: Match) -> Advice | None:
    """mat2 must be a matrix; batch1 must be a 3D tensor"""
    pair = [name for name, t in call.tensors() if name in FACTORS]
    if len(pair) < 2:
        return None
    a, b = pair[-2:]
    count = 3 if "3D" in match.string else 2
    odd = a if len(call.shape(a)) != count else b
    shape = "(batch, rows, columns)" if count == 3 else "(rows, columns)"
    what = f"{call.name} takes tensors of {count} dimensions {shape}; `{call.spell(odd)}` has "
    fixes = [f"{call.spell(a)} @ {call.spell(b)} takes any number of dimensions (torch.matmul)"]
    return advice(call, what + str(len(call.shape(odd))), fixes, [(a, None), (b, None)], odd)


FACTORS = ("input", "self", "mat1", "mat2", "batch1", "batch2", "other")


def wrong_order(call: Call, match: Match) -> Advice | None:
    """permute(sparse_coo): number of dimensions in the tensor input does not match …"""
    count, name = int(match["count"]), call.spell("input")
    order = ", ".join(str(d) for d in [*range(count - 2), count - 1, count - 2])
    fixes = [f"{name}.permute({order})"] if count > 1 else []
    fixes.append(f"to swap two of them: {name}.transpose(dim0, dim1)")
    what = f"permute takes all dimensions in their new order; `{name}` has {count}"
    return advice(call, what, fixes, [("input", None)])


TYPES: dict[str, Rule] = {
    r"argument 'size'.* must be tuple of ints|argument 'size' failed to unpack": whole_sizes,
    r"^\w+\(\) takes 1 positional argument but": whole_sizes,
    r"argument 'dtype' must be torch.dtype, not": named_dtype,
    r"must be tuple of Tensors, not \w*(?:Tensor|Parameter)$": list_wanted,
    r"^expected np.ndarray \(got (?P<kind>[\w.]+)\)": no_array,
    r"^can't convert np.ndarray of type numpy\.(?P<kind>\w+)": no_numbers,
    r"^Could not infer dtype of (?P<kind>\w+)": no_value,
}
SHAPES: dict[str, Rule] = {
    r"^(?:self|mat1|mat2) must be a matrix|^batch[12] must be a 3D tensor": no_matrix,
    r"^permute.*number of dimensions in the tensor input .*input\.dim\(\) = (?P<count>\d+)": (
        wrong_order
    ),
}
