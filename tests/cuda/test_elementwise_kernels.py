"""Elementwise kernels: activations, arithmetic and losses, with their gradients.

The kernels themselves need a real GPU; what the ops give and that they can be captured does not.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad
from tapegrad.api.publish import load_everything
from tapegrad.core import devices
from tapegrad.core.base import quiet
from tapegrad.core.op import REGISTRY
from tapegrad.expressions.symbols import TracedNumPy
from tapegrad.kernels.cuda.formulas import ARRAY, of_forward, of_rule
from tapegrad.kernels.cuda.launchers.elementwise import LOSSES as REDUCED
from tapegrad.kernels.cuda.launchers.elementwise import Elementwise

load_everything()
torch: Any = tapegrad
F: Any = torch.nn.functional
Run = Callable[..., Any]
TOLERANCE = {"float32": 2e-5, "float64": 1e-11, "float16": 4e-3, "bfloat16": 3e-2}
# The numbers that come with ops.
ATTRIBUTES: dict[str, tuple[Any, ...]] = {
    "mul_number": (1.5,),
    "add_number": (1.5,),
    "sub_number": (1.5,),
    "div_number": (1.5,),
    "leaky_relu": (0.1,),
    "elu": (1.2, 0.9, 1.1),
    "celu": (0.7, 1.0, 1 / 0.7),
    "softplus": (1.5, 2.0),
    "hardtanh": (-0.75, 1.25),
    "hardshrink": (0.5,),
    "softshrink": (0.5,),
    "threshold": (0.25, -3.0),
    "rrelu_on_average": (0.2,),
    "softplus_backward": (1.5, 2.0),
    "leaky_relu_backward": (0.1,),
    "hardtanh_backward": (-0.75, 1.25),
    "shrink_backward": (0.5,),
    "softshrink_backward": (0.5,),
    "threshold_backward": (0.25,),
    "elu_backward": (1.2, 0.9, 1.1, False),
    "gelu_backward": ("tanh",),
    "gelu": ("none",),
    "pow_scalar": (2.5,),
    "clamp_scalar": (-0.5, 0.75),
    "add_alpha": (0.3,),
    "sub_alpha": (0.3,),
    "rsub": (0.75,),
    "lerp_scalar": (0.3,),
    "addcmul": (0.3,),
    "addcdiv": (0.3,),
}
F32 = np.dtype(np.float32)


def numbers_of(name: str) -> tuple[Any, ...]:
    return ATTRIBUTES.get(name.removesuffix("_write"), ())


def has_formula(op: Any) -> bool:
    values = (ARRAY,) * op.width + numbers_of(op.name)
    return Elementwise.takes(op) and of_forward(op).of(F32, values)[0] is not None


def with_formulas(width: int) -> list[str]:
    """The ops of so many arrays that have a formula with the numbers above, or without any."""
    return [op.name for op in REGISTRY.values() if op.width == width and has_formula(op)]


UNARY = with_formulas(1)
BINARY = with_formulas(2)
SLOPES = [name for name in BINARY if REGISTRY[name].tensors[0] == "grad_output"]
needs_kernels = pytest.mark.skipif("not has_kernels()", reason="kernels need CuPy and a GPU")


def has_kernels() -> bool:
    return hasattr(devices.DEVICE.xp, "RawKernel")


def tensor(*shape: int, kind: str = "float32", low: float = -3.0, high: float = 3.0) -> Any:
    rng = np.random.default_rng([*shape, int(100 + 10 * low)])
    return torch.from_numpy(rng.uniform(low, high, shape)).to(getattr(torch, kind))


def on_gpu(x: Any) -> Any:
    """On the GPU with the same strides."""
    return devices.uploaded(x) if isinstance(x, np.ndarray) else x


def compare(name: str, arrays: list[Any], attrs: tuple[Any, ...], kind: str) -> None:
    """The kernel against the block's own forward on the CPU: values, NaN and strides."""
    op = REGISTRY[name]
    want = quiet(op.forward, np, *arrays, *attrs)
    got = devices.kernel_of(op)(*[on_gpu(x) for x in arrays], *attrs)
    for w, g in zip(*[(v,) if op.single else v for v in (want, got)], strict=True):
        w = np.asarray(w)
        assert g.shape == w.shape and g.dtype == w.dtype, name
        # PyTorch's logsigmoid makes contiguous results on the CPU only.
        known = g.size == 0 or 1 in g.shape or name == "log_sigmoid"
        assert known or g.strides == w.strides, name
        near(devices.to_host(g), w, kind, name)


def near(found: Any, want: Any, kind: str, name: str, factor: float = 2) -> None:
    a, b = [np.asarray(x).astype(np.float64) for x in (found, want)]
    finite = b[np.isfinite(b)]
    size = max(1.0, float(np.abs(finite).max())) if finite.size else 1.0
    limit = factor * TOLERANCE[kind]
    np.testing.assert_allclose(a, b, rtol=limit, atol=limit * size, err_msg=name)


# ---------------------------------------------------------------------- kernels against forwards


LAYOUTS = {
    "rows": lambda x: x,
    "odd": lambda x: x.reshape(-1)[1:],  # starts where vectors of four may not
    "turned": lambda x: x.T,
    "none": lambda x: x[:0],
    "number": lambda x: x[0, 0],
}
POSITIVE = ("log", "log2", "log10", "sqrt", "rsqrt")
UNIT = ("asin", "acos", "atanh", "log1p")


def bounds_of(name: str) -> tuple[float, float]:
    if name in POSITIVE:
        return 0.1, 3.0
    if name == "acosh":
        return 1.1, 3.0
    return (-0.9, 0.9) if name in UNIT else (-3.0, 3.0)


@needs_kernels
@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", UNARY)
def test_of_one_array(name: str, kind: str) -> None:
    low, high = bounds_of(name)
    x = tensor(37, 65, kind=kind, low=low, high=high)._array
    for layout in LAYOUTS if kind == "float32" else ["rows"]:
        compare(name, [np.asarray(LAYOUTS[layout](x))], numbers_of(name), kind)


SPECIAL = [math.nan, math.inf, -math.inf, 0.0, -0.0, 3.0, -3.0, 0.5, -0.5, 0.25, 80.0, -80.0, 1e-30]


@needs_kernels
@pytest.mark.parametrize("name", UNARY)
def test_special_values(name: str) -> None:
    compare(name, [np.array(SPECIAL, np.float32)], numbers_of(name), "float32")


@needs_kernels
@pytest.mark.parametrize("name", SLOPES)
def test_slopes_at_special_values(name: str) -> None:
    grad = np.linspace(-1, 1, len(SPECIAL), dtype=np.float32)
    compare(name, [grad, np.array(SPECIAL, np.float32)], numbers_of(name), "float32")


PAIRS = """
add sub mul div maximum minimum xlogy prelu_kernel add_alpha sub_alpha rsub lerp_scalar
""".split()
POSITIVE_SECOND = ("div", "xlogy", "pow", "atan2")


@needs_kernels
@pytest.mark.parametrize("kind", ["float32", "float16"])
def test_of_several_arrays(kind: str) -> None:
    x, y = tensor(37, 65, kind=kind)._array, tensor(37, 65, kind=kind, low=-2.9)._array
    z = tensor(37, 65, kind=kind, low=0.5)._array
    for name in BINARY if kind == "float32" else PAIRS:
        other = z if name in POSITIVE_SECOND else y
        attrs = numbers_of(name)
        compare(name, [x, other], attrs, kind)
        if kind == "float32":
            compare(name, [x.T, other.T], attrs, kind)
            if REGISTRY[name].broadcasts:
                compare(name, [x, other[:1]], attrs, kind)
                compare(name, [x[:, :1], other], attrs, kind)
    for name in ("lerp", "addcmul", "addcdiv"):
        compare(name, [x, y, z], numbers_of(name), kind)
    for exponent in (2, 3, 0.5, -0.5, -1, -2, 2.5, 1, 0):
        compare("pow_scalar", [z], (exponent,), kind)
    for low, high in ((-1, 1), (None, 0.5), (-0.5, None), (1, -1), (math.nan, 1)):
        compare("clamp_scalar", [x], (low, high), kind)
    compare("rsub_scalar", [x], (1, 1), kind)
    compare("rsub_scalar", [x], (1.5, 2), kind)
    values = np.array(SPECIAL, np.float32)
    for name in ("maximum", "minimum", "xlogy"):
        compare(name, [np.repeat(values, 13), np.tile(values, 13)], (), "float32")


@needs_kernels
@pytest.mark.parametrize("kind", ["float32", "bfloat16", "float64"])
def test_choices(kind: str) -> None:
    x, y = tensor(6, 5, 7, kind=kind)._array, tensor(6, 5, 7, kind=kind, low=-2.9)._array
    mask = np.random.default_rng(0).random((6, 5, 7)) < 0.5
    for m in (mask, mask[0], mask[:, :1], mask[:, 0, :1, None], np.ones((), bool)):
        if np.broadcast_shapes(m.shape, x.shape) == x.shape:
            compare("where", [m, x, y], (), kind)
            compare("where", [m, x, 0], (), kind)
            compare("where", [m, 1.5, x], (), kind)
            compare("masked_fill", [x, m], (-math.inf,), kind)
    compare("where", [mask, x[:1], y], (), kind)
    compare("where", [mask.T, x.T, y.T], (), kind)


@needs_kernels
@pytest.mark.parametrize("kind", ["float32", "float16"])
def test_glu_and_prelu(kind: str) -> None:
    for shape, dim in (((3, 8), 1), ((4, 5, 3), 0), ((2, 6, 16), 1), ((2, 6, 3), 1), ((7, 10), 1)):
        x = tensor(*shape, kind=kind)._array
        half = tuple([n // 2 if d == dim else n for d, n in enumerate(shape)])
        g = tensor(*half, kind=kind)._array
        compare("glu", [x], (dim,), kind)
        compare("glu_backward", [g, x], (dim,), kind)
        compare("glu_backward", [np.broadcast_to(g[:1, :1], half), x], (dim,), kind)
    for shape, weights in (((5, 7), (1, 7)), ((4, 3, 9), (1, 3, 1)), ((4, 3), (1, 1)), ((), ())):
        x, g = tensor(*shape, kind=kind)._array, tensor(*shape, kind=kind, low=-2)._array
        w = tensor(*weights, kind=kind, low=0.1, high=0.5)._array
        compare("prelu_kernel", [x, w], (), kind)
        compare("prelu_kernel_backward", [g, x, w], (), kind)


# ---------------------------------------------------------------------- gradients, end to end

UP = torch.linspace(0.1, 0.9, 77, dtype=torch.float64).reshape(7, 11)
ACTIVATIONS: dict[str, Run] = {
    "relu": F.relu,
    "leaky_relu": lambda x: F.leaky_relu(x, 0.1),
    "elu": lambda x: F.elu(x, 0.7),
    "elu_": lambda x: F.elu_(x * 1, 0.7),
    "selu": F.selu,
    "celu": lambda x: F.celu(x, 0.7),
    "gelu": F.gelu,
    "silu": F.silu,
    "mish": F.mish,
    "softplus": lambda x: F.softplus(x, 2.0, 3.0),
    "logsigmoid": F.logsigmoid,
    "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid,
    "hardtanh": F.hardtanh,
    "relu6": F.relu6,
    "hardshrink": F.hardshrink,
    "softshrink": F.softshrink,
    "tanhshrink": F.tanhshrink,
    "softsign": F.softsign,
    "threshold": lambda x: F.threshold(x, 0.3, 2.0),
    "rrelu": F.rrelu,
    "glu": lambda x: F.glu(x[:6], 0),
    "abs": torch.abs,
    "square": torch.square,
    "pow": lambda x: x.abs() ** 1.7,
    "cube": lambda x: x**3,
    "rsqrt": lambda x: torch.rsqrt(x.abs() + 1),
    "root": lambda x: (x.abs() + 1) ** 0.5,
    "reciprocal": lambda x: 1 / (x.abs() + 1),
    "clamp": lambda x: x.clamp(-0.5, 0.7),
    "clamp_min": lambda x: x.clamp(min=0.1),
    "sigmoid": torch.sigmoid,
    "expm1": torch.expm1,
    "log1p": lambda x: torch.log1p(x.abs()),
    "log2": lambda x: torch.log2(x.abs() + 1),
    "sin_cos": lambda x: x.sin() + x.cos() * x.atan(),
    "erf": torch.erf,
    "quotient": lambda x: x / (x * x + 1),
    "where": lambda x: torch.where(x > 0, x * 2, 0),
    "masked_fill": lambda x: x.masked_fill(x > 1, 0.5),
    "maximum": lambda x: torch.maximum(x, x * x - 1),
    "addcmul": lambda x: torch.addcmul(x, x, x * 2, value=0.5),
    "addcdiv": lambda x: torch.addcdiv(x, x, x.abs() + 1, value=0.5),
    "lerp": lambda x: torch.lerp(x, x * x, 0.3),
    "turned": lambda x: F.hardswish(x.t()),
    "spread": lambda x: x * x[:1] / (x[:, :1] * x[:, :1] + 1),
}


def results(run: Run, *tensors: Any, whole: bool = False) -> list[Any]:
    """The result and the gradients of all tensors, on the CPU."""
    leaves = [t.clone().requires_grad_() for t in tensors]
    out = run(*leaves)
    if whole:
        out.sum().backward()
    else:
        factor = UP.reshape(-1)[: out.numel()].reshape(out.shape) if out.dim() else UP[0, 0]
        out.backward(factor.to(out.device).to(out.dtype))
    return [out.detach().cpu(), *[t.grad.cpu() for t in leaves]]


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("whole", [False, True])
def test_gradients(name: str, whole: bool) -> None:
    x = tensor(7, 11)
    want = results(ACTIVATIONS[name], x.double(), whole=whole)
    got = results(ACTIVATIONS[name], x.cuda(), whole=whole)
    for w, g in zip(want, got, strict=True):
        near(g._array, w._array, "float32", name)


SHAPES = [
    ((4, 3, 40), 3),
    ((4, 3, 40), 1),
    ((5, 3), 3),
    ((2, 1, 5), 1),
    ((40,), 1),
    ((2, 2, 9000), 2),
]


@pytest.mark.parametrize(("shape", "count"), SHAPES)
def test_prelu(shape: tuple[int, ...], count: int) -> None:
    x, w = tensor(*shape), tensor(count, low=0.1, high=0.5)
    run = lambda x, w: F.prelu(x, w) * 0.5  # noqa: E731
    for g, h in zip(
        results(run, x.cuda(), w.cuda(), whole=True),
        results(run, x.double(), w.double(), whole=True),
        strict=True,
    ):
        near(g._array, h._array, "float32", "prelu")


LOSSES: dict[str, Run] = {
    "mse": F.mse_loss,
    "l1": F.l1_loss,
    "smooth_l1": lambda x, y, **how: F.smooth_l1_loss(x, y, beta=0.5, **how),
    "huber": lambda x, y, **how: F.huber_loss(x, y, delta=0.7, **how),
    "soft_margin": lambda x, y, **how: F.soft_margin_loss(x, (y > 0) * 2.0 - 1, **how),
    "bce": lambda x, y, **how: F.binary_cross_entropy(x.sigmoid(), y.sigmoid(), **how),
    "bce_weighted": lambda x, y, **how: F.binary_cross_entropy(
        x.sigmoid(), y.detach().sigmoid(), y.detach().abs(), **how
    ),
    "bce_with_logits": lambda x, y, **how: F.binary_cross_entropy_with_logits(
        x, y.sigmoid(), **how
    ),
    "positive_weight": lambda x, y, **how: F.binary_cross_entropy_with_logits(
        x, y.sigmoid(), pos_weight=y.detach()[:1].abs(), **how
    ),
    "kl_div": lambda x, y, **how: F.kl_div(x, y.sigmoid(), **how),
}


@pytest.mark.filterwarnings("ignore:reduction")
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
def test_losses(name: str, reduction: str, kind: str) -> None:
    x, y = tensor(7, 11, kind=kind), tensor(7, 11, kind=kind, low=-2)
    run = lambda a, b: LOSSES[name](a, b, reduction=reduction) + (a.sum() + b.sum()) * 0  # noqa: E731
    got = results(run, x.cuda(), y.cuda())
    want = results(run, x.double(), y.double())
    for w, g in zip(want, got, strict=True):
        if has_kernels() and name != "positive_weight":  # which has none
            assert g.dtype is getattr(torch, kind)
        near(g._array, w._array, kind, name, 4)


@pytest.mark.parametrize("count", [1, 5, 1000, 40_000, 100_003])
def test_long_losses(count: int) -> None:
    x, y = tensor(count), tensor(count, low=-2)
    for reduction in ("mean", "sum"):
        run = lambda a, b, how=reduction: F.mse_loss(a, b, reduction=how)  # noqa: E731
        got = results(run, x.cuda(), y.cuda())
        for w, g in zip(results(run, x.double(), y.double()), got, strict=True):
            near(g._array, w._array, "float32", "mse")


# ---------------------------------------------------------------------- launches, graphs


def test_rules_have_formulas() -> None:
    """The gradients of common ops take one launch each."""
    for name in "mul div exp log sqrt rsqrt sin cos tanh sigmoid erf abs maximum logaddexp".split():
        op = REGISTRY[name]
        for i, needed in enumerate(op.needed_by):
            values = (ARRAY,) * (1 + op.width + len(op.outs))
            formula = of_rule(op, i).of(F32, values)[0]
            assert formula is not None and len(formula.arrays) <= 1 + len(needed), name


def for_symbols(forward: Any) -> Any:
    """A forward that CuPy is not to run."""

    def run(xp: Any, *args: Any) -> Any:
        assert isinstance(xp, TracedNumPy)
        return forward(xp, *args)

    return run


@needs_kernels
def test_numbers_of_launches(launches: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """One kernel per activation and direction; a loss is one up to 32768 elements, then two."""
    for name in (*UNARY, *REDUCED, "glu", "glu_backward"):
        monkeypatch.setattr(REGISTRY[name], "forward", for_symbols(REGISTRY[name].forward))
    x = tensor(40, 30).cuda().requires_grad_()
    y = tensor(40, 30, low=-2).cuda()
    ones = torch.ones(40, 30, device="cuda")
    for run in (F.mish, F.hardswish, F.softplus, F.elu, F.logsigmoid, F.relu6, torch.square):
        launches.clear()
        out = run(x)
        assert launches == ["unary"]
        torch.autograd.grad(out, x, ones)
        assert launches == ["unary", "binary"]
        launches.clear()
        torch.autograd.grad(run(x).sum(), x)  # one value for all elements
        assert launches == ["unary", "short_rows" if x.numel() <= 256 else "long_rows", "binary"]
    for loss in (F.mse_loss, F.smooth_l1_loss, F.huber_loss, F.binary_cross_entropy_with_logits):
        launches.clear()
        torch.autograd.grad(loss(x, y), x)
        assert launches == ["total", "ternary"]
        launches.clear()
        loss(x, y, reduction="none")
        assert launches == ["binary"]
        launches.clear()
        loss(*[torch.ones(40_000, device="cuda")] * 2)
        assert launches == ["total", "long_rows_end"]
    half = torch.ones(40, 15, device="cuda")
    launches.clear()
    torch.autograd.grad(F.glu(x), x, half)
    assert launches == ["glu", "glu_back"]
    launches.clear()
    image, weight = tensor(4, 3, 50).cuda().requires_grad_(), tensor(3, low=0.1).cuda()
    torch.autograd.grad(F.prelu(image, weight.requires_grad_()), [image, weight], image.detach())
    assert launches == ["spread", "prelu_back"]


LAYERS: dict[str, Run] = {
    "smooth": lambda nn: [nn.Mish(), nn.Linear(8, 8), nn.Softplus(), nn.ELU()],
    "corners": lambda nn: [nn.Hardswish(), nn.PReLU(8), nn.Linear(8, 8), nn.ReLU6(), nn.GLU()],
}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("loss", ["mse_loss", "smooth_l1_loss", "binary_cross_entropy_with_logits"])
def test_captured_step(name: str, loss: str) -> None:
    """A step recorded as a graph gives what it gives without."""
    found = []
    for graphed in (False, True):
        torch.manual_seed(0)
        layers = LAYERS[name](torch.nn)
        model = torch.nn.Sequential(torch.nn.Linear(6, 8), *layers).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step(x: Any, y: Any, model: Any = model, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            value = getattr(F, loss)(model(x), y)
            value.backward()
            optimizer.step()
            return value

        run = torch.cuda.make_graphed_step(step) if graphed else step
        seen = []
        for i in range(6):
            x = torch.sin(torch.arange(24.0).reshape(4, 6) + i).cuda()
            y = torch.full((4, 4 if name == "corners" else 8), 0.1 * i).cuda()
            seen.append(run(x, y).item())
        found.append((seen, [p.detach().cpu() for p in model.parameters()]))
    assert found[0][0] == found[1][0]
    assert all([torch.equal(a, b) for a, b in zip(found[0][1], found[1][1], strict=True)])


# ---------------------------------------------------------------------- two dtypes


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["add", "sub", "mul", "div"])
def test_half_precision_beside_single(name: str, half: Any) -> None:
    run = getattr(torch, name)
    for shape in ((), (1,), (7, 3), (5, 64), (4099,)):
        x = torch.sin(torch.arange(float(math.prod(shape))).reshape(shape)) + 1.5
        y = torch.cos(torch.arange(float(math.prod(shape))).reshape(shape)).to(half) + 2
        pairs = [(x, y), (y, x)]
        if len(shape) == 2:
            pairs += [(x.T, y.T), (x[:, 1:], y[:, 1:])]
        for a, b in pairs:
            a, b = a.cuda(), b.cuda()
            assert run(a, b).dtype == torch.float32
            assert torch.equal(run(a, b), run(a.float(), b.float()))
        for number in (0.3, 3, -1.7):
            assert run(y.cuda(), number).dtype == half
            assert torch.equal(run(y.cuda(), number), run(y.cuda().float(), number).to(half))
            made = torch.div(number, y.cuda()) if name == "div" else run(y.cuda(), number)
            assert made.dtype == half


def test_gradients_of_two_dtypes() -> None:
    x = torch.linspace(-1, 1, 12).reshape(3, 4).cuda().requires_grad_()
    y = torch.linspace(0.5, 2, 12).reshape(3, 4).to(torch.bfloat16).cuda().requires_grad_()
    out = (x * y + y) / 0.5
    assert out.dtype == torch.float32
    out.sum().backward()
    assert x.grad.dtype == torch.float32 and y.grad.dtype == torch.bfloat16
    assert torch.equal(x.grad, 2 * y.detach().float())
    assert torch.equal(y.grad, (2 * x.detach()).to(torch.bfloat16) + 2)


@needs_kernels
def test_two_dtypes_are_one_launch(launches: list[str]) -> None:
    x, y = torch.ones(3, 4, device="cuda"), torch.ones(3, 4, device="cuda", dtype=torch.bfloat16)
    for run in (lambda: x + y, lambda: y * x, lambda: y * 0.5, lambda: 1 - y):
        launches.clear()
        run()
        assert len(launches) == 1


@needs_kernels
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_numbers_that_are_too_large_are_infinite_without_a_warning(dtype: Any) -> None:
    x = torch.tensor([1.0, -2.0], dtype=dtype).cuda()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (x * 1e39).tolist() == [math.inf, -math.inf]
