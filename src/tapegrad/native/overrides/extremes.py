"""The largest and the smallest of few elements: of long rows NumPy finds them sooner."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import KERNELS
from .reduce import last_run, reduced_shape
from .rows import for_dtypes, is_dense, pick

FEW = 1 << 13  # elements
KERNELS_OF = for_dtypes("extremes")


def run_for(input: Any, dim: Any) -> Any:
    """The kernel, if it is one for these: neighbouring dimensions of an array in C order."""
    run = pick(KERNELS_OF, input)
    if run is None or not 0 < input.size <= FEW or not is_dense(input):
        return None
    return run if dim is None or (len(dim) > 0 and last_run(dim) == 0) else None


def sizes(input: Any, dim: Any) -> tuple[int, int, int]:
    """How many elements there are before, along and after neighbouring dimensions."""
    if dim is None:
        return 1, input.size, 1
    shape = input.shape
    first, last = dim[0], dim[-1] + 1
    return math.prod(shape[:first]), math.prod(shape[first:last]), math.prod(shape[last:])


def along(smallest: bool) -> Any:
    def make(reference: Any) -> Any:
        def kernel(input: Any, dim: int, keepdim: bool) -> Any:
            run = run_for(input, (dim,)) if input.ndim else None
            if run is None:
                return reference(input, dim, keepdim)
            shape = reduced_shape(input.shape, (dim,), keepdim)
            values, places = np.empty(shape, input.dtype), np.empty(shape, np.int64)
            run((input, values, places), (*sizes(input, (dim,)), smallest))
            return values, places

        return kernel

    return make


def places_alone(smallest: bool) -> Any:
    def make(reference: Any) -> Any:
        def kernel(input: Any, dim: int | None, keepdim: bool) -> Any:
            dims = None if dim is None else (dim,)
            run = run_for(input, dims) if input.ndim else None
            if run is None:
                return reference(input, dim, keepdim)
            places = np.empty(reduced_shape(input.shape, dims, keepdim), np.int64)
            run((input, None, places), (*sizes(input, dims), smallest))
            return places

        return kernel

    return make


def values_alone(smallest: bool) -> Any:
    def make(reference: Any) -> Any:
        def kernel(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
            run = run_for(input, dim)
            if run is None:
                return reference(input, dim, keepdim)
            values = np.empty(reduced_shape(input.shape, dim, keepdim), input.dtype)
            run((input, values, None), (*sizes(input, dim), smallest))
            return values

        return kernel

    return make


def of_all(smallest: bool) -> Any:
    def make(reference: Any) -> Any:
        return values_alone(smallest)(lambda input, dim, keepdim: reference(input))

    return make


def truths(any_will_do: bool) -> Any:
    """all and any: NumPy's, but on a tape."""

    def make(reference: Any) -> Any:
        def kernel(input: Any, dim: Any, keepdim: bool) -> Any:
            plain = KERNELS.has_tape() and type(input) is np.ndarray and input.dtype == bool
            if not plain or not input.size or not is_dense(input):
                return reference(input, dim, keepdim)
            if dim is not None and (not dim or last_run(dim)):
                return reference(input, dim, keepdim)
            out = np.empty(reduced_shape(input.shape, dim, keepdim), bool)
            KERNELS.KERNELS["truths"]((input, out), (*sizes(input, dim), any_will_do))
            return out

        return kernel

    return make


OVERRIDES = {
    **{"all": truths(False), "any": truths(True)},
    **{"max": along(False), "min": along(True)},
    **{"argmax": places_alone(False), "argmin": places_alone(True)},
    **{"amax": values_alone(False), "amin": values_alone(True)},
    **{"max_all": of_all(False), "min_all": of_all(True)},
}
