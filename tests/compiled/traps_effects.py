"""Traps: what a function does besides computing, which each call has to do."""

# ruff: noqa: N801

from __future__ import annotations

import collections
import contextlib
import itertools
import sys
import types
import warnings

import numpy as np
from harness import Trap, numbers, trap, work

import tapegrad as T
from tapegrad import nn
from tapegrad.nn import functional as F

THIS = sys.modules[__name__]
COUNT = 0


@trap
def counter_in_slots(compile):
    class Stats:
        __slots__ = ("n",)

    s = Stats()
    s.n = 0

    @compile
    def f(x):
        s.n += 1
        return work(x)

    return Trap(f, state=lambda: s.n)


@trap
def counter_in_slots_of_a_method(compile):
    class Stats:
        __slots__ = ("n",)

        def __init__(self):
            self.n = 0

        def seen(self):
            self.n += 1

    s = Stats()

    @compile
    def f(x):
        s.seen()
        return work(x)

    return Trap(f, state=lambda: s.n)


@trap
def counter_on_the_function(compile):
    def f(x):
        f.calls += 1
        return work(x)

    f.calls = 0
    return Trap(compile(f), state=lambda: f.calls)


@trap
def counter_on_the_compiled_function(compile):
    @compile
    def f(x):
        f.calls += 1
        return work(x)

    f.calls = 0
    return Trap(f, state=lambda: f.calls)


@trap
def counter_on_a_helper(compile):
    def helper(x):
        helper.calls += 1
        return work(x)

    helper.calls = 0

    @compile
    def f(x):
        return helper(x)

    return Trap(f, state=lambda: helper.calls)


@trap
def counter_in_a_numpy_array(compile):
    stats = np.zeros(2)

    @compile
    def f(x):
        stats[0] += 1
        return work(x)

    return Trap(f, state=lambda: stats)


@trap
def numpy_array_by_a_function(compile):
    stats = np.zeros(2)

    @compile
    def f(x):
        np.add(stats, 1, out=stats)
        return work(x)

    return Trap(f, state=lambda: stats)


@trap
def numpy_array_by_a_method(compile):
    stats = np.array([3.0, 1.0, 2.0])

    @compile
    def f(x):
        out = work(x) * float(stats[0])
        stats.sort()
        stats.fill(stats[0] + 1)
        return out

    return Trap(f, state=lambda: stats)


@trap
def numpy_copyto(compile):
    kept = np.zeros((2, 3))

    @compile
    def f(x):
        out = work(x)
        np.copyto(kept, out.detach().numpy())
        return out

    return Trap(f, state=lambda: kept)


@trap
def global_counter(compile):
    THIS.COUNT = 0

    @compile
    def f(x):
        global COUNT
        COUNT += 1
        return work(x)

    return Trap(f, state=lambda: COUNT)


@trap
def global_counter_by_name(compile):
    THIS.COUNT = 0

    @compile
    def f(x):
        globals()["COUNT"] += 1
        return work(x)

    return Trap(f, state=lambda: COUNT)


@trap
def nonlocal_counter(compile):
    n = 0

    @compile
    def f(x):
        nonlocal n
        n += 1
        return work(x)

    return Trap(f, state=lambda: n)


@trap
def attribute_counter(compile):
    box = types.SimpleNamespace(n=0)

    @compile
    def f(x):
        box.n += 1
        return work(x)

    return Trap(f, state=lambda: box.n)


@trap
def attribute_by_setattr(compile):
    box = types.SimpleNamespace(n=0)

    @compile
    def f(x):
        setattr(box, "n", getattr(box, "n") + 1)  # noqa: B009, B010
        return work(x)

    return Trap(f, state=lambda: box.n)


@trap
def attribute_by_vars(compile):
    box = types.SimpleNamespace(n=0)

    @compile
    def f(x):
        vars(box).update(n=box.n + 1)
        return work(x)

    return Trap(f, state=lambda: box.n)


@trap
def attribute_by_object_setattr(compile):
    box = types.SimpleNamespace(n=0)

    @compile
    def f(x):
        object.__setattr__(box, "n", box.n + 1)
        return work(x)

    return Trap(f, state=lambda: box.n)


@trap
def class_attribute_counter(compile):
    class Stats:
        n = 0

    @compile
    def f(x):
        Stats.n += 1
        return work(x)

    return Trap(f, state=lambda: Stats.n)


@trap
def class_method_counter(compile):
    class Stats:
        n = 0

        @classmethod
        def seen(cls):
            cls.n += 1

    @compile
    def f(x):
        Stats.seen()
        return work(x)

    return Trap(f, state=lambda: Stats.n)


@trap
def property_setter(compile):
    class Box:
        def __init__(self):
            self.log = []

        @property
        def k(self):
            return len(self.log)

        @k.setter
        def k(self, value):
            self.log.append(value)

    box = Box()

    @compile
    def f(x):
        box.k = 3
        return work(x)

    return Trap(f, state=lambda: box.log)


@trap
def property_that_counts(compile):
    class Box:
        n = 0

        @property
        def k(self):
            self.n += 1
            return 2.0

    box = Box()

    @compile
    def f(x):
        return work(x) * box.k

    return Trap(f, state=lambda: box.n)


@trap
def object_that_counts_when_called(compile):
    class Scale:
        n = 0

        def __call__(self, x):
            self.n += 1
            return x * 2

    scale = Scale()

    @compile
    def f(x):
        return scale(work(x))

    return Trap(f, state=lambda: scale.n)


@trap
def operator_that_counts(compile):
    class Number:
        n = 0

        def __rmul__(self, other):
            self.n += 1
            return other * 2.0

    number = Number()

    @compile
    def f(x):
        return work(x) * (3.0 * number)

    return Trap(f, state=lambda: number.n)


@trap
def truth_that_counts(compile):
    class Flag:
        n = 0

        def __bool__(self):
            self.n += 1
            return True

    flag = Flag()

    @compile
    def f(x):
        return work(x) if flag else x

    return Trap(f, state=lambda: flag.n)


@trap
def getattr_that_counts(compile):
    class Lazy:
        n = 0

        def __getattr__(self, name):
            Lazy.n += 1
            return 2.0

    lazy = Lazy()

    @compile
    def f(x):
        return work(x) * lazy.anything

    return Trap(f, state=lambda: Lazy.n)


@trap
def context_manager_that_counts(compile):
    class Timer:
        n = 0

        def __enter__(self):
            self.n += 1

        def __exit__(self, *error):
            self.n += 10

    timer = Timer()

    @compile
    def f(x):
        with timer:
            return work(x)

    return Trap(f, state=lambda: timer.n)


@trap
def generator_context_manager(compile):
    log = []

    @contextlib.contextmanager
    def timed():
        log.append("in")
        yield
        log.append("out")

    @compile
    def f(x):
        with timed():
            return work(x)

    return Trap(f, state=lambda: log)


@trap
def append_to_a_list(compile):
    log = []

    @compile
    def f(x):
        out = work(x)
        log.append(out.sum().item())
        return out

    return Trap(f, state=lambda: log)


@trap
def append_of_a_tensor(compile):
    log = []

    @compile
    def f(x):
        out = work(x)
        log.append(out.detach())
        return out

    return Trap(f, state=lambda: log)


@trap
def kept_append(compile):
    log = []
    push = log.append

    @compile
    def f(x):
        push(1)
        return work(x)

    return Trap(f, state=lambda: log)


@trap
def item_of_a_list(compile):
    log = [0, 0]

    @compile
    def f(x):
        log[0] = log[0] + 1
        return work(x)

    return Trap(f, state=lambda: log)


@trap
def list_extended_by_an_operator(compile):
    log = [0]

    @compile
    def f(x):
        kept = log
        kept += [len(kept)]
        return work(x)

    return Trap(f, state=lambda: log)


@trap
def list_reversed_and_popped(compile):
    log = list(range(40))

    @compile
    def f(x):
        log.reverse()
        return work(x) * log.pop()

    return Trap(f, state=lambda: log)


@trap
def item_deleted(compile):
    log = dict.fromkeys(range(20))

    @compile
    def f(x):
        del log[len(log) - 1]
        return work(x)

    return Trap(f, state=lambda: log)


@trap
def slice_assigned(compile):
    log = [1, 2]

    @compile
    def f(x):
        log[len(log) :] = [3]
        return work(x)

    return Trap(f, state=lambda: log)


@trap
def dict_updated(compile):
    log = {"n": 0}

    @compile
    def f(x):
        log.update(n=log["n"] + 1)
        return work(x)

    return Trap(f, state=lambda: log)


@trap
def dict_setdefault(compile):
    log = {}

    @compile
    def f(x):
        log.setdefault(len(log), 1)
        return work(x)

    return Trap(f, state=lambda: log)


@trap
def default_dict_grows(compile):
    log = collections.defaultdict(int)

    @compile
    def f(x):
        log[len(log)]
        return work(x)

    return Trap(f, state=lambda: dict(log))


@trap
def counter_counts(compile):
    log = collections.Counter()

    @compile
    def f(x):
        log["calls"] += 1
        return work(x)

    return Trap(f, state=lambda: dict(log))


@trap
def deque_of_some(compile):
    log = collections.deque(maxlen=3)

    @compile
    def f(x):
        out = work(x)
        log.append(out.detach().mean().item())
        return out

    return Trap(f, state=lambda: list(log))


@trap
def set_grows(compile):
    log = set()

    @compile
    def f(x):
        log.add(len(log))
        return work(x)

    return Trap(f, state=lambda: log)


@trap
def user_dict_item(compile):
    log = collections.UserDict(n=0)

    @compile
    def f(x):
        log["n"] += 1
        return work(x)

    return Trap(f, state=lambda: log["n"])


@trap
def mutable_default_counts(compile):
    log = []

    @compile
    def f(x, log=log):
        log.append(1)
        return work(x)

    return Trap(f, state=lambda: log)


@trap
def list_given_as_an_argument(compile):
    log = []

    @compile
    def f(x, log):
        log.append(len(log))
        return work(x)

    return Trap(f, args=lambda i: (numbers(i), log), state=lambda: log)


@trap
def dict_given_as_an_argument(compile):
    log = {"n": 0}

    @compile
    def f(x, log):
        log["n"] += 1
        return work(x) * log["n"]

    return Trap(f, args=lambda i: (numbers(i), log), state=lambda: log)


@trap
def object_given_as_an_argument(compile):
    box = types.SimpleNamespace(n=0)

    @compile
    def f(x, box):
        box.n += 1
        return work(x) * box.n

    return Trap(f, args=lambda i: (numbers(i), box), state=lambda: box.n)


@trap
def attribute_of_a_parameter_set(compile):
    p = nn.Parameter(numbers(1))
    p.n = 0

    @compile
    def f(x):
        p.n += 1
        return work(x) * p.detach()

    return Trap(f, state=lambda: p.n)


@trap
def attribute_of_an_argument_set(compile):
    @compile
    def f(x):
        x.seen = getattr(x, "seen", 0) + 1
        return work(x)

    kept = [numbers(0)]
    return Trap(f, args=lambda i: (kept[0],), state=lambda: getattr(kept[0], "seen", None))


@trap
def attribute_of_a_module_set(compile):
    class Net(nn.Module):
        n = 0

        def forward(self, x):
            self.n += 1
            return work(x)

    net = Net()
    return Trap(compile(net), state=lambda: net.n)


@trap
def tensor_kept_on_a_module(compile):
    class Net(nn.Module):
        last = None

        def forward(self, x):
            out = work(x)
            self.last = out.detach()
            return out

    net = Net()
    return Trap(compile(net), state=lambda: net.last)


@trap
def counter_in_a_buffer(compile):
    net = nn.Module()
    net.register_buffer("n", T.zeros((), dtype=T.long))

    @compile
    def f(x):
        net.n += 1
        return work(x) * net.n

    return Trap(f, state=lambda: net.n)


@trap
def buffer_registered(compile):
    net = nn.Module()

    @compile
    def f(x):
        out = work(x)
        net.register_buffer("last", out.detach().mean())
        return out

    return Trap(f, state=lambda: net.last)


@trap
def average_kept_in_a_float(compile):
    box = types.SimpleNamespace(mean=0.0)

    @compile
    def f(x):
        out = work(x)
        box.mean = 0.9 * box.mean + 0.1 * out.sum().item()
        return out

    return Trap(f, state=lambda: box.mean)


@trap
def average_kept_in_a_tensor(compile):
    box = types.SimpleNamespace(mean=T.zeros((), dtype=T.float64))

    @compile
    def f(x):
        out = work(x)
        box.mean = 0.9 * box.mean + 0.1 * out.detach().sum()
        return out

    return Trap(f, state=lambda: box.mean)


@trap
def iterator_advanced(compile):
    source = itertools.count()

    @compile
    def f(x):
        next(source)
        return work(x)

    return Trap(f, state=lambda: repr(source))


@trap
def generator_advanced(compile):
    log = []

    def source():
        while True:
            log.append(1)
            yield 1.0

    made = source()

    @compile
    def f(x):
        return work(x) * next(made)

    return Trap(f, state=lambda: log)


@trap
def function_defined_and_kept(compile):
    kept = []

    @compile
    def f(x):
        def inner(y):
            return y * 2

        kept.append(inner)
        return inner(work(x))

    return Trap(f, state=lambda: len(kept))


@trap
def object_made_that_counts(compile):
    class Made:
        n = 0

        def __init__(self):
            Made.n += 1

    @compile
    def f(x):
        Made()
        return work(x)

    return Trap(f, state=lambda: Made.n)


@trap
def object_made_that_dies(compile):
    log = []

    class Made:
        def __del__(self):
            log.append(1)

    @compile
    def f(x):
        made = Made()
        out = work(x)
        del made
        return out

    return Trap(f, state=lambda: len(log))


@trap
def sort_key_that_counts(compile):
    log = []

    @compile
    def f(x):
        order = sorted([2.0, 1.0], key=lambda v: log.append(v) or v)
        return work(x) * order[0]

    return Trap(f, state=lambda: len(log))


@trap
def comprehension_that_appends(compile):
    log = []

    @compile
    def f(x):
        [log.append(v) for v in range(2)]
        return work(x)

    return Trap(f, state=lambda: log)


@trap
def map_that_appends(compile):
    log = []

    @compile
    def f(x):
        list(map(log.append, (1, 2)))
        return work(x)

    return Trap(f, state=lambda: log)


@trap
def exception_caught_and_counted(compile):
    log = []

    @compile
    def f(x):
        try:
            raise ValueError("on purpose")
        except ValueError as error:
            log.append(str(error))
        return work(x)

    return Trap(f, state=lambda: log)


@trap
def finally_that_counts(compile):
    log = []

    @compile
    def f(x):
        try:
            return work(x)
        finally:
            log.append(1)

    return Trap(f, state=lambda: log)


@trap
def hook_that_counts(compile):
    log = []
    net = nn.Sequential(nn.Tanh(), nn.Sigmoid(), nn.Softplus(), nn.Tanh())
    net[1].register_forward_hook(lambda module, args, out: log.append(1))
    return Trap(compile(net), state=lambda: log)


@trap
def gradient_hook_that_counts(compile):
    log = []
    p = nn.Parameter(numbers(1))
    p.register_hook(lambda grad: log.append(1))

    @compile
    def f(x):
        p.grad = None
        (work(x) * p).sum().backward()
        return p.grad.clone()

    return Trap(f, state=lambda: log)


@trap
def hook_registered_inside(compile):
    log = []
    p = nn.Parameter(numbers(1))

    @compile
    def f(x):
        h = work(x) * p
        h.register_hook(lambda grad: log.append(1))
        h.sum().backward()
        return p.grad.clone()

    return Trap(f, state=lambda: log)


@trap
def user_generator_drawn_from_elsewhere(compile):
    """The function and the code around it share one generator."""
    g = T.Generator().manual_seed(1)

    @compile
    def f(x):
        return work(x) * T.randn(3, generator=g)

    return Trap(f, lambda i: T.rand(i + 1, generator=g), state=lambda: g.get_state())


@trap
def time_asked_for(compile):
    """A clock of one's own, so that both runs see the same times."""
    import time

    ticks = itertools.count()
    plain = time.time
    time.time = lambda: float(next(ticks))

    @compile
    def f(x):
        return work(x) * time.time()

    def undo():
        time.time = plain

    return Trap(f, undo=undo)


def warned(name, function):
    """A function that PyTorch warns of in each call, under a filter that shows each warning."""

    def build(compile):
        f = compile(lambda x: function(work(x)))
        seen = []

        def watched(x):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                out = f(x)
            texts = [str(w.message).partition("\n")[0] for w in caught]
            seen.append([text for text in texts if "cannot be compiled" not in text])
            return out

        return Trap(watched, state=lambda: seen)

    build.__name__ = name
    trap(build)


warned("warning_of_shapes", lambda y: F.mse_loss(y, T.zeros(3, dtype=y.dtype)) + y.exp().sin())
warned("warning_of_a_missing_dim", lambda y: F.softmax(y.exp()) + y.sin())
warned("warning_of_a_transpose", lambda y: y.exp().unsqueeze(0).T + y.t().sin())


def cleared(name, make):
    """An optimizer that forgets its state: before a replay, and before a comparison with one."""

    def build(compile):
        w = nn.Parameter(numbers(50))
        opt = make([w])

        @compile
        def f(x):
            opt.zero_grad()
            loss = (x * w).tanh().sin().sum()
            loss.backward()
            opt.step()
            return loss

        def before(i):
            if i in (5, 7):
                opt.state.clear()

        return Trap(f, before, state=lambda: (w, opt.state_dict()))

    build.__name__ = name
    trap(build)


cleared("state_cleared_of_adam", lambda ps: T.optim.Adam(ps, lr=0.1))
cleared("state_cleared_of_momentum", lambda ps: T.optim.SGD(ps, lr=0.1, momentum=0.9))
cleared("state_cleared_of_rprop", lambda ps: T.optim.Rprop(ps, lr=0.1))
cleared("state_cleared_of_asgd", lambda ps: T.optim.ASGD(ps, lr=0.1))
