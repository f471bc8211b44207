"""torch.distributions, discrete and relaxed: chances given as probabilities or as logits."""

from programs.harness import program
from programs.prog_distributions import pathwise, study


def both_ways(torch, log, make, probs, logits, value):
    study(torch, log, lambda p: make(probs=p), (probs,), value)
    study(torch, log, lambda p: make(logits=p), (logits,), value)
    for d in (make(probs=torch.tensor(probs)), make(logits=torch.tensor(logits))):
        log(d.probs, d.logits, d.param_shape, repr(d))


@program
def bernoulli(torch, log):
    make = torch.distributions.Bernoulli
    both_ways(torch, log, make, [0.2, 0.5, 0.9], [-1.0, 0.0, 2.0], torch.tensor([1.0, 0.0, 1.0]))
    log(make(0.3).probs, make(logits=1).logits, make(True).probs)
    log(make(torch.tensor([0.0, 1.0])).log_prob(torch.tensor([0.0, 0.0])))


@program
def geometric(torch, log):
    make = torch.distributions.Geometric
    value = torch.tensor([1.0, 0.0, 4.0])
    study(torch, log, lambda p: make(probs=p), ([0.2, 0.5, 0.9],), value)
    study(torch, log, lambda p: make(logits=p), ([-1.0, 0.0, 2.0],), value)
    log(make(torch.ones(1)).log_prob(torch.zeros(1)), make(0.4).sample((5,)))


@program
def binomial(torch, log):
    make = torch.distributions.Binomial
    value = torch.tensor([1.0, 0.0, 4.0])
    both_ways(
        torch, log, lambda **chance: make(4, **chance), [0.2, 0.5, 0.9], [-1.0, 0.0, 2.0], value
    )
    many = make(torch.tensor([3, 10, 200]), torch.tensor([0.3, 0.5, 0.75]))
    log(many.total_count, many.log_prob(value), many.mode, repr(many.support))
    torch.manual_seed(3)
    log(many.sample((5,)), many.expand((2, 3)).sample())
    log.raises(many.entropy)
    log.raises(many.enumerate_support)


@program
def negative_binomial(torch, log):
    make = torch.distributions.NegativeBinomial
    value = torch.tensor([1.0, 0.0, 4.0])
    study(torch, log, lambda n, p: make(n, probs=p), ([3.0, 2.5, 7.0], [0.2, 0.5, 0.9]), value)
    study(torch, log, lambda n, p: make(n, logits=p), ([3.0, 2.5, 7.0], [-1.0, 0.0, 2.0]), value)
    log(make(0.0, torch.tensor(0.3)).log_prob(torch.tensor(0.0)), make(3, torch.tensor(0.1)).mean)


@program
def poisson(torch, log):
    make = torch.distributions.Poisson
    study(torch, log, make, ([0.5, 4.0, 30.0],), torch.tensor([0.0, 3.0, 28.0]))
    log(make(3).rate, make(torch.zeros(1)).log_prob(torch.zeros(1)))


@program
def categorical(torch, log):
    make = torch.distributions.Categorical
    both_ways(torch, log, make, [0.2, 0.5, 0.9], [-1.0, 0.0, 2.0], torch.tensor(2))
    both_ways(
        torch,
        log,
        make,
        [[0.2, 0.5, 0.9], [1.0, 1.0, 0.0]],
        [[-1.0, 0.0, 2.0], [0.0, 0.0, 1.0]],
        torch.tensor([2, 1]),
    )
    d = make(torch.tensor([1.0, 1.0, 0.0]))
    log(d.entropy(), d.log_prob(torch.tensor(2)), d.log_prob(torch.tensor([[0], [1]])))
    log(make(logits=torch.tensor([0.0, -float("inf")])).entropy())
    log(d.sample((2, 3)), d.sample([]), d.expand((2,)).sample((2,)))


@program
def policy_gradient(torch, log):
    logits = torch.zeros(2, 3, requires_grad=True)
    torch.manual_seed(7)
    policy = torch.distributions.Categorical(logits=logits)
    action = policy.sample()
    loss = -(policy.log_prob(action) * torch.tensor([1.0, -2.0])).sum() - policy.entropy().mean()
    loss.backward()
    log(action, loss, logits.grad.clone())


@program
def one_hot_categorical(torch, log):
    d = torch.distributions
    value = torch.tensor([0.0, 0.0, 1.0])
    both_ways(torch, log, d.OneHotCategorical, [0.2, 0.5, 0.9], [-1.0, 0.0, 2.0], value)
    make = d.OneHotCategoricalStraightThrough
    both_ways(torch, log, make, [0.2, 0.5, 0.9], [-1.0, 0.0, 2.0], value)
    pathwise(torch, log, make, ([0.2, 0.5, 0.9],))
    log(d.OneHotCategorical(torch.ones(2, 3)).enumerate_support().shape)


@program
def multinomial(torch, log):
    make = torch.distributions.Multinomial
    value = torch.tensor([1.0, 0.0, 3.0])
    both_ways(
        torch, log, lambda **chance: make(4, **chance), [0.2, 0.5, 0.9], [-1.0, 0.0, 2.0], value
    )
    d = make(5, torch.tensor([[1.0, 1.0], [1.0, 0.0]]))
    log(d.log_prob(torch.tensor([5.0, 0.0])), d.entropy(), d.sample((3,)), d.total_count)


@program
def continuous_bernoulli(torch, log):
    make = torch.distributions.ContinuousBernoulli
    value = torch.tensor([0.3, 0.5, 0.75, 1.0])
    both_ways(torch, log, make, [0.2, 0.5, 0.9, 0.4995], [-1.0, 0.0, 2.0, 0.001], value)
    pathwise(torch, log, make, ([0.2, 0.5, 0.9],))
    log(make(0.0).probs, make(torch.tensor([0.2]), lims=(0.1, 0.9)).mean)


@program
def relaxed_bernoulli(torch, log):
    make = torch.distributions.RelaxedBernoulli
    value = torch.tensor([0.3, 0.75])
    study(torch, log, lambda t, p: make(t, probs=p), (0.7, [0.2, 0.9]), value)
    study(torch, log, lambda t, p: make(t, logits=p), (0.7, [-1.0, 2.0]), value)
    pathwise(torch, log, lambda t, p: make(t, logits=p), (0.7, [-1.0, 2.0]))
    d = make(torch.tensor(0.5), probs=torch.tensor([0.2]))
    log(d.temperature, d.probs, d.logits, repr(d.base_dist), d.rsample((2,)))


@program
def relaxed_one_hot_categorical(torch, log):
    make = torch.distributions.RelaxedOneHotCategorical
    value = torch.tensor([0.25, 0.25, 0.5])
    study(torch, log, lambda t, p: make(t, probs=p), (0.7, [0.2, 0.5, 0.9]), value)
    study(torch, log, lambda t, p: make(t, logits=p), (0.7, [-1.0, 0.0, 2.0]), value)
    pathwise(torch, log, lambda t, p: make(t, logits=p), (0.7, [-1.0, 0.0, 2.0]))
    d = make(torch.tensor(0.5), probs=torch.ones(2, 3))
    log(d.temperature, d.probs, d.logits, repr(d.base_dist), d.batch_shape, d.event_shape)
