"""Resizing: nn.functional.interpolate and the older upsample functions.

Every mode is linear in the image and separable: one table of taps (resampling_taps.py) per axis.
The gradient applies the transposed tables.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from ...core.base import TensorBase
from ...core.rounding import half_as_single
from ...core.warned import warn
from ...dtypes import int64
from ...errors import does_not_fit
from ...kernels.geometry import laid_out_like
from ...kernels.resampling_taps import (
    backward_name,
    fixed_point,
    forward_name,
    mix,
    mix_bytes,
    stored_as,
    table,
    transposed,
)
from ..block import SINGLE, Autocast, Block, Case, api, apply, op
from ..block.checks import check_room, invalid_call
from ..block.samples import Draw
from .adaptive_pool import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d
from .pool_windows import Sizes, check_tensor, refuse_dtype

# Blocks: their first argument is not a `self`. `scales` has None where only the sizes count.
# ruff: noqa: N805

# ---------------------------------------------------------------------- blocks


class Upsample(Block):
    linear = True
    public = False

    def fwd(xp, input, mode, out_sizes, scales, align):
        lead = input.ndim - len(out_sizes)
        sizes = input.shape[lead:]
        in_bytes = input.dtype.kind == "u" and not mode.startswith("nearest")
        x = input if mode.startswith("nearest") else half_as_single(input)
        kind = np.float64 if x.dtype == np.float64 else np.float32
        small = len(sizes) == 2 and sum(out_sizes) <= 128
        half = x is not input and not (small and mode == "bilinear")
        for i in reversed(range(len(sizes))):
            if in_bytes:
                if sizes[i] != out_sizes[i]:
                    taps = fixed_point(mode, sizes[i], out_sizes[i], scales[i], align)
                    x = mix_bytes(xp, x, lead + i, taps)
                continue
            taps = table(mode, sizes[i], out_sizes[i], scales[i], align, kind, small)
            x = mix(xp, x, lead + i, stored_as(input.dtype, taps) if half else taps)
        out = x.copy() if x is input else x.astype(input.dtype, copy=False)
        return out if input.ndim == 3 else laid_out_like(xp, input, out, len(out_sizes))

    def d_input(F, grad, input_shape, mode, out_sizes, scales, align):
        n = len(out_sizes)
        back = getattr(F, backward_name(mode, n))
        return back(grad, mode, tuple(input_shape[len(input_shape) - n :]), scales, align)


class UpsampleBackward(Block):
    tensors = ("grad",)
    linear = True
    public = False

    def fwd(xp, grad, mode, sizes, scales, align):
        g = half_as_single(grad)
        kind = np.float64 if g.dtype == np.float64 else np.float32
        lead = g.ndim - len(sizes)
        for i, n in enumerate(sizes):
            out = g.shape[lead + i]
            g = mix(xp, g, lead + i, transposed(mode, n, out, scales[i], align, kind))
        return g.astype(grad.dtype, copy=False)

    def d_grad(F, grad, grad_shape, mode, sizes, scales, align):
        n = len(sizes)
        forward = getattr(F, forward_name(mode, n))
        return forward(grad, mode, tuple(grad_shape[len(grad_shape) - n :]), scales, align)


@op
class UpsampleNearest1d(Upsample):
    """upsample_nearest1d(input, …) -> Tensor: the nearest element to the left."""

    node = "UpsampleNearest1DBackward0"
    aten = "upsample_nearest1d"
    leading = (1,)


@op
class UpsampleNearest2d(Upsample):
    """upsample_nearest2d(input, …) -> Tensor: the nearest pixel above and to the left."""

    node = "UpsampleNearest2DBackward0"
    aten = "upsample_nearest2d"
    leading = (2,)


@op
class UpsampleNearest3d(Upsample):
    """upsample_nearest3d(input, …) -> Tensor: the nearest voxel below."""

    node = "UpsampleNearest3DBackward0"
    aten = "upsample_nearest3d"
    leading = (3,)


@op
class UpsampleNearestExact1d(Upsample):
    """upsample_nearest_exact1d(input, …) -> Tensor: the element whose centre is nearest."""

    node = "UpsampleNearestExact1DBackward0"
    aten = "_upsample_nearest_exact1d"
    leading = (1,)


@op
class UpsampleNearestExact2d(Upsample):
    """upsample_nearest_exact2d(input, …) -> Tensor: the pixel whose centre is nearest."""

    node = "UpsampleNearestExact2DBackward0"
    aten = "_upsample_nearest_exact2d"
    leading = (2,)


@op
class UpsampleNearestExact3d(Upsample):
    """upsample_nearest_exact3d(input, …) -> Tensor: the voxel whose centre is nearest."""

    node = "UpsampleNearestExact3DBackward0"
    aten = "_upsample_nearest_exact3d"
    leading = (3,)


@op
class UpsampleLinear1d(Upsample):
    """upsample_linear1d(input, …) -> Tensor: between the two neighbours."""

    node = "UpsampleLinear1DBackward0"
    aten = "upsample_linear1d"
    leading = (1,)


@op
class UpsampleBilinear2d(Upsample):
    """upsample_bilinear2d(input, …) -> Tensor: between the four neighbours."""

    node = "UpsampleBilinear2DBackward0"
    aten = "upsample_bilinear2d"
    leading = (2,)


@op
class UpsampleTrilinear3d(Upsample):
    """upsample_trilinear3d(input, …) -> Tensor: between the eight neighbours."""

    node = "UpsampleTrilinear3DBackward0"
    aten = "upsample_trilinear3d"
    leading = (3,)


@op
class UpsampleBicubic2d(Upsample):
    """upsample_bicubic2d(input, …) -> Tensor: by cubics through sixteen neighbours."""

    node = "UpsampleBicubic2DBackward0"
    aten = "upsample_bicubic2d"
    leading = (2,)


@op
class UpsampleBilinearAa2d(Upsample):
    """upsample_bilinear_aa2d(input, …) -> Tensor: weighted by a triangle, without aliasing."""

    node = "UpsampleBilinear2DAaBackward0"
    aten = "_upsample_bilinear2d_aa"
    leading = (2,)


@op
class UpsampleBicubicAa2d(Upsample):
    """upsample_bicubic_aa2d(input, …) -> Tensor: weighted by a cubic, without aliasing."""

    node = "UpsampleBicubic2DAaBackward0"
    aten = "_upsample_bicubic2d_aa"
    leading = (2,)


@op
class UpsampleLanczosAa2d(Upsample):
    """upsample_lanczos_aa2d(input, …) -> Tensor: weighted by a windowed sinc."""

    node = "UpsampleLanczos2DAaBackward0"
    aten = None
    leading = (2,)


@op
class UpsampleNearest1dBackward(UpsampleBackward):
    """upsample_nearest1d_backward(grad, …) -> Tensor: the gradient."""

    node = "UpsampleNearest1DBackwardBackward0"
    aten = "upsample_nearest1d_backward"
    leading = (1,)


@op
class UpsampleNearest2dBackward(UpsampleBackward):
    """upsample_nearest2d_backward(grad, …) -> Tensor: the gradient."""

    node = "UpsampleNearest2DBackwardBackward0"
    aten = "upsample_nearest2d_backward"
    leading = (2,)


@op
class UpsampleNearest3dBackward(UpsampleBackward):
    """upsample_nearest3d_backward(grad, …) -> Tensor: the gradient."""

    node = "UpsampleNearest3DBackwardBackward0"
    aten = "upsample_nearest3d_backward"
    leading = (3,)


@op
class UpsampleNearestExact1dBackward(UpsampleBackward):
    """upsample_nearest_exact1d_backward(grad, …) -> Tensor: the gradient."""

    node = "UpsampleNearestExact1DBackwardBackward0"
    aten = None
    leading = (1,)


@op
class UpsampleNearestExact2dBackward(UpsampleBackward):
    """upsample_nearest_exact2d_backward(grad, …) -> Tensor: the gradient."""

    node = "UpsampleNearestExact2DBackwardBackward0"
    aten = None
    leading = (2,)


@op
class UpsampleNearestExact3dBackward(UpsampleBackward):
    """upsample_nearest_exact3d_backward(grad, …) -> Tensor: the gradient."""

    node = "UpsampleNearestExact3DBackwardBackward0"
    aten = None
    leading = (3,)


@op
class UpsampleLinear1dBackward(UpsampleBackward):
    """upsample_linear1d_backward(grad, …) -> Tensor: the gradient."""

    node = "UpsampleLinear1DBackwardBackward0"
    aten = "upsample_linear1d_backward"
    leading = (1,)


@op
class UpsampleBilinear2dBackward(UpsampleBackward):
    """upsample_bilinear2d_backward(grad, …) -> Tensor: the gradient."""

    node = "UpsampleBilinear2DBackwardBackward0"
    aten = "upsample_bilinear2d_backward"
    leading = (2,)


@op
class UpsampleTrilinear3dBackward(UpsampleBackward):
    """upsample_trilinear3d_backward(grad, …) -> Tensor: the gradient."""

    node = "UpsampleTrilinear3DBackwardBackward0"
    aten = "upsample_trilinear3d_backward"
    leading = (3,)


@op
class UpsampleBicubic2dBackward(UpsampleBackward):
    """upsample_bicubic2d_backward(grad, …) -> Tensor: the gradient."""

    node = "UpsampleBicubic2DBackwardBackward0"
    aten = "upsample_bicubic2d_backward"
    leading = (2,)


@op
class UpsampleBilinearAa2dBackward(UpsampleBackward):
    """upsample_bilinear_aa2d_backward(grad, …) -> Tensor: the gradient."""

    node = "UpsampleBilinear2DAaBackwardBackward0"
    aten = None
    leading = (2,)


@op
class UpsampleBicubicAa2dBackward(UpsampleBackward):
    """upsample_bicubic_aa2d_backward(grad, …) -> Tensor: the gradient."""

    node = "UpsampleBicubic2DAaBackwardBackward0"
    aten = None
    leading = (2,)


@op
class UpsampleLanczosAa2dBackward(UpsampleBackward):
    """upsample_lanczos_aa2d_backward(grad, …) -> Tensor: the gradient."""

    node = "UpsampleLanczos2DAaBackwardBackward0"
    aten = None
    leading = (2,)


# ---------------------------------------------------------------------- arguments

ALL_MODES = "nearest | linear | bilinear | bicubic | trilinear | lanczos | area | nearest-exact"
# The dimensions of the image that a mode is for, and its kernel in PyTorch's complaints.
RANKS = {"linear": 1, "bilinear": 2, "bicubic": 2, "trilinear": 3, "lanczos": 2}
AXES = {1: "W", 2: "HW", 3: "DHW"}
ALIGNED = ("linear", "bilinear", "bicubic", "trilinear")


def kernel_name(mode: str, n: int) -> str:
    if mode.endswith("-aa"):
        return "compute_index_ranges_weights"
    if mode.startswith("nearest"):
        return "upsample_nearest2d_channels_last" if n == 2 else "compute_indices_weights_nearest"
    if mode == "bicubic":
        return "compute_indices_weights_cubic"
    return "upsample_bilinear2d_channels_last" if n == 2 else "compute_indices_weights_linear"


def check_sizes(shape: Sizes, out: Sizes) -> None:
    n = len(out)
    given = shape[2:]
    if min(given) <= 0 or min(out) <= 0:
        axes = AXES[n]
        before = ", ".join([f"{a}: {v}" for a, v in zip(axes, given, strict=True)])
        after = ", ".join([f"{a}: {v}" for a, v in zip(axes, out, strict=True)])
        joint = "and " if n == 1 else ""
        raise RuntimeError(
            "Input and output sizes should be greater than 0, but got input "
            f"({before}) {joint}output ({after})"
        )
    if shape[1] == 0:
        raise RuntimeError(
            f"Non-empty {n + 2}D data tensor expected but got a tensor with sizes {list(shape)}"
        )


def wanted_sizes(given: list[int], size: Any) -> Sizes:
    n = len(given)
    if isinstance(size, (list, tuple)):
        if len(size) != n:
            raise ValueError(
                "Input and output must have the same number of spatial dimensions, but got input "
                f"with spatial dimensions of {given} and output size of {size}. Please provide "
                "input tensor in (N, C, d1, d2, ...,dK) format and output size in (o1, o2, "
                "...,oK) format."
            )
        if not all([hasattr(v, "__index__") for v in size]):
            raise TypeError(
                "expected size to be one of int or Tuple[int] or Tuple[int, int] or Tuple[int, "
                f"int, int], but got size with types {[type(v) for v in size]}"
            )
        return tuple([operator.index(v) for v in size])
    if not hasattr(size, "__index__") or (isinstance(size, TensorBase) and size._array.ndim):
        if n not in (1, 2, 3):
            return ()  # the number of dimensions is what is complained about
        raise TypeError(
            f"upsample_nearest{n}d() received an invalid combination of arguments - got (Tensor, "
            "list, NoneType), but expected one of:"
        )
    if not isinstance(size, int) or size < 1 << 63:
        return (operator.index(size),) * n
    if n not in (1, 2, 3):
        return ()
    raise TypeError(
        f"upsample_nearest{n}d(): argument 'output_size' failed to unpack the object at pos 1 with "
        'error "Overflow when unpacking long long"'
    )


def scaled_size(size: int, factor: float) -> int:
    if not math.isfinite(size * factor):
        raise does_not_fit(int64)
    return math.floor(size * factor)


def wanted_scales(given: list[int], scale_factor: Any) -> list[float]:
    n = len(given)
    if isinstance(scale_factor, (list, tuple)):
        if len(scale_factor) != n:
            raise ValueError(
                "Input and scale_factor must have the same number of spatial dimensions, but got "
                f"input with spatial dimensions of {given} and scale_factor of shape "
                f"{scale_factor}. Please provide input tensor in (N, C, d1, d2, ...,dK) format and "
                "scale_factor in (s1, s2, ...,sK) format."
            )
        return [float(s) for s in scale_factor]
    if isinstance(scale_factor, str):
        raise TypeError(
            f"upsample_nearest{n}d() received an invalid combination of arguments - got (Tensor, "
            "NoneType, list), but expected one of:"
        )
    return [float(scale_factor)] * n


# ---------------------------------------------------------------------- public functions


@api(
    name="nn.functional.interpolate",
    method=False,
    samples=[
        Case(Draw(1, 2, 4), size=7),
        Case(Draw(1, 2, 3, 4), scale_factor=2, mode="nearest-exact"),
        Case(Draw(1, 2, 5), scale_factor=1.7, mode="linear"),
        Case(Draw(1, 2, 3, 4, layout="T"), size=(5, 3), mode="bilinear", align_corners=True),
        Case(Draw(1, 1, 4, 3), scale_factor=(1.5, 2.0), mode="bicubic"),
        Case(Draw(1, 1, 2, 3, 2), size=(3, 2, 4), mode="trilinear"),
        Case(Draw(1, 1, 5, 6), size=(3, 2), mode="bilinear", antialias=True),
        Case(Draw(1, 1, 5, 4), size=(3, 6), mode="area"),
    ],
    autocast=Autocast(gpu=SINGLE),
)
def interpolate(
    input: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Any:
    """interpolate(input, size=None, scale_factor=None, mode='nearest') -> Tensor: images (or
    signals, volumes) resized to `size`.

    >>> nn.functional.interpolate(tensor([[[1.0, 3.0]]]), size=4, mode="linear")
    tensor([[[1.0000, 1.5000, 2.5000, 3.0000]]])
    """
    array = check_tensor("interpolate", input)
    if align_corners is not None and mode not in ALIGNED:
        raise ValueError(
            "align_corners option can only be set with the interpolating modes: linear | bilinear "
            "| bicubic | trilinear"
        )
    shape = array.shape
    n = array.ndim - 2
    given = list(shape[2:])
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    scales: tuple[float | None, ...] = (None,) * max(n, 0)
    out: Sizes
    if size is not None:
        out = wanted_sizes(given, size)
        if recompute_scale_factor:
            raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
    elif scale_factor is not None:
        factors = wanted_scales(given, scale_factor)
        out = tuple([scaled_size(v, s) for v, s in zip(given, factors, strict=True)])
        if not recompute_scale_factor:
            scales = tuple(factors)
    else:
        raise ValueError("either size or scale_factor should be defined")
    if antialias and not (mode in ("bilinear", "bicubic", "lanczos") and n == 2):
        raise ValueError(
            "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires "
            "a 4-D tensor as input"
        )
    if mode == "lanczos" and not antialias:
        raise ValueError("Lanczos mode requires antialias=True")
    if n in (1, 2, 3):
        if mode == "area":
            pool = (adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d)[n - 1]
            return pool(input, out)
        if mode in ("linear", "bilinear", "trilinear") and RANKS[mode] != n:
            raise NotImplementedError(
                f"Got {n + 2}D input, but {mode} mode needs {RANKS[mode] + 2}D input"
            )
        if mode in ("nearest", "nearest-exact") or RANKS.get(mode) == n:
            if align_corners not in (None, True, False) or isinstance(size, bool):
                raise invalid_call(f"upsample_{mode}{n}d", input, out, align_corners)
            full = f"{mode}-aa" if antialias else mode
            return resized(input, full, out, scales, bool(align_corners))
    raise NotImplementedError(
        f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {array.ndim}D) for the "
        f"modes: {ALL_MODES} (got {mode})"
    )


def resized(
    input: Any, mode: str, out: Sizes, scales: tuple[float | None, ...], align: bool
) -> Any:
    """Check and run one of the blocks."""
    n = len(out)
    check_sizes(input._array.shape, out)
    check_room(math.prod(input._array.shape[:2]) * math.prod(out) * input._array.itemsize)
    bytes_too = mode.startswith("nearest") or n == 2
    kinds = "fV" if input._array.dtype != np.uint8 or not bytes_too else "u"
    refuse_dtype(kernel_name(mode, n), input, kinds, half=not mode.endswith("-aa"))
    return apply(BLOCKS[forward_name(mode, n)], (input,), (mode, out, scales, align))


BLOCKS = {
    block.name: block
    for block in (
        UpsampleNearest1d,
        UpsampleNearest2d,
        UpsampleNearest3d,
        UpsampleNearestExact1d,
        UpsampleNearestExact2d,
        UpsampleNearestExact3d,
        UpsampleLinear1d,
        UpsampleBilinear2d,
        UpsampleTrilinear3d,
        UpsampleBicubic2d,
        UpsampleBilinearAa2d,
        UpsampleBicubicAa2d,
        UpsampleLanczosAa2d,
    )
}


def warn_old(name: str) -> None:
    warn(
        f"`nn.functional.{name}` is deprecated. Use `nn.functional.interpolate` instead.",
    )


@api(
    name="nn.functional.upsample",
    method=False,
    samples=[Case(Draw(1, 2, 4), 7)],
    autocast=Autocast(gpu=SINGLE),
)
def upsample(
    input: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Any:
    """upsample(input, size=None, scale_factor=None, mode='nearest') -> Tensor: `interpolate`.

    >>> nn.functional.upsample(tensor([[[1.0, 3.0]]]), scale_factor=2)
    tensor([[[1., 1., 3., 3.]]])
    """
    warn_old("upsample")
    return interpolate(input, size, scale_factor, mode, align_corners)


@api(
    name="nn.functional.upsample_nearest",
    method=False,
    samples=[Case(Draw(1, 2, 2, 3), 4)],
    autocast=Autocast(gpu=SINGLE),
)
def upsample_nearest(input: Any, size: Any = None, scale_factor: Any = None) -> Any:
    """upsample_nearest(input, size=None, scale_factor=None) -> Tensor: `interpolate`, nearest.

    >>> nn.functional.upsample_nearest(tensor([[[1.0, 3.0]]]), scale_factor=2)
    tensor([[[1., 1., 3., 3.]]])
    """
    warn_old("upsample_nearest")
    return interpolate(input, size, scale_factor, mode="nearest")


@api(
    name="nn.functional.upsample_bilinear",
    method=False,
    samples=[Case(Draw(1, 2, 2, 3), 4)],
    autocast=Autocast(gpu=SINGLE),
)
def upsample_bilinear(input: Any, size: Any = None, scale_factor: Any = None) -> Any:
    """upsample_bilinear(input, size=None, scale_factor=None) -> Tensor: with aligned corners.

    >>> nn.functional.upsample_bilinear(tensor([[[[1.0, 3.0]]]]), size=(1, 3))
    tensor([[[[1., 2., 3.]]]])
    """
    warn_old("upsample_bilinear")
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)
