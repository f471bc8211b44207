"""Collectives that combine the tensors of all ranks: all_reduce, reduce, reduce_scatter."""

from __future__ import annotations

from typing import Any

from . import _buffers as buffers
from ._groups import ProcessGroup
from ._reduce_op import RedOpType, ReduceOp
from ._running import chain, check_complex, check_list, check_root, member, memory_for, root_of, run

SUM = ReduceOp.SUM


def all_reduce(tensor: Any, op: Any = SUM, group: Any = None, async_op: bool = False) -> Any:
    """Combine the tensors of all ranks, in place, with the same result on each of them."""
    buffers.check_tensor(tensor, "tensor")
    pg = member(group, "all_reduce")
    if pg is None:
        return None
    check_complex("all_reduce", tensor, op)
    if tensor.is_sparse:
        from . import _sparse

        return _sparse.all_reduce(tensor, op, pg, async_op)
    memory = memory_for(pg, tensor, op)
    flat, back = memory.both_ways(tensor)
    array, its_op, ending = memory.prepared(flat, op)
    last = None if ending is None else (lambda: ending(array, flat))
    return run(
        pg,
        memory,
        "all_reduce",
        f"{buffers.words(tensor)} {op.name}",
        lambda engine: engine.all_reduce(array, its_op),
        async_op,
        chain(last, back),
        [tensor],
        array,
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
    buffers.check_tensor(tensor, "tensor")
    pg = member(group, "reduce")
    if pg is None:
        return None
    root = root_of(pg, dst, group_dst)
    check_root(pg, "reduce", root)
    check_complex("reduce", tensor, op)
    memory = memory_for(pg, tensor, op)
    flat, back = memory.both_ways(tensor)
    array, its_op, ending = memory.prepared(flat, op)
    finish = None
    if pg.rank() == root:
        finish = chain(None if ending is None else (lambda: ending(array, flat)), back)
    return run(
        pg,
        memory,
        "reduce",
        f"{buffers.words(tensor)} {op.name} to rank {root}",
        lambda engine: engine.reduce(array, its_op, root),
        async_op,
        finish,
        [tensor],
        array,
    )


def reduce_scatter(
    output: Any, input_list: list[Any], op: Any = SUM, group: Any = None, async_op: bool = False
) -> Any:
    """Combine lists of tensors; each rank gets the entry of its number."""
    buffers.check_tensor(output, "output")
    buffers.check_tensors(input_list, "input_list")
    buffers.same_dtype(output, input_list)
    pg = member(group, "reduce_scatter")
    if pg is None:
        return None
    check_list(input_list, pg, output, "reduce_scatter", "input")
    memory = memory_for(pg, output, op)
    flat = memory.joined(input_list)
    return scatter_sums(pg, memory, "reduce_scatter", output, flat, op, async_op)


def reduce_scatter_tensor(
    output: Any, input: Any, op: Any = SUM, group: Any = None, async_op: bool = False
) -> Any:
    """Combine tensors; each rank gets the part of its number."""
    buffers.check_tensor(output, "output")
    buffers.check_tensor(input, "input")
    buffers.same_dtype(output, input)
    pg = member(group, "reduce_scatter_tensor")
    if pg is None:
        return None
    if output.numel() * pg.size() != input.numel():
        raise ValueError("input tensor must be the same size as output size times world size")
    memory = memory_for(pg, output, op)
    flat = memory.outgoing(input)
    return scatter_sums(pg, memory, "reduce_scatter_tensor", output, flat, op, async_op)


def scatter_sums(
    pg: ProcessGroup,
    memory: Any,
    kind: str,
    output: Any,
    flat: Any,
    op: RedOpType,
    async_op: bool,
) -> Any:
    check_complex(kind, output, op)
    array, its_op, ending = memory.prepared(flat, op)
    part = memory.empty(array.size // pg.size(), array.dtype)
    out, back = memory.both_ways(output)

    def finish() -> None:
        if ending is not None:
            ending(part, out)
        else:
            out[...] = part.view(out.dtype)

    return run(
        pg,
        memory,
        kind,
        f"{buffers.words(output)} {op.name}",
        lambda engine: engine.reduce_scatter(part, array, its_op),
        async_op,
        chain(finish, back),
        [output],
        (array, part),
    )
