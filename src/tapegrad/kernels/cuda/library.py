"""CuPy as the blocks know NumPy: with the methods of ufuncs that CuPy leaves out.

A block's forward may say `xp.maximum.reduce(x, axis=1)`: fast on NumPy, not there in CuPy. What is
missing is added here, so that forwards are written once. Everything else is CuPy's own.

CuPy computes with bfloat16, but does not choose between, sort or move such numbers: choosing and
moving go by their bits, as integers do, and sorting through single precision.
"""

from __future__ import annotations

import importlib
import math
from typing import Any

import numpy as np

TOP = np.uint64(1 << 63)


class Library:
    """An array module with some of its names replaced."""

    def __init__(self, module: Any) -> None:
        self.module = module
        for name, kind in UFUNCS.items():
            setattr(self, name, kind(module, getattr(module, name)))
        if hasattr(module, "RawKernel"):
            self.linalg = Linalg(module.linalg)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.module, name)
        setattr(self, name, found)
        return found

    def where(self, condition: Any, x: Any = None, y: Any = None) -> Any:
        module = self.module
        if x is None:
            return module.where(condition)
        given = [v.dtype for v in (x, y) if hasattr(v, "dtype")]
        if not given or given[0].kind != "V" or given[-1].kind != "V":
            return module.where(condition, x, y)
        dtype = given[0]
        chosen = [
            bits(v) if isinstance(v, module.ndarray) else np.asarray(v, dtype).view(np.uint16)[()]
            for v in (x, y)
        ]
        return module.where(condition, *chosen).view(dtype)

    def tril(self, m: Any, k: int = 0) -> Any:
        return self.module.tril(bits(m), k).view(m.dtype)

    def triu(self, m: Any, k: int = 0) -> Any:
        return self.module.triu(bits(m), k).view(m.dtype)

    def sort(self, a: Any, axis: int = -1, kind: Any = None) -> Any:
        return self.module.sort(sortable(a), axis, kind).astype(a.dtype, copy=False)

    def argsort(self, a: Any, axis: int = -1, kind: Any = None) -> Any:
        return self.module.argsort(sortable(a), axis, kind)

    def partition(self, a: Any, kth: Any, axis: int = -1) -> Any:
        return self.module.partition(sortable(a), kth, axis).astype(a.dtype, copy=False)

    def argpartition(self, a: Any, kth: Any, axis: int = -1) -> Any:
        return self.module.argpartition(sortable(a), kth, axis)

    def unique(self, ar: Any, *args: Any, **kwargs: Any) -> Any:
        found = self.module.unique(sortable(ar), *args, **kwargs)
        if isinstance(found, tuple):
            return (found[0].astype(ar.dtype, copy=False), *found[1:])
        return found.astype(ar.dtype, copy=False)

    def isin(self, element: Any, test_elements: Any, **kwargs: Any) -> Any:
        """CuPy's, of numbers too."""
        given = [sortable(self.array_of(v)) for v in (element, test_elements)]
        return self.module.isin(*given, **kwargs)

    def broadcast_to(self, array: Any, shape: Any) -> Any:
        """CuPy's, of numbers too."""
        return self.module.broadcast_to(self.array_of(array), shape)

    def array_of(self, value: Any) -> Any:
        """An array of a number of the host, filled without a copy; arrays as they are."""
        if isinstance(value, self.module.ndarray):
            return value
        number = np.asarray(value)
        return self.module.full((), number.item(), number.dtype)


def bits(x: Any) -> Any:
    """bfloat16 as the integers of the same memory; others as they are."""
    return x.view(np.uint16) if x.dtype.kind == "V" else x


def sortable(x: Any) -> Any:
    """bfloat16 in single precision, where all its numbers are in the same order."""
    return x.astype(np.float32) if x.dtype.kind == "V" else x


class Linalg:
    """CuPy's `linalg`, which says like NumPy's when a matrix is singular."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        function = getattr(self.inner, name)
        if name == "LinAlgError":
            return function
        errstate = importlib.import_module("cupyx").errstate

        def call(*args: Any, **kwargs: Any) -> Any:
            with errstate(linalg="raise"):
                return function(*args, **kwargs)

        setattr(self, name, call)
        return call


class Ufunc:
    """A ufunc of CuPy; subclasses add the methods that CuPy's lack."""

    def __init__(self, xp: Any, inner: Any) -> None:
        self.xp = xp
        self.inner = inner

    def __call__(self, *args: Any, order: str = "K", **kwargs: Any) -> Any:
        out = self.inner(*args, **kwargs)
        return out if order == "K" else self.xp.ascontiguousarray(out).reshape(out.shape)

    def accumulate(self, array: Any, axis: int = 0) -> Any:
        """In steps of 1, 2, 4 …: as many passes as the logarithm of the length."""
        inner = self.inner
        axis %= array.ndim
        before = (slice(None),) * axis
        out = array.copy()
        step = 1
        while step < array.shape[axis]:
            late, early = (*before, slice(step, None)), (*before, slice(None, -step))
            next_out = out.copy()
            next_out[late] = inner(out[early], out[late])
            out = next_out
            step *= 2
        return out

    def reduceat(self, array: Any, indices: Any, axis: int = 0) -> Any:
        """Of consecutive rows: segment i goes from `indices[i]` to the next, none is empty."""
        xp = self.xp
        if axis:
            raise NotImplementedError("only rows are reduced in segments")
        own = xp.searchsorted(indices, xp.arange(array.shape[0]), side="right") - 1
        out = array[indices]
        self.at(out, own, array)
        return out

    def at(self, target: Any, index: Any, values: Any) -> None:
        """`ufunc.at` by CuPy, which knows few dtypes: others are converted to one of them."""
        dtype = target.dtype
        known = self.carrier(dtype)
        if known == dtype:
            self.inner.at(target, index, values)
        else:
            wide = self.carried(target, known)
            self.inner.at(wide, index, self.carried(self.as_array(values, dtype), known))
            target[...] = self.back(wide, dtype)

    def as_array(self, values: Any, dtype: Any) -> Any:
        if isinstance(values, self.xp.ndarray):
            return values.astype(dtype, copy=False)
        return self.xp.asarray(values, dtype)

    def carrier(self, dtype: Any) -> Any:
        raise NotImplementedError

    def carried(self, x: Any, dtype: Any) -> Any:
        return x.astype(dtype)

    def back(self, x: Any, dtype: Any) -> Any:
        return x.astype(dtype)


class Summed(Ufunc):
    """`add` and `multiply`: CuPy reduces and scans them."""

    def reduce(
        self,
        array: Any,
        axis: Any = 0,
        dtype: Any = None,
        out: Any = None,
        keepdims: bool = False,
    ) -> Any:
        return self.inner.reduce(array, axes_of(array, axis), dtype, out, keepdims)

    def accumulate(self, array: Any, axis: int = 0) -> Any:
        return self.inner.accumulate(array, axis)


class Added(Summed):
    """`add`: CuPy also sums segments, and into places."""

    def reduceat(self, array: Any, indices: Any, axis: int = 0) -> Any:
        return self.inner.reduceat(array, indices, axis)

    def carrier(self, dtype: Any) -> Any:
        if dtype.kind == "V":
            return np.dtype(np.float32)
        if dtype.kind in "iub" and dtype not in (np.int32, np.uint32, np.uint64):
            # Sums of integers are the same in all integers that are wide enough.
            return np.dtype(np.uint64 if dtype.itemsize == 8 else np.int32)
        return dtype


class Multiplied(Summed):
    """`multiply`: CuPy cannot multiply into places."""

    def at(self, target: Any, index: Any, values: Any) -> None:
        """Values that go to one place are brought together and multiplied in doubling steps."""
        xp = self.xp
        order = xp.argsort(index)
        keys = index[order]
        found = xp.broadcast_to(self.as_array(values, target.dtype), index.shape)[order]
        step = 1
        while step < keys.shape[0]:
            same = keys[step:] == keys[:-step]
            product = found.copy()
            product[step:] = xp.where(same, found[step:] * found[:-step], found[step:])
            found = product
            step *= 2
        last = xp.flatnonzero(xp.concatenate((keys[1:] != keys[:-1], keys[-1:] == keys[-1:])))
        target[keys[last]] *= found[last]


class Ordered(Ufunc):
    """`maximum` and `minimum`, under the name that CuPy has for their reduction."""

    def __init__(self, xp: Any, inner: Any) -> None:
        super().__init__(xp, inner)
        self.upwards = inner.__name__.endswith("maximum")
        self.reduction = xp.max if self.upwards else xp.min

    def reduce(
        self,
        array: Any,
        axis: Any = 0,
        dtype: Any = None,
        out: Any = None,
        keepdims: bool = False,
        initial: Any = None,
    ) -> Any:
        if initial is not None and not array.size:
            shape = reduced_shape(array.shape, axis, keepdims)
            return self.xp.full(shape, initial, array.dtype)
        found = self.reduction(array, axes_of(array, axis), None, keepdims)
        lowest = initial is None or (math.isinf(initial) and array.dtype.kind == "f")
        return found if lowest else self.inner(found, initial)

    def carrier(self, dtype: Any) -> Any:
        return np.dtype(np.uint64) if dtype.itemsize == 8 else np.dtype(np.int32)

    def carried(self, x: Any, dtype: Any) -> Any:
        """Integers in the order of the numbers: CuPy rounds doubles to single, and loses NaN."""
        if x.dtype.kind in "fV":
            wide = x.astype(np.float64 if dtype.itemsize == 8 else np.float32, copy=False)
            order = flipped(wide)
            limits = np.iinfo(order.dtype)
            nan = order.dtype.type(limits.max if self.upwards else limits.min)
            x = self.xp.where(self.xp.isnan(wide), nan, order)
        if x.dtype == np.int64:
            return x.astype(dtype) ^ TOP  # the order of signed numbers among unsigned ones
        return x.astype(dtype)

    def back(self, x: Any, dtype: Any) -> Any:
        if dtype.itemsize == 8 and dtype != np.uint64:
            x = (x ^ TOP).astype(np.int64)
        if dtype.kind in "fV":
            x = flipped(x).view(np.float64 if x.itemsize == 8 else np.float32)
        return x.astype(dtype)


def flipped(x: Any) -> Any:
    """The bits of floats as signed integers in the same order; and, of those, the bits."""
    x = x.view(np.int64 if x.itemsize == 8 else np.int32)
    limits = np.iinfo(x.dtype)
    return x ^ ((x >> (limits.bits - 1)) & x.dtype.type(limits.max))


class Logical(Ufunc):
    """`logical_and` and `logical_or`: `all` and `any`."""

    def __init__(self, xp: Any, inner: Any) -> None:
        super().__init__(xp, inner)
        self.reduction = xp.all if inner.__name__.endswith("and") else xp.any

    def reduce(self, array: Any, axis: Any = 0, keepdims: bool = False) -> Any:
        return self.reduction(array, axes_of(array, axis), None, keepdims)


class Folded(Ufunc):
    """Reduced by folding: one half of an axis onto the other until one is left."""

    def reduce(self, array: Any, axis: Any = 0, keepdims: bool = False) -> Any:
        if axis is None or not array.ndim:
            array, axes = array.reshape(-1), [0]
            shape: Any = ()
        else:
            axes = [axis] if isinstance(axis, int) else list(axis)
            shape = reduced_shape(array.shape, axis, keepdims)
        for axis in axes:
            array = self.fold(array, axis)
        return array.reshape(shape)

    def fold(self, array: Any, axis: int) -> Any:
        array = self.xp.moveaxis(array, axis, 0)
        if not array.shape[0]:
            array = self.xp.zeros((1, *array.shape[1:]), array.dtype)
        while array.shape[0] > 1:
            half = array.shape[0] // 2
            folded = self.inner(array[:half], array[half : 2 * half])
            if array.shape[0] % 2:
                folded = self.xp.concatenate((folded, array[-1:]))
            array = folded
        return self.xp.moveaxis(array, 0, axis)


def axes_of(array: Any, axis: Any) -> Any:
    """`axis`, as CuPy takes it: it knows no axis 0 of arrays without dimensions."""
    return axis if array.ndim else None


def reduced_shape(shape: tuple[int, ...], axis: Any, keepdims: bool) -> tuple[int, ...]:
    if axis is None:
        axes = set(range(len(shape)))
    else:
        axes = {a % len(shape) for a in ((axis,) if isinstance(axis, int) else axis)}
    if keepdims:
        return tuple([1 if d in axes else n for d, n in enumerate(shape)])
    return tuple([n for d, n in enumerate(shape) if d not in axes])


UFUNCS: dict[str, type[Ufunc]] = {
    "add": Added,
    "multiply": Multiplied,
    "maximum": Ordered,
    "minimum": Ordered,
    "logical_and": Logical,
    "logical_or": Logical,
    "bitwise_xor": Folded,
    "logaddexp": Folded,
}
