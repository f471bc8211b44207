"""Traps: ordinary Python, which a compiled function must neither refuse loudly nor misread."""

# ruff: noqa: N801

from __future__ import annotations

import abc
import asyncio
import collections
import contextlib
import dataclasses
import functools
import itertools

from harness import Trap, numbers, phase, trap, work

import tapegrad as T
from tapegrad import nn


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 1.0

    def forward(self, x):
        return work(x) * self.scale


class Derived(Base):
    def forward(self, x):
        return super().forward(x) + 1


@trap
def super_in_forward(compile):
    net = Derived()

    def before(i):
        net.scale = 1.0 + phase(i)

    return Trap(compile(net), before)


@trap
def generator_function(compile):
    @compile
    def f(x):
        yield work(x)
        yield work(x) * 2

    return Trap(lambda x: list(f(x)))


@trap
def generator_helper(compile):
    def parts(x):
        for k in range(3):
            yield work(x) * k

    @compile
    def f(x):
        return sum(parts(x))

    return Trap(f)


@trap
def coroutine(compile):
    @compile
    async def f(x):
        await asyncio.sleep(0)
        return work(x)

    return Trap(lambda x: asyncio.run(f(x)))


@trap
def lambda_function(compile):
    box = [1.0]
    f = compile(lambda x: work(x) * box[0])

    def before(i):
        box[0] = 1.0 + phase(i)

    return Trap(f, before)


@trap
def function_made_by_exec(compile):
    names = {"work": work, "k": 1.0}
    exec("def f(x):\n    return work(x) * k\n", names)

    def before(i):
        names["k"] = 1.0 + phase(i)

    return Trap(compile(names["f"]), before)


@trap
def function_made_by_exec_that_counts(compile):
    names = {"work": work, "n": 0}
    exec("def f(x):\n    global n\n    n += 1\n    return work(x)\n", names)
    return Trap(compile(names["f"]), state=lambda: names["n"])


@trap
def partial_compiled(compile):
    box = [1.0]

    def f(k, x):
        return work(x) * k * box[0]

    def before(i):
        box[0] = 1.0 + phase(i)

    return Trap(compile(functools.partial(f, 2.0)), before)


@trap
def bound_method_compiled(compile):
    class Box:
        k = 1.0

        def f(self, x):
            return work(x) * self.k

    box = Box()

    def before(i):
        box.k = 1.0 + phase(i)

    return Trap(compile(box.f), before)


@trap
def decorated_method(compile):
    class Box:
        def __init__(self, k):
            self.k = k

        @compile
        def f(self, x):
            return work(x) * self.k

    boxes = [Box(1.0), Box(2.0), Box(3.0)]
    return Trap(lambda x, i: boxes[phase(i)].f(x), args=lambda i: (numbers(i), i))


@trap
def callable_object_compiled(compile):
    class Box:
        k = 1.0

        def __call__(self, x):
            return work(x) * self.k

    box = Box()

    def before(i):
        box.k = 1.0 + phase(i)

    return Trap(compile(box), before)


@trap
def match_statement(compile):
    box = ["a"]

    @compile
    def f(x):
        match box[0]:
            case "a":
                return work(x)
            case {"k": k}:
                return work(x) * k
            case _:
                return work(x) + 1

    def before(i):
        box[0] = ("a", {"k": 3.0}, "b")[phase(i)]

    return Trap(f, before)


@trap
def walrus_and_conditional(compile):
    box = [2]

    @compile
    def f(x):
        return work(x) * n if (n := box[0]) > 2 else work(x)

    def before(i):
        box[0] = 2 + phase(i)

    return Trap(f, before)


@trap
def loop_with_else(compile):
    values = [1, 2, 3]

    @compile
    def f(x):
        for v in values:
            if v > 3:
                break
            x = work(x)
        else:
            x = x * 2
        return x

    def before(i):
        values[1] = 2 + phase(i)

    return Trap(f, before)


@trap
def star_arguments(compile):
    @compile
    def f(*xs, **options):
        return sum(work(x) for x in xs) * options.get("k", 1.0)

    def called(x, i):
        return f(*[x] * (1 + phase(i)), k=1.0 + phase(i))

    return Trap(called, args=lambda i: (numbers(i), i))


@trap
def nested_functions(compile):
    k = 1.0

    @compile
    def f(x):
        def inner(y):
            def innermost(z):
                return z * k

            return innermost(work(y))

        return inner(x)

    def before(i):
        nonlocal k
        k = 1.0 + phase(i)

    return Trap(f, before)


@trap
def nested_function_with_its_own_state(compile):
    @compile
    def f(x):
        n = 0

        def count():
            nonlocal n
            n += 1
            return n

        for _ in range(3):
            x = work(x) * count()
        return x, n

    return Trap(f)


@trap
def local_class(compile):
    @compile
    def f(x):
        class Box:
            k = 2.0

        return work(x) * Box.k

    return Trap(f)


@trap
def local_object(compile):
    class Box:
        def __init__(self, k):
            self.k = k
            self.log = []

        def scale(self, x):
            self.log.append(1)
            return x * self.k * len(self.log)

    @compile
    def f(x, k):
        box = Box(k)
        return box.scale(box.scale(work(x)))

    return Trap(f, args=lambda i: (numbers(i), 1.0 + phase(i)))


@trap
def local_list_and_dict(compile):
    @compile
    def f(x):
        outs, named = [], {}
        for k in range(3):
            outs.append(work(x) * k)
            named[f"k{k}"] = outs[-1]
        named["k0"] = outs.pop()
        return outs, named

    return Trap(f)


@trap
def returned_dataclass(compile):
    @dataclasses.dataclass
    class Output:
        logits: object
        loss: object = None

    @compile
    def f(x):
        return Output(work(x), work(x).sum())

    def called(x):
        out = f(x)
        return out.logits, out.loss

    return Trap(called)


@trap
def returned_named_tuple(compile):
    Output = collections.namedtuple("Output", "logits loss")  # noqa: N806

    @compile
    def f(x):
        return Output(work(x), work(x).sum())

    def called(x):
        out = f(x)
        return out.logits, out.loss, type(out).__name__

    return Trap(called)


@trap
def returned_list_is_mine(compile):
    @compile
    def f(x):
        return [work(x), 1]

    def called(x):
        out = f(x)
        out.append(2)
        return out

    return Trap(called)


@trap
def returned_list_of_somebody(compile):
    kept = []

    @compile
    def f(x):
        kept.clear()
        kept.append(work(x))
        return kept

    return Trap(lambda x: (f(x)[0], f(x) is kept))


@trap
def returned_function(compile):
    @compile
    def f(x):
        out = work(x)
        return lambda y: out * y

    return Trap(lambda x: f(x)(2.0))


@trap
def returned_distribution(compile):
    @compile
    def f(x):
        return T.distributions.Normal(work(x), 1.0)

    return Trap(lambda x: f(x).mean)


@trap
def returns_nothing(compile):
    t = numbers(1)

    @compile
    def f(x):
        t.add_(work(x.detach()))

    return Trap(f, state=lambda: t)


@trap
def returns_numbers_and_text(compile):
    @compile
    def f(x):
        work(x)
        return 1, 2.0, "three", None, True, (4,), [5], {"six": 7}, {8}, 1j, b"9", x.shape, x.dtype

    def called(x):
        out = f(x)
        return *out[:-2], tuple(out[-2]), str(out[-1])

    return Trap(called)


@trap
def exit_stack(compile):
    @compile
    def f(x):
        with contextlib.ExitStack() as stack:
            stack.enter_context(T.no_grad())
            stack.callback(int)
            return work(x)

    return Trap(f)


@trap
def try_and_finally(compile):
    box = [1.0]

    @compile
    def f(x):
        try:
            if box[0] > 1:
                raise KeyError("k")
            x = work(x)
        except KeyError:
            x = work(x) * 3
        finally:
            x = x + 1
        return x

    def before(i):
        box[0] = 1.0 + phase(i)

    return Trap(f, before)


@trap
def exception_raised(compile):
    box = [0]

    @compile
    def f(x):
        out = work(x)
        if box[0]:
            raise ValueError(f"no {box[0]}")
        return out

    def before(i):
        box[0] = phase(i)

    return Trap(f, before)


@trap
def attribute_error(compile):
    class Box:
        pass

    box = Box()

    @compile
    def f(x):
        try:
            return work(x) * box.k
        except AttributeError:
            return work(x)

    def before(i):
        if phase(i):
            box.k = 1.0 + phase(i)
        else:
            vars(box).clear()

    return Trap(f, before)


@trap
def missing_key(compile):
    d = {}

    @compile
    def f(x):
        try:
            return work(x) * d["k"]
        except KeyError:
            return work(x)

    def before(i):
        d.clear()
        if phase(i):
            d["k"] = 1.0 + phase(i)

    return Trap(f, before)


@trap
def get_with_a_default(compile):
    d = {}

    @compile
    def f(x):
        return work(x) * d.get("k", 1.0)

    def before(i):
        d.clear()
        if phase(i):
            d["k"] = 1.0 + phase(i)

    return Trap(f, before)


@trap
def zip_of_lists(compile):
    a, b = [1.0, 2.0], [3.0, 4.0]

    @compile
    def f(x):
        for p, q in zip(a, b, strict=False):
            x = work(x) * p + q
        return x

    def before(i):
        b[1] = 4.0 + phase(i)

    return Trap(f, before)


@trap
def itertools_product(compile):
    a = [1.0, 2.0]

    @compile
    def f(x):
        for p, q in itertools.product(a, a):
            x = work(x) * p + q
        return x

    def before(i):
        a[1] = 2.0 + phase(i)

    return Trap(f, before)


@trap
def abstract_class(compile):
    class Shape(abc.ABC):
        @abc.abstractmethod
        def k(self): ...

    class Square(Shape):
        side = 1.0

        def k(self):
            return self.side**2

    square = Square()

    @compile
    def f(x):
        return work(x) * square.k()

    def before(i):
        square.side = 1.0 + phase(i)

    return Trap(f, before)


@trap
def attr_dict_of_a_closure(compile):
    class AttrDict(dict):
        __getattr__ = dict.__getitem__

    config = AttrDict(model=AttrDict(scale=1.0))

    @compile
    def f(x):
        return work(x) * config.model.scale

    def before(i):
        config["model"]["scale"] = 1.0 + phase(i)

    return Trap(f, before)


@trap
def star_import_of_a_helper(compile):
    """A helper of another file that looks at its own globals."""
    import harness

    @compile
    def f(x):
        return harness.work(x) * harness.CALLS

    kept = harness.CALLS

    def before(i):
        harness.CALLS = kept + phase(i)

    def undo():
        harness.CALLS = kept

    return Trap(f, before, undo=undo)


@trap
def docstring_name_and_annotations(compile):
    @compile
    def f(x: object) -> object:
        """A function."""
        return work(x) * len(f.__doc__) * len(f.__name__) * len(f.__annotations__)

    return Trap(f)


@trap
def global_shadowed_by_a_local(compile):
    @compile
    def f(x):
        work = T.sin
        return work(work(work(work(work(x)))))

    return Trap(f)


@trap
def variable_deleted(compile):
    @compile
    def f(x):
        k = work(x)
        y = k * 2
        del k
        try:
            return y + k  # noqa: F821
        except UnboundLocalError:
            return y

    return Trap(f)


@trap
def comprehension_with_a_condition(compile):
    values = [1.0, 2.0, 3.0]

    @compile
    def f(x):
        return T.stack([work(x) * v for v in values if v > 1.5]).sum(0)

    def before(i):
        values[0] = 1.0 + phase(i)

    return Trap(f, before)


@trap
def recursion_over_a_tree(compile):
    tree = {"l": {"l": 1.0, "r": 2.0}, "r": 3.0}

    def total(node, x):
        if isinstance(node, float):
            return work(x) * node
        return total(node["l"], x) - total(node["r"], x)

    @compile
    def f(x):
        return total(tree, x)

    def before(i):
        tree["l"]["r"] = (2.0, 5.0, {"l": 1.0, "r": 4.0})[phase(i)]

    return Trap(f, before)


@trap
def is_compiling_decides(compile):
    """Whatever the function does while it is recorded, both answers are right here."""

    @compile
    def f(x):
        return work(x) + 0.0 if T.compiler.is_compiling() else work(x)

    return Trap(f)


@trap
def printed_to_nowhere(compile):
    import io

    @compile
    def f(x):
        text = io.StringIO()
        print("a", file=text)
        return work(x) * len(text.getvalue())

    return Trap(f)


@trap
def copy_of_an_argument(compile):
    import copy

    @compile
    def f(x):
        y = copy.copy(x)
        y = copy.deepcopy(y)
        y.add_(1)
        return work(x) + y

    return Trap(f)


@trap
def pickled_inside(compile):
    import pickle

    @compile
    def f(x):
        return work(x) + pickle.loads(pickle.dumps(x))

    return Trap(f)


@trap
def data_of_a_result_written(compile):
    @compile
    def f(x):
        out = work(x)
        out.data.numpy()[0] = 5
        return out

    return Trap(f)


@trap
def numpy_inside(compile):
    import numpy as np

    @compile
    def f(x):
        return work(x) + T.from_numpy(np.sqrt(np.abs(x.numpy())))

    return Trap(f)


@trap
def dlpack_inside(compile):
    @compile
    def f(x):
        y = T.from_dlpack(x)
        return work(y) + 1

    return Trap(f)
