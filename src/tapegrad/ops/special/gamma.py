"""The gamma function: its logarithm, the derivatives of that, incomplete forms, Hurwitz's zeta."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...autograd.inplace import write
from ...core.arguments import cast_value
from ...core.base import TensorBase
from ...core.host_arrays import host
from ...core.rounding import half_as_single
from ...errors import must_be_tensor
from ...expressions.symbols import Untraceable
from ...kernels.cpu.gamma_functions import computed
from ..block import PROMOTE, Case, Elementwise, api, apply, op
from ..block.checks import (
    BOOL,
    COMPLEX,
    INTEGRAL,
    as_int,
    check_room,
    common,
    invalid_call,
    is_number,
    not_for,
    not_implemented,
    only_tensors,
    only_wide,
)
from ..block.samples import Draw, Index, unary_cases
from .kernels import pointwise
from .kernels_gamma import digamma, log_gamma, trigamma, zeta
from .kernels_incomplete import lower_fraction, upper_fraction_of

# ruff: noqa: N805


@op
class Lgamma(Elementwise):
    """lgamma(input) -> Tensor: the logarithm of the size of the gamma function.

    >>> lgamma(tensor([1.0, 4.0]))
    tensor([0.0000, 1.7918])
    """

    aliases = ("special.gammaln",)
    guard = not_for("lgamma_vml_cpu", COMPLEX)
    foreach = "unary"
    samples = unary_cases(low=0.3, high=4.0)

    def fwd(xp, input):
        return pointwise(xp, log_gamma, input)

    def d_input(F, grad, input):
        return grad * F.digamma(input)


@op
class Digamma(Elementwise):
    """digamma(input) -> Tensor: the derivative of `lgamma`.

    >>> digamma(tensor([1.0, 0.5]))
    tensor([-0.5772, -1.9635])
    """

    aliases = ("special.digamma", "special.psi")
    guard = not_for("digamma", COMPLEX)
    samples = [*unary_cases(low=0.3, high=4.0), Case(Draw(4, low=-0.8, high=-0.2))]

    def fwd(xp, input):
        return pointwise(xp, digamma, input)

    def d_input(F, grad, input):
        return grad * F.polygamma(input, 1)


def derivative_of_digamma(xp: Any, x: Any) -> Any:
    """ψ', with the sine in the precision of `x`: that decides what stands near the poles."""
    if hasattr(xp, "pointwise") and x.dtype != np.float64:
        raise Untraceable("a program computes the sine in double precision, too")
    x = half_as_single(x)
    left = x < 0.5
    right = pointwise(xp, trigamma, xp.where(left, 1 - x, x))
    sine = xp.sin(x.dtype.type(math.pi) * x)
    return xp.where(left, math.pi**2 / (sine * sine) - right, right)


@op
class Polygamma(Elementwise):
    """polygamma(n, input) -> Tensor: the derivatives of `digamma`.

    >>> polygamma(1, tensor([1.0, 0.5]))
    tensor([1.6449, 4.9348])
    """

    aten = "polygamma"
    public = False
    nearest = "a fixed order n: only the second argument has a derivative"

    def fwd(xp, input, n):
        if n == 0:
            return pointwise(xp, digamma, input)
        if n == 1:
            return cast_value(derivative_of_digamma(xp, input), input.dtype)
        values = pointwise(xp, zeta, xp.asarray(n + 1.0, input.dtype), half_as_single(input))
        scale = xp.asarray(math.factorial(n) if n <= 170 else math.inf).astype(values.dtype)
        return cast_value(values * (scale if n % 2 else -scale), input.dtype)

    def d_input(F, grad, input, n):
        return grad * F.polygamma(input, n + 1)


def polygamma_of(input: Any, n: Any, run: Any = apply) -> Any:
    """polygamma(n) -> Tensor: the n-th derivative of `digamma`."""
    if isinstance(n, bool) or not isinstance(n, int):
        name = "polygamma" if run is apply else "polygamma_"
        kind = type(n).__name__
        raise TypeError(f"{name}(): argument 'n' (position 1) must be int, not {kind}")
    if not isinstance(input, TensorBase):
        raise must_be_tensor("polygamma", "input", 2, input)
    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    if input._array.dtype.kind == "c":
        kernel = "digamma" if n == 0 else "trigamma" if n == 1 else "polygamma"
        raise not_implemented(kernel, input.dtype)
    return run(Polygamma, (input,), (n,))


@api(
    method=False,
    aliases=("special.polygamma",),
    samples=[
        *[Case(n, Draw(3, 4, low=0.4, high=4.0)) for n in range(4)],
        Case(1, Draw(low=0.5)),
        Case(2, Draw(0, 2)),
        Case(1, Draw(3, 2, low=-0.8, high=-0.2, layout="T")),
        Case(2, Draw(3, low=-0.8, high=-0.2)),
    ],
)
def polygamma(n: Any, input: Any) -> Any:
    """polygamma(n, input) -> Tensor: the derivatives of `digamma`, `n` times.

    >>> polygamma(1, tensor([1.0, 0.5]))
    tensor([1.6449, 4.9348])
    """
    return polygamma_of(input, n)


@api(function=False)
def polygamma_(self: Any, n: Any) -> Any:
    """polygamma_(n) -> Tensor: `polygamma`, written over the tensor.

    >>> tensor([1.0]).polygamma_(1)
    tensor([1.6449])
    """
    return polygamma_of(self, n, write)


METHODS = {"polygamma": polygamma_of}


def check_multivariate(input: Any, p: int, run: Any) -> None:
    if input._array.dtype.kind == "b":
        raise RuntimeError("The input tensor may not be a boolean tensor.")
    if p < 1:
        raise RuntimeError("p has to be greater than or equal to 1")
    if p >= 1 << 63:
        raise ValueError("Overflow when unpacking long long")
    check_room(p * max(input._array.size, 1) * 8)  # what PyTorch puts into one array
    if run and input._array.dtype.kind in "iu":
        raise RuntimeError(
            f"mvlgamma: result type {input.dtype.scalar_type} can't be cast to the desired output "
            "type Float"
        )


@op
class Mvlgamma(Elementwise):
    """mvlgamma(input, p) -> Tensor: the logarithm of the multivariate gamma function.

    >>> mvlgamma(tensor([3.0]), 2)
    tensor([1.5502])
    """

    aliases = ("special.multigammaln",)
    guard = not_for("arange_cpu", COMPLEX)
    samples = [
        Case(Draw(3, 4, low=1.2, high=4.0), 2),
        Case(Draw(low=1.2, high=4.0), 3),
        Case(Draw(0, 2), 1),
        Case(Draw(3, 2, low=2.2, high=4.0, layout="T"), 4),
    ]

    def fwd(xp, input, p):
        found = computed("log_gamma_of_many", input, p) if xp is host else None
        if found is not None:
            return found
        x = xp.ascontiguousarray(input.astype(xp.float64)).reshape(input.shape)
        total = xp.full_like(x, p * (p - 1) / 4 * math.log(math.pi))
        for j in range(p if x.size else 0):
            total += pointwise(xp, log_gamma, x - j / 2)
        return total.astype(input.dtype)

    def call(input, p, *, run=None):
        p = as_int("mvlgamma_" if run else "mvlgamma", "p", 1 if run else 2, p)
        if isinstance(input, TensorBase):
            check_multivariate(input, p, run)
        return (run or apply)(Mvlgamma, (input,), (p,))

    def d_input(F, grad, input, p):
        total = F.digamma(input)
        for j in range(1, p):
            total = total + F.digamma(input - j / 2)
        return grad * total


# ---------------------------------------------------------------------- incomplete gamma functions


def no_slope(name: str) -> NotImplementedError:
    return NotImplementedError(f"the derivative for '{name}' is not implemented.")


def log_density(F: Any, input: Any, other: Any) -> Any:
    """Of the gamma distribution with shape `input`."""
    return (input - 1) * F.log(other) - other - F.lgamma(input)


def incomplete(record: Any, input: Any, other: Any, run: Any) -> Any:
    only_tensors(record.name, run, input=input, other=other)
    if run is None and input._array.dtype.kind in "biu" and other._array.dtype.kind in "fV":
        # The gradient has log Γ of it, which must not be in the default precision.
        input = input.to(other.dtype)
    return (run or apply)(record, (input, other))


# The shapes are integers, because there is no derivative for them, and those whose log Γ PyTorch
# does not round: it has it in single precision.
SHAPES = Index([[1], [2], [1]])
INCOMPLETE = [
    Case(SHAPES, Draw(3, 4, low=0.3, high=6.0)),
    Case(SHAPES, Draw(low=0.3, high=6.0)),
    Case(Index(2), Draw(3, 2, low=0.3, high=6.0, layout="T")),
    Case(Index([1, 2]), Draw(0, 2)),
]


class Incomplete(Elementwise):
    """PyTorch takes no number here, and no integers alone."""

    tensors = ("input", "other")
    dtype = PROMOTE
    nearest = "torch.distributions.Gamma samples with rsample(), or a fixed first argument"
    samples = INCOMPLETE


@op
class Igamma(Incomplete):
    """igamma(input, other) -> Tensor: the lower incomplete gamma function, as a fraction.

    >>> igamma(tensor([1.0, 2.0]), tensor([1.0, 1.0]))
    tensor([0.6321, 0.2642])
    """

    aliases = ("special.gammainc",)
    guard = not_for("igamma_cpu", BOOL, INTEGRAL, COMPLEX)

    def fwd(xp, input, other):
        return pointwise(xp, lower_fraction, input, other)

    def call(input, other, *, run=None):
        return incomplete(Igamma, input, other, run)

    def d_input(F, grad):
        raise no_slope("igamma: input")

    def d_other(F, grad, input, other):
        return grad * F.exp(log_density(F, input, other))


@op
class Igammac(Incomplete):
    """igammac(input, other) -> Tensor: the upper incomplete gamma function, as a fraction.

    >>> igammac(tensor([1.0, 2.0]), tensor([1.0, 1.0]))
    tensor([0.3679, 0.7358])
    """

    aliases = ("special.gammaincc",)
    guard = not_for("igammac_cpu", BOOL, INTEGRAL, COMPLEX)

    def fwd(xp, input, other):
        return pointwise(xp, upper_fraction_of, input, other)

    def call(input, other, *, run=None):
        return incomplete(Igammac, input, other, run)

    def d_input(F, grad):
        raise no_slope("igammac: input")

    def d_other(F, grad, input, other):
        return -grad * F.exp(log_density(F, input, other))


# ---------------------------------------------------------------------- Hurwitz's zeta function


class Hurwitz(Elementwise):
    public = False
    inplace = False
    guard = only_wide("zeta_cpu")


@op
class SpecialZeta(Hurwitz):
    """special_zeta(input, other) -> Tensor: `special.zeta` of two tensors."""

    aten = "special_zeta"
    tensors = ("input", "other")
    nearest = "a sum of powers: (k + torch.arange(n)) ** -x"

    def fwd(xp, input, other):
        return pointwise(xp, zeta, input, other)

    def d_input(F, grad):
        raise no_slope("zeta")

    def d_other(F, grad, input, other):
        return grad * -input * F.special_zeta(input + 1, other)


@op
class SpecialZetaFrom(Hurwitz):
    """special_zeta_from(other, number) -> Tensor: `special.zeta` with a number for the exponent."""

    node = "SpecialZetaBackward1"
    aten = "special_zeta.self_scalar"
    tensors = ("other",)

    def fwd(xp, other, number):
        return pointwise(xp, zeta, number, other)

    def d_other(F, grad, other, number):
        return grad * -number * F.special_zeta_from(other, number + 1)


@op
class SpecialZetaAt(Hurwitz):
    """special_zeta_at(input, number) -> Tensor: `special.zeta` with a number for the start."""

    node = "SpecialZetaBackward2"
    aten = "special_zeta.other_scalar"

    def fwd(xp, input, number):
        return pointwise(xp, zeta, input, number)

    def d_input(F, grad):
        raise no_slope("zeta")


@api(
    name="special.zeta",
    samples=[
        Case(Index([[2], [3], [5]]), Draw(3, 4, low=0.4, high=5.0)),
        Case(3, Draw(2, 3, low=0.4, high=5.0)),
        Case(2.5, Draw(low=0.4)),
        Case(Index(2), Draw(3, 2, low=0.4, layout="T")),
        Case(Index([2, 4]), Draw(2, low=-0.8, high=-0.2)),
        Case(Index([2, 4]), 2.5),
        Case(2, Draw(0, 2)),
    ],
)
def special_zeta(input: Any, other: Any) -> Any:
    """special.zeta(input, other) -> Tensor: Hurwitz's zeta function, the sum of (other + k)^-input.

    >>> torch.special.zeta(tensor([2.0, 4.0]), 1)
    tensor([1.6449, 1.0823])
    """
    if isinstance(input, TensorBase):
        if isinstance(other, TensorBase):
            return apply(SpecialZeta, (input, other))
        if is_number(other):
            refuse_complex("zeta_cpu", input, other)
            return apply(SpecialZetaAt, (input,), (other,))
    elif isinstance(other, TensorBase) and is_number(input):
        refuse_complex("zeta_cpu", other, input)
        return apply(SpecialZetaFrom, (other,), (input,))
    raise invalid_call("special_zeta", input, other)


def refuse_complex(kernel: str, tensor: Any, number: Any) -> None:
    if isinstance(number, complex):
        raise not_implemented(kernel, common(tensor._array, number))
