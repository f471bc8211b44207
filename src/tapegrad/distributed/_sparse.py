"""Sums of sparse tensors over ranks: the entries of all, one behind the other, then added up."""

from __future__ import annotations

from typing import Any

import tapegrad as tg

from ._engines import DONE
from ._groups import ProcessGroup
from ._reduce_op import RedOpType
from ._spreading import all_gather, all_gather_into_tensor
from ._work import Work


def summed(tensor: Any, group: ProcessGroup) -> Any:
    """The sum of the sparse tensors of all ranks, which may have entries at different places."""
    own = tensor.detach().coalesce()
    places, entries = own.indices(), own.values()
    counts = places.new_zeros(group.size())
    all_gather_into_tensor(counts, places.new_full((1,), places.shape[1]), group)
    numbers = counts.tolist()
    longest = max(numbers)

    def everyone(values: Any) -> Any:
        """Of each rank as many rows as it has; for the way they are as many as anyone's."""
        sent = values.new_zeros((longest, *values.shape[1:]))
        sent[: values.shape[0]] = values
        got = [tg.empty_like(sent) for _ in numbers]
        all_gather(got, sent, group)
        return tg.cat([part[:number] for part, number in zip(got, numbers, strict=True)])

    rows, values = everyone(places.t()), everyone(entries)
    shape = tuple(tensor.shape)
    whole = tg.sparse_coo_tensor(rows.t(), values, shape, check_invariants=False)
    return whole.coalesce()


def all_reduce(tensor: Any, op: RedOpType, group: ProcessGroup, async_op: bool) -> Work | None:
    """all_reduce of a sparse tensor, in place."""
    if op not in (RedOpType.SUM, RedOpType.AVG):
        raise RuntimeError(f"unsupported reduction operation for sparse tensors: {op.name}")
    total = summed(tensor, group)
    if op is RedOpType.AVG:
        total = total / group.size()
    tensor._places, tensor._entries = total._indices(), total._values()
    tensor._coalesced = True
    return Work(group, "all_reduce", DONE, None, [tensor]) if async_op else None
