"""torch.cuda of a build without CUDA: questions are answered, everything else says how to get a "
"GPU."""

from __future__ import annotations

import importlib
from collections import OrderedDict
from typing import Any

from ..defaults import INSTALL, no_cuda
from ..legacy import CUDA_TYPES

globals().update(CUDA_TYPES)


def __getattr__(name: str) -> Any:
    if name == "amp":
        return importlib.import_module(".amp", __name__)
    raise AttributeError(f"module 'torch.cuda' has no attribute '{name}'")


default_generators: tuple[Any, ...] = ()
has_half = True
has_magma = False


class OutOfMemoryError(RuntimeError):
    """The GPU has no memory left."""

    __module__ = "torch"


class CudaError(RuntimeError):
    """An error of the CUDA runtime."""


class DeferredCudaCallError(Exception):
    """An error in a call that waited for CUDA to start."""


def is_available() -> bool:
    """Whether there is a GPU to use."""
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    return False


def is_initialized() -> bool:
    return False


def is_current_stream_capturing() -> bool:
    return False


def device_count() -> int:
    """How many GPUs there are."""
    return 0


def init() -> None:
    raise no_cuda()


def current_device() -> int:
    raise no_cuda()


def set_device(device: Any) -> None:
    raise no_cuda()


def synchronize(device: Any = None) -> None:
    raise no_cuda()


def get_device_name(device: Any = None) -> str:
    raise no_cuda()


def get_device_capability(device: Any = None) -> tuple[int, int]:
    raise no_cuda()


def get_device_properties(device: Any = None) -> Any:
    raise no_cuda()


def can_device_access_peer(device: Any, peer_device: Any) -> bool:
    raise no_cuda()


def current_stream(device: Any = None) -> Any:
    raise no_cuda()


def default_stream(device: Any = None) -> Any:
    raise no_cuda()


def current_blas_handle() -> Any:
    raise no_cuda()


def mem_get_info(device: Any = None) -> tuple[int, int]:
    raise no_cuda()


def ipc_collect() -> None:
    raise no_cuda()


def get_arch_list() -> list[str]:
    return []


def get_gencode_flags() -> str:
    return ""


# The random state: seeding waits for CUDA to start, which it never does here.


def manual_seed(seed: int) -> None:
    """Seed the current GPU's generator; nothing happens without one."""


def manual_seed_all(seed: int) -> None:
    """Seed every GPU's generator; nothing happens without one."""


def seed() -> None:
    """Seed the current GPU's generator anew; nothing happens without one."""


def seed_all() -> None:
    """Seed every GPU's generator anew; nothing happens without one."""


def initial_seed() -> int:
    raise no_cuda()


def get_rng_state(device: Any = "cuda") -> Any:
    raise no_cuda()


def get_rng_state_all() -> list[Any]:
    return []


def set_rng_state(new_state: Any, device: Any = "cuda") -> None:
    """Set the GPU's random state; nothing happens without one."""


def set_rng_state_all(new_states: Any) -> None:
    """Set every GPU's random state; nothing happens without one."""


# Memory: nothing is ever allocated.


def empty_cache() -> None:
    """Give cached memory back; there is none."""


def memory_allocated(device: Any = None) -> int:
    return 0


def max_memory_allocated(device: Any = None) -> int:
    return 0


def memory_reserved(device: Any = None) -> int:
    return 0


def max_memory_reserved(device: Any = None) -> int:
    return 0


memory_cached = memory_reserved
max_memory_cached = max_memory_reserved


def memory_stats(device: Any = None) -> OrderedDict[str, Any]:
    return OrderedDict()


def reset_peak_memory_stats(device: Any = None) -> None:
    raise no_cuda()


reset_max_memory_allocated = reset_max_memory_cached = reset_accumulated_memory_stats = (
    reset_peak_memory_stats
)


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    raise no_cuda()


class device:
    """`with cuda.device(0):` makes a GPU the current one."""

    def __init__(self, device: Any) -> None:
        self.idx = device

    def __enter__(self) -> None:
        raise RuntimeError(f"PyTorch was compiled without CUDA support\n  {INSTALL}")

    def __exit__(self, *error: object) -> None:
        return None


class device_of(device):
    """`with cuda.device_of(tensor):`, which does nothing for a tensor on the CPU."""

    def __init__(self, obj: Any) -> None:
        super().__init__(-1)

    def __enter__(self) -> None:
        return None


class StreamContext:
    """`with cuda.stream(None):` does nothing."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            raise no_cuda()

    def __exit__(self, *error: object) -> None:
        return None


def stream(stream: Any) -> StreamContext:
    return StreamContext(stream)


class Stream:
    """A queue of work on a GPU."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"torch.cuda.Stream requires CUDA support\n  {INSTALL}")


class Event:
    """A marker in a stream."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"Tried to instantiate dummy base class Event\n  {INSTALL}")


class CUDAGraph:
    """A recorded sequence of GPU work."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"Tried to instantiate dummy base class CUDAGraph\n  {INSTALL}")
