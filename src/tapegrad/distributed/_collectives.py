"""The collectives and the messages between two ranks, on tensors."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import numpy as np

from ..core.base import ON_DEVICE
from . import _buffers as memory
from ._errors import DistBackendError
from ._groups import ProcessGroup, chosen, default_group, get_group_rank
from ._reduce_op import RedOpType, ReduceOp, prepared
from ._work import Work

SUM = ReduceOp.SUM


def run(
    group: ProcessGroup,
    kind: str,
    words: str,
    start: Callable[[Any], Any],
    async_op: bool,
    finish: Callable[[], None] | None = None,
    result: Any = None,
    keep: Any = None,
    engine: Any = None,
) -> Work | None:
    """Note a collective for the others, start it, and wait for it unless `async_op`."""
    count, mark = group.note(kind, words)
    work = Work(group, kind, None, finish, result, count, mark, keep)
    work.request = start(engine or group.engine)
    if async_op:
        group.pending.add(work)
        if count:
            group.compare(work)
        return work
    work.wait()
    return None


def member(group: Any, name: str) -> ProcessGroup | None:
    """The group; None, with a warning, for one that this rank is not in."""
    found = chosen(group)
    if found is None:
        warnings.warn(
            f"Running {name} on global rank {default_group().rank()} which does not belong to the "
            "given group.",
            stacklevel=3,
        )
    return found


def root_of(group: ProcessGroup, rank: int | None, group_rank: int | None) -> int:
    """A root in the group's own numbers, from a global rank or a rank of the group."""
    if group_rank is not None:
        if rank is not None:
            raise ValueError("Can't specify both group_rank and global_rank")
        return group_rank
    if rank is None:
        raise ValueError("Must specify global_rank or group_rank")
    if group.global_ranks[0] == 0 and group.global_ranks[-1] == group.size() - 1:
        return rank
    return get_group_rank(group, rank)


def check_root(group: ProcessGroup, name: str, root: int) -> None:
    if not 0 <= root < group.size():
        raise RuntimeError(f"ProcessGroupGloo::{name}: invalid root rank: {root}")


def check_complex(name: str, tensor: Any, op: RedOpType) -> None:
    if tensor.is_complex() and op not in (RedOpType.SUM, RedOpType.AVG):
        raise ValueError(f"{name} does not support {op} on complex tensors")


def chain(*steps: Callable[[], None] | None) -> Callable[[], None] | None:
    """The steps that are there, one after the other."""
    there = [step for step in steps if step is not None]
    if len(there) < 2:
        return there[0] if there else None

    def all_steps() -> None:
        for step in there:
            step()

    return all_steps


def nccl_for(pg: ProcessGroup, tensor: Any, op: RedOpType | None = None) -> Any:
    """What runs a collective of a CUDA tensor on the GPU; None for host memory."""
    if pg.backend != "nccl" or tensor.special != ON_DEVICE:
        return None
    from ._nccl import chosen_for

    return chosen_for(pg, tensor, op)


# ---------------------------------------------------------------------- one tensor each


def all_reduce(tensor: Any, op: Any = SUM, group: Any = None, async_op: bool = False) -> Any:
    """Combine the tensors of all ranks, in place, with the same result on each of them."""
    memory.check_tensor(tensor, "tensor")
    pg = member(group, "all_reduce")
    if pg is None:
        return None
    check_complex("all_reduce", tensor, op)
    words = f"{memory.words(tensor)} {op.name}"
    on_gpu = nccl_for(pg, tensor, op)
    if on_gpu is not None:
        return on_gpu.run(
            run, "all_reduce", words, lambda e: e.all_reduce(on_gpu.flat, op), async_op, op
        )
    flat, back = memory.both_ways(tensor)
    array, mpi_op, ending = prepared(flat, op, pg.size())
    last = None if ending is None else (lambda: ending(array, flat))
    return run(
        pg,
        "all_reduce",
        words,
        lambda engine: engine.all_reduce(array, mpi_op),
        async_op,
        chain(last, back),
        [tensor],
        array,
    )


def broadcast(
    tensor: Any,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Any:
    """Give every rank the tensor of rank `src`."""
    memory.check_tensor(tensor, "tensor")
    pg = member(group, "broadcast")
    if pg is None:
        return None
    root = root_of(pg, src, group_src)
    check_root(pg, "broadcast", root)
    words = f"{tensor.numel()} {str(tensor.dtype)[6:]} from rank {root}"
    on_gpu = nccl_for(pg, tensor)
    if on_gpu is not None:
        return on_gpu.run(
            run, "broadcast", words, lambda e: e.broadcast(on_gpu.flat, root), async_op
        )
    flat, back = memory.both_ways(tensor)
    return run(
        pg,
        "broadcast",
        words,
        lambda engine: engine.broadcast(flat, root),
        async_op,
        back,
        [tensor],
        flat,
    )


def reduce(
    tensor: Any,
    dst: int | None = None,
    op: Any = SUM,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Any:
    """Combine the tensors of all ranks on rank `dst`."""
    memory.check_tensor(tensor, "tensor")
    pg = member(group, "reduce")
    if pg is None:
        return None
    root = root_of(pg, dst, group_dst)
    check_root(pg, "reduce", root)
    check_complex("reduce", tensor, op)
    flat, back = memory.both_ways(tensor)
    array, mpi_op, ending = prepared(flat, op, pg.size())
    finish = None
    if pg.rank() == root:
        finish = chain(None if ending is None else (lambda: ending(array, flat)), back)
    words = f"{memory.words(tensor)} {op.name} to rank {root}"
    return run(
        pg,
        "reduce",
        words,
        lambda engine: engine.reduce(array, mpi_op, root),
        async_op,
        finish,
        [tensor],
        array,
    )


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None) -> Any:
    """Go on when all ranks have come here."""
    pg = member(group, "barrier")
    if pg is None:
        return None
    return run(pg, "barrier", "", lambda engine: engine.barrier(), async_op)


def monitored_barrier(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> None:
    """A barrier that names the ranks which do not come within `timeout`."""
    pg = member(group, "monitored_barrier")
    if pg is None:
        return
    if timeout is None:
        timeout = pg.timeout
    elif isinstance(timeout, (int, float)):
        timeout = timedelta(seconds=timeout)
    work = run(pg, "monitored_barrier", "", lambda engine: engine.barrier(), True)
    assert work is not None
    try:
        work.wait(timeout)
    except DistBackendError as error:
        late = getattr(error, "diagnosis", {}).get("late")
        if not late:
            raise
        who = ", ".join(map(str, late)) if wait_all_ranks else late[0]
        word = "Ranks" if wait_all_ranks and len(late) > 1 else "Rank"
        limit = int(timeout.total_seconds() * 1000)
        said = f"[Rank {pg.rank()}]: {word} {who} failed to pass monitoredBarrier in {limit} ms"
        named = RuntimeError("\n".join([said, *str(error).split("\n")[1:]]))
        named.diagnosis = {**error.diagnosis, "message": said}  # type: ignore[attr-defined]
        raise named from None


# ---------------------------------------------------------------------- one tensor from each


def all_gather(
    tensor_list: list[Any], tensor: Any, group: Any = None, async_op: bool = False
) -> Any:
    """The tensors of all ranks, on every rank, in `tensor_list`."""
    memory.check_tensors(tensor_list, "tensor_list")
    memory.check_tensor(tensor, "tensor")
    memory.same_dtype(tensor_list, tensor)
    pg = member(group, "all_gather")
    if pg is None:
        return None
    check_list(tensor_list, pg, tensor, "allgather", "output")
    flat = memory.outgoing(tensor)
    out = np.empty(flat.size * pg.size(), flat.dtype)
    return run(
        pg,
        "all_gather",
        memory.words(tensor),
        lambda engine: engine.all_gather(out, flat),
        async_op,
        lambda: memory.dealt(out, tensor_list),
        tensor_list,
        (out, flat),
    )


def check_list(tensors: list[Any], pg: ProcessGroup, own: Any, name: str, role: str) -> None:
    if len(tensors) != pg.size():
        raise RuntimeError(
            f"ProcessGroupGloo::{name}: invalid {role} tensor list at index 0 (expected length "
            f"{pg.size()}, got {len(tensors)})"
        )
    for tensor in tensors:
        if tensor.numel() != own.numel():
            raise RuntimeError(
                f"ProcessGroupGloo::{name}: invalid tensor size at index 0 (expected "
                f"({', '.join(map(str, own.shape))}), got ({', '.join(map(str, tensor.shape))}))"
            )


def all_gather_into_tensor(
    output_tensor: Any, input_tensor: Any, group: Any = None, async_op: bool = False
) -> Any:
    """The tensors of all ranks, one behind the other in one tensor."""
    memory.check_tensor(input_tensor, "input_tensor")
    memory.check_tensor(output_tensor, "output_tensor")
    memory.same_dtype(output_tensor, input_tensor)
    pg = member(group, "all_gather_into_tensor")
    if pg is None:
        return None
    if output_tensor.numel() != input_tensor.numel() * pg.size():
        raise ValueError("output tensor size must be equal to world_size times input tensor size")
    on_gpu = nccl_for(pg, output_tensor)
    if on_gpu is not None:
        sent = on_gpu.other(input_tensor)
        return on_gpu.run(
            run,
            "all_gather_into_tensor",
            memory.words(input_tensor),
            lambda e: e.all_gather(on_gpu.flat, sent),
            async_op,
        )
    flat = memory.outgoing(input_tensor)
    out, back = memory.both_ways(output_tensor)
    if back is None and np.may_share_memory(out, flat):
        flat = flat.copy()
    return run(
        pg,
        "all_gather_into_tensor",
        memory.words(input_tensor),
        lambda engine: engine.all_gather(out, flat),
        async_op,
        back,
        output_tensor,
        (out, flat),
    )


def gather(
    tensor: Any,
    gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Any:
    """The tensors of all ranks, on rank `dst`, in `gather_list`."""
    memory.check_tensor(tensor, "tensor")
    pg = member(group, "gather")
    if pg is None:
        return None
    root = 0 if dst is None and group_dst is None else root_of(pg, dst, group_dst)
    if pg.rank() == root:
        if not gather_list:
            raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
        memory.check_tensors(gather_list, "gather_list")
        memory.same_dtype(tensor, gather_list)
        check_list(gather_list, pg, tensor, "gather", "output")
    elif gather_list:
        raise ValueError("Argument ``gather_list`` must NOT be specified on non-destination ranks.")
    flat = memory.outgoing(tensor)
    out = np.empty(flat.size * pg.size(), flat.dtype) if pg.rank() == root else None
    return run(
        pg,
        "gather",
        f"{memory.words(tensor)} to rank {root}",
        lambda engine: engine.gather(out, flat, root),
        async_op,
        None if out is None else lambda: memory.dealt(out, gather_list or []),
        gather_list,
        (out, flat),
    )


def scatter(
    tensor: Any,
    scatter_list: list[Any] | None = None,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Any:
    """Give each rank its tensor of the list that rank `src` has."""
    memory.check_tensor(tensor, "tensor")
    pg = member(group, "scatter")
    if pg is None:
        return None
    root = 0 if src is None and group_src is None else root_of(pg, src, group_src)
    sent = None
    if pg.rank() == root:
        if not scatter_list:
            raise ValueError("Argument ``scatter_list`` must be specified on source rank.")
        memory.check_tensors(scatter_list, "scatter_list")
        memory.same_dtype(tensor, scatter_list)
        check_list(scatter_list, pg, tensor, "scatter", "input")
        sent = memory.joined(scatter_list)
    elif scatter_list:
        raise ValueError("Argument ``scatter_list`` must NOT be specified on non-source ranks.")
    flat, back = memory.both_ways(tensor)
    return run(
        pg,
        "scatter",
        f"{memory.words(tensor)} from rank {root}",
        lambda engine: engine.scatter(flat, sent, root),
        async_op,
        back,
        [tensor],
        (flat, sent),
    )


def reduce_scatter(
    output: Any, input_list: list[Any], op: Any = SUM, group: Any = None, async_op: bool = False
) -> Any:
    """Combine lists of tensors; each rank gets the entry of its number."""
    memory.check_tensor(output, "output")
    memory.check_tensors(input_list, "input_list")
    memory.same_dtype(output, input_list)
    pg = member(group, "reduce_scatter")
    if pg is None:
        return None
    check_list(input_list, pg, output, "reduce_scatter", "input")
    return scatter_sums(pg, "reduce_scatter", output, memory.joined(input_list), op, async_op)


def reduce_scatter_tensor(
    output: Any, input: Any, op: Any = SUM, group: Any = None, async_op: bool = False
) -> Any:
    """Combine tensors; each rank gets the part of its number."""
    memory.check_tensor(output, "output")
    memory.check_tensor(input, "input")
    memory.same_dtype(output, input)
    pg = member(group, "reduce_scatter_tensor")
    if pg is None:
        return None
    if output.numel() * pg.size() != input.numel():
        raise ValueError("input tensor must be the same size as output size times world size")
    on_gpu = nccl_for(pg, output, op)
    if on_gpu is not None:
        sent = on_gpu.other(input)
        return on_gpu.run(
            run,
            "reduce_scatter_tensor",
            f"{memory.words(output)} {op.name}",
            lambda e: e.reduce_scatter(on_gpu.flat, sent, op),
            async_op,
            op,
        )
    flat = memory.outgoing(input)
    return scatter_sums(pg, "reduce_scatter_tensor", output, flat, op, async_op)


def scatter_sums(
    pg: ProcessGroup, kind: str, output: Any, flat: Any, op: RedOpType, async_op: bool
) -> Any:
    check_complex(kind, output, op)
    array, mpi_op, ending = prepared(flat, op, pg.size())
    part = np.empty(array.size // pg.size(), array.dtype)
    out, back = memory.both_ways(output)

    def finish() -> None:
        if ending is not None:
            ending(part, out)
        else:
            out[...] = part.view(out.dtype)

    return run(
        pg,
        kind,
        f"{memory.words(output)} {op.name}",
        lambda engine: engine.reduce_scatter(part, array, mpi_op),
        async_op,
        chain(finish, back),
        [output],
        (array, part),
    )


def all_to_all_single(
    output: Any,
    input: Any,
    output_split_sizes: list[int] | None = None,
    input_split_sizes: list[int] | None = None,
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """Send each rank its part of `input`; `output` has what they sent, in the order of ranks."""
    memory.check_tensor(output, "output")
    memory.check_tensor(input, "input")
    memory.same_dtype(output, input)
    pg = member(group, "all_to_all_single")
    if pg is None:
        return None
    sent = split_sizes(input, input_split_sizes, pg.size())
    received = split_sizes(output, output_split_sizes, pg.size())
    flat = memory.outgoing(input)
    out, back = memory.both_ways(output)
    return exchange(pg, "all_to_all_single", out, flat, received, sent, async_op, back, output)


def split_sizes(tensor: Any, sizes: list[int] | None, number: int) -> list[int]:
    """The number of elements of each part, along the first dimension."""
    rows = tensor.shape[0] if tensor.dim() else 1
    each = tensor.numel() // rows if rows else 0
    if not sizes:
        if rows % number:
            raise RuntimeError("Tensor's dim 0 does not divide equally across group size")
        return [rows // number * each] * number
    if len(sizes) != number:
        raise RuntimeError("Number of tensor splits not equal to group size")
    if sum(sizes) != rows:
        raise RuntimeError("Split sizes doesn't match total dim 0 size")
    return [size * each for size in sizes]


def all_to_all(
    output_tensor_list: list[Any],
    input_tensor_list: list[Any],
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """Send each rank its tensor of a list, and get one from each."""
    memory.check_tensors(output_tensor_list, "output_tensor_list")
    memory.check_tensors(input_tensor_list, "input_tensor_list")
    memory.same_dtype(output_tensor_list, input_tensor_list)
    pg = member(group, "all_to_all")
    if pg is None:
        return None
    sent = [t.numel() for t in input_tensor_list]
    received = [t.numel() for t in output_tensor_list]
    flat = memory.joined(input_tensor_list)
    out = np.empty(sum(received), flat.dtype)

    def deal() -> None:
        memory.dealt(out, output_tensor_list)

    return exchange(pg, "all_to_all", out, flat, received, sent, async_op, deal, output_tensor_list)


def exchange(
    pg: ProcessGroup,
    kind: str,
    out: Any,
    flat: Any,
    received: list[int],
    sent: list[int],
    async_op: bool,
    finish: Callable[[], None] | None,
    result: Any,
) -> Any:
    return run(
        pg,
        kind,
        str(flat.dtype),
        lambda engine: engine.all_to_all(out, flat, received, sent),
        async_op,
        finish,
        result,
        (out, flat),
    )


# ---------------------------------------------------------------------- several at once


class Works(list[Work]):
    """Several operations as one."""

    def wait(self, timeout: timedelta | None = None) -> bool:
        return all([work.wait(timeout) for work in self])

    def is_completed(self) -> bool:
        return all([work.is_completed() for work in self])


def all_reduce_coalesced(
    tensors: list[Any], op: Any = SUM, group: Any = None, async_op: bool = False
) -> Any:
    """all_reduce of several tensors."""
    works = Works([all_reduce(tensor, op, group, True) for tensor in tensors])
    return works if async_op else works.wait() and None


def all_gather_coalesced(
    output_tensor_lists: list[list[Any]],
    input_tensor_list: list[Any],
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """all_gather of several tensors; `output_tensor_lists[rank][i]`."""
    works = Works(
        all_gather([outputs[i] for outputs in output_tensor_lists], tensor, group, True)
        for i, tensor in enumerate(input_tensor_list)
    )
    return works if async_op else works.wait() and None


# ---------------------------------------------------------------------- messages


def isend(
    tensor: Any,
    dst: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> Any:
    """Send a tensor to a rank; the work is over when its memory may be used again."""
    memory.check_tensor(tensor, "tensor")
    pg = member(group, "isend")
    if pg is None:
        return None
    to = root_of(pg, dst, group_dst)
    if to == pg.rank():
        raise not_to_itself("destination")
    flat = memory.outgoing(tensor)
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
    memory.check_tensor(tensor, "tensor")
    pg = member(group, "irecv")
    if pg is None:
        return None
    anyone = src is None and group_src is None
    source = None if anyone else root_of(pg, src, group_src)
    if source == pg.rank():
        raise not_to_itself("source")
    flat, back = memory.both_ways(tensor)
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
        memory.check_tensor(tensor, "tensor")
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


@contextmanager
def _coalescing_manager(
    group: Any = None, device: Any = None, async_ops: bool = False
) -> Iterator[Works]:
    """Collectives inside are started one by one; the manager can be waited for."""
    yield Works()
