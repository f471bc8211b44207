"""The BLAS that NumPy's wheels bring along: its threads, and its products of matrices in C."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
from glob import glob
from typing import Any

import numpy as np

from . import KERNELS


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
    """Tell the kernels where the functions are; False where there are none with 64-bit integers."""
    found: list[Any] = []
    for name in ("sgemm", "dgemm"):
        found.append(getattr(blas_library(), f"scipy_cblas_{name}64_", None))
    found += [blas_function("get_num_threads"), blas_function("set_num_threads")]
    if KERNELS is None or None in found:
        return False
    KERNELS.set_blas(*[ctypes.cast(f, ctypes.c_void_p).value for f in found])
    return True


def numpy_dot(a: Any, b: Any) -> Any:
    """The product of two matrices of floats: the same as matmul, with less ado."""
    return a.dot(b)


def native_dot(a: Any, b: Any) -> Any:
    out = KERNELS.product(a, b)
    return a.dot(b) if out is None else out


CONNECTED = connect() if KERNELS is not None else False
dot = native_dot if CONNECTED else numpy_dot
