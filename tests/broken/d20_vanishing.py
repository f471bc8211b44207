"""D20: ten layers of sigmoid."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(16, 16) for _ in range(10)])
        self.last = nn.Linear(16, 3)

    def forward(self, x):
        for layer in self.layers:
            x = torch.sigmoid(layer(x))  # fault
        return self.last(x)


torch.manual_seed(0)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.CrossEntropyLoss()

for _ in range(20):
    x, y = torch.randn(32, 16), torch.randint(3, (32,))
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
