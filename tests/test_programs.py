"""Every program of tests/programs under tapegrad, against the recorded transcripts of PyTorch."""

import pytest

import tapegrad
from programs import harness

CASES = [(m, name, f) for m in harness.modules() for name, f in harness.programs(m)]


@pytest.mark.parametrize("module, name, function", CASES, ids=[f"{m}-{n}" for m, n, _ in CASES])
def test_program(module, name, function):
    expected = harness.golden(module)[name]
    found = harness.run(function, tapegrad)
    for i, (want, got) in enumerate(zip(expected, found, strict=False)):
        assert harness.same_entry(name, got, want), (
            f"entry {i}:\n  torch    {want}\n  tapegrad {got}"
        )
    assert len(found) == len(expected)
