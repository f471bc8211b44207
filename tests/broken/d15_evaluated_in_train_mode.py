"""D15: model.eval() was forgotten."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
criterion = nn.CrossEntropyLoss()
x, y = torch.randn(32, 4), torch.randint(3, (32,))

for _epoch in range(3):
    for _ in range(5):
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        predicted = model(x).argmax(dim=1)  # fault
        accuracy = (predicted == y).float().mean().item()
