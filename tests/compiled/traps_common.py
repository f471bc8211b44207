"""Traps: the common ways of training, in which state, modes and memory change hands."""

# ruff: noqa: N801

from __future__ import annotations

import copy

from harness import Trap, numbers, phase, trap

import tapegrad as T
from tapegrad import nn
from tapegrad.nn import functional as F


def network():
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()


def rows(i):
    return (numbers(i, 5, 3),)


@trap
def train_and_eval_inside(compile):
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5)).double()
    opt = T.optim.SGD(net.parameters(), lr=0.1)

    @compile
    def f(x):
        net.train()
        opt.zero_grad()
        loss = net(x).pow(2).sum()
        loss.backward()
        opt.step()
        net.eval()
        with T.no_grad():
            return loss.detach(), net(x)

    return Trap(f, args=rows, state=lambda: (net.state_dict(), net.training))


@trap
def train_inside_eval_outside(compile):
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5)).double()

    @compile
    def f(x):
        net.train()
        return net(x).detach()

    def before(i):
        net.eval()

    return Trap(f, before, args=rows, state=lambda: (net.state_dict(), net.training))


@trap
def eval_between_calls(compile):
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5)).double()

    def before(i):
        net.train(i % 3 != 2)

    return Trap(compile(net), before, args=rows, state=net.state_dict)


@trap
def dropout_rate_changes(compile):
    net = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.1), nn.Tanh(), nn.Linear(4, 4)).double()

    def before(i):
        net[1].p = 0.1 + 0.2 * phase(i)

    return Trap(compile(net), before, args=rows)


@trap
def batch_norm_momentum_changes(compile):
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh()).double()

    def before(i):
        net[1].momentum = (0.1, 0.5, None)[phase(i)]

    return Trap(compile(net), before, args=rows, state=net.state_dict)


@trap
def sam(compile):
    """Sharpness-aware minimization with `p.data =`."""
    net = network()
    opt = T.optim.SGD(net.parameters(), lr=0.1)

    @compile
    def f(x):
        opt.zero_grad()
        net(x).pow(2).sum().backward()
        olds = [p.data for p in net.parameters()]
        for p in net.parameters():
            p.data = p.data + 0.05 * p.grad / (p.grad.norm() + 1e-12)
        opt.zero_grad()
        loss = net(x).pow(2).sum()
        loss.backward()
        for p, old in zip(net.parameters(), olds, strict=True):
            p.data = old
        opt.step()
        return loss.detach()

    return Trap(f, args=rows, state=net.state_dict)


@trap
def moving_average_of_weights(compile):
    net = network()
    average = copy.deepcopy(net)
    opt = T.optim.Adam(net.parameters(), lr=0.1)

    @compile
    def f(x):
        opt.zero_grad()
        loss = net(x).pow(2).sum()
        loss.backward()
        opt.step()
        with T.no_grad():
            for a, p in zip(average.parameters(), net.parameters(), strict=True):
                a.lerp_(p, 0.1)
        return loss.detach()

    return Trap(f, args=rows, state=lambda: (net.state_dict(), average.state_dict()))


@trap
def average_by_data(compile):
    net = network()
    average = copy.deepcopy(net)

    @compile
    def f(x):
        for a, p in zip(average.parameters(), net.parameters(), strict=True):
            a.data.mul_(0.9).add_(p.data, alpha=0.1)
        return average(x).detach()

    return Trap(f, args=rows, state=average.state_dict)


@trap
def target_network_now_and_then(compile):
    net, target = network(), network()
    opt = T.optim.SGD(net.parameters(), lr=0.05)
    calls = [0]

    @compile
    def f(x):
        with T.no_grad():
            wanted = target(x)
        opt.zero_grad()
        loss = F.mse_loss(net(x), wanted + 1)
        loss.backward()
        opt.step()
        calls[0] += 1
        if calls[0] % 3 == 0:
            target.load_state_dict(net.state_dict())
        return loss.detach()

    return Trap(f, args=rows, state=lambda: (net.state_dict(), target.state_dict(), calls))


@trap
def load_state_dict_between_calls(compile):
    net = network()
    kept = copy.deepcopy(net.state_dict())
    opt = T.optim.Adam(net.parameters(), lr=0.1)

    @compile
    def f(x):
        opt.zero_grad()
        loss = net(x).pow(2).sum()
        loss.backward()
        opt.step()
        return loss.detach()

    def before(i):
        if i in (5, 8):
            net.load_state_dict(kept)

    return Trap(f, before, args=rows, state=net.state_dict)


@trap
def load_state_dict_assign(compile):
    net = network()
    kept = copy.deepcopy(net.state_dict())

    @compile
    def f(x):
        return net(x).sin().exp()

    def before(i):
        if i in (5, 8):
            net.load_state_dict({k: v * i for k, v in kept.items()}, assign=True)

    return Trap(f, before, args=rows, state=net.state_dict)


@trap
def optimizer_state_loaded(compile):
    net = network()
    opt = T.optim.Adam(net.parameters(), lr=0.1)
    kept = []

    @compile
    def f(x):
        opt.zero_grad()
        loss = net(x).pow(2).sum()
        loss.backward()
        opt.step()
        return loss.detach()

    def before(i):
        if i == 3:
            kept.append(copy.deepcopy(opt.state_dict()))
        if i in (6, 8):
            opt.load_state_dict(kept[0])

    return Trap(f, before, args=rows, state=lambda: opt.state_dict())


@trap
def clipping(compile):
    net = network()
    opt = T.optim.SGD(net.parameters(), lr=0.5)

    @compile
    def f(x):
        opt.zero_grad()
        loss = net(x).pow(2).sum()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(net.parameters(), 0.1)
        opt.step()
        return loss.detach(), norm

    return Trap(f, args=rows, state=net.state_dict)


@trap
def clipping_that_changes(compile):
    net = network()
    opt = T.optim.SGD(net.parameters(), lr=0.5)
    box = [0.1]

    @compile
    def f(x):
        opt.zero_grad()
        loss = net(x).pow(2).sum()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), box[0])
        opt.step()
        return loss.detach()

    def before(i):
        box[0] = 0.1 * (1 + phase(i))

    return Trap(f, before, args=rows, state=net.state_dict)


@trap
def scheduler_inside(compile):
    net = network()
    opt = T.optim.SGD(net.parameters(), lr=0.5)
    sch = T.optim.lr_scheduler.OneCycleLR(opt, 0.5, total_steps=20)

    @compile
    def f(x):
        opt.zero_grad()
        loss = net(x).pow(2).mean()
        loss.backward()
        opt.step()
        sch.step()
        return loss.detach()

    def state():
        return net.state_dict(), sch.last_epoch, sch.get_last_lr(), opt.param_groups[0]["momentum"]

    return Trap(f, args=rows, state=state)


@trap
def scheduler_on_a_plateau(compile):
    net = network()
    opt = T.optim.SGD(net.parameters(), lr=0.5)
    sch = T.optim.lr_scheduler.ReduceLROnPlateau(opt, patience=0, factor=0.5)

    @compile
    def f(x):
        opt.zero_grad()
        loss = net(x).pow(2).mean()
        loss.backward()
        opt.step()
        sch.step(loss.detach())
        return loss.detach()

    def state():
        return net.state_dict(), opt.param_groups[0]["lr"], sch.num_bad_epochs, float(sch.best)

    return Trap(f, args=rows, state=state)


@trap
def warm_up_by_hand(compile):
    net = network()
    opt = T.optim.SGD(net.parameters(), lr=0.0)

    @compile
    def f(x, i):
        for group in opt.param_groups:
            group["lr"] = 0.01 * min(i + 1, 5)
        opt.zero_grad()
        loss = net(x).pow(2).mean()
        loss.backward()
        opt.step()
        return loss.detach()

    return Trap(
        f,
        args=lambda i: (numbers(i, 5, 3), i),
        state=lambda: (net.state_dict(), opt.param_groups[0]["lr"]),
    )


@trap
def lbfgs(compile):
    w = nn.Parameter(numbers(1, 3))
    opt = T.optim.LBFGS([w], lr=0.1, max_iter=3)

    @compile
    def f(x):
        def closure():
            opt.zero_grad()
            loss = (x @ w).sin().pow(2).sum() + w.pow(2).sum()
            loss.backward()
            return loss

        return opt.step(closure).detach()

    return Trap(f, args=rows, state=lambda: w)


@trap
def closure_given_to_sgd(compile):
    w = nn.Parameter(numbers(1, 3))
    opt = T.optim.SGD([w], lr=0.1)
    calls = [0]

    @compile
    def f(x):
        def closure():
            calls[0] += 1
            opt.zero_grad()
            loss = (x @ w).sin().pow(2).sum()
            loss.backward()
            return loss

        return opt.step(closure).detach()

    return Trap(f, args=rows, state=lambda: (w, calls))


@trap
def accumulation(compile):
    net = network()
    opt = T.optim.SGD(net.parameters(), lr=0.1)

    @compile
    def f(x, i):
        loss = net(x).pow(2).mean() / 2
        loss.backward()
        if i % 2:
            opt.step()
            opt.zero_grad()
        return loss.detach()

    return Trap(f, args=lambda i: (numbers(i, 5, 3), i), state=lambda: list(net.parameters()))


@trap
def autocast(compile):
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    opt = T.optim.SGD(net.parameters(), lr=0.1)

    @compile
    def f(x):
        opt.zero_grad()
        with T.autocast("cpu", dtype=T.bfloat16):
            out = net(x)
        loss = out.float().pow(2).mean()
        loss.backward()
        opt.step()
        return loss.detach()

    # Sums of other orders are other bfloat16 numbers: the state would drift apart.
    return Trap(f, args=lambda i: (numbers(i, 5, 3).float(),))


@trap
def grad_scaler(compile):
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    opt = T.optim.SGD(net.parameters(), lr=0.1)
    scaler = T.amp.GradScaler("cpu", init_scale=8.0, growth_interval=3)

    @compile
    def f(x):
        opt.zero_grad()
        loss = net(x).pow(2).mean()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        return loss.detach()

    def args(i):
        return (numbers(i, 5, 3) * (1.0, float("inf"), 1.0)[phase(i)],)

    return Trap(
        f,
        args=args,
        state=lambda: (net.state_dict(), scaler.get_scale(), scaler.state_dict()),
    )


@trap
def frozen_layers_change(compile):
    net = network()
    opt = T.optim.SGD(net.parameters(), lr=0.1)

    @compile
    def f(x):
        opt.zero_grad()
        loss = net(x).pow(2).mean()
        loss.backward()
        opt.step()
        return loss.detach()

    def before(i):
        net[0].requires_grad_(phase(i) != 1)

    return Trap(f, before, args=rows, state=lambda: list(net.parameters()))


@trap
def requires_grad_inside(compile):
    net, critic = network(), network()
    opt = T.optim.SGD(net.parameters(), lr=0.1)

    @compile
    def f(x):
        critic.requires_grad_(False)
        opt.zero_grad()
        loss = (net(x) * critic(x)).sum()
        loss.backward()
        opt.step()
        critic.requires_grad_(True)
        return loss.detach()

    def state():
        parameters = [*net.parameters(), *critic.parameters()]
        return parameters, [p.requires_grad for p in parameters]

    return Trap(f, args=rows, state=state)


@trap
def parameter_added_to_an_optimizer(compile):
    net = network()
    opt = T.optim.SGD(net[0].parameters(), lr=0.1, momentum=0.9)

    @compile
    def f(x):
        opt.zero_grad()
        loss = net(x).pow(2).mean()
        loss.backward()
        opt.step()
        return loss.detach()

    def before(i):
        if i == 5:
            opt.add_param_group({"params": list(net[2].parameters()), "lr": 0.3})

    return Trap(f, before, args=rows, state=net.state_dict)


@trap
def gan(compile):
    g, d = network(), nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1)).double()
    opt_g = T.optim.Adam(g.parameters(), lr=0.01)
    opt_d = T.optim.Adam(d.parameters(), lr=0.01)

    @compile
    def f(x):
        fake = g(x)
        opt_d.zero_grad()
        loss_d = F.softplus(d(fake.detach())).mean() + F.softplus(-d(x[:, :2])).mean()
        loss_d.backward()
        opt_d.step()
        opt_g.zero_grad()
        loss_g = F.softplus(-d(fake)).mean()
        loss_g.backward()
        opt_g.step()
        return loss_d.detach(), loss_g.detach()

    return Trap(f, args=rows, state=lambda: (g.state_dict(), d.state_dict()))


def left_out(compile, optimizer):
    """Two heads, one of which gets no gradient in some calls: their steps are counted apart."""
    heads = nn.ModuleList([nn.Linear(3, 4), nn.Linear(3, 4)]).double()
    opt = optimizer(heads.parameters(), lr=0.1)

    @compile
    def f(x, which):
        opt.zero_grad()
        loss = sum([heads[i](x).tanh().pow(2).sum() for i in which])
        loss.backward()
        opt.step()
        return loss.detach()

    def args(i):
        return (numbers(i, 5, 3), (0,) if i in (5, 6, 7, 12) else (0, 1))

    return Trap(f, args=args, state=lambda: (heads.state_dict(), opt.state_dict()))


@trap
def adam_that_leaves_parameters_out(compile):
    return left_out(compile, T.optim.Adam)


@trap
def asgd_that_leaves_parameters_out(compile):
    return left_out(compile, T.optim.ASGD)


@trap
def nadam_that_leaves_parameters_out(compile):
    return left_out(compile, T.optim.NAdam)


@trap
def momentum_thrown_away(compile):
    """The step that makes a buffer anew counts fewer writes into it than the next ones."""
    net = network()
    opt = T.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

    @compile
    def f(x):
        opt.zero_grad()
        loss = net(x).pow(2).sum()
        loss.backward()
        opt.step()
        return loss.detach()

    def before(i):
        if i == 6:
            opt.state.pop(net[0].weight)

    return Trap(f, before, rows, lambda: (net.state_dict(), opt.state_dict()))


def several_schedulers(compile, combine):
    net = network()
    opt = T.optim.SGD(net.parameters(), lr=0.1)
    lr = T.optim.lr_scheduler
    inner = [lr.ConstantLR(opt, 0.5, 6), lr.ExponentialLR(opt, 0.95)]
    scheduler = combine(opt, inner)

    @compile
    def f(x):
        opt.zero_grad()
        loss = net(x).pow(2).sum()
        loss.backward()
        opt.step()
        scheduler.step()
        return loss.detach()

    counts = ("last_epoch", "_step_count", "_last_lr")

    def state():
        each = [[getattr(s, name, None) for name in counts] for s in (*inner, scheduler)]
        return opt.state_dict(), each

    return Trap(f, args=rows, state=state)


@trap
def chained_schedulers(compile):
    def combine(opt, inner):
        return T.optim.lr_scheduler.ChainedScheduler(inner)

    return several_schedulers(compile, combine)


@trap
def schedulers_in_a_sequence(compile):
    def combine(opt, inner):
        return T.optim.lr_scheduler.SequentialLR(opt, inner, [6])

    return several_schedulers(compile, combine)


@trap
def schedulers_in_a_sequence_in_a_chain(compile):
    def combine(opt, inner):
        lr = T.optim.lr_scheduler
        third = lr.StepLR(opt, 3)
        return lr.ChainedScheduler([third, lr.SequentialLR(opt, inner, [6])])

    return several_schedulers(compile, combine)


@trap
def warm_up_around_another_scheduler(compile):
    class WarmUp(T.optim.lr_scheduler.LRScheduler):
        def __init__(self, optimizer, steps, then):
            self.steps, self.then = steps, then
            super().__init__(optimizer)

        def get_lr(self):
            if self.last_epoch >= self.steps:
                return self.then.get_last_lr()
            return [base * (self.last_epoch + 1) / self.steps for base in self.base_lrs]

        def step(self, epoch=None):
            if self.last_epoch >= self.steps:
                self.then.step()
            super().step()

    def combine(opt, inner):
        return WarmUp(opt, 4, inner[1])

    return several_schedulers(compile, combine)


def step_in_backward(compile, optimizer, **options):
    """An optimizer for each parameter, known to a hook alone, that steps during the backward."""
    net = network()
    opts = {p: optimizer([p], lr=0.1, **options) for p in net.parameters()}

    def update(p):
        opts[p].step()
        opts[p].zero_grad()

    for p in net.parameters():
        p.register_post_accumulate_grad_hook(update)

    @compile
    def f(x):
        loss = net(x).pow(2).sum()
        loss.backward()
        return loss.detach()

    def before(i):
        if i == 6:
            for each in opts.values():
                each.load_state_dict(each.state_dict())
                each.param_groups[0]["lr"] = 0.03

    def state():
        return net.state_dict(), [each.state_dict() for each in opts.values()]

    return Trap(f, before, rows, state)


@trap
def momentum_in_backward(compile):
    return step_in_backward(compile, T.optim.SGD, momentum=0.9)


@trap
def adam_in_backward(compile):
    return step_in_backward(compile, T.optim.Adam)


@trap
def optimizer_in_a_gradient_hook(compile):
    """A hook of a value inside steps another model, whose optimizer nothing else leads to."""
    net, other = network(), network()
    optimizers = {"other": T.optim.Adam(other.parameters(), lr=0.1)}

    def learn(grad):
        optimizers["other"].zero_grad()
        with T.enable_grad():
            loss = other(grad.detach()[:, :1].expand(-1, 3)).pow(2).sum()
        loss.backward()
        optimizers["other"].step()

    @compile
    def f(x):
        net.zero_grad()
        y = net(x)
        y.register_hook(learn)
        y.pow(2).sum().backward()
        return y.detach()

    def state():
        return list(net.parameters()), other.state_dict(), optimizers["other"].state_dict()

    return Trap(f, args=rows, state=state)
