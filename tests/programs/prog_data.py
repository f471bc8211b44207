"""torch.utils.data in one process: datasets, samplers, the loader, all from seeds."""

import os
import pickle
import random
from unittest import mock

import numpy as np

from programs.harness import program


def numbers(torch, n=10):
    """A map-style dataset of the numbers below n, without a tensor in it."""

    class Numbers(torch.utils.data.Dataset):
        def __init__(self):
            self.n = n

        def __len__(self):
            return self.n

        def __getitem__(self, index):
            return index

    return Numbers()


def stream(torch, n=7, length=None):
    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter(range(n))

        def __str__(self):
            return "<stream>"

    class Sized(Stream):
        def __len__(self):
            return length

    return Stream() if length is None else Sized()


def seeded(torch, seed=3):
    return torch.Generator().manual_seed(seed)


def stream_moved(torch, log, action):
    """Log what `action` gives and the numbers that the global stream gives after it."""
    torch.manual_seed(11)
    log(action(), torch.rand(3))


# --- datasets ---------------------------------------------------------------------------------


@program
def dataset_base(torch, log):
    data = torch.utils.data
    log.raises(lambda: data.Dataset()[0])
    log.raises(lambda: len(data.Dataset()))
    log.raises(lambda: data.IterableDataset())
    log.raises(lambda: stream(torch)[0])
    log(type(numbers(torch) + numbers(torch)).__name__, len(numbers(torch) + numbers(torch)))
    both = stream(torch, 2) + stream(torch, 3)
    log(type(both).__name__, list(both), list(both))
    log(data.Dataset[int] is not None, data.DataLoader[int] is not None)
    log([c.__name__ for c in data.Subset.__mro__])


@program
def tensor_dataset(torch, log):
    data = torch.utils.data
    x, y = torch.arange(6).reshape(3, 2), torch.tensor([1.0, 2.0, 3.0])
    d = data.TensorDataset(x, y)
    log(len(d), d[0], d[-1], d[1:], d[[0, 2]], d[torch.tensor([1, 1])], d.tensors)
    log.raises(lambda: d[3])
    log.raises(lambda: data.TensorDataset(x, torch.ones(2)))
    log.raises(lambda: data.TensorDataset(torch.tensor(1.0)))
    log.raises(lambda: data.TensorDataset(1))
    log.raises(lambda: len(data.TensorDataset()))
    w = torch.ones(2, requires_grad=True)
    log(data.TensorDataset(w)[1])


@program
def stack_dataset(torch, log):
    data = torch.utils.data
    x = torch.arange(5) * 10
    pair, named = data.StackDataset(range(5), x), data.StackDataset(a=range(5), b=x)
    log(len(pair), pair[2], named[2], pair.__getitems__([0, 4]), named.__getitems__([0, 4]))
    log(pair.datasets, list(named.datasets))
    log.raises(lambda: data.StackDataset())
    log.raises(lambda: data.StackDataset(x, a=x))
    log.raises(lambda: data.StackDataset(range(5), range(4)))
    log.raises(lambda: data.StackDataset(a=range(5), b=range(4)))

    class Short(data.Dataset):
        def __len__(self):
            return 5

        def __getitems__(self, indices):
            return indices[1:]

    log.raises(lambda: data.StackDataset(x, Short()).__getitems__([0, 1]))
    log.raises(lambda: data.StackDataset(b=Short(), a=x).__getitems__([0, 1]))
    log(list(data.DataLoader(pair, 2)), list(data.DataLoader(named, 3)))


@program
def concat_dataset(torch, log):
    data = torch.utils.data
    d = data.ConcatDataset([[1, 2], (3,), range(10, 13)])
    log(len(d), d.cumulative_sizes, [d[i] for i in range(len(d))], [d[i] for i in (-1, -3, -6)])
    for bad in (-7, 6, 100):
        log.raises(lambda bad=bad: d[bad])
    log.raises(lambda: data.ConcatDataset([]))
    log.raises(lambda: data.ConcatDataset([stream(torch)]))
    log.warns(lambda: d.cummulative_sizes)
    log(data.ConcatDataset(part for part in [[1], [2, 3]]).datasets)
    log(data.ConcatDataset.cumsum([[1], [2, 3], []]))
    log(len(numbers(torch) + numbers(torch, 3) + [1]))


@program
def chain_dataset(torch, log):
    data = torch.utils.data
    d = data.ChainDataset([stream(torch, 2), stream(torch, 3, length=3)])
    log(list(d), list(data.DataLoader(d, 2)))
    log.raises(lambda: len(d))
    log(len(data.ChainDataset([stream(torch, 3, length=3)] * 2)))
    log.raises(lambda: list(data.ChainDataset([stream(torch, 1), numbers(torch)])))
    log.raises(lambda: len(data.ChainDataset([numbers(torch)])))


@program
def subset(torch, log):
    data = torch.utils.data
    x = torch.arange(10) * 2
    d = data.Subset(x, [7, 1, 4])
    log(len(d), d[0], d[-1], d[[0, 2]], d.__getitems__([2, 1]), d.indices)
    log(data.Subset(d, [2, 0])[[0, 1]], [data.Subset(d, [2, 0])[i] for i in (0, 1)])
    log.raises(lambda: d[3])
    log(list(data.DataLoader(d, 2)))

    class Marked(data.Dataset):
        def __getitems__(self, indices):
            return [f"item {i}" for i in indices]

    log(data.Subset(Marked(), [3, 5]).__getitems__([1, 0]))
    log(list(data.DataLoader(data.Subset(Marked(), [3, 5, 7]), 2)))


@program
def random_split(torch, log):
    data = torch.utils.data

    def split(n, lengths, seed=3):
        parts = data.random_split(numbers(torch, n), lengths, generator=seeded(torch, seed))
        return [part.indices for part in parts]

    log(split(10, [3, 7]), split(10, (4, 6), 5), split(10, [10, 0]), split(1, [1]))
    log(split(10, torch.tensor([4, 6])))
    log(split(10, [0.5, 0.5]), split(10, [0.33, 0.33, 0.34]), split(11, [0.3, 0.3, 0.4]))
    log(split(10, [1]), split(10, [1.0]), split(10, [0.1] * 10), split(7, [0.9, 0.1]))
    log.warns(lambda: split(2, [0.5, 0.3, 0.2]))
    log.warns(lambda: split(0, [0.5, 0.5]))
    for bad in ([3, 3], [0.5, 0.6], [0.5, 0.4], [1.5, -0.5], [], [11]):
        log.raises(lambda bad=bad: split(10, bad))
    stream_moved(torch, log, lambda: [p.indices for p in data.random_split(range(6), [2, 4])])
    stream_moved(torch, log, lambda: [p.indices for p in data.random_split(range(4), [4], None)])
    parts = data.random_split(torch.arange(6), [0.5, 0.5], seeded(torch))
    log([list(part) for part in parts])


# --- samplers ---------------------------------------------------------------------------------


@program
def sampler_base(torch, log):
    data = torch.utils.data
    log.raises(lambda: data.Sampler([1]))
    log.raises(lambda: data.Sampler(data_source=None))
    log.raises(lambda: iter(data.Sampler()))
    log.raises(lambda: len(data.Sampler()))

    class Own(data.Sampler):
        def __init__(self, source):
            super().__init__(source)

    log.raises(lambda: Own([1]))
    log(list(data.SequentialSampler("abc")), len(data.SequentialSampler("abc")))


@program
def random_sampler(torch, log):
    data = torch.utils.data
    for n in (1, 2, 7, 40, 300):
        stream_moved(torch, log, lambda n=n: list(data.RandomSampler(range(n))))
    stream_moved(torch, log, lambda: list(data.RandomSampler(range(5), replacement=True)))
    for replacement in (False, True):
        for count in (2, 6, 15, 32, 70):
            g = seeded(torch)
            sampler = data.RandomSampler(range(6), replacement, count, g)
            # Two epochs of one generator, and where it is after them.
            log(len(sampler), list(sampler), list(sampler), torch.rand(2, generator=g))
    source = [1, 2, 3]
    sampler = data.RandomSampler(source)
    source.append(4)
    log(len(sampler), sorted(sampler), sampler.num_samples, sampler.replacement)
    stream_moved(torch, log, lambda: iter(data.RandomSampler(source)) is None)


@program
def random_sampler_errors(torch, log):
    data = torch.utils.data
    for replacement in (1, None, "a", 0):
        log.raises(lambda r=replacement: data.RandomSampler(range(3), r))
    for count in (0, -1, 1.5, "3"):
        log.raises(lambda c=count: data.RandomSampler(range(3), num_samples=c))
    log.raises(lambda: data.RandomSampler([]))
    log.raises(lambda: data.RandomSampler(3))
    log.raises(lambda: list(data.RandomSampler([], True, 3)))
    log.raises(lambda: list(data.RandomSampler([], False, 3)))


@program
def subset_random_sampler(torch, log):
    data = torch.utils.data
    indices = [5, 3, 9, 1, 1, 0]
    stream_moved(torch, log, lambda: list(data.SubsetRandomSampler(indices)))
    sampler = data.SubsetRandomSampler(indices, seeded(torch))
    log(len(sampler), list(sampler), list(sampler))
    log(list(data.SubsetRandomSampler(torch.tensor(indices), seeded(torch))))
    log(list(data.SubsetRandomSampler([])), list(data.SubsetRandomSampler("ab", seeded(torch))))


@program
def weighted_random_sampler(torch, log):
    data = torch.utils.data
    weights = [1, 2, 3.5, 0, 0.25]
    stream_moved(torch, log, lambda: list(data.WeightedRandomSampler(weights, 12)))
    for replacement, count in ((True, 20), (False, 4)):
        sampler = data.WeightedRandomSampler(weights, count, replacement, seeded(torch))
        log(len(sampler), list(sampler), list(sampler), sampler.weights)
    log(list(data.WeightedRandomSampler(torch.ones(3), 4, generator=seeded(torch))))
    for count in (0, -1, True, 2.0, None):
        log.raises(lambda c=count: data.WeightedRandomSampler(weights, c))
    log.raises(lambda: data.WeightedRandomSampler(weights, 2, 1))
    log.raises(lambda: data.WeightedRandomSampler([[1, 2]], 2))
    log.raises(lambda: data.WeightedRandomSampler(3, 2))
    log.raises(lambda: list(data.WeightedRandomSampler([1, 2], 3, False)))
    log.raises(lambda: list(data.WeightedRandomSampler([1, -2], 3)))


@program
def batch_sampler(torch, log):
    data = torch.utils.data
    for n in (0, 1, 6, 7):
        for drop_last in (False, True):
            sampler = data.BatchSampler(data.SequentialSampler(range(n)), 3, drop_last)
            log(list(sampler), list(sampler), len(sampler))
    log(list(data.BatchSampler((i for i in "abcde"), 2, False)))
    log(list(data.BatchSampler(data.RandomSampler(range(5), generator=seeded(torch)), 2, True)))
    log.raises(lambda: len(data.BatchSampler((i for i in range(5)), 2, False)))
    for size in (0, -1, True, 1.5, None, "2"):
        log.raises(lambda s=size: data.BatchSampler(range(3), s, False))
    for drop in (0, 1, None):
        log.raises(lambda d=drop: data.BatchSampler(range(3), 2, d))
    sampler = data.BatchSampler(range(3), 2, False)
    log(sampler.batch_size, sampler.drop_last, list(sampler.sampler))


@program
def distributed_sampler(torch, log):
    sampler = torch.utils.data.distributed.DistributedSampler
    for n, world in ((10, 3), (2, 5), (9, 3), (0, 2), (1, 1), (100, 7)):
        for drop_last in (False, True):
            for shuffle in (False, True):
                ranks = [
                    sampler(range(n), world, rank, shuffle, seed=4, drop_last=drop_last)
                    for rank in range(world)
                ]
                log([list(s) for s in ranks], [len(s) for s in ranks], ranks[0].total_size)
    s = sampler(range(9), num_replicas=2, rank=1)
    first = list(s)
    s.set_epoch(3)
    log(first, list(s), s.epoch, s.num_samples, s.seed, s.shuffle, s.drop_last, s.rank)
    log(torch.utils.data.DistributedSampler is sampler)
    for rank in (-1, 2, 7):
        log.raises(lambda r=rank: sampler(range(9), 2, r))
    loader = torch.utils.data.DataLoader(range(9), 2, sampler=s)
    log(list(loader), len(loader))


# --- the loader -------------------------------------------------------------------------------


@program
def loader_basics(torch, log):
    loader = torch.utils.data.DataLoader
    d = numbers(torch, 7)
    log(list(loader(d)), list(loader(d, 3)), list(loader(d, 3, drop_last=True)))
    log(list(loader(d, None)), list(loader([1, "a", np.ones(2), (1, 2.0)], None)))
    log([len(loader(d, size)) for size in (1, 2, 7, 8, None)], len(loader(d, 3, drop_last=True)))
    log(list(loader([1, 2, 3], 2)), list(loader({0: 1.5, 1: 2.5}, 2)), list(loader("abc", 2)))
    log(list(loader(torch.arange(5), 2)), list(loader(numbers(torch, 0))))
    log(list(loader(d, 4, collate_fn=sum)), list(loader(d, None, collate_fn=str)))
    log(list(loader(d, sampler=[3, 1])), list(loader(d, 2, sampler=[3, 1, 6])))
    log(list(loader(d, batch_sampler=[[1, 2], [], [3]], collate_fn=list)))
    log(len(loader(d, batch_sampler=[[1, 2], [3]])), list(loader(d, batch_sampler=[])))
    log(list(loader(d, sampler=range(5), batch_size=2, drop_last=True)))
    log.raises(lambda: list(loader(numbers(torch), sampler=["a"], collate_fn=list)))
    log.raises(lambda: list(loader([1, 2], sampler=[5])))
    log.raises(lambda: loader(5))
    log.raises(lambda: loader(5, sampler=[1]) and None)


@program
def loader_of_tensors(torch, log):
    data = torch.utils.data
    torch.manual_seed(0)
    d = data.TensorDataset(torch.randn(7, 2), torch.arange(7))
    for epoch in range(2):
        for x, y in data.DataLoader(d, batch_size=3, shuffle=True):
            log(epoch, x, y)


@program
def shuffling(torch, log):
    loader = torch.utils.data.DataLoader
    d = numbers(torch, 11)

    def epochs(**kwargs):
        made = loader(d, 4, shuffle=True, **kwargs)
        return [[batch.tolist() for batch in made] for _ in range(3)]

    stream_moved(torch, log, epochs)
    g = seeded(torch)
    log(epochs(generator=g), torch.rand(2, generator=g))
    stream_moved(torch, log, lambda: epochs(generator=seeded(torch)))
    stream_moved(torch, log, lambda: list(loader(d, None, shuffle=True)))
    stream_moved(torch, log, lambda: list(loader(d, 6)))
    stream_moved(torch, log, lambda: len(loader(d, 2, shuffle=True)))
    stream_moved(torch, log, lambda: iter(loader(d, 2, shuffle=True)) is None)
    stream_moved(torch, log, lambda: next(iter(loader(d, 2, shuffle=True))))
    stream_moved(torch, log, lambda: list(loader(stream(torch), 6)))
    for shuffle in (None, False, 0, "", 1, "a"):
        log(type(loader(d, shuffle=shuffle).sampler).__name__)
    log(loader(d, shuffle=True, generator=g).sampler.generator is g, loader(d).generator)


@program
def interleaved_epochs(torch, log):
    loader = torch.utils.data.DataLoader(numbers(torch, 6), 2, shuffle=True)
    for a in loader:
        for b in loader:
            log(a, b)


@program
def random_in_samples(torch, log):
    class Noisy(torch.utils.data.Dataset):
        def __len__(self):
            return 5

        def __getitem__(self, index):
            return index, torch.rand(2), random.random(), np.random.rand()

    random.seed(1)
    np.random.seed(2)
    log(list(torch.utils.data.DataLoader(Noisy(), 2, shuffle=True)))
    log(torch.rand(2), random.random(), np.random.rand())


@program
def samplers_that_draw(torch, log):
    class Own(torch.utils.data.Sampler):
        def __iter__(self):
            return iter(torch.randperm(5).tolist())

        def __len__(self):
            return 5

    loader = torch.utils.data.DataLoader
    d = numbers(torch, 5)
    stream_moved(torch, log, lambda: list(loader(d, 2, sampler=Own())))
    stream_moved(torch, log, lambda: list(loader(d, None, sampler=Own())))
    batches = torch.utils.data.BatchSampler(Own(), 2, False)
    stream_moved(torch, log, lambda: list(loader(d, batch_sampler=batches)))
    weighted = torch.utils.data.WeightedRandomSampler([1.0] * 5, 7)
    stream_moved(torch, log, lambda: list(loader(d, 3, sampler=weighted)))


@program
def streams(torch, log):
    loader = torch.utils.data.DataLoader
    log(list(loader(stream(torch))), list(loader(stream(torch), 3)))
    log(list(loader(stream(torch), 3, drop_last=True)), list(loader(stream(torch), None)))
    log(list(loader(stream(torch, 6), 3)), list(loader(stream(torch, 0), 3)))
    log.raises(lambda: len(loader(stream(torch))))
    sized = stream(torch, 7, length=7)
    log([len(loader(sized, size)) for size in (1, 2, 7, None)])
    log(len(loader(sized, 2, drop_last=True)))
    for options in ({"shuffle": True}, {"shuffle": 1}, {"sampler": [1]}, {"batch_sampler": [[1]]}):
        log.raises(lambda options=options: loader(stream(torch), **options))
    log(type(loader(stream(torch), shuffle=False).sampler).__name__)
    log.raises(lambda: len(iter(loader(stream(torch)))))


@program
def wrong_lengths(torch, log):
    for size in (1, 2, None):
        loader = torch.utils.data.DataLoader(stream(torch, 6, length=2), size)
        log.warns(lambda loader=loader: list(loader))
        log(len(loader))
        log.warns(lambda loader=loader: list(loader))


@program
def batches_at_once(torch, log):
    class Columns(torch.utils.data.Dataset):
        def __len__(self):
            return 5

        def __getitem__(self, index):
            return index

        def __getitems__(self, indices):
            return [100 + i for i in indices]

    loader = torch.utils.data.DataLoader
    log(list(loader(Columns(), 2)), list(loader(Columns(), None)))
    log(list(loader(torch.utils.data.Subset(Columns(), [4, 2, 0]), 2)))


@program
def iterators(torch, log):
    it = iter(torch.utils.data.DataLoader(numbers(torch, 3), 2))
    log(type(it).__name__, len(it), iter(it) is it)
    log(next(it), next(it), next(it, "end"), next(it, "still the end"))
    log.raises(lambda: pickle.dumps(it))
    it = iter(torch.utils.data.DataLoader(stream(torch, 1)))
    log(next(it), next(it, "end"), next(it, "end"))

    class Broken(torch.utils.data.Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, index):
            if index == 1:
                raise ValueError("sample 1 is broken")
            return index

    it = iter(torch.utils.data.DataLoader(Broken()))
    log(next(it))
    log.raises(lambda: next(it))
    log(list(it))


@program
def loader_errors(torch, log):
    loader = torch.utils.data.DataLoader
    d = numbers(torch)
    for options in (
        {"num_workers": -1},
        {"num_workers": "1"},
        {"timeout": -1},
        {"prefetch_factor": 2},
        {"prefetch_factor": -1, "num_workers": 1},
        {"persistent_workers": True},
        {"sampler": [1], "shuffle": True},
        {"batch_sampler": [[1]], "batch_size": 2},
        {"batch_sampler": [[1]], "shuffle": True},
        {"batch_sampler": [[1]], "sampler": [1]},
        {"batch_sampler": [[1]], "drop_last": True},
        {"batch_size": None, "drop_last": True},
        {"batch_size": 0},
        {"batch_size": 2.0},
        {"batch_size": True},
        {"drop_last": 1},
        {"multiprocessing_context": "fork"},
        {"multiprocessing_context": 3, "num_workers": 1},
        {"multiprocessing_context": "thread", "num_workers": 1},
        {"prefetch_factor": 2, "timeout": -1},
        {"unknown": 1},
    ):
        log.raises(lambda options=options: loader(d, **options))
    log.raises(lambda: loader(numbers(torch, 0), shuffle=True))
    log.raises(lambda: loader())
    log.raises(lambda: iter(loader(d, timeout=3)))


@program
def attributes(torch, log):
    loader = torch.utils.data.DataLoader(numbers(torch), 2)
    for name in "batch_size batch_sampler sampler drop_last dataset persistent_workers".split():
        log.raises(lambda name=name: setattr(loader, name, 1))
    loader.collate_fn = list
    log(next(iter(loader)))
    loader.anything = 5
    loader.num_workers = 1
    log(loader.anything, loader.num_workers)
    with_workers = torch.utils.data.DataLoader(numbers(torch), num_workers=1)
    log(with_workers.prefetch_factor, loader.prefetch_factor, loader.timeout, loader.pin_memory)
    log(loader.pin_memory_device, loader.in_order, loader.worker_init_fn, loader.persistent_workers)
    log(with_workers.multiprocessing_context)
    with_workers.multiprocessing_context = "spawn"
    log(type(with_workers.multiprocessing_context).__name__)
    log.raises(lambda: setattr(with_workers, "multiprocessing_context", "x"))
    none = torch.utils.data.DataLoader(numbers(torch), None)
    log(none.batch_size, none.batch_sampler, none.collate_fn.__name__, none.drop_last)
    given = torch.utils.data.DataLoader(numbers(torch), batch_sampler=[[1]])
    log(given.batch_size, given.batch_sampler, given.collate_fn.__name__)

    class Mine(torch.utils.data.DataLoader):
        pass

    log.raises(lambda: setattr(Mine(numbers(torch)), "batch_size", 3))
    log(torch.utils.data.get_worker_info())


@program
def warnings_given(torch, log):
    loader = torch.utils.data.DataLoader
    d = numbers(torch, 2)
    log.warns(lambda: list(loader(d, pin_memory=True)))
    log.warns(lambda: list(loader(d, pin_memory_device="cuda")))
    log.warns(lambda: list(loader(d, pin_memory=True, pin_memory_device="cuda")))

    def many(workers):
        loader(d, num_workers=workers)

    with mock.patch.object(os, "sched_getaffinity", lambda pid: range(3), create=True):
        for workers in (2, 3, 4, 50):
            log.warns(lambda workers=workers: many(workers))
    if hasattr(os, "sched_getaffinity"):
        with mock.patch.object(os, "sched_getaffinity"):
            del os.sched_getaffinity
            with mock.patch.object(os, "cpu_count", lambda: 3):
                log.warns(lambda: many(4))
            with mock.patch.object(os, "cpu_count", lambda: None):
                log.warns(lambda: many(1))


@program
def training(torch, log):
    """The whole loop: the same numbers from the same seed."""
    torch.manual_seed(5)
    x = torch.randn(24, 3)
    y = x @ torch.tensor([1.0, -2.0, 0.5]) + 0.1 * torch.randn(24)
    train, test = torch.utils.data.random_split(torch.utils.data.TensorDataset(x, y), [0.75, 0.25])
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        for a, b in torch.utils.data.DataLoader(train, batch_size=4, shuffle=True):
            optimizer.zero_grad()
            loss = ((model(a).squeeze(1) - b) ** 2).mean()
            loss.backward()
            optimizer.step()
        log(loss.item())
    log(model.weight.detach(), len(test), next(iter(torch.utils.data.DataLoader(test, 2))))
