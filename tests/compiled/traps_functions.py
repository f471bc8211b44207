"""Traps: functions that are patched, or that keep state of their own."""

# ruff: noqa: N801, N805, N806  (small classes and constants of one trap)

from __future__ import annotations

import functools
import operator
import sys

from harness import Trap, numbers, phase, trap, work

import tapegrad as T
from tapegrad import nn
from tapegrad.nn import functional as F

THIS = sys.modules[__name__]


# --- patched functions and methods


@trap
def patched_forward_of_a_class(compile):
    class Net(nn.Module):
        def forward(self, x):
            return work(x)

    plain = Net.forward
    net = Net()

    def before(i):
        Net.forward = (lambda self, x: work(x) * 2) if phase(i) == 1 else plain

    return Trap(compile(net), before)


@trap
def patched_forward_of_an_inner_class(compile):
    class Inner(nn.Module):
        def forward(self, x):
            return work(x)

    plain = Inner.forward
    net = nn.Sequential(Inner(), nn.Tanh())

    def before(i):
        Inner.forward = (lambda self, x: work(x) * 2) if phase(i) == 1 else plain

    return Trap(compile(net), before)


@trap
def patched_forward_of_an_instance(compile):
    net = nn.Sequential(nn.Tanh(), nn.Sigmoid(), nn.Softplus())

    def before(i):
        if phase(i) == 1:
            net[0].forward = lambda x: work(x) * 2
        else:
            vars(net[0]).pop("forward", None)

    return Trap(compile(net), before)


@trap
def patched_step(compile):
    w = nn.Parameter(numbers(0))
    opt = T.optim.SGD([w], lr=0.1, momentum=0.5)
    plain = opt.step

    @compile
    def f(x):
        opt.zero_grad()
        loss = (work(x) * w).sum()
        loss.backward()
        opt.step()
        return loss.detach()

    def before(i):
        opt.step = (lambda: None) if phase(i) == 1 else plain

    return Trap(f, before, state=lambda: w)


@trap
def patched_step_of_the_class(compile):
    class Mine(T.optim.SGD):
        pass

    w = nn.Parameter(numbers(0))
    opt = Mine([w], lr=0.1)

    @compile
    def f(x):
        opt.zero_grad()
        loss = (work(x) * w).sum()
        loss.backward()
        opt.step()
        return loss.detach()

    def before(i):
        if i == 5:
            Mine.step = lambda self, closure=None: None

    return Trap(f, before, state=lambda: w)


@trap
def patched_functional(compile):
    plain = F.relu

    @compile
    def f(x):
        return F.relu(work(x))

    def before(i):
        F.relu = (lambda x: x * 3) if phase(i) == 1 else plain

    def undo():
        F.relu = plain

    return Trap(f, before, undo=undo)


@trap
def patched_tensor_method(compile):
    plain = T.Tensor.__dict__.get("softplus_like")

    @compile
    def f(x):
        return work(x).softplus_like()

    def before(i):
        k = 1.0 + phase(i)
        T.Tensor.softplus_like = lambda self: self * k

    def undo():
        del T.Tensor.softplus_like

    assert plain is None
    return Trap(f, before, undo=undo)


@trap
def patched_op_of_the_library(compile):
    plain = T.sin

    @compile
    def f(x):
        return work(T.sin(x))

    def before(i):
        T.sin = T.cos if phase(i) == 1 else plain

    def undo():
        T.sin = plain

    return Trap(f, before, undo=undo)


@trap
def patched_method_of_a_plain_class(compile):
    class Box:
        def k(self):
            return 1.0

    box = Box()

    @compile
    def f(x):
        return work(x) * box.k()

    def before(i):
        value = 1.0 + phase(i)
        Box.k = lambda self: value

    return Trap(f, before)


@trap
def patched_static_method(compile):
    class Box:
        @staticmethod
        def k():
            return 1.0

    @compile
    def f(x):
        return work(x) * Box.k()

    def before(i):
        value = 1.0 + phase(i)
        Box.k = staticmethod(lambda: value)

    return Trap(f, before)


@trap
def patched_global_function(compile):
    plain = THIS.work

    @compile
    def f(x):
        return work(x) * 2

    def before(i):
        THIS.work = (lambda x: plain(x) + 1) if phase(i) == 1 else plain

    def undo():
        THIS.work = plain

    return Trap(f, before, undo=undo)


@trap
def patched_math(compile):
    import math

    plain = math.sqrt

    @compile
    def f(x):
        return work(x) * math.sqrt(4.0)

    def before(i):
        math.sqrt = (lambda v: 7.0) if phase(i) == 1 else plain

    def undo():
        math.sqrt = plain

    return Trap(f, before, undo=undo)


@trap
def patched_builtin(compile):
    import builtins

    plain = builtins.len

    @compile
    def f(x):
        return work(x) * len([1, 2])

    def before(i):
        if phase(i) == 1:
            THIS.len = lambda v: 9
        else:
            vars(THIS).pop("len", None)

    def undo():
        vars(THIS).pop("len", None)

    assert plain
    return Trap(f, before, undo=undo)


# --- functions


@trap
def attribute_of_a_function(compile):
    def helper(x):
        return x * helper.k

    helper.k = 1.0

    @compile
    def f(x):
        return helper(work(x))

    def before(i):
        helper.k = 1.0 + phase(i)

    return Trap(f, before)


@trap
def attribute_of_the_function_itself(compile):
    def f(x):
        return work(x) * f.k

    f.k = 1.0
    made = compile(f)

    def before(i):
        f.k = 1.0 + phase(i)

    return Trap(made, before)


@trap
def attribute_of_the_compiled_function(compile):
    @compile
    def f(x):
        return work(x) * f.k

    def before(i):
        f.k = 1.0 + phase(i)

    return Trap(f, before)


@trap
def defaults_of_a_helper(compile):
    def helper(x, k=1.0):
        return x * k

    @compile
    def f(x):
        return helper(work(x))

    def before(i):
        helper.__defaults__ = (1.0 + phase(i),)

    return Trap(f, before)


@trap
def keyword_defaults_of_a_helper(compile):
    def helper(x, *, k=1.0):
        return x * k

    @compile
    def f(x):
        return helper(work(x))

    def before(i):
        helper.__kwdefaults__["k"] = 1.0 + phase(i)

    return Trap(f, before)


@trap
def defaults_of_the_function(compile):
    def f(x, k=1.0):
        return work(x) * k

    made = compile(f)

    def before(i):
        f.__defaults__ = (1.0 + phase(i),)

    return Trap(made, before)


@trap
def mutable_default(compile):
    kept = [1.0]

    @compile
    def f(x, k=kept):
        return work(x) * k[0]

    def before(i):
        kept[0] = 1.0 + phase(i)

    return Trap(f, before)


@trap
def code_of_a_helper(compile):
    def helper(x):
        return x * 1.0

    def other(x):
        return x * 2.0

    first = helper.__code__

    @compile
    def f(x):
        return helper(work(x))

    def before(i):
        helper.__code__ = other.__code__ if phase(i) == 1 else first

    return Trap(f, before)


@trap
def closure_of_a_helper(compile):
    k = 1.0

    def helper(x):
        return x * k

    @compile
    def f(x):
        return helper(work(x))

    def before(i):
        nonlocal k
        k = 1.0 + phase(i)

    return Trap(f, before)


@trap
def closure_variable(compile):
    k = 1.0

    @compile
    def f(x):
        return work(x) * k

    def before(i):
        nonlocal k
        k = 1.0 + phase(i)

    return Trap(f, before)


@trap
def lru_cache_cleared(compile):
    state = [1.0]

    @functools.lru_cache
    def k():
        return state[0]

    @compile
    def f(x):
        return work(x) * k()

    def before(i):
        state[0] = 1.0 + phase(i)
        if i in (5, 8):
            k.cache_clear()

    return Trap(f, before)


@trap
def lru_cache_counts(compile):
    @functools.lru_cache
    def k(a):
        return a * 2.0

    @compile
    def f(x):
        return work(x) * k(2.0)

    return Trap(f, state=lambda: k.cache_info().hits)


@trap
def cached_property_deleted(compile):
    class Box:
        level = 1.0

        @functools.cached_property
        def k(self):
            return self.level

    box = Box()

    @compile
    def f(x):
        return work(x) * box.k

    def before(i):
        box.level = 1.0 + phase(i)
        if i in (5, 8):
            vars(box).pop("k", None)

    return Trap(f, before)


@trap
def single_dispatch(compile):
    @functools.singledispatch
    def k(v):
        return 1.0

    @compile
    def f(x):
        return work(x) * k(1)

    def before(i):
        if i == 5:
            k.register(int, lambda v: 2.0)

    return Trap(f, before)


@trap
def function_in_a_dict(compile):
    ops = {"act": T.tanh}

    @compile
    def f(x):
        return ops["act"](work(x))

    def before(i):
        ops["act"] = (T.tanh, T.sigmoid, T.relu)[phase(i)]

    return Trap(f, before)


@trap
def lambda_replaced_by_the_same_code(compile):
    """The same line makes each function: only what is around it differs."""
    box = [None]

    @compile
    def f(x):
        return box[0](work(x))

    def made(k):
        return lambda x: x * k

    def before(i):
        box[0] = made(1.0 + phase(i))

    return Trap(f, before)


@trap
def partial_replaced(compile):
    box = [None]

    @compile
    def f(x):
        return box[0](work(x))

    def before(i):
        box[0] = functools.partial(T.mul, other=1.0 + phase(i))

    return Trap(f, before)


@trap
def decorator_with_state(compile):
    level = {"k": 1.0}

    def scaled(function):
        @functools.wraps(function)
        def wrapper(x):
            return function(x) * level["k"]

        return wrapper

    @compile
    @scaled
    def f(x):
        return work(x)

    def before(i):
        level["k"] = 1.0 + phase(i)

    return Trap(f, before)


@trap
def map_and_filter(compile):
    values = [1.0, 2.0, 3.0]

    @compile
    def f(x):
        return work(x) * sum(map(abs, filter(lambda v: v > 1, values)))

    def before(i):
        values[0] = 1.0 + phase(i)

    return Trap(f, before)


@trap
def reduce_over_state(compile):
    values = [1.0, 2.0, 3.0]

    @compile
    def f(x):
        return work(x) * functools.reduce(operator.mul, values)

    def before(i):
        values[0] = 1.0 + phase(i)

    return Trap(f, before)


@trap
def format_of_state(compile):
    class Named:
        k = "1"

        def __str__(self):
            return self.k

        __format__ = object.__format__

    named = Named()

    @compile
    def f(x):
        return work(x) * float(f"{named}")

    def before(i):
        named.k = str(1 + phase(i))

    return Trap(f, before)


@trap
def eval_of_a_name(compile):
    k = [1.0]

    @compile
    def f(x):
        return work(x) * eval("k[0]", {"k": k})

    def before(i):
        k[0] = 1.0 + phase(i)

    return Trap(f, before)
