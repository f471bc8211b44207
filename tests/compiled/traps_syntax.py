"""Traps: Python's syntax and order of evaluation, which code that is rewritten could get wrong."""

# ruff: noqa: N801, B020, E731, B023, C416, C417, PLR0133, RUF005

from __future__ import annotations

import functools
import inspect
import sys
import types

from harness import Trap, numbers, phase, trap, work

import tapegrad as T
from tapegrad import nn

LEVEL = 1.0
THIS = sys.modules[__name__]


def logged(log, name, value):
    log.append(name)
    return value


@trap
def order_of_operands(compile):
    log = []

    @compile
    def f(x):
        return logged(log, "a", work(x)) * logged(log, "b", 2.0) + logged(log, "c", 1.0)

    return Trap(f, state=lambda: log)


@trap
def order_of_arguments(compile):
    log = []

    def helper(a, b, *rest, k=1, **more):
        return a * b

    @compile
    def f(x):
        return helper(
            logged(log, "a", work(x)),
            *logged(log, "rest", [2.0, 3.0]),
            k=logged(log, "k", 1),
            **logged(log, "more", {"z": 1}),
        )

    return Trap(f, state=lambda: log)


@trap
def order_of_an_augmented_assignment(compile):
    log, values = [], {"k": 1.0}

    @compile
    def f(x):
        logged(log, "d", values)[logged(log, "i", "k")] += logged(log, "v", 1.0)
        return work(x) * values["k"]

    return Trap(f, state=lambda: (log, values))


@trap
def short_circuits(compile):
    log = []
    box = [0]

    @compile
    def f(x):
        a = logged(log, "a", box[0]) and logged(log, "b", 2.0)
        b = logged(log, "c", box[0]) or logged(log, "d", 3.0)
        return work(x) * (a + b)

    def before(i):
        box[0] = phase(i)

    return Trap(f, before, state=lambda: log)


@trap
def chained_comparison(compile):
    log = []
    box = [1]

    @compile
    def f(x):
        inside = 0 < logged(log, "a", box[0]) < logged(log, "b", 2)
        return work(x) if inside else work(x) * 2

    def before(i):
        box[0] = 1 + phase(i) if phase(i) != 2 else -1

    return Trap(f, before, state=lambda: log)


@trap
def starred_targets(compile):
    values = [1.0, 2.0, 3.0, 4.0]

    @compile
    def f(x):
        first, *middle, (last) = values
        (a, b), c = middle, first
        return work(x) * first + a * b + c - last

    def before(i):
        values[2] = 3.0 + phase(i)

    return Trap(f, before)


@trap
def swapped_items(compile):
    values = [1.0, 2.0]

    @compile
    def f(x):
        values[0], values[1] = values[1], values[0]
        return work(x) * values[0]

    return Trap(f, state=lambda: values)


@trap
def swapped_attributes(compile):
    box = types.SimpleNamespace(a=1.0, b=2.0)

    @compile
    def f(x):
        box.a, box.b = box.b, box.a
        return work(x) * box.a

    return Trap(f, state=lambda: (box.a, box.b))


@trap
def loop_target_is_an_attribute(compile):
    box = types.SimpleNamespace(k=0.0)

    @compile
    def f(x):
        for box.k in (1.0, 2.0):
            x = work(x) * box.k
        box.k = box.k + 1
        return x

    return Trap(f, state=lambda: box.k)


@trap
def loop_target_is_an_item(compile):
    d = {}

    @compile
    def f(x):
        for d["k"] in (1.0, 2.0 + len(d)):
            x = work(x) * d["k"]
        return x

    return Trap(f, state=lambda: d)


@trap
def with_target_is_an_attribute(compile):
    import contextlib

    box = types.SimpleNamespace(k=None)

    @compile
    def f(x):
        with contextlib.nullcontext(2.0) as box.k:
            x = work(x) * box.k
        return x

    return Trap(f, state=lambda: box.k)


@trap
def private_name(compile):
    class Net:
        def __init__(self):
            self.__k = 1.0

        def set(self, k):
            self.__k = k

        def f(self, x):
            return work(x) * self.__k

    net = Net()

    def before(i):
        net.set(1.0 + phase(i))

    return Trap(compile(net.f), before)


@trap
def private_name_written(compile):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.__calls = 0

        def forward(self, x):
            self.__calls += 1
            return work(x) * self.__calls

    net = Net()
    return Trap(compile(net), state=lambda: net._Net__calls)


@trap
def zero_argument_super(compile):
    class Base:
        k = 1.0

        def scale(self):
            return self.k

    class Derived(Base):
        def scale(self):
            return super().scale() * 2

        def f(self, x):
            return work(x) * super().scale() * self.scale()

    made = Derived()

    def before(i):
        Base.k = 1.0 + phase(i)

    return Trap(compile(made.f), before)


@trap
def class_cell(compile):
    class Net:
        k = 1.0

        def f(self, x):
            return work(x) * __class__.k

    net = Net()

    def before(i):
        Net.k = 1.0 + phase(i)

    return Trap(compile(net.f), before)


@trap
def decorator_runs_once(compile):
    log = []

    def noted(function):
        log.append(function.__name__)
        return function

    @noted
    def helper(x):
        return work(x) * 2

    @compile
    @noted
    def f(x):
        return helper(x)

    return Trap(f, state=lambda: log)


@trap
def defaults_are_evaluated_once(compile):
    log = []

    def helper(x, k=logged(log, "default", 2.0), *, m=logged(log, "keyword", [])):  # noqa: B006, B008
        m.append(1)
        return work(x) * k * len(m)

    @compile
    def f(x):
        return helper(x)

    return Trap(f, state=lambda: log)


@trap
def nested_defaults_are_evaluated_each_time(compile):
    log = []

    @compile
    def f(x):
        def inner(y, k=logged(log, "d", 2.0)):  # noqa: B008
            return y * k

        return inner(work(x))

    return Trap(f, state=lambda: log)


@trap
def annotations_are_not_evaluated_again(compile):
    log = []

    @compile
    def f(x):
        y: logged(log, "annotation", int) = work(x)
        return y

    return Trap(f, state=lambda: log)


@trap
def two_lambdas_on_one_line(compile):
    box = [1.0]
    a, b = (lambda x: work(x) * box[0]), (lambda x: work(x) + box[0])
    made_a, made_b = compile(a), compile(b)

    def before(i):
        box[0] = 1.0 + phase(i)

    return Trap(lambda x: (made_a(x), made_b(x)), before)


@trap
def lambdas_of_a_loop(compile):
    makes = [lambda x, k=k: work(x) * k for k in (1.0, 2.0, 3.0)]
    made = [compile(each) for each in makes]
    return Trap(lambda x: [each(x) for each in made])


@trap
def functions_of_one_line_with_other_closures(compile):
    def make(k):
        def f(x):
            return work(x) * k

        return compile(f)

    made = [make(1.0), make(2.0), make([3.0][0])]
    return Trap(lambda x: [each(x) for each in made])


@trap
def helpers_of_one_line_with_other_closures(compile):
    def make(k):
        def helper(x):
            return work(x) * k

        return helper

    helpers = [make(1.0), make(2.0)]

    @compile
    def f(x):
        return helpers[0](x) + helpers[1](x)

    def before(i):
        helpers[1] = make(2.0 + phase(i))

    return Trap(f, before)


@trap
def conditional_function_definition(compile):
    box = [0]

    @compile
    def f(x):
        if box[0]:

            def inner(y):
                return y * 3
        else:

            def inner(y):
                return y * 2

        return inner(work(x))

    def before(i):
        box[0] = phase(i)

    return Trap(f, before)


@trap
def comprehension_scopes(compile):
    k = 5.0

    @compile
    def f(x):
        a = [k * j for j in range(3)]
        b = {j: [m for m in range(j)] for j in range(3)}
        c = {m for n in b.values() for m in n}
        d = sum(last := j for j in range(4))
        return work(x) * (sum(a) + len(c) + d + last + k)

    def before(i):
        nonlocal k
        k = 5.0 + phase(i)

    return Trap(f, before)


@trap
def generator_expression_is_lazy(compile):
    log = []

    @compile
    def f(x):
        source = (logged(log, j, j) for j in range(5))
        return work(x) * next(j for j in source if j > 1)

    return Trap(f, state=lambda: log)


@trap
def closure_sees_later_assignment(compile):
    @compile
    def f(x):
        k = 1.0
        inner = lambda y: y * k
        k = 2.0
        return inner(work(x))

    return Trap(f)


@trap
def nested_nonlocal(compile):
    total = 0

    @compile
    def f(x):
        def count():
            nonlocal total
            total += 1
            return total

        return work(x) * count()

    return Trap(f, state=lambda: total)


@trap
def nested_global(compile):
    THIS.LEVEL = 1.0

    @compile
    def f(x):
        def count():
            global LEVEL
            LEVEL += 1
            return LEVEL

        return work(x) * count()

    return Trap(f, state=lambda: LEVEL)


@trap
def global_deleted(compile):
    @compile
    def f(x):
        try:
            return work(x) * TEMPORARY
        except NameError:
            return work(x)

    def before(i):
        if phase(i):
            THIS.TEMPORARY = 1.0 + phase(i)
        else:
            vars(THIS).pop("TEMPORARY", None)

    return Trap(f, before, undo=lambda: vars(THIS).pop("TEMPORARY", None))


@trap
def builtin_shadowed_later(compile):
    @compile
    def f(x):
        return work(x) * abs(-2.0)

    def before(i):
        if phase(i) == 1:
            THIS.abs = lambda v: 7.0
        else:
            vars(THIS).pop("abs", None)

    return Trap(f, before, undo=lambda: vars(THIS).pop("abs", None))


@trap
def exception_variable(compile):
    log = []

    @compile
    def f(x):
        try:
            [][1]
        except (KeyError, IndexError) as error:
            log.append(type(error).__name__)
            kept = error
        try:
            error  # noqa: B018, F821
        except NameError:
            log.append("gone")
        return work(x) * len(str(kept))

    return Trap(f, state=lambda: log)


@trap
def exception_chains(compile):
    @compile
    def f(x):
        work(x)
        try:
            raise KeyError("first")
        except KeyError as error:
            raise ValueError("second") from error

    def called(x):
        try:
            f(x)
        except ValueError as error:
            return repr(error), repr(error.__cause__)

    return Trap(called)


@trap
def line_of_an_exception(compile):
    @compile
    def f(x):
        work(x)
        raise ValueError("here")

    def called(x):
        try:
            f(x)
        except ValueError as error:
            tb = error.__traceback__
            while tb.tb_next:
                tb = tb.tb_next
            return tb.tb_lineno, tb.tb_frame.f_code.co_name

    return Trap(called)


@trap
def return_in_finally(compile):
    @compile
    def f(x):
        for k in range(3):
            try:
                if k == 1:
                    continue
                if k == 2:
                    return work(x) * k
            finally:
                x = work(x)
        return x

    return Trap(f)


@trap
def exception_groups(compile):
    log = []

    @compile
    def f(x):
        try:
            raise ExceptionGroup("some", [ValueError(1), KeyError(2)])
        except* ValueError:
            log.append("value")
        except* KeyError:
            log.append("key")
        return work(x)

    return Trap(f, state=lambda: log)


@trap
def delegating_generator(compile):
    def inner(x):
        got = yield work(x)
        yield x * got
        return 3.0

    def outer(x):
        result = yield from inner(x)
        yield x + result

    @compile
    def f(x):
        g = outer(x)
        a = next(g)
        b = g.send(2.0)
        return a + b + next(g)

    return Trap(f)


@trap
def generator_closed_early(compile):
    log = []

    def source(x):
        try:
            yield work(x)
            yield x
        finally:
            log.append("closed")

    @compile
    def f(x):
        for value in source(x):
            return value * 2

    return Trap(f, state=lambda: log)


@trap
def locals_inside(compile):
    @compile
    def f(x):
        a, b = 1.0, 2.0
        return work(x) * sum(v for k, v in sorted(locals().items()) if isinstance(v, float)) + a + b

    return Trap(f)


@trap
def frames_inside(compile):
    @compile
    def f(x):
        frame = sys._getframe()
        name = inspect.currentframe().f_code.co_name
        return work(x) * len(name) * (1 + ("x" in frame.f_locals))

    return Trap(f)


@trap
def signature_of_itself(compile):
    @compile
    def f(x, k: int = 2, *, m=3):
        return work(x) * len(inspect.signature(f).parameters) * k * m

    return Trap(f)


@trap
def code_constants(compile):
    """Names that rewriting might use itself."""

    @compile
    def f(x):
        _ = 1.0
        __hook__ = 2.0
        hooks = read = store = call = guard = 1.0
        return work(x) * _ * __hook__ * hooks * read * store * call * guard

    return Trap(f)


@trap
def f_strings(compile):
    class Box:
        k = 1.0

        def __format__(self, spec):
            return f"{self.k:{spec or '.1f'}}"

    box = Box()

    @compile
    def f(x):
        width = 6
        return work(x) * float(f"{box:{width}.2f}") + len(f"{box!r:.3}{box=:.1f}")

    def before(i):
        box.k = 1.0 + phase(i)

    return Trap(f, before)


@trap
def match_with_classes(compile):
    class Point:
        __match_args__ = ("a", "b")

        def __init__(self, a, b):
            self.a, self.b = a, b

    box = [Point(1.0, 2.0)]

    @compile
    def f(x):
        match box[0]:
            case Point(1.0, b):
                return work(x) * b
            case Point(a, b) if a > 2:
                return work(x) * a + b
            case [a, *_] | {"a": a}:
                return work(x) * a
            case _:
                return work(x) - 1

    def before(i):
        box[0] = (Point(1.0, 2.0), Point(3.0, 1.0), [4.0, 5.0])[phase(i)]

    return Trap(f, before)


@trap
def slices_and_ellipsis(compile):
    bounds = [0, 2]

    @compile
    def f(x):
        lo, hi = bounds
        return work(x)[..., lo:hi], work(x)[:, None, lo:], work(x)[(slice(lo, hi),)]

    def before(i):
        bounds[1] = 2 if phase(i) != 1 else 1

    return Trap(f, before)


@trap
def matrix_multiplication_of_objects(compile):
    class Scale:
        k = 1.0

        def __rmatmul__(self, other):
            return other * self.k

    scale = Scale()

    @compile
    def f(x):
        return 2.0 @ scale * work(x)

    def before(i):
        scale.k = 1.0 + phase(i)

    return Trap(f, before)


@trap
def in_place_operator_of_objects(compile):
    class Total:
        def __init__(self):
            self.value = 0.0

        def __iadd__(self, other):
            self.value += other
            return self

    total = Total()

    @compile
    def f(x):
        t = total
        t += 1.0
        return work(x) * t.value

    return Trap(f, state=lambda: total.value)


@trap
def container_methods_of_objects(compile):
    class Table:
        def __init__(self):
            self.d, self.log = {"k": 1.0}, []

        def __getitem__(self, key):
            self.log.append(("get", key))
            return self.d[key]

        def __setitem__(self, key, value):
            self.log.append(("set", key))
            self.d[key] = value

        def __delitem__(self, key):
            self.log.append(("del", key))

        def __contains__(self, key):
            self.log.append(("in", key))
            return True

    table = Table()

    @compile
    def f(x):
        table["k"] += 1.0
        del table["other"]
        return work(x) * table["k"] * ("z" in table)

    return Trap(f, state=lambda: (table.log, table.d))


@trap
def attribute_methods_of_objects(compile):
    log = []

    class Odd:
        def __setattr__(self, name, value):
            log.append(("set", name))
            object.__setattr__(self, name, value)

        def __delattr__(self, name):
            log.append(("del", name))
            object.__delattr__(self, name)

    odd = Odd()

    @compile
    def f(x):
        odd.k = 2.0
        k = odd.k
        del odd.k
        return work(x) * k

    return Trap(f, state=lambda: (log, dict(vars(odd))))


@trap
def iterator_protocol(compile):
    class Source:
        n = 0

        def __iter__(self):
            return self

        def __next__(self):
            self.n += 1
            if self.n % 3 == 0:
                raise StopIteration
            return float(self.n)

    source = Source()

    @compile
    def f(x):
        for k in source:
            x = work(x) * k
        return x

    return Trap(f, state=lambda: source.n)


@trap
def class_made_inside(compile):
    log = []

    @compile
    def f(x):
        class Made:
            k = logged(log, "body", 2.0)

            def __init_subclass__(cls, **options):
                log.append(sorted(options))

        class Sub(Made, option=1):
            pass

        return work(x) * Sub.k

    return Trap(f, state=lambda: log)


@trap
def named_function_attributes(compile):
    @compile
    @functools.lru_cache(None)
    def helper(k):
        return k * 2.0

    @compile
    def f(x, k):
        return work(x) * helper(k)

    return Trap(f, args=lambda i: (numbers(i), 1.0 + phase(i)))


@trap
def conditional_import(compile):
    box = [0]

    @compile
    def f(x):
        if box[0]:
            from math import e as constant
        else:
            from math import pi as constant
        return work(x) * constant

    def before(i):
        box[0] = phase(i)

    return Trap(f, before)


@trap
def source_that_changed_since(compile):
    """The file of a function was edited after it was imported: its code is what runs."""
    import importlib.util
    import pathlib
    import tempfile

    path = pathlib.Path(tempfile.mkdtemp()) / "trap_edited.py"
    path.write_text("K = 2.0\n\n\ndef scale(x):\n    return x * K\n")
    spec = importlib.util.spec_from_file_location("trap_edited", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    path.write_text("K = 2.0\n\n\ndef scale(x):\n    return x * K * 100\n")

    @compile
    def f(x):
        return module.scale(work(x))

    def before(i):
        module.K = 2.0 + phase(i)

    return Trap(f, before)


@trap
def tensor_methods_by_name(compile):
    names = ["tanh", "sin"]

    @compile
    def f(x):
        for name in names:
            x = getattr(work(x), name)()
        return x

    def before(i):
        names[1] = ("sin", "cos", "exp")[phase(i)]

    return Trap(f, before)


@trap
def tensor_item_assignment_in_a_loop(compile):
    @compile
    def f(x):
        out = T.zeros_like(x)
        for k in range(x.shape[0]):
            out[k] = work(x[k]) * k
            out[k, 0] += 1
        return out

    return Trap(f)


@trap
def unused_branch_with_an_error(compile):
    box = [0]

    @compile
    def f(x):
        if box[0]:
            return undefined_name * x  # noqa: F821
        return work(x)

    def before(i):
        box[0] = phase(i)

    return Trap(f, before)
