"""Helpers that libraries take from torch.distributed.utils."""

from __future__ import annotations

from typing import Any

from ._groups import default_group
from ._spreading import broadcast


def _sync_module_states(
    module: Any,
    process_group: Any,
    broadcast_bucket_size: int,
    src: int,
    params_and_buffers_to_ignore: Any = (),
    broadcast_buffers: bool = True,
) -> None:
    """Give all ranks the parameters and buffers of rank `src`."""
    named = [*module.named_parameters()]
    if broadcast_buffers:
        named += module.named_buffers()
    for name, tensor in named:
        if name not in params_and_buffers_to_ignore:
            broadcast(tensor.detach(), src, process_group or default_group())
