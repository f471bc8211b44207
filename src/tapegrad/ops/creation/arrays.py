"""From Python data to arrays: what shape and dtype nested sequences, numbers and arrays have.

PyTorch's rules: the shape follows the first elements, the dtype all of them. Lists of Python
numbers are handed to NumPy in one piece; everything else, and everything that is wrong, is walked
element by element.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import dtypes
from ...core import promote
from ...core.arguments import number_as_array
from ...core.base import TensorBase, quiet
from ...core.rounding import before_rounding_to, rounded_to
from ...core.settings import Settings
from ...core.warned import Warned, warn_once
from ...errors import does_not_fit, slips

SLOW_LIST = (
    "Creating a tensor from a list of numpy.ndarrays is extremely slow. Please consider converting "
    "the list to a single numpy.ndarray with numpy.array() before converting to a tensor."
)
NEGATIVE_STRIDE = (
    "At least one stride in the given numpy array is negative, and tensors with negative strides "
    "are not currently supported. (You can probably work around this by making a copy of your "
    "array  with array.copy().) "
)
ODD_STRIDE = (
    "given numpy array strides not a multiple of the element byte size. Copy the numpy array to "
    "reallocate the memory."
)
BYTE_ORDER = (
    "given numpy array has byte order different from the native byte order. Conversion between "
    "byte orders is currently not supported."
)
MAX_DIMS = 64
TO_SCALAR = (
    "Converting a tensor with requires_grad=True to a scalar may lead to unexpected behavior.\n"
    "Consider using tensor.detach() first."
)


def warn_of_lost_part(have: Any, want: Any) -> None:
    """Say that a cast from one dtype to another loses the imaginary part, if it does."""
    if have.kind == "c" and want.kind not in "cb":
        warn_once("Casting complex values to real discards the imaginary part")


def set_warn_always(b: bool, /) -> None:
    """Give the warnings that come once per process every time, or not.

    >>> torch.set_warn_always(True)
    >>> torch.is_warn_always_enabled()
    True
    >>> torch.set_warn_always(False)
    """
    if not isinstance(b, bool):
        raise TypeError(f"setWarnOnlyOnce expects a bool, but got {type(b).__name__}")
    Warned.always = b


def is_warn_always_enabled() -> bool:
    """Whether warnings that come once per process are given every time.

    >>> is_warn_always_enabled()
    False
    """
    return Warned.always


def is_sequence(value: Any) -> bool:
    """Whether PyTorch takes a value for a nested list: anything indexable that is no dict and no
    tensor.
    """
    if isinstance(value, (list, tuple, range, np.ndarray)):
        return True
    if isinstance(value, (TensorBase, dict, np.generic)):
        return False
    kind = type(value)
    return hasattr(kind, "__getitem__") and hasattr(kind, "__len__")


def checked_array(array: Any) -> Any:
    """`array` if a tensor can look at its memory; PyTorch's complaint otherwise.

    An array of a subclass (memmap, matrix, masked) comes back as a plain one over the same memory:
    its own `*`, `sum` and indexing must not decide what the ops compute.
    """
    if type(array) is not np.ndarray:
        array = np.ndarray.view(array, np.ndarray)
    dtypes.of(array.dtype)
    size = array.itemsize
    if any([s % size for s in array.strides]):
        raise ValueError(ODD_STRIDE)
    if any([s < 0 for s in array.strides]):
        raise ValueError(NEGATIVE_STRIDE)
    if not array.dtype.isnative:
        raise ValueError(BYTE_ORDER)
    return array


def to_array(data: Any, dtype: Any) -> Any:
    """A new array with a copy of `data`; `dtype` is a NumPy dtype or None for inference."""
    if isinstance(data, TensorBase):
        return cast_array(data._array, dtype, copy=True)
    if isinstance(data, np.ndarray):
        return cast_array(checked_array(data), dtype, copy=True)
    if isinstance(data, np.generic) and not isinstance(data, (str, bytes)):
        return cast_array(checked_array(np.asarray(data)), dtype, copy=True)
    if type(data) in (list, tuple):
        found = quick(data, dtype)
        if found is not None:
            return found
    if isinstance(data, (str, bytes)):
        raise TypeError(f"new(): invalid data type '{type(data).__name__}'")
    shape = shape_of(data)
    np_dtype = infer(data).np if dtype is None else dtype
    out = np.empty(shape, np_dtype)
    if out.size:
        if out.ndim:
            store(out, data, np_dtype, shape)
        else:
            out[()] = element(data, np_dtype)
    return out


def cast_array(array: Any, dtype: Any, copy: bool) -> Any:
    """`array` in another dtype, as C casts; the memory order is kept."""
    if dtype is None or dtype == array.dtype:
        return array.copy(order="K") if copy else array
    with np.errstate(all="ignore"):
        if array.dtype.kind == "c" and dtype.kind not in "cb":
            warn_of_lost_part(array.dtype, dtype)
            array = array.real
        if array.dtype.kind == "f" and dtype.kind in "iu" and dtype.itemsize < 4:
            # Through int32, as the compilers do: out of range is 0, the rest wraps around.
            array = array.astype(np.int32)
        return before_rounding_to(dtype, array).astype(dtype)


PLAIN = {bool: 0, int: 1, float: 2, complex: 3}


def quick(data: Any, dtype: Any) -> Any:
    """An array from lists of nothing but Python numbers; None if there is anything to think "
    "about."""
    kinds: set[type] = set()
    if not collect(data, kinds, 0) or not kinds:
        return None
    top = max([PLAIN[k] for k in kinds])
    if dtype is None:
        dtype = (
            np.dtype(bool),
            np.dtype(np.int64),
            dtypes.default_np(),
            dtypes.default_complex().np,
        )[top]
    elif dtype.kind in "biu" and top > 1 or dtype.kind in "fV" and top > 2:
        return None
    try:
        if dtype.itemsize == 2 and top == 2:
            return quiet(rounded_to, np.array(data, np.float64), dtype)
        return quiet(np.array, data, dtype)  # half precision may overflow
    except (ValueError, OverflowError, TypeError):
        return None


def collect(data: Any, kinds: set[type], depth: int) -> bool:
    """Gather the types at the bottom of nested lists; whether they are Python numbers only."""
    if not data or depth > MAX_DIMS:
        return False
    if type(data[0]) in (list, tuple):
        return all([type(row) in (list, tuple) and collect(row, kinds, depth + 1) for row in data])
    found = set(map(type, data))
    kinds |= found
    return found <= PLAIN.keys()


def shape_of(data: Any) -> tuple[int, ...]:
    """The shape that the first elements have."""
    shape: list[int] = []
    while is_sequence(data):
        length = len(data)
        shape.append(length)
        if len(shape) > MAX_DIMS:
            raise ValueError(f"too many dimensions '{type(data).__name__}'")
        if length == 0:
            break
        first = data[0]
        if isinstance(data, (str, bytes)) and first == data:
            raise slips.text_as_data(f"too many dimensions '{type(data).__name__}'")
        if isinstance(first, np.ndarray) and type(data) in (list, tuple):
            warn_once(SLOW_LIST)
        data = first
    return tuple(shape)


def infer(data: Any) -> dtypes.dtype:
    """The dtype that holds every element."""
    if isinstance(data, (TensorBase, np.ndarray)):
        return dtypes.of(data._array.dtype if isinstance(data, TensorBase) else data.dtype)
    if isinstance(data, np.generic) and not isinstance(data, (str, bytes)):
        return dtypes.of(data.dtype)
    if isinstance(data, bool):
        return dtypes.bool_
    if isinstance(data, int):
        return dtypes.int64
    if isinstance(data, float):
        return dtypes.get_default_dtype()
    if isinstance(data, complex):
        return dtypes.default_complex()
    if isinstance(data, (str, bytes)):
        raise TypeError(f"new(): invalid data type '{type(data).__name__}'")
    if not is_sequence(data):
        raise RuntimeError(f"Could not infer dtype of {type(data).__name__}")
    if len(data) == 0:
        return dtypes.get_default_dtype()
    found = infer(data[0])
    for i in range(1, len(data)):
        found = promote.promote(found, infer(data[i]))
    return found


def store(
    out: Any, data: Any, dtype: Any, shape: tuple[int, ...], index: tuple[int, ...] = ()
) -> None:
    """Fill `out`, which is the part `index` of the whole, from `data`."""
    dim = len(index)
    if not is_sequence(data):
        raise TypeError("not a sequence")
    if len(data) != shape[dim]:
        sentence = f"expected sequence of length {shape[dim]} at dim {dim} (got {len(data)})"
        raise slips.ragged(sentence, index, len(data), shape[dim])
    last = dim + 1 == len(shape)
    for i in range(shape[dim]):
        if last:
            out[i] = element(data[i], dtype)
        else:
            store(out[i], data[i], dtype, shape, (*index, i))


def element(value: Any, dtype: Any) -> Any:
    """One number for an array of `dtype`."""
    kind = dtype.kind
    if isinstance(value, TensorBase):
        value = one_element(value, kind)
    elif isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if kind == "b":
        return bool(value)
    if kind == "c":
        if not isinstance(value, (int, float, complex, np.number, np.bool_)):
            raise TypeError(f"must be real number, not {type(value).__name__}")
        return complex(value)
    if kind in "fV":
        if isinstance(value, (complex, np.complexfloating)) or not hasattr(value, "__float__"):
            raise TypeError(f"must be real number, not {type(value).__name__}")
        single = before_rounding_to(dtype, np.float64(value))
        return quiet(single.astype, dtype)  # it may overflow
    return integer(value, dtype)


def integer(value: Any, dtype: Any) -> Any:
    """A number as an integer of `dtype`; negative ones wrap around in the unsigned dtypes."""
    name = dtype.name
    if isinstance(value, (float, np.floating)):
        low, high = (np.iinfo(dtype).min, np.iinfo(dtype).max)
        if not math.isfinite(value) or not low <= value <= high:
            raise RuntimeError(f"value cannot be converted to type {name} without overflow")
        return int(value)
    if not hasattr(value, "__index__") and not isinstance(value, np.bool_):
        raise TypeError(f"'{type(value).__name__}' object cannot be interpreted as an integer")
    number = int(value) if isinstance(value, np.bool_) else value.__index__()
    if name == "uint64":
        if number < 0:
            raise OverflowError("can't convert negative int to unsigned")
        if number >= 1 << 64:
            raise OverflowError("int too big to convert")
        return number
    if not -(1 << 63) <= number < 1 << 63:
        raise ValueError("Overflow when unpacking long long")
    limits = np.iinfo(dtype)
    if number > limits.max or number < (-limits.max if dtype.kind == "u" else limits.min):
        raise RuntimeError(f"value cannot be converted to type {name} without overflow")
    return number + limits.max + 1 if dtype.kind == "u" and number < 0 else number


def one_element(t: Any, kind: str) -> Any:
    """The number in a one-element tensor among the data."""
    array = t._array
    if array.size != 1:
        if kind in "iu":
            raise TypeError("only integer tensors of a single element can be converted to an index")
        raise ValueError("only one element tensors can be converted to Python scalars")
    if kind in "fV" and t._wants_grad:
        warn_once(TO_SCALAR)
    value = array.item() if array.dtype.kind != "V" else float(array.reshape(())[()])
    if isinstance(value, complex) and kind not in "cb":
        if value.imag:
            raise does_not_fit(dtypes.float64)
        return value.real
    return value


def unwritten(dtype: Any) -> Any:
    """The value that fills unwritten memory while algorithms are deterministic."""
    if not (Settings.deterministic and Settings.fill_uninitialized_memory):
        return None
    if dtype.kind == "b":
        return True
    return np.iinfo(dtype).max if dtype.kind in "iu" else np.nan


def deterministic(array: Any) -> Any:
    """An array that nobody has written; filled, if algorithms are deterministic."""
    value = unwritten(array.dtype)
    if value is not None:
        array.fill(value)
    return array


def fill_value(value: Any, dtype: Any) -> Any:
    """A number that fills a tensor of `dtype`: truncated, but refused where it does not fit."""
    if type(value) is int and 0 <= value <= 1:
        return value
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.item()
    return number_as_array(dtype, value)[()]
