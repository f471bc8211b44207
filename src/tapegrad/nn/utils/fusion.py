"""A batch norm folded into the layer before it, for inference."""

from __future__ import annotations

import copy
from typing import Any

import tapegrad as tg

from ..parameter import Parameter

__all__ = [
    "fuse_conv_bn_eval",
    "fuse_conv_bn_weights",
    "fuse_linear_bn_eval",
    "fuse_linear_bn_weights",
]


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """A copy of a convolution that gives what the batch norm behind it would give.

    >>> conv, bn = nn.Conv1d(1, 2, 1).eval(), nn.BatchNorm1d(2).eval()
    >>> nn.utils.fuse_conv_bn_eval(conv, bn)
    Conv1d(1, 2, kernel_size=(1,), stride=(1,))
    """
    if conv.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    fused = copy.deepcopy(conv)
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("bn.running_mean and bn.running_var must not be None")
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight,
        fused.bias,
        bn.running_mean,
        bn.running_var,
        bn.eps,
        bn.weight,
        bn.bias,
        transpose,
    )
    return fused


def fuse_conv_bn_weights(
    conv_w: Any,
    conv_b: Any,
    bn_rm: Any,
    bn_rv: Any,
    bn_eps: float,
    bn_w: Any,
    bn_b: Any,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """The weight and bias of a convolution with the batch norm behind it.

    >>> conv, norm = nn.Conv1d(1, 1, 1), nn.BatchNorm1d(1).eval()
    >>> weight, bias = nn.utils.fuse_conv_bn_weights(
    ...     conv.weight, conv.bias, norm.running_mean, norm.running_var, norm.eps,
    ...     norm.weight, norm.bias,
    ... )
    >>> x = rand(1, 1, 4)
    >>> allclose(conv1d(x, weight, bias), norm(conv(x)))
    True
    """
    bias_dtype = conv_w.dtype if conv_b is None else conv_b.dtype
    if conv_b is None:
        conv_b = tg.zeros_like(bn_rm)
    if bn_w is None:
        bn_w = tg.ones_like(bn_rm)
    if bn_b is None:
        bn_b = tg.zeros_like(bn_rm)
    scale = bn_w * tg.rsqrt(bn_rv + bn_eps)
    ones = (1,) * (conv_w.dim() - 2)
    channels = (1, -1) if transpose else (-1, 1)
    weight = (conv_w * scale.reshape(*channels, *ones)).to(dtype=conv_w.dtype)
    bias = ((conv_b - bn_rm) * scale + bn_b).to(dtype=bias_dtype)
    return Parameter(weight, conv_w.requires_grad), Parameter(bias, conv_b.requires_grad)


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """A copy of a linear layer that gives what the batch norm behind it would give.

    >>> linear, norm = nn.Linear(2, 3).eval(), nn.BatchNorm1d(3).eval()
    >>> x = rand(4, 2)
    >>> fused = nn.utils.fuse_linear_bn_eval(linear, norm)
    >>> allclose(fused(x), norm(linear(x)))
    True
    """
    if linear.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    fused = copy.deepcopy(linear)
    if bn.num_features not in (linear.out_features, 1):
        raise AssertionError(
            "To fuse, linear.out_features == bn.num_features or bn.num_features == 1, got "
            f"linear.out_features={linear.out_features} and bn.num_features={bn.num_features}"
        )
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("bn.running_mean and bn.running_var must not be None")
    fused.weight, fused.bias = fuse_linear_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return fused


def fuse_linear_bn_weights(
    linear_w: Any,
    linear_b: Any,
    bn_rm: Any,
    bn_rv: Any,
    bn_eps: float,
    bn_w: Any,
    bn_b: Any,
) -> tuple[Parameter, Parameter]:
    """The weight and bias of a linear layer with the batch norm behind it.

    >>> linear, norm = nn.Linear(2, 3), nn.BatchNorm1d(3).eval()
    >>> weight, bias = nn.utils.fuse_linear_bn_weights(
    ...     linear.weight, linear.bias, norm.running_mean, norm.running_var, norm.eps,
    ...     norm.weight, norm.bias,
    ... )
    >>> x = rand(4, 2)
    >>> allclose(x @ weight.T + bias, norm(linear(x)))
    True
    """
    bias_dtype = linear_w.dtype if linear_b is None else linear_b.dtype
    if linear_b is None:
        linear_b = tg.zeros_like(bn_rm)
    scale = bn_w * tg.rsqrt(bn_rv + bn_eps)
    weight = (linear_w * scale.unsqueeze(-1)).to(dtype=linear_w.dtype)
    bias = ((linear_b - bn_rm) * scale + bn_b).to(dtype=bias_dtype)
    return Parameter(weight, linear_w.requires_grad), Parameter(bias, linear_b.requires_grad)
