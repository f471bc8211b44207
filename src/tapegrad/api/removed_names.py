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


def removed(name: str, instead: str) -> Callable[..., Any]:
    """A function that only says what took its place."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"{REMOVED}{instead}")

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = f"Removed.{instead}"
    return refuse


eig = removed(
    "eig",
    " `torch.linalg.eig` returns complex tensors of dtype `cfloat` or `cdouble` rather than real "
    "tensors mimicking complex tensors.",
)
lstsq = removed("lstsq", " `torch.lstsq` is deprecated in favor of `torch.linalg.lstsq`.")
solve = removed(
    "solve",
    " `torch.solve` is deprecated in favor of `torch.linalg.solve`. `torch.linalg.solve` has its "
    "arguments reversed and does not return the LU factorization.",
)
symeig = removed(
    "symeig",
    " The default behavior has changed from using the upper triangular portion of the matrix by "
    "default to using the lower triangular portion.",
)
matrix_rank = removed(
    "matrix_rank", "\nPlease use the `torch.linalg.matrix_rank` function instead."
)


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
