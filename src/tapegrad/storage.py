"""Storages: the memory behind tensors, as objects."""

from __future__ import annotations

import io
import mmap
import os
import sys
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np

from . import dtypes
from .autograd.copies import copy_memory
from .core.array_kind import host, root_of
from .core.base import STATE, wrap
from .core.devices import placed, xp_of
from .core.is_array import is_array
from .core.late_bound import ON_DEMAND
from .core.strides import address, as_bytes

HAS_NUMPY = True


# A mapping keeps a second descriptor of its file unless Python is told not to.
ONE_FILE: dict[str, Any] = {"trackfd": False} if sys.version_info >= (3, 13) else {}


class SharedMap(mmap.mmap):
    """Memory that other processes can have too: a file without a name, and its mapping."""

    possible = hasattr(os, "memfd_create")
    file: int

    @classmethod
    def of_size(cls, size: int) -> mmap.mmap:
        """New memory; where there are no such files, memory that only forks share."""
        size = max(size, 1)
        if cls.possible:
            try:
                file = os.memfd_create("tapegrad")
                os.ftruncate(file, size)
                return cls.of_file(file, size)
            except OSError:  # too many open files
                pass
        return mmap.mmap(-1, size)

    @classmethod
    def of_file(cls, file: int, size: int) -> SharedMap:
        """The memory of a file, which is closed with it."""
        try:
            made = cls(file, size, **ONE_FILE)
        except BaseException:
            os.close(file)
            raise
        made.file = file
        return made

    def __del__(self) -> None:
        if hasattr(self, "file"):
            os.close(self.file)

    def start(self) -> int:
        """The address of the memory."""
        return address(np.ndarray((1,), np.uint8, self))

    def handle(self) -> Any:
        """The file, in a form that another process can be sent."""
        from multiprocessing.context import get_spawning_popen
        from multiprocessing.reduction import DupFd

        process = get_spawning_popen()
        if process is None:
            return DupFd(self.file)
        # What a new process is given has to stay open until it starts, once per use.
        file = os.dup(self.file)
        weakref.finalize(process, os.close, file)
        return DupFd(file)

    def identity(self) -> tuple[int, int]:
        """Device and inode of the shared file: the same pair in every process."""
        known = os.fstat(self.file)
        return known.st_dev, known.st_ino


def shared_map_of(array: Any) -> SharedMap | None:
    """The memory that an array lies in, if other processes can have it."""
    root = root_of(array)
    return root.base if isinstance(getattr(root, "base", None), SharedMap) else None


def in_shared_memory(array: Any) -> bool:
    """Whether other processes see what is written, or may come to see it."""
    root = root_of(array)
    return type(root) is np.ndarray and isinstance(root.base, mmap.mmap)


def in_new_shared_memory(array: Any) -> Any:
    """A copy of an array, with its strides where it is dense, in memory that processes share."""
    steps = zip(array.shape, array.strides, strict=True)
    if array.size and any([n > 1 and not s for n, s in steps]):
        # Expanded: the copy is too.
        once = array[tuple([slice(None) if s else slice(1) for s in array.strides])]
        made = in_new_shared_memory(once)
        strides = [s if n else 0 for s, n in zip(made.strides, array.strides, strict=True)]
        return np.lib.stride_tricks.as_strided(made, array.shape, strides)
    like = np.empty_like(array)  # NumPy's choice of strides
    memory = SharedMap.of_size(like.nbytes)
    made = np.ndarray(like.shape, like.dtype, memory, 0, like.strides)
    made[...] = array
    return made


def mapped_file(filename: Any, shared: bool, nbytes: int) -> Any:
    """The first bytes of a file as an array, read when they are used.

    Shared: what is written goes into the file, which is made or grows if need be. Otherwise
    it stays in this process.
    """
    name = os.fspath(filename)
    try:
        file = os.open(name, os.O_RDWR | os.O_CREAT if shared else os.O_RDONLY, 0o600)
    except OSError as error:
        mode = "read-write mode" if shared else "read-only mode"
        raise RuntimeError(
            f"unable to open file <{name}> in {mode}: {error.strerror} ({error.errno})"
        ) from None
    try:
        size = os.fstat(file).st_size
        if size < nbytes:
            if not shared:
                raise RuntimeError(
                    f"file <{name}> size <{size}> is smaller than the required mapping size "
                    f"<{nbytes}>"
                )
            os.ftruncate(file, nbytes)
        if not nbytes:
            return np.empty(0, np.uint8)
        access = mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY
        return np.ndarray((nbytes,), np.uint8, mmap.mmap(file, nbytes, access=access))
    finally:
        os.close(file)


class UntypedStorage:
    """The bytes behind a tensor and all its views.

    Made of a number of bytes, of their values, or (inside this library) of an array.

    >>> torch.UntypedStorage(4).nbytes()
    4
    """

    owner: Any
    filename: str | None = None

    def __init__(self, source: Any = 0, *, device: Any = None) -> None:
        if is_array(source) or type(source) is STATE.meta_type:
            root = root_of(source)
            dense = type(root) is STATE.meta_type or root.flags.c_contiguous
            self.owner = root if dense else as_bytes(xp_of(root), root)
            return
        from .ops.creation.sized import empty

        if isinstance(source, int):
            self.owner = empty(source, dtype=dtypes.uint8, device=device)._array
        else:
            values = np.array([int(value) & 0xFF for value in source], np.uint8)
            self.owner = wrap(values).to(device or "cpu")._array  # type: ignore[attr-defined]

    @classmethod
    def from_file(cls, filename: Any, shared: bool = False, nbytes: int = 0) -> UntypedStorage:
        """The memory of a file; see `torch.from_file`."""
        made = cls(mapped_file(filename, shared, nbytes))
        made.filename = os.fspath(filename) if shared else None
        return made

    @classmethod
    def _new_shared(cls, size: int, *, device: Any = "cpu") -> UntypedStorage:
        return cls(size).share_memory_()

    def share_memory_(self) -> Any:
        """Move into memory that other processes see; tensors made before stay where they were."""
        if not self.is_shared():
            self.owner = in_new_shared_memory(self.owner)
        return self

    @property
    def device(self) -> Any:
        return wrap(self.owner).device  # type: ignore[attr-defined]

    @property
    def is_cuda(self) -> bool:
        return type(self.owner) is STATE.device_type

    def bytes(self) -> Any:
        if type(self.owner) is STATE.meta_type:
            raise NotImplementedError("Not available for 'meta' device type")
        return self.owner.reshape(-1).view(np.uint8)

    def data_ptr(self) -> int:
        return 0 if type(self.owner) is STATE.meta_type else address(self.owner)

    @property
    def _cdata(self) -> int:
        """A number that two storages share if they are of one memory."""
        return id(self.owner)

    def nbytes(self) -> int:
        return self.owner.nbytes  # type: ignore[no-any-return]

    def cpu(self) -> Any:
        """A copy on the CPU; itself if it is there already."""
        return self.moved(host(self.owner)) if self.is_cuda else self

    def cuda(self, device: Any = None, non_blocking: bool = False) -> Any:
        """A copy on a GPU; itself if it is there already."""
        from .cuda import runtime

        place = runtime.index_of(device)
        if self.is_cuda and int(self.owner.device.id) == place:
            return self
        return self.moved(placed(self.owner, place))

    def moved(self, owner: Any) -> Any:
        new = object.__new__(type(self))
        new.__dict__.update(self.__dict__)
        new.owner = owner
        return new

    def size(self) -> int:
        return self.nbytes()

    def element_size(self) -> int:
        return 1

    def is_shared(self) -> bool:
        return in_shared_memory(self.owner)

    def is_pinned(self, device: Any = None) -> bool:
        return False

    def tolist(self) -> list[Any]:
        return self.bytes().tolist()  # type: ignore[no-any-return]

    def __len__(self) -> int:
        return self.size()

    def __getitem__(self, index: int | slice) -> Any:
        if not isinstance(index, slice):
            return self.bytes()[self.position(index)].item()
        start, stop = self.bounds(index)
        # Through a memoryview, NumPy does not see the array behind: the part is a storage of its
        # own, that starts and ends where it says, as PyTorch's.
        part = memoryview(self.bytes().view(np.uint8))[start:stop]
        return UntypedStorage(np.frombuffer(part, np.uint8))

    def __setitem__(self, index: int | slice, value: Any) -> None:
        if not isinstance(value, int):
            raise RuntimeError(
                "can only set storage content with a int types, but got "
                f"{type(value).__name__} instead"
            )
        place = slice(*self.bounds(index)) if isinstance(index, slice) else self.position(index)
        self.bytes()[place] = value & 0xFF

    def position(self, index: Any) -> int:
        if not isinstance(index, int):
            raise TypeError(f"can't index a torch.UntypedStorage with {type(index).__name__}")
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} out of range for storage of size {len(self)}")
        return index

    def bounds(self, index: slice) -> tuple[int, int]:
        start, stop, step = index.indices(len(self))
        if step != 1:
            raise RuntimeError(
                f"Trying to slice with a step of {step}, but only a step of 1 is supported"
            )
        return start, max(start, stop)

    def clone(self) -> Any:
        """A copy of the bytes in memory of its own."""
        return self.moved(self.owner.copy())

    __copy__ = clone

    @classmethod
    def from_buffer(
        cls,
        buffer: Any,
        byte_order: str | None = None,
        count: int = -1,
        offset: int = 0,
        *,
        dtype: dtypes.dtype | None = None,
    ) -> Any:
        """A copy of the elements of a bytes-like object, written in the given byte order."""
        if dtype is None:
            raise RuntimeError("argument 'dtype' cannot be None")
        return UntypedStorage(from_bytes(buffer, byte_order, count, offset, dtype))

    def byteswap(self, dtype: dtypes.dtype) -> None:
        """Turn the bytes of each number around, as if the memory held numbers of `dtype`."""
        item = dtype.itemsize // 2 if dtype.is_complex else dtype.itemsize
        memory = self.bytes()
        if memory.nbytes % item:
            raise RuntimeError(f"the length of data is not a multiple of {item}")
        if item > 1:
            memory.view(np.uint8).view(f"u{item}").byteswap(inplace=True)

    def copy_(self, source: UntypedStorage, non_blocking: bool | None = None) -> Any:
        """Take the bytes of another storage."""
        if type(self.owner) is STATE.meta_type:
            return self
        self.bytes()[...] = source.bytes()
        return self

    def fill_(self, value: int) -> Any:
        if type(self.owner) is not STATE.meta_type:
            self.bytes()[...] = value
        return self

    def new(self) -> UntypedStorage:
        """An empty storage on the same device."""
        return UntypedStorage(0, device=self.device)

    def to(self, *, device: Any, non_blocking: bool = False) -> Any:
        """A copy on a device; itself if it is there already."""
        return self.cpu() if str(device) == "cpu" else self.cuda(device)

    def untyped(self) -> UntypedStorage:
        return self

    def type(self) -> str:
        return "torch.storage.UntypedStorage"

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.nbytes()

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            memo[id(self)] = self.moved(copy_memory(self.owner, memo))
        return memo[id(self)]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UntypedStorage) and other.data_ptr() == self.data_ptr()

    def __hash__(self) -> int:
        return hash(self.data_ptr())

    def __repr__(self) -> str:
        if type(self.owner) is STATE.meta_type:
            return f"...\n[torch.storage.{self.kind()} of size {len(self)}]"
        lines = "\n ".join([str(v) for v in self.tolist()])
        return f" {lines}\n[torch.storage.{self.kind()} of size {len(self)}]"

    def kind(self) -> str:
        return f"UntypedStorage(device={self.device})"


StorageBase = UntypedStorage  # PyTorch has the two apart


def check_storage_dtype(source: UntypedStorage, own: Any, name: str) -> None:
    """Refuse a storage with elements of another dtype than the NumPy dtype `own`, called `name`."""
    if isinstance(source, TypedStorage) and source.dtype.np != own:
        raise RuntimeError(
            f"Expected a Storage of type {name} or an UntypedStorage, but got type "
            f"{source.dtype.scalar_type} for argument 1 'storage'"
        )


class TypedStorage(UntypedStorage):
    """The elements behind a tensor and all its views.

    >>> torch.TypedStorage([1, 2], dtype=torch.int64).tolist()
    [1, 2]
    """

    dtype: dtypes.dtype

    def __init__(
        self,
        source: Any = 0,
        *,
        wrap_storage: UntypedStorage | None = None,
        dtype: dtypes.dtype | None = None,
        device: Any = None,
        _internal: bool = False,
    ) -> None:
        if is_array(source) or type(source) is STATE.meta_type:
            super().__init__(source)
            self.dtype = dtypes.of(source.dtype)
            return
        self.dtype = dtype or dtypes.get_default_dtype()
        if wrap_storage is not None:
            self.owner = wrap_storage.owner
        elif isinstance(source, int):
            super().__init__(source * self.dtype.itemsize, device=device)
        else:
            super().__init__(np.array(list(source), self.dtype.np))

    @classmethod
    def of_file(cls, dtype: dtypes.dtype, filename: Any, shared: bool, size: int) -> TypedStorage:
        """The memory of a file, as elements."""
        return cls(mapped_file(filename, shared, size * dtype.itemsize).view(dtype.np))

    def bytes(self) -> Any:
        return super().bytes().view(self.dtype.np)

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        return self.bytes()[self.position(index)].item()

    def __setitem__(self, index: int | slice, value: Any) -> None:
        if type(self.owner) is not STATE.meta_type:
            self.bytes()[index] = value

    def size(self) -> int:
        return self.nbytes() // self.dtype.itemsize

    def element_size(self) -> int:
        return self.dtype.itemsize

    def untyped(self) -> UntypedStorage:
        return UntypedStorage(self.owner)

    _untyped_storage = property(untyped)

    def type(self) -> str:
        return f"torch.{self.dtype.scalar_type}Storage"

    def as_type(self, dtype: dtypes.dtype) -> TypedStorage:
        """The elements in another dtype; always a copy."""
        return TypedStorage(wrap(self.bytes()).to(dtype, copy=True)._array)  # type: ignore[attr-defined]

    def kind(self) -> str:
        return f"TypedStorage(dtype={self.dtype}, device={self.device})"


def from_bytes(buffer: Any, byte_order: str | None, count: int, offset: int, dtype: Any) -> Any:
    """An array with a copy of numbers that were written as bytes."""
    if byte_order is None and dtype not in (dtypes.uint8, dtypes.int8):
        raise RuntimeError("function missing required argument 'byte_order' (pos 2)")
    if byte_order not in (None, "big", "little", "native"):
        raise ValueError(
            f"invalid byte_order '{byte_order}' (expected 'big', 'little', or 'native')"
        )
    memory = memoryview(buffer).cast("B")
    if not 0 <= offset <= len(memory):
        raise ValueError(
            f"offset must be non-negative and no greater than buffer length ({offset}) , but got "
            f"{len(memory)}"
        )
    item = dtype.itemsize
    if count < 0:
        if (len(memory) - offset) % item:
            raise ValueError(
                f"buffer size ({len(memory)}) must be a multiple of element size ({item})"
            )
        count = (len(memory) - offset) // item
    if offset + count * item > len(memory):
        raise ValueError(
            f"buffer has only {len(memory) - offset} elements after offset {offset}, but "
            f"specified a size of {count}"
        )
    storage = UntypedStorage(np.frombuffer(memory, np.uint8, count * item, offset).copy())
    if byte_order not in (None, "native", sys.byteorder):
        storage.byteswap(dtype)
    return storage.bytes().view(dtype.np)


def converting(dtype: dtypes.dtype) -> Any:
    """The method that is called as a dtype: `storage.float()`."""

    def method(self: UntypedStorage) -> TypedStorage:
        elements = self if isinstance(self, TypedStorage) else TypedStorage(self.bytes())
        return elements.as_type(dtype)

    return method


CONVERSIONS = {
    "bfloat16": dtypes.bfloat16,
    "bool": dtypes.bool_,
    "byte": dtypes.uint8,
    "char": dtypes.int8,
    "complex_double": dtypes.complex128,
    "complex_float": dtypes.complex64,
    "double": dtypes.float64,
    "float": dtypes.float32,
    "half": dtypes.float16,
    "int": dtypes.int32,
    "long": dtypes.int64,
    "short": dtypes.int16,
}
for _name, _dtype in CONVERSIONS.items():
    setattr(UntypedStorage, _name, converting(_dtype))


def _load_from_bytes(b: bytes) -> Any:
    """The memory of a tensor from bytes; PyTorch's plain pickles call this."""
    return ON_DEMAND.load_file(io.BytesIO(b), weights_only=False)
