"""Fourier transforms along two dimensions and along any number of them."""

from __future__ import annotations

import operator
from typing import Any

from ... import dtypes
from ..block import SINGLE, Autocast, Case, api, apply
from ..block.samples import Draw
from .one_dim import (
    FftC2C,
    FftC2R,
    FftR2C,
    check_points,
    checked,
    general,
    one_dim,
    promoted,
    resized,
    scaling,
    stored,
)

Sizes = tuple[int, ...]
LAST_TWO = (-2, -1)


def integers(function: str, name: str, position: int, value: Any) -> Sizes:
    """An argument that has to be a sequence of integers; one stands for itself."""
    place = f" (position {position})" if position else ""
    if hasattr(value, "__index__") and not isinstance(value, bool):
        return (operator.index(value),)
    if not isinstance(value, (tuple, list)):
        kind = type(value).__name__
        raise TypeError(
            f"fft_{function}(): argument '{name}'{place} must be tuple of ints, not {kind}"
        )
    for i, each in enumerate(value):
        if not hasattr(each, "__index__"):
            raise TypeError(
                f"fft_{function}(): argument '{name}'{place} must be tuple of ints, but found "
                f"element of type {type(each).__name__} at pos {i}"
            )
    return tuple([operator.index(each) for each in value])


def geometry(function: str, input: Any, s: Any, dim: Any) -> tuple[Sizes, Sizes]:
    """The sizes and dimensions to transform."""
    array = checked(function, input)
    dims: Sizes | None = None
    if dim is None and function.endswith("2"):
        raise TypeError(
            f"fft_{function}(): argument 'dim' (position 3) must be tuple of ints, not NoneType"
        )
    if dim is not None:
        dims = tuple([one_dim(array, d) for d in integers(function, "dim", 0, dim)])
        if len(set(dims)) != len(dims):
            raise RuntimeError("FFT dims must be unique")
    if s is None:
        dims = tuple(range(array.ndim)) if dims is None else dims
        sizes = tuple([array.shape[d] for d in dims])
    else:
        sizes = integers(function, "s", 2, s)
        if dims is not None and len(dims) != len(sizes):
            raise RuntimeError("When given, dim and shape arguments must have the same length")
        if len(sizes) > array.ndim:
            raise RuntimeError(
                f"Got shape with {len(sizes)} values but input tensor only has {array.ndim} "
                "dimensions."
            )
        if dims is None:
            dims = tuple(range(array.ndim - len(sizes), array.ndim))
        sizes = tuple([array.shape[d] if n == -1 else n for n, d in zip(sizes, dims, strict=True)])
    for n in sizes:
        check_points(n)
    return sizes, dims


def at_least_one(function: str, dims: Sizes) -> None:
    if not dims:
        raise RuntimeError(f"{general(function)} must transform at least one axis")


def spectrum_geometry(function: str, input: Any, s: Any, dim: Any) -> tuple[Sizes, Sizes, int]:
    """`geometry` for an input that is half a spectrum; and the last size of the result."""
    sizes, dims = geometry(function, input, s, dim)
    at_least_one(function, dims)
    last = sizes[-1]
    if s is None or integers(function, "s", 2, s)[-1] == -1:
        last = 2 * (input._array.shape[dims[-1]] - 1)
    check_points(last)
    return (*sizes[:-1], last // 2 + 1), dims, last


def complex_nd(function: str, input: Any, s: Any, dim: Any, norm: Any, forward: bool) -> Any:
    sizes, dims = geometry(function, input, s, dim)
    input = resized(promoted(input, True), dims, sizes)
    return apply(FftC2C, (input,), (dims, scaling(function, norm, forward), forward))


def real_nd(function: str, input: Any, s: Any, dim: Any, norm: Any) -> Any:
    have = dtypes.of(checked(function, input).dtype)
    if have.is_complex:
        raise RuntimeError(f"rfftn expects a real-valued input tensor, but got {have.scalar_type}")
    sizes, dims = geometry(function, input, s, dim)
    at_least_one(function, dims)
    input = resized(promoted(input, False), dims, sizes)
    return apply(FftR2C, (input,), (dims, scaling(function, norm, True), True))


def to_real_nd(function: str, input: Any, s: Any, dim: Any, norm: Any) -> Any:
    sizes, dims, last = spectrum_geometry(function, input, s, dim)
    input = resized(promoted(input, True), dims, sizes)
    return apply(FftC2R, (input,), (dims, scaling(function, norm, False), last))


def hermitian_nd(function: str, input: Any, s: Any, dim: Any, norm: Any) -> Any:
    sizes, dims, last = spectrum_geometry(function, input, s, dim)
    input = resized(promoted(input, True), dims, sizes)
    normalization = scaling(function, norm, True)
    if len(dims) > 1:
        input = apply(FftC2C, (input,), (dims[:-1], normalization, True))
    return apply(FftC2R, (input.conj(),), (dims[-1:], normalization, last))


def inverse_hermitian_nd(function: str, input: Any, s: Any, dim: Any, norm: Any) -> Any:
    sizes, dims = geometry(function, input, s, dim)
    at_least_one(function, dims)
    have = dtypes.of(input._array.dtype)
    if have.is_complex:
        raise RuntimeError(f"Only supports floating-point dtypes, but found: {have.scalar_type}")
    input = resized(promoted(input, False), dims, sizes)
    normalization = scaling(function, norm, False)
    half = apply(FftR2C, (input,), (dims[-1:], normalization, True))
    if len(dims) == 1:
        return half.conj()
    return apply(FftC2C, (half.conj_physical(),), (dims[:-1], normalization, False))


# ---------------------------------------------------------------------- any number of dimensions

ANY_CASES = [
    Case(Draw(2, 3)),
    Case(Draw(2, 2, 3), (3, 2)),
    Case(Draw(2, 3, 2), dim=(1, 0), norm="ortho"),
    Case(Draw(3, 2), (2, -1), (0, 1), "forward"),
    Case(Draw(4, 2, layout="T"), dim=0),
]
TWO_CASES = [
    Case(Draw(2, 3)),
    Case(Draw(2, 2, 3), (3, 2)),
    Case(Draw(2, 3, 2), dim=(1, 0), norm="ortho"),
    Case(Draw(4, 2, layout="T"), norm="forward"),
]


@api(name="fft.fftn", samples=ANY_CASES, autocast=Autocast(cpu=SINGLE))
def fftn(input: Any, s: Any = None, dim: Any = None, norm: Any = None, *, out: Any = None) -> Any:
    """fft.fftn(input, s=None, dim=None, norm=None) -> Tensor: `fft` along several dimensions.

    >>> torch.fft.fftn(tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[10.+0.j, -2.+0.j],
            [-4.+0.j,  0.+0.j]])
    """
    return stored("fftn", out, False, complex_nd, input, s, dim, norm, True)


@api(name="fft.ifftn", samples=ANY_CASES, autocast=Autocast(cpu=SINGLE))
def ifftn(input: Any, s: Any = None, dim: Any = None, norm: Any = None, *, out: Any = None) -> Any:
    """fft.ifftn(input, s=None, dim=None, norm=None) -> Tensor: the inverse of `fftn`.

    >>> torch.fft.ifftn(tensor([[4.0, 0.0], [0.0, 0.0]]))
    tensor([[1.+0.j, 1.+0.j],
            [1.+0.j, 1.+0.j]])
    """
    return stored("ifftn", out, False, complex_nd, input, s, dim, norm, False)


@api(name="fft.rfftn", samples=ANY_CASES, autocast=Autocast(cpu=SINGLE))
def rfftn(input: Any, s: Any = None, dim: Any = None, norm: Any = None, *, out: Any = None) -> Any:
    """fft.rfftn(input, s=None, dim=None, norm=None) -> Tensor: `fftn`, half of the last dimension.

    >>> torch.fft.rfftn(tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])).shape
    torch.Size([2, 2])
    """
    return stored("rfftn", out, False, real_nd, input, s, dim, norm)


@api(name="fft.irfftn", samples=ANY_CASES, autocast=Autocast(cpu=SINGLE))
def irfftn(input: Any, s: Any = None, dim: Any = None, norm: Any = None, *, out: Any = None) -> Any:
    """fft.irfftn(input, s=None, dim=None, norm=None) -> Tensor: the inverse of `rfftn`.

    >>> x = tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> torch.fft.irfftn(torch.fft.rfftn(x), (2, 2))
    tensor([[1., 2.],
            [3., 4.]])
    """
    return stored("irfftn", out, True, to_real_nd, input, s, dim, norm)


@api(name="fft.hfftn", samples=ANY_CASES)
def hfftn(input: Any, s: Any = None, dim: Any = None, norm: Any = None, *, out: Any = None) -> Any:
    """fft.hfftn(input, s=None, dim=None, norm=None) -> Tensor: `fftn` of a Hermitian signal.

    >>> torch.fft.hfftn(tensor([[1 + 0j, 2 + 0j], [3 + 0j, 4 + 0j]]))
    tensor([[10., -2.],
            [-4.,  0.]])
    """
    return stored("hfftn", out, True, hermitian_nd, input, s, dim, norm)


@api(name="fft.ihfftn", samples=ANY_CASES)
def ihfftn(input: Any, s: Any = None, dim: Any = None, norm: Any = None, *, out: Any = None) -> Any:
    """fft.ihfftn(input, s=None, dim=None, norm=None) -> Tensor: the inverse of `hfftn`.

    >>> torch.fft.ihfftn(tensor([[10.0, -2.0], [-4.0, 0.0]])).real
    tensor([[1., 2.],
            [3., 4.]])
    """
    return stored("ihfftn", out, False, inverse_hermitian_nd, input, s, dim, norm)


# ---------------------------------------------------------------------- two dimensions


@api(name="fft.fft2", samples=TWO_CASES, autocast=Autocast(cpu=SINGLE))
def fft2(
    input: Any, s: Any = None, dim: Any = LAST_TWO, norm: Any = None, *, out: Any = None
) -> Any:
    """fft.fft2(input, s=None, dim=(-2, -1), norm=None) -> Tensor: `fft` along two dimensions.

    >>> torch.fft.fft2(tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[10.+0.j, -2.+0.j],
            [-4.+0.j,  0.+0.j]])
    """
    return stored("fft2", out, False, complex_nd, input, s, dim, norm, True)


@api(name="fft.ifft2", samples=TWO_CASES, autocast=Autocast(cpu=SINGLE))
def ifft2(
    input: Any, s: Any = None, dim: Any = LAST_TWO, norm: Any = None, *, out: Any = None
) -> Any:
    """fft.ifft2(input, s=None, dim=(-2, -1), norm=None) -> Tensor: the inverse of `fft2`.

    >>> torch.fft.ifft2(tensor([[4.0, 0.0], [0.0, 0.0]]))
    tensor([[1.+0.j, 1.+0.j],
            [1.+0.j, 1.+0.j]])
    """
    return stored("ifft2", out, False, complex_nd, input, s, dim, norm, False)


@api(name="fft.rfft2", samples=TWO_CASES, autocast=Autocast(cpu=SINGLE))
def rfft2(
    input: Any, s: Any = None, dim: Any = LAST_TWO, norm: Any = None, *, out: Any = None
) -> Any:
    """fft.rfft2(input, s=None, dim=(-2, -1), norm=None) -> Tensor: `fft2`, half of the last one.

    >>> torch.fft.rfft2(tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])).shape
    torch.Size([2, 2])
    """
    return stored("rfft2", out, False, real_nd, input, s, dim, norm)


@api(name="fft.irfft2", samples=TWO_CASES, autocast=Autocast(cpu=SINGLE))
def irfft2(
    input: Any, s: Any = None, dim: Any = LAST_TWO, norm: Any = None, *, out: Any = None
) -> Any:
    """fft.irfft2(input, s=None, dim=(-2, -1), norm=None) -> Tensor: the inverse of `rfft2`.

    >>> x = tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> torch.fft.irfft2(torch.fft.rfft2(x), (2, 2))
    tensor([[1., 2.],
            [3., 4.]])
    """
    return stored("irfft2", out, True, to_real_nd, input, s, dim, norm)


@api(name="fft.hfft2", samples=TWO_CASES)
def hfft2(
    input: Any, s: Any = None, dim: Any = LAST_TWO, norm: Any = None, *, out: Any = None
) -> Any:
    """fft.hfft2(input, s=None, dim=(-2, -1), norm=None) -> Tensor: `fft2` of a Hermitian signal.

    >>> torch.fft.hfft2(tensor([[1 + 0j, 2 + 0j], [3 + 0j, 4 + 0j]]))
    tensor([[10., -2.],
            [-4.,  0.]])
    """
    return stored("hfft2", out, True, hermitian_nd, input, s, dim, norm)


@api(name="fft.ihfft2", samples=TWO_CASES)
def ihfft2(
    input: Any, s: Any = None, dim: Any = LAST_TWO, norm: Any = None, *, out: Any = None
) -> Any:
    """fft.ihfft2(input, s=None, dim=(-2, -1), norm=None) -> Tensor: the inverse of `hfft2`.

    >>> torch.fft.ihfft2(tensor([[10.0, -2.0], [-4.0, 0.0]])).real
    tensor([[1., 2.],
            [3., 4.]])
    """
    return stored("ihfft2", out, False, inverse_hermitian_nd, input, s, dim, norm)
