"""Recurrent layers in C, and their gradients, against the block and its rule on NumPy in double."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.core.host_arrays import host
from tapegrad.kernels import cpu
from test_native import both, close, in_double, run, same

if cpu.KERNELS is None:
    pytest.skip(f"no kernels in C: {cpu.REASON}", allow_module_level=True)

from tapegrad.core.late_bound import HOST_KERNELS
from tapegrad.core.op import REGISTRY
from tapegrad.core.rule_functions import RAW
from tapegrad.ops.nn import recurrent

FLOATS = (np.float32, np.float64)
SIZES = [(1,), (3, 3, 3), (5, 4, 4, 1), (40, 40, 33, 2), (70, 70)]
WIDTHS = (1, 3, 16, 33)


def draw(rng, *shape, dtype):
    return (0.5 * rng.standard_normal(shape)).astype(dtype)


def layer(sizes, width, dtype):
    """What the op gets: gates, states, cells, weight."""
    rng = np.random.default_rng(len(sizes) + width)
    given = draw(rng, sum(sizes), 4 * width, dtype=dtype), draw(rng, sizes[0], width, dtype=dtype)
    return *given, draw(rng, sizes[0], width, dtype=dtype), draw(rng, 4 * width, width, dtype=dtype)


def roundings(sizes, width):
    """Errors pass from step to step, through sums of `width` products of numbers below one."""
    return 20 * len(sizes) * (4 + width)


def by_rule(monkeypatch, grad, args, outs):
    """The gradients by the rule's own loop, in double."""
    wide = [x.astype(np.float64) for x in (*args[:4], *outs)]
    more = [None if g is None else g.astype(np.float64) for g in grad]
    with monkeypatch.context() as patch:
        patch.setattr(recurrent, "is_one_op", lambda *values: False)
        return pull(more, (*wide[:4], *args[4:]), wide[4:])


def pull(grad, args, outs):
    _, hx, cx, weight, proj, sizes, turned = args
    rule = recurrent.LstmLayer.joint.function
    needs = (True, True, True, True, False)
    return rule(RAW, grad, needs, hx, cx, weight, proj, *outs, sizes, turned)[:4]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("turned", (False, True))
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("sizes", SIZES)
def test_lstm(monkeypatch, sizes, width, turned, dtype):
    args = (*layer(sizes, width, dtype), None, sizes, turned)
    found, _ = both("lstm_layer", *args)
    bound = roundings(sizes, width)
    for a, wanted in zip(found, in_double("lstm_layer", *args), strict=True):
        assert a.dtype == dtype
        close(a, wanted, 1 + np.abs(wanted), bound)
    rng = np.random.default_rng(5)
    to_out = draw(rng, *found[0].shape, dtype=dtype)
    to_cells = draw(rng, *found[0].shape, dtype=dtype)
    equal = np.broadcast_to(dtype(0.5), to_out.shape)
    for grad in ([to_out, None, None], [None, to_cells, None], [equal, to_cells, None]):
        pulled = run(lambda given=grad: tuple(pull(given, args, found)))
        wanted = by_rule(monkeypatch, grad, args, found)
        for a, b in zip(pulled, wanted, strict=True):
            assert a.dtype == dtype
            close(a, b, 1 + np.abs(b).max(), bound)


def other_layer(kind, sizes, width, dtype, turned, bias=True):
    """The op of a GRU or of a plain layer, and all of its arguments."""
    rng = np.random.default_rng(len(sizes) + width)
    gates = 3 if kind == "gru" else 1
    given = draw(rng, sum(sizes), gates * width, dtype=dtype)
    hx = draw(rng, sizes[0], width, dtype=dtype)
    weight = draw(rng, gates * width, width, dtype=dtype)
    if kind == "gru":
        shift = draw(rng, 3 * width, dtype=dtype) if bias else None
        return "gru_layer", (given, hx, weight, shift, sizes, turned)
    return "rnn_layer", (given, hx, weight, kind == "relu", sizes, turned)


def pull_other(name, grad, args, outs):
    """The gradients by the rule of the op, which asks the kernel."""
    _, hx, weight, third, *place = args
    if name == "gru_layer":
        rule, needs = recurrent.GruLayer.joint.function, (True, True, True, third is not None)
        found = rule(RAW, [grad, None], needs, hx, weight, third, *outs, *place)
        return tuple(found if third is not None else found[:3])
    rule = recurrent.RnnLayer.joint.function
    return tuple(rule(RAW, grad, (True, True, True), hx, weight, *outs, third, *place))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("turned", (False, True))
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("kind", ("gru", "tanh", "relu"))
def test_other_layers(monkeypatch, kind, sizes, width, turned, dtype):
    name, args = other_layer(kind, sizes, width, dtype, turned, bias=width != 16)
    found, _ = both(name, *args)
    bound = roundings(sizes, width)
    wide = [x.astype(np.float64) if isinstance(x, np.ndarray) else x for x in args]
    for a, wanted in zip(found, in_double(name, *args), strict=True):
        assert a.dtype == dtype
        close(a, wanted, 1 + np.abs(wanted).max(), bound)
    to_out = draw(np.random.default_rng(5), *found[0].shape, dtype=dtype)
    for grad in (to_out, np.broadcast_to(dtype(0.5), to_out.shape)):
        pulled = run(lambda given=grad: pull_other(name, given, args, found))
        with monkeypatch.context() as patch:
            patch.setattr(recurrent, "is_one_op", lambda *values: False)
            outs = [x.astype(np.float64) for x in found]
            wanted = pull_other(name, grad.astype(np.float64), wide, outs)
        for a, b in zip(pulled, wanted, strict=True):
            assert a.dtype == dtype
            close(a, b, 1 + np.abs(b).max(), bound)


@pytest.mark.parametrize("kind", ("gru", "tanh", "relu"))
@pytest.mark.parametrize("value", (np.nan, np.inf, -np.inf))
def test_other_layers_of_what_is_not_finite(kind, value):
    name, args = other_layer(kind, (4, 4, 2), 8, np.float32, False)
    args[0][5, 3] = args[0][2, 7] = args[1][1, 1] = value
    found, wanted = both(name, *args)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(np.isnan(a), np.isnan(b))
        np.testing.assert_array_equal(np.isinf(a), np.isinf(b))


@pytest.mark.parametrize("kind", ("gru", "tanh", "relu"))
def test_other_layers_leave_the_rest_to_numpy(kind):
    """Strides, misaligned memory, other dtypes and batches of nothing: to the last bit."""
    name, args = other_layer(kind, (4, 4), 8, np.float32, False)
    given, hx, weight, third, *_ = args
    loose = np.zeros(given.nbytes + 1, np.uint8)[1:].view(np.float32).reshape(given.shape)
    loose[...] = given
    half = [x.astype(np.float16) if isinstance(x, np.ndarray) else x for x in args]
    swapped = hx.astype(hx.dtype.newbyteorder())
    for args in (
        (np.asfortranarray(given), hx, weight, third, (4, 4), False),
        (loose, hx, weight, third, (4, 4), True),
        (given, swapped, weight, third, (4, 4), True),
        (given, hx, np.asfortranarray(weight), third, (4, 4), True),
        half,
        (given[:0], hx[:0], weight, third, (0, 0), False),
    ):
        found, wanted = both(name, *args)
        for a, b in zip(found, wanted, strict=True):
            assert same(np.ascontiguousarray(a), np.ascontiguousarray(b))


@pytest.mark.parametrize("value", (np.nan, np.inf, -np.inf))
def test_what_is_not_finite(value):
    gates, hx, cx, weight = layer((4, 4, 2), 8, np.float32)
    gates[5, 3] = gates[2, 20] = cx[1, 1] = value
    found, wanted = both("lstm_layer", gates, hx, cx, weight, None, (4, 4, 2), False)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(np.isnan(a), np.isnan(b))
        np.testing.assert_array_equal(np.isinf(a), np.isinf(b))


def test_what_it_leaves_to_numpy():
    """Projections, strides, other dtypes and batches of nothing: to the last bit."""
    rng = np.random.default_rng(3)
    gates, hx, cx, weight = layer((4, 4), 8, np.float32)
    proj = draw(rng, 5, 8, dtype=np.float32)
    short = np.ascontiguousarray(hx[:, :5]), cx, np.ascontiguousarray(weight[:, :5])
    half = [x.astype(np.float16) for x in (gates, hx, cx, weight)]
    empty = gates[:0], hx[:0], cx[:0], weight
    for args in (
        (gates, *short, proj, (4, 4), False),
        (np.asfortranarray(gates), hx, cx, weight, None, (4, 4), False),
        (*half, None, (4, 4), True),
        (*empty, None, (0, 0), False),
    ):
        found, wanted = both("lstm_layer", *args)
        for a, b in zip(found, wanted, strict=True):
            assert same(np.ascontiguousarray(a), np.ascontiguousarray(b))


@pytest.mark.parametrize("bias", (False, True))
@pytest.mark.parametrize("kind", ("GRU", "RNN"))
def test_gradients_of_other_stacks(kind, bias):
    tg.manual_seed(0)
    stack = getattr(tg.nn, kind)(2, 3, bias=bias, bidirectional=True, dtype=tg.float64)
    x = tg.randn(3, 2, 2, dtype=tg.float64, requires_grad=True)
    packed = tg.nn.utils.rnn.pack_padded_sequence
    assert tg.autograd.gradcheck(lambda x, *_: stack(x)[0], (x, *stack.parameters()))
    assert tg.autograd.gradcheck(lambda x, *_: stack(packed(x, [3, 2]))[0].data, (x,))
    assert tg.autograd.gradgradcheck(lambda x: stack(x)[1], (x,))


@pytest.mark.parametrize("bidirectional", (False, True))
def test_gradients_by_differences(bidirectional):
    """Of a whole stack, and twice."""
    tg.manual_seed(0)
    stack = tg.nn.LSTM(3, 4, 2, bidirectional=bidirectional, dtype=tg.float64)
    x = tg.randn(5, 2, 3, dtype=tg.float64, requires_grad=True)
    assert tg.autograd.gradcheck(lambda x, *_: stack(x)[0], (x, *stack.parameters()))
    assert tg.autograd.gradgradcheck(lambda x: stack(x)[1][1], (x,))


def names_of(node, depth):
    """The names of a graph's nodes, as deep as asked."""
    if node is None or not depth:
        return []
    return [
        node.name(),
        *[n for below, _ in node.next_functions for n in names_of(below, depth - 1)],
    ]


def test_cells_record_what_pytorch_records():
    h, c = tg.nn.LSTMCell(3, 4)(tg.randn(2, 3))
    half = ["SigmoidBackward0", "UnsafeSplitBackward0"]
    assert names_of(h.grad_fn, 3) == [
        *("MulBackward0", *half),
        *("TanhBackward0", "AddBackward0"),
    ]
    inner = ["MulBackward0", *half, "MulBackward0", *half, "TanhBackward0", "UnsafeSplitBackward0"]
    assert names_of(c.grad_fn, 4) == ["AddBackward0", *inner]
    assert (h._version, c._version) == (0, 1)
    h = tg.nn.GRUCell(3, 4)(tg.randn(2, 3))
    assert names_of(h.grad_fn, 3) == [
        *("AddBackward0", "MulBackward0", "SubBackward0", "SigmoidBackward0"),
        *("TanhBackward0", "AddBackward0"),
    ]
    assert h._version == 2


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("width", [1, 5, 70])
def test_weights_that_fill_no_panel(width, dtype):
    """Packed weights end in zeros; a step deeper than a part of them is added up in several."""
    rng = np.random.default_rng(0)
    x, h, c = (rng.normal(size=s).astype(dtype) for s in [(7, 4 * width), (7, width), (7, width)])
    weight = rng.normal(size=(4 * width, width)).astype(dtype)
    op = REGISTRY["lstm_layer"]
    found = op.kernel(x, h, c, weight, None, (7,), False)
    want = op.forward(host, x, h, c, weight, None, (7,), False)
    for a, b in zip(found, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4 if dtype == "float32" else 1e-11, atol=1e-5)


def step_results(dtype, shape, cells, states):
    """A step and its gradients, from leaves that are the same every time."""
    tg.manual_seed(0)
    batch, width = shape
    given = [tg.randn(batch, 3), tg.randn(4 * width, 3), tg.randn(4 * width, width)]
    given += [tg.randn(4 * width), tg.randn(4 * width)]
    x, w, u, a, b = [t.to(dtype).requires_grad_() for t in given]
    h, c = states.to(dtype).requires_grad_(), cells.to(dtype).requires_grad_()
    out, new = tg.lstm_cell(x, (h, c), w, u, a, b)
    leaves = (x, h, c, w, u, a, b)
    once = tg.autograd.grad((out * new).sum() + new.exp().sum(), leaves, create_graph=True)
    twice = tg.autograd.grad(sum([g.sin().sum() for g in once]), leaves)
    return [out, new, *once, *twice], (out._version, new._version)


@pytest.mark.parametrize("dtype", [tg.float32, tg.float64])
@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (70, 33)])
def test_a_step_at_once_is_its_ops_one_by_one(monkeypatch, shape, dtype):
    cells, states = tg.randn(*shape), tg.randn(*shape)
    ran = []
    kernel = HOST_KERNELS.lstm_step
    monkeypatch.setattr(HOST_KERNELS, "lstm_step", lambda *a: ran.append(1) or kernel(*a))
    found = step_results(dtype, shape, cells, states)
    assert ran
    monkeypatch.setattr(HOST_KERNELS, "lstm_step", None)
    wanted = step_results(dtype, shape, cells, states)
    assert found[1] == wanted[1]
    for a, b in zip(found[0], wanted[0], strict=True):
        np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())


def test_states_of_a_step_may_be_written():
    """Nothing that the step saves is what it returns."""
    cell = tg.nn.LSTMCell(3, 4)
    h, c = cell(tg.randn(2, 3))
    h[0] = 0
    c[0] = 0
    h, c = cell(tg.randn(2, 3), (h, c))
    (h.sum() + c.sum()).backward()
    assert all([p.grad is not None for p in cell.parameters()])


def test_a_step_that_the_kernel_does_not_take():
    """Cells that lie otherwise, or are of no batch; and nothing is recorded under no_grad."""
    cell = tg.nn.LSTMCell(3, 4)
    x, h, c = tg.randn(5, 3), tg.randn(5, 4), tg.randn(4, 5).t()
    for a, b in zip(cell(x, (h, c)), cell(x, (h, c.contiguous())), strict=True):
        assert tg.equal(a, b)
    with tg.no_grad():
        out, _ = cell(x, (h, c))
    assert out.grad_fn is None and tg.equal(out, cell(x, (h, c))[0])
    empty = cell(tg.zeros(0, 3), (tg.zeros(0, 4), tg.zeros(0, 4)))
    assert [tuple(t.shape) for t in empty] == [(0, 4), (0, 4)]
