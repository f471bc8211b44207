"""Collectives with gradients, stores, and the helpers around training, on 2 and 4 ranks."""

from __future__ import annotations

import pytest
from cases_functional import CASES
from ranks import passed


@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_functional(ranks, tmp_path):
    found = passed("cases_functional.py", ranks, str(tmp_path))
    assert found == {case.__name__ for case in CASES}
