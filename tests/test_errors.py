"""The error catalogue (docs/errors): PyTorch's sentence, the lines that caused it, names, cures.

Each case is a source file of its own, so that file, line and text can be compared. A comment
`#: label` marks the line that the diagnosis must name under that label; nothing else may be named.
"""

from __future__ import annotations

import builtins
import contextlib
import copy
import io
import json
import linecache
import pathlib
import pickle
import re
import textwrap
import warnings
from typing import Any, NamedTuple

import pytest

import tapegrad

DOCS = pathlib.Path(__file__).parent.parent / "docs" / "errors"
PACKAGE = str(pathlib.Path(tapegrad.__file__).parent)
IDS = ("E01", "E02", "E03", "E04", "E05", "E06", "E07", "E12", "E13")


class Case(NamedTuple):
    id: str
    about: str
    source: str
    sentence: str
    tensor: str | None  # the name that the tensor must have; None: no tensor in the text
    cure: str  # what the first fix mentions
    facts: dict[str, Any] = {}  # entries of the diagnosis


def e01(
    shape: list[int], maker: str = "", at: int = 1, expected: int = 0, kind: str = "Float"
) -> str:
    made = f", which is output 0 of {maker}," if maker else ""
    return (
        "one of the variables needed for gradient computation has been modified by an inplace "
        f"operation: [torch.{kind}Tensor {shape}]{made} is at version {at}; expected version "
        f"{expected} instead. Hint: enable anomaly detection to find the operation that failed to "
        "compute its gradient, with torch.autograd.set_detect_anomaly(True, check_nan=False)."
    )


E02 = (
    "Trying to backward through the graph a second time (or directly access saved tensors after "
    "they have already been freed). Saved intermediate values of the graph are freed when you call "
    ".backward() or autograd.grad(). Specify retain_graph=True if you need to backward through the "
    "graph a second time or if you need to access saved tensors after calling backward."
)
E03 = "element 0 of tensors does not require grad and does not have a grad_fn"
E04 = "grad can be implicitly created only for scalar outputs"
E06 = "a leaf Variable that requires grad is being used in an in-place operation."
E07 = (
    "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad "
    "attribute won't be populated during autograd.backward(). If you indeed want the .grad field "
    "to be populated for a non-leaf Tensor, use .retain_grad() on the non-leaf Tensor. If you "
    "access the non-leaf Tensor by mistake, make sure you access the leaf Tensor instead. See "
    "github.com/pytorch/pytorch/pull/30531 for more information."
)
NO_GRAD_VIEW = (
    "Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your "
    "code by moving both the view and the inplace either both inside the no_grad block (if you "
    "don't want the inplace to be tracked) or both outside (if you want the inplace to be tracked)."
)


def e05(index: int) -> str:
    return (
        f"The differentiated Tensor at index {index} appears to not have been used in the graph. "
        "Set allow_unused=True if this is the desired behavior."
    )


CASES = [
    # ------------------------------------------------------------------ E01
    Case("E01", "an optimizer step between two backward passes", """
        w = torch.tensor([1.0, 2.0], requires_grad=True)
        optimizer = torch.optim.SGD([w], lr=0.1)
        loss = (w * w).sum()  #: saved
        loss.backward(retain_graph=True)
        optimizer.step()  #: written
        loss.backward()  #: noticed
        """, e01([2]), "w", "before optimizer.step()", {"version": 1, "expected": 0}),
    Case("E01", "an optimizer step between two losses of a network", """
        net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU(), torch.nn.Linear(2, 1))
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        out = net(torch.ones(1, 2))  #: saved
        out.sum().backward(retain_graph=True)
        optimizer.step()  #: written
        (out * 2).sum().backward()  #: noticed
        """, e01([2, 1], "AsStrided", 2, 1), "a view of `net.2.weight`", "before optimizer.step()"),
    Case("E01", "a write through a view", """
        x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        a = x * 1
        b = a**2  #: saved
        v = a.view(3, 1)  #: view
        v.mul_(2)  #: written
        b.sum().backward()  #: noticed
        """, e01([3], "torch::autograd::CopySlices"), "a", "mul(...)"),
    Case("E01", "+= on a saved output", """
        x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        y = x.exp()  #: saved
        y += 1  #: written
        y.sum().backward()  #: noticed
        """, e01([3], "Exp"), "y", "write y = y + 1", {"op": "exp", "role": "its own output"}),
    Case("E01", "relu_ on a saved output", """
        x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        y = x.exp()  #: saved
        y.relu_()  #: written
        y.sum().backward()  #: noticed
        """, e01([3], "Exp"), "y", "relu(...)"),
    Case("E01", "sigmoid_ and then another write", """
        x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        y = x * 1
        y.sigmoid_()  #: saved
        y.mul_(2)  #: written
        y.sum().backward()  #: noticed
        """, e01([3], "Sigmoid", 2, 1), "y", "mul(...)"),
    Case("E01", "exp_ on a saved input", """
        x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        a = x * 1
        y = a.sin()  #: saved
        a.exp_()  #: written
        y.sum().backward()  #: noticed
        """, e01([3], "Exp"), "a", "exp(...)", {"op": "sin", "role": "its input `input`"}),
    Case("E01", "a write through detach()", """
        x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        y = x * x  #: saved
        x.detach().add_(1)  #: written
        y.sum().backward()  #: noticed
        """, e01([3]), "x", ".detach().clone()"),
    Case("E01", "a slice assignment", """
        x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        a = x * 1
        y = a * a  #: saved
        a[0] = 5.0  #: written
        y.sum().backward()  #: noticed
        """, e01([3], "torch::autograd::CopySlices"), "a", "torch.where"),
    Case("E01", "a write through a sibling view", """
        x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        a = x * 1
        one = a[:1]
        two = a[2:]  #: view
        y = one * one  #: saved
        two.add_(1)  #: written
        y.sum().backward()  #: noticed
        """, e01([1], "AsStrided"), "one", "add(...)"),
    Case("E01", "a tensor saved by a Function", """
        class Square(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * x

            @staticmethod
            def backward(ctx, grad):
                (x,) = ctx.saved_tensors  #: noticed
                return 2 * x * grad

        x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        a = x * 1
        y = Square.apply(a)  #: saved
        a.add_(1)  #: written
        y.sum().backward()
        """, e01([3], "Add"), "a", "add(...)", {"op": "SquareBackward"}),
    Case("E01", "inside a module's forward", """
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = torch.nn.Linear(3, 3)

            def forward(self, x):
                h = torch.sigmoid(self.fc(x))  #: saved
                h += x  #: written
                return h

        net = Net()
        net(torch.ones(2, 3)).sum().backward()  #: noticed
        """, e01([2, 3], "Sigmoid"), "h", "write h = h + x"),
    Case("E01", "in a loop", """
        def accumulate(x):
            total = torch.zeros(3)
            outs = []
            for i in range(3):
                total += x  #: written
                outs.append(total * x)  #: saved
            return outs

        x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        outs = accumulate(x)
        outs[1].sum().backward()  #: noticed
        """, e01([3], "Add", 3, 2), "total", "write total = total + x"),
    Case("E01", "two writes, both named", """
        x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        a = x * 1
        y = a * a  #: saved
        a.mul_(2)  #: written
        a.sub_(1)  #: written
        y.sum().backward()  #: noticed
        """, e01([3], "Sub", 2), "a", "mul(...)"),
    Case("E01", "four writes, the first and the last named", """
        x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        a = x * 1
        y = a * a  #: saved
        a.mul_(2)  #: written
        a.mul_(3)
        a.mul_(4)
        a.sub_(1)  #: written
        y.sum().backward()  #: noticed
        """, e01([3], "Sub", 4), "a", "mul(...)"),
    Case("E01", "zero_()", """
        x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        y = x.sqrt()  #: saved
        z = y.sum()
        y.zero_()  #: written
        z.backward()  #: noticed
        """, e01([3], "Sqrt"), "y", "zeros_like"),
    Case("E01", "copy_()", """
        x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        w = torch.ones(3)
        y = x * w  #: saved
        w.copy_(torch.zeros(3))  #: written
        y.sum().backward()  #: noticed
        """, e01([3]), "w", "torch.where", {"role": "its input `other`"}),
    Case("E01", "an index tensor", """
        x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        index = torch.tensor([0, 1])
        y = x.gather(0, index)  #: saved
        index += 1  #: written
        y.sum().backward()  #: noticed
        """, e01([2], kind="Long"), "index", "write index = index + 1"),
    # ------------------------------------------------------------------ E02
    Case("E02", "the same loss twice", """
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        loss = (x * x).sum()  #: made
        loss.backward()  #: freed
        loss.backward()  #: noticed
        """, E02, None, "call backward() once"),
    Case("E02", "a hidden state carried over iterations", """
        w = torch.tensor(0.5, requires_grad=True)
        h = torch.tensor(1.0)
        for step in range(3):
            h = torch.tanh(w * h)  #: made reused
            loss = (h - 1) ** 2
            loss.backward()  #: freed noticed
        """, E02, "h", "h = h.detach()"),
    Case("E02", "a carried state behind an op that saves nothing", """
        w = torch.tensor(0.5, requires_grad=True)

        def step(h):
            h = w * torch.exp(h)
            h = h + 1  #: made
            return h

        h = torch.tensor(1.0)
        h = step(h)
        h.backward()  #: freed
        out = h * 2  #: reused
        out.backward()  #: noticed
        """, E02, "h", "h = h.detach()"),
    Case("E02", "two losses that share a trunk", """
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        trunk = x.exp()  #: made
        one = trunk.sum()
        two = (trunk * 2).sum()  #: reused
        one.backward()  #: freed
        two.backward()  #: noticed
        """, E02, "trunk", "add the losses up"),
    Case("E02", "a saved attribute after backward", """
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        y = x**2  #: made
        y.sum().backward()  #: freed
        y.grad_fn._saved_self  #: noticed
        """, E02, None, "before backward()"),
    # ------------------------------------------------------------------ E03
    Case("E03", "detach()", """
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        y = (x * 2).detach()  #: cut
        loss = (y + 1).exp().sum()
        loss.backward()  #: noticed
        """, E03, "loss", ".detach()", {"cut_by": "detach"}),
    Case("E03", ".data", """
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        y = x.data * 2  #: cut
        loss = torch.stack([y, y]).sum()
        loss.backward()  #: noticed
        """, E03, "loss", ".data", {"cut_by": "data"}),
    Case("E03", "no_grad", """
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        with torch.no_grad():
            y = x * 2  #: cut
        loss = (y[0] - 1) ** 2
        loss.backward()  #: noticed
        """, E03, "loss", "outside of torch.no_grad()", {"cut_by": "no_grad"}),
    Case("E03", "inference_mode", """
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        with torch.inference_mode():
            y = x.exp()  #: cut
        loss = y.sum()
        loss.backward()  #: noticed
        """, E03, "loss", "outside of torch.inference_mode()", {"cut_by": "inference_mode"}),
    Case("E03", "argmax", """
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        best = x.argmax()  #: cut
        loss = best.float()
        loss.backward()  #: noticed
        """, E03, "loss", "in the place of argmax", {"cut_by": "argmax"}),
    Case("E03", "a comparison", """
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        hits = x > 1.5  #: cut
        loss = hits.float().mean()
        loss.backward()  #: noticed
        """, E03, "loss", "in the place of gt", {"cut_by": "gt"}),
    Case("E03", "the indices of max", """
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        best = x.max(0).indices  #: cut
        loss = best * 2.0
        loss.backward()  #: noticed
        """, E03, "loss", "in the place of output 1 of max"),
    Case("E03", "an integer cast", """
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        y = x.long()  #: cut
        loss = y.float().sum()
        loss.backward()  #: noticed
        """, E03, "loss", "floating dtype", {"cut_by": "cast"}),
    Case("E03", "torch.tensor of a list of tensors", """
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        parts = [v * v for v in x]
        loss = torch.tensor(parts).sum()  #: cut
        loss.backward()  #: noticed
        """, E03, "loss", "torch.stack", {"cut_by": "tensor"}),
    Case("E03", "requires_grad was never set", """
        x = torch.tensor([1.0, 2.0])
        loss = (x * 2).sum()
        loss.backward()  #: noticed
        """, E03, "loss", "requires_grad=True", {"cut_by": None, "frozen": []}),
    Case("E03", "frozen parameters", """
        net = torch.nn.Linear(2, 1)
        for p in net.parameters():
            p.requires_grad_(False)
        loss = net(torch.ones(1, 2)).sum()
        loss.backward()  #: noticed
        """, E03, "loss", "net.requires_grad_(True)", {"frozen": ["net"]}),
    # ------------------------------------------------------------------ E04
    Case("E04", "a vector", """
        x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        y = x * 2  #: made
        y.backward()  #: noticed
        """, E04, "y", "did you mean .mean() or .sum()", {"shape": [3]}),
    Case("E04", "a loss that was not reduced", """
        x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        criterion = torch.nn.MSELoss(reduction="none")
        each = criterion(x, torch.zeros(3))  #: loss
        weighted = each * 2  #: made
        weighted.backward()  #: noticed
        """, E04, "weighted", "`criterion` has reduction='none'", {"shape": [3]}),
    # ------------------------------------------------------------------ E05
    Case("E05", "not in the graph", """
        a = torch.tensor([1.0, 2.0], requires_grad=True)
        b = torch.tensor([3.0, 4.0], requires_grad=True)
        y = (a * 2).sum()
        torch.autograd.grad(y, [a, b])  #: noticed
        """, e05(1), "b", "the tensor that was used", {"index": 1, "why": "not in the graph"}),
    Case("E05", "cut on the way", """
        a = torch.tensor([1.0, 2.0], requires_grad=True)
        b = a * 3  #: made
        y = (b.detach() * a).sum()  #: cut
        torch.autograd.grad(y, b)  #: noticed
        """, e05(0), "b", "leave out .detach()", {"why": "cut", "cut_by": "detach"}),
    Case("E05", "cut on the way, and what was cut off is gone", """
        a = torch.tensor([1.0, 2.0], requires_grad=True)
        b = torch.tensor([3.0, 4.0], requires_grad=True)
        with torch.no_grad():
            target = torch.exp(b)  #: cut
        y = (target * a).sum()
        b = b.detach().requires_grad_()
        torch.autograd.grad(y, b)  #: noticed
        """, e05(0), "b", "outside of torch.no_grad()", {"why": "cut", "cut_by": "no_grad"}),
    Case("E05", "reachable only from another output", """
        a = torch.tensor([1.0, 2.0], requires_grad=True)
        b = torch.tensor([3.0, 4.0], requires_grad=True)
        y = (a * 2).sum()
        penalty = (b * b).sum()
        torch.autograd.grad(y, b)  #: noticed
        """, e05(0), "b", "pass `penalty`", {"why": "another output", "other": "penalty"}),
    Case("E05", "the same computation, made anew", """
        a = torch.tensor([1.0, 2.0], requires_grad=True)
        b = a * 2  #: made
        y = (a * 2).sum()
        torch.autograd.grad(y, b)  #: noticed
        """, e05(0), "b", "use this tensor", {"why": "not in the graph"}),
    # ------------------------------------------------------------------ E06
    Case("E06", "a leaf", """
        w = torch.tensor([1.0, 2.0], requires_grad=True)
        w -= 0.1  #: noticed
        """, E06, "w", "with torch.no_grad():"),
    Case("E06", "a view of a leaf", """
        w = torch.tensor([1.0, 2.0], requires_grad=True)
        head = w[:1]  #: view
        head.mul_(2)  #: noticed
        """, E06.replace("a leaf", "a view of a leaf"), "w", "with torch.no_grad():"),
    Case("E06", "an index assignment", """
        w = torch.tensor([1.0, 2.0], requires_grad=True)
        w[0] = 0.0  #: noticed
        """, E06.replace("a leaf", "a view of a leaf"), "w", "with torch.no_grad():"),
    # ------------------------------------------------------------------ E12
    Case("E12", "too few", """
        class Scale(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, factor):
                ctx.factor = factor
                return x * factor

            @staticmethod
            def backward(ctx, grad):
                return grad * ctx.factor  #: returns

        x = torch.tensor([1.0, 2.0], requires_grad=True)
        y = Scale.apply(x, 3.0)  #: applied
        y.sum().backward()  #: noticed
        """, "function ScaleBackward returned an incorrect number of gradients (expected 2, got 1)",
         None, "return 2 values", {"arguments": ["x", "factor"], "returned": ["Tensor[2]"]}),
    Case("E12", "too many", """
        class Double(torch.autograd.Function):
            @staticmethod
            def forward(x):
                return x * 2

            @staticmethod
            def setup_context(ctx, inputs, output):
                pass

            @staticmethod
            def backward(ctx, grad):
                return grad * 2, grad  #: returns

        x = torch.tensor([1.0, 2.0], requires_grad=True)
        y = Double.apply(x)  #: applied
        y.sum().backward()  #: noticed
        """, "function DoubleBackward returned an incorrect number of gradients (expected 1, "
         "got 2)",
         None, "return 1 value", {"arguments": ["x"], "returned": ["Tensor[2]", "Tensor[2]"]}),
    Case("E12", "a wrong shape", """
        class Sum(torch.autograd.Function):
            @staticmethod
            def forward(ctx, flag, x):
                return x * 1

            @staticmethod
            def backward(ctx, grad):
                return None, grad[:1]  #: returns

        x = torch.tensor([1.0, 2.0], requires_grad=True)
        y = Sum.apply(True, x)  #: applied
        y.sum().backward()  #: noticed
        """, "Function SumBackward returned an invalid gradient at index 0 - got [1] but expected "
         "shape compatible with [2]", None, "a tensor of shape (2,)", {"index": 1}),
    # ------------------------------------------------------------------ E13
    Case("E13", "an output of unbind", """
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        a = x * 1
        one, two = a.unbind()  #: made
        one.add_(1)  #: noticed
        """, "Output 0 of Unbind is a view and is being modified inplace. This view is the output "
         "of a function that returns multiple views. Such functions do not allow the output views "
         "to be modified inplace. You should replace the inplace operation by an out-of-place one.",
         "one", "out-of-place"),
    Case("E13", "a view made in no_grad", """
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        a = x * 1
        with torch.no_grad():
            v = a[:1]  #: made
        v.add_(1)  #: noticed
        """, "A view was created in no_grad mode and is being modified inplace with grad mode "
         "enabled. " + NO_GRAD_VIEW, "v", "the same mode"),
    Case("E13", "a base whose no_grad view is used after a write", """
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        a = x * 1
        with torch.no_grad():
            v = a[:1]  #: made
        a.mul_(2)  #: written
        v * 2  #: noticed
        """, "A view was created in no_grad mode and its base or another view of its base has been "
         "modified inplace with grad mode enabled. " + NO_GRAD_VIEW, "v", "the same mode"),
]


def write_source(folder: pathlib.Path, source: str) -> tuple[pathlib.Path, dict[str, list[int]]]:
    """The case as a file; the lines of each label."""
    text = "import tapegrad as torch\n" + textwrap.dedent(source)
    path = folder / "user_code.py"
    path.write_text(text)
    linecache.checkcache(str(path))
    labels: dict[str, list[int]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        for label in line.partition("#:")[2].split():
            labels.setdefault(label, []).append(number)
    return path, labels


def execute(path: pathlib.Path) -> None:
    exec(compile(path.read_text(), str(path), "exec"), {"__name__": "user_code"})


@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad=True to a scalar")
@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.id} {c.about}")
def test_case(case: Case, tmp_path: pathlib.Path) -> None:
    path, labels = write_source(tmp_path, case.source)
    with pytest.raises(RuntimeError) as caught:
        execute(path)
    assert type(caught.value) is RuntimeError
    text = str(caught.value)
    lines = text.splitlines()
    diagnosis = caught.value.diagnosis

    assert lines[0] == case.sentence == diagnosis["message"]
    assert len(lines) <= 12
    assert lines[-1].strip() == f"[{case.id}] docs/errors/{case.id}.md"
    assert diagnosis["id"] == case.id and diagnosis["page"] == f"docs/errors/{case.id}.md"
    assert PACKAGE not in text

    named: dict[str, list[int]] = {}
    for cause in diagnosis["causes"]:
        assert cause["file"] == str(path)
        assert cause["text"] == path.read_text().splitlines()[cause["line"] - 1].strip()
        assert f"{path}:{cause['line']}:  {cause['text']}" in text
        named.setdefault(cause["label"], []).append(cause["line"])
    assert named == labels
    assert diagnosis["noticed"]["line"] == labels["noticed"][-1]

    assert case.cure in diagnosis["fixes"][0]
    assert 1 <= len(diagnosis["fixes"]) <= 3
    assert all(fix in text for fix in diagnosis["fixes"])
    assert diagnosis["what"] and diagnosis["what"] in text
    if case.tensor is None:
        assert diagnosis["tensor"] is None
    else:
        assert diagnosis["tensor"]["name"] == case.tensor
        assert "shape" in diagnosis["tensor"] and "dtype" in diagnosis["tensor"]
        assert case.tensor in text
    for key, value in case.facts.items():
        assert diagnosis[key] == value
    json.dumps(diagnosis)


@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad=True to a scalar")
def test_order_of_facts(tmp_path: pathlib.Path) -> None:
    """What, where it was caused, where it was noticed, the tensor, the ways out, the id."""
    order = ["what", "caused", "noticed", "tensor", "fix", "or", "id"]
    for case in CASES:
        path, _ = write_source(tmp_path, case.source)
        with pytest.raises(RuntimeError) as caught:
            execute(path)
        found = []
        for line in str(caught.value).splitlines()[1:]:
            label = "id" if line.startswith("  [") else line.split(":")[0].strip()
            found.append(order.index(label if label in order else "caused"))
        assert found == sorted(found), case.about


# ---------------------------------------------------------------------- E06 before the write


def test_nothing_is_written_before_a_refusal() -> None:
    w = tapegrad.tensor([1.0, 2.0], requires_grad=True)
    for write in (lambda: w.add_(1), lambda: w[:1].zero_(), lambda: w.__setitem__(0, 5.0)):
        with pytest.raises(RuntimeError, match="in-place operation"):
            write()
        assert w.tolist() == [1.0, 2.0] and w._version == 0


# ---------------------------------------------------------------------- E07


def warnings_of(path: pathlib.Path) -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        execute(path)
    return caught


def test_e07_names_how_it_became_a_non_leaf(tmp_path: pathlib.Path) -> None:
    path, labels = write_source(tmp_path, """
        x = torch.randn(3, requires_grad=True) * 0.1  #: made
        x.sum().backward()
        for _ in range(3):
            x.grad  #: noticed
        """)
    (warning,) = warnings_of(path)
    lines = str(warning.message).splitlines()
    assert warning.category is UserWarning
    assert (warning.filename, warning.lineno) == (str(path), labels["noticed"][0])
    assert lines[0] == E07
    assert lines[1].strip() == "what:    it is the result of Mul; only leaves keep their gradient"
    assert f"made:    by Mul at {path}:{labels['made'][0]}:  x = torch.randn" in lines[2]
    assert lines[3].strip() == f"noticed: at {path}:{labels['noticed'][0]}:  x.grad  #: noticed"
    assert lines[4].strip() == "tensor:  `x`, shape (3,), torch.float32"
    assert ".requires_grad_() last" in lines[5]
    assert warning.message.diagnosis["made"]["line"] == labels["made"][0]
    json.dumps(warning.message.diagnosis)
    assert lines[-1].strip() == "[E07] docs/errors/E07.md"
    assert PACKAGE not in str(warning.message) and len(lines) <= 12


def test_e07_of_a_conversion(tmp_path: pathlib.Path) -> None:
    path, labels = write_source(tmp_path, """
        def gradient(t):
            return t.grad  #: noticed

        x = torch.ones(3, requires_grad=True)
        y = x.to(torch.float64)  #: made
        y.sum().backward()
        gradient(y)
        """)
    (warning,) = warnings_of(path)
    assert (warning.filename, warning.lineno) == (str(path), labels["noticed"][0])
    assert f"{path}:{labels['made'][0]}:  y = x.to(torch.float64)" in str(warning.message)
    assert "t.retain_grad()" in str(warning.message)


def test_e07_is_silent_for_probes(tmp_path: pathlib.Path) -> None:
    path, _ = write_source(tmp_path, """
        import copy
        import string

        x = torch.ones(3, 3, requires_grad=True)
        y = x * 2
        assert hasattr(y, "grad")
        copy.copy(y)
        string.Formatter().get_field("0.grad", [y], {})
        leaf = x.grad
        kept = x * 3
        kept.retain_grad()
        kept.grad
        """)
    assert warnings_of(path) == []


def test_e07_copies_and_pickles_ask_nothing() -> None:
    x = tapegrad.ones(3, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        copy.deepcopy(x)
        pickle.loads(pickle.dumps(x))
        repr(x * 2)
        dir(x * 2)


# ---------------------------------------------------------------------- whose line, and no files


def test_library_code_is_never_named(tmp_path: pathlib.Path) -> None:
    path, labels = write_source(tmp_path, """
        layer = torch.nn.Linear(3, 2)
        x = torch.ones(1, 3)
        y = layer(x)  #: saved
        with torch.no_grad():
            layer.weight.zero_()  #: written
        x.requires_grad_()
        z = layer(x).sum()
        with torch.no_grad():
            layer.weight.fill_(1.0)  #: written
        z.backward()  #: noticed
        """)
    with pytest.raises(RuntimeError) as caught:
        execute(path)
    text = str(caught.value)
    assert PACKAGE not in text
    assert f"{path}:{labels['written'][1]}:  layer.weight.fill_(1.0)" in text
    assert f"{path}:{labels['noticed'][0]}:  z.backward()" in text
    assert "a view of `layer.weight`" in text


def test_no_file_is_read_while_recording(tmp_path: pathlib.Path, monkeypatch: Any) -> None:
    path, _ = write_source(tmp_path, """
        x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        with torch.no_grad():
            cut = x * 2
        y = x.exp().detach().sin()
        a = x * 1
        a[0] = 3.0
        a.view(3, 1).mul_(2)
        loss = (a * a).sum() + cut.sum() + y.sum() + x.argmax()
        loss.backward()
        """)
    code = compile(path.read_text(), str(path), "exec")
    exec(code, {})  # whatever is imported on first use is imported now

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError(f"a file was opened: {args}")

    for module, name in ((builtins, "open"), (io, "open"), (linecache, "getline")):
        monkeypatch.setattr(module, name, refuse)
    exec(code, {})


def test_errors_leave_no_reference_to_the_graph() -> None:
    """Cuts refer to what they cut off weakly: detach() frees the history."""
    import gc
    import weakref

    gc.disable()
    try:
        x = tapegrad.ones(3, requires_grad=True)
        y = x * 2
        gone = weakref.ref(y)
        z = y.detach() + x
        del y
        assert gone() is None and z.requires_grad
    finally:
        gc.enable()


# ---------------------------------------------------------------------- the pages


def blocks(page: str) -> tuple[str, str]:
    """The example of a page and the output that it promises."""
    text = (DOCS / f"{page}.md").read_text()
    example = re.search(r"```python\n(.*?)```", text, re.S)
    output = re.search(r"```text\n(.*?)```", text, re.S)
    assert example and output
    return example.group(1), output.group(1)


def printed(example: str, folder: pathlib.Path) -> str:
    """What Python shows for a script: its output, warnings, and the last lines of a traceback."""
    path = folder / "example.py"
    path.write_text(example)
    linecache.checkcache(str(path))
    out = io.StringIO()
    with contextlib.redirect_stdout(out), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        try:
            execute(path)
        except RuntimeError as error:
            print(f"RuntimeError: {error}")
    for warning in caught:
        out.write(f"example.py:{warning.lineno}: {warning.category.__name__}: {warning.message}\n")
    return out.getvalue().replace(str(path), "example.py")


@pytest.mark.parametrize("page", IDS)
def test_page(page: str, tmp_path: pathlib.Path) -> None:
    example, output = blocks(page)
    assert printed(example, tmp_path) == output


def test_index_lists_every_page() -> None:
    index = (DOCS / "README.md").read_text()
    for page in IDS:
        assert f"[{page}]({page}.md)" in index
