"""Traps: arguments of a call that compare equal, or that Python reads."""

# ruff: noqa: N801

from __future__ import annotations

import collections
import dataclasses
import enum
import fractions
import functools
import types

import numpy as np
from harness import Trap, numbers, phase, trap, work

import tapegrad as T
from tapegrad import nn


def pair(i):
    return numbers(i), numbers(i + 20)


# --- arguments that compare equal, and are not the same


@trap
def dataclass_with_a_field_not_compared(compile):
    @dataclasses.dataclass(frozen=True)
    class Config:
        name: str
        k: float = dataclasses.field(default=1.0, compare=False)

    @compile
    def f(x, config):
        return work(x) * config.k

    return Trap(f, args=lambda i: (numbers(i), Config("a", 1.0 + phase(i))))


@trap
def dataclass_that_changes(compile):
    @dataclasses.dataclass
    class Config:
        k: float = 1.0

    config = Config()

    @compile
    def f(x, config):
        return work(x) * config.k

    def before(i):
        config.k = 1.0 + phase(i)

    return Trap(f, before, args=lambda i: (numbers(i), config))


@trap
def object_equal_to_all(compile):
    class Same:
        def __init__(self, k):
            self.k = k

        def __eq__(self, other):
            return True

        def __hash__(self):
            return 7

    @compile
    def f(x, o):
        return work(x) * o.k

    return Trap(f, args=lambda i: (numbers(i), Same(1.0 + phase(i))))


@trap
def frozenset_of_one_and_true(compile):
    @compile
    def f(x, s):
        return work(x) * (2.0 if next(iter(s)) is True else 1.0)

    return Trap(f, args=lambda i: (numbers(i), frozenset({True} if phase(i) == 1 else {1})))


@trap
def one_true_and_one_point_zero(compile):
    @compile
    def f(x, k):
        return work(x), T.full((2,), k)

    return Trap(f, args=lambda i: (numbers(i), (1, True, 1.0)[phase(i)]))


@trap
def tuple_of_one_and_true(compile):
    @compile
    def f(x, k):
        return work(x) * (2.0 if k[0][0] is True else 1.0)

    return Trap(f, args=lambda i: (numbers(i), (((1, True, 1.0)[phase(i)],), 2)))


@trap
def minus_zero(compile):
    @compile
    def f(x, k):
        return T.copysign(work(x), T.full((3,), k, dtype=T.float64))

    return Trap(f, args=lambda i: (numbers(i), -0.0 if phase(i) == 1 else 0.0))


@trap
def str_subclass(compile):
    class Name(str):
        k = 2.0

    @compile
    def f(x, name):
        return work(x) * getattr(name, "k", 1.0)

    return Trap(f, args=lambda i: (numbers(i), Name("a") if phase(i) == 1 else "a"))


@trap
def str_subclass_with_state(compile):
    class Name(str):
        pass

    def args(i):
        name = Name("a")
        name.k = 1.0 + phase(i)
        return numbers(i), name

    @compile
    def f(x, name):
        return work(x) * name.k

    return Trap(f, args=args)


@trap
def int_subclass(compile):
    class Count(int):
        def __mul__(self, other):
            return 5.0

    @compile
    def f(x, n):
        return work(x) * (n * 2)

    return Trap(f, args=lambda i: (numbers(i), Count(3) if phase(i) == 1 else 3))


@trap
def float_subclass(compile):
    class Rate(float):
        def __mul__(self, other):
            return other * 5.0

    @compile
    def f(x, n):
        return n * work(x)

    return Trap(f, args=lambda i: (numbers(i), Rate(3.0) if phase(i) == 1 else 3.0))


@trap
def tuple_subclass_with_state(compile):
    class Row(tuple):
        pass

    def args(i):
        row = Row((1.0,))
        row.k = 1.0 + phase(i)
        return numbers(i), row

    @compile
    def f(x, row):
        return work(x) * row.k

    return Trap(f, args=args)


@trap
def list_subclass_with_state(compile):
    class Row(list):
        k = 1.0

    def args(i):
        row = Row([1.0])
        row.k = 1.0 + phase(i)
        return numbers(i), row

    @compile
    def f(x, row):
        return work(x) * row.k

    return Trap(f, args=args)


@trap
def dict_subclass_with_state(compile):
    class Options(dict):
        k = 1.0

    def args(i):
        options = Options(a=1.0)
        options.k = 1.0 + phase(i)
        return numbers(i), options

    @compile
    def f(x, options):
        return work(x) * options.k

    return Trap(f, args=args)


@trap
def named_tuple_or_tuple(compile):
    Point = collections.namedtuple("Point", "a b")  # noqa: N806

    @compile
    def f(x, p):
        return work(x) * (2.0 if hasattr(p, "a") else 1.0)

    return Trap(f, args=lambda i: (numbers(i), Point(1, 2) if phase(i) == 1 else (1, 2)))


@trap
def order_of_a_dict_argument(compile):
    @compile
    def f(x, d):
        for v in d.values():
            x = work(x) * v + v
        return x

    return Trap(
        f, args=lambda i: (numbers(i), {"b": 2.0, "a": 1.0} if phase(i) else {"a": 1.0, "b": 2.0})
    )


@trap
def ordered_dict_or_dict(compile):
    @compile
    def f(x, d):
        return work(x) * (2.0 if hasattr(d, "move_to_end") else 1.0)

    def args(i):
        return numbers(i), (collections.OrderedDict(a=1) if phase(i) == 1 else {"a": 1})

    return Trap(f, args=args)


@trap
def list_or_tuple(compile):
    @compile
    def f(x, v):
        return work(x) * (2.0 if isinstance(v, list) else 1.0)

    return Trap(f, args=lambda i: (numbers(i), [1.0] if phase(i) == 1 else (1.0,)))


@trap
def enum_argument(compile):
    class Mode(enum.IntEnum):
        A = 1

    @compile
    def f(x, mode):
        return work(x) * (2.0 if isinstance(mode, Mode) else 1.0)

    return Trap(f, args=lambda i: (numbers(i), Mode.A if phase(i) == 1 else 1))


@trap
def complex_argument(compile):
    @compile
    def f(x, z):
        return (work(x) * z).abs()

    return Trap(f, args=lambda i: (numbers(i), 1 + 1j * (1 + phase(i))))


@trap
def fraction_argument(compile):
    @compile
    def f(x, q):
        return work(x) * float(q)

    return Trap(f, args=lambda i: (numbers(i), fractions.Fraction(1 + phase(i), 3)))


@trap
def range_argument(compile):
    @compile
    def f(x, r):
        for k in r:
            x = work(x) + k
        return x

    return Trap(f, args=lambda i: (numbers(i), range(1 + phase(i))))


@trap
def slice_argument(compile):
    @compile
    def f(x, s):
        return work(x)[:, s]

    return Trap(f, args=lambda i: (numbers(i), slice(0, 1 + phase(i))))


@trap
def dtype_argument(compile):
    @compile
    def f(x, d):
        return work(x).to(d)

    return Trap(f, args=lambda i: (numbers(i), (T.float64, T.float32, T.int32)[phase(i)]))


@trap
def function_argument(compile):
    @compile
    def f(x, g):
        return g(work(x))

    return Trap(f, args=lambda i: (numbers(i), (T.tanh, T.sigmoid, T.exp)[phase(i)]))


@trap
def new_function_argument_each_time(compile):
    def made(k):
        return lambda x: x * k

    @compile
    def f(x, g):
        return g(work(x))

    return Trap(f, args=lambda i: (numbers(i), made(1.0 + phase(i))))


@trap
def partial_argument(compile):
    @compile
    def f(x, g):
        return g(work(x))

    return Trap(
        f, args=lambda i: (numbers(i), functools.partial(T.clamp, max=0.1 * (1 + phase(i))))
    )


@trap
def bound_method_argument(compile):
    class Box:
        def __init__(self, k):
            self.k = k

        def scale(self, x):
            return x * self.k

    @compile
    def f(x, g):
        return g(work(x))

    return Trap(f, args=lambda i: (numbers(i), Box(1.0 + phase(i)).scale))


@trap
def module_argument(compile):
    nets = [nn.Linear(3, 3).double() for _ in range(3)]

    @compile
    def f(x, net):
        return work(net(x))

    return Trap(f, args=lambda i: (numbers(i), nets[phase(i)]))


@trap
def numpy_array_argument(compile):
    @compile
    def f(x, a):
        return work(x) * T.from_numpy(a)

    return Trap(f, args=lambda i: (numbers(i), np.arange(3.0) + i))


@trap
def numpy_array_argument_read_as_a_number(compile):
    @compile
    def f(x, a):
        return work(x) * float(a[0])

    return Trap(f, args=lambda i: (numbers(i), np.arange(3.0) + i))


@trap
def numpy_scalar_argument(compile):
    @compile
    def f(x, a):
        return work(x) * a

    return Trap(f, args=lambda i: (numbers(i), np.float64(1.0 + i)))


@trap
def numpy_integer_index(compile):
    @compile
    def f(x, k):
        return work(x)[:, k]

    return Trap(f, args=lambda i: (numbers(i), np.int64(phase(i))))


@trap
def numpy_array_written(compile):
    log = np.zeros(3)

    @compile
    def f(x, a):
        a += 1
        return work(x)

    return Trap(f, args=lambda i: (numbers(i), log), state=lambda: log)


@trap
def namespace_argument(compile):
    @compile
    def f(x, o):
        return work(x) * o.k

    return Trap(f, args=lambda i: (numbers(i), types.SimpleNamespace(k=1.0 + phase(i))))


@trap
def iterator_argument(compile):
    @compile
    def f(x, it):
        return work(x) * next(it)

    return Trap(f, args=lambda i: (numbers(i), iter([1.0 + i, 2.0])))


@trap
def generator_of_tensors_argument(compile):
    @compile
    def f(ts):
        return sum(work(t) for t in ts)

    return Trap(f, args=lambda i: ((numbers(i + k) for k in range(2)),))


@trap
def random_generator_argument(compile):
    @compile
    def f(x, g):
        return work(x) * T.rand(3, generator=g)

    return Trap(f, args=lambda i: (numbers(i), T.Generator().manual_seed(i)))


@trap
def deep_argument(compile):
    @compile
    def f(x, deep):
        return work(x) * deep[0][0][0][0][0][0]

    return Trap(f, args=lambda i: (numbers(i), [[[[[[1.0 + phase(i)]]]]]]))


@trap
def long_argument(compile):
    @compile
    def f(x, many):
        return work(x) * many[700]

    return Trap(f, args=lambda i: (numbers(i), [1.0] * 700 + [1.0 + phase(i)] * 2))


@trap
def nan_argument(compile):
    @compile
    def f(x, k):
        return work(x) * (2.0 if k != k else k)

    return Trap(f, args=lambda i: (numbers(i), float("nan") if phase(i) == 1 else 1.0))


@trap
def float_argument_decides(compile):
    @compile
    def f(x, t):
        return work(x) * t if t > 2.5 else work(x) + t

    return Trap(f, args=lambda i: (numbers(i), (1.0, 2.0, 3.0, 2.4, 2.6)[i % 5]))


@trap
def temperature(compile):
    @compile
    def f(x, t):
        return (work(x) / t).softmax(-1)

    return Trap(f, args=lambda i: (numbers(i), (1.0, 2.0, 3.0, 4.0, 0.5)[i % 5]))


@trap
def float_argument_through_math(compile):
    import math

    @compile
    def f(x, t):
        return work(x) * math.exp(t)

    return Trap(f, args=lambda i: (numbers(i), 0.1 * i))


@trap
def float_argument_as_text(compile):
    @compile
    def f(x, t):
        return work(x) * len(f"{t}")

    return Trap(f, args=lambda i: (numbers(i), (1.0, 1.25, 1.125)[phase(i)]))


@trap
def float_argument_rounded(compile):
    @compile
    def f(x, t):
        return work(x) * round(t) + int(t) + (t // 1) + (t % 1) + divmod(t, 2)[0]

    return Trap(f, args=lambda i: (numbers(i), 0.6 + 0.37 * i))


@trap
def float_argument_kept(compile):
    log = []

    @compile
    def f(x, t):
        log.append(t)
        return work(x) * t

    return Trap(f, args=lambda i: (numbers(i), 0.1 * i), state=lambda: log)


@trap
def float_argument_returned(compile):
    @compile
    def f(x, t):
        return work(x) * t, t, t + 1, {"t": t}

    return Trap(f, args=lambda i: (numbers(i), 0.1 * i))


@trap
def float_argument_max(compile):
    @compile
    def f(x, t):
        return work(x) * max(t, 0.35) + min(t, 0.45) + abs(t - 0.5)

    return Trap(f, args=lambda i: (numbers(i), 0.1 * i))


@trap
def float_argument_as_a_key(compile):
    table = {0.0: 1.0, 0.5: 2.0, 1.0: 3.0}

    @compile
    def f(x, t):
        return work(x) * table[t]

    return Trap(f, args=lambda i: (numbers(i), (0.0, 0.5, 1.0)[i % 3]))


@trap
def int_argument_counts(compile):
    @compile
    def f(x, i):
        return work(x) * (2.0 if i % 4 == 0 else 1.0) + i

    return Trap(f, args=lambda i: (numbers(i), i))


@trap
def keyword_arguments(compile):
    @compile
    def f(x, *, k=1.0, **others):
        return work(x) * k * len(others)

    def called(x, i):
        return f(x, k=1.0 + phase(i), **{f"o{j}": j for j in range(phase(i) + 1)})

    return Trap(called, args=lambda i: (numbers(i), i))


@trap
def other_shapes(compile):
    @compile
    def f(x):
        return work(x) * x.shape[0] / x.numel()

    return Trap(f, args=lambda i: (numbers(i, 1 + i % 3, 3),))


@trap
def empty_tensor(compile):
    @compile
    def f(x):
        return work(x).sum() + x.numel()

    def args(i):
        return (T.zeros(0, 3, dtype=T.float64) if phase(i) == 1 else numbers(i),)

    return Trap(f, args=args)


@trap
def other_dtypes(compile):
    @compile
    def f(x):
        return work(x) * (2.0 if x.dtype == T.float32 else 1.0)

    def args(i):
        return (numbers(i).to((T.float64, T.float32, T.float16)[phase(i)]),)

    return Trap(f, args=args)


@trap
def arguments_swapped(compile):
    a, b = numbers(1), numbers(2)

    @compile
    def f(x, y):
        return work(x) - y * (2.0 if x is a else 1.0)

    return Trap(f, args=lambda i: (b, a) if phase(i) == 1 else (a, b))


@trap
def none_or_a_tensor(compile):
    @compile
    def f(x, mask=None):
        return work(x) if mask is None else work(x) * mask

    return Trap(f, args=lambda i: (numbers(i), None if phase(i) != 1 else numbers(i + 1)))
