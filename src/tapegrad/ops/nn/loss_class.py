"""Losses of a choice between classes: nll_loss and cross_entropy."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.base import F32, F64, TensorBase
from ...core.host_arrays import host
from ...core.python_dispatch import is_recorded
from ...core.transforms.batched import left_to_device, physical_array
from ...errors import must_be_tensor
from ...kernels.cpu import KERNELS
from ..block import SINGLE, Autocast, Block, Case, api, apply, noted, op
from ..block.batching import join, lift, part
from ..block.checks import not_implemented
from ..block.public import public
from ..block.samples import Draw, Index
from ..index.gather import open_grid
from ..pointwise.with_number import add_number, div_number, mul_number
from ..reduce.softmax import LogSoftmax
from . import reduction as _reduction
from .loss_pointwise import refuse_grad

# Kernels get class indices that are in range or `ignore_index`: `call` looked. It is None where
# no target is ignored.
# ruff: noqa: N805

INT64 = np.dtype(np.int64)
UINT64 = np.dtype(np.uint64)

# ---------------------------------------------------------------------- the ops


def places(xp: Any, target: Any) -> tuple[Any, ...]:
    """NumPy index of one class per target in an array whose classes are dimension 1."""
    if target.ndim == 1:
        return xp.arange(target.shape[0]), target
    if target.ndim == 0:
        return (target,)
    first, *others = open_grid(xp, target.shape)
    return (first, target, *others)


def factors(xp: Any, target: Any, weight: Any, ignore_index: int | None) -> tuple[Any, Any, Any]:
    """Targets that are classes, which of them count, and how much; None for all and for one."""
    counts = None
    if ignore_index is not None:
        counts = target != ignore_index
        target = xp.where(counts, target, 0)
    return target, counts, None if weight is None or not weight.size else weight[target]


def total_weight(xp: Any, target: Any, counts: Any, by: Any, dtype: Any) -> Any:
    """The number by which a mean divides: the sum of the targets' weights."""
    if by is None:
        if xp is host or counts is None:
            return target.size if counts is None else xp.count_nonzero(counts)
        return counts.sum(dtype=dtype)
    wide = by.astype(xp.promote_types(by.dtype, xp.float32), copy=False)
    if xp is host:
        return wide.sum() if counts is None else wide[counts].sum()
    return wide.sum() if counts is None else xp.where(counts, wide, 0).sum()


class ClassLoss(Block):
    tensors = ("input", "target", "weight")
    plain_tensors = ("target", "weight")
    linear = True
    public = False

    def fwd(xp, input, target, weight, reduction, ignore_index):
        dtype = input.dtype
        wide = dtype is F32 or dtype is F64
        if reduction == "mean" and wide and weight is None and ignore_index is None:
            return xp.add.reduce(input[places(xp, target)], None) / -target.size  # the usual case
        target, counts, by = factors(xp, target, weight, ignore_index)
        if input.size:
            losses = -input[places(xp, target)]
            if by is not None:
                losses = losses * by
            if counts is not None:
                losses = xp.where(counts, losses, dtype.type(0))
        else:
            losses = xp.zeros(target.shape, dtype)
        if reduction == "none":
            return losses
        if wide:
            total = xp.add.reduce(losses, None)
        else:
            total = losses.sum(dtype=xp.float32)
        if reduction == "mean":
            total = total / total_weight(xp, target, counts, by, total.dtype)
        return total if total.dtype is dtype else total.astype(dtype)

    def d_input(F, grad, target, weight, input_shape, reduction, ignore_index):
        return F.nll_loss_backward(grad, target, weight, input_shape, reduction, ignore_index)

    def batch(F, size, batched, input, target, weight, reduction, ignore_index):
        x, y = lift(F, input, size, batched[0]), lift(F, target, size, batched[1])
        joined, where = (x, y) if len(y.shape) == 1 else (join(F, x), join(F, y))
        losses = F.nll_loss(joined, where, None, "none", ignore_index)
        if len(y.shape) > 1:
            losses = part(F, size, losses)
        by = entry_factors(F, size, x, y, weight, batched[2], ignore_index)
        if weight is not None:
            losses = losses * by
        if reduction == "none" or (reduction == "sum" and len(y.shape) == 1):
            return losses
        if len(y.shape) == 1:
            return losses / by
        dims = tuple(range(1, len(y.shape)))
        total = F.sum(losses, dims, False, None)
        return total / F.sum(by, dims, False, None) if reduction == "mean" else total


def entry_factors(
    F: Any, size: int, like: Any, target: Any, weight: Any, batched: bool, ignore_index: int | None
) -> Any:
    """The weight of each target of a batch, in the dtype of `like`."""
    counts = F.blank(like, target.shape) + 1
    if ignore_index is not None:
        counts = counts * (target != ignore_index)
    if weight is None:
        return counts
    # In every entry of the batch, the targets as one row.
    rows = F.reshape(target, (size, -1))
    if ignore_index is not None:
        rows = F.where(rows != ignore_index, rows, 0)
    found = F.gather(lift(F, weight, size, batched), F.cast(rows, INT64), 1)
    return counts * F.reshape(found, target.shape)


@op
class NllLoss(ClassLoss):
    """nll_loss(input, target, weight, reduction, ignore_index) -> Tensor: minus the log probability
    that `input` gives to the class `target`."""

    aten = "nll_loss_forward"
    autocast = Autocast(cpu=SINGLE, gpu=SINGLE)
    gradient_text = {"input": "-grad * weight / n at [target], else 0"}
    nonfinite = "no_labels"


@op
class NllLoss2D(ClassLoss):
    """nll_loss2d(input, target, weight, reduction, ignore_index) -> Tensor: of images."""

    name = "nll_loss2d"
    aten = "nll_loss2d_forward"


@op
class NllLossBackward(Block):
    """nll_loss_backward(grad_output, target, weight, shape, …) -> Tensor: nll_loss's gradient."""

    tensors = ("grad_output", "target", "weight")
    plain_tensors = ("target", "weight")
    node = "NllLossBackwardBackward0"
    aten = "nll_loss_backward"
    linear = True
    public = False

    def fwd(xp, grad_output, target, weight, shape, reduction, ignore_index):
        out = xp.zeros(shape, grad_output.dtype)
        if reduction == "mean" and weight is None and ignore_index is None and target.size:
            out[places(xp, target)] = grad_output / -target.size
            return out
        target, counts, by = factors(xp, target, weight, ignore_index)
        values = -grad_output
        if reduction == "mean":
            values = values / total_weight(xp, target, counts, by, values.dtype)
        if by is not None:
            values = values * by
        if counts is not None:
            values = xp.where(counts, values, out.dtype.type(0))
        if out.size:
            out[places(xp, target)] = values
        return out

    def d_grad_output(F, grad, target, weight, reduction, ignore_index):
        return F.nll_loss(grad, target, weight, reduction, ignore_index)

    def batch(F, size, batched, grad_output, target, weight, shape, reduction, ignore_index):
        g, y = lift(F, grad_output, size, batched[0]), lift(F, target, size, batched[1])
        by = entry_factors(F, size, g, y, weight, batched[2], ignore_index)
        single = len(y.shape) == 1
        if reduction != "none" and not single:
            if reduction == "mean":
                g = g / F.sum(by, tuple(range(1, len(y.shape))), False, None)
            g = F.reshape(g, (size, *(1,) * (len(y.shape) - 1)))
        elif reduction == "mean":
            g = g / by
        values = g * by
        if single:
            return F.nll_loss_backward(values, y, None, (size, *shape), "none", ignore_index)
        joined = (size * shape[0], *shape[1:])
        out = F.nll_loss_backward(join(F, values), join(F, y), None, joined, "none", ignore_index)
        return part(F, size, out)


# ---------------------------------------------------------------------- nll_loss


def are_below(target: Any, classes: int) -> bool:
    """Whether all targets are classes."""
    if KERNELS is not None:
        found: bool | None = KERNELS.all_below(target, classes)
        if found is not None:
            return found
    # Negative indices are large ones when read as unsigned: one look finds both.
    unsigned = target.view(UINT64) if target.dtype is INT64 else target
    return bool(np.maximum.reduce(unsigned, None) < classes)


@noted
def ignored(labels: Any, classes: int, ignore_index: int) -> int | None:
    """`ignore_index` if a target may be it; raises for targets that are no classes."""
    if left_to_device(labels, 0, classes, ignore_index):
        return ignore_index
    target = physical_array(labels)  # under vmap, of all entries
    if not target.size:
        return None
    if are_below(target, classes):
        return ignore_index if 0 <= ignore_index < classes else None
    wrong = (target != ignore_index) & ((target < 0) | (target >= classes))
    if wrong.any():
        raise IndexError(f"Target {target[wrong].flat[0]} is out of bounds.")
    return ignore_index


def nll(input: Any, target: Any, weight: Any, reduction: str, ignore_index: int) -> Any:
    """nll_loss of any number of dimensions."""
    x, y = input._array, target._array
    if x.ndim == 0:
        raise ValueError("Expected 1 or more dimensions (got 0)")
    if x.ndim == 1:
        if y.ndim == 1 and y.shape[0] != 1:
            raise ValueError(
                f"For 1D input, 1D target must have size 1, but got target size: {y.shape[0]}"
            )
    elif y.ndim == 0 or x.shape[0] != y.shape[0]:
        raise ValueError(
            f"Expected input batch_size ({x.shape[0]}) to match target batch_size "
            f"({y.shape[0] if y.ndim else 0})."
        )
    if x.ndim <= 2:
        return nll_vectors(input, target, weight, reduction, ignore_index)
    if x.ndim == 4:
        return nll_images(input, target, weight, reduction, ignore_index)
    wanted = (x.shape[0], *x.shape[2:])
    if y.shape != wanted:
        raise RuntimeError(f"Expected target size {list(wanted)}, got {list(y.shape)}")
    # All other dimensions become one row of pixels.
    rest = (1, -1) if x.size else (0, 0)
    flat = input.contiguous().view(x.shape[0], x.shape[1], *rest)
    loss = nll_images(
        flat, target.contiguous().view(x.shape[0], *rest), weight, reduction, ignore_index
    )
    return loss.view(wanted) if reduction == "none" else loss


def nll_vectors(input: Any, target: Any, weight: Any, reduction: str, ignore_index: int) -> Any:
    x, y = input._array, target._array
    refuse_grad("nll_loss_forward", weight=weight)
    if y.ndim > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    check_target(target)
    classes = x.shape[-1]
    if weight is not None and weight._array.shape != (classes,):
        raise RuntimeError(
            f"weight tensor should be defined either for all {classes} classes or no classes but "
            f"got weight tensor of shape: {list(weight.shape)}"
        )
    check_dtypes("nll_loss_out_frame", input, weight)
    known = ignored(target, classes, ignore_index)
    if y.ndim == x.ndim:
        target = target.reshape(())  # one target in a vector for one row of classes
    return apply(NllLoss, (input, target, weight), (reduction, known))


def nll_images(input: Any, target: Any, weight: Any, reduction: str, ignore_index: int) -> Any:
    x, y = input._array, target._array
    refuse_grad("nll_loss2d_forward", weight=weight)
    if y.ndim != 3:
        raise RuntimeError(
            "only batches of spatial targets supported (3D tensors) but got targets of dimension: "
            f"{y.ndim}"
        )
    check_target(target)
    if weight is not None and weight._array.size != x.shape[1]:
        raise RuntimeError("weight tensor should be defined either for all or no classes")
    if y.shape != (x.shape[0], *x.shape[2:]):
        raise RuntimeError(f"size mismatch (got input: {list(x.shape)} , target: {list(y.shape)}")
    check_dtypes("nll_loss2d_forward_out_frame", input, weight)
    known = ignored(target, x.shape[1], ignore_index)
    return apply(NllLoss2D, (input, target, weight), (reduction, known))


def check_dtypes(kernel: str, input: Any, weight: Any) -> None:
    if not input.dtype.is_floating_point:
        raise not_implemented(kernel, input.dtype)
    if weight is not None and weight.dtype is not input.dtype:
        raise RuntimeError(
            f"expected scalar type {input.dtype.scalar_type} but found {weight.dtype.scalar_type}"
        )


def check_target(target: Any) -> None:
    if target.dtype not in (public.int64, public.uint8):
        raise RuntimeError(
            f"expected target dtype to be Long or Byte, but got {target.dtype.scalar_type}"
        )


def check_tensors(function: str, input: Any, target: Any, weight: Any) -> None:
    for position, (name, value) in enumerate(
        (("input", input), ("target", target), ("weight", weight)), 1
    ):
        if not isinstance(value, TensorBase) and (position < 3 or value is not None):
            raise must_be_tensor(function, name, position, value)


CLASSES = [
    Case(Draw(3, 4), Index([1, 0, 3])),
    Case(Draw(3, 4), Index([1, -100, 3]), reduction="sum"),
    Case(Draw(3, 4, layout="T"), Index([1, 2, 3]), ignore_index=2),
    Case(Draw(4), Index(2)),
    Case(Draw(2, 3, 2, 2), Index([[[1, 0], [2, 2]], [[0, 1], [1, 1]]]), reduction="none"),
    Case(Draw(2, 3, 2), Index([[1, 0], [2, 2]])),
]


@api(
    name="nn.functional.nll_loss",
    method=False,
    samples=CLASSES,
    autocast=Autocast(cpu=SINGLE, gpu=SINGLE),
)
def nll_loss(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """nll_loss(input, target, weight=None, ignore_index=-100, …) -> Tensor: minus the
    log-probability of each row's class.

    `input` holds log probabilities, with the classes in dimension 1; `target` names classes.

    >>> nn.functional.nll_loss(tensor([[-0.5, -1.0], [-2.0, -0.1]]), tensor([0, 1]))
    tensor(0.3000)
    """
    how = _reduction.known_reduction(_reduction.chosen(reduction, size_average, reduce))
    check_tensors("nll_loss_nd", input, target, weight)
    return nll(input, target, weight, how, ignore_index)


# ---------------------------------------------------------------------- cross_entropy


def is_rows_of_classes(input: Any, target: Any) -> bool:
    """Rows of float classes and as many targets: nothing to refuse but classes out of range."""
    if not isinstance(input, TensorBase) or not isinstance(target, TensorBase):
        return False
    x, y = input._array, target._array
    dtype = x.dtype
    if (dtype is not F32 and dtype is not F64) or y.dtype is not INT64:
        return False
    fits: bool = x.ndim == 2 and y.ndim == 1 and x.shape[0] == y.shape[0]
    return fits


@api(
    name="nn.functional.cross_entropy",
    method=False,
    samples=[
        *CLASSES,
        Case(Draw(3, 4), Draw(3, 4)),
        Case(Draw(2, 3, 2), Draw(2, 3, 2), Draw(3), reduction="none", label_smoothing=0.2),
        Case(Draw(3, 4), Index([1, -100, 3]), label_smoothing=0.1),
    ],
    autocast=Autocast(cpu=SINGLE, gpu=SINGLE),
)
def cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:
    """cross_entropy(input, target, weight=None, …, label_smoothing=0.0) -> Tensor: the loss of a
    classifier, computed from its logits.

    The negative log likelihood under the softmax of `input` over dimension 1; `target` names
    classes, or holds a probability for each.

    >>> nn.functional.cross_entropy(tensor([[2.0, 0.0], [0.0, 1.0]]), tensor([0, 1]))
    tensor(0.2201)
    """
    how = _reduction.known_reduction(_reduction.chosen(reduction, size_average, reduce))
    if weight is None and label_smoothing == 0 and is_rows_of_classes(input, target):
        known = ignored(target, input._array.shape[1], ignore_index)
        scores = apply(LogSoftmax, (input,), (1,))
        return apply(NllLoss, (scores, target, None), (how, known))
    check_tensors("cross_entropy_loss", input, target, weight)
    x, y = input._array, target._array
    if x.shape == y.shape:
        return cross_entropy_of_shares(input, target, weight, how, ignore_index, label_smoothing)
    scores = input.log_softmax(0 if x.ndim == 1 else 1)
    if label_smoothing > 0:
        check_smoothing(label_smoothing)
        return smoothed(scores, target, weight, how, ignore_index, label_smoothing)
    return nll(scores, target, weight, how, ignore_index)


def check_smoothing(label_smoothing: float) -> None:
    if label_smoothing > 1:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing:g}")


def along_classes(weight: Any, ndim: int) -> Any:
    """A weight per class, shaped to broadcast."""
    return weight if ndim == 1 else weight.view(1, -1, *(1,) * (ndim - 2))


def cross_entropy_of_shares(
    input: Any, target: Any, weight: Any, reduction: str, ignore_index: int, label_smoothing: float
) -> Any:
    """Cross entropy with a probability for each class."""
    if not target.dtype.is_floating_point:
        raise RuntimeError(
            "Expected floating point type for target with class probabilities, got "
            f"{target.dtype.scalar_type}"
        )
    if ignore_index >= 0:
        raise RuntimeError("ignore_index is not supported for floating point target")
    dim = 0 if input.dim() == 1 else 1
    classes = input.size(dim)
    if weight is not None and (weight.dim() != 1 or weight.numel() != classes):
        raise RuntimeError(
            f"cross_entropy: weight tensor should be defined either for all {classes} classes or "
            f"no classes but got weight tensor of shape: {list(weight.shape)}"
        )
    scores = input.log_softmax(dim)
    if label_smoothing > 0:
        check_smoothing(label_smoothing)
        kept = mul_number(target, 1 - label_smoothing)
        target = add_number(kept, label_smoothing / classes)
    losses = scores * target
    if weight is not None:
        losses = losses * along_classes(weight, input.dim())
    if reduction == "none":
        return -losses.sum(dim)
    total = -losses.sum()
    if reduction == "sum":
        return total
    # Nothing has no mean.
    return div_number(total, input.numel() / classes if input.numel() else public.nan)


def smoothed(
    scores: Any,
    target: Any,
    weight: Any,
    reduction: str,
    ignore_index: int,
    label_smoothing: float,
) -> Any:
    """The mixture of the loss of the targets and that of all classes alike."""
    loss = nll(scores, target, weight, reduction, ignore_index)
    dim = 0 if scores.dim() == 1 else 1
    classes = scores.size(dim)
    weighted = scores if weight is None else scores * along_classes(weight, scores.dim())
    out = target == ignore_index
    others = (-weighted.sum(dim)).masked_fill(out, 0)
    if reduction != "none":
        others = others.sum()
    if reduction == "mean":
        others = others / counted(target, out, weight)
    return mul_number(loss, 1 - label_smoothing) + mul_number(others, label_smoothing / classes)


def counted(target: Any, out: Any, weight: Any) -> Any:
    """How much the targets that are not left out weigh together."""
    if not target._special and not is_recorded():
        left = target.masked_select(~out)
        return left.numel() if weight is None else weight[left].sum()
    if weight is None:
        return (~out).sum()
    return weight[target.masked_fill(out, 0)].masked_fill(out, 0).sum()
