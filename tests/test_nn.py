"""Modules: what the recorded programs (prog_nn) leave out: copies, pickles, hooks, containers."""

import copy
import multiprocessing
import os
import pickle
from collections import OrderedDict

import numpy as np
import pytest

import tapegrad as torch
from tapegrad import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(2, 2)
        self.register_buffer("count", torch.tensor(0.0))
        self.layers = nn.ModuleList([nn.Linear(2, 1), nn.ReLU()])
        with torch.no_grad():
            for p in self.parameters():
                p.fill_(0.5)

    def forward(self, x, factor=1):
        if factor is None:
            raise ValueError("no factor")
        return self.layers[1](self.layers[0](self.a(x))) * factor


class Recorder(list):
    """Makes hooks that note their name (and what they got) here."""

    def hook(self, name, keep=False, answer=None):
        def hook(module, *args):
            self.append((name, *args) if keep else name)
            return answer

        return hook


# --- parameters --------------------------------------------------------------------------------


def test_parameter_repr_and_defaults():
    p = nn.Parameter(torch.tensor([1.0, 2.0]))
    assert repr(p) == "Parameter containing:\ntensor([1., 2.], requires_grad=True)"
    assert nn.Parameter().shape == (0,)
    assert not nn.Parameter(torch.tensor([1.0]), requires_grad=False).requires_grad


def test_parameter_shares_memory_and_version():
    t = torch.tensor([1.0, 2.0])
    p = nn.Parameter(t)
    t.add_(1)
    assert p.tolist() == [2.0, 3.0]
    assert p._version == t._version == 1


def test_results_of_ops_are_plain_tensors():
    p = nn.Parameter(torch.tensor([1.0]))
    for t in (p * 2, p.data, p.detach(), p.clone()):
        assert type(t) is torch.Tensor
    assert type(copy.deepcopy(p)) is nn.Parameter


def test_parameter_of_integers_needs_requires_grad_false():
    with pytest.raises(RuntimeError, match="Only Tensors of floating point and complex dtype can"):
        nn.Parameter(torch.tensor([1]))
    assert nn.Parameter(torch.tensor([1]), requires_grad=False).tolist() == [1]


def test_deepcopy_of_a_parameter_has_no_grad():
    p = nn.Parameter(torch.tensor([1.0]))
    p.grad = torch.tensor([2.0])
    q = copy.deepcopy(p)
    assert q.grad is None and q.requires_grad and q is not p
    q.data.add_(1)
    assert p.tolist() == [1.0]


def test_pickled_parameter_keeps_class_and_attributes():
    p = nn.Parameter(torch.tensor([1.0, 2.0]), requires_grad=False)
    p.tag = "first"
    q = pickle.loads(pickle.dumps(p))
    assert type(q) is nn.Parameter and not q.requires_grad
    assert q.tolist() == [1.0, 2.0] and q.tag == "first"


def test_buffer_class():
    b = nn.Buffer(torch.tensor([1.0]), persistent=False)
    assert type(b) is torch.Tensor and isinstance(b, nn.Buffer)
    assert not isinstance(torch.tensor([1.0]), nn.Buffer)
    m = nn.Module()
    m.b = b
    assert list(m._buffers) == ["b"] and list(m.state_dict()) == []
    m.b = nn.Parameter(torch.tensor([1.0]))
    assert not m._buffers and list(m._parameters) == ["b"] and not m._non_persistent_buffers_set


# --- registration ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call, error, message",
    [
        (
            lambda m: m.register_parameter(3, None),
            TypeError,
            "parameter name should be a string. Got int",
        ),
        (lambda m: m.register_buffer("", None), KeyError, 'buffer name can\'t be empty string ""'),
        (lambda m: m.register_buffer("w", None), KeyError, "attribute 'w' already exists"),
        (lambda m: m.add_module("a.b", None), KeyError, 'module name can\'t contain ".", got: a.b'),
        (lambda m: m.register_module("train", None), KeyError, "attribute 'train' already exists"),
        (lambda m: m.get_submodule("x.y"), AttributeError, "Module has no attribute `x`"),
        (lambda m: m.get_submodule("w"), AttributeError, "`w` is not an nn.Module"),
        (lambda m: m.get_parameter("c"), AttributeError, "`c` is not an nn.Parameter"),
        (lambda m: m.get_buffer("w"), AttributeError, "`w` is not a buffer"),
        (
            lambda m: m.set_submodule("", nn.ReLU()),
            ValueError,
            "Cannot set the submodule without a target name!",
        ),
        (
            lambda m: setattr(m, "c", 3),
            TypeError,
            "cannot assign 'int' as child module 'c' (torch.nn.Module or None expected)",
        ),
        (
            lambda m: nn.Module(1),
            TypeError,
            "Module.__init__() takes 1 positional argument but 2 were given",
        ),
    ],
)
def test_registration_errors(call, error, message):
    m = nn.Module()
    m.w = nn.Parameter(torch.tensor([1.0]))
    m.c = nn.ReLU()
    with pytest.raises(error) as caught:
        call(m)
    assert caught.value.args[0] == message


def test_names_that_layers_use_are_free():
    """Helpers must not take names away from users' attributes."""
    m = nn.Module()
    for name in ("forget", "unexpected", "announced", "own_state", "set_buffer", "update"):
        m.add_module(name, nn.Identity())
        assert isinstance(getattr(m, name), nn.Identity)


def test_a_child_set_to_none_stays_in_the_repr():
    m = nn.Module()
    m.child = nn.ReLU()
    m.child = None
    assert repr(m) == "Module(\n  (child): None\n)"
    assert [n for n, _ in m.named_modules()] == [""]
    del m.child
    assert repr(m) == "Module()"


def test_registration_hooks():
    seen = []
    handles = [
        nn.modules.module.register_module_parameter_registration_hook(
            lambda m, n, v: seen.append(("parameter", n))
        ),
        nn.modules.module.register_module_module_registration_hook(
            lambda m, n, v: seen.append(("module", n))
        ),
        nn.modules.module.register_module_buffer_registration_hook(
            lambda m, n, v: seen.append(("buffer", n))
        ),
    ]
    m = nn.Module()
    m.a = nn.ReLU()
    m.w = nn.Parameter(torch.tensor([1.0]))
    m.register_buffer("b", None)
    for handle in handles:
        handle.remove()
    m.c = nn.ReLU()
    assert seen == [("module", "a"), ("parameter", "w"), ("buffer", "b")]


def test_dir_lists_what_is_registered():
    names = dir(Net())
    assert {"a", "count", "layers", "training", "forward"} <= set(names)
    assert "0" not in dir(nn.Sequential(nn.ReLU()))


# --- copies ------------------------------------------------------------------------------------


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_of_a_module(duplicate):
    net = Net().eval()
    twin = duplicate(net)
    assert repr(twin) == repr(net) and not twin.training
    x = torch.tensor([[1.0, 2.0]])
    assert twin(x).tolist() == net(x).tolist()
    with torch.no_grad():
        twin.a.weight.zero_()
    assert net.a.weight.tolist() == [[0.5, 0.5], [0.5, 0.5]]
    assert isinstance(twin.a.weight, nn.Parameter)


def test_deepcopy_keeps_shared_parameters_shared():
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    net[1].weight = net[0].weight
    twin = copy.deepcopy(net)
    assert twin[1].weight is twin[0].weight and twin[0].weight is not net[0].weight


# --- forward hooks -----------------------------------------------------------------------------


def test_order_of_forward_hooks():
    net, seen = Net(), Recorder()
    net.register_forward_pre_hook(seen.hook("pre 2"))
    net.register_forward_pre_hook(seen.hook("pre 1"), prepend=True)
    net.register_forward_hook(seen.hook("hook 2"))
    net.register_forward_hook(seen.hook("hook 1"), prepend=True)
    everywhere = [
        nn.modules.module.register_module_forward_pre_hook(seen.hook("global pre")),
        nn.modules.module.register_module_forward_hook(seen.hook("global")),
    ]
    net.forward = lambda x: seen.append("forward")
    net(1)
    for handle in everywhere:
        handle.remove()
    assert seen == ["global pre", "pre 1", "pre 2", "forward", "global", "hook 1", "hook 2"]


def test_hooks_replace_arguments_and_output():
    net = nn.Identity()
    net.forward = lambda x, y=0: (x, y)
    net.register_forward_pre_hook(lambda m, args: args[0] + 1)
    net.register_forward_pre_hook(lambda m, args, kwargs: (args, {"y": 5}), with_kwargs=True)
    net.register_forward_hook(lambda m, args, kwargs, out: (*out, kwargs), with_kwargs=True)
    assert net(1) == (2, 5, {"y": 5})
    net.register_forward_pre_hook(lambda m, args, kwargs: 3, with_kwargs=True)
    with pytest.raises(RuntimeError, match="forward pre-hook must return None or a tuple of"):
        net(1)


def test_always_call():
    net, seen = Net(), Recorder()
    net.register_forward_hook(seen.hook("usual"))
    handle = net.register_forward_hook(seen.hook("always"), always_call=True)
    with pytest.raises(ValueError, match="no factor"):
        net(torch.tensor([1.0, 2.0]), factor=None)
    assert seen == ["always"]
    handle.remove()
    assert not net._forward_hooks_always_called

    def broken(module, args, out):
        raise KeyError("hook")

    net.register_forward_hook(broken, always_call=True)
    with pytest.warns(UserWarning, match="raised an exception that was silenced as another error"):
        with pytest.raises(ValueError, match="no factor"):
            net(torch.tensor([1.0, 2.0]), factor=None)


# --- backward hooks ----------------------------------------------------------------------------


def test_full_backward_hooks_see_and_change_gradients():
    net, seen = Net(), Recorder()
    net.a.register_full_backward_pre_hook(seen.hook("pre", keep=True))
    net.a.register_full_backward_hook(seen.hook("hook", keep=True))
    net.layers[0].register_full_backward_hook(lambda m, inputs, outputs: (inputs[0] * 3,))
    net.register_full_backward_pre_hook(lambda m, outputs: (outputs[0] * 2,))
    x = torch.tensor([[1.0, 1.0]], requires_grad=True)
    y = net(x)
    assert y.grad_fn.name() == "BackwardHookFunctionBackward"
    y.sum().backward()
    (first, arrived), (second, inputs, outputs) = seen
    assert (first, second) == ("pre", "hook")
    assert arrived[0].tolist() == outputs[0].tolist() == [[3.0, 3.0]]  # 1 · 2 · 0.5 · 3
    assert inputs[0].tolist() == x.grad.tolist() == [[3.0, 3.0]]


def test_full_backward_hook_without_gradients_for_inputs():
    net, seen = Net(), Recorder()
    net.a.register_full_backward_hook(seen.hook("hook", keep=True))
    with pytest.warns(UserWarning, match="Full backward hook is firing when gradients"):
        net(torch.tensor([[1.0, 1.0]])).sum().backward()
    ((_, inputs, outputs),) = seen
    assert inputs == (None,) and outputs[0].tolist() == [[0.5, 0.5]]


def test_the_two_kinds_of_backward_hooks_do_not_mix():
    net = Net()
    net.register_full_backward_hook(lambda m, i, o: None)
    with pytest.raises(RuntimeError, match="Cannot use both regular backward hooks and full"):
        net.register_backward_hook(lambda m, i, o: None)


def test_old_backward_hook():
    layer, seen = nn.Tanh(), Recorder()
    layer.register_backward_hook(seen.hook("old", keep=True))
    x = torch.tensor([0.0], requires_grad=True)
    layer(x).sum().backward()
    ((_, inputs, outputs),) = seen
    assert inputs[0].tolist() == [1.0] and outputs[0].tolist() == [1.0]


# --- state dicts -------------------------------------------------------------------------------


def test_state_dict_round_trip_and_metadata():
    net, other = Net(), Net()
    with torch.no_grad():
        other.a.weight.add_(1)
    state = other.state_dict()
    assert dict(state._metadata) == {
        name: {"version": 1} for name in ("", "a", "layers", "layers.0", "layers.1")
    }
    assert not state["a.weight"].requires_grad
    assert net.state_dict(keep_vars=True)["a.weight"] is net.a.weight
    weight = net.a.weight
    assert str(net.load_state_dict(state)) == "<All keys matched successfully>"
    assert net.a.weight is weight and weight.tolist() == other.a.weight.tolist()
    assert list(net.state_dict(prefix="x."))[:2] == ["x.count", "x.a.weight"]


def test_load_with_assign_takes_the_tensors():
    net, state = Net(), Net().state_dict()
    net.a.weight.requires_grad_(False)
    net.load_state_dict(state, assign=True)
    assert isinstance(net.a.weight, nn.Parameter) and not net.a.weight.requires_grad
    assert net.a.weight.data_ptr() == state["a.weight"].data_ptr()


def test_the_whole_text_of_a_mismatch():
    net = Net()
    state = OrderedDict(net.state_dict())
    state["x.y"] = 1
    state["a.q"] = torch.tensor([1.0])
    state["a.weight"] = torch.tensor([1.0, 2.0, 3.0])
    state["layers.0.weight"] = 5
    del state["layers.0.bias"]
    with pytest.raises(RuntimeError) as caught:
        net.load_state_dict(state)
    assert caught.value.diagnosis["message"] == (
        "Error(s) in loading state_dict for Net:\n"
        '\tMissing key(s) in state_dict: "layers.0.bias". \n'
        '\tUnexpected key(s) in state_dict: "x.y", "a.q". \n'
        "\tsize mismatch for a.weight: copying a param with shape torch.Size([3]) from checkpoint, "
        "the shape in current model is torch.Size([2, 2]).\n"
        '\tWhile copying the parameter named "layers.0.weight", expected torch.Tensor or '
        "Tensor-like object from checkpoint but received <class 'int'>"
    )
    assert str(caught.value).startswith(caught.value.diagnosis["message"] + "\n  what:")


def test_hooks_of_state_dicts():
    net, seen = Net(), Recorder()
    net.register_state_dict_pre_hook(seen.hook("before saving"))
    net.register_state_dict_post_hook(seen.hook("after saving"))
    net.register_load_state_dict_pre_hook(seen.hook("before loading"))
    net.register_load_state_dict_post_hook(seen.hook("after loading"))
    net.load_state_dict(net.state_dict())
    assert seen == ["before saving", "after saving", "before loading", "after loading"]
    net.register_load_state_dict_post_hook(lambda m, keys: 3)
    with pytest.raises(AssertionError, match="are not expected to return new values"):
        net.load_state_dict(net.state_dict())


def test_post_hook_may_forgive_missing_keys():
    net = Net()
    net.register_load_state_dict_post_hook(lambda m, keys: keys.missing_keys.clear())
    assert net.load_state_dict({}) == ([], [])


def test_extra_state():
    class Extra(nn.Module):
        kept = 5

        def get_extra_state(self):
            return self.kept

        def set_extra_state(self, state):
            self.kept = state

    m = Extra()
    assert m.state_dict() == {"_extra_state": 5}
    m.load_state_dict({"_extra_state": 7})
    assert m.kept == 7
    with pytest.raises(RuntimeError, match=r'Missing key\(s\) in state_dict: "_extra_state"'):
        m.load_state_dict({})
    with pytest.raises(RuntimeError, match=r'Unexpected key\(s\) in state_dict: "_extra_state"'):
        nn.ReLU().load_state_dict({"_extra_state": 7})


def test_positional_state_dict_arguments_warn():
    with pytest.warns(FutureWarning, match="Positional args are being deprecated"):
        assert list(nn.Linear(1, 1, bias=False).state_dict({}, "p.")) == ["p.weight"]


# --- containers --------------------------------------------------------------------------------


def kinds(container):
    return [type(m).__name__ for m in container]


def test_sequential_as_a_list():
    s = nn.Sequential(nn.ReLU(), nn.Tanh())
    assert kinds(s + s[:1]) == ["ReLU", "Tanh", "ReLU"]
    assert kinds(s * 2) == kinds(2 * s) == ["ReLU", "Tanh", "ReLU", "Tanh"]
    s += nn.Sequential(nn.Sigmoid())
    s.insert(1, nn.Identity())
    assert kinds(s) == ["ReLU", "Identity", "Tanh", "Sigmoid"] and list(s._modules) == list("0123")
    assert isinstance(s.pop(0), nn.ReLU)
    del s[:1]
    assert kinds(s) == ["Tanh", "Sigmoid"] and list(s._modules) == list("01")
    s *= 2
    assert kinds(s.extend([nn.ReLU()])) == ["Tanh", "Sigmoid", "Tanh", "Sigmoid", "ReLU"]


@pytest.mark.parametrize(
    "call, error, message",
    [
        (
            lambda s: s * 0,
            ValueError,
            "Non-positive multiplication factor 0 for "
            "<class 'torch.nn.modules.container.Sequential'>",
        ),
        (
            lambda s: s + [1],
            ValueError,
            "add operator supports only objects of Sequential class, but <class 'list'> is given.",
        ),
        (
            lambda s: s.insert(0, 1),
            AssertionError,
            "module should be of type: <class 'torch.nn.modules.module.Module'>",
        ),
        (lambda s: s.insert(9, nn.ReLU()), IndexError, "Index out of range: 9"),
        (lambda s: s.append(3), TypeError, "int is not a Module subclass"),
    ],
)
def test_sequential_errors(call, error, message):
    with pytest.raises(error) as caught:
        call(nn.Sequential(nn.ReLU()))
    assert str(caught.value) == message


def test_module_list():
    m = nn.ModuleList([nn.ReLU(), nn.ReLU()])
    m.insert(1, nn.Tanh())
    m += [nn.Tanh(), nn.Tanh()]
    assert repr(m) == (
        "ModuleList(\n  (0): ReLU()\n  (1): Tanh()\n  (2): ReLU()\n  (3-4): 2 x Tanh()\n)"
    )
    assert kinds(m[1:3]) == ["Tanh", "ReLU"] and kinds(m + m[:1])[-1] == "ReLU"
    del m[0]
    assert kinds(m) == ["Tanh", "ReLU", "Tanh", "Tanh"] and list(m._modules) == list("0123")
    with pytest.raises(IndexError, match="index 9 is out of range"):
        m[9]
    with pytest.raises(NotImplementedError, match=r"Module \[ModuleList\] is missing"):
        m(1)


def test_module_dict():
    m = nn.ModuleDict({"b": nn.ReLU(), "a": nn.Tanh()})
    assert list(m) == ["b", "a"] and "a" in m and len(m) == 2
    m.update([("c", nn.Sigmoid())])
    assert isinstance(m.pop("b"), nn.ReLU) and list(m.keys()) == ["a", "c"]
    with pytest.raises(ValueError, match="element #0 has length 1; 2 is required"):
        m.update([("x",)])


def test_parameter_list():
    m = nn.ParameterList([torch.tensor([1.0, 2.0]), torch.tensor([[1.0]])])
    m.append(7)
    assert repr(m) == (
        "ParameterList(\n"
        "    (0): Parameter containing: [torch.float32 of size 2]\n"
        "    (1): Parameter containing: [torch.float32 of size 1x1]\n"
        "    (2): Object of type: int\n)"
    )
    assert len(list(m.parameters())) == 2 and m[-1] == 7 and len(m[:2]) == 2
    with pytest.raises(RuntimeError, match="ParameterList should not be called."):
        m()


def test_parameter_dict():
    m = nn.ParameterDict({"b": torch.tensor([1.0]), "a": torch.tensor([2.0])})
    assert list(m) == ["a", "b"] and list(reversed(m)) == ["b", "a"]
    assert repr(m).splitlines()[1] == "    (a): Parameter containing: [torch.FloatTensor of size 1]"
    both = m | nn.ParameterDict({"c": torch.tensor([3.0])})
    assert list(both) == ["a", "b", "c"] and both["a"] is m["a"]
    assert m.popitem()[0] == "b" and m.get("z") is None and len(m) == 1
    with pytest.raises(TypeError, match="cannot be used as a key as it is not a string"):
        m[3]


# --- the rest ----------------------------------------------------------------------------------


def test_conversion_takes_gradients_along():
    layer = nn.Linear(2, 1)
    layer.weight.grad = torch.tensor([[1.0, 2.0]])
    layer.register_buffer("steps", torch.tensor(3))
    layer.double()
    assert layer.weight.grad.dtype == torch.float64
    assert layer.steps.dtype == torch.int64


def test_warnings_of_old_arguments():
    with pytest.warns(UserWarning, match="please use reduction='sum' instead"):
        assert nn.MSELoss(size_average=False).reduction == "sum"
    with pytest.warns(UserWarning, match="Implicit dimension choice for softmax"):
        nn.Softmax()(torch.tensor([[1.0, 2.0]]))
    with pytest.warns(FutureWarning, match="`nn.init.constant` is now deprecated in favor of"):
        nn.init.constant(torch.tensor([1.0]), 2.0)
    with pytest.warns(UserWarning, match="Initializing zero-element tensors is a no-op"):
        nn.Linear(0, 3)


def test_weighted_losses():
    a, b = torch.tensor([1.0, 2.0]), torch.tensor([0.0, 4.0])
    weight = torch.tensor([1.0, 3.0])
    assert nn.functional.mse_loss(a, b, weight=weight).item() == 13 / 4
    assert nn.functional.l1_loss(a, b, weight=weight, reduction="none").tolist() == [1.0, 6.0]
    with pytest.raises(ValueError, match="Weights and input must have the same size."):
        nn.functional.mse_loss(a, b, weight=torch.tensor([1.0]))


def test_initial_values():
    w = torch.tensor([[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    assert nn.init.eye_(w) is w and w.tolist() == [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    p = nn.Parameter(w)
    assert nn.init.ones_(p) is p and p.is_leaf
    assert nn.init.calculate_gain("leaky_relu", 0.0) == 2**0.5
    with pytest.raises(ValueError, match="Mode x not supported, please use one of"):
        nn.init.kaiming_uniform_(w, mode="x")
    with pytest.raises(ValueError, match="Fan in and fan out can not be computed"):
        nn.init.xavier_normal_(torch.tensor([1.0]))


def test_clipping():
    p = nn.Parameter(torch.tensor([1.0, 1.0]))
    p.grad = torch.tensor([3.0, 4.0])
    assert nn.utils.clip_grad_norm_(p, 1.0).item() == 5.0
    assert p.grad.tolist() == pytest.approx([0.6, 0.8])
    nn.utils.clip_grad_value_([p], 0.7)
    assert p.grad.tolist() == pytest.approx([0.6, 0.7])
    p.grad = torch.tensor([1.0, float("inf")])
    with pytest.raises(RuntimeError, match="The total norm of order 2.0 for gradients from"):
        nn.utils.clip_grad_norm_(p, 1.0, error_if_nonfinite=True)


def test_parameters_as_a_vector():
    net = nn.Linear(2, 1)
    nn.utils.vector_to_parameters(torch.tensor([1.0, 2.0, 3.0]), net.parameters())
    assert net.weight.tolist() == [[1.0, 2.0]] and net.bias.tolist() == [3.0]
    assert nn.utils.parameters_to_vector(net.parameters()).tolist() == [1.0, 2.0, 3.0]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_share_memory_is_seen_by_forked_processes():
    """As in Hogwild training: the child's step is the parent's."""
    model = nn.Linear(3, 2)
    before = model.weight.detach().clone()
    assert model.share_memory() is model and model.weight.is_shared()
    assert model.weight.untyped_storage().is_shared()
    assert torch.equal(model.weight, before) and not before.is_shared()

    def step():
        loss = model(torch.ones(4, 3)).sum()
        loss.backward()
        torch.optim.SGD(model.parameters(), 0.5).step()

    child = multiprocessing.get_context("fork").Process(target=step)
    child.start()
    child.join()
    assert child.exitcode == 0
    assert torch.allclose(model.weight, before - 0.5 * 4)
    turned = torch.arange(6.0).view(2, 3).t().share_memory_()
    assert turned.stride() == (1, 3) and turned.tolist() == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]


@pytest.mark.parametrize("p", [torch.tensor(1.0), np.float32(1.0), 1, True], ids=repr)
def test_dropout_takes_the_probabilities_that_pytorch_takes(p):
    x = torch.ones(3, requires_grad=True)
    for out in (nn.functional.dropout(x, p), torch.dropout(x, p, True)):
        assert out.tolist() == [0, 0, 0]
        assert out.grad_fn._saved_other.shape == ()  # not a mask: one zero, as PyTorch has it


def test_dropout_refuses_other_probabilities_and_inputs_by_name():
    x = torch.ones(3)
    for p in (torch.tensor([0.5]), torch.tensor(0.5, requires_grad=True)):
        with pytest.raises(TypeError, match=r"dropout\(\): argument 'p' \(position 2\) must be"):
            nn.functional.dropout(x, p)
    with pytest.raises(TypeError, match=r"argument 'input' \(position 1\) must be Tensor, not li"):
        nn.functional.dropout([1.0])


@pytest.mark.parametrize(
    ("name", "args", "argument"),
    [
        ("conv2d", (torch.ones(1, 1, 2, 2),), "stride"),
        ("conv2d", (torch.ones(1, 1, 2, 2),), "padding"),
        ("max_pool2d", (2,), "stride"),
        ("avg_pool2d", (2,), "stride"),
    ],
)
def test_lists_of_sizes_are_read_at_every_call(name, args, argument):
    """What was checked once is remembered, but a list may be another one by then."""
    function, x, sizes = getattr(nn.functional, name), torch.ones(1, 1, 6, 6), [1, 1]
    for change in (1, 0, 1):
        sizes[0] = change + (argument == "stride")
        first = function(x, *args, **{argument: sizes})
        assert first.shape == function(x, *args, **{argument: tuple(sizes)}).shape
        again = tuple(sizes)
        for _ in range(2):
            assert function(x, *args, **{argument: again}).shape == first.shape
