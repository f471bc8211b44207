"""`torch._foreach_*`: one operation on every tensor of a list.

PyTorch's optimizers are written with these, and programs took them over. Each is the loop over the
tensors that it stands for: `torch._foreach_add(a, b)` is `tuple(x + y for x, y in zip(a, b))`. The
forms that write return the list they were given.

>>> import tapegrad as torch
>>> torch._foreach_mul([torch.tensor([1.0, 2.0]), torch.tensor([3.0])], 2)
(tensor([2., 4.]), tensor([6.]))
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from numbers import Number
from typing import Any

import tapegrad as tg

from ..autograd.inplace import refuse
from ..errors import no_tensor_in_list
from ..ops.block.definition import APIS
from . import publish

__all__ = ["find"]

Function = Callable[..., Any]


class Tensors(list[Any]):
    """A checked argument: the tensors of a list."""

    def __init__(self, given: Any, name: str, position: int = 0) -> None:
        if not isinstance(given, (list, tuple)):
            raise TypeError(
                f"{name}(): argument 'self' (position {position + 1}) must be tuple of Tensors, "
                f"not {type(given).__name__}"
            )
        for i, value in enumerate(given):
            if not isinstance(value, tg.Tensor):
                raise no_tensor_in_list(i, position, value)
        if not given:
            raise RuntimeError("Tensor list must have at least one tensor.")
        if name.endswith("_") and not position:
            refuse_bits("conjugate", any([t.is_conj() for t in given]), name)
            refuse_bits("negation", any([t.is_neg() for t in given]), name)
            for t in given:  # all of them, before one is written
                refuse(t, False)
        super().__init__(given)


def refuse_bits(kind: str, found: bool, name: str) -> None:
    """PyTorch's error for lists to be written to that hold conjugate or negative views."""
    if found:
        raise RuntimeError(
            f" fallback doesn't currently support mutable TensorLists with {kind} inputs. Please "
            f"materialize all the {kind} input tensor(s) in the mutable TensorList inputs before "
            f"calling aten::{name}"
        )


def check_lengths(first: Sequence[Any], *others: Sequence[Any]) -> None:
    for other in others:
        if len(other) != len(first):
            raise RuntimeError(
                "Tensor lists must have the same number of tensors, got "
                f"{len(first)} and {len(other)}"
            )


def is_list(value: Any, kind: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(v, kind) for v in value)


def one_each(name: str, tensors: Tensors, value: Any) -> list[Any]:
    """One operand for each tensor: from a list of tensors, a list of numbers, or one number."""
    if is_list(value, tg.Tensor):
        check_lengths(tensors, value)
        return list(value)
    if is_list(value, Number):
        if len(value) != len(tensors):
            raise RuntimeError("Tensor list must have same number of elements as scalar list.")
        return list(value)
    if isinstance(value, Number):
        return [value] * len(tensors)
    raise refusal(name, tensors, value)


def refusal(name: str, *given: Any, **named: Any) -> TypeError:
    kinds = ["list" if isinstance(v, Tensors) else type(v).__name__ for v in given if v is not None]
    kinds += [f"{key}={type(v).__name__}" for key, v in named.items()]
    return TypeError(
        f"{name}() received an invalid combination of arguments - got ({', '.join(kinds)}), but "
        "expected one of:"
    )


def finish(given: Any, name: str, results: Iterable[Any]) -> Any:
    """The results, or what was given where the results were written into it."""
    found = tuple(results)
    return given if name.endswith("_") else found


def given_one(*values: Any) -> Any:
    """The one that was given of an argument's several names."""
    return next((v for v in values if v is not None), None)


# ------------------------------------------------------------------ kinds of functions


def unary(method: str) -> Function:
    """`_foreach_exp(self)`."""
    name = f"_foreach_{method}"

    def foreach(self: Any) -> Any:
        tensors = Tensors(self, name)
        return finish(self, name, [getattr(t, method)() for t in tensors])

    return foreach


def binary(method: str, with_alpha: bool = False) -> Function:
    """`_foreach_mul(self, other)`: a list of tensors or numbers, a number, or a 0-d tensor."""
    name = f"_foreach_{method}"

    def foreach(
        self: Any, other: Any = None, *, scalar: Any = None, scalars: Any = None, **options: Any
    ) -> Any:
        other = given_one(other, scalar, scalars)
        if not isinstance(self, (list, tuple)) or set(options) - {"alpha"}:
            raise refusal(name, self, other, **options)
        tensors = Tensors(self, name)
        if isinstance(other, tg.Tensor):
            if other.dim() != 0:
                raise RuntimeError(
                    f"scalar tensor expected to be 0 dim but it has {other.dim()} dimensions and "
                    f"{other.numel()} elements."
                )
            others: list[Any] = [other] * len(tensors)
        else:
            others = one_each(name, tensors, other)
        if options:
            if not with_alpha or not isinstance(others[0], tg.Tensor):
                raise refusal(name, tensors, other, **options)
        pairs = zip(tensors, others, strict=True)
        return finish(self, name, [getattr(t, method)(o, **options) for t, o in pairs])

    return foreach


def bounded(method: str, run: str) -> Function:
    """`_foreach_maximum(self, other)` and its like, which take tensors and numbers alike."""
    name = f"_foreach_{method}"

    def foreach(self: Any, other: Any = None, *, scalar: Any = None, scalars: Any = None) -> Any:
        tensors = Tensors(self, name)
        others = one_each(name, tensors, given_one(other, scalar, scalars))
        pairs = zip(tensors, others, strict=True)
        return finish(self, name, [getattr(t, run)(o) for t, o in pairs])

    return foreach


def power(method: str) -> Function:
    """`_foreach_pow(self, exponent)`; the base may be a number."""
    name = f"_foreach_{method}"

    def foreach(self: Any, exponent: Any) -> Any:
        if isinstance(self, Number) and not name.endswith("_"):
            return tuple([tg.pow(self, e) for e in Tensors(exponent, name, 1)])
        tensors = Tensors(self, name)
        pairs = zip(tensors, one_each(name, tensors, exponent), strict=True)
        return finish(self, name, [getattr(t, method)(e) for t, e in pairs])

    return foreach


def combined(method: str) -> Function:
    """`_foreach_addcmul(self, tensor1, tensor2, value)`: with a number, or one for each tensor."""
    name = f"_foreach_{method}"

    def foreach(
        self: Any, tensor1: Any, tensor2: Any, value: Any = 1, *, scalars: Any = None
    ) -> Any:
        tensors = Tensors(self, name)
        first, second = Tensors(tensor1, name, 1), Tensors(tensor2, name, 2)
        check_lengths(tensors, first, second)
        value = given_one(scalars, value)
        if isinstance(value, tg.Tensor):
            if value.numel() != len(tensors):
                raise RuntimeError(
                    f"Expected length of scalars to match input of length {len(tensors)} but got "
                    f"{value.numel()} instead."
                )
            value = value.tolist()
        values = one_each(name, tensors, value)
        rows = zip(tensors, first, second, values, strict=True)
        return finish(self, name, [getattr(t, method)(a, b, value=v) for t, a, b, v in rows])

    return foreach


def lerp(method: str) -> Function:
    """`_foreach_lerp(self, tensors1, weight)`: with a number, or numbers or tensors for each."""
    name = f"_foreach_{method}"

    def foreach(
        self: Any, tensors1: Any, weight: Any = None, *, weights: Any = None, scalars: Any = None
    ) -> Any:
        tensors, ends = Tensors(self, name), Tensors(tensors1, name, 1)
        check_lengths(tensors, ends)
        rows = zip(
            tensors,
            ends,
            one_each(name, tensors, given_one(weight, weights, scalars)),
            strict=True,
        )
        return finish(self, name, [getattr(t, method)(end, w) for t, end, w in rows])

    return foreach


# ------------------------------------------------------------------ single ones


def foreach_norm(self: Any, ord: Any = 2, dtype: Any = None) -> Any:
    """The norm of each tensor."""
    tensors = Tensors(self, "_foreach_norm")
    return tuple([tg.linalg.vector_norm(t, ord, dtype=dtype) for t in tensors])


def foreach_powsum(self: Any, ord: Any = 2, dtype: Any = None) -> Any:
    """The sum of the powers of the magnitudes of each tensor."""
    tensors = Tensors(self, "_foreach_powsum")
    return tuple([t.abs().pow(ord).sum(dtype=dtype) for t in tensors])


def foreach_max(self: Any) -> Any:
    """The largest element of each tensor."""
    return tuple([t.max() for t in Tensors(self, "_foreach_max")])


def foreach_mm(self: Any, mat2: Any) -> Any:
    """The matrix products of two lists."""
    first, second = Tensors(self, "_foreach_mm"), Tensors(mat2, "_foreach_mm", 1)
    check_lengths(first, second)
    return tuple([a.mm(b) for a, b in zip(first, second, strict=True)])


def foreach_copy_(self: Any, src: Any, non_blocking: bool = False) -> Any:
    """Copy the tensors of one list into those of another."""
    tensors, sources = Tensors(self, "_foreach_copy_"), Tensors(src, "_foreach_copy_", 1)
    check_lengths(tensors, sources)
    for t, source in zip(tensors, sources, strict=True):
        t.copy_(source, non_blocking)
    return self


# How the functions are made whose blocks say so (`foreach = "unary"`).
KINDS: dict[str, Callable[[str], Function]] = {
    "unary": unary,
    "binary": binary,
    "alpha": functools.partial(binary, with_alpha=True),
    "bound": lambda name: bounded(name, name),
    "combined": combined,
    "lerp": lerp,
    "power": power,
}
FUNCTIONS: dict[str, Function] = {
    "_foreach_clone": unary("clone"),
    "_foreach_copy_": foreach_copy_,
    "_foreach_max": foreach_max,
    "_foreach_maximum": bounded("maximum", "clamp_min"),
    "_foreach_maximum_": bounded("maximum_", "clamp_min_"),
    "_foreach_minimum": bounded("minimum", "clamp_max"),
    "_foreach_minimum_": bounded("minimum_", "clamp_max_"),
    "_foreach_mm": foreach_mm,
    "_foreach_norm": foreach_norm,
    "_foreach_powsum": foreach_powsum,
    "_foreach_zero_": unary("zero_"),
}


def find(name: str) -> Function | None:
    """`torch.<name>`, or None if there is no such function."""
    found = FUNCTIONS.get(name)
    if found is None:
        method = name.removeprefix("_foreach_")
        plain = method.removesuffix("_")
        publish.find(plain)  # loads its family
        api = APIS.get(plain)
        if api is None or not api.foreach or api.alias:
            return None
        found = FUNCTIONS[name] = KINDS[api.foreach](method)
    found.__name__ = found.__qualname__ = name
    return found
