"""Compiled functions that look at values: decisions in a recording, and functions cut in pieces."""

from __future__ import annotations

import math
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import tapegrad as tg
from tapegrad import nn

CALLS = 24
seen_by_all = 0


class Net(nn.Module):
    """Statistics that are written, and numbers that are drawn, in the forward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 1)

    def forward(self, x: Any) -> Any:
        return self.last(nn.functional.dropout(self.norm(self.first(x)).tanh(), 0.2)).square()


class Training:
    """A model, its optimizer, and what steps of many kinds write down."""

    def __init__(self) -> None:
        tg.manual_seed(0)
        self.net = Net().double()
        self.optimizer = tg.optim.SGD(self.net.parameters(), lr=0.05, momentum=0.9)
        self.kept: list[Any] = []
        self.count = 0

    def update(self, loss: Any) -> None:
        loss.backward()
        self.optimizer.step()

    def appends(self, x: Any, i: int) -> Any:
        self.optimizer.zero_grad()
        loss = self.net(x).mean()
        self.update(loss)
        self.kept.append(loss.item())
        return loss

    def reads_first(self, x: Any, i: int) -> Any:
        self.optimizer.zero_grad()
        loss = self.net(x).mean()
        self.kept.append(float(loss))
        self.update(loss)
        return loss * 2

    def now_and_then(self, x: Any, i: int) -> Any:
        self.optimizer.zero_grad()
        loss = self.net(x).mean()
        self.update(loss)
        if i % 5 == 0:
            self.kept.append(f"{i}: {loss.item():.3f}")
        return loss

    def counts(self, x: Any, i: int) -> Any:
        """What is counted is somebody's, and everybody's."""
        global seen_by_all
        self.optimizer.zero_grad()
        loss = self.net(x).mean()
        self.update(loss)
        seen_by_all += 1
        self.kept.append(seen_by_all)
        return loss

    def counts_itself(self, x: Any, i: int) -> Any:
        self.optimizer.zero_grad()
        loss = self.net(x).mean()
        self.update(loss)
        self.count += 1
        self.kept.extend([self.count, loss.detach().item()])
        return loss

    def note(self, loss: Any) -> None:
        self.kept.append(loss.detach().item())

    def has_it_noted(self, x: Any, i: int) -> Any:
        self.optimizer.zero_grad()
        loss = self.net(x).mean()
        self.update(loss)
        self.note(loss)
        return loss

    def returns_early(self, x: Any, i: int) -> Any:
        self.optimizer.zero_grad()
        loss = self.net(x).mean()
        if loss.item() < 0.2:
            return loss.detach()
        twice = loss * 2
        self.update(twice)
        return twice

    def leaves_unset(self, x: Any, i: int) -> Any:
        self.optimizer.zero_grad()
        loss = self.net(x).mean()
        if self.count < 0:
            other = loss
        self.kept.append(loss.item())
        try:
            loss = other
        except NameError as error:
            self.kept.append(str(error).partition(" ")[2][:14])
        self.update(loss)
        return loss

    def stops(self, x: Any, i: int) -> Any:
        self.optimizer.zero_grad()
        loss = self.net(x).mean()
        if loss.isnan():
            raise FloatingPointError("no number")
        self.update(loss)
        return loss

    def stops_later(self, x: Any, i: int) -> Any:
        self.optimizer.zero_grad()
        loss = self.net(x).mean()
        self.update(loss)
        if not tg.isfinite(loss):
            raise FloatingPointError("no number")
        return loss

    def branches(self, x: Any, i: int) -> Any:
        self.optimizer.zero_grad()
        loss = self.net(x).mean()
        if loss > 0.2:
            loss = loss * 3
        self.update(loss)
        return loss

    def clips(self, x: Any, i: int) -> Any:
        self.optimizer.zero_grad()
        loss = self.net(x).mean()
        loss.backward()
        nn.utils.clip_grad_norm_(self.net.parameters(), 0.5, error_if_nonfinite=True)
        self.optimizer.step()
        return loss


def losses(kind: str, compiled: bool, bad: int = -1) -> tuple[list[Any], Any]:
    """What a training returns and keeps; call number `bad` gets something that is no number."""
    global seen_by_all
    seen_by_all = 0
    training = Training()
    step = getattr(training, kind)
    step = tg.compile(step) if compiled else step
    batches = tg.Generator().manual_seed(1)
    found: list[Any] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i in range(CALLS):
            x = tg.randn(6, 4, generator=batches, dtype=tg.float64)
            if i == bad:
                state = training.net.state_dict()
                state = {name: value.clone() for name, value in state.items()}
                x[0, 0] = math.nan
            try:
                found.append(step(x, i).item())
            except (FloatingPointError, RuntimeError) as error:
                found.append(str(error))
            found.append(tg.rand(1).item())
            if i == bad:
                training.net.load_state_dict(state)
                training.optimizer.state.clear()
            found.append(training.net.norm.running_var.sum().item())
    return found + training.kept, step


def same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-9) or (a != a and b != b)
    return bool(a == b)


def replays(compiled: Any) -> int:
    """How often something of a function was replayed."""
    own = sum([recording.replays for recording in compiled.recordings.values()])
    resting = [recording for some in compiled.resting.values() for recording in some]
    own += sum([recording.replays for recording in resting])
    pieces = [] if compiled.split is None else compiled.split.pieces
    return own + sum([replays(p.function) for p in pieces if hasattr(p.function, "recordings")])


KINDS = [
    *(
        "counts_itself",
        "has_it_noted",
        "appends",
        "reads_first",
        "now_and_then",
        "counts",
        "returns_early",
        "leaves_unset",
    ),
    *("stops", "stops_later", "branches", "clips"),
]


@pytest.mark.parametrize("kind", KINDS)
def test_steps_that_look_at_values_are_the_same_compiled(kind: str) -> None:
    wanted, _ = losses(kind, False)
    found, step = losses(kind, True)
    assert len(found) == len(wanted)
    assert all(map(same, found, wanted))
    assert replays(step) >= CALLS - 12


@pytest.mark.parametrize("kind", ["stops", "stops_later", "clips"])
def test_a_value_that_is_no_number_stops_the_call(kind: str) -> None:
    """Nothing of the replay is left: neither what it wrote nor what it drew."""
    wanted, _ = losses(kind, False, bad=15)
    found, step = losses(kind, True, bad=15)
    assert all(map(same, found, wanted))
    said = [x for x in found if isinstance(x, str)]
    assert len(said) == 1 and ("no number" in said[0] or "non-finite" in said[0])
    assert replays(step) >= CALLS - 8


def test_a_decision_that_changes_for_good_is_recorded_anew() -> None:
    def function(x: Any, limit: Any) -> Any:
        y = (x * 2).tanh().sum()
        return y.exp() if y > limit else y.cos()

    compiled = tg.compile(function, fullgraph=True)
    x = tg.ones(5)
    for limit in (0.0, 9.0, 0.0):
        for _ in range(12):
            assert compiled(x, tg.tensor(limit)).item() == function(x, tg.tensor(limit)).item()
    (recording,) = compiled.recordings.values()
    assert recording.answers == [True] and recording.replays >= 6
    assert "if, a function in Python" in tg.compile.explain(compiled)


def test_a_decision_that_changes_all_the_time() -> None:
    """Half of the calls would be made in vain: the statement is left to Python."""

    def function(x: Any) -> Any:
        y = (x * 2).tanh() * x.cos().exp().cos().exp()
        if y.sum() > 0:
            y = y * 2
        return (y + 1).exp().tanh().sum() * 3

    compiled = tg.compile(function)
    with pytest.warns(UserWarning, match="what it does depends on a value") as said:
        for i in range(60):
            x = tg.linspace(0.1, 1, 5) * (-1) ** i
            assert compiled(x).item() == pytest.approx(function(x).item(), rel=1e-6)
    assert len(said) == 1 and "if y.sum() > 0:" in str(said[0].message)
    assert [p.spelled()[:4] for p in compiled.split.pieces] == ["line", "line", "line"]
    assert replays(compiled) > 40
    assert "piece 2, line" in tg.compile.explain(compiled)


def test_a_cut_is_said_once_with_the_line() -> None:
    kept: list[float] = []

    def function(x: Any) -> Any:
        y = (x * 2).tanh().exp().sum()
        kept.append(y.item())
        z = (y * x).cos().exp().sum()
        kept.append(z.item())
        return z

    compiled = tg.compile(function)
    x = tg.ones(3)
    with pytest.warns(UserWarning, match=r"the others are compiled apart") as said:
        for _ in range(12):
            compiled(x)
    assert len(said) == 1 and "kept.append(y.item())" in str(said[0].message)
    assert len(kept) == 24 and len(set(kept)) == 2
    assert replays(compiled) >= 12


def test_lines_of_errors_are_the_functions_own() -> None:
    def function(x: Any) -> Any:
        y = (x * 2).tanh().exp().sum()
        value = y.item()
        if value > 100:
            raise ValueError(value)
        return y + value

    compiled = tg.compile(function)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(8):
            compiled(tg.ones(3))
    assert compiled.split is not None
    with pytest.raises(ValueError) as error:
        compiled(tg.ones(300))
    last = traceback.extract_tb(error.value.__traceback__)[-1]
    assert last.line == "raise ValueError(value)" and last.name == "function"


def with_arguments(
    x: Any, /, factor: float = 2.0, *more: Any, shift: Any = None, **rest: Any
) -> Any:
    y = (x * factor).tanh().exp().sum() + len(more) + len(rest)
    seen = y.item()
    return y * seen if shift is None else y + shift


def shares_a_variable(x: Any) -> Any:
    y = (x * 2).tanh().exp().sum()
    twice = lambda: y * 2  # noqa: E731
    y = y + y.item()
    return twice()


def looks_around(x: Any) -> Any:
    y = (x * 2).tanh().exp().sum()
    y = y + y.item()
    return y * len(locals())


def gives_an_object(x: Any) -> Any:
    kept = Training.__new__(Training)
    kept.count = (x * 2).tanh().exp().sum()
    value = kept.count.item()
    kept.count = kept.count + value
    return kept.count


def two_names(x: Any) -> Any:
    y = z = (x * 2).tanh().exp() * x
    if y.sum().item() > 0:
        y.add_(1)
    return z * 2


def inside_a_loop(x: Any) -> Any:
    y = (x * 2).tanh().exp().cos()
    for _ in range(3):
        if y.sum().item() > 0:
            break
        y = y + 1
    return (y * 2).exp().sin().sum()


@pytest.mark.parametrize(
    "function",
    [shares_a_variable, looks_around, gives_an_object, two_names, inside_a_loop],
)
def test_what_is_not_cut_or_not_recorded_is_right_all_the_same(function: Any) -> None:
    compiled = tg.compile(function)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i in range(10):
            x = tg.linspace(0.1, 1, 4) * (i + 1)
            tg.testing.assert_close(compiled(x), function(x))
    is_cut = function not in (shares_a_variable, looks_around)
    assert (compiled.split is not None) is is_cut


def test_arguments_of_all_kinds_reach_the_pieces() -> None:
    compiled = tg.compile(with_arguments)
    calls: list[Callable[[Any, Any], Any]] = [
        lambda f, x: f(x),
        lambda f, x: f(x, 3.0),
        lambda f, x: f(x, 3.0, 1, 2),
        lambda f, x: f(x, factor=0.5, shift=x, other=1),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i in range(24):
            x = tg.linspace(0.1, 1, 4) + i % 3
            call = calls[i % 4]
            tg.testing.assert_close(call(compiled, x), call(with_arguments, x))
    assert compiled.split is not None


def test_a_source_that_is_another_one_is_not_used() -> None:
    """What runs is not what the file says: the function is left as it is."""
    scope: dict[str, Any] = {}
    text = "def function(x):\n    y = (x * 2).tanh().exp().sum()\n    return y + y.item()\n"
    exec(compile(text, __file__, "exec"), scope)
    compiled = tg.compile(scope["function"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(6):
            tg.testing.assert_close(compiled(tg.ones(3)), scope["function"](tg.ones(3)))
    assert compiled.split is None


def notes(kept: list[Any], y: Any) -> None:
    kept.append(y.shape)


def test_what_is_changed_elsewhere() -> None:
    """The line that does it is not one of the function: what is before the call is compiled."""
    kept: list[Any] = []

    def function(x: Any) -> Any:
        y = (x * 2).tanh().exp().cos().sum()
        inner(y)
        return y

    def inner(y: Any) -> None:
        notes(kept, y)

    compiled = tg.compile(function)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(20):
            compiled(tg.ones(3))
    assert len(kept) == 20 and compiled.split is not None and replays(compiled) >= 10


def test_a_variable_of_others_that_counts_is_kept_out_of_recordings() -> None:
    counter = {"n": 0}
    kept: list[Any] = []
    epoch = 0

    def function(x: Any) -> Any:
        y = (x * 2).tanh().exp().cos().sum()
        if epoch % 3 == 0:
            kept.append(counter["n"])
        return y

    compiled = tg.compile(function)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(30):
            compiled(tg.ones(3))
            epoch += 1
            counter["n"] += 2
    assert kept == list(range(0, 60, 6))
    assert replays(compiled) >= 15


class Part:
    def __init__(self, scale: float) -> None:
        self.scale = scale
        self.others: list[Any] = []
        self.part: Any = None

    @property
    def twice(self) -> float:
        return self.scale * 2

    def scaled(self) -> float:
        return self.scale

    def me(self) -> Part:
        return self

    def directly(self, x: Any) -> Any:
        return ((x * self.scale).tanh().exp() + 1).sum()

    def by_a_method(self, x: Any) -> Any:
        return ((x * self.scaled()).tanh().exp() + 1).sum()

    def by_a_property(self, x: Any) -> Any:
        return ((x * self.twice).tanh().exp() + 1).sum()

    def by_another_name(self, x: Any) -> Any:
        it = self
        return ((x * it.scale).tanh().exp() + 1).sum()

    def by_a_call(self, x: Any) -> Any:
        return ((x * self.me().scale).tanh().exp() + 1).sum()

    def by_an_attribute(self, x: Any) -> Any:
        return ((x * self.part.scale).tanh().exp() + 1).sum()

    def by_a_method_of_an_attribute(self, x: Any) -> Any:
        return ((x * self.part.scaled()).tanh().exp() + 1).sum()

    def by_an_element(self, x: Any) -> Any:
        return ((x * self.others[0].scaled()).tanh().exp() + 1).sum()

    def by_a_circle(self, x: Any) -> Any:
        return ((x * self.part.part.scaled()).tanh().exp() + 1).sum()

    def by_its_name(self, x: Any) -> Any:
        return ((x * getattr(self, "sca" + "le")).tanh().exp() + 1).sum()


WAYS = [name for name in vars(Part) if name.startswith(("by_", "directly"))]


@pytest.mark.parametrize("way", WAYS)
def test_attributes_that_a_function_looks_at(way: str) -> None:
    """However it gets to them, another value counts from the next call on."""
    whole, inner = Part(0.5), Part(0.5)
    whole.part, whole.others, inner.part = inner, [inner], whole
    compiled = tg.compile(getattr(whole, way), fullgraph=True)
    x = tg.linspace(0.1, 1, 4)
    for scale in (0.5, 0.25):
        whole.scale = inner.scale = scale
        for _ in range(5):
            tg.testing.assert_close(compiled(x), getattr(whole, way)(x))
    assert replays(compiled) >= 3


def test_attributes_that_a_function_does_not_look_at() -> None:
    class Trainer:
        def __init__(self) -> None:
            self.model = nn.Linear(2, 1)
            self.optimizer = tg.optim.SGD(self.model.parameters(), lr=0.1)
            self.losses: list[float] = []

        def train(self) -> None:
            self.losses.clear()

        def step(self, x: Any) -> Any:
            self.model.train()
            self.optimizer.zero_grad()
            loss = self.model(x).square().mean()
            loss.backward()
            self.optimizer.step()
            self.losses.append(loss.item())
            return loss

    trainer = Trainer()
    step = tg.compile(trainer.step)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [step(tg.ones(3, 2)).item() for _ in range(20)]
    assert found == trainer.losses and found == sorted(found, reverse=True)
    assert replays(step) >= 14


def test_lists_that_somebody_else_has() -> None:
    """What a piece leaves in variables is made anew by a replay: a list of others must not be."""
    known: list[Any] = []
    table: dict[str, Any] = {"inner": known}

    def of_others(x: Any) -> Any:
        y = (x * 2).tanh().exp().cos()
        kept = table["inner"]
        y = y.sum()
        kept.append(y.item())
        return y

    def two_names(x: Any) -> Any:
        y = (x * 2).tanh().exp().cos()
        first = second = []
        y = y.sum()
        first.append(y.item())
        return y * len(second)

    def own(x: Any) -> Any:
        y = (x * 2).tanh().exp().cos().sum()
        kept = [y * 1, {"twice": y * 2}]
        kept.append(kept[0].item())
        return kept

    def returned(x: Any) -> Any:
        return {"y": (x * 2).tanh().exp().cos().sum(), "known": known}

    xs = [tg.ones(3) * i for i in range(10)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = [tg.compile(f) for f in (of_others, two_names, own, returned)]
        for x in xs:
            assert compiled[0](x).item() == known[-1]
            assert compiled[1](x).item() == (x * 2).tanh().exp().cos().sum().item()
            found = compiled[2](x)
            assert len(found) == 3 and found[0].item() == found[2]
            assert found[1]["twice"].item() == 2 * found[2]
            assert compiled[3](x)["known"] is known
    assert len(known) == len(xs)
    firsts = [each if each.split is None else each.split.pieces[0].function for each in compiled]
    assert [replays(each) > 0 for each in firsts] == [False, False, True, False]


def test_lists_among_the_arguments_that_are_changed() -> None:
    def function(kept: Any, x: Any) -> Any:
        kept["inner"].append((x * 2).tanh().exp().cos().sum())
        kept["count"] = kept.get("count", 0) + 1
        return kept["inner"][-1] * 2

    compiled = tg.compile(function)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i in range(6):
            inner: list[Any] = []
            kept = {"inner": inner}
            found = compiled(kept, tg.ones(3) * i)
            assert kept["inner"] is inner and len(inner) == 1 and kept["count"] == 1
            assert found.item() == 2 * inner[0].item()
    assert "it changes a dict['inner']" in tg.compile.explain(compiled)
