"""Fourier transforms along one dimension, and the three ops that all transforms are made of.

`_fft_c2c` is complex to complex, `_fft_r2c` real to complex (one half of a spectrum whose other
half mirrors it, or all of it), `_fft_c2r` the way back from such a half. Each takes any number of
dimensions. Linear ops: a gradient is a transform in the other direction.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ... import dtypes
from ...core.arguments import wrap_dim
from ...core.base import TensorBase
from ...core.op import REGISTRY
from ...errors import must_be_tensor
from ..block import SINGLE, Autocast, Case, Linear, api, apply, op
from ..block.out_argument import write_outputs
from ..block.samples import Draw
from ..nn.pad import constant_pad_nd

# ruff: noqa: N805

# How a transform of n points is scaled: not at all, by 1/sqrt(n), by 1/n.
NONE, BY_ROOT, BY_COUNT = 0, 1, 2
# The same in NumPy's words, which depend on the direction.
FORWARD = ("backward", "ortho", "forward")
INVERSE = ("forward", "ortho", "backward")


def by_stride(x: Any, dims: tuple[int, ...]) -> list[int]:
    """Dimensions from the one with the longest steps through memory to the shortest."""
    return sorted(dims, key=lambda d: -x.strides[d])


def ordered(x: Any, dims: list[int]) -> list[int]:
    """All dimensions of `x`, those to transform at the end: the memory order of the result."""
    rest = tuple([d for d in range(x.ndim) if d not in dims])
    return [*by_stride(x, rest), *dims]


def through(xp: Any, x: Any, dims: list[int], transform: Callable[..., Any]) -> Any:
    """`transform(x, axes)` with the dimensions to transform last in memory, then put back."""
    if x.ndim == 1:
        return transform(xp.ascontiguousarray(x), (0,))
    order = ordered(x, dims)
    axes = tuple(range(x.ndim - len(dims), x.ndim))
    out = transform(xp.ascontiguousarray(xp.transpose(x, order)), axes)
    back = [0] * x.ndim
    for place, d in enumerate(order):
        back[d] = place
    return xp.transpose(out, back)


def c2c(xp: Any, x: Any, dim: tuple[int, ...], normalization: int, forward: bool) -> Any:
    if not dim:
        return x.copy()

    norm = FORWARD[normalization] if forward else INVERSE[normalization]

    def transform(moved: Any, axes: tuple[int, ...]) -> Any:
        if len(axes) == 1:
            return (xp.fft.fft if forward else xp.fft.ifft)(moved, norm=norm)
        return (xp.fft.fftn if forward else xp.fft.ifftn)(moved, axes=axes, norm=norm)

    return through(xp, x, by_stride(x, dim), transform)


@op
class FftC2C(Linear):
    """_fft_c2c(input, dim, normalization, forward) -> Tensor: complex numbers to complex ones."""

    name = "_fft_c2c"
    aten = "_fft_c2c"
    public = False
    wirtinger = True
    dims = ("dim",)

    def fwd(xp, input, dim, normalization, forward):
        return c2c(xp, input, dim, normalization, forward)

    def d_input(F, grad, dim, normalization, forward):
        return F._fft_c2c(grad, dim, normalization, not forward)


def mirrored(xp: Any, half: Any, size: int) -> Any:
    """The whole spectrum of real numbers, from the first half of the last dimension."""
    known = half.shape[-1]
    out = xp.empty((*half.shape[:-1], size), half.dtype)
    out[..., :known] = half
    xp.conjugate(half[..., size - known : 0 : -1], out=out[..., known:])
    return out


@op
class FftR2C(Linear):
    """_fft_r2c(input, dim, normalization, onesided) -> Tensor: real numbers to complex ones."""

    name = "_fft_r2c"
    aten = "_fft_r2c"
    public = False
    wirtinger = True
    dims = ("dim",)

    def fwd(xp, input, dim, normalization, onesided):
        norm = FORWARD[normalization]

        def transform(moved: Any, axes: tuple[int, ...]) -> Any:
            if len(axes) == 1:
                half = xp.fft.rfft(moved, norm=norm)
                return half if onesided else mirrored(xp, half, moved.shape[-1])
            return (xp.fft.rfftn if onesided else xp.fft.fftn)(moved, axes=axes, norm=norm)

        return through(xp, input, [*by_stride(input, dim[:-1]), dim[-1]], transform)

    def d_input(F, grad, input_shape, dim, normalization, onesided):
        if onesided and grad.shape[dim[-1]] < input_shape[dim[-1]]:
            grad = F.slice_backward(grad, input_shape, dim[-1], 0, grad.shape[dim[-1]], 1)
        return F.real_part(F._fft_c2c(grad, dim, normalization, False))


@op
class FftC2R(Linear):
    """_fft_c2r(input, dim, normalization, last_dim_size) -> Tensor: half a spectrum to reals."""

    name = "_fft_c2r"
    aten = "_fft_c2r"
    public = False
    wirtinger = True
    dims = ("dim",)

    def fwd(xp, input, dim, normalization, last_dim_size):
        def transform(moved: Any, axes: tuple[int, ...]) -> Any:
            return xp.fft.irfft(moved, last_dim_size, norm=INVERSE[normalization])

        rest, last = dim[:-1], dim[-1]
        half = c2c(xp, input, rest, normalization, False) if rest else input
        return through(xp, half, [last], transform)

    def d_input(F, grad, dim, normalization):
        half = F._fft_r2c(grad, dim, normalization, True)
        last = dim[-1]
        # What has a mirror image counts twice.
        twins = grad.shape[last] - half.shape[last]
        if twins <= 0:
            return half
        inner = F.narrow(half, last, 1, twins)
        # By the op, whose result lies in memory as `half` does.
        return F.add(half, F.slice_backward(inner, half.shape, last, 1, 1 + twins, 1))


# ---------------------------------------------------------------------- arguments


def whole(function: str, name: str, position: int, value: Any) -> int:
    """An argument that has to be one integer; `position` 0: given by keyword, most likely."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        place = f" (position {position})" if position else ""
        raise TypeError(
            f"fft_{function}(): argument '{name}'{place} must be int, not {type(value).__name__}"
        )
    return operator.index(value)


def one_dim(x: Any, dim: int) -> int:
    if not x.ndim:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    return wrap_dim(dim, x.ndim)


def check_points(n: int) -> int:
    if n < 1:
        raise RuntimeError(f"Invalid number of data points ({n}) specified")
    return n


def scaling(function: str, norm: Any, forward: bool) -> int:
    """The normalization that a `norm` argument means in one direction."""
    if norm is not None and not isinstance(norm, str):
        raise TypeError(f"fft_{function}(): argument 'norm' must be str, not {type(norm).__name__}")
    if norm is None or norm == "backward":
        return NONE if forward else BY_COUNT
    if norm == "forward":
        return BY_COUNT if forward else NONE
    if norm == "ortho":
        return BY_ROOT
    raise RuntimeError(f'Invalid normalization mode: "{norm}"')


def checked(function: str, input: Any) -> Any:
    """The array of the tensor to transform."""
    if not isinstance(input, TensorBase):
        raise must_be_tensor(f"fft_{function}", "input", 1, input)
    return input._array


def promoted(input: Any, to_complex: bool) -> Any:
    """`input` in a dtype that can be transformed: integers become floats."""
    have = dtypes.of(input._array.dtype)
    if have.is_floating_point and have.itemsize == 2:
        raise RuntimeError(f"Unsupported dtype {have.scalar_type}")
    want = have if have.is_floating_point or have.is_complex else dtypes.get_default_dtype()
    if to_complex:
        want = want.to_complex()
    return input if want is have else input.to(want)


def resized(input: Any, dims: tuple[int, ...], sizes: tuple[int, ...]) -> Any:
    """`input` cut off or filled up with zeros at the end of some dimensions."""
    pad = [0] * (2 * input._array.ndim)
    for d, size in zip(dims, sizes, strict=True):
        have = input._array.shape[d]
        if have > size:
            input = apply(REGISTRY["slice"], (input,), (d, 0, size, 1))
        elif have < size:
            pad[-2 * d - 1] = size - have
    return constant_pad_nd(input, pad) if any(pad) else input


def general(function: str) -> str:
    """PyTorch's two-dimensional transforms speak with the voice of those of any dimension."""
    return function.replace("2", "n")


def stored(function: str, out: Any, is_real: bool, run: Any, *args: Any) -> Any:
    """`run(function, *args)`, stored in `out` if one is given."""
    if out is None:
        return run(function, *args)
    if isinstance(out, TensorBase):
        have = dtypes.of(out._array.dtype)
        if not (have.is_floating_point if is_real else have.is_complex):
            wanted = "floating point" if is_real else "complex"
            raise RuntimeError(
                f"{general(function)} expects a {wanted} output tensor, but got {have.scalar_type}"
            )
    return write_outputs(f"fft_{function}", out, run, (function, *args), {})


# ---------------------------------------------------------------------- one dimension


def points(function: str, input: Any, n: Any, dim: Any, default: int | None = None) -> Any:
    """The dimension to transform and the number of points, checked."""
    if n is not None:
        n = whole(function, "n", 2, n)
    place = one_dim(input._array, whole(function, "dim", 0, dim))
    if n is not None:
        return place, check_points(n)
    size = input._array.shape[place]
    return place, check_points(size if default is None else 2 * (size - 1))


def complex_1d(function: str, input: Any, n: Any, dim: Any, norm: Any, forward: bool) -> Any:
    if checked(function, input).dtype.kind != "c":
        return real_1d(function, input, n, dim, norm, forward, False)
    place, count = points(function, input, n, dim)
    if n is not None:
        input = resized(input, (place,), (count,))
    return apply(FftC2C, (input,), ((place,), scaling(function, norm, forward), forward))


def real_1d(
    function: str, input: Any, n: Any, dim: Any, norm: Any, forward: bool, onesided: bool = True
) -> Any:
    have = dtypes.of(checked(function, input).dtype)
    if have.is_complex:
        raise RuntimeError(f"{function} expects a real input tensor, but got {have.scalar_type}")
    input = promoted(input, False)
    place, count = points(function, input, n, dim)
    if n is not None:
        input = resized(input, (place,), (count,))
    out = apply(FftR2C, (input,), ((place,), scaling(function, norm, forward), onesided))
    return out if forward else out.conj()


def to_real_1d(function: str, input: Any, n: Any, dim: Any, norm: Any, forward: bool) -> Any:
    checked(function, input)
    input = promoted(input, True)
    place, count = points(function, input, n, dim, 2)
    if n is not None:
        input = resized(input, (place,), (count // 2 + 1,))
    normalization = scaling(function, norm, forward)
    if forward:
        input = input.conj()
    return apply(FftC2R, (input,), ((place,), normalization, count))


ONE_DIM_CASES = [
    Case(Draw(5)),
    Case(Draw(2, 4), 3),
    Case(Draw(3, 2), 5, 0),
    Case(Draw(2, 3, 2), dim=1, norm="ortho"),
    Case(Draw(4, 2, layout="T"), norm="forward"),
    Case(Draw(2, 3, layout="step"), 4, -1, "backward"),
]


@api(name="fft.fft", samples=ONE_DIM_CASES, autocast=Autocast(cpu=SINGLE))
def fft(input: Any, n: Any = None, dim: Any = -1, norm: Any = None, *, out: Any = None) -> Any:
    """fft.fft(input, n=None, dim=-1, norm=None) -> Tensor: the discrete Fourier transform.

    `n` points are taken: the input is cut off or filled up with zeros. `norm` is "backward" (no
    scaling), "forward" (by 1/n) or "ortho" (by 1/sqrt(n)).

    >>> torch.fft.fft(tensor([1.0, 2.0, 3.0, 4.0]))
    tensor([10.+0.j, -2.+2.j, -2.+0.j, -2.-2.j])
    """
    return stored("fft", out, False, complex_1d, input, n, dim, norm, True)


@api(name="fft.ifft", samples=ONE_DIM_CASES, autocast=Autocast(cpu=SINGLE))
def ifft(input: Any, n: Any = None, dim: Any = -1, norm: Any = None, *, out: Any = None) -> Any:
    """fft.ifft(input, n=None, dim=-1, norm=None) -> Tensor: the inverse of `fft`.

    >>> torch.fft.ifft(tensor([4 + 0j, 0, 0, 0]))
    tensor([1.+0.j, 1.+0.j, 1.+0.j, 1.+0.j])
    """
    return stored("ifft", out, False, complex_1d, input, n, dim, norm, False)


@api(name="fft.rfft", samples=ONE_DIM_CASES, autocast=Autocast(cpu=SINGLE))
def rfft(input: Any, n: Any = None, dim: Any = -1, norm: Any = None, *, out: Any = None) -> Any:
    """fft.rfft(input, n=None, dim=-1, norm=None) -> Tensor: the half of `fft` that says it all.

    The spectrum of real numbers is Hermitian: its second half mirrors the first.

    >>> torch.fft.rfft(tensor([1.0, 2.0, 3.0, 4.0]))
    tensor([10.+0.j, -2.+2.j, -2.+0.j])
    """
    return stored("rfft", out, False, real_1d, input, n, dim, norm, True)


@api(name="fft.irfft", samples=ONE_DIM_CASES, autocast=Autocast(cpu=SINGLE))
def irfft(input: Any, n: Any = None, dim: Any = -1, norm: Any = None, *, out: Any = None) -> Any:
    """fft.irfft(input, n=None, dim=-1, norm=None) -> Tensor: the inverse of `rfft`.

    `n` is the size of the result; without it, an even one is assumed.

    >>> torch.fft.irfft(tensor([10 + 0j, -2 + 2j, -2 + 0j]))
    tensor([1., 2., 3., 4.])
    """
    return stored("irfft", out, True, to_real_1d, input, n, dim, norm, False)


@api(name="fft.hfft", samples=ONE_DIM_CASES, autocast=Autocast(cpu=SINGLE))
def hfft(input: Any, n: Any = None, dim: Any = -1, norm: Any = None, *, out: Any = None) -> Any:
    """fft.hfft(input, n=None, dim=-1, norm=None) -> Tensor: `fft` of a Hermitian signal.

    The input is the first half of the signal, the result is real.

    >>> torch.fft.hfft(tensor([1 + 0j, 2 + 0j, 3 + 0j]))
    tensor([ 8., -2.,  0., -2.])
    """
    return stored("hfft", out, True, to_real_1d, input, n, dim, norm, True)


@api(name="fft.ihfft", samples=ONE_DIM_CASES, autocast=Autocast(cpu=SINGLE))
def ihfft(input: Any, n: Any = None, dim: Any = -1, norm: Any = None, *, out: Any = None) -> Any:
    """fft.ihfft(input, n=None, dim=-1, norm=None) -> Tensor: the inverse of `hfft`.

    >>> torch.fft.ihfft(tensor([8.0, -2.0, 0.0, -2.0]))
    tensor([1.-0.j, 2.-0.j, 3.-0.j])
    """
    return stored("ihfft", out, False, real_1d, input, n, dim, norm, False)


# ---------------------------------------------------------------------- shifts


def shifted(function: str, input: Any, dim: Any, half: Callable[[int], int]) -> Any:
    shape = checked(function, input).shape
    if dim is None:
        dims = tuple(range(len(shape)))
    elif isinstance(dim, (tuple, list)):
        dims = tuple([operator.index(d) for d in dim])
    elif hasattr(dim, "__index__"):
        dims = (operator.index(dim),)
    else:
        raise TypeError(
            f"fft_{function}(): argument 'dim' (position 2) must be tuple of ints, "
            f"not {type(dim).__name__}"
        )
    if dims and shape:
        shifts = [half(shape[wrap_dim(d, len(shape))]) for d in dims]
        return input.roll(shifts, dims)
    raise RuntimeError("`shifts` required")


SHIFT_CASES = [
    Case(Draw(5)),
    Case(Draw(4, 3)),
    Case(Draw(3, 2), 0),
    Case(Draw(2, 3, 2), (0, -1)),
    Case(Draw(0, 2)),
]


@api(name="fft.fftshift", samples=SHIFT_CASES)
def fftshift(input: Any, dim: Any = None) -> Any:
    """fft.fftshift(input, dim=None) -> Tensor: a spectrum with the zero frequency in the middle.

    >>> torch.fft.fftshift(tensor([0, 1, 2, -2, -1]))
    tensor([-2, -1,  0,  1,  2])
    """
    return shifted("fftshift", input, dim, lambda n: n // 2)


@api(name="fft.ifftshift", samples=SHIFT_CASES)
def ifftshift(input: Any, dim: Any = None) -> Any:
    """fft.ifftshift(input, dim=None) -> Tensor: the inverse of `fftshift`.

    >>> torch.fft.ifftshift(tensor([-2, -1, 0, 1, 2]))
    tensor([ 0,  1,  2, -2, -1])
    """
    return shifted("ifftshift", input, dim, lambda n: (n + 1) // 2)


# ---------------------------------------------------------------------- frequencies


def frequencies(
    function: str,
    n: Any,
    d: Any,
    half: bool,
    out: Any,
    dtype: Any,
    layout: Any,
    device: Any,
    requires_grad: bool,
) -> Any:
    """The frequencies of the bins of a transform of `n` points that are `d` apart."""
    from ..creation.arguments import np_dtype
    from ..creation.sized import check_options, made, store_out

    n = whole(function, "n", 1, n)
    if not isinstance(d, (int, float)):
        raise TypeError(
            f"fft_{function}(): argument 'd' (position 2) must be float, not {type(d).__name__}"
        )
    wanted = np_dtype(dtype, f"fft_{function}")
    check_options(f"fft_{function}", device, layout, False)
    target = out._array.dtype if isinstance(out, TensorBase) else wanted or dtypes.default_np()
    if target.kind not in "fVc":
        raise RuntimeError(f"{function} requires a floating point or complex dtype")
    if target.kind == "c":
        name = dtypes.of(target).scalar_type
        raise NotImplementedError(f"\"arange_cpu\" not implemented for '{name}'")
    count = (n + 2) // 2 if half and n >= 0 else -(-n // 2) + 1 if half else n
    if count < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {count}: [{count}]")
    bins = np.arange(count)
    if not half:
        bins[(n + 1) // 2 :] -= n
    step = np.float64(n * d)
    work = target if target.kind == "f" and target.itemsize > 2 else np.dtype(np.float32)
    with np.errstate(all="ignore"):
        array = (bins.astype(work) * work.type(1.0 / step)).astype(target)
    if out is None:
        return made(array, requires_grad)
    return store_out(f"fft_{function}", out, array, wanted)


def frequency_function(source: Any) -> Any:
    """Publish a function; `source` says whether it has half of the bins, and describes it."""
    name, half = source.__name__, source()

    def made_of_bins(
        n: Any,
        d: Any = 1.0,
        *,
        out: Any = None,
        dtype: Any = None,
        layout: Any = None,
        device: Any = None,
        requires_grad: bool = False,
    ) -> Any:
        return frequencies(name, n, d, half, out, dtype, layout, device, requires_grad)

    made_of_bins.__name__, made_of_bins.__doc__ = name, source.__doc__
    return api(name=f"fft.{name}")(made_of_bins)


@frequency_function
def fftfreq() -> bool:
    """fft.fftfreq(n, d=1.0, *, dtype=None) -> Tensor: the frequencies of the bins of `fft`.

    >>> torch.fft.fftfreq(5)
    tensor([ 0.0000,  0.2000,  0.4000, -0.4000, -0.2000])
    """
    return False


@frequency_function
def rfftfreq() -> bool:
    """fft.rfftfreq(n, d=1.0, *, dtype=None) -> Tensor: the frequencies of the bins of `rfft`.

    >>> torch.fft.rfftfreq(5)
    tensor([0.0000, 0.2000, 0.4000])
    """
    return True
