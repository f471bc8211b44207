"""The examples lose the same on tapegrad as on PyTorch, step by step, from the same seed.

The number of steps is well below where the curves part, so that other machines have room.
curves.py measures where that is; examples/README.md has the table.
"""

from __future__ import annotations

import pytest
from curves import ON_TORCH, SCRIPTS, agreement

from example_runs import run

STEPS = {
    "char_gpt": 30,
    "char_lstm": 60,
    "custom_function": 120,
    "digits_cnn": 60,
    "digits_mlp": 300,
    "neural_style": 80,
    "pinn": 6,
    "reinforce": 12,
    "vae": 120,
}


def test_every_example_is_compared():
    assert list(STEPS) == SCRIPTS


@pytest.mark.parametrize("name", STEPS)
def test_losses(name):
    ours, theirs = run(name, STEPS[name]), run(name, STEPS[name], on=ON_TORCH)
    assert list(ours.curves) == list(theirs.curves)
    for what, values in theirs.curves.items():
        same = agreement(ours.curves[what], values)
        assert same == STEPS[name], f"{what} differs at step {same + 1}"
    # What is printed after the losses (samples, tables, the result) has as many lines.
    assert len(ours.lines) == len(theirs.lines)
