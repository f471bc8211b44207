"""An older way to write ops: torch.library has the newer one."""

from tapegrad.library import get_ctx

__all__ = ["get_ctx"]
