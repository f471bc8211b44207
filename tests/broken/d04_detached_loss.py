"""D04: the loss is made anew from a number, and `requires_grad` hides the error."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x, y = torch.randn(32, 4), torch.randn(32, 1)

for _ in range(10):
    optimizer.zero_grad()
    difference = model(x).detach() - y
    loss = difference.square().mean().requires_grad_()
    loss.backward()  # fault
    optimizer.step()
