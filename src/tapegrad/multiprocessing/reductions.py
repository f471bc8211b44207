"""Tensors through the queues and pipes of `multiprocessing`: in shared memory, not by value.

Shared memory is a file without a name that lives in memory. What is sent is its descriptor and how
the tensor looks at it; the kernel frees it with its last user. As in PyTorch, a tensor that is sent
moves into shared memory itself, so that both sides see what either writes. A tensor whose memory
other tensors look at too cannot move without leaving them behind: it is sent as a copy.
"""

from __future__ import annotations

import weakref
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np

import tapegrad as tg

from ..core.array_kind import root_of
from ..core.base import wrap
from ..core.lazy_conj import memory_behind, with_bits, with_bits_of
from ..core.references import references
from ..core.strides import address, strided
from ..storage import SharedMap, UntypedStorage, in_new_shared_memory, shared_map_of
from ..utils.data._utils.transfer import NON_LEAF

# The memory that came from other processes and is in use, by the identity of its file: two tensors
# that shared memory there share it here.
RECEIVED: weakref.WeakValueDictionary[Any, SharedMap] = weakref.WeakValueDictionary()
# References to an array that only a tensor and a local variable hold.
ALONE = 2


def in_shared_memory(t: Any) -> tuple[Any, SharedMap]:
    """The array of a tensor in shared memory, and that memory."""
    array = t._array
    found = shared_map_of(array)
    if found is not None:
        return memory_behind(array), found
    memory = memory_behind(array)
    moves = memory is array and array.base is None and references(array) <= ALONE + 1
    made = in_new_shared_memory(memory)
    if moves:
        t._array = with_bits_of(array, made)
    found = shared_map_of(made)
    if found is None:
        raise RuntimeError("unable to open shared memory: too many open files (24)")
    return made, found


def reduce_tensor(t: Any) -> Any:
    """How a tensor is sent to another process."""
    if t.requires_grad and not t.is_leaf:
        raise RuntimeError(NON_LEAF)
    if type(t._array) is not np.ndarray and not isinstance(memory_behind(t._array), np.ndarray):
        return t.__reduce_ex__(2)  # on a GPU, or without values: by value
    array, memory = in_shared_memory(t)
    start = address(array) - memory.start()
    if array.size == 0:
        start = 0
    layout = (tg.dtypes.of(array.dtype), array.shape, array.strides, start)
    facts = (t.is_conj(), t.is_neg(), t.requires_grad)
    return rebuild_tensor, (type(t), memory.handle(), len(memory), layout, facts)


def rebuild_tensor(cls: Any, handle: Any, size: int, layout: Any, facts: Any) -> Any:
    """The tensor on this side."""
    dtype, shape, strides, start = layout
    conj, neg, requires_grad = facts
    memory = received(handle, size)
    whole = np.ndarray((size,), np.uint8, memory)
    items = whole[: size // dtype.itemsize * dtype.itemsize].view(dtype.np)
    array = np.empty(shape, dtype.np)
    if array.size:
        array = strided(np, items, shape, strides, start)
    made: Any = wrap(with_bits(array, conj, neg))
    if cls is tg.nn.Parameter:
        return tg.nn.Parameter(made, requires_grad)
    return made.requires_grad_(requires_grad)


def received(handle: Any, size: int) -> SharedMap:
    memory = SharedMap.of_file(handle.detach(), size)
    known = RECEIVED.get(memory.identity())
    if known is not None:
        return known
    RECEIVED[memory.identity()] = memory
    return memory


def reduce_storage(storage: UntypedStorage) -> Any:
    flat = wrap(storage.untyped().bytes())
    return rebuild_storage, reduce_tensor(flat)[1]


def rebuild_storage(*parts: Any) -> UntypedStorage:
    return UntypedStorage(root_of(rebuild_tensor(*parts)._array))


def init_reductions() -> None:
    """Teach the pickler of `multiprocessing` about tensors."""
    if not SharedMap.possible:
        return
    for cls in (tg.Tensor, tg.nn.Parameter):
        ForkingPickler.register(cls, reduce_tensor)
    ForkingPickler.register(UntypedStorage, reduce_storage)
