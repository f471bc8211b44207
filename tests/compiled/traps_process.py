"""Traps: globals, modules, settings and files that change between two calls."""

# ruff: noqa: N801, N805, N806  (small classes and constants of one trap)

from __future__ import annotations

import contextvars
import os
import sys
import threading
import types

from harness import Trap, numbers, phase, trap, work

import tapegrad as T
from tapegrad import nn

FACTOR = 1.0
TABLE = {"factor": 1.0}
CONTEXT = contextvars.ContextVar("CONTEXT", default=1.0)
LOCAL = threading.local()
THIS = sys.modules[__name__]


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
