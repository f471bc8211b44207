# ruff: noqa
# Seed 004: the third of three ways to stop tracking.
import torch

x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
with torch.no_grad():
    y = x + 2
    print(y)
y = x + 2
print(y)
