"""Where storages are put when they are loaded: tags such as "cpu", and `map_location`."""

from __future__ import annotations

import bisect
from collections.abc import Callable
from operator import itemgetter
from typing import Any

import tapegrad as tg

from ..api.tensor.conversion import UntypedStorage
from ..device import device as device_type
from .storage_bytes import untyped

Tagger = Callable[[Any], str | None]
Deserializer = Callable[[Any, str], Any]
MAP_LOCATION = Callable[[Any, str], Any] | device_type | str | dict[str, str] | None

_package_registry: list[tuple[int, Tagger, Deserializer]] = []


def register_package(priority: int, tagger: Tagger, deserializer: Deserializer) -> None:
    """Add a kind of place. `tagger(storage)` names it, `deserializer(storage, tag)` goes there.

    Both return None for storages and tags that are not theirs; lower priorities are asked first.

    >>> def load_here(storage, location):
    ...     return storage if location == "here" else None
    >>> torch.serialization.register_package(30, lambda storage: None, load_here)
    >>> storage = zeros(2).untyped_storage()
    >>> torch.serialization.default_restore_location(storage, "here") is storage
    True
    """
    bisect.insort(_package_registry, (priority, tagger, deserializer), key=itemgetter(0))


def location_tag(storage: Any) -> str:
    """The name of the place where a storage is.

    >>> from tapegrad.serialization import location_tag
    >>> location_tag(zeros(2).untyped_storage())
    'cpu'
    """
    for _, tagger, _ in _package_registry:
        location = tagger(storage)
        if location:
            return location
    raise RuntimeError(f"don't know how to determine data location of {storage_name(storage)}")


def default_restore_location(storage: Any, location: str) -> Any:
    """The storage, moved to where the tag says.

    >>> storage = zeros(2).untyped_storage()
    >>> torch.serialization.default_restore_location(storage, "cpu") is storage
    True
    """
    if not isinstance(location, str):
        raise TypeError(f"expected string or bytes-like object, got '{type(location).__name__}'")
    for _, _, deserializer in _package_registry:
        found = deserializer(storage, location)
        if found is not None:
            return found
    raise RuntimeError(
        f"don't know how to restore data location of {storage_name(storage)} (tagged with "
        f"{location})"
    )


def storage_name(storage: Any) -> str:
    return f"torch.storage.{type(storage).__name__}"


def cpu_tag(storage: Any) -> str | None:
    return "cpu" if storage.device.type == "cpu" else None


def to_cpu(storage: Any, location: str) -> Any:
    return storage if location == "cpu" else None


ADVICE = (
    "If you are running on a CPU-only machine, please use torch.load with "
    "map_location=torch.device('cpu') to map your storages to the CPU."
)


def validate_cuda_device(location: str) -> int:
    """The index of a CUDA device that has to be there.

    >>> try:
    ...     torch.serialization.validate_cuda_device("cuda:99")
    ... except RuntimeError as error:
    ...     print(str(error)[:46])
    Attempting to deserialize object on a CUDA dev
    """
    index = device_type(location).index or 0
    if not tg.cuda.is_available():
        raise RuntimeError(
            "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is "
            f"False. {ADVICE}"
        )
    count = tg.cuda.device_count()
    if index >= count:
        raise RuntimeError(
            f"Attempting to deserialize object on CUDA device {index} but "
            f"torch.cuda.device_count() is {count}. Please use torch.load with map_location to "
            "map your storages to an existing device."
        )
    return index


def to_cuda(storage: Any, location: str) -> Any:
    if location.partition(":")[0] != "cuda":
        return None
    index = validate_cuda_device(location)
    return storage.cuda(index)


def to_nowhere(storage: Any, location: str) -> Any:
    """Places that PyTorch knows and tapegrad never has."""
    kind = location.partition(":")[0]
    if kind == "xpu":
        raise RuntimeError(
            "Attempting to deserialize object on a XPU device but torch.xpu.is_available() is "
            f"False. {ADVICE}"
        )
    if kind in ("hpu", "mtia", "privateuseone"):
        raise RuntimeError(f"The {kind.upper()} device module is not registered. {ADVICE}")
    if kind == "mps":
        raise RuntimeError(
            f"torch.UntypedStorage(): Storage device not recognized: {kind}\n"
            f"  tapegrad has no tensors on the device '{kind}'. {ADVICE}"
        )
    return None


def to_meta(storage: Any, location: str) -> Any:
    if location != "meta":
        return None
    from ..core import meta

    return storage.moved(meta.same_layout(storage.owner))


def cuda_tag(storage: Any) -> str | None:
    return str(storage.device) if storage.device.type == "cuda" else None


def no_tag(storage: Any) -> None:
    return None


register_package(10, cpu_tag, to_cpu)
register_package(20, cuda_tag, to_cuda)
register_package(22, no_tag, to_meta)
register_package(30, no_tag, to_nowhere)


def restorer(map_location: Any) -> Callable[[Any, str], Any]:
    """A function that places a storage with its tag, as `map_location` asks."""
    if map_location is None:
        return default_restore_location
    if isinstance(map_location, dict):
        return lambda storage, location: default_restore_location(
            storage, map_location.get(location, location)
        )
    if isinstance(map_location, (str, bytes, device_type)):
        place = map_location.decode() if isinstance(map_location, bytes) else str(map_location)
        return lambda storage, location: default_restore_location(storage, place)

    def asking(storage: Any, location: str) -> Any:
        found = map_location(storage, location)
        if found is None:
            return default_restore_location(storage, location)
        if not isinstance(found, UntypedStorage):
            raise TypeError(
                f"map_location has to return a storage or None, but got {type(found).__name__}"
            )
        return untyped(found.owner)

    return asking
