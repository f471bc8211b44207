"""Engines that carry the bytes: MPI, or none for one process. All on contiguous arrays.

Every method starts an operation and returns a request, something with `Test() -> bool`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ._reduce_op import RedOpType

HOW_TO_INSTALL = (
    "several processes talk through MPI, which is not installed here:\n"
    '    pip install "tapegrad[mpi]"     (mpi4py and mpich; no system package is needed)\n'
    "  and are started by   python -m tapegrad torchrun --nproc-per-node=2 script.py"
)


def check_mpi() -> None:
    """Refuse, with the way out, where mpi4py is missing. MPI itself is not started yet."""
    try:
        import mpi4py
    except ImportError:
        raise RuntimeError(
            f"Distributed package doesn't have MPI built in.\n  {HOW_TO_INSTALL}"
        ) from None
    # We end it, when all ranks came to their end.
    mpi4py.rc.finalize = False


def load_mpi() -> Any:
    """mpi4py's MPI, started on first use."""
    check_mpi()
    from mpi4py import MPI

    return MPI


class Done:
    """A request that is fulfilled."""

    def Test(self) -> bool:
        return True


DONE = Done()


class Alone:
    """A group of one process."""

    rank, size = 0, 1

    def all_reduce(self, array: Any, op: RedOpType) -> Done:
        return DONE

    def broadcast(self, array: Any, root: int) -> Done:
        return DONE

    def reduce(self, array: Any, op: RedOpType, root: int) -> Done:
        return DONE

    def all_gather(self, out: Any, array: Any) -> Done:
        out[...] = array
        return DONE

    def gather(self, out: Any, array: Any, root: int) -> Done:
        return self.all_gather(out, array)

    def scatter(self, out: Any, array: Any, root: int) -> Done:
        return self.all_gather(out, array)

    def reduce_scatter(self, out: Any, array: Any, op: RedOpType) -> Done:
        return self.all_gather(out, array)

    def all_to_all(self, out: Any, array: Any, received: list[int], sent: list[int]) -> Done:
        return self.all_gather(out, array)

    def barrier(self) -> Done:
        return DONE

    def send(self, array: Any, to: int, tag: int) -> Done:
        raise RuntimeError(f"there is no rank {to}: this process is alone")

    def receive(self, array: Any, source: int | None, tag: int) -> Done:
        raise RuntimeError("there is no rank to receive from: this process is alone")

    def split(self, ranks: list[int]) -> Alone:
        return self

    def free(self) -> None:
        pass


class OverMPI:
    """A communicator. Only operations that do not block are used: a blocking one cannot be left."""

    def __init__(self, MPI: Any, comm: Any) -> None:
        self.MPI, self.comm = MPI, comm
        self.rank: int = comm.rank
        self.size: int = comm.size
        # Messages between two ranks do not get in the way of collectives.
        self.pairs = comm.Dup() if comm.size > 1 else comm
        self.ops = {
            RedOpType.SUM: MPI.SUM,
            RedOpType.AVG: MPI.SUM,
            RedOpType.PRODUCT: MPI.PROD,
            RedOpType.MIN: MPI.MIN,
            RedOpType.MAX: MPI.MAX,
            RedOpType.BAND: MPI.BAND,
            RedOpType.BOR: MPI.BOR,
            RedOpType.BXOR: MPI.BXOR,
        }

    def all_reduce(self, array: Any, op: RedOpType) -> Any:
        return self.comm.Iallreduce(self.MPI.IN_PLACE, array, self.ops[op])

    def broadcast(self, array: Any, root: int) -> Any:
        return self.comm.Ibcast(self.bytes(array), root)

    def reduce(self, array: Any, op: RedOpType, root: int) -> Any:
        if self.rank == root:
            return self.comm.Ireduce(self.MPI.IN_PLACE, array, self.ops[op], root)
        return self.comm.Ireduce(array, None, self.ops[op], root)

    def all_gather(self, out: Any, array: Any) -> Any:
        return self.comm.Iallgather(self.bytes(array), self.bytes(out))

    def gather(self, out: Any, array: Any, root: int) -> Any:
        received = None if out is None else self.bytes(out)
        return self.comm.Igather(self.bytes(array), received, root)

    def scatter(self, out: Any, array: Any, root: int) -> Any:
        sent = None if array is None else self.bytes(array)
        return self.comm.Iscatter(sent, self.bytes(out), root)

    def reduce_scatter(self, out: Any, array: Any, op: RedOpType) -> Any:
        return self.comm.Ireduce_scatter_block(array, out, self.ops[op])

    def all_to_all(self, out: Any, array: Any, received: list[int], sent: list[int]) -> Any:
        size = array.itemsize
        return self.comm.Ialltoallv(
            [array.view(np.uint8), [n * size for n in sent], self.MPI.BYTE],
            [out.view(np.uint8), [n * size for n in received], self.MPI.BYTE],
        )

    def barrier(self) -> Any:
        return self.comm.Ibarrier()

    def send(self, array: Any, to: int, tag: int) -> Any:
        return self.pairs.Isend(self.bytes(array), to, tag)

    def receive(self, array: Any, source: int | None, tag: int) -> Any:
        if source is None:
            return FromAnyone(self, array, tag)
        return self.pairs.Irecv(self.bytes(array), source, tag)

    def bytes(self, array: Any) -> Any:
        """An array as MPI moves it: dtypes that MPI does not know are bytes to it."""
        return [array.view(np.uint8), self.MPI.BYTE]

    def split(self, ranks: list[int]) -> OverMPI | None:
        """The communicator of some ranks of this one; all of them call, the others get None."""
        inside = self.rank in ranks
        key = ranks.index(self.rank) if inside else 0
        comm = self.comm.Split(0 if inside else self.MPI.UNDEFINED, key)
        return OverMPI(self.MPI, comm) if inside else None

    def free(self) -> None:
        """Give the communicators back, of which MPI has some two thousand."""
        if self.pairs is not self.comm:
            self.pairs.Free()
        self.comm.Free()


class Over:
    """Takes the place of a group's engine after the group was destroyed."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size

    def __getattr__(self, name: str) -> Any:
        raise ValueError("Invalid process group specified: it was destroyed")


class FromAnyone:
    """A message from whoever sends one: looked for, then received from that rank.

    MPICH does not find a message from another machine for a request that takes any source.
    """

    def __init__(self, engine: OverMPI, array: Any, tag: int) -> None:
        self.engine, self.array, self.tag = engine, array, tag
        self.request: Any = None

    def Test(self, status: Any) -> bool:
        if self.request is None:
            MPI = self.engine.MPI
            found = self.engine.pairs.Improbe(MPI.ANY_SOURCE, self.tag)
            if found is None:
                return False
            self.request = found.Irecv(self.engine.bytes(self.array))
        return bool(self.request.Test(status))
