"""Programs for test_export_c.py.

`python export_c_programs.py NAME FOLDER` exports one, and writes what the compiled function is
given and what it answers.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import tapegrad as torch
import tapegrad.nn.functional as F
from tapegrad import nn

STEPS = 100


def trained(model: Any, optimizer: Any, loss_of: Any = F.cross_entropy) -> Any:
    def step(x, y):
        optimizer.zero_grad()
        loss = loss_of(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def scheduled(model: Any, optimizer: Any, scheduler: Any, most: float) -> Any:
    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), most)
        optimizer.step()
        scheduler.step()
        return loss

    return step


def classes(rows: int, *shape: int, count: int = 10) -> Any:
    return lambda g: (
        torch.randn(rows, *shape, generator=g),
        torch.randint(0, count, (rows,), generator=g),
    )


def mlp() -> Any:
    return nn.Sequential(
        nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10)
    )


def mlp_sgd() -> Any:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    return trained(model, optimizer), classes(32, 64)


def mlp_adam() -> Any:
    model = mlp()
    return trained(model, torch.optim.Adam(model.parameters(), lr=1e-3)), classes(32, 64)


def mlp_predicts() -> Any:
    model = nn.Sequential(nn.Linear(64, 128), nn.Tanh(), nn.Linear(128, 10), nn.Softmax(-1)).eval()
    return model, lambda g: (torch.randn(8, 64, generator=g),)


def physics() -> Any:
    place = torch.randn(64, 3).requires_grad_()

    def step(target):
        apart = place * 2 - target
        energy = (
            (apart**2).sum() + (torch.sin(place) * 0.1).sum() + torch.exp(-place.square()).mean()
        )
        energy.backward()
        with torch.no_grad():
            place.sub_(place.grad, alpha=0.01)
        place.grad = None
        return energy

    return step, lambda g: (torch.randn(64, 3, generator=g),)


def images() -> Any:
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, stride=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(144, 10),
    )


def conv_net() -> Any:
    model = images()
    return trained(model, torch.optim.SGD(model.parameters(), lr=0.01)), classes(8, 1, 28, 28)


def conv_predicts() -> Any:
    return images().eval(), lambda g: (torch.randn(8, 1, 28, 28, generator=g),)


class Last(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.head = nn.LSTM(16, 32, batch_first=True), nn.Linear(32, 5)

    def forward(self, x):
        return self.head(self.rnn(x)[0][:, -1])


def lstm() -> Any:
    model = Last()
    return trained(model, torch.optim.Adam(model.parameters())), classes(8, 12, 16, count=5)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.into, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, d = x.shape
        three = self.into(self.norms[0](x)).view(b, t, 3, self.heads, d // self.heads)
        q, k, v = three.permute(2, 0, 3, 1, 4).unbind(0)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.gelu(self.up(self.norms[1](x))))


def gpt() -> Any:
    letters, length, width = 65, 16, 32
    parts = nn.ModuleDict(
        {
            "letters": nn.Embedding(letters, width),
            "places": nn.Embedding(length, width),
            "blocks": nn.Sequential(Block(width, 4), Block(width, 4)),
            "norm": nn.LayerNorm(width),
            "head": nn.Linear(width, letters),
        }
    )
    optimizer = torch.optim.AdamW(parts.parameters(), lr=1e-3)
    places = torch.arange(length)

    def step(x, y):
        optimizer.zero_grad()
        h = parts["blocks"](parts["letters"](x) + parts["places"](places))
        loss = F.cross_entropy(parts["head"](parts["norm"](h)).view(-1, letters), y.view(-1))
        loss.backward()
        optimizer.step()
        return loss

    def batch(g):
        return tuple([torch.randint(0, letters, (4, length), generator=g) for _ in range(2)])

    return step, batch


def dropout() -> Any:
    model = nn.Sequential(nn.Linear(64, 48), nn.Dropout(0.3), nn.GELU(), nn.Linear(48, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 40)
    return scheduled(model, optimizer, scheduler, 0.5), classes(16, 64)


def batch_norm() -> Any:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.AvgPool2d(2),
        nn.Conv2d(8, 8, 3),  # an output of 6 times 6, then one of few pixels
        nn.ReLU(),
        nn.Conv2d(8, 12, 3, stride=2),
        nn.Flatten(),
        nn.Linear(48, 24),
        nn.BatchNorm1d(24),
        nn.Linear(24, 10),
    )
    return trained(model, torch.optim.RMSprop(model.parameters(), lr=1e-3)), classes(8, 3, 16, 16)


def normed_predicts() -> Any:
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.MaxPool2d(2), nn.Flatten())
    model(torch.randn(4, 3, 16, 16))  # the running statistics move
    return model.eval(), lambda g: (torch.randn(2, 3, 16, 16, generator=g),)


def group_norm() -> Any:
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1),
        nn.GroupNorm(2, 4),
        nn.SiLU(),
        nn.AdaptiveAvgPool2d(3),
        nn.Flatten(),
        nn.Linear(36, 10),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, nesterov=True, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 30)
    return scheduled(model, optimizer, scheduler, 1.0), classes(8, 3, 15, 14)


class LastOf(Last):
    def __init__(self, kind):
        super().__init__()
        self.rnn = getattr(nn, kind)(16, 32, num_layers=2, dropout=0.2, batch_first=True)


def gru() -> Any:
    model = LastOf("GRU")
    return trained(model, torch.optim.Adam(model.parameters())), classes(8, 12, 16, count=5)


def rnn() -> Any:
    model = LastOf("RNN")
    return trained(model, torch.optim.Adagrad(model.parameters())), classes(8, 12, 16, count=5)


def words() -> Any:
    model = nn.Sequential(nn.Embedding(50, 16), nn.LayerNorm(16), nn.Flatten(), nn.Linear(192, 5))
    return trained(model, torch.optim.AdamW(model.parameters())), lambda g: (
        torch.randint(0, 50, (4, 12), generator=g),
        torch.randint(0, 5, (4,), generator=g),
    )


def variational() -> Any:
    parts = nn.ModuleDict(
        {"into": nn.Linear(32, 24), "both": nn.Linear(24, 16), "out": nn.Linear(8, 32)}
    )
    optimizer = torch.optim.Adam(parts.parameters(), lr=1e-3)

    def step(x):
        optimizer.zero_grad()
        mean, spread = parts["both"](torch.relu(parts["into"](x))).chunk(2, -1)
        code = mean + torch.randn_like(mean) * (spread * 0.5).exp()
        loss = F.mse_loss(parts["out"](code), x, reduction="sum")
        loss = loss - 0.5 * (1 + spread - mean**2 - spread.exp()).sum()
        loss.backward()
        optimizer.step()
        return loss

    return step, lambda g: (torch.randn(6, 32, generator=g),)


def q_learning() -> Any:
    def network():
        return nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 3))

    model, target = network(), network()
    optimizer = torch.optim.Adam(model.parameters())

    def step(state, action, reward, following):
        with torch.no_grad():
            wanted = reward + 0.9 * target(following).max(1).values
        value = model(state).gather(1, action[:, None]).squeeze(1)
        loss = F.smooth_l1_loss(value, wanted)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(model.parameters(), 0.01)
        optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(target.parameters(), model.parameters(), strict=True):
                slow.lerp_(fast, 0.05)
        return loss

    return step, lambda g: (
        torch.randn(16, 4, generator=g),
        torch.randint(0, 3, (16,), generator=g),
        torch.randn(16, generator=g),
        torch.randn(16, 4, generator=g),
    )


def up_and_down() -> Any:
    down, up = nn.Conv2d(2, 8, 3, padding=1), nn.ConvTranspose2d(8, 4, 2, stride=2)
    last = nn.Conv2d(6, 1, 3, padding=1)
    both = nn.ModuleList([down, up, last])
    optimizer = torch.optim.SGD(both.parameters(), lr=0.05)

    def step(x, y):
        optimizer.zero_grad()
        h = up(F.max_pool2d(torch.relu(down(x)), 2))
        loss = F.binary_cross_entropy_with_logits(last(torch.cat([x, h], 1)), y)
        loss.backward()
        optimizer.step()
        return loss

    return step, lambda g: (
        torch.randn(2, 2, 14, 14, generator=g),
        torch.rand(2, 1, 14, 14, generator=g),
    )


PROGRAMS = {
    f.__name__: f
    for f in (
        *(mlp_sgd, mlp_adam, mlp_predicts, physics, conv_net, conv_predicts, lstm, gpt),
        *(dropout, batch_norm, normed_predicts, group_norm, gru, rnn, words, variational),
        *(q_learning, up_and_down),
    )
}


def main(name: str, folder: Path) -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    step, batch = PROGRAMS[name]()
    g = torch.Generator().manual_seed(1)
    example = batch(g)

    def predict(*args):
        with torch.no_grad():
            return step(*args)

    compiled = torch.compile(predict if isinstance(step, nn.Module) else step, fullgraph=True)
    for _ in range(20):  # calls 3, 8 and 16 run the function itself, whose sums have other orders
        compiled(*batch(g))
    sizes = torch.export.c(step, example, folder / "model.c")
    given, wanted = [], []
    for _ in range(STEPS):
        args = batch(g)
        given += [np.ascontiguousarray(t.numpy()).tobytes() for t in args]
        wanted.append(compiled(*args).detach().numpy().tobytes())
    (folder / "given.bin").write_bytes(b"".join(given))
    (folder / "wanted.bin").write_bytes(b"".join(wanted))
    sizes["results"] = len(wanted[0])
    sizes["arguments"] = [t.numpy().nbytes for t in example]
    plan = next(r for r in compiled.recordings.values() if r.run_steps).plan
    sizes["plan"] = -(-plan.total // 64) * 64
    (folder / "sizes.json").write_text(json.dumps(sizes))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
