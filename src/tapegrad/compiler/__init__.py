"""`tapegrad.compile`: a whole training step, recorded once and replayed by the kernels in C.

    step = tapegrad.compile(train_step)

The first call of each kind runs as usual, the next two are recorded and compared, and from then on
a call checks what it takes for granted and runs the list of kernels. docs/compile.md says what can
be recorded, and what happens to the rest; docs/notes/compiled-steps.md says how it works.
"""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Callable
from typing import Any, TypeVar, overload

from ..core.python_dispatch import ACTIVE

PURE_MARK = "__tapegrad_is_pure__"  # of functions whose calls are part of recordings

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "cudagraph_mark_step_begin",
    "disable",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "list_backends",
    "pure",
    "reset",
    "set_stance",
    "substitute_in_graph",
    "wrap_numpy",
]

# PyTorch's compilers: any of them is this one. Those of the second line are for debugging there.
BACKENDS = ("cudagraphs", "inductor", "onnxrt", "openxla", "tvm")
FOR_DEBUGGING = ("aot_eager", "aot_eager_decomp_partition", "aot_ts", "eager", "eager_debug", "ts")
MODES = ("default", "lite", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")


F = TypeVar("F", bound=Callable[..., Any])


@overload
def compile(model: F, **options: Any) -> F: ...
@overload
def compile(model: None = None, **options: Any) -> Callable[[F], F]: ...
def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Any = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    name: str | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
    shapes_spec: Any = None,
    check: bool = False,
) -> Any:
    """A function that computes what `model` does, by a recording from its fourth call on.

    `fullgraph` raises where something cannot be recorded; else it runs as ordinary Python, and says
    why once. With `check` every call runs both ways and is compared; without it a few do, ever more
    rarely (the 8th, 16th, 32nd …), unless `options={"verify": False}` is given. A module becomes an
    `OptimizedModule`, whose attributes are the module's. `compile.explain(f)` tells what became of
    a compiled function.

    >>> double = torch.compile(lambda x: 2 * x)
    >>> double(torch.tensor([1.0]))
    tensor([2.])
    """
    if mode is not None and options is not None:
        raise RuntimeError(
            "Either mode or options can be specified, but both can't be specified at the same time."
        )
    if mode is not None and mode not in MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(MODES)}")
    if isinstance(backend, str) and backend not in (*BACKENDS, *FOR_DEBUGGING):
        raise RuntimeError(
            f"Invalid backend: {backend!r}, see `torch.compiler.list_backends()` for available "
            "backends."
        )
    if model is None:
        return functools.partial(
            compile,
            fullgraph=fullgraph,
            dynamic=dynamic,
            backend=backend,
            mode=mode,
            options=options,
            disable=disable,
            check=check,
        )
    if not callable(model):
        raise AssertionError(f"A callable function is expected, but {type(model)} is provided.")
    import tapegrad as tg

    if disable or isinstance(model, type):
        return model
    from .run.function import Compiled

    compiled = Compiled(model, fullgraph, check)
    compiled.verifies = bool((options or {}).get("verify", compiled.verifies))
    if mode in ("reduce-overhead", "max-autotune"):
        from .run.cuda_graphs import GraphedCalls

        compiled.graphs = GraphedCalls(model)
    if not isinstance(model, tg.nn.Module):
        return compiled
    from .run.modules import OptimizedModule

    return OptimizedModule(model, compiled)


def explain(function: Any) -> Any:
    """Describe a compiled function: its recordings, or why there are none.

    A string, whose `graph()` is a picture of the first recording.
    """
    from .report.explanation import explain as spelled

    return spelled(function)


compile.explain = explain  # type: ignore[attr-defined]


def recording_now() -> Any:
    """The recorder that is active in this thread, or None."""
    for mode in ACTIVE.modes:
        if mode.records_steps:
            return mode
    return None


def is_compiling() -> bool:
    """Whether the code that runs is being recorded.

    >>> torch.compiler.is_compiling()
    False
    """
    return recording_now() is not None


def is_dynamo_compiling() -> bool:
    """Whether a compiled step is being recorded."""
    return False


def is_exporting() -> bool:
    """Whether `torch.export` is at work."""
    return False


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Keep a function from being recorded; code that calls it runs as ordinary Python.

    Of a module, the calls are kept out from here on.

    >>> @torch.compiler.disable
    ... def double(x):
    ...     return x * 2
    >>> double(tensor([1.0]))
    tensor([2.])
    """
    if fn is None:
        return functools.partial(disable, recursive=recursive, reason=reason)
    if not callable(fn) or isinstance(fn, type):
        return fn
    if hasattr(fn, "_parameters"):
        why = reason or f"{type(fn).__name__} is kept out by torch.compiler.disable"
        fn._compiled_call_impl = disable(fn._call_impl, reason=why)
        return fn

    @functools.wraps(fn)
    def kept_out(*args: Any, **kwargs: Any) -> Any:
        active = recording_now()
        if active is not None:
            active.give_up(reason or f"{fn.__name__} is kept out by torch.compiler.disable")
        return fn(*args, **kwargs)

    return kept_out


def allow_in_graph(fn: Any) -> Any:
    """Let the compiler take a function (or several) as it is.

    >>> def double(x):
    ...     return x * 2
    >>> torch.compiler.allow_in_graph(double) is double
    True
    """
    if isinstance(fn, (list, tuple)):
        return [allow_in_graph(f) for f in fn]
    if not callable(fn):
        raise AssertionError("allow_in_graph expects a callable")
    return fn


def pure(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Say that a function computes its result from its arguments, and does nothing else.

    Of functions in C, and of those without source, a compiled function does not know what they
    read and change, and runs such calls as ordinary Python. One that is marked is part of a
    recording: it is called while a call is recorded, and replays use what it returned then.

    >>> @torch.compiler.pure
    ... def width(name):
    ...     return {"small": 8, "large": 64}[name]
    >>> width("small")
    8
    """
    if not callable(fn):
        raise TypeError(f"pure() is given a {type(fn).__name__}; a function is wanted")
    target = getattr(fn, "__func__", fn)
    if not isinstance(target, types.FunctionType):  # in C: it has no attributes

        @functools.wraps(fn)
        def target(*args: Any, **kwargs: Any) -> Any:
            return fn(*args, **kwargs)

        fn = target
    target.__dict__[PURE_MARK] = True
    return fn


def assume_constant_result(fn: Any) -> Any:
    """Tell the compiler that a function always returns the same.

    >>> @torch.compiler.assume_constant_result
    ... def size():
    ...     return 3
    >>> size()
    3
    """
    return fn


def substitute_in_graph(
    original_fn: Any, *, can_constant_fold_through: bool = False, skip_signature_check: bool = False
) -> Callable[[Any], Any]:
    """Give the compiler another implementation of a function; the decorated one is returned.

    >>> import string
    >>> @torch.compiler.substitute_in_graph(string.capwords)
    ... def capwords(s, sep=None):
    ...     return (sep or " ").join(word.capitalize() for word in s.split(sep))
    >>> capwords("one two")
    'One Two'
    """
    return lambda fn: fn


def wrap_numpy(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function of arrays as a function of tensors.

    >>> @torch.compiler.wrap_numpy
    ... def cumulate(x):
    ...     return np.cumsum(x)
    >>> cumulate(tensor([1, 2, 3]))
    tensor([1, 3, 6])
    """
    import tapegrad as tg

    from ..utils._pytree import tree_map_only

    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        import numpy as np

        args, kwargs = tree_map_only(tg.Tensor, lambda t: t.numpy(), (args, kwargs))
        return tree_map_only(np.ndarray, tg.as_tensor, fn(*args, **kwargs))

    return wrapped


def reset() -> None:
    """Forget all recordings.

    >>> torch.compiler.reset()
    """
    from .run.function import ALL

    for compiled in list(ALL):
        compiled.forget()


def cudagraph_mark_step_begin() -> None:
    """Say that another iteration begins; results are new tensors, which do not have to know.

    >>> torch.compiler.cudagraph_mark_step_begin()
    """


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """The names that `backend` may have; there is one compiler behind them.

    >>> "inductor" in torch.compiler.list_backends()
    True
    """
    without_debug = "debug" in (exclude_tags or ())
    return sorted(BACKENDS if without_debug else (*BACKENDS, *FOR_DEBUGGING))


STANCES = (
    *("default", "force_eager", "eager_on_recompile", "fail_on_recompile"),
    *("eager_then_compile", "aot_eager_then_compile"),
)


class set_stance(contextlib.ContextDecorator):
    """How compiled functions behave from here on, or in a block.

    With "force_eager" they run as they are. The others are about compilers that take long.

    >>> double = torch.compile(lambda x: x * 2)
    >>> with torch.compiler.set_stance("force_eager"):
    ...     print(double(tensor([1.0])))
    tensor([2.])
    """

    current = "default"

    def __init__(
        self,
        stance: str = "default",
        *,
        skip_guard_eval_unsafe: bool = False,
        force_backend: Any = None,
    ) -> None:
        if stance not in STANCES:
            raise RuntimeError(f"invalid torch.compile stance '{stance}'")
        self.stance = stance
        self.before = set_stance.current
        set_stance.current = stance

    def __enter__(self) -> None:
        set_stance.current = self.stance

    def __exit__(self, *error: object) -> None:
        set_stance.current = self.before
