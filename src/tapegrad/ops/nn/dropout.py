"""Dropout: elements or whole channels zeroed at random, with PyTorch's masks from the same seed."""

from __future__ import annotations

import math
from typing import Any

from ... import dtypes
from ...autograd.inplace import write
from ...core.arguments import cast_value
from ...core.base import STATE, TensorBase
from ...core.rounding import half_as_single
from ...core.transforms.batched_random import room
from ...core.transforms.levels import BATCHES
from ...core.warned import warn
from ...errors import must_be_tensor
from ...kernels.geometry import ordered
from ..block import APIS, AS_IS, Block, Case, Elementwise, api, apply, op
from ..block.checks import as_float
from ..block.samples import Draw
from ..block.shapes import same_shape
from ..creation.like import empty_like, ones_like
from ..creation.sized import empty, zeros
from ..draws.generators import place_of, stream_of

# ruff: noqa: N805

# What selu gives for minus infinity: where alpha dropout puts the elements that it drops.
SATURATED = 1.7580993408473766

BOOL = dtypes.bool_.np
MUL = APIS["mul"].call
ADD = APIS["add"].call


def dropped(
    name: str, input: Any, p: Any, train: Any, feature: bool, alpha: bool, run: Any = None
) -> Any:
    """The four kinds of dropout; `run` writes the result into `input`."""
    if not isinstance(input, TensorBase):
        raise must_be_tensor(name, "input", 1, input)
    p = as_chance(name, p)
    if not 0 <= p <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p:g}")
    t: Any = input
    if p == 0 or not train or not t.numel():
        return input
    if p == 1:
        return MUL(input, zeros((), dtype=t.dtype, device=t.device), run=run)
    if run is None and not feature and not alpha and draws_itself(t):
        return drawn_dropout(t, p)[0]
    if feature:
        noise = empty(channels(t.shape), dtype=t.dtype, device=t.device)
    else:
        noise = empty_like(input)
    if BATCHES:
        noise = room(noise)
    noise.bernoulli_(1 - p)
    if not alpha:
        noise.div_(1 - p)
        return MUL(input, noise, run=run)
    # Scaled so that mean and variance stay what they were.
    a = 1 / math.sqrt((SATURATED * SATURATED * p + 1) * (1 - p))
    shift = noise.add(-1).mul_(SATURATED * a).add_(SATURATED * a * p)
    noise.mul_(a)
    return ADD(MUL(input, noise, run=run), shift, run=run)


def as_chance(name: str, p: Any) -> float:
    """The probability as a number."""
    return as_float(name, "p", 2, p)


def draws_itself(t: Any) -> bool:
    """Whether one op draws the mask and applies it: on a GPU, as PyTorch does."""
    if BATCHES or type(t._array) is not STATE.device_type:
        return False
    return t._array.dtype.kind in "fV"


def drawn_dropout(t: Any, p: float) -> Any:
    """Dropout of a tensor on a GPU, and which elements it kept."""
    from ...cuda.philox import side_by_side

    array = t._array
    stream = stream_of(None, "dropout", place_of(t))
    start = stream.take(array.size)
    if ordered(array)[0] is not array or array.flags.c_contiguous:
        start = start._replace(side_by_side=side_by_side(array))
    return apply(DrawnDropout, (t,), (1 - p, 1 / (1 - p), start))


def channels(shape: Any) -> tuple[int, ...]:
    """One coin per channel."""
    if len(shape) < 2:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
    return (*shape[:2], *(1,) * (len(shape) - 2))


DROPOUT_CASES = [Case(Draw(3, 4), 0.4, True), Case(Draw(2, 3, layout="T"), 0.5, False)]
CHANNEL_CASES = [Case(Draw(2, 3, 2), 0.4, True), Case(Draw(2, 3), 1.0, True)]


@api(method=False, samples=DROPOUT_CASES)
def dropout(input: Any, p: float, train: bool) -> Any:
    """dropout(input, p, train) -> Tensor: zero elements at random, scale up the others.

    >>> dropout(tensor([1.0, 2.0]), 0.5, False)
    tensor([1., 2.])
    """
    return dropped("dropout", input, p, train, False, False)


@api(method=False)
def dropout_(input: Any, p: float, train: bool) -> Any:
    """dropout_(input, p, train) -> Tensor: `dropout` in place.

    >>> dropout_(tensor([1.0, 2.0]), 1.0, True)
    tensor([0., 0.])
    """
    return dropped("dropout_", input, p, train, False, False, write)


@api(method=False, samples=DROPOUT_CASES)
def alpha_dropout(input: Any, p: float, train: bool) -> Any:
    """alpha_dropout(input, p, train) -> Tensor: dropout that keeps mean and variance, for selu.

    >>> alpha_dropout(tensor([1.0, 2.0]), 0.5, False)
    tensor([1., 2.])
    """
    return dropped("alpha_dropout", input, p, train, False, True)


@api(method=False)
def alpha_dropout_(input: Any, p: float, train: bool) -> Any:
    """alpha_dropout_(input, p, train) -> Tensor: `alpha_dropout` in place.

    >>> alpha_dropout_(tensor([1.0, 2.0]), 1.0, True)
    tensor([0., 0.])
    """
    return dropped("alpha_dropout_", input, p, train, False, True, write)


@api(method=False, samples=CHANNEL_CASES)
def feature_dropout(input: Any, p: float, train: bool) -> Any:
    """feature_dropout(input, p, train) -> Tensor: zero whole channels (dimension 1) at random.

    >>> feature_dropout(ones(1, 2), 1.0, True)
    tensor([[0., 0.]])
    """
    return dropped("feature_dropout", input, p, train, True, False)


@api(method=False)
def feature_dropout_(input: Any, p: float, train: bool) -> Any:
    """feature_dropout_(input, p, train) -> Tensor: `feature_dropout` in place.

    >>> feature_dropout_(ones(1, 2), 1.0, True)
    tensor([[0., 0.]])
    """
    return dropped("feature_dropout_", input, p, train, True, False, write)


@api(method=False, samples=CHANNEL_CASES)
def feature_alpha_dropout(input: Any, p: float, train: bool) -> Any:
    """feature_alpha_dropout(input, p, train) -> Tensor: alpha_dropout of whole channels.

    >>> feature_alpha_dropout(ones(1, 2), 1.0, True)
    tensor([[0., 0.]])
    """
    return dropped("feature_alpha_dropout", input, p, train, True, True)


@api(method=False)
def feature_alpha_dropout_(input: Any, p: float, train: bool) -> Any:
    """feature_alpha_dropout_(input, p, train) -> Tensor: `feature_alpha_dropout` in place.

    >>> feature_alpha_dropout_(ones(1, 2), 1.0, True)
    tensor([[0., 0.]])
    """
    return dropped("feature_alpha_dropout_", input, p, train, True, True, write)


# ---------------------------------------------------------------------- nn.functional


def check_chance(p: float) -> None:
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


@api(name="nn.functional.dropout", method=False, samples=[Case(Draw(3, 4), 0.4, True)])
def functional_dropout(
    input: Any, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Any:
    """dropout(input, p=0.5, training=True) -> Tensor: zero elements at random, scale up the others.

    >>> nn.functional.dropout(tensor([1.0, 2.0]), training=False)
    tensor([1., 2.])
    """
    check_chance(p)
    return dropped("dropout", input, p, training, False, False, write if inplace else None)


@api(name="nn.functional.alpha_dropout", method=False, samples=DROPOUT_CASES)
def functional_alpha_dropout(
    input: Any, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Any:
    """alpha_dropout(input, p=0.5, training=False, inplace=False) -> Tensor: dropout that keeps
    mean and variance, for use with `selu`.

    >>> torch.nn.functional.alpha_dropout(tensor([1.0, 2.0]))
    tensor([1., 2.])
    """
    check_chance(p)
    run = write if inplace else None
    return dropped("alpha_dropout", input, p, training, False, True, run)


@api(name="nn.functional.feature_alpha_dropout", method=False, samples=CHANNEL_CASES)
def functional_feature_alpha_dropout(
    input: Any, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Any:
    """feature_alpha_dropout(input, p=0.5, training=False, inplace=False) -> Tensor: by channels.

    >>> torch.nn.functional.feature_alpha_dropout(ones(1, 2))
    tensor([[1., 1.]])
    """
    check_chance(p)
    run = write if inplace else None
    return dropped("feature_alpha_dropout", input, p, training, True, True, run)


def by_channel(input: Any, p: float, training: bool, inplace: bool, unbatched: bool) -> Any:
    """Feature dropout of an input that may lack the batch."""
    if not inplace:
        whole = input.unsqueeze(0) if unbatched else input
        out = dropped("feature_dropout", whole, p, training, True, False)
        return out.squeeze(0) if unbatched else out
    if unbatched:
        input.unsqueeze_(0)
    dropped("feature_dropout_", input, p, training, True, False, write)
    return input.squeeze_(0) if unbatched else input


@api(name="nn.functional.dropout1d", method=False, samples=[Case(Draw(2, 3, 2)), Case(Draw(3, 2))])
def dropout1d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """dropout1d(input, p=0.5, training=True, inplace=False) -> Tensor: zero channels of (N, C, L).

    >>> torch.nn.functional.dropout1d(ones(1, 1, 2), 1.0)
    tensor([[[0., 0.]]])
    """
    check_chance(p)
    ndim = input.dim()
    if ndim not in (2, 3):
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {ndim}D input. Note that "
            "dropout1d exists to provide channel-wise dropout on inputs with 1 spatial dimension, "
            "a channel dimension, and an optional batch dimension (i.e. 2D or 3D inputs)."
        )
    return by_channel(input, p, training, inplace, ndim == 2)


def warn_of_dimensions(name: str, ndim: int, spatial: int) -> None:
    warn(
        f"{name}: Received a {ndim}-D input to {name}, which is deprecated and will result in an "
        "error in a future release. To retain the behavior and silence this warning, please use "
        f"dropout instead. Note that {name} exists to provide channel-wise dropout on inputs with "
        f"{spatial} spatial dimensions, a channel dimension, and an optional batch dimension "
        f"(i.e. {spatial + 1}D or {spatial + 2}D inputs).",
    )


@api(name="nn.functional.dropout2d", method=False, samples=[Case(Draw(2, 3, 2, 2))])
def dropout2d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """dropout2d(input, p=0.5, training=True) -> Tensor: zero channels of (N, C, H, W).

    >>> torch.nn.functional.dropout2d(ones(1, 1, 1, 2), 1.0)
    tensor([[[[0., 0.]]]])
    """
    check_chance(p)
    ndim = input.dim()
    if ndim not in (3, 4):
        warn_of_dimensions("dropout2d", ndim, 2)
    if ndim == 3:
        warn(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout "
            "behavior is desired - input is interpreted as shape (N, C, L), where C is the channel "
            "dim. This behavior will change in a future release to interpret the input as one "
            "without a batch dimension, i.e. shape (C, H, W). To maintain the 1D channel-wise "
            "dropout behavior, please switch to using dropout1d instead.",
        )
    return by_channel(input, p, training, inplace, False)


@api(
    name="nn.functional.dropout3d",
    method=False,
    samples=[Case(Draw(2, 2, 1, 2, 2)), Case(Draw(3, 1, 2, 2))],
)
def dropout3d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """dropout3d(input, p=0.5, training=True) -> Tensor: zero channels of (N, C, D, H, W).

    >>> torch.nn.functional.dropout3d(ones(1, 1, 1, 1, 2), 1.0)
    tensor([[[[[0., 0.]]]]])
    """
    check_chance(p)
    ndim = input.dim()
    if ndim not in (4, 5):
        warn_of_dimensions("dropout3d", ndim, 3)
    return by_channel(input, p, training, inplace, ndim != 5)


# ---------------------------------------------------------------------- native_dropout


class Masked(Elementwise):
    """A tensor times a mask of bools and a number."""

    dtype = AS_IS
    public = False
    inplace = False


@op
class NativeDropout(Masked):
    """native_dropout(input, mask, scale) -> Tensor: what the mask keeps, scaled up."""

    aten = "native_dropout"
    tensors = ("input", "mask")
    plain_tensors = ("mask",)
    shape = same_shape

    def fwd(xp, input, mask, scale):
        return cast_value(half_as_single(input) * mask * scale, input.dtype)

    def d_input(F, grad, mask, scale):
        return F.native_dropout_backward(grad, mask, scale)


@op
class NativeDropoutBackward(Masked):
    """native_dropout_backward(grad_output, mask, scale) -> Tensor: the gradient of dropout."""

    node = "NativeDropoutBackwardBackward0"
    aten = "native_dropout_backward"
    tensors = ("grad_output", "mask")
    plain_tensors = ("mask",)
    formula = "grad_output * mask * scale"

    def fwd(xp, grad_output, mask, scale):
        return cast_value(half_as_single(grad_output) * mask * scale, grad_output.dtype)

    def d_grad_output(F, grad, mask, scale):
        return F.native_dropout_backward(grad, mask, scale)


@op
class DrawnDropout(Block):
    """drawn_dropout(input, keep, scale, start) -> (Tensor, Tensor): `native_dropout` that draws its
    mask, from where `start` says. It draws again when it is run again."""

    node = "NativeDropoutBackward0"
    aten = "native_dropout"
    outs = ("out", "mask")
    plain_outs = (1,)
    public = False
    unbatchable = "random numbers: how a batch draws them is decided outside the op"

    def fwd(xp, input, keep, scale, start):
        from ...cuda.philox import philox_kept, working

        work = working(input.dtype)
        x, back = ordered(input)
        mask = philox_kept(xp, x.size, keep, work, start).reshape(x.shape)
        out = cast_value(half_as_single(x) * mask * work.type(scale), x.dtype)
        return out.transpose(back), mask.transpose(back)

    def backward(F, grad, needs, mask, scale):
        return (F.native_dropout_backward(grad[0], mask, scale),)

    def jvp(F, t_input, mask, scale):
        return F.native_dropout_backward(t_input, mask, scale), F.zeros_like(mask)


@api(name="native_dropout", method=False, samples=[Case(Draw(3, 4), 0.4, True)])
def dropout_with_mask(input: Any, p: float, train: bool | None) -> Any:
    """native_dropout(input, p, train) -> (Tensor, Tensor): dropout, and which elements it kept.

    >>> native_dropout(tensor([1.0, 2.0]), 0.5, False)
    (tensor([1., 2.]), tensor([True, True]))
    """
    p = as_chance("native_dropout", p)
    t: Any = input
    if not t.numel():
        return input, empty_like(input)
    if train is False:
        mask, scale = ones_like(input, dtype=dtypes.bool_), 1.0
    elif 0 < p < 1 and draws_itself(t):
        return drawn_dropout(t, p)
    else:
        mask = empty_like(input, dtype=dtypes.bool_)
        mask = (room(mask) if BATCHES else mask).bernoulli_(1 - p)
        scale = 0.0 if p == 1 else 1 / (1 - p)
        if not (t.dtype.is_floating_point or t.dtype.is_complex):
            default = dtypes.get_default_dtype().scalar_type
            raise RuntimeError(
                f"result type {default} can't be cast to the desired output type "
                f"{t.dtype.scalar_type}"
            )
    return apply(NativeDropout, (input, mask), (scale,)), mask
