"""diagnose where it meets other features: dtypes, subclasses, transforms, hooks, lazy layers."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import tapegrad as torch
import tapegrad.nn.functional as F
from tapegrad import diagnose, func, nn, optim
from tapegrad.autograd import forward_ad
from tapegrad.diagnose import doctor
from tapegrad.utils.checkpoint import checkpoint

pytestmark = pytest.mark.filterwarnings("ignore:Error detected in:UserWarning")


class Silent(torch.Tensor):
    """A subclass that says nothing about functions."""


class Asked(torch.Tensor):
    """A subclass that is asked about every function."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return super().__torch_function__(func, types, args, kwargs or {})


# ---------------------------------------------------------------------- every tool


def square(p: Any) -> Any:
    """The sum of squares: its gradient is 2 * p, of complex numbers too."""
    return (p * p.conj()).real.sum() if p.is_complex() else (p * p).sum()


def plain(p: Any) -> Any:
    return p


LEAVES: dict[str, Callable[[], Any]] = {
    **{
        name: lambda name=name: torch.tensor([1.0, 2.0]).to(getattr(torch, name)).requires_grad_()
        for name in ("float32", "float64", "float16", "bfloat16", "complex64", "complex128")
    },
    "parameter in float64": lambda: nn.Parameter(torch.tensor([1.0, 2.0]).double()),
    "parameter in bfloat16": lambda: nn.Parameter(torch.tensor([1.0, 2.0]).bfloat16()),
    "silent": lambda: torch.tensor([1.0, 2.0]).as_subclass(Silent).requires_grad_(),
    "asked": lambda: torch.tensor([1.0, 2.0]).as_subclass(Asked).requires_grad_(),
    "of a subclass": lambda: nn.Parameter(torch.tensor([1.0, 2.0]).as_subclass(Silent)),
    "not contiguous": lambda: torch.tensor([[1.0, 5.0], [2.0, 6.0]])[:, 0].requires_grad_(),
}


@pytest.mark.parametrize("kind", LEAVES)
def test_every_tool_on_every_kind_of_leaf(kind: str) -> None:
    p = LEAVES[kind]()
    size = p.element_size()
    loss = square(p)
    assert diagnose.why(p).cause == "no backward yet"
    facts = diagnose.summary(p).data()
    assert (facts["min"], facts["max"], facts["size"], facts["bytes"]) == (1, 2, 2, 2 * size)
    assert complex(facts["mean"]) == 1.5
    kept = diagnose.memory(loss)
    whole = 2 * size * (2 if kind == "not contiguous" else 1)
    assert whole in {t["bytes"] for t in kept.tensors if t["kind"] == "parameter"}
    graph = diagnose.graph(loss)
    (leaf,) = [n for n in json.loads(graph.json())["nodes"] if n["kind"] == "leaf"]
    assert (leaf["name"], leaf["shape"], leaf["summary"]["max"]) == ("p", [2], 2)
    assert "<svg" in graph.svg() and "<html" in graph.html() and "digraph" in graph.dot()
    steps = list(diagnose.trace_backward(loss))
    assert [abs(v) for v in steps[-1].incoming.tolist()] == [2, 4]
    assert all(isinstance(str(step), str) for step in steps)
    assert [abs(v) for v in p.grad.tolist()] == [2, 4]
    norm = math.sqrt(20)
    assert diagnose.why(p).facts["norm"] == pytest.approx(norm, rel=1e-2)
    row = diagnose.gradient_flow([("p", p)]).rows[0]
    assert row["norm"] == pytest.approx(norm, rel=1e-2) and row["mark"] == ""
    (leaf,) = [n for n in diagnose.graph(loss).nodes if n["kind"] == "leaf"]
    assert leaf["grad"]["norm"] == pytest.approx(norm, rel=1e-2)


def packing(p: Any) -> Any:
    with torch.autograd.graph.saved_tensors_hooks(lambda t: (t, "packed"), lambda pack: pack[0]):
        return square(p)


def with_tangent(p: Any) -> Any:
    with forward_ad.dual_level():
        return square(forward_ad.make_dual(p, torch.ones(2)))


AROUND: dict[str, Callable[[Any], Any]] = {
    "saved_tensors_hooks": packing,
    "checkpoint": lambda p: checkpoint(square, p, use_reentrant=False),
    "reentrant checkpoint": lambda p: checkpoint(square, p, use_reentrant=True),
    "forward mode": with_tangent,
    "vmap": lambda p: func.vmap(lambda x: x * x)(p).sum(),
    "vjp": lambda p: func.vjp(square, p)[0],
}


@pytest.mark.parametrize("how", AROUND)
def test_every_tool_on_graphs_that_others_made(how: str) -> None:
    p = torch.tensor([1.0, 2.0], requires_grad=True)
    loss = AROUND[how](p)
    assert diagnose.memory(loss).nodes >= 2
    assert len(diagnose.graph(loss).html()) > 1000
    list(diagnose.trace_backward(loss))
    assert p.grad.tolist() == [2, 4]
    assert diagnose.why(p).cause == "filled"


# ---------------------------------------------------------------------- inside of transforms

TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "grad": lambda f: func.grad(f)(torch.tensor([1.0, 2.0])),
    "vmap": lambda f: func.vmap(f)(torch.tensor([[1.0, 2.0], [3.0, 4.0]])),
    "vmap of leaves": lambda f: func.vmap(f)(torch.ones(2, 2, requires_grad=True)),
    "vmap of grad": lambda f: func.vmap(func.grad(f))(torch.tensor([[1.0, 2.0], [3.0, 4.0]])),
    "jvp": lambda f: func.jvp(f, (torch.ones(2),), (torch.ones(2),)),
    "jacrev": lambda f: func.jacrev(f)(torch.ones(2)),
    "hessian": lambda f: func.hessian(f)(torch.ones(2)),
}


@pytest.mark.parametrize("how", TRANSFORMS)
def test_every_tool_inside_of_a_transform(how: str) -> None:
    called = []

    def looked_at(x: Any) -> Any:
        y = square(x)
        called.append(diagnose.summary(x))
        assert str(diagnose.why(x)) and str(diagnose.why(y))
        assert "y" in diagnose.graph(y).text() and diagnose.graph(y).html()
        assert diagnose.memory(y).total >= 0 and str(diagnose.leaks())
        assert str(diagnose.gradient_flow([("x", x)]))
        return y

    TRANSFORMS[how](looked_at)
    assert called and all(found.shape == (2,) and found.name == "x" for found in called)


def test_numbers_inside_of_vmap_are_those_of_all_entries() -> None:
    seen: list[Any] = []

    def looked_at(x: Any) -> Any:
        y = (x * x).sum()
        seen.extend([diagnose.summary(x), diagnose.graph(y), diagnose.memory(y), diagnose.why(y)])
        return y

    func.vmap(func.grad(looked_at))(torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))
    summary, graph, memory, why = seen
    assert (summary.min, summary.max, summary.size, summary.entries) == (1, 6, 6, 2)
    assert "those of all 2 entries" in repr(summary)
    assert [n["shape"] for n in graph.nodes if n["kind"] == "leaf"] == [[2, 3]]
    assert memory.parameters == 24
    assert why.cause == "not a leaf"


# ---------------------------------------------------------------------- lazy layers


def test_lazy_layers_that_have_not_run() -> None:
    model = nn.Sequential(nn.LazyLinear(2), nn.Linear(2, 1))
    weight = model[0].weight
    assert diagnose.why(weight).cause == "uninitialized"
    with pytest.raises(ValueError, match="`weight` belongs to a lazy layer that has not seen an"):
        diagnose.summary(weight)
    rows = diagnose.gradient_flow(model).rows
    assert [(row["shape"], row["mark"]) for row in rows[:2]] == [(None, "lazy")] * 2
    assert "0.weight" in repr(diagnose.gradient_flow(model))
    assert diagnose.graph(weight).html() and diagnose.memory(weight).activations == 0


def test_the_doctor_beside_lazy_layers() -> None:
    """One that nobody has called, and one that gets its shape while the doctor watches."""
    forgotten = nn.LazyLinear(3)
    x, y = torch.randn(8, 3), torch.randn(8, 1)
    model = nn.Sequential(nn.LazyLinear(4), nn.ReLU(), nn.LazyLinear(1))
    with doctor(show=False) as report:
        optimizer = None
        for _ in range(5):
            out = model(x)
            optimizer = optimizer or optim.SGD(model.parameters(), lr=0.01)
            optimizer.zero_grad()
            F.mse_loss(out, y).backward()
            optimizer.step()
    assert report.problems == [] and report.findings == [], str(report)
    assert torch.nn.parameter.is_lazy(forgotten.weight)


# ---------------------------------------------------------------------- the doctor


def data(dtype: Any = torch.float32) -> tuple[Any, Any]:
    x, y = torch.linspace(-1, 1, 64).reshape(16, 4), torch.linspace(0, 1, 16).reshape(16, 1)
    return x.to(dtype), y.to(dtype)


def trained(model: Any, dtype: Any = torch.float32, kind: Any = torch.Tensor) -> None:
    x, y = data(dtype)
    x = x.as_subclass(kind)
    optimizer = optim.SGD(model.parameters(), lr=0.01)
    for _ in range(6):
        optimizer.zero_grad()
        F.mse_loss(model(x), y).backward()
        optimizer.step()


class Product(nn.Module):
    def __init__(self, weight: Any) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)

    def forward(self, x: Any) -> Any:
        return x @ self.weight


def by_hand() -> None:
    model = nn.Linear(4, 1)
    x, y = data()
    for _ in range(6):
        F.mse_loss(model(x), y).backward()
        with torch.no_grad():
            for p in model.parameters():
                p -= 0.01 * p.grad
                p.grad = None


def by_autograd_grad() -> None:
    model = nn.Linear(4, 1).double()
    x, y = data(torch.float64)
    for _ in range(6):
        loss = F.mse_loss(model(x), y)
        grads = torch.autograd.grad(loss, list(model.parameters()))
        with torch.no_grad():
            for p, g in zip(model.parameters(), grads, strict=True):
                p -= 0.01 * g


def by_func(batched: bool) -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 1))
    params = {name: p.detach() for name, p in model.named_parameters()}
    inputs = data()

    def loss(params: Any, x: Any, y: Any) -> Any:
        return F.mse_loss(func.functional_call(model, params, (x,)), y)

    gradient = func.grad(loss)
    if batched:
        gradient = func.vmap(gradient, in_dims=(None, 0, 0), randomness="different")
    for _ in range(6):
        grads = gradient(params, *inputs)
        params = {
            name: p - 0.01 * (grads[name].mean(0) if batched else grads[name])
            for name, p in params.items()
        }


def ensemble() -> None:
    base = nn.Linear(4, 1)
    params, _ = func.stack_module_state([nn.Linear(4, 1) for _ in range(3)])
    optimizer = optim.SGD(list(params.values()), lr=0.01)
    x, y = data()
    for _ in range(6):
        optimizer.zero_grad()
        outs = func.vmap(lambda p: func.functional_call(base, p, (x,)))(params)
        ((outs - y) ** 2).mean().backward()
        optimizer.step()


def with_tangents() -> None:
    model = nn.Linear(4, 1)
    optimizer = optim.SGD(model.parameters(), lr=0.01)
    x, y = data()
    for _ in range(6):
        optimizer.zero_grad()
        with forward_ad.dual_level():
            F.mse_loss(model(forward_ad.make_dual(x, torch.ones_like(x))), y).backward()
        optimizer.step()


def complex_numbers() -> None:
    weight = nn.Parameter(torch.ones(4, 1, dtype=torch.complex64))
    optimizer = optim.SGD([weight], lr=0.01)
    x, y = data(torch.complex64)
    for _ in range(6):
        optimizer.zero_grad()
        (x @ weight - y).abs().square().mean().backward()
        optimizer.step()


HEALTHY: dict[str, Callable[[], Any]] = {
    "by hand": by_hand,
    "by autograd.grad": by_autograd_grad,
    "by func.grad": lambda: by_func(False),
    "by vmap of grad": lambda: by_func(True),
    "an ensemble": ensemble,
    "with tangents": with_tangents,
    "complex": complex_numbers,
    "float64": lambda: trained(nn.Linear(4, 1).double(), torch.float64),
    "bfloat16": lambda: trained(nn.Linear(4, 1).bfloat16(), torch.bfloat16),
    "silent parameters": lambda: trained(Product(torch.ones(4, 1).as_subclass(Silent))),
    "asked parameters": lambda: trained(Product(torch.ones(4, 1).as_subclass(Asked))),
    "asked inputs": lambda: trained(nn.Linear(4, 1), kind=Asked),
}


@pytest.mark.parametrize("loop", HEALTHY)
def test_the_doctor_is_well_and_finds_nothing(loop: str) -> None:
    torch.manual_seed(0)
    with doctor(show=False) as report:
        HEALTHY[loop]()
    assert report.problems == [] and report.findings == [], str(report)


def not_finite(dtype: Any) -> None:
    weight = nn.Parameter(torch.zeros(4, 1, dtype=dtype))
    optimizer = optim.SGD([weight], lr=0.01)
    for _ in range(3):
        optimizer.zero_grad()
        (data(dtype)[0] @ weight).log().abs().mean().backward()
        optimizer.step()


def bad_slope(dtype: Any) -> None:
    weight = nn.Parameter(torch.zeros(4, 1, dtype=dtype))
    optimizer = optim.SGD([weight], lr=0.01)
    for _ in range(3):
        optimizer.zero_grad()
        (weight * weight).sqrt().mean().backward()
        optimizer.step()


def evaluated_by_vmap() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 1))
    trained(model)
    for _ in range(2):
        with torch.no_grad():
            func.vmap(model, randomness="different")(data()[0])


def not_finite_by_hand() -> None:
    weight = torch.zeros(4, 1, requires_grad=True)
    for _ in range(3):
        (data()[0] @ weight).log().mean().backward()
        with torch.no_grad():
            weight -= 0.1 * weight.grad
            weight.grad = None


def detached_by_hand() -> None:
    weight = torch.zeros(4, 1, requires_grad=True)
    for _ in range(3):
        loss = torch.tensor((data()[0] @ weight).mean().item(), requires_grad=True)
        loss.backward()


ILL: dict[str, tuple[str, Callable[[], Any]]] = {
    "log(0) in float64": ("D18", lambda: not_finite(torch.float64)),
    "log(0) in bfloat16": ("D18", lambda: not_finite(torch.bfloat16)),
    "log(0) in complex64": ("D18", lambda: not_finite(torch.complex64)),
    "sqrt(0) in float64": ("D19", lambda: bad_slope(torch.float64)),
    "sqrt(0) in bfloat16": ("D19", lambda: bad_slope(torch.bfloat16)),
    "evaluated by vmap": ("D15", evaluated_by_vmap),
    "log(0), without an optimizer": ("D18", not_finite_by_hand),
    "detached, without an optimizer": ("D04", detached_by_hand),
}


@pytest.mark.parametrize("loop", ILL)
def test_the_doctor_finds_what_is_planted(loop: str) -> None:
    wanted, run = ILL[loop]
    with doctor(show=False) as report:
        run()
    assert report.problems == []
    assert [f.id for f in report.findings] == [wanted]
    assert report.findings[0].where is not None and report.findings[0].where["file"] == __file__


# ---------------------------------------------------------------------- anomaly mode


def sine(x: Any) -> Any:
    return x.sin()


def broken(x: Any) -> Any:
    return (x * 0).sqrt() * 0


DERIVATIVES: dict[str, Callable[[Any], Any]] = {
    "jacrev": lambda f: func.jacrev(f)(torch.ones(2)),
    "jacfwd of grad": lambda f: func.jacfwd(func.grad(lambda x: f(x).sum()))(torch.ones(2)),
    "vmap of grad": lambda f: func.vmap(func.grad(lambda x: f(x).sum()))(torch.ones(3, 2)),
    "is_grads_batched": lambda f: batched_gradients(f),
}


def batched_gradients(f: Callable[[Any], Any]) -> Any:
    x = torch.ones(2, requires_grad=True)
    return torch.autograd.grad(f(x), x, torch.eye(2), is_grads_batched=True)[0]


@pytest.mark.parametrize("how", DERIVATIVES)
def test_anomaly_mode_looks_at_batches(how: str) -> None:
    """PyTorch's does in func; all entries count."""
    wanted = DERIVATIVES[how](sine)
    with torch.autograd.set_detect_anomaly(True):
        assert torch.equal(DERIVATIVES[how](sine), wanted)
        with pytest.raises(RuntimeError) as caught:
            DERIVATIVES[how](broken)
    found: Any = caught.value
    first = str(found).splitlines()[0]
    assert first == "Function 'SqrtBackward0' returned nan values in its 0th output."
    assert found.diagnosis["pattern"] == "sqrt(0)"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_anomaly_mode_knows_the_limits_of_a_dtype(dtype: str) -> None:
    kind = getattr(torch, dtype)
    most = torch.finfo(kind).max
    x = torch.tensor([most], dtype=kind, requires_grad=True)
    with torch.autograd.set_detect_anomaly(True, check_inf=True), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        with pytest.raises(RuntimeError) as caught:
            ((x * torch.tensor([4.0], dtype=kind)) ** 2 * 0).sum().backward()
    found: Any = caught.value
    assert found.diagnosis["pattern"] == f"overflow of {dtype}"
    assert f"beyond {most:.4g}" in found.diagnosis["what"]
    assert found.diagnosis["inputs"][0]["range"] == [most, most]
    advice = "in float32, or in bfloat16"
    assert any(advice in fix for fix in found.diagnosis["fixes"]) == (dtype == "float16")
