"""What CuPy lacks, or does otherwise than NumPy, and `kernels/cuda/library.py` makes up for."""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np
import pytest

import tapegrad as torch
from tapegrad.core import devices
from tapegrad.cuda import memory


def on_both(run: Any) -> None:
    """A function of a device gives the same on the GPU as on the CPU, to the last bit."""
    for got, want in zip(run("cuda"), run("cpu"), strict=True):
        assert got.is_cuda and got.dtype == want.dtype
        torch.testing.assert_close(got.cpu(), want, rtol=0, atol=0, equal_nan=True)


def bfloat16(device: str) -> Any:
    values = [[0.5, -1.25, math.nan], [-0.0, math.inf, 3.0], [-7.0, 0.0, -math.inf]]
    return torch.tensor(values, dtype=torch.bfloat16, device=device)


def test_bfloat16_is_chosen_by_its_bits() -> None:
    def run(device: str) -> Any:
        x = bfloat16(device)
        yield torch.where(x > 0, x, x.flip(0))
        yield x.t().masked_fill(x > 0, 2.5)
        yield x.tril()
        yield x.triu(1)
        yield x.nan_to_num(1.0, 2.0, 3.0)

    on_both(run)


def test_bfloat16_is_sorted() -> None:
    def run(device: str) -> Any:
        x = bfloat16(device).nan_to_num(1.5)
        yield from x.sort(0)
        yield from x.sort(1, descending=True)
        yield from x.topk(2, 0)
        yield from x.flatten().kthvalue(2)
        yield x[1].unique()

    on_both(run)


def test_library_keeps_bfloat16() -> None:
    xp = devices.DEVICE.xp
    x = bfloat16("cuda")._array
    whole = x.astype(np.float32)
    for made in (
        xp.where(x > 0, x, x.dtype.type(0)),
        xp.where(x > 0, 0.0, x),
        xp.tril(x),
        xp.sort(x),
        xp.partition(x, 1),
    ):
        assert made.dtype == x.dtype
    assert xp.where(x > 0, x, whole).dtype == np.float32
    assert xp.broadcast_to(np.float64(2), (3,)).shape == (3,)


def test_reductions_of_a_number() -> None:
    def run(device: str) -> Any:
        x = torch.tensor(0.5, device=device)
        yield torch.softmax(x, 0)
        yield torch.log_softmax(x, -1)
        yield torch.logsumexp(x, 0)
        yield x.sum(0)
        yield x.amax(0)

    on_both(run)


@pytest.mark.parametrize("kind", ["float64", "float32", "float16", "bfloat16", "int64", "int32"])
@pytest.mark.parametrize("how", ["amax", "amin"])
def test_extremes_into_places(how: str, kind: str) -> None:
    """Doubles keep all their digits, and NaN goes through."""

    def run(device: str) -> Any:
        dtype = getattr(torch, kind)
        options: dict[str, Any] = {"dtype": dtype, "device": device}
        start = torch.tensor([0.1, -0.3, 5.0, -7.0], dtype=torch.float64).to(**options)
        source = [1 / 3, -0.2, 1e-3, -2 / 3, -9.0, 4.0, 2.0, -7.5]
        if dtype.is_floating_point:
            source[6] = math.nan
        at = torch.tensor([0, 1, 0, 1, 3, 2, 2, 3], device=device)
        given = torch.tensor(source, dtype=torch.float64).to(**options)
        yield start.scatter_reduce(0, at, given, how)
        yield start.scatter_reduce(0, at, given, how, include_self=False)

    on_both(run)


def test_membership_of_numbers() -> None:
    def run(device: str) -> Any:
        x = torch.tensor([1.0, 2.0, 3.0], device=device)
        yield torch.isin(x, 2.0)
        yield torch.isin(2, x, invert=True)

    on_both(run)


def test_solving_broadcasts() -> None:
    a = torch.tensor([[[2.0, 1.0], [0.0, 4.0]], [[1.0, 0.0], [3.0, 1.0]]])
    b = torch.arange(6.0).reshape(3, 1, 2, 1)
    for left, right in ((a, b), (a[0], b), (a, b[0, 0, :, 0])):
        got = torch.linalg.solve(left.cuda(), right.cuda())
        torch.testing.assert_close(got.cpu(), torch.linalg.solve(left, right))


def test_memory_freed_while_it_is_counted() -> None:
    """The collector may free an array in the middle of counting another: nobody waits."""
    place = 1 << 20  # no GPU has this number

    def during() -> None:
        with memory.Peaks.lock:
            memory.count(place, 3)
        memory.count(place, 4)

    thread = threading.Thread(target=during, daemon=True)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()
    assert memory.Peaks.used.pop(place) == memory.Peaks.most.pop(place) == 7
