"""Out of tensors: Python numbers, lists, NumPy arrays; and from one dtype or device to another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import dtypes, errors
from ...core.array_kind import host
from ...core.base import STATE, TensorBase, wrap
from ...core.devices import DEVICE, is_device
from ...core.lazy_conj import memory_behind, with_bits_of
from ...core.modes import MODES
from ...core.op import REGISTRY
from ...core.python_dispatch import ask_about, asked_about, is_asked, read_values
from ...core.strides import address
from ...core.strides import channels_last as in_channels_last
from ...core.thread_modes import Unrepeated
from ...core.transforms.batched import CONTROL_FLOW, is_batched, no_rule, no_values
from ...core.transforms.batched import refusal as not_in_batch
from ...core.transforms.looping import explained
from ...core.warned import warn_once
from ...device import (
    CPU,
    channels_last,
    channels_last_3d,
    contiguous_format,
    memory_format,
    preserve_format,
)
from ...device import device as device_type
from ...ops.block import apply
from ...ops.block.definition import api
from ...ops.creation import legacy_constructors as legacy
from ...ops.creation.arguments import PYTHON_DTYPES, checked_device, no_cuda
from ...ops.creation.arrays import TO_SCALAR, warn_of_lost_part
from ...storage import TypedStorage, UntypedStorage, in_new_shared_memory, in_shared_memory

DLPACK_CUDA = (2, 13)  # what DLPack calls memory on a GPU, and memory that moves there by itself
ONE_ELEMENT = "only one element tensors can be converted to Python scalars"
NO_STORAGE = "Cannot access data pointer of Tensor that doesn't have storage"
NO_IMPL_STORAGE = "Cannot access storage of BatchedTensorImpl"
AS_INDEX = "only integer tensors of a single element can be converted to an index"
TO_USAGE = (
    "to() received an invalid combination of arguments - got ({}), but expected one of:\n"
    " * (torch.device device = None, torch.dtype dtype = None, bool non_blocking = False, bool "
    "copy = False, *, torch.memory_format memory_format = None)\n"
    " * (torch.dtype dtype, bool non_blocking = False, bool copy = False, *, "
    "torch.memory_format memory_format = None)\n"
    " * (Tensor tensor, bool non_blocking = False, bool copy = False, *, "
    "torch.memory_format memory_format = None)\n"
)

# ---------------------------------------------------------------------- Python numbers


def with_memory(t: Any) -> Any:
    """The array of a tensor whose values can be read."""
    if t._special and is_batched(t):
        raise not_in_batch(NO_STORAGE)
    return read_values(t)


def python_number(array: Any) -> Any:
    """The one element of an array; bfloat16 has no Python type of its own."""
    found = array.item() if array.dtype.kind != "V" else float(array.reshape(())[()])
    if type(array) is STATE.device_type:
        DEVICE.waited()
    return found


def the_element(t: Any) -> Any:
    """The one element of a tensor; PyTorch has an op for that."""
    if (t._special or STATE.modes_on) and is_asked(t):
        return ask_about("_local_scalar_dense", (t,), the_element)
    if t._special and t.is_meta:
        t._array.item()  # which says that there is none
    return python_number(read_values(t))


@api(function=False)
def item(self: Any) -> Any:
    """item() -> number: the one element as a Python number.

    >>> tensor([2.5]).item()
    2.5
    """
    array = self._array
    if self._special and is_batched(self):
        raise no_values()
    if array.size != 1:
        raise RuntimeError(f"a Tensor with {array.size} elements cannot be converted to Scalar")
    return the_element(self)


@api(function=False)
def tolist(self: Any) -> Any:
    """tolist() -> list: nested lists of Python numbers.

    >>> tensor([[1, 2], [3, 4]]).tolist()
    [[1, 2], [3, 4]]
    """
    if self._special and is_asked(self):
        kind = type(self).__name__
        raise RuntimeError(f".tolist() is not supported for tensor subclasses, got {kind}")
    array = with_memory(self)
    return array.tolist() if array.dtype.kind != "V" else array.astype(np.float32).tolist()


def only_number(self: Any) -> Any:
    if self._array.size != 1:
        refusal = ValueError(ONE_ELEMENT)
        errors.explain_call(refusal, "item", ("input",), (self,))
        raise refusal
    if self._special and is_batched(self):
        raise explained(no_values(), "item")
    return the_element(self)


def real_number(value: Any, dtype: Any) -> Any:
    if isinstance(value, complex):
        if value.imag:
            raise errors.does_not_fit(dtype)
        return value.real
    return value


def to_float(self: Any) -> float:
    if self.requires_grad:
        warn_once(TO_SCALAR)
    return float(real_number(only_number(self), dtypes.float64))


def to_int(self: Any) -> int:
    return int(real_number(only_number(self), dtypes.int64))


def to_complex(self: Any) -> complex:
    if self.requires_grad:
        warn_once(TO_SCALAR)
    return complex(only_number(self))


def to_bool(self: Any) -> bool:
    array = self._array
    if self._special and is_batched(self):
        raise explained(not_in_batch(CONTROL_FLOW), "__bool__")
    if array.size != 1:
        many = "more than one value" if array.size else "no values"
        refusal = RuntimeError(f"Boolean value of Tensor with {many} is ambiguous")
        errors.explain_call(refusal, "bool", ("input",), (self,))
        raise refusal
    return bool(the_element(self))


def to_index(self: Any) -> int:
    array = self._array
    if self._special and is_batched(self):
        raise explained(no_values(), "__index__")
    if array.size != 1 or array.dtype.kind not in "iub":
        raise TypeError(AS_INDEX)
    return int(the_element(self))


# ---------------------------------------------------------------------- NumPy and DLPack


@api(function=False)
def numpy(self: Any, *, force: bool = False) -> Any:
    """numpy(*, force=False) -> ndarray: the tensor's memory as a NumPy array.

    >>> tensor([1, 2]).numpy()
    array([1, 2])
    """
    if self._special and is_asked(self):
        raise RuntimeError(".numpy() is not supported for tensor subclasses.")
    if not force:
        if is_device(self) or self.is_meta:
            raise TypeError(
                f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() to "
                "copy the tensor to host memory first."
            )
        if MODES.grad and self.requires_grad:
            raise errors.numpy_refused(self)
        refuse_bit(self.is_conj(), "conjugate", "resolve_conj")
        refuse_bit(self.is_neg(), "negative", "resolve_neg")
    array = host(with_memory(self))
    if array.dtype.kind == "V":
        raise TypeError("Got unsupported ScalarType BFloat16")
    return array


def refuse_bit(is_set: bool, kind: str, cure: str) -> None:
    if is_set:
        raise RuntimeError(
            f"Can't call numpy() on Tensor that has {kind} bit set. Use tensor.{cure}().numpy() "
            "instead."
        )


def array_protocol(self: Any, dtype: Any = None, copy: bool | None = None) -> Any:
    """`np.asarray(tensor)`."""
    array = numpy(self)
    if dtype is not None and dtype != array.dtype:
        if copy is False:
            raise ValueError("Unable to avoid copy while creating an array as requested.")
        return array.astype(dtype)
    return array.copy() if copy else array


def array_wrap(self: Any, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
    """Convert the result of a NumPy function of a tensor to a tensor, of bytes for truth values."""
    array = np.asarray(array)
    dtypes.of(array.dtype)  # refuses objects, dates, long doubles
    return wrap(array.astype(np.uint8) if array.dtype == np.bool_ else array)


def dlpack(
    self: Any,
    *,
    stream: Any = -1,
    max_version: tuple[int, int] | None = None,
    dl_device: Any = None,
    copy: bool | None = None,
) -> Any:
    """`__dlpack__`, which `np.from_dlpack(tensor)` calls: a capsule around the memory."""
    from ...utils import dlpack as protocol

    if self.requires_grad:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    if self.is_sparse:
        raise BufferError("Can't export tensors with layout other than torch.strided")
    if self.is_meta:
        raise BufferError("Cannot pack tensors on meta")
    if self.is_conj():
        raise BufferError("Can't export tensors with the conjugate bit set")
    if stream is not None and type(stream) is not int:
        raise TypeError("stream must be ``int`` or ``none``")
    if stream not in (None, -1) and not is_device(self):
        raise AssertionError("stream should be None on cpu.")
    if dl_device is not None and tuple(dl_device) != dlpack_device(self):
        place = protocol.device_named(*dl_device)
        if copy is False:
            raise ValueError(
                f"cannot move (i.e. copy=False) tensor from {self.device} to {place} without "
                "copying."
            )
        self, copy = self.to(place), None
    options: dict[str, Any] = {"max_version": max_version}
    if is_device(self):
        options["stream"] = None if stream == -1 else stream
    return protocol.exported(memory_behind(with_memory(self)), copy, options)


def dlpack_device(self: Any) -> Any:
    from ...utils.dlpack import DLDeviceType

    if self.is_meta:
        raise ValueError("Unknown device type meta for Dlpack")
    kind, index = memory_behind(self._array).__dlpack_device__()
    return DLDeviceType(kind), index


def cuda_array_interface(self: Any) -> dict[str, Any]:
    """`__cuda_array_interface__`, which `cupy.asarray(tensor)` and other GPU libraries read."""
    if not is_device(self):
        raise AttributeError(
            f"Can't get __cuda_array_interface__ on non-CUDA tensor type: {type_(self)} If CUDA "
            "data is required use tensor.cuda() to copy tensor to device memory."
        )
    if self.requires_grad:
        raise RuntimeError(
            "Can't get __cuda_array_interface__ on Variable that requires grad. If gradients "
            "aren't required, use var.detach() to get Variable that doesn't require grad."
        )
    return self._array.__cuda_array_interface__  # type: ignore[no-any-return]


@api(method=False, direct=True, follows=True)
def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Any:
    """from_dlpack(ext_tensor) -> Tensor: a tensor that shares memory with another library's.

    >>> import numpy
    >>> from_dlpack(numpy.array([1, 2]))
    tensor([1, 2])
    """
    from ...utils import dlpack as protocol

    place = checked_device(device, "from_dlpack")
    if place is not None and device_type(place).type == "meta":
        raise BufferError("Cannot pack tensors on meta")
    if type(ext_tensor).__name__ == "PyCapsule":
        ext_tensor = protocol.Capsule(ext_tensor) if protocol.is_fresh(ext_tensor) else None
    if not hasattr(ext_tensor, "__dlpack__"):
        raise RuntimeError(
            "from_dlpack received an invalid capsule. Note that DLTensor capsules can be consumed "
            "only once, so you might have already constructed a tensor from it once."
        )
    if isinstance(ext_tensor, TensorBase):
        if ext_tensor.is_conj():  # type: ignore[attr-defined]
            raise BufferError("Can't export tensors with the conjugate bit set")
        array = memory_behind(ext_tensor._array)
    elif type(ext_tensor) is STATE.device_type:
        array = ext_tensor
    elif ext_tensor.__dlpack_device__()[0] in DLPACK_CUDA:
        from ...cuda import runtime

        array = runtime.start().from_dlpack(ext_tensor)
    else:
        array = protocol.imported(ext_tensor)
    made = wrap(array.copy() if copy else array)
    return made if device is None else on_device(made, device, "from_dlpack")


# ---------------------------------------------------------------------- dtype and device


def converted(self: Any, dtype: Any = None, copy: bool = False, order: Any = None) -> Any:
    """The tensor itself if it is as asked, else a recorded copy."""
    array = self._array
    wanted = array.dtype if dtype is None else dtype
    if array.dtype.kind == "c" and array.size:
        warn_of_lost_part(array.dtype, wanted)
    if order in (None, preserve_format):
        if wanted == array.dtype and not copy:
            return self
        return apply(REGISTRY["cast"], (self,), (wanted,))
    if order in (channels_last, channels_last_3d):
        rank = 4 if order is channels_last else 5
        if array.ndim != rank:
            raise RuntimeError(f"required rank {rank} tensor to use {order.name} format")
    if wanted == array.dtype:
        return (
            self
            if not copy and suggested_format(array) is order
            else self.clone(memory_format=order)
        )
    changed: Any = apply(REGISTRY["cast"], (self,), (wanted,))
    return changed if lies_in(changed, order) else changed.clone(memory_format=order)


def suggested_format(array: Any) -> Any:
    """The memory format that PyTorch sees in an order of dimensions."""
    if array.ndim in (4, 5) and array.size and array.strides[1] and in_channels_last(array):
        return channels_last if array.ndim == 4 else channels_last_3d
    return contiguous_format


def lies_in(t: Any, order: Any) -> bool:
    """Whether the strides are those of a new tensor in a memory format, of size 1 or not."""
    dims = list(range(t.ndim))
    if order is not contiguous_format:
        dims = [0, *dims[2:], 1]
    step = 1
    for d in reversed(dims):
        if t.stride(d) != step:
            return False
        step *= max(t.shape[d], 1)
    return True


def type_text(value: Any) -> str:
    name = type(value).__name__
    return f"torch.{name}" if type(value) in (dtypes.dtype, device_type, memory_format) else name


@api(function=False)
def to(self: Any, *args: Any, **kwargs: Any) -> Any:
    """to(device=None, dtype=None, copy=False) -> Tensor: in another dtype, on another device.

    The tensor itself where nothing changes. Another tensor in the place of the dtype gives both.

    >>> tensor([1, 2]).to(float32)
    tensor([1., 2.])
    """
    dtype, device, rest = None, None, ()
    first = args[0] if args else None
    if isinstance(first, TensorBase):
        dtype, rest = dtypes.of(first._array.dtype), args[1:]
    elif type(first) is dtypes.dtype or isinstance(first, type) and first in PYTHON_DTYPES:
        dtype, rest = first, args[1:]
    elif first is None or isinstance(first, (str, device_type)) or is_plain_int(first):
        device = first
        dtype, rest = (args[1], args[2:]) if len(args) > 1 else (None, ())
    else:
        raise no_such_to(args, kwargs)
    dtype = PYTHON_DTYPES.get(dtype, dtype) if isinstance(dtype, type) else dtype
    names = ("non_blocking", "copy")
    known = {"dtype", "device", "memory_format", *names}
    if len(rest) > 2 or not all([isinstance(r, bool) for r in rest]) or not kwargs.keys() <= known:
        raise no_such_to(args, kwargs)
    options = dict(zip(names, rest, strict=False)) | kwargs
    dtype = options.get("dtype") or dtype
    dtype = PYTHON_DTYPES.get(dtype, dtype) if isinstance(dtype, type) else dtype
    if dtype is not None and type(dtype) is not dtypes.dtype:
        raise no_such_to(args, kwargs)
    device = options.get("device", device)
    if isinstance(first, TensorBase):
        device = first.device  # type: ignore[attr-defined]
    found = self if device is None else on_device(self, device, "to")
    return converted(
        found,
        None if dtype is None else dtype.np,
        bool(options.get("copy")) and found is self,
        options.get("memory_format"),
    )


def on_device(t: Any, device: Any, function: str) -> Any:
    """The tensor on a device; itself if it is there already."""
    from ...cuda import runtime

    if device_type(device).type == "meta":
        from ...core import meta

        return meta.moved(t)
    if t.is_meta:
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")
    place = runtime.target(device)
    if place is None:
        checked_device(device, function)
        return t if STATE.device_type is None else runtime.move(t, -1)
    return runtime.move(t, place)


def is_plain_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def no_such_to(args: Any, kwargs: Any) -> Exception:
    got = [type_text(a) for a in args] + [f"{k}={type_text(v)}" for k, v in kwargs.items()]
    return TypeError(TO_USAGE.format(", ".join(got) + (", " if kwargs and not args else "")))


@api(name="type", function=False)
def type_(self: Any, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
    """type(dtype=None) -> str or Tensor: the name of the tensor type, or another.

    >>> tensor([1.5]).type(), tensor([1.5]).type("torch.LongTensor")
    ('torch.FloatTensor', tensor([1]))
    """
    if dtype is None:
        space = "torch.cuda" if is_device(self) else "torch.meta" if self.is_meta else "torch"
        return f"{space}.{dtypes.of(self._array.dtype).scalar_type}Tensor"
    if isinstance(dtype, dtypes.dtype):
        return converted(self, dtype.np)
    if isinstance(dtype, str):
        name = dtype
        if name == "torch.Tensor":
            return converted(self, dtypes.default_np())
        module, _, short = name.rpartition(".")
        found: Any = {"torch": legacy.TYPES, "torch.cuda": legacy.CUDA_TYPES}.get(module, {}).get(
            short
        )
        if found is None:
            raise ValueError(f"invalid type: '{name}'")
    elif isinstance(dtype, legacy.tensortype):
        found = dtype
    elif isinstance(dtype, type):
        if issubclass(dtype, TensorBase):
            return converted(self, dtypes.default_np())
        raise ValueError(f"invalid type: '{dtype.__name__}'")
    else:
        raise TypeError("dtype must be a type, str, or dtype object")
    if not found.is_cuda:
        return converted(on_device(self, CPU, "type"), found.dtype.np)
    from ...cuda import runtime

    if not runtime.look():
        raise no_cuda("Cannot initialize CUDA without ATen_cuda library.", RuntimeError)
    return converted(self if is_device(self) else on_device(self, "cuda", "type"), found.dtype.np)


@api(function=False)
def type_as(self: Any, other: Any) -> Any:
    """type_as(other) -> Tensor: in the dtype of `other`.

    >>> tensor([1.5]).type_as(tensor([1]))
    tensor([1])
    """
    if not isinstance(other, TensorBase):
        raise errors.must_be_tensor("type_as", "other", 1, other)
    found = self
    if STATE.device_type is not None:
        found = on_device(self, other.device, "type_as")  # type: ignore[attr-defined]
    return converted(found, other._array.dtype)


def named_cast(name: str, dtype: dtypes.dtype) -> None:
    """Publish `Tensor.<name>()`."""

    def method(self: Any, *, memory_format: Any = preserve_format) -> Any:
        return converted(self, dtype.np, order=memory_format)

    method.__doc__ = (
        f"{name}() -> Tensor: in the dtype {dtype.name}; itself if it has it already.\n\n"
        f">>> tensor([0, 1]).{name}().dtype\n{dtype}"
    )
    api(name=name, function=False)(method)


for _name, _dtype in {
    "float": dtypes.float32,
    "double": dtypes.float64,
    "half": dtypes.float16,
    "bfloat16": dtypes.bfloat16,
    "int": dtypes.int32,
    "long": dtypes.int64,
    "short": dtypes.int16,
    "char": dtypes.int8,
    "byte": dtypes.uint8,
    "bool": dtypes.bool_,
    "cfloat": dtypes.complex64,
    "cdouble": dtypes.complex128,
}.items():
    named_cast(_name, _dtype)


@api(function=False)
def cpu(self: Any, *, memory_format: Any = preserve_format) -> Any:
    """cpu() -> Tensor: on the CPU; itself if it is there already.

    >>> a = tensor([1])
    >>> a.cpu() is a
    True
    """
    return converted(on_device(self, CPU, "cpu"), order=memory_format)


@api(function=False)
def cuda(
    self: Any, device: Any = None, non_blocking: bool = False, memory_format: Any = None
) -> Any:
    """cuda(device=None) -> Tensor: on a GPU.

    >>> tensor([1.0]).cuda()
    Traceback (most recent call last):
        ...
    AssertionError: Torch not compiled with CUDA enabled
    ...
    """
    from ...cuda import runtime

    return converted(runtime.move(self, runtime.index_of(device)), order=memory_format)


@api(function=False)
def xpu(
    self: Any, device: Any = None, non_blocking: bool = False, memory_format: Any = None
) -> Any:
    """xpu(device=None) -> Tensor: on an XPU, which there is none of.

    >>> tensor([1.0]).xpu()
    Traceback (most recent call last):
        ...
    AssertionError: Torch not compiled with XPU enabled
    """
    checked_device("xpu" if device is None else device, "xpu")
    return self


# ---------------------------------------------------------------------- memory


@api(function=False)
def untyped_storage(self: Any) -> UntypedStorage:
    """untyped_storage() -> UntypedStorage: the memory behind the tensor.

    >>> zeros(2).untyped_storage().nbytes()
    8
    """
    return UntypedStorage(owned_array(self))


def owned_array(t: Any) -> Any:
    """The array of a tensor with memory of its own."""
    Unrepeated.count += 1
    if STATE.modes_on:
        t = asked_about(t, "place")
    if t._special and is_batched(t):
        raise NotImplementedError(NO_IMPL_STORAGE)
    return t._array


@api(function=False)
def storage(self: Any) -> TypedStorage:
    """storage() -> TypedStorage: the elements behind the tensor (deprecated).

    >>> len(zeros(2, 3)[0].storage())
    6
    """
    warn_once(
        "TypedStorage is deprecated. It will be removed in the future and UntypedStorage will be "
        "the only storage class. This should only matter to you if you are using storages "
        "directly.  To access UntypedStorage directly, use tensor.untyped_storage() instead of "
        "tensor.storage()",
    )
    return TypedStorage(owned_array(self))


@api(function=False)
def is_set_to(self: Any, tensor: Any) -> bool:
    """is_set_to(tensor) -> bool: whether both look at the same memory in the same way.

    >>> a = zeros(2)
    >>> a.is_set_to(a.detach()), a.is_set_to(a.clone())
    (True, False)
    """
    if is_batched(self) or is_batched(tensor):
        raise no_rule("is_set_to")
    Unrepeated.count += 1
    if STATE.modes_on:
        self, tensor = asked_about(self, "place"), asked_about(tensor, "place")
    a, b = self._array, tensor._array
    if any([t.is_conj() or t.is_neg() for t in (self, tensor)]):
        return False
    return bool(
        address(a) == address(b) and (a.shape, a.strides, a.dtype) == (b.shape, b.strides, b.dtype)
    )


@api(function=False)
def share_memory_(self: Any) -> Any:
    """share_memory_() -> Tensor: self, in memory that other processes can share.

    Forked processes do, and those that it is sent to (`torch.multiprocessing`). Views that were
    made before stay where they were.

    >>> a = zeros(1)
    >>> a.share_memory_().is_shared()
    True
    """
    array = owned_array(self)
    if not (is_device(self) or in_shared_memory(array)):
        self._array = with_bits_of(array, in_new_shared_memory(memory_behind(array)))
    return self


@api(function=False)
def is_shared(self: Any) -> bool:
    """is_shared() -> bool: whether other processes see the memory; that of a GPU always counts.

    >>> zeros(1).is_shared()
    False
    """
    return is_device(self) or in_shared_memory(owned_array(self))


@api(function=False)
def pin_memory(self: Any, device: Any = None) -> Any:
    """pin_memory() -> Tensor: a copy in memory that a GPU reads directly.

    >>> zeros(1).pin_memory()
    Traceback (most recent call last):
        ...
    RuntimeError: Cannot access accelerator device when none is available.
    ...
    """
    from ...cuda import runtime
    from ...cuda.memory import pinned_copy

    if self.is_meta:
        name = f"Meta{self.dtype.scalar_type}Type"
        raise RuntimeError(f"cannot pin '{name}' only dense CPU tensors can be pinned")
    if not runtime.look():
        sentence = "Cannot access accelerator device when none is available."
        raise no_cuda(sentence, RuntimeError)
    runtime.start()
    if is_device(self):
        raise RuntimeError(f"cannot pin '{type_(self)}' only dense CPU tensors can be pinned")
    return self if is_pinned(self) else wrap(pinned_copy(owned_array(self)))


@api(function=False)
def is_pinned(self: Any, device: Any = None) -> bool:
    """is_pinned() -> bool: whether a GPU reads the memory directly.

    >>> zeros(1).is_pinned()
    False
    """
    if STATE.device_type is None or is_device(self):
        return False
    from ...cuda.memory import is_pinned_array

    return is_pinned_array(self._array)


@api(function=False)
def record_stream(self: Any, stream: Any) -> None:
    """record_stream(stream) -> None: keep the memory until the work on `stream` so far is done.

    >>> zeros(1).record_stream(None)
    Traceback (most recent call last):
        ...
    RuntimeError: unknown parameter type
    """
    if not is_device(self):
        raise RuntimeError("unknown parameter type")
    from ...cuda.streams import hold

    hold(self._array, stream)


# Python's protocols: attached to Tensor under these names.
def to_dense(self: Any, dtype: Any = None, *, masked_grad: bool | None = None) -> Any:
    """A tensor with all its elements in memory: this one, cast if a dtype is given.

    >>> sparse_coo_tensor([[0, 2]], [1.0, 3.0], (4,)).to_dense()
    tensor([1., 0., 3., 0.])
    """
    return self if dtype is None else self.to(dtype)


METHODS: dict[str, Callable[..., Any]] = {
    "to_dense": to_dense,
    "__float__": to_float,
    "__int__": to_int,
    "__complex__": to_complex,
    "__bool__": to_bool,
    "__index__": to_index,
    "__array__": array_protocol,
    "__array_wrap__": array_wrap,
    "__dlpack__": dlpack,
    "__dlpack_device__": dlpack_device,
}

PROPERTIES: dict[str, Callable[..., Any]] = {"__cuda_array_interface__": cuda_array_interface}
