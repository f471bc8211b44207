"""The doctor finds what is planted, and nothing in loops that are well."""

from __future__ import annotations

import copy
import doctest
import gc
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import warnings
import weakref

import pytest

import healthy_loops
import tapegrad as torch
import tapegrad.nn.functional as F
from example_runs import EXAMPLES, SCRIPTS
from tapegrad import nn, optim
from tapegrad.diagnose import doctor
from tapegrad.diagnose._doctor import doctor as _doctor
from tapegrad.diagnose._doctor import report as doctor_report
from tapegrad.diagnose._doctor.doctor import Doctor, Report
from tapegrad.diagnose._doctor.report import CATALOGUE
from tapegrad.diagnose._doctor.watch import WATCH, Listener

BROKEN = sorted((pathlib.Path(__file__).parent / "broken").glob("*.py"))
PAGE = pathlib.Path(__file__).parent.parent / "docs" / "doctor.md"
HARNESS = """
import json, runpy, sys
from tapegrad.compat import alias
from tapegrad.diagnose import doctor
alias.install()
found = {}
for path in sys.argv[1:]:
    with doctor(show=False) as report:
        runpy.run_path(path, run_name="__main__")
    found[path] = [report.data(), str(report), report.problems]
print(json.dumps(found))
"""


def python(*args, **environment):
    """Run the interpreter on this source tree."""
    source = pathlib.Path(torch.__file__).parent.parent
    return subprocess.run(
        [sys.executable, *map(str, args)],
        env=os.environ | {"PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"} | environment,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


def watched(loop, *args):
    torch.manual_seed(0)
    with doctor(show=False) as report:
        loop(*args)
    assert report.problems == []
    return report


def ids(report):
    return [f.id for f in report.findings]


# --- planted faults --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def broken():
    done = python("-c", HARNESS, *BROKEN)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("path", BROKEN, ids=lambda p: p.stem)
def test_a_planted_fault_is_found(broken, path):
    """One finding, the one that is planted, at the line that is marked."""
    data, text, problems = broken[str(path)]
    assert problems == []
    lines = path.read_text(encoding="utf-8").splitlines()
    (fault,) = [i for i, line in enumerate(lines, 1) if line.endswith("# fault")]
    assert [f["id"] for f in data["findings"]] == [path.stem[:3].upper()]
    (finding,) = data["findings"]
    where = finding["where"]
    assert (where["file"], where["line"]) == (str(path), fault)
    assert where["text"] == lines[fault - 1].strip()
    assert finding["what"] and finding["fix"] and finding["count"] >= 1
    assert all(len(row) <= 100 for row in text.splitlines() if "where:" not in row)


def test_every_finding_is_planted_and_documented():
    assert {p.stem[:3].upper() for p in BROKEN} == set(CATALOGUE)
    page = PAGE.read_text(encoding="utf-8")
    assert re.findall(r"^## (D\d\d)", page, re.M) == sorted(CATALOGUE)
    for id, (severity, title) in CATALOGUE.items():
        section = page.split(f"## {id}")[1].split("\n## ")[0]
        assert f"**{severity}**" in section and title in section, id


def test_little_room_is_told_with_a_budget(broken):
    (path,) = [p for p in BROKEN if p.stem.startswith("d29")]
    data, text, _ = broken[str(path)]
    (finding,) = data["findings"]
    assert finding["what"].startswith("the graph has saved 44.0 MB for backward(), and ")
    fix = 'with utils.checkpoint.budget("22.0 MB"): around forward and backward keeps half of it'
    assert finding["fix"].startswith(fix)
    assert "[D29] warning: saved values take most of the memory that is free" in text


X, FLAT = torch.randn(16, 4), torch.randn(16)
CLASSES = torch.randint(3, (16,))


def fit(model, loss_of, steps=10, optimizer=None):
    optimizer = optimizer or optim.SGD(model.parameters(), lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        optimizer.step()


LOSSES_OF_PAIRS = {
    "mse": lambda m: F.mse_loss(m(X), FLAT),
    "l1": lambda m: nn.L1Loss()(m(X), FLAT),
    "smooth": lambda m: F.smooth_l1_loss(m(X), FLAT),
    "huber": lambda m: F.huber_loss(m(X), FLAT),
    "turned": lambda m: (FLAT - m(X)).abs().mean(),
    "double": lambda m: (m(X) - FLAT.double()).square().mean(),
    "normal": lambda m: -torch.distributions.Normal(m(X), 1.0).log_prob(FLAT).mean(),
    "columns": lambda m: ((m(X).squeeze(1) - COLUMN) ** 2).mean(),
}
COLUMN = FLAT.reshape(16, 1)


@pytest.mark.filterwarnings("ignore:Using a target size")
@pytest.mark.parametrize("name", LOSSES_OF_PAIRS)
def test_columns_against_rows(name):
    model = nn.Linear(4, 1)
    report = watched(fit, model, lambda: LOSSES_OF_PAIRS[name](model))
    assert ids(report) == ["D10"]
    shapes = "(16,) and the target (16, 1)" if name == "columns" else "(16, 1) and the target (16,)"
    assert f"the prediction has shape {shapes}" in report.findings[0].what


def test_equal_shapes_are_fine():
    model = nn.Linear(4, 1)
    for loss in (
        lambda: F.mse_loss(model(X).squeeze(1), FLAT),
        lambda: F.mse_loss(model(X), COLUMN),
        lambda: ((model(X[:1]) - FLAT[:1]) ** 2).mean(),  # one example: nothing is multiplied
    ):
        assert ids(watched(fit, model, loss)) == []


class Trainer:
    def __init__(self):
        self.model = nn.Linear(4, 3)
        self.optimizer = optim.SGD(self.model.parameters(), lr=0.01)
        self.history = []
        self.log = {"loss": []}

    def step(self):
        self.optimizer.zero_grad()
        scores = self.model(X)
        loss = F.cross_entropy(scores, CLASSES)
        loss.backward()
        self.optimizer.step()
        return loss, scores

    def losses_in_a_list(self):
        for _ in range(20):
            self.history.append(self.step()[0])  # here

    def losses_in_a_dict(self):
        for _ in range(20):
            self.log["loss"].append(self.step()[0])  # here

    def results(self):
        for _ in range(20):
            self.history += [self.step()[1]]  # here

    def pairs(self):
        for _ in range(20):
            self.history.append(self.step())  # here

    def moving_average(self):
        average = torch.zeros(())
        for _ in range(20):
            average = 0.9 * average + 0.1 * self.step()[0]  # here


@pytest.mark.parametrize(
    "way", ["losses_in_a_list", "losses_in_a_dict", "results", "pairs", "moving_average"]
)
def test_graphs_that_pile_up(way):
    report = watched(getattr(Trainer(), way))
    assert ids(report) == ["D26"]
    assert report.findings[0].where["text"].endswith("# here")


def test_numbers_and_detached_tensors_may_be_kept():
    trainer = Trainer()

    def loop():
        total = 0.0
        for _ in range(20):
            loss, scores = trainer.step()
            trainer.history.append(loss.item())
            trainer.log["loss"].append(scores.detach())
            total += loss.detach()

    assert ids(watched(loop)) == []


class Hidden(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = {"a": nn.Linear(4, 3)}
        self.body = nn.Linear(4, 4)

    def forward(self, x):
        return self.heads["a"](self.body(x))


def test_a_module_in_a_dict():
    model = Hidden()
    report = watched(fit, model, lambda: F.cross_entropy(model(X), CLASSES))
    assert ids(report) == ["D09"]
    assert "nn.ModuleDict" in report.findings[0].fix
    assert report.findings[0].where["text"] == 'self.heads = {"a": nn.Linear(4, 3)}'
    # The same model is fine if its owner gives the optimizer everything.
    everything = [*model.parameters(), *model.heads["a"].parameters()]
    optimizer = optim.SGD(everything, lr=0.01)
    loop = (fit, model, lambda: F.cross_entropy(model(X), CLASSES), 10, optimizer)
    assert ids(watched(*loop)) == []


def test_a_copied_model():
    """Everything may be gone when the doctor tells what was wrong with it."""

    def loop():
        model = nn.Linear(4, 3)
        optimizer = optim.SGD(model.parameters(), lr=0.01)
        model = copy.deepcopy(model)
        fit(model, lambda: F.cross_entropy(model(X), CLASSES), optimizer=optimizer)

    report = watched(loop)
    assert ids(report) == ["D08"]
    assert "`model.weight`, `model.bias` instead" in report.findings[0].what
    assert report.findings[0].where["text"].startswith("optimizer = optim.SGD")


def test_cut_in_the_middle():
    first, second = nn.Linear(4, 8), nn.Linear(8, 3)
    both = nn.Sequential(first, second)
    report = watched(fit, both, lambda: F.cross_entropy(second(first(X).detach()), CLASSES))
    assert ids(report) == ["D06"]
    assert re.match(r"`\w+\.0\.weight`, `\w+\.0\.bias`: no backward", report.findings[0].what)


def test_two_steps_for_one_backward():
    model = nn.Linear(4, 3)
    optimizer = optim.SGD(model.parameters(), lr=0.01)

    def loop():
        for _ in range(6):
            optimizer.zero_grad()
            F.cross_entropy(model(X), CLASSES).backward()
            optimizer.step()
            optimizer.step()

    report = watched(loop)
    assert ids(report) == ["D03"]
    assert "still those of the last step" in report.findings[0].what
    assert report.findings[0].count == 6  # six second steps


def test_a_loss_that_raises_and_is_caught():
    model = nn.Linear(4, 3)
    optimizer = optim.SGD(model.parameters(), lr=0.01)

    def loop():
        for _ in range(6):
            loss = F.cross_entropy(model(X).detach(), CLASSES)
            with pytest.raises(RuntimeError, match="does not require grad"):
                loss.backward()
            optimizer.step()

    report = watched(loop)
    assert ids(report) == ["D04"]
    assert "cut off by detach at" in report.findings[0].what


def test_a_closure_without_zero_grad():
    model = nn.Linear(4, 3)
    optimizer = optim.LBFGS(model.parameters(), max_iter=2)

    def closure():
        loss = F.cross_entropy(model(X), CLASSES)
        loss.backward()
        return loss

    report = watched(lambda: [optimizer.step(closure) for _ in range(6)])
    assert ids(report) == ["D01"]


NANS = {
    "data": (lambda m: F.cross_entropy(m(SPOILED), CLASSES), "`SPOILED` came in with 1 of 64"),
    "exp": (lambda m: (m(X) * 1000).exp().mean(), "exp of a large number"),
    "div": (lambda m: (m(X) / torch.zeros(16, 3)).mean(), "a division by zero"),
    "log": (lambda m: m(X).relu().log().mean(), "log of zero"),
}
SPOILED = X.clone()
SPOILED[2, 1] = float("nan")


@pytest.mark.parametrize("name", NANS)
def test_where_a_nan_began(name):
    loss, words = NANS[name]
    model = nn.Linear(4, 3)
    report = watched(fit, model, lambda: loss(model))
    assert ids(report) == ["D18"]
    assert words in report.findings[0].what
    assert f'"{name}": (' in report.findings[0].where["text"]


def test_a_loss_that_runs_away():
    model = nn.Linear(4, 1)
    optimizer = optim.SGD(model.parameters(), lr=1.0)
    report = watched(fit, model, lambda: F.mse_loss(model(10 * X), COLUMN), 200, optimizer)
    assert ids(report) == ["D18", "D22"]
    assert "it grew from" in report.findings[0].what


@pytest.mark.parametrize("way", ["loss", "argmax", "collected", "last"])
def test_ways_to_evaluate_in_train_mode(way):
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.2), nn.Linear(8, 3))
    optimizer = optim.SGD(model.parameters(), lr=0.01)

    @torch.no_grad()
    def evaluate():
        if way == "loss":
            return F.cross_entropy(model(X), CLASSES).item()
        if way == "argmax":
            return torch.argmax(model(X), dim=1)
        if way == "collected":
            return torch.cat([model(X[i : i + 4]) for i in range(0, 16, 4)])
        return model(X)

    def loop():
        for epoch in range(3):
            fit(model, lambda: F.cross_entropy(model(X), CLASSES), 3, optimizer)
            if way != "last" or epoch == 2:
                evaluate()

    report = watched(loop)
    assert ids(report) == ["D15"]
    assert "`model` ran under no_grad() in train mode: dropout is on, batch norm" in str(report)
    model.eval()
    assert ids(watched(evaluate)) == []


# --- loops that are well ---------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step")
@pytest.mark.parametrize("loop", healthy_loops.LOOPS, ids=lambda loop: loop.__name__)
def test_no_finding_in_a_healthy_loop(loop):
    report = watched(loop)
    assert str(report).startswith("tapegrad doctor: no findings"), str(report)
    if loop.__name__ not in ("only_evaluated", "by_hand", "probed"):
        assert report.steps >= 5  # it did watch


STEPS = {"char_gpt": 8, "pinn": 4, "reinforce": 8}


@pytest.mark.parametrize("name", SCRIPTS)
def test_no_finding_in_an_example(name, tmp_path):
    done = python(
        *("-m", "tapegrad", "doctor", "--strict", "--json", tmp_path / "found.json"),
        *(EXAMPLES / f"{name}.py", "--steps", STEPS.get(name, 25)),
    )
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    assert found["findings"] == []
    assert found["steps"] == STEPS.get(name, 25)
    assert re.fullmatch(r"tapegrad doctor: no findings \(.*\)\n", done.stderr)


# --- in and out ------------------------------------------------------------------------------

PLACES = [
    nn.Module,
    nn.functional,
    optim.Optimizer,
    optim.lr_scheduler.LRScheduler,
    torch,
    torch.Tensor,
    torch.autograd,
    warnings,
    nn.modules.module.GLOBAL,
]


def everything():
    hooks = sys.modules["tapegrad.optim.optimizer"]
    state = [(place, name, id(value)) for place in PLACES for name, value in vars(place).items()]
    return [
        *state,
        dict(hooks._global_optimizer_pre_hooks),
        dict(hooks._global_optimizer_post_hooks),
        list(WATCH.listeners),
        list(WATCH._undo),
    ]


def test_everything_is_as_it_was():
    model = nn.Linear(4, 3)
    loop = (fit, model, lambda: F.cross_entropy(model(X), CLASSES), 3)
    watched(*loop)  # what is loaded on first use is loaded now
    before = everything()
    with doctor(show=False):
        changed = [a for a, b in zip(everything(), before, strict=False) if a != b]
        assert len(changed) > 20  # the doctor does wrap things
        fit(*loop[1:])
    assert everything() == before
    with pytest.raises(ZeroDivisionError), doctor(show=False):
        1 / 0  # noqa: B018
    assert everything() == before
    with doctor(show=False), pytest.raises(TypeError):
        model(None)
    assert everything() == before and WATCH.root is None


def test_the_numbers_are_the_same():
    def train():
        torch.manual_seed(3)
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 3))
        optimizer = optim.Adam(model.parameters())
        losses = []
        for _ in range(15):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(X), CLASSES)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses, [p.tolist() for p in model.parameters()], torch.rand(3).tolist()

    alone = train()
    with doctor(show=False):
        assert train() == alone


def test_errors_of_the_loop_pass_through():
    w = torch.ones(2, requires_grad=True)
    loss = (w * w).sum()
    with doctor(show=False):
        loss.backward()
        with pytest.raises(RuntimeError, match="backward through the graph a second time") as error:
            loss.backward()
    assert error.value.diagnosis["id"] == "E02"


def test_warnings_point_at_the_loop():
    model, flat = nn.Linear(4, 1), nn.MSELoss()
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    scheduler = optim.lr_scheduler.StepLR(optimizer, 1)
    with doctor(show=False), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        flat(model(X), FLAT)
        scheduler.step()
        warnings.warn("of one's own", stacklevel=1)
    lines = [pathlib.Path(__file__).read_text().splitlines()[w.lineno - 1].strip() for w in caught]
    assert [w.filename for w in caught] == [__file__] * 3
    assert lines == [
        "flat(model(X), FLAT)",
        "scheduler.step()",
        'warnings.warn("of one\'s own", stacklevel=1)',
    ]


def test_a_defect_in_a_check_never_reaches_the_loop():
    class Clumsy(Listener):
        def before_backward(self, call):
            raise KeyError("oops")

    watching = Doctor(show=False).start()
    WATCH.add([clumsy := Clumsy()], watching.report.problems)
    w = torch.ones(2, requires_grad=True)
    (w * w).sum().backward()
    WATCH.drop([clumsy])
    assert watching.stop().problems[0].endswith("KeyError: 'oops'\n")
    assert w.grad.tolist() == [2.0, 2.0]


def test_nothing_is_kept_alive():
    def train():
        model = nn.Linear(4, 3)
        optimizer = optim.SGD(model.parameters(), lr=0.01)
        fit(model, lambda: F.cross_entropy(model(X), CLASSES), 5, optimizer)
        return [weakref.ref(model), weakref.ref(model.weight), weakref.ref(optimizer)]

    with doctor(show=False):
        gone = train()
        gc.collect()
        assert [ref() for ref in gone] == [None, None, None]


def test_start_and_stop():
    model = nn.Linear(4, 3)
    doctor.start(file=(out := io.StringIO()))
    with pytest.raises(RuntimeError, match="doctor.stop"):
        doctor.start()
    for _ in range(4):
        F.cross_entropy(model(X), CLASSES).backward()
    report = doctor.stop()
    assert isinstance(report, Report) and report.backwards == 4
    assert out.getvalue() == "tapegrad doctor: no findings (0 steps, 4 backward)\n"
    with pytest.raises(RuntimeError, match="without doctor.start"):
        doctor.stop()


def test_scripts_that_do_not_begin_end_with_their_own_error(tmp_path):
    broken = tmp_path / "broken.py"
    broken.write_text("x = = 1\n")
    done = python("-m", "tapegrad", "doctor", broken)
    assert done.returncode == 1 and done.stderr.endswith("SyntaxError: invalid syntax\n")
    done = python("-m", "tapegrad", "doctor", tmp_path / "nowhere.py")
    assert done.returncode == 2 and "No such file" in done.stderr
    assert "findings" not in done.stderr


def test_a_doctor_beside_a_doctor():
    model = nn.Linear(4, 3)
    loop = (model, lambda: F.cross_entropy(model(X), CLASSES), 4)
    one, two = Doctor(show=False).start(), Doctor(show=False).start()
    fit(*loop)
    assert one.stop().steps == 4
    fit(*loop)
    assert two.stop().steps == 8
    assert one.report.steps == 4 and not WATCH.listeners


def test_a_finding_counts_the_times_before_it_was_sure():
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with Doctor(show=False) as doctor:
        for _ in range(6):
            model(torch.ones(4, 2)).sum().backward()
            optimizer.step()
    (finding,) = [f for f in doctor.findings if f.id == "D01"]
    assert finding.count == 5  # all steps but the first


def test_the_report():
    report = Report()
    place = {"file": "train.py", "line": 3, "text": "optimizer.step()", "function": "main"}
    report.add("D15", "the model ran", place, "call eval()")
    report.add("D01", "gradients add up", place, "zero_grad()", ["or so"])
    report.add("D01", "gradients add up", place, "zero_grad()")
    report.add("D01", "gradients add up", {**place, "line": 4}, "zero_grad()")
    assert [(f.id, f.line, f.count, f.severity) for f in report.findings] == [
        ("D01", "train.py:3", 2, "error"),
        ("D01", "train.py:4", 1, "error"),
        ("D15", "train.py:3", 1, "warning"),
    ]
    assert str(report).split("\n\n")[1] == (
        "[D01] error: step() without zero_grad(): gradients add up from step to step\n"
        "  what:   gradients add up\n"
        "  where:  train.py:3:  optimizer.step()\n"
        "  fix:    zero_grad()\n"
        "  or:     or so\n"
        "  seen:   2 times; python -m tapegrad explain D01"
    )
    data = json.loads(report.json())
    assert data["version"] == 1 and data["findings"][0]["where"] == place
    assert data["findings"][2]["page"] == "docs/doctor.md#d15"


def test_counts_of_a_sample_say_so():
    """The graph of a loss is read in the first three passes of a line, then in every 50th."""
    w = torch.ones(1, requires_grad=True)
    x, y = torch.ones(4, 1), torch.ones(4)
    with doctor(file=io.StringIO()) as report:
        for _ in range(10):
            ((x * w - y) ** 2).mean().backward()
            w.grad = None
    (found,) = [f for f in report.findings if f.id == "D10"]
    assert found.count == 3 and found.data()["sampled"]
    assert "seen:   3 times in a sample of the passes;" in str(found)


def test_the_examples_in_the_docs_run():
    names = {"nn": nn, "optim": optim, "randn": torch.randn}
    for module in (_doctor, doctor_report):
        result = doctest.testmod(module, extraglobs=names)
        assert result.failed == 0 and result.attempted >= 3


# --- the command and the environment variable ------------------------------------------------


def test_the_command_when_the_program_fails(tmp_path):
    script = tmp_path / "train.py"
    good = BROKEN[0].read_text(encoding="utf-8")
    script.write_text(good + 'print("done", __import__("sys").argv[1:])\n1 / 0\n')
    done = python("-m", "tapegrad", "doctor", script, "--epochs", "3")
    assert done.returncode == 1
    assert done.stdout == "done ['--epochs', '3']\n"
    trace, _, report = done.stderr.partition("tapegrad doctor: 1 finding")
    assert trace.startswith("Traceback")
    assert trace.endswith("ZeroDivisionError: division by zero\n")
    assert "diagnose" not in trace
    fault = good[: good.index("# fault")].count("\n") + 1
    assert f"train.py:{fault}:  optimizer.step()" in report


def test_the_command_with_findings():
    done = python("-m", "tapegrad", "doctor", BROKEN[0])
    assert (done.returncode, done.stdout) == (0, "")
    assert python("-m", "tapegrad", "doctor", "--strict", BROKEN[0]).returncode == 1


def test_the_command_used_wrongly():
    for wrong in (["--json"], ["--strict"], ["--what", "x.py"]):
        done = python("-m", "tapegrad", "doctor", *wrong)
        assert done.returncode == 2 and done.stderr.startswith("usage: tapegrad doctor")
    assert "usage: tapegrad doctor" in python("-m", "tapegrad", "doctor").stdout


def test_the_environment_variable():
    script = BROKEN[0].read_text(encoding="utf-8")
    script = script.replace("from torch", "from tapegrad")
    script = script.replace("import torch", "import tapegrad as torch")
    done = python("-c", script, TAPEGRAD_DOCTOR="1")
    assert done.returncode == 0 and "[D01] error" in done.stderr
    assert python("-c", script).stderr == ""
    assert python("-c", script, TAPEGRAD_DOCTOR="0").stderr == ""
    assert python("-c", "import tapegrad", TAPEGRAD_DOCTOR="1").stderr == ""  # trains nothing
    lazy = "import sys, tapegrad; print([m for m in sys.modules if 'doctor' in m])"
    assert python("-c", lazy).stdout == "[]\n"
