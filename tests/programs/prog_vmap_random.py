"""vmap: what `randomness` means for every function that draws numbers."""

from programs.prog_vmap import batch, vmapped

# ---------------------------------------------------------------------- random numbers


FRESH = {
    "rand": lambda torch, a: torch.rand(2) + a,
    "randn": lambda torch, a: torch.randn(2),
    "many": lambda torch, a: torch.randn(20),
    "randint": lambda torch, a: torch.randint(0, 10, (2,)),
    "randperm": lambda torch, a: torch.randperm(4),
    "normal": lambda torch, a: torch.normal(0.0, 1.0, (2,)),
    "rand_like": lambda torch, a: torch.rand_like(a),
    "randn_like": lambda torch, a: torch.randn_like(a),
    "randint_like": lambda torch, a: torch.randint_like(a, 0, 9),
    "rand_like of another": lambda torch, a: torch.rand_like(torch.ones(2)),
    "generator": lambda torch, a: torch.rand(2, generator=torch.Generator().manual_seed(3)),
    "reseeded": lambda torch, a: (torch.manual_seed(3), torch.rand(2))[1],
}
FROM_TENSORS = {
    "normal mean": lambda torch, a: torch.normal(a, 1.0),
    "normal std": lambda torch, a: torch.normal(0.0, a),
    "normal both": lambda torch, a: torch.normal(a, a[0].abs()),
    "normal half": lambda torch, a: torch.normal(torch.zeros(2), a),
    "normal none": lambda torch, a: torch.normal(torch.zeros(2), 1.0),
    "bernoulli": lambda torch, a: torch.bernoulli(a / 10),
    "bernoulli none": lambda torch, a: torch.bernoulli(torch.full((2,), 0.5)),
    "bernoulli p": lambda torch, a: torch.bernoulli(a, 0.5),
    "poisson": lambda torch, a: torch.poisson(a),
    "poisson none": lambda torch, a: torch.poisson(torch.ones(2)),
    "binomial": lambda torch, a: torch.binomial(torch.full((2,), 5.0), a / 10),
    "multinomial": lambda torch, a: torch.multinomial(a, 2),
    "multinomial again": lambda torch, a: torch.multinomial(a, 3, True),
    "multinomial none": lambda torch, a: torch.multinomial(torch.ones(4), 2),
    "multinomial rows": lambda torch, a: torch.multinomial(torch.stack([a, a + 1]), 1),
    "gamma": lambda torch, a: torch._standard_gamma(a),
    "dirichlet": lambda torch, a: torch._sample_dirichlet(a),
    "gumbel": lambda torch, a: torch.nn.functional.gumbel_softmax(a),
    "sample": lambda torch, a: torch.distributions.Normal(a, 1.0).sample(),
    "classes": lambda torch, a: torch.distributions.Categorical(a).sample(),
}
INTO = {
    "normal_": lambda t: t.normal_(),
    "uniform_": lambda t: t.uniform_(-1, 1),
    "random_": lambda t: t.random_(),
    "random_ to": lambda t: t.random_(5),
    "random_ from": lambda t: t.random_(2, 7),
    "bernoulli_": lambda t: t.bernoulli_(0.5),
    "exponential_": lambda t: t.exponential_(),
    "cauchy_": lambda t: t.cauchy_(),
    "log_normal_": lambda t: t.log_normal_(),
    "geometric_": lambda t: t.geometric_(0.4),
}
MODES = ("error", "same", "different")


def drawn(torch, log, function, x=None, **options):
    for mode in MODES:
        torch.manual_seed(0)
        source = batch(torch) if x is None else x
        mapped = torch.func.vmap(function, randomness=mode, **options)
        log.raises(lambda mapped=mapped, source=source: mapped(source))
    log(torch.rand(1))


@vmapped
def fresh_numbers(torch, log):
    for function in FRESH.values():
        drawn(torch, log, lambda a, f=function: f(torch, a))


@vmapped
def numbers_from_tensors(torch, log):
    for function in FROM_TENSORS.values():
        drawn(torch, log, lambda a, f=function: f(torch, a))


@vmapped
def numbers_in_place(torch, log):
    for function in INTO.values():
        drawn(torch, log, lambda a, f=function: f(torch.zeros_like(a)))
        drawn(torch, log, lambda a, f=function: f(torch.zeros(2)) + a)
    drawn(torch, log, lambda a: torch.zeros_like(a).bernoulli_(a / 10))
    drawn(torch, log, lambda a: torch.zeros_like(a).bernoulli_(torch.full((2,), 0.5)))
    drawn(torch, log, lambda a: torch.zeros(2).bernoulli_(a / 10))
    drawn(torch, log, lambda a: torch.zeros(2).bernoulli_(torch.full((2,), 0.5)))


@vmapped
def numbers_along_another_dimension(torch, log):
    x = torch.ones(2, 3)
    drawn(torch, log, lambda a: torch.rand_like(a), x, in_dims=1)
    drawn(torch, log, lambda a: torch.zeros_like(a).normal_(), x, in_dims=1)
    drawn(torch, log, lambda a: torch.nn.functional.dropout(a), x, in_dims=1)
    drawn(torch, log, lambda a: torch.rand(4) + a[0], x, out_dims=1)


@vmapped
def dropouts(torch, log):
    functional = torch.nn.functional
    for function in (
        lambda a: functional.dropout(a),
        lambda a: functional.dropout(torch.ones(2)),
        lambda a: functional.dropout(a, training=False),
        lambda a: functional.dropout(a, 0.0),
        lambda a: functional.dropout(a, 1.0),
        lambda a: functional.dropout(a + 1, inplace=True),
        lambda a: functional.alpha_dropout(a, training=True),
        lambda a: functional.dropout1d(a.view(2, 1)),
        lambda a: torch.feature_dropout(a.view(1, 2, 1), 0.5, True),
        lambda a: functional.feature_alpha_dropout(a.view(1, 2, 1), training=True),
        lambda a: torch.nn.Dropout(0.3)(a),
        lambda a: torch.nn.init.uniform_(torch.zeros_like(a)),
        lambda a: functional.scaled_dot_product_attention(
            a.view(1, 1, 2), a.view(1, 1, 2), a.view(1, 1, 2), dropout_p=0.5
        ),
    ):
        drawn(torch, log, function)


def twice(torch, function, outer, inner):
    """The function of an entry and of an entry of that, under two levels."""
    vmap = torch.func.vmap

    def once(a):
        return vmap(lambda b: function(a, b), randomness=inner)(a)

    return lambda: vmap(once, randomness=outer)(batch(torch))


@vmapped
def nested_randomness(torch, log):
    for function in (
        lambda a, b: torch.rand(2),
        lambda a, b: torch.rand_like(b),
        lambda a, b: torch.rand_like(a),
        lambda a, b: torch.bernoulli(b / 10),
        lambda a, b: torch.bernoulli(a / 10),
        lambda a, b: torch.nn.functional.dropout(a),
        lambda a, b: torch.zeros_like(b).normal_(),
        lambda a, b: torch.randperm(3),
    ):
        for outer in MODES:
            for inner in MODES:
                torch.manual_seed(0)
                log.raises(twice(torch, function, outer, inner))


@vmapped
def randomness_with_derivatives(torch, log):
    func, x = torch.func, batch(torch)
    dropout = torch.nn.functional.dropout
    for mode in ("same", "different"):
        torch.manual_seed(0)
        log(func.vmap(func.grad(lambda a: (dropout(a) * a).sum()), randomness=mode)(x))
        log(func.vmap(lambda a: func.jvp(dropout, (a,), (a,)), randomness=mode)(x))
    torch.manual_seed(0)
    log(func.grad(lambda a: (torch.rand(2) * a).sum())(x[0]))


@vmapped
def randomness_in_chunks(torch, log):
    x = torch.ones(5, 2)
    for mode in ("same", "different"):
        torch.manual_seed(0)
        log(torch.func.vmap(lambda a: torch.rand(2), randomness=mode, chunk_size=2)(x))
