"""The optimizers and the clipping of gradients in C, against those that go tensor by tensor."""

import copy
import math

import numpy as np
import pytest
from test_optim import ELEMENTWISE, facts, run_steps

import tapegrad as torch
from tapegrad import nn, optim
from tapegrad.native import KERNELS
from tapegrad.optim import _native

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
    assert [w[1] for w in p.cell.writers] == ["addcdiv_"] == [w[1] for w in q.cell.writers]
    assert p.cell.writers[0][2].co_name == "test_who_wrote_is_noted"


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
