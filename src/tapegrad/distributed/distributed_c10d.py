"""The names of torch.distributed where PyTorch keeps them."""
# ruff: noqa: F401

from __future__ import annotations

import enum
import importlib.util
import os
from typing import Any

from ..errors.absent import absent_class, absent_function
from ._barriers import barrier, monitored_barrier
from ._coalesced import _coalescing_manager, all_gather_coalesced, all_reduce_coalesced
from ._combining import all_reduce, reduce, reduce_scatter, reduce_scatter_tensor
from ._errors import (
    DistBackendError,
    DistError,
    DistNetworkError,
    DistQueueEmptyError,
    DistStoreError,
)
from ._groups import (
    Backend,
    BackendConfig,
    GroupMember,
    ProcessGroup,
    default_pg_nccl_timeout,
    default_pg_timeout,
    destroy_process_group,
    get_backend,
    get_backend_config,
    get_default_backend_for_device,
    get_global_rank,
    get_group_rank,
    get_node_local_rank,
    get_pg_count,
    get_process_group_ranks,
    get_rank,
    get_world_size,
    group,
    init_process_group,
    is_initialized,
    new_group,
    new_subgroups,
    new_subgroups_by_enumeration,
    split_group,
    uninitialized,
)
from ._groups import get_default_group as _get_default_group
from ._groups import get_group_size as _get_group_size
from ._messages import P2POp, batch_isend_irecv, irecv, isend, recv, send
from ._objects import (
    all_gather_object,
    broadcast_object_list,
    gather_object,
    recv_object_list,
    scatter_object_list,
    send_object_list,
)
from ._reduce_op import RedOpType, ReduceOp
from ._spreading import (
    all_gather,
    all_gather_into_tensor,
    all_to_all,
    all_to_all_single,
    broadcast,
    gather,
    scatter,
)
from ._store import FileStore, HashStore, PrefixStore, Store, TCPStore
from ._work import Work

reduce_op = ReduceOp
_all_gather_base = all_gather_single = all_gather_into_tensor
_reduce_scatter_base = reduce_scatter_single = reduce_scatter_tensor
GroupName = str
QueueEmptyError = DistQueueEmptyError

GROUPS = "the functions of torch.distributed, with group="
ProcessGroupGloo = absent_class("torch.distributed.ProcessGroupGloo", GROUPS)
shrink_group = absent_function("torch.distributed.shrink_group", "new_group of those that are left")


def is_available() -> bool:
    """Whether the package is there; several processes need the extra `mpi`."""
    return True


def is_mpi_available() -> bool:
    """Whether mpi4py is installed."""
    return importlib.util.find_spec("mpi4py") is not None


def is_gloo_available() -> bool:
    """Programs that ask for gloo get MPI."""
    return True


def is_nccl_available() -> bool:
    """Whether CuPy brings NCCL and finds a GPU."""
    from ..cuda import runtime

    if not runtime.look():
        return False
    from ._nccl import find

    return find() is not None


def is_ucc_available() -> bool:
    return False


def is_xccl_available() -> bool:
    return False


def is_backend_available(backend: str) -> bool:
    """Whether a backend of this name can be asked for."""
    answers = {"gloo": is_gloo_available, "mpi": is_mpi_available, "nccl": is_nccl_available}
    found = answers.get(backend.lower())
    return found is not None and found()


def is_torchelastic_launched() -> bool:
    """Whether torchrun started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


class DebugLevel(enum.Enum):
    """How much is checked; here always everything."""

    OFF = 0
    INFO = 1
    DETAIL = 2


def get_debug_level() -> DebugLevel:
    """The level that TORCH_DISTRIBUTED_DEBUG names; the checks are on in any case."""
    return DebugLevel[os.environ.get("TORCH_DISTRIBUTED_DEBUG", "OFF").upper()]


def set_debug_level(level: DebugLevel) -> None:
    os.environ["TORCH_DISTRIBUTED_DEBUG"] = level.name


def set_debug_level_from_env() -> None:
    get_debug_level()


def supports_complex(reduceOp: RedOpType) -> bool:
    """Whether complex tensors can be combined so."""
    return reduceOp in (RedOpType.SUM, RedOpType.AVG)


def _rank_not_in_group(given: Any) -> bool:
    return given is not None and given == GroupMember.NON_GROUP_MEMBER


HELPERS = (
    "Any GROUPS absent_class absent_function annotations enum importlib os uninitialized".split()
)
__all__ = [name for name in dir() if not name.startswith("_") and name not in (*HELPERS, "HELPERS")]
