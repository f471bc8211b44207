"""The sampler that deals one dataset out to several processes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, TypeVar

import tapegrad as tg

from .sampler import Sampler

__all__ = ["DistributedSampler"]

_T_co = TypeVar("_T_co", covariant=True)


def _process_group() -> Any:
    """The package of process groups, which knows the number of processes and our place in it."""
    distributed = getattr(tg, "distributed", None)
    if distributed is None or not distributed.is_available():
        raise RuntimeError("Requires distributed package to be available")
    return distributed


class DistributedSampler(Sampler[_T_co]):
    """Every `num_replicas`-th index, from `rank` on, of an order that all processes agree on.

    >>> list(DistributedSampler(range(5), num_replicas=2, rank=1, shuffle=False))
    [1, 3, 0]
    """

    def __init__(
        self,
        dataset: Any,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if num_replicas is None:
            num_replicas = _process_group().get_world_size()
        if rank is None:
            rank = _process_group().get_rank()
        if not 0 <= rank < num_replicas:
            raise ValueError(
                f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]"
            )
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.drop_last = drop_last
        share = len(dataset) / num_replicas
        self.num_samples = math.floor(share) if drop_last else math.ceil(share)
        self.total_size = self.num_samples * num_replicas
        self.shuffle = shuffle
        self.seed = seed

    def __iter__(self) -> Iterator[_T_co]:
        n = len(self.dataset)
        if self.shuffle:
            generator = tg.Generator().manual_seed(self.seed + self.epoch)
            order = tg.randperm(n, generator=generator).tolist()
        else:
            order = list(range(n))
        if not self.drop_last and order:
            # Repeat from the start until everyone gets the same number.
            order = order * math.ceil(self.total_size / n)
        return iter(order[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Shuffle differently in every epoch: call this before each, with its number."""
        self.epoch = epoch
