"""Losses that ask for a margin: between classes, between labels, between distances."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.arguments import REDUCTIONS
from ...core.host_arrays import host
from ...core.transforms.batched import known_values
from ..block import SINGLE, Autocast, Block, Case, api, apply, looks_at_values, op
from ..block.batching import lift
from ..block.checks import not_implemented, only_tensors
from ..block.public import public
from ..block.samples import Draw, Index
from ..pointwise.with_number import add_number, sub_number
from . import reduction as _reduction
from .loss_pointwise import (
    by_number,
    chosen,
    collected,
    per_entry,
    reduced,
    refuse_grad,
    share,
)

# ruff: noqa: N805

# ---------------------------------------------------------------------- between classes
# Both kernels map over leading dimensions; the last one holds the classes.


def check_samples(input: Any) -> None:
    shape = input._array.shape
    if len(shape) > 2 or (shape and shape[-1] == 0):
        raise RuntimeError(
            "Expected non-empty vector or matrix with optional 0-dim batch size, but got: "
            f"{list(shape)}"
        )


@looks_at_values
def lies_outside(target: Any, low: int, high: int) -> bool:
    """Whether a class index is below `low`, or not below `high`."""
    y = known_values(target)
    return bool(y.size and (y.min() < low or y.max() >= high))


def check_kernel(kernel: str, input: Any, target: Any) -> None:
    """Refuse dtypes that PyTorch's kernels do not take: other than float32, float64 and int64
    targets.
    """
    if input.dtype not in (public.float32, public.float64):
        raise not_implemented(kernel, input.dtype)
    if target.dtype is not public.int64:
        raise RuntimeError(f"expected scalar type Long but found {target.dtype.scalar_type}")


def trailing(F: Any, x: Any) -> Any:
    """One more dimension at the end, except for a scalar, which broadcasts as it is."""
    return F.reshape(x, (*x.shape, 1)) if len(x.shape) else x


def place(xp: Any, x: Any, at: Any) -> Any:
    """The index of one class for each row: what take_along_axis makes, with less around it."""
    lead = x.shape[:-1]
    ones = [(1,) * (len(lead) - i) for i in range(len(lead))]
    return (*[xp.arange(n).reshape(n, *ones[i]) for i, n in enumerate(lead)], at)


@op
class MultiMarginLoss(Block):
    """multi_margin_loss(input, target, factor, p, margin, reduction) -> Tensor: of a class."""

    aten = "multi_margin_loss"
    tensors = ("input", "target", "factor")
    plain_tensors = ("target", "factor")
    public = False
    autocast = Autocast(cpu=SINGLE, gpu=SINGLE)

    def fwd(xp, input, target, factor, p, margin, reduction):
        at = target[..., None]
        own = place(xp, input, at)
        over = input - input[own] + input.dtype.type(margin)
        over = xp.where(over > 0, over, 0)  # and not for NaN
        over[own] = 0
        losses = (over if p == 1 else over * over).sum(-1) / input.dtype.type(input.shape[-1])
        return reduced(xp, losses if factor is None else losses * factor, reduction)

    def d_input(F, grad, input, target, factor, p, margin, reduction):
        by = share(grad, target.shape, reduction)
        by = by if factor is None else by * factor
        return trailing(F, by) * margin_slope(F, input, target, p, margin)

    def jvp(F, input, t_input, target, factor, p, margin, reduction):
        change = t_input * margin_slope(F, input, target, p, margin)
        losses = F.sum(change, (len(input.shape) - 1,), False, None)
        return collected(F, losses if factor is None else losses * factor, reduction)

    def batch(F, size, batched, input, target, factor, p, margin, reduction):
        tensors = [
            lift(F, x, size, b) for x, b in zip((input, target, factor), batched, strict=True)
        ]
        return per_entry(F, F.multi_margin_loss(*tensors, p, margin, "none"), reduction)


def margin_slope(F: Any, input: Any, target: Any, p: int, margin: float) -> Any:
    """The derivative of each sample's loss with respect to its classes."""
    last = len(input.shape) - 1
    at = F.reshape(target, (*target.shape, 1))
    over = input - F.gather(input, at, last) + margin
    pull = F.where(over > 0, F.ones_like(over) if p == 1 else 2 * over, 0) / input.shape[last]
    pull = F.scatter_value(pull, at, 0, last)
    own = F.sum(pull, (last,), True, None)
    return F.scatter_src(pull, at, -own, last)


@api(
    name="nn.functional.multi_margin_loss",
    method=False,
    python=True,
    samples=[
        Case(Draw(3, 4), Index([1, 0, 3])),
        Case(Draw(3, 4, layout="T"), Index([1, 2, 3]), 2, 0.5, reduction="none"),
        Case(Draw(4), Index(2), reduction="sum"),
    ],
    autocast=Autocast(cpu=SINGLE, gpu=SINGLE),
)
def multi_margin_loss(
    input: Any,
    target: Any,
    p: int = 1,
    margin: float = 1.0,
    weight: Any = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """multi_margin_loss(input, target, p=1, margin=1.0, weight=None, …) -> Tensor: the hinge loss
    of scores for several classes, one of which is right.

    How far the other classes come within `margin` of the target's score, to the power `p`.

    >>> nn.functional.multi_margin_loss(tensor([[0.1, 0.2, 0.9]]), tensor([2]))
    tensor(0.1667)
    """
    reduction = chosen(reduction, size_average, reduce)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.dim() != 1:
        raise ValueError("weight must be one-dimensional")
    refuse_grad("multi_margin_loss", weight=weight)
    check_samples(input)
    x, y = input._array, target._array
    count = x.shape[0] if x.ndim == 2 else 1
    if y.ndim > 1 or y.size != count:
        raise RuntimeError(
            "multi_margin_loss: target tensor should be 1-D with size equal to the number of input "
            f"samples (batch size). Expected target size [{count}], but got {list(y.shape)}. Input "
            f"has shape {list(x.shape)}."
        )
    classes = x.shape[-1] if x.ndim else 1
    if weight is not None and weight.numel() != classes:
        raise RuntimeError(
            f"inconsistent weight size, expected {classes} but got {list(weight.shape)}"
        )
    check_kernel("multi_margin_loss_cpu_kernel", input, target)
    if weight is not None and weight.dtype is not input.dtype:
        raise RuntimeError(
            f"expected scalar type {input.dtype.scalar_type} but found {weight.dtype.scalar_type}"
        )
    if lies_outside(target, 0, classes):
        raise RuntimeError("target out of range")
    alone = x.ndim < 2
    where = target.reshape(() if alone else (count,))
    with public.no_grad():
        factor = None if weight is None else weight[where]
    samples = input if x.ndim else input.reshape(1)
    loss = apply(MultiMarginLoss, (samples, where, factor), (p, float(margin), reduction))
    return loss.reshape(1) if alone and y.ndim and reduction == "none" else loss


# ---------------------------------------------------------------------- between labels


def labels(xp: Any, target: Any) -> tuple[Any, Any, Any, Any]:
    """The labels before the first negative one: where, whether, which classes, at most how many."""
    valid = xp.logical_and.accumulate(target >= 0, axis=-1)
    label = xp.where(valid, target, 0)
    hits = xp.zeros(target.shape, np.int64)
    flat = hits.reshape(-1, target.shape[-1])
    at = xp.arange(flat.shape[0])[:, None]
    xp.add.at(flat, (at, label.reshape(flat.shape)), valid.reshape(flat.shape))
    most = target.shape[-1] if target.size else 0
    if xp is host and most:
        most = int(valid.sum(-1).max())
    return label, valid, hits > 0, most


@op
class MultilabelMarginLoss(Block):
    """multilabel_margin_loss(input, target, reduction) -> Tensor: of several classes."""

    aten = "multilabel_margin_loss_forward"
    tensors = ("input", "target")
    plain_tensors = ("target",)
    public = False
    autocast = Autocast(cpu=SINGLE, gpu=SINGLE)

    def fwd(xp, input, target, reduction):
        label, valid, is_label, most = labels(xp, target)
        losses = xp.zeros(input.shape[:-1], input.dtype)
        for j in range(most):
            own = input[place(xp, input, label[..., j : j + 1])]
            over = 1 - own + input
            over = xp.where(~is_label & (over > 0), over, 0)
            losses += over.sum(-1) * valid[..., j]
        return reduced(xp, losses / input.dtype.type(input.shape[-1]), reduction)

    def d_input(F, grad, input, target, reduction):
        by = share(grad, input.shape[:-1], reduction)
        return trailing(F, by) * F.multilabel_margin_slope(input, target)

    def jvp(F, input, t_input, target, reduction):
        change = t_input * F.multilabel_margin_slope(input, target)
        return collected(F, F.sum(change, (len(input.shape) - 1,), False, None), reduction)

    def batch(F, size, batched, input, target, reduction):
        whole = lift(F, input, size, batched[0]), lift(F, target, size, batched[1])
        return per_entry(F, F.multilabel_margin_loss(*whole, "none"), reduction)


@op
class MultilabelMarginSlope(Block):
    """multilabel_margin_slope(input, target) -> Tensor: the loss of a sample by its classes.

    It is constant between kinks: it has no derivative of its own.
    """

    aten = None
    tensors = ("input", "target")
    leading = (1, 1)
    public = False
    undifferentiable = "it is constant between kinks"

    def fwd(xp, input, target):
        label, valid, is_label, most = labels(xp, target)
        out = xp.zeros(input.shape, input.dtype)
        for j in range(most):
            at = place(xp, input, label[..., j : j + 1])
            over = 1 - input[at] + input > 0
            over &= ~is_label & valid[..., j : j + 1]
            out += over
            out[at] -= xp.count_nonzero(over, -1)[..., None]
        return out / input.dtype.type(input.shape[-1])


@api(
    name="nn.functional.multilabel_margin_loss",
    method=False,
    samples=[
        Case(Draw(2, 4), Index([[3, 0, -1, 1], [2, -1, 0, 0]])),
        Case(Draw(2, 3, layout="T"), Index([[0, 1, 2], [2, 1, -1]]), reduction="none"),
        Case(Draw(4), Index([1, 1, -1, 0]), reduction="sum"),
    ],
    autocast=Autocast(cpu=SINGLE, gpu=SINGLE),
)
def multilabel_margin_loss(
    input: Any,
    target: Any,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """multilabel_margin_loss(input, target, reduction="mean") -> Tensor: hinge loss of labels.

    Each row of `target` lists classes up to the first -1.

    >>> nn.functional.multilabel_margin_loss(tensor([[0.1, 0.2, 0.9]]), tensor([[2, -1, 0]]))
    tensor(0.1667)
    """
    reduction = chosen(reduction, size_average, reduce)
    check_samples(input)
    x, y = input._array, target._array
    fits = y.shape == x.shape if x.ndim == 2 else y.ndim <= 1 and y.size == x.size
    if not fits:
        raise RuntimeError(
            f"inconsistent target size: {list(y.shape)} for input of size: {list(x.shape)}"
        )
    check_kernel("multilabel_margin_loss_forward_out_frame", input, target)
    classes = x.shape[-1] if x.ndim else 1
    if lies_outside(target, -1, classes):
        raise RuntimeError("argument #2 'target' is out of range")
    if x.ndim == 0:
        input = input.reshape(1)
    if y.ndim == 0:
        target = target.reshape(1)
    return apply(MultilabelMarginLoss, (input, target), (reduction,))


@api(
    name="nn.functional.multilabel_soft_margin_loss",
    method=False,
    samples=[
        Case(Draw(2, 3), Draw(2, 3)),
        Case(Draw(2, 3), Draw(2, 3), Draw(3), reduction="none"),
        Case(Draw(3), Draw(3), reduction="sum"),
    ],
)
def multilabel_soft_margin_loss(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """multilabel_soft_margin_loss(input, target, weight=None, …) -> Tensor: of the sigmoid.

    The mean over the classes of the binary cross entropy of each.

    >>> nn.functional.multilabel_soft_margin_loss(tensor([[0.0, 2.0]]), tensor([[0.0, 1.0]]))
    tensor(0.4100)
    """
    how = _reduction.chosen(reduction, size_average, reduce)
    logsigmoid = public.nn.functional.logsigmoid
    losses = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    if weight is not None:
        losses = losses * weight
    losses = losses.sum(input.dim() - 1) / input.size(input.dim() - 1)
    if how not in REDUCTIONS:
        raise ValueError(f"{how} is not valid")
    return _reduction.apply(losses, how)


# ---------------------------------------------------------------------- between pairs


@api(
    name="hinge_embedding_loss",
    method=False,
    samples=[Case(Draw(2, 3), Index([1, -1, 0])), Case(Draw(3), Index([1, -1, -1]), 3.0, 2)],
    autocast=Autocast(cpu=SINGLE, gpu=SINGLE),
)
def hinge_embedding_loss_by_number(
    input: Any, target: Any, margin: float = 1.0, reduction: int = 0
) -> Any:
    """hinge_embedding_loss(input, target, margin=1.0, reduction=0) -> Tensor: by number.

    `nn.functional` has the usual spelling.

    >>> hinge_embedding_loss(tensor([0.5, 0.2]), tensor([1, -1]), reduction=1)
    tensor(0.6500)
    """
    how = by_number("hinge_embedding_loss", reduction)
    nothing = public.zeros_like(input)
    lacking = (public.full_like(input, float(margin)) - input).clamp_min(0)
    apart = public.where(target != 1, lacking, nothing)
    return _reduction.apply(apart + public.where(target != -1, input, nothing), how)


@api(
    name="nn.functional.hinge_embedding_loss",
    method=False,
    samples=[
        Case(Draw(2, 3), Index([[1, -1, 1], [-1, 1, 1]])),
        Case(Draw(2, 3), Index([1, -1, 0]), 2.5, reduction="none"),
    ],
    autocast=Autocast(cpu=SINGLE, gpu=SINGLE),
)
def hinge_embedding_loss(
    input: Any,
    target: Any,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """hinge_embedding_loss(input, target, margin=1.0, reduction="mean") -> Tensor: of distances.

    Where `target` is 1 the distance itself, where it is -1 what lacks to `margin`.

    >>> nn.functional.hinge_embedding_loss(tensor([0.5, 0.2]), tensor([1, -1]))
    tensor(0.6500)
    """
    how = chosen(reduction, size_average, reduce)
    return hinge_embedding_loss_by_number(input, target, margin, REDUCTIONS.index(how))


@api(
    name="margin_ranking_loss",
    method=False,
    samples=[Case(Draw(2, 3), Draw(3), Draw(3)), Case(Draw(3), Draw(3), Draw(3), 0.7, 1)],
    autocast=Autocast(cpu=SINGLE, gpu=SINGLE),
)
def margin_ranking_loss_by_number(
    input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: int = 0
) -> Any:
    """margin_ranking_loss(input1, input2, target, margin=0.0, reduction=0) -> Tensor: by number.

    `nn.functional` has the usual spelling.

    >>> margin_ranking_loss(tensor([1.0]), tensor([3.0]), tensor([1.0]), 0.5, 1)
    tensor(2.5000)
    """
    how = by_number("margin_ranking_loss", reduction)
    only_tensors("margin_ranking_loss", input1=input1, input2=input2, target=target)
    ahead = input1 - input2
    lacking = add_number(-target * ahead, float(margin))
    return _reduction.apply(lacking.clamp_min(0), how)


@api(
    name="nn.functional.margin_ranking_loss",
    method=False,
    samples=[
        Case(Draw(2, 3), Draw(2, 3), Draw(2, 3)),
        Case(Draw(2, 3), Draw(1, 3), Draw(2, 1), 0.7, reduction="none"),
    ],
    autocast=Autocast(cpu=SINGLE, gpu=SINGLE),
)
def margin_ranking_loss(
    input1: Any,
    input2: Any,
    target: Any,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """margin_ranking_loss(input1, input2, target, margin=0, …) -> Tensor: of an order.

    Where `target` is 1 the first should be larger by `margin`, where it is -1 the second.

    >>> nn.functional.margin_ranking_loss(tensor([1.0]), tensor([3.0]), tensor([1.0]), 0.5)
    tensor(2.5000)
    """
    how = chosen(reduction, size_average, reduce)
    if input1.dim() != input2.dim() or input1.dim() != target.dim():
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: "
            f"input1: {input1.size()}, input2: {input2.size()}, target: {target.size()} "
        )
    return margin_ranking_loss_by_number(input1, input2, target, margin, REDUCTIONS.index(how))


TINY = 1e-12  # keeps the length of a zero vector from being zero


@api(
    name="cosine_embedding_loss",
    method=False,
    samples=[Case(Draw(3, 4), Draw(3, 4), Index([1, -1, 1]), -0.9, 1)],
    autocast=Autocast(cpu=SINGLE, gpu=SINGLE),
)
def cosine_embedding_loss_by_number(
    input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: int = 0
) -> Any:
    """cosine_embedding_loss(input1, input2, target, margin=0.0, reduction=0) -> Tensor: pull pairs
    of vectors together or push them apart, by their angle.

    `nn.functional` has the usual spelling.

    >>> cosine_embedding_loss(tensor([1.0, 0.0]), tensor([0.0, 1.0]), tensor(1))
    tensor(1.)
    """
    how = by_number("cosine_embedding_loss", reduction)
    if target.dim() > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    wanted = target.dim() + 1
    if input1.dim() != wanted or input2.dim() != wanted:
        raise RuntimeError(
            f"{target.dim()}D target tensor expects {wanted}D input tensors, but found inputs with "
            f"sizes {list(input1.shape)} and {list(input2.shape)}."
        )
    dim = target.dim()
    squares = [add_number((x * x).sum(dim), TINY) for x in (input1, input2)]
    cosine = (input1 * input2).sum(dim) / (squares[0] * squares[1]).sqrt()
    nothing = public.zeros_like(cosine)
    alike = public.where(target == 1, public.ones_like(cosine) - cosine, nothing)
    apart = public.where(target == -1, sub_number(cosine, float(margin)).clamp_min(0), nothing)
    return _reduction.apply(alike + apart, how)


@api(
    name="nn.functional.cosine_embedding_loss",
    method=False,
    samples=[
        Case(Draw(3, 4), Draw(3, 4), Index([1, -1, 1])),
        Case(Draw(3, 4), Draw(1, 4), Index([-1, 1, 1]), -0.9, reduction="none"),
        Case(Draw(4), Draw(4), Index(1), reduction="sum"),
    ],
    autocast=Autocast(cpu=SINGLE, gpu=SINGLE),
)
def cosine_embedding_loss(
    input1: Any,
    input2: Any,
    target: Any,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """cosine_embedding_loss(input1, input2, target, margin=0, …) -> Tensor: of angles.

    Where `target` is 1 the cosine should be one, where it is -1 below `margin`.

    >>> nn.functional.cosine_embedding_loss(tensor([1.0, 0.0]), tensor([0.0, 1.0]), tensor(1))
    tensor(1.)
    """
    how = chosen(reduction, size_average, reduce)
    return cosine_embedding_loss_by_number(input1, input2, target, margin, REDUCTIONS.index(how))


# ---------------------------------------------------------------------- between triplets


def check_triplet(anchor: Any, positive: Any, negative: Any) -> None:
    a, p, n = anchor.dim(), positive.dim(), negative.dim()
    if not a == p == n:
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of "
            f"dimensions, but got: anchor {a}D, positive {p}D, and negative {n}D inputs"
        )


def check_margin(margin: float) -> None:
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")


def triplet_distances(
    distance: Callable[[Any, Any], Any], anchor: Any, positive: Any, negative: Any, swap: bool
) -> tuple[Any, Any]:
    """From the anchor to the positive and to the negative, which `swap` may take nearer."""
    near, far = distance(anchor, positive), distance(anchor, negative)
    return near, public.minimum(far, distance(positive, negative)) if swap else far


@api(
    name="triplet_margin_loss",
    method=False,
    samples=[Case(Draw(3, 4), Draw(3, 4), Draw(3, 4), 5.0, reduction=1)],
    autocast=Autocast(cpu=SINGLE, gpu=SINGLE),
)
def triplet_margin_loss_by_number(
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: int = 0,
) -> Any:
    """triplet_margin_loss(anchor, positive, negative, …, reduction=0) -> Tensor: by number.

    `nn.functional` has the usual spelling.

    >>> triplet_margin_loss(tensor([[0.0]]), tensor([[2.0]]), tensor([[1.0]]), reduction=1)
    tensor(2.)
    """
    how = by_number("triplet_margin_loss", reduction)
    check_triplet(anchor, positive, negative)

    def distance(a: Any, b: Any) -> Any:
        return public.pairwise_distance(a, b, p, eps)

    near, far = triplet_distances(distance, anchor, positive, negative, swap)
    return _reduction.apply((add_number(near, float(margin)) - far).clamp_min(0), how)


@api(
    name="nn.functional.triplet_margin_loss",
    method=False,
    python=True,
    samples=[
        Case(Draw(3, 4), Draw(3, 4), Draw(3, 4)),
        Case(Draw(3, 4), Draw(3, 4), Draw(3, 4), 5.0, 1.0, swap=True, reduction="none"),
        Case(Draw(4), Draw(4), Draw(4), 5.0, 3.0, reduction="sum"),
    ],
    autocast=Autocast(cpu=SINGLE, gpu=SINGLE),
)
def triplet_margin_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """triplet_margin_loss(anchor, positive, negative, margin=1.0, …) -> Tensor: of distances.

    The anchor should be nearer to the positive than to the negative, by `margin`.

    >>> nn.functional.triplet_margin_loss(tensor([[0.0]]), tensor([[2.0]]), tensor([[1.0]]))
    tensor(2.)
    """
    how = chosen(reduction, size_average, reduce)
    check_margin(margin)
    return triplet_margin_loss_by_number(
        anchor, positive, negative, margin, p, eps, swap, REDUCTIONS.index(how)
    )


@api(
    name="nn.functional.triplet_margin_with_distance_loss",
    method=False,
    samples=[
        Case(Draw(3, 4), Draw(3, 4), Draw(3, 4)),
        Case(Draw(3, 4), Draw(3, 4), Draw(3, 4), margin=5.0, swap=True, reduction="none"),
    ],
)
def triplet_margin_with_distance_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    *,
    distance_function: Callable[[Any, Any], Any] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Any:
    """triplet_margin_with_distance_loss(anchor, positive, negative, *, …) -> Tensor: any distance.

    >>> a, p, n = tensor([[0.0]]), tensor([[2.0]]), tensor([[1.0]])
    >>> nn.functional.triplet_margin_with_distance_loss(
    ...     a, p, n, distance_function=lambda x, y: (x - y).abs().sum(-1)
    ... )
    tensor(2.)
    """
    if reduction not in REDUCTIONS:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    check_margin(margin)
    check_triplet(anchor, positive, negative)
    distance = public.pairwise_distance if distance_function is None else distance_function
    near, far = triplet_distances(distance, anchor, positive, negative, swap)
    return _reduction.apply((margin + near - far).clamp_min(0), reduction)
