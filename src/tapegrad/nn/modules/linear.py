"""Layers that multiply by a matrix."""

from __future__ import annotations

import math
from typing import Any

import tapegrad as tg

from .. import functional as F
from .. import init
from ..parameter import Parameter, UninitializedParameter, register_bias
from .lazy import LazyModuleMixin
from .module import Module

__all__ = ["Bilinear", "Identity", "LazyLinear", "Linear"]


class Identity(Module):
    """Gives back its input; takes and ignores any arguments.

    >>> nn.Identity()(3)
    3
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Any) -> Any:
        return input


class Linear(Module):
    """A linear map: `input @ weight.T + bias`.

    Args:
        in_features: size of the last dimension of the input
        out_features: size of the last dimension of the result
        bias: add a learned constant
        device, dtype: of the parameters

    Shape:
        (*, in_features) -> (*, out_features). `weight` is (out_features, in_features).

    >>> layer = nn.Linear(2, 3)
    >>> layer
    Linear(in_features=2, out_features=3, bias=True)
    >>> layer(ones(5, 2)).shape
    torch.Size([5, 3])
    """

    __constants__ = ["in_features", "out_features"]
    in_features: int
    out_features: int
    weight: Parameter

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(tg.empty((out_features, in_features), device=device, dtype=dtype))
        register_bias(self, bias, out_features, device, dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new values."""
        # a = sqrt(5) makes the bound 1 / sqrt(in_features), PyTorch's choice since its beginning.
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Any) -> Any:
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


class NonDynamicallyQuantizableLinear(Linear):
    """A Linear that dynamic quantization leaves alone; the projection inside MultiheadAttention."""


class Bilinear(Module):
    """`input1 @ weight[k] @ input2 + bias[k]` for every output k.

    Args:
        in1_features, in2_features: sizes of the last dimensions of the inputs
        out_features: size of the last dimension of the result
        bias: add a learned constant
        device, dtype: of the parameters

    Shape:
        (*, in1_features), (*, in2_features) -> (*, out_features).

    >>> nn.Bilinear(2, 3, 4)(zeros(5, 2), zeros(5, 3)).shape
    torch.Size([5, 4])
    """

    __constants__ = ["in1_features", "in2_features", "out_features"]
    in1_features: int
    in2_features: int
    out_features: int
    weight: Parameter

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if in1_features == 0:
            raise ValueError(f"in1_features must be > 0, but got ({in1_features=})")
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        shape = (out_features, in1_features, in2_features)
        self.weight = Parameter(tg.empty(shape, device=device, dtype=dtype))
        register_bias(self, bias, out_features, device, dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new values."""
        bound = 1 / math.sqrt(self.weight.size(1))
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Any, input2: Any) -> Any:
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )


class LazyLinear(LazyModuleMixin, Linear):
    """A Linear that takes `in_features` from its first input.

    >>> layer = nn.LazyLinear(8)
    >>> layer(rand(4, 3)).shape, layer
    (torch.Size([4, 8]), Linear(in_features=3, out_features=8, bias=True))
    """

    cls_to_become = Linear
    weight: Parameter
    bias: Parameter | None

    def __init__(
        self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        # Linear itself gets nothing to draw; the parameters follow.
        super().__init__(0, 0, False)
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_features = out_features
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw new values, once there are shapes."""
        if not self.has_uninitialized_params() and self.in_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Any) -> None:
        """The last dimension of the input is `in_features`."""
        if self.has_uninitialized_params():
            with tg.no_grad():
                self.in_features = input.shape[-1]
                self.weight.materialize((self.out_features, self.in_features))
                if self.bias is not None:
                    self.bias.materialize((self.out_features,))
                self.reset_parameters()
        if self.in_features == 0:
            # The parameters came from a state dict.
            found, held = input.shape[-1], self.weight.shape[-1]
            if found != held:
                raise AssertionError(
                    f"The in_features inferred from input: {found} is not equal to in_features "
                    f"from self.weight: {held}"
                )
            self.in_features = found
