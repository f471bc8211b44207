"""Interrupts at random moments leave the library as it was: 2,000 and more in `make thorough`."""

from __future__ import annotations

import ast
import json
import pathlib
import subprocess
import sys
from typing import Any

import pytest

import tapegrad
from tapegrad.__config__ import is_compiled

TOOL = pathlib.Path(__file__).with_name("signals.py")


def run(*arguments: Any) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, str(TOOL), *map(str, arguments)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def check(found: dict[str, Any], count: int) -> None:
    """In the pure build, one moment per block remains in which Python itself loses `__exit__`."""
    ends = found["ends"]
    if not is_compiled():
        count -= ends.pop("in a block's own code", 0)
    assert ends == {"well": count}, found["found"]


@pytest.mark.parametrize("way, count", [("timer", 70), ("points", 21)])
def test_interrupts(way: str, count: int) -> None:
    check(run(way, count, 1), count)


@pytest.mark.slow
def test_a_save_leaves_no_file_wherever_it_is_interrupted() -> None:
    assert run("every_point_of_a_save")["found"] == []


@pytest.mark.thorough
@pytest.mark.parametrize(
    "way, count, seed", [("timer", 1000, 2), ("timer", 1000, 3), ("points", 210, 4)]
)
def test_many_interrupts(way: str, count: int, seed: int) -> None:
    check(run(way, count, seed), count)


def test_modes_are_switched_by_blocks_that_no_signal_tears():
    """A handler runs between two lines of Python, so `set_mode` and `try` leave a gap.

    The blocks of core/modes.py and what else setup.py compiles have none. Who is left: functions
    of PyTorch's that switch a mode and do nothing else.
    """
    calls = ["autograd/c_names.py", "autograd/grad_mode.py", "core/thread_modes.py"]
    found = []
    package = pathlib.Path(tapegrad.__file__).parent
    compiled = (pathlib.Path(__file__).parents[2] / "setup.py").read_text(encoding="utf-8")
    for path in sorted(package.rglob("*.py")):
        name = path.relative_to(package).as_posix()
        if f'"src/tapegrad/{name}"' in compiled:
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        called = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
        if any([getattr(f, "id", "") in ("set_mode", "set_modes") for f in called]):
            found.append(name)
    assert found == [*calls, "names/_C/__init__.py"]
