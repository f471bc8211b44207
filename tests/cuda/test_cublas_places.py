"""Handles and workspaces of cuBLAS: who shares them, on a library that only takes notes."""

from __future__ import annotations

import subprocess
import sys
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tapegrad.core.devices import DEVICE
from tapegrad.kernels.cuda import cublas, cublaslt


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
    plan.one = plan.zero = plan.left = plan.right = plan.out = None

    def matmul(*args: Any) -> int:
        pause.wait(0.001)  # long enough for others to come in
        used.append(plan.bias_at == args[5])
        return 0

    plan.lt = SimpleNamespace(  # type: ignore[assignment]
        set_attribute=lambda *args: 0,
        matmul=matmul,
        address=lambda value: value,
        blas=SimpleNamespace(place=lambda: (None, None)),
        handle=None,
        size=None,
    )
    choice: Any = SimpleNamespace(pointer=None)

    def run(bias: int) -> None:
        for _ in range(20):
            plan.start(choice, bias, 0, 0, bias)

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
from tapegrad.kernels.cuda import cublas
cublas.learn_bfloat16()
print(*cublas.NAMES.values(), sep=" ")
"""
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert found.stdout.split() == ["float32", "float64", "float16"], found.stderr


def test_stacks_have_one_plan_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """cuBLASLt's kernels are found once; matrices that begin anywhere are left to cuBLAS."""
    started: list[Any] = []
    plan = SimpleNamespace(shape=(2, 3, 5), run=lambda *at: started.append(at))
    planned: list[Any] = []
    monkeypatch.setattr(cublaslt, "plan_stack", lambda *given: planned.append(given) or plan)
    monkeypatch.setattr(cublas, "stack_product", lambda lib, *given, fp32: lib)

    def matrix(at: int, *shape: int) -> Any:
        strides = np.empty(shape, np.float32).strides
        place = SimpleNamespace(ptr=at)
        return SimpleNamespace(shape=shape, strides=strides, dtype=cublas.F32, data=place)

    space = SimpleNamespace(ndarray=lambda shape, dtype: matrix(4096, *shape))
    lt: Any = SimpleNamespace(stacks={}, blas="cuBLAS", xp=space)
    for at in (1024, 2048):
        out = cublaslt.stack_product(lt, matrix(at, 2, 3, 4), matrix(512, 2, 4, 5))
        assert out.shape == (2, 3, 5) and started.pop() == (at, 512, 4096, 0)
    assert len(planned) == 1
    left, right = matrix(1028, 2, 3, 4), matrix(512, 2, 4, 5)
    assert cublaslt.stack_product(lt, left, right) == "cuBLAS"
    left = matrix(1024, 2, 3, 4)
    assert cublaslt.stack_product(lt, left, right, matrix(4, 2, 3, 5)) == "cuBLAS"
    assert not started


def test_sums_beside_products_of_odd_rows_are_made_apart() -> None:
    grad = np.empty((32, 65), np.float16).T
    assert cublaslt.with_sums(None, grad, np.empty((32, 8), np.float16), "none") is False
