"""Jacobians of a function, by central differences, by backward and by forward mode.

A Jacobian is a matrix with a row per element of the input and a column per element of the output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import tapegrad as tg

from ..core.base import TensorBase, wrap
from ..core.wrappers import Nowhere
from . import forward_ad
from .api import grad


def as_tuple(value: Any) -> tuple[Any, ...]:
    if isinstance(value, tuple):
        return value
    return tuple(value) if isinstance(value, list) else (value,)


def is_varied(value: Any) -> bool:
    """Whether gradcheck differentiates with respect to this argument."""
    return is_inexact(value) and value.requires_grad


def is_inexact(value: Any) -> bool:
    return isinstance(value, TensorBase) and value._array.dtype.kind in "fcV"


# ---------------------------------------------------------------------- numerical


def array_of(t: Any) -> Any:
    """The array of a dense tensor; a wrapper has none and is read element by element."""
    if not isinstance(t._array, Nowhere):
        return t._array
    bare = t.detach()
    values = np.empty(t._array.shape, t._array.dtype)
    for place in np.ndindex(values.shape):
        values[place] = bare[place].item()
    return values


def readable(t: Any) -> Any:
    """A tensor with the values of `t` in an array; `t` itself if it has one."""
    return wrap(array_of(t)) if isinstance(t._array, Nowhere) else t


class Elements:
    """The elements of a wrapper, which are read and written by ops, as an array is."""

    def __init__(self, t: Any) -> None:
        self.tensor = t
        self.shape = t._array.shape

    def __getitem__(self, place: Any) -> Any:
        return array_of(self.tensor.detach()[place])

    def __setitem__(self, place: Any, value: Any) -> None:
        self.tensor.detach()[place] = tg.as_tensor(value, dtype=self.tensor.dtype)


def moved(function: Callable[[], Any], array: Any, place: Any, delta: Any) -> tuple[Any, ...]:
    """Copies of the outputs of `function` while `delta` is added to `array[place]`."""
    before = np.copy(array[place])
    array[place] = before + delta
    try:
        # Copies: an output may look at the memory of the input.
        return tuple([readable(o.detach().clone()) for o in as_tuple(function())])
    finally:
        array[place] = before


def central_difference(
    function: Callable[[], Any], array: Any, place: Any, delta: Any, eps: float
) -> list[Any]:
    """The slopes of all outputs as `array[place]` moves by `delta` either way."""
    low = moved(function, array, place, -delta)
    high = moved(function, array, place, delta)
    name = place if isinstance(place, tuple) else None
    for a, b in zip(low, high, strict=True):
        check_same_kind(a, b, eps, name)
    return [(b - a) / (2 * eps) for a, b in zip(low, high, strict=True)]


def check_same_kind(a: Any, b: Any, eps: float, place: Any) -> None:
    on = "" if place is None else f"on index {place} "
    for what, x, y in (("shape", a.shape, b.shape), ("dtype", a.dtype, b.dtype)):
        if x != y:
            raise AssertionError(
                f"Expected `func` to return outputs with the same {what} when inputs are perturbed "
                f"{on}by {eps}, but got: {what}s {x} and {y}."
            )


def values_of(t: Any) -> Any:
    """The array of the elements of `t` that can move: of a sparse tensor those that are stored."""
    if t.layout is tg.strided:
        return Elements(t) if isinstance(t._array, Nowhere) else t._array
    return (t._values() if t.layout is tg.sparse_coo else t.values())._array


def rows_of(t: Any) -> Any:
    """For each of `values_of(t)` its number among all elements."""
    if t.layout is tg.strided:
        return range(t.numel())
    numbers = tg.arange(t.numel()).reshape(t.shape)
    if t.layout is tg.sparse_coo:
        return numbers[tuple(t._indices())].reshape(-1).tolist()
    kept = numbers.sparse_mask(t.detach().to_sparse_coo())
    return kept.to_sparse(layout=t.layout).values().tolist()


def in_full(g: Any) -> Any:
    """The array of a gradient, of a sparse one with its zeros."""
    return array_of(g if g.layout is tg.strided else g.detach().to_dense())


def slopes(
    function: Callable[[], Any], outputs: tuple[Any, ...], t: Any, direction: complex, eps: float
) -> list[Any]:
    """Per output, a matrix of its derivatives as each element of `t` moves in `direction`."""
    matrices = [empty_slopes(t, o) for o in outputs]
    array = values_of(t)
    for row, place in zip(rows_of(t), np.ndindex(array.shape), strict=True):
        found = central_difference(function, array, place, direction * eps, eps)
        for matrix, slope in zip(matrices, found, strict=True):
            matrix._array[row] = slope._array.reshape(-1)
    return matrices


def empty_slopes(t: Any, output: Any) -> Any:
    dtype = output.dtype if is_inexact(output) else tg.get_default_dtype()
    return tg.zeros(t.numel(), output.numel(), dtype=dtype, device=t.device)


def directions(t: Any) -> tuple[complex, ...]:
    """The ways in which an element can move: along the real axis, and the imaginary one."""
    return (1.0, 1j) if t.is_complex() else (1.0,)


def real_part(t: Any) -> Any:
    return t.real if t.is_complex() else t


def imaginary_part(t: Any) -> Any:
    return t.imag if t.is_complex() else tg.zeros_like(t)


def wirtinger(along: list[Any], part: Callable[[Any], Any]) -> Any:
    """The gradient that backward should find for one part of an output, from its slopes."""
    if len(along) == 1:
        return part(along[0])
    return tg.complex(part(along[0]), part(along[1]))


def jacobians_of_input(
    fn: Callable[..., Any], inputs: Any, outputs: Any, varied: Any, eps: float
) -> tuple[Any, ...]:
    def call() -> Any:
        return fn(inputs)

    found = [slopes(call, as_tuple(outputs), varied, d, eps) for d in directions(varied)]
    return tuple([wirtinger(list(along), real_part) for along in zip(*found, strict=True)])


def numerical_jacobians(fn: Callable[..., Any], inputs: Any, target: Any, eps: float) -> list[Any]:
    outputs = as_tuple(fn(inputs))
    if any(o.is_complex() for o in outputs):
        raise ValueError(
            "Expected output to be non-complex. get_numerical_jacobian no longer supports "
            "functions that return complex outputs."
        )
    varied = [t for t in as_tuple(target) if is_varied(t)]
    return [jacobians_of_input(fn, inputs, outputs, t, eps)[0] for t in varied]


# ---------------------------------------------------------------------- by backward


def basis_vectors(like: Any, value: complex) -> Iterator[Any]:
    """`value` at one element after the other, zero elsewhere; one buffer for all of them."""
    vector = tg.zeros(like.shape, dtype=like.dtype, device=like.device)
    flat = vector._array.reshape(-1)
    for i in range(flat.size):
        flat[i] = value
        yield vector
        flat[i] = 0


def pulled_back(output: Any, inputs: list[Any], value: complex) -> tuple[list[Any], bool, bool]:
    """Jacobians by one backward pass per element of `output`; sizes right? dtypes right?

    The element that is differentiated gets the gradient `value`: 1j stands for its imaginary part.
    """
    matrices = [tg.zeros(t.numel(), output.numel(), dtype=t.dtype, device=t.device) for t in inputs]
    sizes = dtypes = True
    for column, vector in enumerate(basis_vectors(output, value)):
        grads = grad(output, inputs, vector, retain_graph=True, allow_unused=True)
        for t, matrix, g in zip(inputs, matrices, grads, strict=True):
            if g is None:
                continue
            if g.shape != t.shape:
                sizes = False
                continue
            dtypes = dtypes and g.dtype == t.dtype
            matrix._array[:, column] = in_full(g).reshape(-1)
    return matrices, sizes, dtypes


def differ_by_more(first: list[Any], second: list[Any], tolerance: float) -> bool:
    """Whether two computations of the same Jacobians disagree anywhere."""
    for a, b in zip(first, second, strict=True):
        distance = np.abs(double_values(a) - double_values(b))
        if bool((distance > tolerance).any()):
            return True
    return False


def analytical_jacobians(
    inputs: Any, output: Any, nondet_tol: float
) -> tuple[tuple[Any, ...], bool, bool, bool]:
    varied = [t for t in as_tuple(inputs) if is_varied(t)]
    first, sizes, dtypes = pulled_back(output, varied, 1.0)
    second, _, _ = pulled_back(output, varied, 1.0)
    reentrant = not differ_by_more(first, second, nondet_tol)
    return tuple(first), reentrant, sizes, dtypes


def double_values(t: Any) -> Any:
    """The values as an array in double precision."""
    t = readable(t.detach() if t.layout is tg.strided else t.detach().to_dense())
    return t.cpu().to(tg.complex128 if t.is_complex() else tg.float64)._array


# ---------------------------------------------------------------------- by forward mode


def tangents(func: Callable[..., Any], args: tuple[Any, ...], moving: dict[int, Any]) -> list[Any]:
    """The tangents of the outputs of func(*args) where the argument with id k moves by moving[k].

    None for an output that has none. No argument requires grad meanwhile: this is what tells `func`
    which of the modes it is asked in.
    """
    with forward_ad.dual_level():
        duals = [
            forward_ad.dual_from(a.detach(), moving[id(a)])
            if id(a) in moving
            else a.detach()
            if is_varied(a)
            else a
            for a in args
        ]
        outputs = as_tuple(func(*duals))
        found = [forward_ad.unpack_dual(o).tangent for o in outputs]
        return [None if t is None else t.detach() for t in found]


def with_others_still(args: tuple[Any, ...], t: Any, vector: Any) -> dict[int, Any]:
    """Tangents for `tangents`: `vector` for `t`, zeros for the other arguments."""
    others = {id(a): tg.zeros_like(a.detach()) for a in args if is_varied(a)}
    return others | {id(t): vector}


def pushed_forward(
    func: Callable[..., Any],
    args: tuple[Any, ...],
    outputs: tuple[Any, ...],
    t: Any,
    direction: complex,
) -> tuple[list[Any], bool]:
    """Per output its Jacobian by forward mode, element by element of `t`; dtypes right?"""
    matrices = [empty_slopes(t, o) for o in outputs]
    dtypes = True
    for row, vector in enumerate(basis_vectors(t, direction)):
        found = tangents(func, args, with_others_still(args, t, vector))
        for o, matrix, tangent in zip(outputs, matrices, found, strict=True):
            if tangent is not None:
                dtypes = dtypes and tangent.dtype == o.dtype
                matrix._array[row] = array_of(tangent).reshape(-1)
    return matrices, dtypes
