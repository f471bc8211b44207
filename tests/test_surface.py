"""What the programs cannot show: processes, threads, files, timings, and what is not imported."""

from __future__ import annotations

import doctest
import gzip
import importlib
import inspect
import json
import pickle
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import tapegrad as torch
from tapegrad.core.base import STATE
from tapegrad.core.late_bound import AUTOCAST

# --- imports ---------------------------------------------------------------------------------


def test_importing_the_package_imports_none_of_this():
    code = (
        "import sys, tapegrad\n"
        "names = 'amp.autocast_mode amp.grad_scaler testing jit compiler distributed'\n"
        "names += ' multiprocessing overrides profiler types'\n"
        "names += ' settings symbolic cpu utils._pytree autograd.profiler backends.cuda datasets'\n"
        "print([n for n in names.split() if f'tapegrad.{n}' in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("function", "signature"),
    [
        (torch.cat, "(tensors, dim=0)"),
        (torch.add, "(input, other, *, alpha=1)"),
        (torch.Tensor.cumsum, "(input, dim, *, dtype=None)"),
    ],
)
def test_signatures_are_those_that_users_see(function, signature):
    assert str(inspect.signature(function)) == signature


def test_every_lazy_name_is_there():
    for name in torch._LAZY:
        if torch._LAZY[name] != "serialization":
            assert getattr(torch, name) is not None


def test_private_modules_that_programs_use_are_there_without_an_import():
    code = "import tapegrad\ntapegrad._utils._rebuild_tensor_v2, tapegrad._ops.OpOverload\n"
    subprocess.run([sys.executable, "-c", code], check=True)
    tensors = [torch.arange(4.0).view(2, 2), torch.zeros(0, 3), torch.ones(2)]
    flat = torch._utils._flatten_dense_tensors(tensors)
    assert flat.tolist() == [0, 1, 2, 3, 1, 1]
    parts = torch._utils._unflatten_dense_tensors(flat, tensors)
    assert [tuple(t.shape) for t in parts] == [(2, 2), (0, 3), (2,)]
    assert parts[0]._is_view() and torch.equal(parts[0], tensors[0])


def test_a_method_that_loads_its_family_runs_once():
    """A subclass's own method calls the one of Tensor, which is there only from then on."""
    code = (
        "import tapegrad\n"
        "class Loud(tapegrad.Tensor):\n"
        "    def resize_(self, *size):\n"
        "        print(size)\n"
        "        return super().resize_(*size)\n"
        "tapegrad.arange(6.0).as_subclass(Loud).resize_(2, 2)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "(2, 2)\n"


def test_unknown_names_are_refused():
    for module in (torch.backends, torch.cpu, torch.cuda, torch.autograd, torch.return_types):
        with pytest.raises(AttributeError):
            _ = module.no_such_name
    for name in ("package", "nested"):
        with pytest.raises(AttributeError):
            getattr(torch, name)


DOCUMENTED = """
    amp.autocast_mode amp.grad_scaler autograd.profiler compiler datasets nn.parallel.data_parallel
    overrides profiler.profiler api.settings testing._comparison testing._creation torch_version
    utils._pytree
""".split()


USED = "Tensor autograd bfloat16 equal float32 float64 no_grad ones tensor zeros".split()


@pytest.mark.filterwarnings("ignore::FutureWarning")  # old names have examples too
@pytest.mark.parametrize("name", DOCUMENTED)
def test_examples_run(name):
    module = importlib.import_module(f"tapegrad.{name}")
    names = {each: getattr(torch, each) for each in USED} | {"torch": torch, "tapegrad": torch}
    found = doctest.testmod(module, extraglobs=names | {"np": np})
    assert found.attempted and not found.failed


# --- autocast --------------------------------------------------------------------------------


def test_autocast_off_is_not_consulted(monkeypatch):
    def refuse(*args):
        raise AssertionError("autocast was asked")

    monkeypatch.setattr(AUTOCAST, "call", refuse)
    monkeypatch.setattr(AUTOCAST, "operands", refuse)
    a = torch.ones(2, 2)
    with torch.no_grad():
        _ = a @ a, torch.mm(a, a), torch.cat([a, a]), torch.nn.functional.mse_loss(a, a)
    assert STATE.casting == 0


def test_autocast_belongs_to_one_thread():
    found = []

    def elsewhere():
        a = torch.ones(2, 2)
        found.append([(a @ a).dtype, torch.nn.functional.linear(a, a).dtype])
        found.append(torch.is_autocast_enabled("cpu"))

    with torch.autocast("cpu"):
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
    assert found == [[torch.float32, torch.float32], False]


def test_autocast_leaves_no_trace():
    for _ in range(3):
        with torch.autocast("cpu"), torch.no_grad():
            _ = torch.ones(2, 2) @ torch.ones(2, 2)
    assert (STATE.modes_on, STATE.casting) == (0, 0)
    with pytest.raises(ValueError), torch.autocast("cpu"):
        raise ValueError
    assert (STATE.modes_on, STATE.casting) == (0, 0)


def test_nested_dtypes_do_not_share_casts():
    # PyTorch 2.13 keeps one cast per parameter, whatever its dtype: a float16 block leaves
    # float16 behind for the bfloat16 block around it. Here each gets its own.
    w = torch.ones(2, 2, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        with torch.autocast("cpu", dtype=torch.float16):
            assert (w @ w).dtype is torch.float16
        assert (w @ w).dtype is torch.bfloat16


def test_scalers_are_pickled():
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    scaler.scale(torch.ones(1))
    scaler.update(4.0)
    assert pickle.loads(pickle.dumps(scaler)).state_dict() == scaler.state_dict()


# --- profiler --------------------------------------------------------------------------------


def test_profile_measures_time():
    with torch.profiler.profile(record_shapes=True) as prof:
        with torch.profiler.record_function("nap"):
            time.sleep(0.02)
            x = torch.ones(4, 4, requires_grad=True)
            (x @ x).sum().backward()
    found = {event.key: event for event in prof.key_averages()}
    nap = found["nap"]
    assert 20_000 <= nap.cpu_time_total < 2_000_000
    inside = sum(e.cpu_time_total for name, e in found.items() if name != "nap")
    assert nap.self_cpu_time_total == pytest.approx(nap.cpu_time_total - inside)
    assert found["MmBackward0"].count == found["aten::mm"].count == 1
    by_shape = prof.key_averages(group_by_input_shape=True)
    assert [e.input_shapes for e in by_shape if e.key == "aten::mm"] == [[[4, 4], [4, 4]]]
    assert prof.events()[0].cpu_children[0].cpu_parent.name == "nap"


def test_profile_off_costs_nothing_and_leaves_nothing(monkeypatch):
    from tapegrad.autograd import profiler, watched

    with pytest.raises(RuntimeError), torch.autograd.profiler.profile() as prof:
        torch.mm(torch.ones(2, 3), torch.ones(2, 3))
    assert (STATE.timing, STATE.modes_on, watched.observers) == (0, 0, [])
    assert profiler.OPEN.frames == []
    count = len(prof.function_events)
    torch.ones(2).exp()
    with torch.profiler.record_function("nobody looks"):
        pass
    assert len(prof.function_events) == count
    assert profiler.OPEN.frames == []


def test_profile_survives_exceptions():
    with torch.autograd.profiler.profile() as prof:
        with pytest.raises(RuntimeError), torch.profiler.record_function("fails"):
            torch.ones(2).add(torch.ones(3))
        torch.ones(2).exp()
    names = [event.name for event in prof.function_events]
    assert names == ["fails", "aten::exp"]
    assert [e.cpu_parent for e in prof.function_events] == [None, None]


def test_profile_sees_other_threads():
    def work():
        torch.ones(2).exp()

    with torch.autograd.profiler.profile() as prof:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    (event,) = prof.function_events
    assert event.name == "aten::exp"
    assert event.thread != threading.get_ident()


def test_traces_are_written(tmp_path):
    with torch.profiler.profile(
        schedule=torch.profiler.schedule(wait=1, warmup=0, active=1, repeat=1),
        on_trace_ready=torch.profiler.tensorboard_trace_handler(str(tmp_path), "me"),
    ) as prof:
        for _ in range(3):
            torch.ones(2).exp()
            prof.step()
    (path,) = tmp_path.glob("me.*.pt.trace.json")
    names = [e["name"] for e in json.loads(path.read_text())["traceEvents"]]
    assert names == ["ProfilerStep#1", "aten::exp"]
    assert {e.key for e in prof.key_averages()} == {"ProfilerStep*", "aten::exp"}
    packed = tmp_path / "trace.json.gz"
    prof.export_chrome_trace(str(packed))
    assert json.loads(gzip.decompress(packed.read_bytes()))["traceEvents"][1]["dur"] > 0


def test_profiles_name_draws_and_steps_of_optimizers():
    w = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.1)
    with torch.profiler.profile(record_shapes=True) as prof:
        torch.rand(2), torch.randn(3), torch.randint(9, (2,)), torch.randperm(3)
        torch.empty(2).uniform_(), torch.empty(2).normal_(), torch.empty(2).exponential_()
        torch.multinomial(torch.ones(3), 2), torch.normal(0.0, 1.0, (2,))
        optimizer.zero_grad()
        w.sum().backward()
        optimizer.step()
    draws = "rand randn randint randperm uniform_ normal_ exponential_ multinomial normal".split()
    seen = [event.key for event in prof.events()]
    assert seen[:9] == [f"aten::{name}" for name in draws]
    assert {"Optimizer.zero_grad#SGD.zero_grad", "Optimizer.step#SGD.step"} <= set(seen)
    shapes = [event.input_shapes for event in prof.events()[4:7]]
    assert shapes == [[[2]], [[2]], [[2]]]
    with torch.profiler.profile() as prof, pytest.raises(RuntimeError):
        torch.empty(2).uniform_(2, 1)
    torch.rand(1)
    assert [event.key for event in prof.events()] == ["aten::uniform_"]


# --- processes -------------------------------------------------------------------------------


def writes(i, folder):
    (folder / str(i)).write_text(str(torch.ones(i + 1).sum().item()))


def fails(i):
    if i == 1:
        raise ValueError("no good")


def exits(i):
    sys.exit(7)


def test_spawn(tmp_path):
    assert torch.multiprocessing.spawn(writes, (tmp_path,), nprocs=2) is None
    assert [(tmp_path / str(i)).read_text() for i in range(2)] == ["1.0", "2.0"]


def test_spawn_reports_failures():
    with pytest.raises(torch.multiprocessing.ProcessRaisedException, match="no good") as caught:
        torch.multiprocessing.start_processes(fails, nprocs=2, start_method="fork")
    assert caught.value.error_index == 1
    assert "Process 1 terminated with the following error" in str(caught.value)
    context = torch.multiprocessing.start_processes(exits, join=False, start_method="fork")
    with pytest.raises(torch.multiprocessing.ProcessExitedException, match="exit code 7"):
        while not context.join():
            pass


# --- switches --------------------------------------------------------------------------------


def test_threads_of_the_blas_follow():
    from tapegrad.kernels.cpu.blas import blas_function

    ask = blas_function("get_num_threads")
    if ask is None:
        pytest.skip("NumPy uses another BLAS than OpenBLAS")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    assert ask() == 1
    torch.set_num_threads(before)
    assert ask() == before


def test_versions_are_pickled_and_hashed():
    version = torch.__version__
    assert pickle.loads(pickle.dumps(version)) == version
    assert {version: 1}[str(version)] == 1


# --- files for TensorBoard -------------------------------------------------------------------


def test_tensorboard_says_what_it_needs(monkeypatch):
    """What it writes is compared with what PyTorch writes in tests/parity/test_tensorboard.py."""
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    monkeypatch.delitem(sys.modules, "tapegrad.utils.tensorboard", raising=False)
    monkeypatch.delitem(vars(torch.utils), "tensorboard", raising=False)
    with pytest.raises(ModuleNotFoundError, match=r"(?s)^No module named 'tensorboard'\n.*pip ins"):
        _ = torch.utils.tensorboard


# --- data ------------------------------------------------------------------------------------


def test_moons():
    state = torch.get_rng_state()
    points, labels = torch.datasets.moons(101, noise=0.0)
    assert torch.equal(torch.get_rng_state(), state)
    assert (points.dtype, labels.dtype) == (torch.float32, torch.int64)
    assert labels.bincount().tolist() == [51, 50]
    upper, lower = points[labels == 0], points[labels == 1]
    torch.testing.assert_close(upper.norm(dim=1), torch.ones(51))
    torch.testing.assert_close((lower - torch.tensor([1.0, 0.5])).norm(dim=1), torch.ones(50))
    assert (upper[:, 1] >= -1e-6).all() and (lower[:, 1] <= 0.5 + 1e-6).all()
    again = torch.datasets.moons(50, noise=0.2, seed=4)[0]
    assert torch.equal(again, torch.datasets.moons(50, noise=0.2, seed=4)[0])
    assert not torch.equal(again, torch.datasets.moons(50, noise=0.2, seed=5)[0])


def test_spirals():
    points, labels = torch.datasets.spirals(100, classes=3, noise=0.0)
    assert labels.bincount().tolist() == [34, 33, 33]
    assert points.norm(dim=1).max() <= 1 + 1e-6
    assert points.shape == (100, 2)
    with pytest.raises(ValueError):
        torch.datasets.spirals(10, classes=0)
    with pytest.raises(ValueError):
        torch.datasets.moons(-1)


def test_text():
    text = torch.datasets.text()
    assert 20_000 < len(text) < 50_000
    poems = text.strip().split("\n\n")
    assert {len(poem.splitlines()) for poem in poems} == {14}
    assert len(set(poems)) == len(poems) == 46
    assert "Shall I compare thee to a summer's day?" in text


@pytest.mark.parametrize(
    "path, why, instead",
    [
        ("nested", "nested tensors", "one padded tensor with a mask"),
        ("sparse_bsr_tensor", "sparse tensors in blocks", "torch.sparse_csr_tensor"),
        ("quantize_per_tensor", "quantisation", "python -m tapegrad check"),
        ("optim.swap_in_optimizer_params_and_state", "not yet", "python -m tapegrad check"),
    ],
)
def test_a_name_that_pytorch_alone_has_is_told_so(path, why, instead):
    with pytest.raises(AttributeError) as caught:
        eval(f"torch.{path}", {"torch": torch})
    said = str(caught.value)
    assert f"PyTorch has it, tapegrad has not ({why})" in said
    assert instead in said and "did you mean" not in said


def test_what_answers_none_and_what_is_asked_nothing():
    torch.library.define("surface::same", "(Tensor x) -> Tensor")
    assert torch.library.impl("surface::same", "CPU", lambda x: x.clone()) is None
    assert torch.ops.surface.same(torch.ones(1)).tolist() == [1]
    assert torch.set_flush_denormal(False) and not torch.set_flush_denormal(True)
    assert not issubclass(torch.jit.Error, RuntimeError)
    ignored = torch.overrides.get_ignored_functions()
    assert {torch.zeros, torch.tensor, torch.manual_seed} <= ignored
    assert torch.zeros_like not in ignored and torch.add not in ignored
    asked = torch.overrides.get_overridable_functions()[torch]
    assert torch.add in asked and not ignored & set(asked)
    assert torch.zeros not in torch.overrides.get_testing_overrides()
