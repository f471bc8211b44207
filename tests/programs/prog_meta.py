"""Tensors on the device meta: shape, dtype and strides, and no values."""

import copy
import io
import pickle
import warnings

from programs.harness import program


def facts(t):
    """All that there is to know of a tensor without values."""
    history = None if t.grad_fn is None else t.grad_fn.name()
    where = t.stride(), t.storage_offset(), str(t.device)
    return [list(t.shape), t.dtype, *where, t.requires_grad, t.is_leaf, history, t._version]


def layout(t):
    return [list(t.shape), t.stride(), t.storage_offset(), t.dtype, t.is_meta]


def meta(torch, *size, **options):
    return torch.empty(*size, device="meta", **options)


def places(torch, *size):
    return torch.zeros(*size, dtype=torch.int64, device="meta")


@program
def made(torch, log):
    options = {"device": "meta"}
    for t in (
        *(torch.empty(2, 3, **options), torch.zeros(2, **options), torch.ones((2, 3), **options)),
        *(torch.full((2,), 3, **options), torch.full((2,), 3.5, **options)),
        *(torch.rand(2, **options), torch.randn(2, 3, **options), torch.randperm(4, **options)),
        *(torch.randint(0, 5, (3,), **options), torch.arange(5, **options)),
        *(torch.arange(0, 1, 0.25, **options), torch.linspace(0, 1, 4, **options)),
        *(torch.eye(3, **options), torch.tensor([1.0, 2.0], **options), torch.tensor(3, **options)),
        *(torch.empty_strided((2, 3), (1, 2), **options), torch.as_tensor([1, 2], **options)),
        torch.empty(2, 3, dtype=torch.complex64, requires_grad=True, **options),
        torch.tril_indices(3, 3, **options),
    ):
        log(facts(t))


@program
def made_like(torch, log):
    x = meta(torch, 2, 3)
    for t in (
        *(torch.empty_like(x), torch.zeros_like(x), torch.rand_like(x), torch.full_like(x, 2)),
        *(torch.randint_like(x, 5), torch.zeros_like(x, dtype=torch.int64)),
        *(torch.empty_like(torch.ones(2, 3).t(), device="meta"), x.new_empty(2)),
        *(x.new_zeros(2, 3), x.new_full((2,), 1.0), x.new_tensor([1.0])),
        *(torch.zeros_like(x, device="cpu"), x.new_zeros(2, device="cpu")),
    ):
        log(facts(t))


@program
def shown(torch, log):
    log(repr(meta(torch, 2, 3)), repr(meta(torch, 0)), str(places(torch)))
    log(repr(meta(torch, 2, requires_grad=True)), repr(meta(torch, 2, dtype=torch.float64)))
    log(repr(torch.nn.Parameter(meta(torch, 2))), repr(meta(torch, 2, requires_grad=True) * 2))


@program
def moved(torch, log):
    x = meta(torch, 2, 3)
    log(facts(torch.ones(2, 3).to("meta")), facts(torch.ones(2, 3).t().to("meta")))
    log(facts(torch.ones(2).to(device="meta", dtype=torch.float64)), facts(x.double()))
    log(x.to("meta") is x, facts(torch.ones(2, requires_grad=True).to("meta"))[5:8])
    log.raises(lambda: x.cpu())
    log.raises(lambda: x.to("cpu"))
    log.raises(lambda: torch.ones(2, 3).copy_(x))
    log.raises(lambda: setattr(x, "data", torch.ones(2, 3)))
    log(facts(meta(torch, 2, 3).copy_(torch.ones(2, 3))))


@program
def no_values(torch, log):
    x, one = meta(torch, 2, 3), meta(torch)
    for action in (
        *(lambda: one.item(), lambda: x.item(), lambda: bool(one), lambda: float(one)),
        *(lambda: int(one), lambda: x.tolist(), lambda: x.numpy(), lambda: x.nonzero()),
        *(lambda: torch.nonzero(x, as_tuple=True), lambda: torch.masked_select(x, x > 0)),
        *(lambda: torch.unique(x), lambda: torch.unique_consecutive(x), lambda: x[x > 0]),
        *(lambda: torch.equal(x, x), lambda: torch.allclose(x, x), lambda: torch.argwhere(x)),
        *(lambda: torch.bincount(places(torch, 3)), lambda: torch.unique(x, dim=0)),
        *(lambda: torch.where(x > 0), lambda: one.is_nonzero(), lambda: x.to_sparse()),
        *(lambda: 1.0 in x, lambda: torch.nn.functional.one_hot(places(torch, 3))),
        lambda: torch.repeat_interleave(x, places(torch, 2), 0),
        lambda: "yes" if x.sum() > 0 else "no",
    ):
        log.raises(action)
    log(x.data_ptr(), x.untyped_storage().nbytes(), x.untyped_storage().device, x.nbytes)
    log(x[1].untyped_storage().nbytes(), x.is_cpu, x.get_device(), x.type(), x.numel())


@program
def beside_the_cpu(torch, log):
    x = meta(torch, 2, 3)
    log.raises(lambda: torch.ones(2, 3) + x)
    log.raises(lambda: x + torch.ones(2, 3))
    log.raises(lambda: torch.cat([torch.ones(2, 3), x]))
    log.raises(lambda: torch.add(x, x, out=torch.empty(2, 3)))
    log(layout(torch.tensor(2.0) * x), layout(x * torch.tensor(2.0)))
    log(layout(x[torch.tensor([0, 1, 1])]), layout(x[torch.tensor([True, False])]))
    log(facts(torch.add(x, x, out=meta(torch, 2, 3))))
    log.raises(lambda: x + meta(torch, 2, 2))
    log.raises(lambda: x.view(5))
    log.raises(lambda: x.sum(3))


@program
def views(torch, log):
    x = meta(torch, 2, 3)
    for t in (
        *(x.t(), x[0], x[:, 1], x[:, 1:], x.view(3, 2), x.reshape(6), x.t().reshape(6)),
        *(x.unsqueeze(0), x.expand(4, 2, 3), x.flatten(), x.as_strided((2,), (2,), 1)),
        *(x.diagonal(), x.unfold(1, 2, 1), x[None], x[..., 0], x.T.contiguous(), x[:, ::2]),
        *(*x.unbind(0), *x.chunk(2, 1), *x.split(1), x.narrow(1, 1, 2), x.movedim(0, 1)),
        *(x.view(torch.int32), meta(torch, 2, 3, dtype=torch.complex64).real),
    ):
        log(layout(t), t._is_view())
    v = x[1]
    log(v._base is x, v.data_ptr(), x.contiguous() is x)


@program
def pointwise(torch, log):
    x = meta(torch, 2, 3)
    for t in (
        *(x + 1, x * x, x + meta(torch, 3, dtype=torch.float64), x > 0, x.int(), x.int() / 2),
        *(-x, x.exp(), x.t() + x.t(), torch.where(x > 0, x, 0.0), x.clamp(0, 1), x**2),
        *(x.int() + 1.5, x.bool() | x.bool(), x.lerp(x, 0.5), torch.addcmul(x, x, x)),
        *(x.to(torch.complex64).abs(), meta(torch, 3, 1).expand(3, 4) + 1, x.half() + x.bfloat16()),
    ):
        log(layout(t))


@program
def reduced(torch, log):
    x = meta(torch, 2, 3)
    for t in (
        *(x.sum(), x.sum(0), x.mean(1, keepdim=True), x.int().sum(), *x.max(0), x.argmax(1)),
        *(x.var(0), x.any(), x.prod(), x.norm(), x.logsumexp(1), x.softmax(1), x.cumsum(0)),
        *(*torch.var_mean(x, 0), x.count_nonzero(), x.median(), *x.topk(2), *x.sort()),
        *(torch.quantile(x, 0.5).data, torch.histc(x)),
    ):
        log(layout(t))


@program
def products_and_joins(torch, log):
    x = meta(torch, 2, 3)
    for t in (
        *(x @ x.t(), meta(torch, 4, 2, 3) @ x.t(), x.mv(meta(torch, 3)), torch.kron(x, x)),
        *(torch.einsum("ij,kj->ik", x, x), torch.addmm(meta(torch, 2), x, x.t())),
        *(torch.cat([x, x]), torch.stack([x, x], 1), x.repeat(2, 1), x.roll(1), x.flip(0)),
        *(torch.nn.functional.pad(x, (1, 1)), torch.gather(x, 1, places(torch, 2, 2))),
        *(x.index_select(0, places(torch, 3)), x[places(torch, 5)], x.masked_fill(x > 0, 1.0)),
        *(x.scatter(1, places(torch, 2, 1), 1.0), x.tril(), torch.take(x, places(torch, 2))),
        *(torch.linalg.inv(meta(torch, 2, 3, 3)), torch.linalg.cholesky(meta(torch, 3, 3))),
        *(torch.linalg.det(meta(torch, 3, 3)), *torch.linalg.eigh(meta(torch, 3, 3))),
        *(torch.bernoulli(x), torch.multinomial(meta(torch, 2, 5), 3), torch.normal(x, x)),
    ):
        log(layout(t))


@program
def written(torch, log):
    y = torch.zeros(2, 3, device="meta")
    v = y[0]
    y.add_(1)
    v.mul_(2)
    log(y._version, v._version)
    for action in (
        *(lambda: y.zero_(), lambda: y.fill_(2), lambda: y.normal_(), lambda: y.uniform_()),
        *(lambda: y.copy_(meta(torch, 2, 3)), lambda: y.__setitem__(0, 3), lambda: y.clamp_(0, 1)),
        *(lambda: y.__setitem__((slice(None), 1), meta(torch, 2)), lambda: y.bernoulli_()),
        *(lambda: y.masked_fill_(y > 0, 2.0), lambda: y.__setitem__(y > 0, 0.0)),
        *(lambda: y.index_add_(0, places(torch, 2), meta(torch, 2, 3)), lambda: y.t_()),
    ):
        action()
        log(facts(y))
    log(facts(y.resize_(4)))
    log.raises(lambda: torch.zeros(2, 3, device="meta").add_(meta(torch, 4, 2, 3)))
    log.raises(lambda: meta(torch, 2, requires_grad=True).add_(1))


@program
def gradients(torch, log):
    x = meta(torch, 2, 3)
    w, b = meta(torch, 4, 3, requires_grad=True), meta(torch, 4, requires_grad=True)
    y = torch.nn.functional.linear(x, w, b).relu()
    total = y.sum()
    log(facts(y), facts(total))
    total.backward()
    log(facts(w.grad), facts(b.grad))
    (w * 2).sum().backward()
    log(layout(w.grad))
    log([layout(g) for g in torch.autograd.grad((w * w).sum(), w)])
    log([facts(g) for g in torch.autograd.grad((w**3).sum(), w, create_graph=True)])
    (w * 2).backward(torch.ones(4, 3, device="meta"))
    log.raises(lambda: (w * 2).backward(torch.ones(4, 3)))
    log.raises(lambda: (w * 2).backward())
    log.raises(lambda: setattr(w, "grad", torch.ones(4, 3)))
    log.raises(lambda: (torch.ones(2, requires_grad=True).to("meta") * 2).sum().backward())
    w.register_hook(lambda g: log(layout(g)))
    (w * 2).sum().backward()
    log(layout(torch.func.grad(lambda a: (a * 2).sum())(x)))
    log(layout(torch.func.vmap(lambda a: a.sum())(x)))


@program
def copied(torch, log):
    x = meta(torch, 2, 3)
    for t in (
        *(copy.deepcopy(x), copy.copy(x), x.clone(), x.t().clone(), x.detach(), x.data),
        *(copy.deepcopy(meta(torch, 2, requires_grad=True)), copy.deepcopy(x.t())),
        pickle.loads(pickle.dumps(x)),
    ):
        log(layout(t), t.requires_grad)
    buffer = io.BytesIO()
    torch.save({"w": x.t(), "p": torch.nn.Parameter(x)}, buffer)
    buffer.seek(0)
    loaded = torch.load(buffer)
    log(layout(loaded["w"]), layout(loaded["p"]), type(loaded["p"]).__name__)
    buffer = io.BytesIO()
    torch.save({"w": torch.ones(2)}, buffer)
    buffer.seek(0)
    log(layout(torch.load(buffer, map_location="meta")["w"]))


@program
def modules(torch, log):
    nn = torch.nn
    m = nn.Linear(3, 4, device="meta")
    log(facts(m.weight), facts(m.bias), layout(m(meta(torch, 2, 3))))
    log.raises(lambda: m.to("cpu"))
    weight = m.weight
    log(m.to_empty(device="cpu") is m, m.weight is weight, facts(m.weight))
    m = nn.Linear(3, 4)
    weight = m.weight
    m.weight.grad = torch.ones(4, 3)
    log(m.to("meta") is m, m.weight is weight, layout(m.weight), layout(m.weight.grad))
    values = {"weight": torch.ones(4, 3), "bias": torch.zeros(4)}
    m.load_state_dict(values, assign=True)
    log(facts(m.weight), float(m.weight.sum().detach()))
    m = nn.Linear(3, 4, device="meta")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        m.load_state_dict(values)
    log([(w.category.__name__, str(w.message)) for w in caught], layout(m.weight))
    log.raises(lambda: nn.Linear(3, 4).load_state_dict(m.state_dict()))
    log(facts(nn.utils.skip_init(nn.Linear, 3, 4).weight)[:5])
    log(layout(copy.deepcopy(m).weight))
    for init in (nn.init.xavier_uniform_, nn.init.trunc_normal_, nn.init.orthogonal_):
        log(layout(init(meta(torch, 30, 40))))


@program
def the_device_of_a_block(torch, log):
    with torch.device("meta"):
        made = (
            *(torch.empty(2), torch.ones(2, device="cpu"), torch.arange(3), torch.tensor([1.0])),
            *(torch.zeros_like(torch.ones(2, device="cpu")), torch.rand(2), torch.eye(2)),
            *(torch.nn.Conv2d(2, 3, 3).weight, torch.nn.BatchNorm1d(3).num_batches_tracked),
            *(torch.nn.LSTM(2, 3).weight_ih_l0, torch.nn.Embedding(5, 2).weight),
            torch.as_tensor(torch.ones(2, device="cpu")),
        )
        log(torch.get_default_device())
        with torch.device("cpu"):
            log(torch.empty(1).device)
        log(torch.empty(1).device)
    log([t.device for t in made])
    log(torch.get_default_device(), torch.empty(1).device)
    torch.set_default_device("meta")
    try:
        log(torch.empty(2).device, torch.nn.Linear(2, 2).weight.device, torch.get_default_device())
    finally:
        torch.set_default_device(None)
    log(torch.empty(2).device)


@program
def steps_of_optimizers(torch, log):
    rules = torch.optim
    for rule, options in (
        *((rules.SGD, {"lr": 0.1}), (rules.SGD, {"lr": 0.1, "momentum": 0.9})),
        *((rules.Adam, {}), (rules.AdamW, {"foreach": True}), (rules.RMSprop, {"foreach": False})),
    ):
        m = torch.nn.Linear(3, 4, device="meta")
        optimizer = rule(m.parameters(), **options)
        for _ in range(2):
            m(meta(torch, 2, 3)).sum().backward()
            optimizer.step()
        state = next(iter(optimizer.state.values()), {})
        log(
            layout(m.weight),
            [(name, layout(v)) for name, v in sorted(state.items()) if v is not None],
        )


@program
def huge(torch, log):
    n = 10**6
    b = meta(torch, n, n)
    functional = torch.nn.functional
    for t in (
        *(b @ b, b + b, b.t()[5:], b.sum(0), b.softmax(1), b.double(), b.view(-1), b.clone()),
        *(torch.rand(n, n, device="meta"), torch.cat([b, b]), b.repeat(2, 1), b.t().contiguous()),
        *(b[places(torch, 7)], functional.linear(b, meta(torch, 5, n)), b.max(1).values),
        *(functional.layer_norm(b, (n,)), functional.dropout(b), b.masked_fill(b > 0, 0.0)),
        *(b.cumsum(0), b * b.t(), b.argmax(1), functional.pad(b, (1, 2)), b.flatten()),
    ):
        log(layout(t))
    log(b.untyped_storage().nbytes())
    w = meta(torch, n, n, requires_grad=True)
    (meta(torch, 3, n) @ w).relu().mean().backward()
    log(layout(w.grad))


@program
def large_layers(torch, log):
    nn = torch.nn
    for layer, size in (
        (nn.Conv2d(3, 64, 7, stride=2, padding=3, device="meta"), (8, 3, 224, 224)),
        (nn.ConvTranspose2d(3, 8, 3, stride=2, device="meta"), (2, 3, 56, 56)),
        (nn.Conv1d(80, 384, 3, padding=1, groups=4, device="meta"), (4, 80, 3000)),
        (nn.BatchNorm2d(64, device="meta"), (2, 64, 112, 112)),
        (nn.GroupNorm(4, 64, device="meta"), (2, 64, 50, 50)),
        (nn.MaxPool2d(3, 2, 1), (2, 64, 112, 112)),
        (nn.AdaptiveAvgPool2d((1, 1)), (2, 64, 112, 112)),
        (nn.LSTM(128, 256, device="meta"), (50, 4, 128)),
        (nn.Upsample(scale_factor=2), (1, 3, 100, 100)),
        (nn.PixelShuffle(2), (1, 64, 100, 100)),
        (nn.Unfold(3), (1, 16, 100, 100)),
        (nn.Flatten(), (10, 3, 224, 224)),
    ):
        x = meta(torch, *size, requires_grad=True)
        y = layer(x)
        y = y[0] if isinstance(y, tuple) else y
        y.sum().backward()
        log(layout(y), layout(x.grad), [layout(p.grad) for p in layer.parameters()])


@program
def a_transformer(torch, log):
    nn = torch.nn
    with torch.device("meta"):
        layer = nn.TransformerEncoderLayer(4096, 32, 16384)
        out = layer(torch.empty(512, 8, 4096))
        scores = nn.Linear(4096, 50000)(out).view(-1, 50000)
        target = torch.empty(512 * 8, dtype=torch.int64)
        loss = nn.functional.cross_entropy(scores, target)
        loss.backward()
    log(layout(out), layout(loss), [layout(p.grad) for p in layer.parameters()])


@program
def the_generator_is_left_alone(torch, log):
    torch.manual_seed(0)
    torch.rand(3, device="meta")
    torch.nn.Linear(3, 4, device="meta")
    torch.nn.functional.dropout(meta(torch, 5))
    meta(torch, 3).normal_()
    log(torch.rand(2))


@program
def indices_of_the_cpu(torch, log):
    x, functional = meta(torch, 5, 4), torch.nn.functional
    rows, places_of_all = torch.tensor([1, 2]), torch.zeros(5, 4, dtype=torch.int64)
    for t in (
        *(x.index_select(0, rows), x.gather(0, places_of_all), x.take(rows), x[rows]),
        *(x.scatter(0, places_of_all, x), x.scatter_add(0, places_of_all, x)),
        *(x.scatter(0, places_of_all, 1.0), x.scatter_(0, places_of_all, x)),
        *(functional.embedding(rows, x), meta(torch, 5000, 4).index_select(0, rows)),
    ):
        log(layout(t))
    layer = torch.nn.Embedding(1000, 6, device="meta")
    layer(rows).sum().backward()
    log(layout(layer.weight.grad))


@program
def how_many_is_known(torch, log):
    x, counts = meta(torch, 4, 1), places(torch, 4)
    one = meta(torch)
    log(layout(torch.repeat_interleave(x, counts, 0, output_size=6)))
    log(layout(torch.repeat_interleave(counts, output_size=6)))
    log(layout(torch.linspace(one, one, 3)), layout(torch.linspace(1, one, 3, device="meta")))
    log(layout(torch.logspace(one, 5, 4)), layout(torch.linspace(0, 1, 5, device="meta")))
    bags = torch.nn.functional.embedding_bag
    for mode in ("sum", "mean", "max"):
        index, offsets = places(torch, 6), places(torch, 3)
        weight = meta(torch, 5, 5)
        log(layout(bags(index, weight, offsets, mode=mode, include_last_offset=True)))
    scores, labels = meta(torch, 50, 16, 20), places(torch, 16, 30)
    for reduction in ("none", "mean", "sum"):
        loss = torch.nn.functional.ctc_loss(scores, labels, (50,) * 16, (20,) * 16, 0, reduction)
        log(layout(loss))
    log.raises(
        lambda: torch.nn.functional.ctc_loss(scores, labels, places(torch, 16), places(torch, 16))
    )


@program
def laid_out_otherwise(torch, log):
    x = meta(torch, 6, 4)
    square = x[:4]
    log([layout(t) for t in torch.linalg.svd(x)], [layout(t) for t in torch.svd(x)])
    log([layout(t) for t in torch.linalg.svd(x, full_matrices=False)])
    log([layout(t) for t in torch.linalg.eig(square)], layout(torch.nonzero_static(x, size=3)))
    log([layout(t) for t in torch.svd_lowrank(x, 2)], [layout(t) for t in torch.linalg.qr(x)])


@program
def no_kernels(torch, log):
    x = meta(torch, 6, 4)
    for action in (
        *(lambda: torch.cov(x), lambda: torch.corrcoef(x), lambda: torch.geqrf(x)),
        *(lambda: torch.histogram(x, 3), lambda: torch.histogram(x, meta(torch, 4))),
        *(lambda: torch.histogramdd(x, 3), lambda: torch.linalg.lstsq(x, x)),
        *(lambda: x.tensor_split(places(torch, 2)), lambda: x.pin_memory()),
        *(lambda: x.bfloat16()[0, 0].item(), lambda: torch.utils.dlpack.to_dlpack(x)),
    ):
        log.raises(action)
    log(repr(x.untyped_storage()))


@program
def initialised(torch, log):
    init, x = torch.nn.init, meta(torch, 4, 4)
    for change in (
        *(init.uniform_, init.normal_, init.ones_, init.zeros_, init.eye_, init.xavier_uniform_),
        *(init.xavier_normal_, init.kaiming_uniform_, init.kaiming_normal_, init.trunc_normal_),
        *(init.orthogonal_, lambda t: init.constant_(t, 3.0), lambda t: init.sparse_(t, 0.5)),
        lambda t: init.dirac_(meta(torch, 3, 3, 2)),
    ):
        try:
            log(facts(change(x)))
        except (NotImplementedError, RuntimeError) as error:
            log(type(error).__name__, str(error).splitlines()[0])


@program
def built_and_filled(torch, log):
    nn = torch.nn
    made = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    log([facts(p) for p in model.parameters()], [facts(b) for b in model.buffers()])
    log(model.load_state_dict(made.state_dict(), assign=True))
    log([p.device for p in model.parameters()], model(torch.ones(2, 3)).shape)
    log(model[0].weight.requires_grad, type(model[0].weight).__name__)
    empty = nn.Linear(3, 4, device="meta").to_empty(device="cpu")
    log(facts(empty.weight), empty.weight.is_leaf)
    parts = nn.ModuleList([nn.Linear(2, 2, device="meta"), nn.Linear(2, 2)])
    parts.to_empty(device="cpu", recurse=False)
    log([p.device for p in parts.parameters()])
    log.raises(lambda: nn.Linear(2, 2, device="meta").to("cpu"))
    log.raises(lambda: nn.Linear(2, 2, device="meta").cpu())
    log(facts(nn.Linear(2, 2).to("meta").weight), facts(nn.Linear(2, 2, device="meta").half().bias))
    tied = nn.Linear(3, 3, device="meta")
    tied.also = tied.weight
    log(len(list(tied.parameters())), tied.to_empty(device="cpu").also is tied.weight)


@program
def blocks_within_blocks(torch, log):
    with torch.device("meta"):
        log(torch.ones(2).device, torch.tensor([1.0]).device, torch.ones(2, device="cpu").device)
        with torch.device("cpu"):
            log(torch.ones(2).device, torch.nn.Linear(2, 2).weight.device)
        log(torch.arange(3).device, torch.eye(2).device, torch.randn(2).device)
        log(torch.full((2,), 1.0).device, torch.empty_strided((2,), (1,)).device)
        log(torch.from_numpy(torch.ones(2, device="cpu").numpy()).device)
        log(torch.linspace(0, 1, 3).device, torch.randperm(3).device, torch.as_tensor([1]).device)
        log(torch.zeros_like(torch.ones(2, device="cpu")).device, torch.get_default_device())
    log(torch.ones(2).device, torch.get_default_device())
    log(torch.ones(2).device, torch.empty_like(torch.ones(2, 3).t(), device="meta").stride())
    log(facts(torch.ones(2).new_empty((2, 3), device="meta")), facts(meta(torch, 3).new_ones(2)))


@program
def pickled(torch, log):
    x = meta(torch, 3, 4, requires_grad=True)
    for t in (x, x.detach().t(), torch.nn.Parameter(meta(torch, 2)), x.detach()[1:, ::2]):
        log(facts(pickle.loads(pickle.dumps(t))), type(pickle.loads(pickle.dumps(t))).__name__)
        log(facts(copy.deepcopy(t)), facts(copy.copy(t)))
    file = io.BytesIO()
    torch.save({"x": x, "layer": torch.nn.Linear(2, 3, device="meta").state_dict()}, file)
    file.seek(0)
    found = torch.load(file)
    log(facts(found["x"]), [(name, facts(t)) for name, t in found["layer"].items()])
    file = io.BytesIO()
    torch.save(torch.ones(3, 2), file)
    file.seek(0)
    log(facts(torch.load(file, map_location="meta")))
    layer = copy.deepcopy(torch.nn.Linear(2, 3, device="meta"))
    log(facts(layer.weight), type(layer.weight).__name__)
    log.raises(lambda: copy.deepcopy(x * 2))


@program
def every_optimizer(torch, log):
    names = "Adadelta Adagrad Adam AdamW Adamax NAdam RAdam RMSprop Rprop SGD Adafactor Muon"
    for name in names.split():
        for foreach in (False, True):
            weight = torch.nn.Parameter(meta(torch, 4, 3))
            options = {} if name in ("Adafactor", "Muon") else {"foreach": foreach}
            try:
                optimizer = getattr(torch.optim, name)([weight], lr=0.1, **options)
                for _ in range(2):
                    weight.grad = meta(torch, 4, 3)
                    optimizer.step()
                    optimizer.zero_grad()
            except Exception as error:
                log(name, type(error).__name__, str(error).splitlines()[0])
                continue
            state = sorted(optimizer.state[weight].items())
            log(name, layout(weight), [(key, layout(v)) for key, v in state if v is not None])
