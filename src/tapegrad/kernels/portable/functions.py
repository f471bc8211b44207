"""The functions of formulas.py on NumPy's arrays: by the loops in C that are printed from it, or by
NumPy, with the same bits."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.base import ndarray
from ...core.settings import Settings
from ..cpu import KERNELS
from . import formulas

F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
CHUNK = 4096  # doubles: a few dozen temporaries of so many stay in the cache
SUFFIXES = {F32: "f32", F64: "f64"}


class NotPortable(RuntimeError):
    """A function was asked for that rounds otherwise on other machines."""

    def __init__(self, why: str, text: str = "") -> None:
        super().__init__(text or why)
        self.why = why


class NumPyPrimitives:
    where = staticmethod(np.where)
    sqrt = staticmethod(np.sqrt)
    rint = staticmethod(np.rint)

    @staticmethod
    def bits(x: Any) -> Any:
        return x.view(np.uint64)

    @staticmethod
    def floats(bits: Any) -> Any:
        return bits.view(np.float64)


NUMPY = NumPyPrimitives()


def by_numpy(formula: Callable[..., Any], lines: list[Any], out: Any) -> None:
    """Compute one-dimensional arrays of doubles, or floats, piece by piece."""
    with np.errstate(all="ignore"):
        for start in range(0, out.size, CHUNK):
            parts = [x[start : start + CHUNK].astype(np.float64, copy=False) for x in lines]
            out[start : start + CHUNK] = formula(NUMPY, *parts)


def compute(name: str, lines: list[Any], out: Any) -> None:
    """A function of lines of float32 or float64, all of them dense and of the dtype of `out`."""
    if KERNELS is not None:
        far = np.zeros(1, np.int64)
        KERNELS.KERNELS[f"portable_{name}_{SUFFIXES[out.dtype]}"]((*lines, out, far), (out.size,))
        is_far = bool(far[0])
    else:
        table = SINGLE if out.dtype == F32 else FORMULAS
        by_numpy(table[name], lines, out)
        is_far = name in formulas.AFTER_TURNS and bool(
            (np.abs(lines[0]) > formulas.FAR_ANGLE).any()
        )
    if is_far:
        far_angles(name, lines[0], out)


FORMULAS = formulas.UNARY | formulas.BINARY
SINGLE = FORMULAS | formulas.SINGLE


# ---------------------------------------------------------------------- far angles


@functools.cache
def half_pi(bits: int) -> int:
    """Half of pi times 2**bits, rounded down, by Machin's formula."""
    one = 1 << (bits + 32)

    def arc(n: int) -> int:  # atan(1 / n)
        term = total = one // n
        k = 1
        while term:
            term //= n * n
            k += 2
            total += term // k if k % 4 == 1 else -(term // k)
        return total

    return (8 * arc(5) - 2 * arc(239)) >> 32


WIDE = 1280  # more bits than the exponent and the digits of a double together


def turns_of(x: float) -> tuple[int, float, float]:
    """Quarter turns, and what is left in two parts, of any finite angle."""
    numerator, denominator = x.as_integer_ratio()
    whole, quarter = (numerator << WIDE) // denominator, half_pi(WIDE)
    n = (2 * whole + quarter) // (2 * quarter)
    rest = whole - n * quarter
    high = rest / (1 << WIDE)
    top, bottom = high.as_integer_ratio()
    return n & 3, high, (rest - (top << WIDE) // bottom) / (1 << WIDE)


def far_angles(name: str, x: Any, out: Any) -> None:
    """Fill in the elements whose quarter turns the loops cannot count."""
    wide = x.astype(np.float64, copy=False)
    at = np.flatnonzero((np.abs(wide) > formulas.FAR_ANGLE) & np.isfinite(wide))
    parts = list(zip(*[turns_of(v) for v in wide[at].tolist()], strict=True))
    if parts:
        turns, high, low = np.array(parts[0], np.uint64), np.array(parts[1]), np.array(parts[2])
        out[at] = formulas.AFTER_TURNS[name](NUMPY, turns, high, low)


# ---------------------------------------------------------------------- as NumPy's functions


def dtype_of(name: str, *given: Any) -> Any:
    """NumPy's dtype of the result; refused for complex numbers."""
    dtype = np.result_type(*given)
    if dtype.kind == "c":
        raise NotPortable(f"{name} of complex numbers")
    return np.promote_types(dtype, np.float16) if dtype.kind in "biu" else dtype


def into(out: Any, made: Any) -> Any:
    if out is None:
        return made
    out[...] = made
    return out


def unary(name: str) -> Callable[..., Any]:
    angles = name in formulas.AFTER_TURNS
    kernels = [KERNELS and KERNELS.KERNELS[f"portable_{name}_{kind}"] for kind in ("f32", "f64")]

    def run(x: Any, out: Any = None) -> Any:
        if KERNELS is not None and type(x) is ndarray:  # 2 us instead of 10
            dtype = x.dtype
            if (dtype is F32 or dtype is F64) and x.flags.carray:
                made = KERNELS.empty(x.shape, x) if out is None else out
                if made.dtype is dtype and made.shape == x.shape and made.flags.carray:
                    if not angles:
                        kernels[dtype is F64]((x, made), (x.size,))
                        return made
                    far = np.zeros(1, np.int64)
                    given = x.copy() if out is not None and np.may_share_memory(x, out) else x
                    kernels[dtype is F64]((given, made, far), (x.size,))
                    if far[0]:
                        far_angles(name, given.reshape(-1), made.reshape(-1))
                    return made
        x = np.asarray(x)
        dtype = dtype_of(name, x)
        work = F64 if dtype.kind == "f" and dtype.itemsize >= 8 else F32
        order = None if x.flags.c_contiguous else slowest_first(x)
        given = np.ascontiguousarray(x if order is None else x.transpose(order), work)
        made = np.empty(given.shape if x.ndim else (), work)
        compute(name, [given.reshape(-1)], made.reshape(-1))
        if order is not None:
            made = made.transpose(np.argsort(order))
        return into(out, made.astype(dtype, copy=False))

    run.__name__ = name
    return run


def slowest_first(x: Any) -> list[int]:
    """The dimensions in the order in which they lie in memory."""
    return sorted(range(x.ndim), key=lambda d: -abs(x.strides[d]))


def binary(name: str) -> Callable[..., Any]:
    def run(a: Any, b: Any, out: Any = None) -> Any:
        dtype = dtype_of(name, a, b)
        if name == "power" and np.result_type(a, b).kind in "biu":
            return into(out, np.power(a, b))
        work = F64 if dtype.kind == "f" and dtype.itemsize >= 8 else F32
        a, b = np.asarray(a, work), np.asarray(b, work)
        order = None
        if a.shape != b.shape or not a.flags.c_contiguous or not b.flags.c_contiguous:
            # As NumPy's functions lay their results out.
            with np.errstate(all="ignore"):
                guide = a + b
            order = slowest_first(guide)
            a = np.broadcast_to(a, guide.shape).transpose(order)
            b = np.broadcast_to(b, guide.shape).transpose(order)
        made = np.empty(a.shape, work)
        compute(name, [np.ascontiguousarray(x).reshape(-1) for x in (a, b)], made.reshape(-1))
        if order is not None:
            made = made.transpose(np.argsort(order))
        return into(out, made.astype(dtype, copy=False))

    run.__name__ = name
    return run


FUNCTIONS = {name: unary(name) for name in formulas.UNARY}
FUNCTIONS |= {name: binary(name) for name in formulas.BINARY}


def running(x: Any, axis: int = 0) -> Any:
    """logaddexp.accumulate"""
    lines = np.moveaxis(np.array(x), axis, 0)
    for i in range(1, len(lines)):
        lines[i] = FUNCTIONS["logaddexp"](lines[i - 1], lines[i])
    return np.moveaxis(lines, 0, axis)


FUNCTIONS["logaddexp"].accumulate = running  # type: ignore[attr-defined]


# ---------------------------------------------------------------------- numbers of Python


@functools.lru_cache(4096)
def of_numbers(name: str, *numbers: float) -> float:
    out = np.empty(1)
    compute(name, [np.array([x], np.float64) for x in numbers], out)
    return float(out[0])


class Numbers:
    """`math`, with functions that have the same bits everywhere while that is asked for."""

    def __getattr__(self, name: str) -> Any:
        ordinary = getattr(math, name)
        own = {"atan2": "arctan2", "asin": "arcsin", "acos": "arccos", "atan": "arctan"}.get(
            name, name
        )
        if own not in formulas.UNARY:
            return ordinary

        def run(x: float, *base: float) -> float:
            if not Settings.portable:
                return ordinary(x, *base)
            if base:
                return of_numbers("log", float(x)) / of_numbers("log", float(base[0]))
            return of_numbers(own, float(x))

        setattr(self, name, run)
        return run

    @staticmethod
    def power(base: Any, exponent: Any) -> Any:
        """`base ** exponent`."""
        if Settings.portable and type(base) in (int, float) and type(exponent) in (int, float):
            if not (type(base) is type(exponent) is int):
                return of_numbers("power", float(base), float(exponent))
        return base**exponent


NUMBERS = Numbers()
