"""Runs of torch, recorded by tapegrad/recorder_for_torch.py, against runs of tapegrad."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import tapegrad as tg
from tapegrad import diagnose
from tapegrad.diagnose._runs.compare import compare
from tapegrad.diagnose._runs.kept import replay
from tapegrad.diagnose._runs.reader import read_run
from tapegrad.diagnose._runs.report import Text
from tapegrad.recorder_for_torch import record

sys.path.insert(0, str(Path(__file__).parents[1]))

from diverging_programs import BASE, PAIRS  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step")


def run(text, path, recorder, name):
    path.write_text(text)
    text = text.replace("import torch\n", f"import {name} as torch\n")
    text = text.replace("from torch ", f"from {name} ").replace("import torch.", f"import {name}.")
    code = compile(text, str(path), "exec")
    file = path.with_suffix(".tgr")
    with recorder(file):
        exec(code, {"__name__": "__main__"})
    return read_run(file)


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return run(BASE, tmp_path_factory.mktemp("a") / "a.py", record, "torch")


def test_one_program_under_both_libraries(base, tmp_path):
    found = compare(base, run(BASE, tmp_path / "b.py", diagnose.record, "tapegrad"))
    assert found.same, str(Text(found))
    assert found.random_parts is None
    assert not found.tolerance.bits
    assert max(largest for _, largest, _ in found.growth) < 1e-4


# The roundings of the two libraries differ by as much as those of another order of a sum.
FAR_APART = [pair for pair in PAIRS if pair.name != "another order of a sum"]


@pytest.mark.parametrize("pair", FAR_APART, ids=[pair.name.replace(" ", "-") for pair in FAR_APART])
def test_the_line_that_parts_torch_and_tapegrad_is_named(pair, base, tmp_path):
    found = compare(base, run(pair.programs()[1], tmp_path / "b.py", diagnose.record, "tapegrad"))
    assert found.cause is not None
    first, second = pair.lines()
    named = [(side, line.number) for side, line in found.cause.lines()]
    assert ("b", second) in named or ("a", first) in named, str(Text(found))
    assert found.cause.step == pair.step


@pytest.mark.parametrize("pair", PAIRS, ids=[pair.name.replace(" ", "-") for pair in PAIRS])
def test_the_line_that_parts_torch_and_torch_is_named(pair, base, tmp_path):
    found = compare(base, run(pair.programs()[1], tmp_path / "b.py", record, "torch"))
    assert found.cause is not None
    first, second = pair.lines()
    named = [(side, line.number) for side, line in found.cause.lines()]
    assert ("b", second) in named or ("a", first) in named, str(Text(found))
    if pair.name != "another order of a sum":  # which may round to the same for a while
        assert found.cause.step == pair.step


def test_recording_changes_nothing_of_torch(tmp_path):
    spaces = []
    for recorder in (None, record):
        space = {"__name__": "__main__"}
        if recorder is None:
            exec(BASE, space)
        else:
            with recorder(tmp_path / "x.tgr"):
                exec(BASE, space)
        spaces.append(space)
    ours, theirs = [list(space["model"].parameters()) for space in spaces]
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))
    assert torch.autograd._engine_run_backward.__module__ == "torch.autograd.graph"


def test_the_file_works_alone(tmp_path):
    """Copied next to a script, without tapegrad."""
    source = Path(tg.__file__).with_name("recorder_for_torch.py")
    (tmp_path / "recorder_for_torch.py").write_text(source.read_text())
    (tmp_path / "train.py").write_text(BASE)
    done = subprocess.run(
        [sys.executable, "recorder_for_torch.py", "-o", "t.tgr", "--steps", "2", "train.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
    )
    assert done.returncode == 0, done.stderr
    found = read_run(tmp_path / "t.tgr")
    assert found.head["library"] == "torch"
    assert [bool(ops) for ops in found.steps] == [True, True, *[False] * 6]


def test_an_op_runs_again_under_both(tmp_path):
    path = str(tmp_path / "nan.tgr")

    def backward():
        x = tg.zeros(3, requires_grad=True)
        (tg.sqrt(x * 1.0) * 0).sum().backward()

    diagnose.first_nonfinite(backward, keep=path)
    lines = replay(path)
    assert lines[-2].partition(": ")[2] == lines[-1].partition(": ")[2]
    assert lines[-1] == "torch: float32[3] nothing finite, 3 NaN, 0 infinite"


PACKED = """
import torch
from torch.nn.utils.rnn import pack_padded_sequence
torch.manual_seed(0)
rnn = torch.nn.GRU(3, 4, batch_first=True, bidirectional=True)
rows = torch.empty(4, 5, 3)
for i in range(4):
    rows[i] = torch.arange(15.0).reshape(5, 3) * 0.1 * i
out = torch.empty(4, 5, 3)
torch.mul(rows, 0.5, out=out)
optimizer = torch.optim.SGD(rnn.parameters(), lr=0.1)
for step in range(2):
    packed = pack_padded_sequence(out, [3, 5, 2, 4], batch_first=True, enforce_sorted=False)
    loss = rnn(packed)[0].data.square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_packed_sequences_and_empty_memory_are_the_same(tmp_path):
    theirs = run(PACKED, tmp_path / "a.py", record, "torch")
    again = run(PACKED, tmp_path / "b.py", record, "torch")
    text = PACKED.replace("from torch.nn", "from tapegrad.nn")
    ours = run(text, tmp_path / "c.py", diagnose.record, "tapegrad")
    for found in (compare(theirs, again), compare(theirs, ours)):
        assert found.same, str(Text(found))
