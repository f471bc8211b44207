"""utils.progress in a real terminal, in a pipe, in a notebook, and with things that go wrong."""

from __future__ import annotations

import doctest
import gc
import io
import os
import pathlib
import pty
import re
import struct
import subprocess
import sys
import weakref

import pytest

import tapegrad as torch
from tapegrad import nn, optim
from tapegrad.utils.progress import columns, duration, progress

fcntl = pytest.importorskip("fcntl")
termios = pytest.importorskip("termios")


def in_terminal(code, width=80, **environment):
    """Run a script whose stderr is a terminal; what the terminal received."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    source = str(pathlib.Path(torch.__file__).parent.parent)
    env = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")}
    env |= {"PYTHONPATH": source, "PYTHONIOENCODING": "utf-8"} | environment
    child = subprocess.Popen([sys.executable, "-c", code], stderr=theirs, env=env)
    os.close(theirs)
    received = b""
    while True:
        try:
            received += (piece := os.read(ours, 4096))
        except OSError:  # the terminal's other side is closed
            break
        if not piece:
            break
    os.close(ours)
    child.wait()
    return received.decode("utf-8").replace("\r\n", "\n")


def screen(received):
    """The lines that a reader sees in the end: \\r goes back to the start and overwrites."""
    lines = []
    for row in received.split("\n"):
        shown = ""
        for piece in row.split("\r"):
            shown = piece + shown[len(piece) :]
        lines.append(shown.rstrip())
    return lines


LOOP = """
import time
from tapegrad.utils.progress import progress
bar = progress(range(20), desc="train", lr=0.1)
for i in bar:
    time.sleep(0.02)
    bar.set(loss=1 / (i + 1))
"""


def test_a_bar_in_a_terminal():
    received = in_terminal(LOOP)
    frames = received.split("\r")
    assert frames[1] == "·" * 24 + " train 0/20  lr 0.1"
    seen = re.findall(r"train (\d+)/20", received)
    assert (
        seen[0] == "0" and seen[-1] == "20" and len(seen) >= 4
    )  # 0.4 s at least, a frame per 0.1 s
    middle = next(f for f in frames if re.search(r"train 1\d/20", f))
    assert re.search(r"lr 0\.1  loss 0\.\d+  [\d.]+/s  [\d.]+ s left", middle)
    (line, rest) = screen(received)
    assert line.startswith("█" * 24 + " train 20/20  lr 0.1  loss 0.05  ") and rest == ""


def test_not_every_step_is_drawn():
    quick = LOOP.replace("range(20)", "range(3000)").replace("time.sleep(0.02)", "pass")
    seen = re.findall(r"train (\d+)/3000", in_terminal(quick))
    # A frame per 0.1 s: 300 of them would mean that 3,000 empty steps took half a minute.
    assert seen[0] == "0" and seen[-1] == "3000" and len(seen) < 300


@pytest.mark.parametrize("width", [60, 40, 24, 12, 5])
def test_a_narrow_terminal(width):
    received = in_terminal(LOOP, width)
    frames = [f.rstrip("\n") for f in received.split("\r")]
    assert max(map(columns, frames)) < width  # a full line would wrap
    assert screen(received)[-1] == "" and len(screen(received)) == 2
    if width >= 24:
        assert "train 20/20  lr 0.1" in screen(received)[0]


def test_other_encodings_and_wide_characters():
    received = in_terminal(LOOP, PYTHONIOENCODING="ascii")
    assert screen(received)[0].startswith("#" * 24 + " train 20/20")
    received = in_terminal(LOOP.replace("train", "训练"), 40)
    assert max(columns(f.rstrip("\n")) for f in received.split("\r")) < 40
    assert columns("训练 1") == 6


NESTED = """
import time
from tapegrad.utils.progress import progress
epochs = progress(range(2), desc="epoch")
for e in epochs:
    batches = progress(range(5), desc="batch")
    for i in batches:
        time.sleep(0.03)
        batches.set(loss=e + i)
    epochs.set(val=e)
"""


def test_bars_inside_bars():
    received = in_terminal(NESTED)
    assert re.search(r"epoch 0/2 > batch \d/5  loss \d", received)
    assert re.search(r"epoch 1/2 > batch \d/5  loss \d", received)
    (line, rest) = screen(received)
    assert line.startswith("█" * 24 + " epoch 2/2  val 1") and rest == ""


def test_an_error_leaves_a_clean_line():
    code = LOOP.replace("bar.set(", "print(1 // (5 - i), end='', flush=True) or bar.set(")
    lines = screen(in_terminal(code))
    assert re.match(r"█+·+ train 5/20  lr 0\.1  loss 0\.2", lines[0])
    assert lines[1].startswith("Traceback")
    assert "ZeroDivisionError" in lines[-2]


def test_printing_above_the_bar():
    code = LOOP.replace("bar.set(", "i == 10 and bar.print('half'); bar.set(")
    code = "import sys; sys.stdout = sys.stderr\n" + code
    lines = screen(in_terminal(code))
    assert lines[0] == "half" and "train 20/20" in lines[1]


def test_one_line_where_there_is_no_terminal():
    out = io.StringIO()
    epochs = progress(range(2), desc="epoch", file=out)
    for _ in epochs:
        for _ in progress(range(3), file=out):
            pass
        epochs.set(loss=0.25)
    assert re.fullmatch(r"epoch: 2 steps in 0\.0 s  loss 0\.25\n", out.getvalue())
    out = io.StringIO()
    for i in progress(range(9), file=out):
        if i == 3:
            break
    assert re.fullmatch(r"3 steps of 9, stopped in 0\.\d s\n", out.getvalue())


def test_a_notebook():
    Stream = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})
    out = Stream()
    for _ in progress(range(4), file=out, desc="n"):
        pass
    assert "\033" not in out.getvalue()
    assert out.getvalue().count("\n") == 1 and "n 4/4" in out.getvalue()


def test_no_tensor_is_kept():
    w = torch.ones(3, requires_grad=True)
    out = io.StringIO()
    bar = progress(range(3), file=out)
    for i in bar:
        loss = (w * (i + 1)).sum()
        loss.backward()
        bar.update(loss=loss, model=[w])
        gone = weakref.ref(loss)
    assert bar.values == {"loss": 9.0, "grad": pytest.approx(6 * 3**0.5)}  # 1 + 2 + 3, three times
    assert all(type(v) is float for v in bar.values.values())
    del loss
    gc.collect()
    assert gone() is None


def test_gradient_norms():
    model = nn.Linear(2, 1, bias=False)
    model.weight.grad = torch.tensor([[3.0, 4.0]])
    for source in (model, optim.SGD(model.parameters(), lr=1.0), [model.weight]):
        bar = progress(total=1, file=io.StringIO())
        bar.update(model=source)
        assert bar.values == {"grad": 5.0}


def test_counting_by_hand():
    out = io.StringIO()
    with progress(total=10, desc="steps", file=out) as bar:
        bar.update(loss=1.0)
        bar.update(4, loss=torch.tensor(0.5))
    assert bar.count == 5 and len(bar) == 10
    assert out.getvalue().startswith("steps: 5 steps in") and out.getvalue().endswith("loss 0.5\n")
    with pytest.raises(TypeError, match="nothing to iterate"):
        next(iter(bar))


def test_it_never_raises_into_the_training():
    class Awkward:
        def __float__(self):
            raise ValueError

        def __str__(self):
            raise ValueError

    class Broken(io.StringIO):
        def isatty(self):
            return True

        def write(self, text):
            raise BrokenPipeError

    for file in (Broken(), io.StringIO(), object(), None if sys.stderr is None else io.StringIO()):
        bar = progress((i for i in range(3)), file=file, rate=lambda: 1 / 0)
        seen = []
        for i in bar:
            bar.update(loss=Awkward(), model=object(), text="a" * 500, many=torch.ones(2, 2))
            bar.set(nothing=None)
            seen.append(i)
        assert seen == [0, 1, 2]
    assert bar.values["loss"] == "?" and bar.values["many"] == 1.0


def test_errors_of_the_iterable_are_its_own():
    def items():
        yield 1
        raise KeyError("gone")

    with pytest.raises(KeyError, match="gone"):
        list(progress(items(), file=io.StringIO()))


def test_functions_are_asked_when_it_is_drawn():
    out, rates = io.StringIO(), [0.1]
    for _ in progress(range(3), file=out, lr=lambda: rates[0]):
        rates[0] /= 10
    assert out.getvalue().endswith("lr 0.0001\n")


def test_the_examples_in_the_docs_run():
    result = doctest.testmod(sys.modules[progress.__module__])
    assert result.failed == 0 and result.attempted >= 4


def test_durations():
    assert [duration(s) for s in (0.04, 9.5, 59.2, 65, 3723)] == [
        "0.0 s",
        "9.5 s",
        "59 s",
        "1:05",
        "1:02:03",
    ]
