"""Collectives that move the tensors of ranks to others: broadcast, gather, scatter, all_to_all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import _buffers as buffers
from ._groups import ProcessGroup
from ._running import check_list, check_root, member, memory_for, root_of, run


def broadcast(
    tensor: Any,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Any:
    """Give every rank the tensor of rank `src`."""
    buffers.check_tensor(tensor, "tensor")
    pg = member(group, "broadcast")
    if pg is None:
        return None
    root = root_of(pg, src, group_src)
    check_root(pg, "broadcast", root)
    memory = memory_for(pg, tensor)
    flat, back = memory.both_ways(tensor)
    return run(
        pg,
        memory,
        "broadcast",
        f"{tensor.numel()} {str(tensor.dtype)[6:]} from rank {root}",
        lambda engine: engine.broadcast(flat, root),
        async_op,
        back,
        [tensor],
        flat,
    )


def all_gather(
    tensor_list: list[Any], tensor: Any, group: Any = None, async_op: bool = False
) -> Any:
    """The tensors of all ranks, on every rank, in `tensor_list`."""
    buffers.check_tensors(tensor_list, "tensor_list")
    buffers.check_tensor(tensor, "tensor")
    buffers.same_dtype(tensor_list, tensor)
    pg = member(group, "all_gather")
    if pg is None:
        return None
    check_list(tensor_list, pg, tensor, "allgather", "output")
    memory = memory_for(pg, tensor)
    flat = memory.outgoing(tensor)
    out = memory.empty(flat.size * pg.size(), flat.dtype)
    return run(
        pg,
        memory,
        "all_gather",
        buffers.words(tensor),
        lambda engine: engine.all_gather(out, flat),
        async_op,
        lambda: memory.dealt(out, tensor_list),
        tensor_list,
        (out, flat),
    )


def all_gather_into_tensor(
    output_tensor: Any, input_tensor: Any, group: Any = None, async_op: bool = False
) -> Any:
    """The tensors of all ranks, one behind the other in one tensor."""
    buffers.check_tensor(input_tensor, "input_tensor")
    buffers.check_tensor(output_tensor, "output_tensor")
    buffers.same_dtype(output_tensor, input_tensor)
    pg = member(group, "all_gather_into_tensor")
    if pg is None:
        return None
    if output_tensor.numel() != input_tensor.numel() * pg.size():
        raise ValueError("output tensor size must be equal to world_size times input tensor size")
    memory = memory_for(pg, output_tensor)
    out, back = memory.both_ways(output_tensor)
    flat = memory.apart(memory.outgoing(input_tensor), out)
    return run(
        pg,
        memory,
        "all_gather_into_tensor",
        buffers.words(input_tensor),
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
    buffers.check_tensor(tensor, "tensor")
    pg = member(group, "gather")
    if pg is None:
        return None
    root = 0 if dst is None and group_dst is None else root_of(pg, dst, group_dst)
    if pg.rank() == root:
        if not gather_list:
            raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
        buffers.check_tensors(gather_list, "gather_list")
        buffers.same_dtype(tensor, gather_list)
        check_list(gather_list, pg, tensor, "gather", "output")
    elif gather_list:
        raise ValueError("Argument ``gather_list`` must NOT be specified on non-destination ranks.")
    memory = memory_for(pg, tensor)
    flat = memory.outgoing(tensor)
    out = memory.empty(flat.size * pg.size(), flat.dtype) if pg.rank() == root else None
    return run(
        pg,
        memory,
        "gather",
        f"{buffers.words(tensor)} to rank {root}",
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
    buffers.check_tensor(tensor, "tensor")
    pg = member(group, "scatter")
    if pg is None:
        return None
    root = 0 if src is None and group_src is None else root_of(pg, src, group_src)
    memory = memory_for(pg, tensor)
    sent = None
    if pg.rank() == root:
        if not scatter_list:
            raise ValueError("Argument ``scatter_list`` must be specified on source rank.")
        buffers.check_tensors(scatter_list, "scatter_list")
        buffers.same_dtype(tensor, scatter_list)
        check_list(scatter_list, pg, tensor, "scatter", "input")
        sent = memory.joined(scatter_list)
    elif scatter_list:
        raise ValueError("Argument ``scatter_list`` must NOT be specified on non-source ranks.")
    flat, back = memory.both_ways(tensor)
    return run(
        pg,
        memory,
        "scatter",
        f"{buffers.words(tensor)} from rank {root}",
        lambda engine: engine.scatter(flat, sent, root),
        async_op,
        back,
        [tensor],
        (flat, sent),
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
    buffers.check_tensor(output, "output")
    buffers.check_tensor(input, "input")
    buffers.same_dtype(output, input)
    pg = member(group, "all_to_all_single")
    if pg is None:
        return None
    sent = split_sizes(input, input_split_sizes, pg.size())
    received = split_sizes(output, output_split_sizes, pg.size())
    memory = memory_for(pg, output)
    out, back = memory.both_ways(output)
    flat = memory.apart(memory.outgoing(input), out)
    kind = "all_to_all_single"
    return exchange(pg, memory, kind, out, flat, received, sent, async_op, back, output)


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
    buffers.check_tensors(output_tensor_list, "output_tensor_list")
    buffers.check_tensors(input_tensor_list, "input_tensor_list")
    buffers.same_dtype(output_tensor_list, input_tensor_list)
    pg = member(group, "all_to_all")
    if pg is None:
        return None
    for role, tensors in (("input", input_tensor_list), ("output", output_tensor_list)):
        if len(tensors) != pg.size():
            raise RuntimeError(
                f"all_to_all: invalid {role} tensor list (expected length {pg.size()}, got "
                f"{len(tensors)})"
            )
    sent = [t.numel() for t in input_tensor_list]
    received = [t.numel() for t in output_tensor_list]
    memory = memory_for(pg, output_tensor_list[0])
    flat = memory.joined(input_tensor_list)
    out = memory.empty(sum(received), flat.dtype)

    def deal() -> None:
        memory.dealt(out, output_tensor_list)

    kind, results = "all_to_all", output_tensor_list
    return exchange(pg, memory, kind, out, flat, received, sent, async_op, deal, results)


def exchange(
    pg: ProcessGroup,
    memory: Any,
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
        memory,
        kind,
        str(flat.dtype),
        lambda engine: engine.all_to_all(out, flat, received, sent),
        async_op,
        finish,
        result,
        (out, flat),
    )
