# ruff: noqa
# Seed 004: torch.optim.SGD over the weights, one step and zero_grad.
import torch

weights = torch.ones(4, requires_grad=True)
optimizer = torch.optim.SGD([weights], lr=0.01)
(weights * 3).sum().backward()
optimizer.step()
print(weights)
optimizer.zero_grad()
print(weights.grad)
