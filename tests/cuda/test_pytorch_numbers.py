"""A seed gives PyTorch's numbers on a GPU, bit for bit, and leaves the generator where it does."""

from __future__ import annotations

from typing import Any

import drawn
import numpy as np
import pytest

import tapegrad
from tapegrad import generators
from tapegrad.core import devices

torch: Any = tapegrad
CALLS = drawn.calls(torch)
GOLDEN = np.load(drawn.GOLDEN)
# On NumPy logarithms and the like differ from the GPU's quick ones in the last bits.
ROUNDED = ("randn", "normal", "exponential", "cauchy")


def test_all_that_was_recorded_is_called() -> None:
    names = {name for name in GOLDEN.files if not name.endswith("|offset")} - {"blocks"}
    assert names == set(CALLS)


@pytest.mark.parametrize("name", list(CALLS))
def test_numbers_of_pytorch(name: str) -> None:
    stream = generators.stream_of(None, "rand", 0)
    if stream.most != GOLDEN["blocks"] and name.endswith(("300000", "1500000", "others")):
        pytest.skip("large draws depend on how many threads a GPU has")
    found, offset = drawn.drawn(torch, CALLS[name])
    want = GOLDEN[name]
    assert found.dtype == want.dtype and found.shape == want.shape
    assert offset == GOLDEN[f"{name}|offset"]
    if hasattr(devices.DEVICE.xp, "RawKernel"):
        assert np.array_equal(found, want, equal_nan=want.dtype.kind == "f")
    elif any([part in name for part in ROUNDED]):
        near(found, want, "bfloat16" in name)
    elif want.dtype == np.float64:
        np.testing.assert_allclose(found, want, 1e-13)  # products and sums are not fused
    else:
        assert np.array_equal(found, want)


def near(found: Any, want: Any, brain: bool) -> None:
    if brain:
        found, want = [(x.astype(np.uint32) << 16).view(np.float32) for x in (found, want)]
    digits = {8: 1e-12, 4: 2e-3 if brain else 5e-6, 2: 1e-3}[want.dtype.itemsize]
    # Cauchy's tails and logarithms near one are less exact on the GPU.
    close = np.isclose(found, want, 10 * digits, digits)
    assert close.mean() >= 0.97
    np.testing.assert_allclose(found, want, 5e-3, 5e-3)
