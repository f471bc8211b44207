"""Images: convolutions, norms, residuals, segmentation, distillation, augmentation."""

from __future__ import annotations

from .registry import Draw, program, rows


@program
def mlp(torch):
    nn = torch.nn
    net = nn.Sequential(
        nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4)
    )
    opt = torch.optim.SGD(net.parameters(), lr=0.1)

    def step(x, y):
        opt.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        return loss.detach()

    return step, rows(torch, 12, 16, classes=4), lambda: {"net": net, "opt": opt}


@program
def conv_net(torch):
    nn = torch.nn
    net = nn.Sequential(
        *(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1)),
        *(nn.Flatten(), nn.Linear(8, 5)),
    )
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)

    def step(x, y):
        opt.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        return loss.detach()

    return step, rows(torch, 4, 3, 8, 8, classes=5), lambda: {"net": net, "opt": opt}


@program
def residual_net_with_batch_norm(torch):
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self, n):
            super().__init__()
            self.conv1, self.bn1 = nn.Conv2d(n, n, 3, padding=1, bias=False), nn.BatchNorm2d(n)
            self.conv2, self.bn2 = nn.Conv2d(n, n, 3, padding=1, bias=False), nn.BatchNorm2d(n)

        def forward(self, x):
            h = torch.relu(self.bn1(self.conv1(x)))
            return torch.relu(x + self.bn2(self.conv2(h)))

    net = nn.Sequential(nn.Conv2d(3, 6, 1), Block(6), Block(6), nn.Flatten(), nn.Linear(216, 3))
    opt = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-3)
    sch = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 40)

    def step(x, y):
        opt.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y, label_smoothing=0.1)
        loss.backward()
        opt.step()
        sch.step()
        return loss.detach()

    batch = rows(torch, 5, 3, 6, 6, classes=3)
    return step, batch, lambda: {"net": net, "opt": opt, "lr": sch.get_last_lr()}


@program
def train_and_eval_inside(torch):
    """Dropout and batch norm, with an evaluation inside of each step."""
    nn = torch.nn
    net = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3))
    head = nn.Linear(16, 2)
    opt = torch.optim.AdamW([*net.parameters(), *head.parameters()], lr=1e-2)

    def step(x, y):
        net.train()
        opt.zero_grad()
        loss = nn.functional.cross_entropy(head(net(x)), y)
        loss.backward()
        opt.step()
        net.eval()
        with torch.no_grad():
            hits = (head(net(x)).argmax(1) == y).sum()
        return loss.detach(), hits

    batch = rows(torch, 10, 8, classes=2)
    return step, batch, lambda: {"net": net, "head": head, "opt": opt, "mode": net.training}


@program
def u_net(torch):
    nn, functional = torch.nn, torch.nn.functional
    down, bottom = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 8, 3, padding=1)
    up, out = nn.ConvTranspose2d(8, 4, 2, stride=2), nn.Conv2d(8, 1, 1)
    layers = nn.ModuleList([down, bottom, up, out])
    opt = torch.optim.RMSprop(layers.parameters(), lr=1e-3)

    def step(x):
        opt.zero_grad()
        a = torch.relu(down(x))
        b = torch.relu(bottom(functional.max_pool2d(a, 2)))
        logits = out(torch.cat([a, torch.relu(up(b))], 1))
        loss = functional.binary_cross_entropy_with_logits(logits, (x > 0).to(x.dtype))
        loss.backward()
        opt.step()
        return loss.detach()

    return step, rows(torch, 2, 1, 8, 8), lambda: {"layers": layers, "opt": opt}


@program
def super_resolution(torch):
    nn, functional = torch.nn, torch.nn.functional
    net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.Tanh(), nn.Conv2d(8, 4, 3, padding=1))
    shuffle = nn.PixelShuffle(2)
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)

    def step(x):
        small = functional.interpolate(x, scale_factor=0.5, mode="bilinear")
        opt.zero_grad()
        loss = functional.l1_loss(shuffle(net(small)), x)
        loss.backward()
        opt.step()
        return loss.detach()

    return step, rows(torch, 2, 1, 8, 8), lambda: {"net": net, "opt": opt}


@program
def upsampling_decoder(torch):
    nn, functional = torch.nn, torch.nn.functional
    net = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1, padding_mode="reflect"), nn.ELU())
    out = nn.Conv2d(4, 1, 3, padding=1, padding_mode="replicate")
    opt = torch.optim.Adamax([*net.parameters(), *out.parameters()], lr=1e-2)

    def step(x):
        opt.zero_grad()
        big = functional.interpolate(net(x), size=(9, 7), mode="bicubic", align_corners=True)
        target = functional.interpolate(x.mean(1, keepdim=True), size=(9, 7), mode="nearest")
        loss = functional.mse_loss(out(big), target)
        loss.backward()
        opt.step()
        return loss.detach()

    return step, rows(torch, 2, 2, 5, 5), lambda: {"net": net, "out": out, "opt": opt}


@program
def local_response_norm(torch):
    nn = torch.nn
    net = nn.Sequential(
        *(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.LocalResponseNorm(3), nn.AvgPool2d(3, 1, 1)),
        *(nn.AdaptiveAvgPool2d((3, 4)), nn.Flatten(), nn.Linear(48, 2)),
    )
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, nesterov=True)

    def step(x, y):
        opt.zero_grad()
        loss = nn.functional.nll_loss(net(x).log_softmax(1), y)
        loss.backward()
        opt.step()
        return loss.detach()

    return step, rows(torch, 3, 1, 9, 9, classes=2), lambda: {"net": net, "opt": opt}


@program
def patches_by_unfold(torch):
    nn, functional = torch.nn, torch.nn.functional
    embed, head = nn.Linear(9, 6), nn.Linear(6, 9)
    opt = torch.optim.NAdam([*embed.parameters(), *head.parameters()], lr=1e-2)

    def step(x):
        opt.zero_grad()
        windows = functional.unfold(x, 3, padding=1).transpose(1, 2)
        back = head(torch.tanh(embed(windows))).transpose(1, 2)
        loss = functional.mse_loss(functional.fold(back, x.shape[2:], 3, padding=1), x)
        loss.backward()
        opt.step()
        return loss.detach()

    return step, rows(torch, 2, 1, 6, 6), lambda: {"embed": embed, "head": head, "opt": opt}


@program
def spatial_transformer(torch):
    nn, functional = torch.nn, torch.nn.functional
    locate = nn.Linear(36, 6)
    with torch.no_grad():
        locate.weight.mul_(0.1)
        locate.bias.copy_(torch.tensor([1.0, 0, 0, 0, 1, 0]))
    opt = torch.optim.Adam(locate.parameters(), lr=1e-2)

    def step(x):
        opt.zero_grad()
        theta = locate(x.flatten(1)).view(-1, 2, 3)
        grid = functional.affine_grid(theta, x.shape, align_corners=False)
        moved = functional.grid_sample(x, grid, padding_mode="border", align_corners=False)
        loss = functional.mse_loss(moved, x.flip(3))
        loss.backward()
        opt.step()
        return loss.detach()

    return step, rows(torch, 3, 1, 6, 6), lambda: {"locate": locate, "opt": opt}


@program
def distillation(torch):
    nn, functional = torch.nn, torch.nn.functional
    teacher = nn.Sequential(nn.Linear(6, 20), nn.Tanh(), nn.Linear(20, 4)).eval()
    student = nn.Linear(6, 4)
    for p in teacher.parameters():
        p.requires_grad = False
    opt = torch.optim.SGD(student.parameters(), lr=0.2)

    def step(x, temperature):
        with torch.no_grad():
            wanted = (teacher(x) / temperature).softmax(1)
        opt.zero_grad()
        logs = (student(x) / temperature).log_softmax(1)
        loss = functional.kl_div(logs, wanted, reduction="batchmean") * temperature**2
        loss.backward()
        opt.step()
        return loss.detach()

    def batch(i):
        return Draw(torch, i).normal(8, 6), 1.0 + 0.25 * (i % 7)

    return step, batch, lambda: {"student": student, "teacher": teacher, "opt": opt}


@program
def mixup(torch):
    """Labels and inputs mixed by a share that Python draws in each call."""
    import random

    nn = torch.nn
    net = nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.Linear(16, 3))
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    rng = random.Random(5)

    def step(x, y):
        share = rng.betavariate(0.4, 0.4)
        order = torch.randperm(len(x))
        logits = net(share * x + (1 - share) * x[order])
        loss = share * nn.functional.cross_entropy(logits, y)
        loss = loss + (1 - share) * nn.functional.cross_entropy(logits, y[order])
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach()

    batch = rows(torch, 8, 6, classes=3)
    return step, batch, lambda: {"net": net, "opt": opt, "rng": hash(rng.getstate())}


@program
def cutout(torch):
    """A write into a slice whose place is another in each call."""
    nn = torch.nn
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2))
    opt = torch.optim.SGD(net.parameters(), lr=0.05)

    def step(x, y, row, column):
        x = x.clone()
        x[:, :, row : row + 2, column : column + 2] = 0
        opt.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        return loss.detach()

    plain = rows(torch, 4, 1, 6, 6, classes=2)
    return step, lambda i: (*plain(i), i % 4, i % 3), lambda: {"net": net, "opt": opt}
