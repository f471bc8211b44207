"""Other structures and losses: graphs, sets, spectra, complex numbers, experts, ranks."""

from __future__ import annotations

from .registry import Draw, program, rows


@program
def graph_net(torch):
    nn = torch.nn
    lin1, lin2 = nn.Linear(4, 8), nn.Linear(8, 3)
    opt = torch.optim.Adam([*lin1.parameters(), *lin2.parameters()], lr=1e-2)

    def spread(x, source, target):
        out = torch.zeros_like(x).index_add(0, target, x[source])
        degree = torch.zeros(len(x)).index_add(0, target, torch.ones(len(target)))
        return x + out / degree.clamp(min=1)[:, None]

    def step(x, source, target, y):
        opt.zero_grad()
        h = torch.relu(lin1(spread(x, source, target)))
        loss = nn.functional.cross_entropy(lin2(spread(h, source, target)), y)
        loss.backward()
        opt.step()
        return loss.detach()

    def batch(i):
        drawn = Draw(torch, i)
        return drawn.normal(10, 4), drawn.whole(10, 20), drawn.whole(10, 20), drawn.whole(3, 10)

    return step, batch, lambda: {"lin1": lin1, "lin2": lin2, "opt": opt}


@program
def graph_attention(torch):
    nn, functional = torch.nn, torch.nn.functional
    project, attend = nn.Linear(4, 6, bias=False), nn.Linear(12, 1, bias=False)
    opt = torch.optim.Adam([*project.parameters(), *attend.parameters()], lr=1e-2)

    def step(x, edges):
        opt.zero_grad()
        h = project(x)
        n = len(x)
        pairs = torch.cat([h[:, None].expand(n, n, 6), h[None].expand(n, n, 6)], -1)
        scores = functional.leaky_relu(attend(pairs))[..., 0]
        scores = scores.masked_fill(~(edges | torch.eye(n, dtype=torch.bool)), float("-inf"))
        loss = functional.mse_loss(scores.softmax(1) @ h, x.repeat(1, 2)[:, :6])
        loss.backward()
        opt.step()
        return loss.detach()

    def batch(i):
        drawn = Draw(torch, i)
        return drawn.normal(7, 4), drawn.uniform(7, 7) > 0.6

    return step, batch, lambda: {"project": project, "attend": attend, "opt": opt}


@program
def deep_sets(torch):
    nn = torch.nn
    each, whole = nn.Sequential(nn.Linear(3, 8), nn.ReLU()), nn.Linear(16, 1)
    opt = torch.optim.Adadelta([*each.parameters(), *whole.parameters()], lr=1.0)

    def step(x):
        opt.zero_grad()
        h = each(x)
        out = whole(torch.cat([h.mean(1), h.amax(1)], 1))
        loss = nn.functional.huber_loss(out[:, 0], x.sum((1, 2)).cos())
        loss.backward()
        opt.step()
        return loss.detach()

    return step, rows(torch, 4, 5, 3), lambda: {"each": each, "whole": whole, "opt": opt}


@program
def spectral_layer(torch):
    """A Fourier layer with complex weights."""
    nn = torch.nn
    real, imaginary = nn.Parameter(torch.randn(5)), nn.Parameter(torch.randn(5))
    opt = torch.optim.Adam([real, imaginary], lr=1e-2)

    def step(x):
        opt.zero_grad()
        spectrum = torch.fft.rfft(x) * torch.complex(real, imaginary)
        loss = nn.functional.mse_loss(torch.fft.irfft(spectrum, n=8), x.roll(1, -1))
        loss.backward()
        opt.step()
        return loss.detach()

    return step, rows(torch, 4, 8), lambda: {"real": real, "imaginary": imaginary, "opt": opt}


@program
def complex_parameters(torch):
    nn = torch.nn
    w = nn.Parameter(torch.randn(3, 3, dtype=torch.complex128))
    opt = torch.optim.SGD([w], lr=0.05)

    def step(x):
        opt.zero_grad()
        z = torch.complex(x[..., 0].double(), x[..., 1].double())
        out = (z @ w).abs()
        loss = (out - z.abs()).pow(2).mean() + 0.01 * (w * w.conj()).real.sum()
        loss.backward()
        opt.step()
        return loss.detach()

    return step, rows(torch, 5, 3, 2), lambda: {"w": w, "opt": opt}


@program
def spectrogram(torch):
    nn = torch.nn
    net = nn.Linear(9, 4)
    window = torch.hann_window(16)
    opt = torch.optim.SGD(net.parameters(), lr=1e-2)

    def step(x):
        opt.zero_grad()
        s = torch.stft(x, 16, 4, window=window, return_complex=True).abs()
        loss = net(s.transpose(1, 2).log1p()).logsumexp(-1).mean()
        loss.backward()
        opt.step()
        return loss.detach()

    return step, rows(torch, 2, 64), lambda: {"net": net, "opt": opt}


@program
def mixture_of_experts(torch):
    nn = torch.nn
    gate = nn.Linear(6, 4)
    experts = nn.ModuleList([nn.Linear(6, 3) for _ in range(4)])
    opt = torch.optim.Adam([*gate.parameters(), *experts.parameters()], lr=1e-2)
    load = torch.zeros(4)

    def step(x, y):
        opt.zero_grad()
        shares, chosen = gate(x).softmax(1).topk(2, dim=1)
        out = torch.zeros(len(x), 3)
        for k, expert in enumerate(experts):
            weight = (shares * (chosen == k)).sum(1, keepdim=True)
            out = out + weight * expert(x)
        loss = nn.functional.cross_entropy(out, y)
        loss.backward()
        opt.step()
        load.add_(torch.bincount(chosen.flatten(), minlength=4))
        return loss.detach()

    batch = rows(torch, 8, 6, classes=3)
    return step, batch, lambda: {"gate": gate, "experts": experts, "load": load}


@program
def experts_by_masks(torch):
    """Each expert gets the rows that chose it: shapes depend on values."""
    nn = torch.nn
    gate, experts = nn.Linear(5, 3), nn.ModuleList([nn.Linear(5, 2) for _ in range(3)])
    opt = torch.optim.SGD([*gate.parameters(), *experts.parameters()], lr=0.1)

    def step(x):
        opt.zero_grad()
        shares = gate(x).softmax(1)
        chosen = shares.argmax(1)
        out = torch.zeros(len(x), 2)
        for k, expert in enumerate(experts):
            mine = chosen == k
            if mine.any():
                out[mine] = expert(x[mine]) * shares[mine, k : k + 1]
        loss = nn.functional.mse_loss(out, x[:, :2])
        loss.backward()
        opt.step()
        return loss.detach()

    return step, rows(torch, 7, 5), lambda: {"gate": gate, "experts": experts, "opt": opt}


@program
def contrastive(torch):
    nn, functional = torch.nn, torch.nn.functional
    net = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 4))
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

    def step(x):
        views = torch.cat([x + 0.1 * torch.randn_like(x), x + 0.1 * torch.randn_like(x)])
        opt.zero_grad()
        z = functional.normalize(net(views), dim=1)
        scores = z @ z.t() / 0.5
        scores = scores.masked_fill(torch.eye(len(z), dtype=torch.bool), -1e9)
        n = len(x)
        positive = torch.cat([torch.arange(n) + n, torch.arange(n)])
        loss = functional.cross_entropy(scores, positive)
        loss.backward()
        opt.step()
        return loss.detach()

    return step, rows(torch, 5, 6), lambda: {"net": net, "opt": opt}


@program
def momentum_contrast(torch):
    """A queue of keys in a buffer, with a pointer that Python keeps."""
    nn, functional = torch.nn, torch.nn.functional
    net, slow = nn.Linear(6, 4), nn.Linear(6, 4)
    slow.load_state_dict(net.state_dict())
    queue, place = functional.normalize(torch.randn(20, 4), dim=1), {"at": 0}
    opt = torch.optim.SGD(net.parameters(), lr=0.1)

    def step(x):
        with torch.no_grad():
            for a, b in zip(slow.parameters(), net.parameters(), strict=True):
                a.mul_(0.9).add_(b, alpha=0.1)
            k = functional.normalize(slow(x + 0.1), dim=1)
        q = functional.normalize(net(x), dim=1)
        logits = torch.cat([(q * k).sum(1, keepdim=True), q @ queue.t()], 1) / 0.2
        loss = functional.cross_entropy(logits, torch.zeros(len(x), dtype=torch.long))
        opt.zero_grad()
        loss.backward()
        opt.step()
        queue[place["at"] : place["at"] + 5] = k
        place["at"] = (place["at"] + 5) % 20
        return loss.detach()

    state = {"net": net, "slow": slow, "queue": queue, "place": place}
    return step, rows(torch, 5, 6), lambda: state


@program
def triplets(torch):
    nn = torch.nn
    # Without a last bias, which has no gradient but rounding errors.
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3, bias=False))
    criterion = nn.TripletMarginLoss(margin=0.5, swap=True)
    opt = torch.optim.Rprop(net.parameters(), lr=1e-3)

    def step(a, b, c):
        opt.zero_grad()
        loss = criterion(net(a), net(b), net(c))
        loss.backward()
        opt.step()
        return loss.detach()

    def batch(i):
        drawn = Draw(torch, i)
        return drawn.normal(6, 4), drawn.normal(6, 4), drawn.normal(6, 4)

    return step, batch, lambda: {"net": net, "opt": opt}


@program
def quantile_regression(torch):
    nn = torch.nn
    net = nn.Sequential(nn.Linear(3, 10), nn.ReLU(), nn.Linear(10, 3))
    quantiles = torch.tensor([0.1, 0.5, 0.9])
    opt = torch.optim.ASGD(net.parameters(), lr=0.05)

    def step(x, y):
        opt.zero_grad()
        error = y[:, None] - net(x)
        loss = torch.maximum(quantiles * error, (quantiles - 1) * error).mean()
        loss.backward()
        opt.step()
        return loss.detach()

    def batch(i):
        drawn = Draw(torch, i)
        return drawn.normal(9, 3), drawn.normal(9)

    return step, batch, lambda: {"net": net, "opt": opt}


@program
def bagging(torch):
    """Several models at once, each with rows of its own, by vmap."""
    nn, func = torch.nn, torch.func
    nets = [nn.Linear(4, 1) for _ in range(3)]
    weights, buffers = func.stack_module_state(nets)
    weights = {k: v.detach().requires_grad_() for k, v in weights.items()}
    opt = torch.optim.SGD(list(weights.values()), lr=0.1)
    base = nets[0]

    def one(w, x):
        return func.functional_call(base, w, (x,))

    def step(x):
        index = torch.randint(0, len(x), (3, len(x)))
        opt.zero_grad()
        out = func.vmap(one)(weights, x[index])
        loss = (out[..., 0] - x[index].sum(-1).sin()).pow(2).mean()
        loss.backward()
        opt.step()
        return loss.detach()

    return step, rows(torch, 6, 4), lambda: {"weights": weights, "opt": opt}


@program
def matrix_factorization(torch):
    nn = torch.nn
    users, items = nn.Embedding(10, 4), nn.Embedding(12, 4)
    opt = torch.optim.Adam([*users.parameters(), *items.parameters()], lr=1e-2)
    total = {"loss": 0.0, "n": 0}

    def step(u, v, r):
        opt.zero_grad()
        loss = ((users(u) * items(v)).sum(1) - r).pow(2).mean()
        loss = loss + 1e-3 * (users.weight.pow(2).sum() + items.weight.pow(2).sum())
        loss.backward()
        opt.step()
        total["loss"] += loss.item()
        total["n"] += 1
        return total["loss"] / total["n"]

    def batch(i):
        drawn = Draw(torch, i)
        return drawn.whole(10, 8), drawn.whole(12, 8), drawn.uniform(8)

    return step, batch, lambda: {"users": users, "items": items, "total": total}


@program
def ordinal_ranks_by_sorting(torch):
    nn = torch.nn
    net = nn.Linear(4, 1)
    opt = torch.optim.SGD(net.parameters(), lr=0.05)

    def step(x, relevance):
        opt.zero_grad()
        scores = net(x)[:, 0]
        order = relevance.argsort(descending=True, stable=True)
        ranked = scores[order]
        loss = (ranked.flip(0).logcumsumexp(0).flip(0) - ranked).mean()
        loss.backward()
        opt.step()
        return loss.detach(), order

    def batch(i):
        drawn = Draw(torch, i)
        return drawn.normal(7, 4), drawn.uniform(7)

    return step, batch, lambda: {"net": net, "opt": opt}


@program
def hyper_network(torch):
    """A net that makes the weights of another."""
    nn = torch.nn
    maker = nn.Linear(2, 4 * 3 + 3)
    opt = torch.optim.Adam(maker.parameters(), lr=1e-2)

    def step(x, task):
        opt.zero_grad()
        made = maker(task)
        w, b = made[:12].view(3, 4), made[12:]
        loss = nn.functional.mse_loss(nn.functional.linear(x, w, b), x[:, :3] * task.sum())
        loss.backward()
        opt.step()
        return loss.detach()

    def batch(i):
        drawn = Draw(torch, i)
        return drawn.normal(6, 4), drawn.normal(2)

    return step, batch, lambda: {"maker": maker, "opt": opt}


@program
def weight_norm_and_spectral_norm(torch):
    nn = torch.nn
    parametrizations = nn.utils.parametrizations
    net = nn.Sequential(
        parametrizations.weight_norm(nn.Linear(5, 8)),
        nn.Tanh(),
        parametrizations.spectral_norm(nn.Linear(8, 2)),
    )
    opt = torch.optim.SGD(net.parameters(), lr=0.1)

    def step(x, y):
        opt.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        return loss.detach()

    return step, rows(torch, 7, 5, classes=2), lambda: {"net": net, "opt": opt}


@program
def style_transfer(torch):
    """The pixels are the parameters."""
    nn = torch.nn
    features = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3))
    for p in features.parameters():
        p.requires_grad_(False)
    image = nn.Parameter(torch.rand(1, 1, 8, 8))
    opt = torch.optim.Adam([image], lr=0.05)

    def gram(x):
        f = x.flatten(2)
        return f @ f.transpose(1, 2) / f.shape[2]

    def step(style):
        opt.zero_grad()
        a, b = features(image), features(style)
        loss = (gram(a) - gram(b)).pow(2).sum()
        loss = loss + 1e-3 * (image[..., 1:] - image[..., :-1]).abs().sum()
        loss.backward()
        opt.step()
        with torch.no_grad():
            image.clamp_(0, 1)
        return loss.detach()

    return step, rows(torch, 1, 1, 8, 8), lambda: {"image": image, "opt": opt}


@program
def adversarial_examples(torch):
    nn = torch.nn
    net = nn.Sequential(nn.Linear(5, 10), nn.ReLU(), nn.Linear(10, 3))
    opt = torch.optim.SGD(net.parameters(), lr=0.1)

    def step(x, y):
        moved = x.clone().requires_grad_()
        for _ in range(2):
            loss = nn.functional.cross_entropy(net(moved), y)
            (slope,) = torch.autograd.grad(loss, moved)
            with torch.no_grad():
                moved = (moved + 0.1 * slope.sign()).requires_grad_()
        opt.zero_grad()
        loss = nn.functional.cross_entropy(net(moved.detach()), y)
        loss.backward()
        opt.step()
        return loss.detach()

    return step, rows(torch, 7, 5, classes=3), lambda: {"net": net, "opt": opt}
