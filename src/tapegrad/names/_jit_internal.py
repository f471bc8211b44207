"""Marks for TorchScript's compiler, which is not here: what they mark stays as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Dict, Final, List, Optional, Tuple  # noqa: F401, UP035

from tapegrad.names.jit import ignore, is_scripting, unused  # noqa: F401


def _copy_to_script_wrapper(fn: Any) -> Any:
    """Mark a method of a module that its compiled form is to have, too."""
    return fn


def export(fn: Any) -> Any:
    """Mark a method that is compiled though `forward` does not call it."""
    return fn


def _overload(fn: Any) -> Any:
    """Mark a signature of a function that has several."""
    return fn


_overload_method = _overload


BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = list


def boolean_dispatch(
    arg_name: str,
    arg_index: int,
    default: bool,
    if_true: Callable[..., Any],
    if_false: Callable[..., Any],
    module_name: str,
    func_name: str,
) -> Callable[..., Any]:
    """A function that calls one of two others, as one of its arguments says."""

    def fn(*args: Any, **kwargs: Any) -> Any:
        given = args[arg_index] if arg_index < len(args) else kwargs.get(arg_name, default)
        return (if_true if given else if_false)(*args, **kwargs)

    fn.__name__, fn.__module__ = func_name, module_name
    fn.__doc__ = if_true.__doc__ or if_false.__doc__
    return fn
