"""Convolutions over one, two or three dimensions, and transposed ones, as users call them."""

from __future__ import annotations

import operator
from typing import Any

from ... import dtypes
from ...core.arguments import is_fixed
from ...core.base import TensorBase
from ...core.warned import warn
from ...dtypes import cpp_name
from ...errors import must_be_tensor
from ...kernels.conv_windows import Ints
from ...kernels.geometry import out_size, transposed_size
from ..block import LOWER, Autocast, Case, api, apply
from ..block.checks import as_int, as_ints, not_implemented
from ..block.samples import Draw
from ..pointwise.with_number import mul_number
from ..shape.dim_views import ViewAsReal
from . import pad as padding_ops
from .conv import ConvInputGrad, Convolution, ConvTbc, ConvWeightGrad

AXES = ("depth", "height", "width")


# ---------------------------------------------------------------------- what is refused


def type_name(array: Any) -> str:
    kind = dtypes.of(array.dtype).scalar_type
    return f"CPU{kind}Type" if array.dtype.kind == "c" else f"torch.{kind}Tensor"


def same_types(x: Any, other: Any, what: str) -> None:
    if other is not None and x.dtype != other.dtype:
        raise RuntimeError(
            f"Input type ({type_name(x)}) and {what} type ({type_name(other)}) should be the same "
            f"or input should be a MKLDNN tensor and {what} is a dense tensor"
        )


def per_dimension(name: str, values: Ints, count: int) -> Ints:
    """One number per dimension."""
    if len(values) == 1:
        return values * count
    if len(values) != count:
        raise RuntimeError(
            f"expected {name} to be a single integer value or a list of {count} values to match "
            f"the convolution dimensions, but got {name}={list(values)}"
        )
    return values


def by_axis(name: str, values: Ints) -> str:
    axes = AXES[-len(values) :]
    return " ".join([f"{name}_{axis}: {v}" for axis, v in zip(axes, values, strict=True)])


def crossed(sizes: Ints) -> str:
    return f"({' x '.join([str(n) for n in sizes])})"


MOST_PADDING = (1 << 62) - 1  # twice as much does not fit into 64 bits


def check_sizes(
    x: Any,
    w: Any,
    bias: Any,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    output_padding: Ints,
    groups: int,
) -> None:
    """PyTorch's refusals, in its order."""
    if min(padding) < 0:
        raise RuntimeError("negative padding is not supported")
    if max(padding) > MOST_PADDING:
        at = [p > MOST_PADDING for p in padding].index(True)
        raise RuntimeError(
            f"Given padding={padding[at]} at dimension {at} , expected padding to be at most "
            f"{MOST_PADDING}"
        )
    if min(output_padding) < 0:
        raise RuntimeError("negative output_padding is not supported")
    if min(stride) <= 0:
        raise RuntimeError("non-positive stride is not supported")
    if min(dilation) < 0:
        raise RuntimeError("dilation should be greater than zero")
    weight = list(w.shape)
    if x.ndim != w.ndim:
        raise RuntimeError(
            f"Expected {w.ndim}-dimensional input for {w.ndim}-dimensional weight {weight}, but "
            f"got {x.ndim}-dimensional input of size {list(x.shape)} instead"
        )
    if w.shape[0] < groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be at least {groups} at dimension 0, but "
            f"got weight of size {weight} instead"
        )
    if w.shape[0] % groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, "
            f"but got weight of size [{weight}] instead"
        )
    start = "Given transposed=1" if transposed else f"Given groups={groups}"
    channels = w.shape[0] if transposed else w.shape[1] * groups
    if x.shape[1] != channels:
        raise RuntimeError(
            f"{start}, weight of size {weight}, expected input{list(x.shape)} to have {channels} "
            f"channels, but got {x.shape[1]} channels instead"
        )
    features = w.shape[1] * groups if transposed else w.shape[0]
    if bias is not None and bias.shape != (features,):
        start = "Given transposed=1, " if transposed else "Given "
        raise RuntimeError(
            f"{start}weight of size {weight}, expected bias to be 1-dimensional with {features} "
            f"elements, but got bias of size {list(bias.shape)} instead"
        )
    if min(dilation) == 0:
        raise RuntimeError("non-positive dilation is not supported")
    if not transposed:
        padded = tuple([n + 2 * p for n, p in zip(x.shape[2:], padding, strict=True)])
        reach = tuple([d * (k - 1) + 1 for k, d in zip(w.shape[2:], dilation, strict=True)])
        if any([n < r for n, r in zip(padded, reach, strict=True)]):
            raise RuntimeError(
                f"Calculated padded input size per channel: {crossed(padded)}. Kernel size: "
                f"{crossed(reach)}. Kernel size can't be greater than actual input size"
            )
    if 0 in x.shape[2:]:
        raise RuntimeError(
            "Only zero batch or zero channel inputs are supported, but got input shape: "
            f"{list(x.shape)}"
        )
    if 0 in w.shape[2:]:
        kernel = w.shape[2:] if w.ndim > 3 else (1, *w.shape[2:])
        raise RuntimeError(
            f"kernel size should be greater than zero, but got {by_axis('kernel', kernel)}"
        )


def check_transposed(x: Any, w: Any, stride: Ints, padding: Ints, dilation: Ints, m: Ints) -> None:
    size, kernel = x.shape[2:], w.shape[2:]
    if len(kernel) == 1:  # computed as an image of one row
        size, kernel, stride, dilation = (1, *size), (1, *kernel), (1, *stride), (1, *dilation)
        padding, m = (0, *padding), (0, *m)
    if any([a >= s and a >= d for a, s, d in zip(m, stride, dilation, strict=True)]):
        raise RuntimeError(
            "output padding must be smaller than either stride or dilation, but got "
            f"{by_axis('output_padding', m)} {by_axis('stride', stride)} "
            f"{by_axis('dilation', dilation)}"
        )
    out = transposed_size(size, kernel, stride, padding, dilation, m)
    if min(out) < 1:
        raise RuntimeError(
            f"Given input size per channel: {crossed(size)}. Calculated output size per channel: "
            f"{crossed(out)}. Output size is too small"
        )


def check_kernel(dtype: Any, dims: int, dilation: Ints, transposed: bool, parts: bool) -> None:
    """The dtypes that PyTorch's inner loops lack; with `parts`, complex is done in real parts."""
    kind = dtype.kind
    if kind in "fV" or dtype.name == "int64" or (kind == "c" and parts):
        return
    dilated = any([d > 1 for d in dilation])
    if transposed:
        kernel = "slow_conv_transpose3d_out_cpu" if dims == 3 else "slow_conv_transpose2d_out_cpu"
    elif dilated:
        kernel = "slow_conv_dilated<>"
    elif kind in "bc" or (kind == "u" and dtype.itemsize > 1):
        kernel = "compute_columns3d" if dims == 3 else "slow_conv2d_cpu"
    else:
        return
    raise not_implemented(kernel, dtypes.of(dtype))


def convolve(
    input: Any,
    weight: Any,
    bias: Any,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    output_padding: Ints,
    groups: int,
    parts: bool = True,
) -> Any:
    """Any convolution of a batch, after every check."""
    x, w = input._array, weight._array
    dims = w.ndim - 2
    if dims < 1:
        raise RuntimeError("weight should have at least three dimensions")
    if groups <= 0:
        raise RuntimeError("non-positive groups is not supported")
    stride = per_dimension("stride", stride, dims)
    padding = per_dimension("padding", padding, dims)
    dilation = per_dimension("dilation", dilation, dims)
    output_padding = per_dimension("output_padding", output_padding, dims)
    b = None if bias is None else bias._array
    check_sizes(x, w, b, stride, padding, dilation, transposed, output_padding, groups)
    same_types(x, w, "weight")
    same_types(x, b, "bias")
    if x.size:
        check_kernel(x.dtype, dims, dilation, transposed, parts)
    if transposed:
        check_transposed(x, w, stride, padding, dilation, output_padding)
    if not transposed and max(stride) > 1 << 31:
        # Beyond the input all strides are alike, and NumPy's arrays have no place for these.
        stride = tuple([min(s, 1 << 31) for s in stride])
    attrs = (stride, padding, dilation, transposed, output_padding, groups)
    if x.dtype.kind == "c":
        return by_three(input, weight, bias, attrs)
    return apply(Convolution, (input, weight, bias), attrs)


def by_three(input: Any, weight: Any, bias: Any, attrs: tuple[Any, ...]) -> Any:
    """A complex convolution as three real ones, which is how PyTorch does it."""
    x, dx = real_and_imag(input)
    w, dw = real_and_imag(weight)
    b, both = None, None
    if bias is not None:
        b, db = real_and_imag(bias)
        both = b + db
    first = apply(Convolution, (x, w, b), attrs)
    second = apply(Convolution, (dx, dw, None), attrs)
    third = apply(Convolution, (x + dx, w + dw, both), attrs)
    return (first - second) + mul_number(third - first - second, 1j)


def real_and_imag(t: Any) -> tuple[Any, Any]:
    parts = apply(ViewAsReal, (t.resolve_conj(),))
    return parts.select(-1, 0), parts.select(-1, 1)


# ---------------------------------------------------------------------- the public functions


def tensors(function: str, input: Any, weight: Any, bias: Any) -> None:
    found = (("input", input), ("weight", weight), ("bias", bias))
    for position, (name, value) in enumerate(found, 1):
        if not isinstance(value, TensorBase) and not (name == "bias" and value is None):
            raise must_be_tensor(function, name, position, value)


def numbers(function: str, name: str, value: Any, dims: int) -> Ints:
    """A size given as one int for all dimensions or as several."""
    if type(value) is int:
        return (value,) * dims
    start = f"{function}(): argument '{name}'"
    if not isinstance(value, (tuple, list)):
        if hasattr(value, "__index__"):
            return (operator.index(value),) * dims
        raise TypeError(f"{start} must be tuple of ints, not {type(value).__name__}")
    for i, each in enumerate(value):
        if not hasattr(each, "__index__"):
            kind = type(each).__name__
            if i == 0:
                raise TypeError(
                    f"{start} must be tuple of ints, but found element of type {kind} at pos 0"
                )
            raise TypeError(
                f"{start} failed to unpack the object at pos {i + 1} with error "
                f'"type must be tuple of ints,but got {kind}"'
            )
    return tuple([operator.index(each) for each in value])


def invalid(function: str, name: str, value: Any) -> TypeError:
    return TypeError(
        f"{function}() received an invalid combination of arguments - got (Tensor, Tensor, "
        f"{name}={type(value).__name__}), but expected one of:"
    )


def plain_numbers(function: str, name: str, value: Any, dims: int) -> Ints:
    """`numbers` for functions that PyTorch has in two versions: the error names both."""
    try:
        return numbers(function, name, value, dims)
    except TypeError:
        raise invalid(function, name, value) from None


def batch_of(function: str, input: Any, dims: int) -> tuple[Any, bool]:
    """The input with a batch dimension, and whether it had one."""
    ndim = input._array.ndim
    if ndim == dims + 2:
        return input, True
    if ndim != dims + 1:
        raise RuntimeError(
            f"Expected {dims + 1}D (unbatched) or {dims + 2}D (batched) input to {function}, but "
            f"got input of size: {list(input._array.shape)}"
        )
    return input.unsqueeze(0), False


def conv(
    dims: int,
    input: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: Any,
) -> Any:
    key = call_key(dims, input, weight, bias, (stride, padding, dilation), groups)
    known = None if key is None else CHECKED.get(key)
    if known is not None:
        return apply(Convolution, (input, weight, bias), known[0])
    function = f"conv{dims}d"
    for value in (input, weight, *(() if bias is None else (bias,))):
        if not isinstance(value, TensorBase):
            given = [input, weight] if bias is None else [input, weight, bias]
            kinds = ["Tensor" if isinstance(g, TensorBase) else type(g).__name__ for g in given]
            raise TypeError(
                f"{function}() received an invalid combination of arguments - got "
                f"({', '.join(kinds)}), but expected one of:"
            )
    if bias is not None and bias._array.dtype != input._array.dtype:
        raise RuntimeError(
            f"Input type ({cpp_name(input._array.dtype)}) and bias type "
            f"({cpp_name(bias._array.dtype)}) should be the same"
        )
    step = plain_numbers(function, "stride", stride, dims)
    spacing = plain_numbers(function, "dilation", dilation, dims)
    if type(groups) is not int and not hasattr(groups, "__index__"):
        raise invalid(function, "groups", groups)
    x, batched = batch_of(function, input, dims)
    if isinstance(padding, str):
        x, border = padded_by_name(x, weight, step, padding, spacing)
    else:
        border = plain_numbers(function, "padding", padding, dims)
    out = convolve(x, weight, bias, step, border, spacing, False, (0,), int(groups))
    given = (stride, padding, dilation)
    if key is not None and batched and not isinstance(padding, str) and is_fixed(given):
        sizes = [per_dimension("", v, dims) for v in (step, border, spacing)]
        if len(CHECKED) >= MOST_CHECKED:
            CHECKED.clear()
        CHECKED[key] = (*sizes, False, (0,) * dims, groups), given
    return out if batched else out.squeeze(0)


# Calls that had nothing to refuse, and what the op is called with. The numbers themselves are kept
# beside it: they are known by their ids, as what is equal need not be of the right type.
CHECKED: dict[Any, tuple[Any, Any]] = {}
MOST_CHECKED = 1024


def call_key(dims: int, input: Any, weight: Any, bias: Any, sizes: Any, groups: Any) -> Any:
    """All that the checks of a call look at, for real floats; None for what is not so simple."""
    if not isinstance(input, TensorBase) or not isinstance(weight, TensorBase):
        return None
    x, w = input._array, weight._array
    if x.dtype.kind not in "fV" or type(groups) is not int:
        return None
    added = None
    if bias is not None:
        if not isinstance(bias, TensorBase):
            return None
        added = (bias._array.shape, bias._array.dtype)
    return (dims, x.shape, x.dtype, w.shape, w.dtype, added, *map(id, sizes), groups)


def padded_by_name(
    input: Any, weight: Any, stride: Ints, padding: str, dilation: Ints
) -> tuple[Any, Ints]:
    """'valid' and 'same' as numbers; what cannot be the same on both sides is padded before."""
    if padding == "valid":
        return input, (0,)
    if padding != "same":
        raise RuntimeError(f"Invalid padding string: '{padding}'")
    x, w = input._array, weight._array
    kernel = w.shape[2:]
    dims = len(kernel)
    if x.ndim != w.ndim:
        raise RuntimeError(
            f"Expected {w.ndim}-dimensional input for {w.ndim}-dimensional weight{list(w.shape)}, "
            f"but got {x.ndim}-dimensional input of size {list(x.shape)} instead"
        )
    if any([s != 1 for s in stride]):
        raise RuntimeError("padding='same' is not supported for strided convolutions")
    if len(dilation) not in (1, dims):
        raise RuntimeError(f"dilation cannot broadcast to {dims} dimensions")
    if len(dilation) == 1:
        dilation = dilation * dims
    totals = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
    border = tuple([total // 2 for total in totals])
    if any([total % 2 for total in totals]):
        warn(
            "Using padding='same' with even kernel lengths and odd dilation may require a "
            "zero-padded copy of the input be created",
        )
        more = [n for total in reversed(totals) for n in (0, total % 2)]
        input = padding_ops.constant_pad_nd(input, more, 0)
    return input, border


def conv_transpose(
    dims: int,
    input: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    output_padding: Any,
    groups: Any,
    dilation: Any,
) -> Any:
    function = f"conv_transpose{dims}d"
    tensors(function, input, weight, bias)
    step = numbers(function, "stride", stride, dims)
    border = numbers(function, "padding", padding, dims)
    more = numbers(function, "output_padding", output_padding, dims)
    spacing = numbers(function, "dilation", dilation, dims)
    if type(groups) is not int and not hasattr(groups, "__index__"):
        kind = type(groups).__name__
        raise TypeError(f"{function}(): argument 'groups' must be int, not {kind}")
    x, batched = batch_of(function, input, dims)
    out = convolve(x, weight, bias, step, border, spacing, True, more, int(groups))
    return out if batched else out.squeeze(0)


@api(
    method=False,
    samples=[
        Case(Draw(1, 2, 5), Draw(3, 2, 2), Draw(3), [2], [1], [1], False, [0], 1),
        Case(Draw(2, 2, 3, 2), Draw(2, 1, 2, 2), None, [1], [1], [1, 2], True, [0, 1], 2),
    ],
)
def convolution(
    input: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
) -> Any:
    """convolution(input, weight, bias, stride, …, groups) -> Tensor: any of the convolutions.

    >>> convolution(ones(1, 1, 3), ones(1, 1, 2), None, [1], [0], [1], False, [0], 1)
    tensor([[[2., 2.]]])
    """
    tensors("convolution", input, weight, bias)
    return convolve(
        input,
        weight,
        bias,
        as_ints("convolution", "stride", 4, stride),
        as_ints("convolution", "padding", 5, padding),
        as_ints("convolution", "dilation", 6, dilation),
        bool(transposed),
        as_ints("convolution", "output_padding", 8, output_padding),
        as_int("convolution", "groups", 9, groups),
        parts=False,
    )


def convolution_backward(
    grad_output: Any,
    input: Any,
    weight: Any,
    bias_sizes: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    output_mask: Any,
) -> tuple[Any, Any, Any]:
    """The gradients of `convolution` for input, weight and bias; None where the mask says no."""
    tensors("convolution_backward", grad_output, input, weight)
    n = weight._array.ndim - 2
    given = {"stride": stride, "padding": padding, "dilation": dilation}
    numbers = given | {"output_padding": output_padding}
    a, b, c, d = (
        per_dimension(name, as_ints("convolution_backward", name, 5, value), n)
        for name, value in numbers.items()
    )
    how = (a, b, c, bool(transposed), d, int(groups))
    g_input = g_weight = g_bias = None
    if output_mask[0]:
        g_input = apply(ConvInputGrad, (grad_output, weight), (input._array.shape, how))
    if output_mask[1]:
        g_weight = apply(ConvWeightGrad, (grad_output, input), (weight._array.shape, how))
    if output_mask[2]:
        g_bias = grad_output.sum((0, *range(2, n + 2)))
    return g_input, g_weight, g_bias


@api(
    method=False,
    aliases=("nn.functional.conv1d",),
    samples=[
        Case(Draw(2, 2, 6), Draw(3, 2, 3), Draw(3), 2, 1),
        Case(Draw(2, 5, layout="step"), Draw(4, 1, 2), None, 1, 0, 2, 2),
        Case(Draw(1, 2, 5, layout="T"), Draw(2, 2, 2), padding="same"),
    ],
    autocast=Autocast(cpu=LOWER, gpu=LOWER),
)
def conv1d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    """conv1d(input, weight, bias=None, stride=1, padding=0, …) -> Tensor: convolution: `weight`
    slides over signals.

    >>> nn.functional.conv1d(tensor([[1.0, 2.0, 4.0]]), tensor([[[-1.0, 1.0]]]))
    tensor([[1., 2.]])
    """
    return conv(1, input, weight, bias, stride, padding, dilation, groups)


@api(
    method=False,
    aliases=("nn.functional.conv2d",),
    samples=[
        Case(Draw(2, 2, 4, 3), Draw(3, 2, 3, 2), Draw(3), 1, (1, 0)),
        Case(Draw(2, 4, 4), Draw(4, 1, 2, 2), Draw(4), 2, 1, (1, 2), 2),
        Case(Draw(1, 2, 3, 3, layout="T"), Draw(1, 2, 1, 1), padding="valid"),
        Case(Draw(1, 1, 3, 4), Draw(1, 1, 3, 3), padding="same"),
        Case(Draw(0, 1, 3, 4), Draw(1, 1, 2, 2)),
    ],
    autocast=Autocast(cpu=LOWER, gpu=LOWER),
)
def conv2d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    """conv2d(input, weight, bias=None, stride=1, padding=0, …) -> Tensor: convolution: `weight`
    slides over images.

    >>> nn.functional.conv2d(ones(1, 1, 3, 3), ones(1, 1, 2, 2))
    tensor([[[[4., 4.],
              [4., 4.]]]])
    """
    return conv(2, input, weight, bias, stride, padding, dilation, groups)


@api(
    method=False,
    aliases=("nn.functional.conv3d",),
    samples=[
        Case(Draw(1, 1, 3, 3, 3), Draw(2, 1, 2, 2, 2), Draw(2)),
        Case(Draw(2, 2, 3, 3), Draw(2, 1, 1, 2, 2), None, (1, 2, 1), (0, 1, 0), 1, 2),
    ],
    autocast=Autocast(cpu=LOWER, gpu=LOWER),
)
def conv3d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    """conv3d(input, weight, bias=None, stride=1, padding=0, …) -> Tensor: convolution: `weight`
    slides over volumes.

    >>> nn.functional.conv3d(ones(1, 1, 2, 2, 2), ones(1, 1, 2, 2, 2)).item()
    8.0
    """
    return conv(3, input, weight, bias, stride, padding, dilation, groups)


@api(
    method=False,
    aliases=("nn.functional.conv_transpose1d",),
    samples=[
        Case(Draw(2, 3, 4), Draw(3, 2, 3), Draw(2), 2, 1, 1),
        Case(Draw(2, 3), Draw(2, 1, 2), None, groups=2, dilation=2),
    ],
    autocast=Autocast(cpu=LOWER, gpu=LOWER),
)
def conv_transpose1d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
    """conv_transpose1d(input, weight, bias=None, stride=1, …) -> Tensor: the transpose of conv1d.

    >>> nn.functional.conv_transpose1d(tensor([[1.0, 2.0]]), tensor([[[1.0, 10.0]]]), stride=2)
    tensor([[ 1., 10.,  2., 20.]])
    """
    return conv_transpose(1, input, weight, bias, stride, padding, output_padding, groups, dilation)


@api(
    method=False,
    aliases=("nn.functional.conv_transpose2d",),
    samples=[
        Case(Draw(2, 2, 2, 3), Draw(2, 2, 2, 2), Draw(2), (2, 1), (0, 1), (1, 0)),
        Case(Draw(4, 3, 2), Draw(4, 1, 2, 1), None, groups=2),
    ],
    autocast=Autocast(cpu=LOWER, gpu=LOWER),
)
def conv_transpose2d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
    """conv_transpose2d(input, weight, bias=None, stride=1, …) -> Tensor: the transpose of conv2d.

    >>> nn.functional.conv_transpose2d(ones(1, 1, 1, 1), ones(1, 3, 2, 2)).shape
    torch.Size([1, 3, 2, 2])
    """
    return conv_transpose(2, input, weight, bias, stride, padding, output_padding, groups, dilation)


@api(
    method=False,
    aliases=("nn.functional.conv_transpose3d",),
    samples=[
        Case(Draw(1, 2, 2, 2, 2), Draw(2, 1, 2, 1, 2), Draw(1), 2),
        Case(Draw(1, 2, 2, 2), Draw(1, 2, 2, 2, 1), None, 1, (1, 1, 0)),
    ],
    autocast=Autocast(cpu=LOWER, gpu=LOWER),
)
def conv_transpose3d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
    """conv_transpose3d(input, weight, bias=None, stride=1, …) -> Tensor: the transpose of conv3d.

    >>> nn.functional.conv_transpose3d(ones(1, 1, 1, 1), ones(1, 1, 2, 2, 2)).shape
    torch.Size([1, 2, 2, 2])
    """
    return conv_transpose(3, input, weight, bias, stride, padding, output_padding, groups, dilation)


@api(
    method=False,
    aliases=("nn.functional.conv_tbc",),
    samples=[
        Case(Draw(4, 2, 2), Draw(3, 2, 3), Draw(3), 1),
        Case(Draw(3, 1, 2), Draw(2, 2, 1), Draw(1)),
    ],
    autocast=Autocast(cpu=LOWER, gpu=LOWER),
)
def conv_tbc(input: Any, weight: Any, bias: Any, pad: int = 0) -> Any:
    """conv_tbc(input, weight, bias, pad=0) -> Tensor: convolution of (time, batch, channels).

    >>> nn.functional.conv_tbc(ones(3, 1, 1), ones(2, 1, 1), zeros(1)).flatten()
    tensor([2., 2.])
    """
    for position, (name, value) in enumerate(
        (("input", input), ("weight", weight), ("bias", bias)), 1
    ):
        if not isinstance(value, TensorBase):
            raise must_be_tensor("conv_tbc", name, position, value)
    x, w, b = input._array, weight._array, bias._array
    border = as_int("conv_tbc", "pad", 4, pad)
    if x.ndim != 3:
        raise RuntimeError("Input must have 3 dims: time, batch, in_channel")
    if w.ndim != 3:
        raise RuntimeError(
            "Weight tensor must have 3 dims: kernel_width, in_channels, out_channels."
        )
    if b.ndim != 1:
        raise RuntimeError("Bias must be 1-D")
    if x.shape[2] != w.shape[1]:
        raise RuntimeError("Input dim 2 (input channels) is not == dim 1 in the weight tensor")
    if w.shape[2] != b.shape[0]:
        raise RuntimeError("Bias size must equal dim 2 in the weight tensor (output channels).")
    if x.dtype.kind == "b":
        raise not_implemented("addmm_impl_cpu_", dtypes.of(x.dtype))
    if min(out_size(x.shape[:1], w.shape[:1], (1,), (border,), (1,))) < 0:
        raise RuntimeError("Kernel size can't be greater than actual input size")
    return apply(ConvTbc, (input, weight, bias), (border,))
