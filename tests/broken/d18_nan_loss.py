"""D18: the logarithm of zero, once a relu has closed."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(32, 4)

for _ in range(10):
    optimizer.zero_grad()
    rate = torch.relu(model(x))
    likelihood = rate.log() - rate  # fault
    loss = -likelihood.mean()
    loss.backward()
    optimizer.step()
