"""Reading an image at given points: grid_sample, and affine_grid, which makes such points.

A sample is a sum over the neighbours of a point, one factor of weight per axis. As a function of
the grid it is a polynomial between pixels; `order` says how often it is differentiated along each
axis. With that, derivatives of any order follow from three ops: reading (`grid_sampler_…`), its
transpose, adding back (`grid_adder_…`), and how samples change with the points (`grid_slope_…`).
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from ... import dtypes
from ...core.base import TensorBase
from ...core.host_arrays import host
from ...core.rounding import half_as_single
from ...core.warned import warn
from ...errors import must_be_tensor
from ..block import SINGLE, WIDEST, Autocast, Block, Case, Linear, api, apply, op
from ..block.checks import as_int, not_implemented, only_bool
from ..block.samples import Draw, Index
from .grid_taps import (
    BICUBIC,
    BILINEAR,
    BORDER,
    NEAREST,
    REFLECTION,
    ZEROS,
    all_taps,
    channels_last,
    corner,
    pixel_of,
)
from .pool_windows import check_tensor, refuse_dtype, volume

# Blocks: their first argument is not a `self`. Axes are counted as in the image, (depth,) height,
# width; the last dimension of a grid has them in the opposite order.
# ruff: noqa: N805

MODES = {"bilinear": BILINEAR, "nearest": NEAREST, "bicubic": BICUBIC}
PADDINGS = {"zeros": ZEROS, "border": BORDER, "reflection": REFLECTION}

# ---------------------------------------------------------------------- blocks


class Sampler(Block):
    """Reading: linear in the image. (batch, channels, …) at (batch, …, axes)."""

    tensors = ("input", "grid")
    public = False
    fold = True

    def fwd(xp, input, grid, mode, padding, align, order):
        # In the dtype of the input, also in half precision: PyTorch's kernels do the same.
        batch, channels = input.shape[:2]
        sizes = input.shape[2:]
        pixels = channels_last(xp, input)
        points = grid.reshape(batch, volume(grid.shape[1:-1]), len(order))
        axes = all_taps(xp, points, sizes, mode, padding, align, order)
        total = xp.zeros((*points.shape[:2], channels), input.dtype)
        if mode == BICUBIC:
            for above in axes[0]:
                row = xp.zeros_like(total)
                for place, within, by in axes[1]:
                    inside = above[1] & within
                    at = pixel_of(xp, above[0] * sizes[1] + place, inside, sizes)
                    row += pixels.take(at, 0) * by[..., None]
                total += row * above[2][..., None]
        else:
            for taps in itertools.product(*axes):
                index, inside, by = corner(xp, taps, sizes)
                total += pixels.take(pixel_of(xp, index, inside, sizes), 0) * by[..., None]
        out = xp.ascontiguousarray(total.transpose(0, 2, 1))
        return out.reshape(batch, channels, *grid.shape[1:-1])

    def d_input(F, grad, grid, input_shape, mode, padding, align, order):
        sizes = tuple(input_shape[2:])
        adder = F.grid_adder_2d if len(order) == 2 else F.grid_adder_3d
        return adder(grad, grid, sizes, mode, padding, align, order)

    def d_grid(F, grad, input, grid, mode, padding, align, order):
        return along_grid(F, grad, input, grid, mode, padding, align, order)

    def jvp(F, input, grid, t_input, t_grid, mode, padding, align, order):
        parts = []
        if t_input is not None:
            parts.append(sampler_of(F, order)(t_input, grid, mode, padding, align, order))
        if t_grid is not None:
            parts.append(moved_by(F, t_grid, input, grid, mode, padding, align, order))
        return summed(parts)


class Adder(Block):
    """The transpose: every value is added to the pixels that its point would have read."""

    tensors = ("values", "grid")
    public = False
    fold = True

    def fwd(xp, values, grid, sizes, mode, padding, align, order):
        batch, channels = values.shape[:2]
        count = volume(grid.shape[1:-1])
        points = half_as_single(grid).reshape(batch, count, len(order))
        given = half_as_single(values).reshape(batch, channels, count)
        planes = batch * channels
        start = xp.arange(planes).reshape(batch, channels, 1) * volume(sizes)
        outside = planes * volume(sizes)  # one more place, for what has none
        total = xp.zeros(outside + 1, np.float64)
        axes = all_taps(xp, points, sizes, mode, padding, align, order)
        for taps in itertools.product(*axes) if given.size else ():
            index, inside, by = corner(xp, taps, sizes)
            at = xp.where(inside[:, None], index[:, None] + start, outside).reshape(-1)
            added = (given * by[:, None]).reshape(-1).astype(np.float64)
            if xp is host:
                total += xp.bincount(at, added, outside + 1)
            else:
                xp.add.at(total, at, added)
        return total[:-1].reshape(batch, channels, *sizes).astype(values.dtype)

    def d_values(F, grad, grid, mode, padding, align, order):
        return sampler_of(F, order)(grad, grid, mode, padding, align, order)

    def d_grid(F, grad, values, grid, mode, padding, align, order):
        return along_grid(F, values, grad, grid, mode, padding, align, order)

    def jvp(F, values, grid, t_values, t_grid, sizes, mode, padding, align, order):
        adder = F.grid_adder_2d if len(order) == 2 else F.grid_adder_3d
        how = (sizes, mode, padding, align)
        parts = []
        if t_values is not None:
            parts.append(adder(t_values, grid, *how, order))
        if t_grid is not None:
            for d in range(len(order)):
                steered = values * component(F, t_grid, d)
                parts.append(adder(steered, grid, *how, raised(order, d)))
        return summed(parts)


def sampler_of(F: Any, order: Any) -> Any:
    return F.grid_sampler_2d if len(order) == 2 else F.grid_sampler_3d


def component(F: Any, grid: Any, d: int) -> Any:
    """The coordinates of a grid along one axis of the image, with a dimension for the channels."""
    last = len(grid.shape) - 1
    return F.unsqueeze(F.select(grid, last, last - 2 - d), 1)


def raised(order: Any, d: int) -> Any:
    """Differentiated once more along axis `d`."""
    return (*order[:d], order[d] + 1, *order[d + 1 :])


def along_grid(F: Any, values: Any, image: Any, grid: Any, *how: Any) -> Any:
    slope = F.grid_slope_2d if len(how[-1]) == 2 else F.grid_slope_3d
    return slope(values, image, grid, *how)


class Slope(Block):
    """How a sum of samples, weighted by `values`, changes with the points: (batch, …, axes)."""

    tensors = ("values", "input", "grid")
    public = False
    fold = True

    def fwd(xp, values, input, grid, mode, padding, align, order):
        batch, channels = input.shape[:2]
        sizes = input.shape[2:]
        n = len(order)
        count = volume(grid.shape[1:-1])
        pixels = channels_last(xp, half_as_single(input))
        points = half_as_single(grid).reshape(batch, count, n)
        given = half_as_single(values).reshape(batch, channels, count).transpose(0, 2, 1)
        given = xp.ascontiguousarray(given)
        plain, steep = [
            all_taps(xp, points, sizes, mode, padding, align, orders)
            for orders in (order, tuple([o + 1 for o in order]))
        ]
        total = xp.zeros((batch, count, n), given.dtype)
        for which in itertools.product(*[range(len(taps)) for taps in plain]):
            taps = [plain[d][k] for d, k in enumerate(which)]
            index, inside, _ = corner(xp, taps, sizes)
            read = pixels.take(pixel_of(xp, index, inside, sizes), 0)
            weighted = xp.einsum("bpc,bpc->bp", given, read)
            for d in range(n):
                by = steep[d][which[d]][2]
                for e in range(n):
                    if e != d:
                        by = by * taps[e][2]
                total[..., n - 1 - d] += weighted * xp.where(inside, by, by.dtype.type(0))
        return total.reshape(grid.shape).astype(grid.dtype, copy=False)

    def d_values(F, grad, input, grid, mode, padding, align, order):
        return moved_by(F, grad, input, grid, mode, padding, align, order)

    def d_input(F, grad, values, input_shape, grid, mode, padding, align, order):
        adder = F.grid_adder_2d if len(order) == 2 else F.grid_adder_3d
        sizes = tuple(input_shape[2:])
        return summed(
            [
                adder(
                    values * component(F, grad, d),
                    grid,
                    sizes,
                    mode,
                    padding,
                    align,
                    raised(order, d),
                )
                for d in range(len(order))
            ]
        )

    def d_grid(F, grad, values, input, grid, mode, padding, align, order):
        return summed(
            [
                along_grid(
                    F,
                    values * component(F, grad, d),
                    input,
                    grid,
                    mode,
                    padding,
                    align,
                    raised(order, d),
                )
                for d in range(len(order))
            ]
        )

    def jvp(F, values, input, grid, t_values, t_input, t_grid, mode, padding, align, order):
        how = (mode, padding, align)
        parts = []
        if t_values is not None:
            parts.append(along_grid(F, t_values, input, grid, *how, order))
        if t_input is not None:
            parts.append(along_grid(F, values, t_input, grid, *how, order))
        if t_grid is not None:
            for d in range(len(order)):
                steered = values * component(F, t_grid, d)
                parts.append(along_grid(F, steered, input, grid, *how, raised(order, d)))
        return summed(parts)


def moved_by(
    F: Any, speed: Any, input: Any, grid: Any, mode: int, padding: int, align: bool, order: Any
) -> Any:
    """How the samples change when the points move at `speed`."""
    sampler = sampler_of(F, order)
    return summed(
        [
            component(F, speed, d) * sampler(input, grid, mode, padding, align, raised(order, d))
            for d in range(len(order))
        ]
    )


def summed(parts: list[Any]) -> Any:
    total = parts[0]
    for each in parts[1:]:
        total = total + each
    return total


@op
class GridSampler2d(Sampler):
    """grid_sampler_2d(input, grid, …) -> Tensor: grid_sample of images, with the modes given as
    numbers."""

    name = "grid_sampler_2d"
    node = "GridSampler2DBackward0"
    aten = "grid_sampler_2d"
    autocast = Autocast(cpu=SINGLE)


@op
class GridSampler3d(Sampler):
    """grid_sampler_3d(input, grid, …) -> Tensor: grid_sample of volumes, with the modes given as
    numbers."""

    name = "grid_sampler_3d"
    node = "GridSampler3DBackward0"
    aten = "grid_sampler_3d"
    autocast = Autocast(cpu=SINGLE)


@op
class GridAdder2d(Adder):
    """grid_adder_2d(values, grid, …) -> Tensor: values added to images at points."""

    name = "grid_adder_2d"
    node = "GridSampler2DBackwardBackward0"
    aten = None


@op
class GridAdder3d(Adder):
    """grid_adder_3d(values, grid, …) -> Tensor: values added to volumes at points."""

    name = "grid_adder_3d"
    node = "GridSampler3DBackwardBackward0"
    aten = None


@op
class GridSlope2d(Slope):
    """grid_slope_2d(values, input, grid, …) -> Tensor: the gradient for points in images."""

    name = "grid_slope_2d"
    node = "GridSampler2DBackwardBackward0"
    aten = None


@op
class GridSlope3d(Slope):
    """grid_slope_3d(values, input, grid, …) -> Tensor: the gradient for points in volumes."""

    name = "grid_slope_3d"
    node = "GridSampler3DBackwardBackward0"
    aten = None


def base_points(xp: Any, sizes: Any, align: bool, dtype: Any) -> Any:
    """The points of an image in -1 … 1 and a 1 behind them: (points, axes + 1)."""
    n = len(sizes)
    points = xp.ones((*sizes, n + 1), dtype)
    for d, size in enumerate(sizes):
        line = xp.linspace(-1, 1, size) if size > 1 else xp.zeros(1)
        if not align:
            line = line * (size - 1) / size
        points[..., n - 1 - d] = line.reshape(-1, *(1,) * (n - 1 - d))
    return points.reshape(-1, n + 1)


@op
class AffineGrid(Linear):
    """affine_grid(theta, sizes, align) -> Tensor: the points of an image, moved by a matrix."""

    node = "AffineGridGeneratorBackward0"
    aten = "affine_grid_generator"
    tensors = ("theta",)
    public = False
    leading = (2,)

    def fwd(xp, theta, sizes, align):
        points = half_as_single(base_points(xp, sizes, align, theta.dtype))
        out = xp.matmul(points, half_as_single(theta).swapaxes(-1, -2))
        return out.reshape(*theta.shape[:-2], *sizes, len(sizes)).astype(theta.dtype, copy=False)

    def d_theta(F, grad, sizes, align):
        return F.affine_grid_backward(grad, sizes, align)


@op
class AffineGridBackward(Linear):
    """affine_grid_backward(grad, sizes, align) -> Tensor: the gradient for the matrix."""

    node = "AffineGridGeneratorBackwardBackward0"
    aten = None
    tensors = ("grad",)
    public = False

    def fwd(xp, grad, sizes, align):
        n = len(sizes)
        lead = grad.shape[: grad.ndim - n - 1]
        points = half_as_single(base_points(xp, sizes, align, grad.dtype))
        flat = half_as_single(grad).reshape(*lead, len(points), n)
        return xp.matmul(flat.swapaxes(-1, -2), points).astype(grad.dtype, copy=False)

    def d_grad(F, grad, sizes, align):
        return F.affine_grid(grad, sizes, align)

    def batch(F, size, batched, grad, sizes, align):
        return F.affine_grid_backward(grad, sizes, align)  # any number of leading dimensions


# ---------------------------------------------------------------------- public functions


def sample(n: int, input: Any, grid: Any, mode: int, padding: int, align: bool) -> Any:
    """Check and run; `n` is 0 if the input says how many axes there are."""
    array = check_tensor("grid_sampler", input)
    if not isinstance(grid, TensorBase):
        raise must_be_tensor("grid_sampler", "grid", 2, grid)
    points = grid._array
    shape, at = array.shape, points.shape
    both = f"got input with sizes {list(shape)} and grid with sizes {list(at)}"
    if not shape or not at or shape[0] != at[0]:
        raise RuntimeError(
            f"grid_sampler(): expected grid and input to have same batch size, but {both}"
        )
    if at[-1] != len(shape) - 2:
        raise RuntimeError(
            f"grid_sampler(): expected grid to have size {len(shape) - 2} in last dimension, but "
            f"got grid with sizes {list(at)}"
        )
    for d, size in enumerate(shape[2:], 2):
        if size == 0:
            raise RuntimeError(
                "grid_sampler(): expected input to have non-empty spatial dimensions, but input "
                f"has sizes {list(shape)} with dimension {d} being empty"
            )
    ranks = (n + 2,) if n else (len(shape),) if len(shape) in (4, 5) else (4, 5)
    if len(shape) not in ranks or len(shape) != len(at):
        wanted = " or ".join([f"{r}D" for r in ranks])
        raise RuntimeError(
            f"grid_sampler(): expected {wanted} input and grid with same number of dimensions, but "
            f"{both}"
        )
    n = len(shape) - 2
    if n == 3 and mode == BICUBIC:
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")
    refuse_dtype(f"grid_sampler_{n}d_cpu{'_kernel_impl' if n == 2 else ''}", input)
    if points.dtype != array.dtype:
        found, wanted = dtypes.of(points.dtype).scalar_type, dtypes.of(array.dtype).scalar_type
        raise RuntimeError(f"expected scalar type {wanted} but found {found}")
    # PyTorch reads numbers that it does not know as the last of the choices.
    how = (mode if mode in (0, 1) else BICUBIC, padding if padding in (0, 1) else REFLECTION)
    record = GridSampler2d if n == 2 else GridSampler3d
    return apply(record, (input, grid), (*how, bool(align), (0,) * n))


POINTS = Index(np.array([[[[-0.83, 0.21], [0.37, -1.42]], [[0.12, 0.55], [1.37, 0.91]]]]))
POINTS_3D = Index(np.array([[[[[-0.83, 0.21, 0.4], [0.37, -1.42, -0.3]]]]]))


@api(
    name="nn.functional.grid_sample",
    method=False,
    samples=[
        Case(Draw(1, 2, 3, 4), POINTS, align_corners=False),
        Case(Draw(1, 2, 3, 4), POINTS, "nearest", "border", True),
        Case(Draw(1, 1, 4, 3), POINTS, "bicubic", "zeros", False),
        Case(Draw(1, 1, 4, 3), POINTS, "bicubic", "reflection", True),
        Case(Draw(1, 2, 4, 3, layout="T"), POINTS, "bilinear", "reflection", False),
        Case(Draw(1, 1, 4, 3), POINTS, "bilinear", "border", True),
        Case(Draw(1, 2, 2, 3, 2), POINTS_3D, align_corners=True),
        Case(Draw(1, 1, 2, 3, 2), POINTS_3D, "bilinear", "reflection", False),
    ],
    autocast=Autocast(cpu=SINGLE, gpu=WIDEST),
)
def grid_sample(
    input: Any,
    grid: Any,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Any:
    """grid_sample(input, grid, mode='bilinear', padding_mode='zeros') -> Tensor: the values of
    images at given points.

    The points have coordinates from -1 to 1, x before y (before z).

    >>> image = tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
    >>> nn.functional.grid_sample(image, zeros(1, 1, 1, 2), align_corners=False)
    tensor([[[[2.5000]]]])
    """
    if not isinstance(mode, str) or mode not in MODES:
        raise ValueError(
            "nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', "
            f"but got: '{mode}'"
        )
    if not isinstance(padding_mode, str) or padding_mode not in PADDINGS:
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or "
            f"'reflection', but got: '{padding_mode}'"
        )
    if align_corners is None:
        warn_default("grid_sample")
    else:
        only_bool("grid_sampler", "align_corners", 5, align_corners)
    return sample(0, input, grid, MODES[mode], PADDINGS[padding_mode], bool(align_corners))


def warn_default(function: str) -> None:
    warn(
        "Default grid_sample and affine_grid behavior has changed to align_corners=False since "
        "1.3.0. Please specify align_corners=True if the old behavior is desired. See the "
        f"documentation of {function} for details.",
    )


CASES = [
    Case(Draw(1, 2, 3, 4), POINTS, 0, 0, False),
    Case(Draw(1, 1, 4, 3), POINTS, 2, 1, True),
]
CASES_3D = [Case(Draw(1, 2, 2, 3, 2), POINTS_3D, 0, 1, True)]


@api(method=False, samples=[*CASES, *CASES_3D], autocast=Autocast(cpu=SINGLE, gpu=WIDEST))
def grid_sampler(
    input: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Any:
    """grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners) -> Tensor: like
    grid_sample, with the modes given as numbers.

    >>> grid_sampler(tensor([[[[1.0, 2.0], [3.0, 4.0]]]]), zeros(1, 1, 1, 2), 0, 0, False)
    tensor([[[[2.5000]]]])
    """
    as_int("grid_sampler", "interpolation_mode", 3, interpolation_mode)
    as_int("grid_sampler", "padding_mode", 4, padding_mode)
    return sample(0, input, grid, interpolation_mode, padding_mode, align_corners)


@api(method=False, samples=CASES, autocast=Autocast(cpu=SINGLE))
def grid_sampler_2d(
    input: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Any:
    """grid_sampler_2d(input, grid, interpolation_mode, padding_mode, align_corners) -> Tensor: 2-d.

    >>> grid_sampler_2d(tensor([[[[1.0, 2.0], [3.0, 4.0]]]]), zeros(1, 1, 1, 2), 0, 0, False)
    tensor([[[[2.5000]]]])
    """
    return sample(2, input, grid, interpolation_mode, padding_mode, align_corners)


@api(method=False, samples=CASES_3D, autocast=Autocast(cpu=SINGLE))
def grid_sampler_3d(
    input: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Any:
    """grid_sampler_3d(input, grid, interpolation_mode, padding_mode, align_corners) -> Tensor: 3-d.

    >>> grid_sampler_3d(arange(8.0).view(1, 1, 2, 2, 2), zeros(1, 1, 1, 1, 3), 0, 0, False)
    tensor([[[[[3.5000]]]]])
    """
    return sample(3, input, grid, interpolation_mode, padding_mode, align_corners)


@api(
    name="nn.functional.affine_grid",
    method=False,
    samples=[
        Case(Draw(2, 2, 3), (2, 1, 3, 4), False),
        Case(Draw(1, 3, 4), (1, 1, 2, 3, 2), align_corners=True),
    ],
)
def affine_grid(theta: Any, size: Any, align_corners: bool | None = None) -> Any:
    """affine_grid(theta, size, align_corners=None) -> Tensor: points for `grid_sample`.

    >>> nn.functional.affine_grid(tensor([[[1.0, 0, 0], [0, 1, 0]]]), (1, 1, 1, 2), False)
    tensor([[[[-0.5000,  0.0000],
              [ 0.5000,  0.0000]]]])
    """
    if not isinstance(theta, TensorBase):
        raise must_be_tensor("affine_grid", "theta", 1, theta)
    if align_corners is None:
        warn_default("grid_sample")
    if not theta.dtype.is_floating_point:
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    if align_corners is not None:
        only_bool("affine_grid_generator", "align_corners", 3, align_corners)
    if len(size) not in (4, 5):
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, "
            f"respectively. Got size {size}."
        )
    n = len(size) - 2
    shape = theta._array.shape
    if len(shape) != 3 or shape[1:] != (n, n + 1):
        raise ValueError(
            f"Expected a batch of {n}D affine matrices of shape Nx{n}x{n + 1} for size {size}. "
            f"Got {theta.shape}."
        )
    if min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {size}")
    return affine_grid_generator(theta, size, bool(align_corners))


@api(
    method=False,
    samples=[Case(Draw(2, 2, 3), (2, 1, 3, 4), False), Case(Draw(1, 3, 4), (1, 1, 2, 3, 2), True)],
)
def affine_grid_generator(theta: Any, size: Any, align_corners: bool) -> Any:
    """affine_grid_generator(theta, size, align_corners) -> Tensor: points for `grid_sampler`.

    >>> affine_grid_generator(tensor([[[1.0, 0, 0], [0, 1, 0]]]), (1, 1, 1, 2), True)
    tensor([[[[-1.,  0.],
              [ 1.,  0.]]]])
    """
    if not isinstance(theta, TensorBase):
        raise must_be_tensor("affine_grid_generator", "theta", 1, theta)
    if len(size) not in (4, 5):
        raise RuntimeError("AffineGridGenerator needs 4d (spatial) or 5d (volumetric) inputs.")
    sizes = tuple([int(v) for v in size[2:]])
    shape = theta._array.shape
    n = len(sizes)
    if shape[0] != size[0] or shape[2] != n + 1:
        raise RuntimeError(
            "Expected size for first two dimensions of batch2 tensor to be: "
            f"[{size[0]}, {n + 1}] but got: [{shape[0]}, {shape[2]}]."
        )
    if theta._array.dtype.kind == "b":
        raise not_implemented("linspace_cpu", theta.dtype)
    return apply(AffineGrid, (theta,), (sizes, bool(align_corners)))
