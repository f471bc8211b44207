"""tensorboardX's SummaryWriter, given arrays where it is handed tensors."""

from __future__ import annotations

import functools
from typing import Any

import tapegrad as tg

from .._pytree import tree_map_only

__all__ = ["SummaryWriter"]


class SummaryWriter:
    """Writes scalars, histograms, images and more to files that TensorBoard shows."""

    def __init__(
        self,
        log_dir: Any = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
    ) -> None:
        import tensorboardX

        self.writer = tensorboardX.SummaryWriter(
            None if log_dir is None else str(log_dir),
            comment=comment,
            purge_step=purge_step,
            max_queue=max_queue,
            flush_secs=flush_secs,
            filename_suffix=filename_suffix,
        )

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.writer, name)
        if not name.startswith("add_"):
            return found

        @functools.wraps(found)
        def add(*args: Any, **kwargs: Any) -> Any:
            args, kwargs = tree_map_only(tg.Tensor, as_array, (args, kwargs))
            return found(*args, **kwargs)

        return add

    def get_logdir(self) -> str:
        """The folder that is written to."""
        return str(self.writer.logdir)

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.writer.close()


def as_array(tensor: Any) -> Any:
    """A tensor as an array, and one with a single element as a number."""
    array = tensor.detach().cpu().numpy()
    return array.item() if array.ndim == 0 else array
