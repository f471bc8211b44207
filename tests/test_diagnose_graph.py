"""`diagnose.graph`: what it collects, and each of the ways to look at it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

import tapegrad as torch
from tapegrad import diagnose, nn
from tapegrad.core.op import REGISTRY
from tapegrad.diagnose import formulas
from tapegrad.diagnose._graph import error as graph_error
from tapegrad.diagnose._graph.fold import Run, boxes, repeats
from tapegrad.diagnose._graph.layout import layers_of, layout, spaced


def by_op(graph: Any, op: str) -> dict[str, Any]:
    found = [n for n in graph.nodes if n["op"] == op]
    assert len(found) == 1, [n["op"] for n in graph.nodes]
    return found[0]


def small() -> tuple[Any, Any, Any]:
    w = torch.tensor([1.0, -2.0, 3.0], requires_grad=True)
    h = torch.relu(w * 2.0)
    loss = h.sum()
    return w, h, loss


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(6, 6)
        self.norm = nn.LayerNorm(6)

    def forward(self, x: Any) -> Any:
        return x + torch.tanh(self.fc(self.norm(x)))


class Net(nn.Module):
    def __init__(self, depth: int = 5) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(depth))
        self.head = nn.Linear(6, 2)

    def forward(self, x: Any) -> Any:
        for block in self.blocks:
            x = block(x)
        return self.head(x)


# ---------------------------------------------------------------------- data


def test_nodes_tell_what_was_computed() -> None:
    w, h, loss = small()
    loss.backward(retain_graph=True)
    g = diagnose.graph(loss)
    assert [n["op"] for n in g.nodes] == [
        "SumBackward0",
        "ReluBackward0",
        "MulBackward0",
        "AccumulateGrad",
    ]
    assert g.data["edges"] == [[0, 1, 0, 0], [1, 2, 0, 0], [2, 3, 0, 0]]
    assert g.data["root"] == [0] and g.data["version"] == 1 and g.data["trace"] is None
    assert [n["name"] for n in g.nodes] == ["loss", "h", None, "w"]
    assert [n["shape"] for n in g.nodes] == [[], [3], [3], [3]]
    assert [n["kind"] for n in g.nodes] == ["op", "op", "op", "leaf"]
    relu = g.nodes[1]
    assert relu["saved"] == [{"name": "out", "shape": [3], "dtype": "float32", "bytes": 12}]
    assert relu["bytes"] == 12
    # relu(2, -4, 6) = 2, 0, 6
    facts = relu["summary"]
    assert (facts["min"], facts["max"], facts["zero"], facts["size"]) == (0.0, 6.0, 1, 3)
    assert facts["mean"] == pytest.approx(8 / 3)
    assert facts["std"] == pytest.approx(((4 + 0 + 36) / 3 - (8 / 3) ** 2) ** 0.5)
    assert os.path.samefile(relu["file"], __file__)
    assert relu["text"] == "h = torch.relu(w * 2.0)"
    assert "d/d input = where(out <= 0, 0, grad)" in relu["formula"]
    # d loss/d w = 2, 0, 2
    assert g.nodes[3]["grad"]["norm"] == pytest.approx(8**0.5)
    assert g.nodes[3]["grad"]["zero"] == 1


def test_data_is_plain_json() -> None:
    x = torch.tensor([float("nan"), float("inf"), 1.0], requires_grad=True)
    g = diagnose.graph((x * 2).sum())
    assert json.loads(g.json()) == g.data
    leaf = by_op(g, "AccumulateGrad")["summary"]
    assert (leaf["nan"], leaf["inf"], leaf["min"], leaf["max"]) == (1, 1, 1.0, 1.0)
    assert "[1 NaN in value]" in g.text()


def test_modules_and_parameters_have_their_paths() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    x = torch.randn(5, 4)
    out = model(x)
    g = diagnose.graph(out.mean())
    assert by_op(g, "ReluBackward0")["module"] == "model.1"
    names = {n["name"] for n in g.nodes if n["kind"] == "leaf"}
    assert names == {"model.0.weight", "model.0.bias", "model.2.weight", "model.2.bias"}
    assert all(n["param"] for n in g.nodes if n["kind"] == "leaf")
    linear = next(n for n in g.nodes if n["name"] == "out")
    assert linear["module"] == "model.2"
    assert linear["module_type"] == "Linear(in_features=8, out_features=1, bias=True)"
    assert g.data["groups"] == {
        "model": {"type": "Sequential", "parent": None},
        "model.0": {"type": "Linear", "parent": "model"},
        "model.1": {"type": "ReLU", "parent": "model"},
        "model.2": {"type": "Linear", "parent": "model"},
    }
    # The data is no part of the recorded graph, but it is saved and somebody holds it.
    given = next(n for n in g.nodes if n["kind"] == "input")
    assert (given["name"], given["shape"]) == ("x", [5, 4])


def made_elsewhere() -> Any:
    hidden = nn.Linear(3, 2)
    return hidden, hidden(torch.randn(4, 3)).sum()


def test_a_model_that_nobody_holds() -> None:
    kept, loss = made_elsewhere()
    holder = [kept]
    del kept
    g = diagnose.graph(loss, model=holder[0])
    assert any(n["name"] == "holder[0].weight" for n in g.nodes)
    model = holder.pop()
    loss = model(torch.randn(4, 3)).sum()

    def draw(loss: Any) -> Any:
        return diagnose.graph(loss, model=model)

    assert any(n["name"] == "model.weight" for n in draw(loss).nodes)


def test_a_model_in_an_attribute() -> None:
    class Trainer:
        def __init__(self) -> None:
            self.net = nn.Linear(3, 2)

        def loss(self) -> Any:
            return diagnose.graph(self.net(torch.randn(4, 3)).sum())

    trainer = Trainer()
    names = {n["name"] for n in trainer.loss().nodes if n["param"]}
    assert names == {"trainer.net.weight", "trainer.net.bias"}


def test_shapes_are_known_after_backward_too() -> None:
    model = Net(3)
    loss = model(torch.randn(4, 6)).pow(2).mean()
    before = diagnose.graph(loss)
    loss.backward()
    after = diagnose.graph(loss)
    assert before.data["bytes"] > 0 and after.data["bytes"] == 0
    for a, b in zip(before.nodes, after.nodes, strict=False):
        if a["kind"] != "input":
            assert (a["op"], a["shape"], a["dtype"]) == (b["op"], b["shape"], b["dtype"])
            assert a["shape"] is not None, a["op"]


def test_shapes_of_transposed_and_joined_results() -> None:
    w = torch.randn(2, 3, requires_grad=True)
    v = torch.randn(4, 3, requires_grad=True)
    both = torch.cat([w @ v.t(), w @ v.transpose(0, 1)], 1)
    loss = both.permute(1, 0).unsqueeze(0).sum()
    loss.backward()
    del both
    shapes = {n["op"]: n["shape"] for n in diagnose.graph(loss).nodes}
    assert shapes["CatBackward0"] == [2, 8]
    assert shapes["MmBackward0"] == [2, 4]
    assert shapes["TBackward0"] == shapes["TransposeBackward0"] == [3, 4]
    assert shapes["PermuteBackward0"] == [8, 2]
    assert shapes["UnsqueezeBackward0"] == [1, 8, 2]


def test_saved_memory_counts_once() -> None:
    w = torch.randn(100, requires_grad=True)
    h = w.exp()  # saves its output: 400 bytes
    loss = (h * h).sum()  # saves h twice, the same memory
    g = diagnose.graph(loss)
    exp, mul = by_op(g, "ExpBackward0"), by_op(g, "MulBackward0")
    assert (exp["bytes"], mul["bytes"], g.data["bytes"]) == (400, 0, 400)  # at the first who keeps
    assert [row["shared"] for row in mul["saved"]] == [exp["id"]] * 2
    assert "shared" not in exp["saved"][0]


def test_saved_memory_adds_up() -> None:
    """Of nodes and of modules to what the header says, which is what memory() says."""
    model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2))
    x = torch.randn(5, 3)
    loss = (model(x) ** 2).mean()
    g = diagnose.graph(loss, model=model)
    assert sum(node["bytes"] for node in g.data["nodes"]) == g.data["bytes"]
    held = diagnose.memory(loss)
    assert held.activations + held.inputs == g.data["bytes"]
    by_module: dict[str, int] = {}
    for node in g.data["nodes"]:
        by_module[node["module"]] = by_module.get(node["module"], 0) + node["bytes"]
    for part in held.modules:
        name = None if part["module"] == "(no module)" else part["module"]
        assert by_module[name] == part["bytes"] + (held.inputs if name == "model.0" else 0)
    weights = [row for node in g.data["nodes"] for row in node["saved"] if "shared" in row]
    assert {row["shared"] for row in weights} >= {"a leaf"}


def test_overwritten_values_are_not_summarised() -> None:
    w = torch.ones(3, requires_grad=True)

    def forward() -> Any:
        h = w.exp()
        kept = (h * 2).sum()
        h.detach().mul_(0)
        return kept

    exp = by_op(diagnose.graph(forward()), "ExpBackward0")
    assert exp["summary"] is None and exp["shape"] == [3]


def test_cuts_writes_and_functions() -> None:
    class Double(torch.autograd.Function):
        """Twice the input."""

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 2

    w = torch.ones(4, requires_grad=True)
    base = w.clone()
    base[1:3] = 5.0
    frozen = (w * 3).detach()
    loss = (Double.apply(base) * frozen).sum()
    g = diagnose.graph(loss)
    double = by_op(g, "DoubleBackward")
    assert (double["kind"], double["formula"], double["bytes"]) == (
        "function",
        "Twice the input.",
        16,
    )
    slices = by_op(g, "CopySlices")
    assert (slices["kind"], slices["name"], slices["shape"]) == ("slices", "base", [4])
    assert by_op(g, "CloneBackward0")["shape"] == [4]
    cut = next(n for n in g.nodes if n["kind"] == "cut")
    assert (cut["name"], cut["op"]) == ("frozen", "detach")
    assert cut["text"] == "frozen = (w * 3).detach()"


def test_inputs_and_tensors_without_history() -> None:
    plain = torch.ones(2)
    assert [n["kind"] for n in diagnose.graph(plain).nodes] == ["input"]
    with torch.no_grad():
        cut = torch.ones(2, requires_grad=True) * 2
    assert [n["op"] for n in diagnose.graph(cut).nodes] == ["no_grad"]
    with pytest.raises(TypeError, match="not int"):
        diagnose.graph(3)
    with pytest.raises(TypeError, match="needs a tensor"):
        diagnose.graph()


def test_several_outputs_and_nodes() -> None:
    w, h, loss = small()
    other = h.max()
    g = diagnose.graph([loss, {"other": other}])
    assert len(g.data["root"]) == 2 and g.data["title"] == "loss, other"
    assert len(diagnose.graph(loss.grad_fn).nodes) == 4


def test_names_by_line_in_a_loop() -> None:
    def run() -> Any:
        w = torch.ones(2, requires_grad=True)
        h = w
        for _ in range(3):
            h = torch.tanh(h * w)
        return h.sum()

    g = diagnose.graph(run())
    assert [n["name"] for n in g.nodes if n["op"] == "TanhBackward0"] == ["h"] * 3
    assert {n["name"] for n in g.nodes if n["op"] == "MulBackward0"} == {None}
    g = diagnose.graph((torch.ones(2, requires_grad=True) * 2).sum())
    assert [n["name"] for n in g.nodes] == [None, None, None]  # not `g`


# ---------------------------------------------------------------------- text


def test_tree() -> None:
    w, h, loss = small()
    lines = diagnose.graph(loss).text().splitlines()
    assert lines[0] == "loss: 4 nodes, 1 leaf, 12 B saved for backward"
    assert [line.split("  ")[0] for line in lines[1:]] == [
        "● loss: SumBackward0 () = 8",
        "● h: ReluBackward0 (3,)",
        "● MulBackward0 (3,)",
        "○ w (3,) leaf",
    ]
    assert lines[1].endswith("loss = h.sum()")
    assert str(diagnose.graph(loss)) == "\n".join(lines)


def test_one_element_shows_its_value_and_its_signed_gradient() -> None:
    a = torch.tensor(2.0, requires_grad=True)
    b = torch.tensor([-3.0], requires_grad=True)
    loss = (a * b).sum()
    loss.backward()
    g = diagnose.graph(loss)
    rows = [line.split("  ")[0] for line in g.text().splitlines()[1:]]
    assert rows[0] == "● loss: SumBackward0 () = -6"
    assert rows[2:] == ["├─ b (1,) leaf = -3 grad 2", "○ a () leaf = 2 grad -3"]
    for words in (">= -6<", ">= 2 leaf<", ">grad -3<", ">(1,) = -3 leaf<", ">grad 2<"):
        assert words in g.svg()
    assert "grad -3" in g.dot()
    many = torch.ones(2, requires_grad=True)
    (many * -2).sum().backward()
    assert "|grad| 2.83" in diagnose.graph((many * 3).sum()).text()


def test_shared_results_are_shown_once() -> None:
    w = torch.ones(2, requires_grad=True)
    a = w.exp()
    b = a.sin()
    loss = (a * b).sum()
    text = diagnose.graph(loss).text()
    rows = [line.split("  ")[0] for line in text.splitlines()[1:]]
    assert rows == [
        "● loss: SumBackward0 () = 2.233",
        "● MulBackward0 (2,)",
        "├─ → #1 a",
        "● b: SinBackward0 (2,)",
        "● #1 a: ExpBackward0 (2,)",
        "○ w (2,) leaf",
    ]


def test_repeated_blocks_are_folded() -> None:
    model = Net(12)
    loss = model(torch.randn(4, 6)).sum()
    g = diagnose.graph(loss)
    text = g.text()
    # The first block adds data without a history, which makes it different.
    assert "× 11  model.blocks.11 … model.blocks.1" in text
    assert len(text.splitlines()) < 40
    assert all(len(line) <= 100 for line in text.splitlines())
    assert all(len(line) <= 60 for line in g.text(width=60).splitlines())
    whole = g.text(fold=False, collapse=False, limit=None)
    assert whole.count("TanhBackward0") == 12
    assert "× " not in whole
    assert text.isascii() is False and g.text(ascii=True).isascii()


def test_depth_collapses_modules() -> None:
    model = Net(2)
    loss = model(torch.randn(4, 6)).sum()
    g = diagnose.graph(loss, values=False)
    one = g.text(depth=1)
    assert [r.split("  ")[0].split(" [")[0] for r in one.splitlines()[1:]] == [
        "● loss: SumBackward0 ()",
        "● model: Net",
    ]
    two = g.text(depth=2)
    assert "model.blocks.1: Block [" in two
    assert "model.head: Linear(in_features=6, out_features=2, bias=True) (4, 2)" in two
    assert "model.blocks.1.fc" not in two
    assert "model.blocks.1.fc: Linear" in g.text(depth=3)


def test_one_box_per_call_of_a_module() -> None:
    cell = nn.Linear(3, 3)
    h = torch.randn(2, 3)
    for _ in range(4):
        h = torch.sigmoid(cell(h))
    g = diagnose.graph(h.sum())
    shown = boxes(g.data, 1)
    assert sum(box.module == "cell" for box in shown) == 4
    # The parameters are shared by the calls, so they belong to none.
    assert sum(box.module is None and len(box.users) == 4 for box in shown) == 2


def test_long_chains() -> None:
    x = torch.zeros(1, requires_grad=True)
    y = x
    for _ in range(60_000):
        y = y + 1
    began = time.process_time()
    g = diagnose.graph(y)
    text = g.text()
    assert time.process_time() - began < 3
    assert g.data["more"] == 60_001 - len(g.nodes) > 0
    assert "× " in text and "more nodes" in text
    assert text.splitlines()[0].startswith("y: 60,001 nodes")
    assert len(g.text(fold=False).splitlines()) == 202  # the head, 200 rows, and that there is more


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([7, 1, 2, 1, 2, 1, 2, 9], [Run(1, 2, 3)]),
        ([1] * 9, [Run(0, 1, 9)]),
        ([1, 1, 2, 3], []),
        ([1, 2, 3, 4, 1, 2, 3, 4, 5], [Run(0, 4, 2)]),
        ([], []),
    ],
)
def test_repeats(values: list[int], expected: list[Run]) -> None:
    assert repeats(values) == expected


# ---------------------------------------------------------------------- pictures


def test_layers_are_longest_ways() -> None:
    assert layers_of(4, [(0, 1), (1, 2), (0, 2), (2, 3)]) == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="circles"):
        layers_of(2, [(0, 1), (1, 0)])


def test_boxes_do_not_overlap() -> None:
    edges = [(0, i) for i in range(1, 8)] + [(i, 8 + i % 3) for i in range(1, 8)]
    sizes = [(50.0 + 7 * i, 20.0) for i in range(11)]
    at = layout(sizes, edges)
    for i in range(11):
        for j in range(i):
            apart_x = abs(at.x[i] - at.x[j]) >= (sizes[i][0] + sizes[j][0]) / 2 - 1e-6
            apart_y = abs(at.y[i] - at.y[j]) >= 20.0 - 1e-6
            assert apart_x or apart_y, (i, j)
    # Crossed as given, uncrossed after the sweeps: 0 -> 1, 2 and 1 -> 4, 2 -> 3.
    crossed = layout([(30.0, 10.0)] * 5, [(0, 1), (0, 2), (1, 4), (2, 3)])
    assert (crossed.x[1] < crossed.x[2]) == (crossed.x[4] < crossed.x[3])


def test_spacing_is_the_nearest_that_fits() -> None:
    assert spaced([0.0, 0.0, 50.0], [1.0, 1.0, 1.0], [10.0, 10.0]) == [-5.0, 5.0, 50.0]
    # The heavy one stays nearly where it wants to be: 9 * 0 + 1 * (-10), over 10.
    assert spaced([0.0, 0.0], [9.0, 1.0], [10.0]) == pytest.approx([-1.0, 9.0])


Box = tuple[float, float, float, float]  # left, top, width, height


def drawn(picture: str) -> tuple[list[Box], list[Box]]:
    """The boxes of a picture, and the frames around them."""
    root = ElementTree.fromstring(picture)
    space = "{http://www.w3.org/2000/svg}"
    items: list[Box] = []
    frames: list[Box] = []
    for group in root.iter(f"{space}g"):
        for rect in group.findall(f"{space}rect"):
            at = tuple(float(rect.attrib[k]) for k in ("x", "y", "width", "height"))
            (frames if rect.get("class") else items).append(at)  # type: ignore[arg-type]
    return items, frames


def apart(a: Box, b: Box) -> bool:
    return a[0] + a[2] <= b[0] or b[0] + b[2] <= a[0] or a[1] + a[3] <= b[1] or b[1] + b[3] <= a[1]


def holds(a: Box, b: Box) -> bool:
    """Whether b lies inside a."""
    return (
        a[0] <= b[0] and a[1] <= b[1] and a[0] + a[2] >= b[0] + b[2] and a[1] + a[3] >= b[1] + b[3]
    )


def test_svg() -> None:
    model = Net(2)
    x = torch.randn(4, 6)
    g = diagnose.graph(model(x).sum())
    # Per block: the sum, tanh, fc and norm; then the head, the loss, and x.
    items, frames = drawn(g.svg(depth=3, fold=False))
    assert (len(items), len(frames)) == (2 * 4 + 3, 3)
    assert len(drawn(g.svg(depth=1))[0]) == 3
    items, frames = drawn(g.svg(collapse=False, fold=False))
    assert len(items) == len(g.nodes)
    for i, box in enumerate(items):
        assert all(apart(box, other) for other in items[:i])
        assert all(apart(box, frame) or holds(frame, box) for frame in frames)
    for i, frame in enumerate(frames):
        for other in frames[:i]:
            assert apart(frame, other) or holds(frame, other) or holds(other, frame)


def test_svg_of_a_loop_is_folded() -> None:
    w = torch.randn(3, 3, requires_grad=True)
    h = torch.randn(2, 3)
    for _ in range(200):
        h = torch.tanh(h @ w)
    g = diagnose.graph(h.sum())
    picture = g.svg()
    assert re.search(r"× (199|200)\b", picture)
    assert len(drawn(picture)[0]) < 10


def test_large_graphs_are_quick() -> None:
    w = torch.randn(4, 4, requires_grad=True)
    h = torch.randn(2, 4)
    for _ in range(1250):
        h = torch.tanh(torch.relu(h @ w) + w[0])
    loss = h.sum()
    began = time.process_time()
    g = diagnose.graph(loss)
    collected = time.process_time() - began
    assert len(g.nodes) > 5000
    g.svg()
    g.text()
    drawn = time.process_time() - began
    assert collected < 1.5 and drawn < 4  # about 0.3 and 0.6 on an idle machine


def test_dot() -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    loss = model(torch.ones(1, 2)).sum()
    g = diagnose.graph(loss, title='a "title"')
    text = g.dot()
    assert 'label="a \\"title\\""' in text
    assert text.count("->") == len(g.data["edges"])
    assert text.count("{") == text.count("}") == 3  # the graph, model, model.0
    assert 'subgraph "cluster_model.0"' in text


def test_save_by_suffix(tmp_path: Path) -> None:
    w, h, loss = small()
    g = diagnose.graph(loss)
    for suffix, start in ((".svg", "<svg"), (".dot", "digraph"), (".json", "{"), (".txt", "loss:")):
        path = g.save(tmp_path / f"graph{suffix}")
        assert Path(path).read_text(encoding="utf-8").startswith(start)
    page = Path(g.save(tmp_path / "graph.html")).read_text(encoding="utf-8")
    assert "ReluBackward0" in page
    assert "<iframe" in g._repr_html_() and g._repr_svg_().startswith("<svg")
    with pytest.raises(ValueError, match="suffix"):
        g.save(tmp_path / "graph.pdf")


# ---------------------------------------------------------------------- errors


def caught(function: Any) -> BaseException:
    try:
        function()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def test_failed_backward() -> None:
    def train() -> None:
        w = torch.ones(3, requires_grad=True)
        h = w.exp()
        loss = (h * 2).sum()
        h.add_(1)
        loss.backward()

    error = caught(train)
    g = diagnose.graph(error)
    assert g.nodes[g.data["failed"]]["op"] == "ExpBackward0"
    assert g.data["title"] == "backward of loss"
    assert g.data["error"].startswith("RuntimeError: one of the variables needed")
    assert "✗ h: ExpBackward0" in g.text()
    assert "#ffe3e0" in g.svg() and "#ffe3e0" in g.dot()
    # Where frames hold no variables (the compiled core) the engine's state says the same.
    trace = graph_error.traceback_of(error)
    passes = [tb for tb in trace if tb.tb_frame.f_code.co_name == "backward"]
    node = graph_error.failed_node(passes, [])
    assert node is not None and node.name() == "ExpBackward0"


def test_failed_function() -> None:
    class Broken(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            raise ValueError("on purpose")

    w = torch.ones(3, requires_grad=True)
    g = diagnose.graph(caught(lambda: Broken.apply(w * 2).sum().backward()))
    assert g.nodes[g.data["failed"]]["op"] == "BrokenBackward"
    assert g.data["error"] == "ValueError: on purpose"


def test_backward_that_never_began() -> None:
    w = torch.ones(3, requires_grad=True)
    g = diagnose.graph(caught(lambda: (w * 2).backward()))
    assert g.nodes[g.data["failed"]]["op"] == "MulBackward0"
    g = diagnose.graph(caught(lambda: torch.ones(1).sum().backward()))
    assert [n["kind"] for n in g.nodes] == ["input"] and g.data["failed"] == 0


def test_failed_forward() -> None:
    class Wrong(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc1 = nn.Linear(4, 8)
            self.fc2 = nn.Linear(9, 2)

        def forward(self, x: Any) -> Any:
            h = torch.relu(self.fc1(x))
            return self.fc2(h)

    def run() -> None:
        model = Wrong()
        model(torch.randn(3, 4))

    g = diagnose.graph(caught(run))
    failed = g.nodes[g.data["failed"]]
    assert (failed["id"], failed["op"], failed["module"]) == (0, "self.fc2(h)", "model.fc2")
    assert failed["text"] == "return self.fc2(h)"
    assert failed["module_type"] == "Linear(in_features=9, out_features=2, bias=True)"
    above = [b for a, b, _, _ in g.data["edges"] if a == 0]
    assert [g.nodes[i]["name"] for i in above] == ["h"]
    assert {n["name"] for n in g.nodes if n["param"]} == {"model.fc1.weight", "model.fc1.bias"}
    assert all(a < b for a, b, _, _ in g.data["edges"])
    assert json.loads(g.json()) == g.data


def test_failed_operator_and_unrelated_errors() -> None:
    def add() -> Any:
        w = torch.ones(3, requires_grad=True)
        a, b = w * 2, torch.ones(4)
        return a + b

    g = diagnose.graph(caught(add))
    assert g.nodes[0]["op"] == "a + b"
    assert g.nodes[0]["attrs"] == {"a": "(3,)", "b": "(4,)"}
    assert {n["name"] for n in g.nodes} == {None, "a", "b", "w"}
    assert diagnose.graph(caught(lambda: 1 / 0)).data["error"].startswith("ZeroDivisionError")
    assert diagnose.graph(ValueError("never raised")).nodes[0]["op"] == "failed"


# ---------------------------------------------------------------------- formulas


@pytest.mark.parametrize(
    ("op", "index", "text"),
    [
        ("mul", 0, "d/d input = grad * other"),
        ("add", 1, "d/d other = grad"),
        ("mm", 0, "d/d input = grad @ mat2.T"),
        ("mm", 1, "d/d mat2 = input.T @ grad"),
        ("tanh", 0, "d/d input = grad * (1 - out ** 2)"),
        ("sigmoid", 0, "d/d input = grad * out * (1 - out)"),
        ("remainder", 1, "d/d other = -grad * floor(input / other)"),
        ("softmax", 0, "d/d input = out * (grad - sum(grad * out, dim))"),
        ("where", 0, ""),  # a condition has no gradient
        ("cat", 1, "d/d tensors[1] = the part of grad that this tensor filled"),
    ],
)
def test_rules_as_text(op: str, index: int, text: str) -> None:
    assert formulas.rule_text(REGISTRY[op], index) == text


def test_every_rule_has_a_text() -> None:
    for op in REGISTRY.values():
        assert "\n" not in formulas.formula(op)
        for i, rule in enumerate(op.rules):
            assert (formulas.rule_text(op, i) == "") == (rule is None), op.name
            assert len(formulas.rule_text(op, i)) < 260, op.name


# ---------------------------------------------------------------------- the command


def run_graph(tmp_path: Path, program: str, *args: str) -> tuple[int, str, str]:
    script = tmp_path / "train.py"
    script.write_text(program, encoding="utf-8")
    source = str(Path(torch.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-m", "tapegrad", "graph", "train.py", *args],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": source, "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


TRAINING = """
import sys, torch
from torch import nn
def main():
    model = nn.Linear(3, 1)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.ones(8, 3)
    for _ in range(4):
        loss = (model(x) - 1).pow(2).mean()
        loss.backward()
        opt.step()
        opt.zero_grad()
    print("trained", sys.argv[1:])
main()
"""


def test_command_draws_the_last_backward(tmp_path: Path) -> None:
    code, out, said = run_graph(tmp_path, TRAINING, "-o", "graph.json", "--epochs", "3")
    assert (code, out) == (0, "trained ['--epochs', '3']\n"), said
    data = json.loads((tmp_path / "graph.json").read_text())
    weight = next(n for n in data["nodes"] if n["name"] == "model.weight")
    assert weight["grad"]["norm"] > 0  # though zero_grad came after
    power = next(n for n in data["nodes"] if n["op"] == "PowBackward0")
    assert (power["shape"], power["bytes"], power["freed"]) == ([8, 1], 32, False)
    assert "graph: wrote graph.json" in said


def test_command_without_backward_and_with_errors(tmp_path: Path) -> None:
    code, _, _ = run_graph(
        tmp_path, "import torch\nout = (torch.ones(2, requires_grad=True) * 2).sum()\n"
    )
    assert code == 0 and "SumBackward0" in (tmp_path / "train.graph.html").read_text("utf-8")
    bad = (
        "import torch\nw = torch.ones(2, requires_grad=True)\na = w.exp()\nb = a @ torch.ones(3)\n"
    )
    code, _, said = run_graph(tmp_path, bad, "-o", "bad.txt")
    assert code == 1 and "Traceback" in said
    assert "✗ a @ torch.ones(3)" in (tmp_path / "bad.txt").read_text("utf-8")
    code, _, said = run_graph(tmp_path, "print(1)\n", "-o", "none.txt")
    assert code == 1 and "no tensor with a history" in said
    assert not (tmp_path / "none.txt").exists()
    code, _, said = run_graph(tmp_path, "print(1)\n", "-o", "graph.pdf")
    assert code == 2 and "must end in" in said
