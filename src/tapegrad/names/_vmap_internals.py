"""vmap under the names that it had before it was public."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tapegrad.autograd.forward_ad import FORMER
from tapegrad.core.base import TensorBase
from tapegrad.func.vmapping import vmap as public_vmap
from tapegrad.utils import _pytree as pytree


def vmap(func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0) -> Callable[..., Any]:
    """`torch.vmap`; give that name instead."""
    import warnings

    warnings.warn(
        "Please use `torch.vmap` instead of `torch._vmap_internals.vmap`.",
        FutureWarning,
        stacklevel=2,
    )
    return _vmap(func, in_dims, out_dims)


def _vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    allow_none_pass_through: bool = False,
) -> Callable[..., Any]:
    """`torch.vmap`, which may let results be None: they stay None. Entries may be made duals."""
    if not allow_none_pass_through:
        return public_vmap(with_duals(func), in_dims, out_dims)

    def mapped(*args: Any) -> Any:
        spec: Any = None
        places: list[int] = []

        def without_none(*entries: Any) -> Any:
            nonlocal spec, places
            answer = with_duals(func)(*entries)
            found, spec = pytree.tree_flatten(answer, is_leaf=lambda x: x is None)
            places = [i for i, x in enumerate(found) if isinstance(x, TensorBase)]
            return tuple(found[i] for i in places)

        stacked = public_vmap(without_none, in_dims, out_dims)(*args)
        results: list[Any] = [None] * spec.num_leaves
        for i, x in zip(places, stacked, strict=True):
            results[i] = x
        return pytree.tree_unflatten(results, spec)

    return mapped


def with_duals(func: Callable[..., Any]) -> Callable[..., Any]:
    """A function that may make dual tensors of the entries of a batch."""

    @functools.wraps(func)
    def allowed(*entries: Any) -> Any:
        FORMER.vmaps += 1
        try:
            return func(*entries)
        finally:
            FORMER.vmaps -= 1

    return allowed
