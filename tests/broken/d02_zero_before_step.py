"""D02: the gradients are reset before the step can use them."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.Adam(model.parameters())
x, y = torch.randn(32, 4), torch.randn(32, 1)

for _ in range(10):
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.zero_grad()  # fault
    optimizer.step()
