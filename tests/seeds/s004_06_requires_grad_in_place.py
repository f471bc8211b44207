# ruff: noqa
# Seed 004: the first of three ways to stop tracking.
import torch

x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
print(x)
x.requires_grad_(False)
print(x)
