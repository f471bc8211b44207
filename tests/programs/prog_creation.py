"""Tensors made from lists, arrays, sizes and one another, and turned into something else again."""

import copy

import numpy as np

from programs.harness import program


@program
def tensor_infers_dtype(torch, log):
    for data in (1, 1.5, True, 1j, [1, 2], [1, 2.5], [True, False], [True, 2], [1.0, 2j], [], [[]]):
        log(torch.tensor(data))


@program
def tensor_with_dtype(torch, log):
    for name in ("float16", "float32", "float64", "uint8", "int8", "int16", "int32", "int64"):
        log(torch.tensor([0, 1, 2.75], dtype=getattr(torch, name)))
    log(torch.tensor([0, 1, 2.75], dtype=torch.bool))
    log(torch.tensor([0, 1, 2.75], dtype=torch.complex64))
    log(torch.tensor([1 + 2j], dtype=torch.complex128))


@program
def tensor_nested_lists(torch, log):
    log(torch.tensor([[1, 2, 3], [4, 5, 6]]))
    log(torch.tensor(((1.0,), (2.0,))))
    log(torch.tensor([[[1], [2]], [[3], [4]]]))
    log(torch.tensor(range(4)))


@program
def tensor_ragged_errors(torch, log):
    log.raises(lambda: torch.tensor([[1, 2], [3]]))
    log.raises(lambda: torch.tensor([[1], 2]))
    log.raises(lambda: torch.tensor([1, [2]]))
    log.raises(lambda: torch.tensor([[[1, 2]], [[1]]]))


@program
def tensor_bad_data_errors(torch, log):
    log.raises(lambda: torch.tensor("abc"))
    log.raises(lambda: torch.tensor(["a"]))
    log.raises(lambda: torch.tensor(None))
    log.raises(lambda: torch.tensor([None]))
    log.raises(lambda: torch.tensor({}))
    log.raises(lambda: torch.tensor([1.5, 1j], dtype=torch.float32))


@program
def tensor_integer_overflow(torch, log):
    log.raises(lambda: torch.tensor(2**63))
    log.raises(lambda: torch.tensor([300], dtype=torch.uint8))
    log.raises(lambda: torch.tensor([2**31], dtype=torch.int32))
    log(torch.tensor(2**63 - 1))


@program
def tensor_from_tensors(torch, log):
    a = torch.tensor([1.0, 2.0], requires_grad=True)
    log.warns(lambda: torch.tensor(a))
    log(torch.tensor([torch.tensor(1), torch.tensor(2)]))
    log(torch.tensor([a[0].detach(), 3.0]))
    log.raises(lambda: torch.tensor([torch.tensor([1, 2]), torch.tensor([3, 4])]))


@program
def tensor_from_numpy_values(torch, log):
    log(torch.tensor(np.float64(1.5)))
    log(torch.tensor(np.float32(1.5)))
    log(torch.tensor(np.int16(3)))
    log(torch.tensor([np.float64(1.5), np.float64(2.5)]))
    log(torch.tensor([np.int32(1), np.int32(2)]))
    log(torch.tensor(np.array([[1, 2], [3, 4]], dtype=np.int8)))
    log(torch.tensor([np.array([1.0, 2.0]), np.array([3.0, 4.0])]))
    log(torch.tensor(np.bool_(True)))


@program
def tensor_copies(torch, log):
    array = np.array([1.0, 2.0])
    t = torch.tensor(array)
    array[0] = 9.0
    log(t)


@program
def tensor_requires_grad(torch, log):
    log(torch.tensor([1.0], requires_grad=True))
    log(torch.tensor([1j], requires_grad=True))
    log.raises(lambda: torch.tensor([1], requires_grad=True))
    log.raises(lambda: torch.tensor([True], requires_grad=True))
    log.raises(lambda: torch.tensor([1.0], dtype=torch.int64, requires_grad=True))


@program
def requires_grad_on_integers(torch, log):
    a = torch.tensor([1, 2])
    log.raises(lambda: a.requires_grad_())
    log.raises(lambda: setattr(a, "requires_grad", True))
    log(a.requires_grad_(False))
    log.raises(lambda: torch.ones(2, dtype=torch.int64, requires_grad=True))
    log.raises(lambda: torch.arange(3, requires_grad=True))


@program
def as_tensor_shares(torch, log):
    array = np.array([1.0, 2.0])
    t = torch.as_tensor(array)
    array[0] = 9.0
    log(t)
    log(torch.as_tensor(t) is t)
    log(torch.as_tensor(t, dtype=torch.float32))
    log(torch.as_tensor([1, 2]), torch.as_tensor(3.5), torch.as_tensor((1, 2), dtype=torch.float32))


@program
def as_tensor_keeps_history(torch, log):
    a = torch.tensor([1.0], requires_grad=True)
    b = a * 2
    log(torch.as_tensor(b) is b)
    log(torch.as_tensor(b, dtype=torch.float64))


@program
def from_numpy_shares(torch, log):
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    t = torch.from_numpy(array)
    log(t)
    t[0, 0] = 7
    log(float(array[0, 0]))
    array[1, 2] = -1
    log(t)
    log(torch.from_numpy(array.T), torch.from_numpy(array[:, ::2]))


@program
def from_numpy_dtypes(torch, log):
    for name in ("float16", "float32", "float64", "uint8", "int8", "int16", "int32", "int64"):
        log(torch.from_numpy(np.array([1, 2], dtype=name)))
    log(torch.from_numpy(np.array([True])), torch.from_numpy(np.array([1j], dtype="complex64")))


@program
def from_numpy_errors(torch, log):
    log.raises(lambda: torch.from_numpy([1, 2]))
    log.raises(lambda: torch.from_numpy(np.array(["a"])))
    log.raises(lambda: torch.from_numpy(np.array([1.0, 2.0])[::-1]))


@program
def legacy_tensor_constructor(torch, log):
    log(torch.Tensor([1, 2, 3]), torch.Tensor([[1.5], [2]]), torch.Tensor())
    log(torch.Tensor(2, 3).shape, torch.Tensor(2, 3).dtype, torch.Tensor(torch.Size([4])).shape)
    a = torch.tensor([1.0, 2.0])
    b = torch.Tensor(a)
    b[0] = 5.0
    log(a, b)


@program
def legacy_tensor_constructor_errors(torch, log):
    log.raises(lambda: torch.Tensor(torch.tensor([1])))
    log.raises(lambda: torch.Tensor(-1))
    log.raises(lambda: torch.Tensor(["a"]))
    log.raises(lambda: torch.Tensor(2.5))


@program
def legacy_typed_constructors(torch, log):
    for name in ("Float", "Double", "Half", "Byte", "Char", "Short", "Int", "Long", "Bool"):
        kind = getattr(torch, name + "Tensor")
        log(kind([1, 0, 2]), kind(2, 1).shape, kind(2, 1).dtype, kind())


@program
def legacy_typed_isinstance(torch, log):
    a, b = torch.tensor([1.0]), torch.tensor([1])
    log(isinstance(a, torch.FloatTensor), isinstance(b, torch.FloatTensor))
    log(isinstance(b, torch.LongTensor), isinstance(a, torch.Tensor))
    log(torch.FloatTensor([1]).type(), torch.LongTensor([1]).type(), a.type(), b.type())


@program
def zeros_and_ones(torch, log):
    log(torch.zeros(2, 3), torch.zeros((2,)), torch.zeros([1, 2]), torch.zeros(torch.Size([2])))
    log(torch.ones(2, dtype=torch.int64), torch.ones(()), torch.zeros(0), torch.zeros(2, 0, 3))
    log(torch.ones(2, requires_grad=True), torch.zeros(2, dtype=torch.bool))
    log(torch.ones(size=(1, 1)))


@program
def zeros_errors(torch, log):
    log.raises(lambda: torch.zeros(-1))
    log.raises(lambda: torch.zeros(2, -3))
    log.raises(lambda: torch.zeros(1.5))
    log.raises(lambda: torch.zeros("a"))
    log.raises(lambda: torch.zeros())


@program
def full_infers_dtype(torch, log):
    log(torch.full((2,), 1), torch.full((2,), 1.5), torch.full((2,), True), torch.full((2,), 1j))
    log(torch.full((2, 2), 3, dtype=torch.float64), torch.full((), 7))
    log(torch.full([2], 2.0, requires_grad=True))
    log.raises(lambda: torch.full((2,), 1, requires_grad=True))
    log.raises(lambda: torch.full(2, 1))


@program
def empty_has_shape_and_dtype(torch, log):
    for t in (torch.empty(2, 3), torch.empty(0), torch.empty((2,), dtype=torch.int8)):
        log(t.shape, t.dtype, t.stride(), t.requires_grad)
    log(torch.empty(1, requires_grad=True).requires_grad)
    log(torch.empty_like(torch.ones(2, dtype=torch.int16)).dtype)


@program
def eye(torch, log):
    log(torch.eye(2), torch.eye(2, 3), torch.eye(3, 2, dtype=torch.int64), torch.eye(0))
    log(torch.eye(2, dtype=torch.bool), torch.eye(1, requires_grad=True))
    log.raises(lambda: torch.eye(-1))


@program
def arange(torch, log):
    log(torch.arange(4), torch.arange(1, 4), torch.arange(1, 8, 3), torch.arange(5, 0, -2))
    log(torch.arange(3.0), torch.arange(0, 1, 0.25), torch.arange(1, 2.5), torch.arange(0))
    log(torch.arange(3, dtype=torch.float64), torch.arange(0, 3, dtype=torch.uint8))
    log(torch.arange(2.0, requires_grad=True), torch.arange(start=1, end=3), torch.arange(end=2))


@program
def arange_errors(torch, log):
    log.raises(lambda: torch.arange(0, 3, 0))
    log.raises(lambda: torch.arange(3, 0))
    log.raises(lambda: torch.arange(0, 3, -1))
    log.raises(lambda: torch.arange(0, float("inf")))
    log.raises(lambda: torch.arange())


@program
def linspace_and_logspace(torch, log):
    log(torch.linspace(0, 1, 5), torch.linspace(-2, 2, 3, dtype=torch.float64))
    log(torch.linspace(3, 3, 2), torch.linspace(0, 1, 1), torch.linspace(0, 1, 0))
    log(torch.linspace(0, 10, 4, dtype=torch.int64), torch.linspace(1, 0, steps=3))
    log(torch.logspace(0, 2, 3), torch.logspace(0, 3, 4, base=2.0, dtype=torch.float64))
    log(torch.linspace(0, 1, 3, requires_grad=True))


@program
def linspace_errors(torch, log):
    log.raises(lambda: torch.linspace(0, 1, -1))
    log.raises(lambda: torch.logspace(0, 1, -1))


@program
def like_functions(torch, log):
    a = torch.tensor([[1.0, 2.0]], requires_grad=True)
    b = torch.tensor([1, 2])
    for t in (a, b):
        log(torch.zeros_like(t), torch.ones_like(t), torch.full_like(t, 3))
        log(torch.zeros_like(t, dtype=torch.float64), torch.ones_like(t, dtype=torch.bool))
    log(torch.zeros_like(a, requires_grad=True))
    log(torch.full_like(b, 2.75))


@program
def like_functions_keep_strides(torch, log):
    a = torch.arange(6.0).reshape(2, 3).t()
    log(torch.zeros_like(a).stride(), torch.ones_like(a[:, :1]).stride())
    log(torch.zeros_like(a.expand(2, 3, 2)).stride())


@program
def new_methods(torch, log):
    a = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    log(a.new_zeros(2), a.new_ones((1, 2)), a.new_full((2,), 5), a.new_tensor([1, 2]))
    log(a.new_zeros(2, dtype=torch.int32), a.new_ones(1, requires_grad=True))
    log(a.new_empty((2, 3)).shape, a.new_empty(4).dtype)
    log(a.new([1, 2]), a.new(2, 2).shape)
    log(torch.tensor([1]).new_tensor([1.5]), torch.tensor([1]).new_full((2,), 3))


@program
def default_dtype(torch, log):
    log(torch.get_default_dtype())
    torch.set_default_dtype(torch.float64)
    try:
        log(torch.get_default_dtype(), torch.tensor(1.5), torch.ones(1), torch.tensor([1]))
        log(torch.tensor([1]) / 2, torch.tensor(1j), torch.Tensor([1]), torch.arange(1.0))
        log(torch.tensor([1]) + 1.5, torch.tensor([1.0], dtype=torch.float32) * 2.5)
        log(torch.full((1,), 2.0), torch.eye(1), torch.linspace(0, 1, 2), torch.tensor([1]).sqrt())
    finally:
        torch.set_default_dtype(torch.float32)
    log(torch.tensor(1.5))
    log.raises(lambda: torch.set_default_dtype(torch.int64))


@program
def numpy_shares_memory(torch, log):
    t = torch.tensor([1.0, 2.0])
    array = t.numpy()
    log(array)
    array[0] = 5.0
    log(t)
    t.add_(1)
    log(array)
    log(torch.arange(6).reshape(2, 3).t().numpy(), torch.tensor(3).numpy())


@program
def numpy_refuses_gradients(torch, log):
    a = torch.tensor([1.0], requires_grad=True)
    log.raises(lambda: a.numpy())
    log.raises(lambda: (a * 2).numpy())
    log.raises(lambda: np.asarray(a))
    log(a.detach().numpy(), a.numpy(force=True))
    with torch.no_grad():
        log.raises(lambda: a.numpy())
        log((a * 2).numpy())


@program
def array_protocol(torch, log):
    t = torch.tensor([[1, 2], [3, 4]])
    log(np.asarray(t), np.array(t, dtype=np.float32), np.asarray(t[:, 0]))
    log(float(np.sum(np.asarray(t))))


@program
def tolist_and_item(torch, log):
    log(torch.tensor([[1, 2], [3, 4]]).tolist(), torch.tensor(1.5).tolist())
    log(torch.tensor([True]).tolist(), torch.tensor([1j]).tolist(), torch.tensor([]).tolist())
    log(torch.tensor(2).item(), torch.tensor([[2.5]]).item(), torch.tensor(False).item())
    log(torch.tensor(1.5, requires_grad=True).item(), torch.tensor(1 + 1j).item())
    log.raises(lambda: torch.tensor([1, 2]).item())
    log.raises(lambda: torch.tensor([]).item())


@program
def python_number_conversions(torch, log):
    a = torch.tensor([2.75])
    log(int(a), float(a), bool(a), complex(a), int(torch.tensor(-1.5)))
    log(bool(torch.tensor(0)), bool(torch.tensor([0.0])), float(torch.tensor(True)))
    log([10, 20, 30][torch.tensor(1)], list(range(torch.tensor(2))))
    log(float(torch.tensor(1.5, requires_grad=True)))
    log("%.2f" % torch.tensor(1.256))  # noqa: UP031
    log(f"{torch.tensor(3):d}", f"{torch.tensor(1.256):.1f}")
    log(round(float(torch.tensor(1.256)), 1))


@program
def python_number_conversion_errors(torch, log):
    log.raises(lambda: int(torch.tensor([1, 2])))
    log.raises(lambda: float(torch.tensor([1.0, 2.0])))
    log.raises(lambda: bool(torch.tensor([1, 2])))
    log.raises(lambda: bool(torch.tensor([])))
    log.raises(lambda: [1, 2][torch.tensor(1.0)])
    log.raises(lambda: float(torch.tensor(1j)))


@program
def length_and_iteration(torch, log):
    a = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    log(len(a), len(torch.zeros(0, 3)), list(a))
    for row in a:
        log(row)
    x, y = a
    log(x + y)
    log.raises(lambda: len(torch.tensor(1)))
    log.raises(lambda: list(torch.tensor(1)))


@program
def contains(torch, log):
    a = torch.tensor([1, 2, 3])
    log(2 in a, 5 in a, torch.tensor(3) in a)
    log.raises(lambda: "x" in a)


@program
def conversions_by_name(torch, log):
    a = torch.tensor([0.0, 1.75, -2.5])
    log(a.float() is a, a.double(), a.half(), a.int(), a.long(), a.short(), a.bool(), a.char())
    log(torch.tensor([1, 0]).bool(), torch.tensor([True]).int(), torch.tensor([300]).byte())
    log(a.cfloat(), a.cdouble())


@program
def conversions_keep_history(torch, log):
    a = torch.tensor([1.5, 2.5], requires_grad=True)
    log(a.float() is a, a.double(), a.half(), a.long(), a.bool())
    (a.double() * a.half()).sum().backward()
    log(a.grad)


@program
def to_overloads(torch, log):
    a = torch.tensor([1.5, 2.5])
    log(a.to(torch.float64), a.to("cpu") is a, a.to(torch.float32) is a)
    log(a.to(torch.device("cpu"), torch.int64), a.to(torch.tensor([1])), a.to(dtype=torch.bool))
    b = a.to(torch.float32, copy=True)
    b[0] = 0
    log(a, b)
    log(a.to("cpu", torch.float16, non_blocking=True))
    log(a.cpu() is a)
    log.raises(lambda: a.to("nowhere"))


@program
def type_names(torch, log):
    a = torch.tensor([1.5])
    log(a.type(), a.type(torch.float64), a.type("torch.LongTensor"), a.type(torch.IntTensor))
    log(a.type_as(torch.tensor([1])), torch.tensor([1]).type_as(a), a.type(torch.float32) is a)
    for name in ("float16", "uint8", "int8", "int16", "int32", "bool", "float64"):
        log(torch.zeros(1, dtype=getattr(torch, name)).type())


@program
def clone_and_contiguous(torch, log):
    a = torch.arange(6.0).reshape(2, 3)
    log(a.contiguous() is a, a.is_contiguous(), a.t().is_contiguous())
    log(a.t().contiguous(), a.t().clone(), a[:, ::2].clone(), a.expand(2, 2, 3).clone().stride())
    log(a.t().clone(memory_format=torch.contiguous_format).stride())
    b = a.clone()
    b[0] = 0
    log(a)
    x = torch.tensor([1.0], requires_grad=True)
    x.clone().mul(3).backward()
    log(x.grad, x.clone(), torch.clone(x))


@program
def copy_functions(torch, log):
    a = torch.tensor([1.0, 2.0], requires_grad=True)
    (a * a).sum().backward()
    b = copy.deepcopy(a)
    log(b.detach().clone(), b.requires_grad, b.grad.clone(), b.data_ptr() == a.data_ptr())
    log(copy.copy(a).data_ptr() == a.data_ptr())
    log.raises(lambda: copy.deepcopy(a * 2))


@program
def queries(torch, log):
    a = torch.zeros(2, 3, dtype=torch.float64)
    log(a.numel(), a.nelement(), a.size(), a.size(1), a.size(-1), a.stride(), a.stride(0))
    log(a.dim(), a.ndim, a.ndimension(), a.element_size(), a.itemsize, a.nbytes, a.shape)
    log(a.is_floating_point(), a.is_complex(), a.is_signed())
    log(a.storage_offset(), a[1].storage_offset())
    log(a.device, a.is_cuda, a.is_sparse, a.layout == torch.strided, torch.numel(a))
    log.raises(lambda: a.size(2))
    log.raises(lambda: a.stride(-3))


@program
def size_is_a_tuple(torch, log):
    s = torch.zeros(2, 3).shape
    log(isinstance(s, tuple), s == (2, 3), s.numel(), repr(s), s[0], s[-1:], s + (4,), len(s))
    log(repr(torch.Size([])), torch.Size([1, 2]) == torch.Size((1, 2)), hash(s) == hash((2, 3)))


@program
def type_predicates(torch, log):
    log(torch.is_tensor(torch.ones(1)), torch.is_tensor([1]), torch.is_tensor(np.ones(1)))
    for data in ([1.0], [1], [1j], [True]):
        t = torch.tensor(data)
        log(torch.is_floating_point(t), torch.is_complex(t), t.dtype.is_floating_point)
        log(t.dtype.is_complex, t.dtype.is_signed, t.dtype.itemsize)


@program
def dtype_objects(torch, log):
    log(repr(torch.float32), str(torch.int64), torch.float is torch.float32)
    log(torch.long is torch.int64, torch.double is torch.float64, torch.half is torch.float16)
    log(torch.int is torch.int32, torch.short is torch.int16, torch.cfloat is torch.complex64)
    log(torch.complex64.to_real(), torch.float64.to_complex())


@program
def finfo_and_iinfo(torch, log):
    for name in ("float16", "float32", "float64"):
        f = torch.finfo(getattr(torch, name))
        log(f.eps, f.max, f.min, f.tiny, f.bits, f.resolution, f.smallest_normal, f.dtype)
    for name in ("uint8", "int8", "int32", "int64"):
        i = torch.iinfo(getattr(torch, name))
        log(i.max, i.min, i.bits)
    log.raises(lambda: torch.finfo(torch.int64))
    log.raises(lambda: torch.iinfo(torch.float32))


@program
def promotion_functions(torch, log):
    names = ("uint8", "int8", "int64", "float16", "float32", "float64", "bool", "complex64")
    for a in names:
        row = [torch.promote_types(getattr(torch, a), getattr(torch, b)) for b in names]
        log(a, row, [torch.can_cast(getattr(torch, a), getattr(torch, b)) for b in names])


@program
def result_type(torch, log):
    i, f, d = torch.tensor([1]), torch.tensor([1.0]), torch.tensor(1.0, dtype=torch.float64)
    log(torch.result_type(i, f), torch.result_type(f, d), torch.result_type(i, d))
    log(torch.result_type(i, 1.5), torch.result_type(2, i), torch.result_type(f, 1j))
    log(torch.result_type(torch.tensor([True]), 1), torch.result_type(1, 2.0))
    log(torch.result_type(torch.tensor([1], dtype=torch.uint8), torch.tensor(300)))


@program
def equal_and_close(torch, log):
    a = torch.tensor([1.0, 2.0, float("nan")])
    b = torch.tensor([1.0, 2.0 + 1e-6, float("nan")])
    log(torch.equal(a[:2], a[:2].clone()), torch.equal(a, a), a.equal(b), torch.equal(a, a[:2]))
    log(torch.allclose(a, b), torch.allclose(a, b, equal_nan=True), a[:2].allclose(b[:2], 0.0, 0.0))
    for close in (
        torch.isclose(a, b),
        torch.isclose(a, b, equal_nan=True),
        a.isclose(b, rtol=0.0, atol=1e-8),
        torch.isclose(torch.tensor([float("inf"), 1]), torch.tensor([float("inf"), float("inf")])),
    ):
        log(close.dtype, close.tolist())  # its version would tell how PyTorch computes it
    log.raises(lambda: torch.allclose(a, torch.tensor([1, 2, 3])))
    log.raises(lambda: torch.equal(a, 1))


@program
def devices(torch, log):
    d = torch.device("cpu")
    log(repr(d), str(d), d.type, d.index, d == torch.device("cpu"), repr(torch.device("cuda", 1)))
    log(torch.device("cuda:1").index, torch.device("cpu", 0), torch.ones(1, device="cpu").device)
    log.raises(lambda: torch.device("nowhere"))
    log.raises(lambda: torch.device("cuda:x"))


@program
def fill_and_zero(torch, log):
    a = torch.ones(2)
    log(a.fill_(3), a.zero_(), a.fill_(torch.tensor(2.5)), a)
    log(torch.tensor([1]).fill_(2.75))
    log.raises(lambda: a.fill_(torch.tensor([1.0, 2.0])))
    log.raises(lambda: torch.tensor([1]).fill_(1j))


@program
def copy_in_place(torch, log):
    a = torch.zeros(2, 2)
    log(a.copy_(torch.tensor([1, 2])), a._version)
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    a.copy_(x * 2)
    log(a)
    a.sum().backward()
    log(x.grad)
    log.raises(lambda: torch.zeros(2).copy_(torch.ones(3)))


@program
def data_assignment(torch, log):
    a = torch.tensor([1.0, 2.0], requires_grad=True)
    a.data = torch.tensor([5.0, 6.0, 7.0])
    log(a)
    a.data[0] = 0.0
    log(a, a.data)
    log.raises(lambda: setattr(a, "data", torch.tensor([1])))
    log.raises(lambda: setattr(a, "data", [1.0]))


@program
def parameters(torch, log):
    p = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
    log(p, repr(p), isinstance(p, torch.Tensor), p.is_leaf)
    log(torch.nn.Parameter(torch.ones(1), requires_grad=False), type(p * 2) is torch.Tensor)
    log.raises(lambda: torch.nn.Parameter(torch.tensor([1])))


@program
def user_attributes(torch, log):
    a = torch.ones(1)
    a.note = "mine"
    log(a.note, hasattr(a.clone(), "note"), hash(a) == hash(a), a is a.detach())
    log.raises(lambda: a.missing)


@program
def numbers_beyond_a_dtype(torch, log):
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        log(torch.tensor(1e300, dtype=dtype), torch.tensor([1e300, -1e300, 1.0], dtype=dtype))
        log(torch.tensor([torch.tensor(1e300, dtype=torch.float64), 2.0], dtype=dtype))
