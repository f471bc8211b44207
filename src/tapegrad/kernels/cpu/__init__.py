"""Kernels in C for arrays on the CPU, where they were built with the package.

`KERNELS` is the module of them, or None: not built (pure Python, no C compiler), switched off with
TAPEGRAD_NATIVE=0, or a processor without AVX2. Everything works without them, on NumPy.
"""

from __future__ import annotations

import importlib
import os
import platform
import sys
import warnings
from typing import Any

from numpy._core._multiarray_umath import __cpu_features__ as _features


def _load() -> tuple[Any, str]:
    """The module, and why there is none."""
    choice = os.environ.get("TAPEGRAD_NATIVE", "1")
    if choice not in ("0", "1"):
        raise ValueError(f"TAPEGRAD_NATIVE must be 0, 1 or unset, not {choice!r}")
    if choice == "0":
        return None, "switched off by TAPEGRAD_NATIVE=0"
    if platform.machine() in ("x86_64", "AMD64") and not all(
        [_features.get(name) for name in ("AVX2", "FMA3", "F16C")]
    ):
        return None, "the processor has no AVX2"
    try:
        kernels = importlib.import_module(f"{__name__}._kernels")
    except ModuleNotFoundError as error:
        if error.name != f"{__name__}._kernels":
            raise
        return None, "not built"
    except ImportError as error:
        reason = f"built, but they cannot be loaded: {error}"
        warnings.warn(
            f"tapegrad's kernels in C were {reason}\nEverything works without them, on NumPy, "
            "several times slower. `pip install --force-reinstall --no-cache-dir tapegrad` builds "
            "or fetches them for this Python and NumPy.",
            RuntimeWarning,
            stacklevel=2,
        )
        return None, reason
    return kernels, ""


KERNELS, REASON = _load()


def way_to_be_faster() -> str:
    """Advice for a user whose build is slow since no compiler was found; "" for all others."""
    if REASON != "not built" or os.environ.get("TAPEGRAD_PURE") == "1":
        return ""
    import sysconfig  # here: it takes milliseconds

    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return ""  # the pure build is the only one for a free-threaded Python: setup.py
    return (
        "this is the pure Python build, several times slower on small operations. Where there is "
        "a C compiler (gcc, clang), `pip install --force-reinstall --no-cache-dir tapegrad` (or "
        "`.` in a clone) builds the fast one in some minutes. TAPEGRAD_PURE=1 hides this note."
    )


class Note:
    """Said once, in a terminal, by a program that trains."""

    due = True


def tell_once() -> None:
    """Tell a person at a terminal how the library gets faster; files and pipes stay clean."""
    if Note.due:
        Note.due = False
        if sys.stderr is not None and sys.stderr.isatty() and (text := way_to_be_faster()):
            print(f"tapegrad: {text}", file=sys.stderr)
