"""D19: a distance of exactly zero has no gradient; the loss itself looks fine."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 2, bias=False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(32, 4)
x[0] = 0.0

for _ in range(10):
    optimizer.zero_grad()
    distance = model(x).square().sum(dim=1).sqrt()  # fault
    loss = (distance - 1).square().mean()
    loss.backward()
    optimizer.step()
