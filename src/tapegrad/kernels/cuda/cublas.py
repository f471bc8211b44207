"""Stacks of matrix products on the GPU, straight from cuBLAS. (Single ones: cublaslt.py.)

CuPy's own products cost more time per call than small matrices take, and refuse to be captured into
a CUDA graph. These take any matrices with contiguous rows or columns, such as transposes.
"""

from __future__ import annotations

import ctypes
import re
from threading import get_ident
from typing import Any

import numpy as np

from ...core.devices import DEVICE
from ...core.settings import Settings

# cudaDataType_t and cublasComputeType_t
KINDS = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 14}
# dtype.name is worked out every time that it is asked for.
NAMES: dict[Any, str] = {np.dtype(name): name for name in ("float32", "float64", "float16")}
F32 = np.dtype(np.float32)
COMPUTE_32F, COMPUTE_64F, COMPUTE_TF32 = 68, 70, 77
WORKSPACE = 32 << 20
KEEP, TURN, COPY = 0, 1, -1  # cublasOperation_t, and a value for matrices that must be copied
MOST_STACKS = 4096  # plans that are kept
DEFAULT_STREAMS = (0, 1, 2)  # none, cudaStreamLegacy, cudaStreamPerThread


class Constants:
    """The factors that calls point at."""

    single: dict[float, Any] = {}
    double: dict[float, Any] = {}


class Library:
    """cuBLAS, with a handle per GPU and thread."""

    def __init__(self, xp: Any) -> None:
        self.xp = xp
        learn_bfloat16()
        xp.cuda.device.get_cublas_handle()  # CuPy finds and loads the library
        self.lib = ctypes.CDLL(loaded("cublas"))
        # No argtypes: arguments are converted once, when the plan is made.
        self.stacked = self.lib.cublasGemmStridedBatchedEx
        self.stacks: dict[tuple[Any, ...], Stack] = {}
        self.handles: dict[tuple[int, int], Any] = {}
        self.streams: dict[tuple[int, int], int] = {}
        self.spaces: dict[tuple[int, int], Any] = {}
        self.places: dict[tuple[int, int], tuple[Any, Any]] = {}

    def handle(self) -> Any:
        """This thread's handle of the current GPU, on the current stream."""
        xp = self.xp
        device = xp.cuda.runtime.getDevice()
        key = (device, get_ident())
        found = self.handles.get(key)
        if found is None:
            found = ctypes.c_void_p()
            checked(self.lib.cublasCreate_v2(ctypes.byref(found)))
            self.handles[key] = found
        stream = xp.cuda.get_current_stream().ptr
        if self.streams.get(key) != stream:
            checked(self.lib.cublasSetStream_v2(found, ctypes.c_void_p(stream)))
            address = ctypes.c_void_p(self.space(device, stream).ptr)
            size = ctypes.c_size_t(WORKSPACE)
            checked(self.lib.cublasSetWorkspace_v2(found, address, size))
            self.streams[key] = stream
        return found

    def space(self, device: int, stream: int) -> Any:
        """Memory that cuBLAS works in: it must not allocate while a graph is being captured.

        Streams run at the same time, so each has its own; a graph has that of the default stream,
        where it will be started.
        """
        key = (device, 0 if stream in DEFAULT_STREAMS or DEVICE.capturing() else stream)
        found = self.spaces.get(key)
        if found is None:
            found = self.spaces[key] = self.xp.cuda.Memory(WORKSPACE)
        return found

    def place(self) -> tuple[Any, Any]:
        """Addresses of workspace and stream, for cuBLASLt."""
        xp = self.xp
        device = xp.cuda.runtime.getDevice()
        stream = xp.cuda.get_current_stream().ptr
        found = self.places.get((device, stream))
        if found is None:
            workspace = ctypes.c_void_p(self.space(device, stream).ptr)
            found = (workspace, ctypes.c_void_p(stream))
            if not DEVICE.capturing():
                self.places[(device, stream)] = found
        return found

    def compute(self, dtype: Any, fp32: str) -> int:
        if dtype is F32:
            return COMPUTE_TF32 if fp32 == "tf32" else COMPUTE_32F
        return COMPUTE_64F if dtype.itemsize == 8 else COMPUTE_32F


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


def laid_out(x: Any, item: int) -> tuple[int, int]:
    """How cuBLAS reads a matrix, or a stack of them: whether transposed, and leading dimension.

    The first is COPY where it cannot: the leading dimension is then that of a copy.
    """
    rows, columns = x.shape[-2:]
    down, right = x.strides[-2:]
    if (right == item or columns == 1) and (down >= columns * item or rows == 1):
        return KEEP, max(down // item, columns) if rows > 1 else max(columns, 1)
    if (down == item or rows == 1) and (right >= rows * item or columns == 1):
        return TURN, max(right // item, rows) if columns > 1 else max(rows, 1)
    return COPY, max(columns, 1)


def steps_between(a: Any, b: Any, copies: tuple[bool, bool]) -> list[int]:
    """The distances in elements of the matrices of two stacks, after copies where needed."""
    if len(a) <= 1:
        return [0, 0]
    return [
        x.shape[1] * x.shape[2] if copied else x.strides[0] // x.dtype.itemsize
        for x, copied in zip((a, b), copies, strict=True)
    ]


def factor(name: str, value: float) -> Any:
    table = Constants.double if name == "float64" else Constants.single
    found = table.get(value)
    if found is None:
        made: Any = ctypes.c_double(value) if name == "float64" else ctypes.c_float(value)
        found = table[value] = ctypes.pointer(made)
    return found


def stack_product(
    lib: Library,
    a: Any,
    b: Any,
    out: Any = None,
    alpha: float = 1.0,
    fp32: str | None = None,
    beta: float = 0.0,
) -> Any:
    """A stack of products; stacks may repeat one matrix (a stride of 0).

    `fp32` is the precision of float32, else that of `Settings.matmul_fp32`. With `beta`, that much
    of what `out` holds is added.
    """
    if fp32 is None:
        fp32 = Settings.matmul_fp32
    dtype = a.dtype
    made = dtype if out is None else out.dtype
    key = (dtype, made, a.shape, a.strides, b.shape, b.strides, alpha, fp32, beta)
    plan = lib.stacks.get(key)
    if plan is None:
        if len(lib.stacks) >= MOST_STACKS:
            lib.stacks.clear()
        plan = lib.stacks[key] = Stack(lib, a, b, made, alpha, fp32, beta)
    if out is None:
        out = lib.xp.ndarray(plan.shape, dtype)
    if plan.empty:
        if out.size:
            out.fill(0)
        return out
    if plan.copies[0]:
        a = a.copy()
    if plan.copies[1]:
        b = b.copy()
    plan.run(a.data.ptr, b.data.ptr, out.data.ptr)
    return out


class Stack:
    """A stack of products, prepared once for arrays of the same shapes and strides."""

    def __init__(
        self, lib: Library, a: Any, b: Any, made: Any, alpha: float, fp32: str, beta: float
    ) -> None:
        size, m, k = a.shape
        n = b.shape[2]
        self.lib = lib
        self.shape = (size, m, n)
        self.empty = 0 in (size, m, n, k)
        kind, item = NAMES[a.dtype], a.dtype.itemsize
        turn_a, step_a = laid_out(a, item)
        turn_b, step_b = laid_out(b, item)
        # Matrices whose strides the library cannot take are copied first.
        self.copies = (turn_a == COPY, turn_b == COPY)
        apart = steps_between(a, b, self.copies)
        number, long = ctypes.c_int, ctypes.c_longlong
        code = number(KINDS[kind])
        turns = number(max(turn_b, KEEP)), number(max(turn_a, KEEP))
        self.first = (*turns, number(n), number(m), number(k), factor(kind, alpha))
        self.left = (code, number(step_b), long(apart[1]))
        self.right = (code, number(step_a), long(apart[0]), factor(kind, beta))
        result = (number(KINDS[NAMES[made]]), number(n), long(m * n), number(size))
        self.last = (*result, number(lib.compute(a.dtype, fp32)), number(-1))

    def run(self, a: int, b: int, out: int) -> None:
        """Start the products of the matrices at these addresses."""
        lib, address = self.lib, ctypes.c_void_p
        status = lib.stacked(
            lib.handle(),
            *self.first,
            *(address(b), *self.left, address(a), *self.right, address(out), *self.last),
        )
        if status:
            checked(status)


def learn_bfloat16() -> None:
    """Add bfloat16 to the dtypes that are known, if ml_dtypes is installed."""
    from ...dtypes import bfloat16

    try:
        NAMES[bfloat16.np] = "bfloat16"
    except RuntimeError:  # not installed
        pass
