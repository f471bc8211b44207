"""D21: thirty layers that start too large: the gradient grows on its way back."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(16, 16) for _ in range(30)])
        self.last = nn.Linear(16, 1)
        for layer in self.layers:
            nn.init.normal_(layer.weight, std=1.25)

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x))  # fault
        return self.last(x)


torch.manual_seed(0)
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)

for _ in range(20):
    x, y = torch.randn(32, 16), torch.randn(32, 1)
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
