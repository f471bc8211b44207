# ruff: noqa
# Seed 004: each operation leaves its backward function.
import torch

x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
print(x)
y = x + 2
print(y)
z = y * y * 2
print(z)
z = z.mean()
print(z)
z.backward()  # dz/dx
print(x.grad)
