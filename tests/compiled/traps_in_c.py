"""Traps: what functions in C and code of this package look at, where no hook of ours runs."""

from __future__ import annotations

import collections
import copy
import functools
import itertools
import math
import operator
import re
import string
import types
from collections.abc import Callable
from typing import Any

import numpy as np
from harness import Trap, numbers, trap, work

import tapegrad as T
from tapegrad import nn

FLOATS = (0.11, 0.12, 0.13, 0.14, 0.15, 0.96, 0.97, 1.28, 1.5, 2.7, 0.2)
Made = tuple[Callable[..., Any], Callable[[int], Any], Callable[[], Any] | None]


def simple(make: Callable[[], Made]) -> None:
    """A trap of a function, a change of what it reads before calls 5 and 7, and a state."""

    def build(compile: Any) -> Trap:
        function, change, state = make()

        def before(i: int) -> None:
            if i in (5, 7):
                change(i)

        return Trap(compile(function), before=before, state=state or (lambda: None))

    build.__name__, build.__module__ = make.__name__, make.__module__
    trap(build)


def changing(make: Callable[[], Callable[..., Any]]) -> None:
    """A trap of a function of a tensor and a float that is another one in each call."""

    def build(compile: Any) -> Trap:
        function = compile(make())
        return Trap(function, args=lambda i: (numbers(i), FLOATS[i]))

    build.__name__, build.__module__ = make.__name__, make.__module__
    trap(build)


class Item:
    def __init__(self, rank):
        self.rank = rank

    def bump(self):
        return self.rank


@simple
def max_key_get():
    s = {"a": 1, "b": 2}
    names = ("a", "b")
    k = {"a": 1.0, "b": 3.0}

    def f(x):
        return work(x) * k[max(names, key=s.get)]

    return (f, lambda i: s.__setitem__("a", i), None)


@simple
def map_len():
    ls = [[1, 2], [3]]

    def f(x):
        return work(x) * sum(map(len, ls))

    return (f, lambda i: ls[1].append(i), None)


@simple
def list_map_len():
    ls = [[1, 2], [3]]

    def f(x):
        n = list(map(len, ls))
        return work(x) * n[1]

    return (f, lambda i: ls[1].append(i), None)


@simple
def any_nested():
    ls = [[], []]

    def f(x):
        return work(x) * (2.0 if any(ls) else 1.0)

    return (f, lambda i: ls[1].append(i), None)


@simple
def all_nested():
    ls = [[1], [2]]

    def f(x):
        return work(x) * (2.0 if all(ls) else 1.0)

    return (f, lambda i: ls[1].clear() if i == 5 else ls[1].append(1), None)


@simple
def filter_none():
    ls = [[1], [2]]

    def f(x):
        return work(x) * len(list(filter(None, ls)))

    return (f, lambda i: ls[1].clear() if i == 5 else ls[1].append(1), None)


@simple
def attrgetter_key():
    items = [Item(1.0), Item(2.0)]

    def f(x):
        return work(x) * sorted(items, key=operator.attrgetter("rank"))[0].rank

    return (f, lambda i: setattr(items[1], "rank", 0.5 if i == 5 else 9.0), None)


@simple
def attrgetter_map():
    items = [Item(1.0), Item(2.0)]

    def f(x):
        return work(x) * sum(map(operator.attrgetter("rank"), items))

    return (f, lambda i: setattr(items[1], "rank", 0.5 if i == 5 else 9.0), None)


@simple
def itemgetter_map():
    rows = [[1.0, 2.0], [3.0, 4.0]]

    def f(x):
        return work(x) * sum(map(operator.itemgetter(1), rows))

    return (f, lambda i: rows[0].__setitem__(1, float(i)), None)


@simple
def methodcaller_map():
    items = [Item(1.0), Item(2.0)]

    def f(x):
        return work(x) * sum(map(operator.methodcaller("bump"), items))

    return (f, lambda i: setattr(items[1], "rank", 0.5 if i == 5 else 9.0), None)


@simple
def methodcaller_pops():
    items = [[1.0] * 30, [2.0] * 30]

    def f(x):
        return work(x) * sum(map(operator.methodcaller("pop"), items))

    return (f, lambda i: None, lambda: items)


@simple
def map_dget():
    d = {"a": 1.0, "b": 2.0}

    def f(x):
        return work(x) * sum(map(d.get, ("a", "b")))

    return (f, lambda i: d.__setitem__("b", float(i)), None)


@simple
def map_getitem():
    d = [1.0, 2.0]

    def f(x):
        return work(x) * sum(map(d.__getitem__, (0, 1)))

    return (f, lambda i: d.__setitem__(1, float(i)), None)


@simple
def filter_contains():
    d = {1, 2}

    def f(x):
        return work(x) * len(list(filter(d.__contains__, (1, 2, 5, 7))))

    return (f, lambda i: d.add(i), None)


@simple
def map_setitem():
    d = [0] * 50

    def f(x):
        list(map(d.__setitem__, (0, 1), (len(d), d[0] + 1)))
        return work(x)

    return (f, lambda i: None, lambda: d)


@simple
def map_list_append():
    a, b = ([], [])

    def f(x):
        list(map(list.append, (a, b), (1, 2)))
        return work(x)

    return (f, lambda i: None, lambda: (a, b))


@simple
def partial_append():
    a = []

    def f(x):
        list(map(functools.partial(a.append), (1, 2)))
        return work(x)

    return (f, lambda i: None, lambda: a)


@simple
def partial_setattr():
    o = Item(0)

    def f(x):
        list(map(functools.partial(setattr, o, "rank"), (o.rank + 1,)))
        return work(x)

    return (f, lambda i: None, lambda: o.rank)


@simple
def map_getattr():
    o = Item(1.0)

    def f(x):
        return work(x) * sum(map(functools.partial(getattr, o), ("rank",)))

    return (f, lambda i: setattr(o, "rank", float(i)), None)


@simple
def map_getattr2():
    o = Item(1.0)

    def f(x):
        return work(x) * sum(map(getattr, (o,), ("rank",)))

    return (f, lambda i: setattr(o, "rank", float(i)), None)


@simple
def sum_lists():
    ls = [[1], [2]]

    def f(x):
        return work(x) * len(sum(ls, []))

    return (f, lambda i: ls[1].append(3), None)


@simple
def chain_lists():
    ls = [[1.0], [2.0]]

    def f(x):
        return work(x) * sum(itertools.chain.from_iterable(ls))

    return (f, lambda i: ls[1].append(3), None)


@simple
def starmap():
    ls = [[1.0, 2.0], [2.0, 3.0]]

    def f(x):
        return work(x) * sum(itertools.starmap(pow, ls))

    return (f, lambda i: ls[1].__setitem__(0, float(i)), None)


@simple
def zip_nested():
    ls = [[1.0, 2.0], [2.0, 3.0]]

    def f(x):
        return work(x) * sum(map(sum, zip(*ls, strict=True)))

    return (f, lambda i: ls[1].__setitem__(0, float(i)), None)


@simple
def set_ops():
    a, b = ({1, 2}, [{3}])

    def f(x):
        return work(x) * len(a.union(*b))

    return (f, lambda i: b[0].add(i), None)


@simple
def reduce_or():
    b = [{3}, {4}]

    def f(x):
        return work(x) * len(functools.reduce(operator.or_, b))

    return (f, lambda i: b[0].add(i), None)


@simple
def operator_getitem():
    b = [[1.0, 2.0]]

    def f(x):
        return work(x) * functools.reduce(operator.getitem, (0, 1), b)

    return (f, lambda i: b[0].__setitem__(1, float(i)), None)


@simple
def dist_loc():
    d = T.distributions.Normal(T.tensor(0.5), T.tensor(1.0))

    def f(x):
        return work(x) + d.log_prob(x)

    return (f, lambda i: setattr(d, "loc", T.tensor(float(i))), None)


@simple
def fn_backward_patched():

    class Fn(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    def f(x):
        y = x.clone().requires_grad_()
        (g,) = T.autograd.grad(work(Fn.apply(y)).sum(), y)
        return g

    def change(i):
        Fn.backward = staticmethod(lambda ctx, g: g * float(i))

    return (f, change, None)


@simple
def fn_forward_patched():

    class Fn(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    def f(x):
        return work(Fn.apply(x))

    def change(i):
        Fn.forward = staticmethod(lambda ctx, x: x * float(i))

    return (f, change, None)


@simple
def hook_appends():
    w = T.tensor([1.0, 2.0, 3.0], dtype=T.float64, requires_grad=True)
    gs = []
    w.register_hook(gs.append)

    def f(x):
        w.grad = None
        y = work(x * w).sum()
        y.backward()
        return y.detach()

    return (f, lambda i: None, lambda: len(gs))


@simple
def module_hook_c():
    m = nn.Linear(3, 3).double()
    gs = collections.Counter()
    m.register_forward_hook(functools.partial(lambda c, *a: c.update(["n"]), gs))

    def f(x):
        return work(m(x))

    return (f, lambda i: None, lambda: dict(gs))


@simple
def star_nested():
    b = [[1.0], [2.0]]

    def g(*rows):
        return sum(map(len, rows))

    def f(x):
        return work(x) * g(*b)

    return (f, lambda i: b[1].append(2), None)


@simple
def sort_copy2():
    b = [Item(1), Item(2)]

    def f(x):
        c = list(b)
        c.sort(key=operator.attrgetter("rank"), reverse=True)
        return work(x) * (1.0 if c[0] is b[0] else 2.0)

    return (f, lambda i: setattr(b[0], "rank", i), None)


@simple
def sort_copy3():
    b = [[1.0], [2.0]]

    def f(x):
        c = list(b)
        c.sort(reverse=True)
        return work(x) * (1.0 if c[0] is b[0] else 2.0)

    return (f, lambda i: b[0].__setitem__(0, 5.0), None)


@simple
def index_in_copy():
    b = [[1.0], [2.0]]

    def f(x):
        c = list(b)
        return work(x) * (c.index([2.0]) + 1 if [2.0] in c else 7)

    return (f, lambda i: b[1].__setitem__(0, 5.0 + i), None)


@simple
def count_in_tuple():
    b = [1.0]
    t = (b, [2.0])

    def f(x):
        return work(x) * t.count([1.0])

    return (f, lambda i: b.append(1.0), None)


@simple
def new_list_eq():
    b = [1.0]

    def f(x):
        t = [b]
        return work(x) * (1.0 if t == [[1.0]] else 2.0)

    return (f, lambda i: b.append(1.0), None)


@simple
def new_list_sorted():
    b, c = ([1.0], [2.0])

    def f(x):
        t = sorted([b, c])
        return work(x) * (1.0 if t[0] is b else 2.0)

    return (f, lambda i: b.__setitem__(0, 1.0 + 2 * (i == 5)), None)


@simple
def new_dict_truth():
    b = []

    def f(x):
        t = {"a": b}
        return work(x) * (1.0 if any(t.values()) else 2.0)

    return (f, lambda i: b.append(0), None)


@simple
def sub_dropout():

    class D(nn.Dropout):
        pass

    m = D(0.0)

    def f(x):
        return work(m(x))

    return (f, lambda i: setattr(m, "p", 0.5 if i == 5 else 0.0), None)


@simple
def sub_dropout_super():

    class D(nn.Dropout):
        def forward(self, x):
            return super().forward(x) * 2

    m = D(0.0)

    def f(x):
        return work(m(x))

    return (f, lambda i: setattr(m, "p", 0.5 if i == 5 else 0.0), None)


@simple
def sub_bn_momentum():

    class B(nn.BatchNorm1d):
        pass

    m = B(3).double()

    def f(x):
        return work(m(x))

    return (f, lambda i: setattr(m, "momentum", 0.5), lambda: m.state_dict())


@simple
def sub_bn_eval():

    class B(nn.BatchNorm1d):
        pass

    m = B(3).double()

    def f(x):
        return work(m(x))

    return (f, lambda i: m.eval() if i == 5 else m.train(), lambda: m.state_dict())


@simple
def sub_leaky():

    class A(nn.LeakyReLU):
        def forward(self, x):
            return super().forward(x) + 1

    m = nn.Sequential(nn.Linear(3, 3), A(0.1)).double()

    def f(x):
        return work(m(x))

    return (f, lambda i: setattr(m[1], "negative_slope", 0.1 * i), None)


@simple
def transform_scale():
    t = T.distributions.transforms.AffineTransform(loc=1.0, scale=2.0)

    def f(x):
        return work(t(x))

    return (f, lambda i: setattr(t, "scale", float(i)), None)


@simple
def transform_scale_sub():

    class A(T.distributions.transforms.AffineTransform):
        pass

    t = A(loc=1.0, scale=2.0)

    def f(x):
        return work(t(x))

    return (f, lambda i: setattr(t, "scale", float(i)), None)


@simple
def transform_compose():
    A = T.distributions.transforms.AffineTransform
    t = T.distributions.transforms.ComposeTransform([A(1.0, 2.0), A(0.5, 1.5)])

    def f(x):
        return work(t(x))

    return (f, lambda i: setattr(t.parts[1], "scale", float(i)), None)


@simple
def autocast_object():
    ac = T.autocast("cpu", dtype=T.bfloat16, enabled=False)

    def f(x):
        with ac:
            return work(x.float() @ x.float().T).float()

    def ch(i):
        ac._enabled = True

    return (f, ch, None)


@simple
def callable_object_key():

    class K:
        def __init__(self):
            self.w = {"a": 1, "b": 2}

        def __call__(self, n):
            return self.w[n]

    k = K()
    v = {"a": 1.0, "b": 2.0}

    def f(x):
        return work(x) * v[max(("a", "b"), key=k)]

    return (f, lambda i: k.w.__setitem__("a", i), None)


@simple
def key_returns_list():
    rows = [Item([1.0]), Item([2.0])]

    def f(x):
        return work(x) * (1.0 if sorted(rows, key=lambda r: r.rank)[0] is rows[0] else 2.0)

    return (f, lambda i: rows[0].rank.__setitem__(0, 5.0 if i == 5 else 1.0), None)


@simple
def filter_returns_list():
    rows = [Item([]), Item([2.0])]

    def f(x):
        return work(x) * len(list(filter(lambda r: r.rank, rows)))

    return (f, lambda i: rows[0].rank.append(1), None)


@simple
def filter_method_returns_list():

    class R:
        def __init__(self):
            self.tags = []

        def get(self):
            return self.tags

    rows = [R(), R()]

    def f(x):
        return work(x) * (1 + len(list(filter(R.get, rows))))

    return (f, lambda i: rows[0].tags.append(1), None)


@simple
def any_generator():
    rows = [[], []]

    def f(x):
        return work(x) * (1.0 if any(r for r in rows) else 2.0)

    return (f, lambda i: rows[0].append(1), None)


@simple
def any_generator_attr():
    rows = [Item([]), Item([])]

    def f(x):
        return work(x) * (1.0 if any(r.rank for r in rows) else 2.0)

    return (f, lambda i: rows[0].rank.append(1), None)


@simple
def all_map_attr():
    rows = [Item([]), Item([])]

    def f(x):
        return work(x) * (1.0 if any(map(lambda r: r.rank, rows)) else 2.0)

    return (f, lambda i: rows[0].rank.append(1), None)


@simple
def sorted_generator():
    rows = [[1.0], [2.0]]

    def f(x):
        return work(x) * (1.0 if sorted(r for r in rows)[0] is rows[0] else 2.0)

    return (f, lambda i: rows[0].__setitem__(0, 3.0), None)


@simple
def user_iterable_any():

    class B:
        def __init__(self):
            self.rows = [[], []]

        def __iter__(self):
            return iter(self.rows)

    b = B()

    def f(x):
        return work(x) * (1.0 if any(b) else 2.0)

    return (f, lambda i: b.rows[0].append(1), None)


@simple
def user_iterable_len_map():

    class B:
        def __init__(self):
            self.rows = [[], []]

        def __iter__(self):
            yield from self.rows

    b = B()

    def f(x):
        return work(x) * (1.0 + sum(map(len, b)))

    return (f, lambda i: b.rows[0].append(1), None)


@simple
def groupby_key():
    rows = [Item([1]), Item([1])]

    def f(x):
        return work(x) * len([k for k, _ in itertools.groupby(rows, key=lambda r: r.rank)])

    return (f, lambda i: rows[0].rank.append(1), None)


@simple
def takewhile():
    rows = [Item([1]), Item([1])]

    def f(x):
        return work(x) * len(list(itertools.takewhile(lambda r: r.rank, rows)))

    return (f, lambda i: rows[1].rank.clear(), None)


@simple
def in_generator():
    rows = [[1.0], [2.0]]

    def f(x):
        return work(x) * (1.0 if [2.0] in (r for r in rows) else 2.0)

    return (f, lambda i: rows[1].append(2), None)


@simple
def extend_new():
    rows = [[1.0], [2.0]]

    def f(x):
        out = []
        out.extend(rows)
        out += rows
        return work(x) * sum(out[0]) * len(out)

    return (f, lambda i: rows[0].append(3.0), None)


@simple
def next_filter():
    rows = [{"n": 1.0, "on": True}, {"n": 2.0, "on": True}]

    def f(x):
        r = next(r for r in rows if r["on"])
        return work(x) * r["n"]

    return (f, lambda i: rows[0].__setitem__("on", i != 5), None)


@simple
def walrus_pop_copy():
    rows = [[1.0], [2.0]]

    def f(x):
        q = list(rows)
        while q and (r := q.pop()):
            x = x + r[0]
        return work(x)

    return (f, lambda i: rows[0].clear() if i == 5 else rows[0].append(3.0), None)


@simple
def userlist():
    c = collections.UserList([1.0, 2.0])

    def f(x):
        return work(x) * sum(c) * c[0]

    return (f, lambda i: c.append(float(i)), None)


@simple
def deque_max():
    d = collections.deque([[1.0], [2.0]])

    def f(x):
        return work(x) * max(d)[0]

    return (f, lambda i: d[0].__setitem__(0, float(i)), None)


@simple
def copied_then_read():
    base = [[1.0], [2.0]]

    def f(x):
        c = base[:]
        return work(x) * sum(c[1])

    return (f, lambda i: base[1].append(1.0), None)


@simple
def list_of_then_read():
    base = [Item(1.0)]

    def f(x):
        c = list(base)
        return work(x) * c[0].rank

    return (f, lambda i: setattr(base[0], "rank", float(i)), None)


@simple
def copy_copy():
    o = Item([1.0])

    def f(x):
        return work(x) * copy.copy(o).rank[0] * copy.deepcopy(o).rank[0]

    return (f, lambda i: o.rank.__setitem__(0, float(i)), None)


@simple
def reduce_dunder():
    o = Item(1.0)

    def f(x):
        return work(x) * o.__reduce_ex__(2)[2]["rank"]

    return (f, lambda i: setattr(o, "rank", float(i)), None)


@simple
def namespace_eq():
    a, b = (types.SimpleNamespace(n=1), types.SimpleNamespace(n=1))

    def f(x):
        return work(x) * (1.0 if a == b else 2.0)

    return (f, lambda i: setattr(a, "n", i if i == 5 else 1), None)


@simple
def np_vectorize():
    d = {0: 1.0, 1: 2.0}
    g = np.vectorize(d.get)

    def f(x):
        return work(x) * float(g(np.array([0, 1])).sum())

    return (f, lambda i: d.__setitem__(1, float(i)), None)


@simple
def re_sub():
    d = {"n": "12"}

    def f(x):
        return work(x) * float(re.sub("n", lambda m: d[m.group()], "n"))

    return (f, lambda i: d.__setitem__("n", str(i)), None)


@simple
def format_attr():
    o = Item(1.0)

    def f(x):
        return work(x) * float(f"{o.rank}")

    return (f, lambda i: setattr(o, "rank", float(i)), None)


@simple
def format_item():
    o = Item([1.0])

    def f(x):
        return work(x) * float(f"{o.rank[0]}")

    return (f, lambda i: o.rank.__setitem__(0, float(i)), None)


@simple
def string_template():
    o = {"n": 2.0}
    t = string.Template("$n")

    def f(x):
        return work(x) * float(t.substitute(o))

    return (f, lambda i: o.__setitem__("n", float(i)), None)


@simple
def percent_dict():
    o = {"n": 2.0}

    def f(x):
        return work(x) * float("%(n)s" % o)  # noqa: UP031

    return (f, lambda i: o.__setitem__("n", float(i)), None)


@simple
def nested_default_dict():
    b = collections.defaultdict(list)
    b["a"].append(1.0)

    def f(x):
        return work(x) * sum(sum(b.values(), []))

    return (f, lambda i: b["a"].append(1.0), None)


@simple
def opt_add_group():
    w = T.ones(3, dtype=T.float64, requires_grad=True)
    v = T.ones(3, dtype=T.float64, requires_grad=True)
    o = T.optim.Adam([w], lr=0.1)

    def f(x):
        o.zero_grad()
        work(x * w * v).sum().backward()
        o.step()
        return len(o.param_groups)

    def ch(i):
        if i == 5:
            o.add_param_group({"params": [v], "lr": 0.01})

    return (f, ch, lambda: (w, v))


@simple
def opt_flag():
    w = T.ones(3, dtype=T.float64, requires_grad=True)
    o = T.optim.SGD([w], lr=0.1, momentum=0.9)

    def f(x):
        o.zero_grad()
        work(x * w).sum().backward()
        o.step()

    def ch(i):
        o.param_groups[0]["nesterov"] = True
        o.param_groups[0]["weight_decay"] = 0.1

    return (f, ch, lambda: w)


@simple
def opt_state_cleared():
    w = T.ones(3, dtype=T.float64, requires_grad=True)
    o = T.optim.Adam([w], lr=0.1)

    def f(x):
        o.zero_grad()
        work(x * w).sum().backward()
        o.step()

    def ch(i):
        o.state.clear()

    return (f, ch, lambda: w)


@simple
def sched_lambda():
    w = T.ones(3, dtype=T.float64, requires_grad=True)
    k = [0.9]
    o = T.optim.SGD([w], lr=0.1)
    s = T.optim.lr_scheduler.LambdaLR(o, lambda e: k[0] ** e)

    def f(x):
        o.zero_grad()
        work(x * w).sum().backward()
        o.step()
        s.step()

    def ch(i):
        k[0] = 0.5

    return (f, ch, lambda: (w, o.param_groups[0]["lr"]))


@simple
def array_view_list():
    a = np.arange(6.0)
    v = [a[:3], a[3:]]

    def f(x):
        return work(x) * sum(map(np.sum, v)).item()

    return (f, lambda i: a.__setitem__(4, float(i)), None)


@changing
def percent():
    table = {"0": 1.0, "1": 2.0, "2": 5.0, "3": 7.0}

    def f(x, t):
        return work(x) * table["%.0f" % t] * t  # noqa: UP031

    return f


@changing
def percent_tuple():
    table = {"0 a": 1.0, "1 a": 2.0, "2 a": 5.0, "3 a": 7.0}

    def f(x, t):
        return work(x) * table["%.0f %s" % (t, "a")] * t  # noqa: UP031

    return f


@changing
def np_scalar():
    c = np.float64(2.0)

    def f(x, t):
        return work(x) * float(c * t)

    return f


@changing
def np_scalar_r():
    c = np.float64(2.0)

    def f(x, t):
        return work(x) * float(t * c) * (t + c).item()

    return f


@changing
def np_scalar32():
    c = np.float32(2.0)

    def f(x, t):
        return work(x) * float(t * c)

    return f


@changing
def np_array_in_list():
    arrays = [np.ones(3)]

    def f(x, t):
        for a in arrays:
            x = x * float((a + t)[0])
        return work(x)

    return f


@changing
def np_array_setitem():

    def f(x, t):
        a = np.zeros(3)
        a[1] = t
        return work(x) * float(a.sum())

    return f


@changing
def kind_of_float():

    def f(x, t):
        return work(x) * (2.0 if type(t) is float else 3.0) * t

    return f


@changing
def floor_map_gen():

    def f(x, t):
        return work(x) * sum(map(math.floor, (v for v in (t, 2 * t))))

    return f


@changing
def partial_floor():
    g = functools.partial(math.pow, 2.0)

    def f(x, t):
        return work(x) * g(t)

    return f


@changing
def default_floor():

    def f(x, t, g=math.floor):
        return work(x) * g(t)

    return f


@changing
def starmap_math():

    def f(x, t):
        return work(x) * sum(itertools.starmap(math.pow, [(t, 2), (2, t)]))

    return f


@changing
def float_unbound_map():

    def f(x, t):
        return work(x) * sum(map(float.__neg__, [t]))

    return f


@changing
def string_key_sort():

    def f(x, t):
        d = {"a": t, "b": 0.9}
        return work(x) * {"a": 1.0, "b": 2.0}[max(d, key=d.get)]

    return f


@changing
def complex_of_float():

    def f(x, t):
        return work(x) * complex(t, 1).real

    return f
