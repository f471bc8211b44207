"""Small functions made to mislead `tapegrad.compile`: compiled, each does what it does eagerly."""

from __future__ import annotations

import pytest
import traps_arguments  # noqa: F401  (these files fill the table)
import traps_arrays  # noqa: F401
import traps_common  # noqa: F401
import traps_containers  # noqa: F401
import traps_dataclasses  # noqa: F401
import traps_draws  # noqa: F401
import traps_effects  # noqa: F401
import traps_errors  # noqa: F401
import traps_functions  # noqa: F401
import traps_gradients  # noqa: F401
import traps_identity  # noqa: F401
import traps_in_c  # noqa: F401
import traps_loops  # noqa: F401
import traps_models  # noqa: F401
import traps_objects  # noqa: F401
import traps_process  # noqa: F401
import traps_python  # noqa: F401
import traps_refused  # noqa: F401
import traps_syntax  # noqa: F401
import traps_values  # noqa: F401
import traps_world  # noqa: F401
from harness import Trap, compare, trap

NAMES = sorted(trap.traps)


def test_there_are_many():
    assert len(NAMES) >= 200


@pytest.mark.parametrize("name", NAMES)
def test_trap(name):
    told = compare(trap.traps[name])
    assert not told, told


OFTEN = [n for n in NAMES if n.endswith("_outside")]


@pytest.mark.parametrize(
    "name", [n if n in OFTEN else pytest.param(n, marks=pytest.mark.thorough) for n in NAMES]
)
def test_trap_differentiated_outside(name):
    told = compare(trap.traps[name], outside=True)
    assert not told, told


def test_harness_sees_a_frozen_value():
    """The comparison itself: a function that remembers its first result is found out."""

    def build(compile):
        kept = []

        def remembers(x):
            kept.append(x * 2)
            return kept[0] if compile is not None and len(kept) > 5 and lies else kept[-1]

        lies = compile.__name__ == "compile"
        return Trap(remembers)

    assert compare(build).startswith("call 5, result")
