"""KL divergences: every pair of families, infinities, dispatch, gradients."""

import warnings

from programs.harness import program


def families(torch, dtype):
    """One or two members of each family that has formulas, with their parameters."""
    d = torch.distributions

    def t(*values):
        return torch.tensor(values, dtype=dtype, requires_grad=True)

    def made(make, *rows):
        params = [t(*row) for row in rows]
        return make(*params), params

    return {
        "Bernoulli": [made(d.Bernoulli, (0.25, 0.5)), made(d.Bernoulli, (0.75, 0.1))],
        "Beta": [made(d.Beta, (0.5, 3.0), (2.0, 0.7)), made(d.Beta, (1.5, 1.0), (1.0, 2.7))],
        "Binomial": [
            made(lambda p: d.Binomial(4, p), (0.25, 0.5)),
            made(lambda p: d.Binomial(4, p), (0.75, 0.1)),
        ],
        "Categorical": [
            made(d.Categorical, (0.25, 0.5, 0.25)),
            made(lambda x: d.Categorical(logits=x), (0.75, -0.1, 0.0)),
        ],
        "OneHotCategorical": [
            made(d.OneHotCategorical, (0.25, 0.5, 0.25)),
            made(d.OneHotCategorical, (0.75, 0.1, 0.15)),
        ],
        "Cauchy": [made(d.Cauchy, (0.5, 3.0), (2.0, 0.7)), made(d.Cauchy, (1.5, 1.0), (1.0, 2.7))],
        "ContinuousBernoulli": [
            made(d.ContinuousBernoulli, (0.25, 0.5)),
            made(d.ContinuousBernoulli, (0.75, 0.1)),
        ],
        "Dirichlet": [
            made(d.Dirichlet, (0.25, 1.5, 4.0)),
            made(d.Dirichlet, (0.75, 2.0, 1.0)),
        ],
        "Exponential": [made(d.Exponential, (0.25, 1.5)), made(d.Exponential, (0.75, 2.0))],
        "Gamma": [made(d.Gamma, (0.5, 3.0), (2.0, 0.7)), made(d.Gamma, (1.5, 1.0), (1.0, 2.7))],
        "Geometric": [made(d.Geometric, (0.25, 0.5)), made(d.Geometric, (0.75, 0.1))],
        "Gumbel": [made(d.Gumbel, (0.5, 3.0), (2.0, 0.7)), made(d.Gumbel, (1.5, 1.0), (1.0, 2.7))],
        "HalfNormal": [made(d.HalfNormal, (0.25, 1.5)), made(d.HalfNormal, (0.75, 2.0))],
        "Laplace": [
            made(d.Laplace, (0.5, 3.0), (2.0, 0.7)),
            made(d.Laplace, (1.5, 1.0), (1.0, 2.7)),
        ],
        "Normal": [made(d.Normal, (0.5, 3.0), (2.0, 0.7)), made(d.Normal, (1.5, 1.0), (1.0, 2.7))],
        "Pareto": [
            made(d.Pareto, (0.5, 3.0), (2.5, 0.75)),
            made(d.Pareto, (0.25, 3.5), (1.0, 2.75)),
        ],
        "Poisson": [made(d.Poisson, (0.25, 1.5)), made(d.Poisson, (0.75, 2.0))],
        "Uniform": [
            made(d.Uniform, (0.25, -1.0), (0.75, 2.0)),
            made(d.Uniform, (0.1, 0.0), (1.5, 2.5)),
        ],
    }


@program
def all_pairs(torch, log):
    kl = torch.distributions.kl_divergence
    known = families(torch, torch.float64)
    for first, (p, _) in known.items():
        for second, (_, q) in known.items():
            if first in ("Categorical", "OneHotCategorical", "Dirichlet") and first != second:
                continue  # no formula, or shapes that do not meet
            params = p[1] + q[1]
            try:
                result = kl(p[0], q[0])
            except NotImplementedError as error:
                log(first, second, error)
                continue
            log(first, second, result)
            if result.requires_grad:
                found = torch.autograd.grad(result.sum(), params, allow_unused=True)
                log([None if g is None else g.float() for g in found])


@program
def infinities(torch, log):
    d = torch.distributions
    kl, t = d.kl_divergence, torch.tensor
    log(kl(d.Bernoulli(t([0.0, 1.0, 0.5])), d.Bernoulli(t([0.0, 0.5, 1.0]))))
    log(kl(d.Categorical(t([0.0, 1.0])), d.Categorical(t([0.5, 0.5]))))
    log(kl(d.Categorical(t([0.5, 0.5])), d.Categorical(t([0.0, 1.0]))))
    log(kl(d.Uniform(t([0.0, 0.0]), 2.0), d.Uniform(t([-1.0, 1.0]), 3.0)))
    log(kl(d.Pareto(t([1.0, 3.0]), 2.0), d.Pareto(2.0, 3.0)))
    log(kl(d.Binomial(4, t(0.5)), d.Binomial(3, t(0.5))))
    log(kl(d.Uniform(t([-1.0, 0.5]), 0.75), d.Beta(2.0, 3.0)))
    log(kl(d.Uniform(t([-1.0, 0.5]), 0.75), d.Exponential(2.0)))
    log(kl(d.Uniform(t([-1.0, 0.5]), 0.75), d.Gamma(2.0, 3.0)))
    log(kl(d.Uniform(t([0.1, 0.5]), 0.75), d.Pareto(0.25, 3.0)))
    log(kl(d.Beta(2.0, 3.0), d.Uniform(t([0.5, -1.0]), 1.5)))
    log(kl(d.Pareto(1.0, t([0.5, 1.5, 2.5])), d.Exponential(2.0)))
    log(kl(d.Pareto(1.0, t([0.5, 1.5, 2.5])), d.Gamma(2.0, 2.0)))
    log(kl(d.Pareto(1.0, t([0.5, 1.5, 2.5])), d.Normal(2.0, 2.0)))


def normals(torch, n):
    d = torch.distributions
    loc = torch.arange(float(n), dtype=torch.float64)
    full = torch.eye(n, dtype=torch.float64) * 2 + 0.5
    factor = torch.linspace(-1, 1, 2 * n, dtype=torch.float64).reshape(n, 2)
    diag = torch.linspace(0.5, 1.5, n, dtype=torch.float64)
    return (
        d.MultivariateNormal(loc, full),
        d.MultivariateNormal(loc * 0.5, scale_tril=torch.tril(full)),
        d.LowRankMultivariateNormal(loc, factor, diag),
        d.LowRankMultivariateNormal(loc - 1, factor * 0.5 + 0.1, diag * 2),
    )


@program
def multivariate(torch, log):
    kl = torch.distributions.kl_divergence
    members = normals(torch, 3)
    for p in members:
        for q in members:
            log(kl(p, q))
            log(kl(p.expand((2,)), q), kl(p, q.expand((2, 1))).flatten())
    for p in members:
        for q in normals(torch, 2):
            log.raises(lambda p=p, q=q: kl(p, q))


@program
def families_of_families(torch, log):
    d = torch.distributions
    kl = d.kl_divergence
    one, two = d.Normal(torch.zeros(3, 2), 1.0), d.Normal(torch.ones(2), 2.0)
    log(kl(d.Independent(one, 1), d.Independent(two.expand((3, 2)), 1)))
    log.raises(lambda: kl(d.Independent(one, 1), d.Independent(one, 2)))
    log(kl(d.LogNormal(0.0, 1.0), d.LogNormal(1.0, 2.0)), kl(d.Chi2(1.0), d.Chi2(2.0)))
    log.raises(lambda: kl(d.LogNormal(0.0, 1.0), d.Weibull(1.0, 2.0)))
    log(kl(d.Weibull(1.0, 2.0), d.Weibull(1.0, 2.0)))
    log.raises(lambda: kl(d.Poisson(1.0), d.Normal(0.0, 2.0)))
    log.raises(lambda: kl(d.StudentT(3.0), d.Normal(0.0, 1.0)))
    log.raises(lambda: kl(d.Binomial(2, torch.tensor(0.5)), d.Binomial(3, torch.tensor(0.5))))
    log.raises(lambda: kl(d.Normal(0.0, 1.0), 3))
    log(kl(d.Normal(torch.zeros(2, 1), 1.0), d.Normal(torch.ones(3), 2.0)).shape)


@program
def bregman(torch, log):
    d = torch.distributions
    from_family = d.kl._KL_REGISTRY[d.ExponentialFamily, d.ExponentialFamily]
    known = families(torch, torch.float64)
    for name in ("Bernoulli", "Beta", "Dirichlet", "Exponential", "Gamma", "Normal", "Poisson"):
        (p, _), (q, _) = known[name]
        log(name, from_family(p, q).float())
        if name != "Poisson":
            log(d.ExponentialFamily.entropy(p).float())
    log.raises(lambda: from_family(known["Normal"][0][0], known["Gamma"][0][0]))
    eye = torch.eye(2, dtype=torch.float64)
    three, four = [d.Wishart(torch.tensor(n, dtype=torch.float64), eye) for n in (3.0, 4.0)]
    log(d.kl_divergence(three, four), d.ExponentialFamily.entropy(three))


@program
def registration(torch, log):
    d = torch.distributions

    class A(d.Normal):
        pass

    class B(d.Normal):
        pass

    a, b = A(0.0, 1.0), B(0.0, 1.0)
    log(d.kl_divergence(a, b))

    @d.register_kl(A, d.Normal)
    def one(p, q):
        return 1

    log(d.kl_divergence(a, b), d.kl_divergence(b, a))

    @d.register_kl(d.Normal, B)
    def two(p, q):
        return 2

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        log(d.kl_divergence(a, b), d.kl_divergence(a, a))
    log([[w.category.__name__, str(w.message)] for w in caught])
    log.raises(lambda: d.register_kl(3, d.Normal))
    pairs = [[p.__name__, q.__name__] for p, q in d.kl._KL_REGISTRY]
    log(sorted([p, q] for p, q in pairs if hasattr(d, p) and hasattr(d, q)))
