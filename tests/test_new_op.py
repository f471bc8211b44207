"""Adding an op is one edit: a block is put into a copy of the tree, and the table is run on it."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]
HOME = "src/tapegrad/ops/pointwise/transcendental.py"
BLOCK = '''

@op
class Bend(Elementwise):
    """bend(input) -> Tensor: `input ** 3 / (1 + input ** 2)`.

    >>> bend(tensor([0.0, 1.0, 2.0]))
    tensor([0.0000, 0.5000, 1.6000])
    """

    aten = None
    inplace_functions = ("bend_",)
    autocast = Autocast(cpu=SINGLE)

    def fwd(xp, input):
        return input * input * input / (1 + input * input)

    def d_input(F, grad, input):
        squared = input * input
        return grad * squared * (3 + squared) / ((1 + squared) * (1 + squared))
'''
# What the table asks of an op, by the names of the tests.
ASKED = """
    test_op_is_complete test_function_is_documented test_function_has_samples
    test_function_is_reachable test_example test_first_gradients test_second_gradients
    test_forward_mode_is_the_transpose test_in_place_form test_out_argument test_precision_is_kept
    test_memory test_batching test_batching_of_gradients
""".split()
FACTS = """
import numpy as np
import tapegrad as torch
from tapegrad._ops import overload_of
from tapegrad.core.op import REGISTRY
from tapegrad.diagnose import formulas

x = torch.linspace(-2, 2, 9, dtype=torch.float64, requires_grad=True)
values = x.detach().numpy()
assert np.allclose(torch.bend(x).detach().numpy(), values**3 / (1 + values**2))
assert torch.autograd.gradcheck(torch.bend, x) and torch.autograd.gradgradcheck(torch.bend, x)
assert torch.bend(x).grad_fn.name() == "BendBackward0"
assert torch.equal(torch.func.vmap(torch.bend)(x), x.bend())
assert torch.equal(torch.bend_(x.detach().clone()), x.bend())
assert str(overload_of(REGISTRY["bend"], (x,), ())) == "tapegrad.bend.default"
assert torch.equal(torch.ops.tapegrad.bend(x), x.bend())
assert "input ** 3" in torch.bend.__doc__ and "In-place" in torch.Tensor.bend_.__doc__
assert formulas.rule_text(REGISTRY["bend"], 0).startswith("d/d input = grad * (input * input)")
with torch.autocast("cpu"):
    assert torch.bend(torch.ones(2, dtype=torch.bfloat16)).dtype == torch.float32
print(torch.__file__)
"""


def run(tree: pathlib.Path, *arguments: str) -> str:
    """What Python prints with the copy's sources."""
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=tree, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A copy of the sources, in which one file has one block more."""
    copy = tmp_path_factory.mktemp("tree")
    for folder in ("src/tapegrad", "tools"):
        unneeded = shutil.ignore_patterns("__pycache__", "*.so", "*.pyd")
        shutil.copytree(ROOT / folder, copy / folder, ignore=unneeded)
    (copy / "docs").mkdir()
    (copy / "tests").mkdir()
    for name in ("table", "test_ops", "test_batching", "test_registry"):
        shutil.copy(ROOT / f"tests/{name}.py", copy / "tests")
    for path in ("pyproject.toml", "docs/operators.md"):
        shutil.copy(ROOT / path, copy / path)
    home = copy / HOME
    home.write_text(home.read_text() + BLOCK)
    return copy


def test_the_table_runs_on_it(tree):
    output = run(tree, "-m", "pytest", "-v", "-p", "no:cacheprovider", "-k", "bend", "tests")
    passed = set(re.findall(r"::(test_\w+)\[bend\] PASSED", output))
    assert passed >= set(ASKED)


def test_it_works_like_any_other(tree):
    assert run(tree, "-c", FACTS).startswith(str(tree))


def test_what_is_generated_follows(tree):
    written = run(tree, "tools/generate.py").split()[1::2]
    assert sorted(written) == [
        "docs/operators.md",
        "src/tapegrad/__init__.pyi",
        "src/tapegrad/api/tensor/tensor.pyi",
    ]
    for path in written:
        assert "bend" in (tree / path).read_text()
