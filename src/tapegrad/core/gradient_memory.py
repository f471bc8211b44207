"""How a backward pass adds, copies and casts gradients: NumPy arrays, GPU arrays, tensors.

The engine adds gradients up inside arrays that nobody else looks at. Whether it may, and how it is
done, is all that it has to know about where an array lives: `memory_of(array)` answers.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from .base import ORDINARY, STATE, TensorBase, cell_of, ndarray, wrap
from .late_bound import DISPATCHED, GPU, HOST_KERNELS, META_SIDE
from .mypyc import mypyc_attr
from .op import REGISTRY
from .rule_functions import RAW, RECORDED
from .strides import is_dense, strided


@mypyc_attr(allow_interpreted_subclasses=True)
class ArrayMemory:
    """The memory of NumPy's arrays; core/devices.py has that of GPUs."""

    def may_add_into(self, target: Any, other: Any) -> bool:
        """Whether a sum may overwrite `target`, an array of this pass alone: it must be no view."""
        if isinstance(other, TensorBase):  # a sparse one
            return False
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
        places = zip(g.strides, layout.strides, g.shape, strict=True)
        return all([a == b or n == 1 for a, b, n in places])

    def settled(self, g: Any, layout: Any) -> Any:
        """`g`, whose strides fit, also in dimensions of size 1: contiguous, or as `layout`."""
        if g.strides == layout.strides:
            return g
        if layout.flags.c_contiguous or not is_dense(layout):
            return np.ndarray(g.shape, g.dtype, g)
        return self.laid_out(g, layout)

    def laid_out(self, g: Any, layout: Any) -> Any:
        """A gradient of one memory order with `layout`, with its strides for sizes of 1 too."""
        if g.strides == layout.strides or g.itemsize != layout.itemsize or not g.size:
            return g
        return strided(np, g, g.shape, layout.strides)

    def copy(self, g: Any, layout: Any) -> Any:
        """A copy with the memory order of `layout` where that is dense, else contiguous."""
        if layout.flags.c_contiguous:
            out = np.array(g, order="C", subok=False, copy=True)
        elif is_dense(layout):
            out = np.empty_like(layout, g.dtype)
            out[...] = g
        else:
            return np.array(g, order="C", subok=False, copy=True)
        return self.laid_out(out, layout) if 1 in g.shape else out

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


DIFFERENTIABLE: Final = "fcV"  # NumPy's kinds
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


def sum_of(before: Any, g: Any, record: bool) -> Any:
    """The sum of two gradients in new memory, or as a recorded op."""
    if not record:
        if isinstance(before, TensorBase) or isinstance(g, TensorBase):  # a sparse one
            return DISPATCHED.sum_of(before, g)
        return memory_of(before).sum_of(before, g)
    first: TensorBase = before
    return before + g if first._special == ORDINARY else DISPATCHED.sum_of(before, g)


def owned_by_sum(before: Any, g: Any, owned: int) -> int:
    """1 + the writes into a sum in new memory, as PyTorch counts them.

    Tensors are never written into, but it does so where it could with their arrays. NumPy's 0-d
    values cannot be written to; PyTorch's are, and count it.
    """
    if not isinstance(before, TensorBase):
        if isinstance(g, TensorBase):  # a sparse one
            return 0
        return 1 if type(before) is ndarray else owned + 1
    a: Any = before._array
    if type(a) is not ndarray or not owned:
        return 1
    # What was broadcast is summed by an op that keeps the dimensions, and looked at without them:
    # on arrays a kernel gives new memory.
    base: Any = a.base
    if base is not None and base.ndim > a.ndim and HOST_KERNELS.sum_to is not None:
        if base.shape[base.ndim - a.ndim :] == a.shape:
            a = base
    return owned + 1 if a.ndim == 0 or memory_of(a).may_add_into(a, g._array) else 1


def first_gradient(g: Any, layout: Any, owned: int) -> TensorBase:
    """The `.grad` of a leaf with the strides of `layout`: `g` itself if they fit, else a copy."""
    memory = memory_of(g)
    if memory is NOWHERE:
        g = np.asarray(g)
        memory = memory_of(g)
    if owned and memory.fits(g, layout):
        made = wrap(memory.settled(g, layout))
        writes = owned - 1
    else:
        made = wrap(memory.copy(g, layout))
        # PyTorch writes into memory with the strides of the leaf, or makes a plain copy.
        writes = 1 if is_dense(layout) else 0
    if writes:
        cell_of(made).n = writes
    return made


def in_grad_dtype(leaf: Any, g: Any, record: bool) -> Any:
    """A gradient in the `grad_dtype` of its leaf."""
    dtype = leaf.grad_dtype
    array = g._array if record else g
    if dtype is None or array.dtype == dtype:
        return g
    if dtype.kind not in DIFFERENTIABLE:
        raise RuntimeError("isDifferentiableType(grad.scalar_type()) INTERNAL ASSERT FAILED")
    F: Any = RECORDED if record else GPU.raw if type(g) is STATE.device_type else RAW
    return F.cast(g, dtype)
