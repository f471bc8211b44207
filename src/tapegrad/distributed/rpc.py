"""Remote procedure calls: names only."""

from __future__ import annotations

from ..errors.absent import absent_class, absent_function

INSTEAD = "the collectives, or send_object_list and recv_object_list"

RRef = absent_class("torch.distributed.rpc.RRef", INSTEAD)
init_rpc = absent_function("torch.distributed.rpc.init_rpc", INSTEAD)
shutdown = absent_function("torch.distributed.rpc.shutdown", INSTEAD)
rpc_sync = absent_function("torch.distributed.rpc.rpc_sync", INSTEAD)
rpc_async = absent_function("torch.distributed.rpc.rpc_async", INSTEAD)
remote = absent_function("torch.distributed.rpc.remote", INSTEAD)


def is_available() -> bool:
    """Not here."""
    return False
