"""Names that PyTorch keeps for old programs: functions that were removed, and small leftovers."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from ..device import contiguous_format
from ..errors.absent import absent_class
from ..errors.accelerator import AcceleratorError as AcceleratorError

REMOVED = "This function was deprecated since version 1.9 and is now removed."

legacy_contiguous_format = contiguous_format
has_lapack = has_spectral = True
has_mkl = has_openmp = False


def gone(instead: str) -> RuntimeError:
    return RuntimeError(f"{REMOVED}{instead}")


def eig(self: Any, eigenvectors: bool = False, *, e: Any = None, v: Any = None) -> Any:
    """Removed; `torch.linalg.eig` took its place."""
    raise gone(
        " `torch.linalg.eig` returns complex tensors of dtype `cfloat` or `cdouble` rather than "
        "real tensors mimicking complex tensors."
    )


def lstsq(input: Any, A: Any, *, out: Any = None) -> Any:
    """Removed; `torch.linalg.lstsq` took its place."""
    raise gone(" `torch.lstsq` is deprecated in favor of `torch.linalg.lstsq`.")


def solve(input: Any, A: Any, *, out: Any = None) -> Any:
    """Removed; `torch.linalg.solve` took its place, with its arguments the other way round."""
    raise gone(
        " `torch.solve` is deprecated in favor of `torch.linalg.solve`. `torch.linalg.solve` has "
        "its arguments reversed and does not return the LU factorization."
    )


def symeig(input: Any, eigenvectors: bool = False, upper: bool = True, *, out: Any = None) -> Any:
    """Removed; `torch.linalg.eigh` took its place."""
    raise gone(
        " The default behavior has changed from using the upper triangular portion of the matrix "
        "by default to using the lower triangular portion."
    )


def matrix_rank(input: Any, tol: Any = None, symmetric: bool = False, *, out: Any = None) -> Any:
    """Removed; `torch.linalg.matrix_rank` took its place."""
    raise gone("\nPlease use the `torch.linalg.matrix_rank` function instead.")


# The methods of these names take less than the functions.


def eig_method(self: Any, eigenvectors: bool = False) -> Any:
    return eig(self, eigenvectors)


def lstsq_method(self: Any, other: Any) -> Any:
    return lstsq(self, other)


def solve_method(self: Any, other: Any) -> Any:
    return solve(self, other)


def symeig_method(self: Any, eigenvectors: bool = False) -> Any:
    return symeig(self, eigenvectors)


class classproperty:
    """A property of a class rather than of its instances.

    >>> class Config:
    ...     @torch.classproperty
    ...     def name(cls):
    ...         return cls.__name__
    >>> Config.name
    'Config'
    """

    def __init__(self, func: Callable[[Any], Any]) -> None:
        self.func = func

    def __get__(self, instance: object, owner: type) -> Any:
        return self.func(owner)


def get_file_path(*path_components: str) -> str:
    """A path below the directory that the package is installed in.

    >>> torch.get_file_path("torch", "a").endswith("a")
    True
    """
    import tapegrad

    return os.path.join(os.path.dirname(os.path.dirname(tapegrad.__file__)), *path_components)


def init_num_threads() -> None:
    """Nothing: NumPy's library chose its number of threads when it was loaded.

    >>> torch.init_num_threads()
    """


def prepare_multiprocessing_environment(path: str) -> None:
    """Nothing: there is no library of tensors to find for the processes.

    >>> torch.prepare_multiprocessing_environment("")
    """


# PyTorch's reader of its files, in C++; torch.load reads them here.
PyTorchFileReader = absent_class("torch.PyTorchFileReader", "use torch.load(file, mmap=True)")
PyTorchFileWriter = absent_class("torch.PyTorchFileWriter", "use torch.save")


class TensorType:
    """The type of tensors in TorchScript; there for annotations.

    >>> isinstance(3, torch.TensorType)
    False
    """
