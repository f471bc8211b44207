"""torch.distributed of a build without it: questions are answered, communication is refused."""

from __future__ import annotations

import enum
from typing import Any, NoReturn

__all__ = [
    "GroupMember",
    "ProcessGroup",
    "ReduceOp",
    "all_gather",
    "all_gather_object",
    "all_reduce",
    "barrier",
    "broadcast",
    "broadcast_object_list",
    "destroy_process_group",
    "gather",
    "get_backend",
    "get_rank",
    "get_world_size",
    "group",
    "init_process_group",
    "irecv",
    "is_available",
    "is_backend_available",
    "is_gloo_available",
    "is_initialized",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
    "isend",
    "new_group",
    "recv",
    "reduce",
    "reduce_scatter",
    "scatter",
    "send",
]


def is_available() -> bool:
    """Whether processes can talk to each other: not here."""
    return False


def is_initialized() -> bool:
    """Whether there is a default process group."""
    return False


def is_nccl_available() -> bool:
    return False


def is_gloo_available() -> bool:
    return False


def is_mpi_available() -> bool:
    return False


def is_backend_available(backend: str) -> bool:
    return False


def is_torchelastic_launched() -> bool:
    return False


class ReduceOp(enum.Enum):
    """How values of several processes are combined."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7


class ProcessGroup:
    """Processes that talk to each other; there for annotations and isinstance checks."""


class group:
    """The default process group: there is none."""

    WORLD: ProcessGroup | None = None


class GroupMember:
    """The default process group, and what stands for belonging to none."""

    WORLD: ProcessGroup | None = None
    NON_GROUP_MEMBER = -100


def init_process_group(backend: Any = None, init_method: Any = None, *args: Any, **kw: Any) -> None:
    """Refused: this library runs in one process."""
    raise RuntimeError(
        "Distributed package doesn't have any backend built in\n"
        "  tapegrad computes in one process: torch.distributed.is_available() is False"
    )


def destroy_process_group(group: Any = None) -> None:
    raise AssertionError("Process group cannot be None")


def uninitialized() -> ValueError:
    return ValueError(
        "Default process group has not been initialized, please make sure to call "
        "init_process_group."
    )


def get_rank(group: Any = None) -> int:
    raise uninitialized()


def get_world_size(group: Any = None) -> int:
    raise uninitialized()


def get_backend(group: Any = None) -> str:
    raise uninitialized()


def new_group(*args: Any, **kwargs: Any) -> NoReturn:
    raise uninitialized()


def barrier(*args: Any, **kwargs: Any) -> NoReturn:
    raise uninitialized()


def all_reduce(tensor: Any, *args: Any, **kwargs: Any) -> NoReturn:
    raise uninitialized()


def reduce(tensor: Any, dst: Any = None, *args: Any, **kwargs: Any) -> NoReturn:
    raise uninitialized()


def reduce_scatter(output: Any, input_list: Any, *args: Any, **kwargs: Any) -> NoReturn:
    raise uninitialized()


def broadcast(tensor: Any, src: Any = None, *args: Any, **kwargs: Any) -> NoReturn:
    raise uninitialized()


def broadcast_object_list(object_list: Any, *args: Any, **kwargs: Any) -> NoReturn:
    raise uninitialized()


def all_gather(tensor_list: Any, tensor: Any, *args: Any, **kwargs: Any) -> NoReturn:
    raise uninitialized()


def all_gather_object(object_list: Any, obj: Any, *args: Any, **kwargs: Any) -> NoReturn:
    raise uninitialized()


def gather(tensor: Any, *args: Any, **kwargs: Any) -> NoReturn:
    raise uninitialized()


def scatter(tensor: Any, *args: Any, **kwargs: Any) -> NoReturn:
    raise uninitialized()


def send(tensor: Any, dst: Any = None, *args: Any, **kwargs: Any) -> NoReturn:
    raise uninitialized()


def recv(tensor: Any, src: Any = None, *args: Any, **kwargs: Any) -> NoReturn:
    raise uninitialized()


def isend(tensor: Any, dst: Any = None, *args: Any, **kwargs: Any) -> NoReturn:
    raise uninitialized()


def irecv(tensor: Any, src: Any = None, *args: Any, **kwargs: Any) -> NoReturn:
    raise uninitialized()
