"""Complex tensors from their parts."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import dtypes
from ...core.base import TensorBase
from ...core.strides import empty_like
from ...errors import must_be_tensor
from ..block import SINGLE, Autocast, Block, Case, apply, op
from ..block.checks import not_implemented, without_complex32
from ..block.samples import Draw
from ..products.matmul import broadcast_batch

# Blocks: their first argument is not a `self`.
# ruff: noqa: N805

OUT_SCALAR_TYPE = (
    "Expected object of scalar type {want} but got scalar type {got} for argument 'out'"
)

PAIRS = (
    Case(Draw(3), Draw(3)),
    Case(Draw(2, 1), Draw(3)),
    Case(Draw(), Draw(2)),
    Case(Draw(0), Draw(0)),
)


def check_parts(function: str, names: tuple[str, str], a: Any, b: Any) -> None:
    """Both parts must be float tensors of one dtype."""
    for position, (name, value) in enumerate(zip(names, (a, b), strict=True), 1):
        if not isinstance(value, TensorBase):
            raise must_be_tensor(function, name, position, value)
    first, second = dtypes.of(a._array.dtype), dtypes.of(b._array.dtype)
    allowed = (dtypes.float16, dtypes.float32, dtypes.float64)
    if first not in allowed or second not in allowed:
        raise RuntimeError(
            "Expected both inputs to be Half, Float or Double tensors but got "
            f"{first.scalar_type} and {second.scalar_type}"
        )
    if first is not second:
        raise RuntimeError(
            f"Expected object of scalar type {first.scalar_type} but got scalar type "
            f"{second.scalar_type} for second argument"
        )
    if first is dtypes.float16:
        raise without_complex32() if function == "complex" else not_implemented("polar_cpu", first)


def complex_dtype(xp: Any, array: Any) -> Any:
    return xp.complex128 if array.dtype == xp.float64 else xp.complex64


def room_for(xp: Any, one: Any, other: Any) -> Any:
    """Memory for complex numbers made of two arrays, laid out as the first of full shape."""
    dtype = np.dtype(complex_dtype(xp, one))
    if one.shape == other.shape:
        return empty_like(xp, one, dtype)
    shape = broadcast_batch(one.shape, other.shape)
    whole = one if one.shape == shape else other
    return empty_like(xp, whole, dtype) if whole.shape == shape else xp.empty(shape, dtype)


@op
class Complex(Block):
    """complex(real, imag) -> Tensor: complex numbers from their real and imaginary parts.

    >>> complex(tensor([1.0]), tensor([2.0]))
    tensor([1.+2.j])
    """

    tensors = ("real", "imag")
    broadcasts = ordered = True
    wirtinger = True
    method = False
    out_dtype = OUT_SCALAR_TYPE
    samples = PAIRS
    aligns = True

    def fwd(xp, real, imag):
        out = room_for(xp, real, imag)
        out.real = real
        out.imag = imag
        return out

    def d_real(F, grad):
        return F.real_part(grad)

    def d_imag(F, grad):
        return F.real_part(grad * -1j)

    def jvp(F, real, t_real, imag, t_imag):
        return F.complex(
            F.zeros_like(real) if t_real is None else t_real,
            F.zeros_like(imag) if t_imag is None else t_imag,
        )

    def call(real, imag):
        check_parts("complex", ("real", "imag"), real, imag)
        return apply(Complex, (real, imag))


@op
class Polar(Block):
    """polar(abs, angle) -> Tensor: complex numbers from their lengths and angles.

    >>> polar(tensor([2.0]), tensor([0.0]))
    tensor([2.+0.j])
    """

    tensors = ("abs", "angle")
    broadcasts = ordered = True
    wirtinger = True
    method = False
    autocast = Autocast(cpu=SINGLE)
    out_dtype = OUT_SCALAR_TYPE
    samples = (
        Case(Draw(3, low=0.1), Draw(3)),
        Case(Draw(2, 1, low=0.1), Draw(3)),
        Case(Draw(0), Draw(0)),
    )
    aligns = True

    def fwd(xp, abs, angle):
        out = room_for(xp, abs, angle)
        out.real = abs * xp.cos(angle)
        out.imag = abs * xp.sin(angle)
        return out

    def d_abs(F, grad, out):
        return F.real_part(F.conj(grad) * F.sgn(out))

    def d_angle(F, grad, out):
        return F.real_part(F.conj(grad) * (out * 1j))

    def jvp(F, abs, t_abs, angle, t_angle):
        longer = F.zeros_like(abs) if t_abs is None else t_abs
        turned = F.zeros_like(abs) if t_angle is None else abs * t_angle
        return F.complex(
            longer * F.cos(angle) - turned * F.sin(angle),
            longer * F.sin(angle) + turned * F.cos(angle),
        )

    def call(abs, angle):
        check_parts("polar", ("abs", "angle"), abs, angle)
        return apply(Polar, (abs, angle))
