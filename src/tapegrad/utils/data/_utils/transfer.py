"""Objects from a worker to the loader: pickled, the big ones through anonymous shared memory.

The arrays of a batch are kept out of the pickle (protocol 5). What is small goes through the
connection. What is big is written to a file that has no name and lives only in memory, and the
connection carries its descriptor: so a worker that is ahead does not wait for the loader to read.
The kernel frees such a file with its last user: nothing can be left behind, however the processes
end.
"""

from __future__ import annotations

import io
import os
import pickle
import socket
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np

import tapegrad as tg

# Smaller messages are faster through the connection.
INLINE_LIMIT = 64 * 1024
# Arrays below this stay in the pickle: a handful of bytes is not worth a buffer of its own.
BUFFER_LIMIT = 4 * 1024

HAS_MEMORY_FILES = hasattr(os, "memfd_create")

NON_LEAF = (
    "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not "
    "support crossing process boundaries.  If you just want to transfer the data, call detach() on "
    "the tensor before serializing (e.g., putting it on the queue)."
)


class _Pickler(ForkingPickler):
    """The pickler of multiprocessing, which also knows its locks and queues."""

    def reducer_override(self, obj: Any) -> Any:
        if not isinstance(obj, tg.Tensor):
            return NotImplemented
        if obj.requires_grad and not obj.is_leaf:
            raise RuntimeError(NON_LEAF)
        return obj.__reduce_ex__(pickle.HIGHEST_PROTOCOL)  # not as queues do, see above


class Message:
    """A pickled object, ready to be sent: the pickle, and where its arrays lie."""

    def __init__(self, obj: Any) -> None:
        self.buffers: list[memoryview] = []
        stream = io.BytesIO()
        _Pickler(stream, pickle.HIGHEST_PROTOCOL, True, self._keep).dump(obj)
        self.payload = stream.getbuffer()

    def _keep(self, buffer: pickle.PickleBuffer) -> bool:
        """Take a buffer; True leaves it in the pickle."""
        try:
            raw = buffer.raw()
        except BufferError:  # not contiguous
            return True
        if raw.nbytes < BUFFER_LIMIT:
            return True
        self.buffers.append(raw)
        return False


def _as_socket(connection: Connection) -> socket.socket:
    """A second socket on the same connection; closing it leaves the first open."""
    return socket.socket(fileno=os.dup(connection.fileno()))


def send(connection: Connection, message: Message) -> None:
    """Send a message to the process at the other end."""
    parts = [message.payload, *message.buffers]
    sizes = [part.nbytes for part in parts]
    if sum(sizes) <= INLINE_LIMIT or not HAS_MEMORY_FILES:
        connection.send((sizes, False))
        for part in parts:
            connection.send_bytes(part)
        return
    file = os.memfd_create("tapegrad-batch")
    try:
        for part in parts:
            while part.nbytes:
                part = part[os.write(file, part) :]
        connection.send((sizes, True))
        with _as_socket(connection) as sock:
            socket.send_fds(sock, [b"\0"], [file])
    finally:
        os.close(file)


def receive(connection: Connection) -> list[Any]:
    """The parts of the next message; EOFError if the other side is gone."""
    sizes, in_memory_file = connection.recv()
    if not in_memory_file:
        return [bytearray(connection.recv_bytes()) for _ in sizes]
    with _as_socket(connection) as sock:
        _, files, _, _ = socket.recv_fds(sock, 1, 1)
    if not files:
        raise EOFError
    # Mapping it would save a copy, but Python keeps a file open for as long as it is mapped, and a
    # program that collects batches would run out of files.
    with open(files[0], "rb", buffering=0) as file:
        file.seek(0)
        return [_read(file, size) for size in sizes]


def _read(file: io.FileIO, size: int) -> Any:
    part = np.empty(size, np.uint8)
    rest = memoryview(part)
    while rest.nbytes:
        rest = rest[file.readinto(rest) :]
    return part


def unpack(parts: list[Any]) -> Any:
    """The object of a message."""
    payload, *buffers = parts
    return pickle.loads(payload, buffers=buffers)


def hang_up(connection: Connection) -> None:
    """End a connection for both sides at once, also where other processes inherited our end."""
    try:
        if hasattr(socket, "AF_UNIX"):
            with _as_socket(connection) as sock:
                sock.shutdown(socket.SHUT_RDWR)
    except OSError:  # already closed, or the other side is gone
        pass
    connection.close()
