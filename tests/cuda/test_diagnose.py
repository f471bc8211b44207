"""`tapegrad.diagnose`, anomaly mode and the error catalogue say about CUDA tensors what they say
about those of the CPU.
"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import os
import pathlib
import re
import runpy
import subprocess
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from test_semantics import same

import healthy_loops
import tapegrad as torch
import tapegrad.nn.functional as F
import test_errors
from tapegrad import diagnose, nn, optim
from tapegrad.compat import alias
from tapegrad.cuda import runtime
from tapegrad.diagnose import doctor
from tapegrad.errors import tracebacks

HERE = pathlib.Path(__file__).parent
# D29 weighs the memory of the host.
BROKEN = sorted(p for p in (HERE.parent / "broken").glob("*.py") if not p.stem.startswith("d29"))
ENDING = "tapegrad doctor: no findings"


@contextlib.contextmanager
def default_device(name: str) -> Iterator[None]:
    torch.set_default_device(name)
    try:
        yield
    finally:
        torch.set_default_device(None)


def network(device: str) -> tuple[Any, Any, Any]:
    """A model, its input and a loss: the same numbers on every device."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)).to(device)
    x = torch.linspace(-1.0, 2.0, 12).reshape(3, 4).to(device)
    h = model(x)
    loss = (h * h).mean()
    return model, x, loss


def both(tool: Any) -> tuple[Any, Any]:
    """What a tool says on the GPU, and on the CPU."""
    return tool("cuda"), tool("cpu")


# ---------------------------------------------------------------------- the tools


def test_graph_as_data() -> None:
    def drawn(device: str) -> Any:
        model, x, loss = network(device)
        loss.backward()
        return diagnose.graph(loss, inputs={"x": x}).data

    found, wanted = both(drawn)
    same(rounded(found), rounded(wanted))
    assert all(n["summary"] for n in found["nodes"] if n["kind"] == "leaf")
    assert all(n["grad"]["norm"] > 0 for n in found["nodes"] if n["kind"] == "leaf")


def rounded(data: Any) -> Any:
    """Numbers to the digits that single precision has after a few sums."""
    return json.loads(json.dumps(data), parse_float=lambda text: float(f"{float(text):.4g}"))


def test_graph_in_every_form(tmp_path: pathlib.Path) -> None:
    def drawn(device: str) -> Any:
        model, _, loss = network(device)
        graph = diagnose.graph(loss)
        for ending in ("html", "svg", "dot", "json", "txt"):
            assert pathlib.Path(graph.save(tmp_path / f"graph.{ending}")).stat().st_size > 100
        return graph.text(), graph.svg(), graph.dot(), graph._repr_html_()[:60]

    found, wanted = both(drawn)
    assert found == wanted
    assert "0.weight (8, 4) parameter" in found[0]


def test_memory_by_hand() -> None:
    def kept(device: str) -> Any:
        model, x, loss = network(device)
        found = diagnose.memory(loss)
        assert "saved tensors" in repr(found)
        tensors = sorted((t["kind"], t["bytes"], t["shape"], t["dtype"]) for t in found.tensors)
        return found.activations, found.parameters, found.inputs, found.nodes, tensors

    found, wanted = both(kept)
    assert found == wanted
    activations, parameters, inputs, nodes, _ = found
    # tanh's result (3, 8) and h (3, 1), which is saved twice; both layers; x.
    assert (activations, parameters, inputs) == (4 * (24 + 3), 4 * (32 + 8 + 8 + 1), 4 * 12)
    assert nodes == 11


def test_memory_of_views_counts_once_and_as_a_whole() -> None:
    def kept(device: str) -> Any:
        x = torch.ones(1000, device=device, requires_grad=True)
        h = x * 2
        parts = [part.exp() * part for part in (h[:10], h[10:20].view(2, 5), h[990:])]
        loss = torch.cat([p.reshape(-1) for p in parts]).sum()
        return diagnose.memory([loss]).data()

    found, wanted = both(kept)
    kept_by_graph = [t["bytes"] for t in found["tensors"] if t["kind"] == "activation"]
    whole = [size for size in kept_by_graph if size > 100]
    # One memory for the three parts of h; the block of a GPU may be rounded up.
    assert len(whole) == 1 and 4000 <= whole[0] <= 4096
    assert len(found["tensors"]) == len(wanted["tensors"])


def test_memory_after_backward_and_of_a_function() -> None:
    class Keeps(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x.exp())
            ctx.twice = x * 2
            return x * x

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * ctx.twice

    x = torch.ones(50, device="cuda", requires_grad=True)
    loss = Keeps.apply(x).sum()
    assert diagnose.memory(loss).activations == 2 * 200
    y = (x * x.exp()).sum()
    y.backward()
    after = diagnose.memory(y)
    assert after.freed and after.activations == 0


def test_leaks() -> None:
    def stored(device: str) -> Any:
        w = torch.tensor([1.0, 2.0], device=device, requires_grad=True)
        losses = []
        with diagnose.leaks() as watch:
            for step in range(3):
                loss = ((w - step) ** 2).sum()
                loss.backward()
                losses.append(loss)
        (leak,) = watch.found
        assert re.match("1 leak:\n\n3 tensors with history in `losses`", repr(watch))
        return leak.holder, leak.kind, leak.graphs, leak.passes, leak.stored, leak.fix

    found, wanted = both(stored)
    assert found == wanted and found[:4] == ("losses", "list", 3, 3)


def test_leaks_finds_none_in_a_healthy_loop() -> None:
    w = torch.ones(2, device="cuda", requires_grad=True)
    losses = []
    with diagnose.leaks() as watch:
        for _ in range(3):
            loss = (w * w).sum()
            loss.backward()
            losses.append(loss.item())
        del loss
    assert not watch.found and not watch.held


def test_summary() -> None:
    def seen(device: str) -> Any:
        x = torch.tensor([[1.0, -2.0], [0.0, float("nan")]], device=device, requires_grad=True)
        y = (x * 2).t()
        return diagnose.summary(x).data(), diagnose.summary(y).data(), repr(diagnose.summary(x))

    found, wanted = both(seen)
    assert found[0].pop("device") == found[1].pop("device") == "cuda:0"
    assert wanted[0].pop("device") == wanted[1].pop("device") == "cpu"
    assert found[:2] == wanted[:2]
    assert found[2].replace("cuda:0", "cpu") == wanted[2]


@pytest.mark.parametrize("name", [str(d).removeprefix("torch.") for d in torch.dtypes.ALL])
def test_every_tool_on_every_dtype(name: str) -> None:
    """Whatever can be made, every tool can look at."""
    dtype = getattr(torch, name)

    def looked(device: str) -> Any:
        x = torch.tensor([[1, 0], [1, 1]], device=device).to(dtype)
        seen = [{**diagnose.summary(x).data(), "device": ""}, diagnose.why(x).data()]
        if dtype.is_floating_point or dtype.is_complex:
            x.requires_grad_()
            loss = (x * x).real.sum() if dtype.is_complex else (x * x).sum()
            seen += [diagnose.memory(loss).activations, diagnose.graph(loss).data]
            seen.append([str(step) for step in diagnose.trace_backward(loss)])
            seen += [diagnose.gradient_flow([("x", x)]).data(), diagnose.why(x).data()]
            seen.append(diagnose.graph(loss).data)
        return seen

    found, wanted = both(looked)
    same(rounded(found), rounded(wanted))


def test_why() -> None:
    def reasons(device: str) -> Any:
        model, x, loss = network(device)
        weight = model[0].weight
        told = [diagnose.why(t).data() for t in (weight, x, loss, loss.detach())]
        loss.backward()
        told += [diagnose.why(weight).data(), diagnose.why(loss).data()]
        model.zero_grad()
        told.append(diagnose.why(weight).data())
        weight.grad = torch.zeros_like(weight)
        told.append(diagnose.why(weight).data())
        weight.grad = torch.full_like(weight, float("nan"))
        return [*told, diagnose.why(weight).data()]

    found, wanted = both(reasons)
    same(rounded(found), rounded(wanted))
    causes = [reason["cause"] for reason in found]
    assert causes[4] == "filled" and found[4]["norm"] > 0
    assert found[-2]["zero"] and found[-1]["finite"] is False


def test_trace_backward() -> None:
    def traced(device: str) -> Any:
        model, x, loss = network(device)
        trace = diagnose.trace_backward(loss)
        steps = [(str(step), step.incoming.device.type) for step in trace]
        assert {place for _, place in steps} == {device}
        assert "backward pass" in repr(trace) and "<html" in trace.html()
        grads = [p.grad for p in model.parameters()]
        return [text for text, _ in steps], trace.data(), [g.cpu().tolist() for g in grads]

    found, wanted = both(traced)
    same(rounded(found), rounded(wanted))


def test_trace_gives_what_backward_gives() -> None:
    model, _, loss = network("cuda")
    diagnose.trace_backward(loss).play()
    other, _, again = network("cuda")
    again.backward()
    for p, q in zip(model.parameters(), other.parameters(), strict=True):
        assert p.grad.device.type == "cuda" and torch.equal(p.grad, q.grad)


def test_gradient_flow() -> None:
    def flow(device: str) -> Any:
        model, _, loss = network(device)
        loss.backward()
        model[2].bias.grad = None
        model[2].weight.grad.zero_()
        model[0].bias.grad[0] = float("inf")
        found = diagnose.gradient_flow(model)
        return found.data(), found.notes, repr(found)

    found, wanted = both(flow)
    same(rounded(found[:2]), rounded(wanted[:2]))
    assert [row["mark"] for row in found[0]] == ["", "nan", "zero", "none"]


def test_explain_and_the_graph_of_an_error() -> None:
    def explained(device: str) -> Any:
        w = torch.zeros(3, device=device, requires_grad=True)
        h = w.exp()
        h.add_(1)
        try:
            h.sum().backward()
        except RuntimeError as error:
            told = str(diagnose.explain(error))
            graph = diagnose.graph(error)
        try:
            torch.ones(2, 3, device=device) @ torch.ones(2, 3, device=device)
        except RuntimeError as error:
            more = diagnose.explain(error).data()
        return told, graph.data, more

    found, wanted = both(explained)
    assert found[0].replace("torch.cuda.", "torch.").split() == wanted[0].split()  # other breaks
    same(json.loads(json.dumps(found[1:]).replace("torch.cuda.", "torch.")), as_json(wanted[1:]))
    assert found[1]["failed"] is not None


def as_json(value: Any) -> Any:
    return json.loads(json.dumps(value))


def test_bfloat16_under_autocast() -> None:
    """Parameters in float32, most of the graph in bfloat16, gradients cast late."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1)).to("cuda")
    x = torch.ones(4, 8, device="cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model(x).float().pow(2).mean()
    kept = diagnose.memory(loss)
    assert "bfloat16" in {t["dtype"] for t in kept.tensors}
    graph = diagnose.graph(loss)
    assert "bfloat16" in {n["dtype"] for n in graph.nodes}
    steps = list(diagnose.trace_backward(loss))
    assert all(step.incoming.isfinite().all() for step in steps)
    assert all(p.grad.dtype == torch.float32 for p in model.parameters())
    assert diagnose.why(model[0].weight).cause == "filled"


# ---------------------------------------------------------------------- anomaly mode and errors


def in_file(folder: pathlib.Path, source: str, device: str) -> Any:
    """The exception with which a program of the catalogue ends on a device."""
    path, _ = test_errors.write_source(folder, source)
    torch.manual_seed(0)
    with default_device(device), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            test_errors.execute(path)
        except Exception as error:
            tracebacks.explained(error)
            return error
    raise AssertionError("nothing was raised")


# A GPU does not say which value was out of range; NumPy's arrays stay on the host; E11 is below.
ON_THE_HOST = (
    "labels that begin at 1",
    "a word beyond the vocabulary",
    "gather",
    "a tensor of indices; PyTorch counts the tensors, not the dimensions",
    "labels of -1 and 1 in binary cross entropy",
    "class numbers in binary cross entropy",
    "scores in the place of probabilities",
    "float64 data and a float32 layer",
)
CASES = [c for c in test_errors.CASES if c.about not in ON_THE_HOST and c.id != "E11"]


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.id} {c.about}")
def test_an_error_of_the_catalogue(case: Any, tmp_path: pathlib.Path) -> None:
    found, wanted = both(lambda device: in_file(tmp_path, case.source, device))
    assert type(found) is type(wanted)
    # A step is one kernel on a GPU, and several writes on the CPU.
    text = without_device(str(found))
    names = r"\b(add_|addcdiv_)(?= \(version| at )" if "STEP" in text else r"$^"
    assert text == re.sub(names, "STEP", str(wanted))
    if "STEP" not in text:
        assert json.loads(without_device(json.dumps(found.diagnosis))) == as_json(wanted.diagnosis)


def without_device(text: str) -> str:
    kinds = re.sub(r"\bCUDA(\w+Type)\b", r"CPU\1", text.replace("torch.cuda.", "torch."))
    return re.sub(r"\b_fused_\w+_", "STEP", kinds.replace(" on cuda:0", ""))


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        (torch.float32, "torch.cuda.FloatTensor"),
        (torch.float16, "torch.cuda.HalfTensor"),
        (torch.bfloat16, "CUDABFloat16Type"),
        (torch.complex64, "CUDAComplexFloatType"),
    ],
    ids=str,
)
def test_e01_names_the_type_as_pytorch_does(dtype: Any, name: str) -> None:
    x = torch.ones(2, device="cuda", dtype=dtype, requires_grad=True)
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError, match=rf": \[{name} \[2\]\], which is output 0 of Exp, is at"):
        y.abs().sum().backward()


def test_e10_names_the_tensor_on_the_other_device() -> None:
    net = nn.Linear(3, 2).to("cuda")
    x = torch.ones(4, 3, requires_grad=True) * 2
    with pytest.raises(RuntimeError) as caught:
        net(x)
    found: Any = caught.value
    assert str(found).startswith("Expected all tensors to be on the same device, but found")
    assert found.diagnosis["id"] == "E10"
    assert found.diagnosis["devices"] == {"input": "cpu", "weight": "cuda:0", "bias": "cuda:0"}
    assert found.diagnosis["tensor"]["name"] == "x"
    assert found.diagnosis["what"] == "`x` is on cpu, the others on cuda:0"
    assert found.diagnosis["fixes"][0] == 'move it: x = x.to("cuda:0")'
    assert found.diagnosis["made"]["text"] == "x = torch.ones(4, 3, requires_grad=True) * 2"


def test_e11_asks_for_the_device_first() -> None:
    """As PyTorch does: a tensor on a GPU is no array, whether it requires grad or not."""
    x = torch.ones(2, device="cuda", requires_grad=True)
    sentence = (
        r"can't convert cuda:0 device type tensor to numpy\. Use Tensor\.cpu\(\) to copy the "
        r"tensor to host memory first\."
    )
    for t in (x, x.detach(), x * 2):
        with pytest.raises(TypeError, match=sentence):
            t.numpy()
    with pytest.raises(RuntimeError, match="Can't call numpy"):
        x.cpu().numpy()
    assert x.numpy(force=True).tolist() == [1.0, 1.0]


def test_e07_warns() -> None:
    y = torch.ones(2, device="cuda", requires_grad=True) * 2
    with pytest.warns(UserWarning, match="leaf Tensor is being accessed") as caught:
        assert y.grad is None
    told: Any = caught[0].message
    assert told.diagnosis["tensor"]["name"] == "y"


NAN_CASES = {
    "sqrt(0)": lambda x: (x.sqrt() * 0).sum(),
    "0/0": lambda x: (x / (x * 1)).sum(),
    "log(0)": lambda x: (x.log() * x).sum(),
    "pow with base 0": lambda x: (x**0.5 * 0).sum(),
    "softmax of all -inf": lambda x: (x + float("-inf")).softmax(0).sum(),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("pattern", NAN_CASES)
def test_anomaly_mode_names_inputs_and_pattern(pattern: str, dtype: Any) -> None:
    def failed(device: str) -> Any:
        x = torch.tensor([0.0, 4.0], device=device, dtype=dtype, requires_grad=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            with torch.autograd.detect_anomaly(), pytest.raises(RuntimeError) as caught:
                NAN_CASES[pattern](x).backward()
        return caught.value

    found, wanted = both(failed)
    assert str(found) == str(wanted)
    assert found.diagnosis == wanted.diagnosis
    assert "\n  inputs:  " in str(found) and found.diagnosis["inputs"]
    assert found.diagnosis["pattern"].endswith(pattern)


# ---------------------------------------------------------------------- the doctor


def watched(run: Any, device: str) -> Any:
    torch.manual_seed(0)
    gc.collect()
    with default_device(device), doctor(show=False) as report:
        run()
    assert report.problems == []
    return report


@pytest.mark.parametrize("path", BROKEN, ids=lambda p: p.stem)
def test_a_planted_fault_is_found(path: pathlib.Path) -> None:
    def run() -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            runpy.run_path(str(path), run_name="__main__")

    alias.install()
    try:
        report = watched(run, "cuda")
    finally:
        alias.uninstall()
    (finding,) = report.findings
    lines = path.read_text(encoding="utf-8").splitlines()
    assert finding.id == path.stem[:3].upper()
    assert lines[finding.where["line"] - 1].endswith("# fault")


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step")
@pytest.mark.parametrize("loop", healthy_loops.LOOPS, ids=lambda loop: loop.__name__)
def test_no_finding_in_a_healthy_loop(loop: Any) -> None:
    report = watched(loop, "cuda")
    assert str(report).startswith(ENDING), str(report)


def test_a_step_that_is_captured_is_let_alone() -> None:
    """While a CUDA graph is recorded no value can be looked at."""
    model = nn.Linear(4, 1).to("cuda")
    optimizer = optim.SGD(model.parameters(), lr=0.01)
    x, y = torch.ones(8, 4, device="cuda"), torch.zeros(8, 1, device="cuda")

    def train(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    with doctor(show=False) as report:
        step = torch.cuda.make_graphed_step(train)
        losses = [step(x, y).item() for _ in range(6)]
    assert report.problems == [] and not report.findings
    assert losses == sorted(losses, reverse=True) and losses[-1] < losses[0]


def test_the_doctor_keeps_no_memory_of_the_gpu() -> None:
    """What it remembers of weights and results is on the host, or weak."""
    model = nn.Sequential(nn.Linear(4, 64), nn.Dropout(0.5), nn.Linear(64, 1)).to("cuda")
    optimizer = optim.SGD(model.parameters(), lr=0.01)
    x = torch.ones(8, 4, device="cuda")
    with doctor(show=False) as report:
        for _ in range(3):
            optimizer.zero_grad()
            model(x).pow(2).mean().backward()
            optimizer.step()
        gc.collect()
        before = {id(t) for t in gc.get_objects() if isinstance(t, torch.Tensor)}
        with torch.no_grad():
            model(x)
        gc.collect()
        after = [t for t in gc.get_objects() if isinstance(t, torch.Tensor)]
        assert [t for t in after if id(t) not in before] == []
    assert [f.id for f in report.findings] == ["D15"] and report.problems == []


# ---------------------------------------------------------------------- the commands

START = """
import sys
sys.path[:0] = [{here!r}, {tests!r}]
from tapegrad.cuda import runtime
if not runtime.look():
    import stand_in
    runtime.use(stand_in)
from tapegrad.__main__ import main
sys.exit(main({args!r}))
"""
SCRIPT = """
import torch
from torch import nn
torch.manual_seed(0)
device = torch.device("cuda")
model = nn.Linear(3, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x, y = torch.ones(4, 3, device=device), torch.zeros(4, 1, device=device)
for _ in range(4):
    loss = ((model(x) - y) ** 2).mean()
    loss.backward()
    optimizer.step()
"""


def command(*args: Any) -> Any:
    """`python -m tapegrad …`, on the stand-in where there is no GPU."""
    source = pathlib.Path(torch.__file__).parent.parent
    start = START.format(here=str(HERE), tests=str(HERE.parent), args=[str(a) for a in args])
    return subprocess.run(
        [sys.executable, "-c", start],
        env=os.environ | {"PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


@pytest.fixture
def script(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return path


def test_the_doctor_from_the_command_line(script: pathlib.Path, tmp_path: pathlib.Path) -> None:
    done = command("doctor", "--json", tmp_path / "found.json", script)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "found.json").read_text())
    assert [f["id"] for f in found["findings"]] == ["D01"]
    assert found["findings"][0]["where"]["text"] == "optimizer.step()"


@pytest.mark.parametrize("ending", ["html", "json", "svg", "txt"])
def test_the_graph_from_the_command_line(
    script: pathlib.Path, tmp_path: pathlib.Path, ending: str
) -> None:
    made = tmp_path / f"graph.{ending}"
    done = command("graph", script, "-o", made)
    assert done.returncode == 0, done.stderr
    assert "MulBackward0" in made.read_text() or "PowBackward0" in made.read_text()
    if ending == "json":
        nodes = json.loads(made.read_text())["nodes"]
        leaves = [n for n in nodes if n["kind"] == "leaf"]
        assert {n["name"] for n in leaves} == {"model.weight", "model.bias"}
        assert all(n["summary"]["size"] and n["grad"]["norm"] > 0 for n in leaves)


def test_this_is_what_the_fixture_gives() -> None:
    assert runtime.Found.module is not None and torch.cuda.is_available()


def test_live_and_program_on_a_device():
    w = torch.ones(3, requires_grad=True, device="cuda")
    with diagnose.live(io.StringIO()) as picture:
        for _ in range(3):
            loss = (w * w).sum()
            loss.backward()
            with torch.no_grad():
                w -= 0.1 * w.grad
            w.grad = None
    assert picture.problems == [] and picture.losses[0] == 3.0
    assert picture.gradients[0] == pytest.approx(12**0.5)
    lines = diagnose.program(lambda x: (x * w).tanh().sum())(torch.ones(3, device="cuda")).backward
    assert lines[-1] == "w.grad = g_t1 * x"


def test_an_index_out_of_range_on_a_device():
    x = torch.ones(3, 4, device="cuda")
    with pytest.raises(IndexError) as caught:
        x[1, 7]
    assert "dimension 1 of `x` has 4 places" in str(caught.value)
