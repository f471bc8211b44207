"""Conjugate and negative views: memory, versions, views of views, writes, history, errors."""

import copy
import io
import pickle

from programs.harness import program


def numbers(torch, *shape):
    """Complex numbers, none of them real."""
    count = 1
    for n in shape:
        count *= n
    x = torch.arange(float(count))
    return torch.complex(x - 1.5, 2 - x * 0.75).reshape(shape)


def bits(t):
    return t.is_conj(), t.is_neg()


def look(log, t, base=None):
    """Everything about a view that can be seen."""
    log(t, *bits(t), t._is_view(), t._base is base, t.storage_offset(), t.is_contiguous())


# Views of a 2×2 conjugate view; all of them keep its bit, or hand it on.
VIEWS = {
    "itself": lambda c: c,
    "conj": lambda c: c.conj(),
    "real": lambda c: c.real,
    "imag": lambda c: c.imag,
    "imag of negative": lambda c: c._neg_view().imag,
    "negative": lambda c: c._neg_view(),
    "select": lambda c: c[1],
    "slice": lambda c: c[:, 1:],
    "steps": lambda c: c[::2],
    "new": lambda c: c[None, ..., 0],
    "t": lambda c: c.t(),
    "mT": lambda c: c.mT,
    "mH": lambda c: c.mH,
    "H": lambda c: c.H,
    "adjoint": lambda c: c.adjoint(),
    "permute": lambda c: c.permute(1, 0),
    "view": lambda c: c.view(4),
    "reshape": lambda c: c.reshape(4),
    "flatten": lambda c: c.flatten(),
    "ravel": lambda c: c.ravel(),
    "unflatten": lambda c: c.unflatten(0, (1, 2)),
    "unsqueeze": lambda c: c.unsqueeze(0),
    "squeeze": lambda c: c[:1].squeeze(),
    "expand": lambda c: c[:1].expand(3, 2),
    "diagonal": lambda c: c.diagonal(),
    "unfold": lambda c: c.unfold(1, 1, 1),
    "as_strided": lambda c: c.as_strided((3,), (1,)),
    "narrow": lambda c: c.narrow(0, 1, 1),
    "movedim": lambda c: c.movedim(0, 1),
    "unbind": lambda c: c.unbind()[1],
    "split": lambda c: c.split(1)[1],
    "chunk": lambda c: c.chunk(2, 1)[0],
    "tensor_split": lambda c: c.tensor_split(2)[1],
    "detach": lambda c: c.detach(),
    "data": lambda c: c.data,
    "contiguous": lambda c: c.contiguous(),
    "positive": lambda c: c.positive(),
    "to the same": lambda c: c.to(c.dtype),
    "resolve_neg": lambda c: c.resolve_neg(),
    "imag of imag": lambda c: c.imag[0],
    "real of transposed": lambda c: c.t().real,
}
# Copies: what they give has no bits.
COPIES = {
    "clone": lambda c: c.clone(),
    "resolve": lambda c: c.resolve_conj(),
    "both": lambda c: c._neg_view().resolve_conj(),
    "resolve_neg": lambda c: c.imag.resolve_neg(),
    "contiguous": lambda c: c.t().contiguous(),
    "reshape": lambda c: c.t().reshape(4),
    "physical": lambda c: c.conj_physical(),
    "_physical": lambda c: c._conj_physical(),
    "double": lambda c: c.cdouble(),
    "copy": lambda c: c.to(c.dtype, copy=True),
    "index": lambda c: c[[1, 0]],
    "mask": lambda c: c[c.real > 0],
    "negated": lambda c: c.neg(),
    "exp": lambda c: c.exp(),
    "mul": lambda c: c * c,
    "abs": lambda c: c.abs(),
    "cat": lambda c: c.new_zeros(1, 2) + c.imag,
    "matmul": lambda c: c @ c.mH,
    "sum": lambda c: c.sum(0),
    "flip": lambda c: c.flip(0),
    "roll": lambda c: c.roll(1, 0),
    "copy of imag": lambda c: c.imag.clone(),
    "imag times": lambda c: c.imag * 2,
}
WRITES = {
    "mul_": lambda v: v.mul_(2),
    "mul_ with a tensor": lambda v: v.mul_(v.detach().clone()),
    "add_ itself": lambda v: v.add_(v),
    "zero_": lambda v: v.zero_(),
    "fill_": lambda v: v.fill_(3),
    "copy_": lambda v: v.copy_(v.detach() * 2 + 1),
    "setitem": lambda v: v.__setitem__(0, 5),
    "neg_": lambda v: v.neg_(),
    "square_": lambda v: v.square_(),
    "masked_fill_": lambda v: v.masked_fill_(v.detach().real > 0, 4),
    "index_add_": lambda v: v.index_add_(0, v.new_zeros(1).real.long(), v.detach()[:1] * 2),
    "index_put_": lambda v: v.__setitem__([0], v.detach()[-1:] * 3),
    "sub_ the base": lambda v: v.sub_(v.detach()),
}
# Those that are also differentiated.
GRAPHED = ("mul_", "add_ itself", "fill_", "copy_", "setitem", "square_", "index_put_")


@program
def views(torch, log):
    for make in VIEWS.values():
        x = numbers(torch, 2, 2)
        look(log, make(x.conj()), x)


@program
def views_in_the_graph(torch, log):
    weight = numbers(torch, 2, 2) * 1j
    for make in VIEWS.values():
        x = numbers(torch, 2, 2).requires_grad_()
        t = make(x.conj())
        log(*bits(t), t.requires_grad)
        if not t.requires_grad:
            continue
        log.graph(t)
        w = weight.flatten()[: t.numel()].reshape(t.shape) if t.numel() <= 4 else 1j
        (g,) = torch.autograd.grad((t * w).real.sum(), x)
        log(g.resolve_conj().resolve_neg().tolist())


@program
def copies(torch, log):
    for make in COPIES.values():
        x = numbers(torch, 2, 2)
        look(log, make(x.conj()), None)
        x = numbers(torch, 2, 2).requires_grad_()
        t = make(x.conj())
        log.graph(t)
        (g,) = torch.autograd.grad((t * (2 - 1j)).real.sum(), x)
        log(g.resolve_conj().tolist())


@program
def writes_are_seen(torch, log):
    for make in VIEWS.values():
        for write in WRITES.values():
            x = numbers(torch, 2, 2)
            v = make(x.conj())
            log.raises(lambda v=v, write=write: [write(v)][1:])
            log(str(x.tolist()), x._version, v._version)


@program
def writes_in_the_graph(torch, log):
    weight = numbers(torch, 2, 2) * (1 - 2j)
    for name, make in VIEWS.items():
        if name in ("detach", "data", "unfold"):
            continue
        for write in [WRITES[name] for name in GRAPHED]:
            leaf = numbers(torch, 2, 2).requires_grad_()
            x = leaf * 1
            other = x.conj()
            v = make(x.conj())
            try:
                write(v)
            except RuntimeError as error:
                log(error)
                continue
            log.graph(v)
            log(x, other.grad_fn)
            try:
                (g,) = torch.autograd.grad((x * weight + other).real.sum(), leaf)
                log(g.resolve_conj().tolist())
            except RuntimeError as error:
                log(error)


@program
def base_is_written(torch, log):
    x = numbers(torch, 3)
    c, n, i = x.conj(), x._neg_view(), x.conj().imag
    x.mul_(2j)
    log(c, n, i)
    x[1] = 7
    log(c, n, i, c._version)
    x.data.zero_()
    log(c, i, c._version)


@program
def memory(torch, log):
    x = numbers(torch, 3)
    c = x[1:].conj()
    log(c.data_ptr() == x[1:].data_ptr(), c.storage_offset(), c.element_size(), c.nbytes)
    log(c.untyped_storage().data_ptr() == x.untyped_storage().data_ptr())
    log(c.untyped_storage().nbytes(), c.untyped_storage().tolist() == x.untyped_storage().tolist())
    log(x.is_set_to(c), c.is_set_to(x), x.is_set_to(x.conj().conj()), c.is_set_to(c.detach()))
    log(c.is_same_size(x), c.dtype, c.device, c.layout, c.is_complex(), c.imag.is_floating_point())


@program
def real_tensors(torch, log):
    for x in (torch.ones(2), torch.arange(3), torch.tensor([True])):
        log(x.conj() is x, torch.conj(x) is x, x.resolve_conj() is x, x.resolve_neg() is x)
        log(torch.is_conj(x), torch.is_neg(x), x.conj_physical() is x)
    x = torch.tensor([[1.0, -2.0], [3.0, 0.5]])
    log(x.mH.is_conj(), x.H, x.adjoint()._base is x)
    n = x._neg_view()
    look(log, n, x)
    look(log, n.t()[0], x)
    look(log, n._neg_view(), x)
    look(log, n.clone(), None)
    look(log, torch.tensor([1, -2])._neg_view(), None)
    log(n + 1, n.sum(), n @ n, n.relu(), torch.cat([n, x]), n.max(), n.argmax(), n.sort()[0])
    n[0] += 10
    log(x, x._version, n)


@program
def predicates(torch, log):
    x = numbers(torch, 2)
    log(torch.is_conj(x), torch.is_conj(x.conj()), torch.is_neg(x.conj().imag), torch.is_neg(x))
    log(x.resolve_conj() is x, x.conj().resolve_neg().is_conj(), torch.conj(x).is_conj())
    log(torch._conj(x).is_conj(), torch._neg_view(x).is_neg(), torch.resolve_conj(x.conj()))
    log(torch.empty_like(x.conj()).is_conj(), x.conj().new_zeros(1).is_conj())
    log(torch.zeros_like(x.conj()), torch.ones_like(x.conj().imag), torch.full_like(x.conj(), 1j))
    log.raises(lambda: torch.is_conj(3))


@program
def refusals(torch, log):
    x = numbers(torch, 2, 2)
    c = x.conj()
    log.raises(lambda: torch.view_as_real(c))
    log.raises(lambda: torch.view_as_real(x.mH))
    log(torch.view_as_real(x._neg_view()), torch.view_as_real(x._neg_view()).is_neg())
    log(torch.view_as_real(c.resolve_conj()))
    log.raises(lambda: c.view(torch.float32))
    log.raises(lambda: c.view(torch.complex64))
    log.raises(lambda: c.imag.contiguous().view(torch.int32))
    log.raises(lambda: torch.ones(2)._neg_view().view(torch.int32))
    log.raises(lambda: c.numpy())
    log.raises(lambda: c.imag.numpy())
    log(c.numpy(force=True), c.imag.numpy(force=True))
    log.raises(lambda: c.clone().requires_grad_().conj().numpy())
    log.raises(lambda: torch.from_dlpack(c))
    log.raises(lambda: x.float().imag)
    log.raises(lambda: torch._foreach_add_([x.clone(), c], 1))
    log.raises(lambda: torch._foreach_copy_([torch.ones(2)._neg_view()], [torch.ones(2)]))


@program
def numbers_and_text(torch, log):
    c = numbers(torch, 2).conj()
    log(
        repr(c), repr(c.imag), str(c[0]), f"{c[0]}", f"{c.imag[0]:.2f}", c.tolist(), c.imag.tolist()
    )
    log(c[0].item(), c.imag[1].item(), complex(c[0]), float(c.imag[0]), bool(c[0]), len(c))
    log([t.item() for t in c], (-1.5 - 2j) in c, repr(c.requires_grad_()), repr(c * 2))
    log(torch.tensor([c.detach()[0], 1j]), torch.as_tensor(c).is_conj(), c.storage().tolist())


@program
def copied_objects(torch, log):
    c = numbers(torch, 2, 2).conj()
    for t in (c, c[0], c.real, c.imag.contiguous(), numbers(torch, 2)._neg_view()):
        for made in (copy.copy(t), copy.deepcopy(t), pickle.loads(pickle.dumps(t))):
            log(made.tolist(), *bits(made), made._is_view(), made._version)
    both = copy.deepcopy([c._base, c])
    both[0].zero_()
    log(both[1].tolist())
    shallow = copy.copy(c)
    shallow.zero_()
    log(c.tolist(), c._version)


@program
def saved_and_loaded(torch, log):
    x = numbers(torch, 2, 2)
    for t in (x.conj(), x.mH, x[0].conj(), torch.ones(2)._neg_view(), x.conj()._neg_view()):
        file = io.BytesIO()
        torch.save([t._base, t], file)
        file.seek(0)
        base, made = torch.load(file)
        look(log, made, None)
        made.mul_(2)
        log(base.resolve_neg(), made, made._version)
    file = io.BytesIO()
    torch.save({"p": torch.nn.Parameter(x.conj())}, file)
    file.seek(0)
    log(torch.load(file)["p"], torch.nn.Parameter(x.conj()).is_conj())


@program
def looking_at_other_memory(torch, log):
    x = numbers(torch, 2)
    c = numbers(torch, 3).conj()
    log(c.set_(x), bits(c), x)
    c.mul_(2)
    log(x, torch.zeros(1, dtype=torch.complex64).set_(x.conj()).is_conj())
    t = torch.zeros(2, dtype=torch.complex64)
    t.data = x.conj()
    log(t, bits(t), t * 2, t.conj())
    c = numbers(torch, 2).conj()
    c.data = x
    log(c, bits(c), c * 2)
    c = numbers(torch, 2, 2).conj()
    log(c.resize_(1, 2), bits(c))
    c.t_()
    log(c, bits(c), c.unsqueeze_(0), c.squeeze_(), c.detach().transpose_(0, 0))
    p = numbers(torch, 2)
    p.real = torch.tensor([5.0, 6.0])
    p.conj().imag = torch.tensor([7.0, 8.0])
    log(p, p._version)


@program
def outputs(torch, log):
    x, y = numbers(torch, 2), numbers(torch, 2) * 1j
    out = torch.zeros(2, dtype=torch.complex64).conj()
    log(torch.mul(x, y, out=out), out._base, out._version, bits(out))
    log(torch.add(out, 1, out=out), out._base)
    log(torch.exp(x.conj(), out=out), out._base)
    log(torch.mul(out._base, 2, out=out), out._base)
    n = torch.zeros(2, 2)._neg_view()
    log(torch.cat([torch.ones(1, 2), torch.ones(1, 2) * 3], out=n), n._base)
    log(torch.mm(torch.ones(2, 2), torch.ones(2, 2), out=n), n._base, n._version)
    empty = torch.zeros(0, dtype=torch.complex64).conj()
    log(torch.mul(x, 1j, out=empty), bits(empty))
    log.raises(lambda: torch.mul(x, y, out=torch.zeros(2)._neg_view()))
    v = torch.zeros(2, 1)._neg_view()
    log(
        torch.arange(2.0, out=torch.zeros(2)._neg_view()),
        torch.sum(torch.ones(2, 3), 1, out=v[:, 0]),
    )
    log(v._base)


@program
def overlapping_memory(torch, log):
    for write in (
        lambda x: x[:-1].add_(x.conj()[1:]),
        lambda x: x.conj()[:-1].add_(x[1:]),
        lambda x: x.conj()[:-1].add_(x.conj()[1:]),
        lambda x: x[:-1].copy_(x.conj()[1:]),
        lambda x: x.copy_(x.conj()),
        lambda x: x.conj().copy_(x),
        lambda x: x.add_(x.conj()),
        lambda x: x.conj().mul_(x),
        lambda x: x[:1].expand(2).conj().add_(1),
        lambda x: x.conj().imag.copy_(x.real),
    ):
        x = numbers(torch, 4)
        log.raises(lambda x=x, write=write: write(x))
        log(x)


@program
def products(torch, log):
    a, b = numbers(torch, 2, 3), numbers(torch, 3, 2) * (1 - 1j)
    v = numbers(torch, 3)
    log(a @ a.mH, a.conj() @ b, b.mH @ a.mH, a.mH @ b.mH, a.conj() @ v, v.conj() @ b)
    log(
        torch.mm(a, b.conj()),
        torch.addmm((a @ b).conj(), a, b.conj()),
        torch.mv(a.conj(), v.conj()),
    )
    log(
        torch.dot(v.conj(), v),
        torch.vdot(v.conj(), v),
        torch.vdot(v, v.conj()),
        torch.outer(v, v.conj()),
    )
    log(torch.bmm(a[None].conj(), b[None]), torch.einsum("ij,kj->ik", a, a.conj()))
    log(torch.kron(v, v.conj()), torch.linalg.inv((a @ a.mH).conj()), torch.fft.fft(v.conj()))
    leaf = a.clone().requires_grad_()
    t = leaf.mH @ leaf.conj() @ b.mT.mT[:, :0].new_ones(3, 1)
    log.graph(t)
    log(torch.autograd.grad(t.abs().sum(), leaf)[0])


@program
def saved_values(torch, log):
    leaf = numbers(torch, 2).requires_grad_()
    x = leaf * 1
    c = x.conj()
    t = c * c.detach().exp()
    log(t.grad_fn._saved_other.is_conj(), (c * x).grad_fn._saved_self.is_conj())
    x.mul_(2)
    for use in (lambda c: c * c, lambda c: c.exp(), lambda c: c.imag * c.imag):
        x = leaf * 1
        c = x.conj()
        t = use(c)
        x.add_(1)
        log.raises(lambda t=t: t.real.sum().backward())
    x = leaf * 1
    c = x.conj()
    t = c.mul_(2).exp()
    c.mul_(3)
    log.raises(lambda t=t: t.real.sum().backward())
    log(leaf.grad)
    packed = []
    hooks = torch.autograd.graph.saved_tensors_hooks
    with hooks(lambda t: packed.append(t.is_conj()) or t, lambda t: t.conj().resolve_conj().conj()):
        t = leaf.conj() * leaf
    log(packed, torch.autograd.grad(t.real.sum(), leaf)[0].tolist())


@program
def refused_writes(torch, log):
    leaf = numbers(torch, 2, 2).requires_grad_()
    log.raises(lambda: leaf.conj().mul_(2))
    log.raises(lambda: leaf.conj().imag.mul_(2))
    x = leaf * 1
    with torch.no_grad():
        c = x.conj()
    log.raises(lambda: c.mul_(2))
    log.raises(lambda: x.conj().unbind()[0].mul_(2))
    with torch.no_grad():
        log(leaf.conj().mul_(1j).tolist(), leaf._version, leaf.tolist())
    with torch.inference_mode():
        c = numbers(torch, 2).conj()
        log(bits(c), c._is_view(), c.is_inference(), c.mul_(2).tolist())
    log.raises(lambda: c.mul_(2))


@program
def leaves_with_bits(torch, log):
    leaf = numbers(torch, 2).conj().requires_grad_()
    log(leaf.is_leaf, bits(leaf))
    (leaf * (1 + 2j)).sum().real.backward()
    log(leaf.grad, leaf.grad.is_conj())
    t = leaf.detach()[1:]
    log(bits(t), t._base is leaf, t._is_view())
    leaf.grad = numbers(torch, 2).conj()
    (leaf * 1j).sum().imag.backward()
    log(leaf.grad, leaf.grad.is_conj())
    y = leaf * 1
    y.retain_grad()
    y.conj().imag.mul_(2)
    y.sum().imag.backward()
    log(y.grad)
    with torch.no_grad():
        leaf -= 0.5
    log(leaf, leaf._version)


@program
def gradients_with_bits(torch, log):
    seed = numbers(torch, 2).conj()
    x = numbers(torch, 2).requires_grad_()
    (x * 1j).backward(seed)
    log(x.grad.tolist())
    log(torch.autograd.grad(x.conj() * 2j, x, seed)[0].tolist())
    log(torch.autograd.grad(x.exp(), x, x.detach().mT.conj(), create_graph=True)[0].tolist())
    x.register_hook(lambda g: (g * (1 + 2j)).conj())
    log(torch.autograd.grad((x * x).sum().real, x)[0].tolist())

    class Conjugate(torch.autograd.Function):
        @staticmethod
        def forward(ctx, t):
            ctx.save_for_backward(t.conj())
            return t.conj() * 1

        @staticmethod
        def backward(ctx, grad):
            (kept,) = ctx.saved_tensors
            return (grad * kept).conj()

    x = numbers(torch, 2).requires_grad_()
    t = Conjugate.apply(x)
    log(torch.autograd.grad((t * (1 + 2j)).sum().real, x)[0].tolist())


@program
def second_derivatives(torch, log):
    x = numbers(torch, 2).requires_grad_()
    for f in (
        lambda x: (x.conj() * x.conj() * x).real.sum(),
        lambda x: (x.conj().imag * x.real).sum(),
        lambda x: x.conj().exp().abs().sum(),
        lambda x: (x * 1).conj().mul_(x).imag.sum(),
    ):
        (g,) = torch.autograd.grad(f(x), x, create_graph=True)
        log(g.resolve_conj().tolist(), torch.autograd.grad(g.abs().sum(), x)[0].tolist())
    double = numbers(torch, 2).to(torch.complex128).requires_grad_()
    for f in (
        lambda x: x.conj(),
        lambda x: x.conj().imag,
        lambda x: x._neg_view() * x.conj(),
        lambda x: (x * 1).conj().mul_(x.detach() * 2),
        lambda x: x[None].mH @ x[None].conj(),
    ):
        log.raises(lambda f=f: torch.autograd.gradcheck(f, (double,), check_forward_ad=True))
        log.raises(lambda f=f: torch.autograd.gradgradcheck(f, (double,)))


@program
def transforms(torch, log):
    x = numbers(torch, 2, 2)
    func = torch.func
    log(func.vmap(lambda t: t.conj() * 2)(x), func.vmap(lambda t: t.conj())(x).is_conj())
    log(func.vmap(lambda t: t.conj().real)(x), func.vmap(lambda t: t.conj() @ t, in_dims=1)(x))
    y = x.clone()
    log(func.vmap(lambda t: t.conj().mul_(2j))(y), y)
    log(func.vmap(lambda t: t * 2)(x.conj()), func.vmap(lambda t: t.is_conj() * t)(x.conj()))
    log(func.grad(lambda t: (t.conj() * t).real.sum())(x))
    out, tangent = func.jvp(lambda t: t.conj(), (x,), (x * 1j,))
    log(out, tangent, bits(out), bits(tangent))
    log(func.jvp(lambda t: t.conj().imag * t.real, (x,), (x * 1j,)))
    log(func.vjp(lambda t: t.conj() * t, x)[1](x.conj())[0].resolve_conj())
    forward = torch.autograd.forward_ad
    with forward.dual_level():
        d = forward.make_dual(numbers(torch, 2), numbers(torch, 2) * 1j)
        c = d.conj()
        log(*forward.unpack_dual(c))
        c.mul_(2)
        log(*forward.unpack_dual(d), *forward.unpack_dual(c))


@program
def lists(torch, log):
    x, y = numbers(torch, 2), numbers(torch, 3)
    log(torch._foreach_mul([x.conj(), y], [x, y.conj()]), torch._foreach_exp([x.conj().imag]))
    log(torch._foreach_norm([x.conj(), y.conj()]), torch._foreach_mul_([x], [x.conj()]))
    log(torch.stack([x, x.conj()]), torch.cat([x.conj(), y]), torch.hstack([x.conj(), y]))
    log(torch.where(torch.tensor([True, False]), x.conj(), x), torch.equal(x.conj(), x))
    log(
        y.index_put_((torch.tensor([0]),), x[:1].conj()), x.conj() == x, torch.allclose(x.conj(), x)
    )


@program
def random_numbers(torch, log):
    for fill in (
        lambda t: t.normal_(),
        lambda t: t.imag.uniform_(),
        lambda t: t.real.exponential_(),
    ):
        x = torch.zeros(3, dtype=torch.complex64)
        torch.manual_seed(3)
        fill(x.conj())
        log(x)
