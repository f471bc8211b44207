"""Indexing, both ways: the basic parts of an index become views, the rest one `index` op.

An index is read from left to right, as PyTorch does: integers select, slices narrow, None and bools
add a dimension, tensors and sequences are noted for the dimension that they stand at. What was
noted is then applied at once to the view that the other parts made.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import dtypes
from ...autograd.inplace import EXPANDED, bump, check_apart, refuse, write
from ...core.arguments import bounds, number_as_array
from ...core.base import F32, F64, STATE, TensorBase, as_array, ndarray, wrap
from ...core.devices import is_device, to_host
from ...core.dispatch import meets
from ...core.late_bound import GPU
from ...core.op import REGISTRY
from ...core.python_dispatch import ACTIVE, same_always
from ...core.rounding import rounded_to
from ...core.strides import shares_itself
from ...core.thread_modes import Unrepeated
from ...core.transforms.batched import has_batched, is_batched, physical_array
from ...core.transforms.levels import BATCHES
from ...core.warned import warn
from ...errors import no_tensor_in_list
from ..block import apply
from ..block import noted as step
from ..creation.arrays import infer, shape_of, to_array
from . import batched_subscripts

ALL = slice(None)
BASIC = (int, slice)  # parts of an index that need no looking at
I32, I64, U8 = np.dtype(np.int32), np.dtype(np.int64), np.dtype(np.uint8)
INDEX_DTYPES = (I64, I32, U8, np.dtype(bool))
NOT_A_TUPLE = (
    "Using a non-tuple sequence for multidimensional indexing is deprecated and will be changed in "
    "pytorch 2.9; use x[tuple(seq)] instead of x[seq]. In pytorch 2.9 this will be interpreted as "
    "tensor index, x[torch.tensor(seq)], which will result either in an error or a different result"
)
BYTE_MASK = (
    "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead."
)


def get(t: Any, index: Any) -> Any:
    """`t[index]`."""
    kind = type(index)
    if kind is int:
        return select_at(t, 0, index, 0)
    if kind is slice:
        return slice_at(t, 0, index)
    if is_plain_index(index) and t._array.ndim:
        return at_tensors(t, (0,), index)  # nothing to walk over
    if kind is tuple and index and len(index) <= t._array.ndim and all(map(is_plain_index, index)):
        return at_tensors(t, tuple(range(len(index))), *index)
    items = parts_of(index)
    view, noted, watched = walk(t, items)
    if not noted:
        if view is not t:
            return view
        return apply(REGISTRY["alias"], (t,))
    if [id(i._array) for i in watched] == [id(array) for array in noted.values()]:
        return at_tensors(view, tuple(noted), *watched)
    return index_with(view, noted, watched)


@step
def at_tensors(t: Any, dims: tuple[int, ...], *index: Any) -> Any:
    """`t` at index tensors, each at its dimension."""
    return index_with(t, {dim: i._array for dim, i in zip(dims, index, strict=True)}, index)


def is_plain_index(item: Any) -> bool:
    """Whether a part of an index is a tensor of places, and no more than that."""
    if not isinstance(item, TensorBase) or item._special:
        return False
    return item._array.dtype is I64 and bool(item._array.ndim)


def put(t: Any, index: Any, value: Any) -> None:
    """`t[index] = value`."""
    if quick_put(t, index, value):
        return
    kind = type(index)
    items = (index,) if kind is int or kind is slice else parts_of(index)
    source = as_value(t, value)
    if not t._array.ndim and kind in BASIC:
        raise scalar_index(index)
    if index is False:
        return
    if index is True:  # a view with one more dimension, not an index array
        copy_into(apply(REGISTRY["unsqueeze"], (t,), (0,)), source)
        return
    noted: dict[int, Any]
    if 0 < len(items) <= t._array.ndim and all(map(is_plain_index, items)):
        view, noted, watched = t, {dim: i._array for dim, i in enumerate(items)}, items
    else:
        # A part that is a full slice makes no view: `t[:] = …` writes `t` itself.
        view, noted, watched = walk(t, items)
    if not noted:
        copy_into(view, source)
        return
    shape = source._array.shape
    if shape and shape[0] == 1:
        source = apply(REGISTRY["view"], (source,), (trimmed(shape),))
    put_with(view, noted, source, False, watched)


def quick_put(t: Any, index: Any, value: Any) -> bool:
    """Write into a float tensor that needs no gradient, as NumPy does; False where there may be
    more to it.

    A number or a tensor of the same dtype, at ints and slices, at index tensors, or (a number) at a
    mask.
    """
    if t._wants_grad or t._special or ACTIVE.modes or STATE.timing or STATE.anomaly:
        return False
    array = t._array
    view = t._view_of
    cell = t._cell
    if array.dtype is not F32 and array.dtype is not F64:
        return False
    if (view is not None and view.base._wants_grad) or (cell is not None and cell.inference):
        return False
    if view is not None and shares_itself(array):
        return False
    source = value
    name = "fill_"
    if isinstance(value, TensorBase):
        source = plain_source(value, array)
        if source is None:
            return False
        name = "copy_" if source.ndim else "fill_"
    elif (type(value) is not float and type(value) is not int) or not -9e18 < value < 9e18:
        return False
    items = index if type(index) is tuple else (index,)
    if items and isinstance(items[0], TensorBase):
        name = "index_put_"
        if len(items) == 1 and source is value and is_full_mask(index, array):
            items = (index._array,)
        elif all(map(is_plain_index, items)) and not any([meets(array, i._array) for i in items]):
            items = tuple([i._array for i in items])
        else:
            return False
    else:
        for item in items:
            if type(item) is not int and (type(item) is not slice or item.step is not None):
                return False
    try:
        array[items] = source
    except (IndexError, TypeError, ValueError):
        return False  # the long way knows what to say
    bump(t, name, False)
    return True


def plain_source(value: Any, array: Any) -> Any:
    """The array of a tensor without history, of the dtype of another array and apart from it."""
    found = value._array
    view = value._view_of
    if value._special or value._wants_grad or (view is not None and view.base._wants_grad):
        return None
    return None if found.dtype is not array.dtype or meets(array, found) else found


def is_full_mask(index: Any, array: Any) -> bool:
    """Whether an index is a mask of the shape of an array."""
    if not isinstance(index, TensorBase) or index._special:
        return False
    mask = index._array
    return mask.dtype.kind == "b" and bool(mask.ndim) and mask.shape == array.shape


def copy_into(view: Any, source: Any) -> None:
    """Write `source` over all of `view`; its leading ones do not count."""
    if STATE.device_type is not None and is_device(source) and not is_device(view):
        source = source.cpu()
    shape = source._array.shape
    target = view._array.shape
    if shape != target:
        if not shape:
            view.fill_(source)
            return
        source = apply(REGISTRY["view"], (source,), (trimmed(shape),))
        if source._array.shape != target:
            source = source.expand(target)
    view.copy_(source)


def trimmed(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape without its leading ones."""
    ones = 0
    while ones < len(shape) and shape[ones] == 1:
        ones += 1
    return shape[ones:]


def as_value(t: Any, value: Any) -> Any:
    """The right-hand side of an assignment as a tensor; numbers take the dtype of `t`."""
    if isinstance(value, TensorBase):
        return value
    dtype = t._array.dtype
    if isinstance(value, (bool, int, float, complex, np.integer)):
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise ValueError("Overflow when unpacking long long")
        if dtype.itemsize == 2 and dtype.kind in "fV":
            # Half precision gets the number by way of double, where it becomes infinite.
            with np.errstate(over="ignore"):
                return same_always(wrap(rounded_to(number_as_array(F64, value), dtype)))
        return same_always(wrap(number_as_array(dtype, value)))
    name = dtypes.of(dtype).scalar_type
    raise TypeError(f"can't assign a {type_name(value)} to a torch.{name}Tensor")


# ---------------------------------------------------------------------- reading an index


def parts_of(index: Any) -> tuple[Any, ...]:
    """The index as a tuple, one part per dimension or so."""
    kind = type(index)
    if isinstance(index, tuple):
        return index
    if isinstance(index, TensorBase):
        return (index,)
    if kind is list or (
        hasattr(index, "__getitem__")
        and hasattr(index, "__len__")
        and not isinstance(index, (TensorBase, ndarray, np.generic, dict))
    ):
        if len(index) < 32 and any([stands_for_a_dim(item) for item in index]):
            warn(NOT_A_TUPLE, UserWarning)
            return tuple(index)
    return (index,)


def stands_for_a_dim(item: Any) -> bool:
    """Whether a list with this item is meant as a tuple (a habit from old NumPy)."""
    if item is None or item is Ellipsis:
        return True
    return isinstance(item, (TensorBase, slice, list, tuple, range, str, ndarray))


def walk(t: Any, items: tuple[Any, ...]) -> tuple[Any, dict[int, Any], tuple[Any, ...]]:
    """The view that the basic parts make, the index arrays by dimension, the tensors among them."""
    ndim = t._array.ndim
    used = len(items)
    if not all([type(item) in BASIC for item in items]):
        items = tuple([index_part(item) for item in items])
        used = sum([dims_of(item) for item in items])
    if used > ndim:
        raise IndexError(f"too many indices for tensor of dimension {ndim}")
    noted: dict[int, Any] = {}
    watched: list[Any] = []
    dim = 0
    for place, item in enumerate(items):
        kind = type(item)
        if kind is int:
            t = select_at(t, dim, item, place)
        elif kind is slice:
            start, stop, step = bounds(item, t._array.shape[dim])
            whole = not start and step == 1 and stop == t._array.shape[dim]
            # Bounds counted from the end make a view even of everything, as in PyTorch.
            if not whole or item.start or (item.stop is not None and item.stop < 0):
                t = apply(REGISTRY["slice"], (t,), (dim, start, stop, step))
            dim += 1
        elif item is None:
            t = apply(REGISTRY["unsqueeze"], (t,), (dim,))
            dim += 1
        elif item is Ellipsis:
            dim += ndim - used
        elif kind is bool:
            t = apply(REGISTRY["unsqueeze"], (t,), (dim,))
            noted[dim] = np.zeros(1 if item else 0, np.int64)
            dim += 1
        elif kind is str:
            raise TypeError("new(): invalid data type 'str'")
        else:
            if kind is ndarray:
                item = wrap(item)
            array = item._array
            watched.append(item)
            if array.ndim == 0 and array.dtype.kind in "iub" and not is_batched(item):
                Unrepeated.count += 1  # its value is read
                if array.dtype.kind == "b" or array.dtype == U8:
                    t = apply(REGISTRY["unsqueeze"], (t,), (dim,))
                    noted[dim] = np.zeros(1 if array else 0, np.int64)
                    dim += 1
                else:
                    watched.pop()
                    t = select_at(t, dim, int(array), place)
            else:
                noted[dim] = array
                dim += array.ndim if is_mask(array) else 1
    return t, noted, tuple(watched)


def index_part(item: Any) -> Any:
    """One part of an index as int, bool, slice, None, Ellipsis, tensor or index array."""
    kind = type(item)
    if kind is int or kind is slice or item is None or item is Ellipsis or kind is bool:
        return item
    if kind is str:
        return item  # refused when it is its turn
    if isinstance(item, TensorBase):
        return item
    if isinstance(item, ndarray):
        if kind is not ndarray:  # a matrix, a masked array: the plain array of its memory
            item = ndarray.view(item, ndarray)
        dtypes.of(item.dtype.newbyteorder("="))  # refuses objects, dates, long doubles
        if item.ndim == 0 and item.dtype.kind in "iu":
            return int(item)
        return item if item.dtype.kind == "b" or item.dtype == np.uint8 else item.astype(np.int64)
    if isinstance(item, (int, np.integer)):
        return int(item)
    if (
        hasattr(item, "__getitem__")
        and hasattr(item, "__len__")
        and not isinstance(item, (dict, np.generic, type))
    ):
        return from_sequence(item)
    raise IndexError(
        "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid "
        f"indices (got {type_name(item)})"
    )


def from_sequence(items: Any) -> Any:
    """An index array from a list or a range: bools are a mask, all else is truncated to int64."""
    if isinstance(items, range):
        return np.arange(items.start, items.stop, items.step, dtype=np.int64)
    if any([isinstance(v, TensorBase) for v in items]):
        items = [to_host(v._array) if isinstance(v, TensorBase) else v for v in items]
    try:
        array = np.asarray(items)
    except ValueError:  # rows of several lengths
        array = None
    if array is None or array.dtype.kind not in "ib":
        shape_of(items)
        infer(items)  # PyTorch's words for what is no number
        return to_array(items, I64)  # truncates floats
    if array.dtype.kind == "b":
        return array
    return array.astype(np.int64)


def type_name(value: Any) -> str:
    """The name of a type as C has it: NumPy's carry their module."""
    kind = type(value)
    return f"numpy.{kind.__name__}" if kind.__module__ == "numpy" else kind.__name__


def dims_of(item: Any) -> int:
    """How many dimensions of the tensor one part of an index uses up."""
    if item is None or item is Ellipsis or type(item) is bool:
        return 0
    if isinstance(item, TensorBase):
        item = item._array
    return item.ndim if hasattr(item, "dtype") and is_mask(item) else 1


def is_mask(array: Any) -> bool:
    return bool(array.dtype.kind == "b" or array.dtype == U8)


def scalar_index(index: Any) -> Exception:
    if type(index) is slice:
        bounds(index, 0)  # which may complain about the step
        return IndexError("slice() cannot be applied to a 0-dim tensor.")
    if index:
        return IndexError(f"index {index} is out of bounds for dimension 0 with size 0")
    return IndexError(
        "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in "
        "C++ to convert a 0-dim tensor to a number"
    )


def select_at(t: Any, dim: int, index: int, place: int) -> Any:
    """The view at `index` of `dim`; errors name the `place` of the index in its tuple."""
    shape = t._array.shape
    if not shape:
        raise scalar_index(index)
    size = shape[dim] if dim < len(shape) else 0
    if not -size <= index < size:
        if not -(2**63) <= index < 2**63:
            raise ValueError("Overflow when unpacking long long")
        raise IndexError(f"index {index} is out of bounds for dimension {place} with size {size}")
    return apply(REGISTRY["select"], (t,), (dim, index if index >= 0 else index + size))


def slice_at(t: Any, dim: int, item: slice) -> Any:
    shape = t._array.shape
    if not shape:
        raise scalar_index(item)
    return apply(REGISTRY["slice"], (t,), (dim, *bounds(item, shape[dim])))


# ---------------------------------------------------------------------- applying index arrays


def index_with(t: Any, noted: dict[int, Any], watched: tuple[Any, ...] = ()) -> Any:
    """`t` at index arrays, given by dimension."""
    if BATCHES and has_batched(watched):
        return batched_subscripts.get(t, noted, watched)
    index = complete(t._array.shape, noted)
    if STATE.device_type is not None:
        check_places(t, index)
    try:
        return apply(REGISTRY["index"], (t,), (index,), watched)
    except IndexError:
        explain(t._array.shape, index)
        raise


def put_with(
    t: Any,
    noted: dict[int, Any],
    values: Any,
    accumulate: bool,
    watched: tuple[Any, ...] = (),
    run: Any = write,
) -> Any:
    """`index_put` at index arrays, given by dimension; in place unless `run` says otherwise."""
    if BATCHES and has_batched(watched):
        return batched_subscripts.put(t, noted, values, accumulate, watched, run)
    filling = is_masked_fill(list(noted.values()), values, accumulate)
    if filling and any([a.dtype == U8 for a in noted.values()]):
        raise RuntimeError(
            "masked_fill_ only supports boolean masks, but got mask with dtype unsigned char"
        )
    if run is write:
        refuse(t, False)
        if not filling:
            check_apart(t._array, values._array)
    index = complete(t._array.shape, noted)
    if STATE.device_type is not None:
        check_places(t, index)
    if values._array.dtype != t._array.dtype:
        values = with_dtype_of(t, index, values, filling)
    try:
        out = run(REGISTRY["index_put"], (t, values), (index, accumulate), watched)
        if run is write and filling and shares_itself(t._array):
            warn(EXPANDED["masked_fill"], UserWarning)
        return out
    except (IndexError, ValueError, TypeError):
        check_values(t._array.shape, index, values._array.shape)
        explain(t._array.shape, index)
        raise


def check_values(shape: tuple[int, ...], index: tuple[Any, ...], given: tuple[int, ...]) -> None:
    """Refuse values that do not broadcast to what an index picks, wherever that may be."""
    arrays = tuple([to_host(i) for i in index])
    check_together(shape, arrays)
    first = tuple([a if type(a) is slice or a.dtype.kind == "b" else a * 0 for a in arrays])
    picked = np.broadcast_to(np.empty(()), with_a_first(shape, first))[first].shape
    try:
        fits = np.broadcast_shapes(given, picked) == picked
    except ValueError:
        fits = False
    if not fits:
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(given)} cannot be "
            f"broadcast to indexing result of shape {list(picked)}"
        ) from None


def is_masked_fill(arrays: list[Any], values: Any, accumulate: bool) -> bool:
    """Whether PyTorch takes another way: one element under one mask."""
    if accumulate or len(arrays) != 1 or values._array.size != 1:
        return False
    return bool(is_mask(arrays[0]))


def with_dtype_of(t: Any, index: tuple[Any, ...], values: Any, filling: bool) -> Any:
    """`values` in the dtype of `t`, where PyTorch takes another: one element under one mask."""
    have, want = values._array.dtype, t._array.dtype
    if filling:
        number_as_array(want, to_host(values._array).item())  # which refuses what does not fit
        return values.to(dtypes.of(want))
    check_values(t._array.shape, index, values._array.shape)
    raise RuntimeError(
        "Index put requires the source and destination dtypes match, got "
        f"{dtypes.of(want).scalar_type} for the destination and {dtypes.of(have).scalar_type} "
        "for the source."
    )


def check_places(t: Any, index: tuple[Any, ...]) -> None:
    """Index tensors are where the indexed tensor is, or on the CPU; on a GPU, they are in range."""
    device_type = STATE.device_type
    if type(physical_array(t)) is not device_type:
        if any([type(i) is device_type for i in index]):
            raise RuntimeError(
                "indices should be either on cpu or on the same device as the indexed tensor (cpu)"
            )
        return
    for place, (array, size) in enumerate(places_of(t._array.shape, index)):
        if type(array) is not device_type:
            check_inside(array, place, size)
        elif GPU.watch_range is not None:
            GPU.watch_range(array, -size, size, None)


def complete(shape: tuple[int, ...], noted: dict[int, Any]) -> tuple[Any, ...]:
    """A NumPy index: an array or a full slice per dimension. Masks must have the right shape."""
    if len(noted) == 1:
        for dim, array in noted.items():
            if array.dtype is I64 and array.size and 0 not in shape and dim < len(shape):
                return (*(ALL,) * dim, array)
    index: list[Any] = []
    taken = 0  # dimensions that `index` covers: a mask covers as many as it has
    if any([array.dtype not in INDEX_DTYPES for array in noted.values()]):
        raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
    for dim, array in noted.items():
        index.extend([ALL] * (dim - taken))
        taken = dim
        kind = array.dtype.kind
        if array.dtype == U8:
            warn(BYTE_MASK, UserWarning)
            array = array != 0
            kind = "b"
        if kind == "b":
            for j, size in enumerate(array.shape):
                if dim + j >= len(shape) or size != shape[dim + j]:
                    raise IndexError(
                        f"The shape of the mask {list(array.shape)} at index {j} does not match "
                        f"the shape of the indexed tensor {list(shape)} at index {dim + j}"
                    )
            taken += array.ndim
        else:
            taken += 1
        index.append(array)
    if taken > len(shape):
        raise IndexError(f"too many indices for tensor of dimension {len(shape)} (got {taken})")
    return within_nothing(shape, index) if 0 in shape else tuple(index)


def within_nothing(shape: tuple[int, ...], index: list[Any]) -> tuple[Any, ...]:
    """The index where nothing can be picked: PyTorch only looks at dimensions of size 0 then."""
    check_together(shape, tuple(index))
    places = places_of(shape, tuple(index))
    picks = math.prod(np.broadcast_shapes(*[array.shape for array, _ in places]))
    if picks and any([size == 0 for _, size in places]):
        raise IndexError("index is out of bounds for dimension with size 0")
    return tuple([i if type(i) is slice or i.dtype.kind == "b" else i * 0 for i in index])


def with_a_first(shape: tuple[int, ...], index: tuple[Any, ...]) -> list[int]:
    """The shape, where index arrays go into dimensions of size 0 with one more."""
    sizes = list(shape)
    dim = 0
    for item in index:
        if type(item) is slice or item.dtype.kind != "b":
            sizes[dim] = sizes[dim] if type(item) is slice else max(sizes[dim], 1)
            dim += 1
        else:
            dim += item.ndim
    return sizes


def places_of(shape: tuple[int, ...], index: tuple[Any, ...]) -> list[tuple[Any, int]]:
    """The index arrays, those of masks too, each with the size that it goes into."""
    found: list[tuple[Any, int]] = []
    dim = 0
    for item in index:
        if type(item) is slice:
            dim += 1
        elif item.dtype.kind == "b":
            found += zip(item.nonzero(), shape[dim : dim + item.ndim], strict=True)
            dim += item.ndim
        else:
            found.append((item, shape[dim]))
            dim += 1
    return found


def check_together(shape: tuple[int, ...], index: tuple[Any, ...]) -> None:
    """Refuse index arrays that do not broadcast."""
    shapes = [array.shape for array, _ in places_of(shape, index)]
    try:
        np.broadcast_shapes(*shapes)
    except ValueError:
        raise IndexError(
            "shape mismatch: indexing tensors could not be broadcast together with shapes "
            + ", ".join([str(list(each)) for each in shapes])
        ) from None


def explain(shape: tuple[int, ...], index: tuple[Any, ...]) -> None:
    """Raise PyTorch's sentence for index arrays that NumPy refused, if they are at fault."""
    check_together(shape, index)
    for place, (array, size) in enumerate(places_of(shape, index)):
        check_inside(array, place, size)


def check_inside(array: Any, place: int, size: int) -> None:
    wrong = array[(array < -size) | (array >= size)]
    if wrong.size:
        at = int(wrong.reshape(-1)[0])
        raise IndexError(
            f"index {at} is out of bounds for dimension {place} with size {size}"
        ) from None


def arrays_of(indices: Any, function: str) -> tuple[dict[int, Any], tuple[Any, ...]]:
    """The `indices` argument of `index_put`: index arrays by dimension, and their tensors."""
    if not isinstance(indices, (tuple, list)):
        raise TypeError(
            f"{function}(): argument 'indices' (position 1) must be tuple of Tensors, "
            f"not {type(indices).__name__}"
        )
    noted: dict[int, Any] = {}
    dim = 0
    for place, t in enumerate(indices):
        if not isinstance(t, TensorBase):
            raise no_tensor_in_list(place, 0, t)
        array = t._array if is_batched(t) else as_array(t._array)
        noted[dim] = array
        dim += array.ndim if is_mask(array) else 1
    return noted, tuple(indices)
