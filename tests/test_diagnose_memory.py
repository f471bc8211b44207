"""memory(loss) agrees with what Python allocated; leaks() finds who keeps graphs and where."""

from __future__ import annotations

import gc
import json
import tracemalloc
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

import tapegrad as torch
import tapegrad.nn.functional as F
from tapegrad import diagnose, nn
from tapegrad.diagnose import holders
from tapegrad.utils._memory_budget import as_bytes

# ---------------------------------------------------------------------- against tracemalloc


def mlp() -> Callable[[], Any]:
    model = nn.Sequential(
        nn.Linear(64, 256), nn.ReLU(), nn.Dropout(0.1), nn.Linear(256, 256), nn.Tanh()
    )
    x, y = torch.randn(64, 64), torch.randint(0, 256, (64,))
    return lambda: F.cross_entropy(model(x), y)


def conv_net() -> Callable[[], Any]:
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 4, 3)
    )
    x = torch.randn(8, 1, 28, 28)
    return lambda: model(x).pow(2).mean()


def attention() -> Callable[[], Any]:
    projected = nn.Linear(32, 96)
    x, mask = torch.randn(8, 40, 32), torch.ones(40, 40).tril().bool()

    def run() -> Any:
        q, k, v = projected(x).chunk(3, -1)
        scores = (q @ k.transpose(1, 2) / 5).masked_fill(~mask, float("-inf"))
        return (F.dropout(scores.softmax(-1), 0.1) @ v).mean()

    return run


def heads() -> Callable[[], Any]:
    layer, norm = nn.MultiheadAttention(32, 4, batch_first=True), nn.LayerNorm(32)
    x = torch.randn(4, 30, 32)
    return lambda: layer(norm(x), norm(x), norm(x))[0].pow(2).mean()


def long_loop() -> Callable[[], Any]:
    x, w = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)

    def run() -> Any:
        h = x
        for _ in range(1000):
            h = (h * w).tanh() + 0.5
        return h.sum()

    return run


def recurrent() -> Callable[[], Any]:
    cell = nn.LSTMCell(8, 16)
    steps = torch.randn(60, 4, 8)

    def run() -> Any:
        state = None
        for x in steps:
            state = cell(x, state)
        return state[0].sum()

    return run


class Keeps(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x.exp())
        ctx.twice = x * 2  # not through save_for_backward
        return x * x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * ctx.twice


def functions_and_writes() -> Callable[[], Any]:
    x = torch.randn(60, 60, requires_grad=True)

    def run() -> Any:
        h = x
        for _ in range(5):
            h = Keeps.apply(h)
        h = h.sigmoid() * 1
        h[0] *= 2
        h[:, 3:5] = h[:, 3:5].exp()
        return h.sum()

    return run


KINDS = [mlp, conv_net, attention, heads, long_loop, recurrent, functions_and_writes]


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.__name__)
def test_agrees_with_tracemalloc(kind: Callable[[], Any]) -> None:
    build = kind()
    build()
    build()  # caches are warm
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        loss = build()
        gc.collect()
        allocated = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    found = diagnose.memory(loss)
    assert found.total == pytest.approx(allocated, rel=0.05)
    assert found.total == found.activations + found.overhead


# ---------------------------------------------------------------------- by hand


def test_what_an_mlp_keeps() -> None:
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 1))
    x = torch.randn(32, 64)
    loss = model(x).sum()
    found = diagnose.memory(loss)
    # Linear keeps its input and its weight, ReLU its output, which the second Linear shares.
    assert found.activations == 32 * 256 * 4
    assert found.inputs == 32 * 64 * 4
    assert found.parameters == 4 * (64 * 256 + 256 + 256 + 1)
    assert [(m["module"], m["bytes"]) for m in found.modules] == [("model.1", 32 * 256 * 4)]
    (line,) = found.lines
    assert line["place"]["text"] == "loss = model(x).sum()" and line["tensors"] == 1
    text = repr(found)
    assert "32.0 KiB  in 1 saved tensor" in text and "loss = model(x).sum()" in text
    json.dumps(found.data())


def test_an_input_that_only_the_graph_holds() -> None:
    w = torch.ones(1000, requires_grad=True)
    loss = (w * torch.ones(1000)).sum()
    assert diagnose.memory(loss).activations == 4000
    x = torch.ones(1000)
    loss = (w * x).sum()
    assert diagnose.memory(loss).activations == 0 and diagnose.memory(loss).inputs == 4000
    del x
    assert diagnose.memory(loss).activations == 4000


def test_memory_counts_once_and_as_a_whole() -> None:
    w = torch.ones(100, 100, requires_grad=True)
    h = w.exp()  # saves its output
    shared = (h * h).sum() + h.sin().sum()  # save the same memory again
    assert diagnose.memory(shared).activations == 40_000
    row = (w * 2)[0]  # a view: all of w * 2 lives on for 100 numbers
    assert diagnose.memory(row.exp().sum()).activations == 400  # exp saves its own output
    assert diagnose.memory(row.sin().sum()).activations == 40_000  # sin saves the view


def test_after_backward() -> None:
    w = torch.ones(1000, requires_grad=True)
    loss = w.exp().sum()
    assert not diagnose.memory(loss).freed
    loss.backward()
    found = diagnose.memory(loss)
    assert found.freed and found.activations == 0 and found.nodes == 3
    assert "backward() has freed the saved values" in repr(found)


def test_lines_are_told_apart_and_sorted() -> None:
    w = torch.ones(10, requires_grad=True)
    small = w.exp()  #: small
    large = w.expand(1000, 10).exp()  #: large
    found = diagnose.memory([small, large])
    assert [line["bytes"] for line in found.lines] == [40_000, 40]
    assert [line["place"]["text"][-5:] for line in found.lines] == ["large", "small"]


def test_memory_of_odd_input() -> None:
    assert diagnose.memory(torch.ones(3)).total == 0
    with pytest.raises(TypeError, match=r"memory\(\): argument 'loss' must be a Tensor, not str"):
        diagnose.memory("loss")
    with pytest.raises(TypeError, match="not an empty list"):
        diagnose.memory([])


# ---------------------------------------------------------------------- leaks


def marked(place: Any, mark: str) -> bool:
    return place is not None and place["text"].endswith(f"#: {mark}")


def a_loop(count: int, store: Callable[[Any], Any]) -> Any:
    """A healthy loop but for what `store` does."""
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(count):
        loss = model(torch.randn(8, 4)).pow(2).mean()  #: made
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        store(loss)
    return model


def test_a_list_of_losses() -> None:
    losses = []
    for _ in range(4):
        w = torch.ones(3, requires_grad=True)
        loss = (w * w).sum()  #: made
        loss.backward()
        losses.append(loss)  #: stored
    found = [leak for leak in diagnose.leaks() if leak.holder == "losses"]
    assert len(found) == 1
    leak = found[0]
    assert marked(leak.stored, "stored") and marked(leak.made, "made")
    assert (leak.kind, leak.tensors, leak.graphs, leak.passes) == ("list", 4, 4, 4)
    assert leak.fix.startswith("store numbers: losses.append(") and ".item())" in leak.fix
    assert "losses.append(loss)" in str(leak)


class Meter:
    def __init__(self) -> None:
        self.log: dict[str, Any] = {"loss": [], "last": deque(maxlen=50)}

    def update(self, value: Any) -> None:
        self.log["loss"].append(value)  #: stored


def test_a_list_inside_an_object() -> None:
    meter = Meter()
    a_loop(3, meter.update)
    leak = next(leak for leak in diagnose.leaks() if leak.holder == "meter.log['loss']")
    assert leak.graphs == 3 and marked(leak.stored, "stored") and marked(leak.made, "made")


def test_a_running_total() -> None:
    total = 0.0
    for _ in range(3):
        w = torch.ones(3, requires_grad=True)
        loss = (w * w).sum()
        loss.backward()
        total += loss  #: stored
    leak = next(leak for leak in diagnose.leaks() if leak.holder == "total")
    assert leak.kind == "variable" and leak.passes == 3 and marked(leak.stored, "stored")
    assert leak.fix == "add numbers, not tensors: total += loss.item()"


def test_the_advice_is_about_what_was_kept() -> None:
    w = torch.ones(3, requires_grad=True)
    outputs, by_step, total = [], {}, torch.zeros(())
    for step in range(3):
        y = w * step
        loss = y.sum() ** 2
        loss.backward()
        outputs.append(y * 2)
        by_step[step] = loss.sum()
        total = total + loss
    advice = {leak.holder: leak.fix for leak in diagnose.leaks()}
    assert advice["outputs"] == "store values: outputs.append((y * 2).detach())"
    assert advice["by_step"] == "store numbers: by_step[step] = loss.sum().item()"
    assert advice["total"] == "add numbers, not tensors: total += loss.item()"


def test_healthy_loops_have_no_leak() -> None:
    numbers: list[float] = []
    with diagnose.leaks() as watch:
        a_loop(3, lambda loss: numbers.append(loss.item()))
    assert not watch.found and not watch.held
    cell = nn.RNNCell(3, 4)
    state, outputs = torch.zeros(1, 4), []
    with diagnose.leaks() as watch:
        for _ in range(5):
            state = cell(torch.randn(1, 3), state)
            outputs.append(state)
    assert not watch.found, "five outputs of one graph are no leak"
    assert sum(held.tensors for held in watch.held) == 5
    assert repr(watch).startswith("No leak: 5 tensors with history alive")


def test_with_tells_only_what_came_since() -> None:
    old = [torch.ones(1, requires_grad=True) * i for i in range(3)]
    new = []
    with diagnose.leaks() as watch:
        for i in range(2):
            new.append(torch.ones(1, requires_grad=True) * i)
    assert [(leak.holder, leak.tensors) for leak in watch.found] == [("new", 2)]
    assert len(old) == 3


def test_growth_between_iterations() -> None:
    model = nn.Linear(4, 1)
    watch = diagnose.leaks()
    total = 0.0
    grown = []
    for _ in range(3):  # an evaluation that forgot no_grad: no pass tells iterations apart
        out = model(torch.randn(3, 4)).mean()
        total = total + out  #: stored
        grown.append([held.holder for held in watch.check()])
    assert grown == [[], ["total"], ["total"]]
    leak = next(each for each in watch.found if each.holder == "total")
    assert marked(leak.stored, "stored")
    assert leak.grown > 0 and "more than before" in repr(watch)


def test_a_leak_is_found_beside_much_else() -> None:
    """What a caller holds may be more than a search looks at: the function at hand goes first."""

    class Crowded:
        def __init__(self) -> None:
            self.items: list[Any] = [[] for _ in range(holders.MAX_VALUES)]

        def call(self, f: Callable[[], None]) -> None:
            crowd = self  # a name, as a test runner has for its session
            f()
            del crowd

    Crowded().call(test_a_list_inside_an_object)


def test_a_graph_that_is_larger_by_chance_has_not_grown() -> None:
    w = torch.ones(3, requires_grad=True)
    watch = diagnose.leaks()
    for length in (2, 9, 4, 12):
        h = w
        for _ in range(length):
            h = h * 2
        assert watch.check() == []


@pytest.mark.filterwarnings("ignore:Using backward")
def test_a_gradient_with_history() -> None:
    w = torch.ones(3, requires_grad=True)
    loss = (w**3).sum()
    loss.backward(create_graph=True)
    held = next(h for h in diagnose.leaks().held if h.kind == "gradient")
    assert held.holder == "w.grad" and "create_graph" in held.fix
    w.grad = None


def test_looking_keeps_nothing_alive() -> None:
    def inner() -> Any:
        held = [torch.ones(2, requires_grad=True) * i for i in range(2)]
        report = diagnose.leaks()
        return report, weakref.ref(held[0])

    report, first = inner()
    gc.collect()
    assert first() is None and report.held


def test_a_large_graph_is_shown_a_budget():
    x = torch.ones(3 << 20, requires_grad=True)
    h = x
    for _ in range(9):
        h = h.tanh()
    report = diagnose.memory(h)
    half = report.activations // 2
    assert report.activations >= 100 << 20
    text = str(report)
    assert "utils.checkpoint.budget(" in text and "computes the rest again" in text
    size = text.split('budget("')[1].split('"')[0]
    assert as_bytes(size) == pytest.approx(half, rel=0.06)  # a text that `budget` takes
    small = diagnose.memory(x[:10].tanh())
    assert "utils.checkpoint.budget(" not in str(small)
