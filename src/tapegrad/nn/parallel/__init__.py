"""Wrappers that spread a module over devices or processes."""

from __future__ import annotations

from . import comm, scatter_gather
from .data_parallel import DataParallel, data_parallel
from .distributed import DistributedDataParallel
from .distributed import DistributedDataParallel as DistributedDataParallelCPU
from .scatter_gather import gather, parallel_apply, replicate, scatter

__all__ = [
    "DataParallel",
    "DistributedDataParallel",
    "DistributedDataParallelCPU",
    "data_parallel",
    "gather",
    "parallel_apply",
    "replicate",
    "scatter",
]
