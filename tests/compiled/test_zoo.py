"""The training programs of benchmarks/zoo, compiled and eager: the same over 40 steps."""

from __future__ import annotations

import pathlib
import sys

import pytest
from harness import quiet

import tapegrad as T

sys.path.append(str(pathlib.Path(__file__).parents[2] / "benchmarks"))

from zoo import PROGRAMS
from zoo.trace import difference, trace

STEPS = 40
# Sums of another order are other bfloat16 numbers, of 8 bits.
TOLERANCE = {"autocast": 1e-2}

pytestmark = pytest.mark.filterwarnings("ignore")


def test_there_are_many():
    assert len(PROGRAMS) >= 60


@pytest.mark.parametrize(
    "name",
    [
        n if i % 8 == 0 else pytest.param(n, marks=pytest.mark.thorough)
        for i, n in enumerate(PROGRAMS)
    ],
)
def test_program(name):
    with quiet():
        expected = trace(T, name, lambda step: step, STEPS)
        found = trace(T, name, T.compile, STEPS)
    for what in ("losses", "state", "random"):
        told = difference(found[what], expected[what], TOLERANCE.get(name, 1e-9))
        assert not told, f"{what}{told}"
