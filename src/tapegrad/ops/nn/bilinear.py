"""Bilinear forms, and a linear layer with its cross entropy."""

from __future__ import annotations

import math
from typing import Any

from ...core.base import TensorBase
from ...core.rounding import half_as_single
from ...dtypes import cpp_name
from ...errors import must_be_tensor
from ..block import WIDEST, Autocast, Block, Case, api, apply, op
from ..block.public import public
from ..block.samples import Draw, Index
from ..products.matmul import check_supported

# ruff: noqa: N805


@op
class Trilinear(Block):
    """trilinear(input1, weight, input2) -> Tensor: `input1[n] @ weight[o] @ input2[n]`."""

    aten = "_trilinear"
    tensors = ("input1", "weight", "input2")
    public = False
    linear = True
    leading = (2, 3, 2)

    def fwd(xp, input1, weight, input2):
        x, w, y = half_as_single(input1), half_as_single(weight), half_as_single(input2)
        features, inner, outer = w.shape[-3:]
        flat = w.swapaxes(-3, -2).reshape(*w.shape[:-3], inner, features * outer)
        left = half_as_single(xp.matmul(x, flat).astype(input1.dtype, copy=False))  # rounded twice
        left = left.reshape(*left.shape[:-1], features, outer)
        return xp.matmul(left, y[..., None])[..., 0].astype(input1.dtype, copy=True)

    def d_input1(F, grad, weight, input2):
        at = len(weight.shape) - 3
        return F.trilinear(grad, F.transpose(weight, at, at + 1), input2)

    def d_weight(F, grad, input1, input2, weight_shape):
        at = len(weight_shape) - 3
        pairs = F.unsqueeze(input1, at + 2) * F.unsqueeze(input2, at + 1)
        pairs = F.reshape(pairs, (*pairs.shape[:-2], pairs.shape[-2] * pairs.shape[-1]))
        return F.reshape(F.matmul(F.transpose(grad, at, at + 1), pairs), weight_shape)

    def d_input2(F, grad, input1, weight):
        at = len(weight.shape) - 3
        return F.trilinear(input1, F.transpose(weight, at, at + 2), grad)


@api(
    method=False,
    aliases=("nn.functional.bilinear",),
    samples=[
        Case(Draw(2, 3), Draw(2, 4), Draw(2, 3, 4), Draw(2)),
        Case(Draw(3), Draw(2), Draw(2, 3, 2)),
        Case(Draw(2, 2, 3), Draw(2, 2, 1), Draw(1, 3, 1)),
    ],
    autocast=Autocast(gpu=WIDEST),
)
def bilinear(input1: Any, input2: Any, weight: Any, bias: Any = None) -> Any:
    """bilinear(input1, input2, weight, bias=None) -> Tensor: `input1 @ weight[o] @ input2` per o.

    >>> nn.functional.bilinear(ones(1, 2), ones(1, 3), ones(4, 2, 3))
    tensor([[6., 6., 6., 6.]])
    """
    given = (("input1", input1), ("input2", input2), ("weight", weight), ("bias", bias))
    for position, (name, value) in enumerate(given, 1):
        if not isinstance(value, TensorBase) and not (name == "bias" and value is None):
            raise must_be_tensor("bilinear", name, position, value)
    x, y, w = input1._array, input2._array, weight._array
    check_bilinear(x, y, w, None if bias is None else bias._array)
    count = math.prod(x.shape[:-1])
    first = (
        input1.view(count, x.shape[-1])
        if input1.is_contiguous()
        else input1.reshape(count, x.shape[-1])
    )
    second = input2.reshape(count, y.shape[-1])
    out = apply(Trilinear, (first, weight, second)).view(*x.shape[:-1], w.shape[0])
    return out if bias is None else out + bias


def check_bilinear(x: Any, y: Any, w: Any, bias: Any) -> None:
    if not x.dtype == y.dtype == w.dtype or (bias is not None and bias.dtype != w.dtype):
        given = {"input1": x, "input2": y, "weight": w, "bias": bias}
        names = [f"{k}: {cpp_name(a.dtype)}" for k, a in given.items() if a is not None]
        raise RuntimeError(f"All tensors must have the same dtype, got {', '.join(names)}")
    if x.ndim != y.ndim:
        raise RuntimeError(f"bilinear(): input dimensions do not match: got {x.ndim} and {y.ndim}")
    for d in range(x.ndim - 1):
        if x.shape[d] != y.shape[d]:
            raise RuntimeError(
                f"bilinear(): input batch dimensions do not match at dim {d}: got {x.shape[d]} and "
                f"{y.shape[d]}"
            )
    for name, array, d in (("input1", x, 1), ("input2", y, 2)):
        if array.shape[-1] != w.shape[d]:
            raise RuntimeError(
                f"bilinear(): {name} size does not match weight size: got {array.shape[-1]} but "
                f"expected {w.shape[d]}"
            )
    if bias is not None and bias.shape[0] != w.shape[0]:
        raise RuntimeError(
            f"bilinear(): bias size does not match weight size: got {bias.shape[0]} but expected "
            f"{w.shape[0]}"
        )
    check_supported("bmm", x.dtype)


@api(
    name="nn.functional.linear_cross_entropy",
    samples=[
        Case(Draw(2, 3), Draw(4, 3), Index([3, 0])),
        Case(Draw(2, 3), Draw(4, 3), Index([1, 2]), linear_bias=Draw(4), label_smoothing=0.1),
        Case(Draw(2, 3), Draw(2, 2, 3), Index([[1, 0], [0, 0]]), reduction="none"),
        Case(Draw(3), Draw(4, 3), Draw(4, low=0.0, high=1.0)),
    ],
)
def linear_cross_entropy(
    input: Any,
    linear_weight: Any,
    target: Any,
    *,
    linear_bias: Any = None,
    weight: Any = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: Any = None,
) -> Any:
    """linear_cross_entropy(input, linear_weight, target, …) -> Tensor: of the layer's outputs.

    `options` says how PyTorch would cut the batch into chunks; the result does not depend on it.

    >>> nn.functional.linear_cross_entropy(zeros(1, 3), ones(4, 3), tensor([2]))
    tensor(1.3863)
    """
    x, w = input._array, linear_weight._array
    if x.ndim not in (1, 2):
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {x.ndim}")
    if w.ndim < 2:
        raise RuntimeError(f"expected linear_weight with dimensionality at least 2, got {w.ndim}")
    if x.shape[-1] != w.shape[-1]:
        raise RuntimeError(
            "expected equal input and linear_weight last dimensions (in_features), got "
            f"{x.shape[-1]} and {w.shape[-1]}, respectively"
        )
    if w.ndim > 2 and x.ndim == 1:
        raise RuntimeError(
            f"K-dimensional loss defined by linear_weight shape {w.shape} requires batched input, "
            f"(N, {x.shape[0]}), got unbatched input with shape {x.shape}"
        )
    if linear_bias is not None and linear_bias._array.shape != w.shape[:-1]:
        raise RuntimeError(
            f"expected linear_bias shape {w.shape[:-1]}, got {linear_bias._array.shape}"
        )
    if target.is_floating_point() and ignore_index is not None:
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    functional = public.nn.functional
    rows = linear_weight if w.ndim == 2 else linear_weight.reshape(-1, w.shape[-1])
    offsets = linear_bias if linear_bias is None or w.ndim == 2 else linear_bias.reshape(-1)
    logits = functional.linear(input, rows, offsets).view(*x.shape[:-1], *w.shape[:-1])
    return functional.cross_entropy(
        logits,
        target,
        weight=weight,
        reduction=reduction,
        ignore_index=-100 if ignore_index is None else ignore_index,
        label_smoothing=label_smoothing,
    )
