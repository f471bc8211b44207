"""E16: what load_state_dict says about names and sizes that do not fit."""

from __future__ import annotations

import pytest

import tapegrad as torch
from tapegrad import nn


def refused(model, state):
    with pytest.raises(RuntimeError) as caught:
        model.load_state_dict(state)
    assert str(caught.value).startswith(
        f"Error(s) in loading state_dict for {type(model).__name__}:\n\t"
    )
    assert caught.value.diagnosis["id"] == "E16"
    return caught.value.diagnosis


def test_a_prefix_that_the_file_has():
    model = nn.Sequential(nn.Linear(2, 1))
    state = {f"module.{k}": v for k, v in model.state_dict().items()}
    fix = refused(model, state)["fixes"][0]
    expression = fix.partition("in front: ")[2]
    model.load_state_dict(eval(expression, {"state": state}))  # the fix does what it says


def test_a_prefix_that_the_model_has():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Linear(2, 1)

    model, state = Net(), nn.Linear(2, 1).state_dict()
    fix = refused(model, state)["fixes"][0]
    model.load_state_dict(eval(fix.partition("in front: ")[2], {"state": state}))


def test_names_that_look_alike():
    model = nn.ModuleDict({"encoder": nn.Linear(2, 1)})
    state = {"encodr.weight": torch.zeros(1, 2), "encodr.bias": torch.zeros(1)}
    found = refused(nn.ModuleDict({"encoder": model["encoder"], "x": nn.Linear(1, 1)}), state)
    assert "encoder.weight <- encodr.weight?" in found["fixes"][0]
    assert found["unexpected"] == ["encodr.weight", "encodr.bias"]


def test_sizes():
    found = refused(nn.Linear(2, 1), nn.Linear(3, 1).state_dict())
    assert found["missing"] == [] and "sizes" in found["what"]


def test_asking_is_not_reading():
    """hasattr and getattr with a default get the bare sentence, at no cost."""
    layer = nn.Linear(2, 1)
    assert not hasattr(layer, "wieght")
    assert getattr(layer, "wieght", None) is None
    with pytest.raises(AttributeError) as caught:
        getattr(layer, "wieght")  # noqa: B009
    assert str(caught.value) == "'Linear' object has no attribute 'wieght'"
