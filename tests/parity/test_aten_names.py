"""The names that policies see exist in PyTorch, and are complete."""

from __future__ import annotations

import pytest
import torch

import tapegrad
from table import REGISTRY
from tapegrad._ops import ABROAD

aten = torch.ops.aten


@pytest.mark.parametrize("ours", sorted(REGISTRY))
def test_name_is_one_of_pytorchs(ours):
    op = REGISTRY[ours]
    if op.aten is None:
        assert not hasattr(aten, ours)
        return
    name, _, overload = op.aten.partition(".")
    packet = getattr(aten, name)
    assert (overload or "default") in packet.overloads()
    for other in (op.aten_number, *op.aten_dim):
        assert not other or other in packet.overloads()


@pytest.mark.parametrize("name", sorted(ABROAD))
def test_ops_of_other_devices(name):
    assert hasattr(aten, name)
    assert name not in REGISTRY
    assert str(getattr(tapegrad.ops.aten, name)) == str(getattr(aten, name))
