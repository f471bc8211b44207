"""Checking values against annotations such as `List[int]`, as `torch.jit.isinstance` does."""

from __future__ import annotations

import types
from typing import Any, Union, get_args, get_origin

import tapegrad as tg


def matches(value: Any, wanted: Any) -> bool:
    """Whether a value is of a type, with what is inside it."""
    if isinstance(wanted, tuple):
        return any(matches(value, w) for w in wanted)
    if wanted is Any:
        return True
    if wanted is None or wanted is type(None):
        return value is None
    kind, inside = get_origin(wanted), get_args(wanted)
    if kind is None:
        return isinstance(value, wanted)
    if kind in (Union, types.UnionType):
        return any(matches(value, w) for w in inside)
    if not isinstance(value, kind):
        return False
    if kind is dict:
        return all(matches(k, inside[0]) and matches(v, inside[1]) for k, v in value.items())
    if kind is tuple:
        if len(inside) == 2 and inside[1] is Ellipsis:
            return all(matches(v, inside[0]) for v in value)
        return len(value) == len(inside) and all(map(matches, value, inside))
    if isinstance(value, tg.Tensor):
        return True
    return all(matches(v, inside[0]) for v in value)
