"""Names for annotations, as `torch.types` has them."""

from __future__ import annotations

import builtins
import os
from collections.abc import Sequence
from typing import IO, Any, TypeAlias

import tapegrad as tg
from tapegrad.api.symbolic import SymBool, SymFloat, SymInt
from tapegrad.storage import TypedStorage, UntypedStorage

__all__ = ["Device", "FileLike", "Number", "Storage"]

_int = builtins.int
_float = builtins.float
_bool = builtins.bool
_complex = builtins.complex
_str = builtins.str
_bytes = builtins.bytes
_dtype = tg.dtype
_device = tg.device
_layout = tg.layout
Tensor = tg.Tensor
Size = tg.Size
Number: TypeAlias = int | float | bool
_Number = (int, float, bool)  # for isinstance
_size: TypeAlias = tg.Size | list[int] | tuple[int, ...]
_symsize: TypeAlias = tg.Size | Sequence[int | SymInt]
_dispatchkey: TypeAlias = str
Device: TypeAlias = tg.device | str | int | None
FileLike: TypeAlias = str | os.PathLike[str] | IO[bytes]
IntLikeType: TypeAlias = int | SymInt
FloatLikeType: TypeAlias = float | SymFloat
BoolLikeType: TypeAlias = bool | SymBool
PySymType: TypeAlias = SymInt | SymFloat | SymBool
Storage: TypeAlias = TypedStorage | UntypedStorage
_TensorOrTensors: TypeAlias = tg.Tensor | Sequence[tg.Tensor]
_TensorOrOptionalTensors: TypeAlias = tg.Tensor | Sequence[tg.Tensor | None]
_TensorOrTensorsOrGradEdge: TypeAlias = tg.Tensor | Sequence[tg.Tensor] | Sequence[Any]
