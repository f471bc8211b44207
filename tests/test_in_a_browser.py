"""Pyodide's CPython, imitated: no threads, no processes, no `resource`, none of the kernels in C.

What is missing was read off Pyodide 314.0.7 (Python 3.14.2) under Node: `threading.Thread.start`
raises, `os.fork` fails, `multiprocessing` has no locks, `resource`, `pwd` and shared memory are
absent, integers of pointers have 32 bits (`make i386` tries those).
"""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
import tomllib

import pytest

PRELUDE = """
import multiprocessing.connection, os, sys, threading

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ABSENT:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

ABSENT = {"resource", "pwd", "readline", "_multiprocessing", "_posixshmem"} | set(sys.argv[1:])
for name in ABSENT:
    sys.modules.pop(name, None)
sys.modules.pop("multiprocessing.synchronize", None)
sys.meta_path.insert(0, Absent())

def no_thread(self, *args):
    raise RuntimeError("can't start new thread")

def no_fork():
    raise OSError(52, "Function not implemented")

threading.Thread.start = no_thread
os.fork = no_fork
os.cpu_count = lambda: 1
if hasattr(os, "sched_getaffinity"):
    del os.sched_getaffinity
import tapegrad as torch
"""

TRAINING = """
import io
from tapegrad import nn
from tapegrad.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(64, 5)
y = (x.sum(1, keepdim=True) > 0).float()
loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)
model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
losses = []
for _ in range(10):
    for inputs, wanted in loader:
        loss = nn.functional.binary_cross_entropy_with_logits(model(inputs), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    losses.append(loss.item())
assert losses[-1] < losses[0] / 2, losses
file = io.BytesIO()
torch.save(model.state_dict(), file)
file.seek(0)
model.load_state_dict(torch.load(file))
half = torch.compile(lambda t: (t * 2).exp().sum())
for _ in range(5):
    t = torch.ones(3, requires_grad=True)
    half(t).backward()
torch.set_num_threads(1)
assert torch.func.vmap(torch.func.grad(lambda t: (t**3).sum()))(x).allclose(3 * x * x)
assert torch.linalg.solve(torch.eye(3), torch.ones(3)).tolist() == [1, 1, 1]

class Countdown(torch.autograd.Function):  # a backward pass in each backward pass, 60 deep
    @staticmethod
    def forward(ctx, x):
        ctx.x = x.detach()
        return x.detach() - 1

    @staticmethod
    def backward(ctx, grad):
        if ctx.x > 0:
            with torch.enable_grad():
                Countdown.apply((ctx.x - 1).requires_grad_()).sum().backward()
        return ctx.x

deep = torch.tensor(60.0, requires_grad=True)
Countdown.apply(deep).backward()
assert deep.grad == 60
print(round(losses[-1], 4))
"""


def run(file: pathlib.Path, *absent: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "TAPEGRAD_NATIVE": "0"}
    command = [sys.executable, "-W", "error", str(file), *absent]
    return subprocess.run(command, capture_output=True, text=True, env=env, timeout=100)


@pytest.mark.parametrize("absent", [(), ("ml_dtypes",)])
def test_training(absent, tmp_path):
    """The same numbers as elsewhere; a file, since `compile` reads sources."""
    here, there = tmp_path / "here.py", tmp_path / "there.py"
    there.write_text(PRELUDE + TRAINING)
    here.write_text("import tapegrad as torch\n" + TRAINING)
    done = run(there, *absent)
    assert done.returncode == 0, done.stderr
    assert done.stdout == run(here).stdout


REFUSED = """
import warnings
from tapegrad.utils.data import DataLoader
warnings.simplefilter("ignore")  # PyTorch's, about more workers than cores
try:
    list(DataLoader(list(range(4)), num_workers=2))
except (RuntimeError, OSError, ImportError) as error:
    print(type(error).__name__)
try:
    torch.ones(2).bfloat16()
except RuntimeError as error:
    print(error)
"""


def test_refusals(tmp_path):
    """Worker processes and bfloat16 end in an error, at once."""
    file = tmp_path / "program.py"
    file.write_text(PRELUDE + REFUSED)
    done = run(file, "ml_dtypes")
    assert done.returncode == 0, done.stderr
    refused, missing = done.stdout.splitlines()
    assert refused in ("RuntimeError", "OSError", "ModuleNotFoundError")
    assert missing.startswith("torch.bfloat16 needs the package ml_dtypes")


@pytest.mark.parametrize(
    ("platform", "machine", "wanted"),
    [
        ("linux", "x86_64", ["numpy", "ml_dtypes"]),
        ("linux", "aarch64", ["numpy", "ml_dtypes"]),
        ("win32", "ARM64", ["numpy", "ml_dtypes"]),
        ("darwin", "arm64", ["numpy", "ml_dtypes"]),
        ("emscripten", "wasm32", ["numpy"]),
        ("linux", "i686", ["numpy"]),
        ("linux", "armv7l", ["numpy"]),
    ],
)
def test_what_pip_installs_with_it(platform, machine, wanted):
    """ml_dtypes only where it has wheels: no browser and no 32-bit system has a compiler for it."""
    requirements = pytest.importorskip("packaging.requirements")
    project = pathlib.Path(__file__).parents[1] / "pyproject.toml"
    found = [
        requirements.Requirement(d)
        for d in tomllib.loads(project.read_text())["project"]["dependencies"]
    ]
    here = {"sys_platform": platform, "platform_machine": machine}
    assert [r.name for r in found if r.marker is None or r.marker.evaluate(here)] == wanted


CORE = """
import pytest
options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not slow and not thorough"]
needs = ("thread", "stack", "deep_inside", "warnings_given", "engine_names-switches")
options += ["-k", " and ".join([f"not {name}" for name in needs])]
options += ["-c", sys.argv[1] + "/../pyproject.toml"]
files = [f"{sys.argv[1]}/{name}.py" for name in ("test_engine", "test_programs", "test_kept")]
sys.exit(pytest.main([*options, "--rootdir", sys.argv[1], *files]))
"""


@pytest.mark.thorough
def test_the_core_of_the_suite(tmp_path):
    """All but tests that start threads or workers, or go 150 backward passes deep."""
    file = tmp_path / "program.py"
    file.write_text(PRELUDE.replace(" | set(sys.argv[1:])", "") + CORE)
    env = {**os.environ, "TAPEGRAD_NATIVE": "0", "TAPEGRAD_PURE": "1"}
    command = [sys.executable, str(file), str(pathlib.Path(__file__).parent)]
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=tmp_path)
    failed = re.findall(r"^FAILED \S+::(\S+)(.*)", done.stdout, re.M)
    assert not failed and " passed" in done.stdout, (failed, done.stdout[-2000:])
