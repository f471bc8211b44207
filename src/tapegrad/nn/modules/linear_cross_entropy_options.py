"""How `linear_cross_entropy` may cut its batch into chunks."""

from __future__ import annotations

import dataclasses
import re
from typing import Any, Literal

import tapegrad as tg

__all__ = ["LinearCrossEntropyOptions"]

POLICIES = ("accurate", "balanced", "compact", "auto")


@dataclasses.dataclass(frozen=True, slots=True)
class LinearCrossEntropyOptions:
    """Asks for less memory at the same result; here the whole batch is one chunk.

    >>> nn.LinearCrossEntropyOptions(batch_chunk_size=4).batch_chunk_size
    4
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: Literal["accurate", "balanced", "compact", "auto"] = "auto"
    acc_dtype: Any = None

    def __post_init__(self) -> None:
        size, method = self.batch_chunk_size, self.chunking_method
        if size is not None and (not isinstance(size, int) or size <= 0):
            raise ValueError(f"batch_chunk_size must be positive int or None, got {size}")
        if method not in (None, "auto") and not re.fullmatch(
            r"aspect_ratio(:0*[1-9][0-9]*)?", method
        ):
            raise ValueError(f"invalid chunking_method: {method!r}")
        if self.acc_policy not in POLICIES:
            raise ValueError(f"invalid acc_policy: {self.acc_policy!r}")
        if self.acc_dtype not in (None, tg.float16, tg.bfloat16, tg.float32, tg.float64):
            raise ValueError(
                "acc_dtype must be one of {None, torch.float16, torch.bfloat16, torch.float32, "
                f"torch.float64}}, got {self.acc_dtype}. Pass acc_dtype=None to let the op pick "
                "automatically."
            )
