# ruff: noqa
# Seed 003: backward and autograd.grad give the same; retain_grad keeps a non-leaf's; detach cuts.
import torch

x = torch.tensor([1.0, 2.0], requires_grad=True)
y = x * x
y.retain_grad()
z = y.sum()
z.backward()
print(x.grad)
print(y.grad)
print(torch.autograd.grad((x * x).sum(), x))
print(x.detach())
print(x.detach().requires_grad, (x * x).detach().grad_fn)
