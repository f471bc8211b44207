"""Models of data: autoencoders, adversaries, flows, diffusion, energies."""

from __future__ import annotations

import math

from .registry import Draw, program, rows


@program
def variational_autoencoder(torch):
    nn, functional = torch.nn, torch.nn.functional
    encode = nn.Sequential(nn.Linear(8, 12), nn.Tanh(), nn.Linear(12, 4))
    decode = nn.Sequential(nn.Linear(2, 12), nn.Tanh(), nn.Linear(12, 8))
    opt = torch.optim.Adam([*encode.parameters(), *decode.parameters()], lr=1e-2)

    def step(x):
        opt.zero_grad()
        mean, logvar = encode(x).chunk(2, 1)
        z = mean + torch.randn_like(mean) * (0.5 * logvar).exp()
        kl = -0.5 * (1 + logvar - mean.pow(2) - logvar.exp()).sum(1).mean()
        loss = functional.mse_loss(decode(z), x) + 0.1 * kl
        loss.backward()
        opt.step()
        return loss.detach(), kl.detach()

    return step, rows(torch, 6, 8), lambda: {"encode": encode, "decode": decode, "opt": opt}


@program
def variational_autoencoder_by_distributions(torch):
    nn, d = torch.nn, torch.distributions
    encode, decode = nn.Linear(6, 4), nn.Linear(2, 6)
    opt = torch.optim.Adam([*encode.parameters(), *decode.parameters()], lr=1e-2)

    def step(x):
        opt.zero_grad()
        mean, scale = encode(x).chunk(2, 1)
        q = d.Normal(mean, nn.functional.softplus(scale) + 1e-3)
        p = d.Normal(torch.zeros_like(mean), torch.ones_like(mean))
        loss = d.kl_divergence(q, p).mean() - d.Normal(decode(q.rsample()), 1.0).log_prob(x).mean()
        loss.backward()
        opt.step()
        return loss.detach()

    return step, rows(torch, 5, 6), lambda: {"encode": encode, "decode": decode, "opt": opt}


@program
def gan(torch):
    nn, functional = torch.nn, torch.nn.functional
    g = nn.Sequential(nn.Linear(3, 12), nn.ReLU(), nn.Linear(12, 4))
    d = nn.Sequential(nn.Linear(4, 12), nn.LeakyReLU(0.2), nn.Linear(12, 1))
    opt_g = torch.optim.Adam(g.parameters(), lr=1e-2, betas=(0.5, 0.9))
    opt_d = torch.optim.Adam(d.parameters(), lr=1e-2, betas=(0.5, 0.9))
    ones, zeros = torch.ones(6, 1), torch.zeros(6, 1)
    bce = functional.binary_cross_entropy_with_logits

    def step(x):
        fake = g(torch.randn(6, 3))
        opt_d.zero_grad()
        loss_d = bce(d(x), ones) + bce(d(fake.detach()), zeros)
        loss_d.backward()
        opt_d.step()
        opt_g.zero_grad()
        loss_g = bce(d(fake), ones)
        loss_g.backward()
        opt_g.step()
        return loss_d.detach(), loss_g.detach()

    return step, rows(torch, 6, 4), lambda: {"g": g, "d": d, "opt_g": opt_g, "opt_d": opt_d}


@program
def wasserstein_gan_with_penalty(torch):
    nn = torch.nn
    g, d = nn.Linear(2, 4), nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    opt_g = torch.optim.RMSprop(g.parameters(), lr=1e-3)
    opt_d = torch.optim.RMSprop(d.parameters(), lr=1e-3)

    def step(x):
        with torch.no_grad():
            fake = g(torch.randn(5, 2))
        between = torch.lerp(x, fake, torch.rand(5, 1)).requires_grad_()
        (slope,) = torch.autograd.grad(d(between).sum(), between, create_graph=True)
        penalty = (slope.norm(2, dim=1) - 1).pow(2).mean()
        opt_d.zero_grad()
        loss = d(fake).mean() - d(x).mean() + 10 * penalty
        loss.backward()
        opt_d.step()
        opt_g.zero_grad()
        (-d(g(torch.randn(5, 2))).mean()).backward()
        opt_g.step()
        return loss.detach()

    return step, rows(torch, 5, 4), lambda: {"g": g, "d": d, "opt_d": opt_d}


@program
def diffusion(torch):
    nn = torch.nn
    net = nn.Sequential(nn.Linear(5, 24), nn.SiLU(), nn.Linear(24, 4))
    average = [p.detach().clone() for p in net.parameters()]
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    kept = torch.linspace(0.999, 0.01, 50)

    def step(x):
        t = torch.randint(0, 50, (len(x),))
        noise = torch.randn_like(x)
        a = kept[t].unsqueeze(1)
        noisy = a.sqrt() * x + (1 - a).sqrt() * noise
        opt.zero_grad()
        loss = nn.functional.mse_loss(net(torch.cat([noisy, a], 1)), noise)
        loss.backward()
        opt.step()
        with torch.no_grad():
            for old, p in zip(average, net.parameters(), strict=True):
                old.mul_(0.99).add_(p, alpha=0.01)
        return loss.detach()

    return step, rows(torch, 8, 4), lambda: {"net": net, "opt": opt, "average": average}


@program
def normalizing_flow(torch):
    nn = torch.nn
    layers = nn.ModuleList([nn.Linear(2, 4) for _ in range(3)])
    opt = torch.optim.Adam(layers.parameters(), lr=1e-2)

    def step(x):
        opt.zero_grad()
        logdet = torch.zeros(len(x))
        for k, layer in enumerate(layers):
            a, b = x.chunk(2, 1)
            if k % 2:
                a, b = b, a
            scale, shift = layer(a).chunk(2, 1)
            b = b * scale.tanh().exp() + shift
            logdet = logdet + scale.tanh().sum(1)
            x = torch.cat([a, b], 1)
        loss = (0.5 * x.pow(2).sum(1) + 2 * math.log(2 * math.pi) - logdet).mean()
        loss.backward()
        opt.step()
        return loss.detach()

    return step, rows(torch, 7, 4), lambda: {"layers": layers, "opt": opt}


@program
def energy_model_with_langevin_steps(torch):
    nn = torch.nn
    net = nn.Sequential(nn.Linear(3, 12), nn.Softplus(), nn.Linear(12, 1))
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)

    def step(x):
        z = torch.randn_like(x)
        for _ in range(4):
            z = z.detach().requires_grad_()
            (slope,) = torch.autograd.grad(net(z).sum(), z)
            z = z - 0.1 * slope + 0.05 * torch.randn_like(z)
        opt.zero_grad()
        loss = net(x).mean() - net(z.detach()).mean()
        loss.backward()
        opt.step()
        return loss.detach()

    return step, rows(torch, 6, 3), lambda: {"net": net, "opt": opt}


@program
def denoising_score_matching(torch):
    nn = torch.nn
    net = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 3))
    opt = torch.optim.AdamW(net.parameters(), lr=1e-2, amsgrad=True)

    def step(x, sigma):
        noise = torch.randn_like(x)
        opt.zero_grad()
        loss = ((net(x + sigma * noise) * sigma + noise) ** 2).sum(1).mean()
        loss.backward()
        opt.step()
        return loss.detach()

    def batch(i):
        return Draw(torch, i).normal(6, 3), 0.1 + 0.05 * i

    return step, batch, lambda: {"net": net, "opt": opt}


@program
def vector_quantization(torch):
    nn, functional = torch.nn, torch.nn.functional
    encode, decode, codes = nn.Linear(5, 3), nn.Linear(3, 5), nn.Embedding(6, 3)
    modules = nn.ModuleList([encode, decode, codes])
    opt = torch.optim.Adam(modules.parameters(), lr=1e-2)

    def step(x):
        opt.zero_grad()
        z = encode(x)
        k = torch.cdist(z, codes.weight).argmin(1)
        q = codes(k)
        loss = functional.mse_loss(decode(z + (q - z).detach()), x)
        loss = loss + functional.mse_loss(q, z.detach()) + 0.25 * functional.mse_loss(z, q.detach())
        loss.backward()
        opt.step()
        return loss.detach(), k

    return step, rows(torch, 7, 5), lambda: {"modules": modules, "opt": opt}


@program
def gumbel_softmax(torch):
    nn, functional = torch.nn, torch.nn.functional
    encode, decode = nn.Linear(5, 4), nn.Linear(4, 5)
    opt = torch.optim.SGD([*encode.parameters(), *decode.parameters()], lr=0.1)

    def step(x, tau):
        opt.zero_grad()
        code = functional.gumbel_softmax(encode(x), tau=tau, hard=True)
        loss = functional.mse_loss(decode(code), x)
        loss.backward()
        opt.step()
        return loss.detach()

    def batch(i):
        return Draw(torch, i).normal(6, 5), max(0.5, 2.0 * 0.95**i)

    return step, batch, lambda: {"encode": encode, "decode": decode, "opt": opt}


@program
def mixture_density(torch):
    nn, d = torch.nn, torch.distributions
    net = nn.Linear(3, 9)
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)

    def step(x, y):
        opt.zero_grad()
        logits, mean, scale = net(x).chunk(3, 1)
        parts = d.Normal(mean, scale.exp())
        loss = -d.MixtureSameFamily(d.Categorical(logits=logits), parts).log_prob(y).mean()
        loss.backward()
        opt.step()
        return loss.detach()

    def batch(i):
        drawn = Draw(torch, i)
        return drawn.normal(8, 3), drawn.normal(8)

    return step, batch, lambda: {"net": net, "opt": opt}
