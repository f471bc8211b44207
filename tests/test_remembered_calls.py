"""Remembered calls of public functions (c/runtime/call_steps.c) against their Python parts.

What a function ran for a signature is run again without its Python part. Here the tensors of later
calls hold other values, among them ones that checks refuse: results, gradients, layouts and errors
are those of the Python part.
"""

import concurrent.futures
import contextlib
import inspect
import itertools
import warnings

import numpy as np
import pytest

import table
import tapegrad
from tapegrad.core.late_bound import HOST_KERNELS
from tapegrad.core.op import REGISTRY
from test_public_calls import has_values, outcome, runs_general

pytestmark = pytest.mark.skipif(HOST_KERNELS.public_function is None, reason="no kernels in C")
FILLS = {
    "f": (float("nan"), 0.0, -1.0, 1e30, float("inf")),
    "c": (complex("nan"), 0.0, -1.0),
    "i": (-1, 0, 1, 7, 100),
    "u": (0, 1, 7, 100),
    "b": (True, False),
}


PACKED = ("gru", "lstm")  # lengths that are none leave their results unset


def refill(name, tensors, turn):
    """The same tensors with one other value everywhere; the last turn leaves them alone."""
    for t in tensors:
        kind = t._array.dtype.kind
        fills = FILLS.get(kind, (0,))
        if turn < 5 and t._array.flags.writeable and not (kind == "i" and name in PACKED):
            t._array[...] = fills[turn % len(fills)]


@pytest.mark.parametrize("name", [n for n in table.SAMPLED if has_values(n)])
@pytest.mark.parametrize("form", ["function", "method", "in place"])
def test_remembered_calls_do_what_the_python_part_does(name, form):
    api = table.APIS[name]
    if form == "function":
        function = table.find(tapegrad, api)
    else:
        function = getattr(tapegrad.Tensor, name + "_" * (form == "in place"), None)
    if not isinstance(function, HOST_KERNELS.public_function):
        return
    for index in range(len(api.samples)):
        for make in (table.plain, table.leaf):
            for _ in range(2):  # seen, then recorded
                args, kwargs, _ = table.draw(name, index, make)
                outcome(function, args, kwargs)
            for turn in range(6):
                both = []
                for each in (function, function.general):
                    args, kwargs, tensors = table.draw(name, index, make)
                    refill(name, tensors, turn)
                    both.append(str(outcome(each, args, kwargs)))
                assert both[0] == both[1], (index, turn)


def graph(t):
    """Names of the nodes behind a tensor, and what they keep."""
    found, todo = [], [t.grad_fn]
    while todo:
        node = todo.pop()
        if node is not None:
            kept = [(n, str(getattr(node, n, None))) for n in dir(node) if n.startswith("_saved_")]
            found.append((node.name(), kept))
            todo.extend(edge for edge, _ in node.next_functions)
    return found


def test_graphs_are_those_of_the_python_part():
    x = tapegrad.randn(2, 3, 4, requires_grad=True)
    calls = (
        lambda f: f(tapegrad.nn.functional.max_pool1d)(x, 2),
        lambda f: f(tapegrad.hstack)([x, x]),
        lambda f: f(tapegrad.fft.fftn)(x).abs(),
        lambda f: f(tapegrad.movedim)(x, 0, -1),
        lambda f: f(tapegrad.Tensor.unsqueeze)(x, 0),
    )
    for call in calls:
        for _ in range(3):
            found = call(lambda f: f)
        assert graph(found) == graph(call(lambda f: f.general))


VIEWS = [op for op in REGISTRY.values() if hasattr(op.kernel, "__wrapped__") and op.view]


def look(arrays):
    arrays = arrays if isinstance(arrays, (tuple, list)) else (arrays,)
    return [
        (a.shape, a.strides, a.dtype, a.flags.writeable, a.tobytes(), a.__array_interface__["data"])
        for a in arrays
    ]


@pytest.mark.parametrize("name", [n for n in table.PURE if ".shape." in table.APIS[n].home])
def test_views_lie_where_the_formula_says(name):
    for index in range(len(table.APIS[name].samples)):
        args, kwargs, _ = table.draw(name, index, table.plain)
        with table.watched() as runs, contextlib.suppress(RuntimeError, TypeError, ValueError):
            table.call(name, args, kwargs)
        for ran in runs:
            if ran.op in VIEWS and type(ran.inputs[0]) is np.ndarray:
                x, formula = ran.inputs[0], ran.op.kernel.__wrapped__
                for each in (x, x, x.view(), x.copy("K"), x[:0] if x.ndim else x):
                    try:
                        wanted = look(formula(each, *ran.attrs))
                    except (ValueError, IndexError, RuntimeError, TypeError, AttributeError):
                        continue
                    for _ in range(2):
                        assert look(ran.op.kernel(each, *ran.attrs)) == wanted
                locked = x.view()
                locked.flags.writeable = False
                made = ran.op.kernel(locked, *ran.attrs)
                for each in made if isinstance(made, tuple) else (made,):
                    assert not (each.size and each.flags.writeable)


def remembers(call, function):
    for _ in range(16):  # other signatures may have its place, for some calls
        call()
    return not runs_general(function, call) and call_runs_nothing(call)


def call_runs_nothing(call):
    """Whether no Python function with a parameter `input` runs: the Python part of one."""
    import sys

    found = []

    def watch(frame, event, _):
        code = frame.f_code
        if event == "call" and code.co_name == "call" and "ops" in code.co_filename:
            found.append(code)

    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(None)
    return not found


def test_what_is_remembered(fresh_process):
    x = tapegrad.randn(3, 4)
    assert remembers(lambda: tapegrad.unsqueeze(x, 1), tapegrad.unsqueeze)
    assert remembers(lambda: x.unsqueeze(dim=0), tapegrad.Tensor.unsqueeze)
    rows = tapegrad.tensor([2, 0])
    for index in ((slice(None), None), rows, (slice(1, None), rows), x > 0):
        assert remembers(lambda index=index: x[index], tapegrad.Tensor.__getitem__)
    with tapegrad.no_grad():
        assert remembers(lambda: tapegrad.unsqueeze(x, 1), tapegrad.unsqueeze)
    with tapegrad.inference_mode():  # a mode is on: the Python part runs
        assert not call_runs_nothing(lambda: tapegrad.unsqueeze(x, 1))


def test_no_grad_is_part_of_a_signature():
    x = tapegrad.randn(3, 4, requires_grad=True)
    for _ in range(4):
        assert tapegrad.flip(x, (0,)).requires_grad
        with tapegrad.no_grad():
            made = tapegrad.flip(x, (0,))
            assert not made.requires_grad and made.grad_fn is None
            with tapegrad.enable_grad():
                assert tapegrad.flip(x, (0,)).requires_grad


def test_the_default_dtype_is_part_of_a_signature():
    x = tapegrad.tensor([1, 2])
    for _ in range(4):
        assert tapegrad.nn.functional.softmax(x.float(), 0).dtype is tapegrad.float32
        assert tapegrad.true_divide(x, 2).dtype is tapegrad.float32
        assert tapegrad.special.zeta(x, 2).dtype is tapegrad.float32
    tapegrad.set_default_dtype(tapegrad.float64)
    try:
        assert tapegrad.true_divide(x, 2).dtype is tapegrad.float64
        assert tapegrad.special.zeta(x, 2).dtype is tapegrad.float64
    finally:
        tapegrad.set_default_dtype(tapegrad.float32)


def test_draws_and_statistics_are_not_remembered():
    x = tapegrad.ones(4, 3)
    tapegrad.manual_seed(0)
    drawn = [tapegrad.nn.functional.dropout(x, 0.5).tolist() for _ in range(6)]
    assert len({str(d) for d in drawn}) > 3
    mean, var = tapegrad.zeros(3), tapegrad.ones(3)
    for _ in range(6):
        tapegrad.nn.functional.batch_norm(x, mean, var, training=True, momentum=0.5)
    np.testing.assert_allclose(mean.numpy(), np.full(3, 1 - 0.5**6), rtol=1e-6)


def test_numbers_in_tensors_are_read_each_time():
    x = tapegrad.randn(5)
    for bound in (0.5, 0.25, 0.125, 0.0625, 0.03125):
        found = tapegrad.clamp(x, max=tapegrad.tensor(bound))
        np.testing.assert_array_equal(found.numpy(), np.minimum(x.numpy(), np.float32(bound)))


def test_warnings_are_given_each_time():
    x = tapegrad.randn(1, 1, 2, 2)
    for _ in range(5):
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            tapegrad.nn.functional.upsample(x, scale_factor=2)
        assert len(given) == 1


def test_tensors_given_twice_are_another_signature():
    x, y = tapegrad.randn(2, 2), tapegrad.randn(2, 2)
    for a, b in ((x, x), (x, y), (x, x), (y, x), (x, y), (y, y)) * 3:
        np.testing.assert_array_equal(
            tapegrad.hstack([a, b]).numpy(), np.hstack([a.numpy(), b.numpy()])
        )


def test_many_signatures():
    for size in [*range(1, 300), *range(1, 300)]:
        x = tapegrad.zeros(size, 2)
        for _ in range(1 + size % 3):
            assert tapegrad.flip(x, (0,)).shape == (size, 2)


def test_transforms_and_subclasses_see_every_call():
    x = tapegrad.randn(3, 4)
    for _ in range(3):
        tapegrad.flip(x, (0,))
    mapped = tapegrad.func.vmap(lambda row: tapegrad.flip(row, (0,)))(x)
    np.testing.assert_array_equal(mapped.numpy(), x.numpy()[:, ::-1])
    _, tangent = tapegrad.func.jvp(lambda v: tapegrad.flip(v, (0,)), (x,), (x,))
    np.testing.assert_array_equal(tangent.numpy(), x.numpy()[::-1])

    class Own(tapegrad.Tensor):
        pass

    assert type(tapegrad.flip(x.as_subclass(Own), (0,))) is Own


def test_tensors_that_are_read_as_numbers():
    """A layout does not tell the value: calls with such a tensor are not remembered."""
    x = tapegrad.arange(12.0).view(6, 2)
    for n in (1, 3, 2, 1):
        number = tapegrad.tensor(n)
        assert x.narrow(0, number, 1).tolist() == x[n : n + 1].tolist()
        assert x.select(0, number).tolist() == x[n].tolist()
        assert x.view(number, -1).shape == (n, 12 // n)
        assert tapegrad.add(x, x, alpha=number).tolist() == (x * (1 + n)).tolist()
        assert len(x.split(number)) == 6 // n
        assert tapegrad.isclose(x, x + n, 0.0, tapegrad.tensor(1.5)).all() == (n < 1.5)
        assert bool(tapegrad.isclose(x, x + 2.5, 0.0, tapegrad.tensor(float(n))).all()) == (n > 2.5)


def test_places_in_memory_are_no_part_of_a_layout():
    whole = tapegrad.arange(12.0)
    for start in (0, 1, 2, 0, 3, 1):
        x = whole[start : start + 4]
        assert x.as_strided((2,), (1,), 0).tolist() == [0.0, 1.0]
        assert tapegrad.as_strided(x, (2,), (1,)).tolist() == [start, start + 1]
        assert tapegrad.as_strided_copy(x, (2,), (2,), 1).tolist() == [1.0, 3.0]
        assert x.as_strided_scatter(x[:2], (2,), (1,), start)[:2].tolist() == [start, start + 1]
        for view in (
            lambda x=x: x.view(tapegrad.float64),
            lambda x=x: tapegrad.view_as_complex(x.view(2, 2)),
        ):
            if start % 2 == 0:
                assert view().shape[0] == 2
            else:
                with pytest.raises(RuntimeError, match="divisible by"):
                    view()


def test_what_is_changed_between_ops_is_no_step():
    """`_notes` of a node stands for anything that a Python part may set on a tensor or its node."""
    from tapegrad.api.fast_path import with_memory

    def marking(x):
        made = tapegrad.ops.block.apply(REGISTRY["neg"], (x,))
        made._node._notes = {"made": "here"}
        return made

    def asking(x):
        made = tapegrad.ops.block.apply(REGISTRY["neg"], (x,))
        return made if x._version % 2 else tapegrad.ops.block.apply(REGISTRY["exp"], (x,))

    x = tapegrad.zeros(3, requires_grad=True)
    marks, asks = with_memory(marking), with_memory(asking)
    for _ in range(5):
        assert marks(x).grad_fn.metadata == {"made": "here"}
        with tapegrad.no_grad():
            x.add_(0)
        assert asks(x).grad_fn.name() == ("NegBackward0" if x._version % 2 else "ExpBackward0")


def test_threads_share_what_is_remembered():
    """Half of them record no gradients; each sees the values of its own tensors."""

    def work(k):
        wrong = 0
        for turn in range(200):
            x = tapegrad.full((2, 3 + turn % 5), float(k), requires_grad=True)
            with tapegrad.set_grad_enabled(bool(k % 2)):
                made = tapegrad.hstack([x.unsqueeze(0), x.unsqueeze(0)]).flip(0)
            wrong += made.requires_grad != bool(k % 2) or not bool((made == k).all())
        return wrong

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(4))) == [0, 0, 0, 0]


def test_gradients_stay_sparse():
    layer = tapegrad.nn.Embedding(10, 3, sparse=True)
    x = tapegrad.ones(5, 2, requires_grad=True)
    for _ in range(4):
        layer.weight.grad = x.grad = None
        layer(tapegrad.tensor([7, 1, 3])).sum().backward()
        tapegrad.gather(x, 0, tapegrad.tensor([[0, 1]]), sparse_grad=True).sum().backward()
        assert layer.weight.grad.is_sparse and x.grad.is_sparse


# ---------------------------------------------------------------------- flags and modes


def told(function, args, kwargs, made):
    """What a call gives and what can be asked about it, gradients with their layouts included."""
    tapegrad.manual_seed(0)
    try:
        out = function(*args, **kwargs)
    except Exception as error:
        return type(error), str(error).split("\n")[0]
    outs = out if isinstance(out, (tuple, list)) else [out]
    outs = [t for t in outs if isinstance(t, tapegrad.Tensor)]
    ends = [t for t in outs if t.requires_grad]
    leaves = [t for t in made if isinstance(t, tapegrad.Tensor) and t.requires_grad]
    if ends and leaves:
        seeds = [tapegrad.ones_like(t) for t in ends]
        try:
            outs += tapegrad.autograd.grad(ends, leaves, seeds, True, True, allow_unused=True)
        except Exception as error:
            return type(error), str(error).split("\n")[0]
    return [None if t is None else looks(t) for t in outs]


def looks(t):
    values = t.to_dense() if t.layout == tapegrad.sparse_coo else t
    version = None if t.is_inference() else t._version
    kept = values.detach().resolve_conj().resolve_neg()
    kept = kept.float() if kept.dtype == tapegrad.bfloat16 else kept
    marks = (t.dtype, tuple(t.shape), t.layout, t.requires_grad, t.is_leaf, t._is_view(), version)
    return (*marks, type(t.grad_fn).__name__, kept.numpy().tobytes())


def remembering(name):
    api = table.APIS[name]
    for function in (table.find(tapegrad, api), getattr(tapegrad.Tensor, name, None)):
        if isinstance(function, HOST_KERNELS.public_function):
            yield function


TRIED = [n for n in table.SAMPLED if has_values(n) and n not in PACKED and "rnn_" not in n]
FLAGS = (True, False, None, "mean", "sum", "none", 0, -1, 2, 0.5)
NOT_FLAGS = {"out", "device", "generator", "dtype", "layout"}


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", TRIED)
def test_every_flag(name):
    """A flag that the samples do not set may do something beside the ops, as `sparse=True` does."""
    for function in remembering(name):
        kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        flags = list(inspect.signature(function).parameters.values())[1:]
        flags = [p.name for p in flags if p.kind in kinds and p.name not in NOT_FLAGS]
        for index, flag, value in itertools.product(range(2), flags, FLAGS):
            if index >= len(table.APIS[name].samples):
                continue
            for _ in range(5):
                both = []
                for each in (function, function.general):
                    args, kwargs, made = table.draw(name, index, table.leaf)
                    both.append(told(each, args, {**kwargs, flag: value}, made))
                assert both[0] == both[1], (index, flag, value)
                if isinstance(both[0], tuple):
                    break  # it raises


@contextlib.contextmanager
def algorithms(mode):
    tapegrad.use_deterministic_algorithms(mode)
    try:
        yield
    finally:
        tapegrad.use_deterministic_algorithms(False)


@contextlib.contextmanager
def default_dtype(dtype):
    tapegrad.set_default_dtype(dtype)
    try:
        yield
    finally:
        tapegrad.set_default_dtype(tapegrad.float32)


class Nothing(tapegrad.overrides.TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


def doubled(t):
    return t * 2 if t.is_floating_point() else t


MODES = {
    "none": contextlib.nullcontext,
    "no_grad": tapegrad.no_grad,
    "inference": tapegrad.inference_mode,
    "deterministic": lambda: algorithms(True),
    "portable": lambda: algorithms("portable"),
    "float64": lambda: default_dtype(tapegrad.float64),
    "anomaly": lambda: tapegrad.autograd.detect_anomaly(check_nan=False),
    "hooks": lambda: tapegrad.autograd.graph.saved_tensors_hooks(doubled, lambda t: t),
    "autocast": lambda: tapegrad.autocast("cpu", dtype=tapegrad.bfloat16),
    "function mode": Nothing,
}


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", TRIED)
def test_in_every_mode(name):
    """What was remembered in one mode is not used in another."""
    for function in remembering(name):
        for index in range(min(2, len(table.APIS[name].samples))):
            for mode, turn in itertools.product(MODES, range(4)):
                both = []
                for each in (function, function.general):
                    with MODES[mode]() if turn < 3 else contextlib.nullcontext():
                        both.append(told(each, *table.draw(name, index, table.leaf)))
                assert both[0] == both[1], (index, mode, turn)
