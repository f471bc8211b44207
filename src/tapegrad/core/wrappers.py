"""Tensors without memory: `_make_wrapper_subclass` gives a class a tensor that only looks like one.

Its array has shape, strides and dtype, over memory that is reserved and never touched. Nobody may
compute with it: what ops do is said by the class, in its `__torch_dispatch__`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .base import INTERPRETED, blank
from .function_modes import watch_class
from .python_dispatch import class_dispatches
from .subclass import overrides, takes_part

LOOKING = frozenset(
    {
        np.broadcast_to,
        np.expand_dims,
        np.lib.stride_tricks.as_strided,
        np.may_share_memory,
        np.moveaxis,
        np.ndim,
        np.reshape,
        np.shape,
        np.size,
        np.squeeze,
        np.swapaxes,
        np.transpose,
    }
)
NO_DATA = (
    "Cannot access data pointer of Tensor (e.g. FakeTensor, FunctionalTensor). If you're using "
    "torch.compile/export/fx, it is likely that we are erroneously tracing into a custom kernel. "
    "To fix this, please wrap the custom kernel into an opaque custom op."
)


class Nowhere(np.ndarray):
    """An array that can be looked at another way, but not read."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        raise RuntimeError(NO_DATA)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if func not in LOOKING:
            raise RuntimeError(NO_DATA)
        return super().__array_function__(func, types, args, kwargs)


def nowhere(shape: tuple[int, ...], strides: Any, offset: int, dtype: Any) -> Nowhere:
    """The array of a wrapper; `strides` in elements, None: those of a contiguous tensor."""
    item = dtype.itemsize
    steps: list[int] = []
    if strides is None:
        step = item
        for n in reversed(shape):
            steps.insert(0, step)
            step *= max(n, 1)
    else:
        steps = [s * item for s in strides]
    reach = sum([(n - 1) * abs(s) for n, s in zip(shape, steps, strict=True)]) + item
    memory = np.empty(offset * item + max(reach, 0), np.uint8)
    return Nowhere(shape, dtype, memory.data, offset * item, tuple(steps))


def make_wrapper(
    cls: Any, shape: Any, strides: Any, offset: Any, dtype: Any, device: Any, requires_grad: bool
) -> Any:
    """A tensor of `cls` that has a shape and no memory."""
    if not class_dispatches(cls):
        raise TypeError(f"{cls.__name__} must define __torch_dispatch__")
    if takes_part(cls) and overrides(cls):
        watch_class(cls)
    made: Any = blank(cls)
    made._array = nowhere(tuple(shape), strides, int(offset or 0), dtype)
    made._special = INTERPRETED
    made._wants_grad = requires_grad
    if device is not None and device.type != "cpu":
        made.__dict__["_claimed_device"] = device
    return made
