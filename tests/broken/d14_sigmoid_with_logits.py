"""D14: sigmoid before the loss that applies it."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 1), nn.Sigmoid())
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
criterion = nn.BCEWithLogitsLoss()
x, y = torch.randn(32, 4), torch.randint(2, (32,)).float()

for _ in range(10):
    optimizer.zero_grad()
    loss = criterion(model(x).squeeze(1), y)  # fault
    loss.backward()
    optimizer.step()
