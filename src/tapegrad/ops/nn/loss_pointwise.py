"""Losses that compare two tensors element by element, and what all losses share."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import dtypes
from ...core.arguments import REDUCTIONS, cast_value, is_index
from ...core.base import F32, F64, TensorBase
from ...core.modes import MODES
from ...core.rounding import half_as_single
from ...core.warned import warn
from ...errors import check_broadcast, slips
from ..block import PROMOTE, SINGLE, Autocast, Block, Case, api, apply, op, reads_as
from ..block.batching import lift, padded
from ..block.checks import not_implemented
from ..block.public import public
from ..block.samples import Draw, Index
from . import reduction as _reduction

# ruff: noqa: N805

# ---------------------------------------------------------------------- shared by all losses


def by_number(function: str, reduction: Any) -> str:
    """The reduction that a number stands for; numbers that stand for none reduce nothing."""
    if not is_index(reduction):
        raise TypeError(
            f"{function}(): argument 'reduction' must be int, not {type(reduction).__name__}"
        )
    if reduction >= 1 << 63:
        raise ValueError("Overflow when unpacking long long")
    return REDUCTIONS[reduction] if 0 <= reduction < 3 else "none"


def chosen(reduction: str, size_average: bool | None, reduce: bool | None) -> str:
    """The checked reduction of a call that may still use the old flags."""
    return _reduction.known_reduction(_reduction.chosen(reduction, size_average, reduce))


def refuse_grad(function: str, **arguments: Any) -> None:
    """PyTorch has no derivative with respect to these arguments."""
    for name, t in arguments.items():
        if isinstance(t, TensorBase) and t._wants_grad and MODES.records:
            raise RuntimeError(
                f"The function '{function}' is not differentiable with respect to argument "
                f"'{name}'. This input cannot have requires_grad True."
            )


def size(shape: tuple[int, ...]) -> int:
    return math.prod(shape)


def reduced(xp: Any, losses: Any, reduction: str) -> Any:
    """Kernel: the elements, their mean or their sum; half precision adds up in single."""
    if reduction == "none":
        return losses
    dtype = losses.dtype
    if dtype is F32 or dtype is F64:
        total = xp.add.reduce(losses, None)
        return total / losses.size if reduction == "mean" else total
    wide = half_as_single(losses).sum()
    return (wide / losses.size if reduction == "mean" else wide).astype(dtype)


@reads_as("grad * factor / n", "grad / n")
def share(grad: Any, shape: tuple[int, ...], reduction: str, factor: float = 1.0) -> Any:
    """Gradient rule: `factor` times what one element gets of the gradient of the loss."""
    if reduction == "mean":
        return grad * (factor / max(size(shape), 1))
    return grad if factor == 1.0 else grad * factor


def collected(F: Any, losses: Any, reduction: str) -> Any:
    """`reduced` for rules."""
    if reduction == "none":
        return losses
    total = F.sum(losses, None, False, None)
    return total / size(losses.shape) if reduction == "mean" else total


def per_entry(F: Any, losses: Any, reduction: str) -> Any:
    """Batching rule: the losses of each entry of the batch in front, reduced."""
    if reduction == "none" or len(losses.shape) == 1:
        return losses
    total = F.sum(losses, tuple(range(1, len(losses.shape))), False, None)
    return total / size(losses.shape[1:]) if reduction == "mean" else total


def change(t_input: Any, t_target: Any) -> Any:
    """The tangent of `input - target`."""
    if t_input is None:
        return -t_target
    return t_input if t_target is None else t_input - t_target


@reads_as("a - b")
def apart(F: Any, a: Any, b: Any) -> Any:
    """Gradient rule: the difference, in C order where the two are laid out differently.

    NumPy's differences are; those of tensors are laid out as `a`. PyTorch's gradients of these
    losses are in C order, and a recorded pass has to give what a pass on arrays gives.
    """
    found = a - b
    return found.contiguous() if F.recorded and a.stride() != b.stride() else found


def same_floats(input: Any, target: Any) -> bool:
    """Whether two tensors are alike, so that there is nothing to broadcast, promote or refuse."""
    if not isinstance(input, TensorBase) or not isinstance(target, TensorBase):
        return False
    x, y = input._array, target._array
    if (x.dtype is not F32 and x.dtype is not F64) or x.dtype is not y.dtype:
        return False
    same: bool = x.shape == y.shape
    return same


def check_fits(x: Any, y: Any) -> None:
    """Refuse an array `x` that does not broadcast to the shape of `y`."""
    if x.shape == y.shape:
        return
    check_broadcast([y, x])
    full = np.broadcast_shapes(x.shape, y.shape)
    if full != y.shape:
        raise RuntimeError(
            f"output with shape {list(y.shape)} doesn't match the broadcast shape {list(full)}"
        )


def warn_of_broadcast(input: Any, target: Any) -> None:
    if target.size() != input.size():
        sentence = (
            f"Using a target size ({target.size()}) that is different to the input size "
            f"({input.size()}). This will likely lead to incorrect results due to broadcasting. "
            "Please ensure they have the same size."
        )
        warn(slips.broadcast_loss(sentence, input, target))


def only_floats(kernel: str) -> Any:
    """A guard: the common dtype of two tensors has to be a real floating one."""

    def guard(input: Any, target: Any) -> None:
        dtype = public.promote_types(dtypes.of(input.dtype), dtypes.of(target.dtype))
        if not dtype.is_floating_point:
            raise not_implemented(kernel, dtype)

    return guard


# ---------------------------------------------------------------------- differences


PAIRS = [
    Case(Draw(3, 4), Draw(3, 4)),
    Case(Draw(2, 3, layout="T"), Draw(2, 3), reduction="sum"),
    Case(Draw(3, 4), Draw(4), reduction="none"),
    Case(Draw(), Draw(), reduction="none"),
]
WEIGHTED = [
    Case(Draw(2, 3), Draw(2, 3), weight=Draw(2, 3, low=0.5)),
    Case(Draw(2, 3), Draw(2, 3), weight=Draw(2, 3, low=0.5), reduction="none"),
]


class Squares(Block):
    tensors = ("input", "target")
    ordered = True
    node = "MseLossBackward0"
    public = False

    def fwd(xp, input, target, reduction):
        difference = input - target
        return reduced(xp, difference * difference, reduction)

    def d_input(F, grad, input, target, reduction):
        return share(grad, input.shape, reduction, 2.0) * apart(F, input, target)

    def d_target(F, grad, input, target, reduction):
        return share(grad, input.shape, reduction, 2.0) * apart(F, target, input)

    def jvp(F, input, t_input, target, t_target, reduction):
        return collected(F, 2 * (input - target) * change(t_input, t_target), reduction)

    def batch(F, size, batched, input, target, reduction):
        difference = lift(F, input, size, batched[0]) - lift(F, target, size, batched[1])
        return per_entry(F, difference * difference, reduction)


@op
class MseLoss(Squares):
    """mse_loss(input, target, reduction) -> Tensor: squared differences of one float dtype."""

    aten = "mse_loss"
    autocast = Autocast(cpu=SINGLE, gpu=SINGLE)


@op
class MseLossMixed(Squares):
    """mse_loss_mixed(input, target, reduction) -> Tensor: the same of two dtypes."""

    aten = "mse_loss"
    dtype = PROMOTE
    guard = only_floats("mse_cpu")


@api(
    name="nn.functional.mse_loss",
    method=False,
    samples=[*PAIRS, *WEIGHTED],
    autocast=Autocast(cpu=SINGLE, gpu=SINGLE),
)
def mse_loss(
    input: Any,
    target: Any,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Any = None,
) -> Any:
    """mse_loss(input, target, reduction="mean", weight=None) -> Tensor: the mean squared
    difference of input and target.

    >>> nn.functional.mse_loss(tensor([1.0, 2.0]), tensor([1.0, 4.0]))
    tensor(2.)
    """
    plain = same_floats(input, target)
    if not plain:
        warn_of_broadcast(input, target)
        input, target = public.broadcast_tensors(input, target)
    reduction = _reduction.chosen(reduction, size_average, reduce)
    if weight is not None:
        return weighted(lambda: public.pow(input - target, 2), weight, input, reduction)
    record = MseLoss if plain else MseLossMixed
    return apply(record, (input, target), (_reduction.known_reduction(reduction),))


def weighted(losses: Any, weight: Any, input: Any, reduction: str, by_weight: bool = True) -> Any:
    """Elementwise losses times weights; the mean is over the weights, or over the elements."""
    if weight.size() != input.size():
        raise ValueError("Weights and input must have the same size.")
    found = losses() * weight
    if reduction == "mean" and by_weight:
        return found.sum() / weight.sum()
    if reduction not in REDUCTIONS:
        raise ValueError(
            f"Invalid reduction mode: {reduction}. Expected one of 'none', 'mean', 'sum'."
        )
    return _reduction.apply(found, reduction)


@api(
    name="nn.functional.l1_loss",
    method=False,
    samples=[*PAIRS, *WEIGHTED],
    autocast=Autocast(cpu=SINGLE, gpu=SINGLE),
)
def l1_loss(
    input: Any,
    target: Any,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Any = None,
) -> Any:
    """l1_loss(input, target, reduction="mean", weight=None) -> Tensor: the mean absolute
    difference of input and target.

    >>> nn.functional.l1_loss(tensor([1.0, 2.0]), tensor([1.0, 4.0]))
    tensor(1.)
    """
    if not same_floats(input, target):
        warn_of_broadcast(input, target)
        input, target = public.broadcast_tensors(input, target)
    reduction = _reduction.chosen(reduction, size_average, reduce)
    if weight is not None:
        return weighted(lambda: (input - target).abs(), weight, input, reduction)
    return _reduction.apply((input - target).abs(), _reduction.known_reduction(reduction))


def squares_then_lines(xp: Any, distance: Any, end: float) -> Any:
    """Half the square up to `end`, and the tangent there from then on, in one formula."""
    near = xp.minimum(distance, end)
    return near * (distance - 0.5 * near)


@op
class SmoothL1Loss(Block):
    """smooth_l1_loss(input, target, reduction, beta) -> Tensor: squares below `beta`."""

    aten = "smooth_l1_loss"
    tensors = ("input", "target")
    ordered = True
    dtype = PROMOTE
    guard = only_floats("smooth_l1_cpu")
    public = False
    autocast = Autocast(cpu=SINGLE, gpu=SINGLE)

    def fwd(xp, input, target, reduction, beta):
        distance = xp.abs(half_as_single(input) - half_as_single(target))
        if beta == 1.0:
            losses = squares_then_lines(xp, distance, beta)
        else:
            near = 0.5 * distance * distance / beta
            losses = xp.where(distance < beta, near, distance - 0.5 * beta)
        return reduced(xp, cast_value(losses, input.dtype), reduction)

    def d_input(F, grad, input, target, reduction, beta):
        return share(grad, input.shape, reduction) * smooth_slope(F, apart(F, input, target), beta)

    def d_target(F, grad, input, target, reduction, beta):
        return share(grad, input.shape, reduction) * smooth_slope(F, apart(F, target, input), beta)

    def jvp(F, input, t_input, target, t_target, reduction, beta):
        slope = smooth_slope(F, input - target, beta)
        return collected(F, slope * change(t_input, t_target), reduction)

    def batch(F, size, batched, input, target, reduction, beta):
        whole = lift(F, input, size, batched[0]), lift(F, target, size, batched[1])
        return per_entry(F, F.smooth_l1_loss(*whole, "none", beta), reduction)


def smooth_slope(F: Any, difference: Any, beta: float) -> Any:
    if beta == 1.0 and not F.recorded:
        return F.clamp_scalar(difference, -1.0, 1.0)
    return F.where(F.abs(difference) >= beta, F.sign(difference), difference / beta)


@api(
    name="nn.functional.smooth_l1_loss",
    method=False,
    samples=[*PAIRS, Case(Draw(2, 3), Draw(2, 3), beta=0.5), Case(Draw(3), Draw(3), beta=0.0)],
    autocast=Autocast(cpu=SINGLE, gpu=SINGLE),
)
def smooth_l1_loss(
    input: Any,
    target: Any,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Any:
    """smooth_l1_loss(input, target, reduction="mean", beta=1.0) -> Tensor: squared small
    differences, linear large ones.

    Differences below `beta` count as half their square over `beta`, others as themselves.

    >>> nn.functional.smooth_l1_loss(tensor([0.0, 0.0]), tensor([1.0, 3.0]))
    tensor(1.5000)
    """
    warn_of_broadcast(input, target)
    reduction = chosen(reduction, size_average, reduce)
    input, target = public.broadcast_tensors(input, target)
    if beta < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    if beta == 0:
        return _reduction.apply((input - target).abs(), reduction)
    return apply(SmoothL1Loss, (input, target), (reduction, float(beta)))


@op
class HuberLoss(Block):
    """huber_loss(input, target, reduction, delta, result) -> Tensor: squares below `delta`."""

    aten = "huber_loss"
    tensors = ("input", "target")
    ordered = True
    dtype = PROMOTE
    guard = only_floats("huber_cpu")
    public = False
    autocast = Autocast(cpu=SINGLE, gpu=SINGLE)

    def fwd(xp, input, target, reduction, delta, result):
        distance = xp.abs(half_as_single(input) - half_as_single(target))
        losses = squares_then_lines(xp, distance, delta)
        return reduced(xp, cast_value(losses, result), reduction)

    def d_input(F, grad, input, target, reduction, delta):
        return share(grad, input.shape, reduction) * huber_slope(F, apart(F, input, target), delta)

    def d_target(F, grad, input, target, reduction, delta):
        return share(grad, input.shape, reduction) * huber_slope(F, apart(F, target, input), delta)

    def jvp(F, input, t_input, target, t_target, reduction, delta):
        slope = huber_slope(F, input - target, delta)
        return collected(F, slope * change(t_input, t_target), reduction)

    def batch(F, size, batched, input, target, reduction, delta, result):
        whole = lift(F, input, size, batched[0]), lift(F, target, size, batched[1])
        return per_entry(F, F.huber_loss(*whole, "none", delta, result), reduction)


def huber_slope(F: Any, difference: Any, delta: float) -> Any:
    if not F.recorded:  # the same, less its own slope at the corners
        return F.clamp_scalar(difference, -delta, delta)
    return F.where(F.abs(difference) >= delta, F.sign(difference) * delta, difference)


@api(
    name="nn.functional.huber_loss",
    method=False,
    python=True,
    samples=[*PAIRS, *WEIGHTED, Case(Draw(2, 3), Draw(2, 3), delta=0.5)],
    autocast=Autocast(cpu=SINGLE, gpu=SINGLE),
)
def huber_loss(
    input: Any, target: Any, reduction: str = "mean", delta: float = 1.0, weight: Any = None
) -> Any:
    """huber_loss(input, target, reduction="mean", delta=1.0) -> Tensor: squared small differences,
    linear large ones.

    Differences below `delta` count as half their square, others grow with slope `delta`.

    >>> nn.functional.huber_loss(tensor([0.0, 0.0]), tensor([1.0, 3.0]), delta=2.0)
    tensor(2.2500)
    """
    warn_of_broadcast(input, target)
    input, target = public.broadcast_tensors(input, target)
    how = _reduction.known_reduction(reduction) if weight is None else "none"
    if delta <= 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    result, other = input.dtype, target.dtype
    if other.is_floating_point and not (result.is_floating_point or result.is_complex):
        raise RuntimeError(
            f"result type {other.scalar_type} can't be cast to the desired output type "
            f"{result.scalar_type}"
        )

    def losses() -> Any:
        return apply(HuberLoss, (input, target), (how, float(delta), result.np))

    if weight is None:
        return losses()
    return weighted(losses, weight, input, reduction, by_weight=False)


@op
class SoftMarginLoss(Block):
    """soft_margin_loss(input, target, reduction) -> Tensor: log(1 + exp(-target * input))."""

    aten = "soft_margin_loss"
    tensors = ("input", "target")
    ordered = True
    plain_tensors = ("target",)
    public = False
    autocast = Autocast(cpu=SINGLE, gpu=SINGLE)

    def fwd(xp, input, target, reduction):
        return reduced(xp, xp.log1p(xp.exp(-input * target)), reduction)

    def d_input(F, grad, input, target, reduction):
        return share(grad, input.shape, reduction) * soft_slope(F, input, target)

    def jvp(F, input, t_input, target, reduction):
        return collected(F, soft_slope(F, input, target) * t_input, reduction)

    def batch(F, size, batched, input, target, reduction):
        whole = lift(F, input, size, batched[0])
        other = padded(F, target, 1, len(whole.shape)) if batched[1] else target
        return per_entry(F, F.soft_margin_loss(whole, other, "none"), reduction)


def soft_slope(F: Any, input: Any, target: Any) -> Any:
    z = F.exp(-input * target)
    return -target * z / (z + 1)


@api(
    name="nn.functional.soft_margin_loss",
    method=False,
    samples=[
        Case(Draw(2, 3), Index([[1, -1, 1], [-1, 1, 1]])),
        Case(Draw(2, 3), Index([1, -1, 2]), reduction="none"),
        Case(Draw(3), Index([1, -1, 1]), reduction="sum"),
    ],
    autocast=Autocast(cpu=SINGLE, gpu=SINGLE),
)
def soft_margin_loss(
    input: Any,
    target: Any,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """soft_margin_loss(input, target, reduction="mean") -> Tensor: log(1 + exp(-target * input)).

    `target` holds 1 and -1.

    >>> nn.functional.soft_margin_loss(tensor([0.0, 2.0]), tensor([1.0, -1.0]))
    tensor(1.4100)
    """
    reduction = chosen(reduction, size_average, reduce)
    refuse_grad("soft_margin_loss", target=target)
    x, y = input._array, target._array
    if x.dtype.kind not in "fVc":
        if x.dtype.kind == "b":
            public.neg(input)  # which refuses
        raise RuntimeError(
            f"result type Float can't be cast to the desired output type {input.dtype.scalar_type}"
        )
    check_fits(y, x)
    return apply(SoftMarginLoss, (input, target.to(input.dtype)), (reduction,))
