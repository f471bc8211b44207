"""CUDA graphs: a whole training step recorded once and started with one call.

PyTorch's `CUDAGraph` and `graph` are here, and `make_graphed_step`, which does all that has to be
done around them: static memory for the inputs, a step that runs as usual until everything is warm,
and a new recording when shapes change.

    step = torch.cuda.make_graphed_step(train_step)
    for inputs, labels in data:
        loss = step(inputs, labels)
"""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from ..core import devices
from ..core.base import STATE, TensorBase, wrap
from ..errors import evidence
from ..ops.draws.generators import Generator, generator_of
from ..utils import _pytree as pytree
from . import runtime
from .draws import RecordedDraws, check_not_capturing

__all__ = [
    "CUDAGraph",
    "graph",
    "graph_pool_handle",
    "is_current_stream_capturing",
    "make_graphed_step",
]

WARM_UP = 2  # ordinary steps before one is recorded: kernels are compiled, states are made
RELAXED = 2  # cudaStreamCaptureModeRelaxed: memory may be taken while recording


class Capture:
    """The state of a graph that is being recorded."""

    current: Any = None

    def __init__(self, draws: list[RecordedDraws]) -> None:
        self.optimizers: list[Any] = []  # with what they need between replays
        self.draws = draws  # of the streams that may be drawn from
        self.leaves: list[Any] = []  # that got gradients
        self.gradients: list[tuple[Any, Any]] = []

    def end(self) -> None:
        """Remember which gradient is whose: another recording may give the leaves others."""
        self.gradients = [(weakref.ref(t), t._gradient) for t in self.leaves]
        self.leaves = []


def capturing() -> bool:
    return Capture.current is not None


def is_current_stream_capturing() -> bool:
    """Whether the work that is started now is being recorded instead of run."""
    return capturing()


def refuse(what: str) -> None:
    """Raise if a graph is being recorded: `what` cannot be part of one."""
    if Capture.current is None:
        return
    where = evidence.here()
    line = "" if where is None else f"\n  at:  {evidence.spell(where)}"
    raise RuntimeError(
        f"CUDA error: operation not permitted when stream is capturing\n  {what} cannot be part of "
        f"a CUDA graph{line}\n  fix: move it out of the step that is captured, or run the step "
        "without capture"
    )


devices.DEVICE.capture = sys.modules[__name__]


def joins_for(xp: Any, malloc: Any) -> tuple[Any, Any]:
    """The object that joins kernels while they are recorded (or None), and the pool for memory."""
    backend = devices.DEVICE.backend
    if not hasattr(backend, "gpu"):
        return None, malloc
    from ..kernels.cuda import joins

    made = joins.of(xp, backend)
    return made, malloc if made is None else joins.watched(xp.cuda, malloc)


def graph_pool_handle() -> Any:
    """Memory that several graphs may share."""
    return runtime.start().cuda.MemoryPool()


class CUDAGraph:
    """Recorded work of a GPU."""

    def __init__(self, keep_graph: bool = False) -> None:
        runtime.start()
        self.recorded: Any = None
        self.memory: Any = None
        self.allocator: Any = None
        self.joins: Any = None  # of kernels, while it is recorded
        self.streams: list[Any] = []  # of random numbers, besides the default one

    def register_generator_state(self, generator: Any) -> None:
        """Let the work to be recorded draw from a generator. (From the default one it may.)"""
        if not isinstance(generator, Generator):
            raise TypeError(f"expected a torch.Generator, but got {type(generator).__name__}")
        if generator.device.type != "cuda":
            raise RuntimeError(
                f"Expected a 'cuda' device type for generator but found '{generator.device.type}'"
            )
        check_not_capturing("register_graph")
        if generator.stream not in self.streams:
            self.streams.append(generator.stream)

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global") -> None:
        """Start recording what is started on the current stream."""
        xp = runtime.start()
        if Capture.current is not None:
            raise RuntimeError("a CUDA graph is being captured already")
        default = generator_of(runtime.index_of(None)).stream
        streams = [default, *[s for s in self.streams if s is not default]]
        draws = [RecordedDraws(s) for s in streams]  # their memory is not the graph's
        self.memory = graph_pool_handle() if pool is None else pool
        self.joins, malloc = joins_for(xp, self.memory.malloc)
        self.allocator = xp.cuda.using_allocator(malloc)
        self.allocator.__enter__()
        self.stream = xp.cuda.get_current_stream()
        try:
            self.stream.begin_capture(RELAXED)
        except BaseException:
            self.allocator.__exit__(None, None, None)
            raise
        Capture.current = self.during = Capture(draws)
        STATE.captured = self.during.leaves
        if self.joins is not None:
            self.joins.begin()

    def capture_end(self) -> None:
        """Stop recording."""
        if self.joins is not None:
            self.joins.end()
        try:
            recorded = self.stream.end_capture()
        finally:
            Capture.current = STATE.captured = None
            self.during.end()
            self.allocator.__exit__(None, None, None)
        self.recorded = recorded

    def replay(self) -> None:
        """Run what was recorded."""
        if self.recorded is None:
            raise RuntimeError("Called CUDAGraph::replay without a preceding successful capture.")
        for each in self.during.optimizers:
            each.before_replay()
        for drawn in self.during.draws:
            drawn.before_replay()
        for leaf, gradient in self.during.gradients:
            t = leaf()
            if t is not None:
                t._gradient = gradient
        self.recorded.launch(runtime.start().cuda.get_current_stream())

    def reset(self) -> None:
        """Forget what was recorded, and its memory."""
        self.recorded = self.memory = None
        self.streams = []

    def pool(self) -> Any:
        """The memory of this graph, for other graphs."""
        return self.memory


class graph:  # noqa: N801
    """`with torch.cuda.graph(g):` records what is started inside into `g`."""

    def __init__(
        self,
        cuda_graph: CUDAGraph,
        pool: Any = None,
        stream: Any = None,
        capture_error_mode: str = "global",
    ) -> None:
        xp = runtime.start()
        self.cuda_graph = cuda_graph
        self.pool = pool
        own = getattr(stream, "inner", stream)
        self.stream = xp.cuda.Stream(non_blocking=True) if own is None else own

    def __enter__(self) -> None:
        runtime.start().cuda.Device().synchronize()
        gc.collect()
        self.stream.__enter__()
        try:
            self.cuda_graph.capture_begin(self.pool)
        except BaseException:
            self.stream.__exit__(None, None, None)
            raise

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        try:
            self.cuda_graph.capture_end()
        except Exception:
            if error is None:
                raise
        finally:
            self.stream.__exit__(None, None, None)


# ---------------------------------------------------------------------- whole steps


class Recording:
    """One recorded step: for one set of shapes."""

    def __init__(self, inputs: list[Any]) -> None:
        self.inputs = inputs  # static memory
        self.graph = CUDAGraph()
        self.result: Any = None

    def fill(self, values: list[Any]) -> None:
        """Copy new inputs to where the recorded step reads them."""
        for static, value in zip(self.inputs, values, strict=True):
            if static is not None:
                copy_into(static._array, value._array)


def copy_into(target: Any, source: Any) -> None:
    if source is target:
        return
    if devices.xp_of(source) is not devices.DEVICE.xp:
        target.set(source)
    elif target.flags.c_contiguous and source.flags.c_contiguous:
        xp = devices.DEVICE.xp
        stream = xp.cuda.get_current_stream().ptr
        xp.cuda.runtime.memcpyAsync(target.data.ptr, source.data.ptr, target.nbytes, 3, stream)
    else:
        target[...] = source


def make_graphed_step(
    step: Callable[..., Any], warm_up: int = WARM_UP, generators: Sequence[Any] = ()
) -> Callable[..., Any]:
    """A function that does what `step` does, as one CUDA graph.

    `step` computes a loss, its gradients, and updates the parameters. The first calls run as usual;
    then one is recorded, and all later ones copy their arguments to where the recorded step reads
    them and start it. The tensors that it returns are the same ones every time, with new values:
    copy what you keep. Arguments of other shapes (or other numbers) are recorded apart.

    Random numbers are drawn anew every time, the same as without a graph. Other generators than the
    GPU's default one that the step draws from are named in `generators`.

    What decides something on the host (`if loss > 1`, `.item()`) is not part of a graph; the
    recording raises and names the line.
    """
    recordings: dict[Any, Recording] = {}
    seen: dict[Any, int] = {}

    def graphed(*args: Any, **kwargs: Any) -> Any:
        values, spec = pytree.tree_flatten((args, kwargs))
        key = (spec, *[described(v) for v in values])
        found = recordings.get(key)
        if found is None:
            count = seen.get(key, 0)
            if count < warm_up:
                seen[key] = count + 1
                return step(*args, **kwargs)
            found = recordings[key] = record(step, values, spec, generators)
        found.fill(values)
        found.graph.replay()
        return found.result

    graphed.recordings = recordings  # type: ignore[attr-defined]
    return graphed


def described(value: Any) -> Any:
    """The facts about an argument that a recorded step depends on."""
    if isinstance(value, TensorBase):
        return value._array.shape, value._array.dtype, value._wants_grad
    return value


def record(
    step: Callable[..., Any], values: list[Any], spec: Any, generators: Sequence[Any] = ()
) -> Recording:
    """Record a step on static copies of its arguments. Nothing runs yet."""
    runtime.start()
    statics = [static_copy(v) if isinstance(v, TensorBase) else None for v in values]
    made = Recording(statics)
    for generator in generators:
        made.graph.register_generator_state(generator)
    inside = [v if s is None else s for v, s in zip(values, statics, strict=True)]
    args, kwargs = pytree.tree_unflatten(inside, spec)
    try:
        with graph(made.graph):
            made.result = step(*args, **kwargs)
    except Exception as error:
        found = not_captured(error)
        if found is error:
            raise
        raise found from error
    return made


def static_copy(t: Any) -> Any:
    """Another tensor in memory of its own, whose dimensions lie in the same order."""
    array = t._array
    xp = devices.DEVICE.xp
    if devices.is_device(t):
        strides = array.strides
        order = sorted(range(array.ndim), key=lambda d: -strides[d])
        back = sorted(range(array.ndim), key=order.__getitem__)
        copied = xp.array(array.transpose(order), order="C").transpose(back)
    else:
        copied = xp.asarray(array)
    made: Any = wrap(copied)
    made._wants_grad = t._wants_grad
    return made


def not_captured(error: Exception) -> Exception:
    """Name the line at which recording failed."""
    if "cannot be part of a CUDA graph" in str(error):
        return error
    where = None
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        ours = code.co_filename.startswith(evidence.PACKAGE) or ".pyx" in code.co_filename
        if not ours and not evidence.is_installed(trace.tb_frame):
            where = evidence.place(code, trace.tb_lasti)
        trace = trace.tb_next
    line = "" if where is None else f"\n  at:  {evidence.spell(where)}"
    return RuntimeError(
        f"the step cannot be captured into a CUDA graph: {type(error).__name__}: {error}{line}"
    )
