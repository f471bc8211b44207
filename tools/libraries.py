"""Other people's libraries, on tapegrad and on PyTorch: `make libraries` writes docs/libraries.md.

Each package of PACKAGES is installed without PyTorch; a small program (tests/libraries) runs with
`python -m tapegrad run` and, where there is a Python with PyTorch, with that. Both have to print
the same: numbers within 1 part in 1000 (five digits are printed), everything else to the letter.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import evidence

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = ROOT / "tests" / "libraries"
PAGE = ROOT / "docs" / "libraries.md"
TOLERANCE = 1e-3

# The program, and what pip is asked for. torchvision belongs to a version of PyTorch.
PACKAGES = {
    "transformers": "transformers",
    "safetensors": "safetensors",
    "accelerate": "accelerate",
    "peft": "peft",
    "sentence_transformers": "sentence-transformers",
    "timm": "timm",
    "torchvision": "torchvision==0.28.0",
    "lightning": "lightning",
    "torchmetrics": "torchmetrics",
    "einops": "einops",
    "skorch": "skorch",
    "stable_baselines3": "stable-baselines3",
    "gpytorch": "gpytorch",
    "pyro": "pyro-ppl",
    "torchdiffeq": "torchdiffeq",
    "torchsde": "torchsde",
    "torchinfo": "torchinfo",
    "torchviz": "torchviz",
    "tensordict": "tensordict",
    "e3nn": "e3nn",
    "botorch": "botorch",
    "kornia": "kornia",
    "captum": "captum",
    "torch_geometric": "torch-geometric",
    "ignite": "pytorch-ignite",
    "fvcore": "fvcore",
    "diffusers": "diffusers",
    "higher": "higher",
    "monai": "monai",
    "open_clip": "open-clip-torch",
    "x_transformers": "x-transformers",
    "pytorch_optimizer": "pytorch-optimizer",
    "torchcde": "torchcde",
    "geomloss": "geomloss",
    "pytorch_metric_learning": "pytorch-metric-learning",
    "segmentation_models_pytorch": "segmentation-models-pytorch",
    "opacus": "opacus",
    "backpack": "backpack-for-pytorch",
    "vector_quantize_pytorch": "vector-quantize-pytorch",
    "nflows": "nflows",
}
# A part that installs and runs in a minute or two, for CI.
QUICK = ("einops", "safetensors", "torchdiffeq", "torchinfo", "torchviz", "geomloss")
# pip is told that these are there: nothing of them is wanted.
PRETENDED = {"torch": "2.13.0", "triton": "3.7.0"}


@dataclass
class Row:
    """One line of the table."""

    package: str
    version: str
    runs: bool
    equal: bool | None  # None: not compared
    seconds: float
    reason: str = ""


def pretend(site: Path, there: bool) -> None:
    """Metadata of PyTorch, so that pip does not install it; taken away again afterwards."""
    for name, version in PRETENDED.items():
        folder = site / f"{name}-{version}.dist-info"
        if not there:
            shutil.rmtree(folder, ignore_errors=True)
            continue
        folder.mkdir(exist_ok=True)
        (folder / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )
        (folder / "INSTALLER").write_text("pip\n")
        (folder / "RECORD").write_text("")


def site_packages(python: Path) -> Path:
    code = "import sysconfig; print(sysconfig.get_paths()['purelib'])"
    return Path(subprocess.check_output([python, "-c", code], text=True).strip())


def install(python: Path, names: list[str]) -> None:
    site = site_packages(python)
    pretend(site, True)
    try:
        wanted = ["numpy>=2", "ml_dtypes", *(PACKAGES[name] for name in names)]
        if subprocess.run([python, "-m", "pip", "install", "-qq", *wanted], check=False).returncode:
            print("pip could not install all of them", file=sys.stderr)
    finally:
        pretend(site, False)


def version_of(python: Path, name: str) -> str:
    code = f"import importlib.metadata as m; print(m.version({name!r}))"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "not installed"


def run(command: list[object], environment: dict[str, str]) -> tuple[int, str, str, float]:
    start = time.perf_counter()
    try:
        done = subprocess.run(
            [str(part) for part in command],
            env=os.environ | environment | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "2"},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return 1, "", "took more than 600 seconds", 600.0
    return done.returncode, done.stdout, done.stderr, time.perf_counter() - start


NUMBER = re.compile(r"-?\d+\.?\d*(?:e[+-]?\d+)?|-?inf|nan")


def difference(ours: str, theirs: str) -> str:
    """The first line that is not the same, or nothing."""
    left, right = ours.splitlines(), theirs.splitlines()
    for a, b in zip(left, right, strict=False):
        if NUMBER.sub("#", a) != NUMBER.sub("#", b):
            return f"{a!r} instead of {b!r}"
        for x, y in zip(NUMBER.findall(a), NUMBER.findall(b), strict=True):
            if x != y and not math.isclose(float(x), float(y), rel_tol=TOLERANCE, abs_tol=1e-6):
                return f"{a!r} instead of {b!r}"
    return "" if len(left) == len(right) else f"{len(left)} lines instead of {len(right)}"


def measure(name: str, python: Path, oracle: Path | None) -> Row:
    package = PACKAGES[name].partition("==")[0]
    program = PROGRAMS / f"use_{name}.py"
    site = site_packages(python)
    version = version_of(python, package)
    ours = {"PYTHONPATH": str(ROOT / "src")}
    code, out, err, seconds = run([python, "-m", "tapegrad", "run", program], ours)
    if code:
        return Row(package, version, False, None, seconds, (err.strip().splitlines() or ["?"])[-1])
    if oracle is None:
        return Row(package, version, True, None, seconds)
    code, expected, err, _ = run([oracle, program], {"PYTHONPATH": str(site)})
    if code:
        last = (err.strip().splitlines() or ["?"])[-1]
        return Row(package, version, True, None, seconds, f"PyTorch: {last}")
    reason = difference(out, expected)
    return Row(package, version, True, not reason, seconds, reason)


SAID = {True: "yes", False: "no", None: "–"}


def page(rows: list[Row]) -> str:
    compared = [row for row in rows if row.equal is not None]
    lines = [
        "# Other people's libraries",
        "",
        "Written by `make libraries` (tools/libraries.py): each package is installed as pip finds",
        "it, without PyTorch, and a small program of tests/libraries runs with",
        "`python -m tapegrad run` and with PyTorch 2.13. *Equal*: both print the same, numbers",
        "within 1 part in 1000.",
        "`python -m tapegrad check PACKAGE` says in advance what an installed package would miss.",
        "",
        f"{sum(row.runs for row in rows)} of {len(rows)} packages run; of {len(compared)} that "
        f"were compared, {sum(bool(row.equal) for row in compared)} print PyTorch's numbers.",
        "",
        "| package | version | runs | equal | seconds |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        lines.append(
            f"| {row.package} | {row.version} | {SAID[row.runs]} | {SAID[row.equal]} | "
            f"{row.seconds:.0f} |"
        )
    wrong = [row for row in rows if row.reason]
    if wrong:
        lines += ["", "What stops or differs:", ""]
        lines += [f"- **{row.package}**: `{row.reason[:300]}`" for row in wrong]
    return "\n".join(lines) + "\n"


def rows_of_page() -> dict[str, Row]:
    """What the page says already, by package; reasons are not read back."""
    found = {}
    lines = PAGE.read_text(encoding="utf-8").splitlines() if PAGE.exists() else []
    for line in lines:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 5 and cells[4].isdigit():
            equal = {said: value for value, said in SAID.items()}[cells[3]]
            found[cells[0]] = Row(cells[0], cells[1], cells[2] == "yes", equal, float(cells[4]))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="PROGRAM", help="which ones; all by default")
    parser.add_argument("--quick", action="store_true", help="only the part that CI runs")
    parser.add_argument("--python", type=Path, default=Path(sys.executable), help="a venv's Python")
    parser.add_argument("--oracle", type=Path, help="a Python with PyTorch")
    parser.add_argument("--install", action="store_true", help="install the packages first")
    parser.add_argument("--write", action="store_true", help="write docs/libraries.md")
    parser.add_argument("--record", action="store_true", help="add the counts to docs/evidence")
    options = parser.parse_args()
    names = options.names or (list(QUICK) if options.quick else list(PACKAGES))
    python = Path(os.path.abspath(options.python))
    oracle = Path(os.path.abspath(options.oracle)) if options.oracle else None
    if options.install:
        install(python, names)
    rows = []
    for name in names:
        row = measure(name, python, oracle)
        rows.append(row)
        print(
            f"{row.package:22} {row.version:14} runs {SAID[row.runs]:4} equal {SAID[row.equal]:4} "
            f"{row.seconds:6.1f} s  {row.reason[:200]}",
            flush=True,
        )
    if options.record:
        numbers = {"packages": len(rows), "run": sum([bool(row.runs) for row in rows])}
        numbers["equal"] = sum([row.equal is True for row in rows])
        what = "packages made for PyTorch"
        evidence.add("packages", what if len(rows) == len(PACKAGES) else f"{what}, a part", numbers)
    if options.write:
        # Of the packages that were not asked for, what the page has stays.
        known = rows_of_page() | {row.package: row for row in rows}
        order = [package.partition("==")[0] for package in PACKAGES.values()]
        written = [known[package] for package in order if package in known]
        PAGE.write_text(page(written), encoding="utf-8")
    return 0 if all(row.runs and row.equal is not False for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
