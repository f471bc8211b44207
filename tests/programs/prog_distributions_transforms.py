"""Transforms, constraints, the registries between them, and the helpers in utils."""

import copy
import pickle

from programs.harness import program


def study(torch, log, t, x):
    """Log a transform at x: value, inverse, change of volume, gradients, shapes, names."""
    log(repr(t), repr(t.domain), repr(t.codomain), t.bijective)
    log.raises(lambda: t.event_dim)
    log.raises(lambda: t.sign)
    x = x.double().requires_grad_()
    y = t(x)
    log(y, torch.autograd.grad(y.sum(), x, allow_unused=True)[0].float())
    z = y.detach().requires_grad_()
    log(t.inv(z), t.domain.check(x), t.codomain.check(y))
    try:
        volume = t.log_abs_det_jacobian(x, t(x))
    except NotImplementedError as error:
        log(error)
    else:
        log(volume, t.inv.log_abs_det_jacobian(y, x))
        if volume.requires_grad:
            log(torch.autograd.grad(volume.sum(), x, allow_unused=True)[0].float())
    log(t.forward_shape(x.shape), t.inverse_shape(y.shape), repr(t.inv), t.inv.inv is t)
    log(t == copy.copy(t), t != copy.copy(t), t == 3, repr(t.with_cache()), t.with_cache(0) is t)


X = (0.5, -0.75, 1.5)


@program
def elementwise(torch, log):
    T = torch.distributions.transforms
    x = torch.tensor(X)
    for t in (T.ExpTransform(), T.SigmoidTransform(), T.SoftplusTransform(), T.TanhTransform()):
        study(torch, log, t, x)
    study(torch, log, T.AbsTransform(), x)
    study(torch, log, T.AffineTransform(1.0, -2.0), x)
    study(torch, log, T.AffineTransform(1.0, 3.0, event_dim=1), x)
    study(torch, log, T.AffineTransform(torch.ones(3), torch.tensor([-1.0, 2.0, 0.5])), x)
    study(torch, log, T.PowerTransform(torch.tensor(2.0, dtype=torch.float64)), x.abs())
    study(torch, log, T.PowerTransform(-0.5), x.abs())
    study(torch, log, T.CumulativeDistributionTransform(torch.distributions.Normal(0.0, 1.0)), x)


@program
def vectors_and_matrices(torch, log):
    T = torch.distributions.transforms
    x = torch.tensor(X)
    study(torch, log, T.SoftmaxTransform(), x)
    study(torch, log, T.StickBreakingTransform(), x)
    study(torch, log, T.StickBreakingTransform(), torch.tensor([X, X[::-1]]))
    study(torch, log, T.CorrCholeskyTransform(), x)
    study(torch, log, T.CorrCholeskyTransform(), torch.linspace(-1, 1, 12).reshape(2, 6))
    m = torch.tensor([[0.5, -0.25], [1.0, 0.75]])
    study(torch, log, T.LowerCholeskyTransform(), m)
    study(torch, log, T.PositiveDefiniteTransform(), m)


@program
def combined(torch, log):
    T = torch.distributions.transforms
    x = torch.tensor(X)
    exp, affine, tanh = T.ExpTransform(), T.AffineTransform(1.0, -2.0), T.TanhTransform()
    study(torch, log, T.ComposeTransform([exp, affine, T.SigmoidTransform()]), x)
    study(torch, log, T.ComposeTransform([affine, T.StickBreakingTransform()]), x)
    study(torch, log, T.ComposeTransform([exp, T.ReshapeTransform((3,), (1, 3))]), x)
    study(torch, log, T.identity_transform, x)
    study(torch, log, T.IndependentTransform(exp, 1), x)
    study(torch, log, T.ReshapeTransform((3,), (1, 3)), x)
    study(torch, log, T.StackTransform([exp, T.identity_transform, tanh]), x)
    study(torch, log, T.CatTransform([exp, tanh], 0, [2, 1]), x)
    log(exp.inv(x.abs()), repr(exp.inv.domain), exp.inv.sign, exp.inv.forward_shape((3,)))
    log(T.CatTransform([exp, tanh], -1, [2, 1]).length)
    log(repr(T.ComposeTransform([T.SoftmaxTransform(), exp]).domain))
    log(repr(T.ComposeTransform([exp, T.LowerCholeskyTransform()]).domain))


@program
def caches_and_copies(torch, log):
    T = torch.distributions.transforms
    x = torch.tensor(X)
    for size in (0, 1):
        t = T.ExpTransform(cache_size=size)
        y = t(x)
        log(t(x) is y, t.inv(y) is x, t.inv.inv is t, t.inv is t.inv)
        again = pickle.loads(pickle.dumps(t))
        log(repr(again), again == t, again._cache_size)
    both = T.ComposeTransform([T.ExpTransform(), T.TanhTransform()], cache_size=1)
    log([p._cache_size for p in both.parts], both.inv(both(x)) is x)
    log(T.ExpTransform() == T.ExpTransform(), T.ExpTransform() == T.TanhTransform())
    log(T.AffineTransform(1, 2.0) == T.AffineTransform(torch.ones(2), 2))
    log(T.AffineTransform(1, 2.0) == T.AffineTransform(1.0, 3))
    log(T.ExpTransform().inv == T.ExpTransform().inv, T.ExpTransform.__hash__)


@program
def refused(torch, log):
    T = torch.distributions.transforms
    x = torch.tensor(X)
    exp = T.ExpTransform()

    class Own(T.Transform):
        def __init__(self, k):
            super().__init__()

    for action in (
        lambda: T.ExpTransform(cache_size=2),
        lambda: T.Transform()(x),
        lambda: T.Transform().inv(x),
        lambda: T.Transform().sign,
        lambda: T.Transform().log_abs_det_jacobian(x, x),
        lambda: T.ReshapeTransform((3,), (2, 2)),
        lambda: T.ReshapeTransform((3,), (1, 3)).forward_shape((2,)),
        lambda: T.ReshapeTransform((3,), (1, 3)).forward_shape(()),
        lambda: T.ReshapeTransform((3,), (1, 3)).inverse_shape((2, 3)),
        lambda: T.CorrCholeskyTransform().forward_shape((4,)),
        lambda: T.CorrCholeskyTransform().forward_shape(()),
        lambda: T.CorrCholeskyTransform().inverse_shape((2, 3)),
        lambda: T.StickBreakingTransform().forward_shape(()),
        lambda: T.SoftmaxTransform().inverse_shape(()),
        lambda: T.IndependentTransform(exp, 2)(x),
        lambda: T.IndependentTransform(exp, 2).inv(x),
        lambda: T.IndependentTransform(exp, -1).domain,
        lambda: T.SoftmaxTransform().inv.sign,
        lambda: T.StackTransform([3]),
        lambda: T.StackTransform([exp])(x),
        lambda: T.StackTransform([exp], 2)(x),
        lambda: T.CatTransform([3]),
        lambda: T.CatTransform([exp], 0, [1, 2]),
        lambda: T.CatTransform([exp], 0, [2])(x),
        lambda: T.CatTransform([exp]).log_abs_det_jacobian(x[:1], x[:2]),
    ):
        log.raises(action)


@program
def transformed(torch, log):
    d = torch.distributions
    loc = torch.tensor([0.5, -1.0], dtype=torch.float64, requires_grad=True)
    scale = torch.tensor([1.0, -2.0], dtype=torch.float64)
    unit = d.Uniform(torch.zeros(2, dtype=torch.float64), torch.ones(2, dtype=torch.float64))
    logistic = d.TransformedDistribution(
        unit, [d.SigmoidTransform().inv, d.AffineTransform(loc, scale)]
    )
    value = torch.tensor([0.25, 1.5], dtype=torch.float64)
    log(repr(logistic), logistic.batch_shape, logistic.event_shape, repr(logistic.support))
    log(logistic.log_prob(value), logistic.cdf(value), logistic.icdf(torch.tensor(0.25)))
    torch.manual_seed(0)
    log(logistic.sample((2,)), logistic.rsample(), logistic.has_rsample)
    wide = logistic.expand((3, 2))
    log(wide.batch_shape, wide.log_prob(value), wide.sample().shape, wide.base_dist.batch_shape)
    vector = d.TransformedDistribution(d.Normal(torch.zeros(3), 1.0), d.StickBreakingTransform())
    log(vector.batch_shape, vector.event_shape, repr(vector.base_dist), repr(vector.support))
    log(vector.log_prob(torch.full((4,), 0.25)), vector.sample((2,)))
    grown = d.TransformedDistribution(d.Normal(0.0, 1.0), d.AffineTransform(torch.zeros(2), 1.0))
    log(grown.batch_shape, grown.sample().shape, repr(grown.base_dist))
    plain = d.TransformedDistribution(d.Normal(0.0, 1.0), [])
    log(repr(plain.support), plain.log_prob(torch.tensor(0.5)), plain.cdf(torch.tensor(0.0)))
    for action in (
        lambda: d.TransformedDistribution(d.Normal(0.0, 1.0), 3),
        lambda: d.TransformedDistribution(d.Normal(0.0, 1.0), [3]),
        lambda: d.TransformedDistribution(d.Normal(0.0, 1.0), d.SoftmaxTransform()),
        lambda: plain.mean,
        lambda: plain.entropy(),
        lambda: vector.cdf(torch.full((4,), 0.25)),
    ):
        log.raises(action)


@program
def flow(torch, log):
    torch.manual_seed(0)
    d = torch.distributions
    loc = torch.zeros(2, requires_grad=True)
    log_scale = torch.zeros(2, requires_grad=True)
    optimizer = torch.optim.SGD([loc, log_scale], lr=0.1)
    data = torch.tensor([[0.5, 2.0], [1.5, 1.0], [1.0, 4.0]])
    for _ in range(5):
        steps = [d.AffineTransform(loc, log_scale.exp()), d.ExpTransform()]
        flow = d.Independent(d.TransformedDistribution(d.Normal(torch.zeros(2), 1.0), steps), 1)
        loss = -flow.log_prob(data).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log(loss.item())
    log(loc.tolist(), log_scale.tolist(), flow.sample((2,)))


@program
def constraints(torch, log):
    C = torch.distributions.constraints
    x = torch.tensor([-1.0, 0.0, 0.5, 1.0, 2.0, float("nan")])
    for c in (
        C.boolean,
        C.real,
        C.positive,
        C.nonnegative,
        C.positive_integer,
        C.nonnegative_integer,
        C.unit_interval,
        C.greater_than(0.5),
        C.greater_than_eq(0.5),
        C.less_than(torch.tensor(0.5)),
        C.interval(0, torch.tensor([3.0])),
        C.half_open_interval(0.0, 1.0),
        C.integer_interval(0, 1),
        C._IntegerLessThan(1),
    ):
        log(repr(c), c.event_dim, c.is_discrete, c.check(x))
    rows = torch.tensor([[0.5, 0.5], [0.5, 0.6], [0.0, 1.0], [-1.0, 2.0], [1.0, 1.0]])
    for c in (C.simplex, C.one_hot, C.real_vector, C.multinomial(1), C.independent(C.positive, 1)):
        log(repr(c), c.event_dim, c.is_discrete, c.check(rows))
    eye = torch.eye(2)
    square = torch.stack([eye, eye * 2, -eye, eye + 0.5, eye + 1, torch.tril(eye + 0.5)])
    for c in (
        C.square,
        C.symmetric,
        C.lower_triangular,
        C.lower_cholesky,
        C.corr_cholesky,
        C.positive_definite,
        C.positive_semidefinite,
    ):
        log(repr(c), c.event_dim, c.is_discrete, c.check(square))
    log(C.square.check(torch.ones(3, 2, 3)), C.symmetric.check(torch.ones(3, 2, 3)))
    cat, stack = C.cat([C.real, C.positive], 0, [1, 2]), C.stack([C.real, C.positive], -1)
    log(repr(cat), cat.event_dim, cat.is_discrete, cat.check(x[:3]))
    log(repr(stack), stack.event_dim, stack.check(x[:2]), C.stack([C.real, C.boolean]).is_discrete)
    mix = C.MixtureSameFamilyConstraint(C.simplex)
    log(repr(mix), mix.event_dim, mix.check(rows))


@program
def dependent_constraints(torch, log):
    d = torch.distributions
    C = d.constraints
    log(repr(C.dependent), repr(C.dependent(event_dim=1)), C.dependent(event_dim=1).event_dim)
    log(C.is_dependent(C.dependent), C.is_dependent(C.real), C.is_dependent(d.Uniform.support))
    log(repr(d.Uniform.support), d.Uniform.support.event_dim, d.Categorical.support.is_discrete)
    for action in (
        lambda: C.dependent.check(1),
        lambda: C.dependent.event_dim,
        lambda: C.dependent.is_discrete,
        lambda: C.dependent_property().event_dim,
        lambda: C.Constraint().check(1),
        lambda: C.independent(3, 1),
        lambda: C.independent(C.real, "a"),
        lambda: C.independent(C.real, -1),
        lambda: C.independent(C.real, 3).check(torch.ones(2)),
        lambda: C.MixtureSameFamilyConstraint(3),
        lambda: C.cat([3]),
        lambda: C.stack([3]),
        lambda: C.cat([C.real], 0, [1, 2]),
        lambda: C.cat([C.real], 2).check(torch.ones(2)),
        lambda: C.stack([C.real], 2).check(torch.ones(2)),
    ):
        log.raises(action)


@program
def registries(torch, log):
    d = torch.distributions
    C = d.constraints
    x = torch.tensor([0.25, -1.0, 0.5])
    for c in (
        C.real,
        C.positive,
        C.nonnegative,
        C.greater_than(2.0),
        C.greater_than_eq(2),
        C.less_than(3.0),
        C.interval(0, 1),
        C.interval(1.0, torch.tensor(2.0)),
        C.unit_interval,
        C.half_open_interval(0.0, 1.0),
        C.real_vector,
        C.simplex,
        C.corr_cholesky,
        C.independent(C.unit_interval, 1),
        C.cat([C.real, C.positive], 0, [1, 2]),
        C.stack([C.real, C.positive, C.unit_interval]),
    ):
        for to in (d.biject_to, d.transform_to):
            t = to(c)
            log(repr(c), repr(t), t(x), c.check(t(x)).all())
    for c in (C.lower_cholesky, C.positive_definite, C.positive_semidefinite):
        log(repr(d.transform_to(c)))
        log.raises(lambda c=c: d.biject_to(c))
    log.raises(lambda: d.biject_to(C.boolean))
    log.raises(lambda: d.biject_to.register(3, 4))
    log.raises(lambda: d.biject_to.register(int, 4))

    class Even(C.Constraint):
        pass

    @d.transform_to.register(Even)
    def to_even(constraint):
        return d.ExpTransform()

    log(repr(d.transform_to(Even())))


@program
def utilities(torch, log):
    u = torch.distributions.utils
    log(u.broadcast_all(1, 2.0), u.broadcast_all(True, 2), u.broadcast_all())
    log(u.broadcast_all(1, torch.tensor([1.0, 2.0]), torch.ones(2, 1, dtype=torch.float64)))
    log.raises(lambda: u.broadcast_all(None, torch.ones(2)))
    log.raises(lambda: u.broadcast_all("a"))
    x = torch.arange(6.0).reshape(2, 3).requires_grad_()
    log(u._sum_rightmost(x, 0), u._sum_rightmost(x, 1), u._sum_rightmost(x, 2))
    p = torch.tensor([0.0, 0.25, 1.0])
    log(u.clamp_probs(p), u.probs_to_logits(p), u.probs_to_logits(p, is_binary=True))
    log(u.clamp_probs(p.double()), u.clamp_probs(p.half()))
    log(u.logits_to_probs(p), u.logits_to_probs(p, is_binary=True))
    log.raises(lambda: u.clamp_probs(torch.tensor([1])))
    torch.manual_seed(0)
    log(u._standard_normal((2, 2), torch.float64, None) + 0, u.euler_constant)
    m = torch.arange(9.0).reshape(3, 3)
    log(u.tril_matrix_to_vec(torch.stack([m, m + 1])))
    for diag in (-2, -1, 0, 1, 2):
        log(u.tril_matrix_to_vec(m, diag))
    for diag in (-2, -1, 0):
        for size in (1, 3, 6):
            log(u.vec_to_tril_matrix(torch.arange(1.0, size + 1).repeat(2, 1), diag))
    log.raises(lambda: u.tril_matrix_to_vec(m, 3))
    log.raises(lambda: u.vec_to_tril_matrix(torch.ones(5)))
    log.raises(lambda: u.vec_to_tril_matrix(torch.ones(3), 1))


@program
def lazy(torch, log):
    u = torch.distributions.utils

    class A:
        calls = 0

        @u.lazy_property
        def b(self):
            "What b is."
            self.calls += 1
            return torch.ones(1, requires_grad=True) * 2

    a = A()
    with torch.no_grad():
        log(a.b.requires_grad)
    log(a.b is a.b, a.calls, A.b.__doc__, isinstance(A.b, property), "b" in vars(a))
    a.b = 5
    log(a.b)
