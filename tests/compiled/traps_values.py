"""Traps: values of tensors that Python looks at."""

# ruff: noqa: N801

from __future__ import annotations

import math

from harness import Trap, numbers, phase, trap, work

import tapegrad as T


@trap
def while_loop_on_a_value(compile):
    @compile
    def f(x):
        n = 0
        while x.abs().sum() > 1:
            x = x / 2
            n += 1
        return work(x), n

    return Trap(f, args=lambda i: (numbers(i) * (1 + phase(i)),))


@trap
def branch_on_a_value(compile):
    @compile
    def f(x):
        if x.sum() > 0:
            return work(x)
        return work(x) * 2 - 1

    return Trap(f, args=lambda i: (numbers(i) * (-1) ** i,))


@trap
def branch_on_an_item(compile):
    @compile
    def f(x):
        if x.sum().item() > 0:
            return work(x)
        return work(x) * 2 - 1

    return Trap(f, args=lambda i: (numbers(i) * (-1) ** i,))


@trap
def item_in_arithmetic(compile):
    @compile
    def f(x):
        m = x.max().item()
        return work(x) * m + math.floor(m * 10)

    return Trap(f)


@trap
def float_of_a_tensor(compile):
    @compile
    def f(x):
        return work(x) * float(x[0, 0]) * int(x.abs().sum() * 10)

    return Trap(f)


@trap
def tolist_of_a_tensor(compile):
    @compile
    def f(x):
        return work(x) * sum(x.flatten().tolist())

    return Trap(f)


@trap
def numpy_of_a_tensor(compile):
    @compile
    def f(x):
        return work(x) * float(x.numpy().mean())

    return Trap(f)


@trap
def text_of_a_tensor(compile):
    @compile
    def f(x):
        return work(x), f"{x.sum():.3f}", str(x.shape), repr(x.mean())

    return Trap(f)


@trap
def index_by_a_tensor(compile):
    table = [1.0, 2.0, 3.0]

    @compile
    def f(x, k):
        return work(x) * table[k]

    return Trap(f, args=lambda i: (numbers(i), T.tensor(i % 3)))


@trap
def range_of_a_tensor(compile):
    @compile
    def f(x, k):
        for _ in range(k):
            x = work(x)
        return x

    return Trap(f, args=lambda i: (numbers(i), T.tensor(i % 3)))


@trap
def membership_of_a_tensor(compile):
    @compile
    def f(x):
        return work(x) * (2.0 if 0.5 in x.round(decimals=1) else 1.0)

    return Trap(f)


@trap
def equality_of_tensors(compile):
    t = numbers(0)

    @compile
    def f(x):
        return work(x) * (2.0 if T.equal(x, t) else 1.0)

    return Trap(f, args=lambda i: (numbers(0 if phase(i) == 0 else 9),))


@trap
def allclose_of_tensors(compile):
    t = numbers(0)

    @compile
    def f(x):
        return work(x) * (2.0 if T.allclose(x, t) else 1.0)

    return Trap(f, args=lambda i: (numbers(0 if phase(i) == 0 else 9),))


@trap
def sizes_by_value(compile):
    @compile
    def f(x):
        return work(x[x > 0]), x.nonzero(), x.round().unique()

    return Trap(f, args=lambda i: (numbers(i * 5),))


@trap
def tensor_made_of_numbers(compile):
    values = [1.0, 2.0, 3.0]

    @compile
    def f(x):
        return work(x) * T.tensor(values)

    def before(i):
        values[0] = 1.0 + phase(i)

    return Trap(f, before)


@trap
def tensor_made_of_numbers_of_the_call(compile):
    @compile
    def f(x, k):
        return work(x) * T.tensor([k, 2 * k, 1.0]) + T.arange(3) * k + T.full((3,), k)

    return Trap(f, args=lambda i: (numbers(i), 0.1 * i))


@trap
def tensor_made_of_items(compile):
    @compile
    def f(x):
        return work(x) * T.tensor([x[0, 0].item(), x[0, 1].item(), 1.0])

    return Trap(f)


@trap
def tensor_made_of_tensors(compile):
    @compile
    def f(x):
        return work(x) * T.tensor([x[0, 0], x[0, 1], 1.0])

    return Trap(f)
