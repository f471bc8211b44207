"""The CUDA C that is made from blocks, compiled for the CPU and compared with the blocks on NumPy.

The functions of the elementwise kernels need no GPU: with `A` for float or double a C++ compiler
takes them as they are.
"""

from __future__ import annotations

import ctypes
import math
import re
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad
from table import APIS, SAMPLED, call, draw
from tapegrad.api.publish import load_everything
from tapegrad.core.base import quiet
from tapegrad.core.host_arrays import host
from tapegrad.core.op import REGISTRY, Op
from tapegrad.core.rule_functions import RAW
from tapegrad.expressions.cuda import FUNCTIONS, SPELLED
from tapegrad.expressions.expressions import PRIMITIVES, SINGLE
from tapegrad.kernels.cuda import formulas as gpu_formulas
from tapegrad.kernels.cuda.formulas import ARRAY, Formula, Formulas, is_number
from tapegrad.kernels.cuda.launchers.elementwise import LOSSES, Elementwise

load_everything()
COMPILER = shutil.which("g++") or shutil.which("c++") or shutil.which("clang++")
pytestmark = [
    pytest.mark.skipif(COMPILER is None, reason="no C++ compiler"),
    pytest.mark.filterwarnings("ignore"),
]
OPS = [op for op in REGISTRY.values() if Elementwise.takes(op)]
F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
# Both sides are within a unit or two in the last place of each step; formulas are short.
ULPS = 16
CORNERS = [0.0, 1.0, 0.5, 2.0, 3.7, 20.0, 88.0, 110.0, 1e10, 1e38, 1e-10, 1e-38, 1e-45, np.inf]
LINE = np.array([*CORNERS, *[-x for x in CORNERS], np.nan])
# Functions that have one right answer.
EXACT = set(
    """
    formula fabs sqrt floor ceil rint trunc sign maximum minimum fmax fmin fmod copysign nan
    """.split()
)


# ---------------------------------------------------------------------- C++ in the place of CUDA C

SHIM = r"""
#include <cmath>
#define __device__
#define __forceinline__ inline
using namespace std;
typedef float float32;
typedef double float64;
"""


class Library:
    """Formulas as functions of arrays of the host, compiled together."""

    def __init__(self, formulas: list[Formula], path: Any) -> None:
        self.names = {id(f): f"f{i}" for i, f in enumerate(formulas)}
        source = [SHIM, FUNCTIONS]
        for f in formulas:
            name = self.names[id(f)]
            arrays = [f"arrays[{i}][i]" for i in range(len(f.arrays))]
            numbers = [f"(A)numbers[{i}]" for i in range(len(f.numbers))]
            source.append(
                f"namespace of_{name} {{ typedef {f.dtype.name} A;\n{f.text}}}\n"
                f'extern "C" void {name}(const {f.dtype.name}* const* arrays, '
                f"const double* numbers, {f.dtype.name}* out, long n) {{\n"
                f"    using namespace of_{name};\n"
                f"    for (long i = 0; i < n; i++)\n"
                f"        out[i] = formula({', '.join(arrays + numbers)});\n}}\n"
            )
        text, made = path / "formulas.cpp", path / "formulas.so"
        text.write_text("".join(source))
        options = ["-O0", "-ffp-contract=off", "-shared", "-fPIC", "-w", "-std=c++14"]
        subprocess.run([COMPILER, *options, str(text), "-o", str(made)], check=True)
        self.library = ctypes.CDLL(str(made))
        self.runs = 0

    def run(self, formula: Formula, values: list[Any], shape: Any) -> Any:
        """The formula of a call's arguments."""
        arrays = [
            np.ascontiguousarray(np.broadcast_to(values[i], shape).astype(formula.dtype))
            for i in formula.arrays
        ]
        numbers = np.array(formula.numbers_of(tuple(values)), np.float64)
        out = np.empty(shape, formula.dtype)
        pointers = (ctypes.c_void_p * len(arrays))(*[a.ctypes.data for a in arrays])
        self.runs += 1
        function = getattr(self.library, self.names[id(formula)])
        function(
            pointers,
            ctypes.c_void_p(numbers.ctypes.data),
            ctypes.c_void_p(out.ctypes.data),
            ctypes.c_long(out.size),
        )
        return out


# ---------------------------------------------------------------------- calls


class OnNumPy:
    """F for rules: the forwards of the blocks, on NumPy; what they are called with is noted."""

    recorded = False

    def __init__(self, calls: Calls) -> None:
        self.calls = calls

    def __getattr__(self, name: str) -> Any:
        op = REGISTRY.get(name)
        if op is None:
            return getattr(RAW, name)

        def run(*args: Any) -> Any:
            if op.name in self.calls.forwards:
                self.calls.forward(op, args)
            return op.forward(host, *args)

        return run


class Call:
    """A formula, the arguments of a call, and what the block makes of them on NumPy."""

    def __init__(self, name: str, formula: Formula, values: list[Any], block: Any) -> None:
        self.name = name
        self.formula = formula
        self.values = values
        self.block = block

    def check(self, library: Library, values: list[Any]) -> None:
        try:
            want = np.asarray(quiet(self.block, values))
        except (RuntimeError, TypeError, ValueError):
            return  # refused for other values
        got = library.run(self.formula, values, want.shape)
        assert got.dtype == want.dtype, self.name
        what = f"{self.name} of {self.formula.dtype}\n{self.formula.text}"
        exact = "double" not in self.formula.text and not calls_in(self.formula.text) - EXACT
        compare(got, want, 0 if exact else ULPS, what)

    def at_corners(self) -> list[Any]:
        """NaN, infinities, signed zeros, numbers that overflow or are subnormal, in all pairs."""
        dtype = self.formula.dtype
        places = [i for i, v in enumerate(self.values) if isinstance(v, np.ndarray)]
        used = [i for i in places if i in self.formula.arrays]
        count = min(len(used), 2)
        grid = [g.reshape(-1).astype(dtype) for g in np.meshgrid(*[LINE] * count)]
        rng = np.random.default_rng(0)
        values = list(self.values)
        for i in places:
            values[i] = grid[used.index(i)] if i in used[:2] else rng.permutation(grid[0])
        return values


def calls_in(text: str) -> set[str]:
    return set(re.findall(r"\b(\w+)\(", text))


def compare(got: Any, want: Any, ulps: int, what: str) -> None:
    limit = ulps * np.finfo(want.dtype).eps
    np.testing.assert_allclose(got, want, rtol=limit, atol=0, err_msg=what)
    zero = want == 0
    if not calls_in(what) & {"maximum", "minimum", "fmax", "fmin"}:  # either zero is right
        np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(want[zero]), what)


class Calls:
    """The calls of elementwise ops and of their rules that the samples make."""

    def __init__(self) -> None:
        self.forwards = {op.name: gpu_formulas.of_forward(op) for op in OPS}
        self.rules: dict[tuple[str, int], Formulas] = {}
        self.found: dict[int, Call] = {}  # the first call for each formula
        self.ops: set[str] = set()
        self.closed = False

    def note(self, name: str, formula: Formula | None, values: list[Any], block: Any) -> None:
        if self.closed or formula is None or formula.given:
            return
        if id(formula) not in self.found:
            self.found[id(formula)] = Call(name, formula, values, block)
            self.ops.add(name.partition(":")[0])

    def forward(self, op: Op, args: tuple[Any, ...]) -> None:
        dtypes = {a.dtype for a in args if isinstance(a, np.ndarray)}
        if len(dtypes) != 1:
            return
        key = tuple([ARRAY if isinstance(a, np.ndarray) else a for a in args])
        formula = self.forwards[op.name].of(dtypes.pop(), key)[0]
        self.note(op.name, formula, list(args), lambda values: op.forward(host, *values))

    def gradients(self, op: Op, grad: Any, kept: Any, edges: Any) -> None:
        count = op.width + len(op.outs)
        end = count + len(op.attrs)
        for i, rule in enumerate(op.rules):
            if rule is None or i >= len(edges) or edges[i] is None or op.joint is not None:
                continue
            rest = kept[end:]
            formulas = self.rules.setdefault((op.name, i), gpu_formulas.of_rule(op, i))
            key = (
                ARRAY,
                *[v if is_number(v) else ARRAY for v in kept[:count]],
                *kept[count:end],
            )
            formula = formulas.of(grad.dtype, key)[0]
            values = [grad, *kept[:end]]
            if formula is not None and any([values[k] is None for k in formula.arrays]):
                continue

            def block(values: Any, rule: Any = rule, rest: Any = rest) -> Any:
                return rule.call(OnNumPy(self), values[0], (*values[1:], *rest))

            self.note(f"{op.name}:{op.tensors[i]}", formula, values, block)
            quiet(block, values)

    def sample(self, name: str, index: int, dtype: str) -> None:
        """Call a function as a sample says, forward and backward."""

        def make(array: Any) -> Any:
            if array.dtype.kind != "f":
                return tapegrad.tensor(array)
            return tapegrad.tensor(array.astype(dtype)).requires_grad_()

        args, kwargs, _ = draw(name, index, make)
        try:
            result = call(name, args, kwargs)
            outs = result if isinstance(result, (tuple, list)) else [result]
            outs = [t for t in outs if isinstance(t, tapegrad.Tensor) and t.requires_grad]
            tapegrad.autograd.backward(outs, [tapegrad.ones_like(t) for t in outs])
        except (RuntimeError, NotImplementedError):
            pass  # in-place forms refuse leaves, and some ops have no derivative


def collected(names: list[str], dtypes: list[str]) -> Calls:
    """The calls that the samples of functions make, with every elementwise op under observation."""
    calls = Calls()
    with pytest.MonkeyPatch.context() as patch:
        for op in OPS:
            patch.setattr(op, "kernel", noting(op, calls))
            patch.setattr(op, "gradients", noting_gradients(op, calls))
        for name in names:
            for index in range(len(APIS[name].samples)):
                for dtype in dtypes:
                    calls.sample(name, index, dtype)
    calls.closed = True
    return calls


def noting(op: Op, calls: Calls) -> Callable[..., Any]:
    kernel = op.kernel

    def run(*args: Any) -> Any:
        calls.forward(op, args)
        return kernel(*args)

    return run


def noting_gradients(op: Op, calls: Calls) -> Callable[..., Any]:
    gradients = op.gradients

    def run(grad: Any, kept: Any, edges: Any) -> Any:
        calls.gradients(op, grad, kept, edges)
        return None if gradients is None else gradients(grad, kept, edges)

    return run


# ---------------------------------------------------------------------- tests

QUICK = """
add sub mul div exp log1p tanh sigmoid pow clamp maximum lerp addcdiv logaddexp erf relu
nn.functional.gelu nn.functional.silu nn.functional.mish nn.functional.softplus nn.functional.elu
nn.functional.leaky_relu nn.functional.hardtanh nn.functional.threshold nn.functional.softshrink
""".split()


def test_common_formulas(tmp_path: Any) -> None:
    check(collected(QUICK, ["float32"]), tmp_path, 60)


@pytest.mark.slow
def test_formulas(tmp_path: Any) -> None:
    """Every op and rule that has one, over all samples and at the corners of the numbers."""
    calls = collected(SAMPLED, ["float32", "float64"])
    check(calls, tmp_path, 600)
    # The rest gives truths or integers, is for other numbers than real ones, or is a loop.
    assert len(calls.ops) >= 149


def check(calls: Calls, path: Any, fewest: int) -> None:
    library = Library([c.formula for c in calls.found.values()], path)
    for c in calls.found.values():
        c.check(library, c.values)
        c.check(library, c.at_corners())
    assert len(calls.found) >= fewest
    assert library.runs >= 2 * fewest


def test_loss_formulas(tmp_path: Any) -> None:
    """Values without a reduction, and slopes for an element's share of the gradient."""
    rng = np.random.default_rng(0)
    made = []
    for name in LOSSES:
        op = REGISTRY[name]
        attrs = {"beta": 0.7, "delta": 0.7, "result": F64, "reduction": "none"}
        rest = [*[None] * (op.width - 2), *[attrs[a] for a in op.attrs]]
        x, y, grad = rng.uniform(0.05, 0.95, (3, 200))
        values = (ARRAY, ARRAY, *rest)
        formula = gpu_formulas.of_forward(op).of(F64, values)[0]
        assert formula is not None, name
        made.append((formula, [x, y, *rest], op.forward(host, x, y, *rest)))
        calls = Calls()
        calls.closed = True
        for i, rule in enumerate(op.rules):
            if rule is None:
                continue
            weights, numbers = rest[: op.width - 2], rest[op.width - 2 :]
            values = (ARRAY, 0.25, ARRAY, ARRAY, *weights, ARRAY, *numbers)
            formula = gpu_formulas.of_shared_rule(op, i).of(F64, values)[0]
            assert formula is not None, name
            given = [x, y, *weights, None, *numbers]
            want = rule.call(OnNumPy(calls), grad * 0.25, tuple(given))
            made.append((formula, [grad, 0.25, *given], want))
    library = Library([formula for formula, _, _ in made], tmp_path)
    for formula, given, want in made:
        np.testing.assert_allclose(
            library.run(formula, given, want.shape),
            want,
            rtol=1e-13,
            atol=2.3e-16,
            err_msg=formula.text,
        )


def test_numbers_are_arguments_unless_the_formula_decides_by_them() -> None:
    leaky, power, elu = [
        gpu_formulas.of_forward(REGISTRY[name]) for name in ("leaky_relu", "pow_scalar", "elu")
    ]
    texts = {slope: leaky.of(F32, (ARRAY, slope))[0].text for slope in (0.1, 0.2, 2.0, -1.0)}
    assert texts[0.1] == texts[0.2] != texts[2.0] == texts[-1.0]
    square, cube, root = [power.of(F32, (ARRAY, e))[0] for e in (2, 3.0, 0.5)]
    assert "a * a;" in square.text and "a * a) * a;" in cube.text and "sqrt(a)" in root.text
    general, numbers = power.of(F32, (ARRAY, 2.5))
    assert "pow(a, s)" in general.text and numbers == (2.5,)
    assert power.of(F32, (ARRAY, 1.7))[0].text == general.text
    # What is computed of numbers alone is computed once, in double.
    formula, numbers = elu.of(F32, (ARRAY, 1.5, 2.0, 1.0))
    assert 3.0 in numbers and elu.of(F32, (ARRAY, 0.5, 3.0, 1.0))[0] is formula
    slope = gpu_formulas.of_rule(REGISTRY["pow_scalar"], 0)
    assert set(slope.of(F32, (ARRAY, ARRAY, ARRAY, 1.7))[1]) == {1.7, 1.7 - 1}


def test_zeros_keep_their_signs() -> None:
    mul = gpu_formulas.of_forward(REGISTRY["mul"])
    for values in ((ARRAY, 0.0), (ARRAY, -0.0), (ARRAY, 0)):
        _, numbers = mul.of(F32, values)
        assert math.copysign(1, numbers[0]) == math.copysign(1, values[1])
    formulas = gpu_formulas.of_forward(REGISTRY["threshold"])  # which decides by its value
    found = [formulas.of(F32, (ARRAY, zero, 0.0)) for zero in (0.0, -0.0, 0)]
    assert [math.copysign(1, numbers[0]) for _, numbers in found] == [1, -1, 1]
    assert found[0][0] is found[1][0] is found[2][0]


def test_what_has_no_formula() -> None:
    for name in ("isnan", "logical_not", "conj"):
        op = REGISTRY[name]
        assert gpu_formulas.of_forward(op).of(F32, (ARRAY,) * op.width)[0] is None
    exp = gpu_formulas.of_forward(REGISTRY["exp"])
    assert exp.of(np.dtype(np.int64), (ARRAY,))[0] is None
    assert exp.of(np.dtype(np.complex64), (ARRAY,))[0] is None
    add = gpu_formulas.of_forward(REGISTRY["add_alpha"])
    assert add.of(F32, (ARRAY, ARRAY, 1j))[0] is None
    assert add.of(F32, (ARRAY, ARRAY, [1.0]))[0] is None
    assert add.of(F32, (ARRAY, ARRAY, 2.0))[0] is not None
    assert add.of(F32, (ARRAY, ARRAY, 10**400))[0] is None


def test_every_primitive_is_spelled() -> None:
    assert set(SPELLED) | SINGLE | {"polynomial"} == PRIMITIVES


def test_what_is_used_twice_is_computed_once() -> None:
    for name in ("mish_backward", "silu_backward"):
        formula = gpu_formulas.of_forward(REGISTRY[name]).of(F32, (ARRAY, ARRAY))[0]
        assert len(re.findall(r"exp\(-b\)", formula.text)) == 1
