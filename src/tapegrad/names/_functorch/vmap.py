"""Private names of `vmap` that libraries import to take part in it."""

from __future__ import annotations

from typing import Any

from tapegrad.api.tensor.tensor import Tensor
from tapegrad.func.vmapping import name_of as _get_name
from tapegrad.func.vmapping import vmap
from tapegrad.utils._pytree import _broadcast_to_and_flatten, tree_flatten, tree_unflatten

from .._C._functorch import _add_batch_dim, _remove_batch_dim

__all__ = [
    "Tensor",
    "_add_batch_dim",
    "_broadcast_to_and_flatten",
    "_get_name",
    "_maybe_remove_batch_dim",
    "tree_flatten",
    "tree_unflatten",
    "vmap",
]


def _maybe_remove_batch_dim(
    name: str, batched_output: Any, vmap_level: int, batch_size: int, out_dim: int | None
) -> Any:
    """A result of a mapped function with its batch as a dimension; None says that it has none."""
    if out_dim is None:
        return batched_output
    if not isinstance(batched_output, Tensor):
        raise ValueError(
            f"vmap({name}, ...): `{name}` must only return Tensors, got type "
            f"{type(batched_output)}. Did you mean to set out_dims= to None for output?"
        )
    return _remove_batch_dim(batched_output, vmap_level, batch_size, out_dim)
