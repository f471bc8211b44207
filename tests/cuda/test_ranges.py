"""Indices out of range on the GPU: told where the host waits, with the line that used them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tapegrad as tg
from tapegrad.core import devices
from tapegrad.nn import functional as F

real_gpu = pytest.mark.skipif(
    not hasattr(devices.DEVICE.xp, "RawKernel"), reason="the kernel that looks needs a GPU"
)


def numbers(*values: int) -> Any:
    return tg.tensor(values, device="cuda")


def table(rows: int = 3, columns: int = 4) -> Any:
    return tg.zeros(rows, columns, device="cuda")


CASES: dict[str, Callable[[Any], Any]] = {
    "embedding": lambda wrong: F.embedding(numbers(0, wrong), table()),
    "cross_entropy": lambda wrong: F.cross_entropy(table(2, 3), numbers(0, wrong)),
    "gather": lambda wrong: table().gather(0, numbers(0, wrong).unsqueeze(0)),
    "index_select": lambda wrong: table().index_select(0, numbers(0, wrong)),
    "scatter": lambda wrong: table().scatter(0, numbers(0, wrong).unsqueeze(0), 1.0),
    "index": lambda wrong: table()[numbers(0, wrong)],
    "index of int32": lambda wrong: table()[numbers(0, wrong).int()],
    "index_put": lambda wrong: table().index_put((numbers(0, wrong),), table(1)[0]),
    "take": lambda wrong: table(1, 3).take(numbers(0, wrong)),
}


@real_gpu
@pytest.mark.parametrize("case", CASES)
def test_out_of_range(case: str) -> None:
    for wrong in (3, -4):
        CASES[case](wrong)
        with pytest.raises(tg.AcceleratorError) as caught:
            tg.cuda.synchronize()
        first, *rest = str(caught.value).split("\n")
        assert first == "CUDA error: device-side assert triggered"
        assert f"the index {wrong} is out of range" in rest[0]
        assert "test_ranges.py" in str(caught.value) and "lambda wrong" in str(caught.value)
        tg.cuda.synchronize()  # said once


@real_gpu
@pytest.mark.parametrize("case", CASES)
def test_in_range(case: str) -> None:
    CASES[case](2)
    tg.cuda.synchronize()


@real_gpu
def test_what_is_ignored_is_no_class() -> None:
    F.cross_entropy(table(2, 3), numbers(0, -100))
    F.cross_entropy(table(2, 3), numbers(0, 7), ignore_index=7)
    tg.cuda.synchronize()


@real_gpu
def test_a_copy_to_the_host_waits() -> None:
    out = F.embedding(numbers(0, 9), table())
    with pytest.raises(tg.AcceleratorError, match="device-side assert"):
        out.cpu()
    loss = F.cross_entropy(table(2, 3), numbers(0, 9))
    with pytest.raises(tg.AcceleratorError, match="device-side assert"):
        loss.item()


def test_indices_of_the_host_raise_at_once() -> None:
    with pytest.raises(IndexError, match="index 3 is out of bounds for dimension 0 with size 3"):
        table()[tg.tensor([0, 3])]
