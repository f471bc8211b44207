"""Questions about arrays of any device: is it one, what are its values, who owns its memory?

For everything outside the hot core: whatever looks at arrays, but does not compute with them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .base import STATE
from .is_array import is_array
from .lazy_conj import plain
from .strides import Interface, address, memory


def out_of_sight(array: Any) -> bool:
    """Whether the values cannot be read now: they are on a GPU, or the tensor is on meta."""
    return type(array) is STATE.device_type or type(array) is STATE.meta_type


def refuse_meta(aten: str, *tensors: Any) -> None:
    """Raise PyTorch's error for a function that reads values, called on a meta tensor."""
    if any([type(t._array) is STATE.meta_type for t in tensors]):
        from .meta import NO_KERNEL

        raise NotImplementedError(NO_KERNEL.format(aten))


def host(value: Any) -> Any:
    """A NumPy array with the values of an array on any device; other objects unchanged."""
    if type(value) is STATE.bits_type:
        return plain(value)
    if type(value) is not STATE.device_type:
        return value
    from .devices import to_host

    return to_host(value)


def owner_of(array: Any) -> tuple[Any, int]:
    """The object that owns the memory of an array, and its size in bytes."""
    owner = memory(array)
    if isinstance(owner, np.ndarray):
        return owner, owner.nbytes
    # A block of our allocator knows what was asked for, before that was rounded up.
    return owner, getattr(owner, "asked", owner.size)


def root_of(array: Any) -> Any:
    """An array of all the memory that `array` looks at: the one that owns it, if there is one."""
    while True:
        base = array.base
        if isinstance(base, Interface):
            base = base.owner
        if not is_array(base):
            break
        array = base
    if isinstance(array, np.ndarray):
        return array
    # Not every view on a GPU knows its base.
    owner, size = owner_of(array)
    start = owner.ptr - address(array)
    if not start and array.nbytes == size:
        return array
    return type(array)((size,), np.uint8, array.data + start)
