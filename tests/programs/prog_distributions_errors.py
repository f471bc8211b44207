"""torch.distributions: what is refused, how it is said, and what subclasses get."""

from programs.harness import program


@program
def parameters(torch, log):
    d = torch.distributions
    t, ones, zeros, eye = torch.tensor, torch.ones, torch.zeros, torch.eye
    for action in (
        lambda: d.Normal(0.0, -1.0),
        lambda: d.Normal(zeros(2), t([1.0, 0.0])),
        lambda: d.Normal(float("nan"), 1.0),
        lambda: d.Normal("a", 1.0),
        lambda: d.Normal(zeros(3), zeros(2)),
        lambda: d.Normal(None, 1.0),
        lambda: d.LogNormal(1.5, t(-1.0)),
        lambda: d.Uniform(1.0, 0.0),
        lambda: d.Uniform(ones(2), t([0.0, 2.0])),
        lambda: d.Beta(-1.0, 1.0),
        lambda: d.Gamma(1.0, 0.0),
        lambda: d.Chi2(-1.0),
        lambda: d.StudentT(-1.0),
        lambda: d.FisherSnedecor(-1.0, 1.0),
        lambda: d.Exponential(0.0),
        lambda: d.Laplace(0.0, 0.0),
        lambda: d.Cauchy(0.0, 0.0),
        lambda: d.HalfNormal(-1.0),
        lambda: d.HalfCauchy(-1.0),
        lambda: d.InverseGamma(-1.0, 1.0),
        lambda: d.LogisticNormal(0.0, -1.0),
        lambda: d.GeneralizedPareto(0.0, -1.0, 1.0),
        lambda: d.Pareto(-1.0, 1.0),
        lambda: d.Gumbel(0.0, -1.0),
        lambda: d.Weibull(1.0, -1.0),
        lambda: d.Kumaraswamy(1.0, 0.0),
        lambda: d.VonMises(zeros(2), -ones(2)),
        lambda: d.Poisson(-1.0),
        lambda: d.Dirichlet(ones(())),
        lambda: d.Dirichlet(zeros(2)),
        lambda: d.Categorical(ones(())),
        lambda: d.Categorical(logits=t(1.0)),
        lambda: d.Categorical(),
        lambda: d.Categorical(ones(2), ones(2)),
        lambda: d.Categorical(t([-1.0, 2.0])),
        lambda: d.Categorical(zeros(2)),
        lambda: d.Categorical(logits=t([1.0, float("nan")])),
        lambda: d.OneHotCategorical(),
        lambda: d.Bernoulli(),
        lambda: d.Bernoulli(0.5, 0.5),
        lambda: d.Bernoulli(2.0),
        lambda: d.Bernoulli(t([0.5, -1.0])),
        lambda: d.Bernoulli([0.5]),
        lambda: d.Geometric(0.0),
        lambda: d.Geometric(t([0.0, 1.0])),
        lambda: d.Geometric(1.5),
        lambda: d.Binomial(3),
        lambda: d.Binomial(-3, t(0.5)),
        lambda: d.Binomial(t(2.5), t(0.5)),
        lambda: d.NegativeBinomial(3, t(1.0)),
        lambda: d.NegativeBinomial(-1, t([0.5])),
        lambda: d.Multinomial(t([1, 2]), ones(2)),
        lambda: d.Multinomial(3),
        lambda: d.ContinuousBernoulli(2.0, validate_args=True),
        lambda: d.ContinuousBernoulli(),
        lambda: d.RelaxedBernoulli(t(0.5)),
        lambda: d.RelaxedBernoulli(t(0.5), t(2.0)),
        lambda: d.RelaxedOneHotCategorical(t(0.5)),
        lambda: d.MultivariateNormal(zeros(()), eye(2)),
        lambda: d.MultivariateNormal(zeros(2)),
        lambda: d.MultivariateNormal(zeros(2), eye(2), eye(2)),
        lambda: d.MultivariateNormal(zeros(2), zeros(2)),
        lambda: d.MultivariateNormal(zeros(2), scale_tril=zeros(2)),
        lambda: d.MultivariateNormal(zeros(2), precision_matrix=zeros(2)),
        lambda: d.MultivariateNormal(zeros(2), zeros(2, 2)),
        lambda: d.MultivariateNormal(zeros(2), t([[1.0, 2.0], [0.0, 1.0]])),
        lambda: d.MultivariateNormal(zeros(2), scale_tril=-eye(2)),
        lambda: d.MultivariateNormal(zeros(2), precision_matrix=-eye(2)),
        lambda: d.LowRankMultivariateNormal(zeros(()), ones(2, 1), ones(2)),
        lambda: d.LowRankMultivariateNormal(zeros(2), ones(2), ones(2)),
        lambda: d.LowRankMultivariateNormal(zeros(2), ones(3, 1), ones(2)),
        lambda: d.LowRankMultivariateNormal(zeros(2), ones(2, 1), ones(3)),
        lambda: d.LowRankMultivariateNormal(zeros(3, 2), ones(4, 2, 1), ones(2)),
        lambda: d.Wishart(t(1.0), eye(2)),
        lambda: d.Wishart(t(3.0)),
        lambda: d.Wishart(t(3.0), eye(2), eye(2)),
        lambda: d.Wishart(t(3.0), ones(2)),
        lambda: d.Wishart(3.0, ones(2, 2)),
        lambda: d.LKJCholesky(1),
        lambda: d.LKJCholesky(3, -1.0),
        lambda: d.Independent(d.Normal(0.0, 1.0), 1),
        lambda: d.MixtureSameFamily(d.Categorical(ones(2)), 3),
        lambda: d.MixtureSameFamily(3, d.Normal(zeros(2), 1.0)),
        lambda: d.MixtureSameFamily(d.Categorical(ones(3)), d.Normal(zeros(2), 1.0)),
        lambda: d.MixtureSameFamily(d.Categorical(ones(3, 2)), d.Normal(zeros(4, 2), 1.0)),
    ):
        log.raises(lambda action=action: repr(action()))


@program
def values(torch, log):
    d = torch.distributions
    t, ones = torch.tensor, torch.ones
    for action in (
        lambda: d.Normal(0.0, 1.0).log_prob(t(float("nan"))),
        lambda: d.Normal(0.0, 1.0).log_prob(1.0),
        lambda: d.Normal(0.0, 1.0).cdf(1.0),
        lambda: d.Normal(torch.zeros(3), 1.0).log_prob(torch.zeros(2)),
        lambda: d.Normal(torch.zeros(3), 1.0).log_prob(torch.zeros(2, 1)),
        lambda: d.Uniform(0.0, 1.0).log_prob(t(2.0)),
        lambda: d.Exponential(1.0).log_prob(t(-1.0)),
        lambda: d.Gamma(1.0, 1.0).log_prob(t([1.0, -1.0])),
        lambda: d.Beta(1.0, 1.0).log_prob(t(1.5)),
        lambda: d.Dirichlet(ones(3)).log_prob(torch.zeros(())),
        lambda: d.Dirichlet(ones(3)).log_prob(torch.zeros(2)),
        lambda: d.Dirichlet(ones(3)).log_prob(torch.zeros(3)),
        lambda: d.Bernoulli(0.5).log_prob(t(0.3)),
        lambda: d.Categorical(ones(2)).log_prob(t(5)),
        lambda: d.Categorical(ones(2)).log_prob(t(0.5)),
        lambda: d.OneHotCategorical(ones(2)).log_prob(ones(2)),
        lambda: d.Binomial(3, t(0.5)).log_prob(t(4.0)),
        lambda: d.Multinomial(3, ones(2)).log_prob(t([4.0, 0.0])),
        lambda: d.Poisson(1.0).log_prob(t(0.5)),
        lambda: d.Pareto(1.0, 1.0).log_prob(t(0.5)),
        lambda: d.HalfNormal(1.0).log_prob(t(-1.0)),
        lambda: d.LogNormal(0.0, 1.0).log_prob(t(-1.0)),
        lambda: d.MultivariateNormal(torch.zeros(2), torch.eye(2)).log_prob(torch.zeros(3)),
        lambda: d.LKJCholesky(3).log_prob(2 * torch.eye(3)),
        lambda: d.Wishart(t(3.0), torch.eye(2)).log_prob(-torch.eye(2)),
        lambda: d.GeneralizedPareto(0.0, 1.0, t([-0.5])).log_prob(t([5.0])),
        lambda: d.Normal(0.0, 1.0).enumerate_support(),
        lambda: d.Normal(0.0, 1.0).sample(3),
        lambda: d.Normal(0.0, 1.0).expand(3),
        lambda: d.Bernoulli(0.5).rsample(),
        lambda: d.Poisson(1.0).entropy(),
    ):
        log.raises(action)
    loose = d.Normal(0.0, 1.0, validate_args=False)
    log(loose.log_prob(t(float("nan"))), d.Normal(0.0, -1.0, validate_args=False))
    log(d.Bernoulli(0.5, validate_args=False).log_prob(t(0.25)))


@program
def defaults(torch, log):
    d = torch.distributions
    log(d.Distribution._validate_args, d.Normal(0.0, 1.0)._validate_args)
    d.Distribution.set_default_validate_args(False)
    try:
        log(repr(d.Normal(0.0, -1.0)), d.Uniform(0.0, 1.0).log_prob(torch.tensor(2.0)))
        log.raises(lambda: d.Normal(0.0, -1.0, validate_args=True))
    finally:
        d.Distribution.set_default_validate_args(True)
    log.raises(lambda: d.Normal(0.0, -1.0))
    log.raises(lambda: d.Distribution.set_default_validate_args(3))


@program
def own_distributions(torch, log):
    d = torch.distributions

    class Half(d.Distribution):
        arg_constraints = {"a": d.constraints.positive, "b": d.constraints.real}
        support = d.constraints.real

        def __init__(self, a, b):
            self.a, self.b = a, b
            super().__init__(torch.Size([3]))

    one = torch.ones(1)
    x = Half(one, one)
    log(repr(x), x.batch_shape, x.event_shape, x._extended_shape((2,)), repr(x.support))
    for action in (
        lambda: Half(-one, one),
        lambda: Half(1, 3),
        lambda: x.mean,
        lambda: x.mode,
        lambda: x.variance,
        lambda: x.stddev,
        lambda: x.sample(),
        lambda: x.rsample(),
        lambda: x.log_prob(one),
        lambda: x.cdf(one),
        lambda: x.icdf(one),
        lambda: x.entropy(),
        lambda: x.perplexity(),
        lambda: x.expand((2,)),
        lambda: x.enumerate_support(),
    ):
        log.raises(lambda action=action: repr(action()))
    log.warns(lambda: d.Distribution() and None)
    log.warns(lambda: d.Distribution(validate_args=False)._validate_sample(one))
    log.warns(lambda: d.Normal(0.0, 1.0).sample_n(2).shape)

    class Standard(d.Normal):
        def __init__(self, shape):
            super().__init__(torch.zeros(shape), torch.ones(shape))

    log.raises(lambda: Standard((2,)).expand((3, 2)))

    class Renamed(d.Normal):
        pass

    log(repr(Renamed(0.0, 1.0).expand((2,))), type(Renamed(0.0, 1.0).expand((2,))).__name__)


@program
def names(torch, log):
    d = torch.distributions
    log(sorted(d.__all__), sorted(d.constraints.__all__), sorted(d.transforms.__all__))
    log(sorted(d.utils.__all__), sorted(d.kl.__all__), d.constraint_registry.__all__)
    for name in sorted(d.__all__):
        thing = getattr(d, name)
        if isinstance(thing, type):
            log(name, thing.__module__.partition(".")[2] if "Transform" not in name else "")


@program
def gamma_functions(torch, log):
    t = torch.tensor
    a = t([0.5, 2.0, 30.0], requires_grad=True)
    torch.manual_seed(0)
    log(torch._standard_gamma(a), torch._sample_dirichlet(a))
    log(torch._standard_gamma(torch.ones(2, 3).t()), torch._sample_dirichlet(torch.ones(2, 3).t()))
    log(torch._standard_gamma(t([0.0, float("inf"), 1e-5])))
    log(torch._sample_dirichlet(torch.ones(())), torch._sample_dirichlet(torch.ones(3, 0)))
    g = torch.Generator().manual_seed(5)
    log(torch._standard_gamma(a, generator=g), torch._sample_dirichlet(a, generator=g))

    def twice():
        (first,) = torch.autograd.grad(torch._standard_gamma(a).sum(), a, create_graph=True)
        return torch.autograd.grad(first.sum(), a)

    for action in (
        lambda: torch._standard_gamma(t([1, 2])),
        lambda: torch._standard_gamma(t([1.0]).half()),
        lambda: torch._standard_gamma(3.0),
        lambda: torch._standard_gamma_grad(t([1, 2]), t([1, 2])),
        lambda: torch._standard_gamma_grad(torch.ones(3), torch.ones(2)),
        lambda: torch._sample_dirichlet(t([1, 2])),
        lambda: torch._dirichlet_grad(t([1, 2]), t([1, 2]), t([1, 2])),
        lambda: torch._sample_dirichlet(a).sum().backward(),
        twice,
    ):
        log.raises(action)
