"""Gradients over remote procedure calls: names only."""

from __future__ import annotations

from ..errors.absent import absent_class, absent_function

INSTEAD = "DistributedDataParallel, or torch.distributed.nn.functional"

context = absent_class("torch.distributed.autograd.context", INSTEAD)
backward = absent_function("torch.distributed.autograd.backward", INSTEAD)
get_gradients = absent_function("torch.distributed.autograd.get_gradients", INSTEAD)


def is_available() -> bool:
    """Not here."""
    return False
