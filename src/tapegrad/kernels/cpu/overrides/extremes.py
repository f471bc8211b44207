"""Maximum and minimum of few elements; NumPy is faster for long rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import KERNELS
from .reduce import last_run, reduced_shape
from .rows import empty, for_dtypes, is_dense, is_half, narrowed, pick, widened

FEW = 1 << 13  # elements
FEW_HALVES = 64  # elements of half precision: NumPy compares so many before they are widened
KERNELS_OF = for_dtypes("extremes")


def run_for(input: Any, dim: Any) -> Any:
    """The kernel for neighbouring dimensions of an array in C order; None for other arguments."""
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


def extremes(smallest: bool, *, values: bool, places: bool) -> Any:
    """Override of (input, dim, keepdim) or (input): the extremes, their indices, or both."""

    def make(reference: Any) -> Any:
        def kernel(input: Any, *how: Any) -> Any:
            dim, keepdim = how or (None, False)
            if is_half(input) and input.size > FEW_HALVES and is_dense(input):
                found = kernel(widened(input), *how)
                if places and not values:
                    return found
                if not places:
                    return narrowed(np.asarray(found), input)
                return narrowed(np.asarray(found[0]), input), found[1]
            dims = (dim,) if isinstance(dim, int) else dim
            run = run_for(input, dims)
            if run is None:
                return reference(input, *how)
            shape = reduced_shape(input.shape, dims, keepdim)
            found = np.empty(shape, input.dtype) if values else None
            where = np.empty(shape, np.int64) if places else None
            run((input, found, where), (*sizes(input, dims), smallest))
            return (found, where) if values and places else found if values else where

        return kernel

    return make


def running_extremes(smallest: bool) -> Any:
    """The extremes up to each place along a dimension, and where they are."""
    kernels = for_dtypes("running_extremes")

    def make(reference: Any) -> Any:
        def kernel(input: Any, dim: int) -> Any:
            if is_half(input) and input.size > FEW_HALVES and is_dense(input):
                values, where = kernel(widened(input), dim)  # compared as float, which is exact
                return narrowed(np.asarray(values), input), where
            run = pick(kernels, input)
            if run is None or not input.ndim or not input.size or not is_dense(input):
                return reference(input, dim)
            values, where = empty(input.shape, input), np.empty(input.shape, np.int64)
            run((input, values, where), (*sizes(input, (dim,)), smallest))
            return values, where

        return kernel

    return make


def both_extremes(reference: Any) -> Any:
    """aminmax; half precision is compared as float, which is exact."""

    def kernel(input: Any, dim: Any, keepdim: bool) -> Any:
        if not is_half(input) or input.size <= FEW_HALVES or not is_dense(input):
            return reference(input, dim, keepdim)
        found = reference(widened(input), dim, keepdim)
        return tuple([narrowed(np.asarray(x), input) for x in found])

    return kernel


def truths(any_will_do: bool) -> Any:
    """all and any: in C while a tape is recorded, else by NumPy."""

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


OVERRIDES = {"aminmax": both_extremes, "all": truths(False), "any": truths(True)}
for _name, _smallest in (("max", False), ("min", True)):
    OVERRIDES[_name] = extremes(_smallest, values=True, places=True)
    OVERRIDES[f"cum{_name}"] = running_extremes(_smallest)
    OVERRIDES[f"arg{_name}"] = extremes(_smallest, values=False, places=True)
    OVERRIDES[f"a{_name}"] = extremes(_smallest, values=True, places=False)
    OVERRIDES[f"{_name}_all"] = extremes(_smallest, values=True, places=False)
