"""The ops of torchvision's library in C++, which cannot be loaded: `torch.ops.torchvision`.

Regions of interest, non-maximum suppression and deformable convolution, with torchvision's schemas:
its Python side calls them and registers their gradients.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tapegrad as tg

from ..errors.absent import absent_function
from ..library import Library

LIBRARY = Library("torchvision", "DEF")

ROI = "Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width"
ROI_BACKWARD = (
    "float spatial_scale, SymInt pooled_height, SymInt pooled_width, SymInt batch_size, "
    "SymInt channels, SymInt height, SymInt width"
)
CONVOLUTION = (
    "Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, "
    "SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, "
    "SymInt groups, SymInt offset_groups, bool use_mask"
)


def nms(dets: Any, scores: Any, iou_threshold: float) -> Any:
    """The boxes that are kept, best first: one goes if a better one overlaps it too much."""
    if dets.dim() != 2 or dets.size(1) != 4:
        raise RuntimeError(f"boxes should be a 2d tensor of shape [N, 4], got {list(dets.shape)}")
    if scores.dim() != 1:
        raise RuntimeError(f"scores should be a 1d tensor, got {scores.dim()}D")
    boxes = dets.detach().cpu().numpy()
    x1, y1, x2, y2 = boxes.T
    areas = (x2 - x1) * (y2 - y1)
    rest = np.argsort(-scores.detach().cpu().numpy(), kind="stable")
    kept = []
    while rest.size:
        best, rest = rest[0], rest[1:]
        kept.append(best)
        width = np.minimum(x2[best], x2[rest]) - np.maximum(x1[best], x1[rest])
        height = np.minimum(y2[best], y2[rest]) - np.maximum(y1[best], y1[rest])
        common = np.maximum(width, 0) * np.maximum(height, 0)
        with np.errstate(invalid="ignore", divide="ignore"):
            overlap = common / (areas[best] + areas[rest] - common)
        rest = rest[~(overlap > iou_threshold)]
    return tg.tensor(np.array(kept, np.int64), device=dets.device)


def sampling_weights(
    start: Any, length: Any, bins: int, size: int, sampling_ratio: int
) -> tuple[Any, Any]:
    """How much of each row of an image is in each bin: (regions, bins, size), and sample counts.

    A bin is the mean of samples between pixels. Rows and columns do so separately.
    """
    bin_size = length / bins
    if sampling_ratio > 0:
        counts = tg.full_like(start, sampling_ratio)
    else:
        counts = tg.ceil(length / bins)
    most = max(int(counts.max().item()), 1) if counts.numel() else 1
    steps = tg.arange(most, device=start.device)
    offsets = (steps + 0.5).to(start.dtype)[None] * (bin_size / counts)[:, None]
    edges = tg.arange(bins, device=start.device)[None] * bin_size[:, None]
    at = start[:, None, None] + edges[:, :, None] + offsets[:, None, :]
    used = (steps[None] < counts[:, None])[:, None] & (at >= -1) & (at <= size)
    at = at.clamp(min=0)
    low = at.floor().clamp(max=size - 1)
    at = tg.where(low >= size - 1, low, at)
    share = at - low
    pixels = tg.arange(size, device=start.device, dtype=start.dtype)
    lower = (pixels == low[..., None]) * (1 - share)[..., None]
    upper = (pixels == (low + 1)[..., None]) * share[..., None]
    weights = tg.where(used[..., None], lower + upper, tg.zeros((), dtype=start.dtype))
    return weights.sum(2), counts


def aligned_weights(
    rois: Any, scale: float, bins: tuple[int, int], size: tuple[int, int], ratio: int, aligned: bool
) -> tuple[Any, Any]:
    """The weights of rows and of columns, the mean taken in the rows."""
    x1, y1, x2, y2 = (rois[:, i] * scale - (0.5 if aligned else 0.0) for i in range(1, 5))
    width, height = x2 - x1, y2 - y1
    if not aligned:
        width, height = width.clamp(min=1.0), height.clamp(min=1.0)
    rows, count_y = sampling_weights(y1, height, bins[0], size[0], ratio)
    columns, count_x = sampling_weights(x1, width, bins[1], size[1], ratio)
    return rows / (count_y * count_x).clamp(min=1)[:, None, None], columns


def roi_align(
    input: Any,
    rois: Any,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
    aligned: bool,
) -> Any:
    """Each region of the images, resampled to the same size."""
    size, bins = (input.shape[2], input.shape[3]), (pooled_height, pooled_width)
    rows, columns = aligned_weights(rois, spatial_scale, bins, size, sampling_ratio, aligned)
    images = input[rois[:, 0].long()]
    return tg.einsum("kph,kchw,kqw->kcpq", rows, images, columns)


def roi_align_backward(
    grad: Any,
    rois: Any,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    batch_size: int,
    channels: int,
    height: int,
    width: int,
    sampling_ratio: int,
    aligned: bool,
) -> Any:
    """Where the gradients of the regions belong in the images."""
    size, bins = (height, width), (pooled_height, pooled_width)
    rows, columns = aligned_weights(rois, spatial_scale, bins, size, sampling_ratio, aligned)
    per_region = tg.einsum("kph,kcpq,kqw->kchw", rows, grad, columns)
    made = grad.new_zeros(batch_size, channels, height, width)
    return made.index_add_(0, rois[:, 0].long(), per_region)


def roi_pool(
    input: Any, rois: Any, spatial_scale: float, pooled_height: int, pooled_width: int
) -> tuple[Any, Any]:
    """The largest value in each bin of each region, and where it is; 0 and -1 in an empty bin."""
    images, regions = input.detach().cpu().numpy(), rois.detach().cpu().numpy()
    _, channels, height, width = images.shape
    out = np.zeros((len(regions), channels, pooled_height, pooled_width), images.dtype)
    where = np.full(out.shape, -1, np.int32)
    for k, (batch, *box) in enumerate(regions):
        # C rounds halves away from zero.
        x1, y1, x2, y2 = (
            int(np.floor(abs(v) + 0.5) * np.sign(v)) for v in np.multiply(box, spatial_scale)
        )
        tall, wide = max(y2 - y1 + 1, 1) / pooled_height, max(x2 - x1 + 1, 1) / pooled_width
        for i in range(pooled_height):
            top = min(max(int(np.floor(i * tall)) + y1, 0), height)
            bottom = min(max(int(np.ceil((i + 1) * tall)) + y1, 0), height)
            for j in range(pooled_width):
                left = min(max(int(np.floor(j * wide)) + x1, 0), width)
                right = min(max(int(np.ceil((j + 1) * wide)) + x1, 0), width)
                if top >= bottom or left >= right:
                    continue
                bin = images[int(batch), :, top:bottom, left:right].reshape(channels, -1)
                at = bin.argmax(1)
                out[k, :, i, j] = bin[np.arange(channels), at]
                row, column = np.divmod(at, right - left)
                where[k, :, i, j] = (top + row) * width + left + column
    return tg.tensor(out, device=input.device), tg.tensor(where, device=input.device)


def roi_pool_backward(
    grad: Any,
    rois: Any,
    argmax: Any,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    batch_size: int,
    channels: int,
    height: int,
    width: int,
) -> Any:
    """The gradients go to where the largest values were."""
    regions = len(rois)
    at = argmax.long().reshape(regions, channels, -1)
    given = tg.where(at >= 0, grad.reshape(regions, channels, -1), 0)
    per_region = grad.new_zeros(regions, channels, height * width)
    per_region.scatter_add_(2, at.clamp(min=0), given)
    made = grad.new_zeros(batch_size, channels, height * width)
    made.index_add_(0, rois[:, 0].long(), per_region)
    return made.reshape(batch_size, channels, height, width)


def deform_conv2d(
    input: Any,
    weight: Any,
    offset: Any,
    mask: Any,
    bias: Any,
    stride_h: int,
    stride_w: int,
    pad_h: int,
    pad_w: int,
    dilation_h: int,
    dilation_w: int,
    groups: int,
    offset_groups: int,
    use_mask: bool,
) -> Any:
    """A convolution whose samples are moved by an offset each, and weighted by a mask."""
    batch, channels, height, width = input.shape
    out_channels, _, kernel_h, kernel_w = weight.shape
    taps = kernel_h * kernel_w
    out_h, out_w = offset.shape[2:]
    moved = offset.reshape(batch, offset_groups, taps, 2, out_h, out_w)
    kind = {"device": input.device, "dtype": input.dtype}
    top = tg.arange(out_h, **kind)[:, None] * stride_h - pad_h
    left = tg.arange(out_w, **kind)[None] * stride_w - pad_w
    down = (tg.arange(kernel_h, **kind) * dilation_h).repeat_interleave(kernel_w)
    right = (tg.arange(kernel_w, **kind) * dilation_w).repeat(kernel_h)
    y = moved[:, :, :, 0] + top + down[:, None, None]
    x = moved[:, :, :, 1] + left + right[:, None, None]
    sampled = bilinear(input.reshape(batch, offset_groups, -1, height, width), y, x)
    if use_mask:
        sampled = sampled * mask.reshape(batch, offset_groups, 1, taps, out_h, out_w)
    columns = sampled.reshape(batch, groups, channels // groups * taps, out_h * out_w)
    filters = weight.reshape(groups, out_channels // groups, -1)
    out = tg.einsum("gok,bgkn->bgon", filters, columns).reshape(batch, -1, out_h, out_w)
    return out + bias[:, None, None]


def bilinear(images: Any, y: Any, x: Any) -> Any:
    """Values between pixels, zero outside: (batch, groups, channels, *positions)."""
    batch, groups, channels, height, width = images.shape
    flat = images.reshape(batch, groups, channels, height * width)
    low_y, low_x = y.detach().floor(), x.detach().floor()
    total: Any = 0
    for down in (0, 1):
        for right in (0, 1):
            row, column = low_y + down, low_x + right
            share = (1 - (y - row).abs()) * (1 - (x - column).abs())
            inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
            inside = inside & (y > -1) & (y < height) & (x > -1) & (x < width)
            at = (row.clamp(0, height - 1) * width + column.clamp(0, width - 1)).long()
            index = at.reshape(batch, groups, 1, -1).expand(-1, -1, channels, -1)
            found = flat.gather(3, index).reshape(batch, groups, channels, *y.shape[2:])
            total = total + found * tg.where(inside, share, 0)[:, :, None]
    return total


def deform_conv2d_backward(grad: Any, *args: Any) -> tuple[Any, ...]:
    """The gradients of input, weight, offset, mask and bias."""
    with tg.enable_grad():
        inputs = [t.detach().requires_grad_() for t in args[:5]]
        out = deform_conv2d(*inputs, *args[5:])
        found = tg.autograd.grad(out, inputs, grad, allow_unused=True)
    made = [tg.zeros_like(t) if g is None else g for g, t in zip(found, inputs, strict=True)]
    return tuple(made)


def define(schema: str, kernel: Any) -> None:
    LIBRARY.define(schema)
    LIBRARY.impl(schema.partition("(")[0], kernel, "CompositeExplicitAutograd")


define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor", nms)
define(f"roi_align({ROI}, int sampling_ratio, bool aligned) -> Tensor", roi_align)
define(
    f"_roi_align_backward(Tensor grad, Tensor rois, {ROI_BACKWARD}, int sampling_ratio, "
    "bool aligned) -> Tensor",
    roi_align_backward,
)
define(f"roi_pool({ROI}) -> (Tensor, Tensor)", roi_pool)
define(
    f"_roi_pool_backward(Tensor grad, Tensor rois, Tensor argmax, {ROI_BACKWARD}) -> Tensor",
    roi_pool_backward,
)
define(f"deform_conv2d({CONVOLUTION}) -> Tensor", deform_conv2d)
define(
    f"_deform_conv2d_backward(Tensor grad, {CONVOLUTION}) -> "
    "(Tensor, Tensor, Tensor, Tensor, Tensor)",
    deform_conv2d_backward,
)
define("_cuda_version() -> int", lambda: -1)

# Declared, so that torchvision can register gradients and shapes for them.
for _schema in (
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qroi_align(Tensor input, Tensor rois, float spatial_scale, int pooled_height, "
    "int pooled_width, int sampling_ratio, bool aligned) -> Tensor",
    f"ps_roi_align({ROI}, int sampling_ratio) -> (Tensor, Tensor)",
    f"_ps_roi_align_backward(Tensor grad, Tensor rois, Tensor channel_mapping, {ROI_BACKWARD}, "
    "int sampling_ratio) -> Tensor",
    f"ps_roi_pool({ROI}) -> (Tensor, Tensor)",
    f"_ps_roi_pool_backward(Tensor grad, Tensor rois, Tensor channel_mapping, {ROI_BACKWARD}) "
    "-> Tensor",
    "box_iou_rotated(Tensor boxes1, Tensor boxes2) -> Tensor",
):
    _name = _schema.partition("(")[0]
    define(_schema, absent_function(f"torch.ops.torchvision.{_name}", "use roi_align or nms"))
