"""D16: after the first evaluation nobody goes back to train mode."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
criterion = nn.CrossEntropyLoss()
x, y = torch.randn(32, 4), torch.randint(3, (32,))

for _epoch in range(3):
    for _ in range(5):
        optimizer.zero_grad()
        loss = criterion(model(x), y)  # fault
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        accuracy = (model(x).argmax(dim=1) == y).float().mean().item()
