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
        Form(f"elementwise/{name}.cu", kind, {"ONCE": i % 2}, made) for i, kind in enumerate(FLOATS)
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
                found.append(Form(f"norms/{name}.cu", kind, words, {"joined.cu": text}))
        found.append(Form("norms/follow.cu", kind, words))
        found.append(Form("norms/rms.cu", kind, {"WIDE": 4, "HELD": 2}))
    return found


def optimizer_forms() -> list[Form]:
    found = []
    for name in "adadelta adagrad adam adamax asgd nadam radam rmsprop rprop sgd".split():
        rule = getattr(optimizers, name).FUSED
        for kind in FLOATS:
            made = optim.FusedRule(Compiling(), rule, kind, tuple(rule.rows))
            found.append(Form("optim/frame.cu", kind, made.words, made.made))
    return found


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
        *[Form("moves/accumulate.cu", kind) for kind in FLOATS],
        *[Form("moves/copies.cu", kind, {"GIVEN_DTYPE": "float16"}) for kind in FLOATS],
        *[Form("moves/copies.cu", f"raw{n}", {"GIVEN_DTYPE": f"raw{n}"}) for n in (1, 2, 4, 8, 16)],
        *[Form("moves/casts.cu", k, {"GIVEN_DTYPE": "bool", "LIMIT": 160}) for k in FLOATS],
        *[Form("moves/join.cu", f"raw{n}", {"LIMIT": 16}) for n in (1, 2, 4, 8, 16)],
        *[Form(f"rows/{n}.cu", kind) for n in ("sums", "rows", "gather") for kind in FLOATS[:2]],
        *[Form("rows/ranges.cu", kind) for kind in ("index64", "index32")],
        *[Form("rows/folds.cu", "float32", words) for words in folds.KINDS.values()],
        *[
            Form("rows/fold_gradients.cu", kind, {"SUMS": sums}, formula_file(mean, "s"))
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
        Form("elementwise/count.cu", "index64"),
        *[Form("elementwise/choice.cu", k, {"DOES(m, a, b, s)": "(m ? a : s)"}) for k in FLOATS],
        *[Form("elementwise/gates.cu", k, {}, formula_file(gate_functions())) for k in FLOATS],
        Form(
            "elementwise/mixed.cu",
            "float32",
            {"X_DTYPE": "bfloat16", "Y_DTYPE": "float32"},
            formula_file(formula("mul", 2).text),
        ),
        *[Form(f"conv/{n}.cu", k) for n in ("conv", "resize") for k in FLOATS],
        *[Form("conv/pools.cu", k, {"ADAPTIVE": i}) for i in (0, 1) for k in FLOATS[:3]],
        *[
            Form("conv/depthwise.cu", k, {"KY": 3, "KX": 3, "SY": s, "SX": s, "DOWN": 4})
            for k in FLOATS
            for s in (1, 2)
        ],
        *[
            Form(
                "conv/implicit.cu",
                "float32",
                {"BM": 64, "BN": 128, "DOWN": 2, "STAGES": 3}
                | {"AT_ONCE": 1, "BACK": back, "FULL": full},
            )
            for back in (0, 1)
            for full in (0, 1)
        ],
        Form("conv/hopper_places.cu", "float32", {"BN": 128, "GROUPS": 2, "PITCH": 72}),
        Form("conv/hopper_weights.cu", "float32", {"BQ": 64, "PITCH": 72}),
        *[
            Form(f"random/{n}.cu", k, {"SIDE": 1})
            for n in "words floats dropout poisson gamma binomial slopes".split()
            for k in FLOATS
        ],
        *norm_forms(),
        *[
            Form(
                "products/product.cu",
                "float32",
                {"BM": 64, "BN": 64, "MIN_BLOCKS": 2, "STAGES": 3, "TOGETHER": 1}
                | {"A_ALONG_K": along, "B_ALONG_K": 1 - along},
            )
            for along in (0, 1)
        ],
        Form("products/sum.cu", "float32"),
        *[
            Form("products/attention.cu", kind, attention.words_for(kind, width))
            for kind in attention.CODES
            for width in attention.SIZES
        ],
        *[
            Form(
                "products/recurrent.cu",
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
            Form("optim/norms.cu", "float32", {"LIMIT": 190, **words})
            for words in optim.ORDERS.values()
        ],
        *[Form("optim/changes.cu", kind, {"LIMIT": 190}) for kind in FLOATS],
        Form("optim/scale.cu", "float32"),
        *[
            Form(f"optim/{n}.cu", kind, {"LIMIT": 50, "LINE": 1024})
            for n in ("adafactor", "muon")
            for kind in FLOATS
        ],
    ]
    return listed


def by_folder() -> dict[str, list[Form]]:
    found: dict[str, list[Form]] = {}
    for form in forms():
        found.setdefault(form.source.partition("/")[0], []).append(form)
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
    rules = {name for name in known if name.startswith("optim/rules/")}
    assert known - included - rules == {form.source for form in forms()}
    assert included - known == {"formula.cu", "joined.cu", "rule.cu"}


@pytest.mark.slow
@pytest.mark.skipif(NVCC is None, reason="nvcc compiles the CUDA sources")
@pytest.mark.parametrize("folder", sorted(by_folder()))
def test_sources_compile(folder: str, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "program.cu"
    file.write_text(in_one_file(by_folder()[folder]))
    # One architecture, and nothing is optimized: it is about errors.
    command = [str(NVCC), "-ptx", "-arch=sm_90a", "-std=c++17", "-Xcicc", "-O0"]
    done = subprocess.run(
        [*command, "-o", str(tmp_path / "out.ptx"), str(file)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
