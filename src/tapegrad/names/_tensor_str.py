"""How tensors are printed, under PyTorch's private names."""

from __future__ import annotations

from typing import Any

from tapegrad.api.tensor.printing import (
    PRINT_OPTS,
    _append_notes,
    _contents,
    get_printoptions,
    printoptions,
    set_printoptions,
    tensor_repr,
)

__all__ = ["PRINT_OPTS", "get_printoptions", "printoptions", "set_printoptions"]


def _str(self: Any, *, tensor_contents: str | None = None) -> str:
    """The text of a tensor."""
    return tensor_repr(self, tensor_contents)


_str_intern = _str


def _tensor_str(self: Any, indent: int) -> str:
    """The values of a tensor, without `tensor(` and what follows."""
    return _contents(self, indent)


def _add_suffixes(tensor_str: str, suffixes: list[str], indent: int, force_newline: bool) -> str:
    """Text with notes behind it: `, dtype=torch.int32)`."""
    if force_newline and suffixes:
        return f"{tensor_str},\n{' ' * indent}{', '.join(suffixes)})"
    return _append_notes(tensor_str, suffixes, indent)
