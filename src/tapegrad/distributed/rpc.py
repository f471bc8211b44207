"""Remote procedure calls: names only."""

from __future__ import annotations

from ._not_here import missing_class, missing_function

INSTEAD = "the collectives, or send_object_list and recv_object_list"

RRef = missing_class("rpc.RRef", INSTEAD)
init_rpc = missing_function("rpc.init_rpc", INSTEAD)
shutdown = missing_function("rpc.shutdown", INSTEAD)
rpc_sync = missing_function("rpc.rpc_sync", INSTEAD)
rpc_async = missing_function("rpc.rpc_async", INSTEAD)
remote = missing_function("rpc.remote", INSTEAD)


def is_available() -> bool:
    """Not here."""
    return False
