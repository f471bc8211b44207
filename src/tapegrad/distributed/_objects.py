"""Collectives of Python objects: pickled, as bytes."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np

from ..core.base import wrap
from ._messages import irecv, isend
from ._running import member, root_of
from ._spreading import all_gather, all_gather_into_tensor, broadcast, gather, scatter


def pickled(value: Any) -> Any:
    return np.frombuffer(bytearray(pickle.dumps(value)), np.uint8)


def number_of(array: Any) -> Any:
    return wrap(np.array([array.size], np.int64))


def padded(array: Any, size: int) -> Any:
    out = np.zeros(size, np.uint8)
    out[: array.size] = array
    return wrap(out)


def unpickled(tensor: Any, size: int) -> Any:
    return pickle.loads(tensor._array[:size].tobytes())


def sizes_of(own: Any, group: Any) -> list[int]:
    """The number of bytes of every rank's object."""
    size = group.size()
    sizes = wrap(np.zeros(size, np.int64))
    all_gather_into_tensor(sizes, number_of(own), group)
    return [int(n) for n in sizes._array]


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """The objects of all ranks, on every rank."""
    pg = member(group, "all_gather_object")
    if pg is None:
        return
    own = pickled(obj)
    sizes = sizes_of(own, pg)
    parts: list[Any] = [wrap(np.empty(max(sizes), np.uint8)) for _ in sizes]
    all_gather(parts, padded(own, max(sizes)), pg)
    for i, (part, size) in enumerate(zip(parts, sizes, strict=True)):
        object_list[i] = unpickled(part, size)


def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: Any = None,
    group_dst: int | None = None,
) -> None:
    """The objects of all ranks, on rank `dst`."""
    pg = member(group, "gather_object")
    if pg is None:
        return
    root = 0 if dst is None and group_dst is None else root_of(pg, dst, group_dst)
    if pg.rank() == root and not object_gather_list:
        raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
    if pg.rank() != root and object_gather_list:
        raise ValueError("Argument ``gather_list`` must NOT be specified on non-destination ranks.")
    own = pickled(obj)
    sizes = sizes_of(own, pg)
    mine = pg.rank() == root
    parts: Any = [wrap(np.empty(max(sizes), np.uint8)) for _ in sizes] if mine else None
    gather(padded(own, max(sizes)), parts, group=pg, group_dst=root)
    if mine and object_gather_list is not None:
        for i, (part, size) in enumerate(zip(parts, sizes, strict=True)):
            object_gather_list[i] = unpickled(part, size)


def broadcast_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
) -> None:
    """Give every rank the objects of rank `src`."""
    pg = member(group, "broadcast_object_list")
    if pg is None:
        return
    root = 0 if src is None and group_src is None else root_of(pg, src, group_src)
    sender = pg.rank() == root
    own = pickled(list(object_list)) if sender else np.zeros(0, np.uint8)
    size: Any = number_of(own)
    broadcast(size, group=pg, group_src=root)
    data: Any = padded(own, int(size._array[0]))
    broadcast(data, group=pg, group_src=root)
    if not sender:
        object_list[:] = unpickled(data, int(size._array[0]))[: len(object_list)]


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    group: Any = None,
    group_src: int | None = None,
) -> None:
    """Give each rank its object of the list that rank `src` has."""
    pg = member(group, "scatter_object_list")
    if pg is None:
        return
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        raise ValueError(
            "Expected argument scatter_object_output_list to be a list of size at least 1."
        )
    root = 0 if src is None and group_src is None else root_of(pg, src, group_src)
    parts: Any = None
    sizes: Any = wrap(np.zeros(pg.size(), np.int64))
    if pg.rank() == root:
        if scatter_object_input_list is None:
            raise ValueError("source rank must provide non-None scatter_object_input_list")
        arrays = [pickled(value) for value in scatter_object_input_list]
        sizes = wrap(np.array([array.size for array in arrays], np.int64))
    broadcast(sizes, group=pg, group_src=root)
    longest = int(sizes._array.max())
    if pg.rank() == root:
        parts = [padded(array, longest) for array in arrays]
    out: Any = wrap(np.empty(longest, np.uint8))
    scatter(out, parts, group=pg, group_src=root)
    scatter_object_output_list[0] = unpickled(out, int(sizes._array[pg.rank()]))


def send_object_list(
    object_list: list[Any],
    dst: int | None = None,
    group: Any = None,
    device: Any = None,
    group_dst: int | None = None,
    use_batch: bool = False,
) -> None:
    """Send objects to a rank."""
    data = pickled(list(object_list))
    for array in (number_of(data), wrap(data)):
        work = isend(array, dst, group, group_dst=group_dst)
        if work is None:
            return
        work.wait()


def recv_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
    use_batch: bool = False,
) -> int:
    """Receive objects; the rank that sent them."""
    size: Any = wrap(np.zeros(1, np.int64))
    work = irecv(size, src, group, group_src=group_src)
    if work is None:
        return -1
    work.wait()
    sender = int(work.source_rank())
    data: Any = wrap(np.empty(int(size._array[0]), np.uint8))
    irecv(data, sender, group).wait()
    object_list[:] = unpickled(data, data._array.size)[: len(object_list)]
    return sender
