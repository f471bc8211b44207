"""Python's multiprocessing, with `spawn`; queues and pipes carry tensors in shared memory."""

from __future__ import annotations

import multiprocessing
import sys
from multiprocessing import *  # noqa: F403

from .reductions import init_reductions
from .spawn import (
    ProcessContext,
    ProcessExitedException,
    ProcessRaisedException,
    SpawnContext,
    spawn,
    start_processes,
)

__all__ = [
    *multiprocessing.__all__,
    "ProcessContext",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "set_sharing_strategy",
    "spawn",
    "start_processes",
]

_strategies = (
    {"file_system"} if sys.platform in ("darwin", "win32") else {"file_descriptor", "file_system"}
)
_strategy = sorted(_strategies)[0]


def get_all_sharing_strategies() -> set[str]:
    """The ways in which PyTorch could share memory."""
    return set(_strategies)


def get_sharing_strategy() -> str:
    """The way that was chosen; memory is shared by descriptors of files, whatever it is."""
    return _strategy


def set_sharing_strategy(new_strategy: str) -> None:
    """Choose a way."""
    global _strategy
    if new_strategy not in _strategies:
        raise AssertionError(
            f"invalid sharing strategy '{new_strategy}', expected one of {_strategies}"
        )
    _strategy = new_strategy


init_reductions()
