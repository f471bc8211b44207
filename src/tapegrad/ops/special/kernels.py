"""Helpers of the special functions' kernels: blocks, pieces of a domain, polynomials.

The approximations next door are rational functions or polynomials through the Chebyshev nodes of
an interval, worked out with fifty digits and rounded to doubles, highest power first. Nearly
all kernels compute in double precision, whatever they are given, and round once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...core.host_arrays import host
from ...core.settings import Settings
from ...kernels.cpu.gamma_functions import BY_C, computed
from ...kernels.portable.functions import FUNCTIONS

# Functions that the portable mode has formulas of its own for.
PORTABLE = {"erf": "erf", "erf_single": "erf", "erfc": "erfc", "log_gamma": "lgamma"}
BLOCK = 1 << 15  # elements: a few temporaries of this many doubles stay in the cache


def horner(coefficients: Sequence[float], x: Any) -> Any:
    """A polynomial, highest power first; `x` has a dimension."""
    if hasattr(x, "polynomial"):  # a symbol in the place of an array: expressions/symbols.py
        return x.polynomial(coefficients)
    out = x * coefficients[0]
    out += coefficients[1]
    for c in coefficients[2:]:
        out *= x
        out += c
    return out


def ratio(coefficients: tuple[Sequence[float], Sequence[float]], x: Any) -> Any:
    """A rational function: one polynomial over another."""
    out = horner(coefficients[0], x)
    out /= horner(coefficients[1], x)
    return out


def by_parts(xp: Any, default: float, parts: Sequence[tuple[Any, Any]], *operands: Any) -> Any:
    """Each (mask, function) fills its own elements; what no mask takes is `default`."""
    if hasattr(xp, "by_parts"):  # as in `pointwise`
        return xp.by_parts(default, parts, operands)
    out = xp.full(operands[0].shape, default)
    if xp is not host:
        # Which elements there are, the GPU alone knows: it computes every part for all of them.
        for mask, function in parts:
            out = xp.where(mask, function(*[x.copy() for x in operands]), out)
        return out
    for mask, function in parts:
        if mask.all():
            return function(*operands)
        if mask.any():
            out[mask] = function(*[x[mask] for x in operands])
    return out


def pointwise(xp: Any, function: Callable[..., Any], *operands: Any, double: bool = True) -> Any:
    """`function(xp, x, …)` of doubles in one dimension, block by block.

    Operands broadcast; the result has their dtype, and the layout that a ufunc would give it. With
    `double=False` the function gets their own dtype. Half precision is rounded from single.
    """
    if hasattr(xp, "pointwise"):  # symbols in the place of arrays: expressions/symbols.py
        return xp.pointwise(function, operands, double)
    if Settings.portable and xp is host:
        own = PORTABLE.get(function.__name__)
        if own is not None:
            return FUNCTIONS[own](*operands)
    by_c = BY_C.get(function) if xp is host else None
    found = computed(by_c, *operands)
    if found is not None:
        return found
    dtype = next(x.dtype for x in operands if hasattr(x, "dtype"))
    single = dtype.itemsize == 2
    inner = xp.float64 if double else xp.float32 if single else dtype
    wide = [xp.asarray(x).astype(inner, copy=False) for x in operands]
    guide = wide[0]
    if len(wide) > 1:
        for other in wide[1:]:
            guide = guide + other
        wide = [xp.broadcast_to(x, guide.shape) for x in wide]
    # In the order of memory, so that the result can be laid out alike.
    order = list(range(guide.ndim))
    if 0 not in guide.strides:
        order.sort(key=lambda d: -guide.strides[d])
    lines = [x.transpose(order).reshape(-1) for x in wide]
    size = guide.size
    out = xp.empty(size, dtype)
    block = BLOCK if xp is host else max(size, 1)
    for start in range(0, size, block):
        stop = start + block
        parts = [x[start:stop] for x in lines]
        made = computed(by_c, *parts)
        if made is None:
            made = function(xp, *parts)
        out[start:stop] = made.astype(xp.float32, copy=False) if single else made
    back = [order.index(d) for d in range(guide.ndim)]
    return out.reshape([guide.shape[d] for d in order]).transpose(back)
