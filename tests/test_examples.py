"""Every example runs on tapegrad, learns something, and says so."""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys

import pytest

import example_runs
from example_runs import EXAMPLES, SCRIPTS

sys.path.insert(0, str(EXAMPLES))
import data
import progress

README = EXAMPLES / "README.md"
# A few steps, and the share of the first losses that the last ones must have come below.
SHORT = {
    "char_gpt": (12, 0.9),
    "char_lstm": (20, 0.8),
    "custom_function": (40, 0.4),
    "digits_cnn": (20, 0.7),
    "digits_mlp": (60, 0.8),
    "neural_style": (20, 0.7),
    "pinn": (5, 0.7),
    "vae": (60, 0.8),
}
# What a whole run reaches at the least: a pattern with one number, and its bounds.
WHOLE = {
    "char_gpt": (r"last steps: ([\d.]+) nats", 1.0, 2.1),
    "char_lstm": (r"last steps: ([\d.]+) nats", 1.0, 1.9),
    "custom_function": (r"digits: ([\d.]+)%", 90, 100),
    "digits_cnn": (r"digits: ([\d.]+)%", 97, 100),
    "digits_mlp": (r"digits: ([\d.]+)%", 94, 100),
    "neural_style": (r"-> ([\d.]+)", 0, 0.05),
    "pinn": (r"largest error: ([\de.-]+)", 0, 0.01),
    "reinforce": (r"first, ([\d.]+) at the end", 120, 200),
    "vae": (r"all 1797 digits: ([\d.]+) nats", 20, 26),
}


def test_every_example_is_here():
    assert list(WHOLE) == SCRIPTS
    assert {*SHORT, "reinforce"} == set(SCRIPTS)
    readme = README.read_text(encoding="utf-8")
    listed = re.findall(r"^\| \[(\w+)\.py\]\(\w+\.py\)", readme, re.M)
    measured = re.findall(r"^\| (\w+)\.py", readme, re.M)
    assert sorted(listed) == measured == SCRIPTS


@pytest.mark.parametrize("name", SHORT)
def test_the_loss_falls(name):
    steps, share = SHORT[name]
    lines, curves = example_runs.run(name, steps)
    losses = curves["loss"]
    assert len(losses) == steps
    few = max(1, steps // 5)
    assert sum(losses[-few:]) < share * sum(losses[:few])
    assert lines[0].startswith(f"step     1  loss {losses[0]:.4g}")
    assert re.search(WHOLE[name][0], lines[-1])


def test_the_pole_stands_longer():
    """The loss of REINFORCE says nothing: what it is to raise is the time until the pole falls."""
    balanced = example_runs.run("reinforce", 12).curves["balanced"]
    assert sum(balanced[-3:]) > 1.5 * sum(balanced[:3])


@pytest.mark.slow
@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_run(name):
    pattern, low, high = WHOLE[name]
    result = re.search(pattern, example_runs.run(name).lines[-1])
    assert result and low <= float(result[1]) <= high


@pytest.mark.parametrize("name", SCRIPTS)
def test_examples_are_plain_pytorch(name):
    tree = ast.parse((EXAMPLES / f"{name}.py").read_text(encoding="utf-8"))
    imported = {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    imported |= {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    assert "torch" in imported
    assert {i.split(".")[0] for i in imported} <= {"torch", "math", "data", "progress"}
    assert len(ast.get_docstring(tree).splitlines()) > 1


# --- the helpers -----------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self):
        return True


def options(steps):
    return argparse.Namespace(steps=steps, losses=None)


def test_the_bar(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    bar = progress.Progress(options(20))
    for step in bar:
        bar.log(1 / step, other=step)
    assert bar.curves["other"] == list(range(1, 21))
    frames = terminal.getvalue().split("\r\033[K")
    half = next(f for f in frames if " 10/20 " in f)
    assert half.startswith("█" * 12 + "·" * 12 + " 10/20  loss 0.1  other 10  ")
    assert re.search(r"\d+ steps/s  0 s left$", half)
    assert frames[-1] == ""  # gone at the end
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "step     1  loss 1  other 1"
    assert [int(line.split()[1]) for line in lines] == [1, *range(2, 21, 2)]


def test_no_bar_without_a_terminal(monkeypatch):
    monkeypatch.setattr(sys, "stderr", elsewhere := io.StringIO())
    bar = progress.Progress(options(3))
    for _ in bar:
        bar.log(0.5)
    assert elsewhere.getvalue() == ""


def test_the_data():
    images, labels = data.digits()
    assert images.shape == (1797, 8, 8) and images.min() == 0 and images.max() == 1
    assert labels[:5].tolist() == [0, 1, 2, 3, 4]
    assert data.text().startswith("From fairest creatures")
    assert data.show([[0.0, 0.5, 1.0]]) == "  ▒▒██"


def test_the_data_without_the_package(monkeypatch):
    """With PyTorch alone, the files of the source tree are read."""

    def missing(name):
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(data.importlib.resources, "files", missing)
    assert data.digits()[1].shape == (1797,)
    assert data.text().startswith("From fairest creatures")
