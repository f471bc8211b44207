"""Gamma and Dirichlet numbers, differentiable with respect to their parameters."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from ... import dtypes
from ...core.arguments import cast_value
from ...core.base import TensorBase
from ...core.rounding import half_as_single
from ...errors import check_broadcast, must_be_tensor
from ..block import Block, Case, Elementwise, api, apply, op
from ..block.checks import not_implemented
from ..block.samples import Draw, Index
from ..draws.generators import place_of, stream_of
from ..draws.sampling import sampled
from ..special import gamma as gamma  # the rules below use its ops
from ..special.kernels import pointwise
from .gamma_kernels import dirichlet_derivative, dirichlet_numbers, gamma_derivative, gamma_numbers

# Blocks: their first argument is not a `self`.
# ruff: noqa: N805


def floating(kernel: str, array: Any, halves: bool = False) -> Any:
    kind = dtypes.of(array.dtype)
    if not kind.is_floating_point or (kind.itemsize == 2 and not halves):
        raise not_implemented(kernel, kind)
    return array


def no_forward_mode(name: str) -> NoReturn:
    raise NotImplementedError(
        f"Trying to use forward AD with {name} that does not support it because it has not been "
        "implemented yet."
    )


@op
class StandardGamma(Block):
    """_standard_gamma(input, *, generator=None) -> Tensor: gamma numbers of rate 1."""

    name = "_standard_gamma"
    aten = "_standard_gamma"
    public = False
    unbatchable = "random numbers: how a batch draws them is decided outside the op"

    def fwd(xp, input, value):
        return value

    def d_input(F, grad, input, out):
        return grad * F._standard_gamma_grad(input, out)

    def jvp(F, input):
        no_forward_mode("_standard_gamma")


@op
class StandardGammaGrad(Elementwise):
    """_standard_gamma_grad(input, output) -> Tensor: how gamma numbers move with their shapes."""

    name = "_standard_gamma_grad"
    aten = "_standard_gamma_grad"
    public = False
    inplace = False
    tensors = ("input", "output")
    nearest = "first-order gradients only: create_graph=False"

    def fwd(xp, input, output):
        return pointwise(xp, gamma_derivative, input, output)

    def d_input(F, grad):
        raise NotImplementedError("the derivative for '_standard_gamma_grad' is not implemented.")

    def d_output(F, grad):
        raise NotImplementedError("the derivative for '_standard_gamma_grad' is not implemented.")

    def jvp(F, input):
        no_forward_mode("_standard_gamma_grad")


@op
class SampleDirichlet(Block):
    """_sample_dirichlet(input, generator=None) -> Tensor: Dirichlet numbers."""

    name = "_sample_dirichlet"
    public = False
    node = "torch::autograd::NotImplemented"
    aten = "_sample_dirichlet"
    unbatchable = "random numbers: how a batch draws them is decided outside the op"
    nearest = "torch.distributions.Dirichlet(...).rsample()"

    def fwd(xp, input, value):
        return value

    def d_input(F, grad):
        raise RuntimeError("derivative for aten::_sample_dirichlet is not implemented")

    def jvp(F, input):
        no_forward_mode("_sample_dirichlet")


@op
class DirichletGrad(Block):
    """_dirichlet_grad(x, alpha, total) -> Tensor: how Dirichlet numbers move with parameters."""

    name = "_dirichlet_grad"
    public = False
    node = "torch::autograd::NotImplemented"
    aten = "_dirichlet_grad"
    tensors = ("x", "alpha", "total")
    leading = (0, 0, 0)
    nearest = "first-order gradients only: create_graph=False"

    def fwd(xp, x, alpha, total):
        return pointwise(xp, dirichlet_derivative, x, alpha, total)

    def d_x(F, grad):
        raise RuntimeError("derivative for aten::_dirichlet_grad is not implemented")

    d_alpha = d_x
    d_total = d_x

    def jvp(F, x):
        no_forward_mode("_dirichlet_grad")


def tensors_of(function: str, **arguments: Any) -> list[Any]:
    for position, (name, value) in enumerate(arguments.items(), 1):
        if not isinstance(value, TensorBase):
            raise must_be_tensor(function, name, position, value)
    return [value._array for value in arguments.values()]


@api(
    name="_standard_gamma",
    method=False,
    # So small that PyTorch's approximate derivative has all digits, too.
    samples=[Case(Draw(3, low=0.01, high=0.02)), Case(Draw(3, 2, low=0.01, high=0.02, layout="T"))],
)
def standard_gamma(input: Any, generator: Any = None) -> Any:
    """_standard_gamma(input, generator=None) -> Tensor: gamma numbers with these shapes, rate 1.

    >>> (torch._standard_gamma(tensor([0.5, 2.0])) > 0).all()
    tensor(True)
    """
    (shapes,) = tensors_of("_standard_gamma", input=input)
    place = place_of(input)
    on_cpu = place is None
    floating("gamma_cpu" if on_cpu else "gamma_cuda", shapes, not on_cpu)
    stream = stream_of(generator, "_standard_gamma", place)

    def draw(t: Any) -> Any:
        x = t._array
        value = gammas(stream, x) if on_cpu else stream.home.standard_gamma(stream, x, gammas)
        return apply(StandardGamma, (t,), (value,))

    return sampled(draw, input)


def gammas(stream: Any, shapes: Any) -> Any:
    """Gamma numbers in the dtype of their shapes; none is smaller than its least normal number."""
    if shapes.dtype.itemsize == 2:
        return cast_value(
            np.fmax(gammas(stream, half_as_single(shapes)), least(shapes)), shapes.dtype
        )
    return np.fmax(gamma_numbers(stream, shapes).astype(shapes.dtype), least(shapes))


def least(array: Any) -> float:
    return float(dtypes.finfo(dtypes.of(array.dtype)).tiny)


@api(
    name="_standard_gamma_grad",
    method=False,
    # Where PyTorch's approximation has all digits, too.
    samples=[Case(Index([0.5, 2.0, 30.0]), Index([0.003, 0.04, 0.025]))],
)
def standard_gamma_grad(input: Any, output: Any) -> Any:
    """_standard_gamma_grad(input, output) -> Tensor: how gamma numbers move with their shapes.

    >>> torch._standard_gamma_grad(tensor([1.0]), tensor([1.0]))
    tensor([1.1736])
    """
    arrays = tensors_of("_standard_gamma_grad", input=input, output=output)
    on_cpu = place_of(input) is None
    for array in arrays:
        floating("_standard_gamma_grad_" + ("cpu" if on_cpu else "cuda"), array, not on_cpu)
    return apply(StandardGammaGrad, (input, output))


@api(
    name="_sample_dirichlet",
    method=False,
    samples=[Case(Draw(3, low=0.5, high=9.0)), Case(Draw(3, 2, low=0.1, high=1.0, layout="T"))],
)
def sample_dirichlet(input: Any, generator: Any = None) -> Any:
    """_sample_dirichlet(input, generator=None) -> Tensor: Dirichlet numbers along the last dim.

    >>> torch._sample_dirichlet(tensor([0.5, 2.0])).sum()
    tensor(1.)
    """
    (shapes,) = tensors_of("_sample_dirichlet", input=input)
    place = place_of(input)
    on_cpu = place is None
    floating("dirichlet" if on_cpu else "gamma_cuda", shapes, not on_cpu)
    stream = stream_of(generator, "_sample_dirichlet", place)

    def draw(t: Any) -> Any:
        if on_cpu:
            limits = np.finfo(shapes.dtype)
            drawn = dirichlet_numbers(stream, t._array)
            value = np.clip(drawn.astype(shapes.dtype), limits.tiny, 1 - limits.epsneg)
        else:
            value = stream.home.dirichlet(stream, t._array, gammas)
        return apply(SampleDirichlet, (t,), (value,))

    return sampled(draw, input)


@api(
    name="_dirichlet_grad",
    method=False,
    # Where PyTorch's approximation has all digits, too.
    samples=[Case(Index([0.3, 0.02, 0.01]), Index([2.0, 1.0, 0.5]), Index([5.0, 2.5, 4.0]))],
)
def dirichlet_grad(x: Any, alpha: Any, total: Any) -> Any:
    """_dirichlet_grad(x, alpha, total) -> Tensor: how Dirichlet numbers move with parameters.

    Over 1 - x, which is the sum of the others.

    >>> torch._dirichlet_grad(tensor([0.5]), tensor([1.0]), tensor([2.0]))
    tensor([0.6931])
    """
    arrays = tensors_of("_dirichlet_grad", x=x, alpha=alpha, total=total)
    floating("_dirichlet_grad_" + ("cpu" if place_of(x) is None else "cuda"), arrays[0])
    check_broadcast(arrays)
    return apply(DirichletGrad, (x, alpha, total))
