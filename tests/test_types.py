"""What type checkers see: the typed example is right, and slips are found."""

from __future__ import annotations

import json
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
TYPED = ROOT / "examples" / "basics" / "typed.py"
SEEN = """\
import tapegrad as torch
from tapegrad import nn

x = torch.ones(2)
reveal_type(x)
reveal_type(x.grad)
reveal_type(x.shape)
reveal_type(x.item())
reveal_type(nn.Linear(1, 2))
nn.Lineer(1, 2)
x.exq()
torch.zeros(3, dtyp=torch.float32)
reveal_type(nn.Linear(1, 2).weight)
reveal_type(x.max())
reveal_type(x.max(0).indices)
reveal_type(torch.sort(x))


@torch.no_grad()
def predict(scale: float) -> int:
    return round(scale)


@torch.compile
def step(scale: float) -> int:
    return round(scale)


reveal_type(predict(1.0))
reveal_type(step)
predict("1")
"""
pytestmark = pytest.mark.slow


def mypy(path: pathlib.Path) -> str:
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent"]
    cache = ["--config-file=", f"--cache-dir={path.parent / 'cache'}"]
    environment = {"MYPYPATH": str(ROOT / "src"), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [*command, *cache, str(path)], env=environment, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


def test_the_typed_example_under_mypy(tmp_path):
    pytest.importorskip("mypy")
    copy = shutil.copy(TYPED, tmp_path)
    assert "Success" in mypy(pathlib.Path(copy))


def test_what_mypy_sees(tmp_path):
    pytest.importorskip("mypy")
    path = tmp_path / "seen.py"
    path.write_text(SEEN)
    lines = mypy(path).splitlines()
    wanted = [
        '"tapegrad.api.tensor.tensor.Tensor"',
        "Tensor | None",
        "Size",
        "int | float",
        "nn.modules.linear.Linear",
        'no attribute "Lineer"',
        'no attribute "exq"',
        'Unexpected keyword argument "dtyp" for "zeros"',
        "nn.parameter.Parameter",
        "tensor.Tensor",
        "tensor.Tensor",
        "return_types.sort",
        'is "int"',
        "def (scale: float) -> int",
        'incompatible type "str"; expected "float"',
    ]
    found = [line for line in lines if ': note: "' not in line and not line.startswith("Found")]
    for line, part in zip(found, wanted, strict=True):
        assert part in line


def test_pyright(tmp_path):
    """The typed example is right in its strict mode, and it sees what mypy sees."""
    pytest.importorskip("pyright")
    shutil.copy(TYPED, tmp_path)
    (tmp_path / "seen.py").write_text(SEEN)
    config = {"extraPaths": [str(ROOT / "src")], "typeCheckingMode": "strict"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(config))
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run(
        [*command, "-p", str(tmp_path)], capture_output=True, text=True, check=False
    )
    found = json.loads(done.stdout)["generalDiagnostics"]
    assert [f for f in found if f["file"].endswith("typed.py")] == []
    lines = {f["range"]["start"]["line"] + 1: f["message"] for f in found}
    kinds = ["Tensor", "Tensor | None", "Size", "int | float | bool", "Linear"]
    for line, kind in enumerate(kinds, 5):
        assert lines[line].endswith(f'is "{kind}"')
    assert '"Lineer" is not a known attribute' in lines[10]
    assert 'Cannot access attribute "exq"' in lines[11]
    assert 'No parameter named "dtyp"' in lines[12]
    more = {13: "Parameter", 14: "Tensor", 15: "Tensor", 16: "sort", 29: "int"}
    for line, kind in more.items():
        assert lines[line].endswith(f'is "{kind}"')
    assert lines[30].endswith('is "(scale: float) -> int"')
    assert 'is not assignable to "float"' in lines[31]
