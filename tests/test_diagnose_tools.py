"""summary, gradient_flow and explain; the examples in the files of diagnose; the lazy package."""

from __future__ import annotations

import doctest
import importlib
import io
import json
import os
import pathlib
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import tapegrad as torch
from tapegrad import diagnose, nn
from tapegrad.diagnose import error_pages as pages

DOCS = pathlib.Path(__file__).parent.parent / "docs" / "errors"
MODULES = """
    _explain _layers _leaks _live _memory _ops _program _summary _why alive chart error_pages flow
    holders trace words
""".split()

# ---------------------------------------------------------------------- summary


def test_summary_by_hand() -> None:
    t = torch.tensor([[1.0, -3.0, 0.0], [float("nan"), float("inf"), 5.0]], requires_grad=True)
    found = diagnose.summary(t)
    assert (found.name, found.shape, found.bytes, found.device) == ("t", (2, 3), 24, "cpu")
    assert (found.min, found.max, found.mean) == (-3.0, 5.0, 0.75)
    assert found.std == pytest.approx(np.std([1, -3, 0, 5], ddof=1))
    assert (found.size, found.nan, found.inf, found.zero) == (6, 1, 1, 1)
    assert found.is_leaf and found.grad_fn is None
    assert "6 values: 1 NaN, 1 Inf, 1 zero" in repr(found)
    assert "(of the finite values)" in repr(found)


def test_summary_names_the_line() -> None:
    x = torch.ones(2, requires_grad=True)
    y = x.exp()  #: made
    found = diagnose.summary(y)
    assert found.grad_fn == "ExpBackward0" and found.line["text"].endswith("#: made")
    assert "made by ExpBackward0 at test_diagnose_tools.py:" in repr(found)


@pytest.mark.parametrize("dtype", [d for d in torch.dtypes.ALL], ids=str)
@pytest.mark.parametrize("shape", [(), (0, 3), (1,), (2, 3)], ids=str)
def test_summary_of_every_dtype(dtype: Any, shape: tuple[int, ...]) -> None:
    t = torch.ones(shape).to(dtype)
    found = diagnose.summary(t)
    size = int(np.prod(shape))
    assert (found.size, found.zero, found.nan, found.inf) == (size, 0, 0, 0)
    assert found.dtype == str(dtype) and found.bytes == size * dtype.itemsize
    assert found.min == found.max == (1 if size else None)
    assert found.std == (0 if size > 1 else None)
    assert repr(found) and json.dumps(found.data())


class TwoPaths(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout())
        self.head = nn.Linear(8, 3)
        self.again = self.head
        self.unused = nn.Linear(2, 2)

    def forward(self, x: Any, scale: float = 1.0) -> Any:
        y = self.body(x).mean((2, 3)) * scale
        return self.head(y), self.again(y)


def test_summary_of_a_model() -> None:
    model = TwoPaths()
    model.head.bias.requires_grad_(False)
    before = {name: t.clone() for name, t in model.state_dict().items()}
    random = torch.get_rng_state()
    found = diagnose.summary(model, torch.ones(2, 1, 5, 5), scale=2.0)
    rows = [(r.depth, r.name, r.kind, r.output, r.parameters) for r in found.layers]
    assert rows == [
        (0, "", "TwoPaths", "(2, 3), (2, 3)", 0),
        (1, "body", "Sequential", "(2, 8, 3, 3)", 0),
        (2, "body.0", "Conv2d", "(2, 8, 3, 3)", 80),
        (2, "body.1", "BatchNorm2d", "(2, 8, 3, 3)", 16),
        (2, "body.2", "ReLU", "(2, 8, 3, 3)", 0),
        (2, "body.3", "Dropout", "(2, 8, 3, 3)", 0),
        (1, "head", "Linear", "(2, 3)", 27),
        (1, "head", "Linear", "(2, 3)", 0),  # called twice, counted once
        (1, "unused", "Linear", "-", 6),
    ]
    assert (found.parameters, found.trainable) == (129, 126)
    assert found.input_bytes == 200 and found.output_bytes == 4 * 576 + 2 * 24
    assert found.layers[-1].seconds is None and "not called" in repr(found)
    assert "parameters: 129 (516 B), of which 3 are frozen" in repr(found)
    assert json.dumps(found.data())
    # The model is as it was: buffers, flags, hooks, and no random number was drawn.
    assert all(torch.equal(t, before[name]) for name, t in model.state_dict().items())
    assert model.training and model.body[3].training and not model._forward_hooks
    assert torch.equal(random, torch.get_rng_state())


class Borrowed(nn.Module):
    """Layers in a list, and one whose weight is used without calling it."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
        self.table = nn.Linear(4, 2)
        self.unused = nn.Linear(4, 1)

    def forward(self, x: Any) -> Any:
        for step in self.steps:
            x = step(x)
        return nn.functional.linear(x, self.table.weight)


def test_summary_has_totals_and_tells_what_is_used() -> None:
    found = diagnose.summary(Borrowed(), torch.ones(1, 4))
    rows = [(r.depth, r.name, r.total, r.seconds is not None, r.used) for r in found.layers]
    assert rows == [
        (0, "", 55, True, False),
        (1, "steps.0", 20, True, False),
        (1, "steps.1", 20, True, False),
        (1, "table", 10, False, True),
        (1, "unused", 5, False, False),
    ]
    lines = [" ".join(line.split()) for line in repr(found).splitlines()]
    assert "table: Linear - 10 - used" in lines and "unused: Linear - 5 - not called" in lines
    assert lines[2].startswith("steps.0: Linear (1, 4) 20 16 B")


def test_summary_of_a_model_without_inputs_or_that_fails() -> None:
    model = TwoPaths()
    text = repr(diagnose.summary(model))
    assert "output" not in text.splitlines()[0] and "0: Conv2d" in text
    with pytest.raises(RuntimeError):
        diagnose.summary(model, torch.ones(2, 3, 5, 5))
    assert model.training and not model.head._forward_pre_hooks
    with pytest.raises(TypeError, match="only a model"):
        diagnose.summary(torch.ones(2), torch.ones(2))


def test_ops_are_listed() -> None:
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    said = io.StringIO()
    with diagnose.trace_ops(said) as ops:
        loss = model(torch.ones(4, 3)).sum()  #: forward
        loss.backward()  #: backward
        optimizer.step()  #: step
    lines = said.getvalue().splitlines()
    assert len(lines) == len(ops.seen)
    by_line = {(op.where["text"].rpartition("#: ")[2], op.name): op for op in ops.seen}
    product = by_line["forward", "addmm"]
    assert (product.given, product.made) == ("(2,) (4, 3) (3, 2)", "(4, 2)")
    assert ("backward", "mm") in by_line
    assert by_line["step", "add_"].given == "(2,) (2,)"
    assert all("test_diagnose_tools.py:" in line and " µs  " in line for line in lines)


def test_ops_that_only_we_have_are_listed_by_their_names() -> None:
    layer = nn.Conv1d(2, 3, 2)
    with diagnose.trace_ops(io.StringIO()) as ops:
        layer(torch.ones(1, 2, 5)).sum().backward()
    names = [op.name for op in ops.seen]
    assert "convolution" in names and "conv_weight_grad" in names


def test_a_program_whose_ops_are_listed() -> None:
    code = "import tapegrad as torch\nprint((torch.ones(2) * 3).sum().item())\n"
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "TAPEGRAD_TRACE": "1"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "6.0\n"
    names = [line.split()[2] for line in done.stderr.splitlines()]
    assert names == ["ones", "mul", "sum", "_local_scalar_dense"]


def test_summary_of_odd_tensors() -> None:
    complex_ = diagnose.summary(torch.tensor([3 + 4j, 0j]))
    assert (complex_.min, complex_.max, complex_.mean) == (0.0, 5.0, 1.5 + 2j)
    assert complex_.zero == 1 and "|max| 5" in repr(complex_)
    assert diagnose.summary(torch.tensor([True, False, True])).mean == pytest.approx(2 / 3)
    only_nan = diagnose.summary(torch.tensor([float("nan")] * 2))
    assert only_nan.min is None and only_nan.nan == 2
    assert not diagnose.summary(torch.ones(3, 4).t()).contiguous
    sparse = diagnose.summary(torch.eye(3).to_sparse())
    assert sparse.shape == (3, 3) and sparse.size == 3 and "3 stored" in repr(sparse)
    largest = diagnose.summary(torch.tensor([2**63 - 1, -(2**63)]))
    assert (largest.min, largest.max) == (-(2**63), 2**63 - 1)
    with pytest.raises(TypeError, match=r"summary\(\): argument 't' must be a Tensor, not list"):
        diagnose.summary([1.0])


# ---------------------------------------------------------------------- gradient_flow


def model_with_gradients() -> Any:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2))
    for i, p in enumerate(model.parameters()):
        p.grad = torch.full_like(p, 10.0**-i)
    model[0].weight.grad = torch.tensor([[3.0, 0.0], [0.0, -4.0]])
    return model


def test_flow_by_hand() -> None:
    model = model_with_gradients()
    with torch.no_grad():
        model[0].weight.copy_(torch.tensor([[0.0, 3.0], [4.0, 0.0]]))
    row = diagnose.gradient_flow(model).rows[0]
    assert row == {
        "name": "0.weight",
        "shape": [2, 2],
        "norm": 5.0,
        "mean_abs": 1.75,
        "max_abs": 4.0,
        "ratio": 1.0,
        "mark": "",
    }


def test_flow_marks() -> None:
    model = model_with_gradients()
    model[0].bias.requires_grad_(False)
    model[0].bias.grad = None
    model[1].weight.grad = None
    model[1].bias.grad.zero_()
    model[2].weight.grad[0, 0] = float("nan")
    found = diagnose.gradient_flow(model)
    assert [row["mark"] for row in found.rows] == ["", "frozen", "none", "zero", "nan", ""]
    text = repr(found)
    assert "<- NAN" in text and "<- ZERO" in text
    assert any("1 without gradient" in note and "1.weight" in note for note in found.notes)
    assert any("5e+05 times" in note or "4e+05 times" in note for note in found.notes)


def test_flow_bars_are_logarithmic() -> None:
    tensors = {name: torch.ones(1, requires_grad=True) for name in "abc"}
    for exponent, t in zip((0, -2, -4), tensors.values(), strict=True):
        t.grad = torch.full((1,), 10.0**exponent)
    lines = repr(diagnose.gradient_flow(tensors)).splitlines()[1:4]
    bars = [line.count("#") for line in lines]
    assert bars[0] - bars[1] == pytest.approx(bars[1] - bars[2], abs=1)
    assert bars[0] > bars[1] > bars[2] >= 1


def test_flow_input() -> None:
    w = torch.ones(2, requires_grad=True)
    assert diagnose.gradient_flow(w).rows[0]["name"] == "w"
    assert diagnose.gradient_flow([w]).rows[0]["name"] == "[0]"
    assert diagnose.gradient_flow([("weight", w)]).rows[0]["name"] == "weight"
    assert repr(diagnose.gradient_flow(nn.ReLU())) == "No parameters."
    for wrong in (3, [3], {"a": None}):
        with pytest.raises(TypeError, match=r"gradient_flow\(\): argument 'model' must be a Mod"):
            diagnose.gradient_flow(wrong)


class FakeAxes:
    """Notes what is drawn, so that the plot can be tested without matplotlib."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...]]] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **kwargs: self.calls.append((name, args))


def test_a_bias_in_front_of_batch_norm_is_useless():
    """In the order of a Sequential and of attributes; where it is of use, nothing is said."""

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(1, 4, 3)
            self.bn = nn.BatchNorm2d(4)
            self.head = nn.Linear(4 * 36, 2)

        def forward(self, x):
            return self.head(self.bn(self.conv(x)).relu().flatten(1))

    model = Block()
    x = torch.randn(8, 1, 8, 8)
    nn.functional.cross_entropy(model(x), torch.randint(2, (8,))).backward()
    found = diagnose.gradient_flow(model)
    assert {row["name"] for row in found.rows if row["mark"]} == {"conv.bias"}
    (note,) = found.notes  # and nothing about 1e8 between the largest and the smallest
    assert "bias=False" in note and "conv.bias" in note
    model.zero_grad()
    model.eval()  # running statistics do not take the bias away
    nn.functional.cross_entropy(model(x), torch.randint(2, (8,))).backward()
    assert not any(row["mark"] for row in diagnose.gradient_flow(model).rows)


def test_flow_plot() -> None:
    model = model_with_gradients()
    model[2].bias.grad = None
    axes = FakeAxes()
    assert diagnose.gradient_flow(model).plot(axes) is axes
    names, norms = next(args for name, args in axes.calls if name == "barh")
    assert names[0] == "0.weight" and norms[0] == 5.0 and norms[-1] == 0.0
    assert ("set_xscale", ("log",)) in axes.calls
    assert next(args for name, args in axes.calls if name == "annotate")[0] == " none"


# ---------------------------------------------------------------------- explain


def test_explain_with_a_diagnosis() -> None:
    x = torch.ones(2, requires_grad=True)
    y = x.exp()  #: saved
    y += 1  #: written
    with pytest.raises(RuntimeError) as caught:
        y.sum().backward()
    found = diagnose.explain(caught.value)
    text = repr(found)
    assert found.title == "[E01] A value that backward needs was overwritten"
    assert found.facts is caught.value.diagnosis
    lines = text.splitlines()
    written = next(i for i, line in enumerate(lines) if line.endswith("y += 1  #: written"))
    assert lines[written].lstrip().startswith(">")
    assert lines[written + 1].endswith("^ written: by add_ (version 0 -> 1)")
    assert any(line.endswith("y = x.exp()  #: saved") for line in lines)
    assert "1. write y = y + 1" in text
    assert "The cures in general" in text and "docs/errors/E01.md" in text
    source = [line for line in lines if re.match(r"  [> ] +\d+ \|", line)]
    assert len(source) == 4 + 3 + 3  # from saved to noticed are four lines, and three around


def test_explain_shows_details() -> None:
    model = nn.Linear(3, 4)
    with pytest.raises(RuntimeError) as caught:
        model(torch.ones(2, 5))
    text = repr(diagnose.explain(caught.value))
    for line in str(caught.value).splitlines()[1:]:
        if line.lstrip().startswith(("module:", "shapes:")):
            assert line in text


def test_explain_finds_the_error_behind() -> None:
    try:
        try:
            (torch.ones(3, requires_grad=True) * 2).backward()
        except RuntimeError as error:
            raise ValueError("training failed") from error
    except ValueError as error:
        assert diagnose.explain(error).title.startswith("[E04]")
        assert diagnose.explain().title.startswith("[E04]")  # the one that is being handled


def test_explain_without_a_diagnosis() -> None:
    batch = torch.ones(2, 3)
    names = {"a": 1}
    try:
        names[batch.shape]  #: here
    except KeyError as error:
        found = diagnose.explain(error)
    assert found.facts["line"]["text"].endswith("#: here")
    assert found.facts["tensors"][0]["name"] == "batch"
    assert found.facts["tensors"][0]["shape"] == [2, 3]
    assert "This error is not in the catalogue" in repr(found)
    bare = diagnose.explain(ValueError("made, never raised"))
    assert bare.facts["line"] is None and "ValueError: made, never raised" in repr(bare)


def test_explain_input() -> None:
    with pytest.raises(TypeError, match="argument 'err' must be an exception or None, not str"):
        diagnose.explain("RuntimeError")


def test_explain_the_last_error(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("last_exc", "last_value"):
        monkeypatch.delattr(sys, name, raising=False)
    assert repr(diagnose.explain()) == "There was no error in this session yet."
    monkeypatch.setattr(sys, "last_value", OSError("a disk"), raising=False)
    assert "OSError: a disk" in repr(diagnose.explain())


@pytest.mark.parametrize("file", sorted(DOCS.glob("E*.md")), ids=lambda f: f.stem)
def test_pages_are_those_of_the_docs(file: pathlib.Path) -> None:
    expected = pages.condensed(file.read_text("utf-8"))
    found = pages.page(file.stem)
    assert found is not None, "run python -m tapegrad.diagnose.error_pages docs"
    title = f"# {found.id}: {found.title}"
    whole = f"{title}\n\n> {found.sentence}\n\n{found.paragraph}\n\n{found.cure}\n"
    assert whole == expected


@pytest.mark.parametrize(
    ("asked", "first"),
    [
        ("e1", "E01"),
        ("[E09]", "E09"),
        ("d3", "D03"),
        ("one of the variables needed", "E01"),
        ("View size is not compatible", "E09"),
        ("mat1 and mat2 shapes cannot be multiplied (3x8 and 9x2)", "E09"),
        ("E99", None),
        ("zzyzx", None),
    ],
)
def test_pages_are_found_by_id_and_by_words(asked: str, first: str | None) -> None:
    found = pages.search(asked)
    assert (found[0].id if found else None) == first


def test_every_finding_of_the_doctor_has_a_page(capsys: pytest.CaptureFixture[str]) -> None:
    from tapegrad.diagnose._doctor.report import CATALOGUE

    text = (DOCS.parent / "doctor.md").read_text("utf-8")
    sections = {each[:3]: each for each in text.split("\n## ")[1:] if each.startswith("D")}
    for identity, (_, title) in CATALOGUE.items():
        found = pages.page(identity)
        assert found is not None, "run python -m tapegrad.diagnose.error_pages docs"
        whole = f"# {identity}: {found.title}\n\n{found.paragraph}\n\n{found.cure}\n"
        assert whole == pages.condensed_finding(sections[identity])
        assert found.title == title
    assert pages.show("d01") == 0
    assert "The cure:\n`optimizer.zero_grad()`" in capsys.readouterr().out


# ---------------------------------------------------------------------- all of them


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    module = importlib.import_module(f"tapegrad.diagnose.{name}")
    result = doctest.testmod(module)
    assert result.failed == 0 and (result.attempted or name == "alive")


def test_nothing_is_loaded_before_it_is_used() -> None:
    program = (
        "import sys, tapegrad\n"
        "from tapegrad import diagnose\n"
        "loaded = [m for m in sys.modules if m.startswith('tapegrad.diagnose.')]\n"
        "assert not loaded, loaded\n"
        "assert callable(diagnose.why) and callable(diagnose.why)\n"
        "assert {'why', 'memory', 'trace_backward'} <= set(dir(diagnose))\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        diagnose.nonsense
