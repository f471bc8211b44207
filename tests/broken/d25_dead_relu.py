"""D25: a bias that closes every unit for good."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 16)
        self.last = nn.Linear(16, 1)
        nn.init.constant_(self.first.bias, -50.0)

    def forward(self, x):
        h = torch.relu(self.first(x))  # fault
        return self.last(h)


torch.manual_seed(0)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

for _ in range(20):
    x = torch.randn(32, 4)
    y = x.sum(dim=1, keepdim=True)
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
