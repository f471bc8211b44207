"""Calls with hostile arguments raise the classes that PyTorch raises: the recorded part.

`tests/fuzz/hostile.py` makes the calls and compares many more of them with PyTorch itself.
"""

import importlib.util
import json
import pathlib

import numpy as np
import pytest

import tapegrad as torch

HERE = pathlib.Path(__file__).parent
SPEC = importlib.util.spec_from_file_location("hostile_calls", HERE / "fuzz" / "hostile.py")
assert SPEC is not None and SPEC.loader is not None
hostile = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(hostile)

GOLDEN = json.loads((HERE / "golden" / "hostile_calls.json").read_text("utf8"))
NAMES = {"torch": torch, "np": np, "nan": float("nan"), "inf": float("inf")}


@pytest.fixture(autouse=True)
def somewhere_else(tmp_path, monkeypatch):
    """A text may be taken for the name of a file, which is then written."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("expected", sorted(GOLDEN))
def test_recorded_calls(expected):
    with np.errstate(all="ignore"):
        found = {call: hostile.outcome(call, NAMES) for call in GOLDEN[expected]}
    wrong = {call: said for call, said in found.items() if said[0] != expected}
    assert not wrong


def test_the_record_is_large():
    assert sum(map(len, GOLDEN.values())) > 1000
    assert {"TypeError", "RuntimeError", "IndexError", "ValueError", "ok"} <= set(GOLDEN)
