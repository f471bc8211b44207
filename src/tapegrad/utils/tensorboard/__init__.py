"""SummaryWriter: what a training run says about itself, for TensorBoard.

The package `tensorboard` is imported here and nowhere else in tapegrad, so that only programs that
write for it need it.
"""

from __future__ import annotations

try:
    import tensorboard  # noqa: F401
except ModuleNotFoundError:
    raise ModuleNotFoundError(
        "No module named 'tensorboard'\n  fix:     pip install tensorboard", name="tensorboard"
    ) from None

from tensorboard.summary.writer.record_writer import RecordWriter

from .writer import FileWriter, SummaryWriter

__all__ = ["FileWriter", "RecordWriter", "SummaryWriter"]
