# ruff: noqa
# Seed 003: two losses over a shared part, then both optimizers; what the losses are stands in.
import torch
import torch.optim as optim

a = torch.tensor([1.0, 2.0], requires_grad=True)
b = torch.tensor([3.0, 4.0], requires_grad=True)
optimizer = optim.SGD([a], lr=0.1)
optimizer2 = optim.SGD([b], lr=0.5)
shared = a * b
loss1 = shared.sum()
loss2 = (shared * shared).sum()

loss1.backward(retain_graph=True)
loss2.backward(retain_graph=False)
optimizer.step()
optimizer2.step()
print(a.grad)
print(b.grad)
print(a)
print(b)
