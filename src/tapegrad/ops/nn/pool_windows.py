"""Sliding windows: sizes as PyTorch computes and checks them, and the slices that walk over them.

A window is never cut out one by one. For each offset inside the kernel, one strided slice of the
(padded) input holds that element of every window at once.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterator
from typing import Any

from ...core.arguments import is_fixed
from ...core.base import TensorBase
from ...core.host_arrays import host
from ...errors import must_be_tensor
from ..block import api
from ..block.checks import not_implemented

Sizes = tuple[int, ...]
COUNT = {2: "two", 3: "three"}  # of the pooled dimensions, in sentences
AXES = {2: "HW", 3: "THW"}

# ---------------------------------------------------------------------- arguments


def is_whole(value: Any) -> bool:
    if isinstance(value, TensorBase):
        return value._array.ndim == 0 and value._array.dtype.kind in "iub"
    return hasattr(value, "__index__") and not isinstance(value, bool)


def ints(function: str, name: str, position: int, value: Any) -> Sizes:
    """One or several integers, as PyTorch's parser takes them."""
    if type(value) is int:
        if not -(1 << 63) <= value < 1 << 63:
            raise ValueError("Overflow when unpacking long long")
        return (value,)
    if isinstance(value, (tuple, list)):
        for i, each in enumerate(value):
            if not is_whole(each):
                raise TypeError(
                    f"{function}(): argument '{name}' (position {position}) must be tuple of ints, "
                    f"but found element of type {type(each).__name__} at pos {i}"
                )
        return tuple([operator.index(v) for v in value])
    if is_whole(value):
        return (operator.index(value),)
    raise TypeError(
        f"{function}(): argument '{name}' (position {position}) must be tuple of ints, not "
        f"{type(value).__name__}"
    )


def per_axis(values: Sizes, n: int, complaint: str) -> Sizes:
    """One value for all axes, or one for each."""
    if len(values) == n:
        return values
    if len(values) == 1:
        return values * n
    raise RuntimeError(complaint)


def one_int(function: str, name: str, position: int, value: Any) -> Sizes:
    """The argument of a 1-d function: one integer, perhaps in a list."""
    found = ints(function, name, position, value)
    if len(found) != 1:
        raise RuntimeError(
            f"{function}() argument '{name}' should contain one int (got {len(found)})"
        )
    return found


def check_tensor(function: str, input: Any) -> Any:
    if not isinstance(input, TensorBase):
        raise must_be_tensor(function, "input", 1, input)
    return input._array


# Calls that had nothing to refuse: what the op is called with, and the arguments, which are known
# by their ids, as what is equal need not be of the right type.
CHECKED: dict[Any, tuple[Any, Any]] = {}
MOST_CHECKED = 1024


def remember(key: Any, given: tuple[Any, ...], attrs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The attributes of an op, kept for the next such call if its arguments cannot change."""
    if not is_fixed(given):
        return attrs
    if len(CHECKED) >= MOST_CHECKED:
        CHECKED.clear()
    CHECKED[key] = attrs, given
    return attrs


def check_one_axis(function: str, array: Any) -> None:
    if array.ndim not in (2, 3):
        raise RuntimeError(
            f"Expected 2 to 3 dimensions, but got {array.ndim}-dimensional tensor for argument #1 "
            f"'self' (while checking arguments for {function})"
        )


def refuse_dtype(kernel: str, input: Any, kinds: str = "fV", half: bool = True) -> None:
    """Raise in PyTorch's words unless the dtype is of one of the NumPy kinds ("V": bfloat16)."""
    dtype = input._array.dtype
    if dtype.kind not in kinds or (not half and dtype.itemsize == 2 and dtype.kind in "fV"):
        raise not_implemented(kernel, input.dtype)


def output_sizes(
    sizes: Sizes, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, ceil: bool
) -> Sizes:
    """How many windows there are along each axis."""
    found = []
    for n, k, s, p, d in zip(sizes, kernel, stride, padding, dilation, strict=True):
        if s == 0:
            raise RuntimeError("stride should not be zero")
        if p < 0:
            raise RuntimeError(f"pad must be non-negative, but got pad: {p}")
        if p > int(((k - 1) * d + 1) / 2):
            raise RuntimeError(
                "pad should be at most half of effective kernel size, but got "
                f"pad={p}, kernel_size={k} and dilation={d}"
            )
        found.append(output_size(n, k, s, p, d, ceil))
    return tuple(found)


def output_size(n: int, k: int, s: int, p: int, d: int, ceil: bool) -> int:
    out = (n + 2 * p - d * (k - 1) - 1 + (s - 1 if ceil else 0)) // s + 1
    if ceil and (out - 1) * s >= n + p:
        out -= 1  # the last window would begin in the padding
    return out


def check_pool(
    function: str,
    shape: Sizes,
    kernel: Sizes,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    out: Sizes,
    fits: bool = False,
) -> None:
    """PyTorch's checks of the shape of a pooled tensor; `fits`: no kernel past the edge."""
    n = len(kernel)
    axes = AXES[n]
    for what, letter, values in (
        ("kernel size", "k", kernel),
        ("stride", "d", stride),
        ("dilation", "dilation", dilation),
    ):
        if min(values) <= 0:
            found = " ".join([f"{letter}{a}: {v}" for a, v in zip(axes, values, strict=True)])
            raise RuntimeError(f"{what} should be greater than zero, but got {found}")
    entry = shape[1:] if len(shape) == n + 2 else shape
    if n == 2 and (len(shape) not in (3, 4) or 0 in entry):
        raise RuntimeError(
            "Expected 3D or 4D (batch mode) tensor with optional 0 dim batch size for input, "
            f"but got:{list(shape)}"
        )
    if 0 in entry:
        # PyTorch names the first dimension whichever it is.
        raise RuntimeError(
            f"{function}: Expected input's non-batch dimensions to have positive length, but input "
            f"has a shape of {list(shape)} and non-batch dimension 0 has length zero!"
        )
    if fits and any([k > size for k, size in zip(kernel, entry[1:], strict=True)]):
        found = " ".join([f"{a}: {v}" for a, v in zip(axes, entry[1:], strict=True)])
        wanted = " ".join([f"k{a}: {v}" for a, v in zip(axes, kernel, strict=True)])
        raise RuntimeError(f"input image ({found}) smaller than kernel size ({wanted})")
    if any([p > k // 2 for p, k in zip(padding, kernel, strict=True)]):
        if n == 2:
            found = f"padW = {padding[1]}, padH = {padding[0]}, kW = {kernel[1]}, kH = {kernel[0]}"
        else:
            shown = [(a, "THW".index(a)) for a in "TWH"]
            found = " ".join([f"k{a}: {kernel[i]}" for a, i in shown])
            found += "".join([f" pad{a}: {padding[i]}" for a, i in shown])
        raise RuntimeError(
            f"pad should be smaller than or equal to half of kernel size, but got {found}"
        )
    if min(out) < 1:
        given = "x".join([str(v) for v in entry])
        computed = "x".join([str(v) for v in (entry[0], *out)])
        raise RuntimeError(
            f"Given input size: ({given}). Calculated output size: ({computed}). Output size is "
            "too small"
        )


# ---------------------------------------------------------------------- walking over windows


def offsets(kernel: Sizes) -> Iterator[Sizes]:
    """The places inside a window, the last axis fastest."""
    return itertools.product(*[range(k) for k in kernel])


def cut(offset: Sizes, stride: Sizes, dilation: Sizes, out: Sizes) -> tuple[Any, ...]:
    """The index of this element of all windows in the padded input."""
    parts = [
        slice(k * d, k * d + (n - 1) * s + 1, s)
        for k, s, d, n in zip(offset, stride, dilation, out, strict=True)
    ]
    return (..., *parts)


def margins(
    sizes: Sizes, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, out: Sizes
) -> list[tuple[int, int]]:
    """Per axis, how much has to be added before and after for every window to lie inside."""
    found = []
    for n, k, s, p, d, o in zip(sizes, kernel, stride, padding, dilation, out, strict=True):
        found.append((p, max((o - 1) * s + d * (k - 1) + 1 - p - n, 0)))
    return found


def padded(xp: Any, x: Any, around: list[tuple[int, int]], fill: Any) -> Any:
    """`x` with `fill` around its last axes; itself if nothing is to be added."""
    if not any([a or b for a, b in around]):
        return x
    lead = x.ndim - len(around)
    sizes = x.shape[lead:]
    larger = [size + a + b for size, (a, b) in zip(sizes, around, strict=True)]
    whole = xp.full((*x.shape[:lead], *larger), fill, x.dtype)
    whole[inner(sizes, around)] = x
    return whole


def inner(sizes: Sizes, around: list[tuple[int, int]]) -> tuple[Any, ...]:
    """The index of the part that is not padding."""
    return (..., *[slice(a, a + size) for size, (a, _) in zip(sizes, around, strict=True)])


def volume(sizes: Sizes) -> int:
    return math.prod(sizes)


# ---------------------------------------------------------------------- indices into planes


def picked(F: Any, x: Any, indices: Any, n: int) -> Any:
    """The elements of `x` at `indices` into its last `n` dimensions as one."""
    lead = len(x.shape) - n
    flat = F.reshape(x, (*x.shape[:lead], volume(x.shape[lead:])))
    at = F.reshape(indices, (*x.shape[:lead], volume(indices.shape[lead:])))
    return F.reshape(F.gather(flat, at, lead), tuple(indices.shape))


def scattered(xp: Any, values: Any, indices: Any, sizes: Sizes, apart: bool = False) -> Any:
    """Planes of `sizes` with `values` added up at `indices` into each; `apart`: no index twice."""
    lead = values.shape[: values.ndim - len(sizes)]
    plane, planes = volume(sizes), volume(lead)
    if not values.size:
        return xp.zeros((*lead, *sizes), values.dtype)
    if xp is not host or int(indices.max()) >= plane:
        # A dilated window with nothing but padding has its maximum nowhere.
        inside = indices < plane
        values, indices = xp.where(inside, values, values.dtype.type(0)), indices * inside
        apart = False
    at = indices.reshape(planes, -1) + xp.arange(0, planes * plane, plane).reshape(-1, 1)
    if apart:
        total = xp.zeros(planes * plane, values.dtype)
        total[at.reshape(-1)] = values.reshape(-1)
    elif xp is not host:
        total = xp.zeros(planes * plane, values.dtype)
        xp.add.at(total, at.reshape(-1), values.reshape(-1))
    else:
        weights = values.reshape(-1).astype(xp.float64)
        total = xp.bincount(at.reshape(-1), weights, planes * plane).astype(values.dtype)
    return total.reshape(*lead, *sizes)


def published(source: Any, made: Any, fields: dict[str, Any]) -> Any:
    """Publish `made`, which has the signature, as what `source`, which does the work, is called."""
    made.__name__, made.__doc__ = source.__name__, source.__doc__
    return api(name=f"nn.functional.{source.__name__}", method=False, **fields)(made)
