"""Stacks and lists of matrix products on the GPU, straight from cuBLAS. (Single ones: cublaslt.py.)

CuPy's own products cost more time per call than small matrices take, and refuse to be captured into
a CUDA graph. These take any matrices whose rows or columns lie together, as transposes do.
"""

from __future__ import annotations

import ctypes
import re
import sys
from typing import Any

import numpy as np

from ..settings import Settings

# cudaDataType_t and cublasComputeType_t
KINDS = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 14}
# dtype.name is worked out every time that it is asked for.
NAMES: dict[Any, str] = {np.dtype(name): name for name in ("float32", "float64", "float16")}
COMPUTE_32F, COMPUTE_64F, COMPUTE_TF32 = 68, 70, 77
WORKSPACE = 32 << 20
KEEP, TURN = 0, 1  # cublasOperation_t
PLAIN_MATH, TF32_MATH = 0, 3


class Constants:
    """The factors that calls point at."""

    single: dict[float, Any] = {}
    double: dict[float, Any] = {}


class Library:
    """cuBLAS, with a handle per GPU."""

    def __init__(self, xp: Any) -> None:
        self.xp = xp
        know_brain()
        xp.cuda.device.get_cublas_handle()  # CuPy finds and loads the library
        self.lib = ctypes.CDLL(loaded("cublas"))
        pointer, number = ctypes.c_void_p, ctypes.c_int
        long = ctypes.c_longlong
        self.stacked = self.lib.cublasGemmStridedBatchedEx
        self.stacked.argtypes = [
            *[pointer, *[number] * 5, pointer],
            *[pointer, number, number, long, pointer, number, number, long],
            *[pointer, pointer, number, number, long, number, number, number],
        ]
        self.listed = self.lib.cublasGemmBatchedEx
        self.listed.argtypes = [
            *[pointer, *[number] * 5, pointer],
            *[pointer, number, number, pointer, number, number],
            *[pointer, pointer, number, number, number, number, number],
        ]
        self.handles: dict[int, Any] = {}
        self.streams: dict[int, int] = {}
        self.spaces: dict[int, Any] = {}
        self.places: dict[tuple[int, int], tuple[Any, Any]] = {}

    def handle(self) -> Any:
        """The handle of the current GPU, on the current stream."""
        xp = self.xp
        device = xp.cuda.runtime.getDevice()
        found = self.handles.get(device)
        if found is None:
            found = ctypes.c_void_p()
            checked(self.lib.cublasCreate_v2(ctypes.byref(found)))
            self.handles[device] = found
        stream = xp.cuda.get_current_stream().ptr
        if self.streams.get(device) != stream:
            checked(self.lib.cublasSetStream_v2(found, ctypes.c_void_p(stream)))
            # A workspace of our own: cuBLAS must not allocate while a graph is being captured.
            space = self.spaces.get(device)
            if space is None:
                space = self.spaces[device] = xp.cuda.Memory(WORKSPACE)
            checked(
                self.lib.cublasSetWorkspace_v2(
                    found, ctypes.c_void_p(space.ptr), ctypes.c_size_t(WORKSPACE)
                )
            )
            self.streams[device] = stream
        return found

    def place(self) -> tuple[Any, Any]:
        """Addresses of workspace and stream, for cuBLASLt."""
        xp = self.xp
        device = xp.cuda.runtime.getDevice()
        stream = xp.cuda.get_current_stream().ptr
        found = self.places.get((device, stream))
        if found is None:
            self.handle()
            workspace = ctypes.c_void_p(self.spaces[device].ptr)
            found = self.places[(device, stream)] = (workspace, ctypes.c_void_p(stream))
        return found

    def compute(self, name: str) -> int:
        if name == "float64":
            return COMPUTE_64F
        return COMPUTE_TF32 if name == "float32" and tf32_allowed() else COMPUTE_32F


def tf32_allowed() -> bool:
    """Whether products of float32 may be computed with fewer digits, as the user's switches say."""
    if Settings.matmul_precision != "highest":
        return True
    switches = sys.modules.get("tapegrad.backends.cuda")
    return switches is not None and bool(switches.matmul.allow_tf32)


def loaded(name: str) -> str:
    """The path of a library that this process has loaded."""
    with open("/proc/self/maps") as maps:
        for line in maps:
            path = line.rstrip().rpartition(" ")[2]
            if re.search(rf"lib{name}\.so", path):
                return path
    raise OSError(f"lib{name} is not loaded")


def checked(status: int) -> None:
    if status:
        raise RuntimeError(f"CUDA error: cuBLAS status {status}")


def laid_out(x: Any, item: int) -> tuple[Any, int, int]:
    """A matrix (or a stack of them) as cuBLAS sees it: array, turned?, leading dimension."""
    rows, columns = x.shape[-2:]
    down, right = x.strides[-2:]
    if (right == item or columns == 1) and (down >= columns * item or rows == 1):
        return x, KEEP, max(down // item, columns) if rows > 1 else max(columns, 1)
    if (down == item or rows == 1) and (right >= rows * item or columns == 1):
        return x, TURN, max(right // item, rows) if columns > 1 else max(rows, 1)
    return x.copy(), KEEP, max(columns, 1)


def factor(name: str, value: float) -> Any:
    table = Constants.double if name == "float64" else Constants.single
    found = table.get(value)
    if found is None:
        made: Any = ctypes.c_double(value) if name == "float64" else ctypes.c_float(value)
        found = table[value] = ctypes.pointer(made)
    return found


def stack_product(lib: Library, a: Any, b: Any, out: Any = None, alpha: float = 1.0) -> Any:
    """A stack of products; stacks may repeat one matrix (a stride of 0)."""
    size, m, k = a.shape
    n = b.shape[2]
    kind = NAMES[a.dtype]
    item = a.dtype.itemsize
    if out is None:
        out = lib.xp.ndarray((size, m, n), a.dtype)
    if not size or not m or not n:
        return out
    if not k:
        out.fill(0)
        return out
    a, turn_a, step_a = laid_out(a, item)
    b, turn_b, step_b = laid_out(b, item)
    code = KINDS[kind]
    status = lib.stacked(
        lib.handle(),
        *(turn_b, turn_a, n, m, k),
        factor(kind, alpha),
        *(b.data.ptr, code, step_b, b.strides[0] // item if size > 1 else 0),
        *(a.data.ptr, code, step_a, a.strides[0] // item if size > 1 else 0),
        factor(kind, 0.0),
        *(out.data.ptr, KINDS[NAMES[out.dtype]], n, m * n, size, lib.compute(kind), -1),
    )
    checked(status)
    return out


def listed_product(
    lib: Library,
    sizes: tuple[int, int, int],
    left: tuple[int, int, int],
    right: tuple[int, int, int],
    out: tuple[int, int],
    kind: str,
    out_kind: str,
    count: int,
    alpha: float = 1.0,
) -> None:
    """Products of matrices whose addresses stand in arrays on the GPU.

    `left` and `right` are (address of the list, turned?, leading dimension), `out` without the
    middle one; `sizes` are rows, inner and columns.
    """
    m, k, n = sizes
    code = KINDS[kind]
    status = lib.listed(
        lib.handle(),
        *(right[1], left[1], n, m, k),
        factor(kind, alpha),
        *(right[0], code, right[2], left[0], code, left[2]),
        factor(kind, 0.0),
        *(out[0], KINDS[out_kind], out[1], count, lib.compute(kind), -1),
    )
    checked(status)


def know_brain() -> None:
    """bfloat16 is a dtype of ml_dtypes, if that is there."""
    from ..dtypes import bfloat16

    if bfloat16.np.name == "bfloat16":
        NAMES[bfloat16.np] = "bfloat16"
