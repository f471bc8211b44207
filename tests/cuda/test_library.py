"""The library around tensors on a GPU: creation, random numbers, modules, optimizers, files."""

from __future__ import annotations

import copy
import gc
import io
import pickle
import subprocess
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from watching import CUDA, gpu, staying_on_device

import tapegrad as torch
from tapegrad import nn
from tapegrad.core import devices

F = nn.functional


def same(a: Any, b: Any, tolerance: float = 1e-5) -> None:
    torch.testing.assert_close(a.detach().cpu(), b.detach().cpu(), rtol=tolerance, atol=tolerance)


# ---------------------------------------------------------------------- torch.cuda


def test_questions() -> None:
    cuda = torch.cuda
    assert cuda.is_available() and cuda.is_initialized()
    assert cuda.device_count() >= 1
    assert cuda.current_device() == 0
    assert isinstance(cuda.get_device_name(0), str)
    facts = cuda.get_device_properties("cuda:0")
    assert (facts.major, facts.minor) == cuda.get_device_capability()
    assert repr(facts).startswith("_CudaDeviceProperties(name='")
    assert cuda.is_bf16_supported()
    assert cuda.get_arch_list()[0].startswith("sm_")
    assert not cuda.is_current_stream_capturing()
    assert torch.accelerator.current_accelerator() == torch.device("cuda")
    assert torch.accelerator.current_device_index() == 0
    assert torch.backends.cuda.is_built()
    assert torch.device(0) == CUDA


def test_the_current_device() -> None:
    torch.cuda.set_device(0)
    with torch.cuda.device(0):
        assert torch.ones(1, device="cuda").device == CUDA
    with torch.cuda.device_of(torch.ones(1)), torch.cuda.device_of(gpu(1.0)):
        assert torch.cuda.current_device() == 0
    torch.cuda.synchronize()
    torch.accelerator.synchronize()
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch.ones(1, device="cuda:77")


def test_memory() -> None:
    cuda = torch.cuda
    gc.collect()
    cuda.reset_peak_memory_stats()
    before = cuda.memory_allocated()
    held = torch.ones(1 << 16, device="cuda")
    assert cuda.max_memory_allocated() >= cuda.memory_allocated() >= before
    if hasattr(devices.DEVICE.xp, "RawKernel"):
        assert cuda.memory_allocated() - before == held.nbytes
        del held
        assert cuda.max_memory_allocated() - before == 4 << 16
        assert cuda.memory_allocated() == before
    assert cuda.memory_reserved() >= cuda.memory_allocated()
    free, total = cuda.mem_get_info()
    assert 0 < free <= total
    assert cuda.memory_stats()["allocated_bytes.all.peak"] == cuda.max_memory_allocated()
    assert "CUDA memory summary, device ID 0" in cuda.memory_summary()
    cuda.empty_cache()


def test_streams_and_events() -> None:
    cuda = torch.cuda
    side = cuda.Stream()
    assert cuda.current_stream() == cuda.default_stream() != side
    with cuda.stream(side):
        assert cuda.current_stream() == side
        a = torch.ones(3, device="cuda") * 2
    assert cuda.current_stream() == cuda.default_stream()
    cuda.current_stream().wait_stream(side)
    a.record_stream(cuda.current_stream())
    with side:
        assert cuda.current_stream() == side
    start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
    assert repr(start) == "<torch.cuda.Event uninitialized>"
    with pytest.raises(ValueError, match="must be recorded before"):
        start.elapsed_time(end)
    start.record()
    end.record(side)
    side.synchronize()
    cuda.synchronize()
    assert start.query() and side.query()
    assert isinstance(start.elapsed_time(end), float)
    with pytest.raises(ValueError, match="enable_timing=True"):
        start.elapsed_time(cuda.Event())
    assert repr(cuda.default_stream()) == "<torch.cuda.Stream device=cuda:0 cuda_stream=0x0>"
    with cuda.stream(None):
        same(a, torch.full((3,), 2.0))


def test_tensor_types() -> None:
    t = torch.cuda.FloatTensor([1, 2])
    assert t.device == CUDA and t.dtype == torch.float32
    assert isinstance(t, torch.cuda.FloatTensor)
    assert not isinstance(t, torch.FloatTensor)
    assert not isinstance(t.cpu(), torch.cuda.FloatTensor)
    assert t.type() == "torch.cuda.FloatTensor"
    assert t.type("torch.FloatTensor").type() == "torch.FloatTensor"
    assert torch.ones(1).type(torch.cuda.LongTensor).type() == "torch.cuda.LongTensor"
    assert torch.ones(1).type_as(t).device == CUDA
    assert torch.cuda.LongTensor(2, 3).shape == (2, 3)
    assert t.new([3]).device == CUDA
    with pytest.raises(TypeError, match="device=cpu"):
        torch.cuda.FloatTensor(torch.ones(2))


# ---------------------------------------------------------------------- creation

MADE: dict[str, Callable[[], Any]] = {
    "zeros": lambda: torch.zeros(2, 3, device="cuda"),
    "ones": lambda: torch.ones((2,), dtype=torch.int64, device="cuda:0"),
    "full": lambda: torch.full((2,), 7, device=CUDA),
    "eye": lambda: torch.eye(3, device="cuda"),
    "arange": lambda: torch.arange(1, 8, 3, device="cuda"),
    "arange of floats": lambda: torch.arange(0, 1, 0.25, device="cuda"),
    "linspace": lambda: torch.linspace(0, 1, 5, device="cuda"),
    "scalar_tensor": lambda: torch.scalar_tensor(3, device="cuda"),
    "tensor": lambda: torch.tensor([[1, 2], [3, 4]], device="cuda"),
    "tensor of a tensor": lambda: gpu(1.0, 2.0).new_tensor([1, 2]),
    "as_tensor": lambda: torch.as_tensor(np.arange(3), device="cuda"),
    "asarray": lambda: torch.asarray([1.0], device="cuda"),
    "zeros_like": lambda: torch.zeros_like(gpu(1, 2)),
    "ones_like of the CPU's": lambda: torch.ones_like(torch.zeros(2, 3).t(), device="cuda"),
    "full_like": lambda: torch.full_like(gpu(1.0), 2.5),
    "new_ones": lambda: gpu(1.0).new_ones(2),
    "new_full": lambda: gpu(1.0).new_full((2,), 3),
    "hann_window": lambda: torch.hann_window(4, device="cuda"),
    "tril_indices": lambda: torch.tril_indices(2, 2, device="cuda"),
}


@pytest.mark.parametrize("name", MADE)
def test_creation(name: str) -> None:
    with staying_on_device():
        t = MADE[name]()
        assert t.device == CUDA and t.is_cuda and not t.is_cpu
        assert type(t._array) is devices.STATE.device_type
    host = t.cpu()
    assert host.dtype == t.dtype and host.stride() == t.stride()


@pytest.mark.filterwarnings("ignore:To copy construct")
def test_what_was_created() -> None:
    same(MADE["arange"](), torch.tensor([1, 4, 7]))
    same(MADE["eye"](), torch.eye(3))
    same(MADE["linspace"](), torch.linspace(0, 1, 5))
    same(MADE["arange of floats"](), torch.arange(0, 1, 0.25))
    same(MADE["full"](), torch.tensor([7, 7]))
    assert MADE["ones_like of the CPU's"]().stride() == (1, 3)
    assert torch.empty_strided((2, 3), (1, 2), device="cuda").stride() == (1, 2)
    assert torch.zeros_like(gpu(1.0), device="cpu").device.type == "cpu"
    assert torch.tensor(gpu(1.0).clone().detach(), device="cpu").device.type == "cpu"
    assert torch.zeros(0, 3, device="cuda").stride() == (3, 1)
    shape = (2, 3, 2, 2)
    nhwc = torch.empty(shape, device="cuda", memory_format=torch.channels_last)
    assert nhwc.is_contiguous(memory_format=torch.channels_last)
    out = torch.empty(2, device="cuda")
    assert torch.ones(2, out=out) is out
    same(out, torch.ones(2))


def test_the_default_device() -> None:
    torch.set_default_device("cuda")
    try:
        assert torch.get_default_device() == CUDA
        layer = nn.Linear(2, 2)
        assert layer.weight.device == torch.ones(1).device == torch.tensor(1).device == CUDA
        assert torch.randn(2).device == torch.arange(3).device == CUDA
        assert torch.from_numpy(np.ones(1)).device.type == "cpu"
        assert torch.zeros_like(torch.ones(1, device="cpu")).device.type == "cpu"
        with torch.device("cpu"):
            assert torch.ones(1).device.type == "cpu"
    finally:
        torch.set_default_device(None)
    with torch.device("cuda"):
        assert torch.zeros(2).device == CUDA
    assert torch.zeros(2).device.type == "cpu"


def test_requires_grad() -> None:
    t = torch.ones(2, device="cuda", requires_grad=True)
    assert t.is_leaf and t.requires_grad
    (t * 3).sum().backward()
    same(t.grad, torch.full((2,), 3.0))
    assert t.grad.device == CUDA


def test_gradients_cross_devices() -> None:
    host = torch.ones(3, requires_grad=True)
    (host.cuda() * 2).cpu().sum().backward()
    same(host.grad, torch.full((3,), 2.0))
    assert host.grad.device.type == "cpu"
    there = torch.ones(3, device="cuda", requires_grad=True)
    (there.to("cpu") * there.cpu()).sum().backward()
    assert there.grad.device == CUDA
    same(there.grad, torch.full((3,), 2.0))
    assert repr(host.cuda()).endswith("device='cuda:0', grad_fn=<ToCopyBackward0>)")
    with pytest.raises(RuntimeError, match="at least two devices, cuda:0 and cpu!"):
        nn.Linear(3, 3).cuda()(host)


# ---------------------------------------------------------------------- modules and optimizers


def model() -> Any:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3)
    )


def test_modules_move() -> None:
    net = model()
    weight = net[0].weight
    net[0].weight.grad = torch.ones_like(weight)
    assert net.cuda() is net and net[0].weight is weight
    assert type(weight) is nn.Parameter and weight.device == CUDA and weight.is_leaf
    assert weight.grad.device == CUDA
    assert net[1].running_mean.device == net[1].num_batches_tracked.device == CUDA
    same(weight, model()[0].weight)
    net.to("cpu")
    assert weight.device.type == "cpu" and not weight._special
    net.to(CUDA, torch.float64)
    assert weight.dtype == torch.float64 and weight.device == CUDA
    assert nn.Linear(2, 2, device="cuda").bias.device == CUDA
    assert copy.deepcopy(net)[0].weight.device == CUDA
    lazy = nn.LazyLinear(3).cuda()
    assert lazy(torch.ones(2, 4, device="cuda")).device == CUDA


def test_state_dicts_cross_devices() -> None:
    net, host = model().cuda(), model()
    with torch.no_grad():
        net[0].weight.mul_(2)
    host.load_state_dict(net.state_dict())
    assert host[0].weight.device.type == "cpu"
    same(host[0].weight, net[0].weight)
    host[0].weight.data.zero_()
    net.load_state_dict(host.state_dict())
    assert net[0].weight.device == CUDA and not net[0].weight.any()


def test_a_training_step_stays_on_the_device() -> None:
    net = model().cuda()
    optimizer = torch.optim.AdamW(net.parameters())
    x = torch.randn(6, 4, device="cuda")
    y = torch.randint(3, (6,), device="cuda")
    for _ in range(2):
        with staying_on_device():
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            nn.utils.clip_grad_value_(net.parameters(), 1.0)
            optimizer.step()
    assert loss.device == CUDA


OPTIMIZERS = [
    *[(name, {}) for name in "ASGD Adadelta Adafactor Adagrad Adam AdamW Adamax".split()],
    *[(name, {}) for name in "NAdam RAdam RMSprop Rprop SGD Muon LBFGS".split()],
    ("SGD", {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    ("SGD", {"momentum": 0.9, "dampening": 0.5, "maximize": True}),
    ("Adam", {"amsgrad": True, "weight_decay": 0.1}),
    ("Adam", {"foreach": True}),
    ("AdamW", {"fused": True}),
    ("Adam", {"capturable": True}),
    ("RMSprop", {"momentum": 0.9, "centered": True}),
]


@pytest.mark.parametrize(("name", "options"), OPTIMIZERS, ids=lambda v: str(v))
def test_optimizers(name: str, options: dict[str, Any]) -> None:
    torch.manual_seed(2)
    host = nn.Linear(4, 4, bias=name != "Muon")
    net = copy.deepcopy(host).cuda()
    own = {k: v for k, v in options.items() if k != "capturable"}
    pairs = [
        (host, getattr(torch.optim, name)(host.parameters(), lr=0.05, **own)),
        (net, getattr(torch.optim, name)(net.parameters(), lr=0.05, **options)),
    ]
    for i in range(3):
        x = torch.randn(5, 4)
        for module, optimizer in pairs:
            batch = x.to(module.weight.device)

            def closure(module: Any = module, batch: Any = batch, by: Any = optimizer) -> Any:
                by.zero_grad()
                loss = module(batch).square().sum()
                loss.backward()
                return loss

            if name == "LBFGS":
                optimizer.step(closure)
                continue
            closure()
            with staying_on_device(0 if i else 9):
                optimizer.step()
    same(host.weight, net.weight, 1e-4)
    state = pairs[1][1].state_dict()
    pairs[0][1].load_state_dict(state)


def test_averages_and_schedulers() -> None:
    net = model().cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
    swa = torch.optim.swa_utils
    average = swa.AveragedModel(net, multi_avg_fn=swa.get_ema_multi_avg_fn(0.9))
    x = torch.randn(6, 4, device="cuda")
    for _ in range(2):
        net(x).sum().backward()
        optimizer.step()
        schedule.step()
        average.update_parameters(net)
    swa.update_bn([x], average)
    assert average.module[0].weight.device == CUDA


LAYERS: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "LSTM": (lambda: nn.LSTM(4, 3, 2, bidirectional=True), (5, 2, 4)),
    "GRU": (lambda: nn.GRU(4, 3), (5, 2, 4)),
    "RNN": (lambda: nn.RNN(4, 3), (5, 2, 4)),
    "LSTMCell": (lambda: nn.LSTMCell(4, 3), (2, 4)),
    "encoder": (lambda: nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0), (5, 2, 4)),
    "BatchNorm2d": (lambda: nn.BatchNorm2d(3), (2, 3, 4, 4)),
    "GroupNorm": (lambda: nn.GroupNorm(1, 3), (2, 3, 4, 4)),
    "LayerNorm": (lambda: nn.LayerNorm(4), (2, 4)),
    "InstanceNorm": (lambda: nn.InstanceNorm2d(3, affine=True), (2, 3, 4, 4)),
    "Conv2d": (lambda: nn.Conv2d(3, 4, 3, padding=1), (2, 3, 4, 4)),
    "ConvTranspose2d": (lambda: nn.ConvTranspose2d(3, 4, 3), (2, 3, 4, 4)),
    "PReLU": (lambda: nn.PReLU(), (2, 4)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name: str) -> None:
    torch.manual_seed(4)
    make, shape = LAYERS[name]
    host = make()
    net = copy.deepcopy(host).cuda()
    x = torch.randn(shape)
    there = x.cuda()
    with staying_on_device():
        got = net(there)
        got = got[0] if isinstance(got, tuple) else got
        got.square().sum().backward()
    want = host(x)
    want = want[0] if isinstance(want, tuple) else want
    want.square().sum().backward()
    same(got, want, 1e-3)
    for a, b in zip(net.parameters(), host.parameters(), strict=True):
        same(a.grad, b.grad, 1e-2)


# ---------------------------------------------------------------------- mixed precision


def test_autocast() -> None:
    x, w = torch.ones(2, 2, device="cuda"), torch.ones(2, 2, device="cuda")
    with torch.autocast("cuda"):
        assert torch.is_autocast_enabled("cuda")
        assert (x @ w).dtype == F.linear(x, w).dtype == torch.float16
        half = torch.mm(x, w)
        assert half.exp().dtype == F.softmax(half, 0).dtype == half.sum().dtype == torch.float32
        assert (half + half).dtype == torch.float16
        assert F.mse_loss(half, half).dtype == torch.float32
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float32  # the CPU's: off
        with torch.autocast("cuda", enabled=False):
            assert (x @ w).dtype == torch.float32
        with pytest.raises(RuntimeError, match="are unsafe to autocast"):
            F.binary_cross_entropy(x, w)
    with torch.autocast("cpu", dtype=torch.float16):
        assert (x @ w).dtype == torch.float32
    assert (x @ w).dtype == torch.float32


def test_the_gradient_scaler() -> None:
    net = nn.Linear(2, 2).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda", init_scale=4.0, growth_interval=2)
    assert scaler.is_enabled()
    for _ in range(2):
        with staying_on_device():
            scaler.scale(net(torch.ones(1, 2, device="cuda")).sum()).backward()
            scaler.unscale_(optimizer)
        with staying_on_device(1):  # the decision
            scaler.step(optimizer)
        with staying_on_device():
            scaler.update()
    assert scaler.get_scale() == 8.0
    before = net.weight.clone()
    scaler.scale((net.weight * float("inf")).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 4.0 and torch.equal(before, net.weight)
    assert scaler.state_dict()["_growth_tracker"] == 0


# ---------------------------------------------------------------------- files and other processes


def test_saving_and_loading(tmp_path: Any) -> None:
    net = model().cuda()
    whole = torch.arange(6.0, device="cuda")
    saved = {"net": net.state_dict(), "part": whole[2:], "whole": whole, "p": net[0].weight}
    path = tmp_path / "gpu.pt"
    torch.save(saved, path)
    found = torch.load(path)
    assert found["part"].device == found["net"]["0.weight"].device == CUDA
    assert type(found["p"]) is nn.Parameter and found["p"].device == CUDA
    same(found["part"], whole[2:])
    assert found["part"].data_ptr() - found["whole"].data_ptr() == 8
    for place in ("cpu", torch.device("cpu"), {"cuda:0": "cpu"}, lambda storage, _: storage.cpu()):
        host = torch.load(path, map_location=place)
        assert host["part"].device.type == host["p"].device.type == "cpu"
    assert torch.serialization.location_tag(whole.untyped_storage()) == "cuda:0"
    plain = tmp_path / "cpu.pt"
    torch.save(torch.ones(2), plain)
    assert torch.load(plain, map_location="cuda").device == CUDA
    code = (
        "import sys, tapegrad as torch, tapegrad.cuda.runtime as r\n"
        "r.Found.asked = True\n"  # as on a machine without a GPU
        "try:\n    torch.load(sys.argv[1])\nexcept RuntimeError as e:\n    print(e)\n"
        "print(torch.load(sys.argv[1], map_location='cpu')['part'])"
    )
    command = [sys.executable, "-c", code, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Attempting to deserialize object on a CUDA device but")
    assert done.stdout.endswith("tensor([2., 3., 4., 5.])\n")


def test_cupy_is_not_imported_before_it_is_asked_for() -> None:
    code = (
        "import sys, tapegrad as torch\n"
        "torch.manual_seed(0), torch.cuda.manual_seed_all(1), torch.rand(2, device='cpu').cpu()\n"
        "torch.nn.Linear(2, 2).to('cpu'), torch.cuda.memory_allocated(), torch.cuda.empty_cache()\n"
        "assert not torch.cuda.is_initialized()\n"
        "print('cupy' in sys.modules)"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_without_a_gpu() -> None:
    code = (
        "import tapegrad as torch, tapegrad.cuda.runtime as r\n"
        "r.Found.asked = True\n"
        "def first(call):\n"
        "    try:\n        print(call())\n"
        "    except Exception as e:\n"
        "        print(type(e).__name__, str(e).splitlines()[0], 'tapegrad[cuda12]' in str(e))\n"
        "first(torch.cuda.is_available)\n"
        "first(torch.cuda.device_count)\n"
        "first(lambda: torch.ones(1, device='cuda'))\n"
        "first(lambda: torch.ones(1).cuda())\n"
        "first(torch.cuda.current_device)\n"
        "first(lambda: torch.cuda.FloatTensor(1))\n"
        "first(lambda: torch.Generator('cuda'))\n"
        "first(lambda: torch.ones(1).pin_memory())\n"
        "first(lambda: torch.cuda.get_rng_state())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "False",
        "0",
        "AssertionError Torch not compiled with CUDA enabled True",
        "AssertionError Torch not compiled with CUDA enabled True",
        "AssertionError Torch not compiled with CUDA enabled True",
        "TypeError type torch.cuda.FloatTensor not available. Torch not compiled with CUDA "
        "enabled. True",
        "RuntimeError Cannot get CUDA generator without ATen_cuda library. True",
        "RuntimeError Cannot access accelerator device when none is available. True",
        "AssertionError Torch not compiled with CUDA enabled True",
    ]


def test_copies_and_pickles() -> None:
    t = torch.arange(4.0, device="cuda")
    pair = copy.deepcopy([t, t[1:]])
    assert pair[1].device == CUDA and pair[0].data_ptr() + 4 == pair[1].data_ptr()
    assert copy.copy(t).data_ptr() == t.data_ptr()
    back = pickle.loads(pickle.dumps(t))
    assert back.device == CUDA and torch.equal(back, t)
    parameter = pickle.loads(pickle.dumps(nn.Parameter(t)))
    assert type(parameter) is nn.Parameter and parameter.device == CUDA
    file = io.BytesIO()
    torch.save(t.to(torch.float16), file)
    file.seek(0)
    assert torch.load(file).dtype == torch.float16


def test_storages() -> None:
    t = torch.ones(2, 3, device="cuda")
    storage = t[1:].untyped_storage()
    assert storage.device == CUDA and storage.nbytes() == 24 and storage.is_cuda
    assert storage.data_ptr() == t.data_ptr() == t.untyped_storage().data_ptr()
    assert storage.cpu().device.type == "cpu" and storage.cuda() is storage
    assert t[1:].storage_offset() == 3
    assert torch.zeros(1).untyped_storage().cuda().device == CUDA


def test_pinned_memory() -> None:
    t = torch.arange(6.0).reshape(2, 3)
    assert not t.is_pinned()
    pinned = t.t().pin_memory()
    assert pinned.is_pinned() and pinned.stride() == (1, 3) and pinned.pin_memory() is pinned
    same(pinned.cuda(non_blocking=True), t.t())
    assert torch.empty(2, pin_memory=True).is_pinned()
    assert torch.tensor([1.0], pin_memory=True).is_pinned()
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        gpu(1.0).pin_memory()
    data = torch.utils.data.TensorDataset(t, torch.arange(2))
    batch = next(iter(torch.utils.data.DataLoader(data, 2, pin_memory=True)))
    assert batch[0].is_pinned() and batch[1].is_pinned()


def test_other_libraries() -> None:
    xp = devices.DEVICE.xp
    theirs = xp.arange(3, dtype=np.float32)
    for ours in (
        torch.from_dlpack(theirs),
        torch.as_tensor(theirs),
        torch.asarray(theirs),
    ):
        assert ours.device == CUDA
        assert ours.data_ptr() == theirs.data.ptr
    assert torch.tensor(theirs).data_ptr() != theirs.data.ptr
    assert torch.as_tensor(theirs, device="cpu").device.type == "cpu"
    t = torch.ones(2, 3, device="cuda")
    assert xp.asarray(t).data.ptr == t.data_ptr()
    assert t.__cuda_array_interface__["shape"] == (2, 3)
    assert t.__dlpack_device__() == (2, 0)
    assert torch.from_dlpack(t).data_ptr() == t.data_ptr()
    assert not hasattr(torch.ones(1), "__cuda_array_interface__")
    with pytest.raises(RuntimeError, match="on Variable that requires grad"):
        _ = torch.ones(1, device="cuda", requires_grad=True).__cuda_array_interface__
    with pytest.raises(TypeError, match="can't convert cuda:0 device type tensor to numpy"):
        t.numpy()
    with pytest.raises(TypeError, match="can't convert cuda:0 device type tensor to numpy"):
        np.asarray(t)
    assert t.numpy(force=True).shape == (2, 3)


def test_checkpointing_repeats_the_mask() -> None:
    from tapegrad.utils.checkpoint import checkpoint

    x = torch.ones(64, device="cuda", requires_grad=True)
    out = checkpoint(lambda t: F.dropout(t * 2, 0.5), x, use_reentrant=False)
    out.sum().backward()
    same(x.grad, out)


def test_marks_for_profilers(monkeypatch: pytest.MonkeyPatch) -> None:
    nvtx = torch.cuda.nvtx
    number = nvtx.range_start("b")
    assert isinstance(number, int)
    assert nvtx.range_end(number) is None
    if not hasattr(devices.DEVICE.xp, "RawKernel"):  # as CuPy's functions want to be called
        door = types.SimpleNamespace(RangeStart=lambda message, color: 7 + color, RangeEnd=id)
        with monkeypatch.context() as patch:
            patch.setattr(devices.DEVICE.xp.cuda, "nvtx", door, raising=False)
            assert nvtx.range_start("c") == 7
            nvtx.range_end(7)
    assert nvtx.range_push("a") == 0 and nvtx.range_pop() == 0
    with nvtx.range("step {}", 1):
        nvtx.mark("here")
