"""Process groups: how they are made, what they know of their members, how they end."""

from __future__ import annotations

import os
import zlib
from datetime import timedelta
from typing import Any

from ..core.base import user_frame
from . import _errors
from ._between import Between
from ._board import ENDED, RUNNING, Board, Pulse
from ._buffers import Host
from ._engines import Alone, Over, OverMPI
from ._starting import known_backend, rendezvous, start_mpi
from ._work import SPIN, Work
from ._world import WORLD, say_goodbye, watch_the_end

SWEEP = 64  # groups made between two looks for those that are over

default_pg_timeout = timedelta(minutes=30)
default_pg_nccl_timeout = timedelta(minutes=10)


class Backend(str):
    """The name of what carries the data: mpi, gloo (which MPI answers) or nccl."""

    UNDEFINED = "undefined"
    GLOO = "gloo"
    NCCL = "nccl"
    UCC = "ucc"
    MPI = "mpi"
    XCCL = "xccl"
    FAKE = "fake"

    backend_list = [UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, FAKE]
    default_device_backend_map = {"cpu": GLOO, "cuda": NCCL}

    def __new__(cls, name: str) -> str:  # type: ignore[misc]
        if not isinstance(name, str):
            raise ValueError("Backend constructor parameter must be string-ish")
        return name.lower()


class BackendConfig:
    """Which backend serves which kind of device: "cpu:gloo,cuda:nccl"."""

    def __init__(self, backend: str | None) -> None:
        name = "cpu:gloo,cuda:nccl" if backend is None else Backend(backend)
        pairs = name.split(",") if ":" in name else [f"{kind}:{name}" for kind in ("cpu", "cuda")]
        self.device_backend_map = dict(pair.split(":", 1) for pair in pairs)

    def get_device_backend_map(self) -> dict[str, str]:
        return self.device_backend_map

    def __repr__(self) -> str:
        return ",".join(f"{kind}:{name}" for kind, name in self.device_backend_map.items())


def get_default_backend_for_device(device: Any) -> str:
    """The backend for tensors of a device if none is chosen."""
    kind = str(getattr(device, "type", device)).split(":")[0]
    found = Backend.default_device_backend_map.get(kind)
    if found is None:
        raise ValueError(f"Default backend not registered for device : {device}")
    return found


class ProcessGroup:
    """Processes that talk to each other."""

    def __init__(
        self,
        engine: Any,
        global_ranks: list[int],
        backend: str,
        timeout: timedelta,
        name: str,
        description: str = "",
    ) -> None:
        self.engine = engine
        self.global_ranks = global_ranks
        self.backend = backend
        self.timeout = timeout
        self.group_name = name
        self.group_desc = description or "undefined"
        self.my_global_rank = global_ranks[engine.rank]
        self.pending: set[Work] = set()
        self.whole = global_ranks == list(range(len(global_ranks)))  # its ranks are global ones
        self.host = Host(engine)
        self.on_gpus = False  # whether CUDA tensors go through NCCL
        self.nccl: Any = None  # memory of the GPU, from the first collective of CUDA tensors on
        self.notes: dict[Any, tuple[int, bytes]] = {}
        alone = isinstance(engine, Alone) or engine.size == 1
        self.board = None if alone else Board(engine.MPI, engine.comm)
        self.between: Between | None = None  # where the group has ranks on several machines
        if self.board is not None and len(self.board.pages) < engine.size:
            self.between = Between(engine.MPI, engine.comm, self.board)
        crowded = engine.size > (os.cpu_count() or 1)
        # How often to ask before anyone else gets the processor, and how long before sleeping.
        self.tries, self.spin = (2, SPIN / 20) if crowded else (200, SPIN)
        self.busy_until = 0.0

    def release(self) -> None:
        """Give back what MPI has a limited number of; all members do so at once."""
        if self.between is not None:
            self.between.free()
        if self.board is not None:
            self.board.free()
        self.engine.free()
        self.between = self.board = None
        self.engine = Over(self.engine.rank, self.engine.size)
        self.host = Host(self.engine)

    def rank(self) -> int:
        return int(self.engine.rank)

    def size(self) -> int:
        return int(self.engine.size)

    def name(self) -> str:
        return self.backend

    def __repr__(self) -> str:
        return f"<ProcessGroup {self.group_name}: {self.backend}, ranks {self.global_ranks}>"

    # ------------------------------------------------------------------ what the others do

    def note(self, kind: str, words: str) -> tuple[int, int]:
        """Tell the others which collective comes; its number and fingerprint."""
        board = self.board
        if board is None:
            return 0, 0
        frame = user_frame(2)
        at = None if frame is None else (frame.f_code, frame.f_lasti)
        found = self.notes.get((kind, words, at))
        if found is None:
            where = "?" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"
            text = f"{kind} {words}\n{where}".encode()[-480:]
            found = zlib.crc32(f"{kind} {words}".encode()), text
            self.notes[kind, words, at] = found
        mark, text = found
        count = board.note(mark, text)
        if self.between is not None:
            self.between.note(count, mark, text)
        return count, mark

    def compare(self, work: Work) -> None:
        """Raise if another rank runs something else under the number of this operation."""
        assert self.board is not None
        other = self.board.differing(work.count, work.mark)
        if other is not None:
            self.disagree(work, other)
        if self.between is not None:
            found = self.between.differing()
            if found is not None:
                count, rank, theirs, mine = found
                notes = (self.my_global_rank, mine), (self.global_ranks[rank], theirs)
                first, second = ((who, note.decode("utf-8", "replace")) for who, note in notes)
                raise _errors.disagreement(first, second, count)

    def disagree(self, work: Work, other: int) -> None:
        assert self.board is not None
        self.board.disagree(work.count, other)
        mine = self.my_global_rank, self.board.text(self.rank(), work.count)
        theirs = self.global_ranks[other], self.board.text(other, work.count)
        raise _errors.disagreement(mine, theirs, work.count)

    def look(self, work: Work) -> None:
        """While waiting: raise if the others will not come."""
        board = self.board
        if board is None:
            return
        if work.count:
            self.compare(work)
        for rank, _ in board.others:
            found = board.disagreement(rank)
            if found is None:
                continue
            # Perhaps with this rank, about what it did without waiting, as the root of a broadcast.
            count, other = found
            notes = [(self.global_ranks[r], board.text(r, count)) for r in (rank, other)]
            if all(note for _, note in notes):
                raise _errors.disagreement(notes[0], notes[1], count)
        world = WORLD.group
        assert world is not None and world.board is not None and WORLD.pulse is not None
        dead = WORLD.pulse.dead()
        for place, rank in enumerate(self.global_ranks):
            if rank == world.my_global_rank:
                continue
            state, told = world.board.state(rank)
            if rank not in world.board.words:
                state, told = WORLD.pulse.told(rank, patience=1.0)
            if rank not in dead and state == RUNNING:
                continue
            # What it sent before its end is still good.
            if work.test() or self.took_part(place, work):
                continue
            raise _errors.gone(self, rank, work, state, told)

    def took_part(self, place: int, work: Work) -> bool:
        """Whether a rank that has ended orderly had begun this operation before."""
        if not work.count or self.board is None:
            return False
        state = WORLD.group.board.state(self.global_ranks[place])[0]  # type: ignore[union-attr]
        return state == ENDED and self.board.last(place)[0] >= work.count

    def late_ranks(self, work: Work) -> list[int]:
        if self.board is None or not work.count:
            return []
        return [
            self.global_ranks[rank]
            for rank, _ in self.board.others
            if self.board.last(rank)[0] < work.count
        ]

    def last_note(self, global_rank: int) -> str:
        """The last collective that a rank noted, in this group or in the world."""
        if self.board is None:
            return ""
        own = self.board.last(self.global_ranks.index(global_rank))[1]
        world = WORLD.group
        if own or world is None or world.board is None:
            return own
        return world.board.last(global_rank)[1]

    def progress(self) -> None:
        """MPI moves data while it is called: let all operations under way move."""
        for work in list(self.pending):
            work.test()


class GroupMember:
    """The default process group, and what stands for belonging to none."""

    NON_GROUP_MEMBER = -100

    WORLD: ProcessGroup | None = None


class _GroupType(type):
    @property
    def WORLD(cls) -> ProcessGroup | None:
        return WORLD.group


class group(metaclass=_GroupType):
    """`group.WORLD`: the default process group, None before it is there."""


def is_initialized() -> bool:
    """Whether there is a default process group."""
    return WORLD.group is not None


def uninitialized() -> ValueError:
    return ValueError(
        "Default process group has not been initialized, please make sure to call "
        "init_process_group."
    )


def default_group() -> ProcessGroup:
    if WORLD.group is None:
        raise uninitialized()
    return WORLD.group


def chosen(group: Any) -> ProcessGroup | None:
    """The group that an argument means; None for a group that this rank is not in."""
    if group is None:
        return default_group()
    if isinstance(group, ProcessGroup):
        return group
    if group == GroupMember.NON_GROUP_MEMBER:
        return None
    raise _errors.not_a_group(group)


# ---------------------------------------------------------------------- making groups


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Any = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
) -> None:
    """Make the default group of all processes that were started together.

    Rank and number come from the arguments, from RANK and WORLD_SIZE, or from mpiexec. MPI carries
    the data, whatever backend is named; one process alone needs no MPI.
    """
    if WORLD.group is not None:
        raise ValueError("trying to initialize the default process group twice!")
    if store is not None and init_method is not None:
        raise AssertionError("Cannot specify both init_method and store.")
    if store is not None:
        if not world_size > 0:
            raise AssertionError("world_size must be positive if using store")
        if not rank >= 0:
            raise AssertionError("rank must be non-negative if using store")
    named, on_gpus = known_backend(backend)
    if timeout is None:
        timeout = default_pg_timeout
    if not isinstance(timeout, timedelta):
        raise TypeError(
            f"Expected timeout argument to be of type datetime.timedelta, got {timeout}"
        )
    rank, world_size, address = rendezvous(named, init_method, rank, world_size, store)
    if world_size == 1:
        engine: Any = Alone()
    else:
        engine = start_mpi(rank, world_size, address, named)
        watch_the_end()
    made = ProcessGroup(engine, list(range(world_size)), named, timeout, "0", "default_pg")
    made.on_gpus = on_gpus
    if made.board is not None:
        WORLD.epoch += 1
        WORLD.pulse = Pulse(engine.comm, made.board, WORLD.epoch)
        # All ranks are here, with nothing of the world before it.
        WORLD.last_board = None
        for old in WORLD.over.values():
            old.release()
        WORLD.over = {}
    WORLD.group = GroupMember.WORLD = made
    WORLD.groups = {"0": made}
    WORLD.made = 1


def new_group(
    ranks: Any = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
    sort_ranks: bool = True,
) -> Any:
    """A group of some ranks. All processes call this, members or not, in the same order."""
    world = default_group()
    if timeout is not None and not isinstance(timeout, timedelta):
        raise TypeError(
            f"Expected timeout argument to be of type datetime.timedelta, got {timeout}"
        )
    ranks = list(world.global_ranks if ranks is None else ranks)
    if sort_ranks:
        ranks.sort()
    if len(ranks) > world.size():
        raise ValueError(
            "the new group's world size should be less or equal to the world size set by "
            "init_process_group"
        )
    for rank in ranks:
        if not 0 <= rank < world.size():
            raise ValueError(
                f"Rank {rank} is out of range. Valid ranks are 0 to {world.size() - 1} "
                f"(world_size={world.size()})"
            )
    if len(set(ranks)) != len(ranks):
        raise ValueError(f"ranks list must not contain duplicate entries, got {ranks}")
    name = str(WORLD.made)
    WORLD.made += 1
    if WORLD.made % SWEEP == 0 and world.size() > 1:
        sweep(world)
    engine = world.engine.split(ranks)
    if engine is None:
        return GroupMember.NON_GROUP_MEMBER
    named, on_gpus = world.backend, world.on_gpus
    if backend is not None:
        named, on_gpus = known_backend(backend)
    made = ProcessGroup(engine, ranks, named, timeout or world.timeout, name, group_desc or "")
    made.on_gpus = on_gpus
    WORLD.groups[name] = made
    return made


def split_group(
    parent_pg: Any = None,
    split_ranks: list[list[int]] | None = None,
    timeout: timedelta | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> Any:
    """The group of this rank among lists of ranks that do not overlap; None if it is in none."""
    if not split_ranks:
        raise ValueError("split_ranks cannot be None or empty")
    parent = default_group() if parent_pg is None else parent_pg
    lists = [[parent.global_ranks[rank] for rank in ranks] for ranks in split_ranks]
    return new_subgroups_by_enumeration(lists, timeout, None, pg_options, group_desc)[0]


def sweep(world: ProcessGroup) -> None:
    """Release the groups that all their members have destroyed. All ranks call it."""
    every = world.engine.comm.allgather(list(WORLD.over))
    for name in sorted(WORLD.over, key=int):
        if all(name in every[rank] for rank in WORLD.over[name].global_ranks):
            WORLD.over.pop(name).release()


def new_subgroups(
    group_size: int | None = None,
    group: Any = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """Groups of `group_size` neighbouring ranks: (that of this rank, all)."""
    size = default_group().size()
    each = group_size or int(os.environ.get("LOCAL_WORLD_SIZE", size))
    if each <= 0:
        raise ValueError(f"The arg 'group_size' ({each}) must be positive")
    if size < each:
        raise ValueError(f"The arg 'group_size' ({each}) must not exceed the world size ({size})")
    if size % each:
        raise ValueError(f"The world size ({size}) must be divisible by 'group_size={each}'")
    lists = [list(range(start, start + each)) for start in range(0, size, each)]
    return new_subgroups_by_enumeration(lists, timeout, backend, pg_options, group_desc)


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: list[list[int]],
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """Groups by lists of ranks that do not overlap: (that of this rank, all)."""
    seen: set[int] = set()
    for ranks in ranks_per_subgroup_list:
        for rank in ranks:
            if rank in seen:
                raise ValueError(f"Rank {rank} has appeared in both subgroup and another")
            seen.add(rank)
    made = [new_group(ranks, timeout, backend) for ranks in ranks_per_subgroup_list]
    own = next((g for g in made if isinstance(g, ProcessGroup)), None)
    return own, made


def destroy_process_group(group: Any = None) -> None:
    """End a group; without an argument all of them."""
    if group == GroupMember.NON_GROUP_MEMBER:
        return
    found = WORLD.group if group is None else group
    if found is None:
        raise AssertionError("Process group cannot be None")
    if found.group_name not in WORLD.groups:
        raise ValueError("Invalid process group specified")
    for ending in [found] if found is not WORLD.group else list(WORLD.groups.values()):
        if ending.nccl is not None:
            ending.nccl.engine.free()
            ending.nccl = None
        if ending.between is not None:
            ending.between.close()
    if found is not WORLD.group:
        del WORLD.groups[found.group_name]
        if isinstance(found.engine, OverMPI):
            WORLD.over[found.group_name] = found
        return
    say_goodbye()
    if isinstance(found.engine, OverMPI):
        WORLD.over.update(WORLD.groups)
    WORLD.group = GroupMember.WORLD = None
    WORLD.groups = {}


# ---------------------------------------------------------------------- questions


def get_rank(group: Any = None) -> int:
    """The number of this process in a group; -1 if it is not in it."""
    found = chosen(group)
    return -1 if found is None else found.rank()


def get_world_size(group: Any = None) -> int:
    """The number of processes in a group; -1 if this one is not in it."""
    found = chosen(group)
    return -1 if found is None else found.size()


def get_backend(group: Any = None) -> str:
    """The name of a group's backend, as it was asked for."""
    found = chosen(group)
    if found is None:
        raise ValueError("Invalid process group specified")
    return found.backend


def get_backend_config(group: Any = None) -> str:
    found = chosen(group)
    if found is None:
        raise ValueError("Invalid process group specified")
    return f"cpu:{found.backend},cuda:{found.backend}"


def get_process_group_ranks(group: Any) -> list[int]:
    """The global ranks of a group, in the order of its own ranks."""
    found = chosen(group)
    return [] if found is None else list(found.global_ranks)


def get_group_rank(group: Any, global_rank: int) -> int:
    """The rank within a group of a global rank."""
    if not isinstance(group, ProcessGroup):
        raise ValueError(
            f"Group {group} is not registered, please create group with "
            "torch.distributed.new_group API"
        )
    if global_rank not in group.global_ranks:
        raise ValueError(f"Global rank {global_rank} is not part of group {group}")
    return group.global_ranks.index(global_rank)


def get_global_rank(group: Any, group_rank: int) -> int:
    """The global rank of a rank of a group."""
    if not isinstance(group, ProcessGroup):
        raise ValueError(
            f"Group {group} is not registered, please create group with "
            "torch.distributed.new_group API"
        )
    if not 0 <= group_rank < group.size():
        raise ValueError(f"Group rank {group_rank} is not part of group {group}")
    return group.global_ranks[group_rank]


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """This process's number on its machine."""
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is not None:
        return int(fallback_rank)
    raise RuntimeError(
        "LOCAL_RANK is not in the environment. Consider passing fallback_rank to allow "
        "`get_node_local_rank` to work, assuming you are not running in a multi-device context and "
        "want the code to run locally instead."
    )


def get_pg_count() -> int:
    return WORLD.made


def get_default_group() -> ProcessGroup:
    return default_group()


def get_group_size(group: Any = None) -> int:
    return get_world_size(group)
