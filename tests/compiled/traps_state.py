"""Traps: Python's state that a function reads, and that changes between two calls."""

# ruff: noqa: N801, N805, N806  (small classes and constants of one trap)

from __future__ import annotations

import collections
import contextvars
import dataclasses
import enum
import functools
import itertools
import operator
import os
import sys
import threading
import types
import weakref

import numpy as np
from harness import Trap, numbers, phase, trap, work

import tapegrad as T
from tapegrad import nn
from tapegrad.nn import functional as F

FACTOR = 1.0
TABLE = {"factor": 1.0}
CONTEXT = contextvars.ContextVar("CONTEXT", default=1.0)
LOCAL = threading.local()
THIS = sys.modules[__name__]


# --- optimizers and schedulers read by hand


def weighted():
    w = nn.Parameter(numbers(0))
    return w, T.optim.SGD([w], lr=0.1, momentum=0.5)


@trap
def lr_of_param_groups(compile):
    _, opt = weighted()

    @compile
    def f(x):
        return work(x) * opt.param_groups[0]["lr"]

    def before(i):
        opt.param_groups[0]["lr"] = 0.1 * (1 + phase(i))

    return Trap(f, before)


@trap
def lr_of_every_group(compile):
    _, opt = weighted()

    @compile
    def f(x):
        for group in opt.param_groups:
            x = work(x) * group["lr"]
        return x

    def before(i):
        opt.param_groups[0]["lr"] = 0.1 * (1 + phase(i))

    return Trap(f, before)


@trap
def get_last_lr(compile):
    _, opt = weighted()
    sch = T.optim.lr_scheduler.ExponentialLR(opt, 0.5)

    @compile
    def f(x):
        return work(x) * sch.get_last_lr()[0]

    def before(i):
        if i:
            opt.step()
            sch.step()

    return Trap(f, before)


@trap
def last_epoch(compile):
    _, opt = weighted()
    sch = T.optim.lr_scheduler.StepLR(opt, 2)

    @compile
    def f(x):
        return work(x) * (sch.last_epoch + 1)

    def before(i):
        if i:
            opt.step()
            sch.step()

    return Trap(f, before)


@trap
def weight_decay_by_hand(compile):
    _, opt = weighted()

    @compile
    def f(x):
        return work(x) + opt.param_groups[0]["weight_decay"]

    def before(i):
        opt.param_groups[0]["weight_decay"] = float(phase(i))

    return Trap(f, before)


@trap
def number_of_groups(compile):
    _, opt = weighted()

    @compile
    def f(x):
        return work(x) * len(opt.param_groups)

    def before(i):
        if i in (5, 7):
            opt.add_param_group({"params": [nn.Parameter(numbers(i))]})

    return Trap(f, before)


@trap
def state_of_optimizer(compile):
    w, opt = weighted()

    @compile
    def f(x):
        return work(x) * (2.0 if w in opt.state else 1.0)

    def before(i):
        if i == 5:
            w.grad = numbers(0)
            opt.step()
        if i == 8:
            opt.state.clear()

    return Trap(f, before)


@trap
def defaults_of_optimizer(compile):
    _, opt = weighted()

    @compile
    def f(x):
        return work(x) * opt.defaults["lr"]

    def before(i):
        opt.defaults["lr"] = 1.0 + phase(i)

    return Trap(f, before)


@trap
def lr_in_step_by_hand(compile):
    """A whole step without an optimizer, whose rate a scheduler sets."""
    w = nn.Parameter(numbers(0))
    opt = T.optim.SGD([w], lr=0.1)
    sch = T.optim.lr_scheduler.LambdaLR(opt, lambda epoch: 0.7**epoch)

    @compile
    def f(x):
        w.grad = None
        loss = (work(x) * w).pow(2).sum()
        loss.backward()
        with T.no_grad():
            w.sub_(opt.param_groups[0]["lr"] * w.grad)
        return loss.detach()

    def before(i):
        if i:
            sch.step()

    return Trap(f, before, state=lambda: w)


# --- attributes of tensors, parameters, modules


@trap
def attribute_of_tensor(compile):
    t = numbers(1)

    @compile
    def f(x):
        return work(x) * t.scale

    def before(i):
        t.scale = 1.0 + phase(i)

    return Trap(f, before)


@trap
def attribute_of_parameter(compile):
    p = nn.Parameter(numbers(1))

    @compile
    def f(x):
        return work(x) * p.scale + p.detach()

    def before(i):
        p.scale = 1.0 + phase(i)

    return Trap(f, before)


@trap
def attribute_of_parameter_by_getattr(compile):
    p = nn.Parameter(numbers(1))

    @compile
    def f(x):
        return work(x) * getattr(p, "sca" + "le", 5.0)

    def before(i):
        if phase(i):
            p.scale = 1.0 + phase(i)
        elif hasattr(p, "scale"):
            del p.scale

    return Trap(f, before)


@trap
def flag_on_parameters_of_module(compile):
    net = nn.Linear(3, 3).double()

    @compile
    def f(x):
        for p in net.parameters():
            if not getattr(p, "frozen", False):
                x = work(x) + p.detach().sum()
        return x

    def before(i):
        net.weight.frozen = phase(i) == 1

    return Trap(f, before)


@trap
def requires_grad_of_parameter(compile):
    p = nn.Parameter(numbers(1))

    @compile
    def f(x):
        return work(x) * (2.0 if p.requires_grad else 3.0)

    def before(i):
        p.requires_grad_(phase(i) != 1)

    return Trap(f, before)


@trap
def attribute_of_module(compile):
    class Net(nn.Module):
        scale = 1.0

        def forward(self, x):
            return work(x) * self.scale

    net = Net()

    def before(i):
        net.scale = 1.0 + phase(i)

    return Trap(compile(net), before)


@trap
def attribute_of_class_of_module(compile):
    class Net(nn.Module):
        scale = 1.0

        def forward(self, x):
            return work(x) * self.scale

    def before(i):
        Net.scale = 1.0 + phase(i)

    return Trap(compile(Net()), before)


@trap
def dict_of_module(compile):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.options = {"deep": {"scale": 1.0}}

        def forward(self, x):
            return work(x) * self.options["deep"]["scale"]

    net = Net()

    def before(i):
        net.options["deep"]["scale"] = 1.0 + phase(i)

    return Trap(compile(net), before)


@trap
def training_of_a_module_elsewhere(compile):
    other = nn.Module()

    @compile
    def f(x):
        return work(x) * (1.0 if other.training else 2.0)

    def before(i):
        other.train(phase(i) != 1)

    return Trap(f, before)


@trap
def submodule_replaced(compile):
    net = nn.Sequential(nn.Tanh(), nn.Softplus(), nn.Sigmoid())

    def before(i):
        net[1] = (nn.Softplus, nn.ReLU, nn.Hardtanh)[phase(i)]()

    return Trap(compile(net), before)


@trap
def buffer_replaced(compile):
    net = nn.Module()
    net.register_buffer("b", numbers(1))

    @compile
    def f(x):
        return work(x) * net.b

    def before(i):
        if i in (5, 7):
            net.b = numbers(i)

    return Trap(f, before)


@trap
def buffer_gone(compile):
    net = nn.Module()
    net.register_buffer("b", numbers(1))

    @compile
    def f(x):
        return work(x) * (1.0 if net.b is None else net.b)

    def before(i):
        net.b = None if phase(i) == 1 else numbers(1)

    return Trap(f, before)


@trap
def module_list_grows(compile):
    layers = nn.ModuleList([nn.Tanh()])

    @compile
    def f(x):
        for layer in layers:
            x = work(layer(x))
        return x

    def before(i):
        if i in (5, 7):
            layers.append(nn.Sigmoid())

    return Trap(f, before)


# --- objects


@trap
def slots(compile):
    class Box:
        __slots__ = ("k",)

    box = Box()

    @compile
    def f(x):
        return work(x) * box.k

    def before(i):
        box.k = 1.0 + phase(i)

    return Trap(f, before)


@trap
def slots_of_a_subclass(compile):
    class Base:
        __slots__ = ("k",)

    class Box(Base):
        __slots__ = ("other",)

    box = Box()

    @compile
    def f(x):
        return work(x) * box.k

    def before(i):
        box.k = 1.0 + phase(i)

    return Trap(f, before)


@trap
def property_with_state(compile):
    class Box:
        def __init__(self):
            self._k = [1.0]

        @property
        def k(self):
            return self._k[0]

    box = Box()

    @compile
    def f(x):
        return work(x) * box.k

    def before(i):
        box._k[0] = 1.0 + phase(i)

    return Trap(f, before)


@trap
def property_of_a_closure(compile):
    state = {"k": 1.0}

    class Box:
        k = property(lambda self: state["k"])

    box = Box()

    @compile
    def f(x):
        return work(x) * box.k

    def before(i):
        state["k"] = 1.0 + phase(i)

    return Trap(f, before)


@trap
def property_written_in_c(compile):
    class Box:
        k = property(operator.itemgetter(0))

    class Row(list, Box):
        pass

    row = Row([1.0])

    @compile
    def f(x):
        return work(x) * row.k

    def before(i):
        row[0] = 1.0 + phase(i)

    return Trap(f, before)


@trap
def descriptor(compile):
    values = weakref.WeakKeyDictionary()

    class Kept:
        def __get__(self, owner, kind=None):
            return values[owner]

    class Box:
        k = Kept()

    box = Box()

    @compile
    def f(x):
        return work(x) * box.k

    def before(i):
        values[box] = 1.0 + phase(i)

    return Trap(f, before)


@trap
def getattr_of_a_proxy(compile):
    class Proxy:
        def __init__(self, of):
            self.__dict__["of"] = of

        def __getattr__(self, name):
            return self.of[name]

    options = {"k": 1.0}
    proxy = Proxy(options)

    @compile
    def f(x):
        return work(x) * proxy.k

    def before(i):
        options["k"] = 1.0 + phase(i)

    return Trap(f, before)


@trap
def getattribute(compile):
    state = [1.0]

    class Odd:
        k = 1.0

        def __getattribute__(self, name):
            return state[0]

    odd = Odd()

    @compile
    def f(x):
        return work(x) * odd.k

    def before(i):
        state[0] = 1.0 + phase(i)

    return Trap(f, before)


@trap
def enum_value(compile):
    class Mode(enum.Enum):
        A = 1.0
        B = 2.0
        C = 3.0

    box = types.SimpleNamespace(mode=Mode.A)

    @compile
    def f(x):
        return work(x) * box.mode.value

    def before(i):
        box.mode = list(Mode)[phase(i)]

    return Trap(f, before)


@trap
def enum_with_an_attribute(compile):
    class Mode(enum.Enum):
        A = 1

    @compile
    def f(x):
        return work(x) * Mode.A.scale

    def before(i):
        Mode.A.scale = 1.0 + phase(i)

    return Trap(f, before)


@trap
def flag_enum(compile):
    class Has(enum.Flag):
        A = 1
        B = 2

    box = types.SimpleNamespace(has=Has.A)

    @compile
    def f(x):
        return work(x) * (2.0 if Has.B in box.has else 1.0)

    def before(i):
        box.has = Has.A | Has.B if phase(i) == 1 else Has.A

    return Trap(f, before)


@trap
def weakref_dies(compile):
    class Box:
        pass

    kept = [Box()]
    ref = weakref.ref(kept[0])

    @compile
    def f(x):
        return work(x) * (2.0 if ref() is None else 1.0)

    def before(i):
        if i == 5:
            kept.clear()

    return Trap(f, before)


@trap
def weakref_to_an_object(compile):
    class Box:
        k = 1.0

    box = Box()
    ref = weakref.ref(box)

    @compile
    def f(x):
        return work(x) * ref().k

    def before(i):
        box.k = 1.0 + phase(i)

    return Trap(f, before)


@trap
def weak_value_dictionary(compile):
    class Box:
        pass

    kept = [Box(), Box()]
    d = weakref.WeakValueDictionary(enumerate(kept))

    @compile
    def f(x):
        return work(x) * len(d)

    def before(i):
        if i in (5, 7):
            kept.pop()

    return Trap(f, before)


@trap
def weakref_proxy(compile):
    class Box:
        k = 1.0

    box = Box()
    proxy = weakref.proxy(box)

    @compile
    def f(x):
        return work(x) * proxy.k

    def before(i):
        box.k = 1.0 + phase(i)

    return Trap(f, before)


@trap
def class_of_an_object(compile):
    class A:
        def k(self):
            return 1.0

    class B:
        def k(self):
            return 2.0

    o = A()

    @compile
    def f(x):
        return work(x) * o.k()

    def before(i):
        o.__class__ = B if phase(i) == 1 else A

    return Trap(f, before)


@trap
def class_of_a_module(compile):
    class A(nn.Module):
        def forward(self, x):
            return work(x)

    class B(A):
        def forward(self, x):
            return work(x) * 2

    net = A()

    def before(i):
        net.__class__ = B if phase(i) == 1 else A

    return Trap(compile(net), before)


@trap
def bases_of_a_class(compile):
    class A:
        k = 1.0

    class B:
        k = 2.0

    class C(A):
        pass

    o = C()

    @compile
    def f(x):
        return work(x) * o.k

    def before(i):
        C.__bases__ = (B,) if phase(i) == 1 else (A,)

    return Trap(f, before)


@trap
def isinstance_by_abc(compile):
    import abc

    class Kind(abc.ABC):  # noqa: B024
        pass

    class Mine:
        pass

    mine = Mine()

    @compile
    def f(x):
        return work(x) * (2.0 if isinstance(mine, Kind) else 1.0)

    def before(i):
        if i == 5:
            Kind.register(Mine)

    return Trap(f, before)


@trap
def method_that_looks_at_state(compile):
    class Schedule:
        def __init__(self):
            self.step = 0

        def value(self):
            return 1.0 / (1 + self.step)

    s = Schedule()

    @compile
    def f(x):
        return work(x) * s.value()

    def before(i):
        s.step = phase(i)

    return Trap(f, before)


@trap
def length_of_an_object(compile):
    class Sized:
        n = 1

        def __len__(self):
            return self.n

    s = Sized()

    @compile
    def f(x):
        return work(x) * len(s)

    def before(i):
        s.n = 1 + phase(i)

    return Trap(f, before)


@trap
def truth_of_an_object(compile):
    class Flag:
        on = True

        def __bool__(self):
            return self.on

    flag = Flag()

    @compile
    def f(x):
        return work(x) if flag else work(x) * 2

    def before(i):
        flag.on = phase(i) != 1

    return Trap(f, before)


@trap
def operators_of_an_object(compile):
    class Number:
        k = 1.0

        def __rmul__(self, other):
            return other * self.k

    number = Number()

    @compile
    def f(x):
        return 2.0 * number * work(x)

    def before(i):
        number.k = 1.0 + phase(i)

    return Trap(f, before)


@trap
def equality_of_an_object(compile):
    class Odd:
        same = False

        def __eq__(self, other):
            return self.same

        __hash__ = None

    odd = Odd()

    @compile
    def f(x):
        return work(x) * (2.0 if odd == 3 else 1.0)

    def before(i):
        odd.same = phase(i) == 1

    return Trap(f, before)


@trap
def callable_object(compile):
    class Scale:
        k = 1.0

        def __call__(self, x):
            return x * self.k

    scale = Scale()

    @compile
    def f(x):
        return scale(work(x))

    def before(i):
        scale.k = 1.0 + phase(i)

    return Trap(f, before)


@trap
def iterable_object(compile):
    class Factors:
        n = 1

        def __iter__(self):
            return iter(range(1, self.n + 1))

    factors = Factors()

    @compile
    def f(x):
        for k in factors:
            x = work(x) * k
        return x

    def before(i):
        factors.n = 1 + phase(i)

    return Trap(f, before)


@trap
def dataclass_field(compile):
    @dataclasses.dataclass
    class Config:
        k: float = 1.0

    config = Config()

    @compile
    def f(x):
        return work(x) * config.k

    def before(i):
        config.k = 1.0 + phase(i)

    return Trap(f, before)


@trap
def dataclass_field_not_compared(compile):
    @dataclasses.dataclass
    class Config:
        k: float = dataclasses.field(default=1.0, compare=False)

    box = [Config()]

    @compile
    def f(x):
        return work(x) * box[0].k

    def before(i):
        box[0] = Config(1.0 + phase(i))

    return Trap(f, before)


@trap
def object_that_equals_everything(compile):
    class Same:
        def __init__(self, k):
            self.k = k

        def __eq__(self, other):
            return True

        def __hash__(self):
            return 1

    box = [Same(1.0)]

    @compile
    def f(x):
        return work(x) * box[0].k

    def before(i):
        box[0] = Same(1.0 + phase(i))

    return Trap(f, before)


@trap
def named_tuple(compile):
    Point = collections.namedtuple("Point", "a b")
    box = [Point(1.0, 2.0)]

    @compile
    def f(x):
        return work(x) * box[0].b

    def before(i):
        box[0] = Point(1.0, 2.0 + phase(i))

    return Trap(f, before)


@trap
def vars_of_an_object(compile):
    box = types.SimpleNamespace(k=1.0)

    @compile
    def f(x):
        return work(x) * vars(box)["k"]

    def before(i):
        box.k = 1.0 + phase(i)

    return Trap(f, before)


@trap
def dir_of_an_object(compile):
    box = types.SimpleNamespace()

    @compile
    def f(x):
        return work(x) * (1.0 + sum(name.startswith("k") for name in dir(box)))

    def before(i):
        setattr(box, f"k{i}", i)

    return Trap(f, before)


@trap
def hasattr_of_an_object(compile):
    box = types.SimpleNamespace()

    @compile
    def f(x):
        return work(x) * (2.0 if hasattr(box, "k") else 1.0)

    def before(i):
        if phase(i):
            box.k = 1
        else:
            vars(box).clear()

    return Trap(f, before)


@trap
def attrgetter(compile):
    box = types.SimpleNamespace(a=types.SimpleNamespace(k=1.0))
    get = operator.attrgetter("a.k")

    @compile
    def f(x):
        return work(x) * get(box)

    def before(i):
        box.a.k = 1.0 + phase(i)

    return Trap(f, before)


@trap
def state_of_a_super_class(compile):
    class Base:
        def k(self):
            return self.level * 2.0

    class Derived(Base):
        level = 1.0

        def k(self):
            return super().k() + 1

    o = Derived()

    @compile
    def f(x):
        return work(x) * o.k()

    def before(i):
        o.level = 1.0 + phase(i)

    return Trap(f, before)


@trap
def metaclass_property(compile):
    class Meta(type):
        level = 1.0

        @property
        def k(cls):
            return Meta.level

    class Box(metaclass=Meta):
        pass

    @compile
    def f(x):
        return work(x) * Box.k

    def before(i):
        Meta.level = 1.0 + phase(i)

    return Trap(f, before)


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
    w, opt = weighted()
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


# --- globals, modules, the process


@trap
def global_variable(compile):
    @compile
    def f(x):
        return work(x) * FACTOR

    def before(i):
        THIS.FACTOR = 1.0 + phase(i)

    def undo():
        THIS.FACTOR = 1.0

    return Trap(f, before, undo=undo)


@trap
def global_of_a_helper(compile):
    def helper(x):
        return x * TABLE["factor"]

    @compile
    def f(x):
        return helper(work(x))

    def before(i):
        TABLE["factor"] = 1.0 + phase(i)

    return Trap(f, before)


@trap
def globals_by_name(compile):
    @compile
    def f(x):
        return work(x) * globals()["FACTOR"]

    def before(i):
        THIS.FACTOR = 1.0 + phase(i)

    def undo():
        THIS.FACTOR = 1.0

    return Trap(f, before, undo=undo)


def with_module(name, compile, make):
    module = types.ModuleType(name)
    module.k = 1.0
    sys.modules[name] = module

    def before(i):
        module.k = 1.0 + phase(i)

    return Trap(compile(make(module)), before, undo=lambda: sys.modules.pop(name, None))


@trap
def local_import(compile):
    def make(module):
        def f(x):
            import trap_local_module

            return work(x) * trap_local_module.k

        return f

    return with_module("trap_local_module", compile, make)


@trap
def local_import_from(compile):
    def make(module):
        def f(x):
            from trap_from_module import k

            return work(x) * k

        return f

    return with_module("trap_from_module", compile, make)


@trap
def sys_modules(compile):
    def make(module):
        def f(x):
            return work(x) * sys.modules["trap_sys_module"].k

        return f

    return with_module("trap_sys_module", compile, make)


@trap
def module_in_a_package(compile):
    package = types.ModuleType("trap_package")
    package.inner = types.ModuleType("trap_package.inner")
    package.inner.k = 1.0

    @compile
    def f(x):
        return work(x) * package.inner.k

    def before(i):
        package.inner.k = 1.0 + phase(i)

    return Trap(f, before)


@trap
def module_in_a_package_replaced(compile):
    package = types.ModuleType("trap_package")

    @compile
    def f(x):
        return work(x) * package.inner.k

    def before(i):
        package.inner = types.ModuleType("trap_package.inner")
        package.inner.k = 1.0 + phase(i)

    return Trap(f, before)


@trap
def import_module(compile):
    def make(module):
        def f(x):
            import importlib

            return work(x) * importlib.import_module("trap_imported_module").k

        return f

    return with_module("trap_imported_module", compile, make)


@trap
def context_variable(compile):
    @compile
    def f(x):
        return work(x) * CONTEXT.get()

    def before(i):
        CONTEXT.set(1.0 + phase(i))

    return Trap(f, before, undo=lambda: CONTEXT.set(1.0))


@trap
def thread_local(compile):
    LOCAL.k = 1.0

    @compile
    def f(x):
        return work(x) * LOCAL.k

    def before(i):
        LOCAL.k = 1.0 + phase(i)

    return Trap(f, before)


@trap
def environment(compile):
    @compile
    def f(x):
        return work(x) * float(os.environ["TRAP_FACTOR"])

    def before(i):
        os.environ["TRAP_FACTOR"] = str(1.0 + phase(i))

    return Trap(f, before, undo=lambda: os.environ.pop("TRAP_FACTOR", None))


@trap
def environment_by_getenv(compile):
    @compile
    def f(x):
        return work(x) * float(os.getenv("TRAP_GETENV", "1"))

    def before(i):
        if phase(i):
            os.environ["TRAP_GETENV"] = str(1.0 + phase(i))

    return Trap(f, before, undo=lambda: os.environ.pop("TRAP_GETENV", None))


@trap
def name_of_the_thread(compile):
    thread = threading.current_thread()
    name = thread.name

    @compile
    def f(x):
        return work(x) * (2.0 if threading.current_thread().name == "trap" else 1.0)

    def before(i):
        thread.name = "trap" if phase(i) == 1 else name

    def undo():
        thread.name = name

    return Trap(f, before, undo=undo)


@trap
def recursion_limit(compile):
    limit = sys.getrecursionlimit()

    @compile
    def f(x):
        return work(x) * (sys.getrecursionlimit() - limit)

    def before(i):
        sys.setrecursionlimit(limit + 1 + phase(i))

    return Trap(f, before, undo=lambda: sys.setrecursionlimit(limit))


@trap
def warnings_filters(compile):
    import warnings

    @compile
    def f(x):
        return work(x) * (1.0 + len(warnings.filters) * 0.01)

    kept = list(warnings.filters)

    def before(i):
        if i in (5, 7):
            warnings.simplefilter("ignore", ResourceWarning)
            warnings.filterwarnings("ignore", message=f"trap {i}")

    def undo():
        warnings.filters[:] = kept

    return Trap(f, before, undo=undo)


@trap
def default_dtype_decides(compile):
    @compile
    def f(x):
        return work(x) * T.ones(3)

    def before(i):
        T.set_default_dtype((T.float32, T.float64, T.float16)[phase(i)])

    return Trap(f, before)


@trap
def seed_read_by_hand(compile):
    @compile
    def f(x):
        return work(x) * (T.initial_seed() % 7)

    def before(i):
        T.manual_seed(phase(i))

    return Trap(f, before)


@trap
def grad_mode_around_the_call(compile):
    p = nn.Parameter(numbers(1))

    @compile
    def f(x):
        out = work(x) * p
        return out.detach() if out.requires_grad else out * 2

    def before(i):
        T.set_grad_enabled(phase(i) != 1)

    return Trap(f, before, undo=lambda: T.set_grad_enabled(True))


@trap
def deterministic_setting(compile):
    @compile
    def f(x):
        return work(x) * (2.0 if T.are_deterministic_algorithms_enabled() else 1.0)

    def before(i):
        T.use_deterministic_algorithms(phase(i) == 1)

    return Trap(f, before, undo=lambda: T.use_deterministic_algorithms(False))


@trap
def number_of_threads(compile):
    n = T.get_num_threads()

    @compile
    def f(x):
        return work(x) * T.get_num_threads()

    def before(i):
        T.set_num_threads(n + phase(i))

    return Trap(f, before, undo=lambda: T.set_num_threads(n))


@trap
def file_contents(compile):
    import pathlib
    import tempfile

    path = pathlib.Path(tempfile.mkdtemp()) / "k"

    @compile
    def f(x):
        return work(x) * float(path.read_text())

    def before(i):
        path.write_text(str(1.0 + phase(i)))

    return Trap(f, before)


@trap
def file_exists(compile):
    import pathlib
    import tempfile

    path = pathlib.Path(tempfile.mkdtemp()) / "k"

    @compile
    def f(x):
        return work(x) * (2.0 if path.exists() else 1.0)

    def before(i):
        path.touch() if phase(i) == 1 else path.unlink(missing_ok=True)

    return Trap(f, before)


@trap
def event_is_set(compile):
    event = threading.Event()

    @compile
    def f(x):
        return work(x) * (2.0 if event.is_set() else 1.0)

    def before(i):
        event.set() if phase(i) == 1 else event.clear()

    return Trap(f, before)


@trap
def lock_is_held(compile):
    lock = threading.Lock()

    @compile
    def f(x):
        return work(x) * (2.0 if lock.locked() else 1.0)

    def before(i):
        if i == 5:
            lock.acquire()
        if i == 8:
            lock.release()

    return Trap(f, before)


@trap
def size_of_a_queue(compile):
    import queue

    q = queue.Queue()

    @compile
    def f(x):
        return work(x) * (1.0 + q.qsize())

    def before(i):
        if i in (5, 7):
            q.put(1)

    return Trap(f, before)


@trap
def identity_of_objects(compile):
    a, b = [1.0], [1.0]
    box = [a]

    @compile
    def f(x):
        return work(x) * (1.0 if box[0] is a else 2.0)

    def before(i):
        box[0] = b if phase(i) == 1 else a

    return Trap(f, before)


@trap
def identity_of_tensors(compile):
    a, b = numbers(1), numbers(1)
    box = [a]

    @compile
    def f(x):
        return work(x) * (1.0 if box[0] is a else 2.0)

    def before(i):
        box[0] = b if phase(i) == 1 else a

    return Trap(f, before)


@trap
def grad_of_a_parameter_is_none(compile):
    p = nn.Parameter(numbers(1))

    @compile
    def f(x):
        return work(x) * (1.0 if p.grad is None else p.grad)

    def before(i):
        p.grad = numbers(i) if phase(i) == 1 else None

    return Trap(f, before)


@trap
def tensor_of_a_closure_written_outside(compile):
    t = numbers(1)

    @compile
    def f(x):
        return work(x) * t

    def before(i):
        t.mul_(1.5)

    return Trap(f, before)


@trap
def tensor_of_a_closure_written_through_numpy(compile):
    t = numbers(1)

    @compile
    def f(x):
        return work(x) * t

    def before(i):
        t.numpy()[0] = phase(i)

    return Trap(f, before)


@trap
def tensor_set_data(compile):
    t = numbers(1)

    @compile
    def f(x):
        return work(x) * t

    def before(i):
        t.data = numbers(i + 3)

    return Trap(f, before)


@trap
def tensor_resized(compile):
    t = T.ones(1, 3, dtype=T.float64)

    @compile
    def f(x):
        return work(x) * t

    def before(i):
        t.data = T.ones(1 + (phase(i) == 1), 3, dtype=T.float64) * (1 + phase(i))

    return Trap(f, before)


@trap
def tensor_transposed_in_place(compile):
    t = numbers(1, 2, 2)

    @compile
    def f(x):
        return work(x) @ t if x.shape[-1] == 2 else work(x[:, :2]) @ t

    def before(i):
        if i in (5, 8):
            t.t_()

    return Trap(f, before)
