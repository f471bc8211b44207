"""Traps: queues, locks, streams and the environment, which each call changes."""

# ruff: noqa: N801

from __future__ import annotations

import io
import queue
import threading
import types

from harness import Trap, trap, work


@trap
def queue_put(compile):
    q = queue.SimpleQueue()

    @compile
    def f(x):
        q.put(1)
        return work(x)

    return Trap(f, state=lambda: q.qsize())


@trap
def queue_get(compile):
    q = queue.Queue()
    for k in range(30):
        q.put(float(k))

    @compile
    def f(x):
        return work(x) * q.get()

    return Trap(f, state=lambda: q.qsize())


@trap
def event_set(compile):
    event = threading.Event()

    @compile
    def f(x):
        event.set()
        return work(x)

    return Trap(f, lambda i: event.clear(), state=lambda: event.is_set())


@trap
def lock_taken(compile):
    lock = threading.Lock()

    @compile
    def f(x):
        lock.acquire(blocking=False)
        return work(x)

    def before(i):
        if lock.locked():
            lock.release()

    return Trap(f, before, state=lambda: lock.locked())


@trap
def semaphore(compile):
    s = threading.Semaphore(40)

    @compile
    def f(x):
        s.acquire()
        return work(x)

    return Trap(f, state=lambda: s._value)


@trap
def barrier_thread_started(compile):
    log = []

    @compile
    def f(x):
        t = threading.Thread(target=log.append, args=(1,))
        t.start()
        t.join()
        return work(x)

    return Trap(f, state=lambda: log)


@trap
def printed(compile):
    out = io.StringIO()

    @compile
    def f(x):
        print("called", file=out)
        return work(x)

    return Trap(f, state=out.getvalue)


@trap
def written_to_a_stream(compile):
    out = io.StringIO()
    write = out.write

    @compile
    def f(x):
        write("called")
        return work(x)

    return Trap(f, state=out.getvalue)


@trap
def logged(compile):
    import logging

    out = io.StringIO()
    logger = logging.Logger("trap")
    logger.addHandler(logging.StreamHandler(out))

    @compile
    def f(x):
        logger.warning("called")
        return work(x)

    return Trap(f, state=out.getvalue)


@trap
def warned(compile):
    import warnings

    log = []

    @compile
    def f(x):
        warnings.showwarning("called", UserWarning, "file", 1)
        return work(x)

    plain = warnings.showwarning
    warnings.showwarning = lambda *args, **options: log.append(str(args[0]))

    def undo():
        warnings.showwarning = plain

    return Trap(f, state=lambda: [text for text in log if text == "called"], undo=undo)


@trap
def environment_written(compile):
    import os

    @compile
    def f(x):
        os.environ["TRAP_CALLS"] = str(int(os.environ.get("TRAP_CALLS", "0")) + 1)
        return work(x)

    def undo():
        os.environ.pop("TRAP_CALLS", None)

    return Trap(f, state=lambda: os.environ.get("TRAP_CALLS"), undo=undo)


@trap
def context_variable_set(compile):
    import contextvars

    var = contextvars.ContextVar("var", default=0)

    @compile
    def f(x):
        var.set(var.get() + 1)
        return work(x)

    return Trap(f, state=lambda: var.get())


@trap
def thread_local_set(compile):
    local = threading.local()
    local.n = 0

    @compile
    def f(x):
        local.n += 1
        return work(x)

    return Trap(f, state=lambda: local.n)


@trap
def module_attribute_set(compile):
    module = types.ModuleType("trap_effect_module")
    module.n = 0

    @compile
    def f(x):
        module.n += 1
        return work(x)

    return Trap(f, state=lambda: module.n)
