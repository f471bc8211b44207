"""D13: nll_loss on probabilities, not on their logarithms."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 3)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
x, y = torch.randn(32, 4), torch.randint(3, (32,))

for _ in range(10):
    optimizer.zero_grad()
    probs = torch.softmax(model(x), dim=1)
    loss = F.nll_loss(probs, y)  # fault
    loss.backward()
    optimizer.step()
