"""Several collectives as one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from ._combining import SUM, all_reduce
from ._spreading import all_gather
from ._work import Work


class Works(list[Work]):
    """Several operations as one."""

    def wait(self, timeout: timedelta | None = None) -> bool:
        return all([work.wait(timeout) for work in self])

    def is_completed(self) -> bool:
        return all([work.is_completed() for work in self])


def all_reduce_coalesced(
    tensors: list[Any], op: Any = SUM, group: Any = None, async_op: bool = False
) -> Any:
    """all_reduce of several tensors."""
    works = Works([all_reduce(tensor, op, group, True) for tensor in tensors])
    return works if async_op else works.wait() and None


def all_gather_coalesced(
    output_tensor_lists: list[list[Any]],
    input_tensor_list: list[Any],
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """all_gather of several tensors; `output_tensor_lists[rank][i]`."""
    works = Works(
        all_gather([outputs[i] for outputs in output_tensor_lists], tensor, group, True)
        for i, tensor in enumerate(input_tensor_list)
    )
    return works if async_op else works.wait() and None


@contextmanager
def _coalescing_manager(
    group: Any = None, device: Any = None, async_ops: bool = False
) -> Iterator[Works]:
    """Collectives inside are started one by one; the manager can be waited for."""
    yield Works()
