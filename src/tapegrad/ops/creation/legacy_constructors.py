"""The constructors of old: `Tensor(2, 3)`, `FloatTensor([1, 2])`, and `isinstance(t, "
"FloatTensor)`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import dtypes
from ...core.base import INTERPRETED, TensorBase, blank, special_by
from ...core.devices import is_device, sent
from ...core.function_modes import watch_class
from ...core.late_bound import TENSOR
from ...core.modes import MODES
from ...core.size import Size
from ...core.subclass import overrides, takes_part
from ...device import device as device_type
from ...device import strided
from ..block.definition import api
from . import arrays as from_data

# How the C++ compiler spells the element types, which is how PyTorch's sentences do.
OPTIONS = (
    "TensorOptions(dtype={}, device={}, layout=Strided, requires_grad=false (default), "
    "pinned_memory=false (default), memory_format=(nullopt))"
)
USAGE = (
    "new() received an invalid combination of arguments - got ({}), but expected one of:\n"
    " * (*, torch.device device = None)\n * (torch.Storage storage)\n * (Tensor other)\n"
    " * (tuple of ints size, *, torch.device device = None)\n"
    " * (object data, *, torch.device device = None)\n"
)


def construct(
    dtype: Any, strict: bool, args: tuple[Any, ...], kwargs: dict[str, Any], kind: str = "cpu"
) -> Any:
    """The array that the old constructors make of their arguments.

    No arguments: empty. Ints or a Size: that size, not initialised. A tensor: its own memory (of
    the same dtype, where `strict`). Anything else is data.
    """
    from ...storage import UntypedStorage, check_storage_dtype
    from .from_data import on_storage

    device = kwargs.pop("device", None)
    if device is not None:
        device = device_type(device)
        if device.type != kind:
            raise RuntimeError(
                f"legacy constructor expects device type: {kind} but device type: {device.type} "
                "was passed"
            )
    for name in ("size", "data", "other"):
        if name in kwargs and not args:
            args = (Size(kwargs.pop(name)) if name == "size" else kwargs.pop(name),)
    if kwargs:
        got = [spell(a) for a in args] + [f"{k}={spell(v)}" for k, v in kwargs.items()]
        raise TypeError(USAGE.format(", ".join(got)))
    if not args:
        return np.empty(0, dtype)
    first = args[0]
    if len(args) == 1:
        if isinstance(first, TensorBase):
            own = "cuda" if is_device(first) else "cpu"
            if strict and (first._array.dtype != dtype or own != kind):
                raise TypeError(
                    f"expected {options(dtype, kind)} (got {options(first._array.dtype, own)})"
                )
            return first._array
        if isinstance(first, UntypedStorage):
            wanted = dtypes.of(dtype)
            check_storage_dtype(first, dtype, wanted.scalar_type)
            return on_storage(first, dtype)
        if isinstance(first, Size):
            return sized(tuple(first), dtype)
        if not is_int(first):
            if not from_data.is_sequence(first):
                raise TypeError(f"new(): data must be a sequence (got {type(first).__name__})")
            return from_data.to_array(first, dtype)
    if not all([is_int(a) for a in args]):
        raise TypeError(USAGE.format(", ".join([spell(a) for a in args])))
    return sized(tuple([int(a) for a in args]), dtype)


def is_int(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def spell(value: Any) -> str:
    return "torch.dtype" if type(value) is dtypes.dtype else type(value).__name__


def options(dtype: Any, kind: str) -> str:
    return OPTIONS.format(dtypes.cpp_name(dtype), kind)


def sized(shape: tuple[int, ...], dtype: Any) -> Any:
    for n in shape:
        if n < 0:
            raise RuntimeError(
                f"Trying to create tensor with negative dimension {n}: {list(shape)}"
            )
    return from_data.deterministic(np.empty(shape, dtype))


def instance(cls: type, array: Any, source: tuple[Any, ...]) -> Any:
    """A tensor of a class; one made from a tensor counts writes together with it."""
    from .sized import restrided

    t: Any = blank(cls)
    t._special = special_by(array)
    if takes_part(cls):
        t._special = INTERPRETED
        watch_class(cls, overrides(cls))
    t._array = array if array.size else restrided(array)
    if len(source) == 1 and isinstance(source[0], TensorBase):
        t._cell = source[0]._version_cell()
    elif MODES.inference:
        t._version_cell().inference = True
    return t


def legacy_tensor(cls: type, *args: Any, **kwargs: Any) -> Any:
    """`Tensor(...)`: a float tensor, except that a tensor keeps its dtype."""
    return instance(cls, construct(dtypes.default_np(), False, args, kwargs), args)


@api(function=False)
def new(self: Any, *args: Any, **kwargs: Any) -> Any:
    """new(*size) or new(data) -> Tensor: the old constructor, in the dtype of self.

    >>> tensor([1.0]).new([1, 2])
    tensor([1., 2.])
    """
    return constructed(self._array.dtype, is_device(self), args, kwargs)


def constructed(dtype: Any, on_gpu: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The tensor that the constructor of a tensor type makes, on the CPU or on the current GPU."""
    if not on_gpu:
        return instance(TENSOR.cls, construct(dtype, True, args, kwargs), args)
    from ...cuda import runtime

    xp = runtime.start()
    array = construct(dtype, True, args, kwargs, "cuda")
    return instance(TENSOR.cls, sent(array, xp), args)


class tensortype(type):
    """The class of FloatTensor and its kin, which are names for a dtype rather than classes."""

    dtype: dtypes.dtype
    is_cuda: bool

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls.is_cuda:
            from ...cuda import runtime
            from .arguments import no_cuda

            if not runtime.look():
                raise no_cuda(
                    f"type torch.cuda.{cls.__name__} not available. Torch not compiled with CUDA "
                    "enabled.",
                    TypeError,
                )
        return constructed(cls.dtype.np, cls.is_cuda, args, kwargs)

    def __instancecheck__(cls, value: Any) -> bool:
        if not isinstance(value, TensorBase) or is_device(value) != cls.is_cuda:
            return False
        return dtypes.of(value._array.dtype) is cls.dtype


def tensor_type(name: str, dtype: dtypes.dtype, cuda: bool = False) -> tensortype:
    module = "torch.cuda" if cuda else "torch"
    body = {
        "__module__": module,
        "dtype": dtype,
        "is_cuda": cuda,
        "is_sparse": False,
        "layout": strided,
        "__doc__": f"Tensors of the dtype {dtype}.",
    }
    return tensortype(name, (), body)


BY_DTYPE = {
    f"{d.scalar_type}Tensor": d
    for d in (
        dtypes.float32,
        dtypes.float64,
        dtypes.float16,
        dtypes.bfloat16,
        dtypes.uint8,
        dtypes.int8,
        dtypes.int16,
        dtypes.int32,
        dtypes.int64,
        dtypes.bool_,
    )
}
TYPES: dict[str, tensortype] = {name: tensor_type(name, d) for name, d in BY_DTYPE.items()}
CUDA_TYPES: dict[str, tensortype] = {
    name: tensor_type(name, d, cuda=True) for name, d in BY_DTYPE.items()
}
