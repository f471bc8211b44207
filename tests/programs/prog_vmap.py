"""vmap: dimensions, structures, dtypes, creation, refusals, nesting, ensembles."""

from programs.harness import program


class Plain:
    """A log of values: where and how often a result was written is the business of vmap alone."""

    def __init__(self, torch, log):
        self.torch = torch
        self.log = log

    def __call__(self, *values):
        self.log(*[self.bare(value) for value in values])

    def raises(self, action):
        self.log.raises(lambda: self.bare(action()))

    def bare(self, value):
        if isinstance(value, self.torch.Tensor):
            copy = self.torch.tensor(value.tolist(), dtype=value.dtype)
            return [list(value.shape), value.requires_grad, copy]
        if isinstance(value, dict):
            return {key: self.bare(each) for key, each in value.items()}
        if isinstance(value, (tuple, list)):
            return [self.bare(each) for each in value]
        return value


def vmapped(function):
    """A program whose tensors are logged by their values."""

    def run(torch, log):
        function(torch, Plain(torch, log))

    return program(run)


def batch(torch):
    return torch.arange(6.0).reshape(3, 2) + 1


def try_all(log, *actions):
    for action in actions:
        log.raises(action)


def first_lines(torch, log, function, x, **options):
    log.raises(lambda: torch.func.vmap(function, **options)(x))


# ---------------------------------------------------------------------- dimensions and structures


@vmapped
def in_and_out_dims(torch, log):
    x = torch.arange(24.0).reshape(2, 3, 4)
    for dim in (0, 1, 2, -1, -2, -3):
        for out in (0, 1, -1, -2):
            log(torch.func.vmap(lambda a: a.sin(), in_dims=dim, out_dims=out)(x))


@vmapped
def several_arguments(torch, log):
    x, y = torch.arange(6.0).reshape(2, 3), torch.arange(3.0)
    vmap = torch.func.vmap
    log(vmap(torch.mul, in_dims=(0, None))(x, y))
    log(vmap(torch.mul, in_dims=(1, 0))(x, y))
    log(vmap(torch.mul, in_dims=(None, 0))(x, y))
    log(vmap(lambda a, b: (a + b, a * b), out_dims=(0, 1))(x, x))
    log(vmap(lambda a, b, c: a * b + c, in_dims=(0, 0, None))(x, x, 2.0))


@vmapped
def pytrees_in(torch, log):
    x, y = batch(torch), torch.ones(3)
    vmap = torch.func.vmap
    log(vmap(lambda d: d["a"] * d["b"], in_dims=({"a": 0, "b": None},))({"a": x, "b": x[0]}))
    log(vmap(lambda d: d["a"] * 2)({"a": x}))
    log(vmap(lambda t: t[0] + t[1][0], in_dims=((0, [0]),))((x, [x])))
    log(vmap(lambda t, u: t[0] * u, in_dims=(0, 0))((x,), y))
    log(vmap(lambda t, n: t * n, in_dims=(0, None))(x, 3))


@vmapped
def pytrees_out(torch, log):
    x = batch(torch)
    vmap = torch.func.vmap
    log(vmap(lambda a: {"r": a * 2, "s": (a.sum(), a)})(x))
    log(vmap(lambda a: {"r": a * 2}, out_dims={"r": 1})(x))
    log(vmap(lambda a: [a, a * 2], out_dims=[0, 1])(x))
    log(vmap(lambda a: (a, (a, a)), out_dims=(0, (1, -1)))(x))
    log(vmap(lambda a: (a, x.sum()), out_dims=(0, None))(x))


@vmapped
def keyword_arguments(torch, log):
    x = batch(torch)
    log(torch.func.vmap(lambda a, b=None: a * b)(x, b=x[0]))
    log(torch.func.vmap(lambda a, *, scale: a * scale)(x, scale=2))


@vmapped
def chunks(torch, log):
    x = torch.arange(10.0).reshape(5, 2)
    vmap = torch.func.vmap
    for size in (1, 2, 3, 5, 9, None):
        log(vmap(lambda a: a * 2, chunk_size=size)(x))
    log(vmap(lambda a: (a.sum(), a), in_dims=1, out_dims=(0, 1), chunk_size=1)(x))
    try_all(
        log,
        lambda: vmap(lambda a: a, chunk_size=0),
        lambda: vmap(lambda a: a, chunk_size=-1),
    )


@vmapped
def results_that_are_not_batched(torch, log):
    x = batch(torch)
    vmap = torch.func.vmap
    log(vmap(lambda a: torch.ones(2))(x))
    log(vmap(lambda a: torch.tensor(3))(x))
    log.raises(lambda: vmap(lambda a: x.sum(), out_dims=None)(x))


@vmapped
def wrong_in_dims(torch, log):
    x = batch(torch)
    vmap = torch.func.vmap

    def f(a):
        return a

    try_all(
        log,
        lambda: vmap(f, in_dims=5)(x),
        lambda: vmap(f, in_dims=-3)(x),
        lambda: vmap(f, in_dims=None)(x),
        lambda: vmap(f, in_dims="a")(x),
        lambda: vmap(f, in_dims=1.5)(x),
        lambda: vmap(f, in_dims=(0, 0))(x),
        lambda: vmap(f)(),
        lambda: vmap(f)(3),
        lambda: vmap(f)(torch.tensor(1.0)),
        lambda: vmap(lambda a, b: a)(x, torch.ones(4)),
        lambda: vmap(lambda a, b: a, in_dims=(0, 1))(x, x),
        lambda: vmap(lambda d: d, in_dims=({"b": 0},))({"a": x}),
        lambda: vmap(f, in_dims=("a",))(x),
    )


@vmapped
def wrong_out_dims(torch, log):
    x = batch(torch)
    vmap = torch.func.vmap

    def f(a):
        return a

    try_all(
        log,
        lambda: vmap(f, out_dims=4)(x),
        lambda: vmap(f, out_dims=(0, 1))(x),
        lambda: vmap(f, out_dims="s")(x),
        lambda: vmap(f, out_dims=None)(x),
        lambda: vmap(lambda a: (a, a), out_dims=(0,))(x),
        lambda: vmap(lambda a: 3)(x),
        lambda: vmap(lambda a: (a, 3))(x),
        lambda: vmap(lambda a: None)(x),
        lambda: vmap(lambda a: {"q": a}, out_dims={"r": 0})(x),
        lambda: vmap(f, randomness="foo"),
    )


@vmapped
def empty_batches_and_entries(torch, log):
    vmap = torch.func.vmap
    log(vmap(torch.sin)(torch.zeros(0, 3)))
    log(vmap(torch.sum)(torch.zeros(0, 3)))
    log(vmap(lambda a: a.sum(0), in_dims=1)(torch.zeros(2, 3, 0)))
    log(vmap(torch.mul)(torch.ones(2, 0), torch.ones(2, 1)))
    log(vmap(lambda a: a.reshape(-1))(torch.ones(2, 0, 3)))


@vmapped
def entries_without_dimensions(torch, log):
    vmap = torch.func.vmap
    x = torch.arange(3.0)
    log(vmap(lambda a: a * a)(x), vmap(lambda a: a.sum())(x), vmap(lambda a: a.reshape(1))(x))
    log(vmap(lambda a: a.unsqueeze(0).softmax(0))(x), vmap(lambda a: a.max(0))(x))
    log(vmap(lambda a, b: torch.stack([a, b]))(x, x), vmap(lambda a: a[None, ...])(x))


# ---------------------------------------------------------------------- dtypes


@vmapped
def promotion_of_entries(torch, log):
    vmap = torch.func.vmap
    half = torch.ones(3, 2, dtype=torch.float16)
    double = torch.ones(3, dtype=torch.float64)
    whole = torch.arange(3)
    log(vmap(torch.add)(half, double), vmap(torch.mul)(whole, half), vmap(torch.add)(double, half))
    log(vmap(lambda a, b: a + b)(whole, double.float()), vmap(lambda a: a + 1.5)(whole))
    log(vmap(lambda a, b: a * b, in_dims=(0, None))(half, torch.tensor(2.0)))
    log(vmap(lambda a, b: a * b, in_dims=(None, 0))(torch.tensor(2), half))
    log(
        vmap(lambda a: a / 2)(whole), vmap(lambda a: a == 1)(whole), vmap(lambda a: ~(a > 1))(whole)
    )
    log(vmap(torch.where, in_dims=(0, 0, None))(whole > 1, double, torch.tensor(0.0)))


@vmapped
def complex_numbers(torch, log):
    vmap = torch.func.vmap
    z = torch.tensor([[1 + 2j, 3 - 1j], [0.5j, 2.0]])
    log(vmap(lambda a: a.conj() * a)(z), vmap(torch.abs)(z), vmap(torch.view_as_real)(z))
    log(vmap(lambda a: a.real + a.imag)(z), vmap(lambda a: a * 2.0, in_dims=1)(z))


@vmapped
def conversions(torch, log):
    vmap = torch.func.vmap
    x = batch(torch)
    log(vmap(lambda a: a.to(torch.float64))(x), vmap(lambda a: a.type(torch.int32))(x))
    log(vmap(lambda a: a.long())(x), vmap(lambda a: a.bool())(x), vmap(lambda a: a.half())(x))
    log(vmap(lambda a: a.contiguous(), in_dims=1)(x), vmap(lambda a: a.clone())(x))
    log(vmap(lambda a: a.type_as(torch.ones(1, dtype=torch.float64)))(x))
    log(vmap(torch.as_tensor)(x), vmap(lambda a: torch.as_tensor(a, dtype=torch.float64))(x))
    log(vmap(torch.asarray)(x), vmap(lambda a: torch.asarray(a, copy=True))(x))
    log(vmap(lambda a: a.detach() * 2)(x), vmap(lambda a: a.cpu())(x))


@vmapped
def facts_about_entries(torch, log):
    x = torch.arange(24.0).reshape(2, 3, 4)[:, 1:]

    def look(a):
        log(list(a.shape), a.dim(), a.numel(), len(a), a.size(0), a.stride(), str(a.dtype))
        log(a.is_contiguous(), a.storage_offset(), a.itemsize, a.nbytes, a.element_size())
        log(a.requires_grad, a.is_leaf, a.grad_fn, a.type(), str(a.device), a.is_floating_point())
        return a

    torch.func.vmap(look)(x)
    torch.func.vmap(look, in_dims=1)(x)
    torch.func.vmap(look, in_dims=-1)(x)


# ---------------------------------------------------------------------- creation


@vmapped
def like_an_entry(torch, log):
    vmap = torch.func.vmap
    x = batch(torch)
    log(vmap(lambda a: torch.zeros_like(a).add_(a))(x), vmap(torch.ones_like)(x))
    log(vmap(lambda a: torch.full_like(a, 2).mul_(a))(x))
    log(vmap(lambda a: torch.empty_like(a).copy_(a))(x))
    log(vmap(lambda a: torch.zeros_like(a, dtype=torch.int64))(x))
    log(vmap(lambda a: torch.zeros_like(a).add_(a), in_dims=1)(x))
    log(vmap(lambda a: torch.linspace(0, 1, 2) * a)(x), vmap(lambda a: torch.arange(2) + a)(x))
    log(vmap(lambda a: torch.eye(2) @ a)(x), vmap(lambda a: torch.full((2,), 3.0) * a)(x))


@vmapped
def new_tensors(torch, log):
    vmap = torch.func.vmap
    x = batch(torch)
    log(vmap(lambda a: a.new_zeros(2).add_(a))(x), vmap(lambda a: a.new_ones((2,)).add_(a))(x))
    log(vmap(lambda a: a.new_full((2,), 3).add_(a))(x), vmap(lambda a: a.new_empty(2).copy_(a))(x))
    log(vmap(lambda a: a.new_tensor([1, 2]) * a)(x))
    log(vmap(lambda a: a.new_zeros(3, dtype=torch.int64))(x))
    log(vmap(lambda a: a.new_zeros(2, 2)[0].add_(a), in_dims=1)(torch.ones(2, 3)))


@vmapped
def values_as_numbers(torch, log):
    x = batch(torch)
    for f in (
        lambda a: a.item(),
        lambda a: a[0].item(),
        lambda a: float(a[0]),
        lambda a: float(a),
        lambda a: int(a[0]),
        lambda a: complex(a[0]),
        lambda a: bool(a[0]),
        lambda a: bool(a),
        lambda a: a if a.sum() > 0 else -a,
        lambda a: [1, 2, 3][a[0].long()],
        lambda a: a.tolist(),
        lambda a: a[0].tolist(),
        lambda a: a.numpy(),
        lambda a: a.data_ptr(),
        lambda a: 3.0 in a,
        lambda a: f"{a[0]}",
        lambda a: range(a[0].long()),
        lambda a: torch.is_nonzero(a[0]),
        lambda a: torch.equal(a, a),
        lambda a: torch.allclose(a, a),
    ):
        first_lines(torch, log, f, x)


@vmapped
def values_as_arguments(torch, log):
    x = batch(torch)
    for f in (
        lambda a: torch.tensor(a),
        lambda a: torch.tensor([a[0], 1.0]),
        lambda a: torch.as_tensor([a[0]]),
        lambda a: torch.full((2,), a[0]),
        lambda a: torch.full_like(a, a[0]),
        lambda a: torch.arange(a[0]),
        lambda a: torch.scalar_tensor(a[0]),
        lambda a: torch.eye(int(a[0])),
        lambda a: a[: int(a[0])],
        lambda a: torch.nn.functional.one_hot(a.long()),
        lambda a: torch.nn.functional.one_hot(a.long(), 8),
    ):
        first_lines(torch, log, f, x)


@vmapped
def memory(torch, log):
    import copy
    import pickle

    x = batch(torch)
    for f in (
        lambda a: a.data,
        lambda a: setattr(a, "data", a * 2) or a,
        lambda a: torch.ones(2).data + a,
        lambda a: (a * 2).detach_(),
        lambda a: copy.copy(a),
        lambda a: copy.deepcopy(a),
        lambda a: pickle.dumps(a),
        lambda a: a.untyped_storage().nbytes(),
        lambda a: a.is_set_to(a),
        lambda a: a.share_memory_(),
        lambda a: copy.deepcopy(torch.ones(2)) + a,
    ):
        first_lines(torch, log, f, x)


@vmapped
def dynamic_shapes(torch, log):
    x = batch(torch)
    for f in (
        torch.nonzero,
        torch.unique,
        torch.unique_consecutive,
        lambda a: torch.unique(a, dim=0),
        lambda a: a.masked_select(a > 2),
        lambda a: torch.where(a > 2),
        lambda a: a[a > 2],
    ):
        first_lines(torch, log, f, x)
    log(torch.func.vmap(lambda a: a.masked_select(torch.tensor([True, False])))(x))
    log(torch.func.vmap(lambda a: torch.nonzero_static(a > 2, size=2))(x))


# ---------------------------------------------------------------------- loops, printing, escapes


@vmapped
def iteration(torch, log):
    vmap = torch.func.vmap
    x = batch(torch)
    log(vmap(lambda a: sum(v for v in a))(x), vmap(lambda a: a * len(a))(x))
    log(vmap(lambda a: torch.stack([v * 2 for v in a.unbind(0)]))(x))
    log(vmap(lambda a: torch.cat([a, torch.ones(2), a]))(x))
    log(vmap(lambda a: torch.stack([torch.ones(2), a], 1))(x))


@vmapped
def printing(torch, log):
    x = batch(torch)

    def show(a):
        log(repr(a), str(a.sum()), repr(a.long()))
        return a

    torch.func.vmap(show)(x)
    torch.func.vmap(torch.func.vmap(show))(torch.stack([x, x]))
    torch.func.vmap(lambda a: torch.func.vmap(lambda b: show(b + a.sum()))(x))(x)


@vmapped
def escaped_tensors(torch, log):
    kept = []
    torch.func.vmap(lambda a: kept.append(a) or a)(batch(torch))
    (a,) = kept
    log(list(a.shape), a.requires_grad)
    try_all(
        log,
        lambda: a + 1,
        lambda: torch.sin(a),
        lambda: a[0],
        lambda: a.view(2),
        lambda: a.clone(),
        lambda: a.detach(),
        lambda: torch.ones(2) * a,
        lambda: torch.zeros_like(a),
    )


# ---------------------------------------------------------------------- nesting


@vmapped
def nested(torch, log):
    x = torch.arange(24.0).reshape(2, 3, 4)
    vmap = torch.func.vmap
    log(vmap(vmap(torch.sum))(x), vmap(vmap(lambda a: a * 2, in_dims=1), in_dims=1)(x))
    log(vmap(vmap(lambda a: a * 2, out_dims=-1), in_dims=1, out_dims=1)(x))
    y, z = torch.arange(3.0), torch.arange(2.0)
    log(vmap(lambda a: vmap(lambda b: a * 10 + b)(y))(z))
    log(vmap(vmap(torch.mul, (None, 0)), (0, None))(z, y))
    log(vmap(vmap(torch.dot, (None, 0)), (0, None))(x[0], x[1]))
    log(vmap(lambda a: vmap(lambda b: torch.cat([a, b.reshape(1)]))(y))(x[:, 0]))
    log(vmap(vmap(vmap(lambda a: a + 1)))(x))


@vmapped
def nested_writes_and_indices(torch, log):
    vmap = torch.func.vmap
    x = torch.arange(12.0).reshape(2, 3, 2)
    i = torch.tensor([0, 1, 1])

    def inner(a, i):
        a = a.clone()
        a[i] = 100.0
        return a

    log(vmap(vmap(inner), in_dims=(0, None))(x, i))
    log(vmap(lambda m: vmap(lambda i: m[i])(i))(x))
    log(vmap(vmap(lambda a: a.clone().add_(1).mul_(a)))(x))
    y = x.clone()
    vmap(vmap(lambda a: a.mul_(2)))(y)
    log(y)
    log.raises(lambda: vmap(lambda a: vmap(lambda b: a[0].sub_(b))(a))(x.clone()))


@vmapped
def the_alias(torch, log):
    log(torch.vmap is torch.func.vmap, torch.vmap(torch.sin)(batch(torch)))


# ---------------------------------------------------------------------- modules


@vmapped
def ensembles(torch, log):
    nn, func = torch.nn, torch.func
    torch.manual_seed(0)
    models = [nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1)) for _ in range(4)]
    params, buffers = func.stack_module_state(models)
    log({name: list(p.shape) for name, p in params.items()}, len(buffers))
    base = models[0]

    def run(params, buffers, x):
        return func.functional_call(base, (params, buffers), (x,))

    x = batch(torch)
    log(func.vmap(run, in_dims=(0, 0, None))(params, buffers, x).detach())
    log(
        func.vmap(run, in_dims=(0, 0, None))(params, buffers, x).detach()
        - torch.stack([m(x) for m in models]).detach()
        < 1e-6
    )
    xs = torch.randn(4, 3, 2)
    log(func.vmap(run)(params, buffers, xs).detach())


@vmapped
def gradients_per_sample(torch, log):
    nn, func = torch.nn, torch.func
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2))
    params = {name: p.detach() for name, p in model.named_parameters()}

    def loss(params, x, y):
        out = func.functional_call(model, params, (x.unsqueeze(0),))
        return nn.functional.cross_entropy(out, y.unsqueeze(0))

    x, y = torch.randn(5, 2), torch.tensor([0, 1, 1, 0, 1])
    grads = func.vmap(func.grad(loss), in_dims=(None, 0, 0))(params, x, y)
    log(grads)
    grads = func.vmap(func.grad(loss), in_dims=(None, 0, 0), chunk_size=2)(params, x, y)
    log(grads["0.weight"])


@vmapped
def layers_under_vmap(torch, log):
    nn, vmap = torch.nn, torch.func.vmap
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    image = torch.randn(2, 1, 2, 5, 5)
    log(vmap(nn.Conv2d(2, 3, 3))(image).detach())
    log(vmap(nn.MaxPool2d(2))(image), vmap(nn.AvgPool2d(2, 1))(image))
    x = torch.randn(3, 4, 6)
    log(vmap(nn.LayerNorm(6))(x).detach(), vmap(nn.GroupNorm(2, 6))(x).detach())
    log(vmap(nn.Embedding(5, 2))(torch.tensor([[0, 3], [4, 4]])).detach())
    log(vmap(nn.BatchNorm1d(6).eval())(x).detach())
    log.raises(lambda: vmap(nn.BatchNorm1d(6))(x))
    log(vmap(nn.BatchNorm1d(6, track_running_stats=False))(x).detach())
    log(vmap(nn.MultiheadAttention(6, 2), in_dims=(0, 0, 0))(x, x, x)[0].detach())
    log(vmap(nn.Dropout().eval())(x))
    torch.set_default_dtype(torch.float32)


@program
def debugging_and_batch_norms(torch, log):
    func = torch.func
    seen = []

    def look(x):
        seen.extend([func.debug_unwrap(x), func.debug_unwrap(x, recurse=False).shape])
        return x * 2

    log(func.vmap(look)(torch.arange(3.0)), func.vmap(func.vmap(look))(torch.ones(2, 3)))
    log(seen, func.debug_unwrap(torch.ones(1)))
    nn = torch.nn
    model = nn.Sequential(nn.BatchNorm1d(2), nn.Sequential(nn.BatchNorm1d(2)), nn.ReLU())
    log(func.replace_all_batch_norm_modules_(model) is model, list(model.state_dict()))
    log([m.track_running_stats for m in (model[0], model[1][0])], model[0].running_var)
    x = torch.arange(12.0, dtype=torch.float64).reshape(3, 2, 2) ** 1.5
    params = {k: v.detach().double() for k, v in model.named_parameters()}
    log(func.vmap(lambda a: func.functional_call(model, params, (a,)))(x))
