"""A training program with types: passes `mypy --strict` and `pyright`.

Run it with either library; here the types come from tapegrad.
"""

from __future__ import annotations

import tapegrad as torch
from tapegrad import Tensor, nn, optim


class Net(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(2, width)
        self.out = nn.Linear(width, 1)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.out(self.hidden(x).tanh())  # a call of a module is Any, as in PyTorch
        return scores.squeeze(1)


def train(model: Net, x: Tensor, y: Tensor, steps: int) -> list[float]:
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    losses: list[float] = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss: Tensor = ((model(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def largest_gradient(model: Net) -> float:
    found = 0.0
    for parameter in model.parameters():
        grad = parameter.grad
        if grad is not None:
            found = max(found, grad.abs().max().item())
    return found


if __name__ == "__main__":
    torch.manual_seed(0)
    x = torch.randn(64, 2)
    y = x.sum(dim=1)
    net = Net(8)
    losses = train(net, x, y, 50)
    print(f"{losses[0]:.3f} -> {losses[-1]:.3f}, largest gradient {largest_gradient(net):.4f}")
    print(tuple(net.hidden.weight.shape))
