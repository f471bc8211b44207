"""Handles and workspaces of cuBLAS: who shares them, on a library that only takes notes."""

from __future__ import annotations

import subprocess
import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from tapegrad.backends.gpu import cublas, cublaslt
from tapegrad.core.devices import DEVICE


class Notes:
    """Stands for the C library: every function succeeds."""

    def __init__(self) -> None:
        self.made = 0
        self.calls: list[tuple[str, int]] = []

    def cublasCreate_v2(self, handle: Any) -> int:
        self.made += 1
        handle._obj.value = self.made
        return 0

    def cublasSetStream_v2(self, handle: Any, stream: Any) -> int:
        self.calls.append(("stream", stream.value or 0))
        return 0

    def cublasSetWorkspace_v2(self, handle: Any, address: Any, size: Any) -> int:
        self.calls.append(("workspace", address.value))
        return 0


class Memory:
    """Numbers for addresses."""

    count = 0

    def __init__(self, size: int) -> None:
        Memory.count += 1
        self.ptr = 1000 * Memory.count


@pytest.fixture
def library() -> Any:
    made = object.__new__(cublas.Library)
    made.now = SimpleNamespace(device=0, stream=0)
    made.xp = SimpleNamespace(
        cuda=SimpleNamespace(
            Memory=Memory,
            runtime=SimpleNamespace(getDevice=lambda: made.now.device),
            get_current_stream=lambda: SimpleNamespace(ptr=made.now.stream),
        )
    )
    made.lib = Notes()
    made.handles, made.streams, made.spaces, made.places = {}, {}, {}, {}
    return made


def test_streams_have_workspaces_of_their_own(library: Any) -> None:
    first = library.place()
    assert library.place() is first
    library.now.stream = 70
    other = library.place()
    assert other[1].value == 70 and other[0].value != first[0].value
    library.now.stream = 1  # the default stream by another name
    assert library.place()[0].value == first[0].value
    library.now.device = 1
    assert library.place()[0].value not in (first[0].value, other[0].value)


def test_a_graph_has_the_default_streams(library: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    default = library.place()[0].value
    library.now.stream = 70
    monkeypatch.setattr(DEVICE, "capture", SimpleNamespace(capturing=lambda: True))
    assert library.place()[0].value == default and library.place()[1].value == 70
    monkeypatch.setattr(DEVICE, "capture", None)
    assert library.place()[0].value != default  # the stream's number is used again


def test_threads_have_handles_of_their_own(library: Any) -> None:
    own = library.handle().value
    assert library.handle().value == own and library.lib.made == 1
    found: list[int] = []
    other = threading.Thread(target=lambda: found.append(library.handle().value))
    other.start()
    other.join()
    assert found != [own] and library.lib.made == 2


def test_a_handle_follows_the_stream(library: Any) -> None:
    library.handle()
    library.handle()
    library.now.stream = 70
    library.handle()
    streams = [value for what, value in library.lib.calls if what == "stream"]
    spaces = [value for what, value in library.lib.calls if what == "workspace"]
    assert streams == [0, 70] and len(set(spaces)) == 2


def test_threads_do_not_mix_up_biases() -> None:
    """Between setting the address of a bias and using it no other thread comes in."""
    plan = object.__new__(cublaslt.Plan)
    plan.bias_at, plan.desc, plan.lock = 0, None, threading.Lock()
    used: list[bool] = []
    pause = threading.Event()
    plan.bias_given, plan.bias_reference = SimpleNamespace(value=0), None  # type: ignore[assignment]
    plan.lt = SimpleNamespace(set_attribute=lambda *args: 0)  # type: ignore[assignment]

    def launch(choice: Any, a: int, b: int, out: int) -> None:
        pause.wait(0.001)  # long enough for others to come in
        used.append(plan.bias_at == a)

    plan.launch = launch  # type: ignore[method-assign]

    def run(bias: int) -> None:
        for _ in range(20):
            plan.start(None, bias, 0, 0, bias)  # type: ignore[arg-type]

    threads = [threading.Thread(target=run, args=(bias,)) for bias in (10, 20, 30)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert used == [True] * 60


def test_bfloat16_is_not_needed() -> None:
    """Without ml_dtypes there is no such dtype, and everything else works."""
    script = """
import sys
sys.modules["ml_dtypes"] = None
import tapegrad as torch
from tapegrad.backends.gpu import cublas
cublas.learn_bfloat16()
print(*cublas.NAMES.values(), sep=" ")
"""
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert found.stdout.split() == ["float32", "float64", "float16"], found.stderr
