"""Corners where a plausible answer is not PyTorch's; the values were asked of PyTorch 2.13."""

import copy
import math
import pickle

import numpy as np
import pytest

import tapegrad as torch

nan, inf = math.nan, math.inf


def same(result, expected):
    np.testing.assert_array_equal(np.array(result.tolist()), np.array(expected))


# ------------------------------------------------------------------ transforms in inference mode


def test_derivatives_in_inference_mode():
    func = torch.func
    with torch.inference_mode():
        x, factor = torch.tensor(2.0), torch.tensor(3.0)
        assert func.grad(lambda v: v * v)(x).item() == 4.0
        assert func.grad(lambda v: v * v * factor)(x).item() == 12.0
        assert func.grad(func.grad(lambda v: v**3 * factor))(x).item() == 36.0
        assert func.jvp(lambda v: v * v, (x,), (torch.tensor(1.0),))[1].item() == 4.0
        assert func.vjp(lambda v: v * v, x)[1](torch.tensor(1.0))[0].item() == 4.0
        rows = torch.tensor([2.0, 3.0])
        same(func.jacrev(lambda v: v * v)(rows), [[4.0, 0.0], [0.0, 6.0]])
        same(func.jacfwd(lambda v: v * v)(rows), [[4.0, 0.0], [0.0, 6.0]])
        same(torch.vmap(func.grad(lambda v: v * v))(rows), [4.0, 6.0])
        assert not func.grad(lambda v: v * v)(x).is_inference()
        assert torch.is_inference_mode_enabled()
    assert func.grad(lambda v: v * factor)(torch.tensor(3.0)).item() == 3.0


def test_inference_mode_is_off_inside_a_derivative():
    seen = []

    def function(v):
        seen.append((torch.is_inference_mode_enabled(), torch.is_grad_enabled()))
        raise KeyError

    with torch.inference_mode():
        with pytest.raises(KeyError):
            torch.func.grad(function)(torch.tensor(1.0))
        assert torch.is_inference_mode_enabled()
    assert seen == [(False, True)]


def test_views_of_inference_tensors_require_no_grad():
    with torch.inference_mode():
        t = torch.ones(3, requires_grad=True)
    assert not t[:2].requires_grad
    assert not t.view(3).requires_grad
    assert (t * 2).requires_grad


# ---------------------------------------------------------------------- out=


@pytest.mark.parametrize(
    "fill",
    [
        lambda out: torch.arange(6.0, out=out),
        lambda out: torch.linspace(0, 5, 6, out=out),
        lambda out: torch.range(0, 5, out=out),
    ],
)
@pytest.mark.filterwarnings("ignore:torch.range is deprecated")
def test_ranges_fill_a_view_of_another_shape(fill):
    base = torch.zeros(2, 3)
    view = base.t()
    assert fill(view) is view
    same(base, [[0.0, 2.0, 4.0], [1.0, 3.0, 5.0]])
    flat = torch.zeros(6)
    fill(flat.view(2, 3))
    same(flat, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0])


def test_an_output_that_grows_stays_in_the_memory_of_its_base():
    base = torch.zeros(6)
    view = base[2:4]
    with pytest.warns(UserWarning, match="An output with one or more elements was resized"):
        torch.add(torch.ones(3), 1, out=view)
    same(base, [0.0, 0.0, 2.0, 2.0, 2.0, 0.0])
    base = torch.zeros(6)
    with pytest.warns(UserWarning, match="The number of elements in the out tensor"):
        torch.arange(3.0, out=base[:2])
    same(base, [0.0, 1.0, 2.0, 0.0, 0.0, 0.0])


# ---------------------------------------------------------------------- order, with NaN


def test_nan_of_bfloat16_is_the_largest():
    x = torch.tensor([nan, 1.0, nan, -2.0, inf], dtype=torch.bfloat16)
    same(torch.sort(x).indices, [3, 1, 4, 0, 2])
    same(torch.sort(x, descending=True).indices, [0, 2, 4, 1, 3])
    same(torch.argsort(x, stable=True), [3, 1, 4, 0, 2])
    same(torch.msort(x).float(), [-2.0, 1.0, inf, nan, nan])
    same(torch.topk(x, 3, largest=False).values.float(), [-2.0, 1.0, inf])
    same(torch.topk(x, 3).values.float(), [nan, nan, inf])
    same(torch.unique(x).float(), [-2.0, 1.0, inf, nan, nan])
    assert torch.unique(x).dtype is torch.bfloat16


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_mode_of_rows_with_nan(dtype):
    def mode(*row):
        found = torch.mode(torch.tensor(row, dtype=dtype))
        return found.values.item(), found.indices.item()

    assert mode(2.0, 1.0, nan, 2.0) == (1.0, 1)
    assert mode(1.0, nan, 2.0, nan) == (1.0, 0)
    assert mode(3.0, 2.0, 2.0, nan, nan, nan, 3.0) == (2.0, 2)
    assert mode(nan, 1.0, nan, -2.0, inf)[1] == 0
    assert mode(nan, nan, nan)[1] == 0
    assert mode(*[float(i % 7) if i % 5 else nan for i in range(40)]) == (4.0, 39)


def test_distinct_rows_with_nan():
    rows = [[1.0, nan], [1.0, nan], [0.0, 1.0], [nan, 1.0], [0.0, 1.0]]
    values, inverse, counts = torch.unique(
        torch.tensor(rows), dim=0, return_inverse=True, return_counts=True
    )
    # The sort of the C++ library compares with `<`, and NaN separates what it stands between.
    same(values, [[0.0, 1.0], [1.0, nan], [1.0, nan], [nan, 1.0], [0.0, 1.0]])
    same(inverse, [1, 2, 0, 3, 4])
    same(counts, [1, 1, 1, 1, 1])


def test_running_means_of_infinities():
    x = torch.tensor([[1.0, -inf, 2.0], [1.0, 2.0, inf], [1.0, 2.0, 3.0]])
    same(torch.var_mean(x, 1)[1], [nan, inf, 2.0])
    same(torch.std_mean(x, 1)[1], [nan, inf, 2.0])
    many = torch.ones(2, 3000)
    many[0, 5] = inf
    many[1, -1] = inf
    same(torch.var_mean(many, 1)[1], [nan, inf])


# ---------------------------------------------------------------------- memory


def test_memory_of_others_cannot_grow():
    for t in (
        torch.from_numpy(np.zeros(3)),
        torch.as_tensor(np.zeros(3)),
        torch.from_numpy(np.zeros(3))[1:],
        torch.frombuffer(bytearray(8), dtype=torch.float32),
    ):
        with pytest.raises(RuntimeError, match="^Trying to resize storage that is not resizable"):
            t.resize_(4)
    assert torch.from_numpy(np.zeros(3)).resize_(2).shape == (2,)
    assert torch.from_numpy(np.zeros(3)).clone().resize_(4).shape == (4,)


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_tensors_on_storages():
    storage = torch.arange(4.0).storage()
    t = torch.FloatTensor(storage)
    t[0] = 9
    assert storage[0] == 9.0
    with pytest.raises(RuntimeError, match="^Expected a Storage of type Long or an Untyped"):
        torch.LongTensor(storage)
    with pytest.raises(RuntimeError, match="^Expected a Storage of type long int or an Untyped"):
        torch.tensor([], dtype=torch.int64).set_(storage)


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_storages_without_values():
    storage = torch.empty(3, device="meta").storage()
    for read in (lambda: storage[0], storage.tolist, lambda: storage.untyped()[0]):
        with pytest.raises(NotImplementedError, match="^Not available for 'meta' device type"):
            read()
    assert storage.nbytes() == 12


def test_sparse_tensors_without_values():
    t = torch.eye(2).to_sparse().to("meta")
    assert t.device.type == "meta"
    assert t.is_meta
    assert t.layout is torch.sparse_coo


# ---------------------------------------------------------------------- derivatives and numbers


@pytest.mark.parametrize(
    ("reduce", "words"),
    [
        (lambda a, i, s: a.scatter_reduce(0, i, s, "prod"), "scatter_reduce.*unsupported for src"),
        (lambda a, i, s: a.index_reduce(0, i, s, "prod"), "index_reduce.*unsupported for source"),
    ],
)
@pytest.mark.filterwarnings("ignore:index_reduce")
def test_two_zeros_in_a_product_have_no_second_derivative(reduce, words):
    a = torch.ones(3, dtype=torch.double, requires_grad=True)
    values = torch.tensor([0.0, 0.0, 2.0], dtype=torch.double, requires_grad=True)
    out = reduce(a, torch.tensor([0, 0, 1]), values)
    (slope,) = torch.autograd.grad(out.sum(), values, create_graph=True)
    same(slope, [0.0, 0.0, 1.0])
    with pytest.raises(RuntimeError, match=words):
        torch.autograd.grad(slope.sum(), values)


def test_cumprod_keeps_its_result():
    a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = a.cumprod(0)
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_convolutions_draw_the_same_weights_in_every_memory_format():
    drawn = []
    for format in (torch.contiguous_format, torch.channels_last_3d):
        layer = torch.nn.Conv3d(2, 2, 2).to(memory_format=format)
        torch.manual_seed(1)
        layer.reset_parameters()
        drawn.append(layer.weight.detach().flatten())
    same(drawn[0], drawn[1].tolist())


def test_ranges_of_tensors_have_the_default_dtype():
    end = torch.tensor(3.0, dtype=torch.float64)
    assert torch.arange(end).dtype is torch.float32
    assert torch.arange(0, end).dtype is torch.float32
    assert torch.arange(torch.tensor(3)).dtype is torch.int64


def test_least_squares_with_a_limit_of_one():
    A = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    found = torch.linalg.lstsq(A, torch.tensor([[1.0], [2.0], [3.0]]), rcond=1.0, driver="gelsd")
    assert found.rank.item() == 2
    np.testing.assert_allclose(found.solution.tolist(), [[0.0], [0.5]], atol=1e-6)


# ---------------------------------------------------------------------- what others' programs call


@pytest.mark.filterwarnings("ignore:This overload of")
def test_numbers_between_tensors_as_old_programs_write_them():
    t, o, m = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]), torch.eye(2)
    same(torch.add(t, 2, o), [7.0, 10.0])
    same(t.add(2, o), [7.0, 10.0])
    same(t.clone().add_(2, o), [7.0, 10.0])
    same(torch.sub(t, 2, o), [-5.0, -6.0])
    same(torch.addcmul(t, 2, o, o), [19.0, 34.0])
    same(t.clone().addcmul_(2, o, o), [19.0, 34.0])
    same(t.clone().addcdiv_(2, o, o), [3.0, 4.0])
    same(torch.addmm(2, m, 3, m, m), [[5.0, 0.0], [0.0, 5.0]])
    same(torch.addmm(2, m, m, m), [[3.0, 0.0], [0.0, 3.0]])
    same(m.clone().addmm_(2, 3, m, m), [[5.0, 0.0], [0.0, 5.0]])
    same(torch.addmv(2, t, 3, m, t), [5.0, 10.0])
    same(torch.baddbmm(2, m[None], 3, m[None], m[None]), [[[5.0, 0.0], [0.0, 5.0]]])
    same(torch.add(t, 2, o, out=torch.empty(0)), [7.0, 10.0])
    same(m.addmm(2, m, m), [[3.0, 0.0], [0.0, 3.0]])  # the number is beta, not alpha
    with pytest.raises(TypeError, match="takes 2 positional arguments but 3 were given"):
        torch.add(t, o, 2)
    wrong = [torch.addmm, torch.baddbmm, torch.addmv, torch.addr, torch.addbmm]
    args = [(m, m), (m[None], m[None]), (m, t), (t, t), (m[None], m[None])]
    for function, two, out in zip(wrong, args, [m, m[None], t, m, m], strict=True):
        with pytest.raises(TypeError):
            function(out, 2, *two)


def test_the_first_old_call_warns(monkeypatch):
    from tapegrad.api import old_forms

    monkeypatch.setattr(old_forms, "OLD_FORMS_MET", [])
    t = torch.ones(2)
    with pytest.warns(UserWarning, match="^This overload of add is deprecated"):
        torch.add(t, 2, t)
    torch.add(t, 2, t)


def test_stable_is_a_keyword_among_keywords():
    t = torch.tensor([2.0, 1.0])
    same(t.sort(stable=True, dim=0)[0], [1.0, 2.0])
    for call in [t.sort, t.argsort]:
        with pytest.raises(TypeError, match=r"got \(int, stable=bool\), but expected one of:"):
            call(0, stable=True)
    with pytest.raises(TypeError, match=r"got \(Tensor, int, bool, stable=bool\)"):
        torch.sort(t, 0, True, stable=True)
    with pytest.raises(TypeError, match=r"sort\(\) received an invalid combination"):
        t.sort(True)


def test_several_ints_for_a_tuple():
    t = torch.zeros(1, 4, 2, 1)
    assert t.squeeze(0, 3).shape == (4, 2) and t.clone().squeeze_(0, 1, 3).shape == (4, 2)
    assert [part.shape[1] for part in t.hsplit(1, 2)] == [1, 1, 2]
    assert t.count_nonzero(0, 1).shape == (2, 1)
    assert len(t.vsplit(1, 1)) == 3 and len(t[:, 0].dsplit(0, 1)) == 3
    with pytest.raises(TypeError):
        torch.squeeze(t, 0, 3)


def test_limits_of_python_types():
    assert torch.finfo(float).dtype == "float64"
    assert torch.finfo(complex).eps == torch.finfo(torch.float64).eps
    assert torch.iinfo(int).max == 2**63 - 1
    with pytest.raises(TypeError, match="requires a floating point input type"):
        torch.finfo(int)


def test_sizes_as_arguments_of_broadcast_to():
    assert torch.ones(4).broadcast_to(2, 4).shape == (2, 4)
    assert torch.ones(4).broadcast_to((2, 4)).shape == (2, 4)
    assert torch.broadcast_to(torch.ones(4), size=(2, 4)).shape == (2, 4)


def test_layers_need_no_more_than_the_attributes_of_pytorchs():
    layer = torch.nn.Conv2d(1, 1, 2, padding_mode="reflect", padding=1)

    class Other:
        pass

    other = Other()
    names = "padding_mode stride padding dilation groups _reversed_padding_repeated_twice"
    for name in names.split():
        setattr(other, name, getattr(layer, name))
    x = torch.arange(9.0).view(1, 1, 3, 3)
    found = torch.nn.Conv2d._conv_forward(other, x, layer.weight, layer.bias)
    same(found, layer(x).tolist())


def test_what_modules_and_schedulers_refuse():
    nn = torch.nn
    with pytest.raises(RuntimeError, match="does not accept copy argument"):
        nn.Linear(2, 2).to(copy=True)
    module = nn.Module()
    module.x = 3
    with pytest.raises(KeyError, match="attribute 'x' already exists"):
        module.x = nn.Buffer(torch.ones(2))
    optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=0.1)
    with pytest.raises(TypeError, match="lr_lambda should be a function, but got float"):
        torch.optim.lr_scheduler.MultiplicativeLR(optimizer, 0.5)


def test_flat_weights_can_be_set():
    layer = torch.nn.LSTM(2, 3)
    layer._flat_weights = [w.detach() for w in layer._flat_weights]
    assert [w.shape for w in layer._flat_weights] == [(12, 2), (12, 3), (12,), (12,)]


def test_comparisons_in_place_give_zero_gradients():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = torch.tensor([1.0, 3.0], requires_grad=True)
    a = x * 1
    a.eq_(y)
    a.sum().backward()
    same(x.grad, [0.0, 0.0])
    same(y.grad, [0.0, 0.0])


def test_refusals_of_bool_sums_and_of_numbers_as_images():
    t = torch.ones(2, dtype=torch.bool)
    for call, name in [(t.cumsum_, "cumsum"), (t.cumprod_, "cumprod")]:
        with pytest.raises(NotImplementedError, match=f'"{name}_out_cpu" not implemented for'):
            call(0)
    with pytest.raises(IndexError, match="Dimension specified as -3 but tensor has no dimensions"):
        torch.nn.functional.avg_pool2d(torch.tensor(1.0), 1)


def test_powers_of_complex_exponents_under_anomaly_detection():
    base, exponent = torch.tensor([2.0, 0.0]), torch.tensor([1 + 1j, 0])
    with pytest.warns(UserWarning, match="Anomaly Detection"), torch.autograd.detect_anomaly():
        assert base.pow(exponent).isnan().tolist() == [False, True]


def test_an_index_is_not_what_is_written_to():
    x = torch.tensor([0, 1, 2])
    for write in [
        lambda: x.index_add_(0, x, torch.ones(3, dtype=torch.int64)),
        lambda: x.index_copy_(0, x, x),
        lambda: x.index_fill_(0, x, 1),
        lambda: x.scatter_(0, x, x),
    ]:
        with pytest.raises(RuntimeError, match="unsupported operation: some elements of the input"):
            write()
    assert x.tolist() == [0, 1, 2]


def test_kron_of_a_turned_and_a_straight_matrix():
    """PyTorch refuses it: its view of the product does not fit."""
    a, b = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    same(torch.kron(a.t(), b), torch.kron(a.t().contiguous(), b).tolist())
    assert torch.kron(a.t(), b.t()).stride() == (1, 4)


def test_triangles_of_overlapping_memory_in_place():
    row = torch.tensor([1.0, 2.0, 3.0])
    same(row.clone().expand(3, 3).tril_(), [[1.0, 0.0, 0.0]] * 3)
    same(row.clone().expand(3, 3).triu_(), [[0.0, 0.0, 3.0]] * 3)
    same(torch.ones(3, 1).expand(3, 3).tril_(), [[0.0] * 3, [0.0] * 3, [1.0] * 3])
    windows = torch.ones(6).as_strided((3, 3), (1, 1))
    same(windows.tril_(), [[1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    with pytest.raises(RuntimeError, match="more than one element"):
        torch.ones(2, 2).as_strided((3, 2, 2, 2), (0, 0, 2, 1)).tril_()


@pytest.mark.parametrize("alpha", [inf, -inf, nan])
def test_elu_with_an_infinite_slope(alpha):
    x = torch.tensor([-3.0, 0.0, 2.0])
    same(torch.nn.functional.elu(x, alpha), [-alpha, 0.0, 2.0])
    if alpha == inf:
        same(torch.nn.functional.celu(x, alpha), [nan, 0.0, 2.0])


def test_alpha_by_position_beside_numbers():
    x = torch.tensor([1.0, 2.0])
    for found in (torch.subtract(x, 2, 3), x.sub(2, 3), torch.sub(x, torch.tensor(2), 3)):
        same(found, [-5.0, -4.0])
    same(torch.add(x, 2, 3), [7.0, 8.0])
    same(x.subtract_(2, 3), [-5.0, -4.0])


def test_numbers_of_numpy_as_eps():
    x = torch.tensor([[[0.0, 2.0]]])
    for eps in (np.int64(3), np.float32(3), torch.tensor(3)):
        same(torch.nn.InstanceNorm1d(1, eps=eps)(x), [[[-0.5, 0.5]]])
        same(torch.nn.GroupNorm(1, 1, eps=eps)(x), [[[-0.5, 0.5]]])


def test_ranges_of_no_steps():
    for dtype in (torch.float16, torch.float32, torch.float64, torch.int64):
        assert torch.logspace(0, 1, 0, dtype=dtype).shape == (0,)
        assert torch.linspace(0, 1, 0, dtype=dtype).shape == (0,)


def test_unpooled_meta_tensors_are_in_rows():
    images = torch.ones(1, 2, 6, 12).to(memory_format=torch.channels_last)
    values, places = torch.nn.functional.max_pool2d(images, 2, return_indices=True)
    assert torch.nn.functional.max_unpool2d(values, places, 2).stride() == (144, 1, 24, 2)
    values, places = values.to("meta"), places.to("meta")
    assert values.stride() == (36, 1, 12, 2)
    assert torch.nn.functional.max_unpool2d(values, places, 2).stride() == (144, 72, 12, 1)


# ------------------------------------------------------------------ memory that nobody has written


@pytest.fixture
def deterministic():
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)
    torch.utils.deterministic.fill_uninitialized_memory = True


def test_deterministic_memory_is_filled(deterministic):
    one = torch.ones(2)
    made = [
        torch.empty(2),
        torch.empty_like(one),
        one.new_empty(2),
        torch.empty_strided((2,), (3,)),
        one.new_empty_strided((2,), (1,)),
        torch.empty_permuted((2, 2), (1, 0)),
        torch.Tensor(2),
        torch.ones(2).resize_(4)[2:],
        torch.empty(2, out=torch.ones(2)),
        torch.empty(1, 1, 1, 2, memory_format=torch.channels_last),
    ]
    assert all([t.isnan().all() for t in made])
    same(torch.ones(2).resize_(3)[:2], [1.0, 1.0])
    same(torch.empty(2, dtype=torch.int16), [32767, 32767])
    same(torch.empty(2, dtype=torch.uint8), [255, 255])
    same(torch.empty(2, dtype=torch.bool), [True, True])
    found = torch.empty(1, dtype=torch.complex64)
    assert math.isnan(found.real.item()) and found.imag.item() == 0
    torch.utils.deterministic.fill_uninitialized_memory = False
    assert torch.utils.deterministic.fill_uninitialized_memory is False
    with pytest.raises(RuntimeError, match="expected a bool, but got int"):
        torch.utils.deterministic.fill_uninitialized_memory = 1


# ------------------------------------------------------------------ gradients that are kept


def test_a_retained_gradient_is_contiguous():
    a = torch.arange(24.0).view(2, 3, 4).transpose(0, 2).detach().requires_grad_()
    x = a * 1
    x.retain_grad()
    x.exp().sum().backward()
    assert (x.grad.stride(), a.grad.stride()) == ((6, 2, 1), (1, 4, 12))


def test_strides_of_gradients_in_dimensions_of_one():
    a = torch.arange(6.0).view(2, 3).t()[None].detach().requires_grad_()
    assert a.stride() == (3, 1, 3)
    a.sum().backward()
    assert a.grad.stride() == (3, 1, 3)
    a = torch.arange(6.0).view(2, 1, 3).transpose(1, 2).detach().requires_grad_()
    a.sum(0).abs().sum().backward()
    assert a.grad.stride() == (3, 1, 3)


def test_a_gradient_that_is_passed_on_is_taken_over():
    for function in (lambda a: a + 1, lambda a: a + torch.ones(2), lambda a: a - 1 + 1):
        a = torch.ones(2, requires_grad=True)
        function(a).exp().sum().backward()
        assert a.grad._version == 0
    a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    (a + b).exp().sum().backward()
    a.grad.zero_()
    assert b.grad.abs().sum() > 0


# ------------------------------------------------------------------ passes that start sparse


@pytest.mark.parametrize("target", ["to_sparse", "to_sparse_csr", "to_sparse_csc"])
@pytest.mark.parametrize("source", ["to_dense", "to_sparse", "to_sparse_csr", "to_sparse_csc"])
def test_gradients_of_sparse_outputs(source, target):
    values = torch.arange(1.0, 17.0).view(4, 4)
    seed = torch.arange(17.0, 33.0).view(4, 4)
    x = getattr(values, source)().requires_grad_()
    y = getattr(x * 1, target)()
    found = torch.autograd.grad(y, x, getattr(seed, target)())[0]
    assert found.layout is x.layout
    same(found.to_dense(), seed.tolist())
    assert torch.autograd.grad(getattr(x, target)(), x, getattr(seed, target)())[0].shape == (4, 4)


def test_sparse_outputs_of_other_places():
    x = torch.tensor([[1.0, 0.0], [2.0, 3.0]], requires_grad=True)
    y = x.to_sparse()
    y.backward(torch.tensor([[5.0, 0.0], [0.0, 7.0]]).to_sparse())
    same(x.grad, [[5.0, 0.0], [0.0, 7.0]])
    for target in ("to_sparse", "to_sparse_csr"):
        seed = torch.tensor([[5.0, 0.0], [6.0, 7.0]])
        for given in (seed, seed.to_sparse()):
            x.grad = None
            getattr(x, target)().backward(given)
            same(x.grad, seed.tolist())
    with pytest.raises(RuntimeError, match="expected layout Sparse but got SparseCsr"):
        x.to_sparse().backward(torch.ones(2, 2).to_sparse_csr())
    with pytest.raises(RuntimeError, match="only for scalar outputs"):
        x.to_sparse().backward()
    with pytest.raises(RuntimeError, match="Mismatch in shape"):
        x.to_sparse().backward(torch.ones(3, 2).to_sparse())


# ------------------------------------------------------------------ private names that are called


def test_products_of_bytes():
    a = torch.arange(-9, 9).view(6, 3).to(torch.int8)
    b = torch.tensor([[100, -128], [127, 3], [-100, 50]], dtype=torch.int8)
    expected = a.tolist() @ np.array(b.tolist())
    found = torch._int_mm(a, b)
    assert found.dtype is torch.int32
    same(found, expected)
    out = torch.zeros(6, 2, dtype=torch.int32)
    assert torch._int_mm(a, b, out=out) is out
    same(out, expected)
    with pytest.raises(RuntimeError, match="Expected self dtype to be int8 or uint8 but got int"):
        torch._int_mm(a.int(), b)
    with pytest.raises(RuntimeError, match="needs to match mat2.size"):
        torch._int_mm(a, b.t())


def test_convolution_backward_as_an_op():
    x, w = torch.rand(2, 4, 5, 5, requires_grad=True), torch.rand(4, 2, 3, 3, requires_grad=True)
    how = ((1, 1), (1, 1), (1, 1), False, (0, 0), 2)
    y = torch.convolution(x, w, None, *how)
    wanted = torch.autograd.grad(y.sum(), (x, w))
    call = torch.ops.aten.convolution_backward
    found = call(torch.ones_like(y), x.detach(), w.detach(), [4], *how, (True, True, True))
    assert torch.allclose(found[0], wanted[0]) and torch.allclose(found[1], wanted[1])
    same(found[2], [50.0] * 4)
    only = call(torch.ones_like(y), x.detach(), w.detach(), [4], *how, (False, True, False))
    assert only[0] is None and only[2] is None and torch.equal(only[1], found[1])


@pytest.mark.parametrize(
    "name", ["uniform_", "normal_", "exponential_", "random_", "cauchy_", "log_normal_"]
)
def test_draws_into_overlapping_memory(name):
    x = torch.zeros(1).expand(6)
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        getattr(x, name)()
    same(x, [0.0] * 6)


def test_saved_values_are_checked_one_by_one():
    x = torch.ones(3, requires_grad=True)
    v = x * 2
    v.mul_(v)
    same(v.grad_fn._saved_self, [2.0, 2.0, 2.0])
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        v.grad_fn._saved_other
    y = x * torch.ones(3)
    y.sum().backward()
    assert y.grad_fn._saved_self is None
    with pytest.raises(RuntimeError, match="a second time"):
        y.grad_fn._saved_other


# ------------------------------------------------------------------ modules


@pytest.mark.parametrize("persistent", [True, False])
def test_buffers_where_a_class_registers_them_itself(persistent):
    class Own(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.b = torch.nn.Buffer(torch.ones(2), persistent=persistent)

    class Two(Own):
        def register_buffer(self, name, tensor):
            super().register_buffer(name, tensor)

    class Three(Own):
        def register_buffer(self, name, tensor, persistent=True):
            super().register_buffer(name, tensor, persistent)

    assert list(Three().state_dict()) == ["b"] * persistent
    if persistent:
        assert list(Two().state_dict()) == ["b"]
    else:
        with pytest.raises(RuntimeError, match="without the persistent argument"):
            Two()


@pytest.mark.parametrize("layout", ["to_sparse", "to_sparse_csr", "to_sparse_csc"])
def test_sparse_parameters_are_converted(layout):
    module = torch.nn.Module()
    weight = module.w = torch.nn.Parameter(getattr(torch.eye(2), layout)())
    module.double()
    assert module.w is weight and weight.dtype is torch.float64 and weight.requires_grad
    same(weight.to_dense(), [[1.0, 0.0], [0.0, 1.0]])
    weight.data = getattr(torch.ones(2, 2), layout)()
    assert weight._nnz() == 4
    with pytest.raises(RuntimeError, match="incompatible tensor type"):
        weight.data = torch.ones(2, 2)


def test_hooks_of_nodes_get_no_gradients_of_indices():
    F = torch.nn.functional
    functions = [
        lambda x: x.max(1),
        lambda x: x.sort(1),
        lambda x: x.cummax(0),
        lambda x: (F.layer_norm(x, (2,)),),
        lambda x: (F.embedding_bag(torch.tensor([0, 1]), x, torch.tensor([0])),),
    ]
    for function in functions:
        x = torch.rand(3, 2, requires_grad=True)
        y = function(x)[0]
        seen = []
        y.grad_fn.register_prehook(lambda gs, seen=seen: seen.append(len(gs)) or (gs[0] * 2,))
        y.grad_fn.register_hook(lambda _, gs, seen=seen: seen.append(gs[0].max().item()))
        y.sum().backward()
        assert seen == [1, 2.0]
    u, s, _ = torch.linalg.svd(torch.rand(2, 2, requires_grad=True))
    s.grad_fn.register_prehook(lambda gs: seen.append([g is None for g in gs]))
    s.sum().backward()
    assert seen[-1] == [True, False, True]


# ------------------------------------------------------------------ subclasses with slots


class Wrapping(torch.Tensor):
    """A tensor without memory, which hands every op to the one that it keeps in a slot."""

    __slots__ = ["inner"]

    def __new__(cls, inner, requires_grad=False):
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            inner.size(),
            strides=inner.stride(),
            dtype=inner.dtype,
            device=inner.device,
            requires_grad=requires_grad,
        )
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        def bare(x):
            return x.inner if isinstance(x, cls) else x

        def wrapped(x):
            return cls(x) if isinstance(x, torch.Tensor) else x

        map_tree = torch.utils._pytree.tree_map
        return map_tree(wrapped, func(*map_tree(bare, args), **map_tree(bare, kwargs or {})))


@pytest.mark.parametrize("fast", [False, True])
def test_gradcheck_of_wrappers(fast):
    x = Wrapping(torch.tensor([0.5, 2.0], dtype=torch.float64), requires_grad=True)
    check = torch.autograd.gradcheck
    assert check(lambda v: v * v.exp(), (x,), fast_mode=fast, check_forward_ad=not fast)
    assert torch.autograd.gradgradcheck(lambda v: v * v.exp(), (x,), fast_mode=fast)
    assert not check(lambda v: v.detach() * v, (x,), fast_mode=fast, raise_exception=False)
    same(x.inner, [0.5, 2.0])


class Slotted(torch.Tensor):
    __slots__ = ["note"]


def test_slots_of_subclasses_are_copied():
    x = torch.ones(2).as_subclass(Slotted)
    x.note, x.other = [1], 2
    assert copy.copy(x).note is x.note
    assert copy.deepcopy(x).note == [1] and copy.deepcopy(x).note is not x.note
    found = pickle.loads(pickle.dumps(x))
    assert (type(found), found.note, found.other) == (Slotted, [1], 2)
    assert "note" not in found.__dict__


def test_hooks_entered_while_unpacking_end_with_the_pass():
    block = torch.autograd.graph.saved_tensors_hooks
    seen = []

    def unpack(t):
        block(lambda t: seen.append(t) or t, lambda t: t).__enter__()
        return t

    x = torch.ones(2, requires_grad=True)
    with block(lambda t: t, unpack):
        y = x.exp().sum()
    y.backward()
    x.exp()
    assert seen == []


# ------------------------------------------------------------------ outputs that are not cast to


def test_outputs_of_decompositions_that_cannot_be_cast():
    eye, whole = torch.eye(2), torch.zeros(2, 2, dtype=torch.int32)
    linalg = torch.linalg
    sentence = "Expected {} to be safely castable from {} dtype, but got {} with dtype {}"
    result = sentence.format("result", "Float", "result", "Int")
    for message, call in (
        (f"cholesky_inverse: {result}", lambda: torch.cholesky_inverse(eye, out=whole)),
        (f"cholesky_solve: {result}", lambda: torch.cholesky_solve(eye, eye, out=whole)),
        (f"linalg.pinv: {result}", lambda: linalg.pinv(eye, out=whole)),
        (f"linalg.cond: {result}", lambda: linalg.cond(eye, out=whole[0, 0])),
        (
            f"torch.linalg.householder_product: {result}",
            lambda: torch.orgqr(eye, torch.ones(2), out=whole),
        ),
        (
            "torch.linalg.eigvals: "
            + sentence.format("eigenvalues", "ComplexFloat", "eigenvalues", "Float"),
            lambda: linalg.eigvals(eye, out=torch.zeros(2)),
        ),
    ):
        with pytest.raises(RuntimeError) as error:
            call()
        assert str(error.value).split("\n")[0] == message
    same(torch.cholesky_inverse(eye, out=torch.zeros(2, 2, dtype=torch.float64)), eye.tolist())
    with pytest.raises(RuntimeError, match=r"should match other.size\(-1\)"):
        linalg.lstsq(torch.rand(3, 2), torch.rand(4))


def test_preferred_libraries_can_be_put_back():
    for choose in (
        torch.backends.cuda.preferred_linalg_library,
        torch.backends.cuda.preferred_blas_library,
    ):
        before = choose()
        choose("default")
        assert choose(before) is before
        with pytest.raises(RuntimeError, match="Choose from: default"):
            choose("none")
        with pytest.raises(RuntimeError, match="Unknown input value type"):
            choose(3)
