"""Out of tensors: Python numbers, lists, NumPy arrays; and from one dtype or device to another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from . import dtypes, errors, legacy
from .core.base import TensorBase, wrap
from .core.dispatch import apply
from .core.modes import MODES
from .core.op import REGISTRY
from .defaults import INSTALL, PYTHON_DTYPES, checked_device
from .device import CPU, channels_last, channels_last_3d, memory_format, preserve_format
from .device import device as device_type
from .from_data import TO_SCALAR, warn_once
from .ops.block import api

ONE_ELEMENT = "only one element tensors can be converted to Python scalars"
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


def python_number(array: Any) -> Any:
    """The one element of an array; bfloat16 has no Python type of its own."""
    return array.item() if array.dtype.kind != "V" else float(array.reshape(())[()])


@api(function=False)
def item(self: Any) -> Any:
    """item() -> number: the one element as a Python number.

    >>> tensor([2.5]).item()
    2.5
    """
    array = self.array
    if array.size != 1:
        raise RuntimeError(f"a Tensor with {array.size} elements cannot be converted to Scalar")
    return python_number(array)


@api(function=False)
def tolist(self: Any) -> Any:
    """tolist() -> list: nested lists of Python numbers.

    >>> tensor([[1, 2], [3, 4]]).tolist()
    [[1, 2], [3, 4]]
    """
    array = self.array
    return array.tolist() if array.dtype.kind != "V" else array.astype(np.float32).tolist()


def single(self: Any) -> Any:
    if self.array.size != 1:
        raise ValueError(ONE_ELEMENT)
    return python_number(self.array)


def real_number(value: Any, c_name: str) -> Any:
    if isinstance(value, complex):
        if value.imag:
            raise RuntimeError(f"value cannot be converted to type {c_name} without overflow")
        return value.real
    return value


def to_float(self: Any) -> float:
    if self.requires_grad:
        warn_once(TO_SCALAR, 2)
    return float(real_number(single(self), "double"))


def to_int(self: Any) -> int:
    return int(real_number(single(self), "int64_t"))


def to_complex(self: Any) -> complex:
    if self.requires_grad:
        warn_once(TO_SCALAR, 2)
    return complex(single(self))


def to_bool(self: Any) -> bool:
    array = self.array
    if array.size != 1:
        many = "more than one value" if array.size else "no values"
        raise RuntimeError(f"Boolean value of Tensor with {many} is ambiguous")
    return bool(python_number(array))


def to_index(self: Any) -> int:
    array = self.array
    if array.size != 1 or array.dtype.kind not in "iub":
        raise TypeError(AS_INDEX)
    return int(array.item())


# ---------------------------------------------------------------------- NumPy and DLPack


@api(function=False)
def numpy(self: Any, *, force: bool = False) -> Any:
    """numpy(*, force=False) -> ndarray: the tensor's memory as a NumPy array.

    >>> tensor([1, 2]).numpy()
    array([1, 2])
    """
    if not force and MODES.grad and self.requires_grad:
        raise numpy_refused(self)
    array = self.array
    if array.dtype.kind == "V":
        raise TypeError("Got unsupported ScalarType BFloat16")
    return array


def numpy_refused(t: Any) -> Exception:
    """E11: an array cannot carry a gradient."""
    return errors.build(
        RuntimeError,
        "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.",
        "E11",
        causes=[("made", "at", errors.of_node(t.node)), ("noticed", "at", errors.here())],
        tensor=errors.describe(t.array),
        fixes=[
            "t.detach().numpy() (or t.detach() for what takes arrays: matplotlib, pandas, "
            "scikit-learn)"
        ],
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
    """What a NumPy function of a tensor gives: a tensor again."""
    return wrap(np.asarray(array))


def dlpack(self: Any, **kwargs: Any) -> Any:
    if self.requires_grad:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    return self.array.__dlpack__(**kwargs)


def dlpack_device(self: Any) -> Any:
    return self.array.__dlpack_device__()


@api(method=False)
def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Any:
    """from_dlpack(ext_tensor) -> Tensor: a tensor that shares memory with another library's.

    >>> import numpy
    >>> from_dlpack(numpy.array([1, 2]))
    tensor([1, 2])
    """
    checked_device(device, "from_dlpack")
    if not hasattr(ext_tensor, "__dlpack__"):
        raise RuntimeError(
            "from_dlpack received an invalid capsule. Note that DLTensor capsules can be consumed "
            "only once, so you might have already constructed a tensor from it once."
        )
    if isinstance(ext_tensor, (TensorBase, np.ndarray)):
        array = ext_tensor.array if isinstance(ext_tensor, TensorBase) else ext_tensor
    else:
        array = np.from_dlpack(ext_tensor)
    return wrap(array.copy() if copy else array)


# ---------------------------------------------------------------------- dtype and device


def converted(self: Any, dtype: Any = None, copy: bool = False, order: Any = None) -> Any:
    """The tensor itself if it is as asked, else a recorded copy."""
    array = self.array
    wanted = array.dtype if dtype is None else dtype
    if order in (None, preserve_format):
        if wanted == array.dtype and not copy:
            return self
        return apply(REGISTRY["cast"], (self,), (wanted,))
    if order in (channels_last, channels_last_3d):
        rank = 4 if order is channels_last else 5
        if array.ndim != rank:
            raise RuntimeError(f"required rank {rank} tensor to use {order.name} format")
    changed = self if wanted == array.dtype else apply(REGISTRY["cast"], (self,), (wanted,))
    return (
        changed.clone(memory_format=order)
        if copy and changed is self
        else (changed.contiguous(memory_format=order))
    )


def spelled(value: Any) -> str:
    name = type(value).__name__
    return f"torch.{name}" if type(value) in (dtypes.dtype, device_type, memory_format) else name


@api(function=False)
def to(self: Any, *args: Any, **kwargs: Any) -> Any:
    """to(dtype or device or other, non_blocking=False, copy=False) -> Tensor: converted.

    >>> tensor([1, 2]).to(float32)
    tensor([1., 2.])
    """
    dtype, device, rest = None, None, ()
    first = args[0] if args else None
    if isinstance(first, TensorBase):
        dtype, rest = dtypes.of(first.array.dtype), args[1:]
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
    if device is not None:
        checked_device(device, "to")
    return converted(
        self,
        None if dtype is None else dtype.np,
        bool(options.get("copy")),
        options.get("memory_format"),
    )


def is_plain_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def no_such_to(args: Any, kwargs: Any) -> Exception:
    got = [spelled(a) for a in args] + [f"{k}={spelled(v)}" for k, v in kwargs.items()]
    return TypeError(TO_USAGE.format(", ".join(got) + (", " if kwargs and not args else "")))


@api(name="type", function=False)
def type_(self: Any, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
    """type(dtype=None) -> str or Tensor: the name of the tensor type, or another.

    >>> tensor([1.5]).type(), tensor([1.5]).type("torch.LongTensor")
    ('torch.FloatTensor', tensor([1]))
    """
    if dtype is None:
        return f"torch.{dtypes.of(self.array.dtype).scalar_type}Tensor"
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
    if found.is_cuda:
        raise RuntimeError(f"Cannot initialize CUDA without ATen_cuda library.\n  {INSTALL}")
    return converted(self, found.dtype.np)


@api(function=False)
def type_as(self: Any, other: Any) -> Any:
    """type_as(other) -> Tensor: in the dtype of `other`.

    >>> tensor([1.5]).type_as(tensor([1]))
    tensor([1])
    """
    if not isinstance(other, TensorBase):
        raise errors.must_be_tensor("type_as", "other", 1, other)
    return converted(self, other.array.dtype)


def named_cast(name: str, dtype: dtypes.dtype) -> None:
    """Publish `Tensor.<name>()`."""

    def method(self: Any, memory_format: Any = preserve_format) -> Any:
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
def cpu(self: Any, memory_format: Any = preserve_format) -> Any:
    """cpu() -> Tensor: on the CPU; itself if it is there already.

    >>> a = tensor([1])
    >>> a.cpu() is a
    True
    """
    return converted(self, order=memory_format)


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
    checked_device("cuda" if device is None else device, "cuda")
    return self


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


class UntypedStorage:
    """The bytes behind a tensor and all its views."""

    def __init__(self, array: Any) -> None:
        while isinstance(array.base, np.ndarray):
            array = array.base
        self.owner = array
        self.device = CPU

    def bytes(self) -> Any:
        flat = self.owner if self.owner.flags.c_contiguous else self.owner.T
        return flat.reshape(-1).view(np.uint8)

    def data_ptr(self) -> int:
        return self.owner.__array_interface__["data"][0]  # type: ignore[no-any-return]

    def nbytes(self) -> int:
        return self.owner.nbytes  # type: ignore[no-any-return]

    def size(self) -> int:
        return self.nbytes()

    def element_size(self) -> int:
        return 1

    def is_shared(self) -> bool:
        return False

    def is_pinned(self, device: Any = None) -> bool:
        return False

    def tolist(self) -> list[Any]:
        return self.bytes().tolist()  # type: ignore[no-any-return]

    def __len__(self) -> int:
        return self.size()

    def __getitem__(self, index: int) -> Any:
        return self.bytes()[index].item()

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UntypedStorage) and other.data_ptr() == self.data_ptr()

    def __hash__(self) -> int:
        return hash(self.data_ptr())

    def __repr__(self) -> str:
        lines = "\n ".join([str(v) for v in self.tolist()])
        return f" {lines}\n[torch.storage.{self.kind()} of size {len(self)}]"

    def kind(self) -> str:
        return "UntypedStorage(device=cpu)"


class TypedStorage(UntypedStorage):
    """The elements behind a tensor and all its views."""

    def __init__(self, array: Any) -> None:
        super().__init__(array)
        self.dtype = dtypes.of(array.dtype)

    def bytes(self) -> Any:
        return super().bytes().view(self.dtype.np)

    def size(self) -> int:
        return self.nbytes() // self.dtype.itemsize

    def element_size(self) -> int:
        return self.dtype.itemsize

    def untyped(self) -> UntypedStorage:
        return UntypedStorage(self.owner)

    def kind(self) -> str:
        return f"TypedStorage(dtype={self.dtype}, device=cpu)"


@api(function=False)
def untyped_storage(self: Any) -> UntypedStorage:
    """untyped_storage() -> UntypedStorage: the memory behind the tensor.

    >>> zeros(2).untyped_storage().nbytes()
    8
    """
    return UntypedStorage(self.array)


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
        3,
    )
    return TypedStorage(self.array)


@api(function=False)
def is_set_to(self: Any, tensor: Any) -> bool:
    """is_set_to(tensor) -> bool: whether both look at the same memory in the same way.

    >>> a = zeros(2)
    >>> a.is_set_to(a.detach()), a.is_set_to(a.clone())
    (True, False)
    """
    a, b = self.array, tensor.array
    start = "data"
    return bool(
        a.__array_interface__[start] == b.__array_interface__[start]
        and (a.shape, a.strides, a.dtype) == (b.shape, b.strides, b.dtype)
    )


@api(function=False)
def share_memory_(self: Any) -> Any:
    """share_memory_() -> Tensor: self; threads share memory anyway, processes get copies.

    >>> a = zeros(1)
    >>> a.share_memory_() is a
    True
    """
    return self


@api(function=False)
def is_shared(self: Any) -> bool:
    """is_shared() -> bool: whether other processes see the memory: never.

    >>> zeros(1).is_shared()
    False
    """
    return False


@api(function=False)
def pin_memory(self: Any, device: Any = None) -> Any:
    """pin_memory() -> Tensor: in memory that a GPU reads directly; there is none.

    >>> zeros(1).pin_memory()
    Traceback (most recent call last):
        ...
    RuntimeError: Cannot access accelerator device when none is available.
    ...
    """
    raise RuntimeError(f"Cannot access accelerator device when none is available.\n  {INSTALL}")


@api(function=False)
def is_pinned(self: Any, device: Any = None) -> bool:
    """is_pinned() -> bool: whether a GPU reads the memory directly: never.

    >>> zeros(1).is_pinned()
    False
    """
    return False


# Python's protocols: attached to Tensor under these names.
def to_dense(self: Any, dtype: Any = None, *, masked_grad: bool | None = None) -> Any:
    """A tensor with all its elements in memory: this one, cast if a dtype is given."""
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
