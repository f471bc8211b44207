"""How a collective is run: who takes part, what the others are told, which memory serves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.base import ON_DEVICE
from ..core.warned import warn
from ._groups import ProcessGroup, chosen, default_group, get_group_rank
from ._reduce_op import RedOpType
from ._work import Work


def run(
    group: ProcessGroup,
    memory: Any,
    kind: str,
    words: str,
    start: Callable[[Any], Any],
    async_op: bool,
    finish: Callable[[], None] | None = None,
    result: Any = None,
    keep: Any = None,
) -> Work | None:
    """Note a collective for the others, start it, and wait for it unless `async_op`."""
    count, mark = group.note(kind, words)
    work = Work(group, kind, None, finish, result, count, mark, keep)
    if memory.on_gpu and count:
        # A kernel that waits for the other GPUs cannot be left: all have to be here first.
        Work(group, kind, group.engine.barrier(), None, None, count, mark).wait()
    work.request = start(memory.engine)
    if async_op:
        group.pending.add(work)
        if count:
            group.compare(work)
        return work
    work.wait()
    return None


def memory_for(group: ProcessGroup, tensor: Any, op: RedOpType | None = None) -> Any:
    """The memory that a collective of this tensor goes through: the host's, or that of its GPU."""
    if not group.on_gpus or tensor._special != ON_DEVICE:
        return group.host
    from ._nccl import chosen_for

    return chosen_for(group, tensor, op) or group.host


def member(group: Any, name: str) -> ProcessGroup | None:
    """The group; None, with a warning, for one that this rank is not in."""
    found = chosen(group)
    if found is None:
        warn(
            f"Running {name} on global rank {default_group().rank()} which does not belong to the "
            "given group.",
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
    if group.whole:
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
