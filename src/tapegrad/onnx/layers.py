"""Translations of layers: convolutions, pools, norms, softmax, attention, recurrent layers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ops.nn.adaptive_pool import ADAPTIVE_MAX, ADAPTIVE_MEAN
from ..ops.nn.attention import ScaledDotProductFlashAttentionForCpu
from ..ops.nn.avg_pool import AVG_POOLING
from ..ops.nn.batch_norm import NativeBatchNorm, NativeBatchNormFixed
from ..ops.nn.conv import Convolution
from ..ops.nn.group_norm import NativeGroupNorm
from ..ops.nn.interpolate import (
    UpsampleBicubic2d,
    UpsampleBilinear2d,
    UpsampleLinear1d,
    UpsampleNearest1d,
    UpsampleNearest2d,
    UpsampleNearest3d,
    UpsampleTrilinear3d,
)
from ..ops.nn.layer_norm import NativeLayerNorm
from ..ops.nn.max_pool import MAX_POOLING
from ..ops.nn.recurrent import GruLayer, LstmLayer, RnnLayer
from ..ops.products.addmm import Addmm
from ..ops.products.matmul import Mm
from ..ops.reduce.softmax import LogSoftmax, Softmax
from .errors import OnnxExporterError
from .graph import Graph, Value, translates, unsupported
from .recording import Step
from .sizes import Size
from .translations import given, result_dtype

# ---------------------------------------------------------------------- images


@translates(Convolution)
def convolution(g: Graph, step: Step) -> Any:
    x, weight = given(g, step), given(g, step, 1)
    bias = None if step.tensors[2] is None else given(g, step, 2)
    rank = weight.ndim - 2
    attrs = step.attrs
    options: dict[str, Any] = {
        "strides": wide(attrs["stride"], rank),
        "pads": wide(attrs["padding"], rank) * 2,
        "dilations": wide(attrs["dilation"], rank),
        "group": attrs["groups"],
    }
    if not attrs["transposed"]:
        return g.op("Conv", x, weight, bias, **options)
    options["output_padding"] = wide(attrs["output_padding"], rank)
    return g.op("ConvTranspose", x, weight, bias, **options)


def wide(values: Any, rank: int) -> list[int]:
    values = list(values) if isinstance(values, (tuple, list)) else [values]
    return values * rank if len(values) == 1 else values


def rounds_up(g: Graph, step: Step, dilation: list[int]) -> bool:
    """Whether a pool has a window that sticks out: what `ceil_mode` asks for."""
    rank = len(step.attrs["kernel"])
    kernel, stride, padding = (step.attrs[k] for k in ("kernel", "stride", "padding"))
    place = g.joined.origin[0][id(step.results[0])]
    for recording in g.joined.recordings:
        twin = recording.steps[place[0]]
        have, made = twin.tensors[0].shape[-rank:], twin.shapes[0][-rank:]
        for i in range(rank):
            reach = dilation[i] * (kernel[i] - 1) + 1
            if made[i] != (have[i] + 2 * padding[i] - reach) // stride[i] + 1:
                return True
    return False


@translates(*[without for without, _ in MAX_POOLING.values()])
def max_pool(g: Graph, step: Step) -> Any:
    attrs = step.attrs
    dilation = list(attrs["dilation"])
    options = {
        "kernel_shape": list(attrs["kernel"]),
        "strides": list(attrs["stride"]),
        "pads": list(attrs["padding"]) * 2,
        "dilations": dilation,
        "ceil_mode": int(rounds_up(g, step, dilation)),
    }
    return g.op("MaxPool", given(g, step), **options)


@translates(*AVG_POOLING.values())
def avg_pool(g: Graph, step: Step) -> Any:
    attrs = step.attrs
    if attrs["override"] is not None:
        raise unsupported(step, g.opset)
    options = {
        "kernel_shape": list(attrs["kernel"]),
        "strides": list(attrs["stride"]),
        "pads": list(attrs["padding"]) * 2,
        "count_include_pad": int(attrs["count_padding"]),
        "ceil_mode": int(rounds_up(g, step, [1] * len(attrs["kernel"]))),
    }
    return g.op("AveragePool", given(g, step), **options)


@translates(*ADAPTIVE_MEAN.values(), *ADAPTIVE_MAX.values())
def adaptive_pool(g: Graph, step: Step) -> Any:
    x, out = given(g, step), list(step.attrs["out_sizes"])
    kind = "Average" if step.op in ADAPTIVE_MEAN.values() else "Max"
    if all([n == 1 for n in out]):
        return g.op(f"Global{kind}Pool", x)
    have = x.shape[-len(out) :]
    if any([isinstance(n, Size) for n in (*have, *out)]) or any(
        [n % m for n, m in zip(have, out, strict=True)]
    ):
        raise OnnxExporterError(
            "an adaptive pool can be exported where the sizes of its input are fixed multiples of "
            f"those of its output{step.where()}"
        )
    kernel = [n // m for n, m in zip(have, out, strict=True)]
    return g.op(f"{kind}Pool", x, kernel_shape=kernel, strides=kernel)


@translates(UpsampleNearest1d, UpsampleNearest2d, UpsampleNearest3d, UpsampleLinear1d)
@translates(UpsampleBilinear2d, UpsampleTrilinear3d, UpsampleBicubic2d)
def upsample(g: Graph, step: Step) -> Any:
    x, attrs = given(g, step), step.attrs
    mode = attrs["mode"]
    scales = list(attrs["scales"])
    sizes = None
    if None in scales:
        sizes = g.sizes([*x.shape[:2], *attrs["out_sizes"]])
        factors = None
    else:
        factors = g.constant(np.array([1.0, 1.0, *scales], np.float32))
    if mode == "nearest":
        options: dict[str, Any] = {"mode": "nearest", "nearest_mode": "floor"}
        options["coordinate_transformation_mode"] = "asymmetric"
    else:
        aligned = "align_corners" if attrs["align"] else "half_pixel"
        options = {"mode": "cubic" if mode == "bicubic" else "linear"}
        options["coordinate_transformation_mode"] = aligned
        if mode == "bicubic":
            options["cubic_coeff_a"] = -0.75
    return g.op("Resize", x, None, factors, sizes, **options)


# ---------------------------------------------------------------------- norms


@translates(Softmax, LogSoftmax)
def softmax(g: Graph, step: Step) -> Any:
    return g.op(step.op.onnx, g.cast(given(g, step), result_dtype(step)), axis=step.attrs["dim"])


def or_fill(g: Graph, step: Step, i: int, shape: Any, number: float, dtype: Any) -> Any:
    """A weight, or what it is where there is none."""
    if step.tensors[i] is not None:
        return given(g, step, i)
    return g.constant(np.full([int(n) for n in shape], number, dtype))


@translates(NativeLayerNorm)
def layer_norm(g: Graph, step: Step) -> Any:
    x, nd = given(g, step), step.attrs["nd"]
    weight = or_fill(g, step, 1, x.shape[-nd:], 1, x.dtype)
    bias = or_fill(g, step, 2, x.shape[-nd:], 0, x.dtype)
    eps = float(step.attrs["eps"])
    return g.op("LayerNormalization", x, weight, bias, axis=-nd, epsilon=eps)


@translates(NativeBatchNormFixed)
def batch_norm(g: Graph, step: Step) -> Any:
    x = given(g, step)
    channels = x.shape[1:2]
    weight = or_fill(g, step, 1, channels, 1, x.dtype)
    bias = or_fill(g, step, 2, channels, 0, x.dtype)
    mean, var = given(g, step, 3), given(g, step, 4)
    return g.op("BatchNormalization", x, weight, bias, mean, var, epsilon=float(step.attrs["eps"]))


def normalized(g: Graph, x: Any, axes: list[int], eps: float, dtype: Any) -> str:
    mean = g.op("ReduceMean", x, g.ints(*axes), keepdims=1)
    apart = g.op("Sub", x, mean)
    var = g.op("ReduceMean", g.op("Mul", apart, apart), g.ints(*axes), keepdims=1)
    root = g.op("Sqrt", g.op("Add", var, g.number(eps, dtype)))
    return g.op("Div", apart, root)  # type: ignore[no-any-return]


def per_channel(g: Graph, step: Step, made: str, rank: int) -> str:
    """Times a weight and plus a bias, by the second dimension."""
    for i, kind in ((1, "Mul"), (2, "Add")):
        if step.tensors[i] is not None:
            weight = g.reshape(given(g, step, i), [-1] + [1] * (rank - 2))
            made = g.op(kind, made, weight)
    return made


@translates(NativeBatchNorm)
def batch_statistics_norm(g: Graph, step: Step) -> Any:
    """By the statistics of the batch itself, as instance norms are computed."""
    x = given(g, step)
    axes = [0, *range(2, x.ndim)]
    made = normalized(g, x, axes, float(step.attrs["eps"]), x.dtype)
    return per_channel(g, step, made, x.ndim)


@translates(NativeGroupNorm)
def group_norm(g: Graph, step: Step) -> Any:
    x, groups = given(g, step), step.attrs["groups"]
    parts = g.op("Reshape", x, g.ints(0, groups, -1))  # 0: the size that it has
    made = normalized(g, parts, [2], float(step.attrs["eps"]), x.dtype)
    made = g.op("Reshape", made, g.op("Shape", x))
    return per_channel(g, step, made, x.ndim)


# ---------------------------------------------------------------------- attention


@translates(ScaledDotProductFlashAttentionForCpu)
def attention(g: Graph, step: Step) -> Any:
    query, key, value = (given(g, step, i) for i in range(3))
    if query.ndim != key.ndim or query.shape[:-2] != key.shape[:-2]:
        raise unsupported(step, g.opset)
    order = list(range(key.ndim))
    order[-2:] = order[-1], order[-2]
    scaled = g.op("Mul", query, g.number(step.attrs["scale"], query.dtype))
    scores = g.op("MatMul", scaled, g.op("Transpose", key, perm=order))
    if step.tensors[3] is not None:
        mask = given(g, step, 3)
        if mask.dtype == np.bool_:
            scores = g.op("Where", mask, scores, g.number(-np.inf, query.dtype))
        else:
            scores = g.op("Add", scores, g.cast(mask, query.dtype))
    if step.attrs.get("causal"):
        square = g.sizes([query.shape[-2], key.shape[-2]])
        ones = g.op("Expand", g.number(1, np.int64), square)
        seen = g.cast(Value(g.op("Trilu", ones, upper=0), np.int64, ()), np.bool_)
        scores = g.op("Where", seen, scores, g.number(-np.inf, query.dtype))
    return g.op("MatMul", g.op("Softmax", scores, axis=-1), value)


# ---------------------------------------------------------------------- recurrent layers

# Where PyTorch's gates are in ONNX's order, in parts of the rows of a weight.
ORDER = {LstmLayer: (0, 3, 1, 2), GruLayer: (1, 0, 2), RnnLayer: (0,)}


def in_order(array: Any, order: tuple[int, ...]) -> Any:
    parts = np.split(array, len(order))
    return np.concatenate([parts[i] for i in order])


def before_the_loop(g: Graph, step: Step, order: tuple[int, ...]) -> tuple[Any, Any, Any]:
    """The layer's own input with its weight and bias: what computed the gates is taken apart."""
    gates = given(g, step)
    made_by = gates.made_by
    if made_by is not None and made_by.op in (Addmm, Mm):
        parts = [g.value(t) for t in made_by.tensors]
        bias = parts[0].array if made_by.op is Addmm else None
        matrix = parts[-1].array
        if matrix is not None and (bias is not None or made_by.op is Mm):
            flat = np.zeros(matrix.shape[1], matrix.dtype) if bias is None else bias
            return parts[-2], in_order(matrix.T, order), in_order(flat, order)
    width = gates.shape[-1]
    eye = np.eye(width, dtype=gates.dtype)
    return gates, in_order(eye, order), np.zeros(width, gates.dtype)


@translates(LstmLayer, GruLayer, RnnLayer)
def recurrent(g: Graph, step: Step) -> Any:
    attrs, order, kind = step.attrs, ORDER[step.op], step.op.onnx
    named = (1, 2, 3) if step.op is LstmLayer else (1, 2)
    hidden, *cell, weight = (given(g, step, i) for i in named)
    if weight.array is None or step.op is LstmLayer and step.tensors[4] is not None:
        raise unsupported(step, g.opset)
    x, matrix, bias = before_the_loop(g, step, order)
    size = weight.array.shape[1]
    second = np.zeros_like(bias)
    if step.op is GruLayer and step.tensors[3] is not None:
        second = in_order(given(g, step, 3).array, order)
    sequence = g.op("Reshape", x, g.sizes([attrs["steps"], attrs["batch"], x.shape[-1]]))
    weights = [in_order(weight.array, order)[None], np.concatenate([bias, second])[None]]
    states = [g.op("Unsqueeze", s, g.ints(0)) for s in (hidden, *cell)]
    options: dict[str, Any] = {"hidden_size": size}
    if attrs.get("turned"):
        options["direction"] = "reverse"
    if step.op is GruLayer:
        options["linear_before_reset"] = 1
    if step.op is RnnLayer:
        options["activations"] = ["Relu" if attrs["relu"] else "Tanh"]
    arrays = [g.constant(matrix[None]), *[g.constant(w) for w in weights]]
    outputs = 3 if cell else 2
    made = g.op(kind, sequence, *arrays, None, *states, outputs=outputs, **options)
    rows = g.op("Reshape", made[0], g.ints(-1, size))
    if not cell:
        return [rows]
    # ONNX has the cells of the last step alone, and that is all that is asked for.
    cells = Value(made[2], result_dtype(step, 1), step.sizes[1])
    cells.last = g.op("Squeeze", made[2], g.ints(0))
    return [rows, cells]
