"""Compiled steps: where values lie, and the kernels that write straight into their places."""

from __future__ import annotations

import copy
import gc
import re
import subprocess
import sys
import tracemalloc
from typing import Any

import numpy as np
import pytest

import tapegrad as torch
from tapegrad.compiler.capture import undo
from tapegrad.compiler.capture.undo import Print, Snapshots, pieces_of
from tapegrad.compiler.plan.early_release import Limit
from tapegrad.compiler.plan.memory_plan import LINE, handed_down, packed, placed
from tapegrad.kernels.cpu import KERNELS
from tapegrad.optim._native import Again

needs_kernels = pytest.mark.skipif(KERNELS is None, reason="the kernels in C are not built")
WIDTH = 40
COUNT = 24


def bits(t: Any) -> bytes:
    return t.detach().numpy().tobytes()


def recording(step: Any) -> Any:
    return next(iter(step.recordings.values()))


def both_ways(work: Any, arguments: Any, calls: int = 8) -> Any:
    """A function called as it is and compiled, with new arguments each time: the same bits."""
    step = torch.compile(work, fullgraph=True)
    kept = []
    for i in range(calls):
        torch.manual_seed(i)
        given = arguments()
        torch.manual_seed(1000 + i)
        wanted = work(*given)
        torch.manual_seed(1000 + i)
        found = step(*given)
        kept.append((found, wanted))
    for found, wanted in kept:  # all of them at the end: none was overwritten
        for a, b in zip(found, wanted, strict=True):
            assert a.shape == b.shape and a.dtype == b.dtype and a.stride() == b.stride()
            assert bits(a) == bits(b)
    assert recording(step).replays >= calls - 3
    return step


def places() -> Any:
    return torch.randint(0, WIDTH, (COUNT, WIDTH)), torch.randint(-WIDTH, WIDTH, (COUNT,))


PICKS = {
    "gather": lambda x, at, one: x.gather(0, at),
    "gather of a turned index": lambda x, at, one: x.gather(1, at.t()),
    "take along": lambda x, at, one: torch.take_along_dim(x, at, 0),
    "index": lambda x, at, one: x[one, at[:, 3]],
    "index of rows": lambda x, at, one: x[:, one],
    "index_select": lambda x, at, one: x.index_select(1, at[:, 0]),
    "embedding": lambda x, at, one: torch.nn.functional.embedding(at.t(), x),
    "scatter_add": lambda x, at, one: torch.zeros_like(x).scatter_add(0, at, x[:COUNT]),
    "scatter": lambda x, at, one: (x * 2).scatter(0, torch.sort(at, 0)[1], x[:COUNT]),
    "index_add": lambda x, at, one: x.index_add(0, at[:, 1], x[:COUNT] * 3),
    "index_put": lambda x, at, one: x.index_put((one,), x[:COUNT], accumulate=True),
    "slice": lambda x, at, one: x[2:-3, ::2],
    "select": lambda x, at, one: x[:, 7],
    "sort": lambda x, at, one: x.sort(0)[0],
    "sort of a turned": lambda x, at, one: x.t().sort(1, descending=True)[0],
    "topk": lambda x, at, one: x.topk(5, dim=0)[0],
    "cumsum": lambda x, at, one: x.t().cumsum(0),
    "roll": lambda x, at, one: x.roll(3, 1).flip(0),
}


@needs_kernels
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", PICKS)
def test_indexing_is_the_same_compiled(kind: str, dtype: Any) -> None:
    pick = PICKS[kind]

    def work(x: Any, at: Any, one: Any) -> Any:
        leaf = (x * 1).requires_grad_()
        y = pick(leaf, at, one)
        (y * y).sum().backward()
        return y.detach() + 0, leaf.grad + 0

    step = both_ways(work, lambda: (torch.randn(WIDTH, WIDTH, dtype=dtype), *places()), 6)
    lines = torch.compile.explain(step)
    inside = [line for line in lines.splitlines() if line.endswith("an op in Python")]
    assert kind == "roll" or not inside


@needs_kernels
def test_a_place_out_of_range_raises_as_ever() -> None:
    x = torch.randn(WIDTH, WIDTH)
    step = torch.compile(lambda at: x[at] * 2)
    good = torch.arange(COUNT)
    for _ in range(5):
        step(good)
    with pytest.raises(IndexError, match="out of bounds"):
        step(good + WIDTH)
    assert bits(step(good + 1)) == bits(x[good + 1] * 2)


def test_large_results_are_not_overwritten() -> None:
    def work(x: Any) -> Any:
        y = x.cumsum(0)
        return y, (y * 2).t(), y.sort(1)[1], torch.zeros(200, 300), x.view(-1)[3:] * 1

    both_ways(work, lambda: (torch.randn(200, 300),), 12)


def test_a_large_result_may_be_written_into() -> None:
    step = torch.compile(lambda x: x * 2)
    x = torch.ones(300, 300)
    for _ in range(8):
        y = step(x)
        assert (y.numpy() == 2).all()
        y.zero_()


def test_results_of_ops_in_python_come_to_lie_in_their_places() -> None:
    def work(x: Any) -> Any:
        y = torch.special.erfcx(x.double())  # NumPy's
        z = torch.special.erfcx(y + 1)
        return z * y, torch.special.erfcx(z)

    both_ways(work, lambda: (torch.rand(100, 100),))


def test_random_numbers_are_drawn_anew() -> None:
    table = torch.empty(3000)

    def work(x: Any) -> Any:
        table.normal_()
        y = torch.nn.functional.dropout(x, 0.3) + torch.rand(3000) + torch.bernoulli(x.abs() / 9)
        return y * table, torch.empty(3000).uniform_(-1, 1)

    both_ways(work, lambda: (torch.rand(3000),))


@pytest.mark.parametrize("kind", ["at first", "after a look", "in part"])
def test_a_tensor_that_is_overwritten(kind: str) -> None:
    """What it held before is kept for the comparison only where something depends on it."""
    table = torch.zeros(1000, dtype=torch.float64)

    def work() -> Any:
        before = (table * 2).sum() if kind == "after a look" else 1
        (table[:500] if kind == "in part" else table).normal_()
        return before + (table * 2).exp().tanh().sum()

    def values(function: Any) -> list[float]:
        torch.manual_seed(0)
        table.zero_()
        return [*[function().item() for _ in range(7)], table.sum().item(), torch.rand(1).item()]

    compiled = torch.compile(work, fullgraph=True)
    np.testing.assert_allclose(values(compiled), values(work), rtol=1e-12)
    assert recording(compiled).replays == 4


def test_a_tensor_that_is_overwritten_is_returned_itself() -> None:
    large = torch.empty(1 << 22 | 1)
    step = torch.compile(lambda: large.normal_())
    for _ in range(5):
        assert step() is large


@needs_kernels
def test_dead_values_make_room() -> None:
    layers = [torch.randn(64, 64) / 8 for _ in range(20)]

    def work(x: Any) -> Any:
        for w in layers:
            x = torch.softmax(x @ w, 1)
        return (x,)

    step = both_ways(work, lambda: (torch.randn(256, 64),))
    plan = recording(step).plan
    one = 256 * 64 * 4
    assert plan.before >= 35 * one
    assert plan.block.nbytes <= 2 * one + LINE  # what a product reads and what it writes
    assert re.search(r"values of [\d.]+ MB share 0\.\d+ MB", torch.compile.explain(step))


@needs_kernels
@pytest.mark.parametrize("find", [packed, handed_down, placed])
def test_what_lives_at_the_same_time_is_apart(find: Any) -> None:
    random = np.random.default_rng(0)
    for _ in range(50):
        count = int(random.integers(1, 60))
        sizes = random.integers(1, random.choice([100, 5000]), count).tolist()
        spans = np.sort(random.integers(0, 40, (count, 2)), 1)
        places, total = find(sizes, spans)
        for i in range(count):
            assert places[i] % LINE == 0 and places[i] + sizes[i] <= total
            for k in range(i):
                alive = spans[i, 0] <= spans[k, 1] and spans[k, 0] <= spans[i, 1]
                apart = places[i] + sizes[i] <= places[k] or places[k] + sizes[k] <= places[i]
                assert apart or not alive
        busiest = max(
            sum([s for s, (b, e) in zip(sizes, spans, strict=True) if b <= t <= e])
            for t in range(40)
        )
        assert total >= busiest


@needs_kernels
def test_a_training_step_takes_less_than_all_its_values() -> None:
    model = torch.nn.Sequential(
        *[layer for _ in range(6) for layer in (torch.nn.Linear(64, 64), torch.nn.ReLU())]
    )
    optimizer = torch.optim.Adam(model.parameters())

    @torch.compile
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    x = torch.randn(512, 64)
    losses = [step(x).item() for _ in range(8)]
    assert losses == sorted(losses, reverse=True)
    plan = recording(step).plan
    # One activation of each layer is kept for its gradient; gradients in between share places.
    assert plan.block.nbytes <= 16 * 512 * 64 * 4
    assert plan.block.nbytes < 0.8 * plan.before


@needs_kernels
def test_small_values_share_places() -> None:
    x = torch.ones(3, requires_grad=True)

    def work() -> Any:
        x.grad = None
        y = x
        for _ in range(400):
            y = (y.sin() * y).tanh()
        y.sum().backward()
        return x.grad + 0

    step = both_ways(lambda: (work(),), tuple, 6)
    plan = recording(step).plan
    assert plan.before >= 800 * 12  # what the gradients need, and more
    assert plan.block.nbytes <= plan.before * LINE / 12
    assert len(recording(step).filled) < 20 and len(recording(step).memory) < 20


def memory_of_a_chain(count: int) -> tuple[int, int]:
    """What Python has after a chain of ops was recorded; and what it had beyond that of a call."""
    x = torch.ones(1, requires_grad=True)

    def work() -> None:
        x.grad = None
        y = x
        for _ in range(count):
            y = y + 1
        y.backward()

    step = torch.compile(work, fullgraph=True)
    step()
    tracemalloc.start()
    try:
        work()
        of_a_call = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        step()
        most = tracemalloc.get_traced_memory()[1]
        gc.collect()  # Python's lists of freed tuples too, which count as memory in use
        found = tracemalloc.take_snapshot().traces
    finally:
        tracemalloc.stop()
    assert recording(step).run_steps
    # Python's table of strings, a megabyte, may have moved.
    return sum([each.size for each in found if each.size < 500_000]), most - of_a_call


@needs_kernels
@pytest.mark.slow
def test_a_recording_keeps_little_of_each_op() -> None:
    memory_of_a_chain(100)  # what is only made once
    (small, least), (large, most) = memory_of_a_chain(500), memory_of_a_chain(2500)
    assert (large - small) / 2000 < 180  # bytes
    assert (most - least) / 2000 < 1900


@needs_kernels
def test_backward_passes_of_modules_share_places() -> None:
    model = torch.nn.Sequential(
        *[layer for _ in range(6) for layer in (torch.nn.Linear(64, 64), torch.nn.Tanh())]
    )
    compiled = torch.compile(copy.deepcopy(model), fullgraph=True)
    x = torch.randn(512, 64)
    for i in range(6):
        for each in (model, compiled):
            each.zero_grad()
            loss = each(x + i).square().mean()
            loss.backward(retain_graph=i > 3)
            if i > 3:
                loss.backward()
    for a, b in zip(model.parameters(), compiled.parameters(), strict=True):
        np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-5, atol=1e-7)
    found = next(iter(compiled.forward.recordings.values()))
    (only,) = found.outside.passes.values()
    one = 512 * 64 * 4
    assert only.plan.before >= 10 * one
    assert only.plan.total <= 3.5 * one and only.plan.block.nbytes == only.plan.total + LINE
    assert only.steps == [] and found.results[0]._node is None


@needs_kernels
def test_values_move_to_other_memory() -> None:
    x = np.random.default_rng(0).random(1 << 20).astype(np.float32)
    before, to = x.copy(), np.empty_like(x)
    KERNELS.move_into(to, x)
    np.testing.assert_array_equal(to, before)
    for wrong in (to[::2], to.astype(np.float64), to[:-1], to.reshape(1024, 1024).T):
        with pytest.raises(TypeError, match="the same strides"):
            KERNELS.move_into(wrong, x)
        with pytest.raises(TypeError, match="the same strides"):
            KERNELS.move_into(x, wrong)
    with pytest.raises(TypeError):
        KERNELS.move_into(to, None)
    for wrong in ("1", None, 1 << 70):
        with pytest.raises((TypeError, OverflowError)):
            KERNELS.spare_memory(wrong)


def test_prints_tell_values_however_they_lie() -> None:
    for shape in ((1000, 1000), (3, 700, 500), (2, 300, 10, 200), (1 << 20,), (0, 3), ()):
        x = np.random.default_rng(0).random(shape).astype(np.float32)
        turned = x.T.copy().T
        assert Print(x).mark == Print(turned).mark
        assert sum([piece.size for piece in pieces_of(turned)]) == x.size
        if x.size:
            turned[(-1,) * x.ndim] += 1
            assert Print(x).mark != Print(turned).mark


def test_what_is_looked_at_may_go() -> None:
    before = Snapshots()
    arrays = [np.ones(5) for _ in range(3)]
    for x in arrays:
        before.look_at(x)
    arrays[1][2] = 3
    assert before.changed_unseen() == "a tensor of shape (5,)"
    assert before.changed_unseen({id(arrays[1])}) == ""
    del x, arrays[1]
    assert len(before.prints) == 2 and before.changed_unseen() == ""


@needs_kernels
def test_memory_of_others_is_lent_once() -> None:
    """The request that became a result is answered with the place; others get their own."""
    lender = KERNELS.Lender()
    x = np.random.rand(64, 64)
    place = np.zeros((64, 64))

    def work() -> Any:
        between = x * 2
        return between, between + 1

    first = lender(work)
    assert lender.lend(first[1], place)
    assert not lender.lend(x, place)
    between, made = lender(work)
    assert KERNELS.is_at(made, place) and not KERNELS.is_at(between, place)
    again = lender(work)  # `made` is alive still: nothing is lent twice
    assert not KERNELS.is_at(again[1], place)
    assert (again[1] == x * 2 + 1).all() and (made == again[1]).all()
    del made, again, between, first, lender
    assert (place == x * 2 + 1).all()


@pytest.mark.parametrize("kind", ["SGD", "Adam", "NAdam"])
def test_an_optimizer_whose_state_is_replaced(kind: str) -> None:
    """Loaded states, cleared ones, other options and groups count from the next call on."""

    def losses(compiled: bool) -> list[float]:
        torch.manual_seed(0)
        model = torch.nn.Linear(5, 5)
        late = torch.nn.Parameter(torch.ones(5))
        options = {"momentum": 0.9} if kind == "SGD" else {}
        optimizer = getattr(torch.optim, kind)(model.parameters(), lr=0.1, **options)
        group = optimizer.param_groups[0]

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss = (model(x) * late).square().sum()
            loss.backward()
            optimizer.step()
            return loss

        step = torch.compile(step) if compiled else step
        x = torch.randn(3, 5)
        found = []
        for i in range(30):
            if i == 6:
                saved = copy.deepcopy(optimizer.state_dict())
            elif i == 9:
                optimizer.load_state_dict(saved)
                group = optimizer.param_groups[0]
            elif i == 12:
                optimizer.state.clear()
            elif i == 15:
                group["weight_decay"] = 0.1
            elif i == 18:
                group["maximize"] = True
            elif i == 20:
                group["maximize"] = False
            elif i == 23:
                optimizer.add_param_group({"params": [late], "lr": 0.01})
            group["lr"] = 0.1 / (i + 1)
            found.append(step(x).item())
        return found

    assert losses(True) == losses(False)


SUMS = [
    ((300, 1001), None),
    ((1_000_003,), None),
    ((700, 300), 1),
    ((9, 70_000), 1),
    ((9, 9000), 0),
]


@needs_kernels
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape, dim", SUMS, ids=str)
@pytest.mark.parametrize("kept", [False, True])
def test_sums_in_the_pass_that_makes_what_they_add_up(
    dtype: Any, shape: tuple[int, ...], dim: Any, kept: bool
) -> None:
    def function(x: Any) -> Any:
        y = (x * 2 + 1).tanh()
        found = y.mean() if dim is None else y.sum(dim)
        return (found, y) if kept else (found,)

    compiled = torch.compile(function, fullgraph=True)
    for _ in range(5):
        x = torch.randn(shape, dtype=dtype)
        for a, b in zip(compiled(x), function(x), strict=True):
            assert bits(a) == bits(b)
    (segment,) = [run.__self__ for run in recording(compiled).run_steps]
    assert len(segment.names) == (2 if dim == 0 else 1)  # those of columns are apart
    block = recording(compiled).plan.block
    if not kept and dim != 0:
        assert block is None or block.nbytes < 4096  # what is added up is not in memory


@needs_kernels
def test_sums_of_what_is_written_in_between() -> None:
    def function(x: Any) -> Any:
        y = x * 2
        y.add_(1)
        return y.sum()

    compiled = torch.compile(function, fullgraph=True)
    for _ in range(5):
        x = torch.randn(400_000)
        assert compiled(x).item() == function(x).item()


PEAK = """
import resource
import tapegrad as torch
from tapegrad import nn

torch.set_num_threads(1)
SIZE = 4_000_000

def elementwise():
    x = torch.randn(SIZE, requires_grad=True)

    def work():
        x.grad = None
        y = x
        for _ in range(10):
            y = y + 1
            y = y * 0.5
        (y * x).sum().backward()

    return work

def gradient():
    x = torch.randn(1000, SIZE // 1000, requires_grad=True)
    seed = torch.randn(1000, SIZE // 1000)

    def work():
        x.grad = None
        torch.softmax(x, 1).backward(seed)

    return work

def layers():
    model = nn.Sequential(*[each for _ in range(4) for each in (nn.Linear(64, 64), nn.GELU())])
    optimizer = torch.optim.Adam(model.parameters())
    x = torch.randn(SIZE // 400, 64)

    def work():
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return work

def product():
    a, b = (torch.randn(2000, 2000, requires_grad=True) for _ in range(2))

    def work():
        a.grad = b.grad = None
        (a @ b).sum().backward()

    return work

def picked():
    x = torch.randn(2000, 2000, requires_grad=True)
    at = torch.randint(0, 2000, (2000,))

    def work():
        x.grad = None
        x[at, at].sum().backward()

    return work

def windows():  # in Python, partly
    x = torch.randn(1, 400, 2, 2, requires_grad=True)
    weight = torch.randn(1111, 400, 3, 3, requires_grad=True)

    def work():
        x.grad = weight.grad = None
        nn.functional.conv2d(x, weight, padding=1).sum().backward()

    return work

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

work = {kind}()
for _ in range(2):
    work()
before = peak()
step = torch.compile(work, fullgraph=True)
for _ in range(5):
    step()
assert next(iter(step.recordings.values())).replays == 2
print((peak() - before) / (4 * SIZE))
"""


def run_as_file(folder: Any, program: str) -> Any:
    """Run a program from a file: functions of `python -c` have no source, and are not recorded."""
    path = folder / "program.py"
    path.write_text(program)
    return subprocess.run([sys.executable, str(path)], capture_output=True, text=True)


KINDS_AND_MOST = [
    *[("elementwise", 1.5), ("gradient", 1.5), ("layers", 0.5)],
    *[("product", 2.6), ("picked", 1.5), ("windows", 1.7)],
]


@needs_kernels
@pytest.mark.skipif(sys.platform != "linux", reason="memory is counted otherwise")
@pytest.mark.parametrize(("kind", "most"), KINDS_AND_MOST)
def test_recording_takes_no_more_memory_than_running(kind: str, most: int, tmp_path: Any) -> None:
    """Calls that are recorded, compared and replayed, in arrays of 16 MB; the code and the trees of
    files that are instrumented take half of one, the first argument is kept while hooks look at it,
    and all values of a call together are some ten or twenty."""
    done = run_as_file(tmp_path, PEAK.replace("{kind}", kind))
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) <= most


UNASKED = """
import sys
import tapegrad as torch
from tapegrad.compiler.capture.undo import has_moved, numpy_stream

x = torch.ones(40, requires_grad=True)

def work():
    x.grad = None
    (x * 2 + 1).exp().tanh().sum().backward()

step = torch.compile(work, fullgraph=True)
for _ in range(5):
    step()
assert next(iter(step.recordings.values())).replays == 2
assert "numpy.random" not in sys.modules and numpy_stream() is None
import numpy.random
assert not has_moved(None, numpy_stream())
numpy.random.rand(3)
assert has_moved(None, numpy_stream())
"""


def test_what_nobody_draws_from_is_not_imported(tmp_path: Any) -> None:
    done = run_as_file(tmp_path, UNASKED)
    assert done.returncode == 0, done.stderr


@needs_kernels
def test_what_is_only_read_is_not_copied() -> None:
    """Of a table that a step looks at a fingerprint is kept; who writes to it unseen is found."""
    table = torch.randn(1000, 1000)  # Python's table of strings may grow by a megabyte
    at = torch.arange(10)

    def reads(x: Any) -> Any:
        return (table[at] * x).tanh().exp().sum(0) + 1

    def writes(x: Any) -> Any:
        view[3, 5] += 1
        return reads(x)

    view = table.numpy()
    step = torch.compile(reads, fullgraph=True)
    x = torch.randn(10, 1000)
    step(x)
    tracemalloc.start()
    step(x)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < table.nbytes
    with pytest.raises(RuntimeError, match="it reads a NumPy array"):
        step = torch.compile(writes, fullgraph=True)
        step(x), step(x)


@needs_kernels
def test_fingerprints_tell_values_and_their_places() -> None:
    rng = np.random.default_rng(0)
    for size in (0, 1, 7, 8, 63, 64, 65, 1000):
        x = rng.integers(0, 256, size, np.uint8)
        found = {KERNELS.fingerprint(x)}
        for i in range(size):
            y = x.copy()
            y[i] ^= 1 << (i % 8)
            found.add(KERNELS.fingerprint(y))
            if i and x[i] != x[i - 1]:
                y = x.copy()
                y[[i, i - 1]] = y[[i - 1, i]]
                found.add(KERNELS.fingerprint(y))
        swaps = int(np.count_nonzero(x[1:] != x[:-1]))
        assert len(found) == 1 + size + swaps
    assert KERNELS.fingerprint(np.zeros(8)) != KERNELS.fingerprint(np.zeros(9))
    for wrong in (None, np.zeros((4, 4))[:, :2]):
        with pytest.raises(TypeError, match="one piece"):
            KERNELS.fingerprint(wrong)
        with pytest.raises(TypeError, match="owns its memory"):
            KERNELS.let_go(wrong)


def test_results_go_from_one_op_in_python_to_the_next() -> None:
    """Nothing is kept of them between two calls, and whoever else reads them finds them."""

    def work(x: Any, y: Any) -> Any:
        z = torch.complex(x, y)
        a = z * z.conj_physical()
        b = (a + z) * z
        c = b - a
        turned = c.t()
        return (c * b).real * 2, (turned * 2).imag + 1, b

    step = both_ways(work, lambda: (torch.randn(128, 128), torch.randn(128, 128)))
    found = recording(step)
    assert sum([memory.nbytes for memory in found.filled.values()]) <= 4 * 128 * 128 * 8
    assert "in Python" in str(torch.compile.explain(step))
    assert torch.compile.explain(step).graph().svg()


@needs_kernels
@pytest.mark.parametrize("threads", (1, 2))
def test_copies_of_arrays_however_they_lie(threads: int) -> None:
    """Turned ones go in tiles, those that go back and those that repeat by loops of their own."""
    rng = np.random.default_rng(0)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        for dtype in (np.float32, np.float64, np.int16, np.complex128, np.bool_):
            for shape in ((300, 700), (17, 16), (3, 40, 33), (2, 5, 18, 20), (1000,), (), (0, 4)):
                x = (rng.random(shape) * 100).astype(dtype)
                for order in {tuple(range(x.ndim)), tuple(range(x.ndim))[::-1]}:
                    for step in (1, 2, -1):
                        y = x.transpose(order)[(..., *[slice(None, None, step)] * x.ndim)]
                        for z in (y, np.broadcast_to(y[None], (3, *y.shape))):
                            made = KERNELS.copied(z)
                            assert made.flags.c_contiguous and made.dtype == dtype
                            np.testing.assert_array_equal(made, z)
    finally:
        torch.set_num_threads(before)


def trained(
    kind: str, calls: int, is_compiled: bool, fullgraph: bool = True
) -> tuple[list[bytes], Any]:
    """Parameters and losses of a model after some calls of a step, and the step."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(30, 40), torch.nn.Tanh(), torch.nn.Linear(40, 3))
    options = {"momentum": 0.9} if kind == "SGD" else {"weight_decay": 0.1}
    optimizer = getattr(torch.optim, kind)(model.parameters(), lr=0.01, **options)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).square().sum()
        loss.backward()
        optimizer.step()
        return loss

    call = torch.compile(step, fullgraph=fullgraph) if is_compiled else step
    seen = [bits(call(torch.randn(20, 30))) for _ in range(calls)]
    seen += [bits(p) for p in model.parameters()]
    seen += [bits(t) for own in optimizer.state.values() for t in own.values() if t is not None]
    return seen, call


@needs_kernels
@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad"])
def test_an_optimizer_is_rehearsed_in_pieces(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large recorded call is not undone, and what an optimizer would write is compared without
    a copy of all of it."""
    monkeypatch.setattr(Limit, "most", 1)
    monkeypatch.setattr(undo, "LARGE_PIECE", 1 << 9)
    rehearsed: list[Any] = []
    rehearse = Snapshots.rehearse

    def noted(self: Snapshots, update: Any) -> None:
        rehearsed.append(update)
        assert all([own[1] is None for own in self.arrays.values() if own[0].ndim])
        rehearse(self, update)

    monkeypatch.setattr(Snapshots, "rehearse", noted)
    wanted, _ = trained(kind, 20, False)
    found, step = trained(kind, 20, True)
    assert found == wanted
    assert len(rehearsed) == 4  # the third and the fourth call, and two later ones
    assert recording(step).replays == 16  # of which two were compared


@needs_kernels
def test_a_wrong_update_is_found_in_a_rehearsal(monkeypatch: pytest.MonkeyPatch) -> None:
    """One bit in one piece of what an optimizer would write is enough."""
    monkeypatch.setattr(Limit, "most", 1)
    monkeypatch.setattr(undo, "LARGE_PIECE", 1 << 9)
    make_copies, calls = Again.make_copies, []

    def wrong(self: Again, batch: Any, given: Any, seen: Any) -> None:
        def other(array: Any, piece: Any) -> None:
            if not calls:
                piece.reshape(-1)[-1:] = np.nextafter(piece.reshape(-1)[-1:], np.inf)
            calls.append(array)
            seen(array, piece)

        make_copies(self, batch, given, other)

    monkeypatch.setattr(Again, "make_copies", wrong)
    wanted, _ = trained("Adam", 8, False)
    with pytest.raises(RuntimeError, match="a replay gave something else than the call itself"):
        trained("Adam", 8, True)
    calls.clear()
    with pytest.warns(UserWarning, match="a replay gave something else than the call itself"):
        found, _ = trained("Adam", 8, True, fullgraph=False)
    assert found == wanted  # what the calls did stands


@needs_kernels
def test_clipping_copies_no_parameters() -> None:
    """Clipping writes gradients alone: a replay, which may stop there, has nothing to put back."""
    model = torch.nn.Linear(40, 40)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    @torch.compile
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).square().sum()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)
        optimizer.step()
        return loss, norm

    for _ in range(6):
        step(torch.randn(5, 40))
    assert recording(step).replays >= 2
    assert recording(step).rollback.copies.arrays == []
    before = [bits(p) for p in model.parameters()]
    with pytest.raises(RuntimeError, match="non-finite"):
        step(torch.full((5, 40), float("inf")))
    assert [bits(p) for p in model.parameters()] == before


PEAKS = """
import pathlib, sys
import tapegrad as torch
import tapegrad.compiler.run.function
torch.set_num_threads(1)
model = torch.nn.Embedding(60_000, 128)
optimizer = torch.optim.Adam(model.parameters())
x = torch.randint(0, 60_000, (64,))
def step():
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
if sys.argv[1] == "compiled":
    step = torch.compile(step)
for _ in range(6):
    step()
status = pathlib.Path("/proc/self/status").read_text().splitlines()
print(next(int(line.split()[1]) for line in status if line.startswith("VmHWM")))
"""


@needs_kernels
@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak is Linux's figure")
def test_a_large_recorded_step_needs_little_more(tmp_path: Any) -> None:
    """Ordinary calls have parameters, two moments and gradients; comparisons two sets of these."""
    path = tmp_path / "peaks.py"  # a file: functions without source are not recorded
    path.write_text(PEAKS)

    def peak(kind: str) -> int:
        command = [sys.executable, str(path), kind]
        return int(subprocess.run(command, capture_output=True, check=True).stdout)

    one = 60_000 * 128 * 4 / 1024
    assert peak("compiled") - peak("as it is") < 1.3 * one
