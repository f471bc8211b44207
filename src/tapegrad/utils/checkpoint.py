"""Checkpointing: trade memory for time by computing saved values again during backward.

>>> import tapegrad as torch
>>> from tapegrad.utils.checkpoint import checkpoint
>>> x = torch.tensor([0.0, 1.0], requires_grad=True)
>>> checkpoint(lambda t: t.exp() * 2, x, use_reentrant=False).sum().backward()
>>> x.grad
tensor([2.0000, 5.4366])
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import tapegrad as tg

from ..autograd.graph import saved_tensors_hooks
from ..core.base import TensorBase, wrap
from ..core.modes import MODES
from ..core.per_thread import PerThread
from ..core.python_dispatch import ACTIVE, called_as_a_whole
from ..core.warned import warn
from ..ops.draws.twister import Stream
from ._checkpoint_errors import CheckpointError, Mismatch, Seen
from ._memory_budget import budget
from ._selective_checkpoint import (
    SAC_IGNORED_OPS,
    CheckpointPolicy,
    SelectiveCheckpointContext,
    create_selective_checkpoint_contexts,
)

__all__ = [
    "SAC_IGNORED_OPS",
    "CheckpointError",
    "CheckpointFunction",
    "CheckpointPolicy",
    "DefaultDeviceType",
    "GraphExecGroup",
    "SelectiveCheckpointContext",
    "budget",
    "check_backward_validity",
    "checkpoint",
    "checkpoint_sequential",
    "create_selective_checkpoint_contexts",
    "detach_variable",
    "get_device_states",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
    "set_device_states",
]

Contexts = tuple[contextlib.AbstractContextManager[Any], contextlib.AbstractContextManager[Any]]

CHOOSE_VARIANT = (
    "use_reentrant=False is recommended, but if you need to preserve the current default behavior, "
    "you can pass use_reentrant=True. Refer to docs for more details on the differences between "
    "the two variants."
)
SUPPRESSED = (
    "torch.utils.checkpoint: the forward context provided by context_fn suppressed an exception "
    "raised during the checkpointed forward. This is not supported because checkpoint cannot "
    "return a value for a failed forward."
)


# ---------------------------------------------------------------------- switches


class _Switches:
    """Set for a block by the two context managers below; None leaves it to each checkpoint."""

    early_stop: bool | None = None
    debug: bool | None = None


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """For checkpoints made inside: whether recomputation stops at the last value it needs.

    >>> x = tensor([2.0], requires_grad=True)
    >>> with utils.checkpoint.set_checkpoint_early_stop(False):
    ...     y = utils.checkpoint.checkpoint(lambda x: x * x, x, use_reentrant=False)
    >>> y.backward()
    >>> x.grad
    tensor([4.])
    """
    before = _Switches.early_stop
    _Switches.early_stop = enable
    try:
        yield
    finally:
        _Switches.early_stop = before


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """For checkpoints made inside: whether errors list everything that was saved; None: by each.

    >>> with utils.checkpoint.set_checkpoint_debug_enabled(False):
    ...     y = utils.checkpoint.checkpoint(torch.exp, zeros(1), use_reentrant=False)
    >>> y
    tensor([1.])
    """
    before = _Switches.debug
    _Switches.debug = enabled
    try:
        yield
    finally:
        _Switches.debug = before


def noop_context_fn() -> Contexts:
    """The default `context_fn`: nothing around forward, nothing around recomputation.

    >>> forward, again = utils.checkpoint.noop_context_fn()
    >>> with forward:
    ...     print(ones(1) + 1)
    tensor([2.])
    """
    return contextlib.nullcontext(), contextlib.nullcontext()


class DefaultDeviceType:
    """The type of device whose random state is kept when no argument tells.

    >>> utils.checkpoint.DefaultDeviceType.set_device_type("cpu")
    >>> utils.checkpoint.DefaultDeviceType.get_device_type()
    'cpu'
    """

    _default_device_type = "cuda" if tg.cuda.is_available() else "cpu"

    @staticmethod
    def set_device_type(device: str = "cuda") -> None:
        DefaultDeviceType._default_device_type = device

    @staticmethod
    def get_device_type() -> str:
        return DefaultDeviceType._default_device_type


class GraphExecGroup:
    """Backward passes inside the block share what is recomputed; they must not need it twice.

    >>> with utils.checkpoint.GraphExecGroup() as group:
    ...     x = tensor([1.0], requires_grad=True)
    ...     y = utils.checkpoint.checkpoint(torch.exp, x, use_reentrant=False)
    ...     y.backward(retain_graph=True)
    >>> x.grad
    tensor([2.7183])
    """

    _current = PerThread()

    def __enter__(self) -> GraphExecGroup:
        inside = GraphExecGroup._get_current_group()
        if inside is not None:
            raise RuntimeError(
                f"GraphExecGroup contexts cannot be nested. Already inside group {inside}"
            )
        GraphExecGroup._current.group = self
        return self

    def __exit__(self, *error: object) -> None:
        GraphExecGroup._current.group = None

    @classmethod
    def _get_current_group(cls) -> GraphExecGroup | None:
        found: GraphExecGroup | None = getattr(cls._current, "group", None)
        return found


# ---------------------------------------------------------------------- surroundings


def get_device_states(*args: Any) -> tuple[list[int], list[Any]]:
    """The numbers and random states of the CUDA devices that hold an argument.

    >>> utils.checkpoint.get_device_states(zeros(2), 3)
    ([], [])
    """
    tensors: list[Any] = [a for a in args if isinstance(a, TensorBase)]
    found = {a.get_device() for a in tensors if a.device.type == "cuda"}
    devices = sorted(found)
    return devices, [tg.cuda.get_rng_state(d) for d in devices]


def set_device_states(
    devices: list[int], states: list[Any], *, device_type: str | None = None
) -> None:
    """Go on from the states of `get_device_states`.

    >>> devices, states = utils.checkpoint.get_device_states(zeros(2))
    >>> utils.checkpoint.set_device_states(devices, states)
    """
    if device_type in (None, "cuda"):
        for device, state in zip(devices, states, strict=True):
            tg.cuda.set_rng_state(state, device)


_spare_streams: list[Stream] = []  # a stream takes much longer to make than to set


@called_as_a_whole
def _random_state() -> Any:
    """Where the random numbers of the CPU go on, as a tensor: a recorded call reads it anew."""
    return wrap(tg.default_generator.stream.get_state())


@called_as_a_whole
def _go_on_from(state: Any) -> None:
    tg.default_generator.stream.set_state(state._array)


_go_on_from.__wrapped__.only_reads = True  # type: ignore[attr-defined]  # what it is given


class _Surroundings:
    """Modes and random state on which a function's result depends, to be set up once more."""

    def __init__(self, preserve_rng_state: bool, args: tuple[Any, ...]) -> None:
        self.autocast = MODES.autocast
        self.state = _random_state() if preserve_rng_state else None
        self.devices, self.states = get_device_states(*args) if preserve_rng_state else ([], [])

    @contextlib.contextmanager
    def restored(self) -> Iterator[None]:
        generator = tg.default_generator
        now = generator.stream
        cast = contextlib.ExitStack()
        if MODES.autocast != self.autocast:
            for kind, dtype in zip(("cpu", "cuda"), self.autocast or (None, None), strict=True):
                cast.enter_context(tg.amp.autocast(kind, dtype, dtype is not None))
        with tg.random.fork_rng(self.devices, enabled=bool(self.devices)), cast:
            if self.state is None:
                yield
                return
            if any([mode.records_steps for mode in ACTIVE.modes]):
                # Kernels of a recording draw from one stream, which goes back and forth.
                here = _random_state()
                _go_on_from(self.state)
                try:
                    yield
                finally:
                    _go_on_from(here)
                return
            stream = _spare_streams.pop() if _spare_streams else Stream()
            stream.set_state(self.state._array)
            set_device_states(self.devices, self.states)
            generator.stream = stream
            try:
                yield
            finally:
                generator.stream = now
                _spare_streams.append(stream)


# ---------------------------------------------------------------------- saved tensors, by hooks


class _StopRecomputationError(Exception):
    """Everything that was saved is there again; the rest of the function need not run."""


class _Holder:
    """Stands in the graph for a tensor that was not kept; has it again during a pass."""

    __slots__ = ("__weakref__", "values")

    def __init__(self) -> None:
        self.values: dict[Any, Any] = {}  # per backward pass; None once it was handed out


def _metadata(x: Any) -> dict[str, Any]:
    return {"shape": x.shape, "dtype": x.dtype, "device": x.device}


DETERMINISM_CHECKS: dict[str, Callable[[Any], Any]] = {
    "default": _metadata,
    "none": lambda x: None,
}


class _KeepInputs(tg.autograd.Function):
    """Saves its arguments like any op would: hooks of the user and of outer checkpoints apply."""

    @staticmethod
    def forward(anchor: Any, *tensors: Any) -> Any:
        return tg.empty(0)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(*inputs[1:])

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        raise AssertionError("the result of _KeepInputs is never used")


class _Inputs:
    """The arguments of a checkpointed call: tensors saved in the graph, the rest as it is."""

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        values = [*args, *kwargs.values()]
        self.count = len(args)
        self.names = list(kwargs)
        self.rest = [None if isinstance(v, TensorBase) else v for v in values]
        self.places = [i for i, v in enumerate(values) if isinstance(v, TensorBase)]
        anchor = tg.empty(0, requires_grad=True)
        # None where gradients are switched off.
        self.node = _KeepInputs.apply(anchor, *[values[i] for i in self.places]).grad_fn

    def get(self) -> tuple[list[Any], dict[str, Any]]:
        values = list(self.rest)
        for i, t in zip(self.places, self.node.saved_tensors, strict=True):
            values[i] = t
        return values[: self.count], dict(zip(self.names, values[self.count :], strict=True))


class _Frame:
    """One checkpointed call: what it saved, in order, and how to do it again."""

    def __init__(
        self,
        inputs: _Inputs,
        again: Callable[..., Any],
        metadata: Callable[[Any], Any],
        early_stop: bool,
        debug: bool,
    ) -> None:
        self.inputs = inputs
        self.again = again
        self.metadata = metadata
        self.early_stop = early_stop
        self.debug = debug
        self.holders: list[weakref.ref[_Holder]] = []
        self.saved: list[Seen] = []
        self.complete = False  # backward can come before the function has returned

    def pack(self, x: Any) -> _Holder:
        holder = _Holder()
        self.holders.append(weakref.ref(holder))
        self.saved.append(Seen(x, self.metadata(x)))
        return holder

    def unpack(self, holder: _Holder) -> Any:
        key = _current_pass()
        if key not in holder.values:
            _Recomputation(self, key).run()
        found = holder.values.get(key)
        if found is None:
            group = ""
            if GraphExecGroup._get_current_group() is not None:
                group = (
                    "Performing two backward calls that overlap (i.e. require the same saved "
                    "activation in order to compute gradients) is not allowed while under the "
                    "torch.utils.checkpoint.GraphExecGroup context. "
                )
            raise CheckpointError(
                "torch.utils.checkpoint: Unpack is being triggered for a tensor that was already "
                f"unpacked once. {group}If you are calling ctx.saved_tensors in backward, make "
                "sure to do so only once. Otherwise please open an issue with details on your use "
                "case."
            )
        holder.values[key] = None
        return found


def _current_pass() -> Any:
    """The key for recomputed values: the group or the backward pass; else this one read."""
    group = GraphExecGroup._get_current_group()
    if group is not None:
        return group
    run = MODES.run
    if run is None:
        return object()
    return id(run) if run.caller is None else run.caller


class _Recomputation:
    """The function of a frame run once more, its saved tensors handed to the holders."""

    def __init__(self, frame: _Frame, key: Any) -> None:
        self.frame = frame
        self.key = key
        self.saved: list[Seen] = []

    def run(self) -> None:
        args, kwargs = self.frame.inputs.get()
        try:
            with saved_tensors_hooks(self.pack, lambda x: x), tg.enable_grad():
                self.frame.again(*args, **kwargs)
        except _StopRecomputationError as stop:
            if stop.args[0] is not self:
                raise
        if self.frame.complete:
            self.check()

    def pack(self, x: Any) -> Any:
        frame = self.frame
        place = len(self.saved)
        self.saved.append(Seen(x, frame.metadata(x)))
        value = x.detach() if x.requires_grad else x
        if place >= len(frame.holders):
            if frame.complete:
                raise self.mismatch().too_many()
            return value
        holder = frame.holders[place]()
        if holder is not None:
            holder.values[self.key] = value
        if frame.early_stop and place + 1 == len(frame.holders):
            raise _StopRecomputationError(self)
        return value

    def check(self) -> None:
        """Complain about tensors that are missing, or have another shape, dtype or device."""
        frame = self.frame
        if len(frame.saved) != len(self.saved):
            raise self.mismatch().too_few()
        differ = [
            i
            for i, (before, now) in enumerate(zip(frame.saved, self.saved, strict=True))
            if frame.holders[i]() is not None and before.metadata != now.metadata
        ]
        if differ:
            raise self.mismatch().different(differ)

    def mismatch(self) -> Mismatch:
        return Mismatch(self.frame.saved, self.saved, self.frame.debug)


def _without_reentrant(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    preserve_rng_state: bool,
    context_fn: Callable[[], Contexts],
    determinism_check: str,
    debug: bool,
    early_stop: bool,
) -> Any:
    if _Switches.early_stop is not None:
        early_stop = _Switches.early_stop
    if _Switches.debug is not None:
        debug = _Switches.debug
    if debug and context_fn is not noop_context_fn:
        raise ValueError("debug=True is incompatible with non-default context_fn")
    if determinism_check not in DETERMINISM_CHECKS:
        raise ValueError(
            f"determinism_check should be one of {list(DETERMINISM_CHECKS)}, but got "
            f"{determinism_check}"
        )
    forward_context, recompute_context = context_fn()
    surroundings = _Surroundings(preserve_rng_state, args)

    def again(*args: Any, **kwargs: Any) -> None:
        with surroundings.restored(), recompute_context:
            function(*args, **kwargs)

    inputs = _Inputs(args, kwargs)
    if inputs.node is None:
        return function(*args, **kwargs)
    metadata = DETERMINISM_CHECKS[determinism_check]
    frame = _Frame(inputs, again, metadata, early_stop, debug)
    finished = False
    with saved_tensors_hooks(frame.pack, frame.unpack), forward_context:
        result = function(*args, **kwargs)
        finished = True
    frame.complete = True
    if not finished:
        raise RuntimeError(SUPPRESSED)
    return result


# ---------------------------------------------------------------------- backward inside backward


def detach_variable(inputs: Any) -> tuple[Any, ...]:
    """The tensors of a tuple as leaves that require grad as before.

    >>> x = tensor([1.0], requires_grad=True) * 2
    >>> (copy,) = utils.checkpoint.detach_variable((x,))
    >>> copy, copy.is_leaf
    (tensor([2.], requires_grad=True), True)
    """
    if not isinstance(inputs, tuple):
        raise RuntimeError(
            "Only tuple of tensors is supported. Got Unsupported input type: "
            f"{type(inputs).__name__}"
        )
    return tuple(
        [
            v.detach().requires_grad_(v.requires_grad) if isinstance(v, TensorBase) else v  # type: ignore[attr-defined]
            for v in inputs
        ]
    )


def check_backward_validity(inputs: Iterable[Any]) -> None:
    """Warn if no gradient can come out.

    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as told:
    ...     warnings.simplefilter("always")
    ...     utils.checkpoint.check_backward_validity([ones(2)])
    >>> print(told[0].message)
    None of the inputs have requires_grad=True. Gradients will be None
    """
    if not any(isinstance(v, TensorBase) and v.requires_grad for v in inputs):  # type: ignore[attr-defined]
        warn("None of the inputs have requires_grad=True. Gradients will be None")


class CheckpointFunction(tg.autograd.Function):
    """The variant with use_reentrant=True: forward keeps nothing, backward runs a backward.

    >>> x = tensor([0.0, 2.0], requires_grad=True)
    >>> y = utils.checkpoint.checkpoint(torch.exp, x, use_reentrant=True)
    >>> y.grad_fn.name()
    'CheckpointFunctionBackward'
    >>> issubclass(utils.checkpoint.CheckpointFunction, autograd.Function)
    True
    """

    @staticmethod
    def forward(
        ctx: Any, run_function: Callable[..., Any], preserve_rng_state: bool, *args: Any
    ) -> Any:
        check_backward_validity(args)
        ctx.run_function = run_function
        ctx.surroundings = _Surroundings(preserve_rng_state, args)
        ctx.inputs = [None if isinstance(a, TensorBase) else a for a in args]
        ctx.tensor_indices = [i for i, a in enumerate(args) if isinstance(a, TensorBase)]
        ctx.save_for_backward(*[args[i] for i in ctx.tensor_indices])
        with tg.no_grad():
            return run_function(*args)

    @staticmethod
    def backward(ctx: Any, *args: Any) -> Any:
        if MODES.run is not None and not MODES.run.is_whole():
            raise RuntimeError(
                "When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or "
                "passing an `inputs` parameter to .backward(). To resolve this error, you can "
                "either set use_reentrant=False, or call .backward() without passing the `inputs` "
                "argument."
            )
        inputs = list(ctx.inputs)
        for i, t in zip(ctx.tensor_indices, ctx.saved_tensors, strict=True):
            inputs[i] = t
        detached = detach_variable(tuple(inputs))
        with ctx.surroundings.restored(), tg.enable_grad():
            outputs = ctx.run_function(*detached)
        if isinstance(outputs, TensorBase):
            outputs = (outputs,)
        pairs = [
            (out, grad)
            for out, grad in zip(outputs, args, strict=False)
            if isinstance(out, TensorBase) and out.requires_grad  # type: ignore[attr-defined]
        ]
        if not pairs:
            raise RuntimeError(
                "none of output has requires_grad=True, this checkpoint() is not necessary"
            )
        tg.autograd.backward([out for out, _ in pairs], [grad for _, grad in pairs])
        grads = [v.grad if isinstance(v, TensorBase) else None for v in detached]  # type: ignore[attr-defined]
        return (None, None, *grads)


# ---------------------------------------------------------------------- what users call


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], Contexts] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """function(*args, **kwargs) without keeping what its backward needs: that is computed again.

    Random numbers come out the same the second time, unless `preserve_rng_state=False`.

    >>> x = tensor([1.0], requires_grad=True)
    >>> y = utils.checkpoint.checkpoint(lambda x: (x * 2).exp(), x, use_reentrant=False)
    >>> y.sum().backward()
    >>> x.grad
    tensor([14.7781])
    """
    if use_reentrant is None:
        warn(
            "torch.utils.checkpoint: the use_reentrant parameter should be passed explicitly. "
            "Starting in PyTorch 2.9, calling checkpoint without use_reentrant will raise an "
            "exception. " + CHOOSE_VARIANT,
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if use_reentrant:
        if kwargs:
            raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
        if context_fn is not noop_context_fn or debug is not False:
            raise ValueError(
                "Passing `context_fn` or `debug` is only supported when use_reentrant=False."
            )
        return CheckpointFunction.apply(function, preserve, *args)
    return _without_reentrant(
        function, args, kwargs, preserve, context_fn, determinism_check, debug, early_stop
    )


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """Run functions one after the other, in `segments` checkpoints; the last one is not.

    >>> layers = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1))
    >>> x = ones(3, 2, requires_grad=True)
    >>> utils.checkpoint.checkpoint_sequential(layers, 2, x, use_reentrant=False).shape
    torch.Size([3, 1])
    """
    if use_reentrant is None:
        warn(
            "torch.utils.checkpoint.checkpoint_sequential: the use_reentrant parameter should be "
            "passed explicitly. In version 2.9 we will raise an exception if use_reentrant is not "
            "passed. " + CHOOSE_VARIANT,
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    steps = functions
    if isinstance(functions, tg.nn.Sequential):  # type: ignore[attr-defined]
        steps = list(functions.children())
    size = len(steps) // segments

    def chain(part: list[Callable[..., Any]]) -> Callable[[Any], Any]:
        def run(value: Any) -> Any:
            for step in part:
                value = step(value)
            return value

        return run

    last = size * (segments - 1)
    for start in range(0, last, size):
        input = checkpoint(
            chain(steps[start : start + size]),
            input,
            use_reentrant=use_reentrant,
            preserve_rng_state=preserve,
        )
    return chain(steps[last:])(input)
