"""Reinforcement learning, physics, optimization inside of optimization."""

from __future__ import annotations

import copy

from .registry import Draw, program, rows


@program
def policy_gradient(torch):
    nn, d = torch.nn, torch.distributions
    net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    returns = []

    def step(x):
        policy = d.Categorical(logits=net(x))
        action = policy.sample()
        reward = torch.where(action == 1, x[:, 0], -x[:, 0])
        opt.zero_grad()
        loss = -(policy.log_prob(action) * (reward - reward.mean())).mean()
        loss = loss - 0.01 * policy.entropy().mean()
        loss.backward()
        opt.step()
        returns.append(reward.sum().item())
        return loss.detach()

    return step, rows(torch, 9, 4), lambda: {"net": net, "opt": opt, "returns": returns}


@program
def deep_q_learning(torch):
    """A target network that is replaced now and then."""
    nn, functional = torch.nn, torch.nn.functional
    net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
    target = copy.deepcopy(net)
    opt = torch.optim.RMSprop(net.parameters(), lr=1e-3)
    seen = {"steps": 0}

    def step(x, action, reward, after, done):
        with torch.no_grad():
            best = target(after).max(1).values
            wanted = reward + 0.9 * best * (1 - done)
        q = net(x).gather(1, action[:, None])[:, 0]
        loss = functional.smooth_l1_loss(q, wanted)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(net.parameters(), 1.0)
        opt.step()
        seen["steps"] += 1
        if seen["steps"] % 10 == 0:
            target.load_state_dict(net.state_dict())
        return loss.detach()

    def batch(i):
        drawn = Draw(torch, i)
        x, after = drawn.normal(6, 4), drawn.normal(6, 4)
        return x, drawn.whole(3, 6), drawn.normal(6), after, drawn.uniform(6).round()

    return step, batch, lambda: {"net": net, "target": target, "opt": opt, "seen": seen}


@program
def actor_critic_with_soft_targets(torch):
    nn, functional = torch.nn, torch.nn.functional
    actor = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1), nn.Tanh())
    critic = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    old = copy.deepcopy(critic)
    opt_a = torch.optim.Adam(actor.parameters(), lr=1e-3)
    opt_c = torch.optim.Adam(critic.parameters(), lr=1e-3)

    def step(x, action, reward):
        with torch.no_grad():
            wanted = reward + 0.95 * old(torch.cat([x, actor(x)], 1))
        loss_c = functional.mse_loss(critic(torch.cat([x, action], 1)), wanted)
        opt_c.zero_grad()
        loss_c.backward()
        opt_c.step()
        for p in critic.parameters():
            p.requires_grad_(False)
        loss_a = -critic(torch.cat([x, actor(x)], 1)).mean()
        opt_a.zero_grad()
        loss_a.backward()
        opt_a.step()
        for p in critic.parameters():
            p.requires_grad_(True)
        with torch.no_grad():
            for a, b in zip(old.parameters(), critic.parameters(), strict=True):
                a.lerp_(b, 0.05)
        return loss_c.detach(), loss_a.detach()

    def batch(i):
        drawn = Draw(torch, i)
        return drawn.normal(5, 3), drawn.normal(5, 1), drawn.normal(5, 1)

    return step, batch, lambda: {"actor": actor, "critic": critic, "old": old, "opt": opt_c}


@program
def proximal_policy(torch):
    """Several passes over one batch in a step, with an early end."""
    nn, d = torch.nn, torch.distributions
    net, value = nn.Linear(3, 2), nn.Linear(3, 1)
    opt = torch.optim.Adam([*net.parameters(), *value.parameters()], lr=1e-2)
    passes = {"count": 0}

    def step(x, action, gain):
        with torch.no_grad():
            before = d.Categorical(logits=net(x)).log_prob(action)
        for _ in range(4):
            passes["count"] += 1
            policy = d.Categorical(logits=net(x))
            ratio = (policy.log_prob(action) - before).exp()
            clipped = ratio.clamp(0.8, 1.2)
            loss = -torch.min(ratio * gain, clipped * gain).mean()
            loss = loss + 0.5 * (value(x)[:, 0] - gain).pow(2).mean()
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 0.5)
            opt.step()
            if (ratio - 1).abs().max() > 0.03:
                break
        return loss.detach()

    def batch(i):
        drawn = Draw(torch, i)
        return drawn.normal(8, 3), drawn.whole(2, 8), drawn.normal(8)

    return step, batch, lambda: {"net": net, "value": value, "opt": opt, "passes": passes}


@program
def physics_informed(torch):
    """A net whose second derivative is given: u'' = -u."""
    nn = torch.nn
    net = nn.Sequential(nn.Linear(1, 12), nn.Tanh(), nn.Linear(12, 1))
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)

    def step(x):
        x = x.detach().requires_grad_()
        u = net(x)
        (du,) = torch.autograd.grad(u.sum(), x, create_graph=True)
        (ddu,) = torch.autograd.grad(du.sum(), x, create_graph=True)
        loss = (ddu + u).pow(2).mean() + (net(torch.zeros(1, 1)) - 1).pow(2).sum()
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach()

    return step, rows(torch, 9, 1), lambda: {"net": net, "opt": opt}


@program
def meta_learning(torch):
    """MAML: a step of gradient descent inside, differentiated through."""
    nn, functional = torch.nn, torch.nn.functional
    w, b = nn.Parameter(torch.randn(3, 1)), nn.Parameter(torch.zeros(1))
    opt = torch.optim.Adam([w, b], lr=1e-2)

    def step(x, y):
        loss = functional.mse_loss(x[:4] @ w + b, y[:4])
        dw, db = torch.autograd.grad(loss, (w, b), create_graph=True)
        after = functional.mse_loss(x[4:] @ (w - 0.1 * dw) + (b - 0.1 * db), y[4:])
        opt.zero_grad()
        after.backward()
        opt.step()
        return after.detach()

    def batch(i):
        drawn = Draw(torch, i)
        return drawn.normal(8, 3), drawn.normal(8, 1)

    return step, batch, lambda: {"w": w, "b": b, "opt": opt}


@program
def sharpness_aware(torch):
    nn = torch.nn
    net = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3))
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

    def step(x, y):
        opt.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        with torch.no_grad():
            norm = torch.stack([p.grad.norm() for p in net.parameters()]).norm()
            olds = [p.data.clone() for p in net.parameters()]
            for p in net.parameters():
                p.add_(p.grad, alpha=0.05 / 1.0)
                p.data = p.data / (1 + 1e-6 * norm)
        opt.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        for p, old in zip(net.parameters(), olds, strict=True):
            p.data = old
        opt.step()
        return loss.detach()

    return step, rows(torch, 8, 5, classes=3), lambda: {"net": net, "opt": opt}


@program
def lbfgs(torch):
    nn = torch.nn
    w = nn.Parameter(torch.randn(4, 1))
    opt = torch.optim.LBFGS([w], lr=0.5, max_iter=4, history_size=5)

    def step(x, y):
        def closure():
            opt.zero_grad()
            loss = (x @ w - y).pow(2).mean() + 0.01 * w.pow(2).sum()
            loss.backward()
            return loss

        return opt.step(closure).detach()

    def batch(i):
        drawn = Draw(torch, i % 3)
        return drawn.normal(8, 4), drawn.normal(8, 1)

    return step, batch, lambda: {"w": w}


@program
def hyper_gradient(torch):
    """A learning rate that is learned by the gradients of two steps."""
    w = torch.randn(4)
    rate = torch.tensor(0.1, requires_grad=True)
    kept = {"w": w}

    def step(x, y):
        w = kept["w"].detach().requires_grad_()
        (g,) = torch.autograd.grad((x @ w - y).pow(2).mean(), w)
        after = (x @ (w - rate * g) - y).pow(2).mean()
        (slope,) = torch.autograd.grad(after, rate)
        with torch.no_grad():
            rate.sub_(0.01 * slope.clamp(-1, 1))
            kept["w"] = w - rate * g
        return after.detach()

    def batch(i):
        drawn = Draw(torch, i)
        return drawn.normal(6, 4), drawn.normal(6)

    return step, batch, lambda: {"rate": rate, "kept": kept}


@program
def neural_ode(torch):
    nn = torch.nn
    field = nn.Sequential(nn.Linear(2, 12), nn.Tanh(), nn.Linear(12, 2))
    opt = torch.optim.Adam(field.parameters(), lr=1e-2)

    def step(x):
        y, h = x, 0.1
        for _ in range(5):
            k1 = field(y)
            k2 = field(y + h / 2 * k1)
            k3 = field(y + h / 2 * k2)
            k4 = field(y + h * k3)
            y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        loss = (y - x.flip(1)).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach()

    return step, rows(torch, 6, 2), lambda: {"field": field, "opt": opt}


@program
def implicit_layer(torch):
    """A fixed point, found without a tape, with a loop that ends by a value."""
    nn = torch.nn
    a = nn.Linear(4, 4)
    opt = torch.optim.SGD(a.parameters(), lr=0.05)
    rounds = []

    def step(x):
        with torch.no_grad():
            z, n = torch.zeros_like(x), 0
            while n < 30:
                after = torch.tanh(0.5 * a(z) + x)
                n += 1
                if (after - z).abs().max() < 1e-3:
                    break
                z = after
        rounds.append(n)
        z = torch.tanh(0.5 * a(z.detach()) + x)
        loss = (z - x.roll(1, 1)).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach()

    return step, rows(torch, 5, 4), lambda: {"a": a, "opt": opt, "rounds": rounds}


@program
def kalman_filter(torch):
    """Small matrices: inverses and Cholesky factors inside of a loop."""
    nn = torch.nn
    a, q = nn.Parameter(torch.eye(2) * 0.9), nn.Parameter(torch.zeros(2))
    opt = torch.optim.Adam([a, q], lr=1e-2)

    def step(ys):
        mean, cov, loss = torch.zeros(2), torch.eye(2), 0.0
        for y in ys:
            mean, cov = a @ mean, a @ cov @ a.t() + torch.diag(q.exp())
            s = cov + 0.5 * torch.eye(2)
            r = y - mean
            factor = torch.linalg.cholesky(s)
            white = torch.linalg.solve_triangular(factor, r[:, None], upper=False)
            loss = loss + 0.5 * white.pow(2).sum() + factor.diagonal().log().sum()
            gain = cov @ torch.linalg.inv(s)
            mean, cov = mean + gain @ r, cov - gain @ cov
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach()

    return step, rows(torch, 4, 2), lambda: {"a": a, "q": q, "opt": opt}


@program
def gaussian_process(torch):
    nn = torch.nn
    log_scale, log_noise = nn.Parameter(torch.zeros(())), nn.Parameter(torch.tensor(-1.0))
    opt = torch.optim.Adam([log_scale, log_noise], lr=0.05)

    def step(x, y):
        k = (-0.5 * (x[:, None] - x[None]).pow(2) / log_scale.exp() ** 2).exp()
        k = k + log_noise.exp() * torch.eye(len(x))
        factor = torch.linalg.cholesky(k)
        alpha = torch.cholesky_solve(y[:, None], factor)
        loss = 0.5 * (y @ alpha[:, 0]) + factor.diagonal().log().sum()
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach()

    def batch(i):
        drawn = Draw(torch, i)
        return drawn.normal(7), drawn.normal(7)

    return step, batch, lambda: {"scale": log_scale, "noise": log_noise, "opt": opt}
