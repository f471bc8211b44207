"""Translations of ops on elements, shapes, indices and sums."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.base import TensorBase
from .graph import Graph, Value, translates, unsupported
from .recording import Step
from .sizes import Size

FAR = int(np.iinfo(np.int64).max)
LOG_2 = float(np.log(2.0))


def given(g: Graph, step: Step, i: int = 0) -> Value:
    """A tensor argument."""
    return g.value(step.tensors[i])


def result_dtype(step: Step, i: int = 0) -> Any:
    return step.results[i]._array.dtype


def operand(g: Graph, step: Step, i: int, dtype: Any) -> Value:
    """An argument that is a tensor or a number, in a dtype."""
    t = step.tensors[i]
    return g.cast(g.value(t) if isinstance(t, TensorBase) else t, dtype)


def operands(g: Graph, step: Step, dtype: Any = None) -> list[Value]:
    dtype = result_dtype(step) if dtype is None else dtype
    return [operand(g, step, i, dtype) for i in range(len(step.tensors))]


# ---------------------------------------------------------------------- elements

SAME_NAME = {
    **{name: name.capitalize() for name in "abs ceil exp floor log neg reciprocal round".split()},
    **{name: name.capitalize() for name in "sigmoid sign sin cos tan sqrt tanh erf relu".split()},
    **{name: name.capitalize() for name in "asin acos atan sinh cosh asinh acosh atanh".split()},
    **{"mish": "Mish", "hardswish": "HardSwish", "bitwise_not": "Not", "logical_not": "Not"},
}


@translates(*SAME_NAME)
def one_operand(g: Graph, step: Step) -> Any:
    kind = SAME_NAME[step.name]
    if step.name == "bitwise_not" and result_dtype(step) != np.bool_:
        raise unsupported(step, g.opset)
    dtype = np.bool_ if kind == "Not" else result_dtype(step)
    return g.op(kind, g.cast(given(g, step), dtype))


TWO_OPERANDS = {"add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "pow": "Pow"}
TWO_OPERANDS |= {"maximum": "Max", "minimum": "Min", "pow_scalar": "Pow", "add_number": "Add"}
TWO_OPERANDS |= {"add_alpha": "Add", "sub_alpha": "Sub"}
TWO_OPERANDS |= {"mul_number": "Mul", "sub_number": "Sub", "div_number": "Div"}


@translates(*TWO_OPERANDS)
def two_operands(g: Graph, step: Step) -> Any:
    values = operands(g, step)
    number = step.attrs.get("number", step.attrs.get("exponent"))
    if number is not None:
        values.append(g.cast(number, result_dtype(step)))
    alpha = step.attrs.get("alpha", 1)
    if alpha != 1:
        scaled = g.op("Mul", values[1], g.number(alpha, result_dtype(step)))
        values[1] = Value(scaled, result_dtype(step), values[1].shape)
    return g.op(TWO_OPERANDS[step.name], *values)


COMPARISONS = {"eq": "Equal", "gt": "Greater", "lt": "Less"}
COMPARISONS |= {"ge": "GreaterOrEqual", "le": "LessOrEqual", "ne": "Equal"}


@translates(*COMPARISONS)
def comparison(g: Graph, step: Step) -> Any:
    from .. import result_type

    kept = [t.item() if isinstance(t, np.generic) else t for t in step.tensors]
    dtype = result_type(*kept).np
    if dtype == np.bool_ and step.name not in ("eq", "ne"):
        dtype = np.dtype(np.int32)
    made = g.op(COMPARISONS[step.name], *operands(g, step, dtype))
    return g.op("Not", made) if step.name == "ne" else made


LOGIC = {"bitwise_and": "And", "bitwise_or": "Or", "bitwise_xor": "Xor"}
LOGIC |= {name.replace("bitwise", "logical"): kind for name, kind in LOGIC.items()}


@translates(*LOGIC)
def logic(g: Graph, step: Step) -> Any:
    if result_dtype(step) != np.bool_:
        raise unsupported(step, g.opset)
    return g.op(LOGIC[step.name], *operands(g, step, np.bool_))


@translates("rsub_scalar")
def reversed_difference(g: Graph, step: Step) -> Any:
    dtype = result_dtype(step)
    taken = operand(g, step, 0, dtype)
    if step.attrs["alpha"] != 1:
        taken = g.op("Mul", taken, g.number(step.attrs["alpha"], dtype))
    return g.op("Sub", g.cast(step.attrs["number"], dtype), taken)


@translates("rsqrt")
def inverse_root(g: Graph, step: Step) -> Any:
    return g.op("Reciprocal", g.op("Sqrt", operand(g, step, 0, result_dtype(step))))


@translates("square")
def square(g: Graph, step: Step) -> Any:
    return g.op("Mul", given(g, step), given(g, step))


@translates("silu")
def silu(g: Graph, step: Step) -> Any:
    x = given(g, step)
    return g.op("Mul", x, g.op("Sigmoid", x))


@translates("gelu")
def gelu(g: Graph, step: Step) -> Any:
    x, dtype = given(g, step), result_dtype(step)
    half, one = g.number(0.5, dtype), g.number(1, dtype)
    if step.attrs["approximate"] == "tanh":
        cube = g.op("Mul", g.op("Mul", g.op("Mul", x, x), x), g.number(0.044715, dtype))
        inner = g.op("Mul", g.op("Add", x, cube), g.number(np.sqrt(2 / np.pi), dtype))
        inner = g.op("Tanh", inner)
    else:
        inner = g.op("Erf", g.op("Div", x, g.number(np.sqrt(2.0), dtype)))
    return g.op("Mul", g.op("Mul", x, half), g.op("Add", inner, one))


@translates("leaky_relu")
def leaky_relu(g: Graph, step: Step) -> Any:
    return g.op("LeakyRelu", given(g, step), alpha=float(step.attrs["slope"]))


@translates("prelu_kernel")
def prelu(g: Graph, step: Step) -> Any:
    x, slope = given(g, step), given(g, step, 1)
    low = g.op("Min", x, g.number(0, x.dtype))
    return g.op("Add", g.op("Relu", x), g.op("Mul", low, slope))


@translates("elu", "celu", "selu")
def elu(g: Graph, step: Step) -> Any:
    """scale * (x > 0 ? x : alpha * (exp(x * input_scale) - 1))"""
    x, dtype, attrs = given(g, step), result_dtype(step), step.attrs
    low = g.op("Min", g.op("Mul", x, g.number(attrs["input_scale"], dtype)), g.number(0, dtype))
    curve = g.op("Sub", g.op("Exp", low), g.number(1, dtype))
    made = g.op("Add", g.op("Relu", x), g.op("Mul", curve, g.number(attrs["alpha"], dtype)))
    return g.op("Mul", made, g.number(attrs["scale"], dtype))


@translates("softplus")
def softplus(g: Graph, step: Step) -> Any:
    x, dtype = given(g, step), result_dtype(step)
    beta = g.number(step.attrs["beta"], dtype)
    return g.op("Div", g.op("Softplus", g.op("Mul", x, beta)), beta)


@translates("log_sigmoid", "log_sigmoid_forward")
def log_sigmoid(g: Graph, step: Step) -> Any:
    return g.op("Neg", g.op("Softplus", g.op("Neg", given(g, step))))


@translates("hardsigmoid")
def hard_sigmoid(g: Graph, step: Step) -> Any:
    return g.op("HardSigmoid", given(g, step), alpha=1 / 6, beta=0.5)


@translates("hardtanh", "clamp_scalar", "clamp_min_scalar", "clamp_max_scalar")
def clamped(g: Graph, step: Step) -> Any:
    dtype = result_dtype(step)
    bounds = [step.attrs.get("low"), step.attrs.get("high")]
    names = [None if b is None else g.number(b, dtype) for b in bounds]
    return g.op("Clip", g.cast(given(g, step), dtype), *names)


@translates("clamp_min", "clamp_max")
def clamped_by_tensors(g: Graph, step: Step) -> Any:
    return g.op("Max" if step.name == "clamp_min" else "Min", *operands(g, step))


@translates("glu")
def gated(g: Graph, step: Step) -> Any:
    dim = step.attrs["dim"]
    a, b = g.op("Split", given(g, step), outputs=2, axis=dim, num_outputs=2)
    return g.op("Mul", a, g.op("Sigmoid", b))


@translates("trunc")
def truncated(g: Graph, step: Step) -> Any:
    x = given(g, step)
    return g.op("Mul", g.op("Sign", x), g.op("Floor", g.op("Abs", x)))


@translates("isnan")
def is_nan(g: Graph, step: Step) -> Any:
    return g.op("IsNaN", given(g, step))


@translates("log1p", "expm1", "log2", "log10", "exp2")
def near_one(g: Graph, step: Step) -> Any:
    x, dtype = operand(g, step, 0, result_dtype(step)), result_dtype(step)
    one = g.number(1, dtype)
    if step.name == "log1p":
        return g.op("Log", g.op("Add", x, one))
    if step.name == "expm1":
        return g.op("Sub", g.op("Exp", x), one)
    if step.name == "exp2":
        return g.op("Exp", g.op("Mul", x, g.number(LOG_2, dtype)))
    base = np.log(2.0 if step.name == "log2" else 10.0)
    return g.op("Div", g.op("Log", x), g.number(base, dtype))


@translates("floor_divide", "remainder", "remainder_scalar", "fmod", "fmod_scalar")
def whole_parts(g: Graph, step: Step) -> Any:
    dtype = result_dtype(step)
    a = operand(g, step, 0, dtype)
    b = operand(g, step, 1, dtype) if len(step.tensors) > 1 else g.cast(step.attrs["number"], dtype)
    if step.name.startswith("fmod"):
        return g.op("Mod", a, b, fmod=1)
    if dtype.kind in "iu":
        rest = g.op("Mod", a, b)
        return rest if step.name != "floor_divide" else g.op("Div", g.op("Sub", a, rest), b)
    quotient = g.op("Floor", g.op("Div", a, b))
    if step.name == "floor_divide":
        return quotient
    return g.op("Sub", a, g.op("Mul", quotient, b))


@translates("where")
def where(g: Graph, step: Step) -> Any:
    dtype = result_dtype(step)
    condition = g.cast(given(g, step), np.bool_)
    return g.op("Where", condition, operand(g, step, 1, dtype), operand(g, step, 2, dtype))


@translates("masked_fill", "masked_fill_tensor")
def masked_fill(g: Graph, step: Step) -> Any:
    dtype = result_dtype(step)
    value = step.attrs.get("value")
    filled = operand(g, step, 2, dtype) if value is None else g.number(value, dtype)
    return g.op("Where", given(g, step, 1), filled, given(g, step))


@translates("addcmul", "addcdiv")
def add_product(g: Graph, step: Step) -> Any:
    x, a, b = operands(g, step)
    made = g.op("Mul" if step.name == "addcmul" else "Div", a, b)
    return g.op("Add", x, g.op("Mul", made, g.number(step.attrs["value"], result_dtype(step))))


@translates("lerp_scalar", "lerp")
def lerp(g: Graph, step: Step) -> Any:
    dtype = result_dtype(step)
    start, end = operand(g, step, 0, dtype), operand(g, step, 1, dtype)
    weight = step.attrs.get("weight")
    factor = operand(g, step, 2, dtype) if weight is None else g.number(weight, dtype)
    return g.op("Add", start, g.op("Mul", g.op("Sub", end, start), factor))


@translates("cast")
def cast(g: Graph, step: Step) -> Any:
    made = g.cast(given(g, step), result_dtype(step))
    return g.op("Identity", made)


@translates("copy")
def copied(g: Graph, step: Step) -> Any:
    x, source = given(g, step), operand(g, step, 1, result_dtype(step))
    return source.name if source.shape == x.shape else g.op("Expand", source, g.sizes(x.shape))


@translates("fill_number", "fill", "fill_tensor")
def filled(g: Graph, step: Step) -> Any:
    shape, dtype = given(g, step).shape, result_dtype(step)
    if step.name == "fill_tensor":
        return g.op("Expand", operand(g, step, 1, dtype), g.sizes(shape))
    return full(g, shape, next(iter(step.attrs.values())), dtype)


# ---------------------------------------------------------------------- new tensors


def full(g: Graph, dims: Any, number: Any, dtype: Any) -> str:
    return g.op("Expand", g.number(number, dtype), g.sizes(dims))  # type: ignore[no-any-return]


@translates("aten::zeros", "aten::ones", "aten::full", "aten::empty", "aten::new_zeros")
@translates("aten::new_ones", "aten::new_full", "aten::new_empty", "aten::zeros_like")
@translates("aten::ones_like", "aten::full_like", "aten::empty_like")
def new_tensor(g: Graph, step: Step) -> Any:
    kind = step.name.removeprefix("aten::")
    args = step.attrs["args"]
    number: Any = 1 if "ones" in kind else 0
    if "full" in kind:
        number = args[-1] if len(args) > 1 else step.attrs["fill_value"]
    dims = step.attrs.get("size")
    if kind.endswith("_like"):
        dims = g.value(args[0]).shape
    elif dims is None:
        dims = args[1] if kind.startswith("new_") else args[0]
    return full(g, dims, number, result_dtype(step))


@translates("aten::arange")
def arange(g: Graph, step: Step) -> Any:
    dtype, args = result_dtype(step), step.attrs["args"]
    start, end, by = {1: (0, *args, 1), 2: (*args, 1)}.get(len(args), tuple(args))
    scalars = []
    for n in (start, end, by):
        if isinstance(n, Size):
            scalars.append(g.cast(Value(g.scalar(n), np.int64, ()), dtype))
        else:
            scalars.append(g.number(n, dtype))
    return g.op("Range", *scalars)


@translates("aten::detach", "aten::lift_fresh", "aten::alias")
def the_same(g: Graph, step: Step) -> Any:
    return g.op("Identity", g.value(step.attrs["args"][0]))


@translates("clone", "alias", "contiguous", "positive")
def the_same_values(g: Graph, step: Step) -> Any:
    return g.op("Identity", given(g, step))


# ---------------------------------------------------------------------- shapes


@translates("view", "unsafe_view", "reshape_alias", "reshape", "view_copy", "squeeze_all")
@translates("squeeze", "squeeze_one", "squeeze_column", "pixel_view", "unflatten")
def reshaped(g: Graph, step: Step) -> Any:
    return g.reshape(given(g, step), step.sizes[0])


@translates("stack_steps", "mkldnn_rnn_layer")
def steps_apart(g: Graph, step: Step) -> Any:
    return g.reshape(given(g, step), step.sizes[0])


@translates("unsqueeze")
def unsqueezed(g: Graph, step: Step) -> Any:
    return g.op("Unsqueeze", given(g, step), g.ints(step.attrs["dim"]))


@translates("t", "transpose", "permute", "mT", "adjoint")
def permuted(g: Graph, step: Step) -> Any:
    x = given(g, step)
    order = list(range(x.ndim))
    if step.name == "permute":
        order = [d % x.ndim for d in step.attrs["dims"]]
    elif x.ndim > 1:
        a, b = step.attrs.get("dim0", -2), step.attrs.get("dim1", -1)
        order[a], order[b] = order[b], order[a]
    return g.op("Transpose", x, perm=order)


@translates("expand")
def expanded(g: Graph, step: Step) -> Any:
    return g.op("Expand", given(g, step), g.sizes(step.attrs["shape"]))


@translates("repeat")
def repeated(g: Graph, step: Step) -> Any:
    x, repeats = given(g, step), list(step.attrs["repeats"])
    missing = len(repeats) - x.ndim
    source: Any = x
    if missing:
        source = g.op("Unsqueeze", x, g.ints(*range(missing)))
    return g.op("Tile", source, g.sizes(repeats))


@translates("cat")
def joined(g: Graph, step: Step) -> Any:
    dtype, dim = result_dtype(step), step.attrs["dim"]
    parts = [g.cast(g.value(t), dtype) for t in step.tensors]
    kept = [p for p in parts if p.shape != (0,)]
    return g.op("Concat", *kept, axis=dim)


@translates("stack")
def stacked(g: Graph, step: Step) -> Any:
    dtype, dim = result_dtype(step), step.attrs["dim"]
    parts = [g.cast(g.value(t), dtype) for t in step.tensors]
    return g.op("Concat", *[g.op("Unsqueeze", p, g.ints(dim)) for p in parts], axis=dim)


@translates("split", "split_with_sizes")
def split(g: Graph, step: Step) -> Any:
    sizes, dim = step.attrs["sizes"], step.attrs["dim"]
    if len(sizes) == 1:
        return [g.op("Identity", given(g, step))]
    return g.op("Split", given(g, step), g.sizes(sizes), outputs=len(sizes), axis=dim)


@translates("unbind")
def unbound(g: Graph, step: Step) -> Any:
    x, dim = given(g, step), step.attrs["dim"]
    places = range(len(step.results))
    return [g.op("Gather", x, g.number(i, np.int64), axis=dim) for i in places]


@translates("select")
def selected(g: Graph, step: Step) -> Any:
    place = g.scalar(step.attrs["index"])
    return g.op("Gather", given(g, step), place, axis=step.attrs["dim"])


@translates("slice")
def sliced(g: Graph, step: Step) -> Any:
    x, attrs = given(g, step), step.attrs
    if x.last:
        return g.op("Identity", x.last)
    whole = x.shape[attrs["dim"]]
    end = g.ints(FAR) if attrs["end"] == whole else g.size(attrs["end"])
    rest = (g.ints(attrs["dim"]), g.size(attrs["step"]))
    return g.op("Slice", x, g.size(attrs["start"]), end, *rest)


@translates("flip")
def flipped(g: Graph, step: Step) -> Any:
    dims = step.attrs["dims"]
    far = [int(np.iinfo(np.int64).min)] * len(dims)
    ones = [-1] * len(dims)
    return g.op("Slice", given(g, step), g.ints(*ones), g.ints(*far), g.ints(*dims), g.ints(*ones))


@translates("roll")
def rolled(g: Graph, step: Step) -> Any:
    source: Any = given(g, step)
    if not step.attrs["dims"]:
        raise unsupported(step, g.opset)
    for shift, dim in zip(step.attrs["shifts"], step.attrs["dims"], strict=True):
        if isinstance(shift, Size):
            raise unsupported(step, g.opset)
        cut, axis = g.ints(-shift), g.ints(dim)
        head = g.op("Slice", source, g.ints(0), cut, axis)
        tail = g.op("Slice", source, cut, g.ints(FAR), axis)
        source = g.op("Concat", tail, head, axis=dim) if shift else source
    return source


@translates("tril", "triu")
def triangle(g: Graph, step: Step) -> Any:
    x = given(g, step)
    work = np.dtype(np.int64) if x.dtype == np.bool_ else x.dtype
    k = g.scalar(step.attrs["diagonal"])
    made = g.op("Trilu", g.cast(x, work), k, upper=int(step.name == "triu"))
    return g.cast(Value(made, work, x.shape), x.dtype).name


@translates("constant_pad_nd", "reflection_pad1d", "reflection_pad2d", "replication_pad2d")
@translates("reflection_pad3d", "replication_pad1d", "replication_pad3d")
def padded(g: Graph, step: Step) -> Any:
    x, pad = given(g, step), list(step.attrs["pad"])
    before, after = [0] * x.ndim, [0] * x.ndim
    for i in range(len(pad) // 2):
        before[x.ndim - 1 - i], after[x.ndim - 1 - i] = pad[2 * i], pad[2 * i + 1]
    mode = {"c": "constant", "r": "reflect"}[step.name[0]]
    if step.name.startswith("replication"):
        mode = "edge"
    value = g.number(step.attrs["value"], x.dtype) if mode == "constant" else None
    return g.op("Pad", x, g.sizes([*before, *after]), value, mode=mode)


@translates("pixel_shuffle", "pixel_unshuffle")
def shuffled(g: Graph, step: Step) -> Any:
    if step.name == "pixel_shuffle":
        factor = step.attrs["upscale_factor"]
        return g.op("DepthToSpace", given(g, step), blocksize=factor, mode="CRD")
    raise unsupported(step, g.opset)


# ---------------------------------------------------------------------- indices


@translates("embedding")
def embedding(g: Graph, step: Step) -> Any:
    return g.op("Gather", given(g, step), given(g, step, 1), axis=0)


@translates("index_select")
def index_select(g: Graph, step: Step) -> Any:
    return g.op("Gather", given(g, step), given(g, step, 1), axis=step.attrs["dim"])


@translates("gather")
def gathered(g: Graph, step: Step) -> Any:
    index = g.cast(given(g, step, 1), np.int64)
    return g.op("GatherElements", given(g, step), index, axis=step.attrs["dim"])


@translates("scatter_src", "scatter_value", "scatter_add")
def scattered(g: Graph, step: Step) -> Any:
    index = g.cast(given(g, step, 1), np.int64)
    if step.name == "scatter_value":
        source = full(g, index.shape, step.attrs["value"], result_dtype(step))
    else:
        source = g.name_of(given(g, step, 2))
    how = "add" if step.name == "scatter_add" else "none"
    return g.op(
        "ScatterElements", given(g, step), index, source, axis=step.attrs["dim"], reduction=how
    )


@translates("index")
def indexed(g: Graph, step: Step) -> Any:
    """x[:, i, j]: tensors side by side, and whole dimensions around them."""
    x, parts = given(g, step), list(step.attrs["index"])
    places = [i for i, part in enumerate(parts) if not isinstance(part, slice)]
    tensors = [parts[i] for i in places]
    plain = all([parts[i] == slice(None) for i in range(len(parts)) if i not in places])
    kinds = [t._array.dtype.kind if isinstance(t, TensorBase) else t.dtype.kind for t in tensors]
    beside = places == list(range(places[0], places[0] + len(places)))
    if not plain or not beside or "b" in kinds:
        raise unsupported(step, g.opset)
    values = [as_index(g, t) for t in tensors]
    if len(values) == 1:
        return g.op("Gather", x, values[0], axis=places[0])
    shape = common_shape(values)
    columns = [g.op("Unsqueeze", g.op("Expand", v, g.sizes(shape)), g.ints(-1)) for v in values]
    first, count = places[0], len(places)
    order = [*places, *[d for d in range(x.ndim) if d not in places]]
    source = x.name if not first else g.op("Transpose", x, perm=order)
    made = g.op("GatherND", source, g.op("Concat", *columns, axis=-1))
    if not first:
        return made
    # The dimensions of the indices go to where the first of them stood.
    rank = len(shape)
    back = [*range(rank, rank + first), *range(rank), *range(rank + first, x.ndim - count + rank)]
    return g.op("Transpose", made, perm=back)


def as_index(g: Graph, part: Any) -> Value:
    if isinstance(part, TensorBase):
        return g.cast(g.value(part), np.int64)
    array = np.asarray(part).astype(np.int64)
    return Value(g.constant(array), np.int64, array.shape, array)


def common_shape(values: list[Value]) -> list[Any]:
    """The sizes that several values broadcast to."""
    rank = max([v.ndim for v in values])
    shape: list[Any] = []
    for axis in range(-rank, 0):
        sizes = [v.shape[axis] for v in values if v.ndim >= -axis]
        shape.append(next((n for n in sizes if isinstance(n, Size) or n != 1), 1))
    return shape


# ---------------------------------------------------------------------- sums

REDUCTIONS = {"sum": "ReduceSum", "mean": "ReduceMean", "amax": "ReduceMax", "amin": "ReduceMin"}
REDUCTIONS |= {"prod": "ReduceProd", "logsumexp": "ReduceLogSumExp"}
REDUCTIONS |= {f"{name}_all": kind for name, kind in REDUCTIONS.items()}
REDUCTIONS |= {"max_all": "ReduceMax", "min_all": "ReduceMin"}


def reduce(g: Graph, kind: str, x: Any, dim: Any, keepdim: bool) -> str:
    dims = None if dim is None or dim == () else g.ints(*(dim if isinstance(dim, tuple) else [dim]))
    return g.op(kind, x, dims, keepdims=int(keepdim))  # type: ignore[no-any-return]


@translates(*REDUCTIONS)
def reduced(g: Graph, step: Step) -> Any:
    x = g.cast(given(g, step), result_dtype(step))
    keep = bool(step.attrs.get("keepdim"))
    return reduce(g, REDUCTIONS[step.name], x, step.attrs.get("dim"), keep)


@translates("any", "all")
def any_or_all(g: Graph, step: Step) -> Any:
    bits = g.cast(g.cast(given(g, step), np.bool_), np.int32)
    kind = "ReduceMax" if step.name == "any" else "ReduceMin"
    made = reduce(g, kind, bits, step.attrs["dim"], step.attrs["keepdim"])
    return g.cast(Value(made, np.int32, ()), np.bool_).name


@translates("var", "std", "var_mean", "std_mean")
def spread(g: Graph, step: Step) -> Any:
    x, dim, keep = given(g, step), step.attrs["dim"], bool(step.attrs["keepdim"])
    axes = range(x.ndim) if dim is None or dim == () else dim
    mean = reduce(g, "ReduceMean", x, dim, True)
    apart = g.op("Sub", x, mean)
    total = reduce(g, "ReduceSum", g.op("Mul", apart, apart), dim, keep)
    count = g.joined_by("Mul", [g.size(x.shape[a]) for a in axes])
    less = g.op("Sub", count, g.ints(int(step.attrs["correction"])))
    divisor = g.cast(Value(g.op("Squeeze", less, g.ints(0)), np.int64, ()), x.dtype)
    made = g.op("Div", total, divisor)
    if step.name.startswith("std"):
        made = g.op("Sqrt", made)
    if not step.name.endswith("_mean"):
        return made
    return [made, mean if keep else reduce(g, "ReduceMean", x, dim, False)]


@translates("linalg_vector_norm")
def vector_norm(g: Graph, step: Step) -> Any:
    kinds = {1.0: "ReduceL1", 2.0: "ReduceL2"}
    if float(step.attrs["ord"]) not in kinds:
        raise unsupported(step, g.opset)
    kind = kinds[float(step.attrs["ord"])]
    return reduce(g, kind, given(g, step), step.attrs["dim"], bool(step.attrs["keepdim"]))


@translates("argmax", "argmin")
def arg_extreme(g: Graph, step: Step) -> Any:
    x: Any = given(g, step)
    dim = step.attrs["dim"]
    kind = "ArgMax" if step.name == "argmax" else "ArgMin"
    if dim is None:
        flat = g.op("Reshape", x, g.ints(-1))
        return g.op(kind, flat, axis=0, keepdims=0)
    return g.op(kind, x, axis=dim, keepdims=int(step.attrs["keepdim"]))


@translates("max", "min")
def extreme(g: Graph, step: Step) -> Any:
    x, dim, keep = given(g, step), step.attrs["dim"], bool(step.attrs["keepdim"])
    name = step.name.capitalize()
    places = g.op(f"Arg{name}", x, axis=dim, keepdims=int(keep))
    return [reduce(g, f"Reduce{name}", x, dim, keep), places]


@translates("topk", "sort")
def ordered(g: Graph, step: Step) -> Any:
    x, dim = given(g, step), step.attrs["dim"]
    k = step.attrs.get("k", x.shape[dim])
    largest = step.attrs.get("largest", step.attrs.get("descending"))
    return g.op("TopK", x, g.size(k), outputs=2, axis=dim, largest=int(largest), sorted=1)


@translates("cumsum")
def running_sum(g: Graph, step: Step) -> Any:
    x = g.cast(given(g, step), result_dtype(step))
    return g.op("CumSum", x, g.number(step.attrs["dim"], np.int64))


# ---------------------------------------------------------------------- products


@translates("mm", "bmm", "mv", "dot", "matmul")
def multiplied(g: Graph, step: Step) -> Any:
    return g.op("MatMul", given(g, step), given(g, step, 1))


@translates("addmm")
def gemm(g: Graph, step: Step) -> Any:
    bias, a, b = (given(g, step, i) for i in range(3))
    alpha, beta = float(step.attrs["alpha"]), float(step.attrs["beta"])
    return g.op("Gemm", a, b, bias, alpha=alpha, beta=beta)


@translates("baddbmm")
def batched_gemm(g: Graph, step: Step) -> Any:
    dtype = result_dtype(step)
    made = g.op("MatMul", given(g, step, 1), given(g, step, 2))
    made = g.op("Mul", made, g.number(step.attrs["alpha"], dtype))
    scaled = g.op("Mul", given(g, step), g.number(step.attrs["beta"], dtype))
    return g.op("Add", made, scaled)
