"""Bessel and Airy functions. PyTorch differentiates only I₀, I₁ and their scaled forms."""

from __future__ import annotations

from typing import Any

from ..block import Case, Elementwise, apply, op
from ..block.checks import COMPLEX, not_for, only_wide
from ..block.samples import Draw, unary_cases
from .kernels import pointwise
from .kernels_bessel import (
    airy_ai,
    i0,
    i0e,
    i1,
    i1e,
    j0,
    j1,
    k0,
    k0e,
    k1,
    k1e,
    spherical_j0,
    y0,
    y1,
)

# ruff: noqa: N805

# The distance from one to the next number, by the size of the dtype; bfloat16 is not "f".
EPSILON = {8: 2.0**-52, 4: 2.0**-23, 2: 2.0**-10}


def epsilon(x: Any) -> float:
    dtype = getattr(x.dtype, "np", x.dtype)
    return EPSILON[dtype.itemsize] if dtype.kind == "f" else 2.0**-7


WIDE = [*unary_cases(), Case(Draw(6, low=5.0, high=30.0))]


@op
class I0(Elementwise):
    """i0(input) -> Tensor: the modified Bessel function of the first kind, of order 0.

    >>> i0(tensor([0.0, 1.0]))
    tensor([1.0000, 1.2661])
    """

    aliases = ("special.i0",)
    guard = not_for("i0_vml_cpu", COMPLEX)
    inplace_functions = ("i0_",)
    samples = unary_cases()

    def fwd(xp, input):
        return pointwise(xp, i0, input)

    def d_input(F, grad, input):
        return grad * F.special_i1(input)


class Named(Elementwise):
    """Published in `special` only."""

    inplace = False


@op
class SpecialI0E(Named):
    """special.i0e(input) -> Tensor: `i0` times exp(-|input|).

    >>> torch.special.i0e(tensor([0.0, 1.0]))
    tensor([1.0000, 0.4658])
    """

    name = "special.i0e"
    guard = not_for("i0e_cpu", COMPLEX)
    samples = WIDE

    def fwd(xp, input):
        return pointwise(xp, i0e, input)

    def d_input(F, grad, input, out):
        return grad * (F.special_i1e(input) - F.sgn(input) * out)


@op
class SpecialI1(Named):
    """special.i1(input) -> Tensor: the modified Bessel function of the first kind, of order 1.

    >>> torch.special.i1(tensor([0.0, 1.0]))
    tensor([0.0000, 0.5652])
    """

    name = "special.i1"
    guard = not_for("i1_cpu", COMPLEX)

    def fwd(xp, input):
        return pointwise(xp, i1, input)

    def d_input(F, grad, input, out):
        apart = F.abs(input) > epsilon(input)
        safe = F.where(apart, input, epsilon(input))
        return grad * F.where(apart, F.i0(safe) - out * F.reciprocal(safe), 0.5)


@op
class SpecialI1E(Named):
    """special.i1e(input) -> Tensor: `special.i1` times exp(-|input|).

    >>> torch.special.i1e(tensor([0.0, 1.0]))
    tensor([0.0000, 0.2079])
    """

    name = "special.i1e"
    guard = not_for("i1e_cpu", COMPLEX)
    samples = WIDE

    def fwd(xp, input):
        return pointwise(xp, i1e, input)

    def d_input(F, grad, input, out):
        apart = F.abs(input) > epsilon(input)
        safe = F.where(apart, input, epsilon(input))
        slope = F.special_i0e(safe) - out * (F.sgn(safe) + F.reciprocal(safe))
        return grad * F.where(apart, slope, 0.5)


# ---------------------------------------------------------------------- without derivatives

RIGHT = unary_cases(low=0.2, high=9.0)
# PyTorch's own J and Y are right to nine digits only up to here.
CLOSE = unary_cases(low=0.2)


@op
class SpecialBesselJ0(Named):
    """special.bessel_j0(input) -> Tensor: the Bessel function of the first kind, of order 0.

    >>> torch.special.bessel_j0(tensor([0.0, 1.0]))
    tensor([1.0000, 0.7652])
    """

    name = "special.bessel_j0"
    guard = only_wide("bessel_j0_cpu")
    undifferentiable = "PyTorch has no derivative for it"

    def fwd(xp, input):
        return pointwise(xp, j0, input)


@op
class SpecialBesselJ1(Named):
    """special.bessel_j1(input) -> Tensor: the Bessel function of the first kind, of order 1.

    >>> torch.special.bessel_j1(tensor([0.0, 1.0]))
    tensor([0.0000, 0.4401])
    """

    name = "special.bessel_j1"
    guard = only_wide("bessel_j1_cpu")
    undifferentiable = "PyTorch has no derivative for it"

    def fwd(xp, input):
        return pointwise(xp, j1, input)


@op
class SpecialBesselY0(Named):
    """special.bessel_y0(input) -> Tensor: the Bessel function of the second kind, of order 0.

    >>> torch.special.bessel_y0(tensor([1.0, 2.0]))
    tensor([0.0883, 0.5104])
    """

    name = "special.bessel_y0"
    guard = only_wide("bessel_y0_cpu")
    undifferentiable = "PyTorch has no derivative for it"
    samples = CLOSE

    def fwd(xp, input):
        return pointwise(xp, y0, input)


@op
class SpecialBesselY1(Named):
    """special.bessel_y1(input) -> Tensor: the Bessel function of the second kind, of order 1.

    >>> torch.special.bessel_y1(tensor([1.0, 2.0]))
    tensor([-0.7812, -0.1070])
    """

    name = "special.bessel_y1"
    guard = only_wide("bessel_y1_cpu")
    undifferentiable = "PyTorch has no derivative for it"
    samples = CLOSE

    def fwd(xp, input):
        return pointwise(xp, y1, input)


@op
class SpecialModifiedBesselI0(Named):
    """special.modified_bessel_i0(input) -> Tensor: the same as `special.i0`, not differentiable.

    >>> torch.special.modified_bessel_i0(tensor([0.0, 1.0]))
    tensor([1.0000, 1.2661])
    """

    name = "special.modified_bessel_i0"
    guard = only_wide("modified_bessel_i0_cpu")
    undifferentiable = "PyTorch has no derivative for it"

    def fwd(xp, input):
        return pointwise(xp, i0, input)


@op
class SpecialModifiedBesselI1(Named):
    """special.modified_bessel_i1(input) -> Tensor: the same as `special.i1`, not differentiable.

    >>> torch.special.modified_bessel_i1(tensor([0.0, 1.0]))
    tensor([0.0000, 0.5652])
    """

    name = "special.modified_bessel_i1"
    guard = only_wide("modified_bessel_i1_cpu")
    undifferentiable = "PyTorch has no derivative for it"

    def fwd(xp, input):
        return pointwise(xp, i1, input)


@op
class SpecialModifiedBesselK0(Named):
    """special.modified_bessel_k0(input) -> Tensor: the modified Bessel function K of order 0.

    >>> torch.special.modified_bessel_k0(tensor([1.0, 2.0]))
    tensor([0.4210, 0.1139])
    """

    name = "special.modified_bessel_k0"
    guard = only_wide("modified_bessel_k0_cpu")
    undifferentiable = "PyTorch has no derivative for it"
    samples = RIGHT

    def fwd(xp, input):
        return pointwise(xp, k0, input)


@op
class SpecialModifiedBesselK1(Named):
    """special.modified_bessel_k1(input) -> Tensor: the modified Bessel function K of order 1.

    >>> torch.special.modified_bessel_k1(tensor([1.0, 2.0]))
    tensor([0.6019, 0.1399])
    """

    name = "special.modified_bessel_k1"
    guard = only_wide("modified_bessel_k1_cpu")
    undifferentiable = "PyTorch has no derivative for it"
    samples = RIGHT

    def fwd(xp, input):
        return pointwise(xp, k1, input)


@op
class SpecialScaledModifiedBesselK0(Named):
    """special.scaled_modified_bessel_k0(x) -> Tensor: `special.modified_bessel_k0` times exp(x).

    >>> torch.special.scaled_modified_bessel_k0(tensor([1.0, 2.0]))
    tensor([1.1445, 0.8416])
    """

    name = "special.scaled_modified_bessel_k0"
    tensors = ("x",)
    guard = only_wide("scaled_modified_bessel_k0_cpu")
    undifferentiable = "PyTorch has no derivative for it"
    samples = RIGHT

    def fwd(xp, x):
        return pointwise(xp, k0e, x)

    def call(x):
        return apply(SpecialScaledModifiedBesselK0, (x,))


@op
class SpecialScaledModifiedBesselK1(Named):
    """special.scaled_modified_bessel_k1(x) -> Tensor: `special.modified_bessel_k1` times exp(x).

    >>> torch.special.scaled_modified_bessel_k1(tensor([1.0, 2.0]))
    tensor([1.6362, 1.0335])
    """

    name = "special.scaled_modified_bessel_k1"
    tensors = ("x",)
    guard = only_wide("scaled_modified_bessel_k1_cpu")
    undifferentiable = "PyTorch has no derivative for it"
    samples = RIGHT

    def fwd(xp, x):
        return pointwise(xp, k1e, x)

    def call(x):
        return apply(SpecialScaledModifiedBesselK1, (x,))


@op
class SpecialSphericalBesselJ0(Named):
    """special.spherical_bessel_j0(x) -> Tensor: `sin(x) / x`.

    >>> torch.special.spherical_bessel_j0(tensor([0.0, 1.0]))
    tensor([1.0000, 0.8415])
    """

    name = "special.spherical_bessel_j0"
    tensors = ("x",)
    guard = only_wide("spherical_bessel_j0_cpu")
    undifferentiable = "PyTorch has no derivative for it"

    def fwd(xp, x):
        return pointwise(xp, spherical_j0, x)

    def call(x):
        return apply(SpecialSphericalBesselJ0, (x,))


@op
class SpecialAiryAi(Named):
    """special.airy_ai(x) -> Tensor: Airy's function Ai.

    >>> torch.special.airy_ai(tensor([0.0, 1.0]))
    tensor([0.3550, 0.1353])
    """

    name = "special.airy_ai"
    tensors = ("x",)
    guard = only_wide("airy_ai_cpu")
    undifferentiable = "PyTorch has no derivative for it"
    samples = WIDE

    def fwd(xp, x):
        return pointwise(xp, airy_ai, x)

    def call(x):
        return apply(SpecialAiryAi, (x,))
