"""Traps: lists, dicts and NumPy arrays that change between two calls."""

# ruff: noqa: N801, N805, N806  (small classes and constants of one trap)

from __future__ import annotations

import collections
import functools
import itertools
import types

import numpy as np
from harness import Trap, numbers, phase, trap, work

import tapegrad as T

# --- containers


@trap
def deep_container(compile):
    deep = [[[[[[[1.0]]]]]]]

    @compile
    def f(x):
        return work(x) * deep[0][0][0][0][0][0][0]

    def before(i):
        deep[0][0][0][0][0][0][0] = 1.0 + phase(i)

    return Trap(f, before)


@trap
def deep_dict(compile):
    deep = {"a": {"b": {"c": {"d": {"e": {"f": 1.0}}}}}}

    @compile
    def f(x):
        return work(x) * deep["a"]["b"]["c"]["d"]["e"]["f"]

    def before(i):
        deep["a"]["b"]["c"]["d"]["e"]["f"] = 1.0 + phase(i)

    return Trap(f, before)


@trap
def deep_objects(compile):
    chain = types.SimpleNamespace(k=1.0)
    last = chain
    for _ in range(8):
        chain = types.SimpleNamespace(next=chain)

    @compile
    def f(x):
        node = chain
        while hasattr(node, "next"):
            node = node.next
        return work(x) * node.k

    def before(i):
        last.k = 1.0 + phase(i)

    return Trap(f, before)


@trap
def long_list(compile):
    many = [1.0] * 2000

    @compile
    def f(x):
        return work(x) * many[1500]

    def before(i):
        many[1500] = 1.0 + phase(i)

    return Trap(f, before)


@trap
def sum_of_a_long_list(compile):
    many = [1.0] * 700

    @compile
    def f(x):
        return work(x) * sum(many)

    def before(i):
        many[650] = 1.0 + phase(i)

    return Trap(f, before)


@trap
def long_dict(compile):
    many = dict.fromkeys(range(1000), 1.0)

    @compile
    def f(x):
        return work(x) * many[777]

    def before(i):
        many[777] = 1.0 + phase(i)

    return Trap(f, before)


@trap
def order_of_a_dict(compile):
    d = {"a": 1.0, "b": 2.0}

    @compile
    def f(x):
        for v in d.values():
            x = work(x) * v + v
        return x

    def before(i):
        if i in (5, 7, 8):
            d["a"] = d.pop("a")
            d["b"] = d.pop("b") if i == 7 else d["b"]

    return Trap(f, before)


@trap
def first_key_of_a_dict(compile):
    d = {"one": 1.0, "two": 2.0}

    @compile
    def f(x):
        return work(x) * d[next(iter(d))]

    def before(i):
        if i in (5, 7):
            d["one"] = d.pop("one")
        if i == 8:
            d["two"] = d.pop("two")

    return Trap(f, before)


@trap
def ordered_dict_moved(compile):
    d = collections.OrderedDict(a=1.0, b=2.0)

    @compile
    def f(x):
        return work(x) * list(d.values())[0]

    def before(i):
        if i in (5, 8):
            d.move_to_end("a" if i == 5 else "b")

    return Trap(f, before)


@trap
def user_dict(compile):
    d = collections.UserDict(k=1.0)

    @compile
    def f(x):
        return work(x) * d["k"]

    def before(i):
        d["k"] = 1.0 + phase(i)

    return Trap(f, before)


@trap
def user_list(compile):
    values = collections.UserList([1.0])

    @compile
    def f(x):
        return work(x) * values[0]

    def before(i):
        values[0] = 1.0 + phase(i)

    return Trap(f, before)


@trap
def chain_map(compile):
    base, over = {"k": 1.0}, {}
    chain = collections.ChainMap(over, base)

    @compile
    def f(x):
        return work(x) * chain["k"]

    def before(i):
        over.clear()
        if phase(i):
            over["k"] = 1.0 + phase(i)

    return Trap(f, before)


@trap
def chain_map_parent(compile):
    chain = collections.ChainMap({}, {"k": 1.0})

    @compile
    def f(x):
        return work(x) * chain["k"]

    def before(i):
        chain.maps[1]["k"] = 1.0 + phase(i)

    return Trap(f, before)


@trap
def default_dict(compile):
    d = collections.defaultdict(lambda: 1.0)

    @compile
    def f(x):
        return work(x) * d["k"]

    def before(i):
        if phase(i):
            d["k"] = 1.0 + phase(i)

    return Trap(f, before, state=lambda: dict(d))


@trap
def counter(compile):
    c = collections.Counter("a")

    @compile
    def f(x):
        return work(x) * c["a"] + c["missing"]

    def before(i):
        c["a"] = 1 + phase(i)

    return Trap(f, before)


@trap
def deque(compile):
    d = collections.deque([1.0, 2.0, 3.0])

    @compile
    def f(x):
        return work(x) * d[0]

    def before(i):
        if i > 4:
            d.rotate()

    return Trap(f, before)


@trap
def mapping_proxy(compile):
    d = {"k": 1.0}
    shown = types.MappingProxyType(d)

    @compile
    def f(x):
        return work(x) * shown["k"]

    def before(i):
        d["k"] = 1.0 + phase(i)

    return Trap(f, before)


@trap
def dict_with_missing(compile):
    class Fallback(dict):
        level = 1.0

        def __missing__(self, key):
            return self.level

    d = Fallback()

    @compile
    def f(x):
        return work(x) * d["k"]

    def before(i):
        d.level = 1.0 + phase(i)

    return Trap(f, before)


@trap
def attr_dict(compile):
    class AttrDict(dict):
        __getattr__ = dict.__getitem__
        __setattr__ = dict.__setitem__

    config = AttrDict(k=1.0)

    @compile
    def f(x):
        return work(x) * config.k

    def before(i):
        config.k = 1.0 + phase(i)

    return Trap(f, before)


@trap
def kept_get(compile):
    d = {"k": 1.0}
    get = d.get

    @compile
    def f(x):
        return work(x) * get("k")

    def before(i):
        d["k"] = 1.0 + phase(i)

    return Trap(f, before)


@trap
def kept_getitem(compile):
    values = [1.0]
    get = values.__getitem__

    @compile
    def f(x):
        return work(x) * get(0)

    def before(i):
        values[0] = 1.0 + phase(i)

    return Trap(f, before)


@trap
def kept_view_of_values(compile):
    d = {"k": 1.0}
    values = d.values()

    @compile
    def f(x):
        return work(x) * sum(values)

    def before(i):
        d["k"] = 1.0 + phase(i)

    return Trap(f, before)


@trap
def partial_of_a_bound_method(compile):
    d = {"k": 1.0}
    get = functools.partial(dict.get, d, "k")

    @compile
    def f(x):
        return work(x) * get()

    def before(i):
        d["k"] = 1.0 + phase(i)

    return Trap(f, before)


@trap
def bound_method_of_an_object(compile):
    class Box:
        k = 1.0

        def get(self):
            return self.k

    box = Box()
    get = box.get

    @compile
    def f(x):
        return work(x) * get()

    def before(i):
        box.k = 1.0 + phase(i)

    return Trap(f, before)


@trap
def membership_in_a_set(compile):
    names = {"a"}

    @compile
    def f(x):
        return work(x) * (2.0 if "b" in names else 1.0)

    def before(i):
        names.add("b") if phase(i) == 1 else names.discard("b")

    return Trap(f, before)


@trap
def list_of_objects_sorted(compile):
    class Item:
        def __init__(self, rank, k):
            self.rank, self.k = rank, k

    items = [Item(1, 2.0), Item(2, 3.0)]

    @compile
    def f(x):
        for item in sorted(items, key=lambda item: item.rank):
            x = work(x) * item.k + item.k
        return x

    def before(i):
        items[0].rank = 3 if phase(i) == 1 else 1

    return Trap(f, before)


@trap
def list_replaced_by_an_equal_one(compile):
    box = {"v": [1.0, 2.0]}

    @compile
    def f(x):
        return work(x) * sum(box["v"])

    def before(i):
        box["v"] = [1.0, 2.0 + phase(i)]

    return Trap(f, before)


@trap
def one_and_true(compile):
    box = [1]

    @compile
    def f(x):
        return work(x) * (2.0 if box[0] is True else 1.0)

    def before(i):
        box[0] = True if phase(i) == 1 else 1

    return Trap(f, before)


@trap
def zero_and_minus_zero(compile):
    box = [0.0]

    @compile
    def f(x):
        return T.copysign(work(x), T.full((), box[0], dtype=T.float64))

    def before(i):
        box[0] = -0.0 if phase(i) == 1 else 0.0

    return Trap(f, before)


@trap
def nan_in_a_list(compile):
    box = [1.0]

    @compile
    def f(x):
        return work(x) * box[0]

    def before(i):
        box[0] = float("nan") if phase(i) == 1 else 1.0

    return Trap(f, before)


@trap
def int_becomes_float(compile):
    box = [2]

    @compile
    def f(x):
        return work(x), T.full((2,), box[0])

    def before(i):
        box[0] = 2.0 if phase(i) == 1 else 2

    return Trap(f, before)


@trap
def slice_in_a_variable(compile):
    box = [slice(0, 2)]

    @compile
    def f(x):
        return work(x)[:, box[0]]

    def before(i):
        box[0] = slice(0, 1 + phase(i) % 2) if phase(i) else slice(0, 2)

    return Trap(f, before)


@trap
def range_in_a_variable(compile):
    box = [range(2)]

    @compile
    def f(x):
        for k in box[0]:
            x = work(x) + k
        return x

    def before(i):
        box[0] = range(2 + phase(i))

    return Trap(f, before)


@trap
def bytes_array(compile):
    data = bytearray(b"\x01")

    @compile
    def f(x):
        return work(x) * data[0]

    def before(i):
        data[0] = 1 + phase(i)

    return Trap(f, before)


@trap
def array_module(compile):
    import array

    data = array.array("d", [1.0])

    @compile
    def f(x):
        return work(x) * data[0]

    def before(i):
        data[0] = 1.0 + phase(i)

    return Trap(f, before)


@trap
def memory_view(compile):
    import array

    data = array.array("d", [1.0])
    view = memoryview(data)

    @compile
    def f(x):
        return work(x) * view[0]

    def before(i):
        data[0] = 1.0 + phase(i)

    return Trap(f, before)


@trap
def string_io(compile):
    import io

    text = io.StringIO("1.0")

    @compile
    def f(x):
        return work(x) * float(text.getvalue())

    def before(i):
        text.seek(0)
        text.write(f"{1.0 + phase(i)}")

    return Trap(f, before)


@trap
def iterator_in_a_variable(compile):
    source = iter(range(1, 100))

    @compile
    def f(x):
        return work(x) * next(source)

    return Trap(f)


@trap
def cycle_in_a_variable(compile):
    source = itertools.cycle([1.0, 2.0, 3.0])

    @compile
    def f(x):
        return work(x) * next(source)

    return Trap(f)


@trap
def count_in_a_variable(compile):
    source = itertools.count()

    @compile
    def f(x):
        return work(x) + next(source)

    return Trap(f)


@trap
def generator_in_a_variable(compile):
    source = (k * 0.5 for k in range(100))

    @compile
    def f(x):
        return work(x) + next(source)

    return Trap(f)


# --- NumPy


@trap
def numpy_item(compile):
    stats = np.array([1.0, 2.0])

    @compile
    def f(x):
        return work(x) * float(stats[0])

    def before(i):
        stats[0] = 1.0 + phase(i)

    return Trap(f, before)


@trap
def numpy_scalar_times_tensor(compile):
    stats = np.array([1.0, 2.0])

    @compile
    def f(x):
        return work(x) * stats[0]

    def before(i):
        stats[0] = 1.0 + phase(i)

    return Trap(f, before)


@trap
def numpy_mean(compile):
    stats = np.array([1.0, 2.0])

    @compile
    def f(x):
        return work(x) * stats.mean().item()

    def before(i):
        stats[1] = 2.0 + phase(i)

    return Trap(f, before)


@trap
def numpy_array_as_tensor(compile):
    data = np.ones(3)

    @compile
    def f(x):
        return work(x) * T.from_numpy(data)

    def before(i):
        data[:] = 1.0 + phase(i)

    return Trap(f, before)


@trap
def numpy_array_copied_into_a_tensor(compile):
    data = np.ones(3)

    @compile
    def f(x):
        return work(x) * T.tensor(data)

    def before(i):
        data[:] = 1.0 + phase(i)

    return Trap(f, before)


@trap
def numpy_index_of_the_call(compile):
    rng = np.random.default_rng(0)
    box = [rng.integers(0, 5, 3)]
    table = numbers(0, 5, 3)

    @compile
    def f(x):
        return work(x) * table[box[0]].sum()

    def before(i):
        box[0] = rng.integers(0, 5, 3)

    return Trap(f, before)


@trap
def numpy_mask(compile):
    mask = np.array([True, False, True])

    @compile
    def f(x):
        return work(x) * T.as_tensor(mask)

    def before(i):
        mask[1] = phase(i) == 1

    return Trap(f, before)


@trap
def numpy_zero_dim(compile):
    level = np.array(1.0)

    @compile
    def f(x):
        return work(x) * float(level)

    def before(i):
        level[...] = 1.0 + phase(i)

    return Trap(f, before)


@trap
def numpy_shape(compile):
    box = [np.zeros((2, 3))]

    @compile
    def f(x):
        return work(x) * len(box[0])

    def before(i):
        box[0] = np.zeros((2 + phase(i), 3))

    return Trap(f, before)


@trap
def numpy_list_comprehension(compile):
    stats = np.array([1.0, 2.0])

    @compile
    def f(x):
        return work(x) * sum([v * 2 for v in stats.tolist()])

    def before(i):
        stats[1] = 2.0 + phase(i)

    return Trap(f, before)
