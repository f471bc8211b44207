"""Training loops in which nothing is wrong, though much of it looks unusual: one function each."""

from __future__ import annotations

import copy

import tapegrad as torch
import tapegrad.nn.functional as F
from tapegrad import nn, optim


def data(n=32, width=4, classes=3):
    x = torch.randn(n, width)
    return x, torch.randint(classes, (n,)), x.sum(dim=1, keepdim=True)


def mlp(*widths, dropout=0.0, norm=False):
    layers = []
    for a, b in zip(widths, widths[1:], strict=False):
        layers += [nn.Linear(a, b), nn.ReLU()]
        layers += [nn.BatchNorm1d(b)] if norm else []
        layers += [nn.Dropout(dropout)] if dropout else []
    return nn.Sequential(*layers, nn.Linear(widths[-1], 3))


def plain():
    x, y, _ = data()
    model = mlp(4, 16)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    for _ in range(30):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


def ways_to_zero():
    x, y, _ = data()
    ways = [
        lambda m, o: o.zero_grad(set_to_none=False),
        lambda m, o: m.zero_grad(),
        lambda m, o: [setattr(p, "grad", None) for p in m.parameters()],
        lambda m, o: [p.grad.zero_() for p in m.parameters() if p.grad is not None],
        lambda m, o: [p.grad.data.zero_() for p in m.parameters() if p.grad is not None],
    ]
    for zero in ways:
        model = mlp(4, 8)
        optimizer = optim.Adam(model.parameters(), lr=1e-3)
        for _ in range(6):
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            zero(model, optimizer)


def accumulated():
    model = mlp(4, 16)
    optimizer = optim.SGD(model.parameters(), lr=0.05)
    for step in range(24):
        x, y, _ = data(8)
        (F.cross_entropy(model(x), y) / 4).backward()
        if step % 4 == 3:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()


def gan():
    generator = nn.Sequential(nn.Linear(2, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 4))
    critic = nn.Sequential(nn.Linear(4, 16), nn.LeakyReLU(0.2), nn.Dropout(0.1), nn.Linear(16, 1))
    first = optim.Adam(generator.parameters(), lr=2e-4)
    second = optim.Adam(critic.parameters(), lr=2e-4)
    criterion = nn.BCEWithLogitsLoss()
    for _ in range(20):
        real = torch.randn(16, 4) + 2
        with torch.no_grad():
            fake = generator(torch.randn(16, 2))
        second.zero_grad()
        loss = criterion(critic(real), torch.ones(16, 1)) + criterion(
            critic(fake), torch.zeros(16, 1)
        )
        loss.backward()
        second.step()
        first.zero_grad()
        criterion(critic(generator(torch.randn(16, 2))), torch.ones(16, 1)).backward()
        first.step()
    with torch.no_grad():
        preview = generator(torch.randn(4, 2))
    assert preview.shape == (4, 4)


def wasserstein():
    generator, critic = nn.Linear(2, 4), nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    first = optim.RMSprop(generator.parameters(), lr=1e-3)
    second = optim.RMSprop(critic.parameters(), lr=1e-3)
    for _ in range(8):
        for _ in range(5):
            real, fake = torch.randn(16, 4) + 1, generator(torch.randn(16, 2)).detach()
            mixed = (real + fake).div(2).requires_grad_()
            (slope,) = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)
            penalty = (slope.norm(dim=1) - 1).square().mean()
            second.zero_grad()
            (critic(fake).mean() - critic(real).mean() + 10 * penalty).backward()
            second.step()
        first.zero_grad()
        (-critic(generator(torch.randn(16, 2))).mean()).backward()
        first.step()


def frozen_body():
    """Fine-tuning: a frozen body in eval mode, a head in train mode."""
    x, y, _ = data()
    body = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU())
    body.requires_grad_(False).eval()
    head = nn.Sequential(nn.Dropout(0.2), nn.Linear(16, 3))
    model = nn.Sequential(body, head)
    optimizer = optim.Adam(head.parameters(), lr=1e-3)
    for _ in range(12):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


def frozen_norms():
    """The whole model learns, but batch norm keeps its statistics."""
    x, y, _ = data()
    model = mlp(4, 16, norm=True)
    optimizer = optim.SGD(model.parameters(), lr=0.01)
    model.train()
    for m in model.modules():
        if isinstance(m, nn.BatchNorm1d):
            m.eval()
    for _ in range(10):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


def lbfgs():
    x, _, y = data()
    model = nn.Linear(4, 1)
    optimizer = optim.LBFGS(model.parameters(), max_iter=5)

    def closure():
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        return loss

    for _ in range(6):
        optimizer.step(closure)


def actor_critic():
    """Rollouts without recording, several updates on each, a value head."""
    policy = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))
    value = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = optim.Adam([*policy.parameters(), *value.parameters()], lr=3e-3)
    for _ in range(5):
        states, actions, old = [], [], []
        with torch.no_grad():
            for _ in range(10):
                state = torch.randn(4)
                choice = torch.distributions.Categorical(logits=policy(state))
                action = choice.sample()
                states.append(state)
                actions.append(action)
                old.append(choice.log_prob(action))
        batch, taken, before = torch.stack(states), torch.stack(actions), torch.stack(old)
        gain = torch.randn(10)
        for _ in range(3):
            choice = torch.distributions.Categorical(logits=policy(batch))
            guess = value(batch).squeeze(-1)
            ratio = (choice.log_prob(taken) - before).exp()
            loss = -(ratio * (gain - guess.detach())).mean() + (gain - guess).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def q_learning():
    network = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
    target = copy.deepcopy(network)
    optimizer = optim.Adam(network.parameters(), lr=1e-3)
    for step in range(20):
        state, following = torch.randn(8, 4), torch.randn(8, 4)
        with torch.no_grad():
            best = target(following).max(1).values
            action = network(state).argmax(1)
        chosen = network(state).gather(1, action.unsqueeze(1)).squeeze(1)
        loss = F.smooth_l1_loss(chosen, 1.0 + 0.9 * best)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 0:
            target.load_state_dict(network.state_dict())


def averaged():
    """Weights averaged over the steps, batch norm statistics made anew."""
    x, y, _ = data()
    model = mlp(4, 16, norm=True)
    mean = optim.swa_utils.AveragedModel(model)
    optimizer = optim.SGD(model.parameters(), lr=0.05)
    for _ in range(10):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        mean.update_parameters(model)
    optim.swa_utils.update_bn([x, x, x, x], mean)


def mean_teacher():
    """A slow copy in train mode gives targets."""
    student = mlp(4, 16, dropout=0.2)
    teacher = copy.deepcopy(student)
    optimizer = optim.Adam(student.parameters(), lr=1e-3)
    for _ in range(10):
        x = torch.randn(16, 4)
        with torch.no_grad():
            wanted = teacher(x).softmax(1)
        loss = F.kl_div(F.log_softmax(student(x), dim=1), wanted, reduction="batchmean")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(teacher.parameters(), student.parameters(), strict=True):
                slow.lerp_(fast, 0.1)


def own_labels():
    """The model labels one view of the data and learns from another."""
    model = mlp(4, 16, dropout=0.2)
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(10):
        x = torch.randn(16, 4)
        with torch.no_grad():
            labels = model(x).argmax(1)
        loss = F.cross_entropy(model(x + 0.1 * torch.randn(16, 4)), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def many_draws():
    """Dropout on purpose: how far do the predictions differ?"""
    x, y, _ = data()
    model = mlp(4, 16, dropout=0.3)
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(6):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    with torch.no_grad():
        draws = torch.stack([model(x) for _ in range(10)])
    assert draws.std(0).max() > 0


def evaluated():
    """train(), eval() and no_grad() where they belong; accuracy of the batch in passing."""
    x, y, _ = data()
    model = mlp(4, 16, dropout=0.3, norm=True)
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    losses, right = [], 0
    for _ in range(3):
        model.train()
        for _ in range(5):
            optimizer.zero_grad()
            scores = model(x)
            loss = F.cross_entropy(scores, y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            with torch.no_grad():
                right += (scores.argmax(1) == y).sum().item()
        model.eval()
        with torch.no_grad():
            for _ in range(4):
                F.cross_entropy(model(x), y).item()


def only_evaluated():
    model = mlp(4, 16, dropout=0.3).eval()
    with torch.no_grad():
        for _ in range(5):
            model(torch.randn(8, 4)).argmax(1)


def rows_unused():
    """An embedding of which a batch uses a few rows, tied to the output."""

    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(50, 8)
            self.middle = nn.Linear(8, 8)
            self.out = nn.Linear(8, 50, bias=False)
            self.out.weight = self.table.weight

        def forward(self, tokens):
            return self.out(torch.relu(self.middle(self.table(tokens))))

    model = Tied()
    optimizer = optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(10):
        tokens = torch.randint(5, (16,))
        optimizer.zero_grad()
        F.cross_entropy(model(tokens), tokens).backward()
        optimizer.step()


def shared_layer():
    """One layer used several times, and a list of modules that is registered too."""

    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)
            self.head = nn.Linear(4, 3)
            self.order = [self.layer, self.layer, self.head]

        def forward(self, x):
            for layer in self.order[:2]:
                x = torch.tanh(layer(x))
            return self.order[2](x)

    x, y, _ = data()
    model = Shared()
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    for _ in range(10):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


def hidden_teacher():
    """A frozen model in a list on purpose: it is to be no part of the state."""

    class Student(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Linear(4, 3)
            self.teacher = [nn.Linear(4, 3).requires_grad_(False)]
            self.activations = [nn.ReLU(), nn.Tanh()]

        def forward(self, x):
            return self.activations[1](self.body(x)), self.teacher[0](x)

    model = Student()
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    for _ in range(10):
        predicted, wanted = model(torch.randn(8, 4))
        optimizer.zero_grad()
        F.mse_loss(predicted, wanted).backward()
        optimizer.step()


def scaled():
    """A GradScaler whose first steps are left out."""
    x, y, _ = data()
    model = mlp(4, 8)
    optimizer = optim.SGD(model.parameters(), lr=0.05)
    scheduler = optim.lr_scheduler.StepLR(optimizer, 5)
    scaler = torch.amp.GradScaler("cpu", init_scale=1e38, backoff_factor=1e-20)
    for _ in range(10):
        optimizer.zero_grad()
        scaler.scale(F.cross_entropy(model(x), y) * 100).backward()
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()


def starts_at_zero():
    """Low-rank adapters: one factor starts at zero, so the other gets no gradient at first."""

    class Adapted(nn.Module):
        def __init__(self):
            super().__init__()
            self.base = nn.Linear(4, 3).requires_grad_(False)
            self.down = nn.Parameter(torch.randn(2, 4) * 0.1)
            self.up = nn.Parameter(torch.zeros(3, 2))

        def forward(self, x):
            return self.base(x) + x @ self.down.T @ self.up.T

    x, y, _ = data()
    model = Adapted()
    optimizer = optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    for _ in range(15):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


def two_tasks():
    """Two heads that take turns."""
    x, y, z = data()
    body = nn.Linear(4, 8)
    heads = nn.ModuleList([nn.Linear(8, 3), nn.Linear(8, 1)])
    optimizer = optim.Adam([*body.parameters(), *heads.parameters()], lr=1e-2)
    for step in range(12):
        optimizer.zero_grad()
        h = torch.relu(body(x))
        loss = F.cross_entropy(heads[0](h), y) if step % 2 else F.mse_loss(heads[1](h), z)
        loss.backward()
        optimizer.step()


def hinge():
    """A margin loss that reaches zero and stays there."""
    x = torch.randn(32, 2)
    y = x[:, 0].sign()
    weight = torch.zeros(2, requires_grad=True)
    optimizer = optim.SGD([weight], lr=5.0)
    for _ in range(60):
        optimizer.zero_grad()
        F.relu(1 - y * (x @ weight)).mean().backward()
        optimizer.step()


def regression():
    """From zero to large weights, with large first steps, until it has converged."""
    x, _, y = data(64)
    weight = torch.zeros(4, 1, requires_grad=True)
    bias = torch.zeros(1, requires_grad=True)
    optimizer = optim.Adam([weight, bias], lr=0.3)
    for _ in range(120):
        optimizer.zero_grad()
        loss = ((x @ weight + bias - 10 * y) ** 2).mean()
        loss.backward()
        optimizer.step()


def warm_up():
    x, y, _ = data()
    model = mlp(4, 16)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    warm = optim.lr_scheduler.LinearLR(optimizer, start_factor=1e-6, total_iters=40)
    for _ in range(30):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        warm.step()


def resumed():
    """A schedule wound forward to where the last run stopped."""
    x, y, _ = data()
    model = mlp(4, 16)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    scheduler = optim.lr_scheduler.StepLR(optimizer, 10)
    for _ in range(7):
        scheduler.step()
    for _ in range(6):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        scheduler.step()


def truncated():
    """Backpropagation through time, cut after every piece."""
    net, head = nn.LSTM(4, 8), nn.Linear(8, 1)
    optimizer = optim.Adam([*net.parameters(), *head.parameters()], lr=1e-3)
    state = None
    for _ in range(10):
        out, state = net(torch.randn(5, 2, 4), state)
        state = tuple(s.detach() for s in state)
        optimizer.zero_grad()
        head(out).square().mean().backward()
        optimizer.step()


def pairs():
    """Columns against rows on purpose."""
    model = nn.Linear(4, 1)
    optimizer = optim.SGD(model.parameters(), lr=0.01)
    thresholds = torch.linspace(-1, 1, 16)
    for _ in range(10):
        scores = model(torch.randn(16, 4)).squeeze(1)
        gaps = scores.unsqueeze(1) - scores
        ranks = (scores[:, None] - thresholds).square().mean()
        loss = F.softplus(gaps).mean() + ranks
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def attention():
    """softmax inside the network, cross_entropy at its end; the last batch has one example."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.query, self.out = nn.Linear(4, 4), nn.Linear(4, 3)

        def forward(self, x):
            weights = torch.softmax(self.query(x) @ x.T, dim=-1)
            return self.out(weights @ x)

    model = Net()
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    for size in [16, 16, 16, 16, 1] * 2:
        x, y, _ = data(size)
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


def checkpointed():
    from tapegrad.utils.checkpoint import checkpoint

    x, y, _ = data()
    body, head = mlp(4, 16, dropout=0.2), nn.Linear(3, 3)
    optimizer = optim.Adam([*body.parameters(), *head.parameters()], lr=1e-3)
    for _ in range(6):
        optimizer.zero_grad()
        h = checkpoint(body, x.clone().requires_grad_(), use_reentrant=True)
        F.cross_entropy(head(h), y).backward()
        optimizer.step()


def by_hand():
    """No optimizer at all."""
    x, _, y = data()
    weight = torch.zeros(4, 1, requires_grad=True)
    for _ in range(20):
        loss = F.mse_loss(x @ weight, y)
        loss.backward()
        with torch.no_grad():
            weight -= 0.1 * weight.grad
        weight.grad = None


def assigned():
    """Gradients from somewhere else than backward."""
    model = nn.Linear(4, 1)
    optimizer = optim.SGD(model.parameters(), lr=0.01)
    for _ in range(10):
        for p in model.parameters():
            p.grad = torch.randn_like(p)
        optimizer.step()


def sharpness_aware():
    """Two backward passes per step, with the weights moved in between."""
    x, y, _ = data()
    model = mlp(4, 16)
    optimizer = optim.SGD(model.parameters(), lr=0.05)
    for _ in range(10):
        F.cross_entropy(model(x), y).backward()
        moves = [p.grad * 0.05 for p in model.parameters()]
        with torch.no_grad():
            for p, move in zip(model.parameters(), moves, strict=True):
                p.add_(move)
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        with torch.no_grad():
            for p, move in zip(model.parameters(), moves, strict=True):
                p.sub_(move)
        optimizer.step()
        optimizer.zero_grad()


def learned_to_learn():
    """An inner step that the outer gradient goes through."""
    weight = torch.randn(4, 1, requires_grad=True)
    rate = torch.tensor(0.1, requires_grad=True)
    optimizer = optim.Adam([weight, rate], lr=1e-2)
    for _ in range(10):
        total = torch.zeros(())
        for _ in range(3):
            x, _, y = data(16)
            (slope,) = torch.autograd.grad(F.mse_loss(x @ weight, y), weight, create_graph=True)
            total = total + F.mse_loss(x @ (weight - rate * slope), y)
        optimizer.zero_grad()
        total.backward()
        optimizer.step()


def attacked():
    """Adversarial examples: gradients for the input, while the model is in eval mode."""
    x, y, _ = data()
    model = mlp(4, 16, dropout=0.2)
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(8):
        model.eval()
        noisy = x.clone().requires_grad_()
        F.cross_entropy(model(noisy), y).backward()
        moved = (noisy + 0.05 * noisy.grad.sign()).detach()
        model.train()
        optimizer.zero_grad()
        F.cross_entropy(model(moved), y).backward()
        optimizer.step()


def collected():
    """Means of the epoch from detached losses, results kept only within the step."""
    x, y, _ = data()
    model = mlp(4, 16)
    optimizer = optim.SGD(model.parameters(), lr=0.05)
    history, total = [], torch.zeros(())
    for _ in range(20):
        parts = [F.cross_entropy(model(x), y) for _ in range(3)]
        loss = torch.stack(parts).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.append(loss.detach())
        total += loss.detach()
    assert len(torch.stack(history)) == 20


def deep():
    """Many layers with residual connections and layer norm, a large learning rate for Adam."""

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.layer = nn.LayerNorm(16), nn.Linear(16, 16)

        def forward(self, x):
            return x + torch.relu(self.layer(self.norm(x)))

    x, y, _ = data(width=16)
    model = nn.Sequential(*[Block() for _ in range(12)], nn.Linear(16, 3))
    optimizer = optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(30):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


def half_precision():
    """Losses so coarse that they stay the same for a while."""
    x, y, _ = data()
    model = mlp(4, 16).half()
    optimizer = optim.SGD(model.parameters(), lr=1e-4)
    for _ in range(15):
        optimizer.zero_grad()
        F.cross_entropy(model(x.half()), y).backward()
        optimizer.step()


def same_batch_accumulated():
    """Ten passes over the same batch before a step, with the same loss each time."""
    x, y, _ = data()
    model = mlp(4, 16)
    optimizer = optim.SGD(model.parameters(), lr=0.05)
    for _ in range(6):
        optimizer.zero_grad()
        for _ in range(10):
            (F.cross_entropy(model(x), y) / 10).backward()
        optimizer.step()


def one_at_a_time():
    """A small policy that sees one state per pass: its few units are often closed together."""
    policy = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2))
    nn.init.constant_(policy[0].bias, -1.0)
    optimizer = optim.SGD(policy.parameters(), lr=1e-3)
    for _ in range(30):
        loss = -torch.distributions.Categorical(logits=policy(0.1 * torch.randn(1, 2))).entropy()
        optimizer.zero_grad()
        (loss.sum() + torch.randn(())).backward()
        optimizer.step()


def handed_in():
    """Gradients from another process, handed to the parameters through backward."""
    model = nn.Linear(4, 3)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    for _ in range(6):
        optimizer.zero_grad()
        shared = list(model.parameters())
        torch.autograd.backward(shared, [torch.randn_like(p) for p in shared])
        optimizer.step()


def complex_numbers():
    weight = torch.randn(4, 1, dtype=torch.complex64, requires_grad=True)
    optimizer = optim.SGD([weight], lr=0.05)
    for _ in range(12):
        x = torch.randn(16, 4, dtype=torch.complex64)
        optimizer.zero_grad()
        ((x @ weight).abs() - 1).square().mean().backward()
        optimizer.step()


def probed():
    """A pass in train mode to learn a shape, and a model that is only looked at."""
    features = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5))
    with torch.no_grad():
        width = features(torch.zeros(2, 4)).shape[1]
    assert width == 8


def staged():
    """First an input is fitted, then the model, each with an optimizer of its own."""
    model = mlp(4, 16)
    image = torch.zeros(1, 4, requires_grad=True)
    first = optim.Adam([image], lr=0.1)
    for _ in range(8):
        first.zero_grad()
        F.cross_entropy(model(image), torch.tensor([1])).backward()
        first.step()
    second = optim.Adam(model.parameters(), lr=1e-3)
    x, y, _ = data()
    for _ in range(8):
        second.zero_grad()
        F.cross_entropy(model(x), y).backward()
        second.step()


LOOPS = [
    value
    for name, value in list(globals().items())
    if callable(value)
    and getattr(value, "__module__", "") == __name__
    and name not in ("data", "mlp")
]
