"""Every array counts as large: released early, lent, and handed out as arrays of megabytes are.

The traps are small, so that they are quick; what happens to large arrays would never happen to
theirs. Released memory reads as zeros here at once, so a step that still reads it is found out.
"""

from __future__ import annotations

import pytest
from harness import compare, trap
from test_random_programs import COUNT, forward, whole
from test_random_programs import compare as compare_program
from test_traps import NAMES

from tapegrad.compiler.plan.early_release import Known, Limit
from tapegrad.kernels.cpu import KERNELS

needs_kernels = pytest.mark.skipif(KERNELS is None, reason="nothing is released without kernels")
OFTEN = tuple(f"{kind}-" for kind in ("refused", "errors", "draws", "models"))


@pytest.fixture(autouse=True)
def everything_is_large(monkeypatch):
    monkeypatch.setattr(Limit, "most", 1)


@pytest.mark.parametrize(
    "name",
    [n if n.startswith(OFTEN) else pytest.param(n, marks=pytest.mark.thorough) for n in NAMES],
)
def test_trap(name):
    told = compare(trap.traps[name])
    assert not told, told


@pytest.mark.thorough
@pytest.mark.parametrize("name", NAMES)
def test_trap_differentiated_outside(name):
    told = compare(trap.traps[name], outside=True)
    assert not told, told


# Seed 500 once read memory that had been used again, after a kernel refused a value.
STARTS = [pytest.param(i, marks=pytest.mark.thorough) for i in range(0, 1000, COUNT) if i != 500]


@pytest.mark.parametrize("start", [500, *STARTS])
@pytest.mark.parametrize("make", [whole, forward])
def test_random_programs(make, start):
    told = [told for told, _ in [compare_program(make, i) for i in range(start, start + COUNT)]]
    assert not any(told), next(filter(None, told))


@needs_kernels
def test_a_stale_read_is_found(monkeypatch):
    """The mode itself: values that a later step needs are released, and a trap tells."""
    monkeypatch.setattr(Known, "is_only_ours", lambda known: True)
    assert compare(trap.traps["gradients-adaptive_avg_pool_step"])
