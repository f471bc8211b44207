"""torch.distributions, continuous: moments, densities, gradients, samples from seeds, shapes."""

from programs.harness import program

MOMENTS = ("mean", "mode", "variance", "stddev")


def tensors(torch, params, dtype):
    return [torch.tensor(p, dtype=dtype, requires_grad=True) for p in params]


def study(torch, log, make, params, value, seed=1):
    """Log everything that `make(*params)` can say about itself; gradients go to all `params`.

    In double precision, so that formulas show and rounding does not; samples in single too.
    """
    single = make(*tensors(torch, params, torch.float32))
    torch.manual_seed(seed)
    log(single.sample(), single.sample((2,)), single.sample(torch.Size([2, 1])))
    params = tensors(torch, params, torch.float64)
    if value.is_floating_point():
        value = value.double()
    d = make(*params)
    log(repr(d), d.batch_shape, d.event_shape, d.has_rsample, d.has_enumerate_support)
    log(repr(d.support), d.support.event_dim, d.support.is_discrete)
    log(repr(type(d).support), sorted((k, repr(v)) for k, v in d.arg_constraints.items()))
    for name in MOMENTS:
        log.raises(lambda name=name: getattr(d, name))
    score(torch, log, params, lambda: d.log_prob(value))
    score(torch, log, params, d.entropy)
    score(torch, log, params, lambda: d.cdf(value))
    score(torch, log, params, lambda: d.icdf(torch.tensor(0.3, dtype=torch.float64)))
    log.raises(d.perplexity)
    torch.manual_seed(seed)
    log(d.sample(), d.sample((2,)))
    wide = d.expand((3,) + d.batch_shape)
    log(repr(wide), wide.batch_shape, wide.event_shape, wide.sample().shape)
    log.raises(lambda: wide.log_prob(value))
    log.raises(lambda: wide.entropy())
    if d.has_rsample:
        torch.manual_seed(seed)
        log.raises(lambda: d.rsample((2,)))
    if d.has_enumerate_support:
        log(d.enumerate_support(), d.enumerate_support(expand=False))


def score(torch, log, params, action):
    """Log a differentiable result and its gradients, or the error."""
    try:
        result = action()
    except NotImplementedError as error:
        log(error)
        return
    log(result)
    if result.requires_grad:
        log(gradients(torch, result.sum(), params))


def gradients(torch, result, params):
    """Copies in single precision: PyTorch's trigamma is good to ten digits."""
    found = torch.autograd.grad(result, params, allow_unused=True)
    return [None if g is None else g.clone().float() for g in found]


def pathwise(torch, log, make, params, seed=2):
    """Log the gradients of samples."""
    params = tensors(torch, params, torch.float64)
    torch.manual_seed(seed)
    x = make(*params).rsample((3,))
    log(x, gradients(torch, (x * x).sum(), params))


@program
def normal(torch, log):
    d = torch.distributions
    value = torch.tensor([0.3, -1.5])
    study(torch, log, d.Normal, ([0.5, -1.0], [1.0, 2.5]), value)
    pathwise(torch, log, d.Normal, ([0.5, -1.0], [1.0, 2.5]))
    standard = d.Normal(0, 1)
    log(repr(standard), standard.loc, standard.scale.dtype)
    torch.manual_seed(0)
    log(standard.sample(), standard.rsample((20,)), standard.sample((20,)))
    double = d.Normal(torch.zeros(2, dtype=torch.float64), 2.0)
    log(double.log_prob(torch.ones(2, dtype=torch.float64)), double.sample((3,)))
    log(d.Normal(torch.zeros(2, 1), torch.ones(3)).batch_shape)
    log(d.Normal(torch.tensor([1]), 2.0).loc)


@program
def laplace(torch, log):
    make = torch.distributions.Laplace
    study(torch, log, make, ([0.5, -1.0], [1.0, 2.5]), torch.tensor([0.3, -1.5]))
    pathwise(torch, log, make, ([0.5, -1.0], [1.0, 2.5]))


@program
def cauchy(torch, log):
    make = torch.distributions.Cauchy
    study(torch, log, make, ([0.5, -1.0], [1.0, 2.5]), torch.tensor([0.3, -1.5]))
    pathwise(torch, log, make, ([0.5, -1.0], [1.0, 2.5]))


@program
def uniform(torch, log):
    make = torch.distributions.Uniform
    study(torch, log, make, ([0.5, -1.0], [1.0, 2.5]), torch.tensor([0.75, 0.0]))
    pathwise(torch, log, make, ([0.5, -1.0], [1.0, 2.5]))
    loose = make(0.0, 1.0, validate_args=False)
    log(loose.log_prob(torch.tensor([-0.5, 0.0, 0.5, 1.0])), loose.cdf(torch.tensor([-1.0, 2.0])))


@program
def exponential(torch, log):
    make = torch.distributions.Exponential
    study(torch, log, make, ([0.5, 2.0],), torch.tensor([0.75, 1.5]))
    pathwise(torch, log, make, ([0.5, 2.0],))


@program
def gamma(torch, log):
    make = torch.distributions.Gamma
    study(torch, log, make, ([0.5, 3.0], [2.0, 0.7]), torch.tensor([0.75, 1.5]))
    torch.manual_seed(4)
    for shape in (0.05, 0.5, 1.0, 2.0, 10.0, 1000.0):
        log(make(torch.full((20,), shape), 1.0).sample())
        log(make(torch.full((20,), shape, dtype=torch.float64), 1.0).sample())
    log(torch.randn(1), torch.rand(1))
    log(make(2.0, 1.0).log_prob(1.0))


@program
def chi2(torch, log):
    make = torch.distributions.Chi2
    study(torch, log, make, ([1.0, 4.0],), torch.tensor([0.75, 1.5]))
    log(make(3.0).df, make(torch.tensor([2.0])).df)


@program
def beta(torch, log):
    make = torch.distributions.Beta
    study(torch, log, make, ([0.5, 3.0], [2.0, 0.7]), torch.tensor([0.75, 0.25]))
    log(make(2.0, 3.0).mode, make(torch.tensor([0.5, 2.0]), 0.5).mode)
    log(make(2, 3.0).concentration1, make(torch.ones(2), 2.0).concentration0)


@program
def dirichlet(torch, log):
    make = torch.distributions.Dirichlet
    study(torch, log, make, ([0.5, 3.0, 1.5],), torch.tensor([0.25, 0.25, 0.5]))
    study(
        torch,
        log,
        make,
        ([[0.5, 0.7], [20.0, 1.5]],),
        torch.tensor([[0.25, 0.75], [0.75, 0.25]]),
    )
    torch.manual_seed(0)
    log(make(torch.full((3,), 1e-3)).sample((5,)))
    log(make(torch.full((3,), 1e-3, dtype=torch.float64)).sample((5,)))
    log(make(torch.ones(2, dtype=torch.float64)).sample((3,)))


@program
def student_t(torch, log):
    make = torch.distributions.StudentT
    study(
        torch,
        log,
        make,
        ([0.5, 1.5, 4.0], [0.5, -1.0, 0.0], [1.0, 2.5, 1.0]),
        torch.tensor([0.3, -1.5, 1.0]),
    )
    log(repr(make(3.0)), make(3.0).variance)


@program
def fisher_snedecor(torch, log):
    make = torch.distributions.FisherSnedecor
    study(torch, log, make, ([1.0, 4.0, 3.0], [2.0, 3.0, 6.0]), torch.tensor([0.5, 1.5, 2.0]))


@program
def log_normal(torch, log):
    make = torch.distributions.LogNormal
    study(torch, log, make, ([0.5, -1.0], [1.0, 0.5]), torch.tensor([0.3, 1.5]))
    pathwise(torch, log, make, ([0.5, -1.0], [1.0, 0.5]))


@program
def gumbel(torch, log):
    make = torch.distributions.Gumbel
    study(torch, log, make, ([0.5, -1.0], [1.0, 2.5]), torch.tensor([0.3, -1.5]))
    pathwise(torch, log, make, ([0.5, -1.0], [1.0, 2.5]))


@program
def weibull(torch, log):
    make = torch.distributions.Weibull
    study(torch, log, make, ([0.5, 2.0], [1.5, 2.5]), torch.tensor([0.3, 1.5]))
    pathwise(torch, log, make, ([0.5, 2.0], [1.5, 2.5]))


@program
def pareto(torch, log):
    make = torch.distributions.Pareto
    study(torch, log, make, ([0.2, 1.0, 0.5], [0.5, 1.5, 2.5]), torch.tensor([0.3, 1.5, 2.0]))
    pathwise(torch, log, make, ([0.2, 1.0], [1.5, 2.5]))


@program
def kumaraswamy(torch, log):
    make = torch.distributions.Kumaraswamy
    study(torch, log, make, ([0.5, 2.0], [1.5, 2.5]), torch.tensor([0.3, 0.5]))
    pathwise(torch, log, make, ([0.5, 2.0], [1.5, 2.5]))


@program
def half_normal(torch, log):
    make = torch.distributions.HalfNormal
    study(torch, log, make, ([0.5, 2.0],), torch.tensor([0.3, 1.5]))
    pathwise(torch, log, make, ([0.5, 2.0],))
    log(make(1.0, validate_args=False).log_prob(torch.tensor([-1.0, 1.0])))


@program
def half_cauchy(torch, log):
    make = torch.distributions.HalfCauchy
    study(torch, log, make, ([0.5, 2.0],), torch.tensor([0.3, 1.5]))
    pathwise(torch, log, make, ([0.5, 2.0],))
    log(make(1.0, validate_args=False).log_prob(torch.tensor([-1.0, 1.0])))


@program
def inverse_gamma(torch, log):
    make = torch.distributions.InverseGamma
    study(torch, log, make, ([0.5, 1.5, 3.0], [1.0, 0.7, 2.0]), torch.tensor([0.3, 1.5, 1.0]))


@program
def logistic_normal(torch, log):
    make = torch.distributions.LogisticNormal
    study(torch, log, make, ([0.5, -1.0], [1.0, 2.5]), torch.tensor([0.25, 0.25, 0.5]))
    pathwise(torch, log, make, ([0.5, -1.0], [1.0, 2.5]))
    log(make(0.0, 1.0).event_shape)


@program
def generalized_pareto(torch, log):
    # In single precision: PyTorch's own compares with a float32 zero and refuses doubles.
    params = tensors(
        torch,
        ([0.125, 0.0, -1.0, 0.0], [1.0, 2.5, 1.0, 0.5], [0.25, 0.0, -0.5, 1.5]),
        torch.float32,
    )
    value = torch.tensor([0.375, 1.5, 0.5, 4.0])
    d = torch.distributions.GeneralizedPareto(*params)
    log(repr(d), d.mean, d.mode, d.variance, d.stddev, d.entropy(), repr(d.support))
    for method in ("log_prob", "cdf", "log_survival_function", "log_cdf"):
        score(torch, log, params, lambda method=method: getattr(d, method)(value))
    score(torch, log, params, lambda: d.icdf(torch.tensor(0.25)))
    torch.manual_seed(0)
    log(d.sample((2,)), d.expand((3, 4)).rsample().shape, d.rsample())


@program
def von_mises(torch, log):
    make = torch.distributions.VonMises
    study(torch, log, make, ([0.5, -1.0, 2.0], [0.1, 2.5, 20.0]), torch.tensor([0.3, -1.5, 2.0]))
    torch.manual_seed(0)
    log(make(0.0, 1e-6).sample((4,)), make(torch.tensor(3.0), 50.0).sample((4,)))


@program
def multivariate_normal(torch, log):
    make = torch.distributions.MultivariateNormal
    matrix = [[2.0, 0.5], [0.5, 1.0]]
    tril = [[1.5, 0.0], [0.5, 2.0]]
    names = ("covariance_matrix", "precision_matrix", "scale_tril")
    for name, entries in zip(names, (matrix, matrix, tril), strict=True):
        given = {}

        def made(loc, m, name=name, given=given):
            given["d"] = make(loc, **{name: m})
            return given["d"]

        study(torch, log, made, ([0.5, -1.0], entries), torch.tensor([0.3, -1.5]))
        pathwise(torch, log, made, ([0.5, -1.0], entries))
        for other in names:
            log(getattr(given["d"], other))
    batch = make(torch.zeros(3, 1, 2), torch.tensor([matrix, [[1.0, 0.0], [0.0, 3.0]]]))
    log(batch.batch_shape, batch.log_prob(torch.ones(2)), batch.entropy(), batch.variance)
    log(batch.log_prob(torch.arange(24.0).reshape(2, 3, 2, 2) / 10))
    wide = batch.expand((4, 3, 2))
    log(wide.covariance_matrix.shape, wide.log_prob(torch.ones(2)).shape, wide.scale_tril.shape)


@program
def low_rank_multivariate_normal(torch, log):
    make = torch.distributions.LowRankMultivariateNormal
    params = ([0.5, -1.0, 0.0], [[1.0, 0.2], [0.5, 0.3], [-1.0, 0.1]], [1.0, 2.0, 0.5])
    study(torch, log, make, params, torch.tensor([0.3, -1.5, 0.2]))
    pathwise(torch, log, make, params)
    d = make(*[torch.tensor(p) for p in params])
    log(d.scale_tril, d.covariance_matrix, d.precision_matrix)
    batch = make(torch.zeros(2, 3), d.cov_factor, d.cov_diag)
    log(batch.batch_shape, batch.log_prob(torch.ones(3)), batch.entropy(), batch.cov_factor.shape)


@program
def wishart(torch, log):
    make = torch.distributions.Wishart
    matrix = [[2.0, 0.5], [0.5, 1.0]]
    tril = [[1.5, 0.0], [0.5, 2.0]]
    names = ("covariance_matrix", "precision_matrix", "scale_tril")
    for name, entries in zip(names, (matrix, matrix, tril), strict=True):

        def made(df, m, name=name):
            return make(df, **{name: m})

        study(torch, log, made, (3.5, entries), torch.tensor([[1.0, 0.2], [0.2, 2.0]]))
    log.warns(lambda: make(torch.tensor([1.5, 3.0]), torch.eye(2)).mode)
    batch = make(torch.tensor([2.5, 4.0]), torch.eye(2))
    torch.manual_seed(0)
    log(batch.sample(), batch.sample((3,)).shape)
    log.warns(batch.sample)


@program
def lkj_cholesky(torch, log):
    make = torch.distributions.LKJCholesky
    factor = torch.tensor([[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0.0, 0.6, 0.8]])
    for concentration in (1.0, [0.5, 2.0]):
        study(torch, log, lambda c: make(3, c), (concentration,), factor)
    log(make(2).log_prob(torch.eye(2)), make(5, 3.0).sample().shape)


@program
def independent(torch, log):
    d = torch.distributions

    def rows(loc, scale):
        return d.Independent(d.Normal(loc, scale), 1)

    study(torch, log, rows, ([[0.5, -1.0]], [[1.0, 2.5]]), torch.tensor([[0.3, -1.5]]))
    base = d.Bernoulli(torch.full((2, 3), 0.5))
    for n in range(3):
        x = d.Independent(base, n)
        log(repr(x), x.batch_shape, x.event_shape, x.has_enumerate_support)
        log(
            x.log_prob(torch.ones(2, 3)),
            x.entropy(),
            repr(x.support),
            x.expand((4, *x.batch_shape)),
        )
        log.raises(lambda x=x: x.enumerate_support())


@program
def mixture(torch, log):
    d = torch.distributions

    def normals(w, loc, scale):
        return d.MixtureSameFamily(d.Categorical(w), d.Normal(loc, scale))

    params = ([0.3, 0.7], [0.5, -1.0], [1.0, 2.5])
    study(torch, log, normals, params, torch.tensor(0.3))

    def vectors(w, loc, scale):
        return d.MixtureSameFamily(d.Categorical(w), d.Independent(d.Normal(loc, scale), 1))

    params = ([0.3, 0.7], [[0.5, -1.0, 0.0], [0.1, 0.2, 0.3]], [[1.0, 2.5, 1.0], [1.0, 1.0, 2.0]])
    study(torch, log, vectors, params, torch.tensor([0.3, 0.1, 0.2]))
    counts = d.MixtureSameFamily(d.Categorical(torch.ones(4, 2)), d.Poisson(torch.ones(4, 2) * 3))
    log(counts.log_prob(torch.tensor(2.0)), counts.mean, counts.variance, repr(counts.support))
    log(counts.sample((3,)), counts.mixture_distribution.probs, repr(counts))
