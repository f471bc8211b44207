"""What training programs do every day: it is compiled, and `explain` says what became of it."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

import pytest
from harness import numbers, replays

import tapegrad as torch
from tapegrad import nn
from tapegrad.nn import functional as F
from tapegrad.utils.checkpoint import checkpoint


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 8), nn.Linear(8, 1)
        self.norm, self.drop = nn.BatchNorm1d(8), nn.Dropout(0.5)

    def forward(self, x: Any) -> Any:
        h = F.dropout(self.first(x), 0.1, self.training)
        return self.last(self.drop(self.norm(h)).tanh())


def train_and_validate(compiled: bool, ends_in_eval: bool) -> tuple[list[Any], Any, Any]:
    torch.manual_seed(0)
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)

    def step(x: Any) -> Any:
        net.train()
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        net.eval()
        with torch.no_grad():
            checked = net(x).square().mean()
        if not ends_in_eval:
            net.train()
        return loss.detach(), checked

    function = torch.compile(step) if compiled else step
    found = []
    for i in range(14):
        torch.manual_seed(i)
        loss, checked = function(torch.randn(6, 4))
        found.append((loss.item(), checked.item(), net.training, net.drop.training))
        if i == 9:
            net.train(not net.training)
    return found, function, net


@pytest.mark.parametrize("ends_in_eval", [True, False])
def test_train_and_eval_in_a_step(ends_in_eval: bool) -> None:
    """A step that leaves modules in the mode that it finds is a recording as a whole."""
    expected, _, net = train_and_validate(False, ends_in_eval)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found, step, other = train_and_validate(True, ends_in_eval)
    for a, b in zip(found, expected, strict=True):
        assert a[2:] == b[2:] and a[:2] == pytest.approx(b[:2], rel=1e-5)
    for a, b in zip(other.state_dict().values(), net.state_dict().values(), strict=True):
        assert torch.allclose(a, b, atol=1e-6)
    assert step.split is None
    resting = [r for some in step.resting.values() for r in some]
    assert sum([r.replays for r in (*step.recordings.values(), *resting)]) >= 6


def test_a_step_that_leaves_another_mode() -> None:
    """It flips the mode in every call, so it is cut at that line."""
    net = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))

    @torch.compile
    def step(x: Any) -> Any:
        y = net[0](x).tanh().sin().exp().cos()
        net.train(not net.training)
        return y.sum()

    with pytest.warns(UserWarning, match="it changes `net`.*training(.|\n)*net.train"):
        modes = []
        for _ in range(8):
            step(torch.ones(2, 4))
            modes.append(net.training)
    assert modes == [False, True] * 4


def test_explain_begins_with_a_summary() -> None:
    net = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    history: list[float] = []

    @torch.compile
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = net(x).tanh().exp().square().sum()
        loss.backward()
        optimizer.step()
        history.append(loss.item())
        return net(x).sin().cos().exp().tanh()

    assert torch.compile.explain(step).splitlines()[0].endswith(": not compiled yet")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(8):
            step(torch.ones(3, 4))
    first = torch.compile.explain(step).splitlines()[0]
    assert "compiled in 3 pieces because of line " in first
    assert "`history.append(loss.item())` (a value is handed to Python)" in first
    assert len(history) == 8


def test_a_view_of_an_argument_that_was_written() -> None:
    """A call that is not recorded in the end returns a view whose history is the argument's.

    The argument and the tensor that stood for it have different versions, so the history of the
    view was once made anew, from the memory of the wrong one.
    """
    step = torch.compile(lambda x: (x.sin().cos().exp().tanh(), x[:, 1:3]))
    for i in range(4):
        leaf = (torch.arange(4.0).view(1, 4) * 0.3 + i).requires_grad_()
        x = leaf * 1.0
        x[:, 0] = 0.5
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            view = step(x)[1]
        (view * 3 + 0).sum().backward()
        assert leaf.grad.tolist() == [[0.0, 3.0, 3.0, 0.0]]


def test_large_gradients_that_add_up() -> None:
    """Gradients that calls add to, in memory that is worth giving back, outlive a comparison."""
    found = []
    for compiled in (False, True):
        torch.manual_seed(0)
        weight = torch.randn(64, 512).mul(0.1).requires_grad_()
        x = torch.randn(8, 64)

        def step(weight: Any = weight, x: Any = x) -> Any:
            (x @ weight).tanh().mul(2).sin().sum().backward()

        step()
        function = torch.compile(step) if compiled else step
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for _ in range(10):
                function()
        found.append(weight.grad.clone())
    assert torch.allclose(*found, rtol=1e-4, atol=1e-6)
    assert next(iter(function.recordings.values())).replays > 0


@pytest.mark.parametrize("mask", ["causal", "bool", "float", "causal and padding"])
def test_attention_with_a_mask(mask: str) -> None:
    """The constants that a mask is made of are known in replays: nothing is cut."""
    torch.manual_seed(0)
    weight = torch.randn(8, 8, dtype=torch.float64, requires_grad=True)

    def attend(x: Any, seen: Any) -> Any:
        q = (x @ weight).view(2, 4, 2, 4).transpose(1, 2)
        if mask == "causal":
            return F.scaled_dot_product_attention(q, q.sin(), q, is_causal=True).tanh()
        if mask == "causal and padding":
            seen = torch.ones(4, 4, dtype=torch.bool).tril() & (seen | torch.eye(4).bool())
        return F.scaled_dot_product_attention(q, q.sin(), q, attn_mask=seen).tanh()

    compiled = torch.compile(attend, fullgraph=True)
    for _ in range(7):
        x, drawn = torch.randn(2, 4, 8, dtype=torch.float64), torch.rand(4, 4)
        seen = drawn.double() if mask == "float" else drawn > 0.4
        found, expected = compiled(x, seen), attend(x, seen)
        torch.testing.assert_close(found, expected)
        grads = [torch.autograd.grad(y.sin().sum(), weight)[0] for y in (found, expected)]
        torch.testing.assert_close(*grads)
    assert "replayed" in torch.compile.explain(compiled)


def test_checkpoint_with_dropout_is_compiled():
    """The second run of the block draws what the first one drew, in replays, too."""

    def run(compile: Any) -> Any:
        torch.manual_seed(3)
        block = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.4), nn.Tanh(), nn.Linear(4, 4)).double()
        head = nn.Linear(4, 2).double()
        opt = torch.optim.SGD([*block.parameters(), *head.parameters()], lr=0.1)

        @compile
        def step(x):
            h = checkpoint(block, x, use_reentrant=False)
            h = checkpoint(block[3], h.tanh().detach() + F.dropout(h, 0.2), use_reentrant=False)
            opt.zero_grad()
            loss = head(h).pow(2).sum()
            loss.backward()
            opt.step()
            return loss.detach()

        found = [step(numbers(i, 5, 3)) for i in range(20)]
        return found, [*block.parameters(), *head.parameters()], torch.get_rng_state(), step

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found, expected = run(torch.compile), run(lambda step: step)
    assert replays(found[3]) >= 15
    for a, b in zip(found[0] + found[1], expected[0] + expected[1], strict=True):
        assert torch.allclose(a, b, 1e-12, 1e-12)
    assert found[2].equal(expected[2])


def test_checkpoint_with_dropout_in_a_compiled_module():
    class Block(nn.Sequential):
        def forward(self, x: Any) -> Any:
            return checkpoint(super().forward, x, use_reentrant=False)

    def run(compile: Any) -> Any:
        torch.manual_seed(3)
        layers = [nn.Linear(3, 4), nn.Dropout(0.4), nn.Tanh(), nn.Linear(4, 4), nn.Tanh()]
        net = compile(nn.Sequential(Block(*layers), nn.Linear(4, 2)).double())
        found = []
        for i in range(20):
            first, second = net(numbers(i, 5, 3)), net(numbers(i + 30, 5, 3))
            (first.pow(2).sum() + second.exp().sum()).backward()
            found += [first.detach(), second.detach()]
        return found, [p.grad for p in net.parameters()], torch.get_rng_state()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found, expected = run(torch.compile), run(lambda step: step)
    for a, b in zip(found[0] + found[1], expected[0] + expected[1], strict=True):
        assert torch.allclose(a, b, 1e-12, 1e-12)
    assert found[2].equal(expected[2])


def test_dataclass_that_a_model_returns_inside_is_compiled():
    @dataclasses.dataclass(frozen=True)
    class Output:
        logits: Any
        loss: Any = None

    net = Net().double()

    def forward(x: Any) -> Output:
        y = net(x)
        return Output(y, y.square().mean())

    @torch.compile
    def step(x: Any) -> Any:
        out = forward(x)
        net.zero_grad()
        out.loss.backward()
        return out.loss.detach()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for i in range(10):
            step(numbers(i, 5, 4))
    assert replays(step) >= 6


@pytest.mark.parametrize(
    "make",
    [torch.from_numpy, torch.as_tensor, torch.asarray, torch.tensor],
    ids=lambda f: f.__name__,
)
def test_arrays_that_become_tensors_are_inputs(make: Any) -> None:
    """Other numbers in an argument of NumPy's lead neither to a cut nor to another recording."""

    def function(array: Any) -> Any:
        x = make(array)
        return (x.tanh().sin().exp() * 2 + x).cos()

    compiled = torch.compile(function, fullgraph=True)
    for i in range(8):
        array = numbers(i + 3, 4, 3).numpy()
        assert torch.equal(compiled(array), function(array))
    assert replays(compiled) >= 4


def test_sums_without_nan_are_replayed() -> None:
    """The kernel sums in one order, whether a call is recorded, compared or replayed."""

    def function(x: Any) -> Any:
        return x.tanh().sin().nansum(), x.exp().cos().nansum(0)

    compiled = torch.compile(function, fullgraph=True)
    for i in range(8):
        x = numbers(i + 3, 5, 3)
        assert all(map(torch.equal, compiled(x), function(x)))
    assert replays(compiled) >= 4
