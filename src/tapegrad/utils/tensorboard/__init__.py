"""SummaryWriter: what a training run says about itself, for TensorBoard.

The files are written by the package tensorboardX, which has the same interface.
"""

from __future__ import annotations

try:
    import tensorboardX  # type: ignore[import-not-found]  # noqa: F401
except ImportError:
    raise ImportError(
        "torch.utils.tensorboard needs the package tensorboardX: pip install tensorboardX"
    ) from None

from .writer import SummaryWriter

__all__ = ["SummaryWriter"]
