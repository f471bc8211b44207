"""Translations of ops on elements, shapes, indices and sums."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.base import TensorBase
from ..ops.copying.view_copies import ViewCopy
from ..ops.index.advanced import IndexAt
from ..ops.index.along_dim import IndexSelect
from ..ops.index.gather import Gather, ScatterAdd, ScatterSrc, ScatterValue
from ..ops.index.masked import MaskedFill, MaskedFillTensor
from ..ops.nn.embedding import Embedding
from ..ops.nn.leaky_activations import LeakyRelu, PreluKernel
from ..ops.nn.pad import SURROUNDS, ConstantPadNd
from ..ops.nn.piecewise_linear import Glu, Hardsigmoid, Hardtanh
from ..ops.nn.recurrent import MkldnnRnnLayer, StackSteps
from ..ops.nn.shuffles import PixelShuffle
from ..ops.nn.smooth_activations import Celu, Elu, Gelu, LogSigmoid, Silu, Softplus
from ..ops.pointwise.arithmetic import (
    FloorDivide,
    Fmod,
    FmodScalar,
    Remainder,
    RemainderScalar,
    RsubScalar,
)
from ..ops.pointwise.comparisons import Isnan, Ne
from ..ops.pointwise.minmax_where import (
    Addcdiv,
    Addcmul,
    ClampMaxScalar,
    ClampMinScalar,
    ClampScalar,
    Lerp,
    LerpScalar,
    Where,
)
from ..ops.pointwise.rounding_sign import Trunc
from ..ops.pointwise.transcendental import Exp2, Expm1, Log1p, Log2, Log10, Rsqrt
from ..ops.products.addmm import Addmm, Baddbmm
from ..ops.products.matmul import SqueezeColumn
from ..ops.reduce.extrema import All, Any_, Argmax, Argmin, Max, Min
from ..ops.reduce.scans import Cumsum
from ..ops.reduce.sorting import Sort, Topk
from ..ops.reduce.variance import Std, StdMean, Var, VarMean
from ..ops.reduce.vector_norm import LinalgVectorNorm
from ..ops.shape.copying import Cast, Clone, Copy, Fill, FillNumber, FillTensor
from ..ops.shape.dim_order import Permute, T, Transpose
from ..ops.shape.dim_views import Expand, Squeeze, SqueezeAll, SqueezeOne, Unsqueeze
from ..ops.shape.joining import Cat, Flip, Repeat, Roll, Stack
from ..ops.shape.part_views import Select, Slice, Split, SplitWithSizes, Unbind
from ..ops.shape.triangles import Tril, Triu
from ..ops.shape.views import Alias, ReshapeAlias, UnsafeView, View
from .graph import ONE_NODE, Graph, Value, translates, unsupported
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


@translates(ONE_NODE)
def one_node(g: Graph, step: Step) -> Any:
    """An op that is one node of ONNX, which its block names (`onnx = "Sqrt"`)."""
    kind = step.op.onnx
    if kind.startswith("Reduce"):
        return reduced(g, step, kind)
    if kind in COMPARISONS:
        return g.op(kind, *compared(g, step, kind == "Equal"))
    if kind in LOGIC and result_dtype(step) != np.bool_:  # bits of integers
        raise unsupported(step, g.opset)
    return g.op(kind, *all_operands(g, step, np.bool_ if kind in LOGIC else result_dtype(step)))


LOGIC = ("Not", "And", "Or", "Xor")
COMPARISONS = ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")


def all_operands(g: Graph, step: Step, dtype: Any) -> list[Value]:
    """The tensors and the number that an op of elements works on; `alpha` times the second."""
    values = operands(g, step, dtype)
    number = step.attrs.get("number", step.attrs.get("exponent"))
    if number is not None:
        values.append(g.cast(number, dtype))
    alpha = step.attrs.get("alpha", 1)
    if alpha != 1:
        scaled = g.op("Mul", values[1], g.number(alpha, dtype))
        values[1] = Value(scaled, dtype, values[1].shape)
    return values


def compared(g: Graph, step: Step, bools: bool) -> list[Value]:
    """Operands in their common dtype; ONNX orders no bools."""
    from .. import result_type

    kept = [t.item() if isinstance(t, np.generic) else t for t in step.tensors]
    dtype = result_type(*kept).np
    if dtype == np.bool_ and not bools:
        dtype = np.dtype(np.int32)
    return operands(g, step, dtype)


@translates(Ne)
def unequal(g: Graph, step: Step) -> Any:
    return g.op("Not", g.op("Equal", *compared(g, step, True)))


@translates(RsubScalar)
def reversed_difference(g: Graph, step: Step) -> Any:
    dtype = result_dtype(step)
    taken = operand(g, step, 0, dtype)
    if step.attrs["alpha"] != 1:
        taken = g.op("Mul", taken, g.number(step.attrs["alpha"], dtype))
    return g.op("Sub", g.cast(step.attrs["number"], dtype), taken)


@translates(Rsqrt)
def inverse_root(g: Graph, step: Step) -> Any:
    return g.op("Reciprocal", g.op("Sqrt", operand(g, step, 0, result_dtype(step))))


@translates(Silu)
def silu(g: Graph, step: Step) -> Any:
    x = given(g, step)
    return g.op("Mul", x, g.op("Sigmoid", x))


@translates(Gelu)
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


@translates(LeakyRelu)
def leaky_relu(g: Graph, step: Step) -> Any:
    return g.op("LeakyRelu", given(g, step), alpha=float(step.attrs["slope"]))


@translates(PreluKernel)
def prelu(g: Graph, step: Step) -> Any:
    x, slope = given(g, step), given(g, step, 1)
    low = g.op("Min", x, g.number(0, x.dtype))
    return g.op("Add", g.op("Relu", x), g.op("Mul", low, slope))


@translates(Elu, Celu)
def elu(g: Graph, step: Step) -> Any:
    """scale * (x > 0 ? x : alpha * (exp(x * input_scale) - 1))"""
    x, dtype, attrs = given(g, step), result_dtype(step), step.attrs
    low = g.op("Min", g.op("Mul", x, g.number(attrs["input_scale"], dtype)), g.number(0, dtype))
    curve = g.op("Sub", g.op("Exp", low), g.number(1, dtype))
    made = g.op("Add", g.op("Relu", x), g.op("Mul", curve, g.number(attrs["alpha"], dtype)))
    return g.op("Mul", made, g.number(attrs["scale"], dtype))


@translates(Softplus)
def softplus(g: Graph, step: Step) -> Any:
    x, dtype = given(g, step), result_dtype(step)
    beta = g.number(step.attrs["beta"], dtype)
    return g.op("Div", g.op("Softplus", g.op("Mul", x, beta)), beta)


@translates(LogSigmoid)
def log_sigmoid(g: Graph, step: Step) -> Any:
    return g.op("Neg", g.op("Softplus", g.op("Neg", given(g, step))))


@translates(Hardsigmoid)
def hard_sigmoid(g: Graph, step: Step) -> Any:
    return g.op("HardSigmoid", given(g, step), alpha=1 / 6, beta=0.5)


@translates(Hardtanh, ClampScalar, ClampMinScalar, ClampMaxScalar)
def clamped(g: Graph, step: Step) -> Any:
    dtype = result_dtype(step)
    bounds = [step.attrs.get("low"), step.attrs.get("high")]
    names = [None if b is None else g.number(b, dtype) for b in bounds]
    return g.op("Clip", g.cast(given(g, step), dtype), *names)


@translates(Glu)
def gated(g: Graph, step: Step) -> Any:
    dim = step.attrs["dim"]
    a, b = g.op("Split", given(g, step), outputs=2, axis=dim, num_outputs=2)
    return g.op("Mul", a, g.op("Sigmoid", b))


@translates(Trunc)
def truncated(g: Graph, step: Step) -> Any:
    x = given(g, step)
    return g.op("Mul", g.op("Sign", x), g.op("Floor", g.op("Abs", x)))


@translates(Isnan)
def is_nan(g: Graph, step: Step) -> Any:
    return g.op("IsNaN", given(g, step))


@translates(Log1p, Expm1, Log2, Log10, Exp2)
def near_one(g: Graph, step: Step) -> Any:
    x, dtype = operand(g, step, 0, result_dtype(step)), result_dtype(step)
    one = g.number(1, dtype)
    if step.op is Log1p:
        return g.op("Log", g.op("Add", x, one))
    if step.op is Expm1:
        return g.op("Sub", g.op("Exp", x), one)
    if step.op is Exp2:
        return g.op("Exp", g.op("Mul", x, g.number(LOG_2, dtype)))
    base = np.log(2.0 if step.op is Log2 else 10.0)
    return g.op("Div", g.op("Log", x), g.number(base, dtype))


@translates(FloorDivide, Remainder, RemainderScalar, Fmod, FmodScalar)
def whole_parts(g: Graph, step: Step) -> Any:
    dtype = result_dtype(step)
    a = operand(g, step, 0, dtype)
    b = operand(g, step, 1, dtype) if len(step.tensors) > 1 else g.cast(step.attrs["number"], dtype)
    if step.op in (Fmod, FmodScalar):
        return g.op("Mod", a, b, fmod=1)
    if dtype.kind in "iu":
        rest = g.op("Mod", a, b)
        return rest if step.op is not FloorDivide else g.op("Div", g.op("Sub", a, rest), b)
    quotient = g.op("Floor", g.op("Div", a, b))
    if step.op is FloorDivide:
        return quotient
    return g.op("Sub", a, g.op("Mul", quotient, b))


@translates(Where)
def where(g: Graph, step: Step) -> Any:
    dtype = result_dtype(step)
    condition = g.cast(given(g, step), np.bool_)
    return g.op("Where", condition, operand(g, step, 1, dtype), operand(g, step, 2, dtype))


@translates(MaskedFill, MaskedFillTensor)
def masked_fill(g: Graph, step: Step) -> Any:
    dtype = result_dtype(step)
    value = step.attrs.get("value")
    filled = operand(g, step, 2, dtype) if value is None else g.number(value, dtype)
    return g.op("Where", given(g, step, 1), filled, given(g, step))


@translates(Addcmul, Addcdiv)
def add_product(g: Graph, step: Step) -> Any:
    x, a, b = operands(g, step)
    made = g.op("Mul" if step.op is Addcmul else "Div", a, b)
    return g.op("Add", x, g.op("Mul", made, g.number(step.attrs["value"], result_dtype(step))))


@translates(LerpScalar, Lerp)
def lerp(g: Graph, step: Step) -> Any:
    dtype = result_dtype(step)
    start, end = operand(g, step, 0, dtype), operand(g, step, 1, dtype)
    weight = step.attrs.get("weight")
    factor = operand(g, step, 2, dtype) if weight is None else g.number(weight, dtype)
    return g.op("Add", start, g.op("Mul", g.op("Sub", end, start), factor))


@translates(Cast)
def cast(g: Graph, step: Step) -> Any:
    made = g.cast(given(g, step), result_dtype(step))
    return g.op("Identity", made)


@translates(Copy)
def copied(g: Graph, step: Step) -> Any:
    x, source = given(g, step), operand(g, step, 1, result_dtype(step))
    return source.name if source.shape == x.shape else g.op("Expand", source, g.sizes(x.shape))


@translates(FillNumber, Fill, FillTensor)
def filled(g: Graph, step: Step) -> Any:
    shape, dtype = given(g, step).shape, result_dtype(step)
    if len(step.tensors) > 1:
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


@translates(Clone, Alias)
def the_same_values(g: Graph, step: Step) -> Any:
    return g.op("Identity", given(g, step))


# ---------------------------------------------------------------------- shapes


@translates(View, UnsafeView, ReshapeAlias, ViewCopy, SqueezeAll)
@translates(Squeeze, SqueezeOne, SqueezeColumn)
def reshaped(g: Graph, step: Step) -> Any:
    return g.reshape(given(g, step), step.sizes[0])


@translates(StackSteps, MkldnnRnnLayer)
def steps_apart(g: Graph, step: Step) -> Any:
    return g.reshape(given(g, step), step.sizes[0])


@translates(Unsqueeze)
def unsqueezed(g: Graph, step: Step) -> Any:
    return g.op("Unsqueeze", given(g, step), g.ints(step.attrs["dim"]))


@translates(T, Transpose, Permute)
def permuted(g: Graph, step: Step) -> Any:
    x = given(g, step)
    order = list(range(x.ndim))
    if "dims" in step.attrs:
        order = [d % x.ndim for d in step.attrs["dims"]]
    elif x.ndim > 1:
        a, b = step.attrs.get("dim0", -2), step.attrs.get("dim1", -1)
        order[a], order[b] = order[b], order[a]
    return g.op("Transpose", x, perm=order)


@translates(Expand)
def expanded(g: Graph, step: Step) -> Any:
    return g.op("Expand", given(g, step), g.sizes(step.attrs["shape"]))


@translates(Repeat)
def repeated(g: Graph, step: Step) -> Any:
    x, repeats = given(g, step), list(step.attrs["repeats"])
    missing = len(repeats) - x.ndim
    source: Any = x
    if missing:
        source = g.op("Unsqueeze", x, g.ints(*range(missing)))
    return g.op("Tile", source, g.sizes(repeats))


@translates(Cat)
def joined(g: Graph, step: Step) -> Any:
    dtype, dim = result_dtype(step), step.attrs["dim"]
    parts = [g.cast(g.value(t), dtype) for t in step.tensors]
    kept = [p for p in parts if p.shape != (0,)]
    return g.op("Concat", *kept, axis=dim)


@translates(Stack)
def stacked(g: Graph, step: Step) -> Any:
    dtype, dim = result_dtype(step), step.attrs["dim"]
    parts = [g.cast(g.value(t), dtype) for t in step.tensors]
    return g.op("Concat", *[g.op("Unsqueeze", p, g.ints(dim)) for p in parts], axis=dim)


@translates(Split, SplitWithSizes)
def split(g: Graph, step: Step) -> Any:
    sizes, dim = step.attrs["sizes"], step.attrs["dim"]
    if len(sizes) == 1:
        return [g.op("Identity", given(g, step))]
    return g.op("Split", given(g, step), g.sizes(sizes), outputs=len(sizes), axis=dim)


@translates(Unbind)
def unbound(g: Graph, step: Step) -> Any:
    x, dim = given(g, step), step.attrs["dim"]
    places = range(len(step.results))
    return [g.op("Gather", x, g.number(i, np.int64), axis=dim) for i in places]


@translates(Select)
def selected(g: Graph, step: Step) -> Any:
    place = g.scalar(step.attrs["index"])
    return g.op("Gather", given(g, step), place, axis=step.attrs["dim"])


@translates(Slice)
def sliced(g: Graph, step: Step) -> Any:
    x, attrs = given(g, step), step.attrs
    if x.last:
        return g.op("Identity", x.last)
    whole = x.shape[attrs["dim"]]
    end = g.ints(FAR) if attrs["end"] == whole else g.size(attrs["end"])
    rest = (g.ints(attrs["dim"]), g.size(attrs["step"]))
    return g.op("Slice", x, g.size(attrs["start"]), end, *rest)


@translates(Flip)
def flipped(g: Graph, step: Step) -> Any:
    dims = step.attrs["dims"]
    far = [int(np.iinfo(np.int64).min)] * len(dims)
    ones = [-1] * len(dims)
    return g.op("Slice", given(g, step), g.ints(*ones), g.ints(*far), g.ints(*dims), g.ints(*ones))


@translates(Roll)
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


@translates(Tril, Triu)
def triangle(g: Graph, step: Step) -> Any:
    x = given(g, step)
    work = np.dtype(np.int64) if x.dtype == np.bool_ else x.dtype
    k = g.scalar(step.attrs["diagonal"])
    made = g.op("Trilu", g.cast(x, work), k, upper=int(step.op is Triu))
    return g.cast(Value(made, work, x.shape), x.dtype).name


@translates(ConstantPadNd, *SURROUNDS["reflect"], *SURROUNDS["replicate"])
def padded(g: Graph, step: Step) -> Any:
    x, pad = given(g, step), list(step.attrs["pad"])
    before, after = [0] * x.ndim, [0] * x.ndim
    for i in range(len(pad) // 2):
        before[x.ndim - 1 - i], after[x.ndim - 1 - i] = pad[2 * i], pad[2 * i + 1]
    mode = "reflect" if step.op in SURROUNDS["reflect"] else "edge"
    if step.op is ConstantPadNd:
        mode = "constant"
    value = g.number(step.attrs["value"], x.dtype) if mode == "constant" else None
    return g.op("Pad", x, g.sizes([*before, *after]), value, mode=mode)


@translates(PixelShuffle)
def shuffled(g: Graph, step: Step) -> Any:
    factor = step.attrs["upscale_factor"]
    return g.op("DepthToSpace", given(g, step), blocksize=factor, mode="CRD")


# ---------------------------------------------------------------------- indices


@translates(Embedding)
def embedding(g: Graph, step: Step) -> Any:
    return g.op("Gather", given(g, step), given(g, step, 1), axis=0)


@translates(IndexSelect)
def index_select(g: Graph, step: Step) -> Any:
    return g.op("Gather", given(g, step), given(g, step, 1), axis=step.attrs["dim"])


@translates(Gather)
def gathered(g: Graph, step: Step) -> Any:
    index = g.cast(given(g, step, 1), np.int64)
    return g.op("GatherElements", given(g, step), index, axis=step.attrs["dim"])


@translates(ScatterSrc, ScatterValue, ScatterAdd)
def scattered(g: Graph, step: Step) -> Any:
    index = g.cast(given(g, step, 1), np.int64)
    if len(step.tensors) == 2:
        source = full(g, index.shape, step.attrs["value"], result_dtype(step))
    else:
        source = g.name_of(given(g, step, 2))
    how = "add" if step.op is ScatterAdd else "none"
    return g.op(
        "ScatterElements", given(g, step), index, source, axis=step.attrs["dim"], reduction=how
    )


@translates(IndexAt)
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


def reduce(g: Graph, kind: str, x: Any, dim: Any, keepdim: bool) -> str:
    dims = None if dim is None or dim == () else g.ints(*(dim if isinstance(dim, tuple) else [dim]))
    return g.op(kind, x, dims, keepdims=int(keepdim))  # type: ignore[no-any-return]


def reduced(g: Graph, step: Step, kind: str) -> str:
    x = g.cast(given(g, step), result_dtype(step))
    keep = bool(step.attrs.get("keepdim"))
    return reduce(g, kind, x, step.attrs.get("dim"), keep)


@translates(Any_, All)
def any_or_all(g: Graph, step: Step) -> Any:
    bits = g.cast(g.cast(given(g, step), np.bool_), np.int32)
    kind = "ReduceMax" if step.op is Any_ else "ReduceMin"
    made = reduce(g, kind, bits, step.attrs["dim"], step.attrs["keepdim"])
    return g.cast(Value(made, np.int32, ()), np.bool_).name


@translates(Var, Std, VarMean, StdMean)
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
    if step.op in (Std, StdMean):
        made = g.op("Sqrt", made)
    if len(step.results) == 1:
        return made
    return [made, mean if keep else reduce(g, "ReduceMean", x, dim, False)]


@translates(LinalgVectorNorm)
def vector_norm(g: Graph, step: Step) -> Any:
    kinds = {1.0: "ReduceL1", 2.0: "ReduceL2"}
    if float(step.attrs["ord"]) not in kinds:
        raise unsupported(step, g.opset)
    kind = kinds[float(step.attrs["ord"])]
    return reduce(g, kind, given(g, step), step.attrs["dim"], bool(step.attrs["keepdim"]))


@translates(Argmax, Argmin)
def arg_extreme(g: Graph, step: Step) -> Any:
    x: Any = given(g, step)
    dim = step.attrs["dim"]
    kind = step.op.onnx
    if dim is None:
        flat = g.op("Reshape", x, g.ints(-1))
        return g.op(kind, flat, axis=0, keepdims=0)
    return g.op(kind, x, axis=dim, keepdims=int(step.attrs["keepdim"]))


@translates(Max, Min)
def extreme(g: Graph, step: Step) -> Any:
    x, dim, keep = given(g, step), step.attrs["dim"], bool(step.attrs["keepdim"])
    name = "Max" if step.op is Max else "Min"
    places = g.op(f"Arg{name}", x, axis=dim, keepdims=int(keep))
    return [reduce(g, f"Reduce{name}", x, dim, keep), places]


@translates(Topk, Sort)
def ordered(g: Graph, step: Step) -> Any:
    x, dim = given(g, step), step.attrs["dim"]
    k = step.attrs.get("k", x.shape[dim])
    largest = step.attrs.get("largest", step.attrs.get("descending"))
    return g.op("TopK", x, g.size(k), outputs=2, axis=dim, largest=int(largest), sorted=1)


@translates(Cumsum)
def running_sum(g: Graph, step: Step) -> Any:
    x = g.cast(given(g, step), result_dtype(step))
    return g.op("CumSum", x, g.number(step.attrs["dim"], np.int64))


# ---------------------------------------------------------------------- products


@translates(Addmm)
def gemm(g: Graph, step: Step) -> Any:
    bias, a, b = (given(g, step, i) for i in range(3))
    alpha, beta = float(step.attrs["alpha"]), float(step.attrs["beta"])
    return g.op("Gemm", a, b, bias, alpha=alpha, beta=beta)


@translates(Baddbmm)
def batched_gemm(g: Graph, step: Step) -> Any:
    dtype = result_dtype(step)
    made = g.op("MatMul", given(g, step, 1), given(g, step, 2))
    made = g.op("Mul", made, g.number(step.attrs["alpha"], dtype))
    scaled = g.op("Mul", given(g, step), g.number(step.attrs["beta"], dtype))
    return g.op("Add", made, scaled)
