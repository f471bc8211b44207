"""Compiled functions compute what ordinary calls do, also where a recording could be misled.

Values are compared with the same function run as ordinary Python, in calls with the same and with
other inputs: what a recording freezes shows in one of the two.
"""

import gc
import re
import threading
import time
import warnings

import pytest

import tapegrad as torch
import tapegrad.nn.functional as F
from tapegrad import nn
from tapegrad.kernels.cpu import KERNELS


@pytest.fixture(autouse=True)
def quietly():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def random(seed, *shape):
    torch.manual_seed(seed)
    return torch.randn(*shape)


SEEDS = (1, 1, 1, 1, 2, 3, 3, 1)  # the same values while it is recorded, then others


def assert_close(a, b):
    torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def weighted_sum(out):
    return (out * torch.arange(out.numel()).view(out.shape).cos()).sum()


def compare_outside(function, *shape):
    """A function that is differentiated outside of what is compiled."""
    compiled = torch.compile(function)
    for seed in SEEDS:
        x, y = (random(seed, *shape).requires_grad_() for _ in range(2))
        a, b = function(x), compiled(y)
        weighted_sum(a).backward()
        weighted_sum(b).backward()
        assert_close(a, b)
        assert_close(x.grad, y.grad)


def compare_steps(function, *shape):
    """A whole training step."""

    def made():
        p = nn.Parameter(torch.full(shape, 0.7))
        optimizer = torch.optim.SGD([p], lr=0.1)

        def step(x):
            optimizer.zero_grad()
            loss = weighted_sum(function(p * x))
            loss.backward()
            optimizer.step()
            return loss

        return p, step

    (p, step), (q, other) = made(), made()
    compiled = torch.compile(other)
    for seed in SEEDS:
        x = random(seed, *shape)
        assert_close(step(x), compiled(x))
        assert_close(p, q)


def write_rows(h):
    y = h * 2
    y[0] += 1
    y[0] *= h[1]
    y[:, 1] = h[:, 0]
    return y


def differentiated_inside(h):
    padded = F.pad(h.sin(), (1, 1), mode="reflect")
    (g,) = torch.autograd.grad((padded**3).sum(), h, create_graph=True)
    return g * h


SUMS = {  # where several elements add up in a gradient
    "reflect": (lambda h: F.pad(h, (2, 1), mode="reflect"), (2, 3, 6)),
    "replicate": (lambda h: F.pad(h, (2, 1, 1, 2), mode="replicate"), (2, 3, 6, 5)),
    "circular": (lambda h: F.pad(h, (2, 1), mode="circular"), (2, 3, 6)),
    "nearest": (lambda h: F.interpolate(h, size=(7, 4)), (1, 2, 5, 6)),
    "bilinear": (lambda h: F.interpolate(h, size=(7, 4), mode="bilinear"), (1, 2, 5, 6)),
    "bicubic": (lambda h: F.interpolate(h, scale_factor=2, mode="bicubic"), (1, 2, 4, 4)),
    "linear": (lambda h: F.interpolate(h, size=8, mode="linear"), (1, 2, 5)),
    "adaptive_avg_pool1d": (lambda h: F.adaptive_avg_pool1d(h, 4), (2, 3, 10)),
    "adaptive_avg_pool3d": (lambda h: F.adaptive_avg_pool3d(h, (2, 3, 2)), (1, 2, 5, 4, 3)),
    "avg_pool3d": (lambda h: F.avg_pool3d(h, 2, 1), (1, 2, 5, 4, 3)),
    "unfold": (lambda h: h.unfold(1, 3, 1).sin(), (2, 10, 3)),
    "F.unfold": (lambda h: F.unfold(h, 3, padding=1), (1, 2, 5, 5)),
    "fold": (lambda h: F.fold(h, (4, 4), 2), (1, 8, 9)),
    "as_strided": (lambda h: h.as_strided((5, 3), (1, 3), 1).sin(), (3, 4)),
    "local_response_norm": (lambda h: F.local_response_norm(h, 3), (2, 5, 4, 4)),
    "affine_grid": (lambda h: F.affine_grid(h, (1, 1, 3, 3)), (1, 2, 3)),
    "writes": (write_rows, (4, 3)),
    "autograd.grad": (differentiated_inside, (4, 4)),
}


@pytest.mark.parametrize("name", SUMS)
def test_sums_of_several_elements_are_not_frozen(name):
    function, shape = SUMS[name]
    compare_outside(lambda x: function(x.tanh() * 1.3 + 0.1), *shape)
    compare_steps(lambda x: function(x.tanh() * 1.3 + 0.1), *shape)


@torch.compiler.pure
def summed_by_numpy(h):
    """A sum that no op makes, as a gradient rule might do it."""
    from tapegrad.core.base import wrap

    return wrap(h._array.sum(axis=0, keepdims=True))


def frozen_by_numpy(x):
    h = x.sin() * 2
    return h.exp() + summed_by_numpy(h) * h.cos()


def test_values_that_no_op_made_are_not_replayed():
    compiled = torch.compile(frozen_by_numpy)
    with pytest.warns(UserWarning, match="add|mul.*computed outside of ops"):
        for seed in SEEDS:
            x = random(seed, 4, 3)
            assert_close(compiled(x), frozen_by_numpy(x))


def test_a_gradient_that_no_op_made_is_not_replayed():
    p = nn.Parameter(random(0, 3))

    def work(x):
        from tapegrad.core.base import wrap

        h = (p * x).exp() * 2 + x.sin() - x.cos()
        p.grad = wrap(h._array * 2)
        return h

    compiled = torch.compile(work)
    for seed in SEEDS:
        x = random(seed, 3)
        compiled(x)
        found = p.grad.clone()
        work(x)
        assert_close(found, p.grad)


def test_a_cast_by_as_tensor_is_not_frozen():
    def work(x):
        y = torch.as_tensor(x * 2, dtype=torch.float64)
        return y.exp() + torch.asarray(x, dtype=torch.float64).sin() + 1

    compiled = torch.compile(work)
    for seed in SEEDS:
        x = random(seed, 5)
        assert_close(compiled(x), work(x))
    assert "replayed" in str(torch.compile.explain(compiled))


def test_tensors_of_lists_with_tensors_in_them_are_not_frozen():
    def work(x):
        return torch.tensor([x.sum(), x.max()]) * x[:2].exp() + x[:2].sin()

    compiled = torch.compile(work)
    for seed in SEEDS:
        x = random(seed, 5)
        assert_close(compiled(x), work(x))


# ---------------------------------------------------------------------- random numbers


def test_fork_rng_inside():
    """The stream that was drawn from inside is gone afterwards: no tape may look at it."""

    def work(x):
        with torch.random.fork_rng():
            noise = torch.randn(300)
            torch.rand(2)
        return (x + noise).sin().exp() * 2

    compiled = torch.compile(work)
    kept = []
    for i in range(40):
        torch.manual_seed(i // 3)
        a = work(torch.zeros(300))
        b = compiled(torch.zeros(300))
        kept.append([torch.empty(700) for _ in range(20)])
        assert torch.equal(a, b)


def test_fork_rng_around_keeps_the_stream_that_replays_draw_from():
    def work(x):
        return F.dropout(x * 2 + 1) * 3 + torch.rand(4)

    def twice(function, i):
        torch.manual_seed(i)
        with torch.random.fork_rng():
            torch.rand(i)
            first = function(torch.ones(4))
        return first, function(torch.ones(4)), torch.get_rng_state()

    compiled = torch.compile(work)
    for i in range(8):
        for a, b in zip(twice(work, i), twice(compiled, i), strict=True):
            assert torch.equal(a, b)
    assert "replayed" in str(torch.compile.explain(compiled))


@pytest.mark.skipif(KERNELS is None, reason="tapes are of kernels in C")
def test_a_tape_owns_the_twister_that_it_draws_from():
    from tapegrad.ops.draws.twister import Stream

    stream = Stream()
    stream.words(4)
    state = stream._state
    base = state.base
    while not hasattr(base, "twister"):
        base = base.obj if isinstance(base, memoryview) else base.base
    assert base.twister is stream._bits


@pytest.mark.parametrize(
    "sets",
    [
        lambda: torch.manual_seed(3),
        lambda: torch.set_rng_state(torch.get_rng_state()),
        lambda: torch.default_generator.manual_seed(3),
    ],
)
def test_setting_the_state_of_random_numbers_happens_in_every_call(sets):
    def work(x):
        y = torch.rand(3) + x
        sets()
        return y.sin() + torch.rand(3).exp()

    compiled = torch.compile(work)
    for i in range(6):
        torch.manual_seed(3)
        torch.rand(i // 3)
        a = work(torch.ones(3))
        torch.manual_seed(3)
        torch.rand(i // 3)
        assert torch.equal(a, compiled(torch.ones(3)))


# ---------------------------------------------------------------------- errors


def outcome(function, *args):
    try:
        return function(*args)
    except Exception as error:
        return type(error), str(error).splitlines()[0]


ERRORS = {
    "cholesky": (torch.linalg.cholesky, lambda i: -torch.eye(3) if i == 5 else torch.eye(3) + i),
    "inv": (torch.linalg.inv, lambda i: torch.zeros(3, 3) if i == 5 else torch.eye(3) * (i + 1)),
    "solve": (
        lambda a: torch.linalg.solve(a, torch.ones(3)),
        lambda i: torch.zeros(3, 3) if i == 5 else torch.eye(3) * (i + 1),
    ),
    "one_hot": (
        lambda k: F.one_hot(k, 4).float(),
        lambda i: torch.tensor([1, 9 if i == 5 else i % 3]),
    ),
    "binary_cross_entropy": (
        lambda p: F.binary_cross_entropy(p, torch.tensor([0.0, 1.0])),
        lambda i: torch.tensor([0.5, 1.5 if i == 5 else 0.1 * i]),
    ),
    "Normal": (
        lambda s: torch.distributions.Normal(torch.zeros(2), s).log_prob(torch.ones(2)),
        lambda i: torch.tensor([0.5, -1.0 if i == 5 else 1.0 + i]),
    ),
    "Categorical": (
        lambda p: torch.distributions.Categorical(p).log_prob(torch.tensor(1)),
        lambda i: torch.tensor([0.5, -1.0 if i == 5 else 1.0 + i]),
    ),
    "cross_entropy": (
        lambda k: F.cross_entropy(torch.arange(6.0).view(2, 3), k),
        lambda i: torch.tensor([1, 7 if i == 5 else i % 3]),
    ),
    "embedding": (
        lambda k: F.embedding(k, torch.arange(6.0).view(3, 2)),
        lambda i: torch.tensor([1, 7 if i == 5 else i % 3]),
    ),
    "gather": (
        lambda k: torch.arange(6.0).gather(0, k),
        lambda i: torch.tensor([1, 7 if i == 5 else i % 3]),
    ),
    "take": (
        lambda k: torch.arange(6.0).take(k),
        lambda i: torch.tensor([1, 7 if i == 5 else i % 3]),
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_replays_raise_what_calls_raise(name):
    function, argument = ERRORS[name]

    def work(x):
        return function(x).sin().exp() + 1

    compiled = torch.compile(work)
    for i in range(8):
        x = argument(i)
        a, b = outcome(work, x), outcome(compiled, x)
        assert (type(a) is tuple) is (i == 5)
        if i == 5:
            assert a == b
        else:
            assert_close(a, b)


def test_an_error_in_a_replay_leaves_what_a_call_leaves():
    def made():
        torch.manual_seed(0)
        layer = nn.Linear(3, 3)
        norm = nn.BatchNorm1d(3)
        optimizer = torch.optim.Adam([*layer.parameters(), *norm.parameters()])

        def step(x):
            optimizer.zero_grad()
            h = norm(layer(x)) + torch.rand(3)
            loss = torch.linalg.cholesky(torch.diag(h.mean(0) + x[0, 0])).sum()
            loss.backward()
            optimizer.step()
            return loss

        def state():
            tensors = [*layer.state_dict().values(), *norm.state_dict().values()]
            tensors += [t for own in optimizer.state.values() for t in own.values()]
            grads = [p.grad for p in layer.parameters()]
            return [*tensors, *[torch.zeros(()) if g is None else g for g in grads]]

        return step, state

    (step, state), (other, other_state) = made(), made()
    compiled = torch.compile(other)
    for i in range(9):
        x = random(i, 4, 3)
        x[0, 0] = -9.0 if i in (5, 7) else 9.0
        torch.manual_seed(i)
        a = outcome(step, x)
        drawn = torch.get_rng_state()
        torch.manual_seed(i)
        b = outcome(compiled, x)
        assert torch.equal(drawn, torch.get_rng_state())
        assert (type(a) is tuple) is (i in (5, 7))
        if i in (5, 7):
            assert a == b
        else:
            assert_close(a, b)
        for s, t in zip(state(), other_state(), strict=True):
            assert_close(s, t)


def test_an_error_that_is_caught_inside():
    def work(x):
        h = x.sin() * 2
        try:
            return torch.linalg.cholesky(h.abs().diag() - x[0]).exp()
        except RuntimeError:
            return h.exp().diag()

    compiled = torch.compile(work)
    for i in range(12):
        x = random(i, 3)
        x[0] = 5.0 if i in (1, 2, 3, 9) else -5.0
        assert_close(compiled(x), work(x))


# ---------------------------------------------------------------------- arguments


def compare(function, arguments, calls=9):
    """Calls with the arguments that `arguments(i)` makes, compiled and not; arguments too."""
    compiled = torch.compile(function)
    for i in range(calls):
        mine, others = arguments(i), arguments(i)
        a, b = outcome(function, *mine), outcome(compiled, *others)
        for x, y in zip(tensors_in((a, mine)), tensors_in((b, others)), strict=True):
            assert_close(x, y)
            assert x._version == y._version
        assert str(type(a)) == str(type(b))
    return compiled


def tensors_in(value):
    if isinstance(value, torch.Tensor):
        return [value]
    return [t for v in value for t in tensors_in(v)] if isinstance(value, (list, tuple)) else []


def long_enough(x):
    return (x * 2).sin().exp() + x.cos()


def test_one_tensor_given_twice():
    def pair(i):
        x = random(i, 3)
        return (x, x) if i % 3 == 1 else (x, x.clone())

    def same(x, y):
        return long_enough(x) * (2.0 if x is y else 1.0)

    def written(x, y):
        x.add_(1)
        return long_enough(y)

    compare(same, pair)
    compare(written, pair)
    compare(lambda xs: long_enough(xs[0]) * (2.0 if xs[0] is xs[1] else 1.0), lambda i: [pair(i)])


def test_gradients_of_one_tensor_given_twice():
    def work(x, y):
        return long_enough(x) * y.sin()

    compiled = torch.compile(work)
    for i in range(8):
        x, y = (random(i, 3).requires_grad_() for _ in range(2))
        work(x, x).sum().backward()
        compiled(y, y).sum().backward()
        assert_close(x.grad, y.grad)


def test_arguments_that_overlap():
    def base_and_view(i):
        base = random(i, 4, 3)
        return (base, base[1]) if i % 4 else (base, base.clone()[1])

    def scaled(base, view):
        view.mul_(2)
        return long_enough(base)

    def shifted(a, b):
        return long_enough(a) * b

    compare(scaled, base_and_view)
    compiled = compare(shifted, lambda i: (lambda x: (x[:, :-1], x[:, 1:]))(random(i, 2, 7)))
    assert "replayed" in str(torch.compile.explain(compiled))


def test_arguments_that_the_function_knows():
    known = random(0, 3)

    def work(x):
        return long_enough(x) * (2.0 if x is known else 1.0)

    def written(x):
        x.mul_(2)
        return long_enough(known)

    compiled = torch.compile(work)
    for i in range(12):
        x = known if i % 3 == 1 or i > 8 else random(i, 3)
        assert_close(compiled(x), work(x))
    compiled = torch.compile(written)
    for i in range(6):
        a = compiled(known[:] if i % 2 else random(i, 3))
        assert_close(a, long_enough(known))


def test_what_stand_ins_cannot_tell():
    def work(x):
        told = [x.storage_offset(), x._version, x._is_view(), x.stride()[0], x.is_contiguous()]
        return long_enough(x) + torch.tensor([float(v) for v in told])

    def argument(i):
        x = random(i, 3, 5)
        if i % 2:
            x.add_(1)
        return (x[i % 3],) if i % 4 else (x.t()[i % 3 :][0].new_ones(5) + i,)

    compare(work, argument)
    compare(lambda x: long_enough(x.as_strided((2,), (1,), 0)), lambda i: (random(i, 8)[3:6],))


def test_results_that_are_one_tensor_or_look_into_an_argument():
    compiled = torch.compile(lambda x: (lambda y: [y, y, x[0]])(long_enough(x)))
    for i in range(6):
        x = random(i, 3)
        a, b, view = compiled(x)
        assert a is b
        x.zero_()
        assert view == 0


class Word(str):
    scale = 1.0


def test_signatures_tell_apart_what_is_equal():
    import dataclasses

    @dataclasses.dataclass(frozen=True)
    class Options:
        name: str
        scale: float = dataclasses.field(default=1.0, compare=False)

    compare(lambda x, o: long_enough(x) * o.scale, lambda i: (random(i, 3), Options("a", float(i))))

    def word(i):
        made = Word("a")
        made.scale = float(i)
        return random(i, 3), made

    compare(lambda x, w: long_enough(x) * w.scale, word)
    compare(
        lambda x, s: long_enough(x) * (2.0 if type(next(iter(s))) is bool else 1.0),
        lambda i: (random(i, 3), frozenset({True}) if i % 3 == 1 else frozenset({1})),
    )
    compare(lambda x, z: (long_enough(x) * z).abs(), lambda i: (random(i, 3), complex(1, -0.0 * i)))
    compare(lambda x, z: (long_enough(x) * z).abs(), lambda i: (random(i, 3), 1 + 1j * i))


def test_an_argument_with_attributes():
    def argument(i):
        x = random(i, 3)
        x.scale = i
        return (x,)

    compare(lambda x: long_enough(x) * x.scale, argument)


# ---------------------------------------------------------------------- what did not run at all


def test_sums_of_truths():
    def work(x):
        mask = x > 0
        total = (mask + (x < 1)).float() + sum([mask, x > 1, x > 2]).float() * x.exp()
        return total / mask.sum()

    compare(work, lambda i: (random(i, 4, 3),))


def made_with(layer, optimizer, loss):
    def step(x):
        optimizer.zero_grad()
        found = loss(layer, x)
        found.backward()
        optimizer.step()
        return found

    return step, list(layer.parameters())


STEPS = {
    "rfft": (
        lambda: nn.Linear(8, 8),
        lambda p: torch.optim.Adam(p),
        lambda layer, x: (torch.fft.rfft(layer(x)).abs() ** 2).mean(),
    ),
    "sparse": (
        lambda: nn.Embedding(5, 3, sparse=True),
        lambda p: torch.optim.SGD(p, 0.1),
        lambda layer, x: (layer((x[0] * 0 + 2).long()) ** 2).mean(),
    ),
    "SparseAdam": (
        lambda: nn.Embedding(5, 3, sparse=True),
        lambda p: torch.optim.SparseAdam(list(p)),
        lambda layer, x: (layer((x[0] * 0 + 2).long()) ** 2).mean(),
    ),
}


@pytest.mark.parametrize("name", STEPS)
def test_steps_that_used_to_raise(name):
    make, optimizer, loss = STEPS[name]

    def made():
        torch.manual_seed(0)
        layer = make()
        return made_with(layer, optimizer(layer.parameters()), loss)

    (step, parameters), (other, others) = made(), made()
    compiled = torch.compile(other)
    for i in range(7):
        x = random(i, 4, 8)
        assert_close(step(x), compiled(x))
        for p, q in zip(parameters, others, strict=True):
            assert_close(p, q)


# ---------------------------------------------------------------------- gradients that are kept


@pytest.fixture(params=[-1, 0, 1])
def less(request, monkeypatch):
    """Python counts fewer references to what a local variable has, as from 3.14 on; or more."""
    import sys

    from tapegrad.core import references

    counted = sys.getrefcount
    monkeypatch.setattr(sys, "getrefcount", lambda x: counted(x) - 1 - request.param)
    references.calibrate()
    yield
    monkeypatch.undo()
    references.calibrate()


def test_other_counts_of_references(less):
    """The count that a tensor tells, and memory that only a tensor has, do not depend on it."""
    from tapegrad.multiprocessing.reductions import in_shared_memory

    a = torch.ones(2, requires_grad=True)
    assert a._use_count() == 1
    b = a * 2
    assert a._use_count() == 2 and b is not None
    alone, shared = torch.ones(3), torch.ones(3)
    other = shared.numpy()
    assert in_shared_memory(alone)[0] is alone._array
    assert in_shared_memory(shared)[0] is not shared._array and other is not None


def test_gradients_that_somebody_keeps_are_not_overwritten(less):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(30, 30), nn.Tanh(), nn.Linear(30, 3))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def step(x):
        optimizer.zero_grad()
        loss = model(x).sin().sum()
        loss.backward()
        optimizer.step()
        return loss

    compiled = torch.compile(step)
    kept = []
    for i in range(8):
        compiled(random(i, 4, 30))
        kept += [(p.grad, p.grad.clone()) for p in model.parameters()]
    assert all(torch.equal(gradient, values) for gradient, values in kept)


# ---------------------------------------------------------------------- the safety net


def hidden_scale():
    """A function with a number that nothing notices, and what sets it."""
    import ctypes

    number = ctypes.c_double(2.0)

    @torch.compiler.pure
    def scale():  # it is not
        return number.value

    def work(x):
        return long_enough(x) * scale()

    return work, lambda value: setattr(number, "value", value)


def calls_until_right(compiled, work, count):
    """The calls that were wrong; from some on all are right again."""
    wrong = []
    for i in range(count):
        x = random(i, 3)
        if not torch.allclose(compiled(x), work(x)):
            wrong.append(i)
    return wrong


@pytest.mark.parametrize("at", [8, 16, 32, 64])
def test_replays_are_compared_with_calls_now_and_then(at):
    work, set_scale = hidden_scale()
    compiled = torch.compile(work)
    assert calls_until_right(compiled, work, at - 2) == []
    if "replayed" not in str(torch.compile.explain(compiled)):
        pytest.fail("the function sees the number: choose another hiding place")
    set_scale(3.0)
    with pytest.warns(UserWarning, match="were compared and right"):
        wrong = calls_until_right(compiled, work, 70)
    # The call before the one that is compared; the seventh is an ordinary one.
    assert wrong == ([] if at == 8 else [0])
    assert "runs as ordinary Python" in str(torch.compile.explain(compiled))


def test_comparisons_can_be_switched_off(monkeypatch):
    for options, variable in (({"verify": False}, "1"), (None, "0")):
        monkeypatch.setenv("TAPEGRAD_COMPILE_VERIFY", variable)
        work, _ = hidden_scale()
        compiled = torch.compile(work, options=options)
        assert calls_until_right(compiled, work, 20) == []
        (recording,) = compiled.recordings.values()
        assert recording.last_right == 0 and recording.replays == 17


def test_comparisons_become_rare():
    work, _ = hidden_scale()
    compiled = torch.compile(work)
    calls_until_right(compiled, work, 70)
    (recording,) = compiled.recordings.values()
    assert recording.replays == 67
    assert recording.last_right == 61  # call 64, where call 4 was the first replay
    assert recording.next_check >= 2 * recording.last_right


# ---------------------------------------------------------------------- found by trying


def test_gradients_that_are_set_by_hand():
    def made():
        p = nn.Parameter(torch.ones(3))
        optimizer = torch.optim.SGD([p], lr=0.1)

        def step(x):
            p.grad = long_enough(x)
            optimizer.step()

        return p, step

    (p, step), (q, other) = made(), made()
    compiled = torch.compile(other)
    for i in range(8):
        step(random(i, 3))
        compiled(random(i, 3))
        assert_close(p, q)


def test_draws_by_chances_that_lie_otherwise():
    """A copy in order, which NumPy makes for the kernel, is not what later calls draw by."""

    def work(x):
        return torch.bernoulli(x.mul(1.0).div(1.0).clone())

    compiled = torch.compile(work, options={"verify": False})
    first = torch.rand(5, 4)
    for i in range(10):
        x = (first if i < 4 else torch.rand(5, 4)).t()
        torch.manual_seed(i)
        a = compiled(x)
        torch.manual_seed(i)
        assert torch.equal(a, work(x))


def test_a_leaf_made_of_an_argument_keeps_its_gradient():
    def work(x):
        x = x.detach().requires_grad_()
        y = (x.sin() * 2).tanh() * 3
        y[0, 0] = 3
        print(end="")
        (y.cos() * y).sum().backward()
        return x.grad

    compiled = torch.compile(work)
    for i in range(7):
        x = random(i, 3, 4)
        assert_close(compiled(x), work(x))


def test_a_mode_that_is_left_on():
    def work(x):
        torch.set_grad_enabled(False)
        return long_enough(x)

    compiled = torch.compile(work)
    try:
        for i in range(6):
            torch.set_grad_enabled(True)
            compiled(random(i, 3))
            assert not torch.is_grad_enabled()
    finally:
        torch.set_grad_enabled(True)


# ------------------------------------------------------------------ recorded calls and views


def in_both(make, *, calls=6):
    """What a function does to tensors that its caller goes on with: eagerly, and in each call."""
    eager, compiled = make(lambda f: f), make(torch.compile)
    for _ in range(calls):
        torch.manual_seed(0)
        expected = eager()
        torch.manual_seed(0)
        for a, b in zip(expected, compiled(), strict=True):
            torch.testing.assert_close(b, a)


def write_all(a):
    a.mul_(2)
    return a.sum() * 1.0


def write_one(a):
    a[0] = 3.0
    return (a * a).sum()


def write_through_a_view(a):
    b = a[1:]
    b.mul_(3)
    return b


def only_look(a):
    return a[::2]


@pytest.mark.filterwarnings("ignore:.*cannot be compiled")
@pytest.mark.parametrize("function", [write_all, write_one, write_through_a_view, only_look])
@pytest.mark.parametrize("written", [False, True])
def test_arguments_that_are_views_keep_their_place_in_the_graph(function, written):
    def make(compile):
        f = compile(function)

        def run():
            leaf = torch.randn(6, dtype=torch.float64, requires_grad=True)
            base = leaf * 1.0
            if written:
                base[0] = base[1].detach()
            a, other = base[:4], base.view(2, 3)
            out = f(a)
            (base.sum() + (out * out).sum() + other.sin().sum() + a.sum()).backward()
            return leaf.grad, base, torch.tensor([base._version, a._version])

        return run

    in_both(make)


@pytest.mark.filterwarnings("ignore:.*cannot be compiled")
def test_views_of_another_dtype_that_a_recorded_call_returns():
    def make(compile):
        f = compile(lambda z: torch.view_as_real(z)[1:])

        def run():
            z = torch.randn(3, dtype=torch.complex64)
            out = f(z)
            out.mul_(2)
            return z, out

        return run

    in_both(make)


@pytest.mark.filterwarnings("ignore:.*cannot be compiled")
def test_a_users_backward_runs_when_gradients_are_asked_for():
    calls = []

    class Counted(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            calls.append(1)
            return grad * 2

    f = torch.compile(lambda x: Counted.apply(x.sin()).cos())
    x = torch.randn(3, requires_grad=True)
    for n in range(1, 7):
        f(x).sum().backward()
        assert len(calls) == n


def test_a_users_backward_that_only_computes_is_recorded():
    scale = torch.tensor(3.0)

    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, power):
            ctx.save_for_backward(x)
            ctx.power = power
            return x**power

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            made = grad * ctx.power * torch.sign(x) * abs(scale)
            made[x > 2] = 0.0
            return made, None

    def whole(x):
        x = x.detach().requires_grad_()
        outside(x).sum().backward()
        return x.grad

    def outside(x):
        return Scaled.apply(x.sin(), 2).cos()

    once, twice = torch.compile(whole, fullgraph=True), torch.compile(outside, fullgraph=True)
    for i in range(6):
        x = torch.linspace(-1, 3, 5) * (i + 1)
        y, z = x.clone().requires_grad_(), x.clone().requires_grad_()
        outside(y).sum().backward()
        twice(z * 1).sum().backward()
        assert torch.equal(once(x), y.grad) and torch.equal(z.grad, y.grad)
    for each in (once, twice):
        assert re.search(r"replayed [3-9] times", torch.compile.explain(each))


@pytest.mark.filterwarnings("ignore:.*cannot be compiled")
def test_a_large_buffer_that_a_piece_writes_keeps_its_values():
    """Memory of a recording is given back before calls that are compared with it."""

    def make(compile):
        torch.manual_seed(0)
        layer, keys, seen = torch.nn.Linear(64, 128), torch.zeros(256, 128), []

        @compile
        def step(x):
            layer.zero_grad()
            k = layer(x)
            seen.append(x.shape)  # which cuts the function in two
            loss = (k + 0.1 * keys).sin().mean()
            loss.backward()
            with torch.no_grad():
                keys.mul_(0.9).add_(k, alpha=0.1)
            return loss.detach()

        return step, keys

    eager, expected = make(lambda f: f)
    compiled, keys = make(torch.compile)
    for i in range(14):
        x = torch.randn(256, 64, generator=torch.Generator().manual_seed(i))
        torch.testing.assert_close(compiled(x), eager(x))
        torch.testing.assert_close(keys, expected)


def test_callbacks_of_the_garbage_collector_are_no_part_of_a_call():
    """They run at any time, and may ask for the time: hypothesis installs one in every test run."""
    asked = []

    def watch(phase, info):
        asked.append(time.perf_counter())

    def function(x):
        for _ in range(12):
            x = (x.tanh().exp() * 1.5).sin()
        return x.sum()

    often = gc.get_threshold()
    gc.callbacks.append(watch)
    gc.set_threshold(5)
    try:
        compiled = torch.compile(function, fullgraph=True)
        for _ in range(6):
            assert compiled(torch.ones(4, 4)) == function(torch.ones(4, 4))
    finally:
        gc.set_threshold(*often)
        gc.callbacks.remove(watch)
    assert asked


def test_a_comparison_waits_for_backward_passes_of_other_threads():
    """Such a pass puts the values of its call into the memory that the replay fills."""
    w = torch.ones(8, requires_grad=True)

    def function(x):
        return ((x * w).tanh().exp() * (x * w).sin()).exp().cos().sum()

    compiled = torch.compile(function)
    for i in range(8):  # the sixth and the seventh are ordinary calls
        compiled(torch.linspace(0, 1, 8) + i).backward()
    (recording,) = compiled.recordings.values()
    ran, result = threading.Event(), compiled(torch.linspace(0, 1, 8))
    (wanted,) = torch.autograd.grad(function(torch.linspace(0, 1, 8)), w)

    def differentiate():
        found.append(torch.autograd.grad(result, w)[0])
        ran.set()

    found = []
    thread = threading.Thread(target=differentiate)
    with recording.has_the_memory():  # as a comparison does
        thread.start()
        assert not ran.wait(0.2)
        recording.outside.leave()
        for owner in recording.outside.residues:
            owner[...] = 0
    thread.join()
    assert torch.equal(found[0], wanted)
