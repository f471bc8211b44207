"""Functions that unpickling calls to make tensors, with PyTorch's names and arguments.

The arguments come from files: they are checked before any memory is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tapegrad as tg
from tapegrad import dtypes
from tapegrad._serialization.storage_bytes import brief
from tapegrad.api.tensor.conversion import TypedStorage, UntypedStorage
from tapegrad.core.base import wrap
from tapegrad.core.devices import xp_of
from tapegrad.core.lazy_conj import with_bits
from tapegrad.core.modes import MODES
from tapegrad.core.strides import as_bytes, strided

LIMIT = 2**62


def checked_ints(what: str, values: Any) -> tuple[int, ...]:
    if not isinstance(values, (tuple, list)) or not all([type(v) is int for v in values]):
        raise TypeError(f"a tensor's {what} has to be a tuple of ints, got {brief(values)}")
    return tuple(values)


def view_of_storage(storage: Any, dtype: Any, offset: Any, size: Any, stride: Any) -> Any:
    """The array of that size and stride, which has to lie within the storage."""
    sizes, steps = checked_ints("size", size), checked_ints("stride", stride)
    if type(offset) is not int or offset < 0:
        raise RuntimeError(f"Tensor: invalid storage offset {brief(offset)}")
    if len(sizes) != len(steps):
        raise RuntimeError(
            f"mismatch in length of strides and shape: {len(steps)} and {len(sizes)}"
        )
    item = dtype.itemsize
    count = last = 1
    for n, step in zip(sizes, steps, strict=True):
        count *= n
        last += (n - 1) * step
    if min((*sizes, *steps, 0)) < 0 or max(count, last) * item > LIMIT or len(sizes) > 64:
        raise RuntimeError(
            f"Storage size calculation overflowed with sizes={list(sizes)} and "
            f"strides={list(steps)}"
        )
    if not isinstance(storage, UntypedStorage):
        raise TypeError(f"a tensor is made of a storage, got {type(storage).__name__}")
    root = storage.owner
    if root.dtype is not dtype.np:
        whole = root.nbytes // item * item
        root = as_bytes(xp_of(root), root)[:whole].view(dtype.np)
    if count and (offset + last) * item > root.nbytes:
        raise RuntimeError(
            f"setStorage: sizes {list(sizes)}, strides {list(steps)}, storage offset {offset}, "
            f"and itemsize {item} requiring a storage size of {(offset + last) * item} are out of "
            f"bounds for storage of size {root.nbytes}"
        )
    if not count and offset > root.size:
        offset = 0
    return strided(xp_of(root), root, sizes, tuple([s * item for s in steps]), offset * item)


def dtype_of(storage: Any) -> dtypes.dtype:
    return storage.dtype if isinstance(storage, TypedStorage) else dtypes.uint8


def adopt(array: Any, requires_grad: Any) -> Any:
    """A tensor around an array that was read from a file."""
    t: Any = wrap(array)
    cell = t._version_cell()
    cell.n = 1  # PyTorch points an empty tensor at the memory, and counts that as a write
    cell.inference = MODES.inference
    return t.requires_grad_(requires_grad)


def _rebuild_tensor(storage: Any, storage_offset: Any, size: Any, stride: Any) -> Any:
    """A tensor on the memory of a storage."""
    array = view_of_storage(storage, dtype_of(storage), storage_offset, size, stride)
    return adopt(array, False)


def _rebuild_tensor_v2(
    storage: Any,
    storage_offset: Any,
    size: Any,
    stride: Any,
    requires_grad: Any,
    backward_hooks: Any,
    metadata: Any = None,
) -> Any:
    """`_rebuild_tensor` with autograd's data, and the bits of conjugate and negative views."""
    array = view_of_storage(storage, dtype_of(storage), storage_offset, size, stride)
    return adopt(signed(array, metadata), requires_grad)


def _rebuild_tensor_v3(
    storage: Any,
    storage_offset: Any,
    size: Any,
    stride: Any,
    requires_grad: Any,
    backward_hooks: Any,
    dtype: Any,
    metadata: Any = None,
) -> Any:
    """`_rebuild_tensor` for dtypes that have no storage class: the storage holds bytes."""
    if type(dtype) is not dtypes.dtype:
        raise TypeError(f"expected a torch.dtype, got {type(dtype).__name__}")
    array = view_of_storage(storage, dtype, storage_offset, size, stride)
    return adopt(signed(array, metadata), requires_grad)


def signed(array: Any, metadata: Any) -> Any:
    if not isinstance(metadata, dict):
        return array
    return with_bits(array, bool(metadata.get("conj")), bool(metadata.get("neg")))


def checked_tensor(data: Any) -> Any:
    if not isinstance(data, tg.Tensor):
        raise TypeError(f"a Parameter is made of a Tensor, got {type(data).__name__}")
    return data


def _rebuild_meta_tensor_no_storage(dtype: Any, size: Any, stride: Any, requires_grad: Any) -> Any:
    """A tensor without values."""
    shape, steps = checked_ints("size", size), checked_ints("stride", stride)
    return tg.empty_strided(
        shape, steps, dtype=dtype, device="meta", requires_grad=bool(requires_grad)
    )


def _rebuild_parameter(data: Any, requires_grad: Any, backward_hooks: Any) -> Any:
    return tg.nn.Parameter(checked_tensor(data), requires_grad)


def _rebuild_parameter_with_state(
    data: Any, requires_grad: Any, backward_hooks: Any, state: Any
) -> Any:
    made = tg.nn.Parameter(checked_tensor(data), requires_grad)
    set_state(made, state)
    return made


def _rebuild_from_type_v2(func: Any, new_type: Any, args: Any, state: Any) -> Any:
    """A tensor of a subclass, or with attributes that a user gave it."""
    if func not in REBUILDERS or not isinstance(new_type, type):
        raise TypeError(f"cannot make a {brief(new_type)} of {brief(func)}")
    made = func(*args)
    if type(made) is not new_type:
        if not issubclass(new_type, tg.Tensor):
            raise TypeError(f"{new_type.__name__} is no subclass of Tensor")
        made = made.as_subclass(new_type)
    own = of_its_own(new_type, "__setstate__")
    if own is not None:
        own(made, state)
    else:
        set_state(made, state)
    return made


def slot_names(cls: type) -> list[str]:
    """The slots that subclasses of Tensor declare."""
    found: list[str] = []
    for part in cls.__mro__:
        if part is tg.Tensor:
            break
        names = part.__dict__.get("__slots__", ())
        found += [names] if isinstance(names, str) else names
    return [n for n in found if n not in ("__dict__", "__weakref__")]


def of_its_own(cls: type, name: str) -> Any:
    """A method that a subclass of Tensor brings; the compiled base has some that mypyc made."""
    found = getattr(cls, name, None)
    return None if found is getattr(tg.Tensor, name, None) else found


def get_state(t: Any) -> Any:
    """The attributes of a tensor: a dict, or a pair where its class has slots."""
    own = of_its_own(type(t), "__getstate__")
    if own is not None:
        return own(t)
    state = {k: v for k, v in t.__dict__.items() if k != "_dual"}  # the tangent stays here
    slots = {n: getattr(t, n) for n in slot_names(type(t)) if hasattr(t, n)}
    return (state, slots) if slots else state


def set_state(t: Any, state: Any) -> None:
    """Give a tensor the attributes that `get_state` found, and no others."""
    slots: Any = {}
    if isinstance(state, tuple) and len(state) == 2:
        state, slots = state
    state, slots = state or {}, slots or {}
    if not (isinstance(state, dict) and isinstance(slots, dict)):
        raise RuntimeError(f"Invalid serialized state: {brief(state)}")
    if not all([isinstance(name, str) and name != "_dual" for name in state]):
        raise RuntimeError(f"Invalid names of attributes: {brief(state)}")
    if not set(slots) <= set(slot_names(type(t))):
        raise RuntimeError(f"{type(t).__name__} does not have the slots {brief(slots)}")
    t.__dict__.update(state)
    for name, value in slots.items():
        setattr(t, name, value)


# What a pickle may call on the way to a tensor of a subclass.
REBUILDERS = (
    _rebuild_tensor,
    _rebuild_tensor_v2,
    _rebuild_tensor_v3,
    _rebuild_meta_tensor_no_storage,
    _rebuild_parameter,
    _rebuild_parameter_with_state,
)


def _get_available_device_type() -> str | None:
    """The kind of accelerator that there is; None without one."""
    import tapegrad as tg

    return "cuda" if tg.cuda.is_available() else None


def _get_device_module(device_type: str) -> Any:
    """`torch.cuda` for "cuda"."""
    import tapegrad as tg

    found = getattr(tg, device_type, None)
    if found is None:
        raise RuntimeError(
            f"Device '{device_type}' does not have a corresponding module registered as "
            f"'torch.{device_type}'."
        )
    return found


def _flatten_dense_tensors(tensors: Any) -> Any:
    """The elements of several tensors in one of a single dimension; of one tensor, a view."""
    rows = [t.contiguous().view(-1) for t in tensors]
    return rows[0] if len(rows) == 1 else tg.cat(rows)


def _unflatten_dense_tensors(flat: Any, tensors: Any) -> tuple[Any, ...]:
    """Views of a flat tensor with the shapes of others, one after the other; empty ones are new."""
    found = []
    offset = 0
    for t in tensors:
        count = t.numel()
        if count:
            found.append(flat.narrow(0, offset, count).view(t.shape))
        else:
            found.append(tg.empty(t.shape, dtype=flat.dtype, device=flat.device))
        offset += count
    return tuple(found)


def _element_size(dtype: Any) -> int:
    """The bytes of an element."""
    if not isinstance(dtype, dtypes.dtype):
        raise RuntimeError(f"expected torch.dtype, but got {type(dtype)}")
    return dtype.itemsize


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    """Which device of its kind is meant."""
    import tapegrad as tg

    if isinstance(device, int):
        return device
    found = tg.device(device) if isinstance(device, str) else device
    if isinstance(found, tg.device):
        if not allow_cpu and found.type == "cpu":
            raise ValueError(f"Expected a non cpu device, but got: {found}")
        if found.type == "cpu":
            return -1
        if found.index is not None:
            return int(found.index)
    if optional:
        return int(tg.cuda.current_device()) if tg.cuda.is_available() else -1
    raise ValueError(
        f"Expected a torch.device with a specified index or an integer, but got:{device}"
    )


def _take_tensors(tensors: Any, size_limit: int) -> Iterator[list[Any]]:
    """The tensors in groups of one type, of at most `size_limit` bytes where that is possible."""
    groups: dict[str, tuple[list[Any], int]] = {}
    for t in tensors:
        size = t.numel() * t.element_size()
        group, full = groups.get(t.type(), ([], 0))
        if full and full + size > size_limit:
            yield group
            group, full = [], 0
        group.append(t)
        groups[t.type()] = group, full + size
    yield from [group for group, _ in groups.values()]


def _reorder_tensors_as(tensors: Any, ordered_tensors: Any) -> tuple[Any, ...]:
    """Tensors that `_take_tensors` has sorted by type, in the order of the types as they were."""
    found: dict[str, list[Any]] = {}
    for t in tensors:
        found.setdefault(t.type(), []).append(t)
    left = {kind: iter(group) for kind, group in found.items()}
    return tuple([next(left[t.type()]) for t in ordered_tensors])
