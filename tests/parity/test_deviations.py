"""What differs from PyTorch, in files with both outputs: PyTorch's are still these, and differ.

tests/test_deviations.py compares what is printed here.
"""

import pathlib

import pytest
import torch

import tapegrad
from deviations import deviations, section

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "parity.md"


@pytest.mark.parametrize("deviation", deviations(), ids=lambda d: d.name)
def test_both_libraries_print_what_is_recorded(deviation):
    assert deviation.pytorch != deviation.ours, "there is no difference: remove the file"
    assert deviation.prints(torch, deviation.pytorch), deviation.printed(torch)
    assert deviation.prints(tapegrad, deviation.ours), deviation.printed(tapegrad)


def test_where_pytorch_is_wrong_finite_differences_agree_with_us():
    for name in ("as-strided-scatter", "cholesky-inverse", "logcumsumexp", "triangular-solve"):
        deviation = next(d for d in deviations() if d.name == name)
        got, want = deviation.ours.split()
        assert got == want == deviation.pytorch.split()[1] != deviation.pytorch.split()[0]


def test_the_page_has_the_section():
    assert section() in PAGE.read_text(encoding="utf-8")
