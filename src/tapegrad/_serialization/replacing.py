"""Writing a file so that it is the old one or the new one, whole, whatever happens meanwhile.

The bytes go into a new file beside it, which takes its place at the end. Where that would lose what
PyTorch keeps by writing into the old file (other hard links to it, its owner), or where the folder
takes no new files, the new bytes are copied into the old file once all of them are there.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Callable
from typing import IO, Any

LEFT_OVER = re.compile(r"\.tapegrad-[0-9a-f]{16}\.tmp")
OLD = 3600.0  # seconds since the last write to a temporary file, after which nobody writes to it


def write_file(path: str, write: Callable[[Any], None]) -> None:
    """Let `write(file)` make the bytes that the file at `path` then has; nothing if it raises.

    A function, and no context manager: between a generator's `yield` and the `with` block that it
    is for, contextlib runs code in which Ctrl-C would leave the temporary file behind.
    """
    path = os.path.realpath(path)
    try:
        old = os.stat(path)
    except FileNotFoundError:
        old = None
    if old is not None and not stat.S_ISREG(old.st_mode):  # a pipe, /dev/null, or a folder (error)
        with open(path, "wb") as file:
            write(file)
        return
    if old is not None:
        os.close(os.open(path, os.O_WRONLY))  # PyTorch does not write to a read-only file either
    folder = os.path.dirname(path)
    remove_left_overs(folder)
    temporary = os.path.join(folder, f".tapegrad-{secrets.token_hex(8)}.tmp")
    try:
        try:
            file = open_new(temporary)
        except PermissionError:
            if old is None:
                raise
            with tempfile.TemporaryFile() as file:  # the folder takes no new files
                write(file)
                copy_into(file, path)
            return
        with file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
            takes_its_place = old is None or may_be_replaced(old, temporary)
            if not takes_its_place:
                copy_into(file, path)
        if takes_its_place:
            os.replace(temporary, path)
        else:
            os.unlink(temporary)
    except BaseException:
        # It is not there if it was not made yet, or if Ctrl-C came right after the replacing.
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def open_new(path: str) -> IO[bytes]:
    """A new file, with the permissions that the process gives to files."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    return open(path, "w+b", opener=lambda name, _: os.open(name, flags, 0o666))


def may_be_replaced(old: os.stat_result, temporary: str) -> bool:
    """Whether nobody can tell the new file from the old one; it gets its owner and permissions."""
    if old.st_nlink > 1:
        return False
    now = os.stat(temporary)
    try:
        if (now.st_uid, now.st_gid) != (old.st_uid, old.st_gid):
            os.chown(temporary, old.st_uid, old.st_gid)
        os.chmod(temporary, stat.S_IMODE(old.st_mode))
    except OSError:
        return False
    return True


def copy_into(file: IO[bytes], path: str) -> None:
    """Overwrite a file with the bytes of another one; where the disk is too full it stays."""
    file.flush()
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    with open(path, "r+b") as old:
        before = os.fstat(old.fileno()).st_size
        if size > before and hasattr(os, "posix_fallocate"):
            try:
                os.posix_fallocate(old.fileno(), before, size - before)
            except BaseException:
                old.truncate(before)
                raise
        shutil.copyfileobj(file, old, 1 << 20)
        old.truncate(size)
        old.flush()
        os.fsync(old.fileno())


def remove_left_overs(folder: str) -> None:
    """Remove the temporary files of saves that were killed: our own, and old ones only."""
    try:
        names = [name for name in os.listdir(folder or ".") if LEFT_OVER.fullmatch(name)]
    except OSError:
        return  # a folder that may be written to, but not read
    for name in names:
        path = os.path.join(folder, name)
        with contextlib.suppress(OSError):
            found = os.lstat(path)
            is_own = not hasattr(os, "geteuid") or found.st_uid == os.geteuid()
            if is_own and stat.S_ISREG(found.st_mode) and time.time() - found.st_mtime > OLD:
                os.unlink(path)
