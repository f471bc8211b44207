# ruff: noqa
# Seed 004: tracking is off by default and shown by repr when it is on.
import torch

x = torch.randn(3)
print(x.shape, x.requires_grad, "requires_grad" in repr(x))
x = torch.randn(3, requires_grad=True)
print(x.shape, x.requires_grad, repr(x).endswith(", requires_grad=True)"))
