"""Batch, group, instance and rms norm: kernels against float64 (on a GPU), launches, and steps.

The kernels themselves run on a real GPU only; elsewhere the blocks' own forwards do.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad
from tapegrad.api.publish import load_everything
from tapegrad.core import devices
from tapegrad.core.op import REGISTRY
from tapegrad.kernels.backend import Backend
from tapegrad.kernels.cuda.launchers import norm_launchers
from tapegrad.kernels.cuda.launchers import norms as cupy_norms
from tapegrad.kernels.cuda.launchers import rms as cupy_rms
from tapegrad.ops.block.definition import apply
from tapegrad.ops.nn.layer_norm import FusedRmsNorm

load_everything()
torch: Any = tapegrad
F = torch.nn.functional
real_gpu = pytest.mark.skipif(
    not hasattr(devices.DEVICE.xp, "RawKernel"), reason="fused kernels need CuPy and a GPU"
)
rng = np.random.default_rng(0)
TOLERANCE = {"float32": 3e-6, "float64": 1e-13, "float16": 1e-3, "bfloat16": 8e-3}
KINDS = [(kind, kind) for kind in TOLERANCE] + [("float16", "float32"), ("bfloat16", "float32")]
F64 = np.dtype(np.float64)


@pytest.fixture(autouse=True)
def same_numbers() -> None:
    """Whatever other tests have run before."""
    global rng
    rng = np.random.default_rng(0)


def draw(*shape: int, kind: str = "float32", shift: float = 0.0) -> Any:
    values = rng.standard_normal(shape) + shift
    return torch.from_numpy(values).to(getattr(torch, kind))._array


class Compiles:
    """Stands for a GPU whose kernels do nothing but note that they were started."""

    blocks = 132 * 16
    joins = None

    def __init__(self) -> None:
        self.started: list[str] = []
        self.xp = devices.DEVICE.xp

        class RawKernel:
            def __init__(kernel, code: str, name: str, options: Any) -> None:  # noqa: N805
                kernel.name = name

            def __call__(kernel, grid: Any, block: Any, args: Any) -> None:  # noqa: N805
                assert block[0] * (*block, 1)[1] <= 512 or kernel.name == "columns_end"
                self.started.append(kernel.name)

        class Module:
            """The array module with kernels that are only noted."""

            def __getattr__(module, name: str) -> Any:  # noqa: N805
                return getattr(devices.DEVICE.xp, name)

        self.RawKernel = RawKernel
        self.xp = Module()
        self.xp.RawKernel = RawKernel  # type: ignore[attr-defined]

    def kernel(self, source: str, kind: str, name: str, **parts: Any) -> Any:
        return self.RawKernel("", name, ())

    def grid(self, count: int) -> tuple[int]:
        return (max(1, count // 256),)


def reference(name: str) -> Any:
    return lambda *args: REGISTRY[name].forward(devices.DEVICE.xp, *args)


def made(gpu: Any) -> Any:
    """A backend with the kernels of norms alone."""
    backend = Backend("cuda", gpu.xp)
    norm_launchers.register(backend, gpu, reference)
    return backend


@pytest.fixture(params=["whole", "parts"])
def kernels(request: Any, monkeypatch: Any) -> Any:
    """The overrides; large arrays go in parts, and with "parts" small ones do as well."""
    if request.param == "parts":
        monkeypatch.setattr(cupy_norms, "OWNED", 8)
        monkeypatch.setattr(cupy_norms, "PIECE", 24)
        monkeypatch.setattr(cupy_norms, "TALL", 3)
    gpu = devices.DEVICE.backend.gpu
    if request.param == "parts":
        monkeypatch.setattr(gpu, "blocks", 16 * 132)
    return made(gpu).overrides


def moved(x: Any, last: bool = False) -> Any:
    if not isinstance(x, np.ndarray):
        return x
    if not last:
        return devices.DEVICE.xp.asarray(np.ascontiguousarray(x))
    back = (0, x.ndim - 1, *range(1, x.ndim - 1))
    rows = np.ascontiguousarray(x.transpose(0, *range(2, x.ndim), 1))
    return devices.DEVICE.xp.asarray(rows).transpose(back)


def wide(x: Any) -> Any:
    return x.astype(F64) if isinstance(x, np.ndarray) else x


def close(got: Any, want: Any, kind: str, factor: float = 1) -> None:
    a = devices.DEVICE.xp.asnumpy(got).astype(F64)
    assert a.shape == want.shape
    if not want.size:
        return
    bound = TOLERANCE[kind] * factor
    scale = bound * max(1.0, float(np.abs(want[np.isfinite(want)]).max(initial=0)))
    np.testing.assert_allclose(a, want, rtol=bound, atol=scale)


# ---------------------------------------------------------------------- kernels, on a GPU

BATCHES = [
    ((3, 5, 7), False),
    ((4, 3, 4, 6), False),
    ((9, 12), False),
    ((70, 33), False),
    ((3, 8, 5, 3), True),
    ((2, 5, 3, 2, 2), True),
    ((2, 36, 11, 4), True),
    ((1, 2, 40, 50), False),
    ((2, 70, 2), False),
]


@real_gpu
@pytest.mark.parametrize(("kind", "parameter"), KINDS)
@pytest.mark.parametrize(("shape", "last"), BATCHES)
def test_batch_norm(kernels: Any, kind: str, parameter: str, shape: Any, last: bool) -> None:
    x, g = draw(*shape, kind=kind, shift=3), draw(*shape, kind=kind)
    w, b = draw(shape[1], kind=parameter), draw(shape[1], kind=parameter)
    near, far = moved(x, last), moved(g, last)
    loose = 1 if parameter == kind else 2
    single = "float64" if kind == "float64" else "float32"
    for weight, bias in ((w, b), (w, None), (None, None)):
        parameters = moved(weight), moved(bias)
        want = REGISTRY["native_batch_norm"].kernel(wide(x), wide(weight), wide(bias), 1e-5, F64)
        out, stats = kernels["native_batch_norm"](near, *parameters, 1e-5, x.dtype)
        assert out.dtype == x.dtype
        assert out.strides == near.strides
        close(out, want[0], kind, loose)
        close(stats, want[1], single, 4)
        rest = (True, 1e-5, bias is not None)
        pulled = REGISTRY["native_batch_norm_backward"].kernel(
            wide(g), wide(x), wide(weight), want[1], *rest
        )
        found = kernels["native_batch_norm_backward"](far, near, parameters[0], stats, *rest)
        count = x.size // shape[1]
        for got, value in zip(found, pulled, strict=True):
            close(got, value, kind, loose * 4 * max(1, count / 100))
        assert found[0].strides == near.strides
        # A gradient that lies otherwise.
        other = moved(g, not last and len(shape) in (4, 5))
        again = kernels["native_batch_norm_backward"](other, near, parameters[0], stats, *rest)
        assert all([bool((a == b).all()) for a, b in zip(again, found, strict=True)])


@real_gpu
@pytest.mark.parametrize(("kind", "parameter"), KINDS)
@pytest.mark.parametrize(("shape", "last"), BATCHES)
def test_given_statistics(kernels: Any, kind: str, parameter: str, shape: Any, last: bool) -> None:
    x, g = draw(*shape, kind=kind, shift=1), draw(*shape, kind=kind)
    w, b, mean = [draw(shape[1], kind=parameter) for _ in range(3)]
    var = abs(draw(shape[1], kind=parameter).astype(F64)).astype(w.dtype)
    arrays = (x, w, b, mean, var)
    want = REGISTRY["native_batch_norm_fixed"].kernel(*[wide(a) for a in arrays], 1e-3)
    given = [moved(x, last), *[moved(a) for a in arrays[1:]]]
    close(kernels["native_batch_norm_fixed"](*given, 1e-3), want, kind, 4)
    stats = np.stack([wide(mean), 1 / np.sqrt(wide(var) + 1e-3)])
    pulled = REGISTRY["native_batch_norm_backward"].kernel(
        wide(g), wide(x), wide(w), stats, False, 1e-3, True
    )
    kept = stats.astype(np.float64 if kind == "float64" else np.float32)
    found = kernels["native_batch_norm_backward"](
        moved(g, last), given[0], given[1], moved(kept), False, 1e-3, True
    )
    for got, value in zip(found, pulled, strict=True):
        close(got, value, kind, 8)


GROUPS = [
    ((3, 4), 2),
    ((2, 6, 5), 3),
    ((3, 8, 4, 4), 2),
    ((2, 4, 9, 8), 4),
    ((1, 6, 30, 30), 1),
    ((40, 2, 3), 1),
]


@real_gpu
@pytest.mark.parametrize(("kind", "parameter"), KINDS)
@pytest.mark.parametrize(("shape", "groups"), GROUPS)
def test_group_norm(kernels: Any, kind: str, parameter: str, shape: Any, groups: int) -> None:
    x, g = draw(*shape, kind=kind, shift=3), draw(*shape, kind=kind)
    w, b = draw(shape[1], kind=parameter), draw(shape[1], kind=parameter)
    for weight, bias in ((w, b), (w, None), (None, b), (None, None)):
        given = moved(x), moved(weight), moved(bias)
        want = REGISTRY["native_group_norm"].kernel(wide(x), wide(weight), wide(bias), groups, 1e-5)
        out, mean, rstd = kernels["native_group_norm"](*given, groups, 1e-5)
        close(out, want[0], kind, 2)
        kept = parameter if weight is not None or bias is not None else kind
        for got, value in zip((mean, rstd), want[1:], strict=True):
            assert str(got.dtype) == kept
            close(got, value, kept, 2)
        rest = (groups, 1e-5, bias is not None)
        seen = [devices.DEVICE.xp.asnumpy(s).astype(F64) for s in (mean, rstd)]
        pulled = REGISTRY["native_group_norm_backward"].kernel(
            wide(g), wide(x), *seen, wide(weight), *rest
        )
        found = kernels["native_group_norm_backward"](
            moved(g), given[0], mean, rstd, given[1], *rest
        )
        for got, value in zip(found, pulled, strict=True):
            close(got, value, kind, 8)


ROWS = [
    ((3, 5), 1),
    ((7, 4, 16), 1),
    ((5, 3, 4), 2),
    ((33, 130), 1),
    ((2, 2051), 1),
    ((3, 4096), 1),
]


@real_gpu
@pytest.mark.parametrize("kind", TOLERANCE)
@pytest.mark.parametrize(("shape", "nd"), ROWS)
def test_rms_norm(kernels: Any, kind: str, shape: Any, nd: int) -> None:
    x, g = draw(*shape, kind=kind, shift=0.5), draw(*shape, kind=kind)
    for weight in (draw(*shape[len(shape) - nd :], kind=kind), None):
        want = REGISTRY["fused_rms_norm"].kernel(wide(x), wide(weight), nd, 1e-5)
        out, rstd = kernels["fused_rms_norm"](moved(x), moved(weight), nd, 1e-5)
        close(out, want[0], kind)
        close(rstd, want[1], "float64" if kind == "float64" else "float32")
        pulled = REGISTRY["fused_rms_norm_backward"].kernel(
            wide(g), wide(x), want[1], wide(weight), nd, 1e-5
        )
        found = kernels["fused_rms_norm_backward"](
            moved(g), moved(x), rstd, moved(weight), nd, 1e-5
        )
        for got, value in zip(found, pulled, strict=True):
            close(got, value, kind, 4)


@real_gpu
def test_large_means() -> None:
    """A variance that a difference of squares would lose."""
    x = (rng.standard_normal((8, 3, 64, 64)) + 1e4).astype(np.float32)
    for last in (False, True):
        out, stats = devices.DEVICE.backend.overrides["native_batch_norm"](
            moved(x, last), None, None, 0.0, x.dtype
        )
        var = wide(x).var((0, 2, 3))
        np.testing.assert_allclose(devices.DEVICE.xp.asnumpy(stats)[2], var, rtol=1e-4)
        want = (wide(x) - wide(x).mean((0, 2, 3), keepdims=True)) / np.sqrt(var)[:, None, None]
        np.testing.assert_allclose(devices.DEVICE.xp.asnumpy(out), want, atol=5e-3)


@real_gpu
def test_not_finite() -> None:
    """NaN where PyTorch has it, and nowhere else."""
    x = draw(4, 3, 5, 2)
    x[1, 0, 2, 1], x[2, 2, 0, 0] = np.inf, np.nan
    for last in (False, True):
        out, _ = devices.DEVICE.backend.overrides["native_batch_norm"](
            moved(x, last), None, None, 1e-5, x.dtype
        )
        bad = np.isnan(devices.DEVICE.xp.asnumpy(out))
        assert bad[:, 0].all()
        assert bad[:, 2].all()
        assert not bad[:, 1].any()


# ---------------------------------------------------------------------- launches


def started(run: Any) -> list[str]:
    """The kernels that `run(overrides, array)` starts on a GPU of 132 processors."""
    gpu = Compiles()
    run(made(gpu).overrides, lambda *shape: devices.DEVICE.xp.zeros(shape, np.float32))
    return gpu.started


@pytest.mark.parametrize(
    ("shape", "forward", "back"),
    [
        ((64, 512), ["norm_whole"], ["back_whole"]),
        ((32, 2048, 7, 7), ["norm_whole"], ["back_whole"]),
        ((8, 256, 28, 28), ["norm_whole"], ["back_whole"]),
        ((4, 16, 64, 65), ["norm_parts", "norm_apply"], ["back_parts", "back_apply"]),
        ((4096, 64), ["norm_parts", "norm_apply"], ["back_parts", "back_apply"]),
    ],
)
def test_launches_of_batch_norm(shape: Any, forward: list[str], back: list[str]) -> None:
    def run(o: Any, zeros: Any) -> None:
        x, w = zeros(*shape), zeros(shape[1])
        stats = o["native_batch_norm"](x, w, w, 1e-5, x.dtype)[1]
        assert o["follow_statistics"](w, w, stats, 0.1, 1.0)
        o["native_batch_norm_backward"](x, x, w, stats, True, 1e-5, True)
        o["native_batch_norm_fixed"](x, w, w, w, w, 1e-5)

    assert started(run) == [*forward, "follow", *back, "norm_fixed"]


@pytest.mark.parametrize(
    ("shape", "groups", "forward"),
    [((8, 64, 16, 16), 8, ["norm_whole"]), ((2, 320, 64, 64), 32, ["norm_parts", "norm_apply"])],
)
def test_launches_of_group_norm(shape: Any, groups: int, forward: list[str]) -> None:
    def run(o: Any, zeros: Any) -> None:
        x, w = zeros(*shape), zeros(shape[1])
        _, mean, rstd = o["native_group_norm"](x, w, w, groups, 1e-5)
        o["native_group_norm_backward"](x, x, mean, rstd, w, groups, 1e-5, True)

    assert started(run) == [*forward, "back_parts", "group_back"]


def test_launches_of_rms_norm() -> None:
    def run(o: Any, zeros: Any) -> None:
        x, w = zeros(64, 1024), zeros(1024)
        rstd = o["fused_rms_norm"](x, w, 1, 1e-5)[1]
        o["fused_rms_norm_backward"](x, x, rstd, w, 1, 1e-5)
        o["fused_rms_norm_backward"](x, x, rstd, None, 1, 1e-5)

    assert started(run) == ["rms", "rms_back", "columns_end", "rms_back"]


def test_what_has_no_kernel() -> None:
    """Goes to the block's own forward."""

    def run(o: Any, zeros: Any) -> None:
        xp = devices.DEVICE.xp
        assert o["native_batch_norm"](zeros(0, 3), None, None, 1e-5, F64)[0].shape == (0, 3)
        wide_weight = xp.ones(3, np.float64)
        x = xp.ones((2, 3), np.float32)
        o["native_batch_norm"](x, wide_weight, None, 1e-5, F64)
        o["fused_rms_norm"](xp.ones((1, 40000), np.float32), None, 1, 1e-5)
        assert not o["follow_statistics"](zeros(3), zeros(4)[:3], zeros(2, 3), 0.1, 1.0)

    with np.errstate(all="ignore"):
        assert started(run) == []


def test_blocks_fit() -> None:
    assert cupy_rms.team(1) == (1, 256)
    assert cupy_rms.team(100) == (16, 16)
    assert cupy_rms.team(300) == (64, 1)
    assert cupy_rms.team(10**6) == (512, 1)


# ---------------------------------------------------------------------- from the API to the kernel


def trained(place: str, last: bool, kind: str, graphed: bool = False) -> list[Any]:
    """Losses, running statistics, parameters after four steps."""
    torch.manual_seed(0)
    nn = torch.nn
    model = nn.Sequential(
        nn.BatchNorm2d(4),
        nn.GroupNorm(2, 4),
        nn.ReLU(),
        nn.InstanceNorm2d(4, affine=True),
        nn.Flatten(),
        nn.BatchNorm1d(80),
        nn.RMSNorm(80),
        nn.Linear(80, 3),
    ).to(place, getattr(torch, kind))
    params = [p for p in model.parameters() if p.requires_grad]

    def step(x: Any, y: Any) -> Any:
        for p in params:
            p.grad = None
        loss = F.mse_loss(model(x), y)
        loss.backward()
        with torch.no_grad():
            for p in params:
                p.add_(p.grad, alpha=-0.1)
        return loss

    run = torch.cuda.make_graphed_step(step) if graphed else step
    seen = []
    for i in range(6):
        x = torch.sin(torch.arange(480.0).reshape(6, 4, 4, 5) * (i + 1)).to(getattr(torch, kind))
        if last:
            x = x.to(memory_format=torch.channels_last)
        y = torch.cos(torch.arange(18.0)).reshape(6, 3).to(getattr(torch, kind))
        seen.append(run(x.to(place), y.to(place)).item())
    state = [t.detach().cpu() for t in model.state_dict().values()]
    return [seen, *state]


@pytest.mark.parametrize("last", [False, True])
def test_training_as_on_the_cpu(last: bool) -> None:
    want, got = trained("cpu", last, "float64"), trained("cuda", last, "float64")
    assert got[0] == pytest.approx(want[0], rel=1e-9)
    for a, b in zip(got[1:], want[1:], strict=True):
        assert a.dtype == b.dtype
        assert torch.allclose(a, b, rtol=1e-8, atol=1e-9)


def test_training_in_a_graph() -> None:
    eager, graphed = trained("cuda", False, "float32"), trained("cuda", False, "float32", True)
    assert eager[0] == graphed[0]
    for a, b in zip(eager[1:], graphed[1:], strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("kind", TOLERANCE)
def test_running_statistics(kind: str) -> None:
    dtype = getattr(torch, kind)
    x = torch.from_numpy(rng.standard_normal((5, 3, 4)) + 2).to(dtype)
    found = []
    for place in ("cpu", "cuda"):
        mean, var = [torch.full((3,), v, dtype=dtype, device=place) for v in (0.5, 2.0)]
        version = mean._version
        F.batch_norm(x.to(place), mean, var, training=True, momentum=0.3)
        assert mean._version == version
        found.append([t.cpu().double() for t in (mean, var)])
    for a, b in zip(*found, strict=True):
        assert torch.allclose(a, b, rtol=4 * TOLERANCE[kind], atol=TOLERANCE[kind])


@pytest.mark.parametrize("weighted", [False, True])
def test_evaluation(weighted: bool) -> None:
    """By given statistics, with gradients."""
    grads = []
    for place in ("cpu", "cuda"):
        torch.manual_seed(0)
        x = torch.randn(4, 3, 5, dtype=torch.float64).to(place).requires_grad_()
        mean = torch.randn(3, dtype=torch.float64).to(place)
        var = torch.rand(3, dtype=torch.float64).to(place)
        leaves = [x]
        if weighted:
            for _ in range(2):
                leaves.append(torch.randn(3, dtype=torch.float64).to(place).requires_grad_())
        out = F.batch_norm(x, mean, var, *leaves[1:])
        found = torch.autograd.grad((out * out).sum(), leaves)
        grads.append([g.cpu() for g in (out.detach(), *found)])
    for a, b in zip(*grads, strict=True):
        assert torch.allclose(a, b, rtol=1e-10, atol=1e-12)


def test_names() -> None:
    x = torch.randn(2, 3, 4, device="cuda", requires_grad=True)
    w = torch.ones(4, device="cuda", requires_grad=True)
    assert "FusedRmsNormBackward0" in repr(F.rms_norm(x, (4,), w).grad_fn)
    assert "ViewBackward0" in repr(F.instance_norm(x).grad_fn)
    # PyTorch has no kernel for a weight of another dtype, nor for complex numbers.
    assert "Fused" not in repr(F.rms_norm(x, (4,), w.double()).grad_fn)
    assert "Fused" not in repr(F.rms_norm(x + 0j, (4,)).grad_fn)


def test_instance_norm_refuses_as_on_the_cpu() -> None:
    for arguments in ({"weight": torch.ones(4)}, {"bias": torch.ones(2)}):
        messages = []
        for place in ("cpu", "cuda"):
            moved_arguments = {k: v.to(place) for k, v in arguments.items()}
            with pytest.raises(RuntimeError) as caught:
                F.instance_norm(torch.ones(2, 3, 4, device=place), **moved_arguments)
            messages.append(str(caught.value))
        assert messages[0] == messages[1]


def test_rms_block_on_the_cpu() -> None:
    """Its rules, where differences are cheap to form."""
    torch.manual_seed(0)
    x = torch.randn(3, 2, 4, dtype=torch.float64, requires_grad=True)
    w = torch.randn(2, 4, dtype=torch.float64, requires_grad=True)

    def norm(x: Any, w: Any = None) -> Any:
        return apply(FusedRmsNorm, (x, w), (2, 1e-3))[0]

    assert torch.allclose(norm(x, w), F.rms_norm(x, (2, 4), w, 1e-3))
    for inputs in ((x, w), (x,)):
        assert torch.autograd.gradcheck(norm, inputs, check_forward_ad=True)
        assert torch.autograd.gradgradcheck(norm, inputs)
    rows = torch.stack([norm(x, v) for v in (w, 2 * w)])
    assert torch.allclose(torch.vmap(norm, (None, 0))(x, torch.stack([w, 2 * w])), rows)
