"""The loader with worker processes: what comes out of it, in which order, from which seeds."""

from __future__ import annotations

import builtins
import doctest
import multiprocessing
import random
import threading
import time

import numpy as np
import pytest

import tapegrad as torch
from loaders import (
    LINUX,
    MARKS,
    Numbers,
    Shards,
    nothing_left_behind,  # noqa: F401 (a fixture of every test here)
    open_files,
)
from tapegrad.utils import data
from tapegrad.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    TensorDataset,
    get_worker_info,
)
from tapegrad.utils.data._utils import collate, worker

pytestmark = MARKS
MODULES = [data, data.dataset, data.sampler, data.distributed, data.dataloader, collate, worker]


class Noisy(Dataset):
    def __len__(self):
        return 7

    def __getitem__(self, index):
        info = get_worker_info()
        draws = (torch.rand(()).item(), random.random(), np.random.rand())
        return index, info.id, info.seed, torch.initial_seed(), draws


def raiser(error):
    def act():
        raise error

    return act


# --- what comes out ---------------------------------------------------------------------------


@pytest.mark.parametrize("prefetch", [1, 2, 5])
@pytest.mark.parametrize("workers", [1, 2])
def test_same_batches_as_without_workers(workers, prefetch):
    rows = TensorDataset(torch.arange(22.0).reshape(11, 2), torch.arange(11))
    options = {"batch_size": 3, "shuffle": True}
    torch.manual_seed(4)
    expected = [list(DataLoader(rows, **options)) for _ in range(2)]
    after = torch.rand(2)
    torch.manual_seed(4)
    loader = DataLoader(rows, num_workers=workers, prefetch_factor=prefetch, **options)
    found = [list(loader) for _ in range(2)]
    assert str(found) == str(expected)
    assert torch.equal(torch.rand(2), after)


def test_slow_samples_do_not_change_the_order():
    slow = {i: lambda: time.sleep(0.05) for i in (0, 3)}
    loader = DataLoader(Numbers(8, slow), num_workers=2)
    assert [batch.item() for batch in loader] == list(range(8))


def test_out_of_order_gives_what_is_ready():
    loader = DataLoader(
        Numbers(8, {0: lambda: time.sleep(0.3)}), num_workers=2, in_order=False, prefetch_factor=1
    )
    found = [batch.item() for batch in loader]
    assert found[0] != 0
    assert sorted(found) == list(range(8))


@pytest.mark.parametrize("batch_size", [None, 1, 2])
def test_streams_take_turns_until_each_ends(batch_size):
    loader = DataLoader(Shards(5, 2), batch_size, num_workers=2)
    found = [torch.as_tensor(batch).reshape(-1).tolist() for batch in loader]
    expected = {
        None: [[0], [100], [1], [101], [2], [3], [4]],
        1: [[0], [100], [1], [101], [2], [3], [4]],
        2: [[0, 1], [100, 101], [2, 3], [4]],
    }
    assert found == expected[batch_size]


def test_wrong_length_of_a_stream():
    class Sized(Shards):
        def __len__(self):
            return 3

    loader = DataLoader(Sized(2, 2), num_workers=2)
    assert len(loader) == 3
    with pytest.warns(UserWarning, match="but 4 samples have been fetched. For multiprocessing"):
        assert len(list(loader)) == 4


def test_everything_survives_the_journey():
    def sample(index):
        small, big = np.arange(3.0) + index, np.full(50_000, index, np.float32)
        return {
            "tensors": [torch.tensor(small), torch.tensor(big), torch.tensor(big).reshape(5, -1).T],
            "arrays": (small, big, big[::2]),
            "texts": ("a" * 100_000, b"b" * 100_000, None),
            "empty": torch.zeros(0, 3),
            "half": torch.ones(2, dtype=torch.float16),
            "leaf": torch.ones(2, requires_grad=True),
        }

    class Samples(Numbers):
        def __getitem__(self, index):
            return sample(index)

    loader = DataLoader(Samples(4), None, num_workers=2, collate_fn=lambda kept: kept)
    for index, found in enumerate(loader):
        expected = sample(index)
        assert str(found) == str(expected)
        for a, b in zip(found["tensors"], expected["tensors"], strict=True):
            assert torch.equal(a, b)
            assert a.stride() == b.stride()
            a.add_(1)  # the memory is ours
        assert found["leaf"].requires_grad
        assert found["leaf"].is_leaf
        assert found["arrays"][1].flags.writeable


def test_many_big_batches_may_be_kept():
    if LINUX:
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(open_files()) + 20, hard))
    try:
        big = TensorDataset(torch.ones(60, 30_000))
        kept = list(DataLoader(big, num_workers=1))
    finally:
        if LINUX:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert sum(batch.sum().item() for (batch,) in kept) == 60 * 30_000


def test_long_lists_of_indices_and_big_answers_do_not_block_each_other():
    """Both directions of a connection are full at once."""
    loader = DataLoader(range(800_000), 100_000, num_workers=1, prefetch_factor=8)
    assert [batch[-1].item() for batch in loader] == list(range(99_999, 800_000, 100_000))


def test_how_far_ahead_workers_are_asked():
    asked = []

    class Watched:
        def __iter__(self):
            for index in range(20):
                asked.append(index)
                yield index

    iterator = iter(DataLoader(Numbers(20), None, sampler=Watched(), num_workers=2))
    assert len(asked) == 4
    next(iterator)
    assert len(asked) == 5


def test_workers_fetch_ahead_while_nobody_asks():
    context = multiprocessing.get_context("fork")
    done = context.Semaphore(0)
    counted = Numbers(6, {i: done.release for i in range(6)})
    big = DataLoader(
        counted, 1, num_workers=1, prefetch_factor=3, collate_fn=lambda b: np.full(300_000, b[0])
    )
    iterator = iter(big)
    for _ in range(3):
        assert done.acquire(timeout=5)
    assert not done.acquire(timeout=0.05)
    assert [batch[0] for batch in iterator] == list(range(6))


def test_two_loaders_at_once():
    a, b = DataLoader(Numbers(6), 2, num_workers=1), DataLoader(Numbers(9), 3, num_workers=1)
    pairs = [(x.tolist(), y.tolist()) for x, y in zip(a, b, strict=True)]
    assert pairs == [([0, 1], [0, 1, 2]), ([2, 3], [3, 4, 5]), ([4, 5], [6, 7, 8])]


def test_from_a_thread():
    found = []
    thread = threading.Thread(
        target=lambda: found.extend(b.item() for b in DataLoader(Numbers(3), num_workers=1))
    )
    thread.start()
    thread.join()
    assert found == [0, 1, 2]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_examples(module):
    # As after `from tapegrad import *`, but Python's own names stay Python's.
    names = {name: value for name, value in vars(torch).items() if not hasattr(builtins, name)}
    names |= vars(data) | vars(module) | {"np": np}
    assert doctest.testmod(module, extraglobs=names).failed == 0


# --- seeds ------------------------------------------------------------------------------------


def test_seeds_of_workers():
    def run(generator=None):
        loader = DataLoader(Noisy(), None, num_workers=2, collate_fn=tuple, generator=generator)
        return list(loader)

    torch.manual_seed(0)
    base = torch.empty((), dtype=torch.int64).random_().item()
    torch.manual_seed(0)
    found = run()
    after = torch.rand(1)
    for index, (got, number, seed, initial, _) in enumerate(found):
        assert (got, number) == (index, index % 2)
        assert seed == initial == base + number
    # What torch 2.13 draws in these workers from this seed.
    assert found[0][4] == pytest.approx((0.7821398973464966, 0.2131534054815, 0.8371640508861415))
    assert found[1][4] == pytest.approx((0.6938178539276123, 0.7733861492043, 0.6702704958690073))
    torch.manual_seed(0)
    assert run() == found
    assert torch.equal(torch.rand(1), after)
    # With a generator of its own the global stream stays where it is.
    torch.manual_seed(0)
    seeded = run(torch.Generator().manual_seed(5))
    assert torch.equal(torch.rand(1), torch.rand(1, generator=torch.Generator().manual_seed(0)))
    assert seeded == run(torch.Generator().manual_seed(5)) != found


def test_worker_info():
    class Told(Numbers):
        def __getitem__(self, index):
            info = get_worker_info()
            try:
                info.id = 5
            except AttributeError as error:
                refusal = str(error)
            return info.id, info.num_workers, info.dataset is self, refusal, repr(info)

    (told,) = DataLoader(Told(1), None, num_workers=1, collate_fn=tuple)
    assert told[:4] == (0, 1, True, "cannot assign to field 'id'")
    assert told[4].startswith("WorkerInfo(id=0, num_workers=1, seed=")
    assert told[4].endswith(", rng=None, worker_method='multiprocessing')")
    assert get_worker_info() is None


def test_worker_init_fn_prepares_the_copy_of_each_worker():
    def prepare(worker):
        info = get_worker_info()
        assert info.id == worker
        info.dataset.n = 10 * (worker + 1)

    class Sizes(Numbers):
        def __getitem__(self, index):
            return self.n

    loader = DataLoader(Sizes(4), None, num_workers=2, worker_init_fn=prepare)
    assert list(loader) == [10, 20, 10, 20]
    assert loader.dataset.n == 4


# --- errors -----------------------------------------------------------------------------------


class TwoArguments(Exception):
    def __init__(self, a, b):
        super().__init__(a, b)


class WithMessage(Exception):
    message = "a class attribute"

    def __init__(self, message):
        super().__init__(message)


@pytest.mark.parametrize(
    "error, arrives_as",
    [
        (ValueError("boo"), ValueError),
        (KeyError("key"), KeyError),
        (FileNotFoundError(2, "gone"), FileNotFoundError),
        (WithMessage("m"), WithMessage),
        (TwoArguments(1, 2), RuntimeError),
        (UnicodeDecodeError("utf8", b"x", 0, 1, "reason"), RuntimeError),
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_errors_arrive_with_their_traceback(error, arrives_as):
    iterator = iter(DataLoader(Numbers(4, {1: raiser(error)}), num_workers=1))
    assert next(iterator).item() == 0
    with pytest.raises(arrives_as) as caught:
        next(iterator)
    text = str(caught.value)
    assert text.startswith(
        f"Caught {type(error).__name__} in DataLoader worker process 0.\n"
        "Original Traceback (most recent call last):\n"
    )
    assert "in __getitem__\n    self.act[index]()" in text
    assert text.rstrip().endswith(str(error))
    # The worker goes on with the other samples.
    assert [batch.item() for batch in iterator] == [2, 3]


def test_local_error_classes_and_answers_that_cannot_be_pickled():
    class Local(Exception):
        pass

    iterator = iter(
        DataLoader(
            Numbers(3, {0: raiser(Local("mine"))}),
            None,
            num_workers=1,
            collate_fn=lambda n: threading.Lock() if n == 1 else n,
        )
    )
    with pytest.raises(RuntimeError, match="(?s)^Caught RuntimeError in .*Local: mine"):
        next(iterator)
    with pytest.raises(TypeError, match="(?s)^Caught TypeError in .*cannot pickle '_thread.lock'"):
        next(iterator)
    assert list(iterator) == [2]


class Fragile:
    """Pickles well, but cannot be read again."""

    def __reduce__(self):
        return int, ("not a number",)


def test_answers_that_cannot_be_read():
    loader = DataLoader(
        Numbers(4), None, num_workers=1, collate_fn=lambda n: Fragile() if n == 1 else n
    )
    iterator = iter(loader)
    assert next(iterator) == 0
    with pytest.raises(ValueError, match="invalid literal for int"):
        next(iterator)
    assert list(iterator) == [2, 3]


def test_graphs_stay_where_they_are():
    weights = torch.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="stack.*don't support automatic differentiation"):
        list(DataLoader(TensorDataset(weights * 2), num_workers=1))
    with pytest.raises(RuntimeError, match="Cowardly refusing to serialize non-leaf tensor"):
        list(DataLoader(TensorDataset(weights * 2), None, num_workers=1))


def test_error_of_worker_init_fn():
    loader = DataLoader(Numbers(3), num_workers=1, worker_init_fn=lambda w: 1 / 0)
    iterator = iter(loader)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError, match="Caught ZeroDivisionError in DataLoader"):
            next(iterator)


def test_error_of_a_stream():
    class Broken(IterableDataset):
        def __iter__(self):
            yield 1
            raise ValueError("half-way")

    iterator = iter(DataLoader(Broken(), num_workers=1))
    assert next(iterator).item() == 1
    with pytest.raises(ValueError, match="half-way"):
        next(iterator)
    assert list(iterator) == []


def test_prefetch_factor_of_zero():
    with pytest.raises(AssertionError, match="prefetch_factor must be greater than 0"):
        iter(DataLoader(Numbers(3), num_workers=1, prefetch_factor=0))


def test_error_of_a_sampler():
    def sampler():
        yield 0
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        iter(DataLoader(Numbers(3), None, sampler=sampler(), num_workers=2))
