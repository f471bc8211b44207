"""Checkpoints that all ranks write and read together; the number of ranks may change between.

Every rank writes one file, `__RANK_0.distcp`; `.metadata` says what is where. Tensors that all
ranks have are written once; shards (of FSDP) are written by their owners, and read by whoever needs
a part of them.
"""

from __future__ import annotations

import os
import pathlib
import pickle
import zlib
from typing import Any

import tapegrad as tg

from ...futures import Future
from .._barriers import barrier
from .._groups import ProcessGroup, is_initialized
from .._objects import gather_object
from .._shards import FlatShard
from .._world import WORLD as _WORLD

__all__ = [
    "CheckpointException",
    "DefaultLoadPlanner",
    "DefaultSavePlanner",
    "FileSystemReader",
    "FileSystemWriter",
    "LoadPlanner",
    "SavePlanner",
    "StorageReader",
    "StorageWriter",
    "async_save",
    "load",
    "load_state_dict",
    "save",
    "save_state_dict",
]

METADATA = ".metadata"


class CheckpointException(RuntimeError):
    """A checkpoint that cannot be read."""


class StorageWriter:
    """Where to write."""


class StorageReader:
    """Where to read from."""


class FileSystemWriter(StorageWriter):
    """Where to write: a folder."""

    def __init__(self, path: Any, *args: Any, **kwargs: Any) -> None:
        self.path = pathlib.Path(path)


class FileSystemReader(StorageReader):
    """Where to read from: a folder."""

    def __init__(self, path: Any, *args: Any, **kwargs: Any) -> None:
        self.path = pathlib.Path(path)


class SavePlanner:
    """Decides what each rank writes: its own shards, and a part of everything else."""


class LoadPlanner:
    """Decides what each rank reads: the entries of its state dict."""


class DefaultSavePlanner(SavePlanner):
    """There is one way to write; the arguments are accepted."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass


class DefaultLoadPlanner(LoadPlanner):
    """How to read: whether keys that the checkpoint lacks are left as they are."""

    def __init__(
        self,
        flatten_state_dict: bool = True,
        flatten_sharded_tensors: bool = True,
        allow_partial_load: bool = False,
    ) -> None:
        self.allow_partial_load = allow_partial_load


def folder_of(checkpoint_id: Any, storage: Any) -> pathlib.Path:
    if storage is not None:
        return pathlib.Path(storage.path)
    if checkpoint_id is None:
        raise RuntimeError(
            "`checkpoint_id` must be specified if storage_reader/storage_writer is None."
        )
    return pathlib.Path(checkpoint_id)


def flattened(tree: Any, path: tuple[Any, ...] = ()) -> dict[tuple[Any, ...], Any]:
    """The leaves of nested dicts and lists, by path. Objects with a state_dict give theirs."""
    if hasattr(tree, "state_dict") and not isinstance(tree, tg.Tensor):
        tree = tree.state_dict()
    if isinstance(tree, dict) and tree:
        parts: Any = tree.items()
    elif isinstance(tree, list) and tree:
        parts = enumerate(tree)
    else:
        return {path: tree}
    return {k: v for key, part in parts for k, v in flattened(part, (*path, key)).items()}


def place(process_group: Any) -> tuple[int, int, ProcessGroup | None]:
    """(rank, number of ranks, group); one process without a group is alone."""
    group = process_group or (_WORLD.group if is_initialized() else None)
    return (0, 1, None) if group is None else (group.rank(), group.size(), group)


def save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: Any = None,
    storage_writer: Any = None,
    planner: Any = None,
    process_group: Any = None,
    no_dist: bool = False,
    use_collectives: bool = True,
) -> Any:
    """Write a state dict; all ranks call it. It is complete when `.metadata` is there."""
    rank, size, group = (0, 1, None) if no_dist else place(process_group)
    folder = folder_of(checkpoint_id, storage_writer)
    folder.mkdir(parents=True, exist_ok=True)
    own: dict[tuple[Any, ...], Any] = {}
    index: dict[tuple[Any, ...], Any] = {}
    for path, value in flattened(state_dict).items():
        if isinstance(value, FlatShard):
            own[path] = value.local.detach()
            index[path] = ("shard", value.start, value.numel(), value.shape)
        elif writer_of(path, value, size) == rank:
            own[path] = value.detach() if isinstance(value, tg.Tensor) else value
            index[path] = ("whole",)
    name = f"__{rank}_0.distcp"
    partial = folder / f".{name}.partial"
    tg.save(own, partial)
    os.replace(partial, folder / name)
    every: list[Any] = [None] * size if rank == 0 else []
    if group is None:
        every = [(name, index)]
    else:
        gather_object((name, index), every if rank == 0 else None, group=group, group_dst=0)
    if rank == 0:
        # Written last and moved into place: a checkpoint that was interrupted has none.
        (folder / ".metadata.partial").write_bytes(pickle.dumps(every))
        os.replace(folder / ".metadata.partial", folder / METADATA)
    if group is not None:
        barrier(group)
    return every if rank == 0 else None


def writer_of(path: tuple[Any, ...], value: Any, size: int) -> int:
    """The rank that writes what all have. By name: a rank may have fewer entries than others."""
    return zlib.crc32(repr(path).encode()) % size if isinstance(value, tg.Tensor) else 0


def async_save(state_dict: dict[str, Any], **kwargs: Any) -> Future[Any]:
    """Save now; the future is done."""
    future: Future[Any] = Future()
    kwargs.pop("async_checkpointer_type", None)
    future.set_result(save(state_dict, **kwargs))
    return future


def load(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: Any = None,
    storage_reader: Any = None,
    planner: Any = None,
    process_group: Any = None,
    no_dist: bool = False,
) -> None:
    """Fill a state dict in place, with what was saved by any number of ranks."""
    folder = folder_of(checkpoint_id, storage_reader)
    if not (folder / METADATA).exists():
        raise CheckpointException(f"{folder} is no complete checkpoint: it has no {METADATA}")
    files: list[Any] = pickle.loads((folder / METADATA).read_bytes())
    where: dict[tuple[Any, ...], list[Any]] = {}
    for name, index in files:
        for path, entry in index.items():
            where.setdefault(path, []).append((name, entry))
    reader = Reader(folder)
    for path, value in flattened(state_dict).items():
        if path not in where:
            if getattr(planner, "allow_partial_load", False):
                continue
            raise RuntimeError(f"Missing key in checkpoint state_dict: {'.'.join(map(str, path))}.")
        found = where[path]
        if isinstance(value, FlatShard):
            fill(value.local.detach(), value.start, found, path, reader)
        elif isinstance(value, tg.Tensor):
            with tg.no_grad():
                fill_whole(value, found, path, reader)
        else:
            put(state_dict, path, reader.get(found[0][0], path))
    for value in state_dict.values():
        if hasattr(value, "load_state_dict") and not isinstance(value, tg.Tensor):
            value.load_state_dict(value.state_dict())


class Reader:
    """The files of a checkpoint, each read once."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.read: dict[str, Any] = {}

    def get(self, name: str, path: tuple[Any, ...]) -> Any:
        if name not in self.read:
            self.read[name] = tg.load(self.folder / name, weights_only=False)
        return self.read[name][path]


def fill_whole(target: Any, found: list[Any], path: Any, reader: Reader) -> None:
    if found[0][1][0] == "whole":
        saved = reader.get(found[0][0], path)
        if saved.shape != target.shape:
            raise ValueError(
                f"Size mismatch between saved {saved.shape} and current: {target.shape} for "
                f"{'.'.join(map(str, path))}"
            )
        target.detach().copy_(saved)
        return
    flat = target.detach().new_empty(target.numel())
    fill(flat, 0, found, path, reader)
    target.detach().copy_(flat.view(target.shape))


def fill(target: Any, start: int, found: list[Any], path: Any, reader: Reader) -> None:
    """Elements from `start` on of a tensor, from the parts that were saved."""
    end = start + target.numel()
    for name, entry in found:
        saved = reader.get(name, path).reshape(-1)
        first = entry[1] if entry[0] == "shard" else 0
        low, high = max(start, first), min(end, first + saved.numel())
        if low < high:
            target.view(-1)[low - start : high - start] = saved[low - first : high - first]


def put(tree: Any, path: tuple[Any, ...], value: Any) -> None:
    for key in path[:-1]:
        tree = tree[key]
        if not isinstance(tree, (dict, list)):
            return
    tree[path[-1]] = value


def save_state_dict(
    state_dict: dict[str, Any],
    storage_writer: Any,
    process_group: Any = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: Any = None,
) -> Any:
    """The older form of `save`."""
    return save(
        state_dict, storage_writer=storage_writer, process_group=process_group, no_dist=no_dist
    )


def load_state_dict(
    state_dict: dict[str, Any],
    storage_reader: Any,
    process_group: Any = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: Any = None,
) -> None:
    """The older form of `load`."""
    load(
        state_dict,
        storage_reader=storage_reader,
        planner=planner,
        process_group=process_group,
        no_dist=no_dist,
    )
