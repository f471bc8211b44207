"""Losses that are negative log likelihoods of elements: Bernoulli, Poisson, Gauss; divergence."""

from __future__ import annotations

import math
from typing import Any

from ...core.arguments import REDUCTIONS, cast_value
from ...core.rounding import half_as_single
from ...core.transforms.batched import known_values, physical_array
from ...core.warned import warn
from ..block import (
    AS_IS,
    SINGLE,
    UNSAFE,
    Autocast,
    Block,
    Case,
    Elementwise,
    api,
    apply,
    looks_at_values,
    op,
)
from ..block.batching import lift, padded
from ..block.checks import not_implemented, only_tensors
from ..block.public import public
from ..block.samples import Draw
from ..pointwise.arithmetic import refuse_bools
from ..pointwise.with_number import add_number, mul_number
from . import reduction as _reduction
from .loss_pointwise import (
    by_number,
    check_fits,
    chosen,
    collected,
    per_entry,
    reduced,
    refuse_grad,
    share,
)

# ruff: noqa: N805

LEAST_LOG = -100.0  # what the logarithm of zero counts as
EPSILON = 1e-12

# ---------------------------------------------------------------------- binary cross entropy


def times(value: Any, weight: Any) -> Any:
    return value if weight is None else value * weight


@op
class BinaryCrossEntropy(Block):
    """binary_cross_entropy(input, target, weight, reduction) -> Tensor: the loss of a yes/no
    classifier that gives probabilities."""

    aten = "binary_cross_entropy"
    tensors = ("input", "target", "weight")
    ordered = True
    plain_tensors = ("weight",)
    public = False
    autocast = Autocast(cpu=SINGLE, gpu=UNSAFE)

    def fwd(xp, input, target, weight, reduction):
        x, t = half_as_single(input), half_as_single(target)
        yes = xp.maximum(xp.log(x), x.dtype.type(LEAST_LOG))
        no = xp.maximum(xp.log1p(-x), x.dtype.type(LEAST_LOG))
        losses = times((t - 1) * no - t * yes, weight)
        return reduced(xp, cast_value(losses, input.dtype), reduction)

    def d_input(F, grad, input, target, weight, reduction):
        part = share(grad, input.shape, reduction)
        return F.binary_cross_entropy_backward(part, input, target, weight)

    def d_target(F, grad, input, weight, reduction):
        slope = F.log1p(-input) - F.log(input)
        return times(share(grad, input.shape, reduction) * slope, weight)

    def jvp(F, input, t_input, target, t_target, weight, reduction):
        total = None
        if t_input is not None:
            total = F.binary_cross_entropy_backward(t_input, input, target, weight)
        if t_target is not None:
            part = times(t_target * (F.log1p(-input) - F.log(input)), weight)
            total = part if total is None else total + part
        return collected(F, total, reduction)

    def batch(F, size, batched, input, target, weight, reduction):
        x, t, w = whole(F, size, batched, input, target, weight)
        return per_entry(F, F.binary_cross_entropy(x, t, w, "none"), reduction)


def whole(F: Any, size: int, batched: Any, *tensors: Any) -> list[Any]:
    """Tensors of a batch that broadcast: the first with the batch, the others as it needs them."""
    first = lift(F, tensors[0], size, batched[0])
    rank = len(first.shape)
    made = [first]
    for x, b in zip(tensors[1:], batched[1:], strict=True):
        made.append(padded(F, x, 1, rank) if b and x is not None else x)
    return made


@op
class BinaryCrossEntropyBackward(Elementwise):
    """binary_cross_entropy_backward(grad_output, input, target, weight) -> Tensor: its gradient."""

    tensors = ("grad_output", "input", "target", "weight")
    plain_tensors = ("weight",)
    node = "BinaryCrossEntropyBackwardBackward0"
    aten = "binary_cross_entropy_backward"
    dtype = AS_IS
    public = False

    def fwd(xp, grad_output, input, target, weight):
        return times(grad_output * (input - target) / variance_of_array(xp, input), weight)

    def d_grad_output(F, grad, input, target, weight):
        return F.binary_cross_entropy_backward(grad, input, target, weight)

    def d_input(F, grad, grad_output, input, target, weight):
        return curved(F, grad * grad_output, input, target, weight)

    def d_target(F, grad, grad_output, input, weight):
        return times(-grad * grad_output / variance(F, input), weight)


def variance_of_array(xp: Any, input: Any) -> Any:
    return xp.maximum((1 - input) * input, input.dtype.type(EPSILON))


def variance(F: Any, input: Any) -> Any:
    return F.clamp_min_scalar((1 - input) * input, EPSILON, None)


def curved(F: Any, grad: Any, input: Any, target: Any, weight: Any) -> Any:
    """The second derivative of the loss, times `grad`."""
    top = input * input - 2 * input * target + target
    return times(grad * top / variance(F, input) ** 2, weight)


@api(
    name="nn.functional.binary_cross_entropy",
    method=False,
    samples=[
        Case(Draw(3, 4, low=0.1, high=0.9), Draw(3, 4, low=0.1, high=0.9)),
        Case(
            Draw(2, 3, low=0.1, high=0.9),
            Draw(2, 3, low=0.1, high=0.9, layout="T"),
            reduction="none",
        ),
        Case(Draw(low=0.1, high=0.9), Draw(low=0.1, high=0.9), reduction="sum"),
    ],
    autocast=Autocast(cpu=SINGLE, gpu=UNSAFE),
)
def binary_cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """binary_cross_entropy(input, target, weight=None, …) -> Tensor: minus the log likelihood of
    targets between 0 and 1, given probabilities.

    The negative logarithm of the probability that `input` gives to `target`.

    >>> nn.functional.binary_cross_entropy(tensor([0.5, 0.5]), tensor([0.0, 1.0]))
    tensor(0.6931)
    """
    reduction = chosen(reduction, size_average, reduce)
    if target.size() != input.size():
        raise ValueError(
            f"Using a target size ({target.size()}) that is different to the input size "
            f"({input.size()}) is deprecated. Please ensure they have the same size."
        )
    if weight is not None:
        check_weight(weight._array.shape, target._array.shape)
        check_fits(weight._array, input._array)
        weight = weight.expand(input.size())
    refuse_grad("binary_cross_entropy", weight=weight)
    for t in (target, weight):
        if t is not None and t.dtype is not input.dtype:
            raise RuntimeError(
                f"Found dtype {t.dtype.scalar_type} but expected {input.dtype.scalar_type}"
            )
    if not input.dtype.is_floating_point:
        raise not_implemented("binary_cross_entropy", input.dtype)
    for name, t in (("input", input), ("target", target)):
        if not is_probability(t):
            raise RuntimeError(f"all elements of {name} should be between 0 and 1")
    return apply(BinaryCrossEntropy, (input, target, weight), (reduction,))


@looks_at_values
def is_probability(t: Any) -> bool:
    """Whether all values are from 0 to 1, as far as they can be seen."""
    values = known_values(t)
    return bool(((values >= 0) & (values <= 1)).all())


@looks_at_values
def has_negative(t: Any) -> bool:
    return bool((physical_array(t) < 0).any())


def check_weight(shape: tuple[int, ...], full: tuple[int, ...]) -> None:
    """Refuse a weight that does not broadcast, in the words of torch.broadcast_shapes."""
    for at in range(-1, -min(len(shape), len(full)) - 1, -1):
        if shape[at] != full[at] and 1 not in (shape[at], full[at]):
            raise RuntimeError(
                f"Attempting to broadcast a dimension of length {shape[at]} at {at}! Mismatching "
                f"argument at index 1 had torch.Size({list(shape)}); but expected shape should be "
                f"broadcastable to {list(full)}"
            )


@op
class BinaryCrossEntropyWithLogits(Block):
    """binary_cross_entropy_with_logits(…) -> Tensor: of the sigmoid of `input`."""

    aten = "binary_cross_entropy_with_logits"
    ordered_by = 1  # PyTorch computes with 1 - target first
    tensors = ("input", "target", "weight", "pos_weight")
    ordered = True
    plain_tensors = ("weight", "pos_weight")
    public = False
    autocast = Autocast(cpu=SINGLE, gpu=SINGLE)
    gradient_text = {"input": "grad * (sigmoid(input) - target) * weight / n"}

    def fwd(xp, input, target, weight, pos_weight, reduction):
        x, t = half_as_single(input), half_as_single(target)
        surprise = xp.maximum(-x, x.dtype.type(0)) + xp.log1p(xp.exp(-xp.abs(x)))
        if pos_weight is not None:
            surprise = surprise * ((pos_weight - 1) * t + 1)
        surprise = half_as_single(cast_value(surprise, input.dtype))
        if t is not target:  # half precision is rounded after every step
            t = half_as_single(cast_value(1 - t, target.dtype))
            product = half_as_single(cast_value(t * x, target.dtype))
        else:
            product = (1 - t) * x
        losses = times(product + surprise, weight)
        return reduced(xp, cast_value(losses, target.dtype), reduction)

    def d_input(F, grad, input, target, weight, pos_weight, reduction):
        slope = logit_slope(F, input, target, pos_weight)
        return times(share(grad, input.shape, reduction) * slope, weight)

    def d_target(F, grad, input, weight, pos_weight, reduction):
        slope = logit_target_slope(F, input, pos_weight)
        return times(share(grad, input.shape, reduction) * slope, weight)

    def jvp(F, input, t_input, target, t_target, weight, pos_weight, reduction):
        total = None
        if t_input is not None:
            total = t_input * logit_slope(F, input, target, pos_weight)
        if t_target is not None:
            part = t_target * logit_target_slope(F, input, pos_weight)
            total = part if total is None else total + part
        return collected(F, times(total, weight), reduction)

    def batch(F, size, batched, input, target, weight, pos_weight, reduction):
        tensors = whole(F, size, batched, input, target, weight, pos_weight)
        return per_entry(F, F.binary_cross_entropy_with_logits(*tensors, "none"), reduction)


def logit_slope(F: Any, input: Any, target: Any, pos_weight: Any) -> Any:
    if pos_weight is None:
        return F.sigmoid(input) - target
    yes = pos_weight * target
    return (yes + 1 - target) * F.sigmoid(input) - yes


def logit_target_slope(F: Any, input: Any, pos_weight: Any) -> Any:
    if pos_weight is None:
        return -input
    surprise = F.logaddexp(-input, F.zeros_like(input))
    return (pos_weight - 1) * surprise - input


def logits_loss(input: Any, target: Any, weight: Any, pos_weight: Any, reduction: str) -> Any:
    """The common part of both spellings of binary_cross_entropy_with_logits, after their own
    checks.
    """
    refuse_grad("binary_cross_entropy_with_logits", weight=weight, pos_weight=pos_weight)
    if not input.dtype.is_floating_point:
        raise not_implemented("log_sigmoid_cpu", input.dtype)
    if target._array.dtype.kind == "b":
        refuse_bools(target._array, target._array)
    if not target.dtype.is_floating_point:
        raise RuntimeError(
            f"result type {input.dtype.scalar_type} can't be cast to the desired output type "
            f"{target.dtype.scalar_type}"
        )
    for t in (pos_weight, weight):
        if t is not None:
            check_fits(t._array, input._array)
    return apply(BinaryCrossEntropyWithLogits, (input, target, weight, pos_weight), (reduction,))


@api(
    name="nn.functional.binary_cross_entropy_with_logits",
    method=False,
    samples=[
        Case(Draw(3, 4), Draw(3, 4)),
        Case(Draw(2, 3, layout="T"), Draw(2, 3), reduction="none"),
        Case(Draw(), Draw(), reduction="sum"),
    ],
    autocast=Autocast(cpu=SINGLE, gpu=SINGLE),
)
def binary_cross_entropy_with_logits(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Any = None,
) -> Any:
    """binary_cross_entropy_with_logits(input, target, …) -> Tensor: of the sigmoid of `input`.

    `pos_weight` multiplies the part of the positive answers.

    >>> nn.functional.binary_cross_entropy_with_logits(tensor([0.0, 2.0]), tensor([0.0, 1.0]))
    tensor(0.4100)
    """
    reduction = chosen(reduction, size_average, reduce)
    if target.size() != input.size():
        raise ValueError(
            f"Target size ({target.size()}) must be the same as input size ({input.size()})"
        )
    return logits_loss(input, target, weight, pos_weight, reduction)


@api(
    name="binary_cross_entropy_with_logits",
    method=False,
    samples=[Case(Draw(2, 3), Draw(2, 3)), Case(Draw(2, 3), Draw(2, 3), reduction=1)],
    autocast=Autocast(cpu=SINGLE, gpu=SINGLE),
)
def binary_cross_entropy_with_logits_by_number(
    input: Any, target: Any, weight: Any = None, pos_weight: Any = None, reduction: int = 0
) -> Any:
    """binary_cross_entropy_with_logits(input, target, …, reduction=0) -> Tensor: by number.

    `nn.functional` has the usual spelling.

    >>> binary_cross_entropy_with_logits(tensor([0.0, 2.0]), tensor([0.0, 1.0]), reduction=1)
    tensor(0.4100)
    """
    how = by_number("binary_cross_entropy_with_logits", reduction)
    if target.size() != input.size():
        check_fits(input._array, target._array)
        input = input.expand(target.size())
    return logits_loss(input, target, weight, pos_weight, how)


# ---------------------------------------------------------------------- divergence


@api(
    name="kl_div",
    method=False,
    samples=[Case(Draw(2, 3), Draw(2, 3, low=0.1)), Case(Draw(2, 3), Draw(3), 2, log_target=True)],
    autocast=Autocast(cpu=SINGLE, gpu=SINGLE),
)
def kl_div_by_number(
    input: Any, target: Any, reduction: int = 0, *, log_target: bool = False
) -> Any:
    """kl_div(input, target, reduction=0, *, log_target=False) -> Tensor: reduction by number.

    `nn.functional` has the usual spelling.

    >>> kl_div(tensor([0.5, 0.5]).log(), tensor([1.0, 0.0]), reduction=2)
    tensor(0.6931)
    """
    how = by_number("kl_div", reduction)
    for t in (input, target):
        if t.dtype.is_complex:
            raise RuntimeError("kl_div: Complex inputs not supported.")
    for t in (input, target):
        if not t.dtype.is_floating_point:
            raise RuntimeError("kl_div: Integral inputs not supported.")
    if log_target:
        losses = public.exp(target) * (target - input)
    else:
        losses = public.xlogy(target, target) - target * input
    return _reduction.apply(losses, how)


@api(
    name="nn.functional.kl_div",
    method=False,
    samples=[
        Case(Draw(3, 4), Draw(3, 4, low=0.1)),
        Case(Draw(3, 4), Draw(4, low=0.1), reduction="none"),
        Case(Draw(3, 4), Draw(3, 4), reduction="batchmean", log_target=True),
        Case(Draw(), Draw(low=0.1), reduction="batchmean"),
    ],
    autocast=Autocast(cpu=SINGLE, gpu=SINGLE),
)
def kl_div(
    input: Any,
    target: Any,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Any:
    """kl_div(input, target, reduction="mean", log_target=False) -> Tensor: the
    Kullback-Leibler divergence of `target` from `input`, which holds log-probabilities.

    `input` holds log probabilities; `target` probabilities, or their logarithms.

    >>> log_probability = tensor([[0.5, 0.5]]).log()
    >>> nn.functional.kl_div(log_probability, tensor([[1.0, 0.0]]), reduction="batchmean")
    tensor(0.6931)
    """
    if size_average is not None or reduce is not None:
        how = _reduction.from_flags(size_average, reduce)
    else:
        if reduction == "mean":
            warn(
                "reduction: 'mean' divides the total loss by both the batch size and the support "
                "size.'batchmean' divides only by the batch size, and aligns with the KL div math "
                "definition.'mean' will be changed to behave the same as 'batchmean' in the next "
                "major release.",
            )
        how = "sum" if reduction == "batchmean" else _reduction.known_reduction(reduction)
    loss = kl_div_by_number(input, target, REDUCTIONS.index(how), log_target=log_target)
    return loss / input.size(0) if reduction == "batchmean" and input.dim() else loss


# ---------------------------------------------------------------------- Poisson, Gauss


@api(
    name="poisson_nll_loss",
    method=False,
    samples=[Case(Draw(2, 3), Draw(2, 3, low=1.5, high=4.0), True, True, 1e-8, 1)],
    autocast=Autocast(cpu=SINGLE, gpu=SINGLE),
)
def poisson_nll_loss_by_number(
    input: Any, target: Any, log_input: bool, full: bool, eps: float, reduction: int
) -> Any:
    """poisson_nll_loss(input, target, log_input, full, eps, reduction) -> Tensor: by number.

    `nn.functional` has the usual spelling.

    >>> poisson_nll_loss(tensor([0.0, 1.0]), tensor([1.0, 2.0]), True, False, 1e-8, 1)
    tensor(0.8591)
    """
    how = by_number("poisson_nll_loss", reduction)
    if log_input:
        losses = public.exp(input) - target * input
    else:
        losses = input - target * public.log(add_number(input, eps))
    if full:
        # Stirling's formula for the logarithm of the factorial, which is small up to one.
        stirling = target * public.log(target) - target
        stirling = stirling + mul_number(public.log(mul_number(target, 2 * math.pi)), 0.5)
        losses = losses + stirling.masked_fill(target <= 1, 0)
    return _reduction.apply(losses, how)


@api(
    name="nn.functional.poisson_nll_loss",
    method=False,
    samples=[
        Case(Draw(2, 3), Draw(2, 3, low=0.2, high=0.9)),
        Case(Draw(2, 3, low=0.5), Draw(3, low=1.5, high=4.0), False, True, reduction="none"),
        Case(Draw(3), Draw(3, low=1.5, high=4.0), full=True, reduction="sum"),
    ],
    autocast=Autocast(cpu=SINGLE, gpu=SINGLE),
)
def poisson_nll_loss(
    input: Any,
    target: Any,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """poisson_nll_loss(input, target, log_input=True, full=False, …) -> Tensor: minus the log
    likelihood of counts with Poisson's distribution.

    The negative log likelihood of `target`, whose rate is `exp(input)` or `input` itself.

    >>> nn.functional.poisson_nll_loss(tensor([0.0, 1.0]), tensor([1.0, 2.0]))
    tensor(0.8591)
    """
    how = _reduction.chosen(reduction, size_average, reduce)
    if how not in REDUCTIONS:
        raise ValueError(f"{how} is not a valid value for reduction")
    only_tensors("poisson_nll_loss", input=input, target=target)
    return poisson_nll_loss_by_number(input, target, log_input, full, eps, REDUCTIONS.index(how))


@api(
    name="nn.functional.gaussian_nll_loss",
    method=False,
    samples=[
        Case(Draw(2, 3), Draw(2, 3), Draw(2, 3, low=0.5)),
        Case(Draw(2, 3), Draw(2, 3), Draw(2, low=0.5), full=True, reduction="none"),
        Case(Draw(2, 3), Draw(3), Draw(2, 1, low=0.5), reduction="sum"),
        Case(Draw(2, 3), Draw(2, 3), 0.5),
    ],
)
def gaussian_nll_loss(
    input: Any,
    target: Any,
    var: Any,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Any:
    """gaussian_nll_loss(input, target, var, full=False, eps=1e-6, …) -> Tensor: the loss of a model
    that predicts a mean and a variance.

    The negative log likelihood of `target` with mean `input` and variance `var`.

    >>> nn.functional.gaussian_nll_loss(tensor([0.0, 0.0]), tensor([1.0, 3.0]), tensor([1.0, 1.0]))
    tensor(2.5000)
    """
    if isinstance(var, float):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = var * public.ones_like(input)
    elif has_negative(var):
        raise ValueError("var has negative entry/entries")
    if var.size() != input.size():
        if input.size()[:-1] == var.size():
            var = var.unsqueeze(-1)
        elif not one_is_shared(input.size(), var.size()):
            raise ValueError("var is of incorrect size")
    if reduction not in REDUCTIONS:
        raise ValueError(f"{reduction} is not valid")
    var = var.clone()
    with public.no_grad():
        var.clamp_(min=eps)  # the gradient goes by the bound
    losses = 0.5 * (public.log(var) + (input - target) ** 2 / var)
    if full:
        losses += 0.5 * math.log(2 * math.pi)
    return _reduction.apply(losses, reduction)


def one_is_shared(shape: Any, other: Any) -> bool:
    """Whether one dimension, of size one in `other`, is all that two shapes differ in."""
    if len(shape) != len(other):
        return False
    return sum([b for a, b in zip(shape, other, strict=True) if a != b]) == 1
