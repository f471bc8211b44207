"""Parts of torch.onnx that need no onnx; exported models run in parity/test_onnx.py."""

from __future__ import annotations

import sys
from typing import Any

import pytest

import tapegrad as torch
from tapegrad.onnx.errors import OnnxExporterError
from tapegrad.onnx.recording import Step, record
from tapegrad.onnx.sizes import Size, Sizes

STEP = Step("view", [], {}, [], None)


def sizes() -> Sizes:
    values = {"batch": [2, 5, 3, 2, 2, 5], "time": [7, 7, 7, 10, 8, 10]}
    return Sizes(values, [[] for _ in range(6)])


def test_numbers_are_found_among_the_sizes() -> None:
    known = sizes()
    batch, time = (list(v) for v in known.values.values())
    pairs = list(zip(batch, time, strict=True))
    assert known.find([4] * 6, STEP) == 4
    assert known.find(batch, STEP) == Size({("batch",): 1}, 2)
    assert known.find([3 * b * t for b, t in pairs], STEP) == Size({("batch", "time"): 3}, 42)
    assert known.find([t - 1 for t in time], STEP) == Size({(): -1, ("time",): 1}, 6)
    last = known.find([(t - 1) * b for b, t in pairs], STEP)
    assert last == Size({("batch",): -1, ("batch", "time"): 1}, 12)
    with pytest.raises(OnnxExporterError, match="view depends on the size of the input"):
        known.find([t // 3 for t in time], STEP)
    known.derive([t // 3 for t in time], None, 0)
    assert known.find([t // 3 * b for b, t in pairs], STEP) == Size({("batch", "size_0"): 1}, 4)


def test_a_recording_sees_every_op() -> None:
    def model(x: Any) -> Any:
        y = torch.relu(x) + 1
        y[0] = 2
        return y.view(-1)

    recording, out = record(model, (torch.ones(2, 3),), {})
    names = [step.name for step in recording.steps]
    assert names[:2] == ["relu", "add"] and names[-1] == "view" and out.shape == (6,)
    assert any([step.writes for step in recording.steps])


def test_the_package_is_asked_for(monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ModuleNotFoundError, match="needs the onnx package: pip install"):
        torch.onnx.export(torch.nn.ReLU(), (torch.ones(1),))
