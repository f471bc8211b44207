"""Marks for TorchScript's compiler, which is not here: what they mark stays as it is."""

from __future__ import annotations

from typing import Any


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
