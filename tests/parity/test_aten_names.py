"""The names that policies see exist in PyTorch, and are complete."""

from __future__ import annotations

import pytest
import torch

import tapegrad
from table import REGISTRY
from tapegrad.ops.block.aten_names import ABROAD, OURS, SPELLED, WITH_DIM, WITH_NUMBER

aten = torch.ops.aten


@pytest.mark.parametrize("ours", sorted(REGISTRY))
def test_name_is_one_of_pytorchs(ours):
    if ours in OURS:
        assert not hasattr(aten, ours)
        return
    name, _, overload = SPELLED.get(ours, ours).partition(".")
    packet = getattr(aten, name)
    assert (overload or "default") in packet.overloads()
    for other in (WITH_NUMBER.get(ours, ""), *WITH_DIM.get(ours, ())):
        assert not other or other in packet.overloads()


def test_every_name_is_used():
    assert set(SPELLED) | OURS | set(WITH_NUMBER) | set(WITH_DIM) <= set(REGISTRY)
    assert not set(SPELLED) & OURS


@pytest.mark.parametrize("name", sorted(ABROAD))
def test_ops_of_other_devices(name):
    assert hasattr(aten, name)
    assert name not in REGISTRY
    assert str(getattr(tapegrad.ops.aten, name)) == str(getattr(aten, name))
