"""Conjugate and negative views: `x.conj()` shares the memory of `x` and says how to read it.

The array of such a tensor is a `BitArray`: the memory as it lies there and two bits, "conjugated"
and "negated". It is no NumPy array, so nothing can take the memory for the values by accident:
whoever asks NumPy gets a copy with the bits worked in, and what is assigned goes through them into
the memory. A tensor around one is `_special`, so the short ways of dispatch.py pay nothing for it;
`run` below does its ops: views keep the bits, everything else computes with `plain` arrays.

Only on the CPU. On a GPU and on meta `conj` makes a copy, and gradients carry no bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .base import STATE, TensorBase, as_array
from .late_bound import PROFILER
from .op import Op
from .strides import empty_like

NEG_VIEW = "neg_view"
CONJ_VIEW = "conj_view"


class BitArray(np.lib.mixins.NDArrayOperatorsMixin):
    """Memory that is to be read conjugated, negated or both; at least one bit is set.

    What is not written down here is asked of a copy with the values: `item`, `sum`, `astype` …
    """

    __slots__ = ("__weakref__", "conjugated", "memory", "negated")

    def __init__(self, memory: Any, conjugated: bool, negated: bool) -> None:
        STATE.bits_type = BitArray
        self.memory = memory
        self.conjugated = conjugated
        self.negated = negated

    shape = property(lambda self: self.memory.shape)
    strides = property(lambda self: self.memory.strides)
    dtype = property(lambda self: self.memory.dtype)
    flags = property(lambda self: self.memory.flags)
    ndim = property(lambda self: self.memory.ndim)
    size = property(lambda self: self.memory.size)
    itemsize = property(lambda self: self.memory.itemsize)
    nbytes = property(lambda self: self.memory.nbytes)

    @property
    def base(self) -> Any:
        """An array that owns the memory: it is never this one."""
        owner = self.memory.base
        return owner if isinstance(owner, np.ndarray) else self.memory

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # a protocol would go past the bits
            raise AttributeError(name)
        return getattr(plain(self), name)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        if copy is False:
            raise ValueError("Unable to avoid copy while creating an array as requested.")
        values = plain(self)
        return values if dtype is None else values.astype(dtype, copy=False)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        out = kwargs.pop("out", None)
        made = getattr(ufunc, method)(*[plain(x) for x in inputs], **kwargs)
        if out is None:
            return made
        out[0][...] = made
        return out[0]

    def __getitem__(self, key: Any) -> Any:
        return with_bits_of(self, self.memory[key])

    def __setitem__(self, key: Any, value: Any) -> None:
        # What reads as `value` through the bits: each of them is its own inverse.
        self.memory[key] = turned(np.asarray(value, self.dtype), self.conjugated, self.negated)

    def __len__(self) -> int:
        return len(self.memory)

    def transpose(self, *axes: Any) -> Any:
        return with_bits_of(self, self.memory.transpose(*axes))

    def __reduce__(self) -> Any:
        return BitArray, (self.memory, self.conjugated, self.negated)


def turned(array: Any, conjugated: bool, negated: bool) -> Any:
    """An array with the conjugation and negation done, copied if there is any."""
    if conjugated:
        array = np.conjugate(array, empty_like(np, array))
    if negated:
        array = np.negative(array, empty_like(np, array))
    return array


def plain(array: Any) -> Any:
    """A NumPy array with the values of a `BitArray`; anything else as it is."""
    if type(array) is not BitArray:
        return array
    return turned(array.memory, array.conjugated, array.negated)


def memory_behind(array: Any) -> Any:
    """The stored values of an array, neither conjugated nor negated."""
    return array.memory if type(array) is BitArray else array


def with_bits(memory: Any, conjugated: bool, negated: bool) -> Any:
    """The memory read with these bits: an ordinary array if there are none."""
    return BitArray(memory, conjugated, negated) if conjugated or negated else memory


def with_bits_of(array: Any, memory: Any) -> Any:
    """`memory` with the bits of `array`."""
    if type(array) is not BitArray:
        return memory
    return with_bits(memory, array.conjugated and memory.dtype.kind == "c", array.negated)


def flipped(array: Any, conjugate: bool, negate: bool) -> Any:
    """A view of the memory with one or both of the bits inverted."""
    conjugated = is_conjugated(array) != conjugate
    return with_bits(memory_behind(array), conjugated, is_negated(array) != negate)


def has(array: Any) -> bool:
    return type(array) is BitArray


def is_conjugated(array: Any) -> bool:
    return type(array) is BitArray and array.conjugated


def is_negated(array: Any) -> bool:
    return type(array) is BitArray and array.negated


# ---------------------------------------------------------------------- running ops


def has_bits(tensors: Any) -> bool:
    return any([isinstance(t, TensorBase) and type(t._array) is BitArray for t in tensors])


def run(op: Op, tensors: tuple[Any, ...], attrs: tuple[Any, ...], watch: tuple[Any, ...]) -> Any:
    """An op on tensors some of which have bits."""
    from .dispatch import operands_of, run_kernel  # which imports what imports this file
    from .record import finish

    arrays, mask = operands_of(op, tensors)
    if STATE.timing:
        PROFILER.start(op.aten_name(), tensors)
    if op.view:
        out = looked(op, arrays[0], attrs)
    else:
        out = run_kernel(op, [plain(x) for x in arrays], attrs)
    outs = (as_array(out),) if op.single else tuple([as_array(o) for o in out])
    made = finish(op, tensors, attrs, watch, mask, outs)
    if not op.view:
        for t in made:
            settle(t._node)
    if STATE.timing:
        PROFILER.stop(op.aten_name())
    if op.single:
        return made[0]
    return made if op.result is None else op.result(made)


def looked(op: Op, array: Any, attrs: tuple[Any, ...]) -> Any:
    """Run a view op on a `BitArray`: a view of its memory, with the bits as before."""
    if op.name in (CONJ_VIEW, NEG_VIEW):
        return op.kernel(array)
    out = op.kernel(array.memory, *attrs)
    if isinstance(out, (tuple, list)):
        return [with_bits_of(array, part) for part in out]
    return with_bits_of(array, out)


def settle(node: Any) -> None:
    """Mark a node that saved a `BitArray`: its values are conjugated when a rule reads them."""
    if node is not None and any([type(x) is BitArray for x in node._kept]):
        node._packed = True
