"""Where the ranks of a job say how they end and hear of the others, on whatever machine they are.

torchrun has the desk; the supervisor of every rank is connected to it, and passes on in both ways
what its rank says and hears, a line of JSON each: `{"rank": 1, "state": 1, "text": ...}` from the
rank itself, `{"rank": 1, "status": -9, "pid": ..., "time": ...}` from its supervisor at its end.
"""

from __future__ import annotations

import json
import secrets
import socket
import threading
import time
from typing import Any

from ..core.locks import new_lock


class Desk:
    """The lines of all supervisors, and what was said so far."""

    def __init__(self, near: bool) -> None:
        self.token = secrets.token_hex(16)
        self.socket = socket.create_server(("127.0.0.1" if near else "", 0), backlog=1024)
        host = "127.0.0.1" if near else socket.gethostname()
        self.address = f"{host}:{self.socket.getsockname()[1]}"
        self.lock = new_lock()
        self.lines: list[socket.socket] = []
        self.said: list[bytes] = []
        self.ended: list[dict[str, Any]] = []
        self.joined: dict[int, bool] = {}  # False while a rank waits for all to come
        # When a rank said that it takes part no more, and whether because another did.
        self.left: dict[int, tuple[bool, float]] = {}
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        while True:
            try:
                line, _ = self.socket.accept()
            except OSError:  # closed
                return
            threading.Thread(target=self.serve, args=(line,), daemon=True).start()

    def serve(self, line: socket.socket) -> None:
        """Forward each line from one supervisor to all others."""
        texts = line.makefile("rb")
        if texts.readline().strip() != self.token.encode():
            line.close()
            return
        with self.lock:
            self.lines.append(line)
            for text in self.said:
                give(line, text)
        try:
            for text in texts:
                with self.lock:
                    note = json.loads(text)
                    if "status" in note:
                        self.ended.append(note)
                    elif "joined" in note:
                        self.joined[note["rank"]] = note["joined"]
                    else:
                        followed = note["text"].startswith("DistBackendError: Connection closed")
                        self.left.setdefault(note["rank"], (followed, time.time()))
                    self.said.append(text)
                    for other in self.lines:
                        if other is not line:
                            give(other, text)
        except (OSError, ValueError):
            pass
        with self.lock:
            self.lines.remove(line)

    def endings(self) -> list[dict[str, Any]]:
        """How the ranks that are over ended: first those that left of themselves, in order."""
        with self.lock:
            return sorted(
                self.ended, key=lambda note: self.left.get(note["rank"], (False, note["time"]))
            )

    def missed(self) -> int | None:
        """A rank that ended well, and for which others wait in init_process_group."""
        with self.lock:
            if all(self.joined.values()):
                return None
            gone = [note["rank"] for note in self.ended if not self.joined.get(note["rank"])]
            return gone[0] if gone else None

    def silent(self) -> list[dict[str, Any]]:
        """Ranks that were in the process group and ended well, but never said that they leave it.

        `os._exit(0)` does that: the others wait for them, and fail.
        """
        with self.lock:
            return [
                note
                for note in self.ended
                if not note["status"]
                and self.joined.get(note["rank"])
                and note["rank"] not in self.left
            ]

    def close(self) -> None:
        """After the last words of all that were connected."""
        limit = time.monotonic() + 2
        while self.lines and time.monotonic() < limit:
            time.sleep(0.01)
        self.socket.close()


def give(line: socket.socket, text: bytes) -> None:
    try:
        line.sendall(text)
    except OSError:  # it has just ended
        pass
