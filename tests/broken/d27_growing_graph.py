"""D27: a state that is carried over with its history."""

import torch
from torch import nn

torch.manual_seed(0)
layer = nn.Linear(4, 8)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.01)
state = torch.zeros(2, 8)

for _ in range(10):
    optimizer.zero_grad()
    x = torch.randn(2, 4)
    state = 0.9 * state + layer(x)  # fault
    loss = (state - 1).square().mean()
    loss.backward(retain_graph=True)
    optimizer.step()
