"""Ways of training: schedules, scaling, checkpoints, hooks, several optimizers, averages."""

from __future__ import annotations

import copy

from .registry import program, rows


def classifier(torch, inputs=6, classes=3):
    nn = torch.nn
    return nn.Sequential(nn.Linear(inputs, 12), nn.ReLU(), nn.Linear(12, classes))


@program
def mixed_precision_with_a_scaler(torch):
    net = classifier(torch)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=10)

    def step(x, y):
        opt.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(opt)
        scaler.update()
        return loss.detach()

    def batch(i):
        x, y = rows(torch, 8, 6, classes=3)(i)
        return (x * float("inf") if i in (12, 13) else x), y

    return step, batch, lambda: {"net": net, "opt": opt, "scale": scaler.get_scale()}


@program
def autocast(torch):
    net = classifier(torch)
    opt = torch.optim.SGD(net.parameters(), lr=0.01)

    def step(x, y):
        opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = net(x)
        loss = torch.nn.functional.cross_entropy(logits.to(x.dtype), y)
        loss.backward()
        opt.step()
        return loss.detach()

    return step, rows(torch, 8, 6, classes=3), lambda: {"net": net, "opt": opt}


@program
def accumulation(torch):
    """Gradients of four calls, then a step of the optimizer."""
    net = classifier(torch)
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)

    def step(x, y, i):
        loss = torch.nn.functional.cross_entropy(net(x), y) / 4
        loss.backward()
        if (i + 1) % 4 == 0:
            opt.step()
            opt.zero_grad()
        return loss.detach()

    plain = rows(torch, 8, 6, classes=3)
    return step, lambda i: (*plain(i), i), lambda: {"net": net, "opt": opt}


@program
def one_cycle(torch):
    net = classifier(torch)
    opt = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    sch = torch.optim.lr_scheduler.OneCycleLR(opt, 0.1, total_steps=60)
    rates = []

    def step(x, y):
        opt.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        sch.step()
        rates.append(opt.param_groups[0]["lr"])
        return loss.detach()

    return step, rows(torch, 8, 6, classes=3), lambda: {"net": net, "opt": opt, "rates": rates}


@program
def warm_up_by_hand(torch):
    net = classifier(torch)
    opt = torch.optim.Adam(net.parameters(), lr=0.0)

    def step(x, y, i):
        for group in opt.param_groups:
            group["lr"] = 1e-2 * min(1.0, (i + 1) / 10)
        opt.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        return loss.item()

    plain = rows(torch, 8, 6, classes=3)
    return step, lambda i: (*plain(i), i), lambda: {"net": net, "opt": opt}


@program
def reduced_on_a_plateau(torch):
    net = classifier(torch)
    opt = torch.optim.SGD(net.parameters(), lr=0.3)
    sch = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, patience=1, factor=0.5)

    def step(x, y):
        opt.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        sch.step(loss.item())
        return loss.detach()

    batch = rows(torch, 8, 6, classes=3)
    return step, batch, lambda: {"net": net, "opt": opt, "bad": sch.num_bad_epochs}


@program
def update_by_hand_with_a_decaying_rate(torch):
    """No optimizer: the rate is read from a scheduler's group."""
    w = torch.randn(6, 3, requires_grad=True)
    opt = torch.optim.SGD([w], lr=0.5)
    sch = torch.optim.lr_scheduler.ExponentialLR(opt, 0.9)

    def step(x, y):
        loss = torch.nn.functional.cross_entropy(x @ w, y)
        (grad,) = torch.autograd.grad(loss, w)
        with torch.no_grad():
            w.sub_(opt.param_groups[0]["lr"] * grad)
        sch.step()
        return loss.detach()

    batch = rows(torch, 8, 6, classes=3)
    return step, batch, lambda: {"w": w, "lr": sch.get_last_lr()}


@program
def checkpointing(torch):
    nn = torch.nn
    blocks = nn.ModuleList([nn.Sequential(nn.Linear(6, 6), nn.Tanh()) for _ in range(3)])
    head = nn.Linear(6, 3)
    opt = torch.optim.Adam([*blocks.parameters(), *head.parameters()], lr=1e-2)
    checkpoint = torch.utils.checkpoint.checkpoint

    def step(x, y):
        opt.zero_grad()
        for block in blocks:
            x = checkpoint(block, x, use_reentrant=False)
        loss = nn.functional.cross_entropy(head(x), y)
        loss.backward()
        opt.step()
        return loss.detach()

    return step, rows(torch, 8, 6, classes=3), lambda: {"blocks": blocks, "head": head, "opt": opt}


@program
def hooks(torch):
    """Forward hooks that keep activations, gradient hooks that scale and count."""
    net = classifier(torch)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    seen = {"mean": [], "count": 0}

    def look(module, args, out):
        seen["mean"].append(out.detach().mean().item())

    def scale(grad):
        seen["count"] += 1
        return grad * 0.5

    net[1].register_forward_hook(look)
    net[0].weight.register_hook(scale)

    def step(x, y):
        opt.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        return loss.detach()

    return step, rows(torch, 8, 6, classes=3), lambda: {"net": net, "opt": opt, "seen": seen}


@program
def early_stopping(torch):
    net = classifier(torch)
    opt = torch.optim.SGD(net.parameters(), lr=0.5)
    best = {"loss": float("inf"), "bad": 0, "state": None}

    def step(x, y):
        if best["bad"] >= 8:
            return best["loss"]
        opt.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        value = loss.item()
        if value < best["loss"]:
            best["loss"], best["bad"] = value, 0
            best["state"] = copy.deepcopy(net.state_dict())
        else:
            best["bad"] += 1
        return value

    return step, rows(torch, 8, 6, classes=3), lambda: {"net": net, "opt": opt, "best": best}


@program
def several_optimizers(torch):
    nn = torch.nn
    body, head = nn.Linear(6, 8), nn.Linear(8, 3)
    opts = [
        torch.optim.SGD(body.parameters(), lr=0.1),
        torch.optim.AdamW(head.parameters(), lr=1e-2),
    ]

    def step(x, y):
        for opt in opts:
            opt.zero_grad()
        loss = nn.functional.cross_entropy(head(torch.relu(body(x))), y)
        loss.backward()
        for opt in opts:
            opt.step()
        return loss.detach()

    state = {"body": body, "head": head, "opts": opts}
    return step, rows(torch, 8, 6, classes=3), lambda: state


@program
def parameter_groups(torch):
    nn = torch.nn
    net = classifier(torch)
    opt = torch.optim.AdamW(
        [
            {"params": [p for p in net.parameters() if p.dim() > 1], "weight_decay": 0.1},
            {"params": [p for p in net.parameters() if p.dim() < 2], "lr": 3e-2},
        ],
        lr=1e-2,
    )
    sch = torch.optim.lr_scheduler.LambdaLR(opt, [lambda e: 0.9**e, lambda e: 1 / (1 + e)])

    def step(x, y):
        opt.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        sch.step()
        return loss.detach()

    return step, rows(torch, 8, 6, classes=3), lambda: {"net": net, "opt": opt}


@program
def gradual_unfreezing(torch):
    nn = torch.nn
    net = classifier(torch)
    net[0].requires_grad_(False)
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

    def step(x, y, i):
        if i == 15:
            net[0].requires_grad_(True)
        opt.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        return loss.detach()

    plain = rows(torch, 8, 6, classes=3)
    return step, lambda i: (*plain(i), i), lambda: {"net": net, "opt": opt}


@program
def averaged_weights(torch):
    net = classifier(torch)
    opt = torch.optim.SGD(net.parameters(), lr=0.2)
    averaged = torch.optim.swa_utils.AveragedModel(net)

    def step(x, y):
        opt.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        averaged.update_parameters(net)
        return loss.detach()

    return step, rows(torch, 8, 6, classes=3), lambda: {"net": net, "averaged": averaged}


@program
def curriculum(torch):
    """Sequences that grow, and noise that shrinks, by the number of the step."""
    nn = torch.nn
    net, head = nn.GRU(2, 6, batch_first=True), nn.Linear(6, 2)
    opt = torch.optim.Adam([*net.parameters(), *head.parameters()], lr=1e-2)

    def step(x, i):
        x = x[:, : 2 + i // 10]
        x = x + torch.randn_like(x) * (0.5 / (1 + i))
        opt.zero_grad()
        out, _ = net(x)
        loss = nn.functional.mse_loss(head(out), x)
        loss.backward()
        opt.step()
        return loss.detach()

    return step, lambda i: (*rows(torch, 3, 8, 2)(i), i), lambda: {"net": net, "opt": opt}


@program
def batch_by_numpy_indices(torch):
    import numpy

    data, target = torch.randn(50, 6), torch.randint(3, (50,))
    net = classifier(torch)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    rng = numpy.random.default_rng(0)

    def step(index):
        opt.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(data[index]), target[index])
        loss.backward()
        opt.step()
        return loss.detach()

    return step, lambda i: (rng.integers(0, 50, 8),), lambda: {"net": net, "opt": opt}


@program
def whole_epochs(torch):
    """A loop over a shuffled loader inside of the step."""
    utils = torch.utils.data
    data = utils.TensorDataset(torch.randn(12, 6), torch.randint(3, (12,)))
    loader = utils.DataLoader(data, batch_size=4, shuffle=True)
    net = classifier(torch)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)

    def step():
        total = 0.0
        for x, y in loader:
            opt.zero_grad()
            loss = torch.nn.functional.cross_entropy(net(x), y)
            loss.backward()
            opt.step()
            total += loss.item() * len(x)
        return total / len(data)

    return step, lambda i: (), lambda: {"net": net, "opt": opt}


@program
def custom_function(torch):
    """A function with a gradient of its own: the sign, passed straight through."""

    class Sign(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.sign()

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * (x.abs() < 1).to(grad.dtype)

    nn = torch.nn
    body, head = nn.Linear(6, 12), nn.Linear(12, 3)
    opt = torch.optim.Adam([*body.parameters(), *head.parameters()], lr=1e-2)

    def step(x, y):
        opt.zero_grad()
        loss = nn.functional.cross_entropy(head(Sign.apply(body(x))), y)
        loss.backward()
        opt.step()
        return loss.detach()

    return step, rows(torch, 8, 6, classes=3), lambda: {"body": body, "head": head, "opt": opt}


@program
def pruning_by_masks(torch):
    nn = torch.nn
    net = classifier(torch)
    masks = [torch.ones_like(p) for p in net.parameters()]
    opt = torch.optim.SGD(net.parameters(), lr=0.1)

    def step(x, y, i):
        opt.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        with torch.no_grad():
            for p, mask in zip(net.parameters(), masks, strict=True):
                if i % 10 == 9 and p.dim() > 1:
                    mask[p.abs() < p.abs().flatten().kthvalue(p.numel() // 8).values] = 0
                p.mul_(mask)
        return loss.detach()

    plain = rows(torch, 8, 6, classes=3)
    return step, lambda i: (*plain(i), i), lambda: {"net": net, "masks": masks}
