# ruff: noqa
# Seed 004: without requires_grad there is no graph, and backward raises.
import torch

x = torch.tensor([1.0, 2.0, 3.0])
y = x + 2
print(y)
z = y * y * 2
z = z.mean()
print(z)
z.backward()
