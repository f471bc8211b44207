"""Behaviour that PyTorch's own tests hold, and in which tapegrad once differed."""

import copy
import io
import warnings
from collections import OrderedDict

import numpy as np

from .harness import program


@program
def gradients_that_hooks_of_a_leaf_see_and_grad_takes_over(torch, log):
    ways = {
        "sum": lambda x: x.sum(),
        "mul": lambda x: (x * 2).sum(),
        "two parts": lambda x: (x * 2 * x).sum(),
        "product": lambda x: x @ torch.ones(3),
    }
    for name, way in ways.items():
        for pre in (None, lambda g: g / 2, lambda g: g):
            for keep in (False, True):
                x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
                node = x.view_as(x).grad_fn.next_functions[0][0]
                held = []

                def prehook(grads, pre=pre, keep=keep, held=held):
                    answer = (pre(grads[0]),)
                    if keep:
                        held.append(answer[0])
                    return answer

                if pre is not None:
                    node.register_prehook(prehook)

                def add_one(t):
                    t.grad.add_(1)

                def posthook(inputs, outputs, x=x, name=name):
                    log(name, inputs, outputs[0].tolist(), x.grad.tolist())
                    log(outputs[0].data_ptr() == x.grad.data_ptr(), x.grad._version)

                x.register_post_accumulate_grad_hook(add_one)
                node.register_hook(posthook)
                way(x).backward()
                log(x.grad)


@program
def node_hooks_made_while_a_saved_tensor_is_unpacked(torch, log):
    for watched in (False, True):
        a = torch.ones(3, requires_grad=True)

        def unpack(t):
            node = torch._C._current_autograd_node()
            node.register_hook(lambda gi, go: log([g is None for g in gi], go))
            return t

        with torch.autograd.graph.saved_tensors_hooks(lambda t: t, unpack):
            y = a * a
        if watched:
            y.grad_fn.register_prehook(lambda g: None)
        y.sum().backward()
        log(a.grad.tolist())


@program
def indices_that_a_node_saved(torch, log):
    a = torch.ones(2, 2, requires_grad=True)
    index = torch.tensor([0, 1])
    for key in ((slice(None), index), (index,), (index, index), (a > 0,), (None, index)):
        out = a[key]
        node = out.grad_fn
        log(node._saved_indices, node._saved_self_sym_sizes)
        log([type(raw).__name__ for raw in node._raw_saved_indices])
        log("_saved_indices" in dir(node), "_saved_index" in dir(node))
        out.sum().backward()
        log.raises(lambda node=node: node._saved_indices)
    node = a[:, index].grad_fn
    log.raises(lambda: node._raw_saved_indices[0].register_hooks(lambda x: x, lambda x: x))


@program
def the_private_grad_fn(torch, log):
    x = torch.ones(2, requires_grad=True) * 2
    log(type(x._grad_fn).__name__)

    def put(value):
        x._grad_fn = value

    def remove():
        del x._grad_fn

    log.raises(lambda: put(1))
    log.raises(remove)
    put(None)
    log(x, x._grad_fn, x.requires_grad)
    log("__cuda_array_interface__" in dir(x), "volatile" in dir(x))


@program
def forward_mode_of_functions_without_it(torch, log):
    fwAD = torch.autograd.forward_ad
    with fwAD.dual_level():
        dual = fwAD.make_dual(torch.ones(2), torch.ones(2))
        log.raises(lambda: torch.igamma(dual, dual))
        log.raises(lambda: torch.igammac(dual, dual))


@program
def inputs_of_subclasses_that_functions_return_as_they_are(torch, log):
    class Plain(torch.Tensor):
        pass

    class Wrapper(torch.Tensor):
        def __init__(self, data):
            super().__init__()
            self._data = data

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            args = tuple(a._data if isinstance(a, cls) else a for a in args)
            out = func(*args, **(kwargs or {}))
            return cls(out) if isinstance(out, torch.Tensor) else out

    class Same(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 3

    log(type(Same.apply(Wrapper(torch.ones(2)))).__name__)
    for needed in (False, True):
        x = torch.ones(2).as_subclass(Plain).requires_grad_(needed)
        y = Same.apply(x)
        log(type(y).__name__, y.requires_grad, type(y.grad_fn).__name__, y._is_view())
        if needed:
            y.sum().backward()
            log(x.grad.tolist())
            log.raises(lambda y=y: y.add_(1))


@program
def eigenvectors_of_a_matrix_that_is_not_quite_symmetric(torch, log):
    a = torch.tensor([[3.0, 1.0, 0.0], [0.5, 2.0, 0.25], [0.0, 0.75, 1.0]], dtype=torch.float64)
    a = ((a + a.mT) / 2).requires_grad_()
    values, _ = torch.lobpcg(a, k=1, X=torch.eye(3, 1, dtype=torch.float64))
    (g,) = torch.autograd.grad(values.sum(), a)
    log(torch.equal(g, g.mT))
    log([[round(v, 5) for v in row] for row in g.tolist()])


@program
def what_a_checkpoint_hands_to_the_backward_pass(torch, log):
    seen = []

    class Keeps(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(y)
            return x

        @staticmethod
        def backward(ctx, g):
            seen.extend(ctx.saved_tensors)
            return g, None

    a = torch.tensor(1.0, requires_grad=True)
    b = torch.tensor(1.0)
    checkpoint = torch.utils.checkpoint.checkpoint
    checkpoint(Keeps.apply, a, b, use_reentrant=False).backward()
    log(seen[0] is b)


@program
def global_hooks_that_are_replaced(torch, log):
    module = torch.nn.modules.module
    torch.nn.modules.module.register_module_forward_hook(lambda m, i, o: log("called"))
    torch.nn.ReLU()(torch.ones(1))
    module._global_forward_hooks = OrderedDict()
    torch.nn.ReLU()(torch.ones(1))
    log(len(module._global_forward_hooks))


@program
def parameters_without_a_shape(torch, log):
    for t in (torch.nn.UninitializedParameter(), torch.nn.parameter.UninitializedBuffer()):
        with torch.no_grad():
            for name in ("zero_", "detach_", "item", "stride", "contiguous", "data_ptr"):
                log.raises(getattr(t, name))
            log.raises(lambda t=t: t.mul_(2))
            log.raises(lambda t=t: torch.nn.init.zeros_(t))


@program
def memory_order_of_pooled_images(torch, log):
    F = torch.nn.functional
    images = [
        torch.arange(216.0).view(2, 3, 6, 6).contiguous(memory_format=torch.channels_last),
        torch.arange(216.0).view(2, 3, 6, 6),
        torch.arange(108.0).view(1, 3, 6, 6).contiguous(memory_format=torch.channels_last),
    ]
    for x in images:
        log(F.adaptive_avg_pool2d(x, 1).stride(), F.adaptive_avg_pool2d(x, (2, 1)).stride())
        values, indices = F.max_pool2d(x, 2, return_indices=True)
        log(values.stride(), indices.stride(), F.max_unpool2d(values, indices, 2).stride())
        log(x.amax((-1, -2), keepdim=True).stride(), x.amin(1, keepdim=True).stride())
    x = torch.arange(384.0).view(2, 3, 4, 4, 4)
    x = x.contiguous(memory_format=torch.channels_last_3d).requires_grad_()
    log(F.adaptive_avg_pool3d(x, 1).stride(), F.adaptive_avg_pool3d(x, 2).stride())
    log(type(F.adaptive_avg_pool3d(x, 1).grad_fn).__name__)


@program
def gradients_of_pools_with_nothing_in_them(torch, log):
    F = torch.nn.functional
    x = torch.ones(1, 64, requires_grad=True)
    log.raises(lambda: F.adaptive_avg_pool1d(x, 0).sum().backward())
    log.raises(lambda: F.adaptive_max_pool1d(x, 0).sum().backward())
    x = torch.ones(1, 4, 5, 6, requires_grad=True)
    log.raises(lambda: F.adaptive_avg_pool2d(x, 0).sum().backward())
    log.raises(lambda: F.adaptive_avg_pool3d(x, 0).sum().backward())
    log.raises(lambda: F.adaptive_max_pool2d(x, 0).sum().backward())
    log.raises(lambda: F.adaptive_max_pool3d(x, 0).sum().backward())


@program
def every_bit_of_powers_between_two_ends(torch, log):
    ends = ((0, 1, 7), (-3, 2, 50), (0.1, 3.7, 101), (-10, 10, 23), (0.3, 5, 1))
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        for low, high, count in ends:
            base = 2.718281828 if count == 50 else 10.0
            powers = torch.logspace(low, high, count, base=base, dtype=dtype)
            log(" ".join([v.hex() for v in powers.tolist()]))


@program
def storages_and_tensors_that_are_copied_together(torch, log):
    a, b = torch.arange(4.0), torch.arange(4.0)
    copied = copy.deepcopy([a, [a.untyped_storage(), b.untyped_storage()], b, a.view(2, 2)])
    copied[0].add_(1)
    copied[2].sub_(1)
    log(copied[1][0].tolist(), copied[1][1].tolist(), copied[3])
    copied = copy.deepcopy([a.untyped_storage(), a])
    copied[1].add_(1)
    log(copied[0].tolist(), copied[0].data_ptr() == copied[1].data_ptr())


@program
def writes_into_expanded_tensors(torch, log):
    x = torch.zeros(1).expand(6)
    log.raises(lambda: x.bernoulli_())
    log.raises(lambda: x.bernoulli_(p=torch.rand(6)))
    index = torch.tensor([2, 1, 0])
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        log(torch.rand(1).expand(6).index_fill_(0, index, 1.0))
        log(torch.rand(1).expand(6).index_fill_(0, index, torch.tensor(1.0)))
    log(str(seen[0].message).partition(" (Trig")[0], len(seen) > 0)


@program
def arguments_that_are_tensors_or_arrays(torch, log):
    y = torch.ones(2, 3)
    log(torch.isclose(y, y, torch.tensor(1), torch.tensor(1)).all())
    log(torch.allclose(y, y, torch.tensor(1.5)))
    log(torch.ones(np.array(3), np.int64(4)).shape, torch.ones((np.array(3), 4)).shape)
    log.raises(lambda: torch.ones((np.array(3.0), 4)))
    start = torch.tensor(0.0, requires_grad=True)
    log(torch.linspace(start, torch.tensor(3.0), 3), torch.logspace(start, 3, 3))
    log.raises(lambda: torch.linspace(torch.tensor([0.0, 1.0]), 3, 3))
    log.raises(lambda: torch.linspace(0, torch.tensor([0.0, 1.0]), 3))
    log.raises(lambda: torch.use_deterministic_algorithms(False, warn_only=1))
    log.raises(lambda: torch.diff(y, prepend=torch.ones(3, 1)))
    log.raises(lambda: torch.diff(y, dim=0, append=torch.ones(1, 4)))
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        log(torch.normal(torch.zeros(2, 3), torch.ones(2, 3), out=torch.zeros(3)).shape)
    log(str(seen[0].message).partition(" (Trig")[0])


@program
def orders_of_dimensions_in_memory(torch, log):
    formats = [torch.contiguous_format, torch.channels_last]
    for shape in (
        [2, 2, 1, 2],
        [1, 2, 1, 2],
        [2, 2, 2, 1],
        [1, 1, 2, 2],
        [2, 1, 2, 2],
        [2, 3, 4, 5],
    ):
        for fmt in formats:
            t = torch.zeros(shape).to(memory_format=fmt)
            log(t.dim_order())
            log.raises(lambda t=t: t.dim_order(ambiguity_check=True))
            log.raises(lambda t=t: log(t.dim_order(ambiguity_check=formats)))
    log.raises(lambda: torch.zeros(1, 2).dim_order(ambiguity_check="strict"))


@program
def conversions_to_a_memory_format(torch, log):
    last, plain = torch.channels_last, torch.contiguous_format
    for shape in ([1, 1, 2, 2], [2, 1, 2, 2], [2, 3, 1, 1], [2, 3, 4, 4], [1, 1, 1, 1]):
        for source in (plain, last):
            t = torch.empty(shape, memory_format=source)
            for fmt in (plain, last, torch.preserve_format):
                made = t.to(memory_format=fmt)
                log(made.stride(), made is t, t.to(torch.float64, memory_format=fmt).stride())
                log(t.float(memory_format=fmt).stride())
    x = torch.zeros(2, 3, 4, 5)
    for t in (x.transpose(2, 3), x[:, :, ::2], x.permute(0, 2, 3, 1), x.expand(2, 3, 4, 5)):
        for fmt in (plain, last):
            made = t.to(memory_format=fmt)
            log(made.stride(), made is t, t.contiguous(memory_format=fmt).stride())
    log(torch.nn.Conv2d(1, 4, 3).to(memory_format=last).weight.stride())
    log(torch.nn.Conv2d(3, 4, 1).to(memory_format=last).weight.stride())


@program
def files_with_tensors_of_eight_bits(torch, log):
    for name in ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"):
        file = io.BytesIO()
        dtype = getattr(torch, name)
        torch.save({"t": torch.ones(3).to(dtype), "dtype": dtype}, file)
        file.seek(0)
        read = torch.load(file, weights_only=True)
        log(read["t"].float(), str(read["t"].dtype), str(read["dtype"]))
    a = torch.ones(3)
    log(a.untyped_storage()._cdata == a.view(3, 1).untyped_storage()._cdata)
    log(a.untyped_storage()._cdata == a.clone().untyped_storage()._cdata)


@program
def small_things_that_pytorchs_layers_do(torch, log):
    F = torch.nn.functional
    for shape in ((0, 3), (2, 0, 3), (0,)):
        t = torch.zeros(*shape)
        turned = t.t() if t.dim() < 3 else t.transpose(0, 2)
        log([copy.deepcopy(v).stride() for v in (t, turned, t[..., ::2])])
    g = torch.eye(3).to_sparse()
    log(g.detach_() is g)
    sizes = {"output_size": (4, 5), "kernel_size": (2, 2), "dilation": (8, 8)}
    log.raises(lambda: F.fold(torch.zeros(1, 12, 12), **sizes))
    log.raises(lambda: F.fold(torch.zeros(1, 12, 11), **sizes))
    fwAD = torch.autograd.forward_ad
    with fwAD.dual_level():
        mean = fwAD.make_dual(torch.zeros(3), torch.ones(3))
        found = F.batch_norm(torch.ones(4, 3), mean, torch.ones(3), training=False)
        log(fwAD.unpack_dual(found).tangent)


@program
def factors_of_products_and_their_old_forms(torch, log):
    x, v = torch.ones(3, 3), torch.ones(3)
    log.raises(lambda: torch.addr(x, v, v, beta=True))
    log.raises(lambda: torch.addr(x, v, v, alpha=False))
    log(torch.addr(x.bool(), v.bool(), v.bool(), beta=True))
    log.raises(lambda: torch.addr(x.long(), v.long(), v.long(), beta=2j))
    log.raises(lambda: torch.chain_matmul())
    batch = torch.ones(2, 3, 3)
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            x.clone().addbmm_(1, batch, batch)
            torch.addbmm(1, x, batch, batch)
            x.clone().addmm_(1, x, x)
            v.clone().addcmul_(1, v, v)
            torch.addcdiv(v, 1, v, v)
    finally:
        torch.set_warn_always(before)
    log([str(each.message).partition("\n")[0] for each in seen])
