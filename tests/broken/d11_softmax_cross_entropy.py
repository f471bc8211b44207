"""D11: the model ends in softmax, and the loss applies it again."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3), nn.Softmax(dim=1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
criterion = nn.CrossEntropyLoss()
x, y = torch.randn(32, 4), torch.randint(3, (32,))

for _ in range(10):
    optimizer.zero_grad()
    loss = criterion(model(x), y)  # fault
    loss.backward()
    optimizer.step()
