"""Initial values: fill a tensor in place and return it. The draws are PyTorch's."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import tapegrad as tg

from ..core.settings import Settings
from ..core.warned import warn

__all__ = [
    "calculate_gain",
    "constant_",
    "dirac_",
    "eye_",
    "kaiming_normal_",
    "kaiming_uniform_",
    "normal_",
    "ones_",
    "orthogonal_",
    "sparse_",
    "trunc_normal_",
    "uniform_",
    "xavier_normal_",
    "xavier_uniform_",
    "zeros_",
]

LINEAR = (
    "linear",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "sigmoid",
)


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor by which a nonlinearity asks for larger weights.

    >>> nn.init.calculate_gain("tanh")
    1.6666666666666667
    """
    if nonlinearity in LINEAR:
        return 1
    if nonlinearity == "tanh":
        return 5.0 / 3
    if nonlinearity == "relu":
        return math.sqrt(2.0)
    if nonlinearity == "leaky_relu":
        if param is None:
            slope = 0.01
        elif isinstance(param, (int, float)) and not isinstance(param, bool):
            slope = param
        else:
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity == "selu":
        return 3.0 / 4  # found by experiment
    raise ValueError(f"Unsupported nonlinearity {nonlinearity}")


def uniform_(tensor: Any, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Any:
    """Draw from the uniform distribution on [a, b).

    >>> nn.init.uniform_(torch.empty(1000), -1.0, 1.0).abs().max() <= 1
    tensor(True)
    """
    with tg.no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(tensor: Any, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Any:
    """Draw from the normal distribution.

    >>> nn.init.normal_(torch.empty(2, 3), std=0.02).shape
    torch.Size([2, 3])
    """
    with tg.no_grad():
        return tensor.normal_(mean, std, generator=generator)


def trunc_normal_(
    tensor: Any,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Any = None,
) -> Any:
    """Draw from the normal distribution cut off at `a` and `b`.

    >>> nn.init.trunc_normal_(torch.empty(1000), a=-1.0, b=1.0).abs().max() <= 1
    tensor(True)
    """
    if tensor.is_meta:
        return tensor  # there is nothing to draw
    if mean < a - 2 * std or mean > b + 2 * std:
        warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The "
            "distribution of values may be incorrect.",
        )
    with tg.no_grad():
        if below((b - mean) / std) - below((a - mean) / std) > 0.3:
            return normals_within(tensor, mean, std, a, b, generator)
        return uniforms_accepted(tensor, mean, std, a, b, generator)


def normals_within(tensor: Any, mean: float, std: float, a: float, b: float, generator: Any) -> Any:
    """Draw normals, and draw again for those outside [a, b]."""
    low, high = tensor.new_tensor(a).item(), tensor.new_tensor(b).item()
    values = tensor.normal_(mean, std, generator=generator)
    while bool((outside := (values < low) | (values > high)).any()):
        again = tg.empty_like(values).normal_(mean, std, generator=generator)
        values = tg.where(outside, again, values)
    return tensor.copy_(values)


def uniforms_accepted(
    tensor: Any, mean: float, std: float, a: float, b: float, generator: Any
) -> Any:
    """Draw uniforms on [a, b], each kept with a chance in proportion to the density there."""
    peak = -0.5 * ((max(a, min(mean, b)) - mean) / std) ** 2
    values = pending = None
    while pending is None or bool(pending.any()):
        drawn = tg.empty_like(tensor).uniform_(a, b, generator=generator)
        values = drawn if pending is None else tg.where(pending, drawn, values)
        height = drawn.sub(mean).div_(std).pow_(2).mul_(-0.5).sub_(peak)
        rejected = tg.empty_like(tensor).uniform_(generator=generator).log_() > height
        pending = rejected if pending is None else pending & rejected
    return tensor.copy_(values)


def below(x: float) -> float:
    """The share of the standard normal distribution below `x`."""
    share = x / math.sqrt(2.0)
    if Settings.portable:
        return (1.0 + float(tg.erf(tg.tensor(share, dtype=tg.float64)))) / 2.0
    return (1.0 + math.erf(share)) / 2.0


def constant_(tensor: Any, val: float) -> Any:
    """Fill with one value.

    >>> nn.init.constant_(zeros(2), 0.5)
    tensor([0.5000, 0.5000])
    """
    with tg.no_grad():
        return tensor.fill_(val)


def ones_(tensor: Any) -> Any:
    """Fill with ones.

    >>> nn.init.ones_(torch.empty(2))
    tensor([1., 1.])
    """
    return constant_(tensor, 1.0)


def zeros_(tensor: Any) -> Any:
    """Fill with zeros.

    >>> nn.init.zeros_(torch.empty(2))
    tensor([0., 0.])
    """
    with tg.no_grad():
        return tensor.zero_()


def eye_(tensor: Any) -> Any:
    """Ones on the diagonal of a matrix, zeros elsewhere.

    >>> nn.init.eye_(torch.empty(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    if tensor.dim() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    with tg.no_grad():
        return tensor.copy_(tg.eye(*tensor.shape))


def dirac_(tensor: Any, groups: int = 1) -> Any:
    """Convolution weights that pass their input through.

    >>> nn.init.dirac_(torch.empty(1, 1, 3))
    tensor([[[0., 1., 0.]]])
    """
    if tensor.dim() not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    out_channels, in_channels, *kernel = tensor.shape
    if out_channels % groups != 0:
        raise ValueError("dim 0 must be divisible by groups")
    if tensor.is_meta:
        return tensor
    per_group = out_channels // groups
    middle = tuple(n // 2 for n in kernel)
    with tg.no_grad():
        tensor.zero_()
        for g in range(groups):
            for d in range(min(per_group, in_channels)):
                tensor[(g * per_group + d, d, *middle)] = 1
    return tensor


def orthogonal_(tensor: Any, gain: float = 1, generator: Any = None) -> Any:
    """A (semi) orthogonal matrix, dimensions after the first taken as one (Saxe et al., 2013).

    >>> w = nn.init.orthogonal_(torch.empty(2, 3))
    >>> torch.allclose(w @ w.T, torch.eye(2), atol=1e-6)
    True
    """
    if tensor.dim() < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0 or tensor.is_meta:
        return tensor
    rows = tensor.size(0)
    wide = rows < tensor.numel() // rows
    with tg.no_grad():
        drawn = tensor.new_empty((rows, tensor.numel() // rows)).normal_(generator=generator)
        q, r = tg.linalg.qr(drawn.T if wide else drawn)
        # With the signs of the diagonal taken out, all orthogonal matrices are equally likely.
        q = q * r.diagonal().sign()
        tensor.copy_((q.T if wide else q).reshape(tensor.shape))
        return tensor.mul_(gain)


def sparse_(tensor: Any, sparsity: float, std: float = 0.01, generator: Any = None) -> Any:
    """Normal draws with a share of zeros in each column of a matrix.

    >>> int((nn.init.sparse_(torch.empty(10, 2), 0.5) == 0).sum())
    10
    """
    if tensor.dim() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    if tensor.is_meta:
        return tensor
    with tg.no_grad():
        tensor.normal_(0, std, generator=generator)
        for column in range(columns):
            chosen = tg.randperm(rows)[:zeros]
            tensor[chosen, column] = 0
    return tensor


def _calculate_fan_in_and_fan_out(tensor: Any) -> tuple[int, int]:
    """How many inputs feed an output, and how many outputs an input feeds."""
    if tensor.dim() < 2:
        raise ValueError(
            "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions"
        )
    field = math.prod(tensor.shape[2:])
    return tensor.size(1) * field, tensor.size(0) * field


def _calculate_correct_fan(tensor: Any, mode: str) -> int:
    mode = mode.lower()
    modes = ["fan_in", "fan_out"]
    if mode not in modes:
        raise ValueError(f"Mode {mode} not supported, please use one of {modes}")
    return _calculate_fan_in_and_fan_out(tensor)[modes.index(mode)]


def xavier_uniform_(tensor: Any, gain: float = 1.0, generator: Any = None) -> Any:
    """Uniform draws that keep the variance both ways (Glorot and Bengio, 2010).

    >>> nn.init.xavier_uniform_(torch.empty(3, 3)).abs().max() <= 1  # sqrt(6 / (3 + 3))
    tensor(True)
    """
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    bound = math.sqrt(3.0) * gain * math.sqrt(2.0 / float(fan_in + fan_out))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Any, gain: float = 1.0, generator: Any = None) -> Any:
    """Normal draws that keep the variance both ways (Glorot and Bengio, 2010).

    >>> nn.init.xavier_normal_(torch.empty(3, 5)).shape
    torch.Size([3, 5])
    """
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / float(fan_in + fan_out)), generator)


def kaiming_uniform_(
    tensor: Any,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Any:
    """Uniform draws that keep the variance through a rectifier (He et al., 2015).

    >>> nn.init.kaiming_uniform_(torch.empty(4, 6)).abs().max() <= 1  # sqrt(6 / 6)
    tensor(True)
    """
    if 0 in tensor.shape:
        warn("Initializing zero-element tensors is a no-op")
        return tensor
    bound = math.sqrt(3.0) * kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Any,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Any:
    """Normal draws that keep the variance through a rectifier (He et al., 2015).

    >>> nn.init.kaiming_normal_(torch.empty(3, 5), nonlinearity="relu").shape
    torch.Size([3, 5])
    """
    if 0 in tensor.shape:
        warn("Initializing zero-element tensors is a no-op")
        return tensor
    return normal_(tensor, 0, kaiming_std(tensor, a, mode, nonlinearity), generator)


def kaiming_std(tensor: Any, a: float, mode: str, nonlinearity: str) -> float:
    fan = _calculate_correct_fan(tensor, mode)
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


def _deprecated(function: Callable[..., Any]) -> Callable[..., Any]:
    """The name without the underscore, from before in-place functions had one."""
    new = function.__name__
    old = new[:-1]

    @functools.wraps(function)
    def renamed(*args: Any, **kwargs: Any) -> Any:
        warn(
            f"`nn.init.{old}` is now deprecated in favor of `nn.init.{new}`.",
            FutureWarning,
        )
        return function(*args, **kwargs)

    renamed.__name__ = old
    return renamed


uniform = _deprecated(uniform_)
normal = _deprecated(normal_)
constant = _deprecated(constant_)
eye = _deprecated(eye_)
dirac = _deprecated(dirac_)
sparse = _deprecated(sparse_)
xavier_uniform = _deprecated(xavier_uniform_)
xavier_normal = _deprecated(xavier_normal_)
kaiming_uniform = _deprecated(kaiming_uniform_)
kaiming_normal = _deprecated(kaiming_normal_)
orthogonal = _deprecated(orthogonal_)


# PyTorch's private names, which other packages import.
_no_grad_uniform_, _no_grad_normal_, _no_grad_trunc_normal_ = uniform_, normal_, trunc_normal_
_no_grad_fill_, _no_grad_zero_ = constant_, zeros_
