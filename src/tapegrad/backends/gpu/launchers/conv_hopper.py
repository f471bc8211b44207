"""Convolutions of float32 in TF32 on Hopper GPUs (sources/conv_hopper.py has the kernels).

Their tensor cores have instructions that CuPy does not compile for: the text goes to its compiler
directly. Where that does not work, the kernels of conv_products.py do it.
"""

from __future__ import annotations

import ctypes
import math
import pathlib
import tempfile
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..cublas import loaded
from ..sources import conv as cuda_conv
from ..sources import conv_hopper as cuda_hopper
from ..sources import products
from ..sources import templates as cuda_source
from ..sources.conv_hopper import COLUMNS, DEPTH, MOST_TAPS
from .kernels import I32, NOTHING, Gpu
from .moves import MANY

F32 = np.dtype(np.float32)
STAGES = 3
ALIGNED = 1024  # bytes, of a piece in shared memory
LAST_GRID = 65535  # blocks along the second and third dimension


class Hopper:
    """The kernels, compiled; one for each GPU's backend."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        properties = gpu.xp.cuda.runtime.getDeviceProperties(0)
        self.there = (properties["major"], properties["minor"]) == (9, 0)
        self.programs: dict[tuple[int, bool], Program] = {}

    def program(self, rows: int, back: bool) -> Program:
        """The kernels for blocks that make so many rows."""
        found = self.programs.get((rows, back))
        if found is None:
            given = {"BM": rows, "STAGES": STAGES, "BACK": int(back)}
            head = "".join([f"#define {word} {value}\n" for word, value in given.items()])
            instructions = products.INSTRUCTIONS.replace("typedef long long i64;\n", "")
            parts = (head, cuda_conv.WINDOWS, instructions, cuda_hopper.HOPPER)
            code = "".join([cuda_source.program("float32"), *parts])
            found = Program(*compiled(self.gpu.xp, code, ("convolve_wide", "by_pixel")))
            found.convolve.max_dynamic_shared_size_bytes = shared_size(rows)
            self.programs[rows, back] = found
        return found

    def takes(self, rows: int, channels: int, taps: int, back: bool) -> bool:
        """Whether there are kernels; they are compiled to find out."""
        if not self.there or rows % 64 or channels % DEPTH or taps > MOST_TAPS:
            return False
        try:
            self.program(tile(rows), back)
        except Exception:  # another compiler, another driver: the others do it
            self.there = False
        return self.there


class Program(NamedTuple):
    """What is compiled together."""

    convolve: Any
    by_pixel: Any


class WidePlan:
    """A launch for one geometry."""

    def __init__(
        self, hopper: Hopper, windows: Any, x: Any, y: Any, stride: Any, rows: int, back: bool
    ) -> None:
        wide = tile(rows)
        images, channels = (y if back else x)[:2]
        made = (x if back else y)[2:]
        steps = stride if back else (1,) * len(made)
        largest = math.prod([-(-size // step) for size, step in zip(made, steps, strict=True)])
        self.hopper = hopper
        self.program = hopper.program(wide, back)
        self.grid = (-(-images * largest // COLUMNS), rows // wide, math.prod(steps))
        self.block = (2 * wide,)
        self.sizes = (windows, I32(rows), I32(channels), I32(images))
        self.shared = shared_size(wide)

    def made(self, given: Any, weights: Any, bias: Any, shape: Any) -> Any:
        """y from x, or x from y; weights are (rows, taps, channels)."""
        out = self.hopper.gpu.xp.ndarray(shape, F32)
        args = (self.by_pixel(given), weights, NOTHING if bias is None else bias, out)
        run = self.program.convolve
        run(self.grid, self.block, (*args, *self.sizes), shared_mem=self.shared)
        return out

    def by_pixel(self, x: Any) -> Any:
        """x (images, channels, …) with its channels last."""
        images, channels = x.shape[:2]
        places = math.prod(x.shape[2:])
        out = self.hopper.gpu.xp.ndarray((images, places, channels), F32)
        grid = (-(-places // 32), -(-channels // 32), images)
        self.program.by_pixel(grid, (32, 8), (x, out, I32(channels), I32(places)))
        return out

    @staticmethod
    def fits(x: Any, y: Any, stride: Any) -> bool:
        """Whether numbers of places and of blocks are small enough."""
        places = max(math.prod(x), math.prod(y))
        return places < MANY and math.prod(stride) < LAST_GRID and x[0] <= LAST_GRID


def tile(rows: int) -> int:
    """The rows of the result that a block makes."""
    return 128 if rows % 128 == 0 else 64


def shared_size(rows: int) -> int:
    return STAGES * (rows + COLUMNS) * DEPTH * 4 + ALIGNED


# ---------------------------------------------------------------------- compiling


class Files:
    """Where programs lie that the driver reads; gone with the process."""

    folder: tempfile.TemporaryDirectory[str] | None = None
    count = 0


def compiled(xp: Any, code: str, names: Sequence[str]) -> list[Any]:
    """Kernels of a program for Hopper."""
    if Files.folder is None:
        Files.folder = tempfile.TemporaryDirectory(prefix="tapegrad-")
    Files.count += 1
    path = pathlib.Path(Files.folder.name) / f"{Files.count}.cubin"
    path.write_bytes(binary(code))
    module = xp.RawModule(path=str(path))
    return [module.get_function(name) for name in names]


def binary(code: str) -> bytes:
    """What the compiler that CuPy has loaded makes of a program."""
    lib = ctypes.CDLL(loaded("nvrtc"))
    program = ctypes.c_void_p()
    status = lib.nvrtcCreateProgram(
        ctypes.byref(program), code.encode(), b"convolve.cu", 0, None, None
    )
    options = [b"-arch=sm_90a", b"--std=c++17"]
    status = status or lib.nvrtcCompileProgram(
        program, len(options), (ctypes.c_char_p * len(options))(*options)
    )
    if status:
        raise RuntimeError(f"NVRTC error {status}: {said(lib, program)}")
    size = ctypes.c_size_t()
    status = lib.nvrtcGetCUBINSize(program, ctypes.byref(size))
    made = ctypes.create_string_buffer(size.value)
    status = status or lib.nvrtcGetCUBIN(program, made)
    lib.nvrtcDestroyProgram(ctypes.byref(program))
    if status:
        raise RuntimeError(f"NVRTC error {status}")
    return made.raw


def said(lib: Any, program: Any) -> str:
    size = ctypes.c_size_t()
    lib.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(max(size.value, 1))
    lib.nvrtcGetProgramLog(program, log)
    return log.value.decode(errors="replace")
