"""How a backward pass adds and copies gradients: NumPy arrays, GPU arrays, tensors.

The engine adds gradients up inside arrays that nobody else looks at. Whether it may, and how it is
done, is all that it has to know about where an array lives: `memory_of(array)` answers.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from .base import STATE, TensorBase, ndarray
from .late_bound import GPU, HOST_KERNELS, META_SIDE
from .mypyc import mypyc_attr
from .op import REGISTRY
from .strides import is_dense


@mypyc_attr(allow_interpreted_subclasses=True)
class ArrayMemory:
    """The memory of NumPy's arrays; core/devices.py has that of GPUs."""

    def may_add_into(self, target: Any, other: Any) -> bool:
        """Whether a sum may overwrite `target`, an array of this pass alone: it must be no view."""
        fresh: bool
        if HOST_KERNELS.is_fresh is not None:
            fresh = HOST_KERNELS.is_fresh(target, other)
            return fresh
        fresh = target.base is None and target.dtype is other.dtype
        return fresh and bool(target.flags.behaved)

    def add_into(self, target: Any, other: Any) -> None:
        if not added_in_c(target, other):
            np.add(target, other, target)

    def sum_of(self, first: Any, second: Any) -> Any:
        """The sum of two gradients, in new memory."""
        return first + second

    def accumulate(self, kept: Any, g: Any) -> None:
        """Add `g` to the array of a `.grad`, which may be a view and have another dtype."""
        if not added_in_c(kept, g):
            np.add(kept, g, kept, casting="unsafe")

    def share(self, g: Any, total: Any) -> bool:
        """Whether `g` may share the memory of `total`, though it is no view that NumPy knows."""
        return False

    def fits(self, g: Any, layout: Any) -> bool:
        """Whether the strides of `g` are right for the gradient of a leaf with this layout."""
        if not g.flags.behaved:
            return False
        if layout.flags.c_contiguous or not is_dense(layout):
            contiguous: bool = g.flags.c_contiguous
            return contiguous
        same: bool = g.strides == layout.strides
        return same

    def settled(self, g: Any, layout: Any) -> Any:
        """`g`, whose strides fit, with those of `layout` in dimensions of size 1 as well."""
        return g if g.strides == layout.strides else np.ndarray(g.shape, g.dtype, g)

    def copy(self, g: Any, layout: Any) -> Any:
        """A copy with the memory order of `layout` where that is dense, else contiguous."""
        if layout.flags.c_contiguous or not is_dense(layout):
            return np.array(g, order="C", subok=False, copy=True)
        out = np.empty_like(layout, g.dtype)
        out[...] = g
        return out

    def zeros(self, like: Any, shape: Any, dtype: Any) -> Any:
        return np.zeros(shape, dtype)


def added_in_c(target: Any, other: Any) -> bool:
    """Add to an array by the C kernel of `add`; False where there is none for it."""
    into = getattr(REGISTRY["add"].kernel, "into", None)
    return into is not None and bool(into(target, target, other))


class NoMemory(ArrayMemory):
    """NumPy's numbers, and tensors where the pass is recorded: nothing is written into them."""

    def may_add_into(self, target: Any, other: Any) -> bool:
        return False


HOST: Final = ArrayMemory()
NOWHERE: Final = NoMemory()


def memory_of(value: Any) -> ArrayMemory:
    """The ArrayMemory for a value that a gradient rule returned."""
    kind = type(value)
    if kind is ndarray:
        return HOST
    found: ArrayMemory = NOWHERE
    if kind is STATE.device_type:
        found = GPU.memory
    elif kind is STATE.meta_type:
        found = META_SIDE.memory
    return found


def is_tensor(value: Any) -> bool:
    return isinstance(value, TensorBase)


def aliases(g: Any, total: Any) -> bool:
    """Whether gradient `g` may share memory with `total`, the incoming one or a list of them."""
    if g is total:
        return True
    kind = type(total)
    if kind is list:
        return any([part is not None and aliases(g, part) for part in total])
    if type(g) is not ndarray and is_tensor(g):
        a, b = g._array, total._array
        return type(a) is not ndarray or type(b) is not ndarray or aliases(a, b)
    if type(g) is STATE.device_type:
        return kind is type(g) and g.data.mem is total.data.mem
    base = g.base
    if base is not None and (base is total or base is total.base):
        return True
    return type(g) is not ndarray and memory_of(g).share(g, total)
