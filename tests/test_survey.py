"""The survey's own calls: each can be made, and gives gradients where the survey asks for them."""

from __future__ import annotations

import importlib.util
import pathlib
import sys

import pytest

import tapegrad

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "benchmarks"


def loaded(name: str):
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


survey = loaded("survey")
CALLS = loaded("survey_cases")


@pytest.mark.parametrize("backward", [False, True])
def test_every_call_can_be_made(backward):
    count = 0
    for name, _, prepare in CALLS.calls(16, backward):
        tapegrad.manual_seed(0)
        try:
            prepare(tapegrad)()
        except Exception as error:
            raise AssertionError(name) from error
        count += 1
    assert count > (50 if backward else 150)


def test_sizes_of_samples_are_multiplied_alike():
    calls = {name: prepare for name, _, prepare in survey.sample_calls(1 << 12, "", False)}
    assert len(calls) > 500
    assert 3000 < calls["add"](tapegrad)().numel() < 5000
    product = calls["mm"](tapegrad)()
    assert product.dim() == 2
    assert min(product.shape) > 20
    assert calls["index_select"](tapegrad)().numel() > 1000


def test_report():
    rows = [
        survey.Row("a", "f", "16", "forward", "", 1e-6, 4e-6),
        survey.Row("b", "f", "64k", "both", "", 1e-6, 1e-6),
        survey.Row("c", "f", "64k", "forward", "int64", 2e-6, 1e-6),
    ]
    found = survey.Survey(None, None, 1, 1.0)
    found.rows = rows
    text = survey.report(found, 2)
    assert "| 16, forward | 1 | 4.00 | 100% | 1 |" in text
    assert "| int64 | 1 | 0.50 | 0% | 0 |" in text
    assert "| a | 16 | forward | float32 | 1.0 | 4.0 | 4.00 |" in text
