"""Names inside pickles: PyTorch's, whatever the module is called here.

`public_name` says what to write for one of our classes and functions, `resolve` what a name from
PyTorch means here. Real PyTorch is never imported.
"""

from __future__ import annotations

import importlib
from typing import Any

import tapegrad as tg

from .. import _utils, dtypes
from ..api.tensor.conversion import TypedStorage, UntypedStorage
from ..core import named_results as return_types
from ..device import memory_format
from .storage_bytes import TYPES, UNTYPED, StorageType

# Modules whose public classes are known as `torch.<name>`.
TOP = ("tapegrad.api.tensor.tensor", "tapegrad.core.size", "tapegrad.device", "tapegrad.dtypes")
ELSEWHERE = {
    _utils._rebuild_from_type_v2: ("torch._tensor", "_rebuild_from_type_v2"),
    TypedStorage: ("torch.storage", "TypedStorage"),
    UntypedStorage: ("torch.storage", "UntypedStorage"),
}
# PyTorch's compiled functions are pickled as attributes of these.
STANDING_IN: dict[tuple[str, str], Any] = {
    ("torch._C", "_VariableFunctionsClass"): tg,
    ("torch._C", "TensorBase"): tg.Tensor,
    **{place: thing for thing, place in ELSEWHERE.items()},
}


def public_name(obj: Any, name: str | None = None) -> tuple[str, str] | None:
    """(module, name) as PyTorch has it; None for what is not ours."""
    if isinstance(obj, StorageType):
        return ("torch.storage" if obj is UNTYPED else "torch"), obj.name
    if isinstance(obj, (dtypes.dtype, memory_format)):
        return "torch", obj.name
    try:
        if obj in ELSEWHERE:
            return ELSEWHERE[obj]
    except TypeError:  # not hashable, so no class and no function
        return None
    module = getattr(obj, "__module__", None) or ""
    name = name or getattr(obj, "__qualname__", None) or ""
    head, dot, rest = module.partition(".")
    if head not in ("tapegrad", "torch") or not name:
        return None
    place = ("torch" if module in TOP else f"torch{dot}{rest}"), name
    # Functions of ops call the package their home, also those that live in nn.functional.
    for found in (place, ("torch.nn.functional", name)):
        try:
            if resolve(*found) is obj:
                return found
        except (ImportError, AttributeError):
            pass
    return None


def resolve(module: str, name: str) -> Any:
    """Our object for a name from a `torch` module."""
    if (module, name) in STANDING_IN:
        return STANDING_IN[module, name]
    if name in TYPES and module in ("torch", "torch.cuda"):
        return TYPES[name]
    if module == "torch.return_types":
        return named_result(name)
    if module == "torch._C._nn":
        module = "torch.nn.functional"
    found: Any = importlib.import_module("tapegrad" + module.removeprefix("torch"))
    for part in name.split("."):
        found = getattr(found, part)
    return found


def named_result(name: str) -> Any:
    """The class of named results; the family of its op may have to be loaded first."""
    getattr(tg, name, None)
    if name not in return_types.RETURN_TYPES:
        raise AttributeError(f"tapegrad has no torch.return_types.{name}")
    return return_types.RETURN_TYPES[name]


def is_torch(module: str) -> bool:
    return module.partition(".")[0] == "torch"
