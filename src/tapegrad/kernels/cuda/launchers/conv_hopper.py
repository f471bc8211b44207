"""Convolutions of float32 in TF32 on Hopper GPUs (sources/hopper.cu has the kernels).

Their tensor cores have instructions that CuPy does not compile for: the text goes to its compiler
directly. Where that does not work, the kernels of conv_products.py do it.
"""

from __future__ import annotations

import ctypes
import hashlib
import itertools
import math
import pathlib
import tempfile
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..cublas import loaded
from ..programs import program
from .kernels import I32, NOTHING, Gpu
from .moves import MANY

F32 = np.dtype(np.float32)
ALIGNED = 1024  # bytes, of a piece in shared memory
SHARED = 226 << 10  # bytes that a block may have, besides some for lists
LAST_GRID = 65535  # blocks along the second and third dimension
OPTIONS = (b"-arch=sm_90a", b"--std=c++17")
WIDE = 128  # features that a block makes, where there are as many
Ints = tuple[int, ...]

# As sources/hopper.cu define them.
DEPTH = 32  # channels, or places, in a row of 128 bytes
GROUP = 64  # places that four warps make
SIDE = 64  # features, and channels, of a block's part of the weights' gradient
STAGES = 4  # pieces of weights in shared memory
AT_ONCE, WEIGHT_STAGES, WEIGHT_GROUPS = 64, 3, 3
MOST_TAPS = 27  # one bit each


class Hopper:
    """The kernels, compiled; one for each GPU's backend."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        properties = gpu.xp.cuda.runtime.getDeviceProperties(0)
        self.there = (properties["major"], properties["minor"]) == (9, 0)
        self.programs: dict[tuple[Any, ...], Any] = {}

    def program(self, name: str, **given: int) -> Any:
        """A kernel with what hopper.cu wants to be defined; None: there are no such kernels."""
        key = (name, *given.values())
        found = self.programs.get(key)
        if found is None and self.there:
            try:
                code = program("hopper.cu", "float32", given)
                (found,) = compiled(self.gpu.xp, code, (name,))
            except Exception:  # another compiler, another driver: the others do it
                self.there = False
                return None
            self.programs[key] = found
        return found


class Geometry(NamedTuple):
    """A convolution: shapes, strides, padding in front, and dilations."""

    x: Ints
    w: Ints
    y: Ints
    stride: Ints
    low: Ints
    dilation: Ints

    @property
    def taps(self) -> int:
        return math.prod(self.w[2:])

    def fits(self) -> bool:
        """Whether numbers are small enough, and channels begin at multiples of 16 bytes."""
        whole, length = math.prod(self.x[2:]), math.prod(self.y[2:])
        small = max(math.prod(self.x), math.prod(self.y)) < MANY
        small = small and math.prod(self.stride) < LAST_GRID and self.taps <= MOST_TAPS
        return small and not (whole % 4 or length % 4)


class Tiles(NamedTuple):
    """How places are divided: tiles of an image, images of a tile, and what a tile reads."""

    count: int
    images: int
    wide: int  # elements of each channel, at the most


def tiles(g: Geometry, back: bool, size: int, several: bool = True) -> Tiles:
    """Tiles of so many places of y, each with all of x that it reads; x and y swap if `back`.

    Places of x are taken by class, as sources/hopper.cu says.
    """
    given, made = (g.y, g.x) if back else (g.x, g.y)
    steps = g.stride if back else (1,) * len(g.stride)
    most = math.prod([-(-n // step) for n, step in zip(made[2:], steps, strict=True)])
    images = size // most if several and 2 * most <= size else 1
    count = -(-most // size)
    wide, whole = 0, math.prod(given[2:])
    for rests in itertools.product(*[range(step) for step in steps]):
        places, ends = [], [0, 0]
        for d, rest in enumerate(rests):
            at, away = met(g, back, d, rest, made[2 + d])
            places.append(at)
            for i, end in enumerate((min, max)):
                ends[i] = ends[i] * given[2 + d] + end(away, default=0)
        shape = tuple([len(at) for at in places])
        inside = math.prod(shape)
        if not inside:
            continue
        first = np.arange(0, inside, size)
        last = np.minimum(first + size, inside) - 1
        low, high = [linear(places, shape, given[2:], i) for i in (first, last)]
        low = np.maximum(low + ends[0], 0) & ~3
        high = np.minimum(high + ends[1] + 1, whole)
        wide = max(wide, int((-(-(high - low) // 4) * 4).max()))
    return Tiles(count, images, wide * images)


def met(g: Geometry, back: bool, d: int, rest: int, size: int) -> tuple[Any, list[int]]:
    """Where the places of a class find tap 0 along a dimension, and how far from it taps are."""
    stride, low = g.stride[d], g.low[d]
    far = [k * g.dilation[d] for k in range(g.w[2 + d])]
    if not back:
        return np.arange(size) * stride - low, far
    place = np.arange((rest - low) % stride, size, stride)
    return (place + low - rest) // stride, [
        -((k - rest) // stride) for k in far if (k - rest) % stride == 0
    ]


def linear(places: list[Any], shape: Ints, sizes: Ints, i: Any) -> Any:
    total = 0
    for at, n, where in zip(places, sizes, np.unravel_index(i, shape), strict=True):
        total = total * n + at[where]
    return total


def pitch(wide: int, banks: int) -> int:
    """The distance of channels in shared memory: without bank conflicts, with a zero after each."""
    return wide + 1 + (banks - wide - 1) % 32


class WidePlan:
    """A launch that makes y from x, or x from y."""

    def __init__(self, hopper: Hopper, g: Geometry, windows: Any, back: bool) -> None:
        rows, channels = (g.w[1], g.w[0]) if back else g.w[:2]
        images = g.x[0]
        self.gpu = hopper.gpu
        self.run: Any = None
        if rows % SIDE or channels % DEPTH or not g.fits() or rows // SIDE > LAST_GRID:
            return
        features = WIDE if rows % WIDE == 0 else SIDE
        # Two small blocks to a multiprocessor, or a large one.
        for groups, most in ((2, SHARED // 2 - ALIGNED), (4, SHARED), (2, SHARED)):
            shares = tiles(g, back, groups * GROUP)
            apart = pitch(shares.wide, 8)
            self.shared = (STAGES * features + 2 * apart) * DEPTH * 4 + ALIGNED
            if self.shared <= most:
                break
        else:
            return
        steps = math.prod(g.stride) if back else 1
        self.grid = (-(-images // shares.images) * shares.count, rows // features, steps)
        self.block = (groups * 128,)
        numbers = (back, rows, channels, images, shares.count, shares.images)
        self.sizes = (windows, *[I32(n) for n in numbers])
        given = {"PLACES": 1, "BN": features, "GROUPS": groups, "PITCH": apart}
        self.run = hopper.program("convolve_wide", **given)
        if self.run is not None:
            self.run.max_dynamic_shared_size_bytes = self.shared

    def made(self, given: Any, weights: Any, bias: Any, shape: Any) -> Any:
        """y from x, or x from y; weights are (rows, taps, channels)."""
        out = self.gpu.xp.ndarray(shape, F32)
        args = (given, weights, NOTHING if bias is None else bias, out, *self.sizes)
        self.run(self.grid, self.block, args, shared_mem=self.shared)
        return out


class WeightsPlan:
    """A launch that makes parts of the weights' gradient."""

    def __init__(self, hopper: Hopper, g: Geometry, windows: Any) -> None:
        features, channels = g.w[:2]
        images = g.x[0]
        self.gpu = hopper.gpu
        self.run: Any = None
        if features % SIDE or channels % SIDE or not g.fits():
            return
        # Half as many places pay where strides make them meet more (measured on an H200).
        for at_once in (AT_ONCE, AT_ONCE // 2)[: 1 + (max(g.stride) > 1)]:
            shares = tiles(g, False, at_once, several=False)
            apart = pitch(shares.wide, 4)
            self.shared = WEIGHT_STAGES * (SIDE * (at_once + apart) * 4 + 8 * at_once) + ALIGNED
            if self.shared <= SHARED:
                break
        else:
            return
        across = channels // SIDE * -(-g.taps // (3 * WEIGHT_GROUPS))
        down = features // SIDE
        room = self.gpu.blocks // 16
        count = max(1, min(images, room // (across * down)))
        share = -(-images // count)
        self.parts = -(-images // share)
        self.grid = (across, down, self.parts)
        self.block = (WEIGHT_GROUPS * 128,)
        self.sizes = (windows, *[I32(n) for n in (features, channels, images, share)])
        given = {"WEIGHTS": 1, "BQ": at_once, "PITCH": apart}
        self.run = hopper.program("to_weights_wide", **given)
        if self.run is not None:
            self.run.max_dynamic_shared_size_bytes = self.shared

    def made(self, x: Any, y: Any, size: int) -> Any:
        """The parts, of so many elements each, as (features, taps, channels)."""
        parts = self.gpu.xp.ndarray((self.parts, size), F32)
        self.run(self.grid, self.block, (y, x, parts, *self.sizes), shared_mem=self.shared)
        return parts


# ---------------------------------------------------------------------- compiling


class Files:
    """The folder for programs if CuPy's cannot be used: deleted with the process."""

    folder: tempfile.TemporaryDirectory[str] | None = None


def compiled(xp: Any, code: str, names: Sequence[str]) -> list[Any]:
    """Kernels of a program for Hopper, which is kept where CuPy keeps its own."""
    lib = ctypes.CDLL(loaded("nvrtc"))
    major, minor = ctypes.c_int(), ctypes.c_int()
    lib.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    said_by = f"{major.value}.{minor.value} {OPTIONS} {code}"
    name = f"tapegrad-{hashlib.sha256(said_by.encode()).hexdigest()}.cubin"
    try:
        path = pathlib.Path(xp.cuda.compiler.get_cache_dir()) / name
        keep(path, lib, code)
    except (OSError, AttributeError):  # the folder is missing or not writable
        if Files.folder is None:
            Files.folder = tempfile.TemporaryDirectory(prefix="tapegrad-")
        path = pathlib.Path(Files.folder.name) / name
        keep(path, lib, code)
    module = xp.RawModule(path=str(path))
    return [module.get_function(name) for name in names]


def keep(path: pathlib.Path, lib: Any, code: str) -> None:
    """Compile a program, unless it is there."""
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    made = binary(lib, code)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(made)
    pathlib.Path(file.name).replace(path)  # at once, as others may be looking


def binary(lib: Any, code: str) -> bytes:
    """A program compiled by the NVRTC that CuPy has loaded."""
    program = ctypes.c_void_p()
    status = lib.nvrtcCreateProgram(
        ctypes.byref(program), code.encode(), b"convolve.cu", 0, None, None
    )
    status = status or lib.nvrtcCompileProgram(
        program, len(OPTIONS), (ctypes.c_char_p * len(OPTIONS))(*OPTIONS)
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
