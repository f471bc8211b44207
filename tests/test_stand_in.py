"""tapegrad in place of an absent PyTorch: the pytest plugin, and TAPEGRAD_AS_TORCH."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import tapegrad

SOURCE = str(Path(tapegrad.__file__).parent.parent)
HAS_TORCH = (
    subprocess.run([sys.executable, "-c", "import torch"], capture_output=True).returncode == 0
)
pytestmark = pytest.mark.skipif(HAS_TORCH, reason="PyTorch is here: nothing stands in for it")

PROBE = """
    import importlib.util
    try:
        import torch
    except ImportError:
        torch = None
    spec = importlib.util.find_spec("torch")
    found = [torch is not None, spec is not None]
"""


def run(*args: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": f"{SOURCE}{os.pathsep}{cwd}", **environment}
    return subprocess.run(
        [sys.executable, *args], cwd=cwd, env=env, capture_output=True, text=True, timeout=120
    )


def write(path: Path, text: str) -> None:
    path.write_text(textwrap.dedent(text), encoding="utf-8")


def child(code: str, cwd: Path, says: str) -> str:
    """A Python in which tapegrad is installed: it reads the .pth file when it starts."""
    start = f"import site; site.addsitedir({SOURCE!r})\n"
    done = run("-c", start + textwrap.dedent(code), cwd=cwd, TAPEGRAD_AS_TORCH=says)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("workers", ["0", pytest.param("2", marks=pytest.mark.slow)])
def test_a_test_run_with_the_plugin(workers, tmp_path):
    """In one process, and with pytest-xdist, whose main process writes the summary."""
    (tmp_path / "tests").mkdir()
    write(tmp_path / "probing.py", PROBE)
    write(tmp_path / "scoped.py", PROBE)
    write(
        tmp_path / "pyproject.toml",
        """
        [tool.pytest.ini_options]
        addopts = ["-p", "tapegrad.stand_in", "-p", "no:cacheprovider", "-q", "--tb=no"]
        stand_in_not_for = ["probing"]
        """,
    )
    write(
        tmp_path / "tests" / "test_it.py",
        """
        import os
        import pytest
        torch = pytest.importorskip("torch")
        import probing, scoped

        def test_answered():
            assert torch.ones(3).sum().item() == 3 and scoped.found == [True, True]
            assert os.environ["TAPEGRAD_AS_TORCH"] == "not_for=probing"
        def test_a_package_left_out():
            assert probing.found == [False, False]
        def test_function(): torch.nonesuch(3)
        def test_function_again(): torch.nonesuch(4)
        def test_module(): import torch.nonesuch.deeper
        def test_method(): torch.ones(3).nonesuch()
        def test_name(): from torch.nn import Nonesuch
        def test_own_error(): [].nonesuch
        def test_guarded():
            try:
                import torch.maybe
            except ImportError:
                pass
        """,
    )
    done = run("-m", "pytest", "-n", workers, cwd=tmp_path)
    assert "3 passed" in done.stdout and "6 failed" in done.stdout, done.stdout
    told = [line[9:] for line in done.stdout.splitlines() if line.startswith("missing: ")]
    at = "(tests/test_it.py::test_"
    if workers != "0":  # which test comes first is up to the workers
        assert told[0].startswith("torch.nonesuch (tests/") and told[0].endswith(" and 2 more)")
        told[0] = f"torch.nonesuch {at}function and 2 more)"
    assert told == [
        f"torch.nonesuch {at}function and 2 more)",
        f"Tensor.nonesuch {at}method)",
        f"torch.nn.Nonesuch {at}name)",
        "torch.maybe (imported, and done without)",
    ]

    write(tmp_path / "tests" / "test_it.py", "def test_fine(): import torch; torch.ones(1)\n")
    done = run("-m", "pytest", cwd=tmp_path)
    assert "nothing that the tests asked torch for was missing" in done.stdout


def test_the_plugin_does_nothing_beside_pytorch(tmp_path):
    (tmp_path / "torch").mkdir()
    write(tmp_path / "torch" / "__init__.py", "its_own = True")
    write(tmp_path / "test_it.py", "import torch\ndef test_it(): assert torch.its_own")
    done = run("-m", "pytest", "-p", "tapegrad.stand_in", cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    assert "torch: PyTorch of unknown version itself" in done.stdout
    assert child("import torch; print(torch.its_own)", tmp_path, "1") == "True"


def test_only_some_packages(tmp_path):
    write(tmp_path / "probing.py", PROBE)
    write(tmp_path / "scoped.py", PROBE)
    code = """
        import probing, scoped, sys
        print(probing.found, scoped.found, 'torch' in sys.modules)
        import importlib, torch.nn
        print(torch.nn.Linear(2, 1).bias.shape, importlib.import_module('torch.nn') is torch.nn)
    """
    lines = child(code, tmp_path, "only=scoped").splitlines()
    assert lines == ["[False, False] [True, True] True", "torch.Size([1]) True"]


def test_the_variable(tmp_path):
    asked = """
        import sys
        before = 'numpy' in sys.modules, 'tapegrad' in sys.modules
        from importlib.metadata import version
        import importlib.util
        print(*before, importlib.util.find_spec('torch') is not None)
        import torch.nn.functional as F, torch
        print(version('torch') == torch.__version__, F.relu(torch.tensor(-1.0)).item(), torch.nn)
    """
    first, second = child(asked, tmp_path, "1").splitlines()
    assert first == "False False True" and second.startswith("True 0.0 <module 'tapegrad.nn'")
    absent = "import importlib.util; print(importlib.util.find_spec('torch'))"
    assert child(absent, tmp_path, "0") == child(absent, tmp_path, "") == "None"
    done = run(
        "-c", f"import site; site.addsitedir({SOURCE!r})", cwd=tmp_path, TAPEGRAD_AS_TORCH="x"
    )
    assert done.returncode == 0 and "'only=a,b;not_for=c'" in done.stderr
