"""Warnings that are given once, as PyTorch's TORCH_WARN_ONCE."""

from __future__ import annotations

import warnings


class Warned:
    """Warnings that PyTorch gives once per process."""

    said: set[str] = set()
    always: bool = False


def warn_once(text: str, stacklevel: int) -> None:
    if Warned.always or text not in Warned.said:
        Warned.said.add(text)
        warnings.warn(text, UserWarning, stacklevel=stacklevel + 1)
