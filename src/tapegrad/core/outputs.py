"""`out=`: compute, then store into tensors that the caller owns."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import dtypes
from .base import TensorBase, quiet
from .modes import MODES


def write_outputs(
    name: str, out: Any, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """`call(*args, **kwargs)` with the result stored in `out`, a tensor or a tuple of them."""
    targets = out if isinstance(out, (tuple, list)) else (out,)
    for t in targets:
        if not isinstance(t, TensorBase):
            raise TypeError(f"{name}(): argument 'out' must be Tensor, not {type(t).__name__}")
    if MODES.grad:
        for t in (*targets, *flatten(args), *flatten(kwargs.values())):
            if t.wants_grad:
                raise RuntimeError(
                    f"{name}(): functions with out=... arguments don't support automatic "
                    "differentiation, but one of the arguments requires grad."
                )
    before = MODES.grad
    MODES.set("grad", False)
    try:
        result = call(*args, **kwargs)
        parts = result if isinstance(result, tuple) else (result,)
        for target, part in zip(targets, parts, strict=True):
            store(name, target, part.array)
    finally:
        MODES.set("grad", before)
    return type(result)(targets) if isinstance(result, tuple) and type(result) is tuple else out


def flatten(values: Any) -> list[TensorBase]:
    found = []
    for v in values:
        if isinstance(v, TensorBase):
            found.append(v)
        elif isinstance(v, (tuple, list)):
            found.extend(flatten(v))
    return found


def store(name: str, target: TensorBase, array: Any) -> None:
    """Copy `array` into `target`, resizing it if need be."""
    have, want = dtypes.of(array.dtype), dtypes.of(target.array.dtype)
    if have.category > want.category:
        raise RuntimeError(
            f"result type {have.scalar_type} can't be cast to the desired output type "
            f"{want.scalar_type}"
        )
    if target.array.shape != array.shape:
        if target.array.size:
            warnings.warn(
                "An output with one or more elements was resized since it had shape "
                f"{list(target.array.shape)}, which does not match the required output shape "
                f"{list(array.shape)}. This behavior is deprecated, and in a future PyTorch "
                "release outputs will not be resized unless they have zero elements. You can "
                "explicitly reuse an out tensor t by resizing it, inplace, to zero elements with "
                "t.resize_(0).",
                UserWarning,
                stacklevel=5,
            )
        target.array = np.empty(array.shape, target.array.dtype)
    quiet(target.array.__setitem__, ..., array)
    target.version_cell().bump(name)
