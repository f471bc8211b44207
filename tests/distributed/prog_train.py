"""Three models trained by DDP, for PyTorch and tapegrad alike: losses and weights go to a file."""

from __future__ import annotations

import sys

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

STEPS = 50


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Linear(144, 10)

    def forward(self, x):
        return self.head(F.relu(self.norm(self.conv(x))).flatten(1))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mix, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        rows, length, width = x.shape
        parts = (
            self.mix(self.before(x)).view(rows, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        )
        mixed = F.scaled_dot_product_attention(*parts.unbind(0), is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(rows, length, width))
        return x + self.down(F.gelu(self.up(self.after(x))))


class GPT(nn.Module):
    def __init__(self, tokens=17, length=8, width=16):
        super().__init__()
        self.tokens, self.places = nn.Embedding(tokens, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(Block(width, 2), Block(width, 2))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, tokens, bias=False)

    def forward(self, x):
        x = self.tokens(x) + self.places(torch.arange(x.shape[1]))
        return self.head(self.norm(self.blocks(x)))


def setup(kind):
    """A model, an optimizer, and what makes (inputs, targets) of a number of rows."""
    if kind == "mlp":
        model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 10))
        shape = (16,)
    elif kind == "conv":
        model, shape = ConvNet(), (1, 8, 8)
    else:
        model = GPT()
        ddp = DDP(model, bucket_cap_mb=0.005)

        def draw(rows, generator):
            text = torch.randint(0, 17, (rows, 9), generator=generator)
            return text[:, :-1], text[:, 1:]

        return ddp, torch.optim.SGD(ddp.parameters(), 0.05, momentum=0.9), draw
    ddp = DDP(model)

    def draw(rows, generator):
        x = torch.randn(rows, *shape, generator=generator)
        return x, torch.randint(0, 10, (rows,), generator=generator)

    return ddp, torch.optim.SGD(ddp.parameters(), lr=0.1, momentum=0.9), draw


def train(kind):
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(10 + rank)
    ddp, optimizer, draw = setup(kind)
    generator = torch.Generator().manual_seed(3)
    losses = []
    for _ in range(STEPS):
        x, y = draw(8 * size, generator)
        optimizer.zero_grad()
        out = ddp(x[rank::size])
        loss = F.cross_entropy(out.reshape(-1, out.shape[-1]), y[rank::size].reshape(-1))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    state = ddp.module.state_dict().items()
    return {f"{kind} losses": losses, **{f"{kind} {name}": v.numpy() for name, v in state}}


if __name__ == "__main__":
    dist.init_process_group("gloo")
    results = {}
    for kind in ("mlp", "conv", "gpt"):
        results.update(train(kind))
    np.savez(f"{sys.argv[1]}{dist.get_rank()}.npz", **results)
    dist.destroy_process_group()
