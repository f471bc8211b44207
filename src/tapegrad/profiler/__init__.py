"""The profiler with a schedule: which iterations are looked at, and where the result goes."""

from __future__ import annotations

from ..autograd.profiler import record_function
from .profiler import (
    ProfilerAction,
    ProfilerActivity,
    profile,
    schedule,
    supported_activities,
    tensorboard_trace_handler,
)

__all__ = [
    "ProfilerAction",
    "ProfilerActivity",
    "kineto_available",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]


def kineto_available() -> bool:
    """Whether the library that PyTorch records GPUs with is there: it is not.

    >>> isinstance(torch.profiler.kineto_available(), bool)
    True
    """
    return False
