"""Gradients across remote procedure calls: names only."""

from __future__ import annotations

from .._absent import absent_class, absent_function
from .rpc import INSTEAD

context = absent_class("torch.distributed.autograd.context", INSTEAD)
backward = absent_function("torch.distributed.autograd.backward", INSTEAD)
get_gradients = absent_function("torch.distributed.autograd.get_gradients", INSTEAD)


def is_available() -> bool:
    """Not here."""
    return False
