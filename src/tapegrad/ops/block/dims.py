"""Arguments that are tensors, dimensions, sizes and dtypes, with PyTorch's messages.

Compiled with mypyc: nearly every function with a `dim` asks here.
"""

from __future__ import annotations

import operator
from typing import Any

from ... import dtypes
from ...core.arguments import is_index, wrap_dim
from ...core.base import TensorBase
from ...errors import must_be_tensor
from .checks import no_size


def array_of(function: str, input: Any, name: str = "input", position: int = 1) -> Any:
    """The array of an argument that has to be a tensor."""
    if not isinstance(input, TensorBase):
        raise must_be_tensor(function, name, position, input)
    return input._array


def one_dim(function: str, input: Any, dim: Any, forms: tuple[str, ...] = ()) -> int:
    """A dimension of `input` from an argument that has to be one integer."""
    ndim: int = array_of(function, input).ndim
    if type(dim) is int and -ndim <= dim < ndim:
        return dim if dim >= 0 else dim + ndim
    if type(dim) is not int:
        dim = as_index(function, dim, "int", forms)
    return wrap_dim(dim, ndim)


def all_dims(function: str, input: Any, dim: Any, forms: tuple[str, ...] = ()) -> Any:
    """The dimensions of `input` to reduce, ascending; None for all of them."""
    ndim = array_of(function, input).ndim
    if dim is None:
        return None
    if type(dim) is int and -ndim <= dim < ndim:
        return (dim if dim >= 0 else dim + ndim,)
    if not isinstance(dim, (tuple, list)):
        if type(dim) is not int:
            dim = as_index(function, dim, "tuple of ints", forms)
        place = wrap_dim(dim, ndim)
        return (place,) if ndim else None
    found: list[int] = []
    for i, each in enumerate(dim):
        if not hasattr(each, "__index__"):
            raise TypeError(
                f"{function}(): argument 'dim' failed to unpack the object at pos {i + 1} with "
                f'error "type must be tuple of ints,but got {type(each).__name__}"'
            )
        place = wrap_dim(operator.index(each), ndim)
        if place in found:
            raise RuntimeError(f"dim {place} appears multiple times in the list of dims")
        found.append(place)
    return tuple(sorted(found)) if found and ndim else None


def as_index(function: str, value: Any, wanted: str, forms: tuple[str, ...]) -> int:
    """An integer from anything but a bool that can stand for one."""
    if is_index(value):
        return operator.index(value)
    if wanted == "tuple of ints" and isinstance(value, TensorBase) and not value._array.ndim:
        if value._array.dtype.kind == "b":  # PyTorch's lists of ints take it
            return int(value._array)
    given = type(value).__name__
    if forms:
        shown = "".join([f" * ({form})\n" for form in forms])
        raise TypeError(
            f"{function}() received an invalid combination of arguments - got "
            f"({given}), but expected one of:\n{shown}"
        )
    raise TypeError(f"{function}(): argument 'dim' (position 1) must be {wanted}, not {given}")


def plain_dtype(function: str, dtype: Any) -> Any:
    """The NumPy dtype of a `dtype=` argument."""
    if dtype is None:
        return None
    if not isinstance(dtype, dtypes.dtype):
        raise TypeError(
            f"{function}(): argument 'dtype' must be torch.dtype, not {type(dtype).__name__}"
        )
    return dtype.np


def as_int(function: str, argument: str, position: int, value: Any) -> int:
    """An int, or something that stands for one."""
    if type(value) is int:
        if not -(1 << 63) <= value < 1 << 63:
            raise ValueError("Overflow when unpacking long long")
        return value
    if not is_index(value):
        raise TypeError(
            f"{function}(): argument '{argument}' (position {position}) must be int, "
            f"not {type(value).__name__}"
        )
    return operator.index(value)


def as_ints(function: str, argument: str, position: int, values: Any) -> tuple[int, ...]:
    """A tuple of ints from one."""
    start = f"{function}(): argument '{argument}' (position {position}) must be tuple of ints, "
    if not isinstance(values, (tuple, list)):
        raise TypeError(start + f"not {type(values).__name__}")
    for i, value in enumerate(values):
        if type(value) is not int and not is_index(value):
            raise no_size(
                value, start + f"but found element of type {type(value).__name__} at pos {i}"
            )
    return tuple([operator.index(v) for v in values])


def ints_of_call(function: str, argument: str, values: tuple[Any, ...]) -> tuple[int, ...]:
    """The ints of `f(1, 2)` or of `f((1, 2))`."""
    if values and all([type(v) is int for v in values]):
        return values
    if len(values) == 1 and isinstance(values[0], (tuple, list)):
        return as_ints(function, argument, 1, values[0])
    if not values:
        raise TypeError(f'{function}() missing 1 required positional arguments: "{argument}"')
    if not hasattr(values[0], "__index__"):
        raise TypeError(
            f"{function}(): argument '{argument}' (position 1) must be tuple of ints, "
            f"not {type(values[0]).__name__}"
        )
    for i, value in enumerate(values):
        if not hasattr(value, "__index__"):
            raise TypeError(
                f"{function}(): argument '{argument}' failed to unpack the object at pos "
                f'{i + 1} with error "type must be tuple of ints,but got '
                f'{type(value).__name__}"'
            )
    return tuple([operator.index(v) for v in values])
