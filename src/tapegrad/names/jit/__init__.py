"""TorchScript without a compiler: what would be compiled runs as the Python that it is.

`script` and `trace` give back what they were given. Scripted programs cannot be saved or loaded:
`torch.jit.save` and `torch.jit.load` say so.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from tapegrad.errors.absent import absent_function
from tapegrad.futures import Future
from tapegrad.nn.modules.module import Module

__all__ = [
    "Attribute",
    "Error",
    "Final",
    "Future",
    "ScriptFunction",
    "ScriptModule",
    "ScriptWarning",
    "TracerWarning",
    "annotate",
    "export",
    "fork",
    "freeze",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "isinstance",
    "optimize_for_inference",
    "optimized_execution",
    "script",
    "script_if_tracing",
    "script_method",
    "trace",
    "trace_module",
    "unused",
    "wait",
]


class Error(Exception):
    """An error in a compiled program; there are none, but programs catch it."""


class ScriptWarning(Warning):
    """A warning about a function that cannot be compiled as it is meant."""


class TracerWarning(Warning):
    """A warning about a function whose path depends on data."""


class ScriptModule(Module):
    """A module to be compiled: a plain module.

    >>> layer = torch.jit.script(nn.Linear(2, 1))
    >>> isinstance(layer, torch.ScriptModule), layer(ones(1, 2)).shape
    (False, torch.Size([1, 1]))
    """


class RecursiveScriptModule(ScriptModule):
    """The class of PyTorch's scripted modules; there for isinstance checks."""


class ScriptFunction:
    """The class of PyTorch's scripted functions; there for isinstance checks.

    >>> isinstance(torch.exp, torch.ScriptFunction)
    False
    """


class Attribute(NamedTuple):
    """A value with the type that the compiler should give it."""

    value: Any
    type: Any


def warn_deprecated(
    name: str, instead: str = "switch to `torch.compile` or `torch.export`"
) -> None:
    warnings.warn(
        f"`torch.jit.{name}` is deprecated. Please {instead}.", DeprecationWarning, stacklevel=3
    )


def is_scripting() -> bool:
    """Whether compiled code is running: never."""
    return False


def is_tracing() -> bool:
    """Whether a trace is being recorded: never."""
    return False


# --- what would be compiled ------------------------------------------------------------------


def script(
    obj: Any,
    optimize: Any = None,
    _frames_up: int = 0,
    _rcb: Any = None,
    example_inputs: Any = None,
) -> Any:
    """The function, class or module itself."""
    warn_deprecated("script")
    if type(obj).__module__ == "builtins" and not callable(obj):
        raise TypeError(f"{type(obj)} is a built-in class")
    return obj


def trace(func: Any, example_inputs: Any = None, *args: Any, **kwargs: Any) -> Any:
    """The function or module itself, after it was called once with the example."""
    warn_deprecated("trace")
    if example_inputs is not None:
        call_once(func, example_inputs)
    elif kwargs.get("example_kwarg_inputs") is not None:
        func(**kwargs["example_kwarg_inputs"])
    else:
        raise RuntimeError("example_kwarg_inputs should be a dict")
    return func


def call_once(func: Callable[..., Any], example: Any) -> None:
    if builtins.isinstance(example, (tuple, list)):
        func(*example)
    else:
        func(example)


def trace_module(mod: Any, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
    """The module itself, after each method was called once with its example."""
    warn_deprecated("trace_method")
    for name, example in inputs.items():
        call_once(getattr(mod, name), example)
    return mod


def script_method(fn: Any) -> Any:
    """The method itself."""
    warn_deprecated("script_method")
    return fn


def script_if_tracing(fn: Any) -> Any:
    """The function itself: nothing is ever traced."""

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    return wrapper


_script_if_tracing = script_if_tracing


def export(fn: Any) -> Any:
    """Mark a method that is to be compiled too."""
    return fn


def unused(fn: Any) -> Any:
    """Mark a method that is not to be compiled."""
    return fn


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """Mark a method that is not to be compiled and stays Python: `@ignore` or `@ignore()`."""
    return drop if callable(drop) else lambda fn: fn


def interface(obj: Any) -> Any:
    """Mark a class that describes an interface."""
    return obj


def freeze(mod: Any, preserved_attrs: Any = None, optimize_numerics: bool = True) -> Any:
    """The module itself, which has to be in evaluation mode."""
    warn_deprecated("freeze", "use `torch.compile` instead")
    if mod.training:
        raise RuntimeError(
            "Freezing is currently only implemented for modules in eval mode. Please call .eval() "
            "on your module before freezing."
        )
    return mod


def optimize_for_inference(mod: Any, other_methods: Any = None) -> Any:
    """The module itself."""
    warn_deprecated("optimize_for_inference", "use `torch.compile` instead")
    return mod


@contextlib.contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    """Whether compiled code is optimized; there is none."""
    yield


def _overload(func: Any) -> Any:
    """Mark one of several signatures of a function; the last definition is what runs."""
    return func


_overload_method = _overload


def _get_trace_graph(f: Any, args: Any = (), kwargs: Any = None, **options: Any) -> Any:
    """The ops that a module runs on an example, as a graph, and the result."""
    from .._C.script_graphs import trace

    return trace(f, args if builtins.isinstance(args, tuple) else (args,), kwargs or {})


save = absent_function("torch.jit.save", "save the state_dict() with torch.save")
load = absent_function("torch.jit.load", "make the module in Python and load its state_dict()")


# --- hints for the compiler ------------------------------------------------------------------


def annotate(the_type: Any, the_value: Any) -> Any:
    """The value; the type is for the compiler."""
    return the_value


def isinstance(obj: Any, target_type: Any) -> bool:
    """`isinstance` that also takes `List[int]`, `Dict[str, Tensor]`, `Tuple[...]`, `Optional`."""
    from .containers import matches

    return matches(obj, target_type)


# --- futures ---------------------------------------------------------------------------------


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Future[Any]:
    """Call `func` now and hand over its result with `wait`.

    >>> future = torch.fork(lambda x: x + 1, tensor([1.0]))
    >>> torch.wait(future)
    tensor([2.])
    """
    warn_deprecated("fork", "use `torch.compile` instead")
    made: Future[Any] = Future()
    made.set_result(func(*args, **kwargs))
    return made


def wait(future: Future[Any]) -> Any:
    """The result of `fork`.

    >>> torch.wait(torch.fork(lambda: 3))
    3
    """
    warn_deprecated("wait", "use `torch.compile` instead")
    return future.wait()


_fork, _wait = fork, wait
