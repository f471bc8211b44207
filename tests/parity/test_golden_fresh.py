"""The recorded transcripts in tests/golden are what the installed PyTorch answers today."""

import pytest
import torch

from programs import harness

CASES = [(m, name, f) for m in harness.modules() for name, f in harness.programs(m)]


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Reductions split over threads may differ in the last bit from machine to machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def switches_can_be_set(monkeypatch):
    """Some of PyTorch's own modules lock the flags in torch.backends when they are imported."""
    names = torch.backends.flags_frozen.__globals__
    monkeypatch.setitem(names, "__allow_nonbracketed_mutation_flag", True)


@pytest.mark.parametrize("module, name, function", CASES, ids=[f"{m}-{n}" for m, n, _ in CASES])
def test_recording_is_fresh(module, name, function):
    recorded = harness.golden(module).get(name)
    assert recorded is not None, f"{module}.{name} was never recorded: run `make golden`"
    found = harness.run(function, torch)
    for i, (want, got) in enumerate(zip(recorded, found, strict=False)):
        assert harness.same(got, want), f"entry {i}:\n  recorded {want}\n  torch    {got}"
    assert len(found) == len(recorded)


@pytest.mark.parametrize("module", harness.modules())
def test_nothing_recorded_without_a_program(module):
    """A program that was renamed or removed leaves no transcript behind."""
    assert set(harness.golden(module)) == {name for name, _ in harness.programs(module)}
