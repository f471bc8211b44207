"""Names that few programs use: old functions, small methods, futures, storages, control flow."""

import importlib
import tempfile

from programs.harness import program
from programs.prog_corners import attempts


@program
def removed_functions(torch, log):
    for name in ("eig", "lstsq", "solve", "symeig", "matrix_rank"):
        log.raises(lambda name=name: getattr(torch, name)(torch.eye(2), torch.eye(2)))
    for name in ("eig", "lstsq", "solve", "symeig", "reinforce"):
        log.raises(lambda name=name: getattr(torch.eye(2), name)(torch.eye(2)))
    log.warns(lambda: torch.ones(2, 3).resize(3, 2))
    log.warns(lambda: torch.ones(2, 3).resize_as(torch.ones(6)))
    log.warns(lambda: torch.ones(1).volatile)
    log.raises(lambda: torch.ones(1).resize(2))


@program
def small_methods(torch, log):
    for shape, wrap in (((2, 2), False), ((4, 2), True), ((7, 2), True), ((3, 3, 3), False)):
        log(torch.zeros(shape).fill_diagonal_(3, wrap=wrap).tolist())
    log.raises(lambda: torch.zeros(3).fill_diagonal_(1))
    log.raises(lambda: torch.zeros(2, 3, 2).fill_diagonal_(1))
    x = torch.zeros(2, 3, 4, 5)
    log(x.dim_order(), x.permute(3, 1, 0, 2).dim_order())
    log(x.contiguous(memory_format=torch.channels_last).dim_order())
    log.raises(lambda: torch.zeros(2, 2, 1, 1).dim_order(ambiguity_check=True))
    log(x.const_data_ptr() == x.data_ptr(), x.is_same_size(x), x.is_distributed(), x.name)
    log([d.abbr for d in (torch.bool, torch.uint8, torch.int64, torch.bfloat16, torch.complex64)])
    log(torch.zeros(2).module_load(torch.ones(2)))
    a, b = torch.tensor([1.0]), torch.tensor([2, 3])
    torch.utils.swap_tensors(a, b)
    log(a, b)


@program
def storages(torch, log):
    log(len(torch.FloatStorage(3)), torch.DoubleStorage([1, 2]).dtype, torch.ByteStorage([1, 2])[1])
    kinds = (torch.FloatStorage, torch.LongStorage, torch.BFloat16Storage)
    for t in (torch.zeros(1), torch.zeros(1, dtype=torch.long), torch.zeros(1).bfloat16()):
        log([isinstance(t.storage(), kind) for kind in kinds], t.storage_type().__name__)


@program
def control_flow(torch, log):
    x = torch.ones(2, requires_grad=True)
    log(torch.cond(True, lambda: 1, lambda: 2))
    for flag in (True, False):
        out = torch.cond(torch.tensor(flag), lambda x: x * 3, lambda x: x - 1, (x,))
        log(out.tolist(), torch.autograd.grad(out.sum(), x)[0].tolist())
    log.raises(lambda: torch.cond(torch.tensor([True, False]), lambda x: x, lambda x: x, (x,)))
    start = (torch.tensor(0), torch.ones(2))
    log(torch.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), start))


@program
def promises(torch, log):
    future = torch.futures.Future()
    seen = []
    later = future.then(lambda f: f.wait() + 1)
    future.add_done_callback(lambda f: seen.append(f.value()))
    log(future.done())
    future.set_result(2)
    log(future.done(), future.wait(), later.wait(), seen)
    log.raises(lambda: future.set_result(3))
    log.raises(lambda: future.then(lambda f: 1 / 0).wait())
    log.raises(lambda: future.set_exception(3))
    broken = torch.futures.Future()
    broken.set_exception(ValueError("no"))
    log.raises(broken.wait)
    log.raises(lambda: torch.futures.wait_all([future, broken]))
    log(torch.futures.wait_all([future, future]), torch.futures.collect_all([]).wait())


@program
def rearranged(torch, log):
    x = torch.arange(24).reshape(2, 3, 4)
    for pattern in ("a b c -> a (b c)", "a ... -> ... a", "a b c -> c 1 (a b)", "... -> (...)"):
        log(torch.func.rearrange(x, pattern))
    log(torch.func.rearrange(x, "a b (c d) -> (a c) b d", d=2))
    log(torch.func.rearrange([x, x], "n a b c -> a n (b c)"))
    for pattern in ("a b c -> c a", "a b c d -> a b c d", "a b a -> a b", "a b c"):
        try:
            torch.func.rearrange(x, pattern)
        except ValueError:
            log("ValueError")
    log(torch.func.functionalize(lambda x: x.clone().add_(1))(torch.ones(2)).tolist())


@program
def segments(torch, log):
    data = torch.tensor([[1.0, 2], [3, 4], [5, 6], [7, 8]], requires_grad=True)
    for reduce in ("sum", "mean", "max", "min", "prod"):
        for initial in (None, 2):
            options = {} if initial is None else {"initial": initial}
            out = torch.segment_reduce(data, reduce, lengths=torch.tensor([1, 0, 3]), **options)
            log(out.detach())
            if initial is None:
                (grad,) = torch.autograd.grad(out[::2].sum(), data)
                log(grad.tolist())
    log(torch.segment_reduce(data.detach(), "sum", offsets=torch.tensor([0, 1, 4])))
    lengths = torch.tensor([[1, 1], [2, 0]])
    log(torch.segment_reduce(data.detach()[:2], "sum", lengths=lengths, axis=1))
    attempts(
        log,
        lambda: torch.segment_reduce(data, "sum", lengths=torch.tensor([1, 1])),
        lambda: torch.segment_reduce(data, "foo", lengths=torch.tensor([1, 1])),
        lambda: torch.segment_reduce(data, "sum"),
    )


@program
def gradients_of_convolutions(torch, log):
    torch.manual_seed(0)
    grad = torch.nn.grad
    shapes = ((2, 4, 5, 5), (6, 2, 3, 3), (2, 6, 3, 3))
    x, w, g = [torch.randn(shape).double() for shape in shapes]
    options = {"stride": 2, "padding": 1, "groups": 2}
    log(grad.conv2d_input(x.shape, w, g, **options).sum(1))
    log(grad.conv2d_weight(x, w.shape, g, **options).sum(1))
    log(grad.conv1d_input((1, 1, 3), torch.ones(1, 1, 2), torch.ones(1, 1, 2)))
    log(grad.conv3d_weight(torch.ones(1, 1, 3, 3, 3), (1, 1, 2, 2, 2), torch.ones(1, 1, 2, 2, 2)))


@program
def sparse_things(torch, log):
    x = torch.tensor([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0], [4.0, 5.0, 6.0]]).to_sparse()
    for dim in (0, 1):
        log(torch.sparse.softmax(x, dim).to_dense(), torch.sparse.log_softmax(x, dim).to_dense())
    rows = torch.arange(9).reshape(3, 3)
    log(torch.sparse.spdiags(rows, torch.tensor([0, -1, 2]), (3, 3)).to_dense())
    log.raises(lambda: torch.sparse.spdiags(rows, torch.tensor([0, 0, 2]), (3, 3)))
    log(x.clone().sparse_resize_((4, 4), 2, 0).to_dense())
    log(x.clone().sparse_resize_and_clear_((4, 4), 2, 0).to_dense())
    log.raises(lambda: x.clone().sparse_resize_((1, 1), 2, 0))
    log.raises(lambda: x.clone().sparse_resize_((4, 4), 1, 1))
    log(isinstance(x, torch.sparse.FloatTensor), isinstance(x, torch.sparse.DoubleTensor))
    log(torch.smm(x, torch.ones(3, 2)).to_dense(), torch.hspmm(x, torch.ones(3, 2)).to_dense())
    weight = torch.nn.Parameter(torch.arange(8.0).reshape(4, 2))
    optimizer = torch.optim.SparseAdam([weight], lr=0.1)
    for step in range(3):
        rows = torch.tensor([[1, 3, 1]])
        weight.grad = torch.sparse_coo_tensor(rows, torch.ones(3, 2) * (step + 1), (4, 2))
        optimizer.step()
    log(weight.tolist())
    check = torch.sparse.check_sparse_tensor_invariants
    with check():
        log(check.is_enabled())
        log.raises(lambda: torch.sparse_coo_tensor([[5]], [1.0], (2,)))
    log(check.is_enabled())


@program
def old_norms_and_files(torch, log):
    x = torch.arange(6.0).reshape(2, 3)
    log(
        torch.frobenius_norm(x, (0, 1)), torch.nuclear_norm(x), torch.view_as_complex_copy(x[:, :2])
    )
    with tempfile.NamedTemporaryFile() as file:
        t = torch.from_file(file.name, shared=True, size=3, dtype=torch.float64)
        t.copy_(torch.tensor([1.0, 2.0, 3.0]))
        log(t, torch.from_file(file.name, size=2, dtype=torch.float64))
    layer = torch.nn.Conv2d(2, 3, 3)
    torch.nn.utils.convert_conv2d_weight_memory_format(layer, torch.channels_last)
    log(layer.weight.stride())
    log(torch.nn.factory_kwargs({"dtype": torch.float64}))
    log.raises(lambda: torch.nn.factory_kwargs({"foo": 1}))
    log.warns(lambda: torch.nn.Container(a=torch.nn.ReLU()))


@program
def grouped_products(torch, log):
    product = torch.nn.functional.grouped_mm
    a = torch.arange(96.0).reshape(12, 8).bfloat16() / 64
    b = torch.arange(256.0).reshape(2, 8, 16).bfloat16() / 128
    offs = torch.tensor([4, 12], dtype=torch.int32)
    log(product(a, b, offs=offs))
    log(product(a[:8].reshape(2, 4, 8), b))
    log(product(a[:8].t(), b[0], offs=torch.tensor([4, 8], dtype=torch.int32)))
    log.raises(lambda: product(a, b))


@program
def attention_switches(torch, log):
    from_name = torch.nn.attention
    flags = torch.backends.cuda
    for backend in ("MATH", "FLASH_ATTENTION", "EFFICIENT_ATTENTION"):
        with from_name.sdpa_kernel(getattr(from_name.SDPBackend, backend)):
            log(flags.math_sdp_enabled(), flags.flash_sdp_enabled())
    log(flags.math_sdp_enabled(), flags.flash_sdp_enabled())


@program
def private_names_that_packages_import(torch, log):
    def module(name):
        return importlib.import_module(f"{torch.__name__}.{name}")

    reduction, optimizer = module("nn._reduction"), module("optim.optimizer")
    log([reduction.get_enum(name) for name in ("none", "mean", "sum")])
    log.raises(lambda: reduction.get_enum("x"))
    for average in (None, True, False):
        for reduce in (None, True, False):
            log(reduction.legacy_get_string(average, reduce, False))
            log(reduction.legacy_get_enum(average, reduce, False))

    one, pair = torch.ones(2), torch.ones(2, dtype=torch.complex64)
    log(optimizer._get_value(torch.tensor(2.0)), optimizer._get_value(3))
    log(optimizer._to_scalar(torch.tensor([2.0])), optimizer._to_scalar(2.0))
    log(optimizer._get_scalar_dtype(), optimizer._stack_if_compiling(4))
    params, state = [pair, one], [pair, one]
    optimizer._view_as_real(params, state)
    log(params, state)
    for given in ([one], [one.long()], [None], []):
        for differentiable, fused in ((False, False), (False, True), (True, True)):
            log(optimizer._default_to_fused_or_foreach(given, differentiable, fused))

    utils = module("_utils")
    tensors = [torch.arange(6.0).reshape(2, 3), one, torch.tensor(5.0)]
    flat = utils._flatten_dense_tensors(tensors)
    log(flat, utils._unflatten_dense_tensors(flat, tensors))
    log.raises(lambda: utils._flatten_dense_tensors([]))
    kinds = {
        4: torch.float32,
        3: torch.float64,
        2: torch.float32,
        1: torch.float64,
        8: torch.float32,
    }
    mixed = [torch.ones(n, dtype=dtype) for n, dtype in kinds.items()]
    for limit in (1, 20, 1000):
        found = list(utils._take_tensors(mixed, limit))
        log([[len(t) for t in group] for group in found])
    sorted_by_type = [t for group in found for t in group]
    log([len(t) for t in utils._reorder_tensors_as(sorted_by_type, mixed)])

    torch.manual_seed(0)
    init, weight = torch.nn.init, torch.empty(2, 2)
    log(init._no_grad_uniform_(weight, -1, 1).clone(), init._no_grad_normal_(weight, 0, 1).clone())
    log(init._no_grad_fill_(weight, 2.0).sum(), init._no_grad_zero_(weight).sum())
    chosen = module("_jit_internal").boolean_dispatch(
        "flag", 1, False, lambda x, flag=False: "yes", lambda x, flag=False: "no", "m", "f"
    )
    log(chosen(1), chosen(1, True), chosen(1, flag=True), chosen.__name__)
    log(module("nn.modules.module")._addindent("a\nb", 2), module("_C").Size is torch.Size)
    log(sorted(set("adam sgd asgd rprop".split()) & set(dir(module("optim._functional")))))
