"""Optimizers' updates as formulas: the CUDA text, compiled as C++, steps as the update does."""

from __future__ import annotations

import ctypes
import pathlib
import re
import shutil
import subprocess
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad import optim
from tapegrad.expressions.cuda import FUNCTIONS
from tapegrad.expressions.updates import Branch, Factor, Leaf, Reading, Row, leaves, pruned
from tapegrad.kernels.cuda.programs import SOURCES
from tapegrad.kernels.cuda.update_sources import Update, switches
from tapegrad.optim._on_device import numbers_of

COMPILER = shutil.which("g++") or shutil.which("c++") or shutil.which("clang++")
CASES: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {}),
    ("SGD", {"momentum": 0.9, "dampening": 0.1, "weight_decay": 0.1}),
    ("SGD", {"momentum": 0.9, "nesterov": True, "maximize": True}),
    ("Adam", {}),
    ("Adam", {"amsgrad": True, "weight_decay": 0.1}),
    ("Adam", {"betas": (0.3, 0.9)}),
    ("AdamW", {"maximize": True}),
    ("Adamax", {"weight_decay": 0.1}),
    ("NAdam", {}),
    ("NAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RAdam", {"betas": (0.5, 0.7)}),
    ("RAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RMSprop", {"weight_decay": 0.1}),
    ("RMSprop", {"centered": True, "momentum": 0.5}),
    ("Adagrad", {"lr_decay": 0.1}),
    ("Adadelta", {"weight_decay": 0.1, "maximize": True}),
    ("Rprop", {}),
    ("ASGD", {"t0": 2}),
]
STEPS = 12
SHIM = r"""
#include <cmath>
#define __device__
#define __forceinline__ inline
#define TINY 0.0
using namespace std;
typedef double A;
inline A product(A a, A b) { return a * b; }
inline A toward(A a, A b, A weight) {
    return weight < 0.5 ? a + weight * (b - a) : b - (b - a) * (1 - weight);
}
"""


def fused_of(name: str) -> Any:
    module = name.lower().replace("adamw", "adam")
    return getattr(optim, module).FUSED


def update_of(name: str, group: dict[str, Any]) -> tuple[Any, Update, list[float]]:
    rule = fused_of(name)
    options = numbers_of(group, rule)
    assert options is not None
    present = tuple([row for row, option in rule.rows.items() if not option or group[option]])
    return rule, Update(rule, present, options), options


def helpers() -> str:
    """The functions of sources/optim.cu that the made text calls."""
    text = (SOURCES / "optim.cu").read_text()
    found = []
    for name in ("kept", "sign_of_product"):
        match = re.search(rf"__device__ __forceinline__ \w+ {name}\(.*?\n}}\n", text, re.DOTALL)
        assert match is not None
        found.append(match[0])
    return "".join(found)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Any:
    if COMPILER is None:
        pytest.skip("no C++ compiler")
    path: pathlib.Path = tmp_path_factory.mktemp("optimizers")
    parts = [SHIM, FUNCTIONS, helpers()]
    for i, (name, options) in enumerate(CASES):
        group = getattr(optim, name)([tg.zeros(1)], lr=0.05, **options).param_groups[0]
        rule, update, _ = update_of(name, group)
        rows = 2 + len(update.targets) - 1
        parts.append(
            f"namespace case{i} {{\n#undef ROWS\n#define ROWS {rows}\n"
            f"struct Numbers {{ double {', '.join(['lr', *rule.numbers])}; }};\n"
            f"struct Options {{ double {', '.join(rule.options)}; }};\n{update.text}}}\n"
            f'extern "C" void step{i}(double* rows, long n, double* numbers, '
            "const double* options) {\n"
            f"    using namespace case{i};\n"
            "    Numbers& now = *(Numbers*)numbers;\n"
            "    const Factors f = factors(now, *(const Options*)options, 0);\n"
            "    for (long i = 0; i < n; i++) {\n        A a[ROWS];\n"
            "        for (int r = 0; r < ROWS; r++) a[r] = rows[r * n + i];\n"
            "        element(f, a);\n"
            "        for (int r = 0; r < ROWS; r++) rows[r * n + i] = a[r];\n    }\n"
            "    advance(now, *(const Options*)options, 0);\n}\n"
        )
    source, made = path / "rules.cpp", path / "rules.so"
    source.write_text("".join(parts))
    flags = ["-O0", "-ffp-contract=off", "-shared", "-fPIC", "-w", "-std=c++14"]
    subprocess.run([COMPILER, *flags, str(source), "-o", str(made)], check=True)
    return ctypes.CDLL(str(made))


@pytest.mark.parametrize("case", range(len(CASES)), ids=[f"{n}-{o}" for n, o in CASES])
def test_the_cuda_text_steps_as_the_update(library: Any, case: int) -> None:
    name, options = CASES[case]
    rng = np.random.default_rng(case)
    begin = rng.standard_normal(40)
    with_float64 = tg.get_default_dtype()
    tg.set_default_dtype(tg.float64)  # so that the state keeps its numbers in double
    try:
        p = tg.tensor(begin.copy()).requires_grad_()
        optimizer = getattr(optim, name)([p], lr=0.05, foreach=False, **options)
        group = optimizer.param_groups[0]
        rule, update, numbers = update_of(name, group)
        present = list(update.targets)[1:]
        rows = np.zeros((2 + len(present), 40))
        rows[0] = begin
        now = np.array([0.05, *[1.0] * len(rule.numbers)])
        given = np.array(numbers)
        run = getattr(library, f"step{case}")
        for step in range(STEPS):
            grad = rng.standard_normal(40)
            grad[:2] = 0.0, -0.0
            p.grad = tg.tensor(grad)
            if step == 0:
                start = optimizer._rule.start
                first = start(p, group) if start else {}
                for i, row in enumerate(present):
                    rows[2 + i] = first[row].numpy() if row in first else 0.0
                for i, scalar in enumerate(rule.scalars):
                    now[1 + i] = first[scalar].item()
            optimizer.step()
            state = optimizer.state[p]
            rows[1] = grad
            pointers = [ctypes.c_void_p(x.ctypes.data) for x in (rows, now, given)]
            run(pointers[0], ctypes.c_long(40), *pointers[1:])
            close = {"rtol": 1e-11, "atol": 1e-13}
            np.testing.assert_allclose(rows[0], p.detach().numpy(), **close)
            for i, row in enumerate(present):
                np.testing.assert_allclose(rows[2 + i], state[row].numpy(), **close)
            for i, scalar in enumerate(rule.scalars):
                assert now[1 + i] == pytest.approx(state[scalar].item(), rel=1e-14)
    finally:
        tg.set_default_dtype(with_float64)


def test_both_ways_of_a_decision_are_followed() -> None:
    reading = Reading()
    a, b = reading.factor("a"), reading.factor("b")

    def run() -> Leaf:
        x = Row(reading, reading.input("x"))
        if a > 1:
            x.mul_(a)
            if a > 1:  # asked before: the answer is known
                x.add_(b)
        else:
            x.mul_(b)
        return Leaf({"x": x.expression}, {"a": a.expression})

    tree = reading.tree(run)
    assert isinstance(tree, Branch) and tree.test.name == "gt"
    assert [leaf.rows["x"].name for leaf in leaves(tree)] == ["add", "mul"]
    assert isinstance(pruned(tree, "scalars"), Leaf), "both ways leave the same number"


def test_what_is_known_is_not_asked() -> None:
    reading = Reading()
    reading.values = {"o.decay": 0.5}
    asked = reading.factor("o.decay") != 0
    assert isinstance(asked, Factor) and bool(asked)
    assert not reading.asked


def test_a_method_without_a_formula_is_named() -> None:
    reading = Reading()
    with pytest.raises(AttributeError, match=r"no formula for Tensor\.cosh_"):
        Row(reading, reading.input("x")).cosh_()


def test_kernels_depend_on_the_sides_of_options() -> None:
    assert switches([0.0, 0.9, -1.0, True]) == (0, 1, -1, 1)
