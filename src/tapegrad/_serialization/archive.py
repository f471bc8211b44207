"""PyTorch's archives: zip files of stored records, each record's data at a multiple of 64 bytes.

Written by hand, byte for byte as PyTorch does (Python's zipfile cannot pad local headers alone).
Read through zipfile's directory; records are then read or mapped where they lie, after their
places and sizes have been held against the file.
"""

from __future__ import annotations

import mmap
import os
import struct
import zipfile
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

ALIGNMENT = 64
VERSION = 3
NEWEST_READABLE = 10
LIMIT_32 = 0xFFFFFFFF
UTF8, SIZES_FOLLOW = 0x0800, 0x0008
DENSEST = 1032  # the most that deflate can make of one byte
# What compressed records may come to in all: this much, or so many times the size of the file.
FREE_UNPACKED, MOST_UNPACKED = 1 << 26, 64
MINIZ = " This is an internal miniz error."  # the words people search for
CORRUPT = (
    " If you are seeing this error, there is a high likelihood "
    "that your checkpoint file is corrupted. This can happen if the checkpoint was not saved "
    "properly, was transferred incorrectly, or the file was modified after saving."
)


def corrupt(what: str, why: object = None) -> RuntimeError:
    reason = "" if why is None else f"\n  {why}"
    return RuntimeError(f"PytorchStreamReader failed {what.rstrip('.')}.{CORRUPT}{reason}")


# ---------------------------------------------------------------------- writing


def flags(size: int) -> int:
    """Checksum and sizes come after the data, where there is any."""
    return UTF8 | SIZES_FOLLOW if size else UTF8


class ArchiveWriter:
    """Writes records one after another; `close` adds the directory."""

    def __init__(self, write: Callable[[Any], Any], name: str, checksums: bool = True) -> None:
        self.output = write
        self.folder = name
        self.checksums = checksums
        self.at = 0
        self.entries: list[tuple[bytes, int, int, int]] = []

    def write(self, data: Any) -> None:
        write_all(self.output, data)
        self.at += len(data)

    def record(self, name: str, data: Any) -> None:
        """Add a record; `data` is bytes or a flat array of them."""
        full = f"{self.folder}/{name}".encode()
        view = memoryview(data)
        size = len(view)
        checksum = zlib.crc32(view) if self.checksums else 0
        start = self.at
        large = size >= LIMIT_32
        sizes = struct.pack("<HHQQ", 1, 16, size, size) if large else b""
        padding = -(start + 30 + len(full) + len(sizes) + 4) % ALIGNMENT
        extra = sizes + b"FB" + struct.pack("<H", padding) + b"Z" * padding
        stated = LIMIT_32 if large else 0
        header = (0, flags(size), 0, 0, 0, 0, stated, stated, len(full), len(extra))
        self.write(b"PK\3\4" + struct.pack("<5H3I2H", *header) + full + extra)
        self.write(view)
        if size:
            self.write(b"PK\7\10" + struct.pack("<I2Q" if large else "<3I", checksum, size, size))
        self.entries.append((full, checksum, size, start))

    def close(self) -> None:
        """Write the serialization id, then the directory of all records."""
        names = b"".join([entry[0] for entry in self.entries])
        sums = b"".join([struct.pack("<I", entry[1]) for entry in self.entries])
        self.record(
            ".data/serialization_id", f"{zlib.crc32(names):020d}{zlib.crc32(sums):020d}".encode()
        )
        directory = self.at
        for full, checksum, size, start in self.entries:
            large = [n for n in (size, size, start) if n >= LIMIT_32]
            extra = struct.pack(f"<HH{len(large)}Q", 1, 8 * len(large), *large) if large else b""
            shown = min(size, LIMIT_32)
            fields = (0, 0, flags(size), 0, 0, 0, checksum, shown, shown, len(full), len(extra))
            self.write(
                b"PK\1\2"
                + struct.pack("<6H3I2H", *fields)
                + struct.pack("<3H2I", 0, 0, 0, 0, min(start, LIMIT_32))
                + full
                + extra
            )
        self.end(directory)

    def end(self, directory: int) -> None:
        count, size, after = len(self.entries), self.at - directory, self.at
        wide = (44, 0x031E, 45, 0, 0, count, count, size, directory)
        self.write(b"PK\6\6" + struct.pack("<Q2H2I4Q", *wide))
        self.write(b"PK\6\7" + struct.pack("<IQI", 0, after, 1))
        short = min(count, 0xFFFF)
        narrow = (0, 0, short, short, min(size, LIMIT_32), min(directory, LIMIT_32), 0)
        self.write(b"PK\5\6" + struct.pack("<4H2IH", *narrow))


def write_all(write: Callable[[Any], Any], data: Any) -> None:
    """Unbuffered files may take less than they are given."""
    view = memoryview(data)
    while len(view):
        taken = write(view)
        if not isinstance(taken, int) or taken >= len(view):
            return
        view = view[taken:]


# ---------------------------------------------------------------------- reading


def fill(file: Any, target: Any) -> int:
    """Read into a flat array of bytes; how many there were."""
    view = memoryview(target)
    done = 0
    while done < len(view):
        if hasattr(file, "readinto"):
            count = file.readinto(view[done:])
        else:
            data = file.read(min(len(view) - done, 1 << 24))
            count = len(data)
            view[done : done + count] = data
        if not count:
            break
        done += count
    return done


def size_of(file: Any) -> int:
    """How long a seekable file is; its position stays."""
    here = file.tell()
    size: int = file.seek(0, os.SEEK_END) or file.tell()
    file.seek(here)
    return size


class ArchiveReader:
    """The records of an archive in an open, seekable file."""

    def __init__(self, file: Any, mapped: mmap.mmap | None = None) -> None:
        self.file = file
        self.mapped = mapped
        self.size = size_of(file)
        self.handed_out = self.unpacked = 0
        try:
            self.zip = zipfile.ZipFile(file)
        except DAMAGE as error:
            raise corrupt(
                f"reading zip archive: failed finding central directory.{MINIZ}", error
            ) from None
        names = self.zip.namelist()
        if not names:
            raise corrupt("reading zip archive: archive does not contain any files")
        self.folder, slash, _ = names[0].partition("/")
        if not slash:
            raise RuntimeError(f"file in archive is not in a subdirectory: {names[0]}")
        self.check_version()

    def check_version(self) -> None:
        if not self.has("version"):
            raise RuntimeError(
                'Expected hasRecord("version") to be true, but got false.  (Could this error '
                "message be improved?  If so, please report an enhancement request to PyTorch.)"
            )
        text = self.read("version")
        try:
            version = int(text)
        except ValueError:
            raise corrupt(f"reading file version: it says {text!r:.40}") from None
        if version > NEWEST_READABLE:
            raise RuntimeError(
                f"Attempted to read a PyTorch file with version {version}, but the maximum "
                f"supported version for reading is {NEWEST_READABLE}. The version of your PyTorch "
                "installation may be too old, please upgrade PyTorch to latest version to "
                "mitigate this issue."
            )
        if version < 1:
            raise RuntimeError(
                f"Attempted to read a PyTorch file with version {version}, but the minimum "
                "supported version for reading is 1."
            )

    def has(self, name: str) -> bool:
        return f"{self.folder}/{name}" in self.zip.NameToInfo

    def info(self, name: str) -> zipfile.ZipInfo:
        try:
            return self.zip.getinfo(f"{self.folder}/{name}")
        except KeyError:
            raise corrupt(f"locating file {name}: file not found.{MINIZ}") from None

    def record_size(self, name: str) -> int:
        return self.info(name).file_size

    def read(self, name: str) -> bytes:
        return self.array(name).tobytes()

    def array(self, name: str) -> Any:
        """The bytes of a record in fresh memory; in the mapped file, where there is one."""
        info = self.info(name)
        if info.compress_type == zipfile.ZIP_DEFLATED:
            return self.inflated(name, info)
        if info.compress_type != zipfile.ZIP_STORED:
            raise corrupt(f"retrieving file meta-data for {name}: unsupported method.{MINIZ}")
        start = self.place(name, info)
        if self.mapped is not None and start % ALIGNMENT == 0 and info.file_size:
            return np.frombuffer(self.mapped, np.uint8, info.file_size, start)
        # Records cannot lie on top of each other, whatever the directory says.
        self.handed_out += info.file_size
        if self.handed_out > 2 * self.size:
            raise corrupt(f"reading file {name}: the records are larger than the file")
        found = np.empty(info.file_size, np.uint8)
        self.file.seek(start)
        if fill(self.file, found) < found.size:
            raise corrupt(f"reading file {name}: the file ends before it")
        self.check_sum(name, info, found)
        return found

    def place(self, name: str, info: zipfile.ZipInfo) -> int:
        """Where the data of a stored record starts."""
        header = np.empty(30, np.uint8)
        at = info.header_offset
        if not 0 <= at < self.size:
            raise corrupt(f"reading file {name}: its header is not in the file")
        self.file.seek(at)
        if fill(self.file, header) < 30 or header[:4].tobytes() != b"PK\3\4":
            raise corrupt(f"reading file {name}: its header is damaged")
        named, extra = struct.unpack("<2H", header[26:].tobytes())
        start = at + 30 + named + extra
        if info.file_size != info.compress_size or start + info.file_size > self.size:
            raise corrupt(f"reading file {name}: its size is not that of the data")
        return start

    def inflated(self, name: str, info: zipfile.ZipInfo) -> Any:
        """A compressed record, as other programs write them when they pack an archive again."""
        if info.file_size > DENSEST * min(info.compress_size, self.size) + ALIGNMENT:
            raise corrupt(f"reading file {name}: its size is not that of the data")
        self.unpacked += info.file_size
        if self.unpacked > max(FREE_UNPACKED, MOST_UNPACKED * self.size):
            raise corrupt(f"reading file {name}: the archive unpacks to {self.unpacked} bytes")
        try:
            data = self.zip.read(info)
        except DAMAGE as error:
            raise corrupt(f"reading file {name}", error) from None
        return np.frombuffer(bytearray(data), np.uint8)

    def check_sum(self, name: str, info: zipfile.ZipInfo, data: Any) -> None:
        # PyTorch writes zeros when it is told not to compute checksums.
        if info.CRC and zlib.crc32(data) != info.CRC:
            raise corrupt(f"reading file {name}: the data does not have the checksum it had")


# What zipfile raises when it meets nonsense.
DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    IndexError,
    KeyError,
    NotImplementedError,
    OverflowError,
    RuntimeError,
    ValueError,
)
