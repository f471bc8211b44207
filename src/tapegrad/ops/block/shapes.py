"""Shapes of results, from those of the arguments: rules that several blocks have in common.

A block says `shape`, a function whose parameters are names of tensors (it gets their shapes) and of
attributes; and, where the result leaves no choice, `shape_<tensor>`, which may also read `out`.
Diagnostics ask for them when nobody holds a result any more. Elementwise ops need none.
"""

from __future__ import annotations

from typing import Any

Shape = tuple[int, ...]


def same_shape(input: Shape) -> Shape:
    return input


def no_dims() -> Shape:
    return ()


def asked_shape(shape: Any) -> Shape | None:
    """The attribute itself, if no size in it is still to be worked out."""
    return shape if isinstance(shape, tuple) and -1 not in shape else None


def reduced_shape(input: Shape, dim: Any, keepdim: bool) -> Shape:
    """Without the dimensions `dim`, or with them of size one; None means all of them."""
    dims = range(len(input)) if dim is None else dim
    sizes = [1 if i in dims else size for i, size in enumerate(input)]
    return tuple([size for i, size in enumerate(sizes) if keepdim or i not in dims])


def swapped_shape(shape: Shape, dim0: int, dim1: int) -> Shape:
    """Two dimensions exchanged; without dimensions there is nothing to exchange."""
    if len(shape) < 2:
        return shape
    sizes = list(shape)
    sizes[dim0], sizes[dim1] = sizes[dim1], sizes[dim0]
    return tuple(sizes)
