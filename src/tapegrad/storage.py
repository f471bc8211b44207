"""Storages: the memory behind tensors, as objects."""

from __future__ import annotations

import io
import mmap
from collections.abc import Iterator
from copy import copy
from typing import Any

import numpy as np

from . import dtypes
from .core.arrays import host, root_of
from .core.base import STATE, wrap
from .core.devices import placed
from .core.layout import address

HAS_NUMPY = True


def in_shared_memory(array: Any) -> bool:
    """Whether processes that are forked from this one see what is written."""
    root = root_of(array)
    return type(root) is np.ndarray and type(root.base) is mmap.mmap


def in_new_shared_memory(array: Any) -> Any:
    """A copy of an array, with its strides where it is dense, in memory that a fork shares."""
    like = np.empty_like(array)  # NumPy's choice of strides
    made = np.ndarray(like.shape, like.dtype, mmap.mmap(-1, max(like.nbytes, 1)), 0, like.strides)
    made[...] = array
    return made


class UntypedStorage:
    """The bytes behind a tensor and all its views."""

    def __init__(self, array: Any) -> None:
        self.owner = root_of(array)

    @property
    def device(self) -> Any:
        return wrap(self.owner).device  # type: ignore[attr-defined]

    @property
    def is_cuda(self) -> bool:
        return type(self.owner) is STATE.device_type

    def bytes(self) -> Any:
        flat = self.owner if self.owner.flags.c_contiguous else self.owner.T
        return flat.reshape(-1).view(np.uint8)

    def data_ptr(self) -> int:
        return 0 if type(self.owner) is STATE.meta_type else address(self.owner)

    def nbytes(self) -> int:
        return self.owner.nbytes  # type: ignore[no-any-return]

    def cpu(self) -> Any:
        """The same on the CPU; itself if it is there already."""
        return self.moved(host(self.owner)) if self.is_cuda else self

    def cuda(self, device: Any = None, non_blocking: bool = False) -> Any:
        """The same on a GPU; itself if it is there already."""
        from .cuda import runtime

        place = runtime.index_of(device)
        if self.is_cuda and int(self.owner.device.id) == place:
            return self
        return self.moved(placed(self.owner, place))

    def moved(self, owner: Any) -> Any:
        new = copy(self)
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

    def __getitem__(self, index: int) -> Any:
        return self.bytes()[index].item()

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
        return f"TypedStorage(dtype={self.dtype}, device={self.device})"


def _load_from_bytes(b: bytes) -> Any:
    """What PyTorch's plain pickles call for the memory of a tensor."""
    from .serialization import load

    return load(io.BytesIO(b), weights_only=False)
