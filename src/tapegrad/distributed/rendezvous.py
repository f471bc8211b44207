"""How processes find each other: the ways are `env://`, `tcp://` and `file://`."""

from __future__ import annotations

from ..errors.absent import absent_function

INSTEAD = "init_process_group(init_method=), or a store with rank= and world_size="

rendezvous = absent_function("torch.distributed.rendezvous.rendezvous", INSTEAD)
register_rendezvous_handler = absent_function(
    "torch.distributed.rendezvous.register_rendezvous_handler", INSTEAD
)

__all__ = ["register_rendezvous_handler", "rendezvous"]
