"""Stores of keys and values by which processes find each other: in a process, a file, a server.

Data of training do not go through them. All are a table and a way to reach it; who waits for a key
asks again and again.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import IO, Any

from ..core.locks import new_lock
from ._errors import DistNetworkError, DistStoreError

PAUSE = 0.01  # seconds between two questions for a key
CALLS = {"set", "get", "add", "compare_set", "append", "delete_key", "check", "num_keys"}


class Table:
    """The values by key, as text of one byte a character."""

    def __init__(self, values: dict[str, str] | None = None) -> None:
        self.values = {} if values is None else values

    def set(self, key: str, value: str) -> None:
        self.values[key] = value

    def get(self, key: str) -> str | None:
        return self.values.get(key)

    def add(self, key: str, amount: int) -> int:
        total = int(self.values.get(key, "0")) + amount
        self.values[key] = str(total)
        return total

    def compare_set(self, key: str, expected: str, desired: str) -> str:
        """Set it if it has the expected value, or is absent and nothing is expected."""
        found = self.values.get(key)
        if found is None:
            if expected:
                return expected
        elif found != expected:
            return found
        self.values[key] = desired
        return desired

    def append(self, key: str, value: str) -> None:
        self.values[key] = self.values.get(key, "") + value

    def delete_key(self, key: str) -> bool:
        return self.values.pop(key, None) is not None

    def check(self, keys: list[str]) -> bool:
        return all(key in self.values for key in keys)

    def num_keys(self) -> int:
        return len(self.values)


def text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


class Store:
    """The methods of all stores; values are given as text or bytes and read as bytes."""

    def __init__(self) -> None:
        self._timeout = timedelta(seconds=300)

    def _call(self, name: str, *arguments: Any) -> Any:
        raise NotImplementedError

    @property
    def timeout(self) -> timedelta:
        """How long get and wait have patience."""
        return self._timeout

    def set_timeout(self, timeout: timedelta) -> None:
        self._timeout = timeout

    def set(self, key: str, value: Any) -> None:
        self._call("set", key, text(value))

    def get(self, key: str) -> bytes:
        """The value of a key, once it is there."""
        self.wait([key])
        found: str = self._call("get", key)
        return found.encode("latin-1")

    def add(self, key: str, amount: int) -> int:
        """Add to a number, 0 where there is none; the new number."""
        return int(self._call("add", key, int(amount)))

    def compare_set(self, key: str, expected_value: Any, desired_value: Any) -> bytes:
        """Set a key that has the expected value; what it has afterwards."""
        found: str = self._call("compare_set", key, text(expected_value), text(desired_value))
        return found.encode("latin-1")

    def append(self, key: str, value: Any) -> None:
        self._call("append", key, text(value))

    def delete_key(self, key: str) -> bool:
        return bool(self._call("delete_key", key))

    def check(self, keys: list[str]) -> bool:
        """Whether all keys are there."""
        return bool(self._call("check", list(keys)))

    def num_keys(self) -> int:
        return int(self._call("num_keys"))

    def multi_get(self, keys: list[str]) -> list[bytes]:
        return [self.get(key) for key in keys]

    def multi_set(self, keys: list[str], values: list[Any]) -> None:
        for key, value in zip(keys, values, strict=True):
            self.set(key, value)

    def has_extended_api(self) -> bool:
        return True

    def wait(self, keys: list[str], timeout: timedelta | None = None) -> None:
        """Until all keys are there."""
        patience = self._timeout if timeout is None else timeout
        limit = time.monotonic() + patience.total_seconds()
        while not self.check(keys):
            if time.monotonic() > limit:
                milliseconds = int(patience.total_seconds() * 1000)
                raise DistStoreError(
                    f"wait timeout after {milliseconds}ms, keys: /{', /'.join(keys)}"
                )
            time.sleep(PAUSE)


class HashStore(Store):
    """A store of this process, for its threads."""

    def __init__(self) -> None:
        super().__init__()
        self._table, self._lock = Table(), new_lock()

    def _call(self, name: str, *arguments: Any) -> Any:
        with self._lock:
            return getattr(self._table, name)(*arguments)


@contextlib.contextmanager
def locked(file: IO[str]) -> Iterator[None]:
    """No other process is in such a block with the same file."""
    if sys.platform != "win32":
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX)
        yield  # closing the file ends it
        return
    import msvcrt

    place = 1 << 30  # a byte that is never written: Windows keeps others from what is locked

    def change(mode: int) -> None:
        file.flush()
        before = os.lseek(file.fileno(), 0, os.SEEK_CUR)
        os.lseek(file.fileno(), place, os.SEEK_SET)
        try:
            msvcrt.locking(file.fileno(), mode, 1)
        finally:
            os.lseek(file.fileno(), before, os.SEEK_SET)

    while True:
        try:
            change(msvcrt.LK_LOCK)  # waits for ten seconds
            break
        except OSError:
            continue
    try:
        yield
    finally:
        change(msvcrt.LK_UNLCK)


class FileStore(Store):
    """A store in a file that all processes see."""

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        super().__init__()
        self.path = os.fspath(file_name)

    def _call(self, name: str, *arguments: Any) -> Any:
        with open(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600), "r+") as file, locked(file):
            table = Table(json.loads(file.read() or "{}"))
            answer = getattr(table, name)(*arguments)
            if name not in ("get", "check", "num_keys"):
                file.seek(0)
                file.truncate()
                json.dump(table.values, file)
            return answer


class PrefixStore(Store):
    """Another store, with a prefix before all keys."""

    def __init__(self, prefix: str, store: Store) -> None:
        super().__init__()
        self.prefix, self.underlying_store = prefix, store
        self._timeout = store.timeout

    def _call(self, name: str, *arguments: Any) -> Any:
        if name == "check":
            arguments = ([f"{self.prefix}/{key}" for key in arguments[0]],)
        elif name != "num_keys":
            arguments = (f"{self.prefix}/{arguments[0]}", *arguments[1:])
        return self.underlying_store._call(name, *arguments)


class Answer(socketserver.StreamRequestHandler):
    """Lines of one client: a call each, as JSON."""

    def handle(self) -> None:
        server: Any = self.server
        for line in self.rfile:
            name, *arguments = json.loads(line)
            if name not in CALLS:
                return
            answer = server.store._call(name, *arguments)
            self.wfile.write(json.dumps(answer).encode() + b"\n")


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True


class TCPStore(Store):
    """A store that one process serves and others reach by host and port."""

    def __init__(
        self,
        host_name: str,
        port: int = 0,
        world_size: int | None = None,
        is_master: bool = False,
        timeout: timedelta = timedelta(seconds=300),
        wait_for_workers: bool = True,
        multi_tenant: bool = False,
        master_listen_fd: int | None = None,
        use_libuv: bool = True,
    ) -> None:
        super().__init__()
        self._timeout = timeout
        self._lock = new_lock()
        self._server = None
        if is_master:
            self._server = Server((host_name, port), Answer)
            self._server.store = HashStore()  # type: ignore[attr-defined]
            threading.Thread(target=self._server.serve_forever, daemon=True).start()
            port = self._server.server_address[1]
        self.host, self.port = host_name, port
        self._lines = self._connect().makefile("rwb")
        if world_size and wait_for_workers:
            self.add("init/", 1)
            limit = time.monotonic() + timeout.total_seconds()
            while is_master and self.add("init/", 0) < world_size:
                if time.monotonic() > limit:
                    raise DistStoreError(
                        f"Timed out after {int(timeout.total_seconds())} seconds waiting for "
                        f"clients. {self.add('init/', 0)}/{world_size} clients joined."
                    )
                time.sleep(PAUSE)

    def _connect(self) -> socket.socket:
        limit = time.monotonic() + self._timeout.total_seconds()
        while True:
            try:
                return socket.create_connection((self.host, self.port))
            except OSError as error:
                if time.monotonic() > limit:
                    raise DistNetworkError(
                        "The client socket has timed out after "
                        f"{int(self._timeout.total_seconds() * 1000)}ms while trying to connect "
                        f"to ({self.host}, {self.port})."
                    ) from error
                time.sleep(PAUSE)

    def _call(self, name: str, *arguments: Any) -> Any:
        with self._lock:
            self._lines.write(json.dumps([name, *arguments]).encode() + b"\n")
            self._lines.flush()
            answer = self._lines.readline()
        if not answer:
            raise DistNetworkError(f"Connection to the store at {self.host}:{self.port} was lost")
        return json.loads(answer)
