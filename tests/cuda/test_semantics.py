"""Programs that give the same on both devices: views, writes, indexing, hooks, promotion."""

from __future__ import annotations

import copy
import pickle
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as torch
from tapegrad.core import devices

pytestmark = pytest.mark.filterwarnings("ignore")
Program = Callable[[str], Any]
PROGRAMS: list[Program] = []


def program(function: Program) -> Program:
    PROGRAMS.append(function)
    return function


def numbers(*shape: int, device: str, grad: bool = True) -> Any:
    t = torch.linspace(-1.0, 2.0, int(np.prod(shape, dtype=int)), dtype=torch.float64)
    return t.reshape(shape).to(device).requires_grad_(grad)


def plain(value: Any) -> Any:
    """A result as plain Python, to compare."""
    if isinstance(value, torch.Tensor):
        array = devices.to_host(value.detach()._array)
        return str(value.dtype), value.stride(), array.tolist(), value.requires_grad
    if isinstance(value, (tuple, list)):
        return [plain(v) for v in value]
    return value


@pytest.mark.parametrize("run", PROGRAMS, ids=lambda f: f.__name__)
def test_same(run: Program) -> None:
    same(plain(run("cuda")), plain(run("cpu")))


def same(got: Any, want: Any) -> None:
    """Equal, but for the last digits of numbers: a GPU's sine is not the host's."""
    assert type(got) is type(want)
    if isinstance(want, (tuple, list)):
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            same(g, w)
    elif isinstance(want, float):
        assert got == pytest.approx(want, rel=1e-12, abs=1e-12, nan_ok=True)
    else:
        assert got == want


# ---------------------------------------------------------------------- views and writes


@program
def write_through_a_view(device: str) -> Any:
    x = numbers(3, 4, device=device)
    y = x * 2
    row = y[1]
    row.mul_(3)
    y.t()[2].add_(row[0])
    names = y.grad_fn.name(), row.grad_fn.name()
    (y * y).sum().backward()
    return y, row, x.grad, names, y._version, row._version


@program
def stale_views(device: str) -> Any:
    x = numbers(4, device=device)
    y = x.clone()
    first, second = y[:2], y[1:]
    first.mul_(2)
    out = (second * second).sum()
    out.backward()
    return first, second, x.grad, second.grad_fn.name()


@program
def as_strided_views(device: str) -> Any:
    x = numbers(6, device=device)
    y = x * 1
    over = y.as_strided((4, 3), (1, 1))
    z = y.as_strided((2, 2), (3, 1), 1)
    z.mul_(5)
    total = (over * over).sum()
    total.backward()
    return over, z, x.grad, z.storage_offset(), over.is_contiguous()


@program
def repointed(device: str) -> Any:
    x = numbers(2, 3, device=device)
    y = x.clone()
    y.t_()
    y.unsqueeze_(0).squeeze_(0)
    y.transpose_(0, 1).mul_(2)
    y.sum().backward()
    return y, x.grad


@program
def complex_views(device: str) -> Any:
    x = numbers(3, 2, device=device)
    z = torch.view_as_complex(x.clone())
    z.mul_(2j)
    real = torch.view_as_real(z)
    real[0, 1] = 7.0
    (z * z.conj()).real.sum().backward()
    return z, real, x.grad


@program
def saved_values_are_guarded(device: str) -> Any:
    x = numbers(3, device=device)
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    return y._version


@program
def leaves_are_guarded(device: str) -> Any:
    x = numbers(3, device=device)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        x.add_(1)
    with pytest.raises(RuntimeError, match="a view of a leaf"):
        x[0].zero_()
    with torch.no_grad():
        x.mul_(2)
    return x


@program
def overlapping_writes(device: str) -> Any:
    x = numbers(4, device=device, grad=False)
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        x[:1].expand(4).add_(1)
    with pytest.raises(RuntimeError, match="some elements of the input tensor"):
        x[1:].add_(x[:-1])
    return x


@program
def detach_shares(device: str) -> Any:
    x = numbers(3, device=device).clone()
    d = x.detach()
    d.zero_()
    x.data.add_(1)
    return x, d, x._version, d._version, d.data_ptr() == x.data_ptr()


@program
def fills_and_copies(device: str) -> Any:
    x = numbers(2, 3, device=device)
    y = x.clone()
    y[0].fill_(3)
    y[1].copy_(torch.arange(3.0))
    y[:, 1].zero_()
    y.masked_fill_(y > 2.5, torch.tensor(9.0, dtype=torch.float64))
    (y * y).sum().backward()
    return y, x.grad


@program
def copies_between_devices(device: str) -> Any:
    source = numbers(2, 2, device="cpu")
    target = torch.zeros(2, 2, dtype=torch.float64, device=device)
    target.copy_(source)
    (target * 3).sum().backward()
    back = torch.zeros(2, 2, dtype=torch.float64).copy_(target.detach())
    return source.grad, back


# ---------------------------------------------------------------------- indexing

INDICES: list[Any] = [
    0,
    -1,
    slice(1, None),
    slice(None, None, 2),
    None,
    Ellipsis,
    (0, 1),
    (slice(None), -1),
    (None, 1, ..., slice(0, 2)),
    (..., None),
    [0, 2],
    [[0, 1], [2, 0]],
    ([0, 2], [1, 3]),
    ([0, 2], slice(1, 3)),
    (slice(None), [3, 0, 3]),
    (slice(None), [-1, 0]),
    [True, False, True],
    (slice(None), [True, False, True, True]),
    True,
    False,
    np.array([2, 1]),
    (np.array([0, 1]), None, np.array([1, 1])),
    (0, [1, 2]),
    range(2),
]
TENSORS: list[Any] = [
    lambda d: torch.tensor([0, 2, 0], device=d),
    lambda d: torch.tensor(1, device=d),
    lambda d: torch.tensor([[0, 1], [1, 2]], device=d),
    lambda d: (torch.tensor([0, 2], device=d), torch.tensor([1, -1], device=d)),
    lambda d: (slice(None), torch.tensor([1, 1], device=d)),
    lambda d: (torch.tensor([[0], [2]], device=d), torch.tensor([1, 3], device=d)),
    lambda d: torch.tensor([True, False, True], device=d),
    lambda d: torch.tensor(True, device=d),
    lambda d: (torch.tensor([0, 1, 1], device=d) > 0, [0, 1]),
    lambda d: torch.arange(12, device=d).reshape(3, 4) % 3 == 0,
    lambda d: [torch.tensor(0, device=d), torch.tensor(2, device=d)],
    lambda d: (torch.tensor([0, 1], device=d), slice(None), None),
    lambda d: torch.tensor([0, 1]),
]


def every_index(device: str) -> list[Any]:
    return [*INDICES, *[make(device) for make in TENSORS]]


@pytest.mark.parametrize("place", range(len(INDICES) + len(TENSORS)))
@pytest.mark.parametrize("layout", ["C", "T"])
def test_reading(place: int, layout: str) -> None:
    def run(device: str) -> Any:
        x = numbers(3, 4, device=device) if layout == "C" else numbers(4, 3, device=device)
        out = (x if layout == "C" else x.t())[every_index(device)[place]]
        (out * out).sum().backward()
        return out, x.grad, out.grad_fn.name()

    assert plain(run("cuda")) == plain(run("cpu"))


@pytest.mark.parametrize("place", range(len(INDICES) + len(TENSORS)))
@pytest.mark.parametrize("value", ["number", "scalar", "region", "host scalar"])
def test_assigning(place: int, value: str) -> None:
    def run(device: str) -> Any:
        x = numbers(3, 4, device=device)
        index = every_index(device)[place]
        y = x * 1
        v: Any = 2.5
        if value == "scalar":
            v = torch.tensor(1.5, dtype=torch.float64, device=device, requires_grad=True)
        elif value == "host scalar":
            v = torch.tensor(1.5, dtype=torch.float64, requires_grad=True)
        elif value == "region":
            v = (y[index].detach() * 3).requires_grad_()
        y[index] = v
        (y * y).sum().backward()
        return y, x.grad, v.grad if isinstance(v, torch.Tensor) else None, y._version

    assert plain(run("cuda")) == plain(run("cpu"))


@program
def accumulates(device: str) -> Any:
    x = numbers(3, 4, device=device)
    values = numbers(4, 4, device=device)
    at = torch.tensor([0, 0, 2, 0], device=device)
    y = x.clone()
    y.index_put_((at,), values, accumulate=True)
    z = x.index_add(0, at, values, alpha=2).scatter_add(1, at.reshape(1, 4), values[:1])
    (y * z).sum().backward()
    return y, z, x.grad, values.grad


@program
def integer_sums(device: str) -> Any:
    found = []
    for dtype in (torch.int64, torch.int32, torch.int8, torch.uint8, torch.bool, torch.float16):
        x = torch.zeros(4, dtype=dtype, device=device)
        at = torch.tensor([0, 2, 2, 3], device=device)
        ones = torch.ones(4, dtype=dtype, device=device)
        if dtype is not torch.bool:
            found.append(x.scatter_add(0, at, ones))
        found.append(x.index_put((at,), ones, accumulate=dtype is not torch.bool))
    return found


@program
def reduces_into_places(device: str) -> Any:
    at = torch.tensor([0, 2, 2, 3, 2, 0], device=device)
    found = []
    for how in ("sum", "prod", "mean", "amax", "amin"):
        for dtype in (torch.float64, torch.float32, torch.int64, torch.int16):
            x = torch.arange(1, 5, device=device).to(dtype)
            src = torch.arange(-2, 4, device=device).to(dtype)
            found.append(x.scatter_reduce(0, at, src, how, include_self=how != "amin"))
    return found


# ---------------------------------------------------------------------- hooks and graphs


@program
def hooks(device: str) -> Any:
    seen: list[Any] = []
    x = numbers(3, device=device)
    y = x * 2
    y.register_hook(lambda g: seen.append(g) or g * 3)
    y.retain_grad()
    y.grad_fn.register_hook(lambda gi, go: seen.extend([gi[0], go[0]]))
    x.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad))
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    return seen, x.grad, y.grad


@program
def accumulated_gradients(device: str) -> Any:
    x, w = numbers(3, 2, device=device), numbers(2, device=device)
    for _ in range(2):
        ((x * w).sum(1) + x[:, 0]).pow(2).sum().backward()
    shared = x + x
    a, b = torch.autograd.grad([shared.sum(), (x * x).sum()], [x, x])
    return x.grad, w.grad, a, b, x.grad._version


@program
def gradients_do_not_share_memory(device: str) -> Any:
    a, b = numbers(3, device=device), numbers(3, device=device)
    (a + b).backward(torch.ones(3, dtype=torch.float64, device=device))
    a.grad.zero_()
    x = numbers(2, 3, device=device)
    y = numbers(6, device=device)
    (x.reshape(6) + y).sum().backward()
    x.grad.zero_()
    return a.grad, b.grad, y.grad


@program
def functions(device: str) -> Any:
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * 2, x + 1

        @staticmethod
        def backward(ctx: Any, g: Any, h: Any) -> Any:
            (x,) = ctx.saved_tensors
            return g * 2 + h * x

    x = numbers(3, device=device)
    first, _ = Twice.apply(x)
    (g,) = torch.autograd.grad(first.sum(), x, create_graph=True)
    first.sum().backward()
    return first, g, x.grad


@program
def saved_tensor_hooks(device: str) -> Any:
    packed: list[Any] = []

    def pack(t: Any) -> Any:
        packed.append(t.shape)
        return t.cpu()

    x = numbers(3, device=device)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t.to(device)):
        y = x.exp() * x
    y.sum().backward()
    return x.grad, packed


@program
def several_outputs(device: str) -> Any:
    x = numbers(4, 3, device=device)
    values, places = x.sort(0, descending=True)
    a, *rest = x.split(2)
    (values[0] * 2).sum().backward(retain_graph=True)
    (a * a).sum().backward()
    return values, places, x.grad, len(rest)


# ---------------------------------------------------------------------- forward mode and vmap


@program
def jvp_and_vmap(device: str) -> Any:
    x = numbers(3, 2, device=device, grad=False)

    def f(v: Any) -> Any:
        w = v.clone()
        w[0] = w[1] * 2
        w.mul_(v)
        return w.sin().sum() + (v[torch.tensor([0, 1, 1], device=device)] ** 2).sum()

    value, tangent = torch.func.jvp(f, (x[0],), (torch.ones_like(x[0]),))
    return (
        value,
        tangent,
        torch.func.vmap(torch.func.grad(f))(x),
        torch.func.jacrev(torch.sin)(x[0]),
        torch.func.jacfwd(torch.sin)(x[0]),
        torch.func.hessian(f)(x[0]),
    )


@program
def vmap_writes(device: str) -> Any:
    x = numbers(3, 4, device=device, grad=False)

    def f(row: Any) -> Any:
        out = torch.zeros_like(row)
        out[1:] = row[:-1]
        out[0] += row.sum()
        return out.new_ones(2).sum() * out + row.new_full((4,), 2.0)

    return torch.func.vmap(f)(x), torch.func.vmap(lambda r: r[[0, 2]])(x)


# ---------------------------------------------------------------------- dtypes and numbers


@program
def promotion(device: str) -> Any:
    kinds = (torch.bool, torch.uint8, torch.int32, torch.int64, torch.float16, torch.float32)
    found: list[Any] = []
    for a in kinds:
        x = torch.ones(2, device=device).to(a)
        for b in kinds:
            other = torch.ones((), device=device).to(b)
            found += [str((x + other).dtype), str((x * other.expand(2)).dtype)]
        found += [str((x + 1).dtype), str((x + 1.5).dtype), str((x * 1j).dtype)]
        found += [str((x / 2).dtype), str((x > 0).dtype), x + 1, 2.5 * x]
    return found


@program
def host_numbers_take_part(device: str) -> Any:
    x = numbers(2, 2, device=device)
    s = torch.tensor(1.5, requires_grad=True)
    y = x * s + torch.tensor(2, dtype=torch.int64)
    y = torch.where(y > 0, y, torch.tensor(0.5, dtype=torch.float64))
    y = y.clone().div_(torch.tensor(2.0))
    y.sum().backward()
    return y, x.grad, s.grad, str(s.grad.device)


@program
def numbers_out(device: str) -> Any:
    x = numbers(2, 2, device=device)
    one = torch.tensor(3, device=device)
    return x.tolist(), x[0, 0].item(), float(x[0, 1]), int(one), bool(one), [10, 20, 30, 40][one]


@program
def deep_copies(device: str) -> Any:
    x = numbers(2, 3, device=device)
    (x * x).sum().backward()
    y = copy.deepcopy(x)
    z = pickle.loads(pickle.dumps(x))
    pair = copy.deepcopy([x.detach(), x.detach()[0]])
    pair[1].zero_()
    return y, y.grad, z, str(y.device) == str(x.device) == str(z.device), pair


@program
def out_arguments(device: str) -> Any:
    x = numbers(2, 2, device=device, grad=False)
    target = torch.empty(2, 2, dtype=torch.float64, device=device)
    torch.add(x, 1, out=target)
    torch.matmul(x, x, out=target)
    grown = torch.empty(0, dtype=torch.float64, device=device)
    torch.cat([x, x], out=grown)
    return target, grown, target._version


# ---------------------------------------------------------------------- two devices, and refusals


@pytest.mark.parametrize(
    "run",
    [
        lambda a, b: a + b,
        lambda a, b: b + a,
        lambda a, b: a @ b,
        lambda a, b: torch.cat([a, b]),
        lambda a, b: torch.where(a > 0, a, b),
        lambda a, b: a.add_(b),
        lambda a, b: b.mul_(a),
        lambda a, b: torch.nn.functional.linear(a, b),
        lambda a, b: torch.nn.functional.mse_loss(a, b),
        lambda a, b: torch.add(a, a, out=b),
    ],
)
def test_two_devices(run: Any) -> None:
    a, b = torch.ones(2, 2, device="cuda"), torch.ones(2, 2)
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device") as info:
        run(a, b)
    assert "found at least two devices, cuda:0 and cpu!" in str(info.value)


def test_host_tensors_are_not_indexed_from_the_device() -> None:
    with pytest.raises(RuntimeError, match="indices should be either on cpu or on the same device"):
        torch.ones(3)[torch.tensor([0], device="cuda")]


def test_no_numpy() -> None:
    x = torch.ones(2, device="cuda")
    for convert in (lambda: x.numpy(), lambda: np.asarray(x)):
        with pytest.raises(TypeError, match="can't convert cuda:0 device type tensor to numpy"):
            convert()


def test_repr() -> None:
    x = torch.ones(2, device="cuda")
    assert repr(x) == "tensor([1., 1.], device='cuda:0')"
    x.requires_grad_()
    assert repr(x * 2) == "tensor([2., 2.], device='cuda:0', grad_fn=<MulBackward0>)"
    assert repr(torch.ones((), device="cuda", dtype=torch.int32)) == (
        "tensor(1, device='cuda:0', dtype=torch.int32)"
    )


def test_graphs_are_freed() -> None:
    x = torch.ones(2, device="cuda", requires_grad=True)
    y = (x * 2).exp()

    class Mark:
        pass

    mark = y.grad_fn.metadata["mark"] = Mark()
    alive = weakref.ref(mark)
    del mark
    y.sum().backward()
    del y
    assert alive() is None


def test_gradcheck() -> None:
    x, w = numbers(3, 2, device="cuda"), numbers(3, 2, device="cuda")
    options: dict[str, Any] = {"check_forward_ad": True, "check_batched_grad": True}
    assert torch.autograd.gradcheck(lambda a, b: (a * b.sin()).sum(0), (x, w), **options)
    assert torch.autograd.gradgradcheck(lambda a, b: (a * b.sin()).sum(0), (x, w))


def test_anomaly_mode() -> None:
    x = torch.zeros(2, device="cuda", requires_grad=True)
    with torch.autograd.detect_anomaly(), pytest.raises(RuntimeError, match="returned nan values"):
        (x.sqrt() * 0).sum().backward()
