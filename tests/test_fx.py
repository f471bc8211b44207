"""torch.fx: what is traced, printed and run. The expected texts are PyTorch's."""

import copy
import math
import operator
import pickle

import pytest

import tapegrad as torch
import tapegrad.nn.functional as F
from tapegrad import fx, nn


@fx.wrap
def helper(x, n):
    return x * n


class Everything(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.p = nn.Parameter(torch.ones(4))
        self.seq = nn.Sequential(nn.Conv2d(1, 1, 1), nn.ReLU())
        self.register_buffer("buf", torch.ones(4))

    def forward(self, x, y=None, *, z: int = 3):
        a = F.relu(self.lin(x) + self.p)
        b = a.view(a.size(0), -1)
        b = b + 1
        c = torch.cat([b, b * self.buf], dim=1)
        d = helper(c[:, 0:2], 2)
        h = -d.chunk(2, dim=1)[0].neg() @ torch.ones(1, 3)
        k = self.seq[1](math.pi * h)
        return {"k": k, "h": (h, 2 - k)}, d.shape[0], abs(k), 2**k


CODE = """
torch.fx._symbolic_trace.wrap("test_fx_helper")

def forward(self, x, y = None, z : int = 3):
    lin = self.lin(x);  x = None
    p = self.p
    add = lin + p;  lin = p = None
    relu = torch.nn.functional.relu(add, inplace = False);  add = None
    size = relu.size(0)
    view = relu.view(size, -1);  relu = size = None
    add_1 = view + 1;  view = None
    buf = self.buf
    mul = add_1 * buf;  buf = None
    cat = torch.cat([add_1, mul], dim = 1);  add_1 = mul = None
    getitem = cat[(slice(None, None, None), slice(0, 2, None))];  cat = None
    helper = test_fx_helper(getitem, 2);  getitem = None
    chunk = helper.chunk(2, dim = 1)
    getitem_1 = chunk[0];  chunk = None
    neg = getitem_1.neg();  getitem_1 = None
    neg_1 = -neg;  neg = None
    _tensor_constant0 = self._tensor_constant0
    matmul = neg_1 @ _tensor_constant0;  neg_1 = _tensor_constant0 = None
    mul_1 = 3.141592653589793 * matmul
    seq_1 = getattr(self.seq, "1")(mul_1);  mul_1 = None
    sub = 2 - seq_1
    getattr_1 = helper.shape;  helper = None
    getitem_2 = getattr_1[0];  getattr_1 = None
    abs_1 = _operator_abs(seq_1)
    pow_1 = 2 ** seq_1
    return ({'k': seq_1, 'h': (matmul, sub)}, getitem_2, abs_1, pow_1)
    """


def test_code_is_pytorchs_text():
    assert fx.symbolic_trace(Everything()).code.replace(__name__, "test_fx") == CODE


def test_a_traced_module_computes_the_same_with_gradients():
    module = Everything()
    traced = fx.symbolic_trace(module)
    x = torch.randn(3, 4)
    wanted, size, absolute, power = module(x)
    for run in (traced, fx.Interpreter(traced).run, copy.deepcopy(traced)):
        got, got_size, got_absolute, got_power = run(x)
        assert torch.equal(got["k"], wanted["k"]) and torch.equal(got["h"][1], wanted["h"][1])
        assert got_size == size and torch.equal(got_absolute, absolute)
        assert torch.equal(got_power, power)
    power.sum().backward()
    wanted_grad = module.lin.weight.grad.clone()
    module.zero_grad()
    traced(x)[3].sum().backward()
    assert torch.equal(module.lin.weight.grad, wanted_grad)


def test_a_traced_module_is_pickled():
    traced = fx.symbolic_trace(nn.Sequential(nn.Linear(2, 3), nn.ReLU()))
    again = pickle.loads(pickle.dumps(traced))
    x = torch.randn(4, 2)
    assert torch.equal(again(x), traced(x)) and again.code == traced.code


def test_a_printed_graph_is_pytorchs_text():
    class Whole(fx.Tracer):
        def is_leaf_module(self, m, module_qualified_name):
            return False

    module = nn.Sequential(nn.Softmax(1), nn.Sequential(nn.ReLU()))
    graph = Whole().trace(module)
    assert str(graph) == (
        "graph():\n"
        "    %input_1 : [num_users=1] = placeholder[target=input]\n"
        "    %softmax : [num_users=1] = call_function[target=torch.nn.functional.softmax]"
        "(args = (%input_1,), kwargs = {dim: 1, _stacklevel: 5, dtype: None})\n"
        "    %relu : [num_users=1] = call_function[target=torch.nn.functional.relu]"
        "(args = (%softmax,), kwargs = {inplace: False})\n"
        "    return relu"
    )


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (lambda x: x if x.sum() > 0 else -x, fx.proxy.TraceError, "inputs to control flow"),
        (lambda x: [i for i in x], fx.proxy.TraceError, "Proxy object cannot be iterated"),
        (lambda x: len(x), RuntimeError, "'len' is not supported in symbolic tracing"),
        (lambda x: int(x), TypeError, "not 'Proxy'"),
    ],
)
def test_what_cannot_be_traced(function, error, message):
    with pytest.raises(error, match=message):
        fx.symbolic_trace(function)


def test_stars_and_unpacking():
    def f(x, *args, **kw):
        a, b = x.chunk(2)
        return a + b + args[0]

    assert fx.symbolic_trace(f).code == (
        "\n\n\ndef forward(self, x, *args, **kw):\n    _args = args\n    _kw = kw\n"
        "    chunk = x.chunk(2);  x = None\n    getitem = chunk[0]\n"
        "    getitem_1 = chunk[1];  chunk = None\n"
        "    add = getitem + getitem_1;  getitem = getitem_1 = None\n"
        "    getitem_2 = _args[0];  _args = None\n"
        "    add_1 = add + getitem_2;  add = getitem_2 = None\n    return add_1\n    "
    )


def test_editing_a_graph():
    graph = fx.Graph()
    x = graph.placeholder("x")
    y = graph.call_function(torch.relu, (x,))
    out = graph.output(y)
    with pytest.raises(RuntimeError, match="Tried to erase Node x but it still had 1 users"):
        graph.erase_node(x)
    with graph.inserting_before(out):
        z = graph.call_method("neg", (y,))
    y.replace_all_uses_with(z, delete_user_cb=lambda n: n is not z)
    graph.lint()
    module = fx.GraphModule({}, graph)
    assert torch.equal(module(torch.tensor([-1.0, 2.0])), torch.tensor([-0.0, -2.0]))
    assert [n.name for n in graph.nodes] == ["x", "relu", "neg", "output"]
    with graph.inserting_after(y):
        graph.call_function(operator.add, (y, 1))
    assert len(graph.nodes) == 5
    assert graph.eliminate_dead_code() and len(graph.nodes) == 4
    with pytest.raises(TypeError, match="does not support mutation"):
        graph.call_function(torch.cat, ([x, y],)).args[0].append(1)


def test_replace_pattern_and_transformer():
    traced = fx.symbolic_trace(lambda x: torch.relu(torch.relu(x)) + 1)
    found = fx.replace_pattern(traced, lambda x: torch.relu(x), lambda x: torch.sigmoid(x) * x)
    assert len(found) == 2
    x = torch.randn(3)
    once = torch.sigmoid(x) * x
    assert torch.equal(traced(x), torch.sigmoid(once) * once + 1)

    class Tanh(fx.Transformer):
        def call_function(self, target, args, kwargs):
            target = torch.tanh if target is torch.sigmoid else target
            return super().call_function(target, args, kwargs)

    once = torch.tanh(x) * x
    assert torch.equal(Tanh(traced).transform()(x), torch.tanh(once) * once + 1)


def test_a_concrete_argument_is_asserted():
    traced = fx.symbolic_trace(lambda x, flag: x if flag else -x, concrete_args={"flag": False})
    assert torch.equal(traced(torch.ones(2), False), -torch.ones(2))
    with pytest.raises(AssertionError, match="flag has been specialized to have value False"):
        traced(torch.ones(2), True)


def test_a_stand_in_outside_of_a_trace():
    graph = fx.Graph()
    x = fx.Proxy(graph.placeholder("x"))
    y = F.relu(torch.einsum("ij,jk->ik", x, x))
    graph.output(torch.cat([y, y.T]).node)
    assert graph.find_nodes(op="call_function", target=torch.einsum)[0].args[0] == "ij,jk->ik"
    assert len(graph.find_nodes(op="call_function", target=torch.einsum)[0].args) == 3
    m = torch.tensor([[1.0, -2.0], [3.0, 4.0]])
    out = F.relu(m @ m)
    assert torch.equal(fx.GraphModule({}, graph)(m), torch.cat([out, out.T]))
