"""Adafactor and Muon: a few launches for all parameters, values as on the CPU.

What the kernels compute is tested on a real GPU only; what is sent to them, everywhere.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import test_optimizer_kernels as shared
from test_optimizer_kernels import close, optimizer_of, real_gpu, run_steps, set_gradients
from watching import staying_on_device

import tapegrad
from tapegrad.core import devices
from tapegrad.kernels.cuda import cublas
from tapegrad.kernels.cuda.launchers import optim_matrices

torch: Any = tapegrad
SHAPES: dict[str, list[tuple[int, ...]]] = {
    "Adafactor": [(), (1,), (7, 3), (1030,), (65, 33), (4097,), (2, 3, 5), (3, 4, 3, 3), (5, 1)],
    "Muon": [(7, 3), (3, 7), (65, 33), (20, 40), (40, 20), (33, 65), (1, 5)],
}
CASES: list[tuple[str, dict[str, Any]]] = [
    ("Adafactor", {}),
    ("Adafactor", {"weight_decay": 0.1, "maximize": True, "d": 1.5}),
    ("Adafactor", {"eps": (1e-3, 1e-2), "beta2_decay": -0.5}),
    ("Muon", {}),
    ("Muon", {"nesterov": False, "adjust_lr_fn": "match_rms_adamw", "weight_decay": 0.0}),
]
IDS = [f"{name}-{'-'.join(options)}" for name, options in CASES]
# Muon computes in bfloat16: a sum in another order may be rounded to the next number there.
TOLERANCE = {"Adafactor": 1e-5, "Muon": 1e-2}


def parameters(name: str, device: str, dtype: Any) -> list[Any]:
    rng = np.random.default_rng(0)
    values = [torch.from_numpy(np.asarray(rng.uniform(-1, 1, shape))) for shape in SHAPES[name]]
    return [v.to(dtype).to(device).requires_grad_() for v in values]


@pytest.mark.parametrize("kind", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize(("name", "options"), CASES, ids=IDS)
def test_values(name: str, options: dict[str, Any], kind: str) -> None:
    results = []
    for device in ("cpu", "cuda"):
        params = parameters(name, device, getattr(torch, kind))
        optimizer = optimizer_of(name, params, options)
        for i in range(4):
            set_gradients(params, i)
            optimizer.step()
        results.append((params, optimizer))
    (want, cpu), (found, gpu) = results
    tolerance = 0.03 if kind == "bfloat16" else TOLERANCE[name]
    for a, b in zip(found, want, strict=True):
        close(a, b, tolerance)
        own, other = cpu.state[b], gpu.state[a]
        assert list(own) == list(other)
        for key in own:
            assert own[key].dtype == other[key].dtype and own[key].shape == other[key].shape
            close(other[key], own[key], tolerance, key)


@real_gpu
@pytest.mark.parametrize(("name", "options"), CASES, ids=IDS)
def test_a_captured_step(name: str, options: dict[str, Any]) -> None:
    """Replays count on, follow the learning rate, and go on after steps without the graph."""
    results = []
    for captured in (False, True):
        params = parameters(name, "cuda", torch.float32)
        optimizer = optimizer_of(name, params, options)
        run_steps(params, optimizer, captured)
        results.append((params, optimizer))
    for a, b in zip(results[0][0], results[1][0], strict=True):
        assert torch.equal(a, b)
        if name == "Adafactor":
            steps = [results[k][1].state[(a, b)[k]]["step"].item() for k in range(2)]
            assert steps == [9, 9]


@real_gpu
def test_what_is_not_finite() -> None:
    """A NaN stays where it is: the others go on, as PyTorch's."""
    results = []
    for device in ("cpu", "cuda"):
        p = torch.ones(2, 3).to(device).requires_grad_()
        q = torch.ones(3).to(device).requires_grad_()
        optimizer = torch.optim.Adafactor([p, q], lr=0.1)
        p.grad = torch.tensor([[1.0, 2.0, 0.0], [3.0, float("nan"), 1.0]]).to(device)
        q.grad = torch.tensor([1.0, float("nan"), 2.0]).to(device)
        optimizer.step()
        results.append([p.detach().cpu(), q.detach().cpu()])
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(b, a, equal_nan=True)


# ---------------------------------------------------------------------- launches


@contextlib.contextmanager
def recording(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The launches, and "product" for each stack of products; without a GPU nothing is done."""
    backend = devices.DEVICE.backend
    gpu: Any = backend.gpu if shared.HAS_KERNELS else shared.Blocks(devices.DEVICE.xp)
    launches: list[Any] = []
    real = cublas.stack_product

    def stack_product(lib: Any, a: Any, b: Any, out: Any = None, *rest: Any, **named: Any) -> Any:
        launches.append(("product", a.shape, ()))
        if shared.HAS_KERNELS:
            return real(lib, a, b, out, *rest, **named)
        return gpu.xp.ndarray((*a.shape[:2], b.shape[2]), a.dtype) if out is None else out

    if not shared.HAS_KERNELS:
        monkeypatch.setattr(shared.Blocks, "blas", None, raising=False)
    monkeypatch.setattr(cublas, "stack_product", stack_product)
    monkeypatch.setattr(shared.Recorded, "launches", launches)
    monkeypatch.setattr(optim_matrices, "compiled", shared.Recorded)
    monkeypatch.setattr(backend, "adafactor", optim_matrices.Adafactor(gpu, backend), raising=False)
    monkeypatch.setattr(backend, "muon", optim_matrices.Muon(gpu, backend), raising=False)
    yield launches


def test_launches_of_adafactor(monkeypatch: pytest.MonkeyPatch) -> None:
    params = parameters("Adafactor", "cuda", torch.float32)
    set_gradients(params, 0)
    optimizer = torch.optim.Adafactor(params, lr=0.05, weight_decay=0.1)
    with recording(monkeypatch) as launches, staying_on_device():
        optimizer.step()
        optimizer.step()
    assert [launch[0] for launch in launches] == ["squares", "columns", "steps", "update"] * 2
    table = launches[4][2][0].base  # kernels get it as bytes
    assert table.nbytes <= 4096 and table["sizes"][0] == len(params)
    assert table["now"].tolist() == [0.05, 1.0] and table["device"] == 0
    eps = float(np.finfo(np.float32).eps)
    assert table["options"].tolist() == [-0.8, eps, 1e-3, 1.0, 0.1, 0.0]
    p = params[7]  # (3, 4, 3, 3): twelve matrices
    own = optimizer.state[p]
    assert table["p"][7] == p._array.data.ptr and table["g"][7] == p.grad._array.data.ptr
    assert table["rows_at"][7] == own["row_var"]._array.data.ptr
    assert table["columns_at"][7] == own["col_var"]._array.data.ptr
    assert [table[name][7] for name in ("n", "rows", "columns")] == [108, 3, 3]
    # A block has eight rows, or 32 columns of a matrix; a vector has rows of 1024.
    rows = table["first_row"][:9].tolist()
    assert rows == [0, 1, 2, 3, 4, 13, 14, 15, 20]
    columns = table["first_column"][:9].tolist()
    assert columns == [0, 1, 2, 4, 5, 8, 9, 13, 37]
    assert launches[4][1] == (21,) and launches[5][1] == (39,)
    assert [own["step"].item() for own in optimizer.state.values()] == [2.0] * len(params)
    assert all(p._version == 2 for p in params)


def test_launches_of_muon(monkeypatch: pytest.MonkeyPatch) -> None:
    params = parameters("Muon", "cuda", torch.float32)
    set_gradients(params, 0)
    optimizer = torch.optim.Muon(params, lr=0.05, ns_steps=2)
    with recording(monkeypatch) as launches, staying_on_device():
        optimizer.step()
    names = [launch[0] for launch in launches]
    assert names == ["momentum", "shorten", *["product"] * 24, "update"]
    # Matrices of one shape, turned or not, are products of one stack.
    assert {launch[1][0:2] for launch in launches if launch[0] == "product"} == {
        (1, 1), (2, 3), (2, 20), (2, 33)
    }  # fmt: skip
    table = launches[0][2][0].base
    assert table.nbytes <= 4096
    assert table["place"][:7].tolist() == [0, 64, 85, 128, 928, 1728, 3873]
    assert table["now"].tolist() == [0.05] and table["options"].tolist() == [0.95, 1, 1e-7, 0.1]
    first = sorted(params, key=lambda p: sorted(p.shape))[3]
    assert table["p"][3] == first._array.data.ptr


def test_many_tensors_in_several_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, kernels in (("Adafactor", 4), ("Muon", 3)):
        params = [torch.ones(2, 2, device="cuda").requires_grad_() for _ in range(200)]
        set_gradients(params, 0)
        with recording(monkeypatch) as launches:
            getattr(torch.optim, name)(params).step()
        own = [launch for launch in launches if launch[0] != "product"]
        tables = [launch[2][0].base for launch in own[::kernels]]
        assert sum([int(table["sizes"][0]) for table in tables]) == 200
        assert all(table.nbytes <= 4096 for table in tables)


def test_what_the_kernels_do_not_take(monkeypatch: pytest.MonkeyPatch) -> None:
    turned = torch.ones(4, 3, device="cuda").t().requires_grad_()
    host = torch.ones(3, 3).requires_grad_()
    for p in (turned, host):
        p.grad = torch.ones_like(p)
    for name in ("Adafactor", "Muon"):
        kind = getattr(torch.optim, name)
        with recording(monkeypatch) as launches:
            kind([turned, host]).step()
            p = torch.ones(3, 3, device="cuda").requires_grad_()
            p.grad = torch.ones_like(p)
            kind([p], lr=torch.tensor(0.1)).step()
            assert not launches
        assert p.max().item() < 1
    assert turned.max().item() < 1 and host.max().item() < 1
