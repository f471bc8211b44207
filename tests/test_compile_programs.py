"""The recorded programs and the examples, run by `tapegrad.compile`, against what they do without."""

from __future__ import annotations

import pathlib
import warnings
from typing import Any

import pytest

import example_runs
import tapegrad
from programs import harness
from test_examples import SHORT

COMPILED = [str(pathlib.Path(__file__).parent / "compiled_run.py")]


@pytest.mark.slow
@pytest.mark.parametrize("module", harness.modules())
def test_programs_that_are_recorded_do_what_they_did(module: str) -> None:
    """Most of them cannot be replayed. Being tried, twice, must not change what they do."""
    wrong = []
    for name, function in harness.programs(module):
        expected = harness.golden(module)[name]

        def program(function: Any = function) -> Any:
            return harness.run(function, tapegrad)

        compiled = tapegrad.compile(program)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for i in range(4):
                found = compiled()
                if len(found) != len(expected) or not all(map(harness.same, found, expected)):
                    wrong.append((name, i))
    assert not wrong


@pytest.mark.slow
@pytest.mark.parametrize("name", SHORT)
def test_examples_with_compiled_modules(name: str) -> None:
    steps, _ = SHORT[name]
    _, curves = example_runs.run(name, steps, on=COMPILED)
    _, expected = example_runs.run(name, steps)
    assert curves.keys() == expected.keys()
    for key, values in expected.items():
        assert curves[key] == pytest.approx(values, rel=1e-3), key
