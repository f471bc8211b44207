"""Bessel and Airy functions. PyTorch differentiates only I₀, I₁ and their scaled forms."""

from __future__ import annotations

from typing import Any

from ...core.op import Op
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


def without_derivative(
    title: str,
    kernel: Any,
    about: str,
    example: tuple[str, str],
    cases: Any = (),
    argument: str = "input",
) -> Op:
    """The op of a function of `special` that PyTorch does not differentiate."""
    values, result = example

    def called(x: Any) -> Any:
        return apply(made, (x,))

    class Function(Named):
        __doc__ = f"""special.{title}({argument}) -> Tensor: {about}

    >>> torch.special.{title}(tensor({values}))
    tensor({result})
    """
        name = f"special.{title}"
        node = f"Special{title.title().replace('_', '')}Backward0"
        tensors = (argument,)
        guard = only_wide(f"{title}_cpu")
        undifferentiable = "PyTorch has no derivative for it"
        samples = cases
        call = called if argument == "x" else None

        def fwd(xp, input):
            return pointwise(xp, kernel, input)

    made = op(Function)
    return made


FROM_0, FROM_1 = "[0.0, 1.0]", "[1.0, 2.0]"
FIRST, SECOND = "the Bessel function of the first kind", "the Bessel function of the second kind"
without_derivative("bessel_j0", j0, f"{FIRST}, of order 0.", (FROM_0, "[1.0000, 0.7652]"))
without_derivative("bessel_j1", j1, f"{FIRST}, of order 1.", (FROM_0, "[0.0000, 0.4401]"))
without_derivative("bessel_y0", y0, f"{SECOND}, of order 0.", (FROM_1, "[0.0883, 0.5104]"), CLOSE)
without_derivative("bessel_y1", y1, f"{SECOND}, of order 1.", (FROM_1, "[-0.7812, -0.1070]"), CLOSE)
without_derivative(
    "modified_bessel_i0",
    i0,
    "the values of `special.i0`, not differentiable.",
    (FROM_0, "[1.0000, 1.2661]"),
)
without_derivative(
    "modified_bessel_i1",
    i1,
    "the values of `special.i1`, not differentiable.",
    (FROM_0, "[0.0000, 0.5652]"),
)
without_derivative(
    "modified_bessel_k0",
    k0,
    "the modified Bessel function K of order 0.",
    (FROM_1, "[0.4210, 0.1139]"),
    RIGHT,
)
without_derivative(
    "modified_bessel_k1",
    k1,
    "the modified Bessel function K of order 1.",
    (FROM_1, "[0.6019, 0.1399]"),
    RIGHT,
)
without_derivative(
    "scaled_modified_bessel_k0",
    k0e,
    "`special.modified_bessel_k0` times exp(x).",
    (FROM_1, "[1.1445, 0.8416]"),
    RIGHT,
    "x",
)
without_derivative(
    "scaled_modified_bessel_k1",
    k1e,
    "`special.modified_bessel_k1` times exp(x).",
    (FROM_1, "[1.6362, 1.0335]"),
    RIGHT,
    "x",
)
without_derivative(
    "spherical_bessel_j0", spherical_j0, "`sin(x) / x`.", (FROM_0, "[1.0000, 0.8415]"), (), "x"
)
without_derivative(
    "airy_ai", airy_ai, "Airy's function Ai.", (FROM_0, "[0.3550, 0.1353]"), WIDE, "x"
)
