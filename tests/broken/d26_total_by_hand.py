"""D26: a running total with history, in a loop without an optimizer."""

import torch

torch.manual_seed(0)
x, y = torch.randn(32, 4), torch.randn(32)
w = torch.zeros(4, requires_grad=True)

total = 0.0
for _ in range(20):
    loss = ((x @ w - y) ** 2).mean()
    loss.backward()
    with torch.no_grad():
        w -= 0.1 * w.grad
    w.grad = None
    total += loss  # fault
