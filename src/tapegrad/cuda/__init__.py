"""torch.cuda: GPUs by way of CuPy.

Without CuPy or a GPU questions are answered, and everything else says how to get one. CuPy is
imported when a GPU is asked for, not before.
"""

from __future__ import annotations

import importlib
import sys
from types import SimpleNamespace
from typing import Any

from ..core import devices
from ..ops.creation.arguments import no_cuda
from ..ops.creation.legacy_constructors import CUDA_TYPES
from . import memory, random, runtime, streams
from .memory import (
    OutOfMemoryError,
    empty_cache,
    get_allocator_backend,
    max_memory_allocated,
    max_memory_cached,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_cached,
    memory_reserved,
    memory_stats,
    memory_stats_as_nested_dict,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_max_memory_cached,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
)
from .random import (
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from .streams import (
    Event,
    ExternalStream,
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    get_stream_from_external,
    set_stream,
    stream,
)

__all__ = [
    *CUDA_TYPES,
    "CudaError",
    "DeferredCudaCallError",
    "Event",
    "ExternalStream",
    "OutOfMemoryError",
    "Stream",
    "StreamContext",
    "can_device_access_peer",
    "current_blas_handle",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "empty_cache",
    "get_allocator_backend",
    "get_arch_list",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_gencode_flags",
    "get_rng_state",
    "get_rng_state_all",
    "get_stream_from_external",
    "init",
    "initial_seed",
    "ipc_collect",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "is_tf32_supported",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "random",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "stream",
    "streams",
    "synchronize",
]
globals().update(CUDA_TYPES)

GRAPHS = "CUDAGraph graph graph_pool_handle make_graphed_callables make_graphed_step".split()


def __getattr__(name: str) -> Any:
    if name in ("amp", "graphs", "nvtx"):
        return importlib.import_module(f".{name}", __name__)
    if name in GRAPHS:
        found = getattr(importlib.import_module(".graphs", __name__), name, None)
        if found is not None:
            return found
    if name == "default_generators":
        return random.default_generators()
    raise AttributeError(f"module 'torch.cuda' has no attribute '{name}'")


has_half = True
has_magma = False


class CudaError(RuntimeError):
    """An error of the CUDA runtime."""


class DeferredCudaCallError(Exception):
    """An error in a call that waited for CUDA to start."""


# ---------------------------------------------------------------------- questions


def is_available() -> bool:
    """Whether there is a GPU to use."""
    return runtime.look() > 0


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether the current GPU has bfloat16; emulated on those that have not."""
    if not is_available():
        return False
    return including_emulation or get_device_capability()[0] >= 8


def is_tf32_supported() -> bool:
    """Whether the current GPU multiplies float32 in TF32 when asked to."""
    return is_available() and get_device_capability()[0] >= 8


def is_initialized() -> bool:
    """Whether a GPU is in use."""
    return devices.DEVICE.xp is not None


def is_current_stream_capturing() -> bool:
    """Whether the work that is started now is recorded into a graph."""
    graphs = sys.modules.get(f"{__name__}.graphs")
    return graphs is not None and bool(graphs.capturing())


def device_count() -> int:
    """How many GPUs there are."""
    return runtime.look()


def init() -> None:
    """Start using the GPU; otherwise the first tensor there does it."""
    runtime.start()


def get_device_properties(device: Any = None) -> Any:
    """Properties of a GPU: name, memory, number of processors, capability."""
    place = runtime.index_of(device)
    facts = runtime.start().cuda.runtime.getDeviceProperties(place)
    name = facts["name"]
    return DeviceProperties(
        name=name.decode() if isinstance(name, bytes) else name,
        major=facts["major"],
        minor=facts["minor"],
        total_memory=facts["totalGlobalMem"],
        multi_processor_count=facts["multiProcessorCount"],
        is_integrated=facts.get("integrated", 0),
        is_multi_gpu_board=facts.get("isMultiGpuBoard", 0),
        warp_size=facts.get("warpSize", 32),
        max_threads_per_multi_processor=facts.get("maxThreadsPerMultiProcessor", 0),
        shared_memory_per_block=facts.get("sharedMemPerBlock", 0),
        shared_memory_per_multiprocessor=facts.get("sharedMemPerMultiprocessor", 0),
        regs_per_multiprocessor=facts.get("regsPerMultiprocessor", 0),
        L2_cache_size=facts.get("l2CacheSize", 0),
    )


class DeviceProperties(SimpleNamespace):
    """The facts about a GPU."""

    def __repr__(self) -> str:
        return (
            f"_CudaDeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}, "
            f"total_memory={self.total_memory // (1 << 20)}MB, "
            f"multi_processor_count={self.multi_processor_count})"
        )


def get_device_name(device: Any = None) -> str:
    """The name of a GPU."""
    return str(get_device_properties(device).name)


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """The version of CUDA's instructions that a GPU has: (9, 0) for Hopper."""
    facts = get_device_properties(device)
    return int(facts.major), int(facts.minor)


def get_arch_list() -> list[str]:
    """The architectures that kernels are built for: CuPy builds them for the GPU that is there."""
    if not is_available():
        return []
    return ["sm_{}{}".format(*get_device_capability(i)) for i in range(device_count())]


def get_gencode_flags() -> str:
    """The architectures as flags of NVIDIA's compiler."""
    kinds = [arch.removeprefix("sm_") for arch in get_arch_list()]
    return " ".join([f"-gencode compute=compute_{k},code=sm_{k}" for k in dict.fromkeys(kinds)])


def can_device_access_peer(device: Any, peer_device: Any) -> bool:
    """Whether one GPU can read the memory of another."""
    here, there = runtime.index_of(device), runtime.index_of(peer_device)
    return bool(runtime.start().cuda.runtime.deviceCanAccessPeer(here, there))


def current_blas_handle() -> int:
    """The handle of cuBLAS on the current GPU."""
    return int(runtime.start().cuda.get_cublas_handle())


def ipc_collect() -> None:
    """Give back memory that other processes have let go: nothing is shared with them."""
    runtime.start()


# ---------------------------------------------------------------------- the current GPU


def current_device() -> int:
    """The number of the GPU that `cuda` without a number means."""
    return runtime.index_of(None)


def set_device(device: Any) -> None:
    """Make a GPU the one that `cuda` without a number means."""
    xp = runtime.start()
    if isinstance(device, int) and device < 0:
        return
    xp.cuda.Device(runtime.index_of(device)).use()


def synchronize(device: Any = None) -> None:
    """Wait until a GPU has done all its work."""
    xp = runtime.start()
    xp.cuda.Device(runtime.index_of(device)).synchronize()
    devices.DEVICE.waited()


class device:
    """`with cuda.device(0):` makes a GPU the current one; None or a negative number, none."""

    def __init__(self, device: Any) -> None:
        self.idx = device
        self.inner: Any = None

    def __enter__(self) -> None:
        if not runtime.look():
            raise no_cuda("PyTorch was compiled without CUDA support", RuntimeError)
        if self.idx is None or (isinstance(self.idx, int) and self.idx < 0):
            return
        place = runtime.index_of(self.idx)
        self.inner = runtime.start().cuda.Device(place)
        self.inner.__enter__()

    def __exit__(self, *error: object) -> None:
        if self.inner is not None:
            self.inner.__exit__(*error)
            self.inner = None


class device_of(device):
    """`with cuda.device_of(tensor):`, which does nothing for a tensor on the CPU."""

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.get_device() if obj.is_cuda else -1)

    def __enter__(self) -> None:
        if self.idx >= 0:
            super().__enter__()
