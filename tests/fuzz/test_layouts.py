"""Kernels in C on arrays that lie oddly (layouts.py): NumPy's values, and no kernel left out."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import tapegrad as torch
from fuzz.layouts import misaligned
from tapegrad.kernels import cpu

HERE = pathlib.Path(__file__).parent
ENV = {**os.environ, "PYTHONPATH": str(pathlib.Path(torch.__file__).parent.parent)}
# Nothing in the library calls these.
UNUSED = {"picks_f32", "picks_f64", "places", "words"}

pytestmark = pytest.mark.skipif(cpu.KERNELS is None, reason="there are no kernels in C")


def run(count: int, seed: int) -> dict[str, Any]:
    command = [sys.executable, str(HERE / "layouts.py"), str(count), str(seed)]
    done = subprocess.run(command, env=ENV, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["failures"] == []
    return found


def test_odd_layouts() -> None:
    assert run(400, 1)["ends"] == {"calls": 320, "programs": 80}


def test_a_seed_decides_what_is_called() -> None:
    """Neither the clock nor the order of sets: a tree passes or fails everywhere alike."""
    assert run(60, 3) == run(60, 3)


@pytest.mark.thorough
def test_odd_layouts_reach_every_kernel() -> None:
    found = run(6000, 2)
    assert set(found["not reached"]) <= UNUSED and found["not reached misaligned"] == []


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_random_numbers_of_misaligned_chances(dtype: Any) -> None:
    """They are read, and written, at addresses that C does not allow for such elements."""
    chances = np.linspace(0, 1, 40).astype(dtype)
    t = torch.from_numpy(misaligned(chances))
    torch.manual_seed(0)
    found = torch.bernoulli(t)
    torch.manual_seed(0)
    assert torch.equal(found, torch.bernoulli(torch.from_numpy(chances)))
    torch.manual_seed(0)
    t.uniform_()
    torch.manual_seed(0)
    assert torch.equal(t, torch.empty(40, dtype=t.dtype).uniform_())
    assert not t.numpy().flags.aligned


def test_arrays_with_strides_in_the_middle_of_elements_are_refused() -> None:
    rows = np.zeros(3, dtype=[("a", "i1"), ("b", "f4")])["b"]
    for make in (torch.from_numpy, torch.tensor, torch.as_tensor, torch.asarray):
        with pytest.raises(ValueError, match="strides not a multiple of the element byte size"):
            make(rows)
