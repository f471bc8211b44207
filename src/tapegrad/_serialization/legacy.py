"""The format before PyTorch 1.6: pickles one after another, then the memory of every storage."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.devices import where_is
from ..core.strides import as_bytes
from .archive import fill, size_of, write_all
from .pickling import Storages, make_pickler
from .storage_bytes import brief, checked_type, typed, untyped

MAGIC = 0x1950A86A20F9469CFC6C
PROTOCOL = 1001
SYSTEM = {
    "protocol_version": PROTOCOL,
    "little_endian": True,
    "type_sizes": {"short": 2, "int": 4, "long": 4},
}

Load = Callable[[Callable[[Any], Any] | None], Any]  # the next object, given a persistent_load


def save(
    obj: Any, write: Callable[[Any], Any], pickle_module: Any, protocol: int, storages: Storages
) -> None:
    buffer = io.BytesIO()
    for part in (MAGIC, PROTOCOL, SYSTEM):
        pickle_module.dump(part, buffer, protocol=protocol)
    make_pickler(pickle_module, buffer, protocol, storages).dump(obj)
    keys = sorted(storages.arrays)
    pickle_module.dump(keys, buffer, protocol=protocol)
    write_all(write, buffer.getvalue())
    for key in keys:
        write_all(write, struct.pack("<q", storages.sizes[key]))
        write_all(write, storages.arrays[key])


class Memory:
    """The storages of a file: room is made while the object is read, the data comes after it."""

    def __init__(self, file: Any, restore: Callable[[Any, str], Any]) -> None:
        self.file = file
        self.restore = restore
        self.left = size_of(file) - file.tell()
        self.storages: dict[str, Any] = {}
        self.dtypes: dict[str, Any] = {}
        self.views: dict[str, Any] = {}

    def persistent_load(self, saved: Any) -> Any:
        if not isinstance(saved, tuple) or not saved:
            raise TypeError(f"saved_id must be a tuple, got {type(saved).__name__}")
        kind = saved[0].decode() if isinstance(saved[0], bytes) else saved[0]
        if kind == "module" and len(saved) > 1:
            return saved[1]  # a class and, after it, its source
        if kind != "storage" or len(saved) not in (5, 6):
            raise RuntimeError(f"Unknown saved id type: {brief(kind)}")
        return self.storage(*saved[1:])

    def storage(self, kind: Any, key: Any, location: Any, numel: Any, view: Any = None) -> Any:
        dtype = checked_type(kind, numel)
        root = checked_key(key)
        if not isinstance(location, str):
            raise RuntimeError(f"a storage in the file is damaged: its place is {brief(location)}")
        if root not in self.storages:
            size = numel * dtype.itemsize
            self.left -= size
            if self.left < 0:
                raise missing(-self.left)
            made = self.restore(untyped(np.empty(size, np.uint8)), location)
            self.storages[root] = made
            self.dtypes[root] = dtype
        owner = self.storages[root].owner
        if view is None:
            return typed(owner, dtype)
        return self.view(owner, dtype, view)

    def view(self, owner: Any, dtype: Any, view: Any) -> Any:
        """Files of long ago have storages that are parts of others."""
        if not isinstance(view, tuple) or len(view) != 3:
            raise RuntimeError(f"a storage in the file is damaged: {brief(view)}")
        key, offset, size = checked_key(view[0]), *view[1:]
        if type(offset) is not int or type(size) is not int or offset < 0 or size < 0:
            raise RuntimeError(f"a storage in the file is damaged: {brief(offset)}, {brief(size)}")
        if key not in self.views:
            item = dtype.itemsize
            self.views[key] = typed(
                as_bytes(np, owner)[offset * item : (offset + size) * item], dtype
            )
        return self.views[key]

    def read(self, keys: Any) -> None:
        """Fill the storages, in the order of `keys`."""
        if not isinstance(keys, list) or set(map(checked_key, keys)) != set(self.storages):
            raise RuntimeError("the list of storages in the file is damaged")
        for key in map(str, keys):
            target = as_bytes(np, self.storages[key].owner)
            count = np.empty(8, np.uint8)
            self.take(count)
            numel = struct.unpack("<q", count.tobytes())[0]
            expected = target.size // self.dtypes[key].itemsize
            if numel != expected:
                raise RuntimeError(f"storage has wrong size: expected {expected} got {numel}")
            if isinstance(target, np.ndarray):
                self.take(target)
            else:
                here = np.empty(target.size, np.uint8)
                self.take(here)
                target[...] = where_is(target, here)

    def take(self, target: Any) -> None:
        """Read bytes into an array of the host."""
        done = fill(self.file, target)
        if done < target.size:
            raise missing(target.size - done)


def checked_key(key: Any) -> str:
    """The name of a storage: text, or a number in files of long ago."""
    if not isinstance(key, (str, bytes, int)):
        raise RuntimeError(f"a storage in the file is damaged: its key is {brief(key)}")
    return str(key)


def missing(count: int) -> RuntimeError:
    return RuntimeError(
        f"unexpected EOF, expected {count} more bytes. The file might be corrupted."
    )


def load(file: Any, restore: Callable[[Any, str], Any], load_next: Load) -> Any:
    """Read the object at the file's position; `load_next` unpickles one object."""
    if load_next(None) != MAGIC:
        raise RuntimeError("Invalid magic number; corrupt file?")
    protocol = load_next(None)
    if protocol != PROTOCOL:
        raise RuntimeError(f"Invalid protocol version: {brief(protocol)}")
    load_next(None)  # about the machine that wrote it; the data is little-endian everywhere
    memory = Memory(file, restore)
    result = load_next(memory.persistent_load)
    memory.read(load_next(None))
    return result
