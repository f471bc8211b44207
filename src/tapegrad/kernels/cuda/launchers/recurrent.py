"""Recurrent layers on the GPU: one launch for all steps (sources/recurrent.cu)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....core.arguments import cast_value
from ....core.devices import DEVICE
from ....core.op import REGISTRY
from ....core.rounding import half_as_single
from ...recurrent_loops import before, spans
from ..cublas import NAMES
from ..formulas import functions
from ..programs import compiled, formula_file
from .kernels import I32, NOTHING, Gpu
from .launcher import Launcher
from .moves import Plans
from .rows import dense, pointer

ROWS = 32  # sequences that a block works on at a time
WARPS = 8
LONG_BACK = 64  # columns of each quarter of the gradients that are read at once
LSTM, GRU, TANH, RELU = range(4)
GATES = (4, 3, 1, 1)
THREADS = (256,)
COLUMNS = (1, 2, 4, 8)  # of a thread
MAX_UNITS = 8  # of a block: with 32 rows, one for each thread
SINGLE = np.dtype(np.float32)  # what half precision is computed in
Sizes = tuple[int, ...]


class Launch:
    """A kernel with the size of its launch; cooperative, as its blocks wait for each other."""

    def __init__(self, run: Any, blocks: int, shared: int) -> None:
        run.max_dynamic_shared_size_bytes = shared
        self.run = run
        self.grid = (blocks,)
        self.shared = shared

    def __call__(self, args: tuple[Any, ...]) -> None:
        self.run(self.grid, THREADS, args, shared_mem=self.shared)


class Layers:
    """Plans of one array module."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self.plans = Plans(self.plan)
        self.walks = Plans(self.walk)
        properties = gpu.xp.cuda.runtime.getDeviceProperties(0)
        self.most_blocks = int(properties["multiProcessorCount"])
        self.most_shared = int(properties["sharedMemPerBlockOptin"])

    def plan(self, kind: int, width: int, dtype: Any) -> tuple[Launch, Launch] | None:
        """Both ways; None if the states or the weights do not fit."""
        if width % 4 or not width:
            return None
        item, gates = dtype.itemsize, GATES[kind]
        long = min(256, -(-width // 32) * 32)
        part = -(-(gates * width // 4) // 4) * 4
        found = []
        for back in (False, True):
            for columns in COLUMNS:
                units = columns if back or gates > 1 else 4 * columns
                blocks = -(-width // units)
                if back:
                    weights = columns * 4 * (part + 4)
                    tile = max(ROWS * (4 * LONG_BACK + 4), WARPS * ROWS * columns)
                else:
                    weights = 4 * columns * (width + 4)
                    tile = max(ROWS * (long + 4), WARPS * ROWS * 4 * columns)
                shared = (weights + tile) * item
                if units > MAX_UNITS or shared > self.most_shared:
                    return None
                if blocks <= self.most_blocks:
                    setting = {"KIND": kind, "GATES": gates, "U": columns, "UNITS": units}
                    run = self.kernel(dtype, back, {**setting, "LONG": long})
                    found.append(Launch(run, blocks, shared))
                    break
            else:
                return None
        return found[0], found[1]

    def kernel(self, dtype: Any, back: bool, setting: dict[str, int]) -> Any:
        words = {**setting, "LONG_BACK": LONG_BACK}
        made = formula_file(functions(REGISTRY["sigmoid"].forward, ["logistic"]))
        name = "steps_back" if back else "steps"
        file = "recurrent.cu"
        return compiled(self.gpu.xp, file, NAMES[dtype], name, words, made, together=True)

    def walk(self, sizes: Sizes, turned: bool) -> Any:
        """Where the rows of each step are, for sequences of several lengths."""
        return self.gpu.xp.asarray(np.array(spans(sizes, turned), np.int32))

    def steps(self, width: int, sizes: Sizes, turned: bool) -> tuple[Any, ...]:
        """The last arguments of both kernels: where the steps are."""
        even = min(sizes) == max(sizes)
        table = NOTHING if even else self.walks.get((sizes, turned))
        count = self.gpu.xp.zeros(1, np.uint32)
        return count, I32(width), table, I32(len(sizes)), I32(sizes[0]), I32(turned)


def register(backend: Any, gpu: Gpu, reference: Any) -> None:
    layers = Layers(gpu)
    for kind in (LstmLayer, GruLayer, RnnLayer):
        kind(backend, layers, reference).register(backend)


class RecurrentLayer(Launcher):
    """One direction of a recurrent layer, all steps in one launch; `pull` has its gradients."""

    def __init__(self, backend: Any, layers: Layers, reference: Any) -> None:
        super().__init__(reference)
        self.backend = backend
        self.layers = layers
        self.xp = layers.gpu.xp

    def register(self, backend: Any) -> None:
        super().register(backend)
        backend.pulls[self.op] = self.pull

    def pull(self, node: Any, grad: Any, kept: Any) -> Any:
        """The gradients of all inputs; None where the block's rules have to find them."""
        raise NotImplementedError

    def launches(self, kind: int, rows: Any, hx: Any, weight: Any, sizes: Sizes) -> Any:
        """Forward and back for plain matrices of one dtype that fit each other; else None."""
        dtype = rows.dtype
        if rows.ndim != 2 or hx.ndim != 2 or weight.ndim != 2 or dtype not in NAMES:
            return None
        width = hx.shape[1]
        fits = weight.shape == (GATES[kind] * width, width) and max(sizes) == hx.shape[0] > 0
        if not fits or weight.dtype is not dtype or hx.dtype is not dtype or not rows.size:
            return None
        return self.layers.plans.get((kind, width, SINGLE if dtype.itemsize == 2 else dtype))

    def contiguous(self, x: Any) -> Any:
        """An array as the kernels take it: half precision in single, and contiguous."""
        return None if x is None else dense(self.backend, half_as_single(x))

    def forward(
        self,
        kind: int,
        plan: Any,
        arrays: tuple[Any, Any, Any, Any, Any],
        sizes: Sizes,
        turned: bool,
    ) -> tuple[Any, Any, Any]:
        """All h, c and gates, of (input, hx, cx, weight, bias); None for what a kind lacks."""
        x, hx, cx, weight, bias = [self.contiguous(v) for v in arrays]
        ndarray = self.xp.ndarray
        rows, width = x.shape[0], hx.shape[1]
        out = ndarray((rows, width), x.dtype)
        cells = ndarray((rows, width), x.dtype) if kind == LSTM else None
        gates = ndarray((rows, 4 * width), x.dtype) if kind <= GRU else None
        given = (x, hx, pointer(cx), weight, pointer(bias))
        made = (pointer(gates), pointer(cells), out)
        plan[0]((*given, *made, *self.layers.steps(width, sizes, turned)))
        dtype = arrays[0].dtype
        return tuple([None if v is None else cast_value(v, dtype) for v in (out, cells, gates)])

    def back(
        self,
        kind: int,
        plan: Any,
        grads: tuple[Any, Any],
        arrays: tuple[Any, ...],
        sizes: Sizes,
        turned: bool,
    ) -> tuple[Any, Any, Any, Any]:
        """Gradients of the sums inside the gates, of a GRU's input, of h and c at the start."""
        hx, cx, weight, gates, cells, out = [self.contiguous(v) for v in arrays]
        xp, width = self.xp, hx.shape[1]
        to_sums = xp.ndarray((out.shape[0], GATES[kind] * width), out.dtype)
        to_x = xp.ndarray(to_sums.shape, out.dtype) if kind == GRU else None
        to_h = xp.zeros(hx.shape, hx.dtype)
        to_c = xp.zeros(hx.shape, hx.dtype) if kind == LSTM else None
        given = [pointer(self.contiguous(g)) for g in grads]
        kept = (hx, pointer(cx), weight, pointer(gates), pointer(cells), out)
        made = (to_sums, pointer(to_x), to_h, pointer(to_c))
        plan[1]((*given, *kept, *made, *self.layers.steps(width, sizes, turned)))
        dtype = arrays[0].dtype
        return tuple(
            [None if v is None else cast_value(v, dtype) for v in (to_sums, to_x, to_h, to_c)]
        )


def to_weight(edge: Any, to_sums: Any, kept: Any) -> Any:
    """The gradient of the weight of the states; None if nobody asks for it."""
    if edge is None:
        return None
    space = DEVICE.space
    states = before(space, kept.hx, kept.out, spans(kept.sizes, kept.turned))
    return space.mm(to_sums.T, states)


class LstmLayer(RecurrentLayer):
    op = "lstm_layer"

    def fits(
        self, input: Any, hx: Any, cx: Any, weight: Any, proj: Any, sizes: Sizes, turned: bool
    ) -> bool:
        return proj is None and cx.shape == hx.shape and cx.dtype is hx.dtype

    def plan(
        self, input: Any, hx: Any, cx: Any, weight: Any, proj: Any, sizes: Sizes, turned: bool
    ) -> Any:
        return self.launches(LSTM, input, hx, weight, sizes)

    def run(
        self,
        plan: Any,
        input: Any,
        hx: Any,
        cx: Any,
        weight: Any,
        proj: Any,
        sizes: Sizes,
        turned: bool,
    ) -> Any:
        return self.forward(LSTM, plan, (input, hx, cx, weight, None), sizes, turned)

    def pull(self, node: Any, grad: Any, kept: Any) -> Any:
        hx, cx, weight, gates = kept.hx, kept.cx, kept.weight, kept.gates
        plan = None
        if kept.proj is None and grad[2] is None and cx.shape == hx.shape and cx.dtype is hx.dtype:
            plan = self.launches(LSTM, gates, hx, weight, kept.sizes)
        if plan is None:
            return None
        arrays = (hx, cx, weight, gates, kept.cells, kept.out)
        found = self.back(LSTM, plan, grad[:2], arrays, kept.sizes, kept.turned)
        to_sums, _, to_h, to_c = found
        return [to_sums, to_h, to_c, to_weight(node._edges[3], to_sums, kept), None]


class GruLayer(RecurrentLayer):
    op = "gru_layer"

    def fits(self, input: Any, hx: Any, weight: Any, bias: Any, sizes: Sizes, turned: bool) -> bool:
        return bias is None or bias.ndim == 1

    def plan(self, input: Any, hx: Any, weight: Any, bias: Any, sizes: Sizes, turned: bool) -> Any:
        return self.launches(GRU, input, hx, weight, sizes)

    def run(
        self, plan: Any, input: Any, hx: Any, weight: Any, bias: Any, sizes: Sizes, turned: bool
    ) -> Any:
        arrays = (input, hx, None, weight, bias)
        out, _, gates = self.forward(GRU, plan, arrays, sizes, turned)
        return out, gates

    def pull(self, node: Any, grad: Any, kept: Any) -> Any:
        hx, weight, gates = kept.hx, kept.weight, kept.gates
        plan = self.launches(GRU, gates, hx, weight, kept.sizes) if grad[1] is None else None
        if plan is None:
            return None
        arrays = (hx, None, weight, gates, None, kept.out)
        found = self.back(GRU, plan, (grad[0], None), arrays, kept.sizes, kept.turned)
        to_sums, to_x, to_h, _ = found
        weighted = to_weight(node._edges[2], to_sums, kept)
        to_bias = None if node._edges[3] is None else DEVICE.space.sum(to_sums, (0,), False, None)
        return [to_x, to_h, weighted, to_bias]


class RnnLayer(RecurrentLayer):
    op = "rnn_layer"

    def fits(
        self, input: Any, hx: Any, weight: Any, relu: bool, sizes: Sizes, turned: bool
    ) -> bool:
        return True

    def plan(self, input: Any, hx: Any, weight: Any, relu: bool, sizes: Sizes, turned: bool) -> Any:
        return self.launches(RELU if relu else TANH, input, hx, weight, sizes)

    def run(
        self, plan: Any, input: Any, hx: Any, weight: Any, relu: bool, sizes: Sizes, turned: bool
    ) -> Any:
        arrays = (input, hx, None, weight, None)
        return self.forward(RELU if relu else TANH, plan, arrays, sizes, turned)[0]

    def pull(self, node: Any, grad: Any, kept: Any) -> Any:
        hx, weight, out = kept.hx, kept.weight, kept.out
        kind = RELU if kept.relu else TANH
        plan = self.launches(kind, out, hx, weight, kept.sizes)
        if plan is None:
            return None
        arrays = (hx, None, weight, None, None, out)
        found = self.back(kind, plan, (grad, None), arrays, kept.sizes, kept.turned)
        to_sums, _, to_h, _ = found
        return [to_sums, to_h, to_weight(node._edges[2], to_sums, kept)]
