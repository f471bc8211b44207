"""diagnose.live: the numbers, the picture, and what it does to a terminal."""

from __future__ import annotations

import io
import math
import sys

import pytest

import tapegrad as torch
from tapegrad import diagnose, nn
from tapegrad.diagnose import chart


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


def screen(text):
    """What stands on a terminal after a text with the escapes that are used here."""
    lines, row, i = [""], 0, 0
    while i < len(text):
        if text[i] == "\x1b":
            end = next(k for k in range(i, len(text)) if text[k].isalpha())
            if text[end] == "A":
                row -= int(text[i + 2 : end])
            else:
                assert text[i : end + 1] == "\x1b[J"
                del lines[row:]
                lines.append("")
            i = end + 1
            continue
        if text[i] == "\n":
            row += 1
            if row == len(lines):
                lines.append("")
        else:
            lines[row] += text[i]
        i += 1
    return lines


def train(steps, after=lambda step: None):
    torch.manual_seed(0)
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    x = torch.randn(16, 3)
    for step in range(steps):
        optimizer.zero_grad()
        loss = (model(x) - x[:, :1]).square().mean()
        loss.backward()
        optimizer.step()
        after(step)
    return loss


def test_a_loop_with_an_optimizer():
    out = io.StringIO()
    with diagnose.live(out) as picture:
        loss = train(20)
    assert picture.problems == [] and picture.passes == 20
    assert picture.losses[-1] == pytest.approx(loss.item())
    assert len(picture.gradients) == 20 and picture.gradients[0] > picture.gradients[-1] > 0
    assert set(picture.layers) == {"model.weight", "model.bias"}
    both = math.hypot(*picture.layers.values())
    assert picture.gradients[-1] == pytest.approx(both)
    text = out.getvalue()  # a pipe: once, at the end, without escapes
    assert text.count("20 passes") == 1 and "\x1b" not in text
    assert "model.weight" in text and all(len(line) < 80 for line in text.splitlines())


def test_a_loop_by_hand():
    w = torch.ones(2, requires_grad=True)
    with diagnose.live(io.StringIO()) as picture:
        for _ in range(4):
            (w * w).sum().backward()
            w.data -= 0.1 * w.grad
            w.grad = None
            picture.log(size=w.norm())
    assert picture.losses == pytest.approx([2 * 0.64**i for i in range(4)])
    assert picture.values["size"] == pytest.approx(math.sqrt(2) * 0.8**4)
    assert list(picture.layers) == ["w"]


def test_a_terminal_keeps_what_is_printed_above(monkeypatch):
    out = Terminal()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(diagnose._live, "EVERY", 0.0)
    with diagnose.live(out):
        train(30, lambda step: print("step", step) if step % 10 == 0 else None)
    assert sys.stdout is out
    assert "\x1b[J" in out.getvalue()
    lines = screen(out.getvalue())
    assert lines[:3] == ["step 0", "step 10", "step 20"]
    assert lines[3].startswith("30 passes")
    assert sum(line.startswith("loss ") for line in lines) == 1


def test_an_error_goes_through_and_nothing_stays_wrapped():
    backward = torch.Tensor.backward
    with pytest.raises(ZeroDivisionError), diagnose.live(io.StringIO()):
        train(3, lambda step: 1 / (1 - step))
    assert torch.Tensor.backward is backward


def test_the_picture_of_a_notebook():
    with diagnose.live(io.StringIO()) as picture:
        train(5)
    drawn = picture._repr_html_()
    assert drawn.count("<svg") == 2 and "gradient norm" in drawn and "model.weight" in drawn
    assert picture.data()["passes"] == 5


def test_loops_without_numbers():
    assert repr(diagnose.live(io.StringIO())) == "no backward() yet"
    w = torch.ones(1, requires_grad=True)
    with diagnose.live(io.StringIO()) as picture:
        for scale in (1.0, float("nan"), float("inf")):
            (w * scale).sum().backward()
    assert picture.problems == [] and repr(picture) and picture._repr_html_()


@pytest.mark.parametrize("values", [[], [1.0], [1.0, 1.0], [5, 1e-9, 3], [*range(999)], [-1, 2]])
def test_curves_fit(values):
    for plain in (False, True):
        lines = chart.rows(values, 40, 4, plain)
        assert len(lines) == 4 and all(len(line) <= 40 for line in lines)
    assert chart.svg(values, "title").endswith("</svg>")
