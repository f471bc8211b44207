"""The loader: an iterable over the batches of a dataset."""

from __future__ import annotations

import functools
import itertools
import math
import multiprocessing
import multiprocessing.context
import os
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

import tapegrad as tg

from ...core.warned import warn
from ._utils.collate import default_collate, default_convert
from ._utils.errors import ExceptionWrapper
from ._utils.fetch import _IterableDatasetFetcher, _MapDatasetFetcher
from ._utils.pin_memory import pin_memory
from ._utils.pool import Pool, TimedOut, WorkerDied
from ._utils.transfer import unpack
from ._utils.worker import (
    Job,
    _IterableDatasetStopIteration,
    _ResumeIteration,
    get_worker_info,
)
from .dataset import Dataset, IterableDataset
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler, draw_seed

__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]

_T_co = TypeVar("_T_co", covariant=True)
# What annotations of others say of `collate_fn` and `worker_init_fn`.
_T = TypeVar("_T")
_collate_fn_t = Callable[[list[_T]], Any]
_worker_init_fn_t = Callable[[int], None]


class _DatasetKind:
    """By index, or as a stream."""

    Map = 0
    Iterable = 1

    @staticmethod
    def create_fetcher(
        kind: int,
        dataset: Any,
        auto_collation: bool,
        collate_fn: Callable[[Any], Any],
        drop_last: bool,
    ) -> Any:
        fetcher = _MapDatasetFetcher if kind == _DatasetKind.Map else _IterableDatasetFetcher
        return fetcher(dataset, auto_collation, collate_fn, drop_last)


class _InfiniteConstantSampler(Sampler[Any]):
    """Asks a stream for one sample after the other, for ever."""

    def __iter__(self) -> Iterator[None]:
        return itertools.repeat(None)


class DataLoader(Generic[_T_co]):
    """Iterates over a dataset in batches, with any order, in this process or with workers.

    >>> loader = DataLoader([(0.5, 1), (1.5, 0)], batch_size=2)
    >>> next(iter(loader))
    [tensor([0.5000, 1.5000], dtype=torch.float64), tensor([1, 0])]
    """

    dataset: Dataset[_T_co]
    batch_size: int | None
    num_workers: int
    pin_memory: bool
    drop_last: bool
    timeout: float
    sampler: Any
    pin_memory_device: str
    prefetch_factor: int | None
    _iterator: _BaseDataLoaderIter | None = None
    __initialized = False

    def __init__(
        self,
        dataset: Dataset[_T_co],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Any = None,
        batch_sampler: Any = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: Any = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        if num_workers < 0:
            raise ValueError(
                "num_workers option should be non-negative; "
                "use num_workers=0 to disable multiprocessing."
            )
        if timeout < 0:
            raise ValueError("timeout option should be non-negative")
        if num_workers == 0 and prefetch_factor is not None:
            raise ValueError(
                "prefetch_factor option could only be specified in multiprocessing."
                "let num_workers > 0 to enable multiprocessing, "
                "otherwise set prefetch_factor to None."
            )
        if num_workers > 0 and prefetch_factor is None:
            prefetch_factor = 2
        if prefetch_factor is not None and prefetch_factor < 0:
            raise ValueError("prefetch_factor option should be non-negative")
        if persistent_workers and num_workers == 0:
            raise ValueError("persistent_workers option needs num_workers > 0")

        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.in_order = in_order

        if isinstance(dataset, IterableDataset):
            self._dataset_kind = _DatasetKind.Iterable
            _refuse_for_streams(shuffle, sampler, batch_sampler)
        else:
            self._dataset_kind = _DatasetKind.Map
        shuffle = bool(shuffle)
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError(
                    "batch_sampler option is mutually exclusive "
                    "with batch_size, shuffle, sampler, and drop_last"
                )
            batch_size = None
            drop_last = False
        elif batch_size is None and drop_last:
            raise ValueError(
                "batch_size=None option disables auto-batching and is mutually exclusive "
                "with drop_last"
            )
        if sampler is None:
            sampler = self._default_sampler(shuffle, generator)
        if batch_size is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)

        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.generator = generator
        if collate_fn is None:
            collate_fn = default_collate if self._auto_collation else default_convert
        self.collate_fn = collate_fn
        self.persistent_workers = persistent_workers
        self.__initialized = True
        self._IterableDataset_len_called: int | None = None
        self._iterator = None
        self.check_worker_number_rationality()

    def _default_sampler(self, shuffle: bool, generator: Any) -> Sampler[Any]:
        if self._dataset_kind == _DatasetKind.Iterable:
            return _InfiniteConstantSampler()
        if shuffle:
            return RandomSampler(self.dataset, generator=generator)  # type: ignore[arg-type]
        return SequentialSampler(self.dataset)  # type: ignore[arg-type]

    def _get_iterator(self) -> _BaseDataLoaderIter:
        if self.num_workers == 0:
            return _SingleProcessDataLoaderIter(self)
        self.check_worker_number_rationality()
        return _MultiProcessingDataLoaderIter(self)

    @property
    def multiprocessing_context(self) -> Any:
        """How workers are started; None for Python's default."""
        return self.__multiprocessing_context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: Any) -> None:
        if context is not None:
            context = self._checked_context(context)
        self.__multiprocessing_context = context

    def _checked_context(self, context: Any) -> Any:
        if self.num_workers == 0:
            raise ValueError(
                "multiprocessing_context can only be used with multi-process loading "
                f"(num_workers > 0), but got num_workers={self.num_workers}"
            )
        if isinstance(context, str):
            methods = multiprocessing.get_all_start_methods()
            if context not in methods:
                raise ValueError(
                    "multiprocessing_context option should specify a valid start method in "
                    f"{methods!r}, but got multiprocessing_context={context!r}"
                )
            return multiprocessing.get_context(context)
        if not isinstance(context, multiprocessing.context.BaseContext):
            raise TypeError(
                "multiprocessing_context option should be a valid context object or a string "
                f"specifying the start method, but got multiprocessing_context={context}"
            )
        return context

    def __setattr__(self, attr: str, val: Any) -> None:
        if self.__initialized and attr in _FIXED:
            raise ValueError(
                f"{attr} attribute should not be set after {type(self).__name__} is initialized"
            )
        super().__setattr__(attr, val)

    def __iter__(self) -> _BaseDataLoaderIter:
        if not self.persistent_workers or self.num_workers == 0:
            return self._get_iterator()
        if self._iterator is None or not self._iterator._restart(self):
            self._iterator = self._get_iterator()
        return self._iterator

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        """The sampler of single indices, or of batches of them."""
        return self.batch_sampler if self._auto_collation else self.sampler

    def __len__(self) -> int:
        if self._dataset_kind != _DatasetKind.Iterable:
            return len(self._index_sampler)
        length = self._IterableDataset_len_called = len(self.dataset)  # type: ignore[arg-type]
        if self.batch_size is None:
            return length
        batches = length / self.batch_size
        return math.floor(batches) if self.drop_last else math.ceil(batches)

    def check_worker_number_rationality(self) -> None:
        """Warn if there are to be more workers than processors.

        >>> utils.data.DataLoader([1, 2, 3]).check_worker_number_rationality()
        """
        if not self.num_workers:
            return
        limit, note = _processors()
        if limit is not None and self.num_workers <= limit:
            return
        if limit is None:
            advice = (
                "DataLoader is not able to compute a suggested max number of worker in current "
                "system."
            )
        else:
            advice = (
                f"Our suggested max number of worker in current system is {limit}{note}, which is "
                "smaller than what this DataLoader is going to create."
            )
        warn(
            f"This DataLoader will create {self.num_workers} worker processes in total. {advice} "
            "Please be aware that excessive worker creation might get DataLoader running slow or "
            "even freeze, lower the worker number to avoid potential slowness/freeze if necessary.",
        )


_FIXED = frozenset(
    {"batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"}
)


def _refuse_for_streams(shuffle: Any, sampler: Any, batch_sampler: Any) -> None:
    """The order of a stream is its own."""
    refused = {"sampler": sampler, "batch_sampler": batch_sampler}
    if shuffle not in (False, None):
        refused = {"shuffle": shuffle}
    for name, value in refused.items():
        if value is not None:
            raise ValueError(
                f"DataLoader with IterableDataset: expected unspecified {name} option, "
                f"but got {name}={value}"
            )


def _processors() -> tuple[int | None, str]:
    """How many processors there are for us, and what to say about that number."""
    if hasattr(os, "sched_getaffinity"):
        try:
            return len(os.sched_getaffinity(0)), ""
        except OSError:
            pass
    return os.cpu_count(), " (`cpuset` is not taken into account)"


class _BaseDataLoaderIter:
    """One pass over a loader."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        self._dataset = loader.dataset
        self._dataset_kind = loader._dataset_kind
        self._IterableDataset_len_called = loader._IterableDataset_len_called
        self._auto_collation = loader._auto_collation
        self._drop_last = loader.drop_last
        self._index_sampler = loader._index_sampler
        self._num_workers = loader.num_workers
        self._timeout = loader.timeout
        self._collate_fn = loader.collate_fn
        self._pin_memory = loader.pin_memory and _can_pin(loader.pin_memory_device)
        self._sampler_iter = iter(self._index_sampler)
        self._base_seed = draw_seed(loader.generator)
        self._persistent_workers = loader.persistent_workers
        self._num_yielded = 0

    def __iter__(self) -> _BaseDataLoaderIter:
        return self

    def _make_fetcher(self) -> Callable[[], Any]:
        return functools.partial(
            _DatasetKind.create_fetcher,
            self._dataset_kind,
            self._dataset,
            self._auto_collation,
            self._collate_fn,
            self._drop_last,
        )

    def _reset(self, loader: DataLoader[Any], first_iter: bool = False) -> None:
        self._sampler_iter = iter(self._index_sampler)
        self._num_yielded = 0
        self._IterableDataset_len_called = loader._IterableDataset_len_called

    def _restart(self, loader: DataLoader[Any]) -> bool:
        """Begin another epoch; False if that takes a new iterator."""
        raise NotImplementedError

    def _next_index(self) -> Any:
        return next(self._sampler_iter)

    def _next_data(self) -> Any:
        raise NotImplementedError

    def __next__(self) -> Any:
        data = self._next_data()
        if self._pin_memory:
            data = pin_memory(data)
        self._num_yielded += 1
        reported = self._IterableDataset_len_called
        if (
            self._dataset_kind == _DatasetKind.Iterable
            and reported is not None
            and self._num_yielded > reported
        ):
            self._warn_of_length(reported)
        return data

    def _warn_of_length(self, reported: int) -> None:
        message = (
            f"Length of IterableDataset {self._dataset} was reported to be {reported}"
            f"(when accessing len(dataloader)), but {self._num_yielded} samples have been fetched. "
        )
        if self._num_workers > 0:
            message += (
                "For multiprocessing data-loading, this could be caused by not properly "
                "configuring the IterableDataset replica at each worker. Please see "
                "https://pytorch.org/docs/stable/data.html#torch.utils.data.IterableDataset for "
                "examples."
            )
        warn(message)

    def __len__(self) -> int:
        return len(self._index_sampler)

    def __getstate__(self) -> Any:
        raise NotImplementedError("{} cannot be pickled", type(self).__name__)


def _can_pin(device: str) -> bool:
    if device:
        warn(
            "pin_memory_device is deprecated, the current accelerator will be used as the device,"
            f"ignore pin_memory_device='{device}'.",
        )
    if tg.cuda.is_available():
        return True
    warn(
        "'pin_memory' argument is set as true but no accelerator is found, then device pinned "
        "memory won't be used.",
    )
    return False


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    """Everything happens here, when it is asked for."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        super().__init__(loader)
        if self._timeout != 0:
            raise AssertionError("_SingleProcessDataLoaderIter requires timeout == 0")
        self._dataset_fetcher = self._make_fetcher()()

    def _next_data(self) -> Any:
        return self._dataset_fetcher.fetch(self._next_index())


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """Workers fetch ahead: each has some tasks in hand, dealt out in turn and answered in order.

    So the batch that is due next is the next answer of the worker that got the oldest task.
    """

    def __init__(self, loader: DataLoader[Any]) -> None:
        super().__init__(loader)
        if not loader.prefetch_factor or loader.prefetch_factor <= 0:
            raise AssertionError(
                "prefetch_factor must be greater than 0 for MultiProcessingDataLoaderIter"
            )
        self._prefetch = loader.prefetch_factor * self._num_workers
        self._in_order = loader.in_order
        job = Job(
            make_fetcher=self._make_fetcher(),
            dataset=self._dataset,
            is_stream=self._dataset_kind == _DatasetKind.Iterable,
            init_fn=loader.worker_init_fn,
            base_seed=self._base_seed,
            num_workers=self._num_workers,
        )
        self._pool = Pool(loader.multiprocessing_context or multiprocessing, job)
        # Runs when the last reference goes, or at the end of the program.
        self._shutdown_workers = weakref.finalize(self, self._pool.close)
        self._reset(loader, first_iter=True)

    @property
    def _workers(self) -> list[Any]:
        return self._pool.processes

    def _reset(self, loader: DataLoader[Any], first_iter: bool = False) -> None:
        super()._reset(loader, first_iter)
        # The workers that still have something to give, the next in turn first.
        self._turns = deque(range(self._num_workers))
        # The worker of each task that is not answered yet, oldest first.
        self._outstanding: deque[int] = deque()
        self._fill()

    def _restart(self, loader: DataLoader[Any]) -> bool:
        if self._pool.closed:
            return False
        waiting = set(range(self._num_workers))
        for worker in waiting:
            self._pool.send(worker, _ResumeIteration())
        try:
            while waiting:
                # Answers to the tasks of the epoch before come first; nobody wants them now.
                worker, parts = self._pool.receive(waiting, self._timeout or None)
                if isinstance(unpack(parts), _ResumeIteration):
                    waiting.remove(worker)
        except (WorkerDied, TimedOut):
            self._shutdown_workers()
            return False
        except BaseException:
            # Half asked to start again: nobody could tell which epoch an answer belongs to.
            self._shutdown_workers()
            raise
        self._reset(loader)
        return True

    def _fill(self) -> None:
        """Give out tasks until the workers have as many in hand as they should."""
        while self._turns and len(self._outstanding) < self._prefetch:
            try:
                index = self._next_index()
            except StopIteration:
                return
            worker = self._turns[0]
            if not self._in_order:
                worker = min(self._turns, key=self._outstanding.count)
            self._turns.rotate(-1)
            self._pool.send(worker, index)
            self._outstanding.append(worker)

    def _next_data(self) -> Any:
        while self._outstanding:
            worker, parts = self._receive()
            self._outstanding.remove(worker)
            data = unpack(parts)
            if isinstance(data, _IterableDatasetStopIteration):
                self._retire(worker)
                self._fill()
                continue
            self._fill()
            if isinstance(data, ExceptionWrapper):
                data.reraise()
            return data
        if not self._persistent_workers:
            self._shutdown_workers()
        raise StopIteration

    def _receive(self) -> tuple[int, list[Any]]:
        """The number of the next answer, and its parts."""
        asked = self._outstanding if not self._in_order else [self._outstanding[0]]
        try:
            return self._pool.receive(asked, self._timeout or None)
        except TimedOut:
            message = f"DataLoader timed out after {self._timeout} seconds"
            raise RuntimeError(message) from None
        except WorkerDied as error:
            raise self._report(error.worker) from RuntimeError(self._pool.fate(error.worker))

    def _report(self, found: int) -> RuntimeError:
        """An error about dead workers. The others may go on, if the program wants to."""
        dead = [w for w in self._turns if w == found or not self._workers[w].is_alive()]
        for worker in dead:
            self._retire(worker)
        pids = ", ".join(str(self._workers[worker].pid) for worker in dead)
        return RuntimeError(f"DataLoader worker (pid(s) {pids}) exited unexpectedly")

    def _retire(self, worker: int) -> None:
        """Expect nothing more from a worker in this epoch."""
        self._turns.remove(worker)
        self._outstanding = deque(w for w in self._outstanding if w != worker)
