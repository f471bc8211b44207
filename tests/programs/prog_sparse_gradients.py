"""Gradients that are sparse tensors, of tables and of `gather`, and who takes them."""

from programs.harness import program


def table(torch, rows=5, columns=2, dtype=None):
    return torch.arange(rows * columns, dtype=dtype or torch.float32).reshape(rows, columns)


def parts(log, g):
    """All that a sparse tensor shows."""
    log(g.is_sparse, g.is_coalesced(), tuple(g.shape), g._version, g.requires_grad, str(g))
    log(g._indices(), g._values().detach(), g.coalesce()._indices())


@program
def sparse_rows(torch, log):
    """One entry for every index, in its order."""
    F = torch.nn.functional
    numbers = torch.tensor([[3, 1], [1, 0]])
    for index in (numbers, numbers.int(), torch.tensor(3), torch.zeros(0, dtype=torch.int64)):
        w = table(torch).requires_grad_()
        out = F.embedding(index, w, sparse=True)
        log(out.grad_fn, out.grad_fn._saved_sparse)
        out.backward(torch.arange(float(out.numel())).reshape(out.shape))
        parts(log, w.grad)
    w = table(torch).requires_grad_()
    F.embedding(numbers, w, 1, sparse=True).sum().backward()
    parts(log, w.grad)
    scaled = F.embedding(numbers, w, scale_grad_by_freq=True, sparse=True)
    log.raises(lambda: scaled.sum().backward())
    layer = torch.nn.Embedding(5, 2, sparse=True, dtype=torch.float64)
    layer(numbers).sum().backward()
    parts(log, layer.weight.grad)
    layer.zero_grad(set_to_none=False)
    parts(log, layer.weight.grad)


@program
def sparse_sums(torch, log):
    """Sparse and dense gradients of one leaf, in one pass and in several."""
    F = torch.nn.functional
    first, second = torch.tensor([3, 1]), torch.tensor([1, 0, 3])
    w = table(torch).requires_grad_()
    (
        F.embedding(first, w, sparse=True).sum() + F.embedding(second, w, sparse=True).sum()
    ).backward()
    parts(log, w.grad)
    before = w.grad
    F.embedding(second, w, sparse=True).sum().backward()
    log(w.grad is before)
    parts(log, w.grad)
    F.embedding(first, w, sparse=True).exp().sum().backward()
    parts(log, w.grad)
    (w * w).sum().backward()
    log(w.grad is before, w.grad.is_sparse, w.grad.tolist(), w.grad._version)
    before = w.grad
    F.embedding(second, w, sparse=True).sum().backward()
    log(w.grad is before, w.grad.tolist(), w.grad._version)
    w.grad = None
    ((w * w).sum() + F.embedding(first, w, sparse=True).sum()).backward()
    log(w.grad.is_sparse, w.grad.tolist())


@program
def sparse_hooks(torch, log):
    """Hooks, `grad`, a recorded pass, and ops between the leaf and the table."""
    F = torch.nn.functional
    index = torch.tensor([3, 1])
    w = table(torch).requires_grad_()
    handle = w.register_hook(lambda g: (parts(log, g), g * 2)[1])
    F.embedding(index, w, sparse=True).sum().backward()
    parts(log, w.grad)
    handle.remove()
    handle = w.register_hook(lambda g: g.to_dense())
    log.raises(lambda: F.embedding(index, w, sparse=True).sum().backward())
    handle.remove()
    parts(log, torch.autograd.grad(F.embedding(index, w, sparse=True).sum(), w)[0])
    square = (F.embedding(index, w, sparse=True) ** 2).sum()
    (g,) = torch.autograd.grad(square, w, create_graph=True)
    parts(log, g)
    parts(log, torch.autograd.grad(g.to_dense().sum(), w)[0])
    for between in (lambda t: t * 2, lambda t: t.exp(), lambda t: t + 1, lambda t: t.clone()):
        w.grad = None
        F.embedding(index, between(w), sparse=True).sum().backward()
        parts(log, w.grad)
    log.raises(lambda: F.embedding(index, w.t().contiguous().t(), sparse=True).sum().backward())
    parts(log, torch.func.grad(lambda t: F.embedding(index, t, sparse=True).sum())(w.detach()))
    with torch.autograd.detect_anomaly(check_nan=True):
        w.grad = None
        F.embedding(index, w, sparse=True).sum().backward()
    parts(log, w.grad)


@program
def sparse_bags(torch, log):
    """The gradients of bags and of `gather`."""
    F = torch.nn.functional
    index, starts = torch.tensor([3, 1, 1, 0, 2]), torch.tensor([0, 2])
    by = torch.tensor([0.5, 1.0, 2.0, 3.0, 4.0])
    for options in (
        {"mode": "sum"},
        {"mode": "mean"},
        {"mode": "mean", "padding_idx": 1},
        {"mode": "sum", "per_sample_weights": by},
    ):
        w = table(torch).requires_grad_()
        out = F.embedding_bag(index, w, starts, sparse=True, **options)
        out.backward(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
        parts(log, w.grad)
    log.raises(lambda: F.embedding_bag(index, w, starts, mode="max", sparse=True))
    for dim, at in ((0, [[0, 1], [1, 4]]), (1, [[0, 1], [1, 1]])):
        w = table(torch).requires_grad_()
        out = w.gather(dim, torch.tensor(at), sparse_grad=True)
        log(out.grad_fn)
        out.backward(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
        parts(log, w.grad)
    one = torch.tensor(3.0, requires_grad=True)
    one.gather(0, torch.tensor([0, 0]), sparse_grad=True).sum().backward()
    log(one.grad.to_dense(), one.grad._indices().shape)


@program
def sparse_writes(torch, log):
    """Writes to sparse tensors, and of them into dense ones."""
    F = torch.nn.functional
    w = table(torch).requires_grad_()
    F.embedding(torch.tensor([3, 1, 1]), w, sparse=True).sum().backward()
    g = w.grad
    for write in (
        lambda: g.mul_(2),
        lambda: g.div_(4),
        lambda: g.neg_(),
        lambda: g.add_(g.clone(), alpha=3),
        lambda: g.sub_(g.coalesce()),
        lambda: g.zero_(),
    ):
        log(write() is g, g._version, g.is_coalesced(), g._indices().tolist(), g._values())
    d = torch.zeros(5, 2)
    g = table(torch).to_sparse(1)
    d.add_(g, alpha=0.5)
    d += g
    d -= g * 3
    log(d)
    log.raises(lambda: torch.zeros(4, 2).add_(g))


@program
def sparse_steps(torch, log):
    """The optimizers that take sparse gradients, and the sentences of those that do not."""

    def steps(name, **options):
        p = torch.nn.Parameter(table(torch, dtype=torch.float64))
        optimizer = getattr(torch.optim, name)([p], **options)
        for i in range(3):
            rows, values = torch.tensor([0, 3, 3, 1]), torch.arange(8.0).reshape(4, 2) - i
            p.grad = torch.sparse_coo_tensor(
                rows.unsqueeze(0), values.double(), (5, 2), check_invariants=False
            )
            optimizer.step()
        state = optimizer.state[p]
        log(p.detach(), {k: str(v) for k, v in state.items()})

    for options in (
        {},
        {"momentum": 0.9},
        {"momentum": 0.9, "nesterov": True},
        {"momentum": 0.9, "dampening": 0.5},
        {"maximize": True},
        {"foreach": True},
    ):
        steps("SGD", lr=0.1, **options)
    for options in ({}, {"lr_decay": 0.1}, {"maximize": True}, {"foreach": True}):
        steps("Adagrad", lr=0.1, **options)
    for options in ({}, {"maximize": True}):
        steps("SparseAdam", lr=0.1, **options)
    log.raises(lambda: steps("SGD", weight_decay=0.1))
    log.raises(lambda: steps("SGD", fused=True))
    log.raises(lambda: steps("Adagrad", weight_decay=0.1))
    log.raises(lambda: steps("Adagrad", fused=True))
    for name in "Adadelta Adam AdamW Adamax ASGD NAdam RAdam RMSprop Rprop Adafactor Muon".split():
        log.raises(lambda name=name: steps(name))


@program
def sums_with_tensors_without_values(torch, log):
    for shape in [(0,), (2,), (2, 0), (2, 3)]:
        for a in [torch.zeros(shape), torch.ones(shape), torch.ones(shape, dtype=torch.float64)]:
            a.requires_grad_()
            for b in [torch.zeros(shape), torch.ones(shape, dtype=torch.float64)]:
                for made in [
                    a.to_sparse() + b.to_sparse(),
                    b.to_sparse() + a.to_sparse(),
                    b.to_sparse() - a.to_sparse(),
                ]:
                    log(made.dtype, made.requires_grad, made.to_dense().sum())
                    if a.sum() >= b.sum():  # elsewhere PyTorch has slopes where `a` has no values
                        log(torch.autograd.grad(made.to_dense().sum(), [a]))


@program
def powers_of_whole_numbers(torch, log):
    for dtype in [torch.bool, torch.int32]:
        t = torch.ones(2, dtype=dtype).to_sparse()
        for exponent in [2, 2.0]:
            if dtype is torch.int32 and exponent == 2:
                log((t**2).to_dense(), t.square().to_dense())
            else:
                log.raises(lambda t=t, exponent=exponent: t**exponent)
