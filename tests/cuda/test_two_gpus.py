"""Tensors on two GPUs. The stand-in has one: some of its arrays say that they are on another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tapegrad
from tapegrad.core import devices
from tapegrad.core.base import STATE
from tapegrad.cuda import runtime

torch: Any = tapegrad
F = torch.nn.functional


def on(place: int, *shape: int) -> Any:
    """Ones on a GPU."""
    if hasattr(devices.DEVICE.xp, "RawKernel"):
        return torch.ones(shape, device=f"cuda:{place}")
    return standing_on(place, torch.ones(shape, device="cuda"))


def standing_on(place: int, t: Any) -> Any:
    """The tensor, which says that it is there: what the stand-in computes forgets it."""
    if not hasattr(devices.DEVICE.xp, "RawKernel"):
        t._array.place = place
    return t


@pytest.fixture(autouse=True)
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    if hasattr(devices.DEVICE.xp, "RawKernel"):
        if runtime.look() < 2:
            pytest.skip("needs two GPUs")
        return
    import stand_in
    import stand_in_cuda

    def device(array: Any) -> Any:
        return stand_in_cuda.Device(getattr(array, "place", 0))

    monkeypatch.setattr(stand_in.ndarray, "device", property(device))
    monkeypatch.setattr(runtime.Found, "count", 2)
    monkeypatch.setattr(STATE, "several", True)


def test_where_they_are() -> None:
    assert on(0, 2).device == torch.device("cuda:0")
    assert on(1, 2).device == torch.device("cuda:1")


MIXED: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "add_": lambda a, b: a.add_(b),
    "mul of one element": lambda a, b: a * on(1),
    "mm": lambda a, b: a @ b,
    "cat": lambda a, b: torch.cat([a, b]),
    "where": lambda a, b: torch.where(a > 0, a, b),
    "index": lambda a, b: a[standing_on(1, b.long())],
    "layer_norm": lambda a, b: F.layer_norm(a, (2,), on(1, 2)),
    "mse_loss": lambda a, b: F.mse_loss(a, b),
}


@pytest.mark.parametrize("name", MIXED)
def test_one_op_stays_on_one(name: str) -> None:
    with pytest.raises(RuntimeError) as caught:
        MIXED[name](on(0, 2, 2), on(1, 2, 2))
    first = str(caught.value).splitlines()[0]
    assert first == (
        "Expected all tensors to be on the same device, but found at least two devices, cuda:0 "
        "and cuda:1!"
    )


def test_copies_go_from_one_to_the_other() -> None:
    a, b = on(0, 2), on(1, 2) * 3
    a.copy_(b)
    assert a.tolist() == [3.0, 3.0] and a.device == torch.device("cuda:0")
