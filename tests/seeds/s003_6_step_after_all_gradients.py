# ruff: noqa
# Seed 003, its last text: the two cures, forward again or step when all gradients are there.
import torch
import torch.optim as optim

p0 = torch.tensor([1.0, 2.0], requires_grad=True)
optimizer = optim.SGD([p0], lr=0.1)
loss = (p0 * p0).sum()
loss.backward()
optimizer.step()
loss = (p0 * p0).sum()
loss.backward()
print(p0.grad)

p1 = torch.tensor([1.0, 2.0], requires_grad=True)
optimizer = optim.SGD([p1], lr=0.1)
loss = (p1 * p1).sum()
loss.backward(retain_graph=True)
loss.backward()
optimizer.step()
print(p1)
