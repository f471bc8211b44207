"""Modes that see every op, and what subclasses with `__torch_dispatch__` are made with."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import tapegrad as tg

from ..autograd.dispatched import run as run_above
from ..core.modes import count
from ..core.op import Op
from ..core.python_dispatch import ACTIVE, Call, Diversion, OpMode, ask, modes_set_to

__all__ = [
    "BaseTorchDispatchMode",
    "TorchDispatchMode",
    "is_traceable_wrapper_subclass",
    "is_traceable_wrapper_subclass_type",
    "return_and_correct_aliasing",
    "transform_subclass",
]


class TorchDispatchMode(OpMode):
    """A block in which every op, as one of `torch.ops`, goes through `__torch_dispatch__`.

    >>> import tapegrad as torch
    >>> from tapegrad.utils._python_dispatch import TorchDispatchMode
    >>> class Names(TorchDispatchMode):
    ...     def __torch_dispatch__(self, func, types, args=(), kwargs=None):
    ...         print(func)
    ...         return func(*args, **(kwargs or {}))
    >>> with Names():
    ...     x = torch.ones(2) * 3
    aten.ones.default
    aten.mul.Tensor
    """

    def __init__(self, _dispatch_key: Any = None) -> None:
        pass

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Any:
        """The old way to enter a mode."""
        return cls(*args, **kwargs)

    @classmethod
    def is_infra_mode(cls) -> bool:
        return False

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        raise NotImplementedError

    def run(
        self, op: Op, tensors: tuple[Any, ...], attrs: tuple[Any, ...], watch: tuple[Any, ...]
    ) -> Any:
        return run_above(op, tensors, attrs, watch, self)

    def ask(self, call: Call) -> Any:
        return ask(call, self)


class BaseTorchDispatchMode(TorchDispatchMode):
    """A mode that changes nothing."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        return func(*args, **(kwargs or {}))


# ---------------------------------------------------------------------- the stack of modes


def _get_current_dispatch_mode() -> Any:
    """The innermost mode, or None."""
    return ACTIVE.modes[-1] if ACTIVE.modes else None


def _get_current_dispatch_mode_stack() -> list[Any]:
    """All modes, innermost last."""
    return list(ACTIVE.modes)


def _len_torch_dispatch_stack() -> int:
    return len(ACTIVE.modes)


def is_in_torch_dispatch_mode(include_infra_modes: bool = True) -> bool:
    """Whether a mode is on."""
    return bool(ACTIVE.modes)


def any_torch_dispatch_mode_on_stack() -> bool:
    return bool(ACTIVE.modes)


def _push_mode(mode: Any) -> None:
    Diversion.install()
    ACTIVE.modes = (*ACTIVE.modes, mode)
    count(1, 1)


def _pop_mode(k: Any = None) -> Any:
    mode = ACTIVE.modes[-1]
    count(-1, -1)
    ACTIVE.modes = ACTIVE.modes[:-1]
    return mode


@contextlib.contextmanager
def _pop_mode_temporarily(k: Any = None) -> Iterator[Any]:
    """Without the innermost mode, which is what `with … as` gives."""
    mode = ACTIVE.modes[-1]
    with modes_set_to(ACTIVE.modes[:-1]):
        yield mode


@contextlib.contextmanager
def _disable_current_modes() -> Iterator[list[Any]]:
    """Without any mode."""
    modes = list(ACTIVE.modes)
    with modes_set_to(()):
        yield modes


# ---------------------------------------------------------------------- wrapper subclasses


def is_traceable_wrapper_subclass_type(t: Any) -> bool:
    """Whether a class of wrappers can be taken apart and put together again."""
    made_of = hasattr(t, "__tensor_flatten__") and hasattr(t, "__tensor_unflatten__")
    return issubclass(t, tg.Tensor) and t is not tg.Tensor and made_of


def is_traceable_wrapper_subclass(t: Any) -> bool:
    """Whether a tensor is of such a class.

    It has `__tensor_flatten__`, which gives the names of its inner tensors and the rest, and the
    static method `__tensor_unflatten__`, which makes it of them.
    """
    return isinstance(t, tg.Tensor) and is_traceable_wrapper_subclass_type(type(t))


def transform_subclass(
    t: Any, callback: Any, outer_size: Any = None, outer_stride: Any = None
) -> Any:
    """A wrapper around what `callback(name, tensor)` makes of the inner tensors."""
    size = t.size() if outer_size is None else outer_size
    stride = t.stride() if outer_stride is None else outer_stride
    names, context = t.__tensor_flatten__()
    inner = {name: callback(name, getattr(t, name)) for name in names}
    made = type(t).__tensor_unflatten__(inner, context, size, stride)
    if made.shape != size:
        raise AssertionError(
            f"Expected return value from {type(t)}__tensor_unflatten__() to have shape equal to "
            f"{size}, but got: {made.shape}"
        )
    if made.stride() != stride:
        raise AssertionError(
            f"Expected return value from {type(t)}__tensor_unflatten__() to have stride equal to "
            f"{stride}, but got: {made.stride()}"
        )
    return made


def return_and_correct_aliasing(func: Any, args: Any, kwargs: Any, out: Any) -> Any:
    """The results of a `__torch_dispatch__`, with arguments that the op writes returned themselves.

    The results of views look into the memory of their base by themselves here.
    """
    schema = func._schema
    given = {a.name: v for a, v in zip(schema.arguments, args, strict=False)} | dict(kwargs or {})
    written: dict[str, Any] = {}
    for argument in schema.arguments:
        if argument.is_write and argument.name in given:
            for name in argument.alias_info.before_set:
                written[name] = given[argument.name]
    if not written:
        return out
    outs = [out] if len(schema.returns) == 1 else list(out)
    fixed = []
    for value, declared in zip(outs, schema.returns, strict=True):
        info = declared.alias_info
        names = [] if info is None or not info.is_write else sorted(info.before_set)
        fixed.append(written[names[0]] if names else value)
    return fixed[0] if len(schema.returns) == 1 else type(out)(fixed)
