"""How a process finds the others: which backend, which rank of how many, and MPI's start."""

from __future__ import annotations

import logging
import os
import socket
import urllib.parse
from typing import Any

from ._board import AtDesk
from ._engines import OverMPI, check_mpi, load_mpi
from ._store import FileStore, TCPStore


def known_backend(backend: str | None) -> tuple[str, bool]:
    """(what the CPU's tensors get, whether CUDA tensors get NCCL), of "cpu:gloo,cuda:nccl" too."""
    if backend is None:
        return "gloo", True
    if not isinstance(backend, str):
        raise ValueError("Backend constructor parameter must be string-ish")
    name = backend.lower()
    pairs = {"cpu": name, "cuda": name}
    if ":" in name:
        pairs = dict(pair.split(":", 1) for pair in name.split(","))
    for one in pairs.values():
        if one not in ("mpi", "gloo", "nccl", "undefined", "fake"):
            raise AssertionError(f"Unknown backend type {one}")
    name = pairs.get("cpu", next(iter(pairs.values())))
    return name, pairs.get("cuda") in ("nccl", "undefined")


def rendezvous(
    backend: str, init_method: str | None, rank: int, world_size: int, store: Any
) -> tuple[int, int, str]:
    """(rank, number of ranks, address:port where they meet if nobody started them together)."""
    environ = os.environ
    if store is not None:
        return rank, world_size, meeting_place(store, rank, world_size)
    url = urllib.parse.urlparse(init_method or "env://")
    if url.scheme == "tcp":
        asked = urllib.parse.parse_qs(url.query)
        rank = int(asked.get("rank", [rank])[0])
        world_size = int(asked.get("world_size", [world_size])[0])
        for name, value in (("rank", rank), ("world size", world_size)):
            if value < 0:
                raise ValueError(
                    f"Error initializing torch.distributed using tcp:// rendezvous: {name} "
                    "parameter missing"
                )
        return rank, world_size, url.netloc
    if url.scheme == "file":
        for name, value in (("rank", rank), ("world size", world_size)):
            if value < 0:
                raise ValueError(
                    f"Error initializing torch.distributed using file:// rendezvous: {name} "
                    "parameter missing"
                )
        return rank, world_size, meeting_place(FileStore(url.path), rank, world_size)
    if url.scheme != "env":
        raise RuntimeError(f"No rendezvous handler for {init_method}")
    started_by_mpi = "PMI_RANK" in environ and "PMI_SIZE" in environ
    values = []
    for given, name, mpi_name in (
        (rank, "RANK", "PMI_RANK"),
        (world_size, "WORLD_SIZE", "PMI_SIZE"),
    ):
        if given >= 0:
            values.append(given)
        elif name in environ:
            values.append(int(environ[name]))
        elif started_by_mpi:
            values.append(int(environ[mpi_name]))
        else:
            raise missing_variable(name)
    if not started_by_mpi:
        for name in ("MASTER_ADDR", "MASTER_PORT"):
            if name not in environ:
                raise missing_variable(name)
    where = f"{environ.get('MASTER_ADDR', '')}:{environ.get('MASTER_PORT', '')}"
    return values[0], values[1], where


def meeting_place(store: Any, rank: int, size: int) -> str:
    """address:port that rank 0 chose, learned by the others through a store."""
    if size == 1 or "PMI_RANK" in os.environ:
        return ""
    if rank == 0:
        host = "127.0.0.1" if not isinstance(store, TCPStore) else store.host
        store.set("tapegrad/meeting", f"{host}:{free_port()}")
    return str(store.get("tapegrad/meeting").decode())


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def missing_variable(name: str) -> ValueError:
    return ValueError(
        "Error initializing torch.distributed using env:// rendezvous: environment variable "
        f"{name} expected, but not set"
    )


def start_mpi(rank: int, world_size: int, address: str, backend: str) -> OverMPI:
    """The communicator of all ranks, in the order of the ranks that were asked for."""
    check_mpi()
    if "PMI_RANK" not in os.environ:
        from . import _meeting

        _meeting.join(rank, world_size, address)
    # MPI's start waits for all ranks, for ever: torchrun is to know who is in it.
    desk = AtDesk(0)
    desk.write({"rank": rank, "joined": False})
    MPI = load_mpi()
    desk.write({"rank": rank, "joined": True})
    world = MPI.COMM_WORLD
    if world.size != world_size:
        raise RuntimeError(
            f"WORLD_SIZE is {world_size}, but {world.size} processes were started together\n"
            f"  start them by   python -m tapegrad torchrun --nproc-per-node={world_size} script.py"
        )
    if backend == "gloo" and rank == 0:
        logging.getLogger("tapegrad.distributed").warning("backend gloo is answered by MPI")
    return OverMPI(MPI, world.Split(0, rank))
