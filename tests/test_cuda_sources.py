"""The CUDA sources: that each of them compiles, with what the launchers define before it.

No GPU is needed, only nvcc. Functions that are made from formulas (`formula.cu`, `joined.cu`) are
made here as the launchers make them.
"""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess
from typing import Any, NamedTuple

import numpy as np
import pytest

from tapegrad import optim as optimizers
from tapegrad.core.op import REGISTRY
from tapegrad.kernels.cuda import join_sources, programs
from tapegrad.kernels.cuda.formulas import ARRAY, functions, of_forward
from tapegrad.kernels.cuda.launchers import attention, folds, optim, recurrent
from tapegrad.kernels.cuda.programs import SOURCES, formula_file

NVCC = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
F32 = np.dtype(np.float32)
FLOATS = ("float32", "float64", "float16", "bfloat16")


class Form(NamedTuple):
    """A program as a launcher compiles it."""

    source: str
    dtype: str
    words: dict[str, Any] = {}
    made: dict[str, str] = {}


def formula(op: str, arrays: int, *attrs: Any) -> Any:
    found = of_forward(REGISTRY[op]).of(F32, (ARRAY,) * arrays + attrs)[0]
    assert found is not None
    return found


def elementwise(name: str, count: int) -> list[Form]:
    letters = "abcd"[:count]
    parameters = ", ".join([f"A {x}" for x in letters])
    text = f"__device__ __forceinline__ A formula({parameters}, A s) {{ return a + s; }}\n"
    made = formula_file(text, "s")
    return [
        Form("elementwise.cu", kind, {name.upper(): 1, "ONCE": i % 2}, made)
        for i, kind in enumerate(FLOATS)
    ]


def gate_functions() -> str:
    from tapegrad.ops.nn.leaky_activations import PreluKernelBackward
    from tapegrad.ops.nn.piecewise_linear import gate_slopes, gated

    text = functions(gated, ["gated"]) + functions(gate_slopes, ["glu_first", "glu_second"])
    return text + functions(PreluKernelBackward.forward, ["prelu_input", "prelu_weight"])


def norm_forms() -> list[Form]:
    relu, mul = formula("relu", 1), formula("mul", 2)
    joined = [
        "",
        join_sources.tail([(relu, [True]), (mul, [True, False]), (None, [])]),
        join_sources.pull([relu], mul),
    ]
    found = []
    for kind in FLOATS:
        words = {"P_DTYPE": "float32" if kind != "float64" else kind, "WIDE": 4}
        words["S_DTYPE"] = words["P_DTYPE"]
        for text in joined:
            for name in ("sets", "columns"):
                found.append(Form(f"norm_{name}.cu", kind, words, {"joined.cu": text}))
        found.append(Form("norm_follow.cu", kind, words))
        found.append(Form("rms.cu", kind, {"WIDE": 4, "HELD": 2}))
    return found


def optimizer_forms() -> list[Form]:
    found = []
    for name in "adadelta adagrad adam adamax asgd nadam radam rmsprop rprop sgd".split():
        rule = getattr(optimizers, name).FUSED
        for kind in FLOATS:
            for on in (0.0, 0.5):
                rows = tuple([row for row, option in rule.rows.items() if on or not option])
                made = optim.FusedRule(Compiling(), rule, kind, rows, numbers(rule, on))
                found.append(Form("optim.cu", kind, made.words, made.made))
    return found


def numbers(rule: Any, value: float) -> list[float]:
    """The same number for all options of an optimizer."""
    return [value] * sum([int(name[:-1].partition("[")[2] or 1) for name in rule.options])


class Compiling:
    """In the place of a GPU: nothing is compiled, nothing is started."""

    def __init__(self) -> None:
        self.xp = self
        self.RawKernel = lambda *args, **kwargs: None


def forms() -> list[Form]:
    mean = "__device__ __forceinline__ A summed(A a, A x, A c, A d) { return x; }\n" + (
        "__device__ __forceinline__ A formula(A a, A x, A c, A d, A m, A s) { return a * m * s; }\n"
    )
    listed = [
        *[Form("moves.cu", kind, {"ACCUMULATE": 1}) for kind in FLOATS],
        *[Form("moves.cu", kind, {"COPIES": 1, "GIVEN_DTYPE": "float16"}) for kind in FLOATS],
        *[
            Form("moves.cu", f"raw{n}", {"COPIES": 1, "GIVEN_DTYPE": f"raw{n}"})
            for n in (1, 2, 4, 8, 16)
        ],
        *[Form("moves.cu", k, {"CASTS": 1, "GIVEN_DTYPE": "bool", "LIMIT": 160}) for k in FLOATS],
        *[Form("moves.cu", f"raw{n}", {"JOIN": 1, "LIMIT": 16}) for n in (1, 2, 4, 8, 16)],
        *[Form(f"{n}.cu", kind) for n in ("sums", "rows", "gather") for kind in FLOATS[:2]],
        *[Form("integers.cu", kind) for kind in ("index64", "index32")],
        *[Form("folds.cu", "float32", words) for words in folds.KINDS.values()],
        *[
            Form("fold_gradients.cu", kind, {"SUMS": sums}, formula_file(mean, "s"))
            for kind in FLOATS
            for sums in (0, 1)
        ],
        *elementwise("unary", 1),
        *elementwise("binary", 2),
        *elementwise("ternary", 3),
        *elementwise("spread", 2),
        *elementwise("total", 2),
        *elementwise("weights", 3),
        *elementwise("weighted", 3),
        *elementwise("weighed", 4),
        *[Form("moves.cu", k, {"CHOICE": 1, "DOES(m, a, b, s)": "(m ? a : s)"}) for k in FLOATS],
        *[Form("gates.cu", k, {}, formula_file(gate_functions())) for k in FLOATS],
        Form(
            "elementwise.cu",
            "float32",
            {"MIXED": 1, "X_DTYPE": "bfloat16", "Y_DTYPE": "float32"},
            formula_file(formula("mul", 2).text),
        ),
        *[Form(f"{n}.cu", k) for n in ("conv", "resize") for k in FLOATS],
        *[Form("pools.cu", k, {"ADAPTIVE": i}) for i in (0, 1) for k in FLOATS[:3]],
        *[
            Form("depthwise.cu", k, {"KY": 3, "KX": 3, "SY": s, "SX": s, "DOWN": 4})
            for k in FLOATS
            for s in (1, 2)
        ],
        *[
            Form(
                "implicit.cu",
                "float32",
                {"BM": 64, "BN": 128, "DOWN": 2, "STAGES": 3}
                | {"AT_ONCE": 1, "BACK": back, "FULL": full},
            )
            for back in (0, 1)
            for full in (0, 1)
        ],
        Form("hopper.cu", "float32", {"PLACES": 1, "BN": 128, "GROUPS": 2, "PITCH": 72}),
        Form("hopper.cu", "float32", {"WEIGHTS": 1, "BQ": 64, "PITCH": 72}),
        *[
            Form("philox.cu", k, {part: 1, "SIDE": 1})
            for part in ("WORDS", "FLOATS", "DROPOUT")
            for k in FLOATS
        ],
        *[
            Form("rejection.cu", k, {part: 1})
            for part in ("POISSON", "GAMMA", "BINOMIAL", "SLOPES")
            for k in FLOATS
        ],
        *norm_forms(),
        *[
            Form(
                "product.cu",
                "float32",
                {"BM": 64, "BN": 64, "MIN_BLOCKS": 2, "STAGES": 3, "TOGETHER": 1}
                | {"A_ALONG_K": along, "B_ALONG_K": 1 - along},
            )
            for along in (0, 1)
        ],
        *[
            Form("attention.cu", kind, attention.words_for(kind, width))
            for kind in attention.CODES
            for width in attention.SIZES
        ],
        *[
            Form(
                "recurrent.cu",
                dtype,
                {"KIND": kind, "GATES": recurrent.GATES[kind], "U": 2, "UNITS": 4, "LONG": 64}
                | {"LONG_BACK": recurrent.LONG_BACK},
                formula_file(functions(REGISTRY["sigmoid"].forward, ["logistic"])),
            )
            for kind in range(4)
            for dtype in ("float32", "float16")
        ],
        *optimizer_forms(),
        *[
            Form("gradients.cu", "float32", {"NORMS": 1, "LIMIT": 190, **words})
            for words in optim.ORDERS.values()
        ],
        *[Form("gradients.cu", kind, {"CHANGES": 1, "LIMIT": 190}) for kind in FLOATS],
        *[
            Form("matrices.cu", kind, {part: 1, "LIMIT": 50, "LINE": 1024})
            for part in ("ADAFACTOR", "MUON")
            for kind in FLOATS
        ],
    ]
    return listed


def by_source() -> dict[str, list[Form]]:
    found: dict[str, list[Form]] = {}
    for form in forms():
        found.setdefault(form.source, []).append(form)
    return found


DEFINED = re.compile(r"^\s*#define (\w+)", re.MULTILINE)


def in_one_file(listed: list[Form]) -> str:
    """Several programs in one file, each in a namespace of its own: nvcc takes long to start."""
    parts = []
    for i, form in enumerate(listed):
        text = programs.program(*form)
        undefined = "".join([f"#undef {word}\n" for word in dict.fromkeys(DEFINED.findall(text))])
        text = text.replace('extern "C" ', "")
        parts.append(f"namespace form{i} {{  // {form.source}\n{text}\n}}\n{undefined}")
    return "".join(parts)


def test_every_source_is_compiled_here_or_included() -> None:
    included = set()
    for path in SOURCES.rglob("*.cu"):
        included |= {name for name in programs.parts_of(str(path.relative_to(SOURCES)))[1::2]}
    known = {str(path.relative_to(SOURCES)) for path in SOURCES.rglob("*.cu")}
    assert known - included == set(by_source()) - {"philox.cu"}
    assert included - known == {"formula.cu", "joined.cu", "rule.cu"}


@pytest.mark.slow
@pytest.mark.skipif(NVCC is None, reason="nvcc compiles the CUDA sources")
@pytest.mark.parametrize("source", sorted(by_source()))
def test_sources_compile(source: str, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "program.cu"
    file.write_text(in_one_file(by_source()[source]))
    # One architecture, and nothing is optimized: it is about errors.
    command = [str(NVCC), "-ptx", "-arch=sm_90a", "-std=c++17", "-Xcicc", "-O0"]
    done = subprocess.run(
        [*command, "-o", str(tmp_path / "out.ptx"), str(file)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
