"""Same seed, same numbers: the random functions of the public API."""

from programs.harness import program

SIZES = (1, 2, 15, 16, 17, 24, 31, 32, 33, 100)


@program
def seeds(torch, log):
    log(torch.manual_seed(5) is torch.default_generator, torch.initial_seed())
    for seed in (0, 1, 42, -1, 2**32 + 5, 2**64 - 1):
        g = torch.Generator().manual_seed(seed)
        log(g.initial_seed(), torch.rand(3, generator=g))
    log(torch.Generator().initial_seed(), torch.Generator().device, torch.Generator(None).device)
    for bad in (2**64, -(2**63) - 1, 1.5, "a", True, None):
        log.raises(lambda bad=bad: torch.Generator().manual_seed(bad) and None)
    drawn = torch.seed()
    log(drawn == torch.initial_seed())
    g = torch.Generator()
    log(g.seed() == g.initial_seed())


@program
def rand(torch, log):
    for dtype in (torch.float32, torch.float64, torch.float16):
        for n in SIZES:
            torch.manual_seed(n)
            log(torch.rand(n, dtype=dtype))
    log(torch.rand(2, 3), torch.rand((2, 2)), torch.rand(0), torch.rand(()))
    log(torch.rand(2, dtype=torch.complex64), torch.rand(2, requires_grad=True))
    log(torch.rand_like(torch.zeros(2, 3)), torch.rand_like(torch.zeros(2), dtype=torch.float64))
    log.raises(lambda: torch.rand(2, dtype=torch.int64))


@program
def randn(torch, log):
    for dtype in (torch.float32, torch.float64):
        for n in SIZES:
            torch.manual_seed(n)
            log(torch.randn(n, dtype=dtype))
    log(torch.randn(4, 5), torch.randn((2, 2)), torch.randn(0), torch.randn(()))
    log(torch.randn(2, dtype=torch.complex64), torch.randn(20, dtype=torch.complex128))
    log(torch.randn_like(torch.zeros(2, 3)), torch.randn(3, requires_grad=True))
    log.raises(lambda: torch.randn(2, dtype=torch.int64))


@program
def cached_normal(torch, log):
    torch.manual_seed(3)
    log(torch.randn(1), torch.rand(2), torch.randn(1), torch.randn(20), torch.randn(3))
    torch.randn(1)
    torch.manual_seed(3)
    log(torch.randn(1))


@program
def normal(torch, log):
    log(torch.normal(2.0, 3.0, (4,)), torch.normal(2.0, 3.0, size=(3, 7)))
    mean, std = torch.arange(20.0), torch.linspace(1, 2, 20)
    log(torch.normal(mean, std), torch.normal(mean, 2.3), torch.normal(1.5, std))
    log(torch.normal(mean[:3], std[:3]), torch.normal(mean[:3]))
    log(torch.empty(5).normal_(), torch.empty(33).normal_(1.7, 2.3))
    log(torch.empty(18, 2)[:, 0].normal_(), torch.empty(17, dtype=torch.float64).normal_(1, 0.5))
    log.raises(lambda: torch.normal(0.0, -1.0, (2,)))
    log.raises(lambda: torch.empty(2).normal_(0, -1))
    log.raises(lambda: torch.empty(2, dtype=torch.int64).normal_())


@program
def uniform_(torch, log):
    for low, high in ((-1, 1), (0.1, 0.7), (-3.3, 100.7), (5, 5)):
        log(torch.empty(20).uniform_(low, high))
        log(torch.empty(5, dtype=torch.float64).uniform_(low, high))
        log(torch.empty(5, dtype=torch.float16).uniform_(low, high))
    log(torch.empty(3, 2)[:, 1].uniform_(), torch.empty(2).uniform_(to=3.0))
    log.raises(lambda: torch.empty(2).uniform_(2, 1))
    log.raises(lambda: torch.empty(2).uniform_(-3e38, 3e38))
    log.raises(lambda: torch.empty(2, dtype=torch.float16).uniform_(0, 1e5))


@program
def integers(torch, log):
    log(torch.randint(10, (20,)), torch.randint(-5, 5, (2, 3)), torch.randint(0, 2, (3,)))
    for dtype in (torch.int32, torch.int16, torch.uint8, torch.float32, torch.float64):
        log(torch.randint(3, 100, (7,), dtype=dtype), torch.empty(5, dtype=dtype).random_())
    log(torch.randint(0, 2, (9,), dtype=torch.bool), torch.empty(9, dtype=torch.bool).random_())
    for count in (2**28 - 1, 2**28, 2**32, 2**62):
        log(torch.randint(0, count, (5,)))
    log(torch.empty(5, dtype=torch.int64).random_(), torch.empty(5).random_(7))
    log(torch.empty(5, dtype=torch.int64).random_(-(2**63), None))
    log(torch.empty(5, dtype=torch.int64).random_(-3, 4))
    log(torch.randint_like(torch.zeros(2, 2), 10), torch.randint_like(torch.zeros(3), 2, 9))
    log.raises(lambda: torch.randint(5, 5, (2,)))
    log.raises(lambda: torch.randint(0, 257, (2,), dtype=torch.uint8))
    log.raises(lambda: torch.randint(-1, 5, (2,), dtype=torch.uint8))


@program
def permutations(torch, log):
    for n in (0, 1, 2, 5, 16, 17, 100, 1000):
        log(torch.randperm(n))
    log(torch.randperm(20, dtype=torch.int32), torch.randperm(20, dtype=torch.float32))
    log(torch.randperm(6, generator=torch.Generator().manual_seed(9)))
    log.raises(lambda: torch.randperm(-1))


@program
def bernoulli(torch, log):
    p = torch.linspace(0, 1, 40)
    log(torch.bernoulli(p), torch.bernoulli(p.double()), torch.bernoulli(p, 0.3))
    log(torch.empty(40).bernoulli_(0.3), torch.empty(40).bernoulli_())
    log(torch.empty(40, dtype=torch.int64).bernoulli_(0.3), torch.empty(40).bernoulli_(p))
    log.raises(lambda: torch.empty(2).bernoulli_(1.5))
    log.raises(lambda: torch.bernoulli(torch.tensor([1.5])))
    log.raises(lambda: torch.bernoulli(torch.tensor([1])))


@program
def continuous(torch, log):
    for dtype in (torch.float32, torch.float64):
        log(
            torch.empty(20, dtype=dtype).exponential_(),
            torch.empty(3, dtype=dtype).exponential_(2.5),
        )
        log(torch.empty(20, dtype=dtype).cauchy_(), torch.empty(3, dtype=dtype).cauchy_(0.3, 0.7))
        log(
            torch.empty(21, dtype=dtype).log_normal_(),
            torch.empty(2, dtype=dtype).log_normal_(0.5, 0.2),
        )
        log(torch.empty(20, dtype=dtype).geometric_(0.3))
    log(torch.empty(20, dtype=torch.int64).geometric_(0.1))
    log.raises(lambda: torch.empty(2).exponential_(0))
    log.raises(lambda: torch.empty(2).cauchy_(0, -1))
    log.raises(lambda: torch.empty(2).log_normal_(0, -1))
    log.raises(lambda: torch.empty(2).geometric_(1))
    log.raises(lambda: torch.empty(2, dtype=torch.int64).exponential_())


@program
def multinomial(torch, log):
    p = torch.rand(3, 8)
    log(torch.multinomial(p, 1), torch.multinomial(p, 5), torch.multinomial(p[0], 8))
    log(torch.multinomial(p, 1, True), torch.multinomial(p, 30, replacement=True))
    log(torch.multinomial(p[0].double(), 30, True), torch.multinomial(torch.tensor([0.0, 3, 0]), 1))
    for weights, n, again in (
        (torch.zeros(3), 1, False),
        (torch.tensor([1.0, -1.0]), 1, False),
        (torch.tensor([1.0, -1.0]), 4, True),
        (torch.ones(3), 4, False),
        (torch.ones(3), 0, False),
        (torch.ones(3, dtype=torch.int64), 1, False),
        (torch.ones(2, 2, 2), 1, False),
    ):
        log.raises(lambda w=weights, n=n, again=again: torch.multinomial(w, n, again))


@program
def counts(torch, log):
    log(torch.poisson(torch.tensor([0.0, 0.5, 3.0, 9.9, 10.0, 50.0, 1000.0] * 3)))
    trials = torch.tensor([0.0, 5.0, 20.0, 100.0, 1000.0] * 4)
    log(torch.binomial(trials, torch.linspace(0, 1, 20)))


@program
def states(torch, log):
    torch.manual_seed(8)
    torch.randn(701)
    torch.randn(3)
    state = torch.get_rng_state()
    log(state.shape, state.dtype, state)
    first = torch.randn(5)
    torch.set_rng_state(state)
    log(torch.equal(first, torch.randn(5)), first)
    g = torch.Generator()
    log(g.set_state(state) is g, g.initial_seed(), torch.randn(5, generator=g))
    with torch.random.fork_rng():
        torch.manual_seed(1)
        inside = torch.rand(2)
    log(inside, torch.rand(2))
    log.raises(lambda: g.set_state(torch.zeros(10, dtype=torch.uint8)) and None)
    log.raises(lambda: g.set_state(torch.zeros(5056, dtype=torch.uint8)) and None)
    log.raises(lambda: g.set_state(torch.zeros(5056)) and None)


@program
def generators(torch, log):
    a, b = torch.Generator().manual_seed(1), torch.Generator().manual_seed(1)
    log(torch.equal(torch.rand(4, generator=a), torch.rand(4, generator=b)))
    log(torch.randn(2, generator=a), torch.randn(2, generator=b), torch.rand(2))
    log(torch.randint(9, (3,), generator=a), torch.empty(3).normal_(generator=a))
    log(torch.empty(3).uniform_(generator=b), torch.bernoulli(torch.full((9,), 0.5), generator=b))
    log(torch.multinomial(torch.ones(4), 2, generator=a))


@program
def initialisers(torch, log):
    torch.manual_seed(0)
    layer = torch.nn.Linear(5, 4)
    log(layer.weight, layer.bias)
    log(
        torch.nn.init.xavier_uniform_(torch.empty(3, 5)),
        torch.nn.init.kaiming_normal_(torch.empty(4, 5)),
    )
    log(torch.nn.functional.dropout(torch.ones(30), 0.4))


@program
def orthogonal(torch, log):
    init = torch.nn.init
    torch.manual_seed(0)
    for shape, gain in (((3, 5), 2), ((5, 3), 1), ((2, 2, 3), 0.5), ((4, 4), 1)):
        w = init.orthogonal_(torch.empty(*shape, dtype=torch.float64), gain)
        log(list(w.shape), w.flatten().tolist(), w.requires_grad)
    p = torch.nn.Parameter(torch.empty(2, 3, dtype=torch.float64))
    log(init.orthogonal_(p) is p, p.is_leaf, p.grad_fn is None)
    log(init.orthogonal_(torch.empty(0, 3)), torch.rand(1))
    log.raises(lambda: init.orthogonal_(torch.empty(3)))
