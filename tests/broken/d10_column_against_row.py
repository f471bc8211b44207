"""D10: predictions of shape (32, 1) and targets of shape (32,)."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x, y = torch.randn(32, 4), torch.randn(32)

for _ in range(10):
    optimizer.zero_grad()
    loss = ((model(x) - y) ** 2).mean()  # fault
    loss.backward()
    optimizer.step()
