"""Random numbers on a GPU: the functions of ops/draws/streams.py for streams of Philox numbers.

They are those of PyTorch's CUDA kernels; docs/random.md says how far. philox.py has the generator.
"""

from __future__ import annotations

import functools
import math
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core import devices
from ..dtypes import finfo, of
from ..ops.draws import rejection, twister
from ..ops.draws.checks import (
    check_cauchy,
    check_exponential,
    check_floating,
    check_multinomial,
    check_uniform,
    integer_range,
    is_floating,
    not_implemented,
)
from . import philox
from .philox import F32, F64, MASK, Shape, Start, working

STATE_BYTES = 16  # seed and offset, as PyTorch's CUDA generators write them


class DeviceStream:
    """The random numbers of one GPU: a seed, and how many rounds were drawn, of four words each."""

    home: Any = None  # the module of the functions that draw: this one

    def __init__(self, place: int, seed: int = twister.DEFAULT_SEED) -> None:
        self.place = place
        self._seed = seed
        self.drawn = 0

    def manual_seed(self, seed: int) -> DeviceStream:
        """Start again from `seed`; negative seeds count back from 2**64."""
        twister.check_seed(seed)
        if devices.DEVICE.capturing():
            if seed & MASK != self._seed:
                raise RuntimeError(
                    "CUDAGeneratorImpl::set_current_seed can be called during stream capture only "
                    "if new seed is the same as the original seed."
                )
            return self
        self._seed = seed & MASK
        self.drawn = 0
        return self

    def seed(self) -> int:
        """Start again from a seed that nobody can know beforehand, and return it."""
        check_not_capturing("seed")
        self.manual_seed(int.from_bytes(os.urandom(8), "little"))
        return self._seed

    def initial_seed(self) -> int:
        check_not_capturing("current_seed")
        return self._seed

    @functools.cached_property
    def most(self) -> int:
        """Blocks of threads that the GPU has room for."""
        facts = devices.DEVICE.xp.cuda.runtime.getDeviceProperties(self.place)
        each = facts["maxThreadsPerMultiProcessor"] // philox.BLOCK
        return int(facts["multiProcessorCount"] * each)

    def take(self, count: int, each: int = 4) -> Start:
        """Where the next `count` numbers start, of which a block of words makes `each`."""
        return self.take_rounds(*philox.shared_out(count, each, self.most))

    def take_rounds(self, threads: int, rounds: int) -> Start:
        if devices.DEVICE.capturing():
            return recorded(self).take(threads, rounds)
        first = self.drawn
        self.drawn += rounds
        return Start(self._seed, first, threads)

    @property
    def offset(self) -> int:
        """How many words were drawn, as PyTorch's generators count."""
        check_not_capturing("get_offset")
        return 4 * self.drawn

    @offset.setter
    def offset(self, value: int) -> None:
        check_not_capturing("set_offset")
        if value % 4:
            raise RuntimeError("offset must be a multiple of 4")
        self.drawn = value // 4

    def get_state(self) -> Any:
        check_not_capturing("current_seed")
        state = np.zeros(STATE_BYTES, np.uint8)
        state.view("<u8")[:] = (self._seed, self.offset)
        return state

    def set_state(self, state: Any) -> None:
        check_not_capturing("set_state")
        if state.dtype != np.uint8:
            raise TypeError("RNG state must be a torch.ByteTensor")
        if state.size not in (STATE_BYTES, STATE_BYTES // 2):
            raise RuntimeError("RNG state is wrong size")
        found = np.frombuffer(state.tobytes(), "<u8")
        self._seed = int(found[0])
        self.offset = int(found[1]) if found.size > 1 else 0

    def copy(self) -> DeviceStream:
        """A stream of its own that will draw what this one would."""
        new = DeviceStream(self.place, self._seed)
        new.drawn = self.drawn
        return new


def check_not_capturing(what: str) -> None:
    """Raise PyTorch's error while a graph is recorded: the host does not know what it will draw."""
    if devices.DEVICE.capturing():
        raise RuntimeError(
            f"Cannot call CUDAGeneratorImpl::{what} during CUDA graph capture. If you need this "
            "call to be captured, please file an issue. Current cudaStreamCaptureStatus: "
            "cudaStreamCaptureStatusActive"
        )


class RecordedDraws:
    """The numbers of one stream in one graph.

    The recorded kernels read the seed and the first round from memory, and count from there. So
    every replay goes on where the stream stands, and moves it on by what the graph draws.
    """

    def __init__(self, stream: DeviceStream) -> None:
        xp = devices.DEVICE.xp
        self.stream = stream
        with xp.cuda.Device(stream.place):
            self.cell = xp.zeros(2, np.uint64)
        self.drawn = 0  # rounds

    def take(self, threads: int, rounds: int) -> Start:
        first = self.drawn
        self.drawn += rounds
        return Start(0, first, threads, self.cell)

    def before_replay(self) -> None:
        if self.drawn:
            philox.fill_cell(self.cell, self.stream._seed, self.stream.drawn)
            self.stream.drawn += self.drawn


def recorded(stream: DeviceStream) -> RecordedDraws:
    """The random numbers of a stream in the graph that is being recorded."""
    for found in devices.DEVICE.capture.Capture.current.draws:
        if found.stream is stream:
            return found  # type: ignore[no-any-return]
    raise RuntimeError(
        "Attempt to increase offset for a CUDA generator not in capture mode.\n"
        "  a CUDA graph draws from the default generator and from those that it was told of\n"
        "  fix: call graph.register_generator_state(generator) before the capture, or name it in "
        "make_graphed_step(step, generators=[generator])"
    )


def begin(stream: DeviceStream, shape: Shape, dtype: Any) -> tuple[Any, Start]:
    """The array module, and where a draw of floats starts."""
    return devices.DEVICE.xp, stream.take(math.prod(shape), philox.each_of(dtype))


def unit(stream: DeviceStream, shape: Shape, dtype: Any) -> Any:
    """Floats in (0, 1], of float32 or float64."""
    xp, start = begin(stream, shape, dtype)
    return philox.philox_uniform(xp, shape, dtype, start)


def gaussian(stream: DeviceStream, shape: Shape, dtype: Any, mean: float, std: float) -> Any:
    """Normals, computed in float32 or float64."""
    xp, start = begin(stream, shape, dtype)
    return philox.philox_normal(xp, shape, dtype, mean, std, start)


def words(stream: DeviceStream, count: int, long: bool) -> Any:
    """Words of 32 bits, or of 64."""
    start = stream.take(count, 2 if long else 4)
    return philox.philox_words(devices.DEVICE.xp, count, start, long)


def in_parts(parts: Any, dtype: Any, shape: Shape) -> Any:
    return parts.reshape(-1).view(dtype).reshape(shape)


def uniform(
    stream: DeviceStream, shape: Shape, dtype: Any, low: float = 0.0, high: float = 1.0
) -> Any:
    dtype = np.dtype(dtype)
    if dtype.kind == "c":
        part = F64 if dtype.itemsize == 16 else F32
        return in_parts(uniform(stream, (*shape, 2), part, low, high), dtype, shape)
    check_floating("check_uniform_bounds", dtype)
    check_uniform(low, high, dtype)
    xp, start = begin(stream, shape, dtype)
    return philox.philox_between(xp, shape, dtype, low, high, start)


def normal(
    stream: DeviceStream,
    shape: Shape,
    dtype: Any,
    mean: float = 0.0,
    std: float = 1.0,
    contiguous: bool = True,
) -> Any:
    dtype = np.dtype(dtype)
    if dtype.kind == "c":
        part = F64 if dtype.itemsize == 16 else F32
        made = normal(stream, (*shape, 2), part, 0.0, std / math.sqrt(2.0))
        return in_parts(made + part.type(mean) if mean else made, dtype, shape)
    if not std >= 0.0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")
    check_floating("normal_kernel_cuda", dtype)
    return gaussian(stream, shape, dtype, mean, std)


def integers(
    stream: DeviceStream, shape: Shape, dtype: Any, low: int | None = None, high: int | None = None
) -> Any:
    dtype = np.dtype(dtype)
    n = math.prod(shape)
    low, count, long = integer_range(dtype, low, high)
    found = words(stream, n, long)
    if count == 1 << 64:
        return found.view(np.int64).reshape(shape)
    values = (found % found.dtype.type(count)).astype(np.int64)
    if low:
        values += np.int64(low)
    return values.astype(dtype, copy=False).reshape(shape)


def permutation(stream: DeviceStream, n: int, dtype: Any) -> Any:
    """The order of `n` random keys, of as many bits as make equal ones unlikely; those are shuffled
    afterwards."""
    xp = devices.DEVICE.xp
    if not n:
        return xp.empty(0, dtype)
    bits = min(64, math.ceil(math.log2(n - (6.0 * n * n + 1) / (12 * math.log(0.9)))))
    width = 32 if bits <= 32 else 64
    # PyTorch draws signed keys from all but the last of their range.
    keys = words(stream, n, True) % np.uint64((1 << width) - 1) + np.uint64(1 << (width - 1))
    keys &= np.uint64((1 << bits) - 1)
    if bits == width:
        keys ^= np.uint64(1 << (bits - 1))
    order = xp.argsort(keys)
    start = stream.take_rounds(n, -(-n // 4))
    return philox.philox_untied(xp, order, keys, start).astype(dtype, copy=False)


def bernoulli(stream: DeviceStream, p: Any, shape: Shape, dtype: Any) -> Any:
    dtype = np.dtype(dtype)
    if type(p) is devices.STATE.device_type:
        check_floating("bernoulli_tensor_cuda_p_", p.dtype)
        n = math.prod(shape)
        # A thread takes four neighbours; PyTorch reserves three rounds, whatever the size.
        start = stream.take_rounds(-(-n // 4), 3 if n else 0)
        found = philox.philox_fours(devices.DEVICE.xp, n, start).reshape(shape)
        return (found <= p.astype(working(dtype), copy=False)).astype(dtype)
    if not 0.0 <= p <= 1.0:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p:g}")
    xp, start = begin(stream, shape, dtype)
    return philox.philox_bernoulli(xp, shape, dtype, float(p), start)


def exponential(stream: DeviceStream, shape: Shape, dtype: Any, lambd: float = 1.0) -> Any:
    dtype = np.dtype(dtype)
    check_exponential(dtype, lambd)
    return philox.philox_map(*begin(stream, shape, dtype), "exponential", shape, dtype, lambd)


def cauchy(
    stream: DeviceStream, shape: Shape, dtype: Any, median: float = 0.0, sigma: float = 1.0
) -> Any:
    dtype = np.dtype(dtype)
    check_cauchy(dtype, sigma, of(dtype).scalar_type)
    return philox.philox_map(*begin(stream, shape, dtype), "cauchy", shape, dtype, median, sigma)


def log_normal(
    stream: DeviceStream, shape: Shape, dtype: Any, mean: float = 1.0, std: float = 2.0
) -> Any:
    dtype = np.dtype(dtype)
    if not std > 0.0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std:g}")
    check_floating("log_normal_cuda", dtype)
    return philox.philox_map(*begin(stream, shape, dtype), "log_normal", shape, dtype, mean, std)


def geometric(stream: DeviceStream, shape: Shape, dtype: Any, p: float) -> Any:
    dtype = np.dtype(dtype)
    if not 0.0 < p < 1.0:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p:g}")
    if dtype.kind in "bc":
        raise not_implemented("geometric_cuda", dtype)
    work = dtype if is_floating(dtype) else F32
    throws = philox.philox_map(*begin(stream, shape, work), "geometric", shape, work, p)
    return throws.astype(dtype, copy=False)


def multinomial(stream: DeviceStream, probs: Any, n: int, replacement: bool = False) -> Any:
    check_multinomial(probs, n, replacement)
    devices.DEVICE.refuse_in_graph("multinomial, which asks whether the weights are valid,")
    xp = devices.DEVICE.xp
    rows = probs.reshape(-1, probs.shape[-1])
    wide = working(rows.dtype)
    rows = rows.astype(wide, copy=False)
    # Asked on the host, as PyTorch does: wrong weights are an error, not nonsense.
    if not bool(((rows >= 0) & (rows < xp.inf)).all()):
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    if bool((rows.sum(axis=-1) == 0).any()):
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
    if replacement and n > 1:
        out = with_replacement(stream, xp, rows, n)
    else:
        weights = exponential(stream, rows.shape, probs.dtype).astype(wide, copy=False)
        race = (rows / weights).astype(probs.dtype, copy=False).astype(wide, copy=False)
        out = xp.argsort(-race, axis=-1)[:, :n]
    return xp.ascontiguousarray(out.astype(np.int64, copy=False)).reshape(*probs.shape[:-1], n)


def with_replacement(stream: DeviceStream, xp: Any, rows: Any, n: int) -> Any:
    """Where uniforms fall among the running sums; all rows as one table, each a step higher."""
    count, width = rows.shape
    table = xp.cumsum(rows.astype(np.float64), axis=-1)
    table /= table[:, -1:].copy()
    step = xp.arange(count, dtype=np.float64)[:, None]
    # A thread to a sample, those of a row in blocks of 128.
    threads = -(-n // 128) * 128
    whole = -(-count * threads // philox.BLOCK) * philox.BLOCK
    start = stream.take_rounds(whole, 1)
    found = philox.philox_uniform(xp, (count * threads,), F32, start).reshape(count, threads)
    places = (found[:, :n].astype(np.float64) + step).reshape(-1)
    found = xp.searchsorted((table + step).reshape(-1), places, side="left").reshape(count, n)
    found = found - xp.arange(count)[:, None] * width
    return xp.clip(found, 0, width - 1)


# Numbers by rejection: how many words one takes depends on the words. PyTorch reserves rounds for
# them whatever their number. Without kernels the host draws, from a stream that this one seeds.


def by_rejection(
    stream: DeviceStream, name: str, rounds: int, draw: Callable[..., Any], *arrays: Any
) -> Any:
    """Draw by the kernel `name` for arrays of one shape and dtype, else by `draw` on the host."""
    kernel = philox.fused(name)
    if kernel is not None:
        return kernel(stream.take_rounds(arrays[0].size, rounds), *arrays)
    devices.DEVICE.refuse_in_graph("drawing such numbers, which the host does,")
    first = stream.take_rounds(arrays[0].size, rounds).round
    words = twister.Stream((stream._seed * 0x9E3779B97F4A7C15 + first + 1) & MASK)
    found = draw(words, *[devices.to_host(a) for a in arrays])
    return devices.uploaded(np.asarray(found, order="C"))


def poisson(stream: DeviceStream, rates: Any) -> Any:
    return by_rejection(stream, "philox_poisson", 5, rejection.poisson, rates)


def binomial(stream: DeviceStream, count: Any, prob: Any) -> Any:
    return by_rejection(stream, "philox_binomial", 11, rejection.binomial, count, prob)


def standard_gamma(stream: DeviceStream, shapes: Any, draw: Callable[..., Any]) -> Any:
    """Gamma numbers of rate one; `draw` makes them on the host."""
    return by_rejection(stream, "philox_gamma", 3, draw, shapes)


def dirichlet(stream: DeviceStream, shapes: Any, draw: Callable[..., Any]) -> Any:
    """Gamma numbers over their sum along the last dimension, inside of zero and one."""
    xp = devices.DEVICE.xp
    dtype = shapes.dtype
    made = standard_gamma(stream, shapes, draw)
    wide = made.astype(working(dtype), copy=False)
    sums = wide.sum(axis=-1 if shapes.ndim else None, keepdims=True).astype(dtype, copy=False)
    found = (wide / sums.astype(wide.dtype, copy=False)).astype(dtype, copy=False)
    limits = finfo(of(dtype))
    ends = [wide.dtype.type(v) for v in (limits.tiny, 1.0 - limits.eps)]
    return xp.clip(found.astype(wide.dtype, copy=False), *ends).astype(dtype, copy=False)


def slopes(stream: DeviceStream, x: Any, lower: float, upper: float) -> Any:
    """rrelu's slopes: one above zero, and between the ends else."""
    xp, start = begin(stream, x.shape, x.dtype)
    kernel = philox.fused("philox_slopes")
    if kernel is not None:
        return kernel(start, x, lower, upper)
    work = working(x.dtype)
    unit = philox.philox_uniform(xp, x.shape, work, start).astype(x.dtype, copy=False)
    drawn = (unit.astype(F64) * (upper - lower) + lower).astype(work).astype(x.dtype, copy=False)
    return xp.where(x <= 0, drawn, xp.ones_like(drawn))


DeviceStream.home = sys.modules[__name__]
