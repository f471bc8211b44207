"""Collectives that return new tensors. They are complete when they return: nothing to wait for."""

from __future__ import annotations

from typing import Any

import tapegrad as tg

from ..errors.absent import absent_class, absent_function
from . import _combining, _spreading
from ._groups import ProcessGroup, default_group
from ._reduce_op import RedOpType
from .device_mesh import DeviceMesh


def group_of(group: Any) -> ProcessGroup:
    """A group, a mesh of one dimension, or a mesh and the dimension."""
    if isinstance(group, tuple):
        return group[0].get_group(group[1])  # type: ignore[no-any-return]
    if isinstance(group, DeviceMesh):
        return group.get_group()  # type: ignore[no-any-return]
    return group or default_group()


def wait_tensor(tensor: Any) -> Any:
    """The tensor itself: it is there."""
    return tensor


def all_reduce(self: Any, reduceOp: str, group: Any = None, tag: str = "") -> Any:
    """The combination of the tensors of all ranks."""
    result = self.clone()
    _combining.all_reduce(result, RedOpType[reduceOp.upper()], group_of(group))
    return result


def broadcast(self: Any, src: int, group: Any = None, tag: str = "") -> Any:
    """The tensor of rank `src`."""
    result = self.clone()
    _spreading.broadcast(result, src, group_of(group))
    return result


def all_gather_tensor(self: Any, gather_dim: int, group: Any = None, tag: str = "") -> Any:
    """The tensors of all ranks, joined along a dimension."""
    pg = group_of(group)
    parts = [tg.empty_like(self) for _ in range(pg.size())]
    _spreading.all_gather(parts, self, pg)
    return tg.cat(parts, gather_dim)


def reduce_scatter_tensor(
    self: Any, reduceOp: str, scatter_dim: int, group: Any = None, tag: str = ""
) -> Any:
    """This rank's part, along a dimension, of the combination of all tensors."""
    pg = group_of(group)
    parts = [part.contiguous() for part in self.chunk(pg.size(), scatter_dim)]
    result = tg.empty_like(parts[pg.rank()])
    _combining.reduce_scatter(result, parts, RedOpType[reduceOp.upper()], pg)
    return result


def all_to_all_single(
    self: Any, output_split_sizes: Any, input_split_sizes: Any, group: Any = None, tag: str = ""
) -> Any:
    """The parts that each rank sent to this one."""
    rows = self.shape[0] if output_split_sizes is None else sum(output_split_sizes)
    result = self.new_empty((rows, *self.shape[1:]))
    pg = group_of(group)
    _spreading.all_to_all_single(result, self, output_split_sizes, input_split_sizes, pg)
    return result


# Those that are differentiated, and tensors that are still on their way, are names only.
NAME = "torch.distributed._functional_collectives."
INSTEAD = "the collectives of torch.distributed.nn.functional, which have gradients"
AsyncCollectiveTensor = absent_class(NAME + "AsyncCollectiveTensor", INSTEAD)
all_gather_tensor_autograd = absent_function(NAME + "all_gather_tensor_autograd", INSTEAD)
all_to_all_single_autograd = absent_function(NAME + "all_to_all_single_autograd", INSTEAD)
permute_tensor = absent_function(NAME + "permute_tensor", INSTEAD)
reduce_scatter_tensor_autograd = absent_function(NAME + "reduce_scatter_tensor_autograd", INSTEAD)
