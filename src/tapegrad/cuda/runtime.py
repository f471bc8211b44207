"""Finding CuPy and a GPU, and starting to use them.

Nothing is imported before somebody asks for a GPU; `is_available` asks quietly.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

from ..core import devices
from ..core.base import STATE, TensorBase
from ..core.late_bound import GPU
from ..core.locks import new_lock
from ..core.op import REGISTRY
from ..core.transforms.batched import physical_array
from ..device import CPU, _make
from ..device import device as device_type
from ..ops.creation.arguments import no_cuda


class Found:
    """The module of CuPy, once it was looked for, and the number of GPUs."""

    asked = False
    module: Any = None
    count = 0
    lock = new_lock()


def look() -> int:
    """How many GPUs can be used; looks once."""
    if not Found.asked:
        with Found.lock:
            try:
                module = importlib.import_module("cupy")
                Found.count = int(module.cuda.runtime.getDeviceCount())
                Found.module = module if Found.count else None
            except Exception:  # no CuPy, no driver, no GPU: all the same to the user
                Found.count = 0
            Found.asked = True
    return Found.count


def start() -> Any:
    """CuPy, ready for use; PyTorch's error where there is no GPU."""
    if devices.DEVICE.xp is None:
        if not look():
            raise no_cuda()
        use(Found.module)
    return devices.DEVICE.xp


def start_if_any() -> None:
    """Use the GPU if there is one: for defaults, which may name a device that is not there."""
    if devices.DEVICE.xp is None and look():
        use(Found.module)


def use(module: Any) -> None:
    """Use a module with CuPy's interface for tensors on CUDA devices."""
    from ..kernels.cuda.backend import backend_for
    from ..kernels.cuda.backward import DevicePass
    from .allocator import install

    Found.asked = True
    Found.module = module
    Found.count = int(module.cuda.runtime.getDeviceCount())
    STATE.several = Found.count > 1
    devices.use(module, backend_for(module))
    GPU.backward_pass = DevicePass
    install(module)


def forget() -> None:
    """Back to the CPU alone, as before the first use of a GPU: for tests."""
    devices.DEVICE.xp = devices.DEVICE.backend = devices.DEVICE.space = None
    devices.DEVICE.ranges = None
    STATE.device_type = GPU.memory = GPU.backward_pass = GPU.watch_range = None
    STATE.several = False


def index_of(device: Any) -> int:
    """The number of a GPU: of a `cuda` device, a number, or the current one."""
    xp = start()
    if isinstance(device, int) and not isinstance(device, bool):
        index: int | None = device
    else:
        found = device_type("cuda") if device is None else device_type(device)
        if found.type != "cuda":
            raise ValueError(f"Expected a cuda device, but got: {found}")
        index = found.index
    if index is None or index < 0:
        return int(xp.cuda.runtime.getDevice())
    if index >= Found.count:
        raise RuntimeError(
            "CUDA error: invalid device ordinal\n"
            f"  there are {Found.count} GPUs here, numbered from 0"
        )
    return index


def place_of(t: Any) -> int:
    """The number of the GPU that a tensor is on; -1 for the CPU."""
    array = physical_array(t)
    return int(array.device.id) if type(array) is STATE.device_type else -1


def device_of(t: Any) -> device_type:
    place = place_of(t)
    return CPU if place < 0 else device_at(place)


@functools.lru_cache
def device_at(place: int) -> device_type:
    return _make("cuda", place)


def move(t: Any, place: int) -> Any:
    """A tensor on another device; itself if it is there already."""
    source = place_of(t)
    if source == place:
        return t
    from ..core.dispatch import apply

    if "to_device" not in REGISTRY:
        importlib.import_module("tapegrad.ops.copying.placement")
    return apply(REGISTRY["to_device"], (t,), (place, source))


def target(device: Any) -> int | None:
    """The GPU that a new tensor goes to; None for the CPU. Looks at `with` blocks and defaults."""
    from ..core.settings import Default
    from ..device import entered

    if device is None:
        device = entered() or Default.device
        if device is None:
            return None
    elif isinstance(device, TensorBase):
        return None
    if isinstance(device, str) and not device.startswith("cuda"):
        return None
    if isinstance(device, device_type) and device.type != "cuda":
        return None
    if isinstance(device, bool) or not isinstance(device, (str, int, device_type)):
        return None
    if isinstance(device, int) and not look():
        device_type(device)  # refuses a bare index as PyTorch does
    return index_of(device)
