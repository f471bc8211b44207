"""How long processes wait for each other unless they are told otherwise."""

from ._groups import default_pg_nccl_timeout, default_pg_timeout

__all__ = ["default_pg_nccl_timeout", "default_pg_timeout"]
