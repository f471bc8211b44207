"""Each known deviation from PyTorch prints what its file says; tests/parity asks PyTorch too."""

import pytest

import tapegrad
from deviations import deviations


@pytest.mark.parametrize("deviation", deviations(), ids=lambda d: d.name)
def test_a_deviation_is_as_recorded(deviation):
    assert deviation.prints(tapegrad, deviation.ours), deviation.printed(tapegrad)


def test_an_output_that_changes_is_noticed():
    deviation = next(d for d in deviations() if d.name == "out-that-repeats-elements")
    assert not deviation.prints(tapegrad, deviation.pytorch)
    rounded = next(d for d in deviations() if d.rounding)
    assert not rounded.prints(tapegrad, rounded.ours.replace("0", "1").replace("3", "4"))
