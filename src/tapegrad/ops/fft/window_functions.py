"""Window functions: `signal.windows.<name>` and the older `<name>_window`.

The newer ones are symmetric unless asked, compute from a ramp of evenly spaced points, and record
how the ramp became the window. The older ones are periodic unless asked.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from ... import dtypes
from ...core.arguments import is_index
from ...core.base import TensorBase
from ...core.host_arrays import host
from ...core.modes import grad_set_to
from ...device import strided
from ..block import Case, api
from ..block.checks import invalid_call
from ..block.public import public
from ..creation import ranges
from ..creation import sized as creation
from ..creation.arguments import checked_device, np_dtype

# ruff: noqa: N803


class Form:
    """The options of a window: length, dtype and the rest, checked."""

    def __init__(
        self, function: str, M: Any, dtype: Any, layout: Any, device: Any, requires_grad: bool
    ) -> None:
        self.dtype = dtypes.get_default_dtype() if dtype is None else dtype
        if M < 0:
            raise ValueError(f"{function} requires non-negative window length, got M={M}")
        if isinstance(M, TensorBase) and M._array.dtype.kind not in "iub":
            raise invalid_call("linspace", M)
        if layout is not strided:
            raise ValueError(f"{function} is implemented for strided tensors only, got: {layout}")
        if self.dtype is not dtypes.float32 and self.dtype is not dtypes.float64:
            raise ValueError(f"{function} expects float32 or float64 dtypes, got: {self.dtype}")
        self.length = M
        self.device = device
        self.requires_grad = requires_grad

    def ones(self) -> Any:
        """All ones: what windows of at most one element are."""
        checked_device(self.device, "ones")
        length = int(self.length) if isinstance(self.length, bool) else self.length
        return creation.made(np.ones(length, self.dtype.np), self.requires_grad)

    def ramp(self, start: Any, end: Any) -> Any:
        """Evenly spaced points, both ends in."""
        return ranges.linspace(
            start=start,
            end=end,
            steps=self.length,
            dtype=self.dtype,
            device=self.device,
            requires_grad=self.requires_grad,
        )

    def period(self, sym: bool) -> int:
        """How many steps it is from the start of the window to where it would start again."""
        return self.length - 1 if sym else self.length

    def even_period(self, sym: bool) -> int:
        """The period of the window, where a single point always counts as symmetric."""
        return self.length if not sym and self.length > 1 else self.length - 1


def window(checked_by: str = "") -> Any:
    """Publish a window without options of its own; the function gives its values.

    PyTorch writes some as calls of others, whose names are then in the refusals.
    """

    def publish(values: Any) -> Any:
        name = values.__name__
        refusing = checked_by or name

        def made(
            M: Any,
            *,
            sym: bool = True,
            dtype: Any = None,
            layout: Any = strided,
            device: Any = None,
            requires_grad: bool = False,
        ) -> Any:
            return values(Form(refusing, M, dtype, layout, device, requires_grad), sym)

        made.__name__, made.__doc__ = name, values.__doc__
        cases = [Case(5), Case(4, sym=False)]
        return api(name=f"signal.windows.{name}", samples=cases)(made)

    return publish


@api(name="signal.windows.exponential", samples=[Case(5), Case(4, center=1, tau=2.0, sym=False)])
def exponential(
    M: Any,
    *,
    center: Any = None,
    tau: float = 1.0,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """signal.windows.exponential(M, *, center=None, tau=1.0, sym=True) -> Tensor: an exponential
    window, exp(-|n|/tau) around the middle.

    >>> torch.signal.windows.exponential(3)
    tensor([0.3679, 1.0000, 0.3679])
    """
    form = Form("exponential", M, dtype, layout, device, requires_grad)
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    if M == 0:
        return form.ones()
    middle = form.even_period(sym) / 2.0 if center is None else center
    scale = 1 / tau
    return (-form.ramp(-middle * scale, (M - 1 - middle) * scale).abs()).exp()


@window()
def cosine(form: Form, sym: bool) -> Any:
    """signal.windows.cosine(M, *, sym=True) -> Tensor: one arch of a sine.

    >>> torch.signal.windows.cosine(3)
    tensor([0.5000, 1.0000, 0.5000])
    """
    if form.length == 0:
        return form.ones()
    scale = math.pi / (form.even_period(sym) + 1)
    return form.ramp(0.5 * scale, (form.length - 0.5) * scale).sin()


@api(name="signal.windows.gaussian", samples=[Case(5), Case(4, std=0.5, sym=False)])
def gaussian(
    M: Any,
    *,
    std: float = 1.0,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """signal.windows.gaussian(M, *, std=1.0, sym=True) -> Tensor: a bell curve.

    >>> torch.signal.windows.gaussian(3)
    tensor([0.6065, 1.0000, 0.6065])
    """
    form = Form("gaussian", M, dtype, layout, device, requires_grad)
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    if M == 0:
        return form.ones()
    start = -form.even_period(sym) / 2.0
    scale = 1 / (std * math.sqrt(2))
    return (-(form.ramp(start * scale, (start + M - 1) * scale) ** 2)).exp()


@api(name="signal.windows.kaiser", samples=[Case(5), Case(4, beta=3.0, sym=False)])
def kaiser(
    M: Any,
    *,
    beta: float = 12.0,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """signal.windows.kaiser(M, *, beta=12.0, sym=True) -> Tensor: the Kaiser window.

    >>> torch.signal.windows.kaiser(3, beta=2.0)
    tensor([0.4387, 1.0000, 0.4387])
    """
    form = Form("kaiser", M, dtype, layout, device, requires_grad)
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")
    if M < 2:
        return form.ones()
    # `beta` in the precision of the window: the root below must not see a negative number.
    top = creation.made(np.asarray(beta, form.dtype.np))
    step = top * 2.0 / form.period(sym)
    end = top.minimum(step * (M - 1) - top)
    i0 = public.i0
    return i0((top * top - form.ramp(-top, end).pow(2)).sqrt()) / i0(top)


@window()
def bartlett(form: Form, sym: bool) -> Any:
    """signal.windows.bartlett(M, *, sym=True) -> Tensor: a triangle.

    >>> torch.signal.windows.bartlett(5)
    tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """
    if form.length < 2:
        return form.ones()
    return 1 - form.ramp(-1, (form.length - 1) * (2 / form.period(sym)) - 1).abs()


@api(
    name="signal.windows.general_cosine",
    samples=[Case(5, a=[0.5, 0.3, 0.2]), Case(4, a=[0.7], sym=False)],
)
def general_cosine(
    M: Any,
    *,
    a: Any,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """signal.windows.general_cosine(M, *, a, sym=True) -> Tensor: a sum of cosines.

    `a` has their weights, which are taken with alternating signs.

    >>> torch.signal.windows.general_cosine(3, a=[0.5, 0.5])
    tensor([0., 1., 0.])
    """
    return cosines(Form("general_cosine", M, dtype, layout, device, requires_grad), sym, a)


def cosines(form: Form, sym: bool, a: Any) -> Any:
    """A sum of cosines with the weights `a`."""
    if form.length < 2:
        return form.ones()
    if not isinstance(a, Iterable):
        raise TypeError("Coefficients must be a list/tuple")
    if not a:
        raise ValueError("Coefficients cannot be empty")
    points = form.ramp(0, (form.length - 1) * (2 * math.pi / form.period(sym)))
    signed = [-float(w) if i % 2 else float(w) for i, w in enumerate(a)]
    weights = creation.made(np.asarray(signed, form.dtype.np), form.requires_grad)
    orders = creation.made(np.arange(len(signed), dtype=form.dtype.np), form.requires_grad)
    return (weights.unsqueeze(-1) * (orders.unsqueeze(-1) * points).cos()).sum(0)


@api(
    name="signal.windows.general_hamming",
    samples=[Case(5), Case(4, alpha=0.7, sym=False)],
)
def general_hamming(
    M: Any,
    *,
    alpha: float = 0.54,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """signal.windows.general_hamming(M, *, alpha=0.54, sym=True) -> Tensor: a raised cosine.

    >>> torch.signal.windows.general_hamming(3, alpha=0.6)
    tensor([0.2000, 1.0000, 0.2000])
    """
    form = Form("general_cosine", M, dtype, layout, device, requires_grad)
    return cosines(form, sym, [alpha, 1.0 - alpha])


@window("general_cosine")
def hamming(form: Form, sym: bool) -> Any:
    """signal.windows.hamming(M, *, sym=True) -> Tensor: the Hamming window.

    >>> torch.signal.windows.hamming(3)
    tensor([0.0800, 1.0000, 0.0800])
    """
    return cosines(form, sym, [0.54, 1.0 - 0.54])


@window("general_cosine")
def hann(form: Form, sym: bool) -> Any:
    """signal.windows.hann(M, *, sym=True) -> Tensor: the Hann window.

    >>> torch.signal.windows.hann(3)
    tensor([0., 1., 0.])
    """
    return cosines(form, sym, [0.5, 0.5])


@window()
def blackman(form: Form, sym: bool) -> Any:
    """signal.windows.blackman(M, *, sym=True) -> Tensor: the Blackman window.

    >>> torch.signal.windows.blackman(4)[1]
    tensor(0.6300)
    """
    return cosines(form, sym, [0.42, 0.5, 0.08])


@window("general_cosine")
def nuttall(form: Form, sym: bool) -> Any:
    """signal.windows.nuttall(M, *, sym=True) -> Tensor: the Nuttall window.

    >>> torch.signal.windows.nuttall(5)[1:4]
    tensor([0.2270, 1.0000, 0.2270])
    """
    return cosines(form, sym, [0.3635819, 0.4891775, 0.1365995, 0.0106411])


# ---------------------------------------------------------------------- the older functions


def described(dtype: Any, layout: Any) -> str:
    """How PyTorch shows the options of a new tensor."""
    kind = dtypes.cpp_name(dtype)
    shown = "Strided (default)" if layout is None or layout is strided else "Sparse"
    return (
        f"TensorOptions(dtype={kind}, device=cpu, layout={shown}, requires_grad=false (default), "
        "pinned_memory=false, memory_format=(nullopt))"
    )


def older(
    function: str,
    length: Any,
    periodic: Any,
    numbers: tuple[Any, ...],
    shape: Any,
    options: tuple[Any, ...],
) -> Any:
    """A window of the older kind: `shape(n, count, r)` gives its values at n = 0 … count - 1.

    `r` rounds a number to the window's precision, as PyTorch does before it multiplies by one.
    """
    dtype, layout, device, requires_grad = options
    if not is_index(length):
        raise TypeError(
            f"{function}(): argument 'window_length' (position 1) must be int, "
            f"not {type(length).__name__}"
        )
    if not isinstance(periodic, bool) or not all([isinstance(n, (int, float)) for n in numbers]):
        given = [n for n in numbers if not isinstance(n, float)]
        raise invalid_call(function, length, periodic, *given)
    wanted = np_dtype(dtype, function) or dtypes.default_np()
    checked_device(device, function)
    if layout is not None and layout is not strided:
        raise RuntimeError(
            f"{function} is not implemented for sparse types, got: {described(wanted, layout)}"
        )
    if wanted.kind not in "fVc":
        raise RuntimeError(
            f"{function} expects floating point dtypes, got: {described(wanted, layout)}"
        )
    length = int(length)
    if length < 0:
        raise RuntimeError(
            f"{function} requires non-negative window_length, got window_length={length}"
        )
    if length < 2:
        return creation.made(np.ones(length, wanted), requires_grad)
    count = length + 1 if periodic else length

    def rounded(value: float) -> float:
        return float(np.asarray(value).astype(wanted))

    with grad_set_to(False):
        values = shape(ranges.arange(count, dtype=dtypes.of(wanted)), count, rounded)
    return creation.made(values._array[:length].copy(), requires_grad)


def older_window(shape: Any) -> Any:
    """Publish a window of the older kind without options of its own."""
    name = shape.__name__

    def made(
        window_length: Any,
        periodic: Any = True,
        *,
        dtype: Any = None,
        layout: Any = None,
        device: Any = None,
        pin_memory: bool = False,
        requires_grad: bool = False,
    ) -> Any:
        options = (dtype, layout, device, requires_grad)
        return older(name, window_length, periodic, (), shape, options)

    made.__name__, made.__doc__ = name, shape.__doc__
    return api(method=False, samples=[Case(5), Case(4, False)])(made)


@older_window
def bartlett_window(n: Any, count: int, r: Any) -> Any:
    """bartlett_window(window_length, periodic=True, *, dtype=None) -> Tensor: a window in the shape
    of a triangle.

    >>> bartlett_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    up = n * r(2.0 / (count - 1))
    rising = (count - 1) // 2 + 1
    up[rising:].mul_(-1).add_(2)
    return up


@older_window
def blackman_window(n: Any, count: int, r: Any) -> Any:
    """blackman_window(window_length, periodic=True, *, dtype=None) -> Tensor: a window made of two
    cosines.

    >>> blackman_window(4)[1:]
    tensor([0.3400, 1.0000, 0.3400])
    """
    turn = n * r(math.pi / (count - 1))
    return (turn * 4).cos() * r(0.08) - (turn * 2).cos() * 0.5 + r(0.42)


def raised(alpha: float, beta: float) -> Any:
    """alpha - beta * cos over one turn."""

    def shape(n: Any, count: int, r: Any) -> Any:
        return (n * r(2 * math.pi / (count - 1))).cos() * r(-beta) + r(alpha)

    return shape


@api(method=False, samples=[Case(5), Case(4, False, 0.6), Case(4, True, 0.6, 0.3)])
def hamming_window(
    window_length: Any,
    periodic: Any = True,
    alpha: Any = 0.54,
    beta: Any = 0.46,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Any:
    """hamming_window(window_length, periodic=True, alpha=0.54, beta=0.46) -> Tensor: a window of
    one cosine that does not reach 0: Hamming's.

    >>> hamming_window(4)
    tensor([0.0800, 0.5400, 1.0000, 0.5400])
    """
    options = (dtype, layout, device, requires_grad)
    shape = raised(alpha, beta)
    return older("hamming_window", window_length, periodic, (alpha, beta), shape, options)


@older_window
def hann_window(n: Any, count: int, r: Any) -> Any:
    """hann_window(window_length, periodic=True, *, dtype=None) -> Tensor: a window made of one
    cosine: Hann's.

    >>> hann_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return raised(0.5, 0.5)(n, count, r)


@api(method=False, samples=[Case(5), Case(4, False), Case(4, True, 3.0)])
def kaiser_window(
    window_length: Any,
    periodic: Any = True,
    beta: Any = 12.0,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Any:
    """kaiser_window(window_length, periodic=True, beta=12.0, *, dtype=None) -> Tensor: Kaiser's
    window; larger `beta` makes it narrower.

    >>> kaiser_window(4, True, 2.0)
    tensor([0.4387, 0.8348, 1.0000, 0.8348])
    """

    def shape(n: Any, count: int, r: Any) -> Any:
        across = n._array.astype(np.float64) * (2.0 / (count - 1)) - 1.0
        # `beta` times the height of a half circle; rounding may leave it just below zero.
        height = beta * np.sqrt(np.maximum(1.0 - across * across, 0.0))
        return creation.made((host.i0(height) / host.i0(beta)).astype(n._array.dtype))

    options = (dtype, layout, device, requires_grad)
    return older("kaiser_window", window_length, periodic, (beta,), shape, options)
