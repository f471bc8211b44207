"""The operations, one block each, in folders by family; block/ has what blocks are made of.

The everyday folders are loaded with the package. The others are loaded, file by file, when one of
their public names is first asked for: block/lazy_names.py, made by tools/generate.py, knows where.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from typing import Any

EVERYDAY = ("pointwise", "shape", "reduce", "index", "products")
ON_DEMAND = ("copying", "fft", "linalg", "nn", "random", "special", "statistics")


def load() -> list[Any]:
    """Import the everyday families; their blocks register themselves."""
    return [importlib.import_module(f".{family}", __name__) for family in files_of(EVERYDAY)]


def files_of(folders: tuple[str, ...]) -> list[str]:
    """The modules in some of the folders, as `pointwise.power`."""
    found = []
    for folder in folders:
        package = importlib.import_module(f".{folder}", __name__)
        found += [f"{folder}.{each.name}" for each in pkgutil.iter_modules(package.__path__)]
    return found


def load_library(path: Any) -> None:
    """Load ops of a library in C++, which needs PyTorch's own: OSError, as for a missing file.

    Of torchvision's library, the ops that are written in _library/torchvision.py are there.
    """
    from pathlib import Path

    if Path(path).parent.name == "torchvision" and Path(path).name.startswith("_C"):
        importlib.import_module(".._library.torchvision", __name__)
        return
    raise OSError(f"{path}: a library for PyTorch in C++ cannot be loaded by tapegrad")


loaded_libraries: set[str] = set()


def __getattr__(name: str) -> Any:
    """`torch.ops.aten`, `torch.ops.tapegrad` for what only we have, and the namespaces of users."""
    # An import of one of our own modules asks for an attribute first.
    if name.startswith("__") or importlib.util.find_spec(f"{__name__}.{name}") is not None:
        raise AttributeError(f"module 'torch.ops' has no attribute '{name}'")
    return importlib.import_module(".._ops", __name__).ops_namespace(name)
