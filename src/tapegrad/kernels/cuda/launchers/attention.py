"""Attention on the GPU: one launch forward, two backward (sources/attention.cu).

Heads are read with the caller's strides, and results get the strides of their inputs. What a launch
needs besides its arrays is worked out once per shapes and strides.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..cublas import NAMES
from ..denormals import FLUSH
from ..programs import compiled
from .launcher import Launcher
from .moves import opaque

NOTHING = np.uint64(0)
F32 = np.dtype(np.float32)
SOURCE = "attention.cu"
ROWS = 64  # of a block: queries, or keys in `attend_back_keys`
THREADS = 128
BLOCK = (THREADS,)
KERNELS = ("attend", "attend_back_queries", "attend_back_keys")
CODES = {"float32": 0, "float16": 1, "bfloat16": 2}
# By width of a head in shared memory (narrower ones end in zeros): rows of a tile of keys, and of a
# tile of queries (fewer, as `attend_back_keys` has two sums in registers).
SIZES = {32: (64, 32), 64: (64, 32), 128: (32, 16), 256: (16, 16)}
KEPT = 1024  # plans that are kept at most
# As `struct Plan`: the sizes are heads, queries, keys, width, causal, aligned, wide_mask.
PLAN = np.dtype(
    [
        ("step", np.int64, (7, 3)),
        ("mask", np.int64, (4,)),
        ("sizes", np.int32, (7,)),
        ("scale", np.float32),
    ]
)


def words_for(kind: str, width: int) -> dict[str, int]:
    """The macros that SOURCE is compiled with, for a dtype and a width of heads."""
    keys, queries = SIZES[width]
    sizes = {"WIDTH": width, "ROWS": ROWS, "THREADS": THREADS, "KEYS": keys, "QUERIES": queries}
    return {"KIND": CODES[kind], **sizes}


def shared_memory(width: int, item: int) -> tuple[int, int, int]:
    """Bytes that a block of each kernel needs, in the order of KERNELS."""
    keys, queries = SIZES[width]
    step = width * item + 16
    back_keys = (2 * ROWS + 4 * queries) * step + 2 * queries * 12
    return (ROWS + 2 * keys) * step, 2 * (ROWS + keys) * step, back_keys


class Result:
    """Memory for a result, with the dimensions in the order that `x` has them in memory."""

    __slots__ = ("bytes", "shape", "strides")

    def __init__(self, x: Any, joint: bool) -> None:
        samples, heads, length, width = self.shape = x.shape
        row = width * x.dtype.itemsize
        self.bytes = samples * heads * length * row
        if joint:
            self.strides = x.strides
            return
        if x.strides[1] < x.strides[2]:  # heads side by side, as after a transpose
            steps = (row, heads * row)
        else:
            steps = (length * row, row)
        self.strides = (length * heads * row, *steps, x.dtype.itemsize)


def are_joint(query: Any, key: Any, value: Any) -> bool:
    """Whether these may be the three parts of one array: then their gradients are, too."""
    samples, heads, length, width = query.shape
    row = width * query.dtype.itemsize
    if query.shape != key.shape or query.strides != key.strides or heads * row % 16:
        return False
    if key.shape != value.shape or key.strides != value.strides:
        return False
    step = 3 * heads * row
    return bool(query.strides == (length * step, row, step, query.dtype.itemsize))


class Plan:
    """Launch parameters, cached by shapes and strides."""

    __slots__ = ("bytes", "grids", "joint", "plan", "results", "runs", "shared")

    def __init__(self, kernels: Kernels, arrays: list[Any], mask: Any, options: Any) -> None:
        query, key = arrays[:2]
        scale, causal, aligned = options
        samples, heads, queries, width = query.shape
        keys = key.shape[2]
        kind, item = NAMES[query.dtype], query.dtype.itemsize
        backward = len(arrays) == 4
        self.joint = backward and are_joint(*arrays[:3])
        results = arrays[:3] if backward else arrays[:1]
        self.results = [Result(x, self.joint) for x in results]
        strides = [x.strides for x in (*arrays, *self.results)]
        self.plan = np.zeros((), PLAN)
        self.plan["step"][: len(strides)] = [[s // item for s in own[:3]] for own in strides]
        self.plan["mask"] = mask_steps(mask)
        aligned = aligned and not any([s % 16 for x in arrays for s in x.strides[:3]])
        wide_mask = mask is not None and mask.dtype == F32 and kind != "float32"
        self.plan["sizes"] = (heads, queries, keys, width, causal, aligned, wide_mask)
        self.plan["scale"] = scale
        self.plan = opaque(self.plan)
        of_queries, of_keys = [(samples * heads, (n + ROWS - 1) // ROWS) for n in (queries, keys)]
        self.grids = (of_queries, of_keys)
        self.bytes = 12 * samples * heads * queries  # what the second launch backward knows
        made = kernels.compiled(kind, width, query.data.device_id)[1 if backward else 0 :]
        self.runs, self.shared = [run for run, _ in made], [size for _, size in made]

    def memory(self, array: Any, alloc: Any, dtype: Any) -> list[Any]:
        """Arrays for the gradients."""
        if not self.joint:
            return [array(r.shape, dtype, alloc(r.bytes), r.strides) for r in self.results]
        first = self.results[0]
        whole, step = alloc(3 * first.bytes), first.strides[2] // 3
        return [array(first.shape, dtype, whole + k * step, first.strides) for k in range(3)]


class Kernels:
    """Compiled kernels, and the plans of the calls so far."""

    def __init__(self, gpu: Any) -> None:
        self.xp = gpu.xp
        runtime = gpu.xp.cuda.runtime
        limit = runtime.cudaDevAttrMaxSharedMemoryPerBlockOptin
        self.most_shared = int(runtime.deviceGetAttribute(limit, 0))
        self.known: dict[Any, list[tuple[Any, int]]] = {}
        self.plans: dict[Any, Plan | None] = {}

    def compiled(self, kind: str, width: int, device: int) -> list[tuple[Any, int]]:
        """The kernels on the current GPU, each with the shared memory that it needs."""
        wide, shared = room(kind, width)
        found = self.known.get((kind, wide, device))
        if found is None:
            found = []
            words = words_for(kind, wide)
            for name, size in zip(KERNELS, shared, strict=True):
                # Weights below 1e-38 add nothing, and without them exp is faster.
                kernel = compiled(self.xp, SOURCE, kind, name, words, flags=(FLUSH,))
                kernel.max_dynamic_shared_size_bytes = size
                found.append((kernel.kernel, size))
            self.known[(kind, wide, device)] = found
        return found

    def plan(self, arrays: list[Any], mask: Any, scale: float, causal: bool) -> Plan | None:
        """The plan for query, key, value (and, backward, the gradient); None if there is none."""
        query, key, value = arrays[:3]
        place = query.data.ptr | key.data.ptr | value.data.ptr
        alike: tuple[Any, ...] = (
            *(query.dtype, query.shape, query.strides, key.dtype, key.shape, key.strides),
            *(value.dtype, value.shape, value.strides, scale, causal, query.data.device_id),
        )
        if len(arrays) == 4:
            grad = arrays[3]
            place |= grad.data.ptr
            alike += (grad.dtype, grad.shape, grad.strides)
        if mask is not None:
            alike += (mask.dtype, mask.shape, mask.strides, None)
        aligned = not place & 15
        alike += (aligned,)
        try:
            return self.plans[alike]
        except KeyError:
            pass
        if len(self.plans) >= KEPT:
            self.plans.clear()
        fits = self.fits(arrays, mask)
        made = Plan(self, arrays, mask, (scale, causal, aligned)) if fits else None
        self.plans[alike] = made
        return made

    def fits(self, arrays: list[Any], mask: Any) -> bool:
        query, key = arrays[:2]
        kind = NAMES.get(query.dtype, "")
        if kind not in CODES or any([x.ndim != 4 for x in arrays]):
            return False
        samples, heads, queries, width = query.shape
        keys = key.shape[2]
        shapes = [(samples, heads, n, width) for n in (queries, keys, keys, queries)]
        for x, shape in zip(arrays, shapes, strict=False):
            if x.dtype != query.dtype or x.shape != shape or x.strides[3] != x.itemsize:
                return False
        if mask is not None:
            if mask.ndim > 4 or (mask.dtype != query.dtype and mask.dtype != F32):
                return False
            ends = (samples, heads, queries, keys)[4 - mask.ndim :]
            if any([m not in (1, n) for m, n in zip(mask.shape, ends, strict=True)]):
                return False
        if not query.size or not key.size or width > max(SIZES):
            return False
        return max(room(kind, width)[1]) <= self.most_shared


def room(kind: str, width: int) -> tuple[int, tuple[int, int, int]]:
    """The width that heads have in shared memory, and how much of that each kernel needs."""
    wide = min([w for w in SIZES if w >= width])
    return wide, shared_memory(wide, 4 if kind == "float32" else 2)


def mask_steps(mask: Any) -> list[int]:
    """The strides of a mask in elements, broadcast to four dimensions."""
    if mask is None:
        return [0, 0, 0, 0]
    item = mask.dtype.itemsize
    steps = [s // item if n > 1 else 0 for s, n in zip(mask.strides, mask.shape, strict=True)]
    return [0] * (4 - len(steps)) + steps


def by_rows(x: Any) -> Any:
    """The array itself if its rows are contiguous, else a copy."""
    return x if x.strides[-1] == x.dtype.itemsize else x.copy()


NAME = "scaled_dot_product_flash_attention_for_cpu"


def register(backend: Any, gpu: Any, reference: Any) -> None:
    if gpu.xp.cuda.runtime.getDeviceProperties(0)["major"] < 8:
        return  # no tensor cores for TF32 and bfloat16
    kernels = Kernels(gpu)
    Attention(kernels, reference).register(backend)
    AttentionBackward(kernels, reference).register(backend)


class AttentionLauncher(Launcher):
    """A launcher whose plan is a Plan, with the arrays that it is for."""

    def __init__(self, kernels: Kernels, reference: Any) -> None:
        super().__init__(reference)
        self.kernels = kernels
        self.alloc = kernels.xp.cuda.alloc
        self.ndarray = kernels.xp.ndarray

    def planned(self, arrays: list[Any], mask: Any, scale: float, causal: bool) -> Any:
        """The plan for arrays as they lie, or for copies of those whose rows are strided."""
        plan = self.kernels.plan(arrays, mask, scale, causal)
        if plan is None:
            arrays = [by_rows(x) for x in arrays]
            plan = self.kernels.plan(arrays, mask, scale, causal)
        return None if plan is None else (plan, arrays)


class Attention(AttentionLauncher):
    op = NAME

    def fits(self, query: Any, key: Any, value: Any, mask: Any, scale: float, causal: bool) -> bool:
        return True  # the plan looks at everything

    def plan(self, query: Any, key: Any, value: Any, mask: Any, scale: float, causal: bool) -> Any:
        return self.planned([query, key, value], mask, scale, causal)

    def run(
        self, plan: Any, query: Any, key: Any, value: Any, mask: Any, scale: float, causal: bool
    ) -> Any:
        found, arrays = plan
        result = found.results[0]
        memory = self.alloc(result.bytes)
        out = self.ndarray(result.shape, query.dtype, memory, result.strides)
        args = (*arrays, NOTHING if mask is None else mask, out, found.plan)
        found.runs[0](found.grids[0], BLOCK, args, shared_mem=found.shared[0])
        return out


class AttentionBackward(AttentionLauncher):
    """The gradients of query, key and value, in two launches."""

    op = f"{NAME}_backward"

    def fits(
        self,
        grad: Any,
        query: Any,
        key: Any,
        value: Any,
        mask: Any,
        scale: float,
        causal: bool,
    ) -> bool:
        return True  # the plan looks at everything

    def plan(
        self,
        grad: Any,
        query: Any,
        key: Any,
        value: Any,
        mask: Any,
        scale: float,
        causal: bool,
    ) -> Any:
        return self.planned([query, key, value, grad], mask, scale, causal)

    def run(
        self,
        plan: Any,
        grad: Any,
        query: Any,
        key: Any,
        value: Any,
        mask: Any,
        scale: float,
        causal: bool,
    ) -> Any:
        found, (query, key, value, grad) = plan
        to_query, to_key, to_value = found.memory(self.ndarray, self.alloc, query.dtype)
        stats = self.alloc(found.bytes)
        known = np.uint64(stats.ptr)
        inputs = (grad, query, key, value, NOTHING if mask is None else mask)
        run, run_next = found.runs
        of_queries, of_keys = found.grids
        size, size_next = found.shared
        run(of_queries, BLOCK, (*inputs, to_query, known, found.plan), shared_mem=size)
        args = (*inputs, known, to_key, to_value, found.plan)
        run_next(of_keys, BLOCK, args, shared_mem=size_next)
        return to_query, to_key, to_value
