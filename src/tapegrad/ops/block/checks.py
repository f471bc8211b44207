"""Checks of arguments with PyTorch's messages, and small helpers about dtypes of operands."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ... import dtypes
from ...autograd.inplace import write
from ...core import promote
from ...core.arguments import is_index, number_as_array, wrap_dim
from ...core.base import TensorBase
from ...errors import must_be_tensor

# What PyTorch says where an `out` of another dtype than the result is not cast (`out_dtype`).
OUT_EXACT = "Expected out tensor to have dtype {want_c}, but got {got_c} instead"
OUT_FOUND = "Found dtype {got} but expected {want}"
# What it says of one that the result cannot be cast to.
SAFELY = "Expected {what} to be safely castable from {want} dtype, but got {what} with dtype {got}"
OUT_SAFELY = SAFELY.replace("{what}", "result")
OUT_SAME_TYPE = "{name}(): self and result must have the same scalar type"

BOOL, INTEGRAL, FLOATING, COMPLEX = 0, 1, 2, 3
CATEGORY = {"b": BOOL, "i": INTEGRAL, "u": INTEGRAL, "f": FLOATING, "V": FLOATING, "c": COMPLEX}


def category(value: Any) -> int:
    """Bool, integral, floating or complex: of an array or a number."""
    dtype = getattr(value, "dtype", None)
    if dtype is not None:
        return CATEGORY[dtype.kind]
    if isinstance(value, bool):
        return BOOL
    if isinstance(value, int):
        return INTEGRAL
    return FLOATING if isinstance(value, float) else COMPLEX


def is_complex(value: Any) -> bool:
    """Of an array or a tensor: what gradient rules may get."""
    dtype = value.dtype
    return bool(dtype.is_complex) if isinstance(dtype, dtypes.dtype) else dtype.kind == "c"


def common(*values: Any) -> dtypes.dtype:
    """The dtype of an expression over arrays and numbers; None among them counts for nothing."""
    operands = [np.asarray(v) if isinstance(v, np.generic) else v for v in values if v is not None]
    return promote.result_dtype(operands)


def as_number(function: str, argument: str, value: Any, run: Any = None) -> Any:
    """A number, or that in a 0-d tensor without history; `run` tells the in-place form apart."""
    if is_number(value):
        refuse_too_big(value)
        return value
    if isinstance(value, TensorBase) and not value._array.ndim and not value._wants_grad:
        return value.item()  # type: ignore[attr-defined]
    name = f"{function}_" if run is write else function
    raise TypeError(f"{name}(): argument '{argument}' must be Number, not {type(value).__name__}")


def refuse_too_big(number: Any) -> None:
    """Refuse an int that neither int64 nor uint64 holds."""
    if type(number) is int:
        dtypes.scalar_dtype(number)


def refuse_overflow(numbers: Iterable[Any], *operands: Any) -> None:
    """Refuse numbers that the common dtype of some operands cannot hold."""
    for value in numbers:
        # What an int8 holds, every dtype holds.
        if is_number(value) and (isinstance(value, complex) or not -128 <= value <= 127):
            arrays = [v._array if isinstance(v, TensorBase) else v for v in operands]
            number_as_array(common(*arrays).np, value)


def as_stored(input: Any, number: Any) -> Any:
    """A number as bfloat16 has it: NumPy compares such arrays with numbers in single precision."""
    if isinstance(number, (int, float)) and getattr(input.dtype, "kind", "") == "V":
        return input.dtype.type(number)
    return number


def is_wide_float(array: Any, *numbers: Any) -> bool:
    """Single or double precision beside real numbers: nothing is promoted and nothing refused."""
    dtype = array.dtype
    if dtype.kind != "f" or dtype.itemsize < 4:
        return False
    for n in numbers:
        if n is not None and type(n) is not float and type(n) is not int:
            if getattr(n, "dtype", None) is not dtype:  # that of a symbol in the place of a number
                return False
    return True


def as_scalar(dtype: Any, number: Any) -> Any:
    """A number as NumPy's scalar of a dtype, or what has a dtype as it is."""
    return number if hasattr(number, "dtype") else dtype.type(number)


def not_implemented(kernel: str, dtype: dtypes.dtype) -> NotImplementedError:
    return NotImplementedError(f"\"{kernel}\" not implemented for '{dtype.scalar_type}'")


def without_complex32() -> NotImplementedError:
    return NotImplementedError("complex32 is not supported: NumPy has no such dtype")


def not_for(kernel: str, *categories: int) -> Callable[..., None]:
    """Make a guard that refuses these dtype categories, in PyTorch's words for its inner loop."""

    allowed = frozenset([kind for kind, place in CATEGORY.items() if place not in categories])

    def guard(*values: Any) -> None:
        dtype = getattr(values[0], "dtype", None)
        if len(values) == 1 and dtype is not None and dtype.kind in allowed:
            return
        if max([category(v) for v in values if v is not None]) in categories:
            raise not_implemented(kernel, common(*values))

    return guard


WIDE = (np.dtype(np.float32), np.dtype(np.float64))


def only_wide(kernel: str) -> Callable[..., None]:
    """A guard: the op's inner loop takes single and double precision, and what becomes that."""

    def guard(*values: Any) -> None:
        # Not `getattr(v, "dtype", None) in WIDE`: to NumPy, None is float64.
        if all([v.dtype in WIDE if hasattr(v, "dtype") else type(v) is float for v in values]):
            return
        dtype = common(*values)
        if dtype.is_complex or (dtype.is_floating_point and dtype.itemsize == 2):
            raise not_implemented(kernel, dtype)

    return guard


def only_tensors(function: str, run: Any = None, **arguments: Any) -> None:
    """Refuse numbers for arguments that must be tensors; `run` is set for the in-place method."""
    for position, (name, value) in enumerate(arguments.items(), 0 if run else 1):
        if not isinstance(value, TensorBase):
            raise must_be_tensor(f"{function}_" if run else function, name, position, value)


def only_bool(function: str, argument: str, position: int, value: Any) -> None:
    """Refuse what is neither True nor False: 1 is a dimension, or a mistake."""
    if not isinstance(value, bool):
        raise TypeError(
            f"{function}(): argument '{argument}' (position {position}) must be bool, "
            f"not {type(value).__name__}"
        )


def as_float(function: str, argument: str, position: int, value: Any) -> float:
    """A real number; NumPy's and tensors of one number without history are fine."""
    if isinstance(value, (int, float)):
        return value
    if isinstance(value, np.number) and not isinstance(value, np.complexfloating):
        return float(value)
    if isinstance(value, TensorBase) and not value._wants_grad and value._array.ndim == 0:
        return float(value.item())  # type: ignore[attr-defined]
    raise TypeError(
        f"{function}(): argument '{argument}' (position {position}) must be float, "
        f"not {type(value).__name__}"
    )


def no_size(value: Any, text: str) -> Exception:
    """The error for what is no size: of a bool tensor PyTorch says something else."""
    if isinstance(value, TensorBase) and value._array.dtype.kind == "b" and value._array.size == 1:
        return RuntimeError(
            "Expected scalar.isIntegral( false) to be true, but got false.  (Could this error "
            "message be improved?  If so, please report an enhancement request to PyTorch.)"
        )
    return TypeError(text)


def check_room(size: int) -> None:
    """Refuse a result of so many bytes if there is no memory for it, before a loop fills memory.

    The memory is asked for and given back unused, which takes no time however much it is.
    """
    if size >= 1 << 62:
        raise RuntimeError(f"Storage size calculation overflowed: {size} bytes are asked for")
    np.empty(size, np.uint8)


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float, complex, np.generic))


def kind_of(value: Any) -> str:
    """The kind of a value, as PyTorch's messages call it."""
    kind = type(value)
    return f"numpy.{kind.__name__}" if kind.__module__ == "numpy" else kind.__name__


def invalid_call(function: str, *arguments: Any, **named: Any) -> TypeError:
    """No signature of `function` takes these arguments."""
    kinds = [kind_of(a) for a in arguments]
    kinds += [f"{name}={kind_of(a)}" for name, a in named.items()]
    return TypeError(
        f"{function}() received an invalid combination of arguments - got ({', '.join(kinds)}), "
        "but expected one of:"
    )


# ---------------------------------------------------------------------- tensors, dimensions, sizes


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
