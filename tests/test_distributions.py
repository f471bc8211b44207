"""torch.distributions: samples follow the densities, and gradients of samples are right."""

import doctest
import importlib
import math
import pkgutil
import subprocess
import sys
import warnings

import numpy as np
import pytest

import tapegrad as torch

D = torch.distributions
F64 = torch.float64


def t(*values):
    return torch.tensor(values, dtype=F64)


# One member of each family, with one batch entry.
ONE_DIMENSIONAL = [
    D.Normal(t(0.5), t(2.0)),
    D.Laplace(t(0.5), t(2.0)),
    D.Cauchy(t(0.5), t(2.0)),
    D.Uniform(t(-1.0), t(2.0)),
    D.Exponential(t(0.7)),
    D.Gamma(t(0.4), t(2.0)),
    D.Gamma(t(5.0), t(2.0)),
    D.Chi2(t(3.0)),
    D.Beta(t(0.6), t(2.0)),
    D.Beta(t(5.0), t(2.0)),
    D.StudentT(t(7.0), t(0.5), t(2.0)),
    D.FisherSnedecor(t(5.0), t(12.0)),
    D.LogNormal(t(0.2), t(0.5)),
    D.Gumbel(t(0.5), t(2.0)),
    D.Weibull(t(2.0), t(1.5)),
    D.Pareto(t(1.0), t(6.0)),
    D.Kumaraswamy(t(2.0), t(1.5)),
    D.HalfNormal(t(2.0)),
    D.HalfCauchy(t(2.0)),
    D.InverseGamma(t(6.0), t(2.0)),
    D.GeneralizedPareto(t(0.0), t(1.0), t(0.1)),
    D.GeneralizedPareto(t(0.0), t(1.0), t(-0.5)),
    D.ContinuousBernoulli(t(0.2)),
    D.ContinuousBernoulli(t(0.5)),
    D.RelaxedBernoulli(t(0.7), probs=t(0.3)),
    D.MixtureSameFamily(D.Categorical(t(0.3, 0.7)), D.Normal(t(-2.0, 1.0), t(0.5, 1.0))),
    D.TransformedDistribution(D.Uniform(t(0.0), t(1.0)), [D.SigmoidTransform().inv]),
]
COUNTS = [
    D.Bernoulli(t(0.3)),
    D.Geometric(t(0.3)),
    D.Binomial(7, t(0.3)),
    D.Binomial(60, t(0.6)),
    D.NegativeBinomial(t(2.5), t(0.4)),
    D.Poisson(t(3.0)),
    D.Poisson(t(30.0)),
    D.Categorical(t(0.2, 0.5, 0.3)),
]


def name(d):
    return type(d).__name__


def cumulative(d, n=200_001):
    """Points and the integral of the density up to each.

    The points are dense at finite ends of the support and reach far where there are none.
    """
    low, high = support_bounds(d)
    u = np.linspace(0.0, 1.0, n)[1:-1]
    if math.isfinite(low) and math.isfinite(high):
        x = low + (high - low) * u**3 * (10 - 15 * u + 6 * u * u)
        slope = (high - low) * 30 * (u * (1 - u)) ** 2
    elif math.isfinite(low):
        x, slope = low + (u / (1 - u)) ** 3, 3 * u**2 / (1 - u) ** 4
    else:
        s = 2 * u - 1
        x, slope = 3 * s / (1 - s * s), 6 * (1 + s * s) / (1 - s * s) ** 2
    with torch.no_grad():
        density = d.log_prob(torch.from_numpy(x)).exp().numpy()
    weights = np.where(density > 0, density * slope, 0.0) * (u[1] - u[0])
    return x, np.cumsum(weights)


def support_bounds(d):
    s = d.support
    if name(d) == "MixtureSameFamily":
        s = s.base_constraint
    low = float(getattr(s, "lower_bound", -math.inf))
    high = float(getattr(s, "upper_bound", math.inf))
    return low, high


@pytest.mark.parametrize("d", ONE_DIMENSIONAL, ids=name)
def test_density_integrates_to_one_and_matches_cdf(d):
    x, total = cumulative(d)
    assert total[-1] == pytest.approx(1.0, abs=2e-3)
    inside = (total > 1e-4) & (total < 1 - 1e-4)
    with torch.no_grad():
        try:
            cdf = d.cdf(torch.from_numpy(x[inside])).numpy()
        except NotImplementedError:
            return
    assert np.abs(cdf - total[inside]).max() < 3e-3


@pytest.mark.parametrize("d", ONE_DIMENSIONAL, ids=name)
def test_samples_follow_the_density(d):
    torch.manual_seed(11)
    n = 4000
    samples = np.sort(d.sample((n,)).reshape(-1).numpy())
    x, total = cumulative(d)
    expected = np.interp(samples, x, total)
    steps = np.arange(1, n + 1) / n
    # Kolmogorov and Smirnov: beyond 2.2 with a chance of 1e-4
    assert np.abs(expected - steps).max() * math.sqrt(n) < 2.2


@pytest.mark.parametrize("d", [d for d in ONE_DIMENSIONAL if "Cauchy" not in name(d)], ids=name)
def test_moments(d):
    torch.manual_seed(12)
    samples = d.sample((20_000,)).reshape(-1).numpy()
    try:
        mean, variance = float(d.mean), float(d.variance)
    except NotImplementedError:
        return
    assert samples.mean() == pytest.approx(mean, abs=6 * math.sqrt(variance / samples.size))
    assert samples.var() == pytest.approx(variance, rel=0.25)


@pytest.mark.parametrize("d", COUNTS, ids=name)
def test_counts(d):
    torch.manual_seed(13)
    n = 20_000
    samples = d.sample((n,)).reshape(-1).numpy()
    values = np.arange(0, samples.max() + 60)
    if d.has_enumerate_support:
        values = d.enumerate_support(expand=False).reshape(-1).numpy()
    chances = d.log_prob(torch.from_numpy(np.asarray(values, np.float64))).exp().numpy().ravel()
    assert chances.sum() == pytest.approx(1.0, abs=1e-9)
    seen = np.array([(samples == v).mean() for v in values])
    assert (np.abs(seen - chances) < 5 * np.sqrt(chances * (1 - chances) / n) + 2e-4).all()
    if name(d) != "Categorical":
        assert float(d.mean) == pytest.approx((values * chances).sum(), rel=1e-9)
        second = (values**2 * chances).sum()
        assert float(d.variance) == pytest.approx(second - float(d.mean) ** 2, rel=1e-7)


@pytest.mark.parametrize("d", ONE_DIMENSIONAL + COUNTS, ids=name)
def test_entropy_is_the_mean_of_minus_log_prob(d):
    try:
        entropy = float(d.entropy())
    except NotImplementedError:
        return
    torch.manual_seed(14)
    scores = -d.log_prob(d.sample((20_000,))).numpy()
    error = 6 * scores.std() / math.sqrt(scores.size) + 1e-9
    assert scores.mean() == pytest.approx(entropy, abs=error)


VECTORS = [
    D.Dirichlet(t(0.6, 2.0, 3.0)),
    D.MultivariateNormal(t(0.5, -1.0), torch.tensor([[2.0, 0.5], [0.5, 1.0]], dtype=F64)),
    D.LowRankMultivariateNormal(t(0.5, -1.0), torch.tensor([[1.0], [0.5]], dtype=F64), t(1.0, 2.0)),
    D.Multinomial(5, t(0.2, 0.5, 0.3)),
    D.OneHotCategorical(t(0.2, 0.5, 0.3)),
    D.Wishart(torch.tensor(5.0, dtype=F64), torch.tensor([[2.0, 0.5], [0.5, 1.0]], dtype=F64)),
]


@pytest.mark.filterwarnings("ignore:Singular sample")
@pytest.mark.parametrize("d", VECTORS, ids=name)
def test_vector_moments(d):
    torch.manual_seed(15)
    samples = d.sample((6000,)).numpy()
    spread = np.sqrt(d.variance.numpy() / len(samples))
    assert (np.abs(samples.mean(0) - d.mean.numpy()) < 6 * spread).all()
    assert samples.var(0) == pytest.approx(d.variance.numpy(), rel=0.2)


def test_lkj_rows_have_length_one_and_the_first_correlation_its_distribution():
    torch.manual_seed(16)
    d = D.LKJCholesky(3, torch.tensor(2.0, dtype=F64))
    factors = d.sample((4000,))
    assert d.support.check(factors).all()
    # It is beta(c, c) on [-1, 1] with c = concentration + (dim - 2) / 2. The rows below follow
    # PyTorch's sampler, whose correlations are a little too large.
    correlations = (factors @ factors.mT)[:, 1, 0].numpy()
    c = 2.5
    assert correlations.mean() == pytest.approx(0.0, abs=0.05)
    assert correlations.var() == pytest.approx(1 / (2 * c + 1), rel=0.1)


# dx/da of a standard gamma number x with shape a, worked out with forty digits.
GAMMA = [
    (0.01, 1e-30, 6.85166673319527e-27),
    (0.01, 0.5, 46.67927940515068),
    (0.5, 0.2, 0.7940505663308434),
    (0.5, 4.0, 3.2062683672150203),
    (1.0, 1.0, 1.1735630272247268),
    (3.0, 2.5, 0.9633618288399733),
    (3.0, 9.0, 1.7397554120638796),
    (11.9, 8.0, 0.825976324267279),
    (15.0, 10.0, 0.819935675104765),
    (15.0, 25.0, 1.2912439191739746),
    (200.0, 180.0, 0.9490349251117779),
    (200.0, 230.0, 1.0724010427863757),
    (1e4, 1.01e4, 1.0050001660066192),
]
# dx/da / (1 - x) of a beta(a, b) number x: x, a, b.
BETA = [
    (1e-20, 0.01, 2.0, 4.506160284997992e-17),
    (0.5, 0.1, 0.1, 28.675967810924213),
    (0.3, 0.5, 0.5, 1.3220415512632513),
    (0.75, 3.0, 1.0, 0.2876820724517809),
    (0.97, 12.0, 0.5, 0.08376993802899461),
    (0.2, 8.0, 30.0, 0.026414794088481776),
    (0.35, 8.0, 30.0, 0.03461489490595826),
    (0.004, 0.5, 200.0, 0.008467258600573008),
    (0.45, 40.0, 60.0, 0.010681372713965711),
    (0.3, 40.0, 60.0, 0.008693306975840252),
    (0.5, 1000.0, 1000.0, 0.0005001666999952333),
]


def test_gamma_derivative_has_all_digits():
    a, x, expected = (torch.tensor(column, dtype=F64) for column in zip(*GAMMA, strict=True))
    found = torch._standard_gamma_grad(a, x).numpy()
    assert found == pytest.approx(expected.numpy(), rel=1e-12)
    single = torch._standard_gamma_grad(a.float(), x.float())
    assert single.dtype == torch.float32
    assert single.numpy() == pytest.approx(expected.numpy(), rel=1e-5)


def test_dirichlet_derivative_has_all_digits():
    x, a, b, expected = (torch.tensor(column, dtype=F64) for column in zip(*BETA, strict=True))
    found = torch._dirichlet_grad(x, a, a + b).numpy()
    assert found == pytest.approx(expected.numpy(), rel=1e-10)


@pytest.mark.parametrize("shape", [0.1, 0.7, 2.0, 9.0, 40.0, 500.0])
def test_gamma_samples_move_along_their_quantiles(shape):
    """Where a sample goes when the shape changes, its cumulative probability stays."""
    torch.manual_seed(17)
    a = torch.full((50,), shape, dtype=F64, requires_grad=True)
    x = torch._standard_gamma(a)
    (slope,) = torch.autograd.grad(x.sum(), a)
    x, h = x.detach(), shape * 1e-4
    with torch.no_grad():
        before = torch.special.gammainc(a - h, x - h * slope)
        after = torch.special.gammainc(a + h, x + h * slope)
        moved = torch.special.gammainc(a + h, x) - torch.special.gammainc(a - h, x)
    assert ((after - before).abs() < 1e-4 * moved.abs() + 1e-12).all()


def test_pathwise_gradients_of_means():
    """The mean of the gradients of samples is the gradient of the mean."""
    torch.manual_seed(18)
    n = 20_000
    for make, params in (
        (D.Gamma, (2.5, 1.5)),
        (D.Beta, (2.0, 0.8)),
        (D.StudentT, (9.0, 0.5, 2.0)),
        (D.FisherSnedecor, (5.0, 14.0)),
        (D.InverseGamma, (6.0, 2.0)),
        (D.Weibull, (2.0, 1.5)),
        (D.Kumaraswamy, (2.0, 1.5)),
        (D.ContinuousBernoulli, (0.2,)),
    ):
        leaves = [torch.tensor(p, dtype=F64, requires_grad=True) for p in params]
        d = make(*leaves)
        found = torch.autograd.grad(d.rsample((n,)).mean(), leaves, retain_graph=True)
        expected = torch.autograd.grad(d.mean, leaves, allow_unused=True)
        for got, want in zip(found, expected, strict=True):
            assert float(got) == pytest.approx(0.0 if want is None else float(want), abs=0.06)


def test_dirichlet_gradients_of_means():
    torch.manual_seed(19)
    c = t(0.6, 2.0, 15.0).requires_grad_()
    weights = t(1.0, -2.0, 0.5)
    d = D.Dirichlet(c)
    (found,) = torch.autograd.grad((d.rsample((40_000,)) @ weights).mean(), c)
    (expected,) = torch.autograd.grad(d.mean @ weights, c)
    assert found.numpy() == pytest.approx(expected.numpy(), abs=0.02)


def test_dirichlet_of_one_component_has_no_gradient():
    c = torch.ones(1, requires_grad=True)
    D.Dirichlet(c).rsample().sum().backward()
    assert c.grad.tolist() == [0.0]


def test_divergences_are_means_of_log_ratios():
    torch.manual_seed(20)
    pairs = [(p, q) for p in ONE_DIMENSIONAL for q in ONE_DIMENSIONAL]
    checked = 0
    for p, q in pairs:
        try:
            kl = float(D.kl_divergence(p, q))
        except NotImplementedError:
            continue
        if not math.isfinite(kl):
            continue
        x = p.sample((5000,))
        ratios = (p.log_prob(x) - q.log_prob(x)).numpy()
        assert ratios.mean() == pytest.approx(kl, abs=6 * ratios.std() / math.sqrt(5000) + 1e-6)
        checked += 1
    assert checked > 60


@pytest.mark.parametrize("d", ONE_DIMENSIONAL + COUNTS + VECTORS, ids=name)
def test_expand_keeps_the_densities(d):
    if name(d) == "Wishart":
        value = torch.eye(2, dtype=F64)
    else:
        value = d.sample()
    wide = d.expand((3, *d.batch_shape))
    assert wide.batch_shape == (3, *d.batch_shape)
    assert wide.event_shape == d.event_shape
    assert type(wide) is type(d)
    expected = d.log_prob(value).expand((3, *d.batch_shape)).numpy()
    assert wide.log_prob(value).numpy() == pytest.approx(expected)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert wide.sample((2,)).shape == (2, 3, *d.batch_shape, *d.event_shape)


def test_importing_tapegrad_does_not_import_distributions():
    code = (
        "import sys, tapegrad; "
        "assert 'tapegrad.distributions' not in sys.modules; "
        "tapegrad.distributions.Normal(0.0, 1.0).log_prob(tapegrad.zeros(1)); "
        "assert 'tapegrad.ops.random.gamma' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


MODULES = ["", *[f".{m.name}" for m in pkgutil.iter_modules(D.__path__)]]


@pytest.mark.parametrize("module", MODULES)
def test_examples(module):
    names = {n: v for n, v in vars(torch).items() if not n.startswith("_")}
    for own in ("bool", "int", "float"):
        names.pop(own)
    names["distributions"] = D
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    found = importlib.import_module(f"tapegrad.distributions{module}")
    for test in doctest.DocTestFinder(exclude_empty=True).find(found, extraglobs=names):
        torch.manual_seed(0)
        runner.run(test)
    assert runner.failures == 0
