"""docs/parity.md says what differs: each derivative named there is wrong in PyTorch only."""

import pathlib

import pytest
import torch
from differences import REPRODUCERS, section

import tapegrad

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "parity.md"


@pytest.mark.parametrize("name", REPRODUCERS)
@pytest.mark.filterwarnings("ignore")
def test_a_derivative_is_wrong_in_pytorch_only(name):
    for library, agrees in ((torch, False), (tapegrad, True)):
        scope = {"torch": library}
        exec(REPRODUCERS[name], scope)
        assert (abs(float(scope["got"]) - float(scope["want"])) < 1e-6) is agrees


def test_the_page_has_the_section():
    assert section() in PAGE.read_text(encoding="utf-8")
