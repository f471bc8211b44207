"""D17: F.dropout does not know that the model is in eval mode."""

import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 16)
        self.last = nn.Linear(16, 3)

    def forward(self, x):
        h = torch.relu(self.first(x))
        h = F.dropout(h, 0.5)  # fault
        return self.last(h)


torch.manual_seed(0)
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
x, y = torch.randn(32, 4), torch.randint(3, (32,))

for _epoch in range(2):
    model.train()
    for _ in range(5):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        accuracy = (model(x).argmax(dim=1) == y).float().mean().item()
