"""D12: log-probabilities go into cross_entropy."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 3)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
x, y = torch.randn(32, 4), torch.randint(3, (32,))

for _ in range(10):
    optimizer.zero_grad()
    log_probs = F.log_softmax(model(x), dim=1)
    loss = F.cross_entropy(log_probs, y)  # fault
    loss.backward()
    optimizer.step()
