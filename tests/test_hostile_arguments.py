"""Sizes that no memory holds, counts without end, arrays of NumPy's subclasses, absurd numbers.

The expected values and classes are PyTorch 2.13's answers to the same calls.
"""

import operator

import numpy as np
import pytest

import tapegrad as torch
from tapegrad.nn import functional as F

HUGE = 10**30


class Mine(np.ndarray):
    """A user's subclass that answers every question in its own way."""

    def sum(self, *args, **kwargs):
        return "mine"

    def __mul__(self, other):
        return "mine"

    def view(self, *args, **kwargs):
        return "mine"

    def copy(self, *args, **kwargs):
        return "mine"


def mapped(tmp_path):
    array = np.memmap(tmp_path / "numbers", np.float32, "w+", shape=(2, 2))
    array[:] = [[1, 2], [3, 4]]
    return array


def subclasses(tmp_path):
    plain = np.array([[1, 2], [3, 4]], np.float32)
    return {
        "memmap": mapped(tmp_path),
        "matrix": np.ndarray.view(plain.copy(), np.matrix),
        "masked": np.ma.array(plain.copy(), mask=[[0, 1], [0, 0]]),
        "recarray": np.ndarray.view(plain.copy(), np.recarray),
        "mine": np.ndarray.view(plain.copy(), Mine),
    }


KINDS = ["memmap", "matrix", "masked", "recarray", "mine"]
WAYS = {
    "from_numpy": torch.from_numpy,
    "tensor": torch.tensor,
    "as_tensor": torch.as_tensor,
    "asarray": torch.asarray,
    "from_dlpack": torch.from_dlpack,
    "Tensor": torch.Tensor,
    "FloatTensor": torch.FloatTensor,
    "new_tensor": torch.zeros(1).new_tensor,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", WAYS)
def test_every_array_that_enters_is_plain(kind, way, tmp_path):
    t = WAYS[way](subclasses(tmp_path)[kind])
    assert type(t._array) is np.ndarray
    assert t.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert (t * t).tolist() == [[1.0, 4.0], [9.0, 16.0]]
    assert t.sum().item() == 10.0 and t.sum().dim() == 0
    assert torch.stack([t, t]).shape == (2, 2, 2) and torch.cat([t, t]).shape == (4, 2)
    assert type(t.numpy()) is np.ndarray


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", ["from_numpy", "as_tensor", "asarray", "from_dlpack"])
def test_memory_of_subclasses_is_shared(kind, way, tmp_path):
    array = subclasses(tmp_path)[kind]
    WAYS[way](array)[0, 0] = 7
    assert np.ndarray.view(array, np.ndarray)[0, 0] == 7


@pytest.mark.parametrize("kind", KINDS)
def test_subclasses_as_indices_and_operands(kind, tmp_path):
    array = subclasses(tmp_path)[kind]
    places = np.ndarray.view(np.array([[0, 1]]), type(array)) if kind != "memmap" else array
    if kind != "memmap":
        assert torch.ones(2, 3)[places].shape == (1, 2, 3)
    assert (torch.ones(2, 2) == np.ndarray.view(np.ones((2, 2)), np.matrix)).all()
    # PyTorch does not take an array where a tensor is written to.
    with pytest.raises(TypeError):
        torch.add(torch.ones(2, 2), 1, out=array)


def test_batches_of_a_mapped_file(tmp_path):
    """The first batch of a training script that reads tokens from a file."""
    data = np.memmap(tmp_path / "tokens", np.uint16, "w+", shape=(64,))
    data[:] = np.arange(64)
    rows = [torch.from_numpy(data[i : i + 8].astype(np.int64)) for i in (0, 8)]
    assert torch.stack(rows)[1].tolist() == list(range(8, 16))


def test_arrays_without_dimensions_are_arrays():
    """NumPy computes with them, in their own dtype; on the left of an operator they are refused."""
    x = torch.ones(2)
    for found in (x * np.array(2.0), x - np.array(2.0), x / np.array(2), x ** np.array(2.0)):
        assert found.dtype is torch.float64
    assert (x * np.float64(2)).dtype is torch.float32
    for refused in (
        lambda: np.array(2.0) * x,
        lambda: np.array(2.0) - x,
        lambda: np.ones(2) + x,
        lambda: x < np.array(2.0),
    ):
        with pytest.raises(TypeError):
            refused()
    y = torch.ones(2)
    y *= np.array(2.0)
    assert y.dtype is torch.float64


def test_an_empty_index_fills_nothing():
    nothing = torch.zeros(0, dtype=torch.int64)
    assert torch.tensor(-5).index_fill(0, nothing, 3).item() == -5
    assert torch.tensor(-5).index_fill_(0, nothing, torch.tensor(3)).item() == -5
    assert torch.tensor(-5).index_fill(0, torch.tensor([0]), 3).item() == 3


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.arange(2**63 - 1),
        lambda: torch.arange(2**63),
        lambda: torch.arange(2**62),
        lambda: torch.arange(0, float(2**63)),
        lambda: torch.arange(2**63 - 1, dtype=torch.float32),
        lambda: torch.arange(0, 1e300),
        lambda: torch.arange(-1e308, 1e308),
        lambda: torch.arange(0, 1, 1e-300),
        lambda: torch.arange(0, 1e19, dtype=torch.int64),
        lambda: torch.arange(-(2**63), 2**63 - 1),
        lambda: torch.linspace(0, 1, 2**63 - 1),
        lambda: torch.linspace(0, 1, 2**62),
        lambda: torch.logspace(0, 1, 2**63 - 1),
        lambda: torch.ones(2**40, 2**40),
        lambda: torch.ones(3).tensor_split(2**40),
        lambda: torch.zeros(0).chunk(2**40),
        lambda: torch.mvlgamma(torch.ones(2), 2**62),
        lambda: torch.special.multigammaln(torch.zeros(0), 2**62),
        lambda: F.conv2d(torch.ones(1, 2, 4, 4), torch.ones(2, 2, 1, 1), padding=2**62),
        lambda: F.conv2d(torch.ones(1, 2, 4, 4), torch.ones(2, 2, 1, 1), padding=2**40),
    ],
)
def test_sizes_that_no_memory_holds(make):
    with pytest.raises(RuntimeError):
        make()


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.linspace(0, 1, 2**63),
        lambda: torch.logspace(0, 1, HUGE),
        lambda: torch.mvlgamma(torch.ones(2), HUGE),
        lambda: torch.special.multigammaln(torch.ones(2), HUGE),
        lambda: torch.tensor_split(torch.ones(3), HUGE),
        lambda: torch.ones(2, 3).transpose(0, HUGE),
        lambda: torch.ones(2, 3).mean(-HUGE),
        lambda: torch.ones(3).roll(1, HUGE),
        lambda: torch.repeat_interleave(torch.ones(3), HUGE),
        lambda: F.group_norm(torch.ones(2, 4), HUGE),
        lambda: F.conv2d(torch.ones(1, 2, 4, 4), torch.ones(2, 2, 1, 1), padding=2**63),
        lambda: F.glu(torch.ones(2, 4), HUGE),
    ],
)
def test_whole_numbers_beyond_64_bits(make):
    with pytest.raises(ValueError, match="Overflow when unpacking long long"):
        make()


def test_a_stride_beyond_the_input():
    out = F.conv2d(torch.ones(1, 2, 4, 4), torch.ones(2, 2, 1, 1), stride=2**62)
    assert out.tolist() == [[[[2.0]], [[2.0]]]]


@pytest.mark.parametrize(
    "call, sentence",
    [
        (
            lambda: F.conv1d(torch.ones(1, 2, 4), torch.ones(2, 2, 0)),
            "kernel size should be greater than zero, but got kernel_height: 1 kernel_width: 0",
        ),
        (
            lambda: F.conv_transpose1d(torch.ones(1, 2, 4), torch.ones(2, 2, 0)),
            "kernel size should be greater than zero, but got kernel_height: 1 kernel_width: 0",
        ),
        (
            lambda: torch.zeros(3).index_put(
                (torch.tensor([1, 0, 1], dtype=torch.uint8),), torch.ones(1)
            ),
            "masked_fill_ only supports boolean masks, but got mask with dtype unsigned char",
        ),
        (
            lambda: torch.repeat_interleave(torch.tensor(2)),
            "repeat_interleave only accept 1D vector as repeat",
        ),
        (
            lambda: torch.zeros(0, dtype=torch.int64).put(torch.tensor([0]), torch.ones(2)),
            "put_(): self and source expected to have the same dtype, but got self.dtype = Long "
            "and source.dtype = Float",
        ),
    ],
)
def test_what_pytorch_refuses(call, sentence):
    with pytest.raises(RuntimeError) as caught:
        call()
    assert str(caught.value).splitlines()[0] == sentence


@pytest.mark.parametrize(
    "call",
    [
        lambda: torch.take_along_dim(torch.tensor(1.0), torch.tensor(0), 0),
        lambda: torch.repeat_interleave(torch.tensor(1.0), torch.tensor(2), 0),
        lambda: torch.repeat_interleave(torch.tensor(1.0), torch.tensor([2]), 0),
    ],
)
def test_no_dimensions(call):
    with pytest.raises(IndexError, match="Dimension specified as 0 but tensor has no dimensions"):
        call()


@pytest.mark.parametrize(
    "call, sentence",
    [
        (
            lambda: torch.unsqueeze(torch.ones(3), 0.5),
            "unsqueeze(): argument 'dim' (position 2) must be int, not float",
        ),
        (
            lambda: torch.ones(3).index_select(float("inf"), torch.tensor([0])),
            "index_select(): argument 'dim' (position 1) must be int, not float",
        ),
        (
            lambda: torch.linalg.cholesky(torch.eye(2), upper="no"),
            "linalg_cholesky(): argument 'upper' must be bool, not str",
        ),
        (
            lambda: torch.cholesky_solve(torch.ones(2, 1), torch.eye(2), []),
            "cholesky_solve(): argument 'upper' (position 3) must be bool, not list",
        ),
        (
            lambda: torch.allclose(torch.ones(2), torch.ones(2), torch.ones(2)),
            "allclose(): argument 'rtol' (position 3) must be float, not Tensor",
        ),
        (
            lambda: torch.Tensor.numel([]),
            "descriptor 'numel' for 'torch._C.TensorBase' objects doesn't apply to a 'list' object",
        ),
        (
            lambda: torch.Tensor.detach(()),
            "descriptor 'detach' for 'torch._C.TensorBase' objects doesn't apply to a 'tuple' "
            "object",
        ),
        (
            lambda: torch.Tensor.detach(torch.Tensor),
            "descriptor 'detach' for 'torch._C.TensorBase' objects doesn't apply to a 'type' "
            "object",
        ),
        (
            lambda: torch.frobenius_norm(torch.ones(2, 3), 5, 3 + 4j),
            "frobenius_norm(): argument 'keepdim' (position 3) must be bool, not complex",
        ),
        (
            lambda: F.pad(torch.ones(1, 1, dtype=torch.bool), (1, 1), value=3 + 4j),
            "pad(): argument 'value' (position 4) must be float, not complex",
        ),
    ],
)
def test_kinds_are_compared_before_values(call, sentence):
    with pytest.raises(TypeError) as caught:
        call()
    assert str(caught.value).splitlines()[0] == sentence


@pytest.mark.parametrize(
    "name",
    """as_subclass data_ptr detach detach_ dim element_size fill_diagonal_ get_device is_complex
    is_conj is_contiguous is_floating_point is_inference is_neg is_signed lu ndimension nelement
    numel permute requires_grad_ reshape retain_grad size storage_offset stride to_sparse
    view""".split(),
)
@pytest.mark.filterwarnings("ignore:torch.lu is deprecated")
@pytest.mark.parametrize("value", [[], (), {}, 1.5, None, "x", np.ones(2), torch.float32], ids=repr)
def test_methods_of_what_is_no_tensor(name, value):
    method = getattr(torch.Tensor, name)
    with pytest.raises(TypeError):
        method(value, torch.Tensor) if name == "as_subclass" else method(value)


def test_an_empty_tensor_takes_nothing():
    with pytest.raises(IndexError, match="Tried to put elements into an empty tensor"):
        torch.zeros(0).put_(torch.tensor([0]), torch.ones(1))
    with pytest.raises(IndexError, match="tried to take from an empty tensor"):
        torch.zeros(0).take(torch.tensor([0]))


def test_the_value_of_a_border_is_a_float():
    assert F.pad(torch.ones(1), (1, 0), value=-(10**30)).tolist()[0] < -9.9e29
    whole = F.pad(torch.ones(1, dtype=torch.int64), (1, 0), value=2**53 + 1)
    assert whole.tolist() == [2**53, 1]


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
@pytest.mark.parametrize(
    "fill",
    [
        lambda t: t.uniform_(),
        lambda t: t.normal_(),
        lambda t: t.bernoulli_(0.5),
        lambda t: t.exponential_(),
        lambda t: torch.nn.init.xavier_uniform_(t),
        lambda t: torch.rand(4, 4, out=t),
        lambda t: t.add_(1),
    ],
)
def test_read_only_memory_is_not_written(fill):
    """PyTorch writes there after a warning, and crashes if it is a file mapped for reading."""
    array = np.full((4, 4), 7, np.float32)
    array.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        fill(torch.from_numpy(array))
    assert (array == 7).all()


def test_two_numbers_make_a_tensor_of_the_default_dtype():
    for found in (
        torch.add(2, 1.5),
        torch.mul(2, 1.5),
        torch.div(1, 2),
        torch.floor_divide(2, 1.5),
    ):
        assert found.dtype is torch.float32 and found.dim() == 0
    assert torch.add(2, 3).dtype is torch.int64
    assert torch.mul(2, 3 + 1j).dtype is torch.complex64


def test_windows_far_beyond_the_input():
    """The time depends on the input, not on the size of the kernel."""
    layer = torch.nn.LPPool1d(2, 2**30, ceil_mode=True)
    x = torch.ones(1, 2, 5, requires_grad=True)
    assert layer(x).tolist() == [[[32768.0], [32768.0]]]
    F.avg_pool1d(x, 2**30, ceil_mode=True).sum().backward()
    assert torch.allclose(x.grad, torch.full((1, 2, 5), 0.2))


# Calls, and what PyTorch 2.13 raises: the class, and how its first line begins.
REFUSED = [
    ("torch.ones(2) * 2**64", OverflowError, "int too big to convert"),
    ("torch.ones(2) > -10**30", OverflowError, "can't convert negative int to unsigned"),
    ("torch.Tensor.xlogy_(-7, torch.ones(3))", TypeError, ""),
    ("torch.Tensor.add(2, torch.ones(3))", TypeError, "descriptor 'add' for 'torch._C.TensorBase'"),
    ("torch.ones(3, 4).tril(1.5)", TypeError, "tril(): argument 'diagonal' (position 1) must be"),
    ("torch.ones(3, 4).tril_(2**63)", ValueError, "Overflow when unpacking long long"),
    (
        "torch.ones(3, 4).transpose(False, 1)",
        TypeError,
        "transpose(): argument 'dim0' (position 1)",
    ),
    ("torch.ones(3, 4).cumsum(torch.tensor(True))", TypeError, "cumsum(): argument 'dim'"),
    ("torch.ones(3, 4).mode(0, 1)", TypeError, "mode(): argument 'keepdim'"),
    (
        "torch.batch_norm(torch.ones(2, 3), None, None, None, None, 5, 0.1, 0.1, True)",
        TypeError,
        "",
    ),
    ("torch.empty((torch.tensor(True), 2))", RuntimeError, "Expected scalar.isIntegral( false)"),
    ("torch.tensor([1]).bitwise_and_(1.5)", RuntimeError, "result type Float can't be cast to the"),
    ("torch.gt(torch.ones(2, 2) * 1j, torch.ones(3, 4))", RuntimeError, "The size of tensor a (2)"),
    ("torch.eig(1, 2, 3, 4)", TypeError, "eig() takes from 1 to 2 positional arguments but 4"),
    ("torch.is_autocast_enabled(3)", TypeError, "is_autocast_enabled(): argument 'device_type'"),
    (
        "torch.zeros(2).set_(torch.eye(2).to_sparse())",
        NotImplementedError,
        "Could not run 'aten::set_",
    ),
    (
        "torch.zeros(2).set_(torch.zeros(2, device='meta'))",
        RuntimeError,
        "Attempted to set the storage",
    ),
    (
        "setattr(torch.zeros(2), 'data', torch.eye(2).to_sparse())",
        RuntimeError,
        "Attempted to call",
    ),
    (
        "torch.rnn_tanh(torch.ones(2, 2, 3), torch.ones(1, 2, 2), [], 1, 1, 0.0, 1, 0, 0)",
        TypeError,
        "",
    ),
    ("torch.nn.GRU(1, 1, 1, 1.5)", TypeError, "bias should be of type bool, got: float"),
    ("torch.triu_indices(2, 2**63 - 1)", RuntimeError, ""),
]


@pytest.mark.parametrize("call, kind, begins", REFUSED, ids=[row[0] for row in REFUSED])
def test_wrong_arguments_hear_what_pytorch_says(call, kind, begins):
    with pytest.raises(kind) as caught:
        eval(call, {"torch": torch})
    assert type(caught.value).__mro__[1 if kind is not type(caught.value) else 0] is kind
    assert str(caught.value).startswith(begins)


def test_triangles_of_huge_matrices_are_as_small_as_they_are():
    assert torch.triu_indices(2**40, 2).tolist() == [[0, 0, 1], [0, 1, 1]]
    assert torch.tril_indices(2, 2**40).tolist() == [[0, 1, 1], [0, 0, 1]]
    assert torch.triu_indices(3, 4, -1).tolist() == [
        [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2],
        [0, 1, 2, 3, 0, 1, 2, 3, 1, 2, 3],
    ]


def test_nothing_is_written_when_a_later_tensor_of_a_list_is_refused():
    first, leaf = torch.ones(2), torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        torch._foreach_add_([first, leaf], 1.0)
    assert first.tolist() == [1, 1] and first._version == 0


def test_no_output_is_written_when_another_one_is_refused():
    values, indices = torch.ones(2), torch.ones(2)
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype long int"):
        torch.sort(torch.tensor([3.0, 2.0]), out=(values, indices))
    assert values.tolist() == [1, 1] and values._version == 0


def test_shared_memory_of_an_expanded_tensor_has_its_strides():
    shared = torch.arange(3.0).expand(2, 3).share_memory_()
    assert shared.stride() == (0, 1) and shared.tolist() == [[0, 1, 2], [0, 1, 2]]


@pytest.mark.parametrize("dtype", [object, np.longdouble, "M8[s]"])
@pytest.mark.parametrize(
    "use",
    [
        lambda a: torch.ones(1) + a,
        lambda a: torch.arange(3)[a],
        lambda a: torch.arange(3).index_put_((torch.tensor([0]),), torch.tensor(1))[a],
        lambda a: torch.arange(3).__setitem__(a, 1),
    ],
)
def test_no_tensor_of_what_has_no_dtype(use, dtype):
    with pytest.raises(TypeError):
        use(np.zeros(1, dtype))


def test_truth_values_of_numpy_are_floats_and_dates_are_no_numbers():
    yes = np.bool_(1)
    assert (torch.arange(3) * yes).dtype == torch.float32
    assert (torch.ones(2) - yes).tolist() == [0, 0]
    assert torch.zeros(2).fill_(yes).tolist() == [1, 1]
    assert (torch.ones(1) + np.longdouble(2)).dtype == torch.float32
    with pytest.raises(TypeError):
        torch.ones(1) + np.timedelta64(1, "ns")
    assert (torch.ones(1) == np.str_("a")) is False


@pytest.mark.parametrize(
    "index, kind, begins",
    [
        ([1, 2 + 3j], TypeError, "'complex' object cannot be interpreted as an integer"),
        ([float("nan")], RuntimeError, "value cannot be converted to type int64 without overflow"),
        ([2**63], ValueError, "Overflow when unpacking long long"),
        ([1, object()], RuntimeError, "Could not infer dtype of object"),
        ([[1, [2]]], TypeError, "'list' object cannot be interpreted as an integer"),
    ],
)
@pytest.mark.filterwarnings("ignore:Using a non-tuple sequence")
def test_lists_as_indices(index, kind, begins):
    with pytest.raises(kind) as caught:
        torch.arange(6).view(2, 3)[index]
    assert str(caught.value).startswith(begins)


@pytest.mark.filterwarnings("ignore:Using a non-tuple sequence")
def test_a_list_in_itself_is_no_index():
    items: list = []
    items.append(items)
    with pytest.raises(ValueError, match="too many dimensions 'list'"):
        torch.arange(3)[items]


def test_references_to_python_objects_are_no_bytes():
    with pytest.raises(ValueError, match="holds Python objects"):
        torch.frombuffer(np.array([None]), dtype=torch.uint8)


class Answers:
    """No tensor, but one that says what an operator beside a tensor gives."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return function.__name__, len(args)


class Asked(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return super().__torch_function__(function, types, args, kwargs or {})


REFLECTED = "sub truediv floordiv mod pow matmul lshift rshift".split()


@pytest.mark.parametrize("name", REFLECTED)
def test_an_operand_on_the_left_that_answers_itself(name):
    found, arguments = getattr(operator, name)(Answers(), torch.ones(2, 2))
    assert (found.strip("_").removeprefix("r"), arguments) == (name, 2)


def test_operators_that_write_ask_about_the_write():
    x = torch.ones(2, dtype=torch.int64)
    for name in ("add", "sub", "mul", "pow"):
        assert getattr(operator, f"i{name}")(x, Answers()) == (f"{name}_", 2)


@pytest.mark.parametrize("name", [n for n in REFLECTED if n != "matmul"])
def test_a_number_on_the_left_of_a_class_that_is_asked(name):
    plain = torch.tensor([1, 2, 3])
    found = getattr(operator, name)(7, plain.as_subclass(Asked))
    assert type(found) is Asked
    assert found.tolist() == getattr(operator, name)(7, plain).tolist()


@pytest.mark.parametrize("border", [(5, -9), (-9, 5), (-5, 9, 1, 1)])
def test_a_border_cuts_before_it_adds(border):
    with pytest.raises(RuntimeError, match=r"narrow\(\): length must be non-negative."):
        F.pad(torch.ones(3, 4), border)


def test_truth_values_are_bools():
    with pytest.raises(TypeError, match="'keepdim'"):
        torch.kthvalue(torch.ones(2, 3), 1, 0, 2)
    with pytest.raises(TypeError, match="'upper'"):
        torch.cholesky(torch.eye(2), 1)


def test_defaults_and_numbers_in_tensors():
    assert torch.histogram(torch.ones(3)).hist.shape == (100,)
    assert torch.tensor([float("nan")]).nan_to_num(torch.tensor(2.0)).tolist() == [2.0]
