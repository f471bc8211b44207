"""Installs tapegrad into new environments, from the sdist and from a wheel, and tries it there.

    python setup.py -q sdist -d dist
    python tools/clean_installs.py dist/tapegrad-0.1.0.tar.gz --python python3.14
    python tools/clean_installs.py dist/tapegrad-0.1.0-cp311-*.whl --numpy 2.0.0

For each --python: a virtual environment in a new folder; `pip install` of the file (an sdist is
built with TAPEGRAD_PURE=0 unless --pure is given); then, from an empty folder: `python -m tapegrad
info`, a training step, a compiled function and tests of the suite. --wheels FOLDER keeps what an
sdist was built into, so that it can be tried again as a wheel. --record adds the results to the
evidence.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
from typing import Any

import evidence

ROOT = pathlib.Path(__file__).resolve().parents[1]
TESTS = (
    "test_engine.py test_programs.py test_kept.py test_native_core.py test_compile_sound.py".split()
)
STEP = """
import hashlib, tapegrad as torch
torch.set_num_threads(1)
torch.manual_seed(0)
x, wanted = torch.randn(64, 32), torch.randn(64, 1)
model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(x), wanted).backward()
    optimizer.step()
weights = b"".join([p.detach().numpy().tobytes() for p in model.parameters()])
print("bits", hashlib.sha256(weights).hexdigest()[:12])
"""
COMPILED = """
import tapegrad as torch
x = torch.randn(8, 8)
def step(w):
    (x @ w).tanh().square().mean().backward()
    return w.grad
compiled = torch.compile(step)
for _ in range(6):
    w = torch.ones(8, 8, requires_grad=True)
    answer = compiled(w)
plain = torch.ones(8, 8, requires_grad=True)
assert torch.equal(answer, step(plain))
print("compiled", "well")
"""


def run(command: list[Any], where: pathlib.Path, **environment: str) -> str:
    """What a command prints; it sees nothing of this tree."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "TAPEGRAD"))}
    done = subprocess.run(
        [str(word) for word in command],
        cwd=where,
        env=clean | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stdout[-3000:]}")
    return done.stdout


def environment(python: str, folder: pathlib.Path) -> pathlib.Path:
    """A new virtual environment's Python; pip comes from the one that runs this if need be."""
    if os.sep in python:
        python = os.path.abspath(python)
    made = [python, "-m", "venv", folder]
    if subprocess.run(made, capture_output=True).returncode:
        shutil.rmtree(folder, ignore_errors=True)
        run([python, "-m", "venv", "--without-pip", folder], folder.parent)
        run(
            [sys.executable, "-m", "pip", "--python", folder / "bin/python", "install", "pip"],
            folder,
        )
    return folder / "bin" / "python"


def try_it(
    file: pathlib.Path, python: str, numpy: str, pure: bool, wheels: pathlib.Path | None
) -> tuple[str, dict[str, Any]]:
    """What was tried, and what came of it."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        own = environment(python, folder / "venv")
        elsewhere = folder / "empty"
        elsewhere.mkdir()
        pip = [own, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        begin = time.monotonic()
        if file.suffix == ".gz" and wheels is not None:
            command = [own, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder / "wheels", file]
            run(command, elsewhere, TAPEGRAD_PURE="1" if pure else "0")
            built = next((folder / "wheels").glob("*.whl"))
            wheels.mkdir(exist_ok=True)
            shutil.copy(built, wheels)
            run([*pip, built], elsewhere)
        else:
            run([*pip, file], elsewhere, TAPEGRAD_PURE="1" if pure else "0")
        seconds = time.monotonic() - begin
        run([*pip, f"numpy=={numpy}" if numpy else "numpy", "pytest>=9", "hypothesis"], elsewhere)
        info = run([own, "-m", "tapegrad", "info"], elsewhere)
        step = run([own, "-W", "error", "-c", STEP], elsewhere)
        run([own, "-c", COMPILED], elsewhere)
        paths = [ROOT / "tests" / name for name in TESTS]
        options = ["-q", "-p", "no:cacheprovider", "-c", ROOT / "pyproject.toml"]
        options += ["--rootdir", ROOT, "-m", "not slow and not thorough"]
        tests = run([own, "-m", "pytest", *options, *paths], elsewhere)
        code = (
            "import sys, numpy, tapegrad as t; print(sys.version.split()[0], numpy.__version__, t)"
        )
        versions = run([own, "-c", code], elsewhere).split()
        assert str(folder) in versions[-1], versions  # not this tree
    kernels = info.partition("  kernels: ")[2].splitlines()[0]
    passed = re.search(r"(\d+) passed", tests)
    kind = "sdist" if file.suffix == ".gz" else "pure wheel" if "-none-" in file.name else "wheel"
    return f"{kind}, Python {versions[0]}, NumPy {versions[1]}", {
        "seconds to install": round(seconds),
        "kernels": kernels,
        "tests passed": int(passed[1]) if passed else 0,
        "bits of three steps": step.split()[-1],
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=pathlib.Path, help="an sdist or a wheel")
    parser.add_argument("--python", action="append", help="by default the one that runs this")
    parser.add_argument("--numpy", default="", help="a version; by default the newest")
    parser.add_argument("--pure", action="store_true", help="of an sdist, the pure build")
    parser.add_argument("--wheels", type=pathlib.Path, help="where to keep built wheels")
    parser.add_argument("--record", action="store_true", help="add the results to the evidence")
    parser.add_argument("--commit", default="", help="of which the file was made, for the record")
    given = parser.parse_args()
    for python in given.python or [sys.executable]:
        wheels = given.wheels and given.wheels.resolve()
        what, numbers = try_it(given.file.resolve(), python, given.numpy, given.pure, wheels)
        print(what, numbers, flush=True)
        if given.record:
            evidence.add("installs", what, numbers, at=given.commit)


if __name__ == "__main__":
    main()
