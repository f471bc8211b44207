"""Numbers below 1.2e-38 on the GPU: kept, as PyTorch and the CPU keep them.

CuPy compiles every kernel, its own and ours, with the option that takes such numbers for zero, and
has no switch for it. Once a GPU is used here, the option is left out, unless a kernel asks for it.
"""

from __future__ import annotations

import importlib
from typing import Any

FLUSH = "-ftz=true"


class Options(tuple[str, ...]):
    """Options of the compiler, to which nobody can add FLUSH."""

    def __add__(self, more: Any) -> Options:
        return Options((*self, *[option for option in more if option != FLUSH]))


def keep(xp: Any) -> None:
    """Make CuPy compile without the option FLUSH from now on."""
    if getattr(xp, "__name__", "") != "cupy":
        return
    compiler = importlib.import_module("cupy.cuda.compiler")
    inner = getattr(compiler, "_compile_with_cache_cuda", None)
    if inner is None or hasattr(inner, "keeps_denormals"):
        return

    def compiled(source: Any, options: Any, *args: Any, **kwargs: Any) -> Any:
        wanted = options if FLUSH in options else Options(options)
        return inner(source, wanted, *args, **kwargs)

    compiled.keeps_denormals = True  # type: ignore[attr-defined]
    compiler._compile_with_cache_cuda = compiled
