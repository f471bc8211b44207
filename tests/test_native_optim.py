"""The optimizers and the clipping of gradients in C, against those that go tensor by tensor."""

import copy
import math

import numpy as np
import pytest

import tapegrad as torch
from tapegrad import nn, optim
from tapegrad.kernels.cpu import KERNELS
from tapegrad.optim import _native
from test_optim import ELEMENTWISE, facts, run_steps

if KERNELS is None:
    pytest.skip("the native kernels are not built", allow_module_level=True)

MORE = [
    ("SGD", {}),
    ("SGD", {"weight_decay": 0.1, "maximize": True}),
    ("Adam", {"betas": (0.3, 0.4), "weight_decay": 0.1, "maximize": True}),
    ("RMSprop", {"weight_decay": 0.1}),
    ("RMSprop", {"centered": True}),
    ("RMSprop", {"momentum": 0.5, "maximize": True}),
    ("Adagrad", {"weight_decay": 0.1}),
    ("Adadelta", {"weight_decay": 0.1, "maximize": True}),
    ("NAdam", {"weight_decay": 0.1}),
    ("RAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("ASGD", {"weight_decay": 0.1, "maximize": True}),
    ("Rprop", {"maximize": True}),
]


@pytest.fixture(params=[1, 2], ids="{} threads".format)
def threads(request):
    before = KERNELS.threads()
    KERNELS.set_threads(request.param)
    yield request.param
    KERNELS.set_threads(before)


@pytest.fixture
def taken(monkeypatch):
    """How many parameters each call of a kernel updated."""
    found = []
    original = _native.count

    def counting(params, *rest):
        found.append(len(params))
        original(params, *rest)

    monkeypatch.setattr(_native, "count", counting)
    return found


@pytest.mark.parametrize("name, options", ELEMENTWISE + MORE)
def test_bit_equal_to_tensor_by_tensor(name, options, taken, threads):
    params, states = run_steps(name, options, foreach=None)
    assert sum(taken) > 100, "hardly taken"
    taken.clear()
    expected, expected_states = run_steps(name, options, foreach=False)
    assert not taken
    assert [facts(p) for p in params] == [facts(p) for p in expected]
    for ours, theirs in zip(states, expected_states, strict=True):
        assert list(ours) == list(theirs)
        assert [facts(t) for t in ours.values()] == [facts(t) for t in theirs.values()]


def large_ones(name, options, foreach):
    torch.manual_seed(3)
    params = [nn.Parameter(torch.randn(n)) for n in (70_001, 3, 0, 40_000, 1, 16_384)]
    optimizer = getattr(optim, name)(params, foreach=foreach, **options)
    for _ in range(3):
        for p in params:
            p.grad = torch.randn_like(p)
        params[0].grad[5:9] = torch.tensor([math.nan, math.inf, -math.inf, -0.0])
        optimizer.step()
    return params


@pytest.mark.parametrize("name, options", ELEMENTWISE + MORE)
def test_large_ones_with_nan_and_infinities(name, options, threads):
    for ours, theirs in zip(
        large_ones(name, options, None), large_ones(name, options, False), strict=True
    ):
        np.testing.assert_array_equal(ours.detach().numpy(), theirs.detach().numpy())


def test_who_wrote_is_noted():
    p, q = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(2))
    optimizer = optim.Adam([p, q])
    p.grad, q.grad = torch.ones(3), torch.ones(2)
    optimizer.step()
    assert [w[1] for w in p._cell.writers] == ["addcdiv_"] == [w[1] for w in q._cell.writers]
    assert p._cell.writers[0][2].co_name == "test_who_wrote_is_noted"


def test_one_odd_parameter_does_not_hold_up_the_others(taken):
    torch.manual_seed(0)
    params = [nn.Parameter(torch.randn(4, 3)) for _ in range(5)]
    params.append(nn.Parameter(torch.randn(4, 3).t()))
    for p in params:
        p.grad = torch.ones_like(p)
    optim.AdamW(params).step()
    assert taken == [5]
    assert all(p._version == 2 for p in params)


def test_read_only_and_shared_memory_are_left_alone(taken):
    a = np.ones(6, np.float32)
    whole, half = (nn.Parameter(torch.from_numpy(x)) for x in (a, a[:3]))
    for p in (whole, half):
        p.grad = torch.ones_like(p)
    optim.SGD([whole, half], lr=1.0).step()
    assert not taken
    assert a.tolist() == [-1, -1, -1, 0, 0, 0]


def test_state_dict_goes_both_ways():
    torch.manual_seed(1)
    first = [nn.Parameter(torch.randn(5)) for _ in range(3)]
    second = [nn.Parameter(p.detach().clone()) for p in first]
    ours, theirs = optim.Adam(first, amsgrad=True), optim.Adam(second, amsgrad=True, foreach=False)
    for _ in range(2):
        for p, q in zip(first, second, strict=True):
            p.grad = torch.randn(5)
            q.grad = p.grad.clone()
        ours.step()
        theirs.step()
        ours.load_state_dict(copy.deepcopy(theirs.state_dict()))
    assert [p.tolist() for p in first] == [q.tolist() for q in second]


# ------------------------------------------------------------------ clipping


def some_gradients(dtype, scale=1.0):
    torch.manual_seed(5)
    params = [nn.Parameter(torch.zeros(n, dtype=dtype)) for n in (50_001, 7, 0, 16_384, 1)]
    for p in params:
        p.grad = torch.randn(p.shape, dtype=dtype) * scale
    return params


@pytest.mark.parametrize("order", [2.0, 1.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_total_norm(order, dtype, threads):
    grads = [p.grad for p in some_gradients(dtype)]
    wide = np.concatenate([g.numpy() for g in grads]).astype(np.longdouble)
    expected = float((np.abs(wide) ** order).sum() ** (1 / order))
    found = nn.utils.get_total_norm(grads, order)
    assert found.dtype == dtype and found.shape == ()
    # The squares and the sum are rounded once each, and the sum of the many is made in double.
    assert found.item() == pytest.approx(expected, rel=2 * torch.finfo(dtype).eps + 1e-15 * order)


def test_largest_of_all(threads):
    params = some_gradients(torch.float32)
    del params[2]
    expected = max(p.grad.abs().max().item() for p in params)
    assert nn.utils.get_total_norm([p.grad for p in params], math.inf).item() == expected
    params[0].grad[17] = math.nan
    assert math.isnan(nn.utils.get_total_norm([p.grad for p in params], math.inf).item())
    assert math.isnan(nn.utils.get_total_norm([p.grad for p in params]).item())


def test_overflow_and_underflow_as_in_single_precision():
    assert nn.utils.get_total_norm([torch.full((100,), 1e30)]).item() == math.inf
    assert nn.utils.get_total_norm([torch.full((4,), 1e-30)]).item() == 0.0
    assert nn.utils.get_total_norm([torch.full((40,), 1e19)]).item() == math.inf


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scale", [1.0, 1e-6])
def test_clip_grad_norm(dtype, scale, threads):
    ours, theirs = some_gradients(dtype, scale), some_gradients(dtype, scale)
    norm = nn.utils.clip_grad_norm_(ours, 0.5)
    nn.utils.clip_grads_with_norm_(theirs, 0.5, norm, foreach=False)
    for p, q in zip(ours, theirs, strict=True):
        assert facts(p.grad) == facts(q.grad)


@pytest.mark.parametrize("limit", [0.25, -1.0])
def test_clip_grad_value(limit, threads):
    ours, theirs = some_gradients(torch.float32), some_gradients(torch.float32)
    for params, foreach in ((ours, None), (theirs, False)):
        params[0].grad[:3] = torch.tensor([math.nan, math.inf, -math.inf])
        nn.utils.clip_grad_value_(params, limit, foreach)
    for p, q in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(p.grad.numpy(), q.grad.numpy())
        assert p.grad._version == q.grad._version


def test_parameters_that_are_written_together_share_their_notes():
    """Who wrote a parameter last is noted once for all of them, and is still right for each."""
    layer = nn.Linear(3, 2)
    optimizer = optim.SGD(layer.parameters(), lr=0.1)
    for _ in range(12):
        optimizer.zero_grad()
        layer(torch.ones(1, 3)).sum().backward()
        optimizer.step()
    weight, bias = layer.weight._version_cell(), layer.bias._version_cell()
    assert weight.writers is bias.writers
    assert [entry[0] for entry in weight.writers][-4:] == list(range(weight.n - 3, weight.n + 1))
    with torch.no_grad():
        layer.bias.mul_(2)
    assert bias.writers[-1][1] == "mul_" and weight.writers[-1][1] != "mul_"
