"""Which build of tapegrad is running: compiled core or pure Python, with kernels in C or not."""

from __future__ import annotations

import importlib.machinery
import pathlib
import platform

_PACKAGE = pathlib.Path(__file__).parent.parent  # this is a module of names/


def is_compiled() -> bool:
    """True when the core runs as compiled extension modules."""
    from tapegrad.core import dispatch

    return not str(dispatch.__file__).endswith((".py", ".pyc"))


def compiled_modules() -> list[str]:
    """The modules of this installation that are compiled, by their dotted names."""
    found: set[str] = set()
    for suffix in importlib.machinery.EXTENSION_SUFFIXES:
        for path in _PACKAGE.rglob(f"*{suffix}"):
            stem = path.relative_to(_PACKAGE.parent).as_posix().split(".", 1)[0]
            found.add(stem.replace("/", "."))
    # mypyc's shared halves are plumbing, not modules that anybody imports.
    return sorted(name for name in found if not name.endswith(("__mypyc", "._kernels")))


def native_kernels() -> str:
    """Whether kernels in C compute on the CPU, and if not, why."""
    from tapegrad.kernels.cpu import KERNELS, REASON

    if KERNELS is None:
        return f"NumPy alone ({REASON})"
    return f"in C, {KERNELS.threads()} threads"


def show() -> str:
    """A human-readable description of the build, as a string.

    >>> print(tapegrad.__config__.show())  # doctest: +SKIP
    tapegrad 0.1.0 (PyTorch 2.13.0)
      build: pure Python
      kernels: NumPy alone (not built)
      Python: CPython 3.11.7 on Linux x86_64
      NumPy: 2.4.6
    """
    import textwrap

    import numpy

    import tapegrad
    from tapegrad.kernels.cpu import way_to_be_faster

    if is_compiled():
        modules = compiled_modules()
        build = [f"  build: compiled with mypyc ({len(modules)} modules)"]
        build += [f"    - {name}" for name in modules]
    elif compiled_modules():
        build = ["  build: compiled with mypyc, and run as pure Python (TAPEGRAD_PURE=1)"]
    else:
        build = ["  build: pure Python"]
    theirs, _, own = tapegrad.__version__.partition("+tapegrad.")
    python = f"{platform.python_implementation()} {platform.python_version()}"
    lines = [
        f"tapegrad {own} (PyTorch {theirs})",
        *build,
        f"  kernels: {native_kernels()}",
        f"  Python: {python} on {platform.system()} {platform.machine()}",
        f"  NumPy: {numpy.__version__}",
    ]
    if faster := way_to_be_faster():
        lines += ["", *textwrap.wrap(f"Note: {faster}", 100)]
    return "\n".join(lines) + "\n"


def parallel_info() -> str:
    """How many threads are used for what, as a string."""
    from tapegrad.api.settings import get_num_interop_threads, get_num_threads
    from tapegrad.kernels.cpu.blas import blas_library

    blas = "OpenBLAS" if blas_library() is not None else "unknown"
    return (
        f"Products of matrices: {get_num_threads()} threads (BLAS: {blas})\n"
        f"Operations at a time: {get_num_interop_threads()}\n"
    )
