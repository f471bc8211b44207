"""The examples for beginners, the plots and the notebooks.

What the basics print is compared with what PyTorch 2.13 prints for them, which is recorded in
tests/basics (`python examples/basics/NAME.py > tests/basics/NAME.expected`). The plots and the
notebooks need matplotlib and a kernel: they run in `make docs`.
"""

from __future__ import annotations

import ast
import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"
OWN = {"typed"}  # written for tapegrad's types
BASICS = sorted(p.stem for p in (EXAMPLES / "basics").glob("*.py") if p.stem not in OWN)
PLOTS = sorted(p.stem for p in (EXAMPLES / "plots").glob("*.py") if p.stem != "picture")
NOTEBOOKS = sorted((EXAMPLES / "notebooks").glob("*.ipynb"))


def run(*command: str) -> str:
    environment = os.environ | {"PYTHONIOENCODING": "utf-8", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "tapegrad", "run", *command],
        env=environment, capture_output=True, encoding="utf-8", check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize("name", BASICS)
def test_the_basics_print_what_pytorch_prints(name):
    expected = (ROOT / "tests" / "basics" / f"{name}.expected").read_text(encoding="utf-8")
    assert run(str(EXAMPLES / "basics" / f"{name}.py")) == expected


def test_every_basic_has_an_expectation():
    assert {p.stem for p in (ROOT / "tests" / "basics").glob("*.expected")} == set(BASICS)


def test_the_typed_example_learns():
    first, _, last = run(str(EXAMPLES / "basics" / "typed.py")).split(",")[0].split()
    assert float(last) < 0.1 * float(first)


@pytest.mark.parametrize("name", PLOTS)
def test_plots_are_plain_pytorch(name):
    tree = ast.parse((EXAMPLES / "plots" / f"{name}.py").read_text(encoding="utf-8"))
    imported = {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    imported |= {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    assert {i.split(".")[0] for i in imported} <= {"torch", "math", "matplotlib", "picture"}


@pytest.mark.slow
@pytest.mark.parametrize("name", PLOTS)
def test_a_plot(name, tmp_path):
    pytest.importorskip("matplotlib")
    picture = tmp_path / "picture.png"
    printed = run(str(EXAMPLES / "plots" / f"{name}.py"), "--steps", "40", "--out", str(picture))
    assert printed.endswith(f"written: {picture}\n")
    assert picture.read_bytes()[:4] == b"\x89PNG"
    assert picture.stat().st_size > 10_000


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_notebook(path):
    """Every cell runs in a kernel; the notebooks assert what they claim."""
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    book = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(book, timeout=120, kernel_name="python3").execute()
    assert all(cell.execution_count for cell in book.cells if cell.cell_type == "code")


def test_notebooks_are_kept_without_output():

    for path in NOTEBOOKS:
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            assert not cell.get("outputs"), path
    assert len(NOTEBOOKS) == 3


def test_errors_in_a_notebook():
    """A real shell: the cell is named, and the frames of the package are left out."""
    pytest.importorskip("IPython")
    cells = [
        "import tapegrad as torch",
        "x = torch.ones(3, requires_grad=True)\ny = x.exp()\ny.add_(1)",
        "y.sum().backward()",
    ]
    program = "from IPython.core.interactiveshell import InteractiveShell\n"
    program += "shell = InteractiveShell.instance(colors='nocolor')\n"
    program += f"for cell in {cells!r}: shell.run_cell(cell, store_history=True)\n"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    said = done.stdout + done.stderr
    assert "written: by add_ (version 0 -> 1) at In [2], line 3:  y.add_(1)" in said
    assert "tensor:  `y`, shape (3,)" in said
    assert "core/node.py" not in said and "frames inside tapegrad left out" in said
