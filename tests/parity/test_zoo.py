"""The training programs of benchmarks/zoo against PyTorch: losses, state and random state."""

from __future__ import annotations

import pathlib
import sys

import pytest
import torch

import tapegrad

sys.path.append(str(pathlib.Path(__file__).parents[2] / "benchmarks"))

from zoo import PROGRAMS
from zoo.trace import difference, trace

STEPS = 12
# bfloat16 has 8 bits; products are added up in another order.
TOLERANCE = {"autocast": 2e-2}

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name):
    expected = trace(torch, name, lambda step: step, STEPS)
    found = trace(tapegrad, name, lambda step: step, STEPS)
    for what in ("losses", "state", "random"):
        told = difference(found[what], expected[what], TOLERANCE.get(name, 1e-6))
        assert not told, f"{what}{told}"
