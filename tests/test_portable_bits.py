"""The portable mode: the same bits on every processor, with and without the kernels in C.

`tools/portable_bits.py --machines` runs the same programs on other processors under QEMU.
"""

from __future__ import annotations

import importlib.util
import math
import os
import pathlib
import subprocess
import sys
import warnings

import numpy as np
import pytest

import tapegrad as torch
from tapegrad.core.op import REGISTRY
from tapegrad.core.settings import Settings
from tapegrad.kernels.cpu import KERNELS
from tapegrad.kernels.portable import formulas, functions, products, switch
from tapegrad.kernels.portable.extremes import EXTREMES

ROOT = pathlib.Path(__file__).resolve().parent.parent
compiled = pytest.mark.skipif(KERNELS is None, reason="the kernels in C are not built")
FEW = ("MLP with Adam", "conv net", "reductions", "functions")


def tool():
    spec = importlib.util.spec_from_file_location("portable_bits", ROOT / "tools/portable_bits.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PROGRAMS = tool()


@pytest.fixture(autouse=True)
def mode():
    threads = torch.get_num_threads()
    torch.use_deterministic_algorithms("portable")
    yield
    torch.use_deterministic_algorithms(False)
    torch.set_num_threads(threads)


# ---------------------------------------------------------------------- functions

rng = np.random.default_rng(0)
MIXED = np.concatenate(
    [
        rng.uniform(-30, 30, 3000),
        rng.uniform(-1, 1, 3000),
        rng.standard_normal(3000) * 10.0 ** rng.integers(-300, 300, 3000),
        np.pi / 2 * np.arange(1000),
    ]
)
ODD = np.array(
    [0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 5e-324, -5e-324, 1e-310, 1.7e308, -1.7e308, 2, -2]
    + [0.5, -0.5, 3, -3, 709.78, 709.79, -745.1, -745.2, 1e22, 2.0**53 + 2, 1e6, 1e7, -1e7]
)
# Pairs for which a power is neither zero nor infinite.
BASES = np.exp(rng.uniform(-300, 300, 3000))
EXPONENTS = rng.uniform(-1, 1, 3000) * 700 / np.abs(np.log(BASES))


NAMED_BY_NUMPY = [name for name in functions.FORMULAS if hasattr(np, name)]
# By mpmath with 40 digits.
EXACT = {
    "erf": """
        0.7374101693382116 0.7029847604290326045204069
        1.450721935564376 0.9597944275474776458311574
        1.7711613933941797 0.9877479508504288075685855
        2.654701702662302 0.999826183939732507967296
        1.4393914484395847 0.9582101564215698504009088
        2.533949979992502 0.999661039518847704889893
        -2.825968630298312 -0.9999357204054122103448381
        -0.20626407373136768 -0.2294850999059572396061031
        1e-09 1.128379167095512643797283e-9
        0.4999 0.5204119951613865902765291
        0.5001 0.5205877516768807323523927
        5.5 0.999999999999992642152082
    """,
    "erfc": """
        3.660140301989882 0.0000002264263779817335220631339
        1.8938473188215452 0.007399590064691944676246826
        3.4054029505037366 0.000001464887056263547748434169
        -1.3207642120811338 1.938215994946586761815055
        0.8144142866929824 0.2494214643745594551505964
        -0.5205630042810181 1.538383256070151115422814
        16.5064997624264 1.596367640320672809808146e-120
        17.20064732234632 1.056328193293738713548216e-130
        4.30162636054475 1.176468506003478134320203e-9
        8.984785410668508 5.448178438384418826422131e-37
        10.428094418255537 3.190257556293183966268223e-49
        0.4999 0.4795880048386134097234709
    """,
    "lgamma": """
        1e-05 11.51291969289582562561731
        0.3 1.095797994818075560562999
        0.7 0.260867246531666568565662
        0.99999 0.000005772238896093089372712724
        1.4685600032651502 -0.1214631176395908966713484
        1.999 -0.0004224618006921072841757456
        2.3 0.1541894549596304745014234
        3.7 1.428072326665388129200498
        5.5 3.957813967618716293877401
        8.4 9.341884976495052428393347
        8.6 9.757897951599297826944519
        40.25 107.5516315376046319839416
        1000000.0 12815504.56914761165997697
        -0.3 1.46484005085760253047093
        -3.7 -1.379739904965824496043779
    """,
}


def ulps(found, exact):
    with np.errstate(all="ignore"):
        size = np.spacing(np.abs(exact).astype(found.dtype)).astype(np.longdouble)
        off = np.abs(found.astype(np.longdouble) - exact) / size
    return float(np.max(off[np.isfinite(exact.astype(found.dtype)) & (found != exact)], initial=0))


def operands(name, dtype):
    """Where long doubles are exact enough to judge: they reduce angles with 66 bits of pi."""
    if name == "power":
        return [np.asarray(x, dtype) for x in (BASES, EXPONENTS)]
    x = MIXED
    if name in formulas.AFTER_TURNS:
        x = x[(np.abs(x) < 100) & (np.abs(x) > 1e-300)]
        x = x[np.abs(np.abs(x) * 2 / np.pi - np.rint(np.abs(x) * 2 / np.pi)) > 1e-3]
    x = np.asarray(x, dtype)
    return [x] if name in formulas.UNARY else [x, rng.permutation(x)]


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="long double is double here")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", NAMED_BY_NUMPY)
@pytest.mark.filterwarnings("ignore")
def test_errors_of_functions(name, dtype):
    given = operands(name, dtype)
    found = functions.FUNCTIONS[name](*given)
    assert found.dtype == dtype
    exact = getattr(np, name)(*[x.astype(np.longdouble) for x in given])
    least = np.finfo(dtype).tiny
    exact = np.where(np.abs(exact) < least, found.astype(np.longdouble), exact)
    if name not in ("logaddexp", "logaddexp2"):  # near their root only the absolute error is small
        assert ulps(found, exact) <= (0.51 if dtype == np.float32 else 2)
    else:
        assert np.allclose(found, exact.astype(dtype), rtol=1e-6 if dtype == np.float32 else 1e-14)


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="long double is double here")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", EXACT)
def test_errors_of_error_functions_and_lgamma(name, dtype):
    rows = [line.split() for line in EXACT[name].strip().splitlines()]
    x = np.array([float(x) for x, _ in rows])
    exact = np.array([np.longdouble(value) for _, value in rows])
    if dtype == np.float32:  # of numbers that float32 has, against doubles
        x = x.astype(dtype)
        function = getattr(math, name)
        exact = np.array([function(v) for v in x.tolist()], np.longdouble)
        usual = np.abs(exact) > 1e-37
        x, exact = x[usual], exact[usual]
    positive = x > 0 if name == "lgamma" else np.full(x.shape, True)
    found = functions.FUNCTIONS[name](x)
    assert ulps(found[positive], exact[positive]) <= (0.51 if dtype == np.float32 else 2)
    np.testing.assert_allclose(
        found, exact.astype(dtype), rtol=1e-6 if dtype == np.float32 else 1e-14
    )


def test_error_functions_and_lgamma_of_odd_numbers():
    with np.errstate(all="ignore"):
        for name in EXACT:
            found, function = functions.FUNCTIONS[name](ODD), getattr(math, name)
            for x, value in zip(ODD.tolist(), found.tolist(), strict=True):
                try:
                    exact = function(x)
                except (ValueError, OverflowError):  # where C has an infinity
                    exact = math.inf
                assert value == pytest.approx(exact, rel=1e-14, abs=0, nan_ok=True), (name, x)
                if name == "erf" and x == 0:
                    assert math.copysign(1, value) == math.copysign(1, x)


ZEROS = np.array([0.0, -0.0] * 20)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["maximum", "minimum", "fmax", "fmin"])
def test_of_two_zeros_the_second_one_is_the_larger_and_the_smaller(name, dtype):
    own, x = EXTREMES[name], ZEROS.astype(dtype)
    for count in (1, 3, 40):
        a, b = x[:count], -x[:count]
        assert np.array_equal(np.signbit(own(a, b)), np.signbit(b))
        assert not np.signbit(own.reduce(a)) and not np.signbit(own.accumulate(a)).any()
        pair = torch.from_numpy(a), torch.from_numpy(b)
        assert np.array_equal(np.signbit(getattr(torch, name)(*pair).numpy()), np.signbit(b))
    odd = np.array([np.nan, 1, -np.inf, 2], dtype)
    np.testing.assert_array_equal(own(odd, odd[::-1]), getattr(np, name)(odd, odd[::-1]))


@pytest.mark.parametrize("name", NAMED_BY_NUMPY)
@pytest.mark.filterwarnings("ignore")
def test_odd_numbers(name):
    given = [ODD] if name in formulas.UNARY else [x.ravel() for x in np.meshgrid(ODD, ODD)]
    found = functions.FUNCTIONS[name](*given)
    expected = getattr(np, name)(*given)
    assert np.array_equal(np.isnan(found), np.isnan(expected))
    known = ~np.isnan(expected)
    assert np.array_equal(np.signbit(found[known]), np.signbit(expected[known]))
    np.testing.assert_allclose(found[known], expected[known], rtol=2e-15)


def bits(x):
    if x.dtype.kind in "fc":
        x = np.where(x != x, np.full_like(x, np.nan), x)
    return np.ascontiguousarray(x).tobytes()


@compiled
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", functions.FORMULAS)
@pytest.mark.filterwarnings("ignore")
def test_the_loops_in_c_have_the_bits_of_numpy(name, dtype, monkeypatch):
    x = np.concatenate([ODD, MIXED]).astype(dtype)
    given = [x] if name in formulas.UNARY else [x, rng.permutation(x)]
    by_loops = functions.FUNCTIONS[name](*given)
    monkeypatch.setattr(functions, "KERNELS", None)
    assert bits(by_loops) == bits(functions.FUNCTIONS[name](*given))


SHAPES = [
    ((), 1, 1, 1),
    ((), 3, 7, 5),
    ((), 33, 600, 17),
    ((), 1, 2000, 1),
    ((), 70, 1100, 90),
    ((2, 3), 16, 40, 16),
    ((), 64, 300, 1),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("lead, m, k, n", SHAPES)
@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True)])
def test_products_add_up_in_one_order(lead, m, k, n, turned, dtype, monkeypatch):
    a = rng.standard_normal((*lead, m, k)).astype(dtype)
    b = rng.standard_normal((k, n)).astype(dtype)
    if turned[0]:
        a = np.ascontiguousarray(a.swapaxes(-1, -2)).swapaxes(-1, -2)
    if turned[1]:
        b = np.asfortranarray(b)
    found = products.matmul(a, b)
    parts = -(-k // products.DEEP)
    deep = -(-k // parts)
    expected = 0
    for start in range(0, k, deep):
        part = np.zeros(found.shape, dtype)
        for i in range(start, min(start + deep, k)):
            part += a[..., i, None] * b[i]
        expected = expected + part
    assert found.tobytes() == expected.tobytes()
    monkeypatch.setattr(products, "KERNELS", None)
    assert products.matmul(a, b).tobytes() == found.tobytes()


def test_numpys_functions_without_differences_exist():
    assert [name for name in switch.EXACT if not hasattr(np, name)] == []


# ---------------------------------------------------------------------- programs


def elsewhere(names, environment):
    """Hashes of programs in a process with fewer instructions."""
    code = f"import sys; sys.path.insert(0, {str(ROOT / 'tools')!r}); import portable_bits as p\n"
    code += f"for name, value in p.hashes({names!r}).items(): print(name, value)"
    path = os.pathsep.join(p for p in sys.path if p)
    settings = {"TAPEGRAD_PORTABLE": "1", "PYTHONPATH": path, **environment}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict([line.rsplit(" ", 1) for line in done.stdout.splitlines()])


@pytest.mark.parametrize(
    "names",
    [FEW, pytest.param(tuple(PROGRAMS.PROGRAMS), marks=pytest.mark.slow)],
    ids=["few", "all"],
)
def test_programs_have_the_same_bits_with_fewer_instructions(names):
    here = PROGRAMS.hashes(names)
    assert elsewhere(names, PROGRAMS.fewer_instructions()) == here
    for threads in (1, 3, 8):
        torch.set_num_threads(threads)
        assert PROGRAMS.hashes(names[:2]).items() <= here.items()


@pytest.mark.slow
def test_programs_in_the_interpreted_core():
    names = tuple(PROGRAMS.PROGRAMS)
    assert elsewhere(names, {"TAPEGRAD_PURE": "1"}) == PROGRAMS.hashes(names)


@compiled
@pytest.mark.thorough
@pytest.mark.parametrize("how", ["small", "longer", "odd"])
def test_the_op_table_with_and_without_c(how):
    """Every sample of every op, its gradients included, in a process without the kernels."""

    def found(environment):
        done = subprocess.run(
            [sys.executable, ROOT / "tools/portable_bits.py", "--ops", how],
            env={**os.environ, "TAPEGRAD_PORTABLE": "1", **environment},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.splitlines()

    path = {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    here, there = found(path), found(path | {"TAPEGRAD_NATIVE": "0", "TAPEGRAD_PURE": "1"})
    assert len(here) > 5000
    assert set(here) ^ set(there) == set()


# ---------------------------------------------------------------------- the switch


def test_getters_and_other_modes():
    assert torch.are_deterministic_algorithms_enabled()
    assert torch.get_deterministic_debug_mode() == 2
    torch.use_deterministic_algorithms(True)
    assert not Settings.portable
    assert torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(False)
    assert not torch.are_deterministic_algorithms_enabled()
    with pytest.raises(TypeError, match="must be bool, not str"):
        torch.use_deterministic_algorithms("exact")


def test_leaving_the_mode_brings_the_kernels_back():
    torch.use_deterministic_algorithms(False)
    before = {name: (op.kernel, op.into, op.gradients) for name, op in REGISTRY.items()}
    x = torch.linspace(-3, 3, 1000)
    usual = (x.exp() @ x, x.softmax(0))
    torch.use_deterministic_algorithms("portable")
    assert REGISTRY["exp"].kernel is not before["exp"][0]
    torch.use_deterministic_algorithms(False)
    after = {name: (op.kernel, op.into, op.gradients) for name, op in REGISTRY.items()}
    assert all(after[name] == kernels for name, kernels in before.items())
    assert all(torch.equal(a, b) for a, b in zip(usual, (x.exp() @ x, x.softmax(0)), strict=True))


def test_a_few_normals_fill_a_tensor():
    torch.manual_seed(5)
    made = torch.empty(3, 3).normal_()
    torch.manual_seed(5)
    assert torch.equal(made, torch.randn(3, 3))
    assert torch.equal(torch.empty(5).fill_(2).log_normal_() > 0, torch.ones(5, dtype=torch.bool))


def test_logspace_and_schedules_use_powers_of_our_own(monkeypatch):
    def misrounded(*numbers):
        raise AssertionError("a power of the C library")

    monkeypatch.setattr("math.pow", misrounded)
    monkeypatch.setattr("math.cos", misrounded)
    exact = 10.0 ** np.linspace(-2, 3, 11)
    np.testing.assert_allclose(torch.logspace(-2, 3, 11, dtype=torch.float64).numpy(), exact)
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
    for _ in range(4):
        optimizer.step()
        schedule.step()
    assert abs(optimizer.param_groups[0]["lr"] - (1 + np.cos(np.pi * 0.4)) / 2) < 1e-15


REFUSED = {
    "linalg_eigh": lambda: torch.linalg.eigh(torch.eye(3)),
    "linalg_svd": lambda: torch.linalg.svd(torch.eye(3)),
    "_fft_r2c": lambda: torch.fft.rfft(torch.ones(8)),
    "mul": lambda: torch.ones(3, dtype=torch.complex64) * 2,
    "This call": lambda: torch.kaiser_window(5),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_by_name(name):
    with pytest.raises(RuntimeError, match=f"{name} does not have a portable") as caught:
        REFUSED[name]()
    assert "warn_only=True" in str(caught.value)
    torch.use_deterministic_algorithms("portable", warn_only=True)
    with pytest.warns(UserWarning, match="not portable"):
        REFUSED[name]()


def test_compiled_functions_run_eagerly():
    torch.use_deterministic_algorithms(False)
    function = torch.compile(lambda x: (x.exp() * 2).log1p().sum(), fullgraph=True)
    x = torch.linspace(-3, 3, 100)
    for _ in range(4):
        usual = function(x)
    torch.use_deterministic_algorithms("portable")
    with pytest.warns(UserWarning, match="runs eagerly"):
        found = function(x)
    assert torch.equal(found, (x.exp() * 2).log1p().sum())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        function(x)
        torch.use_deterministic_algorithms(False)
        assert torch.equal(function(x), usual)
