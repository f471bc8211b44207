"""The layout of arrays in memory: views with explicit strides, and the strides of copies.

NumPy forgets the strides of dimensions of size 0 and 1; PyTorch does not, and prints them. Strides
and offsets are in bytes here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .base import STATE
from .host_arrays import host
from .late_bound import HOST_KERNELS

Shape = tuple[int, ...]


def address(array: Any) -> int:
    if type(array) is STATE.device_type:
        return array.data.ptr  # type: ignore[no-any-return]
    try:
        return array.__array_interface__["data"][0]  # type: ignore[no-any-return]
    except AttributeError:  # a BitArray, which shows nobody its memory
        return array.memory.__array_interface__["data"][0]  # type: ignore[no-any-return]


def memory(array: Any) -> Any:
    """The object that owns the memory of an array: one object for all its views."""
    if type(array) is STATE.device_type:
        return array.data.mem
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def contiguous(xp: Any, x: Any) -> Any:
    """The array in C order, copied if it is not; NumPy's results keep the order of their inputs."""
    return x if x.flags.c_contiguous else xp.ascontiguousarray(x)


def iteration_order(shape: Shape, strides: Any) -> list[int]:
    """The dimensions in the order in which PyTorch gives a result memory, the outermost first.

    Dimensions without a stride have no say: they stay where they are unless passed over.
    """
    order = list(range(len(shape) - 1, -1, -1))  # innermost first
    for i in range(1, len(shape)):
        at = i
        for j in range(i - 1, -1, -1):
            inner, outer = strides[order[j]], strides[order[at]]
            if inner == 0 or outer == 0:
                continue
            if inner > outer or (inner == outer and shape[order[j]] > shape[order[at]]):
                order[j], order[at] = order[at], order[j]
                at = j
            elif inner < outer:
                break
    order.reverse()
    return order


def repacked(xp: Any, out: Any) -> Any:
    """A contiguous array; in dimensions of size 1 NumPy would leave any stride as it is."""
    made = xp.ascontiguousarray(out)
    return (made.reshape(-1) if 1 in out.shape else made).reshape(out.shape)


def channels_last(x: Any) -> bool:
    """Whether the channels of a pixel are adjacent in memory, and the pixels in order."""
    least = 0
    for d in (1, *range(x.ndim - 1, 1, -1), 0):
        if x.strides[d] < least or (d == 0 and least == x.strides[1]):
            return False
        least = x.strides[d] * max(x.shape[d], 1)
    return True


def strided(xp: Any, array: Any, shape: Shape, strides: Shape, offset: int = 0) -> Any:
    """A view of the memory of `array` with exactly these strides, `offset` bytes further on."""
    if type(array) is STATE.meta_type:
        plain = array.view(np.ndarray)
        return strided(np, plain, shape, strides, offset).view(STATE.meta_type)
    if xp is not host and xp is not np:
        return xp.ndarray(shape, array.dtype, array.data + offset, strides)
    array = np.asarray(array)  # rules hand over NumPy scalars
    if HOST_KERNELS.strided is not None:
        view = HOST_KERNELS.strided(array, shape, strides, offset)
        if view is not None:
            return view
    if not offset and array.dtype.kind != "V" and array.flags.c_contiguous:
        try:  # mostly the view is within the array itself
            return np.ndarray(shape, array.dtype, array, 0, strides)
        except (ValueError, TypeError):
            pass
    root = array.base
    if isinstance(root, np.ndarray):
        offset += address(array) - address(root)
    else:
        root = array
    root = in_memory_order(root)
    if array.dtype.kind == "V" and root.flags.c_contiguous:
        root = root.reshape(-1).view(np.uint8)  # bfloat16 has no buffer interface
    try:
        return np.ndarray(shape, array.dtype, root, offset, strides)
    except (ValueError, TypeError, BufferError):
        # Memory with gaps, or an empty view past its end.
        offset -= address(array) - address(root)
        flat = np.lib.stride_tricks.as_strided(array, (), ())
        place = (address(flat) + offset, False)
        found = np.asarray(Interface(array, place, shape, strides))
        # An interface cannot name bfloat16: it comes back as bytes of no type.
        return found if found.dtype == array.dtype else found.view(array.dtype)


def stretched(xp: Any, input: Any, shape: Shape) -> Any:
    """A view of an array in which dimensions of size 1 are repeated to those of `shape`."""
    input = xp.asarray(input)
    if not input.ndim:
        return strided(xp, input, shape, (0,) * len(shape))
    strides = [0] * len(shape)
    extra = len(shape) - input.ndim
    own = strides_of(input)
    after = 0  # the stride of a new dimension of size 1
    for d in range(len(shape) - 1, -1, -1):
        n, s = (input.shape[d - extra], own[d - extra]) if d >= extra else (1, after)
        strides[d] = s if n == shape[d] else 0
        after = strides[d] * shape[d]
    return strided(xp, input, shape, tuple(strides))


def in_memory_order(root: Any) -> Any:
    """The array with its dimensions in the order in which they lie in memory."""
    if root.flags.c_contiguous:
        return root
    return root.transpose(sorted(range(root.ndim), key=lambda d: -root.strides[d]))


def as_bytes(xp: Any, root: Any) -> Any:
    """All memory of an array as a flat array of bytes, without copying."""
    flat = in_memory_order(root)
    if not flat.flags.c_contiguous:  # memory that came from elsewhere, with gaps
        low, high = byte_bounds(root)
        item = root.itemsize
        flat = strided(xp, root, ((high - low) // item,), (item,), low - address(root))
    return flat.reshape(-1).view(np.uint8)


def byte_bounds(array: Any) -> tuple[int, int]:
    """The first address of the elements of an array, and the address after the last."""
    low = high = address(array)
    for n, step in zip(array.shape, array.strides, strict=True):
        if step < 0:
            low += (n - 1) * step
        else:
            high += (n - 1) * step
    return low, high + array.itemsize


class Interface:
    """Memory described to NumPy by its address; keeps the owner alive."""

    def __init__(self, owner: Any, place: tuple[int, bool], shape: Shape, strides: Shape) -> None:
        self.owner = owner
        self.__array_interface__ = {
            **owner.__array_interface__,
            "data": place,
            "shape": shape,
            "strides": strides,
        }


def contiguous_strides(shape: Shape, item: int) -> Shape:
    strides = []
    for n in reversed(shape):
        strides.append(item)
        item *= n or 1
    return tuple(reversed(strides))


def strides_of(array: Any) -> Shape:
    """The strides as PyTorch has them: NumPy sets all of them to 0 in a fresh empty array."""
    strides: Shape = array.strides
    if array.size or any(strides):
        return strides
    return contiguous_strides(array.shape, array.itemsize)


def settled(xp: Any, array: Any) -> Any:
    """The array itself; if it is empty, with the strides that its views go by."""
    return array if array.size else strided(xp, array, array.shape, strides_of(array))


def viewed_strides(shape: Shape, strides: Shape, new: Shape, item: int) -> Shape | None:
    """The strides that show the same memory in the shape `new`; None if there are none.

    The old dimensions fall into runs that are evenly spaced in memory; each run has to be cut up by
    new dimensions of its own.
    """
    if 0 in shape:
        return strides if shape == new else contiguous_strides(new, item)
    if not shape:
        return (item,) * len(new)
    made = [0] * len(new)
    left = len(new)
    step = strides[-1]
    run = 1
    for d in range(len(shape) - 1, -1, -1):
        run *= shape[d]
        if d and (shape[d - 1] == 1 or strides[d - 1] == run * step):
            continue
        covered = 1
        while left and (covered < run or new[left - 1] == 1):
            left -= 1
            made[left] = covered * step
            covered *= new[left]
        if covered != run:
            return None
        run = 1
        step = strides[d - 1]
    return None if left else tuple(made)


def is_dense(array: Any) -> bool:
    """Whether the elements fill their memory without gaps and without sharing, in any order."""
    flags = array.flags
    if flags.c_contiguous or flags.f_contiguous:
        return True
    expected = array.itemsize
    for stride, n in sorted(
        [(s, n) for s, n in zip(array.strides, array.shape, strict=True) if n > 1]
    ):
        if stride != expected:
            return False
        expected *= n
    return True


def shares_itself(array: Any) -> bool:
    """Whether two elements certainly are one place in memory."""
    return (
        0 in array.strides
        and array.size > 0
        and any([s == 0 and n > 1 for s, n in zip(array.strides, array.shape, strict=True)])
    )


def meet(x: Any, y: Any) -> bool:
    """Whether one of two arrays of NumPy's begins in memory before the other ends, both ways."""
    if HOST_KERNELS.meet is not None:
        found: bool = HOST_KERNELS.meet(x, y)
        return found
    return np.may_share_memory(x, y)


def overlaps_itself(array: Any) -> bool:
    """Whether elements share memory as overlapping windows do (`unfold`, `as_strided`)."""
    reach = 0  # how far apart the elements of the faster dimensions are
    for stride, n in sorted(zip(array.strides, array.shape, strict=True)):
        if n > 1:
            if stride <= reach:
                return bool(array.size)
            reach += stride * (n - 1)
    return False


def kept_strides(array: Any) -> Shape:
    """The strides of a copy: the array's own if dense, else dense ones in the same order."""
    if is_dense(array):
        return strides_of(array)
    shape, strides = array.shape, array.strides
    order = list(range(len(shape)))[::-1]  # from the fastest dimension to the slowest
    for i in range(1, len(order)):
        at = i
        for j in range(i - 1, -1, -1):
            a, b = order[j], order[at]
            if strides[a] == 0 or strides[b] == 0:
                continue
            if strides[a] > strides[b] or (strides[a] == strides[b] and shape[a] > shape[b]):
                order[j], order[at] = b, a
                at = j
            elif strides[a] < strides[b]:
                break
    made = [0] * len(shape)
    item = array.itemsize
    for d in order:
        made[d] = item
        item *= shape[d] or 1
    return tuple(made)


def empty(xp: Any, shape: Shape, strides: Shape, dtype: Any) -> Any:
    """Fresh memory in which an array with these strides fits."""
    if 0 in shape:
        return strided(xp, xp.empty(0, dtype), shape, strides)
    last = sum([s * (n - 1) for s, n in zip(strides, shape, strict=True)])
    return strided(xp, xp.empty(last // dtype.itemsize + 1, dtype), shape, strides)


def empty_like(xp: Any, array: Any, dtype: Any = None) -> Any:
    """Fresh memory for a copy of `array`, laid out as PyTorch's `preserve_format` says."""
    dtype = array.dtype if dtype is None else dtype
    strides = kept_strides(array)
    if dtype.itemsize != array.itemsize:
        strides = tuple([s // array.itemsize * dtype.itemsize for s in strides])
    made = xp.empty_like(array, dtype=dtype)
    return made if made.strides == strides else empty(xp, array.shape, strides, dtype)
