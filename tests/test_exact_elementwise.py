"""Elementwise functions where NumPy's own loops are not enough; the values are PyTorch's."""

import math

import numpy as np
import pytest

import tapegrad as torch


def test_tolerances_are_not_rounded_to_half_precision():
    x = torch.tensor(1.9501953125, dtype=torch.float16)  # 0.001 as float16 is larger than 0.001
    y = torch.tensor(1.9521484375, dtype=torch.float16)
    assert torch.isclose(x, y, rtol=1e-3, atol=0.0).item() is False
    assert torch.isclose(x, y, rtol=1.002e-3, atol=0.0).item() is True


def test_signs_of_complex_zeros_are_changed_one_by_one():
    x = torch.complex(torch.tensor([0.0, -0.0, math.nan]), torch.tensor([-0.0, 1.0, 0.0]))
    assert np.signbit((-x).real.numpy()[:2]).tolist() == [True, False]
    assert np.signbit((-x).imag.numpy()).tolist() == [False, True, True]


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int64])
def test_thresholds_of_many_integers(dtype):
    x = torch.arange(2000).remainder(100).to(dtype)
    found = torch.nn.functional.threshold(x, 3, 7)
    assert found.dtype is dtype
    assert found.tolist() == [7 if i % 100 <= 3 else i % 100 for i in range(2000)]
