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
    assert "tapegrad.autograd.leaves.ADDING" in found
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
