"""How processes that mpiexec did not start (by mp.spawn, by hand) become one MPI world.

MPI's processes find each other by asking whoever started them, over a socket, in the short lines
of the protocol PMI-1. Rank 0 starts a small server at MASTER_ADDR:MASTER_PORT that answers them; it
ends when the last rank has left. Only addresses pass through it: the data go through MPI.
"""

from __future__ import annotations

import os
import selectors
import socket
import subprocess
import sys
import time

PATIENCE = 300.0  # seconds to wait for all to come


def join(rank: int, size: int, address: str) -> None:
    """Meet the others and set what MPI reads when it starts."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise RuntimeError(
            "these processes were not started together, and no address to meet at is given\n"
            f"  start them by   python -m tapegrad torchrun --nproc-per-node={size} script.py"
        )
    if sys.platform == "win32":
        raise RuntimeError(
            "on Windows, processes that were not started together cannot become one world: MPI "
            "would have to inherit a socket\n  start them by   "
            f"python -m tapegrad torchrun --nproc-per-node={size} script.py   or   mpiexec"
        )
    if rank == 0:
        listener = socket.create_server(("", int(port)), backlog=size)
        command = [sys.executable, os.path.abspath(__file__), str(listener.fileno()), str(size)]
        subprocess.Popen(command, pass_fds=[listener.fileno()], start_new_session=True)
        listener.close()
    line = connect(host, int(port))
    line.sendall(f"{rank} {socket.gethostname()}\n".encode())
    os.set_inheritable(line.fileno(), True)
    # The descriptor now belongs to MPI.
    os.environ.update(PMI_FD=str(line.detach()), PMI_RANK=str(rank), PMI_SIZE=str(size))


def connect(host: str, port: int) -> socket.socket:
    limit = time.monotonic() + PATIENCE
    while True:
        try:
            return socket.create_connection((host, port))
        except OSError:
            if time.monotonic() > limit:
                raise
            time.sleep(0.05)


class Server:
    """Answers the lines of all ranks."""

    def __init__(self, listener: socket.socket, size: int) -> None:
        self.size = size
        # MPI names shared memory after it: two worlds must not have the same.
        self.name = f"tapegrad-{os.getpid()}-{time.time_ns()}"
        self.values: dict[str, str] = {}
        self.waiting: list[socket.socket] = []
        self.texts: dict[socket.socket, str] = {}
        self.selector = selectors.DefaultSelector()
        hosts: dict[int, str] = {}
        lines: dict[int, socket.socket] = {}
        listener.settimeout(PATIENCE)
        while len(lines) < size:
            line, _ = listener.accept()
            rank, host = self.first_line(line).split()
            hosts[int(rank)], lines[int(rank)] = host, line
        listener.close()
        self.values["PMI_process_mapping"] = mapping([hosts[rank] for rank in range(size)])
        for line in lines.values():
            self.texts[line] = ""
            self.selector.register(line, selectors.EVENT_READ)

    @staticmethod
    def first_line(line: socket.socket) -> str:
        """Byte by byte: what follows is MPI's."""
        text = b""
        while not text.endswith(b"\n"):
            byte = line.recv(1)
            if not byte:
                break
            text += byte
        return text.decode()

    def run(self) -> None:
        while self.texts:
            for key, _ in self.selector.select():
                line = key.fileobj
                assert isinstance(line, socket.socket)
                try:
                    got = line.recv(65536)
                except OSError:
                    got = b""
                if not got:
                    self.selector.unregister(line)
                    del self.texts[line]
                    continue
                *commands, self.texts[line] = (self.texts[line] + got.decode()).split("\n")
                for command in commands:
                    self.answer(line, dict(p.split("=", 1) for p in command.split() if "=" in p))

    def answer(self, line: socket.socket, asked: dict[str, str]) -> None:
        command = asked.get("cmd", "")
        if command == "put":
            self.values[asked["key"]] = asked["value"]
        if command == "barrier_in":
            self.waiting.append(line)
            if len(self.waiting) == self.size:
                for other in self.waiting:
                    other.sendall(b"cmd=barrier_out rc=0\n")
                self.waiting = []
            return
        value = self.values.get(asked.get("key", ""))
        replies = {
            "init": "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0",
            "get_maxes": "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024 rc=0",
            "get_appnum": "cmd=appnum appnum=0 rc=0",
            "get_my_kvsname": f"cmd=my_kvsname kvsname={self.name} rc=0",
            "get_universe_size": f"cmd=universe_size size={self.size} rc=0",
            "put": "cmd=put_result rc=0 msg=success",
            "get": "cmd=get_result rc=-1 msg=key_not_found"
            if value is None
            else f"cmd=get_result rc=0 msg=success value={value}",
            "finalize": "cmd=finalize_ack rc=0",
        }
        line.sendall((replies.get(command, f"cmd={command} rc=-1") + "\n").encode())


def mapping(hosts: list[str]) -> str:
    """Which ranks are on which machine, as MPICH reads it: blocks of neighbouring ranks."""
    blocks: list[tuple[int, int]] = []
    names: list[str] = []
    for host in hosts:
        if host not in names:
            names.append(host)
        place = names.index(host)
        if blocks and blocks[-1][0] == place:
            blocks[-1] = place, blocks[-1][1] + 1
        else:
            blocks.append((place, 1))
    return "(vector," + ",".join(f"({place},1,{count})" for place, count in blocks) + ")"


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as own:
        Server(own, int(sys.argv[2])).run()
