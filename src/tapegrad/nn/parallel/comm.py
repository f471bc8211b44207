"""Copies of tensors between devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tapegrad as tg

from . import scatter_gather
from .scatter_gather import place

__all__ = [
    "broadcast",
    "broadcast_coalesced",
    "gather",
    "reduce_add",
    "reduce_add_coalesced",
    "scatter",
]


def broadcast(tensor: Any, devices: Sequence[Any]) -> tuple[Any, ...]:
    """The tensor on each of the devices."""
    return tuple([tensor.to(place(d)) for d in devices])


def broadcast_coalesced(
    tensors: Sequence[Any], devices: Sequence[Any], buffer_size: int = 10485760
) -> list[list[Any]]:
    """Several tensors on each of the devices."""
    return [[t.to(place(d)) for t in tensors] for d in devices]


def reduce_add(inputs: Sequence[Any], destination: Any = None) -> Any:
    """The sum of tensors from several devices, on one."""
    target = inputs[0].device if destination is None else place(destination)
    total = inputs[0].to(target).clone()
    for t in inputs[1:]:
        if t.shape != total.shape:
            raise ValueError(
                f"input 1 has invalid size: got {tuple(t.shape)}, but expected {tuple(total.shape)}"
            )
        total += t.to(target)
    return total


def reduce_add_coalesced(
    inputs: Sequence[Sequence[Any]], destination: Any = None, buffer_size: int = 10485760
) -> tuple[Any, ...]:
    """Sum several tensors of each device over the devices."""
    return tuple([reduce_add(each, destination) for each in zip(*inputs, strict=True)])


def scatter(
    tensor: Any,
    devices: Sequence[Any] | None = None,
    chunk_sizes: Sequence[int] | None = None,
    dim: int = 0,
    streams: Any = None,
) -> tuple[Any, ...]:
    """Parts of a tensor, one for each device."""
    targets = list(devices or range(tg.cuda.device_count()))
    if chunk_sizes is None:
        parts = tensor.chunk(len(targets), dim)
    else:
        parts = tensor.split(list(chunk_sizes), dim)
    return tuple([part.to(place(d)) for part, d in zip(parts, targets, strict=False)])


def gather(tensors: Sequence[Any], dim: int = 0, destination: Any = None) -> Any:
    """Tensors of several devices put together on one."""
    return scatter_gather.gather(tensors, 0 if destination is None else destination, dim)
