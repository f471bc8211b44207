# ruff: noqa
# Seed 004: the second of three ways to stop tracking.
import torch

x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
y = x.detach()
print(y)
print(x)
