"""The memory behind tensors, as files see it: one flat run of bytes and the class of its elements.

A pickle names that class `torch.FloatStorage` and so on. Here there are no such classes, only
`StorageType`, which knows the dtype that a name stands for.
"""

from __future__ import annotations

from typing import Any

from .. import dtypes
from ..api.tensor.conversion import TypedStorage, UntypedStorage

# These have no storage class in PyTorch: their tensors are saved as bytes and a dtype.
UNNAMED = (dtypes.uint16, dtypes.uint32, dtypes.uint64)
NAMED = {f"{d.scalar_type}Storage": d for d in dtypes.ALL if d not in UNNAMED}
NAMED["UntypedStorage"] = dtypes.uint8
# Classes that PyTorch has and tapegrad has no dtype for.
FOREIGN = ("ComplexHalf", "QInt8", "QInt32", "QUInt8", "QUInt2x4", "QUInt4x2")


class StorageType:
    """The class of a storage, as pickles name it.

    >>> from tapegrad.serialization import StorageType
    >>> StorageType("FloatStorage").dtype
    torch.float32
    """

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def dtype(self) -> dtypes.dtype:
        try:
            return NAMED[self.name]
        except KeyError:
            raise RuntimeError(
                f"the file holds a torch.{self.name}, and tapegrad has no dtype for it"
            ) from None

    def __repr__(self) -> str:
        return f"StorageType({self.name})"


# One of each: pickles refer back to what they have named before.
TYPES = {name: StorageType(name) for name in (*NAMED, *[f"{n}Storage" for n in FOREIGN])}
TYPE_OF = {d: TYPES[name] for name, d in NAMED.items() if name != "UntypedStorage"}
UNTYPED = TYPES["UntypedStorage"]


def brief(value: Any) -> str:
    """A value from a file, for a message: containers may print as more than memory holds."""
    if value is None or isinstance(value, (str, bytes, int, float, type, StorageType)):
        return f"{value!r:.60}"
    return f"a {type(value).__name__}"


def checked_type(kind: Any, numel: Any) -> dtypes.dtype:
    """The dtype of a storage that a file describes by its class and its number of elements."""
    if kind is UntypedStorage:
        kind = UNTYPED
    if not isinstance(kind, StorageType) or type(numel) is not int or numel < 0:
        raise RuntimeError(f"a storage in the file is damaged: {brief(kind)}, {brief(numel)}")
    return kind.dtype


def untyped(array: Any) -> UntypedStorage:
    """A storage of exactly this flat array, be it a part of another or not."""
    storage = UntypedStorage.__new__(UntypedStorage)
    storage.owner = array
    return storage


def typed(array: Any, dtype: dtypes.dtype) -> TypedStorage:
    """This storage with elements of a dtype."""
    storage = TypedStorage.__new__(TypedStorage)
    storage.owner = array
    storage.dtype = dtype
    return storage
