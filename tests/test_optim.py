"""Optimizers: what the recorded programs (prog_nn) leave out: hooks, copies, subclasses."""

import copy
import pickle

import pytest

import tapegrad as torch
from tapegrad import nn, optim
from tapegrad.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
    required,
)


def parameter(*values):
    p = nn.Parameter(torch.tensor(values))
    p.grad = torch.tensor([1.0] * len(values))
    return p


def test_hooks_around_step():
    optimizer, seen = optim.SGD([parameter(1.0)], lr=0.5), []
    everywhere = [
        register_optimizer_step_pre_hook(lambda *a: seen.append("global pre")),
        register_optimizer_step_post_hook(lambda *a: seen.append("global post")),
    ]
    optimizer.register_step_pre_hook(lambda o, args, kwargs: seen.append(("pre", args[0] is o)))
    optimizer.register_step_post_hook(lambda o, args, kwargs: seen.append("post"))
    optimizer.step()
    for handle in everywhere:
        handle.remove()
    assert seen == ["global pre", ("pre", True), "post", "global post"]


def test_pre_hook_may_replace_the_arguments():
    optimizer = optim.SGD([parameter(1.0)], lr=0.5)
    handle = optimizer.register_step_pre_hook(lambda o, args, kwargs: ((o, lambda: 7), {}))
    assert optimizer.step() == 7
    handle.remove()
    optimizer.register_step_pre_hook(lambda o, args, kwargs: 3)
    with pytest.raises(RuntimeError, match="must return None or a tuple of .*, but got 3."):
        optimizer.step()


def test_hooks_around_state_dicts():
    optimizer, seen = optim.SGD([parameter(1.0)]), []
    optimizer.register_state_dict_pre_hook(lambda o: seen.append("before saving"))
    optimizer.register_state_dict_post_hook(lambda o, s: seen.append("second"))
    optimizer.register_state_dict_post_hook(lambda o, s: seen.append("first"), prepend=True)
    optimizer.register_load_state_dict_pre_hook(lambda o, s: seen.append("before loading"))
    optimizer.register_load_state_dict_post_hook(lambda o: seen.append("after loading"))
    optimizer.load_state_dict(optimizer.state_dict())
    assert seen == ["before saving", "first", "second", "before loading", "after loading"]


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))])
def test_copies_go_on_alike(duplicate):
    p = parameter(1.0, 2.0)
    optimizer = optim.SGD([p], lr=0.1, momentum=0.9)
    optimizer.step()
    twin = duplicate(optimizer)
    assert repr(twin) == repr(optimizer)
    (q,) = twin.param_groups[0]["params"]
    q.grad = torch.tensor([1.0, 1.0])
    optimizer.step()
    twin.step()
    assert q is not p and q.tolist() == p.tolist()


def test_loaded_state_takes_the_dtype_of_its_parameter():
    source = optim.SGD([parameter(1.0)], momentum=0.9)
    source.step()
    p = nn.Parameter(torch.tensor([1.0], dtype=torch.float64))
    target = optim.SGD([p], momentum=0.9)
    state = source.state_dict()
    state["state"][0]["step"] = torch.tensor(3.0)
    state["state"][0]["more"] = [torch.tensor([1.0]), "text"]
    target.load_state_dict(state)
    loaded = target.state[p]
    assert loaded["momentum_buffer"].dtype == loaded["more"][0].dtype == torch.float64
    assert loaded["step"].dtype == torch.float32 and loaded["more"][1] == "text"


def test_names_survive_loading_a_state_dict_without_names():
    p = parameter(1.0)
    named = optim.SGD([("weight", p)], lr=0.1)
    named.load_state_dict(optim.SGD([p], lr=0.3).state_dict())
    assert named.param_groups[0]["param_names"] == ["weight"]
    assert named.param_groups[0]["lr"] == 0.3
    assert "    param_names: ['weight']\n" in repr(named)


@pytest.mark.parametrize(
    "call, error, message",
    [
        (
            lambda p: optim.SGD([("a", p), parameter(1.0)]),
            ValueError,
            "all optimizer params should be with/without names. Some param names are missing",
        ),
        (
            lambda p: optim.SGD([p]).add_param_group({"params": [("a", parameter(1.0))]}),
            ValueError,
            "all optimizer param groups should be with/without names. cannot add param group "
            "with names "
            "to the optimizer",
        ),
        (
            lambda p: optim.SGD([p]).add_param_group([p]),
            TypeError,
            "param_group must be a dict, but got <class 'list'>",
        ),
        (
            lambda p: optim.SGD([p], lr=torch.tensor([1.0, 2.0])),
            ValueError,
            "Tensor lr must be 1-element",
        ),
        (
            lambda p: optim.SGD([p], fused=True, foreach=True),
            RuntimeError,
            "`fused` and `foreach` cannot be `True` together.",
        ),
        (
            lambda p: optim.Optimizer([p], {"lr": required}),
            ValueError,
            "parameter group didn't specify a value of required optimization parameter lr",
        ),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error) as caught:
        call(parameter(1.0))
    assert str(caught.value) == message


def test_an_optimizer_of_ones_own():
    class Halve(optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {"factor": 0.5})

        @torch.no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    p.mul_(group["factor"])

    p, seen = parameter(4.0), []
    optimizer = Halve([p])
    optimizer.register_step_post_hook(lambda *a: seen.append("post"))
    optimizer.step()
    assert p.tolist() == [2.0] and seen == ["post"]
    assert repr(optimizer) == "Halve (\nParameter Group 0\n    factor: 0.5\n)"
    with pytest.raises(NotImplementedError):
        optim.Optimizer([p], {}).step()


def test_closure_records_within_no_grad():
    p = parameter(2.0)
    optimizer = optim.SGD([p], lr=0.25)

    def closure():
        optimizer.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    with torch.no_grad():
        assert optimizer.step(closure).item() == 4.0
        assert not torch.is_grad_enabled()
    assert p.tolist() == [1.0]


def test_learning_rate_as_a_tensor():
    p = parameter(1.0)
    optimizer = optim.SGD([p], lr=torch.tensor(0.5))
    optimizer.step()
    optimizer.param_groups[0]["lr"].mul_(0.5)
    optimizer.step()
    assert p.tolist() == [0.25]


def test_differentiable_step():
    start = torch.tensor([1.0, 1.0], requires_grad=True)
    lr = torch.tensor(0.1, requires_grad=True)
    p = start.clone()
    p.grad = torch.tensor([2.0, 3.0])
    optim.SGD([p], lr=lr, differentiable=True).step()
    p.sum().backward()
    assert lr.grad.item() == -5.0 and start.grad.tolist() == [1.0, 1.0]


# Three steps down p³ in float64, as PyTorch takes them.
@pytest.mark.parametrize(
    "name, options, expected",
    [
        ("Adam", {"lr": 0.1, "weight_decay": 0.1}, [0.7040483301772104, -2.300494356748434]),
        ("AdamW", {"lr": 0.1, "weight_decay": 0.1}, [0.6780909260555341, -2.238070054353483]),
        (
            "Adam",
            {"lr": 0.1, "amsgrad": True, "betas": (0.5, 0.6), "maximize": True},
            [1.301253350515035, -1.7019953025534569],
        ),
    ],
)
def test_adam(name, options, expected):
    p = nn.Parameter(torch.tensor([1.0, -2.0], dtype=torch.float64))
    optimizer = getattr(optim, name)([p], **options)
    for _ in range(3):
        optimizer.zero_grad()
        (p * p * p).sum().backward()
        optimizer.step()
    assert p.tolist() == pytest.approx(expected, rel=1e-12)
    again = getattr(optim, name)([p], **options)
    again.load_state_dict(pickle.loads(pickle.dumps(optimizer.state_dict())))
    assert again.state[p]["step"].item() == 3.0
    assert again.state_dict()["param_groups"] == optimizer.state_dict()["param_groups"]
