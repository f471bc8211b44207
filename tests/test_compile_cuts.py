"""Where functions are cut: in loops and blocks, before the backward pass, in what they call."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import copy
import functools
import io
import linecache
import logging
import random
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import tapegrad as tg
from tapegrad import nn
from tapegrad.nn import functional as F

CALLS = 16


class Bench:
    """A model, its optimizer, and what steps write down."""

    def __init__(self) -> None:
        tg.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)).double()
        self.optimizer = tg.optim.Adam(self.net.parameters(), lr=0.01, eps=1e-3)
        self.log: list[Any] = []

    def update(self, loss: Any) -> None:
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


STEPS: dict[str, Callable[[Bench], Any]] = {}
LEAST: dict[str, int] = {}  # replays


def case(least: int) -> Callable[[Callable[[Bench], Any]], Callable[[Bench], Any]]:
    def named(make: Callable[[Bench], Any]) -> Callable[[Bench], Any]:
        STEPS[make.__name__], LEAST[make.__name__] = make, least
        return make

    return named


@case(16)
def before_backward(b: Bench) -> Any:
    def step(x: Any) -> Any:
        b.optimizer.zero_grad()
        loss = b.net(x).square().mean()
        b.log.append(loss.item())
        loss.backward()
        b.optimizer.step()
        return loss

    return step


@case(10)
def a_branch_before_backward(b: Bench) -> Any:
    def step(x: Any) -> Any:
        loss = b.net(x).square().mean()
        if loss.item() > 0.1:
            loss = loss * 0.5
        b.optimizer.zero_grad()
        loss.backward()
        b.log.append(float(nn.utils.clip_grad_norm_(b.net.parameters(), 0.1)))
        b.optimizer.step()
        return loss.detach()

    return step


@case(16)
def two_passes(b: Bench) -> Any:
    def step(x: Any) -> Any:
        b.optimizer.zero_grad()
        out = b.net(x)
        loss, other = out.square().mean(), out.mean()
        b.log.append(loss.item())
        loss.backward(retain_graph=True)
        other.backward()
        b.optimizer.step()
        return loss + other

    return step


@case(20)
def in_a_loop(b: Bench) -> Any:
    def step(x: Any) -> Any:
        total = 0.0
        for part in x.split(3):
            loss = b.net(part).square().mean()
            b.update(loss)
            total += loss.item()
        return tg.tensor(total)

    return step


@case(20)
def parts_by_index(b: Bench) -> Any:
    def step(x: Any) -> Any:
        b.optimizer.zero_grad()
        for i in range(3):
            loss = b.net(x[i : i + 2]).square().mean() / 3
            loss.backward()
            b.log.append(loss.item())
        b.optimizer.step()
        return loss

    return step


@case(20)
def stops_early(b: Bench) -> Any:
    def step(x: Any) -> Any:
        for epoch in range(3):
            for k in range(3):
                loss = b.net(x).square().mean() * (1 + k)
                if loss.item() > 5:
                    continue
                b.update(loss)
                if loss.item() < 0.02:
                    break
            else:
                b.log.append(epoch)
                continue
            break
        return loss

    return step


@case(20)
def time_steps(b: Bench) -> Any:
    def step(x: Any) -> Any:
        h = x * 0
        outs = []
        for _ in range(3):
            h = (h + x + b.net(h + x)).tanh() * h.cos()
            outs.append(h)
            b.log.append(h.sum().item())
        loss = tg.stack(outs).square().mean()
        b.update(loss)
        return loss

    return step


@case(10)
def under_no_grad(b: Bench) -> Any:
    def step(x: Any) -> Any:
        b.optimizer.zero_grad()
        loss = b.net(x).square().mean()
        loss.backward()
        with tg.no_grad():
            norm = sum([p.grad.square().sum() for p in b.net.parameters()]).sqrt()
            b.log.append(norm.item())
            for p in b.net.parameters():
                p.grad.mul_(0.5)
        b.optimizer.step()
        return loss

    return step


@case(8)
def under_autocast(b: Bench) -> Any:
    net = b.net.float()

    def step(x: Any) -> Any:
        with tg.autocast("cpu", dtype=tg.bfloat16):
            out = net(x.float())
            b.log.append(out.float().mean().item())
            loss = out.float().square().mean()
        b.update(loss)
        return loss

    return step


@case(12)
def in_try(b: Bench) -> Any:
    def step(x: Any) -> Any:
        try:
            h = b.net(x).tanh()
            loss = h.square().mean()
            if loss.item() > 0.05:
                raise ValueError(loss.item())
            b.update(loss)
        except ValueError as error:
            b.log.append((str(error), h.sum().item()))
        finally:
            b.log.append("done")
        return loss

    return step


@case(12)
def with_what_goes_on(b: Bench) -> Any:
    def step(x: Any) -> Any:
        h, loss = None, tg.zeros(())
        with contextlib.suppress(ValueError):
            h = b.net(x).tanh()
            loss = h.square().mean() + 1
            if loss.item() > 1.05:
                raise ValueError
            loss = loss * 2 + b.net(x).mean()
        b.log.append(h.sum().item() + loss.item())  # type: ignore[attr-defined]
        return loss

    return step


@case(8)
def only_linear_ops_in_between(b: Bench) -> Any:
    def step(x: Any) -> Any:
        h = b.net(x)
        b.log.append(h.sum().item())
        h = (h + 1 + h.sum() - h.mean()) / 2 + h
        b.log.append(h.sum().item())
        loss = h.square().mean()
        b.update(loss)
        return loss

    return step


class Noisy(nn.Module):
    def __init__(self, b: Bench) -> None:
        super().__init__()
        self.net, self.log, self.calls = b.net, b.log, 0

    def forward(self, x: Any) -> Any:
        h = self.net(x).tanh().exp() * 2
        self.log.append(h.mean().item())
        self.calls += 1
        h = h + 1 if h.mean().item() > 2 else h * 1.5
        return (h + 1).log().cos().exp() * h


@case(7)
def in_a_module(b: Bench) -> Any:
    model = nn.Sequential(Noisy(b), nn.Tanh())

    def step(x: Any) -> Any:
        loss = F.mse_loss(model(x * 2), x[:, :1])
        b.update(loss)
        return loss

    return step


@case(15)
def in_a_method(b: Bench) -> Any:
    class Agent:
        def __init__(self) -> None:
            self.seen: list[float] = []

        def loss(self, x: Any, weight: float = 1.0) -> Any:
            out = b.net(x * 2 + 1).tanh().exp()
            self.seen.append(out.mean().item())
            return (out * weight).square().mean()

        def train(self, x: Any) -> Any:
            loss = self.loss(x[:4], weight=0.5) + self.loss(x[4:]).exp()
            b.update(loss)
            b.log.append(self.seen[-1])
            return loss

    return Agent().train


@case(10)
def two_models(b: Bench) -> Any:
    tg.manual_seed(5)
    made = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 4)).double()
    other = tg.optim.Adam(made.parameters(), lr=0.01)

    def step(x: Any) -> Any:
        fake = made(tg.randn(6, 2, dtype=tg.float64))
        loss = F.softplus(-b.net(x)).mean() + F.softplus(b.net(fake.detach())).mean()
        b.update(loss)
        b.log.append(loss.item())
        second = F.softplus(-b.net(fake)).mean()
        other.zero_grad()
        second.backward()
        other.step()
        b.log.append(second.item())
        return loss + second

    return step


@case(30)
def an_episode(b: Bench) -> Any:
    numbers = random.Random(0)

    def step(x: Any) -> Any:
        chances, rewards = [], []
        state = x[:1]
        for _ in range(3):
            p = tg.cat([b.net(state), -b.net(state)], 1).softmax(1)
            action = tg.multinomial(p, 1).item()
            chances.append(p[0, action].log())
            state = state * 0.9 + (action - 0.5) * 0.1
            rewards.append(numbers.random() + action)
        value, loss = 0.0, 0.0
        for chance, reward in zip(reversed(chances), reversed(rewards), strict=True):
            value = reward + 0.9 * value
            loss = loss - chance * value
        b.update(loss)
        return loss

    return step


@case(7)
def a_memory(b: Bench) -> Any:
    kept: Any = collections.deque(maxlen=8)
    numbers = random.Random(0)
    target = copy.deepcopy(b.net)
    count = 0

    def step(x: Any) -> Any:
        nonlocal count
        kept.extend(x)
        batch = tg.stack(numbers.sample(list(kept), 4))
        with tg.no_grad():
            wanted = target(batch) * 0.9 + 1
        loss = F.smooth_l1_loss(b.net(batch), wanted)
        b.update(loss)
        count += 1
        if count % 5 == 0:
            target.load_state_dict(b.net.state_dict())
        b.log.append(loss.item())
        return loss

    return step


@case(10)
def a_value_that_is_used(b: Bench) -> Any:
    def step(x: Any) -> Any:
        loss = b.net(x).square().mean()
        value = loss.item()
        scale = 1.0 / (1.0 + value)
        if value > 0.1:
            scale = scale * 0.5
        b.update(loss * scale)
        return loss * scale

    return step


@case(0)
def gradients_of_what_is_in_between(b: Bench) -> Any:
    def step(x: Any) -> Any:
        h = b.net[0](x).tanh() * 2
        h.retain_grad()
        loss = b.net[2](h).square().mean()
        b.log.append(loss.item())
        (g,) = tg.autograd.grad(loss, h, retain_graph=True)
        loss.backward()
        return g.sum() + h.grad.sum() + loss.detach()

    return step


@case(0)
def a_leaf_of_its_own(b: Bench) -> Any:
    def step(x: Any) -> Any:
        x = x.clone().requires_grad_()
        out = b.net(x)
        b.log.append(out.mean().item())
        (g,) = tg.autograd.grad(out.sum(), x, create_graph=True)
        loss = (g.square().sum(1) - 1).square().mean() + out.mean()
        b.update(loss)
        return loss

    return step


@case(10)
def parameters_on_both_sides(b: Bench) -> Any:
    b.net[0].weight.register_hook(lambda g: g * 2)

    def step(x: Any) -> Any:
        loss = b.net(x).square().mean()
        if (value := loss.item()) > 0.1:
            b.log.append(value)
        loss = loss + 0.1 * sum([p.square().sum() for p in b.net.parameters()])
        b.update(loss)
        return loss * 2

    return step


@case(8)
def written_in_between(b: Bench) -> Any:
    def step(x: Any) -> Any:
        h = b.net(x).tanh() * 2 + 1
        h.mul_(1.0 if h.sum().item() > 0 else 0.5)
        loss = (h * h).exp().mean()
        b.update(loss)
        return loss

    return step


@case(8)
def one_pass_and_another(b: Bench) -> Any:
    def step(x: Any) -> Any:
        loss = b.net(x).square().mean()
        b.log.append(loss.item())
        b.optimizer.zero_grad()
        loss.backward(retain_graph=True)
        b.log.append(b.net[0].weight.grad.sum().item())
        loss.backward()
        b.optimizer.step()
        with pytest.raises(RuntimeError, match="backward through the graph a second time"):
            loss.backward()
        return loss

    return step


@case(8)
def a_function_of_their_own(b: Bench) -> Any:
    class Squared(tg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            b.log.append(x.sum().item())
            return x * x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            b.log.append("backward")
            return g * 2 * ctx.saved_tensors[0]

    def step(x: Any) -> Any:
        h = Squared.apply(b.net(x).tanh() + 1)
        loss = (h + 1).log().mean() * 2
        b.update(loss)
        return loss

    return step


@case(16)
def a_state_that_goes_on(b: Bench) -> Any:
    tg.manual_seed(3)
    cell = nn.GRUCell(4, 5).double()
    optimizer = tg.optim.SGD(cell.parameters(), lr=0.1)
    state = {"h": tg.zeros(6, 5, dtype=tg.float64)}

    def step(x: Any) -> Any:
        h = state["h"]
        for _ in range(2):
            h = cell(x, h)
            b.log.append(h.sum().item())
        loss = h.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        state["h"] = h.detach()
        return loss

    return step


@case(0)
def layer_by_layer(b: Bench) -> Any:
    def step(x: Any) -> Any:
        outs = []
        h = x
        for layer in b.net:
            h = layer(h)
            outs.append(h)
            if h.abs().max().item() > 1e6:
                break
        loss = sum(h.square().mean() for h in outs)
        b.update(loss)
        b.log.append([h.sum().item() for h in outs][-1])
        return loss

    return step


@case(12)
def functions_inside(b: Bench) -> Any:
    def step(x: Any) -> Any:
        weight = 0.1

        def loss_of(model: Any) -> Any:
            return model(x).square().mean() * (1 + weight)

        loss = loss_of(b.net) + sum([weight * p.square().sum() for p in b.net.parameters()])
        b.log.append(loss.item())
        b.update(loss)
        return loss

    return step


@case(10)
def deletes(b: Bench) -> Any:
    def step(x: Any) -> Any:
        a = b.net(x).tanh().exp()
        b.log.append(a.sum().item())
        loss = (a * 2).log().mean()
        del a
        try:
            a  # noqa: B018, F821
        except UnboundLocalError:
            b.log.append("gone")
        b.update(loss)
        return loss

    return step


@case(8)
def wrapped(b: Bench) -> Any:
    def around(function: Any) -> Any:
        @functools.wraps(function)
        def inner(*args: Any, **kwargs: Any) -> Any:
            b.log.append("called")
            return function(*args, **kwargs)

        return inner

    return around(before_backward(b))


@case(16)
def given_in_part(b: Bench) -> Any:
    def step(scale: float, x: Any) -> Any:
        loss = b.net(x).square().mean() * scale
        b.log.append(loss.item())
        b.update(loss)
        return loss

    return functools.partial(step, 2.0)


@case(16)
def an_object(b: Bench) -> Any:
    step = before_backward(b)

    class Trainer:
        def __call__(self, x: Any) -> Any:
            loss = b.net(x).square().mean()
            b.log.append(loss.item())
            b.update(loss)
            return loss

    assert step is not None
    return Trainer()


@case(8)
def from_a_notebook(b: Bench) -> Any:
    text = """def step(x):
    loss = b.net(x).square().mean()
    b.log.append(loss.item())
    b.update(loss)
    return loss
"""
    linecache.cache["<a cell>"] = (len(text), None, text.splitlines(True), "<a cell>")
    scope: dict[str, Any] = {"b": b}
    exec(compile(text, "<a cell>", "exec"), scope)
    return scope["step"]


@case(0)
def without_source(b: Bench) -> Any:
    scope: dict[str, Any] = {"b": b}
    exec("def step(x):\n  y = b.net(x).sum()\n  b.log.append(y.item())\n  return y", scope)
    return scope["step"]


@case(0)
def as_an_expression(b: Bench) -> Any:
    return lambda x: (b.net(x).square().mean(), b.log.append(b.net(x).sum().item()))[0]


@case(0)
def in_turns(b: Bench) -> Any:
    async def step(x: Any) -> Any:
        loss = b.net(x).square().mean()
        b.log.append(loss.item())
        await asyncio.sleep(0)
        b.update(loss)
        return loss

    return step


@case(0)
def of_a_class_of_its_own(b: Bench) -> Any:
    class Mine(tg.Tensor):
        pass

    step = before_backward(b)

    def outer(x: Any) -> Any:
        return step(x.as_subclass(Mine))

    return outer


def run(kind: str, compiled: bool, check: bool = False) -> tuple[list[Any], Any]:
    bench = Bench()
    step = STEPS[kind](bench)
    step = tg.compile(step, check=check) if compiled else step
    batches = tg.Generator().manual_seed(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(CALLS):
            found = step(tg.randn(6, 4, generator=batches, dtype=tg.float64))
            found = asyncio.run(found) if asyncio.iscoroutine(found) else found
            bench.log += [found.item(), tg.rand(1).item()]
    bench.log += [p.detach().sum().item() for p in bench.net.parameters()]
    return bench.log, step


def same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return a == pytest.approx(b, rel=1e-6, abs=1e-9)
    if isinstance(a, tuple):
        return all(map(same, a, b))
    return bool(a == b)


def replays(compiled: Any) -> int:
    """How often something of a function was replayed."""
    resting = [recording for some in compiled.resting.values() for recording in some]
    found = sum([r.replays for r in (*compiled.recordings.values(), *resting)])
    for piece in [] if compiled.split is None else compiled.split.pieces:
        parts = [piece.function, *[each for _, each in piece.callees()]]
        found += sum([replays(each) for each in parts if hasattr(each, "recordings")])
    return found


@pytest.mark.parametrize("kind", STEPS)
def test_steps_are_the_same_in_pieces(kind: str) -> None:
    expected, _ = run(kind, False)
    found, step = run(kind, True)
    assert len(found) == len(expected)
    assert all(map(same, found, expected))
    assert replays(step) >= LEAST[kind]
    assert tg.compile.explain(step)


@pytest.mark.parametrize("kind", ["before_backward", "in_a_module", "time_steps", "in_try"])
def test_pieces_that_are_checked(kind: str) -> None:
    expected, _ = run(kind, False)
    found, step = run(kind, True, check=True)
    assert len(found) == len(expected) and all(map(same, found, expected))
    assert step.split is not None and replays(step) == 0
    text = tg.compile.explain(step)
    assert "piece 1, line" in text and "gave something else" not in text


def test_a_state_that_is_made_in_a_call_that_is_compared() -> None:
    found = []
    for compiled in (False, True):
        b = Bench()

        def step(x: Any, b: Bench = b) -> Any:
            loss = b.net(x).square().mean()
            b.update(loss)
            return loss

        function = tg.compile(step, check=True) if compiled else step
        for i in range(12):
            if i in (2, 8):
                b.optimizer.state.clear()
            b.log.append(function(tg.ones(6, 4, dtype=tg.float64) * i).item())
        found.append(b.log)
    assert found[0] == pytest.approx(found[1], rel=1e-9)


def said(function: Any, *args: Any, calls: int = 8) -> list[str]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for _ in range(calls):
            function(*args)
    return [str(each.message) for each in found]


@pytest.mark.parametrize("kind", ["in_a_loop", "under_no_grad", "in_a_module", "in_try"])
def test_fullgraph_raises_with_the_line(kind: str) -> None:
    step = tg.compile(STEPS[kind](Bench()), fullgraph=True)
    x = tg.ones(6, 4, dtype=tg.float64)
    step(x)
    for _ in range(2):
        with pytest.raises(
            RuntimeError, match=r"a value is handed to Python\n  at: .*\.py:\d+:.*item"
        ):
            step(x)


def test_a_warning_names_the_line_in_what_is_called() -> None:
    x = tg.ones(6, 4, dtype=tg.float64)
    (text,) = said(tg.compile(in_a_module(Bench())), x)
    assert "self.log.append(h.mean().item())" in text and "the others are compiled apart" in text


def test_a_warning_says_why_a_function_is_not_cut() -> None:
    def looks_around(x: Any) -> Any:
        y = (x * 2).tanh().exp().sum()
        return y * y.item() * len(locals())

    def shares(x: Any) -> Any:
        y = (x * 2).tanh().exp().sum()
        twice = lambda: y * 2  # noqa: E731
        y = y + y.item()
        return twice()

    scope: dict[str, Any] = {}
    exec("def nameless(x):\n  return (x * 2).tanh().exp().sum() * x.sum().item()", scope)
    functions = looks_around, shares, scope["nameless"]
    reasons = "it uses locals", "inner functions share its variables", "its source is not known"
    for function, reason in zip(functions, reasons, strict=True):
        (text,) = said(tg.compile(function), tg.ones(3))
        assert f"It cannot be cut there, because {reason}" in text


def hidden(depth: int = 8) -> Any:
    """An object that nobody looks into."""
    inner: Any = []
    for _ in range(depth):
        inner = {"inner": inner}
    return inner


def innermost(box: Any) -> Any:
    while isinstance(box, dict):
        box = box["inner"]
    return box


@pytest.mark.parametrize("outside", [False, True])
def test_nothing_is_done_twice(outside: bool) -> None:
    """The replay of a recorded call differs: what Python did in the call stands."""
    box = hidden()
    w = tg.ones(3, requires_grad=outside)

    @tg.compiler.pure
    def count(shape: Any) -> float:  # it is not
        innermost(box).append(shape)
        return float(len(innermost(box)))

    def function(x: Any) -> Any:
        return (x * w * count(x.shape)).tanh().exp().sum()

    compiled = tg.compile(function)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i in range(1, 8):
            found = compiled(tg.ones(3))
            expected = (tg.ones(3) * w * float(i)).tanh().exp().sum()
            assert found.item() == pytest.approx(expected.item())
            if outside:
                gradients = [tg.autograd.grad(each, w)[0] for each in (found, expected)]
                tg.testing.assert_close(*gradients)
    assert len(innermost(box)) == 7
    assert "a replay gave something else" in tg.compile.explain(compiled)


def test_what_is_written_or_asked_for_outside() -> None:
    """Files, logs and clocks: a replay would not do it. The line is named."""
    stream, file = io.StringIO(), io.StringIO()
    logger = logging.getLogger("compiled steps")
    logger.addHandler(logging.StreamHandler(stream))
    logger.propagate = False
    logger.setLevel(logging.INFO)
    kept: Any = collections.deque(maxlen=2)

    def logs(x: Any) -> Any:
        y = (x * 2).tanh().exp()
        logger.info("step")
        logger.debug("of no interest")
        return (y + 1).log().cos().sum()

    def writes(x: Any) -> Any:
        y = (x * 2).tanh().exp()
        file.write("step\n")
        return (y + 1).log().cos().sum()

    def asks(x: Any) -> Any:
        y = (x * 2).tanh().exp() + 1
        now = time.perf_counter()
        return (y + 1).log().cos().sum(), now

    def keeps(x: Any) -> Any:
        y = (x * 2).tanh().exp() + 1
        kept.append(y.detach())
        return (y + 1).log().cos().sum()

    reasons = {logs: "logger.info", writes: "file.write", asks: "perf_counter", keeps: "`kept`"}
    for function, reason in reasons.items():
        (text,) = said(tg.compile(function), tg.ones(3))
        assert reason in text
    assert stream.getvalue().count("step") == file.getvalue().count("step") == 8
    assert kept[0] is not kept[1]
    asked = tg.compile(asks)
    times: set[float] = set()
    said(lambda: times.add(asked(tg.ones(3))[1]))
    assert len(times) == 8

    def is_quiet(x: Any) -> Any:
        logger.debug("of no interest")
        return ((x * 2).tanh().exp() + 1).log().cos().sum()

    compiled = tg.compile(is_quiet, fullgraph=True)
    said(compiled, tg.ones(3))
    assert replays(compiled) == 5


def test_functions_that_are_returned() -> None:
    """They know values of their call."""

    def by_default(x: Any) -> Any:
        y = (x * 2).tanh().exp() + x
        return lambda v=y: v

    def by_variable(x: Any) -> Any:
        y = (x * 2).tanh().exp() + x
        return lambda: y

    for function in (by_default, by_variable):
        compiled = tg.compile(function)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = [compiled(tg.ones(3) * i)().sum().item() for i in range(6)]
        assert len(set(found)) == 6


def test_gradients_that_are_looked_at() -> None:
    """A recording is for the gradient that it read, and for there being none."""
    w = tg.ones(3, requires_grad=True)

    def reads(x: Any) -> Any:
        return ((x * w.grad).tanh().exp() + x).cos().sum()

    def asks(x: Any) -> Any:
        return ((x * (1 if w.grad is None else 2)).tanh().exp() + x).cos().sum()

    for function, early in ((reads, tg.ones(3)), (asks, None)):
        compiled = tg.compile(function, fullgraph=True)
        for i in range(12):
            w.grad = None if early is None else early.clone()
            if i > 5:
                w.grad = tg.full((3,), 2.0)
            assert compiled(tg.ones(3)).item() == pytest.approx(function(tg.ones(3)).item())


def test_an_argument_with_a_history_that_is_written() -> None:
    w = tg.ones(3, requires_grad=True)

    def function(h: Any) -> Any:
        h.mul_(2)
        return (h * h).sum()

    compiled = tg.compile(function)
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(5):
            h = w * 3 + 1
            found.append(tg.autograd.grad(compiled(h) + h.sum(), w)[0].tolist())
    assert found == [[102.0] * 3] * 5


def test_a_leaf_that_is_returned() -> None:
    def function(x: Any) -> Any:
        return ((x * 2).tanh().exp() + x).cos().detach().requires_grad_()

    compiled = tg.compile(function, fullgraph=True)
    for i in range(6):
        leaf = compiled(tg.ones(3) * i)
        (leaf * 3).sum().backward()
        assert leaf.is_leaf and leaf.grad.tolist() == [3.0, 3.0, 3.0]


def test_an_argument_that_is_not_used() -> None:
    """Its graph may be over."""
    w = tg.ones(3, requires_grad=True)

    def function(x: Any, old: Any) -> Any:
        return (x * w).tanh().exp().cos().sum()

    compiled = tg.compile(function, fullgraph=True)
    old = (w * 2).exp().sum()
    old.backward()
    for _ in range(6):
        compiled(tg.ones(3), old).backward()


def test_what_did_not_run_does_not_count() -> None:
    """A method that a step does not call looks at a list: the step is recorded once."""
    notes: list[int] = []

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 3)

        def forward(self, x: Any) -> Any:
            return self.layer(x).tanh().exp().cos()

        def report(self) -> int:
            return len(notes)

    model = Model()
    compiled = tg.compile(lambda x: model(x).sum(), fullgraph=True)
    for i in range(9):
        notes.append(i)
        compiled(tg.ones(2, 3))
    assert replays(compiled) == 6


def test_hooks_that_come_later() -> None:
    b = Bench()
    model = Noisy(b)
    seen: list[Any] = []

    def step(x: Any) -> Any:
        loss = model(x).mean()
        b.update(loss)
        return loss

    compiled = tg.compile(step)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i in range(14):
            if i == 10:
                model.register_forward_hook(lambda m, given, out: seen.append(out.shape))
            compiled(tg.ones(6, 4, dtype=tg.float64))
    assert len(seen) == 4 and model.calls == 14


def test_another_forward_that_comes_later(monkeypatch: pytest.MonkeyPatch) -> None:
    b = Bench()
    model = Noisy(b)
    compiled = tg.compile(lambda x: model(x).sum() * 2)
    x = tg.ones(6, 4, dtype=tg.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(10):
            compiled(x)
        monkeypatch.setattr(Noisy, "forward", lambda self, x: x * 3)
        assert compiled(x).item() == 6 * 4 * 3 * 2


def test_threads_share_a_function_in_pieces() -> None:
    w = tg.ones(8, requires_grad=True)
    kept: list[float] = []

    def function(x: Any) -> Any:
        y = (x * w).tanh().exp()
        kept.append(y.sum().item())
        return (y * y + 1).log().cos().sum()

    compiled = tg.compile(function)
    wrong: list[Any] = []

    def work(seed: int) -> None:
        for i in range(30):
            x = tg.linspace(0, 1, 8) * (seed + i)
            pair = [tg.autograd.grad(f(x), w)[0] for f in (compiled, function)]
            if not tg.allclose(*pair, atol=1e-5):
                wrong.append((seed, i))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    assert not wrong and len(kept) == 180
