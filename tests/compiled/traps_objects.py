"""Traps: attributes and behaviour of objects that change between two calls."""

# ruff: noqa: N801, N805, N806  (small classes and constants of one trap)

from __future__ import annotations

import collections
import dataclasses
import enum
import operator
import types
import weakref

from harness import Trap, phase, trap, work

from tapegrad import nn

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
def property_written_in_c_far_inside(compile):
    """In containers deeper than anything but the reads themselves is looked at."""

    class Row(list):
        k = property(operator.itemgetter(0))

    row = Row([1.0])
    kept = {"a": [[[[[[row]]]]]]}

    @compile
    def f(x):
        return work(x) * kept["a"][0][0][0][0][0][0].k

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
