"""Factorizations by the C functions that numpy.linalg calls, without numpy.linalg's checks.

They are not public: where NumPy has no such module, numpy.linalg itself runs. It runs too where a
result is not finite, for its errors. Blocks have compared sizes and dtypes before. Like
numpy.linalg, these compute in double.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import KERNELS

C: Any = getattr(np.linalg, "_umath_linalg", None)
Function = Callable[..., Any]
WORDS = {"f": "d", "d": "d", "F": "D", "D": "D"}  # the dtype that a dtype is computed in
REAL = {"d": "d", "D": "d"}
SINGLE = {"d": np.dtype(np.float32), "D": np.dtype(np.complex64)}


def kind_of(x: Any) -> str:
    """The dtype that an array is computed in, as a character; empty: not for us."""
    if type(x) is not np.ndarray or x.ndim < 2 or not x.size or not x.dtype.isnative:
        return ""
    return WORDS.get(x.dtype.char, "")


def all_finite(x: Any) -> bool:
    """False may also mean that it is not known."""
    if x.dtype.kind == "c":
        return x.flags.c_contiguous and all_finite(x.view(x.real.dtype))
    return bool(KERNELS.all_finite(x))


def as_given(parts: tuple[Any, ...], like: Any) -> tuple[Any, ...]:
    """Results in the precision of `like`."""
    if like.dtype.char in "dD":
        return parts
    return tuple([x.astype(SINGLE[x.dtype.char]) for x in parts])


def of_one(name: str) -> Callable[[Function], Function]:
    """For functions of one array with one result of its dtype: `name` is the C function's."""

    def make(checked: Function) -> Function:
        loop = getattr(C, name)

        def run(a: Any) -> Any:
            kind = kind_of(a)
            if kind:
                out = loop(a, signature=f"{kind}->{kind}")
                if all_finite(out):
                    return as_given((out,), a)[0]
            return checked(a)

        return run

    return make


def solve(checked: Function) -> Function:
    def run(a: Any, b: Any) -> Any:
        kind = kind_of(a)
        if kind and b.ndim >= 2 and a.dtype == b.dtype and b.size:
            out = C.solve(a, b, signature=f"{kind}{kind}->{kind}")
            if all_finite(out):
                return as_given((out,), a)[0]
        return checked(a, b)

    return run


def determinant(checked: Function) -> Function:
    def run(a: Any) -> Any:
        kind = kind_of(a)
        if not kind:
            return checked(a)
        return C.det(a, signature=f"{kind}->{kind}").astype(a.dtype, copy=False)

    return run


def sign_and_logarithm(checked: Function) -> Function:
    def run(a: Any) -> Any:
        kind = kind_of(a)
        if not kind:
            return checked(a)
        sign, log = C.slogdet(a, signature=f"{kind}->{kind}{REAL[kind]}")
        real = a.real.dtype
        return sign.astype(a.dtype, copy=False), log.astype(real, copy=False)

    return run


def symmetric(checked: Function) -> Function:
    def run(a: Any, uplo: str = "L") -> Any:
        kind = kind_of(a)
        if kind:
            how = C.eigh_lo if uplo == "L" else C.eigh_up
            values, vectors = how(a, signature=f"{kind}->{REAL[kind]}{kind}")
            if all_finite(values):
                return as_given((values, vectors), a)
        return checked(a, uplo)

    return run


def singular(checked: Function) -> Function:
    def run(a: Any, full_matrices: bool = True, compute_uv: bool = True) -> Any:
        kind = kind_of(a)
        if kind and compute_uv:
            how = C.svd_f if full_matrices else C.svd_s
            parts = how(a, signature=f"{kind}->{kind}{REAL[kind]}{kind}")
            if all_finite(parts[1]):
                return as_given(parts, a)
        elif kind:
            values = C.svd(a, signature=f"{kind}->{REAL[kind]}")
            if all_finite(values):
                return values.astype(a.real.dtype, copy=False)
        return checked(a, full_matrices, compute_uv)

    return run


def orthogonal(checked: Function) -> Function:
    triangle = KERNELS.KERNELS["triangle"] if KERNELS is not None else None

    def run(a: Any, mode: str = "reduced") -> Any:
        kind = kind_of(a)
        if not kind:
            return checked(a, mode)
        made = a.astype(kind)  # which is overwritten; numpy.linalg keeps its order, too
        rows, columns = a.shape[-2:]
        depth = min(rows, columns)
        tau = C.qr_r_raw(made, signature=f"{kind}->{kind}")
        if mode == "raw":
            return as_given((made.swapaxes(-1, -2), tau), a)
        complete = mode == "complete" and rows > columns
        upper = np.ascontiguousarray(made[..., : rows if complete else depth, :])
        r = np.empty(upper.shape, upper.dtype)
        height = upper.shape[-2]
        sizes = (upper.size // (height * columns), height, columns, upper.itemsize, 0, False)
        triangle((upper, r), sizes)
        if mode == "r":
            return as_given((r,), a)[0]
        how = C.qr_complete if complete else C.qr_reduced
        return as_given((how(made, tau, signature=f"{kind}{kind}->{kind}"), r), a)

    return run


STRAIGHT: dict[str, Function] = {}
if C is not None and KERNELS is not None:
    STRAIGHT = {
        name: make(getattr(np.linalg, name))
        for name, make in (
            ("cholesky", of_one("cholesky_lo")),
            ("solve", solve),
            ("inv", of_one("inv")),
            ("det", determinant),
            ("slogdet", sign_and_logarithm),
            ("eigh", symmetric),
            ("svd", singular),
            ("qr", orthogonal),
        )
    }
