"""The part `cupy.cuda.nccl` of the stand-in: NCCL's calls on addresses of its memory.

One rank copies; several exchange bytes through MPI and combine them by NumPy, so that the code that
calls NCCL is tried with more ranks than there are GPUs. Arguments are checked as CuPy does: whole
numbers for addresses, counts, dtypes, ops and streams.
"""

from __future__ import annotations

import ctypes

import ml_dtypes
import numpy as np

available = True

NCCL_INT8, NCCL_UINT8, NCCL_INT32, NCCL_UINT32, NCCL_INT64, NCCL_UINT64 = range(6)
NCCL_FLOAT16, NCCL_FLOAT32, NCCL_FLOAT64, NCCL_BFLOAT16 = range(6, 10)
NCCL_SUM, NCCL_PROD, NCCL_MAX, NCCL_MIN, NCCL_AVG = range(5)

DTYPES = [
    *(np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64),
    *(np.float16, np.float32, np.float64, ml_dtypes.bfloat16),
]
COMBINE = [np.add, np.multiply, np.maximum, np.minimum, np.add]


class NcclError(RuntimeError):
    pass


class Calls:
    """What was called, and the sends and receives of a group that is open."""

    names: list[str] = []
    group: list[tuple] | None = None


def get_unique_id():
    return bytes(128)


def groupStart():
    assert Calls.group is None
    Calls.group = []


def groupEnd():
    group, Calls.group = Calls.group, None
    sends = [call for call in group if call[0] == "send"]
    receives = [call for call in group if call[0] == "recv"]
    comm = group[0][1].comm if group else None
    if comm is None:
        for (*_, source, size, _), (*_, target, _, _) in zip(sends, receives, strict=True):
            ctypes.memmove(target, source, size)
        return
    requests = [comm.Isend(memory(at, size, NCCL_UINT8), to) for _, _, at, size, to in sends]
    requests += [comm.Irecv(memory(at, size, NCCL_UINT8), by) for _, _, at, size, by in receives]
    for request in requests:
        request.Wait()


def memory(address, count, kind):
    """The array at an address."""
    dtype = np.dtype(DTYPES[kind])
    size = count * dtype.itemsize
    return np.frombuffer((ctypes.c_char * size).from_address(address), dtype) if size else EMPTY


EMPTY = np.empty(0, np.uint8)


class NcclCommunicator:
    def __init__(self, ndev: int, commId: bytes, rank: int, config=None) -> None:
        assert type(ndev) is int and type(commId) is bytes and type(rank) is int
        self.size, self.rank, self.comm = ndev, rank, None
        if ndev > 1:
            from mpi4py import MPI

            self.comm = MPI.COMM_WORLD.Dup()
            assert (self.comm.size, self.comm.rank) == (ndev, rank)

    def called(self, name: str, *numbers: int) -> None:
        assert all(type(number) is int for number in numbers), numbers
        assert self.size, "the communicator was destroyed"
        Calls.names.append(name)

    def everyone(self, source, count, kind):
        """The arrays of all ranks, one behind the other."""
        own = memory(source, count, kind).copy()
        if self.comm is None:
            return own[None]
        out = np.empty((self.size, own.size), own.dtype)
        self.comm.Allgather(own.view(np.uint8), out.view(np.uint8))
        return out

    def combined(self, source, count, kind, op):
        parts = self.everyone(source, count, kind)
        total = COMBINE[op].reduce(parts.astype(np.float32) if kind == NCCL_BFLOAT16 else parts)
        return total / self.size if op == NCCL_AVG else total

    def allReduce(self, sendbuf, recvbuf, count, datatype, op, stream):
        self.called("allReduce", sendbuf, recvbuf, count, datatype, op, stream)
        memory(recvbuf, count, datatype)[...] = self.combined(sendbuf, count, datatype, op)

    def reduce(self, sendbuf, recvbuf, count, datatype, op, root, stream):
        self.called("reduce", sendbuf, recvbuf, count, datatype, op, root, stream)
        total = self.combined(sendbuf, count, datatype, op)
        if self.rank == root:
            memory(recvbuf, count, datatype)[...] = total

    def reduceScatter(self, sendbuf, recvbuf, recvcount, datatype, op, stream):
        self.called("reduceScatter", sendbuf, recvbuf, recvcount, datatype, op, stream)
        total = self.combined(sendbuf, recvcount * self.size, datatype, op)
        own = total[self.rank * recvcount : (self.rank + 1) * recvcount]
        memory(recvbuf, recvcount, datatype)[...] = own

    def broadcast(self, sendbuff, recvbuff, count, datatype, root, stream):
        self.called("broadcast", sendbuff, recvbuff, count, datatype, root, stream)
        memory(recvbuff, count, datatype)[...] = self.everyone(sendbuff, count, datatype)[root]

    def allGather(self, sendbuf, recvbuf, count, datatype, stream):
        self.called("allGather", sendbuf, recvbuf, count, datatype, stream)
        every = self.everyone(sendbuf, count, datatype)
        memory(recvbuf, count * self.size, datatype)[...] = every.reshape(-1)

    def send(self, sendbuf, count, datatype, peer, stream):
        self.called("send", sendbuf, count, datatype, peer, stream)
        Calls.group.append(("send", self, sendbuf, count, peer))

    def recv(self, recvbuf, count, datatype, peer, stream):
        self.called("recv", recvbuf, count, datatype, peer, stream)
        Calls.group.append(("recv", self, recvbuf, count, peer))

    def destroy(self):
        self.called("destroy")
        self.size = 0
