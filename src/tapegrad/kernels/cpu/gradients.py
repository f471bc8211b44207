"""The norm of all gradients together, and gradient clipping, on the CPU.

`Gradients` has the interface of the class of that name in kernels/cuda/launchers/optim.py, for
NumPy arrays of one dtype.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.base import F32, F64, ORDINARY, TensorBase, ndarray, quiet, wrap
from . import KERNELS

PIECE = 16384  # elements of each partial sum: PIECE in c/kernels/optim.c
ORDERS = {2.0: 2, 1.0: 1, math.inf: 0}


class Gradients:
    """Kernels for lists of gradients; the other methods take what `arrays_of` returns."""

    def arrays_of(self, tensors: Sequence[Any]) -> Any:
        """The arrays of tensors for these kernels, and their table; None if one does not fit."""
        for t in tensors:
            if not isinstance(t, TensorBase) or t._special != ORDINARY or t._view_of is not None:
                return None
            node = t._node
            if node is not None and not node._is_leaf:
                return None
            if t._cell is not None and t._cell.inference:
                return None
        arrays = [t._array for t in tensors]
        table = KERNELS.together([arrays], -1)
        return None if table is None else (arrays, table)

    def run(self, name: str, found: Any, others: Any, sizes: Any, numbers: Any) -> None:
        arrays, table = found
        suffix = "f32" if arrays[0].dtype is F32 else "f64"
        KERNELS.KERNELS[f"{name}_{suffix}"]((table, *others), (len(arrays), *sizes), numbers)

    def total_norm(self, found: Any, order: float) -> Any:
        """The norm of all elements together, a tensor; None where there is no kernel for it."""
        arrays, table = found
        if order not in ORDERS or (order == math.inf and not all([x.size for x in arrays])):
            return None
        parts = np.empty(-(-int(table[-1]) // PIECE), F64)
        self.run("norm_parts", found, (parts,), (ORDERS[order],), ())
        whole = parts.max() if order == math.inf else parts.sum()
        return wrap(np.asarray(quiet(rounded_root, whole, order, arrays[0].dtype)))

    def shorten(self, found: Any, norm: Any, most: float) -> bool:
        """Scale all by `most / (norm + 1e-6)`, if that is less than one.

        False, and nothing is done, unless the norm is one number of their dtype.
        """
        if not isinstance(norm, TensorBase) or norm._special != ORDINARY:
            return False
        length, dtype = norm._array, found[0][0].dtype
        if type(length) is not ndarray or length.dtype is not dtype or length.size != 1:
            return False
        scale = quiet(factor, length, most)
        if scale != 1.0:
            self.run("scale_all", found, (), (), (scale,))
        return True

    def limit_elements(self, found: Any, most: float) -> None:
        """Limit every element to [-most, most]."""
        self.run("limit_all", found, (), (), (most,))


def rounded_root(whole: Any, order: float, dtype: Any) -> Any:
    rounded = dtype.type(whole)
    return np.sqrt(rounded) if order == 2.0 else rounded


def factor(length: Any, most: float) -> float:
    return float(np.minimum(length.dtype.type(most) / (length + length.dtype.type(1e-6)), 1).item())


GRADIENTS = Gradients() if KERNELS is not None else None
