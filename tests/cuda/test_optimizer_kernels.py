"""Optimizers, clipping and unscaling with one launch for many tensors.

What the kernels compute is tested on a real GPU only; what is sent to them, everywhere.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from watching import staying_on_device

import tapegrad
from tapegrad.api.publish import load_everything
from tapegrad.core import devices
from tapegrad.kernels.cuda.launchers import optim as cupy_optim

load_everything()
torch: Any = tapegrad
HAS_KERNELS = hasattr(devices.DEVICE.xp, "RawKernel")
real_gpu = pytest.mark.skipif(not HAS_KERNELS, reason="fused kernels need CuPy and a GPU")
TOLERANCE = {"float32": 1e-5, "float64": 1e-13, "float16": 4e-3, "bfloat16": 3e-2}

CASES: list[tuple[str, dict[str, Any]]] = [
    ("Adam", {"weight_decay": 0.01}),
    ("AdamW", {"amsgrad": True, "maximize": True}),
    ("SGD", {}),
    ("SGD", {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    ("SGD", {"momentum": 0.8, "dampening": 0.5, "maximize": True}),
    ("RMSprop", {}),
    ("RMSprop", {"momentum": 0.9, "centered": True, "weight_decay": 0.05}),
    ("RMSprop", {"momentum": 0.5, "maximize": True}),
    ("RMSprop", {"centered": True, "alpha": 0.3}),
    ("Adagrad", {"lr_decay": 0.1, "weight_decay": 0.05}),
    ("Adagrad", {"initial_accumulator_value": 0.3, "maximize": True}),
    ("Adadelta", {"lr": 1.0, "weight_decay": 0.05}),
    ("Adadelta", {"lr": 1.0, "rho": 0.5, "maximize": True}),
    ("Adamax", {"weight_decay": 0.05}),
    ("Adamax", {"betas": (0.3, 0.7), "maximize": True}),
    ("NAdam", {}),
    ("NAdam", {"weight_decay": 0.05, "decoupled_weight_decay": True, "momentum_decay": 0.1}),
    ("NAdam", {"weight_decay": 0.05, "maximize": True}),
    ("RAdam", {"weight_decay": 0.05}),
    ("RAdam", {"betas": (0.9, 0.7), "weight_decay": 0.05, "decoupled_weight_decay": True}),
    ("ASGD", {"lambd": 0.01, "weight_decay": 0.05}),
    ("ASGD", {"t0": 1.0, "alpha": 0.5, "maximize": True}),
    ("Rprop", {}),
    ("Rprop", {"etas": (0.3, 1.7), "step_sizes": (0.01, 0.12), "maximize": True}),
]
IDS = [f"{name}-{'-'.join(options)}" for name, options in CASES]
SIZES = [(), (1,), (7, 3), (1030,), (0,), (65, 33), (4097,)]


def parameters(device: str, dtype: Any, sizes: Any = SIZES) -> list[Any]:
    """Some of them begin at odd addresses."""
    rng = np.random.default_rng(0)
    made = []
    for i, size in enumerate(sizes):
        values = torch.from_numpy(rng.uniform(-1, 1, (int(np.prod(size, dtype=int)) + 1,)))
        flat = values.to(dtype).to(device)
        made.append(flat[i % 2 :][: len(flat) - 1].view(size).detach().requires_grad_())
    return made


def set_gradients(params: list[Any], i: int) -> None:
    """Gradients that change their signs here and there, and are zero at times."""
    for p in params:
        flat = torch.arange(float(p.numel()), dtype=torch.float64)
        grad = torch.sin(flat * 0.37 + 1.3 * i).reshape(p.shape)
        grad[grad.abs() < 0.05] = 0.0
        p.grad = grad.to(p.dtype).to(p.device)


def optimizer_of(name: str, params: list[Any], options: dict[str, Any]) -> Any:
    return getattr(torch.optim, name)(params, **{"lr": 0.05, **options})


def check_states(found: dict[str, Any], wanted: dict[str, Any], tolerance: float) -> None:
    assert found["param_groups"] == wanted["param_groups"]
    assert found["state"].keys() == wanted["state"].keys()
    for key, own in wanted["state"].items():
        assert list(found["state"][key]) == list(own)
        for name, t in own.items():
            other = found["state"][key][name]
            assert other.dtype == t.dtype and other.shape == t.shape, name
            if name in ("step", "mu_product", "eta", "mu"):
                assert torch.equal(other, t), name
            else:
                close(other, t, tolerance, name)


def close(a: Any, b: Any, tolerance: float, name: str = "") -> None:
    a, b = a.detach().cpu().double().numpy(), b.detach().cpu().double().numpy()
    scale = tolerance * max(1.0, float(np.abs(b).max(initial=0)))
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=scale, err_msg=name)


class Recorded:
    """A kernel that notes its launches."""

    launches: list[tuple[str, Any, tuple[Any, ...]]] = []
    compiled = staticmethod(cupy_optim.compiled)

    def __init__(self, xp: Any, source: str, kind: str, name: str, *given: Any) -> None:
        self.name = name
        self.run = lambda *args: None
        if HAS_KERNELS:
            self.run = self.compiled(xp, source, kind, name, *given)

    def __call__(self, grid: Any, block: Any, args: tuple[Any, ...]) -> None:
        self.launches.append((self.name, grid, args))
        self.run(grid, block, args)


class Blocks:
    """What the kernels need to know of a GPU that is none."""

    blocks = 64

    def __init__(self, xp: Any) -> None:
        self.xp = xp


@contextlib.contextmanager
def recording() -> Iterator[list[tuple[str, Any, tuple[Any, ...]]]]:
    """The launches of the kernels of this file; without a GPU nothing is computed."""
    backend = devices.DEVICE.backend
    before = {n: vars(backend).get(n) for n in ("optimizers", "gradients", "counters")}
    gpu = backend.gpu if HAS_KERNELS else Blocks(devices.DEVICE.xp)
    cupy_optim.register(backend, gpu, None)
    cupy_optim.compiled = Recorded  # type: ignore[assignment]
    Recorded.launches = []
    try:
        yield Recorded.launches
    finally:
        cupy_optim.compiled = Recorded.compiled  # type: ignore[assignment]
        for name, value in before.items():
            if value is None:
                delattr(backend, name)
            else:
                setattr(backend, name, value)


# ---------------------------------------------------------------------- values


@real_gpu
@pytest.mark.parametrize("kind", TOLERANCE)
@pytest.mark.parametrize(("name", "options"), CASES, ids=IDS)
def test_values(name: str, options: dict[str, Any], kind: str) -> None:
    """As on the CPU; half precision as single precision there, rounded."""
    dtype = getattr(torch, kind)
    half = kind in ("float16", "bfloat16")
    results = []
    for device in ("cpu", "cuda"):
        params = parameters(device, dtype)
        if half and device == "cpu":
            params = [p.detach().float().requires_grad_() for p in params]
        optimizer = optimizer_of(name, params, options)
        for i in range(7):
            set_gradients(params, i)
            if half and device == "cpu":
                for p in params:
                    p.grad = p.grad.to(dtype).float()
            optimizer.step()
        results.append((params, optimizer))
    (want, cpu), (found, gpu) = results
    for a, b in zip(found, want, strict=True):
        close(a, b, TOLERANCE[kind] * (8 if half else 1), name)
    if not half:
        check_states(gpu.state_dict(), cpu.state_dict(), TOLERANCE[kind])


def run_steps(params: list[Any], optimizer: Any, captured: bool) -> None:
    """Nine steps; the learning rate changes on the way. As replays of a graph, but for one."""
    set_gradients(params, 0)
    grads = [p.grad for p in params]
    optimizer.step()
    graph = torch.cuda.CUDAGraph()
    if captured:
        with torch.cuda.graph(graph):
            optimizer.step()
    for i in range(8):
        optimizer.param_groups[0]["lr"] = 0.05 if i < 4 else 0.02
        set_gradients(params, i)
        for p, static in zip(params, grads, strict=True):
            static.copy_(p.grad)
            p.grad = static
        if captured and i != 5:
            graph.replay()
        else:
            optimizer.step()


@real_gpu
@pytest.mark.parametrize(("name", "options"), CASES, ids=IDS)
def test_a_captured_step(name: str, options: dict[str, Any]) -> None:
    """Replays count on, follow the learning rate, and go on after steps without the graph."""
    results = []
    for captured in (False, True):
        params = parameters("cuda", torch.float32)
        optimizer = optimizer_of(name, params, options)
        run_steps(params, optimizer, captured)
        results.append((params, optimizer.state_dict()))
    for a, b in zip(results[0][0], results[1][0], strict=True):
        assert torch.equal(a, b)
    check_states(results[1][1], results[0][1], 0.0)


@real_gpu
def test_a_captured_first_step() -> None:
    """The momentum buffer is filled once, not by every replay."""
    results = []
    for captured in (False, True):
        params = parameters("cuda", torch.float32)
        set_gradients(params, 3)
        optimizer = torch.optim.SGD(params, lr=0.05, momentum=0.9, dampening=0.3)
        step = optimizer.step
        if captured:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                optimizer.step()
            step = graph.replay
        for lr in (0.1, 0.1, 0.2):  # heard before the first replay, too
            optimizer.param_groups[0]["lr"] = lr
            step()
        results.append(params)
    for a, b in zip(*results, strict=True):
        assert torch.equal(a, b)


@real_gpu
@pytest.mark.parametrize("name", ["Adamax", "Rprop", "RMSprop", "RAdam"])
def test_infinities_and_nans(name: str) -> None:
    results = []
    for device in ("cpu", "cuda"):
        p = torch.ones(6).to(device).requires_grad_()
        optimizer = optimizer_of(name, [p], {})
        for _ in range(2):
            inf = float("inf")
            p.grad = torch.tensor([1.0, inf, -inf, float("nan"), 0.0, 1e-30]).to(device)
            optimizer.step()
        results.append(p.detach().cpu())
    assert torch.allclose(results[0], results[1], equal_nan=True)


# ---------------------------------------------------------------------- launches


@pytest.mark.parametrize(("name", "options"), CASES, ids=IDS)
def test_launches(name: str, options: dict[str, Any]) -> None:
    """One for some seventy tensors or more; all that the kernel reads is where it looks for it."""
    params = parameters("cuda", torch.float32, [(3,)] * 70)
    set_gradients(params, 0)
    with recording() as launches:
        optimizer = optimizer_of(name, params, options)
        with staying_on_device():
            optimizer.step()
            optimizer.step()
    assert [launch[0] for launch in launches] == ["update", "update"]
    _, grid, (given,) = launches[1]
    table = given.base  # kernels get it as bytes
    assert grid == (70,) and table.nbytes <= 4096
    assert table["sizes"][:2].tolist() == [70, 1024] and table["device"] == 0
    assert table["n"][:70].tolist() == [3] * 70
    assert table["first"][:70].tolist() == list(range(70))
    fused = kernel_of(optimizer)
    own = optimizer.state[params[5]] if optimizer.state else {}
    rows = [params[5], params[5].grad, *[own[row] for row in fused.rows if row in own]]
    assert table["p"][:, 5].tolist() == [t._array.data.ptr for t in rows]
    group = optimizer.param_groups[0]
    assert table["now"][0] == group["lr"]
    if fused.scalars:
        assert table["now"][1] == 1.0 and own["step"].item() == 2.0
    given = [group[option] for option in fused.option_names]
    flat = np.hstack([np.asarray(v, float) for v in given])
    assert table["options"].tolist() == flat.tolist()


def kernel_of(optimizer: Any) -> Any:
    name = type(optimizer).__name__.lower().replace("adamw", "adam")
    return getattr(torch.optim, name).FUSED


def test_many_tensors_of_many_sizes() -> None:
    sizes = [(n % 7 * 1000,) for n in range(200)]
    params = parameters("cuda", torch.float32, sizes)
    set_gradients(params, 0)
    with recording() as launches:
        torch.optim.Adagrad(params).step()
    seen = 0
    for _, grid, (given,) in launches:
        table = given.base
        count, chunk = table["sizes"][:2].tolist()
        ends = [*table["first"][1:count].tolist(), *grid]
        for k in range(count):
            n = int(table["n"][k])
            assert n == sizes[seen + k][0]
            assert ends[k] - table["first"][k] == -(-n // chunk)
        seen += count
    assert seen == 200 and len(launches) == 2


def test_what_the_kernels_do_not_take() -> None:
    """It is updated tensor by tensor, beside those that they take."""
    turned = torch.ones(4, 3, device="cuda").t().requires_grad_()
    plain = torch.ones(3, device="cuda").requires_grad_()
    host = torch.ones(3).requires_grad_()
    for p in (turned, plain, host):
        p.grad = torch.ones_like(p)
    twin = plain.detach().view(3).requires_grad_()
    twin.grad = torch.ones_like(twin)
    with recording() as launches:  # two parameters in one place would be written at the same time
        torch.optim.SGD([plain, twin], lr=0.25).step()
        assert not launches and plain.tolist() == [0.5] * 3
    with recording() as launches:
        torch.optim.RMSprop([turned, plain, host]).step()
        assert len(launches) == 1 and launches[0][2][0].base["sizes"][0] == 1
        assert turned.max().item() < 1 and host.max().item() < 1
        for options in ({"capturable": True}, {"lr": torch.tensor(0.1)}):
            torch.optim.NAdam([plain], **options).step()
        assert len(launches) == 1
    for p in (turned, host):
        assert p._version == 1


def test_numbers_of_the_state() -> None:
    """Those that the host counts are as after steps on the CPU."""
    with recording():
        for name, options in CASES:
            states = []
            for device in ("cpu", "cuda"):
                params = parameters(device, torch.float32, [(2,), (3,), (4,)])
                optimizer = optimizer_of(name, params, options)
                for i in range(4):
                    set_gradients(params, i)
                    optimizer.step()
                states.append(optimizer.state_dict()["state"])
            for key, own in states[0].items():
                for entry in ("step", "mu_product", "eta", "mu"):
                    if entry in own:
                        assert torch.equal(own[entry], states[1][key][entry])


# ---------------------------------------------------------------------- gradients


@real_gpu
@pytest.mark.parametrize("kind", TOLERANCE)
@pytest.mark.parametrize("order", [2.0, 1.0, float("inf")])
def test_clipping(kind: str, order: float) -> None:
    sizes = [s for s in SIZES if s != (0,)]  # which has no largest element
    results = []
    for device in ("cpu", "cuda"):
        params = parameters(device, getattr(torch, kind), sizes)
        set_gradients(params, 2)
        versions = [p.grad._version for p in params]
        with staying_on_device():
            norm = torch.nn.utils.clip_grad_norm_(params, 0.7, order)
        assert norm.shape == () and norm.dtype == params[0].dtype
        assert [p.grad._version - v for p, v in zip(params, versions, strict=True)] == [1] * 6
        torch.nn.utils.clip_grad_value_(params, 0.02)
        results.append([norm, *[p.grad for p in params]])
    for a, b in zip(*results, strict=True):
        close(a, b, TOLERANCE[kind] * 4)


@real_gpu
def test_clipping_nans() -> None:
    for order in (2.0, 1.0, float("inf")):
        p = torch.ones(5000, device="cuda").requires_grad_()
        p.grad = torch.ones_like(p)
        p.grad[4321] = float("nan")
        assert torch.nn.utils.clip_grad_norm_([p], 1.0, order).isnan().item()
        assert p.grad.isnan().all().item()
        with pytest.raises(RuntimeError, match="is non-finite"):
            torch.nn.utils.clip_grad_norm_([p], 1.0, order, error_if_nonfinite=True)


@real_gpu
def test_clipping_in_a_graph() -> None:
    params = parameters("cuda", torch.float32)
    set_gradients(params, 0)
    graph = torch.cuda.CUDAGraph()
    torch.nn.utils.clip_grad_norm_(params, 1e9)
    with torch.cuda.graph(graph):
        norm = torch.nn.utils.clip_grad_norm_(params, 1.0)
    graph.replay()
    first = norm.item()
    graph.replay()
    assert first > 1.5 and abs(norm.item() - 1) < 1e-4


def test_launches_of_clipping() -> None:
    params = parameters("cuda", torch.float32, [(5,)] * 150)
    set_gradients(params, 0)
    utils = torch.nn.utils
    with recording() as launches, staying_on_device():
        utils.clip_grad_norm_(params, 1.0)
        assert [name for name, *_ in launches] == ["norm_parts", "norm_end", "shorten"]
        utils.clip_grad_value_(params, 1.0)
        assert launches[-1][0] == "limit" and launches[-1][2][0].nbytes <= 4096
        count = len(launches)
        # Twice the same gradient, an order without a kernel: tensor by tensor.
        utils.clip_grad_norm_([params[0], params[0]], 1.0)
        utils.get_total_norm([p.grad for p in params], 3.0)
        utils.clip_grad_norm_(params, 1.0, foreach=False)
        assert len(launches) == count


@real_gpu
@pytest.mark.parametrize("kind", ["float32", "float64", "bfloat16"])
def test_unscaling(kind: str) -> None:
    scale = 4.0 if kind == "bfloat16" else 3.0
    for bad in (None, float("inf"), float("nan")):
        found = []
        for device in ("cpu", "cuda"):
            params = parameters(device, getattr(torch, kind))
            set_gradients(params, 1)
            if bad is not None:
                params[5].grad[64, 32] = bad
            optimizer = torch.optim.SGD(params)
            scaler = torch.amp.GradScaler(device, init_scale=scale, growth_interval=1)
            scaler.scale(torch.ones(1, device=device))
            scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
            numbers = [scaler.get_scale(), scaler._get_growth_tracker()]
            found.append((numbers, [p.grad.cpu() for p in params]))
        assert found[0][0] == found[1][0] == [scale * (2 if bad is None else 0.5), 0]
        for a, b in zip(found[0][1], found[1][1], strict=True):
            assert torch.allclose(a, b, equal_nan=True)


def test_launches_of_the_scaler() -> None:
    params = parameters("cuda", torch.float32, [(5,)] * 150)
    set_gradients(params, 0)
    optimizer = torch.optim.SGD(params)
    scaler = torch.amp.GradScaler("cuda")
    scaler.scale(torch.ones(1, device="cuda"))
    with recording() as launches, staying_on_device():
        scaler.unscale_(optimizer)
        scaler.update()
    assert [name for name, *_ in launches] == ["unscale", "next_scale"]


def test_later_steps_see_what_changed() -> None:
    """What was found out for a step is used for the next one, unless something is another."""
    params = parameters("cuda", torch.float32, [(3,), (5,), (4, 2)])
    optimizer = torch.optim.Adam(params, lr=0.1)

    def stepped(count: int = 1) -> list[Any]:
        set_gradients(params, 0)
        with recording() as launches:
            optimizer.step()
            optimizer.step()
        assert len(launches) == 2 * count
        return [launch[2][0].base for launch in launches]

    first, second = stepped()
    assert second["now"].tolist() == [0.1, 1.0] and first["p"].tolist() == second["p"].tolist()
    params[1].data = params[1].detach() + 1
    optimizer.param_groups[0]["lr"] = 0.2
    first, second = stepped()
    assert second["p"][0, 1] == params[1]._array.data.ptr != first["p"][1, 1]
    assert second["now"].tolist() == [0.2, 3.0]
    optimizer.load_state_dict(optimizer.state_dict())
    _, second = stepped()
    rows = [optimizer.state[params[2]][name] for name in ("exp_avg", "exp_avg_sq")]
    assert second["p"][2:4, 2].tolist() == [t._array.data.ptr for t in rows]
    optimizer.state[params[0]]["step"].fill_(20.0)  # which no longer counts with the others
    first, second, *_ = stepped(2)
    assert sorted([first["now"][1].item(), second["now"][1].item()]) == [6.0, 20.0]
    optimizer.state[params[0]]["step"].fill_(8.0)
    params[2].grad = None
    for p in params[:2]:
        p.grad = torch.ones_like(p)
    with recording() as launches:
        optimizer.step()
    (table,) = [launch[2][0].base for launch in launches]
    assert table["sizes"][0] == 2
    assert [p._version for p in params] == [9, 9, 8]
