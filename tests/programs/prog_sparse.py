"""Sparse tensors in coordinate form: parts, conversions, arithmetic, products, gradients."""

from programs.harness import program


def example(torch, values=None, **options):
    indices = torch.tensor([[0, 1, 1, 0], [2, 0, 2, 2]])
    if values is None:
        values = torch.tensor([3.0, 4.0, 5.0, 1.0])
    return torch.sparse_coo_tensor(indices, values, (2, 3), check_invariants=False, **options)


def hybrid(torch):
    indices = torch.tensor([[0, 1, 1, 0], [2, 0, 2, 2]])
    values = torch.arange(8.0).view(4, 2)
    return torch.sparse_coo_tensor(indices, values, (2, 3, 2), check_invariants=False)


def other(torch):
    indices = torch.tensor([[1, 0], [1, 0]])
    values = torch.tensor([7.0, 8.0])
    return torch.sparse_coo_tensor(indices, values, (2, 3), check_invariants=False)


def refused(log, action):
    """The class of an error and the op that it names; PyTorch goes on about its backends."""
    try:
        action()
    except Exception as error:
        log(type(error).__name__, str(error).partition(" with arguments")[0])
    else:
        log("nothing raised")


@program
def facts(torch, log):
    for s in (example(torch), example(torch).coalesce(), hybrid(torch), example(torch).double()):
        log(s.shape, s.size(), s.size(-1), s.dim(), s.ndim, s.numel(), s.nelement(), len(s))
        log(s.dtype, s.device, str(s.layout), s.is_sparse, s.requires_grad, s.is_leaf)
        log(s._nnz(), s.sparse_dim(), s.dense_dim(), s.is_coalesced(), s.is_floating_point())
        log(isinstance(s, torch.Tensor), torch.is_tensor(s), s.element_size(), s.is_contiguous())
        log(s._indices(), s._values())
    log(torch.ones(2).is_sparse, torch.ones(2, 3).sparse_dim(), torch.ones(2, 3).dense_dim())


@program
def construction(torch, log):
    def make(*args, **options):
        return repr(torch.sparse_coo_tensor(*args, check_invariants=False, **options))

    i, v = torch.tensor([[0, 1], [2, 0]]), torch.tensor([1.5, 2.0])
    log(make(i, v), make(i, v, (2, 3)), make(i, v, torch.Size([4, 4])), make(i.int(), v))
    log(make([[0, 1], [1, 0]], [1.0, 2.0]), make([[0, 1], [1, 0]], [1, 2], (2, 2)))
    log(make(i, v, dtype=torch.float64), make(i, v, (2, 3), dtype=torch.int32))
    log(make((2, 3)), make(torch.zeros(2, 0, dtype=torch.long), torch.zeros(0), (2, 3)))
    log(make(i, v > 1.7, (2, 3)), make(i, v, (2, 3), requires_grad=True, device="cpu"))
    log(make(torch.zeros(0, 1, dtype=torch.long), torch.tensor([3.0]), ()))
    s = torch.sparse_coo_tensor(indices=i, values=v, size=(2, 3), is_coalesced=True)
    log(s.is_coalesced(), s._values().data_ptr() == v.data_ptr())


@program
def construction_errors(torch, log):
    make = torch.sparse_coo_tensor
    i, v = torch.tensor([[0, 1], [2, 0]]), torch.tensor([1.5, 2.0])
    log.raises(lambda: make(i, v, (2, 2), check_invariants=True))
    log.raises(lambda: make(-i, v, (2, 3), check_invariants=True))
    log.raises(lambda: make(-i, v, check_invariants=False))
    log.raises(lambda: make(i, v[:1], (2, 3), check_invariants=False))
    log.raises(lambda: make(i, v, (2,), check_invariants=False))
    log.raises(lambda: make(i, v, (2, 3, 4), check_invariants=False))
    log.raises(lambda: make(i, torch.ones(2, 2), (2, 3, 3), check_invariants=False))
    log.raises(lambda: make(i, torch.tensor(1.0), (2, 3), check_invariants=False))
    log.raises(lambda: make(i, v.long(), (2, 3), requires_grad=True, check_invariants=False))
    twice = torch.tensor([[0, 0], [1, 1]])
    log.raises(lambda: make(twice, v, (2, 3), is_coalesced=True, check_invariants=True))


@program
def coalescing(torch, log):
    for s in (example(torch), hybrid(torch)):
        log.raises(lambda s=s: s.indices())
        log.raises(lambda s=s: s.values())
        c = s.coalesce()
        log(c.is_coalesced(), c.indices(), c.values(), c.to_dense(), s.to_dense())
        log(c.coalesce() is c, s.is_coalesced())
    log(torch.sparse_coo_tensor((2, 3)).coalesce().values())
    flags = example(torch, torch.tensor([True, False, False, True])).coalesce()
    log(flags.values())


@program
def dense_tensors_refuse(torch, log):
    d = torch.ones(2, 2)
    log.raises(d.coalesce)
    log.raises(d.is_coalesced)
    log.raises(d.indices)
    log.raises(d.values)
    refused(log, d._values)
    refused(log, d._nnz)
    refused(log, lambda: d.sparse_mask(d))


@program
def reprs(torch, log):
    values = torch.tensor([3.0, 4.0, 5.0, 1.0], requires_grad=True)
    s = example(torch, values)
    leaf = example(torch, requires_grad=True)
    for t in (s, leaf, example(torch), hybrid(torch)):
        log(repr(t), str(t.coalesce()), repr(t.double()), repr(t.long()), repr(t * 2), repr(-t))
        log(repr(t / 2), repr(t + t), repr(t - t), repr(t.transpose(0, 1)), repr(t.clone()))
        log(repr(t.detach()), repr(torch.sparse.sum(t, 0)), repr(t.half()))
    log(repr(s.t()), repr(s.T), repr(s.relu()), repr(torch.sparse.mm(s, s.t())))
    long = torch.arange(3000).view(2, 1500) % 50
    big = torch.sparse_coo_tensor(long, torch.arange(1500.0), (50, 50), check_invariants=False)
    log(repr(big), repr(big.coalesce()))
    log(f"{leaf}", repr(torch.zeros(2, 2).to_sparse()))


@program
def conversions(torch, log):
    d = torch.tensor([[0.0, 2.0, 0.0], [3.0, 0.0, 4.0]], requires_grad=True)
    s = d.to_sparse()
    log(repr(s), s.is_coalesced(), s.indices(), s.to_dense())
    (s.to_dense() * torch.arange(6.0).view(2, 3)).sum().backward()
    log(d.grad)
    log(repr(d.detach().to_sparse(1)), repr(d.detach().to_sparse_coo()))
    log(repr(torch.tensor(3.0).to_sparse()), repr(torch.tensor([True, False]).to_sparse()))
    log.raises(lambda: d.to_sparse(3))
    u = example(torch)
    log(u.to(torch.float32) is u, u.float() is u, u.cpu() is u, u.to("cpu") is u)
    log(repr(u.to(torch.float64)), repr(u.to(dtype=torch.int64)), repr(u.to("cpu", torch.half)))
    log(u.coalesce().double().is_coalesced(), u.to(torch.float32, copy=True) is u)
    log.raises(lambda: u.to_dense(torch.float64))
    log.raises(u.numpy)
    log.raises(u.tolist)


@program
def masks(torch, log):
    x = torch.arange(6.0).view(2, 3).requires_grad_()
    c = example(torch).coalesce()
    log(repr(x.sparse_mask(c)), repr(x.detach().sparse_mask(example(torch))))
    log(torch.autograd.grad(x.sparse_mask(c).to_dense().sum(), x))
    log(repr(example(torch).sparse_mask(c)))
    log.raises(lambda: torch.ones(3, 3).sparse_mask(c))


@program
def arithmetic(torch, log):
    a, b = example(torch), other(torch)
    log(repr(a * 2), repr(2 * a), repr(a * torch.tensor(2.0)), repr(a / 2), repr(-a))
    log(repr(a.mul(3)), repr(torch.mul(a, 3)), repr(a.neg()), repr(torch.neg(a)))
    log(repr(a + b), repr(b + a), repr(a - b), repr(torch.add(a, b, alpha=2)), repr(a.add(b)))
    ca, cb = a.coalesce(), b.coalesce()
    log(repr(ca + cb), (ca + cb).is_coalesced(), (a + b).is_coalesced(), repr(ca + b))
    log(repr(a.long() * 2.5), repr(a.long() / 2), repr(a + b.long()))
    log((ca * 2).is_coalesced(), (-ca).is_coalesced(), (ca / 2).is_coalesced())
    log(torch.ones(2, 3) + a, torch.ones(2, 3) - a, repr(a * torch.arange(6.0).view(2, 3)))
    log(repr(torch.arange(3.0) * a), repr(a.abs()), repr(torch.sqrt(a)), repr(a.sin()))
    log.raises(lambda: a + torch.ones(2, 3))
    log.raises(lambda: a + 1)
    log.raises(lambda: torch.ones(3) + a)
    log.raises(lambda: a / b)
    log.raises(lambda: a + torch.zeros(3, 3).to_sparse())
    log.raises(lambda: torch.ones(2, 3, 2).to_sparse() + torch.ones(2, 3, 2).to_sparse(2))


@program
def other_names(torch, log):
    s = example(torch)
    for name in ("absolute", "arcsinh", "arctan", "fix", "multiply", "negative"):
        function = getattr(torch, name)
        found = function(s, 2) if name == "multiply" else function(s)
        log(name, found.is_sparse, found.to_dense())


@program
def transposes(torch, log):
    s = example(torch)
    log(repr(s.t()), repr(s.transpose(0, 1)), repr(s.transpose(-1, 0)), repr(s.permute(1, 0)))
    log(s.t().to_dense(), s.coalesce().t().is_coalesced(), repr(torch.t(s)), repr(s.T))
    log.raises(lambda: hybrid(torch).t())
    log.raises(lambda: s.transpose(0, 5))
    log.raises(lambda: hybrid(torch).transpose(1, 2))


@program
def sums(torch, log):
    for s in (example(torch), hybrid(torch)):
        log(torch.sparse.sum(s), s.sum(), torch.sum(s), s.sum(dtype=torch.float64))
        log(repr(torch.sparse.sum(s, 0)), repr(torch.sparse.sum(s, dim=(1,))), repr(s.sum(0)))
        log(torch.sparse.sum(s, (0, 1)), torch.sparse.sum(s, dtype=torch.float64))
    log(repr(torch.sparse.sum(hybrid(torch).coalesce(), 2)), repr(torch.sparse.sum(s, -2)))
    log.raises(lambda: torch.sparse.sum(s, (0, 0)))
    log.raises(lambda: torch.sparse.sum(s, 5))
    log.raises(lambda: torch.sparse.sum(torch.ones(2)))


@program
def products(torch, log):
    s, d = example(torch), torch.arange(6.0).view(3, 2)
    log(torch.sparse.mm(s, d), torch.mm(s, d), s @ d, s.mm(d), s.matmul(d), torch.matmul(s, d))
    log(s @ torch.arange(3.0), torch.mv(s, torch.arange(3.0)), torch.arange(2.0) @ s)
    log(
        torch.ones(3, 2) @ s,
        torch.sparse.mm(torch.ones(3, 2), s),
        torch.sparse_coo_tensor((2, 3)) @ d,
    )
    log(
        torch.sparse.addmm(torch.ones(2, 2), s, d, beta=2, alpha=3),
        torch.addmm(torch.ones(2), s, d),
    )
    log(repr(torch.sparse.mm(s, s.t())), repr(s @ s.t()), torch.sparse.mm(s.long(), d.long()))
    log(torch.sparse.mm(d, d.t()).tolist())
    log.raises(lambda: torch.sparse.mm(s, torch.ones(2, 2)))
    log.raises(lambda: s @ torch.ones(2))
    log.raises(lambda: s @ d.double())
    log.raises(lambda: torch.sparse.mm(s, s))
    log.raises(lambda: torch.sparse.addmm(torch.ones(3, 3), s, d))


@program
def gradients_of_values(torch, log):
    weights = torch.arange(6.0).view(3, 2)
    tasks = [
        lambda s: (s.to_dense() * weights.t().reshape(2, 3)).sum(),
        lambda s: (torch.sparse.mm(s, weights) ** 2).sum(),
        lambda s: ((s @ weights) ** 2).sum(),
        lambda s: (s @ torch.arange(3.0)).sum(),
        lambda s: torch.sparse.sum(s) ** 2,
        lambda s: (torch.sparse.sum(s, 0).to_dense() ** 2).sum(),
        lambda s: (s.coalesce().values() * torch.tensor([1.0, 2.0, 3.0])).sum(),
        lambda s: ((s * 2 + s.t().t() / 4 - s).to_dense() ** 2).sum(),
        lambda s: torch.sparse.sum(torch.sparse.mm(s, s.t())),
        lambda s: (s.coalesce().relu().to_dense() ** 2).sum(),
        lambda s: s.sum() * 3,
        lambda s: (torch.ones(2, 3) - s).pow(2).sum(),
        lambda s: (torch.ones(3, 2) @ s).pow(2).sum(),
    ]
    for task in tasks:
        values = torch.tensor([3.0, 4.0, 5.0, 1.0], requires_grad=True)
        loss = task(example(torch, values))
        loss.backward()
        log(loss, values.grad.tolist())


@program
def gradients_of_dense_operands(torch, log):
    s = example(torch)
    d = torch.arange(6.0).view(3, 2).requires_grad_()
    (torch.sparse.mm(s, d) ** 2).sum().backward()
    log(d.grad)
    bias = torch.ones(2, 2, requires_grad=True)
    out = torch.sparse.addmm(bias, s, d, beta=2.0, alpha=3.0)
    log(out.sum(), torch.autograd.grad(out.sum(), [bias, d]))
    vector = torch.ones(3, requires_grad=True)
    log(torch.autograd.grad((s @ vector).pow(2).sum(), vector))
    first = torch.autograd.grad(torch.sparse.mm(s, d).pow(3).sum(), d, create_graph=True)[0]
    log(torch.autograd.grad(first.sum(), d))


@program
def leaves(torch, log):
    for task in (
        lambda g: g.to_dense().sum(),
        lambda g: torch.sparse.mm(g, torch.arange(6.0).view(3, 2)).sum(),
        lambda g: torch.sparse.sum(g),
        lambda g: (g * 2).to_dense().sum(),
        lambda g: (g + g).to_dense().sum(),
        lambda g: (g.coalesce().values() * torch.tensor([1.0, 2.0, 3.0])).sum(),
    ):
        g = example(torch, requires_grad=True)
        log(g.grad, g.is_leaf, g.grad_fn)
        task(g).backward()
        log(repr(g.grad))
    with torch.no_grad():
        s = example(torch, torch.ones(4, requires_grad=True))
        log(s.requires_grad, torch.sparse.mm(g, torch.ones(3, 1)).requires_grad)
    log(example(torch).requires_grad_().requires_grad, g.detach().requires_grad)


@program
def graph_convolution(torch, log):
    """The use that ordinary programs make of all this."""
    torch.manual_seed(0)
    edges = torch.tensor([[0, 1, 1, 2, 3, 0, 2], [1, 0, 2, 1, 0, 3, 2]])
    graph = torch.sparse_coo_tensor(edges, torch.ones(7), (4, 4), check_invariants=False)
    degree = torch.sparse.sum(graph, 1).to_dense()
    scale = torch.sparse_coo_tensor(
        torch.arange(4).repeat(2, 1), 1 / degree, (4, 4), check_invariants=False
    )

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(3, 2)
            self.register_buffer("graph", torch.sparse.mm(scale, graph).coalesce())

        def forward(self, x):
            return torch.sparse.mm(self.graph, self.linear(x))

    layer = Layer()
    loss = layer(torch.ones(4, 3)).pow(2).sum()
    loss.backward()
    log(round(loss.item(), 5), layer.graph.to_dense(), repr(layer.double().graph))
    log(
        [round(v, 4) for v in layer.linear.weight.grad.flatten().tolist()], list(layer.state_dict())
    )


@program
def copies(torch, log):
    import copy
    import pickle

    s = example(torch)
    for made in (copy.copy(s), copy.deepcopy(s), pickle.loads(pickle.dumps(s)), s.data, s.clone()):
        log(repr(made), made.is_coalesced())
    log(
        copy.deepcopy(s).coalesce().values(),
        s.clone()._values().data_ptr() == s._values().data_ptr(),
    )


@program
def refusals(torch, log):
    s = example(torch)
    refused(log, s.exp)
    refused(log, lambda: torch.exp(s))
    refused(log, lambda: s.clone().exp_())
    refused(log, s.sigmoid)
    refused(log, s.argmax)
    refused(log, lambda: s == s)
    refused(log, lambda: s < 1)
    refused(log, lambda: s.gather(0, torch.tensor([[0]])))
    refused(log, lambda: torch.equal(s, s))
    refused(log, lambda: s[torch.tensor([True, False])])
    refused(log, s.log)
    refused(log, s.trace)
    log.raises(s.item)
    log.raises(lambda: bool(s))
    log.raises(lambda: s.__setitem__(0, 1.0))


def seen(t):
    """The parts of what may be sparse, as they are."""
    if isinstance(t, (tuple, list)):
        return [seen(part) for part in t]
    if not t.is_sparse:
        return t.detach()
    grad_fn = t.grad_fn.name() if t.requires_grad else None
    parts = list(t.shape), t._indices().tolist(), t._values().tolist(), t.is_coalesced()
    return [*parts, str(t.dtype), t.requires_grad, grad_fn]


@program
def parts_of_sparse_tensors(torch, log):
    wanted = torch.tensor([1, 0, 1])
    for s in (example(torch), example(torch).coalesce(), hybrid(torch)):
        for dim in (0, 1, -1):
            log(seen(s.index_select(dim, wanted)), seen(torch.index_select(s, dim, wanted[:1])))
            log(seen(s.select(dim, 1)), seen(s.select(dim, -1)), seen(s.unsqueeze(dim)))
            log(seen(s.unbind(dim)))
        log(seen(s.narrow_copy(0, 0, 1)), seen(s.narrow_copy(1, 0, 3)))
        log(seen(s[0]), seen(s[-1, 2]), seen(s[:, 0]), seen(s[..., 1]), seen(s[None]))
        log(seen(list(s)))
        for action in (
            lambda: s[5],  # noqa: B023
            lambda: s[0, 0, 0, 0],  # noqa: B023
            lambda: s.select(0, 9),  # noqa: B023
            lambda: s.narrow_copy(7, 0, 1),  # noqa: B023
            lambda: s.narrow_copy(0, 1, 2),  # noqa: B023
        ):
            log.raises(action)
        refused(log, lambda: s[0:1])  # noqa: B023
        refused(log, lambda: s[torch.tensor([0])])  # noqa: B023


@program
def sparse_tensors_side_by_side(torch, log):
    for a, b in (
        (example(torch), other(torch)),
        (example(torch).coalesce(), example(torch)),
        (hybrid(torch), hybrid(torch).coalesce()),
    ):
        for dim in (0, 1, -1):
            log(seen(torch.cat([a, b], dim)), seen(torch.stack([a, b], dim)))


@program
def sparse_times_sparse(torch, log):
    made = example(torch), example(torch).coalesce(), other(torch), other(torch).coalesce()
    for a in made:
        for b in made:
            log(seen(a * b))
    a, b = hybrid(torch), hybrid(torch).coalesce()
    log(seen(a * a), seen(a * b), seen(b * b), seen(torch.mul(a.double(), b)))
    log(seen(torch.zeros(2, 3).to_sparse() * example(torch)))
    log.raises(lambda: example(torch) * hybrid(torch))
    log(seen(example(torch, requires_grad=True) * other(torch)))
    written = example(torch)
    log(seen(written.mul_(other(torch))), written._version)


@program
def zeros_stay_zeros(torch, log):
    values = torch.tensor([3.0, float("nan"), -float("inf"), 1.0])
    for s in (example(torch, values), example(torch).coalesce()):
        for name in ("isnan", "isinf", "isneginf", "isposinf", "signbit", "nan_to_num"):
            log(seen(getattr(torch, name)(s)), seen(getattr(s, name)()))
        log(seen(s.conj()), seen((s * (1 + 2j)).conj()), seen((s * (1 + 2j)).real))
    s = example(torch)
    log(seen(s**2), seen(s.pow(-1)), seen(s // 2), s.any(), s.norm(), s.norm(1), torch.norm(s))
    log(s.is_same_size(other(torch)), s.is_same_size(torch.ones(1)))
    log.raises(lambda: s.pow(0))
    log.raises(lambda: s.norm(dim=0))
    log.raises(lambda: s.sin_())
    c = s.coalesce()
    log(seen(c.sin_()), seen(c.relu_()), c._version)


@program
def results_that_go_into_sparse_tensors(torch, log):
    s = example(torch)
    log(seen(torch.zeros_like(s)), seen(torch.zeros_like(s, dtype=torch.int64)))
    log(list(torch.empty_like(s).shape))
    out = torch.zeros(5, 5).to_sparse()
    log(torch.sin(s, out=out) is out, seen(out))
    log(seen(torch.add(s, s, out=out)), seen(torch.mul(s, other(torch), out=out)))
    out = torch.zeros(2, 3, dtype=torch.float64).to_sparse()
    log(seen(torch.div(s, 2, out=out)))
    log.raises(lambda: torch.sin(s, out=torch.zeros(2, 3, dtype=torch.int64).to_sparse()))
    target = other(torch)
    log(seen(target.copy_(s)), target._version, seen(target.copy_(s.double())))
    log.raises(lambda: target.copy_(torch.ones(2, 3)))
    log.raises(lambda: torch.ones(2, 3).copy_(s))
    log.raises(lambda: target.copy_(torch.ones(2, 3).to_sparse(1)))


@program
def what_sparse_tensors_refuse(torch, log):
    s = example(torch)
    for name, args in {
        "expand": (2, 3),
        "repeat": (2, 1),
        "reshape": (6,),
        "flatten": (),
        "contiguous": (),
        "storage": (),
        "untyped_storage": (),
    }.items():
        log.raises(lambda: getattr(s, name)(*args))  # noqa: B023
    log.raises(lambda: s.nbytes)
    for name, args in {"narrow": (0, 0, 1), "squeeze": (0,), "fill_": (0,), "view": (6,)}.items():
        refused(log, lambda: getattr(s, name)(*args))  # noqa: B023
