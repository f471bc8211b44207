"""With TAPEGRAD_PURE=1 the core is imported from its Python files, where it was compiled as well.

A debugger can then step into `backward()`. The compiled wheel carries both.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from typing import Any

PACKAGE = __name__.partition(".")[0]


class PythonFiles(MetaPathFinder):
    """Finds the modules of this package by their Python files, before anything that is compiled."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if path is None or name.partition(".")[0] != PACKAGE:
            return None
        for folder in path:
            file = os.path.join(folder, f"{name.rpartition('.')[2]}.py")
            if os.path.isfile(file):
                return importlib.util.spec_from_file_location(name, file)
        return None  # a package, or kernels in C


def prefer() -> None:
    """Make all later imports of this package take Python files."""
    sys.meta_path.insert(0, PythonFiles())
