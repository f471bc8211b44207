"""DLPack: tensors of other libraries without a copy, by protocol or by the older capsules."""

from __future__ import annotations

import ctypes
import enum
from typing import Any

import tapegrad as tg

from .._tensor.conversion import dlpack

__all__ = ["DLDeviceType", "from_dlpack", "to_dlpack"]


class DLDeviceType(enum.IntEnum):
    """What DLPack calls the kinds of devices."""

    kDLCPU = 1
    kDLCUDA = 2
    kDLCUDAHost = 3
    kDLOpenCL = 4
    kDLVulkan = 7
    kDLMetal = 8
    kDLVPI = 9
    kDLROCM = 10
    kDLROCMHost = 11
    kDLExtDev = 12
    kDLCUDAManaged = 13
    kDLOneAPI = 14
    kDLWebGPU = 15
    kDLHexagon = 16
    kDLMAIA = 17


# Where a capsule's memory says which device it is on: the pointer to the data comes first, and in
# the newer layout a version, two pointers and flags before that.
DEVICE_AT = {b"dltensor": 8, b"dltensor_versioned": 40}


class Capsule:
    """A capsule, as an object with the protocol."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        api = ctypes.pythonapi
        api.PyCapsule_GetName.restype = ctypes.c_char_p
        api.PyCapsule_GetPointer.restype = ctypes.c_void_p
        name = api.PyCapsule_GetName(ctypes.py_object(self.capsule))
        place = api.PyCapsule_GetPointer(ctypes.py_object(self.capsule), ctypes.c_char_p(name))
        kind, index = (ctypes.c_int32 * 2).from_address(place + DEVICE_AT[name])
        return kind, index


def is_fresh(value: Any) -> bool:
    """Whether a value is a capsule that nobody has used yet."""
    check = ctypes.pythonapi.PyCapsule_IsValid
    return any(check(ctypes.py_object(value), ctypes.c_char_p(name)) for name in DEVICE_AT)


def to_dlpack(tensor: Any) -> Any:
    """A capsule that another library can make an array of, once."""
    return dlpack(tensor)


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Any:
    """A tensor that shares memory with another library's, or with what a capsule holds."""
    return tg.from_dlpack(ext_tensor, device=device, copy=copy)
