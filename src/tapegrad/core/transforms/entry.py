"""The `_array` of a batched tensor: it knows what one entry looks like, and has no values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .levels import BATCHES

NO_VALUES = (
    "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over calling "
    ".item() on a Tensor, please try to rewrite what you're doing with other operations. If error "
    "is occurring somewhere inside PyTorch internals, please file a bug report."
)
ESCAPED = (
    "Either your tensor may have escaped from inside a function being vmapped and this is a user "
    "error (see https://pytorch.org/functorch/stable/ux_limitations.html), or there is an internal "
    "functorch error in `{}` Please file an issue if it looks like the latter"
)


def no_values() -> Exception:
    return refusal(NO_VALUES)


def refusal(sentence: str) -> Exception:
    """An exception that `loop_over` may answer to (looping.py)."""
    error = RuntimeError(sentence)
    error.unbatched = True  # type: ignore[attr-defined]
    return error


def escaped() -> Exception:
    return RuntimeError(ESCAPED.format("gen_vmap_plumbing"))


class Entry:
    """The `_array` of a batched tensor: what one entry looks like, without its values."""

    __slots__ = ("dtype", "ndim", "shape", "strides")

    def __init__(self, dtype: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
        self.dtype = dtype
        self.shape = shape
        self.strides = strides
        self.ndim = len(shape)

    base = None

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        return int(self.dtype.itemsize)

    @property
    def nbytes(self) -> int:
        return self.size * self.itemsize

    @property
    def flags(self) -> Any:
        return np.ndarray(self.shape, self.dtype, bytes(self.reach()), 0, self.strides).flags

    def reach(self) -> int:
        """How many bytes an entry spans."""
        steps = [(n - 1) * s for n, s in zip(self.shape, self.strides, strict=True)]
        return (sum(steps) if self.size else 0) + self.itemsize

    # Looking at the dimensions another way needs no values.

    def transpose(self, *axes: Any) -> Entry:
        order = axes[0] if len(axes) == 1 else axes
        shape = tuple([self.shape[d] for d in order])
        return Entry(self.dtype, shape, tuple([self.strides[d] for d in order]))

    def swapaxes(self, a: int, b: int) -> Entry:
        order = list(range(self.ndim))
        order[a], order[b] = order[b], order[a]
        return self.transpose(order)

    def __getitem__(self, index: Any) -> Entry:
        if type(index) is tuple and len(index) == 2 and index[0] is ... and index[1] is None:
            return Entry(self.dtype, (*self.shape, 1), (*self.strides, 0))
        return self.refuse()  # type: ignore[no-any-return]

    def refuse(self, *args: Any, **kwargs: Any) -> Any:
        raise no_values() if BATCHES else escaped()

    # Whatever asks for values, NumPy above all, is told that there are none.
    __array__ = __array_ufunc__ = __array_function__ = refuse
    __setitem__ = __iter__ = __len__ = __bool__ = __float__ = __int__ = __index__ = refuse
    __lt__ = __le__ = __gt__ = __ge__ = __add__ = __sub__ = __mul__ = __mod__ = __neg__ = refuse
    __radd__ = __rsub__ = __rmul__ = __and__ = __or__ = __invert__ = __truediv__ = refuse
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> Any:
        return self.refuse()

    def __getattr__(self, name: str) -> Any:
        if hasattr(np.ndarray, name) and not name.startswith("__"):
            return self.refuse()
        raise AttributeError(name)
