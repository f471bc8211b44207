"""trace_backward: the same pass as backward(), one step at a time."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any

import pytest

import tapegrad as torch
from tapegrad import diagnose, nn

Leaves = list[Any]


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, factor: float, y: Any) -> Any:
        ctx.save_for_backward(x, y)
        ctx.factor = factor
        return x * factor * y

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        x, y = ctx.saved_tensors
        return grad * ctx.factor * y, None, (grad * ctx.factor * x).sum(0)


def leaves(*shapes: tuple[int, ...]) -> Leaves:
    torch.manual_seed(0)
    return [torch.randn(shape).requires_grad_() for shape in shapes]


# Each builds a loss from leaves; some put hooks on the way, whose calls go to `seen`.
def fan_out(a: Any, b: Any, seen: list[str]) -> Any:
    h = a * b
    return (h.exp() + h * a + h / 3 + b).sum()


def broadcast(a: Any, b: Any, seen: list[str]) -> Any:
    return ((a + b[0]) * a.mean(0, keepdim=True)).pow(2).sum()


def written(a: Any, b: Any, seen: list[str]) -> Any:
    h = a * 2
    h[0] *= b[1]
    h[:, 1:] = b[:, 1:].sigmoid()
    h.add_(a)
    return (h * h).sum()


def several_outputs(a: Any, b: Any, seen: list[str]) -> Any:
    left, middle, _ = (a @ b.T).split([1, 1, a.shape[0] - 2], 0)
    best, _ = b.max(1)
    return (left * 2).sum() + left.sum() * best.sum() + middle.norm()


def custom(a: Any, b: Any, seen: list[str]) -> Any:
    return Scale.apply(a.tanh(), 3.0, b[0]).sum() + Scale.apply(a, 0.5, b[1]).sum()


def hooked(a: Any, b: Any, seen: list[str]) -> Any:
    h = a * b
    h.register_hook(lambda g: seen.append("h") or g * 2)
    h.retain_grad()
    a.register_hook(lambda g: seen.append("a") or g + 1)
    b.register_post_accumulate_grad_hook(lambda t: seen.append("b filled"))
    k = h.sin()
    k.grad_fn.register_prehook(lambda g: seen.append("before sin") or (g[0] * 3,))
    k.grad_fn.register_hook(lambda g, _: seen.append("after sin") or (g[0] - 1,))
    return (k + h).sum()


def transposed(a: Any, b: Any, seen: list[str]) -> Any:
    return (a.t() @ b).t().contiguous().relu().sum() + a.t()[0].sum()


def dead_branch(a: Any, b: Any, seen: list[str]) -> Any:
    parts = (a * 2).unbind(0)
    return parts[0].sum() + (b.detach() * b).sum()


BUILDERS = [
    fan_out,
    broadcast,
    written,
    several_outputs,
    custom,
    hooked,
    transposed,
    dead_branch,
]


def results(tensors: Leaves) -> list[Any]:
    """Everything about the gradients: bytes, strides, dtype, version."""
    found = []
    for t in tensors:
        g = t.grad
        row = None
        if g is not None:
            row = (g._array.tobytes(), g.stride(), g.shape, g.dtype, g._version)
        found.append(row)
    return found


@pytest.mark.parametrize("build", BUILDERS, ids=lambda b: b.__name__)
@pytest.mark.parametrize("filled", [False, True], ids=["empty", "filled"])
def test_does_what_backward_does(build: Callable[..., Any], filled: bool) -> None:
    expected_seen: list[str] = []
    seen: list[str] = []
    expected, found = leaves((4, 3), (4, 3)), leaves((4, 3), (4, 3))
    if filled:
        for t in expected + found:
            t.grad = torch.full_like(t, 0.1)
    build(*expected, expected_seen).backward()
    steps = list(diagnose.trace_backward(build(*found, seen)))
    assert results(found) == results(expected)
    assert seen == expected_seen
    assert [s.index for s in steps] == list(range(len(steps)))


def test_a_model_bit_for_bit() -> None:
    def model_and_loss() -> tuple[Any, Any]:
        torch.manual_seed(3)
        model = nn.Sequential(
            nn.Conv2d(1, 4, 3),
            nn.BatchNorm2d(4),
            nn.GELU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(36, 5),
        )
        images, labels = torch.randn(6, 1, 8, 8), torch.randint(0, 5, (6,))
        return model, nn.functional.cross_entropy(model(images), labels)

    model, loss = model_and_loss()
    loss.backward()
    other, loss = model_and_loss()
    diagnose.trace_backward(loss).play()
    assert results(list(other.parameters())) == results(list(model.parameters()))


def test_steps_by_hand() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = x * x  # the line
    steps = list(diagnose.trace_backward(y.sum()))
    assert [s.op for s in steps] == ["SumBackward0", "MulBackward0", "AccumulateGrad"]
    first, second, last = steps
    assert first.incoming.tolist() == 1.0
    assert first.outgoing[0].node is y.grad_fn
    assert second.incoming.tolist() == [1.0, 1.0]
    assert second.name == "y" and second.line["text"].endswith("# the line")
    assert second.rules == ["d/d input = grad * other", "d/d other = grad * input"]
    assert [out.grad.tolist() for out in second.outgoing] == [[1.0, 2.0], [1.0, 2.0]]
    (met,) = second.accumulated
    assert met.count == 2 and met.grad.tolist() == [2.0, 4.0]
    assert last.name == "x" and last.incoming.tolist() == [2.0, 4.0]
    assert last.outgoing == [] and last.accumulated[0].grad.tolist() == [2.0, 4.0]
    text = str(second)
    assert text.startswith("step 2 of 3: MulBackward0 `y`")
    assert "test_diagnose_trace.py:" in text and "d/d other = grad * input" in text
    assert "adds up at `x` (AccumulateGrad): 2 so far, shape (2,), norm 4.472  [2., 4.]" in text


def test_it_is_lazy_and_other_passes_may_run_in_between() -> None:
    x = torch.tensor([3.0], requires_grad=True)
    other = torch.tensor(2.0, requires_grad=True)
    loss = (x * 2).exp().sum()
    saved = loss.grad_fn.next_functions[0][0]
    trace = diagnose.trace_backward(loss)
    assert x.grad is None and saved._saved_result is not None
    next(trace)
    (other**2).backward()
    assert other.grad.item() == 4.0
    next(trace)
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        saved._saved_result  # the exp is done, and freed what it had saved
    assert x.grad is None
    trace.play()
    assert x.grad.item() == pytest.approx(2 * 403.428793, rel=1e-6)
    with pytest.raises(StopIteration):
        next(trace)


def test_what_a_step_shows_does_not_change_later() -> None:
    # The engine adds into the memory of a gradient that it has handed on.
    x = torch.ones(3, requires_grad=True)
    h = x * 1
    loss = (h * 2).sum() + (h * 3).sum() + (h * 4).sum()
    sums = [s for step in diagnose.trace_backward(loss) for s in step.accumulated]
    at_h = [s.grad.tolist()[0] for s in sums if s.node is h.grad_fn]
    assert at_h == [7.0, 9.0]  # the last recorded goes first: 4 + 3, then + 2


def test_gradient_and_retain_graph() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = x * x
    diagnose.trace_backward(y, torch.tensor([1.0, 10.0]), retain_graph=True).play()
    assert x.grad.tolist() == [2.0, 40.0]
    steps = list(diagnose.trace_backward(y, torch.tensor([1.0, 0.0])))
    assert x.grad.tolist() == [4.0, 40.0]
    assert steps[-1].accumulated[0].before
    with pytest.raises(RuntimeError, match="second time"):
        diagnose.trace_backward(y, torch.ones(2)).play()


def test_an_error_on_the_way_is_told() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = x.exp()
    loss = (y * 3).sum()
    y += 1
    trace = diagnose.trace_backward(loss)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        list(trace)
    assert trace.failed is not None and "ExpBackward0" in repr(trace)
    assert [s["op"] for s in trace.data()] == ["SumBackward0", "MulBackward0"]
    data = trace.graph().data
    assert data["nodes"][data["failed"]]["op"] == "ExpBackward0"


def test_bad_arguments_are_named() -> None:
    with pytest.raises(TypeError, match="argument 'loss' must be a Tensor, not float"):
        diagnose.trace_backward(1.0)
    with pytest.raises(TypeError, match="argument 'gradient' must be a Tensor, not int"):
        diagnose.trace_backward(torch.ones(1, requires_grad=True) * 2, 1)
    with pytest.raises(RuntimeError, match="does not require grad and does not have a grad_fn"):
        diagnose.trace_backward(torch.ones(()))
    with pytest.raises(RuntimeError, match="only for scalar outputs"):
        diagnose.trace_backward(torch.ones(2, requires_grad=True) * 2)


def test_data_and_page(tmp_path: pathlib.Path) -> None:
    w = torch.tensor([[1.0, -2.0], [0.5, 0.0]], requires_grad=True)
    x = torch.tensor([[1.0, 2.0]])
    loss = (x @ w).relu().sum()
    trace = diagnose.trace_backward(loss)
    steps = trace.data()
    json.dumps(steps, allow_nan=False)
    assert [s["op"] for s in steps] == [
        "SumBackward0",
        "ReluBackward0",
        "MmBackward0",
        "AccumulateGrad",
    ]
    product = steps[2]
    assert product["rule"] == "d/d mat2 = input.T @ grad"
    assert product["incoming"] == {"shape": [1, 2], "norm": 1.0, "values": [[1.0, 0.0]]}
    assert product["outgoing"][0]["values"] == [[1.0, 0.0], [2.0, 0.0]]
    data = trace.graph().data
    assert data["trace"] == steps
    assert [data["nodes"][s["node"]]["op"] for s in steps] == [s["op"] for s in steps]
    assert data["nodes"][product["node"]]["grad"]["norm"] == 1.0
    path = tmp_path / "pass.html"
    trace.save(str(path))
    assert "d/d mat2 = input.T @ grad" in path.read_text("utf-8")


def test_large_and_non_finite_gradients() -> None:
    x = torch.ones(100, requires_grad=True)
    y = torch.tensor(0.0, requires_grad=True)
    loss = x.sum() + y.sqrt()
    steps = diagnose.trace_backward(loss).data()
    json.dumps(steps, allow_nan=False)
    by_name = {s["op"]: s for s in steps}
    assert by_name["SqrtBackward0"]["outgoing"][0]["values"] == "Infinity"
    assert by_name["SumBackward0"]["outgoing"][0]["values"] is None
    assert by_name["SumBackward0"]["outgoing"][0]["norm"] == 10.0


def test_a_long_chain() -> None:
    x = torch.ones((), requires_grad=True)
    h = x
    for _ in range(6_000):
        h = h + 0
    assert len(list(diagnose.trace_backward(h))) == 6_001
    assert x.grad.item() == 1.0


def test_a_leaf_alone() -> None:
    x = torch.tensor(2.0, requires_grad=True)
    (step,) = diagnose.trace_backward(x)
    assert step.op == "AccumulateGrad" and x.grad.item() == 1.0
