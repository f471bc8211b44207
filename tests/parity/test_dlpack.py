"""Tensors handed to PyTorch and back through DLPack, without a copy."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import tapegrad as tg

NAMES = "float16 bfloat16 float32 float64 complex64 int8 int16 int32 int64 uint8 uint16 bool"


@pytest.mark.parametrize("name", NAMES.split())
def test_both_ways(name: str) -> None:
    ours = tg.tensor([[1, 0, 1], [0, 1, 1]]).to(getattr(tg, name))
    theirs = torch.from_dlpack(ours)
    assert theirs.dtype == getattr(torch, name) and theirs.data_ptr() == ours.data_ptr()
    assert theirs.tolist() == ours.tolist()
    back = tg.from_dlpack(theirs.T)
    assert back.dtype == ours.dtype and back.stride() == (1, 3)
    assert back.data_ptr() == ours.data_ptr()
    back[0, 0] = 0
    assert theirs.tolist() == ours.tolist() and not theirs[0, 0]


@pytest.mark.parametrize("version", [None, (0, 8), (1, 0), (1, 1)])
def test_capsules(version: tuple[int, int] | None) -> None:
    theirs = torch.arange(4.0).bfloat16()
    ours = tg.from_dlpack(theirs.__dlpack__(max_version=version))
    assert ours.dtype is tg.bfloat16 and ours.tolist() == [0.0, 1.0, 2.0, 3.0]
    again = torch.from_dlpack(ours.__dlpack__(max_version=version))
    assert again.data_ptr() == theirs.data_ptr() and again.dtype is torch.bfloat16


def test_read_only() -> None:
    array = np.arange(3.0)
    array.flags.writeable = False
    assert torch.from_dlpack(tg.from_dlpack(array)).tolist() == [0.0, 1.0, 2.0]


def test_the_devices_have_one_name() -> None:
    assert tg.ones(1).__dlpack_device__() == torch.ones(1).__dlpack_device__()
    assert tg.asarray(torch.ones(2)).tolist() == [1.0, 1.0]
