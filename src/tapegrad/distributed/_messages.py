"""Messages between two ranks: send, recv and their kin. They go through host memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import _buffers as buffers
from ._groups import ProcessGroup
from ._running import member, root_of
from ._work import Work


def isend(
    tensor: Any,
    dst: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> Any:
    """Send a tensor to a rank; the work is over when its memory may be used again."""
    buffers.check_tensor(tensor, "tensor")
    pg = member(group, "isend")
    if pg is None:
        return None
    to = root_of(pg, dst, group_dst)
    if to == pg.rank():
        raise not_to_itself("destination")
    flat = pg.host.outgoing(tensor)
    work = Work(pg, "send", pg.engine.send(flat, to, tag), None, [tensor], keep=flat)
    pg.pending.add(work)
    return work


def irecv(
    tensor: Any,
    src: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_src: int | None = None,
) -> Any:
    """Receive a tensor from a rank, from any if none is named."""
    buffers.check_tensor(tensor, "tensor")
    pg = member(group, "irecv")
    if pg is None:
        return None
    anyone = src is None and group_src is None
    source = None if anyone else root_of(pg, src, group_src)
    if source == pg.rank():
        raise not_to_itself("source")
    flat, back = pg.host.both_ways(tensor)
    request = Receipt(pg.engine.receive(flat, source, tag), flat.nbytes, pg)
    work = Work(pg, "recv", request, back, [tensor], keep=flat)
    request.work = work
    pg.pending.add(work)
    return work


class Receipt:
    """The request of a message, which looks at who sent how much."""

    work: Work

    def __init__(self, request: Any, size: int, pg: ProcessGroup) -> None:
        self.request, self.size = request, size
        self.status = pg.engine.MPI.Status()
        self.bytes = pg.engine.MPI.BYTE

    def Test(self) -> bool:
        if not self.request.Test(self.status):
            return False
        self.work.source = self.status.Get_source()
        got = self.status.Get_count(self.bytes)
        if got != self.size:
            raise RuntimeError(
                f"a message of {got} bytes from rank {self.work.source} does not fit a tensor of "
                f"{self.size} bytes: shapes and dtypes of send and recv have to agree"
            )
        return True


def not_to_itself(role: str) -> ValueError:
    return ValueError(
        f"Invalid {role} rank: {role} rank should not be the same as the rank of the current "
        "process."
    )


def send(
    tensor: Any,
    dst: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> None:
    """Send a tensor to a rank, and wait until its memory may be used again."""
    work = isend(tensor, dst, group, tag, group_dst)
    if work is not None:
        work.wait()


def recv(
    tensor: Any,
    src: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_src: int | None = None,
) -> int:
    """Receive a tensor; the rank that sent it."""
    work = irecv(tensor, src, group, tag, group_src)
    if work is None:
        return -1
    work.wait()
    return int(work.source_rank())


class P2POp:
    """One message of batch_isend_irecv: isend or irecv, its tensor and the other rank."""

    def __init__(
        self,
        op: Callable[..., Any],
        tensor: Any,
        peer: int | None = None,
        group: Any = None,
        tag: int = 0,
        group_peer: int | None = None,
    ) -> None:
        if op not in (isend, irecv):
            raise ValueError(
                "Invalid ``op``. Expected ``op`` to be of type ``torch.distributed.isend`` or "
                "``torch.distributed.irecv``."
            )
        buffers.check_tensor(tensor, "tensor")
        self.op, self.tensor, self.group, self.tag = op, tensor, group, tag
        self.peer, self.group_peer = peer, group_peer

    def __repr__(self) -> str:
        return f"P2POp({self.op.__name__}, {self.peer}, {tuple(self.tensor.shape)})"


def batch_isend_irecv(p2p_op_list: list[P2POp]) -> list[Work]:
    """Start several messages; their works."""
    if not p2p_op_list or not all(isinstance(op, P2POp) for op in p2p_op_list):
        raise ValueError(
            "Invalid ``p2p_op_list``. Each op is expected to to be of type "
            "``torch.distributed.P2POp``."
        )
    if any(op.group is not p2p_op_list[0].group for op in p2p_op_list):
        raise ValueError("All ops need to use the same group.")
    works = []
    for op in p2p_op_list:
        work = op.op(op.tensor, op.peer, op.group, op.tag, op.group_peer)
        if work is not None:
            works.append(work)
    return works
