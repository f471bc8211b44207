"""Traps: errors that depend on values, which replays must raise as eager calls do."""

from __future__ import annotations

from harness import Trap, numbers, phase, trap, work

import tapegrad as T
from tapegrad import distributions as D
from tapegrad import nn
from tapegrad.nn import functional as F


def eye(i):
    return T.eye(3, dtype=T.float64) + 0.1 * numbers(i, 3, 3)


def bad_matrix(i):
    """A positive definite matrix, and in between one that is not, and one that is singular."""
    good = eye(i) @ eye(i).t()
    return ((good, -good, good * 0)[phase(i)],)


def matrix_trap(name, function):
    def build(compile):
        @compile
        def f(x):
            out = function(x.mul(2.0).div(2.0).add(0.0))
            return out.sin() if isinstance(out, T.Tensor) else [t.cos() for t in out]

        return Trap(f, args=bad_matrix)

    build.__name__ = name
    trap(build)


matrix_trap("cholesky", lambda a: T.linalg.cholesky(a))
matrix_trap("cholesky_old_name", lambda a: T.cholesky(a))
matrix_trap("inv", lambda a: T.linalg.inv(a))
matrix_trap("inverse_method", lambda a: a.inverse())
matrix_trap("solve", lambda a: T.linalg.solve(a, T.ones(3, dtype=T.float64)))
matrix_trap("tensorinv", lambda a: T.linalg.tensorinv(a, ind=1))
matrix_trap("tensorsolve", lambda a: T.linalg.tensorsolve(a, T.ones(3, dtype=T.float64)))
matrix_trap("matrix_power_negative", lambda a: T.linalg.matrix_power(a, -1))
matrix_trap("lu_solve", lambda a: T.linalg.lu_solve(*T.linalg.lu_factor(a), a))
matrix_trap("ldl", lambda a: T.linalg.ldl_factor(a)[0])
matrix_trap("cholesky_inverse", lambda a: T.cholesky_inverse(T.linalg.cholesky(a)))
matrix_trap("cholesky_ex_checked", lambda a: T.linalg.cholesky_ex(a, check_errors=True)[0])
matrix_trap("inv_ex_checked", lambda a: T.linalg.inv_ex(a, check_errors=True)[0])


def not_finite(i):
    good = numbers(i, 3, 3)
    return (good * (1.0, float("nan"), float("inf"))[phase(i)],)


def finite_trap(name, function):
    def build(compile):
        @compile
        def f(x):
            out = function(x.mul(2.0).div(2.0).add(0.0))
            out = out if isinstance(out, T.Tensor) else out[0]
            return out.sin().abs()

        return Trap(f, args=not_finite)

    build.__name__ = name
    trap(build)


finite_trap("eigh_not_finite", lambda a: T.linalg.eigvalsh(a + a.t()))
finite_trap("eig_not_finite", lambda a: T.linalg.eigvals(a).abs())
finite_trap("svd_not_finite", lambda a: T.linalg.svdvals(a))
finite_trap("multinomial_not_finite", lambda a: T.multinomial(a.exp(), 2).double())
finite_trap("histc_not_finite", lambda a: T.histc(a))


@trap
def multinomial_of_negatives(compile):
    @compile
    def f(x):
        return work(x), T.multinomial(x.abs() * (x.sum() * 0 + 1) + x.clamp(max=0) * 2, 2)

    def args(i):
        return (-numbers(i).abs() if phase(i) == 1 else numbers(i).abs(),)

    return Trap(f, args=args)


@trap
def bernoulli_out_of_range(compile):
    @compile
    def f(x):
        return work(x) * T.bernoulli(x.abs())

    return Trap(f, args=lambda i: (numbers(i) * (1 + 5 * phase(i)),))


def classes(i, n=5):
    """Indices below `n`, except in between."""
    return T.tensor([0, 1, n - 1 + phase(i)])


def index_trap(name, function):
    def build(compile):
        @compile
        def f(x, index):
            return function(work(x), index + 0)

        return Trap(f, args=lambda i: (numbers(i, 3, 5), classes(i)))

    build.__name__ = name
    trap(build)


index_trap("one_hot", lambda x, k: x * F.one_hot(k, 5))
index_trap("one_hot_sized_by_value", lambda x, k: (x.sum(), F.one_hot(k)))
index_trap("one_hot_negative", lambda x, k: x * F.one_hot(k - 1 + k * 0, 7)[:, :5])
index_trap("cross_entropy_class", lambda x, k: F.cross_entropy(x, k))
index_trap("nll_class", lambda x, k: F.nll_loss(x.log_softmax(1), k))
index_trap("gather_index", lambda x, k: x.gather(1, k.view(3, 1)))
index_trap("index_select_index", lambda x, k: x.index_select(1, k))
index_trap("advanced_index", lambda x, k: x[:, k])
index_trap("advanced_index_of_negatives", lambda x, k: x[:, -k - 1])
index_trap("take_index", lambda x, k: x.t().take(k * 3))
index_trap("scatter_index", lambda x, k: x.scatter(1, k.view(3, 1), 1.0))
index_trap("scatter_add_index", lambda x, k: x.scatter_add(1, k.view(3, 1), x[:, :1]))
index_trap("index_add_index", lambda x, k: x.index_add(1, k, x[:, :3]))
index_trap("index_copy_index", lambda x, k: x.index_copy(1, k, x[:, :3]))
index_trap("index_fill_index", lambda x, k: x.index_fill(1, k, 2.0))
index_trap("index_put_index", lambda x, k: x.index_put((T.tensor(0), k), x[0, :3]))
index_trap("embedding_index", lambda x, k: F.embedding(k, x.t()))
index_trap("embedding_bag_index", lambda x, k: F.embedding_bag(k.view(1, 3), x.t()))
index_trap("take_along_dim_index", lambda x, k: T.take_along_dim(x, k.view(3, 1), 1))
index_trap("multi_margin_class", lambda x, k: F.multi_margin_loss(x, k))
index_trap("repeat_interleave_counts", lambda x, k: x.repeat_interleave(5 - k, 0))
index_trap("bincount_negative", lambda x, k: (x, T.bincount(5 - k)))
index_trap("split_by_value", lambda x, k: x[:, : int(k[2])])
index_trap("narrow_by_value", lambda x, k: x.narrow(1, int(k[2]), 1))


@trap
def binary_cross_entropy(compile):
    @compile
    def f(x, y):
        return F.binary_cross_entropy(x.mul(2.0).div(2.0) + 0.0, y)

    def args(i):
        return numbers(i).abs() * (1.0, 3.0, -1.0)[phase(i)], numbers(i).abs().round()

    return Trap(f, args=args)


@trap
def max_unpool_index(compile):
    @compile
    def f(x, k):
        return F.max_unpool1d(work(x), k, 2)

    def args(i):
        k = T.tensor([[[0, 2, 5]]]) if phase(i) != 1 else T.tensor([[[0, 2, 9]]])
        return numbers(i, 1, 1, 3), k

    return Trap(f, args=args)


@trap
def ctc_targets(compile):
    @compile
    def f(x, lengths):
        logs = work(x).log_softmax(-1)
        return F.ctc_loss(logs, T.tensor([[1, 2]]), lengths, T.tensor([2]))

    return Trap(f, args=lambda i: (numbers(i, 4, 1, 3), T.tensor([4 + 2 * (phase(i) == 1)])))


@trap
def pack_padded_lengths(compile):
    @compile
    def f(x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(work(x), lengths, batch_first=True)
        return packed.data

    return Trap(f, args=lambda i: (numbers(i, 2, 4, 3), T.tensor([4, 3 - 3 * (phase(i) == 1)])))


def distribution_trap(name, make, args):
    def build(compile):
        @compile
        def f(*given):
            given = [t.mul(2.0).div(2.0) + 0.0 for t in given]
            return make(*given)

        return Trap(f, args=args)

    build.__name__ = name
    trap(build)


def signed(i):
    """Positive numbers, and in between negative ones and NaN."""
    return (numbers(i, 3).abs() + 0.1) * (1.0, -1.0, float("nan"))[phase(i)]


distribution_trap(
    "normal_scale", lambda s: D.Normal(0.0, s).log_prob(T.tensor(0.5)), lambda i: (signed(i),)
)
distribution_trap("normal_sample", lambda s: D.Normal(0.0, s).rsample(), lambda i: (signed(i),))
distribution_trap(
    "normal_value",
    lambda v: D.Normal(0.0, 1.0).log_prob(v),
    lambda i: (numbers(i, 3) * (1.0, float("nan"), 1.0)[phase(i)],),
)
distribution_trap(
    "beta_rates", lambda s: D.Beta(s, s + 1).log_prob(s * 0 + 0.5), lambda i: (signed(i),)
)
distribution_trap(
    "beta_value",
    lambda v: D.Beta(2.0, 3.0).log_prob(v),
    lambda i: (numbers(i, 3).abs() * (1.0, 3.0, -1.0)[phase(i)],),
)
distribution_trap(
    "dirichlet_rates",
    lambda s: D.Dirichlet(s).log_prob(s * 0 + 1 / 3),
    lambda i: (signed(i),),
)
distribution_trap(
    "dirichlet_value",
    lambda v: D.Dirichlet(T.ones(3, dtype=T.float64)).log_prob(v),
    lambda i: (numbers(i, 3).softmax(0) * (1.0, 2.0, -1.0)[phase(i)],),
)
distribution_trap(
    "categorical_probabilities",
    lambda p: D.Categorical(probs=p).entropy(),
    lambda i: (signed(i),),
)
distribution_trap(
    "categorical_value",
    lambda x, k: D.Categorical(logits=x).log_prob(k.long()),
    lambda i: (numbers(i, 3), T.tensor(1.0 + 3 * phase(i))),
)
distribution_trap("gamma_value", lambda v: D.Gamma(2.0, 1.0).log_prob(v), lambda i: (signed(i),))
distribution_trap(
    "poisson_value",
    lambda v: D.Poisson(2.0).log_prob(v.round()),
    lambda i: (numbers(i, 3).abs() * (2.0, -9.0, 2.0)[phase(i)],),
)
distribution_trap(
    "bernoulli_probability",
    lambda p: D.Bernoulli(p).entropy(),
    lambda i: (numbers(i, 3).abs() * (1.0, 5.0, -1.0)[phase(i)],),
)
distribution_trap(
    "uniform_bounds",
    lambda a, b: D.Uniform(a, b).log_prob((a + b) / 2),
    lambda i: (numbers(i, 3) - 3 + 6 * (phase(i) == 1), numbers(i, 3)),
)
distribution_trap(
    "multivariate_normal_matrix",
    lambda a: D.MultivariateNormal(T.zeros(3, dtype=T.float64), a).log_prob(a[0]),
    bad_matrix,
)
distribution_trap("exponential_rate", lambda s: D.Exponential(s).entropy(), lambda i: (signed(i),))


@trap
def assertion_in_the_function(compile):
    @compile
    def f(x):
        out = work(x)
        assert (x > -2).all(), "too small"
        return out

    return Trap(f, args=lambda i: (numbers(i) - 3 * (phase(i) == 1),))


@trap
def exception_in_the_function(compile):
    @compile
    def f(x):
        out = work(x)
        if x.isnan().any():
            raise FloatingPointError("not a number")
        return out

    return Trap(f, args=lambda i: (numbers(i) * (1.0, float("nan"), 1.0)[phase(i)],))


@trap
def exception_caught_inside(compile):
    @compile
    def f(x):
        try:
            return T.linalg.cholesky(x @ x.t() * x.sign().prod()).sin().cos().sum()
        except T.linalg.LinAlgError:
            return work(x).sum()

    return Trap(f, args=lambda i: (eye(i) * (1.0, -1.0, 1.0)[phase(i)],))


@trap
def exception_after_a_write(compile):
    """What was written before the error stays written."""
    t = numbers(1)

    @compile
    def f(x):
        t.add_(1)
        out = T.linalg.inv(x * 1.0)
        t.mul_(2)
        return work(out)

    return Trap(f, args=lambda i: (eye(i) * (1.0, 0.0, 1.0)[phase(i)],), state=lambda: t)


@trap
def exception_after_a_draw(compile):
    @compile
    def f(x):
        noise = T.rand(3)
        return work(T.linalg.inv(x * 1.0)) * noise + T.rand(3)

    return Trap(f, args=lambda i: (eye(i) * (1.0, 0.0, 1.0)[phase(i)],))


@trap
def exception_in_a_step(compile):
    w = nn.Parameter(T.eye(3, dtype=T.float64))
    opt = T.optim.Adam([w], lr=0.1)

    @compile
    def f(x):
        opt.zero_grad()
        loss = work(T.linalg.inv(x * w)).sum()
        loss.backward()
        opt.step()
        return loss.detach()

    return Trap(
        f,
        args=lambda i: (eye(i) * (1.0, 0.0, 1.0)[phase(i)],),
        state=lambda: (w, opt.state_dict()),
    )


@trap
def nonfinite_norm(compile):
    w = nn.Parameter(numbers(1))

    @compile
    def f(x):
        w.grad = None
        (work(x) * w).sum().backward()
        nn.utils.clip_grad_norm_([w], 1.0, error_if_nonfinite=True)
        return w.grad.clone()

    return Trap(f, args=lambda i: (numbers(i) * (1.0, float("inf"), 1.0)[phase(i)],))


@trap
def anomaly_mode(compile):
    w = nn.Parameter(numbers(1))

    @compile
    def f(x):
        w.grad = None
        with T.autograd.set_detect_anomaly(True):
            (work(x) * w.sqrt()).sum().backward()
        return w.grad.clone()

    def before(i):
        w.data = numbers(i).abs() * (1.0, -1.0, 1.0)[phase(i)]

    return Trap(f, before)


@trap
def integer_division_by_zero(compile):
    @compile
    def f(x, n):
        return work(x) * (n * 10 + 4).floor_divide(n - 3)

    return Trap(f, args=lambda i: (numbers(i), T.tensor([4, 5, 3 if phase(i) == 1 else 6])))


@trap
def integer_overflow_of_a_cast(compile):
    @compile
    def f(x, n):
        return work(x) * (n * 100).to(T.int8)

    return Trap(f, args=lambda i: (numbers(i), T.tensor([1, 2, 3 + phase(i)])))


@trap
def item_of_several(compile):
    @compile
    def f(x):
        return work(x) * x[x > 0].item()

    def args(i):
        x = -numbers(i).abs()
        x[0, : 2 if phase(i) == 1 else 1] = 0.5
        return (x,)

    return Trap(f, args=args)


@trap
def truth_of_several(compile):
    @compile
    def f(x):
        return work(x) if (x[:, 0] > 0)[: x.shape[0]] else x

    return Trap(f, args=lambda i: (numbers(i, 2 if phase(i) == 1 else 1, 3),))


@trap
def modified_in_place_since(compile):
    """A value that backward needs was written: the error of eager calls."""

    @compile
    def f(x):
        a = work(x).exp()
        b = a.sin()
        a.mul_(2)
        return b

    return Trap(f)


@trap
def written_leaf(compile):
    w = nn.Parameter(numbers(1))

    @compile
    def f(x):
        out = work(x)
        w.add_(1)
        return out

    return Trap(f, state=lambda: w)


@trap
def shapes_that_do_not_fit(compile):
    @compile
    def f(x):
        return work(x) @ T.ones(3, 2, dtype=T.float64)

    return Trap(f, args=lambda i: (numbers(i, 2, 4 if phase(i) == 1 else 3),))


@trap
def backward_of_nothing(compile):
    @compile
    def f(x):
        out = work(x).sum()
        out.backward()
        return out

    return Trap(f)


@trap
def backward_twice(compile):
    @compile
    def f(x):
        x = x.detach().requires_grad_()
        out = work(x).sum()
        out.backward()
        out.backward()
        return x.grad

    return Trap(f)
