"""Runs a script on tapegrad with every module that it calls compiled."""

from __future__ import annotations

import sys
import warnings
from typing import Any

from tapegrad.__main__ import main
from tapegrad.nn import Module

call = Module.__call__
inside: list[Any] = []


def compiled_call(module: Any, *args: Any, **kwargs: Any) -> Any:
    if not inside and module._compiled_call_impl is None:
        module.compile()
    inside.append(module)
    try:
        return call(module, *args, **kwargs)
    finally:
        inside.pop()


if __name__ == "__main__":
    Module.__call__ = compiled_call  # type: ignore[method-assign]
    warnings.filterwarnings("ignore", message=".*cannot be compiled")
    sys.exit(main(["run", *sys.argv[1:]]))
