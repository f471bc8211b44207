# ruff: noqa
# Seed 004: grad can be implicitly created only for scalar outputs.
import torch

x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
y = x + 2
z = y * y * 2
print(z)
z.backward()
