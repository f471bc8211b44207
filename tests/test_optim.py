"""Optimizers: what the recorded programs leave out: copies, subclasses, many tensors at once."""

import copy
import doctest
import importlib
import pickle
import pkgutil
import time

import numpy as np
import pytest

import tapegrad as torch
from tapegrad import nn, optim
from tapegrad.optim import _multi_tensor, _per_tensor
from tapegrad.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
    required,
)
from tapegrad.sparse.coo import SparseTensor


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


# ------------------------------------------------------------------ many tensors at once

# Every optimizer whose update goes element by element, with the options that add state or steps.
ELEMENTWISE = [
    ("SGD", {"momentum": 0.9, "dampening": 0.1, "weight_decay": 0.1}),
    ("SGD", {"momentum": 0.9, "nesterov": True}),
    ("Adam", {}),
    ("Adam", {"amsgrad": True, "weight_decay": 0.1}),
    ("AdamW", {"maximize": True}),
    ("Adamax", {"weight_decay": 0.1}),
    ("NAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RAdam", {"betas": (0.5, 0.7)}),
    ("RMSprop", {"centered": True, "momentum": 0.5}),
    ("Adagrad", {"lr_decay": 0.1}),
    ("Adadelta", {}),
    ("Rprop", {}),
    ("ASGD", {"t0": 2}),
]


def assorted_parameters():
    """Many shapes and dtypes, views, one large tensor; the same values at every call."""
    torch.manual_seed(7)
    shapes = [(3,), (2, 4), (), (1, 5, 2), (0,), (6, 1)] * 6
    dtypes = [torch.float32] * 4 + [torch.float64] * 2 + [torch.float16]
    found = [
        nn.Parameter(torch.randn(shape).to(dtypes[i % len(dtypes)]))
        for i, shape in enumerate(shapes)
    ]
    found.append(nn.Parameter(torch.randn(4, 3).t()))
    found.append(nn.Parameter(torch.randn(_multi_tensor.LARGEST + 1)))
    return found


def run_steps(name, options, foreach, steps=5):
    params = assorted_parameters()
    optimizer = getattr(optim, name)(params, lr=0.05, foreach=foreach, **options)
    for step in range(steps):
        for i, p in enumerate(params):
            p.grad = None if (i + step) % 7 == 0 else torch.randn(p.shape).to(p.dtype)
        optimizer.step()
    return params, [optimizer.state.get(p, {}) for p in params]


def facts(t):
    return None if t is None else (t.dtype, t.stride(), t._version, t._array.tobytes())


@pytest.mark.parametrize("name, options", ELEMENTWISE)
def test_many_at_once_are_bit_equal_to_one_by_one(name, options, monkeypatch):
    gathered = []
    original = _multi_tensor.update_gathered

    def counting(params, *rest):
        gathered.append(len(params))
        original(params, *rest)

    monkeypatch.setattr(_multi_tensor, "update_gathered", counting)
    monkeypatch.setattr(_per_tensor, "KERNELS", None)  # which would take them all
    params, states = run_steps(name, options, foreach=None)
    assert sum(gathered) > 100, "the fast path was hardly taken"
    gathered.clear()
    expected, expected_states = run_steps(name, options, foreach=False)
    assert not gathered
    assert [facts(p) for p in params] == [facts(p) for p in expected]
    for ours, theirs in zip(states, expected_states, strict=True):
        assert list(ours) == list(theirs)
        assert [facts(t) for t in ours.values()] == [facts(t) for t in theirs.values()]


def same_with_and_without(make, steps=3):
    """Run what `make(foreach)` sets up both ways; the parameters must end up equal."""
    found = []
    for foreach in (None, False):
        params, set_grads, optimizer = make(foreach)
        for _ in range(steps):
            set_grads()
            optimizer.step()
        found.append([facts(p) for p in params])
    assert found[0] == found[1]


def test_parameters_that_share_memory_are_updated_in_turn():
    def make(foreach):
        buffer = torch.arange(12.0)
        params = [nn.Parameter(buffer[i : i + 4].detach()) for i in range(8)]

        def set_grads():
            for p in params:
                p.grad = torch.full((4,), 0.5)

        return params, set_grads, optim.Adam(params, lr=0.1, weight_decay=0.1, foreach=foreach)

    same_with_and_without(make)


def test_gradients_that_are_the_parameters():
    def make(foreach):
        params = [nn.Parameter(torch.arange(3.0) + i) for i in range(8)]

        def set_grads():
            for p, following in zip(params, params[1:] + params[:1], strict=True):
                p.grad = following.detach()

        return params, set_grads, optim.SGD(params, lr=0.1, momentum=0.9, foreach=foreach)

    same_with_and_without(make)


def test_options_held_as_tensors_and_subclasses_go_one_by_one(monkeypatch):
    monkeypatch.setattr(_multi_tensor, "update_gathered", None)
    params = [parameter(1.0, 2.0) for _ in range(8)]
    optim.SGD(params, lr=torch.tensor(0.5), momentum=0.9).step()
    assert params[-1].tolist() == [0.5, 1.5]

    class Marked(torch.Tensor):
        pass

    marked = [torch.ones(2).as_subclass(Marked).requires_grad_() for _ in range(8)]
    for p in marked:
        p.grad = torch.ones(2)
    optim.SGD(marked, lr=0.5, momentum=0.9).step()
    assert marked[0].tolist() == [0.5, 0.5]


def test_each_tensor_keeps_memory_of_its_own():
    params = [parameter(float(i), 1.0) for i in range(8)]
    arrays = [p._array for p in params]
    optimizer = optim.SGD(params, lr=0.1, momentum=0.9)
    for _ in range(3):
        optimizer.step()
    assert all(p._array is array for p, array in zip(params, arrays, strict=True))
    memory = [*arrays, *[optimizer.state[p]["momentum_buffer"]._array for p in params]]
    for i, one in enumerate(memory):
        assert one.flags.owndata
        assert not any(np.shares_memory(one, other) for other in memory[:i])


def test_an_overwritten_saved_value_names_the_step_either_way():
    messages = []
    for foreach in (None, False):
        params = [parameter(2.0) for _ in range(8)]
        loss = sum((p * p).sum() for p in params)
        optimizer = optim.SGD(params, lr=0.1, momentum=0.9, foreach=foreach)
        optimizer.step()
        with pytest.raises(RuntimeError, match="modified by an inplace operation") as caught:
            loss.backward()
        messages.append(str(caught.value))
    assert "optimizer.step()" in messages[0]
    assert messages[0] == messages[1]


@pytest.mark.slow
def test_many_small_tensors_are_fast():
    params = [nn.Parameter(torch.ones(100)) for _ in range(1000)]
    for p in params:
        p.grad = torch.ones(100)
    optimizers = {foreach: optim.Adam(params, foreach=foreach) for foreach in (None, False)}
    best = dict.fromkeys(optimizers, 1e9)
    for _ in range(6):
        for foreach, optimizer in optimizers.items():
            start = time.thread_time()
            optimizer.step()
            best[foreach] = min(best[foreach], time.thread_time() - start)
    # Measured: 15 times in pure Python, 11 compiled; the rest is room for a slow machine.
    assert best[False] > 7 * best[None]


# ------------------------------------------------------------------ docs


def modules_of(package):
    for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        yield importlib.import_module(found.name)


@pytest.mark.parametrize("module", list(modules_of(optim)), ids=lambda m: m.__name__)
def test_examples(module):
    names = {"torch": torch, "nn": nn, "optim": optim}
    names.update(
        {
            name: getattr(torch, name)
            for name in ("eye", "linspace", "no_grad", "ones", "tensor", "zeros")
        }
    )
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    for test in doctest.DocTestFinder(exclude_empty=True).find(module, extraglobs=names):
        runner.run(test)
    assert runner.summarize(verbose=False).failed == 0


def test_every_optimizer_and_scheduler_has_an_example():
    for name in [*optim.__all__, *optim.lr_scheduler.__all__]:
        public = getattr(optim, name, None) or getattr(optim.lr_scheduler, name)
        if isinstance(public, type) and name != "Optimizer":
            assert ">>>" in (public.__doc__ or ""), name


def test_a_profile_shows_the_writes_of_a_step():
    """torch: the names in a profile of p.add_(grad, alpha=-0.1) are ["aten::add_"]."""
    p, grad = torch.ones(3, requires_grad=True), torch.ones(3)
    with torch.profiler.profile() as prof, torch.no_grad():
        p.add_(grad, alpha=-0.1)
    assert [event.name for event in prof.events()] == ["aten::add_"]


@pytest.mark.parametrize("name", ["SGD", "Adagrad", "SparseAdam"])
def test_sparse_gradients_are_never_made_dense(name, monkeypatch):
    table = nn.Embedding(20, 3, sparse=True)
    same = nn.Embedding(20, 3)
    same.load_state_dict(table.state_dict())
    rows = torch.tensor([4, 1, 4])
    options = {"SparseAdam": {}}.get(name, {"lr": 0.1})
    optimizer = getattr(optim, name)(table.parameters(), **options)
    dense = getattr(optim, name.replace("Sparse", ""))(same.parameters(), **options)
    monkeypatch.setattr(SparseTensor, "to_dense", None)
    for module, chosen in ((table, optimizer), (same, dense)):
        (module(rows) ** 2).sum().backward()
        chosen.step()
    np.testing.assert_allclose(table.weight.detach(), same.weight.detach(), rtol=1e-6)
    assert table.weight._version == 2
