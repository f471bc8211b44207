"""Loaders with workers, run on torch and on tapegrad: same seeds, same batches, same draws."""

from __future__ import annotations

import random
import re
import warnings
from typing import Any

import numpy as np
import pytest
import torch

import tapegrad

MODULES = (torch, tapegrad)
# What torch's own iterators write to stderr when a forked worker collects them.
pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def as_plain(value: Any) -> Any:
    """Batches of either library as lists of numbers, with their dtypes."""
    if isinstance(value, MODULES[0].Tensor | MODULES[1].Tensor):
        return str(value.dtype), value.tolist()
    if isinstance(value, dict):
        return {key: as_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_plain(item) for item in value]
    return value


def run(lib: Any, action: Any) -> Any:
    """What `action(lib)` gives, and what the three random streams give after it."""
    lib.manual_seed(0)
    random.seed(1)
    np.random.seed(2)
    found = as_plain(action(lib))
    return found, lib.rand(2).tolist(), random.random(), np.random.rand()


def agree(action: Any) -> None:
    expected, found = [run(lib, action) for lib in MODULES]
    assert found == expected


def noisy(lib: Any, n: int) -> Any:
    class Noisy(lib.utils.data.Dataset):
        def __len__(self) -> int:
            return n

        def __getitem__(self, index: int) -> Any:
            info = lib.utils.data.get_worker_info()
            drawn = {"torch": lib.randn(3), "python": random.random(), "numpy": np.random.rand()}
            return index, info.id, str(info.seed), drawn

    return Noisy()


def shards(lib: Any, *sizes: int) -> Any:
    class Shards(lib.utils.data.IterableDataset):
        def __iter__(self) -> Any:
            worker = lib.utils.data.get_worker_info().id
            for i in range(sizes[worker]):
                yield 100 * worker + i, lib.rand(()).item()

    return Shards()


@pytest.mark.parametrize("prefetch", [1, 3])
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_shuffled_batches(workers: int, prefetch: int) -> None:
    def action(lib: Any) -> Any:
        loader = lib.utils.data.DataLoader(
            noisy(lib, 11), 3, shuffle=True, num_workers=workers, prefetch_factor=prefetch
        )
        return [list(loader) for _ in range(2)]

    agree(action)


@pytest.mark.parametrize("options", [{"drop_last": True}, {"batch_size": None}, {"batch_size": 4}])
def test_a_generator_of_its_own(options: dict[str, Any]) -> None:
    def action(lib: Any) -> Any:
        generator = lib.Generator().manual_seed(7)
        loader = lib.utils.data.DataLoader(
            noisy(lib, 9), **options, shuffle=True, num_workers=2, generator=generator
        )
        return list(loader), list(loader), lib.rand(2, generator=generator)

    agree(action)


@pytest.mark.parametrize("batch_size", [None, 1, 2])
@pytest.mark.parametrize("sizes", [(5, 2, 9), (0, 3, 1), (4, 4, 4), (0, 0, 0)], ids=str)
def test_streams(sizes: tuple[int, ...], batch_size: int | None) -> None:
    def action(lib: Any) -> Any:
        return list(lib.utils.data.DataLoader(shards(lib, *sizes), batch_size, num_workers=3))

    agree(action)


def test_persistent_workers() -> None:
    def action(lib: Any) -> Any:
        loader = lib.utils.data.DataLoader(
            noisy(lib, 9), 2, shuffle=True, num_workers=2, persistent_workers=True
        )
        start = next(iter(loader))
        return start, list(loader), list(loader)

    agree(action)


def test_persistent_streams() -> None:
    def action(lib: Any) -> Any:
        loader = lib.utils.data.DataLoader(
            shards(lib, 3, 5), 2, num_workers=2, persistent_workers=True
        )
        start = next(iter(loader))
        return start, list(loader), list(loader)

    agree(action)


def test_samplers_that_draw_when_iteration_starts() -> None:
    def action(lib: Any) -> Any:
        class Own(lib.utils.data.Sampler):
            def __iter__(self) -> Any:
                return iter([[i] for i in lib.randperm(5).tolist()])

        loaders = [
            lib.utils.data.DataLoader(
                noisy(lib, 5), batch_sampler=Own(), num_workers=2, persistent_workers=stay
            )
            for stay in (False, True)
        ]
        return [list(loader) for loader in loaders for _ in range(2)]

    agree(action)


def test_weighted_and_distributed_samplers() -> None:
    def action(lib: Any) -> Any:
        data = lib.utils.data
        weighted = data.WeightedRandomSampler([0.1, 2, 3, 1], 9)
        dealt = data.DistributedSampler(range(9), num_replicas=2, rank=1, seed=3)
        return [
            list(data.DataLoader(noisy(lib, 9), 2, sampler=sampler, num_workers=2))
            for sampler in (weighted, dealt)
        ]

    agree(action)


def outcomes(lib: Any, loader: Any, limit: int = 8) -> list[Any]:
    """What each `next` gives or raises, without the traceback, which differs."""
    found, iterator = [], iter(loader)
    while len(found) < limit:
        try:
            found.append(as_plain(next(iterator)))
        except StopIteration:
            return found
        except Exception as error:
            lines = str(error).rstrip().splitlines()
            found.append([type(error).__name__, lines[0], lines[1:2], lines[-1]])
    return found


class Picky(Exception):
    def __init__(self, a: int, b: int) -> None:
        super().__init__(a, b)


@pytest.mark.parametrize(
    "error",
    [ValueError("boo"), KeyError("k"), OSError(2, "gone"), Picky(1, 2), StopIteration("x")],
    ids=lambda error: type(error).__name__,
)
def test_errors_in_workers(error: Exception) -> None:
    def action(lib: Any) -> Any:
        class Broken(lib.utils.data.Dataset):
            def __len__(self) -> int:
                return 5

            def __getitem__(self, index: int) -> int:
                if index == 1:
                    raise error
                return index

        return outcomes(lib, lib.utils.data.DataLoader(Broken(), num_workers=2))

    agree(action)


def test_graphs_in_workers() -> None:
    def action(lib: Any) -> Any:
        rows = lib.utils.data.TensorDataset(lib.ones(2, 3, requires_grad=True) * 2)
        return outcomes(lib, lib.utils.data.DataLoader(rows, num_workers=1))

    agree(action)


def test_warnings_of_streams() -> None:
    def action(lib: Any) -> Any:
        class Sized(lib.utils.data.IterableDataset):
            def __iter__(self) -> Any:
                return iter(range(3))

            def __len__(self) -> int:
                return 3

        loader = lib.utils.data.DataLoader(Sized(), num_workers=2)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = len(loader), list(loader)
        texts = [re.sub("<.* object at .*?>", "<dataset>", str(w.message)) for w in caught]
        return found, [text for text in texts if "IterableDataset" in text]

    agree(action)
