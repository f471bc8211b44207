"""Recorded runs: what is written, what is read, where two of them part, and the birth of NaN."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tapegrad as tg
from diverging_programs import BASE, PAIRS, Pair
from tapegrad import diagnose, nn, optim
from tapegrad.__main__ import main
from tapegrad.core.python_dispatch import ACTIVE
from tapegrad.diagnose._runs.align import align
from tapegrad.diagnose._runs.compare import compare
from tapegrad.diagnose._runs.differ import difference
from tapegrad.diagnose._runs.kept import replay
from tapegrad.diagnose._runs.nonfinite import NonfiniteError
from tapegrad.diagnose._runs.page import render
from tapegrad.diagnose._runs.reader import BadRun, Value, read_run
from tapegrad.diagnose._runs.report import Text, as_data
from tapegrad.kernels.cpu import KERNELS
from tapegrad.recorder_for_torch import SUMMARY, summary_of


def recorded(text, path):
    """The run of a program in PyTorch's words, on tapegrad."""
    path.write_text(text)
    file = path.with_suffix(".tgr")
    ours = text.replace("import torch\n", "import tapegrad as torch\n")
    ours = ours.replace("from torch ", "from tapegrad ").replace(
        "import torch.", "import tapegrad."
    )
    code = compile(ours, str(path), "exec")
    with diagnose.record(file):
        exec(code, {"__name__": "__main__"})
    return read_run(file)


def in_memory(function, **options):
    file = io.BytesIO()
    with diagnose.record(file, **options) as run:
        function(run)
    file.seek(0)
    return read_run(file)


def train(steps=3, width=8, seed=0):
    def run(recording=None):
        tg.manual_seed(seed)
        model = nn.Sequential(nn.Linear(4, width), nn.ReLU(), nn.Linear(width, 2))
        optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        x, y = tg.randn(8, 4), tg.randint(0, 2, (8,))
        losses = []
        for _ in range(steps):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    return run


# ---------------------------------------------------------------------- twenty divergences


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return recorded(BASE, tmp_path_factory.mktemp("a") / "a.py")


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step")
@pytest.mark.parametrize("pair", PAIRS, ids=[pair.name.replace(" ", "-") for pair in PAIRS])
def test_the_line_that_parts_two_runs_is_named(pair: Pair, base, tmp_path):
    found = compare(base, recorded(pair.programs()[1], tmp_path / "b.py"))
    assert found.cause is not None
    assert found.cause.step == pair.step
    first, second = pair.lines()
    named = [(side, line.number) for side, line in found.cause.lines()]
    assert ("b", second) in named or ("a", first) in named, str(Text(found))
    assert all(len(line) <= 89 for line in Text(found).lines)


def test_twenty_pairs():
    assert len(PAIRS) == 20


def test_a_program_is_the_same_as_itself(base, tmp_path):
    found = compare(base, recorded(BASE, tmp_path / "again.py"))
    assert found.same
    assert found.tolerance.bits
    assert found.random_parts is None
    assert "the same, bit for bit" in str(Text(found))
    assert not found.alone


def test_what_comes_from_a_module_is_no_data():
    def program(factor, data):
        def run(recording):
            tg.manual_seed(0)
            first, second = nn.Linear(4, 3), nn.Linear(3, 2)
            x = tg.ones(5, 4) * data
            second(first(x).mul(factor)).sum().backward()

        return run

    base = in_memory(program(1.0, 1.0))
    assert not compare(base, in_memory(program(2.0, 1.0))).batches
    assert "other tensors from step 0" in compare(base, in_memory(program(1.0, 2.0))).batches


# ---------------------------------------------------------------------- recording


def test_recording_changes_no_bit():
    expected = train()()
    file = io.BytesIO()
    with diagnose.record(file):
        found = train()()
    assert found == expected
    assert train()() == expected


def test_nothing_stays_when_a_recording_ends():
    from tapegrad.autograd import api, watched

    before = (api.launch, api.runs_on_tensors, nn.Module.train, optim.Optimizer.__init__)
    props = tg.Tensor.__dict__["requires_grad"], list(watched.observers)
    with pytest.raises(ValueError, match="stop"):
        with diagnose.record(io.BytesIO()):
            raise ValueError("stop")
    assert before == (api.launch, api.runs_on_tensors, nn.Module.train, optim.Optimizer.__init__)
    assert props == (tg.Tensor.__dict__["requires_grad"], list(watched.observers))
    assert ACTIVE.modes == ()


def test_what_is_recorded():
    run = in_memory(train(steps=2))
    assert len(run.steps) == 2
    names = [(op.phase, op.name, op.module) for op in run.steps[1]]
    assert names == [
        ("forward", "t", "Sequential.0"),
        ("forward", "addmm", "Sequential.0"),
        ("forward", "relu", "Sequential.1"),
        ("forward", "t", "Sequential.2"),
        ("forward", "addmm", "Sequential.2"),
        ("forward", "_log_softmax", ""),
        ("forward", "nll_loss_forward", ""),
        ("backward", "NllLossBackward0", ""),
        ("backward", "LogSoftmaxBackward0", ""),
        ("backward", "AddmmBackward0", "Sequential.2"),
        ("backward", "TBackward0", "Sequential.2"),
        ("backward", "ReluBackward0", "Sequential.1"),
        ("backward", "AddmmBackward0", "Sequential.0"),
        ("backward", "TBackward0", "Sequential.0"),
        *[("optimizer", "SGD.step", "")] * 4,
    ]
    relu = run.steps[1][2]
    assert relu.line.text == "loss = nn.functional.cross_entropy(model(x), y)"
    assert relu.made[0].dtype == "float32" and relu.made[0].shape == (8, 8)
    assert relu.made[0].low == 0.0
    step = run.steps[1][-1]
    assert step.arguments == "lr=0.1, momentum=0.9"
    assert step.read[0].name == "2.bias"
    texts = [note.text for note in run.notes]
    assert texts[:2] == ["manual_seed(0)", "SGD(lr=0.1, momentum=0.9)"]
    assert texts[2:] == ["SGD.zero_grad()"] * 2


def test_filters():
    run = in_memory(train(steps=5), every=2)
    assert [bool(ops) for ops in run.steps] == [True, False, True, False, True]
    run = in_memory(train(steps=5), steps=range(1, 3))
    assert [bool(ops) for ops in run.steps] == [False, True, True, False, False]
    run = in_memory(train(steps=2), modules="2")
    assert {op.module for op in run.steps[0] if op.phase != "optimizer"} == {"Sequential.2"}


def test_a_loop_without_an_optimizer_says_where_its_steps_end():
    def loop(run):
        w = tg.ones(3, requires_grad=True)
        for _ in range(3):
            (w * w).sum().backward()
            with tg.no_grad():
                w -= 0.1 * w.grad
            w.grad = None
            run.step()

    assert [len(ops) for ops in in_memory(loop).steps] == [7, 6, 6]  # ones comes first
    silent = io.BytesIO()
    with diagnose.record(silent) as run:
        run.step = lambda: None
        loop(run)
    silent.seek(0)
    assert len(read_run(silent).steps) == 3


def test_gradients_that_are_added_up_are_looked_at_again():
    def twice(run):
        w = nn.Parameter(tg.ones(3))
        optimizer = optim.SGD([w], lr=0.1)
        for factor in (1.0, 2.0):
            (w * factor).sum().backward()
        optimizer.step()

    step = in_memory(twice).steps[0][-1]
    assert step.name == "SGD.step"
    assert step.read[1].mean == 3.0


def test_writes_through_views_data_and_numpy_are_seen():
    def writes(run):
        x = tg.zeros(4)
        (x * 1).sum()
        x[1:3].add_(1.0)
        (x * 1).sum()
        x.data.mul_(2.0)
        (x * 1).sum()

    muls = [op for op in in_memory(writes).steps[0] if op.name == "mul"]
    assert [op.read[0].mean for op in muls] == [0.0, 0.5, 1.0]


def test_a_closure_is_seen_and_the_step_is_one_entry():
    def closed(run):
        w = nn.Parameter(tg.ones(3))
        optimizer = optim.SGD([w], lr=0.1)

        def closure():
            optimizer.zero_grad()
            loss = (w * w).sum()
            loss.backward()
            return loss

        closure()
        optimizer.step(closure)

    names = [op.name for op in in_memory(closed).steps[0]]
    assert names.count("mul") == 2
    assert names[-1] == "SGD.step"


def test_an_optimizer_that_raises_leaves_the_recording_whole():
    class Broken(optim.SGD):
        def step(self, closure=None):
            raise RuntimeError("broken")

    def loop(run):
        w = nn.Parameter(tg.ones(3))
        optimizer = Broken([w], lr=0.1)
        (w * w).sum().backward()
        with pytest.raises(RuntimeError, match="broken"):
            optimizer.step()
        (w * 3).sum()

    names = [op.name for ops in in_memory(loop).steps for op in ops]
    assert names[-2:] == ["mul", "sum"]


def test_compiled_functions_are_recorded_op_by_op():
    @tg.compile
    def f(x):
        return tg.tanh(x * 2).sum()

    x = tg.ones(4)
    f(x), f(x), f(x)
    names = [op.name for op in in_memory(lambda run: f(x)).steps[0]]
    assert names == ["mul", "tanh", "sum"]


def test_recordings_do_not_nest_and_bad_arguments_are_named(tmp_path):
    with diagnose.record(io.BytesIO()):
        with pytest.raises(RuntimeError, match="do not nest"):
            diagnose.record(io.BytesIO()).__enter__()
    with pytest.raises(ValueError, match="'every'"):
        diagnose.record(io.BytesIO(), every=0)
    with pytest.raises(TypeError, match="'steps'"):
        diagnose.record(io.BytesIO(), steps="all")
    with pytest.raises(TypeError, match="'modules'"):
        diagnose.record(io.BytesIO(), modules=[3])
    with pytest.raises(TypeError, match="'path'"):
        diagnose.record(3)
    with pytest.raises(OSError, match="cannot write the recording"):
        diagnose.record(tmp_path / "no" / "run.tgr").__enter__()
    assert ACTIVE.modes == ()


# ---------------------------------------------------------------------- the summary of values


def layouts():
    rng = np.random.default_rng(0)
    for dtype in (np.float32, np.float64, np.int64):
        for shape in ((), (1,), (7,), (4100,), (3, 5), (33, 17), (2, 3, 4, 5), (9, 1)):
            x = np.asarray((100 * rng.standard_normal(shape)).astype(dtype))
            yield x
            if x.ndim >= 2:
                yield x.swapaxes(-1, -2)
            if x.ndim == 4:
                yield x.transpose(0, 2, 1, 3)
                yield x[..., ::2]


@pytest.mark.skipif(KERNELS is None, reason="there is one summary without kernels")
def test_c_and_numpy_summarise_alike():
    for x in layouts():
        found = KERNELS.value_summary(x)
        if found is None:  # strided in the last two dimensions
            assert x.strides[-1] == 2 * x.itemsize
            continue
        ours, reference = SUMMARY.unpack(found), SUMMARY.unpack(summary_of(x))
        assert ours[0] == reference[0]
        np.testing.assert_allclose(ours[3:], reference[3:], rtol=1e-12, atol=1e-9)
    for bad in (np.nan, np.inf, -np.inf):
        assert KERNELS.value_summary(np.array([1.0, bad])) is None


def value(x):
    return Value(str(x.dtype), x.shape, "", *SUMMARY.unpack(summary_of(x))[:7],
                 SUMMARY.unpack(summary_of(x))[7:])  # fmt: skip


@pytest.mark.parametrize("size", [1e-7, 1e-4, 1e-1])
def test_sketches_estimate_the_norm_of_the_difference(size):
    rng = np.random.default_rng(3)
    ratios = []
    for _ in range(50):
        x = rng.standard_normal((40, 30))
        y = x + size * rng.standard_normal((40, 30))
        truth = np.linalg.norm(x - y) / max(np.linalg.norm(x), np.linalg.norm(y))
        ratios.append(difference(value(x), value(y)).relative / truth)
    assert min(ratios) > 0.2 and max(ratios) < 2.5
    assert 0.8 < np.sqrt(np.mean(np.square(ratios))) < 1.2


def test_hashes_see_single_bits_signs_and_places():
    rng = np.random.default_rng(1)
    x = rng.standard_normal((16, 16)).astype(np.float32)
    hashes = {SUMMARY.unpack(summary_of(x))[0]}
    for i in range(16):
        y = x.copy()
        y[i, i] = np.nextafter(y[i, i], np.float32(9))
        z = x.copy()
        z[i] *= -1  # sixteen sign bits
        w = x.copy()
        w[[i, (i + 1) % 16]] = w[[(i + 1) % 16, i]]
        hashes |= {SUMMARY.unpack(summary_of(t))[0] for t in (y, z, w)}
    assert len(hashes) == 1 + 3 * 16


def test_bfloat16_and_nan_and_empty():
    def ops(run):
        x = tg.tensor([1.0, float("nan"), float("inf"), -2.0])
        x * 2
        x.bfloat16() * 2
        tg.ones(0) * 2
        tg.tensor([True, False]).logical_not()

    muls = [op.made[0] for op in in_memory(ops).steps[0] if op.name == "mul"]
    assert [(v.dtype, v.nans, v.infinities, v.low, v.high) for v in muls] == [
        ("float32", 1, 1, -4.0, 2.0),
        ("bfloat16", 1, 1, -4.0, 2.0),
        ("float32", 0, 0, 0.0, 0.0),
    ]


# ---------------------------------------------------------------------- alignment


def test_alignment_names_the_op_that_was_added():
    first = [("a", 1), ("b", 2), ("a", 3)]
    second = [("a", 1), ("a", 9), ("b", 2), ("a", 3)]
    keys = (lambda x: x, lambda x: x[0])
    assert align(first, second, keys) == [(0, 0), (None, 1), (1, 2), (2, 3)]
    assert align([], "ab", [str]) == [(None, 0), (None, 1)]


def test_alignment_of_sequences_with_nothing_in_common_is_fast():
    pairs = align(list(range(3000)), list(range(3000, 6000)), [lambda x: x])
    assert len(pairs) == 6000


def test_steps_of_parameters_with_other_names_are_compared():
    class Wrapped(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(3, 2)

        def forward(self, x):
            return self.inner(x)

    def run(make, lr):
        def loop(recording):
            tg.manual_seed(0)
            model = make()
            optimizer = optim.SGD(model.parameters(), lr=lr)
            for _ in range(2):
                model(tg.ones(4, 3)).sum().backward()
                optimizer.step()

        return in_memory(loop)

    plain, wrapped = run(lambda: nn.Linear(3, 2), 0.1), run(Wrapped, 0.1)
    assert compare(plain, wrapped).same
    found = compare(plain, run(Wrapped, 0.2))
    assert (found.cause.kind, found.cause.step) == ("arguments", 0)


# ---------------------------------------------------------------------- bad files


def test_files_that_cannot_be_read_say_why(tmp_path, capsys):
    whole = tmp_path / "whole.tgr"
    with diagnose.record(whole):
        train(steps=40)()
    data = whole.read_bytes()
    cases = {
        "cut.tgr": (data[: len(data) // 2], "not whole: it is cut off"),
        "short.tgr": (data[:10], "cut off after 10 bytes"),
        "other.tgr": (data[:8] + b"\x07\0\0\0" + data[12:], "format 7; this tapegrad reads"),
        "text.tgr": (b"import torch\n", "is not a recorded run"),
        "empty.tgr": (b"", "is not a recorded run"),
        "bits.tgr": (data[:3000] + b"\xff" + data[3001:], "damaged at byte"),
    }
    for name, (content, message) in cases.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(BadRun, match=message):
            read_run(tmp_path / name)
        assert main(["compare", str(whole), str(tmp_path / name)]) == 2
        assert name in capsys.readouterr().err
    assert main(["compare", str(whole), str(tmp_path / "absent.tgr")]) == 2
    part = read_run(tmp_path / "cut.tgr", partial=True)
    assert compare(read_run(whole), part).cause.kind == "length"


def test_every_truncation_and_random_damage_is_refused_or_read():
    file = io.BytesIO()
    with diagnose.record(file):
        train(steps=1)()
    data = file.getvalue()
    for end in range(0, len(data), 97):
        with pytest.raises(BadRun):
            read_run(io.BytesIO(data[:end]))
    for kind in (b"HEAD", b"STRS", b"BODY", b"DONE"):  # letters, which no sum protects
        with pytest.raises(BadRun):
            read_run(io.BytesIO(data.replace(kind, kind[:3] + b"x", 1)))
    rng = np.random.default_rng(0)
    for _ in range(200):
        bad = bytearray(data)
        bad[rng.integers(len(bad))] ^= 1 << rng.integers(8)
        with pytest.raises(BadRun):
            read_run(io.BytesIO(bytes(bad)))


# ---------------------------------------------------------------------- reports


@pytest.fixture
def two_files(tmp_path):
    for name, seed in (("a", 0), ("b", 1)):
        with diagnose.record(tmp_path / f"{name}.tgr"):
            train(seed=seed)()
    return [str(tmp_path / "a.tgr"), str(tmp_path / "b.tgr")]


def test_json_and_page(two_files, tmp_path, capsys):
    page = tmp_path / "diff.html"
    assert main(["compare", *two_files, "--json", "-o", str(page)]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["cause"]["kind"] == "random"
    assert told["same"] is False
    assert len(told["growth"]) == 3
    assert "<script" in page.read_text() and "http://" not in page.read_text().replace(
        "http://www.w3.org/2000/svg", ""
    )
    assert main(["compare", two_files[0], two_files[0]]) == 0
    assert main(["compare", *two_files, "-o", "diff.txt"]) == 2
    assert main(["compare", *two_files, "--rtol", "-1"]) == 2


def test_a_page_holds_any_text():
    def ops(run):
        exec(compile("tg.ones(2) * 2  # </script><b>{{data}}", "<x>.py", "exec"), {"tg": tg})

    run = in_memory(ops)
    page = render(compare(run, run))
    assert page.count("</script>") == 2
    json.dumps(as_data(compare(run, run)))


@pytest.mark.slow
def test_commands(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "import sys, torch\nx = torch.ones(3, requires_grad=True)\n"
        "for i in range(3):\n    y = torch.exp(x * 50 ** i)\n    y.sum().backward()\n"
        "print(sys.argv[1:])\n"
    )
    command = [sys.executable, "-m", "tapegrad"]
    paths = {**os.environ, "PYTHONPATH": str(Path(tg.__file__).parents[1])}

    def run(*args):
        return subprocess.run(
            [*command, *args], capture_output=True, text=True, cwd=tmp_path, env=paths
        )

    done = run("record", "-o", "run.tgr", "train.py", "--epochs", "1")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "['--epochs', '1']\n"
    assert "wrote run.tgr" in done.stderr
    done = run("record", "--until-nonfinite", "-o", "nan.tgr", "train.py")
    assert done.returncode == 1
    assert "the first infinity is made at step 0, in the forward pass, by exp" in done.stderr
    assert "train.py:4" in done.stderr
    done = run("replay-op", "nan.tgr")
    assert done.returncode == 0
    assert "tapegrad: float32[3] nothing finite, 0 NaN, 3 infinite" in done.stdout
    assert run("replay-op", "run.tgr").returncode == 2


def test_commands_that_cannot_run(tmp_path, capsys):
    for args in (
        ["record", "--every", "0", "x.py"],
        ["record", "--steps", "a:b", "x.py"],
        ["record", "--what", "x.py"],
        ["record", "-o"],
        ["record", "-o", str(tmp_path / "no" / "x.tgr"), "x.py"],
        ["replay-op", str(tmp_path / "absent.tgr")],
    ):
        assert main(args) == 2
        assert capsys.readouterr().err


# ---------------------------------------------------------------------- not finite, same


@pytest.mark.filterwarnings("ignore:overflow encountered")  # of NumPy, without kernels
def test_the_birth_of_nan_in_forward_backward_and_optimizer(tmp_path):
    def forward():
        for i in range(3):
            tg.log(tg.full((2,), 1.0 - 0.5 * i))

    birth = diagnose.first_nonfinite(forward)
    assert (birth.what, birth.op, birth.count) == ("infinity", "log", 2)
    assert birth.line.text == "tg.log(tg.full((2,), 1.0 - 0.5 * i))"

    def backward():
        x = tg.zeros(3, requires_grad=True)
        (tg.sqrt(x * 1.0) * 0).sum().backward()

    path = str(tmp_path / "b.tgr")
    birth = diagnose.first_nonfinite(backward, keep=path)
    assert (birth.what, birth.op, birth.phase) == ("NaN", "SqrtBackward0", "backward")
    assert "3 NaN" in replay(path)[-1]

    def optimizer():
        p = nn.Parameter(tg.ones(3))
        o = optim.SGD([p], lr=1e38)
        for _ in range(3):
            o.zero_grad()
            (p * 100).sum().backward()
            o.step()

    path = str(tmp_path / "o.tgr")
    birth = diagnose.first_nonfinite(optimizer, keep=path)
    assert (birth.what, birth.op, birth.phase) == ("infinity", "SGD.step", "optimizer")
    assert birth.line.text == "o.step()"
    assert "3 infinite" in replay(path)[-1]


def test_growth_of_what_led_there():
    def loop():
        w = nn.Parameter(tg.ones(3))
        o = optim.SGD([w], lr=1.0, maximize=True)
        for _ in range(20):
            o.zero_grad()
            tg.exp(w).sum().backward()
            o.step()

    birth = diagnose.first_nonfinite(loop)
    assert birth.op == "exp"
    sizes = [size for _, size in birth.history]
    assert len(sizes) > 2 and sizes == sorted(sizes)


def test_masks_of_infinity_are_no_birth():
    def attention():
        mask = tg.full((4, 4), float("-inf")).triu(1)
        scores = tg.zeros(4, 4).masked_fill(mask != 0, float("-inf"))
        return nn.functional.softmax(tg.randn(4, 4) + mask + scores, -1)

    assert diagnose.first_nonfinite(attention) is None

    def all_masked():
        return nn.functional.softmax(tg.full((4, 4), float("-inf")), -1)

    assert diagnose.first_nonfinite(all_masked).what == "NaN"
    with pytest.raises(NonfiniteError) as error:
        with diagnose.record(io.BytesIO(), until_nonfinite=True):
            all_masked()
    assert error.value.birth.op == "_softmax"
    with pytest.raises(TypeError, match="'f'"):
        diagnose.first_nonfinite(3)


def test_same():
    x = tg.randn(5)

    def f(x):
        return (tg.tanh(x) * 2).sum()

    def g(x):
        return (tg.tanh(x * 1.01) * 2).sum()

    diagnose.same(f, tg.compile(f), x)
    diagnose.same(lambda x: x + tg.rand(5), lambda x: x + tg.rand(5), x, rtol=0, atol=0)
    with pytest.raises(AssertionError, match="result 0 differs in 1 of 1") as error:
        diagnose.same(f, g, x)
    assert "mul exists in b only" in str(error.value)
    assert "return (tg.tanh(x * 1.01) * 2).sum()" in str(error.value)
    with pytest.raises(AssertionError, match="f returns 1 results, g returns 2"):
        diagnose.same(f, lambda x: (x, x), x)
    with pytest.raises(AssertionError, match="is torch.float32 .* of g"):
        diagnose.same(f, lambda x: f(x).double(), x)
    with pytest.raises(TypeError, match="'g'"):
        diagnose.same(f, None)
    with pytest.raises(ValueError, match="'rtol' and 'atol'"):
        diagnose.same(f, f, x, rtol=1.0)


def test_what_is_in_empty_memory_is_no_difference():
    def fill(junk):
        def run(_):
            weight = tg.ones(3, requires_grad=True)
            rows = tg.empty(4, 3)
            rows.detach().numpy()[:] = junk  # as the memory of an earlier tensor may be
            for i in range(4):
                rows[i] = tg.arange(3.0) * i
            order = tg.empty(4, dtype=tg.int64)
            order.numpy()[:] = junk
            order.scatter_(0, tg.tensor([2, 0, 3, 1]), tg.arange(4))
            (rows[order] * weight).sum().backward()

        return run

    found = compare(in_memory(fill(1)), in_memory(fill(2)))
    assert found.same, str(Text(found))


def test_memory_that_is_read_before_it_is_written_is_a_difference():
    def read(junk):
        def run(_):
            rows = tg.empty(4, 3)
            rows.numpy()[:] = junk
            rows[0] = 1.0
            rows.sum()

        return run

    found = compare(in_memory(read(1)), in_memory(read(2)))
    assert found.cause is not None and found.cause.a.name == "sum"


def test_a_missing_zero_grad_is_named(tmp_path):
    text = """
import torch
weight = torch.ones(3, requires_grad=True)
optimizer = torch.optim.Adam([weight], lr=0.1)
for step in range(3):
    (weight * torch.arange(3.0)).square().sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
    ours = recorded(text, tmp_path / "a.py")
    theirs = recorded(text.replace("    optimizer.zero_grad()\n", ""), tmp_path / "b.py")
    found = compare(ours, theirs)
    assert found.cause.lines()[0][1].text == "optimizer.zero_grad()"


def test_a_missing_create_graph_is_named(tmp_path):
    text = """
import torch
weight = torch.arange(3.0).requires_grad_()
for step in range(2):
    inner = (weight ** 3).sum()
    (slope,) = torch.autograd.grad(inner, weight, create_graph=True)
    (weight - 0.1 * slope).square().sum().backward()
"""
    ours = recorded(text, tmp_path / "a.py")
    theirs = recorded(text.replace(", create_graph=True", ""), tmp_path / "b.py")
    assert "create_graph=True" in compare(ours, theirs).cause.lines()[0][1].text


def test_ops_that_replace_each_other_at_the_end_do_not_agree():
    ours = in_memory(lambda _: tg.softmax(tg.arange(3.0), 0))
    theirs = in_memory(lambda _: tg.log_softmax(tg.arange(3.0), 0))
    told = str(Text(compare(ours, theirs)))
    assert "output 0 differs" in told and "agree nevertheless" not in told


def test_roundings_that_adam_makes_large_are_no_cause():
    def train(noise):
        def run(_):
            weight = tg.ones(4, requires_grad=True)
            optimizer = optim.Adam([weight], lr=0.1)
            for _ in range(2):
                optimizer.zero_grad()
                (weight * tg.tensor([1.0, 2.0, 3.0, noise])).sum().backward()
                optimizer.step()

        return run

    found = compare(in_memory(train(1e-7)), in_memory(train(-1e-7)), rtol=1e-5, atol=1e-5)
    assert found.cause is None and found.drift.kind == "drift"
    assert "all but zero" in str(Text(found))


def test_a_script_that_is_not_there_leaves_the_recording_alone(tmp_path, capsys):
    file = tmp_path / "run.tgr"
    file.write_bytes(b"kept")
    assert main(["record", "-o", str(file), str(tmp_path / "absent.py")]) == 2
    assert "absent.py: No such file" in capsys.readouterr().err
    assert file.read_bytes() == b"kept"


def test_a_range_without_steps_is_refused(tmp_path, capsys):
    script = tmp_path / "a.py"
    script.write_text("")
    assert main(["record", "--steps", "5:2", str(script)]) == 2
    assert "has no step" in capsys.readouterr().err


def test_nan_of_the_data_is_told_apart_from_one_that_a_node_makes():
    weight = tg.ones(2, requires_grad=True)
    data = tg.tensor([float("nan"), 1.0])
    birth = diagnose.first_nonfinite(lambda: (data * weight).sum().backward())
    assert birth.was_given and "came with the data" in str(birth)
    zero = tg.zeros(2, requires_grad=True)
    birth = diagnose.first_nonfinite(lambda: zero.sqrt().sum().backward())
    assert not birth.was_given


def test_an_option_is_named_although_the_first_steps_were_left_out():
    def train(rate):
        def run(_):
            weight = tg.ones(2, requires_grad=True)
            optimizer = optim.SGD([weight], lr=rate)
            for _ in range(4):
                optimizer.zero_grad()
                weight.square().sum().backward()
                optimizer.step()

        return run

    ours, theirs = [in_memory(train(rate), steps=range(2, 4)) for rate in (0.1, 0.2)]
    found = compare(ours, theirs)
    assert found.cause.step == 2
    assert [note.text for note in found.cause.notes[0]] == ["SGD(lr=0.1)", "SGD(lr=0.2)"]


def test_the_loader_that_shuffles_is_named(tmp_path):
    text = """
import torch
from torch import utils
torch.manual_seed(0)
data = utils.data.TensorDataset(torch.arange(8.0))
loader = utils.data.DataLoader(data, batch_size=2, shuffle=True)
for (x,) in loader:
    x.sum()
"""
    ours = recorded(text, tmp_path / "a.py")
    theirs = recorded(text.replace(", shuffle=True", ""), tmp_path / "b.py")
    assert "utils.data.DataLoader(" in compare(ours, theirs).cause.lines()[0][1].text
