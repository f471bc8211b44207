"""A seed gives PyTorch's numbers on a GPU, bit for bit, and leaves the generator where it does."""

from __future__ import annotations

from typing import Any

import drawn
import numpy as np
import pytest

import tapegrad
from tapegrad.core import devices
from tapegrad.ops.draws import generators

torch: Any = tapegrad
CALLS = drawn.calls(torch)
GOLDEN = np.load(drawn.GOLDEN)
# On NumPy logarithms and the like differ from the GPU's quick ones in the last bits.
ROUNDED = ("randn", "normal", "exponential", "cauchy")
BY_REJECTION = ("poisson", "binomial", "standard_gamma")


def test_all_that_was_recorded_is_called() -> None:
    names = {name for name in GOLDEN.files if not name.endswith("|offset")} - {"blocks"}
    assert names == set(CALLS)


@pytest.mark.parametrize("name", list(CALLS))
def test_numbers_of_pytorch(name: str) -> None:
    stream = generators.stream_of(None, "rand", 0)
    if stream.most != GOLDEN["blocks"] and name.endswith(("300000", "1500000", "others")):
        pytest.skip("large draws depend on how many threads a GPU has")
    kernels = hasattr(devices.DEVICE.xp, "RawKernel")
    if name.startswith(BY_REJECTION) and not kernels:
        pytest.skip("without kernels the host draws, and other numbers")
    found, offset = drawn.drawn(torch, CALLS[name])
    want = GOLDEN[name]
    assert found.dtype == want.dtype and found.shape == want.shape
    assert offset == GOLDEN[f"{name}|offset"]
    if kernels:
        assert np.array_equal(found, want, equal_nan=want.dtype.kind == "f")
    elif any([part in name for part in ROUNDED]):
        near(found, want, name)
    elif want.dtype == np.float64:
        np.testing.assert_allclose(found, want, 1e-13)  # products and sums are not fused
    else:
        assert np.array_equal(found, want)


def near(found: Any, want: Any, name: str) -> None:
    """The GPU's quick sine is off by up to 2**-21, its tangent by more; halves by a unit."""
    bound = 1e-14 if want.dtype == np.float64 else 5e-5 if "cauchy" in name else 5e-6
    if "bfloat16" in name:
        found, want = [(x.astype(np.uint16).astype(np.uint32) << 16) for x in (found, want)]
        found, want = found.view(np.float32), want.view(np.float32)
        bound = 2.0**-7
    elif want.dtype == np.float16:
        bound = 2.0**-10
    apart = np.abs(found.astype(np.float64) - want) / (1 + np.abs(want.astype(np.float64)))
    assert apart.max() <= bound
    if bound >= 2.0**-10:
        assert (apart == 0).mean() >= 0.97
