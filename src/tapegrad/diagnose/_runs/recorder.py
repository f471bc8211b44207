"""`record("run.tgr")`: write down every op of a block with a summary of what it read and made.

Forward ops come through a mode below autograd, backward nodes from an observer of the engine, and
a step of an optimizer is one entry per parameter: what it does inside runs as it does unrecorded.
The mode leaves the backward pass on arrays, so a recorded run computes the same bits. A compiled
function runs its Python code while a mode is on: its ops are recorded one by one, as eager ops.

The format and the summary of values are in tapegrad/recorder_for_torch.py.
"""

from __future__ import annotations

import platform
import sys
import threading
import weakref
from typing import Any

import numpy as np

import tapegrad as tg

from ...autograd import api, watched
from ...core.array_kind import host
from ...core.base import STATE, TensorBase, user_frame
from ...core.dispatch import apply
from ...core.lazy_conj import plain
from ...core.modes import MODES
from ...core.python_dispatch import ACTIVE, Call, OpMode, leaves_of, modes_set_to
from ...kernels.cpu import KERNELS
from ...nn.modules.module import Module
from ...optim import optimizer as optimizers
from ...recorder_for_torch import (
    BACKWARD,
    BEGAN_BACKWARD,
    FORWARD,
    NONE,
    NOTHING,
    OPTIMIZER,
    OVERWRITES,
    RANDOM_OP,
    SAID,
    STEPPED,
    UNDEFINED,
    WRITES,
    Filter,
    Notes,
    Paths,
    Stream,
    position_of,
    spelled_arguments,
    spelled_options,
    summary_of,
)

# Ops that draw from the random stream, by their names in PyTorch, which has a tag for them.
RANDOM_OPS = frozenset(
    """bernoulli bernoulli_ binomial cauchy_ dropout exponential_ geometric_ log_normal_ multinomial
    native_dropout normal normal_ poisson rand rand_like randint randint_like randn randn_like
    random_ randperm rrelu_with_noise rrelu_with_noise_ uniform_ _fused_dropout""".split()
)
UNSEEN = frozenset({"lift_fresh", "_local_scalar_dense"})  # they make no value


def is_tensor(value: Any) -> bool:
    return isinstance(value, TensorBase)


def summary(array: Any) -> bytes:
    """The summary of an array, wherever it is."""
    if type(array) is np.ndarray and KERNELS is not None:
        found: bytes | None = KERNELS.value_summary(array)
        if found is not None:
            return found
    if type(array) is STATE.meta_type or not hasattr(array, "dtype"):
        return NOTHING
    array = np.asarray(host(plain(array)))
    if array.dtype.kind == "V" or array.dtype.name.startswith(("bfloat", "float8")):
        array = np.ascontiguousarray(array)
        same = np.dtype(f"u{array.dtype.itemsize}")
        return summary_of(array.view(same), array.astype(np.float64))
    if array.dtype.kind not in "biufc":
        return NOTHING
    if KERNELS is not None and array.dtype.kind == "f" and not array.flags.c_contiguous:
        dense: bytes | None = KERNELS.value_summary(np.ascontiguousarray(array))
        if dense is not None:
            return dense
    return summary_of(array)


def random_position() -> int:
    """A number that says where the random stream of the CPU is."""
    return position_of(tg.get_rng_state()._array)


class Names:
    """PyTorch's names for our ops, and whether an op draws random numbers."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.known: dict[Any, tuple[int, int]] = {}

    def of(self, name: str) -> tuple[int, int]:
        found = self.known.get(name)
        if found is None:
            flags = RANDOM_OP if name in RANDOM_OPS else 0
            if name.endswith("_") and not name.startswith("_"):
                flags |= WRITES
            found = self.known[name] = self.stream.text(name), flags
        return found


class Recorder(OpMode):
    """The mode that sees every op while a recording is on."""

    def __init__(self, stream: Stream, chosen: Filter) -> None:
        self.stream = stream
        self.filter = chosen
        self.names = Names(stream)
        self.thread = threading.get_ident()
        self.empty = stream.text("")
        self.arguments: dict[Any, int] = {}
        self.whats: dict[Any, tuple[int, Any]] = {}
        self.paths = Paths()
        self.module_ids: dict[int, tuple[Any, int, bool]] = {}
        # The numbers of values by the ids of their arrays, which are held; `named`: of parameters.
        self.cache: dict[int, tuple[Any, int]] = {}
        self.named: dict[int, tuple[Any, int]] = {}
        # In a backward pass: the array of the one gradient that a node has been given, by the ids
        # of the nodes; None: several, which are added up in the memory of one of them.
        self.arrived: dict[int, Any] = {}
        self.leaves: dict[int, tuple[Any, int]] = {}  # that get their first gradient, and its value
        self.step_number = 0
        self.wanted = chosen.wants_step(0)
        self.began: set[int] = set()
        # Memory that `empty` gave and that nobody has read yet, by the ids of its arrays: what is
        # in it is chance, and rows that are written one by one do not change that.
        self.unset: dict[int, Any] = {}
        self.position = random_position()  # of the random stream, after the last op that drew
        self.pending: list[Any] = []  # optimizers that are in their step
        self.watch: Any = None  # NonfiniteWatch (nonfinite.py)

    # ------------------------------------------------------------------ where

    def line(self) -> int:
        frame = user_frame(2)
        return NONE if frame is None else self.stream.line(frame.f_code, frame.f_lasti)

    def module(self) -> tuple[int, bool]:
        """The number of the running module's path, and whether it is recorded."""
        ref = STATE.module
        module = None if ref is None else ref()
        return self.path_of(module)

    def path_of(self, module: Any) -> tuple[int, bool]:
        if module is None:
            return self.empty, self.filter.patterns is None
        known = self.module_ids.get(id(module))
        if known is None or known[0]() is not module:
            path = self.paths.of(module)
            if path is None:
                self.paths.enter(outermost_around(module))
                path = self.paths.of(module) or type(module).__name__
            wanted = self.filter.wants_module(path)
            known = (weakref.ref(module), self.stream.text(path), wanted)
            self.module_ids[id(module)] = known
        return known[1], known[2]

    # ------------------------------------------------------------------ values

    def value(self, t: Any) -> int:
        array = t._array
        if self.unset and self.is_unset(array):
            return NONE
        known = self.cache.get(id(array)) or self.named.get(id(array))
        if known is not None and known[0] is array:
            return known[1]
        name = self.paths.names.get(id(t))
        if name is not None and name[0]() is t:
            made = self.of_array(array, self.stream.text(name[1]))
            self.named[id(array)] = (array, made)
        else:
            made = self.of_array(array)
            self.cache[id(array)] = (array, made)
        return made

    def of_array(self, array: Any, name: int = NONE) -> int:
        try:
            dtype = array.dtype
            known = self.whats.get((id(dtype), array.shape))
        except AttributeError:  # sparse tensors and the like have no array
            return self.stream.value(NOTHING, self.stream.text(type(array).__name__), name)
        if known is None:
            what = self.stream.text(f"{dtype_name(array)} {tuple(array.shape)}")
            # The dtype is held, so that its id stays its own.
            known = self.whats[id(dtype), array.shape] = (what, dtype)
        return self.stream.value(summary(array), known[0], name)

    def is_unset(self, array: Any) -> bool:
        """Whether what is in an array is chance: memory of `empty`, not written or not wholly."""
        base = base_of(array)
        known = self.unset.get(id(base))
        if known is None:
            return False
        if known() is base:
            return True
        del self.unset[id(base)]
        return False

    def settle(self, tensors: Any, results: Any = ()) -> None:
        """Tensors are read by what makes no view of them: from now on their values count."""
        for t in tensors:
            if self.is_unset(t._array):
                base = base_of(t._array)
                if not any([base_of(r._array) is base for r in results]):
                    del self.unset[id(base)]

    def written(self, name: str, target: Any) -> None:
        """A tensor was written; all of its memory, if an op that overwrites did it."""
        base = base_of(target._array)
        if self.is_unset(base) and name in OVERWRITES and base.nbytes == target._array.nbytes:
            del self.unset[id(base)]

    def forget(self) -> None:
        """Memory may have been written: everything is looked at again."""
        self.cache.clear()
        self.named.clear()

    # ------------------------------------------------------------------ ops

    def is_on(self) -> bool:
        return self.wanted and threading.get_ident() == self.thread

    def run(self, op: Any, tensors: Any, attrs: Any, watch: Any) -> Any:
        """An op of ours, in the place of `apply`."""
        if not self.wanted or threading.get_ident() != self.thread:
            return apply(op, tensors, attrs, watch)
        module, inside = self.module()
        if not inside:
            return apply(op, tensors, attrs, watch)
        name, flags = self.names.of((op.aten or op.name).partition(".")[0])
        value = self.value
        read = [value(t) for t in tensors if isinstance(t, TensorBase)]
        for t in watch:
            if isinstance(t, TensorBase):
                read.append(value(t))
        if len(self.cache) > 4096:
            self.cache.clear()  # it holds the arrays that it knows
        out = apply(op, tensors, attrs, watch)
        if self.unset:
            given = [t for t in (*tensors, *watch) if isinstance(t, TensorBase)]
            self.settle(given, [t for t in leaves_of(out) if isinstance(t, TensorBase)])
            read = [value(t) for t in given]
        if isinstance(out, TensorBase):
            made = [value(out)]
        else:
            made = [value(t) for t in leaves_of(out) if isinstance(t, TensorBase)]
        where = self.line(), module, self.spelled(op, tensors, attrs)
        if flags & RANDOM_OP:
            self.position = random_position()
            self.stream.random(self.position)
        self.stream.op(FORWARD, flags, name, where, (read, made))
        if self.watch is not None:
            self.watch.after_op(op, tensors, attrs, watch, out, where)
        return out

    def spelled(self, op: Any, tensors: Any, attrs: Any) -> int:
        """The number of an op's arguments that are no tensors, as text."""
        if not attrs and isinstance(tensors[-1] if tensors else None, TensorBase):
            return self.empty
        numbers = [t for t in tensors if t is not None and not isinstance(t, TensorBase)]
        try:
            key = op.name, tuple(numbers), attrs
            known = self.arguments.get(key)
        except TypeError:  # arrays and slices are not hashable
            key, known = None, None
        if known is None:
            named = dict(zip(op.attrs, attrs, strict=False))
            known = self.stream.text(spelled_arguments((numbers, named), is_tensor))
            if key is not None:
                self.arguments[key] = known
        return known

    def ask(self, call: Call) -> Any:
        """A function that is no op, or a write into a tensor."""
        if not self.is_on():
            return call.again(call.args, call.kwargs)
        module, inside = self.module()
        spelled = str(call.overload).rpartition(".")[0].partition(".")[2]
        name, flags = self.names.of(spelled)
        if not inside or spelled in UNSEEN:
            if flags & WRITES:
                self.forget()
            return call.again(call.args, call.kwargs)
        given = [t for t in leaves_of((call.args, call.kwargs)) if isinstance(t, TensorBase)]
        if self.unset and flags & WRITES:
            self.settle(given[1:], given[:1])
        read = [self.value(t) for t in (given[1:] if spelled in OVERWRITES else given)]
        before = None if self.watch is None else self.watch.before_call(call)
        out = call.again(call.args, call.kwargs)
        if flags & WRITES:
            self.forget()
        results = given[:1] if flags & WRITES and out is None else leaves_of(out)
        results = [t for t in results if isinstance(t, TensorBase)]
        if spelled in UNDEFINED and not flags & WRITES:
            for t in results:
                self.unset[id(base_of(t._array))] = weakref.ref(base_of(t._array))
        elif self.unset and flags & WRITES and given:
            self.written(spelled, given[0])
        elif self.unset:
            self.settle(given, results)
            read = [self.value(t) for t in given]
        made = [] if spelled in UNDEFINED else [self.value(t) for t in results]
        told = self.stream.text(spelled_arguments((call.args, call.kwargs), is_tensor))
        where = self.line(), module, told
        if flags & RANDOM_OP:
            self.position = random_position()
            self.stream.random(self.position)
        self.stream.op(FORWARD, flags, name, where, (read, made))
        if self.watch is not None:
            self.watch.after_call(call, before, results, where)
        return out

    # ------------------------------------------------------------------ backward

    def node_done(self, node: Any, total: Any, grads: Any) -> None:
        """An observer of the engine: a node of a backward pass has run."""
        if not self.is_on():
            return
        ref = node._module
        module, inside = self.path_of(None if ref is None else ref())
        if not inside:
            return
        parts = total if type(total) is list else (total,)
        self.arrived.pop(id(node), None)
        read = [self.gradient(g) for g in parts if g is not None]
        made = []
        for g, edge in zip(grads or (), node._edges, strict=False):
            if g is None or edge is None:
                made.append(NONE)
                continue
            made.append(self.gradient(g))
            self.hand_on(edge, g, made[-1])
        line = NONE
        if node._code is not None:
            line = self.stream.line(node._code, node._lasti)
        where = line, module, self.empty
        self.stream.op(BACKWARD, 0, self.names.of(node.name())[0], where, (read, made))
        if self.watch is not None:
            self.watch.after_node(node, parts, grads, where)

    def gradient(self, g: Any) -> int:
        array = g._array if isinstance(g, TensorBase) else g
        known = self.cache.get(id(array))
        if known is not None and known[0] is array:
            return known[1]
        made = self.of_array(array)
        self.cache[id(array)] = (array, made)
        return made

    def hand_on(self, edge: Any, g: Any, number: int) -> None:
        """A gradient goes to a node; a second one may be added to it where it is."""
        array = g._array if isinstance(g, TensorBase) else g
        if id(edge) not in self.arrived:
            self.arrived[id(edge)] = array
            if edge._is_leaf and edge._hooks is None:
                leaf = edge.tensor()
                if leaf is not None and leaf._gradient is None:
                    self.leaves[id(edge)] = leaf, number
            return
        self.leaves.pop(id(edge), None)
        self.cache.pop(id(self.arrived[id(edge)]), None)
        self.cache.pop(id(array), None)
        self.arrived[id(edge)] = None

    def launch(self, original: Any) -> Any:
        def launched(run: Any, starts: Any, graph: bool = False) -> None:
            outermost = MODES.run is None
            if self.is_on() and outermost:
                self.stream.mark(BEGAN_BACKWARD, self.step_number, 0)
                self.cache.clear()  # it may have a `.grad`, which is added to in place
            try:
                original(run, starts, graph)
            finally:
                if outermost:
                    self.arrived.clear()
                    for leaf, number in self.leaves.values():
                        grad = leaf._gradient  # a copy of what arrived
                        if grad is not None and leaf._array.dtype == grad._array.dtype:
                            self.cache[id(grad._array)] = grad._array, number
                    self.leaves.clear()
            if self.watch is not None and outermost:
                self.watch.after_backward()

        return launched

    def on_tensors(self, original: Any) -> Any:
        """Whether a pass runs on tensors does not depend on this mode."""

        def asked(roots: Any) -> Any:
            with modes_set_to(tuple([m for m in ACTIVE.modes if m is not self])):
                return original(roots)

        return asked

    # ------------------------------------------------------------------ optimizers

    def before_step(self, optimizer: Any, args: Any, kwargs: Any) -> Any:
        if threading.get_ident() != self.thread:
            return None
        first = id(optimizer) not in self.began
        self.began.add(id(optimizer))
        entries = []
        if self.wanted:
            for group in optimizer.param_groups:
                told = self.stream.text(spelled_options(group))
                for p in group["params"]:
                    grad = p._gradient
                    if grad is None:
                        continue
                    if self.unset:
                        self.settle((p, grad))
                    read = [self.value(p), self.value(grad)]
                    if first:  # afterwards it follows from what was recorded
                        state = leaves_of(optimizer.state.get(p, {}))
                        read += [self.value(t) for t in state if isinstance(t, TensorBase)]
                    entries.append((p, read, told))
        if self.watch is not None:
            self.watch.before_step(optimizer)
        modes = ACTIVE.modes
        self.pending.append((optimizer, entries, self.line(), modes))
        ACTIVE.modes = tuple([m for m in modes if m is not self])
        return self.with_mode(args, kwargs)

    def with_mode(self, args: Any, kwargs: Any) -> Any:
        """The arguments of step() with a closure whose ops are seen."""

        def wrapped(closure: Any) -> Any:
            def call() -> Any:
                with modes_set_to((*ACTIVE.modes, self)):
                    return closure()

            return call

        args = tuple([wrapped(a) if callable(a) and i else a for i, a in enumerate(args)])
        named = {k: wrapped(v) if k == "closure" and v else v for k, v in kwargs.items()}
        return args, named

    def after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if threading.get_ident() != self.thread or not self.pending:
            return
        _, entries, line, modes = self.pending.pop()
        ACTIVE.modes = modes
        self.forget()
        name = self.stream.text(f"{type(optimizer).__name__}.step")
        for p, read, told in entries:
            where = line, self.empty, told
            self.stream.op(OPTIMIZER, WRITES, name, where, (read, [self.value(p)]))
        if self.watch is not None:
            self.watch.after_step(optimizer, line)
        self.end_step(STEPPED)

    def note(self, text: str) -> None:
        frame = user_frame(1)
        line = NONE if frame is None else self.stream.line(frame.f_code, frame.f_lasti)
        self.stream.note(text, line)

    def whole(self, function: Any, args: Any, kwargs: Any) -> Any:
        """A function that writes to more than its result, as the statistics of batch norm."""
        if function.__name__.startswith("clip_grad") and self.is_on():
            return self.clipped(function, args, kwargs)
        steps = len(self.pending)
        try:
            return function(*args, **kwargs)
        finally:
            if function.__name__ == "zero_grad":
                self.cache.clear()  # parameters are what they were
            else:
                self.forget()
            if len(self.pending) > steps:  # an optimizer's step raised, and its hook did not run
                ACTIVE.modes = self.pending[steps][3]
                del self.pending[steps:]

    def clipped(self, function: Any, args: Any, kwargs: Any) -> Any:
        """A function that writes to gradients, recorded as one op."""
        given = args[0] if args else kwargs.pop("parameters")
        given = [given] if isinstance(given, TensorBase) else list(given)
        grads = [p._gradient for p in given if p._gradient is not None]
        read = [self.value(g) for g in grads]
        with modes_set_to(tuple([m for m in ACTIVE.modes if m is not self])):
            result = function(given, *args[1:], **kwargs)
        self.forget()
        told = self.stream.text(spelled_arguments((args[1:], kwargs), is_tensor))
        where = self.line(), self.module()[0], told
        values = read, [self.value(g) for g in grads]
        self.stream.op(FORWARD, WRITES, self.stream.text(function.__name__), where, values)
        return result

    def end_step(self, what: int) -> None:
        self.stream.mark(what, self.step_number, self.position)
        self.step_number += 1
        self.wanted = self.filter.wants_step(self.step_number)
        self.forget()


def base_of(array: Any) -> Any:
    """The array whose memory an array is a view of."""
    base = getattr(array, "base", None)
    while type(base) is np.ndarray:
        array, base = base, base.base
    return array


def outermost_around(module: Any) -> Any:
    """The outermost of the running modules, which the path of `module` begins with."""
    found = module
    frame = sys._getframe(1)
    while frame is not None:
        held = frame.f_locals.get("self") if frame.f_code.co_varnames[:1] == ("self",) else None
        if isinstance(held, Module) and any([m is found for m in held.modules()]):
            found = held
        frame = frame.f_back  # type: ignore[assignment]
    return found


def dtype_name(array: Any) -> str:
    from ... import dtypes

    try:
        return str(dtypes.of(np.dtype(array.dtype))).removeprefix("torch.")
    except (KeyError, TypeError, ValueError):
        return str(array.dtype)


def head(options: dict[str, Any]) -> dict[str, Any]:
    """The head of the file: facts about the run."""
    return {
        "library": "tapegrad",
        "version": tg.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "system": platform.system(),
        "numpy": np.__version__,
        "native": KERNELS is not None,
        "program": sys.argv[:1],
        "threads": tg.get_num_threads(),
        "options": options,
    }


class record:
    """Record the ops of a block into a file that `tapegrad compare` reads.

    `every=10` records every tenth step, `steps=100` the first hundred (also a range or a list),
    `modules="blocks.0*"` only what runs inside of modules with such paths. A step ends with
    `optimizer.step()`; a loop without an optimizer calls `step()` of what the block gives.

    >>> import io
    >>> model = nn.Linear(2, 1)
    >>> with diagnose.record(io.BytesIO()) as run:
    ...     loss = model(tensor([[1.0, 2.0]])).sum()
    ...     loss.backward()
    >>> run.ops > 5
    True
    """

    def __init__(
        self,
        path: Any,
        *,
        every: int = 1,
        steps: Any = None,
        modules: Any = None,
        until_nonfinite: bool = False,
    ) -> None:
        if not hasattr(path, "write") and not isinstance(path, (str, bytes)):
            if not hasattr(path, "__fspath__"):
                raise TypeError(
                    "record(): argument 'path' must be a path or a binary file, not "
                    f"{type(path).__name__}"
                )
        self.path = path
        self.filter = Filter(every, steps, modules)
        self.until_nonfinite = until_nonfinite
        self.recorder: Recorder | None = None

    @property
    def ops(self) -> int:
        """How many ops were recorded so far."""
        return 0 if self.recorder is None else self.recorder.stream.ops

    @property
    def steps(self) -> int:
        """How many steps are over."""
        return 0 if self.recorder is None else self.recorder.step_number

    def step(self) -> None:
        """A step of a loop without an optimizer is over."""
        if self.recorder is None:
            raise RuntimeError("step() of a recording that has not begun")
        self.recorder.end_step(SAID)

    def __enter__(self) -> record:
        if self.recorder is not None:
            raise RuntimeError("this recording has begun already: a new one needs a new record()")
        if any([isinstance(mode, Recorder) for mode in ACTIVE.modes]):
            raise RuntimeError("a recording is on already: recordings do not nest")
        stream = Stream(self.path, head(self.filter.spelled()))
        recorder = self.recorder = Recorder(stream, self.filter)
        if self.until_nonfinite:
            from .nonfinite import NonfiniteWatch

            recorder.watch = NonfiniteWatch(recorder)
        stream.mark(SAID, 0, recorder.position)
        self.before = (api.launch, api.runs_on_tensors)
        self.notes = Notes(tg, recorder.note)
        self.notes.install()
        api.launch = recorder.launch(api.launch)
        api.runs_on_tensors = recorder.on_tensors(api.runs_on_tensors)
        self.handles = [
            optimizers.register_optimizer_step_pre_hook(recorder.before_step),
            optimizers.register_optimizer_step_post_hook(recorder.after_step),
        ]
        watched.observers.append(recorder.node_done)
        OpMode.__enter__(recorder)
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        recorder = self.recorder
        assert recorder is not None
        if recorder.pending:  # an optimizer's step raised: what it hid is there again
            ACTIVE.modes = recorder.pending[0][3]
            recorder.pending.clear()
        OpMode.__exit__(recorder, kind, error, trace)
        api.launch, api.runs_on_tensors = self.before
        self.notes.remove()
        for handle in self.handles:
            handle.remove()
        watched.observers.remove(recorder.node_done)
        recorder.forget()
        told = "finished" if kind is None else f"{kind.__name__}: {error}"
        recorder.stream.close({"end": told, "steps": recorder.step_number})
