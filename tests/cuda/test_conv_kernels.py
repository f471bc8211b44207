"""Convolution and pooling: the kernels against the blocks' own forwards, and a captured step.

The kernels themselves need a real GPU; the rest runs on the stand-in too.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import tapegrad
from tapegrad.api.publish import load_everything
from tapegrad.core import devices
from tapegrad.core.op import REGISTRY
from tapegrad.ops.nn.conv import out_size

load_everything()
torch: Any = tapegrad
nn, F = torch.nn, torch.nn.functional
xp = devices.DEVICE.xp
real_gpu = pytest.mark.skipif(
    not hasattr(xp, "RawKernel"), reason="fused kernels need CuPy and a GPU"
)
rng = np.random.default_rng(0)
TOLERANCE = {"float32": 2e-5, "float64": 1e-11, "float16": 4e-3, "bfloat16": 3e-2}
KINDS = list(TOLERANCE)


def draw(*shape: int, kind: str = "float32") -> Any:
    return torch.from_numpy(rng.uniform(-2, 2, shape)).to(getattr(torch, kind))


def close(got: Any, want: Any, kind: str, what: str) -> None:
    """The same numbers, up to what the dtype and sums of some length make of them."""
    assert got.shape == want.shape, what
    if not want.numel():
        return
    a, b = got.detach().cpu().double().numpy(), want.detach().double().numpy()
    scale = TOLERANCE[kind] * max(1.0, float(np.abs(b[np.isfinite(b)]).max(initial=0.0)))
    np.testing.assert_allclose(a, b, rtol=TOLERANCE[kind], atol=scale, err_msg=what)


def both_ways(function: Any, tensors: list[Any], kind: str, what: str) -> None:
    """A function and its gradients, on the GPU and (in float64, of the same numbers) on the CPU."""
    found = []
    for place in ("cpu", "cuda"):
        dtype = torch.float64 if place == "cpu" else getattr(torch, kind)
        own = [None if t is None else t.clone().to(dtype).to(place) for t in tensors]
        leaves = [t.requires_grad_() for t in own if t is not None]
        out = function(*own)
        slope = torch.cos(torch.arange(out.numel())).reshape(out.shape).to(getattr(torch, kind))
        out.backward(slope.to(out.dtype).to(place))
        found.append([out, *[t.grad for t in leaves]])
    for i, (want, got) in enumerate(zip(*found, strict=True)):
        assert str(got.dtype) == f"torch.{kind}"
        close(got, want, kind, f"{what}: {'gradient' if i else 'result'} {i}")


# Input, weight, and what else the function takes.
CONVOLUTIONS = [
    ((2, 3, 11), (4, 3, 3), {}),
    ((3, 4, 17), (6, 2, 5), {"stride": 2, "padding": 3, "dilation": 2, "groups": 2}),
    ((2, 3, 9, 7), (5, 3, 3, 3), {"padding": 1}),
    ((1, 3, 9, 7), (5, 3, 3, 3), {"padding": 1}),
    ((3, 2, 12, 10), (4, 2, 3, 2), {"stride": (2, 3), "padding": (1, 0), "dilation": (1, 2)}),
    ((2, 6, 8, 8), (9, 2, 3, 3), {"groups": 3, "stride": 2, "padding": 2}),
    ((2, 6, 8, 5), (6, 1, 3, 3), {"groups": 6, "padding": 1}),
    ((3, 2, 20, 70), (4, 1, 3, 3), {"groups": 2, "padding": 1}),
    ((2, 3, 21, 19), (3, 1, 5, 5), {"groups": 3, "padding": 2, "stride": 2}),
    ((2, 2, 17, 34), (2, 1, 7, 7), {"groups": 2, "padding": (3, 2), "stride": (1, 3)}),
    ((2, 3, 90), (3, 1, 4), {"groups": 3, "stride": 3, "padding": 1}),
    ((2, 3, 9, 8), (6, 1, 3, 2), {"groups": 3, "stride": 2, "dilation": 2}),
    ((3, 5, 6, 4), (7, 5, 1, 1), {}),
    ((3, 40, 2, 3), (7, 40, 1, 1), {}),
    ((3, 5, 6, 5), (7, 5, 1, 1), {"stride": 2}),
    ((3, 5, 6, 4), (7, 5, 1, 1), {"padding": 1}),
    ((4, 5, 4, 3), (7, 5, 4, 3), {}),
    ((2, 3, 5, 6, 4), (4, 3, 2, 3, 3), {"padding": 1, "stride": (1, 2, 1)}),
    ((2, 4, 5, 6, 4), (4, 1, 3, 3, 3), {"groups": 4, "padding": (1, 0, 1)}),
    ((2, 3, 5, 5), (2, 3, 9, 9), {"padding": 4}),
]
TRANSPOSED = [
    ((2, 3, 7), (3, 4, 3), {"stride": 2, "padding": 1, "output_padding": 1}),
    ((2, 3, 5, 4), (3, 4, 3, 3), {"stride": 2, "padding": 1, "output_padding": 1}),
    ((2, 4, 5, 4), (4, 3, 3, 2), {"groups": 2, "dilation": 2}),
    ((2, 4, 5, 4), (4, 1, 3, 3), {"groups": 4, "stride": 2}),
    ((2, 4, 5, 4), (4, 3, 1, 1), {}),
    ((2, 4, 1, 1), (4, 3, 3, 3), {}),
    ((1, 2, 3, 4, 3), (2, 3, 2, 2, 2), {"stride": 2}),
]


@real_gpu
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", CONVOLUTIONS, ids=str)
def test_convolution(case: Any, kind: str) -> None:
    x, w, how = case
    run = getattr(F, f"conv{len(x) - 2}d")
    for biased in (False, True):
        bias = draw(w[0], kind=kind) if biased else None
        tensors = [draw(*x, kind=kind), draw(*w, kind=kind), bias]
        both_ways(lambda *t: run(*t, **how), tensors, kind, str(case))


@real_gpu
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", TRANSPOSED, ids=str)
def test_transposed_convolution(case: Any, kind: str) -> None:
    x, w, how = case
    run = getattr(F, f"conv_transpose{len(x) - 2}d")
    for biased in (False, True):
        bias = draw(w[1] * how.get("groups", 1), kind=kind) if biased else None
        tensors = [draw(*x, kind=kind), draw(*w, kind=kind), bias]
        both_ways(lambda *t: run(*t, **how), tensors, kind, str(case))


# Images, channels, features, size, kernel, stride, padding, dilation, bias, transposed: sizes that
# are multiples of the pieces that kernels take, and others; more than one block along each way.
TF32: list[tuple[Any, ...]] = [
    (2, 16, 16, (8, 8), 3, 1, 1, 1, True, False),
    (3, 64, 64, (32, 32), 3, 1, 1, 1, False, False),
    (2, 64, 128, (16, 16), 3, 2, 1, 1, True, False),
    (5, 128, 64, (9, 7), 3, 2, 0, 1, False, False),
    (2, 20, 36, (11, 13), 5, 1, 2, 2, True, False),
    (2, 32, 48, (10,), 3, 2, 1, 1, True, False),
    (2, 16, 24, (5, 6, 7), 3, 1, 1, 1, True, False),
    (2, 64, 32, (9, 9), 3, 2, 1, 1, True, True),
    (1, 256, 132, (8, 8), 3, 1, 1, 1, False, False),
    (2, 24, 16, (9, 9), (1, 3), (1, 2), (0, 1), 1, False, False),
    (2, 64, 128, (9, 8), 1, 2, 0, 1, False, False),
]
# What kernels for Hopper take, with strides whose classes of places meet few taps or none.
WIDE: list[tuple[Any, ...]] = [
    (2, 64, 64, (11, 10), 3, 3, 1, 1, True, False),
    (3, 64, 128, (7, 7), 3, 1, 1, 1, True, False),
    (3, 64, 64, (10, 9), 2, 3, 1, 1, False, False),
    (2, 32, 64, (50,), 3, 1, 1, 1, True, False),
    (1, 64, 64, (4, 5, 6), 3, 2, 1, 1, True, False),
    (2, 64, 64, (13, 12), 3, 3, 2, 2, False, False),
    (2, 128, 256, (9, 7), 3, 2, 1, 1, False, False),
    (2, 64, 64, (5, 6), 3, 2, 1, 1, True, True),
    (1, 64, 192, (6, 40), (5, 3), (2, 1), (2, 0), 1, False, False),
]


def relative(got: Any, want: Any) -> float:
    a, b = got.detach().cpu().double().numpy(), want.detach().double().numpy()
    return float(np.abs(a - b).max() / np.abs(b).max())


@pytest.mark.parametrize("case", WIDE, ids=str)
def test_tf32_on_hopper(case: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of shapes for which they would not pay, and which no other test has: plans are kept."""
    from tapegrad.kernels.cuda.launchers import conv_products

    monkeypatch.setattr(conv_products, "pays", lambda *sizes: True)
    test_tf32(case)


def test_lines_with_zeros_at_their_ends() -> None:
    """As many as channels need to begin at multiples of 16 bytes."""
    from tapegrad.kernels.cuda.launchers.conv_products import widened

    assert widened((2, 64, 7, 7)) == (2, 64, 7, 8)
    assert widened((2, 64, 6, 7)) == (2, 64, 6, 8)
    assert widened((2, 64, 14, 14)) == (2, 64, 14, 14)
    assert widened((2, 64, 3, 5, 5)) == (2, 64, 3, 5, 8)
    assert widened((2, 64, 49)) == (2, 64, 52)


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("size", [64, 128])
@pytest.mark.parametrize("case", TF32 + WIDE, ids=str)
def test_what_tiles_meet(case: Any, size: int, back: bool) -> None:
    """As much shared memory is asked for as the places of the worst tile meet."""
    from tapegrad.kernels.cuda.launchers import conv_hopper

    _, channels, features, given, kernel, *how, _, _ = case
    rank = len(given)
    full = [(n,) * rank if isinstance(n, int) else n for n in (kernel, *how)]
    kernel, stride, low, dilation = full
    out = out_size(given, *full[:2], low, dilation)
    x, y = (2, channels, *given), (2, features, *out)
    shape = (features, channels, *kernel)
    geometry = conv_hopper.Geometry(x, shape, y, stride, low, dilation)
    found = conv_hopper.tiles(geometry, back, size)
    # Which elements of the other each place meets, by the class of the place.
    meets: dict[Any, dict[int, set[int]]] = {}
    for i, window in enumerate(np.ndindex(*out)):
        for tap in np.ndindex(*kernel):
            at = np.array(window) * stride - low + np.array(tap) * dilation
            if (at < 0).any() or (at >= given).any():
                continue
            j = int(np.ravel_multi_index(at, given))
            rest = tuple((at + low) % stride) if back else ()
            own = meets.setdefault(rest, {})
            own.setdefault(j if back else i, set()).add(i if back else j)
    made = math.prod(given if back else out)
    worst = 0
    for rest, own in meets.items():
        places = list(range(made))
        if back:
            spots = [np.array(spot) + low for spot in np.ndindex(*given)]
            places = [i for i, spot in enumerate(spots) if tuple(spot % stride) == rest]
        for start in range(0, len(places), size):
            seen = set().union(*[own.get(p, set()) for p in places[start : start + size]])
            if seen:
                worst = max(worst, max(seen) - min(seen) // 4 * 4 + 1)
    assert worst <= found.wide // found.images
    assert found.wide // found.images <= math.prod(out if back else given) + 3
    assert found.count * size >= max([len(own) for own in meets.values()])


@pytest.mark.parametrize("case", TF32, ids=str)
def test_tf32(case: Any) -> None:
    """Within the precision of TF32, which rounds what is multiplied to 11 bits."""
    images, channels, features, size, kernel, stride, padding, dilation, bias, turned = case
    rank = len(size)
    taps = (kernel,) * rank if isinstance(kernel, int) else kernel
    lead = (channels, features) if turned else (features, channels)
    tensors = [draw(images, channels, *size), draw(*lead, *taps), draw(features)][: 2 + bias]
    convolve = getattr(F, f"conv_transpose{rank}d" if turned else f"conv{rank}d")
    found = []
    for place, dtype in (("cpu", torch.float64), ("cuda", torch.float32)):
        own = [t.to(dtype).to(place).requires_grad_() for t in tensors]
        with torch.backends.cudnn.flags(allow_tf32=True):
            given = own if bias else [*own, None]
            out = convolve(*given, stride=stride, padding=padding, dilation=dilation)
            out.backward(
                torch.cos(torch.arange(out.numel())).reshape(out.shape).to(dtype).to(place)
            )
        found.append([out, *[t.grad for t in own]])
    for want, got in zip(*found, strict=True):
        assert relative(got, want) < 2.0**-9


@real_gpu
def test_tf32_is_a_switch() -> None:
    x, w = draw(2, 64, 16, 16), draw(64, 64, 3, 3)
    want = F.conv2d(x.double(), w.double(), padding=1)
    errors = []
    for allowed in (True, False):
        with torch.backends.cudnn.flags(allow_tf32=allowed):
            errors.append(relative(F.conv2d(x.cuda(), w.cuda(), padding=1), want))
    assert errors[0] > 1e-5 > 1e-6 > errors[1]


@real_gpu
def test_some_images_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where memory for all windows is not granted."""
    from tapegrad.kernels.cuda.launchers import conv as cupy_conv

    monkeypatch.setattr(cupy_conv, "LIMIT", 4000)
    for kind, groups in (("float32", 1), ("float16", 1), ("float32", 2)):
        # Shapes that no other test has: plans are kept.
        tensors = [
            draw(7, 4, 6, 5, kind=kind),
            draw(6, 4 // groups, 3, 3, kind=kind),
            draw(6, kind=kind),
        ]
        both_ways(
            lambda *t, g=groups: F.conv2d(*t, padding=1, groups=g), tensors, kind, str(groups)
        )


def transposed_memory(x: Any) -> Any:
    """The same values with the channels next to each other."""
    return x.to(memory_format=torch.channels_last)


def test_layouts() -> None:
    """Results lie in memory as on the CPU, whatever way the arguments lie."""
    for last_x, last_w in itertools.product((False, True), repeat=2):
        x, w = draw(2, 3, 6, 5), draw(4, 3, 3, 3)
        x = transposed_memory(x) if last_x else x
        w = transposed_memory(w) if last_w else w
        for run in (
            lambda x, w: F.conv2d(x, w, padding=1),
            lambda x, w: F.conv_transpose2d(x, w[:3], padding=1),
            lambda x, w: F.max_pool2d(x, 2),
            lambda x, w: F.avg_pool2d(x, 3, 2, 1),
            lambda x, w: F.adaptive_avg_pool2d(x, (3, 2)),
            lambda x, w: F.adaptive_max_pool2d(x, (3, 2)),
        ):
            want, got = run(x, w), run(x.cuda(), w.cuda())
            assert got.stride() == want.stride()
            close(got, want, "float32", "layout")
        turned = draw(5, 6, 3, 2).permute(3, 2, 1, 0)
        close(F.conv2d(turned.cuda(), w.cuda()), F.conv2d(turned, w), "float32", "turned")


# ---------------------------------------------------------------------- pooling

MAX = [
    ((2, 3, 11), 2, {}),
    ((2, 3, 12), 5, {"stride": 2, "padding": 2, "dilation": 2, "ceil_mode": True}),
    ((2, 3, 8, 6), 2, {}),
    ((2, 3, 9, 7), 3, {"stride": 2, "padding": 1}),
    ((3, 9, 7), (3, 2), {"stride": (1, 2), "padding": (1, 0)}),
    ((1, 2, 9, 8), 3, {"stride": 2, "dilation": (2, 1), "ceil_mode": True}),
    ((1, 2, 7, 8), 2, {"stride": 3}),
    ((2, 2, 5, 6, 4), (2, 3, 2), {"stride": 1, "padding": (1, 1, 0), "ceil_mode": True}),
]
MEAN = [
    ((2, 3, 11), 2, {}),
    ((2, 3, 12), 5, {"stride": 2, "padding": 2, "ceil_mode": True}),
    ((2, 3, 9, 7), 3, {"stride": 2, "padding": 1}),
    ((2, 3, 9, 7), 3, {"stride": 2, "padding": 1, "count_include_pad": False}),
    ((2, 3, 8, 6), 3, {"stride": 1, "divisor_override": 4, "ceil_mode": True}),
    ((1, 2, 8, 7), 3, {"stride": 2, "padding": 1, "ceil_mode": True, "count_include_pad": False}),
]
VOLUMES = [
    ((2, 2, 5, 6, 4), (2, 3, 2), {"stride": 2, "padding": (1, 1, 0), "ceil_mode": True}),
    ((2, 5, 6, 4), 2, {"stride": 1, "divisor_override": 3}),
]
ADAPTIVE = [
    ((2, 3, 11), 4),
    ((2, 3, 7, 9), (3, 2)),
    ((3, 7, 5), (2, 8)),
    ((2, 3, 8, 8), (4, 4)),
    ((2, 2, 5, 6, 4), (2, 4, 3)),
]


def rank(shape: Any, size: Any) -> int:
    return len(size) if isinstance(size, tuple) and len(size) > 1 else max(1, len(shape) - 2)


@real_gpu
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", MAX, ids=str)
def test_max_pool(case: Any, kind: str) -> None:
    shape, size, how = case
    run = getattr(F, f"max_pool{rank(shape, size)}d")
    x = draw(*shape, kind=kind)
    for indices in (False, True):
        what = f"{case} {indices}"
        both_ways(
            lambda x, i=indices: (
                run(x, size, return_indices=i, **how)[0] if i else run(x, size, **how)
            ),
            [x],
            kind,
            what,
        )
    # Ties, NaN and windows of nothing but -inf.
    odd = draw(*shape).round()
    flat = odd.reshape(-1)
    flat[::7] = float("nan")
    flat[1::3] = float("-inf")
    odd = odd.to(getattr(torch, kind))
    want, where = run(odd, size, return_indices=True, **how)
    got, found = run(odd.cuda(), size, return_indices=True, **how)
    assert found.dtype == torch.int64
    assert found.tolist() == where.tolist()
    np.testing.assert_array_equal(got.float().cpu().numpy(), want.float().numpy())


@real_gpu
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", MEAN, ids=str)
def test_avg_pool(case: Any, kind: str) -> None:
    shape, size, how = case
    run = getattr(F, f"avg_pool{len(shape) - 2}d")
    both_ways(lambda x: run(x, size, **how), [draw(*shape, kind=kind)], kind, str(case))


@real_gpu
@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("case", VOLUMES, ids=str)
def test_avg_pool3d(case: Any, kind: str) -> None:
    shape, size, how = case
    both_ways(lambda x: F.avg_pool3d(x, size, **how), [draw(*shape, kind=kind)], kind, str(case))


@real_gpu
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", ADAPTIVE, ids=str)
def test_adaptive_pools(case: Any, kind: str) -> None:
    shape, size = case
    n = rank(shape, size)
    x = draw(*shape, kind=kind)
    mean, most = getattr(F, f"adaptive_avg_pool{n}d"), getattr(F, f"adaptive_max_pool{n}d")
    both_ways(lambda x: mean(x, size), [x], kind, str(case))
    both_ways(lambda x: most(x, size), [x], kind, str(case))
    odd = x.float().round()
    odd.reshape(-1)[::5] = float("nan")
    odd = odd.to(getattr(torch, kind))
    want, where = most(odd, size, return_indices=True)
    got, found = most(odd.cuda(), size, return_indices=True)
    assert found.tolist() == where.tolist()
    np.testing.assert_array_equal(got.float().cpu().numpy(), want.float().numpy())


RESIZED = [
    ((2, 3, 7), {"scale_factor": 2.5}, ("nearest", "nearest-exact", "linear")),
    ((2, 3, 4, 5), {"scale_factor": 2}, ("nearest", "nearest-exact", "bilinear", "bicubic")),
    ((2, 3, 9, 7), {"size": (4, 11)}, ("nearest", "nearest-exact", "bilinear", "bicubic")),
    ((1, 2, 3, 4, 5), {"size": (5, 4, 2)}, ("nearest", "nearest-exact", "trilinear")),
]


@real_gpu
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", RESIZED, ids=str)
def test_resizing(case: Any, kind: str) -> None:
    shape, how, modes = case
    x = draw(*shape, kind=kind)
    for mode in modes:
        for align in (None,) if mode.startswith("nearest") else (False, True):
            what = f"{mode} {align} {case}"
            both_ways(
                lambda x, m=mode, a=align: F.interpolate(x, mode=m, align_corners=a, **how),
                [x],
                kind,
                what,
            )


@real_gpu
@pytest.mark.parametrize("kind", KINDS)
def test_unfold_and_fold(kind: str) -> None:
    for how in ({}, {"dilation": 2, "padding": 1, "stride": (1, 2)}):
        x = draw(2, 3, 7, 8, kind=kind)
        both_ways(lambda x, how=how: F.unfold(x, (3, 2), **how), [x], kind, f"unfold {how}")
        cols = draw(*F.unfold(x, (3, 2), **how).shape, kind=kind)
        both_ways(lambda c, how=how: F.fold(c, (7, 8), (3, 2), **how), [cols], kind, f"fold {how}")


def test_second_derivatives() -> None:
    """Rules of gradients run the same kernels."""
    results = []
    for place in ("cpu", "cuda"):
        torch.manual_seed(0)
        x = torch.randn(2, 3, 8, 7).to(place).requires_grad_()
        w = torch.randn(4, 3, 3, 3).to(place).requires_grad_()
        y = F.avg_pool2d(F.max_pool2d(F.conv2d(x, w, padding=1).tanh(), 3, 2, 1), 2)
        (slope,) = torch.autograd.grad((y * y).sum(), x, create_graph=True)
        results.append(torch.autograd.grad((slope**2).sum(), (x, w)))
    for want, got in zip(*results, strict=True):
        close(got, want, "float32", "second derivative")


# ---------------------------------------------------------------------- launches and graphs


@real_gpu
def test_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    """How many of our kernels an op starts."""
    from tapegrad.kernels.cuda.launchers import conv as cupy_conv
    from tapegrad.kernels.cuda.launchers import depthwise as cupy_depthwise
    from tapegrad.kernels.cuda.launchers import pool as cupy_pool
    from tapegrad.kernels.cuda.launchers import resize as cupy_resize

    started: list[str] = []
    for home in (cupy_conv, cupy_depthwise, cupy_pool, cupy_resize):
        real_compiled = home.compiled

        def compiled(
            gpu: Any, kind: str, name: str, file: str, make: Any = real_compiled, **words: int
        ) -> Any:
            started.append(name)
            return make(gpu, kind, name, file, **words)

        monkeypatch.setattr(home, "compiled", compiled)

    def of(run: Any, *shapes: Any) -> tuple[list[str], list[str]]:
        tensors = [draw(*s).cuda().requires_grad_() for s in shapes]
        started.clear()
        out = run(*tensors)
        forward = list(started)
        started.clear()
        out.backward(torch.ones_like(out))
        return forward, sorted(started)

    conv = of(lambda x, w: F.conv2d(x, w, padding=1), (2, 3, 6, 5), (4, 3, 3, 3))
    assert conv == (["gather", "part"], ["gather", "scatter"])
    assert of(F.conv2d, (2, 3, 6, 5), (4, 3, 1, 1)) == ([], [])
    depthwise = of(lambda x, w: F.conv2d(x, w, groups=3), (2, 3, 6, 5), (3, 1, 3, 3))
    assert depthwise == (["depthwise"], ["depthwise_back", "depthwise_weight"])
    apart = of(lambda x, w: F.conv2d(x, w, groups=3, dilation=2), (2, 3, 6, 5), (3, 1, 2, 2))
    assert apart == (["each_channel"], ["each_channel_back", "each_channel_weight"])
    most = of(lambda x: F.max_pool2d(x, 3, 2, 1), (2, 3, 6, 5))
    assert most == (["max_pool"], ["max_pool", "max_pool_back"])
    assert of(lambda x: F.max_pool2d(x, 2), (2, 3, 6, 5)) == (["max_pool"], ["max_pool_pull"])
    assert of(lambda x: F.avg_pool2d(x, 2), (2, 3, 6, 5)) == (["avg_pool"], ["avg_pool_back"])
    mean = of(lambda x: F.adaptive_avg_pool2d(x, 2), (2, 3, 6, 5))
    assert mean == (["avg_pool"], ["avg_pool_back"])
    twice = of(lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), (2, 3, 6, 5))
    assert twice == (["resize"], ["resize"])
    best = of(lambda x: F.adaptive_max_pool2d(x, 2), (2, 3, 6, 5))
    assert best == (["max_pool"], ["max_pool_back"])


def small_network() -> Any:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(2, 6, 3, padding=1),
        nn.BatchNorm2d(6),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
        nn.Conv2d(6, 6, 3, groups=6, bias=False),
        nn.Conv2d(6, 8, 1),
        nn.Upsample(scale_factor=2, mode="bilinear"),
        nn.AvgPool2d(4),
        nn.Flatten(),
        nn.Linear(8, 3),
    ).cuda()


def test_captured_step() -> None:
    """A training step of a small network gives the same losses when it is replayed."""
    seen = []
    for graphed in (False, True):
        model = small_network()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

        def step(x: Any, y: Any, model: Any = model, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        run = torch.cuda.make_graphed_step(step) if graphed else step
        losses = []
        for i in range(7):
            x = torch.sin(torch.arange(4 * 2 * 8 * 8.0).reshape(4, 2, 8, 8) * 0.1 + i).cuda()
            losses.append(run(x, torch.tensor([0, 1, 2, i % 3]).cuda()).item())
        seen.append(losses)
    assert seen[0] == seen[1]
    assert len(set(seen[0])) > 1


def test_overrides_are_ops() -> None:
    """Every name that is overridden is that of an op."""
    for name in ("convolution", "conv_input_grad", "conv_weight_grad", "conv_bias_grad"):
        assert name in REGISTRY
