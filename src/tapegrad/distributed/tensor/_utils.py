"""Which part of a tensor a rank has."""

from __future__ import annotations

from collections.abc import Sequence

from ..device_mesh import DeviceMesh
from .placement_types import Placement, Shard, _StridedShard

__all__ = ["compute_local_shape_and_global_offset"]


def compute_local_shape_and_global_offset(
    global_shape: Sequence[int],
    mesh: DeviceMesh,
    placements: Sequence[Placement],
    skip_offset: bool = False,
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape of this rank's piece, and where it begins in the whole; () for a rank outside."""
    at = mesh.get_coordinate()
    if at is None:
        return (0,), ()
    shape, offset = list(global_shape), [0] * len(global_shape)
    for i, placement in enumerate(placements):
        if isinstance(placement, _StridedShard):
            raise NotImplementedError("strided shards have no one place where they begin")
        if isinstance(placement, Shard):
            dim = placement.dim
            shape[dim], begin = Shard.local_shard_size_and_offset(shape[dim], mesh.size(i), at[i])
            offset[dim] += begin
    return tuple(shape), () if skip_offset else tuple(offset)
