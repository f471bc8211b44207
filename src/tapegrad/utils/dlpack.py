"""DLPack: tensors of other libraries without a copy, by protocol or by the older capsules."""

from __future__ import annotations

import ctypes
import enum
from typing import Any

import numpy as np

import tapegrad as tg

from ..api.tensor.conversion import dlpack
from ..ops.block.checks import only_tensors

__all__ = ["DLDeviceType", "from_dlpack", "to_dlpack"]


class DLDeviceType(enum.IntEnum):
    """DLPack's numbers for the kinds of devices.

    >>> torch.utils.dlpack.DLDeviceType.kDLCPU.value
    1
    """

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
# After the device and the number of dimensions: a code, bits and lanes.
DTYPE_AFTER_DEVICE = 12
UNSIGNED = 1
# What NumPy does not know travels as unsigned integers with another code.
CODES = {
    "bfloat16": 4,
    "float8_e4m3fn": 10,
    "float8_e4m3fnuz": 11,
    "float8_e5m2": 12,
    "float8_e5m2fnuz": 13,
    "float8_e8m0fnu": 14,
}


class Capsule:
    """A capsule, as an object with the protocol."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self.capsule

    @property
    def name(self) -> bytes:
        read = ctypes.pythonapi.PyCapsule_GetName
        read.restype = ctypes.c_char_p
        return read(ctypes.py_object(self.capsule))  # type: ignore[no-any-return]

    def device_address(self) -> int:
        read = ctypes.pythonapi.PyCapsule_GetPointer
        read.restype = ctypes.c_void_p
        start = read(ctypes.py_object(self.capsule), ctypes.c_char_p(self.name))
        return start + DEVICE_AT[self.name]  # type: ignore[no-any-return]

    def __dlpack_device__(self) -> tuple[int, int]:
        kind, index = (ctypes.c_int32 * 2).from_address(self.device_address())
        return kind, index

    @property
    def code(self) -> int:
        """The code of the dtype."""
        return self.code_cell().value

    def set_code(self, code: int) -> None:
        self.code_cell().value = code

    def code_cell(self) -> ctypes.c_uint8:
        return ctypes.c_uint8.from_address(self.device_address() + DTYPE_AFTER_DEVICE)


def is_fresh(value: Any) -> bool:
    """Whether a value is a capsule that nobody has used yet."""
    check = ctypes.pythonapi.PyCapsule_IsValid
    return any(check(ctypes.py_object(value), ctypes.c_char_p(name)) for name in DEVICE_AT)


def device_named(kind: int, index: int) -> str:
    """A device of the protocol by PyTorch's name."""
    if kind == DLDeviceType.kDLCPU:
        return "cpu"
    if kind == DLDeviceType.kDLCUDA:
        return f"cuda:{index}"
    raise ValueError(f"Unsupported device_type: {kind}")


def exported(array: Any, copy: bool | None, options: dict[str, Any]) -> Any:
    """A capsule of an array."""
    name = tg.dtypes.of(array.dtype).name
    if copy:
        array = array.copy()
    if name not in CODES:
        return array.__dlpack__(**options)
    capsule = array.view(f"u{array.itemsize}").__dlpack__(**options)
    Capsule(capsule).set_code(CODES[name])
    return capsule


def imported(source: Any) -> Any:
    """The array of another library's tensor on the host, by the protocol as new as it knows it."""
    if isinstance(source, Capsule):
        return array_of(source)
    try:
        capsule = Capsule(source.__dlpack__(max_version=(1, 0)))
    except TypeError:  # a library from before the protocol had versions
        capsule = Capsule(source.__dlpack__())
    return array_of(capsule)


def array_of(capsule: Capsule) -> Any:
    """The array in a capsule, with a dtype that NumPy may not know."""
    named = [name for name, code in CODES.items() if code == capsule.code and hasattr(tg, name)]
    if named:
        capsule.set_code(UNSIGNED)
    says_read_only = capsule.name == b"dltensor_versioned"
    array = np.from_dlpack(capsule)
    if not says_read_only:
        array = np.asarray(Writable(array))
    return array.view(getattr(tg, named[0]).np) if named else array


class Writable:
    """Memory by the older protocol, which cannot say "read-only": NumPy does not trust it,
    PyTorch writes."""

    def __init__(self, array: Any) -> None:
        self.owner = array
        known = array.__array_interface__
        self.__array_interface__ = {**known, "data": (known["data"][0], False)}


def to_dlpack(tensor: Any) -> Any:
    """A capsule that another library can make an array of, once.

    >>> from_dlpack(torch.to_dlpack(tensor([1.0, 2.0])))
    tensor([1., 2.])
    """
    only_tensors("_to_dlpack", data=tensor)
    return dlpack(tensor)


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Any:
    """A tensor that shares memory with another library's, or with what a capsule holds.

    >>> torch.utils.dlpack.from_dlpack(np.ones(2, np.float32))
    tensor([1., 1.])
    """
    return tg.from_dlpack(ext_tensor, device=device, copy=copy)
