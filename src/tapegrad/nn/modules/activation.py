"""Nonlinearities as layers."""

from __future__ import annotations

from typing import Any

import tapegrad as tg

from ...core.warned import warn
from .. import functional as F
from .. import init as initial
from ..parameter import Parameter
from .attention import MultiheadAttention
from .module import Module

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "MultiheadAttention",
    "PReLU",
    "RReLU",
    "ReLU",
    "ReLU6",
    "SELU",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
]


class _Inplace(Module):
    """Base of layers that can write over their input and have no other option."""

    __constants__ = ["inplace"]
    inplace: bool

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


def with_inplace(text: str, inplace: bool) -> str:
    """The end of a repr; False is not said."""
    return f"{text}, inplace=True" if inplace else text


# --- rectifiers and their relatives ----------------------------------------------------------


class Threshold(Module):
    """Another value for everything that is not above a threshold.

    >>> nn.Threshold(0.5, 9.0)(tensor([0.0, 1.0]))
    tensor([9., 1.])
    """

    __constants__ = ["threshold", "value", "inplace"]
    threshold: float
    value: float
    inplace: bool

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    def forward(self, input: Any) -> Any:
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        return with_inplace(f"threshold={self.threshold}, value={self.value}", self.inplace)


class ReLU(_Inplace):
    """The positive part.

    Args:
        inplace: write the result over the input

    Shape:
        Any shape -> the same.

    >>> nn.ReLU()(tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    def forward(self, input: Any) -> Any:
        return F.relu(input, inplace=self.inplace)


class RReLU(Module):
    """A rectifier whose slope below zero is drawn while training (Xu et al., 2015).

    >>> nn.RReLU(0.2, 0.4).eval()(tensor([-1.0, 2.0]))
    tensor([-0.3000,  2.0000])
    """

    __constants__ = ["lower", "upper", "inplace"]
    lower: float
    upper: float
    inplace: bool

    def __init__(
        self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False
    ) -> None:
        super().__init__()
        self.lower = lower
        self.upper = upper
        self.inplace = inplace

    def forward(self, input: Any) -> Any:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        return with_inplace(f"lower={self.lower}, upper={self.upper}", self.inplace)


class Hardtanh(Module):
    """Cut off below `min_val` and above `max_val`.

    >>> nn.Hardtanh()(tensor([-3.0, 0.5, 3.0]))
    tensor([-1.0000,  0.5000,  1.0000])
    """

    __constants__ = ["min_val", "max_val", "inplace"]
    min_val: float
    max_val: float
    inplace: bool

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__()
        if min_value is not None:
            warn(
                "keyword argument `min_value` is deprecated and renamed to `min_val`",
                FutureWarning,
            )
            min_val = min_value
        if max_value is not None:
            warn(
                "keyword argument `max_value` is deprecated and renamed to `max_val`",
                FutureWarning,
            )
            max_val = max_value
        self.min_val = min_val
        self.max_val = max_val
        self.inplace = inplace
        if not max_val > min_val:
            raise AssertionError(f"max_val ({max_val}) must be greater than min_val ({min_val})")

    def forward(self, input: Any) -> Any:
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        return with_inplace(f"min_val={self.min_val}, max_val={self.max_val}", self.inplace)


class ReLU6(Hardtanh):
    """The positive part, at most 6.

    Args:
        inplace: write the result over the input

    Shape:
        Any shape -> the same.

    >>> nn.ReLU6()(tensor([-1.0, 8.0]))
    tensor([0., 6.])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class LeakyReLU(Module):
    """A rectifier with a small slope below zero.

    Args:
        negative_slope: slope below zero
        inplace: write the result over the input

    Shape:
        Any shape -> the same.

    >>> nn.LeakyReLU(0.1)(tensor([-1.0, 2.0]))
    tensor([-0.1000,  2.0000])
    """

    __constants__ = ["inplace", "negative_slope"]
    inplace: bool
    negative_slope: float

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input: Any) -> Any:
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        return with_inplace(f"negative_slope={self.negative_slope}", self.inplace)


class PReLU(Module):
    """A rectifier that learns its slope below zero (He et al., 2015).

    Args:
        num_parameters: slopes, 1 or one per channel
        init: what they begin with
        device, dtype: of the parameters

    Shape:
        (N, C, *) -> the same.

    >>> nn.PReLU()(tensor([-1.0, 2.0])).detach()
    tensor([-0.2500,  2.0000])
    """

    __constants__ = ["num_parameters"]
    num_parameters: int

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(tg.empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """All slopes as at the start."""
        initial.constant_(self.weight, self.init)

    def forward(self, input: Any) -> Any:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


class _WithAlpha(Module):
    """Exponential below zero, down to -alpha."""

    __constants__ = ["alpha", "inplace"]
    alpha: float
    inplace: bool

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def extra_repr(self) -> str:
        return with_inplace(f"alpha={self.alpha}", self.inplace)


class ELU(_WithAlpha):
    """Exponential below zero (Clevert et al., 2015).

    Args:
        alpha: what it tends to far below zero, with a minus
        inplace: write the result over the input

    Shape:
        Any shape -> the same.

    >>> nn.ELU()(tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """

    def forward(self, input: Any) -> Any:
        return F.elu(input, self.alpha, self.inplace)


class CELU(_WithAlpha):
    """Exponential below zero, with a continuous derivative (Barron, 2017).

    Args:
        alpha: what it tends to far below zero, with a minus
        inplace: write the result over the input

    Shape:
        Any shape -> the same.

    >>> nn.CELU()(tensor([-1.0, 1.0]))
    tensor([-0.6321,  1.0000])
    """

    def forward(self, input: Any) -> Any:
        return F.celu(input, self.alpha, self.inplace)


class SELU(_Inplace):
    """ELU scaled so that mean and variance stay (Klambauer et al., 2017).

    Args:
        inplace: write the result over the input

    Shape:
        Any shape -> the same.

    >>> nn.SELU()(tensor([0.0, 1.0]))
    tensor([0.0000, 1.0507])
    """

    def forward(self, input: Any) -> Any:
        return F.selu(input, self.inplace)


# --- smooth steps and gates ------------------------------------------------------------------


class Sigmoid(Module):
    """1 / (1 + exp(-x)).

    >>> nn.Sigmoid()(tensor([0.0]))
    tensor([0.5000])
    """

    def forward(self, input: Any) -> Any:
        return F.sigmoid(input)


class Tanh(Module):
    """The hyperbolic tangent.

    >>> nn.Tanh()(tensor([0.0]))
    tensor([0.])
    """

    def forward(self, input: Any) -> Any:
        return F.tanh(input)


class _QuietlyInplace(_Inplace):
    """Base of layers that can write over their input; the repr does not say so."""

    def extra_repr(self) -> str:
        return ""


class Hardsigmoid(_QuietlyInplace):
    """Sigmoid in straight lines.

    >>> nn.Hardsigmoid()(tensor([-3.0, 0.0, 3.0]))
    tensor([0.0000, 0.5000, 1.0000])
    """

    def forward(self, input: Any) -> Any:
        return F.hardsigmoid(input, self.inplace)


class Hardswish(_QuietlyInplace):
    """x times Hardsigmoid (Howard et al., 2019).

    Args:
        inplace: write the result over the input

    Shape:
        Any shape -> the same.

    >>> nn.Hardswish()(tensor([-4.0, 1.0, 4.0]))
    tensor([-0.0000,  0.6667,  4.0000])
    """

    def forward(self, input: Any) -> Any:
        return F.hardswish(input, self.inplace)


class SiLU(_Inplace):
    """x times Sigmoid.

    Args:
        inplace: write the result over the input

    Shape:
        Any shape -> the same.

    >>> nn.SiLU()(tensor([0.0, 2.0]))
    tensor([0.0000, 1.7616])
    """

    def forward(self, input: Any) -> Any:
        return F.silu(input, inplace=self.inplace)


class Mish(_Inplace):
    """x times the tangent of Softplus (Misra, 2019).

    Args:
        inplace: write the result over the input

    Shape:
        Any shape -> the same.

    >>> nn.Mish()(tensor([0.0, 1.0]))
    tensor([0.0000, 0.8651])
    """

    def forward(self, input: Any) -> Any:
        return F.mish(input, inplace=self.inplace)


class GELU(Module):
    """x times the normal distribution function (Hendrycks and Gimpel, 2016).

    Args:
        approximate: "tanh" for the formula with tanh, "none" for the exact one

    Shape:
        Any shape -> the same.

    >>> nn.GELU()(tensor([0.0, 1.0]))
    tensor([0.0000, 0.8413])
    """

    __constants__ = ["approximate"]
    approximate: str

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Any) -> Any:
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class GLU(Module):
    """One half times the sigmoid of the other (Dauphin et al., 2016).

    >>> nn.GLU()(tensor([4.0, 0.0]))
    tensor([2.])
    """

    __constants__ = ["dim"]
    dim: int

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Any) -> Any:
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class LogSigmoid(Module):
    """The logarithm of Sigmoid.

    >>> nn.LogSigmoid()(tensor([-2.0, 0.0, 2.0]))
    tensor([-2.1269, -0.6931, -0.1269])
    """

    def forward(self, input: Any) -> Any:
        return F.logsigmoid(input)


class Softplus(Module):
    """A smooth rectifier: log(1 + exp(beta x)) / beta, a straight line above the threshold.

    Args:
        beta: the larger, the sharper the corner
        threshold: above it, of beta x, the straight line

    Shape:
        Any shape -> the same.

    >>> nn.Softplus()(tensor([0.0]))
    tensor([0.6931])
    """

    __constants__ = ["beta", "threshold"]
    beta: float
    threshold: float

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Any) -> Any:
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        return f"beta={self.beta}, threshold={self.threshold}"


class Softsign(Module):
    """x / (1 + |x|).

    >>> nn.Softsign()(tensor([-1.0, 3.0]))
    tensor([-0.5000,  0.7500])
    """

    def forward(self, input: Any) -> Any:
        return F.softsign(input)


# --- small values become zero ----------------------------------------------------------------


class _Shrink(Module):
    """Base of the layers that set values below `lambd` to zero."""

    __constants__ = ["lambd"]
    lambd: float

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def extra_repr(self) -> str:
        return str(self.lambd)


class Hardshrink(_Shrink):
    """Zero between -lambd and lambd.

    >>> nn.Hardshrink()(tensor([0.25, 2.0]))
    tensor([0., 2.])
    """

    def forward(self, input: Any) -> Any:
        return F.hardshrink(input, self.lambd)


class Softshrink(_Shrink):
    """`lambd` nearer to zero.

    >>> nn.Softshrink()(tensor([0.25, 2.0]))
    tensor([0.0000, 1.5000])
    """

    def forward(self, input: Any) -> Any:
        return F.softshrink(input, self.lambd)


class Tanhshrink(Module):
    """x - tanh(x).

    >>> nn.Tanhshrink()(tensor([-1.0, 0.0, 2.0]))
    tensor([-0.2384,  0.0000,  1.0360])
    """

    def forward(self, input: Any) -> Any:
        return F.tanhshrink(input)


# --- shares of one ---------------------------------------------------------------------------


class _Softmax(Module):
    """Base of the softmax layers: holds the dimension."""

    __constants__ = ["dim"]
    dim: int | None

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if not hasattr(self, "dim"):
            self.dim = None

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmax(_Softmax):
    """Exponentials that sum to one along `dim`.

    Args:
        dim: the dimension whose elements sum to one; give it always

    Shape:
        Any shape -> the same.

    >>> nn.Softmax(dim=0)(tensor([0.0, 0.0]))
    tensor([0.5000, 0.5000])
    """

    def forward(self, input: Any) -> Any:
        return F.softmax(input, self.dim, _stacklevel=5)


class Softmin(_Softmax):
    """Softmax of the negated input.

    >>> nn.Softmin(dim=0)(tensor([1.0, 2.0, 3.0]))
    tensor([0.6652, 0.2447, 0.0900])
    """

    def forward(self, input: Any) -> Any:
        return F.softmin(input, self.dim, _stacklevel=5)


class LogSoftmax(_Softmax):
    """The logarithm of softmax.

    Args:
        dim: the dimension; give it always

    Shape:
        Any shape -> the same.

    >>> nn.LogSoftmax(dim=0)(tensor([0.0, 0.0]))
    tensor([-0.6931, -0.6931])
    """

    def forward(self, input: Any) -> Any:
        return F.log_softmax(input, self.dim, _stacklevel=5)


class Softmax2d(Module):
    """Softmax over the channels at every pixel.

    >>> nn.Softmax2d()(zeros(2, 1, 1)).flatten()
    tensor([0.5000, 0.5000])
    """

    def forward(self, input: Any) -> Any:
        if input.dim() not in (3, 4):
            raise ValueError(
                f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead"
            )
        return F.softmax(input, -3, _stacklevel=5)
