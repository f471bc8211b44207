"""Traps: NumPy arrays among the arguments, which are inputs as long as nobody looks at them."""

from __future__ import annotations

import collections
from typing import Any

import numpy as np
from harness import Trap, numbers, phase, trap, work

import tapegrad as T

TABLE = np.arange(12.0).reshape(6, 2)
ORDER = np.arange(6)


def rows(i: int) -> Any:
    """Another index in each call from the second on."""
    return np.random.default_rng(i).integers(-5, 6, 4)


def with_rows(i: int) -> tuple[Any, ...]:
    return numbers(1, 6, 3), rows(i)


def plain(name: str, args: Any = with_rows) -> Any:
    """A trap that is a function of its arguments, and nothing else."""

    def register(function: Any) -> Any:
        def build(compile: Any) -> Trap:
            return Trap(compile(function), args=args)

        build.__name__, build.__module__ = name, __name__
        return trap(build)

    return register


def shaped(kind: Any, *shape: int) -> Any:
    def args(i: int) -> tuple[Any, ...]:
        return numbers(1, 6, 3), np.random.default_rng(i).uniform(0, 5, shape).astype(kind)

    return args


plain("an_index")(lambda x, k: work(x[k]))
plain("an_index_among_others")(lambda x, k: work(x[k, 1:]) + work(x)[k % 3 if k is None else k, 1:])
plain("part_of_an_index")(lambda x, k: work(x)[k[1:3]] + work(x)[k[::2]])
plain("two_indices")(lambda x, k: work(x)[k, T.from_numpy(k) % 3])
plain("its_shape")(lambda x, k: work(x)[: k.shape[0]] * len(k) + k.ndim + k.size)
plain("its_sum")(lambda x, k: work(x) * int(k.sum()))
plain("one_element")(lambda x, k: work(x)[k[0]] + k[1])
plain("a_loop_over_it")(lambda x, k: sum([work(x)[j] for j in k]))
plain("a_comparison")(lambda x, k: work(x) * 2 if (k > 0).all() else work(x))
plain("a_number_of_it")(lambda x, k: work(x) * k.max().item())
plain("sorted_by_numpy")(lambda x, k: work(x)[np.sort(k)])
plain("another_array_by_it")(lambda x, k: work(x) * TABLE[k % 6][0, 1] + TABLE[k][1, 0])
plain("a_list_of_it")(lambda x, k: work(x)[k.tolist()])
plain("a_text_of_it")(lambda x, k: work(x) * len(f"{k}"))
plain("unpacked")(lambda x, k: work(x)[k[0]] * (lambda a, *b: a)(*k))
plain("in_a_list")(lambda x, k: [work(x)[each] for each in [k, k[1:]]])
plain("in_a_dict")(lambda x, k: {"k": work(x)[{"a": k}["a"]]})
plain("returned")(lambda x, k: (work(x), k))
plain("a_part_returned")(lambda x, k: (work(x), k[1:3], {"all": k}))
plain("repeated")(lambda x, k: work(x)[np.repeat(k, 2)])
plain("by_ops")(lambda x, k: work(x).index_select(0, T.from_numpy(k) % 6))
plain("a_dtype")(lambda x, k: work(x) * (2 if k.dtype == np.int64 else 3))
plain("transposed")(lambda x, k: work(x)[k.T] * float(k.flat[0]))
plain("its_address")(lambda x, k: work(x) * (T.from_numpy(k).data_ptr() % 8 + 1))
plain("its_version")(lambda x, k: work(x) * (T.from_numpy(k)._version + 1))

plain("floats", shaped(np.float64, 6, 3))(lambda x, a: work(x) * T.from_numpy(a))
plain("floats_copied", shaped(np.float64, 6, 3))(lambda x, a: work(x) * T.tensor(a).mul_(2))
plain("as_floats", shaped(np.int32, 6, 3))(lambda x, a: work(x) + T.tensor(a, dtype=T.float64))
plain("as_tensor", shaped(np.float32, 6, 3))(lambda x, a: x + T.as_tensor(a, dtype=T.float64).sin())
plain("asarray", shaped(np.float32, 6, 3))(lambda x, a: work(x) + T.asarray(a, copy=True).exp())
plain("bytes", shaped(np.uint8, 6, 3))(lambda x, a: work(x) * T.from_numpy(a))
plain("truths", shaped(bool, 6))(lambda x, a: work(x)[a])
plain("small_places", shaped(np.int32, 4))(lambda x, a: work(x)[a])
plain("no_dimensions", shaped(np.float64))(lambda x, a: work(x) * T.from_numpy(a))
plain("complex_numbers", shaped(np.complex64, 6, 3))(lambda x, a: work(x) * T.from_numpy(a))
plain("nothing_in_it", shaped(np.int64, 0))(lambda x, a: (work(x)[a], work(x)))
plain("one_number", lambda i: (numbers(1, 6, 3), np.float64(i)))(lambda x, a: work(x) * a)
plain("a_place", lambda i: (numbers(1, 6, 3), np.int64(i % 6)))(lambda x, a: work(x)[a])
plain("strided", lambda i: (numbers(1, 6, 3), np.arange(i, i + 8)[::2] % 6))(
    lambda x, k: work(x)[k] * T.from_numpy(k).stride(0)
)
plain("columns", lambda i: (numbers(1, 6, 3), np.arange(i, i + 18.0).reshape(3, 6).T))(
    lambda x, a: work(x) * T.from_numpy(a) * T.from_numpy(a).stride(0)
)
plain("other_bytes", lambda i: (numbers(1, 6, 3), np.arange(6).astype(">i8")))(
    lambda x, k: work(x) * int(k[1])
)
plain("twice_the_same", lambda i: (rows(i), None))(
    lambda k, _: work(T.from_numpy(k).double()) * (2 if k is k else 1)
)


def overlapping(i: int) -> tuple[Any, ...]:
    a = rows(i) % 6
    return a, a if phase(i) == 1 else a[:], numbers(1, 6, 3)


@plain("one_array_twice", overlapping)
def one_array_twice(a: Any, b: Any, x: Any) -> Any:
    T.from_numpy(a).add_(1).remainder_(6)
    return work(x)[b] * (2 if a is b else 1)


@plain("written", lambda i: (rows(i), numbers(1, 6, 3)))
def written(k: Any, x: Any) -> Any:
    k[0] = 2
    return work(x)[k]


@plain("written_by_a_tensor", lambda i: (rows(i), numbers(1, 6, 3)))
def written_by_a_tensor(k: Any, x: Any) -> Any:
    T.from_numpy(k).clamp_(0, 3)
    return work(x)[k]


@plain("written_by_numpy", lambda i: (rows(i), numbers(1, 6, 3)))
def written_by_numpy(k: Any, x: Any) -> Any:
    np.clip(k, 0, 3, out=k)
    return work(x)[k]


@plain("a_tensor_on_it")
def a_tensor_on_it(x: Any, k: Any) -> Any:
    t = T.from_numpy(k)
    y = work(x)[t]
    return y, t[0] * 2


@trap
def a_tensor_with_the_same_memory(compile):
    @compile
    def f(x, t, k):
        t.add_(1).remainder_(6)
        return work(x)[k]

    def args(i):
        k = rows(i) % 6
        return numbers(1, 6, 3), T.from_numpy(k), k

    return Trap(f, args=args)


@trap
def also_a_global(compile):
    @compile
    def f(x, k):
        ORDER[0] = 3
        return work(x)[k] * (1 + (k is ORDER))

    def args(i):
        ORDER[:] = np.random.default_rng(i).permutation(6)
        return numbers(1, 6, 3), ORDER if phase(i) == 1 else ORDER[:4]

    return Trap(f, args=args, state=lambda: ORDER.copy())


@trap
def kept_in_a_list(compile):
    kept: list[Any] = []
    given: list[Any] = []

    @compile
    def f(x, k):
        kept.append(k)
        return work(x)[k]

    def args(i):
        given.append(rows(i))
        return numbers(1, 6, 3), given[-1]

    state = lambda: ([any(a is b for b in given) for a in kept], kept)  # noqa: E731
    return Trap(f, args=args, state=state)


@trap
def kept_in_an_object(compile):
    class Last:
        rows: Any = None

    last = Last()

    @compile
    def f(x, k):
        y = work(x)[k]
        last.rows = k
        return y

    return Trap(f, args=with_rows, state=lambda: last.rows)


@trap
def the_place_of_an_error(compile):
    @compile
    def f(x, k):
        return work(x)[k]

    def args(i):
        return numbers(1, 6, 3), rows(i) + (7 if phase(i) == 1 else 0)

    return Trap(f, args=args)


@trap
def a_training_step_by_rows(compile):
    net = T.nn.Linear(3, 2).double()
    opt = T.optim.Adam(net.parameters(), lr=0.1)
    data, wanted = numbers(1, 6, 3), T.tensor([0, 1, 1, 0, 1, 0])

    @compile
    def f(k):
        opt.zero_grad()
        loss = T.nn.functional.cross_entropy(net(data[k]), wanted[k])
        loss.backward()
        opt.step()
        return loss

    return Trap(f, args=lambda i: (rows(i),), state=lambda: list(net.parameters()))


@trap
def a_batch_of_arrays(compile):
    batch = collections.namedtuple("batch", "x y")
    w = numbers(2, 3, 2).requires_grad_()

    @compile
    def f(given):
        w.grad = None
        x, y = T.from_numpy(given.x), T.as_tensor(given.y)
        loss = (x @ w - y).pow(2).mean()
        loss.backward()
        return loss

    def args(i):
        drawn = np.random.default_rng(i)
        return (batch(drawn.uniform(size=(4, 3)), drawn.uniform(size=(4, 2))),)

    return Trap(f, args=args, state=lambda: w)


@trap
def a_new_object_with_it(compile):
    class Rows:
        def __init__(self, k):
            self.k = k

        def of(self, x):
            return x[self.k]

    @compile
    def f(x, k):
        return Rows(k).of(work(x))

    return Trap(f, args=with_rows)
