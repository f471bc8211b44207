"""Running results of a function of two: like `cumsum`, for any associative function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tapegrad as tg
from tapegrad.utils._pytree import tree_flatten, tree_unflatten

__all__ = ["associative_scan"]


def associative_scan(
    combine_fn: Callable[..., Any],
    xs: Any,
    dim: int,
    reverse: bool = False,
    combine_mode: str = "pointwise",
) -> Any:
    """The results of combining the first entry, the first two, the first three along `dim`.

    Each round combines entries that are twice as far apart, so there are log2(n) of them.

    >>> from tapegrad._higher_order_ops import associative_scan
    >>> associative_scan(torch.add, tensor([1.0, 2.0, 3.0, 4.0]), 0)
    tensor([ 1.,  3.,  6., 10.])
    """
    leaves, spec = tree_flatten(xs)
    if not leaves:
        raise ValueError("Expected at least 1 xs leaf")
    along = [leaf.flip([dim]) if reverse else leaf for leaf in leaves]
    along = [leaf.movedim(dim, 0) for leaf in along]
    size, step = along[0].shape[0], 1
    while step < size:
        early = tree_unflatten([leaf[:-step] for leaf in along], spec)
        late = tree_unflatten([leaf[step:] for leaf in along], spec)
        combined = tree_flatten(combine_fn(early, late))[0]
        along = [tg.cat([leaf[:step], new]) for leaf, new in zip(along, combined, strict=True)]
        step *= 2
    along = [leaf.movedim(0, dim) for leaf in along]
    return tree_unflatten([leaf.flip([dim]) if reverse else leaf for leaf in along], spec)
