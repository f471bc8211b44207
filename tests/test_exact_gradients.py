"""Gradients in corners where a plausible answer is not PyTorch's; PyTorch 2.13 was asked."""

import warnings
from collections import OrderedDict

import numpy as np
import pytest

import tapegrad as torch
from tapegrad.autograd import forward_ad as fwAD
from tapegrad.autograd.function import once_differentiable

pytestmark = pytest.mark.filterwarnings("ignore:Sparse:UserWarning")


def same(result, expected):
    np.testing.assert_array_equal(np.array(result.tolist()), np.array(expected))


def double(values):
    return torch.tensor(values, dtype=torch.float64)


# ---------------------------------------------------------------------- sparse gradients


class Answer(torch.autograd.Function):
    """Its gradient is the second argument, whatever arrives."""

    @staticmethod
    def forward(ctx, x, answer):
        ctx.save_for_backward(answer)
        return x * 1

    @staticmethod
    def backward(ctx, g):
        return ctx.saved_tensors[0], None


def test_functions_return_and_save_sparse_gradients():
    places = torch.sparse_coo_tensor(torch.tensor([[0, 2]]), torch.tensor([1.0, 2.0]), (3,))
    x = torch.zeros(3, requires_grad=True)
    Answer.apply(x, places).sum().backward()
    assert x.grad.is_sparse
    same(x.grad.to_dense(), [1.0, 0.0, 2.0])
    for first, second in ((places, torch.ones(3)), (torch.ones(3), places)):
        x = torch.zeros(3, requires_grad=True)
        (Answer.apply(x, first) + Answer.apply(x, second)).sum().backward()
        assert not x.grad.is_sparse
        same(x.grad, [2.0, 1.0, 3.0])


def test_a_sparse_gradient_before_a_node_that_is_no_leaf():
    places = torch.sparse_coo_tensor(torch.tensor([[1]]), torch.tensor([4.0]), (2,))
    x = torch.ones(2, requires_grad=True)
    Answer.apply(x * 3, places).sum().backward()
    same(x.grad.to_dense() if x.grad.is_sparse else x.grad, [0.0, 12.0])


@pytest.mark.filterwarnings("ignore:Using backward.. with create_graph=True")
@pytest.mark.parametrize("create_graph", [False, True])
def test_backward_with_a_sparse_seed_and_a_sparse_grad(create_graph):
    def places():
        return torch.sparse_coo_tensor(torch.tensor([[1, 1]]), torch.tensor([1.0, 1.0]), (2,))

    for grad, seed, wanted in (
        (places(), torch.tensor([1.5, 1.5]), [1.5, 3.5]),
        (places(), places(), [0.0, 4.0]),
        (None, places(), [0.0, 2.0]),
    ):
        leaf = torch.tensor([1.5, 1.5], requires_grad=True)
        leaf.grad = grad
        leaf.backward(seed, create_graph=create_graph)
        same(leaf.grad.to_dense() if leaf.grad.is_sparse else leaf.grad.detach(), wanted)


def test_grad_with_respect_to_a_sparse_tensor():
    s = torch.tensor([[1.0, 0.0], [0.0, 3.0]]).to_sparse().requires_grad_()
    (g,) = torch.autograd.grad((s.to_dense() ** 2).sum(), s)
    assert g.is_sparse
    same(g.to_dense(), [[2.0, 0.0], [0.0, 6.0]])
    seen = []
    doubled = s * 2
    doubled.register_hook(lambda g: seen.append(g.to_dense().tolist()))
    doubled.to_dense().sum().backward()
    assert seen == [[[1.0, 0.0], [0.0, 1.0]]]


def test_sparse_gradient_of_gather_by_a_scalar():
    x = torch.ones(4, requires_grad=True)
    (g,) = torch.autograd.grad(torch.gather(x, 0, torch.tensor(2), sparse_grad=True), x)
    same(g.to_dense(), [0.0, 0.0, 1.0, 0.0])


def test_a_sparse_gradient_keeps_its_indices():
    table = torch.nn.Embedding(5, 2, sparse=True)
    rows = torch.tensor([3, 1])
    table(rows).sum().backward()
    rows[0] = 4
    same(table.weight.grad._indices(), [[3, 1]])


# ---------------------------------------------------------------------- gradcheck


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
def test_gradcheck_of_sparse_inputs(layout):
    def sparse():
        return double([[1, 0, 2], [0, 3, 0]]).to_sparse(layout=layout).requires_grad_()

    check = torch.autograd.gradcheck
    for fast in (False, True):
        assert check(lambda s: s.to_dense(), (sparse(),), masked=True, fast_mode=fast)
    assert not check(lambda s: s.to_dense(), (sparse(),), masked=False, raise_exception=False)
    assert check(lambda s: s.to_dense(), (sparse(),), masked=False, fast_mode=True)
    with pytest.raises(ValueError, match="Sparse output is not supported at gradcheck yet"):
        check(lambda s: s * 2, (sparse(),), masked=True)


def test_gradcheck_of_dense_and_sparse_inputs_together():
    dense = double([[1, 2], [3, 4]]).requires_grad_()
    sparse = double([[1, 0], [0, 5]]).to_sparse().requires_grad_()
    assert torch.autograd.gradcheck(lambda a, b: a * b.to_dense(), (dense, sparse), masked=True)


def test_gradcheck_notices_layouts_and_hooks():
    class ToSparse(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            return g.to_sparse()

    x = torch.ones(2, dtype=torch.float64, requires_grad=True)
    with pytest.raises(RuntimeError, match="grad is incorrect layout"):
        torch.autograd.gradcheck(ToSparse.apply, (x,))

    def refuses_none(x):
        def hook(g):
            if g is None:
                raise RuntimeError("nothing came")

        y = x.clone()
        y.register_hook(hook)
        return y

    with (
        pytest.warns(UserWarning, match="New undefined gradient support checking"),
        pytest.raises(RuntimeError, match="Expected backward function to handle undefined"),
    ):
        torch.autograd.gradcheck(refuses_none, (x,))


def test_gradcheck_counts_of_forward_mode():
    seen = []

    class Both(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            seen.append(x.requires_grad or y.requires_grad)
            return x.clone(), y.clone()

        @staticmethod
        def jvp(ctx, a, b):
            seen.append((a is None, b is None))
            return a, b

    x, y = (torch.ones(1, dtype=torch.float64, requires_grad=True) for _ in range(2))
    options = {"check_forward_ad": True, "check_backward_ad": False}
    for more, count in (({"check_undefined_grad": False}, 2), ({}, 6)):
        seen.clear()
        torch.autograd.gradcheck(Both.apply, (x, y), **options, **more)
        assert sum(isinstance(s, tuple) for s in seen) == count
    seen.clear()
    torch.autograd.gradcheck(Both.apply, (x, y), check_batched_forward_grad=True, **options)
    assert sum(isinstance(s, tuple) for s in seen) == 12


# ---------------------------------------------------------------------- Functions


def test_saved_tensors_are_the_tensors_that_were_saved():
    seen = []

    class Keep(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            return x * y

        @staticmethod
        def backward(ctx, g):
            seen.extend(ctx.saved_tensors)
            return g, None

    x, y = torch.ones(2, requires_grad=True), torch.ones(2)
    Keep.apply(x, y).sum().backward()
    assert seen[0] is x
    assert seen[1] is y


def test_warnings_of_functions():
    class Old(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            made = x * 2
            ctx.mark_dirty(made)
            return made

        @staticmethod
        def backward(ctx, g):
            return g * len(ctx.saved_variables)

    x = torch.ones(2, requires_grad=True)
    with pytest.warns(UserWarning, match="received a tensor that was not an input"):
        y = Old.apply(x)
    with pytest.warns(DeprecationWarning, match="'saved_variables' is deprecated"):
        y.sum().backward()


def test_gradients_of_non_differentiable_outputs_can_be_none():
    seen = []

    class Two(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            made = x * 2, x * 3
            ctx.mark_non_differentiable(made[1])
            ctx._materialize_non_diff_grads = False
            return made

        @staticmethod
        def backward(ctx, g, h):
            seen.append(h)
            return g

    Two.apply(torch.ones(1, requires_grad=True))[0].backward()
    assert seen == [None]


def test_the_node_of_once_differentiable():
    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, number, b):
            ctx.save_for_backward(a, b)
            return a * b + number

        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            a, b = ctx.saved_tensors
            return g * b, None, g * a

    a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    product = Product.apply(a, 2, b)
    seed = torch.ones(2, requires_grad=True)
    first, second = torch.autograd.grad(product, (a, b), seed, create_graph=True)
    assert first.grad_fn is second.grad_fn
    names = [n and n.name() for n, _ in first.grad_fn.next_functions]
    assert names == ["torch::autograd::AccumulateGrad", None, "torch::autograd::AccumulateGrad"]
    with pytest.raises(RuntimeError, match="differentiate twice"):
        second.sum().backward()


# ---------------------------------------------------------------------- tensors and nodes


def test_set_cuts_a_leaf_off_from_what_was_computed_before():
    x = torch.ones(2, requires_grad=True)
    y = x.clone()
    with torch.no_grad():
        x.set_(torch.zeros(2))
    with pytest.raises(RuntimeError, match="not have been used in the graph"):
        torch.autograd.grad(y.sum(), x)


def test_attributes_that_cannot_be_deleted():
    x = torch.ones(2, requires_grad=True)
    del x.grad
    with pytest.raises(RuntimeError, match="Deleting tensor data is not allowed"):
        del x.data
    with pytest.raises(RuntimeError, match="Deletion of _backwards_hooks not allowed"):
        del x._backward_hooks
    with pytest.raises(AttributeError, match="'_base' of 'torch._C.TensorBase' objects is not wr"):
        del x._base


def test_hooks_can_be_put_on_a_tensor_without_history():
    x = torch.ones(2)
    x._backward_hooks = OrderedDict(a=print)
    assert list(x._backward_hooks) == ["a"]


def test_saved_tensors_are_made_by_nodes_only():
    with pytest.raises(RuntimeError, match="Trying to create a SavedTensor object from Python"):
        torch.autograd.SavedTensor()
    saved = torch.ones(2, requires_grad=True).exp().grad_fn._raw_saved_result
    with pytest.raises(TypeError, match="incompatible function arguments"):
        saved.register_hooks(1, 2)


def test_the_order_of_nodes_can_be_changed():
    x = torch.ones(3, requires_grad=True)
    a, b = x * 2, x * 3
    c = a + b
    assert c.grad_fn._sequence_nr() > b.grad_fn._sequence_nr()
    a.grad_fn._set_sequence_nr(b.grad_fn._sequence_nr() + 10)
    order = []
    for name, t in (("a", a), ("b", b)):
        t.register_hook(lambda g, name=name: order.append(name))
    c.sum().backward()
    assert order == ["a", "b"]


def test_questions_about_the_pass_that_is_going_on():
    _C = torch._C
    a = torch.ones(2, requires_grad=True)
    b = a * 2
    seen = []

    def hook(g):
        order = _C._current_graph_task_execution_order()
        seen.append([node.name().split(" ")[-1] for node in order])
        seen.append(_C._will_engine_execute_node(b.grad_fn))
        seen.append(_C._will_engine_execute_node(other))
        seen.append(_C._autograd._get_current_graph_task_keep_graph())

    y = b.sin()
    other = (a * 3).grad_fn
    y.register_hook(hook)
    with torch.autograd.set_multithreading_enabled(False):
        y.backward(torch.ones(2), retain_graph=True)
    names = ["SinBackward0", "MulBackward0", "torch::autograd::AccumulateGrad"]
    assert seen == [names, True, False, True]
    for question, sentence in (
        (_C._current_graph_task_execution_order, "should only be called during the backward pass"),
        (lambda: _C._will_engine_execute_node(y.grad_fn), "only be called during the backward"),
        (lambda: _C._will_engine_execute_node(y), "expects an grad_fn"),
    ):
        with pytest.raises(RuntimeError, match=sentence):
            question()


def test_a_warning_as_an_error_does_not_hide_the_error(capsys):
    a = torch.ones(3, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.autograd.detect_anomaly():
            b = a + 1
            c = b**2
            b += 1
            warnings.simplefilter("error")
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                torch.autograd.grad(c.sum(), a)
    assert "Error detected in PowBackward0" in capsys.readouterr().err


def test_hessian_of_a_function_without_gradient():
    with pytest.raises(RuntimeError, match="Output 0 of the user-provided function does not req"):
        torch.autograd.functional.hessian(lambda x: x.detach().sum(), torch.ones(2), strict=True)


# ---------------------------------------------------------------------- forward mode


@pytest.mark.parametrize(
    ("write", "tangent"),
    [
        (lambda view, x: view.add_(x), [[1.0, 3.0], [2.0, 5.0]]),
        (lambda view, x: view.mul_(x), [[1.0, 6.0], [6.0, 20.0]]),
        (lambda view, x: view.copy_(x), [[1.0, 3.0], [2.0, 5.0]]),
    ],
)
def test_a_dual_written_to_a_view(write, tangent):
    base = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    with fwAD.dual_level():
        view = base.t()
        write(view, fwAD.make_dual(torch.ones(2, 2), torch.tensor([[1.0, 2.0], [3.0, 5.0]])))
        same(fwAD.unpack_dual(base).tangent, tangent)
        view *= 2
        same(fwAD.unpack_dual(base).tangent, np.array(tangent) * 2)
        same(fwAD.unpack_dual(view).tangent, np.array(tangent).T * 2)


def test_views_see_what_another_view_made_dual():
    x, t = torch.ones(3), torch.tensor([1.0, 2.0, 3.0])
    with fwAD.dual_level():
        for write in (0, 1, 2):
            base = torch.zeros(3)
            views = base[...], base.view(3), base
            views[write].copy_(fwAD.make_dual(x, t))
            for view in views:
                view.mul_(2)
            same(fwAD.unpack_dual(base).tangent, [8.0, 16.0, 24.0])


def test_tangents_without_elements():
    x = torch.zeros(0, 2, 5)
    with fwAD.dual_level():
        y = fwAD.make_dual(x, torch.zeros(0, 5, 2).transpose(1, 2))
        assert fwAD.unpack_dual(y * 2).tangent.shape == (0, 2, 5)


def test_detach_in_place_takes_the_tangent():
    with fwAD.dual_level():
        x = fwAD.make_dual(torch.ones(2), torch.ones(2)).clone()
        x.detach_()
        assert fwAD.unpack_dual(x * 2).tangent is None


def test_a_tangent_that_is_conjugated_otherwise_is_copied():
    x = torch.ones(2, dtype=torch.complex64)
    with fwAD.dual_level():
        for t, copied in ((x.clone(), False), (x.clone().conj(), True)):
            assert (fwAD.unpack_dual(fwAD.make_dual(x, t)).tangent is not t) == copied


# ---------------------------------------------------------------------- bags of embeddings


def test_what_the_last_offset_says():
    # Where PyTorch adds row by row, the last bag ends with the indices.
    table = torch.arange(8.0).reshape(4, 2)
    rows, offsets = torch.tensor([0, 1, 2]), torch.tensor([0, 2, 2])
    bag = torch.nn.functional.embedding_bag
    by_row = {"include_last_offset": True, "mode": "sum"}
    same(bag(rows, table.double(), offsets, **by_row), [[2.0, 4.0], [4.0, 5.0]])
    same(bag(rows, table, offsets, padding_idx=3, **by_row), [[2.0, 4.0], [4.0, 5.0]])
    same(bag(rows, table, offsets, **by_row), [[2.0, 4.0], [0.0, 0.0]])
    with pytest.raises(RuntimeError, match="Expected idx >= 0 && idx < num_embeddings but found"):
        bag(torch.tensor([[9]]), table.double())
    with pytest.raises(RuntimeError, match="Index 0 of input takes value 9 which is not in"):
        bag(torch.tensor([[9]]), table)


def test_means_and_weights_of_half_precision_bags():
    # 2051 rounds to 2052 in float16 before it is divided; products are not rounded.
    table = torch.tensor([[1.0], [2048.0], [2.0]], dtype=torch.float16)
    mean = torch.nn.functional.embedding_bag(torch.tensor([[0, 1, 2]]), table, mode="mean")
    assert mean.item() == 684.0
    x = torch.tensor([[1.0078125, 1.0]], dtype=torch.bfloat16)
    weights = torch.ones(1, 1, dtype=torch.bfloat16, requires_grad=True)
    out = torch.nn.functional.embedding_bag(
        torch.tensor([[0]]), x, mode="sum", per_sample_weights=weights
    )
    out.backward(torch.tensor([[1.0078125, -1.015625]], dtype=torch.bfloat16))
    assert weights.grad.item() == 2.0**-14


# ---------------------------------------------------------------------- layers and optimizers


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])
def test_a_convolution_without_input_channels(dtype):
    layer = torch.nn.Conv1d(0, 3, 2, dtype=dtype)
    x = torch.zeros(2, 0, 5, dtype=dtype, requires_grad=True)
    layer(x).sum().abs().backward()
    assert x.grad.shape == (2, 0, 5)
    assert layer.weight.grad.shape == (3, 0, 2)
    same(layer.bias.grad, [0, 0, 0])


def test_adamax_can_be_differentiated():
    p, g = double([1.0, 2.0]).requires_grad_(), double([0.5, -1.0]).requires_grad_()
    q = p.clone()
    q.grad = g.clone()
    optimizer = torch.optim.Adamax([q], lr=0.5, eps=0.0, differentiable=True)
    # |g| is the larger one, so that the state's part in the maximum has no gradient.
    optimizer.state[q] = {
        "step": double(0.0),
        "exp_avg": double([0.0, 0.0]),
        "exp_inf": double([0.25, 0.25]),
    }
    optimizer.step()
    # The step is lr * g / max(0.999 * 0.25, |g|): its slope in g is zero, that in p is one.
    d_p, d_g = torch.autograd.grad(q.sum(), [p, g])
    same(d_p, [1.0, 1.0])
    np.testing.assert_allclose(d_g.tolist(), [0.0, 0.0], atol=1e-12)


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "Adagrad"])
def test_fused_optimizers_refuse_parameters_without_values(name):
    p = torch.nn.Parameter(torch.empty(2, device="meta"))
    with pytest.raises(RuntimeError, match="`fused=True` requires all the params to be floating"):
        optimizer = getattr(torch.optim, name)([p], lr=0.1, fused=True)
        p.grad = torch.empty(2, device="meta")
        optimizer.step()
