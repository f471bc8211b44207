"""Random training programs with lines that cannot be recorded, compiled and not."""

from __future__ import annotations

import linecache
import random
import warnings
from typing import Any

import pytest

import tapegrad as tg
from tapegrad import nn
from tapegrad.nn import functional as F

CALLS = 14
OPTIMIZERS = (
    lambda params: tg.optim.SGD(params, lr=0.01, momentum=0.5),
    lambda params: tg.optim.Adam(params, lr=0.01, eps=1e-2),
)

# Lines that look at a value of the forward pass, `{0}`, and go on with it.
READS = (
    "log.append({0}.mean().item())",
    "if i % 3 == 0: log.append(float({0}.mean()))",
    "value = {0}.mean().item(); log.append(value)",
    "if {0}.mean().item() > 0.5: {0} = {0} * 0.5",
    "if {0}.mean() > 0.1: {0} = {0} + 0.25",
    "assert {0}.isfinite().all()",
    "note({0})",
    "state['count'] += 1; state['last'] = {0}.detach().mean().item()",
    "log.append(tuple({0}.shape)); seen.append({0}.detach())",
    "print(round({0}.mean().item() + 1, 3), file=out)",
)
# What comes between the model and its loss; `{0}` is the value.
MIDDLE = (
    "{0} = {0} * 2 + 1",
    "{0} = helped({0})",
    "{0} = noisy({0})",
    "{0} = F.dropout({0}, 0.2)",
    "{0} = torch.where({0} > 0, {0}, {0} * 0.1)",
    "{0} = {0} if {0}.sum().item() > 0 else -{0}",
    "for j in range(2):\n    {0} = {0}.tanh() * (j + 1)\n    log.append({0}.sum().item())",
    "kept = [{0}]\nfor j in range(2):\n    kept.append(kept[-1].sin() + {0})\n    note(kept[-1])\n"
    "{0} = torch.stack(kept).sum(0)",
    "with torch.no_grad():\n    base = {0}.mean() / 2\n    note(base)\n{0} = {0} - base",
    "try:\n    {0} = {0}.exp()\n    if {0}.max().item() > 4: raise ValueError('large')\n"
    "except ValueError as e:\n    log.append(str(e))\n    {0} = {0}.clamp(max=1.0)",
    "total = sum(p.square().sum() for p in params)\nnote(total)\n{0} = {0} + 0.01 * total",
    "{0} = {0} + 1\n{0}.mul_(0.5 if {0}.mean().item() > 0 else 0.25)",
)
# After the backward pass.
LATER = (
    "log.append(nn.utils.clip_grad_norm_(params, 1.0).item())",
    "nn.utils.clip_grad_norm_(params, 1.0)",
    "for p in params: log.append(p.grad.abs().max().item())",
    "with torch.no_grad():\n    worst = max([p.grad.norm() for p in params])\n    note(worst)",
    "if loss.item() > 5000.0: raise ValueError('it grows')",
    "counted(1)",
    "other = model(x).square().mean()\nnote(other)\nother.backward()",
    "pass",
)
BLOCKS = (
    "if True:",
    "for k in range({n}):",
    "for part in x.split({n}):",
    "with torch.enable_grad():",
    "try:",
    "for k in range(9):",
)


def indented(lines: list[str]) -> list[str]:
    return ["    " + line for text in lines for line in text.split("\n")]


def random_source(chosen: random.Random) -> str:
    """A step of a training, as text."""
    some = chosen.choice
    block = some(BLOCKS).format(n=chosen.randint(2, 3))
    inner = ["optimizer.zero_grad()"] if chosen.random() < 0.7 else []
    inner.append("h = model(part)" if "part" in block else "h = model(x)")
    for _ in range(chosen.randint(0, 2)):
        inner.append(some(MIDDLE).format("h"))
        if chosen.random() < 0.4:
            inner.append(some(READS).format("h"))
    inner.append("loss = loss_of(h, y[: len(h)])")
    if chosen.random() < 0.6:
        inner.append(some(READS).format("loss"))
    if len(inner) < 3 or "zero_grad" not in inner[0]:
        inner.append("optimizer.zero_grad()")
    inner.append("loss.backward()")
    inner.append(some(LATER))
    inner.append("optimizer.step()")
    if chosen.random() < 0.5:
        inner.append(some(READS[:3]).format("loss"))
    if "range(9)" in block:
        inner.append("if loss.item() < limit or k > 2: break")
    lines = [block, *indented(inner)]
    if block == "try:":
        lines += ["except ValueError as error:", "    log.append(str(error))"]
    lines.append(some(("return loss", "return loss.detach() * 2", "return {'loss': loss}['loss']")))
    return "\n".join(["def step(x, y, i):", *indented(lines), ""])


class Noisy(nn.Module):
    """A module with lines that cannot be recorded."""

    def __init__(self, log: list[Any]) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 3)
        self.calls = 0
        self.log = log

    def forward(self, h: Any) -> Any:
        h = self.inner(h).tanh() * 2
        self.calls += 1
        if self.calls % 2:
            self.log.append(h.sum().item())
        return (h * h + 1).log()


def trained(seed: int, compiled: bool) -> tuple[list[Any], Any]:
    """What a training writes down, and its parameters."""
    chosen = random.Random(seed)
    source = random_source(chosen)
    name = f"<random step {seed}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    tg.manual_seed(seed)
    log: list[Any] = []
    model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, 3)).double()
    noisy = Noisy(log).double()
    params = [*model.parameters(), *noisy.parameters()]
    optimizer = chosen.choice(OPTIMIZERS)(model.parameters())
    scale = chosen.choice((1.0, 3.0))

    def helped(h: Any) -> Any:
        h = h.exp().clamp(max=3.0) * scale
        log.append(h.mean().item())
        return h.sin() + h

    state = {"count": 0, "last": 0.0}
    seen: list[Any] = []
    scope = {
        **{"torch": tg, "nn": nn, "F": F, "model": model, "noisy": noisy, "optimizer": optimizer},
        **{"log": log, "state": state, "seen": seen, "helped": helped, "out": Lines(log)},
        **{"params": list(model.parameters()), "limit": 0.3, "note": Notes(log), "counted": sum_up},
        "loss_of": chosen.choice((F.mse_loss, F.smooth_l1_loss, lambda a, b: (a - b).abs().sum())),
    }
    exec(compile(source, name, "exec"), scope)
    step = tg.compile(scope["step"]) if compiled else scope["step"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i in range(CALLS):
            x, y = tg.randn(6, 4, dtype=tg.float64), tg.randn(6, 3, dtype=tg.float64)
            log += [step(x, y, i).item(), tg.rand(1).item()]
    log += [state["count"], state["last"], noisy.calls, *[t.sum().item() for t in seen]]
    log += [t.sum().item() for t in (*params, *model[1].buffers())]
    return log, step


class Lines:
    """A file that is a list."""

    def __init__(self, log: list[Any]) -> None:
        self.log = log

    def write(self, text: str) -> None:
        self.log.append(text)


class Notes:
    def __init__(self, log: list[Any]) -> None:
        self.log = log

    def __call__(self, h: Any) -> None:
        self.log.append(h.detach().sum().item())


def sum_up(n: int) -> int:
    return n + 1


def replays(compiled: Any) -> int:
    """How often something of a function was replayed."""
    resting = [recording for some in compiled.resting.values() for recording in some]
    found = sum([r.replays for r in (*compiled.recordings.values(), *resting)])
    for piece in [] if compiled.split is None else compiled.split.pieces:
        parts = [piece.function, *[each for _, each in piece.callees()]]
        found += sum([replays(each) for each in parts if hasattr(each, "recordings")])
    return found


def same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return a == pytest.approx(b, rel=1e-8, abs=1e-10)
    return bool(a == b)


@pytest.mark.parametrize(
    "start", [0, *[pytest.param(i, marks=pytest.mark.slow) for i in range(10, 200, 10)]]
)
def test_random_steps_with_lines_that_are_not_recorded(start: int) -> None:
    replayed = 0
    for seed in range(start, start + 10):
        expected, _ = trained(seed, False)
        found, step = trained(seed, True)
        source = random_source(random.Random(seed))
        assert len(found) == len(expected), source
        wrong = [i for i, (a, b) in enumerate(zip(found, expected, strict=True)) if not same(a, b)]
        assert not wrong, (seed, source, wrong[:3])
        replayed += replays(step) > 0
    assert replayed >= 8


def test_the_line_of_an_op_that_differs_in_a_replay():
    """A number that changes unseen: the next calls are compared op by op, to name the first one."""
    import ctypes

    number = ctypes.c_double(0.0)

    @tg.compiler.pure
    def scale():  # it is not
        number.value += 0.25
        return number.value

    def work(x):
        h = x.sin()
        y = h.cos() * scale()  # here
        return y.tanh().exp()

    step = tg.compile(work)
    with pytest.warns(UserWarning) as warned:
        for _ in range(8):
            x = tg.randn(3)
            before = number.value
            found = step(x)
            number.value = before
            tg.testing.assert_close(found, work(x))
    told = str(warned[0].message)
    assert "the first op that differs is mul, step 3 of 5" in told and "# here" in told
    assert len(warned) == 1
