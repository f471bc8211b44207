"""Gradients of convolutions, by themselves."""

from __future__ import annotations

from typing import Any

from ..core.dispatch import apply


def pulled(
    which: str, n: int, grad_output: Any, other: Any, size: Any, options: tuple[Any, ...]
) -> Any:
    """The gradient, of some size, of one factor of a convolution in `n` dimensions."""
    *counts, groups = options
    sizes = [(v,) * n if isinstance(v, int) else tuple(v) for v in counts]
    how = (*sizes, False, (0,) * n, groups)
    from ..ops.nn import conv  # with its family, on demand

    return apply(getattr(conv, which), (grad_output, other), (tuple(size), how))


def conv1d_input(
    input_size: Any,
    weight: Any,
    grad_output: Any,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    """The gradient of `conv1d` with respect to its input.

    >>> nn.grad.conv1d_input((1, 1, 3), ones(1, 1, 2), ones(1, 1, 2))
    tensor([[[1., 2., 1.]]])
    """
    how = (stride, padding, dilation, groups)
    return pulled("ConvInputGrad", 1, grad_output, weight, input_size, how)


def conv1d_weight(
    input: Any,
    weight_size: Any,
    grad_output: Any,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    """The gradient of `conv1d` with respect to its weight.

    >>> nn.grad.conv1d_weight(ones(1, 1, 3), (1, 1, 2), ones(1, 1, 2))
    tensor([[[2., 2.]]])
    """
    how = (stride, padding, dilation, groups)
    return pulled("ConvWeightGrad", 1, grad_output, input, weight_size, how)


def conv2d_input(
    input_size: Any,
    weight: Any,
    grad_output: Any,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    """The gradient of `conv2d` with respect to its input."""
    how = (stride, padding, dilation, groups)
    return pulled("ConvInputGrad", 2, grad_output, weight, input_size, how)


def conv2d_weight(
    input: Any,
    weight_size: Any,
    grad_output: Any,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    """The gradient of `conv2d` with respect to its weight."""
    how = (stride, padding, dilation, groups)
    return pulled("ConvWeightGrad", 2, grad_output, input, weight_size, how)


def conv3d_input(
    input_size: Any,
    weight: Any,
    grad_output: Any,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    """The gradient of `conv3d` with respect to its input."""
    how = (stride, padding, dilation, groups)
    return pulled("ConvInputGrad", 3, grad_output, weight, input_size, how)


def conv3d_weight(
    input: Any,
    weight_size: Any,
    grad_output: Any,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    """The gradient of `conv3d` with respect to its weight."""
    how = (stride, padding, dilation, groups)
    return pulled("ConvWeightGrad", 3, grad_output, input, weight_size, how)
