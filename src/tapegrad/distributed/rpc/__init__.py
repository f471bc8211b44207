"""Calls of functions in other processes: not available."""

from ..._absent import absent_function

INSTEAD = "use collectives or the multiprocessing module"


def is_available() -> bool:
    """Whether other processes can be called: never."""
    return False


for _name in ("init_rpc", "remote", "rpc_async", "rpc_sync", "shutdown"):
    globals()[_name] = absent_function(f"torch.distributed.rpc.{_name}", INSTEAD)
