"""Users may put whatever attributes they like on tensors and on a Function's ctx."""

import copy
import io

import pytest

import tapegrad as torch
from tapegrad import diagnose

# What the fields of tensors and nodes were called once, and what users call things.
FIELDS = """
    array cell cut gradient node retained slot special view_of wants_grad version_cell
    code lasti module op edges edge_slots kept cells fixes outputs hooks leaves seq frees packed
    on_tensors freed_by trace duals notes detached made gives_away converts chain pull release
    checked reopened
""".split()
OTHERS = """
    version base kind storage meta home owner parent children level label tag info config state step
    scale count index mask eps alpha group args kwargs func inputs output saved weight bias fn names
    x y value key id path line source graph variable tensors pending order visited dirty
""".split()
NAMES = FIELDS + OTHERS
# On a ctx these are free too: a tensor has them.
ON_CTX = [*NAMES, *"is_leaf shape dtype device dim size data input grad".split()]


def give(what, names=NAMES):
    for name in names:
        setattr(what, name, f"users {name}")
    return what


def check(what, names=NAMES):
    assert {name: getattr(what, name) for name in names} == {n: f"users {n}" for n in names}


def test_a_plain_tensor_has_any_attribute():
    t = give(torch.arange(6.0).reshape(2, 3))
    check(t)
    t += 1
    t[0] = 7
    assert t.tolist() == [[7, 7, 7], [4, 5, 6]] and (t * 2).sum().item() == 72
    assert t.t().shape == (3, 2) and t.view(6)[3:].tolist() == [4, 5, 6]
    assert "7., 7., 7." in repr(t) and t._version == 2
    check(t)
    assert sorted(vars(t)) == sorted(NAMES)
    assert {"slot", "_slot", "_array", "_node"}.isdisjoint(dir(torch.ones(2)))
    assert not hasattr(t * 2, "array") and not hasattr(t.detach(), "node")
    for name in NAMES:
        delattr(t, name)
    assert vars(t) == {}


def test_leaves_parameters_and_results_have_any_attribute():
    for make in (
        lambda: torch.ones(3, requires_grad=True),
        lambda: torch.nn.Parameter(torch.ones(3)),
    ):
        x = give(make())
        y = give(x * x)
        y.retain_grad()
        seen = []
        y.register_hook(lambda g, seen=seen: seen.append(g.tolist()))
        z = give((y * 3).sum())
        z.backward(retain_graph=True)
        assert x.grad.tolist() == [6, 6, 6] and y.grad.tolist() == seen[0] == [3, 3, 3]
        z.backward()
        assert x.grad.tolist() == [12, 12, 12]
        give(x.grad)
        torch.optim.SGD([x], lr=0.25).step()
        assert x.tolist() == [-2, -2, -2]
        for t in (x, y, z, x.grad):
            check(t)


def test_views_and_writes_have_any_attribute():
    base = give(torch.ones(2, 3, requires_grad=True) * 2)
    view = give(base[0])
    other = give(base.view(6))
    view.mul_(5)
    assert base.tolist() == [[10, 10, 10], [2, 2, 2]] and other.tolist() == [10, 10, 10, 2, 2, 2]
    assert view._base is base and base.grad_fn.name().endswith("CopySlices")
    (got,) = torch.autograd.grad((other**2).sum(), base, retain_graph=True)
    assert got.tolist() == [[20, 20, 20], [4, 4, 4]]
    x = give(torch.ones(3, requires_grad=True))
    y = give(x * 1)
    saved = y.exp()
    saved.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        saved.sum().backward()
    for t in (base, view, other, x, y):
        check(t)


def test_second_derivatives():
    x = give(torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True))
    (first,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(give(first).sum(), x)
    assert first.tolist() == [3, 12] and second.tolist() == [6, 12]
    check(x)
    check(first)


def test_buffers_and_parameters_of_modules():
    model = torch.nn.Linear(2, 2)
    give(model.weight)
    model.register_buffer("mean", give(torch.full((2,), 3.0)))
    out = (model(torch.ones(1, 2)) + model.mean).sum()
    out.backward()
    assert model.weight.grad.tolist() == [[1, 1], [1, 1]]
    twin = copy.deepcopy(model)
    assert torch.equal(twin.weight, model.weight) and twin.mean.tolist() == [3, 3]
    model.load_state_dict(twin.state_dict())
    check(model.weight)
    assert not hasattr(twin.weight, "array")  # a copy of a Parameter has its values only
    check(model.mean)
    check(twin.mean)


@pytest.mark.parametrize("weights_only", [True, False])
def test_copies_and_files_keep_attributes(weights_only):
    plain = give(torch.arange(3.0))
    leaf = give(torch.arange(3.0, requires_grad=True))
    parameter = give(torch.nn.Parameter(torch.arange(3.0)))
    file = io.BytesIO()
    torch.save([plain, leaf, parameter], file)
    file.seek(0)
    loaded = torch.load(file, weights_only=weights_only)
    for t in (*loaded, *copy.deepcopy([plain, leaf])):
        assert t.tolist() == [0, 1, 2]
        check(t)
    for t in (*loaded[1:], copy.deepcopy(parameter), copy.copy(leaf)):
        (t * t).sum().backward()
        assert t.grad.tolist() == [0, 2, 4]


class Cube(torch.autograd.Function):
    """x cubed, with everything on its ctx."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        give(ctx, ON_CTX)
        return x**3

    @staticmethod
    def backward(ctx, grad):
        check(ctx, ON_CTX)
        (x,) = ctx.saved_tensors
        return grad * 3 * x**2


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a_ctx_has_any_attribute(dtype):
    x = torch.tensor([1.0, 2.0], dtype=dtype, requires_grad=True)
    y = Cube.apply(x)
    check(y.grad_fn, ON_CTX)
    assert y.grad_fn.name() == "CubeBackward" and len(y.grad_fn.next_functions) == 1
    (y * 2).sum().backward(retain_graph=True)
    assert x.grad.tolist() == [6, 24]
    (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    assert first.tolist() == [3, 12] and second.tolist() == [6, 12]
    y.sum().backward()
    check(y.grad_fn, ON_CTX)
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.sum().backward()


@pytest.mark.parametrize("name", ON_CTX)
def test_each_name_alone_is_free(name):
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, n):
            setattr(ctx, name, n)
            return x * 2, x + 1

        @staticmethod
        def backward(ctx, grad, other):
            return grad * getattr(ctx, name) + other, None

    x = torch.ones(3, requires_grad=True)
    y, z = Double.apply(x, 2)
    if name in NAMES:
        setattr(y, name, 5)
    seen = []
    y.grad_fn.register_hook(lambda *args: seen.append(args))
    (y + z).sum().backward()
    assert x.grad.tolist() == [3, 3, 3] and getattr(z.grad_fn, name) == 2 and len(seen) == 1


def test_setup_context_and_forward_mode():
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(x, factor):
            return x * factor

        @staticmethod
        def setup_context(ctx, inputs, output):
            give(ctx, ON_CTX)
            ctx.factor = inputs[1]

        @staticmethod
        def backward(ctx, grad):
            check(ctx, ON_CTX)
            return grad * ctx.factor, None

        @staticmethod
        def jvp(ctx, tangent, _):
            check(ctx, ON_CTX)
            return tangent * ctx.factor

        @staticmethod
        def vmap(info, dims, x, factor):
            return Scale.apply(x, factor), dims[0]

    x = torch.arange(3.0)
    assert torch.func.grad(lambda t: Scale.apply(t, 4.0).sum())(x).tolist() == [4, 4, 4]
    _, slope = torch.func.jvp(lambda t: Scale.apply(t, 4.0), (x,), (torch.ones(3),))
    assert slope.tolist() == [4, 4, 4]
    rows = torch.func.vmap(torch.func.grad(lambda t: Scale.apply(t, 4.0).sum()))(x.expand(2, 3))
    assert rows.tolist() == [[4, 4, 4]] * 2


def test_a_subclass_passes_its_attributes_by():
    class Tagged(torch.Tensor):
        array = "of the class"

        @property
        def node(self):
            return "a property"

    t = torch.ones(3, requires_grad=True).as_subclass(Tagged)
    free = [name for name in NAMES if name != "node"]
    give(t, free)
    y = t * 3
    y.sum().backward()
    assert type(y) is Tagged and (y.array, y.node, t.node) == ("of the class", *["a property"] * 2)
    assert y.tolist() == [3, 3, 3]
    check(t, free)


@pytest.mark.parametrize(
    "name",
    "name grad_fn is_leaf shape dtype device ndim layout T mT H itemsize nbytes output_nr "
    "retains_grad is_cuda is_cpu is_meta _version _base".split(),
)
def test_what_pytorch_does_not_let_be_set(name):
    for t in (torch.ones(2, 2), torch.nn.Parameter(torch.ones(2, 2))):
        with pytest.raises(AttributeError) as refused:
            setattr(t, name, 5)
        expected = f"attribute '{name}' of 'torch._C.TensorBase' objects is not writable"
        assert str(refused.value) == expected
        assert t.tolist() == [[1, 1], [1, 1]]


def test_diagnose_is_not_misled():
    x = give(torch.ones(3, requires_grad=True))
    h = give(Cube.apply(x))
    loss = give((h * 2).sum())
    graph = diagnose.graph(loss)
    assert [n["op"] for n in graph.nodes] == [
        "SumBackward0",
        "MulBackward0",
        "CubeBackward",
        "AccumulateGrad",
    ]
    assert diagnose.memory(loss).nodes == 4
    assert diagnose.why(x).cause == "no backward yet"
    loss.backward()
    assert x.grad.tolist() == [6, 6, 6]
    assert "grad" in str(diagnose.why(x))


def test_compiled_steps_and_swapped_tensors():
    step = torch.compile(lambda t: (t * t).sum())
    x = give(torch.ones(3, requires_grad=True))
    for _ in range(4):
        x.grad = None
        step(x).backward()
        assert x.grad.tolist() == [2, 2, 2]
    check(x)
    a, b = give(torch.ones(2)), torch.zeros(3)
    torch.utils.swap_tensors(a, b)
    assert a.tolist() == [0, 0, 0] and b.tolist() == [1, 1] and vars(a) == {}
    check(b)
