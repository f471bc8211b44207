"""Which device the tests of this folder run on: a GPU where there is one, else the stand-in.

Only these tests have one: the others run in the same process, as on a machine without.
"""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Iterator
from typing import Any

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).parent))

from tapegrad.cuda import runtime

REAL = runtime.look() > 0
if REAL:
    runtime.start()


@pytest.fixture(scope="module", autouse=True)
def device() -> Iterator[None]:
    if REAL:
        yield
        return
    import stand_in

    before = {name: getattr(runtime.Found, name) for name in ("asked", "module", "count")}
    runtime.use(stand_in)
    yield
    runtime.forget()
    for name, value in before.items():
        setattr(runtime.Found, name, value)


@pytest.fixture(autouse=True)
def exact_convolutions() -> Iterator[None]:
    """Results are compared with the CPU's: without TF32, which is what convolutions take."""
    from tapegrad.backends import cudnn

    before = cudnn.set_flags(_allow_tf32=False)
    yield
    cudnn.allow_tf32 = before[-1]


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The names of our kernels as they are started, in a backend made for the test."""
    from tapegrad.core import devices
    from tapegrad.kernels.cuda import backend as cupy

    before = devices.DEVICE.backend
    module = before.xp.module
    if not hasattr(module, "RawKernel"):
        pytest.skip("kernels need CuPy and a GPU")
    seen: list[str] = []
    real = module.RawKernel

    class Compiled:
        def __init__(self, code: str, name: str, options: Any = (), **rest: Any) -> None:
            self.name = name
            self.kernel = real(code, name, options, **rest)

        def __setattr__(self, name: str, value: Any) -> None:
            of_kernel = name.startswith("max_")
            setattr(self.kernel, name, value) if of_kernel else super().__setattr__(name, value)

        def __call__(self, grid: Any, block: Any, args: Any, **rest: Any) -> None:
            seen.append(self.name)
            self.kernel(grid, block, args, **rest)

    monkeypatch.setattr(module, "RawKernel", Compiled)
    devices.use(module, cupy.backend_for(module))
    yield seen
    devices.use(module, before)


def pytest_report_header(config: pytest.Config) -> str:
    if REAL:
        return "tests/cuda: on a GPU"
    return "tests/cuda: no GPU here (no CuPy, or no device): on the stand-in, which shows less"
