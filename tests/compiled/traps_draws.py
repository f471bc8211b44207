"""Traps: random numbers of several generators, and settings that a call leaves changed."""

# ruff: noqa: N801

from __future__ import annotations

import random

import numpy as np
from harness import Trap, numbers, trap, work

import tapegrad as T
from tapegrad import nn


@trap
def random_random(compile):
    @compile
    def f(x):
        return work(x) * random.random()

    return Trap(f)


@trap
def own_random(compile):
    rng = random.Random(4)

    @compile
    def f(x):
        return work(x) * rng.random()

    return Trap(f, state=lambda: hash(rng.getstate()))


@trap
def own_random_decides(compile):
    rng = random.Random(4)

    @compile
    def f(x):
        return work(x) if rng.random() < 0.8 else work(x) * 2

    return Trap(f, state=lambda: hash(rng.getstate()))


@trap
def own_random_rarely_decides(compile):
    rng = random.Random(4)

    @compile
    def f(x):
        return work(x) * 2 if rng.random() < 0.02 else work(x)

    return Trap(f, state=lambda: hash(rng.getstate()))


@trap
def kept_random(compile):
    draw = random.Random(4).random

    @compile
    def f(x):
        return work(x) * draw()

    return Trap(f)


@trap
def random_choice_of_a_list(compile):
    rng = random.Random(4)

    @compile
    def f(x):
        return rng.choice([T.tanh, T.sigmoid, T.sin])(work(x))

    return Trap(f, state=lambda: hash(rng.getstate()))


@trap
def random_shuffle(compile):
    rng, order = random.Random(4), [1.0, 2.0, 3.0]

    @compile
    def f(x):
        rng.shuffle(order)
        return work(x) * order[0]

    return Trap(f, state=lambda: order)


@trap
def numpy_generator(compile):
    rng = np.random.default_rng(4)

    @compile
    def f(x):
        return work(x) * rng.random()

    return Trap(f, state=lambda: str(rng.bit_generator.state))


@trap
def numpy_generator_as_a_tensor(compile):
    rng = np.random.default_rng(4)

    @compile
    def f(x):
        return work(x) * T.from_numpy(rng.standard_normal((2, 3)))

    return Trap(f, state=lambda: str(rng.bit_generator.state))


@trap
def numpy_generator_decides(compile):
    rng = np.random.default_rng(4)

    @compile
    def f(x):
        return work(x) if rng.integers(0, 10) else work(x) * 2

    return Trap(f, state=lambda: str(rng.bit_generator.state))


@trap
def numpy_generator_that_nobody_uses(compile):
    rng = np.random.default_rng(4)

    @compile
    def f(x):
        rng.integers(0, 10)
        return work(x)

    return Trap(f, state=lambda: str(rng.bit_generator.state))


@trap
def numpy_random_state(compile):
    rng = np.random.RandomState(4)

    @compile
    def f(x):
        return work(x) * rng.rand()

    return Trap(f, state=lambda: rng.get_state()[2])


@trap
def numpy_global_random(compile):
    @compile
    def f(x):
        return work(x) * float(np.random.rand())

    return Trap(f)


@trap
def numpy_permutation(compile):
    rng = np.random.default_rng(4)

    @compile
    def f(x):
        return work(x)[:, rng.permutation(3)]

    return Trap(f)


@trap
def own_generator_of_tensors(compile):
    g = T.Generator().manual_seed(4)

    @compile
    def f(x):
        return work(x) * T.rand(3, generator=g)

    return Trap(f, state=lambda: g.get_state())


@trap
def own_generator_reseeded(compile):
    g = T.Generator()

    @compile
    def f(x):
        g.manual_seed(4)
        return work(x) * T.rand(3, generator=g)

    return Trap(f, state=lambda: g.get_state())


@trap
def manual_seed_inside(compile):
    @compile
    def f(x):
        T.manual_seed(3)
        return work(x) * T.rand(3)

    return Trap(f)


@trap
def state_of_the_generator_kept_and_put_back(compile):
    @compile
    def f(x):
        state = T.get_rng_state()
        a = T.rand(3)
        T.set_rng_state(state)
        return work(x) * a + T.rand(3)

    return Trap(f)


@trap
def fork_rng(compile):
    @compile
    def f(x):
        with T.random.fork_rng():
            noise = T.rand(3)
        return work(x) * noise + T.rand(3)

    return Trap(f)


@trap
def fork_rng_with_a_seed(compile):
    @compile
    def f(x):
        with T.random.fork_rng():
            T.manual_seed(9)
            noise = T.rand(3)
        return work(x) * noise + T.rand(3)

    return Trap(f)


@trap
def fork_rng_with_an_unused_result(compile):
    kept = []

    @compile
    def f(x):
        with T.random.fork_rng():
            T.rand(2)
        return work(x)

    return Trap(f, lambda i: kept.append(T.rand(100 + i)))


@trap
def randperm_and_randint(compile):
    @compile
    def f(x):
        return work(x)[:, T.randperm(3)] * T.randint(1, 5, (3,))

    return Trap(f)


@trap
def default_dtype_set(compile):
    @compile
    def f(x):
        T.set_default_dtype(T.float64)
        return work(x) * T.ones(3)

    return Trap(f, lambda i: T.set_default_dtype(T.float32))


@trap
def default_dtype_toggled(compile):
    @compile
    def f(x):
        wide = T.get_default_dtype() == T.float64
        T.set_default_dtype(T.float32 if wide else T.float64)
        return work(x) * T.ones(3)

    return Trap(f)


@trap
def grad_mode_left_off(compile):
    p = nn.Parameter(numbers(1))

    @compile
    def f(x):
        T.set_grad_enabled(False)
        return work(x) * p

    return Trap(f, lambda i: T.set_grad_enabled(True), undo=lambda: T.set_grad_enabled(True))


@trap
def number_of_threads_set(compile):
    n = T.get_num_threads()

    @compile
    def f(x):
        T.set_num_threads(n + 1)
        return work(x)

    def undo():
        T.set_num_threads(n)

    return Trap(f, lambda i: undo(), state=T.get_num_threads, undo=undo)


@trap
def normal_by_parameters(compile):
    """The result has a history, through which zeros go back."""
    mean = nn.Parameter(numbers(1))
    std = nn.Parameter(numbers(2).abs())

    @compile
    def f(x):
        return T.normal(work(x) * mean, std.exp()).sin()

    def before(i):
        mean.grad = std.grad = None

    return Trap(f, before, state=lambda: (mean, std))
