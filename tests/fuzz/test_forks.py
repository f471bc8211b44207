"""Children of a fork find every lock of the library free."""

from __future__ import annotations

import ast
import json
import os
import pathlib
import pkgutil
import subprocess
import sys
import threading
import types
from typing import Any

import pytest

import tapegrad
from tapegrad.core import locks

TOOL = pathlib.Path(__file__).with_name("forks.py")
PACKAGE = pathlib.Path(tapegrad.__file__).parent
MAKERS = {"Barrier", "BoundedSemaphore", "Condition", "Event", "Lock", "RLock", "Semaphore"}
KINDS = (type(threading.Lock()), type(threading.RLock()), threading.Event, threading.Condition)
# A program of its own, started by mpiexec: it forks before it has threads, and never again.
NOT_OF_THE_LIBRARY = {"distributed/_supervise.py"}


def made_elsewhere(path: pathlib.Path) -> list[str]:
    """The calls of a file that make locks by themselves."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            if called in {f"threading.{name}" for name in MAKERS} or called in (
                "_thread.allocate_lock",
                "allocate_lock",
            ):
                found.append(f"{path.relative_to(PACKAGE)}:{node.lineno} {called}")
        if isinstance(node, ast.ImportFrom) and node.module in ("threading", "_thread"):
            names = [alias.name for alias in node.names if alias.name in MAKERS]
            found += [f"{path.relative_to(PACKAGE)}:{node.lineno} import {n}" for n in names]
    return found


def test_locks_are_made_in_one_place() -> None:
    own = {PACKAGE / "core" / "locks.py", *(PACKAGE / name for name in NOT_OF_THE_LIBRARY)}
    files = [path for path in sorted(PACKAGE.rglob("*.py")) if path not in own]
    assert [line for path in files for line in made_elsewhere(path)] == []


def held_by_modules() -> dict[str, Any]:
    """The locks in modules, in their classes and in single objects of ours."""
    for module in pkgutil.iter_modules([str(PACKAGE / "core")], "tapegrad.core."):
        __import__(module.name)
    found: dict[str, Any] = {}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] != "tapegrad" or not isinstance(module, types.ModuleType):
            continue
        for key, value in list(vars(module).items()):
            if isinstance(value, KINDS):
                found[f"{name}.{key}"] = value
            elif getattr(type(value), "__module__", "").startswith("tapegrad") or (
                isinstance(value, type) and value.__module__ == name
            ):
                inner = dict(getattr(value, "__dict__", {}))
                found.update(
                    {f"{name}.{key}.{k}": v for k, v in inner.items() if isinstance(v, KINDS)}
                )
    return found


def test_locks_of_modules_are_known() -> None:
    tapegrad.randn(3)
    found = held_by_modules()
    assert "tapegrad.ops.draws.twister._STARTING" in found
    assert "tapegrad.core.node.ADDING" in found
    assert [name for name, lock in found.items() if lock not in locks.KNOWN] == []
    assert tapegrad.default_generator.stream._bits.lock in locks.KNOWN


def test_locks_are_free_in_the_child() -> None:
    """Held by another thread: free in the child. Held by the one that forks: still held."""
    others, own = locks.new_lock(), locks.new_rlock()
    held = threading.Event()
    go_on = threading.Event()

    def hold() -> None:
        with others:
            held.set()
            go_on.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    with own:
        pid = os.fork()
        if pid == 0:
            os._exit(0 if others.acquire(timeout=5) and own._is_owned() else 1)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    go_on.set()
    thread.join()
    assert status == 0


IMPORTING = """
import importlib.abc, importlib.machinery, os, select, sys, threading, time
import tapegrad

class Slow(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path, target=None):
        if name == "tapegrad.imported_slowly":
            begun.set()
            time.sleep(0.1)  # the lock is held before the module exists
            return importlib.machinery.ModuleSpec(name, self)

    def exec_module(self, module):
        time.sleep(0.1)
        module.done = True

begun = threading.Event()
sys.meta_path.insert(0, Slow())
thread = threading.Thread(target=lambda: __import__("tapegrad.imported_slowly"))
thread.start()
begun.wait()
time.sleep(float(sys.argv[1]))
reading, writing = os.pipe()
pid = os.fork()
if pid == 0:
    import tapegrad.imported_slowly
    os.write(writing, b"well" if tapegrad.imported_slowly.done else b"half")
    os._exit(0)
print(os.read(reading, 9) if select.select([reading], [], [], 10)[0] else "hangs", end="")
os.kill(pid, 9)
thread.join()
"""


@pytest.mark.parametrize("late", [0.0, 0.15])
def test_a_fork_waits_for_imports_of_other_threads(late: float) -> None:
    """A child cannot finish an import that a thread of its parent had begun."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORTING, str(late)], capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.returncode) == ("b'well'", 0), done.stderr


def test_a_fork_in_an_import_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that forks is itself importing: only imports of other threads are waited for."""
    bootstrap = sys.modules["_frozen_importlib"]
    lock = bootstrap._ModuleLock("tapegrad.of_this_thread")  # type: ignore[attr-defined]
    known = {"tapegrad.of_this_thread": lambda: lock}
    monkeypatch.setattr(bootstrap, "_module_locks", known)
    with_others = []
    for owner in (threading.get_ident(), None, threading.get_ident() + 1):
        lock.owner = owner
        with_others.append(locks.others_import())
    assert with_others == [False, False, True]


def test_no_thread_is_the_first_to_import_logging() -> None:
    """In the middle of a fork, the second of the hooks that it adds would run without the first."""
    code = "import sys, tapegrad; sys.exit('logging' not in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def run(count: int, seed: int) -> None:
    done = subprocess.run(
        [sys.executable, str(TOOL), str(count), str(seed)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert json.loads(done.stdout)["ends"] == {"well": count}


def test_forks_while_threads_are_busy() -> None:
    run(20, 1)


@pytest.mark.thorough
def test_many_forks_while_threads_are_busy() -> None:
    run(300, 2)
