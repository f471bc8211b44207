"""`FloatStorage` and its sisters: storages by dtype, as old programs ask for them."""

from __future__ import annotations

from typing import Any

from ... import dtypes
from ...storage import TypedStorage, from_bytes


class ByDtype(type):
    """Classes whose instances are the storages of one dtype."""

    dtype: dtypes.dtype

    def __instancecheck__(cls, value: object) -> bool:
        return type(value) is TypedStorage and value.dtype is cls.dtype

    def __call__(cls, *given: Any) -> TypedStorage:
        """Storage of so many elements, or of those in a sequence."""
        return TypedStorage(*given[:1], dtype=cls.dtype)

    def from_buffer(
        cls, buffer: Any, byte_order: str | None = None, count: int = -1, offset: int = 0
    ) -> TypedStorage:
        """A copy of the elements of a bytes-like object, written in the given byte order."""
        return TypedStorage(from_bytes(buffer, byte_order, count, offset, cls.dtype))

    def from_file(cls, filename: Any, shared: bool = False, size: int = 0) -> TypedStorage:
        """The memory of a file; see `torch.from_file`."""
        return TypedStorage.of_file(cls.dtype, filename, shared, size)


def storage_class(name: str, dtype: dtypes.dtype) -> Any:
    """The class of the storages of `dtype`."""
    fields = {"dtype": dtype, "__module__": "torch", "__doc__": f"The storages of {dtype}."}
    return ByDtype(name, (), fields)


BFloat16Storage = storage_class("BFloat16Storage", dtypes.bfloat16)
BoolStorage = storage_class("BoolStorage", dtypes.bool_)
ByteStorage = storage_class("ByteStorage", dtypes.uint8)
CharStorage = storage_class("CharStorage", dtypes.int8)
ComplexDoubleStorage = storage_class("ComplexDoubleStorage", dtypes.complex128)
ComplexFloatStorage = storage_class("ComplexFloatStorage", dtypes.complex64)
DoubleStorage = storage_class("DoubleStorage", dtypes.float64)
FloatStorage = storage_class("FloatStorage", dtypes.float32)
HalfStorage = storage_class("HalfStorage", dtypes.float16)
IntStorage = storage_class("IntStorage", dtypes.int32)
LongStorage = storage_class("LongStorage", dtypes.int64)
ShortStorage = storage_class("ShortStorage", dtypes.int16)
Storage = FloatStorage

ALL = {
    c.dtype: c
    for c in (
        BFloat16Storage,
        BoolStorage,
        ByteStorage,
        CharStorage,
        ComplexDoubleStorage,
        ComplexFloatStorage,
        DoubleStorage,
        FloatStorage,
        HalfStorage,
        IntStorage,
        LongStorage,
        ShortStorage,
    )
}
