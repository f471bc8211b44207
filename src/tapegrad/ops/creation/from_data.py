"""Tensors from data: lists, numbers, arrays, buffers, other tensors; and questions about them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import dtypes
from ...core import promote
from ...core.base import STATE, Cut, TensorBase
from ...core.devices import sent
from ...core.late_bound import ON_DEMAND
from ...core.transforms.batched import CONTROL_FLOW, is_batched, refusal
from ...core.warned import warn
from ...device import device as device_type
from ...storage import TypedStorage, UntypedStorage, mapped_file
from ..block.definition import Case, api
from ..block.samples import Draw, Index
from . import arrays as from_data
from .arguments import checked_device, np_dtype
from .sized import MISSING, check_options, checked_tensor, home, made, pinned

COPY_WARNING = (
    "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
    "sourceTensor.detach().clone().requires_grad_(True), rather than {}(sourceTensor)."
)
READ_ONLY = (
    "The given {0} is not writable, and PyTorch does not support non-writable tensors. This means "
    "{1}. You may want to copy the {2} to protect its data or make it writable before converting "
    "it to a tensor. This type of warning will be suppressed for the rest of this program."
)


def has_cuda_interface(value: Any) -> bool:
    """Whether a value describes memory on a GPU; a class that has the property does not."""
    found = hasattr(value, "__cuda_array_interface__")
    if found and isinstance(value, type):
        raise TypeError("`__cuda_array_interface__` must be a dict")
    return found


@api(method=False, direct=True, follows=True)
def tensor(
    *data: Any,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    **kwargs: Any,
) -> Any:
    """tensor(data, *, dtype=None, device=None, requires_grad=False) -> Tensor: a new tensor with
    the values of `data`, copied.

    >>> tensor([[1, 2], [3, 4]])
    tensor([[1, 2],
            [3, 4]])
    """
    if not data and "data" in kwargs:
        data = (kwargs.pop("data"),)
    for name in kwargs:
        raise TypeError(f"tensor() got an unexpected keyword argument '{name}'")
    if len(data) != 1:
        if data:
            raise TypeError(f"tensor() takes 1 positional argument but {len(data)} were given")
        raise TypeError('tensor() missing 1 required positional arguments: "data"')
    return from_any(data[0], "tensor", "torch.tensor", dtype, device, requires_grad, pin_memory)


def from_any(
    data: Any,
    function: str,
    spelled: str,
    dtype: Any,
    device: Any,
    requires_grad: bool,
    pin_memory: bool,
) -> Any:
    """A leaf with a copy of `data`."""
    wanted = np_dtype(dtype, function)
    check_options(function, device, None, pin_memory)
    if isinstance(data, TensorBase):
        if is_batched(data):
            data.detach_()  # which PyTorch does to the copy, and refuses  # type: ignore[attr-defined]
        warn(COPY_WARNING.format(spelled), UserWarning)
    # Nothing but Python numbers, most of the time: then there is no history to look for.
    array = from_data.quick(data, wanted) if type(data) in (list, tuple) else None
    if array is not None:
        return made(settled(array, device, pin_memory), requires_grad)
    if isinstance(data, UntypedStorage):
        array = on_storage(data, wanted)
    elif has_cuda_interface(data) and not isinstance(data, TensorBase):
        array = from_data.cast_array(from_device(data), wanted, copy=True)
    else:
        array = from_data.to_array(data, wanted)
    if device is not None or pin_memory or not isinstance(data, TensorBase):
        array = settled(array, device, pin_memory)
    t = made(array, requires_grad)
    if not requires_grad:
        t._cut = lost_history(data)
    return t


def settled(array: Any, device: Any, pin_memory: bool = False) -> Any:
    """A new array on the device that was asked for; without a name, where it is."""
    if device is not None and STATE.elsewhere:
        array = sent(array, home(device))
    if not pin_memory:
        return array
    found = pinned(array.shape, None, array.dtype)
    found[...] = array
    return found


def on_storage(storage: UntypedStorage, wanted: Any) -> Any:
    """The memory of a storage as numbers of a dtype, which must be that of a typed storage.

    Without a name that is the default dtype for a typed storage, and int64 for bytes.
    """
    if isinstance(storage, TypedStorage):
        wanted = wanted or dtypes.default_np()
        if storage.dtype.np != wanted:
            raise RuntimeError(
                f"Expected a Storage of type {dtypes.of(wanted).scalar_type} or an "
                f"UntypedStorage, but got {storage.dtype.scalar_type}"
            )
    wanted = wanted or np.dtype(np.int64)
    memory = storage.untyped().bytes()
    return memory[: memory.size // wanted.itemsize * wanted.itemsize].view(wanted)


def from_device(data: Any) -> Any:
    """The array of another library on a GPU, as CuPy sees it; no copy."""
    from ...cuda import runtime

    return runtime.start().asarray(data)


def lost_history(data: Any, depth: int = 0) -> Any:
    """A tombstone where the data held tensors with a history that the copy does not have."""
    if isinstance(data, TensorBase):
        return Cut("tensor") if data._wants_grad else data._cut
    if type(data) not in (list, tuple) or depth > 8:
        return None
    # Tensors among the data come early: numbers first means numbers everywhere, nearly always.
    for value in data[:64]:
        found = lost_history(value, depth + 1)
        if found is not None:
            return found
    return None


@api(function=False, direct=True)
def new_tensor(
    self: Any,
    data: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
) -> Any:
    """new_tensor(data, *, dtype=None, requires_grad=False) -> Tensor: a copy in self's dtype.

    >>> tensor([1.0]).new_tensor([1, 2])
    tensor([1., 2.])
    """
    return from_any(
        data,
        "new_tensor",
        "tensor.new_tensor",
        dtype or dtypes.of(self._array.dtype),
        device,
        requires_grad,
        pin_memory,
    )


@api(method=False, direct=True, follows=True)
def as_tensor(data: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """as_tensor(data, *, dtype=None) -> Tensor: `data` as a tensor, shared where it can be.

    >>> a = tensor([1.0])
    >>> as_tensor(a) is a
    True
    """
    wanted = np_dtype(dtype, "as_tensor")
    if isinstance(data, TensorBase):
        if device is not None:
            return data.to(device, dtype)  # type: ignore[attr-defined]
        return data if dtype is None else data.to(dtype)  # type: ignore[attr-defined]
    checked_device(device, "as_tensor")
    if isinstance(data, UntypedStorage):
        array = on_storage(data, wanted)
    elif isinstance(data, np.ndarray):
        array = from_data.cast_array(shareable(data), wanted, copy=False)
    elif has_cuda_interface(data):
        array = from_data.cast_array(from_device(data), wanted, copy=False)
    else:
        array = from_data.to_array(data, wanted)
    t = made(settled(array, device))
    return borrowed(t) if t._array is data else t


@api(method=False, direct=True, follows=True)
def asarray(
    obj: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    copy: bool | None = None,
    requires_grad: bool = False,
) -> Any:
    """asarray(obj, *, dtype=None, copy=None, requires_grad=False) -> Tensor: `obj` as a tensor,
    sharing its memory where possible.

    >>> asarray([1, 2])
    tensor([1, 2])
    """
    wanted = np_dtype(dtype, "asarray")
    checked_device(device, "asarray")
    source: Any = None
    if isinstance(obj, TensorBase):
        source = obj
    elif isinstance(obj, UntypedStorage):
        source = made(on_storage(obj, wanted))
    elif has_cuda_interface(obj):
        source = made(from_device(obj))
    elif isinstance(obj, (np.ndarray, np.generic)):
        source = borrowed(made(shareable(np.asarray(obj))))
    elif hasattr(obj, "__dlpack__"):
        source = made(ON_DEMAND.from_dlpack(obj))
    elif isinstance(obj, (bytes, bytearray, memoryview)):
        source = frombuffer(obj, dtype=dtype or dtypes.get_default_dtype())
    if source is None:
        if copy is False:
            raise ValueError("can't alias arbitrary sequence into a tensor.")
        return made(settled(from_data.to_array(obj, wanted), device), requires_grad)
    if device is not None and source.device != device_type(device):
        if copy is False:
            raise ValueError(
                f"can't alias tensor from device '{source.device}' to '{device_type(device)}'."
            )
        source = source.to(device)
        copy = None
    if wanted is not None and wanted != source._array.dtype:
        if copy is False:
            have, want = dtypes.of(source._array.dtype), dtypes.of(wanted)
            raise ValueError(
                f"can't alias tensor with dtype '{have.scalar_type}' into dtype "
                f"'{want.scalar_type}'."
            )
        source = source.to(dtypes.of(wanted))
    elif copy:
        source = source.clone()
    if source.requires_grad and not requires_grad:
        source = source.detach()
    elif requires_grad and not source.requires_grad:
        source = made(source._array, True)
    return source


def shareable(array: Any) -> Any:
    """`array` if a tensor can share its memory; a warning if it is read-only."""
    array = from_data.checked_array(array)
    if not array.flags.writeable:
        from_data.warn_once(
            READ_ONLY.format(
                "NumPy array",
                "writing to this tensor will result in undefined behavior",
                "array",
            ),
        )
    known = dtypes.of(array.dtype).np
    return array if array.dtype is known else array.view(known)  # NumPy unpickles equal ones


@api(method=False)
def from_numpy(array: Any) -> Any:
    """from_numpy(ndarray) -> Tensor: a tensor that shares the memory of a NumPy array.

    >>> import numpy
    >>> from_numpy(numpy.array([1, 2]))
    tensor([1, 2])
    """
    if not isinstance(array, np.ndarray):
        kind = type(array)
        spelled = (
            kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
        )
        raise TypeError(f"expected np.ndarray (got {spelled})")
    return borrowed(made(shareable(array)))


def borrowed(t: Any) -> Any:
    """Note that the memory of a new tensor belongs to somebody else, so it cannot be resized."""
    t._version_cell().borrowed = True
    return t


@api(method=False)
def frombuffer(
    buffer: Any,
    *,
    dtype: Any = MISSING,
    count: int = -1,
    offset: int = 0,
    requires_grad: bool = False,
) -> Any:
    """frombuffer(buffer, *, dtype, count=-1, offset=0) -> Tensor: a 1-d tensor that shares the
    memory of a buffer.

    >>> frombuffer(bytearray(b"abc"), dtype=uint8)
    tensor([97, 98, 99], dtype=torch.uint8)
    """
    if dtype is MISSING:
        raise TypeError('frombuffer() missing 1 required positional arguments: "dtype"')
    wanted = np_dtype(dtype, "frombuffer")
    try:
        view = memoryview(buffer)
    except TypeError:
        raise ValueError("object does not implement Python buffer protocol.") from None
    if "O" in view.format:  # writing numbers over references would crash the process
        raise ValueError("the buffer holds Python objects, not numbers")
    length, item = view.nbytes, wanted.itemsize
    if length == 0 or count == 0:
        raise ValueError(f"both buffer length ({length}) and count ({count}) must not be 0")
    if not 0 <= offset < length:
        raise ValueError(
            f"offset ({offset} bytes) must be non-negative and no greater than buffer length "
            f"({length} bytes) minus 1"
        )
    if count < 0 and (length - offset) % item:
        raise ValueError(
            f"buffer length ({length - offset} bytes) after offset ({offset} bytes) must be a "
            f"multiple of element size ({item})"
        )
    if count > 0 and offset + count * item > length:
        raise ValueError(
            f"requested buffer length ({count} * {item} bytes) after offset ({offset} bytes) must "
            f"not be greater than actual buffer length ({length} bytes)"
        )
    array = np.frombuffer(buffer, wanted, count, offset)
    if view.readonly:
        from_data.warn_once(
            READ_ONLY.format(
                "buffer",
                "you can write to the underlying (supposedly non-writable) buffer using the tensor",
                "buffer",
            ),
        )
    return borrowed(made(array, requires_grad))


# ---------------------------------------------------------------------- questions


@api(method=False)
def is_tensor(obj: Any) -> bool:
    """is_tensor(obj) -> bool: whether `obj` is a tensor.

    >>> is_tensor([1]), is_tensor(tensor([1]))
    (False, True)
    """
    return isinstance(obj, TensorBase)


@api(method=False, samples=[Case(Draw(2, 3)), Case(Draw(0)), Case(Index([1]))])
def numel(input: Any) -> int:
    """numel(input) -> int: how many elements it has.

    >>> numel(zeros(2, 3))
    6
    """
    return checked_tensor(input, "numel")._array.size  # type: ignore[no-any-return]


@api(method=False, samples=[Case(Draw(2, 3)), Case(Draw(0)), Case(Index([1]))])
def is_floating_point(input: Any) -> bool:
    """is_floating_point(input) -> bool: whether its dtype is a float.

    >>> is_floating_point(tensor([1]))
    False
    """
    return dtypes.of(checked_tensor(input, "is_floating_point")._array.dtype).is_floating_point


@api(method=False, samples=[Case(Draw(2, 3)), Case(Draw(0)), Case(Index([1]))])
def is_complex(input: Any) -> bool:
    """is_complex(input) -> bool: whether its dtype is complex.

    >>> is_complex(tensor([1j]))
    True
    """
    return dtypes.of(checked_tensor(input, "is_complex")._array.dtype).is_complex


@api(samples=[Case(Draw()), Case(Index([[0]]))])
def is_nonzero(input: Any) -> bool:
    """is_nonzero(input) -> bool: the truth of a one-element tensor.

    >>> is_nonzero(tensor([2.0]))
    True
    """
    array = checked_tensor(input, "is_nonzero")._array
    if is_batched(input):
        raise refusal(CONTROL_FLOW)
    if array.size != 1:
        many = "more than one value" if array.size else "no values"
        raise RuntimeError(f"Boolean value of Tensor with {many} is ambiguous")
    return bool(array.astype(bool).item())


RESULT_TYPE = (
    "result_type() received an invalid combination of arguments - got ({}), but expected one of:\n"
    " * (Tensor tensor, Tensor other)\n * (Number scalar, Tensor tensor)\n"
    " * (Tensor tensor, Number other)\n * (Number scalar1, Number scalar2)\n"
)


@api(method=False)
def result_type(*args: Any, **kwargs: Any) -> dtypes.dtype:
    """result_type(tensor1, tensor2) -> dtype: what arithmetic on the two would have.

    >>> result_type(tensor([1]), 1.5)
    torch.float32
    """
    values = [*args, *kwargs.values()]
    kinds = (TensorBase, bool, int, float, complex, np.generic)
    if len(values) != 2 or not all([isinstance(v, kinds) for v in values]):
        raise TypeError(RESULT_TYPE.format(", ".join([type(v).__name__ for v in values])))
    return promote.result_dtype([v._array if isinstance(v, TensorBase) else v for v in values])


@api(method=False)
def from_file(
    filename: Any,
    shared: bool | None = None,
    size: int = 0,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Any:
    """from_file(filename, shared=None, size=0, *, dtype=None) -> Tensor: the memory of a file.

    With `shared`, what is written into the tensor is written into the file, which grows if need be.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     t = from_file(os.path.join(folder, "numbers"), shared=True, size=2)
    >>> t
    tensor([0., 0.])
    """
    wanted = np_dtype(dtype, "from_file") or dtypes.default_np()
    memory = mapped_file(filename, bool(shared), size * wanted.itemsize)
    return made(memory.view(wanted), requires_grad)
