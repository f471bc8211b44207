"""Collectives that give new tensors, which gradients pass through.

What went from one rank to another on the way forward, its gradient goes back: the gradient of
broadcast is a reduce, that of gather a scatter, that of all_gather a reduce_scatter.
"""

from __future__ import annotations

from typing import Any

import tapegrad as tg

from ...autograd import Function
from .. import _combining, _spreading
from .._groups import default_group, group
from .._reduce_op import ReduceOp

__all__ = [
    "ReduceOp",
    "all_gather",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "broadcast",
    "gather",
    "group",
    "reduce",
    "reduce_scatter",
    "scatter",
]


class _Broadcast(Function):
    @staticmethod
    def forward(ctx: Any, src: int, pg: Any, tensor: Any) -> Any:
        ctx.src, ctx.pg = src, pg
        result = tensor.clone()
        _spreading.broadcast(result, src, pg)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        total = grad.clone()
        _combining.reduce(total, ctx.src, ReduceOp.SUM, ctx.pg)
        return None, None, total if at(ctx.src, ctx.pg) else total.zero_()


class _Reduce(Function):
    @staticmethod
    def forward(ctx: Any, dst: int, op: Any, pg: Any, tensor: Any) -> Any:
        ctx.dst, ctx.pg = dst, pg
        result = tensor.clone()
        _combining.reduce(result, dst, op, pg)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return None, None, None, _Broadcast.apply(ctx.dst, ctx.pg, grad.contiguous())


class _AllReduce(Function):
    @staticmethod
    def forward(ctx: Any, op: Any, pg: Any, tensor: Any) -> Any:
        ctx.how, ctx.pg = op, pg
        result = tensor.clone()
        _combining.all_reduce(result, op, pg)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return None, None, _AllReduce.apply(ctx.how, ctx.pg, grad)


class _Gather(Function):
    @staticmethod
    def forward(ctx: Any, dst: int, pg: Any, tensor: Any) -> Any:
        ctx.dst, ctx.pg = dst, pg
        parts = [tg.zeros_like(tensor) for _ in range(pg.size())]
        _spreading.gather(tensor, parts if at(dst, pg) else None, dst, pg)
        return tuple(parts)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return None, None, _Scatter.apply(ctx.dst, ctx.pg, *grads)


class _Scatter(Function):
    @staticmethod
    def forward(ctx: Any, src: int, pg: Any, *tensors: Any) -> Any:
        ctx.src, ctx.pg = src, pg
        result = tg.zeros_like(tensors[0])
        _spreading.scatter(result, list(tensors) if at(src, pg) else None, src, pg)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return None, None, *_Gather.apply(ctx.src, ctx.pg, grad)


class _ReduceScatter(Function):
    @staticmethod
    def forward(ctx: Any, op: Any, pg: Any, like: Any, *tensors: Any) -> Any:
        ctx.pg = pg
        result = tg.empty_like(like)
        _combining.reduce_scatter(result, list(tensors), op, pg)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return None, None, None, *_AllGather.apply(ctx.pg, grad)


class _AllGather(Function):
    @staticmethod
    def forward(ctx: Any, pg: Any, tensor: Any) -> Any:
        ctx.pg = pg
        parts = [tg.empty_like(tensor) for _ in range(pg.size())]
        _spreading.all_gather(parts, tensor, pg)
        return tuple(parts)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        own = grads[ctx.pg.rank()]
        return None, _ReduceScatter.apply(ReduceOp.SUM, ctx.pg, own, *grads)


class _AllToAll(Function):
    @staticmethod
    def forward(ctx: Any, pg: Any, shapes: Any, *tensors: Any) -> Any:
        ctx.pg, ctx.shapes = pg, [tuple(t.shape) for t in tensors]
        results = [tensors[0].new_empty(shape) for shape in shapes]
        _spreading.all_to_all(results, list(tensors), pg)
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return None, None, *_AllToAll.apply(ctx.pg, ctx.shapes, *grads)


class _AllToAllSingle(Function):
    @staticmethod
    def forward(ctx: Any, pg: Any, shape: Any, received: Any, sent: Any, tensor: Any) -> Any:
        ctx.pg, ctx.shape = pg, tuple(tensor.shape)
        ctx.received, ctx.sent = received, sent
        result = tensor.new_empty(shape)
        _spreading.all_to_all_single(result, tensor, received, sent, pg)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        back = _AllToAllSingle.apply(ctx.pg, ctx.shape, ctx.sent, ctx.received, grad)
        return None, None, None, None, back


def at(rank: int, pg: Any) -> bool:
    """Whether this process is the one of a global rank."""
    return bool(pg.my_global_rank == rank)


def broadcast(tensor: Any, src: int, group: Any = None) -> Any:
    """The tensor of rank `src`."""
    return _Broadcast.apply(src, group or default_group(), tensor)


def gather(tensor: Any, dst: int = 0, group: Any = None) -> Any:
    """The tensors of all ranks on rank `dst`; zeros elsewhere."""
    return _Gather.apply(dst, group or default_group(), tensor)


def scatter(tensors: Any, src: int = 0, group: Any = None) -> Any:
    """This rank's tensor of the list of rank `src`."""
    return _Scatter.apply(src, group or default_group(), *tensors)


def reduce(tensor: Any, dst: int, op: Any = ReduceOp.SUM, group: Any = None) -> Any:
    """The combination of the tensors of all ranks, on rank `dst`."""
    return _Reduce.apply(dst, op, group or default_group(), tensor)


def reduce_scatter(output: Any, input_list: Any, op: Any = ReduceOp.SUM, group: Any = None) -> Any:
    """This rank's part of the combination of lists; `output` says what it looks like."""
    return _ReduceScatter.apply(op, group or default_group(), output.detach(), *input_list)


def all_gather(tensor: Any, group: Any = None) -> Any:
    """The tensors of all ranks."""
    return _AllGather.apply(group or default_group(), tensor)


def all_to_all(output_tensor_list: Any, input_tensor_list: Any, group: Any = None) -> Any:
    """Exchange one tensor with each rank and return those that came; the list of outputs has their
    shapes.
    """
    shapes = [tuple(t.shape) for t in output_tensor_list]
    return _AllToAll.apply(group or default_group(), shapes, *input_tensor_list)


def all_to_all_single(
    output: Any,
    input: Any,
    output_split_sizes: Any = None,
    input_split_sizes: Any = None,
    group: Any = None,
) -> Any:
    """The parts that each rank sent to this one, one behind the other."""
    pg, shape = group or default_group(), tuple(output.shape)
    return _AllToAllSingle.apply(pg, shape, output_split_sizes, input_split_sizes, input)


def all_reduce(tensor: Any, op: Any = ReduceOp.SUM, group: Any = None) -> Any:
    """The combination of the tensors of all ranks."""
    return _AllReduce.apply(op, group or default_group(), tensor)
