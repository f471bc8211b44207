"""The BLAS that NumPy's wheels bring along: its threads, and its products of matrices in C."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import types
from glob import glob
from typing import Any

import numpy as np

from ...core.host_arrays import host
from ...core.locks import new_lock
from ...core.settings import Settings
from . import KERNELS
from .factorizations import STRAIGHT


@functools.cache
def blas_library() -> ctypes.CDLL | None:
    """The OpenBLAS of NumPy's wheels; None with another BLAS."""
    root = os.path.dirname(np.__file__)
    for folder in (f"{root}.libs", os.path.join(root, ".dylibs")):
        for path in glob(os.path.join(folder, "*openblas*")):
            with contextlib.suppress(OSError):
                return ctypes.CDLL(path)
    return None


def blas_function(name: str) -> Any:
    """A function of OpenBLAS, such as `set_num_threads`; None where there is none."""
    library = blas_library()
    for spelling in (f"scipy_openblas_{name}64_", f"openblas_{name}64_", f"openblas_{name}"):
        if hasattr(library, spelling):
            return getattr(library, spelling)
    return None


def connect() -> bool:
    """Tell the kernels where the functions are; False where there are none with 64-bit integers.

    With TAPEGRAD_BLAS=0 they are not told: all products of the kernels are their own, in one order.
    """
    if os.environ.get("TAPEGRAD_BLAS") == "0":
        return True
    found: list[Any] = []
    for name in ("sgemm", "dgemm"):
        found.append(getattr(blas_library(), f"scipy_cblas_{name}64_", None))
    found += [blas_function("get_num_threads"), blas_function("set_num_threads")]
    if KERNELS is None or None in found:
        return False
    KERNELS.set_blas(*[ctypes.cast(f, ctypes.c_void_p).value for f in found])
    return True


# ---------------------------------------------------------------------- one thread

FEW = 1 << 16  # multiplications: BLAS uses one thread for them in any case


class OneThread:
    """A context in which BLAS and LAPACK use one thread: how they cut their work decides about
    rounding. The number that was set before returns when the last such context ends."""

    def __enter__(self) -> None:
        KERNELS.one_thread(True)

    def __exit__(self, *error: object) -> None:
        KERNELS.one_thread(False)


class OneThreadByPython:
    """`OneThread` without C."""

    def __init__(self) -> None:
        self.lock = new_lock()
        self.inside = 0
        self.before = 1

    def __enter__(self) -> None:
        with self.lock:
            if not self.inside:
                self.before = ask_threads()
                if self.before != 1:
                    tell_threads(1)
            self.inside += 1

    def __exit__(self, *error: object) -> None:
        with self.lock:
            self.inside -= 1
            if not self.inside and self.before != 1:
                tell_threads(self.before)


ask_threads, tell_threads = blas_function("get_num_threads"), blas_function("set_num_threads")
ONE_THREAD: Any = contextlib.nullcontext()
if ask_threads and tell_threads:
    ONE_THREAD = OneThreadByPython() if KERNELS is None else OneThread()
    if KERNELS is not None:
        addresses = [ctypes.cast(f, ctypes.c_void_p).value for f in (ask_threads, tell_threads)]
        KERNELS.know_threads(*addresses)


def in_one_thread(function: Any) -> Any:
    """`function`, whose use of BLAS gives the same bits however many threads there are."""
    if KERNELS is not None:
        return KERNELS.in_one_thread(function)

    @functools.wraps(function)
    def run(*args: Any, **options: Any) -> Any:
        with ONE_THREAD:
            return function(*args, **options)

    return run


def product_in_one_thread(function: Any) -> Any:
    """`in_one_thread` for a product, with less overhead where BLAS uses one thread anyway."""

    @functools.wraps(function)
    def run(a: Any, b: Any, **options: Any) -> Any:
        if a.size * b.shape[-1] <= FEW:
            return function(a, b, **options)
        with ONE_THREAD:
            return function(a, b, **options)

    return run


for name in ("matmul", "dot"):
    setattr(host, name, product_in_one_thread(getattr(np, name)))
for name in ("tensordot", "inner", "vdot", "vecdot", "matvec", "vecmat"):
    if hasattr(np, name):
        setattr(host, name, in_one_thread(getattr(np, name)))
vars(host)["linalg"] = types.SimpleNamespace(
    **{
        name: in_one_thread(STRAIGHT.get(name, value))
        if callable(value) and not isinstance(value, type)
        else value
        for name, value in vars(np.linalg).items()
        if name[:1] != "_"
    }
)

# ---------------------------------------------------------------------- products of two matrices


def numpy_dot(a: Any, b: Any) -> Any:
    """The product of two float matrices by BLAS: what matmul gives, with less overhead per call."""
    return host.dot(a, b)


def native_dot(a: Any, b: Any) -> Any:
    out = None if Settings.portable else KERNELS.product(a, b)
    return host.dot(a, b) if out is None else out


# ---------------------------------------------------------------------- triangles

LETTERS = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}


@functools.cache
def triangle_solver(dtype: Any) -> int:
    """The address of trsm for a dtype; 0 where there is none."""
    letter = LETTERS.get(dtype.name)
    run = getattr(blas_library(), f"scipy_cblas_{letter}trsm64_", None) if letter else None
    return 0 if run is None else ctypes.cast(run, ctypes.c_void_p).value or 0


def solve_triangles(a: Any, x: Any, upper: bool, unit: bool) -> bool:
    """Solve A X = B for a stack of triangles, or one; `x` holds B in C order. False: no solver."""
    if KERNELS is None or Settings.portable or a.dtype != x.dtype:
        return False
    run = triangle_solver(x.dtype)
    if not run:
        return False
    if KERNELS.solve_triangles(run, a, x, upper, unit):
        return True
    batch = x.shape[:-2]
    whole = np.ascontiguousarray(np.broadcast_to(a, (*batch, *a.shape[-2:])))
    return bool(KERNELS.solve_triangles(run, whole, x, upper, unit))


CONNECTED = connect() if KERNELS is not None else False
dot = native_dot if CONNECTED else numpy_dot
